// The gradient of every op, one function a rule of ir/ops.def. A rule reads r->n, r->dy and gives
// each operand that wants one its cotangent. A rule named in the table and missing here does not
// compile.
#include "passes/autodiff.h"

#include <math.h>
#include <string.h>

#define U(op, a)    graph_unary(r->g, OP_##op, a)
#define B(op, a, b) graph_binary(r->g, OP_##op, a, b)
#define A(i)        (r->n->args[i])

static Node *number(Rule *r, const Node *like, double v)
{
    return graph_const(r->g, like->type.dtype, v);
}

// -- elementwise ----------------------------------------------------------------------------------

static void grad_zero(Rule *r)
{
    (void)r;
}

static void grad_none(Rule *r)
{
    autodiff_no_gradient(r->s, r->n);
}

static void grad_add(Rule *r)
{
    rule_give(r, 0, r->dy);
    rule_give(r, 1, r->dy);
}

static void grad_sub(Rule *r)
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, r->dy));
}

static void grad_mul(Rule *r)
{
    if (rule_wants(r, 0)) rule_give(r, 0, B(mul, r->dy, A(1)));
    if (rule_wants(r, 1)) rule_give(r, 1, B(mul, r->dy, A(0)));
}

static void grad_div(Rule *r)
{
    if (rule_wants(r, 0)) rule_give(r, 0, B(div, r->dy, A(1)));
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, B(div, B(mul, r->dy, r->n), A(1))));
}

static void grad_mod(Rule *r) // a - floor(a / b) * b
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, B(mul, r->dy, B(floordiv, A(0), A(1)))));
}

static void grad_neg(Rule *r)
{
    rule_give(r, 0, U(neg, r->dy));
}

static void grad_abs(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, U(sign, A(0))));
}

// Ties are split evenly, but a constant takes the whole tie (ReLU has slope 0 at 0). Against a
// constant the comparison reads the result, not the operand, so that the operand need not be kept.
static void extremum(Rule *r, Op beats)
{
    Node *n = r->n;
    double c;
    for (uint32_t i = 0; i < 2; i++) {
        Node *mine = A(i), *other = A(1 - i);
        if (!rule_wants(r, i)) continue;
        Node *zero = number(r, n, 0);
        if (node_const_value(other, &c)) {
            Node *wins = graph_binary(r->g, beats, n, other);
            rule_give(r, i, graph_select(r->g, wins, r->dy, zero));
            continue;
        }
        Node *wins = graph_binary(r->g, beats, mine, other);
        Node *half = B(mul, r->dy, number(r, n, 0.5));
        Node *tie = graph_select(r->g, B(eq, mine, other), half, zero);
        rule_give(r, i, graph_select(r->g, wins, r->dy, tie));
    }
}

static void grad_maximum(Rule *r)
{
    extremum(r, OP_gt);
}

static void grad_minimum(Rule *r)
{
    extremum(r, OP_lt);
}

static void grad_pow(Rule *r)
{
    Node *a = A(0), *b = A(1), *zero = number(r, r->n, 0);
    double e;
    if (rule_wants(r, 0) && node_const_value(b, &e) && e == 2) {
        rule_give(r, 0, B(mul, r->dy, B(mul, a, number(r, r->n, 2))));
    } else if (rule_wants(r, 0)) { // b * a^(b-1), and 0 where b is 0 even at a = 0
        Node *d = B(mul, b, B(pow, a, B(sub, b, number(r, r->n, 1))));
        d = graph_select(r->g, B(eq, b, zero), zero, d);
        rule_give(r, 0, B(mul, r->dy, d));
    }
    if (rule_wants(r, 1)) { // y * log(a), and 0 at a = 0
        Node *d = graph_select(r->g, B(eq, a, zero), zero, B(mul, r->n, U(log, a)));
        rule_give(r, 1, B(mul, r->dy, d));
    }
}

static void grad_sqrt(Rule *r)
{
    rule_give(r, 0, B(div, B(mul, r->dy, number(r, r->n, 0.5)), r->n));
}

static void grad_rsqrt(Rule *r) // -1/2 y^3
{
    Node *cube = B(mul, B(mul, r->n, r->n), r->n);
    rule_give(r, 0, B(mul, B(mul, r->dy, cube), number(r, r->n, -0.5)));
}

