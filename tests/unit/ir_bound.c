// The tolerance must accept what rounding does and refuse every mistake of a kernel, also where one
// node of the graph is narrow, a sum is long or a value is not finite.
#include "tests/unit/ir_common.h"

#include "ir/bound.h"
#include "ir/scalar.h"

enum { M = 96, K = 256, N = 80 };

static double *noise(int64_t n, uint64_t seed)
{
    double *x = NEW_ARRAY(arena, double, n + 1);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (double)(int64_t)(seed >> 11) * 0x1p-52 - 1; // in -1..1
    }
    return x;
}

static const Value *evaluate(Graph *g, EvalEnv *env, const char *output)
{
    EvalResult r;
    env->bound = true;
    CHECK(eval_graph(g, env, &r));
    return strmap_get(&r.outputs, output);
}

static Value copy_of(const Value *v)
{
    Value out = value_new(arena, &v->type);
    memcpy(out.f, v->f, (size_t)type_count(&v->type) * sizeof *v->f); // or out.i: of one size
    return out;
}

static int64_t wrong(const Value *have, const Value *want)
{
    return bound_compare(have, want, NULL).wrong;
}

// Whether element i may be x.
static bool allows(const Value *want, int64_t i, double x)
{
    Value have = copy_of(want);
    if (dtype_is_float(want->type.dtype))
        have.f[i] = x;
    else
        have.i[i] = (int64_t)x;
    return !wrong(&have, want);
}

// An f32 input whose elements are so far off, downwards and upwards.
static void give_within(EvalEnv *env, const char *name, int n, const double *x, const double *error)
{
    Value *v = give(env, name, shape(DT_F32, 1, n), x);
    for (int side = 0; side < 2; side++) {
        v->error[side] = NEW_ARRAY(arena, double, n);
        memcpy(v->error[side], error, (size_t)n * sizeof *error);
    }
}

// What op makes of one such input, and of a second one.
static const Value *apply(Op op, int n, const double *x, const double *ex, const double *y,
                          const double *ey)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *a = input(g, "x", shape(DT_F32, 1, n)), *b = y ? input(g, "y", a->type) : NULL;
    give_within(&env, "x", n, x, ex);
    if (y) give_within(&env, "y", n, y, ey);
    graph_root(g, OP_output, y ? graph_binary(g, op, a, b) : graph_unary(g, op, a), "out");
    return evaluate(g, &env, "out");
}

// x w with f32 sums, beside an output in bf16 and a sum of a million elements: neither loosens it.
static Graph *products(DType operands)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 2, M, K)), *w = input(g, "w", shape(DT_F32, 2, K, N));
    Node *y = graph_dot(g, graph_cast(g, x, operands), graph_cast(g, w, operands), NULL, NULL, 0,
                        (int64_t[]){1}, (int64_t[]){0}, 1, DT_F32);
    graph_root(g, OP_output, y, "y");
    graph_root(g, OP_output, graph_cast(g, y, DT_BF16), "narrow");
    Node *long_one = input(g, "z", shape(DT_F32, 2, 1000, 1000));
    graph_root(g, OP_output, graph_reduce(g, OP_sum, long_one, (int64_t[]){0, 1}, 2, false), "s");
    graph_root(g, OP_output, graph_binary(g, OP_mul, long_one, long_one), "million");
    return g;
}

// What an f32 kernel computes, its operands rounded to a type, in K terms; the last are left out.
static Value by_hand(const double *x, const double *w, DType operands, int terms, const Value *like)
{
    Value out = value_new(arena, &like->type);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = terms; k-- > 0;)
                sum += (float)scalar_round(operands, x[i * K + k]) *
                       (float)scalar_round(operands, w[k * N + j]);
            out.f[i * N + j] = sum;
        }
    return out;
}

static void test_products(DType operands)
{
    EvalEnv env = environment();
    double *x = noise(M * K, 1), *w = noise(K * N, 2), *z = noise(1000000, 3);
    for (int i = 0; i < M * K; i++) x[i] = (float)x[i];
    for (int i = 0; i < K * N; i++) w[i] = (float)w[i];
    for (int i = 0; i < 1000000; i++) z[i] = (float)z[i];
    give(&env, "x", shape(DT_F32, 2, M, K), x);
    give(&env, "w", shape(DT_F32, 2, K, N), w);
    give(&env, "z", shape(DT_F32, 2, 1000, 1000), z);
    const Value *want = evaluate(products(operands), &env, "y");
    Value right = by_hand(x, w, operands, K, want);
    Agreement a = bound_compare(&right, want, NULL);
    CHECK(!a.wrong && a.undecided < M * N / 100 && a.worst > 0 && a.compared == M * N);
    Value zeros = value_new(arena, &want->type);
    CHECK(wrong(&zeros, want) > M * N * 99 / 100);
    Value cut = by_hand(x, w, operands, K - 16, want); // a tile of the sum is missing
    CHECK(wrong(&cut, want) > M * N * 9 / 10);
    Value tile = copy_of(&right); // the last tile of the result is missing
    for (int i = M - 8; i < M; i++)
        for (int j = N - 8; j < N; j++) tile.f[i * N + j] = 0;
    CHECK(wrong(&tile, want) > 60);
    Value shifted = copy_of(&right);
    memmove(shifted.f, shifted.f + 1, (M * N - 1) * sizeof *shifted.f);
    CHECK(wrong(&shifted, want) > M * N * 9 / 10);
    if (operands != DT_F32) return;
    Value rounded = by_hand(x, w, DT_BF16, K, want); // as a kernel with narrow operands
    CHECK(wrong(&rounded, want) > M * N / 2);
}

