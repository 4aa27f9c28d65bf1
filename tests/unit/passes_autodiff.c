// Every gradient rule against finite differences of the evaluator, in double precision.
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "tests/unit/one_graph.h"

enum { MAX_VARS = 3 };

static const Entry test_entry = {.name = "test", .kind = ENTRY_MODEL};

static bool run_passes(Ctx *c, const char *skip)
{
    static Target t;
    t = target_cpu(2, false);
    return run_module(c, &(PassOptions){.target = &t, .skip = skip});
}

typedef struct Var {
    int rank;
    int64_t dim[4];
    double lo, hi; // values drawn between
} Var;

typedef Node *(*Build)(Graph *g, Node **x);

static double draw(unsigned *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (*s >> 8) / 16777216.0;
}

// Weights every element differently, so that a transposed gradient does not pass.
static Node *weigh(Graph *g, Node *y)
{
    int64_t n = type_count(&y->type);
    Node *flat = graph_reshape(g, y, 1, &n);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, &n, 1);
    attr_set_int(&at, ATTR_dtype, DT_F64);
    attr_set_int(&at, ATTR_axis, 0);
    Node *i = graph_node(g, OP_iota, NULL, 0, &at);
    Node *w = graph_unary(g, OP_sin, graph_binary(g, OP_add, i, graph_const(g, DT_F64, 0.7)));
    int64_t axis = 0;
    if (flat->type.dtype != DT_F64) flat = graph_cast(g, flat, DT_F64);
    return graph_reduce(g, OP_sum, graph_binary(g, OP_mul, flat, w), &axis, 1, false);
}

static double eval_y(Ctx *c, EvalEnv *env)
{
    EvalResult r;
    if (!eval_graph(c->g, env, &r)) return NAN;
    Value *y = strmap_get(&r.outputs, "y");
    return y ? value_get(y, 0) : NAN;
}

static void check_vars(const char *what, Build f, const Var *vars, int nvars, bool twice)
{
    static const char *const names[] = {"p0", "p1", "p2"}, *const gnames[] = {"g0", "g1", "g2"};
    Ctx c = begin();
    Node *x[MAX_VARS];
    EvalEnv env = {.arena = c.a};
    env.inputs = strmap_new(c.a);
    env.cells = strmap_new(c.a);
    Value *v[MAX_VARS];
    unsigned seed = 12345;
    for (int i = 0; i < nvars; i++) {
        Type t = type_make(DT_F64, vars[i].rank, vars[i].dim);
        x[i] = graph_leaf_cell(c.g, OP_param, names[i], &t);
        v[i] = NEW(c.a, Value);
        *v[i] = value_new(c.a, &t);
        for (int64_t k = 0; k < type_count(&t); k++)
            v[i]->f[k] = vars[i].lo + (vars[i].hi - vars[i].lo) * draw(&seed);
        strmap_set(&env.cells, names[i], v[i]);
    }
    Node *y = weigh(c.g, f(c.g, x));
    if (twice) { // the gradient of a function of the gradient
        Node *d = graph_node(c.g, OP_grad, (Node *[]){y, x[0]}, 2, NULL);
        y = graph_binary(c.g, OP_add, y, weigh(c.g, graph_binary(c.g, OP_mul, d, d)));
    }
    graph_root(c.g, OP_output, y, "y");
    for (int i = 0; i < nvars; i++)
        graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, x[i]}, 2, NULL),
                   gnames[i]);
    add_entry(&c, test_entry);
    bool ok = run_passes(&c, NULL);
    CHECK_MSG(ok, "%s: passes fail", what);
    EvalResult r;
    if (!ok || !eval_graph(c.g, &env, &r)) {
        CHECK_MSG(false, "%s: not evaluated", what);
        arena_free(c.a);
        return;
    }
    for (uint32_t i = 0; i < c.g->nodes.n; i++)
        CHECK_MSG(c.g->nodes.at[i]->op != OP_grad && c.g->nodes.at[i]->op != OP_call,
                  "%s: grad or call left", what);
    for (int i = 0; i < nvars; i++) {
        Value *g = strmap_get(&r.outputs, gnames[i]);
        int64_t n = type_count(&v[i]->type);
        for (int64_t k = 0; g && k < n; k++) {
            double keep = v[i]->f[k], h = 1e-6 * (1 + fabs(keep));
            v[i]->f[k] = keep + h;
            double up = eval_y(&c, &env);
            v[i]->f[k] = keep - h;
            double down = eval_y(&c, &env);
            v[i]->f[k] = keep;
            double fd = (up - down) / (2 * h), got = value_get(g, k);
            CHECK_MSG(fabs(fd - got) <= 2e-6 * (1 + fabs(fd)),
                      "%s: d%s[%lld] is %.9g, differences say %.9g", what, names[i], (long long)k,
                      got, fd);
        }
    }
    arena_free(c.a);
}

