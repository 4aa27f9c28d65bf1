// The loop over chunks of a head's rows. In the loop, a value has one axis of rows, those of the
// chunk, in place of all row axes outside.
#include "passes/chunks/chunks.h"

typedef VEC(const Node *) Nodes;

typedef struct Build {
    const Head *h;
    Graph *dst;
    Node **map;                       // by id in h->g: its image outside of the loop
    Nodes sums, rows, whole, leaving; // carried sums, operands read by rows, captured operands,
                                      // results by rows
    int64_t each;
} Build;

// One chunk: the body of the loop, or the remaining rows, which are computed in the graph itself.
typedef struct Round {
    const Head *h;
    Graph *g;
    int64_t each;
    Node *first;        // index of the first row (i64)
    Node **row, **full; // by id in h->g: its image read by rows, and read as a whole
} Round;

static DType summed_in(const Node *sum)
{
    return dtype_accumulator(sum->type.dtype);
}

// The type with its first [prefix] axes replaced by one axis of size [each].
static Type of_round(const Type *t, int prefix, int64_t each)
{
    int64_t dim[MAX_RANK] = {each};
    int n = 1;
    for (int i = prefix; i < t->rank; i++) dim[n++] = t->dim[i];
    return type_make(t->dtype, n, dim);
}

static void shift_ints(Graph *g, Attrs *at, const Node *n, AttrKey key, int first, int by)
{
    int count;
    const int64_t *v = attr_ints(n, key, &count);
    int64_t to[MAX_RANK];
    int m = 0;
    if (first > 0) to[m++] = 0;
    for (int i = first; i < count; i++) to[m++] = v[i] - by;
    attr_set_ints(g, at, key, to, m);
}

// Sets an attribute that is a list by axis, with its first [prefix] values replaced by [rows].
static void join_axes(Graph *g, Attrs *at, const Node *n, AttrKey key, int prefix, int64_t rows)
{
    int count;
    const int64_t *v = attr_ints(n, key, &count);
    int64_t to[MAX_RANK] = {rows};
    int m = 1;
    for (int i = prefix; i < count; i++) to[m++] = v[i];
    attr_set_ints(g, at, key, to, m);
}

// Row numbers are added as integers and rounded once, since bf16(first) + bf16(i) is not bf16(first
// + i).
static Node *iota(Round *r, const Node *n, int prefix)
{
    const DType type = n->type.dtype, counted = type == DT_BF16 || type == DT_F16 ? DT_I64 : type;
    Attrs at = attrs_copy(n->attrs);
    Type t = of_round(&n->type, prefix, r->each);
    int64_t axis = attr_int(n, ATTR_axis, 0);
    attr_set_ints(r->g, &at, ATTR_shape, t.dim, t.rank);
    attr_set_int(&at, ATTR_axis, axis >= prefix ? axis - prefix + 1 : 0);
    if (axis >= prefix) return graph_node(r->g, OP_iota, NULL, 0, &at);
    attr_set_int(&at, ATTR_dtype, counted);
    Node *i = graph_node(r->g, OP_iota, NULL, 0, &at);
    return graph_cast(r->g, graph_binary(r->g, OP_add, i, graph_cast(r->g, r->first, counted)),
                      type);
}

static Node *dot(Round *r, const Node *n, Node *const *args)
{
    Attrs at = attrs_copy(n->attrs);
    bool sum = r->h->part[n->id] == PART_SUM;
    for (int side = 0; side < 2; side++) {
        const Node *x = n->args[side];
        int p = r->h->part[x->id] == PART_ROWS || r->h->by_rows[x->id] ? r->h->prefix[x->id] : 0;
        if (sum)
            shift_ints(r->g, &at, n, dot_keys[side][1], p, p - 1);
        else if (side == 0)
            shift_ints(r->g, &at, n, dot_keys[side][1], 0, p - 1);
    }
    if (sum) attr_set_int(&at, ATTR_dtype, summed_in(n));
    return graph_node(r->g, OP_dot, args, 2, &at);
}

