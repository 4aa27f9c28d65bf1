// The CUDA device against programs written by hand. Skips visibly where there is no GPU.
#include <dlfcn.h>
#include <math.h>
#include <time.h>

#include "runtime/cuda/cuda.h"
#include "tests/unit/cuda_program.h"
#include "tests/unit/unit.h"

#define N 1000

static RtDevice *device;
static int unit_skipped;
static char last_log[256];

static void keep_log(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(last_log, sizeof last_log, "%s", line);
}

static const RtCompileOptions options = {.log = keep_log};

static const char map_text[] = "extern \"C\" __global__ void k(float *y, const float *x)\n"
                               "{\n"
                               "    int i = blockIdx.x * 256 + threadIdx.x;\n"
                               "    if (i < 1000) y[i] = x[i] * 2.0f + 1.0f;\n"
                               "}\n";

static void map_program(Hand *h)
{
    hand_init(h);
    int x = hand_input(h, "x", hand_vector(PD_F32, N));
    int y = hand_output(h, "y", hand_vector(PD_F32, N));
    hand_step(h, PS_KERNEL, hand_kernel(h, map_text, 4, 256), 2, y, x);
}

// Runs the map program n times and checks y.
static void check_map(const char *what, Loaded *l)
{
    float x[N], y[N] = {0};
    RtError e = {0};
    RtInput in = {"x", x, false};
    for (int i = 0; i < N; i++) x[i] = (float)i;
    CHECK_MSG(rt_run(l->s, l->p, "main", &in, 1, 3, &e) == RT_OK, "%s: %s", what, e.text);
    CHECK_MSG(rt_sync(l->s, &e) == RT_OK, "%s: %s", what, e.text);
    CHECK_MSG(rt_output_read(l->s, l->p, "main", "y", y, sizeof y, &e) == RT_OK, "%s: %s", what,
              e.text);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += y[i] != x[i] * 2 + 1;
    CHECK_MSG(wrong == 0, "%s: %d of %d elements are wrong", what, wrong, N);
}

static void test_map(void)
{
    Hand h;
    Loaded l;
    RtError e = {0};
    map_program(&h);
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    if (!e.code) {
        check_map("map", &l);
        check_map("map again", &l);
        const char *why = "";
        CHECK_MSG(rt_uses_cuda_graph(l.s, l.p, "main", &why), "%s", why);
        CHECK(rt_graph_kernel_nodes(l.s, l.p, "main") == 1);
    }
    hand_unload(&l);
}

// Images: the exact cubin and PTX load without a compilation; another architecture's does not fit.
static void test_images(void)
{
    const char *const targets[] = {rt_device_target(device), "ptx_80", "sm_120"};
    Hand h;
    map_program(&h);
    for (int i = 0; i < 3; i++) {
        Arena *a = arena_new();
        RtImage *im;
        int n;
        RtError e = {0};
        Loaded l;
        last_log[0] = 0;
        CHECK_MSG(rt_compile_cuda(a, &h.p, targets[i], NULL, &im, &n, &e) == RT_OK, "%s", e.text);
        CHECK_MSG(hand_load(device, &h, im, n, &options, &l, &e) == RT_OK, "%s: %s", targets[i],
                  e.text);
        CHECK_MSG((i == 2) == (last_log[0] != 0), "%s: '%s'", targets[i], last_log);
        if (!e.code) check_map(targets[i], &l);
        hand_unload(&l);
        arena_free(a);
    }
    // A damaged cubin is no crash and no error: its kernel is compiled again, and that is said.
    Arena *a = arena_new();
    RtImage *im;
    int n;
    RtError e = {0};
    Loaded l = {0};
    CHECK(rt_compile_cuda(a, &h.p, rt_device_target(device), NULL, &im, &n, &e) == RT_OK);
    memset((char *)im[0].bytes + 4, 0x55, im[0].size / 2);
    last_log[0] = 0;
    CHECK_MSG(hand_load(device, &h, im, n, &options, &l, &e) == RT_OK, "%s", e.text);
    CHECK_MSG(strstr(last_log, "hand_kernel") && strstr(last_log, "again"), "'%s'", last_log);
    if (!e.code) check_map("damaged", &l);
    hand_unload(&l);
    arena_free(a);
}

