// Private to the pass `vectors`.
#ifndef PASSES_VECTORS_H
#define PASSES_VECTORS_H

#include "ir/graph.h"

typedef struct SpreadTo {
    int64_t rows;                // of the matrix that is multiplied by the vector
    Node *const *map;            // by id in the old graph: the new node
    const uint32_t *uses;        // ... number of live readers; an operand read twice counts twice
    const uint32_t *by_products; // ... number of such products that read it
} SpreadTo;

// The vector broadcast to (rows, cols) of the matrix if it depends on sums over all of its own
// elements: these are then computed again for each row. NULL: it depends on no such sum, or on too
// much.
Node *vector_spread(Graph *g, const Node *vector, const SpreadTo *to);

#endif
