// Decides what computes a product: the choice table, else the cache, else a measurement
// (cuda_search.c).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plain.h"
#include "base/map.h"
#include "runtime/cuda/cuda_bench.h"
#include "runtime/cuda/cuda_search.h"

enum { PROPOSED = 32, CANDIDATES = 2 * PROPOSED };

static int64_t pow2_of(int64_t v, int64_t most)
{
    while (most > 1 && v % most) most /= 2;
    return most;
}

// The alignment of argument [arg] in all calls of the product, at most 16 bytes: no access is
// wider, and the library proposes the same algorithms for more. So a product of an input, which may
// be the caller's pointer, and one of a temporary share a choice.
static uint32_t alignment(const Program *p, int gemm, int arg)
{
    int64_t align = 16;
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgEntry *en = &p->entries[i];
            const ProgStep *s = &en->steps[k];
            if (s->kind != PS_GEMM || s->index != gemm || arg >= s->nargs) continue;
            const ProgArg *a = &s->args[arg];
            if (a->kind != PA_BUFFER) continue;
            align = pow2_of(en->buffers[a->index].offset, align);
            align = pow2_of(a->value, align);
            for (int d = 0; d < s->depth && d < PROG_MAX_LOOP_DEPTH; d++)
                align = pow2_of(a->stride[d], align);
        }
    return (uint32_t)align;
}

// Separates the part of a key that the library's algorithms do not depend on: the generated kernel.
static const char beside[] = " or kernel ";

// A key of everything that the choice depends on. It includes the text of the generated kernel, if
// there is one: choices that were measured with another kernel, or without one, are not valid.
// NULL: out of memory.
static char *make_key(const RtModule *m, int gemm, bool with_kernel)
{
    const ProgGemm *g = &m->p->gemms[gemm];
    char *key = NULL, kernel[40] = "";
    uint32_t align[3];
    for (int i = 0; i < 3; i++) align[i] = alignment(m->p, gemm, i);
    if (with_kernel)
        snprintf(kernel, sizeof kernel, "%s%016llx", beside,
                 (unsigned long long)hash_str(m->p->kernels[g->kernel - 1].text));
    const bool conv = g->conv.kind != PV_NONE;
    if (asprintf(&key, "%s ld %lld %lld %lld workspace %lld align %u %u %u%s @ %s @ %s %zu",
                 g->choice_key ? g->choice_key : g->name, (long long)g->lda, (long long)g->ldb,
                 (long long)g->ldc, (long long)g->workspace, align[0], align[1], align[2], kernel,
                 m->d->base.model, conv ? "cudnn" : "cublasLt",
                 conv ? m->d->dnn.number : m->d->lt.number) < 0)
        return NULL;
    return key;
}

static bool same_call(const char *x, const char *y)
{
    const char *a = strstr(x, beside), *b = strstr(y, beside);
    size_t skip = sizeof beside - 1 + 16, n = a ? (size_t)(a - x) : strcspn(x, "@") - 1;
    return !strncmp(x, y, n) && !strcmp(x + n + (a ? skip : 0), y + n + (b ? skip : 0));
}

// The first product before this one that is the same for the library and was searched; -1: none.
static int same_before(const RtModule *m, int gemm)
{
    for (int i = 0; i < gemm; i++)
        if (m->gemm[i].found && same_call(m->gemm[i].key, m->gemm[gemm].key)) return i;
    return -1;
}

// -- a choice as text -----------------------------------------------------------------------------
// "kernel", or the algorithm's eight words in hex and its workspace. If both were timed, the times
// follow, for information.
static const char own_kernel[] = "kernel";

static char *print_choice(const CudaGemm *g, const char *note)
{
    char *text = NULL, hex[8 * 16 + 1];
    for (int i = 0; i < 8; i++)
        snprintf(hex + i * 16, 17, "%016llx", (unsigned long long)g->algo.data[i]);
    int n = g->generated ? asprintf(&text, "%s%s", own_kernel, note)
                         : asprintf(&text, "%s %zu%s", hex, g->workspace, note);
    return n < 0 ? NULL : text;
}

static bool parse_choice(const char *text, size_t n, LtAlgo *algo)
{
    if (n < 8 * 16) return false;
    for (int i = 0; i < 8; i++) {
        char word[17] = "", *end;
        memcpy(word, text + i * 16, 16);
        algo->data[i] = strtoull(word, &end, 16);
        if (*end || strspn(word, "0123456789abcdef") != 16) return false;
    }
    return true;
}

