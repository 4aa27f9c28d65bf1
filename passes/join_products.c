// Products of one operand with several weights, as the queries, keys and values of a model are,
// become one product with all of these:
//
//     dot(x, v) + b, dot(x, w) + c   becomes   y = dot(x, concat(v, w)) + concat(b, c)
//                                              slice(y), slice(y)
//
// In training, their gradients are then joined, too: x is read once, and its gradient is one
// product, not a sum of several. Where the joined weights are computed once (passes/prepare.c),
// this pays if each product alone has too few results to fill the device; elsewhere, if x has at
// least as many rows as a weight. A product that is computed on elementwise stays alone, since its
// kernel may do that as well, and so does one that the library reads again.
//
// Requires: nothing; it runs before gradients are expanded. Keeps: values within rounding. Breaks:
// nothing.
#include "ir/axes.h"
#include "ir/door.h"
#include "passes/passes.h"
#include "passes/prepare.h"
#include "passes/regions.h"

typedef struct Product {
    const Node *dot, *bias, *tail; // bias: NULL, or a vector; tail: the sum with it, or the dot
    int next, first;               // products of the same join, by index; -1: none
} Product;

typedef struct Joins {
    const Target *target;
    const bool *prepared;    // by id: computed before the entry runs; NULL: nothing is
    bool *known, *learned;   // by id: computed from parameters and constants alone; of these, those
                             // with respect to whose parameters there are gradients
    const uint32_t *readers; // by id
    const Node **reader;     // by id: the last of them
    Product *at;
    int n;
    int *of; // by id: 1 + the index of the product that the node belongs to
    Remap map;
} Joins;

static int last_axis(const Node *n)
{
    return n->type.rank - 1;
}

// Whether n is x (.., K) times a matrix that is computed from parameters, for more than one row.
static bool is_candidate(const Joins *j, const Node *n)
{
    if (n->op != OP_dot || j->known[n->id] || !j->known[n->args[1]->id]) return false;
    const DotAxes x = dot_axes(n, 0), w = dot_axes(n, 1);
    return !w.nbatch && w.nfree == 1 && w.ncontract == 1 && x.nfree > 0 &&
           type_count(&n->type) > n->type.dim[last_axis(n)];
}

// The vector that n adds to [to] for each of its last axis; NULL: n is no such sum.
static const Node *bias_of(const Joins *j, const Node *n, const Node *to)
{
    int count;
    if (n->op != OP_add) return NULL;
    const Node *v = n->args[n->args[0] == to];
    if (v->op != OP_broadcast || !j->known[v->id] || v->args[0]->type.rank != 1) return NULL;
    const bool along = attr_ints(v, ATTR_dims, &count)[0] == last_axis(n);
    return along && v->args[0]->type.dim[0] == n->type.dim[last_axis(n)] ? v->args[0] : NULL;
}

static const Node *only_reader(const Joins *j, const Node *n)
{
    return j->readers[n->id] == 1 ? j->reader[n->id] : NULL;
}

static Product product_of(const Joins *j, const Node *dot)
{
    Product p = {.dot = dot, .tail = dot, .next = -1, .first = -1};
    const Node *n = only_reader(j, dot);
    if (n && (p.bias = bias_of(j, n, dot))) p.tail = n;
    return p;
}

static bool are_alike(const Joins *j, const Product *a, const Product *b)
{
    const Node *v = a->dot->args[1], *w = b->dot->args[1];
    return a->dot->args[0] == b->dot->args[0] && a->dot->type.dtype == b->dot->type.dtype &&
           v->type.dtype == w->type.dtype && j->learned[v->id] == j->learned[w->id] &&
           attrs_hash(a->dot->attrs, 0) == attrs_hash(b->dot->attrs, 0);
}

static bool pays(const Joins *j, const Product *p)
{
    const int64_t cols = p->dot->type.dim[last_axis(p->dot)],
                  rows = type_count(&p->dot->type) / cols;
    if (!j->prepared || !j->prepared[p->dot->args[1]->id]) return rows >= cols;
    return target_joins_products(j->target, rows, cols);
}

