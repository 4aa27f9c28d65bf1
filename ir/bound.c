// The errors of values, one rule a class of ops; what they mean is in bound.h.
//
// Most rules run the op's own rule of the evaluator on other numbers: on the operands moved by
// their errors, on magnitudes, on the errors themselves. So no rule knows an index or an axis.
#include "ir/bound.h"

#include <float.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/eval_ops.h"

enum { COSTLY_ULPS = 2 }; // what prelude functions lose beside their operand's last place

static double epsilon(DType t)
{
    return t == DT_BF16 ? 0x1p-7 : t == DT_F16 ? 0x1p-10 : t == DT_F64 ? 0x1p-52 : 0x1p-23;
}

static double largest(DType t)
{
    return t == DT_F64 ? DBL_MAX : t == DT_F16 ? 65504 : FLT_MAX;
}

double bound_rounding(DType t, double x)
{
    double least = t == DT_F64 ? DBL_MIN : t == DT_F16 ? 0x1p-24 : FLT_MIN;
    return fmax(epsilon(t) * fabs(x), least);
}

typedef enum Side { BELOW, ABOVE } Side;

// An error that lets the value v be y. Where only one of them is a number it lets it be anything.
static void admit(double error[2], double v, double y)
{
    double d = y - v;
    if (y == v || (isnan(v) && isnan(y))) return;
    if (isnan(d)) error[BELOW] = error[ABOVE] = INFINITY;
    if (d < 0) error[BELOW] = fmax(error[BELOW], -d);
    if (d > 0) error[ABOVE] = fmax(error[ABOVE], d);
}

// Adds what rounding v may do, which does not carry it across zero.
static void add_rounding(double error[2], double v, double lost)
{
    for (int k = 0; k < 2; k++) {
        bool ends = (k == BELOW ? v : -v) > 0 && error[k] <= fabs(v);
        error[k] = ends ? fmin(error[k] + lost, fabs(v)) : error[k] + lost;
    }
}

// -- values that stand for something else ---------------------------------------------------------

// What of an element: its error on a side, the value at the end of that side, magnitudes, squares.
typedef enum Part {
    ERROR_BELOW = BELOW,
    ERROR_ABOVE = ABOVE,
    LOWEST,
    HIGHEST,
    MAGNITUDE,
    LARGEST, // magnitude
    SQUARE,
    LARGEST_SQUARE,
    ERROR_SQUARE,
    REACH_SQUARE // of the error with the element's last place
} Part;

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
static Value *part(Eval *e, const Value *v, Part p)
{
    Value *out = NEW(e->env->arena, Value);
    Type t = v->type;
    t.dtype = DT_F64;
    *out = value_new(e->env->arena, &t);
    double eps = dtype_is_float(v->type.dtype) ? epsilon(v->type.dtype) : 0, below = 0, above = 0;
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
static double *rerun(Eval *e, EvalRule *rule, const Node *n, Value *const *args, const Type *like)
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
    return rerun(e, eval_rule(n->op), n, (Value *[]){part(e, v, p)}, &out->type);
}

static bool are_whole(const Value *v)
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
    if (!dtype_is_float(t) || (whole && magnitude * epsilon(t) < 2)) return 0;
    return magnitude > largest(t) ? INFINITY : epsilon(t) * sqrt(K) * magnitude;
}

static DType accumulator(const Node *n)
{
    return (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype));
}

// Adds what element i of a sum of K terms may have lost.
static void add_lost(const Node *n, Value *out, int64_t i, double K, double magnitude, bool whole)
{
    double v = value_get(out, i), error[] = {out->error[BELOW][i], out->error[ABOVE][i]};
    double sum = lost(accumulator(n), K, magnitude, whole);
    if (isfinite(v) && !whole && value_is_float(out)) sum += bound_rounding(n->type.dtype, v);
    if (magnitude == fabs(v)) {
        add_rounding(error, v, sum); // all terms have one sign
    } else {
        error[BELOW] += sum;
        error[ABOVE] += sum;
    }
    for (int k = 0; k < 2; k++) out->error[k][i] = error[k];
}

