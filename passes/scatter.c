// On a GPU, scatter finds the last update of each place before it stores any: the maximum of the
// updates' numbers, by atomics, whose order does not matter. Every element then reads its value:
//
//     scatter(x, index, updates)   becomes   last = scatter_max(-1, index, 0 .. n - 1)
//                                            select(last >= 0, gather(updates, last), x)
//
// Executed as it is, a scatter of n updates takes n steps, one after another.
//
// The largest or smallest float of each place is found by atomics, too, which combine floats of 32
// and 64 bits with a first value that is no NaN:
//
//     scatter_max(x, index, u)   becomes   max(x, cast(scatter_max(-inf, index, cast(u, f32)), ..))
//
// scatter_add as it is has blocks with some of the places each, which look at the indices of all
// updates. With many places one of two other ways may be faster, by the target's estimates. Its
// sums become sums of integers, which atomics add (passes/scatter_integers.c). Or its updates are
// sorted by place, keeping the order of those with the same one; sums with the same index, as in
// the layers of a graph network, share the sort.
//
//     scatter_add(x, index, u)   becomes   order = argsort(index)
//                                          scatter_add(x, index[order], u[order])  @{ordered=n}
//
// where n is the largest number of updates that a place can have.
//
// If the index is r * n + place for rows r of updates, with places from 0 to n - 1, as in the
// gradient of take_along_axis, only each row has to be sorted.
//
// Requires: gradients expanded. Keeps: every value to the bit, but sums of integers, which are
// closer to the exact ones. Breaks: nothing.
#include <math.h>

#include "ir/axes.h"
#include "ir/range.h"
#include "passes/regions.h"
#include "passes/scatter.h"

static int64_t updates_of(const Node *n)
{
    return n->args[2]->type.dim[attr_int(n, ATTR_axis, 0)];
}

typedef enum Way { AS_IT_IS, IN_ORDER, OF_INTEGERS, WAYS } Way;
#define CLEARLY 0.8 // estimates of different ways differ by less in what they leave out

typedef struct Scatters {
    const Target *target;
    double (*seconds)[WAYS]; // by id of an index: of all sums by it, without its sort
} Scatters;

static bool is_half(DType t)
{
    return t == DT_BF16 || t == DT_F16;
}

static bool is_sum(const Target *t, const Node *n)
{
    if (n->op != OP_scatter_add || !dtype_is_float(n->type.dtype) || attr_int(n, ATTR_ordered, 0))
        return false;
    const TargetSums x = scatter_sizes(n);
    return target_sums_in_bins(t, &x);
}

// Whether they may be sums of integers, which have temporaries of three times the result's size:
// not if few places change.
static bool may_count(const Node *n, const TargetSums *x)
{
    return n->type.dtype != DT_F64 && x->count <= INT32_MAX && x->count >= x->places / 8;
}

// v (n) as a value of type t that varies along the axis only.
static Node *along(Graph *g, Node *v, const Type *t, int64_t axis)
{
    int64_t row[MAX_RANK];
    for (int i = 0; i < t->rank; i++) row[i] = i == axis ? t->dim[i] : 1;
    Type to = *t;
    to.dtype = v->type.dtype;
    return graph_broadcast_to(g, graph_reshape(g, v, t->rank, row), &to);
}

// If v (rows) is 0, n, 2n, ...: n. Otherwise 0.
static int64_t step_of(const Node *v)
{
    double n;
    if (v->op != OP_mul) return 0;
    const Node *by = v->args[v->args[0]->op == OP_iota];
    const bool steps = v->args[0]->op == OP_iota || v->args[1]->op == OP_iota;
    return steps && v->type.rank == 1 && node_const_value(by, &n) ? (int64_t)n : 0;
}

// If the index, of a tensor with so many places, is r * n + place for rows r of updates: the places
// (rows, updates of a row). Otherwise NULL.
static const Node *places_in_rows(const Node *index, int64_t places)
{
    while (index->op == OP_reshape) index = index->args[0];
    if (index->op != OP_add || index->type.rank != 2) return NULL;
    for (int k = 0; k < 2; k++) {
        const Node *row = index->args[k], *place = index->args[!k];
        int rank;
        if (row->op != OP_broadcast || row->args[0]->type.rank != 1) continue;
        const int64_t n = step_of(row->args[0]), rows = index->type.dim[0];
        const Range all = {0, n - 1};
        if (attr_ints(row, ATTR_dims, &rank)[0] != 0 || n <= 0 || n > places / rows ||
            !range_within(range_of_node(place), all))
            continue;
        const Node *as = place->op == OP_cast ? place->args[0] : place; // narrower keys, if so
        return dtype_is_int(as->type.dtype) && range_within(range_of_node(as), all) ? as : place;
    }
    return NULL;
}

// The fastest way of the sums by n's index.
static Way way_of(const Scatters *s, const Node *n)
{
    const double *seconds = s->seconds[n->args[1]->id];
    const bool rows = places_in_rows(n->args[1], n->type.dim[attr_int(n, ATTR_axis, 0)]);
    const double sort = rows ? target_sort_rows_seconds(updates_of(n))
                             : target_sort_seconds(updates_of(n), range_bits(n->args[1]));
    const Way way = seconds[IN_ORDER] + sort < seconds[AS_IT_IS] ? IN_ORDER : AS_IT_IS;
    const double best = way == IN_ORDER ? seconds[IN_ORDER] + sort : seconds[AS_IT_IS];
    return seconds[OF_INTEGERS] < CLEARLY * best ? OF_INTEGERS : way;
}

