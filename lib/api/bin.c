// model.bin: the source with every file it uses, both programs, compiled images, weights. This file
// loads one; api/bin_save.c writes it.
//
// Sections: "info" (lines "key value"), "source", "use NAME", "program cpu", "program cuda",
// "program cpu batch=1" (api/batches.c), "image TARGET IDENTITY KEY" (hexadecimal), "weight NAME"
// (bytes of the parameter or state). A file that was compiled for some entries has a line "entry
// NAME" for each in "info".
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/tuning.h"

bool bin_recognise(const void *bytes, size_t n)
{
    return rt_container_recognise(bytes, n);
}

static void read_info(netc_program *p, const char *text)
{
    Arena *a = p->arena;
    Settings *s = &p->settings;
    VEC(const char *) defines = {0}, data = {0}, entries = {0};
    const char *program = NULL;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        const char *l = arena_strndup(a, line, n);
        if (!strncmp(l, "define ", 7)) vec_push(a, &defines, l + 7);
        if (!strncmp(l, "data ", 5)) vec_push(a, &data, l + 5);
        if (!strncmp(l, "entry ", 6)) vec_push(a, &entries, l + 6);
        if (!strncmp(l, "program ", 8)) program = l + 8;
        if (!strncmp(l, "name ", 5)) p->name = l + 5;
        if (!strncmp(l, "arch ", 5) && !s->arch) s->arch = atoi(l + 5);
        for (int k = 0; k < 4; k++)
            if (!strncmp(l, "precision ", 10) && !strcmp(l + 10, precision_text((Precision)k))) {
                if (s->precision_given && s->precision != (Precision)k)
                    s->rebuild = true;
                else
                    s->precision = (Precision)k;
            }
        line += n + (line[n] == '\n');
    }
    if (s->program && (!program || strcmp(s->program, program)))
        s->rebuild = true;
    else
        s->program = program;
    s->defines = defines.at;
    s->ndefines = (int)defines.n;
    s->data_defines = data.at;
    s->ndata = (int)data.n;
    p->embedded->entries = entries.at;
    p->embedded->nentries = (int)entries.n;
}

// Merges the caller's definitions with those of the file. If the file has code for the resulting
// values, that code becomes the program.
static void add_defines(netc_program *p, const char **given, int n)
{
    Settings *s = &p->settings, caller = {.defines = given, .ndefines = n};
    if (!n) return;
    if (!s->rebuild && !batches_choose(p, given, n)) {
        s->rebuild = true;
        program_drop_builds(p);
    }
    const char **all = NEW_ARRAY(p->arena, const char *, n + s->ndefines);
    memcpy(all, given, (size_t)n * sizeof *all);
    for (int i = 0; i < s->ndefines; i++)
        if (!settings_define(&caller, s->defines[i])) all[n++] = s->defines[i];
    s->defines = all;
    s->ndefines = n;
}

static netc_status add_build(netc_program *p, const RtSection *s, bool cuda, const char *define,
                             const char *path, netc_error **err)
{
    Arena *a = arena_new();
    if (!a) return OUT_OF_MEMORY(err);
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_free(a);
        return OUT_OF_MEMORY(err);
    }
    arena_on_oom(a, &oom);
    Build *b = NEW(a, Build);
    *b = (Build){.arena = a,
                 .cuda = cuda,
                 .define = define,
                 .entry = "",
                 .compiling = PTHREAD_MUTEX_INITIALIZER};
    const char *why = NULL;
    netc_status status = NETC_OK;
    b->program = program_read(a, s->bytes, s->size, &why);
    if (b->program) why = program_validate(b->program);
    if (!why) status = outputs_keep_compiled(p, b->program, err);
    if (!why && status == NETC_OK) why = program_validate(b->program);
    arena_on_oom(a, NULL);
    if (why) status = lib_fail(err, NETC_INVALID, "%s is damaged: %s: %s", path, s->name, why);
    if (status != NETC_OK) {
        arena_free(a);
        return status;
    }
    b->next = p->builds;
    p->builds = b;
    return NETC_OK;
}

// Reads a section "program cpu", "program cpu batch=1" and so on; ignores other sections.
static netc_status add_program(netc_program *p, const RtSection *s, const char *path,
                               netc_error **err)
{
    char target[8];
    int end = 0;
    if (sscanf(s->name, "program %7s%n", target, &end) != 1) return NETC_OK;
    bool cuda = !strcmp(target, "cuda");
    if (!cuda && strcmp(target, "cpu")) return NETC_OK;
    return add_build(p, s, cuda, s->name[end] ? s->name + end + 1 : "", path, err);
}

static void add_images(netc_program *p, const RtSection *s, int n)
{
    for (Build *b = p->builds; b; b = b->next) {
        b->images = NEW_ARRAY(p->arena, RtImage, n);
        for (int i = 0; i < n; i++) {
            char target[32];
            uint64_t identity, key;
            if (sscanf(s[i].name, "image %31s %" SCNx64 " %" SCNx64, target, &identity, &key) != 3)
                continue;
            if (b->cuda != (strncmp(target, "cpu", 3) != 0)) continue;
            b->images[b->nimages++] = (RtImage){.target = arena_strdup(p->arena, target),
                                                .bytes = s[i].bytes,
                                                .size = s[i].size,
                                                .key = key,
                                                .identity = identity};
        }
    }
}

typedef struct Weights {
    netc_program *p;
    netc_error **err;
    netc_status status;
} Weights;

