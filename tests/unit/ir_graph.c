// The door: type errors, folding, common subexpressions; rebuilding, verifying, comparing,
// printing.
#include "tests/unit/ir_common.h"

#include "ir/module.h"
#include "ir/strides.h"

static Node *un(Graph *g, Op op, Node *a)
{
    return graph_unary(g, op, a);
}
static Node *bin(Graph *g, Op op, Node *a, Node *b)
{
    return graph_binary(g, op, a, b);
}

// -- type errors ----------------------------------------------------------------------------------

static void errors(void)
{
    static const char *const symbols[] = {NULL, "batch"};
    Graph *g = fresh();
    g->symbols = symbols;
    Type ta = shape(DT_F32, 2, 128, 10), tb = shape(DT_F32, 2, 64, 10);
    ta.sym[0] = 1;
    Node *a = input(g, "a", ta), *b = input(g, "b", tb);
    Node *n = bin(g, OP_add, a, b);
    CHECK(node_is_poison(n));
    CHECK(errors_say("add: f32[batch=128, 10] and f32[64, 10] do not broadcast"));
    CHECK(diags->errors == 1);
    Node *later = un(g, OP_neg, bin(g, OP_mul, graph_broadcast_to(g, n, &ta), a)); // reported once
    CHECK(node_is_poison(later) && diags->errors == 1);
    CHECK(node_is_poison(graph_matmul(g, n, a)) && node_is_poison(graph_sum_to(g, n, &ta)));
    CHECK(diags->errors == 1);
    Node *i = input(g, "i", shape(DT_I64, 2, 128, 10));
    CHECK(node_is_poison(bin(g, OP_mul, a, i)));
    CHECK(errors_say("mul: f32[batch=128, 10] and i64[128, 10] have different element types"));
    CHECK(node_is_poison(un(g, OP_exp, i)));
    CHECK(errors_say("exp: needs floats (use cast for an integer), found i64[128, 10]"));
    CHECK(node_is_poison(graph_matmul(g, a, b)));
    CHECK(errors_say(
        "dot: f32[batch=128, 10] and f32[64, 10] disagree on the inner size, 10 and 64"));
    CHECK(node_is_poison(graph_reshape(g, a, 1, (int64_t[]){7})));
    CHECK(errors_say("reshape: f32[batch=128, 10] has 1280 elements, f32[7] has 7"));
    CHECK(node_is_poison(graph_broadcast_to(g, a, &(Type){.dtype = DT_F32})));
    CHECK(errors_say("broadcast: f32[batch=128, 10] does not broadcast to f32[]"));
    CHECK(node_is_poison(graph_reduce(g, OP_sum, a, (int64_t[]){2}, 1, false)));
    CHECK(errors_say("sum: axis 2 is outside f32[batch=128, 10]"));
    Attrs first = {0};
    attr_set_int(&first, ATTR_axis, 1);
    attr_set_int(&first, ATTR_first, 11);
    CHECK(node_is_poison(graph_node(g, OP_argsort, &a, 1, &first)));
    CHECK(errors_say("argsort: the first 11 of axis 1 of f32[batch=128, 10]"));
    CHECK(node_is_poison(graph_node(g, OP_sum, &a, 1, NULL)));
    CHECK(errors_say("sum: lacks @{axes=...}"));
    CHECK(node_is_poison(graph_node(g, OP_add, &a, 1, NULL)));
    CHECK(errors_say("add: takes 2 operands, found 1"));
    Type huge = shape(DT_F32, 2, 1 << 30, 1 << 30);
    huge.dim[0] <<= 10;
    CHECK(node_is_poison(input(g, "huge", huge)));
    CHECK(errors_say("is too large"));
    CHECK(graph_reduce(g, OP_sum, a, (int64_t[]){1}, 1, true)->type.sym[0] == 1); // names survive
}

// -- folding --------------------------------------------------------------------------------------

