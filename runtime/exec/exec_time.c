// Times executions that are enqueued as in a run: as graphs if there are any, several in a row.
// Small cells that an entry other than train writes are restored before each row of executions:
// otherwise a counter of positions in a cache would reach its end.
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/exec/exec.h"

enum { SMALL = 1 << 16 }; // bytes of a small cell

typedef struct Pair {
    RtEvent *begin, *end;
    char *saved; // values of the small cells, concatenated
} Pair;

static RtCode each_small(RtSession *s, const RtEntry *en, char *saved, RtCopyKind way,
                         size_t *bytes, RtError *e)
{
    size_t at = 0;
    for (int i = 0; i < en->nwritten && en->e->kind != PK_TRAIN; i++) {
        const RtCell *c = en->written[i];
        if (c == en->cursor || c->bytes > SMALL || !c->bytes) continue;
        char *host = saved ? saved + at : NULL;
        if (host && s->device->ops->copy(s->stream, way == RT_H2D ? c->at : host,
                                         way == RT_H2D ? host : c->at, c->bytes, way, NULL, e))
            return e->code;
        at += c->bytes;
    }
    if (bytes) *bytes = at;
    return saved && at ? s->device->ops->stream_sync(s->stream, e) : RT_OK;
}

static RtCode save(RtSession *s, const RtEntry *en, Pair *v, RtError *e)
{
    size_t bytes = 0;
    each_small(s, en, NULL, RT_D2H, &bytes, e);
    v->saved = malloc(bytes + 1);
    if (!v->saved) return rt_fail(e, RT_OOM, "out of memory");
    return each_small(s, en, v->saved, RT_D2H, NULL, e);
}

// Seconds of [times] executions in a row, beginning at row 0 of the table.
static RtCode timed(RtSession *s, RtEntry *en, int64_t times, const Pair *v, double *seconds,
                    RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    // Rows given as arguments are one batch, which every execution reads.
    bool one = en->cursor && en->rows_now && en->rows_now == en->identity;
    if (rt_cursor_rewind(s, en, e) || each_small(s, en, v->saved, RT_H2D, NULL, e) ||
        ops->event_record(v->begin, s->stream, e))
        return e->code;
    for (int64_t i = 0, done; i < times; i += done) {
        if (one && rt_cursor_rewind(s, en, e)) return e->code;
        if (rt_entry_some(s, en, one ? 1 : times - i, &done, e)) return e->code;
        if (ops->unified && en->error->code) break; // the caller's rt_sync reports the check
    }
    if (ops->event_record(v->end, s->stream, e) || ops->event_sync(v->end, e)) return e->code;
    return ops->event_seconds(v->begin, v->end, seconds, e);
}

static RtCode time_all(RtSession *s, RtEntry *en, int64_t times, int repeats, const Pair *v,
                       double *seconds, RtError *e)
{
    // Runs first until graphs are recorded and the fastest way is chosen.
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
        return rt_fail(e, RT_USER, "%" PRId64 " rows of '%s' are too few for %" PRId64 " batches",
                       en->nrows, entry, times);
    if (rt_enter(s, e)) return e->code;
    const RtDeviceOps *ops = s->device->ops;
    Pair v = {0};
    RtCode code = ops->event_new(s->device, &v.begin, e);
    if (!code) code = ops->event_new(s->device, &v.end, e);
    if (!code) code = save(s, en, &v, e);
    if (!code) code = time_all(s, en, times, repeats, &v, seconds, e);
    if (v.begin) ops->event_free(v.begin);
    if (v.end) ops->event_free(v.end);
    rt_leave(s);
    if (!code) code = rt_sync(s, e);
    RtError ignored = {0};
    if (v.saved && !rt_enter(s, &ignored)) {
        each_small(s, en, v.saved, RT_H2D, NULL, &ignored);
        rt_leave(s);
    }
    free(v.saved);
    return code;
}
