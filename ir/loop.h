// Which values of a loop can lie in one stack. A value that the loop carries, and of which it also
// stacks what an iteration begins or ends with, needs no place of its own and no copy: the stack
// has one slice more, an iteration reads the slice that the one before has written, and both stacks
// are parts of it, one slice apart.
#ifndef IR_LOOP_H
#define IR_LOOP_H

#include "ir/graph.h"

// Whether this carried value lies in such a stack.
bool loop_stacks(const Node *loop, uint32_t carried);
// The carried value in whose stack this stacked result lies, -1: in none. *next: it is what the
// iterations end with, else what they begin with.
int loop_stack_of(const Node *loop, uint32_t result, bool *next);

#endif
