// Microbenchmarks: buffers with made-up contents, kernels run on them, compared and timed.
#include "runtime/exec/microbench.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/exec/exec.h"

enum {
    MOST_SETS = 32,
    MOST_CALLS = 64, // per round
    ROUNDS = 9,
    BLOCK = 1 << 20, // bytes of contents generated at once, which are repeated
    ALIGN = 256,
};
// In total, all sets of buffers are larger than any device's cache.
#define ROTATED (256ll << 20)

struct RtMicrobench {
    RtDevice *d;
    RtStream *stream;
    RtMicrobenchBuffer *buffer;
    int n, sets;
    int64_t set_bytes, *offset; // bytes of a set; offset by buffer
    char *block, *scratch;
    int64_t scratch_bytes;
};

static int64_t buffer_bytes(const RtMicrobenchBuffer *b)
{
    return b->count * prog_dtype_bytes(b->type);
}

static int64_t round_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// -- contents -------------------------------------------------------------------------------------

static double content(const RtMicrobenchBuffer *b, uint64_t h)
{
    int64_t range = b->high > b->low ? b->high - b->low : 1;
    if (b->fill == MICROBENCH_ZERO) return 0;
    if (b->type >= PD_BF16) return 0.25 + (double)(h >> 11) * 0x1p-53;
    return (double)(b->low + (int64_t)(h >> 16 & 0x7fffffff) % range);
}

// Contents repeat with a period slightly below BLOCK bytes, so that rows whose length is a power of
// two differ.
static RtCode fill(RtMicrobench *bench, int set, int which, RtError *e)
{
    const RtMicrobenchBuffer *b = &bench->buffer[which];
    const RtDeviceOps *ops = bench->d->ops;
    int size = prog_dtype_bytes(b->type);
    int64_t bytes = buffer_bytes(b), period = BLOCK - 24 * 13;
    char *to = bench->block + set * bench->set_bytes + bench->offset[which];
    if (period > bytes) period = bytes;
    if (!period) return RT_OK;
    char *host = malloc((size_t)period);
    if (!host) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t i = 0; i < period / size; i++)
        prog_store(b->type, host + i * size,
                   content(b, hash_mix((uint64_t)which + 1, (uint64_t)i)));
    for (int64_t at = 0; at < bytes && !e->code; at += period)
        ops->copy(bench->stream, to + at, host, (size_t)(bytes - at < period ? bytes - at : period),
                  RT_H2D, NULL, e);
    if (!e->code) ops->stream_sync(bench->stream, e);
    free(host);
    return e->code;
}

// -- opening --------------------------------------------------------------------------------------

static RtCode open_microbench(RtMicrobench *bench, RtError *e)
{
    const RtDeviceOps *ops = bench->d->ops;
    size_t available = 0, total = 0;
    for (int i = 0; i < bench->n; i++) {
        bench->offset[i] = bench->set_bytes;
        bench->set_bytes += round_up(buffer_bytes(&bench->buffer[i]) + 1);
    }
    if (!ops->memory(bench->d, &available, &total)) available = (size_t)bench->set_bytes * 4;
    bench->sets = MOST_SETS;
    while (bench->sets > 1 && ((bench->sets - 1) * bench->set_bytes >= ROTATED ||
                               bench->sets * bench->set_bytes > (int64_t)(available / 2)))
        bench->sets--;
    if (ops->alloc(bench->d, (size_t)(bench->sets * bench->set_bytes),
                   "the buffers of a kernel alone", (void **)&bench->block, e))
        return e->code;
    if (ops->stream_new(bench->d, NULL, &bench->stream, e)) return e->code;
    for (int s = 0; s < bench->sets; s++)
        for (int i = 0; i < bench->n; i++)
            if (fill(bench, s, i, e)) return e->code;
    return RT_OK;
}

