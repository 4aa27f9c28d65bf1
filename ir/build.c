// Helpers on top of graph_node: each inserts the views and attributes that a caller would have to
// write out.
#include <math.h>
#include <string.h>

#include "ir/door.h"
#include "ir/range.h"
#include "ir/scalar.h"

// -- constants ------------------------------------------------------------------------------------

static Node *scalar(Graph *g, DType t, double f, int64_t i)
{
    Attrs a = {0};
    attr_set_ints(g, &a, ATTR_shape, NULL, 0);
    attr_set_int(&a, ATTR_dtype, t);
    if (dtype_is_int(t))
        attr_set_int(&a, ATTR_ivalue, scalar_wrap(t, i));
    else
        attr_set_float(&a, ATTR_value, t == DT_BOOL ? f != 0 : scalar_round(t, f));
    return graph_node(g, OP_const, NULL, 0, &a);
}

Node *graph_const(Graph *g, DType t, double v)
{
    return scalar(g, t, v, scalar_to_int(DT_I64, v));
}

Node *graph_const_int(Graph *g, DType t, int64_t v)
{
    return scalar(g, t, (double)v, v);
}

Node *graph_full_like(Graph *g, const Node *like, double v)
{
    Type shape = like->type;
    return graph_broadcast_to(g, graph_const(g, shape.dtype, v), &shape);
}

// -- elementwise ----------------------------------------------------------------------------------

Node *graph_ew(Graph *g, Op op, Node *const *args, int nargs)
{
    Node *wide[3];
    if (nargs < 1 || nargs > 3) return graph_node(g, op, args, nargs, NULL);
    Type shape = args[0]->type;
    bool fits = true, poisoned = false;
    for (int i = 0; i < nargs; i++) {
        poisoned |= node_is_poison(args[i]);
        fits = fits && shape_broadcast(&shape, &args[i]->type, &shape);
    }
    if (!fits || poisoned)
        return graph_node(g, op, args, nargs, NULL); // graph_node reports the error or passes
                                                     // poison on
    const char *name = g->name;
    g->name = NULL;
    for (int i = 0; i < nargs; i++) wide[i] = graph_broadcast_to(g, args[i], &shape);
    g->name = name;
    return graph_node(g, op, wide, nargs, NULL);
}

Node *graph_unary(Graph *g, Op op, Node *a)
{
    return graph_node(g, op, &a, 1, NULL);
}

Node *graph_binary(Graph *g, Op op, Node *a, Node *b)
{
    return graph_ew(g, op, (Node *[]){a, b}, 2);
}

Node *graph_select(Graph *g, Node *cond, Node *a, Node *b)
{
    return graph_ew(g, OP_select, (Node *[]){cond, a, b}, 3);
}

Node *graph_cast(Graph *g, Node *a, DType t)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_dtype, t);
    return graph_node(g, OP_cast, &a, 1, &at);
}

// -- views ----------------------------------------------------------------------------------------

Node *graph_broadcast_to(Graph *g, Node *a, const Type *shape)
{
    int64_t dims[MAX_RANK];
    int shift = shape->rank - a->type.rank;
    if (node_is_poison(a)) return a;
    if (shift < 0) {
        Buf b = buf_new(g->arena);
        type_print(&b, &a->type, g->symbols);
        buf_str(&b, " does not broadcast to ");
        type_print(&b, shape, g->symbols);
        diag_error(g->diags, g->loc, "broadcast: %s", b.data);
        return graph_node(g, OP_poison, NULL, 0, NULL);
    }
    if (shape_equal(&a->type, shape)) return a;
    for (int i = 0; i < a->type.rank; i++) dims[i] = i + shift;
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, shape->dim, shape->rank);
    attr_set_ints(g, &at, ATTR_dims, dims, a->type.rank);
    Node *n = graph_node(g, OP_broadcast, &a, 1, &at);
    for (int i = 0; i < n->type.rank && i < shape->rank; i++)
        if (!n->type.sym[i] && n->type.dim[i] == shape->dim[i]) n->type.sym[i] = shape->sym[i];
    return n;
}

Node *graph_reshape(Graph *g, Node *a, int rank, const int64_t *dim)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, dim, rank);
    return graph_node(g, OP_reshape, &a, 1, &at);
}

