// Gradients of views.
#include "passes/autodiff/autodiff_rules.h"

#include <string.h>

#include "ir/axes.h"

// -- views ----------------------------------------------------------------------------------------

void grad_reshape(Rule *r)
{
    rule_give(r, 0, graph_reshape(r->g, r->dy, A(0)->type.rank, A(0)->type.dim));
}

void grad_permute(Rule *r)
{
    int n;
    const int64_t *perm = attr_ints(r->n, ATTR_perm, &n);
    int64_t back[MAX_RANK];
    for (int i = 0; i < n; i++) back[perm[i]] = i;
    rule_give(r, 0, graph_permute(r->g, r->dy, back));
}

enum { MOST_FACTORS = 8 };

typedef struct Factors { // broadcasts that repeat along the axes of a sum
    const int64_t *axes;
    int naxes;
    const Node *at[MOST_FACTORS];
    int n, steps; // steps: how many more products to look at
    bool negative;
} Factors;

// The product x without factors that can be taken out; these are added to f.
static Node *take_factors(Rule *r, Node *x, Factors *f)
{
    if (x->op == OP_neg) {
        f->negative = !f->negative;
        return take_factors(r, x->args[0], f);
    }
    double v;
    if (x->op != OP_mul || f->steps-- <= 0) return x;
    for (int k = 0; k < 2; k++)
        if (x->args[k]->op == OP_broadcast && f->n < MOST_FACTORS &&
            !node_const_value(x->args[k], &v) && broadcast_repeats(x->args[k], f->axes, f->naxes)) {
            f->at[f->n++] = x->args[k];
            return take_factors(r, x->args[1 - k], f);
        }
    Node *a = take_factors(r, x->args[0], f), *b = take_factors(r, x->args[1], f);
    return a == x->args[0] && b == x->args[1] ? x : B(mul, a, b);
}

// The sum of x over the axes. In column sums, factors that are constant along the axes are
// multiplied after the sum. So the gradients of everything that the rows of a norm share (a scale,
// a shift, the mean) can be computed from two sums. (Sums of 16-bit floats without the factor could
// overflow.)
static Node *sum_over(Rule *r, Node *x, const int64_t *axes, int naxes)
{
    Factors f = {.axes = axes, .naxes = naxes, .steps = MOST_FACTORS};
    const bool wide = x->type.dtype == DT_F32 || x->type.dtype == DT_F64;
    if (wide && axes_leave_columns(&x->type, axes, naxes)) x = take_factors(r, x, &f);
    Node *sum = graph_reduce(r->g, OP_sum, x, axes, naxes, false);
    for (int i = 0; i < f.n; i++) sum = B(mul, sum, broadcast_without(r->g, f.at[i], axes, naxes));
    return f.negative ? U(neg, sum) : sum;
}

void grad_broadcast(Rule *r)
{
    int n;
    const int64_t *dims = attr_ints(r->n, ATTR_dims, &n);
    const Type *in = &A(0)->type, *out = &r->n->type;
    bool kept[MAX_RANK] = {0};
    int64_t axes[MAX_RANK];
    int naxes = 0;
    for (int i = 0; i < n; i++)
        if (in->dim[i] == out->dim[dims[i]]) kept[dims[i]] = true;
    for (int i = 0; i < out->rank; i++)
        if (!kept[i]) axes[naxes++] = i;
    Node *d = naxes ? sum_over(r, r->dy, axes, naxes) : r->dy;
    rule_give(r, 0, graph_reshape(r->g, d, in->rank, in->dim));
}

Node *rule_pad(Rule *r, Node *x, const int64_t *low, const int64_t *high)
{
    bool none = true;
    for (int i = 0; i < x->type.rank; i++) none &= low[i] == 0 && high[i] == 0;
    if (none) return x;
    Attrs at = {0};
    attr_set_ints(r->g, &at, ATTR_low, low, x->type.rank);
    attr_set_ints(r->g, &at, ATTR_high, high, x->type.rank);
    return graph_node(r->g, OP_pad, (Node *[]){x, number(r, x, 0)}, 2, &at);
}

// A strided axis is dilated by a reshape, a pad and a reshape: (m) -> (m, 1) -> (m, s) -> (m*s).
static Node *dilated(Rule *r, Node *d, int axis, int64_t stride)
{
    int64_t dim[MAX_RANK + 1], low[MAX_RANK] = {0}, high[MAX_RANK] = {0};
    int rank = d->type.rank;
    // Merged to (before, m, 1, after), so that a tensor of maximal rank can be dilated, too.
    int64_t before = 1, after = 1, m = d->type.dim[axis];
    for (int i = 0; i < axis; i++) before *= d->type.dim[i];
    for (int i = axis + 1; i < rank; i++) after *= d->type.dim[i];
    memcpy(dim, d->type.dim, sizeof d->type.dim);
    d = graph_reshape(r->g, d, 4, (int64_t[]){before, m, 1, after});
    high[2] = stride - 1;
    d = rule_pad(r, d, low, high);
    dim[axis] = m * stride;
    return graph_reshape(r->g, d, rank, dim);
}

