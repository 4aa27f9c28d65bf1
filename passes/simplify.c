// Simplifications that need more than one node (ir/fold.c has the others): dead code, also inside
// loops; transposes around matmuls; arithmetic on broadcast values.
//
// Requires: gradients expanded, precision chosen (stop_gradient and autocast are removed here).
// Keeps: every value within rounding, NaN and infinities included (no rule may overflow where the
// original does not); roots, names, locations.
// Breaks: nothing.
#include <string.h>

#include "ir/axes.h"
#include "ir/scalar.h"
#include "passes/dot.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Simplify {
    const IdMap *done;
    Graph *src, *dst;
    Node **map;     // by old id
    Node **ops;     // by old id of a region op: its new node
    uint32_t *uses; // by old id: number of live readers
    bool *live;
    bool **results; // by old id of a loop: which results are read
    bool **params;  // by old id of a loop: which operands its body reads
    int **index;    // by old id of a loop: old result -> new result, -1: gone
} Simplify;

// -- liveness, through loops ----------------------------------------------------------------------

// Marks the parameters of a loop body that the live results need.
static void live_in_body(const Simplify *s, const Node *loop, const Graph *body)
{
    bool *live = NEW_ARRAY(s->src->arena, bool, body->nodes.n + 1);
    int64_t carried = attr_int(loop, ATTR_carried, 0);
    for (uint32_t i = 0; i < body->results.n; i++)
        if (i < carried || s->results[loop->id][i]) live[body->results.at[i]->id] = true;
    for (uint32_t i = 0; i < body->roots.n; i++) live[body->roots.at[i]->id] = true;
    for (uint32_t i = body->nodes.n; i-- > 0;)
        for (uint32_t k = 0; live[i] && k < body->nodes.at[i]->nargs; k++)
            live[body->nodes.at[i]->args[k]->id] = true;
    bool *params = s->params[loop->id];
    for (uint32_t k = 0; k < loop->nargs; k++)
        params[k] = k < carried || live[body->params.at[1 + k]->id];
}

static void mark(Simplify *s)
{
    Graph *g = s->src;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op != OP_loop) continue;
        s->results[i] = NEW_ARRAY(g->arena, bool, node_result_count(n));
        s->params[i] = NEW_ARRAY(g->arena, bool, n->nargs + 1);
    }
    for (uint32_t i = 0; i < g->roots.n; i++) s->live[g->roots.at[i]->id] = true;
    for (uint32_t i = 0; i < g->results.n; i++) s->live[g->results.at[i]->id] = true;
    for (uint32_t i = 0; i < g->params.n; i++) s->live[g->params.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!s->live[i]) continue;
        if (node_has(n, OPF_RESULT) && n->args[0]->op == OP_loop)
            s->results[n->args[0]->id][attr_int(n, ATTR_index, 0)] = true;
        if (n->op == OP_loop) {
            if (node_result_count(n) == 1) s->results[i][0] = true;
            live_in_body(s, n, rebuilt(s->done, n->regions[0]));
        }
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->op == OP_loop && !s->params[i][k]) continue;
            s->live[n->args[k]->id] = true;
            s->uses[n->args[k]->id]++;
        }
    }
}

// -- loops ----------------------------------------------------------------------------------------