static const char *find_line(const char *choices, const char *key, size_t *n)
{
    size_t nkey = strlen(key);
    for (const char *line = choices ? choices : "", *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        if (!strncmp(line, key, nkey) && !strncmp(line + nkey, ": ", 2)) {
            *n = (size_t)(end - line) - nkey - 2;
            return line + nkey + 2;
        }
    }
    return NULL;
}

static bool is_kernel(const char *text, size_t n)
{
    size_t word = sizeof own_kernel - 1;
    return n >= word && !memcmp(text, own_kernel, word) && (n == word || text[word] == ' ');
}

// The library's plans for a convolution, best first. Returns their number.
static int propose_conv(RtModule *m, int gemm, LtResult *out)
{
    uint32_t align[3];
    for (int i = 0; i < 3; i++) align[i] = alignment(m->p, gemm, i);
    return cuda_conv_propose(m, gemm, align, out, PROPOSED);
}

// Whether the library still accepts the algorithm.
static bool accepts(RtModule *m, int gemm, const char *text, size_t n, LtResult *r)
{
    const CudaDevice *d = m->d;
    const CudaGemm *g = &m->gemm[gemm];
    LtAlgo algo;
    *r = (LtResult){0};
    if (!parse_choice(text, n, &algo)) return false;
    if (m->p->gemms[gemm].conv.kind) {
        LtResult proposed[PROPOSED];
        if (algo.data[0] >= (uint64_t)propose_conv(m, gemm, proposed)) return false;
        *r = proposed[algo.data[0]];
        return !memcmp(&r->algo, &algo, sizeof algo); // (the same engine)
    }
    if (d->lt.algo_check(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, &algo, r) != LT_OK ||
        r->state != LT_OK || r->workspace > (size_t)m->p->gemms[gemm].workspace)
        return false;
    r->algo = algo;
    return true;
}

// Uses a choice if it is still possible: the library accepts the algorithm, or the kernel exists.
static bool accept(RtModule *m, int gemm, const char *text, size_t n)
{
    CudaGemm *g = &m->gemm[gemm];
    LtResult r;
    if (text && is_kernel(text, n)) {
        g->generated = cuda_gemm_has_kernel(m, gemm);
        if (g->generated) g->value = strndup(text, n);
        return g->value != NULL;
    }
    if (!text || !accepts(m, gemm, text, n, &r)) return false;
    g->algo = r.algo;
    g->workspace = r.workspace;
    g->value = strndup(text, n);
    return g->value != NULL;
}

// -- candidates -----------------------------------------------------------------------------------

// With a smaller workspace the heuristic rarely proposes split-K, even if that needed little of it.
#define MUCH_ROOM ((size_t)32 << 20)

static uint32_t scheme_of(const RtModule *m, const LtAlgo *algo)
{
    uint32_t scheme = 0;
    size_t written;
    m->d->lt.algo_get(algo, LT_ALGO_REDUCTION, &scheme, sizeof scheme, &written);
    return scheme;
}

// Asks the heuristic for algorithms with a workspace of so many bytes, best first. Keeps those that
// fit in the product's own workspace and add split sums by one of the given schemes. Returns their
// number.
static int propose(const RtModule *m, int gemm, uint32_t schemes, size_t workspace, LtResult *out,
                   LtStatus *status)
{
    CudaDevice *d = m->d;
    const CudaGemm *g = &m->gemm[gemm];
    LtPreference pref;
    uint32_t align[3];
    for (int i = 0; i < 3; i++) align[i] = alignment(m->p, gemm, i);
    int n = 0, kept = 0;
    LtStatus r = d->lt.pref_create(&pref);
    *status = r;
    if (r != LT_OK) return 0;
    r = d->lt.pref_set(pref, LT_PREF_WORKSPACE, &workspace, sizeof workspace);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_REDUCTION, &schemes, sizeof schemes);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_A, &align[1], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_B, &align[0], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_C, &align[2], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_D, &align[2], sizeof *align);
    if (r == LT_OK)
        r = d->lt.heuristic(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, pref, PROPOSED, out, &n);
    d->lt.pref_destroy(pref);
    *status = r;
    for (int i = 0; i < n && r == LT_OK; i++)
        if (out[i].state == LT_OK && out[i].workspace <= (size_t)m->p->gemms[gemm].workspace &&
            !(scheme_of(m, &out[i].algo) & ~schemes))
            out[kept++] = out[i];
    return kept;
}

