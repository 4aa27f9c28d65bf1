// Operators, elementwise ops by name and reductions, on compile-time values and on tensors.
#include <math.h>
#include <string.h>

#include "frontend/elab.h"
#include "ir/scalar.h"

static Val fail_overflow(Elab *e, Span at)
{
    Diag *d = error_at(e, at, "the integers overflow 64 bits");
    diag_note(e->diags, d, "as a float, write one of the numbers with a point: 2.0 ** 64");
    return val_poison();
}

// An elementwise op on numbers. Integers stay integers if the op's type rule allows it.
static Val fold_numbers(Elab *e, Op op, Val *v, const Span *spans, int n, Span at)
{
    const ElementRule rule = op_info(op)->rule;
    bool floats = rule == EW_float || rule == EW_test;
    bool ints = rule == EW_bits, bools = rule == EW_logic;
    int first = rule == EW_select ? 1 : 0;
    Scalar s[3] = {{0}};
    for (int i = first; i < n; i++) floats |= v[i].kind == V_FLOAT;
    for (int i = 0; i < n; i++) {
        double x;
        if (bools || i < first) {
            bool b;
            if (!to_bool(e, &v[i], spans[i], "a condition", &b)) return val_poison();
            s[i].i = b;
        } else if (v[i].kind == V_BOOL) {
            if (floats || ints)
                return fail(e, spans[i], "%s needs numbers, found %s", op_info(op)->name,
                            val_text(e, &v[i]));
            s[i].i = v[i].b;
        } else if (floats) {
            if (ints)
                return fail(e, spans[i], "%s needs integers, found %s", op_info(op)->name,
                            val_text(e, &v[i]));
            val_number(&v[i], &x);
            s[i].f = x;
        } else {
            s[i].i = v[i].i;
        }
    }
    DType t = bools ? DT_BOOL : floats ? DT_F64 : DT_I64;
    bool compares = rule == EW_compare || rule == EW_test || bools;
    if ((op == OP_floordiv || op == OP_mod) && !floats && s[1].i == 0)
        return fail(e, at, "division by zero");
    if (op == OP_div && s[1].f == 0) return fail(e, at, "division by zero");
    int64_t checked;
    if (t == DT_I64 && ((op == OP_add && __builtin_add_overflow(s[0].i, s[1].i, &checked)) ||
                        (op == OP_sub && __builtin_sub_overflow(s[0].i, s[1].i, &checked)) ||
                        (op == OP_mul && __builtin_mul_overflow(s[0].i, s[1].i, &checked)) ||
                        (op == OP_floordiv && s[0].i == INT64_MIN && s[1].i == -1) ||
                        ((op == OP_neg || op == OP_abs) && s[0].i == INT64_MIN)))
        return fail_overflow(e, at);
    Scalar r = scalar_apply(op, t, compares ? DT_BOOL : t, s[0], s[1], s[2], false);
    if (compares || (first && v[1].kind == V_BOOL)) return val_bool(r.i);
    return floats ? val_float(r.f) : val_int(r.i);
}

// The power n of integers, as products.
static Val power_of_integers(Elab *e, Node *x, int64_t n, Span at)
{
    at_span(e, at);
    Node *y = n & 1 ? x : graph_full_like(e->g, x, 1);
    bool one = !(n & 1);
    for (n >>= 1; n; n >>= 1) {
        x = graph_binary(e->g, OP_mul, x, x);
        if (n & 1) y = one ? x : graph_binary(e->g, OP_mul, y, x);
        one = one && !(n & 1);
    }
    return val_node(y);
}

// An integer where op needs floats: shows the operand that made it one, not a number next to it.
static Val needs_floats(Elab *e, Op op, const Val *v, Node *const *arg, int n, Span at)
{
    const Type *t = &arg[0]->type;
    for (int i = n - 1; i >= 0; i--)
        if (!val_is_weak(&v[i])) t = &arg[i]->type;
    const char *name = op == OP_div ? "'/'" : op == OP_pow ? "'**'" : op_info(op)->name;
    const char *found =
        t->rank ? type_text(e, t) : arena_printf(e->arena, "one %s", dtype_info[t->dtype].name);
    Diag *d = error_at(e, at, "%s needs floats, found %s", name, found);
    diag_note(e->diags, d, "%swrite cast(…, f32)%s", op == OP_div ? "for true division " : "",
              op == OP_div   ? ", or use // to divide integers"
              : op == OP_pow ? "; an exponent known at compile time, 0 or more, needs none"
                             : "");
    return val_poison();
}

