// The errors of elementwise ops, found by moving the operands. No rule knows which op it is.
#include "ir/bound_ops.h"

enum { COSTLY_ULPS = 2 }; // what prelude functions lose beside their operand's last place

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
bool bound_marks_maximum(const Node *x)
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
        next->f = bound_rerun(e, eval_rule(chain.at[i]->op), chain.at[i], &v, &t);
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
        any.f = bound_rerun(e, eval_max, r, &operand, &t);
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
        bound_admit(reach, v, zero);
        if (isnan(end[x < 0]) && isfinite(zero)) end[x < 0] = zero;
    }
    for (int side = 0; side < 2; side++)
        if (own[side] > 0) bound_admit(reach, v, end[side]);
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
        if (isfinite(y)) bound_admit(error, v, y);
    }
}

// A cast to a narrower type may go to the next number already where a difference that will be
// allowed takes its operand across the middle between two.
static void add_next(const Element *m, const double own[2], double v, double error[2])
{
    double reach[2] = {0}, wide[] = {BOUND_SLACK * own[BELOW], BOUND_SLACK * own[ABOVE]};
    if (!dtype_is_float(m->type[0]) || !dtype_is_float(m->result)) return;
    add_reach(m, 0, wide, v, reach);
    for (int side = 0; side < 2; side++)
        error[side] = fmax(error[side], fmin(reach[side], 2 * bound_rounding(m->result, v)));
}

// What computing one element and rounding it to its type may lose by itself; short: what it leads
// to is rounded to 16 bits, so that the prelude's cheaper form may stand for it.
static double own_error(const Element *m, double v, bool is_short)
{
    unsigned flags = op_info(m->n->op)->flags;
    if (!dtype_is_float(m->result) || !isfinite(v) || flags & OPF_CONVERTS) return 0;
    if (is_short && flags & OPF_APPROX)
        return 0x1p-16 * (flags & OPF_BOUNDED ? fmax(fabs(v), 1) : fabs(v)) + 0x1p-126;
    if (flags & OPF_COSTLY) return COSTLY_ULPS * bound_rounding(m->result, v);
    for (uint32_t k = 0; k < m->n->nargs; k++) {
        double x = dtype_is_float(m->type[k]) ? m->x[k].f : (double)m->x[k].i;
        if (v == x || v == -x) return 0;
    }
    if (m->result != DT_F64 && element_value(m, false) == v) return 0;
    return bound_rounding(m->result, v);
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

// The errors of operand k's element i as the op sees them.
static void operand_error(const Node *n, const Element *m, const Value *v, uint32_t k, int64_t i,
                          double own[2])
{
    unsigned flags = op_info(n->op)->flags;
    bool real = dtype_is_float(m->type[k]);
    for (int side = 0; side < 2; side++) {
        own[side] = v->error[side] ? v->error[side][i] : 0;
        if (flags & OPF_COSTLY && real && isfinite(m->x[k].f))
            own[side] += bound_epsilon(m->type[k]) * fabs(m->x[k].f);
    }
}

void bound_elementwise(Eval *e, const Node *n, Value *const *args, Value *out)
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
    bool is_short = e->frame->is_short[n->id];
    any = false;
    for (int64_t i = 0; i < count; i++) {
        double v = value_get(out, i), error[2] = {0}, own[3][2] = {0};
        for (uint32_t k = 0; k < n->nargs; k++) m.x[k] = value_at(args[k], i);
        for (uint32_t k = 0; k < n->nargs; k++) {
            operand_error(n, &m, args[k], k, i, own[k]);
            if (own[k][BELOW] + own[k][ABOVE] > 0 && (k == 0 || n->args[k] != n->args[0]))
                add_reach(&m, k, own[k], v, error);
        }
        if (op_info(n->op)->flags & OPF_CONVERTS) add_next(&m, own[0], v, error);
        if (n->nargs > 1 && isfinite(v)) admit_together(&m, own, v, error);
        bound_add_rounding(error, v, own_error(&m, v, is_short));
        for (int side = 0; side < 2; side++) out->error[side][i] = error[side];
        any |= error[BELOW] + error[ABOVE] > 0;
    }
    if (!any) out->error[BELOW] = out->error[ABOVE] = NULL;
    if (op_info(n->op)->rule == EW_compare && out->error[0]) choose(e, n, args, out);
}
