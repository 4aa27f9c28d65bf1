// Phases: a run of small kernels may be launched as one, whose blocks wait for each other where one
// step needs what another has written. The blocks are one cluster: its barrier takes a quarter of
// what the end of a small kernel and the start of the next do. (A barrier over a whole grid takes
// as long as these, so kernels wider than a cluster keep launches of their own.)
//
// Steps get the earliest phase their operands allow, and stand in that order from then on. Only
// memory they name counts, so a phase is any steps that touch nothing in common which one of them
// writes; the plan keeps their temporaries apart.
#include "codegen/gen.h"

#include <string.h>

// Blocks of a phase for each part of the cluster: more would take too many turns.
enum { MOST_STEPS = 96, MOST_TURNS = 2 };

// Why step [s] cannot be part of a phase; NULL: it can.
static const char *obstacle(GenEntry *e, const ProgStep *s)
{
    const Gen *g = e->gen;
    const char *why = NULL;
    switch (s->kind) {
    case PS_GEMM: return "calls the matmul library";
    case PS_LOOP: return "is a loop";
    case PS_COPY: return "is a copy";
    case PS_ZERO: return "clears memory";
    case PS_KERNEL: break;
    }
    if (s->depth) return "is inside a loop";
    const ProgKernel *k = &g->kernels.at[s->index];
    if (k->grid[0] > (uint32_t)g->target->widest_cluster * PHASE_PARTS * MOST_TURNS)
        return "is wider than a cluster";
    if (k->text != g->generated.at[s->index].text) return "is edited by hand";
    return phase_possible(k, &why) ? NULL : why;
}

typedef struct Touch { // of a buffer: 1 + the last phase that wrote it, that read it
    int32_t wrote, read;
} Touch;

// The phase of each of n steps; how many there are.
static int32_t find_phases(const ProgStep *s, int32_t n, Touch *touch, int32_t *phase)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t p = 0;
        for (int32_t k = 0; k < s[i].nargs; k++) {
            if (s[i].args[k].kind != PA_BUFFER) continue;
            const Touch *t = &touch[s[i].args[k].index];
            if (t->wrote > p) p = t->wrote;
            if (s[i].args[k].written && t->read > p) p = t->read;
        }
        phase[i] = p;
        for (int32_t k = 0; k < s[i].nargs; k++) {
            if (s[i].args[k].kind != PA_BUFFER) continue;
            Touch *t = &touch[s[i].args[k].index];
            if (s[i].args[k].written) t->wrote = p + 1;
            if (t->read < p + 1) t->read = p + 1;
        }
        if (p + 1 > most) most = p + 1;
    }
    return most;
}

static void join(GenEntry *e, ProgEntry *out, int32_t first, int32_t last)
{
    Arena *a = e->gen->arena;
    int32_t n = last - first, *phase = NEW_ARRAY(a, int32_t, n), at = 0;
    ProgStep *s = &out->steps[first], *sorted = NEW_ARRAY(a, ProgStep, n);
    ProgJoin j = {.first_step = first, .last_step = last};
    j.nphases = find_phases(s, n, NEW_ARRAY(a, Touch, out->nbuffers + 1), phase);
    if (j.nphases < 2) return;
    j.phase_end = NEW_ARRAY(a, int32_t, j.nphases);
    for (int32_t p = 0; p < j.nphases; p++) {
        for (int32_t i = 0; i < n; i++)
            if (phase[i] == p) sorted[at++] = s[i];
        j.phase_end[p] = first + at;
    }
    memcpy(s, sorted, (size_t)n * sizeof *s);
    ProgKernel k = phases_cuda(e, out, &j);
    j.step.index = gen_kernel(e->gen, &k, NULL);
    j.step.name = e->gen->kernels.at[j.step.index].name;
    ProgJoin *all = NEW_ARRAY(a, ProgJoin, out->njoins + 1);
    if (out->njoins) memcpy(all, out->joins, (size_t)out->njoins * sizeof *all);
    all[out->njoins++] = j;
    out->joins = all;
}

void gen_join(GenEntry *e, ProgEntry *out)
{
    Gen *g = e->gen;
    // Compiling kernels once more takes time that only many steps bring back.
    if (g->target->kind != TARGET_CUDA || out->kind != PK_TRAIN) return;
    if (g->target->widest_cluster < 2) {
        out->join_note = "every step is a launch of its own: the device has no clusters";
        return;
    }
    int32_t outside = 0, first_outside = -1;
    const char *first_why = "";
    for (int32_t i = 0; i < out->nsteps;) {
        int32_t end = i;
        const char *why = NULL;
        while (end < out->nsteps && end - i < MOST_STEPS && !(why = obstacle(e, &out->steps[end])))
            end++;
        if (end - i >= 2)
            join(e, out, i, end);
        else
            outside += end - i;
        if (why) {
            outside++;
            if (first_outside < 0) {
                first_outside = end;
                first_why = why;
            }
            end++;
        }
        i = end;
    }
    if (first_outside >= 0)
        out->join_note = arena_printf(
            g->arena, "%d of %d steps are launches of their own: step %d (%s) %s", (int)outside,
            (int)out->nsteps, (int)first_outside, out->steps[first_outside].name, first_why);
}
