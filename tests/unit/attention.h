// Models compiled with and without a pass (attention; chunks), evaluated, compared.
#ifndef TESTS_UNIT_ATTENTION_H
#define TESTS_UNIT_ATTENTION_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct Run {
    Diags *d;
    Module *m;
    Graph *train;
    EvalResult result;
} Run;

static inline void fill(Arena *a, EvalEnv *env, const Graph *g)
{
    uint32_t s = 12345;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_input && n->op != OP_param && n->op != OP_state) continue;
        const char *name = attr_str(n, ATTR_name);
        StrMap *map = n->op == OP_input ? &env->inputs : &env->cells;
        if (strmap_has(map, name)) continue;
        Value *v = NEW(a, Value);
        *v = value_new(a, &n->type);
        s = (uint32_t)hash_str(name);
        for (int64_t k = 0; k < type_count(&n->type); k++) {
            s = s * 1664525u + 1013904223u;
            double u = (s >> 8) / 16777216.0;
            if (dtype_is_float(n->type.dtype))
                v->f[k] = 2 * u - 1;
            else
                v->i[k] = n->type.rank ? (int64_t)(u * 2.9) : 3;
        }
        strmap_set(map, name, v);
    }
}

static inline bool run_with(Arena *a, Run *r, const char *name, const char *text, PassOptions o)
{
    *r = (Run){.d = diags_new(a)};
    r->m = frontend_compile(a, r->d, "case.net", text, strlen(text),
                            &(FrontendOptions){.scale_loss = o.precision == PREC_F16});
    bool ok = r->m && !r->d->errors && passes_run(r->m, &o, NULL);
    if (ok) {
        r->train = module_entry(r->m, "train")->graph;
        EvalEnv env = {.arena = a, .inputs = strmap_new(a), .cells = strmap_new(a)};
        fill(a, &env, r->train);
        ok = eval_graph(r->train, &env, &r->result);
    }
    Buf b = buf_new(a);
    diags_render(r->d, &b, false);
    CHECK_MSG(ok, "%s: %s\n%s", name, b.data ? b.data : "", text);
    return ok;
}

static inline bool run(Arena *a, Run *r, const char *name, const char *text, Precision precision,
                       Target target, const char *skip)
{
    return run_with(
        a, r, name, text,
        (PassOptions){
            .target = &target, .precision = precision, .skip = skip, .attention_bytes = 4000});
}

static inline int count_calls(const Graph *g, const char *name)
{
    int n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        n += x->op == OP_call && !strcmp(attr_str(x, ATTR_name), name);
    }
    return n;
}

static inline void compare(const char *name, const StrMap *have, const StrMap *want)
{
    CHECK_MSG(have->n == want->n, "%s: %u values, not %u", name, have->n, want->n);
    for (uint32_t i = 0; i < want->n; i++) {
        const Value *w = want->entry[i].value, *h = strmap_get(have, want->entry[i].key);
        double worst = 0, most = 0;
        for (int64_t k = 0; h && k < type_count(&w->type); k++) {
            double d = fabs(value_get(h, k) - value_get(w, k));
            if (!(d <= worst)) worst = d;
            most = fmax(most, fabs(value_get(w, k)));
        }
        CHECK_MSG(h && worst <= 1e-6 * (1 + most), "%s: %s differs by %g of %g", name,
                  want->entry[i].key, worst, most);
    }
}

#endif
