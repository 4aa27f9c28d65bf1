// Fusion: how many kernels well-known networks become, that no launch waits for itself, and that
// the optional passes change no value.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"
#include "tests/unit/one_graph.h"

static bool run_passes(Ctx *c, Target t, const char *skip, bool rows)
{
    add_entry(c, (Entry){.name = "train", .kind = ENTRY_TRAIN, .rows = rows});
    return run_module(c, &(PassOptions){.target = &t, .skip = skip});
}

static void dump(const Ctx *c)
{
    static const char *const kinds[] = {"map", "row", "column", "dot", "loop", "scan", "scatter"};
    const Fusion *f = c->g->fusion;
    if (!getenv("NETC_TEST_VERBOSE")) return;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const Group *gr = &f->groups.at[i];
        printf("group %u launch %u %s:", i, gr->launch, kinds[gr->kind]);
        for (uint32_t k = 0; k < gr->outs.n; k++) {
            const Node *n = gr->outs.at[k];
            Buf b = buf_new(c->a);
            type_print(&b, &n->type, NULL);
            printf(" %%%u %s %s %s", n->id, op_info(n->op)->name, b.data,
                   n->name                  ? n->name
                   : attr_str(n, ATTR_name) ? attr_str(n, ATTR_name)
                                            : "");
        }
        printf("%s\n", gr->epilogue ? " (epilogue)" : "");
    }
    for (uint32_t i = 0; i < f->unfused.n; i++)
        printf("  %s\n", unfused_text(c->a, &f->unfused.at[i]));
}

// Launches of a kind; -1: all.
static int launches(const Ctx *c, int kind)
{
    const Fusion *f = c->g->fusion;
    int n = 0;
    for (uint32_t l = 0; l < f->launches; l++) {
        bool any = false;
        for (uint32_t i = 0; i < f->groups.n; i++)
            any |= f->groups.at[i].launch == l && (kind < 0 || (int)f->groups.at[i].kind == kind);
        n += any;
    }
    return n;
}

// Walks what every group reads and checks that launches can be put in an order.
static bool launches_are_ordered(const Ctx *c)
{
    const Graph *g = c->g;
    const Fusion *f = g->fusion;
    bool *edge = calloc((size_t)f->launches * f->launches + 1, 1);
    bool ok = true;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const Group *gr = &f->groups.at[i];
        bool *seen = calloc(g->nodes.n + 1, 1);
        VEC(const Node *) stack = {0};
        for (uint32_t k = 0; k < gr->outs.n; k++) vec_push(c->a, &stack, gr->outs.at[k]);
        while (stack.n) {
            const Node *n = stack.at[--stack.n];
            if (seen[n->id]) continue;
            seen[n->id] = true;
            uint32_t by = f->group_of[n->id];
            if (by && by != i + 1) {
                uint32_t from = f->groups.at[by - 1].launch;
                if (from == gr->launch) ok = false; // side by side with what it reads
                edge[from * f->launches + gr->launch] = true;
                continue;
            }
            for (uint32_t k = 0; k < n->nargs; k++) vec_push(c->a, &stack, n->args[k]);
        }
        free(seen);
    }
    // Repeatedly take a launch nothing waits for.
    bool *done = calloc(f->launches + 1, 1);
    for (uint32_t taken = 0; taken < f->launches; taken++) {
        uint32_t pick = UINT32_MAX;
        for (uint32_t l = 0; l < f->launches && pick == UINT32_MAX; l++) {
            bool waits = done[l];
            for (uint32_t p = 0; p < f->launches && !waits; p++)
                waits = !done[p] && p != l && edge[p * f->launches + l];
            if (!waits) pick = l;
        }
        if (pick == UINT32_MAX) {
            ok = false;
            break;
        }
        done[pick] = true;
    }
    free(edge);
    free(done);
    return ok;
}

// -- small builders -------------------------------------------------------------------------------

static Node *num(Graph *g, double v)
{
    return graph_const(g, DT_F32, v);
}

