// Private to the pass: a loop, and what it keeps.
#ifndef PASSES_FISSION_H
#define PASSES_FISSION_H

#include "passes/lift/lift.h"
#include "passes/recurrences.h"

typedef struct FissionLoop {
    const Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    int64_t count;
    RecurrenceShape shape;
    int64_t bytes;  // that an iteration may cost
    bool fits;      // it can be one kernel as it is
    bool products;  // it remains a loop, and only products leave it
    bool *moving;   // by id: depends on carried values
    bool *drawn;    // by id: computed from draws, and not from carried values
    Varying varies; // what differs between iterations
    bool *liftable; // by id: independent of carried values, for all iterations at once
    bool *inside;   // by id: the new loop computes it
    bool *before;   // by id: computed before the loop, and scanned
    bool *after;    // by id: computed after the loop
    bool *stacked;  // by id: the new loop stacks it
    bool *leaves;   // by result: computed after the loop
    bool *summed;   // by result: carried as a sum
    bool any;
} FissionLoop;

// The index of a parameter of the body; UINT32_MAX: x is none.
uint32_t fission_param(const Node *x);
// fission_divide.c: decides what leaves the loop n with this body. summed: by result, whether only
// its sum over the iterations is read. memory_limit: bytes, or 0.
FissionLoop fission_divide(const Node *n, Graph *body, const bool *summed, int64_t memory_limit);
// fission_build.c: replaces the loop in dst. result: by result of the old loop, its replacement.
// False: it is kept.
bool fission_build(Graph *dst, const FissionLoop *l, Node *const *map, Node **result);

#endif
