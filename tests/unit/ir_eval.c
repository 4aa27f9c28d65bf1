// The evaluator against values worked out by hand.
#include "tests/unit/ir_common.h"

#include "ir/philox.h"
#include "ir/scalar.h"

static const double nan_ = NAN, inf = INFINITY;

// -- every elementwise op -------------------------------------------------------------------------

typedef struct Case {
    Op op;
    DType in;
    double a, b, c, want;
} Case;

static const Case cases[] = {
    {OP_add, DT_F32, 1.5, 2, 0, 3.5},
    {OP_add, DT_I32, 2147483647, 1, 0, -2147483648.0},
    {OP_add, DT_U8, 250, 10, 0, 4},
    {OP_add, DT_U32, 4294967295.0, 2, 0, 1},
    {OP_sub, DT_F32, 1, 3, 0, -2},
    {OP_sub, DT_U32, 0, 1, 0, 4294967295.0},
    {OP_mul, DT_F32, -3, 0, 0, -0.0},
    {OP_mul, DT_I32, 65536, 65536, 0, 0},
    {OP_div, DT_F32, 1, 0, 0, INFINITY},
    {OP_div, DT_F32, 0, 0, 0, NAN},
    {OP_floordiv, DT_I32, -7, 2, 0, -4},
    {OP_floordiv, DT_I32, 7, -2, 0, -4},
    {OP_floordiv, DT_I32, 7, 0, 0, 0},
    {OP_floordiv, DT_F32, 1, -INFINITY, 0, -1},
    {OP_floordiv, DT_BF16, -1, INFINITY, 0, -1},
    {OP_floordiv, DT_F64, 1, INFINITY, 0, 0},
    {OP_floordiv, DT_F32, -7, 2, 0, -4},
    {OP_mod, DT_I32, -7, 3, 0, 2},
    {OP_mod, DT_I32, 7, -3, 0, -2},
    {OP_mod, DT_I32, 7, 0, 0, 0},
    {OP_mod, DT_F32, -7, 3, 0, 2},
    {OP_neg, DT_F32, 0, 0, 0, -0.0},
    {OP_neg, DT_U8, 1, 0, 0, 255},
    {OP_abs, DT_F32, -2, 0, 0, 2},
    {OP_abs, DT_I32, -2147483648.0, 0, 0, -2147483648.0},
    {OP_sign, DT_F32, -3, 0, 0, -1},
    {OP_sign, DT_F32, NAN, 0, 0, NAN},
    {OP_sign, DT_I32, -9, 0, 0, -1},
    {OP_sign, DT_F32, -0.0, 0, 0, -0.0},
    {OP_minimum, DT_F32, 1, NAN, 0, NAN},
    {OP_minimum, DT_F32, NAN, 1, 0, NAN},
    {OP_minimum, DT_I32, -3, 2, 0, -3},
    {OP_maximum, DT_F32, 1, 2, 0, 2},
    {OP_maximum, DT_F32, NAN, 1, 0, NAN},
    {OP_maximum, DT_I64, -3, 2, 0, 2},
    {OP_pow, DT_F32, 2, 10, 0, 1024},
    {OP_pow, DT_F32, -8, 3, 0, -512},
    {OP_sqrt, DT_F32, 9, 0, 0, 3},
    {OP_sqrt, DT_F32, -1, 0, 0, NAN},
    {OP_rsqrt, DT_F32, 4, 0, 0, 0.5},
    {OP_rsqrt, DT_F32, 0, 0, 0, INFINITY},
    {OP_exp, DT_F32, 1, 0, 0, M_E},
    {OP_exp, DT_F32, -INFINITY, 0, 0, 0},
    {OP_expm1, DT_F32, 1e-10, 0, 0, 1.00000000005e-10},
    {OP_log, DT_F32, M_E, 0, 0, 1},
    {OP_log, DT_F32, 0, 0, 0, -INFINITY},
    {OP_log1p, DT_F32, 1e-10, 0, 0, 9.9999999995e-11},
    {OP_sin, DT_F32, M_PI / 2, 0, 0, 1},
    {OP_cos, DT_F32, M_PI, 0, 0, -1},
    {OP_tanh, DT_F32, 0.5, 0, 0, 0.46211715726000975},
    {OP_erf, DT_F32, 0.5, 0, 0, 0.5204998778130465},
    {OP_sigmoid, DT_F32, 0, 0, 0, 0.5},
    {OP_sigmoid, DT_F32, -1000, 0, 0, 0},
    {OP_sigmoid, DT_F32, 1000, 0, 0, 1},
    {OP_floor, DT_F32, -1.5, 0, 0, -2},
    {OP_ceil, DT_F32, 1.25, 0, 0, 2},
    {OP_round, DT_F32, 2.5, 0, 0, 2},
    {OP_round, DT_F32, 3.5, 0, 0, 4},
    {OP_round, DT_F32, -0.25, 0, 0, -0.0},
    {OP_ufp, DT_F32, -11.5, 0, 0, 8},
    {OP_ufp, DT_F32, 0x1.8p-140, 0, 0, 0x1p-140},
    {OP_ufp, DT_F32, -0.0, 0, 0, 0},
    {OP_ufp, DT_F32, -INFINITY, 0, 0, INFINITY},
    {OP_eq, DT_F32, NAN, NAN, 0, 0},
    {OP_eq, DT_I64, 5, 5, 0, 1},
    {OP_ne, DT_F32, NAN, NAN, 0, 1},
    {OP_lt, DT_U32, 1, 4294967295.0, 0, 1},
    {OP_le, DT_F32, 2, 2, 0, 1},
    {OP_gt, DT_F32, 3, 2, 0, 1},
    {OP_ge, DT_F32, NAN, 1, 0, 0},
    {OP_isfinite, DT_F32, INFINITY, 0, 0, 0},
    {OP_isfinite, DT_F32, 1, 0, 0, 1},
    {OP_and, DT_BOOL, 1, 0, 0, 0},
    {OP_or, DT_BOOL, 1, 0, 0, 1},
    {OP_not, DT_BOOL, 0, 0, 0, 1},
    {OP_bit_and, DT_U32, 12, 10, 0, 8},
    {OP_bit_or, DT_U32, 12, 10, 0, 14},
    {OP_bit_xor, DT_U32, 12, 10, 0, 6},
    {OP_shl, DT_U32, 3, 31, 0, 2147483648.0},
    {OP_shl, DT_U32, 3, 32, 0, 0},
    {OP_shr, DT_U32, 2147483648.0, 31, 0, 1},
    {OP_shr, DT_I32, -8, 1, 0, -4},
    {OP_fma, DT_F32, 3, 4, -5, 7},
    {OP_fma, DT_F32, 0x1p-30, 0x1p-30, 1, 1},
    {OP_mulhi, DT_U32, 4294967295.0, 4294967295.0, 0, 4294967294.0},
    {OP_select, DT_F32, 1, 2, 3, 2},
    {OP_select, DT_I64, 0, 2, 3, 3},
    {OP_stop_gradient, DT_F32, 4, 0, 0, 4},
    {OP_autocast, DT_F32, 3.14, 0, 0, 3.14}, // where the pass precision left it
};

