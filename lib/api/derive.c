// Derived initial values after cells were set from outside: a state whose initial value is computed
// from other cells ("state slow = p") is computed again from what these hold now, unless it was set
// itself.
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

static netc_status put(netc_session *s, const StateSource *from, const ProgCell *c,
                       netc_error **err)
{
    RtError e = {0};
    const void *data = from->find(from->ctx, c);
    if (!data) return NETC_OK;
    return rt_cell_write(s->rt, c->name, data, (size_t)prog_type_bytes(&c->type), &e)
               ? lib_fail_rt(err, &e)
               : NETC_OK;
}

// Runs an entry that computes cells from others, then restores those cells that were given.
static netc_status derive(netc_session *s, const Loaded *l, const ProgEntry *e, const bool *written,
                          const StateSource *from, netc_error **err)
{
    const Program *p = l->build->program;
    RtError re = {0};
    bool all = true; // all cells were given
    for (int i = 0; i < p->ncells; i++)
        all &= !written[i] || from->find(from->ctx, &p->cells[i]) != NULL;
    if (all) return NETC_OK;
    if (rt_run(s->rt, l->rt, e->name, NULL, 0, 1, &re) || rt_sync(s->rt, &re))
        return lib_fail_rt(err, &re);
    netc_status status = NETC_OK;
    for (int i = 0; i < p->ncells && status == NETC_OK; i++)
        if (written[i]) status = put(s, from, &p->cells[i], err);
    return status;
}

netc_status state_put(netc_session *s, const StateSource *from, netc_error **err)
{
    Loaded *l;
    netc_status status = session_loaded(s, "", "", &l, err);
    for (int i = 0; i < rt_cell_count(s->rt) && status == NETC_OK; i++)
        status = put(s, from, rt_cell_info(s->rt, i), err);
    if (status != NETC_OK) return status;
    const Program *p = l->build->program;
    bool *written = malloc((size_t)p->ncells + 1);
    if (!written) return OUT_OF_MEMORY(err);
    for (int i = 0; i < p->nentries && status == NETC_OK; i++) {
        if (!program_derives(&p->entries[i])) continue;
        program_written(p, &p->entries[i], written);
        status = derive(s, l, &p->entries[i], written, from, err);
    }
    free(written);
    return status;
}

bool state_derived(const Program *p, const char *cell)
{
    bool found = false, *written = malloc((size_t)p->ncells + 1);
    for (int i = 0; written && i < p->nentries; i++) {
        if (!program_derives(&p->entries[i])) continue;
        program_written(p, &p->entries[i], written);
        for (int k = 0; k < p->ncells; k++) found |= written[k] && !strcmp(p->cells[k].name, cell);
    }
    free(written);
    return found;
}
