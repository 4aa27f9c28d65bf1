// Rebuilding a graph together with its regions: a worklist, innermost first.
#include "passes/regions.h"

RegionList regions_innermost_first(Graph *g)
{
    typedef struct Frame {
        RegionVisit v;
        uint32_t node, region;
    } Frame;
    Arena *a = g->arena;
    VEC(Frame) stack = {0};
    RegionList out = {0};
    IdMap seen = idmap_new(a);
    vec_push(a, &stack, (Frame){{g, NULL, NULL}, 0, 0});
    while (stack.n) {
        Frame *f = &stack.at[stack.n - 1];
        while (f->node < f->v.g->nodes.n && !f->v.g->nodes.at[f->node]->nregions) f->node++;
        if (f->node == f->v.g->nodes.n) {
            vec_push(a, &out.at, f->v);
            stack.n--;
            continue;
        }
        Node *n = f->v.g->nodes.at[f->node];
        if (f->region == n->nregions) {
            f->node++;
            f->region = 0;
            continue;
        }
        Graph *inner = n->regions[f->region++], *outer = f->v.g;
        if (idmap_get(&seen, (uint64_t)(uintptr_t)inner, NULL)) continue;
        idmap_set(&seen, (uint64_t)(uintptr_t)inner, 1);
        vec_push(a, &stack, (Frame){{inner, n, outer}, 0, 0});
    }
    return out;
}

Graph *rebuilt(const IdMap *done, Graph *g)
{
    uint64_t v;
    return idmap_get(done, (uint64_t)(uintptr_t)g, &v) ? (Graph *)(uintptr_t)v : g;
}

bool any_rebuilt(const IdMap *done, const Graph *g)
{
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n && done->n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nregions; k++)
            any |= rebuilt(done, n->regions[k]) != n->regions[k];
    }
    return any;
}

Graph *over_regions(Graph *g, Graph *(*one)(void *ctx, const IdMap *done, Graph *g), void *ctx)
{
    RegionList all = regions_innermost_first(g);
    IdMap done = idmap_new(g->arena);
    for (uint32_t i = 0; i < all.at.n; i++) {
        Graph *old = all.at.at[i].g, *new = one(ctx, &done, old);
        if (new != old) idmap_set(&done, (uint64_t)(uintptr_t)old, (uint64_t)(uintptr_t) new);
    }
    return rebuilt(&done, g);
}

Node *remap_with_regions(Remap *r, const IdMap *done, Node *n, bool *any)
{
    bool other = false;
    for (uint32_t k = 0; k < n->nregions; k++)
        other |= rebuilt(done, n->regions[k]) != n->regions[k];
    if (!other) return remap_node(r, n);
    *any = true;
    Node copy = *n;
    copy.regions = NEW_ARRAY(r->dst->arena, Graph *, n->nregions);
    for (uint32_t k = 0; k < n->nregions; k++) copy.regions[k] = rebuilt(done, n->regions[k]);
    return remap_node(r, &copy);
}

Graph *rewrite_nodes(Graph *g, const IdMap *done, Wanted *wanted, Rewrite *rewrite, void *ctx)
{
    bool any = false, some = any_rebuilt(done, g);
    for (uint32_t i = 0; i < g->nodes.n && !some; i++) some = wanted && wanted(ctx, g->nodes.at[i]);
    if (!some) return g;
    Remap r = remap_begin(g, graph_beside(g));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i], *new = wanted ? rewrite(ctx, r.dst, n, r.map) : NULL;
        if (new) {
            r.map[i] = new;
            node_pass_name(n, new);
            any = true;
        } else {
            remap_with_regions(&r, done, n, &any);
        }
    }
    return any ? graph_drop_dead(remap_end(&r)) : g;
}

uint32_t *live_readers(const Graph *g)
{
    uint32_t *readers = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; live[i] && k < g->nodes.at[i]->nargs; k++)
            readers[g->nodes.at[i]->args[k]->id]++;
    for (uint32_t i = 0; i < g->results.n; i++) readers[g->results.at[i]->id]++;
    return readers;
}
