// Views and indexed accesses: where their operands are read. One function per op, in a table.
#include <math.h>
#include <string.h>

#include "codegen/lower/lower.h"
#include "ir/axes.h"

// Divides both sides of e < bound by a coefficient of e that divides bound, if the quotient of e
// then depends on fewer axes: 64 i + j < 1024 becomes i < 16, which is the same for neighbours
// along j.
static const Ix *without_steps(Lower *l, const Ix *e, int64_t *bound)
{
    for (int i = 0; i < e->n; i++) {
        const int64_t by = e->at[i].coeff;
        if (by < 2 || *bound % by) continue;
        const Ix *q = ix_div(l->body->ix, e, by);
        if (q->axes == e->axes || q->axes & ~e->axes) continue;
        *bound /= by;
        return q;
    }
    return e;
}

// The condition e < bound or e >= bound; -1: always true because of the range of e.
int lower_compare(Lower *l, const Ix *e, Op op, int64_t bound)
{
    e = without_steps(l, e, &bound);
    if (op == OP_lt ? e->high < bound : e->low >= bound) return -1;
    const int at = lower_index(l, e);
    return lower_two(l, op, DT_BOOL, at, lower_const_int(l, l->body->insts.at[at].type, bound));
}

// -- views ----------------------------------------------------------------------------------------

// Groups of axes with the same number of elements in both shapes are converted separately. If a
// condition allows an index to leave one of them, the others do not change.
// Whether only reshapes separate n from a stored node.
static bool reshapes_stored(const Lower *l, const Node *n)
{
    while (n->op == OP_reshape) n = n->args[0];
    return lower_is_buffer(l, n);
}

static int value_reshape(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const Type *from = &n->args[0]->type, *to = &n->type;
    bool leaves = false;
    for (int i = 0; i < to->rank; i++) leaves |= idx[i]->low < 0 || idx[i]->high >= to->dim[i];
    // A single group: for shapes without elements; and on a GPU if no index leaves its axis, since
    // the text of several groups needs other registers.
    const bool whole = type_count(to) == 0 || (l->ctx->target->kind == TARGET_CUDA && !leaves);
    const Ix *at[MAX_RANK];
    for (int i = 0, k = 0; i < from->rank;) {
        const int first = i++, begin = k;
        int64_t source = from->dim[first], result = 1;
        while (source != result || (i == from->rank && k < to->rank) ||
               (whole && (i < from->rank || k < to->rank)))
            if (k < to->rank && (result < source || i == from->rank))
                result *= to->dim[k++];
            else if (i < from->rank)
                source *= from->dim[i++];
            else
                break;
        const Ix *flat = ix_linear(c, idx + begin, to->dim + begin, k - begin);
        ix_delinear(c, flat, from->dim + first, i - first, at + first);
        for (int j = first; j < i; j++)
            if (!whole && from->dim[j] == source && source > 1)
                at[j] = flat; // the other axes have size 1
    }
    const bool shows = !l->seen && reshapes_stored(l, n);
    if (shows) l->seen = to, l->seen_at = idx;
    int v = lower_value(l, n->args[0], at, pred);
    if (shows) l->seen = NULL, l->seen_at = NULL;
    return v;
}

static int value_permute(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    int rank;
    const int64_t *perm = attr_ints(n, ATTR_perm, &rank);
    const Ix *at[MAX_RANK];
    for (int i = 0; i < rank; i++) at[perm[i]] = idx[i];
    return lower_value(l, n->args[0], at, pred);
}

static int value_broadcast(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    int rank;
    const int64_t *dims = attr_ints(n, ATTR_dims, &rank);
    const Ix *at[MAX_RANK];
    for (int i = 0; i < rank; i++)
        at[i] = n->args[0]->type.dim[i] == 1 ? ix_const(l->body->ix, 0) : idx[dims[i]];
    return lower_value(l, n->args[0], at, pred);
}

static int value_slice(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int rank;
    const int64_t *start = attr_ints(n, ATTR_start, &rank);
    const int64_t *stride = attr_ints(n, ATTR_stride, &rank);
    const Ix *at[MAX_RANK];
    for (int i = 0; i < n->type.rank; i++)
        at[i] = ix_add(c, ix_scale(c, idx[i], stride ? stride[i] : 1), ix_const(c, start[i]));
    return lower_value(l, n->args[0], at, pred);
}

