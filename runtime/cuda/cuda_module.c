// The kernels of a Program on a GPU: loaded from images that fit, otherwise compiled here; and
// launched.
#include "base/clock.h"
#include "runtime/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// How well an image suits this device: 0: not at all; 1: PTX, which the driver compiles; 2: a cubin
// for the same major architecture (before sm_90); 3: for exactly this architecture.
static int fits(const CudaDevice *d, const RtImage *im)
{
    int v;
    if (!im->bytes || !im->size) return 0;
    if (!strcmp(im->target, d->base.target)) return 3;
    if (sscanf(im->target, "sm_%d", &v) == 1)
        return d->arch < 90 && v / 10 == d->arch / 10 && v < d->arch ? 2 : 0;
    if (sscanf(im->target, "ptx_%d", &v) == 1) return v <= d->arch;
    return 0;
}

static const RtImage *best_image(const CudaDevice *d, const Program *p, int kernel,
                                 const RtImage *images, int n)
{
    const RtImage *best = NULL;
    int score = 0;
    for (int i = 0; i < n; i++) {
        if (images[i].identity != p->kernels[kernel].identity) continue;
        int f = fits(d, &images[i]);
        if (f > score && images[i].key == cuda_image_key(p, kernel, images[i].target)) {
            score = f;
            best = &images[i];
        }
    }
    return best;
}

static RtCode load_image(RtModule *m, int kernel, const RtImage *im, RtError *e)
{
    CudaDevice *d = m->d;
    const ProgKernel *k = &m->p->kernels[kernel];
    char log[1024] = "";
    int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CuModule mod = NULL;
    CuResult r = d->cu.module_load(&mod, im->bytes, 2, options, values);
    if (r == CU_INVALID_IMAGE || r == CU_NO_BINARY_FOR_GPU || r == CU_UNSUPPORTED_PTX_VERSION)
        return rt_fail(
            e, RT_ENV,
            "%s (%s, driver for CUDA %d.%d) cannot load kernel %s, compiled for %s: the driver "
            "is older than the compiler that made it, or the file is damaged%s%s\n"
            "update the NVIDIA driver, or compile again here (--rebuild) with an NVRTC no newer "
            "than the driver",
            d->base.name, d->base.model, d->driver_version / 1000, d->driver_version % 1000 / 10,
            k->name, im->target, *log ? ": " : "", log);
    if (r != CU_OK)
        return cuda_failed(d, r, "module_load(...)", __FILE__, __LINE__, k->name, m->loc[kernel],
                           e);
    r = d->cu.module_function(&m->function[kernel], mod, k->symbol);
    if (r != CU_OK) {
        d->cu.module_unload(mod);
        m->function[kernel] = NULL;
        return cuda_failed(d, r, "module_function(...)", __FILE__, __LINE__, k->name,
                           m->loc[kernel], e);
    }
    m->module[m->nmodules++] = mod;
    return RT_OK;
}

// Compiles a kernel again whose image, from a file or from the cache, could not be loaded. If that
// fails, too, e keeps the first error.
static RtCode load_anew(RtModule *m, int kernel, const RtCompileOptions *o, const RtImage **use,
                        Arena *scratch, RtError *e)
{
    bool *wanted = NEW_ARRAY(scratch, bool, m->p->nkernels);
    RtCompileOptions fresh = *o;
    RtError again = {0};
    RtImage *made;
    int n;
    wanted[kernel] = fresh.fresh = true;
    if (cuda_compile(scratch, m->p, m->d->base.target, wanted, &fresh, &made, &n, &again) || !n ||
        load_image(m, kernel, made, &again))
        return e->code;
    rt_log(o, "note: the cached code of kernel %s is invalid; its text was compiled again",
           m->p->kernels[kernel].name);
    *use = made;
    *e = (RtError){0};
    return RT_OK;
}

// Whether a launch of the kernel may begin before the previous one has ended: its text waits for
// that itself, and device and image support it.
static bool waits_itself(const CudaDevice *d, const ProgKernel *k, const RtImage *im)
{
    int v;
    const char *number = strchr(im->target, '_');
    return number && sscanf(number + 1, "%d", &v) == 1 && v >= 90 && d->driver_version >= 12030 &&
           strstr(k->text, "nc_follow();");
}

static RtCode configure(RtModule *m, int kernel, RtError *e)
{
    CudaDevice *d = m->d;
    const ProgKernel *k = &m->p->kernels[kernel];
    CuFunction f = m->function[kernel];
    // (needed for more than 48 KB including static variables, which are not counted here)
    if (k->shared_bytes)
        CU_AT(d, e, k->name, m->loc[kernel],
              func_set(f, CU_FUNC_MAX_DYNAMIC_SHARED, (int)k->shared_bytes));
    if (k->cluster > 8)
        CU_AT(d, e, k->name, m->loc[kernel], func_set(f, CU_FUNC_NON_PORTABLE_CLUSTER, 1));
    return RT_OK;
}