#define VAR(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CHECK_GRAD(name, ...)                                                                      \
    check_vars(#name, build_##name, (const Var[]){__VA_ARGS__},                                    \
               (int)(sizeof((const Var[]){__VA_ARGS__}) / sizeof(Var)), false)

// -- elementwise ----------------------------------------------------------------------------------

static const Op unary_smooth[] = {OP_neg,     OP_abs,   OP_sqrt, OP_rsqrt, OP_exp,  OP_expm1,
                                  OP_log,     OP_log1p, OP_sin,  OP_cos,   OP_tanh, OP_erf,
                                  OP_sigmoid, OP_floor, OP_ceil, OP_round, OP_sign};
static Op the_op;

static Node *build_unary(Graph *g, Node **x)
{
    Node *y = graph_unary(g, the_op, x[0]);
    return graph_binary(g, OP_add, y, x[0]); // so that flat ops have a path as well
}

static const Op binary[] = {OP_add, OP_sub, OP_mul, OP_div, OP_mod, OP_minimum, OP_maximum, OP_pow};

static Node *build_binary(Graph *g, Node **x)
{
    return graph_binary(g, the_op, x[0], x[1]);
}

static Node *build_relu(Graph *g, Node **x)
{
    return graph_binary(g, OP_maximum, x[0], graph_const(g, DT_F64, 0));
}

static Node *build_select(Graph *g, Node **x)
{
    return graph_select(g, graph_binary(g, OP_gt, x[0], x[1]), graph_binary(g, OP_mul, x[0], x[1]),
                        x[1]);
}

static Node *build_square(Graph *g, Node **x)
{
    return graph_binary(g, OP_pow, x[0], graph_const(g, DT_F64, 2));
}

// -- views ----------------------------------------------------------------------------------------

static Node *build_broadcast(Graph *g, Node **x) // (3, 1) with (4) -> (3, 4)
{
    return graph_binary(g, OP_mul, x[0], x[1]);
}

static Node *build_permute(Graph *g, Node **x)
{
    int64_t perm[] = {2, 0, 1};
    Node *p = graph_permute(g, x[0], perm);
    return graph_binary(g, OP_mul, p, p);
}

static Node *build_slice(Graph *g, Node **x)
{
    int64_t start[] = {1, 0}, limit[] = {4, 7}, stride[] = {1, 3};
    Node *s = graph_slice(g, x[0], start, limit, stride);
    return graph_binary(g, OP_mul, s, s);
}

static Node *build_pad(Graph *g, Node **x)
{
    Attrs at = {0};
    int64_t low[] = {1, 0}, high[] = {0, 2}, axis = 0;
    attr_set_ints(g, &at, ATTR_low, low, 2);
    attr_set_ints(g, &at, ATTR_high, high, 2);
    Node *fill = graph_reduce(g, OP_sum, x[1], &axis, 1, false);
    Node *p = graph_node(g, OP_pad, (Node *[]){x[0], fill}, 2, &at);
    return graph_binary(g, OP_mul, p, p);
}

static Node *build_concat(Graph *g, Node **x)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, 1);
    Node *c = graph_node(g, OP_concat, (Node *[]){x[0], x[1], x[0]}, 3, &at);
    return graph_binary(g, OP_mul, c, c);
}

