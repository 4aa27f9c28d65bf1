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
