// Out of memory, everywhere: the n-th allocation of the library fails, for every n, along paths
// through its interface. Whatever call that reaches must succeed all the same or say
// NETC_OUT_OF_MEMORY, leak nothing, and work when it is made again.
//
// The Makefile wraps malloc and its kin in what this is linked from (not inside libc). A
// sample of the allocations is tried; with OOM=all in the environment each one (minutes), with
// OOM=N the N-th of the first path alone, in this process, for a debugger.
#ifndef TESTS_UNIT_OOM_H
#define TESTS_UNIT_OOM_H

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

// -- paths ---------------------------------------------------------------------------------------
typedef struct World {
    netc_context *c;
    netc_program *p, *bin;
    netc_session *s, *other;
    netc_dataset *d, *file;
    netc_error *err;
} World;

static const char *cache;
static Points points;

typedef struct Step {
    const char *name;
    netc_status (*make)(World *w);
} Step;

typedef struct Path {
    const char *name;
    const Step *steps;
    bool cached;
    long sample, all; // about so many allocations are tried; of all, one of so many
} Path;

// What a step left behind when it failed goes before it is made again.
static void undo(World *w, const Step *s);

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
        netc_error_free(w.err), w.err = NULL;
        status = *o->wrong ? NETC_OK : s->make(&w);
        if (status != NETC_OK)
            snprintf(o->wrong, sizeof o->wrong, "%s, made again: %.400s", s->name,
                     netc_error_text(w.err));
    }
    netc_dataset_free(w.d);
    netc_dataset_free(w.file);
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
    enum { HANGS = 1200, PATIENCE = 20 };
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

static int oom_main(const Path *paths, size_t n)
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
        travel(paths->steps, 0, o); // fills the cache
        CHECK_MSG(travel(paths->steps, atol(which), o), "%s", o->wrong);
        return unit_done();
    }
    for (size_t i = 0; i < n; i++) {
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

#endif
