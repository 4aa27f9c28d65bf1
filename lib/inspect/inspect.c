// netc inspect: kernels with bytes, flops and minimum times; their GPU resources; the memory plan.
#include "codegen/ir/body.h"
#include "lib/inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void known(Buf *out, int width, int v)
{
    if (v >= 0)
        buf_printf(out, " %*d", width, v);
    else
        buf_printf(out, " %*s", width, "-");
}

static void item_text(const Inspect *v, const Items *t, const Item *x, Buf *out)
{
    int depth = v->o->in_order ? x->step->depth : 0;
    buf_printf(out, "  %9.2f %6.1f %6" PRId64 " %13" PRId64 " %14" PRId64, x->floor * 1e6,
               t->floor > 0 ? 100 * x->floor / t->floor : 0, x->calls, x->cost.bytes,
               x->cost.flops);
    if (v->b->program->cuda) {
        known(out, 4, x->info.registers), known(out, 6, x->info.shared_bytes);
        if (x->blocks)
            buf_printf(out, " %7" PRId64 "x%-4d", x->blocks,
                       (int)(x->k->block[0] * x->k->block[1] * x->k->block[2]));
        else
            buf_printf(out, " %7s %-4s", "-", "");
    }
    buf_printf(out, "  %*s%s  %s  %s\n", 2 * depth, "", x->name, x->line, x->types);
}

static void entry_text(const Inspect *v, const ProgEntry *e, Buf *out)
{
    Items t = items_of(v->arena, v->b, e);
    buf_printf(out, "entry %s", e->name);
    for (int i = 0; i < e->ndims; i++)
        buf_printf(out, "  %s = %" PRId64, e->dims[i].name, e->dims[i].value);
    buf_printf(out, "\n  temporaries: arena %" PRId64 " bytes, peak of live values %" PRId64,
               e->arena_bytes, e->peak_bytes);
    if (e->peak_bytes)
        buf_printf(out, " (ratio %.3f)", (double)e->arena_bytes / (double)e->peak_bytes);
    buf_printf(
        out, "\n  total: %" PRId64 " calls, %" PRId64 " bytes, %" PRId64 " flops, floor %.2f us\n",
        t.calls, t.bytes, t.flops, t.floor * 1e6);
    buf_printf(out, "  %9s %6s %6s %13s %14s", "floor us", "share", "calls", "bytes a call",
               "flops a call");
    if (v->b->program->cuda) buf_printf(out, " %4s %6s %12s", "regs", "shared", "grid x block");
    buf_printf(out, "  %s\n",
               v->o->in_order ? "step in order, line, types"
                              : "step, most expensive first, line, types");
    if (!v->o->in_order) items_by_cost(&t);
    for (int i = 0; i < t.n; i++) item_text(v, &t, &t.at[i], out);
    // Shows the largest temporaries first, so that the memory plan can be understood.
    enum { SHOWN = 8 };
    const ProgBuffer *top[SHOWN] = {0};
    for (int i = 0; i < e->nbuffers; i++) {
        const ProgBuffer *b = &e->buffers[i];
        if (b->region != PR_ARENA) continue;
        for (int k = 0; k < SHOWN; k++) {
            if (top[k] && top[k]->bytes >= b->bytes) continue;
            memmove(top + k + 1, top + k, (size_t)(SHOWN - 1 - k) * sizeof *top);
            top[k] = b;
            break;
        }
    }
    if (top[0])
        buf_printf(out, "  %-32s %12s %12s %11s  %s\n", "largest temporaries", "bytes", "offset",
                   "steps", "line");
    for (int k = 0; k < SHOWN && top[k]; k++)
        buf_printf(out, "  %-32s %12" PRId64 " %12" PRId64 " %5d-%-5d  %s\n", top[k]->name,
                   top[k]->bytes, top[k]->offset, top[k]->first, top[k]->last, top[k]->loc);
}

static void known_json(Json *j, const char *key, double v)
{
    json_key(j, key);
    if (v >= 0)
        json_double(j, v);
    else
        json_null(j);
}

// Writes all source lines whose values the kernel computes.
static void lines_json(const Inspect *v, const char *kernel, Json *j)
{
    const Diags *d = v->b->module ? v->b->module->diags : NULL;
    StrMap told = strmap_new(v->arena);
    json_key(j, "lines"), json_array(j);
    for (uint32_t i = 0; d && i < v->b->launches.n; i++) {
        const LaunchRecord *r = &v->b->launches.at[i];
        for (int k = 0; k < r->nkernels; k++) {
            const LoweredKernel *l = &r->kernels[k];
            if (strcmp(l->prog.name, kernel)) continue;
            for (int n = 0; n < l->nbodies; n++)
                for (uint32_t at = 0; at < l->body[n]->insts.n; at++) {
                    const Inst *x = &l->body[n]->insts.at[at];
                    const char *line =
                        x->node && x->kind != KI_LOAD ? loc_text(d, x->node->loc) : "";
                    if (!*line || strmap_has(&told, line)) continue;
                    strmap_set(&told, line, &told);
                    json_string(j, line);
                }
        }
    }
    json_end(j);
}

