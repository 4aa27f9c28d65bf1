// netc bench: what a model costs, as lines that can be stored and compared.
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"

typedef struct BenchArgs {
    Common common;
    Timing timing;
    StringList entries;
    const char *device, *out;
    int64_t compiles;
    double least;
    bool json, compare;
    char *command; // as typed
} BenchArgs;

typedef struct Bench {
    const BenchArgs *a;
    FILE *file; // of -o, or NULL
    const char *model, *device;
    char hardware[160], driver[160];
    netc_error **err;
} Bench;

// -- a line ---------------------------------------------------------------------------------------
enum { MOST_COMPILES = 64 };

typedef struct Row {
    const char *entry, *what, *unit; // entry "": of the whole model
    double value, low, high, deviation;
    int64_t n, steps; // measurements, and executions in each; n 0: no spread
} Row;

static void write_row(const Bench *b, const Row *r, Arena *arena, Buf *out)
{
    char date[32];
    time_t t = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &utc));
    const char *p = b->a->common.precision;
    Json j = json_writer(out);
    json_object(&j);
    json_key(&j, "date"), json_string(&j, date);
    json_key(&j, "hardware"), json_string(&j, b->hardware);
    json_key(&j, "driver"), json_string(&j, b->driver);
    json_key(&j, "netc"), json_string(&j, netc_version());
    json_key(&j, "command"), json_string(&j, b->a->command);
    json_key(&j, "device"), json_string(&j, b->device);
    json_key(&j, "precision"), json_string(&j, p ? p : "f32");
    json_key(&j, "what");
    Buf what = buf_new(arena);
    buf_str(&what, b->model);
    for (int i = 0; i < b->a->common.defines.n; i++)
        buf_printf(&what, " %s", b->a->common.defines.at[i]);
    buf_printf(&what, "%s%s: %s", *r->entry ? " " : "", r->entry, r->what);
    json_string(&j, what.data);
    json_key(&j, "value"), json_double(&j, r->value);
    json_key(&j, "unit"), json_string(&j, r->unit);
    if (r->n) {
        json_key(&j, "low"), json_double(&j, r->low);
        json_key(&j, "high"), json_double(&j, r->high);
        json_key(&j, "deviation"), json_double(&j, r->deviation);
        json_key(&j, "repeats"), json_int(&j, r->n);
        json_key(&j, "steps"), json_int(&j, r->steps);
    }
    json_end(&j);
    buf_char(out, '\n');
}

// Prints a measurement and appends it to the file.
static netc_status record(const Bench *b, const Row *r)
{
    Arena *a = arena_new();
    jmp_buf oom;
    bool ok = true;
    if (!a || setjmp(oom)) {
        arena_free(a);
        return NETC_OUT_OF_MEMORY;
    }
    arena_on_oom(a, &oom);
    Buf line = buf_new(a);
    write_row(b, r, a, &line);
    if (b->file) ok = fputs(line.data, b->file) >= 0 && !fflush(b->file);
    int why = errno;
    if (b->a->json) {
        fputs(line.data, stdout);
    } else {
        printf("%-10s %-18s %14.6g %-8s", *r->entry ? r->entry : b->model, r->what, r->value,
               r->unit);
        if (r->n) printf(" quartiles %.6g to %.6g of %lld", r->low, r->high, (long long)r->n);
        putchar('\n');
    }
    fflush(stdout);
    arena_free(a);
    errno = why;
    if (!ok) fail_to_write(b->a->out);
    return ok ? NETC_OK : NETC_ENVIRONMENT;
}

