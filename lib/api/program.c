// Programs: creation from source and options, reference counts, release. (api/ports.c describes
// their contents.)
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/api/eject.h"
#include "lib/api/tuning.h"

static const char *copy_or_null(Arena *a, const char *s)
{
    return s ? arena_strdup(a, s) : NULL;
}

typedef struct Creation {
    netc_program *p;
    const netc_compile_options *o;
    const char *name, *text;
    size_t len;
    bool file; // text was read from the file [name]
    netc_error **err;
    netc_status status;
} Creation;

void program_trains(const netc_program *p, char *out, size_t n)
{
    const FileDecls *d = p->decls;
    snprintf(out, n, "%s",
             p->settings.program      ? p->settings.program
             : d && d->programs.n > 0 ? d->programs.at[0]
                                      : "");
}

const char *precision_text(Precision p)
{
    static const char *const names[] = {"f32", "tf32", "bf16", "f16"};
    return names[p];
}

static bool parse_precision(const char *name, Precision *out)
{
    for (int i = 0; name && i < 4; i++)
        if (!strcmp(name, precision_text((Precision)i))) return *out = (Precision)i, true;
    return !name;
}

static bool names_one(const char *const *defines, int n, const char *define)
{
    size_t len = strcspn(define, "=");
    for (int i = 0; i < n; i++)
        if (strcspn(defines[i], "=") == len && !strncmp(defines[i], define, len)) return true;
    return false;
}

// If the data have other dimensions than those for which a model.bin was compiled, its source is
// compiled again, unless the file has code for these, too.
static netc_status fit_bin(netc_program *p, const netc_compile_options *o, netc_error **err)
{
    const char **defines;
    int n;
    bool differ;
    netc_status status = dataset_defines((netc_dataset *)(uintptr_t)o->data, p, o->whole_data,
                                         p->arena, &defines, &n, &differ, err);
    if (status != NETC_OK || !differ) return status;
    Settings *s = &p->settings;
    // Data override the file's own definitions, but not those of the caller.
    const char **asked = NEW_ARRAY(p->arena, const char *, o->ndefines + n + 1);
    int nasked = 0;
    for (int i = 0; i < o->ndefines; i++) asked[nasked++] = s->defines[i];
    for (int i = 0; i < n; i++)
        if (!names_one(o->defines, o->ndefines, defines[i])) asked[nasked++] = defines[i];
    if (!s->rebuild && batches_choose(p, asked, nasked)) return bin_declarations(p, err);
    program_drop_builds(p);
    s->rebuild = true;
    int kept = o->ndefines;
    for (int i = o->ndefines; i < s->ndefines; i++)
        if (!names_one(defines, n, s->defines[i])) s->defines[kept++] = s->defines[i];
    s->ndefines = kept;
    const char **all = NEW_ARRAY(p->arena, const char *, n + s->ndata + 1);
    int count = 0;
    for (int i = 0; i < s->ndata; i++)
        if (!names_one(defines, n, s->data_defines[i])) all[count++] = s->data_defines[i];
    for (int i = 0; i < n; i++) all[count++] = defines[i];
    s->data_defines = all;
    s->ndata = count;
    return NETC_OK;
}

static const char **copy_list(Arena *a, const char *const *from, int n)
{
    const char **out = NEW_ARRAY(a, const char *, n + 1);
    for (int i = 0; i < n; i++) out[i] = arena_strdup(a, from[i]);
    return out;
}

static const int64_t *copy_sizes(Arena *a, const int64_t *from, int n)
{
    int64_t *out = NEW_ARRAY(a, int64_t, n + 1);
    if (n > 0) memcpy(out, from, (size_t)n * sizeof *out);
    return out;
}