static void test_one_in_a_million(void)
{
    EvalEnv env = environment();
    double *z = noise(1000000, 3);
    for (int i = 0; i < 1000000; i++) z[i] = (float)z[i];
    give(&env, "x", shape(DT_F32, 2, M, K), noise(M * K, 1));
    give(&env, "w", shape(DT_F32, 2, K, N), noise(K * N, 2));
    give(&env, "z", shape(DT_F32, 2, 1000, 1000), z);
    const Value *want = evaluate(products(DT_BF16), &env, "million");
    Value have = copy_of(want);
    for (int i = 0; i < 1000000; i++) have.f[i] = (float)z[i] * (float)z[i];
    CHECK(!wrong(&have, want));
    have.f[999999] *= 1 + 1e-5;
    Agreement a = bound_compare(&have, want, NULL);
    CHECK(a.wrong == 1 && a.at == 999999);
    have.f[999999] = NAN;
    a = bound_compare(&have, want, NULL);
    CHECK(a.wrong == 1 && a.at == 999999);
    for (int i = 0; i < 1000000; i++) have.f[i] = NAN;
    CHECK(wrong(&have, want) == 1000000);
}

// y = x + x in f16, z = exp(x): values that are not finite match, those beside the end may go over.
static void test_not_finite(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F16, 1, 4));
    graph_root(g, OP_output, graph_binary(g, OP_mul, x, graph_full_like(g, x, 1.5)), "y");
    EvalEnv env = environment();
    give(&env, "x", shape(DT_F16, 1, 4), DATA(60000, 43616, 1, NAN));
    const Value *want = evaluate(g, &env, "y");
    Value have = copy_of(want);
    CHECK(have.f[0] == INFINITY && have.f[1] == 65408 && isnan(have.f[3]) && !wrong(&have, want));
    have.f[1] = INFINITY;
    CHECK(!wrong(&have, want));
    have.f[0] = 65504;
    CHECK(wrong(&have, want) == 1);
    have.f[2] = INFINITY;
    have.f[3] = 0;
    CHECK(wrong(&have, want) == 3);
}

// Behind a step: where the operand's error reaches it either side is right, elsewhere one is.
// exp of a mask's -inf is an exact 0 and uncertain in nothing.
static void test_masked(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 4)), *y = graph_unary(g, OP_exp, x);
    graph_root(g, OP_output, graph_reduce(g, OP_sum, y, (int64_t[]){0}, 1, false), "y");
    give(&env, "x", shape(DT_F32, 1, 4), (double[]){0.5, -INFINITY, 0.25, -INFINITY});
    const Value *want = evaluate(g, &env, "y");
    Value zero = value_new(arena, &want->type);
    CHECK(!bound_compare(want, want, NULL).undecided && wrong(&zero, want) == 1);
}

static void test_steps(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 1, 3)), *one = graph_full_like(g, x, 1);
    Node *third = graph_binary(g, OP_div, x, graph_full_like(g, x, 3)); // rounds
    Node *near = graph_binary(g, OP_mul, third, graph_full_like(g, x, 3));
    Node *above = graph_cast(g, graph_binary(g, OP_ge, near, one), DT_F32);
    graph_root(g, OP_output, above, "above");
    Node *data = input(g, "data", shape(DT_F32, 1, 4));
    Node *index = graph_cast(g, graph_unary(g, OP_floor, near), DT_I32), *picks[] = {data, index};
    Attrs axis = {0};
    attr_set_int(&axis, ATTR_axis, 0);
    graph_root(g, OP_output, graph_node(g, OP_gather, picks, 2, &axis), "picked");
    EvalEnv env = environment();
    give(&env, "x", shape(DT_F32, 1, 3), DATA(1, 1.001, 0.4));
    give(&env, "data", shape(DT_F32, 1, 4), DATA(10, 20, 30, 40));
    const Value *v = evaluate(g, &env, "above");
    Value have = copy_of(v);
    CHECK(v->error[0] && v->error[0][0] == 1 && v->error[0][1] == 0 && v->error[0][2] == 0);
    have.f[0] = 0;
    CHECK(!wrong(&have, v));
    have.f[1] = 0;
    CHECK(wrong(&have, v) == 1);
    v = evaluate(g, &env, "picked");
    CHECK(v->f[0] == 20 && v->f[1] == 20 && v->f[2] == 10);
    CHECK(v->error[0][0] == 10 && v->error[0][1] == 0 && v->error[0][2] == 0);
}

