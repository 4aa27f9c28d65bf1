// Random programs against the evaluator. Usage: see usage() below.
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fuzz/programs/jobs.h"

static const char usage_text[] =
    "usage: fuzz-programs [options]\n"
    "  --count N       programs (default 1000)\n"
    "  --first N       number of the first one (default 0): a program is a function of seed and "
    "number\n"
    "  --seed S        default 1\n"
    "  --device D      cpu (default), cuda:0; noise: nothing is compiled, the evaluator is tried "
    "against "
    "its own\n                  bound\n"
    "  --minutes M     stop after so long\n"
    "  --jobs N        processes at a time (default: cores)\n"
    "  --batch N       programs in a file (default 16, at most 64)\n"
    "  --size S        tiny, small, rows, large, mix (default: no large), production (more of the "
    "large)\n"
    "  --variant V     one way to compile; default: all in turn, the default one most often\n"
    "  --out DIR       where failures are written (default build/programs)\n"
    "  --no-shrink     leave failures as they are\n"
    "  --print N       print programs N and so on, --count of them, and stop\n"
    "  --file FILE     try this file, with models m0, m1, ..., in this process\n"
    "exits with 0, 1 (a program failed) or 2 (none was tried: bad options, an unusable device)\n";

const Variant variants[] = {
    {"default", NULL, "f32", false, false, 0},
    {"unfused", "*", "f32", false, true, 0},
    {"no-invariants", "invariants", "f32", false, false, 0},
    {"no-loop_sums", "loop_sums", "f32", false, false, 0},
    {"no-vectorize", "vectorize", "f32", false, false, 0},
    {"no-simplify", "simplify", "f32", false, false, 0},
    {"no-variance", "variance", "f32", false, false, 0},
    {"no-contract", "contract", "f32", false, false, 0},
    {"no-recompute", "recompute", "f32", false, false, 0},
    {"no-fuse", "fuse", "f32", false, false, 0},
    {"no-library", NULL, "f32", true, false, 0},
    {"no-reuse", NULL, "f32", false, true, 0},
    {"low-memory", NULL, "f32", false, false, 4096},
    {"tf32", NULL, "tf32", false, false, 0},
    {"bf16", NULL, "bf16", false, false, 0},
    {"f16", NULL, "f16", false, false, 0},
    {"bf16-no-contract", "contract", "bf16", false, false, 0},
    {"bf16-no-loop_casts", "loop_casts", "bf16", false, false, 0},
    {"bf16-no-approx", "approx", "bf16", false, false, 0}, // (a GPU's; in f32 little is short)
    {"f16-no-approx", "approx", "f16", false, false, 0},
    {"bf16-no-library", NULL, "bf16", true, false, 0},
};
const int variant_count = sizeof variants / sizeof *variants;

typedef struct Slot {
    pid_t pid; // 0: free
    Report *report;
    int first, n, variant; // programs [first, first + n)
    enum { BATCH, SINGLE, SHRINK } what;
    double deadline;
    bool hung;
} Slot;

typedef struct Fuzz {
    Options o;
    int64_t count, first, next; // next: program not yet begun
    double end;
    int jobs, size, variant; // -1: all
    bool production;         // of all sizes, more of the large
    bool shrink;
    int *alone, nalone, alone_cap; // programs to be tried on their own
    int64_t done, by_state[STATES];
    int64_t ops[OP_COUNT], compared, undecided;
    int shrunk;
    Slot *slots;
} Fuzz;

static const char *const size_names[] = {"tiny", "small", "rows", "large"};

// -- what program a number stands for -------------------------------------------------------------

static Random of_number(const Fuzz *f, int64_t number, uint64_t salt)
{
    Random r = {f->o.seed * 0x9e3779b97f4a7c15u ^ ((uint64_t)number * 0xd1b54a32d192ed03u + salt)};
    random_next(&r);
    return r;
}

static enum SizeClass size_of(const Fuzz *f, int64_t number)
{
    if (f->size >= 0) return (enum SizeClass)f->size;
    Random r = of_number(f, number / f->o.batch, 1);
    int dice = random_below(&r, 100);
    if (f->production)
        return dice < 40 ? SIZE_TINY : dice < 70 ? SIZE_SMALL : dice < 88 ? SIZE_ROWS : SIZE_LARGE;
    return dice < 70 ? SIZE_TINY : dice < 97 ? SIZE_SMALL : SIZE_ROWS;
}

