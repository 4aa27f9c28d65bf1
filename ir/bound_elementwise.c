// Error bounds of elementwise ops, found by varying the operands. No rule depends on the particular
// op.
#include "ir/bound_ops.h"

enum {
    COSTLY_ULPS = 2
}; // error of prelude functions, in addition to that of rounding their
   // operand

// -- elements that are their line's maximum -------------------------------------------------------

// If operand k of a comparison is a maximum or minimum of the other operand's elements, possibly
// behind views: that reduction. Otherwise NULL.
static const Node *chosen_from(const Node *n, uint32_t k)
{
    const Node *r = n->args[k];
    while (node_class(r) == CLS_VIEW && r->nargs == 1) r = r->args[0];
    Accumulate acc = op_info(r->op)->acc;
    return (acc == ACC_MAX || acc == ACC_MIN) && r->args[0] == n->args[1 - k] ? r : NULL;
}

// Whether x marks, in each row of the operand of a maximum or minimum, the elements equal to it.
bool bound_marks_maximum(const Node *x)
{
    if (x->op == OP_cast) x = x->args[0];
    return x->op == OP_eq && (chosen_from(x, 0) || chosen_from(x, 1));
}

// Applies the views between [from] and [to] to v, which has the shape of [from].
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
        next->f = bound_rerun(e, eval_rule(chain.at[i]->op), chain.at[i], &v, &t);
        v = next;
    }
    return v;
}

// A value is the same wherever it is computed. So the element chosen as the maximum equals it,
// however uncertain both are, and the comparison is exact unless another element may be larger. If
// several elements are equal, each of them may be the maximum.
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
            near.f[i] = out->error[BELOW][i] + out->error[ABOVE][i] > 0
                            ? 1 + (value_get(args[0], i) != value_get(args[1], i))
                            : 0;
        t = r->type;
        t.dtype = DT_F64;
        Value all = {.type = t};
        all.f = bound_rerun(e, eval_sum, r, &operand, &t);
        const Value *rivals = through_views(e, r, n->args[k], &all);
        for (int64_t i = 0; i < count; i++)
            if (value_get(args[0], i) == value_get(args[1], i) && !(rivals->f[i] > 1))
                out->error[BELOW][i] = out->error[ABOVE][i] = 0;
    }
}

// -- one element -----------------------------------------------------------------------------------

// What is common to all elements of a node, and the operands of the current element.
typedef struct Element {
    const Node *n;
    uint32_t nargs, flags;
    uint32_t first[3]; // of each operand: index of the first equal operand; these vary together
    DType type[3], result;
    bool real[3], gives_real, linear; // linear: in each operand, and operands are real and all
                                      // different
    double unrounded[3]; // of each operand: the relative error of leaving its last rounding out
    Scalar x[3];
} Element;

static const Node *behind_views(const Node *n)
{
    while (node_has(n, OPF_PERMUTES)) n = n->args[0];
    return n;
}

// Whether n is computed from a contraction by a few elementwise operations.
static bool from_contraction(const Node *n)
{
    enum { MOST = 32 };
    const Node *seen[MOST];
    int nseen = 0;
    seen[nseen++] = n;
    for (int i = 0; i < nseen; i++) {
        const Node *x = behind_views(seen[i]);
        if (node_class(x) == CLS_DOT) return true;
        if (node_class(x) != CLS_ELEMENTWISE) continue;
        for (uint32_t k = 0; k < x->nargs && nseen < MOST; k++) seen[nseen++] = x->args[k];
    }
    return false;
}

// A sum of f32 may be computed from the result of a contraction before that is rounded to 16 bits:
// the matmul library adds first and rounds once. Returns the unit roundoff; 0: n is no such result.
static double left_out(const Node *n)
{
    const Node *wide = behind_views(n);
    if (wide->op != OP_cast || wide->type.dtype != DT_F32) return 0;
    const Node *low = behind_views(wide->args[0]);
    const DType t = low->type.dtype;
    bool rounds = (t == DT_BF16 || t == DT_F16) && node_has(low, OPF_CONVERTS);
    return rounds && from_contraction(low->args[0]) ? bound_epsilon(t) : 0;
}

static Element element_of(const Node *n, Value *const *args)
{
    Element m = {.n = n, .nargs = n->nargs, .flags = op_info(n->op)->flags};
    m.result = n->type.dtype;
    m.gives_real = dtype_is_float(m.result);
    m.linear = m.flags & OPF_LINEAR;
    for (uint32_t k = 0; k < m.nargs; k++) {
        m.type[k] = args[k]->type.dtype;
        m.real[k] = dtype_is_float(m.type[k]);
        while (n->args[m.first[k]] != n->args[k]) m.first[k]++;
        m.linear &= m.real[k] && m.first[k] == k;
        if (n->op == OP_add) m.unrounded[k] = left_out(n->args[k]);
    }
    return m;
}