static Node *build_reverse(Graph *g, Node **x)
{
    Attrs at = {0};
    int64_t axes[] = {1};
    attr_set_ints(g, &at, ATTR_axes, axes, 1);
    Node *c = graph_node(g, OP_reverse, x, 1, &at);
    return graph_binary(g, OP_mul, c, x[0]);
}

// -- reductions -----------------------------------------------------------------------------------

static Node *build_reduce(Graph *g, Node **x)
{
    int64_t inner = 1, outer = 0, both[] = {0, 2};
    Node *a = graph_reduce(g, the_op, x[0], &inner, 1, false); // (2, 4)
    Node *b = graph_reduce(g, the_op, x[0], both, 2, true);    // (1, 3, 1)
    Node *c = graph_reduce(g, the_op, a, &outer, 1, false);    // (4)
    Node *s = graph_binary(g, OP_mul, x[0], b);
    return graph_binary(g, OP_add, s, c);
}

static Node *build_softmax(Graph *g, Node **x)
{
    int64_t axis = 1;
    Node *m = graph_reduce(g, OP_max, x[0], &axis, 1, true);
    Node *e = graph_unary(g, OP_exp, graph_binary(g, OP_sub, x[0], m));
    return graph_binary(g, OP_div, e, graph_reduce(g, OP_sum, e, &axis, 1, true));
}

// -- contraction ----------------------------------------------------------------------------------

static Node *build_matmul(Graph *g, Node **x)
{
    return graph_matmul(g, x[0], x[1]);
}

static Node *build_dot_odd(Graph *g, Node **x) // batch axis last of a, two contracted axes crossed
{
    int64_t ba[] = {3}, bb[] = {1}, ca[] = {0, 2}, cb[] = {3, 0};
    return graph_dot(g, x[0], x[1], ba, bb, 1, ca, cb, 2, DT_F64);
}

static Node *build_dot_transposed(Graph *g, Node **x)
{
    int64_t perm[] = {1, 0};
    return graph_matmul(g, x[0], graph_permute(g, x[1], perm));
}

// -- indexed --------------------------------------------------------------------------------------

static Node *ints(Graph *g, const int64_t *v, int n)
{
    Attrs at = {0};
    int64_t shape[] = {n};
    attr_set_ints(g, &at, ATTR_shape, shape, 1);
    attr_set_int(&at, ATTR_dtype, DT_I32);
    attr_set_ints(g, &at, ATTR_values, v, n);
    return graph_node(g, OP_const, NULL, 0, &at);
}

static Attrs axis_attr(int64_t axis)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    return at;
}

static Node *build_gather(Graph *g, Node **x)
{
    int64_t v[] = {2, 0, 2, 1, 2, 2}, shape[] = {2, 3};
    Attrs at = axis_attr(1);
    Node *i = graph_reshape(g, ints(g, v, 6), 2, shape);
    Node *y = graph_node(g, OP_gather, (Node *[]){x[0], i}, 2, &at);
    return graph_binary(g, OP_mul, y, y);
}

static Node *build_scatter(Graph *g, Node **x)
{
    int64_t v[] = {2, 0};
    Attrs at = axis_attr(0);
    Node *y = graph_node(g, OP_scatter, (Node *[]){x[0], ints(g, v, 2), x[1]}, 3, &at);
    return graph_binary(g, OP_mul, y, y);
}

static Node *build_scatter_add(Graph *g, Node **x)
{
    int64_t v[] = {2, 2};
    Attrs at = axis_attr(0);
    Node *y = graph_node(g, OP_scatter_add, (Node *[]){x[0], ints(g, v, 2), x[1]}, 3, &at);
    return graph_binary(g, OP_mul, y, y);
}

static Node *build_scatter_max(Graph *g, Node **x)
{
    int64_t v[] = {2, 2};
    Attrs at = axis_attr(0);
    Node *y = graph_node(g, OP_scatter_max, (Node *[]){x[0], ints(g, v, 2), x[1]}, 3, &at),
         *z = graph_node(g, OP_scatter_min, (Node *[]){x[0], ints(g, v, 2), x[1]}, 3, &at);
    return graph_binary(g, OP_mul, y, z);
}

