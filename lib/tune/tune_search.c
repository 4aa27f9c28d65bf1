// The search over one launch: one knob of one body after the other, keeping the fastest legal
// value, until nothing improves or the time is over. The winner must be faster than the default in
// one more comparison.
#include <string.h>
#include <unistd.h>

#include "lib/tune/tune.h"

// Smaller gains do not justify another schedule.
#define WORTH 0.02
enum { PASSES = 3 }; // over all knobs

typedef struct Walk {
    Search *s;
    Bench *b;
    Arena *a;
    IdMap now;    // Body.key -> schedule text at the current point
    uint64_t own; // the body whose schedule is varied
    const char *text;
    IdMap seen;     // hash of a candidate's kernels -> 1
    double seconds; // at the current point
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

// Whether a body adds in another order than with the cost model's schedule.
static bool reorders(const Bench *b, const Candidate *c)
{
    if (!reduces(c)) return false;
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++) {
            const Body *mine = c->kernels[k].body[n], *base = body_of(&b->base, mine->key);
            for (const Knob *knob = knobs; knob->name; knob++)
                if (!base || ((knob->reorders || mine->sched.kind == SCHED_SWEEP ||
                               mine->sched.kind == SCHED_COLUMN) &&
                              knob_get(knob, mine) != knob_get(knob, base)))
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

// A knob of a body, and its other values at the current point.
typedef struct Choice {
    uint64_t key;
    const Knob *knob;
    Candidate *at[KNOB_VALUES];
    int n;
} Choice;

static void collect(Walk *w, Choice *c)
{
    const Target *t = w->b->launch->ctx.target;
    Candidate *here = point(w, NULL);
    const Body *body = here ? body_of(here, c->key) : NULL;
    int64_t values[KNOB_VALUES];
    int n = body ? c->knob->legal(body, t, values) : 0;
    w->own = c->key;
    c->n = 0;
    for (int i = 0; i < n; i++) {
        Body other = *body;
        if (values[i] == knob_get(c->knob, body)) continue;
        knobs_set(&c->knob, &values[i], 1, &other, t);
        Candidate *x = point(w, schedule_text(w->a, &other, t, true));
        if (!x || idmap_get(&w->seen, fingerprint(x), NULL)) continue;
        bench_cached(w->b, x);
        c->at[c->n++] = x;
    }
}

// Measures the values of a knob and moves to the best one. Returns whether it moved.
static bool try_choice(Walk *w, const Choice *c)
{
    const Candidate *best = NULL;
    for (int i = 0; i < c->n && !w->s->stop(w->s->ctx); i++) {
        Candidate *x = c->at[i];
        uint64_t print = fingerprint(x);
        if (idmap_get(&w->seen, print, NULL)) continue; // equal to a candidate that was tried
        idmap_set(&w->seen, print, 1);
        bench_measure(w->b, x);
        w->s->tried++;
        if (x->wrong)
            w->s->skipped(w->s->ctx, x->schedule, x->wrong);
        else if (x->seconds > 0 && (!best || x->seconds < best->seconds))
            best = x;
    }
    if (!best || best->seconds >= w->seconds * (1 - WORTH / 2)) return false;
    idmap_set(&w->now, c->key, (uint64_t)(uintptr_t)best->schedule);
    w->seconds = best->seconds;
    return true;
}

// About how many candidates to compile at once. (On the CPU they are compiled one after the other,
// so only those that are measured.)
static int batch_size(const Bench *b)
{
    long cores = b->context->compile.threads;
    if (cores <= 0) cores = sysconf(_SC_NPROCESSORS_ONLN);
    return !b->like->cuda ? 1 : cores < 2 ? 4 : cores > 16 ? 32 : (int)cores * 2;
}

// One pass over all knobs of all bodies. Many values are compiled at once, since the device waits
// for the compiler meanwhile. After a move, the values not tried yet are collected again for the
// new point. Returns whether anything improved.
static bool pass_over(Walk *w, Choice *all, int n)
{
    bool any = false;
    Candidate **batch = NEW_ARRAY(w->a, Candidate *, n * KNOB_VALUES + 1);
    for (int i = 0; i < n;) {
        int end = i, count = 0;
        for (; end < n && count < batch_size(w->b); end++) {
            collect(w, &all[end]);
            for (int k = 0; k < all[end].n; k++) batch[count++] = all[end].at[k];
        }
        bench_compile(w->b, batch, count);
        bool moved = false;
        while (i < end && !moved && !w->s->stop(w->s->ctx)) moved = try_choice(w, &all[i++]);
        for (int k = 0; k < count; k++) bench_release(batch[k]);
        any |= moved;
        if (w->s->stop(w->s->ctx)) {
            w->s->finished = false;
            break;
        }
    }
    return any;
}

// Compares the result with the default once more, alternately. A schedule that is not clearly
// faster is dropped.
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
    int knob_count = 0, n = 0;
    while (knobs[knob_count].name) knob_count++;
    Choice *choices = NEW_ARRAY(b->arena, Choice, (int)keys.n * knob_count + 1);
    for (uint32_t i = 0; i < keys.n; i++)
        for (int k = 0; k < knob_count; k++)
            choices[n++] = (Choice){.key = keys.at[i], .knob = &knobs[k]};
    for (int pass = 0; pass < PASSES && s->finished; pass++) {
        if (s->stop(s->ctx)) s->finished = false;
        if (!s->finished || !pass_over(&w, choices, n)) break;
        moved = true;
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
