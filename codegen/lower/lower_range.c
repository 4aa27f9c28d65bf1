// What is known about a body's integers: their ranges, and their affine form as indices.
#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"

#define DEPTH 12 // operands looked at: they may be shared, so paths may be many

// The range of a loaded value is that of its node in the graph.
static Range of_load(const Lower *l, const Inst *i)
{
    const Node *n = l->body->bufs.at[i->buf].node;
    if (!n || n->type.dtype != i->type) return range_of_type(i->type);
    Range r = range_of_node(n);
    if (i->pred >= 0) { // 0 if the condition is false
        r.low = r.low < 0 ? r.low : 0;
        r.high = r.high > 0 ? r.high : 0;
    }
    return r;
}

// exact: no overflow: it is the result of its op on whole numbers.
static Range of_inst(const Lower *l, int at, int depth, bool *exact)
{
    const Inst *i = &l->body->insts.at[at];
    Range all = range_of_type(i->type), a[3];
    *exact = false;
    switch (i->kind) {
    case KI_CONST: return (Range){i->ivalue, i->ivalue};
    case KI_INDEX: return (Range){i->ix->low, i->ix->high};
    case KI_CHECK: return (Range){0, i->bound - 1};
    case KI_LOAD: return of_load(l, i);
    case KI_REDUCE: return inst_acc(i)->place ? (Range){0, l->body->axis[i->axis].extent - 1} : all;
    case KI_CAST:
        if (!depth || dtype_is_float(i->from)) return all;
        a[0] = of_inst(l, i->a[0], depth - 1, exact);
        *exact = range_within(a[0], all);
        return *exact ? a[0] : all;
    case KI_EW:
        if (!depth || i->na > 3) return all;
        for (int k = 0; k < i->na; k++) {
            if (dtype_is_float(l->body->insts.at[i->a[k]].type)) return all;
            a[k] = of_inst(l, i->a[k], depth - 1, exact);
        }
        return range_of_op(i->op, i->type, a, exact);
    default: return all;
    }
}

Range lower_range(const Lower *l, int at)
{
    bool exact;
    return of_inst(l, at, DEPTH, &exact);
}

// Sums, differences and multiples that cannot overflow become index expressions, whose divisions
// and remainders are simplified by the ranges of their terms.
const Ix *lower_index_of(Lower *l, int at)
{
    IxCtx *c = l->body->ix;
    const Inst *i = &l->body->insts.at[at];
    bool exact;
    Range r = of_inst(l, at, DEPTH, &exact);
    if (i->kind == KI_INDEX) return i->ix;
    if (i->kind == KI_CONST) return ix_const(c, i->ivalue);
    if (exact && i->kind == KI_CAST) return lower_index_of(l, i->a[0]);
    if (exact && i->kind == KI_EW) {
        int a = i->a[0], b = i->na > 1 ? i->a[1] : -1;
        if (i->op == OP_add || i->op == OP_sub)
            return ix_add(c, lower_index_of(l, a),
                          ix_scale(c, lower_index_of(l, b), i->op == OP_sub ? -1 : 1));
        for (int k = 0; k < 2 && i->op == OP_mul; k++) {
            const Inst *by = &l->body->insts.at[i->a[k]];
            if (by->kind == KI_CONST)
                return ix_scale(c, lower_index_of(l, i->a[1 - k]), by->ivalue);
        }
    }
    return ix_value(c, at, r.low, r.high, i->axes);
}
