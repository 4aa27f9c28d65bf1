// Products by a library: convolutions by cuDNN (cuda_conv.c), matrix products by cuBLASLt, which
// uses column-major matrices. A row-major (m, n) is a column-major (n, m), so C = A B is requested
// as C^T = B^T A^T: our B is its A, our A its B, and a bias along our n runs along its rows, as its
// epilogues require.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/cuda/cuda_bench.h"

RtCode lt_failed(const CudaDevice *d, LtStatus r, const char *call, const char *file, int line,
                 const char *name, const char *loc, RtError *e)
{
    return rt_fail(e, r == 3 ? RT_OOM : RT_ENV, "%s: cuBLASLt: %s failed: %s\n  at %s:%d%s%s%s%s",
                   d->base.name, call, d->lt.status_name(r), file, line, name ? "\n  matmul " : "",
                   name ? name : "", loc && *loc ? ", " : "", loc ? loc : "");
}

static int lt_type(ProgDType t)
{
    switch (t) {
    case PD_F32: return LT_F32;
    case PD_F64: return LT_F64;
    case PD_F16: return LT_F16;
    case PD_BF16: return LT_BF16;
    default: return -1;
    }
}

typedef struct Epilogue {
    const char *name;
    int lt;
    bool bias, aux;
} Epilogue;

static const Epilogue epilogues[] = {
    [PE_NONE] = {"none", LT_EPI_DEFAULT, false, false},
    [PE_BIAS] = {"bias", LT_EPI_BIAS, true, false},
    [PE_RELU] = {"relu", LT_EPI_RELU, false, false},
    [PE_RELU_BIAS] = {"relu bias", LT_EPI_RELU | LT_EPI_BIAS, true, false},
    [PE_GELU] = {"gelu", LT_EPI_GELU, false, false},
    [PE_GELU_BIAS] = {"gelu bias", LT_EPI_GELU | LT_EPI_BIAS, true, false},
    [PE_GELU_AUX_BIAS] = {"gelu aux bias", LT_EPI_GELU | LT_EPI_AUX | LT_EPI_BIAS, true, true},
    [PE_DGELU] = {"dgelu", LT_EPI_DGELU, false, true},
    [PE_GELU_AUX] = {"gelu aux", LT_EPI_GELU | LT_EPI_AUX, false, true},
};

// The layout of a row-major (rows, cols) matrix.
static RtCode layout(CudaDevice *d, const ProgGemm *g, LtLayout *out, ProgDType t, int64_t rows,
                     int64_t cols, int64_t ld, int64_t stride, RtError *e)
{
    LT_AT(d, e, g->name, g->loc,
          layout_create(out, lt_type(t), (uint64_t)cols, (uint64_t)rows, ld));
    if (g->batch > 1) {
        int32_t n = (int32_t)g->batch;
        LT_AT(d, e, g->name, g->loc, layout_set(*out, LT_LAYOUT_BATCH, &n, sizeof n));
        LT_AT(d, e, g->name, g->loc, layout_set(*out, LT_LAYOUT_STRIDE, &stride, sizeof stride));
    }
    return RT_OK;
}

