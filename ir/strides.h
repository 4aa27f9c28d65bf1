// How a value lies in memory: its axes as strides over the stored value that it is a view of. Both
// what a matmul library can read (codegen/matmul/gemm.c) and what has to be copied for it
// (passes/fuse/fuse_dot.c) follow from this.
#ifndef IR_STRIDES_H
#define IR_STRIDES_H

#include "ir/graph.h"

typedef struct Strides {
    int rank;
    int64_t dim[MAX_RANK], step[MAX_RANK]; // step: distance of neighbouring elements; any number if
                                           // the extent is 1
} Strides;

// How n lies in memory if [stored], which is n or what n is a view of, is row-major. false: a view
// between them cannot be expressed by strides.
bool strides_through(const Node *n, const Node *stored, Strides *out);
bool strides_row_major(const Strides *s);
// Merges these axes into one with an extent and a step (0 if the extent is 1). false: they cannot
// be expressed as one axis.
bool strides_run(const Strides *s, const int64_t *axes, int n, int64_t *extent, int64_t *step);

#endif
