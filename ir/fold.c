// Folding: nodes that need not be created. A rule may replace a node only by one with the same bits
// in the node's own type for all operands, including NaN, infinities and both zeros.
#include "ir/fold.h"

#include <math.h>
#include <string.h>

#include "ir/range.h"

bool uniform_value(const Node *n, Scalar *v)
{
    while (n->op == OP_broadcast) n = n->args[0];
    if (n->op != OP_const) return false;
    const AttrValue *f = attr_find(n, ATTR_value), *i = attr_find(n, ATTR_ivalue);
    if (i)
        v->i = i->i;
    else if (f && n->type.dtype == DT_BOOL)
        v->i = f->f != 0;
    else if (f)
        v->f = f->f;
    return f || i;
}

Node *fold_const(Graph *g, const Type *t, Scalar v)
{
    Node *n = dtype_is_float(t->dtype) ? graph_const(g, t->dtype, v.f)
                                       : graph_const_int(g, t->dtype, v.i);
    return graph_broadcast_to(g, n, t);
}

// -- elementwise ----------------------------------------------------------------------------------

typedef struct Fold {
    Graph *g;
    const Infer *in;
    Node *a, *b, *c; // operands
    bool is_float;   // of the last operand
    bool known[3];   // all elements of operand i have the value v[i]
    Scalar v[3];
} Fold;

// Whether all elements of operand i are x. Floats are compared by bits, so 0 and -0 differ.
static bool is(const Fold *f, int i, double x)
{
    if (!f->known[i]) return false;
    if (f->is_float) return f->v[i].f == x && signbit(f->v[i].f) == signbit(x);
    return f->v[i].i == (int64_t)x;
}

static bool has(const Fold *f, int i, int64_t x) // the same for bool and integer operands
{
    return f->known[i] && f->v[i].i == x;
}

static Node *fold_add(Fold *f)
{
    if (is(f, 1, f->is_float ? -0.0 : 0)) return f->a; // x + (-0) is x; x + 0 is not if x is -0
    if (f->b->op == OP_neg) return graph_binary(f->g, OP_sub, f->a, f->b->args[0]);
    if (f->a->op == OP_neg) return graph_binary(f->g, OP_sub, f->b, f->a->args[0]);
    return NULL;
}

static Node *fold_sub(Fold *f)
{
    if (is(f, 1, 0)) return f->a;
    if (f->b->op == OP_neg) return graph_binary(f->g, OP_add, f->a, f->b->args[0]);
    if (!f->is_float && f->a == f->b) return fold_const(f->g, &f->in->out, (Scalar){.i = 0});
    if (!f->is_float && is(f, 0, 0)) return graph_unary(f->g, OP_neg, f->b);
    if (f->is_float && is(f, 0, -0.0)) return graph_unary(f->g, OP_neg, f->b);
    return NULL;
}

static Node *fold_mul(Fold *f)
{
    if (is(f, 1, 1)) return f->a;
    if (is(f, 1, -1)) return graph_unary(f->g, OP_neg, f->a);
    if (!f->is_float && is(f, 1, 0)) return f->b;
    if (f->a->op == OP_neg && f->b->op == OP_neg)
        return graph_binary(f->g, OP_mul, f->a->args[0], f->b->args[0]);
    return NULL;
}

static Node *fold_div(Fold *f)
{
    if (is(f, 1, 1)) return f->a;
    if (is(f, 1, -1)) return graph_unary(f->g, OP_neg, f->a);
    if (!f->known[1] || !isnormal(f->v[1].f)) return NULL;
    // Division by a power of two whose reciprocal is a normal number: the product is equal.
    int e;
    double inverse = 1 / f->v[1].f;
    if (fabs(frexp(f->v[1].f, &e)) != 0.5 || e > 14 || e < -12) return NULL;
    return graph_binary(f->g, OP_mul, f->a, graph_full_like(f->g, f->a, inverse));
}

static Node *fold_floordiv(Fold *f)
{
    return !f->is_float && is(f, 1, 1) ? f->a : NULL;
}

static Node *fold_neg(Fold *f)
{
    if (f->a->op == OP_neg) return f->a->args[0];
    return NULL; // -(a - b) is not b - a if a equals b: the zeros differ
}

static Node *fold_abs(Fold *f)
{
    if (f->a->op == OP_abs) return f->a;
    DType t = f->a->type.dtype;
    if (f->a->op == OP_neg && t != DT_U8 && t != DT_U32) // (unsigned types wrap)
        return graph_unary(f->g, OP_abs, f->a->args[0]);
    return NULL;
}