static Node *bin(Graph *g, Op op, Node *a, Node *b)
{
    return graph_binary(g, op, a, b);
}

static Node *cell(Graph *g, Op op, const char *name, int rank, const int64_t *dim)
{
    Type t = type_make(DT_F32, rank, dim);
    return graph_leaf_cell(g, op, name, &t);
}

static Node *reduce_last(Graph *g, Op op, Node *x, bool keep)
{
    int64_t axis = x->type.rank - 1;
    return graph_reduce(g, op, x, &axis, 1, keep);
}

static Node *softmax(Graph *g, Node *x)
{
    Node *e = graph_unary(g, OP_exp, bin(g, OP_sub, x, reduce_last(g, OP_max, x, true)));
    return bin(g, OP_div, e, reduce_last(g, OP_sum, e, true));
}

static Node *mean_last(Graph *g, Node *x)
{
    double n = (double)x->type.dim[x->type.rank - 1];
    return bin(g, OP_div, reduce_last(g, OP_sum, x, true), num(g, n));
}

static Node *layer_norm(Graph *g, Node *x)
{
    Node *d = bin(g, OP_sub, x, mean_last(g, x));
    Node *var = mean_last(g, bin(g, OP_mul, d, d));
    return bin(g, OP_mul, d, graph_unary(g, OP_rsqrt, bin(g, OP_add, var, num(g, 1e-5))));
}

static Node *mean_all(Graph *g, Node *x)
{
    int64_t axis = 0;
    Node *s = graph_reduce(g, OP_sum, x, &axis, 1, false);
    return bin(g, OP_div, s, num(g, (double)x->type.dim[0]));
}

static Node *linear(Graph *g, Node *x, int64_t width, const char *w, const char *b, Node **pw,
                    Node **pb)
{
    int64_t n = x->type.dim[1], perm[] = {1, 0};
    *pw = cell(g, OP_param, w, 2, (int64_t[]){width, n});
    *pb = cell(g, OP_param, b, 1, &width);
    return bin(g, OP_add, graph_matmul(g, x, graph_permute(g, *pw, perm)), *pb);
}

static void adamw(Graph *g, Node *p, Node *d, Node *lr, Node *step)
{
    const char *name = attr_str(p, ATTR_name);
    Node *m = graph_leaf_cell(g, OP_state, arena_printf(g->arena, "%s.m", name), &p->type);
    Node *v = graph_leaf_cell(g, OP_state, arena_printf(g->arena, "%s.v", name), &p->type);
    Node *m1 = bin(g, OP_add, bin(g, OP_mul, m, num(g, 0.9)), bin(g, OP_mul, d, num(g, 0.1)));
    Node *v1 = bin(g, OP_add, bin(g, OP_mul, v, num(g, 0.999)),
                   bin(g, OP_mul, bin(g, OP_mul, d, d), num(g, 0.001)));
    Node *mh = bin(g, OP_div, m1, bin(g, OP_sub, num(g, 1), bin(g, OP_pow, num(g, 0.9), step)));
    Node *vh = bin(g, OP_div, v1, bin(g, OP_sub, num(g, 1), bin(g, OP_pow, num(g, 0.999), step)));
    Node *dir = bin(g, OP_div, mh, bin(g, OP_add, graph_unary(g, OP_sqrt, vh), num(g, 1e-8)));
    dir = bin(g, OP_add, dir, bin(g, OP_mul, p, num(g, 0.01)));
    graph_root(g, OP_assign, m1, arena_printf(g->arena, "%s.m", name));
    graph_root(g, OP_assign, v1, arena_printf(g->arena, "%s.v", name));
    graph_root(g, OP_assign, bin(g, OP_sub, p, bin(g, OP_mul, lr, dir)), name);
}