static void grad_exp(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, r->n));
}

static void grad_expm1(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, B(add, r->n, number(r, r->n, 1))));
}

static void grad_log(Rule *r)
{
    rule_give(r, 0, B(div, r->dy, A(0)));
}

static void grad_log1p(Rule *r)
{
    rule_give(r, 0, B(div, r->dy, B(add, A(0), number(r, r->n, 1))));
}

static void grad_sin(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, U(cos, A(0))));
}

static void grad_cos(Rule *r)
{
    rule_give(r, 0, U(neg, B(mul, r->dy, U(sin, A(0)))));
}

static void grad_tanh(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, B(sub, number(r, r->n, 1), B(mul, r->n, r->n))));
}

static void grad_erf(Rule *r) // 2 / sqrt(pi) * exp(-a^2)
{
    Node *bell = U(exp, U(neg, B(mul, A(0), A(0))));
    rule_give(r, 0, B(mul, r->dy, B(mul, bell, number(r, r->n, M_2_SQRTPI))));
}

static void grad_sigmoid(Rule *r)
{
    Node *slope = B(mul, r->n, B(sub, number(r, r->n, 1), r->n));
    rule_give(r, 0, B(mul, r->dy, slope));
}

static void grad_select(Rule *r)
{
    Node *zero = number(r, r->n, 0);
    if (rule_wants(r, 1)) rule_give(r, 1, graph_select(r->g, A(0), r->dy, zero));
    if (rule_wants(r, 2)) rule_give(r, 2, graph_select(r->g, A(0), zero, r->dy));
}

static void grad_cast(Rule *r)
{
    rule_give(r, 0, graph_cast(r->g, r->dy, A(0)->type.dtype));
}

// -- views ----------------------------------------------------------------------------------------

static void grad_reshape(Rule *r)
{
    rule_give(r, 0, graph_reshape(r->g, r->dy, A(0)->type.rank, A(0)->type.dim));
}

static void grad_permute(Rule *r)
{
    int n;
    const int64_t *perm = attr_ints(r->n, ATTR_perm, &n);
    int64_t back[MAX_RANK];
    for (int i = 0; i < n; i++) back[perm[i]] = i;
    rule_give(r, 0, graph_permute(r->g, r->dy, back));
}

static void grad_broadcast(Rule *r)
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
    Node *d = naxes ? graph_reduce(r->g, OP_sum, r->dy, axes, naxes, false) : r->dy;
    rule_give(r, 0, graph_reshape(r->g, d, in->rank, in->dim));
}

static Node *pad_with_zeros(Rule *r, Node *x, const int64_t *low, const int64_t *high)
{
    bool none = true;
    for (int i = 0; i < x->type.rank; i++) none &= low[i] == 0 && high[i] == 0;
    if (none) return x;
    Attrs at = {0};
    attr_set_ints(r->g, &at, ATTR_low, low, x->type.rank);
    attr_set_ints(r->g, &at, ATTR_high, high, x->type.rank);
    return graph_node(r->g, OP_pad, (Node *[]){x, number(r, x, 0)}, 2, &at);
}

// A strided axis is spread out by a reshape, a padding and a reshape: (m) -> (m, 1) -> (m, s) ->
// (m*s).
static Node *spread(Rule *r, Node *d, int axis, int64_t stride)
{
    int64_t dim[MAX_RANK + 1], low[MAX_RANK] = {0}, high[MAX_RANK] = {0};
    int rank = d->type.rank;
    // Folded to (before, m, 1, after), so that a tensor of the largest rank has room.
    int64_t before = 1, after = 1, m = d->type.dim[axis];
    for (int i = 0; i < axis; i++) before *= d->type.dim[i];
    for (int i = axis + 1; i < rank; i++) after *= d->type.dim[i];
    memcpy(dim, d->type.dim, sizeof d->type.dim);
    d = graph_reshape(r->g, d, 4, (int64_t[]){before, m, 1, after});
    high[2] = stride - 1;
    d = pad_with_zeros(r, d, low, high);
    dim[axis] = m * stride;
    return graph_reshape(r->g, d, rank, dim);
}

