// Matmul steps on the CPU: split into parts of C's rows and columns. OpenBLAS on one thread (or
// netc's own loops) computes each part, and the epilogue follows while the part is in the cache.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"

// A matmul with fewer operations than SMALL_FLOPS uses one thread, and each part has at least
// PART_FLOPS, since distributing parts takes some microseconds.
enum { SMALL_FLOPS = 400 * 1000, PART_FLOPS = 200 * 1000, MAX_PARTS = 64 };

typedef struct Job {
    const RtModule *m;
    const ProgGemm *g;
    const char *a, *b;
    char *c;
    const void *bias;
    int64_t across, down, batch; // parts along a row of C, and along a column
    bool wide;                   // f64
    bool failed;                 // no memory for the built-in loops
} Job;

RtCode rt_cpu_gemm_check(const ProgGemm *g, RtError *e)
{
    const char *at = g->loc ? g->loc : "";
    bool known = !g->residual;
    switch (g->epilogue) {
    case PE_NONE:
    case PE_BIAS:
    case PE_RELU:
    case PE_RELU_BIAS:
    case PE_GELU:
    case PE_GELU_BIAS: break;
    default: known = false;
    }
    if (!known)
        return rt_fail(
            e, RT_USER,
            "%s: the program asks the CPU for a matmul epilogue only GPUs have; compile it "
            "again for the CPU",
            at);
    int64_t most = g->m > g->n ? g->m : g->n;
    if (g->k > most) most = g->k;
    if (g->lda > most) most = g->lda;
    if (g->ldb > most) most = g->ldb;
    if (g->ldc > most) most = g->ldc;
    if (most > INT_MAX)
        return rt_fail(e, RT_USER, "%s: a matmul with a side of %lld is too big", at,
                       (long long)most);
    return RT_OK;
}

// -- other element types --------------------------------------------------------------------------
static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023,
             bits;
    float v;
    if (!exponent) {
        v = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &v, 4);
        bits |= sign;
    } else {
        bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
    }
    memcpy(&v, &bits, 4);
    return v;
}

static uint16_t float_to_half(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    uint16_t sign = (uint16_t)(b >> 16 & 0x8000);
    b &= 0x7fffffff;
    if (b > 0x7f800000) return sign | 0x7e00;
    if (b >= 0x477ff000) return sign | 0x7c00;
    if (b < 0x38800000) { // subnormal: the addition rounds to multiples of 2^-24, ties to even
        float m;
        memcpy(&m, &b, 4);
        m = m * 0x1p24f + 0x1p23f;
        memcpy(&b, &m, 4);
        return (uint16_t)(sign | (b & 0x7fffff));
    }
    b += 0xfff + (b >> 13 & 1);
    return (uint16_t)(sign | ((b - 0x38000000) >> 13));
}

static float load(ProgDType t, const void *p, int64_t i)
{
    uint32_t bits;
    float v;
    if (t == PD_F32) return ((const float *)p)[i];
    if (t == PD_F64) return (float)((const double *)p)[i];
    if (t == PD_F16) return half_to_float(((const uint16_t *)p)[i]);
    bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&v, &bits, 4);
    return v;
}

