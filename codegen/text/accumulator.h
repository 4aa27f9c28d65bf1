// The accumulators of reductions (ir/reduction.h) in generated text.
#ifndef CODEGEN_ACCUMULATOR_H
#define CODEGEN_ACCUMULATOR_H

#include "codegen/ir/reduction.h"
#include "codegen/text/print.h"

const char *emit_identity(Emit *e, Op op, DType t); // the initial value
// The new value of acc.
const char *emit_combine(Emit *e, Op op, DType t, const char *acc, const char *v);

// The same as an instruction in the open scope. emit_fused: a sum takes a product of its type
// without rounding it first (if the processor can). Like the order of additions, this is not
// decided in the graph (pass `contract`): a reduction belongs to one cluster (fuse_place.c), whose
// result all readers use, so no second kernel computes a different value for it. The product itself
// is rounded wherever it is used otherwise. emit_taken: the same, but only on CUDA. (On the CPU, a
// sum along a vector would be slower: a chain of operations with a higher latency, which not all
// compilers vectorize.)
const char *emit_fused(Emit *e, Op op, DType t, const char *acc, int value);
const char *emit_taken(Emit *e, Op op, DType t, const char *acc, int value);

// -- CUDA -----------------------------------------------------------------------------------------
DType acc_type(const Inst *v); // arithmetic type of the value
const char *acc_struct(Emit *e, const Inst *v);
const char *acc_start(Emit *e, const Inst *v);
// An accumulator made from its parts; [count]: its number of elements, if that matters.
const char *acc_of_parts(Emit *e, const Inst *v, const char *part0, const char *part1,
                         const char *count);
const char *acc_join(Emit *e, const Inst *v, const char *a, const char *b);
// Adds the operand's element at index [place]; for reductions whose accumulator has a step.
const char *acc_step(Emit *e, const Inst *v, const char *acc, const char *place);
const char *acc_result(Emit *e, const Inst *v, const char *acc);
// The result of [all], in which the threads' accumulators are combined; acc keeps what exceeds the
// result.
const char *acc_joined(Emit *e, const Inst *v, const char *acc, const char *all);

#endif
