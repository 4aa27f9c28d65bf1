// Which of cuBLASLt's algorithms a product uses: the choice table's, else the cache's, else the
// fastest of the library's candidates, measured here.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cuda.h"

enum { CANDIDATES = 32, SURE = 4, CALLS = 16, ROUNDS = 3 };
// Seconds for all products of a program; SURE candidates of each are measured however long it
// takes.
#define BUDGET 0.15

static int64_t pow2_of(int64_t v, int64_t most)
{
    while (most > 1 && v % most) most /= 2;
    return most;
}

// The alignment that argument [arg] of the product has wherever it is called.
static uint32_t alignment(const Program *p, int gemm, int arg)
{
    int64_t align = 256;
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgEntry *en = &p->entries[i];
            const ProgStep *s = &en->steps[k];
            if (s->kind != PS_GEMM || s->index != gemm || arg >= s->nargs) continue;
            const ProgArg *a = &s->args[arg];
            if (a->kind != PA_BUFFER) continue;
            const ProgBuffer *b = &en->buffers[a->index];
            align = pow2_of(b->offset, align);
            if (b->region == PR_INPUT && align > 16) align = 16; // may be the caller's own pointer
            for (int d = 0; d < s->depth && d < PROG_MAX_LOOP_DEPTH; d++)
                align = pow2_of(a->stride[d], align);
        }
    return (uint32_t)align;
}

static char *make_key(const RtModule *m, const ProgGemm *g, const uint32_t align[3])
{
    char *key = NULL;
    if (asprintf(&key, "%s ld %lld %lld %lld workspace %lld align %u %u %u @ %s @ cublasLt %zu",
                 g->choice_key ? g->choice_key : g->name, (long long)g->lda, (long long)g->ldb,
                 (long long)g->ldc, (long long)g->workspace, align[0], align[1], align[2],
                 m->d->base.model, m->d->lt.number) < 0)
        return NULL;
    return key;
}

// -- a choice as text: the algorithm's eight words in hex, then its workspace
// ------------------------
static char *print_choice(const CudaGemm *g)
{
    char *text = NULL, hex[8 * 16 + 1];
    for (int i = 0; i < 8; i++)
        snprintf(hex + i * 16, 17, "%016llx", (unsigned long long)g->algo.data[i]);
    return asprintf(&text, "%s %zu", hex, g->workspace) < 0 ? NULL : text;
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

// Takes a choice the library still accepts.
static bool accept(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const char *text, size_t n)
{
    LtAlgo algo;
    LtResult r = {0};
    if (!text || !parse_choice(text, n, &algo)) return false;
    if (d->lt.algo_check(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, &algo, &r) != LT_OK ||
        r.state != LT_OK || r.workspace > (size_t)p->workspace)
        return false;
    g->algo = algo;
    g->workspace = r.workspace;
    g->value = print_choice(g);
    return g->value != NULL;
}

// -- candidates
// ---------------------------------------------------------------------------------------
static RtCode candidates(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const uint32_t align[3],
                         LtResult *out, int *n, RtError *e)
{
    LtPreference pref;
    size_t workspace = (size_t)p->workspace;
    // No sums in an order that varies: two runs give the same bits. Nor partial sums rounded to a
    // narrow result type.
    bool wide = p->c_type == PD_F32 || p->c_type == PD_F64;
    uint32_t reduce = LT_REDUCE_COMPUTE | (wide ? LT_REDUCE_OUTPUT : 0);
    *n = 0;
    LT_AT(d, e, p->name, p->loc, pref_create(&pref));
    LtStatus r = d->lt.pref_set(pref, LT_PREF_WORKSPACE, &workspace, sizeof workspace);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_REDUCTION, &reduce, sizeof reduce);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_A, &align[1], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_B, &align[0], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_C, &align[2], sizeof *align);
    if (r == LT_OK) r = d->lt.pref_set(pref, LT_PREF_ALIGN_D, &align[2], sizeof *align);
    if (r == LT_OK)
        r = d->lt.heuristic(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, pref, CANDIDATES, out,
                            n);
    d->lt.pref_destroy(pref);
    int kept = 0;
    for (int i = 0; i < *n && r == LT_OK; i++) {
        uint32_t scheme = 0;
        size_t written;
        d->lt.algo_get(&out[i].algo, LT_ALGO_REDUCTION, &scheme, sizeof scheme, &written);
        if (out[i].state == LT_OK && out[i].workspace <= workspace && (scheme & ~reduce) == 0)
            out[kept++] = out[i];
    }
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

