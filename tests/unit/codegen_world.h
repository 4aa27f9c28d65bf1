// A module with one graph, built by hand, and the program that the passes and codegen make of it.
#ifndef TESTS_UNIT_CODEGEN_WORLD_H
#define TESTS_UNIT_CODEGEN_WORLD_H

#include <string.h>

#include "codegen/codegen.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct World {
    Arena *a;
    Diags *d;
    Module *m;
    Graph *g;
    Target target;
    CodegenOptions options;
} World;

static inline World world_on(Arena *a, Target target)
{
    World w = {.a = a, .d = diags_new(a), .target = target};
    w.m = module_new(a, w.d, "test");
    w.g = graph_new(a, w.d, NULL);
    return w;
}

static inline Type f32(int rank, int64_t d0, int64_t d1)
{
    return type_make(DT_F32, rank, (int64_t[]){d0, d1});
}

static inline Node *cell(World *w, Op op, const char *name, Type t)
{
    if (!module_cell(w->m, name)) {
        Cell c = {.name = name, .kind = op == OP_param ? CELL_PARAM : CELL_STATE, .type = t};
        module_add_cell(w->m, &c);
    }
    return graph_leaf_cell(w->g, op, name, &t);
}

// The graph as an entry; cursor: the cell its row table is read at, or NULL. The program is read as
// it was written. NULL: failed, which is reported.
static inline Program *compile_on(World *w, const char *entry, EntryKind kind, const char *cursor)
{
    Entry e = {.name = entry, .kind = kind, .graph = w->g, .batch = 1};
    e.rows = cursor != NULL;
    e.cursor = cursor;
    vec_push(w->a, &w->m->entries, e);
    PassOptions po = {.target = &w->target};
    w->options.target = &w->target;
    Program *p = passes_run(w->m, &po, NULL) ? codegen(w->m, &w->options) : NULL;
    Buf b = buf_new(w->a), again = buf_new(w->a);
    if (!p) {
        diags_render(w->d, &b, false);
        printf("%s", b.data);
        CHECK(p != NULL);
        return NULL;
    }
    const char *error;
    program_write(p, &b);
    Program *q = program_read(w->a, b.data, b.len, &error);
    CHECK_MSG(q != NULL, "%s", error);
    if (q) program_write(q, &again);
    CHECK(b.len == again.len && !memcmp(b.data, again.data, b.len));
    return p;
}

static inline int count_steps(const ProgEntry *e, ProgStepKind kind)
{
    int n = 0;
    for (int i = 0; i < e->nsteps; i++) n += e->steps[i].kind == kind;
    return n;
}

#endif