static double element_value(const Element *m, bool round)
{
    DType operand = m->type[m->nargs - 1];
    Scalar v = m->flags & OPF_CONVERTS
                   ? scalar_cast(operand, m->result, m->x[0], round)
                   : scalar_apply(m->n->op, operand, m->result, m->x[0], m->x[1], m->x[2], round);
    return m->gives_real ? v.f : (double)v.i;
}

// -- operands within their errors -----------------------------------------------------------------

enum { MOST_WHOLE = 8, MOST_POINTS = MOST_WHOLE + 1 };

// Values of an operand at which the op is evaluated, enough for a function that is monotonic
// between them: both ends, zero (where functions have their poles, kinks and ends of domains), and
// all whole numbers in the range if they are few.
typedef struct Points {
    Scalar at[MOST_POINTS];
    int n;
    bool wide; // whole numbers, too many to try all
} Points;

static void add_point(Points *p, double x)
{
    p->at[p->n++].f = x;
}

static void real_points(DType t, double x, const double own[2], Points *p)
{
    double low = own[BELOW] == INFINITY ? -INFINITY : x - own[BELOW], most = bound_largest(t);
    double high = own[ABOVE] == INFINITY ? INFINITY : x + own[ABOVE];
    add_point(p, x);
    if (own[BELOW] > 0) add_point(p, low < -most ? -INFINITY : low);
    if (own[ABOVE] > 0) add_point(p, high > most ? INFINITY : high);
    if (low < 0 && high > 0) add_point(p, 0.0), add_point(p, -0.0);
    if ((low == 0) != (high == 0)) add_point(p, copysign(0, x));
    if (smaller(own[BELOW], own[ABOVE]) == INFINITY) add_point(p, NAN);
}

static void whole_points(DType t, int64_t x, const double own[2], Points *p)
{
    int64_t low = scalar_to_int(t, (double)x - own[BELOW]);
    int64_t high = scalar_to_int(t, (double)x + own[ABOVE]);
    if (t == DT_BOOL) low = own[BELOW] > 0 ? 0 : x, high = own[ABOVE] > 0 ? 1 : x;
    p->wide = (double)high - (double)low >= MOST_WHOLE;
    if (!p->wide)
        for (int64_t i = low; i <= high; i++) p->at[p->n++].i = i;
    else
        p->at[0].i = x, p->at[1].i = low, p->at[2].i = high, p->n = 3;
    if (p->wide && low < 0 && high > 0) p->at[p->n++].i = 0;
}

static void points_of(const Element *m, uint32_t k, const double own[2], Points *p)
{
    p->n = 0;
    p->wide = false;
    if (own[BELOW] == 0 && own[ABOVE] == 0)
        p->at[p->n++] = m->x[k];
    else if (m->real[k])
        real_points(m->type[k], m->x[k].f, own, p);
    else
        whole_points(m->type[k], m->x[k].i, own, p);
}

// The integer quotient x // y of a remainder. While it is the same for all choices of operands, the
// remainder is monotonic; if it changes, the remainder may be anything from 0 to the divisor.
static double quotient(const Element *m)
{
    Scalar q = scalar_apply(OP_floordiv, m->type[1], m->type[1], m->x[0], m->x[1], m->x[0], true);
    return m->real[1] ? q.f : (double)q.i;
}

static double number_of(const Element *m, uint32_t k)
{
    return m->real[k] ? m->x[k].f : (double)m->x[k].i;
}

// Widens the error so that v may be the result for any combination of points.
static void admit_points(const Element *at, const Points *p, double v, double error[2])
{
    Element m = *at;
    const uint32_t nargs = m.nargs;
    const bool remainder = m.n->op == OP_mod;
    bool steps = false;
    double step = remainder ? quotient(at) : 0;
    int i[3] = {0};
    for (uint32_t k = 0; k < nargs;) {
        for (k = 0; k < nargs; k++) m.x[k] = p[m.first[k]].at[i[m.first[k]]];
        bound_admit(error, v, element_value(&m, true));
        steps |= remainder && quotient(&m) != step;
        for (k = 0; k < nargs; k++) { // the next combination
            if (m.first[k] != k) continue;
            if (++i[k] < p[k].n) break;
            i[k] = 0;
        }
    }
    if (!steps) return;
    bound_admit(error, v, 0);
    const Points *by = &p[m.first[1]];
    for (int j = 0; j < by->n; j++)
        bound_admit(error, v, m.real[1] ? by->at[j].f : (double)by->at[j].i);
}

