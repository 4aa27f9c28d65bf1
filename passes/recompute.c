// Cheap forward values that the backward part reads are computed again there.
//
// The backward reader gets a clone (attribute `clone`, which keeps the door from merging it with
// the original) of the elementwise chain between the value and what is stored anyway: leaves,
// matmul results, reductions. Fusion then sees two values with one reader each instead of one value
// to keep from the forward to the backward part. Transcendental functions are kept, and so is what
// is made of two large values: to read both again costs more than to read the one that they make,
// and a residual stream would be all its layers' results. Unless a memory limit is set: then the
// largest of the dearer chains are computed again, one after the other, until what lives across is
// within the limit.
//
// What reads a matmul directly is left alone: with a bias or an activation it is that matmul's own
// end, and so is the rounding of that to a narrower type.
//
// Layers that the train block names (`recompute "h.*"`) are computed again as a whole, products and
// attention too, from what other layers gave them; only what other layers read of them is kept.
// What they begin with is read through views (clone CLONE_LATER) that fusion places no earlier than
// the gradients in front of them, so that nobody makes clones beside their originals.
//
// Requires: gradients expanded (roles are known). Keeps: every value. Breaks: nothing.
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "passes/passes.h"

enum { CHEAP_FLOPS = 12, LIMITED_FLOPS = 200, COSTLY_FLOPS = 20 };

typedef struct Recompute {
    Graph *src, *dst;
    Remap map;
    Node **clone;      // by old id: the clone in dst
    uint16_t *cost;    // by old id: flops an element, down to stored values; 0: not a chain
    const Node **base; // by old id of a chain: the large stored value that it reads, if it is one
    bool *several;     // it reads more
    int limit;
    const char **layer; // by old id: the layer that is computed again as a whole; NULL: none
} Recompute;

static bool is_chain(const Node *n)
{
    bool in_order = node_has(n, OPF_STRIDES) && node_has(n, OPF_ORDER);
    return (node_class(n) == CLS_ELEMENTWISE || in_order) && n->role == ROLE_FORWARD;
}

// What a matmul or a loop reads has to lie in memory: nothing is gained by a second one.
static bool *stored_anyway(const Graph *g)
{
    bool *stored = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        bool view = node_has(n, OPF_STRIDES);
        bool address = c == CLS_DOT || c == CLS_REGION || c == CLS_SCAN || c == CLS_ROOT;
        for (uint32_t k = 0; k < n->nargs; k++)
            stored[n->args[k]->id] |= address || (view && stored[i]);
    }
    return stored;
}

static bool is_cheap(const Recompute *r, uint32_t id)
{
    return r->cost[id] && r->cost[id] <= CHEAP_FLOPS && !r->several[id];
}

// Which stored values of about n's size the chain that ends in n reads.
static void find_base(Recompute *r, const Node *n)
{
    for (uint32_t k = 0; k < n->nargs; k++) {
        const Node *a = n->args[k], *base = r->cost[a->id] ? r->base[a->id] : a;
        r->several[n->id] |= r->cost[a->id] && r->several[a->id];
        bool large = base && type_count(&base->type) * 2 >= type_count(&n->type);
        if (!large || (node_class(base) == CLS_LEAF && !node_in_memory(base))) continue;
        r->several[n->id] |= r->base[n->id] && r->base[n->id] != base;
        r->base[n->id] = base;
    }
}

