// Reductions and contractions as values: an axis of their own, or the columns of the body.
#include <string.h>

#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"
#include "ir/axes.h"

// The axis of a reduction over [extent] elements: the body's columns if the result depends only on
// the rows, otherwise an axis of its own.
static int reduction_axis(Lower *l, int64_t extent, uint64_t kept)
{
    const Body *b = l->body;
    uint64_t rows = (1ull << b->npar) - 1;
    if (b->col >= 0 && !b->serial_cols && b->axis[b->col].extent == extent && !(kept & ~rows))
        return b->col;
    return lower_new_axis(l, extent);
}

static uint64_t axes_of(const Lower *l, const Ix *const *idx, int n, int pred)
{
    uint64_t axes = pred < 0 ? 0 : l->body->insts.at[pred].axes;
    for (int i = 0; i < n; i++) axes |= idx[i]->axes;
    return axes;
}

// A sum over axis [q] of where(k == i, v, 0), where i is the index along it and k does not depend
// on it, is v at k, without a loop. -1: it is not such a sum.
static int value_picked(Lower *l, const Node *n, const Ix **at, int along, int q, int pred)
{
    const Node *x = n->args[0];
    if (n->op != OP_sum || x->op != OP_select || lower_is_buffer(l, x)) return -1;
    const Body *b = l->body;
    int hit = lower_value(l, x->args[0], at, pred), key = -1;
    int zero = lower_value(l, x->args[2], at, pred);
    Inst eq = b->insts.at[hit], z = b->insts.at[zero];
    if (eq.kind != KI_EW || eq.op != OP_eq || z.kind != KI_CONST || z.fvalue != 0 || z.ivalue != 0)
        return -1;
    for (int k = 0; k < 2; k++) {
        const Inst *i = &b->insts.at[eq.a[k]], *other = &b->insts.at[eq.a[1 - k]];
        if (i->kind == KI_INDEX && i->ix == at[along] && !(other->axes >> q & 1) &&
            !dtype_is_float(other->type) && other->kind != KI_INDEX)
            key = eq.a[1 - k];
    }
    int64_t extent = b->axis[q].extent;
    if (key < 0 || !extent) return -1;
    DType t = b->insts.at[key].type;
    int inside = -1;
    if (!range_within(lower_range(l, key), (Range){0, extent - 1})) { // outside, the sum is 0
        int first = lower_const_int(l, t, 0), last = lower_const_int(l, t, extent - 1);
        inside = lower_both(l, lower_two(l, OP_ge, DT_BOOL, key, first),
                            lower_two(l, OP_le, DT_BOOL, key, last));
        key = lower_two(l, OP_maximum, t, key, first);
        key = lower_two(l, OP_minimum, t, key, last);
    }
    const Ix *place = ix_value(l->body->ix, key, 0, extent - 1, b->insts.at[key].axes);
    if (b->insts.at[key].kind == KI_CONST) place = ix_const(l->body->ix, b->insts.at[key].ivalue);
    const Ix *to[MAX_RANK];
    memcpy(to, at, sizeof *to * x->type.rank);
    to[along] = place;
    int v = lower_value(l, x->args[1], to, pred);
    return inside < 0 ? v : lower_select(l, inside, v, zero, x);
}

// Sets [at] to the index at which a reduction reads its operand; returns the axis it loops over.
static int reduced_at(Lower *l, const Node *n, const Ix *const *idx, int pred, const Ix **at)
{
    IxCtx *c = l->body->ix;
    int count;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    int64_t extent = 1, dim[MAX_RANK];
    for (int i = 0; i < count; i++) extent *= dim[i] = n->args[0]->type.dim[axes[i]];
    int q = reduction_axis(l, extent, axes_of(l, idx, n->type.rank, pred));
    const Ix *sub[MAX_RANK];
    ix_delinear(c, ix_axis(c, q, extent), dim, count, sub);
    for (int i = 0, r = 0, k = 0; i < n->args[0]->type.rank; i++)
        at[i] = r < count && axes[r] == i ? sub[r++] : idx[k++];
    return q;
}

// Squared deviations by two sums, one after the other.
static int value_sqdev(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    DType t = dtype_accumulator(n->type.dtype);
    int mean = -1, sum = -1;
    for (int round = 0; round < 2; round++) {
        const Ix *at[MAX_RANK];
        Inst r = {.kind = KI_REDUCE, .op = OP_sum, .na = 1, .type = t, .acc = t, .node = n};
        r.axis = reduced_at(l, n, idx, pred, at);
        int64_t count = l->body->axis[r.axis].extent;
        r.a[0] = lower_cast(l, lower_value(l, n->args[0], at, pred), t, NULL);
        if (round) {
            int d = lower_two(l, OP_sub, t, r.a[0], mean);
            r.a[0] = lower_two(l, OP_mul, t, d, d);
        }
        sum = lower_inst(l, r);
        Inst share = {.kind = KI_CONST, .type = t, .fvalue = count ? 1.0 / (double)count : 0};
        if (!round) mean = lower_ew(l, OP_mul, t, (int[]){sum, lower_inst(l, share)}, 2, NULL);
    }
    return lower_cast(l, sum, n->type.dtype, n);
}

