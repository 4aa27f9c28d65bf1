// Kernels edited by hand: written with their contract, read back, and used instead of generated
// kernels as long as a kernel with that contract exists.
#include "lib/api/eject.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plain.h"

static const char contract_head[] = "// contract: ", launch_head[] = "// launch: ";

// -- reading --------------------------------------------------------------------------------------

// The rest of the first line that begins with [head], without the end of the line ("\n" or "\r\n"),
// or NULL.
static const char *head_line(Arena *a, const char *text, const char *head)
{
    for (const char *line = text; *line == '/';) {
        size_t n = strcspn(line, "\n");
        size_t end = n && line[n - 1] == '\r' ? n - 1 : n;
        if (!strncmp(line, head, strlen(head)))
            return arena_strndup(a, line + strlen(head), end - strlen(head));
        line += n + (line[n] == '\n');
    }
    return NULL;
}

// The name of the last kernel function in the text: the identifier in front of its parameters.
static const char *function_name(Arena *a, const char *text)
{
    const char *at = NULL;
    for (const char *next = text; (next = strstr(next, "__global__")); next++) at = next;
    for (at = at ? at + strlen("__global__") : ""; *at && *at != '{';) {
        size_t n = 0;
        while (plain_alnum(at[n]) || at[n] == '_') n++;
        size_t open = n + strspn(at + n, " \t\n");
        bool bounds = !strncmp(at, "__launch_bounds__", n);
        if (n && at[open] == '(' && !bounds) return arena_strndup(a, at, n);
        if (bounds && at[open] == '(') n = open + strcspn(at + open, ")");
        at += n ? n : 1;
    }
    return NULL;
}

static const char *parse(Arena *a, EditedKernel *k)
{
    k->contract = head_line(a, k->text, contract_head);
    const char *launch = head_line(a, k->text, launch_head);
    if (!k->contract || !launch)
        return "its head has no '// contract:' and '// launch:' lines, so nothing says what it "
               "replaces";
    enum { THREADS = 1024, SHARED = 227 << 10, BLOCKS_YZ = 65535 };
    int64_t grid[3], block[3], shared, threads = 1;
    if (sscanf(launch,
               "grid %" SCNd64 " %" SCNd64 " %" SCNd64 ", block %" SCNd64 " %" SCNd64 " %" SCNd64
               ", shared %" SCNd64,
               &grid[0], &grid[1], &grid[2], &block[0], &block[1], &block[2], &shared) != 7)
        return "its launch line is not 'grid X Y Z, block X Y Z, shared BYTES'";
    bool possible = shared >= 0 && shared <= SHARED;
    for (int i = 0; i < 3; i++) {
        possible &= grid[i] >= 1 && grid[i] <= (i ? BLOCKS_YZ : INT32_MAX);
        possible &= block[i] >= 1 && block[i] <= THREADS;
        threads *= possible ? block[i] : 1;
        k->grid[i] = (unsigned)grid[i];
        k->block[i] = (unsigned)block[i];
    }
    k->shared = (unsigned)shared;
    if (!possible || threads > THREADS)
        return "its launch is impossible: a grid has at least one block (at most 2147483647 65535 "
               "65535), a block has 1 to 1024 threads and at most 232448 bytes of shared memory";
    k->function = function_name(a, k->text);
    return k->function ? NULL : "it defines no kernel: extern \"C\" __global__ void NAME(...)";
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of the .cu files in the folder, sorted.
static int list_files(Arena *a, const char *dir, const char ***out)
{
    VEC(const char *) names = {0};
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 3 && !strcmp(e->d_name + n - 3, ".cu"))
            vec_push(a, &names, arena_strdup(a, e->d_name));
    }
    if (d) closedir(d);
    if (names.n) qsort(names.at, names.n, sizeof *names.at, by_name);
    *out = names.at;
    return (int)names.n;
}

