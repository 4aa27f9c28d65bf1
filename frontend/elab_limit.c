// Limits on what elaboration may produce: `l = l + l` doubles a list, and a function that calls
// another one twice doubles the work. Exceeding a limit is one error, long before memory runs out.
#include <string.h>

#include "frontend/elab.h"

enum {
    MOST_ITEMS = 1 << 20
};                             // items of a list, including those of nested lists; or bytes of a
                               // string
enum { MOST_BYTES = 1 << 30 }; // memory of what was elaborated: about 500,000 nodes

bool list_fits(Elab *e, uint64_t n, Span span)
{
    if (n <= MOST_ITEMS) return true;
    fail(e, span, "a list of %llu items; a list known at compile time has at most %d",
         (unsigned long long)n, MOST_ITEMS);
    return false;
}

bool string_fits(Elab *e, uint64_t n, Span span)
{
    if (n <= MOST_ITEMS) return true;
    fail(e, span, "a string of %llu bytes; a string has at most %d", (unsigned long long)n,
         MOST_ITEMS);
    return false;
}

// The number of items in v, where a shared list counts each time, since traversals visit it each
// time.
static uint64_t weight(const Val *v)
{
    if (v->kind != V_LIST && v->kind != V_TUPLE) return 1;
    Seq *s = v->seq;
    if (!s->weight)
        for (uint32_t i = 0; i < s->n && s->weight <= MOST_ITEMS; i++)
            s->weight += weight(&s->at[i]);
    return s->weight;
}

Val bounded(Elab *e, Val v, Span span)
{
    bool list = v.kind == V_LIST || v.kind == V_TUPLE;
    return !list || list_fits(e, weight(&v), span) ? v : val_poison();
}

bool out_of_bounds(Elab *e, Span span)
{
    if (e->stopped || arena_bytes(e->arena) - e->before < MOST_BYTES) return e->stopped;
    e->stopped = true;
    Diag *d = error_at(e, span, "the model takes more than %d MiB to elaborate", MOST_BYTES >> 20);
    diag_note(e->diags, d,
              "a 'for' and every call are written out at compile time; a 'loop' repeats at run "
              "time");
    return true;
}