// -- the code -------------------------------------------------------------------------------------

// Finds code for each kernel among images, or compiles it. Does not call the driver.
typedef struct Making {
    RtModule *m;
    const RtImage *images;
    int nimages;
    const RtCompileOptions *o;
    RtComing *made;      // the images so far, for a concurrent search; NULL: there is none
    Arena *arena;        // for the following
    const RtImage **use; // by kernel; NULL: none
    RtError e;
} Making;

static void find_code(Making *k)
{
    const RtModule *m = k->m;
    const Program *p = m->p;
    bool *wanted = NEW_ARRAY(k->arena, bool, p->nkernels + 1);
    int missing = 0, nmade, came = 0;
    RtImage *made, next;
    RtCompileOptions o = *k->o;
    o.made = k->made;
    k->use = NEW_ARRAY(k->arena, const RtImage *, p->nkernels + 1);
    while (k->made && rt_coming_get(o.coming, came, &next)) {
        rt_coming_put(k->made, &next);
        came++;
    }
    if (k->o->await) k->o->await(k->o->await_ctx, &k->images, &k->nimages);
    for (int i = 0; i < p->nkernels; i++) {
        k->use[i] = best_image(m->d, p, i, k->images, k->nimages);
        wanted[i] = !k->use[i];
        missing += wanted[i];
        if (k->use[i] && !came) rt_coming_put(k->made, k->use[i]);
    }
    if (!missing) return;
    if (k->nimages)
        rt_log(k->o, "no code for %s (%s) in the file: compiling its text", m->d->base.model,
               m->d->base.target);
    if (cuda_compile(k->arena, p, m->d->base.target, wanted, &o, &made, &nmade, &k->e)) return;
    for (int i = 0; i < p->nkernels; i++)
        if (wanted[i]) k->use[i] = best_image(m->d, p, i, made, nmade);
}

static void *make_code(void *arg)
{
    Making *k = arg;
    jmp_buf oom;
    if (setjmp(oom)) {
        rt_fail(&k->e, RT_OOM, "out of memory");
    } else {
        arena_on_oom(k->arena, &oom);
        find_code(k);
    }
    arena_on_oom(k->arena, NULL);
    rt_coming_end(k->made);
    return NULL;
}

// Loads a kernel if its image has been compiled. Errors are reported later, when all kernels are
// loaded.
static bool load_early(RtModule *m, int kernel, RtComing *made)
{
    const ProgKernel *k = &m->p->kernels[kernel];
    uint64_t key = cuda_image_key(m->p, kernel, m->d->base.target);
    RtImage im;
    RtError later = {0};
    if (m->function[kernel]) return true;
    if (!rt_coming_find(made, key, k->identity, &im) || load_image(m, kernel, &im, &later))
        return false;
    m->follows[kernel] = waits_itself(m->d, k, &im);
    if (configure(m, kernel, &later)) m->function[kernel] = NULL;
    return m->function[kernel] != NULL;
}

// Chooses candidates for products whose kernels are compiled, while others are still being
// compiled.
static RtCode choose_early(Making *k, Arena *scratch, RtError *e)
{
    RtModule *m = k->m;
    for (int i = 0; i < m->p->ngemms; i++) {
        const ProgGemm *g = &m->p->gemms[i];
        if (m->gemm[i].wanted && (!g->kernel || load_early(m, g->kernel - 1, k->made)) &&
            (!g->follower || load_early(m, g->follower - 1, k->made)) &&
            cuda_gemm_choose(m, i, k->o, scratch, e))
            return e->code;
    }
    return RT_OK;
}

// Compiles kernels in a thread while this one times the library's algorithms for products without a
// choice.
static RtCode make_beside_search(Making *k, Arena *scratch, RtError *e)
{
    pthread_t thread;
    RtModule *m = k->m;
    RtCode code = cuda_gemms_new(m, k->o, e);
    bool wanted = !code && cuda_gemms_wanted(m, k->o, scratch);
    if (wanted) k->made = rt_coming_new(2 * m->p->nkernels);
    if (k->made && pthread_create(&thread, NULL, make_code, k) == 0) {
        double begin = clock_now();
        cuda_gemms_search(m);
        code = choose_early(k, scratch, e);
        rt_took(k->o, RT_PHASE_SEARCH, clock_now() - begin);
        pthread_join(thread, NULL);
    } else {
        rt_coming_free(k->made);
        k->made = NULL;
        make_code(k);
    }
    if (!k->e.code) return code;
    *e = k->e; // errors of kernels take precedence over those of products
    return e->code;
}

