// Rebuilding a graph together with the regions inside its nodes, innermost first, by a worklist.
#ifndef PASSES_REGIONS_H
#define PASSES_REGIONS_H

#include "ir/graph.h"

typedef struct RegionVisit {
    Graph *g;
    Node *owner;   // the node whose region it is; NULL for the outermost graph
    Graph *parent; // the graph of that node
} RegionVisit;

typedef struct RegionList {
    VEC(RegionVisit) at;
} RegionList;

RegionList regions_innermost_first(Graph *g); // each graph once, the outermost one last

// Replaces each graph by the result of one(ctx, done, graph), which may be the graph itself. [done]
// maps the graphs inside it to their replacements.
Graph *over_regions(Graph *g, Graph *(*one)(void *ctx, const IdMap *done, Graph *g), void *ctx);
// The node's image with its regions replaced, for one() that rebuilds its graph; [any] is set if a
// region was replaced.
Node *remap_with_regions(Remap *r, const IdMap *done, Node *n, bool *any);
// Rebuilds a graph node by node: rewrite() returns the replacement of a node, with operands from
// [map], or NULL to copy the node. Only graphs with a node that is [wanted] are rebuilt; NULL: all
// are. Returns the graph itself if nothing changed. For use in a one() of over_regions.
typedef Node *Rewrite(void *ctx, Graph *dst, Node *n, Node *const *map);
typedef bool Wanted(void *ctx, const Node *n);
Graph *rewrite_nodes(Graph *g, const IdMap *done, Wanted *wanted, Rewrite *rewrite, void *ctx);
Graph *rebuilt(const IdMap *done, Graph *g);         // the replacement, or g
bool any_rebuilt(const IdMap *done, const Graph *g); // whether a region inside it has one

// By id: how often live nodes and the results of a region read each node.
uint32_t *live_readers(const Graph *g);

#endif
