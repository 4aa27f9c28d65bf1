// Private to the pass `vectors`.
#ifndef PASSES_VECTORS_H
#define PASSES_VECTORS_H

#include "ir/graph.h"

typedef struct SpreadTo {
    int64_t rows;                // of the matrix that the vector is multiplied with
    Node *const *map;            // by id of the graph before: the node in the new one
    const uint32_t *uses;        // ... live readers; an operand that is read twice counts twice
    const uint32_t *by_products; // ... of these products
} SpreadTo;

// The vector over the matrix's rows and columns, (rows, cols), if it depends on sums over all of
// itself: these are computed for each row. NULL: it depends on none, or on too much.
Node *vector_spread(Graph *g, const Node *vector, const SpreadTo *to);

#endif