static Settings settings_of(const Creation *c, const netc_compile_options *o)
{
    Arena *a = c->p->arena;
    Settings s = {.defines = copy_list(a, o->defines, o->ndefines),
                  .ndefines = o->ndefines,
                  .program = copy_or_null(a, o->program),
                  .target = copy_or_null(a, o->target),
                  .skip_passes = copy_or_null(a, o->skip_passes),
                  .dump_dir = copy_or_null(a, o->dump_dir),
                  .choices = copy_or_null(a, o->choices),
                  .memory_limit = o->memory_limit,
                  .no_reuse = o->no_reuse,
                  .no_matmul_library = o->no_matmul_library,
                  .arch = o->arch,
                  .locked = o->locked,
                  .tune_file_named = o->tune_file && *o->tune_file,
                  .tune_file = copy_or_null(a, o->tune_file),
                  .kernels_dir = copy_or_null(a, o->kernels_dir),
                  .precision_given = o->precision != NULL,
                  .rebuild = o->rebuild,
                  .outputs_of = copy_or_null(a, o->outputs_of),
                  .outputs = copy_list(a, o->outputs, o->noutputs),
                  .noutputs = o->noutputs,
                  .functional = o->arguments || o->ngradients,
                  .arguments = copy_list(a, o->arguments, o->narguments),
                  .narguments = o->narguments,
                  .gradients = copy_list(a, o->gradients, o->ngradients),
                  .ngradients = o->ngradients,
                  .second = copy_list(a, o->second, o->nsecond),
                  .nsecond = o->nsecond,
                  .mapped = copy_list(a, o->mapped, o->nmapped),
                  .nmapped = o->nmapped,
                  .calls = o->calls,
                  .devices = o->devices,
                  .keep = o->keep,
                  .states = o->states,
                  .training = o->training,
                  .batches = copy_sizes(a, o->batches, o->nbatches),
                  .nbatches = o->nbatches,
                  .entries = NEW_ARRAY(a, const char *, o->nentries + 1),
                  // (--locked applies to all kernels of the model)
                  .nentries = o->locked ? 0 : o->nentries};
    for (int i = 0; i < s.nentries; i++) s.entries[i] = copy_or_null(a, o->entries[i]);
    if (c->file && !o->tune_file) s.tune_file = arena_printf(a, "%s.tune", c->name);
    if (c->file && !o->kernels_dir) s.kernels_dir = arena_printf(a, "%s.kernels", c->name);
    return s;
}

static netc_status check_lists(const netc_compile_options *o, netc_error **err)
{
    const struct {
        const char *field;
        const char *const *names;
        int n;
    } list[] = {
        {"defines", o->defines, o->ndefines},       {"outputs", o->outputs, o->noutputs},
        {"arguments", o->arguments, o->narguments}, {"gradients", o->gradients, o->ngradients},
        {"second", o->second, o->nsecond},          {"mapped", o->mapped, o->nmapped}};
    netc_status status = NETC_OK;
    for (size_t i = 0; i < sizeof list / sizeof *list && status == NETC_OK; i++)
        status = options_names(list[i].field, list[i].names, list[i].n, err);
    if (status == NETC_OK && (o->nentries < 0 || (o->nentries && !o->entries))) // (may hold NULL)
        status =
            lib_fail(err, NETC_INVALID, "entries: %d of them, but none are given", o->nentries);
    if (status == NETC_OK && (o->nbatches < 0 || (o->nbatches && !o->batches)))
        status =
            lib_fail(err, NETC_INVALID, "batches: %d of them, but none are given", o->nbatches);
    for (int i = 0; status == NETC_OK && i < o->nbatches; i++)
        if (o->batches[i] < 1)
            status = lib_fail(err, NETC_INVALID, "batches: %" PRId64 " is no size of a batch",
                              o->batches[i]);
    return status;
}

static netc_status check_options(const netc_compile_options *o, Settings *s, netc_error **err)
{
    const char *wrong = o->choices ? choices_wrong(o->choices) : NULL;
    if (wrong)
        return lib_fail(err, NETC_INVALID,
                        "choices: '%.*s' is no line of a choice table, which is KEY: VALUE",
                        (int)strcspn(wrong, "\n") < 60 ? (int)strcspn(wrong, "\n") : 60, wrong);
    if (!parse_precision(o->precision, &s->precision))
        return lib_fail(err, NETC_INVALID,
                        "unknown precision '%s'; there are f32, tf32, bf16 and f16", o->precision);
    if (s->target && strcmp(s->target, "cpu") && strcmp(s->target, "cuda") &&
        strcmp(s->target, "all"))
        return lib_fail(err, NETC_INVALID, "unknown target '%s'; there are cpu, cuda and all",
                        s->target);
    if (o->memory_limit < 0)
        return lib_fail(err, NETC_INVALID,
                        "a memory limit of %lld bytes is not valid; give 0 or more",
                        (long long)o->memory_limit);
    if (o->arch && (o->arch < 80 || o->arch > 999))
        return lib_fail(err, NETC_INVALID,
                        "there is no architecture sm_%d; give 80, 90, 100, ... or 0", o->arch);
    if (o->devices < 0 || o->devices > PROG_MAX_DEVICES)
        return lib_fail(err, NETC_INVALID, "%d devices cannot share the work of a step; 1 to %d can",
                        o->devices, PROG_MAX_DEVICES);
    if (o->calls < 0 || (o->calls > 0) != (o->nmapped > 0) || (o->calls && !s->functional))
        return lib_fail(err, NETC_INVALID,
                        "a function is computed for the slices of %d inputs %lld times; give the "
                        "names of the inputs (mapped) and how many slices they have (calls)",
                        o->nmapped, (long long)o->calls);
    return NETC_OK;
}