static void elementwise(void)
{
    bool seen[OP_COUNT] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        seen[c->op] = true;
        int arity = op_info(c->op)->arity;
        double data[3] = {c->a, c->b, c->c};
        // Once over inputs, once folded from constants: both go through the same expressions.
        Graph *g = fresh();
        EvalEnv env = environment();
        Node *args[3], *known[3];
        for (int k = 0; k < arity; k++) {
            const char *const names[] = {"a", "b", "c"};
            DType t = c->op == OP_select && k == 0 ? DT_BOOL : c->in;
            args[k] = input(g, names[k], shape(t, 1, 1));
            give(&env, names[k], shape(t, 1, 1), &data[k]);
            known[k] = graph_const(g, t, data[k]);
        }
        Node *n = graph_node(g, c->op, args, arity, NULL);
        CHECK_MSG(gives(g, &env, n, &c->want), "%s, case %zu", op_info(c->op)->name, i);
        Node *folded = graph_node(g, c->op, known, arity, NULL);
        double v = 0;
        double want = dtype_is_float(folded->type.dtype) ? (double)(float)c->want : c->want;
        CHECK_MSG(node_const_value(folded, &v), "%s is not folded", op_info(c->op)->name);
        CHECK_MSG(fabs(v - want) <= 1e-7 * fabs(want) || v == want || (v != v && want != want),
                  "%s folds to %g, not %g", op_info(c->op)->name, v, want);
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info((Op)op)->class == CLS_ELEMENTWISE && op != OP_cast && op != OP_native)
            CHECK_MSG(seen[op], "%s has no case", op_info((Op)op)->name);
}

// Whether the type rule of an elementwise op takes operands of type t, an integer's or bool.
static bool takes(const OpInfo *op, DType t)
{
    switch (op->rule) {
    case EW_arith: return t != DT_BOOL;
    case EW_compare:
    case EW_select: return true;
    case EW_logic: return t == DT_BOOL;
    case EW_bits: return t != DT_BOOL;
    case EW_u32: return t == DT_U32;
    default: return false;
    }
}

