// Type rules: one function a rule named in ops.def. A rule checks operands and attributes and fills
// in->out, or reports one error naming the op and the types, and returns false.
#include <stdarg.h>

#include "ir/door.h"

static const char *op_name(const Infer *in)
{
    return op_info(in->op)->name;
}

static const char *show(const Infer *in, const Type *t)
{
    Buf b = buf_new(in->arena);
    type_print(&b, t, in->symbols);
    return b.data;
}

__attribute__((format(printf, 2, 3))) static bool fail(const Infer *in, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(in->arena, fmt, args);
    va_end(args);
    diag_error(in->diags, in->loc, "%s: %s", op_name(in), text);
    return false;
}

static const Type *arg(const Infer *in, int i)
{
    return &in->args[i]->type;
}

// -- attributes -----------------------------------------------------------------------------------

static bool axes_valid(const Infer *in, const int64_t *axes, int n, const Type *t)
{
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= t->rank)
            return fail(in, "axis %lld is outside %s", (long long)axes[i], show(in, t));
        if (i && axes[i] <= axes[i - 1]) return fail(in, "axes must be ascending, each once");
    }
    return true;
}

static bool shape_from(Infer *in, AttrKey key, DType dtype)
{
    int n;
    const int64_t *dim = attrs_ints(in->attrs, key, &n);
    if (n > MAX_RANK) return fail(in, "%d axes, at most %d are supported", n, MAX_RANK);
    for (int i = 0; i < n; i++)
        if (dim[i] < 0) return fail(in, "axis %d has the negative size %lld", i, (long long)dim[i]);
    in->out = type_make(dtype, n, dim);
    return true;
}

static bool list_of_rank(const Infer *in, AttrKey key, const int64_t **list, int rank)
{
    int n;
    *list = attrs_ints(in->attrs, key, &n);
    return n == rank || fail(in, "%s has %d entries for %d axes", attr_name(key), n, rank);
}

static bool dtype_attr(const Infer *in, AttrKey key, DType *out)
{
    int64_t v = attrs_int(in->attrs, key, -1);
    *out = (DType)v;
    return (v >= 0 && v < DT_COUNT) || fail(in, "%s is no element type", attr_name(key));
}

static bool set_axis(Infer *in, int to, const Type *from, int axis)
{
    if (to >= MAX_RANK) return fail(in, "the result has more than %d axes", MAX_RANK);
    in->out.dim[to] = from->dim[axis];
    in->out.sym[to] = from->sym[axis];
    in->out.rank = (uint8_t)(to + 1);
    return true;
}

// -- elementwise ----------------------------------------------------------------------------------

// Operands from [first] on have one shape and one element type; the result has them too.
static bool alike(Infer *in, int first)
{
    in->out = *arg(in, 0);
    in->out.dtype = arg(in, first)->dtype;
    for (int i = 1; i < in->nargs; i++) {
        const Type *t = arg(in, i);
        if (!shape_equal(t, arg(in, 0))) {
            if (in->nargs == 2)
                return fail(in, "%s and %s do not broadcast", show(in, arg(in, 0)), show(in, t));
            return fail(in, "%s, %s and %s do not broadcast", show(in, arg(in, 0)),
                        show(in, arg(in, 1)), show(in, arg(in, 2)));
        }
        if (i > first && t->dtype != arg(in, first)->dtype)
            return fail(in, "%s and %s have different element types; cast one of them",
                        show(in, arg(in, first)), show(in, t));
        for (int k = 0; k < t->rank; k++)
            if (!in->out.sym[k]) in->out.sym[k] = t->sym[k];
    }
    return true;
}

static bool needs(const Infer *in, int i, bool ok, const char *what)
{
    return ok || fail(in, "needs %s, found %s", what, show(in, arg(in, i)));
}

static bool infer_arith(Infer *in)
{
    return alike(in, 0) &&
           needs(in, 0, arg(in, 0)->dtype != DT_BOOL, "numbers (use cast for a bool)");
}