static Node *fold_pow(Fold *f)
{
    if (is(f, 1, 1)) return f->a;
    if (is(f, 1, 0) || is(f, 1, -0.0)) return fold_const(f->g, &f->in->out, (Scalar){.f = 1});
    if (is(f, 1, 2)) return graph_binary(f->g, OP_mul, f->a, f->a);
    if (is(f, 1, -1)) return graph_binary(f->g, OP_div, graph_full_like(f->g, f->a, 1), f->a);
    return NULL;
}

static Node *fold_same_operands(Fold *f, int64_t truth)
{
    if (f->is_float || f->a != f->b) return NULL; // NaN is not equal to itself
    return fold_const(f->g, &f->in->out, (Scalar){.i = truth});
}

static Node *fold_eq(Fold *f)
{
    return fold_same_operands(f, 1);
}
static Node *fold_le(Fold *f)
{
    return fold_same_operands(f, 1);
}
static Node *fold_ge(Fold *f)
{
    return fold_same_operands(f, 1);
}
static Node *fold_ne(Fold *f)
{
    return fold_same_operands(f, 0);
}
static Node *fold_lt(Fold *f)
{
    return fold_same_operands(f, 0);
}
static Node *fold_gt(Fold *f)
{
    return fold_same_operands(f, 0);
}

static Node *fold_and(Fold *f)
{
    return has(f, 1, 1) ? f->a : has(f, 1, 0) ? f->b : NULL;
}

static Node *fold_or(Fold *f)
{
    return has(f, 1, 0) ? f->a : has(f, 1, 1) ? f->b : NULL;
}

static Node *fold_not(Fold *f)
{
    return f->a->op == OP_not ? f->a->args[0] : NULL;
}

static Node *fold_bit_and(Fold *f)
{
    return has(f, 1, 0) ? f->b : NULL;
}

static Node *fold_bit_or(Fold *f)
{
    return has(f, 1, 0) ? f->a : NULL;
}

static Node *fold_bit_xor(Fold *f)
{
    if (f->a == f->b) return fold_const(f->g, &f->in->out, (Scalar){.i = 0});
    return has(f, 1, 0) ? f->a : NULL;
}

static Node *fold_shl(Fold *f)
{
    return has(f, 1, 0) ? f->a : NULL;
}
static Node *fold_shr(Fold *f)
{
    return has(f, 1, 0) ? f->a : NULL;
}

static Node *fold_select(Fold *f)
{
    if (f->b == f->c) return f->b;
    if (f->known[0]) return f->v[0].i ? f->b : f->c;
    if (f->a->op == OP_not) return graph_select(f->g, f->a->args[0], f->c, f->b);
    return NULL;
}

static Node *fold_stop_gradient(Fold *f)
{
    // (Also kept for integers until simplify, since the passes after it use it for a copy in
    // memory.)
    return f->a->op == OP_stop_gradient || f->known[0] ? f->a : NULL;
}

// Whether every value of [from] is a value of [to].
static bool widens(DType from, DType to)
{
    if (from == to || from == DT_BOOL) return true;
    int bits = dtype_info[from].bits;
    if (dtype_is_float(from)) return dtype_is_float(to) && dtype_info[to].bits > bits;
    if (dtype_is_float(to)) // integers up to the width of the significand
        return bits <= (to == DT_F64 ? 53 : to == DT_F32 ? 24 : to == DT_F16 ? 11 : 8);
    return to == DT_I64 || (from == DT_U8 && dtype_info[to].bits > bits);
}

// If n is a value of type [to], cast to a wider type and seen through a few views: the same views
// of the value before the cast. NULL if it is not.
static Node *as_it_was(Graph *g, Node *n, DType to)
{
    enum { MOST_VIEWS = 8 };
    const Node *view[MOST_VIEWS];
    int views = 0;
    for (; n->op == OP_reshape || n->op == OP_permute; n = n->args[0]) {
        if (views == MOST_VIEWS) return NULL;
        view[views++] = n;
    }
    if (n->op != OP_cast || n->args[0]->type.dtype != to || !widens(to, n->type.dtype)) return NULL;
    for (n = n->args[0]; views;) {
        const Node *v = view[--views];
        n = v->op == OP_reshape ? graph_reshape(g, n, v->type.rank, v->type.dim)
                                : graph_permute(g, n, attr_ints(v, ATTR_perm, NULL));
    }
    return n;
}

// Casts a concatenation to [to] if all of its parts were cast from that type.
static Node *narrow_parts(Graph *g, Node *n, DType to)
{
    Node **part = arena_array(g->arena, n->nargs, sizeof(Node *));
    for (uint32_t i = 0; i < n->nargs; i++)
        if (!(part[i] = as_it_was(g, n->args[i], to))) return NULL;
    return graph_node(g, OP_concat, part, (int)n->nargs, n->attrs);
}

