// Which values of an entry are computed before it runs.
#ifndef PASSES_PREPARE_H
#define PASSES_PREPARE_H

#include "passes/passes.h"

// By id of the entry's graph: computed only from constants and from parameters, states and settings
// that the entry does not write, by operations that cannot fail and draw no random numbers. NULL:
// nothing of this entry is prepared.
bool *prepare_finds(const Module *m, const Entry *e, const PassOptions *o);

#endif
