// What the files of the errors of values share: one rule a class of ops. Private to ir/.
//
// Most rules run the op's own rule of the evaluator on other numbers: on the operands at the ends
// of their errors, on magnitudes, on the errors themselves. So few rules know an index or an axis.
#ifndef IR_BOUND_OPS_H
#define IR_BOUND_OPS_H

#include "ir/bound.h"
#include "ir/eval_ops.h"

typedef enum Side { BELOW, ABOVE } Side;

double bound_epsilon(DType t); // the unit roundoff
double bound_largest(DType t); // the largest finite number

// Widens an error so that it lets the value v be y. Where only one of them is a number it lets it
// be anything.
void bound_admit(double error[2], double v, double y);
// What rounding a result to x of the type may do to it.
double bound_lost(DType t, double x);
// Adds what rounding v may do, which does not carry it across zero.
void bound_add_rounding(double error[2], double v, double lost);

// What of an element: its error on a side, the value at the end of that side, magnitudes, squares.
typedef enum Part {
    ERROR_BELOW = BELOW,
    ERROR_ABOVE = ABOVE,
    LOWEST,
    HIGHEST,
    NO_NUMBER, // NaN where anything goes, else the value
    DOUBT,     // 1 where there is an error
    MAGNITUDE, // of what is no number: none
    LARGEST,   // magnitude
    GROWING,   // the same, and no less than 1
    SHRINKING, // the smallest magnitude, and no more than 1
    SQUARE,    // above 0, so that no error is lost beside it
    LARGEST_SQUARE,
    ERROR_SQUARE, // of what is no step
    STEP,         // an error of a quarter of the value and more
    REACH_SQUARE  // of the error with the element's last place
} Part;

Value *bound_part(Eval *e, const Value *v, Part p); // of every element, as doubles

// What a rule of the evaluator makes of other operands, in doubles and unrounded.
double *bound_rerun(Eval *e, EvalRule *rule, const Node *n, Value *const *args, const Type *like);
// The same for the op of a node with one operand, of which one part is taken.
double *bound_over(Eval *e, const Node *n, const Value *v, Part p, const Value *out);
// Runs the op on the errors of its first [count] operands; its other operands are indices.
void bound_along(Eval *e, const Node *n, Value *const *args, Value *out, uint32_t count);
// Whether x marks, in each line of a maximum's operand, the elements that equal it.
bool bound_marks_maximum(const Node *x);

EvalRule bound_elementwise, bound_gather, bound_scatter, bound_scatter_add, bound_dynamic_slice,
    bound_dynamic_update, bound_argmax, bound_argsort, bound_sum, bound_cumsum, bound_sqdev,
    bound_prod, bound_dot;

#endif
