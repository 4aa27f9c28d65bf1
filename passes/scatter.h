// Parts of the pass scatter.
#ifndef PASSES_SCATTER_H
#define PASSES_SCATTER_H

#include "passes/passes.h"

// scatter_integers.c: scatter_add of floats as sums of integers. most: of the updates of one place.
// At most INT32_MAX updates.
Node *scatter_integers(Graph *g, const Node *n, Node *const *map, int64_t most);

#endif