static void item_json(const Inspect *v, const Item *x, Json *j)
{
    json_object(j);
    json_key(j, "kind"), json_string(j, x->kind);
    json_key(j, "name"), json_string(j, x->name);
    json_key(j, "line"), json_string(j, x->line);
    lines_json(v, x->name, j);
    json_key(j, "calls"), json_int(j, x->calls);
    json_key(j, "bytes"), json_int(j, x->cost.bytes);
    json_key(j, "flops"), json_int(j, x->cost.flops);
    json_key(j, "floor_seconds"), json_double(j, x->cost.floor);
    json_key(j, "schedule"), json_string(j, x->schedule);
    json_key(j, "types"), json_string(j, x->types);
    if (v->b->program->cuda) {
        known_json(j, "blocks", x->blocks ? (double)x->blocks : -1);
        known_json(j, "registers", x->info.registers);
        known_json(j, "local_bytes", x->info.local_bytes);
        known_json(j, "shared_bytes", x->info.shared_bytes);
        known_json(j, "threads", x->info.threads);
        known_json(j, "occupancy", x->info.occupancy);
    }
    json_end(j);
}

static void entry_json(const Inspect *v, const ProgEntry *e, Json *j)
{
    Items t = items_of(v->arena, v->b, e);
    if (!v->o->in_order) items_by_cost(&t);
    json_object(j);
    json_key(j, "name"), json_string(j, e->name);
    json_key(j, "arena_bytes"), json_int(j, e->arena_bytes);
    json_key(j, "peak_bytes"), json_int(j, e->peak_bytes);
    json_key(j, "calls"), json_int(j, t.calls);
    json_key(j, "bytes"), json_int(j, t.bytes);
    json_key(j, "flops"), json_int(j, t.flops);
    json_key(j, "floor_seconds"), json_double(j, t.floor);
    json_key(j, "steps"), json_array(j);
    for (int i = 0; i < t.n; i++) item_json(v, &t.at[i], j);
    json_end(j);
    json_end(j);
}

static netc_status kernel_text(const Inspect *v, Buf *out)
{
    const Program *p = v->b->program;
    for (int i = 0; i < p->nkernels; i++) {
        const ProgKernel *k = &p->kernels[i];
        if (!lib_names_kernel(v->o->kernel, k->name)) continue;
        buf_str(out, k->annotated ? k->annotated : k->text);
        return NETC_OK;
    }
    return lib_no_kernel(v->err, p, v->o->kernel);
}

static void list_json(const Inspect *v, Buf *out)
{
    const Program *p = v->b->program;
    Json j = json_writer(out);
    json_object(&j);
    json_key(&j, "model"), json_string(&j, p->model);
    json_key(&j, "target"), json_string(&j, p->target);
    json_key(&j, "entries"), json_array(&j);
    for (int i = 0; i < p->nentries; i++)
        if (inspect_shows(v, p->entries[i].name)) entry_json(v, &p->entries[i], &j);
    json_end(&j);
    if (v->o->cards) json_key(&j, "cards"), inspect_cards_json(v, &j);
    json_end(&j);
    buf_char(out, '\n');
}

static void list_text(const Inspect *v, Buf *out)
{
    const Program *p = v->b->program;
    Target t = target_of_program(p);
    int nkernels = 0, ngemms = 0;
    for (int i = 0; i < p->nkernels; i++) nkernels += inspect_runs(v, PS_KERNEL, i);
    for (int i = 0; i < p->ngemms; i++) ngemms += inspect_runs(v, PS_GEMM, i);
    buf_printf(out, "%s for %s: %d kernels, %d library calls\n", p->model, v->note, nkernels,
               ngemms);
    buf_printf(out, "floors for %.0f GB/s, %.0f GFLOP/s", t.bytes_per_second / 1e9,
               t.f32_flops / 1e9);
    if (p->cuda) buf_printf(out, ", matmuls in bf16 %.0f TFLOP/s", t.bf16_flops / 1e12);
    buf_char(out, '\n');
    for (int i = 0; i < p->nentries; i++)
        if (inspect_shows(v, p->entries[i].name)) entry_text(v, &p->entries[i], out);
}

bool inspect_shows(const Inspect *v, const char *entry)
{
    return !v->o->entry || !strcmp(entry, v->o->entry);
}

bool inspect_runs(const Inspect *v, ProgStepKind kind, int index)
{
    const Program *p = v->b->program;
    const ProgEntry *e = v->o->entry ? program_entry(p, v->o->entry) : NULL;
    for (int i = 0; e && i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        if (s->kind == kind && s->index == index) return true;
        // (the kernel that may compute a product in place of the library)
        if (s->kind == PS_GEMM && kind == PS_KERNEL && p->gemms[s->index].kernel == index + 1)
            return true;
    }
    return !e;
}