static void grad_slice(Rule *r)
{
    int n;
    const int64_t *start = attr_ints(r->n, ATTR_start, &n),
                  *stride = attr_ints(r->n, ATTR_stride, &n);
    const Type *in = &A(0)->type;
    Node *d = r->dy;
    int64_t low[MAX_RANK], high[MAX_RANK], from[MAX_RANK] = {0}, to[MAX_RANK], one[MAX_RANK];
    bool cut = false;
    for (int i = 0; i < in->rank; i++)
        if (stride && stride[i] > 1) d = spread(r, d, i, stride[i]);
    for (int i = 0; i < in->rank; i++) {
        int64_t room = in->dim[i] - start[i];
        to[i] = d->type.dim[i] < room ? d->type.dim[i] : room;
        cut |= to[i] != d->type.dim[i];
        one[i] = 1;
        low[i] = start[i];
        high[i] = room - to[i];
    }
    if (cut) d = graph_slice(r->g, d, from, to, one);
    rule_give(r, 0, pad_with_zeros(r, d, low, high));
}

static void grad_pad(Rule *r)
{
    int n;
    const int64_t *low = attr_ints(r->n, ATTR_low, &n), *high = attr_ints(r->n, ATTR_high, &n);
    const Type *in = &A(0)->type;
    int64_t limit[MAX_RANK], one[MAX_RANK];
    for (int i = 0; i < in->rank; i++) {
        limit[i] = low[i] + in->dim[i];
        one[i] = 1;
    }
    if (rule_wants(r, 0)) rule_give(r, 0, graph_slice(r->g, r->dy, low, limit, one));
    if (rule_wants(r, 1)) { // what fell on the padding
        Attrs at = {0};
        attr_set_ints(r->g, &at, ATTR_low, low, n);
        attr_set_ints(r->g, &at, ATTR_high, high, n);
        Node *zero = graph_full_like(r->g, A(0), 0);
        Node *mask = graph_node(r->g, OP_pad, (Node *[]){zero, number(r, A(0), 1)}, 2, &at);
        rule_give(r, 1, graph_sum_to(r->g, B(mul, r->dy, mask), &A(1)->type));
    }
}

static void grad_concat(Rule *r)
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

static void grad_reverse(Rule *r)
{
    rule_give(r, 0, graph_node(r->g, OP_reverse, &r->dy, 1, &r->n->attrs));
}

// -- reductions -----------------------------------------------------------------------------------

// Repeats v, which lacks the reduced axes, over them.
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

static void grad_sum(Rule *r)
{
    rule_give(r, 0, unreduce(r, graph_cast(r->g, r->dy, A(0)->type.dtype)));
}

static void grad_extremum(Rule *r) // ties share the gradient
{
    int naxes;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    Node *hit = graph_cast(r->g, B(eq, A(0), unreduce(r, r->n)), r->n->type.dtype);
    Node *count = graph_reduce(r->g, OP_sum, hit, axes, naxes, false);
    rule_give(r, 0, B(mul, hit, unreduce(r, B(div, r->dy, count))));
}

static void grad_max(Rule *r)
{
    grad_extremum(r);
}

static void grad_min(Rule *r)
{
    grad_extremum(r);
}

// The product of all others: prod / x without zeros; with one zero only that element has a
// gradient.
static void grad_prod(Rule *r)
{
    int naxes;
    const int64_t *axes = attr_ints(r->n, ATTR_axes, &naxes);
    Node *x = A(0), *zero = number(r, x, 0), *one = number(r, x, 1);
    Node *is_zero = B(eq, x, zero);
    Node *safe = graph_select(r->g, is_zero, one, x);
    Node *zeros =
        graph_reduce(r->g, OP_sum, graph_cast(r->g, is_zero, x->type.dtype), axes, naxes, false);
    Node *rest = graph_node(r->g, OP_prod, &safe, 1, &r->n->attrs);
    Node *scaled = unreduce(r, B(mul, r->dy, graph_cast(r->g, rest, x->type.dtype)));
    Node *count = unreduce(r, zeros);
    Node *only = graph_select(r->g, B(and, is_zero, B(eq, count, one)), scaled, zero);
    rule_give(r, 0, graph_select(r->g, B(eq, count, zero), B(div, scaled, safe), only));
}

// -- contraction ----------------------------------------------------------------------------------

