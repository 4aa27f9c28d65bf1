// What a result may differ by.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/axes.h"
#include "tests/fuzz/programs/trial.h"

static double epsilon(DType t, Precision p)
{
    if (t == DT_BF16 || p == PREC_BF16) return 0x1p-7;
    if (t == DT_F16 || p == PREC_TF32 || p == PREC_F16) return 0x1p-10;
    return t == DT_F64 ? 0x1p-50 : 0x1p-22;
}

bool reference_make(Arena *a, const Graph *g, EvalEnv *env, Precision p, Reference *out)
{
    (void)a;
    *out = (Reference){.graph = g, .precision = p, .narrowest = DT_F64, .longest = 1};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        DType t = n->type.dtype;
        if (dtype_is_float(t) && epsilon(t, PREC_F32) > epsilon(out->narrowest, PREC_F32))
            out->narrowest = t;
        if (node_class(n) != CLS_DOT && node_class(n) != CLS_REDUCE) continue;
        int64_t k = reduced_count(n);
        if (k > out->longest) out->longest = k;
    }
    env->round = false;
    if (!eval_graph(g, env, &out->exact)) return false;
    env->round = true;
    return eval_graph(g, env, &out->rounded);
}

bool reference_holds(const Trial *t, const Reference *r, const char *name, bool cell,
                     const Value *have, char *why, size_t size)
{
    const Value *exact = strmap_get(cell ? &r->exact.assigns : &r->exact.outputs, name);
    const Value *rounded = strmap_get(cell ? &r->rounded.assigns : &r->rounded.outputs, name);
    int64_t n = type_count(&exact->type);
    double noise = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = value_get(exact, i), d = fabs(e - value_get(rounded, i));
        if (isfinite(d)) noise = fmax(noise, d);
        if (isfinite(e)) largest = fmax(largest, fabs(e));
    }
    double allowed = 64 * noise;
    if (dtype_is_float(exact->type.dtype))
        allowed += 16 * epsilon(r->narrowest, r->precision) * sqrt((double)r->longest) * largest;
    if (t->compared) *t->compared += n;
    for (int64_t i = 0; i < n; i++) {
        double e = value_get(exact, i), h = value_get(have, i), q = value_get(rounded, i);
        if (h == e || h == q || (isnan(h) && isnan(e)) || !isfinite(e) || !isfinite(q)) continue;
        if (fabs(h - e) <= allowed) continue;
        snprintf(why, size, "%s[%lld] is %.9g, the reference %.9g, allowed difference %.3g", name,
                 (long long)i, h, e, allowed);
        return false;
    }
    return true;
}
