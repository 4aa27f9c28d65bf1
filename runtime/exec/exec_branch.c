// Which steps of an entry need not wait for each other, from the memory they read and write: a step
// waits only for the last steps that access what it writes or write what it accesses.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"

// MOST_STEPS: of an entry whose independent steps run concurrently; MOST_APART: of one whose
// exchanges do.
enum { MOST_STEPS = 256, MOST_APART = 2048 };

typedef struct Access {
    const char *begin, *end;
    bool written;
} Access;

typedef uint64_t *Steps; // a set of steps

static int words_for(int nsteps)
{
    return (nsteps + 63) / 64;
}

static bool has(const uint64_t *s, int i)
{
    return s[i / 64] >> i % 64 & 1;
}

static void add(Steps s, int i)
{
    s[i / 64] |= 1ull << i % 64;
}

static void add_all(Steps s, const uint64_t *t, int words)
{
    for (int i = 0; i < words; i++) s[i] |= t[i];
}

static bool writes(const ProgStep *s, int arg)
{
    return s->args[arg].written || (s->kind == PS_GEMM && arg == 2) ||
           (s->kind == PS_COPY && arg == 1) || (s->kind == PS_ZERO && arg == 0);
}

// The bytes of an argument that the step accesses.
static size_t touched(RtSession *s, const RtEntry *en, const ProgStep *st, int arg)
{
    const ProgBuffer *b = &en->e->buffers[st->args[arg].index];
    size_t scratch;
    if (rt_step_scratch(s, en, st, arg, &scratch)) return scratch;
    int64_t left = b->bytes - st->args[arg].value;
    return left > 0 ? (size_t)left : 1;
}

static int accesses(RtSession *s, const RtEntry *en, int step, Access *out)
{
    const ProgStep *st = en->step[step].s;
    int n = 0;
    for (int k = 0; k < st->nargs; k++) {
        size_t bytes = st->args[k].kind == PA_BUFFER ? touched(s, en, st, k) : 0;
        const char *p = en->slot[en->step[step].first_arg + k].p;
        if (bytes) out[n++] = (Access){p, p + bytes, writes(st, k)};
    }
    const char *error = (const char *)en->error;
    if (st->commits) out[n++] = (Access){error, error + sizeof(ProgError), false};
    return n;
}

static bool collide(const Access *a, int na, const Access *b, int nb)
{
    for (int i = 0; i < na; i++)
        for (int k = 0; k < nb; k++)
            if ((a[i].written || b[k].written) && a[i].begin < b[k].end && b[k].begin < a[i].end)
                return true;
    return false;
}

// Chooses the stream for a step: one whose last step it depends on, otherwise one whose steps have
// all ended by then, otherwise a new one.
static int pick(const RtBranches *b, const int *tail, const uint64_t *direct,
                const uint64_t *before)
{
    for (int k = 0; k <= b->streams; k++)
        if (tail[k] >= 0 && has(direct, tail[k])) return k;
    for (int k = 0; k <= b->streams; k++)
        if (tail[k] < 0 || has(before, tail[k])) return k;
    return b->streams < RT_BRANCHES ? b->streams + 1 : 0;
}

static bool assign(RtBranches *b, const bool *apart, Access **of, const int *nof)
{
    const int words = words_for(b->nsteps);
    uint64_t *all = calloc((size_t)(b->nsteps + 1) * (size_t)words, sizeof *all);
    Steps direct = all + (size_t)b->nsteps * (size_t)words;
    int tail[RT_BRANCHES + 1];
    if (!all) return false;
    for (int k = 0; k <= RT_BRANCHES; k++) tail[k] = -1;
    int nwaits = 0;
    for (int i = 0; i < b->nsteps; i++) {
        Steps before = all + (size_t)i * (size_t)words;
        memset(direct, 0, (size_t)words * sizeof *direct);
        for (int j = i - 1; j >= 0; j--)
            if (!has(before, j) && collide(of[i], nof[i], of[j], nof[j])) {
                add(direct, j);
                add(before, j);
                add_all(before, all + (size_t)j * (size_t)words, words);
            }
        int k = b->stream[i] = apart ? apart[i] : pick(b, tail, direct, before);
        if (k > b->streams) b->streams = k;
        if (tail[k] >= 0 && !has(before, tail[k])) { // an unnecessary wait, since the stream is
                                                     // shared
            add(before, tail[k]);
            add_all(before, all + (size_t)tail[k] * (size_t)words, words);
        }
        b->first_wait[i] = nwaits;
        bool any = tail[k] >= 0;
        for (int j = 0; j < i; j++) {
            if (!has(direct, j)) continue;
            any = true;
            if (j == tail[k]) continue;
            if (nwaits == b->cap) return free(all), false;
            b->wait[nwaits++] = j;
            b->waited[j] = true;
        }
        b->forks[i] = k > 0 && !any;
        tail[k] = i;
    }
    b->first_wait[b->nsteps] = nwaits;
    // Streams that the session's stream must wait for at the end.
    b->njoins = 0;
    for (int k = 1; k <= b->streams; k++) {
        const int last = tail[k];
        if (last < 0 || (tail[0] >= 0 && has(all + (size_t)tail[0] * (size_t)words, last)))
            continue;
        b->join[b->njoins++] = last;
        b->waited[last] = true;
    }
    free(all);
    return b->streams > 0;
}

