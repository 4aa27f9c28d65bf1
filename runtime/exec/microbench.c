// The lab: buffers with made-up contents, kernels run on them, compared and timed.
#include "runtime/exec/microbench.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/exec/exec.h"

enum {
    MOST_SETS = 32,
    MOST_CALLS = 64, // in a round
    ROUNDS = 9,
    BLOCK = 1 << 20, // bytes of contents made at once; they repeat
    ALIGN = 256,
};
// All sets together are larger than any device's cache.
#define ROTATED (256ll << 20)

struct RtLab {
    RtDevice *d;
    RtStream *stream;
    RtLabBuffer *buffer;
    int n, sets;
    int64_t set_bytes, *offset; // of one set; by buffer
    char *block, *scratch;
    int64_t scratch_bytes;
};

static int64_t buffer_bytes(const RtLabBuffer *b)
{
    return b->count * prog_dtype_bytes(b->type);
}

static int64_t round_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// -- contents -------------------------------------------------------------------------------------

static double content(const RtLabBuffer *b, uint64_t h)
{
    int64_t range = b->high > b->low ? b->high - b->low : 1;
    if (b->fill == LAB_ZERO) return 0;
    if (b->type >= PD_BF16) return 0.25 + (double)(h >> 11) * 0x1p-53;
    return (double)(b->low + (int64_t)(h >> 16 & 0x7fffffff) % range);
}

// Contents repeat every BLOCK bytes less a few, so that rows of round lengths differ.
static RtCode fill(RtLab *lab, int set, int which, RtError *e)
{
    const RtLabBuffer *b = &lab->buffer[which];
    const RtDeviceOps *ops = lab->d->ops;
    int size = prog_dtype_bytes(b->type);
    int64_t bytes = buffer_bytes(b), period = BLOCK - 24 * 13;
    char *to = lab->block + set * lab->set_bytes + lab->offset[which];
    if (period > bytes) period = bytes;
    if (!period) return RT_OK;
    char *host = malloc((size_t)period);
    if (!host) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t i = 0; i < period / size; i++)
        prog_store(b->type, host + i * size,
                   content(b, hash_mix((uint64_t)which + 1, (uint64_t)i)));
    for (int64_t at = 0; at < bytes && !e->code; at += period)
        ops->copy(lab->stream, to + at, host, (size_t)(bytes - at < period ? bytes - at : period),
                  RT_H2D, NULL, e);
    if (!e->code) ops->stream_sync(lab->stream, e);
    free(host);
    return e->code;
}

// -- opening --------------------------------------------------------------------------------------

static RtCode open_lab(RtLab *lab, RtError *e)
{
    const RtDeviceOps *ops = lab->d->ops;
    size_t available = 0, total = 0;
    for (int i = 0; i < lab->n; i++) {
        lab->offset[i] = lab->set_bytes;
        lab->set_bytes += round_up(buffer_bytes(&lab->buffer[i]) + 1);
    }
    if (!ops->memory(lab->d, &available, &total)) available = (size_t)lab->set_bytes * 4;
    lab->sets = MOST_SETS;
    while (lab->sets > 1 && ((lab->sets - 1) * lab->set_bytes >= ROTATED ||
                             lab->sets * lab->set_bytes > (int64_t)(available / 2)))
        lab->sets--;
    if (ops->alloc(lab->d, (size_t)(lab->sets * lab->set_bytes), "the buffers of a kernel alone",
                   (void **)&lab->block, e))
        return e->code;
    if (ops->stream_new(lab->d, NULL, &lab->stream, e)) return e->code;
    for (int s = 0; s < lab->sets; s++)
        for (int i = 0; i < lab->n; i++)
            if (fill(lab, s, i, e)) return e->code;
    return RT_OK;
}

