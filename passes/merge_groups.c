// A grouped convolution with few channels in a group becomes a convolution of all channels whose
// weights are zero between groups: tensor cores then multiply many zeros, but by bulk copies and
// warpgroups, which read neither windows with a batch axis nor a few channels (target_merges_groups
// compares both).
//
//     y(b, i, g, o) = sum over u, c of windows(b, i, u, g, c) w(g, o, u, c)
//
// (likewise the gradient of the image, whose windows are those of dy) becomes
//
//     y(b, i, (g, o)) = sum over u, (h, c) of windows(b, i, u, (h, c)) where(g == h, w(g, o, u, c),
//     0)
//
// and the gradient of the weights, dw(g, o, u, c) = sum over b, i of dy(b, i, g, o) windows(b, i,
// u, g, c), becomes the diagonal g == h of the gradient of all weights, dw((g, o), u, (h, c)).
//
// An Inf or NaN in one group of the image (or of dy) makes the results of all groups at these
// places NaN, since it is multiplied by zeros. In a training step that also computes the gradient
// of the weights from the same values, that gradient is not finite in either form, and the step
// fails or is skipped. Otherwise (predictions, evaluation, weights that are not trained) results
// that are not finite are computed again by groups, one by one: the op `repair`. The gradient of
// the weights itself only leaves out the products between groups.
//
// Requires: gradients expanded, precision chosen, so that it is known what tensor cores multiply.
// Keeps: values within rounding (zeros are added, in another order of the sum), also those that are
// not finite; of a training step with such values, that it is not finite. Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Merging {
    const PassOptions *options;
    bool step; // of a training step
    // By id: the gradient of a grouped convolution's weights sums this over all places.
    bool *summed;
} Merging;

enum { MOST_VIEWS = 32, GROUP = 0, MOST_AXES = 3 };

// The views between an operand and the value that is merged. They leave its groups and channels
// alone: [axis] has the axis of groups and those that it is merged into, in the operand and then in
// what each view reads.
typedef struct Chain {
    const Node *view[MOST_VIEWS], *value;
    int64_t axis[MOST_VIEWS + 1][MOST_AXES];
    int n, axes;
} Chain;

typedef struct Grouped { // a contraction over windows with one batch axis, the groups
    int side;            // the operand that is windows
    bool of_weights;     // their gradient: the channels of the windows are not contracted
    int64_t groups;
    DotAxes axes[2];
    int64_t results, channels; // extents of a group: of the result, and of the windows
    Chain image, other;        // windows: (groups, channels); dy: (groups, results); weights: both
} Grouped;

// The axis of a window's operand that is this axis of its result; -1: windows are taken along it.
static int64_t before_window(const Node *n, int64_t axis)
{
    const WindowAxes w = window_axes(n->attrs);
    if (axis >= w.at && axis < w.at + w.n) return -1;
    if (axis >= w.at) axis -= w.n;
    for (int i = 0; i < w.n; i++)
        if (w.axis[i] == axis) return -1;
    return axis;
}

// The same for a reshape; -1: the axis is split or merged, or has one element.
static int64_t before_reshape(const Node *n, int64_t axis)
{
    const Type *t = &n->args[0]->type;
    int64_t step[MAX_RANK], old[MAX_RANK];
    type_strides(&n->type, step);
    type_strides(t, old);
    for (int i = 0; i < t->rank && n->type.dim[axis] > 1; i++)
        if (t->dim[i] == n->type.dim[axis] && old[i] == step[axis]) return i;
    return -1;
}

// The same for views that can stay as they are when the axis has other elements; -1: for others.
static int64_t before_view(const Node *n, int64_t axis)
{
    int count;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    switch (n->op) {
    case OP_window: return before_window(n, axis);
    case OP_reshape: return before_reshape(n, axis);
    case OP_permute: return attr_ints(n, ATTR_perm, NULL)[axis];
    case OP_pad:
        return attr_ints(n, ATTR_low, NULL)[axis] || attr_ints(n, ATTR_high, NULL)[axis] ? -1
                                                                                         : axis;
    case OP_reverse:
        for (int i = 0; i < count; i++)
            if (axes[i] == axis) return -1;
        return axis;
    default: return -1;
    }
}

