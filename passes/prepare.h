// What of an entry is computed before it runs.
#ifndef PASSES_PREPARE_H
#define PASSES_PREPARE_H

#include "passes/passes.h"

// By id of the entry's graph: made of parameters, states and settings that the entry does not
// write, and of constants, by operations that neither fail nor draw. NULL: nothing of this entry is
// prepared.
bool *prepare_finds(const Module *m, const Entry *e, const PassOptions *o);

#endif