Node *graph_iota(Graph *g, DType t, const int64_t *dim, int rank, int64_t axis)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, dim, rank);
    attr_set_int(&at, ATTR_dtype, t);
    attr_set_int(&at, ATTR_axis, axis);
    return graph_node(g, OP_iota, NULL, 0, &at);
}

Node *graph_along(Graph *g, Op op, Node *const *args, int nargs, int64_t axis)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    return graph_node(g, op, args, nargs, &at);
}

// By a gather of iota, which the kernel that uses it computes: a gather checks its index.
Node *graph_place(Graph *g, Node *index, int64_t size, DType t)
{
    if (range_within(range_of_node(index), (Range){0, size - 1})) return graph_cast(g, index, t);
    Node *places = graph_iota(g, t, &size, 1, 0);
    return graph_along(g, OP_gather, (Node *[]){places, index}, 2, 0);
}

Node *graph_permute(Graph *g, Node *a, const int64_t *perm)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_perm, perm, a->type.rank);
    return graph_node(g, OP_permute, &a, 1, &at);
}

Node *graph_slice(Graph *g, Node *a, const int64_t *start, const int64_t *limit,
                  const int64_t *stride)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_start, start, a->type.rank);
    attr_set_ints(g, &at, ATTR_limit, limit, a->type.rank);
    attr_set_ints(g, &at, ATTR_stride, stride, a->type.rank);
    return graph_node(g, OP_slice, &a, 1, &at);
}

Node *graph_resized(Graph *g, Node *a, int64_t axis, int64_t extent)
{
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK], high[MAX_RANK] = {0};
    const Type *t = &a->type;
    if (t->dim[axis] == extent) return a;
    for (int i = 0; i < t->rank; i++) limit[i] = t->dim[i], stride[i] = 1;
    limit[axis] = extent;
    if (extent < t->dim[axis]) return graph_slice(g, a, start, limit, stride);
    Attrs at = {0};
    high[axis] = extent - t->dim[axis];
    attr_set_ints(g, &at, ATTR_low, start, t->rank);
    attr_set_ints(g, &at, ATTR_high, high, t->rank);
    return graph_node(g, OP_pad, (Node *[]){a, graph_const(g, t->dtype, 0)}, 2, &at);
}

// -- reductions -----------------------------------------------------------------------------------

Node *graph_reduce(Graph *g, Op op, Node *a, const int64_t *axes, int naxes, bool keep_dims)
{
    Type kept = a->type;
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_axes, axes, naxes);
    const char *name = g->name;
    Node *n = graph_node(g, op, &a, 1, &at);
    if (!keep_dims || node_is_poison(n)) return n;
    for (int i = 0; i < naxes; i++) kept.dim[axes[i]] = 1;
    g->name = name;
    return graph_reshape(g, n, kept.rank, kept.dim);
}

Node *graph_sum_to(Graph *g, Node *a, const Type *like)
{
    if (node_is_poison(a)) return a;
    int64_t axes[MAX_RANK];
    int n = 0, shift = a->type.rank - like->rank;
    for (int i = 0; i < a->type.rank; i++)
        if (i < shift || (like->dim[i - shift] == 1 && a->type.dim[i] != 1)) axes[n++] = i;
    if (n) a = graph_reduce(g, OP_sum, a, axes, n, false);
    return graph_reshape(g, a, like->rank, like->dim);
}

// -- contraction ----------------------------------------------------------------------------------

Node *graph_dot(Graph *g, Node *a, Node *b, const int64_t *batch_a, const int64_t *batch_b,
                int nbatch, const int64_t *contract_a, const int64_t *contract_b, int ncontract,
                DType out)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_batch_a, batch_a, nbatch);
    attr_set_ints(g, &at, ATTR_batch_b, batch_b, nbatch);
    attr_set_ints(g, &at, ATTR_contract_a, contract_a, ncontract);
    attr_set_ints(g, &at, ATTR_contract_b, contract_b, ncontract);
    attr_set_int(&at, ATTR_dtype, out);
    attr_set_int(&at, ATTR_accumulate, dtype_accumulator(out));
    return graph_node(g, OP_dot, (Node *[]){a, b}, 2, &at);
}