static void find_costs(Recompute *r, bool limited)
{
    bool *stored = stored_anyway(r->src);
    bool *end = NEW_ARRAY(r->src->arena, bool, r->src->nodes.n + 1); // of a matmul
    for (uint32_t i = 0; i < r->src->nodes.n; i++) {
        const Node *n = r->src->nodes.at[i];
        if (!is_chain(n)) continue;
        bool narrows = n->op == OP_cast &&
                       dtype_info[n->type.dtype].bits < dtype_info[n->args[0]->type.dtype].bits;
        for (uint32_t k = 0; k < n->nargs; k++)
            end[i] |= node_class(n->args[k]) == CLS_DOT || (narrows && end[n->args[k]->id]);
        if (stored[i]) continue;
        int cost = node_class(n) != CLS_ELEMENTWISE ? 0
                   : node_has(n, OPF_COSTLY)        ? COSTLY_FLOPS
                                                    : 1;
        for (uint32_t k = 0; k < n->nargs; k++) cost += r->cost[n->args[k]->id];
        if (cost == 0) cost = 1; // a view
        if (end[i] || cost > r->limit) continue;
        find_base(r, n);
        if (limited || !r->several[i]) r->cost[i] = (uint16_t)cost;
    }
}

// Of "h.0.attn" under the pattern "h.*" that is "h.0".
static const char *layer_of(const Module *m, const char *scope)
{
    for (size_t n = strcspn(scope, ".");; n += 1 + strcspn(scope + n + 1, ".")) {
        const char *part = arena_strndup(m->arena, scope, n);
        for (uint32_t i = 0; i < m->again.n && n; i++)
            if (plain_match(m->again.at[i], part)) return part;
        if (!scope[n]) return NULL;
    }
}

static void find_layers(Recompute *r, const Module *m)
{
    const Graph *g = r->src;
    StrMap known = strmap_new(g->arena);
    bool *handed = NEW_ARRAY(g->arena, bool, g->nodes.n + 1); // to another layer
    r->layer = NEW_ARRAY(g->arena, const char *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        if (n->role != ROLE_FORWARD || !n->scope || c == CLS_LEAF || c == CLS_ROOT) continue;
        if (!strmap_has(&known, n->scope))
            strmap_set(&known, n->scope, (void *)(uintptr_t)layer_of(m, n->scope));
        r->layer[i] = strmap_get(&known, n->scope);
    }
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && n->role == ROLE_FORWARD; k++) {
            const char *from = r->layer[n->args[k]->id];
            handed[n->args[k]->id] |= from && (!r->layer[i] || strcmp(from, r->layer[i]));
        }
    }
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        if (r->layer[i]) r->cost[i] = !handed[i];
        if (handed[i]) r->layer[i] = NULL;
    }
}

// What a clone of x reads of y, which is kept.
static Node *kept_for(Recompute *r, const Node *x, const Node *y)
{
    Node *n = r->map.map[y->id];
    if (!r->layer[x->id] || node_class(y) == CLS_LEAF || y->nregions) return n;
    Attrs at = {0};
    attr_set_ints(r->dst, &at, ATTR_shape, n->type.dim, n->type.rank);
    attr_set_int(&at, ATTR_clone, CLONE_LATER);
    return graph_node(r->dst, OP_reshape, &n, 1, &at);
}

// The clone of n with everything of the chain below it, by a worklist.
static Node *clone_of(Recompute *r, const Node *n)
{
    Arena *a = r->dst->arena;
    VEC(const Node *) stack = {0};
    vec_push(a, &stack, n);
    while (stack.n) {
        const Node *x = stack.at[stack.n - 1];
        bool ready = true;
        for (uint32_t k = 0; k < x->nargs; k++) {
            const Node *y = x->args[k];
            if (!r->cost[y->id] || r->clone[y->id]) continue;
            vec_push(a, &stack, y);
            ready = false;
        }
        if (!ready) continue;
        stack.n--;
        if (r->clone[x->id]) continue;
        Node **args = NEW_ARRAY(a, Node *, x->nargs + 1);
        for (uint32_t k = 0; k < x->nargs; k++)
            args[k] =
                r->cost[x->args[k]->id] ? r->clone[x->args[k]->id] : kept_for(r, x, x->args[k]);
        Attrs at = x->attrs;
        if (node_class(x) == CLS_ELEMENTWISE || r->layer[x->id]) attr_set_int(&at, ATTR_clone, 1);
        r->dst->loc = x->loc;
        r->dst->role = ROLE_BACKWARD;
        r->dst->name = x->name;
        r->clone[x->id] = graph_region_node(r->dst, x->op, args, (int)x->nargs, &at, x->regions,
                                            (int)x->nregions);
    }
    return r->clone[n->id];
}