// Elements that are not finite become those of the product, with its error; others stay.
static void test_repair(void)
{
    Graph *g = fresh();
    Node *a = input(g, "a", shape(DT_F32, 3, 2, 2, 2)),
         *b = input(g, "b", shape(DT_F32, 3, 2, 3, 2));
    Node *dot = graph_dot(g, a, b, (int64_t[]){0}, (int64_t[]){0}, 1, (int64_t[]){2},
                          (int64_t[]){2}, 1, DT_F32);
    const int64_t perm[] = {1, 0, 2};
    Node *exact = graph_permute(g, dot, perm), *y = input(g, "y", exact->type);
    Attrs at = attrs_copy(dot->attrs);
    attr_set_ints(g, &at, ATTR_perm, perm, 3);
    Node *args[] = {a, b, y};
    graph_root(g, OP_output, exact, "exact");
    graph_root(g, OP_output, graph_node(g, OP_repair, args, 3, &at), "repaired");
    EvalEnv env = environment();
    give(&env, "a", a->type, DATA(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8));
    give(&env, "b", b->type, DATA(1, 0.1, 2, 0.2, 3, 0.3, 4, 0.4, 5, 0.5, 6, 0.6));
    double given[] = {NAN, 1, INFINITY, 2, -INFINITY, 3, 4, NAN, 5, 6, 7, INFINITY};
    give(&env, "y", y->type, given);
    const Value *want = evaluate(g, &env, "exact"), *v = evaluate(g, &env, "repaired");
    for (int i = 0; i < 12; i++) {
        CHECK_MSG(v->f[i] == (isfinite(given[i]) ? given[i] : want->f[i]), "element %d", i);
        CHECK_MSG(want->error[0][i] > 0 && v->error[0][i] == want->error[0][i], "%g %g",
                  want->error[0][i], v->error[0][i]);
    }
}

// Just past a multiple a remainder may as well be none, or all; and the larger of two equal values
// falls where both fall.
static void test_turns(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 1, 1)), *y = input(g, "y", shape(DT_F32, 1, 1));
    Node *third = graph_binary(g, OP_div, x, y);
    Node *by = graph_full_like(g, x, nextafterf(1 / 3.0f, 0));
    Node *again = graph_unary(g, OP_stop_gradient, third);
    graph_root(g, OP_output, graph_binary(g, OP_mod, third, by), "rest");
    graph_root(g, OP_output, graph_binary(g, OP_maximum, third, again), "larger");
    EvalEnv env = environment();
    give(&env, "x", shape(DT_F32, 1, 1), DATA(1));
    give(&env, "y", shape(DT_F32, 1, 1), DATA(3));
    const Value *v = evaluate(g, &env, "rest");
    Value have = copy_of(v);
    CHECK(v->f[0] > 0 && v->f[0] < 1e-7);
    have.f[0] = 0;
    CHECK(!wrong(&have, v));
    v = evaluate(g, &env, "larger");
    CHECK(v->error[0][0] > 1e-7 && v->error[0][0] < 1e-6);
}

// The largest of uncertain elements equals itself; of two that are equal either may fall behind,
// and the one far below them surely does.
static void test_equal_maxima(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 2, 2, 3)), *y = input(g, "y", x->type);
    Node *q = graph_binary(g, OP_div, x, y);
    Node *top = graph_reduce(g, OP_max, q, (int64_t[]){1}, 1, true);
    Node *mark = graph_binary(g, OP_eq, q, graph_broadcast_to(g, top, &x->type));
    graph_root(g, OP_output, graph_cast(g, mark, DT_F32), "mark");
    EvalEnv env = environment();
    give(&env, "x", shape(DT_F32, 2, 2, 3), DATA(1, 0.9, 0.1, 1, 1, 0.1));
    give(&env, "y", shape(DT_F32, 2, 2, 3), DATA(3, 3, 3, 3, 3, 3));
    const Value *v = evaluate(g, &env, "mark");
    const double want[] = {1, 0, 0, 1, 1, 0}, below[] = {0, 0, 0, 1, 1, 0};
    for (int i = 0; i < 6; i++)
        CHECK(v->f[i] == want[i] && v->error[0][i] == below[i] && v->error[1][i] == 0);
}

// A sum that cancels is as far off as its terms' last places; one that does not is not.
static void test_cancellation(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 2, 2, 4));
    graph_root(g, OP_output, graph_reduce(g, OP_sum, x, (int64_t[]){1}, 1, false), "s");
    EvalEnv env = environment();
    give(&env, "x", shape(DT_F32, 2, 2, 4), DATA(1000.5, -1000.25, 3e-5, 0, 1e-5, 2e-5, 3e-5, 0));
    const Value *v = evaluate(g, &env, "s");
    CHECK(v->error[0][0] > 3e-5 && v->error[0][0] < 1e-3 && v->error[0][1] < 1e-10);
}

