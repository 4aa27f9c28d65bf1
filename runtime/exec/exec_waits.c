// Cells that wait for the first batch of training (ProgCell.first_batch): they have no value until
// an entry has computed it or a file has provided it.
#include "runtime/exec/exec.h"

bool rt_cell_waits(const RtSession *s, int i)
{
    pthread_mutex_lock(&s->cells->lock);
    bool waits = s->cells->cell[i]->waits;
    pthread_mutex_unlock(&s->cells->lock);
    return waits;
}

static void each_cell(RtSession *s, RtProgram *p, const char *entry, bool given, const char **first)
{
    RtError none = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &none);
    for (int i = 0; en && i < en->e->nbuffers; i++) {
        const ProgBuffer *b = &en->e->buffers[i];
        RtCell *c = b->region == PR_CELL ? en->bound->cell[b->index] : NULL;
        if (!c || !c->waits) continue;
        if (given) c->waits = false;
        if (!*first) *first = c->name;
    }
}

const char *rt_entry_waits(RtSession *s, RtProgram *p, const char *entry)
{
    const char *first = NULL;
    each_cell(s, p, entry, false, &first);
    return first;
}

void rt_entry_given(RtSession *s, RtProgram *p, const char *entry)
{
    const char *first = NULL;
    each_cell(s, p, entry, true, &first);
}
