// OpenBLAS, opened at run time and restricted to one thread: matmuls are split into parts that run
// on the kernels' own threads. Two thread pools on the same cores would wait for each other's
// spinning workers.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/cpu/cpu.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

struct CpuBlas {
    void *library;
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
};

// OpenBLAS maps 128 MiB for each thread that calls it, and repeats that for ever where a limit of the
// address space (ulimit -v) does not allow it. Whether there is room for our threads and its own.
static bool has_room(void)
{
    const size_t bytes = ((size_t)rt_cpu_threads() + 1) << 27;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    munmap(p, bytes);
    return true;
}

static void *open_library(void)
{
    if (!has_room()) return NULL; // the built-in loops multiply
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        // Never unloaded, since the host may start its threads.
        void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (h) return h;
    }
    return NULL;
}

static const char *core_name(void *library)
{
    const char *(*core)(void);
    *(void **)&core = dlsym(library, "openblas_get_corename");
    return core ? core() : "";
}

// OpenBLAS chooses kernels by the processor's model number; for a processor that it does not know,
// it uses its oldest kernels, which are slower than the built-in loops.
static bool has_wrong_kernels(void *library)
{
#if defined(__x86_64__)
    static const char *const old[] = {"Prescott", "Core2",   "Penryn",    "Dunnington", "Nehalem",
                                      "Atom",     "Opteron", "Barcelona", "Generic",    "generic"};
    const char *core = core_name(library);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (!strncmp(core, old[i], strlen(old[i]))) return __builtin_cpu_supports("avx2");
#else
    (void)library;
#endif
    return false;
}

CpuBlas *rt_blas_open(void)
{
    CpuBlas *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->library = open_library();
    if (b->library && !has_wrong_kernels(b->library)) {
        *(void **)&b->sgemm = dlsym(b->library, "cblas_sgemm");
        *(void **)&b->dgemm = dlsym(b->library, "cblas_dgemm");
        void (*threads)(int);
        *(void **)&threads = dlsym(b->library, "openblas_set_num_threads");
        if (b->sgemm && b->dgemm && threads) {
            threads(1);
            return b;
        }
    }
    rt_blas_close(b);
    return NULL;
}

void rt_blas_close(CpuBlas *b)
{
    if (b && b->library) dlclose(b->library);
    free(b);
}

bool rt_blas_describe(char *out, size_t n)
{
    CpuBlas *b = rt_blas_open();
    if (!b) {
        void *library = open_library();
        if (library)
            snprintf(out, n,
                     "does not know this processor and runs as %s: not used; set "
                     "OPENBLAS_CORETYPE=Haswell (or SkylakeX, with AVX-512)",
                     core_name(library));
        else
            snprintf(out, n,
                     "not found: matrix products run on generated code, slower; install "
                     "libopenblas0 (Debian, Ubuntu: apt-get install libopenblas0-pthread)");
        if (library) dlclose(library);
        return false;
    }
    Dl_info where;
    const char *(*config)(void);
    *(void **)&config = dlsym(b->library, "openblas_get_config");
    bool known = dladdr(*(void **)&b->sgemm, &where) && where.dli_fname;
    snprintf(out, n, "%s%s%s%s", known ? where.dli_fname : "found", config ? " (" : "",
             config ? config() : "", config ? ")" : "");
    rt_blas_close(b);
    return true;
}

bool rt_cpu_matmul_library(void)
{
    CpuBlas *b = rt_blas_open();
    rt_blas_close(b);
    return b != NULL;
}

void rt_blas_f32(const CpuBlas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                 const float *a, int64_t lda, const float *bb, int64_t ldb, float *c, int64_t ldc)
{
    b->sgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, 1, a,
             (int)lda, bb, (int)ldb, 0, c, (int)ldc);
}

void rt_blas_f64(const CpuBlas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                 const double *a, int64_t lda, const double *bb, int64_t ldb, double *c,
                 int64_t ldc)
{
    b->dgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, 1, a,
             (int)lda, bb, (int)ldb, 0, c, (int)ldc);
}
