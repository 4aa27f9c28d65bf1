// Windows of images with few channels are stored, as rows of a matrix: the first layer of most
// networks for images has one to four channels, which bulk copies cannot read (they copy at least 8
// of 16 bits), so that every element would be loaded alone, in the product and again in that of the
// weight's gradient.
//
//     y(b, i, o) = sum over u, c of windows(b, i, u, c) w(o, u, c)
//
// with the rows p(b, i, (u, c)), filled up with zeros to a multiple of 8, becomes
//
//     y(b, i, o) = sum over k of p(b, i, k) w(o, k)
//
// and dw(o, u, c) = sum over b, i of dy(b, i, o) windows(b, i, u, c) the first terms k of
// dw(o, k) = sum over b, i of dy(b, i, o) p(b, i, k). Both read the same p.
//
// Requires: gradients expanded, precision chosen, so that it is known what tensor cores multiply.
// Keeps: every value within rounding (zeros are added). Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Patches { // a contraction with windows
    int side;            // the operand that is windows
    int places;          // axes of the windows before those within a window
    int64_t terms;       // of a window
    DotAxes own, other;
} Patches;

typedef struct Storing {
    const Target *target;
    const bool *gains; // by id of windows: storing them pays
} Storing;

static int64_t filled(int64_t terms)
{
    return (terms + TARGET_UNIT - 1) / TARGET_UNIT * TARGET_UNIT;
}

static bool all_from(const int64_t *axis, int n, int first, int end)
{
    for (int i = 0; i < n; i++)
        if (axis[i] < first || axis[i] >= end) return false;
    return n == end - first;
}

// Whether the windows' terms are contracted; otherwise they are an axis of the result.
static bool contracts_terms(const Patches *p, int rank)
{
    return all_from(p->own.contract, p->own.ncontract, p->places, rank);
}

static bool find_patches(const Node *dot, Patches *p)
{
    if (dot->op != OP_dot || attr_int(dot, ATTR_accumulate, DT_F32) != DT_F32) return false;
    p->side = dot->args[0]->op == OP_window ? 0 : 1;
    const Node *windows = dot->args[p->side], *other = dot->args[!p->side];
    if (windows->op != OP_window || other->op == OP_window) return false;
    const Type *t = &windows->type;
    if ((t->dtype != DT_BF16 && t->dtype != DT_F16) || other->type.dtype != t->dtype) return false;
    const WindowAxes w = window_axes(windows->attrs);
    if (t->dim[t->rank - 1] >= TARGET_UNIT) return false;
    p->places = w.at;
    p->own = dot_axes(dot, p->side);
    p->other = dot_axes(dot, !p->side);
    p->terms = 1;
    for (int i = w.at; i < t->rank; i++) p->terms *= t->dim[i];
    const bool terms = contracts_terms(p, t->rank),
               places = all_from(p->own.contract, p->own.ncontract, 0, p->places);
    if (w.at + w.n + 1 != t->rank || p->own.nbatch || terms == places) return false;
    return true;
}

static TargetPatchTimes times_of(const Storing *s, const Node *dot, const Patches *p)
{
    const DotSizes size = dot_sizes(dot);
    const int64_t all = type_count(&dot->args[p->side]->type);
    const TargetPatches x = {.terms = p->terms,
                             .places = all / p->terms,
                             .results = size.batch * size.m * size.n * size.k / all};
    return target_patch_times(s->target, &x);
}

static bool is_stored(void *ctx, const Node *n)
{
    const Storing *s = ctx;
    Patches p;
    return find_patches(n, &p) && s->gains[n->args[p.side]->id];
}

// The image with its last two axes, pixels of a line and channels, as one; zeros around it are
// added after that.
static Node *lines_of(Graph *g, Node *image)
{
    const int axis = image->type.rank - 2; // of pixels
    const bool pads = image->op == OP_pad;
    Node *inner = pads ? image->args[0] : image;
    const int64_t channels = inner->type.dim[axis + 1];
    int64_t dim[MAX_RANK], around[2][MAX_RANK];
    for (int i = 0; i < axis; i++) dim[i] = inner->type.dim[i];
    dim[axis] = inner->type.dim[axis] * channels;
    // (a value of its own, in which an element of a window has a simple address)
    inner = graph_unary(g, OP_stop_gradient, graph_reshape(g, inner, axis + 1, dim));
    if (!pads) return inner;
    Attrs at = {0};
    for (int k = 0; k < 2; k++) {
        const AttrKey key = k ? ATTR_high : ATTR_low;
        const int64_t *zeros = attr_ints(image, key, NULL);
        for (int i = 0; i <= axis; i++) around[k][i] = zeros[i] * (i == axis ? channels : 1);
        attr_set_ints(g, &at, key, around[k], axis + 1);
    }
    return graph_node(g, OP_pad, (Node *[]){inner, image->args[1]}, 2, &at);
}

