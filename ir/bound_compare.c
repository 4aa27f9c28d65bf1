// Compares what a device computed with the evaluator's values and their error bounds.
#include "ir/bound_ops.h"

void bound_allowed(const Value *want, int64_t i, double *below, double *above)
{
    double v = value_get(want, i), round = 0, *to[] = {below, above};
    if (value_is_float(want) && isfinite(v) && v != 0)
        round = 2 * bound_rounding(want->type.dtype, v);
    for (int side = 0; side < 2; side++) {
        double error = want->error[side] ? want->error[side][i] : 0;
        *to[side] = round + error;
    }
}

// The difference divided by what is allowed; infinite if only one of the two is NaN. If the allowed
// range reaches the largest number of the type, infinity is allowed, too.
static double share(DType t, double have, double want, double allowed)
{
    double d = fabs(have - want);
    if (have == want || (isnan(have) && isnan(want)) || allowed == INFINITY) return 0;
    if (dtype_is_float(t) && isinf(have) && fabs(want) + allowed > bound_largest(t)) return 1;
    return allowed > 0 && isfinite(d) ? d / allowed : INFINITY;
}

static double mean_size(const Value *v)
{
    double sum = 0;
    int64_t n = type_count(&v->type), finite = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = value_get(v, i);
        if (isfinite(x)) sum += x * x, finite++;
    }
    return finite ? sqrt(sum / (double)finite) : 0;
}

Agreement bound_compare(const Value *have, const Value *want, const Value *before)
{
    Agreement a = {.compared = type_count(&want->type), .at = -1};
    double size = mean_size(want), below, above;
    for (int64_t i = 0; i < a.compared; i++) {
        double x = value_get(have, i), v = value_get(want, i);
        bound_allowed(want, i, &below, &above);
        double most = larger(below, above);
        double allowed = x < v ? below : x > v ? above : smaller(below, above);
        double s = share(want->type.dtype, x, v, allowed);
        a.wrong += s > 1;
        double old = before ? value_get(before, i) : v, moved = fabs(v - old);
        a.undecided += (most > 0 && most >= larger(fabs(v), size)) || (moved > 0 && most >= moved);
        if (a.at >= 0 && s <= a.worst) continue;
        a.worst = s;
        a.at = i;
        a.have = x;
        a.want = v;
        a.allowed = allowed;
    }
    return a;
}