// -- operands anywhere within their errors --------------------------------------------------------

static void test_select(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 3)), *y = input(g, "y", x->type);
    Node *z = input(g, "z", x->type);
    Node *cond = graph_binary(g, OP_gt, x, graph_full_like(g, x, 0));
    graph_root(g, OP_output, graph_select(g, cond, y, z), "out");
    give_within(&env, "x", 3, DATA(0, 1, -1), DATA(1e-6, 1e-6, 1e-6));
    give_within(&env, "y", 3, DATA(5, 5, 5), DATA(0.5, 0.5, 0.5));
    give_within(&env, "z", 3, DATA(7, 7, 7), DATA(0.25, 0.25, 0.25));
    const Value *v = evaluate(g, &env, "out");
    CHECK(v->f[0] == 7 && allows(v, 0, 4.5) && !allows(v, 0, 4.4) && !allows(v, 0, 7.3));
    CHECK(allows(v, 1, 4.5) && !allows(v, 1, 5.6) && allows(v, 2, 7.25) && !allows(v, 2, 6.7));
}

// A step is taken where the values that are allowed reach it, and is one step.
static void test_step_of_the_allowed(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 3)), *third = graph_full_like(g, x, 3);
    Node *near = graph_binary(g, OP_mul, graph_binary(g, OP_div, x, third), third);
    graph_root(g, OP_output, near, "near");
    graph_root(g, OP_output, graph_unary(g, OP_floor, near), "floor");
    graph_root(g, OP_output, graph_cast(g, near, DT_I32), "cast");
    Node *off = graph_binary(g, OP_sub, near, graph_full_like(g, x, 1));
    graph_root(g, OP_output, graph_unary(g, OP_sign, off), "sign");
    give(&env, "x", shape(DT_F32, 1, 3), DATA(1 + 5 * 0x1p-23, 1 + 41 * 0x1p-23, 2.5));
    const Value *v = evaluate(g, &env, "near");
    CHECK(allows(v, 0, 1 - 0x1p-24) && !allows(v, 1, 1 - 0x1p-24));
    v = evaluate(g, &env, "floor");
    CHECK(v->f[0] == 1 && allows(v, 0, 0) && !allows(v, 0, 2) && !allows(v, 0, -1));
    CHECK(!allows(v, 1, 0) && !allows(v, 2, 1) && !allows(v, 2, 3));
    v = evaluate(g, &env, "cast");
    CHECK(v->i[0] == 1 && allows(v, 0, 0) && !allows(v, 0, 2) && !allows(v, 1, 0));
    v = evaluate(g, &env, "sign");
    CHECK(v->f[0] == 1 && allows(v, 0, 0) && allows(v, 0, -1) && !allows(v, 0, 2));
    CHECK(!allows(v, 1, 0) && !allows(v, 2, -1));
}

// A wave that turns within its operand's error goes no further than its top; a remainder over a
// whole step is anywhere in it; equality within two overlapping errors is open.
static void test_between_the_ends(void)
{
    const double pi = 3.14159265358979;
    const Value *v = apply(OP_sin, 3, DATA(pi / 2, 2 * pi, 1e6), DATA(0.1, 2, 1e3), NULL, NULL);
    CHECK(!allows(v, 0, 1.01) && allows(v, 0, cos(0.1)) && !allows(v, 0, 0.99));
    CHECK(allows(v, 1, 1) && allows(v, 1, -1) && !allows(v, 1, 1.1));
    CHECK(allows(v, 2, 1) && allows(v, 2, -1) && !allows(v, 2, -1.1));
    v = apply(OP_mod, 3, DATA(0.5, 0.5, -0.25), DATA(0.9, 0.25, 0), DATA(1, 1, 1), DATA(0, 0, 0));
    CHECK(allows(v, 0, 0) && allows(v, 0, 1) && !allows(v, 0, 1.1) && !allows(v, 0, -0.1));
    CHECK(allows(v, 1, 0.25) && !allows(v, 1, 0.2) && v->f[2] == 0.75 && !allows(v, 2, 0.8));
    v = apply(OP_mod, 1, DATA(1.009), DATA(0), DATA(0.01), DATA(2e-4)); // q falls with y
    CHECK(fabs(v->f[0] - 0.009) < 1e-6 && allows(v, 0, 0.0101) && !allows(v, 0, 0.0104));
    v = apply(OP_eq, 3, DATA(0.5, 0.5, 1), DATA(0.5, 0.5, 0), DATA(1.3, 1.6, 1), DATA(0.5, 0.5, 0));
    CHECK(v->i[0] == 0 && allows(v, 0, 1) && !allows(v, 1, 1) && !allows(v, 2, 0));
    v = apply(OP_div, 2, DATA(1, 1), DATA(0, 0), DATA(2, 2), DATA(1, 3));
    CHECK(allows(v, 0, 1) && !allows(v, 0, 1.01) && allows(v, 1, -1) && allows(v, 1, INFINITY));
    v = apply(OP_sqrt, 2, DATA(1e-8, 1e-8), DATA(1e-8, 1e-7), NULL, NULL);
    CHECK(allows(v, 0, 0) && !allows(v, 0, NAN) && allows(v, 1, NAN)); // (nothing bars below 0)
}