static bool is_among(const LtResult *known, int n, const LtResult *r)
{
    for (int i = 0; i < n; i++)
        if (!memcmp(&known[i].algo, &r->algo, sizeof r->algo)) return true;
    return false;
}

// The proposals with a large workspace and with the product's own workspace, alternately, best
// first.
static RtCode candidates(RtModule *m, int gemm, LtResult *out, int *n, RtError *e)
{
    const CudaDevice *d = m->d;
    const ProgGemm *p = &m->p->gemms[gemm];
    if (p->conv.kind) {
        *n = propose_conv(m, gemm, out);
        return *n ? RT_OK : rt_fail(e, RT_ENV, "cuDNN cannot compute convolution %s", p->name);
    }
    // Excludes sums in varying order, so that two runs give the same bits, and partial sums that
    // are rounded to a narrow result type.
    bool wide = p->c_type == PD_F32 || p->c_type == PD_F64;
    uint32_t reduce = LT_REDUCE_COMPUTE | (wide ? LT_REDUCE_OUTPUT : 0);
    LtResult proposed[2][PROPOSED];
    int count[2], kept = 0;
    LtStatus r;
    for (int i = 0; i < 2; i++)
        count[i] = propose(m, gemm, reduce, i ? (size_t)p->workspace : MUCH_ROOM, proposed[i], &r);
    for (int k = 0; k < PROPOSED; k++)
        for (int i = 0; i < 2; i++)
            if (k < count[i] && !is_among(out, kept, &proposed[i][k])) out[kept++] = proposed[i][k];
    *n = kept;
    if (kept) return RT_OK;
    return rt_fail(
        e, RT_ENV,
        "cuBLASLt %zu on %s has no algorithm for matmul %s%s%s: (%lld, %lld) x (%lld, %lld) %s, "
        "epilogue %d%s%s\ncompile without this epilogue, or without cuBLASLt",
        d->lt.number, d->base.model, p->name, p->loc && *p->loc ? ", " : "", p->loc ? p->loc : "",
        (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n,
        prog_dtype_name(p->a_type), (int)p->epilogue, r == LT_OK ? "" : ": ",
        r == LT_OK ? "" : d->lt.status_name(r));
}

// Proposes and searches algorithms; sets g->found.
static RtCode search(RtModule *m, int gemm, RtError *e)
{
    CudaGemm *g = &m->gemm[gemm];
    LtResult proposed[CANDIDATES];
    int n;
    RtCode code = candidates(m, gemm, proposed, &n, e);
    if (code) return code;
    g->found = calloc(1, sizeof *g->found);
    if (!g->found) return rt_fail(e, RT_OOM, "out of memory");
    cuda_gemm_search(m, gemm, proposed, n, g->found);
    return RT_OK;
}

// -- before the kernels are loaded ----------------------------------------------------------------

static RtKey cache_key(const CudaGemm *g)
{
    RtKey key = rt_key_start("matmul choice 9");
    rt_key_str(&key, g->key);
    return key;
}

// Whether the choice table or the cache has a choice for the product.
static bool is_chosen(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch)
{
    const CudaGemm *g = &m->gemm[gemm];
    LtResult r;
    void *cached;
    size_t n = 0;
    const char *line = find_line(m->p->choices, g->key, &n);
    if (line && (is_kernel(line, n) || accepts(m, gemm, line, n, &r))) return true;
    return rt_cache_get(o, cache_key(g), scratch, &cached, &n) &&
           (is_kernel(cached, n) || accepts(m, gemm, cached, n, &r));
}

bool cuda_gemms_wanted(RtModule *m, const RtCompileOptions *o, Arena *scratch)
{
    bool any = false;
    for (int i = 0; i < m->p->ngemms && !o->locked; i++) {
        CudaGemm *g = &m->gemm[i];
        bool same = false;
        if (g->generated) continue;                          // there is no library
        g->key = make_key(m, i, m->p->gemms[i].kernel != 0); // the kernel will be compiled
        if (!g->key) return false;
        for (int k = 0; k < i && !same; k++)
            same = m->gemm[k].key && (!strcmp(m->gemm[k].key, g->key) ||
                                      (m->gemm[k].wanted && same_call(m->gemm[k].key, g->key)));
        g->wanted = !same && !is_chosen(m, i, o, scratch);
        any |= g->wanted;
    }
    return any;
}

void cuda_gemms_search(RtModule *m)
{
    RtError later = {0}; // the same error will be reported by choose
    for (int i = 0; i < m->p->ngemms; i++)
        if (m->gemm[i].wanted) search(m, i, &later);
}

// -- after the kernels are loaded -----------------------------------------------------------------

// Chooses the fastest of the algorithms found and of the program's own kernel.
static RtCode measure(RtModule *m, int gemm, const RtCompileOptions *o, GemmFound *found,
                      RtError *e)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    CudaGemm *g = &m->gemm[gemm];
    bool differs;
    GemmTimes t = {0};
    char note[80] = "";
    bool measured = cuda_gemm_fastest(m, gemm, found, &t, &differs, e);
    if (e->code) return e->code;
    if (differs) {
        m->defect = m->p->kernels[p->kernel - 1].name;
        rt_log(o,
               "warning: kernel %s%s%s does not compute what the %s library computes and is "
               "not used: this is a bug in netc, please report it with the model",
               m->defect, p->loc && *p->loc ? ", " : "", p->loc ? p->loc : "",
               p->conv.kind ? "convolution" : "matmul");
    }
    if (!measured)
        return RT_OK; // no memory to measure: the library's first algorithm is used, or
                      // for a convolution the kernel
    if (t.library > 0 && t.kernel > 0)
        plain_format(note, sizeof note, "  # library %.2f us, kernel %.2f us", t.library * 1e6,
                     t.kernel * 1e6);
    g->value = print_choice(g, note);
    if (!g->value) return rt_fail(e, RT_OOM, "out of memory");
    // (not if the kernel is wrong, so that the next process finds the error again: it may be a
    // check)
    if (!differs) rt_cache_put(o, cache_key(g), g->value, strlen(g->value));
    return RT_OK;
}

