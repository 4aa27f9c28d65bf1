// A file of models on a device, each model beside what it should give.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"
#include "tests/fuzz/programs/trial.h"

const char *const state_names[STATES] = {"unknown", "fine",    "refused", "wrong",
                                         "failed",  "crashed", "hung"};

static void said(Outcome *o, enum State state, netc_error *err)
{
    o->state = state;
    // (a training step whose batch is no multiple of the devices)
    if (state == REFUSED && strstr(netc_error_text(err), "cannot be divided among")) o->state = FINE;
    snprintf(o->why, sizeof o->why, "%s", netc_error_text(err));
    for (char *p = o->why; *p; p++)
        if (*p == '\n') *p = ' ';
}

// -- one model ------------------------------------------------------------------------------------

typedef struct Sides { // the one that is tried; the plain path's, in f64 and in the model's types
    Side tried, wide, near;
} Sides;

typedef struct Run {
    const Trial *t;
    Sides *sides;
    const Entry *entry;
    Arena *arena;
    netc_error *err;
    Reference ref;
    bool known; // ref is that of every execution
    Outcome *out;
} Run;

static bool depends_on_time(const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_random || n->op == OP_assign) return true;
        for (uint32_t k = 0; k < n->nregions; k++)
            if (depends_on_time(n->regions[k])) return true;
    }
    return false;
}

static netc_status evaluator(Run *r)
{
    const Graph *g = r->entry->graph;
    EvalEnv env = {.arena = r->arena, .inputs = fill_leaves(r->arena, g, false, r->t->seed)};
    netc_status status = side_cells(&r->sides->tried, r->arena, &env.cells, &r->err);
    Precision p = r->sides->tried.program->settings.precision;
    if (status == NETC_OK && !evaluate(r->arena, g, &env, p, &r->ref))
        status = lib_fail(&r->err, NETC_INTERNAL, "the evaluator cannot run this");
    return status;
}

static void add_all(StrMap *to, const StrMap *from)
{
    for (uint32_t i = 0; i < from->n; i++) strmap_set(to, from->entry[i].key, from->entry[i].value);
}

static netc_status run_plain(Run *r, Side *s, StrMap *out)
{
    StrMap cells;
    netc_status status = side_run(s, r->entry->name, r->t->seed, 1, r->arena, out, &r->err);
    if (status == NETC_OK) status = side_cells(s, r->arena, &cells, &r->err);
    if (status == NETC_OK) add_all(out, &cells);
    return status;
}

static netc_status plain_path(Run *r)
{
    r->ref = (Reference){
        .epsilon = coarseness(r->entry->graph, r->sides->tried.program->settings.precision)};
    netc_status status = run_plain(r, &r->sides->wide, &r->ref.exact);
    return status == NETC_OK ? run_plain(r, &r->sides->near, &r->ref.rounded) : status;
}

// Whether gradients that are there by two ways (gradients.c) are the same both ways.
static bool agree(Run *r)
{
    const size_t n = strlen(TWICE_AGAIN);
    for (uint32_t i = 0; i < r->ref.exact.n; i++) {
        const char *name = r->ref.exact.entry[i].key;
        if (strncmp(name, TWICE_AGAIN, n)) continue;
        const char *once = arena_printf(r->arena, TWICE_ONCE "%s", name + n);
        if (!reference_holds(r->t, &r->ref, once, r->ref.exact.entry[i].value, r->out->why,
                             sizeof r->out->why))
            return false;
    }
    return true;
}

// An execution and what it should give; several in a row where all give the same.
static netc_status execute(Run *r, int times)
{
    StrMap outputs, cells;
    netc_status status = NETC_OK;
    if (r->entry->cursor) // bound arrays begin at row 0
        status = session_set_control(r->sides->tried.session, r->entry->cursor, 0, &r->err);
    if (!r->known && status == NETC_OK) status = r->t->wide ? plain_path(r) : evaluator(r);
    r->known = !depends_on_time(r->entry->graph);
    if (status == NETC_OK && !agree(r)) {
        r->out->state = WRONG;
        return status;
    }
    if (status == NETC_OK)
        status = side_run(&r->sides->tried, r->entry->name, r->t->seed, r->known ? times : 1,
                          r->arena, &outputs, &r->err);
    if (status == NETC_OK) status = side_cells(&r->sides->tried, r->arena, &cells, &r->err);
    if (status == NETC_OK) add_all(&outputs, &cells);
    for (uint32_t i = 0; i < outputs.n && status == NETC_OK; i++) {
        const char *name = outputs.entry[i].key;
        if (*name == '@' || !strmap_has(&r->ref.exact, name)) continue;
        if (reference_holds(r->t, &r->ref, name, outputs.entry[i].value, r->out->why,
                            sizeof r->out->why))
            continue;
        r->out->state = WRONG;
        break;
    }
    return status;
}