static void find_chain(const Node *n, const int64_t *axis, int axes, Chain *c)
{
    c->n = 0;
    c->axes = axes;
    for (int i = 0; i < axes; i++) c->axis[0][i] = axis[i];
    for (; c->n < MOST_VIEWS; n = n->args[0]) {
        bool stays = true;
        for (int i = 0; i < axes; i++) {
            c->axis[c->n + 1][i] = before_view(n, c->axis[c->n][i]);
            stays &= c->axis[c->n + 1][i] >= 0;
        }
        if (!stays) break;
        c->view[c->n++] = n;
    }
    c->value = n;
}

static bool are_neighbours(const Chain *c) // groups and channels, in the value
{
    return c->axis[c->n][1] == c->axis[c->n][GROUP] + 1;
}

static bool find_grouped(const Node *dot, Grouped *x)
{
    if (dot->op != OP_dot) return false;
    x->side = dot->args[0]->op == OP_window ? 0 : 1;
    const Node *image = dot->args[x->side], *other = dot->args[!x->side];
    if (image->op != OP_window || other->op == OP_window) return false;
    x->axes[0] = dot_axes(dot, 0);
    x->axes[1] = dot_axes(dot, 1);
    const DotAxes *a = &x->axes[x->side], *b = &x->axes[!x->side];
    const int64_t last = image->type.rank - 1;
    if (a->nbatch != 1 || a->batch[0] == last || !b->nfree || other->type.rank == MAX_RANK ||
        dot->type.rank == MAX_RANK)
        return false;
    int64_t in_image[] = {a->batch[0], last}, in_other[] = {b->batch[0], b->free[b->nfree - 1], 0};
    x->groups = image->type.dim[a->batch[0]];
    x->channels = image->type.dim[last];
    x->results = other->type.dim[in_other[1]];
    x->of_weights = a->nfree && a->free[a->nfree - 1] == last;
    for (int i = 0; i < a->ncontract; i++)
        if (a->contract[i] == last) in_other[2] = b->contract[i];
    find_chain(image, in_image, 2, &x->image);
    find_chain(other, in_other, x->of_weights ? 2 : 3, &x->other);
    return x->groups > 1 && are_neighbours(&x->image) &&
           (!x->of_weights || are_neighbours(&x->other)) && x->image.value->type.rank < MAX_RANK &&
           x->other.value->type.rank < MAX_RANK;
}

static bool on_tensor_cores(const PassOptions *o, const Node *dot)
{
    const DType t = dot->args[0]->type.dtype;
    return t == dot->args[1]->type.dtype && attr_int(dot, ATTR_accumulate, DT_F32) == DT_F32 &&
           pass_on_tensor_cores(o, t);
}

// The value whose elements n reads, possibly several times and with zeros between them; slices: or
// only some of them.
static const Node *value_of(const Node *n, bool slices)
{
    while (n->op == OP_window || n->op == OP_pad || n->op == OP_permute || n->op == OP_reshape ||
           (slices && n->op == OP_slice))
        n = n->args[0];
    return n;
}

// Whether the step is not finite anyway if what the windows are taken of is not.
static bool ends_with_step(const Merging *m, const Node *windows)
{
    return m->step && (m->summed[windows->id] || m->summed[value_of(windows, true)->id]);
}