// The image of n in a chunk; its operands have images already.
static Node *image(Round *r, const Node *n)
{
    Graph *g = r->g;
    const Head *h = r->h;
    int p = h->prefix[n->id];
    Type t = of_round(&n->type, p, r->each);
    Attrs at = attrs_copy(n->attrs);
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
    for (uint32_t k = 0; k < n->nargs; k++)
        args[k] = (head_reads_rows(h, n, k) ? r->row : r->full)[n->args[k]->id];
    graph_stamp(g, n, n->name);
    switch (n->op) {
    case OP_const: {
        double v = 0;
        node_const_value(n, &v);
        attr_set_ints(g, &at, ATTR_shape, t.dim, t.rank);
        return graph_node(g, OP_const, NULL, 0, &at);
    }
    case OP_iota: return iota(r, n, p);
    case OP_dot: return dot(r, n, args);
    case OP_reshape: return graph_reshape(g, args[0], t.rank, t.dim);
    case OP_permute: {
        int64_t perm[MAX_RANK] = {0};
        const int64_t *from = attr_ints(n, ATTR_perm, NULL);
        for (int i = p; i < n->type.rank; i++) perm[i - p + 1] = from[i] - p + 1;
        return graph_permute(g, args[0], perm);
    }
    case OP_broadcast: {
        attr_set_ints(g, &at, ATTR_shape, t.dim, t.rank);
        shift_ints(g, &at, n, ATTR_dims, head_broadcast_axes(h, n), p - 1);
        return graph_node(g, OP_broadcast, args, 1, &at);
    }
    case OP_slice:
        join_axes(g, &at, n, ATTR_start, p, 0);
        join_axes(g, &at, n, ATTR_limit, p, r->each);
        join_axes(g, &at, n, ATTR_stride, p, 1);
        return graph_node(g, OP_slice, args, 1, &at);
    case OP_pad:
        join_axes(g, &at, n, ATTR_low, p, 0);
        join_axes(g, &at, n, ATTR_high, p, 0);
        return graph_node(g, OP_pad, args, 2, &at);
    default: break;
    }
    if (node_class(n) == CLS_ELEMENTWISE) return graph_node(g, n->op, args, (int)n->nargs, &at);
    // A reduction.
    int q = h->part[n->args[0]->id] ? h->prefix[n->args[0]->id] : p;
    bool sum = h->part[n->id] == PART_SUM;
    shift_ints(g, &at, n, ATTR_axes, sum ? q : 0, q - 1);
    if (sum) args[0] = graph_cast(g, args[0], summed_in(n));
    return graph_node(g, n->op, args, 1, &at);
}

// Builds a chunk. The images of what it reads must exist.
static void run_round(Round *r)
{
    const Head *h = r->h;
    for (uint32_t i = 0; i < h->g->nodes.n; i++) {
        const Node *n = h->g->nodes.at[i];
        if (h->whole[i] == READ_MADE) {
            Node **args = NEW_ARRAY(r->g->arena, Node *, n->nargs + 1);
            for (uint32_t k = 0; k < n->nargs; k++) args[k] = r->full[n->args[k]->id];
            graph_stamp(r->g, n, n->name);
            r->full[i] = graph_node(r->g, n->op, args, (int)n->nargs, n->attrs);
        }
        if (h->part[i] || h->by_rows[i] == READ_MADE) r->row[i] = image(r, n);
    }
}

static Round new_round(const Build *b, Graph *g, int64_t each)
{
    const uint32_t n = b->h->g->nodes.n + 1;
    return (Round){.h = b->h,
                   .g = g,
                   .each = each,
                   .row = NEW_ARRAY(g->arena, Node *, n),
                   .full = NEW_ARRAY(g->arena, Node *, n)};
}

static Node *parameter(Graph *body, const Node *like, Type t)
{
    body->loc = like->loc;
    Node *p = graph_region_param(body, &t);
    if (!p->name) p->name = like->name;
    return p;
}

static Graph *region(const Build *b)
{
    const Head *h = b->h;
    Graph *body = graph_inside(b->dst);
    Round r = new_round(b, body, b->each);
    body->role = h->seed->role;
    Node *i = parameter(body, h->seed, type_scalar(DT_I64));
    Node **sum = NEW_ARRAY(body->arena, Node *, b->sums.n + 1);
    for (uint32_t k = 0; k < b->sums.n; k++) {
        Type t = b->sums.at[k]->type;
        t.dtype = summed_in(b->sums.at[k]);
        sum[k] = parameter(body, b->sums.at[k], t);
    }
    for (uint32_t k = 0; k < b->rows.n; k++) {
        const Node *n = b->rows.at[k];
        r.row[n->id] = parameter(body, n, of_round(&n->type, h->prefix[n->id], b->each));
    }
    for (uint32_t k = 0; k < b->whole.n; k++)
        r.full[b->whole.at[k]->id] = parameter(body, b->whole.at[k], b->whole.at[k]->type);
    r.first = graph_binary(body, OP_mul, i, graph_const_int(body, DT_I64, b->each));
    run_round(&r);
    for (uint32_t k = 0; k < b->sums.n; k++) {
        graph_stamp(body, b->sums.at[k], b->sums.at[k]->name);
        Node *next = graph_binary(body, OP_add, sum[k], r.row[b->sums.at[k]->id]);
        vec_push(body->arena, &body->results, next);
    }
    for (uint32_t k = 0; k < b->leaving.n; k++)
        vec_push(body->arena, &body->results, r.row[b->leaving.at[k]->id]);
    return graph_drop_dead(body);
}