static bool is_slow(void *ctx, const Node *n)
{
    const Scatters *s = ctx;
    const bool largest = n->op == OP_scatter_max || n->op == OP_scatter_min;
    double v;
    if (n->op == OP_scatter || (largest && dtype_is_float(n->type.dtype)))
        return (!largest || !node_const_value(n->args[0], &v) || is_half(n->type.dtype)) &&
               updates_of(n) <= INT32_MAX &&
               target_finds_last_updates(s->target, updates_of(n), type_bytes(&n->type));
    return is_sum(s->target, n) && way_of(s, n) != AS_IT_IS;
}

// The order (count) of the updates by place, i32; updates of the same place stay in their order.
static Node *order_of(Graph *g, const Node *n, Node *const *map)
{
    const Node *places = places_in_rows(n->args[1], n->type.dim[attr_int(n, ATTR_axis, 0)]);
    if (!places) return graph_along(g, OP_argsort, &map[n->args[1]->id], 1, 0);
    const Type *t = &places->type;
    const int64_t count = type_count(t);
    Node *sorted = graph_along(g, OP_argsort, (Node *[]){map[places->id]}, 1, 1);
    Node *each = graph_const(g, sorted->type.dtype, (double)t->dim[1]);
    Node *first = graph_binary(g, OP_mul, graph_iota(g, sorted->type.dtype, t->dim, 2, 0),
                               graph_broadcast_to(g, each, &sorted->type));
    return graph_reshape(g, graph_binary(g, OP_add, sorted, first), 1, &count);
}

// The most updates of one place.
static int64_t most_of(const Node *n)
{
    const Node *places = places_in_rows(n->args[1], n->type.dim[attr_int(n, ATTR_axis, 0)]);
    return places ? places->type.dim[1] : updates_of(n);
}

static Node *in_order(Graph *g, const Node *n, Node *const *map)
{
    const int64_t axis = attr_int(n, ATTR_axis, 0);
    Node *x = map[n->args[0]->id], *index = map[n->args[1]->id], *updates = map[n->args[2]->id];
    Node *order = order_of(g, n, map);
    Node *sorted = graph_along(g, OP_gather, (Node *[]){index, order}, 2, 0);
    Node *moved = graph_along(g, OP_gather, (Node *[]){updates, order}, 2, axis);
    graph_stamp(g, n, NULL);
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    attr_set_int(&attrs, ATTR_ordered, most_of(n));
    return graph_node(g, OP_scatter_add, (Node *[]){x, sorted, moved}, 3, &attrs);
}

// The extremes of the updates alone, then of these and x.
static Node *onto_infinity(Graph *g, const Node *n, Node *const *map)
{
    const bool largest = n->op == OP_scatter_max;
    const DType t = n->type.dtype, wide = is_half(t) ? DT_F32 : t;
    Node *x = map[n->args[0]->id], *updates = graph_cast(g, map[n->args[2]->id], wide);
    Node *none = graph_const(g, wide, largest ? -INFINITY : INFINITY);
    Node *args[] = {graph_broadcast_to(g, none, &n->type), map[n->args[1]->id], updates};
    Node *y = graph_along(g, n->op, args, 3, attr_int(n, ATTR_axis, 0));
    graph_stamp(g, n, NULL);
    return graph_binary(g, largest ? OP_maximum : OP_minimum, x, graph_cast(g, y, t));
}

static Node *replaced(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_slow(ctx, n)) return NULL;
    graph_stamp(g, n, NULL);
    if (n->op == OP_scatter_add)
        return way_of(ctx, n) == IN_ORDER ? in_order(g, n, map)
                                          : scatter_integers(g, n, map, most_of(n));
    if (n->op != OP_scatter) return onto_infinity(g, n, map);
    const int64_t axis = attr_int(n, ATTR_axis, 0), count = updates_of(n),
                  places = n->type.dim[axis];
    Node *x = map[n->args[0]->id], *index = map[n->args[1]->id], *updates = map[n->args[2]->id];
    const Type lasts = type_make(DT_I32, 1, &places);
    Node *none = graph_broadcast_to(g, graph_const(g, DT_I32, -1), &lasts);
    Node *last = graph_along(g, OP_scatter_max,
                             (Node *[]){none, index, graph_iota(g, DT_I32, &count, 1, 0)}, 3, 0);
    Node *zero = graph_broadcast_to(g, graph_const(g, DT_I32, 0), &lasts);
    Node *end = graph_broadcast_to(g, graph_const(g, DT_I32, (double)(count - 1)), &lasts);
    Node *any = graph_binary(g, OP_ge, last, zero);
    Node *from = graph_binary(g, OP_minimum, graph_binary(g, OP_maximum, last, zero), end);
    Node *value = graph_along(g, OP_gather, (Node *[]){updates, from}, 2, axis);
    graph_stamp(g, n, NULL);
    return graph_select(g, along(g, any, &n->type, axis), value, x);
}

static Graph *scatter_graph(void *ctx, const IdMap *done, Graph *g)
{
    Scatters s = {ctx, (double(*)[WAYS])NEW_ARRAY(g->arena, double, WAYS *(g->nodes.n + 1))};
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!live[i] || !is_sum(ctx, n)) continue;
        const TargetSums x = scatter_sizes(n);
        double *seconds = s.seconds[n->args[1]->id];
        seconds[AS_IT_IS] += target_sums_seconds(ctx, &x);
        seconds[IN_ORDER] += target_ordered_sums_seconds(ctx, &x);
        seconds[OF_INTEGERS] += may_count(n, &x) ? target_integer_sums_seconds(ctx, &x) : INFINITY;
    }
    return rewrite_nodes(g, done, is_slow, replaced, &s);
}

Graph *pass_scatter(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, scatter_graph, (void *)(uintptr_t)o->target);
}