static bool is_merged(const Merging *m, const Node *n)
{
    Grouped x;
    if (!find_grouped(n, &x) || !on_tensor_cores(m->options, n)) return false;
    const DotSizes s = dot_sizes(n);
    const Node *image = n->args[x.side];
    const TargetGroups groups = {
        .groups = x.groups,
        .rows = x.of_weights ? s.k
                : x.side     ? s.n
                             : s.m,
        .channels = x.channels,
        .results = x.results,
        .products = (double)s.m * (double)s.n * (double)s.k,
        .repaired = !x.of_weights && !ends_with_step(m, image),
        .half = image->type.dtype != DT_F32,
    };
    return target_merges_groups(m->options->target, &groups);
}

static Node *split_axis(Graph *g, Node *x, int64_t axis, int64_t count)
{
    int64_t dim[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++) {
        if (i == axis) dim[rank++] = count;
        dim[rank++] = i == axis ? x->type.dim[i] / count : x->type.dim[i];
    }
    return graph_reshape(g, x, rank, dim);
}

static Node *join_axes(Graph *g, Node *x, int64_t first) // with the one after it
{
    int64_t dim[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++) {
        if (i == first + 1)
            dim[rank - 1] *= x->type.dim[i];
        else
            dim[rank++] = x->type.dim[i];
    }
    return graph_reshape(g, x, rank, dim);
}

static Node *move_to_front(Graph *g, Node *x, int64_t axis)
{
    int64_t perm[MAX_RANK] = {axis};
    for (int i = 0, n = 1; i < x->type.rank; i++)
        if (i != axis) perm[n++] = i;
    return graph_permute(g, x, perm);
}

// Copies a list with a number for each axis, without that of one axis. Returns its length.
static int dropped(const int64_t *list, int n, int64_t axis, int64_t *out)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (i != axis) out[count++] = list[i];
    return count;
}

// The views of a chain, of a value whose groups are merged.
static Node *viewed_again(Graph *g, const Chain *c, Node *y, int64_t groups, Node *const *map)
{
    for (int i = c->n; i-- > 0;) {
        const Node *v = c->view[i];
        const int64_t in = c->axis[i + 1][GROUP], out = c->axis[i][GROUP];
        Node *args[2] = {y, v->nargs > 1 ? map[v->args[1]->id] : NULL};
        int64_t list[2][MAX_RANK];
        int n = 0;
        Attrs at = attrs_copy(v->attrs);
        if (v->op == OP_window || v->op == OP_reverse) {
            const int64_t *axes = attr_ints(v, ATTR_axes, &n);
            for (int k = 0; k < n; k++) list[0][k] = axes[k] - (axes[k] > in);
            attr_set_ints(g, &at, ATTR_axes, list[0], n);
        } else if (v->op == OP_permute) {
            const int64_t *perm = attr_ints(v, ATTR_perm, NULL);
            n = dropped(perm, v->type.rank, out, list[0]);
            for (int k = 0; k < n; k++) list[0][k] -= list[0][k] > in;
            attr_set_ints(g, &at, ATTR_perm, list[0], n);
        } else if (v->op == OP_reshape) {
            Type t = v->type;
            for (int k = 1; k < c->axes; k++) t.dim[c->axis[i][k]] *= groups;
            n = dropped(t.dim, t.rank, out, list[0]);
            attr_set_ints(g, &at, ATTR_shape, list[0], n);
        } else {
            n = dropped(attr_ints(v, ATTR_low, NULL), v->type.rank, out, list[0]);
            dropped(attr_ints(v, ATTR_high, NULL), v->type.rank, out, list[1]);
            attr_set_ints(g, &at, ATTR_low, list[0], n);
            attr_set_ints(g, &at, ATTR_high, list[1], n);
        }
        y = graph_node(g, v->op, args, (int)v->nargs, &at);
    }
    return y;
}

// Windows or dy: channels of all groups side by side.
static Node *merged_image(Graph *g, const Chain *c, int64_t groups, Node *const *map)
{
    Node *y = join_axes(g, map[c->value->id], c->axis[c->n][GROUP]);
    return viewed_again(g, c, y, groups, map);
}

