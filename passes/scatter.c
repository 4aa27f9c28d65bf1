// On a GPU, scatter finds the last update of each place before it stores any: the maximum of the
// updates' numbers, by atomics, whose order does not matter. Every element then reads its value:
//
//     scatter(x, index, updates)   becomes   last = scatter_max(-1, index, 0 .. n - 1)
//                                            select(last >= 0, gather(updates, last), x)
//
// Executed as it is, a scatter of n updates takes n steps, one after another.
//
// Requires: gradients expanded. Keeps: every value to the bit. Breaks: nothing.
#include "ir/target.h"
#include "passes/passes.h"
#include "passes/regions.h"

// The duration of a step (measured on an H200: 16,384 steps take 890 us), and of two more launches.
static const double STEP_SECONDS = 5e-8, LAUNCH_SECONDS = 5e-6;

static int64_t updates_of(const Node *n)
{
    return n->args[2]->type.dim[attr_int(n, ATTR_axis, 0)];
}

static bool is_slow(void *ctx, const Node *n)
{
    const Target *t = ctx;
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

static Node *last_of_each(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_slow(ctx, n)) return NULL;
    graph_stamp(g, n, NULL);
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
    return rewrite_nodes(g, done, is_slow, last_of_each, ctx);
}

Graph *pass_scatter(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, scatter_graph, (void *)(uintptr_t)o->target);
}
