// Memory and timing of benchmarks of products.
#include "runtime/cuda/cuda_bench.h"

#include <math.h>
#include <stdlib.h>

enum { CALLS = 16, ROUNDS = 3 };

static size_t operand_bytes(const ProgGemm *p, int operand)
{
    const ProgDType type[] = {p->a_type, p->b_type, p->c_type};
    int64_t n = 0;
    prog_gemm_elements(p, operand, &n); // (validated)
    return ((size_t)n * (size_t)prog_dtype_bytes(type[operand]) + 511) / 512 * 512;
}

// The first step that calls the product, and its entry in *e.
static const ProgStep *first_call(const Program *p, int gemm, const ProgEntry **e)
{
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgStep *s = &p->entries[i].steps[k];
            *e = &p->entries[i];
            if (s->kind == PS_GEMM && s->index == gemm) return s;
        }
    return NULL;
}

// The index of the first argument with the same memory as argument [arg]; arg itself if there is
// none.
static int same_memory(const ProgStep *s, int arg)
{
    for (int i = 0; i < arg && s->args[arg].kind == PA_BUFFER; i++)
        if (prog_arg_same(&s->args[i], &s->args[arg])) return i;
    return arg;
}

// Allocates this many bytes unless the module has them already: for many products, allocation takes
// longer than timing.
static bool take_memory(RtModule *m, size_t bytes)
{
    const CuDriver *cu = &m->d->cu;
    size_t avail = 0, most = 0;
    if (bytes <= m->bench_bytes) return true;
    gemm_bench_end(m);
    if (cu->mem_info(&avail, &most) != CU_OK || bytes > avail / 2) return false;
    if (cu->mem_alloc(&m->bench, bytes) != CU_OK) return false;
    m->bench_bytes = bytes;
    return true;
}

void gemm_bench_end(RtModule *m)
{
    if (m->bench_bytes) m->d->cu.mem_free(m->bench);
    m->bench_bytes = 0;
}

bool gemm_bench_open(GemmBench *b, RtModule *m, int gemm)
{
    enum { MOST = sizeof b->slot / sizeof *b->slot };
    const ProgGemm *p = &m->p->gemms[gemm];
    *b = (GemmBench){.m = m, .gemm = gemm, .d = m->d, .p = p, .g = &m->gemm[gemm]};
    CuDriver *cu = &b->d->cu;
    int64_t longest = p->m > p->n ? p->m : p->n;
    int library = prog_gemm_args(p), all = library + p->kernel_args + p->follower_args;
    b->step = first_call(m->p, gemm, &b->entry);
    if (!b->step || b->step->nargs != all) all = library; // no entry calls the product
    size_t size[MOST] = {operand_bytes(p, 0), operand_bytes(p, 1), operand_bytes(p, 2)};
    if (b->g->residual >= 0) size[b->g->residual] = size[2];
    if (b->g->bias >= 0) size[b->g->bias] = (size_t)longest * 8 + 512;
    if (b->g->aux >= 0)
        size[b->g->aux] = (size_t)(p->m * p->n * (p->batch > 1 ? p->batch : 1)) * 8 + 512;
    if (b->g->ws >= 0) size[b->g->ws] = (size_t)p->workspace;
    for (int i = 0; i < all && b->step; i++) {
        const ProgArg *a = &b->step->args[i];
        int first = same_memory(b->step, i);
        if (i >= library && a->kind == PA_BUFFER)
            size[i] = (size_t)cuda_operand_bytes(b->entry, &b->entry->buffers[a->index]);
        if (first == i) continue;
        if (size[i] > size[first]) size[first] = size[i];
        size[i] = 0;
    }
    b->nslots = all;
    size_t total = 0, at[MOST], scratch = 0;
    for (int i = 0; i < all; i++) {
        at[i] = total;
        if (i == b->g->ws)
            scratch = size[i];
        else
            total += (size[i] + 511) / 512 * 512;
    }
    if (b->g->ws >= 0) at[b->g->ws] = total;
    if (!take_memory(m, total + scratch)) return false;
    b->block = m->bench;
    b->bytes = total;
    for (int i = 0; i < all; i++) {
        int first = b->step ? same_memory(b->step, i) : i;
        if (first < i)
            b->slot[i] = b->slot[first];
        else if (b->step && b->step->args[i].kind != PA_BUFFER)
            b->slot[i].v = b->step->args[i].value;
        else
            b->slot[i].p = (void *)(uintptr_t)(b->block + at[i]);
    }
    return cu->stream_create(&b->s, CU_STREAM_NO_LEGACY_SYNC) == CU_OK &&
           cu->event_create(&b->begin, 0) == CU_OK && cu->event_create(&b->end, 0) == CU_OK &&
           cuda_operands_fill(b);
}

