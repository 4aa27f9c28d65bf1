// Times the memory-bound kernels of bench/kernels/*.net, and linear layers, on the public API: one
// JSON line each.
//
//     kernels [--device cuda:0] [--small | --unlisted] [--dir bench/kernels] [NAME-PART...]
//
// Seconds of an execution: from the wall times of n + 1 executions and of one, the inputs lying on
// the device, so that launching a CUDA graph and nothing else repeats. --small: small sizes, to try
// it out. --unlisted: the same kernels at sizes that no table lists and no power of two divides;
// each row names the listed ones it should be as fast as.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netc.h>

#include "driver.h"

typedef struct Half { // a launch: a model of a file
    const char *file, *entry;
} Half;

typedef struct Case {
    const char *name;
    Half half[2]; // timed apart, added
    int tensors;  // of rows * width elements that must be moved
    int element;  // bytes; where tensors is 0: products of (LINEAR_ROWS, size[0]) x size, timed as
                  // TFLOP/s
    const char *axes[2];
    long size[2], small[2]; // of those constants
} Case;

enum { LINEAR_ROWS = 32768 }; // the default in linear.net

#define ROWS                                                                                       \
    {                                                                                              \
        "rows", "width"                                                                            \
    }
#define TWICE(NAME, FIRST, SECOND, TENSORS)                                                        \
    {NAME " 131072x768", {FIRST, SECOND}, TENSORS, 2, ROWS, {131072, 768}, {64, 768}},             \
    {                                                                                              \
        NAME " 32768x4096", {FIRST, SECOND}, TENSORS, 2, ROWS, {32768, 4096},                      \
        {                                                                                          \
            16, 4096                                                                               \
        }                                                                                          \
    }

#define LINEAR(NAME, ENTRY, PRODUCTS, WIDE, WIDTH)                                                 \
    {                                                                                              \
        NAME " 32768x" #WIDE "x" #WIDTH, {{"linear.net", ENTRY}, {NULL, NULL}}, 0, PRODUCTS,       \
            {"wide", "width"}, {WIDE, WIDTH},                                                      \
        {                                                                                          \
            64, 128                                                                                \
        }                                                                                          \
    }
#define LINEARS(NAME, ENTRY, PRODUCTS)                                                             \
    LINEAR(NAME, ENTRY, PRODUCTS, 768, 768), LINEAR(NAME, ENTRY, PRODUCTS, 768, 2304),             \
        LINEAR(NAME, ENTRY, PRODUCTS, 768, 3072), LINEAR(NAME, ENTRY, PRODUCTS, 3072, 768)

static const Case cases[] = {
#define NONE                                                                                       \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
#define FORWARD(E)                                                                                 \
    {                                                                                              \
        "norms.net", E                                                                             \
    }
#define BACKWARD(E)                                                                                \
    {                                                                                              \
        "norms_backward.net", E                                                                    \
    }
    TWICE("negate", FORWARD("negate"), NONE, 2),
    TWICE("layer norm", FORWARD("layer_norm_forward"), NONE, 2),
    TWICE("rms norm", FORWARD("rms_norm_forward"), NONE, 2),
    TWICE("residual + layer norm", FORWARD("residual_layer_norm"), NONE, 4),
    TWICE("bias + gelu + mul + add", FORWARD("bias_gelu_mul_add"), NONE, 3),
    TWICE("softmax", FORWARD("softmax_forward"), NONE, 2),
    TWICE("bias gradient", BACKWARD("bias_gradient"), NONE, 1),
    TWICE("layer norm forward + backward", FORWARD("layer_norm_forward"),
          BACKWARD("layer_norm_backward"), 5),
    TWICE("rms norm forward + backward", FORWARD("rms_norm_forward"), BACKWARD("rms_norm_backward"),
          5),
    {"cross entropy with gradient 8192x50304",
     {{"loss.net", "cross_entropy_gradient"}, NONE},
     2,
     2,
     {"rows", "classes"},
     {8192, 50304},
     {8, 50304}},
    {"AdamW 16x7750000",
     {{"adamw.net", "adamw_update"}, NONE},
     7,
     4,
     {"parts", "size"},
     {16, 7750000},
     {2, 1000}},
    {"batch norm + relu forward + backward 2097152x64",
     {{"batch_norm.net", "batch_norm_relu_forward"},
      {"batch_norm.net", "batch_norm_relu_backward"}},
     8,
     2,
     {"rows", "channels"},
     {2097152, 64},
     {2048, 64}},
    {"batch norm + relu in one program 2097152x64",
     {{"batch_norm.net", "batch_norm_relu_both"}, NONE},
     8,
     2,
     {"rows", "channels"},
     {2097152, 64},
     {2048, 64}},
    LINEARS("linear", "linear_forward", 1),
    LINEARS("linear + gelu", "linear_gelu_forward", 1),
    LINEARS("linear forward + backward", "linear_both", 3),
    LINEARS("linear + gelu forward + backward", "linear_gelu_both", 3),
};

