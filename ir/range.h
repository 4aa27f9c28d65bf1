// The range of an integer or bool value, as far as its op and the ranges of its operands determine
// it.
#ifndef IR_RANGE_H
#define IR_RANGE_H

#include "ir/graph.h"

typedef struct Range {
    int64_t low, high; // bounds, both included
} Range;

// The range of an integer type or bool.
Range range_of_type(DType t);
bool range_within(Range r, Range in);
// The range of an elementwise op other than cast, with a result of type t. exact: no value
// overflows the type, so the result is that of the op on whole numbers; otherwise the range is the
// type's. Unknown ops have the range of their type.
Range range_of_op(Op op, DType t, const Range *a, bool *exact);
// The range of the elements of n, which is of an integer type or bool: through views, reads by
// index and sorts, and of results such as argmax that are places along an axis.
Range range_of_node(const Node *n);
// In how many of the low bits the elements of n, integers or bool, can differ.
int range_bits(const Node *n);

// Whether n is a gather or scatter whose index needs a check: neither its type nor its declaration
// shows that it is in range.
bool range_index_may_fail(const Node *n);

#endif
