// Bodies of groups with one anchor: prefix sums, sorts, scatters.
#include <string.h>

#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"
#include "ir/axes.h"

// Finishes a body that stores n.
static bool done(Lower *l, const Node *n, BodyList *out)
{
    lower_committed(l, n);
    if (l->failed) return lower_failed(l, n);
    lower_finish(l);
    vec_push(l->ctx->arena, out, l->body);
    return true;
}

bool lower_deliver(Lower *l, const Node *n, const Ix *place, int value, BodyList *out)
{
    lower_store(l, lower_buf(l, KA_NODE, n, n->type.dtype, type_count(&n->type)), place, value);
    return done(l, n, out);
}

void lower_around(IxCtx *c, const Type *t, int64_t axis, const Ix *row, const Ix *col,
                  const Ix **at)
{
    int64_t dim[MAX_RANK];
    const Ix *idx[MAX_RANK];
    int n = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != axis) dim[n++] = t->dim[i];
    ix_delinear(c, row, dim, n, idx);
    for (int i = 0, k = 0; i < t->rank; i++) at[i] = i == axis ? col : idx[k++];
}

int64_t lower_rows_around(const Type *t, int64_t axis)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= i == axis ? 1 : t->dim[i];
    return n;
}

// Sums of up to so many elements are f32, since f64 takes up to four times as long.
enum { LONG_SCAN = 4096 };

// The type of the accumulator of a running sum. On a CPU one thread adds a whole row sequentially:
// in f32 a sum of ones would stop at 2^24. On a GPU partial sums are added, which are few.
static DType scan_accumulator(const Target *target, DType t, int64_t cols)
{
    bool alone = target->kind != TARGET_CUDA && cols > LONG_SCAN;
    return alone && dtype_is_float(t) ? DT_F64 : dtype_accumulator(t);
}

// Lowers running reductions, and sort and argsort of rows that fit in shared memory or of which
// only the first elements are wanted: each element is a column, whose value depends on the others.
bool lower_ordered(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out)
{
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    const Type *t = &n->type;
    int64_t axis = attr_int(n, ATTR_axis, 0), rows = lower_rows_around(t, axis),
            cols = n->args[0]->type.dim[axis];
    const Ix *row = ix_axis(c, lower_new_axis(&l, rows), rows);
    l.body->npar = 1;
    l.body->serial_cols = true;
    l.body->col = lower_new_axis(&l, cols);
    const Ix *col = ix_axis(c, l.body->col, cols), *at[MAX_RANK];
    if (attr_int(n, ATTR_reverse, 0)) col = ix_add(c, ix_const(c, cols - 1), ix_scale(c, col, -1));
    lower_around(c, t, axis, row, col, at);
    const bool runs = op_info(n->op)->running, places = n->op == OP_argsort,
               wide = runs && accumulator(op_info(n->op)->reduces)->adds;
    DType in = n->args[0]->type.dtype,
          acc = wide ? scan_accumulator(ctx->target, t->dtype, cols) : in;
    int v = lower_cast(&l, lower_value(&l, n->args[0], at, -1), acc, NULL);
    v = lower_inst(&l, (Inst){.kind = runs ? KI_SCAN : KI_SORT,
                              .op = runs ? op_info(n->op)->reduces : 0,
                              .type = places ? DT_I32 : acc,
                              .acc = acc,
                              .na = 1,
                              .a = {v},
                              .axis = l.body->col,
                              .ivalue = attr_int(n, ATTR_first, 0),
                              .exclusive = attr_int(n, ATTR_exclusive, 0) != 0,
                              .down = attr_int(n, ATTR_descending, 0) != 0,
                              .places = places,
                              .node = n});
    v = lower_cast(&l, v, t->dtype, n);
    return lower_deliver(&l, n, ix_linear(c, at, t->dim, t->rank), v, out);
}

