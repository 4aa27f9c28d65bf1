// Rematerialization: forward values that the backward part reads are recomputed there, if cheap.
//
// The backward reader gets a clone of the elementwise chain from stored values (leaves, matmul
// results, reductions) to the value; the attribute `clone` keeps value numbering from merging it
// with the original. Fusion then sees two values with one reader each instead of one value to keep
// from the forward to the backward part. Transcendental functions are kept, and so are values of
// two large ones: reading both costs more than reading the result, and a residual stream would be
// recomputed from the results of all its layers.
//
// Direct readers of a matmul are left alone: a bias, an activation and the rounding of its result
// are the matmul's epilogue.
//
// Two kinds are recomputed including their matmuls and attention (activation checkpointing): layers
// that the train block names (`recompute "h.*"`), of which only what other layers read is kept;
// and, under a memory limit, the values that cost the least time per byte (recompute_choose.c).
// Their inputs are read through views (clone CLONE_LATER) that fusion places no earlier than the
// gradients before them, so that clones are not computed together with their originals.
//
// The graph is an entry's, or that of a loop over micro-batches.
//
// Requires: gradients expanded (roles are known). Keeps: every value. Breaks: nothing.
#include <string.h>

#include "base/plain.h"
#include "passes/recompute/recompute.h"
#include "passes/regions.h"

enum { CHEAP_FLOPS = 12, COSTLY_FLOPS = 20 };

static bool is_chain(const Node *n)
{
    bool in_order = node_has(n, OPF_STRIDES) && node_has(n, OPF_ORDER);
    return (node_class(n) == CLS_ELEMENTWISE || in_order) && n->role == ROLE_FORWARD;
}

// By id: operands of matmuls and loops, which are stored anyway, so recomputing them gains nothing.
static bool *stored_anyway(const Graph *g)
{
    bool *stored = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        bool view = node_has(n, OPF_STRIDES | OPF_MOVES);
        bool address = c == CLS_DOT || c == CLS_REGION || c == CLS_SCAN || c == CLS_ROOT;
        for (uint32_t k = 0; k < n->nargs; k++)
            stored[n->args[k]->id] |= address || (view && stored[i]);
    }
    return stored;
}

// Finds the stored values of about the size of n that the chain ending in n reads.
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

static void find_costs(Recompute *r)
{
    const bool *stored = r->stored = stored_anyway(r->src);
    bool *end = NEW_ARRAY(r->src->arena, bool, r->src->nodes.n + 1); // end of a matmul's epilogue
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
        if (end[i] || cost > CHEAP_FLOPS) continue;
        find_base(r, n);
        if (!r->several[i]) r->cost[i] = (uint16_t)cost;
    }
}

// The layer of a path: "h.0" for "h.0.attn" under the pattern "h.*".
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
    bool *handed = NEW_ARRAY(g->arena, bool, g->nodes.n + 1); // read by another layer
    const char **layer = NEW_ARRAY(g->arena, const char *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        if (n->role != ROLE_FORWARD || !n->scope || c == CLS_LEAF || c == CLS_ROOT) continue;
        if (!strmap_has(&known, n->scope))
            strmap_set(&known, n->scope, (void *)(uintptr_t)layer_of(m, n->scope));
        layer[i] = strmap_get(&known, n->scope);
    }
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && n->role == ROLE_FORWARD; k++) {
            const char *from = layer[n->args[k]->id];
            handed[n->args[k]->id] |= from && (!layer[i] || strcmp(from, layer[i]));
        }
    }
    for (uint32_t i = 0; i < g->nodes.n && m->again.n; i++) {
        if (layer[i]) r->cost[i] = 0;
        r->later[i] = r->gone[i] = layer[i] && !handed[i];
    }
}

// The operand that a clone uses for y, which is kept.
static Node *kept_for(Recompute *r, const Node *y, bool later)
{
    Node *n = r->map.map[y->id];
    if (!later || y->nregions || (node_class(y) == CLS_LEAF && !node_in_memory(y))) return n;
    Attrs at = {0};
    attr_set_ints(r->dst, &at, ATTR_shape, n->type.dim, n->type.rank);
    attr_set_int(&at, ATTR_clone, CLONE_LATER);
    return graph_node(r->dst, OP_reshape, &n, 1, &at);
}

static Graph **regions_of(const Recompute *r, const Node *n)
{
    Graph **regions = NEW_ARRAY(r->dst->arena, Graph *, n->nregions + 1);
    for (uint32_t k = 0; k < n->nregions; k++) regions[k] = rebuilt(r->done, n->regions[k]);
    return regions;
}

// The clone of n, with clones of all nodes below it that are cloned. Uses a worklist.
static Node *clone_of(Recompute *r, const Node *n, bool later)
{
    Arena *a = r->dst->arena;
    Node **clone = r->clone[later];
    VEC(const Node *) stack = {0};
    vec_push(a, &stack, n);
    while (stack.n) {
        const Node *x = stack.at[stack.n - 1];
        uint32_t before = stack.n;
        Node **args = NEW_ARRAY(a, Node *, x->nargs + 1);
        for (uint32_t k = 0; k < x->nargs; k++) {
            const Node *y = x->args[k];
            bool again = later ? r->later[y->id] : r->cost[y->id] > 0;
            args[k] = again ? clone[y->id] : NULL;
            if (again && !args[k]) vec_push(a, &stack, y);
            if (!again) args[k] = kept_for(r, y, later);
        }
        if (stack.n > before) continue;
        stack.n--;
        if (clone[x->id]) continue;
        Attrs at = attrs_copy(x->attrs);
        if (node_class(x) == CLS_ELEMENTWISE || later) attr_set_int(&at, ATTR_clone, 1);
        r->dst->loc = x->loc;
        r->dst->role = ROLE_BACKWARD;
        r->dst->name = x->name;
        clone[x->id] = graph_region_node(r->dst, x->op, args, (int)x->nargs, &at, regions_of(r, x),
                                         (int)x->nregions);
    }
    return clone[n->id];
}

