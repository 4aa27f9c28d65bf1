// libcublasLt of the shim: one algorithm, three loops in double precision, and the epilogues that
// netc asks for. Matrices are column-major, as there.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/element.h"
#include "tests/shim/shim.h"

typedef struct Desc {
    int compute, trans_a, trans_b, epilogue, bias_type, aux_type;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride;
} Desc;

typedef struct Layout {
    int type;
    int64_t rows, cols, ld, stride;
    int32_t batch;
} Layout;

enum { INVALID = 7, BAD = 13 };

static bool is_mode(const char *mode)
{
    const char *is = getenv("SHIM_LT");
    return is && !strcmp(is, mode);
}

size_t cublasLtGetVersion(void)
{
    return 139900;
}

const char *cublasLtGetStatusName(LtStatus s)
{
    return s == LT_OK              ? "CUBLAS_STATUS_SUCCESS"
           : s == LT_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                   : "CUBLAS_STATUS_EXECUTION_FAILED";
}

LtStatus cublasLtCreate(LtHandle *h)
{
    *h = malloc(1);
    return *h ? LT_OK : 3;
}

LtStatus cublasLtDestroy(LtHandle h)
{
    free(h);
    return LT_OK;
}

LtStatus cublasLtMatmulDescCreate(LtDesc *d, int compute, int scale)
{
    (void)scale;
    Desc *r = calloc(1, sizeof *r);
    if (!r) return 3;
    r->compute = compute;
    r->epilogue = LT_EPI_DEFAULT;
    r->bias_type = r->aux_type = -1;
    *d = r;
    return LT_OK;
}

LtStatus cublasLtMatmulDescDestroy(LtDesc d)
{
    free(d);
    return LT_OK;
}

LtStatus cublasLtMatmulDescSetAttribute(LtDesc desc, int attribute, const void *value, size_t n)
{
    Desc *d = desc;
    void *to = attribute == LT_DESC_TRANS_A       ? (void *)&d->trans_a
               : attribute == LT_DESC_TRANS_B     ? (void *)&d->trans_b
               : attribute == LT_DESC_EPILOGUE    ? (void *)&d->epilogue
               : attribute == LT_DESC_BIAS        ? (void *)&d->bias
               : attribute == LT_DESC_BIAS_STRIDE ? (void *)&d->bias_stride
               : attribute == LT_DESC_AUX         ? (void *)&d->aux
               : attribute == LT_DESC_AUX_LD      ? (void *)&d->aux_ld
               : attribute == LT_DESC_AUX_STRIDE  ? (void *)&d->aux_stride
               : attribute == LT_DESC_AUX_TYPE    ? (void *)&d->aux_type
               : attribute == LT_DESC_BIAS_TYPE   ? (void *)&d->bias_type
                                                  : NULL;
    if (!to) return INVALID;
    memcpy(to, value, n);
    return LT_OK;
}

LtStatus cublasLtMatrixLayoutCreate(LtLayout *l, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    Layout *r = malloc(sizeof *r);
    if (!r) return 3;
    *r = (Layout){type, (int64_t)rows, (int64_t)cols, ld, 0, 1};
    *l = r;
    return LT_OK;
}

LtStatus cublasLtMatrixLayoutDestroy(LtLayout l)
{
    free(l);
    return LT_OK;
}

LtStatus cublasLtMatrixLayoutSetAttribute(LtLayout layout, int attribute, const void *value,
                                          size_t n)
{
    Layout *l = layout;
    if (attribute == LT_LAYOUT_BATCH)
        memcpy(&l->batch, value, n);
    else if (attribute == LT_LAYOUT_STRIDE)
        memcpy(&l->stride, value, n);
    else
        return INVALID;
    return LT_OK;
}

typedef struct Preference {
    size_t workspace;
    uint32_t schemes;
} Preference;

LtStatus cublasLtMatmulPreferenceCreate(LtPreference *p)
{
    *p = calloc(1, sizeof(Preference));
    return *p ? LT_OK : 3;
}

LtStatus cublasLtMatmulPreferenceDestroy(LtPreference p)
{
    free(p);
    return LT_OK;
}

LtStatus cublasLtMatmulPreferenceSetAttribute(LtPreference p, int attribute, const void *value,
                                              size_t n)
{
    Preference *preference = p;
    if (attribute == LT_PREF_REDUCTION) memcpy(&preference->schemes, value, n);
    if (attribute == LT_PREF_WORKSPACE) memcpy(&preference->workspace, value, n);
    return LT_OK;
}

LtStatus cublasLtMatmulAlgoCheck(LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c,
                                 LtLayout out, const LtAlgo *algo, LtResult *r)
{
    (void)h, (void)d, (void)a, (void)b, (void)c, (void)out, (void)algo;
    memset(r, 0, sizeof *r);
    r->state = algo->data[0] == 0x5e1f ? LT_OK : LT_NOT_SUPPORTED;
    return LT_OK;
}

