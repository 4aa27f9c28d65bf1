// The training loop: epochs, reports, evaluations, checkpoints. Steps are enqueued in chunks,
// without the host between the steps of a chunk; a chunk ends at the next report, evaluation, save
// or epoch.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/diagnose.h"
#include "lib/lib.h"
#include "lib/report.h"

typedef struct Run {
    netc_session *s;
    const netc_train_options *o;
    Loaded *l;
    const ProgEntry *e;
    Rows train, eval;
    int64_t batch, steps_per_epoch, tail, total, step;
    int64_t report_every, eval_every;
    int64_t piece; // steps that may be enqueued in a row (next_piece)
    int64_t last_report_step;
    double start, last_report;
    int32_t *rows;  // the order of the epoch that step lies in
    int32_t *ahead; // that of epoch ahead_of
    int64_t ahead_of;
} Run;

static void send(const Run *r, netc_event_kind kind, const netc_metric *m, int n, const char *text)
{
    if (!r->o->event) return;
    double t = clock_now(), span = t - r->last_report;
    int64_t steps = r->step - r->last_report_step;
    double rate = span > 0 ? (double)(steps * r->batch) / span : 0;
    int64_t spe = r->steps_per_epoch;
    netc_event ev = {.kind = kind,
                     .step = r->step,
                     .total = r->total,
                     .epoch = spe ? (r->step + spe - 1) / spe : 0,
                     .epochs = spe ? (r->total + spe - 1) / spe : 0,
                     .epochs_done = spe ? (double)r->step / (double)spe : 0,
                     .examples = r->step * r->batch,
                     .seconds = t - r->start,
                     .items_per_second = rate,
                     .seconds_left =
                         rate > 0 ? (double)((r->total - r->step) * r->batch) / rate : 0,
                     .metrics = m,
                     .nmetrics = n,
                     .text = text};
    r->o->event(r->o->user, &ev);
}

static netc_status plan(Run *r, netc_error **err)
{
    const netc_train_options *o = r->o;
    netc_session *s = r->s;
    if (!o->data) return lib_fail(err, NETC_INVALID, "training needs data; give --data NAME=FILE");
    if (o->epochs < 0 || o->steps < 0 || o->report_every < 0 || o->eval_every < 0 ||
        o->save_every < 0)
        return lib_fail(
            err, NETC_INVALID,
            "epochs, steps and the intervals of reports, evaluations and saves cannot be negative");
    if (o->save_every && !o->save)
        return lib_fail(err, NETC_INVALID, "--save-every needs --save FILE to say where");
    netc_status status = session_entry(s, "train", &r->l, &r->e, err);
    if (status != NETC_OK) return status;
    int64_t examples;
    status = bind_rows(s, r->l, r->e, o->data, &examples, err);
    if (status != NETC_OK) return status;
    status = watch_known(s, r->e, o->watch, o->nwatch, err);
    if (status != NETC_OK) return status;
    r->train = (Rows){o->data, 0, examples};
    if (o->split > 0 && o->split < 1) {
        r->train.end = (int64_t)llround((double)examples * o->split);
        r->eval = (Rows){o->data, r->train.end, examples};
        if (r->train.end == examples)
            return lib_fail(err, NETC_INVALID,
                            "a split of %g leaves none of %" PRId64 " examples to evaluate on",
                            o->split, examples);
    } else if (o->split) {
        return lib_fail(err, NETC_INVALID,
                        "a split of %g makes no sense; give a share between 0 and 1", o->split);
    }
    if (o->eval_data) {
        Loaded *l;
        const ProgEntry *e;
        int64_t n;
        status = session_entry(s, "eval", &l, &e, err);
        if (status == NETC_OK) status = bind_rows(s, l, e, o->eval_data, &n, err);
        if (status != NETC_OK) return status;
        r->eval = (Rows){o->eval_data, 0, n};
    }
    r->batch = r->e->batch;
    int64_t count = r->train.end - r->train.begin;
    if (r->batch > count)
        return lib_fail(err, NETC_INVALID,
                        "%" PRId64 " examples are fewer than a batch of %" PRId64 "%s%s%s", count,
                        r->batch, batch_dim(r->e) ? "; give a smaller one with -D " : "",
                        batch_dim(r->e) ? batch_dim(r->e) : "", batch_dim(r->e) ? "=N" : "");
    r->steps_per_epoch = count / r->batch;
    r->tail = o->keep_last_partial ? count % r->batch : 0;
    if (r->tail && !batch_dim(r->e))
        return lib_fail(err, NETC_INVALID,
                        "the last partial batch can only be kept when the batch is a dim");
    r->steps_per_epoch += r->tail > 0;
    double epochs = o->epochs > 0 ? o->epochs : 1,
           steps = ceil(epochs * (double)r->steps_per_epoch);
    if (!o->steps && !(steps < 1e15))
        return lib_fail(err, NETC_INVALID, "%g epochs are more than can be counted", epochs);
    r->total = o->steps > 0 ? o->steps : (int64_t)steps;
    r->report_every = o->report_every > 0 ? o->report_every : (r->steps_per_epoch + 19) / 20;
    r->eval_every = o->eval_every > 0 ? o->eval_every : r->steps_per_epoch;
    r->piece = 1;
    return NETC_OK;
}