// Whether the product n reads operand k row by row where it lies: rows that are too long for
// attention, which would be copied out of a joined product. Which of the operand's axes its rows
// have, the features of a head or the tokens, only a view before it tells, so both must be long.
static bool reads_long_rows(const Node *n, uint32_t k)
{
    if (n->op != OP_dot) return false;
    const DotSizes s = dot_sizes(n);
    return s.k > PASS_LONGEST_HEAD && (k ? s.n : s.m) > PASS_LONGEST_HEAD;
}

// By id: whether anything but views and products of short rows reads the node, or, through other
// shapes, a product of long ones.
static bool *find_computed_on(const Graph *g, const bool *live)
{
    bool *computed = NEW_ARRAY(g->arena, bool, g->nodes.n + 1),
         *copied = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        const bool moves = node_class(n) == CLS_VIEW || n->op == OP_dot,
                   same = node_has(n, OPF_PERMUTES);
        for (uint32_t k = 0; live[i] && k < n->nargs; k++) {
            const uint32_t x = n->args[k]->id;
            copied[x] |= reads_long_rows(n, k) || (same && copied[i]);
            computed[x] |= !moves || copied[x];
        }
    }
    return computed;
}

static bool find_products(Joins *j, const Graph *g)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    graph_mark_live(g, live);
    const bool *computed_on = find_computed_on(g, live);
    int *last = NEW_ARRAY(g->arena, int, g->nodes.n + 1); // by id of x: 1 + the last product
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (!live[i] || !is_candidate(j, g->nodes.at[i])) continue;
        Product p = product_of(j, g->nodes.at[i]);
        const int before = last[p.dot->args[0]->id] - 1;
        if (!pays(j, &p) || computed_on[p.tail->id]) continue;
        if (before >= 0 && !are_alike(j, &j->at[before], &p)) continue;
        last[p.dot->args[0]->id] = j->n + 1;
        p.first = before < 0 ? j->n : j->at[before].first;
        if (before >= 0) j->at[before].next = j->n;
        any |= before >= 0;
        j->at[j->n++] = p;
    }
    for (int i = 0; i < j->n; i++) {
        const Product *p = &j->at[i];
        if (p->first == i && p->next < 0) continue; // alone
        for (const Node *n = p->dot;; n = j->reader[n->id]) {
            j->of[n->id] = i + 1;
            if (n == p->tail) break;
        }
    }
    return any;
}

// The image of a value that parameters alone determine, before its turn.
static Node *early(Joins *j, const Node *n)
{
    if (j->map.map[n->id]) return j->map.map[n->id];
    for (uint32_t k = 0; k < n->nargs; k++) early(j, n->args[k]);
    return remap_node(&j->map, n);
}

// The product that is joined after p; NULL: p is the last one.
static const Product *after(const Joins *j, const Product *p)
{
    return p->next < 0 ? NULL : &j->at[p->next];
}

// The weights of the products from p on, along the axis of their columns. Transposed ones are
// joined as they are stored.
static Node *joined_weights(Joins *j, const Product *p)
{
    Graph *g = j->map.dst;
    Node **part = NEW_ARRAY(g->arena, Node *, j->n);
    int64_t axis = dot_axes(p->dot, 1).free[0];
    bool turned = true;
    int n = 0;
    for (const Product *q = p; q; q = after(j, q)) turned &= q->dot->args[1]->op == OP_permute;
    for (const Product *q = p; q; q = after(j, q))
        part[n++] = early(j, turned ? q->dot->args[1]->args[0] : q->dot->args[1]);
    graph_stamp(g, p->dot, NULL);
    Node *all = graph_along(g, OP_concat, part, n, turned ? 1 - axis : axis);
    return turned ? graph_permute(g, all, (int64_t[]){1, 0}) : all;
}

