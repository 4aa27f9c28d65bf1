// Timing the steps of an entry, each on its own.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec.h"

typedef struct Clock {
    RtSession *s;
    RtEvent *begin, *end;
    double *seconds; // of this execution, by step
    int *calls;
} Clock;

static RtCode start(void *ctx, RtEntry *en, int step, RtError *e)
{
    Clock *c = ctx;
    (void)en, (void)step;
    return c->s->device->ops->event_record(c->begin, c->s->stream, e);
}

static RtCode stop(void *ctx, RtEntry *en, int step, RtError *e)
{
    Clock *c = ctx;
    const RtDeviceOps *ops = c->s->device->ops;
    double t = 0;
    (void)en;
    if (ops->event_record(c->end, c->s->stream, e) || ops->event_sync(c->end, e) ||
        ops->event_seconds(c->begin, c->end, &t, e))
        return e->code;
    c->seconds[step] += t;
    c->calls[step]++;
    return RT_OK;
}

// Data for an entry that was given none: integers within their range, floats in 0..1.
static void synthesize(const ProgInput *in, void *data)
{
    int64_t bytes = prog_type_bytes(&in->type), size = prog_dtype_bytes(in->type.dtype);
    uint32_t state = 1;
    for (int64_t i = 0; i < bytes / size; i++) {
        state = state * 1664525u + 1013904223u;
        char *at = (char *)data + i * size;
        int64_t v = in->has_range && in->high > in->low
                        ? in->low + (int64_t)(state >> 8) % (in->high - in->low)
                        : 0;
        float f = (float)(state >> 8) * 0x1p-24f;
        double d = f;
        if (in->type.dtype == PD_F32)
            memcpy(at, &f, sizeof f);
        else if (in->type.dtype == PD_F64)
            memcpy(at, &d, sizeof d);
        else if (in->type.dtype < PD_BF16)
            memcpy(at, &v, (size_t)size);
    }
}

// Runs the entry once on made-up data.
static RtCode run_synthetic(RtSession *s, RtProgram *p, RtEntry *en, void **data, RtError *e)
{
    const ProgEntry *x = en->e;
    RtInput *in = calloc((size_t)x->ninputs + 1, sizeof *in);
    RtCode code = in ? RT_OK : rt_fail(e, RT_OOM, "out of memory");
    for (int i = 0; i < x->ninputs && !code; i++) {
        data[i] = calloc(1, (size_t)prog_type_bytes(&x->inputs[i].type) + 1);
        if (!data[i]) {
            code = rt_fail(e, RT_OOM, "out of memory");
        } else {
            synthesize(&x->inputs[i], data[i]);
            in[i] = (RtInput){x->inputs[i].name, data[i], false};
        }
    }
    if (!code) code = rt_run(s, p, x->name, in, x->ninputs, 1, e);
    if (!code) code = rt_sync(s, e);
    free(in);
    return code;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// times: [repeats] of each step.
static RtCode time_entry(RtSession *s, RtEntry *en, Clock *c, int repeats, double *times,
                         RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtObserver o = {.before = start, .after = stop, .ctx = c};
    int steps = en->e->nsteps;
    // The same batch every time.
    int64_t cursor = 0;
    RtCell *x = en->cursor;
    if (x && ops->copy(s->stream, &cursor, x->at, sizeof cursor, RT_D2H, NULL, e)) return e->code;
    if (x && ops->stream_sync(s->stream, e)) return e->code;
    cursor = cursor > en->e->batch ? cursor - en->e->batch : 0;
    for (int i = 0; i < repeats && !e->code; i++) {
        if (x && (ops->copy(s->stream, x->at, &cursor, sizeof cursor, RT_H2D, NULL, e) ||
                  ops->stream_sync(s->stream, e)))
            return e->code;
        for (int k = 0; k < steps; k++) c->seconds[k] = 0, c->calls[k] = 0;
        en->error_dirty = true;
        rt_entry_steps(s, en, &o, e);
        for (int k = 0; k < steps; k++)
            times[k * repeats + i] = c->calls[k] ? c->seconds[k] / c->calls[k] : 0;
    }
    if (x) x->known = false;
    return e->code;
}

static RtCode profile(RtSession *s, RtEntry *en, Clock *c, int repeats, double *times, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (rt_enter(s, e)) return e->code;
    RtCode code = ops->event_new(s->device, &c->begin, e);
    if (!code) code = ops->event_new(s->device, &c->end, e);
    if (!code) code = time_entry(s, en, c, repeats, times, e);
    if (c->begin) ops->event_free(c->begin);
    if (c->end) ops->event_free(c->end);
    rt_leave(s);
    return code;
}

RtCode rt_profile(RtSession *s, RtProgram *p, const char *entry, int repeats, Arena *a,
                  RtStepTime **out, int *n, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (repeats < 1) repeats = 1;
    int steps = en->e->nsteps, inputs = en->e->ninputs;
    double *times = NEW_ARRAY(a, double, (size_t)steps *(size_t)repeats + 1);
    Clock c = {
        .s = s, .seconds = NEW_ARRAY(a, double, steps + 1), .calls = NEW_ARRAY(a, int, steps + 1)};
    *out = NEW_ARRAY(a, RtStepTime, steps + 1);
    *n = 0;
    void **made_up = NEW_ARRAY(a, void *, inputs + 1);
    RtCode code = en->resolved ? RT_OK : run_synthetic(s, p, en, made_up, e);
    if (!code) code = profile(s, en, &c, repeats, times, e);
    if (made_up[0]) { // its addresses are gone
        rt_entry_unresolve(s, en);
        for (int i = 0; i < inputs; i++) en->input[i] = NULL;
    }
    for (int i = 0; i < inputs; i++) free(made_up[i]);
    for (int i = 0; i < steps && !code; i++) {
        const ProgStep *st = &en->e->steps[i];
        if (!c.calls[i]) continue;
        qsort(times + (size_t)i * (size_t)repeats, (size_t)repeats, sizeof *times, by_value);
        (*out)[(*n)++] =
            (RtStepTime){.name = arena_strdup(a, st->name ? st->name : ""),
                         .loc = arena_strdup(a, st->loc ? st->loc : ""),
                         .seconds = times[(size_t)i * (size_t)repeats + (size_t)repeats / 2],
                         .calls = c.calls[i]};
    }
    return code;
}
