// The images of a value in other shares than the one a device has: a part of what is whole, and the
// whole from parts or terms, which takes an exchange between the devices.
#include "passes/shard/shard.h"

// Terms of more bytes are added up in parts by more than two devices, each of which adds one.
enum { LARGE = 1 << 18 };

static Node *exchange(Sharding *s, Node *x, bool each)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_devices, s->devices);
    if (each) attr_set_int(&at, ATTR_each, 1);
    return graph_node(s->dst, OP_exchange, &x, 1, &at);
}

Node *shard_of_all(Sharding *s, Node *own)
{
    const int64_t n = type_count(&own->type);
    return exchange(s, graph_reshape(s->dst, own, 1, &n), false);
}

Node *shard_row(Sharding *s, Node *x, int64_t d)
{
    Graph *g = s->dst;
    int64_t start[MAX_RANK] = {d}, limit[MAX_RANK] = {d + 1}, stride[MAX_RANK] = {1};
    for (int i = 1; i < x->type.rank; i++) limit[i] = x->type.dim[i], stride[i] = 1;
    return graph_reshape(g, graph_slice(g, x, start, limit, stride), x->type.rank - 1,
                         x->type.dim + 1);
}

Node *shard_combine(Sharding *s, Node *all, Op op)
{
    Node *y = shard_row(s, all, 0);
    for (int64_t d = 1; d < s->devices; d++) y = graph_binary(s->dst, op, y, shard_row(s, all, d));
    return y;
}

Node *shard_join(Sharding *s, Node *own, Op reduction)
{
    Graph *g = s->dst;
    const Op op = op_joining(reduction);
    const Type t = own->type;
    const int64_t n = type_count(&t), part[2] = {s->devices, n / s->devices};
    if (s->devices == 2 || n % s->devices || type_bytes(&t) <= LARGE)
        return graph_reshape(g, shard_combine(s, shard_of_all(s, own), op), t.rank, t.dim);
    Node *mine = shard_combine(s, exchange(s, graph_reshape(g, own, 2, part), true), op);
    return graph_reshape(g, exchange(s, mine, false), t.rank, t.dim);
}

// The whole of what is divided along an axis.
static Node *gathered(Sharding *s, Node *own, int axis, const Type *whole)
{
    Graph *g = s->dst;
    int64_t outer = 1, dim[2], perm[3] = {1, 0, 2};
    for (int i = 0; i < axis; i++) outer *= whole->dim[i];
    dim[0] = outer, dim[1] = type_count(&own->type) / outer;
    Node *y = exchange(s, graph_reshape(g, own, 2, dim), false);
    if (outer > 1) y = graph_permute(g, y, perm);
    return graph_reshape(g, y, whole->rank, whole->dim);
}

// Whether the whole is a view of something that every device has, although each computes a part.
static bool is_view_of_whole(const Sharding *s, const Node *x)
{
    while (node_class(x) == CLS_VIEW && x->nargs == 1 && !s->whole[x->id]) x = x->args[0];
    return s->whole[x->id] != NULL;
}

Node *shard_whole(Sharding *s, const Node *x)
{
    if (s->whole[x->id]) return s->whole[x->id];
    graph_stamp(s->dst, x, x->name);
    Node *y = s->own[x->id];
    if (is_view_of_whole(s, x)) {
        Node *arg = shard_whole(s, x->args[0]);
        y = graph_node(s->dst, x->op, &arg, 1, x->attrs);
    } else if (s->share[x->id].kind == SHARE_PART) {
        y = gathered(s, y, s->share[x->id].axis, &x->type);
    } else if (s->share[x->id].kind == SHARE_TERM) {
        y = shard_join(s, y, OP_sum);
    }
    return s->whole[x->id] = y;
}

Node *shard_cut(Sharding *s, Node *y, int axis)
{
    Graph *g = s->dst;
    Node *args[MAX_RANK + 1] = {y};
    int64_t size[MAX_RANK];
    for (int i = 0; i < y->type.rank; i++) {
        size[i] = y->type.dim[i];
        args[i + 1] = graph_const_int(g, DT_I64, 0);
    }
    size[axis] /= s->devices;
    args[axis + 1] = graph_binary(g, OP_mul, s->device, graph_const_int(g, DT_I64, size[axis]));
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_sizes, size, y->type.rank);
    return graph_node(g, OP_dynamic_slice, args, y->type.rank + 1, &at);
}

static Node *part_of_broadcast(Sharding *s, const Node *x, int axis)
{
    int n;
    int64_t shape[MAX_RANK];
    const int64_t *dims = attr_ints(x, ATTR_dims, &n);
    for (int i = 0; i < x->type.rank; i++) shape[i] = x->type.dim[i];
    shape[axis] /= s->devices;
    Node *arg = NULL;
    for (int i = 0; i < n; i++)
        if (dims[i] == axis) arg = shard_part(s, x->args[0], i);
    if (!arg) arg = shard_whole(s, x->args[0]);
    Attrs at = attrs_copy(x->attrs);
    attr_set_ints(s->dst, &at, ATTR_shape, shape, x->type.rank);
    return graph_node(s->dst, OP_broadcast, &arg, 1, &at);
}

Node *shard_part(Sharding *s, const Node *x, int axis)
{
    const Share have = s->share[x->id];
    if (have.kind == SHARE_PART && have.axis == axis && s->own[x->id]) return s->own[x->id];
    if (s->part[x->id] && s->part_axis[x->id] == axis) return s->part[x->id];
    graph_stamp(s->dst, x, x->name);
    Node *y;
    if (x->op == OP_broadcast && have.kind == SHARE_WHOLE) {
        y = part_of_broadcast(s, x, axis);
    } else if (node_class(x) == CLS_ELEMENTWISE && have.kind == SHARE_WHOLE && x->op != OP_native) {
        Node *args[3];
        for (uint32_t k = 0; k < x->nargs; k++) args[k] = shard_part(s, x->args[k], axis);
        y = graph_node(s->dst, x->op, args, (int)x->nargs, x->attrs);
    } else {
        y = shard_cut(s, shard_whole(s, x), axis);
    }
    s->part_axis[x->id] = axis;
    return s->part[x->id] = y;
}

Node *shard_form(Sharding *s, const Node *x, Share as)
{
    switch (as.kind) {
    case SHARE_PART: return shard_part(s, x, as.axis);
    case SHARE_TERM: return s->own[x->id];
    case SHARE_WHOLE: break;
    }
    return shard_whole(s, x);
}
