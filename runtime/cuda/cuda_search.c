// Finds the fastest way to compute a product.
//
// A GPU that starts to work after a pause takes about half a millisecond to reach its speed, and
// after some 40 ms of large products it lowers its clock to stay within its power limit. Long
// products are therefore timed in races: each candidate runs a few calls at a time, all in one
// sequence that the host does not interrupt, after a warm-up. Times measured like this differ by a
// few parts in a thousand from one race to the next, so candidates of different races can be
// compared.
#include "runtime/cuda/cuda_search.h"

#include <string.h>

#include "base/clock.h"
#include "runtime/cuda/cuda_bench.h"

// Seconds for the short products of a program. The first SURE proposals for each are timed even if
// that takes longer.
#define BUDGET 0.15
// Variants are searched for products that take longer than LONG_CALL: at most VARIANTS seconds for
// each, and ALL_VARIANTS in a program.
#define LONG_CALL    40e-6
#define VARIANTS     0.4
#define ALL_VARIANTS 3.0
#define WARM         1.5e-3 // of a race
#define TURN         0.2e-3 // of each candidate in a race, at least
#define CLOSE        1.04   // factor; candidates within it of the fastest are timed again

enum { SURE = 4, WAYS = 96 };

typedef struct Way {
    LtAlgo algo;
    size_t workspace;
    bool generated; // the program's own kernel instead of an algorithm
    double seconds; // per call; negative: it fails
} Way;

typedef struct Search {
    GemmBench b;
    CuEvent mark[WAYS + 1];
    Way way[WAYS];
    int n;
    double least; // estimated seconds of the fastest
    double deadline;
} Search;

static void use(Search *s, const Way *w)
{
    s->b.g->algo = w->algo;
    s->b.g->workspace = w->workspace;
    s->b.g->generated = w->generated;
}

static bool faster(const Way *a, const Way *b)
{
    return a->seconds >= 0 && (b->seconds < 0 || a->seconds < b->seconds);
}

// Sorts the fastest first; equal ones stay in the order of the proposals.
static void sort(Search *s)
{
    for (int i = 1; i < s->n; i++) {
        Way w = s->way[i];
        int at = i;
        for (; at > 0 && faster(&w, &s->way[at - 1]); at--) s->way[at] = s->way[at - 1];
        s->way[at] = w;
    }
}

// -- races ----------------------------------------------------------------------------------------

static int calls_in(double seconds, double call)
{
    return call > 1e-3 * seconds ? (int)(seconds / call) + 1 : 1000;
}

// Times [n] candidates, each with [calls] calls in a row, after a warm-up with the first one.
// seconds[i]: per call; negative: it fails. *late: enqueuing took longer than the warm-up ran, so
// the device may have been idle in between.
static bool lap(Search *s, const Way *way, int n, int warm, int calls, double *seconds, bool *late)
{
    CuDriver *cu = &s->b.d->cu;
    bool ok = true;
    double begin = clock_now();
    use(s, &way[0]);
    ok = gemm_bench_enqueue(&s->b, warm) && cu->event_record(s->mark[0], s->b.s) == CU_OK;
    for (int i = 0; i < n && ok; i++) {
        use(s, &way[i]);
        seconds[i] = gemm_bench_enqueue(&s->b, calls) ? 0 : -1;
        ok = cu->event_record(s->mark[i + 1], s->b.s) == CU_OK;
    }
    *late = clock_now() - begin > warm * way[0].seconds;
    ok = ok && cu->stream_sync(s->b.s) == CU_OK;
    for (int i = 0; i < n && ok; i++) {
        float ms = 0;
        ok = cu->event_elapsed(&ms, s->mark[i], s->mark[i + 1]) == CU_OK;
        if (seconds[i] >= 0) seconds[i] = ms * 1e-3 / calls;
    }
    return ok;
}

// The same; if the host was late, because other threads are compiling, again with a longer warm-up.
static bool good_lap(Search *s, const Way *way, int n, double *seconds)
{
    int warm = calls_in(WARM, way[0].seconds > 0 ? way[0].seconds : s->least),
        calls = calls_in(TURN, s->least);
    bool late, ok = lap(s, way, n, warm, calls, seconds, &late);
    return ok && late ? lap(s, way, n, 4 * warm, calls, seconds, &late) : ok;
}

// Times the candidates from [first] on: the minimum of two laps. All were called before, since the
// first call of a kernel loads it.
static void race(Search *s, int first)
{
    int n = s->n - first;
    double t[WAYS];
    if (n <= 0 || s->n == 1) return; // there is only one
    for (int k = 0; k < 2; k++) {
        bool ok = good_lap(s, s->way + first, n, t);
        for (int i = 0; i < n; i++) {
            double *best = &s->way[first + i].seconds;
            bool bad = !ok || t[i] < 0 || *best < 0;
            if (bad || k == 0 || t[i] < *best) *best = bad ? -1 : t[i];
        }
    }
}

