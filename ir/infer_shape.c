// Type rules of ops that change the shape: views and reductions.
#include "ir/axes.h"
#include "ir/infer.h"

// -- views ----------------------------------------------------------------------------------------

bool infer_reshape(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    if (!infer_shape_from(in, ATTR_shape, t->dtype)) return false;
    Type *out = &in->out;
    if (type_count(t) != type_count(out)) {
        return infer_fail(in, "%s has %lld elements, %s has %lld", infer_show(in, t),
                          (long long)type_count(t), infer_show(in, out),
                          (long long)type_count(out));
    }
    // Names of axes are kept from both ends, as far as the sizes are the same.
    for (int i = 0; i < out->rank && i < t->rank && out->dim[i] == t->dim[i]; i++)
        out->sym[i] = t->sym[i];
    for (int i = 1; i <= out->rank && i <= t->rank; i++) {
        if (out->dim[out->rank - i] != t->dim[t->rank - i]) break;
        out->sym[out->rank - i] = t->sym[t->rank - i];
    }
    return true;
}

bool infer_permute(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    const int64_t *perm;
    if (!infer_list_of_rank(in, ATTR_perm, &perm, t->rank)) return false;
    unsigned seen = 0;
    in->out = type_scalar(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        if (perm[i] < 0 || perm[i] >= t->rank || (seen & 1u << perm[i]))
            return infer_fail(in, "perm is not a permutation of the %d axes of %s", t->rank,
                              infer_show(in, t));
        seen |= 1u << perm[i];
        if (!infer_set_axis(in, i, t, (int)perm[i])) return false;
    }
    return true;
}

bool infer_broadcast(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    const int64_t *dims;
    if (!infer_shape_from(in, ATTR_shape, t->dtype)) return false;
    if (!infer_list_of_rank(in, ATTR_dims, &dims, t->rank)) return false;
    if (!infer_axes_valid(in, dims, t->rank, &in->out)) return false;
    for (int i = 0; i < t->rank; i++) {
        int64_t to = in->out.dim[dims[i]];
        if (t->dim[i] != to && t->dim[i] != 1)
            return infer_fail(in, "%s does not broadcast to %s", infer_show(in, t),
                              infer_show(in, &in->out));
        if (t->dim[i] == to) in->out.sym[dims[i]] = t->sym[i];
    }
    return true;
}

bool infer_slice(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    const int64_t *start, *limit, *stride;
    if (!infer_list_of_rank(in, ATTR_start, &start, t->rank) ||
        !infer_list_of_rank(in, ATTR_limit, &limit, t->rank) ||
        !infer_list_of_rank(in, ATTR_stride, &stride, t->rank))
        return false;
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (start[i] < 0 || limit[i] < start[i] || limit[i] > t->dim[i])
            return infer_fail(in, "%lld:%lld is outside axis %d of %s", (long long)start[i],
                              (long long)limit[i], i, infer_show(in, t));
        if (stride[i] < 1)
            return infer_fail(in, "the step %lld is not positive", (long long)stride[i]);
        in->out.dim[i] = limit[i] > start[i] ? (limit[i] - start[i] - 1) / stride[i] + 1 : 0;
        if (in->out.dim[i] != t->dim[i]) in->out.sym[i] = 0;
    }
    return true;
}

bool infer_pad(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    const int64_t *low, *high;
    if (!infer_list_of_rank(in, ATTR_low, &low, t->rank) ||
        !infer_list_of_rank(in, ATTR_high, &high, t->rank))
        return false;
    if (infer_arg(in, 1)->rank || infer_arg(in, 1)->dtype != t->dtype)
        return infer_fail(in, "needs a %s scalar to fill with, found %s", dtype_info[t->dtype].name,
                          infer_show(in, infer_arg(in, 1)));
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (low[i] < 0 || high[i] < 0)
            return infer_fail(in, "the padding of axis %d is negative", i);
        if (low[i] > INT32_MAX || high[i] > INT32_MAX)
            return infer_fail(in, "the padding of axis %d is too large", i);
        in->out.dim[i] += low[i] + high[i];
        if (low[i] || high[i]) in->out.sym[i] = 0;
    }
    return true;
}