static void store(ProgDType t, void *p, int64_t i, float v)
{
    uint32_t bits;
    if (t == PD_F32) ((float *)p)[i] = v;
    if (t == PD_F64) ((double *)p)[i] = v;
    if (t == PD_F16) ((uint16_t *)p)[i] = float_to_half(v);
    if (t != PD_BF16) return;
    memcpy(&bits, &v, 4);
    ((uint16_t *)p)[i] = v != v ? (uint16_t)(bits >> 16 | 0x40)
                                : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// -- one part -------------------------------------------------------------------------------------
static double activate(ProgEpilogue p, double v)
{
    if (p == PE_RELU || p == PE_RELU_BIAS) return v > 0 || v != v ? v : 0;
    if (p == PE_GELU || p == PE_GELU_BIAS)
        return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    return v;
}

static void epilogue(const Job *j, void *c, int64_t rows, int64_t first_col, int64_t cols)
{
    const ProgGemm *g = j->g;
    ProgEpilogue p = g->epilogue;
    if (p == PE_NONE) return;
    bool bias = p == PE_BIAS || p == PE_RELU_BIAS || p == PE_GELU_BIAS;
    bool plain = p == PE_BIAS, relu = p == PE_RELU || p == PE_RELU_BIAS;
    for (int64_t i = 0; i < rows; i++) {
        if (j->wide) {
            double *row = (double *)c + i * g->ldc;
            const double *b = bias ? (const double *)j->bias + first_col : NULL;
            for (int64_t k = 0; k < cols; k++) row[k] = activate(p, row[k] + (b ? b[k] : 0));
            continue;
        }
        float *row = (float *)c + i * g->ldc;
        const float *b = bias ? (const float *)j->bias + first_col : NULL;
        if (b)
            for (int64_t k = 0; k < cols; k++) row[k] += b[k];
        if (relu)
            for (int64_t k = 0; k < cols; k++) row[k] = row[k] < 0 ? 0 : row[k];
        else if (!plain)
            for (int64_t k = 0; k < cols; k++) row[k] = (float)activate(p, row[k]);
    }
}

static bool multiply(const Job *j, int64_t m, int64_t n, const void *a, const void *b, void *c)
{
    const ProgGemm *g = j->g;
    void *scratch = NULL;
    if (!j->m->blas && !(scratch = malloc(rt_own_gemm_scratch()))) return false;
    if (j->m->blas && j->wide)
        rt_blas_f64(j->m->blas, g->trans_a, g->trans_b, m, n, g->k, a, g->lda, b, g->ldb, c,
                    g->ldc);
    else if (j->m->blas)
        rt_blas_f32(j->m->blas, g->trans_a, g->trans_b, m, n, g->k, a, g->lda, b, g->ldb, c,
                    g->ldc);
    else if (j->wide)
        rt_own_gemm_f64(g->trans_a, g->trans_b, m, n, g->k, a, g->lda, b, g->ldb, c, g->ldc,
                        scratch);
    else
        rt_own_gemm_f32(g->trans_a, g->trans_b, m, n, g->k, a, g->lda, b, g->ldb, c, g->ldc,
                        scratch);
    free(scratch);
    return true;
}

// The first row or column of a part. Parts are whole tiles of 16.
static int64_t part_begin(int64_t side, int64_t part, int64_t parts)
{
    int64_t at = (side + 15) / 16 * part / parts * 16;
    return at < side ? at : side;
}

static void one_part(void *arg, long begin, long end)
{
    Job *j = arg;
    const ProgGemm *g = j->g;
    int64_t size = j->wide ? 8 : 4, parts = j->across * j->down;
    for (long i = begin; i < end; i++) {
        int64_t matrix = i / parts, row = i % parts / j->across, col = i % j->across;
        int64_t r0 = part_begin(g->m, row, j->down), c0 = part_begin(g->n, col, j->across);
        int64_t m = part_begin(g->m, row + 1, j->down) - r0;
        int64_t n = part_begin(g->n, col + 1, j->across) - c0;
        if (m < 1 || n < 1) continue;
        const char *a = j->a + (matrix * g->stride_a + r0 * (g->trans_a ? 1 : g->lda)) * size;
        const char *b = j->b + (matrix * g->stride_b + c0 * (g->trans_b ? g->ldb : 1)) * size;
        char *c = j->c + (matrix * g->stride_c + r0 * g->ldc + c0) * size;
        if (!multiply(j, m, n, a, b, c))
            __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
        else
            epilogue(j, c, m, c0, n);
    }
}

// Divides C into this many parts, or as many as there are tiles. Each row of parts reads all of b,
// and each column of parts all of a, so the division that reads the least is chosen.
static void cut(Job *j, int64_t parts)
{
    int64_t m = (j->g->m + 15) / 16, n = (j->g->n + 15) / 16;
    if (parts > MAX_PARTS) parts = MAX_PARTS;
    j->across = j->down = 1;
    for (int64_t down = 1; down <= parts && down <= m; down++) {
        int64_t across = parts / down < n ? parts / down : n;
        int64_t more = down * across - j->down * j->across;
        if (more > 0 || (more == 0 && down * n + across * m < j->down * n + j->across * m)) {
            j->down = down;
            j->across = across;
        }
    }
}

static RtCode native(RtModule *m, const ProgGemm *g, const NcPar *par, const void *a, const void *b,
                     void *c, const void *bias, RtError *e)
{
    Job j = {.m = m, .g = g, .a = a, .b = b, .c = c, .bias = bias, .wide = g->c_type == PD_F64};
    j.batch = g->batch > 0 ? g->batch : 1;
    int64_t threads = m->threads;
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
    cut(&j, flops < SMALL_FLOPS || j.batch >= threads ? 1
            : flops / PART_FLOPS < (double)threads    ? (int64_t)(flops / PART_FLOPS)
                                                      : threads);
    int64_t n = j.across * j.down * j.batch;
    if (n == 1 || threads == 1 || flops * (double)j.batch < SMALL_FLOPS)
        one_part(&j, 0, (long)n);
    else
        par->run(par->ctx, (long)n, one_part, &j);
    return j.failed ? rt_fail(e, RT_OOM, "out of memory") : RT_OK;
}

static int64_t extent(int64_t rows, int64_t cols, int64_t ld, int64_t batch, int64_t stride)
{
    if (rows < 1 || cols < 1) return 0;
    return (batch > 1 ? (batch - 1) * stride : 0) + (rows - 1) * ld + cols;
}

static float *widen(ProgDType t, const void *p, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f + 1);
    for (int64_t i = 0; f && i < n; i++) f[i] = load(t, p, i);
    return f;
}

