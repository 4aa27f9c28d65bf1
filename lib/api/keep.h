// Internal: copies of the cells that an entry writes.
#ifndef LIB_KEEP_H
#define LIB_KEEP_H

#include "lib/lib.h"

typedef struct Kept Kept;
// A copy of the cells' present values. own: including those of the runtime ("@step").
netc_status kept_new(netc_session *s, const Program *p, const ProgEntry *e, bool own, Kept **out,
                     netc_error **err);
// Copies again. Large cells may continue to be copied while the session works; an error of that is
// reported by the next call.
netc_status kept_take(Kept *k, netc_error **err);
double kept_seconds(const Kept *k); // time of the last copy; infinite: it is in progress
netc_status kept_put_back(Kept *k, netc_error **err);
// *cell: a cell that holds a non-finite value now and did not when it was first copied, or NULL.
netc_status kept_unsound(Kept *k, const char **cell, netc_error **err);
void kept_free(Kept *k); // NULL is fine

// Whether [data] are values that training may leave in the cell: finite ones; for a model's own
// state, which may hold infinities on purpose, no NaN.
bool cell_is_sound(const ProgCell *c, const void *data);

#endif
