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
#include "lib/keep.h"
#include "lib/report.h"
#include "runtime/file.h"

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
    int64_t saved;  // the step of the last checkpoint, -1: none
    bool lost;      // nothing can be saved any more
    RtError failed; // what the device said of the last chunk
    Kept *kept;     // what the step kept_step had left; NULL: there is no room
    int64_t kept_step;
    double kept_at, kept_cost; // seconds: when it was copied, and how long that took
    int32_t *rows;             // the order of the epoch that step lies in
    int32_t *ahead;            // that of epoch ahead_of
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

// Micro-batches in a step: the entry's batch is that of all.
static int64_t accumulated(const ProgEntry *e)
{
    for (int i = 0; i < e->ndims; i++)
        if (e->dims[i].batch) return e->batch / e->dims[i].value;
    return 1;
}

static void tail_define(const Run *r, char *define, size_t n)
{
    snprintf(define, n, "%s=%" PRId64, batch_dim(r->e), r->tail / accumulated(r->e));
}

// What an evaluation could stumble over is found before the first step.
static netc_status plan_evaluation(Run *r, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    char define[128];
    netc_status status = session_entry(r->s, "eval", &l, &e, err);
    return status == NETC_OK
               ? evaluate_plan(r->s, e, r->eval.end - r->eval.begin, define, sizeof define, err)
               : status;
}

