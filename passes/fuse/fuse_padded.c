// What follows padded products: the padding is kept as long as nothing has to be copied for it.
//
// Elementwise results of padded values are padded, and the FILL, the value of their additional
// elements, is computed with them. Where it is not known, it is replaced: by zeros before a product
// reads the value, and by the neutral element before a reduction along padded axes. So a loss over
// rows of 50257 logits that are stored as rows of 50304 is one kernel over these, which stores the
// gradient for the next product.
#include <math.h>

#include "ir/axes.h"
#include "ir/range.h"
#include "ir/scalar.h"
#include "passes/fuse/fuse_pad.h"

enum { MOST_ARGS = 4, MOST_DEPTH = 6 };

bool pad_has_extents(const Type *t, const int64_t *want)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != want[i]) return false;
    return true;
}

static const Form *form_of(const Pad *p, const Node *n)
{
    return p->form[n->id].node ? &p->form[n->id] : NULL;
}

// Cuts a padded node to the original shape.
static Node *cut(Graph *g, Node *n, const Type *shape)
{
    int64_t start[MAX_RANK] = {0}, stride[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) stride[i] = 1;
    return graph_slice(g, n, start, shape->dim, stride);
}

// Names y after n, which it is with padding.
static Node *named(Graph *g, Node *y, const Node *n)
{
    const char *name = n->name ? n->name : attr_str(n, ATTR_name);
    if (!y->name && name && y != n) y->name = arena_printf(g->arena, "%s_padded", name);
    return y;
}

static Node *with_zeros(Graph *g, Node *n, const int64_t *want)
{
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK];
    Attrs at = {0};
    for (int i = 0; i < n->type.rank; i++) high[i] = want[i] - n->type.dim[i];
    attr_set_ints(g, &at, ATTR_low, low, n->type.rank);
    attr_set_ints(g, &at, ATTR_high, high, n->type.rank);
    Node *args[2] = {n, graph_const(g, n->type.dtype, 0)};
    return named(g, graph_node(g, OP_pad, args, 2, &at), n);
}

// The padded form with [value] as its additional elements, if it has any.
static Node *filled(Pad *p, const Form *f, const Type *shape, double value)
{
    Graph *g = p->dst;
    const Type *t = &f->node->type;
    Node *inside = NULL;
    if (f->fill == value && !f->of_finite) return f->node;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == shape->dim[i]) continue;
        const DType count = t->dim[i] <= INT32_MAX ? DT_I32 : DT_I64;
        int64_t dim[MAX_RANK] = {t->dim[i], 1, 1, 1, 1, 1, 1, 1};
        Node *at = graph_iota(g, count, dim, t->rank - i, 0),
             *in = graph_binary(g, OP_lt, at, graph_const_int(g, count, shape->dim[i]));
        inside = inside ? graph_binary(g, OP_and, inside, in) : in;
    }
    if (!inside) return f->node;
    Node *other = graph_const(g, t->dtype, value);
    return named(g, graph_select(g, inside, f->node, other), f->node);
}

// want: sizes of the broadcast n; inside: of its operand. false: an axis of n that grows is none of
// the operand's, or repeats one element of it.
static bool inside_broadcast(const Node *n, const int64_t *want, int64_t *inside)
{
    const Type *from = &n->args[0]->type;
    const int64_t *dims = attr_ints(n, ATTR_dims, NULL);
    int grown = 0;
    for (int i = 0; i < n->type.rank; i++) grown += want[i] != n->type.dim[i];
    for (int i = 0; i < from->rank; i++) {
        const bool whole = from->dim[i] == n->type.dim[dims[i]];
        inside[i] = whole ? want[dims[i]] : from->dim[i];
        grown -= inside[i] != from->dim[i];
    }
    return grown == 0;
}