// Lowers sort and argsort of short rows: every element counts how many come before it, and is
// stored there, if the result has that place. Stable, since equal elements are ordered by index.
bool lower_sort(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out)
{
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    const Type *t = &n->args[0]->type;
    int64_t axis = attr_int(n, ATTR_axis, 0), rows = lower_rows_around(t, axis),
            cols = t->dim[axis];
    bool down = attr_int(n, ATTR_descending, 0) != 0;
    const Ix *row = ix_axis(c, lower_new_axis(&l, rows), rows);
    const Ix *col = ix_axis(c, lower_new_axis(&l, cols), cols), *at[MAX_RANK];
    l.body->npar = 2;
    lower_around(c, t, axis, row, col, at);
    int mine = lower_value(&l, n->args[0], at, -1);
    int q = lower_new_axis(&l, cols);
    const Ix *other_col = ix_axis(c, q, cols);
    lower_around(c, t, axis, row, other_col, at);
    int other = lower_value(&l, n->args[0], at, -1);
    // [other] comes first if it is before in order, or if both are equal (or unordered) and its
    // index is smaller.
    DType it = cols <= INT32_MAX ? DT_I32 : DT_I64, dt = t->dtype;
    int less = lower_two(&l, OP_lt, DT_BOOL, down ? mine : other, down ? other : mine);
    int more = lower_two(&l, OP_lt, DT_BOOL, down ? other : mine, down ? mine : other);
    if (dtype_is_float(dt)) { // NaN is last if ascending, first if descending: numpy's order
                              // reversed
        int mine_nan = lower_two(&l, OP_ne, DT_BOOL, mine, mine);
        int other_nan = lower_two(&l, OP_ne, DT_BOOL, other, other);
        int a = down ? other_nan : mine_nan, b = down ? mine_nan : other_nan;
        int only_a = lower_two(&l, OP_and, DT_BOOL, a, lower_not(&l, b));
        int only_b = lower_two(&l, OP_and, DT_BOOL, b, lower_not(&l, a));
        less = lower_two(&l, OP_or, DT_BOOL, less, only_a);
        more = lower_two(&l, OP_or, DT_BOOL, more, only_b);
    }
    int i = lower_inst(&l, (Inst){.kind = KI_INDEX, .type = it, .ix = col});
    int j = lower_inst(&l, (Inst){.kind = KI_INDEX, .type = it, .ix = other_col});
    int earlier = lower_two(&l, OP_lt, DT_BOOL, j, i);
    int tie = lower_two(&l, OP_and, DT_BOOL, earlier, lower_not(&l, more));
    int first = lower_two(&l, OP_or, DT_BOOL, less, tie);
    int one = lower_cast(&l, first, it, NULL);
    int rank = lower_inst(&l, (Inst){.kind = KI_REDUCE,
                                     .op = OP_sum,
                                     .type = it,
                                     .acc = it,
                                     .na = 1,
                                     .a = {one},
                                     .axis = q,
                                     .node = n});
    const Ix *place = ix_value(c, rank, 0, cols > 0 ? cols - 1 : 0, l.body->insts.at[rank].axes);
    lower_around(c, t, axis, row, place, at);
    int v = n->op == OP_argsort ? lower_cast(&l, i, n->type.dtype, n) : mine;
    lower_store(&l, lower_buf(&l, KA_NODE, n, n->type.dtype, type_count(&n->type)),
                ix_linear(c, at, n->type.dim, t->rank), v);
    if (attr_find(n, ATTR_first)) {
        const int end = lower_const_int(&l, it, attr_int(n, ATTR_first, 0));
        l.body->stores.at[0].guard = 1 + lower_two(&l, OP_lt, DT_BOOL, rank, end);
    }
    return done(&l, n, out);
}

int lower_place(Lower *l, Node *n, const Ix *at, int pred)
{
    int64_t places = n->type.dim[attr_int(n, ATTR_axis, 0)];
    int where = lower_value(l, n->args[1], &at, pred);
    if (range_within(lower_range(l, where), (Range){0, places - 1})) return where;
    int check = lower_check(l, CHECK_INDEX, "index of an update", n->loc, places);
    lower_error_buf(l);
    l->body->can_fail = true;
    return lower_inst(l, (Inst){.kind = KI_CHECK,
                                .type = l->body->insts.at[where].type,
                                .na = 1,
                                .a = {where},
                                .pred = pred,
                                .buf = check,
                                .bound = places,
                                .ix = at,
                                .node = n});
}

// Whether updates are combined by atomics: where the result does not depend on their order.
static bool combines_atomically(const Target *t, const Node *n)
{
    const DType type = n->type.dtype;
    double first;
    if (t->kind != TARGET_CUDA || n->op == OP_scatter) return false;
    if (type == DT_I32 || type == DT_U32 || type == DT_I64) return true;
    return n->op != OP_scatter_add && (type == DT_F32 || type == DT_F64) &&
           node_const_value(n->args[0], &first) && first == first;
}

