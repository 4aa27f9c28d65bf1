// Loop fission: a loop keeps only what its carried values need; the rest is computed for all
// iterations at once, before or after it. What remains can then be one kernel (recurrences.c).
//
//     loop t carry h over x {                  u = sigmoid(matmul(x, w))      (T, B, N), one
//     product
//         u = sigmoid(matmul(x, w))            loop t carry h over u {
//         h = u * h + (1 - u)         becomes      h = u * h + (1 - u)  emit before = h }
//         emit y = matmul(h, v) }              y = matmul(hs, v)              one product, too
//
// Before the loop: what does not depend on carried values and is no elementwise code, or is
// computed from random draws. After it: stacked results that do not depend on carried values, or
// that mix elements of values that do (sums, products). For these the loop stacks carried values;
// elementwise code between is computed again. A stacked result of which only the sum over the
// iterations is read is carried as that sum. Other sums that the loop accumulates are left to
// loop_sums, which runs before.
//
// If carried values need more than elementwise code (an LSTM's products), the loop remains a loop.
// Then only products with what all iterations have (weights) leave it: those of what is scanned
// before it, those of what it can stack, if carried values do not need them, after it. A loop that
// only adds up stays as it is; it may well be one for the sake of memory.
//
// Requires: gradients expanded, precision chosen. Keeps: every value up to the order of additions.
// Breaks: nothing. The cost is memory for all iterations of what is stacked, multiplied or summed:
// as many bytes as the loop reads and stacks anyway, or MOST_BYTES, or an eighth of a memory limit.
#include "passes/fission/fission.h"
#include "passes/passes.h"
#include "passes/regions.h"

// By stacked result of a loop of g: whether only sums over the iterations read it.
static bool *summed_results(const Graph *g, const Node *loop, const bool *otherwise)
{
    const int n = node_result_count(loop);
    bool *summed = NEW_ARRAY(g->arena, bool, n + 1);
    for (uint32_t i = loop->id; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        if (node_has(x, OPF_RESULT) && x->args[0] == loop && !otherwise[i])
            summed[attr_int(x, ATTR_index, 0)] = true;
    }
    return summed;
}

// By id: whether anything but a sum over axis 0 reads the node.
static bool *read_otherwise(const Graph *g)
{
    bool *otherwise = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        int n;
        const int64_t *axes = x->op == OP_sum ? attr_ints(x, ATTR_axes, &n) : NULL;
        const DType t = x->type.dtype;
        const bool sums =
            axes && n && axes[0] == 0 && dtype_is_float(t) && attr_int(x, ATTR_accumulate, t) == t;
        for (uint32_t k = 0; k < x->nargs && !sums; k++) otherwise[x->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->results.n; i++) otherwise[g->results.at[i]->id] = true;
    return otherwise;
}

// The sum over all axes of the old sum but the iterations.
static Node *remaining_sum(Graph *dst, const Node *sum, Node *over_iterations)
{
    int n;
    int64_t axes[MAX_RANK];
    const int64_t *old = attr_ints(sum, ATTR_axes, &n);
    for (int i = 1; i < n; i++) axes[i - 1] = old[i] - 1;
    graph_stamp(dst, sum, sum->name);
    return n > 1 ? graph_reduce(dst, OP_sum, over_iterations, axes, n - 1, false) : over_iterations;
}

// Whether the operand is a result that the new loop carries as a sum.
static bool carried_sum(const Node *sum, const FissionLoop *loop, Node **const *result)
{
    const Node *x = sum->args[0];
    return node_has(x, OPF_RESULT) && result[x->args[0]->id] &&
           loop[x->args[0]->id].summed[attr_int(x, ATTR_index, 0)];
}

static Graph *split(void *ctx, const IdMap *done, Graph *g)
{
    bool needed = any_rebuilt(done, g), *otherwise = read_otherwise(g);
    FissionLoop *loop = NEW_ARRAY(g->arena, FissionLoop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op == OP_loop)
            loop[i] = fission_divide(n, rebuilt(done, n->regions[0]),
                                     summed_results(g, n, otherwise), *(const int64_t *)ctx);
        needed |= loop[i].any;
    }
    if (!needed) return g;
    Remap r = remap_begin(g, graph_beside(g));
    Node ***result = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Node **new = loop[i].any ? NEW_ARRAY(g->arena, Node *, loop[i].body->results.n + 1) : NULL;
        if (new &&fission_build(r.dst, &loop[i], r.map, new))
            result[i] = new, r.map[i] = new[0];
        else if (n->op == OP_sum && carried_sum(n, loop, result))
            r.map[i] = remaining_sum(r.dst, n, r.map[n->args[0]->id]);
        else if (node_has(n, OPF_RESULT) && result[n->args[0]->id])
            r.map[i] = result[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        else
            remap_with_regions(&r, done, n, &needed);
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_fission(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    int64_t memory_limit = o->memory_limit;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, split, &memory_limit);
}