static void build_mlp(Ctx *c, bool with_assert)
{
    Graph *g = c->g;
    int64_t B = 128, one = 1, image[] = {B, 28, 28}, flat[] = {B, 784};
    Type it = type_make(DT_U8, 3, image), lt = type_make(DT_U8, 1, &B), st = type_scalar(DT_I64);
    Node *x = graph_input(g, "image", &it, "data"), *label = graph_input(g, "label", &lt, "data");
    x = graph_reshape(g, bin(g, OP_div, graph_cast(g, x, DT_F32), num(g, 255)), 2, flat);
    Node *w1, *b1, *w2, *b2;
    Node *h = bin(g, OP_maximum, linear(g, x, 128, "fc1.weight", "fc1.bias", &w1, &b1), num(g, 0));
    Node *logits = linear(g, h, 10, "fc2.weight", "fc2.bias", &w2, &b2);
    // cross entropy
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, (int64_t[]){B, 10}, 2);
    attr_set_int(&at, ATTR_dtype, DT_I32);
    attr_set_int(&at, ATTR_axis, 1);
    Node *classes = graph_node(g, OP_iota, NULL, 0, &at);
    Node *li = graph_cast(g, label, DT_I32);
    Node *hit = bin(g, OP_eq, classes, graph_reshape(g, li, 2, (int64_t[]){B, one}));
    Node *m = graph_unary(g, OP_stop_gradient, reduce_last(g, OP_max, logits, true));
    Node *z = bin(g, OP_sub, logits, m);
    Node *lse = graph_unary(g, OP_log, reduce_last(g, OP_sum, graph_unary(g, OP_exp, z), false));
    Node *pick = reduce_last(g, OP_sum, graph_select(g, hit, z, num(g, 0)), false);
    Node *loss = mean_all(g, bin(g, OP_sub, lse, pick));
    Node *right = bin(g, OP_eq, reduce_last(g, OP_argmax, logits, false), li);
    Node *accuracy = mean_all(g, graph_cast(g, right, DT_F32));
    if (with_assert)
        graph_root(g, OP_assert, graph_unary(g, OP_isfinite, loss), "loss is not finite");
    // update
    Node *step = graph_leaf_cell(g, OP_state, "@step", &st);
    Node *total = graph_leaf_cell(g, OP_state, "@total", &st);
    Node *next = bin(g, OP_add, step, graph_const_int(g, DT_I64, 1));
    Node *fs = graph_cast(g, next, DT_F32);
    Node *t = bin(g, OP_div, fs, graph_cast(g, total, DT_F32));
    Node *lr =
        bin(g, OP_mul,
            bin(g, OP_add, graph_unary(g, OP_cos, bin(g, OP_mul, t, num(g, M_PI))), num(g, 1)),
            num(g, 5e-4));
    Node *params[] = {w1, b1, w2, b2};
    for (int i = 0; i < 4; i++) {
        Node *d = graph_node(g, OP_grad, (Node *[]){loss, params[i]}, 2, NULL);
        adamw(g, params[i], d, lr, fs);
    }
    graph_root(g, OP_assign, next, "@step");
    Type f64 = type_scalar(DT_F64);
    Node *sum = graph_leaf_cell(g, OP_state, "@sum.train.loss", &f64);
    Node *batch = graph_const(g, DT_F64, 128);
    graph_root(g, OP_assign,
               bin(g, OP_add, sum, bin(g, OP_mul, graph_cast(g, loss, DT_F64), batch)),
               "@sum.train.loss");
    Node *asum = graph_leaf_cell(g, OP_state, "@sum.train.accuracy", &f64);
    graph_root(g, OP_assign,
               bin(g, OP_add, asum, bin(g, OP_mul, graph_cast(g, accuracy, DT_F64), batch)),
               "@sum.train.accuracy");
    graph_root(g, OP_output, loss, "loss");
    graph_root(g, OP_output, accuracy, "accuracy");
    graph_root(g, OP_output, logits, "logits");
}

