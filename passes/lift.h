// Nodes of a loop's body, computed for all iterations at once: axis 0 of an image is the iteration.
#ifndef PASSES_LIFT_H
#define PASSES_LIFT_H

#include "ir/graph.h"

typedef struct Lift {
    Graph *dst;
    int64_t count; // iterations
    Node **image;  // by id of the body's nodes; the caller sets those of the parameters
    bool *varies;  // by id: the value differs between iterations, so the image has axis 0
} Lift;

// Whether x can be lifted, given which values vary. x does nothing but compute a value.
bool lift_can(const Node *x, const bool *varies);
// Creates the image of x, whose operands have theirs.
void lift_node(Lift *l, const Node *x);
// The image of x with axis 0, along which it is repeated if it does not vary.
Node *lift_result(Lift *l, const Node *x);
// The axes in an attribute, each incremented, behind axis 0 if [with_first].
void lift_axes(Graph *g, const Node *x, AttrKey key, bool with_first, Attrs *out);

#endif
