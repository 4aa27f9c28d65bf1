// Loops that run as one kernel, a thread an element of the carried values (recurrences.c).
#ifndef PASSES_RECURRENCES_H
#define PASSES_RECURRENCES_H

#include "ir/loop.h"

// Whether the kernel can compute x, if what x reads can be read or computed there.
bool recurrence_takes(const Node *x, bool moving, RecurrenceShape s);
// Whether such a kernel can store values of this type, one for each element or for all along the
// last axis.
bool recurrence_stores(const Type *t, RecurrenceShape s);
// Whether a loop of this body can be such a kernel. Without [s.row] elements do not meet.
bool recurrence_body(const Graph *body, uint32_t carried, RecurrenceShape s);

#endif