// Reads in a launch's kernels of cells that the same launch writes elsewhere.
static bool step_is_read_where_written(const Ctx *c)
{
    const Graph *g = c->g;
    const Fusion *f = g->fusion;
    uint32_t writes = UINT32_MAX, group = 0;
    for (uint32_t i = 0; i < f->groups.n; i++)
        for (uint32_t k = 0; k < f->groups.at[i].outs.n; k++) {
            const Node *n = f->groups.at[i].outs.at[k];
            if (n->op != OP_assign || strcmp(attr_str(n, ATTR_name), "@step")) continue;
            writes = f->groups.at[i].launch;
            group = i;
        }
    for (uint32_t i = 0; i < f->groups.n; i++) {
        if (f->groups.at[i].launch != writes || i == group) continue;
        VEC(const Node *) stack = {0};
        for (uint32_t k = 0; k < f->groups.at[i].outs.n; k++)
            vec_push(c->a, &stack, f->groups.at[i].outs.at[k]);
        while (stack.n) {
            const Node *n = stack.at[--stack.n];
            if (n->op == OP_state && !strcmp(attr_str(n, ATTR_name), "@step")) return true;
            for (uint32_t k = 0; k < n->nargs; k++)
                if (!f->group_of[n->args[k]->id]) vec_push(c->a, &stack, n->args[k]);
        }
    }
    return writes == UINT32_MAX;
}

// -- tests ----------------------------------------------------------------------------------------

static void test_softmax(void)
{
    Ctx c = begin();
    Node *x = cell(c.g, OP_param, "x", 2, (int64_t[]){64, 100});
    graph_root(c.g, OP_output, softmax(c.g, bin(c.g, OP_mul, x, num(c.g, 2))), "y");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    dump(&c);
    CHECK(launches(&c, -1) == 1);
    CHECK(launches(&c, GROUP_ROW) == 1);
    CHECK(launches_are_ordered(&c));
    arena_free(c.a);
}

static void test_layer_norm(void)
{
    Ctx c = begin();
    Node *x = cell(c.g, OP_param, "x", 3, (int64_t[]){8, 16, 100});
    Node *scale = cell(c.g, OP_param, "scale", 1, (int64_t[]){100});
    graph_root(c.g, OP_output, bin(c.g, OP_mul, layer_norm(c.g, x), scale), "y");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    dump(&c);
    CHECK(launches(&c, -1) == 1);
    arena_free(c.a);
}

static void test_layer_norm_backward(void)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *x = cell(g, OP_param, "x", 2, (int64_t[]){64, 100}),
         *t = cell(g, OP_state, "t", 2, (int64_t[]){64, 100});
    Node *scale = cell(g, OP_param, "scale", 1, (int64_t[]){100});
    Node *y = bin(g, OP_mul, bin(g, OP_mul, layer_norm(g, x), scale), t);
    int64_t both[] = {0, 1};
    Node *loss = graph_reduce(g, OP_sum, y, both, 2, false);
    graph_root(g, OP_output, loss, "loss");
    graph_root(g, OP_output, graph_node(g, OP_grad, (Node *[]){loss, x}, 2, NULL), "dx");
    graph_root(g, OP_output, graph_node(g, OP_grad, (Node *[]){loss, scale}, 2, NULL), "dscale");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    dump(&c);
    CHECK_MSG(launches(&c, -1) <= 3, "%d launches", launches(&c, -1)); // rows, columns, the sum
    int sums = 0; // of a row: its mean, its variance, two of the gradient; deviations add up to 0
    for (uint32_t i = 0; i < c.g->nodes.n; i++) {
        const Node *n = c.g->nodes.at[i];
        sums += n->op == OP_sum && type_count(&n->type) == 64;
    }
    CHECK_MSG(sums == 4, "%d sums over rows", sums);
    CHECK(launches_are_ordered(&c));
    arena_free(c.a);
}

