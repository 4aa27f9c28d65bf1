// What `netc doctor` says about CUDA: the driver, the GPUs, the libraries and where they were
// found.
#include <stdio.h>

#include "base/plain.h"
#include "runtime/cuda/cuda.h"

typedef void (*Line)(void *ctx, const char *what, bool ok, const char *detail);

bool rt_cuda_matmul_library(void)
{
    char path[512], why[512];
    if (cu_library_present(cu_lt_names, path, sizeof path)) return true;
    return cu_library_open(cu_lt_names, path, sizeof path, why, sizeof why) != NULL;
}

static void gpus(const CuDriver *cu, Line line, void *ctx)
{
    int n = 0;
    if (cu->device_count(&n) != CU_OK || n == 0) {
        line(ctx, "GPU", false, "the driver sees none; is CUDA_VISIBLE_DEVICES set?");
        return;
    }
    for (int i = 0; i < n; i++) {
        char what[32], name[128] = "?", detail[256];
        CuDeviceId id;
        int major = 0, minor = 0, units = 0;
        size_t bytes = 0;
        snprintf(what, sizeof what, "cuda:%d", i);
        if (cu->device_get(&id, i) != CU_OK) {
            line(ctx, what, false, "cannot be opened; see `nvidia-smi`");
            continue;
        }
        cu->device_name(name, sizeof name, id);
        cu->device_attribute(&major, CU_ATTR_CC_MAJOR, id);
        cu->device_attribute(&minor, CU_ATTR_CC_MINOR, id);
        cu->device_attribute(&units, CU_ATTR_UNITS, id);
        cu->device_memory(&bytes, id);
        plain_format(detail, sizeof detail, "%s, sm_%d%d, %d multiprocessors, %.1f GB%s", name,
                     major, minor, units, (double)bytes / 1e9,
                     major < 8 ? "; netc needs sm_80 or later" : "");
        line(ctx, what, major >= 8, detail);
    }
}

// Reports an error on one line, since doctor prints one line per finding.
static void say_error(Line line, void *ctx, const char *what, const RtError *e)
{
    char text[1024];
    size_t n = 0;
    for (const char *p = e->text; *p && n + 3 < sizeof text; p++) {
        if (*p == '\n') text[n++] = ';';
        text[n++] = *p == '\n' ? ' ' : *p;
    }
    text[n] = 0;
    line(ctx, what, false, text);
}

static void optional(Line line, void *ctx, const char *what, const char *const *names,
                     const char *use)
{
    char path[512], why[512], detail[600];
    bool ok = cu_library_open(names, path, sizeof path, why, sizeof why) != NULL;
    if (ok)
        snprintf(detail, sizeof detail, "%s", path);
    else
        snprintf(detail, sizeof detail, "not found; %s", use);
    line(ctx, what, ok, detail);
}

void rt_cuda_doctor(Line line, void *ctx)
{
    RtError e = {0};
    char detail[640];
    CuDriver cu;
    if (cu_driver_open(&cu, &e)) {
        say_error(line, ctx, "NVIDIA driver", &e);
    } else {
        int v = 0;
        cu.driver_version(&v);
        snprintf(detail, sizeof detail, "for CUDA %d.%d%s", v / 1000, v % 1000 / 10,
                 v < 12000 ? "; netc needs 12.0 or later: update it" : "");
        line(ctx, "NVIDIA driver", v >= 12000, detail);
        gpus(&cu, line, ctx);
    }
    Nvrtc nvrtc;
    e = (RtError){0};
    if (nvrtc_open(&nvrtc, &e)) {
        say_error(line, ctx, "NVRTC", &e);
    } else {
        snprintf(detail, sizeof detail, "%d.%d, %s", nvrtc.major, nvrtc.minor, nvrtc.path);
        line(ctx, "NVRTC", true, detail);
    }
    CublasLt lt;
    e = (RtError){0};
    if (lt_open(&lt, &e)) {
        say_error(line, ctx, "cuBLASLt", &e);
    } else {
        snprintf(detail, sizeof detail, "%zu, %s", lt.number, lt.path);
        line(ctx, "cuBLASLt", true, detail);
    }
    optional(line, ctx, "cuDNN", cu_dnn_names,
             "convolutions are computed by generated kernels alone");
    optional(line, ctx, "NCCL", (const char *const[]){"libnccl.so.2", "libnccl.so", NULL},
             "needed only for several GPUs");
}
