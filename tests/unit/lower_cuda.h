// Compiles CUDA text with NVRTC and runs its kernels through the driver, both opened at run time.
#ifndef TESTS_UNIT_LOWER_CUDA_H
#define TESTS_UNIT_LOWER_CUDA_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/kernel.h"
#include "runtime/cuda/cuda_api.h"

typedef struct Gpu {
    void *nvrtc, *driver, *module;
    int arch; // 90; 0: no device
    int (*alloc)(uint64_t *, size_t), (*release)(uint64_t),
        (*zero)(uint64_t, unsigned char, size_t);
    int (*to)(uint64_t, const void *, size_t), (*from)(void *, uint64_t, size_t), (*sync)(void);
    int (*function)(void **, void *, const char *), (*load)(void **, const void *);
    int (*set)(void *, int, int);
    int (*start)(const CuLaunch *, void *, void **, void **);
} Gpu;

static void *gpu_sym(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p) printf("missing %s\n", name);
    return p;
}

static Gpu gpu_open(void)
{
    Gpu g = {0};
    const char *const places[] = {"libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so",
                                  "libnvrtc.so.12", "libnvrtc.so.13"};
    for (int i = 0; i < 4 && !g.nvrtc; i++) g.nvrtc = dlopen(places[i], RTLD_NOW);
    g.driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned), (*device)(int *, int), (*attribute)(int *, int, int),
        (*retain)(void **, int), (*set)(void *);
    if (!g.driver) return g;
    *(void **)&init = gpu_sym(g.driver, "cuInit");
    *(void **)&device = gpu_sym(g.driver, "cuDeviceGet");
    *(void **)&attribute = gpu_sym(g.driver, "cuDeviceGetAttribute");
    *(void **)&retain = gpu_sym(g.driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = gpu_sym(g.driver, "cuCtxSetCurrent");
    *(void **)&g.alloc = gpu_sym(g.driver, "cuMemAlloc_v2");
    *(void **)&g.release = gpu_sym(g.driver, "cuMemFree_v2");
    *(void **)&g.zero = gpu_sym(g.driver, "cuMemsetD8_v2");
    *(void **)&g.to = gpu_sym(g.driver, "cuMemcpyHtoD_v2");
    *(void **)&g.from = gpu_sym(g.driver, "cuMemcpyDtoH_v2");
    *(void **)&g.sync = gpu_sym(g.driver, "cuCtxSynchronize");
    *(void **)&g.function = gpu_sym(g.driver, "cuModuleGetFunction");
    *(void **)&g.load = gpu_sym(g.driver, "cuModuleLoadData");
    *(void **)&g.set = gpu_sym(g.driver, "cuFuncSetAttribute");
    *(void **)&g.start = gpu_sym(g.driver, "cuLaunchKernelEx");
    int d, major, minor;
    void *context;
    if (init(0) || device(&d, 0) || attribute(&major, 75, d) || attribute(&minor, 76, d) ||
        retain(&context, d) || set(context))
        return g;
    g.arch = major * 10 + minor;
    return g;
}

static int gpu_launch(const Gpu *g, void *fn, const ProgKernel *k, void **args)
{
    CuLaunchAttr cluster = {.id = CU_LAUNCH_CLUSTER, .value.cluster = {k->cluster, 1, 1}};
    CuLaunch l = {.grid = {k->grid[0], k->grid[1], k->grid[2]},
                  .block = {k->block[0], k->block[1], k->block[2]},
                  .shared_bytes = k->shared_bytes,
                  .attrs = &cluster,
                  .nattrs = k->cluster > 1};
    return g->start(&l, fn, args, NULL);
}

// The cubin of [text], or NULL after printing the compiler's messages.
static void *gpu_compile(const Gpu *g, Arena *a, const char *text, int arch)
{
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *), (*log_size)(void *, size_t *),
        (*get_log)(void *, char *);
    int (*size)(void *, size_t *), (*get)(void *, char *);
    *(void **)&create = gpu_sym(g->nvrtc, "nvrtcCreateProgram");
    *(void **)&compile = gpu_sym(g->nvrtc, "nvrtcCompileProgram");
    *(void **)&log_size = gpu_sym(g->nvrtc, "nvrtcGetProgramLogSize");
    *(void **)&get_log = gpu_sym(g->nvrtc, "nvrtcGetProgramLog");
    *(void **)&size = gpu_sym(g->nvrtc, "nvrtcGetCUBINSize");
    *(void **)&get = gpu_sym(g->nvrtc, "nvrtcGetCUBIN");
    void *prog;
    const char *opts[] = {
        arena_printf(a, "--gpu-architecture=sm_%d%s", arch, arch == 90 ? "a" : ""), "--std=c++17",
        "--Ofast-compile=max"}; // (a third of the time, for what no GPU runs; since NVRTC 12.8)
    enum { INVALID_OPTION = 5 };
    size_t n;
    if (create(&prog, text, "suite.cu", 0, NULL, NULL)) return NULL;
    int rc = compile(prog, g->arch ? 2 : 3, opts);
    if (rc == INVALID_OPTION) rc = compile(prog, 2, opts);
    if (rc) {
        log_size(prog, &n);
        char *log = arena_alloc(a, n + 1);
        get_log(prog, log);
        printf("%.6000s\n", log);
        return NULL;
    }
    if (size(prog, &n)) return NULL;
    char *bin = arena_alloc(a, n + 1);
    return get(prog, bin) ? NULL : bin;
}

#endif
