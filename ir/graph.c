// graph_node: type inference, canonical operand order, folding, hash-consing.
#include "ir/graph.h"

#include <stddef.h>
#include <string.h>

#include "ir/door.h"

// Hash table of nodes with open addressing and linear probing. If it has no slots, it is built from
// the existing nodes when the next one is created.
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
    g->arena = g->kept = a;
    g->diags = d;
    g->symbols = symbols;
    g->index = NEW(a, struct GraphIndex);
    return g;
}

Graph *graph_beside(const Graph *g)
{
    Graph *new = graph_new(g->arena, g->diags, g->symbols);
    new->kept = g->kept;
    return new;
}

Graph *graph_inside(const Graph *g)
{
    return graph_new(g->kept, g->diags, g->symbols);
}

Node *graph_keep(const Graph *g, const Node *n)
{
    Node *copy = NEW(g->kept, Node);
    *copy = *n;
    copy->nargs = copy->nregions = 0;
    copy->args = NULL;
    copy->regions = NULL;
    return copy;
}

// Hash of op and attributes. node_hash adds the operands and regions.
static uint64_t form_hash(const Infer *in)
{
    return attrs_hash(in->attrs, hash_mix((uint64_t)in->op, (uint64_t)in->nargs));
}

static uint64_t node_hash(uint64_t form, Node *const *args, uint32_t nargs, Graph *const *regions,
                          uint32_t nregions)
{
    uint64_t h = form;
    for (uint32_t i = 0; i < nargs; i++) h = hash_mix(h, args[i]->id);
    for (uint32_t i = 0; i < nregions; i++) h = hash_mix(h, (uint64_t)(uintptr_t)regions[i]);
    return h;
}

static bool same_as(const Node *n, const Infer *in)
{
    return n->op == in->op && n->nargs == (uint32_t)in->nargs &&
           n->nregions == (uint32_t)in->nregions &&
           (!n->nargs || !memcmp(n->args, in->args, n->nargs * sizeof *n->args)) &&
           (!n->nregions || !memcmp(n->regions, in->regions, n->nregions * sizeof *n->regions)) &&
           attrs_equal(n->attrs, in->attrs);
}

static uint32_t find(const struct GraphIndex *x, const Infer *in, uint64_t hash)
{
    uint32_t mask = x->cap - 1, i = (uint32_t)hash & mask;
    while (x->slot[i].node && !(x->slot[i].hash == hash && same_as(x->slot[i].node, in)))
        i = (i + 1) & mask;
    return i;
}

static void put(struct GraphIndex *x, uint64_t hash, Node *n)
{
    uint32_t i = (uint32_t)hash & (x->cap - 1);
    while (x->slot[i].node) i = (i + 1) & (x->cap - 1);
    x->slot[i].hash = hash;
    x->slot[i].node = n;
    x->n++;
}

static void make_slots(Graph *g, uint32_t least)
{
    struct GraphIndex *x = g->index;
    for (x->cap = 64; x->cap < least;) x->cap *= 2;
    x->slot = arena_array(g->arena, x->cap, sizeof *x->slot);
    x->n = 0;
}

static void grow(Graph *g)
{
    struct GraphIndex *x = g->index, old = *x;
    if ((x->n + 1) * 3 <= x->cap * 2) return;
    make_slots(g, x->cap ? x->cap * 2 : g->nodes.n * 2);
    for (uint32_t k = 0; k < old.cap; k++)
        if (old.slot[k].node) put(x, old.slot[k].hash, old.slot[k].node);
    for (uint32_t i = 0; !old.cap && i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (node_class(n) == CLS_ROOT) continue;
        put(x, node_hash(n->form, n->args, n->nargs, n->regions, n->nregions), n);
    }
}

// Copies the lists and strings of the attributes too, since the caller's may be on its stack.
static const Attrs *keep_attrs(Arena *a, const Attrs *from)
{
    static const Attrs none;
    if (!from->n) return &none;
    Attrs *to = arena_alloc(a, offsetof(Attrs, at) + (size_t)from->n * sizeof *from->at);
    to->n = from->n;
    memcpy(to->at, from->at, (size_t)from->n * sizeof *from->at);
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
    return to;
}

