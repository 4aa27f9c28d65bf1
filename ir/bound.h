// How far a correct computation may be from the evaluator's value: the only tolerance in netc.
//
// With EvalEnv.bound the evaluator keeps error bounds with every element of every value, one
// downwards and one upwards: whatever a correct program may compute for the element lies within
// them. u is the unit roundoff of a type; sums and contractions use that of their accumulator.
//
//   rounding           BOUND_SLACK u |result|: a correct program may compute the same in another
//                      form (of casts, only those to 16 bits in a call: its kernel may scale
//                      first); a sum may read a contraction's result before that is rounded to 16
//                      bits
//   every operation    what it can make of its operands within their errors. If these reach a
//                      discontinuity (a comparison, a cast, an index), it may be crossed, by one
//                      step; if they reach a condition, both branches may be correct
//   a sum of K terms   the errors of the terms, and 4 u sqrt(sum n^2) sum |terms|, where n is how
//                      often each value occurs among them: sqrt(K) if all differ. Never more than
//                      K u sum |terms|, which no order of additions exceeds
//   a contraction      the same, but the errors of different terms count as independent of each
//                      other: the root of the sum of n times their squares. Rounding operands to
//                      tf32 is such an error
//   a product of K     K u |result|; unbounded if a product of some factors may leave the range
//
// So a sum may be far off only if its terms cancel, and a narrow type increases only the errors of
// what is computed from it. Data, indices and integers are exact: their error is zero. If the error
// is infinite on one side, infinity is also correct; on both sides, anything is, NaN included.
//
// An element is correct if it differs by no more than 2 u |want| plus its error. NaN and infinities
// must match exactly, unless the error reaches the end of the type's range. An element is undecided
// if its allowance is as large as the element and as the root mean square of its tensor, so that
// zero would pass, or if the value that was there before would pass.
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
