// The errors of values: rounding, and the rules of views, reductions and contractions (bound.h).
#include <float.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/bound_ops.h"

double bound_epsilon(DType t)
{
    return t == DT_BF16 ? 0x1p-8 : t == DT_F16 ? 0x1p-11 : t == DT_F64 ? 0x1p-53 : 0x1p-24;
}

double bound_largest(DType t)
{
    return t == DT_F64 ? DBL_MAX : t == DT_F16 ? 65504 : FLT_MAX;
}

double bound_rounding(DType t, double x)
{
    double least = t == DT_F64 ? DBL_MIN : t == DT_F16 ? 0x1p-24 : FLT_MIN;
    return fmax(bound_epsilon(t) * fabs(x), least);
}

// An error that lets the value v be y. Where only one of them is a number it lets it be anything.
void bound_admit(double error[2], double v, double y)
{
    double d = y - v;
    if (y == v || (isnan(v) && isnan(y))) return;
    if (isnan(d)) error[BELOW] = error[ABOVE] = INFINITY;
    if (d < 0) error[BELOW] = fmax(error[BELOW], -d);
    if (d > 0) error[ABOVE] = fmax(error[ABOVE], d);
}

// Adds what rounding v may do, which does not carry it across zero.
void bound_add_rounding(double error[2], double v, double lost)
{
    for (int k = 0; k < 2; k++) {
        bool ends = (k == BELOW ? v : -v) > 0 && error[k] <= fabs(v);
        error[k] = ends ? fmin(error[k] + lost, fabs(v)) : error[k] + lost;
    }
}

// -- values that stand for something else ---------------------------------------------------------

static double part_of(Part p, double x, double below, double above, double last)
{
    double error = fmax(below, above);
    switch (p) {
    case ERROR_BELOW: return below;
    case ERROR_ABOVE: return above;
    case LOWEST: return x - below;
    case HIGHEST: return x + above;
    case MAGNITUDE: return fabs(x);
    case LARGEST: return fabs(x) + error;
    case SQUARE: return x * x;
    case LARGEST_SQUARE: return (fabs(x) + error) * (fabs(x) + error);
    case ERROR_SQUARE: return error * error;
    case REACH_SQUARE: return (error + last) * (error + last);
    }
    return 0;
}

// One part of every element of v, as doubles.
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
        out->f[i] = part_of(p, x, below, above, eps * fabs(x));
    }
    return out;
}

// What a rule of the evaluator makes of other operands, in doubles and unrounded.
double *bound_rerun(Eval *e, EvalRule *rule, const Node *n, Value *const *args, const Type *like)
{
    EvalEnv env = *e->env;
    EvalResult result = *e->out;
    env.round = env.bound = false;
    Eval other = {.env = &env, .out = &result, .diags = e->diags, .frame = e->frame};
    Type t = *like;
    t.dtype = DT_F64;
    Value out = value_new(env.arena, &t);
    rule(&other, n, args, &out);
    return out.f;
}

// The same for the op of a node with one operand, of which one part is taken.
static double *over(Eval *e, const Node *n, const Value *v, Part p, const Value *out)
{
    return bound_rerun(e, eval_rule(n->op), n, (Value *[]){bound_part(e, v, p)}, &out->type);
}

bool bound_are_whole(const Value *v)
{
    int64_t n = type_count(&v->type);
    for (int64_t i = 0; i < n && value_is_float(v); i++)
        if (v->f[i] != rint(v->f[i])) return false;
    return true;
}

// What adding up K terms in type t may lose; sums of whole numbers lose nothing until they are
// longer than the type.
static double lost(DType t, double K, double magnitude, bool whole)
{
    if (!dtype_is_float(t) || (whole && magnitude * bound_epsilon(t) < 2)) return 0;
    return magnitude > bound_largest(t) ? INFINITY : bound_epsilon(t) * sqrt(K) / 4 * magnitude;
}

static DType accumulator(const Node *n)
{
    return (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype));
}

// Adds what element i of a sum of K terms may have lost.
void bound_add_lost(const Node *n, Value *out, int64_t i, double K, double magnitude, bool whole)
{
    double v = value_get(out, i), error[] = {out->error[BELOW][i], out->error[ABOVE][i]};
    double sum = lost(accumulator(n), K, magnitude, whole);
    if (isfinite(v) && !whole && value_is_float(out)) sum += bound_rounding(n->type.dtype, v);
    if (magnitude == fabs(v)) {
        bound_add_rounding(error, v, sum); // all terms have one sign
    } else {
        error[BELOW] += sum;
        error[ABOVE] += sum;
    }
    for (int k = 0; k < 2; k++) out->error[k][i] = error[k];
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

// Ops that never fall when an operand rises: their value with all operands at either end.
static void bound_monotone(Eval *e, const Node *n, Value *const *args, Value *out)
{
    if (!args[0]->error[0]) return;
    double *low = over(e, n, args[0], LOWEST, out), *high = over(e, n, args[0], HIGHEST, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double v = value_get(out, i), error[2] = {0};
        bound_admit(error, v, low[i]);
        bound_admit(error, v, high[i]);
        low[i] = error[BELOW];
        high[i] = error[ABOVE];
    }
    out->error[BELOW] = low;
    out->error[ABOVE] = high;
}
#define bound_max  bound_monotone
#define bound_min  bound_monotone
#define bound_sort bound_monotone

// Sums of K terms, and running sums.
static void add_up(Eval *e, const Node *n, const Value *v, Value *out, int64_t K)
{
    if (!v->error[0] && (!value_is_float(out) || K < 2)) return;
    value_errors(e->env->arena, out);
    for (int side = 0; side < 2 && v->error[0]; side++)
        out->error[side] = over(e, n, v, (Part)side, out);
    double *size = over(e, n, v, MAGNITUDE, out);
    bool whole = bound_are_whole(v);
    for (int64_t i = 0; i < type_count(&out->type) && K > 1; i++)
        bound_add_lost(n, out, i, (double)K, size[i], whole);
}

static void bound_sum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    add_up(e, n, args[0], out, reduced_count(n));
    if (out->error[0] && bound_marks_maximum(n->args[0]))
        for (int64_t i = 0; i < type_count(&out->type); i++)
            out->error[BELOW][i] = fmin(out->error[BELOW][i], fmax(value_get(out, i) - 1, 0));
}

