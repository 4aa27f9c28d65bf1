// How a value lies in memory: its axes as strides over the stored value that it is a view of. Both
// what a matmul library can read (codegen/matmul/gemm.c) and what has to be copied for it
// (passes/fuse/fuse_dot.c) follow from this.
#ifndef IR_STRIDES_H
#define IR_STRIDES_H

#include "ir/graph.h"

typedef struct Strides {
    int rank;
    int64_t dim[MAX_RANK], step[MAX_RANK]; // elements between neighbours; extents of 1: anything
} Strides;

// n, as it lies when [stored], n itself or behind views of one operand, does row by row. false: a
// view between cannot be steps.
bool strides_through(const Node *n, const Node *stored, Strides *out);
bool strides_row_major(const Strides *s);
// These axes as one, its extent and its step, 0 where the extent is 1. false: they are no single
// run.
bool strides_run(const Strides *s, const int64_t *axes, int n, int64_t *extent, int64_t *step);

#endif
