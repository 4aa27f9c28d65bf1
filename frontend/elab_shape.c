// Built-in functions that change shapes and that contract.
#include <string.h>

#include "base/plain.h"
#include "frontend/elab.h"

static Val run_matmul(Elab *e, const Call *c)
{
    Node *n[2];
    if (!join_operands(e, "matmul", c->arg, c->arg_span, 2, n, c->span)) return val_poison();
    for (int i = 0; i < 2; i++)
        if (!n[i]->type.rank) {
            Diag *d = error_at(e, c->arg_span[i], "matmul needs a matrix or a vector, found %s",
                               type_text(e, &n[i]->type));
            diag_note(e->diags, d, "the other operand is %s", type_text(e, &n[!i]->type));
            return val_poison();
        }
    const Type *a = &n[0]->type, *b = &n[1]->type;
    const int inner = b->rank > 1 ? b->rank - 2 : 0; // a vector has only one axis
    if (a->dim[a->rank - 1] != b->dim[inner])
        return fail(e, c->span,
                    "matmul of %s and %s: the last axis of the first is %lld, the "
                    "%s of the second %lld",
                    type_text(e, a), type_text(e, b), (long long)a->dim[a->rank - 1],
                    b->rank > 1 ? "one before last" : "only one", (long long)b->dim[inner]);
    at_span(e, c->span);
    return val_node(graph_matmul(e->g, n[0], n[1]));
}

static Val run_transpose(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int64_t perm[MAX_RANK];
    int n, rank = x ? x->type.rank : 0;
    if (!x) return val_poison();
    if (val_missing(&c->arg[1])) {
        if (rank < 2)
            return fail(e, c->arg_span[0], "transpose needs two axes, found %s",
                        type_text(e, &x->type));
        for (int i = 0; i < rank; i++) perm[i] = i;
        perm[rank - 2] = rank - 1;
        perm[rank - 1] = rank - 2;
    } else {
        unsigned seen = 0;
        if (!to_ints(e, &c->arg[1], c->arg_span[1], perm, MAX_RANK, &n)) return val_poison();
        for (int i = 0; i < n; i++) {
            if (perm[i] < 0) perm[i] += rank;
            if (perm[i] >= 0 && perm[i] < rank) seen |= 1u << perm[i];
        }
        if (n != rank || seen != (1u << rank) - 1)
            return fail(e, c->arg_span[1],
                        "the permutation must name each of the %d axes of %s "
                        "once",
                        rank, type_text(e, &x->type));
    }
    at_span(e, c->span);
    return val_node(graph_permute(e->g, x, perm));
}

static Val run_reshape(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int64_t dim[MAX_RANK], known = 1;
    int n, open = -1;
    if (!x || !to_ints(e, &c->arg[1], c->arg_span[1], dim, MAX_RANK, &n)) return val_poison();
    int64_t count = type_count(&x->type);
    for (int i = 0; i < n; i++) {
        if (dim[i] == -1 && open < 0) {
            open = i;
        } else if (dim[i] <= 0 || __builtin_mul_overflow(known, dim[i], &known)) {
            return fail(e, c->arg_span[1],
                        "size %lld of axis %d; sizes are positive, and one may "
                        "be -1",
                        (long long)dim[i], i);
        }
    }
    if (open >= 0 && count % known == 0) dim[open] = count / known, known = count;
    if (known != count) {
        Buf b = buf_new(e->arena);
        for (int i = 0; i < n; i++) buf_printf(&b, "%s%lld", i ? ", " : "", (long long)dim[i]);
        return fail(e, c->span, "cannot reshape %s, which has %lld element%s, to [%s]",
                    type_text(e, &x->type), (long long)count, plural(count), b.data);
    }
    at_span(e, c->span);
    Node *r = graph_reshape(e->g, x, n, dim);
    for (int i = 0; i < n && i < x->type.rank && !node_is_poison(r) && dim[i] == x->type.dim[i];
         i++)
        if (!r->type.sym[i]) r->type.sym[i] = x->type.sym[i];
    return val_node(r);
}

