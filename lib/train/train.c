// The training loop: epochs, reports, evaluations, checkpoints. Steps are enqueued in chunks,
// without the host between the steps of a chunk; a chunk ends at the next report, evaluation, save
// or epoch.
#include "base/plain.h"
#include "lib/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/train/report.h"
#include "runtime/data.h"

// Checking and copying the states takes at most 1 / KEEP_AFTER of the time (train_back.c).
#define KEEP_AFTER 300

// Estimated time of the remaining evaluations: each as long as the fastest so far.
static double evaluations_left(const Run *r)
{
    int64_t every = r->eval_every;
    if (!r->eval.data || r->step >= r->total) return 0;
    int64_t n = every > 0 ? (r->total - 1) / every - r->step / every + 1 : 1;
    return (double)n * r->evaluation;
}

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
                         (rate > 0 ? (double)((r->total - r->step) * r->batch) / rate : 0) +
                         evaluations_left(r),
                     .metrics = m,
                     .nmetrics = n,
                     .text = text};
    r->o->event(r->o->user, &ev);
}

static netc_status controls(Run *r, netc_error **err)
{
    netc_status status = session_set_control(r->s, "@seed", r->s->seed, err);
    if (status == NETC_OK) status = session_set_control(r->s, "@step", r->step, err);
    // (Steps that an earlier training of the session skipped are none of this one's.)
    if (status == NETC_OK && !r->o->resume) status = session_set_control(r->s, "@skipped", 0, err);
    if (status == NETC_OK) status = session_set_control(r->s, "@total", r->total, err);
    if (status == NETC_OK)
        status = session_set_control(r->s, "@epoch_steps", r->steps_per_epoch, err);
    return status;
}

void run_order(Run *r, int64_t epoch)
{
    int64_t n = r->examples;
    if (r->ahead_of == epoch) return;
    for (int64_t i = 0; i < n; i++) r->ahead[i] = (int32_t)i;
    if (!r->train.data) return;
    if (r->train.data->random)
        rt_draw_rows(r->ahead, n, r->train.end, r->s->seed, epoch);
    else if (!r->o->no_shuffle)
        rt_shuffle(r->ahead, n, r->s->seed, epoch);
    r->ahead_of = epoch;
}

