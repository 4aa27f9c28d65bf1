// netc_time: times executions of an entry that are enqueued as in a run.
#include "lib/inspect/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/synthetic.h"

enum {
    PERIOD = 1048573,      // number of values drawn; larger inputs repeat them
    MOST_STEPS = 256,      // executions in a row
    FEWER = 4,             // factor by which these are reduced if the model fails with so many
    MOST_ROWS = 1 << 24,   // of the row table
    DATA_BYTES = 32 << 20, // of a made-up data set, unless a batch is larger
    MOST_EXAMPLES = 1 << 16,
};
#define FILL 10e-3 // seconds that executions in a row should take by default

static void *make_up(Arena *a, const ProgInput *in, int64_t examples, int64_t seed)
{
    ProgInput whole = *in, some = *in;
    if (examples) whole.type.dim[0] = examples;
    size_t bytes = (size_t)prog_type_bytes(&whole.type);
    char *p = arena_alloc(a, bytes + 1);
    int64_t n = (int64_t)bytes / prog_dtype_bytes(in->type.dtype);
    some.type.rank = 1;
    some.type.dim[0] = n < PERIOD ? n : PERIOD;
    size_t have = (size_t)prog_type_bytes(&some.type);
    synthetic_fill(&some, seed, p);
    for (size_t more; have < bytes; have += more) {
        more = have < bytes - have ? have : bytes - have;
        memcpy(p + have, p, more);
    }
    return p;
}

netc_status timing_fail(const Timing *t, RtError *e, netc_error **err)
{
    size_t n = strlen(e->text);
    if (e->code == RT_CHECK && t->guessed)
        snprintf(e->text + n, sizeof e->text - n,
                 "\n  (the data are made up, within the ranges that inputs declare, as in "
                 "'x: i32[n] in 0..10'; --data NAME=FILE gives others)");
    return lib_fail_rt(err, e);
}

static netc_status make_up_input(Timing *t, const ProgInput *in, int64_t examples, netc_error **err)
{
    ProgType type = in->type;
    type.dim[0] = examples;
    netc_tensor x = tensor_of(&type, make_up(t->arena, in, examples, t->o->seed));
    return netc_dataset_add_array(t->made_up, in->name, &x, err);
}

// Makes up a data set for an entry that reads rows, and for the first batch, which it may wait for.
static netc_status make_up_rows(Timing *t, netc_error **err)
{
    const ProgEntry *e = t->e;
    int64_t row = 1, examples;
    for (int i = 0; i < e->ninputs; i++) {
        const ProgType *x = &e->inputs[i].type;
        if (x->rank && x->dim[0] > 0) row += prog_type_bytes(x) / x->dim[0];
    }
    examples = DATA_BYTES / row;
    if (examples > MOST_EXAMPLES) examples = MOST_EXAMPLES;
    if (examples < e->batch) examples = e->batch;
    const ProgEntry *first = program_entry(t->l->build->program, PROG_FIRST_BATCH);
    netc_status status = netc_dataset_create(t->s->context, &t->made_up, err);
    t->guessed = true;
    for (int i = 0; i < e->ninputs && status == NETC_OK; i++)
        status = make_up_input(t, &e->inputs[i], examples, err);
    for (int i = 0; first && i < first->ninputs && status == NETC_OK; i++)
        if (!dataset_find(t->made_up, first->inputs[i].name))
            status = make_up_input(t, &first->inputs[i], examples, err);
    return status;
}

static netc_status bind_table(Timing *t, netc_error **err)
{
    netc_session *s = t->s;
    int64_t examples, batch = t->e->batch, steps = MOST_STEPS;
    netc_status status = t->o->data ? NETC_OK : make_up_rows(t, err);
    if (status == NETC_OK)
        status = bind_rows(s, t->l, t->e, t->o->data ? t->o->data : t->made_up, &examples, err);
    if (status != NETC_OK) return status;
    if (examples < 1) return lib_fail(err, NETC_INVALID, "the data hold no examples");
    if (t->o->steps > steps) steps = t->o->steps;
    if (steps > MOST_ROWS / batch) steps = MOST_ROWS / batch;
    t->most = steps < 1 ? 1 : steps;
    const ProgEntry *first = program_entry(t->l->build->program, PROG_FIRST_BATCH);
    int64_t rows = t->most * batch;
    if (first && first->batch > rows) rows = first->batch;
    int32_t *row = NEW_ARRAY(t->arena, int32_t, rows);
    for (int64_t i = 0; i < rows; i++) row[i] = (int32_t)(i % examples);
    status = session_first_batch(s, t->o->data ? t->o->data : t->made_up, row, err);
    if (status != NETC_OK) return status;
    RtError re = {0};
    if (rt_rows_set(s->rt, t->l->rt, t->e->name, row, t->most * batch, &re) ||
        rt_run(s->rt, t->l->rt, t->e->name, NULL, 0, 1, &re) || rt_sync(s->rt, &re))
        return timing_fail(t, &re, err);
    return NETC_OK;
}

