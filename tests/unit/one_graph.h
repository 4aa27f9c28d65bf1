// A module of one graph, for tests of the passes: built by hand, then made its only entry.
#ifndef TESTS_ONE_GRAPH_H
#define TESTS_ONE_GRAPH_H

#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct Ctx {
    Arena *a;
    Diags *d;
    Module *m;
    Graph *g;
} Ctx;

static inline Ctx begin(void)
{
    Ctx c = {.a = arena_new()};
    c.d = diags_new(c.a);
    c.m = module_new(c.a, c.d, "test");
    c.g = graph_new(c.a, c.d, NULL);
    return c;
}

static inline void add_entry(Ctx *c, Entry e) // of the graph
{
    e.graph = c->g;
    e.batch = 1;
    vec_push(c->a, &c->m->entries, e);
}

// Runs the passes over the entry and prints what they report; then the graph is what they made.
static inline bool run_module(Ctx *c, const PassOptions *o)
{
    bool ok = passes_run(c->m, o, NULL);
    Buf b = buf_new(c->a);
    diags_render(c->d, &b, false);
    if (b.len) printf("%s\n", b.data);
    c->g = c->m->entries.at[0].graph;
    return ok;
}

#endif
