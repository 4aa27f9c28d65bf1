// Writes a model.bin; api/bin.c describes its contents.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/tuning.h"

typedef VEC(RtSection) Sections;

typedef struct Bin {
    netc_program *p;
    const char *path, *archs;
    netc_session *weights;
    int n; // the main builds, then those for further batches
    Build *cpu[1 + MOST_BATCHES], *cuda[1 + MOST_BATCHES]; // NULL: not for this target
    Arena *arena;
    netc_error **err;
    netc_status status;
} Bin;

static void put(Bin *b, Sections *s, const char *name, const void *bytes, size_t n)
{
    RtSection one = {name, bytes, n};
    vec_push(b->arena, s, one);
}

static void put_build(Bin *b, Sections *s, StrMap *images, const Build *build)
{
    if (!build) return;
    Buf out = buf_new(b->arena);
    program_write(build->program, &out);
    put(b, s,
        arena_printf(b->arena, "program %s%s%s", build->cuda ? "cuda" : "cpu",
                     *build->define ? " " : "", build->define),
        out.data, out.len);
    for (int i = 0; i < build->nimages; i++) {
        const RtImage *im = &build->images[i];
        const char *name = arena_printf(b->arena, "image %s %016" PRIx64 " %016" PRIx64, im->target,
                                        im->identity, im->key);
        if (strmap_has(images, name)) continue; // equal kernels share an image
        strmap_set(images, name, (void *)im);
        put(b, s, name, im->bytes, im->size);
    }
}

static void put_info(Bin *b, Sections *s)
{
    const Settings *set = &b->p->settings;
    Buf out = buf_new(b->arena);
    buf_printf(&out, "netc %s\nname %s\nprecision %s\narch %d\n", netc_version(), b->p->name,
               precision_text(set->precision), set->arch);
    if (set->program) buf_printf(&out, "program %s\n", set->program);
    for (int i = 0; i < set->ndefines; i++) buf_printf(&out, "define %s\n", set->defines[i]);
    for (int i = 0; i < set->ndata; i++) buf_printf(&out, "data %s\n", set->data_defines[i]);
    for (int i = 0; i < set->nentries; i++) buf_printf(&out, "entry %s\n", set->entries[i]);
    put(b, s, "info", out.data, out.len);
}

static void put_weights(Bin *b, Sections *s)
{
    netc_session *ss = b->weights;
    // Without a session, writes the weights that the program was loaded with.
    for (int i = 0; !ss && b->p->weights && i < b->p->weights->n; i++) {
        const RtTensor *t = &b->p->weights->at[i];
        put(b, s, arena_printf(b->arena, "weight %s", t->name), t->data,
            (size_t)prog_type_bytes(&t->type));
    }
    for (int i = 0; ss && i < rt_cell_count(ss->rt); i++) {
        const ProgCell *c = rt_cell_info(ss->rt, i);
        if (c->kind != PC_PARAM && c->kind != PC_STATE && c->kind != PC_SETTING) continue;
        size_t n = (size_t)prog_type_bytes(&c->type);
        void *data = arena_alloc(b->arena, n);
        RtError e = {0};
        if (rt_cell_read(ss->rt, c->name, data, n, &e)) {
            b->status = lib_fail_rt(b->err, &e);
            return;
        }
        put(b, s, arena_printf(b->arena, "weight %s", c->name), data, n);
    }
}

static void write_bin(void *arg)
{
    Bin *b = arg;
    Sections s = {0};
    put_info(b, &s);
    put(b, &s, "source", b->p->text, b->p->len);
    const Module *m = b->cpu[0] && b->cpu[0]->module ? b->cpu[0]->module
                      : b->cuda[0]                   ? b->cuda[0]->module
                                                     : NULL;
    // sources.at[0] is nameless, sources.at[1] is the model itself
    for (uint32_t i = 2; m && i < m->diags->sources.n; i++) {
        const Source *src = &m->diags->sources.at[i];
        if (!src->library)
            put(b, &s, arena_printf(b->arena, "use %s", src->path), src->text, src->len);
    }
    for (int i = 0; !m && b->p->embedded && i < b->p->embedded->n; i++)
        if (!strncmp(b->p->embedded->s[i].name, "use ", 4))
            vec_push(b->arena, &s, b->p->embedded->s[i]);
    StrMap images = strmap_new(b->arena);
    for (int i = 0; i < b->n; i++) {
        put_build(b, &s, &images, b->cpu[i]);
        put_build(b, &s, &images, b->cuda[i]);
    }
    put_weights(b, &s);
    RtError e = {0};
    if (b->status == NETC_OK && rt_container_write(b->path, s.at, (int)s.n, &e))
        b->status = lib_fail_rt(b->err, &e);
}

