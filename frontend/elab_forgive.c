// Entries that are not run. They are still elaborated for the cells they define, which other
// entries may share; an error in them is only reported as a note.
#include "frontend/elab.h"

Before elab_before(const Elab *e)
{
    return (Before){e->diags->list.n, e->diags->errors, e->cell_list.n};
}

static void tell(Elab *e, const Before *b, const char *name)
{
    Diags wrong = *e->diags; // only the first error is shown
    wrong.list.at += b->diags;
    wrong.list.n = wrong.errors = 1;
    Buf text = buf_new(e->arena);
    buf_printf(&text, "note: '%s' is not run here, and it has errors:\n", name);
    diags_render(&wrong, &text, false);
    if (text.len && text.data[text.len - 1] == '\n') text.data[text.len - 1] = 0;
    vec_push(e->arena, &e->module->notes, text.data);
}

void elab_forget(Elab *e, const Before *b)
{
    for (uint32_t i = b->cells; i < e->cell_list.n; i++)
        strmap_set(&e->cells, e->cell_list.at[i]->cell.name, NULL);
    e->cell_list.n = b->cells;
}

bool elab_forgive(Elab *e, const Before *b, const char *name)
{
    if (e->diags->errors == b->errors) return true;
    tell(e, b, name);
    e->diags->list.n = b->diags;
    e->diags->errors = b->errors;
    // If an entry that is run needs these definitions, they are elaborated, and their errors
    // reported, again.
    elab_forget(e, b);
    for (uint32_t i = 0; i < e->files.n; i++)
        for (uint32_t k = 0; k < e->files.at[i]->globals.n; k++)
            ((Global *)e->files.at[i]->globals.entry[k].value)->state = GLOBAL_NEW;
    return false;
}
