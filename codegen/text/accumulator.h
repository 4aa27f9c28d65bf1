// The accumulators of reductions (ir/reduction.h) in generated text.
#ifndef CODEGEN_ACCUMULATOR_H
#define CODEGEN_ACCUMULATOR_H

#include "codegen/ir/reduction.h"
#include "codegen/text/print.h"

const char *emit_identity(Emit *e, Op op, DType t); // what the value starts from
const char *emit_combine(Emit *e, Op op, DType t, const char *acc, const char *v); // a new acc

// The same with an instruction of the open scope. emit_fused: a sum takes a product of its type
// without rounding it first (where the processor does that). That is not the graph's to say (the
// pass `contract`), no more than the order of the additions: a reduction belongs to one cluster
// (fuse_place.c), and who reads it elsewhere reads what that one stores, so that no second kernel
// has another value of it. The product by itself is rounded wherever it is computed. emit_taken:
// so on CUDA only. (On the CPU a sum along a vector would be slower: a chain of longer operations,
// which not every compiler spreads over a vector.)
const char *emit_fused(Emit *e, Op op, DType t, const char *acc, int value);
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