// A wave may have an extremum between the ends of its operand's error, at most reach^2 / 8 beyond
// the values at the ends, since its curvature is within -1..1, and never beyond 1.
static void admit_turn(const double own[2], double v, double error[2])
{
    double reach = larger(own[BELOW], own[ABOVE]), turn = reach * reach / 8;
    if (!isfinite(v) || smaller(error[BELOW], error[ABOVE]) == INFINITY) return;
    error[BELOW] = smaller(error[BELOW] + turn, 1 + v);
    error[ABOVE] = smaller(error[ABOVE] + turn, 1 - v);
}

// Whether both x == y and x != y may be correct.
static bool overlap(const Element *m, double own[3][2])
{
    double x = number_of(m, 0), y = number_of(m, 1);
    return x - own[0][BELOW] <= y + own[1][ABOVE] && y - own[1][BELOW] <= x + own[0][ABOVE];
}

// Widens the error of a rounding to a narrower type. Such an error is either 0 or a whole last
// place, and a contraction takes the root of the sum of the squares of its operands' errors, which
// is too small if several of them have the same sign.
static void widen_step(const Element *m, double v, double error[2])
{
    bool narrows = bound_epsilon(m->result) > bound_epsilon(m->type[0]);
    if (!m->real[0] || !m->gives_real || !narrows) return;
    for (int side = 0; side < 2; side++)
        if (error[side] > 0) error[side] += 6 * bound_rounding(m->result, v);
}

// An op that is linear in each of several different operands has its extreme values at their ends.
// Keeps only these points if all are finite.
static void keep_ends(const Element *m, double own[3][2], Points *p)
{
    bool all = m->linear;
    for (uint32_t k = 0; k < m->nargs && all; k++)
        for (int i = 0; i < p[k].n && all; i++) all = isfinite(p[k].at[i].f);
    for (uint32_t k = 0; k < m->nargs && all; k++) {
        int n = 0; // points are: the value itself, then the ends that differ from it
        const int ends = (own[k][BELOW] > 0) + (own[k][ABOVE] > 0), first = ends == 2;
        for (int i = first; i < first + 2 && i < p[k].n; i++) p[k].at[n++] = p[k].at[i];
        p[k].n = ends ? n : p[k].n;
    }
}

// Widens the error so that v may be the result for any operands within their errors.
static void admit_operands(const Element *m, double own[3][2], double v, double error[2])
{
    const OpInfo *op = op_info(m->n->op);
    Points p[3];
    bool wide = false;
    for (uint32_t k = 0; k < m->nargs; k++) {
        points_of(m, k, own[k], &p[k]);
        wide |= p[k].wide;
    }
    keep_ends(m, own, p);
    admit_points(m, p, v, error);
    if (m->flags & OPF_CONVERTS) widen_step(m, v, error);
    if (m->flags & OPF_WAVE) admit_turn(own[0], v, error);
    bool equality = op->rule == EW_compare && m->flags & OPF_COMMUTES;
    if (equality && m->first[1] == 1 && overlap(m, own)) bound_admit(error, v, v == 0);
    bool wraps = (op->rule == EW_arith && !(m->flags & OPF_IDEMPOTENT)) || op->rule == EW_cast;
    bool scrambles = op->rule == EW_bits || op->rule == EW_u32 || m->n->op == OP_mod;
    if (wide && (scrambles || (wraps && !m->gives_real))) error[BELOW] = error[ABOVE] = INFINITY;
}

// -- elementwise ----------------------------------------------------------------------------------

// Whether the result is exact for all values of the uncertain operands: a certain operand is zero
// or scales by a power of two.
static bool never_rounds(const Element *m, double own[3][2], double v)
{
    const Op op = m->n->op;
    if (m->flags & OPF_EXACT) return true;
    if (op != OP_add && op != OP_sub && op != OP_mul && op != OP_div) return false;
    for (uint32_t k = 0; k < m->nargs; k++) {
        int exponent;
        if (own[k][BELOW] + own[k][ABOVE] > 0) continue;
        double part = fabs(frexp(number_of(m, k), &exponent));
        if (part == 0 && op != OP_div) return true;
        bool scales = part == 0.5 && (op == OP_mul || (op == OP_div && k == 1));
        if (scales && fabs(v) > bound_lost(m->result, 0)) return true;
    }
    return false;
}

