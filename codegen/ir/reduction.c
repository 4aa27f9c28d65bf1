// Accumulators of reductions, one row of a table for each. No other file of codegen distinguishes
// reductions by name.
#include "codegen/ir/reduction.h"

static const Accumulator table[ACC_COUNT] = {
    [ACC_SUM] = {.functor = "NcSum",
                 .nparts = 1,
                 .step = "%s + %s",
                 .omp = "+",
                 .start = START_ZERO,
                 .words = 1,
                 .adds = true},
    [ACC_PROD] = {.functor = "NcProd",
                  .nparts = 1,
                  .step = "%s * %s",
                  .omp = "*",
                  .start = START_ONE,
                  .words = 1,
                  .adds = true},
    [ACC_MAX] = {.functor = "NcMax",
                 .nparts = 1,
                 .step = "nc_max(%s, %s)",
                 .bool_step = "%s | %s",
                 .omp = "nc_rmax",
                 .bool_omp = "|",
                 .start = START_LOW,
                 .words = 1},
    [ACC_MIN] = {.functor = "NcMin",
                 .nparts = 1,
                 .step = "nc_min(%s, %s)",
                 .bool_step = "%s & %s",
                 .omp = "nc_rmin",
                 .bool_omp = "&",
                 .start = START_HIGH,
                 .words = 1},
    [ACC_PLACE] = {.functor = "NcArgmax",
                   .type = "NcArg<%s>",
                   .result = ".i",
                   .parts = {".i", ".v"},
                   .nparts = 2,
                   .start = START_LOW,
                   .words = 1,
                   .place = true},
    [ACC_MOMENTS] = {.functor = "NcSqdev",
                     .type = "NcMoments<%s>",
                     .result = ".m2",
                     .parts = {".mean", ".m2"},
                     .nparts = 2,
                     .start = START_ZERO,
                     .words = 3,
                     .adds = true,
                     .runs = true},
};

const Accumulator *accumulator(Op reduction)
{
    return &table[op_info(reduction)->acc];
}

bool reduces_with(const Body *b, Accumulate acc)
{
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE && op_info(v->op)->acc == acc) return true;
    }
    return false;
}

int acc_bytes(const Inst *v)
{
    const Accumulator *a = inst_acc(v);
    return a->place ? 16 : math_bytes(v->acc) * a->words; // (aligned for a 64-bit position)
}

DType acc_part_type(const Inst *v, int part)
{
    return inst_acc(v)->place && part == 0 ? DT_I32 : v->acc;
}

DType acc_type_of(const Node *n)
{
    return accumulator(n->op)->adds
               ? (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype))
               : n->args[0]->type.dtype;
}