Val apply_op(Elab *e, Op op, Val *v, const Span *spans, int n, Span at)
{
    bool weak = true;
    Node *arg[3];
    const char *name = op_info(op)->name;
    for (int i = 0; i < n; i++) {
        if (v[i].kind == V_POISON) return val_poison();
        weak &= val_is_weak(&v[i]);
    }
    if (weak && op != OP_stop_gradient) return fold_numbers(e, op, v, spans, n, at);
    if (weak) return v[0];
    if (op_info(op)->rule == EW_select) {
        arg[0] = to_tensor(e, &v[0], DT_BOOL, spans[0]);
        if (!arg[0]) return val_poison();
        if (arg[0]->type.dtype != DT_BOOL)
            return fail(e, spans[0],
                        "the condition of where must be a bool, found %s; compare: x > 0, x != 0",
                        type_text(e, &arg[0]->type));
        if (!join_operands(e, name, v + 1, spans + 1, n - 1, arg + 1, at)) return val_poison();
    } else if (!join_operands(e, name, v, spans, n, arg, at)) {
        return val_poison();
    }
    DType t = arg[n - 1]->type.dtype;
    if (op == OP_pow && dtype_is_int(t) && v[1].kind == V_INT && v[1].i >= 0)
        return power_of_integers(e, arg[0], v[1].i, at);
    if (op_info(op)->rule == EW_float && !dtype_is_float(t))
        return needs_floats(e, op, v, arg, n, at);
    at_span(e, at);
    return val_node(graph_ew(e->g, op, arg, n));
}

static const Op binary_op[] = {
    [BIN_ADD] = OP_add,
    [BIN_SUB] = OP_sub,
    [BIN_MUL] = OP_mul,
    [BIN_DIV] = OP_div,
    [BIN_FLOORDIV] = OP_floordiv,
    [BIN_MOD] = OP_mod,
    [BIN_POW] = OP_pow,
    [BIN_EQ] = OP_eq,
    [BIN_NE] = OP_ne,
    [BIN_LT] = OP_lt,
    [BIN_LE] = OP_le,
    [BIN_GT] = OP_gt,
    [BIN_GE] = OP_ge,
    [BIN_AND] = OP_and,
    [BIN_OR] = OP_or,
};

// base ** n for integers, n >= 0; false if it overflows.
static bool int_power(int64_t base, int64_t n, int64_t *out)
{
    *out = 1;
    if (base >= -1 && base <= 1) n = n ? 2 - n % 2 : 0; // the others overflow after at most 64
    for (; n > 0; n--)
        if (__builtin_mul_overflow(*out, base, out)) return false;
    return true;
}

