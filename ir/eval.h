// The reference evaluator: runs any graph in double precision and exact integers, with simple and
// slow code.
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/module.h"

// A tensor of the evaluator: floats as double, bool and integers as int64_t, row-major.
typedef struct Value {
    Type type;
    union {
        double *f;
        int64_t *i;
    };
    double *error[2]; // ir/bound.h: below and above each element; NULL: exact, or not requested
} Value;

Value value_new(Arena *a, const Type *t); // zeros
static inline double value_get(const Value *v, int64_t index)
{
    return dtype_is_float(v->type.dtype) ? v->f[index] : (double)v->i[index];
}
// Converts elements from their stored form (f16 as 16 bits, ...) and back.
void value_from_bytes(Value *v, const void *bytes);
void value_to_bytes(const Value *v, void *bytes);
void value_from_const(Value *v, const Node *n); // v is of the const's type

typedef struct EvalEnv {
    Arena *arena;
    StrMap inputs; // name -> Value *
    StrMap cells;  // name -> Value *, entry-time values
    bool round;    // round every float result to the node's own type instead of keeping doubles
    bool bound;    // the same, and error bounds of every value (ir/bound.h)
    // If not 0 (instead of bound): every value is changed, by a draw that depends on this and on
    // the value, by up to a quarter of what its own rounding may do. This simulates a program whose
    // roundings differ. The change is smaller than rounding itself may be, since errors of a
    // contraction's terms count as independent.
    uint64_t noise;
    bool tf32; // f32 operands of contractions may be rounded to tf32: counted as an error, not
               // applied
} EvalEnv;

typedef struct EvalResult {
    StrMap outputs;            // name -> Value *
    StrMap assigns;            // cell -> Value *, the values to be committed
    const Node *failed_assert; // NULL if all assertions held
    const Node *bad_index;     // the first gather whose index was out of range, else NULL
    int64_t bad_value;
    const Node *first_nonfinite; // the first node whose result holds NaN or Inf, else NULL
} EvalResult;

// Evaluates every root. Returns false only if an input or a cell is missing (reported through
// g->diags).
bool eval_graph(const Graph *g, EvalEnv *env, EvalResult *out);
// The same, and the value of every node by id, values.at[id] (for checks and bisection).
bool eval_graph_all(const Graph *g, EvalEnv *env, EvalResult *out, Value **values);
// Runs eval_graph again after the values of some nodes have changed. values.at[id] come from an
// earlier run or from elsewhere and are kept unless stale[id]; stale must include everything that
// depends on what changed. Does not report first_nonfinite. all: receives every value by id, or
// NULL.
bool eval_graph_again(const Graph *g, EvalEnv *env, EvalResult *out, Value *const *values,
                      const bool *stale, Value **all);

#endif
