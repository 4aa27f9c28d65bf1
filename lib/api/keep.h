// Internal: copies of the cells that an entry writes.
#ifndef LIB_KEEP_H
#define LIB_KEEP_H

#include "lib/lib.h"

typedef struct Kept Kept;
// A copy of the cells' current values. own: including those of the runtime ("@step").
netc_status kept_new(netc_session *s, const Program *p, const ProgEntry *e, bool own, Kept **out,
                     netc_error **err);
// Copies again. Large cells may still be copied while the session continues; the next call then
// reports errors of that.
netc_status kept_take(Kept *k, netc_error **err);
double kept_seconds(const Kept *k); // duration of the last copy; infinity while it is running
netc_status kept_put_back(Kept *k, netc_error **err);
// *cell: a cell that has non-finite values now and had none when it was first copied, or NULL.
netc_status kept_unsound(Kept *k, const char **cell, netc_error **err);
void kept_free(Kept *k); // k may be NULL

// Whether training may leave these values in the cell: they must be finite or, in a model's own
// state, which may contain infinities on purpose, not NaN.
bool cell_is_sound(const ProgCell *c, const void *data);

#endif