bool infer_concat(Infer *in)
{
    if (!in->nargs) return infer_fail(in, "needs at least one operand");
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    const Type *t = infer_arg(in, 0);
    if (!infer_axes_valid(in, &axis, 1, t)) return false;
    in->out = *t;
    for (int i = 1; i < in->nargs; i++) {
        Type other = *infer_arg(in, i);
        if (other.rank == t->rank) {
            in->out.dim[axis] += other.dim[axis];
            other.dim[axis] = t->dim[axis];
        }
        if (!type_equal(&other, t))
            return infer_fail(in, "%s and %s do not join along axis %lld", infer_show(in, t),
                              infer_show(in, infer_arg(in, i)), (long long)axis);
    }
    if (in->nargs > 1) in->out.sym[axis] = 0;
    return true;
}

bool infer_window(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    int n;
    const int64_t *size, *stride, *dilation, *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!n) return infer_fail(in, "needs at least one axis");
    if (!infer_axes_valid(in, axes, n, t)) return false;
    if (!infer_list_of_rank(in, ATTR_sizes, &size, n) ||
        !infer_list_of_rank(in, ATTR_stride, &stride, n) ||
        !infer_list_of_rank(in, ATTR_dilation, &dilation, n))
        return false;
    if (t->rank + n > MAX_RANK)
        return infer_fail(in, "%d axes more than those of %s are more than %d", n,
                          infer_show(in, t), MAX_RANK);
    Type *out = &in->out;
    const int at = (int)axes[n - 1] + 1;
    *out = type_scalar(t->dtype);
    out->rank = t->rank + n;
    for (int i = 0; i < t->rank; i++) {
        out->dim[i < at ? i : i + n] = t->dim[i];
        out->sym[i < at ? i : i + n] = t->sym[i];
    }
    for (int i = 0; i < n; i++) {
        int64_t extent = t->dim[axes[i]], span;
        const int64_t given[] = {size[i], stride[i], dilation[i]};
        static const char *const what[] = {"size", "stride", "dilation"};
        for (int k = 0; k < 3; k++)
            if (given[k] < 1 || given[k] > INT32_MAX)
                return infer_fail(in, "the %s %lld of axis %lld is not 1 or more", what[k],
                                  (long long)given[k], (long long)axes[i]);
        span = (size[i] - 1) * dilation[i] + 1;
        if (span > extent)
            return infer_fail(in, "%lld elements%s do not fit into axis %lld of %s",
                              (long long)span, dilation[i] > 1 ? " (dilated)" : "",
                              (long long)axes[i], infer_show(in, t));
        out->dim[axes[i]] = window_places(extent, size[i], stride[i], dilation[i]);
        if (out->dim[axes[i]] != extent) out->sym[axes[i]] = 0;
        out->dim[at + i] = size[i];
        out->sym[at + i] = 0;
    }
    return true;
}

// -- reductions -----------------------------------------------------------------------------------

bool infer_reduce(Infer *in)
{
    const Type *t = infer_arg(in, 0);
    int n, rank = 0;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!infer_axes_valid(in, axes, n, t)) return false;
    in->out = type_scalar(t->dtype);
    for (int i = 0, k = 0; i < t->rank; i++) {
        if (k < n && axes[k] == i)
            k++;
        else if (!infer_set_axis(in, rank++, t, i))
            return false;
    }
    return true;
}

bool infer_reduce_sum(Infer *in)
{
    if (!infer_reduce(in)) return false;
    if (!dtype_is_float(in->out.dtype)) in->out.dtype = DT_I64;
    return true;
}

bool infer_reduce_float(Infer *in)
{
    return infer_needs(in, 0, dtype_is_float(infer_arg(in, 0)->dtype),
                       "floats (use cast for an integer)") &&
           infer_reduce(in);
}

bool infer_argmax(Infer *in)
{
    int n;
    attrs_ints(in->attrs, ATTR_axes, &n);
    if (n != 1) return infer_fail(in, "takes exactly one axis, found %d", n);
    if (!infer_reduce(in)) return false;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!infer_arg(in, 0)->dim[axes[0]])
        return infer_fail(in, "axis %lld of %s is empty", (long long)axes[0],
                          infer_show(in, infer_arg(in, 0)));
    if (infer_arg(in, 0)->dim[axes[0]] > INT32_MAX)
        return infer_fail(
            in, "axis %lld of %s is longer than an i32 can number; reshape it to two axes",
            (long long)axes[0], infer_show(in, infer_arg(in, 0)));
    in->out.dtype = DT_I32;
    return true;
}
