// Reading a cubin: what NVRTC made is read; a damaged file is refused, wherever it is cut.
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cubin.h"
#include "tests/unit/unit.h"

static const char text[] =
    "extern \"C\" __global__ void k_abc(float *p, const float *q)\n"
    "{\n    __shared__ float s[300];\n    s[threadIdx.x] = q[threadIdx.x];\n    __syncthreads();\n"
    "    p[threadIdx.x] = s[255 - threadIdx.x];\n}\n";

int main(void)
{
    ProgKernel k = {.name = "abc",
                    .symbol = "k_abc",
                    .text = text,
                    .annotated = text,
                    .identity = 1,
                    .grid = {1, 1, 1},
                    .block = {256, 1, 1},
                    .schedule = ""};
    Program p = {.model = "t",
                 .target = "sm_90",
                 .cuda = true,
                 .nkernels = 1,
                 .kernels = &k,
                 .prelude = "",
                 .choices = ""};
    Arena *a = arena_new();
    RtCompileOptions o = {.threads = 1};
    RtKernelInfo info;
    static const char *const targets[] = {"sm_80", "sm_90", "sm_100"};
    int made = 0;
    for (int t = 0; t < 3; t++) {
        RtImage *im = NULL;
        RtError e = {0};
        int n = 0;
        if (rt_compile_cuda(a, &p, targets[t], &o, &im, &n, &e)) {
            printf("skip: no cubin for %s: %.60s\n", targets[t], e.text);
            continue;
        }
        made++;
        int arch = atoi(targets[t] + 3);
        CHECK(n == 1 && rt_cubin_info(im->bytes, im->size, arch, "k_abc", &info));
        CHECK_MSG(info.registers >= 4 && info.registers <= 64, "%d registers", info.registers);
        CHECK_MSG(info.shared_bytes == 1200 && info.local_bytes == 0, "%s: shared %d, local %d",
                  targets[t], info.shared_bytes, info.local_bytes);
        CHECK(!rt_cubin_info(im->bytes, im->size, arch, "k_other", &info));
        // Cut short, and with bytes changed: no answer or one, but no access outside the copy.
        for (size_t cut = 0; cut < im->size; cut += 1 + cut / 16) {
            char *copy = malloc(cut + 1);
            memcpy(copy, im->bytes, cut);
            rt_cubin_info(copy, cut, arch, "k_abc", &info);
            free(copy);
        }
        char *copy = malloc(im->size);
        for (size_t at = 0; at < im->size; at += 3) {
            memcpy(copy, im->bytes, im->size);
            copy[at] ^= (char)0xff;
            rt_cubin_info(copy, im->size, arch, "k_abc", &info);
        }
        free(copy);
    }
    CHECK(!rt_cubin_info("", 0, 90, "k", &info) && !rt_cubin_info("\177ELF", 4, 90, "k", &info));
    arena_free(a);
    printf("%d passed, %d failed, %d skipped\n", unit_passed, unit_failed, 3 - made);
    return unit_failed != 0;
}