// Keeps axis 0 (the examples) and merges the others.
static Val run_flatten(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int64_t keep = 1;
    if (!x) return val_poison();
    if (!val_missing(&c->arg[1]) &&
        !to_int(e, &c->arg[1], c->arg_span[1], "the number of axes kept", &keep))
        return val_poison();
    if (keep < 0 || keep > x->type.rank)
        return fail(e, c->span, "flatten cannot keep %lld axes of %s", (long long)keep,
                    type_text(e, &x->type));
    int64_t dim[MAX_RANK], rest = 1;
    int n = 0;
    for (int i = 0; i < x->type.rank; i++) {
        if (i < keep)
            dim[n++] = x->type.dim[i];
        else
            rest *= x->type.dim[i];
    }
    if (n == MAX_RANK) return val_node(x);
    dim[n++] = rest;
    at_span(e, c->span);
    Node *r = graph_reshape(e->g, x, n, dim);
    if (r != x && !node_is_poison(r))
        for (int i = 0; i < keep; i++) r->type.sym[i] = x->type.sym[i];
    return val_node(r);
}

static Val run_broadcast(Elab *e, const Call *c)
{
    Type t = {0};
    if (!to_shape(e, &c->arg[1], c->arg_span[1], &t)) return val_poison();
    Node *x = tensor_arg(e, c, 0);
    if (!x) return val_poison();
    t.dtype = x->type.dtype;
    Type both;
    if (!shape_broadcast(&x->type, &t, &both) || !shape_equal(&both, &t))
        return fail(e, c->span, "%s does not broadcast to %s", type_text(e, &x->type),
                    type_text(e, &t));
    at_span(e, c->span);
    return val_node(graph_broadcast_to(e->g, x, &t));
}

// The tensors in a list, converted to one element type.
static Node **tensors(Elab *e, const Call *c, uint32_t *n)
{
    if (!seq_length(&c->arg[0], n) || !*n) {
        fail(e, c->arg_span[0], "expected a list of tensors, found %s", val_text(e, &c->arg[0]));
        return NULL;
    }
    Val *v = NEW_ARRAY(e->arena, Val, *n);
    Span *spans = NEW_ARRAY(e->arena, Span, *n);
    Node **out = NEW_ARRAY(e->arena, Node *, *n);
    for (uint32_t i = 0; i < *n; i++) {
        v[i] = seq_item(e, &c->arg[0], i);
        spans[i] = c->arg_span[0];
    }
    return join_operands(e, "concat", v, spans, (int)*n, out, c->span) ? out : NULL;
}

static Node *concat(Elab *e, Node **parts, uint32_t n, int axis)
{
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    return graph_node(e->g, OP_concat, parts, (int)n, &attrs);
}

static Val run_concat(Elab *e, const Call *c)
{
    uint32_t n;
    int axis = 0;
    Node **parts = tensors(e, c, &n);
    if (!parts) return val_poison();
    if (!val_missing(&c->arg[1]) &&
        !to_axis(e, &c->arg[1], c->arg_span[1], parts[0]->type.rank, &axis))
        return val_poison();
    at_span(e, c->span);
    return val_node(n == 1 ? parts[0] : concat(e, parts, n, axis));
}

static Val run_stack(Elab *e, const Call *c)
{
    uint32_t n;
    int axis = 0;
    Node **parts = tensors(e, c, &n);
    if (!parts) return val_poison();
    Type first = parts[0]->type;
    int rank = first.rank;
    if (!val_missing(&c->arg[1]) && !to_axis(e, &c->arg[1], c->arg_span[1], rank + 1, &axis))
        return val_poison();
    if (rank >= MAX_RANK) return fail(e, c->span, "a tensor has at most %d axes", MAX_RANK);
    at_span(e, c->span);
    for (uint32_t i = 0; i < n; i++) {
        int64_t dim[MAX_RANK];
        if (!shape_equal(&parts[i]->type, &first))
            return fail(e, c->span, "cannot stack %s and %s", type_text(e, &first),
                        type_text(e, &parts[i]->type));
        for (int k = 0; k <= rank; k++)
            dim[k] = k < axis ? parts[i]->type.dim[k] : k == axis ? 1 : parts[i]->type.dim[k - 1];
        parts[i] = graph_reshape(e->g, parts[i], rank + 1, dim);
    }
    return val_node(n == 1 ? parts[0] : concat(e, parts, n, axis));
}

