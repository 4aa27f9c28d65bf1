// A scale and a shift of each channel, computed from parameters alone, become part of the weights
// and a bias: the batch norm of an inference, whose statistics are states, costs nothing then.
//
//     (dot(x, w) - m) * r * g + b   becomes   dot(x, w * a) + c   with a = r g, c = b - m r g
//
// Any chain of sums, differences and products with such values is found by what it computes. The
// library and generated kernels add a bias before they store a product. Models only: the scaled
// weights are computed once (passes/prepare.c).
//
// Requires: nothing; it runs before the precision is chosen, so that scaled weights are rounded
// once. Keeps: finite values within rounding. Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/prepare.h"
#include "passes/regions.h"

typedef struct Folding {
    const bool *known;    // by id: computed from parameters alone
    const Node **dot;     // by id: what this is a scaled and shifted result of; NULL: of nothing
    bool *scaled, *inner; // by id: multiplied on the way; read by the next step of a chain only
} Folding;

// The axis of the second operand that is the channels of a product's result: the last one of it.
static int64_t channels_of(const Node *dot)
{
    const DotAxes w = dot_axes(dot, 1);
    return w.nbatch || w.nfree != 1 ? -1 : w.free[0];
}

static bool can_scale(const Folding *f, const Node *n)
{
    return n->op == OP_dot && dtype_is_float(n->type.dtype) &&
           n->args[1]->type.dtype == n->type.dtype && f->known[n->args[1]->id] &&
           !f->known[n->id] && channels_of(n) >= 0;
}

// Whether v, computed from parameters, has one value a channel: it is constant along other axes.
static bool is_per_channel(const Folding *f, const Node *v)
{
    double c;
    int n;
    if (!f->known[v->id]) return false;
    if (node_const_value(v, &c)) return true;
    if (v->op != OP_broadcast) return false;
    const int64_t *dims = attr_ints(v, ATTR_dims, &n);
    for (int i = 0; i < n; i++)
        if (v->args[0]->type.dim[i] != 1 && dims[i] != v->type.rank - 1) return false;
    return true;
}

// The operand of a step that is a result of a product; -1: n is no step.
static int chain_side(const Folding *f, const Node *n)
{
    if (n->op != OP_add && n->op != OP_sub && n->op != OP_mul) return -1;
    for (int k = 0; k < 2; k++)
        if (f->dot[n->args[k]->id] && is_per_channel(f, n->args[!k])) return k;
    return -1;
}

static bool is_folded(void *ctx, const Node *n)
{
    const Folding *f = ctx;
    return f->dot[n->id] && n->op != OP_dot && f->scaled[n->id] && !f->inner[n->id];
}

// The values of v, one for each channel, or one for all.
static Node *vector_of(Graph *g, const Node *v, Node *const *map, int64_t channels)
{
    double c;
    Node *x = node_const_value(v, &c) ? graph_const(g, v->type.dtype, c) : map[v->args[0]->id];
    if (type_count(&x->type) == 1) return graph_reshape(g, x, 0, NULL);
    return graph_reshape(g, x, 1, &channels);
}

typedef struct Affine { // scale * dot + shift
    Node *scale, *shift;
} Affine;

static Affine affine_of(const Folding *f, Graph *g, const Node *n, Node *const *map)
{
    const Node *dot = f->dot[n->id];
    const DType t = dot->type.dtype;
    if (n == dot) return (Affine){graph_const(g, t, 1), graph_const(g, t, 0)};
    const int side = chain_side(f, n);
    Affine a = affine_of(f, g, n->args[side], map);
    Node *v = vector_of(g, n->args[!side], map, dot->type.dim[dot->type.rank - 1]);
    if (n->op == OP_mul) {
        a.scale = graph_binary(g, OP_mul, a.scale, v);
        a.shift = graph_binary(g, OP_mul, a.shift, v);
    } else if (n->op == OP_add) {
        a.shift = graph_binary(g, OP_add, a.shift, v);
    } else {
        if (side) a.scale = graph_unary(g, OP_neg, a.scale);
        a.shift = side ? graph_binary(g, OP_sub, v, a.shift) : graph_binary(g, OP_sub, a.shift, v);
    }
    return a;
}

static Node *folded(void *ctx, Graph *g, Node *n, Node *const *map)
{
    const Folding *f = ctx;
    if (!is_folded(ctx, n)) return NULL;
    const Node *dot = f->dot[n->id];
    const int64_t axis = channels_of(dot);
    graph_stamp(g, n, NULL);
    const Affine a = affine_of(f, g, n, map);
    Node *w = map[dot->args[1]->id], *scale = a.scale;
    if (scale->type.rank) { // along the axis of the weights
        int64_t dim[MAX_RANK];
        for (int i = 0; i < w->type.rank; i++) dim[i] = i == axis ? scale->type.dim[0] : 1;
        scale = graph_reshape(g, scale, w->type.rank, dim);
    }
    Node *args[] = {map[dot->args[0]->id], graph_binary(g, OP_mul, w, scale)};
    Node *y = graph_node(g, OP_dot, args, 2, dot->attrs);
    return graph_binary(g, OP_add, y, a.shift);
}

static void find_chains(const Graph *g, Folding *f)
{
    const uint32_t *readers = live_readers(g);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!readers[i]) continue;
        if (can_scale(f, n)) f->dot[i] = readers[i] == 1 ? n : NULL;
        const int side = chain_side(f, n);
        if (side < 0) continue;
        const Node *from = n->args[side];
        if (readers[from->id] != 1) continue;
        f->dot[i] = f->dot[from->id];
        f->scaled[i] = f->scaled[from->id] || n->op == OP_mul;
        f->inner[from->id] = true;
    }
}

Graph *pass_fold_scales(Graph *g, Module *m, const PassOptions *o)
{
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    PassOptions any = *o; // (whether or not anything is prepared, so that roundings are the same)
    any.skip = NULL;
    any.memory_limit = 0;
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *e = &m->entries.at[i];
        const bool *known = e->graph == g ? prepare_finds(m, e, &any) : NULL;
        if (!known) continue;
        Folding f = {known, NEW_ARRAY(g->arena, const Node *, g->nodes.n + 1),
                     NEW_ARRAY(g->arena, bool, g->nodes.n + 1),
                     NEW_ARRAY(g->arena, bool, g->nodes.n + 1)};
        find_chains(g, &f);
        const IdMap none = idmap_new(g->arena);
        return rewrite_nodes(g, &none, is_folded, folded, &f);
    }
    return g;
}
