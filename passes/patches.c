// Windows of images with few channels are stored, as rows of a matrix: the first layer of most
// networks for images has one to four channels, which bulk copies cannot read (they copy at least 8
// of 16 bits), so that every element would be loaded alone, in the product and again in that of the
// weight's gradient.
//
//     y(b, i, o) = sum over u, c of windows(b, i, u, c) w(o, u, c)
//
// with the rows p(b, i, (u, c)), filled up with zeros to a multiple of 8 (each line of a window, if
// that adds few zeros), becomes
//
//     y(b, i, o) = sum over k of p(b, i, k) w(o, k)
//
// and dw(o, u, c) = sum over b, i of dy(b, i, o) windows(b, i, u, c) the terms k, without those, of
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
    int64_t lines, line; // a window is stored as so many lines of so many terms, each filled up
    bool in_memory;      // each of them is a line of the image, whose elements are neighbours
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

// Whether the pixels of a window's line, with their channels, are neighbours in memory.
static bool has_lines(const Node *windows)
{
    const WindowAxes w = window_axes(windows->attrs);
    const Node *image = windows->args[0];
    const int axis = image->type.rank - 2;
    return w.n && w.axis[w.n - 1] == axis && w.dilation[w.n - 1] == 1 &&
           (image->op != OP_pad || (!attr_ints(image, ATTR_low, NULL)[axis + 1] &&
                                    !attr_ints(image, ATTR_high, NULL)[axis + 1]));
}

// Divides a window into its lines of [terms] in the image (0: it has none) if filling each of them
// up adds few zeros, which products multiply: then the elements that one thread stores are
// neighbours in the image, too.
static void divide(Patches *p, int64_t terms)
{
    const double most = 1.125; // of the terms that are stored otherwise
    p->in_memory =
        terms && (double)(p->terms / terms * filled(terms)) <= most * (double)filled(p->terms);
    p->lines = p->in_memory ? p->terms / terms : 1;
    p->line = filled(p->terms / p->lines);
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
    divide(p, has_lines(windows) ? w.size[w.n - 1] * t->dim[t->rank - 1] : 0);
    return w.at + w.n + 1 == t->rank && !p->own.nbatch && terms != places;
}

static TargetPatchTimes times_of(const Storing *s, const Node *dot, const Patches *p)
{
    const DotSizes size = dot_sizes(dot);
    const int64_t all = type_count(&dot->args[p->side]->type);
    const TargetPatches x = {.terms = p->terms,
                             .places = all / p->terms,
                             .stored = p->lines * p->line,
                             .lines = p->in_memory,
                             .results = size.batch * size.m * size.n * size.k / all};
    return target_patch_times(s->target, &x);
}

static bool is_stored(void *ctx, const Node *n)
{
    const Storing *s = ctx;
    Patches p;
    return find_patches(n, &p) && s->gains[n->args[p.side]->id];
}

// The image with its last two axes, pixels of a line and channels, as one, and with the zeros
// around it, [more] behind each line: a value of its own, in which an element of a window has a
// simple address.
static Node *lines_of(Graph *g, Node *image, int64_t more)
{
    const int axis = image->type.rank - 2; // of pixels
    const bool pads = image->op == OP_pad;
    Node *inner = pads ? image->args[0] : image, *zero;
    const int64_t channels = inner->type.dim[axis + 1];
    int64_t dim[MAX_RANK], around[2][MAX_RANK] = {{0}};
    for (int i = 0; i < axis; i++) dim[i] = inner->type.dim[i];
    dim[axis] = inner->type.dim[axis] * channels;
    inner = graph_reshape(g, inner, axis + 1, dim);
    Attrs at = {0};
    for (int k = 0; k < 2; k++) {
        const int64_t *zeros = pads ? attr_ints(image, k ? ATTR_high : ATTR_low, NULL) : around[k];
        for (int i = 0; i <= axis; i++) around[k][i] = zeros[i] * (i == axis ? channels : 1);
    }
    const int64_t line = around[0][axis] + dim[axis] + around[1][axis];
    around[1][axis] += filled(line + more) - line; // (for aligned stores)
    attr_set_ints(g, &at, ATTR_low, around[0], axis + 1);
    attr_set_ints(g, &at, ATTR_high, around[1], axis + 1);
    zero = pads ? image->args[1] : graph_const(g, inner->type.dtype, 0);
    Node *lines = graph_node(g, OP_pad, (Node *[]){inner, zero}, 2, &at);
    lines = graph_unary(g, OP_stop_gradient, lines);
    lines->name = "lines";
    return lines;
}

