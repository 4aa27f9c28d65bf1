// Timing the steps of an entry, each between two events of its own.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/exec/exec.h"

enum {
    MARKS = 512,       // pairs of events; a longer execution reads them in between
    LEAST = 5,         // executions, even beyond the time limit
    SCRATCH_GPU = 256, // MiB: more than twice any cache
    SCRATCH_CPU = 64,
};
#define ENQUEUE 8e-6 // seconds that the host needs for a step and its events
#define LONGEST 4e-3 // limit of the seconds for which the device waits for the host

typedef struct Clock {
    RtSession *s;
    RtEvent *start, *begin[MARKS], *end[MARKS];
    int step[MARKS], used;
    double *seconds; // of this execution, by number of step or part
    int *calls;
    VEC(RtSlice) slices;
    double last; // end of the last slice
    Arena *arena;
    void *scratch; // written before each step to evict the cache; NULL: not done
    size_t scratch_bytes;
} Clock;

// Reads the pairs of events recorded since the last call.
static RtCode drain(Clock *c, RtError *e)
{
    const RtDeviceOps *ops = c->s->device->ops;
    if (c->used && ops->event_sync(c->end[c->used - 1], e)) return e->code;
    for (int i = 0; i < c->used; i++) {
        RtSlice v = {.at = c->step[i]}; // number of the step; replaced in the report
        if (ops->event_seconds(c->begin[i], c->end[i], &v.seconds, e) ||
            ops->event_seconds(c->start, c->begin[i], &v.begin, e))
            return e->code;
        c->seconds[v.at] += v.seconds;
        c->calls[v.at]++;
        c->last = v.begin + v.seconds;
        vec_push(c->arena, &c->slices, v);
    }
    c->used = 0;
    return RT_OK;
}

static RtCode before(void *ctx, RtEntry *en, int step, RtError *e)
{
    Clock *c = ctx;
    const RtDeviceOps *ops = c->s->device->ops;
    (void)en;
    if (c->used == MARKS && drain(c, e)) return e->code;
    c->step[c->used] = step;
    if (c->scratch && ops->zero(c->s->stream, c->scratch, c->scratch_bytes, NULL, e))
        return e->code;
    return ops->event_record(c->begin[c->used], c->s->stream, e);
}

static RtCode after(void *ctx, RtEntry *en, int step, RtError *e)
{
    Clock *c = ctx;
    (void)en, (void)step;
    return c->s->device->ops->event_record(c->end[c->used++], c->s->stream, e);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double share)
{
    return sorted[(int)(share * (n - 1) + 0.5)];
}

// Measures the time between two events around nothing, and around an empty launch.
static RtCode calibrate(Clock *c, RtProfile *out, RtError *e)
{
    enum { N = 21 };
    const RtDeviceOps *ops = c->s->device->ops;
    double t[2][N];
    if (!ops->wait) return RT_OK;
    for (int i = 0; i < N; i++)
        for (int empty = 0; empty < 2; empty++)
            if (ops->wait(c->s->stream, 3 * ENQUEUE, e) ||
                ops->event_record(c->begin[0], c->s->stream, e) ||
                (empty && ops->wait(c->s->stream, 0, e)) ||
                ops->event_record(c->end[0], c->s->stream, e) || ops->event_sync(c->end[0], e) ||
                ops->event_seconds(c->begin[0], c->end[0], &t[empty][i], e))
                return e->code;
    qsort(t[0], N, sizeof(double), by_value), qsort(t[1], N, sizeof(double), by_value);
    out->pair = t[0][N / 2];
    out->empty = t[1][N / 2] > out->pair ? t[1][N / 2] - out->pair : 0;
    return RT_OK;
}

// times: [repeats] for each step, seconds per call; done: number of executions.
static RtCode time_steps(RtSession *s, RtEntry *en, Clock *c, const RtProfileOptions *o,
                         double *times, double *whole, int *done, RtProfile *out, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtObserver watch = {.before = before, .after = after, .ctx = c, .parts = true};
    int steps = rt_entry_parts(en);
    double ahead = (double)en->launches * ENQUEUE, stop = clock_now() + o->seconds;
    if (ahead > LONGEST) ahead = LONGEST;
    if (calibrate(c, out, e)) return e->code;
    for (*done = 0; *done < o->repeats && (*done < LEAST || clock_now() < stop); ++*done) {
        for (int k = 0; k < steps; k++) c->seconds[k] = 0, c->calls[k] = 0;
        c->slices.n = 0;
        // An execution before it puts cache, clocks and memory in the state of a normal run. Every
        // execution reads the same batch.
        int64_t one;
        if ((ops->wait && ops->wait(s->stream, ahead, e)) || rt_cursor_rewind(s, en, e) ||
            rt_entry_some(s, en, 1, &one, e) || rt_cursor_rewind(s, en, e))
            return e->code;
        rt_entry_enqueued(en);
        rt_entry_changes(s, en);
        if (!ops->event_record(c->start, s->stream, e)) rt_entry_steps(s, en, &watch, e);
        if (e->code || drain(c, e)) return e->code;
        for (int k = 0; k < steps; k++)
            times[k * o->repeats + *done] = c->calls[k] ? c->seconds[k] / c->calls[k] : 0;
        whole[*done] = c->last - (c->slices.n ? c->slices.at[0].begin : 0);
    }
    return rt_cursor_rewind(s, en, e);
}

