// Folding of permutes around a dot into its axes.
#ifndef PASSES_DOT_H
#define PASSES_DOT_H

#include "ir/graph.h"

// [dot] with operands [args], with permutes of these folded into its axes if they keep the order of
// the free axes; NULL if there are none.
Node *dot_without_permutes(Graph *g, const Node *dot, Node *const *args);
// permute(dot(a, b)) as dot(b, a) if it only exchanges the free axes of a and b; NULL for other
// permutes.
Node *permuted_dot(Graph *g, const Node *permute, const Node *dot);

#endif
