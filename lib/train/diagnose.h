// Explains a step that failed a check on the device.
#ifndef LIB_DIAGNOSE_H
#define LIB_DIAGNOSE_H

#include "lib/lib.h"

// Replays the step of [b] the session stands before with the evaluator. When it finds the first
// value that is not finite it sets *err (which must be NULL) and returns NETC_CHECK_FAILED; else
// NETC_OK, *err untouched.
netc_status diagnose_nonfinite(netc_session *s, Build *b, const char *entry, netc_dataset *data,
                               const int32_t *rows, int64_t step, netc_error **err);

#endif