// -- elements that are their line's maximum -------------------------------------------------------

// The reduction that operand k of a comparison repeats, where it chose one of the other operand's
// elements.
static const Node *chosen_from(const Node *n, uint32_t k)
{
    const Node *r = n->args[k];
    while (node_class(r) == CLS_VIEW && r->nargs == 1) r = r->args[0];
    Accumulate acc = op_info(r->op)->acc;
    return (acc == ACC_MAX || acc == ACC_MIN) && r->args[0] == n->args[1 - k] ? r : NULL;
}

// Whether x marks, in each line of a maximum's operand, the elements that equal it.
static bool marks_of_maximum(const Node *x)
{
    if (x->op == OP_cast) x = x->args[0];
    return x->op == OP_eq && (chosen_from(x, 0) || chosen_from(x, 1));
}

// v, of the shape of [from], as the views between [from] and [to] repeat it.
static Value *through_views(Eval *e, const Node *from, const Node *to, Value *v)
{
    if (from == to) return v;
    VEC(const Node *) chain = {0};
    for (; to != from; to = to->args[0]) vec_push(e->env->arena, &chain, to);
    for (uint32_t i = chain.n; i-- > 0;) {
        Value *next = NEW(e->env->arena, Value);
        Type t = chain.at[i]->type;
        t.dtype = DT_F64;
        *next = (Value){.type = t};
        next->f = rerun(e, eval_rule(chain.at[i]->op), chain.at[i], &v, &t);
        v = next;
    }
    return v;
}

// A value is the same wherever it is computed, so the element that is the maximum equals it,
// however uncertain both are, unless another one may be larger.
static void choose(Eval *e, const Node *n, Value *const *args, Value *out)
{
    for (uint32_t k = 0; k < 2; k++) {
        const Node *r = chosen_from(n, k);
        if (!r) continue;
        int64_t count = type_count(&n->type);
        Type t = n->type;
        t.dtype = DT_F64;
        Value near = value_new(e->env->arena, &t), *operand = &near;
        for (int64_t i = 0; i < count; i++)
            near.f[i] = value_get(args[0], i) != value_get(args[1], i) &&
                        out->error[BELOW][i] + out->error[ABOVE][i] > 0;
        t = r->type;
        t.dtype = DT_F64;
        Value any = {.type = t};
        any.f = rerun(e, eval_max, r, &operand, &t);
        const Value *contested = through_views(e, r, n->args[k], &any);
        for (int64_t i = 0; i < count; i++)
            if (value_get(args[0], i) == value_get(args[1], i) && !(contested->f[i] > 0))
                out->error[BELOW][i] = out->error[ABOVE][i] = 0;
    }
}

// -- elementwise ----------------------------------------------------------------------------------

typedef struct Element {
    const Node *n;
    DType type[3], result;
    Scalar x[3];
} Element;

static double element_value(const Element *m, bool round)
{
    const Node *n = m->n;
    DType operand = m->type[n->nargs - 1];
    Scalar v = op_info(n->op)->flags & OPF_CONVERTS
                   ? scalar_cast(operand, m->result, m->x[0], round)
                   : scalar_apply(n->op, operand, m->result, m->x[0], m->x[1], m->x[2], round);
    return dtype_is_float(m->result) ? v.f : (double)v.i;
}

// Its value when operand k, wherever it stands, moves by so much.
static double moved(const Element *at, uint32_t k, double by)
{
    Element m = *at;
    for (uint32_t j = k; j < m.n->nargs; j++) {
        if (m.n->args[j] != m.n->args[k]) continue;
        if (dtype_is_float(m.type[j]))
            m.x[j].f += by;
        else
            m.x[j].i =
                m.type[j] == DT_BOOL ? by > 0 : scalar_to_int(m.type[j], (double)m.x[j].i + by);
    }
    return element_value(&m, true);
}

