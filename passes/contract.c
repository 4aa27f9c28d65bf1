// FMA contraction: a product whose only readers are additions becomes an `fma` in each of them,
// which rounds once. This is the only place that contracts (kernels are compiled with contraction
// off), so that a value has the same bits in every kernel that computes it.
//
// In a * b + c * d the first operand's product is contracted. A difference negates a factor or the
// subtrahend, which is free: the instruction has signs. The factor broadcast from fewer values is
// negated and comes second in every fma, so that the updates of equal parameters are equal,
// whatever the order of their nodes. f32 and f64 only: products of 16-bit floats are rounded. On a
// target without the instruction nothing changes.
//
// Requires: nothing. Runs before `recompute`, so that clones have the bits of their originals, and
// before `fuse`, so that the result depends on the graph alone. Keeps: every value within rounding;
// the range (a product that alone would overflow may not do so here); NaN, infinities and signs of
// zero as the sum has them. Breaks: later passes do not see the product apart from its sum.
#include "passes/passes.h"
#include "passes/regions.h"

static bool is_sum(const Node *n)
{
    return n->op == OP_add || n->op == OP_sub || n->op == OP_sum;
}

// By id: has readers other than sums and differences.
static bool *read_alone(const Graph *g)
{
    bool *alone = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; live[i] && !is_sum(n) && k < n->nargs; k++)
            alone[n->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->results.n; i++) alone[g->results.at[i]->id] = true;
    return alone;
}

// Which operand of the sum or difference n is the product to contract; -1: neither.
static int product_of(const Node *n, const bool *alone)
{
    if (n->op != OP_add && n->op != OP_sub) return -1;
    if (n->type.dtype != DT_F32 && n->type.dtype != DT_F64) return -1;
    if (n->args[0] == n->args[1]) return -1; // x - x is 0
    for (int k = 0; k < 2; k++)
        if (n->args[k]->op == OP_mul && !alone[n->args[k]->id]) return k;
    return -1;
}

static Node *negated(Graph *g, Node *n)
{
    if (n->op != OP_broadcast) return graph_unary(g, OP_neg, n);
    Node *few = graph_unary(g, OP_neg, n->args[0]);
    return graph_node(g, OP_broadcast, &few, 1, n->attrs);
}

// Whether negating this factor is cheaper than negating the other: it is a constant or broadcast
// from fewer values.
static bool negates_cheaper(const Node *n, const Node *other)
{
    double v;
    bool spread = n->op == OP_broadcast;
    if (node_const_value(n, &v)) return true;
    return spread && (other->op != OP_broadcast ||
                      type_count(&n->args[0]->type) < type_count(&other->args[0]->type));
}

static bool is_sum_with_product(void *alone, const Node *n)
{
    return product_of(n, alone) >= 0;
}

static Node *contracted(void *alone, Graph *g, Node *n, Node *const *map)
{
    int k = product_of(n, alone);
    if (k < 0) return NULL;
    const Node *product = n->args[k];
    Node *a = map[product->args[0]->id], *b = map[product->args[1]->id],
         *c = map[n->args[1 - k]->id];
    bool first = negates_cheaper(a, b), second = negates_cheaper(b, a);
    graph_stamp(g, n, NULL);
    if (n->op == OP_sub && k == 0) c = negated(g, c);
    if (n->op == OP_sub && k == 1) {
        a = second ? a : negated(g, a);
        b = second ? negated(g, b) : b;
    }
    if (first && !second) return graph_node(g, OP_fma, (Node *[]){b, a, c}, 3, NULL);
    return graph_node(g, OP_fma, (Node *[]){a, b, c}, 3, NULL);
}

static Graph *contract_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    return rewrite_nodes(g, done, is_sum_with_product, contracted, read_alone(g));
}

Graph *pass_contract(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    return o->target && o->target->fma ? over_regions(g, contract_graph, NULL) : g;
}