// What is linear in its operands asks for their ends only: whatever two of them are within their
// errors, on either side of zero, is allowed, and little more.
static void test_ends(void)
{
    enum { N = 400, TRIES = 50 };
    static const Op ops[] = {OP_add, OP_sub, OP_mul};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        double *x = noise(N, 7 + o), *y = noise(N, 70 + o), *ex = noise(N, 8), *ey = noise(N, 80);
        for (int i = 0; i < N; i++) { // f32; some certain
            x[i] = (float)x[i], y[i] = (float)y[i];
            ex[i] = i % 5 ? fabs(ex[i]) : 0, ey[i] = i % 7 ? fabs(ey[i]) : 0;
        }
        const Value *v = apply(ops[o], N, x, ex, y, ey);
        double *far = NEW_ARRAY(arena, double, 2 * N);
        int missed = 0;
        for (int k = 0; k < TRIES; k++) {
            const double *r = noise(2 * N, 1000 + (uint64_t)k);
            for (int i = 0; i < N; i++) {
                double a = x[i] + ex[i] * (k < 4 ? k % 2 * 2 - 1 : r[i]),
                       b = y[i] + ey[i] * (k < 4 ? k / 2 * 2 - 1 : r[N + i]),
                       z = ops[o] == OP_add   ? a + b
                           : ops[o] == OP_sub ? a - b
                                              : a * b;
                const double d[2] = {v->f[i] - z, z - v->f[i]};
                for (int side = 0; side < 2; side++) {
                    const double error = v->error[0] ? v->error[side][i] : 0;
                    missed += d[side] > error + 1e-6;
                    far[2 * i + side] = fmax(far[2 * i + side], d[side]);
                }
            }
        }
        CHECK(!missed);
        for (int i = 0; i < N; i++) // the corners are among what was tried
            for (int side = 0; side < 2; side++)
                missed += v->error[side][i] > fmax(far[2 * i + side], 0) + 1e-5;
        CHECK(!missed);
    }
}

// Functions of 16-bit numbers are computed in f32: they do not take their operand for uncertain.
static void test_narrow_operand(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_BF16, 1, 1));
    graph_root(g, OP_output, graph_unary(g, OP_exp, x), "out");
    give(&env, "x", shape(DT_BF16, 1, 1), DATA(8));
    const Value *v = evaluate(g, &env, "out");
    CHECK(allows(v, 0, v->f[0] * (1 + 0x1p-7)) && !allows(v, 0, v->f[0] * 1.25));
}

// What is exact at one value is not at those beside it: x + 0.5 of an uncertain x rounds, x * 0.5
// does not; and the larger of what it may be counts.
static void test_rounds_beside(void)
{
    const double e = 0x1p-30;
    const Value *v = apply(OP_add, 1, DATA(0.25), &e, DATA(0.5), DATA(0));
    CHECK(allows(v, 0, 0.75 + 8 * 0x1p-24));
    v = apply(OP_mul, 1, DATA(0.25), &e, DATA(0.5), DATA(0));
    CHECK(!allows(v, 0, 0.125 * (1 + 0x1p-20)) && allows(v, 0, 0.125));
    v = apply(OP_add, 1, DATA(0.25), DATA(0), DATA(0.5), DATA(0));
    CHECK(!allows(v, 0, 0.75 + 8 * 0x1p-24));
    v = apply(OP_mul, 1, DATA(0), DATA(1), DATA(0.3), DATA(0));
    CHECK(allows(v, 0, 0.3f * (1 + 0x1p-23)) && !allows(v, 0, 0.31));
}

