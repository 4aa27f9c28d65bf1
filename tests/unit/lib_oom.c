// Out of memory, everywhere: the n-th allocation of the library fails, for every n, along a path
// through its whole interface. Whatever call that reaches must succeed all the same or say
// NETC_OUT_OF_MEMORY, leak nothing, and work when it is made again.
//
// The Makefile wraps malloc and its kin in what this is linked from (not inside libc). A
// sample of the allocations is tried; with OOM=all in the environment each one (five minutes), with
// OOM=N the N-th alone, in this process, for a debugger.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/unit/api.h"

// -- allocations ----------------------------------------------------------------------------------
enum { SLOTS = 1 << 17 };
static struct {
    pthread_mutex_t lock;
    long count, fail_at; // of allocations; which fails, 0: none
    bool failed;         // it did
    void *live[SLOTS];   // open addressing; GONE where one was freed
    long nlive;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define GONE ((void *)1)

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void __real_free(void *p);

static size_t slot_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 40) % SLOTS;
}

static void *remember(void *p)
{
    pthread_mutex_lock(&heap.lock);
    size_t i = slot_of(p);
    while (p && heap.live[i] && heap.live[i] != GONE) i = (i + 1) % SLOTS;
    if (p) heap.live[i] = p, heap.nlive++;
    pthread_mutex_unlock(&heap.lock);
    return p;
}

static void forget(const void *p)
{
    pthread_mutex_lock(&heap.lock);
    size_t i = slot_of(p);
    while (p && heap.live[i] && heap.live[i] != p) i = (i + 1) % SLOTS;
    if (p && heap.live[i]) heap.live[i] = GONE, heap.nlive--; // else libc's own
    pthread_mutex_unlock(&heap.lock);
}

static bool refuse(void)
{
    pthread_mutex_lock(&heap.lock);
    bool now = ++heap.count == heap.fail_at;
    heap.failed = heap.failed || now;
    pthread_mutex_unlock(&heap.lock);
    return now;
}

void *__wrap_malloc(size_t n)
{
    return refuse() ? NULL : remember(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : remember(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    if (refuse()) return NULL;
    forget(p);
    return remember(__real_realloc(p, n));
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return refuse() ? NULL : remember(__real_aligned_alloc(align, n));
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    int code = refuse() ? ENOMEM : __real_posix_memalign(out, align, n);
    if (!code) remember(*out);
    return code;
}

char *__wrap_strdup(const char *s)
{
    return refuse() ? NULL : remember(__real_strdup(s));
}

char *__wrap_strndup(const char *s, size_t n)
{
    return refuse() ? NULL : remember(__real_strndup(s, n));
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = refuse() ? -1 : vasprintf(out, fmt, args);
    va_end(args);
    if (n >= 0) remember(*out);
    return n;
}

void __wrap_free(void *p)
{
    forget(p);
    __real_free(p);
}

// -- the path -------------------------------------------------------------------------------------
typedef struct World {
    netc_context *c;
    netc_program *p, *bin;
    netc_session *s, *other;
    netc_dataset *d, *file;
    netc_error *err;
} World;

static const char *cache;
static Points points;

static netc_status make_context(World *w)
{
    NETC_INIT(netc_context_options, o);
    o.cache_dir = cache;
    o.threads = 2;
    return netc_context_create(&o, &w->c, &w->err);
}

static netc_status compile(World *w)
{
    NETC_INIT(netc_compile_options, o);
    const char *const defines[] = {"batch=8"};
    o.defines = defines;
    o.ndefines = 1;
    return netc_compile_text(w->c, "line.net", model, &o, &w->p, &w->err);
}

static netc_status refuse_model(World *w) // an error's text is memory, too
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    netc_status status =
        netc_compile_text(w->c, "bad.net", "model m(x: f32[3]) { return y = z }\n", NULL, &p, &err);
    if (status == NETC_OUT_OF_MEMORY) return w->err = err, status;
    bool told = status == NETC_INVALID && (netc_error_status(err) == NETC_OUT_OF_MEMORY ||
                                           strstr(netc_error_text(err), "'z'"));
    netc_error_free(err);
    netc_program_release(p);
    return told ? NETC_OK : NETC_INTERNAL;
}

static netc_status show(World *w)
{
    static const char *const stages[] = {"ast", "fused", "plan", "c", "dot"};
    netc_status status = NETC_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status == NETC_OK; i++) {
        char *text = NULL;
        status = netc_program_emit(w->p, stages[i], &text, &w->err);
        netc_free(text);
    }
    for (int i = 0; i < 4 && status == NETC_OK; i++) {
        char *text = NULL;
        NETC_INIT(netc_inspect_options, o);
        o.target = "cpu";
        o.why = i == 1, o.params = i == 2, o.json = i == 3;
        status = netc_inspect(w->p, &o, &text, &w->err);
        netc_free(text);
    }
    char *text = NULL;
    if (status == NETC_OK) status = netc_program_knobs(w->p, "cpu", NULL, &text, &w->err);
    netc_free(text);
    text = NULL;
    if (status == NETC_OK) status = netc_format(w->c, "line.net", model, &text, &w->err);
    netc_free(text);
    return status;
}