typedef struct DotAxes { // of one operand
    int64_t batch[MAX_RANK], contract[MAX_RANK], free[MAX_RANK];
    int nbatch, ncontract, nfree;
} DotAxes;

static DotAxes dot_axes(const Node *n, int side)
{
    DotAxes d = {0};
    bool taken[MAX_RANK] = {0};
    const int64_t *b = attr_ints(n, side ? ATTR_batch_b : ATTR_batch_a, &d.nbatch);
    const int64_t *c = attr_ints(n, side ? ATTR_contract_b : ATTR_contract_a, &d.ncontract);
    for (int i = 0; i < d.nbatch; i++) taken[d.batch[i] = b[i]] = true;
    for (int i = 0; i < d.ncontract; i++) taken[d.contract[i] = c[i]] = true;
    for (int i = 0; i < n->args[side]->type.rank; i++)
        if (!taken[i]) d.free[d.nfree++] = i;
    return d;
}

static int rank_among(const int64_t *v, int n, int64_t x)
{
    int k = 0;
    for (int i = 0; i < n; i++) k += v[i] < x;
    return k;
}

// d(operand side): dy contracted with the other operand over the other's free axes. The result's
// axes: batch, then this operand's free axes, then its contracted axes in the order in which the
// other operand stores their partners. [swap] puts the other operand first, hence contracted axes
// before free ones; whichever needs no transpose afterwards is kept.
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

static void grad_dot(Rule *r)
{
    if (rule_wants(r, 0)) dot_side(r, 0);
    if (rule_wants(r, 1)) dot_side(r, 1);
}

// -- indexed access -------------------------------------------------------------------------------

static Node *indexed(Rule *r, Op op, Node *const *args, int n, int64_t axis)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    return graph_node(r->g, op, args, n, &at);
}

static void grad_gather(Rule *r)
{
    if (!rule_wants(r, 0)) return;
    const Type *data = &A(0)->type;
    int64_t axis = attr_int(r->n, ATTR_axis, 0), count = type_count(&A(1)->type), dim[MAX_RANK];
    memcpy(dim, data->dim, sizeof dim);
    dim[axis] = count;
    Node *index = graph_reshape(r->g, A(1), 1, &count);
    Node *updates = graph_reshape(r->g, r->dy, data->rank, dim);
    Node *zero = zeros_like(r->g, data);
    rule_give(r, 0, indexed(r, OP_scatter_add, (Node *[]){zero, index, updates}, 3, axis));
}

// Where an index occurs twice the last update wins; the earlier ones get no gradient only when
// their value is not read, so scatter asks for distinct indices where gradients matter.
static void grad_scatter(Rule *r)
{
    int64_t axis = attr_int(r->n, ATTR_axis, 0);
    if (rule_wants(r, 0)) {
        Node *zero = zeros_like(r->g, &A(2)->type);
        rule_give(r, 0, indexed(r, OP_scatter, (Node *[]){r->dy, A(1), zero}, 3, axis));
    }
    if (rule_wants(r, 2)) rule_give(r, 2, indexed(r, OP_gather, (Node *[]){r->dy, A(1)}, 2, axis));
}

static void grad_scatter_add(Rule *r)
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 2))
        rule_give(r, 2,
                  indexed(r, OP_gather, (Node *[]){r->dy, A(1)}, 2, attr_int(r->n, ATTR_axis, 0)));
}

static Node *dynamic(Rule *r, Op op, Node *x, Node *update, Node *const *start, const Type *sizes)
{
    Node *args[MAX_RANK + 2];
    Attrs at = {0};
    int n = 0;
    args[n++] = x;
    if (update) args[n++] = update;
    for (int i = 0; i < x->type.rank; i++) args[n++] = start[i];
    if (op == OP_dynamic_slice) attr_set_ints(r->g, &at, ATTR_sizes, sizes->dim, sizes->rank);
    return graph_node(r->g, op, args, n, &at);
}

static void grad_dynamic_slice(Rule *r)
{
    if (rule_wants(r, 0)) {
        Node *zero = zeros_like(r->g, &A(0)->type);
        rule_give(r, 0, dynamic(r, OP_dynamic_update, zero, r->dy, r->n->args + 1, NULL));
    }
}