// Adds how far the value v moves with operand k anywhere within its error. Zero is looked at, too:
// it is where functions have their poles, their kinks and the ends of their domains.
static void add_reach(const Element *m, uint32_t k, const double own[2], double v, double error[2])
{
    double x = m->x[k].f, reach[2] = {0},
           end[] = {moved(m, k, -own[BELOW]), moved(m, k, own[ABOVE])};
    if (dtype_is_float(m->type[k]) && x != 0 && own[x < 0] >= fabs(x)) {
        double zero = moved(m, k, -x);
        admit(reach, v, zero);
        if (isnan(end[x < 0]) && isfinite(zero)) end[x < 0] = zero;
    }
    for (int side = 0; side < 2; side++)
        if (own[side] > 0) admit(reach, v, end[side]);
    // Both ends on one side of the value: it turns or jumps between them, as a remainder does, and
    // may come as far to the other side.
    if (own[BELOW] > 0 && own[ABOVE] > 0 && (end[BELOW] - v) * (end[ABOVE] - v) > 0)
        reach[BELOW] = reach[ABOVE] = fmax(reach[BELOW], reach[ABOVE]);
    for (int side = 0; side < 2; side++) error[side] += reach[side];
}

// The larger of two equal values falls only when both do: all operands at their lower ends, and at
// their upper ones.
static void admit_together(const Element *at, double own[3][2], double v, double error[2])
{
    int moving = 0;
    for (uint32_t k = 0; k < at->n->nargs; k++)
        moving += dtype_is_float(at->type[k]) && own[k][BELOW] + own[k][ABOVE] > 0;
    for (int side = 0; side < 2 && moving > 1; side++) {
        Element m = *at;
        for (uint32_t k = 0; k < m.n->nargs; k++)
            if (dtype_is_float(m.type[k]))
                m.x[k].f += side == BELOW ? -own[k][BELOW] : own[k][ABOVE];
        double y = element_value(&m, true);
        if (isfinite(y)) admit(error, v, y);
    }
}

// What computing one element and rounding it to its type may lose by itself.
static double own_error(const Element *m, double v)
{
    unsigned flags = op_info(m->n->op)->flags;
    if (!dtype_is_float(m->result) || !isfinite(v) || flags & OPF_CONVERTS) return 0;
    if (flags & OPF_COSTLY) return COSTLY_ULPS * bound_rounding(m->result, v);
    for (uint32_t k = 0; k < m->n->nargs; k++) {
        double x = dtype_is_float(m->type[k]) ? m->x[k].f : (double)m->x[k].i;
        if (v == x || v == -x) return 0;
    }
    if (m->result != DT_F64 && element_value(m, false) == v) return 0;
    return bound_rounding(m->result, v);
}

// The errors of operand k's element i as the op sees them.
static void operand_error(const Node *n, const Element *m, const Value *v, uint32_t k, int64_t i,
                          double own[2])
{
    unsigned flags = op_info(n->op)->flags;
    bool real = dtype_is_float(m->type[k]), narrows = flags & OPF_CONVERTS;
    for (int side = 0; side < 2; side++) {
        own[side] = v->error[side] ? v->error[side][i] : 0;
        if (flags & OPF_COSTLY && real && isfinite(m->x[k].f))
            own[side] += epsilon(m->type[k]) * fabs(m->x[k].f);
        if (narrows && real && dtype_is_float(m->result)) own[side] *= BOUND_SLACK;
    }
}

