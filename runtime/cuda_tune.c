// What computes a product: the choice table says, else the cache, else the fastest of the library's
// candidates, for long products of their variants, and of the program's own kernel, measured here.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "runtime/cuda_bench.h"

enum { CANDIDATES = 32, SURE = 4 };
// Seconds for all products of a program; SURE candidates of each are measured however long it
// takes.
#define BUDGET 0.15
// Products that take longer than this are searched further, for so many seconds each at most, and
// so many in a program.
#define LONG_CALL    40e-6
#define VARIANTS     0.5
#define ALL_VARIANTS 4.0

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

// All that the choice depends on, the text of the kernel that takes part included: what was
// measured beside another one, or without any, is no choice here.
static char *make_key(const RtModule *m, int gemm, const uint32_t align[3])
{
    const ProgGemm *g = &m->p->gemms[gemm];
    char *key = NULL, kernel[40] = "";
    if (cuda_gemm_has_kernel(m, gemm))
        snprintf(kernel, sizeof kernel, " or kernel %016llx",
                 (unsigned long long)hash_str(m->p->kernels[g->kernel - 1].text));
    if (asprintf(&key, "%s ld %lld %lld %lld workspace %lld align %u %u %u%s @ %s @ cublasLt %zu",
                 g->choice_key ? g->choice_key : g->name, (long long)g->lda, (long long)g->ldb,
                 (long long)g->ldc, (long long)g->workspace, align[0], align[1], align[2], kernel,
                 m->d->base.model, m->d->lt.number) < 0)
        return NULL;
    return key;
}

// -- a choice as text: "kernel", or the algorithm's eight words in hex and its workspace. Where
// both were timed, both times follow, for people.
// ------------------------
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

// Takes a choice that is still possible: the library accepts the algorithm, or the kernel is there.
static bool accept(RtModule *m, int gemm, const char *text, size_t n)
{
    CudaDevice *d = m->d;
    CudaGemm *g = &m->gemm[gemm];
    size_t word = sizeof own_kernel - 1;
    LtAlgo algo;
    LtResult r = {0};
    if (text && n >= word && !memcmp(text, own_kernel, word) && (n == word || text[word] == ' ')) {
        g->generated = cuda_gemm_has_kernel(m, gemm);
        if (g->generated) g->value = strndup(text, n);
        return g->value != NULL;
    }
    if (!text || !parse_choice(text, n, &algo)) return false;
    if (d->lt.algo_check(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, &algo, &r) != LT_OK ||
        r.state != LT_OK || r.workspace > (size_t)m->p->gemms[gemm].workspace)
        return false;
    g->algo = algo;
    g->workspace = r.workspace;
    g->value = strndup(text, n);
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

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// -- the search
// ---------------------------------------------------------------------------------------
typedef struct Ranked {
    LtAlgo algo;
    size_t workspace;
    bool generated; // the program's own kernel, no algorithm
    double seconds; // of a call
    double cost;    // a little more where it needs a workspace
} Ranked;

typedef struct Search {
    GemmBench b;
    Ranked top[6]; // cheapest first
    int n;
    double library, kernel; // seconds of the fastest of either; 0: none
    double deadline;
} Search;

// One that needs no workspace may be 3 % slower: it does not stand in the way of what could run
// beside it.
static void rank(Search *s, Ranked r, double seconds)
{
    enum { TOP = sizeof s->top / sizeof *s->top };
    if (seconds < 0) return;
    double *least = r.generated ? &s->kernel : &s->library;
    if (!*least || seconds < *least) *least = seconds;
    r.seconds = seconds;
    r.cost = r.workspace ? seconds * 1.03 : seconds;
    int at = s->n < TOP ? s->n++ : TOP;
    for (; at > 0 && s->top[at - 1].cost > r.cost; at--)
        if (at < TOP) s->top[at] = s->top[at - 1];
    if (at < TOP) s->top[at] = r;
}

static void use(Search *s, const Ranked *r)
{
    s->b.g->algo = r->algo;
    s->b.g->workspace = r->workspace;
    s->b.g->generated = r->generated;
}

// The heuristic looks at sizes, not at the epilogue or the power a device may draw: it leaves out
// variants that are up to a fifth faster. Tiles, clusters and the options of the algorithms it did
// propose are tried in every combination that the library accepts: a call each, three more where
// that comes near the best.
static void try_variants(Search *s, const LtAlgo *base)
{
    // of cublasLtMatmulTile_t: 128x128, 256x64, 128x256, 256x128, 96x128, 128x160, 160x128,
    // 192x128, 128x192, 192x192, 256x96
    static const int32_t tiles[] = {20, 29, 28, 24, 21, 23, 30, 31, 32, 209, 495};
    static const uint16_t clusters[] = {3, 5, 2}; // 2x1, 1x2, one block
    enum {
        TILES = sizeof tiles / sizeof *tiles,
        OPTIONS = 8,
        CLUSTERS = sizeof clusters / sizeof *clusters
    };
    const CudaDevice *d = s->b.d;
    const CudaGemm *g = s->b.g;
    const int32_t one = 1, none = LT_REDUCE_NONE;
    for (int i = 0; i < TILES * OPTIONS && now() < s->deadline; i++)
        for (int k = 0; k < CLUSTERS; k++) {
            LtAlgo algo = *base;
            uint16_t cluster = clusters[k];
            LtResult r = {0};
            int32_t tile = tiles[i / OPTIONS], option = i % OPTIONS;
            if (d->lt.algo_set(&algo, LT_ALGO_TILE, &tile, sizeof tile) != LT_OK ||
                d->lt.algo_set(&algo, LT_ALGO_CUSTOM, &option, sizeof option) != LT_OK ||
                d->lt.algo_set(&algo, LT_ALGO_CLUSTER, &cluster, sizeof cluster) != LT_OK ||
                d->lt.algo_set(&algo, LT_ALGO_SPLIT, &one, sizeof one) != LT_OK ||
                d->lt.algo_set(&algo, LT_ALGO_REDUCTION, &none, sizeof none) != LT_OK ||
                d->lt.algo_check(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, &algo, &r) !=
                    LT_OK ||
                r.state != LT_OK || r.workspace > (size_t)s->b.p->workspace)
                continue;
            const Ranked variant = {.algo = algo, .workspace = r.workspace};
            use(s, &variant);
            gemm_bench_calls(&s->b, 1); // the first call of a kernel loads it
            double t = gemm_bench_calls(&s->b, 1);
            if (t < 0 || t > 1.15 * s->top[0].seconds) continue;
            rank(s, variant, gemm_bench_calls(&s->b, 3));
        }
}

// A device slows down as it gets hot: the best are timed again, taking turns.
static void take_turns(Search *s)
{
    enum { TURNS = 4, CALLS = 4 };
    for (int i = 0; i < s->n; i++) s->top[i].seconds = 0;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < s->n; i++) {
            use(s, &s->top[i]);
            double t = gemm_bench_calls(&s->b, CALLS);
            s->top[i].seconds += t < 0 ? 1 : t;
        }
    Search again = *s;
    s->n = 0;
    s->library = s->kernel = 0;
    for (int i = 0; i < again.n; i++) rank(s, again.top[i], again.top[i].seconds / TURNS);
    if (!s->library) s->library = again.library;
    if (!s->kernel) s->kernel = again.kernel;
}