// -- timing
// -------------------------------------------------------------------------------------------
// Enough memory for one call, filled with small positive numbers of any element type.
typedef struct Bench {
    CudaDevice *d;
    const ProgGemm *p;
    CudaGemm *g;
    CuPtr block;
    RtSlot slot[6];
    CuStream s;
    CuEvent begin, end;
} Bench;

static size_t matrix_bytes(ProgDType t, int64_t rows, int64_t cols, int64_t ld, int64_t stride,
                           int64_t batch)
{
    int64_t n = (rows - 1) * ld + cols + (batch > 1 ? (batch - 1) * stride : 0);
    return ((size_t)n * (size_t)prog_dtype_bytes(t) + 511) / 512 * 512;
}

static bool bench_open(Bench *b)
{
    const ProgGemm *p = b->p;
    CuDriver *cu = &b->d->cu;
    int64_t longest = p->m > p->n ? p->m : p->n;
    size_t size[6] = {
        matrix_bytes(p->a_type, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->lda,
                     p->stride_a, p->batch),
        matrix_bytes(p->b_type, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->ldb,
                     p->stride_b, p->batch),
        matrix_bytes(p->c_type, p->m, p->n, p->ldc, p->stride_c, p->batch),
    };
    if (b->g->bias >= 0) size[b->g->bias] = (size_t)longest * 8 + 512;
    if (b->g->aux >= 0)
        size[b->g->aux] = (size_t)(p->m * p->aux_ld * (p->batch > 1 ? p->batch : 1)) * 8 + 512;
    if (b->g->ws >= 0) size[b->g->ws] = (size_t)p->workspace;
    size_t total = 0, at[6];
    for (int i = 0; i < 6; i++) {
        at[i] = total;
        total += (size[i] + 511) / 512 * 512;
    }
    size_t avail = 0, all = 0;
    if (cu->mem_info(&avail, &all) != CU_OK || total > avail / 2) return false;
    if (cu->mem_alloc(&b->block, total) != CU_OK) return false;
    for (int i = 0; i < 6; i++) b->slot[i].p = (void *)(uintptr_t)(b->block + at[i]);
    return cu->stream_create(&b->s, CU_STREAM_NO_LEGACY_SYNC) == CU_OK &&
           cu->event_create(&b->begin, 0) == CU_OK && cu->event_create(&b->end, 0) == CU_OK &&
           cu->memset_u8(b->block, 0x3c, total, b->s) == CU_OK && cu->stream_sync(b->s) == CU_OK;
}

static void bench_close(Bench *b)
{
    CuDriver *cu = &b->d->cu;
    if (b->begin) cu->event_destroy(b->begin);
    if (b->end) cu->event_destroy(b->end);
    if (b->s) cu->stream_destroy(b->s);
    if (b->block) cu->mem_free(b->block);
}

// Seconds of [calls] calls by events, the least of ROUNDS; exec: a graph of them, or NULL.
static double bench_rounds(Bench *b, CuGraphExec exec, int calls)
{
    CuDriver *cu = &b->d->cu;
    double best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        float ms = 0;
        if (cu->event_record(b->begin, b->s) != CU_OK) return -1;
        if (exec && cu->graph_launch(exec, b->s) != CU_OK) return -1;
        if (!exec && cuda_gemm_call(b->d, b->p, b->g, b->slot, b->s) != LT_OK) return -1;
        if (cu->event_record(b->end, b->s) != CU_OK || cu->event_sync(b->end) != CU_OK ||
            cu->event_elapsed(&ms, b->begin, b->end) != CU_OK)
            return -1;
        if (best < 0 || ms < best) best = ms;
    }
    return best * 1e-3 / calls;
}