static int variant_of(const Fuzz *f, int64_t number)
{
    if (f->variant >= 0) return f->variant;
    Random r = of_number(f, number / f->o.batch, 2);
    return random_chance(&r, 40) ? 0 : random_below(&r, variant_count);
}

// Every fourth file brings a network to train; its number is that of the file, as a negative one.
static bool trains(const Fuzz *f, int64_t number)
{
    Random r = of_number(f, number / f->o.batch, 4);
    return number % f->o.batch == 0 && size_of(f, number) <= SIZE_SMALL && random_chance(&r, 25);
}

static char *training_of(Arena *a, const Fuzz *f, int64_t number)
{
    Buf b = buf_new(a);
    Random r = of_number(f, number, 5);
    training_print(random_next(&r), side_devices(f->o.device), &b);
    return b.data;
}

static Draft draft_of(const Fuzz *f, int64_t number)
{
    Random r = of_number(f, number, 3);
    return draft_make(random_next(&r), size_of(f, number), (int)(number % f->o.batch));
}

static Draft *drafts_of(Arena *a, const Fuzz *f, int64_t first, int n)
{
    Draft *d = NEW_ARRAY(a, Draft, n);
    for (int i = 0; i < n; i++) d[i] = draft_of(f, first + i);
    return d;
}

// -- failures -------------------------------------------------------------------------------------

static void write_file(Fuzz *f, int64_t number, const Variant *v, const Outcome *o,
                       const char *text)
{
    Arena *a = arena_new();
    char *path = arena_printf(a, "%s/%s-%llu-%lld.net", f->o.folder, state_names[o->state],
                              (unsigned long long)f->o.seed, (long long)number);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(
            file,
            "# %s: %s\n# program %lld, variant %s\n# reproduce: build/fuzz-programs --file THIS "
            "--device %s --variant %s --seed %llu\n%s",
            state_names[o->state], o->why, (long long)number, v->name, f->o.device, v->name,
            (unsigned long long)f->o.seed, text);
        fclose(file);
    }
    printf("%s: program %lld (%s): %s\n", path, (long long)number, v->name, o->why);
    fflush(stdout);
    arena_free(a);
}

static void write_failure(Fuzz *f, int64_t number, const Draft *d, const Outcome *o)
{
    Arena *a = arena_new();
    write_file(f, number, &variants[variant_of(f, number)], o, file_of(a, d, 1));
    arena_free(a);
}

static void write_training(Fuzz *f, int64_t number, const Outcome *o)
{
    Arena *a = arena_new();
    write_file(f, number, &variants[variant_of(f, -number)], o, training_of(a, f, number));
    arena_free(a);
}

// In a child of its own: shrinks and writes.
static void shrink_child(Fuzz *f, int64_t number, Outcome o)
{
    setpgid(0, 0);
    Report *r = report_new();
    Draft d = draft_of(f, number);
    if (r) d = draft_shrink(&f->o, &variants[variant_of(f, number)], &d, &o, r);
    write_failure(f, number, &d, &o);
    _exit(0);
}

// -- slots ----------------------------------------------------------------------------------------

static void begin(Fuzz *f, Slot *s, int64_t first, int n, int what)
{
    Arena *a = arena_new();
    s->first = (int)first;
    s->n = n;
    s->what = what;
    s->hung = false;
    s->variant = variant_of(f, first < 0 ? -first : first);
    s->deadline = clock_now() + f->o.limit;
    Draft *d = first < 0 ? NULL : drafts_of(a, f, first, n);
    const char *text = d ? file_of(a, d, n) : training_of(a, f, first);
    s->pid =
        job_start(&f->o, &variants[s->variant], text, d ? wide_file_of(a, d, n) : NULL, s->report);
    if (s->pid < 0) perror("fork"), exit(2);
    arena_free(a);
}

static void later_alone(Fuzz *f, int number)
{
    if (f->nalone == f->alone_cap)
        f->alone = realloc(f->alone, (size_t)(f->alone_cap = 2 * f->alone_cap + 64) * sizeof(int));
    f->alone[f->nalone++] = number;
}

static void begin_shrink(Fuzz *f, Slot *s, const Outcome *o)
{
    Outcome copy = *o;
    f->shrunk++;
    s->what = SHRINK;
    s->deadline = clock_now() + 200;
    fflush(NULL);
    s->pid = fork();
    if (!s->pid) shrink_child(f, s->first, copy);
}

static void count(Fuzz *f, enum State state)
{
    f->by_state[state]++;
    f->done++;
}