static void folds(void)
{
    Graph *g = fresh();
    Type t = shape(DT_F32, 2, 4, 6);
    Node *x = input(g, "x", t), *y = input(g, "y", t), *s = input(g, "s", shape(DT_F32, 0));
    Node *i = input(g, "i", shape(DT_I32, 2, 4, 6)), *b = input(g, "b", shape(DT_BOOL, 2, 4, 6));
    Node *zero = graph_const(g, DT_F32, 0), *nzero = graph_const(g, DT_F32, -0.0);
    Node *one = graph_const(g, DT_F32, 1), *two = graph_const(g, DT_F32, 2);
    Node *three = graph_const(g, DT_F32, 3);
    double v;

    CHECK(bin(g, OP_add, x, nzero) == x && bin(g, OP_add, nzero, x) == x);
    CHECK(bin(g, OP_add, x, zero) != x); // -0 + 0 is 0
    CHECK(bin(g, OP_sub, x, zero) == x && bin(g, OP_sub, x, nzero) != x);
    CHECK(bin(g, OP_mul, x, one) == x && bin(g, OP_mul, one, x) == x &&
          bin(g, OP_div, x, one) == x);
    CHECK(!node_const_value(bin(g, OP_mul, x, zero), &v)); // NaN and -1 disagree
    CHECK(!node_const_value(bin(g, OP_sub, x, x), &v));
    CHECK(bin(g, OP_div, x, two)->op == OP_mul && bin(g, OP_div, x, three)->op == OP_div);
    CHECK(un(g, OP_neg, un(g, OP_neg, x)) == x);
    CHECK(bin(g, OP_add, x, un(g, OP_neg, y)) == bin(g, OP_sub, x, y));
    CHECK(bin(g, OP_sub, x, un(g, OP_neg, y)) == bin(g, OP_add, x, y));
    CHECK(bin(g, OP_mul, x, graph_const(g, DT_F32, -1)) == un(g, OP_neg, x));
    CHECK(bin(g, OP_pow, x, two) == bin(g, OP_mul, x, x) && bin(g, OP_pow, x, one) == x);
    CHECK(bin(g, OP_maximum, x, x) == x && un(g, OP_abs, un(g, OP_neg, x)) == un(g, OP_abs, x));
    CHECK(!node_const_value(bin(g, OP_eq, x, x), &v));
    CHECK(node_const_value(bin(g, OP_eq, i, i), &v) && v == 1);
    Node *i0 = graph_const_int(g, DT_I32, 0), *i1 = graph_const_int(g, DT_I32, 1);
    CHECK(bin(g, OP_add, i, i0) == i && bin(g, OP_mul, i, i1) == i &&
          bin(g, OP_floordiv, i, i1) == i);
    CHECK(node_const_value(bin(g, OP_mul, i, i0), &v) && v == 0);
    CHECK(node_const_value(bin(g, OP_sub, i, i), &v) && v == 0);
    CHECK(bin(g, OP_bit_xor, i, i0) == i && bin(g, OP_shl, i, i0) == i);
    CHECK(un(g, OP_not, un(g, OP_not, b)) == b);
    Node *yes = graph_const(g, DT_BOOL, 1);
    CHECK(graph_select(g, yes, x, y) == x && graph_select(g, b, x, x) == x);
    CHECK(graph_select(g, un(g, OP_not, b), x, y) == graph_select(g, b, y, x));
    CHECK(bin(g, OP_and, b, yes) == b && node_const_value(bin(g, OP_or, b, yes), &v) && v == 1);
    Node *copy = un(g, OP_stop_gradient, i); // of integers, too: passes mean a copy in memory by it
    CHECK(copy != i && un(g, OP_stop_gradient, copy) == copy);
    CHECK(un(g, OP_stop_gradient, two) == two);

    // Constants are computed in the node's type.
    CHECK(node_const_value(graph_const(g, DT_F32, 0.1), &v) && v == (double)0.1f);
    Node *third = bin(g, OP_div, one, three);
    CHECK(node_const_value(third, &v) && v == (double)(1.0f / 3.0f));
    Node *big = graph_const_int(g, DT_I32, INT32_MAX);
    CHECK(node_const_value(bin(g, OP_add, big, i1), &v) && v == (double)INT32_MIN);

    CHECK(graph_cast(g, x, DT_F32) == x);
    CHECK(graph_cast(g, graph_cast(g, x, DT_F64), DT_F32) == x);
    CHECK(graph_cast(g, graph_cast(g, x, DT_BF16), DT_F32) != x);
    CHECK(graph_cast(g, graph_cast(g, i, DT_F64), DT_I32) == i);
    CHECK(graph_cast(g, graph_cast(g, i, DT_F32), DT_I32) != i); // 24 bits
    CHECK(graph_cast(g, graph_cast(g, b, DT_F32), DT_BOOL) == b);

    int64_t flat[] = {24}, cube[] = {2, 2, 6}, swap[] = {1, 0};
    Node *r = graph_reshape(g, x, 1, flat);
    CHECK(graph_reshape(g, r, 2, t.dim) == x && graph_reshape(g, x, 2, t.dim) == x);
    CHECK(graph_reshape(g, r, 3, cube) == graph_reshape(g, x, 3, cube));
    CHECK(graph_permute(g, graph_permute(g, x, swap), swap) == x);
    CHECK(graph_permute(g, x, (int64_t[]){0, 1}) == x);
    Type wide = shape(DT_F32, 3, 5, 4, 6), wider = shape(DT_F32, 4, 7, 5, 4, 6);
    CHECK(graph_broadcast_to(g, graph_broadcast_to(g, x, &wide), &wider) ==
          graph_broadcast_to(g, x, &wider));
    CHECK(graph_broadcast_to(g, x, &t) == x);
    Node *kept = graph_reduce(g, OP_sum, x, (int64_t[]){1}, 1, true);
    Node *spread = graph_broadcast_to(g, kept, &t); // keepdims and back is one broadcast
    CHECK(spread->op == OP_broadcast && spread->args[0]->op == OP_sum);
    int64_t lo[] = {1, 0}, hi[] = {4, 6}, st[] = {2, 3}, z[] = {0, 0}, u[] = {1, 1};
    Node *sl = graph_slice(g, x, lo, hi, st);
    CHECK(graph_slice(g, x, z, t.dim, u) == x);
    Node *twice = graph_slice(g, sl, (int64_t[]){1, 1}, (int64_t[]){2, 2}, u);
    CHECK(twice->args[0] == x && attr_ints(twice, ATTR_start, NULL)[0] == 3);
    Node *full = graph_full_like(g, x, 2);
    CHECK(full->op == OP_broadcast && full->args[0] == two);
    CHECK(graph_reshape(g, full, 1, flat)->args[0] == two);
    CHECK(node_const_value(bin(g, OP_mul, full, three), &v) && v == 6);
    int64_t unit[] = {1, 1};
    CHECK(node_const_value(graph_reshape(g, two, 2, unit), &v) && v == 2);
    CHECK(graph_reduce(g, OP_sum, graph_reshape(g, s, 2, unit), (int64_t[]){0, 1}, 2, false) == s);
    Attrs a = {0};
    attr_set_ints(g, &a, ATTR_shape, (int64_t[]){2, 2}, 2);
    attr_set_int(&a, ATTR_dtype, DT_I32);
    attr_set_ints(g, &a, ATTR_values, (int64_t[]){5, 5, 5, 5}, 4);
    CHECK(node_const_value(graph_node(g, OP_const, NULL, 0, &a), &v) && v == 5);
    CHECK(graph_verify(g, "folding") && diags->errors == 0);
}