static int value_reverse(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int count;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    const Ix *at[MAX_RANK];
    memcpy(at, idx, sizeof *idx * n->type.rank);
    for (int i = 0; i < count; i++) {
        const Ix *last = ix_const(c, n->type.dim[axes[i]] - 1);
        at[axes[i]] = ix_add(c, last, ix_scale(c, idx[axes[i]], -1));
    }
    return lower_value(l, n->args[0], at, pred);
}

static int value_window(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const WindowAxes w = window_axes(n->attrs);
    const Ix *at[MAX_RANK];
    for (int i = 0; i < n->args[0]->type.rank; i++) at[i] = idx[i < w.at ? i : i + w.n];
    for (int i = 0; i < w.n; i++)
        at[w.axis[i]] = ix_add(c, ix_scale(c, idx[w.axis[i]], w.stride[i]),
                               ix_scale(c, idx[w.at + i], w.dilation[i]));
    return lower_value(l, n->args[0], at, pred);
}

// Whether [other] is true whenever [cond] is.
static bool implies(const Body *b, int cond, int other)
{
    const Inst *v = &b->insts.at[cond < 0 ? 0 : cond];
    if (cond == other) return true;
    return cond >= 0 && v->kind == KI_EW && v->op == OP_and &&
           (implies(b, v->a[0], other) || implies(b, v->a[1], other));
}

// Whether a value is 0 whenever the condition is false, since it is computed from loads that are
// not executed then. [left]: how many more instructions to look at.
static bool zero_without(const Body *b, int at, int cond, int *left)
{
    const Inst *v = &b->insts.at[at];
    if (--*left < 0) return false;
    if (v->kind == KI_LOAD) return v->pred >= 0 && implies(b, v->pred, cond);
    bool keeps = v->kind == KI_CAST || (v->kind == KI_EW && !v->text &&
                                        (v->op == OP_mul || v->op == OP_add || v->op == OP_fma));
    for (int i = 0; i < v->na && keeps; i++) keeps = zero_without(b, v->a[i], cond, left);
    return keeps;
}

static int value_pad(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int count, inside = -1;
    const int64_t *low = attr_ints(n, ATTR_low, &count);
    const Ix *at[MAX_RANK], *none[1] = {0};
    for (int i = 0; i < n->type.rank; i++) {
        int64_t extent = n->args[0]->type.dim[i];
        at[i] = ix_add(c, idx[i], ix_const(c, -low[i]));
        if (at[i]->high < 0 || at[i]->low >= extent) return lower_value(l, n->args[1], none, -1);
        if (l->ctx->target->kind == TARGET_CPU) { // (on a GPU, a guard costs nothing compared with
                                                  // an access)
            lower_cut(l, n, idx, at[i], 0);
            lower_cut(l, n, idx, at[i], extent);
        }
        inside = lower_both(l, inside, lower_compare(l, at[i], OP_ge, 0));
        inside = lower_both(l, inside, lower_compare(l, at[i], OP_lt, extent));
    }
    const int there = lower_both(l, pred, inside);
    int v = lower_value(l, n->args[0], at, there);
    if (inside < 0) return v;
    double fill;
    int most = 512;
    if (node_const_value(n->args[1], &fill) && fill == 0 && !signbit(fill) &&
        zero_without(l->body, v, inside, &most))
        return v;
    return lower_select(l, inside, v, lower_value(l, n->args[1], none, -1), n);
}

static int value_concat(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int64_t axis = attr_int(n, ATTR_axis, 0), end = n->type.dim[axis];
    int v = -1;
    for (uint32_t i = n->nargs; i-- > 0;) {
        int64_t begin = end - n->args[i]->type.dim[axis];
        const Ix *e = idx[axis], *at[MAX_RANK];
        if (begin == end || e->low >= end || e->high < begin) {
            end = begin;
            continue;
        }
        memcpy(at, idx, sizeof *idx * n->type.rank);
        at[axis] = ix_add(c, e, ix_const(c, -begin));
        lower_cut(l, n, idx, e, begin);
        int below = lower_compare(l, e, OP_lt, end), above = lower_compare(l, e, OP_ge, begin);
        int p = lower_value(l, n->args[i], at, lower_both(l, pred, lower_both(l, below, above)));
        v = v < 0 ? p : lower_select(l, below, p, v, n);
        end = begin;
    }
    return v < 0 ? lower_const_int(l, n->type.dtype, 0) : v;
}

// -- indexed access -------------------------------------------------------------------------------

