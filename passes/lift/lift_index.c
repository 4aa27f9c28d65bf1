// Lifting of gathers, scatters, and slices at computed places.
//
// If the index varies and what it indexes does, too, the iterations and the indexed axis become one
// axis, (B, n) -> B n, whose places are iteration * n + index.
#include <string.h>

#include "passes/lift/lift.h"

// The iterations, (B), times [by], for every element of an index of this type.
static Node *first_places(Lift *l, const Type *index, DType t, int64_t by)
{
    Attrs at = {0};
    const int64_t iterations = 0;
    Node *v = graph_binary(l->dst, OP_mul, graph_iota(l->dst, t, &l->count, 1, 0),
                           graph_const_int(l->dst, t, by));
    attr_set_ints(l->dst, &at, ATTR_shape, index->dim, index->rank);
    attr_set_ints(l->dst, &at, ATTR_dims, &iterations, 1);
    return graph_node(l->dst, OP_broadcast, &v, 1, &at);
}

// The index (B, ...) of an axis of n elements as one of the axis of B n elements.
static Node *joint_index(Lift *l, Node *index, int64_t n)
{
    const DType t = l->count <= INT32_MAX / n ? DT_I32 : DT_I64;
    return graph_binary(l->dst, OP_add, first_places(l, &index->type, t, n),
                        graph_place(l->dst, index, n, t));
}

// x (B, ...), whose axis becomes one with the iterations; it is axis 0 of the result.
static Node *join(Lift *l, Node *x, int64_t axis)
{
    int64_t perm[MAX_RANK] = {0}, dim[MAX_RANK];
    const int rank = x->type.rank;
    int m = 1;
    perm[m++] = axis + 1;
    for (int i = 1; i < rank; i++)
        if (i != axis + 1) perm[m++] = i;
    Node *y = graph_permute(l->dst, x, perm);
    for (int i = 1; i < rank; i++) dim[i - 1] = y->type.dim[i];
    dim[0] *= l->count;
    return graph_reshape(l->dst, y, rank - 1, dim);
}

// The inverse: [axis] of the result has n elements.
static Node *part(Lift *l, Node *x, int64_t axis, int64_t n)
{
    int64_t perm[MAX_RANK] = {0}, dim[MAX_RANK] = {l->count, n};
    const int rank = x->type.rank + 1;
    for (int i = 2; i < rank; i++) dim[i] = x->type.dim[i - 1];
    Node *y = graph_reshape(l->dst, x, rank, dim);
    for (int i = 1; i < rank; i++) perm[i] = i <= axis ? i + 1 : i == axis + 1 ? 1 : i;
    return graph_permute(l->dst, y, perm);
}

// gather(data, index) along the axis; of data or index at least one varies.
static Node *gather(Lift *l, Node *data, bool data_varies, Node *index, bool index_varies,
                    int64_t axis)
{
    Node *args[] = {data, index};
    if (!index_varies) return graph_along(l->dst, OP_gather, args, 2, axis + 1);
    if (!data_varies)
        return lift_to_front(l->dst, graph_along(l->dst, OP_gather, args, 2, axis), (int)axis);
    const int places = index->type.rank - 1;
    args[0] = join(l, data, axis);
    args[1] = joint_index(l, index, data->type.dim[axis + 1]);
    Node *y = graph_along(l->dst, OP_gather, args, 2, 0);
    // (B, places, before, after) to (B, before, places, after).
    int64_t perm[MAX_RANK] = {0};
    int m = 1;
    for (int i = 0; i < axis; i++) perm[m++] = 1 + places + i;
    for (int i = 0; i < places; i++) perm[m++] = 1 + i;
    for (; m < y->type.rank; m++) perm[m] = m;
    return graph_permute(l->dst, y, perm);
}

// A scatter whose index varies, (B, places); data and updates have axis 0.
static Node *scatter(Lift *l, Op op, const Attrs *attrs, Node *data, Node *index, Node *updates,
                     int64_t axis)
{
    const int64_t n = data->type.dim[axis + 1], places = type_count(&index->type);
    Node *args[] = {join(l, data, axis),
                    graph_reshape(l->dst, joint_index(l, index, n), 1, &places),
                    join(l, updates, axis)};
    Attrs at = attrs_copy(attrs);
    attr_set_int(&at, ATTR_axis, 0);
    return part(l, graph_node(l->dst, op, args, 3, &at), axis, n);
}

static Node *lift_scatter(Lift *l, const Node *x)
{
    const int64_t axis = attr_int(x, ATTR_axis, 0);
    Node *data = lift_result(l, x->args[0]), *index = l->image[x->args[1]->id],
         *updates = lift_result(l, x->args[2]);
    if (l->varies.is[x->args[1]->id])
        return scatter(l, x->op, x->attrs, data, index, updates, axis);
    Attrs at = attrs_copy(x->attrs);
    attr_set_int(&at, ATTR_axis, axis + 1);
    return graph_node(l->dst, x->op, (Node *[]){data, index, updates}, 3, &at);
}