// Integers at their ends: what is folded from constants, one operand or both, is what is computed.
static void folded_integers(void)
{
    static const int64_t ends[] = {0,         1,         -1,        7,         63,
                                   64,        255,       INT32_MAX, INT32_MIN, UINT32_MAX,
                                   INT64_MAX, INT64_MIN, 1ll << 32};
    enum { N = sizeof ends / sizeof *ends };
    const DType types[] = {DT_BOOL, DT_U8, DT_I32, DT_U32, DT_I64};
    for (int k = 0; k < 5 * N * N * OP_COUNT; k++) {
        const Op op = (Op)(k / (5 * N * N));
        const OpInfo *info = op_info(op);
        const DType t = types[k / (N * N) % 5];
        if (info->class != CLS_ELEMENTWISE || !takes(info, t)) continue;
        const int64_t v[3] = {scalar_wrap(t, ends[k / N % N]), scalar_wrap(t, ends[k % N]), 1};
        Graph *g = fresh();
        EvalEnv env = environment();
        Node *read[3], *known[3], *n[4];
        for (int i = 0; i < info->arity; i++) {
            const char *const names[] = {"a", "b", "c"};
            DType own = op == OP_select && i == 0 ? DT_BOOL : t;
            read[i] = input(g, names[i], shape(own, 0));
            give(&env, names[i], shape(own, 0), DATA(0))->i[0] = scalar_wrap(own, v[i]);
            known[i] = graph_const_int(g, own, scalar_wrap(own, v[i]));
        }
        n[0] = graph_node(g, op, read, info->arity, NULL);
        n[1] = graph_node(g, op, known, info->arity, NULL);
        n[2] = graph_node(g, op, (Node *[]){read[0], known[1], known[2]}, info->arity, NULL);
        n[3] = graph_node(g, op, (Node *[]){known[0], read[1], read[2]}, info->arity, NULL);
        EvalResult r;
        Value **all = NEW_ARRAY(arena, Value *, g->nodes.n);
        CHECK(eval_graph_all(g, &env, &r, all));
        for (int i = 1; i < 4; i++)
            CHECK_MSG(all[n[i]->id]->i[0] == all[n[0]->id]->i[0],
                      "%s of %s, %lld and %lld: %lld folded (%d), %lld computed", info->name,
                      dtype_info[t].name, (long long)v[0], (long long)v[1],
                      (long long)all[n[i]->id]->i[0], i, (long long)all[n[0]->id]->i[0]);
    }
}

// From each type through each to each: two casts in a row are folded only where one does the same.
static void folded_casts(void)
{
    static const double ends[] = {0,    1,     -1,    0.5,  -0.5,       255,           256,
                                  300,  -300,  65504, 1e6,  2147483647, -2147483648.0, 4294967295.0,
                                  1e12, -1e12, 1e30,  -1e30};
    enum { N = sizeof ends / sizeof *ends };
    for (int k = 0; k < DT_COUNT * DT_COUNT * DT_COUNT * N; k++) {
        DType from = (DType)(k % DT_COUNT), mid = (DType)(k / DT_COUNT % DT_COUNT),
              to = (DType)(k / (DT_COUNT * DT_COUNT) % DT_COUNT);
        Scalar v = scalar_cast(DT_F64, from,
                               (Scalar){.f = ends[k / (DT_COUNT * DT_COUNT * DT_COUNT)]}, true);
        Graph *g = fresh();
        EvalEnv env = environment();
        env.round = true;
        Value *given = give(&env, "a", shape(from, 0), DATA(0));
        if (dtype_is_float(from))
            given->f[0] = v.f;
        else
            given->i[0] = v.i;
        Node *n = graph_cast(g, graph_cast(g, input(g, "a", shape(from, 0)), mid), to);
        Scalar want = scalar_cast(mid, to, scalar_cast(from, mid, v, true), true);
        double x = dtype_is_float(to) ? want.f : (double)want.i;
        Value **all = NEW_ARRAY(arena, Value *, g->nodes.n);
        EvalResult r;
        CHECK(eval_graph_all(g, &env, &r, all));
        double have = value_get(all[n->id], 0);
        CHECK_MSG(have == x, "%s to %s to %s: %.17g, not %.17g", dtype_info[from].name,
                  dtype_info[mid].name, dtype_info[to].name, have, x);
    }
}

