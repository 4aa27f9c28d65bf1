// The pipeline: text -> Module -> passes -> Program, once per target and specialisation.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain.h"
#include "lib/api/eject.h"
#include "lib/api/tuning.h"
#include "runtime/host/threads.h"

static Define parse_define(Arena *a, const char *text, bool from_data)
{
    const char *eq = strchr(text, '=');
    Define d = {arena_strndup(a, text, eq ? (size_t)(eq - text) : strlen(text)),
                eq ? arena_strdup(a, eq + 1) : "true", from_data};
    return d;
}

static const char *resolve(void *ctx, Arena *a, const char *from, const char *name, size_t *len,
                           const char **path)
{
    const netc_context *c = ctx;
    char *text = c->o.resolve(c->o.user, from, name, len);
    if (!text) return NULL;
    const char *copy = arena_strndup(a, text, *len);
    free(text);
    *path = arena_strdup(a, name);
    return copy;
}

bool settings_define(const Settings *s, const char *define)
{
    size_t n = strcspn(define, "=");
    for (int i = 0; i < s->ndefines; i++)
        if (strcspn(s->defines[i], "=") == n && !strncmp(s->defines[i], define, n)) return true;
    return false;
}

FrontendOptions lib_frontend_options(const netc_program *p, Arena *a, const char *define,
                                     const char *entry)
{
    const Settings *s = &p->settings;
    FrontendOptions o = {
        .program = s->program, .scale_loss = s->precision == PREC_F16, .training = s->training};
    Define *defines = NEW_ARRAY(a, Define, s->ndefines + s->ndata + 1);
    for (int i = 0; i < s->ndata; i++)
        defines[o.ndefines++] = parse_define(a, s->data_defines[i], true);
    // The build's own definition replaces a user's definition of the same name.
    Define extra = {0};
    if (*define) extra = parse_define(a, define, false);
    for (int i = 0; i < s->ndefines; i++) {
        Define d = parse_define(a, s->defines[i], false);
        if (!extra.name || strcmp(d.name, extra.name)) defines[o.ndefines++] = d;
    }
    if (extra.name) defines[o.ndefines++] = extra;
    o.defines = defines;
    const char **names = NEW_ARRAY(a, const char *, s->nentries + 2);
    o.entries = names;
    if (*entry) {
        names[o.nentries++] = arena_strdup(a, entry);
    } else if (s->nentries) {
        names[o.nentries++] = "init";
        for (int i = 0; i < s->nentries; i++) names[o.nentries++] = s->entries[i];
    }
    if (p->resolve) {
        o.resolve = p->resolve;
        o.resolve_ctx = p->embedded;
    } else if (p->context->o.resolve) {
        o.resolve = resolve;
        o.resolve_ctx = p->context;
    }
    return o;
}

typedef struct Dump {
    const char *dir;
    netc_context *context;
    bool failed;
} Dump;

// A dump that cannot be written is a note, and does not stop the compilation.
static void dump_module(void *ctx, int number, const char *pass, const Module *m)
{
    Dump *d = ctx;
    Buf text = buf_new(m->arena);
    module_print(m, pass, &text);
    RtError e = {0};
    const char *path = arena_printf(m->arena, "%s/%02d_%s.net", d->dir, number, pass);
    if (d->failed || !rt_file_write(path, text.data, text.len, &e)) return;
    d->failed = true;
    lib_log(d->context, "note: the graphs are not dumped: %s", e.text);
}

typedef struct Job {
    netc_program *p;
    Build *b;
    netc_error **err;
    netc_status status;
    bool trial;   // a trial that only measures the memory
    int64_t kept; // PassOptions.kept_bytes
    bool whole;   // a trial of all entries, which looks for edited kernels
} Job;

static Target pick_target(const netc_program *p, bool cuda)
{
    bool library = !p->settings.no_matmul_library;
    int arch = p->settings.arch ? p->settings.arch : p->cuda_arch;
    if (cuda && arch) {
        Target t = target_cuda(arch, library);
        // The same architecture exists with different numbers of multiprocessors, also as part of a
        // device.
        if (!p->settings.arch && p->cuda_units > 0) target_resize(&t, p->cuda_units);
        return t;
    }
    if (cuda) { // for any device: uses no more shared memory than every data-centre GPU has
        Target t = target_cuda(90, library);
        t.shared_per_block = target_cuda(80, library).shared_per_block;
        t.group_products = false;
        return t;
    }
    return target_cpu(rt_cpu_threads(), library && rt_matmul_library(false));
}

