// Returns to the last step after which all states were sound, that is, finite.
//
// A step checks its indices, asserts and loss before it writes anything. The values it writes are
// not checked: in a fused step that would cost a launch, or a second copy of all states. The host
// checks the states from time to time, before they are saved and at the end, and keeps a snapshot
// of sound ones; how often depends on the cost of a snapshot. If states are not sound, training
// restores the snapshot and repeats the steps, with the same bits, up to the first that writes such
// values.
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "lib/train/diagnose.h"
#include "lib/train/train.h"

// Copies the states of this step, which must be sound.
netc_status run_keep(Run *r, netc_error **err)
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
    return status == NETC_OK && r->step % r->steps_per_epoch ? run_epoch(r, err) : status;
}

// Runs up to [step]; returns whether the states are sound then.
static bool repeat(Run *r, int64_t step)
{
    const char *bad = NULL;
    int64_t total = r->total;
    netc_status status = NETC_OK;
    r->total = step;
    while (status == NETC_OK && r->step < step) status = run_chunk(r, NULL);
    r->total = total;
    if (status == NETC_OK) status = kept_unsound(r->kept, &bad, NULL);
    return status == NETC_OK && !bad;
}

// The build that runs [step], and the rows of its batch.
static Build *build_of(const Run *r, int64_t step, const int32_t **rows)
{
    int64_t done = step % r->steps_per_epoch;
    char define[128];
    Loaded *l = r->l;
    *rows = r->rows + done * r->batch;
    if (r->tail && done == r->steps_per_epoch - 1) {
        run_tail_define(r, define, sizeof define);
        session_loaded(r->s, define, "train", &l, NULL);
    }
    return l->build;
}

// After [cell] was found not to be sound: returns to the last step after which all cells were.
static netc_status rewind_run(Run *r, const char *cell, netc_error **err)
{
    int64_t bad = r->step; // after so many steps, the states are not sound
    netc_status status = go_back(r, err);
    while (status == NETC_OK && bad - r->kept_step > 1) {
        int64_t mid = r->kept_step + (bad - r->kept_step) / 2;
        if (repeat(r, mid)) {
            status = run_keep(r, err);
        } else {
            bad = mid;
            status = go_back(r, err);
        }
    }
    if (status != NETC_OK) return r->lost = true, status;
    const int32_t *rows;
    if (r->step % r->steps_per_epoch == 0) run_order(r, r->step / r->steps_per_epoch);
    Build *b = build_of(r, r->step, &rows);
    if (r->step % r->steps_per_epoch == 0) rows = r->ahead;
    status = diagnose_nonfinite(r->s, b, "train", r->train.data, rows, r->step, err);
    if (status != NETC_OK) return status;
    return lib_fail(err, NETC_CHECK_FAILED,
                    "step %" PRId64 " writes values that are not finite into '%s'; nothing of it "
                    "was kept: parameters and states are those of step %" PRId64,
                    r->step + 1, cell, r->step);
}

netc_status run_sound(Run *r, netc_error **err)
{
    const char *bad;
    netc_status status = r->kept ? kept_unsound(r->kept, &bad, err) : NETC_OK;
    return r->kept && status == NETC_OK && bad ? rewind_run(r, bad, err) : status;
}

// Returns the error that the device reported for a chunk. If a check failed, or a step's data could
// not be read, the states are those of the step before. After other failures they may belong to no
// step, and nothing is saved.
netc_status run_explain(Run *r, netc_error **err)
{
    RtError ignored = {0};
    int64_t step = r->step;
    RtCode code = r->failed.code;
    r->lost = code != RT_CHECK && code != RT_OOM && code != RT_USER;
    if (r->lost || rt_cell_read(r->s->rt, "@step", &step, sizeof step, &ignored))
        return lib_fail_rt(err, &r->failed);
    r->step = step;
    netc_status status = run_sound(r, err);
    if (status != NETC_OK || r->failed.code != RT_CHECK)
        return status == NETC_OK ? lib_fail_rt(err, &r->failed) : status;
    const int32_t *rows;
    Build *b = build_of(r, step, &rows);
    if (!err || !*err)
        status = diagnose_nonfinite(r->s, b, "train", r->train.data, rows, step, err);
    return status != NETC_OK ? status : lib_fail_rt(err, &r->failed);
}
