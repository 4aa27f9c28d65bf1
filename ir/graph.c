// The door: inference, canonical operand order, folding, hash-consing.
#include "ir/graph.h"

#include <string.h>

#include "ir/door.h"

// Open addressing with linear probing over the nodes themselves.
struct GraphIndex {
    struct {
        uint64_t hash;
        Node *node;
    } * slot;
    uint32_t n, cap;
};

Graph *graph_new(Arena *a, Diags *d, const char *const *symbols)
{
    Graph *g = NEW(a, Graph);
    g->arena = a;
    g->diags = d;
    g->symbols = symbols;
    g->index = NEW(a, struct GraphIndex);
    return g;
}

static uint64_t hash_of(const Infer *in)
{
    uint64_t h = hash_mix((uint64_t)in->op, (uint64_t)in->nargs);
    for (int i = 0; i < in->nargs; i++) h = hash_mix(h, in->args[i]->id);
    for (int i = 0; i < in->nregions; i++) h = hash_mix(h, (uint64_t)(uintptr_t)in->regions[i]);
    return attrs_hash(in->attrs, h);
}

static bool same_as(const Node *n, const Infer *in)
{
    return n->op == in->op && n->nargs == (uint32_t)in->nargs &&
           n->nregions == (uint32_t)in->nregions &&
           (!n->nargs || !memcmp(n->args, in->args, n->nargs * sizeof *n->args)) &&
           (!n->nregions || !memcmp(n->regions, in->regions, n->nregions * sizeof *n->regions)) &&
           attrs_equal(&n->attrs, in->attrs);
}

static uint32_t find(const struct GraphIndex *x, const Infer *in, uint64_t hash)
{
    uint32_t mask = x->cap - 1, i = (uint32_t)hash & mask;
    while (x->slot[i].node && !(x->slot[i].hash == hash && same_as(x->slot[i].node, in)))
        i = (i + 1) & mask;
    return i;
}

static void grow(Graph *g)
{
    struct GraphIndex *x = g->index, old = *x;
    if ((x->n + 1) * 3 <= x->cap * 2) return;
    x->cap = x->cap ? x->cap * 2 : 64;
    x->slot = arena_array(g->arena, x->cap, sizeof *x->slot);
    for (uint32_t k = 0; k < old.cap; k++) {
        if (!old.slot[k].node) continue;
        uint32_t i = (uint32_t)old.slot[k].hash & (x->cap - 1);
        while (x->slot[i].node) i = (i + 1) & (x->cap - 1);
        x->slot[i] = old.slot[k];
    }
}

// The attributes of a kept node own their lists and texts: the caller's may live on its stack.
static void keep_attrs(Arena *a, Attrs *to, const Attrs *from)
{
    *to = *from;
    for (int i = 0; i < to->n; i++) {
        AttrValue *v = &to->at[i];
        if (attr_kind(v->key) == AK_STR) {
            v->s = arena_strdup(a, v->s);
        } else if (attr_kind(v->key) == AK_INTS) {
            int64_t *copy = NEW_ARRAY(a, int64_t, v->n ? v->n : 1);
            if (v->n) memcpy(copy, v->ints, (size_t)v->n * sizeof *copy);
            v->ints = copy;
        }
    }
}

static Node *append(Graph *g, const Infer *in)
{
    Node *n = NEW(g->arena, Node);
    n->op = in->op;
    n->role = g->role;
    n->id = g->nodes.n;
    n->nargs = (uint32_t)in->nargs;
    n->type = in->out;
    if (in->nargs) {
        n->args = NEW_ARRAY(g->arena, Node *, in->nargs);
        memcpy(n->args, in->args, n->nargs * sizeof *n->args);
    }
    keep_attrs(g->arena, &n->attrs, in->attrs);
    if (in->nregions) {
        n->nregions = (uint32_t)in->nregions;
        n->regions = NEW_ARRAY(g->arena, Graph *, in->nregions);
        memcpy(n->regions, in->regions, n->nregions * sizeof *n->regions);
    }
    n->loc = in->loc;
    n->name = g->name;
    n->scope = g->scope;
    vec_push(g->arena, &g->nodes, n);
    if (node_class(n) == CLS_ROOT) vec_push(g->arena, &g->roots, n);
    if (n->op == OP_region_param) vec_push(g->arena, &g->params, n);
    return n;
}

Node *graph_intern(Graph *g, const Infer *in)
{
    if (op_info(in->op)->class == CLS_ROOT) return append(g, in);
    grow(g);
    uint64_t hash = hash_of(in);
    uint32_t i = find(g->index, in, hash);
    if (!g->index->slot[i].node) {
        g->index->slot[i].hash = hash;
        g->index->slot[i].node = append(g, in);
        g->index->n++;
    }
    return g->index->slot[i].node;
}

