// What timing changes in a session, put back afterwards: cells that the entry writes, lengths of
// the training and, if they are computed from a first batch, which is made up here, all states.
#include <string.h>

#include "lib/inspect/timing.h"

typedef struct BeforeCell {
    const char *name;
    size_t bytes;
    void *data; // NULL: it had no value yet
} BeforeCell;

struct Before {
    int n;
    BeforeCell *cell;
};

static const bool *written_cells(Timing *t)
{
    const Program *p = t->l->build->program;
    bool *written = NEW_ARRAY(t->arena, bool, p->ncells + 1);
    program_written(p, t->e, written);
    return written;
}

static bool is_written(const Timing *t, const bool *written, const char *name)
{
    const Program *p = t->l->build->program;
    for (int i = 0; i < p->ncells; i++)
        if (written[i] && !strcmp(p->cells[i].name, name)) return true;
    return false;
}

netc_status before_take(Timing *t, netc_error **err)
{
    RtSession *rt = t->s->rt;
    RtError e = {0};
    Before *b = NEW(t->arena, Before);
    const bool *written = written_cells(t);
    bool first = false;
    int n = rt_cell_count(rt);
    b->cell = NEW_ARRAY(t->arena, BeforeCell, n + 1);
    for (int i = 0; i < n; i++)
        first = first || (rt_cell_info(rt, i)->first_batch && rt_cell_waits(rt, i));
    for (int i = 0; i < n; i++) {
        const ProgCell *c = rt_cell_info(rt, i);
        if (!program_told(c) && !(first && state_is_saved(c)) && !is_written(t, written, c->name))
            continue;
        BeforeCell *to = &b->cell[b->n++];
        *to = (BeforeCell){.name = c->name, .bytes = (size_t)prog_type_bytes(&c->type)};
        if (rt_cell_waits(rt, i)) continue;
        to->data = arena_alloc(t->arena, to->bytes + 1);
        if (rt_cell_read(rt, c->name, to->data, to->bytes, &e)) return lib_fail_rt(err, &e);
    }
    t->before = b;
    return NETC_OK;
}

netc_status before_put_back(Timing *t, netc_error **err)
{
    const Before *b = t->before;
    RtError e = {0};
    for (int i = 0; b && i < b->n && !e.code; i++) {
        const BeforeCell *c = &b->cell[i];
        if (c->data)
            rt_cell_write(t->s->rt, c->name, c->data, c->bytes, &e);
        else
            rt_cell_take_back(t->s->rt, c->name);
    }
    t->before = NULL;
    return e.code ? lib_fail_rt(err, &e) : NETC_OK;
}