// c += x[0] behind a check that x[0] < 10; a gated copy and a gated zero go with it.
static const char commit_text[] =
    "struct Error { unsigned code, reserved; long long value, index, step; };\n"
    "extern \"C\" __global__ void k(float *c, const float *x, Error *e)\n"
    "{\n"
    "    if (!(x[0] < 10.0f) && atomicCAS(&e->code, 0u, 1u) == 0u) {\n"
    "        e->value = (long long)x[0];\n"
    "        e->index = 3;\n"
    "    }\n"
    "    if (e->code == 0) c[0] += x[0];\n"
    "}\n";

static void test_commit(void)
{
    Hand h;
    Loaded l;
    RtError e = {0};
    hand_init(&h);
    int x = hand_input(&h, "x", hand_vector(PD_F32, 8));
    int c = hand_cell(&h, "c", hand_vector(PD_F32, 1), 1);
    int copy = hand_cell(&h, "copy", hand_vector(PD_F32, 8), 5);
    int odd = hand_cell(&h, "odd", hand_vector(PD_U8, 7), 6);
    int zero = hand_cell(&h, "zero", hand_vector(PD_F32, 1), 7);
    int err = hand_error(&h);
    h.check[0] = (ProgCheck){CHECK_INDEX, "index of test", "hand.net:7", 10};
    h.entry.nchecks = 1;
    hand_step(&h, PS_KERNEL, hand_kernel(&h, commit_text, 1, 1), 3, c, x, err)->commits = true;
    ProgStep *s = hand_step(&h, PS_COPY, 0, 2, x, copy);
    s->bytes = 32, s->commits = true;
    s = hand_step(&h, PS_COPY, 0, 2, x, odd);
    s->bytes = 7, s->commits = true;
    s = hand_step(&h, PS_ZERO, 0, 1, zero);
    s->bytes = 4, s->commits = true;
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    for (int round = 0; round < 4 && !e.code; round++) {
        bool bad = round % 2 == 0; // bad, good, bad (as a graph), good
        float in[8] = {bad ? 12 : 2, 1, 2, 3, 4, 5, 6, 7}, vc, vcopy[8], vzero;
        unsigned char vodd[7];
        RtInput input = {"x", in, false};
        float cell_before;
        CHECK(rt_cell_read(l.s, "c", &cell_before, 4, &e) == RT_OK);
        CHECK_MSG(rt_run(l.s, l.p, "main", &input, 1, 2, &e) == RT_OK, "%s", e.text);
        RtError check = {0};
        RtCode code = rt_sync(l.s, &check);
        CHECK_MSG(code == (bad ? RT_CHECK : RT_OK), "round %d: %d %s", round, code, check.text);
        if (bad)
            CHECK_MSG(strstr(check.text, "hand.net:7") && strstr(check.text, "12"), "%s",
                      check.text);
        CHECK(rt_cell_read(l.s, "c", &vc, 4, &e) == RT_OK);
        CHECK(rt_cell_read(l.s, "copy", vcopy, 32, &e) == RT_OK);
        CHECK(rt_cell_read(l.s, "odd", vodd, 7, &e) == RT_OK);
        CHECK(rt_cell_read(l.s, "zero", &vzero, 4, &e) == RT_OK);
        CHECK_MSG(vc == cell_before + (bad ? 0 : 4), "round %d: c %g after %g", round, vc,
                  cell_before);
        CHECK_MSG(vcopy[7] == (round ? 7 : 5) && vcopy[0] == (round ? 2 : 5), "round %d: %g %g",
                  round, vcopy[0], vcopy[7]);
        float good[2] = {2, 1}; // what the last good round gave
        CHECK_MSG(round ? !memcmp(vodd, good, 7) : vodd[0] == 6, "round %d: %d", round, vodd[0]);
        CHECK_MSG(vzero == (round ? 0 : 7), "round %d: %g", round, vzero);
    }
    hand_unload(&l);
}

// y[t] = x[t] * t for t in 0..5, rows of 4, forwards and backwards.
static const char loop_text[] =
    "extern \"C\" __global__ void k(float *y, const float *x, float *order, long long t)\n"
    "{\n"
    "    y[threadIdx.x] = x[threadIdx.x] * (float)t;\n"
    "    if (threadIdx.x == 0) { order[0] = order[0] * 10.0f + (float)t; }\n"
    "}\n";