static bool infer_float(Infer *in)
{
    return alike(in, 0) &&
           needs(in, 0, dtype_is_float(arg(in, 0)->dtype), "floats (use cast for an integer)");
}

static bool infer_compare(Infer *in)
{
    if (!alike(in, 0)) return false;
    in->out.dtype = DT_BOOL;
    return true;
}

static bool infer_test(Infer *in)
{
    return infer_float(in) && infer_compare(in);
}

static bool infer_logic(Infer *in)
{
    return alike(in, 0) && needs(in, 0, arg(in, 0)->dtype == DT_BOOL, "bool");
}

static bool infer_bits(Infer *in)
{
    return alike(in, 0) && needs(in, 0, dtype_is_int(arg(in, 0)->dtype), "integers");
}

static bool infer_u32(Infer *in)
{
    return alike(in, 0) && needs(in, 0, arg(in, 0)->dtype == DT_U32, "u32");
}

static bool infer_select(Infer *in)
{
    return alike(in, 1) && needs(in, 0, arg(in, 0)->dtype == DT_BOOL, "a bool condition");
}

// Elementwise, and everything that keeps its operand's type: reverse, sort, cumsum, output, assign.
static bool infer_same(Infer *in)
{
    in->out = *arg(in, 0);
    int n;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!axes_valid(in, axes, n, arg(in, 0))) return false;
    const AttrValue *axis = attrs_find(in->attrs, ATTR_axis);
    return !axis || axes_valid(in, &axis->i, 1, arg(in, 0));
}

static bool infer_cast(Infer *in)
{
    DType t;
    if (!dtype_attr(in, ATTR_dtype, &t)) return false;
    in->out = *arg(in, 0);
    in->out.dtype = t;
    return true;
}

static bool infer_assert(Infer *in)
{
    return infer_same(in) && needs(in, 0, arg(in, 0)->dtype == DT_BOOL, "bool");
}

// -- views ----------------------------------------------------------------------------------------

static bool infer_reshape(Infer *in)
{
    const Type *t = arg(in, 0);
    if (!shape_from(in, ATTR_shape, t->dtype)) return false;
    Type *out = &in->out;
    if (type_count(t) != type_count(out)) {
        return fail(in, "%s has %lld elements, %s has %lld", show(in, t), (long long)type_count(t),
                    show(in, out), (long long)type_count(out));
    }
    // Names survive on the axes that are the same from either end.
    for (int i = 0; i < out->rank && i < t->rank && out->dim[i] == t->dim[i]; i++)
        out->sym[i] = t->sym[i];
    for (int i = 1; i <= out->rank && i <= t->rank; i++) {
        if (out->dim[out->rank - i] != t->dim[t->rank - i]) break;
        out->sym[out->rank - i] = t->sym[t->rank - i];
    }
    return true;
}

static bool infer_permute(Infer *in)
{
    const Type *t = arg(in, 0);
    const int64_t *perm;
    if (!list_of_rank(in, ATTR_perm, &perm, t->rank)) return false;
    unsigned seen = 0;
    in->out = type_scalar(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        if (perm[i] < 0 || perm[i] >= t->rank || (seen & 1u << perm[i]))
            return fail(in, "perm is not a permutation of the %d axes of %s", t->rank, show(in, t));
        seen |= 1u << perm[i];
        if (!set_axis(in, i, t, (int)perm[i])) return false;
    }
    return true;
}

static bool infer_broadcast(Infer *in)
{
    const Type *t = arg(in, 0);
    const int64_t *dims;
    if (!shape_from(in, ATTR_shape, t->dtype)) return false;
    if (!list_of_rank(in, ATTR_dims, &dims, t->rank)) return false;
    if (!axes_valid(in, dims, t->rank, &in->out)) return false;
    for (int i = 0; i < t->rank; i++) {
        int64_t to = in->out.dim[dims[i]];
        if (t->dim[i] != to && t->dim[i] != 1)
            return fail(in, "%s does not broadcast to %s", show(in, t), show(in, &in->out));
        if (t->dim[i] == to) in->out.sym[dims[i]] = t->sym[i];
    }
    return true;
}