Form pad_operand(Pad *p, const Node *n, const int64_t *want, bool zeros)
{
    const Form *f = form_of(p, n);
    if (f && pad_has_extents(&f->node->type, want) && (zeros ? f->fill == 0 : isfinite(f->fill)))
        return *f;
    if (pad_has_extents(&n->type, want)) return (Form){p->map.map[n->id], 0, false};
    int64_t inside[MAX_RANK];
    if (n->op == OP_broadcast && inside_broadcast(n, want, inside)) {
        Form x = pad_operand(p, n->args[0], inside, zeros);
        Attrs at = attrs_copy(n->attrs);
        attr_set_ints(p->dst, &at, ATTR_shape, want, n->type.rank);
        return (Form){graph_node(p->dst, OP_broadcast, &x.node, 1, &at), x.fill, x.of_finite};
    }
    if (n->op != OP_permute) return (Form){with_zeros(p->dst, p->map.map[n->id], want), 0, false};
    int rank;
    const int64_t *perm = attr_ints(n, ATTR_perm, &rank);
    for (int i = 0; i < rank; i++) inside[perm[i]] = want[i];
    Form x = pad_operand(p, n->args[0], inside, zeros);
    return (Form){graph_permute(p->dst, x.node, perm), x.fill, x.of_finite};
}

// -- elementwise ----------------------------------------------------------------------------------

static Node *longer_iota(Pad *p, const Node *n, const int64_t *dim)
{
    return graph_iota(p->dst, n->type.dtype, dim, n->type.rank, attr_int(n, ATTR_axis, 0));
}

static int grown_count(const Node *n, const Type *like)
{
    int grown = 0;
    for (int i = 0; i < like->rank; i++) grown += like->dim[i] != n->type.dim[i];
    return grown;
}

// A vector that is broadcast, padded with zeros. A converted one is padded before: the matmul
// library reads a bias in the type of its result (fuse_epilogue.c).
static Node *longer_vector(Pad *p, const Node *n, const int64_t *want)
{
    if (n->op != OP_cast) return with_zeros(p->dst, p->map.map[n->id], want);
    Node *x = with_zeros(p->dst, p->map.map[n->args[0]->id], want);
    return graph_cast(p->dst, x, n->type.dtype);
}

// A broadcast with the sizes of [like]: a vector along a padded axis is padded with zeros, or
// counts on; along other axes it is broadcast as before.
static Form spread(Pad *p, const Node *n, const Type *like)
{
    const Node *b = n->args[0];
    int count, covered = 0;
    const int64_t *dims = attr_ints(n, ATTR_dims, &count);
    int64_t want[MAX_RANK];
    for (int i = 0; i < b->type.rank; i++) {
        bool spreads = b->type.dim[i] != n->type.dim[dims[i]];
        want[i] = spreads ? b->type.dim[i] : like->dim[dims[i]];
        covered += !spreads && like->dim[dims[i]] != n->type.dim[dims[i]];
    }
    Node *x = p->map.map[b->id];
    if (covered) x = b->op == OP_iota ? longer_iota(p, b, want) : longer_vector(p, b, want);
    Attrs at = attrs_copy(n->attrs);
    attr_set_ints(p->dst, &at, ATTR_shape, like->dim, like->rank);
    bool zero = covered == 1 && grown_count(n, like) == 1 && b->op != OP_iota;
    return (Form){graph_node(p->dst, OP_broadcast, &x, 1, &at), zero ? 0 : NAN, false};
}

// A fill is a double: larger integers are not known exactly.
static double known(DType t, double v)
{
    return dtype_is_float(t) || fabs(v) <= 0x1p53 ? v : NAN;
}

static double fill_after(const Node *n, const double *fill)
{
    Scalar a[MOST_ARGS] = {{0}};
    if (n->op == OP_native) return NAN; // only the device can compute it
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (isnan(fill[k])) return NAN;
        if (dtype_is_float(n->args[k]->type.dtype))
            a[k].f = fill[k];
        else
            a[k].i = (int64_t)fill[k];
    }
    DType operand = n->args[n->nargs - 1]->type.dtype, t = n->type.dtype;
    Scalar y = op_info(n->op)->flags & OPF_CONVERTS
                   ? scalar_cast(operand, t, a[0], true)
                   : scalar_apply(n->op, operand, t, a[0], a[1], a[2], true);
    return known(t, dtype_is_float(t) ? y.f : (double)y.i);
}

// The axis along which n counts its elements; -1: it does not.
static int counted_axis(const Node *n)
{
    if (n->op == OP_iota) return (int)attr_int(n, ATTR_axis, 0);
    if (n->op != OP_broadcast || n->args[0]->op != OP_iota) return -1;
    return (int)attr_ints(n, ATTR_dims, NULL)[attr_int(n->args[0], ATTR_axis, 0)];
}