// The first examples of an array, as many as the input takes. NULL: an error was reported.
static const void *first_examples(Timing *t, const ProgInput *x, const RtArray *a, netc_error **err)
{
    if (!a->source) return a->data;
    RtError e = {0};
    int64_t n = x->type.dim[0], row = prog_type_bytes(&x->type) / n;
    char *p = arena_array(t->arena, (size_t)n, (size_t)row);
    for (int64_t i = 0; i < n; i++)
        if (rt_array_row(a, i, p + i * row, &e)) return lib_fail_rt(err, &e), NULL;
    return p;
}

// Bound inputs stay bound; a data set provides its first rows; other inputs get made-up values.
static netc_status bind_arguments(Timing *t, netc_error **err)
{
    const ProgEntry *e = t->e;
    netc_dataset *d = t->o->data;
    netc_status status = d ? dataset_load(d, t->s->program, err) : NETC_OK;
    if (status != NETC_OK) return status;
    RtInput *in = NEW_ARRAY(t->arena, RtInput, e->ninputs + 1);
    for (int i = 0; i < e->ninputs; i++) {
        const ProgInput *x = &e->inputs[i];
        const RtArray *a = d ? dataset_find(d, x->name) : NULL;
        const Bound *b = bound_find(t->s, e->name, x->name);
        if (a && (a->type.dtype != x->type.dtype || (int64_t)a->bytes < prog_type_bytes(&x->type)))
            return lib_fail(err, NETC_INVALID,
                            "the data for '%s' are too few or of another type for one execution",
                            x->name);
        const void *first = a ? first_examples(t, x, a, err) : NULL;
        if (a && !first) return NETC_INVALID;
        in[i] = a   ? (RtInput){x->name, first, false}
                : b ? (RtInput){x->name, b->data, b->device}
                    : (RtInput){x->name, make_up(t->arena, x, 0, t->o->seed), false};
        t->guessed |= !a && !b;
    }
    t->most = INT32_MAX;
    RtError re = {0};
    if (rt_run(t->s->rt, t->l->rt, e->name, in, e->ninputs, 1, &re) || rt_sync(t->s->rt, &re))
        return timing_fail(t, &re, err);
    return NETC_OK;
}

enum { MOST_REPEATS = 1000000 };

netc_status timing_begin(Timing *t, const char *entry, netc_error **err)
{
    const netc_time_options *o = t->o;
    const ProgEntry *e;
    netc_status status = session_entry(t->s, entry, &t->l, &e, err);
    if (status == NETC_OK) status = session_may_run(t->s, e, err);
    if (status != NETC_OK) return status;
    t->e = e; // from here on, timing_end unbinds its data
    if (o->steps < 0 || o->repeats < 0 || o->repeats > MOST_REPEATS)
        return lib_fail(err, NETC_INVALID,
                        o->steps < 0 ? "steps must be 0 (as many as fill 10 ms) or more"
                                     : "repeats must be from 0 (25 of them) to %d",
                        MOST_REPEATS);
    status = o->restore ? before_take(t, err) : NETC_OK;
    if (status == NETC_OK) status = session_made_up_lengths(t->s, err);
    if (status == NETC_OK) status = t->e->rows ? bind_table(t, err) : bind_arguments(t, err);
    if (status == NETC_OK && o->steps > t->most)
        status = lib_fail(err, NETC_INVALID, "%lld steps in a row are too many; at most %lld",
                          (long long)o->steps, (long long)t->most);
    return status;
}

netc_status timing_end(Timing *t, netc_status status, netc_error **err)
{
    RtError ignored = {0};
    // Unbinds made-up data, which are freed.
    if (t->e && t->e->rows && !t->o->data) {
        rt_data_bind(t->s->rt, t->l->rt, t->e->name, NULL, 0, 0, &ignored);
        if (program_entry(t->l->build->program, PROG_FIRST_BATCH))
            rt_data_bind(t->s->rt, t->l->rt, PROG_FIRST_BATCH, NULL, 0, 0, &ignored);
    }
    netc_dataset_free(t->made_up);
    t->made_up = NULL;
    netc_status back = before_put_back(t, status == NETC_OK ? err : NULL);
    return status == NETC_OK ? back : status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1), low = floor(at);
    int i = (int)low;
    return i + 1 < n ? sorted[i] + (at - low) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

