// Private to training (train.c, train_plan.c, train_back.c): the state of one training run.
#ifndef LIB_TRAIN_H
#define LIB_TRAIN_H

#include "lib/api/keep.h"

typedef struct Best { // the best evaluation so far (train_best.c)
    char *metric;     // the output that is compared; NULL: none
    bool largest;     // the largest is best; otherwise the smallest
    char *path;       // of its checkpoint; NULL: not saved
    bool written;     // by this run
    double value;
    int64_t step, seen; // step of the best, step of the last evaluation; -1: none
    int64_t waited;     // number of evaluations since the best
} Best;

typedef struct Run {
    netc_session *s;
    const netc_train_options *o;
    Loaded *l;
    const ProgEntry *e;
    Loaded *ran;        // the build that ran the last step: l, or that of the last, smaller batch
    const char **watch; // names
    int nwatch;
    Rows train, eval;
    int64_t examples, batch, steps_per_epoch, tail, total, step;
    int64_t report_every, eval_every;
    int64_t piece; // limit of steps enqueued in a row (next_piece)
    int64_t last_report_step;
    double start, last_report; // (excluding later evaluations and checkpoints)
    double evaluation;         // seconds of the fastest evaluation so far; 0: none
    int64_t saved;             // step of the last checkpoint; -1: none
    bool lost;                 // nothing can be saved any more
    RtError failed;            // the device's error for the last chunk
    Kept *kept;                // states after step kept_step; NULL: no memory for a copy
    int64_t kept_step;
    double kept_at, kept_cost; // time and duration of that copy in seconds
    Best best;
    int32_t *rows;  // the order of the epoch that contains [step]
    int32_t *ahead; // the order of epoch [ahead_of]
    int64_t ahead_of;
} Run;

// train_plan.c: plans the run and checks, before the first step, that everything can be done.
// record: the best evaluation as recorded in the checkpoint that is resumed, or "".
netc_status run_plan(Run *r, const char *record, netc_error **err);
// The number of micro-batches per step. The entry's batch is that of a whole step.
int64_t accumulated(const ProgEntry *e);
// The definition for a batch of the last examples of an epoch.
void run_tail_define(const Run *r, char *define, size_t n);

// train.c
void run_order(Run *r, int64_t epoch); // computes the order of an epoch in r->ahead
// Uploads the order of the epoch that contains r->step; data are then read in that order.
netc_status run_epoch(Run *r, netc_error **err);
// Runs steps until something is due, and increases r->step. An error of the device is stored in
// r->failed.
netc_status run_chunk(Run *r, netc_error **err);

// Writes a checkpoint of this step and reports it.
netc_status run_write(Run *r, const char *path, netc_error **err);

// train_best.c. e: the eval entry. Only called if there are evaluations or a best one is requested.
netc_status best_plan(Run *r, const ProgEntry *e, const char *record, netc_error **err);
bool best_waits(const Run *r); // false: there was no improvement for too long
// After an evaluation with the metrics "eval_…": records it if it is the best so far.
netc_status best_look(Run *r, const netc_metric *m, int n, netc_error **err);
void best_position(const Run *r, Position *at);
void best_text(const Run *r, char *out, size_t n); // describes the best evaluation; "" if none is
                                                   // compared
void best_free(Best *b);

// train_back.c
// Copies the states of this step, which must be sound.
netc_status run_keep(Run *r, netc_error **err);
// Checks the states; if they are not sound, goes back to the last sound ones and fails.
netc_status run_sound(Run *r, netc_error **err);
// Returns r->failed as an error.
netc_status run_explain(Run *r, netc_error **err);

#endif
