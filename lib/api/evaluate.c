// Evaluation: runs the eval entry over a whole data set; a smaller last batch is a second
// specialisation.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plain.h"
#include "lib/api/keep.h"

const char *batch_dim(const ProgEntry *e)
{
    for (int i = 0; i < e->ndims; i++)
        if (e->dims[i].batch) return e->dims[i].name;
    return NULL;
}

bool last_batch(const ProgEntry *e, int64_t examples, char *define, size_t n)
{
    const char *dim = batch_dim(e);
    int64_t rest = e->batch > 0 ? examples % e->batch : 0;
    if (dim && rest) snprintf(define, n, "%s=%" PRId64, dim, rest);
    return dim && rest;
}

const char *last_text(LastText *out, int64_t n)
{
    if (n == 1) return strcpy(*out, "the last example");
    snprintf(*out, sizeof *out, "the last %" PRId64 " examples", n);
    return *out;
}

netc_status need_data(const ProgEntry *e, const netc_dataset *d, const char *option,
                      netc_error **err)
{
    char names[300] = "", options[400] = "";
    int missing = 0;
    for (int i = 0; i < e->ninputs; i++) {
        const char *name = e->inputs[i].name;
        size_t n = strlen(names), m = strlen(options);
        if (!e->inputs[i].data || (d && dataset_find(d, name))) continue;
        snprintf(names + n, sizeof names - n, "%s'%s'", missing ? ", " : "", name);
        snprintf(options + m, sizeof options - m, " %s %s=FILE", option, name);
        missing++;
    }
    if (!missing) return NETC_OK;
    return lib_fail(err, NETC_INVALID, "'%s' needs data for input%s %s; give%s", e->name,
                    missing > 1 ? "s" : "", names, options);
}

netc_status bind_rows(netc_session *s, Loaded *l, const ProgEntry *e, netc_dataset *d,
                      int64_t *examples, netc_error **err)
{
    netc_status status = dataset_load(d, s->program, err);
    if (status != NETC_OK) return status;
    status = need_data(e, d, "--data", err);
    if (status != NETC_OK) return status;
    RtDataBinding b[64];
    int n = 0;
    int64_t count = -1;
    const char *first = NULL;
    for (int i = 0; i < e->ninputs; i++) {
        const ProgInput *in = &e->inputs[i];
        char want[160], have[160];
        prog_type_text(want, sizeof want, &in->type);
        if (!in->data)
            return lib_fail(
                err, NETC_INVALID,
                "input '%s' of '%s' is %s: to take examples from data, its axis 0 must "
                "be a dimension, the same for all inputs; declare one, as in 'dim batch "
                "= 128'",
                in->name, e->name, want);
        const RtArray *a = dataset_find(d, in->name);
        bool fits = a->type.dtype == in->type.dtype && a->type.rank == in->type.rank;
        for (int k = 1; fits && k < in->type.rank; k++) fits = a->type.dim[k] == in->type.dim[k];
        if (!fits) {
            prog_type_text(have, sizeof have, &a->type);
            return lib_fail(
                err, NETC_INVALID,
                "input '%s' of '%s' is %s (axis 0 is the batch), its data is %s (axis 0 is the "
                "examples)",
                in->name, e->name, want, have);
        }
        if (count >= 0 && a->type.dim[0] != count)
            return lib_fail(err, NETC_INVALID,
                            "the data disagree: '%s' has %" PRId64 " example%s, '%s' has %" PRId64,
                            first, count, plural(count), in->name, a->type.dim[0]);
        count = a->type.dim[0];
        first = in->name;
        if (n == 64) return lib_fail(err, NETC_INVALID, "'%s' has more than 64 inputs", e->name);
        b[n++] = (RtDataBinding){in->name, a->data, count ? (int64_t)(a->bytes / (size_t)count) : 0,
                                 a->source};
    }
    if (!count)
        return lib_fail(err, NETC_INVALID, "the data hold no examples: '%s' has none", first);
    *examples = 0;
    if (!e->ninputs) return NETC_OK; // the entry reads no data
    RtError re = {0};
    if (rt_data_bind(s->rt, l->rt, e->name, b, n, count < 0 ? 0 : count, &re))
        return lib_fail_rt(err, &re);
    *examples = count;
    return NETC_OK;
}

