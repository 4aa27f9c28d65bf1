// Gradients of reductions and of contractions.
#include "ir/axes.h"
#include "passes/autodiff/autodiff_rules.h"

// -- reductions -----------------------------------------------------------------------------------

// Broadcasts v, a value of the result's shape, along the reduced axes.
static Node *unreduce(Rule *r, Node *v)
{
    const Type *in = &A(0)->type;
    int naxes, kept = 0;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    int64_t dims[MAX_RANK];
    for (int i = 0, k = 0; i < in->rank; i++)
        if (k < naxes && axes[k] == i)
            k++;
        else
            dims[kept++] = i;
    Attrs at = {0};
    attr_set_ints(r->g, &at, ATTR_shape, in->dim, in->rank);
    attr_set_ints(r->g, &at, ATTR_dims, dims, kept);
    return graph_node(r->g, OP_broadcast, &v, 1, &at);
}

void grad_sum(Rule *r)
{
    rule_give(r, 0, unreduce(r, graph_cast(r->g, r->dy, A(0)->type.dtype)));
}

// There is no term through the mean, since deviations from it sum to zero.
void grad_sqdev(Rule *r)
{
    int naxes;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    Node *x = A(0), *s = graph_reduce(r->g, OP_sum, x, axes, naxes, false);
    double count = (double)type_count(&x->type) / (double)type_count(&s->type);
    Node *d = B(sub, x, unreduce(r, B(mul, s, number(r, s, 1 / count))));
    rule_give(r, 0, B(mul, unreduce(r, B(add, r->dy, r->dy)), d));
}

void grad_extremum(Rule *r) // ties share the gradient
{
    int naxes;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    Node *hit = graph_cast(r->g, B(eq, A(0), unreduce(r, r->n)), r->n->type.dtype);
    Node *count = graph_reduce(r->g, OP_sum, hit, axes, naxes, false);
    rule_give(r, 0, B(mul, hit, unreduce(r, B(div, r->dy, count))));
}

void grad_max(Rule *r)
{
    grad_extremum(r);
}

void grad_min(Rule *r)
{
    grad_extremum(r);
}

// The gradient of x is the product of all other elements: the product of the nonzero ones, divided
// by x if x is nonzero, times the product of the zeros without x. If a zero is left in it, its
// value is 0, but its derivative need not be: with one zero, [sum], the sum of all zeros, is that
// zero; with two, [sum] less x is the other one. (With more than two, second derivatives are 0,
// too.)
void grad_prod(Rule *r)
{
    int naxes;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    Node *x = A(0), *zero = number(r, x, 0), *one = number(r, x, 1), *two = number(r, x, 2);
    Node *is_zero = B(eq, x, zero);
    Node *safe = graph_select(r->g, is_zero, one, x);
    Node *count = unreduce(r, graph_reduce(r->g, OP_sum, graph_cast(r->g, is_zero, x->type.dtype),
                                           axes, naxes, false));
    Node *sum = unreduce(
        r, graph_reduce(r->g, OP_sum, graph_select(r->g, is_zero, x, zero), axes, naxes, false));
    Node *rest = graph_node(r->g, OP_prod, &safe, 1, r->n->attrs);
    Node *scaled = unreduce(r, B(mul, r->dy, graph_cast(r->g, rest, x->type.dtype)));
    Node *of_two = graph_select(r->g, B(and, is_zero, B(eq, count, two)), B(sub, sum, x), zero);
    Node *of_one = graph_select(r->g, is_zero, one, sum);
    Node *zeros = graph_select(r->g, B(eq, count, one), of_one, of_two);
    zeros = graph_select(r->g, B(eq, count, zero), one, zeros);
    rule_give(r, 0, B(mul, B(div, scaled, safe), zeros));
}

// -- contraction ----------------------------------------------------------------------------------

static int rank_among(const int64_t *v, int n, int64_t x)
{
    int k = 0;
    for (int i = 0; i < n; i++) k += v[i] < x;
    return k;
}

// The gradient of operand [side]: dy contracted with the other operand over the other's free axes.
// The axes of the result are: batch, this operand's free axes, its contracted axes in the order in
// which the other operand stores their counterparts. [swap] puts the other operand first, hence
// contracted axes before free ones. The order that needs no transpose afterwards is chosen.
static void dot_side(Rule *r, int side)
{
    Node *n = r->n, *x = n->args[side], *other = n->args[1 - side], *dy = r->dy;
    DotAxes mine = dot_axes(n, side), its = dot_axes(n, 1 - side);
    int nb = mine.nbatch, nf = mine.nfree, nc = mine.ncontract;
    int64_t dy_batch[MAX_RANK], dy_other[MAX_RANK];
    for (int i = 0; i < nb; i++) dy_batch[i] = i;
    for (int i = 0; i < its.nfree; i++) dy_other[i] = nb + (side ? 0 : nf) + i;

    int64_t plain[MAX_RANK], swapped[MAX_RANK];
    bool plain_id = true, swapped_id = true;
    for (int i = 0; i < nb; i++) plain[mine.batch[i]] = swapped[mine.batch[i]] = i;
    for (int i = 0; i < nf; i++) {
        plain[mine.free[i]] = nb + i;
        swapped[mine.free[i]] = nb + nc + i;
    }
    for (int i = 0; i < nc; i++) {
        int at = rank_among(its.contract, nc, its.contract[i]);
        plain[mine.contract[i]] = nb + nf + at;
        swapped[mine.contract[i]] = nb + at;
    }
    for (int i = 0; i < x->type.rank; i++) {
        plain_id &= plain[i] == i;
        swapped_id &= swapped[i] == i;
    }
    if (dy->type.dtype != other->type.dtype) other = graph_cast(r->g, other, dy->type.dtype);
    DType out = x->type.dtype;
    bool swap = !plain_id && swapped_id;
    Node *d = swap ? graph_dot(r->g, other, dy, its.batch, dy_batch, nb, its.free, dy_other,
                               its.nfree, out)
                   : graph_dot(r->g, dy, other, dy_batch, its.batch, nb, dy_other, its.free,
                               its.nfree, out);
    if (!swap && !plain_id) d = graph_permute(r->g, d, plain);
    rule_give(r, (uint32_t)side, d);
}

void grad_dot(Rule *r)
{
    if (rule_wants(r, 0)) dot_side(r, 0);
    if (rule_wants(r, 1)) dot_side(r, 1);
}