static bool infer_slice(Infer *in)
{
    const Type *t = arg(in, 0);
    const int64_t *start, *limit, *stride;
    if (!list_of_rank(in, ATTR_start, &start, t->rank) ||
        !list_of_rank(in, ATTR_limit, &limit, t->rank) ||
        !list_of_rank(in, ATTR_stride, &stride, t->rank))
        return false;
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (start[i] < 0 || limit[i] < start[i] || limit[i] > t->dim[i])
            return fail(in, "%lld:%lld is outside axis %d of %s", (long long)start[i],
                        (long long)limit[i], i, show(in, t));
        if (stride[i] < 1) return fail(in, "the step %lld is not positive", (long long)stride[i]);
        in->out.dim[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
        if (in->out.dim[i] != t->dim[i]) in->out.sym[i] = 0;
    }
    return true;
}

static bool infer_pad(Infer *in)
{
    const Type *t = arg(in, 0);
    const int64_t *low, *high;
    if (!list_of_rank(in, ATTR_low, &low, t->rank) || !list_of_rank(in, ATTR_high, &high, t->rank))
        return false;
    if (arg(in, 1)->rank || arg(in, 1)->dtype != t->dtype)
        return fail(in, "needs a %s scalar to fill with, found %s", dtype_info[t->dtype].name,
                    show(in, arg(in, 1)));
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (low[i] < 0 || high[i] < 0) return fail(in, "the padding of axis %d is negative", i);
        if (low[i] > INT32_MAX || high[i] > INT32_MAX)
            return fail(in, "the padding of axis %d is too large", i);
        in->out.dim[i] += low[i] + high[i];
        if (low[i] || high[i]) in->out.sym[i] = 0;
    }
    return true;
}

static bool infer_concat(Infer *in)
{
    if (!in->nargs) return fail(in, "needs at least one operand");
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    const Type *t = arg(in, 0);
    if (!axes_valid(in, &axis, 1, t)) return false;
    in->out = *t;
    for (int i = 1; i < in->nargs; i++) {
        Type other = *arg(in, i);
        if (other.rank == t->rank) {
            in->out.dim[axis] += other.dim[axis];
            other.dim[axis] = t->dim[axis];
        }
        if (!type_equal(&other, t))
            return fail(in, "%s and %s do not join along axis %lld", show(in, t),
                        show(in, arg(in, i)), (long long)axis);
    }
    if (in->nargs > 1) in->out.sym[axis] = 0;
    return true;
}

// -- reductions -----------------------------------------------------------------------------------

static bool infer_reduce(Infer *in)
{
    const Type *t = arg(in, 0);
    int n, rank = 0;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!axes_valid(in, axes, n, t)) return false;
    in->out = type_scalar(t->dtype);
    for (int i = 0, k = 0; i < t->rank; i++) {
        if (k < n && axes[k] == i)
            k++;
        else if (!set_axis(in, rank++, t, i))
            return false;
    }
    return true;
}

static bool infer_reduce_sum(Infer *in)
{
    if (!infer_reduce(in)) return false;
    if (!dtype_is_float(in->out.dtype)) in->out.dtype = DT_I64;
    return true;
}

static bool infer_argmax(Infer *in)
{
    int n;
    attrs_ints(in->attrs, ATTR_axes, &n);
    if (n != 1) return fail(in, "takes exactly one axis, found %d", n);
    if (!infer_reduce(in)) return false;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!arg(in, 0)->dim[axes[0]])
        return fail(in, "axis %lld of %s is empty", (long long)axes[0], show(in, arg(in, 0)));
    in->out.dtype = DT_I32;
    return true;
}

