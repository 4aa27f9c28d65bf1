// Internal: copies of the cells that an entry writes.
#ifndef LIB_KEEP_H
#define LIB_KEEP_H

#include "lib/lib.h"

typedef struct Kept Kept;
// Of what the cells hold now. own: those of the runtime ("@step"), too.
netc_status kept_new(netc_session *s, const Program *p, const ProgEntry *e, bool own, Kept **out,
                     netc_error **err);
// Copies anew; what is large may go on being copied while the session works, and an error of that
// is the next call's.
netc_status kept_take(Kept *k, netc_error **err);
double kept_seconds(const Kept *k); // that the last copy took; infinite: it is under way
netc_status kept_put_back(Kept *k, netc_error **err);
// *cell: a cell that holds a value that is not finite now and did not when it was first copied, or
// NULL.
netc_status kept_unsound(Kept *k, const char **cell, netc_error **err);
void kept_free(Kept *k); // NULL is fine

// Whether [data] are values that training may leave in the cell: finite; of a model's own state,
// which may hold infinities on purpose, no NaN.
bool cell_is_sound(const ProgCell *c, const void *data);

#endif