// Reads the declarations of the text and the dimensions that the data imply.
static netc_status read_declarations(netc_program *p, const netc_compile_options *o,
                                     netc_error **err)
{
    Arena *a = p->arena;
    Settings *s = &p->settings;
    FrontendOptions fo = lib_frontend_options(p, a, "", "");
    p->decl_diags = diags_new(a);
    p->decls = frontend_decls(a, p->decl_diags, p->name, p->text, p->len, &fo);
    if (!p->decls || p->decl_diags->errors) return lib_fail_diags(err, NETC_INVALID, p->decl_diags);
    bool differ;
    if (!o->data) return NETC_OK;
    return dataset_defines((netc_dataset *)(uintptr_t)o->data, p, o->whole_data, a,
                           &s->data_defines, &s->ndata, &differ, err);
}

bool names_source(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ".net");
}

static netc_status read_source(netc_program *p, const netc_compile_options *o, netc_error **err)
{
    netc_status status;
    if (bin_recognise(p->text, p->len)) {
        if (names_source(p->name))
            return lib_fail(err, NETC_INVALID,
                            "%s is named like a model's text but is a compiled model, whose code "
                            "would run: if you trust it, rename it to .bin",
                            p->name);
        status = bin_load(p, p->name, err);
        return status == NETC_OK && o->data ? fit_bin(p, o, err) : status;
    }
    status = tune_load(p, err);
    if (status == NETC_OK) status = edited_load(p, err);
    return status == NETC_OK ? read_declarations(p, o, err) : status;
}

// Adds the entry "prefill", which reads the prompt in netc_generate, if "next" is requested.
static void add_prefill(netc_program *p)
{
    Settings *s = &p->settings;
    bool next = false, there = false, named = false;
    if (!p->decls) return;
    for (int i = 0; i < s->nentries; i++) {
        next = next || !strcmp(s->entries[i], "next");
        named = named || !strcmp(s->entries[i], "prefill");
    }
    for (uint32_t i = 0; i < p->decls->models.n; i++)
        there = there || !strcmp(p->decls->models.at[i], "prefill");
    if (next && there && !named)
        s->entries[s->nentries++] = "prefill"; // (there is space for one
                                               // more)
}

// Replaces an entry without a name by the file's only model. A model.bin that was written without a
// named one may lack its weights, too, so that one is refused even if the source is compiled again.
static netc_status name_entries(netc_program *p, netc_error **err)
{
    Settings *s = &p->settings;
    const FileDecls *d = p->decls;
    for (int i = 0; i < s->nentries; i++) {
        if (s->entries[i] && entry_left_out(p, s->entries[i]))
            return no_entry(p, NULL, s->entries[i], err);
        if (s->entries[i]) continue;
        const char *only = NULL;
        Buf names = buf_new(p->arena);
        int n = 0;
        for (uint32_t k = 0; k < d->models.n; k++) {
            if (entry_left_out(p, d->models.at[k])) continue;
            only = d->models.at[k];
            buf_printf(&names, "%s%s", n++ ? ", " : "", only);
        }
        if (!only) return lib_fail(err, NETC_INVALID, "%s has no model", p->name);
        if (n > 1)
            return lib_fail(err, NETC_INVALID, "%s has several models; pick one with --entry: %s",
                            p->name, names.data);
        s->entries[i] = only;
    }
    add_prefill(p);
    return NETC_OK;
}