// -- contraction ----------------------------------------------------------------------------------

static bool mark_axes(const Infer *in, const Type *t, const int64_t *axes, int n, unsigned *seen)
{
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= t->rank || (*seen & 1u << axes[i]))
            return fail(in, "axis %lld is outside %s or named twice", (long long)axes[i],
                        show(in, t));
        *seen |= 1u << axes[i];
    }
    return true;
}

static bool infer_dot(Infer *in)
{
    const Type *a = arg(in, 0), *b = arg(in, 1);
    int nba, nbb, nca, ncb, rank = 0;
    const int64_t *ba = attrs_ints(in->attrs, ATTR_batch_a, &nba);
    const int64_t *bb = attrs_ints(in->attrs, ATTR_batch_b, &nbb);
    const int64_t *ca = attrs_ints(in->attrs, ATTR_contract_a, &nca);
    const int64_t *cb = attrs_ints(in->attrs, ATTR_contract_b, &ncb);
    DType out, acc;
    if (!dtype_attr(in, ATTR_dtype, &out) || !dtype_attr(in, ATTR_accumulate, &acc)) return false;
    if (nba != nbb || nca != ncb) return fail(in, "the lists of axes do not pair up");
    if (a->dtype != b->dtype)
        return fail(in, "%s and %s have different element types; cast one of them", show(in, a),
                    show(in, b));
    if (!needs(in, 0, a->dtype != DT_BOOL, "numbers (use cast for a bool)")) return false;
    if (dtype_is_float(a->dtype) != dtype_is_float(out) ||
        dtype_is_float(a->dtype) != dtype_is_float(acc) || out == DT_BOOL || acc == DT_BOOL)
        return fail(in, "%s cannot accumulate in %s to %s", show(in, a), dtype_info[acc].name,
                    dtype_info[out].name);
    unsigned seen_a = 0, seen_b = 0;
    if (!mark_axes(in, a, ba, nba, &seen_a) || !mark_axes(in, b, bb, nbb, &seen_b) ||
        !mark_axes(in, a, ca, nca, &seen_a) || !mark_axes(in, b, cb, ncb, &seen_b))
        return false;
    in->out = type_scalar(out);
    for (int i = 0; i < nba; i++) {
        if (a->dim[ba[i]] != b->dim[bb[i]])
            return fail(in, "%s and %s have different batch sizes, %lld and %lld", show(in, a),
                        show(in, b), (long long)a->dim[ba[i]], (long long)b->dim[bb[i]]);
        if (!set_axis(in, rank++, a, (int)ba[i])) return false;
    }
    for (int i = 0; i < nca; i++)
        if (a->dim[ca[i]] != b->dim[cb[i]])
            return fail(in, "%s and %s disagree on the inner size, %lld and %lld", show(in, a),
                        show(in, b), (long long)a->dim[ca[i]], (long long)b->dim[cb[i]]);
    for (int i = 0; i < a->rank; i++)
        if (!(seen_a & 1u << i) && !set_axis(in, rank++, a, i)) return false;
    for (int i = 0; i < b->rank; i++)
        if (!(seen_b & 1u << i) && !set_axis(in, rank++, b, i)) return false;
    return true;
}

// -- indexed access -------------------------------------------------------------------------------

static bool infer_gather(Infer *in)
{
    const Type *data = arg(in, 0), *index = arg(in, 1);
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    int rank = 0;
    if (!axes_valid(in, &axis, 1, data)) return false;
    if (!needs(in, 1, dtype_is_int(index->dtype), "integers to index with")) return false;
    if (!data->dim[axis] && type_count(index))
        return fail(in, "axis %lld of %s is empty", (long long)axis, show(in, data));
    in->out = type_scalar(data->dtype);
    for (int i = 0; i < data->rank; i++) {
        if (i != axis) {
            if (!set_axis(in, rank++, data, i)) return false;
            continue;
        }
        for (int k = 0; k < index->rank; k++)
            if (!set_axis(in, rank++, index, k)) return false;
    }
    return true;
}