Val binary_values(Elab *e, BinaryOp op, Val a, Val b, Span sa, Span sb, Span at)
{
    if (a.kind == V_POISON || b.kind == V_POISON) return val_poison();
    bool tensors = val_is_tensor(&a) || val_is_tensor(&b);
    bool weak = val_is_weak(&a) && val_is_weak(&b);
    if (!tensors && !weak) {
        uint32_t na, nb;
        if (op == BIN_EQ) return val_bool(val_equal(&a, &b));
        if (op == BIN_NE) return val_bool(!val_equal(&a, &b));
        if (op == BIN_ADD && a.kind == V_STRING && b.kind == V_STRING)
            return string_fits(e, (uint64_t)strlen(a.s) + strlen(b.s), at)
                       ? val_string(arena_printf(e->arena, "%s%s", a.s, b.s))
                       : val_poison();
        if (op == BIN_ADD && seq_length(&a, &na) && seq_length(&b, &nb)) {
            if (!list_fits(e, (uint64_t)na + nb, at)) return val_poison();
            Val v = val_seq(e, V_LIST, na + nb);
            for (uint32_t i = 0; i < na; i++) v.seq->at[i] = seq_item(e, &a, i);
            for (uint32_t i = 0; i < nb; i++) v.seq->at[na + i] = seq_item(e, &b, i);
            return v;
        }
        Diag *d = error_at(e, at, "this operator does not take %s and %s", val_text(e, &a),
                           val_text(e, &b));
        if (a.kind == V_LIST || b.kind == V_LIST)
            diag_note(e->diags, d, "%sto compute with a list, make it a tensor: tensor([1, 2])",
                      op == BIN_MUL ? "to repeat a list, join it: x + x; " : "");
        return val_poison();
    }
    if (weak && (op == BIN_EQ || op == BIN_NE) && (a.kind == V_BOOL || b.kind == V_BOOL))
        return val_bool(val_equal(&a, &b) == (op == BIN_EQ));
    if (weak && op == BIN_POW && a.kind == V_INT && b.kind == V_INT) {
        int64_t r;
        if (b.i >= 0) return int_power(a.i, b.i, &r) ? val_int(r) : fail_overflow(e, at);
        if (a.i == 0) return fail(e, at, "division by zero");
    }
    double exponent;
    if (op == BIN_POW && tensors && val_number(&b, &exponent)) {
        if (exponent == 2) return apply_op(e, OP_mul, (Val[]){a, a}, (Span[]){sa, sa}, 2, at);
    }
    return apply_op(e, binary_op[op], (Val[]){a, b}, (Span[]){sa, sb}, 2, at);
}

bool to_axes(Elab *e, const Val *v, Span span, int rank, int64_t *axes, int *n)
{
    if (!to_ints(e, v, span, axes, MAX_RANK, n)) return false;
    for (int i = 0; i < *n; i++) {
        Val one = val_int(axes[i]);
        int axis, at = i;
        if (!to_axis(e, &one, span, rank, &axis)) return false;
        for (int j = 0; j < i; j++)
            if (axes[j] == axis) {
                fail(e, span, "axis %d is named twice", axis);
                return false;
            }
        for (; at > 0 && axes[at - 1] > axis; at--) axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    return true;
}

// name(x, axis = all, keep = false), where axis is one or a list. A list of numbers is reduced at
// compile time.
Val apply_reduce(Elab *e, Op op, const Call *c)
{
    Val x = c->arg[0];
    const char *name = op_info(op)->name;
    const bool one_axis = op_info(op)->acc == ACC_PLACE;
    int64_t axes[MAX_RANK];
    int n = 0;
    bool keep = false;
    if (x.kind == V_POISON) return x;
    if (!val_missing(&c->arg[2]) && !to_bool(e, &c->arg[2], c->arg_span[2], "keep", &keep))
        return val_poison();
    const char *of_two = op == OP_max ? "maximum" : op == OP_min ? "minimum" : NULL;
    if (of_two && !val_missing(&c->arg[1]) && (val_is_weak(&x) || val_is_tensor(&c->arg[1])))
        return fail(e, c->span, "%s(x, axis) reduces a tensor; for two values write %s(a, b)", name,
                    of_two);
    Node *t = to_tensor(e, &x, DT_COUNT, c->arg_span[0]);
    if (!t) return val_poison();
    int rank = t->type.rank;
    if (one_axis && rank == 0)
        return fail(e, c->span, "%s takes a tensor with an axis, found %s", name,
                    type_text(e, &t->type));
    if (!val_missing(&c->arg[1])) {
        if (!to_axes(e, &c->arg[1], c->arg_span[1], rank, axes, &n)) return val_poison();
    } else if (one_axis) {
        axes[n++] = rank - 1;
    } else {
        for (; n < rank; n++) axes[n] = n;
    }
    if (one_axis && n != 1)
        return fail(e, c->arg_span[1],
                    "%s takes one axis, found %d; to reduce several, make them one by reshape",
                    name, n);
    at_span(e, c->span);
    return val_node(graph_reduce(e->g, op, t, axes, n, keep));
}
