// The fastest way to compute a product: one of the library's algorithms, a variant of one, or the
// program's own kernel.
#ifndef RUNTIME_CUDA_SEARCH_H
#define RUNTIME_CUDA_SEARCH_H

#include "runtime/cuda/cuda.h"

// The library's fastest algorithms for a product, timed alone and sorted. This can be measured
// before any kernel is compiled.
enum { GEMM_FOUND = 8 };
struct GemmFound {
    int n; // 0: none was measured
    LtAlgo algo[GEMM_FOUND];
    size_t workspace[GEMM_FOUND];
    double seconds[GEMM_FOUND]; // per call
};

typedef struct GemmTimes { // seconds per call; 0: not measured
    double library, kernel;
} GemmTimes;

// Searches the [n] proposed algorithms (n > 0) and variants of the best. If nothing could be
// measured, out has the first proposed algorithm.
void cuda_gemm_search(RtModule *m, int gemm, const LtResult *proposed, int n, GemmFound *out);

// Stores the fastest of the algorithms in [found] and of the program's own kernel in m->gemm[gemm]
// or, if nothing could be measured, the first algorithm (and returns false). The fastest algorithm
// becomes the first in [found]. The kernel is excluded if its results differ from the library's
// (*differs). e: a call failed that should not; the device may be lost.
bool cuda_gemm_fastest(RtModule *m, int gemm, GemmFound *found, GemmTimes *times, bool *differs,
                       RtError *e);

#endif