// NaN where anything goes, and only there; what goes anywhere may stand anywhere.
static void test_anything(void)
{
    const double any = INFINITY, none = 0;
    const Value *v = apply(OP_tanh, 2, DATA(NAN, NAN), (double[]){any, none}, NULL, NULL);
    CHECK(allows(v, 0, 0.5) && allows(v, 0, NAN) && !allows(v, 1, 0.5) && allows(v, 1, NAN));
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 4));
    Attrs axis = {0};
    attr_set_int(&axis, ATTR_axis, 0);
    graph_root(g, OP_output, graph_node(g, OP_argsort, &x, 1, &axis), "places");
    graph_root(g, OP_output, graph_node(g, OP_sort, &x, 1, &axis), "sorted");
    Attrs two = axis;
    attr_set_int(&two, ATTR_first, 2);
    graph_root(g, OP_output, graph_node(g, OP_argsort, &x, 1, &two), "first places");
    graph_root(g, OP_output, graph_node(g, OP_sort, &x, 1, &two), "first sorted");
    graph_root(g, OP_output, graph_reduce(g, OP_max, x, (int64_t[]){0}, 1, false), "largest");
    graph_root(g, OP_output, graph_reduce(g, OP_sum, x, (int64_t[]){0}, 1, false), "sum");
    give_within(&env, "x", 4, DATA(1, 2, 3, 9), DATA(0, 0, 0, 7.5));
    const Value *places = evaluate(g, &env, "places"); // 9 may be 1.5: behind the first
    CHECK(allows(places, 0, 0) && !allows(places, 0, 1) && allows(places, 1, 3));
    CHECK(allows(places, 2, 1) && allows(places, 3, 2));
    const Value *first = evaluate(g, &env, "first places"); // known from the whole order
    CHECK(allows(first, 0, 0) && !allows(first, 0, 1) && allows(first, 1, 3) &&
          allows(first, 1, 1));
    v = evaluate(g, &env, "first sorted");
    CHECK(type_count(&v->type) == 2 && allows(v, 1, 1.5) && !allows(v, 1, 1.4));
    v = evaluate(g, &env, "sorted");
    CHECK(!allows(v, 0, 0.9) && allows(v, 1, 1.5) && allows(v, 2, 2) && !allows(v, 2, 1.9));
    give_within(&env, "x", 4, DATA(1, 2, 3, NAN), DATA(0, 0, 0, any));
    v = evaluate(g, &env, "sorted");
    CHECK(allows(v, 0, -5) && allows(v, 1, 1) && !allows(v, 1, 0.5) && allows(v, 3, NAN));
    v = evaluate(g, &env, "largest");
    CHECK(allows(v, 0, 3) && allows(v, 0, NAN));
    Value *inf = give(&env, "x", shape(DT_F32, 1, 4), DATA(INFINITY, INFINITY, 1, 1));
    for (int side = 0; side < 2; side++) inf->error[side] = NEW_ARRAY(arena, double, 4);
    inf->error[0][0] = INFINITY; // as of 1 / 0: -inf, too
    CHECK(allows(evaluate(g, &env, "sum"), 0, NAN));
    graph_root(g, OP_output, graph_reduce(g, OP_prod, x, (int64_t[]){0}, 1, false), "product");
    give_within(&env, "x", 4, DATA(INFINITY, 0, 1, 1), DATA(0, 1e-9, 0, 0));
    CHECK(allows(evaluate(g, &env, "product"), 0, INFINITY));
    give_within(&env, "x", 4, DATA(INFINITY, 0, 1, 1), DATA(0, 0, 0, 0));
    CHECK(!allows(evaluate(g, &env, "product"), 0, INFINITY));
}

// Whole numbers wrap: what is anywhere in 0..255 is so less one, too.
static void test_wraps(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 2)), *u = graph_cast(g, x, DT_U8);
    graph_root(g, OP_output, graph_unary(g, OP_neg, u), "out");
    give_within(&env, "x", 2, DATA(0, 3), DATA(INFINITY, 0.5));
    const Value *v = evaluate(g, &env, "out");
    CHECK(v->i[0] == 0 && allows(v, 0, 255) && v->i[1] == 253 && allows(v, 1, 254));
    CHECK(!allows(v, 1, 252));
}

// Squares of deviations are no number where one of them is none, and anything where it is
// uncertain.
static void test_deviations(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 3));
    graph_root(g, OP_output, graph_reduce(g, OP_sqdev, x, (int64_t[]){0}, 1, false), "out");
    give_within(&env, "x", 3, DATA(-INFINITY, 0, 1), DATA(INFINITY, 0, 0));
    CHECK(allows(evaluate(g, &env, "out"), 0, 311));
    give_within(&env, "x", 3, DATA(-INFINITY, 0, 1), DATA(0, 0, 0));
    CHECK(!allows(evaluate(g, &env, "out"), 0, 311));
    give(&env, "x", shape(DT_F32, 1, 3), DATA(0.1f, 0.1f, 0.1f)); // the mean may be off, too
    CHECK(allows(evaluate(g, &env, "out"), 0, 3 * pow(20 * 0.1 * 0x1p-24, 2)));
    CHECK(!allows(evaluate(g, &env, "out"), 0, 1e-9));
}

