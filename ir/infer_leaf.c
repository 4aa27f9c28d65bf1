// Type rules of leaves and of ops that own regions.
#include <stdlib.h>
#include <string.h>

#include "ir/infer.h"

// -- leaves ---------------------------------------------------------------------------------------

bool infer_leaf(Infer *in)
{
    DType t;
    return infer_dtype_attr(in, ATTR_dtype, &t) && infer_shape_from(in, ATTR_shape, t);
}

bool infer_const(Infer *in)
{
    if (!infer_leaf(in)) return false;
    const AttrValue *f = attrs_find(in->attrs, ATTR_value), *i = attrs_find(in->attrs, ATTR_ivalue);
    const AttrValue *list = attrs_find(in->attrs, ATTR_values);
    if (!!f + !!i + !!list != 1) return infer_fail(in, "needs one of value, ivalue and values");
    if (list && list->n != type_count(&in->out))
        return infer_fail(in, "%d values for %s", list->n, infer_show(in, &in->out));
    if ((f && dtype_is_int(in->out.dtype)) || (i && !dtype_is_int(in->out.dtype)))
        return infer_fail(in, "%s does not hold %s", f ? "value" : "ivalue",
                          dtype_info[in->out.dtype].name);
    return true;
}

bool infer_iota(Infer *in)
{
    if (!infer_leaf(in)) return false;
    int64_t axis = attrs_int(in->attrs, ATTR_axis, 0);
    if (!infer_axes_valid(in, &axis, 1, &in->out)) return false;
    return in->out.dtype != DT_BOOL || infer_fail(in, "counts in numbers, not in bool");
}

bool infer_random(Infer *in)
{
    if (!infer_leaf(in)) return false;
    for (int i = 0; i < 2; i++)
        if (infer_arg(in, i)->rank || infer_arg(in, i)->dtype != DT_I64)
            return infer_fail(in, "seed and count are i64 scalars, found %s",
                              infer_show(in, infer_arg(in, i)));
    int counts;
    attrs_ints(in->attrs, ATTR_stride, &counts);
    if (counts > in->out.rank)
        return infer_fail(in, "counts for %d axes of %s", counts, infer_show(in, &in->out));
    int64_t bits = attrs_int(in->attrs, ATTR_bits, 32), lane = attrs_int(in->attrs, ATTR_lane, 0);
    if (bits != 16 && bits != 32 && bits != 64 && bits != 128)
        return infer_fail(in, "has 16, 32, 64 or 128 bits, not %lld", (long long)bits);
    if (lane < 0 || lane * 32 >= bits)
        return infer_fail(in, "word %lld is beyond %lld bits", (long long)lane, (long long)bits);
    return in->out.dtype == DT_U32 || infer_fail(in, "makes u32 words");
}

bool infer_device(Infer *in)
{
    in->out = type_scalar(DT_I64);
    return true;
}

bool infer_exchange(Infer *in)
{
    const int64_t devices = attrs_int(in->attrs, ATTR_devices, 0);
    const bool each = attrs_int(in->attrs, ATTR_each, 0);
    const Type *x = infer_arg(in, 0);
    if (devices < 1) return infer_fail(in, "between %lld devices", (long long)devices);
    if (each && (!x->rank || x->dim[0] != devices))
        return infer_fail(in, "axis 0 of %s has no part for each of %lld devices",
                          infer_show(in, x), (long long)devices);
    if (!each && x->rank == MAX_RANK) return infer_fail(in, "has more than %d axes", MAX_RANK);
    in->out = *x;
    if (each) return true;
    for (int k = in->out.rank++; k > 0; k--) {
        in->out.dim[k] = in->out.dim[k - 1];
        in->out.sym[k] = in->out.sym[k - 1];
    }
    in->out.dim[0] = devices;
    in->out.sym[0] = 0;
    return true;
}

// -- regions --------------------------------------------------------------------------------------