static void fill(void *arg)
{
    Creation *c = arg;
    netc_program *p = c->p;
    netc_compile_options o = {0};
    p->name = arena_strdup(p->arena, c->name);
    p->text = arena_strndup(p->arena, c->text, c->len);
    p->len = c->len;
    c->status = TAKE_OPTIONS(netc_compile_options, &o, c->o, c->err);
    if (c->status == NETC_OK) c->status = check_lists(&o, c->err);
    if (c->status != NETC_OK) return;
    p->settings = settings_of(c, &o);
    c->status = check_options(&o, &p->settings, c->err);
    if (c->status == NETC_OK) c->status = read_source(p, &o, c->err);
    if (c->status == NETC_OK) c->status = name_entries(p, c->err);
}

// Whether the program will run on the GPU that is being opened.
static bool for_prepared(netc_program *p)
{
    const char *target = p->settings.target;
    return !p->settings.arch && (!target || !strcmp(target, "cuda")) && program_learn_prepared(p);
}

// Creates the build for that GPU, whose kernels are compiled by a separate thread, and the build
// for a smaller last batch.
static netc_status start_precompile(netc_program *p, const netc_compile_options *options,
                                    netc_error **err)
{
    Build *b;
    char define[128];
    netc_compile_options o = {0};
    netc_status status = TAKE_OPTIONS(netc_compile_options, &o, options, err);
    if (status == NETC_OK) status = build_get(p, true, "", "", &b, err);
    if (status != NETC_OK) return status;
    precompile_begin(p, "", "");
    const ProgEntry *e = program_entry(b->program, "eval");
    if (e && last_batch(e, dataset_examples(o.eval_data, e), define, sizeof define))
        precompile_begin(p, define, "eval");
    return NETC_OK;
}

static netc_status create(netc_context *ctx, const char *name, const char *text, size_t len,
                          bool file, const netc_compile_options *o, netc_program **out,
                          netc_error **err)
{
    netc_program *p = calloc(1, sizeof *p);
    Arena *a = arena_new();
    if (!p || !a) {
        free(p);
        arena_free(a);
        return OUT_OF_MEMORY(err);
    }
    atomic_init(&p->refs, 1);
    p->context = ctx;
    p->arena = a;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->saving, NULL);
    pthread_mutex_init(&p->waiting, NULL);
    Creation c = {p, o, name, text, len, file, err, NETC_OK};
    if (!lib_guarded(a, fill, &c)) c.status = OUT_OF_MEMORY(err);
    Build *b;
    // Builds now, so that errors in the model are reported here and not by the first session.
    if (c.status == NETC_OK && !p->builds)
        c.status = for_prepared(p) ? start_precompile(p, o, err) : build_any(p, &b, err);
    if (c.status == NETC_OK) c.status = bin_weights(p, err);
    if (c.status == NETC_OK && p->settings.target && !strcmp(p->settings.target, "all"))
        c.status = build_get(p, true, "", "", &b, err);
    if (c.status != NETC_OK) {
        netc_program_release(p);
        return c.status;
    }
    *out = p;
    return NETC_OK;
}

netc_status netc_compile_text(netc_context *c, const char *name, const char *text,
                              const netc_compile_options *o, netc_program **out, netc_error **err)
{
    return create(c, name, text, strlen(text), false, o, out, err);
}

// The error of a model's file that could not be read; names the one that was meant, if it is there.
static netc_status fail_file(const char *path, const RtError *e, netc_error **err)
{
    static const char *const suffixes[] = {".net", ".bin"};
    char meant[1024];
    for (int i = 0; access(path, F_OK) && i < 2; i++) {
        const int n = snprintf(meant, sizeof meant, "%s%s", path, suffixes[i]);
        if (n < (int)sizeof meant && !access(meant, F_OK))
            return lib_fail(err, NETC_INVALID, "%s; did you mean %s?", e->text, meant);
    }
    return lib_fail_rt(err, e);
}

netc_status netc_compile_file(netc_context *c, const char *path, const netc_compile_options *o,
                              netc_program **out, netc_error **err)
{
    Arena *a = arena_new();
    if (!a) return OUT_OF_MEMORY(err);
    void *bytes = NULL;
    size_t n = 0;
    RtError e = {0};
    rt_file_read(a, path, &bytes, &n, &e);
    netc_status status =
        e.code ? fail_file(path, &e, err) : create(c, path, bytes, n, true, o, out, err);
    arena_free(a);
    return status;
}

netc_program *netc_program_retain(netc_program *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void netc_program_release(netc_program *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
    precompile_wait(p, NULL);
    program_drop_builds(p);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->waiting);
    pthread_mutex_destroy(&p->saving);
    arena_free(p->arena);
    free(p->cuda_model);
    free(p);
}
