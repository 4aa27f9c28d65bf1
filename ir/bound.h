// How far a right computation may be from the evaluator's value: the one tolerance of netc.
//
// With EvalEnv.bound the evaluator keeps beside every value an error, element by element, downwards
// and upwards: what rounding can have done to it in a program that computes the same in another
// order, each operation in its own type.
//
//   every operation    how far its result moves when an operand moves by its error, and u |result|
//                      where the result was rounded; u is the unit roundoff of its type
//   a sum of K terms   the errors of the terms, and u/4 sqrt(K) sum |terms|, u of the accumulator
//   a contraction      the same, but the errors of its terms count as independent of each other:
//   the
//                      root of the sum of their squares; operands rounded to tf32 are such errors
//   a step             a comparison, a cast to a narrower type, an index: the error is the whole
//                      step where the operands' errors reach it, else none; what is gathered
//                      through such an index may be any of the elements it may mean
//
// So a sum that cancels may be far off and one that does not may not, and a narrow type loosens
// what is computed from it and nothing else. Values without error are exact: data, indices,
// integers.
//
// An element is right when |have - want| <= 2 u |want| + BOUND_SLACK error. NaN and infinities
// match exactly, unless an error reaches the end of the type's range. An element is undecided when
// its allowance is as large as the element and as the root mean square of its tensor: zero would
// do; or where what was there before would.
#ifndef IR_BOUND_H
#define IR_BOUND_H

#include "ir/eval.h"

enum { BOUND_SLACK = 16 };

// u |x|, and no less than the type's smallest normal number: what rounding x to the type may do.
double bound_rounding(DType t, double x);

// How far element i may be from the value, downwards and upwards; infinite: anything goes.
void bound_allowed(const Value *want, int64_t i, double *below, double *above);

typedef struct Agreement {
    int64_t compared, wrong, undecided;
    double worst;               // the largest difference over what is allowed; above 1: wrong
    int64_t at;                 // the element with it; -1: there are no elements
    double have, want, allowed; // at that element
} Agreement;

// All elements of two values of one shape; [want] is the evaluator's. before: what it replaces, or
// NULL.
Agreement bound_compare(const Value *have, const Value *want, const Value *before);

#endif