static RtCode describe(CudaDevice *d, const ProgGemm *p, CudaGemm *g, RtError *e)
{
    const Epilogue *ep = &epilogues[p->epilogue];
    bool f64 = p->compute == PD_F64;
    int compute = f64 ? LT_COMPUTE_F64 : p->tf32 ? LT_COMPUTE_TF32 : LT_COMPUTE_F32;
    int ta = p->trans_b ? LT_OP_T : LT_OP_N, tb = p->trans_a ? LT_OP_T : LT_OP_N;
    LT_AT(d, e, p->name, p->loc, desc_create(&g->desc, compute, f64 ? LT_F64 : LT_F32));
    LT_AT(d, e, p->name, p->loc, desc_set(g->desc, LT_DESC_TRANS_A, &ta, sizeof ta));
    LT_AT(d, e, p->name, p->loc, desc_set(g->desc, LT_DESC_TRANS_B, &tb, sizeof tb));
    LT_AT(d, e, p->name, p->loc, desc_set(g->desc, LT_DESC_EPILOGUE, &ep->lt, sizeof ep->lt));
    if (ep->bias) {
        int32_t type = lt_type(p->c_type);
        LT_AT(d, e, p->name, p->loc, desc_set(g->desc, LT_DESC_BIAS_TYPE, &type, sizeof type));
    }
    if (ep->aux) {
        LT_AT(d, e, p->name, p->loc, desc_set(g->desc, LT_DESC_AUX_LD, &p->n, sizeof p->n));
        int64_t stride = p->n * p->m;
        if (p->batch > 1)
            LT_AT(d, e, p->name, p->loc,
                  desc_set(g->desc, LT_DESC_AUX_STRIDE, &stride, sizeof stride));
    }
    int slot = 3;
    g->residual = p->residual ? slot++ : -1;
    g->bias = ep->bias ? slot++ : -1;
    g->aux = ep->aux ? slot++ : -1;
    g->ws = p->workspace ? slot++ : -1;
    RtCode code = layout(d, p, &g->a, p->b_type, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n,
                         p->ldb, p->stride_b, e);
    if (!code)
        code = layout(d, p, &g->b, p->a_type, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k,
                      p->lda, p->stride_a, e);
    if (!code) code = layout(d, p, &g->c, p->c_type, p->m, p->n, p->ldc, p->stride_c, e);
    return code;
}

static RtCode open_library(CudaDevice *d, RtError *e)
{
    if (d->lt_handle) return RT_OK;
    RtCode code = lt_open(&d->lt, e);
    if (code) return code;
    LT_AT(d, e, NULL, NULL, create(&d->lt_handle));
    return RT_OK;
}

RtCode cuda_gemms_new(RtModule *m, const RtCompileOptions *o, RtError *e)
{
    const Program *p = m->p;
    CudaDevice *d = m->d;
    bool matrices = false;
    for (int i = 0; i < p->ngemms; i++) matrices |= !p->gemms[i].conv.kind;
    if (!p->ngemms) return RT_OK;
    double begin = clock_now();
    pthread_mutex_lock(&d->lock);
    RtCode code = matrices ? open_library(d, e) : RT_OK;
    pthread_mutex_unlock(&d->lock);
    rt_took(o, RT_PHASE_LIBRARY, clock_now() - begin);
    if (code) return code;
    m->gemm = calloc((size_t)p->ngemms, sizeof *m->gemm);
    if (!m->gemm) return rt_fail(e, RT_OOM, "out of memory");
    for (int i = 0; i < p->ngemms && !code; i++) {
        const ProgGemm *g = &p->gemms[i];
        if (g->conv.kind) {
            m->gemm[i].residual = m->gemm[i].bias = m->gemm[i].aux = -1;
            m->gemm[i].ws = 3;
            m->gemm[i].generated = !cuda_conv_open(d);
            continue;
        }
        if (lt_type(g->a_type) < 0 || lt_type(g->b_type) < 0 || lt_type(g->c_type) < 0 ||
            (size_t)g->epilogue >= sizeof epilogues / sizeof *epilogues)
            return rt_fail(e, RT_ENV, "matmul %s%s%s: cuBLASLt has no product of these types",
                           g->name, *g->loc ? ", " : "", g->loc);
        code = describe(d, g, &m->gemm[i], e);
    }
    return code;
}

void cuda_gemms_free(RtModule *m)
{
    const CublasLt *lt = &m->d->lt;
    for (int i = 0; m->gemm && i < m->p->ngemms; i++) {
        CudaGemm *g = &m->gemm[i];
        if (g->a) lt->layout_destroy(g->a);
        if (g->b) lt->layout_destroy(g->b);
        if (g->c) lt->layout_destroy(g->c);
        if (g->desc) lt->desc_destroy(g->desc);
        cuda_conv_free(m->d, g->conv);
        free(g->key);
        free(g->value);
        free(g->found);
    }
    free(m->gemm);
    gemm_bench_end(m);
}

