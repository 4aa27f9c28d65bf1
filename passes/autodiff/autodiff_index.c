// Gradients of indexed access, of sorts and of running reductions.
#include "passes/autodiff/autodiff_rules.h"

#include <string.h>

// -- indexed access -------------------------------------------------------------------------------

void grad_gather(Rule *r)
{
    if (!rule_wants(r, 0)) return;
    const Type *data = &A(0)->type;
    int64_t axis = attr_int(r->n, ATTR_axis, 0), count = type_count(&A(1)->type), dim[MAX_RANK];
    memcpy(dim, data->dim, sizeof dim);
    dim[axis] = count;
    Node *index = graph_reshape(r->g, A(1), 1, &count);
    Node *updates = graph_reshape(r->g, r->dy, data->rank, dim);
    Node *zero = zeros_like(r->g, data);
    rule_give(r, 0, graph_along(r->g, OP_scatter_add, (Node *[]){zero, index, updates}, 3, axis));
}

// Bools of shape (n): which of the n updates of a scatter, into an axis of [length], is the last
// one with its index and hence the one whose value remains. NULL: all, if the index node shows that
// they are distinct.
static Node *last_updates(Rule *r, Node *index, int64_t length)
{
    int64_t n = index->type.dim[0];
    if (n == 1 || index->op == OP_iota) return NULL;
    Type places = {.dtype = n > INT32_MAX ? DT_I64 : DT_I32, .rank = 1, .dim = {length}};
    Node *number = graph_iota(r->g, places.dtype, &n, 1, 0);
    Node *none = zeros_like(r->g, &places);
    Node *last = graph_along(r->g, OP_scatter, (Node *[]){none, index, number}, 3, 0);
    return B(eq, graph_along(r->g, OP_gather, (Node *[]){last, index}, 2, 0), number);
}

void grad_scatter(Rule *r)
{
    int64_t axis = attr_int(r->n, ATTR_axis, 0), row[MAX_RANK];
    if (rule_wants(r, 0)) {
        Node *zero = zeros_like(r->g, &A(2)->type);
        rule_give(r, 0, graph_along(r->g, OP_scatter, (Node *[]){r->dy, A(1), zero}, 3, axis));
    }
    if (!rule_wants(r, 2)) return;
    Node *d = graph_along(r->g, OP_gather, (Node *[]){r->dy, A(1)}, 2, axis);
    Node *last = last_updates(r, A(1), A(0)->type.dim[axis]);
    if (last) {
        for (int i = 0; i < d->type.rank; i++) row[i] = i == axis ? d->type.dim[i] : 1;
        last = graph_reshape(r->g, last, d->type.rank, row);
        d = graph_select(r->g, last, d, zeros_like(r->g, &d->type));
    }
    rule_give(r, 2, d);
}

void grad_scatter_add(Rule *r)
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 2))
        rule_give(
            r, 2,
            graph_along(r->g, OP_gather, (Node *[]){r->dy, A(1)}, 2, attr_int(r->n, ATTR_axis, 0)));
}

// Updates equal to the result share its gradient, as for a maximum.
static void grad_scatter_extremum(Rule *r)
{
    int64_t axis = attr_int(r->n, ATTR_axis, 0);
    DType t = r->n->type.dtype;
    Node *there = graph_along(r->g, OP_gather, (Node *[]){r->n, A(1)}, 2, axis);
    Node *old = graph_cast(r->g, B(eq, A(0), r->n), t),
         *new = graph_cast(r->g, B(eq, A(2), there), t);
    Node *share =
        B(div, r->dy, graph_along(r->g, OP_scatter_add, (Node *[]){old, A(1), new}, 3, axis));
    rule_give(r, 0, B(mul, old, share));
    if (rule_wants(r, 2))
        rule_give(r, 2,
                  B(mul, new, graph_along(r->g, OP_gather, (Node *[]){share, A(1)}, 2, axis)));
}

void grad_scatter_max(Rule *r)
{
    grad_scatter_extremum(r);
}

void grad_scatter_min(Rule *r)
{
    grad_scatter_extremum(r);
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

void grad_dynamic_slice(Rule *r)
{
    if (rule_wants(r, 0)) {
        Node *zero = zeros_like(r->g, &A(0)->type);
        rule_give(r, 0, dynamic(r, OP_dynamic_update, zero, r->dy, r->n->args + 1, NULL));
    }
}

void grad_dynamic_update(Rule *r)
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

// Element i moved to position argsort(argsort(x))[i]: its cotangent is gathered from there.
void grad_sort(Rule *r)
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
    Node *row = graph_iota(r->g, it, grid, 2, 0);
    Node *flat = graph_reshape(r->g, graph_permute(r->g, place, perm), 2, grid);
    flat = B(add, graph_cast(r->g, flat, it), B(mul, row, graph_const_int(r->g, it, length)));
    flat = graph_reshape(r->g, flat, 1, &all);
    Node *dy = graph_resized(r->g, r->dy, axis, length); // (if the result has only the first)
    dy = graph_reshape(r->g, graph_permute(r->g, dy, perm), 1, &all);
    Node *d = graph_along(r->g, OP_gather, (Node *[]){dy, flat}, 2, 0);
    d = graph_permute(r->g, graph_reshape(r->g, d, rank, moved), back);
    rule_give(r, 0, d);
}