static bool infer_scatter(Infer *in)
{
    const Type *data = arg(in, 0), *index = arg(in, 1);
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    if (!axes_valid(in, &axis, 1, data)) return false;
    if (index->rank != 1 || !dtype_is_int(index->dtype))
        return fail(in, "needs a one-dimensional integer index, found %s", show(in, index));
    Type want = *data;
    want.dim[axis] = index->dim[0];
    if (!type_equal(&want, arg(in, 2)))
        return fail(in, "updates are %s, needed are %s", show(in, arg(in, 2)), show(in, &want));
    in->out = *data;
    return true;
}

static bool starts_valid(const Infer *in, int first, int rank)
{
    if (in->nargs - first != rank)
        return fail(in, "%d starts for the %d axes of %s", in->nargs - first, rank,
                    show(in, arg(in, 0)));
    for (int i = first; i < in->nargs; i++) {
        DType t = arg(in, i)->dtype;
        if (arg(in, i)->rank || (t != DT_I32 && t != DT_I64))
            return fail(in, "a start is an i32 or i64 scalar, found %s", show(in, arg(in, i)));
    }
    return true;
}

static bool infer_dynamic_slice(Infer *in)
{
    if (in->nargs < 1) return fail(in, "needs an operand");
    const Type *t = arg(in, 0);
    const int64_t *sizes;
    if (!starts_valid(in, 1, t->rank) || !list_of_rank(in, ATTR_sizes, &sizes, t->rank))
        return false;
    in->out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (sizes[i] < 0 || sizes[i] > t->dim[i])
            return fail(in, "size %lld of axis %d is outside %s", (long long)sizes[i], i,
                        show(in, t));
        in->out.dim[i] = sizes[i];
        if (sizes[i] != t->dim[i]) in->out.sym[i] = 0;
    }
    return true;
}

static bool infer_dynamic_update(Infer *in)
{
    if (in->nargs < 2) return fail(in, "needs a tensor and an update");
    const Type *t = arg(in, 0), *u = arg(in, 1);
    if (!starts_valid(in, 2, t->rank)) return false;
    bool fits = t->dtype == u->dtype && t->rank == u->rank;
    for (int i = 0; fits && i < t->rank; i++) fits = u->dim[i] <= t->dim[i];
    in->out = *t;
    return fits || fail(in, "%s does not fit into %s", show(in, u), show(in, t));
}

static bool infer_argsort(Infer *in)
{
    if (!infer_same(in)) return false;
    in->out.dtype = DT_I32;
    return true;
}

// -- leaves ---------------------------------------------------------------------------------------

static bool infer_leaf(Infer *in)
{
    DType t;
    return dtype_attr(in, ATTR_dtype, &t) && shape_from(in, ATTR_shape, t);
}

static bool infer_const(Infer *in)
{
    if (!infer_leaf(in)) return false;
    const AttrValue *f = attrs_find(in->attrs, ATTR_value), *i = attrs_find(in->attrs, ATTR_ivalue);
    const AttrValue *list = attrs_find(in->attrs, ATTR_values);
    if (!!f + !!i + !!list != 1) return fail(in, "needs one of value, ivalue and values");
    if (list && list->n != type_count(&in->out))
        return fail(in, "%d values for %s", list->n, show(in, &in->out));
    if ((f && dtype_is_int(in->out.dtype)) || (i && !dtype_is_int(in->out.dtype)))
        return fail(in, "%s does not hold %s", f ? "value" : "ivalue",
                    dtype_info[in->out.dtype].name);
    return true;
}

static bool infer_iota(Infer *in)
{
    if (!infer_leaf(in)) return false;
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    if (!axes_valid(in, &axis, 1, &in->out)) return false;
    return in->out.dtype != DT_BOOL || fail(in, "counts in numbers, not in bool");
}

