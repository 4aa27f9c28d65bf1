// Error bounds of values: rounding, and the rules of views and of reductions that choose an element
// (see bound.h).
#include <float.h>
#include <string.h>

#include "base/map.h"
#include "ir/bound_ops.h"

// -- values that stand for something else ---------------------------------------------------------

static double part_of(Part p, double x, double below, double above, double last)
{
    double error = larger(below, above);
    switch (p) {
    case ERROR_BELOW: return below;
    case ERROR_ABOVE: return above;
    case LOWEST: return below == INFINITY ? -INFINITY : x - below;
    case HIGHEST: return above == INFINITY ? INFINITY : x + above;
    case NO_NUMBER: return smaller(below, above) == INFINITY ? NAN : x;
    case DOUBT: return error > 0;
    case MAGNITUDE: return isfinite(x) ? fabs(x) : 0;
    case LARGEST: return fabs(x) + error;
    case GROWING: return larger(fabs(x) + error, 1);
    case SHRINKING: return smaller(larger(fabs(x) - error, 0), 1);
    case SQUARE: return larger(x * x, DBL_MIN);
    case LARGEST_SQUARE: return larger((fabs(x) + error) * (fabs(x) + error), DBL_MIN);
    case ERROR_SQUARE: return 4 * error > fabs(x) ? 0 : error * error;
    case STEP: return 4 * error > fabs(x) ? error : 0;
    case REACH_SQUARE: return (error + last) * (error + last);
    }
    return 0;
}

// Computes one Part of every element of v, in doubles.
Value *bound_part(Eval *e, const Value *v, Part p)
{
    Value *out = NEW(e->env->arena, Value);
    Type t = v->type;
    t.dtype = DT_F64;
    *out = value_new(e->env->arena, &t);
    double eps = dtype_is_float(v->type.dtype) ? bound_epsilon(v->type.dtype) : 0, below = 0,
           above = 0;
    int64_t n = type_count(&t);
    if (p <= ERROR_ABOVE && !v->error[p]) return out;
    for (int64_t i = 0; i < n; i++) {
        double x = value_get(v, i);
        if (v->error[BELOW]) below = v->error[BELOW][i], above = v->error[ABOVE][i];
        out->f[i] = part_of(p, x, below, above, BOUND_SLACK * eps * fabs(x));
    }
    return out;
}

// The result of the evaluator's rule for [rule] on other operands, in doubles and not rounded.
double *bound_rerun(Eval *e, EvalRule *rule, const Node *n, Value *const *args, const Type *like)
{
    EvalEnv env = *e->env;
    EvalResult result = *e->out;
    env.round = env.bound = false;
    env.noise = 0;
    Eval other = {.env = &env, .out = &result, .diags = e->diags, .frame = e->frame};
    Type t = *like;
    t.dtype = DT_F64;
    Value out = value_new(env.arena, &t);
    rule(&other, n, args, &out);
    return out.f;
}

// The same for the op of n, which has one operand, applied to Part p of v.
double *bound_over(Eval *e, const Node *n, const Value *v, Part p, const Value *out)
{
    return bound_rerun(e, eval_rule(n->op), n, (Value *[]){bound_part(e, v, p)}, &out->type);
}

// -- views and indices ----------------------------------------------------------------------------

static void bound_none(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    (void)n;
    (void)args;
    (void)out;
}

// Runs the op on the errors of its first [n] operands.
void bound_along(Eval *e, const Node *node, Value *const *args, Value *out, uint32_t n)
{
    bool any = false;
    Value **errors = NEW_ARRAY(e->env->arena, Value *, node->nargs + 1);
    for (uint32_t k = 0; k < n; k++) any |= args[k]->error[0] != NULL;
    for (int side = 0; side < 2 && any; side++) {
        for (uint32_t k = 0; k < node->nargs; k++)
            errors[k] = k < n ? bound_part(e, args[k], (Part)side) : args[k];
        out->error[side] = bound_rerun(e, eval_rule(node->op), node, errors, &out->type);
    }
}

static void bound_view(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_along(e, n, args, out, n->nargs);
}