static void sharing(void)
{
    Graph *g = fresh();
    Type t = shape(DT_F32, 1, 4);
    Node *x = input(g, "x", t), *y = input(g, "y", t);
    CHECK(bin(g, OP_add, x, y) == bin(g, OP_add, y, x));
    CHECK(bin(g, OP_sub, x, y) != bin(g, OP_sub, y, x));
    CHECK(input(g, "x", t) == x);
    g->name = "total";
    Node *n = bin(g, OP_add, x, y);
    CHECK(n->name && !strcmp(n->name, "total") && !g->name);
    Attrs a = {0};
    attr_set_int(&a, ATTR_clone, 1);
    Node *clone = graph_node(g, OP_add, (Node *[]){x, y}, 2, &a);
    CHECK(clone != n && graph_node(g, OP_add, (Node *[]){x, y}, 2, &a) == clone);
    uint32_t before = g->roots.n;
    Node *o1 = graph_root(g, OP_output, n, "a"), *o2 = graph_root(g, OP_output, n, "b");
    CHECK(o1 != o2 && g->roots.n == before + 2);
}

// -- rebuilding, verifying, comparing -------------------------------------------------------------

static Graph *sample(bool swapped, double scale)
{
    Graph *g = fresh();
    Type t = shape(DT_F32, 2, 4, 4);
    Node *x = input(g, swapped ? "y" : "x", t), *y = input(g, swapped ? "x" : "y", t);
    if (swapped) un(g, OP_exp, x); // dead
    Node *p = swapped ? bin(g, OP_mul, y, x) : bin(g, OP_mul, x, y);
    Node *n = bin(g, OP_add, graph_matmul(g, p, p), graph_const(g, DT_F32, scale));
    graph_root(g, OP_output, n, "out");
    graph_root(g, OP_output, un(g, OP_exp, n), "more");
    return g;
}

