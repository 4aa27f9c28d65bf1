// Times calls of one matmul in memory of its own: cuBLASLt with what follows its call, or the
// generated kernel that does both.
#ifndef RUNTIME_CUDA_BENCH_H
#define RUNTIME_CUDA_BENCH_H

#include "runtime/cuda/cuda.h"

typedef struct GemmBench {
    RtModule *m;
    int gemm;
    const ProgStep *step; // the first step that calls it, of this entry; NULL: none does
    const ProgEntry *entry;
    CudaDevice *d;
    const ProgGemm *p;
    CudaGemm *g;  // a call runs its algorithm, or the kernel if it says so
    bool alone;   // the library's call without what follows it, which may not have code yet
    CuPtr block;  // the module's
    size_t bytes; // of block
    int nslots;
    RtSlot slot[PROG_MAX_GEMM_ARGS]; // as the step has them
    CuStream s;
    CuEvent begin, end;
} GemmBench;

// Allocates and fills memory for one call. false: there is not enough.
bool gemm_bench_open(GemmBench *b, RtModule *m, int gemm);
void gemm_bench_close(GemmBench *b);
void gemm_bench_end(RtModule *m); // frees the memory when all products are timed
// cuda_operands.c: bytes that an argument takes here, and the memory's contents.
int64_t cuda_operand_bytes(const ProgEntry *en, const ProgBuffer *b);
bool cuda_operands_fill(GemmBench *b);
// Compares the kernel's results with those of the library (g->algo) and its follower: *differs, or
// e says what failed (nothing: there was no memory).
bool gemm_bench_agrees(GemmBench *b, bool *differs, RtError *e);
// Seconds of one call; negative if it fails or is clearly slower than [best] (negative: none yet).
// A product that is shorter than its launch from the host is timed as part of a graph with its
// operands in the L2 cache, as it will run.
double gemm_bench_time(GemmBench *b, double best);
// Enqueues calls without waiting for them; false if that fails.
bool gemm_bench_enqueue(GemmBench *b, int calls);
// Seconds of one call, from [calls] in a row; negative if it fails.
double gemm_bench_calls(GemmBench *b, int calls);

#endif