static netc_status make_session(World *w)
{
    return netc_session_create(w->p, "cpu", NULL, &w->s, &w->err);
}

static netc_status step(netc_session *s, netc_error **err)
{
    float loss;
    netc_tensor x = floats(points.x, 2, 8, 3), t = floats(points.t, 1, 8, 0);
    netc_tensor out = floats(&loss, 0, 0, 0);
    netc_status status = netc_bind(s, "train", "x", &x, err);
    if (status == NETC_OK) status = netc_bind(s, "train", "t", &t, err);
    if (status == NETC_OK) status = netc_run(s, "train", 2, err);
    if (status == NETC_OK) status = netc_sync(s, err);
    return status == NETC_OK ? netc_read(s, "train", "loss", &out, err) : status;
}

static netc_status run_steps(World *w)
{
    return step(w->s, &w->err);
}

static netc_status read_dlpack(World *w)
{
    struct { // as DLPack 0.8 lays it out, up to its deleter
        char tensor[48];
        void *manager;
        void (*deleter)(void *self);
    } *managed = NULL;
    void *out = NULL;
    netc_status status = netc_read_dlpack(w->s, "train", "loss", &out, &w->err);
    managed = out;
    if (managed) managed->deleter(managed);
    return status;
}

static netc_status save_and_load(World *w)
{
    netc_status status = netc_state_save(w->s, file("state.safetensors"), &w->err);
    if (status == NETC_OK) status = netc_state_load(w->s, file("state.safetensors"), NULL, &w->err);
    double rate;
    if (status == NETC_OK) status = netc_set(w->s, "rate", 0.05, &w->err);
    return status == NETC_OK ? netc_get(w->s, "rate", &rate, &w->err) : status;
}

static netc_status adopt(World *w)
{
    netc_status status = netc_session_create(w->p, "cpu", NULL, &w->other, &w->err);
    return status == NETC_OK ? netc_adopt(w->other, w->s, NULL, &w->err) : status;
}

static netc_status write_arrays(World *w)
{
    netc_tensor x = floats(points.x, 2, 40, 3), back = {0};
    netc_status status = netc_array_write(file("x.npy"), &x, &w->err);
    if (status == NETC_OK) status = netc_array_read(file("x.npy"), &back, &w->err);
    netc_free(back.data);
    return status;
}

static netc_status make_data(World *w)
{
    netc_tensor t = floats(points.t, 1, 40, 0);
    netc_status status = netc_dataset_create(w->c, &w->d, &w->err);
    if (status == NETC_OK) status = netc_dataset_add_file(w->d, "x", file("x.npy"), NULL, &w->err);
    return status == NETC_OK ? netc_dataset_add_array(w->d, "t", &t, &w->err) : status;
}

