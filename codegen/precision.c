// Where a body needs all digits of f32. A value that reaches memory only as bf16 or f16 may come
// from the cheaper forms of the prelude (nc_exp_16 ...): their errors are far below a rounding step
// of the result. What leads to an f32 result, to an integer or to a comparison stays exact.
#include "codegen/accumulator.h"
#include "codegen/print.h"

static bool is_short(DType t)
{
    return t == DT_BF16 || t == DT_F16;
}

// A bit for the stage whose loop over the columns computes a reduction.
static uint64_t loop_of(const Inst *reduction)
{
    return 1ull << (reduction->stage - 1) % 64;
}

int sum_under_maximum(const Body *b, int sum)
{
    const Inst *v = &b->insts.at[sum];
    if (v->kind != KI_REDUCE || v->op != OP_sum || v->axis != b->col || v->acc != DT_F32) return -1;
    const Inst *x = &b->insts.at[v->a[0]];
    if (x->kind != KI_EW || x->op != OP_exp || x->type != DT_F32) return -1;
    const Inst *d = &b->insts.at[x->a[0]];
    if (d->kind != KI_EW || d->op != OP_sub) return -1;
    const Inst *m = &b->insts.at[d->a[1]];
    bool top = m->kind == KI_REDUCE && m->op == OP_max && m->axis == b->col && m->a[0] == d->a[0];
    return top ? x->a[0] : -1;
}

uint64_t *body_precision(Arena *a, const Body *b)
{
    const uint64_t all = ~0ull;
    uint64_t *full = NEW_ARRAY(a, uint64_t, b->insts.n + 1);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        bool exact = s->buf < 0 || s->add || !is_short(b->bufs.at[s->buf].type);
        if (exact) full[s->value] |= store_over(b, s, b->col) ? 1ull << s->stage % 64 : all;
        if (s->guard) full[s->guard - 1] = all;
    }
    for (uint32_t i = b->insts.n; i-- > 0;) {
        const Inst *v = &b->insts.at[i];
        uint64_t own = is_short(v->type) ? 0 : full[i];
        if (v->kind == KI_REDUCE && v->axis == b->col && own) own = loop_of(v);
        bool smooth = v->kind == KI_CAST || (v->kind == KI_REDUCE && !inst_acc(v)->place) ||
                      (v->kind == KI_EW && op_info(v->op)->flags & OPF_SMOOTH);
        if (!smooth || !dtype_is_float(v->type)) own = all;
        // The logarithm of exponentials summed under their maximum: what the cheaper ones lose,
        // 2^-24 of each one's argument and 2^-22, is no more than adding them up does.
        int under = v->kind == KI_EW && v->op == OP_log ? sum_under_maximum(b, v->a[0]) : -1;
        if (under >= 0) {
            full[under] |= own ? loop_of(&b->insts.at[v->a[0]]) : 0;
            continue;
        }
        for (int k = 0; k < v->na; k++) full[v->a[k]] |= own;
        if ((v->kind == KI_LOAD || v->kind == KI_CHECK) && v->pred >= 0) full[v->pred] = all;
    }
    return full;
}