static void test_loop(void)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        Hand h;
        Loaded l;
        RtError e = {0};
        hand_init(&h);
        int x = hand_input(&h, "x", hand_vector(PD_F32, 20));
        int y = hand_output(&h, "y", hand_vector(PD_F32, 20));
        int order = hand_output(&h, "order", hand_vector(PD_F32, 1));
        hand_step(&h, PS_ZERO, 0, 1, order)->bytes = 4;
        ProgStep *loop = hand_step(&h, PS_LOOP, 0, 0);
        loop->count = 5, loop->first_step = 2, loop->last_step = 3, loop->reverse = reverse;
        ProgStep *body = hand_step(&h, PS_KERNEL, hand_kernel(&h, loop_text, 1, 4), 4, y, x, order,
                                   HAND_LOOP_INDEX);
        body->depth = 1;
        body->args[0].stride[0] = body->args[1].stride[0] = 16;
        CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
        float in[20], out[20] = {0}, seen = 0;
        for (int i = 0; i < 20; i++) in[i] = (float)(i + 1);
        RtInput input = {"x", in, false};
        for (int round = 0; round < 3 && !e.code; round++) {
            CHECK_MSG(rt_run(l.s, l.p, "main", &input, 1, 2, &e) == RT_OK, "%s", e.text);
            CHECK_MSG(rt_sync(l.s, &e) == RT_OK, "%s", e.text);
            CHECK(rt_output_read(l.s, l.p, "main", "y", out, sizeof out, &e) == RT_OK);
            CHECK(rt_output_read(l.s, l.p, "main", "order", &seen, sizeof seen, &e) == RT_OK);
            int wrong = 0;
            for (int i = 0; i < 20; i++) wrong += out[i] != in[i] * (float)(i / 4);
            CHECK_MSG(wrong == 0, "%d wrong", wrong);
            CHECK_MSG(seen == (reverse ? 43210 : 1234), "%g", seen);
        }
        CHECK(e.code || rt_graph_kernel_nodes(l.s, l.p, "main") == 5);
        hand_unload(&l);
    }
}

// A cluster, dynamic shared memory beyond the default.
static const char wide_text[] =
    "extern __shared__ float s[];\n"
    "extern \"C\" __global__ void k(float *y)\n"
    "{\n"
    "    s[20000 + threadIdx.x] = (float)threadIdx.x;\n"
    "    __syncthreads();\n"
    "    unsigned n = 1;\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "    asm volatile(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(n));\n"
    "#endif\n"
    "    y[blockIdx.x * 32 + threadIdx.x] = s[20000 + 31 - threadIdx.x] + 100.0f * (float)n;\n"
    "}\n";

static void test_launch(void)
{
    bool clusters =
        strcmp(rt_device_target(device), "sm_90") >= 0 || strlen(rt_device_target(device)) > 5;
    for (int kind = 0; kind < 2; kind++) { // plain, cluster
        if (kind == 1 && !clusters) continue;
        Hand h;
        Loaded l;
        RtError e = {0};
        hand_init(&h);
        int y = hand_output(&h, "y", hand_vector(PD_F32, 128));
        int k = hand_kernel(&h, wide_text, 4, 32);
        h.kernel[k].shared_bytes = 96 * 1024;
        h.kernel[k].cluster = kind == 1 ? 4 : 0;
        hand_step(&h, PS_KERNEL, k, 1, y);
        CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
        float out[128] = {0};
        for (int round = 0; round < 2 && !e.code; round++) {
            CHECK_MSG(rt_run(l.s, l.p, "main", NULL, 0, 2, &e) == RT_OK, "kind %d: %s", kind,
                      e.text);
            CHECK_MSG(rt_sync(l.s, &e) == RT_OK, "%s", e.text);
            CHECK(rt_output_read(l.s, l.p, "main", "y", out, sizeof out, &e) == RT_OK);
            int wrong = 0;
            for (int i = 0; i < 128; i++)
                wrong += out[i] != (float)(31 - i % 32) + (kind == 1 ? 400.0f : 100.0f);
            CHECK_MSG(wrong == 0, "kind %d: %d wrong, y[0] %g", kind, wrong, out[0]);
        }
        hand_unload(&l);
    }
}