static void rebuilding(void)
{
    Graph *a = sample(false, 2), *b = sample(true, 2), *c = sample(false, 3);
    CHECK(graph_equal(a, a) && graph_equal(a, b) && !graph_equal(a, c));
    CHECK(b->nodes.n == a->nodes.n + 1);
    Graph *live = graph_copy_live(b);
    CHECK(live->nodes.n == a->nodes.n && graph_equal(live, a) && graph_verify(live, "copying"));
    Remap r = remap_begin(a, live);
    for (uint32_t i = 0; i < a->nodes.n; i++)
        if (node_class(a->nodes.at[i]) != CLS_ROOT) remap_node(&r, a->nodes.at[i]);
    CHECK(live->nodes.n == a->nodes.n); // all found again

    CHECK(graph_drop_dead(b) == b && graph_equal(b, a) && graph_verify(b, "dropping"));
    r = remap_begin(a, b);
    for (uint32_t i = 0; i < a->nodes.n; i++)
        if (node_class(a->nodes.at[i]) != CLS_ROOT) remap_node(&r, a->nodes.at[i]);
    CHECK(b->nodes.n == a->nodes.n);

    // Where operands are others than they were, the copy folds.
    r = remap_begin(a, fresh());
    for (uint32_t i = 0; i < a->nodes.n; i++) {
        Node *n = a->nodes.at[i], *made = remap_node(&r, n);
        if (n->op == OP_input) r.map[i] = un(r.dst, OP_neg, made);
    }
    CHECK(graph_equal(remap_end(&r), a) && graph_verify(r.dst, "folding"));
}

static void verifying(void)
{
    Graph *g = sample(false, 2);
    CHECK(graph_verify(g, "building"));
    Node *n = g->nodes.at[g->nodes.n - 1], *arg = n->args[0];
    n->type.dim[0] = 5;
    CHECK(!graph_verify(g, "a pass") && errors_say("after a pass, v"));
    CHECK(errors_say("has type f32[5, 4], its rule gives f32[4, 4]"));
    n->type.dim[0] = 4;
    n->args[0] = n;
    CHECK(!graph_verify(g, "a pass") && errors_say("stands before its operand"));
    n->args[0] = input(fresh(), "z", arg->type);
    g->diags = diags;
    CHECK(!graph_verify(g, "a pass") && errors_say("operand 0 from another graph"));
    n->args[0] = arg;
    CHECK(graph_verify(g, "a pass"));
    g->roots.n--;
    CHECK(!graph_verify(g, "a pass") && errors_say("not in its turn among the roots"));
    g->roots.n++;
    static const Attrs none;
    n->attrs = &none;
    CHECK(!graph_verify(g, "a pass") && errors_say("lacks @{name=...}"));
    Graph *twice = fresh();
    input(twice, "x", shape(DT_F32, 1, 2));
    input(twice, "x", shape(DT_F32, 1, 3));
    CHECK(!graph_verify(twice, "a pass") && errors_say("is the second of name 'x'"));
}

// -- size -----------------------------------------------------------------------------------------