// Times candidates more exactly: the mean of four laps. Those much slower in the first lap are left
// out of the others.
static void finals(Search *s)
{
    enum { LAPS = 4 };
    double sum[WAYS] = {0}, t[WAYS];
    int n = s->n;
    for (int k = 0; k < LAPS && n > 1; k++) {
        bool ok = good_lap(s, s->way, n, t);
        for (int i = 0; i < n; i++) {
            bool bad = !ok || t[i] < 0 || sum[i] < 0;
            sum[i] = bad ? -1 : sum[i] + t[i];
            s->way[i].seconds = bad ? -1 : sum[i] / (k + 1);
        }
        if (k > 0) continue;
        sort(s);
        for (int i = 0; i < n; i++) sum[i] = s->way[i].seconds;
        while (n > 1 && (sum[n - 1] < 0 || sum[n - 1] > CLOSE * sum[0])) n--;
    }
    sort(s);
}

// Adds a candidate if the device can call it and it is not clearly slower than the others. The
// first call loads the kernel; the second gives an estimate, which is returned; 0: it fails.
static double enter(Search *s, Way w)
{
    if (s->n == WAYS) return 0;
    use(s, &w);
    if (gemm_bench_calls(&s->b, 1) < 0) return 0;
    w.seconds = gemm_bench_calls(&s->b, 1);
    if (w.seconds < 0) return 0;
    if (s->n && w.seconds > 2 * s->least) return w.seconds;
    if (!s->n || w.seconds < s->least) s->least = w.seconds;
    s->way[s->n++] = w;
    return w.seconds;
}

// -- variants -------------------------------------------------------------------------------------

static bool is_known(const Search *s, const LtAlgo *algo)
{
    for (int i = 0; i < s->n; i++)
        if (!s->way[i].generated && !memcmp(&s->way[i].algo, algo, sizeof *algo)) return true;
    return false;
}

static void try_variant(Search *s, const LtAlgo *base, int attribute, const void *value,
                        size_t size)
{
    const CudaDevice *d = s->b.d;
    const CudaGemm *g = s->b.g;
    LtAlgo algo = *base;
    LtResult r = {0};
    if (d->lt.algo_set(&algo, attribute, value, size) != LT_OK || is_known(s, &algo) ||
        d->lt.algo_check(d->lt_handle, g->desc, g->a, g->b, g->c, g->c, &algo, &r) != LT_OK ||
        r.state != LT_OK || r.workspace > (size_t)s->b.p->workspace || clock_now() > s->deadline)
        return;
    enter(s, (Way){.algo = algo, .workspace = r.workspace});
}

// The heuristic considers sizes, but not the epilogue or the device's behaviour under load, and
// proposes one variant per tile. Other clusters and options of the best proposal are up to a tenth
// faster.
static void try_variants(Search *s, const Way *parent)
{
    static const uint16_t clusters[] = {2, 3, 5, 4, 8}; // 1x1, 2x1, 1x2, 4x1, 1x4 blocks
    enum { OPTIONS = 8, CLUSTERS = sizeof clusters / sizeof *clusters };
    const LtAlgo base = parent->algo;
    if (parent->generated || s->b.p->conv.kind) return;
    for (int32_t option = 0; option < OPTIONS; option++)
        try_variant(s, &base, LT_ALGO_CUSTOM, &option, sizeof option);
    for (int k = 0; k < CLUSTERS; k++)
        try_variant(s, &base, LT_ALGO_CLUSTER, &clusters[k], sizeof *clusters);
}

static double fastest_of(const Search *s, bool generated)
{
    for (int i = 0; i < s->n; i++)
        if (s->way[i].generated == generated && s->way[i].seconds > 0) return s->way[i].seconds;
    return 0;
}

// -- products that take long ----------------------------------------------------------------------

static bool make_marks(Search *s)
{
    for (int i = 0; i <= WAYS; i++)
        if (s->b.d->cu.event_create(&s->mark[i], 0) != CU_OK) return false;
    return true;
}

static void search_long(Search *s, const LtResult *proposed, int n)
{
    for (int i = 0; i < n && (i < SURE || clock_now() < s->deadline); i++)
        enter(s, (Way){.algo = proposed[i].algo, .workspace = proposed[i].workspace});
    race(s, 0);
    sort(s);
    for (int rounds = 2; s->n && rounds > 0; rounds--) {
        int before = s->n;
        const Way best = s->way[0];
        try_variants(s, &best);
        race(s, before);
        sort(s);
        if (!memcmp(&best, &s->way[0], sizeof best)) break; // all variants are known
    }
}

// -- products that take less ----------------------------------------------------------------------

