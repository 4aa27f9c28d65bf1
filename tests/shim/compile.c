// Compiles the kernels of all loaded modules that nobody has run yet as one translation unit: a
// compiler's start and its reading of kernel.h cost more than most kernels.
#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/shim/shim.h"

extern char **environ;
static char problem[4096];
static Code *codes; // all of them: they stay to the end

// A module's text that one of [codes] has under [number]. Programs of one process share kernels:
// those of the next are not compiled again. Their variables are shared memory alone, which begins
// anew with each launch.
typedef struct Compiled {
    uint64_t hash;
    char *text;
    const Code *code;
    int number;
    struct Compiled *next;
} Compiled;
static Compiled *compiled;

typedef struct Find {
    const char *base;
    Code *code;
} Find;

// Memory of a shared object that no file fills: its variables.
static int find_vars(struct dl_phdr_info *info, size_t size, void *arg)
{
    Find *f = arg;
    (void)size;
    if ((const char *)info->dlpi_addr != f->base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || p->p_memsz <= p->p_filesz) continue;
        f->code->vars = (char *)info->dlpi_addr + p->p_vaddr + p->p_filesz;
        f->code->vars_bytes = p->p_memsz - p->p_filesz;
    }
    return 1;
}

static bool run(char *const *argv, const char *log)
{
    posix_spawn_file_actions_t act;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_addopen(&act, 1, log, 01 | 0100 | 02000, 0600);
    posix_spawn_file_actions_adddup2(&act, 1, 2);
    // The compiler must not see the libraries that stand in for CUDA's, nor preloaded sanitizers.
    char *env[4096];
    int n = 0;
    for (char **e = environ; *e && n < 4095; e++)
        if (strncmp(*e, "LD_", 3) != 0) env[n++] = *e;
    env[n] = NULL;
    bool ok = posix_spawnp(&pid, argv[0], &act, NULL, argv, env) == 0 &&
              waitpid(pid, &status, 0) == pid && status == 0;
    posix_spawn_file_actions_destroy(&act);
    return ok;
}

static void read_log(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(problem + strlen(problem), 1, sizeof problem - strlen(problem) - 1, f) : 0;
    problem[sizeof problem - 1] = 0;
    (void)n;
    if (f) fclose(f);
}

static bool write_file(const char *path, const char *head, const char *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(head, f) >= 0 && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

// A whole file; malloc.
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        size_t n = (size_t)ftell(f);
        rewind(f);
        text = malloc(n + 1);
        if (text) text[fread(text, 1, n, f)] = 0;
    }
    if (f) fclose(f);
    return text;
}

typedef struct Files {
    char dir[32], raw[64], plain[64], src[64], obj[64], lib[64], log[64];
    char cached[512]; // in SHIM_CACHE; "" without
} Files;

static uint64_t hash_text(uint64_t hash, const char *text) // FNV-1a
{
    for (const char *p = text; *p; p++) hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    return hash;
}