// -- what is measured -----------------------------------------------------------------------------
static netc_status bench_entry(const Bench *b, netc_session *s, const char *entry,
                               netc_dataset *data)
{
    NETC_INIT(netc_time_options, o);
    time_options(&b->a->timing, &o);
    o.data = data;
    netc_times t;
    netc_memory m;
    netc_status status = netc_time(s, entry, &o, &t, b->err);
    if (status == NETC_OK) status = netc_session_memory(s, entry, &m, b->err);
    if (status != NETC_OK) return status;
    Row step = {
        entry,     "step", "us", t.median * 1e6, t.low * 1e6, t.high * 1e6, t.deviation * 1e6,
        t.repeats, t.steps};
    status = record(b, &step);
    if (status == NETC_OK && t.items && t.low > 0) {
        double n = (double)t.items;
        Row items = {entry,
                     "items",
                     "items/s",
                     n / t.median,
                     n / t.high,
                     n / t.low,
                     n / t.median * t.deviation / t.median,
                     t.repeats,
                     t.steps};
        status = record(b, &items);
    }
    if (status == NETC_OK && t.graph) {
        Row nodes = {entry, "graph kernels", "", t.graph_kernels, 0, 0, 0, 0, 0};
        status = record(b, &nodes);
    }
    const struct {
        const char *what;
        int64_t bytes;
    } memory[] = {
        {"parameters", m.parameters}, {"states", m.states}, {"temporaries", m.temporaries}};
    for (size_t i = 0; i < sizeof memory / sizeof *memory && status == NETC_OK; i++) {
        Row row = {entry, memory[i].what, "bytes", (double)memory[i].bytes, 0, 0, 0, 0, 0};
        status = record(b, &row);
    }
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Row spread(const char *what, double *v, int n)
{
    Row r = {"", what, "s", 0, 0, 0, 0, n, 1};
    qsort(v, (size_t)n, sizeof *v, by_value);
    r.value = v[n / 2], r.low = v[n / 4], r.high = v[(3 * n) / 4 < n ? (3 * n) / 4 : n - 1];
    for (int i = 0; i < n; i++) v[i] = fabs(v[i] - r.value);
    qsort(v, (size_t)n, sizeof *v, by_value);
    r.deviation = v[n / 2];
    return r;
}

// Compiles from text to loaded kernels, with the cache in [dir]. As in `netc train`, the device is
// known before the text is compiled, so there is one program, for that device.
static netc_status compile_once(const Bench *b, const char *dir, netc_dataset *data,
                                double *seconds, netc_phases *phases)
{
    Common c = b->a->common;
    netc_context *ctx = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    c.cache_dir = dir;
    c.quiet = true;
    netc_status status = open_context(&c, &ctx, b->err);
    double begin = clock_now();
    if (status == NETC_OK) netc_context_prepare(ctx, b->a->device);
    if (status == NETC_OK)
        status = open_program(&c, ctx, device_target(b->a->device), device_count(b->a->device),
                              &b->a->entries, data, NULL, &p, b->err);
    if (status == NETC_OK) status = netc_session_create(p, b->a->device, NULL, &s, b->err);
    *seconds = clock_now() - begin;
    *phases = (netc_phases){.size = sizeof *phases};
    if (ctx) netc_context_phases(ctx, phases);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(ctx);
    return status;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_cache(const char *dir)
{
    enum { OPEN_FOLDERS = 16 };
    if (nftw(dir, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS))
        fail("cannot remove %s: %s", dir, strerror(errno));
}

// Records the phases of cold compilations, which may overlap.
static netc_status record_phases(const Bench *b, const netc_phases *cold, int n)
{
    static const struct {
        const char *what;
        size_t at;
    } phases[] = {{"cold: text", offsetof(netc_phases, text)},
                  {"cold: compiler", offsetof(netc_phases, compile)},
                  {"cold: compiler cpu", offsetof(netc_phases, compile_cpu)},
                  {"cold: library", offsetof(netc_phases, library)},
                  {"cold: load", offsetof(netc_phases, load)},
                  {"cold: search", offsetof(netc_phases, search)},
                  {"cold: choose", offsetof(netc_phases, choose)}};
    netc_status status = NETC_OK;
    for (size_t k = 0; k < sizeof phases / sizeof *phases && status == NETC_OK; k++) {
        double v[MOST_COMPILES];
        bool any = false;
        for (int i = 0; i < n; i++) {
            memcpy(&v[i], (const char *)&cold[i] + phases[k].at, sizeof *v);
            any |= v[i] > 0;
        }
        Row r = spread(phases[k].what, v, n);
        if (any) status = record(b, &r);
    }
    return status;
}

// Measures compilation. The device stays open, since opening it is not part of compiling.
static netc_status bench_compile(const Bench *b, netc_dataset *data)
{
    double cold[MOST_COMPILES], warm[MOST_COMPILES];
    netc_phases phases[MOST_COMPILES], ignored;
    int n = (int)b->a->compiles;
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    netc_status status = NETC_OK;
    for (int i = 0; i < n && status == NETC_OK; i++) {
        char *dir = NULL;
        if (asprintf(&dir, "%s/netc-bench-XXXXXX", tmp) < 0) return NETC_OUT_OF_MEMORY;
        if (mkdtemp(dir)) {
            status = compile_once(b, dir, data, &cold[i], &phases[i]);
            if (status == NETC_OK) status = compile_once(b, dir, data, &warm[i], &ignored);
            remove_cache(dir);
        } else {
            fail("cannot make a folder in %s: %s", tmp, strerror(errno));
            status = NETC_ENVIRONMENT;
        }
        free(dir);
    }
    if (status != NETC_OK || !n) return status;
    Row c = spread("compile, cold", cold, n), w = spread("compile, warm", warm, n);
    status = record(b, &c);
    if (status == NETC_OK) status = record_phases(b, phases, n);
    return status == NETC_OK ? record(b, &w) : status;
}

// -- where ----------------------------------------------------------------------------------------
static void find_driver(void *user, const char *what, bool ok, const char *detail)
{
    Bench *b = user;
    if (ok && !strcmp(what, "NVIDIA driver")) snprintf(b->driver, sizeof b->driver, "%s", detail);
}

static void describe(Bench *b, netc_context *ctx, const netc_session *s)
{
    const char *text = netc_session_device(s), *space = strchr(text, ' ');
    bool cpu = !strncmp(text, "cpu", 3);
    b->device = text;
    snprintf(b->driver, sizeof b->driver, "none");
    snprintf(b->hardware, sizeof b->hardware, "%s", space ? space + 1 : text);
    if (!cpu) {
        netc_doctor(ctx, find_driver, b);
        return;
    }
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "model name", 10) || !strchr(line, ':')) continue;
        snprintf(b->hardware, sizeof b->hardware, "%.*s, %s",
                 (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2,
                 space ? space + 1 : text);
        break;
    }
    if (f) fclose(f);
}

