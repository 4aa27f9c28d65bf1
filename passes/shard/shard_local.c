// Indices that stay within the part of a device: those of take_along_axis and of x[rows, at], which
// are a row's number times its size plus a place within the row.
#include "ir/range.h"
#include "passes/shard/shard.h"

enum { DEPTH = 16 };

// The values of a part: those of device d are in [low + d step, high + d step].
typedef struct Places {
    Range r;
    int64_t step;
} Places;

static Places anywhere(DType t)
{
    return (Places){range_of_type(t), 0};
}

// p, if these are values of type t on every device: nothing has wrapped round.
static Places of_type(Places p, DType t, int64_t devices)
{
    Range all = p.r;
    int64_t last;
    if (__builtin_mul_overflow(p.step, devices - 1, &last) || p.step < 0 ||
        __builtin_add_overflow(all.high, last, &all.high) || !range_within(all, range_of_type(t)))
        return anywhere(t);
    return p;
}

static Places sum(Places a, Places b, DType t, int64_t devices)
{
    Places p;
    if (__builtin_add_overflow(a.r.low, b.r.low, &p.r.low) ||
        __builtin_add_overflow(a.r.high, b.r.high, &p.r.high) ||
        __builtin_add_overflow(a.step, b.step, &p.step))
        return anywhere(t);
    return of_type(p, t, devices);
}

static Places scaled(Places a, int64_t by, DType t, int64_t devices)
{
    Places p;
    if (by < 0 || __builtin_mul_overflow(a.r.low, by, &p.r.low) ||
        __builtin_mul_overflow(a.r.high, by, &p.r.high) ||
        __builtin_mul_overflow(a.step, by, &p.step))
        return anywhere(t);
    return of_type(p, t, devices);
}

// The axis of the operand of a view that is divided if [axis] of the view is; -1: none.
static int axis_before(const Node *x, int axis, int64_t devices)
{
    int n;
    const Type *from = &x->args[0]->type;
    const int64_t *of = x->op == OP_permute     ? attr_ints(x, ATTR_perm, &n)
                        : x->op == OP_broadcast ? attr_ints(x, ATTR_dims, &n)
                                                : NULL;
    if (x->op == OP_permute) return (int)of[axis];
    for (int i = 0; i < from->rank; i++)
        if (x->op == OP_broadcast
                ? of[i] == axis
                : from->dim[i] % devices == 0 && share_reshaped(from, &x->type, i, devices) == axis)
            return i;
    return -1;
}

// Of the parts of x along an axis; -1: of x, which all devices have.
static Places places(const Node *x, int axis, int64_t devices, int depth)
{
    const DType t = x->type.dtype;
    double v;
    if (axis < 0 || !depth) return (Places){range_of_node(x), 0};
    switch (x->op) {
    case OP_iota: {
        const int64_t n = x->type.dim[axis] / devices;
        if (attr_int(x, ATTR_axis, 0) == axis) return of_type((Places){{0, n - 1}, n}, t, devices);
        break;
    }
    case OP_cast:
        if (dtype_is_float(x->args[0]->type.dtype)) break;
        return of_type(places(x->args[0], axis, devices, depth - 1), t, devices);
    case OP_add:
        return sum(places(x->args[0], axis, devices, depth - 1),
                   places(x->args[1], axis, devices, depth - 1), t, devices);
    case OP_mul:
        for (int k = 0; k < 2; k++)
            if (node_const_value(x->args[k], &v) && v >= 0 && v < 1 << 30)
                return scaled(places(x->args[!k], axis, devices, depth - 1), (int64_t)v, t,
                              devices);
        break;
    case OP_permute:
    case OP_broadcast:
    case OP_reshape: {
        const int from = axis_before(x, axis, devices);
        if (from < 0 && x->op == OP_reshape) break;
        return places(x->args[0], from, devices, depth - 1);
    }
    default: break;
    }
    return (Places){range_of_node(x), 0};
}

bool shard_is_local(const Node *index, int axis, int64_t size, int64_t devices)
{
    const Places p = places(index, axis, devices, DEPTH);
    return p.step == size && p.r.low >= 0 && p.r.high < size;
}
