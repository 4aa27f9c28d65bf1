// A sort of which only the first few elements along its axis are read finds only these, which takes
// a fraction of the time and of the memory (codegen/lower/lower_ordered.c):
//
//     sort(x)[..., :k]   becomes   sort(x) @{first=k}
//
// and the same for argsort. If several slices read a sort, the longest decides.
//
// Requires: gradients expanded. Keeps: every value to the bit. Breaks: nothing.
#include "ir/target.h"
#include "passes/passes.h"
#include "passes/regions.h"

static bool is_sort(const Node *n)
{
    return n->op == OP_sort || n->op == OP_argsort;
}

// How many of the first elements of [sort] its reader needs.
static int64_t reach(const Node *reader, const Node *sort)
{
    const int64_t axis = attr_int(sort, ATTR_axis, 0);
    return reader->op == OP_slice ? attr_ints(reader, ATTR_limit, NULL)[axis]
                                  : sort->type.dim[axis];
}

typedef struct Firsts {
    const Target *target;
    int64_t *first; // by id of a sort: how many of the first elements its readers need
} Firsts;

static void note(const Firsts *f, const Node *sort, int64_t n)
{
    if (is_sort(sort) && n > f->first[sort->id]) f->first[sort->id] = n;
}

static bool finds_first(void *ctx, const Node *n)
{
    const Firsts *f = ctx;
    return is_sort(n) && !attr_find(n, ATTR_first) &&
           target_finds_first(f->target, n->type.dim[attr_int(n, ATTR_axis, 0)], f->first[n->id]);
}

static Node *replaced(void *ctx, Graph *g, Node *n, Node *const *map)
{
    const Firsts *f = ctx;
    if (n->op == OP_slice && finds_first(ctx, n->args[0])) {
        graph_stamp(g, n, NULL);
        return graph_node(g, OP_slice, &map[n->args[0]->id], 1, n->attrs);
    }
    if (!finds_first(ctx, n)) return NULL;
    Attrs attrs = *n->attrs;
    attr_set_int(&attrs, ATTR_first, f->first[n->id]);
    graph_stamp(g, n, NULL);
    return graph_node(g, n->op, &map[n->args[0]->id], 1, &attrs);
}

static Graph *first_graph(void *ctx, const IdMap *done, Graph *g)
{
    Firsts f = {ctx, NEW_ARRAY(g->arena, int64_t, g->nodes.n + 1)};
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && live[i]; k++)
            if (is_sort(n->args[k])) note(&f, n->args[k], reach(n, n->args[k]));
    }
    for (uint32_t i = 0; i < g->results.n; i++) note(&f, g->results.at[i], INT64_MAX);
    return rewrite_nodes(g, done, finds_first, replaced, &f);
}

Graph *pass_first_sorted(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    return o->target ? over_regions(g, first_graph, (void *)(uintptr_t)o->target) : g;
}
