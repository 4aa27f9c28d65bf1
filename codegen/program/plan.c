// Liveness of temporaries over an entry's steps. A temporary is live from its first to its last
// access; one that crosses the border of a loop, is carried by it or advances with its iterations
// is live during the whole loop. pack.c assigns offsets.
#include "codegen/program/plan.h"

typedef struct Life {
    bool seen, read_first; // read_first: read by the first step that accesses it
    bool moves[PROG_MAX_LOOP_DEPTH];
    int32_t first, last;
    // The longest interval from the last use of a value to the step that overwrites it (in a loop:
    // with the value for the next iteration), in which it holds no data; 0, 0: none.
    int32_t idle_first, idle_last;
    int32_t loop, touched; // the innermost loop of the last access, + 2; the step of that access
} Life;

static int32_t idle_length(const Life *l)
{
    return l->idle_last ? l->idle_last - l->idle_first + 1 : 0;
}

// Whether the step writes all of the argument's buffer without reading it.
static bool overwrites(const ProgEntry *e, const ProgStep *s, const ProgArg *arg)
{
    bool fills = s->kind == PS_COPY || s->kind == PS_ZERO;
    if (!arg->written || arg->joins || arg->value) return false;
    if (fills && s->bytes < e->buffers[arg->index].bytes) return false;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++)
        if (arg->stride[d]) return false;
    for (int32_t k = 0; k < s->nargs; k++)
        if (s->args[k].kind == PA_BUFFER && s->args[k].index == arg->index && !s->args[k].written)
            return false;
    return true;
}

static void extend(Life *l, const ProgStep *steps, const int32_t *loop_of)
{
    for (bool changed = true; changed;) {
        changed = false;
        int32_t ends[2] = {l->first, l->last};
        for (int k = 0; k < 2; k++)
            for (int32_t at = loop_of[ends[k]]; at >= 0; at = loop_of[at]) {
                const ProgStep *s = &steps[at];
                bool inside = l->first >= s->first_step && l->last < s->last_step;
                if (inside && !l->read_first && !l->moves[s->depth]) continue;
                if (l->first > at) l->first = at, changed = true;
                if (l->last < s->last_step - 1) l->last = s->last_step - 1, changed = true;
            }
    }
}

static void touch(Life *l, const ProgEntry *e, int32_t at, const ProgArg *arg, int32_t loop)
{
    const ProgStep *s = &e->steps[at];
    if (l->loop != loop + 2) { // the first access in this iteration of this loop
        l->loop = loop + 2;
    } else if (at - 1 - l->touched > idle_length(l) && overwrites(e, s, arg)) {
        l->idle_first = l->touched + 1;
        l->idle_last = at - 1;
    }
    l->touched = at;
    if (!l->seen) {
        l->first = at;
        l->read_first = !arg->written;
    } else if (l->first == at && !arg->written) {
        l->read_first = true;
    }
    l->seen = true;
    l->last = at;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++) l->moves[d] = l->moves[d] || arg->stride[d] != 0;
}

// By buffer. loop_of: by step, the innermost enclosing loop step; -1: none.
static Life *find_lives(Arena *a, const ProgEntry *e, int32_t *loop_of)
{
    Life *life = NEW_ARRAY(a, Life, e->nbuffers + 1);
    for (int32_t i = 0, loop = -1; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        while (loop >= 0 && i >= e->steps[loop].last_step) loop = loop_of[loop];
        loop_of[i] = loop;
        for (int32_t k = 0; k < s->nargs; k++)
            if (s->args[k].kind == PA_BUFFER)
                touch(&life[s->args[k].index], e, i, &s->args[k], loop);
        if (s->kind == PS_LOOP) loop = i;
    }
    return life;
}

void plan_memory(Arena *a, ProgEntry *e, bool no_reuse)
{
    int32_t *loop_of = NEW_ARRAY(a, int32_t, e->nsteps + 1);
    Life *life = find_lives(a, e, loop_of);
    PlanItem *items = NEW_ARRAY(a, PlanItem, e->nbuffers + 1);
    int32_t *buffer = NEW_ARRAY(a, int32_t, e->nbuffers + 1);
    uint32_t n = 0;
    int64_t end = 0;
    for (int32_t i = 0; i < e->nbuffers; i++) {
        ProgBuffer *b = &e->buffers[i];
        if (b->region != PR_ARENA) continue;
        b->offset = 0;
        b->first = b->last = 0;
        if (!life[i].seen) { // nothing accesses it
            b->bytes = 0;
            continue;
        }
        extend(&life[i], e->steps, loop_of);
        b->first = no_reuse ? 0 : life[i].first;
        b->last = no_reuse ? e->nsteps - 1 : life[i].last;
        if (!b->bytes) continue;
        b->offset = end; // all buffers have separate memory
        end += plan_round(b->bytes);
        buffer[n] = i;
        items[n++] = (PlanItem){.bytes = b->bytes,
                                .first = b->first,
                                .last = b->last,
                                .idle_first = life[i].idle_first,
                                .idle_last = life[i].idle_last};
    }
    e->arena_bytes = end;
    if (no_reuse) return;
    e->arena_bytes = plan_pack(a, items, n);
    for (uint32_t i = 0; i < n; i++) e->buffers[buffer[i]].offset = items[i].offset;
}
