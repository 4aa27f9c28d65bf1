// netc inspect --knobs: the schedules of kernels, and which others are legal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/schedule/knobs.h"
#include "lib/api/tuning.h"

typedef struct Knobs {
    const Build *b;
    const char *kernel;
    const char *device; // as a tuning file names it; NULL: not known
    bool some;          // the program was compiled for some entries
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *text;
} Knobs;

static void body_knobs(const Knobs *v, const Body *b, const Target *t, Buf *out)
{
    for (const Knob *k = knobs; k->name; k++) {
        int64_t legal[KNOB_VALUES];
        int n = k->legal(b, t, legal);
        if (!n) continue;
        Buf values = buf_new(v->arena);
        for (int i = 0; i < n; i++) {
            bool now = legal[i] == knob_get(k, b);
            buf_str(&values, now ? " [" : " ");
            knob_value_text(k, legal[i], &values);
            buf_str(&values, now ? "]" : "");
        }
        buf_printf(out, "    %-9s%-48s %s\n", k->name, values.data, k->doc);
    }
}

// Whether a kernel is asked for by the name of another one of its parts, NAME/1.
static bool other_part(const Knobs *v, const LoweredKernel *k, int part)
{
    const char *slash = v->kernel ? strchr(v->kernel, '/') : NULL;
    return slash && (k->nbodies < 2 || atoi(slash + 1) != part);
}

// Prints the line of the choice table for each body, or the line that would have the same effect.
static void launch_knobs(const Knobs *v, const LaunchRecord *r, IdMap *seen, Buf *out)
{
    const LoweredKernel *k = &r->kernels[0];
    for (int n = 0; n < k->nbodies; n++) {
        const Body *b = k->body[n];
        if (other_part(v, k, n)) continue;
        if (idmap_get(seen, b->key, NULL)) continue;
        idmap_set(seen, b->key, 1);
        char id[24];
        snprintf(id, sizeof id, " %016llx @ ", (unsigned long long)b->key);
        bool chosen = strstr(v->b->program->choices, id) != NULL;
        buf_printf(out, "kernel %s%s %016llx%s%s: %s%s\n", k->prog.name,
                   k->nbodies > 1 ? arena_printf(v->arena, "/%d", n) : "",
                   (unsigned long long)b->key, v->device ? " @ " : "", v->device ? v->device : "",
                   schedule_text(v->arena, b, r->ctx.target, true), chosen ? "  # measured" : "");
        if (v->kernel) body_knobs(v, b, r->ctx.target, out);
    }
}

static void inspect(void *arg)
{
    Knobs *v = arg;
    const LaunchLog *log = &v->b->launches;
    Buf out = buf_new(v->arena);
    IdMap seen = idmap_new(v->arena);
    if (!v->device && !v->kernel)
        buf_str(&out, "# No GPU is known here. A tuning file's lines have ' @ DEVICE' behind the "
                      "identity, with the GPU's model, such as NVIDIA H200.\n");
    for (uint32_t i = 0; i < log->n; i++) {
        const LaunchRecord *r = &log->at[i];
        bool wanted = !v->kernel && !(v->some && r->ctx.entry->kind == ENTRY_INIT);
        for (int k = 0; k < r->nkernels; k++)
            wanted |= v->kernel && lib_names_kernel(v->kernel, r->kernels[k].prog.name);
        if (wanted && r->nkernels) launch_knobs(v, r, &seen, &out);
    }
    if (v->kernel && !seen.n) {
        v->status = lib_no_kernel(v->err, v->b->program, v->kernel);
        return;
    }
    for (const char *line = v->b->program->choices, *end; *line && !v->kernel;
         line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        if (end > line && strncmp(line, "kernel ", 7))
            buf_printf(&out, "%.*s\n", (int)(end - line), line);
    }
    v->text = strdup(out.data);
}

netc_status netc_program_knobs(netc_program *p, const char *target, const char *kernel, char **text,
                               netc_error **err)
{
    Build *b;
    if (target && strcmp(target, "cpu") && strcmp(target, "cuda"))
        return lib_fail(err, NETC_INVALID, "unknown target '%s'; there are cpu and cuda", target);
    if (target && !strcmp(target, "cuda")) program_learn_gpu(p);
    netc_status status =
        target ? build_get(p, !strcmp(target, "cuda"), "", "", &b, err) : build_any(p, &b, err);
    if (status != NETC_OK) return status;
    if (!b->module) return lib_no_graph(err, p, "--knobs");
    bool several;
    Knobs v = {.b = b,
               .kernel = kernel,
               .device = schedules_device(p, b, &several),
               .some = p->settings.nentries > 0,
               .arena = arena_new(),
               .err = err};
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(v.arena, inspect, &v)) v.status = OUT_OF_MEMORY(err);
    arena_free(v.arena);
    *text = v.text;
    if (v.status != NETC_OK) return v.status;
    return v.text ? NETC_OK : OUT_OF_MEMORY(err);
}