// Computes median, quartiles and deviation; sorts v.
static void timing_statistics(double *v, int n, netc_times *out)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    out->median = quantile(v, n, 0.5);
    out->low = quantile(v, n, 0.25);
    out->high = quantile(v, n, 0.75);
    for (int i = 0; i < n; i++) v[i] = fabs(v[i] - out->median);
    qsort(v, (size_t)n, sizeof *v, by_value);
    out->deviation = quantile(v, n, 0.5);
}

netc_status timing_whole(Timing *t, netc_times *out, netc_error **err)
{
    RtSession *rt = t->s->rt;
    RtError e = {0};
    int repeats = (int)(t->o->repeats ? t->o->repeats : 25);
    int64_t steps = t->o->steps;
    double *v = NEW_ARRAY(t->arena, double, repeats), first;
    if (!steps) {
        if (rt_time(rt, t->l->rt, t->e->name, 1, 1, &first, &e)) return timing_fail(t, &e, err);
        steps = (int64_t)(FILL / (first > 1e-7 ? first : 1e-7));
        if (steps > MOST_STEPS) steps = MOST_STEPS;
        if (steps > t->most) steps = t->most;
        if (steps < 1) steps = 1;
    }
    // Some models fail after fewer executions than fill the time, for example when a cache is full.
    while (rt_time(rt, t->l->rt, t->e->name, steps, repeats, v, &e)) {
        if (e.code != RT_CHECK || t->o->steps || steps == 1) return timing_fail(t, &e, err);
        steps = (steps + FEWER - 1) / FEWER;
        e = (RtError){0};
    }
    *out = (netc_times){.steps = steps, .repeats = repeats};
    timing_statistics(v, repeats, out);
    // Examples per execution: the batch of rows, otherwise the size of the batch dimension.
    out->items = t->e->rows ? t->e->batch : 0;
    for (int i = 0; i < t->e->ndims && !t->e->rows; i++)
        if (t->e->dims[i].batch) out->items = t->e->dims[i].value;
    const char *why = "";
    out->graph = rt_uses_cuda_graph(rt, t->l->rt, t->e->name, &why);
    out->graph_kernels = rt_graph_kernel_nodes(rt, t->l->rt, t->e->name);
    out->graph_steps = rt_graph_executions(rt, t->l->rt, t->e->name);
    snprintf(out->why_not, sizeof out->why_not, "%s", why);
    rt_graph_way(rt, t->l->rt, t->e->name, out->way, sizeof out->way);
    return NETC_OK;
}

typedef struct Call {
    Timing t;
    const char *entry;
    netc_times *out;
    netc_error **err;
    netc_status status;
} Call;

static void time_entry(void *arg)
{
    Call *c = arg;
    c->status = timing_begin(&c->t, c->entry, c->err);
    if (c->status == NETC_OK) c->status = timing_whole(&c->t, c->out, c->err);
}

netc_status netc_time(netc_session *s, const char *entry, const netc_time_options *o,
                      netc_times *out, netc_error **err)
{
    netc_time_options own = {0};
    netc_status status = TAKE_OPTIONS(netc_time_options, &own, o, err);
    if (status != NETC_OK) return status;
    Call c = {
        .t = {.s = s, .o = &own, .arena = arena_new()}, .entry = entry, .out = out, .err = err};
    *out = (netc_times){0};
    if (!c.t.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(c.t.arena, time_entry, &c)) c.status = OUT_OF_MEMORY(err);
    c.status = timing_end(&c.t, c.status, err);
    arena_free(c.t.arena);
    return c.status;
}

netc_status netc_session_memory(netc_session *s, const char *entry, netc_memory *out,
                                netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    *out = (netc_memory){0};
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status != NETC_OK) return status;
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        *(c->kind == PC_PARAM ? &out->parameters : &out->states) += prog_type_bytes(&c->type);
    }
    out->temporaries = e->arena_bytes;
    for (int i = 0; i < e->noutputs; i++) out->outputs += prog_type_bytes(&e->outputs[i].type);
    const Program *p = l->build->program;
    for (int i = 0; i < p->nconsts; i++) out->constants += prog_type_bytes(&p->consts[i].type);
    return NETC_OK;
}
