// Outputs that are slices (of a padded product, fuse_pad.c) are copied. If others read the slice,
// too, the copy becomes an elementwise operation, which their kernel may include: a row kernel that
// finds the largest of each row's elements stores them on the way.
#include "ir/graph.h"
#include "passes/fuse/fuse.h"
#include "passes/regions.h"

static bool is_root_of(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i]->op == OP_output && g->roots.at[i]->args[0] == n) return true;
    return false;
}

// Whether n is a slice that is an output and that reductions read.
static bool is_cut(const Graph *g, const uint32_t *readers, const bool *reduced, const Node *n)
{
    return n->op == OP_slice && readers[n->id] > 1 && reduced[n->id] && is_root_of(g, n);
}

Graph *fuse_cut(Graph *g)
{
    const uint32_t *readers = live_readers(g);
    bool *reduced = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; readers[i] && k < g->nodes.at[i]->nargs; k++)
            reduced[g->nodes.at[i]->args[k]->id] |= node_class(g->nodes.at[i]) == CLS_REDUCE;
    for (uint32_t i = 0; i < g->nodes.n; i++) any |= is_cut(g, readers, reduced, g->nodes.at[i]);
    if (!any) return g;
    Remap r = remap_begin(g, graph_beside(g));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Node *y = remap_node(&r, n);
        if (!is_cut(g, readers, reduced, n)) continue;
        graph_stamp(r.dst, n, n->name);
        r.map[i] = graph_unary(r.dst, OP_stop_gradient, y);
    }
    return remap_end(&r);
}