// The value of an index operand as an index in 0..bound, with a check unless its range proves that.
// place: of the operand's element.
static const Ix *checked(Lower *l, const Node *node, int v, const Ix *place, int64_t bound,
                         int pred)
{
    if (!range_within(lower_range(l, v), (Range){0, bound - 1})) {
        const char *what = arena_printf(l->ctx->arena, "index of %s", op_info(node->op)->name);
        int check = lower_check(l, CHECK_INDEX, what, node->loc, bound);
        lower_error_buf(l);
        l->body->can_fail = true;
        v = lower_inst(l, (Inst){.kind = KI_CHECK,
                                 .type = l->body->insts.at[v].type,
                                 .na = 1,
                                 .a = {v},
                                 .pred = pred,
                                 .buf = check,
                                 .bound = bound,
                                 .ix = place,
                                 .node = node});
    }
    return lower_index_of(l, v);
}

const Ix *lower_start(Lower *l, const Node *start, int64_t limit)
{
    const Ix *none[1] = {0};
    int v = lower_value(l, start, none, -1);
    DType t = start->type.dtype;
    if (!range_within(range_of_node(start), (Range){0, limit})) {
        v = lower_two(l, OP_maximum, t, v, lower_const_int(l, t, 0));
        v = lower_two(l, OP_minimum, t, v, lower_const_int(l, t, limit));
    }
    return ix_value(l->body->ix, v, 0, limit, l->body->insts.at[v].axes);
}

static int value_gather(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const Node *x = n->args[0], *which = n->args[1];
    int64_t axis = attr_int(n, ATTR_axis, 0);
    int irank = which->type.rank;
    const Ix *at[MAX_RANK], *place = ix_linear(l->body->ix, idx + axis, which->type.dim, irank);
    int v = lower_value(l, which, idx + axis, pred);
    memcpy(at, idx, sizeof *idx * (size_t)axis);
    at[axis] = checked(l, n, v, place, x->type.dim[axis], pred);
    for (int i = (int)axis + 1; i < x->type.rank; i++) at[i] = idx[i + irank - 1];
    return lower_value(l, x, at, pred);
}

static int value_dynamic_slice(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const Node *x = n->args[0];
    const Ix *at[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        const Ix *start = lower_start(l, n->args[1 + i], x->type.dim[i] - n->type.dim[i]);
        at[i] = ix_add(l->body->ix, idx[i], start);
    }
    return lower_value(l, x, at, pred);
}

static int value_dynamic_update(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const Node *x = n->args[0], *u = n->args[1];
    const Ix *at[MAX_RANK];
    int inside = -1;
    for (int i = 0; i < x->type.rank; i++) {
        const Ix *start = lower_start(l, n->args[2 + i], x->type.dim[i] - u->type.dim[i]);
        at[i] = ix_add(c, idx[i], ix_scale(c, start, -1));
        inside = lower_both(l, inside, lower_compare(l, at[i], OP_ge, 0));
        inside = lower_both(l, inside, lower_compare(l, at[i], OP_lt, u->type.dim[i]));
    }
    int v = lower_value(l, u, at, lower_both(l, pred, inside));
    return inside < 0 ? v : lower_select(l, inside, v, lower_value(l, x, idx, pred), n);
}

// -- the table ------------------------------------------------------------------------------------

typedef int Rule(Lower *l, const Node *n, const Ix *const *idx, int pred);

// These have kernels of their own: lower_ordered.c.
#define value_scatter     NULL
#define value_scatter_add NULL
#define value_scatter_max NULL
#define value_scatter_min NULL

static Rule *const rules[OP_COUNT] = {
#define RULE_VIEW(id)        value_##id
#define RULE_INDEX(id)       value_##id
#define RULE_REDUCE(id)      NULL
#define RULE_DOT(id)         NULL
#define RULE_SCAN(id)        NULL
#define RULE_LEAF(id)        NULL
#define RULE_ELEMENTWISE(id) NULL
#define RULE_REGION(id)      NULL
#define RULE_META(id)        NULL
#define RULE_ROOT(id)        NULL
#define EW(id, ...)
#define OP(id, arity, class, ...) [OP_##id] = RULE_##class(id),
#include "ir/ops.def"
#undef EW
#undef OP
};

int value_view(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    if (rules[n->op]) return rules[n->op](l, n, idx, pred);
    l->failed = true;
    return lower_const_int(l, n->type.dtype, 0);
}
