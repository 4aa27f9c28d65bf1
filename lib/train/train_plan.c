// Plans a training run and checks everything that can be checked before the first step, so that it
// does not fail at the first evaluation, hours later.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/plain.h"
#include "lib/train/report.h"
#include "lib/train/train.h"

int64_t accumulated(const ProgEntry *e)
{
    for (int i = 0; i < e->ndims; i++)
        if (e->dims[i].batch) return e->batch / e->dims[i].value;
    return 1;
}

void run_tail_define(const Run *r, char *define, size_t n)
{
    snprintf(define, n, "%s=%" PRId64, batch_dim(r->e), r->tail / accumulated(r->e));
}

// Compiles and checks the evaluation, so that its errors are reported before the first step.
static netc_status plan_evaluation(Run *r, const char *record, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    char define[128];
    netc_status status = session_entry(r->s, "eval", &l, &e, err);
    if (status == NETC_OK) status = fit_met(r->s->program->settings.memory_limit, e, err);
    if (status == NETC_OK)
        status = evaluate_plan(r->s, e, rows_count(&r->eval), define, sizeof define, err);
    return status == NETC_OK ? best_plan(r, e, record, err) : status;
}

// The same for the last, smaller batch of an epoch.
static netc_status plan_tail(Run *r, netc_error **err)
{
    char define[128];
    const ProgCell *mine, *its;
    LastText last;
    last_text(&last, r->tail);
    if (r->tail % accumulated(r->e))
        return lib_fail(err, NETC_INVALID,
                        "%s of an epoch cannot be split into %" PRId64
                        " micro-batches of the same size; omit --keep-last",
                        last, accumulated(r->e));
    run_tail_define(r, define, sizeof define);
    netc_status status = session_differs(r->s, define, "train", &mine, &its, err);
    if (status != NETC_OK || !its) return status;
    return lib_fail(err, NETC_INVALID,
                    "%s of an epoch cannot be trained on: '%s' is as large as the batch of %" PRId64
                    "; omit --keep-last",
                    last, mine->name, r->batch);
}

static netc_status check_options(const netc_train_options *o, netc_error **err)
{
    if (!(o->epochs >= 0) || o->steps < 0 || o->report_every < 0 || o->eval_every < 0 ||
        o->save_every < 0)
        return lib_fail(
            err, NETC_INVALID,
            "epochs, steps and the intervals of reports, evaluations and saves must be 0 or more");
    if (o->epochs > 0 && o->steps)
        return lib_fail(err, NETC_INVALID, "give --epochs or --steps, not both");
    if (o->split && o->eval_data)
        return lib_fail(err, NETC_INVALID,
                        "--split evaluates on a part of --data, --eval-data on other examples; "
                        "give one of them");
    if (o->save_every && !o->save)
        return lib_fail(err, NETC_INVALID, "--save-every needs --save FILE to say where");
    return NETC_OK;
}

// A step that reads no data makes its own examples: their number does not count epochs.
static netc_status check_made(const Run *r, netc_error **err)
{
    const netc_train_options *o = r->o;
    if (r->e->ninputs)
        return lib_fail(err, NETC_INVALID,
                        "input '%s' of 'train' takes no examples from data, since its axis 0 is no "
                        "dimension; declare one, as in 'dim batch = 128'",
                        r->e->inputs[0].name);
    if (o->data)
        return lib_fail(err, NETC_INVALID,
                        "'train' reads none of the data: train without --data, for --steps N");
    if (o->epochs > 0 || !o->steps)
        return lib_fail(err, NETC_INVALID,
                        "'train' reads no data that would count epochs: give --steps N");
    const char *option = o->split ? "--split" : o->keep_last_partial ? "--keep-last" : NULL;
    return option ? lib_fail(err, NETC_INVALID, "'train' reads no data: omit %s", option) : NETC_OK;
}