static Node *build_dynamic(Graph *g, Node **x)
{
    Node *i = graph_const_int(g, DT_I64, 1), *j = graph_const_int(g, DT_I64, 9); // 9: clamped
    Attrs at = {0};
    int64_t sizes[] = {2, 2};
    attr_set_ints(g, &at, ATTR_sizes, sizes, 2);
    Node *s = graph_node(g, OP_dynamic_slice, (Node *[]){x[0], i, j}, 3, &at);
    Node *u = graph_node(g, OP_dynamic_update, (Node *[]){x[0], x[1], i, j}, 4, NULL);
    int64_t both[] = {0, 1};
    Node *w = graph_reduce(g, OP_sum, graph_binary(g, OP_mul, s, s), both, 2, false);
    return graph_binary(g, OP_mul, graph_binary(g, OP_mul, u, u), w);
}

static Node *build_sort(Graph *g, Node **x)
{
    Attrs at = axis_attr(0);
    Node *y = graph_node(g, OP_sort, x, 1, &at);
    attr_set_int(&at, ATTR_descending, 1);
    Node *z = graph_node(g, OP_sort, x, 1, &at);
    return graph_binary(g, OP_mul, y, graph_binary(g, OP_add, z, x[0]));
}

static Node *build_first(Graph *g, Node **x)
{
    Attrs at = axis_attr(0);
    attr_set_int(&at, ATTR_first, 2);
    Node *y = graph_node(g, OP_sort, x, 1, &at);
    return graph_binary(g, OP_mul, y, y);
}

static Node *build_cumsum(Graph *g, Node **x)
{
    Attrs at = axis_attr(1);
    Node *y = graph_node(g, OP_cumsum, x, 1, &at);
    attr_set_int(&at, ATTR_exclusive, 1);
    attr_set_int(&at, ATTR_reverse, 1);
    Node *z = graph_node(g, OP_cumsum, x, 1, &at);
    return graph_binary(g, OP_mul, y, z);
}

static Node *build_running(Graph *g, Node **x)
{
    Attrs at = axis_attr(1);
    Node *y = graph_node(g, OP_cumprod, x, 1, &at), *u = graph_node(g, OP_cummax, x, 1, &at);
    attr_set_int(&at, ATTR_exclusive, 1);
    attr_set_int(&at, ATTR_reverse, 1);
    Node *z = graph_node(g, OP_cumprod, x, 1, &at);
    attr_set_int(&at, ATTR_exclusive, 0);
    Node *v = graph_node(g, OP_cummin, x, 1, &at);
    return graph_binary(g, OP_add, graph_binary(g, OP_mul, y, z), graph_binary(g, OP_mul, u, v));
}

// -- regions --------------------------------------------------------------------------------------

static Node *param(Graph *r, DType t, int rank, const int64_t *dim)
{
    Type type = type_make(t, rank, dim);
    return graph_region_param(r, &type);
}

// h <- tanh(h w + x[t]), stacked; w captured, x scanned, h carried.
static Node *build_loop(Graph *g, Node **x)
{
    int64_t h[] = {2, 3}, w[] = {3, 3};
    Graph *r = graph_new(g->arena, g->diags, NULL);
    param(r, DT_I64, 0, NULL);
    Node *ph = param(r, DT_F64, 2, h), *px = param(r, DT_F64, 2, h), *pw = param(r, DT_F64, 2, w);
    Node *next = graph_unary(r, OP_tanh, graph_binary(r, OP_add, graph_matmul(r, ph, pw), px));
    vec_push(g->arena, &r->results, next);
    vec_push(g->arena, &r->results, graph_binary(r, OP_mul, next, px));
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 4);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 1);
    Node *l = graph_region_node(g, OP_loop, (Node *[]){x[0], x[1], x[2]}, 3, &at, &r, 1);
    Node *last = graph_result(g, l, 0), *all = graph_result(g, l, 1);
    return graph_binary(g, OP_mul, all, last);
}

