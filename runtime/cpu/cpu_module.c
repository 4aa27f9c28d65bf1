// Loads the shared object of a CPU program.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/cpu.h"

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

// Loads an object from memory if the kernel supports that, otherwise from a temporary file. *keep:
// the open file; the loader knows it by its number, so it stays open as long as the library, or
// another object could get the same name.
static void *load_bytes(const void *bytes, size_t n, int *keep, RtError *e)
{
    char path[64] = "/tmp/netc-XXXXXX";
    int fd = memfd_create("netc-kernels", MFD_CLOEXEC);
    bool in_memory = fd >= 0;
    if (in_memory)
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    else
        fd = mkstemp(path);
    void *library = NULL;
    if (fd >= 0 && write_all(fd, bytes, n)) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) rt_fail(e, RT_ENV, "the compiled kernels cannot be loaded: %s", dlerror());
    } else {
        rt_fail(e, RT_ENV, "the compiled kernels cannot be loaded: %s", strerror(errno));
    }
    if (!in_memory && fd >= 0) unlink(path);
    if (fd >= 0 && !library) close(fd);
    *keep = library ? fd : -1;
    return library;
}

static void unload(RtModule *m)
{
    if (m->library) dlclose(m->library);
    if (m->fd >= 0) close(m->fd);
    m->library = NULL;
    m->fd = -1;
}

static RtCode find_symbols(RtModule *m, const Program *p, const RtCompileOptions *o, RtError *e)
{
    const char *compiler = dlsym(m->library, "nc_compiler"); // defined by the prelude
    if (compiler) rt_log(o, "CPU kernels: compiled by %s", compiler);
    for (int i = 0; i < p->nkernels; i++) {
        *(void **)&m->kernel[i] = dlsym(m->library, p->kernels[i].symbol);
        if (!m->kernel[i])
            return rt_fail(e, RT_ENV, "the compiled object lacks kernel %s (%s)",
                           p->kernels[i].name, p->kernels[i].symbol);
    }
    return RT_OK;
}

static RtCode compile_and_load(Arena *a, RtModule *m, const Program *p, const RtCompileOptions *o,
                               RtError *e)
{
    RtImage im;
    if (rt_compile_cpu(a, p, o, &im, e)) return e->code;
    m->library = load_bytes(im.bytes, im.size, &m->fd, e);
    return m->library ? find_symbols(m, p, o, e) : e->code;
}

static RtCode load_code(RtModule *m, const Program *p, const RtImage *images, int nimages,
                        const RtCompileOptions *o, RtError *e)
{
    uint64_t key = rt_cpu_image_key(p);
    bool other = false;
    for (int i = 0; i < nimages; i++) {
        const RtImage *im = &images[i];
        if (!im->target || strncmp(im->target, "cpu-", 4)) continue;
        other = true;
        if (strcmp(im->target, rt_cpu_image_target) || im->key != key) continue;
        RtError local = {0};
        m->library = load_bytes(im->bytes, im->size, &m->fd, &local);
        if (m->library && find_symbols(m, p, o, &local) == RT_OK) return RT_OK;
        rt_log(o, "note: the object in the file cannot be used (%.200s); compiling its text",
               local.text);
        unload(m);
    }
    if (other && !m->library)
        rt_log(o, "note: the file's object is for another processor; compiling its text");
    Arena *a = arena_new();
    if (!a) return rt_fail(e, RT_OOM, "out of memory");
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_free(a);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    arena_on_oom(a, &oom);
    if (compile_and_load(a, m, p, o, e) && !o->fresh) { // the cache entry may be unusable
        RtCompileOptions fresh = *o;
        RtError again = {0};
        fresh.fresh = true;
        unload(m);
        if (!compile_and_load(a, m, p, &fresh, &again)) *e = (RtError){0};
    }
    arena_free(a);
    return e->code;
}

RtCode rt_cpu_module_new(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                         const RtCompileOptions *o, RtModule **out, RtError *e)
{
    for (int i = 0; i < p->ngemms; i++)
        if (rt_cpu_gemm_check(&p->gemms[i], e)) return e->code;
    RtModule *m = calloc(1, sizeof *m);
    if (m) m->kernel = calloc((size_t)p->nkernels + 1, sizeof *m->kernel);
    if (!m || !m->kernel) {
        free(m);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    m->device = d;
    m->fd = -1;
    m->threads = rt_cpu_threads();
    m->gemms = p->gemms;
    m->ngemms = p->ngemms;
    m->choices = p->choices;
    if (o->await) o->await(o->await_ctx, &images, &nimages);
    RtCode code = load_code(m, p, images, nimages, o, e);
    if (!code) {
        if (p->ngemms) m->blas = rt_blas_open();
        *out = m;
    } else {
        rt_cpu_module_free(m);
    }
    return code;
}

void rt_cpu_module_free(RtModule *m)
{
    if (!m) return;
    unload(m);
    rt_blas_close(m->blas);
    free(m->kernel);
    free(m);
}

RtCode rt_cpu_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e)
{
    (void)e;
    m->kernel[kernel](argv, &s->par);
    return RT_OK;
}