// Chooses the examples for training and for evaluation.
static netc_status plan_data(Run *r, int64_t examples, netc_error **err)
{
    const netc_train_options *o = r->o;
    int64_t step = o->data ? dataset_step(o->data) : 1;
    r->train = (Rows){o->data, 0, examples, step};
    if (o->split > 0 && o->split < 1) {
        int64_t cut = (int64_t)llround((double)examples * o->split);
        r->eval = (Rows){o->data, cut, examples, step};
        r->train.end = cut - (step - 1); // windows drawn for training must not overlap those for
                                         // evaluation
        if (cut == examples)
            return lib_fail(err, NETC_INVALID,
                            "a split of %g leaves none of %" PRId64 " example%s to evaluate on",
                            o->split, examples, plural(examples));
    } else if (o->split) {
        return lib_fail(err, NETC_INVALID,
                        "a split of %g is not valid; give a share between 0 and 1", o->split);
    }
    if (!o->eval_data) return NETC_OK;
    Loaded *l;
    const ProgEntry *e;
    int64_t n;
    netc_status status = session_entry(r->s, "eval", &l, &e, err);
    if (status == NETC_OK) status = need_data(e, o->eval_data, "--eval-data", err);
    if (status == NETC_OK) status = bind_rows(r->s, l, e, o->eval_data, &n, err);
    if (status == NETC_OK && o->data) status = dataset_agrees(o->data, o->eval_data, err);
    if (status == NETC_OK) r->eval = (Rows){o->eval_data, 0, n, dataset_step(o->eval_data)};
    return status;
}

// Sets the number of steps, and when to report and evaluate.
static netc_status plan_steps(Run *r, netc_error **err)
{
    const netc_train_options *o = r->o;
    r->batch = r->e->batch;
    r->piece = 1;
    if (!o->data) { // one epoch
        r->total = r->steps_per_epoch = o->steps;
        r->report_every = o->report_every > 0 ? o->report_every : (o->steps + 19) / 20;
        r->eval_every = o->eval_every > 0 ? o->eval_every : o->steps;
        return NETC_OK;
    }
    int64_t count = r->examples = rows_count(&r->train);
    if (r->batch > count)
        return lib_fail(err, NETC_INVALID,
                        "%" PRId64 " example%s fewer than a batch of %" PRId64 "%s%s%s", count,
                        count == 1 ? " is" : "s are", r->batch,
                        batch_dim(r->e) ? "; give a smaller one with -D " : "",
                        batch_dim(r->e) ? batch_dim(r->e) : "", batch_dim(r->e) ? "=N" : "");
    r->steps_per_epoch = count / r->batch;
    r->tail = o->keep_last_partial ? count % r->batch : 0;
    if (r->tail && !batch_dim(r->e))
        return lib_fail(err, NETC_INVALID,
                        "the last partial batch can only be kept when the batch is a dim");
    netc_status status = r->tail ? plan_tail(r, err) : NETC_OK;
    if (status != NETC_OK) return status;
    r->steps_per_epoch += r->tail > 0;
    double epochs = o->epochs > 0 ? o->epochs : 1,
           steps = ceil(epochs * (double)r->steps_per_epoch);
    if (!o->steps && !(steps < 1e15))
        return lib_fail(err, NETC_INVALID, "%g epochs are more than can be counted", epochs);
    r->total = o->steps > 0 ? o->steps : (int64_t)steps;
    r->report_every = o->report_every > 0 ? o->report_every : (r->steps_per_epoch + 19) / 20;
    r->eval_every = o->eval_every > 0 ? o->eval_every : r->steps_per_epoch;
    return NETC_OK;
}

netc_status run_plan(Run *r, const char *record, netc_error **err)
{
    const netc_train_options *o = r->o;
    netc_session *s = r->s;
    int64_t examples = 0;
    netc_status status = check_options(o, err);
    if (status == NETC_OK) status = session_entry(s, "train", &r->l, &r->e, err);
    if (status == NETC_OK) status = fit_met(s->program->settings.memory_limit, r->e, err);
    if (status == NETC_OK) status = need_data(r->e, o->data, "--data", err);
    const bool fixed = o->data && r->e->ninputs; // (bind_rows says what is wrong with the inputs)
    if (status == NETC_OK && !r->e->rows && !fixed) status = check_made(r, err);
    if (status == NETC_OK && o->data)
        status = bind_rows(s, r->l, r->e, o->data, &examples, err);
    if (status == NETC_OK)
        status = watch_names(s, r->e, o->watch, o->nwatch, &r->watch, &r->nwatch, err);
    if (status == NETC_OK && o->data && o->data->random && o->no_shuffle)
        status = lib_fail(err, NETC_INVALID, "random windows have no order: omit --no-shuffle");
    if (status == NETC_OK) status = plan_data(r, examples, err);
    if (status == NETC_OK)
        status = r->eval.data ? plan_evaluation(r, record, err) : best_plan(r, NULL, record, err);
    return status == NETC_OK ? plan_steps(r, err) : status;
}