netc_status edited_load(netc_program *p, netc_error **err)
{
    const char *dir = p->settings.kernels_dir, **files;
    if (!dir || !*dir) return NETC_OK;
    int n = list_files(p->arena, dir, &files);
    if (n) p->edited = NEW(p->arena, EditedKernels);
    for (int i = 0; i < n; i++) {
        void *bytes = NULL;
        size_t size = 0;
        RtError e = {0};
        EditedKernel k = {.name = arena_strndup(p->arena, files[i], strlen(files[i]) - 3),
                          .path = arena_printf(p->arena, "%s/%s", dir, files[i])};
        if (rt_file_read(p->arena, k.path, &bytes, &size, &e)) return lib_fail_rt(err, &e);
        k.text = arena_strndup(p->arena, bytes, size);
        const char *wrong = parse(p->arena, &k);
        if (wrong)
            return lib_fail(err, NETC_INVALID,
                            "%s: %s; 'netc inspect %s --eject %s' writes the generated one", k.path,
                            wrong, p->name, k.name);
        vec_push(p->arena, &p->edited->at, k);
    }
    return NETC_OK;
}

const EditedKernel *edited_find(const netc_program *p, const char *name)
{
    for (uint32_t i = 0; p->edited && i < p->edited->at.n; i++)
        if (!strcmp(p->edited->at.at[i].name, name)) return &p->edited->at.at[i];
    return NULL;
}

// -- in a build -----------------------------------------------------------------------------------

void edited_override(void *ctx, ProgKernel *k, const char *contract)
{
    EditedContext *c = ctx;
    EditedKernel *e = (EditedKernel *)(uintptr_t)edited_find(c->p, k->name);
    if (!e) return;
    e->used = true;
    if (strcmp(e->contract, contract)) {
        Diag *d = diag_error(c->b->module->diags, 0,
                             "%s: the kernel is called with other arguments now", e->path);
        diag_note(c->b->module->diags, d, "written for: %s", e->contract);
        diag_note(c->b->module->diags, d, "called with: %s", contract);
        return;
    }
    k->text = k->annotated = e->text;
    k->symbol = e->function;
    memcpy(k->grid, e->grid, sizeof k->grid);
    memcpy(k->block, e->block, sizeof k->block);
    k->shared_bytes = e->shared;
}

static void no_such_kernel(Diags *d, const EditedKernel *e)
{
    Diag *g = diag_error(d, 0, "%s: the model has no kernel '%s' any more", e->path, e->name);
    diag_note(d, g,
              "it, its sizes or the compiler have changed: move this file elsewhere, eject the "
              "kernel that does this now (netc inspect lists them), and carry the change over");
}

bool edited_missing(const netc_program *p)
{
    bool any = false;
    for (uint32_t i = 0; p->edited && i < p->edited->at.n; i++) any |= p->edited->at.at[i].missing;
    return any;
}

void edited_look(void *ctx, ProgKernel *k, const char *contract)
{
    const netc_program *p = ctx;
    (void)contract;
    EditedKernel *e = (EditedKernel *)(uintptr_t)edited_find(p, k->name);
    if (e) e->missing = false;
}

netc_status edited_report(netc_program *p, Build *b, bool whole, netc_error **err)
{
    Diags *d = diags_new(b->arena);
    for (uint32_t i = 0; p->edited && i < p->edited->at.n; i++) {
        EditedKernel *e = &p->edited->at.at[i];
        if (e->missing && whole) no_such_kernel(d, e);
        if (e->missing && !whole)
            lib_log(p->context, "note: %s is not used: what is run here has no kernel '%s'",
                    e->path, e->name);
        e->missing = false;
    }
    return d->errors ? lib_fail_diags(err, NETC_INVALID, d) : NETC_OK;
}

void edited_end(EditedContext *c)
{
    Diags *d = c->b->module->diags;
    bool main = !*c->b->define && !*c->b->entry;
    Buf taken = buf_new(c->b->arena);
    int count = 0;
    for (uint32_t i = 0; c->p->edited && i < c->p->edited->at.n; i++) {
        EditedKernel *e = &c->p->edited->at.at[i];
        if (!e->used && main && !c->p->settings.nentries) no_such_kernel(d, e);
        e->missing = !e->used && main && c->p->settings.nentries;
        if (e->used && count++ < 4) buf_printf(&taken, "%s %s", count > 1 ? "," : "", e->name);
        c->p->edited->at.at[i].used = false;
    }
    if (count && main && !d->errors)
        lib_log(c->p->context, "note: edited by hand, from %s:%s%s", c->p->settings.kernels_dir,
                taken.data, count > 4 ? " and more" : "");
}

