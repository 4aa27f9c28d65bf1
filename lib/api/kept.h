// The values that a function keeps for its gradients instead of computing them again; see kept.c.
#ifndef LIB_KEPT_H
#define LIB_KEPT_H

#include "lib/lib.h"

#define KEPT "@kept."

// By id of a node of the graph, its name "@kept.N" where its value is worth keeping, else NULL.
// varies: by id, whether it depends on an input that is no argument.
const char **kept_names(const Graph *g, const bool *varies);
// The graph after gradients were taken, in which nodes called so are inputs called so; of [low]
// where that is not DT_COUNT, and the node of f32.
Graph *kept_taken(Graph *g, DType low);
// What is put out for that: the value itself, or rounded.
Node *kept_given(Graph *g, Node *value, DType low);

#endif
