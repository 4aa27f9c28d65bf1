// On the CPU, products of 16-bit floats are products of f32 whose operands and result are rounded:
// it multiplies nothing else, and an operand that is stored as f32 is converted once and not for
// each tile. So whatever makes products of f32 fast (windows read in place, the library, narrow
// tiles) holds for these, too. Those that are computed row by row convert what they read.
//
// Requires: precision chosen, gradients expanded; attention has matched its products. Keeps: every
// value within rounding: the same factors and accumulator, another order of the sum. Breaks:
// nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

static bool is_widened(void *ctx, const Node *n)
{
    const Target *t = ctx;
    if (n->op != OP_dot || attr_int(n, ATTR_accumulate, DT_F32) != DT_F32) return false;
    const DotSizes s = dot_sizes(n);
    for (int k = 0; k < 2; k++)
        if (n->args[k]->type.dtype != DT_BF16 && n->args[k]->type.dtype != DT_F16) return false;
    return !target_row_by_row(t, s.m, s.n, s.k);
}

// n as f32. The cast is inserted at the view with the fewest elements: at the image behind windows,
// without its zero padding.
static Node *wide(Graph *g, const Node *n, Node *const *map)
{
    enum { MOST_VIEWS = 32 };
    const Node *view[MOST_VIEWS];
    int count = 0, least = 0;
    for (const Node *x = n; node_class(x) == CLS_VIEW && x->op != OP_concat && count < MOST_VIEWS;
         x = x->args[0]) {
        view[count++] = x;
        if (type_count(&x->args[0]->type) <= type_count(&n->type)) least = count, n = x->args[0];
    }
    graph_stamp(g, n, NULL);
    Node *y = graph_cast(g, map[n->id], DT_F32);
    while (least-- > 0) {
        const Node *v = view[least];
        graph_stamp(g, v, NULL);
        Node *args[2] = {y};
        if (v->nargs > 1) args[1] = graph_cast(g, map[v->args[1]->id], DT_F32); // of a pad
        y = graph_node(g, v->op, args, (int)v->nargs, v->attrs);
    }
    return y;
}

static Node *widened(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_widened(ctx, n)) return NULL;
    Node *args[2];
    for (int k = 0; k < 2; k++) args[k] = wide(g, n->args[k], map);
    Attrs attrs = attrs_copy(n->attrs);
    attr_set_int(&attrs, ATTR_dtype, DT_F32);
    graph_stamp(g, n, NULL);
    return graph_cast(g, graph_node(g, OP_dot, args, 2, &attrs), n->type.dtype);
}

static Graph *widen_graph(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, is_widened, widened, ctx);
}

Graph *pass_widen(Graph *g, Module *m, const PassOptions *o)
{
    if (!o->target || o->target->kind != TARGET_CPU) return g;
    Graph *wide = over_regions(g, widen_graph, (void *)o->target);
    // Casts inside loops of captured values are moved before the loops.
    return wide == g || pass_skipped(o, "invariants") ? wide : pass_invariants(wide, m, o);
}