void gemm_bench_close(GemmBench *b)
{
    CuDriver *cu = &b->d->cu;
    if (b->begin) cu->event_destroy(b->begin);
    if (b->end) cu->event_destroy(b->end);
    if (b->s) cu->stream_destroy(b->s);
}

static bool call_or(GemmBench *b, RtError *e)
{
    RtStream s = {.d = b->d, .s = b->s};
    if (b->g->generated) return cuda_gemm_kernel(&s, b->m, b->gemm, b->slot, e) == RT_OK;
    return cuda_gemm_call(b->d, b->p, b->g, b->slot, b->s, e) == RT_OK &&
           (b->alone || cuda_gemm_follower(&s, b->m, b->gemm, b->slot, e) == RT_OK);
}

static bool call(GemmBench *b)
{
    RtError e = {0};
    return call_or(b, &e);
}

static RtCode wait(GemmBench *b, const char *kernel, RtError *e)
{
    CU_AT(b->d, e, kernel, b->p->loc, stream_sync(b->s));
    return RT_OK;
}

// -- comparing ------------------------------------------------------------------------------------

enum { PIECES = 32, PIECE = 4096, EACH = PIECES * PIECE };

// Reads [pieces] pieces of memory, evenly distributed. Returns the number of bytes, or -1.
static long read_pieces(GemmBench *b, CuPtr from, int64_t bytes, int pieces, char *to)
{
    int64_t each = bytes < PIECE ? bytes : PIECE, done = 0;
    for (int i = 0; i < pieces && done + each <= bytes; i++, done += each) {
        int64_t at = (bytes - each) / (pieces - 1) * i / 16 * 16;
        if (b->d->cu.copy_d2h(to + done, from + (CuPtr)at, (size_t)each, b->s) != CU_OK) return -1;
    }
    return b->d->cu.stream_sync(b->s) == CU_OK ? (long)done : -1;
}

// The same of the sum of a convolution's parts (f32).
static long read_parts(GemmBench *b, const ProgBuffer *from, CuPtr at, char *to)
{
    enum { FEW = 4 };
    const int64_t parts = b->p->conv.parts, bytes = from->bytes / parts;
    float *sum = (float *)to, *part = malloc(EACH);
    long n = part ? 0 : -1;
    for (int64_t p = 0; p < parts && n >= 0; p++) {
        n = read_pieces(b, at + (CuPtr)(p * bytes), bytes, FEW, p ? (char *)part : to);
        for (long i = 0; p && i < n / (long)sizeof *sum; i++) sum[i] += part[i];
    }
    free(part);
    return n;
}

// Whether two results agree except for rounding, which may also make a few elements overflow in
// only one of them, or a few comparisons come out differently. The error bound of each element
// (ir/bound.h) cannot be used: it depends on the terms of the sum and on the code after the
// product, and the runtime has no IR. So only gross errors are found here; `netc check` compares
// both with the bound.
static bool close_enough(ProgDType t, const char *x, const char *y, long bytes)
{
    double worst = 0, scale = 0;
    long beyond = 0, width = prog_dtype_bytes(t);
    for (long i = 0; i < bytes; i += width) {
        double a = prog_load(t, x + i), b = prog_load(t, y + i);
        if (isfinite(b)) scale = fmax(scale, fabs(b));
        if (a == b || (isnan(a) && isnan(b))) continue;
        if (isfinite(a) && isfinite(b) && t >= PD_BF16)
            worst = fmax(worst, fabs(a - b));
        else
            beyond++;
    }
    return worst <= scale / 32 && beyond * width * 32 <= bytes;
}