static netc_status controls(Run *r, netc_error **err)
{
    netc_status status = session_set_control(r->s, "@seed", r->s->seed, err);
    if (status == NETC_OK) status = session_set_control(r->s, "@step", r->step, err);
    if (status == NETC_OK) status = session_set_control(r->s, "@total", r->total, err);
    if (status == NETC_OK)
        status = session_set_control(r->s, "@epoch_steps", r->steps_per_epoch, err);
    return status;
}

// The order of an epoch, in r->ahead.
static void make_order(Run *r, int64_t epoch)
{
    int64_t n = r->train.end - r->train.begin;
    if (r->ahead_of == epoch) return;
    for (int64_t i = 0; i < n; i++) r->ahead[i] = (int32_t)i;
    if (!r->o->no_shuffle) rt_shuffle(r->ahead, n, r->s->seed, epoch);
    if (r->train.begin)
        for (int64_t i = 0; i < n; i++) r->ahead[i] += (int32_t)r->train.begin;
    r->ahead_of = epoch;
}

// The order of the epoch that [step] lies in goes to the device; reading goes on where step says.
static netc_status begin_epoch(Run *r, netc_error **err)
{
    int64_t n = r->train.end - r->train.begin;
    make_order(r, r->step / r->steps_per_epoch);
    int32_t *made = r->ahead;
    r->ahead = r->rows;
    r->ahead_of = -1;
    r->rows = made;
    RtError e = {0};
    if (rt_rows_set(r->s->rt, r->l->rt, "train", r->rows, n, &e)) return lib_fail_rt(err, &e);
    int64_t done = r->step % r->steps_per_epoch;
    return r->e->cursor && done ? session_set_control(r->s, r->e->cursor, done * r->batch, err)
                                : NETC_OK;
}

static netc_status save(Run *r, netc_error **err)
{
    Position at = {r->step, r->s->seed};
    netc_status status = state_save_at(r->s, r->o->save, &at, err);
    if (status == NETC_OK) send(r, NETC_EVENT_SAVED, NULL, 0, r->o->save);
    return status;
}

// A step of [b] failed a check. It changed nothing, so the state is sound: it is saved where --save
// says. rows: of its batch; NULL: those of the step in the epoch's order.
static netc_status explain(Run *r, Build *b, const int32_t *rows, const RtError *e,
                           netc_error **err)
{
    netc_status status = NETC_OK;
    RtError ignored = {0};
    int64_t step = r->step;
    if (e->code == RT_CHECK && !rt_cell_read(r->s->rt, "@step", &step, sizeof step, &ignored)) {
        r->step = step;
        if (r->o->save && step > 0) save(r, NULL);
        if (!rows) rows = r->rows + step % r->steps_per_epoch * r->batch;
        if (!err || !*err)
            status = diagnose_nonfinite(r->s, b, "train", r->train.data, rows, step, err);
    }
    return status != NETC_OK ? status : lib_fail_rt(err, e);
}