static void casts(void)
{
    const struct {
        DType from, to;
        double v, want;
    } c[] = {
        {DT_F32, DT_I32, 1e20, 2147483647},
        {DT_F32, DT_I32, -1e20, -2147483648.0},
        {DT_F32, DT_I32, NAN, 0},
        {DT_F32, DT_I32, -2.9, -2},
        {DT_F32, DT_U8, 300, 255},
        {DT_F32, DT_U8, -3, 0},
        {DT_F32, DT_U32, 5e9, 4294967295.0},
        {DT_F32, DT_BOOL, 0.1, 1},
        {DT_F32, DT_BOOL, 0, 0},
        {DT_I64, DT_U8, 257, 1},
        {DT_I64, DT_I32, 4294967295.0, -1},
        {DT_I32, DT_U32, -1, 4294967295.0},
        {DT_U8, DT_F32, 200, 200},
        {DT_BOOL, DT_F32, 1, 1},
        {DT_F64, DT_F32, 0.1, 0.10000000149011612},
        {DT_F32, DT_F16, 65520, INFINITY},
        {DT_F32, DT_F16, 65519, 65504},
        {DT_F32, DT_F16, 2049, 2048},
        {DT_F32, DT_F16, 2051, 2052},
        {DT_F32, DT_F16, 3e-8, 5.9604644775390625e-08},
        {DT_F32, DT_F16, 2e-8, 0},
        {DT_F32, DT_BF16, 257, 256},
        {DT_F32, DT_BF16, 259, 260},
        {DT_F32, DT_BF16, 1, 1},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        Graph *g = fresh();
        EvalEnv env = environment();
        env.round = true;
        Type t = shape(c[i].from, 1, 1);
        Node *n = graph_cast(g, input(g, "a", t), c[i].to);
        give(&env, "a", t, &c[i].v);
        CHECK_MSG(gives(g, &env, n, &c[i].want), "cast %zu", i);
    }
    for (uint32_t h = 0; h < 65536; h++) { // every half survives the road to double and back
        uint16_t bits = (uint16_t)h, back;
        DType both[] = {DT_F16, DT_BF16};
        for (int k = 0; k < 2; k++) {
            Scalar v = scalar_load(both[k], &bits);
            scalar_store(both[k], &back, v);
            if (v.f == v.f && back != bits) CHECK_MSG(false, "%04x became %04x", bits, back);
            if (v.f == v.f && scalar_round(both[k], v.f) != v.f)
                CHECK_MSG(false, "%04x moved", bits);
        }
    }
}

// -- broadcasting, views, reductions --------------------------------------------------------------

static void views(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type t = shape(DT_F32, 2, 2, 3);
    Node *x = input(g, "x", t), *row = input(g, "row", shape(DT_F32, 1, 3));
    Node *column = input(g, "column", shape(DT_F32, 2, 2, 1));
    give(&env, "x", t, DATA(1, 2, 3, 4, 5, 6));
    give(&env, "row", shape(DT_F32, 1, 3), DATA(10, 20, 30));
    give(&env, "column", shape(DT_F32, 2, 2, 1), DATA(100, 200));
    CHECK(gives(g, &env, graph_binary(g, OP_add, x, row), DATA(11, 22, 33, 14, 25, 36)));
    CHECK(gives(g, &env, graph_binary(g, OP_add, x, column), DATA(101, 102, 103, 204, 205, 206)));
    CHECK(gives(g, &env, graph_binary(g, OP_add, row, column), DATA(110, 120, 130, 210, 220, 230)));
    CHECK(gives(g, &env, graph_permute(g, x, (int64_t[]){1, 0}), DATA(1, 4, 2, 5, 3, 6)));
    CHECK(gives(g, &env, graph_reshape(g, x, 1, (int64_t[]){6}), DATA(1, 2, 3, 4, 5, 6)));
    CHECK(gives(g, &env, graph_slice(g, x, (int64_t[]){0, 0}, (int64_t[]){2, 3}, (int64_t[]){1, 2}),
                DATA(1, 3, 4, 6)));
    Attrs a = {0};
    attr_set_ints(g, &a, ATTR_low, (int64_t[]){1, 0}, 2);
    attr_set_ints(g, &a, ATTR_high, (int64_t[]){0, 1}, 2);
    Node *padded = graph_node(g, OP_pad, (Node *[]){x, graph_const(g, DT_F32, 9)}, 2, &a);
    CHECK(gives(g, &env, padded, DATA(9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9)));
    a = (Attrs){0};
    attr_set_int(&a, ATTR_axis, 1);
    CHECK(gives(g, &env, graph_node(g, OP_concat, (Node *[]){x, column}, 2, &a),
                DATA(1, 2, 3, 100, 4, 5, 6, 200)));
    a = (Attrs){0};
    attr_set_ints(g, &a, ATTR_axes, (int64_t[]){1}, 1);
    CHECK(gives(g, &env, graph_node(g, OP_reverse, &x, 1, &a), DATA(3, 2, 1, 6, 5, 4)));

    int64_t one = 1, zero = 0, both[] = {0, 1};
    CHECK(gives(g, &env, graph_reduce(g, OP_sum, x, &one, 1, false), DATA(6, 15)));
    CHECK(gives(g, &env, graph_reduce(g, OP_sum, x, &zero, 1, true), DATA(5, 7, 9)));
    CHECK(gives(g, &env, graph_reduce(g, OP_sum, x, both, 2, false), DATA(21)));
    CHECK(gives(g, &env, graph_reduce(g, OP_prod, x, &one, 1, false), DATA(6, 120)));
    CHECK(gives(g, &env, graph_reduce(g, OP_max, x, &zero, 1, false), DATA(4, 5, 6)));
    CHECK(gives(g, &env, graph_reduce(g, OP_min, x, both, 2, false), DATA(1)));
    CHECK(gives(g, &env, graph_sum_to(g, x, &row->type), DATA(5, 7, 9)));
    CHECK(gives(g, &env, graph_sum_to(g, x, &column->type), DATA(6, 15)));

    Node *odd = input(g, "odd", shape(DT_F32, 1, 4));
    give(&env, "odd", shape(DT_F32, 1, 4), DATA(2, 7, 7, 1));
    CHECK(gives(g, &env, graph_reduce(g, OP_argmax, odd, &zero, 1, false), DATA(1)));
    give(&env, "odd", shape(DT_F32, 1, 4), (double[]){2, nan_, inf, nan_});
    CHECK(gives(g, &env, graph_reduce(g, OP_argmax, odd, &zero, 1, false), DATA(1)));
    CHECK(gives(g, &env, graph_reduce(g, OP_max, odd, &zero, 1, false), &nan_));

    Node *flags = input(g, "flags", shape(DT_BOOL, 1, 3));
    give(&env, "flags", shape(DT_BOOL, 1, 3), DATA(1, 0, 1));
    Node *count = graph_reduce(g, OP_sum, flags, &zero, 1, false);
    CHECK(count->type.dtype == DT_I64 && gives(g, &env, count, DATA(2)));
}

