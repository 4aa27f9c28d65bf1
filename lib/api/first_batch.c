// Parameters and states whose initial values are computed from inputs (data-dependent
// initialisation): the entry "init.batch" computes them from the first batch of training, before
// the first step. Until then, or until a file provides them, they have no value, and entries that
// read them do not run.
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

static const char *const advice = "it is computed from the first batch of training; train the "
                                  "model, or give weights that hold it (--weights FILE)";

// (Called before every execution, so it must be fast: looks only at cells with such an initial
// value.)
static bool any_waits(const netc_session *s)
{
    for (int i = 0; i < rt_cell_count(s->rt); i++)
        if (rt_cell_info(s->rt, i)->first_batch && rt_cell_waits(s->rt, i)) return true;
    return false;
}

netc_status session_ready(netc_session *s, Loaded *l, const ProgEntry *e, netc_error **err)
{
    const char *cell = any_waits(s) ? rt_entry_waits(s->rt, l->rt, e->name) : NULL;
    if (!cell) return NETC_OK;
    return lib_fail(err, NETC_INVALID, "'%s' cannot run: '%s' has no value yet: %s", e->name, cell,
                    advice);
}

netc_status session_savable(netc_session *s, netc_error **err)
{
    for (int i = 0; i < rt_cell_count(s->rt); i++)
        if (rt_cell_waits(s->rt, i) && state_is_saved(rt_cell_info(s->rt, i)))
            return lib_fail(err, NETC_INVALID, "nothing is saved: '%s' has no value yet: %s",
                            rt_cell_info(s->rt, i)->name, advice);
    return NETC_OK;
}

typedef struct Given { // cells whose values come from a file and are kept
    int n;
    const char **name;
    void **data;
} Given;

static const void *find_given(void *ctx, const ProgCell *c)
{
    const Given *g = ctx;
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->name[i], c->name)) return g->data[i];
    return NULL;
}

static netc_status keep_given(netc_session *s, Given *g, netc_error **err)
{
    int n = rt_cell_count(s->rt);
    RtError e = {0};
    g->name = calloc((size_t)n + 1, sizeof *g->name);
    g->data = calloc((size_t)n + 1, sizeof *g->data);
    if (!g->name || !g->data) return OUT_OF_MEMORY(err);
    for (int i = 0; i < n; i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!c->first_batch || rt_cell_waits(s->rt, i)) continue;
        size_t bytes = (size_t)prog_type_bytes(&c->type);
        void *data = malloc(bytes + 1);
        if (!data) return OUT_OF_MEMORY(err);
        g->name[g->n] = c->name;
        g->data[g->n++] = data;
        if (rt_cell_read(s->rt, c->name, data, bytes, &e)) return lib_fail_rt(err, &e);
    }
    return NETC_OK;
}

// The first examples of a data set in the given order or, without one, of what "train" has bound.
typedef struct Batch {
    netc_dataset *data;
    const int32_t *rows;
} Batch;

static netc_status find_bound(const netc_session *s, const ProgEntry *e, RtInput *in,
                              netc_error **err)
{
    for (int i = 0; i < e->ninputs; i++) {
        const char *name = e->inputs[i].name;
        const Bound *b = bound_find(s, "train", name);
        if (!b)
            return lib_fail(err, NETC_INVALID,
                            "input '%s' of 'train' has no value; initial values are computed from "
                            "it before the first step: bind it, too",
                            name);
        in[i] = (RtInput){b->input, b->data, b->device};
    }
    return NETC_OK;
}

static netc_status make(netc_session *s, Loaded *l, const ProgEntry *e, const Batch *b,
                        netc_error **err)
{
    int64_t examples;
    RtError re = {0};
    RtInput *in = calloc((size_t)e->ninputs + 1, sizeof *in);
    if (!in) return OUT_OF_MEMORY(err);
    netc_status status =
        b->data ? bind_rows(s, l, e, b->data, &examples, err) : find_bound(s, e, in, err);
    if (status == NETC_OK &&
        ((b->data && rt_rows_set(s->rt, l->rt, e->name, b->rows, e->batch, &re)) ||
         rt_run(s->rt, l->rt, e->name, in, b->data ? 0 : e->ninputs, 1, &re) ||
         rt_sync(s->rt, &re)))
        status = lib_fail_rt(err, &re);
    free(in);
    if (status == NETC_OK) rt_entry_given(s->rt, l->rt, e->name);
    return status;
}

static netc_status begin(netc_session *s, const Batch *b, netc_error **err)
{
    Loaded *l;
    netc_status status = session_loaded(s, "", "", &l, err);
    const ProgEntry *e =
        status == NETC_OK ? program_entry(l->build->program, PROG_FIRST_BATCH) : NULL;
    if (!e) return status; // (the trained model has no such cells)
    Given given = {0};
    status = keep_given(s, &given, err);
    if (status == NETC_OK) status = make(s, l, e, b, err);
    // Restores given values, then computes the cells that depend on others.
    if (status == NETC_OK) status = state_put(s, &(StateSource){find_given, &given}, err);
    for (int i = 0; i < given.n; i++) free(given.data[i]);
    free(given.data);
    free(given.name);
    return status;
}

netc_status session_first_batch(netc_session *s, netc_dataset *data, const int32_t *rows,
                                netc_error **err)
{
    if (!any_waits(s)) return NETC_OK;
    return begin(s, &(Batch){.data = data, .rows = rows}, err);
}

netc_status session_first_inputs(netc_session *s, netc_error **err)
{
    if (!any_waits(s)) return NETC_OK;
    return begin(s, &(Batch){0}, err);
}