static void simplify_loop(Simplify *s, const Node *n)
{
    Graph *dst = s->dst, *body = rebuilt(s->done, n->regions[0]);
    Arena *a = dst->arena;
    uint32_t carried = (uint32_t)attr_int(n, ATTR_carried, 0);
    uint32_t scanned = (uint32_t)attr_int(n, ATTR_scanned, 0), nargs = 0, nscanned = 0;
    Node **args = NEW_ARRAY(a, Node *, n->nargs + 1);
    Node **inner = NEW_ARRAY(a, Node *, n->nargs + 1);
    Node **results = NEW_ARRAY(a, Node *, body->results.n + 1);
    Graph *region = graph_inside(dst);
    inner[0] = graph_region_param(region, &body->params.at[0]->type);
    for (uint32_t k = 0; k < n->nargs; k++) {
        inner[1 + k] = inner[0]; // for parameters without readers
        if (!s->params[n->id][k]) continue;
        const Node *p = body->params.at[1 + k];
        inner[1 + k] = graph_region_param(region, &p->type);
        if (!inner[1 + k]->name) inner[1 + k]->name = p->name;
        args[nargs++] = s->map[n->args[k]->id];
        nscanned += k >= carried && k < carried + scanned;
    }
    // Only what is still read is copied to the new body.
    Graph shallow = *body;
    shallow.results.at = NEW_ARRAY(a, Node *, body->results.n + 1);
    shallow.results.n = 0;
    int *index = s->index[n->id] = NEW_ARRAY(a, int, body->results.n + 1);
    for (uint32_t i = 0; i < body->results.n; i++) {
        index[i] = -1;
        if (i >= carried && !s->results[n->id][i]) continue;
        index[i] = (int)shallow.results.n;
        shallow.results.at[shallow.results.n++] = body->results.at[i];
    }
    graph_inline(region, &shallow, inner, results);
    for (uint32_t i = 0; i < shallow.results.n; i++)
        vec_push(region->arena, &region->results, results[i]);
    Attrs at = attrs_copy(n->attrs);
    attr_set_int(&at, ATTR_scanned, nscanned);
    Node *loop = graph_region_node(dst, OP_loop, args, (int)nargs, &at, &region, 1);
    s->ops[n->id] = loop;
    s->map[n->id] = node_result_count(loop) == 1 ? loop : graph_result(dst, loop, 0);
}

// -- rules ----------------------------------------------------------------------------------------

static Node *new_arg(const Simplify *s, const Node *n, int i)
{
    return s->map[n->args[i]->id];
}

static Node *simplify_permute(Simplify *s, const Node *n)
{
    const Node *dot = new_arg(s, n, 0);
    if (dot->op != OP_dot || s->uses[n->args[0]->id] != 1) return NULL;
    return permuted_dot(s->dst, n, dot);
}

static Node *simplify_dot(Simplify *s, const Node *n)
{
    return dot_without_permutes(s->dst, n, (Node *[]){new_arg(s, n, 0), new_arg(s, n, 1)});
}

static Node *simplify_add(Simplify *s, const Node *n) // a + -b
{
    Node *a = new_arg(s, n, 0), *b = new_arg(s, n, 1);
    if (b->op == OP_neg) return graph_binary(s->dst, OP_sub, a, b->args[0]);
    if (a->op == OP_neg) return graph_binary(s->dst, OP_sub, b, a->args[0]);
    return NULL;
}

static Node *simplify_sub(Simplify *s, const Node *n) // a - -b
{
    Node *a = new_arg(s, n, 0), *b = new_arg(s, n, 1);
    return b->op == OP_neg ? graph_binary(s->dst, OP_add, a, b->args[0]) : NULL;
}

static Node *simplify_nothing(Simplify *s, const Node *n)
{
    return new_arg(s, n, 0);
}

// The sum of n equal values is n times the value (+0 for zeros of either sign). Not for 16-bit
// floats, which cannot represent every n.
static Node *simplify_sum(Simplify *s, const Node *n)
{
    Node *b = new_arg(s, n, 0);
    if (b->op != OP_broadcast || !dtype_is_float(b->type.dtype)) return NULL;
    int naxes, nd;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes), *dims = attr_ints(b, ATTR_dims, &nd);
    int64_t out_dims[MAX_RANK];
    for (int i = 0; i < nd; i++) {
        int before = 0;
        for (int k = 0; k < naxes; k++) {
            if (axes[k] == dims[i]) return NULL;
            before += axes[k] < dims[i];
        }
        out_dims[i] = dims[i] - before;
    }
    DType t = dtype_info[n->type.dtype].bits < 32 ? DT_F32 : n->type.dtype;
    Node *v = graph_cast(s->dst, b->args[0], t);
    v = graph_binary(s->dst, OP_mul, v, graph_const(s->dst, t, (double)reduced_count(n)));
    v = graph_binary(s->dst, OP_add, v, graph_const(s->dst, t, 0));
    v = graph_cast(s->dst, v, n->type.dtype);
    Attrs at = {0};
    attr_set_ints(s->dst, &at, ATTR_shape, n->type.dim, n->type.rank);
    attr_set_ints(s->dst, &at, ATTR_dims, out_dims, nd);
    return graph_node(s->dst, OP_broadcast, &v, 1, &at);
}

