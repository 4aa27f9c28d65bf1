// Cells that an entry of their own computes from parameters (passes/prepare.c): they get memory and
// values when an entry that reads them first runs, and new values when a cell that they depend on
// has changed since.
//
// Every change of a cell gets a number from one counter of all sessions that share it. A prepared
// value is up to date if none of the cells that it depends on has a higher number.
#include <stdlib.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/exec_cells.h"

static RtEntry *prepares(const RtEntry *en)
{
    const Program *p = en->bound->program->p;
    int at = program_preparing(p, en->e);
    return at < 0 ? NULL : &en->bound->entry[at];
}

void rt_cell_changed(RtSession *s, RtCell *c)
{
    atomic_store(&c->changed, atomic_fetch_add(&s->cells->changes, 1) + 1);
}

void rt_entry_changes(RtSession *s, const RtEntry *en)
{
    if (!atomic_load(&s->cells->prepares)) return;
    for (int i = 0; i < en->nwritten; i++) rt_cell_changed(s, en->written[i]);
}

// Whether the cells that [en] writes have memory and are newer than those it reads.
static bool is_fresh(const RtEntry *en)
{
    int64_t made = INT64_MAX, changed = 0;
    for (int i = 0; i < en->nwritten; i++) {
        int64_t at = en->written[i]->at ? atomic_load(&en->written[i]->changed) : -1;
        if (at < made) made = at;
    }
    for (int i = 0; i < en->e->nbuffers; i++) {
        const ProgBuffer *b = &en->e->buffers[i];
        const RtCell *c = b->region == PR_CELL ? en->bound->cell[b->index] : NULL;
        if (!c || c->info.kind == PC_PREPARED) continue;
        if (atomic_load(&c->replayed)) return false;
        int64_t at = atomic_load(&c->changed);
        if (at > changed) changed = at;
    }
    return made >= changed;
}

static RtCode give_memory(RtSession *s, const RtEntry *en, RtError *e)
{
    for (int i = 0; i < en->nwritten; i++)
        if (!en->written[i]->at && rt_cell_memory(s->cells, en->written[i], e)) return e->code;
    return RT_OK;
}

static RtCode make(RtSession *s, RtEntry *en, RtError *e)
{
    if (give_memory(s, en, e) || rt_entry_memory(s, en, e)) return e->code;
    rt_entry_resolve(s, en);
    rt_entry_enqueued(en);
    int64_t now = atomic_load(&s->cells->changes);
    if (rt_entry_steps(s, en, NULL, e)) return e->code;
    // Waits, since streams of other sessions do not wait for this one.
    if (atomic_load(&s->cells->refs) > 1 && s->device->ops->stream_sync(s->stream, e))
        return e->code;
    for (int i = 0; i < en->nwritten; i++) atomic_store(&en->written[i]->changed, now);
    return RT_OK;
}

RtCode rt_prepare(RtSession *s, RtEntry *en, RtError *e)
{
    RtEntry *before = prepares(en);
    bool asked = program_prepares(en->e); // the entry itself prepares values
    if (!before && !asked) return RT_OK;
    pthread_mutex_lock(&s->cells->preparing);
    atomic_store(&s->cells->prepares, true);
    RtCode code = asked              ? give_memory(s, en, e)
                  : is_fresh(before) ? rt_entry_memory(s, before, e) // may be needed for a capture
                                     : make(s, before, e);
    pthread_mutex_unlock(&s->cells->preparing);
    return code;
}
