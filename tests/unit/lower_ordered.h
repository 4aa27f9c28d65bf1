// A loop that runs as one kernel on a GPU, forwards and backwards.
static void recurrence(Suite *s, bool reverse)
{
    Graph *g = begin(s), *body = begin(s);
    const int64_t n = 300;
    Type t[] = {type_scalar(DT_I64), type_make(DT_F32, 1, &n), type_make(DT_F32, 1, &n)};
    Node *p[3], *x[] = {IN(g, "h", DT_F32, 300), IN(g, "x", DT_F32, 7, 300)};
    for (int i = 0; i < 3; i++) p[i] = graph_region_param(body, &t[i]);
    vec_push(s->a, &body->results,
             graph_binary(body, OP_add, graph_unary(body, OP_tanh, p[1]), p[2]));
    body->fusion = NEW(s->a, Fusion); // nothing is stored in it
    body->fusion->group_of = NEW_ARRAY(s->a, uint32_t, body->nodes.n + 1);
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 7);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 1);
    if (reverse) attr_set_int(&at, ATTR_reverse, 1);
    attr_set_int(&at, ATTR_one_kernel, 1);
    out(g, graph_region_node(g, OP_loop, x, 2, &at, &body, 1), "y");
    const bool was = s->cuda_only;
    s->cuda_only = true;
    add(s, reverse ? "recurrence, reversed" : "recurrence", g, GROUP_CALL, 0, NULL, NULL, 1e-5);
    s->cuda_only = was;
}

// Rows in order: long enough to be sorted by their bytes on the CPU, and short; every type of keys
// with NaN, infinities, both zeros and many ties; both directions; along every axis; all of them,
// or the first few.
static void ordered(Suite *s)
{
    static const DType types[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I32,
                                  DT_I64, DT_U32, DT_U8,  DT_BOOL};
    static const int64_t lengths[] = {1, 63, 64, 65, 300, 1021};
    recurrence(s, false);
    recurrence(s, true);
    for (int k = 0; k < 9 * 6 * 2; k++) {
        Graph *g = begin(s);
        Attrs so = {0};
        int64_t n = lengths[k / 9 % 6], axis = k % 3, few = 1 + k * 7 % 128;
        int64_t dim[3] = {2, 3, 1 + k % 2};
        dim[axis] = n;
        attr_set_int(&so, ATTR_axis, axis);
        if (k / 3 & 1) attr_set_int(&so, ATTR_descending, 1);
        if (k >= 9 * 6) attr_set_int(&so, ATTR_first, few < n ? few : n);
        Node *x = in(g, "wide", types[k % 9], 3, dim);
        Node *y = graph_node(g, k % 5 < 3 ? OP_argsort : OP_sort, &x, 1, &so);
        out(g, y, "y");
        add(s, arena_printf(s->a, "ordered %d of %d", k, (int)n), g, GROUP_SCAN, 0, NULL, NULL, 0);
    }
    for (int k = 0; k < 3; k++) { // by digits
        static const DType keys[] = {DT_F32, DT_BF16, DT_U8};
        Graph *g = begin(s);
        Attrs so = {0};
        attr_set_int(&so, ATTR_axis, k == 0);
        if (k == 1) attr_set_int(&so, ATTR_descending, 1);
        Node *x = in(g, "wide", keys[k], 2, k ? (int64_t[]){4099, 2} : (int64_t[]){2, 4099});
        out(g, graph_node(g, k == 1 ? OP_sort : OP_argsort, &x, 1, &so), "y");
        add(s, arena_printf(s->a, "digits %d", k), g, GROUP_SCAN, 0, NULL, NULL, 0);
    }
}