netc_status run_epoch(Run *r, netc_error **err)
{
    int64_t n = r->examples;
    if (!r->train.data) return NETC_OK; // the step makes its examples
    run_order(r, r->step / r->steps_per_epoch);
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

// Stores how the run trains: what a run that continues it may do differently without an error.
static void set_manner(const Run *r, Position *at)
{
    const char *order = !r->train.data          ? ""
                        : r->train.data->random ? "at random"
                        : r->o->no_shuffle      ? "in order"
                                                : "shuffled";
    snprintf(at->order, sizeof at->order, "%s", order);
    if (r->examples % r->batch)
        snprintf(at->last, sizeof at->last, "%s", r->tail ? "kept" : "left out");
    program_trains(r->s->program, at->program, sizeof at->program);
}

netc_status run_write(Run *r, const char *path, netc_error **err)
{
    Position at = {.step = r->step, .seed = r->s->seed, .batch = r->batch, .examples = r->examples};
    snprintf(at.precision, sizeof at.precision, "%s",
             precision_text(r->s->program->settings.precision));
    set_manner(r, &at);
    best_position(r, &at);
    NETC_INIT(netc_save_options, o);
    o.part_bytes = r->o->part_bytes;
    netc_status status = state_save_at(r->s, path, &o, &at, err);
    if (status == NETC_OK) send(r, NETC_EVENT_SAVED, NULL, 0, path);
    return status;
}

static netc_status save(Run *r, netc_error **err)
{
    netc_status status = run_sound(r, err);
    if (status != NETC_OK) return status;
    double t = clock_now();
    status = run_write(r, r->o->save, err);
    r->last_report += clock_now() - t;
    r->saved = r->step;
    r->lost = status != NETC_OK;
    return status;
}

// -- steps ----------------------------------------------------------------------------------------

static netc_status device_failed(Run *r, const RtError *e)
{
    r->failed = *e;
    return e->code == RT_CHECK ? NETC_CHECK_FAILED : NETC_ENVIRONMENT;
}

// Runs the last, smaller batch of an epoch with a build of its own.
static netc_status run_tail(Run *r, netc_error **err)
{
    char define[128];
    Loaded *l;
    int64_t examples;
    run_tail_define(r, define, sizeof define);
    netc_status status = session_loaded(r->s, define, "train", &l, err);
    const ProgEntry *e = status == NETC_OK ? program_entry(l->build->program, "train") : NULL;
    if (e) status = bind_rows(r->s, l, e, r->train.data, &examples, err);
    if (status != NETC_OK) return status;
    int64_t n = r->examples;
    RtError re = {0};
    if (rt_rows_set(r->s->rt, l->rt, "train", r->rows + (n - r->tail), r->tail, &re) ||
        rt_run(r->s->rt, l->rt, "train", NULL, 0, 1, &re) || rt_sync(r->s->rt, &re))
        return device_failed(r, &re);
    r->ran = l;
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
    double t = clock_now();
    netc_status status = evaluate_rows(r->s, &r->eval, "eval_", r->piece, &m, &n, err);
    if (status == NETC_OK) send(r, NETC_EVENT_EVAL, m, n, NULL);
    if (status == NETC_OK) status = best_look(r, m, n, err);
    free(m);
    t = clock_now() - t;
    r->last_report += t; // evaluation does not count as time of steps
    if (!r->evaluation || t < r->evaluation) r->evaluation = t;
    return status;
}

static netc_status report(Run *r, netc_error **err)
{
    netc_metric *m = NULL, *w = NULL, *all = NULL, scale[SCALE_METRICS];
    int n = 0, watched = 0, scales = 0;
    netc_status status = read_means(r->s, r->e, "", &m, &n, err);
    if (status == NETC_OK) status = scale_metrics(r->s, scale, &scales, err);
    if (status == NETC_OK)
        status = watch_metrics(r->s, r->ran, r->watch, r->nwatch, &w, &watched, err);
    if (status == NETC_OK && !(all = calloc((size_t)(n + scales + watched) + 1, sizeof *all)))
        status = OUT_OF_MEMORY(err);
    if (status == NETC_OK) {
        if (n) memcpy(all, m, (size_t)n * sizeof *m);
        memcpy(all + n, scale, (size_t)scales * sizeof *scale);
        if (watched) memcpy(all + n + scales, w, (size_t)watched * sizeof *w);
        send(r, NETC_EVENT_PROGRESS, all, n + scales + watched, NULL);
        status = clear_sums(r->s, r->l->build->program, r->e, err);
    }
    r->last_report = clock_now();
    r->last_report_step = r->step;
    free(all);
    free(w);
    free(m);
    return status;
}

netc_status run_chunk(Run *r, netc_error **err)
{
    int64_t whole = r->steps_per_epoch - (r->tail > 0), done = r->step % r->steps_per_epoch;
    netc_status status = done ? NETC_OK : run_epoch(r, err);
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
        run_order(r, after); // while the device works
    if (code || rt_sync(r->s->rt, &e)) return device_failed(r, &e);
    r->ran = r->l;
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

static bool due(const Run *r, int64_t every)
{
    return r->step >= r->total || (every > 0 && r->step % every == 0);
}

// After a chunk: does the reports, evaluations and saves that are due.
static netc_status pause(Run *r, netc_error **err)
{
    netc_status status = NETC_OK;
    bool copy = r->kept &&
                clock_now() - r->kept_at > KEEP_AFTER * fmax(r->kept_cost, kept_seconds(r->kept));
    double t = clock_now();
    if (copy || r->step >= r->total) status = run_sound(r, err);
    if (status == NETC_OK && copy) status = run_keep(r, err);
    if (copy) r->kept_cost = clock_now() - t;
    if (status == NETC_OK && due(r, r->report_every)) status = report(r, err);
    if (status == NETC_OK && r->eval.data && due(r, r->eval_every)) status = evaluate(r, err);
    if (status == NETC_OK && r->o->save && due(r, r->o->save_every)) status = save(r, err);
    return status;
}

static netc_status loop(Run *r, netc_error **err)
{
    netc_status status = NETC_OK;
    // An evaluation was due when training was interrupted, perhaps the first or the last one.
    if (r->best.metric && r->step && r->step <= r->total && r->best.seen != r->step &&
        due(r, r->eval_every))
        status = evaluate(r, err);
    if (status == NETC_OK && r->step >= r->total) return r->o->save ? save(r, err) : NETC_OK;
    if (status == NETC_OK && r->step % r->steps_per_epoch) status = run_epoch(r, err);
    while (status == NETC_OK && r->step < r->total && best_waits(r)) {
        if (session_cancelled(r->s)) return stop(r, err);
        status = run_chunk(r, err);
        if (r->failed.code) return run_explain(r, err);
        if (status == NETC_OK) status = pause(r, err);
    }
    if (status == NETC_OK && r->step < r->total && r->saved != r->step) // stopped early, because
                                                                        // evaluations did not
                                                                        // improve
        status = r->o->save ? save(r, err) : run_sound(r, err);
    return status == NETC_CANCELLED ? stop(r, err) : status;
}

// Saves the result of training, however it ended.
static void save_rest(Run *r)
{
    if (r->o->save && !r->lost && r->step > 0 && r->step != r->saved) save(r, NULL);
}

// Loads a checkpoint; settings set by the caller keep their values.
static netc_status resume(netc_session *s, const char *path, Position *at, netc_error **err)
{
    double *value = calloc((size_t)s->ngiven + 1, sizeof *value);
    netc_status status = value ? NETC_OK : OUT_OF_MEMORY(err);
    for (int i = 0; i < s->ngiven && status == NETC_OK; i++)
        status = netc_get(s, s->given[i], &value[i], err);
    if (status == NETC_OK) status = state_load_at(s, path, NULL, at, err);
    for (int i = 0; i < s->ngiven && status == NETC_OK; i++)
        status = netc_set(s, s->given[i], value[i], err);
    free(value);
    return status;
}

// Notes differences between this run and the one that wrote the checkpoint.
static void note_changes(const Run *r, const Position *at)
{
    const char *precision = precision_text(r->s->program->settings.precision);
    if (at->batch && at->batch != r->batch)
        lib_log(r->s->context,
                "note: %s was trained with a batch of %" PRId64 ", this is one of %" PRId64
                ": step %" PRId64 " is at another place in the data",
                r->o->resume, at->batch, r->batch, at->step);
    if (at->examples && at->examples != r->examples)
        lib_log(r->s->context,
                "note: %s was trained on %" PRId64 " example%s, these are %" PRId64
                ": an epoch has other steps and another order, and step %" PRId64
                " is now in epoch %" PRId64,
                r->o->resume, at->examples, plural(at->examples), r->examples, at->step,
                at->step / r->steps_per_epoch + 1);
    Position now = {0};
    set_manner(r, &now);
    if (*at->order && *now.order && strcmp(at->order, now.order))
        lib_log(r->s->context,
                "note: %s was trained with its examples %s, here they are %s: step %" PRId64
                " is at another place in the data",
                r->o->resume, at->order, now.order, at->step);
    if (*at->last && *now.last && strcmp(at->last, now.last))
        lib_log(r->s->context,
                "note: %s was trained with the last, smaller batch of an epoch %s, here it is %s: "
                "an epoch has other steps, and step %" PRId64 " is now in epoch %" PRId64,
                r->o->resume, at->last, now.last, at->step, at->step / r->steps_per_epoch + 1);
    if (*at->program && *now.program && strcmp(at->program, now.program))
        lib_log(r->s->context, "note: %s was trained by program '%s', this is '%s'", r->o->resume,
                at->program, now.program);
    if (*at->precision && strcmp(at->precision, precision))
        lib_log(r->s->context, "note: %s was trained with --precision %s, this is %s", r->o->resume,
                at->precision, precision);
}

static netc_status train(netc_session *s, const netc_train_options *o, netc_error **err)
{
    netc_train_options options = {0};
    Run r = {.s = s, .o = &options, .start = clock_now()};
    netc_status status = TAKE_OPTIONS(netc_train_options, &options, o, err);
    if (options.data && !options.data->n) options.data = NULL; // (nothing was added to it)
    if (status == NETC_OK) status = options_names("watch", options.watch, options.nwatch, err);
    if (status != NETC_OK) return status;
    Position at = {.seed = s->seed, .needed = true};
    RtError e = {0};
    if (options.save && rt_file_try(options.save, &e)) return lib_fail_rt(err, &e);
    if (options.save) rt_checkpoint_sweep(options.save);
    // This comes first, because the checkpoint's choice table may load the program again.
    if (options.resume) status = resume(s, options.resume, &at, err);
    if (status == NETC_OK) status = run_plan(&r, at.best, err);
    if (status != NETC_OK) return best_free(&r.best), free(r.watch), status;
    if (options.resume) {
        r.step = at.step;
        if (s->seed && s->seed != at.seed)
            lib_log(s->context,
                    "note: %s was trained with seed %" PRId64
                    " and continues with it, not with %" PRId64,
                    options.resume, at.seed, s->seed);
        s->seed = at.seed;
        note_changes(&r, &at);
        if (r.step >= r.total)
            lib_log(s->context,
                    "note: %s is at step %" PRId64 "; nothing is left of %" PRId64 " step%s",
                    options.resume, r.step, r.total, plural(r.total));
    }
    r.last_report_step = r.step;
    r.saved = -1;
    size_t bytes = (size_t)r.examples * sizeof *r.rows + 1;
    r.rows = malloc(bytes);
    r.ahead = malloc(bytes);
    r.ahead_of = -1;
    status = r.rows && r.ahead ? controls(&r, err) : OUT_OF_MEMORY(err);
    if (status == NETC_OK) {
        run_order(&r, r.step / r.steps_per_epoch);
        status = session_first_batch(s, options.data, r.ahead, err);
    }
    char *text = NULL;
    if (status == NETC_OK) status = training_report(&r, &text, err);
    if (status == NETC_OK) {
        send(&r, NETC_EVENT_START, NULL, 0, text);
        status = clear_sums(s, r.l->build->program, r.e, err);
    }
    if (status == NETC_OK) {
        // Without memory for a copy, training continues but cannot go back.
        if (run_keep(&r, NULL) != NETC_OK)
            lib_log(s->context, "note: no memory for a copy of the states: values that are not "
                                "finite are found only when the loss is not");
        r.last_report = clock_now();
        status = loop(&r, err);
        if (status != NETC_OK && status != NETC_CANCELLED) save_rest(&r);
    }
    if (status == NETC_OK || status == NETC_CANCELLED) {
        netc_metric scale[SCALE_METRICS];
        int scales;
        netc_status read = scale_metrics(s, scale, &scales, status == NETC_OK ? err : NULL);
        char best[700];
        best_text(&r, best, sizeof best);
        send(&r, NETC_EVENT_END, scale, scales, *best ? best : NULL);
        if (status == NETC_OK) status = read;
    }
    kept_free(r.kept);
    best_free(&r.best);
    free(r.watch);
    free(text);
    free(r.rows);
    free(r.ahead);
    return status;
}

netc_status netc_train(netc_session *s, const netc_train_options *o, netc_error **err)
{
    if (s->training)
        return lib_fail(err, NETC_INVALID,
                        "this session is being trained: its event hook cannot train it, too");
    RtError e = {0};
    if (rt_sync(s->rt, &e) == RT_CHECK) // (its step is none of this training)
        return lib_fail(err, NETC_CHECK_FAILED,
                        "nothing was trained, because an earlier run failed: %s", e.text);
    s->training = true;
    netc_status status = train(s, o, err);
    s->training = false;
    return status;
}