LtStatus cublasLtMatmulAlgoGetHeuristic(LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c,
                                        LtLayout out, LtPreference p, int wanted, LtResult *results,
                                        int *found)
{
    (void)h, (void)d, (void)a, (void)b, (void)c, (void)out;
    if (is_mode("none")) return *found = 0, LT_NOT_SUPPORTED;
    *found = wanted > 0;
    memset(results, 0, sizeof *results);
    results->algo.data[0] = 0x5e1f;
    // As the library's: it splits sums where it might use 32 MiB, in the way that costs least.
    const Preference *preference = p;
    if (is_mode("splits") && preference->workspace >= (size_t)32 << 20)
        results->algo.data[2] =
            preference->schemes & LT_REDUCE_INPLACE ? LT_REDUCE_INPLACE : LT_REDUCE_COMPUTE;
    return LT_OK;
}

LtStatus cublasLtMatmulAlgoConfigSetAttribute(LtAlgo *algo, int attribute, const void *value,
                                              size_t n)
{
    if (!is_mode("options") || attribute != LT_ALGO_CUSTOM)
        return LT_NOT_SUPPORTED; // there is one algorithm
    algo->data[1] = 0;
    memcpy(&algo->data[1], value, n);
    return LT_OK;
}

LtStatus cublasLtMatmulAlgoConfigGetAttribute(const LtAlgo *algo, int attribute, void *value,
                                              size_t n, size_t *written)
{
    memset(value, 0, n);
    if (attribute == LT_ALGO_REDUCTION) memcpy(value, &algo->data[2], n);
    *written = n;
    return LT_OK;
}

// -- the product ----------------------------------------------------------------------------------
typedef struct Call {
    Desc d;
    Layout la, lb, lc;
    double alpha, beta;
    const void *a, *b, *residual; // residual: read if beta is not 0
    void *c;
    uint64_t option, scheme;
} Call;

