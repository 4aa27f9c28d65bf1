// Lives of temporaries made visible: where one begins, its memory is filled with 0xff, which is no
// number in any type of floats. A kernel that reads what nobody wrote in that life computes NaN, on
// any device; the device of the host (tests/shim) names it. `netc check` runs like this.
#include <stdlib.h>

#include "runtime/exec.h"

struct RtLives {
    int *first, *buffer; // the buffers that begin with step i: buffer[first[i] .. first[i + 1])
};

void rt_lives_free(RtLives *l)
{
    if (!l) return;
    free(l->first);
    free(l->buffer);
    free(l);
}

// By buffer, the step its life begins with: the first that touches it, or the outermost loop around
// that one which the plan has it live through; -1: none. loop_of: by step, room for the loop
// around.
static void find_begins(const ProgEntry *e, int *begin, int *loop_of)
{
    for (int i = 0; i < e->nbuffers; i++) begin[i] = -1;
    for (int i = 0, loop = -1; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        while (loop >= 0 && i >= e->steps[loop].last_step) loop = loop_of[loop];
        loop_of[i] = loop;
        for (int k = 0; k < s->nargs; k++) {
            const ProgBuffer *b = &e->buffers[s->args[k].index];
            if (s->args[k].kind != PA_BUFFER || b->region != PR_ARENA || !b->bytes) continue;
            int *at = &begin[s->args[k].index];
            if (*at >= 0) continue;
            *at = i;
            while (loop_of[*at] >= 0 && loop_of[*at] >= b->first) *at = loop_of[*at];
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
    if (!begin || !l || !l->first || !l->buffer) {
        free(begin);
        rt_lives_free(l);
        return NULL;
    }
    find_begins(e, begin, begin + e->nbuffers);
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

RtCode rt_lives_begin(RtSession *s, RtEntry *en, int step, RtStream *stream, RtError *e)
{
    if (!s->spoils) return RT_OK;
    if (!en->lives) en->lives = find_lives(en->e);
    if (!en->lives) return rt_fail(e, RT_OOM, "out of memory");
    for (int i = en->lives->first[step]; i < en->lives->first[step + 1]; i++) {
        const ProgBuffer *b = &en->e->buffers[en->lives->buffer[i]];
        if (s->device->ops->spoil(stream, (char *)s->arena + b->offset, (size_t)b->bytes, e))
            return e->code;
    }
    return RT_OK;
}