// Sizes for --unlisted, by the names of the axes.
typedef struct Shape {
    const char *axes[2];
    long size[2];
} Shape;
static const Shape unlisted[] = {
    {{"rows", "width"}, {98304, 1000}},       {{"rows", "width"}, {19200, 5120}},
    {{"rows", "width"}, {8000, 12289}},       {{"rows", "width"}, {96 * 1024, 1536}},
    {{"rows", "classes"}, {8160, 50257}},     {{"rows", "classes"}, {12288, 32003}},
    {{"wide", "width"}, {1000, 1000}},        {{"wide", "width"}, {768, 5120}},
    {{"wide", "width"}, {12289, 768}},        {{"parts", "size"}, {96, 1250001}},
    {{"rows", "channels"}, {96 * 20480, 96}},
};

// Random values: floats of both signs about 1 in size, labels below [high]. They repeat with a
// prime period, so that no two rows are alike and filling costs little more than copying.
static void fill(netc_dtype t, void *data, size_t n, long high)
{
    enum { PERIOD = 1048573 };
    unsigned s = 12345;
    size_t size = netc_dtype_size(t), fresh = n < PERIOD ? n : PERIOD;
    for (size_t i = 0; i < fresh; i++) {
        s = s * 1664525u + 1013904223u;
        float v = ((float)(s >> 8) * 0x1p-24f - 0.5f) * 4;
        unsigned bits;
        memcpy(&bits, &v, sizeof bits);
        if (t == NETC_BF16) ((unsigned short *)data)[i] = (unsigned short)(bits >> 16);
        if (t == NETC_F32) ((float *)data)[i] = v;
        if (t == NETC_I32) ((int *)data)[i] = (int)((s >> 8) % (unsigned)high);
    }
    for (size_t have = fresh; have < n; have += have) // doubling what is there
        memcpy((char *)data + have * size, data, (have < n - have ? have : n - have) * size);
}

typedef struct Bench {
    netc_context *ctx;
    Driver driver;
    const char *device, *dir;
    bool small;
    unsigned long long taken[8]; // inputs on the device
    void *host[8];
    int n;
} Bench;

static bool input(Bench *b, netc_session *s, const char *entry, const netc_port *p, long high,
                  netc_error **err)
{
    size_t n = 1;
    for (int i = 0; i < p->rank; i++) n *= (size_t)p->dim[i];
    size_t bytes = n * netc_dtype_size(p->dtype);
    netc_tensor t = {.dtype = p->dtype, .rank = p->rank, .data = malloc(bytes)};
    memcpy(t.dim, p->dim, sizeof t.dim);
    if (!t.data || b->n == 8) return free(t.data), false;
    fill(p->dtype, t.data, n, high);
    if (!b->driver.library) {
        b->host[b->n++] = t.data;
    } else {
        unsigned long long at = 0;
        bool ok = !b->driver.alloc(&at, bytes) && !b->driver.upload(at, t.data, bytes);
        free(t.data);
        if (at) b->taken[b->n++] = at;
        if (!ok) return fprintf(stderr, "no device memory for %zu bytes\n", bytes), false;
        t.data = (void *)(size_t)at;
        t.on_device = true;
    }
    return netc_bind(s, entry, p->name, &t, err) == NETC_OK;
}

static bool timed(netc_session *s, const char *entry, int64_t times, double *seconds,
                  netc_error **err)
{
    double begin = now();
    bool ok = netc_run(s, entry, times, err) == NETC_OK && netc_sync(s, err) == NETC_OK;
    *seconds = now() - begin;
    return ok;
}

// Median seconds of an execution; *launches: its kernels; *alone: the sum of its steps timed one by
// one.
static bool measure(netc_session *s, const char *entry, double *seconds, double *alone,
                    int *launches, netc_error **err)
{
    enum { ROUNDS = 9 };
    double one, many, each[ROUNDS];
    for (int i = 0; i < 3; i++)
        if (!timed(s, entry, 1, &one, err)) return false;
    if (!timed(s, entry, 6, &many, err)) return false;
    int n = (int)fmin(1000, fmax(4, 0.025 / (fmax(many - one, 1e-7) / 5)));
    for (int i = 0; i < ROUNDS; i++) {
        if (!timed(s, entry, 1, &one, err) || !timed(s, entry, n + 1, &many, err)) return false;
        each[i] = (many - one) / n;
    }
    qsort(each, ROUNDS, sizeof *each, by_value);
    *seconds += each[ROUNDS / 2];
    netc_profile_result *p = NULL;
    if (netc_profile(s, entry, NULL, &p, err) != NETC_OK) return false;
    for (int i = 0; i < p->nsteps; i++) {
        const netc_step *t = &p->steps[i];
        *alone += t->seconds * t->calls;
        *launches += t->calls;
        fprintf(stderr, "    %9.2f us  %s\n", t->seconds * 1e6, t->name);
    }
    netc_free(p);
    return true;
}

