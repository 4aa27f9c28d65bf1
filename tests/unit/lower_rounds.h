// Reductions whose columns are several axes, or repeat an operand: what is read lies in rounds of
// the columns. Whole rounds and parts of them, long and short ones, chunks and parts of rows.
static void rounds(Suite *s)
{
    static const Op ops[] = {OP_sum, OP_max, OP_min, OP_argmax};
    uint64_t state = 5;
    for (int k = 0; k < 72; k++) {
        static const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 16, 33, 67};
        Graph *g = begin(s);
        int64_t dim[4], some[4], axes[4];
        int naxes = 0;
        for (int i = 0; i < 4; i++) {
            dim[i] = sizes[rng(&state) % 9];
            some[i] = rng(&state) % 2 ? dim[i] : 1;
            if (rng(&state) % 2) axes[naxes++] = i;
        }
        if (k % 8 == 7) { // a whole tensor, in parts
            dim[3] = 64 * 1024 / (dim[1] * dim[2]) + 5;
            for (int i = 0; i < 4; i++) axes[i] = i;
            some[3] = 1;
            naxes = 4;
        }
        if (naxes == 0) axes[naxes++] = 1;
        Op op = ops[k % 4];
        DType t = k % 5 == 4 ? DT_I32 : DT_F32;
        Node *x = in(g, "x", t, 4, dim), *b = in(g, "b", t, 4, some);
        Node *v = graph_binary(g, OP_add, x, graph_broadcast_to(g, b, &x->type));
        if (op == OP_argmax) naxes = 1;
        out(g, graph_reduce(g, op, v, axes, naxes, false), "y");
        if (op != OP_argmax) out(g, graph_reduce(g, OP_max, x, axes, naxes, false), "z");
        add(s, arena_printf(s->a, "rounds %d", k), g, GROUP_ROW, 0, NULL, NULL, 1e-4);
    }
}

// The largest and least of rows of any length, in every type, alone and beside sums, which may be
// in chunks.
static void extremes(Suite *s)
{
    static const DType types[] = {DT_F32, DT_F64, DT_BF16, DT_F16};
    uint64_t state = 8;
    for (int k = 0; k < 64; k++) {
        int64_t m = 1 + rng(&state) % 5, n = 1 + rng(&state) % 150, last[] = {1}, both[] = {0, 1};
        if (k % 4 == 1) n = 16 * (1 + rng(&state) % 40) + rng(&state) % 3 - 1;
        if (k % 4 == 2) n = 4000 + rng(&state) % 9000;
        if (k % 16 == 3) n = 70000 + rng(&state) % 999; // in parts
        bool all = rng(&state) % 4 == 0;
        Graph *g = begin(s);
        Node *x = IN(g, rng(&state) % 2 ? "masked x" : "x", types[rng(&state) % 4], m, n);
        Op op = rng(&state) % 2 ? OP_max : OP_min;
        Node *v = op == OP_max ? x : graph_unary(g, OP_neg, x);
        out(g, graph_reduce(g, op, v, all ? both : last, all ? 2 : 1, false), "y");
        if (k % 3 == 0) {
            Node *wide = graph_cast(g, IN(g, "z", DT_F32, m, n), DT_F32);
            out(g, graph_reduce(g, OP_sum, wide, all ? both : last, all ? 2 : 1, false), "sum");
            out(g, graph_reduce(g, OP_min, wide, all ? both : last, all ? 2 : 1, false), "min");
        }
        add(s, arena_printf(s->a, "extremes %d", k), g, GROUP_ROW, 0, NULL, NULL, 1e-4);
    }
}

// A matrix by a vector, from either side, as it lies or turned, in batches.
static void vectors(Suite *s)
{
    static const DType types[] = {DT_F32, DT_F64, DT_BF16, DT_F16, DT_I32};
    uint64_t state = 9;
    for (int k = 0; k < 48; k++) {
        int64_t batch = 1 + rng(&state) % 3, side = 1 + rng(&state) % 90, d = 1 + rng(&state) % 300;
        if (k % 8 == 5) side = 1000 + rng(&state) % 999, d = 64 + rng(&state) % 64;
        if (k % 8 == 6) d = 5000 + rng(&state) % 9999;
        int64_t m = k % 2 ? 1 : side, n = k % 2 ? side : 1;
        DType t = types[rng(&state) % 5];
        Graph *g = begin(s);
        Node *a = rng(&state) % 2
                      ? graph_permute(g, IN(g, "a", t, batch, d, m), (int64_t[]){0, 2, 1})
                      : IN(g, "a", t, batch, m, d);
        Node *b = rng(&state) % 2
                      ? graph_permute(g, IN(g, "b", t, batch, n, d), (int64_t[]){0, 2, 1})
                      : IN(g, "b", t, batch, d, n);
        Node *c = graph_matmul(g, a, b);
        if (rng(&state) % 2)
            c = graph_binary(g, OP_maximum, graph_binary(g, OP_add, c, IN(g, "bias", t, n)),
                             graph_full_like(g, c, 0));
        out(g, c, "y");
        add(s, arena_printf(s->a, "vectors %d", k), g, GROUP_DOT, 0, NULL, NULL, 1e-2);
    }
}