typedef struct Across { // a forward value that both parts read
    uint32_t id;
    int64_t bytes;
} Across;

static int largest_first(const void *a, const void *b)
{
    const Across *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Of the chains that are not cheap the largest values until what lives across fits; the others
// are kept, as they are all without a limit.
static void choose_dear(Recompute *r, const bool *forward, const bool *backward, int64_t limit)
{
    const Graph *g = r->src;
    VEC(Across) dear = {0};
    int64_t bytes = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        bool cheap = is_cheap(r, i) && n->type.rank > 0;
        if (!forward[i] || !backward[i] || n->role != ROLE_FORWARD || cheap ||
            node_class(n) == CLS_LEAF)
            continue;
        Across x = {.id = i, .bytes = type_bytes(&n->type)};
        bytes += x.bytes;
        if (r->cost[i] && n->type.rank > 0) vec_push(g->arena, &dear, x);
    }
    if (dear.n) qsort(dear.at, dear.n, sizeof *dear.at, largest_first);
    for (uint32_t i = 0; i < dear.n; i++) {
        if (bytes > limit)
            bytes -= dear.at[i].bytes;
        else
            r->cost[dear.at[i].id] = 0; // kept: what is computed from it starts here
    }
}

Graph *pass_recompute(Graph *g, Module *m, const PassOptions *o)
{
    uint32_t n = g->nodes.n + 1;
    bool *forward = NEW_ARRAY(g->arena, bool, n), *backward = NEW_ARRAY(g->arena, bool, n);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs; k++)
            (x->role == ROLE_FORWARD ? forward : backward)[x->args[k]->id] = true;
    }
    Recompute r = {.src = g, .limit = CHEAP_FLOPS};
    if (o->memory_limit > 0) r.limit = LIMITED_FLOPS;
    r.cost = NEW_ARRAY(g->arena, uint16_t, n);
    r.base = NEW_ARRAY(g->arena, const Node *, n);
    r.several = NEW_ARRAY(g->arena, bool, n);
    find_costs(&r, o->memory_limit > 0);
    if (o->memory_limit > 0) choose_dear(&r, forward, backward, o->memory_limit);
    find_layers(&r, m);
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) any |= r.cost[i] && forward[i] && backward[i];
    if (!any) return g;
    r.dst = graph_new(g->arena, g->diags, g->symbols);
    r.map = remap_begin(g, r.dst);
    r.clone = NEW_ARRAY(g->arena, Node *, n);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *x = g->nodes.at[i];
        bool redirect = false;
        for (uint32_t k = 0; k < x->nargs && x->role == ROLE_BACKWARD; k++) {
            uint32_t a = x->args[k]->id;
            redirect |= r.cost[a] && forward[a] && x->args[k]->type.rank > 0;
        }
        if (!redirect || (x->nregions && !m->again.n) || node_class(x) == CLS_ROOT) {
            remap_node(&r.map, x);
            continue;
        }
        Node **args = NEW_ARRAY(g->arena, Node *, x->nargs);
        for (uint32_t k = 0; k < x->nargs; k++) {
            const Node *y = x->args[k];
            bool again = r.cost[y->id] && forward[y->id] && y->type.rank > 0;
            args[k] = again ? clone_of(&r, y) : r.map.map[y->id];
        }
        graph_stamp(r.dst, x, x->name);
        r.map.map[i] = graph_region_node(r.dst, x->op, args, (int)x->nargs, &x->attrs, x->regions,
                                         (int)x->nregions);
    }
    return graph_copy_live(remap_end(&r.map));
}