static Node *slice_axis(Elab *e, Node *x, int axis, int64_t from, int64_t to)
{
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) limit[i] = x->type.dim[i], stride[i] = 1;
    start[axis] = from;
    limit[axis] = to;
    return graph_slice(e->g, x, start, limit, stride);
}

// split(x, 3, axis) into equal parts, split(x, [a, b], axis) into parts of these sizes.
static Val run_split(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int axis;
    uint32_t n;
    Val none = val_int(-1);
    if (!x || !to_axis(e, val_missing(&c->arg[2]) ? &none : &c->arg[2], c->arg_span[2],
                       x->type.rank, &axis))
        return val_poison();
    int64_t size = x->type.dim[axis], from = 0, parts = 0;
    bool list = seq_length(&c->arg[1], &n);
    if (!list) {
        if (!to_int(e, &c->arg[1], c->arg_span[1], "the number of parts", &parts))
            return val_poison();
        if (parts < 1 || size % parts)
            return fail(e, c->span, "axis %d of %s does not split into %lld equal parts", axis,
                        type_text(e, &x->type), (long long)parts);
        if (!list_fits(e, (uint64_t)parts, c->arg_span[1])) return val_poison();
        n = (uint32_t)parts;
    }
    Val out = val_seq(e, V_TUPLE, n);
    at_span(e, c->span);
    for (uint32_t i = 0; i < n; i++) {
        int64_t len = size / (int64_t)n;
        Val item = list ? seq_item(e, &c->arg[1], i) : val_none();
        if (list && !to_int(e, &item, c->arg_span[1], "the size of a part", &len))
            return val_poison();
        if (len < 1 || from + len > size)
            return fail(e, c->span, "the parts do not add up to axis %d of %s", axis,
                        type_text(e, &x->type));
        out.seq->at[i] = val_node(slice_axis(e, x, axis, from, from + len));
        from += len;
    }
    if (from != size)
        return fail(e, c->span, "the parts do not add up to axis %d of %s", axis,
                    type_text(e, &x->type));
    return out;
}

static Val run_pad(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int64_t low[MAX_RANK], high[MAX_RANK];
    int n = 0, m = 0;
    if (!x || !to_ints(e, &c->arg[1], c->arg_span[1], low, MAX_RANK, &n) ||
        !to_ints(e, &c->arg[2], c->arg_span[2], high, MAX_RANK, &m))
        return val_poison();
    if (n != x->type.rank || m != x->type.rank)
        return fail(e, c->span, "pad needs one amount per axis of %s on each side",
                    type_text(e, &x->type));
    for (int i = 0; i < n; i++)
        if (low[i] < 0 || high[i] < 0)
            return fail(e, c->span, "pad only adds; a slice x[a:b] takes away");
    Val zero = x->type.dtype == DT_BOOL ? val_bool(false) : val_int(0);
    Node *fill =
        to_tensor(e, val_missing(&c->arg[3]) ? &zero : &c->arg[3], x->type.dtype, c->arg_span[3]);
    if (!fill) return val_poison();
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_low, low, n);
    attr_set_ints(e->g, &attrs, ATTR_high, high, n);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_pad, (Node *[]){x, fill}, 2, &attrs));
}

static Val run_reverse(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    int64_t axes[MAX_RANK];
    int n;
    if (!x || !to_axes(e, &c->arg[1], c->arg_span[1], x->type.rank, axes, &n)) return val_poison();
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_axes, axes, n);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_reverse, &x, 1, &attrs));
}

const Builtin shape_builtins[] = {
    {"matmul", "a b", run_matmul},
    {"transpose", "x perm?", run_transpose},
    {"reshape", "x shape", run_reshape},
    {"flatten", "x keep?", run_flatten},
    {"broadcast", "x shape", run_broadcast},
    {"concat", "parts axis?", run_concat},
    {"stack", "parts axis?", run_stack},
    {"split", "x parts axis?", run_split},
    {"pad", "x low high value?", run_pad},
    {"reverse", "x axis", run_reverse},
    {0},
};