static Node *build_loop_carried_only(Graph *g, Node **x) // one result: no get
{
    int64_t h[] = {3};
    Graph *r = graph_new(g->arena, g->diags, NULL);
    Node *i = param(r, DT_I64, 0, NULL), *ph = param(r, DT_F64, 1, h), *pw = param(r, DT_F64, 1, h);
    Node *step = graph_cast(r, i, DT_F64);
    Node *next =
        graph_unary(r, OP_sin, graph_binary(r, OP_add, graph_binary(r, OP_mul, ph, pw), step));
    vec_push(g->arena, &r->results, next);
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 3);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 0);
    attr_set_int(&at, ATTR_reverse, 1);
    return graph_region_node(g, OP_loop, (Node *[]){x[0], x[1]}, 2, &at, &r, 1);
}

// call with a gradient of its own: f(a, b) = a * b, with the true gradient.
static Node *call(Graph *g, Node **x, double da)
{
    int64_t s[] = {3};
    Graph *f = graph_new(g->arena, g->diags, NULL), *d = graph_new(g->arena, g->diags, NULL);
    Node *a = param(f, DT_F64, 1, s), *b = param(f, DT_F64, 1, s);
    vec_push(g->arena, &f->results, graph_binary(f, OP_mul, a, b));
    a = param(d, DT_F64, 1, s);
    b = param(d, DT_F64, 1, s);
    Node *dy = param(d, DT_F64, 1, s);
    Node *ga = graph_binary(d, OP_mul, graph_binary(d, OP_mul, dy, b), graph_const(d, DT_F64, da));
    vec_push(g->arena, &d->results, ga);
    vec_push(g->arena, &d->results, graph_binary(d, OP_mul, dy, a));
    Attrs at = {0};
    attr_set_str(g, &at, ATTR_name, "f");
    return graph_region_node(g, OP_call, (Node *[]){x[0], x[1]}, 2, &at, (Graph *[]){f, d}, 2);
}

static Node *build_call(Graph *g, Node **x)
{
    return graph_unary(g, OP_tanh, call(g, x, 1));
}

static Node *build_call_plain(Graph *g, Node **x) // without a gradient: the body is differentiated
{
    int64_t s[] = {3};
    Graph *f = graph_new(g->arena, g->diags, NULL);
    Node *a = param(f, DT_F64, 1, s), *b = param(f, DT_F64, 1, s);
    Node *p = graph_binary(f, OP_mul, a, b);
    vec_push(g->arena, &f->results, p);
    vec_push(g->arena, &f->results, graph_unary(f, OP_exp, p));
    Attrs at = {0};
    attr_set_str(g, &at, ATTR_name, "f");
    Node *c = graph_region_node(g, OP_call, (Node *[]){x[0], x[1]}, 2, &at, &f, 1);
    return graph_binary(g, OP_mul, graph_result(g, c, 0), graph_result(g, c, 1));
}

// -- what is not a finite difference --------------------------------------------------------------

static double grad_at(Ctx *c, EvalEnv *env, const char *name, int64_t k)
{
    EvalResult r;
    if (!eval_graph(c->g, env, &r)) return NAN;
    Value *v = strmap_get(&r.outputs, name);
    return v ? value_get(v, k) : NAN;
}

static void test_handwritten_rule_is_used(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){3});
    Node *x[2] = {graph_leaf_cell(c.g, OP_param, "p0", &t),
                  graph_leaf_cell(c.g, OP_param, "p1", &t)};
    int64_t axis = 0;
    Node *y = graph_reduce(c.g, OP_sum, call(c.g, x, 10), &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, x[0]}, 2, NULL), "g0");
    add_entry(&c, test_entry);
    CHECK(run_passes(&c, NULL));
    EvalEnv env = {.arena = c.a, .inputs = strmap_new(c.a), .cells = strmap_new(c.a)};
    Value v0 = value_new(c.a, &t), v1 = value_new(c.a, &t);
    for (int i = 0; i < 3; i++) v0.f[i] = v1.f[i] = i + 1;
    strmap_set(&env.cells, "p0", &v0);
    strmap_set(&env.cells, "p1", &v1);
    CHECK(grad_at(&c, &env, "g0", 1) == 20); // ten times the true gradient, as written
    arena_free(c.a);
}

