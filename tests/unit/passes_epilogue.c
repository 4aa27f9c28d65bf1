// What fuse folds into a matmul's library call, by the functions that stand behind it.
#include "tests/unit/one_graph.h"

static void run_passes(Ctx *c, Target t)
{
    add_entry(c, (Entry){.name = "net", .kind = ENTRY_MODEL});
    CHECK(run_module(c, &(PassOptions){.target = &t}));
}

static Node *bin(Graph *g, Op op, Node *a, double v)
{
    return graph_binary(g, op, a, graph_full_like(g, a, v));
}

static Node *in(Graph *g, const char *name, DType t, int64_t rows, int64_t cols)
{
    Type type = cols ? type_make(t, 2, (int64_t[]){rows, cols}) : type_make(t, 1, &rows);
    return graph_input(g, name, &type, "arg");
}

enum { ROWS = 64, K = 48 };

// round(x w + b), the sum in f32.
static Node *layer(Graph *g, const char *x, const char *w, const char *b, int64_t n, DType bias)
{
    Node *y = graph_matmul(g, in(g, x, DT_BF16, ROWS, K), in(g, w, DT_BF16, K, n));
    y = graph_cast(g, y, DT_F32);
    Node *v = graph_cast(g, in(g, b, bias, n, 0), DT_F32);
    y = graph_binary(g, OP_add, y, graph_broadcast_to(g, v, &y->type));
    return graph_cast(g, y, DT_BF16);
}

static Node *tanh_part(Graph *g, Node *z) // tanh of sqrt(2 / pi) (z + 0.044715 z^3)
{
    Node *cube = graph_binary(g, OP_mul, graph_binary(g, OP_mul, z, z), z);
    Node *u = graph_binary(g, OP_add, z, bin(g, OP_mul, cube, 0.044715));
    return graph_unary(g, OP_tanh, bin(g, OP_mul, u, 0.7978845608028654));
}

typedef enum Kind { TANH, LOGISTIC, EXACT, RELU } Kind;

static Node *activate(Graph *g, Node *low, Kind kind)
{
    Node *z = graph_cast(g, low, DT_F32), *y = NULL;
    switch (kind) {
    case TANH: y = graph_binary(g, OP_mul, z, bin(g, OP_add, tanh_part(g, z), 1)); break;
    case LOGISTIC: { // z sigmoid(2 u), doubled below like the others
        Node *cube = graph_binary(g, OP_mul, graph_binary(g, OP_mul, z, z), z);
        Node *u = graph_binary(g, OP_add, bin(g, OP_mul, z, 1.5957691216057308),
                               bin(g, OP_mul, cube, 0.07135481627159606));
        y = bin(g, OP_mul, graph_binary(g, OP_mul, z, graph_unary(g, OP_sigmoid, u)), 2);
        break;
    }
    case EXACT: {
        Node *e = graph_unary(g, OP_erf, bin(g, OP_mul, z, 0.7071067811865476));
        y = graph_binary(g, OP_mul, z, bin(g, OP_add, e, 1));
        break;
    }
    case RELU: {
        Node *zero = graph_full_like(g, z, 0);
        y = graph_select(g, graph_binary(g, OP_gt, z, zero), z, zero);
        y = bin(g, OP_mul, y, 2);
        break;
    }
    }
    return graph_cast(g, bin(g, OP_mul, y, 0.5), DT_BF16);
}

static const Group *dot_group(const Graph *g, uint32_t which)
{
    for (uint32_t i = 0; i < g->fusion->groups.n; i++)
        if (g->fusion->groups.at[i].kind == GROUP_DOT && !which--) return &g->fusion->groups.at[i];
    return NULL;
}

