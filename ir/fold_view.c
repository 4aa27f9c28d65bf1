// Folding of views: identities, and views of views.
#include <string.h>

#include "ir/axes.h"
#include "ir/fold.h"

static Node *fold_reshape(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    Scalar v;
    if (shape_equal(&a->type, &in->out)) return a;
    if (uniform_value(a, &v)) return fold_const(g, &in->out, v);
    if (a->op == OP_reshape) return graph_reshape(g, a->args[0], in->out.rank, in->out.dim);
    return NULL;
}

static Node *fold_permute(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    const int64_t *perm = attrs_ints(in->attrs, ATTR_perm, NULL);
    bool identity = true;
    for (int i = 0; i < in->out.rank; i++) identity &= perm[i] == i;
    if (identity) return a;
    Scalar v;
    if (uniform_value(a, &v)) return fold_const(g, &in->out, v);
    if (a->op == OP_permute) {
        const int64_t *first = attr_ints(a, ATTR_perm, NULL);
        int64_t both[MAX_RANK];
        for (int i = 0; i < in->out.rank; i++) both[i] = first[perm[i]];
        return graph_permute(g, a->args[0], both);
    }
    // A permutation that moves only axes of size one is a reshape.
    int64_t last = -1;
    for (int i = 0; i < in->out.rank; i++) {
        if (a->type.dim[perm[i]] == 1) continue;
        if (perm[i] < last) return NULL;
        last = perm[i];
    }
    return graph_reshape(g, a, in->out.rank, in->out.dim);
}

static Node *broadcast(Graph *g, Node *a, const Type *out, const int64_t *dims)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, out->dim, out->rank);
    attr_set_ints(g, &at, ATTR_dims, dims, a->type.rank);
    return graph_node(g, OP_broadcast, &a, 1, &at);
}

// The graph has only one form of broadcasts: every operand axis has the size of its output axis,
// and that is not one. Other axes are removed by a reshape, which usually cancels the reshape that
// added them. A broadcast that repeats nothing is a reshape, except that constants with a shape are
// always broadcast scalars.
static Node *fold_broadcast(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    const int64_t *dims = attrs_ints(in->attrs, ATTR_dims, NULL);
    int64_t count = type_count(&in->out);
    if (shape_equal(&a->type, &in->out)) return a;
    if (a->op == OP_const && !a->type.rank) return NULL;
    if (type_count(&a->type) == count && count)
        return graph_reshape(g, a, in->out.rank, in->out.dim);
    int64_t kept_dim[MAX_RANK], kept_to[MAX_RANK];
    int kept = 0;
    for (int i = 0; i < a->type.rank; i++) {
        if (a->type.dim[i] == 1) continue;
        kept_dim[kept] = a->type.dim[i];
        kept_to[kept++] = dims[i];
    }
    if (kept < a->type.rank)
        return broadcast(g, graph_reshape(g, a, kept, kept_dim), &in->out, kept_to);
    if (a->op == OP_broadcast) {
        const int64_t *first = attr_ints(a, ATTR_dims, NULL);
        int64_t both[MAX_RANK];
        for (int i = 0; i < a->args[0]->type.rank; i++) both[i] = dims[first[i]];
        return broadcast(g, a->args[0], &in->out, both);
    }
    return NULL;
}

// A slice along the position axes of a window is a window of a slice of its operand.
static Node *slice_of_window(Graph *g, Node *a, const int64_t *start, const int64_t *limit)
{
    const WindowAxes w = window_axes(a->attrs);
    Node *x = a->args[0];
    int64_t from[MAX_RANK], to[MAX_RANK], one[MAX_RANK];
    for (int i = 0; i < w.n; i++)
        if (start[w.at + i] || limit[w.at + i] != w.size[i]) return NULL;
    for (int i = 0; i < x->type.rank; i++) {
        from[i] = start[i < w.at ? i : i + w.n];
        to[i] = limit[i < w.at ? i : i + w.n];
        one[i] = 1;
        if (from[i] == to[i]) return NULL;
    }
    for (int i = 0; i < w.n; i++) {
        const int64_t k = w.axis[i];
        from[k] *= w.stride[i];
        to[k] = (to[k] - 1) * w.stride[i] + (w.size[i] - 1) * w.dilation[i] + 1;
    }
    x = graph_slice(g, x, from, to, one);
    return graph_node(g, OP_window, &x, 1, a->attrs);
}

// A slice of a pad is a pad of a slice, with the part of the padding that is left.
static Node *slice_of_pad(Graph *g, Node *a, const int64_t *start, const int64_t *limit)
{
    const int64_t *low = attr_ints(a, ATTR_low, NULL);
    Node *x = a->args[0];
    int64_t from[MAX_RANK], to[MAX_RANK], one[MAX_RANK], before[MAX_RANK], after[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
        int64_t end = low[i] + x->type.dim[i];
        from[i] = start[i] > low[i] ? start[i] - low[i] : 0;
        to[i] = (limit[i] < end ? limit[i] : end) - low[i];
        one[i] = 1;
        before[i] = start[i] < low[i] ? low[i] - start[i] : 0;
        after[i] = limit[i] > end ? limit[i] - end : 0;
        if (from[i] >= to[i]) return NULL;
    }
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_low, before, x->type.rank);
    attr_set_ints(g, &at, ATTR_high, after, x->type.rank);
    x = graph_slice(g, x, from, to, one);
    return graph_node(g, OP_pad, (Node *[]){x, a->args[1]}, 2, &at);
}