RtCode rt_lab_new(RtDevice *d, const RtLabBuffer *buffers, int n, RtLab **out, RtError *e)
{
    RtLab *lab = calloc(1, sizeof *lab);
    *out = NULL;
    if (lab) {
        lab->d = d;
        lab->n = n;
        lab->buffer = malloc(((size_t)n + 1) * sizeof *lab->buffer);
        lab->offset = calloc((size_t)n + 1, sizeof *lab->offset);
    }
    if (!lab || !lab->buffer || !lab->offset) {
        rt_lab_free(lab);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    if (n) memcpy(lab->buffer, buffers, (size_t)n * sizeof *buffers);
    RtCode code = d->ops->enter(d, e);
    if (!code) {
        code = open_lab(lab, e);
        d->ops->leave(d);
    }
    if (code)
        rt_lab_free(lab);
    else
        *out = lab;
    return code;
}

void rt_lab_free(RtLab *lab)
{
    RtError e = {0};
    if (!lab) return;
    if (lab->d->ops->enter(lab->d, &e) == RT_OK) {
        if (lab->stream) lab->d->ops->stream_free(lab->stream);
        lab->d->ops->free(lab->d, lab->block);
        lab->d->ops->free(lab->d, lab->scratch);
        lab->d->ops->leave(lab->d);
    }
    free(lab->buffer);
    free(lab->offset);
    free(lab);
}

// -- running --------------------------------------------------------------------------------------

static RtCode need_scratch(RtLab *lab, int64_t bytes, RtError *e)
{
    const RtDeviceOps *ops = lab->d->ops;
    if (bytes <= lab->scratch_bytes) return RT_OK;
    ops->free(lab->d, lab->scratch);
    lab->scratch = NULL;
    lab->scratch_bytes = 0;
    RtCode code = ops->alloc(lab->d, (size_t)bytes, "scratch", (void **)&lab->scratch, e);
    if (!code) lab->scratch_bytes = bytes;
    return code;
}

static RtCode enqueue(RtLab *lab, const RtTrial *t, int set, RtError *e)
{
    enum { MOST = 1024 };
    RtSlot slot[MOST];
    void *argv[MOST];
    const RtDeviceOps *ops = lab->d->ops;
    for (int c = 0; c < t->ncalls; c++) {
        const RtLabCall *call = &t->calls[c];
        if (call->nargs > MOST)
            return rt_fail(e, RT_ENV, "a kernel of %d arguments cannot run alone", call->nargs);
        for (int i = 0; i < call->nargs; i++) {
            const RtLabArg *a = &call->args[i];
            if (a->kind == LAB_VALUE)
                slot[i].v = a->value;
            else if (a->kind == LAB_SCRATCH)
                slot[i].p = lab->scratch + a->value;
            else
                slot[i].p = lab->block + set * lab->set_bytes + lab->offset[a->buffer];
            argv[i] = ops->args_by_address || a->kind == LAB_VALUE ? (void *)&slot[i] : slot[i].p;
        }
        if (ops->launch(lab->stream, t->program->module, call->kernel, argv, e)) return e->code;
    }
    return RT_OK;
}

static RtCode run(RtLab *lab, const RtTrial *t, RtError *e)
{
    if (need_scratch(lab, t->scratch, e)) return e->code;
    for (int i = 0; i < lab->n; i++)
        if (lab->buffer[i].written && fill(lab, 0, i, e)) return e->code;
    if (enqueue(lab, t, 0, e)) return e->code;
    return lab->d->ops->stream_sync(lab->stream, e);
}

RtCode rt_lab_run(RtLab *lab, const RtTrial *t, RtError *e)
{
    if (lab->d->ops->enter(lab->d, e)) return e->code;
    run(lab, t, e);
    lab->d->ops->leave(lab->d);
    return e->code;
}

RtCode rt_lab_read(RtLab *lab, int buffer, void **at, size_t *bytes, RtError *e)
{
    const RtDeviceOps *ops = lab->d->ops;
    int64_t whole = buffer_bytes(&lab->buffer[buffer]);
    int pieces = whole > LAB_WHOLE ? LAB_PIECES : 1;
    int64_t each = pieces > 1 ? LAB_WHOLE / LAB_PIECES : whole,
            stride = pieces > 1 ? (whole - each) / (pieces - 1) / 16 * 16 : 0;
    *bytes = (size_t)(pieces * each);
    *at = malloc(*bytes + 1);
    if (!*at) return rt_fail(e, RT_OOM, "out of memory");
    if (ops->enter(lab->d, e)) return e->code;
    for (int i = 0; i < pieces && !e->code && each; i++)
        ops->copy(lab->stream, (char *)*at + i * each,
                  lab->block + lab->offset[buffer] + (i == pieces - 1 ? whole - each : i * stride),
                  (size_t)each, RT_D2H, NULL, e);
    if (!e->code) ops->stream_sync(lab->stream, e);
    ops->leave(lab->d);
    return e->code;
}

// -- timing ---------------------------------------------------------------------------------------

typedef struct Timing {
    RtLab *lab;
    const RtTrial *t;
    RtEvent *begin, *end;
    RtGraph *graph; // of [calls] executions, or NULL
    int calls;
} Timing;

static RtCode round_of(Timing *g, double *seconds, RtError *e)
{
    const RtDeviceOps *ops = g->lab->d->ops;
    RtStream *s = g->lab->stream;
    if (ops->event_record(g->begin, s, e)) return e->code;
    if (g->graph) ops->graph_launch(s, g->graph, e);
    for (int i = 0; i < g->calls && !g->graph && !e->code; i++)
        enqueue(g->lab, g->t, i % g->lab->sets, e);
    if (e->code || ops->event_record(g->end, s, e) || ops->event_sync(g->end, e)) return e->code;
    if (ops->event_seconds(g->begin, g->end, seconds, e)) return e->code;
    *seconds /= g->calls;
    return RT_OK;
}

// Not being able to is no error: the calls are then enqueued one by one.
static void record(Timing *g)
{
    const RtDeviceOps *ops = g->lab->d->ops;
    RtError begin = {0}, steps = {0}, end = {0};
    int nodes;
    if (!ops->capture_begin || ops->capture_begin(g->lab->stream, &begin)) return;
    for (int i = 0; i < g->calls && !steps.code; i++)
        enqueue(g->lab, g->t, i % g->lab->sets, &steps);
    ops->capture_end(g->lab->stream, &g->graph, &nodes, &end);
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
    const RtDeviceOps *ops = g->lab->d->ops;
    double one = 0, t[ROUNDS];
    if (need_scratch(g->lab, g->t->scratch, e)) return e->code;
    if (ops->event_new(g->lab->d, &g->begin, e) || ops->event_new(g->lab->d, &g->end, e))
        return e->code;
    g->calls = 1;
    for (int i = 0; i < 2; i++) // the first loads the code
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

RtCode rt_lab_time(RtLab *lab, const RtTrial *t, double *seconds, double *spread, RtError *e)
{
    const RtDeviceOps *ops = lab->d->ops;
    Timing g = {.lab = lab, .t = t};
    if (ops->enter(lab->d, e)) return e->code;
    measure(&g, seconds, spread, e);
    if (g.graph) ops->graph_free(g.graph);
    if (g.begin) ops->event_free(g.begin);
    if (g.end) ops->event_free(g.end);
    ops->leave(lab->d);
    return e->code;
}
