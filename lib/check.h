// The two halves of netc_check. Each appends lines to [out] and says whether all was right.
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
// A value for an input node: synthetic, as the kernels get it.
Value *checking_input(Checking *c, const Node *input);

#endif
