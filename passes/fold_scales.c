// A scale and a shift of each channel, computed from parameters alone, become part of the weights
// and a bias: the batch norm of an inference, whose statistics are states, costs nothing then.
//
//     (dot(x, w) - m) * r * g + b   becomes   dot(x, w * a) + c   with a = r g, c = b - m r g
//
// Any chain of sums, differences and products with such values is found by what it computes. It may
// begin with the views that join the groups of a grouped product with their channels. The library
// and generated kernels add a bias before they store a product. Models only: the scaled
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
    const Node **joined;  // by id of a grouped dot: its result with joined groups and channels
    bool *scaled, *inner; // by id: multiplied on the way; read by the next step of a chain only
} Folding;

// Whether the channels of a product's result are its last axis; with [groups], of each group, whose
// axis is the only batch axis.
static bool has_channels(const Node *dot, bool groups)
{
    const DotAxes w = dot_axes(dot, 1);
    return w.nbatch == groups && w.nfree == 1;
}

// Whether n is the result (groups, ..., channels) of a product as (..., groups * channels).
static bool joins_groups(const Node *n)
{
    const Node *p = n->op == OP_reshape ? n->args[0] : NULL;
    if (!p || p->op != OP_permute || p->args[0]->op != OP_dot) return false;
    const int64_t *perm = attr_ints(p, ATTR_perm, NULL);
    const int last = p->type.rank - 1;
    bool moved = n->type.rank == last && perm[last] == last;
    for (int i = 0; i < last && moved; i++)
        moved = perm[i] == (i == last - 1 ? 0 : i + 1) &&
                (i == last - 1 || p->type.dim[i] == n->type.dim[i]);
    return moved;
}

static bool can_scale(const Folding *f, const Node *n)
{
    return n->op == OP_dot && dtype_is_float(n->type.dtype) &&
           n->args[1]->type.dtype == n->type.dtype && f->known[n->args[1]->id] &&
           !f->known[n->id] && (has_channels(n, false) || has_channels(n, true));
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
    if (n == dot || n->op == OP_reshape)
        return (Affine){graph_const(g, t, 1), graph_const(g, t, 0)};
    const int side = chain_side(f, n);
    Affine a = affine_of(f, g, n->args[side], map);
    Node *v = vector_of(g, n->args[!side], map, n->type.dim[n->type.rank - 1]);
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
    const DotAxes axes = dot_axes(dot, 1);
    graph_stamp(g, n, NULL);
    const Affine a = affine_of(f, g, n, map);
    Node *w = map[dot->args[1]->id], *scale = a.scale;
    if (scale->type.rank) { // along the axes of the weights
        int64_t dim[MAX_RANK];
        for (int i = 0; i < w->type.rank; i++)
            dim[i] = i == axes.free[0] || (axes.nbatch && i == axes.batch[0]) ? w->type.dim[i] : 1;
        if (axes.nbatch) {
            int64_t parts[] = {w->type.dim[axes.batch[0]], w->type.dim[axes.free[0]]};
            scale = graph_reshape(g, scale, 2, parts);
            if (axes.free[0] < axes.batch[0]) scale = graph_permute(g, scale, (int64_t[]){1, 0});
        }
        scale = graph_reshape(g, scale, w->type.rank, dim);
    }
    Node *args[] = {map[dot->args[0]->id], graph_binary(g, OP_mul, w, scale)};
    Node *y = graph_node(g, OP_dot, args, 2, dot->attrs);
    if (axes.nbatch) { // joined with the channels, as before
        const Node *joined = f->joined[dot->id], *moved = joined->args[0];
        y = graph_permute(g, y, attr_ints(moved, ATTR_perm, NULL));
        y = graph_reshape(g, y, joined->type.rank, joined->type.dim);
    }
    return graph_binary(g, OP_add, y, a.shift);
}

static void find_chains(const Graph *g, Folding *f)
{
    const uint32_t *readers = live_readers(g);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!readers[i]) continue;
        if (can_scale(f, n) && readers[i] == 1) {
            if (has_channels(n, false)) f->dot[i] = n;
        } else if (joins_groups(n) && readers[n->args[0]->id] == 1) {
            const Node *dot = n->args[0]->args[0];
            if (readers[dot->id] != 1 || !can_scale(f, dot) || !has_channels(dot, true)) continue;
            f->dot[i] = dot;
            f->joined[dot->id] = n;
        }
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
                     NEW_ARRAY(g->arena, const Node *, g->nodes.n + 1),
                     NEW_ARRAY(g->arena, bool, g->nodes.n + 1),
                     NEW_ARRAY(g->arena, bool, g->nodes.n + 1)};
        find_chains(g, &f);
        const IdMap none = idmap_new(g->arena);
        return rewrite_nodes(g, &none, is_folded, folded, &f);
    }
    return g;
}