static void bound_elementwise(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Element m = {.n = n, .result = n->type.dtype};
    bool any = dtype_is_float(n->type.dtype);
    for (uint32_t k = 0; k < n->nargs; k++) {
        m.type[k] = args[k]->type.dtype;
        any |= args[k]->error[0] != NULL;
    }
    if (!any) return;
    value_errors(e->env->arena, out);
    int64_t count = type_count(&n->type);
    any = false;
    for (int64_t i = 0; i < count; i++) {
        double v = value_get(out, i), error[2] = {0}, own[3][2];
        for (uint32_t k = 0; k < n->nargs; k++) m.x[k] = value_at(args[k], i);
        for (uint32_t k = 0; k < n->nargs; k++) {
            operand_error(n, &m, args[k], k, i, own[k]);
            if (own[k][BELOW] + own[k][ABOVE] > 0 && (k == 0 || n->args[k] != n->args[0]))
                add_reach(&m, k, own[k], v, error);
        }
        if (n->nargs > 1 && isfinite(v)) admit_together(&m, own, v, error);
        add_rounding(error, v, own_error(&m, v));
        for (int side = 0; side < 2; side++) out->error[side][i] = error[side];
        any |= error[BELOW] + error[ABOVE] > 0;
    }
    if (!any) out->error[BELOW] = out->error[ABOVE] = NULL;
    if (op_info(n->op)->rule == EW_compare && out->error[0]) choose(e, n, args, out);
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
static void along(Eval *e, const Node *node, Value *const *args, Value *out, uint32_t n)
{
    bool any = false;
    Value **errors = NEW_ARRAY(e->env->arena, Value *, node->nargs + 1);
    for (uint32_t k = 0; k < n; k++) any |= args[k]->error[0] != NULL;
    for (int side = 0; side < 2 && any; side++) {
        for (uint32_t k = 0; k < node->nargs; k++)
            errors[k] = k < n ? part(e, args[k], (Part)side) : args[k];
        out->error[side] = rerun(e, eval_rule(node->op), node, errors, &out->type);
    }
}

static void bound_view(Eval *e, const Node *n, Value *const *args, Value *out)
{
    along(e, n, args, out, n->nargs);
}

static bool undecided(const Value *index)
{
    int64_t n = type_count(&index->type);
    for (int64_t i = 0; i < n && index->error[0]; i++)
        if (index->error[BELOW][i] > 0 || index->error[ABOVE][i] > 0) return true;
    return false;
}

static void nothing_is_known(Eval *e, Value *out)
{
    value_errors(e->env->arena, out);
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < type_count(&out->type); i++) out->error[side][i] = INFINITY;
}

static void bound_dynamic_slice(Eval *e, const Node *n, Value *const *args, Value *out)
{
    along(e, n, args, out, 1);
    for (uint32_t k = 1; k < n->nargs; k++)
        if (undecided(args[k])) nothing_is_known(e, out);
}

static void bound_dynamic_update(Eval *e, const Node *n, Value *const *args, Value *out)
{
    along(e, n, args, out, 2);
    for (uint32_t k = 2; k < n->nargs; k++)
        if (undecided(args[k])) nothing_is_known(e, out);
}

// Where an index is uncertain: whatever it may mean.
static void bound_gather(Eval *e, const Node *n, Value *const *args, Value *out)
{
    along(e, n, args, out, 1);
    if (!undecided(args[1])) return;
    if (!out->error[0]) value_errors(e->env->arena, out);
    const Value *data = args[0], *index = args[1];
    int64_t axis = attr_int(n, ATTR_axis, 0), size = data->type.dim[axis], inner = 1;
    int64_t picks = type_count(&index->type), count = type_count(&out->type);
    for (int k = (int)axis + 1; k < data->type.rank; k++) inner *= data->type.dim[k];
    for (int64_t to = 0; to < count; to++) {
        int64_t p = to / inner % picks, o = to / inner / picks, i = to % inner;
        double v = value_get(out, to), error[] = {out->error[BELOW][to], out->error[ABOVE][to]};
        double at = (double)index->i[p];
        int64_t low = (int64_t)fmax(at - index->error[BELOW][p], 0);
        int64_t high = (int64_t)fmin(at + index->error[ABOVE][p], (double)size - 1);
        for (int64_t k = low; k <= high && low < high; k++) {
            int64_t from = (o * size + k) * inner + i;
            double x = value_get(data, from);
            admit(error, v, data->error[0] ? x - data->error[BELOW][from] : x);
            admit(error, v, data->error[0] ? x + data->error[ABOVE][from] : x);
        }
        for (int side = 0; side < 2; side++) out->error[side][to] = error[side];
    }
}

