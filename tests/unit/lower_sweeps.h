// Cases of codegen_lower.c: row kernels with sums over their rows.
#ifndef TESTS_UNIT_LOWER_SWEEPS_H
#define TESTS_UNIT_LOWER_SWEEPS_H

// Rows that start anywhere and share more than they read: a device so small that they are many for
// it walks over them, and moves what they share into place once.
static void walks(Suite *s)
{
    static const int64_t sizes[][2] = {{3000, 321}, {211, 4099}, {700, 3001}};
    int units = s->cuda.units;
    size_t before = s->cu.len;
    s->cuda.units = 8;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t rows = sizes[i][0], cols = sizes[i][1], last[] = {1};
        Graph *g = begin(s);
        Node *x = graph_cast(g, IN(g, "x", DT_BF16, rows, cols), DT_F32);
        Node *sum = graph_reduce(g, OP_sum, x, last, 1, true);
        Node *mean = graph_binary(g, OP_mul, sum, graph_const(g, DT_F32, 1.0 / (double)cols));
        Node *y =
            graph_binary(g, OP_mul, graph_binary(g, OP_sub, x, mean), IN(g, "w", DT_F32, cols));
        y = graph_binary(g, OP_add, y, IN(g, "b", DT_F32, cols));
        out(g, graph_cast(g, y, DT_BF16), "y");
        const char *name = arena_printf(s->a, "walk %dx%d", (int)rows, (int)cols);
        int at = s->n;
        add(s, name, g, GROUP_ROW, 0, NULL, NULL, 1e-2);
        if (s->n > at) // few warps would fit where each holds the weights in shared memory
            CHECK_MSG(strstr(s->cases[at].kernels[1][0][0].prog.schedule, "keep=registers"),
                      "%s: shared memory holds what rows share", name);
    }
    s->cuda.units = units;
    int walking = 0;
    for (const char *p = s->cu.data + before; (p = strstr(p, "int slot = 0; // of")); p++)
        walking++;
    if (!s->only) CHECK_MSG(walking == 3, "%d kernels walk over rows", walking);
}

// Rows with sums over the rows on the way: layer norm backward, and other joins than sums.
static void sweeps(Suite *s)
{
    static const int64_t m[] = {1, 7, 300, 5000},
                         n[] = {1, 5, 96, 768, 1000, 1003, 4096, 12289, 40001};
    s->twice = true;
    for (int k = 0; k < 4 * 9 * 2; k++) {
        int64_t rows = m[k / 18], cols = n[k / 2 % 9], last[] = {1}, first[] = {0};
        if (rows * cols > 8 << 20) continue;
        s->cuda_only = rows * cols > 4096; // its sums are kernels of their own there
        DType t = k % 2 ? DT_BF16 : DT_F32;
        Graph *g = begin(s);
        Node *x = graph_cast(g, IN(g, "x", t, rows, cols), DT_F32),
             *dy = IN(g, "dy", t, rows, cols);
        Node *w = IN(g, "w", DT_F32, cols), *inv = graph_const(g, DT_F32, 1.0 / (double)cols);
        dy = graph_cast(g, dy, DT_F32);
        Node *mean = graph_binary(g, OP_mul, graph_reduce(g, OP_sum, x, last, 1, true), inv);
        Node *d = graph_binary(g, OP_sub, x, mean), *dd = graph_binary(g, OP_mul, d, d);
        Node *var = graph_binary(g, OP_mul, graph_reduce(g, OP_sum, dd, last, 1, true), inv);
        var = graph_binary(g, OP_add, var, graph_const(g, DT_F32, 1e-2));
        Node *y = graph_binary(g, OP_mul, d, graph_unary(g, OP_rsqrt, var));
        Node *dw = graph_reduce(g, OP_sum, graph_binary(g, OP_mul, y, dy), first, 1, false);
        Node *c = graph_reduce(g, OP_max, graph_binary(g, OP_mul, dy, w), last, 1, true);
        out(g, graph_cast(g, graph_binary(g, OP_sub, y, c), t), "y");
        out(g, graph_reshape(g, mean, 1, &rows), "mean");
        out(g, graph_binary(g, OP_mul, dw, w), "fold_dw");
        out(g, graph_cast(g, graph_reduce(g, OP_sum, dy, first, 1, false), t), "fold_db");
        if (k % 4 < 2) out(g, graph_reduce(g, OP_min, y, first, 1, false), "fold_least");
        const char *name = arena_printf(s->a, "sweep %dx%d %d", (int)rows, (int)cols, k % 2);
        int before = s->n;
        add(s, name, g, GROUP_ROW, 0, NULL, NULL, k % 2 ? 1e-2 : 5e-4);
        if (s->n > before && rows == 300 && cols == 4096) // more rows than blocks
            CHECK_MSG(strstr(s->cases[before].kernels[1][0][0].prog.schedule, "skew=1"),
                      "%s is not skewed", name);
    }
    s->cuda_only = s->twice = false;
    walks(s);
}

#endif
