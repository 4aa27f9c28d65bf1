// Cases of codegen_lower.c: several stages over rows of every length.
#ifndef TESTS_UNIT_LOWER_ROWS_H
#define TESTS_UNIT_LOWER_ROWS_H

// Rows larger than the second-level cache, which here is tiny: what is read stays in it longest, in
// registers, in shared memory and in clusters; not rows that begin between lines of memory.
static void rows_beyond_cache(Suite *s)
{
    static const int64_t widths[] = {576, 520, 522, 20480, 80000};
    int64_t cache = s->cuda.l2_bytes, last[1] = {1};
    size_t before = s->cu.len;
    s->cuda.l2_bytes = 1024;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        Graph *g = begin(s);
        Node *x = IN(g, "x", DT_BF16, 5, widths[i]), *v = graph_cast(g, x, DT_F32);
        Node *sum = graph_reduce(g, OP_sum, v, last, 1, true);
        out(g, graph_cast(g, graph_binary(g, OP_sub, v, sum), DT_BF16), "y");
        add(s, arena_printf(s->a, "beyond cache %lld", (long long)widths[i]), g, GROUP_ROW, 0, NULL,
            NULL, 2e-2);
    }
    s->cuda.l2_bytes = cache;
    int kept = 0;
    for (const char *p = s->cu.data + before; (p = strstr(p, "= nc_keep<")); p++) kept++;
    if (!s->only) CHECK_MSG(kept == 3, "%d kernels keep what they read in the cache", kept);
}

