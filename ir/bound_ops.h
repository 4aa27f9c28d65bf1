// Shared by the files that compute error bounds: one rule per class of ops. Private to ir/.
//
// Most rules evaluate the op with the evaluator's own rule on other numbers: on the operands at the
// ends of their error intervals, on magnitudes, on the errors themselves. So few rules deal with
// indices or axes.
#ifndef IR_BOUND_OPS_H
#define IR_BOUND_OPS_H

#include <float.h>

#include "ir/bound.h"
#include "ir/eval_ops.h"

typedef enum Side { BELOW, ABOVE } Side;

// fmax and fmin without a call: of a number and a NaN they return the number.
static inline double larger(double a, double b)
{
    return a > b || b != b ? a : b;
}
static inline double smaller(double a, double b)
{
    return a < b || b != b ? a : b;
}

// The unit roundoff, and the largest finite number.
static inline double bound_epsilon(DType t)
{
    return t == DT_BF16 ? 0x1p-8 : t == DT_F16 ? 0x1p-11 : t == DT_F64 ? 0x1p-53 : 0x1p-24;
}
static inline double bound_largest(DType t)
{
    return t == DT_F64 ? DBL_MAX : t == DT_F16 ? 65504 : FLT_MAX;
}

// The error of rounding x to the type: u |x|, but at least the smallest f16 number or, for other
// types, the smallest normal number. bound_lost is the error of a computed result: BOUND_SLACK
// times that.
static inline double bound_rounding(DType t, double x)
{
    double least = t == DT_F64 ? DBL_MIN : t == DT_F16 ? 0x1p-24 : FLT_MIN;
    return larger(bound_epsilon(t) * fabs(x), least);
}
static inline double bound_lost(DType t, double x)
{
    return BOUND_SLACK * bound_rounding(t, x);
}

// Widens an error so that the value v may be y. If only one of the two is a number, v may be
// anything.
static inline void bound_admit(double error[2], double v, double y)
{
    double d = y - v;
    if (isnan(d) && y != v && !(isnan(v) && isnan(y))) error[BELOW] = error[ABOVE] = INFINITY;
    error[BELOW] = -d > error[BELOW] ? -d : error[BELOW]; // (without branches; NaN is not larger)
    error[ABOVE] = d > error[ABOVE] ? d : error[ABOVE];
}

// Adds a rounding error. It does not carry the value across zero.
static inline void bound_add_rounding(double error[2], double v, double lost)
{
    for (int k = 0; k < 2; k++) {
        bool ends = (k == BELOW ? v : -v) > 0 && error[k] <= fabs(v);
        error[k] = ends ? smaller(error[k] + lost, fabs(v)) : error[k] + lost;
    }
}

// A quantity of an element: its error on a side, the value at the end of that side, magnitudes,
// squares.
typedef enum Part {
    ERROR_BELOW = BELOW,
    ERROR_ABOVE = ABOVE,
    LOWEST,
    HIGHEST,
    NO_NUMBER, // NaN if the error is infinite on both sides, otherwise the value
    DOUBT,     // 1 where the error is not 0
    MAGNITUDE, // 0 for NaN
    LARGEST,   // the largest magnitude within the error
    GROWING,   // the magnitude, but at least 1
    SHRINKING, // the smallest magnitude, but at most 1
    SQUARE,    // greater than 0, so that no error is lost next to it
    LARGEST_SQUARE,
    ERROR_SQUARE, // 0 where the error is a step
    STEP,         // an error of at least a quarter of the value
    REACH_SQUARE  // of the error plus the element's last place
} Part;

Value *bound_part(Eval *e, const Value *v, Part p); // of every element, as doubles

// The result of an evaluator's rule on other operands, in doubles and not rounded.
double *bound_rerun(Eval *e, EvalRule *rule, const Node *n, Value *const *args, const Type *like);
// The same for the op of a node with one operand, applied to one Part of it.
double *bound_over(Eval *e, const Node *n, const Value *v, Part p, const Value *out);
// Runs the op on the errors of its first [count] operands; the other operands are indices.
void bound_along(Eval *e, const Node *n, Value *const *args, Value *out, uint32_t count);
// Whether x marks the elements of a maximum's operand that equal it, in each line.
bool bound_marks_maximum(const Node *x);

EvalRule bound_elementwise, bound_gather, bound_scatter, bound_scatter_add, bound_scatter_max,
    bound_dynamic_slice, bound_dynamic_update, bound_argmax, bound_argsort, bound_sum, bound_cumsum,
    bound_sqdev, bound_prod, bound_dot, bound_repair;

#endif
