// Sums and products of 16-bit floats whose only uses before they are stored depend on an order, a
// sign or a choice: storing rounds them.
#include "codegen/ir/rewrite.h"

// Whether rounding the operands is the same as rounding the result.
static bool keeps_rounding(const Inst *v)
{
    return v->kind == KI_EW && (v->type == DT_F16 || v->type == DT_BF16) && !v->text &&
           op_info(v->op)->flags & OPF_LATE;
}

void body_round_late(Arena *a, Body *b)
{
    bool *exact = NEW_ARRAY(a, bool, b->insts.n + 1); // by instruction: something reads the rounded
                                                      // value
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->buf < 0 || s->joins || s->fold ||
            b->bufs.at[s->buf].type != b->insts.at[s->value].type)
            exact[s->value] = true;
    }
    for (uint32_t i = b->insts.n; i-- > 0;) {
        Inst *v = &b->insts.at[i];
        const bool late = keeps_rounding(v) && !exact[i];
        for (int k = 0; k < v->na && !late; k++) exact[v->a[k]] = true;
    }
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        for (int k = 0; k < v->na && keeps_rounding(v) && !exact[i]; k++) {
            const Inst *x = &b->insts.at[v->a[k]];
            if (x->kind == KI_CAST && x->type == v->type && math_type(x->from) == DT_F32 &&
                !exact[v->a[k]])
                v->a[k] = x->a[0];
        }
    }
}
