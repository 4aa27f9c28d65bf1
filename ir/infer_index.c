// Type rules of contractions and of indexed access.
#include "ir/infer.h"

// -- contraction ----------------------------------------------------------------------------------

static bool mark_axes(const Infer *in, const Type *t, const int64_t *axes, int n, unsigned *seen)
{
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= t->rank || (*seen & 1u << axes[i]))
            return infer_fail(in, "axis %lld is outside %s or named twice", (long long)axes[i],
                              infer_show(in, t));
        *seen |= 1u << axes[i];
    }
    return true;
}

bool infer_dot(Infer *in)
{
    const Type *a = infer_arg(in, 0), *b = infer_arg(in, 1);
    int nba, nbb, nca, ncb, rank = 0;
    const int64_t *ba = attrs_ints(in->attrs, ATTR_batch_a, &nba);
    const int64_t *bb = attrs_ints(in->attrs, ATTR_batch_b, &nbb);
    const int64_t *ca = attrs_ints(in->attrs, ATTR_contract_a, &nca);
    const int64_t *cb = attrs_ints(in->attrs, ATTR_contract_b, &ncb);
    DType out, acc;
    if (!infer_dtype_attr(in, ATTR_dtype, &out) || !infer_dtype_attr(in, ATTR_accumulate, &acc))
        return false;
    if (nba != nbb || nca != ncb) return infer_fail(in, "the lists of axes do not pair up");
    if (a->dtype != b->dtype)
        return infer_fail(in, "%s and %s have different element types; cast one of them",
                          infer_show(in, a), infer_show(in, b));
    if (!infer_needs(in, 0, a->dtype != DT_BOOL, "numbers (use cast for a bool)")) return false;
    if (dtype_is_float(a->dtype) != dtype_is_float(out) ||
        dtype_is_float(a->dtype) != dtype_is_float(acc) || out == DT_BOOL || acc == DT_BOOL)
        return infer_fail(in, "%s cannot accumulate in %s to %s", infer_show(in, a),
                          dtype_info[acc].name, dtype_info[out].name);
    unsigned seen_a = 0, seen_b = 0;
    if (!mark_axes(in, a, ba, nba, &seen_a) || !mark_axes(in, b, bb, nbb, &seen_b) ||
        !mark_axes(in, a, ca, nca, &seen_a) || !mark_axes(in, b, cb, ncb, &seen_b))
        return false;
    in->out = type_scalar(out);
    for (int i = 0; i < nba; i++) {
        if (a->dim[ba[i]] != b->dim[bb[i]])
            return infer_fail(in, "%s and %s have different batch sizes, %lld and %lld",
                              infer_show(in, a), infer_show(in, b), (long long)a->dim[ba[i]],
                              (long long)b->dim[bb[i]]);
        if (!infer_set_axis(in, rank++, a, (int)ba[i])) return false;
    }
    for (int i = 0; i < nca; i++)
        if (a->dim[ca[i]] != b->dim[cb[i]])
            return infer_fail(in, "%s and %s disagree on the inner size, %lld and %lld",
                              infer_show(in, a), infer_show(in, b), (long long)a->dim[ca[i]],
                              (long long)b->dim[cb[i]]);
    for (int i = 0; i < a->rank; i++)
        if (!(seen_a & 1u << i) && !infer_set_axis(in, rank++, a, i)) return false;
    for (int i = 0; i < b->rank; i++)
        if (!(seen_b & 1u << i) && !infer_set_axis(in, rank++, b, i)) return false;
    return true;
}

bool infer_repair(Infer *in)
{
    const Type *y = infer_arg(in, 2);
    if (!infer_dot(in)) return false;
    const Type dot = in->out;
    int n;
    const int64_t *perm = attrs_ints(in->attrs, ATTR_perm, &n);
    unsigned seen = 0;
    if (n != dot.rank) return infer_fail(in, "perm does not list the product's axes");
    if (!mark_axes(in, &dot, perm, n, &seen)) return false;
    for (int i = 0; i < n; i++) infer_set_axis(in, i, &dot, (int)perm[i]);
    if (!dtype_is_float(y->dtype) || !type_equal(&in->out, y))
        return infer_fail(in, "%s is not the product's %s", infer_show(in, y),
                          infer_show(in, &in->out));
    return true;
}

// -- indexed access -------------------------------------------------------------------------------