// Data read through a table of rows, the cursor on the device.
static const char rows_text[] =
    "extern \"C\" __global__ void k(float *sum, const float *x, const int *rows, long long *at)\n"
    "{\n"
    "    float s = 0.0f;\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        for (int j = 0; j < 3; j++) s += x[(long long)rows[*at + i] * 3 + j];\n"
    "    sum[0] += s;\n"
    "    *at += 4;\n"
    "}\n";

static void test_rows(void)
{
    Hand h;
    Loaded l;
    RtError e = {0};
    hand_init(&h);
    h.entry.rows = true;
    h.entry.cursor = "cursor";
    h.entry.batch = 4;
    int x = hand_input(&h, "x", (ProgType){.dtype = PD_F32, .rank = 2, .dim = {4, 3}});
    h.input[0].data = true;
    int sum = hand_cell(&h, "sum", hand_vector(PD_F32, 1), 0);
    int at = hand_cell(&h, "cursor", (ProgType){.dtype = PD_I64}, 0);
    h.cell[1].kind = PC_CONTROL;
    int rows = hand_buffer(&h, PR_ROWS, 0, 0, hand_vector(PD_I32, 4), "rows");
    hand_step(&h, PS_KERNEL, hand_kernel(&h, rows_text, 1, 1), 4, sum, x, rows, at)->commits = true;
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    float data[20 * 3], want = 0, got = 0;
    int32_t order[20];
    for (int i = 0; i < 60; i++) data[i] = (float)(i % 7);
    for (int i = 0; i < 20; i++) order[i] = (i * 7) % 20;
    RtDataBinding b = {"x", data, 12, NULL};
    if (!e.code) {
        CHECK_MSG(rt_data_bind(l.s, l.p, "main", &b, 1, 20, &e) == RT_OK, "%s", e.text);
        CHECK_MSG(rt_rows_set(l.s, l.p, "main", order, 20, &e) == RT_OK, "%s", e.text);
        for (int i = 0; i < 2; i++) {
            CHECK_MSG(rt_run(l.s, l.p, "main", NULL, 0, 2, &e) == RT_OK, "%s", e.text);
            CHECK_MSG(rt_sync(l.s, &e) == RT_OK, "%s", e.text);
        }
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 3; j++) want += data[order[i] * 3 + j];
        CHECK(rt_cell_read(l.s, "sum", &got, 4, &e) == RT_OK);
        CHECK_MSG(got == want, "%g, expected %g", got, want);
    }
    hand_unload(&l);
}

// Many executions in a row: several a graph, two of the three steps side by side.
static const char left_text[] =
    "extern \"C\" __global__ void k(unsigned *to, const unsigned *from)\n"
    "{\n"
    "    unsigned v = from[threadIdx.x];\n"
    "    for (int i = 0; i < 200; i++) v = v * 3u + 1u;\n"
    "    to[threadIdx.x] = v;\n"
    "}\n";
static const char right_text[] =
    "extern \"C\" __global__ void k(unsigned *to, const unsigned *from)\n"
    "{\n"
    "    to[threadIdx.x] = from[threadIdx.x] ^ 0x5a5a5a5au;\n"
    "}\n";
static const char both_text[] =
    "extern \"C\" __global__ void k(unsigned *to, const unsigned *a, const unsigned *b)\n"
    "{\n"
    "    to[threadIdx.x] = a[threadIdx.x] * 5u + b[threadIdx.x];\n"
    "}\n";

static void test_many(void)
{
    enum { WIDTH = 64, TIMES = 1500 };
    Hand h;
    Loaded l;
    RtError e = {0};
    hand_init(&h);
    int c = hand_cell(&h, "c", hand_vector(PD_U32, WIDTH), 3);
    int a = hand_temp(&h, "a", hand_vector(PD_U32, WIDTH)),
        b = hand_temp(&h, "b", hand_vector(PD_U32, WIDTH));
    hand_step(&h, PS_KERNEL, hand_kernel(&h, left_text, 1, WIDTH), 2, a, c)->args[1].written =
        false;
    hand_step(&h, PS_KERNEL, hand_kernel(&h, right_text, 1, WIDTH), 2, b, c)->args[1].written =
        false;
    ProgStep *s = hand_step(&h, PS_KERNEL, hand_kernel(&h, both_text, 1, WIDTH), 3, c, a, b);
    s->args[1].written = s->args[2].written = false;
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    unsigned want = 3, got[WIDTH] = {0};
    for (int round = 0; round < 3 && !e.code; round++) {
        int times = TIMES + round; // remainders are graphs of 16, 8, 4, 2 and 1
        CHECK_MSG(rt_run(l.s, l.p, "main", NULL, 0, times, &e) == RT_OK, "%s", e.text);
        CHECK_MSG(rt_sync(l.s, &e) == RT_OK, "%s", e.text);
        for (int i = 0; i < times; i++) {
            unsigned v = want;
            for (int k = 0; k < 200; k++) v = v * 3u + 1u;
            want = v * 5u + (want ^ 0x5a5a5a5au);
        }
        CHECK(rt_cell_read(l.s, "c", got, sizeof got, &e) == RT_OK);
        CHECK_MSG(got[0] == want && got[WIDTH - 1] == want, "round %d: %u, expected %u", round,
                  got[0], want);
        CHECK(rt_graph_kernel_nodes(l.s, l.p, "main") == 3);
    }
    hand_unload(&l);
}