static Node *matmul_fails(Graph *g, const char *before, const Type *a, const Type *b,
                          const char *after)
{
    Buf text = buf_new(g->arena);
    type_print(&text, a, g->symbols);
    buf_str(&text, " and ");
    type_print(&text, b, g->symbols);
    diag_error(g->diags, g->loc, "matmul: %s%s%s", before, text.data, after);
    return graph_node(g, OP_poison, NULL, 0, NULL);
}

Node *graph_matmul(Graph *g, Node *a, Node *b)
{
    if (node_is_poison(a) || node_is_poison(b)) return node_is_poison(a) ? a : b;
    Type ta = a->type, tb = b->type;
    DType out = ta.dtype;
    if (!ta.rank || !tb.rank)
        return matmul_fails(g, "needs at least one axis, found ", &ta, &tb, "");
    int64_t last = ta.rank - 1, inner = tb.rank >= 2 ? tb.rank - 2 : 0;
    // If b has no batch axes, the leading axes of a are free axes of a single contraction.
    if (tb.rank <= 2) return graph_dot(g, a, b, NULL, NULL, 0, &last, &inner, 1, out);

    // Both sides get the same batch axes, then contract.
    int ra = ta.rank >= 2 ? ta.rank - 2 : 0, rb = tb.rank - 2;
    Type batch_a = type_make(out, ra, ta.dim), batch_b = type_make(out, rb, tb.dim), batch;
    memcpy(batch_a.sym, ta.sym, sizeof batch_a.sym);
    memcpy(batch_b.sym, tb.sym, sizeof batch_b.sym);
    if (!shape_broadcast(&batch_a, &batch_b, &batch))
        return matmul_fails(g, "", &ta, &tb, ": the batch axes do not broadcast");
    int64_t axes[MAX_RANK];
    Type wide_a = batch, wide_b = batch;
    for (int i = 0; i < batch.rank; i++) axes[i] = i;
    for (int i = ra; i < ta.rank; i++) wide_a.dim[wide_a.rank++] = ta.dim[i];
    for (int i = rb; i < tb.rank; i++) wide_b.dim[wide_b.rank++] = tb.dim[i];
    const char *name = g->name;
    g->name = NULL;
    a = graph_broadcast_to(g, a, &wide_a);
    b = graph_broadcast_to(g, b, &wide_b);
    g->name = name;
    last = wide_a.rank - 1;
    inner = wide_b.rank - 2;
    return graph_dot(g, a, b, axes, axes, batch.rank, &last, &inner, 1, out);
}

// -- leaves and roots -----------------------------------------------------------------------------

static Node *leaf(Graph *g, Op op, const char *name, const Type *t, const char *kind)
{
    Attrs a = {0};
    attr_set_str(g, &a, ATTR_name, name);
    attr_set_ints(g, &a, ATTR_shape, t->dim, t->rank);
    attr_set_int(&a, ATTR_dtype, t->dtype);
    if (kind) attr_set_str(g, &a, ATTR_kind, kind);
    Node *n = graph_node(g, op, NULL, 0, &a);
    if (!node_is_poison(n)) memcpy(n->type.sym, t->sym, sizeof n->type.sym);
    return n;
}

Node *graph_input(Graph *g, const char *name, const Type *t, const char *kind)
{
    return leaf(g, OP_input, name, t, kind);
}

Node *graph_leaf_cell(Graph *g, Op param_or_state, const char *name, const Type *t)
{
    return leaf(g, param_or_state, name, t, NULL);
}

Node *graph_region_param(Graph *region, const Type *t)
{
    Attrs a = {0};
    attr_set_int(&a, ATTR_index, region->params.n);
    attr_set_ints(region, &a, ATTR_shape, t->dim, t->rank);
    attr_set_int(&a, ATTR_dtype, t->dtype);
    return graph_node(region, OP_region_param, NULL, 0, &a);
}

Node *graph_root(Graph *g, Op op, Node *value, const char *name)
{
    Attrs a = {0};
    attr_set_str(g, &a, op == OP_assert ? ATTR_message : ATTR_name, name);
    return graph_node(g, op, &value, 1, &a);
}