static Node *fold_cast(Fold *f)
{
    DType to = f->in->out.dtype;
    if (f->a->type.dtype == to) return f->a;
    if (f->a->op == OP_cast) {
        DType from = f->a->args[0]->type.dtype, mid = f->a->type.dtype;
        // A cast from float to integer saturates; one from integer to integer wraps.
        bool saturates = dtype_is_int(from) && dtype_is_float(mid) && dtype_is_int(to);
        if (widens(from, mid) && (!saturates || widens(from, to)))
            return graph_cast(f->g, f->a->args[0], to);
    }
    return f->a->op == OP_concat ? narrow_parts(f->g, f->a, to) : NULL;
}

static Node *(*const fold_table[OP_COUNT])(Fold *) = {
    [OP_add] = fold_add,
    [OP_sub] = fold_sub,
    [OP_mul] = fold_mul,
    [OP_div] = fold_div,
    [OP_floordiv] = fold_floordiv,
    [OP_neg] = fold_neg,
    [OP_abs] = fold_abs,
    [OP_pow] = fold_pow,
    [OP_eq] = fold_eq,
    [OP_ne] = fold_ne,
    [OP_lt] = fold_lt,
    [OP_le] = fold_le,
    [OP_gt] = fold_gt,
    [OP_ge] = fold_ge,
    [OP_and] = fold_and,
    [OP_or] = fold_or,
    [OP_not] = fold_not,
    [OP_bit_and] = fold_bit_and,
    [OP_bit_or] = fold_bit_or,
    [OP_bit_xor] = fold_bit_xor,
    [OP_shl] = fold_shl,
    [OP_shr] = fold_shr,
    [OP_select] = fold_select,
    [OP_stop_gradient] = fold_stop_gradient,
    [OP_cast] = fold_cast,
};

// Folds constants with the element expressions of the evaluator, rounded to the node's type.
static Node *fold_known(Fold *f)
{
    const Infer *in = f->in;
    for (int i = 0; i < in->nargs; i++)
        if (!f->known[i]) return NULL;
    DType operand = in->args[in->nargs - 1]->type.dtype, result = in->out.dtype;
    unsigned flags = op_info(in->op)->flags;
    if (flags & OPF_CONVERTS)
        return fold_const(f->g, &in->out, scalar_cast(operand, result, f->v[0], true));
    return fold_const(f->g, &in->out,
                      scalar_apply(in->op, operand, result, f->v[0], f->v[1], f->v[2], true));
}

static Node *fold_elementwise(Graph *g, const Infer *in)
{
    if (in->op == OP_native) return NULL; // only the GPU can compute it
    Fold f = {.g = g, .in = in, .a = in->args[0]};
    f.b = in->nargs > 1 ? in->args[1] : NULL;
    f.c = in->nargs > 2 ? in->args[2] : NULL;
    f.is_float = dtype_is_float(in->args[in->nargs - 1]->type.dtype);
    for (int i = 0; i < in->nargs; i++) f.known[i] = uniform_value(in->args[i], &f.v[i]);
    Node *n = fold_known(&f);
    if (n) return n;
    if (op_info(in->op)->flags & OPF_IDEMPOTENT && f.a == f.b) return f.a;
    return fold_table[in->op] ? fold_table[in->op](&f) : NULL;
}

// -- everything else ------------------------------------------------------------------------------

// The bits of a list's element after conversion to the list's type.
static int64_t held(DType t, int64_t bits)
{
    if (!dtype_is_float(t)) return scalar_wrap(t, bits);
    double v;
    memcpy(&v, &bits, sizeof v);
    v = scalar_round(t, v);
    memcpy(&bits, &v, sizeof v);
    return bits;
}

// The list with its elements rounded to its type; NULL if they are values of that type already.
static Node *rounded_list(Graph *g, const Infer *in, const int64_t *list, int n)
{
    DType t = in->out.dtype;
    bool other = false;
    for (int i = 0; i < n && !other; i++) other = held(t, list[i]) != list[i];
    if (!other) return NULL;
    int64_t *bits = NEW_ARRAY(g->arena, int64_t, n);
    for (int i = 0; i < n; i++) bits[i] = held(t, list[i]);
    Attrs at = attrs_copy(in->attrs);
    attr_set_ints(g, &at, ATTR_values, bits, n);
    return graph_node(g, OP_const, NULL, 0, &at);
}