static void rows(Suite *s)
{
    static const int64_t sizes[][2] = {{1, 1},     {5, 10},    {128, 10}, {7, 33},
                                       {64, 128},  {3, 5000},  {4, 784},  {300, 2},
                                       {2, 40000}, {2, 60000}, {3, 60001}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t m = sizes[i][0], n = sizes[i][1], last[1] = {1};
        const char *tag = arena_printf(s->a, "%lldx%lld", (long long)m, (long long)n);
        Graph *g = begin(s);
        out(g, softmax(g, IN(g, "x", DT_F32, m, n)), "y");
        add(s, arena_printf(s->a, "softmax %s", tag), g, GROUP_ROW, 0, NULL, NULL, 1e-5);

        g = begin(s);
        Node *x = IN(g, "x", DT_F32, m, n);
        Node *inv = graph_const(g, DT_F32, 1.0 / (double)n);
        Node *mean = graph_binary(g, OP_mul, graph_reduce(g, OP_sum, x, last, 1, true), inv);
        Node *d = graph_binary(g, OP_sub, x, mean);
        Node *var = graph_binary(
            g, OP_mul, graph_reduce(g, OP_sum, graph_binary(g, OP_mul, d, d), last, 1, true), inv);
        Node *y = graph_binary(
            g, OP_mul, d,
            graph_unary(g, OP_rsqrt, graph_binary(g, OP_add, var, graph_const(g, DT_F32, 1e-5))));
        out(g,
            graph_binary(g, OP_add, graph_binary(g, OP_mul, y, IN(g, "w", DT_F32, n)),
                         IN(g, "bias", DT_F32, n)),
            "y");
        out(g, graph_reshape(g, mean, 1, &m), "mean");
        add(s, arena_printf(s->a, "layer norm %s", tag), g, GROUP_ROW, 0, NULL, NULL, 2e-4);

        // cross entropy with its gradient, labels picked by comparison
        g = begin(s);
        x = IN(g, "x", DT_F32, m, n);
        Node *label = in(g, "label", DT_I32, 1, &m);
        Attrs io = {0};
        attr_set_ints(g, &io, ATTR_shape, (int64_t[]){m, n}, 2);
        attr_set_int(&io, ATTR_dtype, DT_I32);
        attr_set_int(&io, ATTR_axis, 1);
        Node *classes = graph_node(g, OP_iota, NULL, 0, &io);
        Node *lab = graph_reshape(g, label, 2, (int64_t[]){m, 1});
        Node *hot = graph_cast(g, graph_binary(g, OP_eq, classes, lab), DT_F32);
        Node *top = graph_reduce(g, OP_max, x, last, 1, true);
        Node *shift = graph_binary(g, OP_sub, x, top), *e = graph_unary(g, OP_exp, shift);
        Node *sum = graph_reduce(g, OP_sum, e, last, 1, true);
        Node *logp = graph_binary(g, OP_sub, shift, graph_unary(g, OP_log, sum));
        out(g,
            graph_unary(
                g, OP_neg,
                graph_reduce(g, OP_sum, graph_binary(g, OP_mul, hot, logp), last, 1, false)),
            "loss");
        out(g, graph_binary(g, OP_sub, graph_binary(g, OP_div, e, sum), hot), "dx");
        Attrs ax = {0};
        attr_set_ints(g, &ax, ATTR_axes, last, 1);
        out(g, graph_node(g, OP_argmax, &x, 1, &ax), "best");
        add(s, arena_printf(s->a, "cross entropy %s", tag), g, GROUP_ROW, 0, NULL, NULL, 2e-5);
    }
    // 16-bit rows in registers, in shared memory, too long for it; aligned and not; masked rows
    static const int64_t lengths[] = {3, 64, 768, 1000, 1001, 4096, 12289, 50304, 50257, 120008};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths * 2; i++) {
        int64_t n = lengths[i / 2], m = n > 10000 ? 3 : 133, last[1] = {1};
        DType t = i % 2 ? DT_F16 : DT_BF16;
        Graph *g = begin(s);
        Node *x = graph_cast(g, IN(g, n % 2 ? "x" : "masked x", t, m, n), DT_F32);
        Node *y = softmax(g, x), *top = graph_reduce(g, OP_max, x, last, 1, true);
        Node *e = graph_unary(g, OP_exp, graph_binary(g, OP_sub, x, top));
        Node *total = graph_reduce(g, OP_sum, e, last, 1, true);
        out(g, graph_cast(g, y, t), "y");
        out(g, graph_binary(g, OP_add, graph_unary(g, OP_log, total), top), "log of sum");
        s->tiny = 0x1p-14;
        add(s,
            arena_printf(s->a, "softmax %s %lldx%lld", dtype_info[t].name, (long long)m,
                         (long long)n),
            g, GROUP_ROW, 0, NULL, NULL, t == DT_F16 ? 0x1.2p-11 : 0x1.04p-8);
        s->tiny = 0;
    }
    // Rows of any start that share one or two rows, of f32 or not: what of it is moved into place,
    // vector by vector, ends where the array ends.
    static const int64_t widths[] = {1000, 1001, 5121, 12289, 50257};
    for (int i = 0; i < 15; i++) {
        int64_t n = widths[i / 3], m = 11, last[1] = {1};
        Graph *g = begin(s);
        Node *x = graph_cast(g, IN(g, "x", DT_BF16, m, n), DT_F32);
        Node *squares = graph_reduce(g, OP_sum, graph_binary(g, OP_mul, x, x), last, 1, true);
        Node *w = graph_cast(g, IN(g, "w", i % 3 == 2 ? DT_BF16 : DT_F32, n), DT_F32);
        Node *y = graph_binary(g, OP_mul,
                               graph_binary(g, OP_mul, x, graph_unary(g, OP_rsqrt, squares)), w);
        if (i % 3) y = graph_binary(g, OP_add, y, IN(g, "b", DT_F32, n));
        out(g, graph_cast(g, y, DT_BF16), "y");
        add(s,
            arena_printf(s->a, "norm of any start %lldx%lld %d", (long long)m, (long long)n, i % 3),
            g, GROUP_ROW, 0, NULL, NULL, 0x1.04p-8);
    }
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->cases[i].name, "softmax", 7)) check_limits(s, &s->cases[i]);
    for (int k = 0; k < 3; k++) { // sums that pick one element, or none: labels are 0..6
        int64_t m = 30, n = k == 1 ? 5 : 64, last[1] = {1};
        Graph *g = begin(s);
        Node *x = IN(g, "x", DT_F32, m, n), *key = IN(g, "key", DT_I32, m, 1);
        Attrs io = {0};
        attr_set_ints(g, &io, ATTR_shape, (int64_t[]){m, n}, 2);
        attr_set_int(&io, ATTR_dtype, DT_I32);
        attr_set_int(&io, ATTR_axis, 1);
        Node *hit = graph_binary(g, OP_eq, graph_node(g, OP_iota, NULL, 0, &io), key);
        if (k == 2)
            key = graph_const(g, DT_I32, 3), hit = graph_binary(g, OP_eq, key, hit->args[0]);
        Node *top = graph_reduce(g, OP_max, x, last, 1, true);
        Node *zero = graph_broadcast_to(g, graph_const(g, DT_F32, 0), &x->type);
        Node *pick[3] = {hit, graph_binary(g, OP_sub, x, top), zero};
        Node *v = graph_node(g, OP_select, pick, 3, NULL);
        out(g, graph_reduce(g, OP_sum, v, last, 1, false), "picked");
        add(s, arena_printf(s->a, "picked %d", k), g, GROUP_ROW, 0, NULL, NULL, 1e-6);
    }
    static const DType types[] = {DT_BOOL, DT_U8,  DT_I32, DT_U32, DT_I64,
                                  DT_BF16, DT_F16, DT_F32, DT_F64};
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 2; k++) {
            int64_t ax[1] = {k ? 0 : 1};
            Graph *g = begin(s);
            Node *x = IN(g, "x", types[i], 19, 70);
            out(g, graph_reduce(g, OP_sum, x, ax, 1, false), "sum");
            if (types[i] != DT_BOOL) {
                out(g, graph_reduce(g, OP_max, x, ax, 1, false), "max");
                out(g, graph_reduce(g, OP_min, x, ax, 1, false), "min");
                Attrs a = {0};
                attr_set_ints(g, &a, ATTR_axes, ax, 1);
                out(g, graph_node(g, OP_argmax, &x, 1, &a), "argmax");
            }
            add(s, arena_printf(s->a, "reduce %s %d", dtype_info[types[i]].name, k), g,
                k ? GROUP_COLUMN : GROUP_ROW, 0, NULL, NULL, 1e-2);
        }
    rows_beyond_cache(s);
}

#endif
