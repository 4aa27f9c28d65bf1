// A small bench for the tests of ir/: an arena, diagnostics, a graph, and values from C arrays.
#ifndef TESTS_IR_COMMON_H
#define TESTS_IR_COMMON_H

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "ir/eval.h"
#include "tests/unit/unit.h"

static Arena *arena;
static Diags *diags;

static inline Graph *fresh(void)
{
    diags = diags_new(arena);
    return graph_new(arena, diags, NULL);
}

static inline Type shape(DType t, int rank, ...)
{
    Type out = {.dtype = t, .rank = (uint8_t)rank};
    va_list args;
    va_start(args, rank);
    for (int i = 0; i < rank; i++) out.dim[i] = va_arg(args, int);
    va_end(args);
    return out;
}

static inline Node *input(Graph *g, const char *name, Type t)
{
    return graph_input(g, name, &t, "arg");
}

static inline EvalEnv environment(void)
{
    return (EvalEnv){.arena = arena, .inputs = strmap_new(arena), .cells = strmap_new(arena)};
}

static inline Value *give(EvalEnv *env, const char *name, Type t, const double *data)
{
    Value *v = NEW(arena, Value);
    *v = value_new(arena, &t);
    for (int64_t i = 0; i < type_count(&t); i++) {
        if (dtype_is_float(t.dtype))
            v->f[i] = data[i];
        else
            v->i[i] = (int64_t)data[i];
    }
    strmap_set(&env->inputs, name, v);
    return v;
}

#define DATA(...) ((const double[]){__VA_ARGS__})

// Evaluates one node of g and compares all its elements, NaN equal to NaN, zeros by sign.
static inline bool gives(Graph *g, EvalEnv *env, Node *n, const double *want)
{
    EvalResult r;
    Value **all = NEW_ARRAY(arena, Value *, g->nodes.n);
    if (node_is_poison(n) || !eval_graph_all(g, env, &r, all)) return false;
    const Value *v = all[n->id];
    for (int64_t i = 0; i < type_count(&n->type); i++) {
        double x = value_get(v, i);
        if (x != x && want[i] != want[i]) continue;
        if (fabs(x - want[i]) > 1e-12 * fabs(want[i]) && x != want[i]) {
            printf("element %lld is %.17g, not %.17g\n", (long long)i, x, want[i]);
            return false;
        }
        if (x == 0 && signbit(x) != signbit(want[i])) {
            printf("element %lld has the wrong zero\n", (long long)i);
            return false;
        }
    }
    return true;
}

static inline bool errors_say(const char *text)
{
    for (uint32_t i = 0; i < diags->list.n; i++)
        if (strstr(diags->list.at[i].text, text)) return true;
    for (uint32_t i = 0; i < diags->list.n; i++) printf("said: %s\n", diags->list.at[i].text);
    return false;
}

#endif
