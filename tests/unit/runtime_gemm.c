// Matmul on the CPU, with OpenBLAS and without, against sums in double.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "tests/unit/unit.h"

static double value(ProgDType t, const void *p, int64_t i)
{
    uint32_t bits;
    float f;
    if (t == PD_F64) return ((const double *)p)[i];
    if (t == PD_F32) return ((const float *)p)[i];
    bits = (uint32_t)((const uint16_t *)p)[i];
    if (t == PD_BF16) {
        bits <<= 16;
        memcpy(&f, &bits, 4);
        return f;
    }
    double m = (bits & 1023) + (bits >> 10 & 31 ? 1024 : 0);
    m = ldexp(m, (int)(bits >> 10 & 31 ? bits >> 10 & 31 : 1) - 25);
    return bits >> 15 ? -m : m;
}

// Multiples of 1/8 in -1..1: exact in every type.
static void *fill(ProgDType t, int64_t n, unsigned seed)
{
    void *p = malloc((size_t)(n * prog_dtype_bytes(t)) + 16);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float f = (float)((int)(seed >> 20 & 15) - 8) / 8;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        if (t == PD_F64) ((double *)p)[i] = f;
        if (t == PD_F32) ((float *)p)[i] = f;
        if (t == PD_BF16) ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
        if (t == PD_F16)
            ((uint16_t *)p)[i] =
                f == 0 ? 0
                       : (uint16_t)((bits >> 16 & 0x8000) |
                                    (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023)));
    }
    return p;
}

static void check(RtModule *m, const NcPar *par, ProgGemm g)
{
    int64_t batch = g.batch, slack = 3;
    g.lda = (g.trans_a ? g.m : g.k) + slack;
    g.ldb = (g.trans_b ? g.k : g.n) + slack;
    g.ldc = g.n + slack;
    g.stride_a = (g.trans_a ? g.k : g.m) * g.lda;
    g.stride_b = (g.trans_b ? g.n : g.k) * g.ldb;
    g.stride_c = g.m * g.ldc;
    void *a = fill(g.a_type, g.stride_a * batch + 1, 1),
         *b = fill(g.b_type, g.stride_b * batch + 1, 2);
    void *c = fill(g.c_type, g.stride_c * batch + 1, 3), *bias = fill(g.c_type, g.n, 4);
    double kept = value(g.c_type, c, g.n); // between two rows: not C's
    RtSlot s[] = {{a}, {b}, {c}, {bias}};
    RtError e = {0};
    double worst = 0, tolerance = g.c_type == PD_F64 ? 1e-12 : g.c_type == PD_F32 ? 1e-4 : 0.02;
    CHECK_MSG(rt_cpu_gemm_check(&g, &e) == RT_OK && rt_cpu_gemm(m, &g, par, s, &e) == RT_OK, "%s",
              e.text);
    for (int64_t q = 0; q < batch; q++)
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++) {
                double v = 0;
                for (int64_t k = 0; k < g.k; k++)
                    v += value(g.a_type, a,
                               q * g.stride_a + (g.trans_a ? k * g.lda + i : i * g.lda + k)) *
                         value(g.b_type, b,
                               q * g.stride_b + (g.trans_b ? j * g.ldb + k : k * g.ldb + j));
                if (g.epilogue == PE_BIAS || g.epilogue == PE_RELU_BIAS ||
                    g.epilogue == PE_GELU_BIAS)
                    v += value(g.c_type, bias, j);
                if (g.epilogue == PE_RELU || g.epilogue == PE_RELU_BIAS) v = v > 0 ? v : 0;
                if (g.epilogue == PE_GELU || g.epilogue == PE_GELU_BIAS)
                    v = 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
                double d =
                    fabs(value(g.c_type, c, q * g.stride_c + i * g.ldc + j) - v) / (1 + fabs(v));
                if (d > worst) worst = d;
            }
    CHECK_MSG(worst <= tolerance, "%s %lldx%lldx%lld %d%d epilogue %d %s: off by %g",
              prog_dtype_name(g.c_type), (long long)g.m, (long long)g.n, (long long)g.k, g.trans_a,
              g.trans_b, g.epilogue, m->blas ? "OpenBLAS" : "own", worst);
    if (g.m > 1) CHECK(value(g.c_type, c, g.n) == kept);
    free(a), free(b), free(c), free(bias);
}

int main(void)
{
    static const int64_t shapes[][3] = {{1, 1, 1},     {1, 17, 5},    {7, 1, 300},     {6, 16, 256},
                                        {97, 33, 257}, {128, 10, 64}, {100, 100, 100}, {3, 5, 0}};
    static const ProgDType types[] = {PD_F32, PD_F64, PD_BF16, PD_F16};
    CpuPool *pool = rt_pool_new(3);
    NcPar par = {rt_pool_run, pool};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
    CpuBlas *blas = rt_blas_open();
    if (!blas) printf("no OpenBLAS here: only our own loops are tested\n");
    for (int own = blas ? 0 : 1; own < 2; own++) {
        RtModule m = {.threads = 3, .blas = own ? NULL : blas};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t t = 0; t < 4; t++)
                for (int trans = 0; trans < 4; trans++) {
                    ProgGemm g = {.a_type = types[t],
                                  .b_type = types[t],
                                  .c_type = types[t],
                                  .m = shapes[s][0],
                                  .n = shapes[s][1],
                                  .k = shapes[s][2],
                                  .trans_a = trans & 1,
                                  .trans_b = trans & 2,
                                  .batch = 1 + (int64_t)s % 3,
                                  .epilogue = (ProgEpilogue)((s + t) % 6)};
                    check(&m, &par, g);
                }
        uint64_t state = 11;
        for (int i = 0; i < 80; i++) { // cut into any number of parts, both ways
            uint64_t u[8];
            for (int k = 0; k < 8; k++) {
                state = state * 6364136223846793005ull + 1442695040888963407ull;
                u[k] = state >> 33;
            }
            m.threads = 1 + (int)(u[0] % 40);
            ProgDType t = types[u[1] % 4];
            ProgGemm g = {.a_type = t,
                          .b_type = t,
                          .c_type = t,
                          .m = 1 + (int64_t)(u[2] % (i % 4 == 1 ? 9 : 190)),
                          .n = 1 + (int64_t)(u[3] % (i % 4 == 2 ? 9 : 190)),
                          .k = 20 + (int64_t)(u[4] % 90),
                          .trans_a = u[5] & 1,
                          .trans_b = u[5] & 2,
                          .batch = 1 + (int64_t)(u[6] % 3),
                          .epilogue = (ProgEpilogue)(u[7] % 6)};
            check(&m, &par, g);
        }
        ProgGemm mixed = {.a_type = PD_BF16,
                          .b_type = PD_BF16,
                          .c_type = PD_F32,
                          .m = 9,
                          .n = 9,
                          .k = 9,
                          .batch = 1};
        check(&m, &par, mixed);
        RtError e = {0};
        mixed.epilogue = PE_DGELU;
        CHECK(rt_cpu_gemm_check(&mixed, &e) == RT_USER);
    }
    rt_blas_close(blas);
    rt_pool_free(pool);
    return unit_done();
}