static double bench_graph(Bench *b)
{
    CuDriver *cu = &b->d->cu;
    CuGraph graph = NULL;
    CuGraphExec exec = NULL;
    if (cu->stream_begin_capture(b->s, CU_CAPTURE_THREAD_LOCAL) != CU_OK) return -1;
    bool ok = true;
    for (int i = 0; i < CALLS && ok; i++)
        ok = cuda_gemm_call(b->d, b->p, b->g, b->slot, b->s) == LT_OK;
    ok = cu->stream_end_capture(b->s, &graph) == CU_OK && ok;
    ok = ok && cu->graph_instantiate(&exec, graph, 0) == CU_OK;
    ok = ok && cu->graph_launch(exec, b->s) == CU_OK;
    double t = ok ? bench_rounds(b, exec, CALLS) : -1;
    if (exec) cu->graph_exec_destroy(exec);
    if (graph) cu->graph_destroy(graph);
    return t;
}

// Seconds of one call with g->algo; negative when it fails or is clearly slower than [best]
// (negative: none yet). A product shorter than its launch from the host is timed as part of a
// graph, its operands in the L2 cache, as it will run.
static double bench_time(Bench *b, double best)
{
    const double launch = 20e-6, short_call = 200e-6;
    if (cuda_gemm_call(b->d, b->p, b->g, b->slot, b->s) != LT_OK ||
        b->d->cu.stream_sync(b->s) != CU_OK)
        return -1;
    double t = bench_rounds(b, NULL, 1);
    if (t < 0 || (best >= 0 && t > 2 * best + launch)) return -1;
    return t < short_call ? bench_graph(b) : t;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Leaves the fastest in g; false when nothing could be measured. One that needs no workspace may be
// 3 % slower: it does not stand in the way of what could run beside it.
static bool fastest(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const LtResult *c, int n,
                    double seconds)
{
    Bench b = {.d = d, .p = p, .g = g};
    int best = -1;
    double least = 0, begin = now(), shortest = -1;
    bool open = bench_open(&b);
    for (int i = 0; i < n && open && (i < SURE || now() - begin < seconds); i++) {
        g->algo = c[i].algo;
        g->workspace = c[i].workspace;
        double t = bench_time(&b, shortest), cost = g->workspace ? t * 1.03 : t;
        if (t < 0) continue;
        if (shortest < 0 || t < shortest) shortest = t;
        if (best < 0 || cost < least) {
            best = i;
            least = cost;
        }
    }
    bench_close(&b);
    g->algo = c[best < 0 ? 0 : best].algo;
    g->workspace = c[best < 0 ? 0 : best].workspace;
    return best >= 0;
}

RtCode cuda_gemm_choose(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch,
                        RtError *e)
{
    CudaDevice *d = m->d;
    const ProgGemm *p = &m->p->gemms[gemm];
    CudaGemm *g = &m->gemm[gemm];
    uint32_t align[3];
    for (int i = 0; i < 3; i++) align[i] = alignment(m->p, gemm, i);
    g->key = make_key(m, p, align);
    if (!g->key) return rt_fail(e, RT_OOM, "out of memory");
    for (int i = 0; i < gemm; i++)
        if (m->gemm[i].value && !strcmp(m->gemm[i].key, g->key) &&
            accept(d, p, g, m->gemm[i].value, strlen(m->gemm[i].value)))
            return RT_OK;
    size_t n = 0;
    const char *line = find_line(m->p->choices, g->key, &n);
    if (accept(d, p, g, line, n)) return RT_OK;
    RtKey key = rt_key_start("matmul choice 2");
    rt_key_str(&key, g->key);
    void *cached;
    if (rt_cache_get(o, key, scratch, &cached, &n) && accept(d, p, g, cached, n)) return RT_OK;

    LtResult found[CANDIDATES];
    int nfound;
    RtCode code = candidates(d, p, g, align, found, &nfound, e);
    if (code && p->kernel) {
        *e = (RtError){0};
        g->generated = true;
        return RT_OK;
    }
    if (code) return code;
    double begin = now(), share = (BUDGET - m->tuned) / (m->p->ngemms - gemm);
    bool measured = fastest(d, p, g, found, nfound, share > 0 ? share : 0);
    m->tuned += now() - begin;
    if (!measured) return RT_OK; // no memory to measure in: the library's first
    g->value = print_choice(g);
    if (!g->value) return rt_fail(e, RT_OOM, "out of memory");
    rt_cache_put(o, key, g->value, strlen(g->value));
    return RT_OK;
}
