// Ranges of integers: what an op gives of operands within their ranges, as the device computes it,
// stays in the range, and where that is called exact nothing ran over the type. The elements of
// nodes of random graphs are in their ranges.
#include "tests/unit/ir_common.h"

#include "ir/range.h"
#include "ir/scalar.h"

static uint64_t state = 77;

static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 20;
}

// Small ones most of the time, else up to the ends of the type.
static int64_t number_in(Range all)
{
    int64_t v =
        next() % 4 ? (int64_t)(next() % 41) - 12 : scalar_wrap(DT_I64, (int64_t)(next() << 22));
    if (next() % 9 == 0) v = next() % 2 ? all.low : all.high;
    return v < all.low ? all.low : v > all.high ? all.high : v;
}

static int64_t pick(Range r)
{
    if (next() % 3 == 0) return next() % 2 ? r.low : r.high;
    uint64_t count = (uint64_t)r.high - (uint64_t)r.low + 1;
    return count ? (int64_t)((uint64_t)r.low + (next() * 1048583 + next()) % count)
                 : (int64_t)next();
}

static void ops(void)
{
    static const Op op[] = {OP_add,     OP_sub,     OP_mul,    OP_neg,     OP_abs,
                            OP_minimum, OP_maximum, OP_select, OP_mod,     OP_mulhi,
                            OP_shr,     OP_bit_and, OP_bit_or, OP_floordiv};
    static const DType type[] = {DT_U8, DT_I32, DT_U32, DT_I64};
    int exact_ones = 0;
    for (int trial = 0; trial < 60000; trial++) {
        Op o = op[next() % (sizeof op / sizeof *op)];
        DType t = o == OP_mulhi ? DT_U32 : type[next() % 4];
        Range r[3], all = range_of_type(t);
        int64_t v[3];
        for (int k = 0; k < 3; k++) {
            Range within = o == OP_select && k == 0 ? range_of_type(DT_BOOL) : all;
            int64_t a = number_in(within), b = number_in(within);
            r[k] = (Range){a < b ? a : b, a < b ? b : a};
            v[k] = pick(r[k]);
        }
        bool exact;
        Range of = range_of_op(o, t, r, &exact);
        Scalar s = scalar_apply(o, t, t, (Scalar){.i = v[0]}, (Scalar){.i = v[1]},
                                (Scalar){.i = v[2]}, true);
        int64_t have = scalar_wrap(t, s.i);
        CHECK(have >= of.low && have <= of.high);
        CHECK(range_within(of, all));
        exact_ones += exact;
        int64_t sum;
        if (exact && o == OP_add) CHECK(!__builtin_add_overflow(v[0], v[1], &sum) && sum == have);
        if (exact && o == OP_mul) CHECK(!__builtin_mul_overflow(v[0], v[1], &sum) && sum == have);
    }
    CHECK(exact_ones > 20000);
}

// -- nodes ----------------------------------------------------------------------------------------

// A list of constants, an input with declared bounds, or indices.
static Node *leaf(Graph *g, EvalEnv *env)
{
    const int rows = 1 + (int)(next() % 5), cols = 1 + (int)(next() % 6), count = rows * cols;
    Type t = shape(DT_I32, 2, rows, cols);
    int64_t list[32], low = (int64_t)(next() % 30) - 10, high = low + 1 + (int64_t)(next() % 40);
    for (int i = 0; i < count; i++) list[i] = low + (int64_t)(next() % (uint64_t)(high - low));
    Attrs at = {0};
    if (next() % 3 == 0) return graph_iota(g, t.dtype, t.dim, t.rank, (int64_t)(next() % 2));
    if (next() % 2) {
        attr_set_ints(g, &at, ATTR_shape, t.dim, t.rank);
        attr_set_int(&at, ATTR_dtype, t.dtype);
        attr_set_ints(g, &at, ATTR_values, list, count);
        return graph_node(g, OP_const, NULL, 0, &at);
    }
    double data[32];
    for (int i = 0; i < count; i++) data[i] = (double)list[i];
    give(env, "x", t, data);
    attr_set_str(g, &at, ATTR_name, "x");
    attr_set_ints(g, &at, ATTR_shape, t.dim, t.rank);
    attr_set_int(&at, ATTR_dtype, t.dtype);
    attr_set_str(g, &at, ATTR_kind, "arg");
    attr_set_int(&at, ATTR_low_bound, low);
    attr_set_int(&at, ATTR_high_bound, high);
    return graph_node(g, OP_input, NULL, 0, &at);
}

