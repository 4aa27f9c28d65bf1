// What a session tells: failed checks and outputs.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"
#include "base/names.h"

// The step a failed update would have been: a failed one does not commit, so @step still holds it.
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
    char step[64];
    step_text(s, en, step, sizeof step);
    if (r->code > (uint32_t)x->nchecks)
        return rt_fail(e, RT_CHECK, "'%s' failed a check that its program does not list%s", x->name,
                       step);
    const ProgCheck *c = &x->checks[r->code - 1];
    const char *at = c->loc && *c->loc ? c->loc : x->name;
    switch (c->kind) {
    case CHECK_INDEX:
        return rt_fail(e, RT_CHECK,
                       "%s: %s: %" PRId64 " at element %" PRId64 " is outside 0..%" PRId64 "%s", at,
                       c->message, r->value, r->index, c->bound, step);
    case CHECK_ASSERT:
        return rt_fail(e, RT_CHECK, "%s: assertion failed: %s%s", at, c->message, step);
    }
    return rt_fail(e, RT_CHECK, "%s: %s%s", at, c->message, step);
}

static RtCode check_entry(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    ProgError r;
    if (ops->copy(s->stream, &r, en->error, sizeof r, RT_D2H, NULL, e) ||
        ops->stream_sync(s->stream, e))
        return e->code;
    en->error_dirty = false;
    if (!r.code) return RT_OK;
    RtError found = {0}, ignored = {0};
    report_check(s, en, &r, &found);
    // The next run starts with a clean record.
    ops->zero(s->stream, en->error, sizeof r, NULL, &ignored);
    ops->stream_sync(s->stream, &ignored);
    if (en->cursor) en->cursor->known = false;
    return rt_fail(e, found.code, "%s", found.text);
}

RtCode rt_sync(RtSession *s, RtError *e)
{
    if (rt_enter(s, e)) return e->code;
    RtCode code = s->device->ops->stream_sync(s->stream, e);
    for (RtBound *b = s->bound; b && !code; b = b->next)
        for (int i = 0; i < b->program->p->nentries; i++) {
            RtCode one = b->entry[i].error_dirty ? check_entry(s, &b->entry[i], e) : RT_OK;
            if (one && !code) code = one;
        }
    rt_leave(s);
    return code;
}

RtCode rt_after(RtSession *s, void *stream, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (!ops->stream_after) return RT_OK;
    if (rt_enter(s, e)) return e->code;
    RtCode code = ops->stream_after(s->stream, stream, e);
    rt_leave(s);
    return code;
}

static RtCode output(RtSession *s, RtProgram *p, const char *entry, const char *output, void *bytes,
                     size_t n, RtCopyKind kind, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    const RtDeviceOps *ops = s->device->ops;
    for (int i = 0; i < en->e->noutputs; i++) {
        if (strcmp(en->e->outputs[i].name, output)) continue;
        size_t size = (size_t)prog_type_bytes(&en->e->outputs[i].type);
        if (size != n)
            return rt_fail(e, RT_USER, "output '%s' of '%s' has %zu bytes, there is room for %zu",
                           output, entry, size, n);
        if (!en->ran)
            return rt_fail(e, RT_USER, "'%s' has not been run yet: output '%s' has no value", entry,
                           output);
        if (!n) return RT_OK;
        if (rt_enter(s, e)) return e->code;
        RtCode code = ops->copy(s->stream, bytes, en->output[i], n, kind, NULL, e);
        if (!code) code = ops->stream_sync(s->stream, e);
        rt_leave(s);
        return code;
    }
    const char *names[64];
    size_t known = 0;
    for (int i = 0; i < en->e->noutputs && known < 64; i++) names[known++] = en->e->outputs[i].name;
    return rt_fail(e, RT_USER, "'%s' has no output '%s'%s", entry, output,
                   advise(output, names, known).text);
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
