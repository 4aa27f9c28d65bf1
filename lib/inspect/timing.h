// Prepares an entry for timing: binds data, made up if none are given, and runs it once.
#ifndef LIB_TIMING_H
#define LIB_TIMING_H

#include "lib/lib.h"

typedef struct Timing {
    netc_session *s;
    const netc_time_options *o;
    Arena *arena; // holds what is made up until timing_end
    Loaded *l;
    const ProgEntry *e;
    netc_dataset *made_up;
    int64_t most; // executions in a row that the data last for
} Timing;

netc_status timing_begin(Timing *t, const char *entry, netc_error **err);
void timing_end(Timing *t);
// Executions enqueued as a run does. In a Timing that has begun.
netc_status timing_whole(Timing *t, netc_times *out, netc_error **err);

#endif