static Node *fold_slice(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    if (shape_equal(&a->type, &in->out)) return a;
    Scalar v;
    if (uniform_value(a, &v)) return fold_const(g, &in->out, v);
    const int64_t *start = attrs_ints(in->attrs, ATTR_start, NULL);
    const int64_t *end = attrs_ints(in->attrs, ATTR_limit, NULL);
    const int64_t *step = attrs_ints(in->attrs, ATTR_stride, NULL);
    bool dense = true;
    for (int i = 0; i < in->out.rank; i++) dense &= step[i] == 1;
    if (dense && a->op == OP_window) return slice_of_window(g, a, start, end);
    if (dense && a->op == OP_pad) return slice_of_pad(g, a, start, end);
    if (a->op != OP_slice) return NULL;
    const int64_t *first = attr_ints(a, ATTR_start, NULL);
    const int64_t *stride = attr_ints(a, ATTR_stride, NULL);
    int64_t begin[MAX_RANK], limit[MAX_RANK], both[MAX_RANK];
    for (int i = 0; i < in->out.rank; i++) {
        begin[i] = first[i] + start[i] * stride[i];
        both[i] = stride[i] * step[i];
        limit[i] = in->out.dim[i] ? begin[i] + (in->out.dim[i] - 1) * both[i] + 1 : begin[i];
        if (limit[i] > a->args[0]->type.dim[i]) return NULL; // an empty slice past the end
    }
    return graph_slice(g, a->args[0], begin, limit, both);
}

static Node *fold_reverse(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    int n;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    bool moves = false;
    for (int i = 0; i < n; i++) moves |= a->type.dim[axes[i]] > 1;
    Scalar v;
    if (!moves || uniform_value(a, &v)) return a;
    const AttrValue *inner = a->op == OP_reverse ? attr_find(a, ATTR_axes) : NULL;
    if (inner && inner->n == n && !memcmp(inner->ints, axes, (size_t)n * sizeof *axes))
        return a->args[0];
    (void)g;
    return NULL;
}

// Windows that do not overlap are a reshape and a permute: positions first, then elements within a
// window.
static Node *fold_window(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    const WindowAxes w = window_axes(in->attrs);
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], step[MAX_RANK], dim[MAX_RANK], perm[MAX_RANK];
    int rank = 0, within[MAX_RANK];
    Scalar v;
    if (uniform_value(a, &v)) return fold_const(g, &in->out, v);
    for (int i = 0; i < a->type.rank; i++) limit[i] = a->type.dim[i], step[i] = 1;
    for (int i = 0; i < w.n; i++) {
        const int64_t x = w.axis[i], places = in->out.dim[x];
        bool single = w.size[i] == 1;
        if (!single && (w.dilation[i] > 1 || w.stride[i] != w.size[i])) return NULL;
        step[x] = single ? w.stride[i] : 1;
        limit[x] = single ? (places - 1) * step[x] + 1 : places * w.size[i];
    }
    for (int i = 0, k = 0; i < a->type.rank; i++) {
        perm[i < w.at ? i : i + w.n] = rank;
        dim[rank++] = in->out.dim[i < w.at ? i : i + w.n];
        if (k == w.n || w.axis[k] != i) continue;
        within[k] = rank;
        dim[rank++] = w.size[k++];
    }
    for (int i = 0; i < w.n; i++) perm[w.at + i] = within[i];
    a = graph_reshape(g, graph_slice(g, a, start, limit, step), rank, dim);
    return graph_permute(g, a, perm);
}

static Node *fold_pad(Graph *g, const Infer *in)
{
    Scalar v, fill;
    if (shape_equal(&in->args[0]->type, &in->out)) return in->args[0];
    if (uniform_value(in->args[0], &v) && uniform_value(in->args[1], &fill) && v.i == fill.i)
        return fold_const(g, &in->out, v);
    Node *a = in->args[0];
    if (a->op != OP_pad || a->args[1] != in->args[1]) return NULL;
    int64_t both[2][MAX_RANK];
    Attrs at = {0};
    for (int k = 0; k < 2; k++) {
        const AttrKey key = k ? ATTR_high : ATTR_low;
        const int64_t *inner = attr_ints(a, key, NULL), *outer = attrs_ints(in->attrs, key, NULL);
        for (int i = 0; i < in->out.rank; i++) both[k][i] = inner[i] + outer[i];
        attr_set_ints(g, &at, key, both[k], in->out.rank);
    }
    return graph_node(g, OP_pad, (Node *[]){a->args[0], a->args[1]}, 2, &at);
}

static Node *fold_concat(Graph *g, const Infer *in)
{
    (void)g;
    return in->nargs == 1 ? in->args[0] : NULL;
}

static Node *(*const fold_table[OP_COUNT])(Graph *, const Infer *) = {
    [OP_reshape] = fold_reshape, [OP_permute] = fold_permute, [OP_broadcast] = fold_broadcast,
    [OP_slice] = fold_slice,     [OP_reverse] = fold_reverse, [OP_pad] = fold_pad,
    [OP_concat] = fold_concat,   [OP_window] = fold_window,
};

Node *fold_view(Graph *g, const Infer *in)
{
    return fold_table[in->op] ? fold_table[in->op](g, in) : NULL;
}
