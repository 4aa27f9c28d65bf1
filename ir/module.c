// Modules: cells and entries by name.
#include "ir/module.h"

#include <string.h>

Module *module_new(Arena *a, Diags *d, const char *name)
{
    Module *m = NEW(a, Module);
    m->arena = a;
    m->diags = d;
    m->name = arena_strdup(a, name);
    vec_push(a, &m->symbols, NULL);
    m->cell_index = strmap_new(a);
    return m;
}

Cell *module_add_cell(Module *m, const Cell *c)
{
    vec_push(m->arena, &m->cells, *c);
    strmap_set(&m->cell_index, c->name, (void *)(uintptr_t)m->cells.n);
    return &m->cells.at[m->cells.n - 1];
}

Cell *module_cell(const Module *m, const char *name)
{
    uintptr_t at = (uintptr_t)strmap_get(&m->cell_index, name);
    return at ? &m->cells.at[at - 1] : NULL;
}

Entry *module_entry(Module *m, const char *name)
{
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (!strcmp(m->entries.at[i].name, name)) return &m->entries.at[i];
    return NULL;
}

// -- leaving out ----------------------------------------------------------------------------------

// Adds the cells that the graph reads or writes to [used].
static void use_cells(const Graph *g, StrMap *used)
{
    VEC(const Graph *) stack = {0};
    vec_push(g->arena, &stack, g);
    while (stack.n) {
        const Graph *r = stack.at[--stack.n];
        for (uint32_t i = 0; i < r->nodes.n; i++) {
            const Node *n = r->nodes.at[i];
            if (node_has(n, OPF_CELL) || n->op == OP_assign)
                strmap_set(used, attr_str(n, ATTR_name), (void *)n);
            for (uint32_t k = 0; k < n->nregions; k++) vec_push(g->arena, &stack, n->regions[k]);
        }
    }
}

// The graph of an init entry, with roots only for the cells used.
static Graph *init_of(const Graph *init, const StrMap *used)
{
    Graph part = *init;
    part.roots.at = NEW_ARRAY(init->arena, Node *, init->roots.n + 1);
    part.roots.n = 0;
    for (uint32_t i = 0; i < init->roots.n; i++)
        if (strmap_has(used, attr_str(init->roots.at[i], ATTR_name)))
            part.roots.at[part.roots.n++] = init->roots.at[i];
    return graph_copy_live(&part);
}

// Reduces the init entries to the cells used. The cells that they read for these become used, too.
static void keep_inits(Module *m, StrMap *used)
{
    Graph **whole = NEW_ARRAY(m->arena, Graph *, m->entries.n + 1);
    for (uint32_t i = 0; i < m->entries.n; i++) whole[i] = m->entries.at[i].graph;
    for (uint32_t before = UINT32_MAX; before != used->n;) {
        before = used->n;
        for (uint32_t i = 0; i < m->entries.n; i++) {
            Entry *e = &m->entries.at[i];
            if (e->kind != ENTRY_INIT) continue;
            e->graph = init_of(whole[i], used);
            use_cells(e->graph, used);
        }
    }
}

static void keep_cells(Module *m, const StrMap *used)
{
    uint32_t kept = 0;
    m->cell_index = strmap_new(m->arena);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        Cell c = m->cells.at[i];
        bool scalar = c.kind == CELL_SETTING || c.kind == CELL_CONTROL; // can be set by name even
                                                                        // if no entry uses it
        if (!scalar && !strmap_has(used, c.name)) continue;
        m->cells.at[kept++] = c;
        strmap_set(&m->cell_index, c.name, (void *)(uintptr_t)kept);
    }
    m->cells.n = kept;
}

void module_keep(Module *m, const char *const *names, uint32_t n)
{
    StrMap wanted = strmap_new(m->arena), used = strmap_new(m->arena);
    for (uint32_t i = 0; i < n; i++) strmap_set(&wanted, names[i], m);
    uint32_t kept = 0;
    bool trains = false, init = strmap_has(&wanted, "init");
    for (uint32_t i = 0; i < m->entries.n; i++) {
        Entry *e = &m->entries.at[i];
        if (e->kind == ENTRY_INIT ? !init : !strmap_has(&wanted, e->name)) continue;
        if (!strcmp(e->name, ENTRY_FIRST_BATCH) && !strmap_has(&wanted, "train")) continue;
        trains |= e->kind == ENTRY_TRAIN;
        if (e->kind != ENTRY_INIT) use_cells(e->graph, &used);
        m->entries.at[kept++] = *e;
    }
    m->entries.n = kept;
    if (trains) return;
    keep_inits(m, &used);
    keep_cells(m, &used);
}
