// Transposes around contractions, which are only other axes of them.
#ifndef PASSES_DOT_H
#define PASSES_DOT_H

#include "ir/graph.h"

// The contraction [dot] of [args], reading through permutes of them where the order of the free
// axes stays; NULL when there is nothing to read through.
Node *dot_without_permutes(Graph *g, const Node *dot, Node *const *args);
// permute(dot(a, b)) that only exchanges a's free axes with b's is dot(b, a); NULL for other
// permutes.
Node *permuted_dot(Graph *g, const Node *permute, const Node *dot);

#endif
