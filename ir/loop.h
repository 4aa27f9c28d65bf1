// Which values of a loop can share one stack. If a loop carries a value and also stacks its value
// at the beginning or the end of each iteration, the carried value needs no memory of its own and
// no copy: the stack gets one more slice, each iteration reads the slice that the previous one has
// written, and both stacks are parts of it, one slice apart.
#ifndef IR_LOOP_H
#define IR_LOOP_H

#include "ir/graph.h"

// Whether the op runs once, in kernels that store its results: a call, or a loop inside one kernel.
bool runs_as_kernel(const Node *n);

// Of a loop in one kernel (passes/recurrences.c): the elements of its largest carried value, for
// each of which there is a thread; the length of the last axis if sums over it can be computed by
// neighbouring threads, else 0; and that value's type if a block of threads can have a whole last
// axis, whose elements then may meet each other, else NULL.
typedef struct RecurrenceShape {
    int64_t elements, lanes;
    const Type *row;
} RecurrenceShape;
RecurrenceShape recurrence_shape(const Node *loop);
// By id of the body's nodes: whether the value depends on carried values.
bool *recurrence_moving(const Graph *body, uint32_t carried);
// Views whose elements can be others of the same row.
bool recurrence_shifts(const Node *view);
// Whether elements of carried values meet others of their row, in such views of what depends on
// them.
bool recurrence_meets(const Graph *body, uint32_t carried);

// The bool among the parameters of the loop's body that says whether an iteration has any effect:
// where it is false, carried values stay as they are, and stacked results are zeros, as
// passes/loop_masks.c makes them; a carried value whose result is the bool itself, and which the
// body does not read, becomes false. NULL: there is none.
const Node *loop_flag(const Node *loop);

// Whether this carried value lies in such a stack.
bool loop_stacks(const Node *loop, uint32_t carried);
// The carried value whose stack holds this stacked result, or -1. *next: the result is the value at
// the end of each iteration, otherwise at its beginning.
int loop_stack_of(const Node *loop, uint32_t result, bool *next);

#endif