// The last, smaller batch of an epoch, by a specialisation of its own.
static netc_status run_tail(Run *r, netc_error **err)
{
    char define[128];
    Loaded *l;
    int64_t micro = r->tail, examples;
    snprintf(define, sizeof define, "%s=%" PRId64, batch_dim(r->e), micro);
    netc_status status = session_loaded(r->s, define, "train", &l, err);
    const ProgEntry *e = status == NETC_OK ? program_entry(l->build->program, "train") : NULL;
    if (e) status = bind_rows(r->s, l, e, r->train.data, &examples, err);
    if (status != NETC_OK) return status;
    int64_t n = r->train.end - r->train.begin;
    RtError re = {0};
    if (rt_rows_set(r->s->rt, l->rt, "train", r->rows + (n - micro), micro, &re) ||
        rt_run(r->s->rt, l->rt, "train", NULL, 0, 1, &re) || rt_sync(r->s->rt, &re))
        return explain(r, l->build, r->rows + (n - micro), &re, err);
    return NETC_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t until(int64_t step, int64_t every)
{
    return every > 0 ? every - step % every : INT64_MAX;
}

static netc_status evaluate(Run *r, netc_error **err)
{
    netc_metric *m = NULL;
    int n = 0;
    netc_status status = evaluate_rows(r->s, &r->eval, "eval_", r->piece, &m, &n, err);
    if (status == NETC_OK) send(r, NETC_EVENT_EVAL, m, n, NULL);
    free(m);
    return status;
}

static netc_status report(Run *r, netc_error **err)
{
    netc_metric *m = NULL, *w = NULL, *all = NULL, scale[SCALE_METRICS];
    int n = 0, watched = 0, scales = 0;
    netc_status status = take_means(r->s, r->e, "", &m, &n, err);
    if (status == NETC_OK) status = scale_metrics(r->s, scale, &scales, err);
    if (status == NETC_OK)
        status = watch_metrics(r->s, r->l, r->e, r->o->watch, r->o->nwatch, &w, &watched, err);
    if (status == NETC_OK && !(all = calloc((size_t)(n + scales + watched) + 1, sizeof *all)))
        status = OUT_OF_MEMORY(err);
    if (status == NETC_OK) {
        if (n) memcpy(all, m, (size_t)n * sizeof *m);
        memcpy(all + n, scale, (size_t)scales * sizeof *scale);
        if (watched) memcpy(all + n + scales, w, (size_t)watched * sizeof *w);
        send(r, NETC_EVENT_PROGRESS, all, n + scales + watched, NULL);
    }
    r->last_report = clock_now();
    r->last_report_step = r->step;
    free(all);
    free(w);
    free(m);
    return status;
}

// Runs steps until something is due; r->step moves on.
static netc_status chunk(Run *r, netc_error **err)
{
    int64_t whole = r->steps_per_epoch - (r->tail > 0), done = r->step % r->steps_per_epoch;
    netc_status status = done ? NETC_OK : begin_epoch(r, err);
    if (status != NETC_OK) return status;
    if (done == whole) {
        status = run_tail(r, err);
        r->step += status == NETC_OK;
        return status;
    }
    int64_t n = least(whole - done, r->total - r->step);
    n = least(n, until(r->step, r->report_every));
    if (r->eval.data) n = least(n, until(r->step, r->eval_every));
    if (r->o->save) n = least(n, until(r->step, r->o->save_every));
    n = least(n, r->piece);
    RtError e = {0};
    double t = clock_now();
    RtCode code = rt_run(r->s->rt, r->l->rt, "train", NULL, 0, n, &e);
    int64_t after = r->step / r->steps_per_epoch + 1;
    if (!code && after * r->steps_per_epoch < r->total)
        make_order(r, after); // while the device works
    if (code || rt_sync(r->s->rt, &e)) return explain(r, r->l->build, NULL, &e, err);
    t = clock_now() - t;
    r->piece = next_piece(r->piece, n, t);
    r->step += n;
    return NETC_OK;
}

static netc_status stop(Run *r, netc_error **err)
{
    netc_status status = r->o->save ? save(r, err) : NETC_OK;
    if (status != NETC_OK) return status;
    return lib_fail(err, NETC_CANCELLED, "stopped after step %" PRId64 " of %" PRId64 "%s%s",
                    r->step, r->total, r->o->save ? "; saved to " : "; nothing was saved",
                    r->o->save ? r->o->save : "");
}

static netc_status loop(Run *r, netc_error **err)
{
    netc_status status = NETC_OK;
    if (r->step >= r->total) return r->o->save ? save(r, err) : NETC_OK;
    if (r->step % r->steps_per_epoch) status = begin_epoch(r, err);
    while (status == NETC_OK && r->step < r->total) {
        if (session_cancelled(r->s)) return stop(r, err);
        status = chunk(r, err);
        if (status != NETC_OK) break;
        bool last = r->step >= r->total;
        if (last || r->step % r->report_every == 0) status = report(r, err);
        if (status == NETC_OK && r->eval.data && (last || r->step % r->eval_every == 0))
            status = evaluate(r, err);
        if (status == NETC_CANCELLED) return stop(r, err);
        if (status == NETC_OK && r->o->save &&
            (last || (r->o->save_every > 0 && r->step % r->o->save_every == 0)))
            status = save(r, err);
    }
    return status;
}

netc_status netc_train(netc_session *s, const netc_train_options *o, netc_error **err)
{
    netc_train_options options = {0};
    memcpy(&options, o, o->size < sizeof options ? o->size : sizeof options);
    Run r = {.s = s, .o = &options, .start = clock_now()};
    netc_status status = NETC_OK;
    Position at = {.seed = s->seed};
    // First, because the checkpoint's choice table may load the program anew.
    if (options.resume) status = state_load_at(s, options.resume, NULL, &at, err);
    if (status == NETC_OK) status = plan(&r, err);
    if (status != NETC_OK) return status;
    if (options.resume) {
        if (at.step < 0)
            return lib_fail(err, NETC_INVALID, "%s is damaged: it stands at step %" PRId64,
                            options.resume, at.step);
        r.step = at.step;
        s->seed = at.seed;
        if (r.step >= r.total)
            lib_log(s->context,
                    "note: %s stands at step %" PRId64 "; nothing is left of %" PRId64 " steps",
                    options.resume, r.step, r.total);
    }
    r.last_report_step = r.step;
    size_t bytes = (size_t)(r.train.end - r.train.begin) * sizeof *r.rows + 1;
    r.rows = malloc(bytes);
    r.ahead = malloc(bytes);
    r.ahead_of = -1;
    status = r.rows && r.ahead ? controls(&r, err) : OUT_OF_MEMORY(err);
    char *text = NULL;
    if (status == NETC_OK)
        status = training_report(s, r.l, r.e, &options, r.total, r.steps_per_epoch, &text, err);
    if (status == NETC_OK) {
        send(&r, NETC_EVENT_START, NULL, 0, text);
        r.last_report = clock_now();
        status = loop(&r, err);
    }
    if (status == NETC_OK || status == NETC_CANCELLED) {
        netc_metric scale[SCALE_METRICS];
        int scales;
        netc_status read = scale_metrics(s, scale, &scales, status == NETC_OK ? err : NULL);
        send(&r, NETC_EVENT_END, scale, scales, NULL);
        if (status == NETC_OK) status = read;
    }
    free(text);
    free(r.rows);
    free(r.ahead);
    return status;
}