static void test_mlp(bool with_assert)
{
    Ctx c = begin();
    build_mlp(&c, with_assert);
    Target t = target_cuda(90, true);
    t.epilogues = EPI_BIAS | EPI_RELU;
    t.units = 1; // no contraction is small
    CHECK(run_passes(&c, t, NULL, true));
    dump(&c);
    CHECK_MSG(launches(&c, -1) <= 10, "%d launches", launches(&c, -1));
    CHECK(launches(&c, GROUP_DOT) == 5);
    for (uint32_t i = 0; i < c.g->nodes.n;
         i++) // what only views a stored value is not stored again
        CHECK(c.g->nodes.at[i]->op != OP_reshape || !c.g->fusion->group_of[i]);
    CHECK(launches_are_ordered(&c));
    // Every parameter update in one launch.
    const Fusion *f = c.g->fusion;
    uint32_t launch = UINT32_MAX;
    for (uint32_t i = 0; i < f->groups.n; i++)
        for (uint32_t k = 0; k < f->groups.at[i].outs.n; k++) {
            if (f->groups.at[i].outs.at[k]->op != OP_assign) continue;
            if (launch == UINT32_MAX) launch = f->groups.at[i].launch;
            CHECK(f->groups.at[i].launch == launch);
        }
    CHECK(!step_is_read_where_written(&c));
    arena_free(c.a);
}

// Contractions that are generated take in what comes before and after them element by element.
static void test_small_mlp(bool with_assert)
{
    Ctx c = begin();
    build_mlp(&c, with_assert);
    CHECK(run_passes(&c, target_cuda(90, true), NULL, true));
    dump(&c);
    const Fusion *f = c.g->fusion;
    int maps = 0, dots = 0;
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const Group *gr = &f->groups.at[i];
        bool update = false;
        for (uint32_t k = 0; k < gr->outs.n; k++) update |= node_class(gr->outs.at[k]) == CLS_ROOT;
        dots += gr->kind == GROUP_DOT;
        maps += gr->kind == GROUP_MAP && !update && type_count(&gr->outs.at[0]->type) > 1;
    }
    CHECK_MSG(dots == 5, "%d contractions", dots);
    CHECK_MSG(maps <= 1, "%d maps", maps); // the input, stored for the backward part
    CHECK_MSG(launches(&c, -1) <= 8, "%d launches", launches(&c, -1));
    CHECK(launches_are_ordered(&c));
    CHECK(!step_is_read_where_written(&c));
    arena_free(c.a);
}

static void test_mlp_unfused(void)
{
    Ctx c = begin();
    build_mlp(&c, false);
    CHECK(run_passes(&c, target_cpu(2, true), "fuse", true));
    CHECK(launches(&c, -1) > 60);
    CHECK(launches_are_ordered(&c));
    arena_free(c.a);
}

// (T, B, N) read as a transpose of (B, T, N): the first axis of the matmul is no single run, so
// that the operand is stored in order; a plain transpose is read where it lies.
static void test_matmul_operands(void)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *x = cell(g, OP_state, "x", 3, (int64_t[]){8, 6, 16}),
         *w = cell(g, OP_param, "w", 2, (int64_t[]){32, 16});
    int64_t front[] = {1, 0, 2}, flip[] = {1, 0};
    Node *wt = graph_permute(g, w, flip);
    graph_root(g, OP_output, graph_matmul(g, graph_permute(g, x, front), wt), "y");
    graph_root(g, OP_output, graph_matmul(g, x, wt), "z");
    Target t = target_cuda(90, true);
    t.units = 1; // the library takes them both
    CHECK(run_passes(&c, t, NULL, false));
    dump(&c);
    CHECK(launches(&c, GROUP_DOT) == 2);
    CHECK(launches(&c, GROUP_MAP) == 1);
    CHECK(launches_are_ordered(&c));
    arena_free(c.a);
}

