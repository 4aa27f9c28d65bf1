// Explains a step that failed a check on the device.
#ifndef LIB_DIAGNOSE_H
#define LIB_DIAGNOSE_H

#include "lib/lib.h"

// Runs the next step of the session with the evaluator. If that finds a non-finite value, sets *err
// (which must be NULL) to an error about the first one and returns NETC_CHECK_FAILED; otherwise
// returns NETC_OK and leaves *err unchanged.
netc_status diagnose_nonfinite(netc_session *s, Build *b, const char *entry, netc_dataset *data,
                               const int32_t *rows, int64_t step, netc_error **err);

#endif
