// A failing draft cut down to a few lines that fail the same way: outputs and statements are
// dropped, operands become inputs, sizes become small, as long as it still fails.
#include <string.h>

#include "base/clock.h"
#include "tests/fuzz/programs/jobs.h"

typedef struct Shrink {
    const Options *o;
    const Variant *v;
    Report *report;
    Draft best;
    Outcome outcome;
    double end; // of the time for it
    int tries;
} Shrink;

char *file_of(Arena *a, const Draft *drafts, int n)
{
    Buf b = buf_new(a);
    buf_str(&b, draft_header);
    for (int i = 0; i < n; i++) draft_print(&drafts[i], &b);
    return b.data;
}

char *wide_file_of(Arena *a, const Draft *drafts, int n)
{
    if (drafts[0].size != SIZE_LARGE) return NULL;
    Draft *wide = NEW_ARRAY(a, Draft, n);
    for (int i = 0; i < n; i++) {
        wide[i] = drafts[i];
        wide[i].wide = true;
    }
    return file_of(a, wide, n);
}

// Takes the candidate when it fails as the original does.
static bool try(Shrink *s, Draft *candidate)
{
    if (clock_now() > s->end || !draft_derive(candidate)) return false;
    draft_live(candidate);
    Arena *a = arena_new();
    jmp_buf oom;
    bool same = false;
    if (!a || setjmp(oom)) return false;
    arena_on_oom(a, &oom);
    Outcome o = job_try(s->o, s->v, file_of(a, candidate, 1), wide_file_of(a, candidate, 1),
                        candidate->number, s->report);
    s->tries++;
    same =
        o.state == s->outcome.state && (o.state != FAILED || !strncmp(o.why, s->outcome.why, 24));
    arena_free(a);
    if (!same) return false;
    s->best = *candidate;
    s->outcome = o;
    return true;
}

static bool drop_outputs(Shrink *s)
{
    bool any = false;
    int outputs = 0;
    for (int i = 0; i < s->best.n; i++) outputs += s->best.at[i].output;
    for (int i = 0; i < s->best.n && outputs > 1; i++) { // one alone
        if (!s->best.at[i].output) continue;
        Draft d = s->best;
        for (int k = 0; k < d.n; k++) d.at[k].output = k == i;
        if (try(s, &d)) return true;
    }
    for (int i = 0; i < s->best.n && outputs > 1; i++) {
        if (!s->best.at[i].output) continue;
        Draft d = s->best;
        d.at[i].output = false;
        if (try(s, &d)) any = true, outputs--;
    }
    return any;
}

// The output moves to an operand of it.
static bool earlier_outputs(Shrink *s)
{
    for (int i = 0; i < s->best.n; i++) {
        if (!s->best.at[i].output) continue;
        for (int k = 0; k < s->best.at[i].n; k++) {
            int from = s->best.at[i].arg[k];
            if (from < 0 || s->best.at[from].kind == &kind_input) continue;
            Draft d = s->best;
            d.at[i].output = false;
            d.at[from].output = true;
            if (try(s, &d)) return true;
        }
    }
    return false;
}

static bool replace_by_operand(Shrink *s, int i)
{
    for (int k = 0; k < s->best.at[i].n; k++) {
        int from = s->best.at[i].arg[k];
        if (from < 0) continue;
        Draft d = s->best;
        for (int j = i + 1; j < d.n; j++)
            for (int a = 0; a < d.at[j].n; a++)
                if (d.at[j].arg[a] == i) d.at[j].arg[a] = from;
        if (d.at[i].output) {
            if (d.at[from].kind == &kind_input) continue;
            d.at[i].output = false;
            d.at[from].output = true;
        }
        if (try(s, &d)) return true;
    }
    return false;
}

static bool replace_by_input(Shrink *s, int i)
{
    Draft d = s->best;
    if (d.at[i].output) return false;
    Statement leaf = {.kind = &kind_input, .leaf = d.at[i].type};
    d.at[i] = leaf;
    return try(s, &d);
}

static bool simpler_statements(Shrink *s)
{
    bool any = false;
    for (int i = s->best.n - 1; i >= 0; i--) {
        const Statement *at = &s->best.at[i];
        if (!at->live || at->kind == &kind_input) continue;
        any |= replace_by_input(s, i) || replace_by_operand(s, i);
    }
    return any;
}

// Every axis of this size in an input, together.
static bool resize(Shrink *s, int64_t from, int64_t to)
{
    Draft d = s->best;
    for (int i = 0; i < d.n; i++)
        for (int k = 0; k < d.at[i].leaf.rank; k++)
            if (d.at[i].leaf.dim[k] == from) d.at[i].leaf.dim[k] = to;
    return to > 0 && to < from && try(s, &d);
}

static bool smaller_sizes(Shrink *s)
{
    bool any = false;
    for (int i = 0; i < s->best.n; i++) {
        if (!s->best.at[i].live) continue;
        for (int k = 0; k < s->best.at[i].leaf.rank; k++) {
            int64_t n = s->best.at[i].leaf.dim[k];
            any |= resize(s, n, 1) || resize(s, n, 2) || resize(s, n, n / 4) ||
                   resize(s, n, n / 2) || resize(s, n, n * 3 / 4) || resize(s, n, n - 1);
        }
    }
    return any;
}

Draft draft_shrink(const Options *o, const Variant *v, const Draft *d, Outcome *outcome, Report *r)
{
    Options quick = *o;
    Shrink s = {.o = &quick, .v = v, .report = r, .best = *d, .outcome = *outcome};
    if (quick.limit > 30) quick.limit = 30;
    s.end = clock_now() + 90;
    for (bool any = true; any;) {
        any = drop_outputs(&s);
        any |= earlier_outputs(&s);
        any |= simpler_statements(&s);
        any |= smaller_sizes(&s);
    }
    *outcome = s.outcome;
    return s.best;
}
