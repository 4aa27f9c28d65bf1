// Two identities of mean and variance that save passes over memory.
//
// Deviations from a mean sum to zero, and gradients of a variance sum them: over the axes of the
// mean, sum(a + c (x - mean(x))) is sum(a), where c is constant along these axes. It does not wait
// for c, so that one pass over memory computes all sums of a norm's backward part.
//
// Variance in one pass: sum((x - mean(x))^2) becomes sqdev(x), which does not wait for the mean.
// For columns on a GPU only: a row stays in registers or shared memory until its mean is known, but
// columns would be read twice.
//
// Requires: gradients expanded, no clones yet. Keeps: every value within the rounding of the mean's
// sum (deviations sum to the rounding error of the mean, which is dropped), f32 and f64 only; the
// range, since nothing is multiplied or added that was not before; a sum that is not finite because
// the mean or c is not stays so (NaN, where it may have been infinite). Breaks: nothing. Loop
// bodies are left as they are.
#include <math.h>
#include <string.h>

#include "ir/axes.h"
#include "passes/passes.h"

enum { MOST_TERMS = 4, MOST_FACTORS = 12 };

static bool reduced(const int64_t *axes, int n, int axis)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

static bool same_axes(const Node *a, const Node *b)
{
    int n, m;
    const int64_t *x = attr_ints(a, ATTR_axes, &n), *y = attr_ints(b, ATTR_axes, &m);
    return n == m && !memcmp(x, y, sizeof *x * (size_t)n);
}

// Whether b is a broadcast along exactly the given axes.
static bool broadcasts_along(const Node *b, const Type *t, const int64_t *axes, int naxes)
{
    int nd, k = 0;
    if (b->op != OP_broadcast) return false;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    const Type *in = &b->args[0]->type;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 1 || reduced(axes, naxes, i)) continue;
        while (k < nd && in->dim[k] == 1) k++;
        if (k == nd || dims[k++] != i) return false;
    }
    while (k < nd && in->dim[k] == 1) k++;
    return k == nd;
}

// Whether b is the mean of x over the axes of the sum [like], broadcast along them.
static bool is_mean(const Node *b, const Node *x, const Node *like)
{
    int naxes;
    const int64_t *axes = attr_ints(like, ATTR_axes, &naxes);
    double scale = 1, v;
    if (!broadcasts_along(b, &x->type, axes, naxes)) return false;
    for (b = b->args[0];;) {
        if (node_keeps_all(b)) {
            b = b->args[0];
        } else if (b->op == OP_mul && node_const_value(b->args[1], &v)) {
            scale *= v;
            b = b->args[0];
        } else if (b->op == OP_mul && node_const_value(b->args[0], &v)) {
            scale *= v;
            b = b->args[1];
        } else if (b->op == OP_div && node_const_value(b->args[1], &v)) {
            scale /= v;
            b = b->args[0];
        } else {
            break;
        }
    }
    if (b->op != OP_sum || b->args[0] != x || b->type.dtype != x->type.dtype || !same_axes(b, like))
        return false;
    double count = (double)type_count(&x->type) / (double)type_count(&b->type);
    // (1 / count is rounded to f32)
    return fabs(scale * count - 1) < 1.2e-7;
}

// Which operand of d is x if d is x - mean(x) or mean(x) - x; -1: neither.
static int centred(const Node *d, const Node *like)
{
    if (d->op != OP_sub) return -1;
    for (int i = 0; i < 2; i++)
        if (is_mean(d->args[1 - i], d->args[i], like)) return i;
    return -1;
}

// A deviation from a mean times factors that are constant along the axes of the sum.
typedef struct Deviation {
    const Node *of[MOST_FACTORS]; // broadcasts of these values, the mean last
    int n;
} Deviation;

static bool find_deviation(const Node *x, const Node *like, Deviation *d)
{
    const Node *stack[MOST_FACTORS], *mean = NULL;
    int n = 0, naxes, at;
    const int64_t *axes = attr_ints(like, ATTR_axes, &naxes);
    double v;
    d->n = 0;
    stack[n++] = x;
    while (n) {
        const Node *y = stack[--n];
        if (n + 2 > MOST_FACTORS || d->n + 2 > MOST_FACTORS) return false;
        if (node_const_value(y, &v)) {
            if (!isfinite(v)) return false;
        } else if (y->op == OP_mul) {
            stack[n++] = y->args[0];
            stack[n++] = y->args[1];
        } else if (y->op == OP_neg || (y->op == OP_add && y->args[0] == y->args[1])) {
            stack[n++] = y->args[0];
        } else if (y->op == OP_broadcast && broadcast_repeats(y, axes, naxes)) {
            d->of[d->n++] = y;
        } else if (!mean && (at = centred(y, like)) >= 0) {
            mean = y->args[1 - at];
        } else {
            return false;
        }
    }
    if (mean) d->of[d->n++] = mean;
    return mean != NULL;
}

