// The evaluator against its own bound: models are evaluated again with every rounding moved within
// what the bound allows it (EvalEnv.noise). What the bound calls wrong then is a rule of it that is
// too narrow. Nothing is compiled for a device, so that these are many programs a second.
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/programs/trial.h"

enum { TIMES = 4 };

bool trial_is_noise(const Trial *t)
{
    return !strcmp(t->device, "noise");
}

static bool hold(const Trial *t, const Reference *want, const StrMap *have, Outcome *out)
{
    for (uint32_t i = 0; i < have->n; i++)
        if (!reference_holds(t, want, have->entry[i].key, have->entry[i].value, out->why,
                             sizeof out->why))
            return false;
    return true;
}

typedef struct Noise {
    const Trial *t;
    const Graph *graph;
    Precision precision;
    Arena *arena;
    Outcome *out;
} Noise;

static void try_entry(void *arg)
{
    const Noise *r = arg;
    const uint64_t seed = r->t->seed;
    EvalEnv env = {.arena = r->arena,
                   .inputs = fill_leaves(r->arena, r->graph, false, seed),
                   .cells = fill_leaves(r->arena, r->graph, true, seed)};
    Reference want;
    EvalResult have;
    bool fine = evaluate(r->arena, r->graph, &env, r->precision, &want);
    env.bound = false;
    for (int i = 0; i < TIMES && fine; i++) {
        env.noise = hash_mix(seed, (uint64_t)i) | 1;
        if (!eval_graph(r->graph, &env, &have)) return;
        fine = hold(r->t, &want, &have.outputs, r->out) && hold(r->t, &want, &have.assigns, r->out);
        r->out->state = fine ? FINE : WRONG;
    }
}

void noise_run(const Trial *t, const Module *m, Precision p, Outcome *out, int n)
{
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *e = &m->entries.at[i];
        int k = model_number(e);
        if (e->kind == ENTRY_INIT || k >= n || out[k].state > FINE) continue;
        Noise r = {t, e->graph, p, arena_new(), &out[k]};
        out[k].state = FAILED;
        if (!r.arena || !lib_guarded(r.arena, try_entry, &r))
            snprintf(out[k].why, sizeof out[k].why, "out of memory while checking");
        arena_free(r.arena);
    }
}
