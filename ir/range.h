// The range of an integer or bool value, as far as its op and the ranges of its operands determine
// it.
#ifndef IR_RANGE_H
#define IR_RANGE_H

#include "ir/graph.h"

typedef struct Range {
    int64_t low, high; // both are reached at most
} Range;

// Of every value of an integer type or bool.
Range range_of_type(DType t);
bool range_within(Range r, Range in);
// Of an elementwise op other than cast, whose result is of type t. exact: no value runs over the
// type, so that it is what the op gives of whole numbers; else the range is the type's. Ops that it
// does not know have the range of their type.
Range range_of_op(Op op, DType t, const Range *a, bool *exact);
// Of an element of n, which is of an integer type or bool.
Range range_of_node(const Node *n);

#endif