static bool varies_along(const Node *n, int axis)
{
    int count;
    const int64_t *dims = attr_ints(n, ATTR_dims, &count);
    bool varies = n->op != OP_broadcast;
    for (int i = 0; i < count && n->op == OP_broadcast; i++) varies |= dims[i] == axis;
    return varies;
}

// Whether n compares positions along the padded axis with one label for all of them, which is a
// position before the padding: no additional element is equal.
static bool finds_label(const Node *n, const Type *like)
{
    if (n->op != OP_eq || dtype_is_float(n->args[0]->type.dtype) || grown_count(n, like) != 1)
        return false;
    for (int side = 0; side < 2; side++) {
        const Node *label = n->args[!side];
        int axis = counted_axis(n->args[side]);
        if (axis < 0 || like->dim[axis] == n->type.dim[axis] || varies_along(label, axis)) continue;
        Range labels = range_of_node(label);
        return labels.low >= 0 && labels.high < n->type.dim[axis];
    }
    return false;
}

static Form elementwise(Pad *p, const Node *n, const Type *like, int depth);

// An operand of an elementwise node, with the sizes of [like]. No node: it would have to be copied.
static Form beside(Pad *p, const Node *n, const Type *like, int depth)
{
    const Form *f = form_of(p, n), none = {NULL, NAN, false};
    double v;
    if (f && shape_equal(&f->node->type, like)) return *f;
    if (node_const_value(n, &v)) {
        const Node *one = n;
        while (one->op == OP_broadcast && one->type.rank) one = one->args[0];
        if (one->type.rank) return none;
        return (Form){graph_broadcast_to(p->dst, p->map.map[one->id], like),
                      known(n->type.dtype, v), false};
    }
    if (n->op == OP_iota) return (Form){longer_iota(p, n, like->dim), NAN, false};
    if (n->op == OP_broadcast) return spread(p, n, like);
    // computed of these: once more, for the padded sizes
    bool cheap = node_class(n) == CLS_ELEMENTWISE && !node_has(n, OPF_COSTLY);
    return !f && cheap && depth < MOST_DEPTH ? elementwise(p, n, like, depth + 1) : none;
}

static Form elementwise(Pad *p, const Node *n, const Type *like, int depth)
{
    Node *args[MOST_ARGS];
    Form x[MOST_ARGS], y = {NULL, NAN, false};
    double fill[MOST_ARGS];
    if (n->nargs > MOST_ARGS || n->nargs == 0) return y;
    for (uint32_t k = 0; k < n->nargs; k++) {
        x[k] = beside(p, n->args[k], like, depth);
        if (!x[k].node) return y;
        args[k] = x[k].node;
        fill[k] = x[k].fill;
        y.of_finite |= x[k].of_finite;
    }
    p->dst->name = n->name;
    y.node = graph_node(p->dst, n->op, args, (int)n->nargs, n->attrs);
    if (finds_label(n, like)) {
        y.fill = 0;
        y.of_finite = false;
    } else if (n->op == OP_select && !isnan(fill[0])) {
        const Form *taken = &x[fill[0] != 0 ? 1 : 2];
        y.fill = taken->fill;
        y.of_finite = x[0].of_finite || taken->of_finite;
    } else {
        y.fill = fill_after(n, fill);
    }
    return y;
}

// -- reductions -----------------------------------------------------------------------------------

static bool neutral(const Node *n, double *value)
{
    const Accumulate acc = op_info(n->op)->acc;
    const bool ends = acc == ACC_MAX || acc == ACC_PLACE || acc == ACC_MIN;
    *value = axes_identity(n->op, n->args[0]->type.dtype);
    return acc == ACC_SUM || (ends && dtype_is_float(n->args[0]->type.dtype));
}

// A reduction along all padded axes reads the padded operand. Otherwise NULL.
static Node *reduced(Pad *p, const Node *n, const Form *f)
{
    const Type *t = &n->args[0]->type;
    double value;
    int count;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    if (p->stays[n->id] || !neutral(n, &value)) return NULL;
    for (int i = 0; i < t->rank; i++) {
        bool over = false;
        for (int k = 0; k < count; k++) over |= axes[k] == i;
        if (f->node->type.dim[i] != t->dim[i] && !over) return NULL;
    }
    Node *x = filled(p, f, t, value);
    p->follows[n->id] = true;
    p->dst->name = n->name;
    return graph_node(p->dst, n->op, &x, 1, n->attrs);
}

