// The values that a function keeps for its gradients instead of computing them again; see kept.c.
#ifndef LIB_KEPT_H
#define LIB_KEPT_H

#include "lib/lib.h"

#define KEPT "@kept."

// By node id: "@kept.N" if the value is worth keeping, otherwise NULL. varies: by id, whether it
// depends on an input that is not an argument.
const char **kept_names(const Graph *g, const bool *varies);
// The graph after gradients were taken, with the nodes of these names replaced by inputs of these
// names. The inputs have type [low] if that is not DT_COUNT and the node is f32.
Graph *kept_taken(Graph *g, DType low);
// The output for such a node: its value, rounded if necessary.
Node *kept_given(Graph *g, Node *value, DType low);

#endif