// Compiles the CPU object in a thread of its own, while the caller compiles for the architectures
// in the list.
static void *compile_cpu(void *arg)
{
    Bin *b = arg;
    for (int i = 0; i < b->n; i++) {
        netc_error *e = NULL;
        if (!b->cpu[i] || b->cpu[i]->nimages ||
            build_compile(b->p, b->cpu[i], "cpu", &e) == NETC_OK)
            continue;
        // On a machine without a C compiler, the file has no CPU object; the CPU code is compiled
        // when the file is loaded.
        lib_log(b->p->context, "note: no CPU object in %s: %s", b->path, netc_error_text(e));
        netc_error_free(e);
    }
    return NULL;
}

static netc_status compile_archs(Bin *b, Build *cuda)
{
    char list[256];
    snprintf(list, sizeof list, "%s", b->archs && *b->archs ? b->archs : "sm_80,sm_90,sm_100");
    char *save = NULL;
    for (char *arch = strtok_r(list, ",", &save); arch; arch = strtok_r(NULL, ",", &save)) {
        int number = 0;
        char rest = 0, more;
        const char *digits = strncmp(arch, "ptx_", 4)
                                 ? arch + (strncmp(arch, "sm_", 3) ? strlen(arch) : 3)
                                 : arch + 4;
        if (sscanf(digits, "%d%c%c", &number, &rest, &more) % 3 == 0 || number < 50 ||
            (rest && rest != 'a'))
            return lib_fail(b->err, NETC_INVALID,
                            "unknown architecture '%s'; write sm_80, sm_90, sm_100 or ptx_80 ...",
                            arch);
        netc_status status = build_compile(b->p, cuda, arch, b->err);
        if (status != NETC_OK) return status;
    }
    // Adds PTX for future architectures, unless the caller listed architectures.
    return b->archs && *b->archs ? NETC_OK : build_compile(b->p, cuda, "ptx_80", b->err);
}

// Whether the program has all entries that it was compiled for.
static netc_status check_entries(const netc_program *p, const Program *made, netc_error **err)
{
    for (int i = 0; i < p->settings.nentries; i++)
        if (!program_entry(made, p->settings.entries[i]))
            return no_entry(p, made, p->settings.entries[i], err);
    return NETC_OK;
}

// Gets the builds that the file will contain.
static netc_status add_builds(Bin *b)
{
    netc_program *p = b->p;
    const char *target = p->settings.target ? p->settings.target : "all";
    Batches batches = {.n = 0};
    netc_status status = NETC_OK;
    for (int i = 0; i <= batches.n && status == NETC_OK; i++, b->n++) {
        const char *define = i ? batches.define[i - 1] : "";
        if (strcmp(target, "cuda")) status = build_get(p, false, define, "", &b->cpu[i], b->err);
        if (status == NETC_OK && strcmp(target, "cpu"))
            status = build_get(p, true, define, "", &b->cuda[i], b->err);
        if (status == NETC_OK && !i)
            status = batches_wanted(p, b->cpu[0] ? b->cpu[0] : b->cuda[0], &batches, b->err);
    }
    return status;
}

static netc_status save_program(netc_program *p, const char *path, const char *archs,
                                netc_session *weights, netc_error **err)
{
    Bin b = {.p = p, .path = path, .archs = archs, .weights = weights, .err = err};
    netc_status status = add_builds(&b);
    if (status == NETC_OK)
        status = check_entries(p, (b.cpu[0] ? b.cpu[0] : b.cuda[0])->program, err);
    if (status == NETC_OK) status = schedules_locked_both(p, b.cpu[0], b.cuda[0], err);
    if (status != NETC_OK) return status;
    if (b.cuda[0]) precompile_wait(p, b.cuda[0]);
    pthread_t thread;
    bool threaded = b.cpu[0] && b.cuda[0] && !pthread_create(&thread, NULL, compile_cpu, &b);
    if (!threaded) compile_cpu(&b);
    // (code that was read from a model.bin is written unchanged)
    for (int i = 0; i < b.n && status == NETC_OK; i++)
        if (b.cuda[i] && (b.cuda[i]->module || !b.cuda[i]->nimages))
            status = compile_archs(&b, b.cuda[i]);
    if (threaded) pthread_join(thread, NULL);
    if (status == NETC_ENVIRONMENT && !p->settings.target && !(archs && *archs) && err) {
        // CUDA code was not requested explicitly, so the file contains only its text, which a
        // machine with NVRTC compiles when it loads the file.
        lib_log(p->context, "note: the CUDA part of %s is text only: %s", path,
                netc_error_text(*err));
        netc_error_free(*err);
        *err = NULL;
        status = NETC_OK;
    }
    if (status != NETC_OK) return status;
    b.arena = arena_new();
    if (!b.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(b.arena, write_bin, &b)) b.status = OUT_OF_MEMORY(err);
    arena_free(b.arena);
    return b.status;
}

netc_status netc_program_save(netc_program *p, const char *path, const char *archs,
                              netc_session *weights, netc_error **err)
{
    if (names_source(path))
        return lib_fail(err, NETC_INVALID,
                        "%s: a compiled model holds code and is not read from a file named like a "
                        "model's text; name it .bin",
                        path);
    pthread_mutex_lock(&p->saving);
    netc_status status = save_program(p, path, archs, weights, err);
    pthread_mutex_unlock(&p->saving);
    return status;
}