static Node *poison(Graph *g)
{
    static const Attrs none;
    Infer in = {.op = OP_poison, .attrs = &none, .loc = g->loc, .out = type_scalar(DT_F32)};
    g->name = NULL;
    return graph_intern(g, &in);
}

// Constants stand on the right, else the older node on the left.
static bool out_of_order(const Node *a, const Node *b)
{
    double v;
    bool ca = node_const_value(a, &v), cb = node_const_value(b, &v);
    return ca != cb ? ca : a->id > b->id;
}

static bool region_param_in_turn(const Graph *g, const Infer *in)
{
    int64_t index = attrs_int(in->attrs, ATTR_index, 0);
    if (in->op != OP_region_param || index == g->params.n) return true;
    if (index >= 0 && index < g->params.n && attrs_equal(&g->params.at[index]->attrs, in->attrs))
        return true;
    diag_error(g->diags, g->loc, "region_param: index %lld where %u comes next", (long long)index,
               g->params.n);
    return false;
}

Node *graph_region_node(Graph *g, Op op, Node *const *args, int nargs, const Attrs *attrs,
                        Graph **regions, int nregions)
{
    static const Attrs none;
    Infer in = {.arena = g->arena, .diags = g->diags, .symbols = g->symbols, .loc = g->loc};
    in.op = op;
    in.args = args;
    in.nargs = nargs;
    in.attrs = attrs ? attrs : &none;
    in.regions = regions;
    in.nregions = nregions;
    for (int i = 0; i < nargs; i++)
        if (node_is_poison(args[i])) return poison(g);
    if (!infer_type(&in) || !region_param_in_turn(g, &in)) return poison(g);

    Node *swapped[2];
    if (op_info(op)->flags & OPF_COMMUTES && out_of_order(args[0], args[1])) {
        swapped[0] = args[1];
        swapped[1] = args[0];
        in.args = swapped;
    }
    const char *name = g->name;
    g->name = NULL; // what folding makes on the way has no name of its own
    Node *n = attrs_find(in.attrs, ATTR_clone) ? NULL : fold_node(g, &in);
    if (!n) {
        g->name = name;
        n = graph_intern(g, &in);
        g->name = NULL;
    }
    if (name && !n->name && node_class(n) != CLS_LEAF) n->name = name;
    return n;
}

Node *graph_node(Graph *g, Op op, Node *const *args, int nargs, const Attrs *attrs)
{
    return graph_region_node(g, op, args, nargs, attrs, NULL, 0);
}

int node_result_count(const Node *n)
{
    return n->nregions ? (int)n->regions[0]->results.n : 1;
}

Type node_result_type(const Node *n, int index)
{
    if (!n->nregions || index == 0) return n->type;
    Type t = n->regions[0]->results.at[index]->type;
    if (n->op != OP_loop) return t;
    if (index < attr_int(n, ATTR_carried, 0)) return n->args[index]->type;
    if (t.rank < MAX_RANK)
        t.rank++; // stacked: the trip count in front; infer_loop refuses more axes
    for (int k = t.rank - 1; k > 0; k--) {
        t.dim[k] = t.dim[k - 1];
        t.sym[k] = t.sym[k - 1];
    }
    t.dim[0] = attr_int(n, ATTR_count, 0);
    t.sym[0] = 0;
    return t;
}

Node *graph_result(Graph *g, Node *region_op, int index)
{
    if (node_is_poison(region_op)) return region_op;
    if (index == 0 && node_result_count(region_op) == 1) return region_op;
    Attrs a = {0};
    attr_set_int(&a, ATTR_index, index);
    return graph_node(g, OP_get, &region_op, 1, &a);
}

bool node_in_memory(const Node *n)
{
    return node_has(n, OPF_MEMORY) || (n->op == OP_const && attr_find(n, ATTR_values));
}

bool node_is_data(const Node *n)
{
    const char *kind = n->op == OP_input ? attr_str(n, ATTR_kind) : NULL;
    return kind && !strcmp(kind, "data");
}

bool node_const_value(const Node *n, double *v)
{
    while (n->op == OP_broadcast) n = n->args[0];
    if (n->op != OP_const) return false;
    const AttrValue *f = attr_find(n, ATTR_value), *i = attr_find(n, ATTR_ivalue);
    if (f) *v = f->f;
    if (i) *v = (double)i->i;
    return f || i;
}