// Whether the backward part reads a clone of n.
static bool is_again(const Recompute *r, const bool *read, const Node *n)
{
    return (r->gone[n->id] || r->cost[n->id]) && read[n->id] && n->type.rank > 0;
}

static void emit(Recompute *r, const bool *read, Node *x, bool *any)
{
    bool redirect = false;
    for (uint32_t k = 0; k < x->nargs && x->role == ROLE_BACKWARD; k++)
        redirect |= is_again(r, read, x->args[k]);
    if (!redirect || node_class(x) == CLS_ROOT) {
        remap_with_regions(&r->map, r->done, x, any);
        return;
    }
    Node **args = NEW_ARRAY(r->dst->arena, Node *, x->nargs);
    for (uint32_t k = 0; k < x->nargs; k++) {
        const Node *y = x->args[k];
        args[k] = is_again(r, read, y) ? clone_of(r, y, r->gone[y->id]) : r->map.map[y->id];
    }
    graph_stamp(r->dst, x, x->name);
    r->map.map[x->id] = graph_region_node(r->dst, x->op, args, (int)x->nargs, x->attrs,
                                          regions_of(r, x), (int)x->nregions);
}

// After the forward part, elementwise code and the clones it reads are emitted only before a node
// that stores something computed from them. So the gradients that they read come before them in the
// graph.
static bool waits(const Node *n)
{
    return recompute_is_fused(n) && n->role == ROLE_BACKWARD;
}

static void emit_with_operands(Recompute *r, const bool *read, Node *n, bool *any)
{
    Arena *a = r->dst->arena;
    VEC(Node *) stack = {0};
    vec_push(a, &stack, n);
    while (stack.n) {
        Node *x = stack.at[stack.n - 1];
        uint32_t before = stack.n;
        for (uint32_t k = 0; k < x->nargs; k++)
            if (!r->map.map[x->args[k]->id]) vec_push(a, &stack, x->args[k]);
        if (stack.n > before) continue;
        stack.n--;
        if (!r->map.map[x->id]) emit(r, read, x, any);
    }
}

// Rebuilds one graph. [any]: a region of it was rebuilt.
static Graph *rebuild(Recompute *r, const bool *read, bool any)
{
    Graph *g = r->src;
    bool later = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        any |= is_again(r, read, g->nodes.at[i]);
        later |= r->later[i];
    }
    if (!any) return g;
    r->dst = graph_beside(g);
    r->map = remap_begin(g, r->dst);
    for (int k = 0; k < 2; k++) r->clone[k] = NEW_ARRAY(g->arena, Node *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (!later || !waits(g->nodes.at[i])) emit_with_operands(r, read, g->nodes.at[i], &any);
    for (uint32_t i = 0; i < g->results.n; i++) emit_with_operands(r, read, g->results.at[i], &any);
    return graph_drop_dead(remap_end(&r->map));
}

typedef struct Context {
    Module *m;
    const PassOptions *o;
    Entry *entry;
    Graph *outermost;
    IdMap micro; // graphs of loops over micro-batches
} Context;

static Graph *compute_again(void *ctx, const IdMap *done, Graph *g)
{
    Context *c = ctx;
    uint32_t n = g->nodes.n + 1;
    bool *forward = NEW_ARRAY(g->arena, bool, n), *read = NEW_ARRAY(g->arena, bool, n);
    bool both = false, any = false;
    Recompute r = {.src = g, .done = done, .o = c->o, .entry = c->entry};
    r.cost = NEW_ARRAY(g->arena, uint16_t, n);
    r.base = NEW_ARRAY(g->arena, const Node *, n);
    r.several = NEW_ARRAY(g->arena, bool, n);
    r.later = NEW_ARRAY(g->arena, bool, n);
    r.gone = NEW_ARRAY(g->arena, bool, n);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs; k++)
            (x->role == ROLE_FORWARD ? forward : read)[x->args[k]->id] = true;
        for (uint32_t k = 0; k < x->nregions; k++)
            any |= rebuilt(done, x->regions[k]) != x->regions[k];
    }
    if (g != c->outermost && !idmap_get(&c->micro, (uint64_t)(uintptr_t)g, NULL))
        return rebuild(&r, read, any);
    for (uint32_t i = 0; i < g->nodes.n; i++) both |= read[i] = read[i] && forward[i];
    if (!both) return rebuild(&r, read, any);
    find_costs(&r);
    find_layers(&r, c->m);
    int64_t limit = c->o->kept_bytes ? c->o->kept_bytes : c->o->memory_limit;
    if (limit > 0) recompute_choose(&r, limit);
    return rebuild(&r, read, any);
}

Graph *pass_recompute(Graph *g, Module *m, const PassOptions *o)
{
    Context c = {.m = m, .o = o, .outermost = g, .micro = idmap_new(g->arena)};
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g) c.entry = &m->entries.at[i];
    RegionList all = regions_innermost_first(g);
    for (uint32_t i = 0; i < all.at.n; i++) {
        const RegionVisit *v = &all.at.at[i];
        if (v->owner && v->owner->op == OP_loop && v->owner->role == ROLE_FORWARD && v->parent == g)
            idmap_set(&c.micro, (uint64_t)(uintptr_t)v->g, 1);
    }
    return over_regions(g, compute_again, &c);
}