static bool sum_cell(char *out, size_t n, const ProgEntry *e, const char *output)
{
    return (size_t)snprintf(out, n, "@sum.%s.%s", e->name, output) < n;
}

// Finds the cell with a value over all examples, which is read after the last batch.
static bool last_cell(netc_session *s, const ProgEntry *e, const char *output, const ProgCell **c)
{
    char cell[256];
    return (size_t)snprintf(cell, sizeof cell, CELL_LAST "%s.%s", e->name, output) < sizeof cell &&
           session_cell(s, cell, c);
}

static double read_last(netc_session *s, const ProgCell *c, RtError *e)
{
    int64_t room;
    size_t bytes = (size_t)prog_type_bytes(&c->type);
    return rt_cell_read(s->rt, c->name, &room, bytes, e) ? NAN : prog_load(c->type.dtype, &room);
}

netc_status netc_evaluated(netc_session *s, const char *output, netc_tensor *t, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    const ProgCell *c;
    netc_status status = session_entry(s, "eval", &l, &e, err);
    if (status != NETC_OK) return status;
    if (!last_cell(s, e, output, &c))
        return lib_fail(err, NETC_INVALID,
                        "evaluations have no output '%s' over all examples, which tally makes",
                        output);
    size_t bytes = (size_t)prog_type_bytes(&c->type);
    RtError re = {0};
    *t = tensor_of(&c->type, malloc(bytes + 1));
    if (!t->data) return OUT_OF_MEMORY(err);
    if (!rt_cell_read(s->rt, c->name, t->data, bytes, &re)) return NETC_OK;
    free(t->data);
    t->data = NULL;
    return lib_fail_rt(err, &re);
}

netc_status read_means(netc_session *s, const ProgEntry *e, const char *prefix,
                       netc_metric **metrics, int *n, netc_error **err)
{
    size_t names = 0;
    *n = 0;
    for (int i = 0; i < e->noutputs; i++) names += strlen(prefix) + strlen(e->outputs[i].name) + 1;
    netc_metric *m = calloc(1, (size_t)(e->noutputs + 1) * sizeof *m + names);
    if (!m) return OUT_OF_MEMORY(err);
    char *text = (char *)(m + e->noutputs + 1), cell[256];
    double items = 0;
    RtError re = {0};
    const ProgCell *c;
    snprintf(cell, sizeof cell, "@items.%s", e->name);
    if (session_cell(s, cell, &c)) rt_cell_read(s->rt, cell, &items, sizeof items, &re);
    for (int i = 0; i < e->noutputs && !re.code; i++) {
        double sum = 0, last = NAN;
        bool whole = last_cell(s, e, e->outputs[i].name, &c);
        if (whole && c->type.rank) continue; // not a scalar: see netc_evaluated
        if (whole)
            last = read_last(s, c, &re);
        else if (!sum_cell(cell, sizeof cell, e, e->outputs[i].name) || !session_cell(s, cell, &c))
            continue;
        if (!whole) rt_cell_read(s->rt, cell, &sum, sizeof sum, &re);
        netc_metric *out = &m[(*n)++];
        out->name = text;
        text += sprintf(text, "%s%s", prefix, e->outputs[i].name) + 1;
        out->value = whole ? last : items > 0 ? sum / items : NAN; // NaN: all steps were skipped
    }
    if (re.code) {
        free(m);
        return lib_fail_rt(err, &re);
    }
    *metrics = m;
    return NETC_OK;
}