// Libraries are kept under a name made of their CUDA text and of how it is read. Each load copies
// one: variables begin anew.
static void name_cached(Files *f, const char *arch, const char *head, const char *text)
{
    const char *cache = getenv("SHIM_CACHE");
    if (!cache || getenv("SHIM_CXX")) return; // (another compiler may make what it likes)
    uint64_t hash[2] = {0xcbf29ce484222325u, 0x9ae16a3b2f90404fu}; // from two beginnings
    for (int i = 0; i < 2; i++)
        hash[i] = hash_text(hash_text(hash_text(hash[i], arch), head), text);
    snprintf(f->cached, sizeof f->cached, "%s/%016llx%016llx.so", cache,
             (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

static bool copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    char piece[1 << 14];
    size_t n = 0;
    bool ok = out != NULL;
    while (ok && (n = fread(piece, 1, sizeof piece, in)) > 0) ok = fwrite(piece, 1, n, out) == n;
    if (in) fclose(in);
    return out && fclose(out) == 0 && ok;
}

static void keep_cached(const Files *f)
{
    char temporary[600];
    if (!*f->cached) return;
    snprintf(temporary, sizeof temporary, "%s.%d", f->cached, (int)getpid());
    if (!copy_file(f->lib, temporary) || rename(temporary, f->cached)) unlink(temporary);
}

// The macros of the text are expanded first, so that all inline assembly stands there as it is.
static bool translate(const Files *f, char *cxx, char *arch, const char *head, const char *text)
{
    const char *why = NULL;
    char *expand[] = {cxx, "-E", "-P", "-x", "c++", arch, "-o", (char *)f->plain, (char *)f->raw,
                      NULL};
    if (!write_file(f->raw, "", text) || !run(expand, f->log)) return false;
    char *plain = read_file(f->plain), *done = plain ? shim_rewrite(plain, &why) : NULL;
    bool ok = done && write_file(f->src, head, done);
    if (why) snprintf(problem, sizeof problem, "%s", why);
    free(plain);
    free(done);
    return ok;
}

static void *build(const char *text)
{
    Files f = {.dir = "/tmp/shim-XXXXXX"};
    char here[1024] = "", arch[64], head[2048];
    Dl_info me;
    if (!mkdtemp(f.dir)) return NULL;
    snprintf(f.raw, sizeof f.raw, "%s/raw.cc", f.dir);
    snprintf(f.plain, sizeof f.plain, "%s/plain.cc", f.dir);
    snprintf(f.src, sizeof f.src, "%s/k.cc", f.dir);
    snprintf(f.obj, sizeof f.obj, "%s/k.o", f.dir);
    snprintf(f.lib, sizeof f.lib, "%s/k.so", f.dir);
    snprintf(f.log, sizeof f.log, "%s/log", f.dir);
    if (dladdr((void *)&shim_running, &me)) snprintf(here, sizeof here, "%s", me.dli_fname);
    const char *cxx = getenv("SHIM_CXX");
    // (-Og: two thirds of the time of -O1, and what runs long is in matrix.c and memory.c; vectors
    // are moved as vectors: no scalar replacement; what nothing was assigned to is no zero)
    char *compile[] = {cxx ? (char *)cxx : "g++",
                       "-std=c++17",
                       "-Og",
                       "-w",
                       "-fPIC",
                       "-fsanitize=thread",
                       "-fno-tree-sra",
                       "-ftrivial-auto-var-init=pattern",
                       "-fno-strict-aliasing",
                       "-ffp-contract=off",
                       "-fno-exceptions",
                       "-fno-rtti",
                       "-fno-threadsafe-statics",
                       "-c",
                       "-o",
                       f.obj,
                       f.src,
                       NULL};
    // (what the text calls is in this library and in those it needs, so nothing else is looked
    // through)
    char *link[] = {compile[0], "-shared", "-nostdlib", "-o", f.lib, f.obj, here, "-lgcc", NULL};
    void *library = NULL;
    snprintf(problem, sizeof problem, "the host's compiler (%s) refuses the kernels:\n",
             compile[0]);
    const char *home = getenv("SHIM_HOME");
    if (!home) home = SHIM_HOME;
    snprintf(head, sizeof head, "#include \"%s/kernel.h\"\n#include \"%s/ptx.h\"\n", home, home);
    snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", shim_option("SHIM_ARCH", 90) * 10);
    name_cached(&f, arch, head, text);
    bool made = *f.cached && copy_file(f.cached, f.lib);
    if (!made) {
        made = translate(&f, compile[0], arch, head, text);
        made = made && run(compile, f.log) && run(link, f.log);
        if (made) keep_cached(&f);
    }
    if (made) {
        library = dlopen(f.lib, RTLD_NOW | RTLD_LOCAL);
        if (!library) snprintf(problem, sizeof problem, "%s", dlerror());
    } else {
        read_log(f.log);
    }
    const char *keep = getenv("SHIM_KEEP");
    if (keep) rename(f.src, keep);
    const char *const files[] = {f.raw, f.plain, f.src, f.obj, f.lib, f.log};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(files[i]);
    rmdir(f.dir);
    return library;
}

static void *symbol(const struct CUmod_st *m, const char *what, const char *kernel)
{
    char name[512];
    snprintf(name, sizeof name, "shim_%s_m%d_%s", what, m->number, kernel);
    return dlsym(m->code->library, name);
}

// What is compiled of m's text, or NULL; *hash: the text's.
static const Compiled *find_compiled(const struct CUmod_st *m, uint64_t *hash)
{
    const Compiled *c = compiled;
    *hash = hash_text(0xcbf29ce484222325u, m->text);
    while (c && (c->hash != *hash || strcmp(c->text, m->text) != 0)) c = c->next;
    return c;
}

static bool add_compiled(const struct CUmod_st *m)
{
    uint64_t hash;
    if (find_compiled(m, &hash)) return true;
    Compiled *c = malloc(sizeof *c);
    if (!c || !(c->text = strdup(m->text))) return false;
    c->hash = hash;
    c->code = m->code;
    c->number = m->number;
    c->next = compiled;
    compiled = c;
    return true;
}

static size_t prelude_length(const char *text)
{
    const char *end = strstr(text, "\n#line 1 \"");
    return end ? (size_t)(end + 1 - text) : 0;
}

// Text that has macros is a model's own, and a unit of its own.
static bool has_macros(const struct CUmod_st *m)
{
    return strstr(m->text + prelude_length(m->text), "\n#define ") != NULL;
}

// Whether m is part of the unit of [first]: it is not compiled yet.
static bool belongs(const struct CUmod_st *m, const struct CUmod_st *first)
{
    return m == first || (m->text && !m->code && !has_macros(m) && !has_macros(first));
}

static bool same_prelude(const struct CUmod_st *a, const struct CUmod_st *b)
{
    size_t n = prelude_length(a->text);
    return prelude_length(b->text) == n && !strncmp(a->text, b->text, n);
}

// Kernels of the text: __global__ void [__launch_bounds__(...)] NAME(...) {
static void export_kernels(Buf *out, int module, const char *text)
{
    for (const char *p = text; (p = strstr(p, "__global__")) != NULL; p += 10) {
        const char *open = p, *name;
        do {
            open = strchr(open + 1, '(');
            for (name = open; name && name > p && isspace((unsigned char)name[-1]);) name--;
            const char *end = name;
            while (name && name > p && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
                name--;
            if (name && strncmp(name, "__", 2) != 0 && end > name) {
                buf_printf(out, "SHIM_KERNEL(m%d, %.*s)\n", module, (int)(end - name), name);
                break;
            }
        } while (open);
    }
}

static bool find_function(CuFunction f)
{
    const size_t *(*sizes)(void) = NULL;
    *(void **)&sizes = symbol(f->module, "sizes", f->name);
    *(void **)&f->call = symbol(f->module, "call", f->name);
    if (!sizes || !f->call) return false;
    f->sizes = sizes();
    f->code = f->module->code;
    return true;
}

// The text of the unit of [first]. Preludes differ by what their kernels need, so each has a
// namespace, and its kernels have theirs within; all kernels stand behind all preludes
// (tests/mutants/cc.sh).
static const char *unit_text(Arena *arena, CuModule first)
{
    Buf out = buf_new(arena);
    int number = 0, preludes = 0;
    for (CuModule m = shim_modules(); m; m = m->next) {
        if (!belongs(m, first)) continue;
        m->number = number++;
        m->prelude = -1;
        for (CuModule o = shim_modules(); o != m && m->prelude < 0; o = o->next)
            if (belongs(o, first) && same_prelude(o, m)) m->prelude = o->prelude;
        if (m->prelude >= 0) continue;
        m->prelude = preludes++;
        buf_printf(&out, "namespace p%d {\n%.*s}\n", m->prelude, (int)prelude_length(m->text),
                   m->text);
    }
    for (CuModule m = shim_modules(); m; m = m->next) {
        if (!belongs(m, first)) continue;
        const char *text = m->text + prelude_length(m->text);
        buf_printf(&out, "namespace p%d {\nnamespace m%d {\n%s\n", m->prelude, m->number, text);
        export_kernels(&out, m->number, text);
        buf_str(&out, "}\n}\n");
    }
    return shim_cut(arena, out.data);
}

const char *shim_prepare(CuFunction f)
{
    static const char absent[] = "the kernel is not in what was compiled";
    uint64_t hash;
    if (f->call || f->builtin) return NULL;
    CuModule first = f->module;
    for (CuModule m = first->code ? NULL : shim_modules(); m; m = m->next) {
        const Compiled *c = m->text && !m->code ? find_compiled(m, &hash) : NULL;
        if (!c) continue;
        m->code = c->code;
        m->number = c->number;
    }
    if (first->code) return find_function(f) ? NULL : absent;
    Arena *arena = arena_new();
    if (!arena) return "out of memory";
    void *library = build(unit_text(arena, first));
    arena_free(arena);
    if (!library) return problem;
    Code *code = calloc(1, sizeof *code);
    struct link_map *map;
    if (!code || dlinfo(library, RTLD_DI_LINKMAP, &map)) return "out of memory";
    code->next = codes;
    codes = code;
    Find find = {(const char *)map->l_addr, code};
    dl_iterate_phdr(find_vars, &find);
    code->library = library;
    void *(*dynamic)(void) = NULL;
    *(void **)&dynamic = dlsym(library, "shim_dynamic");
    code->dynamic = dynamic ? dynamic() : code->vars + code->vars_bytes;
    code->dynamic_bytes = dynamic ? SHIM_DYNAMIC : 0;
    bool kept = true;
    for (CuModule m = shim_modules(); m; m = m->next) {
        if (!belongs(m, first)) continue;
        m->code = code;
        kept &= add_compiled(m);
    }
    if (!kept) return "out of memory";
    return find_function(f) ? NULL : absent;
}
