// A Program made ready on a device: its code and its constants. Immutable, shared by sessions.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"

enum { ALIGN = 256 };

static void destroy(RtProgram *p)
{
    RtDevice *d = p->device;
    RtError e = {0};
    if (d->ops->enter(d, &e) == RT_OK) {
        if (p->module) d->ops->module_free(p->module);
        d->ops->free(d, p->const_block);
        d->ops->leave(d);
    }
    free(p->consts);
    free(p);
}

void rt_program_retain(RtProgram *p)
{
    atomic_fetch_add(&p->refs, 1);
}

void rt_program_free(RtProgram *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1) destroy(p);
}

static RtCode upload_consts(RtProgram *p, RtError *e)
{
    const RtDeviceOps *ops = p->device->ops;
    const Program *q = p->p;
    size_t total = 0;
    for (int i = 0; i < q->nconsts; i++)
        total += ((size_t)prog_type_bytes(&q->consts[i].type) + ALIGN - 1) / ALIGN * ALIGN;
    if (!total) return RT_OK;
    RtStream *s;
    RtCode code = ops->alloc(p->device, total, "constants", &p->const_block, e);
    if (!code) code = ops->stream_new(p->device, NULL, &s, e);
    if (code) return code;
    size_t at = 0;
    for (int i = 0; i < q->nconsts && !code; i++) {
        size_t n = (size_t)prog_type_bytes(&q->consts[i].type);
        p->consts[i] = (char *)p->const_block + at;
        if (n) code = ops->copy(s, p->consts[i], q->consts[i].data, n, RT_H2D, NULL, e);
        at += (n + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (!code) code = ops->stream_sync(s, e);
    ops->stream_free(s);
    return code;
}

RtCode rt_program_load(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                       const RtCompileOptions *o, RtProgram **out, RtError *e)
{
    static const RtCompileOptions none = {0};
    *out = NULL;
    if (p->cuda != d->ops->cuda)
        return rt_fail(e, RT_USER,
                       "a program compiled for %s cannot run on %s; compile it with --target %s",
                       p->cuda ? "cuda" : "the CPU", d->name, d->ops->cuda ? "cuda" : "cpu");
    const int count = d->count > 1 ? d->count : 1, wanted = p->devices > 1 ? p->devices : 1;
    if (wanted != count)
        return rt_fail(e, RT_USER,
                       "a program compiled for %d device%s cannot run on %d (%s); compile it with "
                       "--devices %d",
                       wanted, wanted == 1 ? "" : "s", count, d->name, count);
    RtProgram *r = calloc(1, sizeof *r);
    if (r) r->consts = calloc((size_t)p->nconsts + 1, sizeof *r->consts);
    if (!r || !r->consts) {
        free(r);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    atomic_init(&r->refs, 1);
    r->device = d;
    r->p = p;
    RtCode code = d->ops->enter(d, e);
    if (!code) {
        code = d->ops->module_new(d, p, images, nimages, o ? o : &none, &r->module, e);
        if (!code) code = upload_consts(r, e);
        d->ops->leave(d);
    }
    if (code) {
        rt_program_free(r);
        return code;
    }
    *out = r;
    return RT_OK;
}

const char *rt_choices(RtProgram *p, Arena *a)
{
    return p->device->ops->module_choices(p->module, a);
}

const char *rt_defect(const RtProgram *p)
{
    const RtDeviceOps *ops = p->device->ops;
    return ops->module_defect ? ops->module_defect(p->module) : NULL;
}
