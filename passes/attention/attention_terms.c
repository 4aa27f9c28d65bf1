// What a dot reads of the scores, expanded into a sum of products.
//
// With e = exp(x - m) and l = sum(e), everything is written in terms of the softmax itself, p =
// exp(x - lse), lse = m + log(l), as e = p l. Powers of l cancel where formulas divide by it, so
// that one statistic a row is left however the softmax and its gradient were written. Sums over the
// columns are rewritten where they are known:
//
//   sum_c p = 1
//   sum_c w dP = sum_c w sum_n dO v = sum_n dO sum_c w v = sum_n dO O,   dP = dO vT, O = w v
//
// so that the row statistic of the gradient, D = sum_c(dP p), is an ordinary sum over the head
// dimension, outside, and no backward kernel sums over columns first. With dropout both sides carry
// the mask: it belongs to w.
#include <math.h>
#include <string.h>

#include "passes/attention/attention.h"

// Expressions that are deeper, or that have more values on their paths, are not expanded. A value
// that is used twice is expanded twice, so forty lines of s = s - s * s would otherwise take
// forever.
enum { MOST_NESTED = 60, MOST_EXPANDED = 4096 };

typedef struct Expand {
    Core *c;
    int depth, left;
} Expand;

// -- terms ----------------------------------------------------------------------------------------

static bool same_value(const Factor *a, const Factor *b)
{
    return a->kind == b->kind && a->key == b->key && a->outer == b->outer &&
           a->negated == b->negated;
}

bool factor_equal(const Factor *a, const Factor *b)
{
    return same_value(a, b) && a->power == b->power;
}

bool term_push(Term *t, const Factor *f)
{
    for (int i = 0; i < t->n; i++) {
        if (!same_value(&t->f[i], f)) continue;
        if (f->kind == F_MASK) return true;
        t->f[i].power += f->power;
        if (!t->f[i].power) t->f[i] = t->f[--t->n];
        return true;
    }
    if (t->n == MOST_FACTORS) return false;
    t->f[t->n++] = *f;
    return true;
}

static bool term_times(Term *t, const Term *by)
{
    t->c *= by->c;
    for (int i = 0; i < by->n; i++)
        if (!term_push(t, &by->f[i])) return false;
    return true;
}

static bool term_has(const Term *t, const Factor *f)
{
    for (int i = 0; i < t->n; i++)
        if (factor_equal(&t->f[i], f)) return true;
    return false;
}

static bool alike(const Term *a, const Term *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!term_has(b, &a->f[i])) return false;
    return true;
}

static bool terms_push(Terms *s, const Term *t)
{
    if (!isfinite(t->c)) return false;
    for (int i = 0; i < s->n; i++) {
        if (!alike(&s->t[i], t)) continue;
        double c = s->t[i].c + t->c, most = fmax(fabs(s->t[i].c), fabs(t->c));
        s->t[i].c = c;
        if (fabs(c) <= 1e-6 * most) s->t[i] = s->t[--s->n];
        return true;
    }
    if (t->c == 0) return true;
    if (s->n == MOST_TERMS) return false;
    s->t[s->n++] = *t;
    return true;
}

static bool terms_add(Terms *s, const Terms *by, double c)
{
    for (int i = 0; i < by->n; i++) {
        Term t = by->t[i];
        t.c *= c;
        if (!terms_push(s, &t)) return false;
    }
    return true;
}

// (Copies only the terms in use: there is space for far more than most sums have.)
static void terms_copy(Terms *out, const Terms *s)
{
    out->n = s->n;
    memcpy(out->t, s->t, (size_t)s->n * sizeof *s->t);
}

static bool terms_times(const Terms *a, const Terms *b, Terms *out)
{
    Terms s;
    s.n = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            Term t = a->t[i];
            if (!term_times(&t, &b->t[k]) || !terms_push(&s, &t)) return false;
        }
    terms_copy(out, &s);
    return true;
}