// Rows [from, to) of the outer image of n; if [each] is not 0, with shape (chunks, each, ...).
static Node *rows_of(const Build *b, const Node *n, int64_t from, int64_t to, int64_t each)
{
    Graph *g = b->dst;
    Type t = of_round(&n->type, b->h->prefix[n->id], b->h->rows);
    graph_stamp(g, n, NULL);
    Node *x = graph_reshape(g, b->map[n->id], t.rank, t.dim);
    int64_t start[MAX_RANK] = {from}, limit[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        limit[i] = i ? t.dim[i] : to;
        stride[i] = 1;
    }
    if (from || to < b->h->rows) x = graph_slice(g, x, start, limit, stride);
    if (!each) return x;
    int64_t dim[MAX_RANK] = {(to - from) / each, each};
    for (int i = 1; i < t.rank; i++) dim[i + 1] = t.dim[i];
    return graph_reshape(g, x, t.rank + 1, dim);
}

static Round left_over(const Build *b, int64_t from)
{
    Round r = new_round(b, b->dst, b->h->rows - from);
    r.first = graph_const_int(b->dst, DT_I64, from);
    for (uint32_t k = 0; k < b->rows.n; k++)
        r.row[b->rows.at[k]->id] = rows_of(b, b->rows.at[k], from, b->h->rows, 0);
    for (uint32_t k = 0; k < b->whole.n; k++)
        r.full[b->whole.at[k]->id] = b->map[b->whole.at[k]->id];
    run_round(&r);
    return r;
}

static void make_loop(Build *b)
{
    const Head *h = b->h;
    Graph *g = b->dst;
    int64_t count = h->rows / b->each, even = count * b->each;
    Node **args = NEW_ARRAY(g->arena, Node *, b->sums.n + b->rows.n + b->whole.n + 1);
    int n = 0;
    for (uint32_t k = 0; k < b->sums.n; k++) {
        Type t = b->sums.at[k]->type;
        graph_stamp(g, b->sums.at[k], NULL);
        Node *zero = graph_const(g, summed_in(b->sums.at[k]), 0);
        args[n++] = graph_broadcast_to(g, zero, &t);
    }
    for (uint32_t k = 0; k < b->rows.n; k++)
        args[n++] = rows_of(b, b->rows.at[k], 0, even, b->each);
    for (uint32_t k = 0; k < b->whole.n; k++) args[n++] = b->map[b->whole.at[k]->id];
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, count);
    attr_set_int(&at, ATTR_carried, b->sums.n);
    attr_set_int(&at, ATTR_scanned, b->rows.n);
    Graph *body = region(b);
    graph_stamp(g, h->seed, "chunks");
    Node *loop = graph_region_node(g, OP_loop, args, n, &at, &body, 1);
    Round rest = {0};
    if (even < h->rows) rest = left_over(b, even);
    for (uint32_t k = 0; k < b->sums.n; k++) {
        const Node *s = b->sums.at[k];
        Node *x = graph_result(g, loop, (int)k);
        graph_stamp(g, s, s->name);
        if (rest.row) x = graph_binary(g, OP_add, x, rest.row[s->id]);
        b->map[s->id] = graph_cast(g, x, s->type.dtype);
        node_pass_name(s, b->map[s->id]);
    }
    for (uint32_t k = 0; k < b->leaving.n; k++) {
        const Node *v = b->leaving.at[k];
        Type t = of_round(&v->type, h->prefix[v->id], even);
        Node *x = graph_result(g, loop, (int)(b->sums.n + k));
        graph_stamp(g, v, v->name);
        x = graph_reshape(g, x, t.rank, t.dim);
        Attrs axis = {0};
        attr_set_int(&axis, ATTR_axis, 0);
        if (rest.row) x = graph_node(g, OP_concat, (Node *[]){x, rest.row[v->id]}, 2, &axis);
        b->map[v->id] = graph_reshape(g, x, v->type.rank, v->type.dim);
        node_pass_name(v, b->map[v->id]);
    }
}

// The rest of the graph is built in two parts: what the head reads, then the loop, then what reads
// its results.
Graph *head_build(const Head *h, int64_t each)
{
    Graph *g = h->g;
    Build b = {.h = h, .dst = graph_beside(g), .each = each};
    Remap r = remap_begin(g, b.dst);
    bool *after = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    b.map = r.map;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        after[i] = n == h->seed;
        for (uint32_t k = 0; k < n->nargs; k++) after[i] |= after[n->args[k]->id];
        if (h->part[i] == PART_SUM) vec_push(g->arena, &b.sums, n);
        if (h->by_rows[i] == READ_TAKEN) vec_push(g->arena, &b.rows, n);
        if (h->whole[i] == READ_TAKEN) vec_push(g->arena, &b.whole, n);
        if (h->leaves[i]) vec_push(g->arena, &b.leaving, n);
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (h->live[i] && !after[i]) remap_node(&r, g->nodes.at[i]);
    make_loop(&b);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (h->live[i] && after[i] && !h->part[i]) remap_node(&r, g->nodes.at[i]);
    return graph_drop_dead(remap_end(&r));
}