static void contractions(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type ta = shape(DT_F32, 2, 2, 3), tb = shape(DT_F32, 2, 3, 2), tc = shape(DT_F32, 3, 2, 2, 3);
    Node *a = input(g, "a", ta), *b = input(g, "b", tb), *c = input(g, "c", tc);
    give(&env, "a", ta, DATA(1, 2, 3, 4, 5, 6));
    give(&env, "b", tb, DATA(1, 0, 2, 1, 0, 3));
    give(&env, "c", tc, DATA(1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 1, 0));
    CHECK(gives(g, &env, graph_matmul(g, a, b), DATA(5, 11, 14, 23)));
    CHECK(gives(g, &env, graph_matmul(g, c, b), DATA(5, 11, 14, 23, 1, 0, 2, 1)));
    // (2, 3) x (2, 3, 2)
    int64_t perm[] = {0, 2, 1};
    Node *ct = graph_permute(g, c, perm);
    CHECK(gives(g, &env, graph_matmul(g, a, ct), DATA(14, 32, 32, 77, 1, 2, 4, 5)));
    int64_t zero = 0, one = 1;
    Node *inner = graph_dot(g, a, b, NULL, NULL, 0, &one, &zero, 1, DT_F32);
    CHECK(inner == graph_matmul(g, a, b));
    Node *batched = graph_dot(g, c, c, (int64_t[]){0}, (int64_t[]){0}, 1, (int64_t[]){1, 2},
                              (int64_t[]){1, 2}, 2, DT_F32);
    CHECK(gives(g, &env, batched, DATA(91, 2)));
}

// -- indexed access, scans ------------------------------------------------------------------------