static void deep(void)
{
    enum { DEPTH = 100000 };
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 1, 2)), *n = x;
    for (int i = 0; i < DEPTH; i++) n = bin(g, i % 2 ? OP_add : OP_mul, n, x);
    graph_root(g, OP_output, n, "y");
    CHECK(g->nodes.n == DEPTH + 2);
    Graph *copy = graph_copy_live(g);
    CHECK(graph_verify(g, "building") && graph_equal(g, copy));
    EvalEnv env = environment();
    EvalResult r;
    give(&env, "x", shape(DT_F32, 1, 2), DATA(0, -0.5));
    CHECK(eval_graph(copy, &env, &r) && value_get(strmap_get(&r.outputs, "y"), 0) == 0);
}

// -- text -----------------------------------------------------------------------------------------

static void printing(void)
{
    Graph *g = fresh();
    Module *m = module_new(arena, diags, "toy");
    Type t = shape(DT_F32, 1, 3), s = shape(DT_F32, 0), counter = shape(DT_I64, 0);
    module_add_cell(m, &(Cell){.name = "w", .kind = CELL_PARAM, .type = t, .initial = 0.5});
    module_add_cell(m, &(Cell){.name = "@step", .kind = CELL_CONTROL, .type = shape(DT_I64, 0)});
    Node *x = input(g, "x", t), *w = graph_leaf_cell(g, OP_param, "w", &t);
    Graph *body = graph_new(arena, diags, NULL);
    graph_region_param(body, &counter);
    Node *h = graph_region_param(body, &s), *xi = graph_region_param(body, &s);
    vec_push(arena, &body->results, bin(body, OP_add, h, xi));
    Attrs a = {0};
    attr_set_int(&a, ATTR_count, 3);
    attr_set_int(&a, ATTR_carried, 1);
    attr_set_int(&a, ATTR_scanned, 1);
    Node *from = graph_const(g, DT_F32, 0.1);
    Node *loop = graph_region_node(g, OP_loop, (Node *[]){from, x}, 2, &a, &body, 1);
    g->role = ROLE_UPDATE;
    Node *wide = graph_broadcast_to(g, loop, &t);
    g->name = "new \"w\"";
    Node *sum = bin(g, OP_mul, w, wide);
    graph_root(g, OP_assign, sum, "w");
    Entry e = {.name = "train", .kind = ENTRY_TRAIN, .graph = g, .rows = true};
    e.cursor = CELL_CURSOR;
    e.batch = 3;
    vec_push(arena, &e.dims, (DimBinding){"batch", 3, DIM_FLAG, true});
    vec_push(arena, &m->entries, e);
    Buf b = buf_new(arena);
    module_print(m, "autodiff", &b);
    static const char want[] =
        "module \"toy\" @{version=1, stage=\"autodiff\"}\n"
        "cell \"w\": f32[3] @{kind=\"param\", frozen=0, optimizer=0, initial=0.5}\n"
        "cell \"@step\": i64[] @{kind=\"control\", frozen=0, optimizer=0, initial=0.0}\n"
        "\n"
        "entry train @{kind=\"train\", rows=1, cursor=\"@cursor\", batch=3, "
        "dims=[\"batch\", 3, 2, 1]} {\n"
        "    v0 = input() @{shape=[3], dtype=f32, name=\"x\", kind=\"arg\"}  # f32[3]\n"
        "    v1 = param() @{shape=[3], dtype=f32, name=\"w\"}  # f32[3]\n"
        "    v2 = const() @{shape=[], dtype=f32, value=0.10000000149011612}  # f32[]\n"
        "    v3 = loop(v2, v0) @{count=3, carried=1, scanned=1} "
        "{ (p0: i64[], p1: f32[], p2: f32[]) ->\n"
        "        v4 = add(p1, p2)  # f32[]\n"
        "        return v4\n"
        "    }  # f32[]\n"
        "    v5 = broadcast(v3) @{dims=[], shape=[3], role=\"update\"}  # f32[3]\n"
        "    v6 = mul(v1, v5) @{role=\"update\", as=\"new \\\"w\\\"\"}  # f32[3]\n"
        "    assign(v6) @{name=\"w\", role=\"update\"}\n"
        "}\n";
    CHECK_MSG(!strcmp(b.data, want), "printed:\n%s", b.data);
    Buf dot = buf_new(arena);
    graph_dot_text(g, &dot);
    CHECK(strstr(dot.data, "digraph {") && strstr(dot.data, "v0 -> v3;") &&
          strstr(dot.data, "subgraph cluster_v3_0_"));
    CHECK(module_cell(m, "w")->initial == 0.5 && !module_cell(m, "v") && module_entry(m, "train"));
}

