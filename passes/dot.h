// Folding of permutes around a dot into its axes.
#ifndef PASSES_DOT_H
#define PASSES_DOT_H

#include "ir/graph.h"

// [dot] with operands [args], where permutes of these that keep the order of the free axes are
// folded into its axes; NULL when there are none.
Node *dot_without_permutes(Graph *g, const Node *dot, Node *const *args);
// permute(dot(a, b)) that only exchanges the free axes of a and b, as dot(b, a); NULL for other
// permutes.
Node *permuted_dot(Graph *g, const Node *permute, const Node *dot);

#endif
