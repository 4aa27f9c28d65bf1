// The search over one launch: one knob of one body after the other, the fastest legal value kept,
// until nothing gets better or time is over. What wins must win once more against the default.
#include <string.h>

#include "lib/tune.h"

// Less than this is not worth another schedule.
#define WORTH 0.02

typedef struct Walk {
    Search *s;
    Bench *b;
    Arena *a;
    IdMap now;    // Body.key -> schedule text of the point stood at
    uint64_t own; // the body whose schedule is being varied
    const char *text;
    IdMap seen;     // hash of a candidate's kernels -> 1
    double seconds; // at the point stood at
} Walk;

static const char *find(void *ctx, uint64_t key)
{
    const Walk *w = ctx;
    uint64_t text;
    if (w->text && key == w->own) return w->text;
    return idmap_get(&w->now, key, &text) ? (const char *)(uintptr_t)text : NULL;
}

static const Body *body_of(const Candidate *c, uint64_t key)
{
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++)
            if (c->kernels[k].body[n]->key == key) return c->kernels[k].body[n];
    return NULL;
}

static uint64_t fingerprint(const Candidate *c)
{
    uint64_t h = 1;
    for (int k = 0; k < c->nkernels; k++) {
        const ProgKernel *p = &c->kernels[k].prog;
        h = hash_mix(hash_mix(h, hash_str(p->text)), hash_bytes(p->grid, sizeof p->grid, 1));
        h = hash_mix(h, hash_bytes(p->block, sizeof p->block, p->shared_bytes));
    }
    return h;
}

static bool reduces(const Candidate *c)
{
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++) {
            const Body *b = c->kernels[k].body[n];
            for (uint32_t i = 0; i < b->insts.n; i++)
                if (b->insts.at[i].kind == KI_REDUCE) return true;
        }
    return false;
}

// Whether any body adds in another order than by the cost model's schedule.
static bool reorders(const Bench *b, const Candidate *c)
{
    if (!reduces(c)) return false;
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++) {
            const Body *mine = c->kernels[k].body[n], *base = body_of(&b->base, mine->key);
            for (const Knob *knob = knobs; knob->name; knob++)
                if (!base || (knob->reorders && knob_get(knob, mine) != knob_get(knob, base)))
                    return true;
        }
    return false;
}

static Candidate *point(Walk *w, const char *text)
{
    Candidate *c = NEW(w->a, Candidate);
    w->text = text;
    bool ok = bench_lower(w->b, find, w, c);
    w->text = NULL;
    c->schedule = text;
    if (!ok) return NULL;
    c->reorders = reorders(w->b, c);
    return c;
}

// Tries every other value of a knob; moves to the best one. true: it moved.
static bool try_knob(Walk *w, const Knob *knob, uint64_t key)
{
    const Target *t = w->b->launch->ctx.target;
    Candidate *here = point(w, NULL);
    const Body *body = here ? body_of(here, key) : NULL;
    int64_t values[KNOB_VALUES];
    int n = body ? knob->legal(body, t, values) : 0, count = 0;
    Candidate *c[KNOB_VALUES];
    w->own = key;
    for (int i = 0; i < n; i++) {
        Body other = *body;
        uint64_t print;
        if (values[i] == knob_get(knob, body)) continue;
        knob_set(knob, &other, t, values[i]);
        Candidate *x = point(w, schedule_text(w->a, &other, t, true));
        if (!x || idmap_get(&w->seen, print = fingerprint(x), NULL)) continue;
        idmap_set(&w->seen, print, 1);
        c[count++] = x;
        bench_cached(w->b, x);
    }
    bench_compile(w->b, c, count);
    const Candidate *best = NULL;
    for (int i = 0; i < count && !w->s->stop(w->s->ctx); i++) {
        bench_measure(w->b, c[i]);
        w->s->tried++;
        if (c[i]->wrong)
            w->s->skipped(w->s->ctx, c[i]->schedule, c[i]->wrong);
        else if (!best || c[i]->seconds < best->seconds)
            best = c[i];
    }
    bool moved = best && best->seconds < w->seconds * (1 - WORTH / 2);
    if (moved) {
        idmap_set(&w->now, key, (uint64_t)(uintptr_t)best->schedule);
        w->seconds = best->seconds;
    }
    for (int i = 0; i < count; i++) bench_release(c[i]);
    return moved;
}

// Against the default once more, by turns. What does not clearly win is dropped.
static RtCode decide(Walk *w, bool *better, RtError *e)
{
    Candidate *c = point(w, NULL);
    double noise = 0;
    *better = false;
    if (!c) return RT_OK;
    bench_compile(w->b, &c, 1);
    if (!c->wrong && c->rt && bench_check(w->b, c)) {
        if (bench_duel(w->b, &w->b->base, c, &noise, e) == RT_OK) {
            double gain = w->b->base.seconds - c->seconds;
            *better = gain > noise && gain > WORTH * w->b->base.seconds;
            w->s->before = w->b->base.seconds;
            w->s->after = *better ? c->seconds : w->s->before;
        }
    } else if (c->wrong) {
        w->s->skipped(w->s->ctx, "the fastest found", c->wrong);
    }
    bench_release(c);
    return e->code;
}

RtCode search_launch(Search *s, RtError *e)
{
    Bench *b = s->bench;
    Walk w = {.s = s,
              .b = b,
              .a = b->arena,
              .now = idmap_new(b->arena),
              .seen = idmap_new(b->arena),
              .seconds = b->base.seconds};
    enum { PASSES = 3 };
    VEC(uint64_t) keys = {0};
    bool known_any = false;
    s->before = s->after = b->base.seconds;
    s->finished = true;
    for (int k = 0; k < b->base.nkernels; k++)
        for (int n = 0; n < b->base.kernels[k].nbodies; n++) {
            uint64_t key = b->base.kernels[k].body[n]->key, text;
            bool again = false;
            for (uint32_t i = 0; i < keys.n; i++) again |= keys.at[i] == key;
            if (again) continue;
            bool known = s->skip_known && idmap_get(s->chosen, key, &text);
            known_any |= known;
            if (known) idmap_set(&w.now, key, text);
            if (!known) vec_push(b->arena, &keys, key);
        }
    idmap_set(&w.seen, fingerprint(&b->base), 1);
    bool moved = known_any;
    for (int pass = 0, any = 1; pass < PASSES && any && s->finished; pass++) {
        any = 0;
        for (uint32_t i = 0; i < keys.n; i++)
            for (const Knob *knob = knobs; knob->name && s->finished; knob++) {
                if (s->stop(s->ctx)) s->finished = false;
                if (s->finished && try_knob(&w, knob, keys.at[i])) any = 1;
            }
        moved |= any;
    }
    bool better = false;
    if (moved && decide(&w, &better, e)) return e->code;
    for (uint32_t i = 0; i < keys.n; i++) {
        uint64_t text = 0;
        const Body *base = body_of(&b->base, keys.at[i]);
        if (!better || !idmap_get(&w.now, keys.at[i], &text))
            text = (uint64_t)(uintptr_t)schedule_text(b->arena, base, b->launch->ctx.target, true);
        const char *kept = arena_strdup(s->chosen->arena, (const char *)(uintptr_t)text);
        idmap_set(s->chosen, keys.at[i], (uint64_t)(uintptr_t)kept);
    }
    return RT_OK;
}