static void bound_scatter(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bool any = args[0]->error[0] || args[2]->error[0];
    for (int side = 0; side < 2 && any; side++) {
        Value *errors[] = {part(e, args[0], (Part)side), args[1], part(e, args[2], (Part)side)};
        out->error[side] = rerun(e, eval_rule(n->op), n, errors, &out->type);
    }
    if (undecided(args[1])) nothing_is_known(e, out);
}

static void bound_scatter_add(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_scatter(e, n, args, out);
    if (!value_is_float(out)) return;
    if (!out->error[0]) value_errors(e->env->arena, out);
    Value *sizes[] = {part(e, args[0], MAGNITUDE), args[1], part(e, args[2], MAGNITUDE)};
    bool whole = are_whole(args[0]) && are_whole(args[2]);
    double picks = (double)type_count(&args[1]->type);
    double *size = rerun(e, eval_scatter_add, n, sizes, &out->type);
    for (int64_t i = 0; i < type_count(&out->type); i++)
        if (size[i] != sizes[0]->f[i]) add_lost(n, out, i, picks, size[i], whole);
}

// -- reductions -----------------------------------------------------------------------------------

// Ops that never fall when an operand rises: their value with all operands at either end.
static void bound_monotone(Eval *e, const Node *n, Value *const *args, Value *out)
{
    if (!args[0]->error[0]) return;
    double *low = over(e, n, args[0], LOWEST, out), *high = over(e, n, args[0], HIGHEST, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double v = value_get(out, i), error[2] = {0};
        admit(error, v, low[i]);
        admit(error, v, high[i]);
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
    bool whole = are_whole(v);
    for (int64_t i = 0; i < type_count(&out->type) && K > 1; i++)
        add_lost(n, out, i, (double)K, size[i], whole);
}

static void bound_sum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    add_up(e, n, args[0], out, reduced_count(n));
    if (out->error[0] && marks_of_maximum(n->args[0]))
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
        admit(error, size[i], high[i]);
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
    double *reach = rerun(e, eval_sum, n, (Value *[]){part(e, args[0], REACH_SQUARE)}, &out->type);
    value_errors(e->env->arena, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double v = out->f[i], error = 2 * sqrt(v * reach[i]) + reach[i];
        out->error[BELOW][i] = fmin(error, v);
        out->error[ABOVE][i] = error;
        add_lost(n, out, i, (double)reduced_count(n), v, false);
    }
}

// -- places ---------------------------------------------------------------------------------------

// An axis of a shape: elements of a line lie [step] apart.
typedef struct Lines {
    int64_t count, size, step;
} Lines;

static Lines lines_of(const Type *t, int64_t axis)
{
    Lines l = {1, t->dim[axis], 1};
    for (int i = 0; i < t->rank; i++) {
        if (i != axis) l.count *= t->dim[i];
        if (i > axis) l.step *= t->dim[i];
    }
    return l;
}

static int64_t line_begin(const Lines *l, int64_t k)
{
    return k / l->step * l->size * l->step + k % l->step;
}

// Whether element b, which is no larger, may be at least as large as a; downwards for smaller ones.
static bool may_pass(const Value *v, int64_t a, int64_t b)
{
    double x = value_get(v, a), y = value_get(v, b);
    if (x < y) return x + v->error[ABOVE][a] >= y - v->error[BELOW][b];
    double reach = v->error[BELOW][a] + v->error[ABOVE][b];
    return reach > 0 && !(x - y > reach);
}

static void bound_argmax(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0]) return;
    Lines l = lines_of(&v->type, attr_ints(n, ATTR_axes, NULL)[0]);
    value_errors(e->env->arena, out);
    for (int64_t k = 0; k < l.count; k++) {
        int64_t at = line_begin(&l, k), best = out->i[k];
        double error[2] = {0};
        for (int64_t i = 0; i < l.size; i++)
            if (may_pass(v, at + best * l.step, at + i * l.step))
                admit(error, (double)best, (double)i);
        for (int side = 0; side < 2; side++) out->error[side][k] = error[side];
    }
}

