// The two halves of netc_check. Each appends lines to [out] and returns whether everything was
// correct.
#ifndef LIB_CHECK_H
#define LIB_CHECK_H

#include "ir/eval.h"
#include "lib/lib.h"

typedef struct Checking {
    netc_program *p;
    const char *device;
    int64_t seed;
    Arena *arena;
    Buf *out;
    netc_error **err;
    netc_status status; // an error if something could not be run
    bool ok;
    int partly, none; // gradients that could be compared only in part, or not at all
} Checking;

extern const char checking_made_up[]; // a note behind an error that the data may cause

void check_all_gradients(Checking *c);
// The module for the evaluator. NULL: it cannot be made, or takes more memory than is free.
Module *check_module(Checking *c);
void check_all_kernels(Checking *c, const Module *plain);

// The model, elaborated again with one more definition (or ""). NULL: an error was reported in
// c->status.
Module *checking_module(Checking *c, const char *define, Diags **d);
// The same, but NULL only sets the errors in *d; c->status does not change.
Module *checking_try(Checking *c, const char *define, Diags **d);
// Synthetic values for an input node, the same that kernels get.
Value *checking_input(Checking *c, const Node *input);
// The kind of data of an execution. ROUND_MOVED: larger values, after states have changed, so that
// functions that clip or saturate are tested on both sides. For entries without state:
// ROUND_UNEVEN, in which maxima and small sums matter, or, if that gives non-finite results,
// ROUND_SMALL, where some values are small.
typedef enum CheckRound { ROUND_FIRST, ROUND_MOVED, ROUND_UNEVEN, ROUND_SMALL } CheckRound;

// The same as bytes, for a type that may have more examples.
void *checking_data(Checking *c, const Node *input, const Type *t, CheckRound round);

// -- executions by the evaluator (check/check_reference.c) ----------------------------------------
typedef struct Given { // an input
    const char *name;
    void *bytes;       // of the whole data set if row_bytes > 0
    int64_t row_bytes; // per example; 0: not read through the row table
} Given;

typedef struct Execution {
    const Entry *entry;
    StrMap inputs, cells; // name -> Given *; name -> Value *, before the execution
    int32_t *rows;        // the row table of the data set; NULL: not used
    int64_t nrows, examples, cursor;
    CheckRound round;
    EvalResult want;
    double decided;    // in the first execution of an entry: percent of its elements that were
                       // decided in the best variant
    uint64_t launches; // in the first execution of an entry: hash of its launches as compiled
                       // (check_kernels.c)
} Execution;
typedef VEC(Execution *) Reference;

// Evaluates every entry of a plain module: the init entries in order; the others with the cells
// that init leaves. Entries that write cells or read a data set are evaluated again, with changed
// states. A failure is in c->status.
Reference *check_reference(Checking *c, const Module *m);

#endif