// A lookup that may be out of range and the update made of it are different launches.
static void test_checks_before_commits(void)
{
    Ctx c = begin();
    Graph *g = c.g;
    Type it = type_make(DT_I32, 1, (int64_t[]){4});
    Node *table = cell(g, OP_param, "table", 2, (int64_t[]){10, 3}),
         *s = cell(g, OP_state, "s", 2, (int64_t[]){4, 3});
    Node *index = graph_input(g, "index", &it, "arg");
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, 0);
    Node *rows = graph_node(g, OP_gather, (Node *[]){table, index}, 2, &at);
    graph_root(g, OP_assign, bin(g, OP_add, s, rows), "s");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    dump(&c);
    const Fusion *f = c.g->fusion;
    for (uint32_t i = 0; i < f->groups.n; i++)
        for (uint32_t k = 0; k < f->groups.at[i].outs.n; k++)
            if (f->groups.at[i].outs.at[k]->op == OP_assign)
                CHECK(f->group_of[f->groups.at[i].outs.at[k]->args[0]->id] != 0);
    CHECK(launches(&c, -1) == 2);
    arena_free(c.a);
}

// A value two kernels read is stored when it is dear and computed twice when it is cheap.
static void test_shared_values(bool dear)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *x = cell(g, OP_param, "x", 2, (int64_t[]){4096, 4096});
    Node *v = bin(g, OP_mul, x, num(g, 3));
    for (int i = 0; dear && i < 12; i++) v = graph_unary(g, i & 1 ? OP_sin : OP_exp, v);
    int64_t rows = 1, cols = 0;
    graph_root(g, OP_output, graph_reduce(g, OP_sum, v, &rows, 1, false), "by_row");
    graph_root(g, OP_output, graph_reduce(g, OP_max, v, &cols, 1, false), "by_column");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    dump(&c);
    const Node *shared = c.g->roots.at[0]->args[0]->args[0];
    CHECK((c.g->fusion->group_of[shared->id] != 0) == dear);
    CHECK(launches(&c, GROUP_MAP) == 0); // the maxima are taken where it is stored
    CHECK(launches_are_ordered(&c));
    arena_free(c.a);
}

// The body of a loop is partitioned too; its results are stored.
static void test_loop(void)
{
    Ctx c = begin();
    Graph *g = c.g, *r = graph_new(c.a, c.d, NULL);
    int64_t shape[] = {8, 8};
    Type types[] = {type_scalar(DT_I64), type_make(DT_F32, 2, shape), type_make(DT_F32, 2, shape)};
    Node *p[3];
    for (int i = 0; i < 3; i++) p[i] = graph_region_param(r, &types[i]);
    vec_push(c.a, &r->results,
             softmax(r, bin(r, OP_mul, graph_matmul(r, p[1], p[2]), num(r, 0.5))));
    vec_push(c.a, &r->results, graph_unary(r, OP_exp, p[1])); // stacked, read by nobody
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 5);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 0);
    Node *a = cell(g, OP_state, "a", 2, shape), *w = cell(g, OP_param, "w", 2, shape);
    Node *l = graph_region_node(g, OP_loop, (Node *[]){a, w}, 2, &at, &r, 1);
    graph_root(g, OP_output, graph_result(g, l, 0), "y");
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    const Fusion *f = c.g->fusion;
    CHECK(f->groups.n == 1 && f->groups.at[0].kind == GROUP_LOOP);
    const Graph *body = f->groups.at[0].anchor->regions[0];
    CHECK(body->results.n == 1);                        // the dead result is gone
    CHECK(body->fusion && body->fusion->launches == 2); // the matmul and the softmax
    CHECK(body->fusion->group_of[body->results.at[0]->id] != 0);
    arena_free(c.a);
}