// Runs the kernel (by = 0), then the library (by = 1), on the same operands, and reads the buffers
// that the kernel writes. false: one of them failed, or (by = 1) *differs was set.
static bool compare(GemmBench *b, char *pieces, int by, bool *differs, RtError *e)
{
    int first = prog_gemm_args(b->p), n = b->p->kernel_args, follower = b->p->follower;
    int kernel = by && follower ? follower - 1 : b->p->kernel - 1;
    b->g->generated = by == 0;
    if (!cuda_operands_fill(b) || !call_or(b, e) || wait(b, b->m->p->kernels[kernel].name, e))
        return false;
    for (int i = 0; i < n; i++) {
        const ProgArg *a = &b->step->args[first + i];
        if (a->kind != PA_BUFFER || !a->written) continue;
        const ProgBuffer *of = &b->entry->buffers[a->index];
        char *own = pieces + (size_t)i * EACH, *library = own + (size_t)n * EACH;
        const CuPtr at = (CuPtr)(uintptr_t)b->slot[first + i].p;
        char *to = by ? library : own;
        long bytes = b->p->conv.parts > 1 ? read_parts(b, of, at, to)
                                          : read_pieces(b, at, of->bytes, PIECES, to);
        if (bytes < 0) return false;
        *differs |= by && !close_enough(of->type.dtype, own, library, bytes);
    }
    return !*differs;
}

bool gemm_bench_agrees(GemmBench *b, bool *differs, RtError *e)
{
    int n = b->step ? b->p->kernel_args : 0;
    char *pieces = malloc(2 * (size_t)n * EACH + 1);
    *differs = false;
    bool ok = pieces && n && compare(b, pieces, 0, differs, e) && compare(b, pieces, 1, differs, e);
    b->g->generated = false;
    free(pieces);
    return ok;
}

// -- timing ---------------------------------------------------------------------------------------

// Seconds of one call, from events around [calls] calls: the minimum of ROUNDS. exec: a graph with
// the calls, or NULL.
static double bench_rounds(GemmBench *b, CuGraphExec exec, int calls)
{
    CuDriver *cu = &b->d->cu;
    double best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        float ms = 0;
        if (cu->event_record(b->begin, b->s) != CU_OK) return -1;
        if (exec && cu->graph_launch(exec, b->s) != CU_OK) return -1;
        if (!exec && !call(b)) return -1;
        if (cu->event_record(b->end, b->s) != CU_OK || cu->event_sync(b->end) != CU_OK ||
            cu->event_elapsed(&ms, b->begin, b->end) != CU_OK)
            return -1;
        if (best < 0 || ms < best) best = ms;
    }
    return best * 1e-3 / calls;
}

static double bench_graph(GemmBench *b)
{
    CuDriver *cu = &b->d->cu;
    CuGraph graph = NULL;
    CuGraphExec exec = NULL;
    if (cu->stream_begin_capture(b->s, CU_CAPTURE_THREAD_LOCAL) != CU_OK) return -1;
    bool ok = true;
    for (int i = 0; i < CALLS && ok; i++) ok = call(b);
    ok = cu->stream_end_capture(b->s, &graph) == CU_OK && ok;
    ok = ok && cu->graph_instantiate(&exec, graph, 0) == CU_OK;
    ok = ok && cu->graph_launch(exec, b->s) == CU_OK;
    double t = ok ? bench_rounds(b, exec, CALLS) : -1;
    if (exec) cu->graph_exec_destroy(exec);
    if (graph) cu->graph_destroy(graph);
    return t;
}

double gemm_bench_time(GemmBench *b, double best)
{
    const double launch = 20e-6, short_call = 200e-6;
    if (!call(b) || b->d->cu.stream_sync(b->s) != CU_OK) return -1;
    double t = bench_rounds(b, NULL, 1);
    if (t < 0 || (best >= 0 && t > 2 * best + launch)) return -1;
    return t < short_call ? bench_graph(b) : t;
}

bool gemm_bench_enqueue(GemmBench *b, int calls)
{
    for (int i = 0; i < calls; i++)
        if (!call(b)) return false;
    return true;
}

double gemm_bench_calls(GemmBench *b, int calls)
{
    CuDriver *cu = &b->d->cu;
    float ms = 0;
    if (cu->event_record(b->begin, b->s) != CU_OK || !gemm_bench_enqueue(b, calls)) return -1;
    if (cu->event_record(b->end, b->s) != CU_OK || cu->event_sync(b->end) != CU_OK ||
        cu->event_elapsed(&ms, b->begin, b->end) != CU_OK)
        return -1;
    return ms * 1e-3 / calls;
}
