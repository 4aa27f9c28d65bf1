// Rows in order: long enough to be sorted by their bytes on the CPU, and short; every type of keys
// with NaN, infinities, both zeros and many ties; both directions; along every axis; all of them,
// or the first few.
static void ordered(Suite *s)
{
    static const DType types[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I32,
                                  DT_I64, DT_U32, DT_U8,  DT_BOOL};
    static const int64_t lengths[] = {1, 63, 64, 65, 300, 1021};
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
}