// In an arena of its own, freed before it returns. Twice: what the first leaves behind, the second
// must not see.
static void run_alone(Run *r)
{
    jmp_buf oom;
    r->arena = arena_new();
    r->out->state = FINE;
    if (r->arena && !setjmp(oom)) {
        arena_on_oom(r->arena, &oom);
        netc_status status = execute(r, 1);
        if (status == NETC_OK && r->out->state == FINE) status = execute(r, 3);
        if (status != NETC_OK) said(r->out, FAILED, r->err);
    } else {
        snprintf(r->out->why, sizeof r->out->why, "out of memory while checking");
        r->out->state = FAILED;
    }
    netc_error_free(r->err);
    arena_free(r->arena);
}

// -- a file ---------------------------------------------------------------------------------------

static void count_ops(const Graph *g, uint32_t *ops)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        ops[g->nodes.at[i]->op]++;
        for (uint32_t k = 0; k < g->nodes.at[i]->nregions; k++)
            count_ops(g->nodes.at[i]->regions[k], ops);
    }
}

Module *plain_module(const Trial *t, Arena *a, netc_program *p)
{
    Diags *d = diags_new(a);
    FrontendOptions fo = lib_frontend_options(p, a, "", "");
    Module *m = frontend_compile(a, d, "programs.net", t->text, strlen(t->text), &fo);
    // Attention rounds to 16 bits elsewhere, as netc check's reference does.
    bool cuda = !strncmp(t->device, "cuda", 4);
    bool attention = !t->variant->skip || strcmp(t->variant->skip, "*") != 0;
    Target target = cuda ? target_cuda(90, true) : target_cpu(1, true);
    PassOptions po = {.target = &target,
                      .precision = p->settings.precision,
                      .skip = optional_passes(a, attention ? "attention" : "")};
    if (!m || d->errors) return NULL;
    for (uint32_t i = 0; i < m->entries.n; i++) count_ops(m->entries.at[i].graph, t->ops);
    return passes_run(m, &po, NULL) && !d->errors ? m : NULL;
}

int model_number(const Entry *e)
{
    return e->name[0] == 'm' ? atoi(e->name + 1) : 0;
}

static void run_all(const Trial *t, Sides *sides, const Module *m, Outcome *out, int n)
{
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *e = &m->entries.at[i];
        if (e->kind == ENTRY_INIT) continue;
        int k = model_number(e);
        if (k >= n || out[k].state > FINE) continue;
        Run r = {.t = t, .sides = sides, .entry = e, .out = &out[k]};
        run_alone(&r);
    }
}

static netc_status open_all(const Trial *t, netc_context *c, Sides *s, netc_error **err)
{
    netc_status status = side_open(c, t->text, t->device, t->variant, t->seed, &s->tried, err);
    if (status != NETC_OK || !t->wide || trial_is_noise(t)) return status;
    Variant plain = {.skip = "*", .precision = "f32", .no_library = true};
    status = side_open(c, t->wide, "cpu", &plain, t->seed, &s->wide, err);
    plain.precision = t->variant->precision;
    if (status == NETC_OK) status = side_open(c, t->text, "cpu", &plain, t->seed, &s->near, err);
    return status == NETC_INVALID ? NETC_INTERNAL : status;
}

void trial_run(const Trial *t, Outcome *out, int n)
{
    Arena *a = arena_new();
    netc_error *err = NULL;
    netc_context *ctx = NULL;
    Sides sides = {0};
    NETC_INIT(netc_context_options, co);
    co.cache_dir = "";
    netc_status status = netc_context_create(&co, &ctx, &err);
    if (status == NETC_OK) status = open_all(t, ctx, &sides, &err);
    Module *m = status == NETC_OK ? plain_module(t, a, sides.tried.program) : NULL;
    if (m && trial_is_noise(t))
        noise_run(t, m, sides.tried.program->settings.precision, out, n);
    else if (m)
        run_all(t, &sides, m, out, n);
    else
        for (int i = 0; i < n; i++) said(&out[i], status == NETC_INVALID ? REFUSED : FAILED, err);
    netc_error_free(err);
    side_close(&sides.tried);
    side_close(&sides.wide);
    side_close(&sides.near);
    netc_context_free(ctx);
    arena_free(a);
}