// The axes, as bits, along which an operand of n is padded.
static uint32_t grown_axes(const Pad *p, const Node *n)
{
    uint32_t axes = 0;
    for (uint32_t k = 0; k < n->nargs; k++) {
        const Form *f = form_of(p, n->args[k]);
        const Type *t = &n->args[k]->type;
        for (int i = 0; f && i < t->rank; i++) axes |= (f->node->type.dim[i] != t->dim[i]) << i;
    }
    return axes;
}

static bool flows(const Node *n)
{
    return node_class(n) == CLS_ELEMENTWISE || node_class(n) == CLS_VIEW;
}

bool pad_stays(Pad *p, const Graph *g)
{
    // All by id. mixed: the axes along which operands are padded, though the node is not. read: a
    // reduction along such axes, which does not follow, depends on the node. shared: the node
    // depends on a padded value that is read so.
    uint32_t *mixed = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    bool *read = NEW_ARRAY(g->arena, bool, g->nodes.n + 1),
         *shared = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (node_class(n) != CLS_ELEMENTWISE || p->form[i].node) continue;
        mixed[i] = grown_axes(p, n);
        for (uint32_t k = 0; k < n->nargs; k++) mixed[i] |= mixed[n->args[k]->id];
    }
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        uint32_t over = 0;
        int count = 0;
        if (node_class(n) == CLS_REDUCE) {
            const int64_t *axes = attr_ints(n, ATTR_axes, &count);
            for (int k = 0; k < count; k++) over |= 1u << axes[k];
        }
        bool alone = count && !p->follows[i] && (grown_axes(p, n) | mixed[n->args[0]->id]) & over;
        for (uint32_t k = 0; k < n->nargs && (alone || (read[i] && flows(n))); k++)
            read[n->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs; k++) shared[i] |= shared[n->args[k]->id];
        if (p->follows[i] && shared[i]) any = p->stays[i] = true;
        shared[i] = (shared[i] && flows(n)) || (read[i] && p->form[i].node);
    }
    return any;
}

// -- all ------------------------------------------------------------------------------------------

static Form viewed(Pad *p, const Node *n, const Form *f)
{
    const Type *from = &n->args[0]->type, *grown = &f->node->type;
    const Form none = {NULL, NAN, false};
    int rank, last = from->rank - 1;
    if (n->op == OP_permute) {
        const int64_t *perm = attr_ints(n, ATTR_perm, &rank);
        return (Form){graph_permute(p->dst, f->node, perm), f->fill, f->of_finite};
    }
    if (n->op != OP_reshape || !n->type.rank || !from->rank) return none;
    int64_t dim[MAX_RANK];
    for (int i = 0; i < last; i++)
        if (grown->dim[i] != from->dim[i]) return none;
    if (from->dim[last] != n->type.dim[n->type.rank - 1]) return none;
    for (int i = 0; i < n->type.rank; i++) dim[i] = n->type.dim[i];
    dim[n->type.rank - 1] = grown->dim[last];
    return (Form){graph_reshape(p->dst, f->node, n->type.rank, dim), f->fill, f->of_finite};
}

void pad_follow(Pad *p, Node *n)
{
    const Form *f = form_of(p, n);
    Form *own = &p->form[n->id];
    Node *whole = NULL;
    for (uint32_t k = 0; k < n->nargs && !f; k++) f = form_of(p, n->args[k]);
    graph_stamp(p->dst, n, NULL);
    if (!own->node && f) {
        const Type like = f->node->type;
        OpClass class = node_class(n);
        if (class == CLS_REDUCE)
            whole = reduced(p, n, f);
        else
            *own = class == CLS_ELEMENTWISE ? elementwise(p, n, &like, 0) : viewed(p, n, f);
        if (class == CLS_ELEMENTWISE && own->node && !isfinite(own->fill) && p->multiplied[n->id])
            *own = (Form){filled(p, own, &n->type, 0), 0, false};
    }
    if (whole || own->node)
        p->map.map[n->id] = whole ? whole : cut(p->dst, own->node, &n->type);
    else
        remap_node(&p->map, n);
}