bool infer_gather(Infer *in)
{
    const Type *data = infer_arg(in, 0), *index = infer_arg(in, 1);
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    int rank = 0;
    if (!infer_axes_valid(in, &axis, 1, data)) return false;
    if (!infer_needs(in, 1, dtype_is_int(index->dtype), "integers to index with")) return false;
    if (!data->dim[axis] && type_count(index))
        return infer_fail(in, "axis %lld of %s is empty", (long long)axis, infer_show(in, data));
    in->out = type_scalar(data->dtype);
    for (int i = 0; i < data->rank; i++) {
        if (i != axis) {
            if (!infer_set_axis(in, rank++, data, i)) return false;
            continue;
        }
        for (int k = 0; k < index->rank; k++)
            if (!infer_set_axis(in, rank++, index, k)) return false;
    }
    return true;
}

bool infer_scatter(Infer *in)
{
    const Type *data = infer_arg(in, 0), *index = infer_arg(in, 1);
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    if (!infer_axes_valid(in, &axis, 1, data)) return false;
    if (index->rank != 1 || !dtype_is_int(index->dtype))
        return infer_fail(in, "needs a one-dimensional integer index, found %s",
                          infer_show(in, index));
    Type want = *data;
    want.dim[axis] = index->dim[0];
    if (!type_equal(&want, infer_arg(in, 2)))
        return infer_fail(in, "updates are %s, needed are %s", infer_show(in, infer_arg(in, 2)),
                          infer_show(in, &want));
    in->out = *data;
    return true;
}

bool infer_scatter_add(Infer *in)
{
    return infer_scatter(in) &&
           infer_needs(in, 0, infer_arg(in, 0)->dtype != DT_BOOL, "numbers (use cast for a bool)");
}

static bool starts_valid(const Infer *in, int first, int rank)
{
    if (in->nargs - first != rank)
        return infer_fail(in, "%d starts for the %d axes of %s", in->nargs - first, rank,
                          infer_show(in, infer_arg(in, 0)));
    for (int i = first; i < in->nargs; i++) {
        DType t = infer_arg(in, i)->dtype;
        if (infer_arg(in, i)->rank || (t != DT_I32 && t != DT_I64))
            return infer_fail(in, "a start is an i32 or i64 scalar, found %s",
                              infer_show(in, infer_arg(in, i)));
    }
    return true;
}

bool infer_dynamic_slice(Infer *in)
{
    if (in->nargs < 1) return infer_fail(in, "needs an operand");
    const Type *t = infer_arg(in, 0);
    const int64_t *sizes;
    if (!starts_valid(in, 1, t->rank) || !infer_list_of_rank(in, ATTR_sizes, &sizes, t->rank))
        return false;
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (sizes[i] < 0 || sizes[i] > t->dim[i])
            return infer_fail(in, "size %lld of axis %d is outside %s", (long long)sizes[i], i,
                              infer_show(in, t));
        in->out.dim[i] = sizes[i];
        if (sizes[i] != t->dim[i]) in->out.sym[i] = 0;
    }
    return true;
}

bool infer_dynamic_update(Infer *in)
{
    if (in->nargs < 2) return infer_fail(in, "needs a tensor and an update");
    const Type *t = infer_arg(in, 0), *u = infer_arg(in, 1);
    if (!starts_valid(in, 2, t->rank)) return false;
    bool fits = t->dtype == u->dtype && t->rank == u->rank;
    for (int i = 0; fits && i < t->rank; i++) fits = u->dim[i] <= t->dim[i];
    in->out = *t;
    return fits || infer_fail(in, "%s does not fit into %s", infer_show(in, u), infer_show(in, t));
}

bool infer_running(Infer *in)
{
    return infer_same(in) &&
           infer_needs(in, 0, infer_arg(in, 0)->dtype != DT_BOOL, "numbers (use cast for a bool)");
}

bool infer_sort(Infer *in)
{
    if (!infer_same(in)) return false;
    const AttrValue *first = attrs_find(in->attrs, ATTR_first);
    if (!first) return true;
    const int64_t axis = attrs_int(in->attrs, ATTR_axis, 0), all = in->out.dim[axis];
    if (first->i < 1 || first->i > all)
        return infer_fail(in, "the first %lld of axis %lld of %s", (long long)first->i,
                          (long long)axis, infer_show(in, infer_arg(in, 0)));
    if (first->i != all) in->out.sym[axis] = 0;
    in->out.dim[axis] = first->i;
    return true;
}

bool infer_argsort(Infer *in)
{
    if (!infer_sort(in)) return false;
    in->out.dtype = DT_I32;
    return true;
}
