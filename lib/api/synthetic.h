// Made-up inputs: integers drawn from an input's stated range, floats from a normal distribution.
#ifndef LIB_SYNTHETIC_H
#define LIB_SYNTHETIC_H

#include "lib/lib.h"

// Fills an input with values that depend only on (seed, name, index). Without a declared range, u8
// is drawn from 0..256 and other integers from 0..2.
void synthetic_fill(const ProgInput *in, int64_t seed, void *bytes);
// Binds every input of the entry to synthetic arrays allocated in the arena, which must outlive the
// runs.
netc_status synthetic_bind(netc_session *s, const char *entry, int64_t seed, Arena *a,
                           netc_error **err);

#endif
