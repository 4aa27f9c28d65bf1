// Dots over other axes; permutes around a dot folded into these.
#ifndef PASSES_DOT_H
#define PASSES_DOT_H

#include "ir/axes.h"

// A dot of args[] over the given axes, with the other attributes of the original; swap: args[] are
// exchanged, but the axes are not yet.
Node *dot_with(Graph *g, const Node *dot, Node *const *args, const DotAxes *axes, bool swap);
// [dot] with operands [args], with permutes of these folded into its axes if they keep the order of
// the free axes; NULL if there are none.
Node *dot_without_permutes(Graph *g, const Node *dot, Node *const *args);
// permute(dot(a, b)) as dot(b, a) if it only exchanges the free axes of a and b; NULL for other
// permutes.
Node *permuted_dot(Graph *g, const Node *permute, const Node *dot);

#endif