// The index along an axis, with each of two axes joined with the next.
static Node *numbered(Graph *g, const Type *shape, int64_t axis, int64_t own, int64_t other)
{
    int64_t dim[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) dim[i] = i == axis ? shape->dim[i] : 1;
    Node *index = graph_iota(g, DT_I32, &shape->dim[axis], 1, 0);
    index = graph_reshape(g, index, shape->rank, dim);
    return join_axes(g, join_axes(g, graph_broadcast_to(g, index, shape), other), own);
}

// w (g, ..., o, ..., c, ...) as where(g == h, w, 0) of the shape (..., (g, o), ..., (h, c), ...).
// Which of the two axes is g changes nothing: the first is, so that the gradient of the image reads
// the same value.
static Node *merged_weights(Graph *g, const Chain *c, int64_t groups, Node *const *map)
{
    const int64_t *axis = c->axis[c->n], group = axis[GROUP];
    const int64_t first = axis[1] < axis[2] ? axis[1] : axis[2], second = axis[1] + axis[2] - first;
    Node *w = map[c->value->id];
    int64_t perm[MAX_RANK], dim[MAX_RANK], own = 0, other = 0;
    int n = 0, rank = 0;
    for (int i = 0; i < w->type.rank; i++) {
        if (i == group) continue;
        if (i == first) {
            own = rank;
            perm[n++] = group;
            dim[rank++] = groups;
        }
        if (i == second) {
            other = rank;
            dim[rank++] = 1;
        }
        perm[n++] = i;
        dim[rank++] = w->type.dim[i];
    }
    w = graph_reshape(g, graph_permute(g, w, perm), rank, dim);
    Type all = w->type;
    all.dim[other] = groups;
    w = join_axes(g, join_axes(g, graph_broadcast_to(g, w, &all), other), own);
    Node *same = graph_binary(g, OP_eq, numbered(g, &all, own, own, other),
                              numbered(g, &all, other, own, other));
    w = graph_select(g, same, w, graph_full_like(g, w, 0));
    return viewed_again(g, c, w, groups, map);
}

static Node *diagonal(Graph *g, Node *y, int64_t groups) // of the first two axes
{
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
    y = join_axes(g, y, 0);
    for (int i = 0; i < y->type.rank; i++) limit[i] = y->type.dim[i], stride[i] = 1;
    stride[0] = groups + 1;
    return graph_slice(g, y, start, limit, stride);
}

// The axis of the merged result that has the results of all groups.
static int results_axis(const Grouped *x, int rank)
{
    return x->side ? x->axes[0].nfree - 1 : rank - 1;
}

// From the merged result (..., (g, o), ...) to that of the groups, (g, ..., o, ...).
static Node *apart(Graph *g, Node *y, const Grouped *x)
{
    const int axis = results_axis(x, y->type.rank);
    return move_to_front(g, split_axis(g, y, axis, x->groups), axis);
}

// The same, with results that are not finite computed again. The repair has the order of the merged
// result, (..., g, o, ...), so that it is part of the product's kernel.
static Node *repaired(Graph *g, Node *y, const Grouped *x, const Node *dot, Node *const *map)
{
    const int axis = results_axis(x, y->type.rank);
    int64_t perm[MAX_RANK];
    int n = 0;
    for (int i = 1; i < dot->type.rank; i++) {
        if (n == axis) perm[n++] = 0;
        perm[n++] = i;
    }
    Node *args[] = {map[dot->args[0]->id], map[dot->args[1]->id],
                    split_axis(g, y, axis, x->groups)};
    Attrs at = attrs_copy(dot->attrs);
    attr_set_ints(g, &at, ATTR_perm, perm, n);
    return move_to_front(g, graph_node(g, OP_repair, args, 3, &at), axis);
}