RtCode rt_microbench_new(RtDevice *d, const RtMicrobenchBuffer *buffers, int n, RtMicrobench **out,
                         RtError *e)
{
    RtMicrobench *bench = calloc(1, sizeof *bench);
    *out = NULL;
    if (bench) {
        bench->d = d;
        bench->n = n;
        bench->buffer = malloc(((size_t)n + 1) * sizeof *bench->buffer);
        bench->offset = calloc((size_t)n + 1, sizeof *bench->offset);
    }
    if (!bench || !bench->buffer || !bench->offset) {
        rt_microbench_free(bench);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    if (n) memcpy(bench->buffer, buffers, (size_t)n * sizeof *buffers);
    RtCode code = d->ops->enter(d, e);
    if (!code) {
        code = open_microbench(bench, e);
        d->ops->leave(d);
    }
    if (code)
        rt_microbench_free(bench);
    else
        *out = bench;
    return code;
}

void rt_microbench_free(RtMicrobench *bench)
{
    RtError e = {0};
    if (!bench) return;
    if (bench->d->ops->enter(bench->d, &e) == RT_OK) {
        if (bench->stream) bench->d->ops->stream_free(bench->stream);
        bench->d->ops->free(bench->d, bench->block);
        bench->d->ops->free(bench->d, bench->scratch);
        bench->d->ops->leave(bench->d);
    }
    free(bench->buffer);
    free(bench->offset);
    free(bench);
}

// -- running --------------------------------------------------------------------------------------

static RtCode need_scratch(RtMicrobench *bench, int64_t bytes, RtError *e)
{
    const RtDeviceOps *ops = bench->d->ops;
    if (bytes <= bench->scratch_bytes) return RT_OK;
    ops->free(bench->d, bench->scratch);
    bench->scratch = NULL;
    bench->scratch_bytes = 0;
    RtCode code = ops->alloc(bench->d, (size_t)bytes, "scratch", (void **)&bench->scratch, e);
    if (!code) bench->scratch_bytes = bytes;
    return code;
}

static RtCode enqueue(RtMicrobench *bench, const RtTrial *t, int set, RtError *e)
{
    enum { MOST = 1024 };
    RtSlot slot[MOST];
    void *argv[MOST];
    const RtDeviceOps *ops = bench->d->ops;
    for (int c = 0; c < t->ncalls; c++) {
        const RtMicrobenchCall *call = &t->calls[c];
        if (call->nargs > MOST)
            return rt_fail(e, RT_ENV, "a kernel of %d arguments cannot run alone", call->nargs);
        for (int i = 0; i < call->nargs; i++) {
            const RtMicrobenchArg *a = &call->args[i];
            if (a->kind == MICROBENCH_VALUE)
                slot[i].v = a->value;
            else if (a->kind == MICROBENCH_SCRATCH)
                slot[i].p = bench->scratch + a->value;
            else
                slot[i].p = bench->block + set * bench->set_bytes + bench->offset[a->buffer];
            argv[i] =
                ops->args_by_address || a->kind == MICROBENCH_VALUE ? (void *)&slot[i] : slot[i].p;
        }
        if (ops->launch(bench->stream, t->program->module, call->kernel, argv, e)) return e->code;
    }
    return RT_OK;
}

static RtCode run(RtMicrobench *bench, const RtTrial *t, RtError *e)
{
    if (need_scratch(bench, t->scratch, e)) return e->code;
    for (int i = 0; i < bench->n; i++)
        if (bench->buffer[i].written && fill(bench, 0, i, e)) return e->code;
    if (enqueue(bench, t, 0, e)) return e->code;
    return bench->d->ops->stream_sync(bench->stream, e);
}

RtCode rt_microbench_run(RtMicrobench *bench, const RtTrial *t, RtError *e)
{
    if (bench->d->ops->enter(bench->d, e)) return e->code;
    run(bench, t, e);
    bench->d->ops->leave(bench->d);
    return e->code;
}

RtCode rt_microbench_read(RtMicrobench *bench, int buffer, void **at, size_t *bytes, RtError *e)
{
    const RtDeviceOps *ops = bench->d->ops;
    int64_t whole = buffer_bytes(&bench->buffer[buffer]);
    int pieces = whole > MICROBENCH_WHOLE ? MICROBENCH_PIECES : 1;
    int64_t each = pieces > 1 ? MICROBENCH_WHOLE / MICROBENCH_PIECES : whole,
            stride = pieces > 1 ? (whole - each) / (pieces - 1) / 16 * 16 : 0;
    *bytes = (size_t)(pieces * each);
    *at = malloc(*bytes + 1);
    if (!*at) return rt_fail(e, RT_OOM, "out of memory");
    if (ops->enter(bench->d, e)) return e->code;
    for (int i = 0; i < pieces && !e->code && each; i++)
        ops->copy(bench->stream, (char *)*at + i * each,
                  bench->block + bench->offset[buffer] +
                      (i == pieces - 1 ? whole - each : i * stride),
                  (size_t)each, RT_D2H, NULL, e);
    if (!e->code) ops->stream_sync(bench->stream, e);
    ops->leave(bench->d);
    return e->code;
}

// -- timing ---------------------------------------------------------------------------------------

typedef struct Timing {
    RtMicrobench *bench;
    const RtTrial *t;
    RtEvent *begin, *end;
    RtGraph *graph; // of [calls] executions, or NULL
    int calls;
} Timing;

static RtCode round_of(Timing *g, double *seconds, RtError *e)
{
    const RtDeviceOps *ops = g->bench->d->ops;
    RtStream *s = g->bench->stream;
    if (ops->event_record(g->begin, s, e)) return e->code;
    if (g->graph) ops->graph_launch(s, g->graph, e);
    for (int i = 0; i < g->calls && !g->graph && !e->code; i++)
        enqueue(g->bench, g->t, i % g->bench->sets, e);
    if (e->code || ops->event_record(g->end, s, e) || ops->event_sync(g->end, e)) return e->code;
    if (ops->event_seconds(g->begin, g->end, seconds, e)) return e->code;
    *seconds /= g->calls;
    return RT_OK;
}

// Records the calls as a graph. If that fails, this is no error: they are enqueued one by one.
static void record(Timing *g)
{
    const RtDeviceOps *ops = g->bench->d->ops;
    RtError begin = {0}, steps = {0}, end = {0};
    int nodes;
    if (!ops->capture_begin || ops->capture_begin(g->bench->stream, &begin)) return;
    for (int i = 0; i < g->calls && !steps.code; i++)
        enqueue(g->bench, g->t, i % g->bench->sets, &steps);
    ops->capture_end(g->bench->stream, &g->graph, &nodes, &end);
    if (steps.code && g->graph) {
        ops->graph_free(g->graph);
        g->graph = NULL;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static RtCode measure(Timing *g, double *seconds, double *spread, RtError *e)
{
    const RtDeviceOps *ops = g->bench->d->ops;
    double one = 0, t[ROUNDS];
    if (need_scratch(g->bench, g->t->scratch, e)) return e->code;
    if (ops->event_new(g->bench->d, &g->begin, e) || ops->event_new(g->bench->d, &g->end, e))
        return e->code;
    g->calls = 1;
    for (int i = 0; i < 2; i++) // the first one loads the code
        if (round_of(g, &one, e)) return e->code;
    const double enough = 1e-3;
    g->calls = one * MOST_CALLS < enough ? MOST_CALLS : one > enough ? 1 : (int)(enough / one);
    if (g->calls < 4 && one < 20e-3) g->calls = 4;
    int rounds = one > 20e-3 ? 3 : ROUNDS;
    record(g);
    if (g->graph && round_of(g, &one, e)) return e->code;
    for (int i = 0; i < rounds; i++)
        if (round_of(g, &t[i], e)) return e->code;
    qsort(t, (size_t)rounds, sizeof *t, by_value);
    *seconds = t[rounds / 2];
    *spread = t[rounds * 3 / 4] - t[rounds / 4];
    return RT_OK;
}

RtCode rt_microbench_time(RtMicrobench *bench, const RtTrial *t, double *seconds, double *spread,
                          RtError *e)
{
    const RtDeviceOps *ops = bench->d->ops;
    Timing g = {.bench = bench, .t = t};
    if (ops->enter(bench->d, e)) return e->code;
    measure(&g, seconds, spread, e);
    if (g.graph) ops->graph_free(g.graph);
    if (g.begin) ops->event_free(g.begin);
    if (g.end) ops->event_free(g.end);
    ops->leave(bench->d);
    return e->code;
}
