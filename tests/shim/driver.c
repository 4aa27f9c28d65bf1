// libcuda of the shim: one device whose memory is the host's.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/shim.h"

enum { INVALID_VALUE = 1, NOT_FOUND = 500 };

typedef struct Driver {
    CuModule modules;
    char problem[4600]; // what a CU_INVALID_IMAGE was about
} Driver;

static Driver driver;
pthread_mutex_t shim_lock = PTHREAD_MUTEX_INITIALIZER;

int shim_option(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

CuModule shim_modules(void)
{
    return driver.modules;
}

__attribute__((destructor)) static void stats(void)
{
    const char *path = getenv("SHIM_STATS");
    FILE *f = path && shim_launches ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%llu launches, %llu accesses\n", shim_launches, shim_accesses);
    fclose(f);
}

// -- the device -----------------------------------------------------------------------------------
CuResult cuInit(unsigned flags)
{
    (void)flags;
    return shim_option("SHIM_DEVICES", 1) > 0 ? CU_OK : CU_NO_DEVICE;
}

CuResult cuDriverGetVersion(int *version)
{
    *version = shim_option("SHIM_DRIVER", 13000);
    return CU_OK;
}

CuResult cuGetErrorName(CuResult r, const char **name)
{
    *name = r == CU_OK                    ? "CUDA_SUCCESS"
            : r == CU_CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
            : r == CU_OUT_OF_MEMORY       ? "CUDA_ERROR_OUT_OF_MEMORY"
            : r == CU_NO_DEVICE           ? "CUDA_ERROR_NO_DEVICE"
            : r == CU_INVALID_IMAGE       ? "CUDA_ERROR_INVALID_IMAGE"
            : r == CU_FAULT_LAST          ? "CUDA_ERROR_LAUNCH_FAILED"
            : r == CU_NO_BINARY_FOR_GPU   ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                          : "CUDA_ERROR";
    return CU_OK;
}

CuResult cuGetErrorString(CuResult r, const char **text)
{
    *text = r == CU_FAULT_LAST      ? shim_report()
            : r == CU_INVALID_IMAGE ? driver.problem
            : r == CU_OUT_OF_MEMORY ? "out of memory"
                                    : "";
    return CU_OK;
}

CuResult cuDeviceGetCount(int *n)
{
    *n = shim_option("SHIM_DEVICES", 1);
    return CU_OK;
}

CuResult cuDeviceGet(CuDeviceId *d, int ordinal)
{
    *d = ordinal;
    return CU_OK;
}

CuResult cuDeviceGetName(char *name, int n, CuDeviceId d)
{
    (void)d;
    snprintf(name, (size_t)n, "host shim");
    return CU_OK;
}

CuResult cuDeviceGetAttribute(int *value, int attribute, CuDeviceId d)
{
    (void)d;
    int arch = shim_option("SHIM_ARCH", 90);
    switch (attribute) {
    case CU_ATTR_CC_MAJOR: *value = arch / 10; return CU_OK;
    case CU_ATTR_CC_MINOR: *value = arch % 10; return CU_OK;
    case CU_ATTR_UNITS: *value = shim_option("SHIM_UNITS", 132); return CU_OK;
    case CU_ATTR_THREADS_PER_UNIT: *value = 2048; return CU_OK;
    case CU_ATTR_SHARED_OPTIN: *value = SHIM_DYNAMIC; return CU_OK;
    default: *value = 0; return CU_OK;
    }
}

CuResult cuDeviceTotalMem_v2(size_t *bytes, CuDeviceId d)
{
    (void)d;
    *bytes = shim_memory_total();
    return CU_OK;
}

// -- memory ---------------------------------------------------------------------------------------
CuResult cuMemGetInfo_v2(size_t *avail, size_t *total)
{
    pthread_mutex_lock(&shim_lock);
    *total = shim_memory_total();
    *avail = *total - shim_memory_used();
    pthread_mutex_unlock(&shim_lock);
    return CU_OK;
}

CuResult cuMemAlloc_v2(CuPtr *p, size_t bytes)
{
    if (!bytes) return INVALID_VALUE;
    CuResult r = shim_unsafe();
    pthread_mutex_lock(&shim_lock);
    if (r == CU_OK) r = shim_alloc(p, bytes);
    pthread_mutex_unlock(&shim_lock);
    return r;
}

CuResult cuMemFree_v2(CuPtr p)
{
    CuResult r = shim_unsafe();
    pthread_mutex_lock(&shim_lock);
    if (r == CU_OK) r = shim_release(p);
    pthread_mutex_unlock(&shim_lock);
    return r;
}

CuResult cuPointerGetAttribute(void *value, int attribute, CuPtr p)
{
    CuPtr start = 0;
    size_t bytes = 0;
    pthread_mutex_lock(&shim_lock);
    bool known = shim_allocation((void *)(uintptr_t)p, &start, &bytes);
    pthread_mutex_unlock(&shim_lock);
    if (!known) return INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ORDINAL: *(int *)value = shim_holder((void *)(uintptr_t)p); return CU_OK;
    case CU_POINTER_RANGE_START: *(CuPtr *)value = start; return CU_OK;
    case CU_POINTER_RANGE_SIZE: *(size_t *)value = bytes; return CU_OK;
    default: return INVALID_VALUE;
    }
}

