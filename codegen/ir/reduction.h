// The accumulators of reductions: the accumulator column of ir/ops.def.
#ifndef CODEGEN_REDUCTION_H
#define CODEGEN_REDUCTION_H

#include "codegen/ir/body.h"

typedef struct Accumulator {
    const char *functor; // CUDA: the prelude's struct that combines two
    // CUDA: the type of an accumulator; %s is the arithmetic type; NULL: the type of the value.
    const char *type;
    const char *result;   // CUDA: the field that is the result
    const char *parts[2]; // CUDA: the fields that are stored between two kernels
    int nparts;           // 1: the value itself
    // Combines an accumulator with an element, one value each; NULL: not possible in this form.
    const char *step;
    const char *bool_step;
    const char *omp, *bool_omp; // C: the operator in OpenMP's reduction clause
    enum { START_LOW, START_HIGH, START_ZERO, START_ONE } start;
    int words;  // size in units of its arithmetic type
    bool adds;  // adds up elements, in a wider type
    bool place; // the result is the position of the value (i32); C: the value is kept separately
    bool runs;  // CUDA: a thread keeps an NcRun for its own columns
} Accumulator;

const Accumulator *accumulator(Op reduction);
static inline const Accumulator *inst_acc(const Inst *v)
{
    return accumulator(v->op);
}
bool reduces_with(const Body *b, Accumulate acc); // whether the body has such a reduction, live or
                                                  // not
// Whether threads keep an NcRun: elements are values, not accumulators of other reductions.
static inline bool inst_runs(const Inst *v)
{
    return inst_acc(v)->runs && v->na == 1;
}
int acc_bytes(const Inst *v);                 // of an accumulator in registers
DType acc_part_type(const Inst *v, int part); // type of a part in a scratch buffer
DType acc_type_of(const Node *n);             // type in which a reduction of the graph accumulates

#endif