static void test_oom(void)
{
    Hand h;
    Loaded l;
    RtError e = {0};
    map_program(&h);
    h.entry.batch = 1024;
    hand_temp(&h, "activations", (ProgType){.dtype = PD_F32, .rank = 2, .dim = {1 << 20, 1 << 20}});
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    float x[N] = {0};
    RtInput in = {"x", x, false};
    CHECK(rt_run(l.s, l.p, "main", &in, 1, 1, &e) == RT_OOM);
    CHECK_MSG(strstr(e.text, "activations") && strstr(e.text, "hand.net:7"), "%s", e.text);
    hand_unload(&l);
    // The device is usable afterwards.
    test_map();
}

// NETC_SYNC=1: no graph, the same numbers.
static void test_sync(void)
{
    RtDevice *before = device;
    RtError e = {0};
    Hand h;
    Loaded l;
    setenv("NETC_SYNC", "1", 1);
    CHECK_MSG(rt_device_open("cuda:0", NULL, &device, &e) == RT_OK, "%s", e.text);
    unsetenv("NETC_SYNC");
    if (!e.code) {
        map_program(&h);
        CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
        const char *why = "";
        if (!e.code) check_map("step by step", &l);
        CHECK(!rt_uses_cuda_graph(l.s, l.p, "main", &why) && strstr(why, "NETC_SYNC"));
        hand_unload(&l);
        rt_device_close(device);
    }
    device = before;
}

static void test_owns(void)
{
    RtError e = {0}, host = {0}, beyond = {0};
    void *p = NULL;
    int here = 0;
    CHECK(device->ops->enter(device, &e) == RT_OK);
    CHECK(device->ops->alloc(device, 4096, "test", &p, &e) == RT_OK);
    CHECK_MSG(rt_device_owns(device, p, 4096, &e) == RT_OK, "%s", e.text);
    CHECK(rt_device_owns(device, (char *)p + 4000, 96, &e) == RT_OK);
    CHECK(rt_device_owns(device, &here, 4, &host) == RT_USER && strstr(host.text, "is not a pointer of"));
    CHECK(rt_device_owns(device, p, 1 << 30, &beyond) == RT_USER && strstr(beyond.text, "ends"));
    device->ops->free(device, p);
    device->ops->leave(device);
}

// The caller's context is the same before and after.
static void test_context(void)
{
    CuDriver cu;
    RtError e = {0};
    CHECK(cu_driver_open(&cu, &e) == RT_OK);
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    CuResult (*current)(CuContext *) = NULL;
    void *symbol = lib ? dlsym(lib, "cuCtxGetCurrent") : NULL;
    memcpy(&current, &symbol, sizeof current);
    CHECK(current != NULL);
    if (!current) return;
    CuContext before = NULL, after = NULL, none = NULL;
    current(&none);
    CHECK(none == NULL);
    CuDeviceId id;
    CHECK(cu.device_get(&id, 0) == CU_OK && cu.primary_retain(&before, id) == CU_OK);
    CHECK(cu.ctx_push(before) == CU_OK);
    test_map();
    current(&after);
    CHECK(after == before);
    cu.ctx_pop(&after);
    current(&none);
    CHECK(none == NULL);
    cu.primary_release(id);
}

