// Structural equality: both graphs are interned, without folding, into one scratch graph, where
// equal computations become one node; then the roots must agree in order.
#include <string.h>

#include "ir/door.h"

typedef struct Interned {
    Graph *region, *stands_for;
} Interned;

typedef struct Scratch {
    Graph *graph;
    IdMap known;           // address of a region -> index in regions
    VEC(Interned) regions; // distinct regions so far
} Scratch;

// The first region seen that equals r.
static Graph *region_class(Scratch *s, Graph *r)
{
    Arena *a = s->graph->arena;
    uint64_t at;
    if (idmap_get(&s->known, (uint64_t)(uintptr_t)r, &at)) return s->regions.at[at].stands_for;
    Graph *found = r;
    for (uint32_t i = 0; i < s->regions.n && found == r; i++)
        if (s->regions.at[i].region == s->regions.at[i].stands_for &&
            graph_equal(s->regions.at[i].region, r))
            found = s->regions.at[i].region;
    idmap_set(&s->known, (uint64_t)(uintptr_t)r, s->regions.n);
    vec_push(a, &s->regions, (Interned){r, found});
    return found;
}

static Node **intern_all(Scratch *s, const Graph *g)
{
    Arena *a = s->graph->arena;
    Node **map = NEW_ARRAY(a, Node *, g->nodes.n + 1);
    bool *live = NEW_ARRAY(a, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!live[i] || node_class(n) == CLS_ROOT) continue;
        Node **args = NEW_ARRAY(a, Node *, n->nargs + 1);
        Graph **regions = NEW_ARRAY(a, Graph *, n->nregions + 1);
        for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
        for (uint32_t k = 0; k < n->nregions; k++) regions[k] = region_class(s, n->regions[k]);
        if (op_info(n->op)->flags & OPF_COMMUTES && args[0]->id > args[1]->id) {
            Node *first = args[0];
            args[0] = args[1];
            args[1] = first;
        }
        Infer in = {.op = n->op, .args = args, .nargs = (int)n->nargs, .attrs = n->attrs};
        in.regions = regions;
        in.nregions = (int)n->nregions;
        in.out = n->type;
        map[i] = graph_intern(s->graph, &in);
    }
    return map;
}

bool graph_equal(const Graph *a, const Graph *b)
{
    if (a->roots.n != b->roots.n || a->results.n != b->results.n || a->params.n != b->params.n)
        return false;
    Scratch s = {.graph = graph_new(a->arena, a->diags, NULL), .known = idmap_new(a->arena)};
    Node **in_a = intern_all(&s, a), **in_b = intern_all(&s, b);
    for (uint32_t i = 0; i < a->params.n; i++)
        if (in_a[a->params.at[i]->id] != in_b[b->params.at[i]->id]) return false;
    for (uint32_t i = 0; i < a->results.n; i++)
        if (in_a[a->results.at[i]->id] != in_b[b->results.at[i]->id]) return false;
    for (uint32_t i = 0; i < a->roots.n; i++) {
        const Node *x = a->roots.at[i], *y = b->roots.at[i];
        if (x->op != y->op || !attrs_equal(x->attrs, y->attrs) ||
            in_a[x->args[0]->id] != in_b[y->args[0]->id])
            return false;
    }
    return true;
}