static void test_ties_are_split(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){3});
    Node *p = graph_leaf_cell(c.g, OP_param, "p0", &t),
         *q = graph_leaf_cell(c.g, OP_param, "p1", &t);
    int64_t axis = 0;
    Node *m = graph_reduce(c.g, OP_max, p, &axis, 1, false);
    Node *s = graph_reduce(c.g, OP_sum, graph_binary(c.g, OP_maximum, p, q), &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){m, p}, 2, NULL), "g0");
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){s, q}, 2, NULL), "g1");
    add_entry(&c, test_entry);
    CHECK(run_passes(&c, NULL));
    EvalEnv env = {.arena = c.a, .inputs = strmap_new(c.a), .cells = strmap_new(c.a)};
    Value v = value_new(c.a, &t);
    v.f[0] = v.f[2] = 5;
    strmap_set(&env.cells, "p0", &v);
    strmap_set(&env.cells, "p1", &v);
    CHECK(grad_at(&c, &env, "g0", 0) == 0.5);
    CHECK(grad_at(&c, &env, "g0", 1) == 0);
    CHECK(grad_at(&c, &env, "g1", 1) == 0.5);
    arena_free(c.a);
}

static void test_prod_with_zeros(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){3});
    Node *p = graph_leaf_cell(c.g, OP_param, "p0", &t);
    int64_t axis = 0;
    Node *m = graph_reduce(c.g, OP_prod, p, &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){m, p}, 2, NULL), "g0");
    add_entry(&c, test_entry);
    CHECK(run_passes(&c, NULL));
    EvalEnv env = {.arena = c.a, .inputs = strmap_new(c.a), .cells = strmap_new(c.a)};
    Value v = value_new(c.a, &t);
    v.f[0] = 2, v.f[2] = 5;
    strmap_set(&env.cells, "p0", &v);
    CHECK(grad_at(&c, &env, "g0", 1) == 10);
    CHECK(grad_at(&c, &env, "g0", 0) == 0);
    v.f[0] = 0;
    CHECK(grad_at(&c, &env, "g0", 1) == 0);
    arena_free(c.a);
}

static bool says(const Ctx *c, const char *text)
{
    Buf b = buf_new(c->a);
    diags_render(c->d, &b, false);
    return strstr(b.data, text) != NULL;
}

static void test_unreached_parameter(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){3});
    Node *p = graph_leaf_cell(c.g, OP_param, "fc3.weight", &t),
         *q = graph_leaf_cell(c.g, OP_param, "q", &t);
    int64_t axis = 0;
    Node *y = graph_reduce(c.g, OP_sum, q, &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, p}, 2, NULL), "g");
    add_entry(&c, test_entry);
    PassOptions o = {0};
    CHECK(!passes_run(c.m, &o, NULL));
    CHECK(says(&c, "parameter 'fc3.weight' receives no gradient from the loss"));
    arena_free(c.a);
}

static void test_cut_path_is_shown(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){3});
    Node *p = graph_leaf_cell(c.g, OP_param, "w", &t);
    int64_t axis = 0;
    Node *y = graph_reduce(c.g, OP_sum, graph_unary(c.g, OP_floor, p), &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, p}, 2, NULL), "g");
    add_entry(&c, test_entry);
    PassOptions o = {0};
    CHECK(!passes_run(c.m, &o, NULL));
    CHECK(says(&c, "floor passes no gradient on"));
    arena_free(c.a);
}