// Times candidates one by one, in a graph if they are shorter than a launch. first: seconds of the
// first. A candidate with a workspace cannot run concurrently with others that use it, so 3 % are
// added to its time.
static void time_short(Search *s, const Way *way, int n, double first, double until,
                       GemmTimes *times)
{
    for (int i = 0; i < n && s->n < WAYS; i++) {
        Way w = way[i];
        if (i >= SURE && !w.generated && clock_now() > until) continue;
        use(s, &w);
        w.seconds = i ? gemm_bench_time(&s->b, w.generated ? -1 : s->least) : first;
        if (w.seconds < 0) continue;
        double *t = w.generated ? &times->kernel : &times->library;
        if (!*t || w.seconds < *t) *t = w.seconds;
        if (s->least < 0 || w.seconds < s->least) s->least = w.seconds;
        if (w.workspace) w.seconds *= 1.03;
        s->way[s->n++] = w;
    }
    sort(s);
}

// -- a product ------------------------------------------------------------------------------------

static void end(Search *s)
{
    for (int i = 0; i <= WAYS; i++)
        if (s->mark[i]) s->b.d->cu.event_destroy(s->mark[i]);
    gemm_bench_close(&s->b);
}

void cuda_gemm_search(RtModule *m, int gemm, const LtResult *proposed, int n, GemmFound *out)
{
    Search s = {.least = -1};
    Way way[WAYS];
    double begin = clock_now(), share = (BUDGET - m->tuned) / (m->p->ngemms - gemm), t = -1;
    GemmTimes ignored = {0};
    for (int i = 0; i < n; i++)
        way[i] = (Way){.algo = proposed[i].algo, .workspace = proposed[i].workspace};
    bool open = gemm_bench_open(&s.b, m, gemm);
    s.b.alone = true;
    use(&s, &way[0]);
    if (open) t = gemm_bench_time(&s.b, -1);
    if (open && t < LONG_CALL) {
        time_short(&s, way, n, t, begin + share, &ignored);
        m->tuned += clock_now() - begin;
    } else if (open && make_marks(&s)) {
        double left = ALL_VARIANTS - m->searched;
        s.deadline = begin + (left < VARIANTS ? left : VARIANTS);
        search_long(&s, proposed, n);
        m->searched += clock_now() - begin;
    }
    end(&s);
    *out = (GemmFound){.algo = {way[0].algo}, .workspace = {way[0].workspace}};
    for (int i = 0; i < s.n && i < GEMM_FOUND && s.way[i].seconds >= 0; i++, out->n++) {
        out->algo[i] = s.way[i].algo;
        out->workspace[i] = s.way[i].workspace;
        out->seconds[i] = s.way[i].seconds;
    }
}

// Compares candidates by the time of the whole step. All were called before.
static void compare(Search *s, const Way *way, int n, GemmTimes *times)
{
    double begin = clock_now(), t = gemm_bench_time(&s->b, -1); // the current one is way[0]
    if (t < LONG_CALL) {
        time_short(s, way, n, t, begin, times);
        s->b.m->tuned += clock_now() - begin;
        return;
    }
    if (!make_marks(s)) return;
    s->least = way[0].seconds;
    for (int i = 0; i < n; i++) {
        if (way[i].generated)
            times->kernel = enter(s, way[i]);
        else if (way[i].seconds <= CLOSE * s->least)
            s->way[s->n++] = way[i];
    }
    finals(s);
    double library = fastest_of(s, false), kernel = fastest_of(s, true);
    if (library) times->library = library;
    if (kernel) times->kernel = kernel;
}

bool cuda_gemm_fastest(RtModule *m, int gemm, GemmFound *found, GemmTimes *times, bool *differs,
                       RtError *e)
{
    Search s = {.least = -1};
    Way way[GEMM_FOUND + 1];
    int n = found->n;
    for (int i = 0; i < n; i++)
        way[i] = (Way){found->algo[i], found->workspace[i], false, found->seconds[i]};
    way[n] = (Way){.algo = found->algo[0], .generated = true};
    bool open = n && gemm_bench_open(&s.b, m, gemm), kernel = open && cuda_gemm_has_kernel(m, gemm);
    *differs = false;
    m->gemm[gemm].algo = found->algo[0];
    m->gemm[gemm].workspace = found->workspace[0];
    m->gemm[gemm].generated = false;
    if (kernel) kernel = gemm_bench_agrees(&s.b, differs, e);
    if (open && !e->code) compare(&s, way, n + kernel, times);
    if (n) end(&s);
    for (int i = s.n - 1; i >= 0; i--) // the library's fastest is stored first
        if (!s.way[i].generated) {
            found->algo[0] = s.way[i].algo;
            found->workspace[0] = s.way[i].workspace;
        }
    if (s.n)
        use(&s, &s.way[0]);
    else if (m->p->gemms[gemm].conv.kind) // no plan works, or there is no memory to try them
        m->gemm[gemm].generated = true;
    return s.n > 0;
}