void grad_cumsum(Rule *r)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, attr_int(r->n, ATTR_axis, 0));
    if (attr_int(r->n, ATTR_exclusive, 0)) attr_set_int(&at, ATTR_exclusive, 1);
    if (!attr_int(r->n, ATTR_reverse, 0)) attr_set_int(&at, ATTR_reverse, 1);
    rule_give(r, 0, graph_node(r->g, OP_cumsum, &r->dy, 1, &at));
}

// v moved along an axis: element i is v[i + by], or [fill] where there is none.
static Node *moved(Graph *g, Node *v, int64_t axis, int64_t by, double fill)
{
    int64_t begin[MAX_RANK] = {0}, end[MAX_RANK], one[MAX_RANK], low[MAX_RANK] = {0},
            high[MAX_RANK] = {0};
    if (v->type.dim[axis] == 1) return graph_full_like(g, v, fill);
    for (int i = 0; i < v->type.rank; i++) end[i] = v->type.dim[i], one[i] = 1;
    if (by > 0) begin[axis] = high[axis] = by;
    if (by < 0) end[axis] += by, low[axis] = -by;
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_low, low, v->type.rank);
    attr_set_ints(g, &at, ATTR_high, high, v->type.rank);
    v = graph_slice(g, v, begin, end, one);
    return graph_node(g, OP_pad, (Node *[]){v, graph_const(g, v->type.dtype, fill)}, 2, &at);
}

// s[i] = b[i] + a[i] s[i + step], where there is such an element: after each pass, s has what up to
// twice as many elements add to it, and a the product of as many factors.
static Node *recurrence(Graph *g, Node *a, Node *b, int64_t axis, int step)
{
    const int64_t n = b->type.dim[axis];
    for (int64_t k = 1; k < n; k *= 2) {
        b = graph_binary(g, OP_add, b, graph_binary(g, OP_mul, a, moved(g, b, axis, k * step, 0)));
        a = graph_binary(g, OP_mul, a, moved(g, a, axis, k * step, 0));
    }
    return b;
}

// The derivative of the running value y = f(before, x) with respect to what came before; *own: to
// x.
static Node *derivative(Rule *r, Node *x, Node *before, Node **own)
{
    Graph *g = r->g;
    if (r->n->op == OP_cumprod) {
        *own = before;
        return x;
    }
    Node *one = graph_full_like(g, x, 1), *half = graph_full_like(g, x, 0.5),
         *tie = graph_select(g, graph_binary(g, OP_eq, before, x), half, graph_full_like(g, x, 0)),
         *wins = graph_binary(g, r->n->op == OP_cummax ? OP_gt : OP_lt, before, x),
         *kept = graph_select(g, wins, one, tie);
    *own = graph_binary(g, OP_sub, one, kept);
    return kept;
}

// Of cumprod, cummax and cummin: with a[i] the derivative of y[i] with respect to y[i - 1], the
// gradient of y[i] is s[i] = dy[i] + a[i + 1] s[i + 1]. Nothing is divided by, so elements may be
// 0.
void grad_running(Rule *r)
{
    Graph *g = r->g;
    const int64_t axis = attr_int(r->n, ATTR_axis, 0);
    const bool down = attr_int(r->n, ATTR_reverse, 0);
    const int step = down ? -1 : 1;
    const DType t = r->n->type.dtype, wide = dtype_accumulator(t);
    Node *x = graph_cast(g, A(0), wide), *dy = graph_cast(g, r->dy, wide), *own;
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    attr_set_int(&at, ATTR_exclusive, 1);
    if (down) attr_set_int(&at, ATTR_reverse, 1);
    Node *a = derivative(r, x, graph_node(g, r->n->op, &x, 1, &at), &own);
    if (attr_int(r->n, ATTR_exclusive, 0)) dy = moved(g, dy, axis, step, 0);
    Node *s = recurrence(g, moved(g, a, axis, step, 0), dy, axis, step);
    rule_give(r, 0, graph_cast(g, graph_binary(g, OP_mul, own, s), t));
}
