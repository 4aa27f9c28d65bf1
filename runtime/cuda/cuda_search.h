// The fastest way to compute a product: one of the library's algorithms, a variant of one, or the
// program's own kernel.
#ifndef RUNTIME_CUDA_SEARCH_H
#define RUNTIME_CUDA_SEARCH_H

#include "runtime/cuda/cuda.h"

// The library's algorithms for a product, timed by calls of it alone, fastest first: what can be
// known before any kernel is compiled.
enum { GEMM_FOUND = 8 };
struct GemmFound {
    int n; // 0: none was measured
    LtAlgo algo[GEMM_FOUND];
    size_t workspace[GEMM_FOUND];
    double seconds[GEMM_FOUND]; // of a call
};

typedef struct GemmTimes { // seconds of a call; 0: not measured
    double library, kernel;
} GemmTimes;

// Searches the [n] algorithms proposed, one or more, and variants of the best. Where nothing could
// be measured, the first of out is the first proposed.
void cuda_gemm_search(RtModule *m, int gemm, const LtResult *proposed, int n, GemmFound *out);

// Leaves the fastest of those found and of the program's own kernel in m->gemm[gemm], or the first
// found where nothing could be measured (false); the fastest of those found is the first of them
// from then on. The kernel takes no part if it *differs: computes something else than the library.
// e: a call failed that has no reason to; the device may be lost.
bool cuda_gemm_fastest(RtModule *m, int gemm, GemmFound *found, GemmTimes *times, bool *differs,
                       RtError *e);

#endif