static bool proposed_before(const CudaDevice *d, const LtResult *c, int i)
{
    int32_t id = -1, other = -1;
    size_t written;
    d->lt.algo_get(&c[i].algo, LT_ALGO_ID, &id, sizeof id, &written);
    for (int k = 0; k < i; k++) {
        d->lt.algo_get(&c[k].algo, LT_ALGO_ID, &other, sizeof other, &written);
        if (other == id) return true;
    }
    return false;
}

// An algorithm clearly slower than the best before it is not timed to the end.
static void try_candidate(Search *s, Ranked r)
{
    use(s, &r);
    rank(s, r, gemm_bench_time(&s->b, s->n && !r.generated ? s->top[0].seconds : -1));
}

// Leaves the fastest in its CudaGemm; false when nothing could be measured.
static bool fastest(RtModule *m, int gemm, const LtResult *c, int n, const RtCompileOptions *o)
{
    Search s = {0};
    double begin = now(), share = (BUDGET - m->tuned) / (m->p->ngemms - gemm);
    bool open = gemm_bench_open(&s.b, m, gemm), kernel = open && cuda_gemm_has_kernel(m, gemm);
    if (kernel) {
        use(&s, &(Ranked){.algo = c[0].algo, .workspace = c[0].workspace});
        kernel = gemm_bench_agrees(&s.b);
        if (!kernel)
            rt_log(o, "note: kernel %s differs from the matmul library and is not used",
                   m->p->kernels[m->p->gemms[gemm].kernel - 1].name);
    }
    for (int i = 0; i < n && open && (i < SURE || now() - begin < share); i++)
        try_candidate(&s, (Ranked){.algo = c[i].algo, .workspace = c[i].workspace});
    if (kernel) try_candidate(&s, (Ranked){.generated = true});
    double proposed = now();
    m->tuned += proposed - begin;
    if (s.n && s.top[0].seconds >= LONG_CALL) {
        double left = ALL_VARIANTS - m->searched;
        s.deadline = proposed + (left < VARIANTS ? left : VARIANTS);
        for (int i = 0; i < n; i++)
            if (!proposed_before(m->d, c, i)) try_variants(&s, &c[i].algo);
        take_turns(&s);
        m->searched += now() - proposed;
    }
    gemm_bench_close(&s.b);
    const Ranked first = {.algo = c[0].algo, .workspace = c[0].workspace};
    use(&s, s.n ? &s.top[0] : &first);
    if (!s.n) return false;
    char note[80] = "";
    if (s.library > 0 && s.kernel > 0)
        snprintf(note, sizeof note, "  # library %.2f us, kernel %.2f us", s.library * 1e6,
                 s.kernel * 1e6);
    s.b.g->value = print_choice(s.b.g, note);
    return true;
}

RtCode cuda_gemm_choose(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch,
                        RtError *e)
{
    CudaDevice *d = m->d;
    const ProgGemm *p = &m->p->gemms[gemm];
    CudaGemm *g = &m->gemm[gemm];
    uint32_t align[3];
    for (int i = 0; i < 3; i++) align[i] = alignment(m->p, gemm, i);
    g->key = make_key(m, gemm, align);
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
    RtKey key = rt_key_start("matmul choice 4");
    rt_key_str(&key, g->key);
    void *cached;
    if (rt_cache_get(o, key, scratch, &cached, &n) && accept(m, gemm, cached, n)) return RT_OK;

    LtResult found[CANDIDATES];
    int nfound;
    RtCode code = candidates(d, p, g, align, found, &nfound, e);
    if (code && !cuda_gemm_has_kernel(m, gemm)) return code;
    if (code) { // no algorithm: nothing to measure
        *e = (RtError){0};
        g->generated = true;
        g->value = print_choice(g, "");
    } else if (!fastest(m, gemm, found, nfound, o)) {
        return RT_OK; // no memory to measure in: the library's first
    }
    if (!g->value) return rt_fail(e, RT_OOM, "out of memory");
    rt_cache_put(o, key, g->value, strlen(g->value));
    return RT_OK;
}
