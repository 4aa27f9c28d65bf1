// Opens the driver, NVRTC, cuBLASLt and cuDNN at run time.
#include "runtime/cuda/cuda_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *try_open(const char *path, char *found, size_t nfound, char *why, size_t nwhy)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *err = dlerror();
        // "cannot open shared object file" about a file that does not exist is no help; keeps other
        // messages.
        if (err && (!why[0] || !strstr(err, "No such file"))) snprintf(why, nwhy, "%s", err);
        return NULL;
    }
    snprintf(found, nfound, "%s", path);
    return lib;
}

// A search in the usual folders. open false: finds the first file that exists, without opening it.
typedef struct Search {
    const char *const *names;
    bool open;
    char *path, *why;
    size_t npath, nwhy;
    void *lib;
} Search;

static bool search_dir(Search *s, const char *dir)
{
    for (int i = 0; s->names[i]; i++) {
        char pattern[1024];
        snprintf(pattern, sizeof pattern, "%s/%s", dir, s->names[i]);
        glob_t g;
        if (glob(pattern, 0, NULL, &g) != 0) continue;
        bool found = !s->open;
        if (found) snprintf(s->path, s->npath, "%s", g.gl_pathv[g.gl_pathc - 1]);
        for (size_t k = g.gl_pathc; k-- > 0 && !found;) { // the newest version sorts last
            s->lib = try_open(g.gl_pathv[k], s->path, s->npath, s->why, s->nwhy);
            found = s->lib != NULL;
        }
        globfree(&g);
        if (found) return true;
    }
    return false;
}

static bool search(Search *s)
{
    static const char *const roots[] = {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
                                        "HOME"};
    static const char *const under[] = {
        "%s/lib64",
        "%s/lib",
        "%s/lib/python*/site-packages/nvidia/*/lib",
        "%s/.local/lib/python*/site-packages/nvidia/*/lib",
    };
    for (size_t r = 0; r < sizeof roots / sizeof *roots; r++) {
        const char *root = getenv(roots[r]);
        for (size_t u = 0; root && *root && u < sizeof under / sizeof *under; u++) {
            char dir[768];
            snprintf(dir, sizeof dir, under[u], root);
            if (search_dir(s, dir)) return true;
        }
    }
    static const char *const dirs[] = {
        "/usr/local/cuda/lib64",
        "/usr/local/cuda-*/lib64",
        "/opt/cuda/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib/wsl/lib",
        "/usr/local/lib/python*/*-packages/nvidia/*/lib",
        "/usr/lib/python3*/*-packages/nvidia/*/lib",
    };
    for (size_t d = 0; d < sizeof dirs / sizeof *dirs; d++)
        if (search_dir(s, dirs[d])) return true;
    return false;
}

void *cu_library_open(const char *const *names, char *path, size_t npath, char *why, size_t nwhy)
{
    why[0] = 0;
    for (int i = 0; names[i]; i++) {
        void *lib = try_open(names[i], path, npath, why, nwhy);
        if (lib) return lib;
    }
    Search s = {names, true, path, why, npath, nwhy, NULL};
    search(&s);
    return s.lib;
}

bool cu_library_present(const char *const *names, char *path, size_t npath)
{
    Search s = {.names = names, .path = path, .npath = npath};
    return search(&s);
}

// Calls dlsym and converts through memory: ISO C has no conversion from object to function
// pointers.
static bool symbol(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

static RtCode missing(RtError *e, const char *what, const char *name)
{
    return rt_fail(e, RT_ENV, "%s is too old: it has no %s; install a newer one (CUDA 12 or later)",
                   what, name);
}

RtCode cu_driver_open(CuDriver *d, RtError *e)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    char path[512], why[512];
    memset(d, 0, sizeof *d);
    d->lib = cu_library_open(names, path, sizeof path, why, sizeof why);
    if (!d->lib)
        return rt_fail(e, RT_ENV,
                       "no NVIDIA driver: libcuda.so.1 cannot be opened (%s)\n"
                       "install the NVIDIA driver, or use the CPU (--device cpu)",
                       why[0] ? why : "not found");
#define F(name, sym, params)                                                                       \
    if (!symbol(d->lib, sym, &d->name)) return missing(e, "the NVIDIA driver", sym);
    CU_FUNCTIONS(F)
#undef F
    CuResult r = d->init(0);
    if (r != CU_OK) {
        const char *name = NULL;
        if (d->error_name(r, &name) != CU_OK || !name) name = "unknown";
        const char *advice = "see `nvidia-smi`; or use the CPU (--device cpu)";
        if (r == CU_NO_DEVICE)
            advice =
                "no GPU is visible (is CUDA_VISIBLE_DEVICES set?); or use the CPU (--device cpu)";
        else if (r == CU_DRIVER_MISMATCH || r == CU_COMPAT_NOT_SUPPORTED)
            advice = "the kernel module and libcuda differ: reboot or reinstall the NVIDIA driver";
        else if (r == CU_STUB_LIBRARY)
            advice = "libcuda is the toolkit's stub: install the NVIDIA driver";
        return rt_fail(e, RT_ENV, "the NVIDIA driver does not start: cuInit(0) = %s\n%s", name,
                       advice);
    }
    return RT_OK;
}

RtCode nvrtc_open(Nvrtc *n, RtError *e)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    char why[512];
    memset(n, 0, sizeof *n);
    n->lib = cu_library_open(names, n->path, sizeof n->path, why, sizeof why);
    if (!n->lib)
        return rt_fail(
            e, RT_ENV,
            "no NVRTC: libnvrtc.so.13 or .12 cannot be opened (%s)\n"
            "install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or set CUDA_HOME; "
            "`netc doctor` shows what was found",
            why[0] ? why : "not found");
#define F(type, name, sym, params)                                                                 \
    if (!symbol(n->lib, sym, &n->name)) return missing(e, n->path, sym);
    NVRTC_FUNCTIONS(F)
#undef F
    n->version(&n->major, &n->minor);
    return RT_OK;
}

const char *const cu_lt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                   NULL};

RtCode lt_open(CublasLt *l, RtError *e)
{
    char why[512];
    memset(l, 0, sizeof *l);
    l->lib = cu_library_open(cu_lt_names, l->path, sizeof l->path, why, sizeof why);
    if (!l->lib)
        return rt_fail(
            e, RT_ENV,
            "no cuBLASLt: libcublasLt.so.13 or .12 cannot be opened (%s)\n"
            "install the CUDA toolkit or `pip install nvidia-cublas`, or set CUDA_HOME; or "
            "compile here, where it is absent: netc then generates the matrix products",
            why[0] ? why : "not found");
#define F(type, name, sym, params)                                                                 \
    if (!symbol(l->lib, sym, &l->name)) return missing(e, l->path, sym);
    LT_FUNCTIONS(F)
#undef F
    l->number = l->version();
    return RT_OK;
}

const char *const cu_dnn_names[] = {"libcudnn.so.9", NULL};

bool dnn_open(Cudnn *d)
{
    char path[512], why[512];
    memset(d, 0, sizeof *d);
    d->lib = cu_library_open(cu_dnn_names, path, sizeof path, why, sizeof why);
    if (!d->lib) return false;
#define F(type, name, sym, params)                                                                 \
    if (!symbol(d->lib, sym, &d->name)) return false;
    DNN_FUNCTIONS(F)
#undef F
    d->number = d->version();
    return true;
}