// Windows of which the pixels of a line with their channels are one axis, neighbours in memory.
static Node *windows_of_lines(Graph *g, Node *windows)
{
    const WindowAxes w = window_axes(windows->attrs);
    Node *image = windows->args[0];
    const int axis = image->type.rank - 2, last = w.n - 1;
    const int64_t channels = image->type.dim[axis + 1];
    if (w.axis[last] != axis || w.dilation[last] != 1 ||
        (image->op == OP_pad && (attr_ints(image, ATTR_low, NULL)[axis + 1] ||
                                 attr_ints(image, ATTR_high, NULL)[axis + 1])))
        return windows;
    int64_t size[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < w.n; i++) {
        size[i] = w.size[i] * (i == last ? channels : 1);
        stride[i] = w.stride[i] * (i == last ? channels : 1);
    }
    Attrs at = attrs_copy(windows->attrs);
    attr_set_ints(g, &at, ATTR_sizes, size, w.n);
    attr_set_ints(g, &at, ATTR_stride, stride, w.n);
    return graph_node(g, OP_window, (Node *[]){lines_of(g, image)}, 1, &at);
}

static Node *rows_of(Graph *g, const Patches *p, Node *windows)
{
    int64_t dim[MAX_RANK];
    for (int i = 0; i < p->places; i++) dim[i] = windows->type.dim[i];
    dim[p->places] = p->terms;
    Node *rows = graph_reshape(g, windows_of_lines(g, windows), p->places + 1, dim);
    // (a value of its own, which products do not look through)
    return graph_unary(g, OP_stop_gradient, graph_resized(g, rows, p->places, filled(p->terms)));
}

// The weights as w(..., k).
static Node *weights_of(Graph *g, const Patches *p, Node *w)
{
    int64_t perm[MAX_RANK], dim[MAX_RANK];
    int n = p->other.nfree;
    for (int i = 0; i < n; i++) dim[i] = w->type.dim[perm[i] = p->other.free[i]];
    for (int i = 0; i < p->own.ncontract; i++)
        perm[n + p->own.contract[i] - p->places] = p->other.contract[i];
    dim[n] = p->terms;
    w = graph_reshape(g, graph_permute(g, w, perm), n + 1, dim);
    return graph_resized(g, w, n, filled(p->terms));
}

static Node *stored_again(void *ctx, Graph *g, Node *dot, Node *const *map)
{
    Patches p;
    if (!is_stored(ctx, dot) || !find_patches(dot, &p)) return NULL;
    Node *windows = map[dot->args[p.side]->id], *other = map[dot->args[!p.side]->id];
    Attrs at = attrs_copy(dot->attrs);
    const bool terms = contracts_terms(&p, windows->type.rank);
    graph_stamp(g, dot, NULL);
    Node *args[2];
    args[p.side] = rows_of(g, &p, windows);
    args[!p.side] = terms ? weights_of(g, &p, other) : other;
    for (int k = 0; k < 2 && terms; k++) {
        const int64_t last = args[k]->type.rank - 1;
        attr_set_ints(g, &at, dot_keys[k][1], &last, 1);
    }
    Node *y = graph_node(g, OP_dot, args, 2, &at);
    if (terms) return y;
    y = graph_resized(g, y, p.side ? y->type.rank - 1 : 0, p.terms);
    return graph_reshape(g, y, dot->type.rank, dot->type.dim);
}

// Windows are stored if all products with them together are then clearly faster.
static Graph *store_patches(void *ctx, const IdMap *done, Graph *g)
{
    const double clearly = 1.2;
    const uint32_t n = g->nodes.n + 1;
    double *gathered = NEW_ARRAY(g->arena, double, n), *stored = NEW_ARRAY(g->arena, double, n);
    bool *live = NEW_ARRAY(g->arena, bool, n), *gains = NEW_ARRAY(g->arena, bool, n);
    const Storing s = {ctx, gains};
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *dot = g->nodes.at[i];
        Patches p;
        if (!live[i] || !find_patches(dot, &p)) continue;
        const uint32_t id = dot->args[p.side]->id;
        const TargetPatchTimes t = times_of(&s, dot, &p);
        gathered[id] += t.gathered;
        stored[id] += t.stored + (stored[id] > 0 ? 0 : t.copied);
        gains[id] = gathered[id] > clearly * stored[id];
    }
    return rewrite_nodes(g, done, is_stored, stored_again, (void *)&s);
}

Graph *pass_patches(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || !o->target->group_products) return g;
    return over_regions(g, store_patches, (void *)(uintptr_t)o->target);
}