// A sum over a row of a * f, where f is constant along the row, must wait for f, which takes
// another stage if f is computed from another sum. f * sum(a) need not wait and is equal except for
// rounding if it is finite. If it is not finite, sum(a * f) may still be finite, and is used.
static int value_early(Lower *l, Inst sum)
{
    const Body *b = l->body;
    Inst v = b->insts.at[sum.a[0]];
    DType t = sum.acc;
    if (!l->early || sum.op != OP_sum || sum.axis != b->col || !dtype_is_float(t)) return -1;
    bool negative = v.kind == KI_EW && v.op == OP_neg;
    if (negative) v = b->insts.at[v.a[0]];
    if (v.kind != KI_EW || v.op != OP_mul || v.type != t) return -1;
    for (int k = 0; k < 2; k++) {
        const Inst *factor = &b->insts.at[v.a[k]], *rest = &b->insts.at[v.a[1 - k]];
        if (factor->axes >> b->col & 1 || rest->stage >= factor->stage) continue;
        Inst early = sum;
        early.a[0] = v.a[1 - k];
        int product = lower_ew(l, OP_mul, t, (int[]){lower_inst(l, early), v.a[k]}, 2, NULL);
        if (negative) product = lower_ew(l, OP_neg, t, &product, 1, NULL);
        int finite = lower_ew(l, OP_isfinite, DT_BOOL, &product, 1, NULL);
        sum.unless = 1 + finite;
        return lower_ew(l, OP_select, t, (int[]){finite, product, lower_inst(l, sum)}, 3, NULL);
    }
    return -1;
}

int value_reduce(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const Node *x = n->args[0];
    const Ix *at[MAX_RANK];
    int q = reduced_at(l, n, idx, pred, at), count, v = -1;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    if (op_info(n->op)->acc == ACC_MOMENTS && (!l->one_pass || q != l->body->col))
        return value_sqdev(l, n, idx, pred);
    if (count == 1) v = value_picked(l, n, at, (int)axes[0], q, pred);
    if (v >= 0) return lower_cast(l, v, n->type.dtype, n);
    v = lower_value(l, x, at, pred);
    DType acc = acc_type_of(n), out = n->type.dtype;
    v = lower_cast(l, v, acc, NULL);
    Inst i = {.kind = KI_REDUCE, .op = n->op, .na = 1, .a = {v}, .axis = q, .acc = acc, .node = n};
    i.type = inst_acc(&i)->place ? DT_I32 : acc;
    v = value_early(l, i);
    return lower_cast(l, v < 0 ? lower_inst(l, i) : v, out, n);
}

// The sum of a dot's attributes and first two operands. unless: 1 + the bool that says that it is
// not needed, which depends on all rows; it then gets an axis of its own, in a loop that is left
// out. 0: it is needed.
static int value_products(Lower *l, const Node *n, const Ix *const *idx, int pred, int unless)
{
    IxCtx *c = l->body->ix;
    const Node *x[2] = {n->args[0], n->args[1]};
    const DotAxes axes[2] = {dot_axes(n, 0), dot_axes(n, 1)};
    const int nb = axes[0].nbatch, nc = axes[0].ncontract;
    int64_t extent = 1, dim[MAX_RANK];
    for (int i = 0; i < nc; i++) dim[i] = x[0]->type.dim[axes[0].contract[i]];
    const int64_t channels = nc ? dim[nc - 1] : 1;
    const bool zeros = n == l->product && l->channels > channels;
    if (zeros) dim[nc - 1] = l->channels;
    for (int i = 0; i < nc; i++) extent *= dim[i];
    int q = unless ? lower_new_axis(l, extent)
                   : reduction_axis(l, extent, axes_of(l, idx, n->type.rank, pred));
    const Ix *sub[MAX_RANK], *at[MAX_RANK];
    ix_delinear(c, ix_axis(c, q, extent), dim, nc, sub);
    if (zeros) pred = lower_both(l, pred, lower_compare(l, sub[nc - 1], OP_lt, channels));
    DType acc = (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype));
    int v[2], next = nb;
    for (int s = 0; s < 2; s++) {
        const DotAxes *d = &axes[s];
        for (int i = 0; i < nb; i++) at[d->batch[i]] = idx[i];
        for (int i = 0; i < nc; i++) at[d->contract[i]] = sub[i];
        for (int i = 0; i < d->nfree; i++) at[d->free[i]] = idx[next++];
        v[s] = lower_cast(l, lower_value(l, x[s], at, pred), acc, NULL);
    }
    int p = lower_two(l, OP_mul, acc, v[0], v[1]);
    int r = lower_inst(l, (Inst){.kind = KI_REDUCE,
                                 .op = OP_sum,
                                 .na = 1,
                                 .a = {p},
                                 .axis = q,
                                 .unless = unless,
                                 .acc = acc,
                                 .type = acc,
                                 .node = n});
    return lower_cast(l, r, n->type.dtype, n);
}

int value_dot(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    return value_products(l, n, idx, pred, 0);
}

int value_repair(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const int64_t *perm = attr_ints(n, ATTR_perm, NULL);
    const Ix *at[MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) at[perm[i]] = idx[i];
    const int y = lower_value(l, n->args[2], idx, pred),
              finite = lower_ew(l, OP_isfinite, DT_BOOL, &y, 1, NULL),
              sum = value_products(l, n, at, pred, 1 + finite);
    return lower_select(l, finite, y, sum, n);
}
