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
    netc_status status; // set when something could not be run at all
    bool ok;
} Checking;

void check_all_gradients(Checking *c);
void check_all_kernels(Checking *c);

// The model elaborated again, with one more definition (or ""). NULL: reported in c->status.
Module *checking_module(Checking *c, const char *define, Diags **d);
// The same; NULL: nothing is reported, *d has the errors.
Module *checking_try(Checking *c, const char *define, Diags **d);
// A value for an input node: synthetic, as the kernels get it.
Value *checking_input(Checking *c, const Node *input);
// Whose values an execution has: each round has others. Larger ones where state has moved, so that
// what clips and saturates is met on both sides; without state uneven ones, among which a maximum
// or a small sum counts, or, where these lead out of the range of numbers, some that are small.
typedef enum CheckRound { ROUND_FIRST, ROUND_MOVED, ROUND_UNEVEN, ROUND_SMALL } CheckRound;

// As bytes, of a type that may have more examples.
void *checking_data(Checking *c, const Node *input, const Type *t, CheckRound round);

// -- executions by the evaluator (check/check_reference.c) ----------------------------------------
typedef struct Given { // an input
    const char *name;
    void *bytes;       // of the whole data set where row_bytes > 0
    int64_t row_bytes; // of an example; 0: given with the call
} Given;

typedef struct Execution {
    const Entry *entry;
    StrMap inputs, cells; // name -> Given *; name -> Value *, before it
    int32_t *rows;        // the data set's table; NULL: none is bound
    int64_t nrows, examples, cursor;
    CheckRound round;
    EvalResult want;
    double decided;    // percent of the entry's elements, kept with its first execution: the best
                       // variant's
    uint64_t launches; // of the entry as it was compiled, kept there, too (check_kernels.c)
} Execution;
typedef VEC(Execution *) Reference;

// Every entry of a plain module, each of init in its order, others from what init leaves and, where
// they write cells or read a data set, once more from states that have moved. A failure is in
// c->status.
Reference *check_reference(Checking *c, const Module *m);

#endif
