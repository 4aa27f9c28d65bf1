// NVRTC without a GPU: architectures, PTX, errors in terms of the kernel, the cache.
#include <ftw.h>
#include <unistd.h>

#include "runtime/cuda/cuda_api.h"
#include "runtime/device.h"
#include "tests/unit/cuda_program.h"
#include "tests/unit/unit.h"

static const char good[] = "extern \"C\" __global__ void k(float *y, const float *x, long long n)\n"
                           "{\n"
                           "    long long i = blockIdx.x * 256LL + threadIdx.x;\n"
                           "    if (i < n) y[i] = tanhf(x[i]) * SCALE;\n"
                           "}\n";
static const char bad[] = "extern \"C\" __global__ void k(float *y)\n"
                          "{\n"
                          "    y[0] = nothing;\n"
                          "}\n";

static const char warned[] = "extern \"C\" __global__ void k(float *y)\n"
                             "{\n"
                             "    int nobody_reads_it;\n"
                             "    y[0] = SCALE;\n"
                             "}\n";

static int logged;

static void count_lines(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
    logged++;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
    (void)st, (void)type, (void)w;
    return remove(path);
}

int main(void)
{
    RtError e = {0};
    Nvrtc nvrtc;
    if (nvrtc_open(&nvrtc, &e)) {
        printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", e.text);
        return 0;
    }
    Arena *a = arena_new();
    Hand h;
    hand_init(&h);
    h.p.prelude = "#define SCALE 2.0f\n";
    hand_kernel(&h, good, 1, 256);
    hand_kernel(&h, good, 2, 256);
    h.kernel[1].identity = h.kernel[0].identity;
    int x = hand_input(&h, "x", hand_vector(PD_F32, 4));
    hand_step(&h, PS_KERNEL, 0, 1, x);

    char dir[] = "/tmp/netc_cuda_XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    RtCompileOptions o = {.cache_dir = dir, .threads = 2, .log = count_lines};
    RtImage *im;
    int n;
    const char *const targets[] = {"sm_80", "sm_90", "sm_100", "ptx_80"};
    for (int i = 0; i < 4; i++) {
        e = (RtError){0};
        CHECK_MSG(rt_compile_cuda(a, &h.p, targets[i], &o, &im, &n, &e) == RT_OK, "%s", e.text);
        CHECK(n == 1); // equal kernels are one
        if (e.code || n != 1) continue;
        CHECK(im[0].size > 100 && !strcmp(im[0].target, targets[i]));
        CHECK(im[0].identity == h.kernel[0].identity && im[0].key != 0);
        CHECK(memcmp(im[0].bytes, i == 3 ? "//" : "\177ELF", i == 3 ? 2 : 4) == 0);
    }
    CHECK(logged == 4);
    CHECK(rt_compile_cuda(a, &h.p, "sm_90", &o, &im, &n, &e) == RT_OK && n == 1);
    CHECK(logged == 4); // from the cache
    CHECK(im[0].log && !*im[0].log && im[0].seconds > 0);
    // What the compiler said of a kernel, and how long it took, is in the cache beside the code.
    h.kernel[0].text = h.kernel[1].text = warned;
    double seconds = 0;
    for (int i = 0; i < 2; i++) {
        CHECK(rt_compile_cuda(a, &h.p, "sm_90", &o, &im, &n, &e) == RT_OK && n == 1);
        if (e.code) break;
        CHECK_MSG(im[0].log && strstr(im[0].log, "nobody_reads_it"), "round %d", i);
        CHECK(!memcmp(im[0].bytes, "\177ELF", 4) && (uintptr_t)im[0].bytes % 8 == 0);
        CHECK(i ? im[0].seconds == seconds : im[0].seconds > 0);
        seconds = im[0].seconds;
    }
    CHECK(logged == 5);
    h.kernel[0].text = h.kernel[1].text = bad;
    h.kernel[1].text = good;
    h.kernel[1].identity++;
    CHECK(rt_compile_cuda(a, &h.p, "sm_90", &o, &im, &n, &e) == RT_ENV);
    CHECK_MSG(strstr(e.text, "hand_kernel") && strstr(e.text, "hand.net:7") &&
                  strstr(e.text, "hand_kernel.cu(3)") && strstr(e.text, "nothing"),
              "%s", e.text);
    e = (RtError){0};
    CHECK(rt_compile_cuda(a, &h.p, "sm_9x", &o, &im, &n, &e) == RT_USER && strstr(e.text, "sm_9x"));
    h.kernel[0].text = good;
    e = (RtError){0};
    CHECK(rt_compile_cuda(a, &h.p, "sm_999", &o, &im, &n, &e) == RT_ENV &&
          strstr(e.text, "sm_999"));
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    arena_free(a);
    return unit_done();
}
