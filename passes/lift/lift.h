// Nodes of a loop's body, computed for all iterations at once: axis 0 of an image is the iteration.
#ifndef PASSES_LIFT_H
#define PASSES_LIFT_H

#include "ir/graph.h"

// What differs between iterations, by id of the body's nodes.
typedef struct Varying {
    bool *is;
    int64_t *step; // of i64 scalars: what an iteration adds; LIFT_UNKNOWN if that differs
} Varying;
#define LIFT_UNKNOWN INT64_MIN

typedef struct Lift {
    Graph *dst;
    int64_t count;   // iterations
    Node **image;    // by id of the body's nodes; the caller sets those of the parameters
    Node **first;    // by id of parameters with a step: what they are in iteration 0, also set
    Varying varies;  // the image of what varies has axis 0
    Node ***results; // by id of the body's loops: images of their results; NULL: it has no loops
} Lift;

Varying lift_varying(const Graph *body); // nothing varies
// Parameter [index] of the body varies; step: see Varying.
void lift_param_varies(const Graph *body, uint32_t index, int64_t step, Varying *out);
// Marks what is computed from what varies.
void lift_find_varying(const Graph *body, Varying *out);
// Whether x can be lifted. x does nothing but compute a value, and is no loop or result of one.
bool lift_can(const Node *x, const Varying *varies);
// The images of parameter 0, the counter.
void lift_counter(Lift *l, const Graph *body);
// The value of the i64 scalar x, whose step is known, in iteration 0.
Node *lift_first(Lift *l, const Node *x);
// Creates the image of x, whose operands have theirs.
void lift_node(Lift *l, const Node *x);
// The image of x with axis 0, along which it is repeated if it does not vary.
Node *lift_result(Lift *l, const Node *x);
// The axes in an attribute, each incremented, behind axis 0 if [with_first].
void lift_axes(Graph *g, const Node *x, AttrKey key, bool with_first, Attrs *out);
// y, repeated along a new axis 0.
Node *lift_repeated(Graph *g, Node *y, int64_t count);
// y with the axis moved to the front.
Node *lift_to_front(Graph *g, Node *y, int axis);

// lift_index.c: the image of a gather, a scatter, or an access at a computed place.
Node *lift_index(Lift *l, const Node *x);

// lift_loop.c: loops within the body. All their results vary if an operand does.
bool lift_can_loop(const Node *x, const Varying *varies);
void lift_loop(Lift *l, const Node *x);

// lift_bytes.c: bytes of memory that x, no loop, takes in each iteration when it is lifted:
// elementwise code and views are fused into what reads them, unless that is a product.
int64_t lift_bytes(const Node *x);
// Bytes that an iteration of the loop with this body may take: as many as it reads and stacks
// anyway, or its share of [most] if that is more; at most its share of [limit] (0: no limit).
int64_t lift_room(const Node *loop, const Graph *body, int64_t most, int64_t limit);
// lift_bytes() of all of the body, or of what varies, by id, if that is not NULL; with loops in it.
int64_t lift_body_bytes(const Graph *body, const bool *varies);

#endif
