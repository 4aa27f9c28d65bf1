// Additive masks as selects: x + (0 where c, else -inf) becomes x where c, else -inf, since kernels
// skip tiles that a condition on positions masks.
//
// The same holds for a finite number far below all scores, mostly -1e9: added to it, an |x| < 32 is
// lost in f32, and a larger one nearly so. It is not done where x may itself be such a number,
// since the sum of two masks is lower where both apply.
#include <math.h>

#include "passes/attention/attention.h"

enum { MOST_NESTED = 8, LOWEST = -1000000000, MASK = -10000 };

static double applied(Op op, double a, double b)
{
    return op == OP_add ? a + b : op == OP_sub ? a - b : op == OP_mul ? a * b : a / b;
}

// Whether all elements of n are one of two constants: v[0] where *cond holds, v[1] elsewhere.
static bool two_valued(Lift *l, Node *n, Node **cond, double v[2], int depth)
{
    double c;
    if (depth == MOST_NESTED || n->type.dtype != DT_F32) return false;
    if (n->op == OP_select) {
        *cond = n->args[0];
        return node_const_value(n->args[1], &v[0]) && node_const_value(n->args[2], &v[1]);
    }
    if (n->op == OP_cast && n->args[0]->type.dtype == DT_BOOL) {
        *cond = n->args[0];
        v[0] = 1;
        v[1] = 0;
        return true;
    }
    if (n->op == OP_neg || n->op == OP_broadcast) {
        if (!two_valued(l, n->args[0], cond, v, depth + 1)) return false;
        if (n->op == OP_broadcast) *cond = graph_node(l->g, OP_broadcast, cond, 1, n->attrs);
        for (int i = 0; i < 2 && n->op == OP_neg; i++) v[i] = -v[i];
        return true;
    }
    if (n->op != OP_add && n->op != OP_sub && n->op != OP_mul && n->op != OP_div) return false;
    for (int k = 0; k < 2; k++) {
        if (!node_const_value(n->args[k], &c)) continue;
        if (!two_valued(l, n->args[1 - k], cond, v, depth + 1)) return false;
        for (int i = 0; i < 2; i++) v[i] = k ? applied(n->op, v[i], c) : applied(n->op, c, v[i]);
        return true;
    }
    return false;
}

// Whether n contains a constant so large that it may be a mask.
static bool has_mask(const Node *n, int depth)
{
    double v;
    if (node_const_value(n, &v)) return v <= MASK || v >= -MASK;
    if (depth == 4 * MOST_NESTED) return true;
    if (node_class(n) == CLS_ELEMENTWISE || n->op == OP_broadcast)
        for (uint32_t k = 0; k < n->nargs; k++)
            if (has_mask(n->args[k], depth + 1)) return true;
    return false;
}

static Lifted masked_sum(Lift *l, Lifted x, Lifted mask)
{
    Node *cond;
    double v[2];
    const Lifted none = {0};
    if (!x.n || !two_valued(l, mask.n, &cond, v, 0)) return none;
    int low = v[0] < v[1] ? 0 : 1;
    if (!(v[low] <= LOWEST) || v[1 - low] != 0) return none;
    if (v[low] > -INFINITY && has_mask(x.n, 0)) return none;
    Lifted number = lift_number(l, v[low]), c = {cond, mask.atoms};
    return lift_ew(l, OP_select, (Lifted[]){c, low ? x : number, low ? number : x}, 3, NULL);
}

Lifted lift_masked(Lift *l, Op op, const Lifted *args)
{
    Lifted v = {0};
    if (op == OP_fma && args[2].n->op != OP_region_param)
        v = masked_sum(l, lift_ew(l, OP_mul, args, 2, NULL), args[2]);
    for (int k = 0; op == OP_add && k < 2 && !v.n; k++) v = masked_sum(l, args[1 - k], args[k]);
    return v;
}