static bool inverted(Terms *s)
{
    if (s->n != 1 || s->t[0].c == 0) return false;
    s->t[0].c = 1 / s->t[0].c;
    for (int i = 0; i < s->t[0].n; i++) {
        if (s->t[0].f[i].kind == F_MASK) return false;
        s->t[0].f[i].power *= -1;
    }
    return true;
}

static void terms_one(Terms *out, double c, const Factor *f)
{
    out->n = c != 0;
    out->t[0] = (Term){.c = c};
    if (f) term_push(&out->t[0], f);
}

// -- nodes ----------------------------------------------------------------------------------------

static bool expand(Expand *x, Node *n, const Place *p, Terms *out);

static bool opaque(Expand *x, Node *n, const Place *p, FactorKind kind, bool negated, Terms *out)
{
    Lifted v = lift(&x->c->scratch, n, p);
    if (!v.n) return false;
    Factor f = {.kind = kind, .power = 1, .n = n, .place = *p, .key = v.n, .atoms = v.atoms};
    f.negated = negated;
    terms_one(out, 1, &f);
    return true;
}

static bool expand_dot(Expand *x, Node *n, const Place *p, Terms *out)
{
    Operand *op = NEW_ARRAY(x->c->scratch.a, Operand, 2);
    if (!inner_dot(&x->c->space, n, p, op)) return false;
    int total = operand_total(x->c, &op[0]) + operand_total(x->c, &op[1]);
    double c = op[0].factor * op[1].factor;
    op[0].factor = op[1].factor = 1;
    Lifted v = lift_inner(&x->c->scratch, n, op);
    Factor by = total_factor(x->c, total);
    if (!v.n) return false;
    terms_one(out, c,
              &(Factor){.kind = F_DOT,
                        .power = 1,
                        .n = n,
                        .place = *p,
                        .op = op,
                        .key = v.n,
                        .atoms = v.atoms});
    return !total || term_push(&out->t[0], &by);
}

// Divides the factors of a term into those that vary along the columns and the others.
static void apart(const Core *c, const Term *t, Term *varying, Term *constant)
{
    *varying = (Term){.c = 1};
    *constant = (Term){.c = t->c};
    for (int i = 0; i < t->n; i++) {
        bool varies = t->f[i].atoms & atom_bit(space_col(&c->space));
        term_push(varies ? varying : constant, &t->f[i]);
    }
}

// sum_c w dP, where [dot] is the factor of v that is dP, and the other factors, w, are those of a
// forward dot over the same columns.
static bool sum_of_dot(Expand *x, const Term *v, Term *out)
{
    Core *c = x->c;
    Term w = {.c = 1};
    const Factor *dot = NULL;
    for (int i = 0; i < v->n; i++) {
        bool is = v->f[i].kind == F_DOT;
        if (is && (dot || v->f[i].power != 1)) return false;
        if (is)
            dot = &v->f[i];
        else
            term_push(&w, &v->f[i]);
    }
    if (!dot) return false;
    AtomSet cols = dot->atoms & ~atom_bit(space_row(&c->space));
    for (int u = 0; u < c->nouters; u++) {
        const Outer *o = &c->outer[u];
        Term varying, constant;
        if (o->kind != OUT_FORWARD || o->terms.n != 1) continue;
        apart(c, &o->terms.t[0], &varying, &constant);
        if (!alike(&varying, &w)) continue;
        if (lift_operand(&c->scratch, &o->other, cols) !=
            lift_operand(&c->scratch, &dot->op[1], cols))
            continue;
        Terms s;
        s.n = 1;
        s.t[0] = constant;
        if (!inverted(&s)) return false;
        Factor f = {.kind = F_ROWDOT, .power = 1, .op = &dot->op[0], .outer = u};
        f.key = lift_operand(&c->scratch, f.op, dot->atoms & ~atom_bit(space_col(&c->space)));
        f.atoms = dot->atoms & ~atom_bit(space_col(&c->space));
        *out = s.t[0];
        return f.key && term_push(out, &f);
    }
    return false;
}

