// The accumulators of reductions: the accumulator column of ir/ops.def.
#ifndef CODEGEN_REDUCTION_H
#define CODEGEN_REDUCTION_H

#include "codegen/ir/body.h"

typedef struct Accumulator {
    const char *functor;  // CUDA: the prelude's struct that joins two
    const char *type;     // CUDA: of one, of arithmetic type %s; NULL: of the value itself
    const char *result;   // CUDA: the field that is the result
    const char *parts[2]; // CUDA: the fields that are kept between two kernels
    int nparts;           // 1: the value itself
    const char *step;     // of an accumulator and an element, a value each; NULL: not so simple
    const char *bool_step;
    const char *omp, *bool_omp; // C: of OpenMP's reduction clause
    enum { START_LOW, START_HIGH, START_ZERO, START_ONE } start;
    int words;  // that one takes, of its arithmetic type
    bool adds;  // in a type that holds many
    bool place; // the result is where the value stands (i32); C: the value is kept beside it
    bool runs;  // CUDA: along its own columns a thread keeps an NcRun
} Accumulator;

const Accumulator *accumulator(Op reduction);
static inline const Accumulator *inst_acc(const Inst *v)
{
    return accumulator(v->op);
}
bool reduces_with(const Body *b, Accumulate acc); // a live or dead reduction of it
// Whether threads keep an NcRun: elements are values, not what other reductions have kept.
static inline bool inst_runs(const Inst *v)
{
    return inst_acc(v)->runs && v->na == 1;
}
int acc_bytes(const Inst *v);                 // of one, in registers
DType acc_part_type(const Inst *v, int part); // in a scratch buffer
DType acc_type_of(const Node *n);             // what a reduction of the graph adds up in

#endif
