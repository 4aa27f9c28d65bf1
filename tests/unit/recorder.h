// The CPU device made to record, for tests of graphs without a GPU. A launched graph runs its nodes
// in a random order that its edges allow, so that a missing edge gives another result than the
// steps in a row. Steps inside loops cannot be recorded: their arguments change in place.
#ifndef TESTS_UNIT_RECORDER_H
#define TESTS_UNIT_RECORDER_H

#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"
#include "tests/unit/unit.h"

enum { MOST_NODES = 4096, WORDS = MOST_NODES / 64 };

typedef struct Set {
    uint64_t w[WORDS];
    uint64_t recorded; // not 0: of a stream that takes part in the recording
} Set;

struct RtEvent {
    Set after;
    double at;
};

typedef struct Recorded {
    ProgStepKind kind;
    RtModule *module;
    int index;
    void *const *argv;   // of a kernel
    const RtSlot *slots; // of a matmul
    void *to;
    const void *from, *gate;
    size_t bytes;
    Set deps;
} Recorded;

struct RtGraph {
    int n;
    bool row; // every node waits for the one before
    Recorded *node;
};

typedef struct Fake {
    RtDeviceOps ops;
    bool recording;
    RtGraph *graph;
    RtStream *main, *side[8];
    Set tail[9]; // of main, then of side
    int nside;
    double clock, side_cost; // of a node of a graph with branches; 1 in a row
    int launched[2];         // graphs of one execution excepted: in a row, with branches
    int steps;               // of one execution
    unsigned seed;
} Fake;

// The table of operations has no place for a context.
static Fake *fake;

static unsigned chance(unsigned n)
{
    fake->seed = fake->seed * 1664525u + 1013904223u;
    return (fake->seed >> 16) % n;
}

static Set *tail_of(RtStream *s)
{
    if (s == fake->main) return &fake->tail[0];
    for (int i = 0; i < fake->nside; i++)
        if (fake->side[i] == s) return &fake->tail[i + 1];
    CHECK(fake->nside < 8);
    fake->side[fake->nside] = s;
    memset(&fake->tail[fake->nside + 1], 0, sizeof(Set));
    return &fake->tail[++fake->nside];
}

static void node(RtStream *s, Recorded n)
{
    RtGraph *g = fake->graph;
    Set *tail = tail_of(s);
    CHECK(g->n < MOST_NODES);
    // A stream takes part in a recording only after it has waited for one that does.
    CHECK(tail->recorded);
    n.deps = *tail;
    Set before = {.recorded = 1};
    if (g->n) before.w[(g->n - 1) / 64] |= 1ull << (g->n - 1) % 64;
    if (memcmp(&before, tail, sizeof before)) g->row = false;
    *tail = (Set){.recorded = 1};
    tail->w[g->n / 64] |= 1ull << g->n % 64;
    g->node[g->n++] = n;
}

static RtCode fake_begin(RtStream *s, RtError *e)
{
    (void)e;
    fake->main = s;
    fake->nside = 0;
    memset(fake->tail, 0, sizeof fake->tail);
    fake->tail[0].recorded = 1;
    fake->graph = calloc(1, sizeof *fake->graph);
    fake->graph->node = calloc(MOST_NODES, sizeof(Recorded));
    fake->graph->row = true;
    return fake->recording = true, RT_OK;
}

static void fake_graph_free(RtGraph *g)
{
    free(g->node);
    free(g);
}

static RtCode fake_end(RtStream *s, RtGraph **out, int *nodes, RtError *e)
{
    (void)e;
    RtGraph *g = fake->graph;
    Set joined = *tail_of(s);
    int n = 0;
    for (int i = g->n; i-- > 0;)
        if (joined.w[i / 64] >> i % 64 & 1) {
            for (int k = 0; k < WORDS; k++) joined.w[k] |= g->node[i].deps.w[k];
            n++;
        }
    CHECK_MSG(n == g->n, "%d of %d nodes joined", n, g->n);
    fake->recording = false;
    *out = g;
    *nodes = g->n;
    return RT_OK;
}

static RtCode fake_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.launch(s, m, kernel, argv, e);
    return node(s, (Recorded){.kind = PS_KERNEL, .module = m, .index = kernel, .argv = argv}),
           RT_OK;
}

static RtCode fake_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.gemm(s, m, gemm, slots, e);
    return node(s, (Recorded){.kind = PS_GEMM, .module = m, .index = gemm, .slots = slots}), RT_OK;
}

