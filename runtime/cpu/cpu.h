// Internal to the CPU device.
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include "runtime/host/threads.h"
#include "runtime/device.h"

// A parallel loop provided by the host, as kernels call it; their prelude declares the same struct.
typedef struct NcPar {
    void (*run)(void *ctx, long n, void (*body)(void *arg, long begin, long end), void *arg);
    void *ctx;
} NcPar;

struct RtStream {
    RtDevice *device;
    NcPar par; // the host's, or that of the device's threads
};

typedef void (*CpuKernel)(void *const *args, const NcPar *par);

typedef struct CpuBlas CpuBlas;
typedef struct CpuPool CpuPool;

struct RtModule {
    RtDevice *device;
    void *library; // dlopen
    CpuKernel *kernel;
    const ProgGemm *gemms;
    int ngemms;
    const char *choices; // the program's choice table
    CpuBlas *blas;       // NULL: no OpenBLAS; built-in loops are used
    int threads;         // number of parts into which a matmul is divided
    int fd;              // of the object in memory, under which the loader knows it
};

// -- cpu_pool.c -----------------------------------------------------------------------------------
CpuPool *rt_pool_new(int threads); // NULL when out of memory; threads start with the first loop
void rt_pool_free(CpuPool *p);
// Runs a loop over 0..n, as NcPar.run. If several threads call it at once, one uses the pool, and
// the others run their loops alone.
void rt_pool_run(void *ctx, long n, void (*body)(void *arg, long begin, long end), void *arg);

// -- cpu_module.c ---------------------------------------------------------------------------------
RtCode rt_cpu_module_new(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                         const RtCompileOptions *o, RtModule **out, RtError *e);
void rt_cpu_module_free(RtModule *m);
RtCode rt_cpu_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e);

// -- cpu_compile.c
uint64_t rt_cpu_image_key(const Program *p);
extern const char rt_cpu_image_target[];
// -- cpu_cc.c -------------------------------------------------------------------------------------
// Compiles nparts texts (in parallel) into one shared object, malloc'ed.
typedef struct CpuCompiler {
    char path[4096];
    uint64_t identity; // different for different versions of the compiler
} CpuCompiler;
RtCode rt_cc_find(CpuCompiler *c, RtError *e);
RtCode rt_cc_compile(const CpuCompiler *c, const char *const *parts, int nparts,
                     const RtCompileOptions *o, void **object, size_t *size, RtError *e);

// -- cpu_blas.c -----------------------------------------------------------------------------------
CpuBlas *rt_blas_open(void); // NULL if there is none, or none for this processor
void rt_blas_close(CpuBlas *b);
bool rt_blas_describe(char *out, size_t n); // path and version; false: why there is none
// C (m, n) = A * B, row-major, single-threaded.
void rt_blas_f32(const CpuBlas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                 const float *a, int64_t lda, const float *bb, int64_t ldb, float *c, int64_t ldc);
void rt_blas_f64(const CpuBlas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                 const double *a, int64_t lda, const double *bb, int64_t ldb, double *c,
                 int64_t ldc);

// -- cpu_gemm.c -----------------------------------------------------------------------------------
RtCode rt_cpu_gemm_check(const ProgGemm *g, RtError *e); // whether this device can compute it
RtCode rt_cpu_gemm(RtModule *m, const ProgGemm *g, const NcPar *par, const RtSlot *slots,
                   RtError *e);
// The same contract as rt_blas_*, without a library. scratch: rt_own_gemm_scratch() bytes.
void rt_own_gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *c, int64_t ldc, void *scratch);
void rt_own_gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a,
                     int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc,
                     void *scratch);
size_t rt_own_gemm_scratch(void);

#endif
