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