// Whether the cell is "@sum.<entry>.…", "@items.<entry>" or "@tally.<entry>.…".
static bool is_sum(const char *cell, const char *entry, bool tallies_only)
{
    static const char *const prefixes[] = {CELL_TALLY, "@sum.", "@items."};
    size_t n = strlen(entry);
    for (int i = 0; i < (tallies_only ? 1 : 3); i++) {
        size_t k = strlen(prefixes[i]);
        if (!strncmp(cell, prefixes[i], k) && !strncmp(cell + k, entry, n) &&
            (cell[k + n] == '.' || !cell[k + n]))
            return true;
    }
    return false;
}

static netc_status clear(netc_session *s, const Program *p, const ProgEntry *e, bool tallies_only,
                         netc_error **err)
{
    RtError re = {0};
    for (int i = 0; i < p->ncells && !re.code; i++) {
        const ProgCell *c = &p->cells[i];
        if (!is_sum(c->name, e->name, tallies_only)) continue;
        size_t bytes = (size_t)prog_type_bytes(&c->type);
        void *zero = calloc(1, bytes + 1);
        if (!zero) return OUT_OF_MEMORY(err);
        rt_cell_write(s->rt, c->name, zero, bytes, &re);
        free(zero);
    }
    return re.code ? lib_fail_rt(err, &re) : NETC_OK;
}

netc_status clear_sums(netc_session *s, const Program *p, const ProgEntry *e, netc_error **err)
{
    return clear(s, p, e, false, err);
}

netc_status clear_tallies(netc_session *s, const Program *p, const ProgEntry *e, netc_error **err)
{
    return clear(s, p, e, true, err);
}

bool session_cancelled(const netc_session *s)
{
    const netc_context_options *o = &s->context->o;
    return o->cancel && o->cancel(o->user);
}

int64_t next_piece(int64_t last, int64_t n, double seconds)
{
    double fit = fmin(0.25 * (double)n / fmax(seconds, 1e-9), 8 * (double)last);
    return fit < 1 ? 1 : fit < 1e12 ? (int64_t)fit : (int64_t)1e12;
}

int64_t rows_count(const Rows *r)
{
    return r->end > r->begin ? (r->end - r->begin - 1) / r->step + 1 : 0;
}

// Runs [times] batches of the build [l] over the rows from [first] on. Does not check for
// cancellation during the first [piece] of them.
static netc_status run_batches(netc_session *s, Loaded *l, const Rows *rows, int64_t first,
                               int64_t times, int64_t piece, netc_error **err)
{
    const ProgEntry *e = program_entry(l->build->program, "eval");
    int64_t examples, n = times * e->batch;
    netc_status status = session_ready(s, l, e, err);
    if (status == NETC_OK && e->rows) status = bind_rows(s, l, e, rows->data, &examples, err);
    if (status != NETC_OK || !times) return status;
    int32_t *row = malloc((size_t)n * sizeof *row);
    if (!row) return OUT_OF_MEMORY(err);
    for (int64_t i = 0; i < n; i++) row[i] = (int32_t)(rows->begin + (first + i) * rows->step);
    RtError re = {0};
    if (e->rows && rt_rows_set(s->rt, l->rt, "eval", row, n, &re)) status = lib_fail_rt(err, &re);
    for (int64_t done = 0, some; done < times && status == NETC_OK; done += some) {
        double t = clock_now();
        some = times - done < piece ? times - done : piece;
        if (rt_run(s->rt, l->rt, "eval", NULL, 0, some, &re) || rt_sync(s->rt, &re))
            status = lib_fail_rt(err, &re);
        else if (session_cancelled(s))
            status = NETC_CANCELLED;
        piece = next_piece(piece, some, clock_now() - t);
    }
    free(row);
    return status;
}

static void tell_rest(netc_session *s, int64_t rest, const char *why)
{
    if (!s->told_rest)
        lib_log(s->context, "note: %s %s left out: %s", last_text(&(LastText){""}, rest),
                rest == 1 ? "is" : "are", why);
    s->told_rest = true;
}