RtCode cuda_gemm_call(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const RtSlot *slots,
                      CuStream s, RtError *e)
{
    if (p->conv.kind) return cuda_conv_call(d, p, g, slots, s, e);
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    bool f64 = p->compute == PD_F64;
    const void *one = f64 ? (const void *)&one_d : &one_f;
    const void *zero = f64 ? (const void *)&zero_d : &zero_f;
    LtStatus r = LT_OK;
    if (g->bias >= 0) r = d->lt.desc_set(g->desc, LT_DESC_BIAS, &slots[g->bias].p, sizeof(void *));
    if (r == LT_OK && g->aux >= 0)
        r = d->lt.desc_set(g->desc, LT_DESC_AUX, &slots[g->aux].p, sizeof(void *));
    const bool adds = g->residual >= 0;
    if (r == LT_OK)
        r = d->lt.matmul(d->lt_handle, g->desc, one, slots[1].p, g->a, slots[0].p, g->b,
                         adds ? one : zero, slots[adds ? g->residual : 2].p, g->c, slots[2].p, g->c,
                         &g->algo, g->ws >= 0 ? slots[g->ws].p : NULL, g->workspace, s);
    if (r == LT_OK) return RT_OK;
    return lt_failed(d, r, "matmul(...)", __FILE__, __LINE__, p->name, p->loc, e);
}

bool cuda_gemm_has_kernel(const RtModule *m, int gemm)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    return p->kernel && m->function[p->kernel - 1];
}

// Launches a kernel whose arguments are n slots.
static RtCode launch(RtStream *s, RtModule *m, int kernel, const RtSlot *slots, int n, RtError *e)
{
    void *argv[PROG_MAX_KERNEL_ARGS];
    for (int i = 0; i < n; i++) argv[i] = (void *)(uintptr_t)&slots[i];
    return cuda_launch(s, m, kernel, argv, e);
}

RtCode cuda_gemm_kernel(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    return launch(s, m, p->kernel - 1, slots + prog_gemm_args(p), p->kernel_args, e);
}

RtCode cuda_gemm_follower(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    if (!p->follower) return RT_OK;
    return launch(s, m, p->follower - 1, slots + prog_gemm_args(p) + p->kernel_args,
                  p->follower_args, e);
}

RtCode cuda_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    CudaGemm *g = &m->gemm[gemm];
    if (g->generated) return cuda_gemm_kernel(s, m, gemm, slots, e);
    bool lock = g->bias >= 0 || g->aux >= 0;
    if (lock) pthread_mutex_lock(&m->gemm_lock);
    RtCode code = cuda_gemm_call(m->d, p, g, slots, s->s, e);
    if (lock) pthread_mutex_unlock(&m->gemm_lock);
    if (!code && m->d->sync && !cuda_captured(s))
        CU_AT(m->d, e, p->name, p->loc, stream_sync(s->s));
    return code;
}

int cuda_gemm_takes(const RtModule *m, int gemm, bool behind)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    if (behind) return m->gemm[gemm].generated ? -1 : p->follower - 1;
    return m->gemm[gemm].generated ? p->kernel - 1 : -1;
}

size_t cuda_gemm_scratch(const RtModule *m, int gemm)
{
    return m->gemm[gemm].workspace;
}

const char *cuda_defect(const RtModule *m)
{
    return m->defect;
}

// The lines of the program's choice table that are not about its products, then the choices in use.
const char *cuda_choices(RtModule *m, Arena *a)
{
    Buf out = buf_new(a);
    const char *line = m->p->choices ? m->p->choices : "";
    for (const char *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        bool ours = false;
        for (int i = 0; i < m->p->ngemms && m->gemm && !ours; i++) {
            const char *key = m->gemm[i].key;
            ours = key && m->gemm[i].value && !strncmp(line, key, strlen(key)) &&
                   line[strlen(key)] == ':';
        }
        if (ours || end == line) continue;
        buf_bytes(&out, line, (size_t)(end - line));
        buf_char(&out, '\n');
    }
    for (int i = 0; i < m->p->ngemms && m->gemm; i++) {
        const CudaGemm *g = &m->gemm[i];
        bool again = !g->value;
        for (int k = 0; k < i && !again; k++)
            again = m->gemm[k].value && !strcmp(m->gemm[k].key, g->key);
        if (!again) buf_printf(&out, "%s: %s\n", g->key, g->value);
    }
    return out.data ? out.data : "";
}