// Neighbours in the order that may change places, and theirs: each may stand where any of them
// does.
static void bound_argsort(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0]) return;
    Lines l = lines_of(&v->type, attr_int(n, ATTR_axis, 0));
    value_errors(e->env->arena, out);
    for (int64_t k = 0; k < l.count; k++) {
        int64_t at = line_begin(&l, k);
        for (int64_t i = 0, end; i < l.size; i = end) {
            int64_t low = out->i[at + i * l.step], high = low;
            for (end = i + 1; end < l.size; end++) {
                int64_t before = out->i[at + (end - 1) * l.step], p = out->i[at + end * l.step];
                if (!may_pass(v, at + before * l.step, at + p * l.step)) break;
                low = p < low ? p : low;
                high = p > high ? p : high;
            }
            for (int64_t j = i; j < end; j++) {
                int64_t to = at + j * l.step;
                out->error[BELOW][to] = (double)(out->i[to] - low);
                out->error[ABOVE][to] = (double)(high - out->i[to]);
            }
        }
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
    bool real = value_is_float(out), whole = are_whole(&a) && are_whole(&b);
    if (e->env->tf32 && a.type.dtype == DT_F32 && b.type.dtype == DT_F32)
        a = as_tf32(e, &a), b = as_tf32(e, &b);
    if (!real && !a.error[0] && !b.error[0]) return;
    int64_t count = type_count(&out->type), K = reduced_count(n);
    value_errors(e->env->arena, out);
    double *below = out->error[BELOW], *above = out->error[ABOVE];
    for (int side = 0; side < 2; side++) {
        if (!(side ? b.error[0] : a.error[0])) continue;
        Value *v[] = {part(e, &a, side ? SQUARE : ERROR_SQUARE),
                      part(e, &b, side ? ERROR_SQUARE : LARGEST_SQUARE)};
        double *s = rerun(e, eval_dot, n, v, &out->type);
        for (int64_t i = 0; i < count; i++) below[i] += s[i];
    }
    Value *sizes[] = {part(e, &a, MAGNITUDE), part(e, &b, MAGNITUDE)};
    double *size = rerun(e, eval_dot, n, sizes, &out->type);
    for (int64_t i = 0; i < count; i++) {
        below[i] = above[i] = sqrt(below[i]);
        add_lost(n, out, i, (double)K, size[i], whole);
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

// -- comparing ------------------------------------------------------------------------------------

void bound_allowed(const Value *want, int64_t i, double *below, double *above)
{
    double v = value_get(want, i), round = 0, *to[] = {below, above};
    if (value_is_float(want) && isfinite(v) && v != 0) round = bound_rounding(want->type.dtype, v);
    for (int side = 0; side < 2; side++) {
        double error = want->error[side] ? want->error[side][i] : 0;
        *to[side] = round + (error > 0 ? BOUND_SLACK * error : 0);
    }
}

// The difference over what is allowed; infinite where one is no number and the other is. An
// allowance that reaches the end of the range allows what lies behind it.
static double share(DType t, double have, double want, double allowed)
{
    double d = fabs(have - want);
    if (have == want || (isnan(have) && isnan(want)) || allowed == INFINITY) return 0;
    if (dtype_is_float(t) && isinf(have) && fabs(want) + allowed > largest(t)) return 1;
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

Agreement bound_compare(const Value *have, const Value *want)
{
    Agreement a = {.compared = type_count(&want->type), .at = -1};
    double size = mean_size(want), below, above;
    for (int64_t i = 0; i < a.compared; i++) {
        double x = value_get(have, i), v = value_get(want, i);
        bound_allowed(want, i, &below, &above);
        double most = fmax(below, above), allowed = x < v ? below : x > v ? above : most;
        double s = share(want->type.dtype, x, v, allowed);
        a.wrong += s > 1;
        a.undecided += most > 0 && most >= fmax(fabs(v), size);
        if (a.at >= 0 && s <= a.worst) continue;
        a.worst = s;
        a.at = i;
        a.have = x;
        a.want = v;
        a.allowed = allowed;
    }
    return a;
}