// The body that stores n's first operand as n.
static bool copy_first(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out)
{
    Lower l = lower_begin(ctx, g, group);
    const Type *t = &n->type;
    const int64_t all = type_count(t);
    const Ix *at[MAX_RANK], *flat = ix_axis(l.body->ix, lower_new_axis(&l, all), all);
    l.body->npar = 1;
    ix_delinear(l.body->ix, flat, t->dim, t->rank, at);
    return lower_deliver(&l, n, flat, lower_value(&l, n->args[0], at, -1), out);
}

// Lowers scatter and its variants: a copy of the data, unless the updates change a cell where it
// is, then the updates in order. A thread processes all updates of its indices on the other axes,
// so no two threads write the same element, and the order of additions is fixed. Updates that are
// combined atomically have a thread each.
bool lower_scatter(LowerCtx *ctx, Graph *g, const Group *group, Node *n, BodyList *out)
{
    const Type *t = &n->type, *ut = &n->args[2]->type;
    int64_t axis = attr_int(n, ATTR_axis, 0), count = ut->dim[axis],
            rows = lower_rows_around(t, axis);
    const TargetSums sizes = scatter_sizes(n);
    const bool atomic = combines_atomically(ctx->target, n);
    if (n->op == OP_scatter_add && type_count(t) && target_sums_in_bins(ctx->target, &sizes) &&
        !(atomic && target_atomic_sums_seconds(ctx->target, &sizes) <
                        target_sums_seconds(ctx->target, &sizes)))
        return lower_bins(ctx, g, group, n, out);
    const bool changes = lower_changes_part(ctx, n);
    if (!changes && !copy_first(ctx, g, group, n, out)) return false;
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    // If there are many threads, each processes only the indices that are equal to its number
    // modulo [shares].
    int64_t shares = atomic ? count : 1,
            device = (int64_t)ctx->target->units * ctx->target->threads_per_unit / 2;
    if (ctx->target->kind == TARGET_CUDA && !atomic)
        while (shares < 128 && shares * 64 < count && shares * 2 * rows <= device) shares *= 2;
    const Ix *all_rows = ix_axis(c, lower_new_axis(&l, rows * shares), rows * shares),
             *at[MAX_RANK];
    const Ix *row = ix_mod(c, all_rows, rows > 0 ? rows : 1);
    const Ix *col = ix_div(c, all_rows, rows > 0 ? rows : 1); // (atomic)
    l.body->npar = 1;
    if (!atomic) {
        l.body->serial_cols = true;
        l.body->col = lower_new_axis(&l, count);
        col = ix_axis(c, l.body->col, count);
    }
    lower_around(c, ut, axis, row, col, at);
    int where = lower_place(&l, n, col, -1), guard = -1;
    const Ix *place = ix_value(c, where, 0, t->dim[axis] > 0 ? t->dim[axis] - 1 : 0,
                               l.body->insts.at[where].axes);
    if (shares > 1 && !atomic) {
        int share = lower_inst(
            &l, (Inst){.kind = KI_INDEX, .type = DT_I32, .ix = ix_mod(c, place, shares)});
        int mine = lower_inst(
            &l, (Inst){.kind = KI_INDEX, .type = DT_I32, .ix = ix_div(c, all_rows, rows)});
        guard = lower_two(&l, OP_eq, DT_BOOL, share, mine);
    }
    const int v = lower_value(&l, n->args[2], at, guard);
    at[axis] = place;
    int buf = lower_buf(&l, KA_NODE, n, t->dtype, type_count(t));
    if (changes) l.body->bufs.at[buf].part = type_count(ut);
    lower_store(&l, buf, ix_linear(c, at, t->dim, t->rank), v);
    l.body->stores.at[l.body->stores.n - 1].joins = n->op == OP_scatter_add   ? 1 + OP_sum
                                                    : n->op == OP_scatter_max ? 1 + OP_max
                                                    : n->op == OP_scatter_min ? 1 + OP_min
                                                                              : 0;
    l.body->stores.at[l.body->stores.n - 1].guard = guard + 1;
    l.body->stores.at[l.body->stores.n - 1].atomic = atomic;
    return done(&l, n, out);
}
