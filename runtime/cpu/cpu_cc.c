// Starts the system's C compiler: found on PATH, run directly (without a shell), its output kept
// for the error message.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "runtime/cpu/cpu.h"
#include "runtime/host/file.h"

extern char **environ;

// Where programs are looked for if PATH is not set, as in a service or behind env -i.
#define USUAL_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *const always[] = {
    "-O2", // compiles in half the time of -O3, which does not improve loops with explicit simd
    "-ftree-vectorize",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off", // fused operations are explicit: passes/contract.c
    "-fwrapv",           // integer overflow wraps
    // Disables jump threading, with which gcc derives what follows from each bound of a clamp and
    // branches: 25 instructions where two comparisons and four selections suffice. (clang does not
    // know -fno-thread-jumps but ignores --param.)
    "--param=max-jump-thread-duplication-stmts=0",
    "-std=gnu17",
    "-w",
};

// For this processor. By default, compilers avoid its widest vectors, which reduced the clock rate
// of older processors.
static const char *const native[] = {
    "-march=native",
#if defined(__x86_64__)
    "-mprefer-vector-width=512",
#endif
};

// The identity depends on the file and on the command: objects of another compiler are not taken
// from the cache.
static bool executable(const char *path, CpuCompiler *c)
{
    struct stat st;
    if (access(path, X_OK) || stat(path, &st) || !S_ISREG(st.st_mode)) return false;
    uint64_t id[] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
                     (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
    c->identity = hash_bytes(id, sizeof id, 1);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        c->identity = hash_mix(c->identity, hash_str(always[i]));
    for (size_t i = 0; i < sizeof native / sizeof *native; i++)
        c->identity = hash_mix(c->identity, hash_str(native[i]));
    return true;
}

static bool on_path(const char *name, CpuCompiler *c)
{
    if (strchr(name, '/')) {
        int n = snprintf(c->path, sizeof c->path, "%s", name);
        return n > 0 && (size_t)n < sizeof c->path && executable(c->path, c);
    }
    const char *path = getenv("PATH");
    if (!path) path = USUAL_PATH;
    while (*path) {
        size_t n = strcspn(path, ":");
        int k = snprintf(c->path, sizeof c->path, "%.*s/%s", (int)n, n ? path : ".", name);
        if (k > 0 && (size_t)k < sizeof c->path && executable(c->path, c)) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

RtCode rt_cc_find(CpuCompiler *c, RtError *e)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *cc = getenv("CC");
    if (cc && *cc && !strchr(cc, ' ')) // (a command with options is meant for a build system)
        return on_path(cc, c) ? RT_OK
                              : rt_fail(e, RT_ENV,
                                        "CC is '%.200s', which is not a program that can be run; "
                                        "set it to a C compiler or unset it",
                                        cc);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (on_path(names[i], c)) return RT_OK;
    return rt_fail(
        e, RT_ENV,
        "running on the CPU needs a C compiler, and there is no cc, gcc or clang on PATH; install "
        "one (Debian, Ubuntu: apt-get install gcc) or name it in CC");
}

typedef struct Work {
    char dir[512];    // temporary
    int lock;         // of it
    double processor; // seconds of compilers
} Work;

static RtCode work_open(Work *w, RtError *e)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(w->dir, sizeof w->dir, "%s/netc-cc-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    bool fits = n > 0 && (size_t)n < sizeof w->dir - 32;
    if (!fits) errno = ENAMETOOLONG;
    w->lock = fits ? rt_folder_temporary(w->dir) : -1;
    if (w->lock < 0)
        return rt_fail(e, RT_ENV,
                       "no temporary folder for the compiler can be created in %s: %s; set TMPDIR",
                       tmp && *tmp ? tmp : "/tmp", strerror(errno));
    return RT_OK;
}

static void work_path(const Work *w, const char *kind, int i, char *out, size_t n)
{
    snprintf(out, n, "%s/%d.%s", w->dir, i, kind);
}

static void work_close(const Work *w, int nparts)
{
    static const char *const kinds[] = {"c", "o", "so", "log"};
    char path[600];
    for (int i = 0; i <= nparts; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            work_path(w, kinds[k], i, path, sizeof path);
            unlink(path);
        }
    rmdir(w->dir);
    close(w->lock);
}

static RtCode write_text(const char *path, const char *text, RtError *e)
{
    FILE *f = fopen(path, "we");
    size_t n = strlen(text);
    bool ok = f && fwrite(text, 1, n, f) == n;
    if (f) ok &= fclose(f) == 0;
    return ok ? RT_OK : rt_fail(e, RT_ENV, "cannot write %s: %s", path, strerror(errno));
}

// The environment of this process with the usual PATH, without which gcc finds no linker.
static char **with_path(void)
{
    size_t n = 0;
    while (environ && environ[n]) n++;
    char **all = malloc((n + 2) * sizeof *all);
    if (!all) return NULL;
    all[0] = "PATH=" USUAL_PATH;
    for (size_t i = 0; i < n; i++) all[i + 1] = environ[i];
    all[n + 1] = NULL;
    return all;
}

static RtCode start(char *const *argv, const char *log, pid_t *pid, RtError *e)
{
    posix_spawn_file_actions_t io;
    bool bare = !getenv("PATH");
    char **own = bare ? with_path() : NULL;
    if ((bare && !own) || posix_spawn_file_actions_init(&io)) {
        free(own);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&io, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&io, 1, 2);
    int rc = posix_spawn(pid, argv[0], &io, NULL, argv, bare ? own : environ);
    posix_spawn_file_actions_destroy(&io);
    free(own);
    return rc ? rt_fail(e, RT_ENV, "cannot start %s: %s", argv[0], strerror(rc)) : RT_OK;
}

// Whether the process succeeded. If the host ignores SIGCHLD, there is no status, so the existence
// of [product] decides.
static bool ended_well(Work *w, pid_t pid, const char *product)
{
    int status;
    struct rusage u;
    while (wait4(pid, &status, 0, &u) < 0) {
        if (errno == EINTR) continue;
        return access(product, R_OK) == 0;
    }
    w->processor += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                    1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void read_log(const char *path, char *out, size_t n)
{
    FILE *f = fopen(path, "re");
    size_t got = f ? fread(out, 1, n - 1, f) : 0;
    if (f) fclose(f);
    out[got] = 0;
}

enum { MAX_PARTS = 16, MAX_ARGS = 24 };

typedef struct Flags {
    bool simd, native;
} Flags;

static int common_flags(char **argv, int n, const CpuCompiler *c, Flags f)
{
    argv[n++] = (char *)c->path;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) argv[n++] = (char *)always[i];
    for (size_t i = 0; i < sizeof native / sizeof *native && f.native; i++)
        argv[n++] = (char *)native[i];
    if (f.simd) argv[n++] = "-fopenmp-simd";
    return n;
}

// One attempt to compile. false: *failed_log has the compiler's output.
static bool attempt(const CpuCompiler *c, Work *w, int nparts, Flags f, char *failed_log, size_t n,
                    RtError *e)
{
    char source[MAX_PARTS][600], object[MAX_PARTS][600], log[MAX_PARTS + 1][600], shared[600];
    pid_t pid[MAX_PARTS];
    int started = 0;
    bool ok = true;
    work_path(w, "so", nparts, shared, sizeof shared);
    work_path(w, "log", nparts, log[nparts], sizeof log[nparts]);
    *failed_log = 0;
    for (int i = 0; i < nparts && ok; i++) {
        char *argv[MAX_ARGS];
        int k = common_flags(argv, 0, c, f);
        work_path(w, "c", i, source[i], sizeof source[i]);
        work_path(w, "o", i, object[i], sizeof object[i]);
        work_path(w, "log", i, log[i], sizeof log[i]);
        argv[k++] = nparts == 1 ? "-shared" : "-c";
        argv[k++] = "-o";
        argv[k++] = nparts == 1 ? shared : object[i];
        argv[k++] = source[i];
        if (nparts == 1) argv[k++] = "-lm";
        argv[k] = NULL;
        if (start(argv, log[i], &pid[i], e))
            ok = false;
        else
            started++;
    }
    for (int i = 0; i < started; i++)
        if (!ended_well(w, pid[i], nparts == 1 ? shared : object[i])) {
            if (!*failed_log) read_log(log[i], failed_log, n);
            ok = false;
        }
    if (ok && nparts > 1) {
        char *argv[MAX_ARGS + MAX_PARTS];
        int k = common_flags(argv, 0, c, f);
        argv[k++] = "-shared";
        argv[k++] = "-o";
        argv[k++] = shared;
        for (int i = 0; i < nparts; i++) argv[k++] = object[i];
        argv[k++] = "-lm";
        argv[k] = NULL;
        pid_t link;
        ok = start(argv, log[nparts], &link, e) == RT_OK;
        if (ok && !ended_well(w, link, shared)) {
            read_log(log[nparts], failed_log, n);
            ok = false;
        }
    }
    return ok;
}

static RtCode load_product(const Work *w, int nparts, void **object, size_t *size, RtError *e)
{
    char path[600];
    work_path(w, "so", nparts, path, sizeof path);
    FILE *f = fopen(path, "re");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) {
        if (f) fclose(f);
        return rt_fail(e, RT_ENV, "the compiler left no object at %s: %s", path, strerror(errno));
    }
    *size = (size_t)st.st_size;
    *object = malloc(*size + 1);
    bool ok = *object && fread(*object, 1, *size, f) == *size;
    fclose(f);
    if (ok) return RT_OK;
    free(*object);
    *object = NULL;
    return rt_fail(e, RT_ENV, "cannot read %s", path);
}

RtCode rt_cc_compile(const CpuCompiler *c, const char *const *parts, int nparts,
                     const RtCompileOptions *o, void **object, size_t *size, RtError *e)
{
    Work w = {0};
    char said[3000] = "", first[3000] = "";
    if (nparts > MAX_PARTS) return rt_fail(e, RT_USER, "too many parts to compile");
    if (work_open(&w, e)) return e->code;
    RtCode code = RT_OK;
    for (int i = 0; i < nparts && !code; i++) {
        char path[600];
        work_path(&w, "c", i, path, sizeof path);
        code = write_text(path, parts[i], e);
    }
    if (!code) {
        // A compiler without OpenMP simd, or one that does not know this processor, can still be
        // used.
        static const Flags tries[] = {{true, true}, {false, true}, {true, false}, {false, false}};
        bool done = false;
        for (size_t i = 0; i < sizeof tries / sizeof *tries && !done && !e->code; i++) {
            done = attempt(c, &w, nparts, tries[i], i ? said : first, sizeof said, e);
            if (done && i)
                rt_log(o, "note: %s compiled %s%s%s", c->path,
                       tries[i].simd ? "" : "without OpenMP's simd",
                       tries[i].simd || tries[i].native ? "" : " and ",
                       tries[i].native ? "" : "for a generic processor");
        }
        if (!done)
            code = rt_fail(e, RT_ENV, "%s could not compile the generated C:\n%s", c->path, first);
        else
            code = load_product(&w, nparts, object, size, e);
    }
    rt_took(o, RT_PHASE_COMPILE_CPU, w.processor);
    work_close(&w, nparts);
    return code;
}