RtBranches *rt_branches_new(RtSession *s, RtEntry *en)
{
    int n = en->e->nsteps;
    bool *apart = NULL;
    if (n < 2 || n > (rt_exchanges(en) ? MOST_APART : MOST_STEPS)) return NULL;
    for (int i = 0; i < n; i++)
        if (en->step[i].s->kind == PS_LOOP) return NULL;
    size_t nargs = 0;
    for (int i = 0; i < n; i++) nargs += (size_t)en->step[i].s->nargs + 1;
    RtBranches *b = calloc(1, sizeof *b);
    Access *all = calloc(nargs, sizeof *all), **of = calloc((size_t)n, sizeof *of);
    int *nof = calloc((size_t)n, sizeof *nof);
    bool ok = b && all && of && nof;
    if (ok) {
        b->nsteps = n;
        b->cap = 8 * n;
        b->stream = calloc((size_t)n, sizeof *b->stream);
        b->first_wait = calloc((size_t)n + 1, sizeof *b->first_wait);
        b->wait = calloc((size_t)b->cap, sizeof *b->wait);
        b->waited = calloc((size_t)n, sizeof *b->waited);
        b->forks = calloc((size_t)n, sizeof *b->forks);
        ok = b->stream && b->first_wait && b->wait && b->waited && b->forks;
    }
    Access *at = all;
    for (int i = 0; i < n && ok; i++) {
        of[i] = at;
        nof[i] = accesses(s, en, i, at);
        at += nof[i];
    }
    // Between devices: exchanges run beside everything else, in their order.
    if (ok && rt_exchanges(en)) {
        apart = calloc((size_t)n, sizeof *apart);
        for (int i = 0; apart && i < n; i++) apart[i] = en->step[i].s->kind == PS_EXCHANGE;
        ok = apart != NULL;
    }
    if (ok) b->apart = apart != NULL;
    ok = ok && assign(b, apart, of, nof);
    free(apart);
    free(all);
    free(of);
    free(nof);
    if (ok) return b;
    rt_branches_free(b);
    return NULL;
}

bool rt_exchanges(const RtEntry *en)
{
    for (int i = 0; i < en->e->nsteps; i++)
        if (en->step[i].s->kind == PS_EXCHANGE) return true;
    return false;
}

void rt_branches_free(RtBranches *b)
{
    if (!b) return;
    free(b->stream);
    free(b->first_wait);
    free(b->wait);
    free(b->waited);
    free(b->forks);
    free(b);
}

// -- recording ------------------------------------------------------------------------------------
typedef struct Recorder {
    RtObserver o;
    RtSession *s;
    const RtBranches *b;
    RtStream *stream[RT_BRANCHES + 1]; // stream[0]: the session's
    RtEvent **event, *fork;            // by step
} Recorder;

static RtCode before(void *ctx, RtEntry *en, int i, RtError *e)
{
    Recorder *r = ctx;
    const RtDeviceOps *ops = r->s->device->ops;
    RtStream *on = r->stream[r->b->stream[i]];
    (void)en;
    r->o.stream = on;
    if (r->b->forks[i] && ops->event_wait(on, r->fork, e)) return e->code;
    for (int k = r->b->first_wait[i]; k < r->b->first_wait[i + 1]; k++)
        if (ops->event_wait(on, r->event[r->b->wait[k]], e)) return e->code;
    return RT_OK;
}

static RtCode after(void *ctx, RtEntry *en, int i, RtError *e)
{
    Recorder *r = ctx;
    (void)en;
    if (!r->b->waited[i]) return RT_OK;
    return r->s->device->ops->event_record(r->event[i], r->o.stream, e);
}

static RtCode open_recorder(Recorder *r, RtError *e)
{
    const RtDeviceOps *ops = r->s->device->ops;
    r->event = calloc((size_t)r->b->nsteps, sizeof *r->event);
    if (!r->event) return rt_fail(e, RT_OOM, "out of memory");
    r->stream[0] = r->s->stream;
    RtCode code = ops->event_new(r->s->device, &r->fork, e);
    // (other devices wait for an exchange)
    const RtSessionOptions first = {.first = r->b->apart};
    for (int k = 1; k <= r->b->streams && !code; k++)
        code = ops->stream_new(r->s->device, &first, &r->stream[k], e);
    for (int i = 0; i < r->b->nsteps && !code; i++)
        if (r->b->waited[i]) code = ops->event_new(r->s->device, &r->event[i], e);
    return code;
}

static void close_recorder(Recorder *r)
{
    const RtDeviceOps *ops = r->s->device->ops;
    for (int i = 0; r->event && i < r->b->nsteps; i++)
        if (r->event[i]) ops->event_free(r->event[i]);
    if (r->fork) ops->event_free(r->fork);
    for (int k = 1; k <= r->b->streams; k++)
        if (r->stream[k]) ops->stream_free(r->stream[k]);
    free(r->event);
}

static RtCode once(Recorder *r, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = r->s->device->ops;
    if (ops->event_record(r->fork, r->stream[0], e) || rt_entry_steps(r->s, en, &r->o, e))
        return e->code;
    for (int k = 0; k < r->b->njoins; k++)
        if (ops->event_wait(r->stream[0], r->event[r->b->join[k]], e)) return e->code;
    return RT_OK;
}

RtGraph *rt_branches_record(RtSession *s, RtEntry *en, const RtBranches *b, int times,
                            int *kernel_nodes)
{
    const RtDeviceOps *ops = s->device->ops;
    Recorder r = {.s = s, .b = b};
    r.o = (RtObserver){.before = before, .after = after, .ctx = &r};
    RtError e = {0}, end = {0};
    RtGraph *g = NULL;
    if (!open_recorder(&r, &e) && !ops->capture_begin(s->stream, &e)) {
        for (int i = 0; i < times && !e.code; i++) once(&r, en, &e);
        ops->capture_end(s->stream, &g, kernel_nodes, &end);
        if (e.code && g) {
            ops->graph_free(g);
            g = NULL;
        }
    }
    close_recorder(&r);
    return g;
}
