// Times calls of one matmul in memory of its own: cuBLASLt with what follows its call, or the
// generated kernel that does both.
#ifndef RUNTIME_CUDA_BENCH_H
#define RUNTIME_CUDA_BENCH_H

#include "runtime/cuda/cuda.h"

typedef struct GemmBench {
    RtModule *m;
    int gemm;
    const ProgStep *step; // the first step of [entry] that calls it; NULL: none does
    const ProgEntry *entry;
    CudaDevice *d;
    const ProgGemm *p;
    CudaGemm *g;  // a call runs its algorithm or, if it says so, the kernel
    bool alone;   // only the library's call without the kernel after it, which may not be compiled
                  // yet
    CuPtr block;  // belongs to the module
    size_t bytes; // of block, without the workspace after them, which nobody fills
    int nslots;
    RtSlot slot[PROG_MAX_GEMM_ARGS]; // in the order of the step
    CuStream s;
    CuEvent begin, end;
} GemmBench;

// Prepares memory for a call and fills it. false: there is not enough.
bool gemm_bench_open(GemmBench *b, RtModule *m, int gemm);
void gemm_bench_close(GemmBench *b);
void gemm_bench_end(RtModule *m); // frees the memory after all products were timed
// cuda_operands.c: the bytes needed for an argument; the contents of the memory.
int64_t cuda_operand_bytes(const ProgEntry *en, const ProgBuffer *b);
bool cuda_operands_fill(GemmBench *b);
// Compares the kernel's results with those of the library (g->algo) and its follower; sets
// *differs. false: they differ or could not be compared; e has the error, if there is one.
bool gemm_bench_agrees(GemmBench *b, bool *differs, RtError *e);
// Seconds of one call; negative if it fails or is clearly slower than [best] (negative: none yet).
// A product that is shorter than the launch from the host is timed in a graph with its operands in
// the L2 cache, as in a real run.
double gemm_bench_time(GemmBench *b, double best);
// Enqueues calls without waiting for them; false if that fails.
bool gemm_bench_enqueue(GemmBench *b, int calls);
// Seconds of one call, from [calls] in a row; negative if they fail.
double gemm_bench_calls(GemmBench *b, int calls);

#endif