static void test_activations(void)
{
    static const struct {
        Kind kind;
        bool kept; // the value before it is an output too
        int64_t n;
        unsigned bits, groups;
    } cases[] = {
        {TANH, false, 96, EPI_BIAS | EPI_CASTS | EPI_GELU, 1},
        {LOGISTIC, false, 96, EPI_BIAS | EPI_CASTS | EPI_GELU, 1},
        {TANH, true, 96, EPI_BIAS | EPI_CASTS | EPI_GELU_AUX, 1},
        {TANH, true, 100, EPI_BIAS | EPI_CASTS, 2}, // rows that are no multiple of 16 bytes
        {EXACT, false, 96, EPI_BIAS | EPI_CASTS, 2},
        {RELU, false, 96, EPI_BIAS | EPI_CASTS | EPI_RELU, 1},
        {RELU, true, 96, EPI_BIAS | EPI_CASTS, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Ctx c = begin();
        Node *z = layer(c.g, "x", "w", "b", cases[i].n, DT_BF16);
        if (cases[i].kept) graph_root(c.g, OP_output, z, "z");
        graph_root(c.g, OP_output, activate(c.g, z, cases[i].kind), "y");
        run_passes(&c, target_cuda(90, true));
        const Group *gr = dot_group(c.g, 0);
        CHECK_MSG(gr && gr->epilogue == cases[i].bits, "case %zu: epilogue %u", i, gr->epilogue);
        CHECK_MSG(c.g->fusion->groups.n == cases[i].groups, "case %zu: %u groups", i,
                  c.g->fusion->groups.n);
        CHECK((gr->aux != NULL) == ((cases[i].bits & EPI_GELU_AUX) != 0));
        CHECK(gr->outs.n == (gr->aux ? 2u : 1u) && gr->bias);
        arena_free(c.a);
    }
}

// A bias that is wider than the result cannot be given to the library: the sum stays f32.
static void test_wide_bias(void)
{
    Ctx c = begin();
    graph_root(c.g, OP_output, layer(c.g, "x", "w", "b", 96, DT_F32), "z");
    run_passes(&c, target_cuda(90, true));
    const Group *gr = dot_group(c.g, 0);
    CHECK(gr && !(gr->epilogue & (EPI_BIAS | EPI_CASTS)) && c.g->fusion->groups.n == 2);
    arena_free(c.a);
}

// dz = dh gelu'(z): folded into the matmul that makes dh, when z is a value that is stored.
static void test_gradient(bool other_reader)
{
    Ctx c = begin();
    Graph *g = c.g;
    Node *low = layer(g, "x", "w", "b", 96, DT_BF16);
    Node *y = activate(g, low, TANH);
    graph_root(g, OP_output, y, "y");
    Node *dh = graph_matmul(g, in(g, "dy", DT_BF16, ROWS, 32), in(g, "v", DT_BF16, 32, 96));
    Node *z = graph_cast(g, low, DT_F32), *t = tanh_part(g, z), *d = graph_cast(g, dh, DT_F32);
    Node *slope = bin(g, OP_add, bin(g, OP_mul, graph_binary(g, OP_mul, z, z), 3 * 0.044715), 1);
    Node *rest = graph_binary(g, OP_sub, graph_full_like(g, t, 1), graph_binary(g, OP_mul, t, t));
    slope = graph_binary(g, OP_mul, graph_binary(g, OP_mul, z, rest), slope);
    slope =
        graph_binary(g, OP_add, bin(g, OP_mul, slope, 0.7978845608028654), bin(g, OP_add, t, 1));
    Node *dz = bin(g, OP_mul, graph_binary(g, OP_mul, d, slope), 0.5);
    graph_root(g, OP_output, graph_cast(g, dz, DT_BF16), "dz");
    if (other_reader) graph_root(g, OP_output, dh, "dh");
    run_passes(&c, target_cuda(90, true));
    const Group *first = dot_group(c.g, 0), *second = dot_group(c.g, 1);
    CHECK(first && second);
    if (!(first->epilogue & EPI_BIAS)) {
        const Group *swap = first;
        first = second;
        second = swap;
    }
    CHECK(first->epilogue & EPI_GELU_AUX);
    CHECK_MSG(second->epilogue == (other_reader ? 0u : EPI_DGELU), "%u", second->epilogue);
    CHECK(other_reader || second->aux == first->aux);
    CHECK(c.g->fusion->groups.n == (other_reader ? 3u : 2u));
    arena_free(c.a);
}

// y = round(max(round(x w + b) + r, 0)), where [r] is an input, is computed by another product, or
// has one row; the sum is read by another product, and possibly by a reduction or as it was before,
// or (sliced) only by an elementwise kernel.
static void test_residual(void)
{
    enum { INPUT, PRODUCT, ROW };
    static const struct {
        int other;
        bool relu, reduced, wide, again, sliced;
        unsigned bits;
    } cases[] = {
        {INPUT, false, false, false, false, false, EPI_BIAS | EPI_CASTS | EPI_RESIDUAL},
        {INPUT, true, false, false, false, false, EPI_BIAS | EPI_CASTS | EPI_RESIDUAL | EPI_RELU},
        {PRODUCT, true, false, false, false, false, EPI_BIAS | EPI_CASTS | EPI_RESIDUAL | EPI_RELU},
        {ROW, false, false, false, false, false, EPI_BIAS | EPI_CASTS},
        {INPUT, true, true, false, false, false,
         EPI_BIAS | EPI_CASTS}, // the reduction's kernel adds
        {INPUT, false, false, true, false, false,
         EPI_BIAS | EPI_CASTS}, // the library adds its own type
        {INPUT, false, false, false, true, false,
         EPI_BIAS | EPI_CASTS}, // the product itself is stored
        {INPUT, true, false, false, false, true, EPI_BIAS | EPI_CASTS}, // no kernel would be saved
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Ctx c = begin();
        Graph *g = c.g;
        const DType t = cases[i].wide ? DT_F32 : DT_BF16;
        const Type full = type_make(DT_F32, 2, (int64_t[]){ROWS, 96});
        Node *h = layer(g, "x", "w", "b", 96, DT_BF16), *r;
        if (cases[i].other == PRODUCT)
            r = layer(g, "x2", "w2", "b2", 96, DT_BF16);
        else
            r = in(g, "r", t, cases[i].other == ROW ? 96 : ROWS, cases[i].other == ROW ? 0 : 96);
        if (t != DT_F32) r = graph_cast(g, r, DT_F32);
        Node *y =
            graph_binary(g, OP_add, graph_cast(g, h, DT_F32), graph_broadcast_to(g, r, &full));
        if (cases[i].relu) y = graph_binary(g, OP_maximum, y, graph_full_like(g, y, 0));
        y = graph_cast(g, y, DT_BF16);
        Node *part = graph_slice(g, y, (int64_t[]){0, 0}, (int64_t[]){ROWS, 32}, (int64_t[]){1, 1});
        Node *z = cases[i].sliced ? graph_unary(g, OP_neg, part)
                                  : graph_matmul(g, y, in(g, "v", DT_BF16, 96, 32));
        graph_root(g, OP_output, z, "z");
        if (cases[i].reduced)
            graph_root(g, OP_output, graph_reduce(g, OP_sum, y, (int64_t[]){1}, 1, false), "sum");
        if (cases[i].again) graph_root(g, OP_output, h, "h");
        run_passes(&c, target_cuda(90, true));
        const Group *gr = NULL;
        for (uint32_t k = 0; k < c.g->fusion->groups.n && !(gr && gr->residual); k++)
            if (c.g->fusion->groups.at[k].bias) gr = &c.g->fusion->groups.at[k];
        CHECK_MSG(gr && gr->epilogue == cases[i].bits, "case %zu: epilogue %u", i,
                  gr ? gr->epilogue : 0);
        CHECK(gr && (gr->residual != NULL) == ((cases[i].bits & EPI_RESIDUAL) != 0));
        arena_free(c.a);
    }
}

int main(void)
{
    test_residual();
    test_activations();
    test_wide_bias();
    test_gradient(false);
    test_gradient(true);
    return unit_done();
}