static RtCode profile(RtSession *s, RtEntry *en, Clock *c, const RtProfileOptions *o, double *times,
                      double *whole, int *done, RtProfile *out, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtCode code = ops->event_new(s->device, &c->start, e);
    for (int i = 0; i < MARKS && !code; i++) {
        code = ops->event_new(s->device, &c->begin[i], e);
        if (!code) code = ops->event_new(s->device, &c->end[i], e);
    }
    c->scratch_bytes = (size_t)(ops->cuda ? SCRATCH_GPU : SCRATCH_CPU) << 20;
    if (!code && o->cold)
        code = ops->alloc(s->device, c->scratch_bytes, "emptying the cache", &c->scratch, e);
    if (!code) code = time_steps(s, en, c, o, times, whole, done, out, e);
    if (code) { // waits for pending work before its resources are freed
        RtError ignored = {0};
        ops->stream_sync(s->stream, &ignored);
    }
    ops->free(s->device, c->scratch);
    if (c->start) ops->event_free(c->start);
    for (int i = 0; i < MARKS; i++) {
        if (c->begin[i]) ops->event_free(c->begin[i]);
        if (c->end[i]) ops->event_free(c->end[i]);
    }
    return code;
}

static RtCode report(RtSession *s, RtEntry *en, const Clock *c, int repeats, double *times,
                     int done, Arena *a, RtProfile *out, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    int steps = rt_entry_parts(en), apart = en->e->nsteps;
    int *place = NEW_ARRAY(a, int, steps + 1);
    out->steps = NEW_ARRAY(a, RtStepTime, steps + 1);
    out->slices = NEW_ARRAY(a, RtSlice, c->slices.n + 1);
    for (uint32_t i = 0; i < c->slices.n; i++) {
        RtSlice *v = &out->slices[out->nslices++];
        *v = c->slices.at[i];
        v->begin -= c->slices.at[0].begin;
        v->seconds = v->seconds > out->pair ? v->seconds - out->pair : 0;
    }
    for (int i = 0; i < steps; i++) {
        if (!c->calls[i]) continue;
        double *t = times + (size_t)i * (size_t)repeats;
        qsort(t, (size_t)done, sizeof *t, by_value);
        for (int k = 0; k < done; k++) t[k] = t[k] > out->pair ? t[k] - out->pair : 0;
        bool behind = i >= apart;
        int step = behind ? i - apart : i;
        place[i] = out->nsteps;
        RtStepTime *v = &out->steps[out->nsteps++];
        *v = (RtStepTime){.step = step,
                          .behind = behind,
                          .kernel = rt_step_kernel(s, en, step, behind),
                          .calls = c->calls[i],
                          .seconds = at(t, done, 0.5),
                          .low = at(t, done, 0.25),
                          .high = at(t, done, 0.75),
                          .info = {-1, -1, -1, -1, -1}};
        if (v->kernel >= 0 && ops->kernel_info &&
            ops->kernel_info(en->bound->program->module, v->kernel, &v->info, e))
            return e->code;
    }
    for (int i = 0; i < out->nslices; i++) out->slices[i].at = place[out->slices[i].at];
    return RT_OK;
}

RtCode rt_profile(RtSession *s, RtProgram *p, const char *entry, const RtProfileOptions *o,
                  Arena *a, RtProfile *out, RtError *e)
{
    *out = (RtProfile){0};
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (!en->resolved) return rt_fail(e, RT_USER, "'%s' has to run once before it is timed", entry);
    if (o->repeats < 1) return rt_fail(e, RT_USER, "nothing to time");
    int steps = rt_entry_parts(en), done = 0;
    double *times = NEW_ARRAY(a, double, (size_t)steps *(size_t)o->repeats + 1);
    double *whole = NEW_ARRAY(a, double, (size_t)o->repeats);
    Clock *c = NEW(a, Clock);
    *c = (Clock){.s = s,
                 .arena = a,
                 .seconds = NEW_ARRAY(a, double, steps + 1),
                 .calls = NEW_ARRAY(a, int, steps + 1)};
    if (rt_enter(s, e)) return e->code;
    RtCode code = profile(s, en, c, o, times, whole, &done, out, e);
    if (!code) code = report(s, en, c, o->repeats, times, done, a, out, e);
    rt_leave(s);
    if (code) return code;
    qsort(whole, (size_t)done, sizeof *whole, by_value);
    out->apart = at(whole, done, 0.5);
    return rt_sync(s, e);
}