// -- reductions -----------------------------------------------------------------------------------

// Monotonic ops, whose result never decreases if an operand increases: evaluates them with all
// operands at their lower and upper ends, and with NaN where an element may be NaN.
static void bound_monotone(Eval *e, const Node *n, Value *const *args, Value *out)
{
    if (!args[0]->error[0]) return;
    value_errors(e->env->arena, out);
    for (Part p = LOWEST; p <= NO_NUMBER; p++) {
        const double *x = bound_over(e, n, args[0], p, out);
        for (int64_t i = 0; i < type_count(&out->type); i++) {
            double error[] = {out->error[BELOW][i], out->error[ABOVE][i]};
            bound_admit(error, value_get(out, i), x[i]);
            for (int side = 0; side < 2; side++) out->error[side][i] = error[side];
        }
    }
}
#define bound_scatter_min bound_scatter_max
#define bound_max         bound_monotone
#define bound_min         bound_monotone
#define bound_sort        bound_monotone
#define bound_cummax      bound_monotone
#define bound_cummin      bound_monotone
#define bound_cumprod     bound_prod

// -- all ops --------------------------------------------------------------------------------------

static EvalRule *const rules[OP_COUNT] = {
#define RULE_REDUCE(id)           bound_##id
#define RULE_DOT(id)              bound_##id
#define RULE_INDEX(id)            bound_##id
#define RULE_SCAN(id)             bound_##id
#define RULE_VIEW(id)             bound_view
#define RULE_LEAF(id)             bound_none
#define RULE_ELEMENTWISE(id)      bound_none
#define RULE_REGION(id)           bound_none // these compute error bounds along with the values
#define RULE_META(id)             bound_none
#define RULE_ROOT(id)             bound_none
#define EW(id, ...)               [OP_##id] = bound_elementwise,
#define OP(id, arity, class, ...) [OP_##id] = RULE_##class(id),
#include "ir/ops.def"
#undef EW
#undef OP
};

// Passes may add up the terms of a carried value on their own, in a sum's accumulator, before they
// meet what it begins with: that sum may be larger than all that the loop carries, and so its
// rounding.
void bound_carried(Eval *e, const Node *loop, uint32_t k, const Value *was, Value *now)
{
    const Graph *body = loop->regions[0];
    const Node *next = body->results.at[k], *param = body->params.at[k + 1];
    bool adds = false;
    for (uint32_t i = 0; i < next->nargs; i++) adds |= next->args[i] == param;
    adds &= next->op == OP_add || next->op == OP_sub || next->op == OP_fma;
    if (!adds || !dtype_is_float(next->type.dtype)) return;
    if (!now->error[0]) value_errors(e->env->arena, now);
    const double each = bound_epsilon(dtype_accumulator(next->type.dtype)) *
                        sqrt((double)attr_int(loop, ATTR_count, 1));
    for (int64_t i = 0; i < type_count(&now->type); i++) {
        const double term = fabs(value_get(now, i) - value_get(was, i));
        for (int side = 0; side < 2 && isfinite(term); side++) now->error[side][i] += each * term;
    }
}

// Moves every element by a random part of up to a quarter of its error, then removes the errors.
// Equal elements move equally.
static void shake(uint64_t seed, Value *out)
{
    for (int64_t i = 0; i < type_count(&out->type) && value_is_float(out); i++) {
        uint64_t bits;
        memcpy(&bits, &out->f[i], sizeof bits);
        double r = (double)(int64_t)hash_mix(seed, bits) * 0x1p-63; // in [-1, 1]
        double error = out->error[r < 0 ? BELOW : ABOVE][i], moved = out->f[i] + r / 4 * error;
        if (error > 0 && isfinite(moved)) out->f[i] = scalar_round(out->type.dtype, moved);
    }
    out->error[BELOW] = out->error[ABOVE] = NULL;
}

void bound_node(Eval *e, const Node *n, Value *const *args, Value *out)
{
    rules[n->op](e, n, args, out);
    if (e->env->noise && out->error[0]) shake(hash_mix(e->env->noise, n->id), out);
}