// Expands n if it is a sum over the head dimension of a product of two values.
static bool expand_head_sum(Expand *x, Node *n, const Place *p, Terms *out)
{
    int naxes, rest = -1;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    const Type *t = &n->args[0]->type;
    Place below = {.rank = t->rank};
    for (int i = 0, from = 0, k = 0; i < t->rank; i++) {
        int at = below.start[i];
        if (k < naxes && axes[k] == i) {
            if (t->dim[i] != 1 && rest >= 0) return false;
            if (t->dim[i] != 1) rest = i;
            k++;
        } else {
            for (int j = p->start[from]; j < p->start[from + 1]; j++) below.atom[at++] = p->atom[j];
            from++;
        }
        below.start[i + 1] = (uint8_t)at;
    }
    Term term;
    out->n = 0;
    return rest >= 0 && sum_over_head(x->c, n->args[0], &below, rest, &term) &&
           terms_push(out, &term);
}

static bool expand_sum(Expand *x, Node *n, const Place *p, Terms *out)
{
    Place below;
    Terms s;
    out->n = 0;
    if (!place_summed(&x->c->space, n, p, &below) || !expand(x, n->args[0], &below, &s))
        return false;
    for (int i = 0; i < s.n; i++) {
        Term varying, t, known = {.c = 1};
        apart(x->c, &s.t[i], &varying, &t);
        bool one = varying.n == 1 && varying.f[0].kind == F_PROB && varying.f[0].power == 1;
        if (!one && !sum_of_dot(x, &varying, &known)) return false;
        if (!term_times(&t, &known) || !terms_push(out, &t)) return false;
    }
    return true;
}

static bool is_zero(const Node *n)
{
    double v;
    return node_const_value(n, &v) && v == 0;
}

static bool expand_select(Expand *x, Node *n, const Place *p, Terms *out)
{
    Terms mask, rest;
    int zero = is_zero(n->args[2]) ? 2 : 1;
    if (!is_zero(n->args[zero]) || core_hot(x->c, n->args[0])) return false;
    return opaque(x, n->args[0], p, F_MASK, zero == 1, &mask) &&
           expand(x, n->args[3 - zero], p, &rest) && terms_times(&mask, &rest, out);
}

static bool combined(const Node *n, Terms *const *a, Terms *out)
{
    switch (n->op) {
    case OP_neg: out->n = 0; return terms_add(out, a[0], -1);
    case OP_add:
    case OP_sub: terms_copy(out, a[0]); return terms_add(out, a[1], n->op == OP_add ? 1 : -1);
    case OP_mul: return terms_times(a[0], a[1], out);
    case OP_fma: return terms_times(a[0], a[1], out) && terms_add(out, a[2], 1);
    case OP_div: return inverted(a[1]) && terms_times(a[0], a[1], out);
    default: terms_copy(out, a[0]); return true;
    }
}

static bool expand_elementwise(Expand *x, Node *n, const Place *p, Terms *out)
{
    Core *c = x->c;
    Terms *a[3];
    switch (n->op) {
    case OP_select: return expand_select(x, n, p, out);
    case OP_cast:
        if (!is_rounding(n)) return false;
        break;
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_fma:
    case OP_div:
    case OP_neg:
    case OP_stop_gradient: break;
    default: return false;
    }
    bool fits = true;
    for (uint32_t k = 0; k < n->nargs; k++) {
        a[k] = c->spare.n ? c->spare.at[--c->spare.n] : NEW(c->scratch.a, Terms);
        fits = fits && expand(x, n->args[k], p, a[k]);
    }
    fits = fits && combined(n, a, out);
    for (uint32_t k = 0; k < n->nargs; k++) vec_push(c->scratch.a, &c->spare, a[k]);
    return fits;
}

