// Prepares an entry for timing: binds data, made up if none are given, and runs it once.
#ifndef LIB_TIMING_H
#define LIB_TIMING_H

#include "lib/lib.h"

typedef struct Before Before; // of the session (timing_restore.c)

typedef struct Timing {
    netc_session *s;
    const netc_time_options *o;
    Arena *arena; // holds made-up values until timing_end
    Loaded *l;
    const ProgEntry *e;
    netc_dataset *made_up;
    bool guessed;   // some data are made up
    int64_t most;   // limit of executions in a row, for which the data suffice
    Before *before; // what timing_end puts back; NULL: nothing
} Timing;

netc_status timing_begin(Timing *t, const char *entry, netc_error **err);
// status: of the timing. Returns it or, if that was NETC_OK, whether the session could be restored.
netc_status timing_end(Timing *t, netc_status status, netc_error **err);
// Reports an error of an execution; of a failed check, says if data were made up.
netc_status timing_fail(const Timing *t, RtError *e, netc_error **err);
// Times executions enqueued as in a run. After timing_begin.
netc_status timing_whole(Timing *t, netc_times *out, netc_error **err);

// timing_restore.c: a copy, in the arena, of what executions of the entry change.
netc_status before_take(Timing *t, netc_error **err);
netc_status before_put_back(Timing *t, netc_error **err);

#endif
