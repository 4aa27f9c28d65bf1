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
    memcpy(out.f, v->f, (size_t)type_count(&v->type) * sizeof *v->f);
    return out;
}

static int64_t wrong(const Value *have, const Value *want)
{
    return bound_compare(have, want, NULL).wrong;
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
    CHECK(v->error[0][0] > 1e-8 && v->error[0][0] < 1e-7);
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
    test_turns();
    test_cancellation();
    arena_free(arena);
    return unit_done();
}