static bool expand_new(Expand *x, Node *n, const Place *p, Terms *out)
{
    Core *c = x->c;
    Place below;
    Split split;
    double v;
    if (node_const_value(n, &v)) {
        terms_one(out, v, NULL);
        return isfinite(v);
    }
    if (n == c->e && place_equal(p, &c->place)) {
        AtomSet all = place_atoms(&c->place);
        Factor total = total_factor(c, 1);
        terms_one(out, 1, &(Factor){.kind = F_PROB, .power = 1, .atoms = all});
        return term_push(&out->t[0], &total);
    }
    for (int i = 0; i < c->nprobs; i++)
        if (n == c->prob[i] && place_equal(p, &c->place)) {
            AtomSet all = place_atoms(&c->place);
            terms_one(out, 1, &(Factor){.kind = F_PROB, .power = 1, .atoms = all});
            return true;
        }
    if (n == c->sum && place_summed(&c->space, n, p, &below) && place_equal(&below, &c->place)) {
        Factor total = total_factor(c, 1);
        terms_one(out, 1, &total);
        return true;
    }
    if (core_hot(c, n)) {
        if (node_class(n) == CLS_ELEMENTWISE && expand_elementwise(x, n, p, out)) return true;
        if (n->op == OP_dot && expand_dot(x, n, p, out)) return true;
        if (n->op == OP_sum && (expand_sum(x, n, p, out) || expand_head_sum(x, n, p, out)))
            return true;
        if (node_has(n, OPF_STRIDES) && place_below(&c->space, n, p, 0, &below, &split))
            return expand(x, n->args[0], &below, out);
    }
    return opaque(x, n, p, F_VALUE, false, out);
}

static bool expand(Expand *x, Node *n, const Place *p, Terms *out)
{
    if (x->depth >= MOST_NESTED || x->left-- <= 0) return false;
    x->depth++;
    bool ok = expand_new(x, n, p, out);
    x->depth--;
    return ok;
}

bool terms_of(Core *c, Node *n, const Place *p, Terms *out)
{
    Expand x = {.c = c, .left = MOST_EXPANDED};
    return expand(&x, n, p, out);
}

// -- exponents ------------------------------------------------------------------------------------

// Adds the lifted value n, times c, to a sum of terms; equal terms cancel. A value with one element
// per row counts as equal to its broadcasts. false: too many terms.
static bool linear(const Node *n, double c, Terms *out)
{
    enum { MOST = 32 };
    const Node *work[MOST] = {n};
    double of[MOST] = {c};
    for (int count = 1; count > 0;) {
        const Node *x = work[--count];
        double s = of[count];
        if (x->op == OP_broadcast || x->op == OP_neg) {
            work[count] = x->args[0];
            of[count++] = x->op == OP_neg ? -s : s;
        } else if ((x->op == OP_add || x->op == OP_sub) && count + 2 <= MOST) {
            work[count] = x->args[0];
            of[count++] = s;
            work[count] = x->args[1];
            of[count++] = x->op == OP_sub ? -s : s;
        } else {
            Term t = {.c = s, .n = 1, .f = {{.power = 1, .key = x}}};
            if (!terms_push(out, &t)) return false;
        }
    }
    return true;
}

bool is_probability(Core *c, Node *n)
{
    if (n->op != OP_exp || !type_equal(&n->type, &c->e->type)) return false;
    Terms s;
    s.n = 0;
    Lifted mine = lift(&c->scratch, n->args[0], &c->place),
           whole = lift(&c->scratch, c->e->args[0], &c->place);
    if (!mine.n || !whole.n || !linear(mine.n, 1, &s) || !linear(whole.n, -1, &s)) return false;
    if (s.n != 1 || s.t[0].c != -1) return false;
    const Node *x = s.t[0].f[0].key;
    while (x->op == OP_log || node_has(x, OPF_STRIDES)) x = x->args[0];
    if (s.t[0].f[0].key->op != OP_log || x->op != OP_region_param) return false;
    return c->scratch.args.at[attr_int(x, ATTR_index, 0)].old == c->sum;
}
