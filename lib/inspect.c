// netc inspect: kernels with bytes, flops and floors; the memory plan; what was not fused and why.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

typedef struct Inspect {
    netc_program *p;
    Build *b;
    const char *kernel;
    bool why, json;
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *text;
} Inspect;

static const char *step_name(const Program *p, const ProgStep *s)
{
    if (s->kind == PS_KERNEL) return p->kernels[s->index].name;
    if (s->kind == PS_GEMM) return p->gemms[s->index].name;
    return s->kind == PS_COPY ? "copy" : s->kind == PS_ZERO ? "zero" : "loop";
}

static void step_cost(const Program *p, const ProgStep *s, int64_t *bytes, int64_t *flops,
                      double *floor)
{
    *bytes = s->bytes;
    *flops = 0;
    *floor = 0;
    if (s->kind == PS_KERNEL) {
        const ProgKernel *k = &p->kernels[s->index];
        *bytes = k->bytes_read + k->bytes_written;
        *flops = k->flops;
        *floor = k->floor_seconds;
    } else if (s->kind == PS_GEMM) {
        const ProgGemm *g = &p->gemms[s->index];
        *flops = 2 * g->m * g->n * g->k * g->batch;
        *bytes = g->batch * (g->m * g->k * prog_dtype_bytes(g->a_type) +
                             g->k * g->n * prog_dtype_bytes(g->b_type) +
                             g->m * g->n * prog_dtype_bytes(g->c_type));
    }
}

static void entry_text(const Inspect *v, const ProgEntry *e, Buf *out)
{
    const Program *p = v->b->program;
    buf_printf(out, "entry %s", e->name);
    for (int i = 0; i < e->ndims; i++)
        buf_printf(out, "  %s = %" PRId64, e->dims[i].name, e->dims[i].value);
    buf_printf(out, "\n  temporaries: arena %" PRId64 " bytes, peak of live values %" PRId64,
               e->arena_bytes, e->peak_bytes);
    if (e->peak_bytes)
        buf_printf(out, " (ratio %.3f)", (double)e->arena_bytes / (double)e->peak_bytes);
    buf_printf(out, "\n  %-44s %12s %12s %9s  %s\n", "step", "bytes", "flops", "floor us", "line");
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        int64_t bytes, flops;
        double floor;
        step_cost(p, s, &bytes, &flops, &floor);
        buf_printf(out, "  %*s%-*s %12" PRId64 " %12" PRId64 " %9.2f  %s\n", 2 * s->depth, "",
                   44 - 2 * s->depth, step_name(p, s), bytes, flops, floor * 1e6,
                   s->loc ? s->loc : "");
    }
    // The largest temporaries, so that the memory plan can be read first.
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

static void why_text(const Inspect *v, Buf *out)
{
    const Module *m = v->b->module;
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Fusion *f = m->entries.at[i].graph->fusion;
        if (!f || !f->unfused.n) continue;
        buf_printf(out, "entry %s: values that are stored between kernels, and why\n",
                   m->entries.at[i].name);
        for (uint32_t k = 0; k < f->unfused.n; k++) {
            const Unfused *u = &f->unfused.at[k];
            buf_printf(out, "  %-16s %s\n", loc_text(m->diags, u->consumer->loc),
                       unfused_text(v->arena, u));
        }
    }
}

static void entry_json(const Inspect *v, const ProgEntry *e, Json *j)
{
    const Program *p = v->b->program;
    json_object(j);
    json_key(j, "name"), json_string(j, e->name);
    json_key(j, "arena_bytes"), json_int(j, e->arena_bytes);
    json_key(j, "peak_bytes"), json_int(j, e->peak_bytes);
    json_key(j, "steps"), json_array(j);
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        static const char *const kinds[] = {"kernel", "gemm", "copy", "zero", "loop"};
        int64_t bytes, flops;
        double floor;
        step_cost(p, s, &bytes, &flops, &floor);
        json_object(j);
        json_key(j, "kind"), json_string(j, kinds[s->kind]);
        json_key(j, "name"), json_string(j, step_name(p, s));
        json_key(j, "line"), json_string(j, s->loc ? s->loc : "");
        json_key(j, "bytes"), json_int(j, bytes);
        json_key(j, "flops"), json_int(j, flops);
        json_key(j, "floor_seconds"), json_double(j, floor);
        json_end(j);
    }
    json_end(j), json_end(j);
}

static void inspect(void *arg)
{
    Inspect *v = arg;
    const Program *p = v->b->program;
    Buf out = buf_new(v->arena);
    if (v->kernel) {
        const char **names = NEW_ARRAY(v->arena, const char *, p->nkernels + 1);
        for (int i = 0; i < p->nkernels; i++) {
            names[i] = p->kernels[i].name;
            if (strcmp(v->kernel, names[i])) continue;
            buf_str(&out, p->kernels[i].annotated ? p->kernels[i].annotated : p->kernels[i].text);
            v->text = strdup(out.data);
            return;
        }
        const char *near = suggest(v->kernel, names, (size_t)p->nkernels);
        v->status =
            lib_fail(v->err, NETC_INVALID, "there is no kernel '%s' for %s%s%s%s", v->kernel,
                     p->target, near ? "; did you mean '" : "; netc inspect MODEL lists them",
                     near ? near : "", near ? "'?" : "");
        return;
    }
    if (v->json) {
        Json j = json_writer(&out);
        json_object(&j);
        json_key(&j, "model"), json_string(&j, p->model);
        json_key(&j, "target"), json_string(&j, p->target);
        json_key(&j, "entries"), json_array(&j);
        for (int i = 0; i < p->nentries; i++) entry_json(v, &p->entries[i], &j);
        json_end(&j), json_end(&j);
        buf_char(&out, '\n');
    } else if (v->why) {
        why_text(v, &out);
    } else {
        buf_printf(&out, "%s for %s: %d kernels, %d library calls\n", p->model, p->target,
                   p->nkernels, p->ngemms);
        for (int i = 0; i < p->nentries; i++) entry_text(v, &p->entries[i], &out);
    }
    v->text = strdup(out.data);
}

netc_status netc_program_inspect(netc_program *p, const char *target, const char *kernel, bool why,
                                 bool json, char **text, netc_error **err)
{
    Inspect v = {.p = p, .kernel = kernel, .why = why, .json = json, .err = err};
    if (target && strcmp(target, "cpu") && strcmp(target, "cuda"))
        return lib_fail(err, NETC_INVALID, "unknown target '%s'; there are cpu and cuda", target);
    netc_status status =
        target ? build_get(p, !strcmp(target, "cuda"), "", "", &v.b, err) : build_any(p, &v.b, err);
    if (status != NETC_OK) return status;
    if (why && !v.b->module)
        return lib_fail(err, NETC_INVALID, "%s holds no graph; ask --why of its .net source",
                        p->name);
    v.arena = arena_new();
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(v.arena, inspect, &v)) v.status = OUT_OF_MEMORY(err);
    arena_free(v.arena);
    *text = v.text;
    if (v.status != NETC_OK) return v.status;
    return v.text ? NETC_OK : OUT_OF_MEMORY(err);
}