static void inspect(void *arg)
{
    Inspect *v = arg;
    Buf out = buf_new(v->arena);
    if (v->o->params)
        v->status = inspect_params(v, &out);
    else if (v->o->model)
        v->status = inspect_model(v, &out);
    else if (v->o->other)
        v->status = inspect_compare(v, &out);
    else if (v->o->cards && !v->o->json)
        v->status = inspect_cards(v, &out);
    else if (v->o->kernel)
        v->status = kernel_text(v, &out);
    else if (v->o->why)
        v->status = inspect_why(v, &out);
    else if (v->o->json)
        list_json(v, &out);
    else
        list_text(v, &out);
    if (v->status == NETC_OK) v->text = strdup(out.data);
}

static bool holds(const netc_program *p, bool cuda)
{
    for (const Build *b = p->builds; b; b = b->next)
        if (b->cuda == cuda) return true;
    return false;
}

// Whether to show CUDA: for the requested target, otherwise for what would run on this machine,
// otherwise for the only target that a model.bin has.
static bool pick_cuda(netc_program *p, const char *target, char *note, size_t n)
{
    const char *asked = target ? target : p->settings.target;
    if (asked && !strcmp(asked, "all")) asked = NULL;
    bool gpu = rt_cuda_count() > 0, cuda = asked ? !strcmp(asked, "cuda") : gpu;
    bool only = !asked && p->embedded && holds(p, cuda) != holds(p, !cuda);
    if (only) cuda = holds(p, true);
    const char *why = asked  ? ""
                      : only ? " (all that the file holds)"
                      : gpu  ? " (this machine has a GPU; --target cpu shows the CPU's)"
                             : " (this machine has no GPU; --target cuda shows a GPU's)";
    if (cuda) program_learn_gpu(p);
    int arch = p->settings.arch ? p->settings.arch : p->cuda_arch ? p->cuda_arch : 90;
    if (cuda)
        snprintf(note, n, "sm_%d%s", arch, why);
    else
        snprintf(note, n, "cpu%s", why);
    return cuda;
}

netc_status inspect_build(netc_program *p, const char *target, char *note, size_t n, Build **out,
                          netc_error **err)
{
    if (target && strcmp(target, "cpu") && strcmp(target, "cuda"))
        return lib_fail(err, NETC_INVALID, "unknown target '%s'; there are cpu and cuda", target);
    return build_get(p, pick_cuda(p, target, note, n), "", "", out, err);
}

// Registers and other results of the compiler are read from cubins. If none can be compiled here,
// this is noted, and the columns stay empty.
static void compile_for_cards(const Inspect *v, Build *b)
{
    netc_error *e = NULL;
    if (!b->program->cuda) return;
    if (build_compile(v->p, b, b->program->target, &e) == NETC_OK) return;
    lib_log(v->p->context, "note: the registers of kernels are not known: %s", netc_error_text(e));
    netc_error_free(e);
}

// Gets the build, or both builds to be compared.
static netc_status get_builds(Inspect *v, char *note, size_t n, netc_error **err)
{
    v->note = note;
    netc_status status = inspect_build(v->p, v->o->target, note, n, &v->b, err);
    bool cuda = status == NETC_OK && v->b->cuda;
    if (cuda && v->o->other) program_learn_gpu(v->o->other);
    if (status == NETC_OK && v->o->other)
        status = build_get(v->o->other, cuda, "", "", &v->other, err);
    const Build *both[] = {v->b, v->other};
    for (int i = 0; i < 2 && status == NETC_OK && v->o->entry; i++)
        if (both[i] && !program_entry(both[i]->program, v->o->entry))
            status = no_entry(i ? v->o->other : v->p, both[i]->program, v->o->entry, err);
    if (status != NETC_OK || !v->o->cards) return status;
    compile_for_cards(v, v->b);
    if (v->other) compile_for_cards(v, v->other);
    return NETC_OK;
}

netc_status netc_inspect(netc_program *p, const netc_inspect_options *o, char **text,
                         netc_error **err)
{
    netc_inspect_options own = {0};
    *text = NULL;
    netc_status status = TAKE_OPTIONS(netc_inspect_options, &own, o, err);
    if (status != NETC_OK) return status;
    Inspect v = {.p = p, .o = &own, .err = err};
    char note[160];
    status = own.params || own.model ? NETC_OK : get_builds(&v, note, sizeof note, err);
    if (status != NETC_OK) return status;
    v.arena = arena_new();
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(v.arena, inspect, &v)) v.status = OUT_OF_MEMORY(err);
    arena_free(v.arena);
    *text = v.text;
    if (v.status != NETC_OK) return v.status;
    return v.text ? NETC_OK : OUT_OF_MEMORY(err);
}