RtCode cuda_gemm_choose(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch,
                        RtError *e)
{
    const ProgGemm *p = &m->p->gemms[gemm];
    CudaGemm *g = &m->gemm[gemm];
    if (g->value || (g->generated && p->conv.kind)) return RT_OK; // known, or there is no library
    free(g->key);
    g->key = make_key(m, gemm, cuda_gemm_has_kernel(m, gemm));
    if (!g->key) return rt_fail(e, RT_OOM, "out of memory");
    for (int i = 0; i < gemm; i++)
        if (m->gemm[i].value && !strcmp(m->gemm[i].key, g->key) &&
            accept(m, gemm, m->gemm[i].value, strlen(m->gemm[i].value)))
            return RT_OK;
    size_t n = 0;
    const char *line = find_line(m->p->choices, g->key, &n);
    if (accept(m, gemm, line, n)) return RT_OK;
    if (o->locked)
        return rt_fail(e, RT_USER,
                       "--locked: what computes matmul %s%s%s is not in the tuning file: %s\n"
                       "'netc tune' measures it on this device and writes the line",
                       p->name, p->loc && *p->loc ? ", " : "", p->loc ? p->loc : "", g->key);
    void *cached;
    if (rt_cache_get(o, cache_key(g), scratch, &cached, &n) && accept(m, gemm, cached, n))
        return RT_OK;
    int before = g->found ? -1 : same_before(m, gemm);
    if (before >= 0) { // takes the fastest of that product
        LtResult same[PROPOSED];
        if (p->conv.kind) propose_conv(m, gemm, same);
        GemmFound one = *m->gemm[before].found;
        if (one.n > 1) one.n = 1;
        return measure(m, gemm, o, &one, e);
    }
    if (g->found || search(m, gemm, e) == RT_OK) return measure(m, gemm, o, g->found, e);
    if (e->code == RT_OOM || !cuda_gemm_has_kernel(m, gemm)) return e->code;
    *e = (RtError){0}; // there is no algorithm, so nothing to measure
    g->generated = true;
    if (p->conv.kind) return RT_OK; // (perhaps the library could not begin: it is asked again)
    g->value = print_choice(g, "");
    if (!g->value) return rt_fail(e, RT_OOM, "out of memory");
    rt_cache_put(o, cache_key(g), g->value, strlen(g->value));
    return RT_OK;
}

RtCode cuda_gemms_choose(RtModule *m, const RtCompileOptions *o, Arena *scratch, RtError *e)
{
    double begin = clock_now();
    for (int i = 0; i < m->p->ngemms; i++)
        if (cuda_gemm_choose(m, i, o, scratch, e)) return e->code;
    gemm_bench_end(m);
    rt_took(o, RT_PHASE_CHOOSE, clock_now() - begin);
    return RT_OK;
}
