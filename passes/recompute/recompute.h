// Internal: what the backward part computes again.
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/passes.h"

typedef struct Recompute {
    Graph *src, *dst;
    Remap map;
    const IdMap *done; // regions that were rebuilt
    const PassOptions *o;
    Entry *entry; // NULL: the graph is a region's of another
    // By old id.
    Node **clone[2];   // in dst: of cheap chains, of what is computed again later
    uint16_t *cost;    // of a cheap chain: flops an element, down to stored values; 0: none
    const Node **base; // of a chain: the large stored value that it reads, if it is one
    bool *several;     // it reads more
    bool *stored;      // it has to lie in memory, for what reads it
    bool *later;       // has a clone that is no earlier than the gradients in front of it
    bool *gone;        // that is what the backward part reads
} Recompute;

// Of the values that wait for the backward part those that are cheap to compute again for their
// bytes, until the others and what is computed again for a while are within [most] bytes: sets
// later and gone. (recompute_choose.c)
void recompute_choose(Recompute *r, int64_t most);

// Seconds that a device needs for the node at least, besides what its operands and results move.
// (recompute_cost.c)
double recompute_seconds(const Target *t, const Node *n);
double recompute_move(const Target *t, double bytes);

#endif