CuResult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    if (shim_unsafe()) return CU_CAPTURE_UNSUPPORTED;
    *p = malloc(bytes);
    return *p ? CU_OK : CU_OUT_OF_MEMORY;
}

CuResult cuMemFreeHost(void *p)
{
    if (shim_unsafe()) return CU_CAPTURE_UNSUPPORTED;
    free(p);
    return CU_OK;
}
// -- modules and launches -------------------------------------------------------------------------
CuResult cuModuleLoadDataEx(CuModule *m, const void *image, unsigned n, int *options, void **values)
{
    static const char magic[] = "host shim\n";
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_ERROR_LOG && shim_option("SHIM_TOO_NEW", 0))
            strcpy(values[i], "made by a newer compiler");
    const char *text = image;
    bool ours = !strncmp(text, magic, sizeof magic - 1);
    if (shim_unsafe()) return CU_CAPTURE_UNSUPPORTED;
    if (shim_option("SHIM_TOO_NEW", 0)) return CU_UNSUPPORTED_PTX_VERSION;
    if (!ours && strncmp(text, ".version", 8) != 0) return CU_INVALID_IMAGE;
    CuModule r = calloc(1, sizeof *r);
    if (!r) return CU_OUT_OF_MEMORY;
    r->device = shim_device();
    if (ours && !(r->text = strdup(text + sizeof magic - 1))) return CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&shim_lock);
    r->next = driver.modules;
    driver.modules = r;
    pthread_mutex_unlock(&shim_lock);
    *m = r;
    return CU_OK;
}

CuResult cuModuleLoadData(CuModule *m, const void *image)
{
    return cuModuleLoadDataEx(m, image, 0, NULL, NULL);
}

CuResult cuModuleUnload(CuModule m)
{
    pthread_mutex_lock(&shim_lock);
    CuModule *link = &driver.modules;
    while (*link && *link != m) link = &(*link)->next;
    if (*link) *link = m->next;
    pthread_mutex_unlock(&shim_lock);
    for (CuFunction f = m->functions, next; f; f = next) {
        next = f->next;
        free(f->name);
        free(f);
    }
    free(m->text);
    free(m);
    return CU_OK;
}

CuResult cuModuleGetFunction(CuFunction *f, CuModule m, const char *name)
{
    CuFunction r = calloc(1, sizeof *r);
    if (!r || !(r->name = strdup(name))) return CU_OUT_OF_MEMORY;
    r->module = m;
    if (!m->text) shim_builtin(r);
    if (!m->text && !r->builtin) return NOT_FOUND;
    if (m->text && !strstr(m->text, name)) return NOT_FOUND;
    pthread_mutex_lock(&shim_lock);
    r->next = m->functions;
    m->functions = r;
    pthread_mutex_unlock(&shim_lock);
    *f = r;
    return CU_OK;
}

CuResult cuFuncSetAttribute(CuFunction f, int attribute, int value)
{
    if (attribute == CU_FUNC_MAX_DYNAMIC_SHARED) {
        if (value > SHIM_DYNAMIC) return INVALID_VALUE;
        f->dynamic_limit = value;
    }
    return CU_OK;
}

CuResult cuFuncGetAttribute(int *value, int attribute, CuFunction f)
{
    *value = attribute == CU_FUNC_MAX_DYNAMIC_SHARED ? f->dynamic_limit
             : attribute == CU_FUNC_REGISTERS        ? 32
                                                     : 0;
    return CU_OK;
}

CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CuFunction f, int threads,
                                                     size_t dynamic_shared)
{
    (void)f;
    size_t by_shared = dynamic_shared ? (228 << 10) / (dynamic_shared + 1024) : 32;
    *blocks = threads > 0 ? 2048 / threads : 0;
    if (*blocks > (int)by_shared) *blocks = (int)by_shared;
    return CU_OK;
}

