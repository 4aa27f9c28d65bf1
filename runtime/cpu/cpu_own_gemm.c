// Matmul without a library: for a program that was planned with OpenBLAS and runs on a machine
// without it.
#include <string.h>

#include "runtime/cpu/cpu.h"

enum { OWN_MC = 96, OWN_KC = 256 };

typedef float F8 __attribute__((vector_size(32)));
typedef double D4 __attribute__((vector_size(32)));

#define T       float
#define V       F8
#define NAME(x) x##_f32
#include "runtime/cpu/cpu_tile.h"
#undef T
#undef V
#undef NAME
#define T       double
#define V       D4
#define NAME(x) x##_f64
#include "runtime/cpu/cpu_tile.h"

size_t rt_own_gemm_scratch(void)
{
    return sizeof(double) * (OWN_MC * OWN_KC + OWN_KC * 16);
}

void rt_own_gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *c, int64_t ldc, void *scratch)
{
    run_f32(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, scratch);
}

void rt_own_gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a,
                     int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc,
                     void *scratch)
{
    run_f64(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, scratch);
}