static void run_pipeline(void *arg)
{
    Job *job = arg;
    netc_program *p = job->p;
    Build *b = job->b;
    Diags *d = diags_new(b->arena);
    FrontendOptions fo = lib_frontend_options(p, b->arena, b->define, b->entry);
    if (job->whole) fo.nentries = 0;
    b->module = frontend_compile(b->arena, d, p->name, p->text, p->len, &fo);
    if (!b->module || d->errors) goto invalid;
    for (uint32_t i = 0; i < b->module->notes.n && !p->noted; i++)
        lib_log(p->context, "%s", b->module->notes.at[i]);
    p->noted = true;
    b->launches = (LaunchLog){0}, b->steps = (StepLog){0};
    bool (*make)(const Settings *, const char *, Module *) = p->settings.functional
                                                                 ? functional_make
                                                             : p->settings.noutputs ? outputs_keep
                                                                                    : NULL;
    if (make && !job->whole && !make(&p->settings, b->entry, b->module)) goto invalid;

    Target *target = NEW(b->arena, Target); // in the arena, since launches may be lowered again
                                            // later
    *target = pick_target(p, b->cuda);
    const char *dir = job->trial ? NULL : p->settings.dump_dir;
    Dump dump = {dir, p->context, false};
    PassOptions po = {.target = target,
                      .precision = p->settings.precision,
                      .memory_limit = p->settings.memory_limit,
                      .kept_bytes = job->kept,
                      .devices = p->settings.devices,
                      .odd_batch = !build_is_main(b),
                      .skip = p->settings.skip_passes,
                      .verify_last = !dir && !getenv("NETC_VERIFY"),
                      .dump = dir ? dump_module : NULL,
                      .dump_ctx = &dump};
    b->timings = NEW_ARRAY(b->arena, PassTiming, pass_count);
    if (dir) dump_module(&dump, 0, "elaborate", b->module);
    if (!passes_run(b->module, &po, b->timings) || d->errors) goto invalid;

    CodegenOptions co = {.target = target,
                         .no_reuse = p->settings.no_reuse,
                         .devices = p->settings.devices,
                         .tf32 = p->settings.precision == PREC_TF32,
                         .choices = p->settings.choices,
                         .log = &b->launches,
                         .steps = &b->steps};
    Schedules schedules;
    ScheduleSource source;
    schedules_begin(p, b, &schedules, &source);
    co.schedules = &source;
    EditedContext edited = {p, b};
    if (job->whole)
        co.override = edited_look, co.override_ctx = p;
    else if (b->cuda && p->edited && !job->trial)
        co.override = edited_override, co.override_ctx = &edited;
    b->program = codegen(b->module, &co);
    if (co.override && !job->whole) edited_end(&edited);
    if (!b->program || d->errors) goto invalid;
    if (!job->trial) schedules_end(&schedules, b->program);
    job->status = NETC_OK;
    return;
invalid:
    job->status = lib_fail_diags(job->err, NETC_INVALID, d);
}

// -- a memory limit -------------------------------------------------------------------------------

// The largest memory of an entry in which values can be recomputed.
static int64_t peak_of(const Build *b)
{
    int64_t most = 0;
    for (int i = 0; i < b->program->nentries; i++) {
        const ProgEntry *e = &b->program->entries[i];
        if (e->kind == PK_TRAIN && e->arena_bytes > most) most = e->arena_bytes;
    }
    return most;
}

static Build *build_new(bool cuda, const char *define, const char *entry, const char *choices);

static int64_t try_to_keep(void *ctx, int64_t kept)
{
    const Job *job = ctx;
    const Build *b = job->b;
    Build *t = build_new(b->cuda, b->define, b->entry, b->choices);
    if (!t) return -1;
    netc_error *err = NULL;
    Job trial = {.p = job->p, .b = t, .err = &err, .trial = true, .kept = kept};
    bool ok = lib_guarded(t->arena, run_pipeline, &trial) && trial.status == NETC_OK;
    int64_t peak = ok ? peak_of(t) : -1;
    netc_error_free(err);
    build_free(t);
    return peak;
}

static bool computes_again(const Build *b)
{
    for (uint32_t i = 0; i < b->module->entries.n; i++)
        if (b->module->entries.at[i].again.n) return true;
    return false;
}

static void note_memory(const netc_program *p, const Build *b)
{
    for (uint32_t i = 0; i < b->module->entries.n; i++) {
        const Entry *e = &b->module->entries.at[i];
        double bytes = 0, seconds = 0;
        for (uint32_t k = 0; k < e->again.n; k++) {
            bytes += (double)type_bytes(&e->again.at[k].type);
            seconds += e->again.at[k].seconds;
        }
        if (e->again.n)
            lib_log(p->context,
                    "note: '%s' computes %u value%s again in its backward part: this saves %.4g MB "
                    "and costs %.3g ms per step by the rates of %s (--why lists them)",
                    e->name, e->again.n, plural(e->again.n), bytes / 1e6, seconds * 1e3,
                    b->program->target);
    }
    for (int i = 0; i < b->program->nentries; i++) {
        const ProgEntry *e = &b->program->entries[i];
        if (e->arena_bytes > p->settings.memory_limit)
            lib_log(p->context,
                    "note: the temporaries of '%s' need %lld bytes, more than the limit of %lld",
                    e->name, (long long)e->arena_bytes, (long long)p->settings.memory_limit);
    }
}

