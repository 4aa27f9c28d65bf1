// netc_program_emit: any stage of the compilation as text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tile/tile.h"
#include "lib/api/tuning.h"

typedef struct Emit {
    netc_program *p;
    const char *stage;
    Build *b; // for stages after fusion
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *text;
} Emit;

static void emit_front(Emit *e, Buf *out)
{
    netc_program *p = e->p;
    Diags *d = diags_new(e->arena);
    if (!strcmp(e->stage, "ast")) {
        frontend_print_ast(e->arena, d, source_add(d, p->name, p->text, p->len, false), out);
    } else {
        FrontendOptions fo = lib_frontend_options(p, e->arena, "", "");
        Module *m = frontend_compile(e->arena, d, p->name, p->text, p->len, &fo);
        Target t = target_cpu(1, true);
        PassOptions po = {.target = &t,
                          .precision = p->settings.precision,
                          .skip = p->settings.skip_passes,
                          .stop_before = !strcmp(e->stage, "ir") ? "autodiff" : "precision"};
        if (m && !d->errors && passes_run(m, &po, NULL))
            module_print(m, !strcmp(e->stage, "ir") ? "elaborate" : "autodiff", out);
    }
    if (d->errors) e->status = lib_fail_diags(e->err, NETC_INVALID, d);
}

// The kernels, after the prelude; of that of CUDA only the part that they use.
static void emit_kernels(Emit *e, Buf *out)
{
    const Program *p = e->b->program;
    Buf kernels = buf_new(e->arena);
    for (int i = 0; i < p->nkernels; i++) {
        buf_char(&kernels, '\n');
        buf_str(&kernels, p->kernels[i].annotated ? p->kernels[i].annotated : p->kernels[i].text);
    }
    if (!p->nkernels) {
        buf_str(out, "// no generated kernels\n");
        return;
    }
    if (!strcmp(e->stage, "cuda"))
        rt_cuda_prelude(out, p->prelude, kernels.data);
    else
        buf_str(out, p->prelude);
    buf_bytes(out, kernels.data, kernels.len);
}

// Prints the tile programs of the kernels that have one.
static void emit_tiles(const Build *b, Buf *out)
{
    for (uint32_t i = 0; i < b->launches.n; i++)
        for (int k = 0; k < b->launches.at[i].nkernels; k++) {
            const LoweredKernel *l = &b->launches.at[i].kernels[k];
            for (int n = 0; n < l->nbodies; n++) {
                if (!tile_made(&l->body[n]->sched)) continue;
                TileProgram p = tile_program(l->body[n]);
                buf_printf(out, "%s%s: ", out->len ? "\n" : "", l->prog.name);
                tile_text(&p, out);
            }
        }
}

static void emit_ptx(Emit *e, Buf *out)
{
    RtImage *images = NULL;
    int n = 0;
    RtError re = {0};
    char target[16];
    snprintf(target, sizeof target, "ptx_%d", e->p->settings.arch ? e->p->settings.arch : 80);
    rt_compile_cuda(e->arena, e->b->program, target, &e->p->context->compile, &images, &n, &re);
    if (re.code) {
        e->status = lib_fail_rt(e->err, &re);
        return;
    }
    for (int i = 0; i < n; i++)
        buf_printf(out, "%.*s\n", (int)strnlen(images[i].bytes, images[i].size),
                   (const char *)images[i].bytes);
}

static void emit(void *arg)
{
    Emit *e = arg;
    Buf out = buf_new(e->arena);
    if (!e->b)
        emit_front(e, &out);
    else if (!strcmp(e->stage, "fused"))
        module_print(e->b->module, "fuse", &out);
    else if (!strcmp(e->stage, "plan"))
        program_print(e->b->program, &out);
    else if (!strcmp(e->stage, "ptx"))
        emit_ptx(e, &out);
    else if (!strcmp(e->stage, "tile"))
        emit_tiles(e->b, &out);
    else if (!strcmp(e->stage, "dot"))
        for (uint32_t i = 0; i < e->b->module->entries.n; i++)
            graph_dot_text(e->b->module->entries.at[i].graph, &out);
    else
        emit_kernels(e, &out);
    e->text = strdup(out.data);
}

netc_status netc_program_emit(netc_program *p, const char *stage, char **text, netc_error **err)
{
    static const char *const stages[] = {"ast",  "ir",   "grad", "fused", "plan",
                                         "tile", "cuda", "c",    "ptx",   "dot"};
    enum { COUNT = sizeof stages / sizeof *stages, FRONT = 3 };
    int at = 0;
    while (at < COUNT && strcmp(stage, stages[at])) at++;
    if (at == COUNT)
        return lib_fail(err, NETC_INVALID, "there is no stage '%s'%s", stage,
                        advise(stage, stages, COUNT).text);
    Emit e = {.p = p, .stage = stage, .arena = arena_new(), .err = err};
    if (!e.arena) return OUT_OF_MEMORY(err);
    if (at >= FRONT) {
        bool tile = !strcmp(stage, "tile"),
             cuda = tile || !strcmp(stage, "cuda") || !strcmp(stage, "ptx");
        if (cuda || !strcmp(stage, "c")) e.status = build_get(p, cuda, "", "", &e.b, err);
        if (e.status == NETC_OK && e.b) e.status = schedules_locked(p, e.b, err);
        if (e.status == NETC_OK && !e.b) e.status = build_any(p, &e.b, err);
        if (e.status == NETC_OK && !e.b->module &&
            (tile || !strcmp(stage, "fused") || !strcmp(stage, "dot")))
            e.status = lib_no_graph(err, p, stage);
    }
    if (e.status == NETC_OK && !lib_guarded(e.arena, emit, &e)) e.status = OUT_OF_MEMORY(err);
    arena_free(e.arena);
    if (e.status != NETC_OK) {
        free(e.text);
        return e.status;
    }
    *text = e.text;
    return e.text ? NETC_OK : OUT_OF_MEMORY(err);
}