static bool is_exact(const Element *m, double v)
{
    for (uint32_t k = 0; k < m->nargs; k++)
        if (fabs(v) == fabs(number_of(m, k))) return true;
    return m->result != DT_F64 && element_value(m, false) == v;
}

// The error of computing one element and rounding it to its type. is_short: all results that depend
// on it are rounded to 16 bits, so the cheaper form of a prelude function may be used. [far]: the
// largest magnitude that v may have. [scales]: the value may be scaled before it is rounded.
static double own_error(const Element *m, double own[3][2], double v, double far, bool is_short,
                        bool scales)
{
    bool uncertain = false;
    for (uint32_t k = 0; k < m->nargs; k++) uncertain |= own[k][BELOW] + own[k][ABOVE] > 0;
    unsigned flags = m->flags;
    if (!m->gives_real || !isfinite(v)) return 0;
    if (flags & OPF_CONVERTS) return scales ? bound_lost(m->result, far) : 0;
    if (is_short && flags & OPF_APPROX)
        return BOUND_SLACK * (0x1p-16 * (flags & OPF_BOUNDED ? larger(far, 1) : far) + 0x1p-126);
    if (flags & OPF_COSTLY) return COSTLY_ULPS * bound_lost(m->result, far);
    bool exact = never_rounds(m, own, v) || (!uncertain && is_exact(m, v));
    return exact ? 0 : bound_lost(m->result, far);
}

bool *bound_short(Arena *a, const Graph *g)
{
    bool *full = NEW_ARRAY(a, bool, g->nodes.n + 1), *is_short = NEW_ARRAY(a, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->results.n; i++) full[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        bool narrow = n->type.dtype == DT_F16 || n->type.dtype == DT_BF16;
        bool smooth = c == CLS_VIEW || (c == CLS_REDUCE && op_info(n->op)->acc != ACC_PLACE) ||
                      node_has(n, OPF_SMOOTH | OPF_CONVERTS);
        is_short[i] = !full[i];
        if (smooth && dtype_is_float(n->type.dtype) && (narrow || !full[i])) continue;
        for (uint32_t k = 0; k < n->nargs; k++) full[n->args[k]->id] = true;
    }
    return is_short;
}

// The error of element i of operand k as the op sees it. A costly function may round it once more,
// to f32 or f64; a sum may read it before its last rounding.
static void operand_error(const Element *m, const Value *v, uint32_t k, int64_t i, double own[2])
{
    bool again = m->flags & OPF_COSTLY && m->real[k] && isfinite(m->x[k].f);
    DType wide = m->type[k] == DT_F64 ? DT_F64 : DT_F32;
    double more = again ? BOUND_SLACK * bound_epsilon(wide) * fabs(m->x[k].f) : 0;
    if (m->unrounded[k] > 0 && isfinite(m->x[k].f)) more += m->unrounded[k] * fabs(m->x[k].f);
    for (int side = 0; side < 2; side++)
        own[side] = (v->error[side] ? v->error[side][i] : 0) + more;
}

void bound_elementwise(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Element m = element_of(n, args);
    bool any = m.gives_real;
    for (uint32_t k = 0; k < m.nargs; k++) any |= args[k]->error[0] != NULL;
    if (!any) return;
    value_errors(e->env->arena, out);
    int64_t count = type_count(&n->type);
    bool is_short = e->frame->is_short[n->id];
    bool scales = e->frame->scales && dtype_info[n->type.dtype].bits == 16;
    any = false;
    for (int64_t i = 0; i < count; i++) {
        bool uncertain = false;
        double v = value_get(out, i), error[2] = {0}, own[3][2] = {0};
        for (uint32_t k = 0; k < m.nargs; k++) {
            m.x[k] = value_at(args[k], i);
            operand_error(&m, args[k], k, i, own[k]);
            uncertain |= own[k][BELOW] + own[k][ABOVE] > 0;
        }
        if (uncertain) admit_operands(&m, own, v, error);
        double far = larger(fabs(v - error[BELOW]), fabs(v + error[ABOVE]));
        bound_add_rounding(error, v, own_error(&m, own, v, far, is_short, scales));
        for (int side = 0; side < 2; side++) out->error[side][i] = error[side];
        any |= error[BELOW] + error[ABOVE] > 0;
    }
    if (!any) out->error[BELOW] = out->error[ABOVE] = NULL;
    if (op_info(n->op)->rule == EW_compare && out->error[0]) choose(e, n, args, out);
}
