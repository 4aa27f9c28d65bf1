// What results should be, and how far they may be from it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/bound.h"
#include "tests/fuzz/programs/trial.h"

enum { FEW = 4 }; // elements

static double epsilon(DType t, Precision p)
{
    if (t == DT_BF16 || p == PREC_BF16) return 0x1p-7;
    if (t == DT_F16 || p == PREC_TF32 || p == PREC_F16) return 0x1p-10;
    return t == DT_F64 ? 0x1p-50 : 0x1p-22;
}

double coarseness(const Graph *g, Precision p)
{
    double e = 0, longest = 1;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (dtype_is_float(n->type.dtype)) e = fmax(e, epsilon(n->type.dtype, p));
        if (node_class(n) == CLS_DOT || node_class(n) == CLS_REDUCE)
            longest = fmax(longest, (double)reduced_count(n));
    }
    return e * sqrt(longest);
}

static void add_all(StrMap *to, const StrMap *from)
{
    for (uint32_t i = 0; i < from->n; i++) strmap_set(to, from->entry[i].key, from->entry[i].value);
}

bool evaluate(Arena *a, const Graph *g, EvalEnv *env, Precision p, Reference *out)
{
    EvalResult result;
    *out = (Reference){.evaluated = true, .exact = strmap_new(a)};
    env->bound = true;
    env->tf32 = p == PREC_TF32;
    if (!eval_graph(g, env, &result)) return false;
    add_all(&out->exact, &result.outputs);
    add_all(&out->exact, &result.assigns);
    return true;
}

// By the error that the evaluator carries (ir/bound.h).
static bool within_bound(const Trial *t, const Value *want, const char *name, const Value *have,
                         char *why, size_t size)
{
    Agreement k = bound_compare(have, want, NULL);
    *t->compared += k.compared;
    *t->undecided += k.undecided;
    if (!k.wrong) return true;
    snprintf(why, size,
             "%s[%lld] is %.9g, the reference %.9g, allowed difference %.3g; %lld are off", name,
             (long long)k.at, k.have, k.want, k.allowed, (long long)k.wrong);
    return false;
}

static double largest_of(const Value *v)
{
    double largest = 0;
    for (int64_t i = 0, n = type_count(&v->type); i < n; i++) {
        double e = value_get(v, i);
        if (isfinite(e)) largest = fmax(largest, fabs(e));
    }
    return largest;
}

// Beside the plain path: the largest difference that the model's own types make in it, and the
// coarsest rounding of the largest element. Elements beyond that are right when there are as few as
// a step (a comparison, a rounding to integers) that falls the other way can explain. A few
// elements do not show how far the two differ (a sum of what adds up to zero, that comes out as
// zero in one of them): there the largest element of all results counts. Where rounding moves
// elements by as much as the largest is, they are near a pole (log1p(erf(x)), x below -3), and an
// element may be there. Of integers, which may be floats without their fractions, a few are off by
// one if products are of rounded operands, as in TF32.
bool reference_holds(const Trial *t, const Reference *r, const char *name, const Value *have,
                     char *why, size_t size)
{
    const Value *exact = strmap_get(&r->exact, name);
    if (r->evaluated) return within_bound(t, exact, name, have, why, size);
    const Value *rounded = strmap_get(&r->rounded, name);
    const bool coarse = !dtype_is_float(exact->type.dtype) && r->epsilon >= 0x1p-10;
    int64_t n = type_count(&exact->type), off = 0, first = -1, fallen = 0;
    double noise = 0, largest = largest_of(exact);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(value_get(exact, i) - value_get(rounded, i));
        if (isfinite(d)) noise = fmax(noise, d);
    }
    for (uint32_t i = 0; n < FEW && i < r->exact.n; i++) {
        const Value *other = r->exact.entry[i].value;
        if (dtype_is_float(other->type.dtype)) largest = fmax(largest, largest_of(other));
    }
    double allowed = 64 * noise;
    if (dtype_is_float(exact->type.dtype)) allowed += 16 * r->epsilon * largest;
    *t->compared += n;
    for (int64_t i = 0; i < n; i++) {
        double e = value_get(exact, i), h = value_get(have, i), q = value_get(rounded, i);
        if (h == e || h == q || (isnan(h) && isnan(e)) || !isfinite(e) || !isfinite(q)) continue;
        if (fabs(h - e) <= allowed || (isinf(h) && allowed >= largest)) continue;
        if (coarse && fabs(h - e) == 1 && fallen++ <= n / 100) continue;
        if (first < 0) first = i;
        off++;
    }
    if (off <= n / 5000) return true;
    snprintf(why, size,
             "%s[%lld] is %.9g, the reference %.9g, allowed difference %.3g; %lld are off", name,
             (long long)first, value_get(have, first), value_get(exact, first), allowed,
             (long long)off);
    return false;
}
