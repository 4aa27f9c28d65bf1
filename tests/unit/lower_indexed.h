// Cases of codegen_lower.c: reads and updates by index, sorts and running sums.

static void indexed(Suite *s)
{
    Graph *g = begin(s);
    Node *table = IN(g, "table", DT_F32, 7, 12), *ids = IN(g, "ids", DT_I32, 4, 9);
    Attrs a = {0};
    attr_set_int(&a, ATTR_axis, 0);
    Node *e = graph_node(g, OP_gather, (Node *[]){table, ids}, 2, &a);
    out(g, graph_binary(g, OP_add, e, e), "y");
    add(s, "gather", g, GROUP_MAP, 0, NULL, NULL, 1e-6);

    g = begin(s);
    table = IN(g, "table", DT_F32, 5, 12);
    ids = IN(g, "ids", DT_I32, 64);
    out(g, graph_node(g, OP_gather, (Node *[]){table, ids}, 2, &a), "y");
    add(s, "gather out of range", g, GROUP_MAP, 0, NULL, NULL, 1e9);
    if (s->n && !strcmp(s->cases[s->n - 1].name, "gather out of range"))
        s->cases[s->n - 1].checks_expected = 1;

    for (Op op = OP_scatter; op <= OP_scatter_min; op++) {
        g = begin(s);
        Node *data = IN(g, "data", DT_F32, 7, 12), *up = IN(g, "up", DT_F32, 40, 12),
             *put[] = {data, IN(g, "ids", DT_I32, 40), up};
        out(g, graph_node(g, op, put, 3, &a), "y");
        add(s, op_info(op)->name, g, GROUP_SCATTER, 0, NULL, NULL, 1e-5);
    }
    g = begin(s); // many updates of few places: shared out among threads
    ids = IN(g, "ids", DT_I32, 3000);
    Node *shared[] = {IN(g, "data", DT_F32, 7, 20), ids, IN(g, "small", DT_F32, 3000, 20)};
    out(g, graph_node(g, OP_scatter_add, shared, 3, &a), "y");
    add(s, "scatter_add shared out", g, GROUP_SCATTER, 0, NULL, NULL, 1e-4);
    for (int k = 0; k < 8; k++) {
        g = begin(s);
        Attrs so = {0};
        attr_set_int(&so, ATTR_axis, k & 1);
        if (k & 2) attr_set_int(&so, k & 4 ? ATTR_exclusive : ATTR_descending, 1);
        Node *x = IN(g, "x", DT_F32, 23, 31);
        if (k < 4) {
            out(g, graph_node(g, OP_argsort, &x, 1, &so), "y");
        } else {
            if (k & 1) attr_set_int(&so, ATTR_reverse, 1);
            out(g, graph_node(g, OP_cumsum, &x, 1, &so), "y");
        }
        add(s, arena_printf(s->a, "%s %d", k < 4 ? "argsort" : "cumsum", k), g, GROUP_SCAN, 0, NULL,
            NULL, 1e-5);
    }
    g = begin(s);
    Node *x = IN(g, "x", DT_F32, 9, 11), *u = IN(g, "u", DT_F32, 4, 5);
    Type st = type_scalar(DT_I64);
    Node *s0 = graph_input(g, "s0", &st, "arg"), *s1 = graph_input(g, "s1", &st, "arg");
    Attrs ds = {0}, none = {0};
    attr_set_ints(g, &ds, ATTR_sizes, (int64_t[]){3, 4}, 2);
    out(g, graph_node(g, OP_dynamic_slice, (Node *[]){x, s0, s1}, 3, &ds), "slice");
    out(g, graph_node(g, OP_dynamic_update, (Node *[]){x, u, s0, s1}, 4, &none), "update");
    add(s, "dynamic", g, GROUP_MAP, 0, NULL, NULL, 1e-6);
}