static void single_ended(Fuzz *f, Slot *s)
{
    Outcome o = s->report->out[s->first < 0 ? 0 : s->first % f->o.batch];
    count(f, o.state);
    if (o.state == FINE) return;
    if (s->first < 0) {
        write_training(f, s->first, &o);
        return;
    }
    if (f->shrink && f->shrunk < 60) {
        begin_shrink(f, s, &o);
        return;
    }
    Draft d = draft_of(f, s->first);
    write_failure(f, s->first, &d, &o);
}

static void ended(Fuzz *f, Slot *s, int status)
{
    Report *r = s->report;
    s->pid = 0;
    if (s->what == SHRINK) return;
    job_ended(r, status, s->hung, MOST_BATCH);
    for (int i = 0; i < OP_COUNT; i++) f->ops[i] += r->ops[i];
    f->compared += r->compared;
    f->undecided += r->undecided;
    if (s->what == SINGLE) {
        single_ended(f, s);
        return;
    }
    for (int i = 0; i < s->n; i++) {
        enum State state = r->out[(s->first + i) % f->o.batch].state;
        if (state == FINE)
            count(f, state);
        else
            later_alone(f, s->first + i);
    }
}

static bool feed(Fuzz *f, Slot *s)
{
    if (f->nalone) {
        begin(f, s, f->alone[--f->nalone], 1, SINGLE);
        return true;
    }
    if (f->next >= f->first + f->count || (f->end > 0 && clock_now() > f->end)) return false;
    int together = size_of(f, f->next) < SIZE_ROWS || f->o.batch < 4 ? f->o.batch : 4;
    int n = together - (int)(f->next % together);
    if (f->next + n > f->first + f->count) n = (int)(f->first + f->count - f->next);
    begin(f, s, f->next, n, BATCH);
    if (f->next && trains(f, f->next)) later_alone(f, (int)-f->next);
    f->next += n;
    return true;
}