// Operands that are not all f32 or all f64 are converted to f32.
static RtCode converted(RtModule *m, const ProgGemm *g, const NcPar *par, const RtSlot *s,
                        bool bias, RtError *e)
{
    ProgGemm f = *g;
    f.a_type = f.b_type = f.c_type = PD_F32;
    int64_t na =
        extent(g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda, g->batch, g->stride_a);
    int64_t nb =
        extent(g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb, g->batch, g->stride_b);
    int64_t nc = extent(g->m, g->n, g->ldc, g->batch, g->stride_c);
    float *a = widen(g->a_type, s[0].p, na), *b = widen(g->b_type, s[1].p, nb);
    float *c = widen(g->c_type, s[2].p, nc), *v = bias ? widen(g->c_type, s[3].p, g->n) : NULL;
    RtCode code = a && b && c && (v || !bias) ? RT_OK : rt_fail(e, RT_OOM, "out of memory");
    if (!code) code = native(m, &f, par, a, b, c, v, e);
    for (int64_t i = 0; i < nc && !code; i++) store(g->c_type, s[2].p, i, c[i]);
    free(a), free(b), free(c), free(v);
    return code;
}

RtCode rt_cpu_gemm(RtModule *m, const ProgGemm *g, const NcPar *par, const RtSlot *s, RtError *e)
{
    bool bias =
        g->epilogue == PE_BIAS || g->epilogue == PE_RELU_BIAS || g->epilogue == PE_GELU_BIAS;
    if (g->m < 1 || g->n < 1) return RT_OK;
    bool same = g->a_type == g->b_type && g->a_type == g->c_type;
    if (same && (g->a_type == PD_F32 || g->a_type == PD_F64))
        return native(m, g, par, s[0].p, s[1].p, s[2].p, bias ? s[3].p : NULL, e);
    return converted(m, g, par, s, bias, e);
}
