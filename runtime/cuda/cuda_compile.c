// Compiles CUDA text to cubins or PTX with NVRTC: one compilation per kernel, in parallel, through
// the cache. Needs no GPU and no driver.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "runtime/cuda/cuda.h"

uint64_t cuda_image_key(const Program *p, int kernel, const char *target)
{
    uint64_t h = hash_str(p->prelude ? p->prelude : "");
    return hash_mix(hash_mix(h, hash_str(p->kernels[kernel].text)), hash_str(target));
}

// The source line of the first step that runs the kernel or product, or "".
static const char *cuda_kernel_loc(const Program *p, int kernel)
{
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgStep *s = &p->entries[i].steps[k];
            if (s->kind == PS_KERNEL && s->index == kernel) return s->loc ? s->loc : "";
        }
    return "";
}

void cuda_spare_kernels(const Program *p, bool *out)
{
    memset(out, 0, (size_t)p->nkernels * sizeof *out);
    for (int i = 0; i < p->ngemms; i++) // (the library for convolutions may be absent)
        if (p->gemms[i].kernel && !p->gemms[i].conv.kind) out[p->gemms[i].kernel - 1] = true;
    for (int i = 0; i < p->ngemms; i++)
        if (p->gemms[i].follower) out[p->gemms[i].follower - 1] = false;
    for (int i = 0; i < p->nentries; i++) {
        const ProgEntry *en = &p->entries[i];
        for (int k = 0; k < en->nsteps; k++)
            if (en->steps[k].kind == PS_KERNEL) out[en->steps[k].index] = false;
    }
}

typedef struct Job {
    int kernel;
    size_t work; // estimated time to compile
    bool spare;  // the program can run without it
    RtKey key;
    RtImage *image;
    char *bytes, *log; // results, malloc'ed
    size_t size;
    double seconds; // of processor time
    NvrtcResult result;
    bool no_memory;
} Job;

typedef struct Work {
    const Nvrtc *n;
    const Program *p;
    const CudaPrelude *prelude;
    const char *const *options;
    int noptions;
    bool ptx;
    RtComing *made;
    Job *job;
    int njobs;
    atomic_int next, failed;
} Work;

// The time to compile is roughly proportional to the length of the text. Products of groups of four
// warps, with unrolled code for every sum, take eight times as long per byte (0.4 to 1.5 s for
// bf16, 4.5 to 8 KB).
static size_t work_of(const char *text)
{
    return strlen(text) * (strstr(text, "nc_products_begin") ? 8 : 1);
}

static int longest_first(const void *a, const void *b)
{
    const Job *x = a, *y = b;
    return x->work != y->work ? (x->work < y->work) - (x->work > y->work) : x->kernel - y->kernel;
}