static Node *without_axes(Graph *g, const Node *b, const Node *like)
{
    int n;
    const int64_t *axes = attr_ints(like, ATTR_axes, &n);
    return broadcast_without(g, b, axes, n);
}

// The sum of a deviation: 0 if the mean and all factors are finite, otherwise NaN.
static Node *nothing(Graph *g, const Deviation *d, const Node *like)
{
    Node *mean = without_axes(g, d->of[d->n - 1], like), *v = graph_binary(g, OP_sub, mean, mean);
    for (int i = 0; i < d->n - 1; i++)
        v = graph_binary(g, OP_mul, v, without_axes(g, d->of[i], like));
    return v;
}

// Collects the terms of nested additions, up to a limit; a deviation is one term. Returns their
// number.
static int find_terms(Node *x, const Node *like, Node **term, bool *negative)
{
    Node *stack[MOST_TERMS];
    bool minus[MOST_TERMS] = {false};
    int n = 0, nterms = 0;
    stack[n++] = x;
    while (n) {
        Node *y = stack[--n];
        bool m = minus[n];
        bool is_sum = y->op == OP_sub || (y->op == OP_add && y->args[0] != y->args[1]);
        if (y->op == OP_neg) {
            minus[n] = !m;
            stack[n++] = y->args[0];
        } else if (is_sum && centred(y, like) < 0 && n + nterms + 2 <= MOST_TERMS) {
            minus[n] = y->op == OP_sub ? !m : m;
            stack[n++] = y->args[1];
            minus[n] = m;
            stack[n++] = y->args[0];
        } else {
            term[nterms] = y;
            negative[nterms++] = m;
        }
    }
    return nterms;
}

static Node *joined(Graph *g, Node *sum, Node *term, bool negative)
{
    if (!sum) return negative ? graph_unary(g, OP_neg, term) : term;
    return graph_binary(g, negative ? OP_sub : OP_add, sum, term);
}

static bool has_deviation(const Node *n, Node *x)
{
    Node *term[MOST_TERMS];
    bool negative[MOST_TERMS], any = false;
    Deviation d;
    int nterms = find_terms(x, n, term, negative);
    for (int i = 0; i < nterms && !any; i++) any = find_deviation(term[i], n, &d);
    return any;
}

// The sum n of x without the terms of x that are deviations; NULL: there are none.
static Node *without_deviations(Graph *g, const Node *n, Node *x)
{
    Node *term[MOST_TERMS], *rest = NULL, *zero = NULL;
    bool negative[MOST_TERMS];
    int nterms = find_terms(x, n, term, negative);
    for (int i = 0; i < nterms; i++) {
        Deviation d;
        if (find_deviation(term[i], n, &d))
            zero = joined(g, zero, nothing(g, &d, n), false);
        else
            rest = joined(g, rest, term[i], negative[i]);
    }
    if (!zero || !rest) return zero;
    return graph_binary(g, OP_add, graph_node(g, OP_sum, &rest, 1, n->attrs), zero);
}

// Whether an identity holds for the sum n of x. *sqdev: which operand of the squared difference is
// not the mean (the identity is sqdev); -1: the identity is that of deviations. [columns]: sqdev
// may be used.
static bool is_known(const Node *n, Node *x, bool columns, int *sqdev)
{
    DType t = n->type.dtype;
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    *sqdev = -1;
    if ((t != DT_F32 && t != DT_F64) || x->type.dtype != t || !type_count(&x->type)) return false;
    if (has_deviation(n, x)) return true;
    if (columns && x->op == OP_mul && x->args[0] == x->args[1] &&
        axes_leave_columns(&x->type, axes, naxes))
        *sqdev = centred(x->args[0], n);
    return *sqdev >= 0;
}

// The replacement of the sum n, whose operand is x in the new graph; NULL: neither identity holds.
static Node *known_sum(Graph *g, const Node *n, Node *x, bool columns)
{
    int at, naxes;
    if (!is_known(n, x, columns, &at)) return NULL;
    graph_stamp(g, n, NULL);
    if (at < 0) return without_deviations(g, n, x);
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    return graph_reduce(g, OP_sqdev, x->args[0]->args[at], axes, naxes, false);
}

static bool any_known(const Graph *g, bool columns)
{
    int at;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_sum && is_known(n, n->args[0], columns, &at)) return true;
    }
    return false;
}

Graph *pass_variance(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    bool columns = o->target && o->target->kind == TARGET_CUDA;
    if (!any_known(g, columns)) return g;
    Graph *dst = graph_beside(g);
    Remap map = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Node *v = n->op == OP_sum ? known_sum(dst, n, map.map[n->args[0]->id], columns) : NULL;
        if (!v) {
            remap_node(&map, n);
            continue;
        }
        map.map[i] = v;
        node_pass_name(n, v);
    }
    return graph_drop_dead(remap_end(&map));
}