// The first [n] places along an axis, in some order.
static Node *indices(Graph *g, int64_t n)
{
    Node *at = graph_iota(g, DT_I32, &n, 1, 0);
    Attrs axis = {0};
    attr_set_int(&axis, ATTR_axis, 0);
    return next() % 2 ? at : graph_node(g, OP_argsort, &at, 1, &axis);
}

// Another tensor of two axes, made of x, most often without a look at its elements' values.
static Node *step(Graph *g, Node *x)
{
    const int64_t *dim = x->type.dim, a = (int64_t)(next() % 2), start[2] = {0, 0};
    int64_t limit[2] = {dim[0], dim[1]}, one[2] = {1, 1}, few[2] = {dim[0], dim[1]};
    Node *zero = graph_const_int(g, DT_I32, 0), *half;
    Attrs at = {0};
    limit[a] = few[a] = (dim[a] + 1) / 2;
    half = graph_slice(g, x, start, limit, one);
    switch (next() % 15) {
    case 0: return half;
    case 1: return graph_permute(g, x, (int64_t[]){1, 0});
    case 2: return graph_reduce(g, next() % 2 ? OP_max : OP_min, x, &a, 1, true);
    case 3: return graph_reduce(g, OP_argmax, x, &a, 1, true);
    case 4: attr_set_ints(g, &at, ATTR_axes, &a, 1); return graph_node(g, OP_reverse, &x, 1, &at);
    case 5:
        attr_set_ints(g, &at, ATTR_low, (int64_t[]){1, 0}, 2);
        attr_set_ints(g, &at, ATTR_high, (int64_t[]){0, 1}, 2);
        return graph_node(g, OP_pad, (Node *[]){x, graph_const_int(g, DT_I32, 70)}, 2, &at);
    case 6: return graph_binary(g, OP_sub, x, graph_const_int(g, DT_I32, (int64_t)(next() % 9)));
    case 7: return graph_binary(g, OP_minimum, x, graph_const_int(g, DT_I32, 20));
    case 8: return graph_cast(g, graph_cast(g, x, DT_I64), DT_I32);
    case 9: return graph_along(g, OP_concat, (Node *[]){x, half}, 2, a);
    case 10: return graph_along(g, next() % 2 ? OP_sort : OP_argsort, &x, 1, a);
    case 11: return graph_along(g, OP_gather, (Node *[]){x, indices(g, few[a])}, 2, a);
    case 12:
        return graph_along(g, next() % 2 ? OP_scatter : OP_scatter_max,
                           (Node *[]){x, indices(g, few[a]), graph_binary(g, OP_add, half, half)},
                           3, a);
    case 13:
        attr_set_ints(g, &at, ATTR_sizes, few, 2);
        return graph_node(g, OP_dynamic_slice, (Node *[]){x, zero, zero}, 3, &at);
    default: {
        Node *args[] = {x, graph_binary(g, OP_mul, half, half), zero, zero};
        return graph_node(g, OP_dynamic_update, args, 4, &at);
    }
    }
}

static void nodes(void)
{
    int known = 0;
    for (int trial = 0; trial < 4000; trial++) {
        Graph *g = fresh();
        EvalEnv env = environment();
        Node *x = leaf(g, &env);
        for (int i = 0; i < 6 && type_count(&x->type) < 200; i++) x = step(g, x);
        EvalResult r;
        Value **all = NEW_ARRAY(arena, Value *, g->nodes.n);
        CHECK(!node_is_poison(x) && eval_graph_all(g, &env, &r, all));
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            const Node *n = g->nodes.at[i];
            if (!dtype_is_int(n->type.dtype)) continue;
            const Range of = range_of_node(n);
            known += of.high < 1000 && of.low > -1000;
            bool within = true;
            for (int64_t k = 0; k < type_count(&n->type) && within; k++)
                within = all[i]->i[k] >= of.low && all[i]->i[k] <= of.high;
            CHECK(within);
            if (!within) printf("an element of %s is outside its range\n", op_info(n->op)->name);
        }
    }
    CHECK(known > 20000);
}

int main(void)
{
    arena = arena_new();
    ops();
    nodes();
    arena_free(arena);
    return unit_done();
}
