// Comparisons that hold for one column of a row, such as a label compared with the column's number.
#include "codegen/ir/rewrite.h"

// For a comparison of the column's number with a value that is constant along the row: 1 + the
// operand that is the column's number. Otherwise 0.
static uint8_t pick_of(const Body *b, const Inst *v)
{
    int64_t stride;
    if (v->kind != KI_EW || v->op != OP_eq || b->col < 0) return 0;
    for (int k = 0; k < 2; k++) {
        const Inst *n = &b->insts.at[v->a[k]], *of = &b->insts.at[v->a[1 - k]];
        if (n->kind == KI_INDEX && ix_stride(n->ix, b->col, &stride) && stride == 1 &&
            !(of->axes >> b->col & 1) && n->type == of->type)
            return (uint8_t)(k + 1);
    }
    return 0;
}

void body_mark_picks(Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++) b->insts.at[i].once = pick_of(b, &b->insts.at[i]);
}
