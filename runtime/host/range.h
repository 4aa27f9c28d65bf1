// Whether integers lie in the range an input declares.
#ifndef RUNTIME_RANGE_H
#define RUNTIME_RANGE_H

#include "runtime/runtime.h"

// n elements, [row] of them an example; high is one past the largest. Floats are not looked at. The
// message names [what], the first offending example and its value.
RtCode rt_range_check(ProgDType t, const void *data, int64_t n, int64_t row, int64_t low,
                      int64_t high, const char *what, RtError *e);

#endif