static bool column_touch(const Layout *l, const void *p, bool write)
{
    size_t w = width(l->type);
    for (int n = 0; n < l->batch; n++)
        for (int64_t j = 0; j < l->cols; j++)
            if (!shim_touch((const char *)p + (size_t)(n * l->stride + j * l->ld) * w,
                            (size_t)l->rows * w, write))
                return false;
    return true;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double dgelu(double x)
{
    double u = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// What the epilogue makes of the sum at (i, j).
static double finish(const Call *c, int batch, int64_t i, int64_t j, double s)
{
    const Desc *d = &c->d;
    int e = d->epilogue, aux_type = d->aux_type >= 0 ? d->aux_type : c->lc.type;
    int64_t at = batch * d->aux_stride + j * d->aux_ld;
    if (c->beta)
        s += c->beta * get(c->lc.type, c->residual, batch * c->lc.stride + j * c->lc.ld + i);
    if (e & LT_EPI_BIAS)
        s +=
            get(d->bias_type >= 0 ? d->bias_type : c->lc.type, d->bias, batch * d->bias_stride + i);
    if ((e & LT_EPI_DGELU) == LT_EPI_DGELU) return s * dgelu(get(aux_type, d->aux, at + i));
    if (e & LT_EPI_RELU) return s > 0 || isnan(s) ? s : 0;
    if (e & LT_EPI_GELU) {
        if (e & LT_EPI_AUX) put(aux_type, d->aux, at + i, s);
        return gelu(s);
    }
    return s;
}

// The fifth option is the fast one where options matter; split sums are where they do.
static double seconds_of(const Call *c, double products)
{
    if (is_mode("slow")) return 0.25;
    if (is_mode("options")) return c->option == 5 ? 1e-4 : 3e-3;
    if (is_mode("splits")) return c->scheme ? 1e-4 * (double)c->scheme : 1e-3;
    return 2e-9 * products;
}

enum { LINES = 8 };
typedef double Pair __attribute__((vector_size(2 * sizeof(double))));

static size_t padded(int64_t n, int64_t k)
{
    return (size_t)((n + LINES - 1) / LINES * LINES * k);
}

// An operand's matrix of one batch in doubles, so that each element is converted once: lines of k
// elements that are summed, LINES of them side by side, zeros behind the last.
static double *lines(const Layout *l, const void *p, int batch, bool along, int64_t n, int64_t k)
{
    double *out = calloc(padded(n, k) + 1, sizeof *out);
    if (!out) abort();
    for (int64_t i = 0; i < n; i++)
        for (int64_t x = 0; x < k; x++)
            out[(i / LINES * k + x) * LINES + i % LINES] =
                get(l->type, p, batch * l->stride + (along ? i * l->ld + x : x * l->ld + i));
    return out;
}

// The sums of LINES rows with one column, each in the order of k.
static void row_sums(double *out, const double *left, const double *right, int64_t k)
{
    Pair a = {0}, b = {0}, c = {0}, d = {0};
    for (const double *end = left + k * LINES; left < end; left += LINES, right += LINES) {
        const Pair *l = (const Pair *)left;
        a += l[0] * *right, b += l[1] * *right, c += l[2] * *right, d += l[3] * *right;
    }
    memcpy(out, (Pair[]){a, b, c, d}, LINES * sizeof *out);
}

static void multiply(const Call *c, int64_t m, int64_t n, int64_t k)
{
    const Layout *la = &c->la, *lb = &c->lb, *lc = &c->lc;
    for (int z = 0; z < lc->batch; z++) {
        double *left = lines(la, c->a, z, c->d.trans_a, m, k), sums[LINES];
        double *right = lines(lb, c->b, z, !c->d.trans_b, n, k);
        for (int64_t i = 0; i < m; i += LINES)
            for (int64_t j = 0; j < n; j++) {
                row_sums(sums, left + i * k, right + j / LINES * LINES * k + j % LINES, k);
                for (int64_t r = i; r < m && r < i + LINES; r++)
                    put(lc->type, c->c, z * lc->stride + j * lc->ld + r,
                        finish(c, z, r, j, sums[r - i] * c->alpha));
            }
        free(left);
        free(right);
    }
}

// The memory from a matrix's first element to its last.
static Span span_of(const Layout *l, const void *p)
{
    int64_t n = (l->batch - 1) * l->stride + (l->cols - 1) * l->ld + l->rows;
    return (Span){(void *)p, (size_t)n * width(l->type)};
}

// multiply, unless it is known what it gives. Results with gaps between columns are not kept.
static void recall(const Call *c, int64_t m, int64_t n, int64_t k)
{
    const Layout *lc = &c->lc;
    const Desc *d = &c->d;
    if (lc->ld != m || (lc->batch > 1 && lc->stride != m * n) || d->aux) {
        multiply(c, m, n, k);
        return;
    }
    Call key;
    memcpy(&key, c, sizeof key); // (its padding, too)
    key.a = key.b = key.residual = key.c = key.d.bias = NULL;
    key.option = key.scheme = 0;
    Span in[4] = {span_of(&c->la, c->a), span_of(&c->lb, c->b)}, out = span_of(lc, c->c);
    int nin = 2;
    if (c->beta) in[nin++] = span_of(lc, c->residual);
    if (d->bias) {
        size_t w = width(d->bias_type >= 0 ? d->bias_type : lc->type);
        in[nin++] = (Span){d->bias, (size_t)((lc->batch - 1) * d->bias_stride + m) * w};
    }
    Recalled *call;
    if (shim_recall((Span){&key, sizeof key}, in, nin, &out, 1, &call)) return;
    multiply(c, m, n, k);
    shim_remember(call, &out, 1);
}

static CuResult compute(void *arg)
{
    Call *c = arg;
    const Desc *d = &c->d;
    const Layout *la = &c->la, *lb = &c->lb, *lc = &c->lc;
    int64_t m = lc->rows, n = lc->cols, k = d->trans_a ? la->rows : la->cols;
    size_t bias_width = width(d->bias_type >= 0 ? d->bias_type : lc->type);
    bool ok = column_touch(la, c->a, false) && column_touch(lb, c->b, false) &&
              (!c->beta || column_touch(lc, c->residual, false)) && column_touch(lc, c->c, true);
    shim_clock += seconds_of(c, (double)m * (double)n * (double)k * (double)lc->batch);
    if (d->bias) ok = ok && shim_touch(d->bias, (size_t)m * bias_width, false);
    if (d->aux && d->epilogue & LT_EPI_AUX) {
        size_t line = (size_t)d->aux_ld * width(lc->type);
        bool reads = !(d->epilogue & LT_EPI_GELU);
        ok = ok && shim_touch(d->aux, line * (size_t)n * (size_t)lc->batch, !reads);
    }
    if (!ok) {
        shim_fault("cublasLtMatmul reads or writes what is not its own, or was never written");
        return CU_FAULT_LAST;
    }
    recall(c, m, n, k);
    return CU_OK;
}

LtStatus cublasLtMatmul(LtHandle h, LtDesc d, const void *alpha, const void *a, LtLayout la,
                        const void *b, LtLayout lb, const void *beta, const void *c, LtLayout lc,
                        void *out, LtLayout lout, const LtAlgo *algo, void *workspace,
                        size_t workspace_bytes, CuStream s)
{
    (void)h, (void)lc, (void)workspace, (void)workspace_bytes;
    if (!shim_here(a, s) || !shim_here(b, s) || !shim_here(c, s) || !shim_here(out, s)) return BAD;
    Call *call = calloc(1, sizeof *call);
    if (!call) return 3;
    const char *meet = getenv("SHIM_MEET");
    FILE *file = meet ? fopen(meet, "w") : NULL;
    if (file) fclose(file);
    *call =
        (Call){.d = *(Desc *)d, .la = *(Layout *)la, .lb = *(Layout *)lb, .lc = *(Layout *)lout};
    call->option = algo->data[1];
    call->scheme = algo->data[2];
    call->a = a;
    call->b = b;
    call->c = out;
    call->residual = c;
    bool f64 = call->d.compute == LT_COMPUTE_F64;
    call->alpha = f64 ? *(const double *)alpha : *(const float *)alpha;
    call->beta = f64 ? *(const double *)beta : *(const float *)beta;
    return shim_enqueue(s, compute, call) == CU_OK ? LT_OK : BAD;
}