// Errors of a contraction's terms count as independent, but for steps: all of them may be taken.
// Roundings to bf16 that go to the next number have room for some on one side.
static void test_contracted_steps(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 4)), *y = input(g, "y", x->type);
    graph_root(g, OP_output,
               graph_dot(g, x, y, NULL, NULL, 0, (int64_t[]){0}, (int64_t[]){0}, 1, DT_F32), "out");
    graph_root(g, OP_output, graph_cast(g, x, DT_BF16), "narrow");
    give(&env, "y", x->type, DATA(1, 1, 1, 1));
    give_within(&env, "x", 4, DATA(0, 1, 2, 3), DATA(1, 1, 0, 0));
    const Value *v = evaluate(g, &env, "out");
    CHECK(allows(v, 0, 8) && !allows(v, 0, 8.01) && allows(v, 0, 4));
    give_within(&env, "x", 4, DATA(1, 2, 3, 5), DATA(0.1, 0.1, 0.1, 0.1));
    v = evaluate(g, &env, "out");
    CHECK(allows(v, 0, 11.19) && !allows(v, 0, 11.3));
    give_within(&env, "x", 4, DATA(1 + 0x1p-8, 1, 1, 1), DATA(1e-6, 1e-6, 0, 0));
    v = evaluate(g, &env, "narrow");
    CHECK(v->f[0] == 1 && allows(v, 0, 1 + 0x1p-7) && !allows(v, 0, 1 + 0x1p-4));
    CHECK(!allows(v, 1, 1 + 0x1p-6) && !allows(v, 2, 1 + 0x1p-6));
}

// Rounding grows with every round of x = sin(x) 7, to all that it can be and no further.
static void test_amplified(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 1, 1)), *first = NULL;
    for (int i = 0; i < 15; i++) {
        x = graph_binary(g, OP_mul, graph_unary(g, OP_sin, x), graph_full_like(g, x, 7));
        if (!first) first = x;
    }
    graph_root(g, OP_output, first, "first");
    graph_root(g, OP_output, x, "last");
    give(&env, "x", shape(DT_F32, 1, 1), DATA(0.4));
    const Value *v = evaluate(g, &env, "last");
    CHECK(allows(v, 0, -7) && allows(v, 0, 7) && !allows(v, 0, 7.1));
    v = evaluate(g, &env, "first");
    CHECK(allows(v, 0, v->f[0] + 1e-6) && !allows(v, 0, v->f[0] + 1e-4));
}

// -- equal terms ----------------------------------------------------------------------------------

enum { MANY = 4096 };

// The sum of x y in f32 in their order.
static float in_order(const double *x, const double *y, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += (float)x[i] * (float)y[i];
    return sum;
}

static void test_equal_terms(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type line = shape(DT_F32, 1, MANY);
    Node *x = input(g, "x", line), *y = input(g, "y", line), *ones = graph_full_like(g, x, 1);
    Node *zero = graph_const(g, DT_F32, 0),
         *index = graph_cast(g, graph_binary(g, OP_mul, x, graph_full_like(g, x, 0)), DT_I32);
    Attrs axis = {0};
    attr_set_int(&axis, ATTR_axis, 0);
    graph_root(g, OP_output, graph_reduce(g, OP_sum, x, (int64_t[]){0}, 1, false), "equal");
    graph_root(g, OP_output, graph_reduce(g, OP_sum, y, (int64_t[]){0}, 1, false), "differ");
    graph_root(g, OP_output, graph_node(g, OP_cumsum, &x, 1, &axis), "running");
    graph_root(g, OP_output,
               graph_dot(g, x, ones, NULL, NULL, 0, (int64_t[]){0}, (int64_t[]){0}, 1, DT_F32),
               "dot");
    Node *cell = graph_reshape(g, zero, 1, (int64_t[]){1});
    graph_root(g, OP_output, graph_node(g, OP_scatter_add, (Node *[]){cell, index, x}, 3, &axis),
               "scattered");
    graph_root(g, OP_output,
               graph_reduce(g, OP_sqdev, input(g, "z", line), (int64_t[]){0}, 1, false),
               "deviations");
    double *equal = NEW_ARRAY(arena, double, MANY), *differ = noise(MANY, 5);
    double *z = NEW_ARRAY(arena, double, MANY), *d = NEW_ARRAY(arena, double, MANY);
    double *one = NEW_ARRAY(arena, double, MANY);
    for (int i = 0; i < MANY; i++) {
        equal[i] = 0.1f;
        one[i] = 1;
        differ[i] = (float)(1 + 0.5 * differ[i]);
        z[i] = i % 2 ? 0.1f : -0.1f;
        d[i] = 0.1f;
    }
    give(&env, "x", line, equal);
    give(&env, "y", line, differ);
    give(&env, "z", line, z);
    static const char *const sums[] = {"equal", "dot", "scattered"};
    float have = in_order(equal, one, MANY);
    for (int i = 0; i < 3; i++) {
        const Value *v = evaluate(g, &env, sums[i]);
        CHECK(fabs(have - v->f[0]) > 1e-5 * v->f[0] && allows(v, 0, have));
        CHECK(!allows(v, 0, have - 4 * 0.1f)); // four terms are missing
    }
    const Value *v = evaluate(g, &env, "running");
    CHECK(allows(v, MANY - 1, have) && !allows(v, MANY - 1, have - 4 * 0.1f));
    v = evaluate(g, &env, "deviations");
    CHECK(allows(v, 0, in_order(d, d, MANY)) && !allows(v, 0, v->f[0] * (1 + 1e-3)));
    v = evaluate(g, &env, "differ");
    CHECK(allows(v, 0, in_order(differ, one, MANY)));
    CHECK(!allows(v, 0, v->f[0] * (1 + 300 * 0x1p-24))); // 4 sqrt(K) = 256 last places
}

