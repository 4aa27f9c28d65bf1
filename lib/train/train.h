// Private to training (train.c, train_plan.c, train_back.c): the state of one training run.
#ifndef LIB_TRAIN_H
#define LIB_TRAIN_H

#include "lib/api/keep.h"

typedef struct Best { // of the evaluations so far (train_best.c)
    char *metric;     // the output that is looked at; NULL: none is
    bool largest;     // is best, else the smallest
    char *path;       // of its checkpoint; NULL: none is kept
    bool written;     // by this run
    double value;
    int64_t step, seen; // -1: none; of the last evaluation
    int64_t waited;     // evaluations since
} Best;

typedef struct Run {
    netc_session *s;
    const netc_train_options *o;
    Loaded *l;
    const ProgEntry *e;
    const char **watch; // names
    int nwatch;
    Rows train, eval;
    int64_t examples, batch, steps_per_epoch, tail, total, step;
    int64_t report_every, eval_every;
    int64_t piece; // steps that may be enqueued in a row (next_piece)
    int64_t last_report_step;
    double start, last_report; // (without what evaluations and checkpoints since took)
    double evaluation;         // seconds of the fastest evaluation so far, 0: none was
    int64_t saved;             // the step of the last checkpoint, -1: none
    bool lost;                 // nothing can be saved any more
    RtError failed;            // what the device said of the last chunk
    Kept *kept;                // what the step kept_step had left; NULL: there is no room
    int64_t kept_step;
    double kept_at, kept_cost; // seconds: when it was copied, and how long that took
    Best best;
    int32_t *rows;  // the order of the epoch that step lies in
    int32_t *ahead; // that of epoch ahead_of
    int64_t ahead_of;
} Run;

// train_plan.c: what is to be done, and whether it can be, before the first step.
// record: the best evaluation as the checkpoint that is gone on from says it, or "".
netc_status run_plan(Run *r, const char *record, netc_error **err);
// Micro-batches in a step of the entry, whose batch is that of all.
int64_t accumulated(const ProgEntry *e);
// The definition under which the last examples of an epoch are a batch of their own.
void run_tail_define(const Run *r, char *define, size_t n);

// train.c
void run_order(Run *r, int64_t epoch); // of an epoch, in r->ahead
// The order of the epoch that r->step lies in goes to the device; reading goes on where it says.
netc_status run_epoch(Run *r, netc_error **err);
// Runs steps until something is due; r->step moves on. An error of the device is in r->failed.
netc_status run_chunk(Run *r, netc_error **err);

// Writes a checkpoint of this step, and says so.
netc_status run_write(Run *r, const char *path, netc_error **err);

// train_best.c. e: the eval entry; only called where something is evaluated or asked for.
netc_status best_plan(Run *r, const ProgEntry *e, const char *record, netc_error **err);
bool best_waits(const Run *r); // false: patience is at its end
// Behind an evaluation, with its metrics "eval_…": keeps it where it is the best.
netc_status best_look(Run *r, const netc_metric *m, int n, netc_error **err);
void best_position(const Run *r, Position *at);
void best_text(const Run *r, char *out, size_t n); // how it stands, "" where nobody looks
void best_free(Best *b);

// train_back.c
// Copies the states, known to be sound, of this step.
netc_status run_keep(Run *r, netc_error **err);
// Looks at the states; where they are not sound, goes back to the last that were, and fails.
netc_status run_sound(Run *r, netc_error **err);
// The error that r->failed is.
netc_status run_explain(Run *r, netc_error **err);

#endif
