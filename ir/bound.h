// How far a right computation may be from the evaluator's value: the one tolerance of netc.
//
// With EvalEnv.bound the evaluator keeps beside every value an error, element by element, downwards
// and upwards: all that a right program may compute in its place lies within. u is the unit
// roundoff of a type, sums and contractions round in their accumulator's.
//
//   rounding           BOUND_SLACK u |result|: a right program may compute the same in another form
//                      (of casts only those to 16 bits inside a call: its kernel may scale first)
//   every operation    whatever its operands' values within their errors make of it: where they
//                      reach a step (a comparison, a cast, an index) it may be taken, and it is one
//                      step; where they reach a condition both branches may be right
//   a sum of K terms   the errors of the terms, and 4 u sqrt(sum n^2) sum |terms|, n how often
//                      each value stands among them: sqrt(K) where all differ. Never more than
//                      K u sum |terms|, which no order exceeds
//   a contraction      the same, but the errors of its terms count as independent of each other
//                      where they differ: the root of the sum of n times their squares; operands
//                      rounded to tf32 are such errors
//   a product of K     K u |result|; where factors taken first may leave the range, anything
//
// So a sum that cancels may be far off and one that does not may not, and a narrow type loosens
// what is computed from it and nothing else. Values without error are exact: data, indices,
// integers. An infinite error on one side: infinity, too, may be right; on both: anything, NaN too.
//
// An element is right when it differs by no more than 2 u |want| and its error. NaN and infinities
// match exactly, unless an error reaches the end of the type's range. An element is undecided when
// its allowance is as large as the element and as the root mean square of its tensor: zero would
// do; or where what was there before would.
#ifndef IR_BOUND_H
#define IR_BOUND_H

#include "ir/eval.h"

enum { BOUND_SLACK = 16 };

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