static netc_status train(World *w)
{
    static const char *const watch[] = {"fc.weight"};
    NETC_INIT(netc_train_options, o);
    o.data = w->d;
    o.split = 0.8;
    o.steps = 9;
    o.eval_every = 4;
    o.save_every = 4;
    o.save = file("trained.safetensors");
    o.watch = watch;
    o.nwatch = 1;
    return netc_train(w->s, &o, &w->err);
}

static netc_status evaluate(World *w)
{
    netc_metric *m = NULL;
    int n;
    netc_status status = netc_evaluate(w->s, w->d, &m, &n, &w->err);
    netc_free(m);
    return status;
}

static netc_status resume(World *w)
{
    NETC_INIT(netc_train_options, o);
    o.data = w->d;
    o.steps = 12;
    o.resume = file("trained.safetensors");
    return netc_train(w->other, &o, &w->err);
}

static netc_status measure(World *w)
{
    netc_times times;
    NETC_INIT(netc_time_options, o);
    o.steps = 1;
    o.repeats = 1;
    return netc_time(w->s, "line", &o, &times, &w->err);
}

static netc_status profile(World *w)
{
    netc_profile_result *r = NULL;
    NETC_INIT(netc_time_options, o);
    o.steps = 1;
    o.repeats = 1;
    netc_status status = netc_profile(w->s, "line", &o, &r, &w->err);
    netc_free(r);
    return status;
}

static netc_status write_bin(World *w)
{
    return netc_program_save(w->p, file("line.bin"), "ptx_80", w->s, &w->err);
}

static netc_status run_bin(World *w)
{
    netc_session *s = NULL;
    netc_program *p = NULL;
    netc_status status = netc_compile_file(w->c, file("line.bin"), NULL, &p, &w->err);
    if (status == NETC_OK) status = netc_session_create(p, "cpu", NULL, &s, &w->err);
    if (status == NETC_OK) status = step(s, &w->err);
    netc_session_free(s);
    netc_program_release(p);
    return status;
}

static netc_status check(World *w)
{
    char *report = NULL;
    netc_status status = netc_check(w->p, "cpu", 0, &report, &w->err);
    netc_free(report);
    return status;
}

typedef struct Step {
    const char *name;
    netc_status (*make)(World *w);
} Step;

static const Step whole[] = {
    {"context", make_context},
    {"compile", compile},
    {"wrong model", refuse_model},
    {"emit, inspect", show},
    {"session", make_session},
    {"run", run_steps},
    {"dlpack", read_dlpack},
    {"save, load", save_and_load},
    {"adopt", adopt},
    {"arrays", write_arrays},
    {"data", make_data},
    {"train", train},
    {"evaluate", evaluate},
    {"resume", resume},
    {"measure", measure},
    {"model.bin", write_bin},
    {"run model.bin", run_bin},
    {"check", check},
    {0},
};
// Without a cache, so that kernels are compiled.
static const Step cold[] = {{"context", make_context},
                            {"compile", compile},
                            {"session", make_session},
                            {"run", run_steps},
                            {0}};
// What takes a second by its nature.
static const Step slow[] = {{"context", make_context},
                            {"compile", compile},
                            {"session", make_session},
                            {"profile", profile},
                            {0}};
static const struct {
    const char *name;
    const Step *steps;
    bool cached;
    long sample, all; // about so many allocations are tried; of all, one of so many
} paths[] = {{"all", whole, true, 80, 1},
             {"nothing cached", cold, false, 6, 1},
             {"slow", slow, true, 3, 30}};

// What a step left behind when it failed goes before it is made again.
static void undo(World *w, const Step *s)
{
    if (s->make == adopt) netc_session_free(w->other), w->other = NULL;
    if (s->make == make_data) netc_dataset_free(w->d), w->d = NULL;
    netc_error_free(w->err);
    w->err = NULL;
}

// -- one failure ----------------------------------------------------------------------------------
typedef struct Outcome { // seen by the parent, too
    long at;             // the allocation that fails
    const char *step;    // the one under way
    long allocations;    // of a path where none fails
    char wrong[600];
} Outcome;