// Which matmuls read low operands: all of them, in f16 the backward ones where losses are scaled.
static void test_precision(Precision precision, bool scaled)
{
    Ctx c = begin();
    build_mlp(&c, false);
    DType low = precision == PREC_BF16 ? DT_BF16 : DT_F16;
    if (scaled) graph_root(c.g, OP_output, cell(c.g, OP_state, CELL_LOSS_SCALE, 0, NULL), "scale");
    Entry e = {.name = "train", .kind = ENTRY_TRAIN, .graph = c.g, .batch = 1, .rows = true};
    vec_push(c.a, &c.m->entries, e);
    Target t = target_cuda(90, true);
    PassOptions o = {.target = &t, .precision = precision};
    CHECK(passes_run(c.m, &o, NULL));
    c.g = c.m->entries.at[0].graph;
    int dots = 0;
    for (uint32_t i = 0; i < c.g->nodes.n; i++) {
        const Node *n = c.g->nodes.at[i];
        if (n->op != OP_dot) continue;
        dots++;
        bool wide = precision == PREC_F16 && !scaled && n->role != ROLE_FORWARD;
        DType want = wide ? DT_F32 : low;
        CHECK(n->args[0]->type.dtype == want && n->args[1]->type.dtype == want);
        CHECK(n->type.dtype == DT_F32);
    }
    CHECK(dots == 5);
    arena_free(c.a);
}

// 20,000 operations in a row become kernels of bounded size, in time that grows with their number.
static void test_deep_chain(void)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *x = cell(g, OP_param, "x", 1, (int64_t[]){1000});
    for (int i = 0; i < 20000; i++) x = graph_unary(g, i & 1 ? OP_sin : OP_tanh, x);
    graph_root(g, OP_output, x, "y");
    size_t before = arena_bytes(c.a);
    CHECK(run_passes(&c, target_cuda(90, true), NULL, false));
    // Of the graphs that passes make, the module's arena holds none.
    CHECK_MSG(arena_bytes(c.a) - before < 1000000, "%zu bytes", arena_bytes(c.a) - before);
    CHECK_MSG(launches(&c, -1) >= 100 && launches(&c, -1) <= 400, "%d launches", launches(&c, -1));
    arena_free(c.a);
}

// The loss over y = tanh(x), twice as wide, and of z = exp(v), where the gradient reads tanh(x) and
// exp(v): how many nodes are computed again under a limit.
static int computed_again(int64_t limit)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *loss = NULL;
    for (int i = 0; i < 2; i++) {
        Node *x = cell(g, OP_param, i ? "v" : "x", 1, (int64_t[]){i ? 1000 : 2000});
        Node *y = graph_unary(g, i ? OP_exp : OP_tanh, x);
        Node *sum =
            graph_reduce(g, OP_sum, graph_binary(g, OP_mul, y, y), (int64_t[]){0}, 1, false);
        loss = loss ? graph_binary(g, OP_add, loss, sum) : sum;
    }
    graph_root(g, OP_output, loss, "loss");
    for (int i = 0; i < 2; i++) {
        Node *x = cell(g, OP_param, i ? "v" : "x", 1, (int64_t[]){i ? 1000 : 2000});
        g->role = ROLE_UPDATE;
        graph_root(g, OP_output, graph_node(g, OP_grad, (Node *[]){loss, x}, 2, NULL),
                   i ? "b" : "a");
    }
    Entry e = {.name = "train", .kind = ENTRY_TRAIN, .graph = g, .batch = 1};
    vec_push(c.a, &c.m->entries, e);
    Target t = target_cpu(2, true);
    PassOptions o = {.target = &t, .memory_limit = limit};
    CHECK(passes_run(c.m, &o, NULL));
    int clones = 0;
    g = c.m->entries.at[0].graph;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        clones += (g->nodes.at[i]->op == OP_tanh || g->nodes.at[i]->op == OP_exp) &&
                  attr_int(g->nodes.at[i], ATTR_clone, 0);
    arena_free(c.a);
    return clones;
}

static void test_memory_limit(void)
{
    CHECK(computed_again(0) == 0);
    // tanh(x) and its gradient take 8000 bytes each, exp(v) and its gradient 4000: as it is, then
    // without tanh(x).
    CHECK(computed_again(24000) == 0 && computed_again(23999) == 1);
    CHECK(computed_again(16000) == 1 && computed_again(15999) == 2);
}

