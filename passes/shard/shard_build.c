// Images of single operations: the same operation on what a device has of its operands.
#include "passes/shard/shard.h"

static void set_part(Sharding *s, const Node *x, AttrKey key, int axis, int64_t value, Attrs *at)
{
    int n;
    int64_t v[MAX_RANK];
    const int64_t *old = attr_ints(x, key, &n);
    for (int i = 0; i < n; i++) v[i] = old[i];
    v[axis] = value;
    attr_set_ints(s->dst, at, key, v, n);
}

// Sum of squared deviations from the mean over axes of which one is divided: those from the means
// of the devices' parts, and those of these means (Chan, Golub and LeVeque 1979).
static Node *sqdev(Sharding *s, const Node *x, Node *own)
{
    Graph *g = s->dst;
    int n;
    const int64_t *axes = attr_ints(x, ATTR_axes, &n);
    own = graph_cast(g, own, dtype_accumulator(own->type.dtype));
    const double part = (double)type_extent(&own->type, axes, n);
    Node *sums = shard_of_all(s, graph_reduce(g, OP_sum, own, axes, n, false)),
         *squares = shard_of_all(s, graph_reduce(g, OP_sqdev, own, axes, n, false));
    Node *total = shard_combine(s, sums, OP_add), *y = NULL;
    Node *mean =
        graph_binary(g, OP_mul, total, graph_full_like(g, total, 1 / (part * (double)s->devices)));
    for (int64_t d = 0; d < s->devices; d++) {
        Node *sum = shard_row(s, sums, d);
        Node *apart = graph_binary(
            g, OP_sub, graph_binary(g, OP_mul, sum, graph_full_like(g, sum, 1 / part)), mean);
        Node *between = graph_binary(g, OP_mul, graph_binary(g, OP_mul, apart, apart),
                                     graph_full_like(g, mean, part));
        Node *term = graph_binary(g, OP_add, shard_row(s, squares, d), between);
        y = y ? graph_binary(g, OP_add, y, term) : term;
    }
    return graph_cast(g, graph_reshape(g, y, x->type.rank, x->type.dim), x->type.dtype);
}

// A sum in 16 bits whose terms are added up before they are rounded.
static Node *wide(Sharding *s, const Node *x, Node **args, Attrs *at)
{
    Graph *g = s->dst;
    const DType t = dtype_accumulator(x->type.dtype);
    if (x->op == OP_dot)
        attr_set_int(at, ATTR_dtype, t);
    else
        for (uint32_t k = 0; k < x->nargs; k++)
            if (dtype_is_float(args[k]->type.dtype)) args[k] = graph_cast(g, args[k], t);
    Node *y = graph_node(g, x->op, args, (int)x->nargs, at);
    return graph_cast(g, shard_join(s, y, OP_sum), x->type.dtype);
}

// scatter_add to what is whole: the devices' updates are added up first.
static Node *added_updates(Sharding *s, const Node *x, Node **args, Attrs *at)
{
    Graph *g = s->dst;
    const DType t = dtype_accumulator(x->type.dtype);
    Node *data = graph_cast(g, args[0], t);
    args[0] = graph_full_like(g, data, 0);
    args[2] = graph_cast(g, args[2], t);
    Node *updates = shard_join(s, graph_node(g, x->op, args, 3, at), OP_sum);
    return graph_cast(g, graph_binary(g, OP_add, data, updates), x->type.dtype);
}

// A part of an index as places in the device's part of the indexed axis.
static Node *within_part(Sharding *s, Node *index, int64_t size)
{
    Graph *g = s->dst;
    const DType t = index->type.dtype;
    Node *first = graph_binary(g, OP_mul, s->device, graph_const_int(g, DT_I64, size));
    first = graph_broadcast_to(g, graph_cast(g, first, t), &index->type);
    return graph_binary(g, OP_sub, index, first);
}

Node *shard_build(Sharding *s, const Node *x, Share as, const Share *need)
{
    Node **args = NEW_ARRAY(s->dst->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++) args[k] = shard_form(s, x->args[k], need[k]);
    graph_stamp(s->dst, x, x->name);
    if (shard_is_cut(x, as, need)) {
        s->whole[x->id] = graph_node(s->dst, x->op, args, (int)x->nargs, x->attrs);
        return shard_cut(s, s->whole[x->id], as.axis);
    }
    if ((x->op == OP_gather || node_has(x, OPF_SCATTERS)) && need[0].kind == SHARE_PART &&
        need[0].axis == attr_int(x, ATTR_axis, 0))
        args[1] = within_part(s, args[1], args[0]->type.dim[need[0].axis]);
    Attrs at = attrs_copy(x->attrs);
    if (as.kind == SHARE_PART) {
        const int64_t size = x->type.dim[as.axis] / s->devices;
        if (x->op == OP_reshape || x->op == OP_broadcast)
            set_part(s, x, ATTR_shape, as.axis, size, &at);
        else if (x->op == OP_slice)
            set_part(s, x, ATTR_limit, as.axis, size, &at);
        else if (x->op == OP_dynamic_slice)
            set_part(s, x, ATTR_sizes, as.axis, size, &at);
    }
    if (as.joins == OP_COUNT) {
        if (x->nregions)
            return graph_region_node(s->dst, x->op, args, (int)x->nargs, &at, x->regions,
                                     (int)x->nregions);
        return graph_node(s->dst, x->op, args, (int)x->nargs, &at);
    }
    if (x->op == OP_sqdev) return sqdev(s, x, args[0]);
    if (node_has(x, OPF_SCATTERS)) return added_updates(s, x, args, &at);
    if (as.joins == OP_sum) return wide(s, x, args, &at);
    return shard_join(s, graph_node(s->dst, x->op, args, (int)x->nargs, &at), as.joins);
}
