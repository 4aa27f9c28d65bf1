// The fastest way to compute a product: one of the library's algorithms, a variant of one, or the
// program's own kernel.
#ifndef RUNTIME_CUDA_SEARCH_H
#define RUNTIME_CUDA_SEARCH_H

#include "runtime/cuda/cuda.h"

// The library's algorithms for a product, timed alone, fastest first: what can be known before any
// kernel is compiled.
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

// Searches the [n] proposed algorithms, at least one, and variants of the best. If nothing could be
// measured, the first of out is the first proposed.
void cuda_gemm_search(RtModule *m, int gemm, const LtResult *proposed, int n, GemmFound *out);

// Stores in m->gemm[gemm] the fastest of those found and of the program's own kernel, or, if
// nothing could be measured, the first found (false). The fastest of those found becomes the first
// of them. The kernel is excluded if it *differs from the library. e: a call failed that should
// not; the device may be lost.
bool cuda_gemm_fastest(RtModule *m, int gemm, GemmFound *found, GemmTimes *times, bool *differs,
                       RtError *e);

#endif