// The same for the last, smaller batch of an epoch.
static netc_status plan_tail(Run *r, netc_error **err)
{
    char define[128];
    const ProgCell *mine, *its;
    if (r->tail % accumulated(r->e))
        return lib_fail(err, NETC_INVALID,
                        "the last %" PRId64 " examples of an epoch are no %" PRId64
                        " micro-batches of one size; leave out --keep-last",
                        r->tail, accumulated(r->e));
    tail_define(r, define, sizeof define);
    netc_status status = session_differs(r->s, define, "train", &mine, &its, err);
    if (status != NETC_OK || !its) return status;
    return lib_fail(err, NETC_INVALID,
                    "the last %" PRId64 " examples of an epoch cannot be trained on: '%s' is as "
                    "large as the batch of %" PRId64 "; leave out --keep-last",
                    r->tail, mine->name, r->batch);
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
    if (r->eval.data) status = plan_evaluation(r, err);
    if (status != NETC_OK) return status;
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
    if (r->tail) status = plan_tail(r, err);
    if (status != NETC_OK) return status;
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

// -- going back -----------------------------------------------------------------------------------
// A step checks its indices, asserts and loss before it writes anything. What it then writes it
// does not look at: in a fused step that would cost a launch, or all states twice. The host looks
// at the states now and then, before they are saved and at the end, and keeps a copy that was sound
// at most so many times its cost ago. When they are not sound, training goes back to the copy and
// repeats, to the same bits, the steps up to the first that writes such values.
#define KEEP_AFTER 300

static netc_status chunk(Run *r, netc_error **err);

// Copies the states, known to be sound, of this step.
static netc_status keep(Run *r, netc_error **err)
{
    double t = clock_now();
    netc_status status = r->kept ? kept_take(r->kept, err)
                                 : kept_new(r->s, r->l->build->program, r->e, true, &r->kept, err);
    r->kept_step = r->step;
    r->kept_at = clock_now();
    r->kept_cost = r->kept_at - t;
    return status;
}

static netc_status go_back(Run *r, netc_error **err)
{
    r->step = r->kept_step;
    netc_status status = kept_put_back(r->kept, err);
    return status == NETC_OK && r->step % r->steps_per_epoch ? begin_epoch(r, err) : status;
}

// Runs up to [step], and says whether its states are sound.
static bool repeat(Run *r, int64_t step)
{
    const char *bad = NULL;
    int64_t total = r->total;
    netc_status status = NETC_OK;
    r->total = step;
    while (status == NETC_OK && r->step < step) status = chunk(r, NULL);
    r->total = total;
    if (status == NETC_OK) status = kept_unsound(r->kept, &bad, NULL);
    return status == NETC_OK && !bad;
}

// The build that makes [step], and the rows of its batch.
static Build *build_of(const Run *r, int64_t step, const int32_t **rows)
{
    int64_t done = step % r->steps_per_epoch;
    char define[128];
    Loaded *l = r->l;
    *rows = r->rows + done * r->batch;
    if (r->tail && done == r->steps_per_epoch - 1) {
        tail_define(r, define, sizeof define);
        session_loaded(r->s, define, "train", &l, NULL);
    }
    return l->build;
}

// [cell] is not sound: to the last step at which all were.
static netc_status rewind_run(Run *r, const char *cell, netc_error **err)
{
    int64_t bad = r->step; // states after so many steps are not sound
    netc_status status = go_back(r, err);
    while (status == NETC_OK && bad - r->kept_step > 1) {
        int64_t mid = r->kept_step + (bad - r->kept_step) / 2;
        if (repeat(r, mid)) {
            status = keep(r, err);
        } else {
            bad = mid;
            status = go_back(r, err);
        }
    }
    if (status != NETC_OK) return r->lost = true, status;
    const int32_t *rows;
    if (r->step % r->steps_per_epoch == 0) make_order(r, r->step / r->steps_per_epoch);
    Build *b = build_of(r, r->step, &rows);
    if (r->step % r->steps_per_epoch == 0) rows = r->ahead;
    status = diagnose_nonfinite(r->s, b, "train", r->train.data, rows, r->step, err);
    if (status != NETC_OK) return status;
    return lib_fail(err, NETC_CHECK_FAILED,
                    "step %" PRId64 " writes values that are not finite into '%s'; nothing of it "
                    "was kept: parameters and states are those of step %" PRId64,
                    r->step + 1, cell, r->step);
}

static netc_status sound(Run *r, netc_error **err)
{
    const char *bad;
    netc_status status = r->kept ? kept_unsound(r->kept, &bad, err) : NETC_OK;
    return r->kept && status == NETC_OK && bad ? rewind_run(r, bad, err) : status;
}

static netc_status save(Run *r, netc_error **err)
{
    netc_status status = sound(r, err);
    if (status != NETC_OK) return status;
    Position at = {.step = r->step, .seed = r->s->seed};
    status = state_save_at(r->s, r->o->save, &at, err);
    r->saved = r->step;
    r->lost = status != NETC_OK;
    if (status == NETC_OK) send(r, NETC_EVENT_SAVED, NULL, 0, r->o->save);
    return status;
}

// What the device said of a chunk. A step that failed a check changed nothing, so that the state is
// that of the step before; after another failure it may be that of none.
static netc_status explain(Run *r, netc_error **err)
{
    RtError ignored = {0};
    int64_t step = r->step;
    r->lost = r->failed.code != RT_CHECK && r->failed.code != RT_OOM;
    if (r->lost || rt_cell_read(r->s->rt, "@step", &step, sizeof step, &ignored))
        return lib_fail_rt(err, &r->failed);
    r->step = step;
    netc_status status = sound(r, err);
    if (status != NETC_OK || r->failed.code != RT_CHECK)
        return status == NETC_OK ? lib_fail_rt(err, &r->failed) : status;
    const int32_t *rows;
    Build *b = build_of(r, step, &rows);
    if (!err || !*err)
        status = diagnose_nonfinite(r->s, b, "train", r->train.data, rows, step, err);
    return status != NETC_OK ? status : lib_fail_rt(err, &r->failed);
}

// -- steps ----------------------------------------------------------------------------------------

static netc_status device_failed(Run *r, const RtError *e)
{
    r->failed = *e;
    return e->code == RT_CHECK ? NETC_CHECK_FAILED : NETC_ENVIRONMENT;
}

// The last, smaller batch of an epoch, by a specialisation of its own.
static netc_status run_tail(Run *r, netc_error **err)
{
    char define[128];
    Loaded *l;
    int64_t examples;
    tail_define(r, define, sizeof define);
    netc_status status = session_loaded(r->s, define, "train", &l, err);
    const ProgEntry *e = status == NETC_OK ? program_entry(l->build->program, "train") : NULL;
    if (e) status = bind_rows(r->s, l, e, r->train.data, &examples, err);
    if (status != NETC_OK) return status;
    int64_t n = r->train.end - r->train.begin;
    RtError re = {0};
    if (rt_rows_set(r->s->rt, l->rt, "train", r->rows + (n - r->tail), r->tail, &re) ||
        rt_run(r->s->rt, l->rt, "train", NULL, 0, 1, &re) || rt_sync(r->s->rt, &re))
        return device_failed(r, &re);
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

// Runs steps until something is due; r->step moves on. An error of the device is in r->failed.
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
    if (code || rt_sync(r->s->rt, &e)) return device_failed(r, &e);
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

// Behind a chunk: whatever is due.
static netc_status pause(Run *r, netc_error **err)
{
    netc_status status = NETC_OK;
    bool copy = r->kept && clock_now() - r->kept_at > KEEP_AFTER * r->kept_cost;
    double t = clock_now();
    if (copy || r->step >= r->total) status = sound(r, err);
    if (status == NETC_OK && copy) status = keep(r, err);
    if (copy) r->kept_cost = clock_now() - t;
    if (status == NETC_OK && due(r, r->report_every)) status = report(r, err);
    if (status == NETC_OK && r->eval.data && due(r, r->eval_every)) status = evaluate(r, err);
    if (status == NETC_OK && r->o->save && due(r, r->o->save_every)) status = save(r, err);
    return status;
}

static netc_status loop(Run *r, netc_error **err)
{
    netc_status status = NETC_OK;
    if (r->step >= r->total) return r->o->save ? save(r, err) : NETC_OK;
    if (r->step % r->steps_per_epoch) status = begin_epoch(r, err);
    while (status == NETC_OK && r->step < r->total) {
        if (session_cancelled(r->s)) return stop(r, err);
        status = chunk(r, err);
        if (r->failed.code) return explain(r, err);
        if (status == NETC_OK) status = pause(r, err);
    }
    return status == NETC_CANCELLED ? stop(r, err) : status;
}

// Whatever ended training, what was trained is kept.
static void save_rest(Run *r)
{
    if (r->o->save && !r->lost && r->step > 0 && r->step != r->saved) save(r, NULL);
}

// What the caller has set stays.
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

netc_status netc_train(netc_session *s, const netc_train_options *o, netc_error **err)
{
    netc_train_options options = {0};
    memcpy(&options, o, o->size < sizeof options ? o->size : sizeof options);
    Run r = {.s = s, .o = &options, .start = clock_now()};
    netc_status status = NETC_OK;
    Position at = {.seed = s->seed, .needed = true};
    if (options.save) rt_file_sweep(options.save);
    // First, because the checkpoint's choice table may load the program anew.
    if (options.resume) status = resume(s, options.resume, &at, err);
    if (status == NETC_OK) status = plan(&r, err);
    if (status != NETC_OK) return status;
    if (options.resume) {
        r.step = at.step;
        s->seed = at.seed;
        if (r.step >= r.total)
            lib_log(s->context,
                    "note: %s stands at step %" PRId64 "; nothing is left of %" PRId64 " steps",
                    options.resume, r.step, r.total);
    }
    r.last_report_step = r.step;
    r.saved = -1;
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
        // Without room for a copy training goes on, and cannot go back.
        if (keep(&r, NULL) != NETC_OK)
            lib_log(s->context, "note: no memory for a copy of the states: values that are not "
                                "finite are found when the loss is not");
        r.last_report = clock_now();
        status = loop(&r, err);
        if (status != NETC_OK && status != NETC_CANCELLED) save_rest(&r);
    }
    if (status == NETC_OK || status == NETC_CANCELLED) {
        netc_metric scale[SCALE_METRICS];
        int scales;
        netc_status read = scale_metrics(s, scale, &scales, status == NETC_OK ? err : NULL);
        send(&r, NETC_EVENT_END, scale, scales, NULL);
        if (status == NETC_OK) status = read;
    }
    kept_free(r.kept);
    free(text);
    free(r.rows);
    free(r.ahead);
    return status;
}