// What breaks a graph is reported once, after the pass that left it so or after all of them.
static void test_verified(bool last)
{
    Ctx c = begin();
    Node *x = cell(c.g, OP_param, "x", 1, (int64_t[]){4});
    Node *y = graph_root(c.g, OP_output, graph_unary(c.g, OP_tanh, x), "y");
    y->role = ROLE_COUNT;
    add_entry(&c, (Entry){.name = "f", .kind = ENTRY_MODEL});
    Target t = target_cpu(2, true);
    PassOptions o = {.target = &t, .verify_last = last, .stop_before = "fuse"};
    CHECK(!passes_run(c.m, &o, NULL) && c.d->errors == 1);
    const char *text = c.d->errors ? c.d->list.at[0].text : "";
    CHECK_MSG(strstr(text, last ? "after all passes" : "after simplify, "), "%s", text);
    arena_free(c.a);
}

static void fill(Ctx *c, EvalEnv *env, const Graph *g)
{
    unsigned s = 7;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const char *name = attr_str(n, ATTR_name);
        if (n->op != OP_input && n->op != OP_param && n->op != OP_state) continue;
        StrMap *map = n->op == OP_input ? &env->inputs : &env->cells;
        if (strmap_has(map, name)) continue;
        Value *v = NEW(c->a, Value);
        *v = value_new(c->a, &n->type);
        for (int64_t k = 0; k < type_count(&n->type); k++) {
            s = s * 1664525u + 1013904223u;
            double u = (s >> 8) / 16777216.0;
            if (dtype_is_float(n->type.dtype))
                v->f[k] = strstr(name, ".v") ? u : u * 0.2 - 0.1;
            else
                v->i[k] = n->type.rank == 1 ? (int64_t)(u * 10) : (int64_t)(u * 100) + 1;
        }
        strmap_set(map, name, v);
    }
}

// The same numbers with each optional pass off as with all of them on.
static void test_passes_keep_values(void)
{
    static const char *const skips[] = {NULL, "simplify", "recompute", "fuse",
                                        "simplify,recompute,fuse"};
    EvalResult first = {0};
    Arena *held = NULL; // where its values are
    Ctx keep = begin();
    for (int i = 0; i < 5; i++) {
        Ctx c = begin();
        build_mlp(&c, true);
        CHECK(run_passes(&c, target_cpu(2, true), skips[i], true));
        EvalEnv env = {.arena = keep.a, .inputs = strmap_new(keep.a), .cells = strmap_new(keep.a)};
        fill(&keep, &env, c.g);
        EvalResult r;
        CHECK(eval_graph(c.g, &env, &r));
        if (i == 0) {
            first = r;
        } else {
            for (uint32_t k = 0; k < first.assigns.n; k++) {
                Value *a = first.assigns.entry[k].value,
                      *b = strmap_get(&r.assigns, first.assigns.entry[k].key);
                double worst = 0;
                for (int64_t j = 0; b && j < type_count(&a->type); j++)
                    worst = fmax(worst, fabs(value_get(a, j) - value_get(b, j)) /
                                            (1e-3 + fabs(value_get(a, j))));
                CHECK_MSG(b && worst < 1e-9, "without %s: %s differs by %g", skips[i],
                          first.assigns.entry[k].key, worst);
            }
        }
        if (i)
            arena_free(c.a);
        else
            held = c.a;
    }
    arena_free(held);
    arena_free(keep.a);
}

int main(void)
{
    test_softmax();
    test_layer_norm();
    test_layer_norm_backward();
    test_mlp(false);
    test_mlp(true);
    test_small_mlp(false);
    test_small_mlp(true);
    test_mlp_unfused();
    test_matmul_operands();
    test_checks_before_commits();
    test_shared_values(false);
    test_shared_values(true);
    test_loop();
    test_precision(PREC_BF16, false);
    test_precision(PREC_F16, false);
    test_precision(PREC_F16, true);
    test_deep_chain();
    test_memory_limit();
    test_verified(false);
    test_verified(true);
    test_passes_keep_values();
    return unit_done();
}
