// Private to the recompute pass: which forward values the backward part recomputes.
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/passes.h"

typedef struct Recompute {
    Graph *src, *dst;
    Remap map;
    const IdMap *done; // regions that were rebuilt
    const PassOptions *o;
    Entry *entry; // NULL: the graph is a region
    // By old id.
    Node **clone[2];   // in dst: clones in cheap chains; clones with CLONE_LATER
    uint16_t *cost;    // of a cheap chain: operations per element, from stored values; 0: not cheap
    const Node **base; // of a chain: the large stored value that it reads, if any
    bool *several;     // the chain reads several of them
    bool *stored;      // its readers need it in memory
    bool *later;       // has a clone that is placed after the gradients before it
    bool *gone;        // dropped after the forward part: the backward part reads a clone
} Recompute;

// Whether n is a view of one operand (and, for a pad, a constant): its readers read that operand.
static inline bool recompute_is_view(const Node *n)
{
    return node_class(n) == CLS_VIEW && (n->nargs == 1 || node_has(n, OPF_MOVES));
}

// Elementwise code and views are computed in the kernels that read them.
static inline bool recompute_is_fused(const Node *n)
{
    return node_class(n) == CLS_ELEMENTWISE || recompute_is_view(n);
}

// Drops the forward values that are cheapest to recompute per byte, until the live bytes of the
// others and of recomputed values are at most [most]. Sets [later] and [gone]. (recompute_choose.c)
void recompute_choose(Recompute *r, int64_t most);

// Lower bounds of the seconds of the node's arithmetic on the device, and of moving so many bytes.
// (recompute_cost.c)
double recompute_seconds(const Target *t, const Node *n);
double recompute_move(const Target *t, double bytes);

#endif