// Several devices gain nothing from a step that is not divided. (A last, smaller batch may be so.)
static void note_undivided(const netc_program *p, const Build *b)
{
    const Program *prog = b->program;
    for (int i = 0; i < prog->nentries && prog->devices > 1 && !*b->define; i++) {
        const ProgEntry *e = &prog->entries[i];
        bool any = e->kind != PK_TRAIN;
        for (int k = 0; k < e->nsteps && !any; k++) any = e->steps[k].kind == PS_EXCHANGE;
        if (!any)
            lib_log(p->context,
                    "note: '%s' is not divided: each of the %d devices computes all of it", e->name,
                    prog->devices);
    }
}

// Tries several plans under a memory limit, unless the first one fits and recomputes nothing.
static void make_within(Job *job)
{
    netc_program *p = job->p;
    Build *b = job->b;
    int64_t limit = p->settings.memory_limit, peak = peak_of(b);
    if (peak && (peak > limit || computes_again(b))) {
        job->kept = fit_kept(limit, peak, try_to_keep, job);
        if (job->kept != limit && !lib_guarded(b->arena, run_pipeline, job))
            job->status = OUT_OF_MEMORY(job->err);
    }
    if (job->status == NETC_OK) note_memory(p, b);
}

static void report_edited(void *arg)
{
    Job *whole = arg;
    whole->status = edited_report(whole->p, whole->b, whole->status == NETC_OK, whole->err);
}

// A kernel that was edited may belong to an entry that is not compiled: looks for those that are
// missing among the kernels of the whole model.
static void find_edited(Job *job)
{
    netc_program *p = job->p;
    Build *t = build_new(true, "", "", job->b->choices);
    if (!t) {
        job->status = OUT_OF_MEMORY(job->err);
        return;
    }
    netc_error *err = NULL;
    Job whole = {.p = p, .b = t, .err = &err, .trial = true, .kept = job->kept, .whole = true};
    if (!lib_guarded(t->arena, run_pipeline, &whole)) whole.status = NETC_OUT_OF_MEMORY;
    netc_error_free(err);
    whole.err = job->err;
    if (!lib_guarded(t->arena, report_edited, &whole)) whole.status = OUT_OF_MEMORY(job->err);
    job->status = whole.status;
    build_free(t);
}

static netc_status make(netc_program *p, Build *b, netc_error **err)
{
    Job job = {.p = p, .b = b, .err = err};
    double start = clock_now();
    b->any_gpu = b->cuda && !p->settings.arch && !p->cuda_arch;
    if (!lib_guarded(b->arena, run_pipeline, &job)) return OUT_OF_MEMORY(err);
    if (job.status == NETC_OK && p->settings.memory_limit > 0) make_within(&job);
    if (job.status == NETC_OK) note_undivided(p, b);
    if (job.status == NETC_OK && b->cuda && !p->settings.functional && edited_missing(p))
        find_edited(&job);
    if (job.status == NETC_OK && b->cuda) b->coming = rt_coming_new(b->program->nkernels);
    b->seconds = clock_now() - start;
    context_add_text(p->context, b->seconds);
    return job.status;
}

static bool same_choices(const Build *b, const char *choices)
{
    if (b->choices && choices) return !strcmp(b->choices, choices);
    return choices ? schedules_same(b, choices) : !b->choices;
}

// The builds in a model.bin have all entries; so have those for another batch.
static bool holds_entry(const Build *b, const char *entry)
{
    return !strcmp(b->entry, entry) || (*b->define && !*b->entry);
}

static Build *find(netc_program *p, bool cuda, const char *define, const char *entry,
                   const char *choices)
{
    for (Build *b = p->builds; b; b = b->next)
        if (b->cuda == cuda && !(b->any_gpu && p->cuda_arch) && !strcmp(b->define, define) &&
            holds_entry(b, entry) && same_choices(b, choices))
            return b;
    return NULL;
}

void build_free(Build *b)
{
    if (!b) return;
    rt_coming_free(b->coming);
    arena_free(b->arena);
}

void program_drop_builds(netc_program *p)
{
    for (Build *b = p->builds, *next; b; b = next) {
        next = b->next;
        build_free(b);
    }
    p->builds = NULL;
}