static void bound_cumsum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    add_up(e, n, args[0], out, n->type.dim[attr_int(n, ATTR_axis, 0)]);
}

static void bound_prod(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0] && !value_is_float(out)) return;
    double *size = over(e, n, v, MAGNITUDE, out), *high = over(e, n, v, LARGEST, out);
    value_errors(e->env->arena, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double error[2] = {0};
        bound_admit(error, size[i], high[i]);
        if (value_is_float(out) && isfinite(size[i]))
            error[ABOVE] += (double)reduced_count(n) * bound_rounding(accumulator(n), size[i]) +
                            bound_rounding(n->type.dtype, size[i]);
        for (int side = 0; side < 2; side++) out->error[side][i] = error[ABOVE];
    }
}

// The sum of (d + error of d)^2: by Cauchy and Schwarz no more than 2 sqrt(D E) + E beside D, with
// E the sum of the squares of those errors.
static void bound_sqdev(Eval *e, const Node *n, Value *const *args, Value *out)
{
    double *reach =
        bound_rerun(e, eval_sum, n, (Value *[]){bound_part(e, args[0], REACH_SQUARE)}, &out->type);
    value_errors(e->env->arena, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double v = out->f[i], error = 2 * sqrt(v * reach[i]) + reach[i];
        out->error[BELOW][i] = fmin(error, v);
        out->error[ABOVE][i] = error;
        bound_add_lost(n, out, i, (double)reduced_count(n), v, false);
    }
}

// -- contractions ---------------------------------------------------------------------------------

// v, with its rounding to tf32 among its errors.
static Value as_tf32(Eval *e, const Value *v)
{
    Value out = *v;
    value_errors(e->env->arena, &out);
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < type_count(&v->type); i++)
            out.error[side][i] = (v->error[side] ? v->error[side][i] : 0) + 0x1p-10 * fabs(v->f[i]);
    return out;
}

// (a + da)(b + db) - a b is at most da (b + db) + a db.
static void bound_dot(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Value a = *args[0], b = *args[1];
    bool real = value_is_float(out), whole = bound_are_whole(&a) && bound_are_whole(&b);
    if (e->env->tf32 && a.type.dtype == DT_F32 && b.type.dtype == DT_F32)
        a = as_tf32(e, &a), b = as_tf32(e, &b);
    if (!real && !a.error[0] && !b.error[0]) return;
    int64_t count = type_count(&out->type), K = reduced_count(n);
    value_errors(e->env->arena, out);
    double *below = out->error[BELOW], *above = out->error[ABOVE];
    for (int side = 0; side < 2; side++) {
        if (!(side ? b.error[0] : a.error[0])) continue;
        Value *v[] = {bound_part(e, &a, side ? SQUARE : ERROR_SQUARE),
                      bound_part(e, &b, side ? ERROR_SQUARE : LARGEST_SQUARE)};
        double *s = bound_rerun(e, eval_dot, n, v, &out->type);
        for (int64_t i = 0; i < count; i++) below[i] += s[i];
    }
    Value *sizes[] = {bound_part(e, &a, MAGNITUDE), bound_part(e, &b, MAGNITUDE)};
    double *size = bound_rerun(e, eval_dot, n, sizes, &out->type);
    for (int64_t i = 0; i < count; i++) {
        below[i] = above[i] = sqrt(below[i]);
        bound_add_lost(n, out, i, (double)K, size[i], whole);
    }
}

// -- all ops --------------------------------------------------------------------------------------

static EvalRule *const rules[OP_COUNT] = {
#define RULE_REDUCE(id)           bound_##id
#define RULE_DOT(id)              bound_##id
#define RULE_INDEX(id)            bound_##id
#define RULE_SCAN(id)             bound_##id
#define RULE_VIEW(id)             bound_view
#define RULE_LEAF(id)             bound_none
#define RULE_REGION(id)           bound_none // their values come with errors
#define RULE_META(id)             bound_none
#define RULE_ROOT(id)             bound_none
#define EW(id, ...)               [OP_##id] = bound_elementwise,
#define OP(id, arity, class, ...) [OP_##id] = RULE_##class(id),
#include "ir/ops.def"
#undef EW
#undef OP
};

void bound_node(Eval *e, const Node *n, Value *const *args, Value *out)
{
    rules[n->op](e, n, args, out);
}