static void take_log(const Nvrtc *n, NvrtcProgram g, Job *j)
{
    size_t size = 0;
    if (n->log_size(g, &size) == NVRTC_OK && size > 1 && (j->log = calloc(1, size + 1)))
        n->log(g, j->log);
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compile_one(Work *w, Job *j)
{
    const Nvrtc *n = w->n;
    const ProgKernel *k = &w->p->kernels[j->kernel];
    char *text = cuda_prelude_with(w->prelude, k->name, k->text);
    NvrtcProgram g = NULL;
    double begin = thread_seconds();
    j->no_memory = !text;
    if (!text) return;
    j->result = n->create(&g, text, "prelude.cu", 0, NULL, NULL);
    if (j->result == NVRTC_OK) {
        j->result = n->compile(g, w->noptions, w->options);
        take_log(n, g, j); // also if it compiled: remarks of the assembler
    }
    if (j->result == NVRTC_OK)
        j->result = w->ptx ? n->ptx_size(g, &j->size) : n->cubin_size(g, &j->size);
    if (j->result == NVRTC_OK) {
        j->bytes = malloc(j->size + 1);
        j->no_memory = !j->bytes;
        if (j->bytes) j->result = w->ptx ? n->ptx(g, j->bytes) : n->cubin(g, j->bytes);
    }
    if (g) n->destroy(&g);
    free(text);
    j->seconds = thread_seconds() - begin;
}

static void *worker(void *arg)
{
    Work *w = arg;
    int i;
    while ((i = atomic_fetch_add(&w->next, 1)) < w->njobs && !atomic_load(&w->failed)) {
        compile_one(w, &w->job[i]);
        Job *j = &w->job[i];
        if (j->bytes && j->result == NVRTC_OK) {
            RtImage im = *j->image;
            im.bytes = j->bytes;
            im.size = j->size;
            rt_coming_put(w->made, &im);
        }
        if (j->no_memory || (j->result != NVRTC_OK && !j->spare)) atomic_store(&w->failed, 1);
    }
    return NULL;
}

static void compile_all(Work *w, int threads)
{
    enum { MAX_THREADS = 64 };
    pthread_t thread[MAX_THREADS];
    int n = 0;
    if (threads <= 0) threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads > 4 && w->p->ngemms) threads--; // leaves a core for the thread that times products
    if (threads > w->njobs) threads = w->njobs;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    while (n < threads - 1 && pthread_create(&thread[n], NULL, worker, w) == 0) n++;
    worker(w); // this thread compiles, too
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

static RtCode report(const Work *w, const char *target, RtError *e)
{
    for (int i = 0; i < w->njobs; i++) {
        const Job *j = &w->job[i];
        const ProgKernel *k = &w->p->kernels[j->kernel];
        const char *loc = cuda_kernel_loc(w->p, j->kernel);
        if (j->no_memory)
            return rt_fail(e, RT_OOM, "out of memory while compiling kernel %s", k->name);
        if (j->result == NVRTC_OK || (j->spare && !atomic_load(&w->failed))) continue;
        if (j->result == NVRTC_INVALID_OPTION)
            return rt_fail(e, RT_ENV,
                           "NVRTC %d.%d (%s) cannot compile for %s: %s\n"
                           "install a newer CUDA toolkit, or leave %s out of --arch",
                           w->n->major, w->n->minor, w->n->path, target, j->log ? j->log : "",
                           target);
        if (k->file && *k->file) // user-written text: the log has its line numbers
            return rt_fail(e, RT_USER, "%s does not compile for %s%s%s (kernel %s)\n%.3000s",
                           k->file, target, *loc ? ", called in " : "", loc, k->name,
                           j->log ? j->log : "");
        return rt_fail(e, RT_ENV, "NVRTC %d.%d: kernel %s%s%s does not compile for %s: %s\n%.3000s",
                       w->n->major, w->n->minor, k->name, *loc ? ", " : "", loc, target,
                       w->n->error_string(j->result), j->log ? j->log : "");
    }
    return RT_OK;
}

// Converts a target to an option: "sm_90" to "sm_90a" (code for only this architecture, with all
// its instructions), "ptx_80" to "compute_80".
static bool arch_option(const char *target, char *out, size_t n, bool *ptx)
{
    char *end;
    *ptx = !strncmp(target, "ptx_", 4);
    if (!*ptx && strncmp(target, "sm_", 3) != 0) return false;
    const char *digits = target + (*ptx ? 4 : 3);
    long v = strtol(digits, &end, 10);
    if (end == digits || *end || v < 80 || v > 999) return false;
    snprintf(out, n, "--gpu-architecture=%s_%ld%s", *ptx ? "compute" : "sm", v,
             !*ptx && v >= 90 ? "a" : "");
    return true;
}

// Head of a cache entry; the log and the image follow.
typedef struct Entry {
    double seconds;
    uint64_t log; // bytes, including the final 0
} Entry;

static bool read_entry(const char *bytes, size_t n, RtImage *out)
{
    Entry head;
    if (n < sizeof head) return false;
    memcpy(&head, bytes, sizeof head);
    if (!head.log || head.log >= n - sizeof head || bytes[sizeof head + head.log - 1]) return false;
    out->log = bytes + sizeof head;
    out->seconds = head.seconds;
    out->bytes = bytes + sizeof head + head.log;
    out->size = n - sizeof head - head.log;
    return true;
}

static void write_entry(Arena *a, const Job *j, const RtCompileOptions *o, RtImage *out)
{
    const char *log = j->log ? j->log : "";
    Entry head = {j->seconds, (strlen(log) | 15) + 1}; // keeps images aligned
    size_t n = sizeof head + head.log + j->size;
    char *entry = arena_alloc(a, n + 1);
    memset(entry, 0, sizeof head + head.log);
    memcpy(entry, &head, sizeof head);
    memcpy(entry + sizeof head, log, strlen(log));
    memcpy(entry + n - j->size, j->bytes, j->size);
    read_entry(entry, n, out);
    rt_cache_put(o, j->key, entry, n);
}

// Creates an image for each wanted kernel, one for equal kernels: from the cache, or as a job.
static RtCode find_images(Arena *a, Work *w, const char *target, const bool *wanted,
                          const RtCompileOptions *o, RtImage *images, int *n, RtError *e)
{
    const Program *p = w->p;
    bool *spare = NEW_ARRAY(a, bool, p->nkernels);
    IdMap seen = idmap_new(a);
    cuda_spare_kernels(p, spare);
    for (int i = 0; i < p->nkernels; i++) {
        const ProgKernel *k = &p->kernels[i];
        uint64_t id = cuda_image_key(p, i, target);
        if ((wanted && !wanted[i]) || idmap_get(&seen, id, NULL)) continue;
        idmap_set(&seen, id, 1);
        RtImage *im = &images[(*n)++];
        *im = (RtImage){.target = arena_strdup(a, target), .key = id, .identity = k->identity};
        RtKey key = rt_key_start("nvrtc 3");
        rt_key_bytes(&key, &(int[]){w->n->major, w->n->minor}, 2 * sizeof(int));
        for (int j = 0; j < w->noptions; j++) rt_key_str(&key, w->options[j]);
        char *text = cuda_prelude_with(w->prelude, "", k->text); // the name does not matter for the
                                                                 // key
        if (!text) return rt_fail(e, RT_OOM, "out of memory");
        rt_key_str(&key, text);
        free(text);
        void *bytes;
        size_t size;
        if (rt_cache_get(o, key, a, &bytes, &size) && read_entry(bytes, size, im))
            rt_coming_put(o->made, im);
        else
            w->job[w->njobs++] = (Job){
                .kernel = i, .work = work_of(k->text), .spare = spare[i], .key = key, .image = im};
    }
    return RT_OK;
}

// Copies the results of the jobs to their images and, unless something failed, to the cache.
static void take_results(Arena *a, const Work *w, const char *target, const RtCompileOptions *o,
                         bool failed)
{
    for (int i = 0; i < w->njobs; i++) {
        Job *j = &w->job[i];
        const char *log = j->log ? j->log : "";
        if (!failed && j->result != NVRTC_OK) {
            rt_log(o,
                   "note: kernel %s does not compile for %s: %.*s; the matmul library is used "
                   "without it",
                   w->p->kernels[j->kernel].name, target, (int)strcspn(log, "\n"), log);
        } else if (!failed) {
            write_entry(a, j, o, j->image);
        }
        free(j->bytes);
        free(j->log);
    }
}

RtCode cuda_compile(Arena *a, const Program *p, const char *target, const bool *wanted,
                    const RtCompileOptions *o, RtImage **images, int *n, RtError *e)
{
    char arch[64];
    bool ptx;
    *images = NULL;
    *n = 0;
    if (!arch_option(target, arch, sizeof arch, &ptx))
        return rt_fail(e, RT_USER,
                       "there is no architecture '%s'; use sm_80, sm_90, sm_100, ... or ptx_80",
                       target);
    if (p->nkernels == 0) return RT_OK;
    Nvrtc nvrtc;
    if (nvrtc_open(&nvrtc, e)) return e->code;
    // NVRTC's own cache needs the driver, which it would load and initialise; ours suffices. The
    // declarations of the CUDA runtime, which no text uses, take 4 ms per kernel to parse. The
    // compiler must not contract operations: fused operations are explicit (passes/contract.c).
    const char *options[] = {arch, "--device-as-default-execution-space", "--fmad=false",
                             "--no-cache", "--minimal"};
    Work w = {.n = &nvrtc,
              .p = p,
              .prelude = cuda_prelude_new(a, p->prelude ? p->prelude : ""),
              .options = options,
              .noptions = nvrtc.major >= 13 ? 5 : 3,
              .ptx = ptx,
              .made = o->made,
              .job = NEW_ARRAY(a, Job, p->nkernels)};
    *images = NEW_ARRAY(a, RtImage, p->nkernels);
    if (find_images(a, &w, target, wanted, o, *images, n, e)) return e->code;
    if (!w.njobs) return RT_OK;

    qsort(w.job, (size_t)w.njobs, sizeof *w.job, longest_first); // so that no thread begins a long
                                                                 // job last
    atomic_init(&w.next, 0);
    atomic_init(&w.failed, 0);
    rt_log(o, "NVRTC %d.%d: %d of %d kernels for %s", nvrtc.major, nvrtc.minor, w.njobs, *n,
           target);
    double begin = clock_now(), processor = 0;
    compile_all(&w, o->threads);
    rt_took(o, RT_PHASE_COMPILE, clock_now() - begin);
    for (int i = 0; i < w.njobs; i++) processor += w.job[i].seconds;
    rt_took(o, RT_PHASE_COMPILE_CPU, processor);
    RtCode code = report(&w, target, e);
    take_results(a, &w, target, o, code != RT_OK);
    int kept = 0; // jobs that failed have no image
    for (int i = 0; i < *n; i++)
        if ((*images)[i].bytes) (*images)[kept++] = (*images)[i];
    *n = kept;
    return code;
}

RtCode rt_compile_cuda(Arena *a, const Program *p, const char *target, const RtCompileOptions *o,
                       RtImage **images, int *n, RtError *e)
{
    static const RtCompileOptions none = {0};
    return cuda_compile(a, p, target, NULL, o ? o : &none, images, n, e);
}