// A constant that has a shape and one value becomes a broadcast scalar; so does a list of equal
// values.
static Node *fold_constant(Graph *g, const Infer *in)
{
    int n;
    const int64_t *list = attrs_ints(in->attrs, ATTR_values, &n);
    const AttrValue *f = attrs_find(in->attrs, ATTR_value);
    DType t = in->out.dtype;
    if (!list) {
        if (!in->out.rank) {
            double r = f ? scalar_round(t, f->f) : 0;
            if (f && t != DT_BOOL && r != f->f && f->f == f->f) return graph_const(g, t, r);
            return NULL;
        }
        Scalar v = {.i = attrs_int(in->attrs, ATTR_ivalue, 0)};
        if (f) v = t == DT_BOOL ? (Scalar){.i = f->f != 0} : (Scalar){.f = f->f};
        return fold_const(g, &in->out, v);
    }
    if (!n) return NULL;
    Node *rounded = rounded_list(g, in, list, n);
    if (rounded) return rounded;
    for (int i = 1; i < n; i++)
        if (list[i] != list[0]) return NULL;
    Scalar v;
    if (dtype_is_float(t))
        __builtin_memcpy(&v.f, list, sizeof v.f);
    else
        v.i = list[0];
    return fold_const(g, &in->out, v);
}

static Node *fold_reduce(Graph *g, const Infer *in)
{
    Node *a = in->args[0];
    Scalar v;
    Accumulate acc = op_info(in->op)->acc;
    if (!op_keeps_one(in->op)) return NULL; // the result is not an element (argmax, ...)
    int64_t count = type_count(&a->type), kept = type_count(&in->out);
    if (count == kept && count) { // one element per sum: the result has the same elements in the
                                  // same order
        if (a->type.dtype != in->out.dtype) a = graph_cast(g, a, in->out.dtype);
        return graph_reshape(g, a, in->out.rank, in->out.dim);
    }
    if (count && (acc == ACC_MAX || acc == ACC_MIN) && uniform_value(a, &v))
        return fold_const(g, &in->out, v);
    if (count && acc == ACC_SUM && !dtype_is_float(in->out.dtype) && uniform_value(a, &v))
        return fold_const(g, &in->out, (Scalar){.i = v.i * (count / kept)});
    return NULL;
}

// A result that is a parameter of the region or a constant needs no `get`. A call with a gradient
// rule of its own is not changed, since the rule may not be that of the identity; nor are
// user-written kernels.
static Node *fold_get(Graph *g, const Infer *in)
{
    Node *call = in->args[0];
    int64_t index = attrs_int(in->attrs, ATTR_index, 0);
    if (!call->nregions || node_result_count(call) == 1) return call;
    if (call->nregions != 1 || call->op == OP_extern || call->op == OP_own) return NULL;
    const Graph *r = call->regions[0];
    const Node *result = r->results.at[index];
    int64_t shift = call->op == OP_loop, carried = attr_int(call, ATTR_carried, 0);
    if (call->op == OP_loop && index >= carried) return NULL;
    if (result->op == OP_region_param) {
        int64_t from = attr_int(result, ATTR_index, 0) - shift;
        if (call->op == OP_call || from == index) return call->args[from];
    }
    Scalar v;
    if (call->op == OP_call && uniform_value(result, &v)) return fold_const(g, &in->out, v);
    return NULL;
}

// Updates of 16-bit floats are accumulated in f32 and rounded once, like the terms of a sum.
static Node *widen_scatter_add(Graph *g, const Infer *in)
{
    DType t = in->out.dtype, wide = dtype_accumulator(t);
    if (!dtype_is_float(t) || wide == t) return NULL;
    Node *args[] = {graph_cast(g, in->args[0], wide), in->args[1],
                    graph_cast(g, in->args[2], wide)};
    return graph_cast(g, graph_node(g, in->op, args, 3, in->attrs), t);
}

// gather(iota, i) is i if i is proved to be in range.
static Node *fold_gather(Graph *g, const Infer *in)
{
    const Node *x = in->args[0];
    if (x->op != OP_iota || x->type.rank != 1 || dtype_is_float(x->type.dtype)) return NULL;
    if (!range_within(range_of_node(in->args[1]), (Range){0, x->type.dim[0] - 1})) return NULL;
    return graph_cast(g, in->args[1], x->type.dtype);
}

static Node *fold_index(Graph *g, const Infer *in)
{
    if (in->op == OP_gather) return fold_gather(g, in);
    return in->op == OP_scatter_add ? widen_scatter_add(g, in) : NULL;
}

Node *fold_node(Graph *g, const Infer *in)
{
    switch (op_info(in->op)->class) {
    case CLS_ELEMENTWISE: return fold_elementwise(g, in);
    case CLS_VIEW: return fold_view(g, in);
    case CLS_REDUCE: return fold_reduce(g, in);
    case CLS_LEAF: return in->op == OP_const ? fold_constant(g, in) : NULL;
    case CLS_INDEX: return fold_index(g, in);
    case CLS_META: return in->op == OP_get ? fold_get(g, in) : NULL;
    default: return NULL;
    }
}
