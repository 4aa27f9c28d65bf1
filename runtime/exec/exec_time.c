// Timing executions as a run enqueues them: by graph where there is one, several in a row.
#include <inttypes.h>

#include "runtime/exec/exec.h"

typedef struct Pair {
    RtEvent *begin, *end;
} Pair;

// Seconds of [times] executions in a row, from row 0 of the table on.
static RtCode timed(RtSession *s, RtEntry *en, int64_t times, const Pair *v, double *seconds,
                    RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    // Rows given as arguments are one batch, which every execution reads.
    bool one = en->cursor && en->rows_now && en->rows_now == en->identity;
    if (rt_cursor_rewind(s, en, e) || ops->event_record(v->begin, s->stream, e)) return e->code;
    for (int64_t i = 0, done; i < times; i += done) {
        if (one && rt_cursor_rewind(s, en, e)) return e->code;
        if (rt_entry_some(s, en, one ? 1 : times - i, &done, e)) return e->code;
        if (ops->unified && en->error->code) break; // the caller's rt_sync says which check
    }
    if (ops->event_record(v->end, s->stream, e) || ops->event_sync(v->end, e)) return e->code;
    return ops->event_seconds(v->begin, v->end, seconds, e);
}

static RtCode time_all(RtSession *s, RtEntry *en, int64_t times, int repeats, const Pair *v,
                       double *seconds, RtError *e)
{
    // Recording the graphs, and finding which kind is fastest, are over before anything counts.
    enum { WARM = 8 };
    for (int i = 0; i < WARM; i++) {
        if (timed(s, en, times, v, seconds, e)) return e->code;
        if (i && (!en->many || en->way)) break;
    }
    for (int i = 0; i < repeats; i++) {
        if (timed(s, en, times, v, &seconds[i], e)) return e->code;
        seconds[i] /= (double)times;
    }
    return rt_cursor_rewind(s, en, e);
}

RtCode rt_time(RtSession *s, RtProgram *p, const char *entry, int64_t times, int repeats,
               double *seconds, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (!en->resolved) return rt_fail(e, RT_USER, "'%s' has to run once before it is timed", entry);
    if (en->stage)
        return rt_fail(e, RT_USER,
                       "the data do not fit the device, so that reading them would be timed as "
                       "well; time '%s' on fewer examples or on made-up data",
                       entry);
    if (times < 1 || repeats < 1) return rt_fail(e, RT_USER, "nothing to time");
    if (en->cursor && en->rows_now == en->rows && en->nrows / en->e->batch < times)
        return rt_fail(e, RT_USER, "%" PRId64 " rows of '%s' do not last for %" PRId64 " batches",
                       en->nrows, entry, times);
    if (rt_enter(s, e)) return e->code;
    const RtDeviceOps *ops = s->device->ops;
    Pair v = {0};
    RtCode code = ops->event_new(s->device, &v.begin, e);
    if (!code) code = ops->event_new(s->device, &v.end, e);
    if (!code) code = time_all(s, en, times, repeats, &v, seconds, e);
    if (v.begin) ops->event_free(v.begin);
    if (v.end) ops->event_free(v.end);
    rt_leave(s);
    return code ? code : rt_sync(s, e);
}