// The Build lives in its own arena, so that freeing the arena frees it whole. NULL: out of memory.
static Build *build_new(bool cuda, const char *define, const char *entry, const char *choices)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (!a || setjmp(oom)) {
        arena_free(a);
        return NULL;
    }
    arena_on_oom(a, &oom);
    Build *b = NEW(a, Build);
    *b = (Build){.arena = a, .cuda = cuda, .compiling = PTHREAD_MUTEX_INITIALIZER};
    b->define = arena_strdup(a, define);
    b->entry = arena_strdup(a, entry);
    if (choices) b->choices = arena_strdup(a, choices);
    arena_on_oom(a, NULL);
    return b;
}

netc_status build_get(netc_program *p, bool cuda, const char *define, const char *entry,
                      Build **out, netc_error **err)
{
    return build_get_chosen(p, cuda, define, entry, NULL, out, err);
}

netc_status build_get_chosen(netc_program *p, bool cuda, const char *define, const char *entry,
                             const char *choices, Build **out, netc_error **err)
{
    pthread_mutex_lock(&p->lock);
    netc_status status = NETC_OK;
    Build *b = find(p, cuda, define, entry, choices);
    if (!b) {
        b = build_new(cuda, define, entry, choices);
        if (!b) {
            pthread_mutex_unlock(&p->lock);
            return OUT_OF_MEMORY(err);
        }
        if (p->embedded && !*define && !*entry)
            lib_log(p->context, "%s%s: %s%s; compiling its source",
                    p->settings.rebuild && !p->embedded->lacks ? "" : "note: ", p->embedded->path,
                    p->embedded->lacks    ? "it has no code for "
                    : p->settings.rebuild ? "its code is not used, as asked"
                    : cuda                ? "there is no program for CUDA in it"
                                          : "there is no program for the CPU in it",
                    p->embedded->lacks ? p->embedded->lacks : "");
        status = make(p, b, err);
        if (status == NETC_OK) {
            b->next = p->builds;
            p->builds = b;
        } else {
            build_free(b);
            b = NULL;
        }
    }
    pthread_mutex_unlock(&p->lock);
    *out = b;
    return status;
}

netc_status build_any(netc_program *p, Build **out, netc_error **err)
{
    pthread_mutex_lock(&p->lock);
    Build *b = find(p, false, "", "", NULL);
    if (!b) b = find(p, true, "", "", NULL);
    pthread_mutex_unlock(&p->lock);
    if (b) return *out = b, NETC_OK;
    bool cuda = p->settings.target && !strcmp(p->settings.target, "cuda");
    return build_get(p, cuda, "", "", out, err);
}

typedef struct CompileJob {
    netc_program *p;
    Build *b;
    const char *target;
    RtError e;
} CompileJob;

static void compile_images(void *arg)
{
    CompileJob *job = arg;
    Build *b = job->b;
    RtCompileOptions o = job->p->context->compile;
    RtImage one = {0}, *more = &one;
    if (atomic_load(&b->ahead) == getpid()) o.made = b->coming;
    int n = 1;
    if (b->cuda)
        rt_compile_cuda(b->arena, b->program, job->target, &o, &more, &n, &job->e);
    else
        rt_compile_cpu(b->arena, b->program, &o, &one, &job->e);
    if (job->e.code) return;
    RtImage *all = NEW_ARRAY(b->arena, RtImage, b->nimages + n);
    if (b->nimages) memcpy(all, b->images, (size_t)b->nimages * sizeof *all);
    memcpy(all + b->nimages, more, (size_t)n * sizeof *all);
    b->images = all;
    b->nimages += n;
}

static bool has_images(const Build *b, const char *target)
{
    for (int i = 0; i < b->nimages; i++)
        if (!strcmp(b->images[i].target, target)) return true;
    return false;
}

netc_status build_fail(netc_program *p, const Build *b, const RtError *e, netc_error **err)
{
    char why[1000];
    if (e->code != RT_ENV || !p->embedded || !b->module) return lib_fail_rt(err, e);
    pthread_mutex_lock(&p->lock);
    bool known = batches_why(p, b, why, sizeof why);
    pthread_mutex_unlock(&p->lock);
    if (!known) return lib_fail_rt(err, e);
    return lib_fail(err, NETC_ENVIRONMENT, "%s\n%s: %s", e->text, p->embedded->path, why);
}

netc_status build_compile(netc_program *p, Build *b, const char *target, netc_error **err)
{
    CompileJob job = {.p = p, .b = b, .target = target};
    pthread_mutex_lock(&b->compiling);
    bool ok = has_images(b, target) || lib_guarded(b->arena, compile_images, &job);
    pthread_mutex_unlock(&b->compiling);
    if (!ok) return OUT_OF_MEMORY(err);
    return job.e.code ? build_fail(p, b, &job.e, err) : NETC_OK;
}