static RtCode fake_copy(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                        const void *gate, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.copy(s, to, from, bytes, kind, gate, e);
    return node(s,
                (Recorded){.kind = PS_COPY, .to = to, .from = from, .gate = gate, .bytes = bytes}),
           RT_OK;
}

static RtCode fake_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.zero(s, to, bytes, gate, e);
    return node(s, (Recorded){.kind = PS_ZERO, .to = to, .gate = gate, .bytes = bytes}), RT_OK;
}

static RtCode play(RtStream *s, const Recorded *n, RtError *e)
{
    switch (n->kind) {
    case PS_KERNEL: return rt_cpu_ops.launch(s, n->module, n->index, n->argv, e);
    case PS_GEMM: return rt_cpu_ops.gemm(s, n->module, n->index, n->slots, e);
    case PS_COPY: return rt_cpu_ops.copy(s, n->to, n->from, n->bytes, RT_D2D, n->gate, e);
    case PS_ZERO: return rt_cpu_ops.zero(s, n->to, n->bytes, n->gate, e);
    case PS_EXCHANGE: // (of a group only)
    case PS_AGREE:
    case PS_SKIP: // (of a CPU only)
    case PS_LOOP: break;
    }
    return RT_OK;
}

static RtCode fake_graph_launch(RtStream *s, RtGraph *g, RtError *e)
{
    static bool done[MOST_NODES];
    Set over = {.recorded = 0};
    memset(done, 0, sizeof done);
    for (int left = g->n; left > 0; left--) {
        int pick = -1, ready = 0, seen = 0;
        for (int i = 0; i < g->n && seen < 32; i++) {
            if (done[i]) continue;
            seen++;
            bool ok = true;
            for (int k = 0; k < WORDS && ok; k++) ok = !(g->node[i].deps.w[k] & ~over.w[k]);
            if (ok && chance((unsigned)++ready) == 0) pick = i;
        }
        CHECK(pick >= 0);
        if (pick < 0) return RT_OK;
        if (play(s, &g->node[pick], e)) return e->code;
        done[pick] = true;
        over.w[pick / 64] |= 1ull << pick % 64;
    }
    if (g->n > fake->steps) fake->launched[g->row ? 0 : 1]++;
    fake->clock += g->n * (g->row ? 1 : fake->side_cost);
    return RT_OK;
}

static RtCode fake_event_new(RtDevice *d, RtEvent **out, RtError *e)
{
    (void)d, (void)e;
    *out = calloc(1, sizeof **out);
    return RT_OK;
}

static void fake_event_free(RtEvent *v)
{
    free(v);
}

static RtCode fake_event_record(RtEvent *v, RtStream *s, RtError *e)
{
    (void)e;
    if (fake->recording) v->after = *tail_of(s);
    v->at = fake->clock;
    return RT_OK;
}

static RtCode fake_event_wait(RtStream *s, RtEvent *v, RtError *e)
{
    (void)e;
    Set *tail = tail_of(s);
    for (int i = 0; i < WORDS; i++) tail->w[i] |= v->after.w[i];
    tail->recorded |= v->after.recorded;
    return RT_OK;
}

static RtCode fake_event_sync(RtEvent *v, RtError *e)
{
    (void)v, (void)e;
    return RT_OK;
}

static RtCode fake_event_seconds(RtEvent *begin, RtEvent *end, double *seconds, RtError *e)
{
    (void)e;
    *seconds = end->at - begin->at;
    return RT_OK;
}

static void fake_init(Fake *f)
{
    *f = (Fake){.ops = rt_cpu_ops, .seed = 5};
    f->ops.capture_begin = fake_begin;
    f->ops.capture_end = fake_end;
    f->ops.graph_launch = fake_graph_launch;
    f->ops.graph_free = fake_graph_free;
    f->ops.launch = fake_launch;
    f->ops.gemm = fake_gemm;
    f->ops.copy = fake_copy;
    f->ops.zero = fake_zero;
    f->ops.event_new = fake_event_new;
    f->ops.event_free = fake_event_free;
    f->ops.event_record = fake_event_record;
    f->ops.event_wait = fake_event_wait;
    f->ops.event_sync = fake_event_sync;
    f->ops.event_seconds = fake_event_seconds;
    fake = f;
}

#endif
