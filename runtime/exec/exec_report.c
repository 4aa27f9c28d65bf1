// What a session reports: failed checks and outputs.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"
#include "base/names.h"

// Text with the number of the failed step. It was not committed, so @step is the number of steps
// before it.
static void step_text(RtSession *s, const RtEntry *en, char *out, size_t n)
{
    RtCell *c = en->e->kind == PK_TRAIN ? rt_cells_find(s->cells, "@step") : NULL;
    int64_t step;
    RtError e = {0};
    const RtDeviceOps *ops = s->device->ops;
    *out = 0;
    if (!c || c->bytes != sizeof step) return;
    if (ops->copy(s->stream, &step, c->at, sizeof step, RT_D2H, NULL, &e) ||
        ops->stream_sync(s->stream, &e))
        return;
    snprintf(out, n, " (step %" PRId64 ")", step + 1);
}

static RtCode report_check(RtSession *s, RtEntry *en, const ProgError *r, RtError *e)
{
    const ProgEntry *x = en->e;
    char step[64], part[64] = ""; // (places are those in the part of the device that failed)
    step_text(s, en, step, sizeof step);
    if (s->device->count > 1) snprintf(part, sizeof part, " of the part of device %u", r->device);
    if (r->code > (uint32_t)x->nchecks)
        return rt_fail(e, RT_CHECK, "'%s' failed a check that its program does not list%s", x->name,
                       step);
    const ProgCheck *c = &x->checks[r->code - 1];
    const char *at = c->loc && *c->loc ? c->loc : x->name;
    switch (c->kind) {
    case CHECK_INDEX:
        return rt_fail(e, RT_CHECK,
                       "%s: %s: %" PRId64 " at element %" PRId64 "%s is outside 0..%" PRId64 "%s",
                       at, c->message, r->value, r->index, part, c->bound, step);
    case CHECK_ASSERT:
        return rt_fail(e, RT_CHECK, "%s: assertion failed: %s%s", at, c->message, step);
    }
    return rt_fail(e, RT_CHECK, "%s: %s%s", at, c->message, step);
}

// Checks an entry whose error record was copied to the host.
static RtCode check_entry(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    ProgError r = *(ops->unified ? en->error : en->seen);
    en->error_dirty = false;
    if (!r.code) return RT_OK;
    en->failed = true;
    RtError found = {0}, ignored = {0};
    report_check(s, en, &r, &found);
    // Clears the record for the next run.
    ops->zero(s->stream, en->error, sizeof r, NULL, &ignored);
    ops->stream_sync(s->stream, &ignored);
    if (en->cursor) en->cursor->known = false;
    return rt_fail(e, found.code, "%s", found.text);
}

// Copies the error records of all entries that ran, waits once, then checks them.
static RtCode wait(RtSession *s, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    for (RtBound *b = s->bound; b && !ops->unified; b = b->next)
        for (int i = 0; i < b->program->p->nentries; i++) {
            RtEntry *en = &b->entry[i];
            if (en->error_dirty &&
                ops->copy(s->stream, en->seen, en->error, sizeof *en->seen, RT_D2H, NULL, e))
                return e->code;
        }
    RtCode code = ops->stream_sync(s->stream, e);
    for (RtBound *b = s->bound; b && !code; b = b->next)
        for (int i = 0; i < b->program->p->nentries && !code; i++)
            if (b->entry[i].error_dirty) code = check_entry(s, &b->entry[i], e);
    return code;
}

RtCode rt_sync(RtSession *s, RtError *e)
{
    if (rt_enter(s, e)) return e->code;
    RtCode code = wait(s, e);
    rt_leave(s);
    return code;
}

RtCode rt_wait(RtSession *s, RtError *e)
{
    if (rt_enter(s, e)) return e->code;
    RtCode code = s->device->ops->stream_sync(s->stream, e);
    rt_leave(s);
    return code;
}

RtCode rt_meet(RtSession *s, void *stream, bool before, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (!ops->stream_meet) return RT_OK;
    if (rt_enter_captured(s, e)) return e->code;
    RtCode code = ops->stream_meet(s->stream, stream, before, e);
    if (!before) s->met = !code;
    rt_leave(s);
    return code;
}

// The index of an output; negative: there is none, which is reported.
static int find_output(const RtEntry *en, const char *output, RtError *e)
{
    const char *names[64];
    size_t known = 0;
    for (int i = 0; i < en->e->noutputs; i++) {
        if (!strcmp(en->e->outputs[i].name, output)) return i;
        if (known < 64) names[known++] = en->e->outputs[i].name;
    }
    rt_fail(e, RT_USER, "'%s' has no output '%s'%s", en->e->name, output,
            advise(output, names, known).text);
    return -1;
}

RtCode rt_output_place(RtSession *s, RtProgram *p, const char *entry, const char *output, void *at,
                       RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    int i = en ? find_output(en, output, e) : -1;
    if (i < 0) return e->code;
    bool moves = at && en->output[i] && en->output[i] != at && en->output[i] != en->own_output[i];
    if (moves && !s->device->ops->unified && en->launches > RT_FEW_LAUNCHES) en->strays[i] = true;
    en->then[i] = en->strays[i] ? at : NULL;
    void *now = at && !en->strays[i] ? at : en->own_output[i];
    if (en->output[i] == now) return RT_OK;
    if (rt_enter_captured(s, e)) return e->code;
    rt_entry_unresolve(s, en);
    rt_leave(s);
    en->output[i] = now;
    return RT_OK;
}

static RtCode output(RtSession *s, RtProgram *p, const char *entry, const char *output, void *bytes,
                     size_t n, RtCopyKind kind, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    int i = en ? find_output(en, output, e) : -1;
    if (i < 0) return e->code;
    size_t size = (size_t)prog_type_bytes(&en->e->outputs[i].type);
    if (size != n)
        return rt_fail(e, RT_USER, "output '%s' of '%s' has %zu bytes, there is room for %zu",
                       output, entry, size, n);
    if (!en->stored[i])
        return rt_fail(e, RT_USER, "'%s' has not been run yet: output '%s' has no value", entry,
                       output);
    if (rt_enter(s, e)) return e->code;
    RtCode code = RT_OK;
    if (n && en->stored[i] != bytes)
        code = s->device->ops->copy(s->stream, bytes, en->stored[i], n, kind, NULL, e);
    if (!code) code = wait(s, e);
    if (!code && en->failed)
        code = rt_fail(e, RT_CHECK,
                       "the last run of '%s' failed a check, as was reported: output '%s' has no "
                       "value",
                       entry, output);
    rt_leave(s);
    return code;
}

RtCode rt_output_read(RtSession *s, RtProgram *p, const char *entry, const char *name, void *bytes,
                      size_t n, RtError *e)
{
    return output(s, p, entry, name, bytes, n, RT_D2H, e);
}

RtCode rt_output_copy(RtSession *s, RtProgram *p, const char *entry, const char *name, void *device,
                      size_t n, RtError *e)
{
    return output(s, p, entry, name, device, n, RT_D2D, e);
}