static bool run_half(Bench *b, const Case *c, const Half *h, const long *size, double *seconds,
                     double *alone, int *launches, netc_error **err)
{
    char path[512], define[2][64];
    const char *defines[2] = {define[0], define[1]};
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_compile_options, o);
    snprintf(path, sizeof path, "%s/%s", b->dir, h->file);
    for (int i = 0; i < 2; i++)
        snprintf(define[i], sizeof define[i], "%s=%ld", c->axes[i], size[i]);
    o.defines = defines;
    o.ndefines = 2;
    bool ok = netc_compile_file(b->ctx, path, &o, &p, err) == NETC_OK &&
              netc_session_create(p, b->device, NULL, &s, err) == NETC_OK;
    for (int i = 0; ok && i < netc_input_count(p, h->entry); i++) {
        netc_port port;
        ok = netc_input_info(p, h->entry, i, &port, err) == NETC_OK &&
             input(b, s, h->entry, &port, size[1], err);
    }
    // A search of algorithms has just run the device into its power limit, which a peer that was
    // compiling meanwhile has not: both begin after a rest.
    if (ok && !c->tensors && b->driver.library) sleep(1);
    ok = ok && measure(s, h->entry, seconds, alone, launches, err);
    netc_session_free(s);
    netc_program_release(p);
    for (int i = 0; i < b->n; i++) {
        if (b->taken[i]) b->driver.free(b->taken[i]);
        free(b->host[i]);
        b->taken[i] = 0;
        b->host[i] = NULL;
    }
    b->n = 0;
    return ok;
}

// like: "" or the part of the name that listed rows of the same kernel begin with.
static bool run_case(Bench *b, const Case *c, const char *name, const long *size, const char *like)
{
    double seconds = 0, alone = 0,
           bytes = (double)size[0] * (double)size[1] * c->tensors * c->element;
    int launches = 0;
    netc_error *err = NULL;
    fprintf(stderr, "%s\n", name);
    for (int i = 0; i < 2 && c->half[i].file; i++) {
        if (run_half(b, c, &c->half[i], size, &seconds, &alone, &launches, &err)) continue;
        fprintf(stderr, "%s: %s\n", name, err ? netc_error_text(err) : "failed");
        netc_error_free(err);
        return false;
    }
    printf("{\"name\":\"%s\",\"seconds\":%.6g,", name, seconds);
    if (!c->tensors)
        printf("\"tflop_per_s\":%.5g,",
               2e-12 * LINEAR_ROWS * (double)size[0] * (double)size[1] * c->element / seconds);
    else
        printf("\"gb_per_s\":%.5g,\"bytes\":%.0f,", bytes / seconds / 1e9, bytes);
    printf("\"steps\":%d,\"seconds_of_steps\":%.6g", launches, alone);
    if (*like) printf(",\"like\":\"%s\"", like);
    puts("}");
    fflush(stdout);
    return true;
}

// The case at every size of --unlisted that its axes have.
static int run_unlisted(Bench *b, const Case *c)
{
    const char *last = strrchr(c->name, ' ');
    char kernel[96], name[160];
    int failed = 0;
    snprintf(kernel, sizeof kernel, "%.*s", (int)(last - c->name), c->name);
    for (size_t i = 0; i < sizeof unlisted / sizeof *unlisted; i++) {
        const Shape *u = &unlisted[i];
        if (strcmp(u->axes[0], c->axes[0]) || strcmp(u->axes[1], c->axes[1])) continue;
        snprintf(name, sizeof name, "%s %ldx%ld", kernel, u->size[0], u->size[1]);
        failed += !run_case(b, c, name, u->size, kernel);
    }
    return failed;
}

int main(int argc, char **argv)
{
    Bench b = {.device = "cuda:0", .dir = "bench/kernels"};
    int failed = 0, words = 0;
    bool all_else = false;
    netc_error *err = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--small"))
            b.small = true;
        else if (!strcmp(argv[i], "--unlisted"))
            all_else = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            b.device = argv[++i];
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            b.dir = argv[++i];
        else
            argv[++words] = argv[i];
    }
    int ordinal = strncmp(b.device, "cuda:", 5) ? 0 : atoi(b.device + 5);
    if (strcmp(b.device, "cpu") && !driver_open(&b.driver, ordinal)) {
        fprintf(stderr, "no CUDA device; --device cpu runs on the CPU\n");
        return 2;
    }
    if (netc_context_create(NULL, &b.ctx, &err) != NETC_OK) {
        fprintf(stderr, "%s\n", netc_error_text(err));
        return 2;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        bool wanted = !words;
        for (int k = 1; k <= words; k++) wanted |= strstr(c->name, argv[k]) != NULL;
        // Two listed sizes of a kernel have the same unlisted ones.
        size_t name = (size_t)(strrchr(c->name, ' ') - c->name) + 1;
        bool again = i && !strncmp(c->name, cases[i - 1].name, name);
        if (wanted && !all_else)
            failed += !run_case(&b, c, c->name, b.small ? c->small : c->size, "");
        else if (wanted && !again)
            failed += run_unlisted(&b, c);
    }
    netc_context_free(b.ctx);
    return failed ? 1 : 0;
}