static void indexed(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type t = shape(DT_F32, 2, 3, 2), ti = shape(DT_I32, 1, 4), tu = shape(DT_F32, 2, 4, 2);
    Node *x = input(g, "x", t), *index = input(g, "index", ti), *u = input(g, "u", tu);
    Node *at = input(g, "at", shape(DT_I64, 0)), *nil = graph_const(g, DT_I64, 0);
    give(&env, "x", t, DATA(1, 2, 3, 4, 5, 6));
    give(&env, "index", ti, DATA(2, 0, 2, 1));
    give(&env, "u", tu, DATA(1, 1, 10, 10, 100, 100, 1000, 1000));
    give(&env, "at", shape(DT_I64, 0), DATA(7));
    Attrs a = {0};
    attr_set_int(&a, ATTR_axis, 0);
    Node *picked = graph_node(g, OP_gather, (Node *[]){x, index}, 2, &a);
    CHECK(gives(g, &env, picked, DATA(5, 6, 1, 2, 5, 6, 3, 4)));
    CHECK(gives(g, &env, graph_node(g, OP_scatter, (Node *[]){x, index, u}, 3, &a),
                DATA(10, 10, 1000, 1000, 100, 100)));
    CHECK(gives(g, &env, graph_node(g, OP_scatter_add, (Node *[]){x, index, u}, 3, &a),
                DATA(11, 12, 1003, 1004, 106, 107)));
    CHECK(gives(g, &env, graph_node(g, OP_scatter_max, (Node *[]){x, index, u}, 3, &a),
                DATA(10, 10, 1000, 1000, 100, 100)));
    CHECK(gives(g, &env, graph_node(g, OP_scatter_min, (Node *[]){x, index, u}, 3, &a),
                DATA(1, 2, 3, 4, 1, 1)));
    Attrs s = {0};
    attr_set_ints(g, &s, ATTR_sizes, (int64_t[]){2, 1}, 2);
    Node *part = graph_node(g, OP_dynamic_slice, (Node *[]){x, at, nil}, 3, &s);
    CHECK(gives(g, &env, part, DATA(3, 5))); // 7 is clamped to 1
    CHECK(gives(g, &env, graph_node(g, OP_dynamic_update, (Node *[]){x, part, nil, at}, 4, NULL),
                DATA(1, 3, 3, 5, 5, 6)));

    EvalResult r;
    give(&env, "index", ti, DATA(2, 0, 3, -1));
    CHECK(gives(g, &env, picked, DATA(5, 6, 1, 2, 5, 6, 1, 2)));
    CHECK(eval_graph(g, &env, &r) && r.bad_index == picked && r.bad_value == 3);

    Type tv = shape(DT_F32, 2, 2, 4);
    Node *v = input(g, "v", tv);
    give(&env, "v", tv, (double[]){3, 1, nan_, 1, 0, -1, 5, 2});
    Attrs o = {0};
    attr_set_int(&o, ATTR_axis, 1);
    CHECK(
        gives(g, &env, graph_node(g, OP_sort, &v, 1, &o), (double[]){1, 1, 3, nan_, -1, 0, 2, 5}));
    CHECK(gives(g, &env, graph_node(g, OP_argsort, &v, 1, &o), DATA(1, 3, 0, 2, 1, 0, 3, 2)));
    attr_set_int(&o, ATTR_descending, 1);
    CHECK(gives(g, &env, graph_node(g, OP_argsort, &v, 1, &o), DATA(2, 0, 1, 3, 2, 3, 0, 1)));
    attr_set_int(&o, ATTR_first, 2);
    CHECK(gives(g, &env, graph_node(g, OP_argsort, &v, 1, &o), DATA(2, 0, 2, 3)));
    attr_set_int(&o, ATTR_axis, 0);
    attr_set_int(&o, ATTR_first, 1);
    CHECK(gives(g, &env, graph_node(g, OP_sort, &v, 1, &o), (double[]){3, 1, nan_, 2}));
    Attrs c = {0};
    attr_set_int(&c, ATTR_axis, 0);
    CHECK(gives(g, &env, graph_node(g, OP_cumsum, &x, 1, &c), DATA(1, 2, 4, 6, 9, 12)));
    attr_set_int(&c, ATTR_reverse, 1);
    CHECK(gives(g, &env, graph_node(g, OP_cumsum, &x, 1, &c), DATA(9, 12, 8, 10, 5, 6)));
    attr_set_int(&c, ATTR_exclusive, 1);
    CHECK(gives(g, &env, graph_node(g, OP_cumsum, &x, 1, &c), DATA(8, 10, 5, 6, 0, 0)));
    CHECK(gives(g, &env, graph_node(g, OP_cumprod, &x, 1, &c), DATA(15, 24, 5, 6, 1, 1)));
    CHECK(
        gives(g, &env, graph_node(g, OP_cummin, &x, 1, &c), DATA(3, 4, 5, 6, INFINITY, INFINITY)));
    attr_set_int(&c, ATTR_exclusive, 0);
    CHECK(gives(g, &env, graph_node(g, OP_cummax, &x, 1, &c), DATA(5, 6, 5, 6, 5, 6)));
}

// -- random, iota, constants ----------------------------------------------------------------------