// Kernels with the same text share a module.
static RtCode load_kernels(RtModule *m, const RtImage **use, const RtCompileOptions *o,
                           Arena *scratch, RtError *e)
{
    const Program *p = m->p;
    bool *spare = NEW_ARRAY(scratch, bool, p->nkernels + 1);
    cuda_spare_kernels(p, spare);
    for (int i = 0; i < p->nkernels; i++) {
        if (m->function[i] || (!use[i] && spare[i])) continue;
        if (!use[i]) return rt_fail(e, RT_ENV, "kernel %s has no code", p->kernels[i].name);
        int same = -1;
        for (int k = 0; k < i && same < 0; k++)
            if (use[k] == use[i] && m->function[k]) same = k;
        RtCode code = RT_OK;
        if (same >= 0)
            m->function[i] = m->function[same];
        else if ((code = load_image(m, i, use[i], e)) && !o->fresh)
            code = load_anew(m, i, o, &use[i], scratch, e);
        m->follows[i] = waits_itself(m->d, &p->kernels[i], use[i]);
        if (!code && !configure(m, i, e)) continue;
        if (!spare[i]) return e->code;
        rt_log(o, "note: %s; the matmul library is used without it", e->text);
        *e = (RtError){0};
        m->function[i] = NULL;
    }
    return RT_OK;
}

static void find_locations(RtModule *m)
{
    const Program *p = m->p;
    for (int i = 0; i < p->nkernels; i++) m->loc[i] = "";
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgStep *s = &p->entries[i].steps[k];
            if (!s->loc) continue;
            const ProgGemm *g = s->kind == PS_GEMM ? &p->gemms[s->index] : NULL;
            if (s->kind == PS_KERNEL && !*m->loc[s->index]) m->loc[s->index] = s->loc;
            if (g && g->kernel) m->loc[g->kernel - 1] = s->loc;
            if (g && g->follower) m->loc[g->follower - 1] = s->loc;
        }
}

static RtCode fill_module(Making *k, RtError *e)
{
    RtModule *m = k->m;
    const Program *p = m->p;
    m->module = calloc((size_t)p->nkernels + 1, sizeof *m->module);
    m->function = calloc((size_t)p->nkernels + 1, sizeof *m->function);
    m->loc = calloc((size_t)p->nkernels + 1, sizeof *m->loc);
    m->follows = calloc((size_t)p->nkernels + 1, sizeof *m->follows);
    Arena *scratch = arena_new();
    k->arena = arena_new();
    jmp_buf oom;
    RtCode code;
    if (!m->module || !m->function || !m->loc || !m->follows || !scratch || !k->arena) {
        code = rt_fail(e, RT_OOM, "out of memory");
    } else if (setjmp(oom)) {
        code = rt_fail(e, RT_OOM, "out of memory");
    } else {
        arena_on_oom(scratch, &oom);
        find_locations(m);
        code = make_beside_search(k, scratch, e);
        double begin = clock_now();
        if (!code) code = load_kernels(m, k->use, k->o, scratch, e);
        rt_took(k->o, RT_PHASE_LOAD, clock_now() - begin);
        if (!code) code = cuda_gemms_choose(m, k->o, scratch, e);
    }
    rt_coming_free(k->made);
    if (scratch) arena_free(scratch);
    if (k->arena) arena_free(k->arena);
    return code;
}

RtCode cuda_module_new(RtDevice *device, const Program *p, const RtImage *images, int nimages,
                       const RtCompileOptions *o, RtModule **out, RtError *e)
{
    *out = NULL;
    RtModule *m = calloc(1, sizeof *m);
    if (!m) return rt_fail(e, RT_OOM, "out of memory");
    m->d = cuda_of(device);
    m->p = p;
    pthread_mutex_init(&m->gemm_lock, NULL);
    RtCode code = fill_module(&(Making){.m = m, .images = images, .nimages = nimages, .o = o}, e);
    if (code) {
        cuda_module_free(m);
        return code;
    }
    *out = m;
    return RT_OK;
}

void cuda_module_free(RtModule *m)
{
    if (!m) return;
    cuda_gemms_free(m);
    for (int i = 0; i < m->nmodules; i++) m->d->cu.module_unload(m->module[i]);
    pthread_mutex_destroy(&m->gemm_lock);
    free(m->module);
    free(m->function);
    free(m->loc);
    free(m->follows);
    free(m);
}

