// Marks the values for which a GPU's fast approximations (OPF_APPROX: exp, tanh, division) are
// accurate enough: those that reach results only through a rounding to bf16 or f16, whose step is
// far larger than the approximation's error. Values that reach an f32 result, an integer, a
// comparison or a region keep the accurate form.
//
// The mark is an attribute of the node, so that a value has the same bits in every kernel that
// computes it.
//
// Requires: precision chosen. Runs before `recompute`, so that clones inherit the mark. Keeps: all
// but the last digits of marked values. Breaks: nothing.
#include <string.h>

#include "passes/passes.h"
#include "passes/regions.h"

static bool is_short(const Node *n)
{
    return n->type.dtype == DT_BF16 || n->type.dtype == DT_F16;
}

// Whether n is a cast that keeps every value: from a 16-bit float to f32.
static bool is_widened(const Node *n)
{
    return n->op == OP_cast && n->type.dtype == DT_F32 && is_short(n->args[0]);
}

// The value behind broadcasts, reshapes and exact casts.
static const Node *value_of(const Node *n)
{
    while (n->op == OP_broadcast || node_keeps_all(n) || is_widened(n)) n = n->args[0];
    return n;
}

// If n is log(sum(exp(x - max(x)))) with both reductions over the same axes: x - max(x); otherwise
// NULL. The error of the fast exponentials, 2^-24 of the argument and 2^-22, is no larger than that
// of the sum.
static const Node *under_maximum(const Node *n)
{
    if (n->op != OP_log) return NULL;
    const Node *sum = value_of(n->args[0]);
    if (sum->op != OP_sum || sum->type.dtype != DT_F32 || sum->args[0]->op != OP_exp) return NULL;
    const Node *d = sum->args[0]->args[0];
    if (d->op != OP_sub || d->type.dtype != DT_F32) return NULL;
    const Node *max = value_of(d->args[1]);
    int na, nb;
    const int64_t *a = attr_ints(sum, ATTR_axes, &na);
    if (max->op != OP_max || value_of(max->args[0]) != value_of(d->args[0])) return NULL;
    const int64_t *b = attr_ints(max, ATTR_axes, &nb);
    return na == nb && !memcmp(a, b, sizeof *a * (size_t)na) ? d : NULL;
}

// Whether small errors of the operands cause only small errors of n.
static bool is_smooth(const Node *n)
{
    if (!dtype_is_float(n->type.dtype)) return false;
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return n->op == OP_cast || node_has(n, OPF_SMOOTH);
    case CLS_REDUCE: return op_info(n->op)->acc != ACC_PLACE;
    case CLS_VIEW: return true;
    default: return false;
    }
}

// By id: some reader needs full f32 accuracy.
static bool *read_exactly(const Graph *g)
{
    bool *exact = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->results.n; i++) exact[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i], *under = under_maximum(n);
        if (!live[i]) continue;
        if (under) exact[under->id] = true;
        bool own = !is_smooth(n) || (!is_short(n) && exact[i]);
        for (uint32_t k = 0; k < n->nargs && !under; k++) exact[n->args[k]->id] |= own;
    }
    return exact;
}

static bool may_be_short(void *ctx, const Node *n)
{
    const bool *exact = ctx;
    bool f32 = n->type.dtype == DT_F32 || is_short(n);
    return node_has(n, OPF_APPROX) && f32 && (is_short(n) || !exact[n->id]);
}

static Node *shortened(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!may_be_short(ctx, n)) return NULL;
    Attrs at = attrs_copy(n->attrs);
    attr_set_int(&at, ATTR_approx, 1);
    Node *args[4];
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
    graph_stamp(g, n, NULL);
    return graph_node(g, n->op, args, n->nargs, &at);
}

static Graph *approx_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    return rewrite_nodes(g, done, may_be_short, shortened, read_exactly(g));
}

Graph *pass_approx(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    bool has_forms = o->target && o->target->kind == TARGET_CUDA;
    return has_forms ? over_regions(g, approx_graph, NULL) : g;
}
