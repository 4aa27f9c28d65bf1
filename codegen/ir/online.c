// The maximum of a row and the sum of exponentials relative to it, in one stage.
#include <string.h>

#include "codegen/ir/rewrite.h"

static bool held_in_f32(DType t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

// The instruction before casts to f32 that keep its value.
static int narrowest(const Body *b, int i)
{
    for (const Inst *v = &b->insts.at[i];
         v->kind == KI_CAST && v->type == DT_F32 && held_in_f32(v->from); v = &b->insts.at[i])
        i = v->a[0];
    return i;
}

// If [sum] adds exp(x - m), where m is the maximum of x along the columns: m. Otherwise -1.
static int maximum_of(const Body *b, const Inst *sum)
{
    if (sum->op != OP_sum || sum->acc != DT_F32) return -1;
    const Inst *x = &b->insts.at[sum->a[0]];
    if (x->kind != KI_EW || x->op != OP_exp || x->type != DT_F32) return -1;
    const Inst *d = &b->insts.at[x->a[0]];
    if (d->kind != KI_EW || d->op != OP_sub) return -1;
    int max = narrowest(b, d->a[1]);
    const Inst *m = &b->insts.at[max];
    bool top = m->kind == KI_REDUCE && m->op == OP_max && m->axis == b->col && held_in_f32(m->acc);
    return top && narrowest(b, m->a[0]) == narrowest(b, d->a[0]) ? max : -1;
}

// The maximum if it is all that the stage computes, and the next stage computes only sums of this
// kind with it; otherwise -1.
static int online_maximum(const Body *b, const bool *live, int stage)
{
    int max = -1, sums = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!live[i] || v->kind != KI_REDUCE || v->axis != b->col || v->stage != stage + 1)
            continue;
        if (max >= 0 || v->op != OP_max) return -1;
        max = (int)i;
    }
    for (uint32_t i = 0; i < b->insts.n && max >= 0; i++) {
        const Inst *v = &b->insts.at[i];
        if (!live[i] || v->kind != KI_REDUCE || v->axis != b->col || v->stage != stage + 2)
            continue;
        if (maximum_of(b, v) != max) return -1;
        sums++;
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (store_over(b, &b->stores.at[i], b->col) && b->stores.at[i].stage == stage + 1)
            return -1;
    return sums ? max : -1;
}

static void join_next(Body *b, int stage, int max)
{
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        if (v->stage < stage + 2) continue;
        v->stage--;
        if (v->kind == KI_REDUCE && v->axis == b->col && v->stage == stage + 1) v->under = 1 + max;
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].stage >= stage + 2) b->stores.at[i].stage--;
    if (b->rare > stage + 1) b->rare--;
    b->nstages--;
}

static Body *copy(Arena *a, const Body *b)
{
    Body *c = NEW(a, Body);
    *c = *b;
    c->insts.at = NEW_ARRAY(a, Inst, b->insts.n + 1);
    c->stores.at = NEW_ARRAY(a, BodyStore, b->stores.n + 1);
    memcpy(c->insts.at, b->insts.at, b->insts.n * sizeof *b->insts.at);
    memcpy(c->stores.at, b->stores.at, b->stores.n * sizeof *b->stores.at);
    return c;
}

Body *body_join_online(Arena *a, const Body *b)
{
    Body *c = NULL;
    const bool *live = body_live(a, b);
    for (int stage = 0; stage + 1 < (c ? c : b)->nstages; stage++) {
        int max = online_maximum(c ? c : b, live, stage);
        if (max < 0) continue;
        if (!c) c = copy(a, b);
        join_next(c, stage, max);
    }
    return c;
}
