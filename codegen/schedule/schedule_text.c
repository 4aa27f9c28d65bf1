// Schedules as text: printed, also in the head comments of kernels, and read from tuning files.
#include "codegen/schedule/knobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "codegen/schedule/plans.h"
#include "base/names.h"

void knob_value_text(const Knob *k, int64_t v, Buf *out)
{
    if (k->words)
        buf_str(out, k->words[v]);
    else
        buf_printf(out, "%lld", (long long)v);
}

const char *schedule_kind_name(ScheduleKind k)
{
    static const char *const names[] = {"map", "row", "column", "sweep", "tile", "attention"};
    return names[k];
}

const char *schedule_text(Arena *a, const Body *b, const Target *t, bool whole)
{
    Buf o = buf_new(a);
    int64_t legal[KNOB_VALUES];
    buf_str(&o, schedule_kind_name(b->sched.kind));
    for (const Knob *k = knobs; k->name; k++) {
        int64_t v = knob_get(k, b);
        if ((!whole && v == k->off) || !k->legal(b, t, legal)) continue;
        buf_printf(&o, " %s=", k->name);
        knob_value_text(k, v, &o);
    }
    return o.data;
}

// -- reading --------------------------------------------------------------------------------------

static const Knob *find_knob(const char *name, size_t n)
{
    for (const Knob *k = knobs; k->name; k++)
        if (strlen(k->name) == n && !strncmp(k->name, name, n)) return k;
    return NULL;
}

static bool parse_value(const Knob *k, const char *text, int64_t *v)
{
    char *end;
    for (int i = 0; k->words && k->words[i]; i++)
        if (!strcmp(k->words[i], text)) return *v = i, true;
    if (k->words || !plain_digit(*text)) return false;
    *v = strtoll(text, &end, 10);
    return !*end && *v <= 1 << 30;
}

static const char *unknown_knob(Arena *a, const char *name)
{
    const char *names[32];
    size_t n = 0;
    for (const Knob *k = knobs; k->name && n < 32; k++) names[n++] = k->name;
    return arena_printf(a, "there is no knob '%s'%s", name, advise(name, names, n).text);
}

static const char *not_legal(Arena *a, const Body *b, const Target *t, const Knob *k,
                             const char *value)
{
    int64_t legal[KNOB_VALUES];
    Buf o = buf_new(a);
    int n = k->legal(b, t, legal);
    if (n == 0) {
        buf_printf(&o, "a %s schedule of this kernel has no knob '%s'",
                   schedule_kind_name(b->sched.kind), k->name);
        return o.data;
    }
    buf_printf(&o, "%s=%s is not possible here (%s); with the other knobs as given: ", k->name,
               value, k->doc);
    for (int i = 0; i < n; i++) {
        buf_str(&o, i ? ", " : "");
        knob_value_text(k, legal[i], &o);
    }
    return o.data;
}

enum { MOST_WORDS = 32 };
typedef struct Words {
    const Knob *knob[MOST_WORDS];
    const char *value[MOST_WORDS];
    int64_t number[MOST_WORDS];
    int n;
} Words;

static const char *read_words(Arena *a, const char *text, Words *w)
{
    for (char *at = arena_strdup(a, text), *word; (word = strtok_r(at, " \t", &at));) {
        char *eq = strchr(word, '=');
        if (!eq || eq == word || !eq[1]) return arena_printf(a, "'%s' is not name=value", word);
        *eq = 0;
        const Knob *k = find_knob(word, strlen(word));
        if (!k) return unknown_knob(a, word);
        if (w->n == MOST_WORDS) return "there are too many words";
        for (int i = 0; i < w->n; i++)
            if (w->knob[i] == k) return arena_printf(a, "%s is given twice", word);
        int64_t v;
        if (!parse_value(k, eq + 1, &v))
            return arena_printf(a, "%s=%s: that is not a value of the knob '%s' (%s)", word, eq + 1,
                                k->name, k->doc);
        w->knob[w->n] = k;
        w->value[w->n] = eq + 1;
        w->number[w->n++] = v;
    }
    return NULL;
}

// Sets the named knobs, each as soon as the knobs already set allow its value; the other knobs
// follow. Values that are not allowed never get into the schedule, because plans may divide by
// them. Returns the first word whose value the body cannot have on this target; -1: all are set.
static int apply(const Words *w, Body *b, const Target *t)
{
    const Knob *knob[MOST_WORDS];
    int64_t number[MOST_WORDS];
    bool set[MOST_WORDS] = {0};
    for (int n = 0, before = -1; before < n;) {
        before = n;
        for (int i = 0; i < w->n; i++) {
            if (set[i] || !knob_allows(w->knob[i], b, t, w->number[i])) continue;
            set[i] = true;
            knob[n] = w->knob[i];
            number[n++] = w->number[i];
            knobs_set(knob, number, n, b, t);
        }
    }
    for (int i = 0; i < w->n; i++)
        if (!set[i] || knob_get(w->knob[i], b) != w->number[i] ||
            !knob_allows(w->knob[i], b, t, w->number[i]))
            return i;
    return -1;
}

// Whether the schedule is legal on some GPU: then it was measured on another GPU than this target,
// which, if no device is known, has only the capabilities that all GPUs have.
static bool elsewhere(const Words *w, const Body *b)
{
    static const int archs[] = {80, 90, 100};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        Target t = target_cuda(archs[i], true);
        Body other = *b;
        if (apply(w, &other, &t) < 0) return true;
    }
    return false;
}

// Sets the body's schedule from its text; other knobs keep their values if possible. Returns NULL,
// or what is wrong; then the schedule is unchanged. *stale: the text is correct, but for another
// kind of schedule or another GPU.
static const char *schedule_parse(Arena *a, Body *b, const Target *t, const char *text, bool *stale)
{
    Words w = {0};
    size_t n = strcspn(text, " \t");
    *stale = false;
    bool known = false;
    for (int k = SCHED_MAP; k <= SCHED_ATTENTION; k++)
        known |= strlen(schedule_kind_name(k)) == n && !strncmp(text, schedule_kind_name(k), n);
    if (!known) return arena_printf(a, "'%.*s' is not a kind of schedule", (int)n, text);
    const char *wrong = read_words(a, text + n, &w);
    if (wrong) return wrong;
    const char *own = schedule_kind_name(b->sched.kind);
    if (strlen(own) != n || strncmp(text, own, n)) {
        *stale = true;
        return arena_printf(a, "it is for a %.*s schedule, the kernel has a %s schedule now",
                            (int)n, text, own);
    }
    Schedule before = b->sched;
    int bad = apply(&w, b, t);
    if (bad < 0) return NULL;
    wrong = not_legal(a, b, t, w.knob[bad], w.value[bad]);
    b->sched = before;
    *stale = t->kind == TARGET_CUDA && elsewhere(&w, b);
    return *stale ? arena_printf(
                        a, "%s=%s is a schedule of other GPUs than %s as it is compiled for here",
                        w.knob[bad]->name, w.value[bad], t->name)
                  : wrong;
}

void schedule_override(LowerCtx *ctx, Body *b)
{
    bool stale = false;
    b->key = body_key(b);
    const ScheduleSource *from = ctx->schedules;
    const char *text = from ? from->find(from->ctx, b->key) : NULL;
    const char *wrong = text ? schedule_parse(ctx->arena, b, ctx->target, text, &stale) : NULL;
    if (wrong) from->wrong(from->ctx, b->key, wrong, stale);
}