netc_status session_differs(netc_session *s, const char *define, const char *entry,
                            const ProgCell **mine, const ProgCell **its, netc_error **err)
{
    Build *b;
    *mine = *its = NULL;
    netc_status status = build_get_chosen(s->program, rt_device_is_cuda(s->device), define, entry,
                                          s->choices, &b, err);
    for (int i = 0; status == NETC_OK && !*its && i < b->program->ncells; i++) {
        const ProgCell *c = &b->program->cells[i];
        if (session_cell(s, c->name, mine) && !prog_type_equal(&c->type, &(*mine)->type)) *its = c;
    }
    if (status == NETC_INVALID)
        lib_error_note(err,
                       "of the last, smaller batch (%s); choose another size with -D %.*s=N, or as "
                       "many examples as fill whole batches",
                       define, (int)strcspn(define, "="), define);
    return status;
}

netc_status evaluate_plan(netc_session *s, const ProgEntry *e, int64_t count, char *define,
                          size_t n, netc_error **err)
{
    int64_t rest = e->rows ? count % e->batch : 0; // (without data there is one batch)
    const ProgCell *mine, *its;
    char why[512];
    *define = 0;
    if (!rest) return NETC_OK;
    if (!batch_dim(e)) {
        snprintf(why, sizeof why, "the batch of '%s' is a number, not a dim", e->name);
    } else {
        last_batch(e, count, define, n);
        netc_status status = session_differs(s, define, "eval", &mine, &its, err);
        if (status != NETC_OK || !its) return status;
        *define = 0;
        snprintf(why, sizeof why, "'%s' is as large as the batch of %" PRId64, mine->name,
                 e->batch);
    }
    if (count < e->batch)
        return lib_fail(err, NETC_INVALID,
                        "%" PRId64 " example%s fewer than the batch of %" PRId64
                        ", and cannot be a batch of %s own: %s",
                        count, count == 1 ? " is" : "s are", e->batch, count == 1 ? "its" : "their",
                        why);
    tell_rest(s, rest, why);
    return NETC_OK;
}

static netc_status run_all(netc_session *s, Loaded *l, const ProgEntry *e, const Rows *rows,
                           const char *define, int64_t piece, netc_error **err)
{
    int64_t whole = e->rows ? rows_count(rows) / e->batch : 1;
    netc_status status = session_set_control(s, CELL_RUNS "eval", 0, err);
    // Runs of the caller, or an evaluation that failed, may have left something there.
    if (status == NETC_OK) status = clear_sums(s, l->build->program, e, err);
    if (status == NETC_OK) status = run_batches(s, l, rows, 0, whole, piece, err);
    if (status != NETC_OK || !*define) return status;
    Loaded *small;
    status = session_loaded(s, define, "eval", &small, err);
    return status == NETC_OK ? run_batches(s, small, rows, whole * e->batch, 1, 1, err) : status;
}

netc_status evaluate_rows(netc_session *s, const Rows *rows, const char *prefix, int64_t piece,
                          netc_metric **metrics, int *n, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    Kept *kept = NULL;
    char define[128];
    netc_status status = session_entry(s, "eval", &l, &e, err);
    if (status == NETC_OK)
        status = evaluate_plan(s, e, rows_count(rows), define, sizeof define, err);
    if (status == NETC_OK) status = kept_new(s, l->build->program, e, false, &kept, err);
    if (status != NETC_OK) return status;
    status = run_all(s, l, e, rows, define, piece, err);
    netc_status back = kept_put_back(kept, status == NETC_OK ? err : NULL);
    kept_free(kept);
    if (status == NETC_OK) status = back;
    return status == NETC_OK ? read_means(s, e, prefix, metrics, n, err) : status;
}

netc_status netc_evaluate(netc_session *s, netc_dataset *data, netc_metric **metrics, int *nmetrics,
                          netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    Rows rows = {.data = data};
    netc_status status = session_entry(s, "eval", &l, &e, err);
    if (status == NETC_OK) status = bind_rows(s, l, e, data, &rows.end, err);
    if (status != NETC_OK) return status;
    rows.step = dataset_step(data);
    status = evaluate_rows(s, &rows, "", 64, metrics, nmetrics, err);
    return status == NETC_CANCELLED ? lib_fail(err, status, "the evaluation was stopped") : status;
}