// Their biases; NULL: none of them has any.
static Node *joined_biases(Joins *j, const Product *p)
{
    Graph *g = j->map.dst;
    Node **part = NEW_ARRAY(g->arena, Node *, j->n);
    const DType t = p->dot->type.dtype;
    bool any = false;
    int n = 0;
    for (const Product *q = p; q; q = after(j, q)) any |= q->bias != NULL;
    if (!any) return NULL;
    for (const Product *q = p; q; q = after(j, q)) {
        const Type cols = type_make(t, 1, &q->dot->type.dim[last_axis(q->dot)]);
        part[n++] =
            q->bias ? early(j, q->bias) : graph_broadcast_to(g, graph_const(g, t, 0), &cols);
    }
    graph_stamp(g, p->dot, NULL);
    return graph_along(g, OP_concat, part, n, 0);
}

// Joins the products from p on and maps their tails to slices of the result.
static void join(Joins *j, const Product *p)
{
    Graph *g = j->map.dst;
    Node *args[] = {j->map.map[p->dot->args[0]->id], joined_weights(j, p)};
    Node *biases = joined_biases(j, p);
    graph_stamp(g, p->dot, p->dot->name); // the first one's name is that of all
    Node *y = graph_node(g, OP_dot, args, 2, p->dot->attrs);
    if (biases) y = graph_binary(g, OP_add, y, graph_broadcast_to(g, biases, &y->type));
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < y->type.rank; i++) limit[i] = y->type.dim[i], stride[i] = 1;
    limit[last_axis(y)] = 0;
    for (const Product *q = p; q; q = after(j, q)) {
        start[last_axis(y)] = limit[last_axis(y)];
        limit[last_axis(y)] += q->dot->type.dim[last_axis(q->dot)];
        graph_stamp(g, q->tail, NULL);
        j->map.map[q->tail->id] = graph_slice(g, y, start, limit, stride);
    }
}

static void find_known(Joins *j, const Graph *g)
{
    j->known = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    j->learned = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_grad) j->learned[g->nodes.at[i]->args[1]->id] = true;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const OpClass c = node_class(n);
        bool learned = j->learned[i];
        j->known[i] = node_has(n, OPF_CELL) || node_has(n, OPF_LITERAL) ||
                      (n->nargs && (c == CLS_ELEMENTWISE || c == CLS_VIEW));
        for (uint32_t k = 0; k < n->nargs; k++) {
            j->known[i] &= j->known[n->args[k]->id];
            learned |= j->learned[n->args[k]->id];
        }
        j->learned[i] = learned && j->known[i];
    }
}

static Graph *join_products(Graph *g, const Target *t, const bool *prepared)
{
    Joins j = {.target = t, .prepared = prepared, .readers = live_readers(g)};
    find_known(&j, g);
    j.reader = NEW_ARRAY(g->arena, const Node *, g->nodes.n + 1);
    j.at = NEW_ARRAY(g->arena, Product, g->nodes.n + 1);
    j.of = NEW_ARRAY(g->arena, int, g->nodes.n + 1);
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; live[i] && k < g->nodes.at[i]->nargs; k++)
            j.reader[g->nodes.at[i]->args[k]->id] = g->nodes.at[i];
    if (!find_products(&j, g)) return g;
    j.map = remap_begin(g, graph_beside(g));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Product *p = j.of[i] ? &j.at[j.of[i] - 1] : NULL;
        if (p && p == &j.at[p->first] && g->nodes.at[i] == p->dot) join(&j, p);
        if (!p && !j.map.map[i]) remap_node(&j.map, g->nodes.at[i]);
    }
    return graph_drop_dead(remap_end(&j.map));
}

Graph *pass_join_products(Graph *g, Module *m, const PassOptions *o)
{
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    // (16-bit weights are copies in any case; f32 ones would be further values under the limit)
    if (o->memory_limit && (o->precision == PREC_F32 || o->precision == PREC_TF32)) return g;
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g)
            return join_products(g, o->target, prepare_finds(m, &m->entries.at[i], o));
    return g;
}
