// Prepares an entry for timing: binds data, made up if none are given, and runs it once.
#ifndef LIB_TIMING_H
#define LIB_TIMING_H

#include "lib/lib.h"

typedef struct Timing {
    netc_session *s;
    const netc_time_options *o;
    Arena *arena; // holds made-up values until timing_end
    Loaded *l;
    const ProgEntry *e;
    netc_dataset *made_up;
    int64_t most; // limit of executions in a row, for which the data suffice
} Timing;

netc_status timing_begin(Timing *t, const char *entry, netc_error **err);
void timing_end(Timing *t);
// Times executions enqueued as in a run. After timing_begin.
netc_status timing_whole(Timing *t, netc_times *out, netc_error **err);

#endif