// false: o->wrong says what is.
static bool travel(const Step *steps, long fail_at, Outcome *o)
{
    World w = {0};
    long before = heap.nlive;
    heap.count = 0;
    heap.failed = false;
    heap.fail_at = fail_at;
    *o->wrong = 0;
    for (const Step *s = steps; s->name && !*o->wrong; s++) {
        o->step = s->name;
        netc_status status = s->make(&w);
        if (status == NETC_OK) continue;
        if (status != NETC_OUT_OF_MEMORY || !heap.failed ||
            netc_error_status(w.err) != NETC_OUT_OF_MEMORY)
            snprintf(o->wrong, sizeof o->wrong, "%s: status %d, its error's %d: %.400s", s->name,
                     (int)status, (int)netc_error_status(w.err), netc_error_text(w.err));
        undo(&w, s);
        status = *o->wrong ? NETC_OK : s->make(&w);
        if (status != NETC_OK)
            snprintf(o->wrong, sizeof o->wrong, "%s, made again: %.400s", s->name,
                     netc_error_text(w.err));
    }
    netc_dataset_free(w.d);
    netc_session_free(w.other);
    netc_session_free(w.s);
    netc_program_release(w.p);
    netc_context_free(w.c);
    netc_error_free(w.err);
    if (!fail_at) o->allocations = heap.count;
    if (!*o->wrong && heap.nlive != before)
        snprintf(o->wrong, sizeof o->wrong, "%ld allocations are still there at the end",
                 heap.nlive - before);
    return !*o->wrong;
}

// Every [stride]-th allocation, in processes of their own: one that dies costs only the rest of its
// own turn.
static void sweep(const char *name, const Step *steps, long stride, Outcome *o)
{
    enum { HANGS = 120, PATIENCE = 20 };
    long last = o->allocations, tried = 0;
    int bad = 0;
    for (long at = 1; at <= last && bad < PATIENCE;) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            for (o->at = at; o->at <= last; o->at += stride) {
                alarm(HANGS);
                if (!travel(steps, o->at, o)) _exit(1);
            }
            exit(0); // with a leak checker's last word
        }
        int how;
        waitpid(child, &how, 0);
        tried += (o->at - at) / stride + (o->at <= last);
        bool fine = WIFEXITED(how) && !WEXITSTATUS(how);
        if (!fine && WIFSIGNALED(how))
            snprintf(o->wrong, sizeof o->wrong, "signal %d in '%s'", WTERMSIG(how), o->step);
        CHECK_MSG(fine, "%s: allocation %ld of %ld fails: %s", name, o->at, last, o->wrong);
        bad += !fine;
        at = o->at + stride;
    }
    CHECK_MSG(tried > 0, "%s: nothing was tried", name);
    unit_passed += (int)tried - bad;
}

int main(void)
{
    const char *which = getenv("OOM");
    bool all = which && !strcmp(which, "all");
    Outcome *o = mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(dir, sizeof dir, "/tmp/netc_oom.XXXXXX");
    if (o == MAP_FAILED || !mkdtemp(dir)) return perror(dir), 1;
    draw(&points);
    char folder[128];
    snprintf(folder, sizeof folder, "%s", file("cache"));
    cache = folder;
    if (which && !all) {
        travel(whole, 0, o); // fills the cache
        CHECK_MSG(travel(whole, atol(which), o), "%s", o->wrong);
        return unit_done();
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        cache = paths[i].cached ? folder : "";
        pid_t child = fork(); // this process has no threads when it forks
        if (!child) _exit(!(travel(paths[i].steps, 0, o) && travel(paths[i].steps, 0, o)));
        int how;
        waitpid(child, &how, 0);
        CHECK_MSG(how == 0, "%s: nothing fails: %s", paths[i].name, o->wrong);
        if (how == 0)
            sweep(paths[i].name, paths[i].steps,
                  all ? paths[i].all : 1 + o->allocations / paths[i].sample, o);
        if (all) printf("%s: %ld allocations\n", paths[i].name, o->allocations);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) printf("cannot remove %s\n", dir);
    return unit_done();
}