// -- plain graphs ---------------------------------------------------------------------------------

// -(-x) and, by: the gradient by the inner one.
static Graph *settled(bool by)
{
    Graph *g = fresh();
    g->plain = true;
    Node *x = input(g, "x", shape(DT_F32, 0));
    Node *h = graph_unary(g, OP_neg, x), *y = graph_unary(g, OP_neg, h);
    CHECK(input(g, "x", shape(DT_F32, 0)) == x && graph_unary(g, OP_neg, x) != h && y != x);
    graph_root(g, OP_output, y, "y");
    if (by)
        graph_root(g, OP_output, graph_node(g, OP_grad, (Node *[]){y, h}, 2, NULL), "dh");
    else
        graph_node(g, OP_grad, (Node *[]){y, h}, 2, NULL); // nothing needs it
    Graph *out = graph_settle(g);
    CHECK(graph_verify(out, "settling") && !out->plain);
    return out;
}

static void settling(void)
{
    Graph *folded = settled(false), *apart = settled(true);
    CHECK(folded->nodes.n == 2 && folded->roots.at[0]->args[0]->op == OP_input);
    const Node *y = apart->roots.at[0]->args[0], *grad = apart->roots.at[1]->args[0];
    CHECK(y->op == OP_neg && y->args[0]->op == OP_variable && y->args[0]->args[0]->op == OP_neg);
    CHECK(grad->op == OP_grad && grad->args[0] == y && grad->args[1] == y->args[0]);

    Graph *g = fresh();
    g->plain = true;
    double v = 0;
    Node *sum = bin(g, OP_add, graph_const(g, DT_F32, 1), graph_const(g, DT_F32, 2));
    CHECK(!node_const_value(sum, &v) && graph_known_value(g, sum, &v) && v == 3);
    CHECK(!graph_known_value(g, bin(g, OP_add, sum, input(g, "x", sum->type)), &v));
}

// -- strides --------------------------------------------------------------------------------------

static void strides(void)
{
    Graph *g = fresh();
    Node *x = input(g, "x", shape(DT_F32, 3, 4, 6, 10));
    Node *turned = graph_permute(g, x, (int64_t[]){1, 0, 2}); // [6, 4, 10]
    Node *cut = graph_reshape(g, turned, 4, (int64_t[]){6, 4, 2, 5});
    Strides s;
    CHECK(strides_through(cut, x, &s) && s.rank == 4 && !strides_row_major(&s));
    CHECK(s.step[0] == 10 && s.step[1] == 60 && s.step[2] == 5 && s.step[3] == 1);
    CHECK(strides_through(cut, cut, &s) && strides_row_major(&s) && s.step[0] == 40);
    // Axes 0 and 1 of the turned value are no run, so nothing joins them without a copy.
    CHECK(!strides_through(graph_reshape(g, turned, 2, (int64_t[]){24, 10}), x, &s));
    CHECK(!strides_through(graph_unary(g, OP_neg, x), x, &s));
    Type wide = shape(DT_F32, 4, 3, 4, 6, 10);
    CHECK(strides_through(graph_broadcast_to(g, x, &wide), x, &s));
    CHECK(s.rank == 4 && s.step[0] == 0 && s.step[1] == 60 && s.step[3] == 1);
    int64_t extent, step;
    CHECK(strides_run(&s, (int64_t[]){1, 2, 3}, 3, &extent, &step) && extent == 240 && step == 1);
    CHECK(!strides_run(&s, (int64_t[]){2, 1}, 2, &extent, &step));
}

int main(void)
{
    arena = arena_new();
    errors();
    folds();
    sharing();
    rebuilding();
    verifying();
    deep();
    printing();
    settling();
    strides();
    arena_free(arena);
    return unit_done();
}