// The same for an image whose windows are copied by position. Its corners are the first and the
// last position, relative to the image.
static RtCode make_windows(RtModule *m, int kernel, const ProgMap *p, CuPtr at, CuTensorMap *out,
                           RtError *e)
{
    const int axes = prog_image_axes(p);
    uint64_t dims[PROG_MAX_IMAGE_AXES + 2] = {(uint64_t)p->cols}, pitches[PROG_MAX_IMAGE_AXES + 1];
    unsigned steps[PROG_MAX_IMAGE_AXES + 2] = {1};
    int last[PROG_MAX_IMAGE_AXES];
    for (int i = 0; i < axes; i++) {
        dims[1 + i] = (uint64_t)p->image[i];
        pitches[i] = (uint64_t)p->image_pitch[i] * 2;
        steps[1 + i] = (unsigned)p->step[i];
        last[i] = (int)(p->first[i] + (p->places[i] - 1) * p->step[i] - (p->image[i] - 1));
    }
    dims[1 + axes] = (uint64_t)p->rows;
    pitches[axes] = (uint64_t)p->pitch * 2;
    steps[1 + axes] = 1;
    CU_AT(m->d, e, m->p->kernels[kernel].name, m->loc[kernel],
          map_windows(out, CU_MAP_U16, (unsigned)axes + 2, at + (CuPtr)p->offset * 2, dims, pitches,
                      p->first, last, (unsigned)p->box_cols, (unsigned)p->box_rows, steps, 0,
                      CU_MAP_SWIZZLE_128, CU_MAP_L2_256, 0));
    return RT_OK;
}

// Creates the tensor maps with which a kernel makes bulk copies of a matrix. Boxes are stored in
// shared memory as tensor cores read them, 128 bytes per row; elements outside of the matrix are
// zero.
static RtCode make_maps(RtModule *m, int kernel, const ProgMap *p, void *const *argv,
                        CuTensorMap *out, RtError *e)
{
    const ProgKernel *k = &m->p->kernels[kernel];
    CuPtr at;
    memcpy(&at, argv[p->arg], sizeof at);
    if (p->image[0]) return make_windows(m, kernel, p, at, out, e);
    unsigned box[] = {(unsigned)p->box_cols, (unsigned)p->box_rows, 1, 1}, steps[] = {1, 1, 1, 1};
    uint64_t pitches[] = {(uint64_t)(p->pitch * p->apart) * 2, (uint64_t)p->plane_pitch[0] * 2,
                          (uint64_t)p->plane_pitch[1] * 2};
    for (int i = 0; i < p->apart; i++) {
        int64_t first = p->offset + i * p->pitch, shift = first % 8; // aligns to 16 bytes
        uint64_t dims[] = {(uint64_t)(p->cols + shift),
                           (uint64_t)((p->rows - i + p->apart - 1) / p->apart),
                           (uint64_t)p->planes[0], (uint64_t)p->planes[1]};
        CU_AT(m->d, e, k->name, m->loc[kernel],
              map_tiled(&out[i], CU_MAP_U16, p->planes[0] ? 4 : 2, at + (CuPtr)(first - shift) * 2,
                        dims, pitches, box, steps, 0, CU_MAP_SWIZZLE_128, CU_MAP_L2_256, 0));
    }
    return RT_OK;
}

RtCode cuda_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e)
{
    CudaDevice *d = m->d;
    const ProgKernel *k = &m->p->kernels[kernel];
    CuLaunchAttr attr[2];
    CuTensorMap map[PROG_MAX_MAPS][PROG_MAX_APART];
    void *params[PROG_MAX_MAP_ARGS + PROG_MAX_MAPS];
    CuLaunch launch = {.shared_bytes = k->shared_bytes, .stream = s->s, .attrs = attr};
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = k->grid[i];
        launch.block[i] = k->block[i];
        if (!k->grid[i]) return RT_OK; // an empty launch
    }
    if (k->cluster > 1) {
        CuLaunchAttr *a = &attr[launch.nattrs++];
        memset(a, 0, sizeof *a);
        a->id = CU_LAUNCH_CLUSTER;
        a->value.cluster.x = k->cluster;
        a->value.cluster.y = a->value.cluster.z = 1;
    }
    if (m->follows[kernel]) {
        CuLaunchAttr *a = &attr[launch.nattrs++];
        memset(a, 0, sizeof *a);
        a->id = CU_LAUNCH_EARLY;
        a->value.early = 1;
    }
    for (int i = 0; i < k->nmaps; i++) {
        if (make_maps(m, kernel, &k->maps[i], argv, map[i], e)) return e->code;
        params[k->nargs + i] = map[i];
    }
    if (k->nmaps) memcpy(params, argv, (size_t)k->nargs * sizeof *params);
    CU_AT(d, e, k->name, m->loc[kernel],
          launch(&launch, m->function[kernel], k->nmaps ? params : (void **)argv, NULL));
    if (d->sync && !cuda_captured(s)) CU_AT(d, e, k->name, m->loc[kernel], stream_sync(s->s));
    return RT_OK;
}
