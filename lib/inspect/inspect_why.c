// netc inspect --why: the values that are stored between kernels, each with the cause and its
// numbers (docs/fusion.md lists the causes); the schedule of each kernel and what computes each
// product, and why.
#include <stdio.h>
#include <string.h>

#include "codegen/schedule/knobs.h"
#include "lib/inspect/inspect.h"

static const char *unfused_line(const Inspect *v, const Unfused *u)
{
    return loc_text(v->b->module->diags, u->consumer->loc);
}

// -- schedules and products -----------------------------------------------------------------------

typedef struct Choice { // what was chosen, and why
    const char *name, *what, *why;
} Choice;
typedef VEC(Choice) Choices;

static const char *schedule_why(const Inspect *v, const LaunchRecord *r, const Body *b)
{
    char id[24];
    snprintf(id, sizeof id, " %016llx @ ", (unsigned long long)b->key);
    if (strstr(v->b->program->choices, id)) return "measured on the device";
    return schedule_reason(v->arena, b, r->ctx.target);
}

// The measured choice for a product: the value in its line. *n: its length.
static const char *measured(const Program *p, const ProgGemm *g, size_t *n)
{
    size_t key = strlen(g->choice_key ? g->choice_key : "");
    for (const char *line = key ? p->choices : "", *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        const char *value = memmem(line, (size_t)(end - line), ": ", 2);
        if (strncmp(line, g->choice_key, key) || strncmp(line + key, " ld ", 4) || !value) continue;
        *n = (size_t)(end - value) - 2;
        return value + 2;
    }
    return NULL;
}

static Choice product(const Inspect *v, const ProgStep *s)
{
    const Program *p = v->b->program;
    const ProgGemm *g = &p->gemms[s->index];
    size_t n = 0;
    const char *value = measured(p, g, &n), *times = value ? memmem(value, n, "# ", 2) : NULL;
    bool kernel = value && n >= 6 && !memcmp(value, "kernel", 6);
    Choice c = {.name = g->name, .what = kernel ? p->kernels[g->kernel - 1].name : "the library"};
    if (kernel && !g->kernel) c.what = "a kernel that is no longer generated";
    if (times)
        c.why = arena_printf(v->arena, "measured: %.*s", (int)(n - (size_t)(times + 2 - value)),
                             times + 2);
    else if (kernel)
        c.why = "the library has no algorithm";
    else if (value)
        c.why = "the fastest of its algorithms, measured";
    else if (g->kernel)
        c.why =
            arena_printf(v->arena, "until it is timed against kernel %s when the program is loaded",
                         p->kernels[g->kernel - 1].name);
    else
        c.why = "no generated kernel is expected to be faster";
    return c;
}

static Choices choices_of(const Inspect *v, const Entry *entry)
{
    Choices all = {0};
    const Program *p = v->b->program;
    for (uint32_t i = 0; i < v->b->launches.n; i++) {
        const LaunchRecord *r = &v->b->launches.at[i];
        if (strcmp(r->ctx.entry->name, entry->name)) continue;
        for (int k = 0; k < r->nkernels; k++) {
            const LoweredKernel *l = &r->kernels[k];
            if (k && l->body[0] == r->kernels[k - 1].body[0]) continue; // part of the same kernel
            Choice c = {l->prog.name, l->prog.schedule, schedule_why(v, r, l->body[0])};
            vec_push(v->arena, &all, c);
        }
    }
    for (int i = 0; i < p->nentries; i++) {
        const ProgEntry *e = &p->entries[i];
        for (int k = 0; k < e->nsteps && !strcmp(e->name, entry->name); k++)
            if (e->steps[k].kind == PS_GEMM) vec_push(v->arena, &all, product(v, &e->steps[k]));
    }
    return all;
}

static void choices_text(const Choices *all, const char *name, Buf *out)
{
    buf_printf(out, "entry %s: what computes it, and why\n", name);
    for (uint32_t i = 0; i < all->n; i++)
        buf_printf(out, "  %s: %s\n      %s\n", all->at[i].name, all->at[i].what, all->at[i].why);
}

