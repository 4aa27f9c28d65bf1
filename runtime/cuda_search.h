// The fastest way to compute a product: one of the library's algorithms, a variant of one, or the
// program's own kernel.
#ifndef RUNTIME_CUDA_SEARCH_H
#define RUNTIME_CUDA_SEARCH_H

#include "runtime/cuda.h"

typedef struct GemmTimes { // seconds of a call; 0: not measured
    double library, kernel;
} GemmTimes;

// Leaves the fastest in m->gemm[gemm], or the first of the [n] proposals where nothing could be
// measured (false). *differs: the program's own kernel computes something else and was left out.
bool cuda_gemm_fastest(RtModule *m, int gemm, const LtResult *proposed, int n, GemmTimes *times,
                       bool *differs);

#endif
