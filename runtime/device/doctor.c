// What netc finds on this machine: for the GPU and for the CPU.
#include <dlfcn.h>
#include <stdio.h>

#include "base/plain.h"
#include "runtime/cpu/cpu.h"
#include "runtime/data/images.h"
#include "runtime/host/file.h"

typedef void Line(void *ctx, const char *what, bool ok, const char *detail);

static void compiler(Line *line, void *ctx)
{
    CpuCompiler c;
    RtError e = {0};
    bool ok = rt_cc_find(&c, &e) == RT_OK;
    line(ctx, "C compiler", ok, ok ? c.path : e.text);
}

static void openblas(Line *line, void *ctx)
{
    char detail[512];
    bool ok = rt_blas_describe(detail, sizeof detail);
    line(ctx, "OpenBLAS", ok, detail);
}

void rt_doctor(Line *line, void *ctx)
{
    char detail[160];
    size_t free_bytes, total;
    rt_cuda_doctor(line, ctx);
    if (rt_host_memory(&free_bytes, &total)) {
        plain_format(
            detail, sizeof detail,
            "%d threads (OMP_NUM_THREADS sets the number), %.1f GB of memory, %.1f GB free",
            rt_cpu_threads(), (double)total / 1e9, (double)free_bytes / 1e9);
        line(ctx, "CPU", true, detail);
    }
    compiler(line, ctx);
    openblas(line, ctx);
    const char *png, *jpeg, *tar;
    rt_images_readable(&png, &jpeg);
    rt_tar_readable(&tar);
    line(ctx, "PNG images", !png, png ? png : "libspng");
    line(ctx, "JPEG images", !jpeg, jpeg ? jpeg : "TurboJPEG");
    line(ctx, "archives of images", !tar, tar ? tar : "libarchive");
}