// One tf32 rounding of equal operands is the same for all; bf16 would round eight times as far.
static void test_tf32(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Type line = shape(DT_F32, 1, MANY);
    Node *x = input(g, "x", line), *y = input(g, "y", line);
    graph_root(g, OP_output,
               graph_dot(g, x, y, NULL, NULL, 0, (int64_t[]){0}, (int64_t[]){0}, 1, DT_F32), "out");
    double *data = NEW_ARRAY(arena, double, MANY);
    for (int i = 0; i < MANY; i++) data[i] = 1 + 15 * 0x1p-14; // the last place of tf32 is 2^-10
    give(&env, "x", line, data);
    give(&env, "y", line, data);
    env.tf32 = true;
    const Value *v = evaluate(g, &env, "out");
    CHECK(allows(v, 0, MANY) && !allows(v, 0, MANY * (1 + 0x1p-7)));
}

// A contraction's result of 1 + 9/4096 is 1 in bf16 or, before that rounding, as it is: both may be
// added. Another value of f32 that is rounded is no such result.
static void test_added_before_rounding(void)
{
    for (int contracted = 0; contracted < 2; contracted++) {
        Graph *g = fresh();
        EvalEnv env = environment();
        const Type line = shape(DT_F32, 1, 2), one = shape(DT_F32, 1, 1);
        Node *x = input(g, "x", line), *y = input(g, "y", one), *h;
        if (contracted)
            h = graph_dot(g, x, x, NULL, NULL, 0, (int64_t[]){0}, (int64_t[]){0}, 1, DT_F32);
        else
            h = graph_reduce(g, OP_max, x, (int64_t[]){0}, 1, false);
        h = graph_cast(g, graph_cast(g, graph_reshape(g, h, 1, (int64_t[]){1}), DT_BF16), DT_F32);
        graph_root(g, OP_output, graph_binary(g, OP_add, h, y), "sum");
        graph_root(g, OP_output, graph_binary(g, OP_mul, h, y), "product");
        give(&env, "x", line, contracted ? DATA(1, 0x3p-6) : DATA(1 + 0x9p-12, 0));
        give(&env, "y", one, DATA(-1));
        const Value *v = evaluate(g, &env, "sum");
        CHECK(v->f[0] == 0 && allows(v, 0, 0));
        CHECK(allows(v, 0, 0x9p-12) == contracted && !allows(v, 0, 0x1p-7));
        CHECK(!allows(evaluate(g, &env, "product"), 0, -1 - 0x9p-12));
    }
}

// -- products of many factors ---------------------------------------------------------------------

static void test_long_product(void)
{
    Graph *g = fresh();
    EvalEnv env = environment();
    Node *x = input(g, "x", shape(DT_F32, 2, 5, 4));
    graph_root(g, OP_output, graph_reduce(g, OP_prod, x, (int64_t[]){1}, 1, false), "out");
    give(&env, "x", shape(DT_F32, 2, 5, 4),
         DATA(1e30, 1e30, 1e-30, 1e-30, // may leave the range at either end
              1e20, 1e20, 1e-10, 1,     // only above
              1e-20, 1e-20, 1e10, 1,    // only below: what falls out there grows again
              1e5, 1e-5, 3, 2,          // stays
              1e30, 1e30, 2, 1));       // leaves it in any order
    const Value *v = evaluate(g, &env, "out");
    CHECK(allows(v, 0, NAN) && allows(v, 0, 0) && allows(v, 0, INFINITY));
    CHECK(allows(v, 1, INFINITY));
    CHECK(allows(v, 2, 0) && !allows(v, 2, 1e-27) && !allows(v, 2, NAN));
    CHECK(!allows(v, 3, NAN) && !allows(v, 3, INFINITY) && !allows(v, 3, 6.0001));
    CHECK(v->f[4] == INFINITY && !allows(v, 4, NAN) && !allows(v, 4, 1e38));
}

int main(void)
{
    arena = arena_new();
    test_products(DT_F32);
    test_products(DT_BF16);
    test_products(DT_F16);
    test_one_in_a_million();
    test_not_finite();
    test_masked();
    test_steps();
    test_repair();
    test_turns();
    test_equal_maxima();
    test_cancellation();
    test_select();
    test_step_of_the_allowed();
    test_between_the_ends();
    test_ends();
    test_narrow_operand();
    test_rounds_beside();
    test_anything();
    test_wraps();
    test_deviations();
    test_contracted_steps();
    test_amplified();
    test_equal_terms();
    test_tf32();
    test_added_before_rounding();
    test_long_product();
    arena_free(arena);
    return unit_done();
}
