// Which values of an entry are computed before it runs.
#ifndef PASSES_PREPARE_H
#define PASSES_PREPARE_H

#include "passes/passes.h"

// For each id of the entry's graph: whether the node depends only on constants and on parameters,
// states and settings that the entry does not write, through operations that cannot fail and draw
// no random numbers. NULL: nothing of this entry is prepared.
bool *prepare_finds(const Module *m, const Entry *e, const PassOptions *o);

#endif