// -- writing --------------------------------------------------------------------------------------

typedef struct Eject {
    netc_program *p;
    Build *b;
    const char *kernel;
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *path;
} Eject;

static void write_kernel(Eject *v, const LoweredKernel *k)
{
    const ProgKernel *p = &k->prog;
    const char *dir = v->p->settings.kernels_dir,
               *path = arena_printf(v->arena, "%s/%s.cu", dir, p->name);
    struct stat st;
    RtError e = {0};
    if (!stat(path, &st)) {
        v->status = lib_fail(v->err, NETC_INVALID,
                             "%s already exists; remove it to write the kernel again", path);
        return;
    }
    if (mkdir(dir, 0777) && errno != EEXIST) {
        v->status = lib_fail(v->err, NETC_ENVIRONMENT, "the folder %s cannot be created: %s", dir,
                             strerror(errno));
        return;
    }
    Buf o = buf_new(v->arena);
    buf_printf(&o, "// Kernel %s of %s, as netc generates it.\n", p->name,
               text_on_one_line(v->arena, v->p->name, strlen(v->p->name)));
    buf_str(&o, "// Compiling the model takes this text in its place, behind the prelude that\n"
                "// `netc --emit cuda` shows first. The function keeps its parameters, which the\n"
                "// contract lists; the launch may be changed in its line.\n");
    buf_printf(&o, "%s%s\n", contract_head, k->contract ? k->contract : "");
    buf_printf(&o, "%sgrid %u %u %u, block %u %u %u, shared %u\n//\n", launch_head, p->grid[0],
               p->grid[1], p->grid[2], p->block[0], p->block[1], p->block[2], p->shared_bytes);
    buf_str(&o, p->annotated);
    v->path = strdup(path); // (before the file exists)
    if (v->path && rt_file_write(path, o.data, o.len, &e)) {
        v->status = lib_fail_rt(v->err, &e);
        free(v->path), v->path = NULL;
    }
}

static void eject(void *arg)
{
    Eject *v = arg;
    const LaunchLog *log = &v->b->launches;
    for (uint32_t i = 0; i < log->n; i++)
        for (int k = 0; k < log->at[i].nkernels; k++) {
            const LoweredKernel *l = &log->at[i].kernels[k];
            if (lib_names_kernel(v->kernel, l->prog.name)) {
                write_kernel(v, l);
                return;
            }
        }
    const Program *p = v->b->program;
    for (int i = 0; i < p->nkernels; i++)
        if (lib_names_kernel(v->kernel, p->kernels[i].name) && *p->kernels[i].file) {
            v->status = lib_fail(v->err, NETC_INVALID, "%s is the model's own text: edit %s",
                                 v->kernel, p->kernels[i].file);
            return;
        }
    v->status = lib_no_kernel(v->err, p, v->kernel);
}

netc_status netc_program_eject(netc_program *p, const char *kernel, char **path, netc_error **err)
{
    Eject v = {.p = p, .kernel = kernel, .err = err};
    netc_status status = build_get(p, true, "", "", &v.b, err);
    if (status != NETC_OK) return status;
    if (!v.b->module)
        return lib_fail(err, NETC_INVALID, "%s is compiled already; eject from its .net source",
                        p->embedded ? p->embedded->path : p->name);
    if (!p->settings.kernels_dir || !*p->settings.kernels_dir)
        return lib_fail(
            err, NETC_INVALID,
            "there is no folder for edited kernels: compile a file, or set kernels_dir of "
            "netc_compile_options");
    v.arena = arena_new();
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(v.arena, eject, &v)) v.status = OUT_OF_MEMORY(err);
    arena_free(v.arena);
    *path = v.path;
    if (v.status != NETC_OK) return v.status;
    return v.path ? NETC_OK : OUT_OF_MEMORY(err);
}
