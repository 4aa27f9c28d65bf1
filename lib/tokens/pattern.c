// Matching: a program of a few kinds of instructions, with a stack of positions to return to. A run
// of characters is one instruction, however long it is.
#include <stdlib.h>

#include "lib/tokens/pattern_code.h"

typedef struct PatternBack {
    int pc;
    const unsigned char *at, *low; // low: may be retried with at one character less, down to low;
                                   // NULL: only with at
} PatternBack;

void pattern_work_free(PatternWork *w)
{
    free(w->at);
    *w = (PatternWork){0};
}

const char *pattern_text(const Pattern *p)
{
    return p->text;
}

enum { STEPS = 1 << 22, STEPS_BYTE = 100 }; // STEPS: minimum limit for a text of any length

static void reach(PatternWork *w, const unsigned char *at)
{
    if (at > w->reach) w->reach = at;
}

// Called when the step limit is reached; returns whether it can be raised.
static bool go_on(PatternWork *w, const unsigned char *at)
{
    reach(w, at);
    w->most = STEPS + STEPS_BYTE * (size_t)(w->reach - w->from);
    return w->steps < w->most || !(w->slow = true);
}

static bool push(PatternWork *w, PatternBack b)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        PatternBack *more = realloc(w->at, cap * sizeof *more);
        if (!more) return !(w->lost = true);
        w->at = more;
        w->cap = cap;
    }
    w->at[w->n++] = b;
    return true;
}

// The length in bytes of the character at [at] if it is in the set; otherwise 0.
static inline int one(const Pattern *p, const Set *s, const unsigned char *at,
                      const unsigned char *end)
{
    int bytes;
    if (*at < 0x80) return s->ascii[*at];
    uint32_t c = utf8_next(at, end, &bytes);
    return set_has(s, p->category, c) ? bytes : 0;
}

static const unsigned char *match(const Pattern *p, PatternWork *w, int pc, const unsigned char *at,
                                  const unsigned char *end);

// Matches a run of characters. false: it is too short.
static bool run(const Pattern *p, PatternWork *w, int pc, const unsigned char **at,
                const unsigned char *end)
{
    const Code *c = &p->code[pc];
    const unsigned char *low = c->low ? NULL : *at, *to = *at;
    int64_t n = 0;
    for (int bytes; n < c->high && to < end && (bytes = one(p, c->set, to, end)); to += bytes) {
        if (n++ == c->low) low = to;
    }
    w->steps += (size_t)n; // counted for every position at which a match may begin
    if (n < c->low) return false;
    if (n == c->low) low = to;
    *at = to;
    return c->op == OP_OWNED || low == to || push(w, (PatternBack){pc + 1, to, low});
}

static bool back(PatternWork *w, size_t base, int *pc, const unsigned char **at)
{
    reach(w, *at);
    if (w->n == base || w->lost || w->slow) return false;
    PatternBack *b = &w->at[w->n - 1];
    *pc = b->pc;
    if (b->low) b->at = utf8_before(b->low, b->at);
    *at = b->at;
    if (!b->low || b->at == b->low) w->n--;
    return true;
}

// The end of a match that begins at [at]; NULL: it does not match.
static const unsigned char *match(const Pattern *p, PatternWork *w, int pc, const unsigned char *at,
                                  const unsigned char *end)
{
    size_t base = w->n;
    for (;;) {
        const Code *c = &p->code[pc];
        bool ok = true;
        int bytes;
        if (++w->steps >= w->most && !go_on(w, at)) return NULL;
        switch (c->op) {
        case OP_SET:
            ok = at < end && (bytes = one(p, c->set, at, end));
            if (ok) at += bytes;
            break;
        case OP_RUN:
        case OP_OWNED: ok = run(p, w, pc, &at, end); break;
        case OP_SPLIT: ok = push(w, (PatternBack){c->to, at, NULL}); break;
        case OP_JUMP: pc = c->to - 1; break;
        case OP_AHEAD:
        case OP_NOT:
            ok = (match(p, w, pc + 1, at, end) != NULL) == (c->op == OP_AHEAD) && !w->lost &&
                 !w->slow;
            pc = c->to - 1;
            break;
        case OP_FINISH: ok = at == end; break;
        case OP_LINE: ok = at == end || *at == '\n'; break;
        case OP_MATCH:
            reach(w, at); // end of a lookahead
            w->n = base;
            return at;
        }
        pc++;
        if (!ok && !back(w, base, &pc, &at)) return NULL;
    }
}

bool pattern_find(const Pattern *p, PatternWork *w, const unsigned char *from,
                  const unsigned char *end, Piece *out)
{
    w->from = w->reach = from;
    w->steps = w->n = 0;
    w->most = STEPS;
    w->lost = w->slow = false;
    for (int bytes; from < end && !w->lost && !w->slow; from += bytes) {
        const unsigned char *to = match(p, w, 0, from, end);
        if (to) {
            *out = (Piece){from, to};
            return true;
        }
        utf8_next(from, end, &bytes);
    }
    return false;
}