static bool infer_random(Infer *in)
{
    if (!infer_leaf(in)) return false;
    for (int i = 0; i < 2; i++)
        if (arg(in, i)->rank || arg(in, i)->dtype != DT_I64)
            return fail(in, "seed and step are i64 scalars, found %s", show(in, arg(in, i)));
    int64_t lane = attrs_int(in->attrs, ATTR_lane, 0);
    if (lane < 0 || lane > 3) return fail(in, "lane %lld is outside 0..4", (long long)lane);
    return in->out.dtype == DT_U32 || fail(in, "makes u32 words");
}

// -- regions --------------------------------------------------------------------------------------

static bool interface_is(const Infer *in, const Graph *r, uint32_t params)
{
    if (r->params.n != params)
        return fail(in, "the region has %u parameters for %u operands", r->params.n, params);
    return true;
}

static bool param_fits(const Infer *in, const Graph *r, uint32_t i, const Type *t)
{
    if (type_equal(&r->params.at[i]->type, t)) return true;
    return fail(in, "parameter %u of the region is %s, the operand gives %s", i,
                show(in, &r->params.at[i]->type), show(in, t));
}

static bool infer_call(Infer *in)
{
    if (in->nregions != 1 && in->nregions != 2) return fail(in, "has %d regions", in->nregions);
    const Graph *body = in->regions[0];
    uint32_t n = (uint32_t)in->nargs;
    if (!interface_is(in, body, n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!param_fits(in, body, i, arg(in, (int)i))) return false;
    if (!body->results.n) return fail(in, "the region has no result");
    in->out = body->results.at[0]->type;
    if (in->nregions == 1) return true;
    const Graph *rule = in->regions[1];
    if (!interface_is(in, rule, n + body->results.n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!param_fits(in, rule, i, arg(in, (int)i))) return false;
    for (uint32_t i = 0; i < body->results.n; i++)
        if (!shape_equal(&rule->params.at[n + i]->type, &body->results.at[i]->type))
            return fail(in, "cotangent %u of the gradient is %s, the result is %s", i,
                        show(in, &rule->params.at[n + i]->type),
                        show(in, &body->results.at[i]->type));
    if (rule->results.n != n)
        return fail(in, "the gradient has %u results for %u parameters", rule->results.n, n);
    for (uint32_t i = 0; i < n; i++)
        if (dtype_is_float(arg(in, (int)i)->dtype) &&
            !shape_equal(&rule->results.at[i]->type, arg(in, (int)i)))
            return fail(in, "the gradient of parameter %u is %s, the parameter is %s", i,
                        show(in, &rule->results.at[i]->type), show(in, arg(in, (int)i)));
    return true;
}

static bool infer_loop(Infer *in)
{
    if (in->nregions != 1) return fail(in, "has %d regions", in->nregions);
    int64_t count = attrs_int(in->attrs, ATTR_count, 0);
    int64_t carried = attrs_int(in->attrs, ATTR_carried, 0);
    int64_t scanned = attrs_int(in->attrs, ATTR_scanned, 0);
    const Graph *body = in->regions[0];
    if (count < 0) return fail(in, "runs %lld times", (long long)count);
    if (carried < 0 || scanned < 0 || carried > in->nargs || scanned > in->nargs - carried)
        return fail(in, "%lld carried and %lld scanned of %d operands", (long long)carried,
                    (long long)scanned, in->nargs);
    if (!interface_is(in, body, (uint32_t)in->nargs + 1)) return false;
    Type counter = type_scalar(DT_I64);
    if (!param_fits(in, body, 0, &counter)) return false;
    for (int i = 0; i < in->nargs; i++) {
        Type t = *arg(in, i);
        if (i >= carried && i < carried + scanned) {
            if (!t.rank || t.dim[0] != count)
                return fail(in, "scans %s, whose axis 0 is not the %lld of the loop", show(in, &t),
                            (long long)count);
            t.rank--;
            for (int k = 0; k < t.rank; k++) t.dim[k] = t.dim[k + 1];
            t.dim[t.rank] = 0;
        }
        if (!param_fits(in, body, (uint32_t)i + 1, &t)) return false;
    }
    if (!body->results.n) return fail(in, "the region has no result");
    if (body->results.n < carried)
        return fail(in, "the region has %u results for %lld carried values", body->results.n,
                    (long long)carried);
    for (int i = 0; i < carried; i++)
        if (!type_equal(&body->results.at[i]->type, arg(in, i)))
            return fail(in, "a carried value begins as %s and goes on as %s", show(in, arg(in, i)),
                        show(in, &body->results.at[i]->type));
    for (uint32_t i = (uint32_t)carried; i < body->results.n; i++)
        if (body->results.at[i]->type.rank == MAX_RANK)
            return fail(in, "a stacked result has more than %d axes", MAX_RANK);
    if (carried) {
        in->out = *arg(in, 0);
        return true;
    }
    in->out = body->results.at[0]->type;
    for (int k = in->out.rank++; k > 0; k--) {
        in->out.dim[k] = in->out.dim[k - 1];
        in->out.sym[k] = in->out.sym[k - 1];
    }
    in->out.dim[0] = count;
    in->out.sym[0] = 0;
    return true;
}

static bool infer_get(Infer *in)
{
    int64_t index = attrs_int(in->attrs, ATTR_index, 0);
    int n = node_result_count(in->args[0]);
    if (index < 0 || index >= n)
        return fail(in, "result %lld of %s, which has %d", (long long)index,
                    op_info(in->args[0]->op)->name, n);
    in->out = node_result_type(in->args[0], (int)index);
    return true;
}

static bool infer_grad(Infer *in)
{
    const Type *y = arg(in, 0), *x = arg(in, 1);
    in->out = *x;
    if (y->rank || !dtype_is_float(y->dtype))
        return fail(in, "differentiates a float scalar, found %s", show(in, y));
    return dtype_is_float(x->dtype) ||
           fail(in, "differentiates with respect to floats, found %s", show(in, x));
}

static bool infer_poison(Infer *in)
{
    in->out = type_scalar(DT_F32);
    return true;
}

// -- the table ------------------------------------------------------------------------------------

static bool (*const rules[OP_COUNT])(Infer *) = {
#define EW(id, arity, flags, rule, ...)        infer_##rule,
#define OP(id, arity, class, flags, rule, ...) infer_##rule,
#include "ir/ops.def"
#undef EW
#undef OP
};

static bool attrs_valid(const Infer *in)
{
    const OpInfo *info = op_info(in->op);
    const Attrs *a = in->attrs;
    uint64_t present = 0;
    for (int i = 0; i < a->n; i++) present |= 1ull << a->at[i].key;
    uint64_t missing = info->attr_required & ~present, unknown = present & ~info->attr_allowed;
    if (missing) return fail(in, "lacks @{%s=...}", attr_name((AttrKey)__builtin_ctzll(missing)));
    if (unknown) return fail(in, "takes no %s", attr_name((AttrKey)__builtin_ctzll(unknown)));
    return true;
}

bool infer_type(Infer *in)
{
    const OpInfo *info = op_info(in->op);
    if (info->arity != VARIADIC && info->arity != in->nargs)
        return fail(in, "takes %d operands, found %d", info->arity, in->nargs);
    if (!attrs_valid(in)) return false;
    if (in->nregions && info->class != CLS_REGION) return fail(in, "takes no region");
    if (!rules[in->op](in)) return false;
    int64_t bytes = 8;
    for (int i = 0; i < in->out.rank; i++)
        if (__builtin_mul_overflow(bytes, in->out.dim[i], &bytes) || bytes > INT64_MAX / 16)
            return fail(in, "the result %s is too large", show(in, &in->out));
    return true;
}