// The places (B, size) of a part that begins at [start] (B), which is clamped so that it fits into
// n.
static Node *part_places(Lift *l, Node *start, int64_t n, int64_t size)
{
    const DType t = start->type.dtype;
    const int64_t dim[] = {l->count, size};
    Attrs at = {0};
    const int64_t iterations = 0;
    start = graph_binary(l->dst, OP_maximum, start, graph_const_int(l->dst, t, 0));
    start = graph_binary(l->dst, OP_minimum, start, graph_const_int(l->dst, t, n - size));
    attr_set_ints(l->dst, &at, ATTR_shape, dim, 2);
    attr_set_ints(l->dst, &at, ATTR_dims, &iterations, 1);
    start = graph_node(l->dst, OP_broadcast, &start, 1, &at);
    return graph_binary(l->dst, OP_add, start, graph_iota(l->dst, t, dim, 2, 1));
}

// The starts of x that do not vary, behind a 0 for the iterations if [with_first]; 0 for others.
static void fixed_starts(Lift *l, const Node *x, uint32_t first, bool with_first, Node **out)
{
    int m = 0;
    if (with_first) out[m++] = graph_const_int(l->dst, DT_I64, 0);
    for (uint32_t k = first; k < x->nargs; k++)
        out[m++] = l->varies.is[x->args[k]->id] ? graph_const_int(l->dst, DT_I64, 0)
                                                : l->image[x->args[k]->id];
}

// First the axes whose starts do not vary, then the others, each by a gather.
static Node *lift_dynamic_slice(Lift *l, const Node *x)
{
    const int rank = x->type.rank;
    bool varies = l->varies.is[x->args[0]->id];
    Node *args[MAX_RANK + 2] = {l->image[x->args[0]->id]}, *y;
    int64_t sizes[MAX_RANK + 1] = {l->count};
    for (int i = 0; i < rank; i++)
        sizes[i + varies] =
            l->varies.is[x->args[i + 1]->id] ? x->args[0]->type.dim[i] : x->type.dim[i];
    Attrs at = {0};
    attr_set_ints(l->dst, &at, ATTR_sizes, sizes, rank + varies);
    fixed_starts(l, x, 1, varies, args + 1);
    y = graph_node(l->dst, OP_dynamic_slice, args, 1 + rank + varies, &at);
    for (int i = 0; i < rank; i++) {
        if (!l->varies.is[x->args[i + 1]->id]) continue;
        Node *places =
            part_places(l, l->image[x->args[i + 1]->id], x->args[0]->type.dim[i], x->type.dim[i]);
        y = gather(l, y, varies, places, true, i);
        varies = true;
    }
    return y;
}

// An update at places that vary. One along an axis is a scatter along it, others are a scatter of
// elements.
static Node *lift_moving_update(Lift *l, const Node *x)
{
    const Type *t = &x->type, *u = &x->args[1]->type;
    Node *data = lift_result(l, x->args[0]), *updates = lift_result(l, x->args[1]), *place = NULL;
    Attrs none = {0};
    int axes = 0, axis = 0;
    for (int i = 0; i < t->rank; i++)
        if (u->dim[i] < t->dim[i]) axes++, axis = i;
    if (axes == 1 && l->varies.is[x->args[axis + 2]->id]) {
        Node *places = part_places(l, l->image[x->args[axis + 2]->id], t->dim[axis], u->dim[axis]);
        return scatter(l, OP_scatter, &none, data, places, updates, axis);
    }
    Type index = {.dtype = DT_I64, .rank = t->rank + 1, .dim = {l->count}};
    for (int i = 0; i < t->rank; i++) index.dim[i + 1] = u->dim[i];
    for (int i = 0; i < t->rank; i++) {
        Node *start = graph_cast(l->dst, lift_result(l, x->args[i + 2]), DT_I64);
        Node *at = part_places(l, start, t->dim[i], u->dim[i]); // (B, size of the axis)
        Attrs attrs = {0};
        attr_set_ints(l->dst, &attrs, ATTR_shape, index.dim, index.rank);
        attr_set_ints(l->dst, &attrs, ATTR_dims, (int64_t[]){0, i + 1}, 2);
        at = graph_node(l->dst, OP_broadcast, &at, 1, &attrs);
        if (place)
            place = graph_binary(l->dst, OP_mul, place, graph_const_int(l->dst, DT_I64, t->dim[i]));
        place = place ? graph_binary(l->dst, OP_add, place, at) : at;
    }
    const int64_t whole[] = {l->count, type_count(t)}, some[] = {l->count, type_count(u)};
    Node *y =
        scatter(l, OP_scatter, &none, graph_reshape(l->dst, data, 2, whole),
                graph_reshape(l->dst, place, 2, some), graph_reshape(l->dst, updates, 2, some), 0);
    return graph_reshape(l->dst, y, data->type.rank, data->type.dim);
}

static Node *lift_dynamic_update(Lift *l, const Node *x)
{
    for (uint32_t k = 2; k < x->nargs; k++)
        if (l->varies.is[x->args[k]->id]) return lift_moving_update(l, x);
    Node *args[MAX_RANK + 3] = {lift_result(l, x->args[0]), lift_result(l, x->args[1])};
    fixed_starts(l, x, 2, true, args + 2);
    return graph_node(l->dst, OP_dynamic_update, args, (int)x->nargs + 1, NULL);
}

Node *lift_index(Lift *l, const Node *x)
{
    const Node *data = x->args[0], *index = x->args[1];
    switch (x->op) {
    case OP_gather:
        return gather(l, l->image[data->id], l->varies.is[data->id], l->image[index->id],
                      l->varies.is[index->id], attr_int(x, ATTR_axis, 0));
    case OP_dynamic_slice: return lift_dynamic_slice(l, x);
    case OP_dynamic_update: return lift_dynamic_update(l, x);
    default: return lift_scatter(l, x);
    }
}