// The sum of a and b if they are adjacent slices of a tensor padded with zeros, a first: one
// concatenation, padded. Otherwise NULL.
static Node *side_by_side(Graph *g, Node *a, Node *b)
{
    enum { MOST_PARTS = 64 };
    double zero = 1, other = 1;
    if (a->op != OP_pad || b->op != OP_pad || !node_const_value(a->args[1], &zero) ||
        !node_const_value(b->args[1], &other) || zero != 0 || other != 0)
        return NULL;
    int n, axis = -1;
    const int64_t *low = attr_ints(a, ATTR_low, &n), *high = attr_ints(a, ATTR_high, &n),
                  *low_b = attr_ints(b, ATTR_low, &n), *high_b = attr_ints(b, ATTR_high, &n);
    for (int i = 0; i < n; i++) {
        if (low[i] == low_b[i] && high[i] == high_b[i]) continue;
        if (axis >= 0 || low[i] + a->args[0]->type.dim[i] != low_b[i]) return NULL;
        axis = i;
    }
    if (axis < 0) return NULL;
    Node *part[2 * MOST_PARTS];
    int parts = 0;
    for (int k = 0; k < 2; k++) {
        Node *x = k ? b->args[0] : a->args[0];
        bool joined = x->op == OP_concat && attr_int(x, ATTR_axis, 0) == axis;
        if (joined && x->nargs > MOST_PARTS) return NULL;
        for (uint32_t i = 0; joined && i < x->nargs; i++) part[parts++] = x->args[i];
        if (!joined) part[parts++] = x;
    }
    Attrs at = {0}, pad = {0};
    attr_set_int(&at, ATTR_axis, axis);
    Node *all = graph_node(g, OP_concat, part, parts, &at);
    attr_set_ints(g, &pad, ATTR_low, low, n);
    int64_t rest[MAX_RANK];
    for (int i = 0; i < n; i++) rest[i] = i == axis ? high_b[i] : high[i];
    attr_set_ints(g, &pad, ATTR_high, rest, n);
    return graph_node(g, OP_pad, (Node *[]){all, a->args[1]}, 2, &pad);
}

// The gradients of the parts of a split become one concatenation, not a sum of padded parts.
Node *autodiff_sum(Graph *g, Node *a, Node *b)
{
    Node *both = side_by_side(g, a, b);
    if (!both) both = side_by_side(g, b, a);
    return both ? both : graph_binary(g, OP_add, a, b);
}

void grad_slice(Rule *r)
{
    int n;
    const int64_t *start = attr_ints(r->n, ATTR_start, &n),
                  *stride = attr_ints(r->n, ATTR_stride, &n);
    const Type *in = &A(0)->type;
    Node *d = r->dy;
    int64_t low[MAX_RANK], high[MAX_RANK], from[MAX_RANK] = {0}, to[MAX_RANK], one[MAX_RANK];
    bool cut = false;
    for (int i = 0; i < in->rank; i++)
        if (stride && stride[i] > 1) d = dilated(r, d, i, stride[i]);
    for (int i = 0; i < in->rank; i++) {
        int64_t room = in->dim[i] - start[i];
        to[i] = d->type.dim[i] < room ? d->type.dim[i] : room;
        cut |= to[i] != d->type.dim[i];
        one[i] = 1;
        low[i] = start[i];
        high[i] = room - to[i];
    }
    if (cut) d = graph_slice(r->g, d, from, to, one);
    rule_give(r, 0, rule_pad(r, d, low, high));
}

void grad_pad(Rule *r)
{
    int n;
    const int64_t *low = attr_ints(r->n, ATTR_low, &n), *high = attr_ints(r->n, ATTR_high, &n);
    const Type *in = &A(0)->type;
    int64_t limit[MAX_RANK];
    for (int i = 0; i < in->rank; i++) limit[i] = low[i] + in->dim[i];
    if (rule_wants(r, 0)) rule_give(r, 0, rule_slice(r, r->dy, low, limit));
    if (rule_wants(r, 1)) { // the gradient of the padding value
        Attrs at = {0};
        attr_set_ints(r->g, &at, ATTR_low, low, n);
        attr_set_ints(r->g, &at, ATTR_high, high, n);
        Node *zero = graph_full_like(r->g, A(0), 0);
        Node *mask = graph_node(r->g, OP_pad, (Node *[]){zero, number(r, A(0), 1)}, 2, &at);
        rule_give(r, 1, graph_sum_to(r->g, B(mul, r->dy, mask), &A(1)->type));
    }
}

void grad_concat(Rule *r)
{
    int64_t axis = attr_int(r->n, ATTR_axis, 0), at = 0;
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], one[MAX_RANK];
    memcpy(limit, r->n->type.dim, sizeof limit);
    for (int i = 0; i < MAX_RANK; i++) one[i] = 1;
    for (uint32_t k = 0; k < r->n->nargs; k++) {
        start[axis] = at;
        limit[axis] = at += A(k)->type.dim[axis];
        if (rule_wants(r, k)) rule_give(r, k, graph_slice(r->g, r->dy, start, limit, one));
    }
}

void grad_reverse(Rule *r)
{
    rule_give(r, 0, graph_node(r->g, OP_reverse, &r->dy, 1, r->n->attrs));
}
