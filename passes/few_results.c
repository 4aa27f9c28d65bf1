// The gradient of the weights of a convolution with few results, 1 to 7 channels as at the end of
// most networks that make images: it takes windows of the results' gradient instead of windows of
// the image.
//
//     dw(o, u, c) = sum over i of dy(i, o) x(i + u, c) = sum over j of dy(j - u, o) x(j, c)
//
// The sum over i reads a large image once for each pixel of a window, and the rows of dy are too
// short for bulk copies. That over j reads the image once, and windows of dy are small: the pass
// `patches` stores them, as rows that the gradient of the image multiplies, too.
//
// Requires: gradients expanded, precision chosen. Keeps: every value within rounding (sums of the
// same terms, without some that are zero). Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Turn {
    int side; // the operand that is windows
    WindowAxes w;
    Node *image;                             // without the zeros around it
    int64_t before[MAX_RANK], end[MAX_RANK]; // by axis: zeros before it, and behind it
} Turn;

// Whether the operand's contracted axes are all but the last [more] ones, in order.
static bool contracts_first(const Node *dot, int side, int more)
{
    const DotAxes a = dot_axes(dot, side);
    if (a.nbatch || a.ncontract + more != dot->args[side]->type.rank) return false;
    for (int i = 0; i < a.ncontract; i++)
        if (a.contract[i] != i) return false;
    return true;
}

// Zeros around the image, along the windows' axes only.
static void look_through_padding(Turn *t)
{
    const Node *pad = t->image;
    bool windowed[MAX_RANK] = {false};
    double fill;
    for (int i = 0; i < pad->type.rank; i++) t->before[i] = t->end[i] = 0;
    if (pad->op != OP_pad || !node_const_value(pad->args[1], &fill) || fill != 0) return;
    const int64_t *low = attr_ints(pad, ATTR_low, NULL), *high = attr_ints(pad, ATTR_high, NULL);
    for (int i = 0; i < t->w.n; i++) windowed[t->w.axis[i]] = true;
    for (int i = 0; i < pad->type.rank; i++)
        if (!windowed[i] && (low[i] || high[i])) return;
    for (int i = 0; i < pad->type.rank; i++) t->before[i] = low[i], t->end[i] = high[i];
    t->image = pad->args[0];
}

static bool find_turn(const Node *dot, Turn *t)
{
    if (dot->op != OP_dot || attr_int(dot, ATTR_accumulate, DT_F32) != DT_F32) return false;
    t->side = dot->args[0]->op == OP_window ? 0 : 1;
    const Node *windows = dot->args[t->side], *few = dot->args[!t->side];
    const DType type = windows->type.dtype;
    if (windows->op != OP_window || few->op == OP_window || few->type.dtype != type ||
        (type != DT_BF16 && type != DT_F16))
        return false;
    t->w = window_axes(windows->attrs);
    t->image = windows->args[0];
    const int channels = t->image->type.rank - 1;
    if (t->w.at != channels || few->type.rank != channels + 1 ||
        few->type.dim[channels] >= TARGET_UNIT || t->image->type.dim[channels] < TARGET_UNIT ||
        !contracts_first(dot, t->side, t->w.n + 1) || !contracts_first(dot, !t->side, 1))
        return false;
    for (int i = 0; i < t->w.n; i++)
        if (t->w.stride[i] != 1) return false;
    look_through_padding(t);
    return true;
}

// Whether stored windows of the gradient are clearly faster than those of the image, most of which
// a product loads in vectors, but whose tiles are mostly empty.
static bool gains(const Target *target, const Node *dot, const Turn *t)
{
    const double clearly = 1.2;
    const Type *image = &t->image->type, *few = &dot->args[!t->side]->type;
    const int64_t channels = image->dim[image->rank - 1];
    int64_t terms = few->dim[few->rank - 1];
    for (int i = 0; i < t->w.n; i++) terms *= t->w.size[i];
    const TargetPatches x = {.terms = terms,
                             .places = type_count(image) / channels,
                             .stored = (terms + TARGET_UNIT - 1) / TARGET_UNIT * TARGET_UNIT,
                             .results = channels};
    const TargetPatchTimes took = target_patch_times(target, &x);
    return took.gathered > clearly * (took.stored + took.copied);
}

static bool is_turned(void *ctx, const Node *n)
{
    Turn t;
    return find_turn(n, &t) && gains(ctx, n, &t);
}

// The results' gradient with as many zeros around it that its windows are at the image's pixels, in
// the form of the image's own gradient (autodiff_window.c), which has the same windows.
static Node *framed(Graph *g, const Turn *t, Node *x)
{
    const int rank = x->type.rank;
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], one[MAX_RANK];
    bool cut = false;
    for (int i = 0; i < rank; i++) limit[i] = x->type.dim[i], one[i] = 1;
    int64_t around[2][MAX_RANK] = {{0}};
    for (int i = 0; i < t->w.n; i++) {
        const int64_t axis = t->w.axis[i], reach = (t->w.size[i] - 1) * t->w.dilation[i],
                      low = reach - t->before[axis], high = reach - t->end[axis];
        if (low < 0) start[axis] = -low;
        if (high < 0) limit[axis] += high;
        cut |= low < 0 || high < 0;
        around[0][axis] = low < 0 ? 0 : low;
        around[1][axis] = high < 0 ? 0 : high;
    }
    if (cut) x = graph_slice(g, x, start, limit, one);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_low, around[0], rank);
    attr_set_ints(g, &at, ATTR_high, around[1], rank);
    return graph_node(g, OP_pad, (Node *[]){x, graph_const(g, x->type.dtype, 0)}, 2, &at);
}

static Node *windows_of(Graph *g, const Turn *t, Node *x)
{
    int64_t one[MAX_RANK];
    for (int i = 0; i < t->w.n; i++) one[i] = 1;
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_axes, t->w.axis, t->w.n);
    attr_set_ints(g, &at, ATTR_sizes, t->w.size, t->w.n);
    attr_set_ints(g, &at, ATTR_stride, one, t->w.n);
    attr_set_ints(g, &at, ATTR_dilation, t->w.dilation, t->w.n);
    return graph_node(g, OP_window, &x, 1, &at);
}

static Node *turned(void *ctx, Graph *g, Node *dot, Node *const *map)
{
    Turn t;
    if (!find_turn(dot, &t) || !gains(ctx, dot, &t)) return NULL;
    graph_stamp(g, dot, NULL);
    Node *few = windows_of(g, &t, framed(g, &t, map[dot->args[!t.side]->id]));
    const DotAxes a = dot_axes(dot, !t.side);
    // (u..., o, c)
    Node *y = graph_dot(g, few, map[t.image->id], NULL, NULL, 0, a.contract, a.contract,
                        a.ncontract, DT_F32);
    const int n = t.w.n;
    int64_t perm[MAX_RANK], reversed[MAX_RANK];
    for (int i = 0; i < n; i++) {
        perm[!t.side ? i : 1 + i] = i;
        reversed[i] = !t.side ? i : 1 + i;
    }
    perm[t.side ? 0 : n + 1] = n;
    perm[t.side ? n + 1 : n] = n + 1;
    y = graph_cast(g, graph_permute(g, y, perm), dot->type.dtype);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_axes, reversed, n);
    return graph_node(g, OP_reverse, &y, 1, &at);
}

static Graph *turn_windows(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, is_turned, turned, ctx);
}

Graph *pass_few_results(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || !o->target->group_products) return g;
    return over_regions(g, turn_windows, (void *)(uintptr_t)o->target);
}