static void choices_json(const Choices *all, Json *j)
{
    json_key(j, "choices"), json_array(j);
    for (uint32_t i = 0; i < all->n; i++) {
        json_object(j);
        json_key(j, "name"), json_string(j, all->at[i].name);
        json_key(j, "choice"), json_string(j, all->at[i].what);
        json_key(j, "why"), json_string(j, all->at[i].why);
        json_end(j);
    }
    json_end(j);
}

// -- stored values --------------------------------------------------------------------------------

// Lists what recompute chose to meet a memory limit, in that order.
static void again_text(const Inspect *v, const Entry *e, Buf *out)
{
    buf_printf(out, "entry %s: computed again in the backward part to meet the memory limit\n",
               e->name);
    for (uint32_t i = 0; i < e->again.n; i++) {
        const Again *a = &e->again.at[i];
        buf_printf(out, "  %-16s %10.3f MB %10.2f us  %s%s", loc_text(v->b->module->diags, a->loc),
                   (double)type_bytes(&a->type) / 1e6, a->seconds * 1e6, a->name ? a->name : "",
                   a->name ? " " : "");
        type_print(out, &a->type, NULL);
        buf_char(out, '\n');
    }
}

static void again_json(const Inspect *v, const Entry *e, Json *j)
{
    json_key(j, "again"), json_array(j);
    for (uint32_t i = 0; i < e->again.n; i++) {
        const Again *a = &e->again.at[i];
        json_object(j);
        json_key(j, "name"), json_string(j, a->name ? a->name : "");
        json_key(j, "line"), json_string(j, loc_text(v->b->module->diags, a->loc));
        json_key(j, "bytes"), json_int(j, type_bytes(&a->type));
        json_key(j, "seconds"), json_double(j, a->seconds);
        json_end(j);
    }
    json_end(j);
}

static void entry_text(const Inspect *v, const char *name, const Fusion *f, Buf *out)
{
    buf_printf(out, "entry %s: values that are stored between kernels, and why\n", name);
    for (uint32_t k = 0; k < f->unfused.n; k++) {
        const Unfused *u = &f->unfused.at[k];
        buf_printf(out, "  %-16s %-9s %s\n", unfused_line(v, u),
                   arena_printf(v->arena, "[%s]", unfused_cause(u->cause)),
                   unfused_text(v->arena, u));
    }
}

static void entry_json(const Inspect *v, const Entry *entry, const Choices *choices, Json *j)
{
    const Fusion *f = entry->graph->fusion;
    json_object(j);
    json_key(j, "name"), json_string(j, entry->name);
    json_key(j, "stored"), json_array(j);
    for (uint32_t k = 0; k < f->unfused.n; k++) {
        const Unfused *u = &f->unfused.at[k];
        json_object(j);
        json_key(j, "cause"), json_string(j, unfused_cause(u->cause));
        json_key(j, "a"), json_int(j, u->a);
        json_key(j, "b"), json_int(j, u->b);
        json_key(j, "line"), json_string(j, unfused_line(v, u));
        json_key(j, "text"), json_string(j, unfused_text(v->arena, u));
        json_end(j);
    }
    json_end(j);
    choices_json(choices, j);
    again_json(v, entry, j);
    json_end(j);
}

netc_status inspect_why(const Inspect *v, Buf *out)
{
    const Module *m = v->b->module;
    if (!m) return lib_no_graph(v->err, v->p, "--why");
    Json j = json_writer(out);
    if (v->o->json) {
        json_object(&j);
        json_key(&j, "model"), json_string(&j, v->b->program->model);
        json_key(&j, "target"), json_string(&j, v->b->program->target);
        json_key(&j, "entries"), json_array(&j);
    } else {
        buf_printf(out, "%s for %s\n", v->b->program->model, v->note);
    }
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *entry = &m->entries.at[i];
        const Fusion *f = entry->graph->fusion;
        if (!f || !inspect_shows(v, entry->name)) continue;
        Choices choices = choices_of(v, entry);
        if (v->o->json) {
            entry_json(v, entry, &choices, &j);
            continue;
        }
        if (f->unfused.n) entry_text(v, entry->name, f, out);
        if (entry->again.n) again_text(v, entry, out);
        if (choices.n) choices_text(&choices, entry->name, out);
    }
    if (v->o->json) json_end(&j), json_end(&j), buf_char(out, '\n');
    return NETC_OK;
}
