// Divisions by a value that stays the same: its reciprocal is computed once.
#include "codegen/ir/rewrite.h"

// A division by a constant of usual magnitude becomes a multiplication and a correction, without a
// branch.
static Quotient quotient_of(const Body *b, const Inst *v)
{
    if (v->kind != KI_EW || v->op != OP_div || math_type(v->type) != DT_F32) return QUOTIENT;
    const Inst *x = &b->insts.at[v->a[0]], *by = &b->insts.at[v->a[1]];
    if (by->kind != KI_CONST) return v->repeats ? QUOTIENT_REPEATED : QUOTIENT;
    float size = by->fvalue < 0 ? -(float)by->fvalue : (float)by->fvalue;
    if (!dtype_is_float(by->type) || !(size > 0x1p-20f && size < 0x1p20f)) return QUOTIENT;
    bool whole = x->kind == KI_CAST && !dtype_is_float(b->insts.at[x->a[0]].type);
    return whole ? QUOTIENT_WHOLE_BY_CONST : QUOTIENT_BY_CONST;
}

void body_mark_quotients(Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++)
        b->insts.at[i].quotient = quotient_of(b, &b->insts.at[i]);
}
