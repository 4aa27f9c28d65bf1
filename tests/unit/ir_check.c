// The gradient checker must accept right gradients, also beside kinks, and refuse wrong ones.
#include "tests/unit/ir_common.h"

#include "ir/check.h"

enum { ROWS = 5, COLUMNS = 40 };

static Graph *net(Node **loss, Node **x, Node **w)
{
    Graph *g = fresh();
    Type tx = shape(DT_F32, 2, ROWS, COLUMNS), tw = shape(DT_F32, 1, COLUMNS);
    *x = input(g, "x", tx);
    *w = graph_leaf_cell(g, OP_param, "w", &tw);
    Node *h = graph_binary(g, OP_mul, *x, *w);
    Node *zero = graph_full_like(g, h, 0);
    Node *pos = graph_binary(g, OP_maximum, h, zero); // a kink at 0
    Node *y = graph_binary(g, OP_add, graph_unary(g, OP_tanh, h), pos);
    *loss = graph_reduce(g, OP_sum, y, (int64_t[]){0, 1}, 2, false);
    return g;
}

// d loss / d w = sum over rows of x * (1 - tanh(h)^2 + [h > 0]); [scale] 1 is right.
static Graph *with_gradient(double scale, const char *name)
{
    Node *loss, *x, *w;
    Graph *g = net(&loss, &x, &w);
    Node *h = graph_binary(g, OP_mul, x, w);
    Node *t = graph_unary(g, OP_tanh, h);
    Node *one = graph_full_like(g, h, 1), *zero = graph_full_like(g, h, 0);
    Node *slope = graph_binary(g, OP_sub, one, graph_binary(g, OP_mul, t, t));
    Node *step = graph_cast(g, graph_binary(g, OP_gt, h, zero), DT_F32);
    Node *dh = graph_binary(g, OP_add, slope, step);
    dh = graph_binary(g, OP_mul, graph_binary(g, OP_mul, dh, x), graph_const(g, DT_F32, scale));
    Node *dw = graph_reduce(g, OP_sum, dh, (int64_t[]){0}, 1, false);
    graph_root(g, OP_output, dw, name);
    return g;
}

static bool check(EvalEnv *env, double scale, CheckReport *r)
{
    Node *loss, *x, *w;
    Graph *backward = with_gradient(scale, "grad:w");
    Graph *forward = net(&loss, &x, &w);
    graph_root(forward, OP_output, loss, "loss");
    graph_root(forward, OP_output, graph_unary(forward, OP_exp, x), "else");
    return check_gradients(forward, "loss", backward, env, 1, r);
}

static bool printed(const CheckReport *r, const char *text)
{
    Buf b = buf_new(arena);
    check_print(r, &b);
    return strstr(b.data, text) != NULL;
}

int main(void)
{
    arena = arena_new();
    EvalEnv env = environment();
    double x[ROWS * COLUMNS], weights[COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = sin(1.7 * i + 0.3);
    for (int i = 0; i < COLUMNS; i++) weights[i] = cos(2.9 * i);
    give(&env, "x", shape(DT_F32, 2, ROWS, COLUMNS), x);
    Value *w = give(&env, "w", shape(DT_F32, 1, COLUMNS), weights);
    strmap_set(&env.cells, "w", w);

    CheckReport r;
    CHECK(check(&env, 1, &r) && r.ok && r.tensors.n == 1);
    CHECK(r.tensors.at[0].kept == 40 && r.tensors.at[0].error < 1);
    CHECK(check(&env, 1.0001, &r) && !r.ok && r.tensors.at[0].error > 10);
    CHECK(printed(&r, "BAD  w") && printed(&r, "finite differences"));

    // One row of zeros puts five kinks on the spot, another a hair away: those probes are not
    // judged.
    w->f[7] = 0;
    w->f[9] = 3e-5;
    CHECK(check(&env, 1, &r) && r.tensors.at[0].failed == 0);
    for (int i = 0; i < COLUMNS; i++) w->f[i] = 0;
    CHECK(check(&env, 1, &r) && r.ok && r.none == 1 && r.partly == 0);
    CHECK(r.tensors.at[0].verdict == CHECK_UNDECIDED && r.tensors.at[0].kept == 0);
    CHECK(printed(&r, "none w") && printed(&r, "0 of  40 probes: all cross a kink"));

    CHECK(check(&env, INFINITY, &r) && !r.ok && r.tensors.at[0].kept == 0 && printed(&r, "BAD  w"));

    // Kinks at some of the weights: what is kept still decides, and a wrong gradient fails.
    for (int i = 6; i < COLUMNS; i++) w->f[i] = weights[i];
    CHECK(check(&env, 1, &r) && r.ok && r.partly == 1 && r.none == 0);
    CHECK(r.tensors.at[0].kept > 0 && r.tensors.at[0].verdict == CHECK_UNDECIDED);
    CHECK(printed(&r, "part w") && printed(&r, "the others cross a kink"));
    CHECK(check(&env, 1.0001, &r) && !r.ok && r.partly == 0);
    CHECK(r.tensors.at[0].verdict == CHECK_BAD && printed(&r, "BAD  w"));
    w->f[0] = NAN;
    CHECK(check(&env, 1, &r) && r.infinite && r.ok && !r.tensors.n);

    Graph *stray = with_gradient(1, "grad:nobody");
    Node *loss, *a, *c;
    Graph *forward = net(&loss, &a, &c);
    graph_root(forward, OP_output, loss, "loss");
    stray->diags = forward->diags;
    for (int i = 0; i < COLUMNS; i++) w->f[i] = weights[i];
    CHECK(!check_gradients(forward, "loss", stray, &env, 1, &r));
    CHECK(errors_say("no float leaf is 'nobody'"));
    CHECK(!check_gradients(forward, "los", stray, &env, 1, &r));
    CHECK(errors_say("the graph has no output 'los'"));
    arena_free(arena);
    return unit_done();
}