static void random_words(void)
{
    uint32_t out[4], zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    philox4x32(zero, zero, 10, out);
    CHECK(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c &&
          out[3] == 0x9b00dbd8);
    philox4x32(ones, ones, 10, out);
    CHECK(out[0] == 0x408f276d && out[1] == 0x41c83b0e && out[2] == 0xa20bc7c6 &&
          out[3] == 0x6d5451fd);
    philox4x32(zero, zero, 7, out);
    CHECK(out[0] == 0x5f6fb709 && out[1] == 0x0d893f64 && out[2] == 0x4f121f81 &&
          out[3] == 0x4f730a48);

    Graph *g = fresh();
    EvalEnv env = environment();
    Node *seed = graph_const_int(g, DT_I64, 0), *step = graph_const_int(g, DT_I64, 0);
    Attrs a = {0};
    attr_set_ints(g, &a, ATTR_shape, (int64_t[]){2, 2}, 2);
    attr_set_int(&a, ATTR_dtype, DT_U32);
    attr_set_int(&a, ATTR_site, 0);
    attr_set_int(&a, ATTR_bits, 128);
    attr_set_int(&a, ATTR_lane, 1);
    Node *n = graph_node(g, OP_random, (Node *[]){seed, step}, 2, &a);
    EvalResult r;
    Value *all[8];
    CHECK(eval_graph_all(g, &env, &r, all) && all[n->id]->i[0] == 0xe169c58d);
    CHECK(all[n->id]->i[1] == philox_word(0, 0, 0, 1, 128, 1));
    CHECK(graph_node(g, OP_random, (Node *[]){seed, step}, 2, &a) == n);
    attr_set_int(&a, ATTR_site, 1);
    CHECK(graph_node(g, OP_random, (Node *[]){seed, step}, 2, &a) != n);
    // Neighbours share a block: the words of blocks 0 and 1, in order.
    uint32_t block[2][4], halves[4];
    for (uint32_t k = 0; k < 2; k++)
        philox4x32((uint32_t[]){k, 0, 0, 1}, (uint32_t[]){0, 0}, 10, block[k]);
    philox4x32((uint32_t[]){0, 0, 0, 1}, (uint32_t[]){0, 0}, 7, halves);
    for (int i = 0; i < 8; i++) {
        const uint32_t word = block[i / 4][i % 4], half = halves[i / 2] >> i % 2 * 16 & 0xffff;
        CHECK(philox_draw(0, 0, 1, (uint64_t)i, 32, 0) == word);
        CHECK(philox_draw(0, 0, 1, (uint64_t)i, 16, 0) == half);
        CHECK(philox_draw(0, 0, 1, (uint64_t)i / 2, 64, i % 2) == word);
    }

    Attrs i = {0};
    attr_set_ints(g, &i, ATTR_shape, (int64_t[]){2, 3}, 2);
    attr_set_int(&i, ATTR_dtype, DT_F32);
    attr_set_int(&i, ATTR_axis, 1);
    CHECK(gives(g, &env, graph_node(g, OP_iota, NULL, 0, &i), DATA(0, 1, 2, 0, 1, 2)));
    Attrs c = {0};
    int64_t bits[3];
    memcpy(bits, (double[]){0.5, -2, 3}, sizeof bits);
    attr_set_ints(g, &c, ATTR_shape, (int64_t[]){3}, 1);
    attr_set_int(&c, ATTR_dtype, DT_F32);
    attr_set_ints(g, &c, ATTR_values, bits, 3);
    CHECK(gives(g, &env, graph_node(g, OP_const, NULL, 0, &c), DATA(0.5, -2, 3)));
}

// -- regions --------------------------------------------------------------------------------------

static void regions(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type s = shape(DT_F32, 0), v = shape(DT_F32, 1, 4), counter = shape(DT_I64, 0);
    // h <- h * decay + x[i], stacking h * i: (i, h, x, decay) -> (h', h' * i)
    Graph *body = graph_new(arena, diags, NULL);
    Node *i = graph_region_param(body, &counter), *h = graph_region_param(body, &s);
    Node *x = graph_region_param(body, &s), *decay = graph_region_param(body, &s);
    Node *next = graph_binary(body, OP_add, graph_binary(body, OP_mul, h, decay), x);
    vec_push(arena, &body->results, next);
    vec_push(arena, &body->results, graph_binary(body, OP_mul, next, graph_cast(body, i, DT_F32)));
    Node *args[] = {input(g, "h", s), input(g, "x", v), input(g, "decay", s)};
    give(&env, "h", s, DATA(1));
    give(&env, "x", v, DATA(1, 2, 3, 4));
    give(&env, "decay", s, DATA(0.5));
    Attrs a = {0};
    attr_set_int(&a, ATTR_count, 4);
    attr_set_int(&a, ATTR_carried, 1);
    attr_set_int(&a, ATTR_scanned, 1);
    Node *loop = graph_region_node(g, OP_loop, args, 3, &a, &body, 1);
    CHECK(node_result_count(loop) == 2);
    Node *last = graph_result(g, loop, 0), *all = graph_result(g, loop, 1);
    CHECK(all->type.rank == 1 && all->type.dim[0] == 4);
    CHECK(gives(g, &env, last, DATA(6.1875)));
    CHECK(gives(g, &env, all, DATA(0, 2.75, 8.75, 18.5625)));
    attr_set_int(&a, ATTR_reverse, 1);
    Node *back = graph_region_node(g, OP_loop, args, 3, &a, &body, 1);
    CHECK(gives(g, &env, graph_result(g, back, 0), DATA(3.3125)));

    Graph *f = graph_new(arena, diags, NULL);
    Node *p = graph_region_param(f, &s), *q = graph_region_param(f, &s);
    vec_push(arena, &f->results, graph_binary(f, OP_sub, p, q));
    vec_push(arena, &f->results, q);
    Attrs c = {0};
    attr_set_str(g, &c, ATTR_name, "difference");
    Node *call = graph_region_node(g, OP_call, (Node *[]){args[0], args[2]}, 2, &c, &f, 1);
    CHECK(gives(g, &env, graph_result(g, call, 0), DATA(0.5)));
    CHECK(graph_result(g, call, 1) == args[2]); // handed through
    CHECK(graph_verify(g, "building"));
    Node *results[2];
    graph_inline(g, f, (Node *[]){args[0], args[2]}, results);
    CHECK(gives(g, &env, results[0], DATA(0.5)) && results[1] == args[2]);
    CHECK(diags->errors == 0);
}

