// What reductions keep while they run, in generated text: the accumulator column of ir/ops.def.
#ifndef CODEGEN_ACCUMULATOR_H
#define CODEGEN_ACCUMULATOR_H

#include "codegen/text/print.h"

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
bool reduces_with(const Body *b, Accumulate acc);   // a live or dead reduction of it
int acc_bytes(const Inst *v);                       // of one, in registers
DType acc_part_type(const Inst *v, int part);       // in a scratch buffer
DType acc_type_of(const Node *n);                   // what a reduction of the graph adds up in
const char *emit_identity(Emit *e, Op op, DType t); // what the value starts from
const char *emit_combine(Emit *e, Op op, DType t, const char *acc, const char *v); // a new acc

// The same with an instruction of the open scope. CUDA: a sum takes a product of its type without
// rounding it first. That is not the graph's to say (the pass `contract`), no more than the order of
// the additions: a reduction belongs to one cluster (fuse_place.c), and who reads it elsewhere reads
// what that one stores, so that no second kernel has another value of it. The product by itself is
// rounded wherever it is computed. (On the CPU that would be slower: a chain of longer operations, which not every
// compiler spreads over a vector.)
const char *emit_taken(Emit *e, Op op, DType t, const char *acc, int value);

// -- CUDA -----------------------------------------------------------------------------------------
DType acc_type(const Inst *v); // arithmetic type of the value
const char *acc_struct(Emit *e, const Inst *v);
const char *acc_start(Emit *e, const Inst *v);
// One from its parts: of [count] elements, where that matters.
const char *acc_of_parts(Emit *e, const Inst *v, const char *part0, const char *part1,
                         const char *count);
const char *acc_join(Emit *e, const Inst *v, const char *a, const char *b);
// With the operand's element that stands at [place]; reductions whose accumulator has a step.
const char *acc_step(Emit *e, const Inst *v, const char *acc, const char *place);
const char *acc_result(Emit *e, const Inst *v, const char *acc);
// The result of what the threads joined to [all]; acc keeps what is more than the result.
const char *acc_joined(Emit *e, const Inst *v, const char *acc, const char *all);

#endif
