// Images whose number of channels is no multiple of 8 are stored with zeros up to the next one:
// bulk copies read 16 bytes at a time, and what they cannot read is loaded element by element, in a
// convolution and in both of its gradients.
//
//     dot(window(pad(x)), w)   becomes   dot(window(pad(filled(x))), filled(w))
//
// with both filled along the channels. What is no sum over these channels, as the gradient of the
// weights, has results of the zeros, which are cut off. The kernel that computes an image stores
// the filled one. Fewer than 8 channels are left to the pass `patches`.
//
// Requires: gradients expanded, precision chosen, so that it is known what tensor cores multiply.
// Keeps: every value (sums have zeros more). Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

// A smaller product costs next to nothing. (For each multiprocessor.)
enum { LEAST_CHANNELS = 2 * TARGET_UNIT, LEAST_FLOPS = 2 << 20 };

static int64_t channels_of(const Node *x)
{
    return x->type.dim[x->type.rank - 1];
}

static int64_t filled_up(int64_t n)
{
    return (n + TARGET_UNIT - 1) / TARGET_UNIT * TARGET_UNIT;
}

// Whether x is windows over all but the last axis of an image, which is not padded along it.
static bool is_windows(const Node *x)
{
    if (x->op != OP_window) return false;
    const WindowAxes w = window_axes(x->attrs);
    const Node *image = x->args[0];
    const int last = image->type.rank - 1;
    for (int i = 0; i < w.n; i++)
        if (w.axis[i] == last) return false;
    return image->op != OP_pad ||
           (!attr_ints(image, ATTR_low, NULL)[last] && !attr_ints(image, ATTR_high, NULL)[last]);
}

static bool has_odd_channels(void *ctx, const Node *n)
{
    const Target *target = ctx;
    bool windows = false, odd = false;
    if (n->op != OP_dot || attr_int(n, ATTR_accumulate, DT_F32) != DT_F32) return false;
    for (int k = 0; k < 2; k++) {
        const Node *x = n->args[k];
        if (x->type.dtype != DT_BF16 && x->type.dtype != DT_F16) return false;
        if (x->type.rank < 2 || channels_of(x) < LEAST_CHANNELS) return false;
        windows |= is_windows(x);
        odd |= channels_of(x) % TARGET_UNIT != 0;
    }
    const DotSizes s = dot_sizes(n);
    return windows && odd && s.batch == 1 &&
           2 * (double)s.m * (double)s.n * (double)s.k >= (double)LEAST_FLOPS * target->units;
}

// The axis of the operand of a view that is this axis of the view, in the same order; -1: none.
static int axis_behind(const Node *view, int axis)
{
    const Type *t = &view->type, *from = &view->args[0]->type;
    int64_t before = 1, at = 1;
    int n;
    if (view->op == OP_permute) return (int)attr_ints(view, ATTR_perm, NULL)[axis];
    if (view->op == OP_pad)
        return attr_ints(view, ATTR_low, NULL)[axis] || attr_ints(view, ATTR_high, NULL)[axis]
                   ? -1
                   : axis;
    if (view->op == OP_reverse) {
        const int64_t *axes = attr_ints(view, ATTR_axes, &n);
        for (int i = 0; i < n; i++)
            if (axes[i] == axis) return -1;
        return axis;
    }
    if (view->op != OP_reshape) return -1;
    for (int i = 0; i < axis; i++) before *= t->dim[i];
    for (int i = 0; i < from->rank; at *= from->dim[i++])
        if (at == before && from->dim[i] == t->dim[axis]) return i;
    return -1;
}

// x with zeros up to [extent] along an axis, as a value of its own: of weights, the one that they
// are a view of, since products know which elements of a view are padding.
static Node *filled(Graph *g, Node *x, int axis, int64_t extent)
{
    const int from = node_class(x) == CLS_VIEW ? axis_behind(x, axis) : -1;
    if (from < 0) return graph_unary(g, OP_stop_gradient, graph_resized(g, x, axis, extent));
    Node *args[2] = {filled(g, x->args[0], from, extent), x->nargs > 1 ? x->args[1] : NULL};
    if (x->op != OP_reshape) return graph_node(g, x->op, args, (int)x->nargs, x->attrs);
    int64_t dim[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) dim[i] = i == axis ? extent : x->type.dim[i];
    return graph_reshape(g, args[0], x->type.rank, dim);
}

// Operand x of a dot, filled along its last axis.
static Node *operand(Graph *g, Node *x, int64_t extent)
{
    if (channels_of(x) == extent) return x;
    if (!is_windows(x)) return filled(g, x, x->type.rank - 1, extent);
    Node *image = x->args[0];
    image = filled(g, image, image->type.rank - 1, extent);
    return graph_node(g, OP_window, &image, 1, x->attrs);
}

static Node *with_filled(void *ctx, Graph *g, Node *dot, Node *const *map)
{
    if (!has_odd_channels(ctx, dot)) return NULL;
    Node *args[2], *y;
    graph_stamp(g, dot, NULL);
    for (int k = 0; k < 2; k++)
        args[k] = operand(g, map[dot->args[k]->id], filled_up(channels_of(dot->args[k])));
    for (int k = 0; k < 2; k++) { // the other operand is summed over the same channels
        const DotAxes own = dot_axes(dot, k), other = dot_axes(dot, !k);
        for (int i = 0; i < own.ncontract; i++)
            if (own.contract[i] == dot->args[k]->type.rank - 1 &&
                args[!k]->type.dim[other.contract[i]] != channels_of(args[k]))
                args[!k] = filled(g, args[!k], (int)other.contract[i], channels_of(args[k]));
    }
    y = graph_node(g, OP_dot, args, 2, dot->attrs);
    for (int i = 0; i < y->type.rank; i++) y = graph_resized(g, y, i, dot->type.dim[i]);
    return y;
}

static Graph *fill_channels(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, has_odd_channels, with_filled, ctx);
}

Graph *pass_channels(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || !o->target->group_products) return g;
    return over_regions(g, fill_channels, (void *)(uintptr_t)o->target);
}