static bool interface_is(const Infer *in, const Graph *r, uint32_t params)
{
    if (r->params.n != params)
        return infer_fail(in, "the region has %u parameters for %u operands", r->params.n, params);
    return true;
}

static bool param_fits(const Infer *in, const Graph *r, uint32_t i, const Type *t)
{
    if (type_equal(&r->params.at[i]->type, t)) return true;
    return infer_fail(in, "parameter %u of the region is %s, the operand gives %s", i,
                      infer_show(in, &r->params.at[i]->type), infer_show(in, t));
}

// Checks a region and, if there is one, its gradient rule. takes_results: the rule has the results
// as parameters.
static bool infer_function(Infer *in, bool takes_results)
{
    if (in->nregions != 1 && in->nregions != 2)
        return infer_fail(in, "has %d regions", in->nregions);
    const Graph *body = in->regions[0];
    uint32_t n = (uint32_t)in->nargs;
    if (!interface_is(in, body, n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!param_fits(in, body, i, infer_arg(in, (int)i))) return false;
    if (!body->results.n) return infer_fail(in, "the region has no result");
    in->out = body->results.at[0]->type;
    if (in->nregions == 1) return true;
    const Graph *rule = in->regions[1];
    uint32_t first = n + (takes_results ? body->results.n : 0); // index of the first cotangent
    if (!interface_is(in, rule, first + body->results.n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!param_fits(in, rule, i, infer_arg(in, (int)i))) return false;
    for (uint32_t i = n; i < first; i++)
        if (!param_fits(in, rule, i, &body->results.at[i - n]->type)) return false;
    for (uint32_t i = 0; i < body->results.n; i++)
        if (!shape_equal(&rule->params.at[first + i]->type, &body->results.at[i]->type))
            return infer_fail(in, "cotangent %u of the gradient is %s, the result is %s", i,
                              infer_show(in, &rule->params.at[first + i]->type),
                              infer_show(in, &body->results.at[i]->type));
    if (rule->results.n != n)
        return infer_fail(in, "the gradient has %u results for %u parameters", rule->results.n, n);
    for (uint32_t i = 0; i < n; i++)
        if (dtype_is_float(infer_arg(in, (int)i)->dtype) &&
            !shape_equal(&rule->results.at[i]->type, infer_arg(in, (int)i)))
            return infer_fail(in, "the gradient of parameter %u is %s, the parameter is %s", i,
                              infer_show(in, &rule->results.at[i]->type),
                              infer_show(in, infer_arg(in, (int)i)));
    return true;
}

bool infer_call(Infer *in)
{
    return infer_function(in, false);
}

// Checks that calls refer only to existing operands and results, so that later readers can rely on
// it.
static bool calls_fit(const Infer *in, const char *calls, int *n)
{
    int values = in->nargs + (int)in->regions[0]->results.n;
    *n = 0;
    for (const char *p = calls; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        size_t len = strcspn(p, " "), open = strcspn(p, "(");
        if (open == 0 || open >= len || p[len - 1] != ')')
            return infer_fail(in, "'%.*s' is no call", (int)len, p);
        ++*n;
    }
    for (const char *p = calls; (p = strchr(p, '$')); p++)
        if (p[1] < '0' || p[1] > '9' || strtol(p + 1, NULL, 10) >= values)
            return infer_fail(in, "launches with a value that is none of %d", values);
    return true;
}

bool infer_extern(Infer *in)
{
    if (!infer_function(in, true)) return false;
    if (in->op != OP_extern) return true;
    int n, calls;
    const int64_t *v = attrs_ints(in->attrs, ATTR_launch, &n);
    if (!calls_fit(in, attrs_find(in->attrs, ATTR_kernels)->s, &calls)) return false;
    if (!calls || n != calls * EXTERN_LAUNCH)
        return infer_fail(in, "%d sizes for %d launches", n, calls);
    for (int i = 0; i < n; i++)
        if (v[i] < (i % EXTERN_LAUNCH < 6) || v[i] > INT32_MAX)
            return infer_fail(in, "%lld is no size of a launch", (long long)v[i]);
    return true;
}

bool infer_loop(Infer *in)
{
    if (in->nregions != 1) return infer_fail(in, "has %d regions", in->nregions);
    int64_t count = attrs_int(in->attrs, ATTR_count, 0);
    int64_t carried = attrs_int(in->attrs, ATTR_carried, 0);
    int64_t scanned = attrs_int(in->attrs, ATTR_scanned, 0);
    const Graph *body = in->regions[0];
    if (count < 0) return infer_fail(in, "runs %lld times", (long long)count);
    if (carried < 0 || scanned < 0 || carried > in->nargs || scanned > in->nargs - carried)
        return infer_fail(in, "%lld carried and %lld scanned of %d operands", (long long)carried,
                          (long long)scanned, in->nargs);
    if (!interface_is(in, body, (uint32_t)in->nargs + 1)) return false;
    Type counter = type_scalar(DT_I64);
    if (!param_fits(in, body, 0, &counter)) return false;
    for (int i = 0; i < in->nargs; i++) {
        Type t = *infer_arg(in, i);
        if (i >= carried && i < carried + scanned) {
            if (!t.rank || t.dim[0] != count)
                return infer_fail(in, "scans %s, whose axis 0 is not the %lld of the loop",
                                  infer_show(in, &t), (long long)count);
            t.rank--;
            for (int k = 0; k < t.rank; k++) t.dim[k] = t.dim[k + 1];
            t.dim[t.rank] = 0;
        }
        if (!param_fits(in, body, (uint32_t)i + 1, &t)) return false;
    }
    if (!body->results.n) return infer_fail(in, "the region has no result");
    if (body->results.n < carried)
        return infer_fail(in, "the region has %u results for %lld carried values", body->results.n,
                          (long long)carried);
    for (int i = 0; i < carried; i++)
        if (!type_equal(&body->results.at[i]->type, infer_arg(in, i)))
            return infer_fail(in, "a carried value begins as %s and goes on as %s",
                              infer_show(in, infer_arg(in, i)),
                              infer_show(in, &body->results.at[i]->type));
    for (uint32_t i = (uint32_t)carried; i < body->results.n; i++)
        if (body->results.at[i]->type.rank == MAX_RANK)
            return infer_fail(in, "a stacked result has more than %d axes", MAX_RANK);
    if (attrs_find(in->attrs, ATTR_runs)) {
        const int64_t runs = attrs_int(in->attrs, ATTR_runs, 0);
        const Type flag = type_scalar(DT_BOOL);
        if (runs < 0 || runs >= carried || !type_equal(infer_arg(in, (int)runs), &flag))
            return infer_fail(in, "carries no bool as %lld", (long long)runs);
    }
    if (carried) {
        in->out = *infer_arg(in, 0);
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

bool infer_get(Infer *in)
{
    int64_t index = attrs_int(in->attrs, ATTR_index, 0);
    int n = node_result_count(in->args[0]);
    if (index < 0 || index >= n)
        return infer_fail(in, "result %lld of %s, which has %d", (long long)index,
                          op_info(in->args[0]->op)->name, n);
    in->out = node_result_type(in->args[0], (int)index);
    return true;
}

bool infer_grad(Infer *in)
{
    const Type *y = infer_arg(in, 0), *x = infer_arg(in, 1);
    in->out = *x;
    if (y->rank || !dtype_is_float(y->dtype))
        return infer_fail(in, "differentiates a float scalar, found %s", infer_show(in, y));
    return dtype_is_float(x->dtype) ||
           infer_fail(in, "differentiates with respect to floats, found %s", infer_show(in, x));
}

bool infer_poison(Infer *in)
{
    in->out = type_scalar(DT_F32);
    return true;
}
