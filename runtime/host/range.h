// Whether integers are in the range an input declares.
#ifndef RUNTIME_RANGE_H
#define RUNTIME_RANGE_H

#include "runtime/runtime.h"

// Checks n elements, [row] per example; high is one past the largest value. Floats are not checked.
// The error has the first example out of range, its value and the name [what].
RtCode rt_range_check(ProgDType t, const void *data, int64_t n, int64_t row, int64_t low,
                      int64_t high, const char *what, RtError *e);

#endif
