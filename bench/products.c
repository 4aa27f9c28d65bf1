// Times generated products of 16-bit matrices beside the matmul library's best algorithm, in one
// process and by turns: gradients of weights, dw = transpose(dy) x.
//
//     products [--device cuda:0] [--rounds 5] [--type bf16] [--schedule 'tile ...']...
//     [ROWSxWIDExWIDTH...]
//
// A row for each product: the library (the fastest of the algorithms that netc measures), the cost
// model's schedule, and every --schedule (as tuning files have them) that the kernel can have. What
// a kernel computes is compared with the library's result; "WRONG" where it differs by more than
// rounding. Microseconds of an execution: the medians of rounds in which all take their turn, from
// the wall times of n + 1 executions and of one.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netc.h>

#include "driver.h"

enum { MOST = 48, MOST_ROUNDS = 32 };

static float widen(bool half, unsigned short v)
{
    unsigned bits = (unsigned)v << 16;
    float f;
    if (half) { // no subnormals, infinities: results here have none
        int e = v >> 10 & 31;
        f = ldexpf((float)((v & 1023) + (e ? 1024 : 0)), (e ? e : 1) - 25);
        return v >> 15 ? -f : f;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

typedef struct Candidate {
    const char *schedule; // "library", "cost model", or one
    netc_program *program;
    netc_session *session;
    double each[MOST_ROUNDS];
    int times; // executions of a round
    double error;
} Candidate;

typedef struct Bench {
    netc_context *ctx;
    Driver driver;
    const char *device, *type;
    int rounds;
    const char *schedule[MOST];
    int nschedules;
    char name[128]; // the device's, as tuning files have it
    unsigned long long at[2];
    char folder[64];
} Bench;

static const char source[] = "const rows = 1\nconst wide = 1\nconst width = 1\n"
                             "model dw(x: %s[rows, wide], dy: %s[rows, width]) { return dw = "
                             "matmul(transpose(dy), x) }\n";

static bool compile(Bench *b, const long *size, bool library, const char *tune, Candidate *c,
                    netc_error **err)
{
    static const char *const axes[] = {"rows", "wide", "width"};
    char text[512], define[3][64];
    const char *defines[3] = {define[0], define[1], define[2]};
    snprintf(text, sizeof text, source, b->type, b->type);
    for (int i = 0; i < 3; i++) snprintf(define[i], sizeof define[i], "%s=%ld", axes[i], size[i]);
    NETC_INIT(netc_compile_options, o);
    o.defines = defines;
    o.ndefines = 3;
    o.no_matmul_library = !library;
    o.tune_file = tune;
    return netc_compile_text(b->ctx, "dw.net", text, &o, &c->program, err) == NETC_OK;
}

static bool open_session(Bench *b, Candidate *c, netc_error **err)
{
    if (netc_session_create(c->program, b->device, NULL, &c->session, err) != NETC_OK) return false;
    for (int i = 0; i < netc_input_count(c->program, "dw"); i++) {
        netc_port port;
        if (netc_input_info(c->program, "dw", i, &port, err) != NETC_OK) return false;
        netc_tensor t = {.dtype = port.dtype, .rank = port.rank, .on_device = true};
        memcpy(t.dim, port.dim, sizeof t.dim);
        t.data = (void *)(size_t)b->at[strcmp(port.name, "x") != 0];
        if (netc_bind(c->session, "dw", port.name, &t, err) != NETC_OK) return false;
    }
    return true;
}

// A tuning file with the schedule of the program's only kernel. "": it has none.
static const char *tuning(Bench *b, netc_program *p, const char *schedule, int number)
{
    static char path[MOST + 4][128];
    char *text = NULL, name[128], id[64];
    if (netc_program_knobs(p, "cuda", NULL, &text, NULL) != NETC_OK) return "";
    bool found = sscanf(text, "kernel %127s %63[^:]:", name, id) == 2;
    netc_free(text);
    snprintf(path[number], sizeof path[number], "%s/%d.tune", b->folder, number);
    FILE *f = found ? fopen(path[number], "w") : NULL;
    if (!f) return "";
    fprintf(f, "# netc tune 1\nkernel %s %s @ %s: %s\n", name, id, b->name, schedule);
    fclose(f);
    return path[number];
}

static bool timed(Candidate *c, int64_t times, double *seconds, netc_error **err)
{
    double begin = now();
    bool ok =
        netc_run(c->session, "dw", times, err) == NETC_OK && netc_sync(c->session, err) == NETC_OK;
    *seconds = now() - begin;
    return ok;
}

static bool measure(Candidate *c, int round, netc_error **err)
{
    double one, many;
    for (int i = 0; i < 2; i++)
        if (!timed(c, 1, &one, err)) return false;
    if (!c->times) {
        if (!timed(c, 11, &many, err)) return false;
        c->times = (int)fmin(2000, fmax(8, 0.012 / (fmax(many - one, 1e-6) / 10)));
    }
    if (!timed(c, c->times + 1, &many, err) || !timed(c, 1, &one, err)) return false;
    c->each[round] = (many - one) / c->times;
    return true;
}

// The largest difference of elements, by what rounding may do: two steps of bf16, and of elements
// far below the root of the mean square a fiftieth of that.
static double difference(const Bench *b, const unsigned short *x, const unsigned short *y, size_t n)
{
    double most = 0, square = 0;
    bool half = !strcmp(b->type, "f16");
    for (size_t i = 0; i < n; i++) square += widen(half, x[i]) * (double)widen(half, x[i]);
    double small = 0.02 * sqrt(square / (double)n) + 1e-30;
    for (size_t i = 0; i < n; i++) {
        double v = widen(half, x[i]), d = fabs(v - widen(half, y[i])) / (fabs(v) / 64 + small);
        if (!(d <= most)) most = d; // NaN too
    }
    return most;
}

static bool read_result(Candidate *c, const long *size, void *to, netc_error **err)
{
    netc_port port;
    if (netc_output_info(c->program, "dw", 0, &port, err) != NETC_OK) return false;
    netc_tensor t = {.dtype = port.dtype, .rank = 2, .dim = {size[2], size[1]}, .data = to};
    return netc_read(c->session, "dw", "dw", &t, err) == NETC_OK;
}

static bool upload(Bench *b, const long *size)
{
    unsigned s = 12345;
    for (int k = 0; k < 2; k++) {
        size_t n = (size_t)size[0] * (size_t)size[1 + k];
        unsigned short *v = malloc(n * 2);
        for (size_t i = 0; v && i < n; i++) {
            s = s * 1664525u + 1013904223u;
            float f = ((float)(s >> 8) * 0x1p-24f - 0.5f) * 4;
            unsigned bits;
            memcpy(&bits, &f, sizeof bits);
            v[i] = (unsigned short)(bits >> 16);
            if (!strcmp(b->type, "f16"))
                v[i] = (unsigned short)((bits >> 16 & 0x8000) | 0x3000 | (bits >> 13 & 1023));
        }
        bool ok = v && !b->driver.alloc(&b->at[k], n * 2) && !b->driver.upload(b->at[k], v, n * 2);
        free(v);
        if (!ok) return fprintf(stderr, "no device memory\n"), false;
    }
    return true;
}

static double median(Candidate *c, int rounds)
{
    qsort(c->each, (size_t)rounds, sizeof *c->each, by_value);
    return c->each[rounds / 2] * 1e6;
}

static bool run(Bench *b, const long *size)
{
    Candidate all[MOST + 2] = {{.schedule = "library"}, {.schedule = "cost model"}};
    int n = 2;
    netc_error *err = NULL;
    bool ok = upload(b, size) && compile(b, size, false, "", &all[1], &err) &&
              open_session(b, &all[1], &err);
    if (ok && !*b->name) {
        const char *name = strchr(netc_session_device(all[1].session), ' ');
        snprintf(b->name, sizeof b->name, "%s", name ? name + 1 : "");
    }
    // (without the generated kernel that the library would be measured against)
    ok = ok &&
         compile(b, size, true, tuning(b, all[1].program, "tile wgmma=no", MOST), &all[0], &err) &&
         open_session(b, &all[0], &err);
    for (int i = 0; ok && i < b->nschedules; i++) {
        Candidate *c = &all[n];
        *c = (Candidate){.schedule = b->schedule[i]};
        const char *tune = tuning(b, all[1].program, b->schedule[i], i);
        if (compile(b, size, false, tune, c, &err) && open_session(b, c, &err)) {
            n++;
            continue;
        }
        fprintf(stderr, "%s: %s\n", b->schedule[i], err ? netc_error_text(err) : "failed");
        netc_error_free(err);
        err = NULL;
    }
    for (int r = 0; ok && r < b->rounds; r++)
        for (int i = 0; ok && i < n; i++) ok = measure(&all[i], r, &err);
    size_t elements = (size_t)size[1] * (size_t)size[2];
    unsigned short *right = malloc(elements * 2), *mine = malloc(elements * 2);
    ok = ok && right && mine && read_result(&all[0], size, right, &err);
    double library = ok ? median(&all[0], b->rounds) : 0;
    for (int i = 0; ok && i < n; i++) {
        Candidate *c = &all[i];
        ok = read_result(c, size, mine, &err);
        if (!ok) break;
        double error = difference(b, right, mine, elements),
               us = i ? median(c, b->rounds) : library;
        char *knobs = NULL;
        const char *line =
            i && netc_program_knobs(c->program, "cuda", NULL, &knobs, NULL) == NETC_OK
                ? strchr(knobs, ':')
                : NULL;
        printf("%ldx%ldx%ld | %s |%.*s | %.2f us | %.0f TFLOP/s | %.3f%s\n", size[0], size[1],
               size[2], c->schedule, line ? (int)strcspn(line + 1, "\n") : 0, line ? line + 1 : "",
               us, 2e-6 * (double)size[0] * (double)size[1] * (double)size[2] / us, library / us,
               error <= 1 ? "" : " WRONG");
        netc_free(knobs);
    }
    fflush(stdout);
    if (!ok) fprintf(stderr, "%s\n", err ? netc_error_text(err) : "failed");
    netc_error_free(err);
    for (int i = 0; i < n; i++) {
        netc_session_free(all[i].session);
        netc_program_release(all[i].program);
    }
    for (int k = 0; k < 2; k++) b->driver.free(b->at[k]);
    free(right);
    free(mine);
    return ok;
}

int main(int argc, char **argv)
{
    static const char *const listed[] = {
        "32768x768x768",  "32768x768x2304", "32768x768x3072", "32768x3072x768",
        "8192x768x2304",  "8192x2048x2048", "4096x768x768",   "4096x768x3072",
        "4096x1024x4096", "2048x1024x1024", "2048x2048x2048",
    };
    enum { LISTED = sizeof listed / sizeof *listed };
    Bench b = {.device = "cuda:0", .type = "bf16", .rounds = 5, .folder = "/tmp/productsXXXXXX"};
    const char *shape[MOST];
    int n = 0, failed = 0;
    netc_error *err = NULL;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--device") && more)
            b.device = argv[++i];
        else if (!strcmp(argv[i], "--type") && more)
            b.type = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && more)
            b.rounds = (int)fmin(MOST_ROUNDS, fmax(1, atoi(argv[++i])));
        else if (!strcmp(argv[i], "--schedule") && more && b.nschedules < MOST)
            b.schedule[b.nschedules++] = argv[++i];
        else if (n < MOST)
            shape[n++] = argv[i];
    }
    if (!driver_open(&b.driver, 0) || !mkdtemp(b.folder))
        return fprintf(stderr, "no CUDA device\n"), 2;
    if (netc_context_create(NULL, &b.ctx, &err) != NETC_OK)
        return fprintf(stderr, "%s\n", netc_error_text(err)), 2;
    printf("rows x wide x width | asked for | schedule | time | rate | times as fast as the "
           "library\n");
    for (int i = 0; i < (n ? n : LISTED); i++) {
        long size[3];
        bool read = sscanf(n ? shape[i] : listed[i], "%ldx%ldx%ld", size, size + 1, size + 2) == 3;
        failed += !read || !run(&b, size);
    }
    netc_context_free(b.ctx);
    return failed ? 1 : 0;
}