// What measuring is made of: the copy copies, a wait lasts, a profile adds up, the driver knows the
// kernel.
static void test_measure(void)
{
    enum { BYTES = 3 * RT_COPY_UNIT };
    const RtDeviceOps *ops = device->ops;
    static unsigned char from[BYTES], to[BYTES];
    void *a = NULL, *b = NULL;
    RtStream *s = NULL;
    RtEvent *begin = NULL, *end = NULL;
    RtError e = {0};
    double seconds = 0;
    for (int i = 0; i < BYTES; i++) from[i] = (unsigned char)(i * 7 + i / 4096);
    CHECK(ops->enter(device, &e) == RT_OK && ops->stream_new(device, NULL, &s, &e) == RT_OK);
    CHECK(ops->alloc(device, BYTES, "a", &a, &e) == RT_OK &&
          ops->alloc(device, BYTES, "b", &b, &e) == RT_OK);
    CHECK_MSG(ops->copy(s, a, from, BYTES, RT_H2D, NULL, &e) == RT_OK &&
                  ops->copy_kernel(s, b, a, BYTES, &e) == RT_OK &&
                  ops->copy(s, to, b, BYTES, RT_D2H, NULL, &e) == RT_OK &&
                  ops->stream_sync(s, &e) == RT_OK,
              "%s", e.text);
    CHECK(!memcmp(from, to, BYTES));
    CHECK(ops->event_new(device, &begin, &e) == RT_OK && ops->event_new(device, &end, &e) == RT_OK);
    CHECK_MSG(ops->event_record(begin, s, &e) == RT_OK && ops->wait(s, 2e-3, &e) == RT_OK &&
                  ops->event_record(end, s, &e) == RT_OK && ops->event_sync(end, &e) == RT_OK &&
                  ops->event_seconds(begin, end, &seconds, &e) == RT_OK,
              "%s", e.text);
    CHECK_MSG(seconds > 1.5e-3, "a wait of 2 ms took %g s", seconds);
    ops->event_free(begin), ops->event_free(end), ops->stream_free(s);
    ops->free(device, a), ops->free(device, b);
    ops->leave(device);
    CHECK_MSG(rt_copy_rate(device, &seconds, &e) == RT_OK && seconds > 0, "%g %s", seconds, e.text);

    Hand h;
    Loaded l;
    map_program(&h);
    CHECK_MSG(hand_load(device, &h, NULL, 0, &options, &l, &e) == RT_OK, "%s", e.text);
    check_map("before a profile", &l);
    Arena *arena = arena_new();
    RtProfile p;
    RtProfileOptions o = {.repeats = 5};
    CHECK_MSG(rt_profile(l.s, l.p, "main", &o, arena, &p, &e) == RT_OK, "%s", e.text);
    const RtStepTime *t = p.steps;
    CHECK(p.nsteps == 1 && t->calls == 1 && t->seconds > 0 && t->low <= t->high && p.nslices == 1);
    CHECK(t->info.registers > 3 && t->info.threads == 256 && t->info.shared_bytes == 0);
    CHECK(t->info.occupancy > 0 && t->info.occupancy <= 1 && p.empty > 0 && p.pair > 0);
    o.cold = true;
    CHECK_MSG(rt_profile(l.s, l.p, "main", &o, arena, &p, &e) == RT_OK, "%s", e.text);
    double each[3];
    CHECK_MSG(rt_time(l.s, l.p, "main", 40, 3, each, &e) == RT_OK && each[0] > 0, "%s", e.text);
    CHECK(rt_graph_executions(l.s, l.p, "main") >= 1);
    arena_free(arena);
    check_map("after a profile", &l);
    hand_unload(&l);
}

int main(void)
{
    RtError e = {0};
    const char *require = getenv("REQUIRE_GPU");
    if (rt_device_open("cuda:0", NULL, &device, &e)) {
        bool fail = require && !strcmp(require, "1");
        printf("%s: %s\n0 passed, %d failed, %d skipped\n", fail ? "failed" : "skipped", e.text,
               fail, !fail);
        return fail;
    }
    printf("%s, %s\n", rt_device_model(device), rt_device_target(device));
    test_map();
    test_images();
    test_commit();
    test_loop();
    test_launch();
    test_rows();
    test_many();
    test_oom();
    test_sync();
    test_context();
    test_owns();
    test_measure();
    rt_device_close(device);
    printf("%d passed, %d failed, %d skipped\n", unit_passed, unit_failed, unit_skipped);
    return unit_failed != 0;
}