static void grad_dynamic_update(Rule *r)
{
    Node *const *start = r->n->args + 2;
    if (rule_wants(r, 0)) {
        Node *zero = zeros_like(r->g, &A(1)->type);
        rule_give(r, 0, dynamic(r, OP_dynamic_update, r->dy, zero, start, NULL));
    }
    if (rule_wants(r, 1))
        rule_give(r, 1, dynamic(r, OP_dynamic_slice, r->dy, NULL, start, &A(1)->type));
}

// -- ordered along an axis ------------------------------------------------------------------------

static Node *argsort(Rule *r, Node *x, int64_t axis, bool descending)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    if (descending) attr_set_int(&at, ATTR_descending, 1);
    return graph_node(r->g, OP_argsort, &x, 1, &at);
}

// Element i went to place argsort(argsort(x))[i]: its cotangent is gathered from there.
static void grad_sort(Rule *r)
{
    Node *x = A(0);
    const Type *t = &x->type;
    int rank = t->rank;
    int64_t axis = attr_int(r->n, ATTR_axis, 0), length = t->dim[axis], rows = 1, perm[MAX_RANK];
    int64_t all = type_count(t);
    Node *place = argsort(r, argsort(r, x, axis, attr_int(r->n, ATTR_descending, 0)), axis, false);
    for (int i = 0, k = 0; i < rank; i++)
        if (i != axis) {
            rows *= t->dim[i];
            perm[k++] = i;
        }
    perm[rank - 1] = axis;
    int64_t back[MAX_RANK], moved[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        back[perm[i]] = i;
        moved[i] = t->dim[perm[i]];
    }
    DType it = all > INT32_MAX ? DT_I64 : DT_I32;
    int64_t grid[2] = {rows, length};
    Attrs at = {0};
    attr_set_ints(r->g, &at, ATTR_shape, grid, 2);
    attr_set_int(&at, ATTR_dtype, it);
    attr_set_int(&at, ATTR_axis, 0);
    Node *row = graph_node(r->g, OP_iota, NULL, 0, &at);
    Node *flat = graph_reshape(r->g, graph_permute(r->g, place, perm), 2, grid);
    flat = B(add, graph_cast(r->g, flat, it), B(mul, row, graph_const_int(r->g, it, length)));
    flat = graph_reshape(r->g, flat, 1, &all);
    Node *dy = graph_reshape(r->g, graph_permute(r->g, r->dy, perm), 1, &all);
    Node *d = indexed(r, OP_gather, (Node *[]){dy, flat}, 2, 0);
    d = graph_permute(r->g, graph_reshape(r->g, d, rank, moved), back);
    rule_give(r, 0, d);
}

static void grad_cumsum(Rule *r)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, attr_int(r->n, ATTR_axis, 0));
    if (attr_int(r->n, ATTR_exclusive, 0)) attr_set_int(&at, ATTR_exclusive, 1);
    if (!attr_int(r->n, ATTR_reverse, 0)) attr_set_int(&at, ATTR_reverse, 1);
    rule_give(r, 0, graph_node(r->g, OP_cumsum, &r->dy, 1, &at));
}

// -- leaves and regions ---------------------------------------------------------------------------

static void grad_leaf(Rule *r)
{
    (void)r;
}

static void grad_call(Rule *r)
{
    grad_call_region(r);
}

static void grad_loop(Rule *r)
{
    grad_loop_region(r);
}

static void grad_get(Rule *r)
{
    Node *op = A(0);
    int64_t index = attr_int(r->n, ATTR_index, 0);
    Node ***all = &r->s->results[op->id];
    if (!*all) *all = NEW_ARRAY(r->g->arena, Node *, node_result_count(op));
    Node **slot = &(*all)[index];
    *slot = *slot ? graph_binary(r->g, OP_add, *slot, r->dy) : r->dy;
}

static void (*const rules[OP_COUNT])(Rule *) = {
#define EW(id, arity, flags, type, rule, ...)        [OP_##id] = grad_##rule,
#define OP(id, arity, class, flags, type, rule, ...) [OP_##id] = grad_##rule,
#include "ir/ops.def"
#undef EW
#undef OP
};

void rule_apply(Rule *r)
{
    rules[r->n->op](r);
}

bool op_passes_gradient(Op op)
{
    return rules[op] != grad_zero;
}