// Windows of which the pixels of a line with their channels are one axis, neighbours in memory,
// and the [more] elements behind them.
static Node *windows_of_lines(Graph *g, Node *windows, int64_t more)
{
    const WindowAxes w = window_axes(windows->attrs);
    Node *image = windows->args[0];
    const int axis = image->type.rank - 2, last = w.n - 1;
    const int64_t channels = image->type.dim[axis + 1];
    int64_t size[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < w.n; i++) {
        size[i] = w.size[i] * (i == last ? channels : 1) + (i == last ? more : 0);
        stride[i] = w.stride[i] * (i == last ? channels : 1);
    }
    Attrs at = attrs_copy(windows->attrs);
    attr_set_ints(g, &at, ATTR_sizes, size, w.n);
    attr_set_ints(g, &at, ATTR_stride, stride, w.n);
    Node *lines = graph_node(g, OP_window, (Node *[]){lines_of(g, image, more)}, 1, &at);
    return graph_resized(g, lines, axis, windows->type.dim[axis]);
}

// x with zeros from [end] on along its last axis.
static Node *zeros_from(Graph *g, Node *x, int64_t end)
{
    const Type *t = &x->type;
    Node *at = graph_iota(g, DT_I32, &t->dim[t->rank - 1], 1, 0);
    Node *inside = graph_binary(g, OP_lt, at, graph_const_int(g, DT_I32, end));
    return graph_select(g, inside, x, graph_const(g, t->dtype, 0));
}

// The stored terms of each window.
static Node *rows_of(Graph *g, const Patches *p, Node *windows)
{
    const int64_t line = p->terms / p->lines, more = p->in_memory ? p->line - line : 0;
    int64_t dim[MAX_RANK];
    for (int i = 0; i < p->places; i++) dim[i] = windows->type.dim[i];
    dim[p->places] = p->lines;
    dim[p->places + 1] = line + more;
    if (has_lines(windows)) windows = windows_of_lines(g, windows, more);
    Node *x = graph_reshape(g, windows, p->places + 2, dim);
    x = more ? zeros_from(g, x, line) : graph_resized(g, x, p->places + 1, p->line);
    x = graph_unary(g, OP_stop_gradient, x); // (a value of its own, not looked through)
    x->name = "windows";
    dim[p->places] = p->lines * p->line;
    return graph_reshape(g, x, p->places + 1, dim);
}

// The weights as w(..., k).
static Node *weights_of(Graph *g, const Patches *p, Node *w)
{
    int64_t perm[MAX_RANK], dim[MAX_RANK];
    int n = p->other.nfree;
    for (int i = 0; i < n; i++) dim[i] = w->type.dim[perm[i] = p->other.free[i]];
    for (int i = 0; i < p->own.ncontract; i++)
        perm[n + p->own.contract[i] - p->places] = p->other.contract[i];
    dim[n] = p->lines;
    dim[n + 1] = p->terms / p->lines;
    w = graph_reshape(g, graph_permute(g, w, perm), n + 2, dim);
    w = graph_resized(g, w, n + 1, p->line);
    dim[n] = p->lines * p->line;
    return graph_reshape(g, w, n + 1, dim);
}

// y, of which an axis is the stored terms, without those that were filled in: of the shape [as].
static Node *without_filled(Graph *g, const Patches *p, Node *y, int axis, const Type *as)
{
    int64_t dim[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < y->type.rank; i++) {
        if (i == axis) dim[rank++] = p->lines;
        dim[rank++] = y->type.dim[i] / (i == axis ? p->lines : 1);
    }
    y = graph_resized(g, graph_reshape(g, y, rank, dim), axis + 1, p->terms / p->lines);
    return graph_reshape(g, y, as->rank, as->dim);
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
    return terms ? y : without_filled(g, &p, y, p.side ? y->type.rank - 1 : 0, &dot->type);
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