static Node *merged(const Merging *m, Graph *g, const Node *dot, Node *const *map)
{
    Grouped x;
    find_grouped(dot, &x);
    graph_stamp(g, dot, NULL);
    const int image = x.side, other = !x.side;
    Node *args[2];
    Attrs at = attrs_copy(dot->attrs);
    args[image] = merged_image(g, &x.image, x.groups, map);
    args[other] = (x.of_weights ? merged_image : merged_weights)(g, &x.other, x.groups, map);
    for (int k = 0; k < 2; k++) {
        DotAxes *a = &x.axes[k];
        for (int i = 0; i < a->ncontract; i++) a->contract[i] -= a->contract[i] > a->batch[0];
        attr_set_ints(g, &at, dot_keys[k][0], a->batch, 0);
        attr_set_ints(g, &at, dot_keys[k][1], a->contract, a->ncontract);
    }
    if (!x.of_weights && image == 0)
        attr_set_ints(g, &at, ATTR_groups, (int64_t[]){x.channels, x.results}, 2);
    Node *y = graph_node(g, OP_dot, args, 2, &at);
    if (!x.of_weights)
        return ends_with_step(m, dot->args[x.side]) ? apart(g, y, &x)
                                                    : repaired(g, y, &x, dot, map);
    // The last axis that each operand leaves.
    const int left = x.axes[0].nfree - 1, right = y->type.rank - 1;
    y = move_to_front(g, split_axis(g, y, right, x.groups), right);
    y = move_to_front(g, split_axis(g, y, left + 1, x.groups), left + 1);
    return diagonal(g, y, x.groups);
}

static bool is_rounded(const Merging *m, const Node *n) // n casts a merged product
{
    if (n->op != OP_cast) return false;
    while (n->op == OP_cast) n = n->args[0];
    return is_merged(m, n);
}

static bool is_rewritten(void *ctx, const Node *n)
{
    return is_merged(ctx, n) || is_rounded(ctx, n);
}

// A cast is moved before the views of a merged product, so that the kernel that multiplies stores
// its result rounded, and the views cancel those that joined the groups before. It is moved before
// a repair, too: what is finite, but rounded to Inf, is so again.
static Node *rewritten(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_rounded(ctx, n)) return is_merged(ctx, n) ? merged(ctx, g, n, map) : NULL;
    const Node *view[MOST_VIEWS];
    int count = 0;
    Node *y = map[n->args[0]->id];
    for (; node_class(y) == CLS_VIEW && y->nargs == 1 && count < MOST_VIEWS; y = y->args[0])
        view[count++] = y;
    graph_stamp(g, n, NULL);
    if (y->op == OP_repair && n->args[0]->op == OP_dot) {
        Node *args[] = {y->args[0], y->args[1], graph_cast(g, y->args[2], n->type.dtype)};
        Attrs at = attrs_copy(y->attrs);
        attr_set_int(&at, ATTR_dtype, n->type.dtype);
        y = graph_node(g, OP_repair, args, 3, &at);
    } else {
        y = graph_cast(g, y, n->type.dtype);
    }
    while (count-- > 0) y = graph_node(g, view[count]->op, &y, 1, view[count]->attrs);
    return y;
}

// Marks what the gradients of weights sum over all places: the windows, and the other factor.
static void find_summed(const Graph *g, const Merging *m)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Grouped x;
        if (!live[i] || !find_grouped(n, &x) || !x.of_weights) continue;
        m->summed[n->args[x.side]->id] = true;
        m->summed[value_of(n->args[!x.side], false)->id] = true;
    }
}

static Graph *merge_graph(void *ctx, const IdMap *done, Graph *g)
{
    Merging m = *(const Merging *)ctx;
    m.summed = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    find_summed(g, &m);
    return rewrite_nodes(g, done, is_rewritten, rewritten, &m);
}

Graph *pass_merge_groups(Graph *g, Module *module, const PassOptions *o)
{
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    Merging m = {.options = o};
    for (uint32_t i = 0; i < module->entries.n; i++)
        m.step |= module->entries.at[i].graph == g && module->entries.at[i].kind == ENTRY_TRAIN;
    return over_regions(g, merge_graph, &m);
}