static void run(Fuzz *f)
{
    double told = clock_now(), started = told;
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < f->jobs; i++) {
            Slot *s = &f->slots[i];
            int status = 0;
            if (s->pid && waitpid(s->pid, &status, WNOHANG) == s->pid) ended(f, s, status);
            if (!s->pid) feed(f, s);
            busy |= s->pid != 0;
            if (s->pid && !s->hung && clock_now() > s->deadline) {
                s->hung = true;
                job_kill(s->pid);
            }
        }
        if (clock_now() > told + 30) {
            told = clock_now();
            printf("... %lld programs in %.0f s\n", (long long)f->done, told - started);
            fflush(stdout);
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

// Whether the device runs anything at all. If not, each program would count as a failure.
static bool usable(const Fuzz *f)
{
    static const char text[] = "model m0(x: f32[4]) { return y = x + 1 }\n";
    Report *r = report_new();
    Outcome o = {FAILED, "out of memory"};
    if (r) o = job_try(&f->o, &variants[0], text, NULL, 0, r);
    if (o.state == FINE) return true;
    fprintf(stderr, "fuzz-programs: %s cannot run 'x + 1': %s\n", f->o.device, o.why);
    return false;
}

// -- the command line -----------------------------------------------------------------------------

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int find_name(const char *what, const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return i;
    fprintf(stderr, "there is no %s '%s'; there are:", what, name);
    for (int i = 0; i < n; i++) fprintf(stderr, " %s", names[i]);
    fputc('\n', stderr);
    exit(2);
}

static int find_variant(const char *name)
{
    const char *names[64];
    for (int i = 0; i < variant_count; i++) names[i] = variants[i].name;
    return find_name("variant", name, names, variant_count);
}

static int try_file(const Fuzz *f, Arena *a, const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    Report *r = NEW(a, Report);
    if (!file) return perror(path), 2;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    int bad = 0;
    job_here(&f->o, &variants[f->variant < 0 ? 0 : f->variant], text, NULL, r);
    for (int i = 0; i < MOST_BATCH; i++) {
        char head[32];
        snprintf(head, sizeof head, "model m%d(", i);
        if (!strstr(text, head) && (i || !strstr(text, "model t("))) continue;
        printf("m%d: %s %s\n", i, state_names[r->out[i].state], r->out[i].why);
        bad |= r->out[i].state != FINE;
    }
    return bad;
}

static void summary(const Fuzz *f, double seconds)
{
    printf("%.0f s, %.2f programs a second, %lld elements compared, %lld not decided\n", seconds,
           (double)f->done / seconds, (long long)f->compared, (long long)f->undecided);
    printf("ops that no program had:");
    for (int i = 0; i < OP_COUNT; i++)
        if (!f->ops[i]) printf(" %s", op_info((Op)i)->name);
    printf("\n%lld programs, %lld wrong, %lld crashed, %lld hung, %lld failed, %lld refused\n",
           (long long)f->done, (long long)f->by_state[WRONG], (long long)f->by_state[CRASHED],
           (long long)f->by_state[HUNG], (long long)f->by_state[FAILED],
           (long long)f->by_state[REFUSED]);
}

enum {
    COUNT = 1,
    FIRST,
    SEED,
    DEVICE,
    MINUTES,
    JOBS,
    BATCHES,
    SIZE,
    VARIANT,
    OUT,
    NO_SHRINK,
    PRINT,
    FROM_FILE,
    HELP
};
static const struct option long_options[] = {
    {"count", 1, NULL, COUNT},    {"first", 1, NULL, FIRST},         {"seed", 1, NULL, SEED},
    {"device", 1, NULL, DEVICE},  {"minutes", 1, NULL, MINUTES},     {"jobs", 1, NULL, JOBS},
    {"batch", 1, NULL, BATCHES},  {"size", 1, NULL, SIZE},           {"variant", 1, NULL, VARIANT},
    {"out", 1, NULL, OUT},        {"no-shrink", 0, NULL, NO_SHRINK}, {"print", 1, NULL, PRINT},
    {"file", 1, NULL, FROM_FILE}, {"help", 0, NULL, HELP},           {0}};

static void parse(Fuzz *f, int argc, char **argv, const char **file, int64_t *print)
{
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (c) {
        case COUNT: f->count = atoll(optarg); break;
        case FIRST: f->first = atoll(optarg); break;
        case SEED: f->o.seed = strtoull(optarg, NULL, 0); break;
        case DEVICE: f->o.device = optarg; break;
        case MINUTES: f->end = clock_now() + 60 * atof(optarg); break;
        case JOBS: f->jobs = atoi(optarg); break;
        case BATCHES: f->o.batch = atoi(optarg); break;
        case SIZE:
            f->production = !strcmp(optarg, "production");
            f->size = f->production || !strcmp(optarg, "mix")
                          ? -1
                          : find_name("size", optarg, size_names, SIZE_CLASSES);
            break;
        case VARIANT: f->variant = find_variant(optarg); break;
        case OUT: f->o.folder = optarg; break;
        case NO_SHRINK: f->shrink = false; break;
        case PRINT: *print = atoll(optarg); break;
        case FROM_FILE: *file = optarg; break;
        default: fputs(usage_text, c == HELP ? stdout : stderr); exit(c == HELP ? 0 : 2);
        }
    }
    if (f->jobs < 1 || f->jobs > 256) f->jobs = 1;
    if (f->o.batch < 1 || f->o.batch > MOST_BATCH) f->o.batch = 16;
}

int main(int argc, char **argv)
{
    Fuzz f = {
        .o = {.device = "cpu", .folder = "build/programs", .seed = 1, .batch = 16, .limit = 300},
        .count = 1000,
        .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN),
        .size = -1,
        .variant = -1,
        .shrink = true};
    const char *file = NULL;
    int64_t print = -1;
    parse(&f, argc, argv, &file, &print);
    Arena *a = arena_new();
    if (print >= 0) {
        int n = f.count < f.o.batch ? (int)f.count : f.o.batch;
        fputs(file_of(a, drafts_of(a, &f, print, n), n), stdout);
        return 0;
    }
    // The compiler's folders, also those of processes that were ended.
    const char *tmp = getenv("TMPDIR");
    char *temporary = arena_printf(a, "%s/fuzz-programs-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(temporary)) return perror(temporary), 2;
    setenv("TMPDIR", temporary, 1);
    setenv("OMP_NUM_THREADS", "1", 0);
    int code;
    if (file) {
        code = try_file(&f, a, file);
    } else if (!usable(&f)) {
        code = 2;
    } else {
        mkdir(f.o.folder, 0777);
        f.next = f.first;
        f.slots = calloc((size_t)f.jobs, sizeof *f.slots);
        for (int i = 0; i < f.jobs; i++) f.slots[i].report = report_new();
        double begin = clock_now();
        run(&f);
        summary(&f, clock_now() - begin);
        code = f.by_state[FINE] != f.done;
    }
    nftw(temporary, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}
