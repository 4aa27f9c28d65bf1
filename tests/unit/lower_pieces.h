// Values made of pieces: random trees of concatenations, paddings, slices, reversals, transposes,
// reshapes and elementwise operations, which maps store piece by piece.
static int pick(uint64_t *state, int n)
{
    return (int)(rng(state) % (uint64_t)n);
}

static Node *random_concat(Graph *g, Node *const *part, int n, int64_t axis)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    return graph_node(g, OP_concat, part, n, &at);
}

static Node *random_pad(Graph *g, Node *v, uint64_t *state)
{
    Attrs at = {0};
    int64_t low[MAX_RANK], high[MAX_RANK];
    for (int i = 0; i < v->type.rank; i++) {
        low[i] = pick(state, 3);
        high[i] = pick(state, 3);
    }
    attr_set_ints(g, &at, ATTR_low, low, v->type.rank);
    attr_set_ints(g, &at, ATTR_high, high, v->type.rank);
    return graph_node(g, OP_pad, (Node *[]){v, graph_const(g, DT_F32, pick(state, 3) - 1)}, 2, &at);
}

static Node *random_slice(Graph *g, Node *v, uint64_t *state)
{
    int64_t start[MAX_RANK], limit[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < v->type.rank; i++) {
        bool wide = v->type.dim[i] > 3;
        start[i] = wide ? pick(state, 2) : 0;
        limit[i] = v->type.dim[i] - (wide ? pick(state, 2) : 0);
        stride[i] = 1 + (pick(state, 5) == 0);
    }
    return graph_slice(g, v, start, limit, stride);
}

// One more operation on v.
static Node *random_step(Graph *g, Node *v, uint64_t *state)
{
    int rank = v->type.rank;
    int64_t axis = pick(state, rank), perm[MAX_RANK];
    Attrs at = {0};
    switch (pick(state, 7)) {
    case 0: return random_pad(g, v, state);
    case 1: return random_slice(g, v, state);
    case 2:
        attr_set_ints(g, &at, ATTR_axes, &axis, 1);
        return graph_node(g, OP_reverse, &v, 1, &at);
    case 3:
        for (int i = 0; i < rank; i++) perm[i] = (i + 1) % rank;
        return graph_permute(g, v, perm);
    case 4: return graph_reshape(g, v, 1, (int64_t[]){type_count(&v->type)});
    default: {
        Node *part[5] = {v};
        int n = 2 + pick(state, 4);
        for (int i = 1; i < n; i++) {
            part[i] = i % 2 ? random_slice(g, v, state) : v;
            for (int k = 0; k < rank; k++) // but along the axis they are as large as v
                if (k != axis && part[i]->type.dim[k] != v->type.dim[k]) part[i] = v;
            if (pick(state, 2)) part[i] = graph_unary(g, OP_neg, part[i]);
        }
        return random_concat(g, part, n, axis);
    }
    }
}

// Pieces of one shape, and something else of that shape (but for axes of one element), which one
// loop stores where it has room for all.
static void beside_pieces(Suite *s)
{
    uint64_t state = 78;
    for (int i = 0; i < 12; i++) {
        Graph *g = begin(s);
        Node *x = IN(g, "x", DT_F32, 3 + pick(&state, 9), 1 + pick(&state, 7),
                     40 + pick(&state, 40)),
             *shared = graph_unary(g, OP_exp, graph_unary(g, OP_neg, x)), *part[7];
        int n = 2 + pick(&state, 6), more = 1 + pick(&state, 2);
        for (int k = 0; k < n; k++)
            part[k] = graph_binary(g, k % 2 ? OP_add : OP_mul, shared,
                                   graph_full_like(g, shared, k + 0.5));
        out(g, graph_unary(g, OP_abs, random_concat(g, part, n, pick(&state, 3))), "v");
        for (int k = 0; k < more; k++) {
            const Type *t = &x->type;
            Node *b = graph_binary(g, OP_sub, k ? x : shared, x);
            if (k)
                b = graph_unary(
                    g, OP_exp,
                    graph_reshape(g, b, 5, (int64_t[]){1, t->dim[0], t->dim[1], 1, t->dim[2]}));
            out(g, b, k ? "c" : "b");
        }
        const int at = s->n;
        add(s, arena_printf(s->a, "beside pieces %d", i), g, GROUP_MAP, 0, NULL, NULL, 1e-5);
        const Case *c = &s->cases[at];
        if (s->n == at) continue; // not asked for
        CHECK_MSG(c->kernels[0][0]->nbodies == 1, "%s: %d bodies", c->name,
                  c->kernels[0][0]->nbodies);
        CHECK_MSG(c->kernels[1][0]->nbodies <= 1 + (n + more > 8), "%s: %d bodies", c->name,
                  c->kernels[1][0]->nbodies);
    }
}

static void pieces(Suite *s)
{
    uint64_t state = 77;
    for (int i = 0; i < 24; i++) {
        Graph *g = begin(s);
        Node *v =
            IN(g, "x", DT_F32, 3 + pick(&state, 9), 5 + pick(&state, 13), 7 + pick(&state, 27));
        Node *b = graph_unary(g, OP_exp, v);
        for (int k = 2 + pick(&state, 4); k > 0 && type_count(&v->type) < 20000; k--) {
            v = random_step(g, v, &state);
            if (pick(&state, 3) == 0) v = graph_unary(g, OP_abs, v);
        }
        out(g, v, "v");
        out(g, b, "b"); // of another size: a body of its own
        add(s, arena_printf(s->a, "pieces %d", i), g, GROUP_MAP, 0, NULL, NULL, 1e-5);
    }
    beside_pieces(s);
}