// max(widen(x)) becomes widen(max(x)): fewer bytes to read and to keep.
static Node *simplify_extremum(Simplify *s, const Node *n)
{
    enum { MOST = 8 };
    Node *view[MOST], *x = new_arg(s, n, 0);
    int count = 0;
    for (; node_class(x) == CLS_VIEW; x = x->args[0]) {
        if (count == MOST || (x->nargs > 1 && x->op != OP_pad)) return NULL;
        view[count++] = x;
    }
    if (x->op != OP_cast || !dtype_is_float(x->type.dtype)) return NULL;
    const DType type = x->args[0]->type.dtype;
    if (!dtype_is_float(type) || dtype_info[type].bits >= dtype_info[x->type.dtype].bits)
        return NULL;
    x = x->args[0];
    while (count--) {
        Node *args[] = {x, NULL};
        const Node *v = view[count];
        double fill;
        if (v->op == OP_pad) {
            if (!node_const_value(v->args[1], &fill) || scalar_round(type, fill) != fill)
                return NULL;
            args[1] = graph_const(s->dst, type, fill);
        }
        x = graph_node(s->dst, v->op, args, (int)v->nargs, v->attrs);
    }
    x = graph_node(s->dst, n->op, &x, 1, n->attrs);
    return n->op == OP_argmax ? x : graph_cast(s->dst, x, n->type.dtype);
}

// x in [type] if it is widened from that type or a constant that the type represents exactly;
// otherwise NULL.
static Node *narrower(Simplify *s, Node *x, DType type)
{
    Node *y = x->op == OP_broadcast ? x->args[0] : x;
    double v;
    if (x->op == OP_cast && x->args[0]->type.dtype == type) return x->args[0];
    if (!node_const_value(y, &v) || scalar_round(type, v) != v) return NULL;
    y = graph_const(s->dst, type, v);
    return y == x ? y : graph_node(s->dst, OP_broadcast, &y, 1, x->attrs);
}

// A selection between widened values becomes a widened selection, as in a gradient with a mask or a
// ReLU.
static Node *simplify_choice(Simplify *s, const Node *n)
{
    enum { MOST = 3 };
    Node *args[MOST];
    DType type = n->type.dtype;
    if (!dtype_is_float(type)) return NULL;
    const uint32_t first = n->op == OP_select;
    for (uint32_t k = first; k < n->nargs; k++) {
        const Node *x = new_arg(s, n, (int)k);
        const DType from = x->op == OP_cast ? x->args[0]->type.dtype : type;
        if (dtype_is_float(from) && dtype_info[from].bits < dtype_info[type].bits) type = from;
    }
    if (type == n->type.dtype) return NULL;
    for (uint32_t k = 0; k < n->nargs; k++) {
        args[k] = new_arg(s, n, (int)k);
        if (k >= first) args[k] = narrower(s, args[k], type);
        if (!args[k]) return NULL;
    }
    return graph_cast(s->dst, graph_node(s->dst, n->op, args, (int)n->nargs, n->attrs),
                      n->type.dtype);
}

static Node *(*const rules[OP_COUNT])(Simplify *, const Node *) = {
    [OP_permute] = simplify_permute, [OP_dot] = simplify_dot,
    [OP_add] = simplify_add,         [OP_sub] = simplify_sub,
    [OP_sum] = simplify_sum,         [OP_stop_gradient] = simplify_nothing,
    [OP_max] = simplify_extremum,    [OP_min] = simplify_extremum,
    [OP_argmax] = simplify_extremum, [OP_autocast] = simplify_nothing,
    [OP_select] = simplify_choice,   [OP_maximum] = simplify_choice,
    [OP_minimum] = simplify_choice,
};

