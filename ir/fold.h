// Shared by fold.c and fold_view.c. Private to ir/.
#ifndef IR_FOLD_H
#define IR_FOLD_H

#include "ir/door.h"
#include "ir/scalar.h"

// If all elements of n have one value: sets *v and returns true.
bool uniform_value(const Node *n, Scalar *v);
// A constant of type t whose elements are all v.
Node *fold_const(Graph *g, const Type *t, Scalar v);

Node *fold_view(Graph *g, const Infer *in); // ir/fold_view.c

#endif