static void test_intermediate_variables(void)
{
    Ctx c = begin();
    Type t = type_make(DT_F64, 1, (int64_t[]){2});
    Node *p = graph_leaf_cell(c.g, OP_param, "p0", &t);
    Node *cell = graph_unary(c.g, OP_stop_gradient, graph_binary(c.g, OP_mul, p, p));
    Node *h = graph_unary(c.g, OP_exp, cell);
    int64_t axis = 0;
    Node *y = graph_reduce(c.g, OP_sum, graph_binary(c.g, OP_mul, h, h), &axis, 1, false);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, h}, 2, NULL), "dh");
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, cell}, 2, NULL), "dcell");
    add_entry(&c, test_entry);
    CHECK(run_passes(&c, NULL));
    EvalEnv env = {.arena = c.a, .inputs = strmap_new(c.a), .cells = strmap_new(c.a)};
    Value v = value_new(c.a, &t);
    v.f[0] = 1, v.f[1] = 0.5;
    strmap_set(&env.cells, "p0", &v);
    CHECK(fabs(grad_at(&c, &env, "dh", 0) - 2 * exp(1)) < 1e-12);
    CHECK(fabs(grad_at(&c, &env, "dcell", 1) - 2 * exp(0.5)) < 1e-12);
    arena_free(c.a);
}

static void test_bad_pass_names(void)
{
    Ctx c = begin();
    PassOptions o = {.skip = "simplfy,autodiff"};
    CHECK(!passes_run(c.m, &o, NULL));
    CHECK(says(&c, "no pass 'simplfy'"));
    CHECK(says(&c, "did you mean 'simplify'?"));
    CHECK(says(&c, "'autodiff' cannot be skipped"));
    arena_free(c.a);
}

// In a graph of f32, too, constants of a rule are exact to nine digits: netc check compares
// gradients with the finite differences of a loss in double precision.
static void constants_of_erf(void)
{
    Ctx c = begin();
    EvalEnv env = {.arena = c.a, .inputs = strmap_new(c.a), .cells = strmap_new(c.a)};
    const Type t = type_make(DT_F32, 0, NULL);
    Node *x = graph_leaf_cell(c.g, OP_param, "p0", &t), *y = graph_unary(c.g, OP_erf, x);
    Value v = value_new(c.a, &t);
    v.f[0] = 0.5;
    strmap_set(&env.cells, "p0", &v);
    graph_root(c.g, OP_output, graph_node(c.g, OP_grad, (Node *[]){y, x}, 2, NULL), "g");
    add_entry(&c, test_entry);
    EvalResult r;
    const bool ran = run_passes(&c, NULL) && eval_graph(c.g, &env, &r);
    CHECK(ran);
    const double slope = M_2_SQRTPI * exp(-0.25),
                 have = ran ? value_get(strmap_get(&r.outputs, "g"), 0) : 0;
    CHECK_MSG(fabs(have - slope) < 1e-8 * slope, "the slope of erf is %.12g, not %.12g", have,
              slope);
    arena_free(c.a);
}