// f(broadcast(x), broadcast(y)) becomes broadcast(f(x, y)), so that f is computed once per element
// of x.
static Node *before_broadcast(Simplify *s, const Node *n)
{
    Node *args[3];
    const Node *lead = NULL;
    double v;
    int nd = 0, k;
    const int64_t *dims = NULL, *d;
    if (n->nargs > 3) return NULL;
    for (uint32_t i = 0; i < n->nargs; i++) {
        Node *a = args[i] = new_arg(s, n, (int)i);
        if (node_const_value(a, &v)) continue;
        if (a->op != OP_broadcast) return NULL;
        d = attr_ints(a, ATTR_dims, &k);
        if (!lead) {
            lead = a;
            dims = d;
            nd = k;
        } else if (!shape_equal(&a->args[0]->type, &lead->args[0]->type) ||
                   memcmp(d, dims, sizeof *d * (size_t)nd)) {
            return NULL;
        }
    }
    if (!lead) return NULL;
    for (uint32_t i = 0; i < n->nargs; i++) {
        Node *a = args[i];
        bool constant = node_const_value(a, &v);
        while (a->op == OP_broadcast && (constant || a == args[i])) a = a->args[0];
        if (constant && a->type.rank) return NULL;
        args[i] = graph_broadcast_to(s->dst, a, &lead->args[0]->type);
    }
    Node *y = graph_node(s->dst, n->op, args, (int)n->nargs, n->attrs);
    Attrs at = {0};
    attr_set_ints(s->dst, &at, ATTR_shape, n->type.dim, n->type.rank);
    attr_set_ints(s->dst, &at, ATTR_dims, dims, nd);
    return graph_node(s->dst, OP_broadcast, &y, 1, &at);
}

static void simplify_node(Simplify *s, Node *n, Remap *remap)
{
    Graph *dst = s->dst;
    Node *y = NULL;
    graph_stamp(dst, n, NULL);
    if (n->op == OP_loop) {
        simplify_loop(s, n);
        node_pass_name(n, s->ops[n->id]);
        return;
    }
    if (node_has(n, OPF_RESULT) && s->ops[n->args[0]->id]) {
        int at = s->index[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        y = graph_result(dst, s->ops[n->args[0]->id], at);
    }
    if (!y && rules[n->op]) y = rules[n->op](s, n);
    if (!y && node_class(n) == CLS_ELEMENTWISE) y = before_broadcast(s, n);
    if (!y) {
        remap_node(remap, n);
        return;
    }
    s->map[n->id] = y;
    node_pass_name(n, y);
}

static Graph *simplify_graph(void *ctx, const IdMap *done, Graph *src)
{
    (void)ctx;
    Arena *a = src->arena;
    uint32_t n = src->nodes.n + 1;
    Simplify s = {.done = done, .src = src, .dst = graph_beside(src)};
    Remap remap = remap_begin(src, s.dst);
    s.map = remap.map;
    s.ops = NEW_ARRAY(a, Node *, n);
    s.uses = NEW_ARRAY(a, uint32_t, n);
    s.live = NEW_ARRAY(a, bool, n);
    s.results = NEW_ARRAY(a, bool *, n);
    s.params = NEW_ARRAY(a, bool *, n);
    s.index = NEW_ARRAY(a, int *, n);
    mark(&s);
    for (uint32_t i = 0; i < src->params.n; i++) remap_node(&remap, src->params.at[i]);
    for (uint32_t i = 0; i < src->nodes.n; i++)
        if (s.live[i] && !s.map[i]) simplify_node(&s, src->nodes.at[i], &remap);
    return remap_end(&remap);
}

Graph *pass_simplify(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return graph_drop_dead(over_regions(g, simplify_graph, NULL));
}