// -- roots and reports ----------------------------------------------------------------------------

static void roots(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    EvalResult r;
    Type t = shape(DT_F32, 1, 2);
    Node *x = input(g, "x", t), *w = graph_leaf_cell(g, OP_param, "w", &t);
    Node *sum = graph_binary(g, OP_add, x, w);
    Node *ratio = graph_binary(g, OP_div, x, w);
    graph_root(g, OP_output, sum, "sum");
    graph_root(g, OP_assign, sum, "w");
    Node *positive = graph_binary(g, OP_gt, sum, graph_full_like(g, sum, 0));
    Node *check = graph_root(g, OP_assert, positive, "sums are positive");
    CHECK(!eval_graph(g, &env, &r) && errors_say("no value given for the input 'x'"));
    Value *weights = give(&env, "x", t, DATA(1, 2));
    strmap_set(&env.cells, "w", weights);
    CHECK(eval_graph(g, &env, &r) && !r.failed_assert && !r.first_nonfinite);
    CHECK(value_get(strmap_get(&r.outputs, "sum"), 1) == 4);
    CHECK(value_get(strmap_get(&r.assigns, "w"), 0) == 2);
    EvalEnv other = environment();
    Value *zero = give(&other, "x", t, DATA(0, -1));
    strmap_set(&other.cells, "w", zero);
    CHECK(eval_graph(g, &other, &r) && r.failed_assert == check && r.first_nonfinite == ratio);
    give(&other, "x", shape(DT_F32, 1, 3), DATA(0, 0, 0));
    CHECK(!eval_graph(g, &other, &r) && errors_say("given f32[3], the graph expects f32[2]"));
    unsigned char bytes[8];
    value_to_bytes(weights, bytes);
    CHECK(!memcmp(bytes, (float[]){1, 2}, 8));
    value_from_bytes(weights, (float[]){7, 8});
    CHECK(value_get(weights, 1) == 8);
}

// A loop over floats computes what single elements give, to the bit, for every op that takes
// floats.
static void whole_tensors(void)
{
    enum { N = 41 };
    static const double special[] = {0.0,  -0.0, 1,      -1,       0.5,
                                     -2.5, 1e30, 1e-310, INFINITY, -INFINITY};
    enum { SPECIAL = sizeof special / sizeof *special };
    double x[3][N], out[N];
    int64_t conditions[N];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++)
            x[k][i] =
                i == k ? NAN
                : (i + k) % 2
                    ? special[(i * (k + 1)) % SPECIAL]
                    : (philox_word(7, (uint64_t)k, 0, (uint64_t)i, 32, 0) / 4294967296.0 - 0.5) * 9;
        conditions[i] = i % 3 == 0;
    }
    int ops = 0;
    for (Op op = 0; op < OP_COUNT; op++) {
        const OpInfo *o = op_info(op);
        if (!scalar_on_floats[op]) continue;
        if (o->rule != EW_arith && o->rule != EW_float && o->rule != EW_compare &&
            o->rule != EW_test && o->rule != EW_select && o->rule != EW_same)
            continue;
        const bool chooses = o->rule == EW_select,
                   says = o->rule == EW_compare || o->rule == EW_test;
        scalar_on_floats[op](out, chooses ? (void *)conditions : x[0], x[1], x[2], N);
        for (int i = 0; i < N; i++) {
            const Scalar a = chooses ? (Scalar){.i = conditions[i]} : (Scalar){.f = x[0][i]};
            const Scalar one = scalar_apply(op, DT_F64, says ? DT_BOOL : DT_F64, a,
                                            (Scalar){.f = x[1][i]}, (Scalar){.f = x[2][i]}, false);
            CHECK_MSG(!memcmp(&one, &out[i], sizeof one) ||
                          (!says && isnan(one.f) && isnan(out[i])),
                      "%s of element %d", o->name, i);
        }
        ops++;
    }
    CHECK(ops > 30);
}

int main(void)
{
    arena = arena_new();
    elementwise();
    whole_tensors();
    casts();
    folded_integers();
    folded_casts();
    views();
    contractions();
    indexed();
    random_words();
    regions();
    roots();
    arena_free(arena);
    return unit_done();
}
