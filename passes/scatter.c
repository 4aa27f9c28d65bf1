// On a GPU, scatter finds the last update of each place before it stores any: the maximum of the
// updates' numbers, by atomics, whose order does not matter. Every element then reads its value:
//
//     scatter(x, index, updates)   becomes   last = scatter_max(-1, index, 0 .. n - 1)
//                                            select(last >= 0, gather(updates, last), x)
//
// Executed as it is, a scatter of n updates takes n steps, one after another.
//
// scatter_add into many places sorts its updates by place, keeping the order of those with the same
// one. Otherwise each block of its kernel, which has some of the places, would look at the indices
// of all updates. Sums with the same index, as in the layers of a graph network, share the sort.
//
//     scatter_add(x, index, u)   becomes   order = argsort(index)
//                                          scatter_add(x, index[order], u[order])  @{ordered=1}
//
// Requires: gradients expanded. Keeps: every value to the bit. Breaks: nothing.
#include <math.h>

#include "ir/target.h"
#include "passes/passes.h"
#include "passes/regions.h"

// Measured on an H200. STEP: one update after another (16,384 take 890 us). LAUNCH: two more
// launches. LOOK: a thread looks at an index (1,042 blocks of 256 threads take 2.8 ms for the
// 1,000,000 indices that each looks at, two blocks on each of 132 multiprocessors). RUN: the first
// step of the sort, 4,096 elements. MERGE: a further step, and for each element.
static const double STEP_SECONDS = 5e-8, LAUNCH_SECONDS = 5e-6, LOOK_SECONDS = 1.8e-7,
                    RUN_SECONDS = 8.3e-5, MERGE_SECONDS = 6e-6, MERGED_SECONDS = 4e-11;

static double count_of(const Node *n)
{
    return (double)type_count(&n->type);
}

static int64_t updates_of(const Node *n)
{
    return n->args[2]->type.dim[attr_int(n, ATTR_axis, 0)];
}

// Whether finding the updates of each block's places takes longer than sorting all updates
// (codegen/lower/lower_bins.c has the same sizes of blocks).
static bool sorting_pays(const Target *t, const Node *n)
{
    enum {
        BIN_BYTES = 96 << 10,
        ORDERED_BYTES = 16 << 10,
        RUN = 4096,
        WARP = 32,
        THREADS = 256,
        RESIDENT = 2 // blocks on a multiprocessor
    };
    const double places = (double)n->type.dim[attr_int(n, ATTR_axis, 0)], all = count_of(n),
                 count = (double)updates_of(n), cols = all / places, across = ceil(cols / THREADS);
    double v;
    if (!target_sums_in_bins(t, (int64_t)places, (int64_t)count,
                             node_const_value(n->args[0], &v)) ||
        attr_int(n, ATTR_ordered, 0) || all * 4 / ORDERED_BYTES < RESIDENT * t->units)
        return false;
    const double blocks = ceil(all * 4 / BIN_BYTES / across) * across,
                 ranges = fmax(1, fmin(RESIDENT * t->units / blocks, count / (2 * places))),
                 turns = ceil(blocks * ranges / (RESIDENT * t->units)),
                 looks = turns * count / ranges / fmax(WARP, fmin(cols, THREADS)) * LOOK_SECONDS,
                 merges = ceil(log2(fmax(count / RUN, 1))),
                 sort = RUN_SECONDS + merges * (MERGE_SECONDS + count * MERGED_SECONDS);
    return looks > 2 * sort;
}

static bool is_slow(void *ctx, const Node *n)
{
    const Target *t = ctx;
    if (n->op == OP_scatter_add && dtype_is_float(n->type.dtype)) return sorting_pays(t, n);
    if (n->op != OP_scatter || updates_of(n) > INT32_MAX) return false;
    double all = 2.0 * (double)type_bytes(&n->type) / t->bytes_per_second;
    return (double)updates_of(n) * STEP_SECONDS > all + LAUNCH_SECONDS;
}

static Node *indexed(Graph *g, Op op, Node *const *args, int n, int64_t axis)
{
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    return graph_node(g, op, args, n, &attrs);
}

static Node *numbers(Graph *g, int64_t n)
{
    Attrs attrs = {0};
    attr_set_ints(g, &attrs, ATTR_shape, &n, 1);
    attr_set_int(&attrs, ATTR_axis, 0);
    attr_set_int(&attrs, ATTR_dtype, DT_I32);
    return graph_node(g, OP_iota, NULL, 0, &attrs);
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

static Node *in_order(Graph *g, const Node *n, Node *const *map)
{
    const int64_t axis = attr_int(n, ATTR_axis, 0);
    Node *x = map[n->args[0]->id], *index = map[n->args[1]->id], *updates = map[n->args[2]->id];
    Node *order = indexed(g, OP_argsort, &index, 1, 0);
    Node *sorted = indexed(g, OP_gather, (Node *[]){index, order}, 2, 0);
    Node *moved = indexed(g, OP_gather, (Node *[]){updates, order}, 2, axis);
    graph_stamp(g, n, NULL);
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    attr_set_int(&attrs, ATTR_ordered, 1);
    return graph_node(g, OP_scatter_add, (Node *[]){x, sorted, moved}, 3, &attrs);
}

static Node *replaced(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_slow(ctx, n)) return NULL;
    graph_stamp(g, n, NULL);
    if (n->op == OP_scatter_add) return in_order(g, n, map);
    const int64_t axis = attr_int(n, ATTR_axis, 0), count = updates_of(n),
                  places = n->type.dim[axis];
    Node *x = map[n->args[0]->id], *index = map[n->args[1]->id], *updates = map[n->args[2]->id];
    const Type lasts = type_make(DT_I32, 1, &places);
    Node *none = graph_broadcast_to(g, graph_const(g, DT_I32, -1), &lasts);
    Node *last = indexed(g, OP_scatter_max, (Node *[]){none, index, numbers(g, count)}, 3, 0);
    Node *zero = graph_broadcast_to(g, graph_const(g, DT_I32, 0), &lasts);
    Node *end = graph_broadcast_to(g, graph_const(g, DT_I32, (double)(count - 1)), &lasts);
    Node *any = graph_binary(g, OP_ge, last, zero);
    Node *from = graph_binary(g, OP_minimum, graph_binary(g, OP_maximum, last, zero), end);
    Node *value = indexed(g, OP_gather, (Node *[]){updates, from}, 2, axis);
    graph_stamp(g, n, NULL);
    return graph_select(g, along(g, any, &n->type, axis), value, x);
}

static Graph *scatter_graph(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, is_slow, replaced, ctx);
}

Graph *pass_scatter(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, scatter_graph, (void *)(uintptr_t)o->target);
}
