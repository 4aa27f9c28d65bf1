// Prepares an entry for capture without a run of the caller: one execution on made-up inputs, whose
// results are discarded, allocates its memory and loads what it calls.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"

enum { ALIGN = 256 };

typedef struct Warm {
    const void **input; // previous inputs, which are restored
    void **output;
    char *block, *host; // block: device memory for all inputs; host: for one
} Warm;

static size_t room(const ProgType *t)
{
    size_t bytes = (size_t)prog_type_bytes(t);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN + (bytes ? 0 : ALIGN);
}

// Fills an input with zeros, or with the smallest value of its range.
static void make_up(const ProgInput *in, char *at)
{
    size_t bytes = (size_t)prog_type_bytes(&in->type),
           size = (size_t)prog_dtype_bytes(in->type.dtype);
    memset(at, 0, bytes);
    for (size_t i = 0; in->has_range && i + size <= bytes; i += size)
        prog_store(in->type.dtype, at + i, (double)in->low);
}

static RtCode begin(RtSession *s, RtEntry *en, Warm *w, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    const ProgEntry *x = en->e;
    size_t total = 0, most = 1;
    void *block;
    for (int i = 0; i < x->ninputs; i++) {
        size_t n = room(&x->inputs[i].type);
        total += n;
        if (n > most) most = n;
    }
    for (int i = 0; i < x->noutputs; i++) total += room(&x->outputs[i].type);
    w->input = calloc((size_t)x->ninputs + 1, sizeof *w->input);
    w->output = calloc((size_t)x->noutputs + 1, sizeof *w->output);
    w->host = malloc(most);
    if (!w->input || !w->output || !w->host) return rt_fail(e, RT_OOM, "out of memory");
    if (ops->alloc(s->device, total + 1, "a first run", &block, e)) return e->code;
    char *at = w->block = block;
    memcpy(w->input, en->input, (size_t)x->ninputs * sizeof *w->input);
    memcpy(w->output, en->output, (size_t)x->noutputs * sizeof *w->output);
    rt_entry_unresolve(s, en);
    for (int i = 0; i < x->noutputs; at += room(&x->outputs[i++].type)) en->output[i] = at;
    for (int i = 0; i < x->ninputs; at += room(&x->inputs[i++].type)) {
        en->input[i] = at;
        make_up(&x->inputs[i], w->host);
        if (ops->copy(s->stream, at, w->host, (size_t)prog_type_bytes(&x->inputs[i].type), RT_H2D,
                      NULL, e) ||
            ops->stream_sync(s->stream, e))
            return e->code;
    }
    return RT_OK;
}

static void end(RtSession *s, RtEntry *en, Warm *w)
{
    if (w->block) {
        rt_entry_unresolve(s, en);
        memcpy(en->input, w->input, (size_t)en->e->ninputs * sizeof *w->input);
        memcpy(en->output, w->output, (size_t)en->e->noutputs * sizeof *w->output);
        s->device->ops->free(s->device, w->block);
    }
    free(w->input), free(w->output), free(w->host);
}

RtCode rt_warm_up(RtSession *s, RtProgram *p, const char *entry, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    Warm w = {0};
    if (!en) return e->code;
    if (en->ran) return RT_OK;
    if (en->nwritten || en->e->nchecks || en->e->rows)
        return rt_fail(e, RT_USER,
                       "'%s' changes states, checks its values or reads a data set: its first run "
                       "must be one of yours",
                       en->e->name);
    if (rt_enter(s, e)) return e->code;
    if (!begin(s, en, &w, e) && !rt_replays_wait(s, e) && !rt_prepare(s, en, e) &&
        !rt_entry_memory(s, en, e)) {
        rt_entry_resolve(s, en);
        rt_entry_steps(s, en, NULL, e);
    }
    if (!e->code) s->device->ops->stream_sync(s->stream, e);
    en->ran |= !e->code;
    end(s, en, &w);
    rt_leave(s);
    return e->code;
}