static Node *append(Graph *g, const Infer *in, uint64_t form)
{
    // Operands are stored directly behind the node, since both are usually read together.
    Node *n = arena_alloc(g->arena, sizeof *n + (size_t)in->nargs * sizeof *n->args);
    n->op = in->op;
    n->role = g->role;
    n->form = form;
    n->id = g->nodes.n;
    n->nargs = (uint32_t)in->nargs;
    n->type = in->out;
    if (in->nargs) {
        n->args = (Node **)(n + 1);
        memcpy(n->args, in->args, n->nargs * sizeof *n->args);
    }
    n->attrs = in->kept ? in->attrs : keep_attrs(g->kept, in->attrs);
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

static Node *intern(Graph *g, const Infer *in, uint64_t form)
{
    const OpInfo *op = op_info(in->op);
    if (op->class == CLS_ROOT || (g->plain && !(op->flags & OPF_MEMORY)))
        return append(g, in, form);
    grow(g);
    uint64_t hash =
        node_hash(form, in->args, (uint32_t)in->nargs, in->regions, (uint32_t)in->nregions);
    uint32_t i = find(g->index, in, hash);
    if (!g->index->slot[i].node) {
        g->index->slot[i].hash = hash;
        g->index->slot[i].node = append(g, in, form);
        g->index->n++;
    }
    return g->index->slot[i].node;
}

Node *graph_intern(Graph *g, const Infer *in)
{
    return intern(g, in, form_hash(in));
}

void graph_reserve(Graph *g, uint32_t nodes)
{
    if (g->nodes.n) return;
    g->nodes.at = NEW_ARRAY(g->arena, Node *, nodes + 1);
    g->nodes.cap = nodes + 1;
    make_slots(g, nodes + nodes / 2 + 1);
}

void graph_drop_index(Graph *g)
{
    *g->index = (struct GraphIndex){0};
}

static Node *poison(Graph *g)
{
    static const Attrs none;
    Infer in = {.op = OP_poison, .attrs = &none, .loc = g->loc, .out = type_scalar(DT_F32)};
    g->name = NULL;
    return graph_intern(g, &in);
}

// Operands of commutative ops are ordered: constants last, then by id.
static bool out_of_order(const Node *a, const Node *b)
{
    double v;
    bool ca = node_const_value(a, &v), cb = node_const_value(b, &v);
    return ca != cb ? ca : a->id > b->id;
}

static bool region_param_in_turn(const Graph *g, const Infer *in)
{
    if (in->op != OP_region_param) return true;
    int64_t index = attrs_int(in->attrs, ATTR_index, 0);
    if (index == g->params.n) return true;
    if (index >= 0 && index < g->params.n && attrs_equal(g->params.at[index]->attrs, in->attrs))
        return true;
    diag_error(g->diags, g->loc, "region_param: index %lld where %u comes next", (long long)index,
               g->params.n);
    return false;
}

// Orders the operands of a commutative op.
static void order_operands(Infer *in, Node *swapped[2])
{
    if (!(op_info(in->op)->flags & OPF_COMMUTES) || !out_of_order(in->args[0], in->args[1])) return;
    swapped[0] = in->args[1];
    swapped[1] = in->args[0];
    in->args = swapped;
}

static Node *give_name(Node *n, const char *name)
{
    if (name && !n->name && node_class(n) != CLS_LEAF) n->name = name;
    return n;
}

Node *graph_repeat(Graph *g, const Graph *src, const Node *old, Node *const *args, bool folds)
{
    Infer in = {.arena = g->arena,
                .op = old->op,
                .args = args,
                .nargs = (int)old->nargs,
                .attrs = old->attrs,
                .regions = old->regions,
                .nregions = (int)old->nregions,
                .diags = g->diags,
                .symbols = g->symbols,
                .loc = g->loc,
                .out = old->type,
                .kept = src->kept == g->kept};
    Node *swapped[2];
    if (!region_param_in_turn(g, &in)) return poison(g);
    order_operands(&in, swapped);
    const char *name = g->name;
    g->name = NULL;
    Node *n = folds && !attrs_find(in.attrs, ATTR_clone) ? fold_node(g, &in) : NULL;
    if (!n) {
        g->name = name;
        n = intern(g, &in, old->form);
        g->name = NULL;
    }
    return give_name(n, name);
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
    order_operands(&in, swapped);
    const char *name = g->name;
    g->name = NULL; // the name is not for nodes that folding creates on the way
    Node *n = g->plain || attrs_find(in.attrs, ATTR_clone) ? NULL : fold_node(g, &in);
    if (!n) {
        g->name = name;
        n = graph_intern(g, &in);
        g->name = NULL;
    }
    return give_name(n, name);
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
        t.rank++; // stacked: the trip count is axis 0; infer_loop refuses more axes
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