static bool wanted(const BenchArgs *a, const char *entry)
{
    for (int i = 0; i < a->entries.n; i++)
        if (!strcmp(a->entries.at[i], entry)) return true;
    return !a->entries.n && strcmp(entry, "init");
}

static netc_status run(BenchArgs *a, netc_context *ctx, netc_error **err)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_dataset *d = NULL;
    const char *slash = strrchr(a->common.words.at[0], '/');
    Bench b = {.a = a, .model = slash ? slash + 1 : a->common.words.at[0], .err = err};
    if (a->out) {
        b.file = fopen(a->out, "a");
        if (!b.file) return fail_to_write(a->out), NETC_ENVIRONMENT;
    }
    netc_status status = open_data(ctx, &a->timing.data, NULL, &d, err);
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, NULL, device_count(a->device), &a->entries, d, NULL,
                              &p, err);
    if (status == NETC_OK) status = netc_session_create(p, a->device, NULL, &s, err);
    if (status == NETC_OK) {
        describe(&b, ctx, s);
        if (!a->json) printf("%s on %s, %s\n", b.model, b.device, b.hardware);
    }
    // The first question about an entry reports that it does not exist.
    netc_times ignored;
    for (int k = 0; status == NETC_OK && k < a->entries.n; k++)
        if (netc_input_count(p, a->entries.at[k]) < 0)
            status = netc_time(s, a->entries.at[k], NULL, &ignored, err);
    for (int i = 0; status == NETC_OK && i < netc_entry_count(p); i++)
        if (wanted(a, netc_entry_name(p, i))) status = bench_entry(&b, s, netc_entry_name(p, i), d);
    if (status == NETC_OK) status = bench_compile(&b, d);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(d);
    if (b.file && fclose(b.file) && status == NETC_OK)
        status = (fail_to_write(a->out), NETC_ENVIRONMENT);
    return status;
}

// The words of the command line in one string, for the lines of the file.
static char *join(int argc, char **argv)
{
    size_t n = sizeof "netc bench";
    for (int i = 0; i < argc; i++) n += strlen(argv[i]) + 1;
    char *out = malloc(n), *at = out;
    if (!out) return NULL;
    at = stpcpy(at, "netc bench");
    for (int i = 0; i < argc; i++) *at++ = ' ', at = stpcpy(at, argv[i]);
    return out;
}

int verb_bench(int argc, char **argv)
{
    BenchArgs a = {.timing = timing_default(), .compiles = 3, .least = 0.02};
    const Option options[] = {
        {"--output", "-o", OPT_OUTPUT, &a.out, "FILE.jsonl", "add the results to this file"},
        {"--compare", NULL, OPT_FLAG, &a.compare, NULL,
         "compare two files of results; exit 3 when the second is worse"},
        device_option(&a.device),
        {"--entry", "-e", OPT_LIST, &a.entries, "NAME", "only this entry; default: all but init"},
        data_option(&a.timing.data),
        steps_option(&a.timing),
        repeats_option(&a.timing),
        seed_option(&a.timing.seed, "random seed of made-up data (default 0)"),
        {"--compiles", NULL, OPT_INT, &a.compiles, "N",
         "number of compilations, cold and warm (default 3; 0: none)"},
        {"--least", NULL, OPT_REAL, &a.least, "SHARE",
         "with --compare: ignore smaller differences (default 0.02)"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print JSON lines"},
    };
    int code = 0;
    if (!read_command("bench", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    netc_error *err = NULL;
    if (a.compare != (a.common.words.n == 2)) {
        code = fail("give one model, or two files of results with --compare");
    } else if (a.compare) {
        code = a.least >= 0
                   ? compare_results(a.common.words.at[0], a.common.words.at[1], a.least, a.json)
                   : fail("--least needs a share from 0 up, as 0.02");
    } else if (a.compiles < 0 || a.compiles > MOST_COMPILES) {
        code = fail("--compiles needs a number from 0 to 64");
    } else if (output_of_objects(a.out, "file of results", &code)) {
        netc_context *ctx = NULL;
        a.command = join(argc, argv);
        netc_status status = a.command ? open_context(&a.common, &ctx, &err) : NETC_OUT_OF_MEMORY;
        if (status == NETC_OK) status = run(&a, ctx, &err);
        netc_context_free(ctx);
        free(a.command);
        code = exit_code(status, err);
    }
    free_command(OPTIONS(options), &a.common);
    return code;
}
