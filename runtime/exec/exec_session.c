// Sessions: programs attached, their entries' buffers, addresses of all arguments.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec_cells.h"
#include "base/names.h"

enum { ALIGN = 256 };

RtCode rt_session_new(RtDevice *d, const RtSessionOptions *o, RtSession **out, RtError *e)
{
    *out = NULL;
    RtSession *s = calloc(1, sizeof *s);
    if (!s) return rt_fail(e, RT_OOM, "out of memory");
    s->device = d;
    if (o && o->share && o->share->device != d) {
        free(s);
        return rt_fail(e, RT_USER, "sessions that share cells must be on the same device");
    }
    if (o && o->share) {
        s->cells = o->share->cells;
        atomic_fetch_add(&s->cells->refs, 1);
    } else {
        s->cells = rt_cells_new(d);
    }
    RtCode code = s->cells ? rt_enter(s, e) : rt_fail(e, RT_OOM, "out of memory");
    if (!code) {
        s->theirs = o && o->stream;
        code = d->ops->stream_new(d, o, &s->stream, e);
        rt_leave(s);
    }
    if (code) {
        rt_session_free(s);
        return code;
    }
    *out = s;
    return RT_OK;
}

static void free_bound(RtSession *s, RtBound *b)
{
    int n = b->entry ? b->program->p->nentries : 0;
    for (int i = 0; i < n; i++) rt_entry_free(s, &b->entry[i]);
    free(b->entry);
    free(b->cell);
    rt_program_free(b->program);
    free(b);
}

void rt_session_free(RtSession *s)
{
    if (!s) return;
    RtError e = {0};
    bool current = rt_enter_captured(s, &e) == RT_OK;
    if (s->stream && !rt_is_captured(s)) s->device->ops->stream_sync(s->stream, &e);
    for (RtBound *b = s->bound, *next; b; b = next) {
        next = b->next;
        free_bound(s, b);
    }
    s->device->ops->free(s->device, s->arena);
    for (int i = 0; i < s->nkept; i++) s->device->ops->free(s->device, s->kept[i]);
    free(s->kept);
    rt_cells_release(s->cells);
    if (s->stream) s->device->ops->stream_free(s->stream);
    if (current) rt_leave(s);
    free(s);
}

static RtCode attach(RtSession *s, RtProgram *p, RtError *e)
{
    const Program *q = p->p;
    RtBound *b = calloc(1, sizeof *b);
    if (!b) return rt_fail(e, RT_OOM, "out of memory");
    b->program = p;
    rt_program_retain(p);
    b->cell = calloc((size_t)q->ncells + 1, sizeof *b->cell);
    b->entry = calloc((size_t)q->nentries + 1, sizeof *b->entry);
    RtCode code = b->cell && b->entry ? RT_OK : rt_fail(e, RT_OOM, "out of memory");
    if (!code) code = rt_cells_attach(s->cells, s->stream, q, b->cell, e);
    for (int i = 0; i < q->nentries && !code; i++)
        code = rt_entry_init(b, &b->entry[i], &q->entries[i], e);
    if (code) {
        free_bound(s, b);
        return code;
    }
    b->next = s->bound;
    s->bound = b;
    return RT_OK;
}

RtCode rt_session_attach(RtSession *s, RtProgram *p, RtError *e)
{
    for (RtBound *b = s->bound; b; b = b->next)
        if (b->program == p) return RT_OK;
    if (p->device != s->device)
        return rt_fail(e, RT_USER, "the program was loaded on %s, the session is on %s",
                       p->device->name, s->device->name);
    if (rt_enter(s, e)) return e->code;
    RtCode code = attach(s, p, e);
    if (code == RT_OOM) rt_oom_explain(s, p->p, NULL, e);
    rt_leave(s);
    return code;
}

RtEntry *rt_entry_find(RtSession *s, RtProgram *p, const char *entry, RtError *e)
{
    RtBound *b = s->bound;
    while (b && b->program != p) b = b->next;
    if (!b) {
        rt_fail(e, RT_USER, "the program is not attached to this session");
        return NULL;
    }
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < p->p->nentries; i++) {
        if (!strcmp(p->p->entries[i].name, entry)) return &b->entry[i];
        if (n < 64) names[n++] = p->p->entries[i].name;
    }
    rt_fail(e, RT_USER, "the program has no entry '%s'%s", entry, advise(entry, names, n).text);
    return NULL;
}
