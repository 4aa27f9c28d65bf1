// What a session tells: failed checks, outputs, where a NaN began.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec.h"

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
    char step[64], more[1024] = "";
    step_text(s, en, step, sizeof step);
    if (r->code > (uint32_t)x->nchecks)
        return rt_fail(e, RT_CHECK, "'%s' failed a check that its program does not list%s", x->name, step);
    const ProgCheck *c = &x->checks[r->code - 1];
    const char *at = c->loc && *c->loc ? c->loc : x->name;
    switch (c->kind) {
    case CHECK_INDEX:
        return rt_fail(e, RT_CHECK, "%s: %s: %" PRId64 " at element %" PRId64 " is outside 0..%" PRId64 "%s",
                       at, c->message, r->value, r->index, c->bound, step);
    case CHECK_ASSERT: return rt_fail(e, RT_CHECK, "%s: assertion failed: %s%s", at, c->message, step);
    case CHECK_FINITE:
        rt_find_nonfinite(s, en, more, sizeof more);
        return rt_fail(e, RT_CHECK, "%s: %s%s%s", at, c->message, step, more);
    }
    return rt_fail(e, RT_CHECK, "%s: %s%s", at, c->message, step);
}

static RtCode check_entry(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    ProgError r;
    if (ops->copy(s->stream, &r, en->error, sizeof r, RT_D2H, NULL, e) || ops->stream_sync(s->stream, e))
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

RtCode rt_output_read(RtSession *s, RtProgram *p, const char *entry, const char *output, void *bytes,
                      size_t n, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    const RtDeviceOps *ops = s->device->ops;
    for (int i = 0; i < en->e->noutputs; i++) {
        if (strcmp(en->e->outputs[i].name, output)) continue;
        size_t size = (size_t)prog_type_bytes(&en->e->outputs[i].type);
        if (size != n)
            return rt_fail(e, RT_USER, "output '%s' of '%s' has %zu bytes, there is room for %zu", output,
                           entry, size, n);
        if (!n) return RT_OK;
        if (rt_enter(s, e)) return e->code;
        RtCode code = ops->copy(s->stream, bytes, en->output[i], n, RT_D2H, NULL, e);
        if (!code) code = ops->stream_sync(s->stream, e);
        rt_leave(s);
        return code;
    }
    return rt_fail(e, RT_USER, "'%s' has no output '%s'", entry, output);
}

// -- the first non-finite value ---------------------------------------------------------------------------
typedef struct Hunt {
    RtSession *s;
    const ProgStep *nan, *infinite;
    const ProgBuffer *nan_buffer, *infinite_buffer;
    void *host;
    size_t room;
} Hunt;

static void classify(ProgDType t, const void *data, size_t bytes, bool *nan, bool *infinite)
{
    size_t n = bytes / (size_t)prog_dtype_bytes(t);
    for (size_t i = 0; i < n; i++) {
        uint32_t h = t == PD_F16 || t == PD_BF16 ? ((const uint16_t *)data)[i] : 0;
        uint32_t exponent = t == PD_F16 ? 0x7c00 : 0x7f80, mantissa = t == PD_F16 ? 0x3ff : 0x7f;
        double v = 0;
        if (t == PD_F32) v = ((const float *)data)[i];
        if (t == PD_F64) v = ((const double *)data)[i];
        if ((h & exponent) == exponent && h) v = h & mantissa ? NAN : INFINITY;
        *nan |= isnan(v);
        *infinite |= isinf(v);
    }
}

static RtCode look(void *ctx, RtEntry *en, int step, RtError *e)
{
    Hunt *h = ctx;
    const RtDeviceOps *ops = h->s->device->ops;
    const ProgStep *st = en->step[step].s;
    if (h->nan) return RT_OK;
    for (int k = 0; k < st->nargs; k++) {
        const ProgArg *a = &st->args[k];
        if (a->kind != PA_BUFFER || !a->written) continue;
        const ProgBuffer *b = &en->e->buffers[a->index];
        if (b->type.dtype < PD_BF16 || b->region == PR_CELL) continue;
        int64_t inside = prog_type_bytes(&b->type), outer = b->bytes;
        size_t bytes = (size_t)(inside < outer ? inside : outer);
        // A buffer indexed by a loop holds all iterations; only this one's part is new. Its length is
        // the stride.
        for (int d = 0; d < st->depth; d++) {
            int64_t part = a->stride[d] < 0 ? -a->stride[d] : a->stride[d];
            if (part && (size_t)part < bytes) bytes = (size_t)part;
        }
        if (bytes > h->room) {
            void *more = realloc(h->host, bytes);
            if (!more) return rt_fail(e, RT_OOM, "out of memory");
            h->host = more;
            h->room = bytes;
        }
        bool nan = false, infinite = false;
        if (!bytes) continue;
        if (ops->copy(h->s->stream, h->host, en->slot[en->step[step].first_arg + k].p, bytes, RT_D2H, NULL, e) ||
            ops->stream_sync(h->s->stream, e))
            return e->code;
        classify(b->type.dtype, h->host, bytes, &nan, &infinite);
        if (nan && !h->nan) h->nan = st, h->nan_buffer = b;
        if (infinite && !h->infinite) h->infinite = st, h->infinite_buffer = b;
    }
    return RT_OK;
}

static size_t describe(char *text, size_t n, const char *what, const ProgStep *s, const ProgBuffer *b)
{
    const char *loc = b->loc && *b->loc ? b->loc : s->loc ? s->loc : "";
    int len = snprintf(text, n, "\nnote: the first %s is in %s%s%s%s, made by %s", what,
                       b->name && *b->name ? b->name : "a temporary", *loc ? " (" : "", loc,
                       *loc ? ")" : "", s->name ? s->name : "a step");
    return len < 0 ? 0 : (size_t)len < n ? (size_t)len : n - 1;
}

void rt_find_nonfinite(RtSession *s, RtEntry *en, char *text, size_t n)
{
    Hunt h = {.s = s};
    RtObserver o = {.after = look, .ctx = &h};
    RtError e = {0};
    *text = 0;
    if (!en->resolved || en->stage) return;
    if (rt_entry_steps(s, en, &o, &e) == RT_OK) {
        size_t at = 0;
        if (h.infinite && h.infinite != h.nan)
            at += describe(text, n, "infinity", h.infinite, h.infinite_buffer);
        if (h.nan) describe(text + at, n - at, "NaN", h.nan, h.nan_buffer);
    }
    free(h.host);
}
