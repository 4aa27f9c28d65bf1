// Cells that have no value yet: those that wait for the first batch of training
// (ProgCell.first_batch), until an entry has computed them or a file has provided them, and lengths
// of the training (program_told), until the caller has written them.
#include "runtime/exec/exec.h"

bool rt_cell_waits(const RtSession *s, int i)
{
    pthread_mutex_lock(&s->cells->lock);
    bool waits = s->cells->cell[i]->waits;
    pthread_mutex_unlock(&s->cells->lock);
    return waits;
}

// told: lengths of the training, else cells that wait for the first batch.
static void each_cell(RtSession *s, RtProgram *p, const char *entry, bool told, bool given,
                      const char **first)
{
    RtError none = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &none);
    for (int i = 0; en && i < en->e->nbuffers; i++) {
        const ProgBuffer *b = &en->e->buffers[i];
        RtCell *c = b->region == PR_CELL ? en->bound->cell[b->index] : NULL;
        if (!c || !c->waits || c->info.first_batch == told) continue;
        if (given) c->waits = false;
        if (!*first) *first = c->name;
    }
}

const char *rt_entry_waits(RtSession *s, RtProgram *p, const char *entry)
{
    const char *first = NULL;
    each_cell(s, p, entry, false, false, &first);
    return first;
}

const char *rt_entry_untold(RtSession *s, RtProgram *p, const char *entry)
{
    const char *first = NULL;
    each_cell(s, p, entry, true, false, &first);
    return first;
}

void rt_entry_given(RtSession *s, RtProgram *p, const char *entry)
{
    const char *first = NULL;
    each_cell(s, p, entry, false, true, &first);
}

void rt_cell_take_back(RtSession *s, const char *cell)
{
    RtCell *c = rt_cells_find(s->cells, cell);
    if (c) c->waits = true;
}
