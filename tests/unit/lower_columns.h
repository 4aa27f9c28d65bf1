// Cases of codegen_lower.c: reductions over columns.
#ifndef TESTS_UNIT_LOWER_COLUMNS_H
#define TESTS_UNIT_LOWER_COLUMNS_H

static void columns(Suite *s)
{
    static const int64_t sizes[][2] = {{1, 1},    {128, 10},  {128, 784},   {5000, 33},
                                       {2, 3000}, {60000, 8}, {1000, 1000}, {0, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t m = sizes[i][0], n = sizes[i][1], first[1] = {0}, both[2] = {0, 1};
        const char *tag = arena_printf(s->a, "%lldx%lld", (long long)m, (long long)n);
        Graph *g = begin(s);
        Node *x = IN(g, "x", DT_F32, m, n), *y = IN(g, "y", DT_F32, m, n);
        out(g, graph_reduce(g, OP_sum, graph_binary(g, OP_mul, x, y), first, 1, false), "sum");
        out(g, graph_reduce(g, OP_max, x, first, 1, false), "max");
        add(s, arena_printf(s->a, "columns %s", tag), g, GROUP_COLUMN, 0, NULL, NULL, 1e-4);

        g = begin(s);
        x = IN(g, "x", DT_F32, m, n);
        out(g,
            graph_binary(g, OP_mul,
                         graph_reduce(g, OP_sum, graph_binary(g, OP_mul, x, x), both, 2, false),
                         graph_const(g, DT_F32, 0.5)),
            "sum");
        out(g, graph_reduce(g, OP_max, x, both, 2, false), "max");
        add(s, arena_printf(s->a, "full %s", tag), g, GROUP_ROW, 0, NULL, NULL, 1e-4);
        if (m == 0) continue;
        g = begin(s); // batch norm: two stages over columns, written back
        x = IN(g, "x", DT_F32, m, n);
        Node *inv = graph_const(g, DT_F32, 1.0 / (double)m);
        Node *mean = graph_binary(g, OP_mul, graph_reduce(g, OP_sum, x, first, 1, true), inv);
        Node *d = graph_binary(g, OP_sub, x, mean);
        Node *var = graph_binary(
            g, OP_mul, graph_reduce(g, OP_sum, graph_binary(g, OP_mul, d, d), first, 1, true), inv);
        out(g,
            graph_binary(g, OP_mul, d,
                         graph_unary(g, OP_rsqrt,
                                     graph_binary(g, OP_add, var, graph_const(g, DT_F32, 1e-3)))),
            "y");
        out(g, var, "var");
        add(s, arena_printf(s->a, "batch norm %s", tag), g, GROUP_COLUMN, 0, NULL, NULL, 2e-4);
    }
    static const int64_t stored[][2] = {{1, 5}, {300, 24}, {5000, 33}, {3001, 1024}};
    for (size_t i = 0; i < 4 * 3; i++) { // sums of values that the kernel stores on its way
        int64_t m = stored[i / 3][0], n = stored[i / 3][1], first[1] = {0}, flat[2] = {m, n};
        DType t = i % 3 == 0 ? DT_F32 : i % 3 == 1 ? DT_BF16 : DT_F16;
        Graph *g = begin(s);
        Node *x = graph_cast(g, IN(g, "x", t, 1, m, n), DT_F32), *w = IN(g, "w", DT_F32, n);
        Node *dy = graph_reshape(g, IN(g, "dy", DT_BF16, m, n), 3, (int64_t[]){1, m, n});
        Node *z = graph_binary(g, OP_mul, graph_unary(g, OP_tanh, x), graph_cast(g, dy, DT_F32));
        Node *v = graph_reshape(g, z, 2, flat);
        out(g, graph_cast(g, z, t), "z");
        out(g, graph_reduce(g, OP_sum, v, first, 1, false), "sum");
        out(g,
            graph_binary(g, OP_mul,
                         graph_reduce(g, OP_max, graph_binary(g, OP_mul, v, w), first, 1, false),
                         w),
            "max");
        add(s, arena_printf(s->a, "stored columns %dx%d %s", (int)m, (int)n, dtype_info[t].name), g,
            GROUP_COLUMN, 0, NULL, NULL, i % 3 ? 1e-2 : 2e-4);
    }
    static const int64_t far[][2] = {{1, 5},     {2, 64},     {33, 7},
                                     {900, 257}, {70000, 16}, {30000, 72}};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) { // a large mean costs no digits
        int64_t m = far[i][0], n = far[i][1], first[1] = {0};
        for (DType t = DT_BF16; t <= DT_F64; t++) {
            if (!dtype_is_float(t) || (i == 5 && t == DT_F64)) continue;
            Graph *g = begin(s);
            Node *x = graph_cast(g, IN(g, dtype_info[t].bits > 16 ? "far" : "x", t, m, n),
                                 t == DT_F64 ? t : DT_F32);
            out(g, graph_reduce(g, OP_sqdev, x, first, 1, false), "sqdev");
            out(g, graph_reduce(g, OP_sum, x, first, 1, false), "sum");
            add(s,
                arena_printf(s->a, "sqdev %s %lldx%lld", dtype_info[t].name, (long long)m,
                             (long long)n),
                g, GROUP_COLUMN, 0, NULL, NULL, 1e-3);
        }
    }
    // Rows of memory that start anywhere: shifted vectors, whose last one may reach beyond the end.
    static const int64_t odd[][2] = {{37, 65}, {3, 515}, {300, 1001}, {70, 12289}, {9, 5121}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int64_t m = odd[i][0], n = odd[i][1], first[1] = {0};
        for (int k = 0; k < 2; k++) {
            DType t = k ? DT_BF16 : DT_F32;
            Graph *g = begin(s);
            Node *x = graph_cast(g, IN(g, "x", t, m, n), DT_F32),
                 *mean = graph_reshape(g, IN(g, "mean", DT_F32, n), 2, (int64_t[]){1, n}),
                 *scale = IN(g, "scale", DT_F32, m, 1);
            Node *d = graph_binary(g, OP_mul, graph_binary(g, OP_sub, x, mean), scale);
            out(g, graph_reduce(g, OP_sum, d, first, 1, false), "sum");
            out(g, graph_reduce(g, OP_max, d, first, 1, false), "max");
            out(g, graph_reduce(g, OP_argmax, x, first, 1, false), "place");
            add(s,
                arena_printf(s->a, "shifted columns %s %lldx%lld", dtype_info[t].name, (long long)m,
                             (long long)n),
                g, GROUP_COLUMN, 0, NULL, NULL, 1e-3);
        }
    }
    Graph *g = begin(s); // threads that keep the rows which all positions read
    Node *x = graph_binary(g, OP_mul, IN(g, "x", DT_F32, 3, 2900, 136), IN(g, "a", DT_F32, 136));
    x = graph_binary(g, OP_add, graph_binary(g, OP_mul, x, IN(g, "b", DT_F32, 3, 1, 136)),
                     IN(g, "c", DT_F32, 136));
    out(g, graph_binary(g, OP_sub, x, IN(g, "d", DT_F32, 2900, 1)), "y");
    out(g, graph_cast(g, graph_binary(g, OP_mul, x, IN(g, "e", DT_F32, 136)), DT_BF16), "z");
    add(s, "walk", g, GROUP_MAP, 0, NULL, NULL, 1e-2);
}

#endif
