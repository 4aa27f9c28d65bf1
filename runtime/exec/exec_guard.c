// Guards: the bytes after each output, cell and temporary, up to the beginning of the next. Nothing
// may write there. `netc check` fills them before an execution and examines them after it; it also
// fills outputs, so that one that nothing stores holds no numbers.
#include <stdio.h>
#include <string.h>

#include "runtime/exec/exec.h"

enum { ALIGN = 256 };

typedef RtCode (*Visit)(RtSession *s, char *at, size_t bytes, const char *of, void *ctx,
                        RtError *e);

static size_t behind(size_t bytes)
{
    return bytes ? (ALIGN - bytes % ALIGN) % ALIGN : ALIGN;
}

// Whether no other temporary ever overlaps b or the guard bytes after it.
static bool alone(const ProgEntry *e, const ProgBuffer *b)
{
    int64_t end = b->offset + b->bytes + (int64_t)behind((size_t)b->bytes);
    for (int i = 0; i < e->nbuffers; i++) {
        const ProgBuffer *o = &e->buffers[i];
        if (o != b && o->region == PR_ARENA && o->bytes && o->offset < end &&
            b->offset < o->offset + o->bytes + (int64_t)behind((size_t)o->bytes))
            return false;
    }
    return true;
}

static RtCode each_guard(RtSession *s, const RtEntry *en, Visit visit, void *ctx, RtError *e)
{
    const ProgEntry *p = en->e;
    for (int i = 0; i < s->cells->n; i++) {
        const RtCell *c = s->cells->cell[i];
        size_t n = behind(c->bytes);
        if (n && visit(s, (char *)c->at + c->bytes, n, c->name, ctx, e)) return e->code;
    }
    for (int i = 0; i < p->noutputs; i++) {
        size_t bytes = (size_t)prog_type_bytes(&p->outputs[i].type), n = behind(bytes);
        if (en->output[i] != en->own_output[i]) continue; // the caller's memory has no guard
        if (n && visit(s, (char *)en->output[i] + bytes, n, p->outputs[i].name, ctx, e))
            return e->code;
    }
    for (int i = 0; i < p->nbuffers; i++) {
        const ProgBuffer *b = &p->buffers[i];
        size_t n = behind((size_t)b->bytes);
        if (b->region != PR_ARENA || !b->bytes || !n || !alone(p, b)) continue;
        if (visit(s, (char *)s->arena + b->offset + b->bytes, n, "a temporary", ctx, e))
            return e->code;
    }
    return RT_OK;
}

static RtCode fill(RtSession *s, char *at, size_t bytes, const char *of, void *ctx, RtError *e)
{
    (void)of, (void)ctx;
    return s->device->ops->spoil(s->stream, at, bytes, e);
}

RtCode rt_guards_set(RtSession *s, RtProgram *p, const char *entry, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en || rt_enter(s, e)) return e->code;
    RtCode code = rt_prepare(s, en, e); // done first, since it uses the same memory
    if (!code) code = rt_entry_memory(s, en, e);
    for (int i = 0; i < en->e->noutputs && !code; i++) {
        size_t bytes = (size_t)prog_type_bytes(&en->e->outputs[i].type);
        if (bytes) code = s->device->ops->spoil(s->stream, en->output[i], bytes, e);
    }
    if (!code) code = each_guard(s, en, fill, NULL, e);
    rt_leave(s);
    return code;
}

typedef struct Broken {
    char *what;
    size_t n;
} Broken;

static RtCode look(RtSession *s, char *at, size_t bytes, const char *of, void *ctx, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    Broken *b = ctx;
    unsigned char now[ALIGN];
    if (ops->copy(s->stream, now, at, bytes, RT_D2H, NULL, e) || ops->stream_sync(s->stream, e))
        return e->code;
    for (size_t i = 0; i < bytes && !*b->what; i++)
        if (now[i] != 0xff)
            snprintf(b->what, b->n, "byte %zu after the end of %s was written", i, of);
    return RT_OK;
}

RtCode rt_guards_check(RtSession *s, RtProgram *p, const char *entry, char *what, size_t n,
                       RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    Broken b = {what, n};
    *what = 0;
    if (!en || rt_enter(s, e)) return e->code;
    RtCode code = each_guard(s, en, look, &b, e);
    rt_leave(s);
    return code;
}
