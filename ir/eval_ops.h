// Shared by the files of the evaluator: one function per op, named after it. Private to ir/.
#ifndef IR_EVAL_OPS_H
#define IR_EVAL_OPS_H

#include "ir/eval.h"
#include "ir/scalar.h"

// The values of one graph being evaluated.
typedef struct Frame {
    Value **value;    // by node id; region ops: result 0
    Value ***results; // by node id; region ops: all results
    Value **params;   // of a region
    bool *is_short;   // by node id, if error bounds are computed: all results that depend on it are
                      // rounded to 16 bits
    bool scales;      // of a call: values may be scaled before they are rounded
                      // (passes/attention/attention.c)
} Frame;

typedef struct Eval {
    EvalEnv *env;
    EvalResult *out;
    Diags *diags;
    Frame *frame;
    bool failed; // an error has been reported
    // Only for the outermost graph: values from an earlier run, and which of them must be computed
    // again; or NULL.
    Value *const *known;
    const bool *stale;
    bool quick; // does not look for NaN and infinities
} Eval;

// args are the operands' values. [out] has the node's type and is zeroed; for ops that return
// another value's data it is empty.
typedef void EvalRule(Eval *e, const Node *n, Value *const *args, Value *out);
#define eval_cumprod eval_cumsum
#define eval_cummax  eval_cumsum
#define eval_cummin  eval_cumsum
#define EW(id, ...)
#define OP(id, ...) EvalRule eval_##id;
#include "ir/ops.def"
#undef EW
#undef OP
EvalRule eval_elementwise;
// The type of the product of a repair, and by element of the result its place in the product.
void eval_repair_places(Arena *a, const Node *n, Type *dot, int64_t **place);
EvalRule *eval_rule(Op op);
void value_errors(Arena *a, Value *v);       // adds error bounds of 0
bool *bound_short(Arena *a, const Graph *g); // Frame.is_short
// Computes the error bounds of a value that has just been computed (ir/bound.c).
EvalRule bound_node;
// The error of carried value k of a loop after an iteration before which it was [was]; ir/bound.c.
void bound_carried(Eval *e, const Node *loop, uint32_t k, const Value *was, Value *now);

static inline bool value_is_float(const Value *v)
{
    return dtype_is_float(v->type.dtype);
}
static inline Scalar value_at(const Value *v, int64_t i)
{
    Scalar s = {.i = 0};
    if (value_is_float(v))
        s.f = v->f[i];
    else
        s.i = v->i[i];
    return s;
}
static inline void value_put(Value *v, int64_t i, Scalar s)
{
    if (value_is_float(v))
        v->f[i] = s.f;
    else
        v->i[i] = s.i;
}

#endif
