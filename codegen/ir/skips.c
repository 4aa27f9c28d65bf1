// Loads of values that are not selected: in `where(position <= at, sum(q * keys), -inf)`, rows of
// keys that the condition excludes are not read, so the part of a cache that is not written yet is
// not read either.
#include "codegen/ir/rewrite.h"

// Whether a condition is computed from indices and from values that all threads share. (Neighbours
// in memory then agree on it: see fits.)
static bool is_cheap(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    bool cheap = v->kind == KI_CONST || v->kind == KI_INDEX || v->kind == KI_EW ||
                 v->kind == KI_CAST || (v->kind == KI_LOAD && !v->axes);
    for (int i = 0; i < v->na && cheap; i++) cheap = is_cheap(b, v->a[i]);
    return cheap;
}

// Whether whole vectors of the load can be skipped: the condition does not change within one.
static bool fits(const Body *b, const Inst *load, const Inst *when)
{
    if (load->kind != KI_LOAD || load->pred >= 0 || !load->axes || when->axes & ~load->axes)
        return false;
    for (int axis = 0; axis < b->naxes; axis++) {
        int64_t step, stride;
        bool aligned;
        if (!(when->axes >> axis & 1)) continue;
        bool same = ix_run(load->ix, axis, 2, &step, &aligned) && !step; // for two neighbours
        bool apart = ix_stride(load->ix, axis, &stride) && stride != 1;
        if (!same && !apart) return false;
    }
    return true;
}

void body_mark_skips(Arena *a, Body *b)
{
    if (b->attention.nouts || b->dot.sum >= 0 || b->bins.held || b->can_fail) return;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_EW || v->op != OP_select || b->insts.at[v->a[2]].kind != KI_CONST)
            continue;
        int when = v->a[0];
        if (!b->insts.at[when].axes || !is_cheap(b, when)) continue;
        const bool *live = body_live(a, b), *else_live = body_live_without(a, b, (int)i);
        for (uint32_t k = (uint32_t)when + 1; k < i; k++)
            if (live[k] && !else_live[k] && fits(b, &b->insts.at[k], &b->insts.at[when]))
                b->insts.at[k].pred = when, b->insts.at[k].skips = true;
    }
}
