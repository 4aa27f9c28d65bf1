// Makes uses of uninitialised temporaries visible: when a temporary becomes live, its memory is
// filled with 0xff, which is NaN in every float type. A kernel that reads a value that was not
// written since then computes NaN, on any device; the host shim (tests/shim) names it. `netc check`
// runs like this.
#include <stdlib.h>

#include "runtime/exec/exec.h"

struct RtLives {
    int *first,
        *buffer; // buffers that step i accesses first: buffer[first[i] .. first[i + 1])
    int *depth;  // by buffer: number of enclosing loops in each iteration of which it becomes live
                 // again
};

void rt_lives_free(RtLives *l)
{
    if (!l) return;
    free(l->first);
    free(l->buffer);
    free(l->depth);
    free(l);
}

// Finds for each buffer the step that accesses it first (-1: none), and the number of loops around
// its lifetime: enclosing loops for all of which the plan keeps it live do not count. loop_of:
// scratch memory, by step: the enclosing loop.
static void find_begins(const ProgEntry *e, int *begin, int *depth, int *loop_of)
{
    for (int i = 0; i < e->nbuffers; i++) begin[i] = -1;
    for (int i = 0, loop = -1; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        while (loop >= 0 && i >= e->steps[loop].last_step) loop = loop_of[loop];
        loop_of[i] = loop;
        for (int k = 0; k < s->nargs; k++) {
            const ProgBuffer *b = &e->buffers[s->args[k].index];
            if (s->args[k].kind != PA_BUFFER || b->region != PR_ARENA || !b->bytes) continue;
            int at = s->args[k].index, around = loop;
            if (begin[at] >= 0) continue;
            begin[at] = i;
            while (around >= 0 && around >= b->first) around = loop_of[around];
            for (depth[at] = 0; around >= 0; around = loop_of[around]) depth[at]++;
        }
        if (s->kind == PS_LOOP) loop = i;
    }
}

static RtLives *find_lives(const ProgEntry *e)
{
    int *begin = calloc((size_t)(e->nbuffers + e->nsteps) + 1, sizeof *begin);
    RtLives *l = calloc(1, sizeof *l);
    if (l) l->first = calloc((size_t)e->nsteps + 2, sizeof *l->first);
    if (l) l->buffer = calloc((size_t)e->nbuffers + 1, sizeof *l->buffer);
    if (l) l->depth = calloc((size_t)e->nbuffers + 1, sizeof *l->depth);
    if (!begin || !l || !l->first || !l->buffer || !l->depth) {
        free(begin);
        rt_lives_free(l);
        return NULL;
    }
    find_begins(e, begin, l->depth, begin + e->nbuffers);
    for (int i = 0; i < e->nbuffers; i++)
        if (begin[i] >= 0) l->first[begin[i] + 2]++;
    for (int i = 2; i <= e->nsteps + 1; i++) l->first[i] += l->first[i - 1];
    for (int i = 0; i < e->nbuffers; i++)
        if (begin[i] >= 0) l->buffer[l->first[begin[i] + 1]++] = i;
    free(begin);
    return l;
}

void rt_session_spoil(RtSession *s)
{
    s->spoils = true;
}

// Uses the stream of the step that accesses the buffer first, by which previous uses of the memory
// have ended there.
RtCode rt_lives_begin(RtSession *s, RtEntry *en, int step, const int64_t *round, RtStream *stream,
                      RtError *e)
{
    if (!s->spoils) return RT_OK;
    if (!en->lives) en->lives = find_lives(en->e);
    if (!en->lives) return rt_fail(e, RT_OOM, "out of memory");
    const RtLives *l = en->lives;
    for (int i = l->first[step]; i < l->first[step + 1]; i++) {
        const ProgBuffer *b = &en->e->buffers[l->buffer[i]];
        bool begins = true;
        for (int d = l->depth[l->buffer[i]]; d < en->e->steps[step].depth; d++)
            if (round[d]) begins = false;
        if (begins &&
            s->device->ops->spoil(stream, (char *)s->arena + b->offset, (size_t)b->bytes, e))
            return e->code;
    }
    return RT_OK;
}