int main(void)
{
    constants_of_erf();
    for (unsigned i = 0; i < sizeof unary_smooth / sizeof *unary_smooth; i++) {
        the_op = unary_smooth[i];
        check_vars(op_info(the_op)->name, build_unary, (const Var[]){{1, {4}, 0.6, 1.4}}, 1, false);
        if (the_op != OP_sqrt && the_op != OP_rsqrt && the_op != OP_log && the_op != OP_log1p)
            check_vars(op_info(the_op)->name, build_unary, (const Var[]){{1, {4}, -1.4, -0.6}}, 1,
                       false);
    }
    for (unsigned i = 0; i < sizeof binary / sizeof *binary; i++) {
        the_op = binary[i];
        check_vars(op_info(the_op)->name, build_binary,
                   (const Var[]){{2, {3, 4}, 0.5, 2.5}, {2, {3, 4}, 0.8, 1.7}}, 2, false);
    }
    static const Op reductions[] = {OP_sum, OP_max, OP_min, OP_prod};
    for (unsigned i = 0; i < 4; i++) {
        the_op = reductions[i];
        check_vars(op_info(the_op)->name, build_reduce, (const Var[]){{3, {2, 3, 4}, 0.5, 1.5}}, 1,
                   false);
    }
    CHECK_GRAD(relu, VAR(1, {6}, -1, 1));
    CHECK_GRAD(select, VAR(1, {6}, -1, 1), VAR(1, {6}, -1, 1));
    CHECK_GRAD(square, VAR(1, {6}, -1, 1));
    CHECK_GRAD(broadcast, VAR(2, {3, 1}, -1, 1), VAR(1, {4}, -1, 1));
    CHECK_GRAD(permute, VAR(3, {2, 3, 4}, -1, 1));
    CHECK_GRAD(slice, VAR(2, {5, 8}, -1, 1));
    CHECK_GRAD(pad, VAR(2, {2, 3}, -1, 1), VAR(1, {2}, -1, 1));
    CHECK_GRAD(concat, VAR(2, {2, 3}, -1, 1), VAR(2, {2, 1}, -1, 1));
    CHECK_GRAD(reverse, VAR(2, {2, 3}, -1, 1));
    CHECK_GRAD(softmax, VAR(2, {2, 5}, -1, 1));
    CHECK_GRAD(matmul, VAR(2, {3, 4}, -1, 1), VAR(2, {4, 2}, -1, 1));
    check_vars("matmul batched", build_matmul,
               (const Var[]){{3, {2, 3, 4}, -1, 1}, {3, {2, 4, 2}, -1, 1}}, 2, false);
    check_vars("matmul of three axes by two", build_matmul,
               (const Var[]){{3, {2, 3, 4}, -1, 1}, {2, {4, 2}, -1, 1}}, 2, false);
    CHECK_GRAD(dot_odd, VAR(4, {2, 3, 4, 2}, -1, 1), VAR(4, {4, 2, 3, 2}, -1, 1));
    CHECK_GRAD(dot_transposed, VAR(2, {3, 4}, -1, 1), VAR(2, {2, 4}, -1, 1));
    CHECK_GRAD(gather, VAR(3, {2, 3, 2}, -1, 1));
    CHECK_GRAD(scatter, VAR(2, {3, 2}, -1, 1), VAR(2, {2, 2}, -1, 1));
    CHECK_GRAD(scatter_add, VAR(2, {3, 2}, -1, 1), VAR(2, {2, 2}, -1, 1));
    CHECK_GRAD(scatter_max, VAR(2, {3, 2}, -1, 1), VAR(2, {2, 2}, -1, 1));
    CHECK_GRAD(dynamic, VAR(2, {4, 3}, -1, 1), VAR(2, {2, 2}, -1, 1));
    CHECK_GRAD(sort, VAR(2, {4, 3}, -1, 1));
    CHECK_GRAD(first, VAR(2, {4, 3}, -1, 1));
    CHECK_GRAD(cumsum, VAR(2, {2, 4}, -1, 1));
    CHECK_GRAD(running, VAR(2, {2, 5}, -1, 1));
    CHECK_GRAD(call, VAR(1, {3}, -1, 1), VAR(1, {3}, -1, 1));
    CHECK_GRAD(call_plain, VAR(1, {3}, -1, 1), VAR(1, {3}, -1, 1));
    CHECK_GRAD(loop, VAR(2, {2, 3}, -1, 1), VAR(3, {4, 2, 3}, -1, 1), VAR(2, {3, 3}, -1, 1));
    CHECK_GRAD(loop_carried_only, VAR(1, {3}, -1, 1), VAR(1, {3}, -1, 1));
    the_op = OP_tanh;
    check_vars("nested", build_unary, (const Var[]){{1, {4}, 0.6, 1.4}}, 1, true);
    check_vars("nested softmax", build_softmax, (const Var[]){{2, {2, 3}, -1, 1}}, 1, true);
    check_vars("nested loop", build_loop_carried_only,
               (const Var[]){{1, {3}, -1, 1}, {1, {3}, -1, 1}}, 2, true);
    test_handwritten_rule_is_used();
    test_ties_are_split();
    test_prod_with_zeros();
    test_unreached_parameter();
    test_cut_path_is_shown();
    test_intermediate_variables();
    test_bad_pass_names();
    return unit_done();
}