static void add_weights(void *arg)
{
    Weights *w = arg;
    netc_program *p = w->p;
    const RtSection *s = p->embedded->s;
    const Build *b = p->builds;
    while (!build_is_main(b)) b = b->next;
    const Program *prog = b->program;
    RtTensors *t = NEW(p->arena, RtTensors);
    t->arena = p->arena;
    t->at = NEW_ARRAY(p->arena, RtTensor, p->embedded->n);
    for (int i = 0; i < p->embedded->n; i++) {
        if (strncmp(s[i].name, "weight ", 7)) continue;
        const ProgCell *c = NULL;
        for (int k = 0; k < prog->ncells; k++)
            if (!strcmp(prog->cells[k].name, s[i].name + 7)) c = &prog->cells[k];
        if (!c) continue;
        char want[240];
        prog_type_text(want, sizeof want, &c->type);
        if (prog_type_bytes(&c->type) == (int64_t)s[i].size)
            t->at[t->n++] = (RtTensor){c->name, c->type, s[i].bytes};
        else if (c->kind == PC_STATE) // named as in a file of weights (api/checkpoint.c)
            lib_log(p->context,
                    "note: state '%s' is %s here and has another size in %s: it starts at its "
                    "initial value",
                    c->name, want, p->embedded->path);
        else
            w->status =
                lib_fail(w->err, NETC_INVALID,
                         "the weights in %s do not fit: '%s' has %zu bytes there and %" PRId64
                         " in the model as "
                         "defined now; compile its .net source with other definitions instead",
                         p->embedded->path, c->name, s[i].size, prog_type_bytes(&c->type));
    }
    if (t->n) p->weights = t;
}

netc_status bin_weights(netc_program *p, netc_error **err)
{
    Weights w = {p, err, NETC_OK};
    if (!p->embedded || !p->builds) return NETC_OK;
    return lib_guarded(p->arena, add_weights, &w) ? w.status : OUT_OF_MEMORY(err);
}

static const char *resolve_embedded(void *ctx, Arena *a, const char *from, const char *name,
                                    size_t *len, const char **path)
{
    const Embedded *e = ctx;
    (void)from;
    size_t want = strlen(name);
    for (int i = 0; i < e->n; i++) {
        if (strncmp(e->s[i].name, "use ", 4)) continue;
        const char *have = e->s[i].name + 4;
        size_t n = strlen(have);
        if (n < want || strcmp(have + n - want, name)) continue;
        *len = e->s[i].size;
        *path = have;
        return arena_strndup(a, e->s[i].bytes, e->s[i].size);
    }
    return NULL;
}

// Whether the options need code that the file does not have.
static bool wants_other_code(const Settings *s)
{
    return s->skip_passes || s->no_reuse || s->no_matmul_library || s->memory_limit ||
           s->dump_dir || s->choices || s->functional || s->training;
}

netc_status bin_declarations(netc_program *p, netc_error **err)
{
    p->decl_diags = diags_new(p->arena);
    FrontendOptions fo = lib_frontend_options(p, p->arena, "", "");
    p->decls = frontend_decls(p->arena, p->decl_diags, p->name, p->text, p->len, &fo);
    if (!p->decls || p->decl_diags->errors) return lib_fail_diags(err, NETC_INVALID, p->decl_diags);
    return NETC_OK;
}

netc_status bin_load(netc_program *p, const char *path, netc_error **err)
{
    RtSection *s = NULL;
    int n = 0;
    RtError e = {0};
    if (rt_container_read(p->arena, path, &s, &n, &e)) return lib_fail_rt(err, &e);
    const RtSection *source = NULL;
    netc_status status = NETC_OK;
    Settings *set = &p->settings;
    const char **given = set->defines;
    int ngiven = set->ndefines;
    set->ndefines = 0;
    bool asked = set->rebuild; // the source is compiled again as if it had been given
    set->rebuild = set->rebuild || wants_other_code(set);
    Embedded *files = NEW(p->arena, Embedded);
    *files = (Embedded){.s = s, .n = n, .path = arena_strdup(p->arena, path)};
    p->embedded = files;
    for (int i = 0; i < n; i++) {
        if (!strcmp(s[i].name, "source")) source = &s[i];
        if (!strcmp(s[i].name, "info"))
            read_info(p, arena_strndup(p->arena, s[i].bytes, s[i].size));
    }
    if (!source) return lib_fail(err, NETC_INVALID, "%s is damaged: it has no source", path);
    p->text = arena_strndup(p->arena, source->bytes, source->size);
    p->len = source->size;
    // What is compiled again has the same entries, unless the caller chose others.
    if (asked) files->nentries = 0;
    if (!set->nentries) set->entries = files->entries, set->nentries = files->nentries;
    p->resolve = resolve_embedded;
    if (files->nentries) status = bin_declarations(p, err); // (no_entry needs them)
    // If an option changes the code, the embedded source is compiled again.
    for (int i = 0; i < n && status == NETC_OK && !set->rebuild; i++)
        status = add_program(p, &s[i], path, err);
    if (status != NETC_OK) return status;
    const Build *own = p->builds;
    while (own && !build_is_main(own)) own = own->next;
    if (p->builds && !own)
        return lib_fail(err, NETC_INVALID, "%s is damaged: it has no program of its own", path);
    // Code for another number of devices is not used.
    if (own && set->devices && set->devices != own->program->devices)
        program_drop_builds(p), set->rebuild = true;
    else if (own)
        set->devices = own->program->devices;
    add_images(p, s, n);
    add_defines(p, given, ngiven);
    return bin_declarations(p, err);
}