// What tests/shim/ptx.h reads: two dimensions of 16-bit elements, boxes of 128-byte rows, turned;
// of four dimensions the last two number matrices.
CuResult cuTensorMapEncodeTiled(CuTensorMap *map, int type, unsigned rank, CuPtr at,
                                const uint64_t *dims, const uint64_t *pitches, const unsigned *box,
                                const unsigned *steps, int interleave, int swizzle, int l2,
                                int fill)
{
    uint64_t words[16] = {at, dims[0], dims[1], pitches[0], box[0], box[1], 1, 1, 0, 0};
    (void)l2;
    for (unsigned i = 2; i < rank && rank == 4; i++) {
        if (pitches[i - 1] % 16 || pitches[i - 1] >> 40 || dims[i] >> 32 || !dims[i] ||
            box[i] != 1 || steps[i] != 1)
            return CU_INVALID_VALUE;
        words[4 + i] = dims[i];
        words[6 + i] = pitches[i - 1];
    }
    if (type != CU_MAP_U16 || (rank != 2 && rank != 4) || at % 16 || pitches[0] % 16 ||
        pitches[0] >> 40 || dims[0] >> 32 || dims[1] >> 32 || !dims[0] || !dims[1] ||
        box[0] * 2 != 128 || !box[1] || box[1] > 256 || steps[0] != 1 || steps[1] != 1 ||
        interleave || swizzle != CU_MAP_SWIZZLE_128 || fill)
        return CU_INVALID_VALUE;
    memcpy(map, words, sizeof words);
    return CU_OK;
}

// ... of four or five dimensions: 64 channels of images. Words 10 to 12 say where windows begin
// along each axis: the first place and the last one, of 24 bits each, and the step. Words 13 and 14
// are those of a fifth dimension, word 15 the number of axes.
CuResult cuTensorMapEncodeIm2col(CuTensorMap *map, int type, unsigned rank, CuPtr at,
                                 const uint64_t *dims, const uint64_t *pitches, const int *lower,
                                 const int *upper, unsigned channels, unsigned pixels,
                                 const unsigned *steps, int interleave, int swizzle, int l2,
                                 int fill)
{
    (void)l2;
    if (type != CU_MAP_U16 || (rank != 4 && rank != 5) || at % 16 || channels * 2 != 128 ||
        !pixels || pixels > 1024 || interleave || swizzle != CU_MAP_SWIZZLE_128 || fill ||
        steps[rank - 1] != 1)
        return CU_INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++)
        if (!dims[i] || dims[i] >> 32 || (i < rank - 1 && (pitches[i] % 16 || pitches[i] >> 40)))
            return CU_INVALID_VALUE;
    uint64_t words[16] = {at,     dims[0], dims[1], pitches[0], channels,
                          pixels, dims[2], dims[3], pitches[1], pitches[2]};
    const int64_t most = 1 << 23, corner = rank == 5 ? 16 : 128;
    for (unsigned i = 0; i < rank - 2; i++) {
        int64_t last = (int64_t)dims[1 + i] - 1 + upper[i];
        if (lower[i] < -corner || lower[i] >= corner || upper[i] < -corner || upper[i] >= corner ||
            last < lower[i] || last >= most || !steps[1 + i] || steps[1 + i] > 8)
            return CU_INVALID_VALUE;
        words[10 + i] = ((uint64_t)lower[i] & 0xffffff) | ((uint64_t)last & 0xffffff) << 24 |
                        (uint64_t)steps[1 + i] << 48;
    }
    if (rank == 5) words[13] = dims[4], words[14] = pitches[3];
    words[15] = rank - 2;
    memcpy(map, words, sizeof words);
    return CU_OK;
}

CuResult cuLaunchKernelEx(const CuLaunch *c, CuFunction f, void **params, void **extra)
{
    (void)extra;
    Launch launch = {.f = f}, *l = &launch;
    l->grid = (Index3){c->grid[0], c->grid[1], c->grid[2]};
    l->block = (Index3){c->block[0], c->block[1], c->block[2]};
    l->shared_bytes = c->shared_bytes;
    for (unsigned i = 0; i < c->nattrs; i++) {
        if (c->attrs[i].id == CU_LAUNCH_CLUSTER) l->cluster = c->attrs[i].value.cluster.x;
        if (c->attrs[i].id == CU_LAUNCH_EARLY) l->early = c->attrs[i].value.early != 0;
    }
    pthread_mutex_lock(&shim_lock);
    const char *why = shim_prepare(f);
    CuResult r = CU_OK;
    if (why) {
        snprintf(driver.problem, sizeof driver.problem, "%s", why);
        r = CU_INVALID_IMAGE;
    } else {
        int count = 0;
        while (f->sizes && f->sizes[count]) count++;
        l->params = calloc((size_t)count + 1, sizeof *l->params);
        for (int i = 0; i < count; i++) {
            l->params[i] = malloc(f->sizes[i]);
            memcpy(l->params[i], params[i], f->sizes[i]);
        }
        r = shim_belongs(f->module, c->stream, l->params, f->sizes)
                ? shim_launch(c->stream, l)
                : CU_INVALID_HANDLE;
    }
    pthread_mutex_unlock(&shim_lock);
    return r;
}

CuResult cuLaunchKernel(CuFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, CuStream stream,
                        void **params, void **extra)
{
    CuLaunch l = {.grid = {gx, gy, gz},
                  .block = {bx, by, bz},
                  .shared_bytes = shared_bytes,
                  .stream = stream};
    return cuLaunchKernelEx(&l, f, params, extra);
}
