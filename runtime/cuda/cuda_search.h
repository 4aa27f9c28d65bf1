// The fastest way to compute a product: one of the library's algorithms, a variant of one, or the
// program's own kernel.
#ifndef RUNTIME_CUDA_SEARCH_H
#define RUNTIME_CUDA_SEARCH_H

#include "runtime/cuda/cuda.h"

typedef struct GemmTimes { // seconds of a call; 0: not measured
    double library, kernel;
} GemmTimes;

// Leaves the fastest in m->gemm[gemm], or the first of the [n] proposals where nothing could be
// measured (false). known: the one proposal was searched for already. The program's own kernel takes no part if it *differs: computes something else
// than the library. e: a call failed that has no reason to; the device may be lost.
bool cuda_gemm_fastest(RtModule *m, int gemm, const LtResult *proposed, int n, bool known,
                       GemmTimes *times, bool *differs, RtError *e);

#endif
