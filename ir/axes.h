// The axes of reductions and contractions.
#ifndef IR_AXES_H
#define IR_AXES_H

#include "ir/graph.h"
#include "ir/target.h"

typedef struct DotAxes { // the axes of one operand of a contraction
    int nbatch, ncontract, nfree;
    // In the order in which they pair with the other operand's.
    int64_t batch[MAX_RANK], contract[MAX_RANK];
    int64_t free[MAX_RANK]; // ascending
} DotAxes;

// The axis of the stored value that this axis of n is, where n only reorders its axes.
int axis_in_memory(const Node *n, int64_t axis);

typedef struct DotSizes { // as a matmul: batch times (m, k) x (k, n)
    int64_t batch, m, n, k;
} DotSizes;

extern const AttrKey dot_keys[2][2]; // by operand: its batch axes, its contracted axes
DotAxes dot_axes(const Node *dot, int side);
DotSizes dot_sizes(const Node *dot);

typedef struct WindowAxes {
    int n, at; // at: the first axis within a window in the result
    const int64_t *axis, *size, *stride, *dilation;
} WindowAxes;

WindowAxes window_axes(const Attrs *attrs);
// The number of positions of a window along an axis of size [extent]; below 1 if it does not fit.
int64_t window_places(int64_t extent, int64_t size, int64_t stride, int64_t dilation);

TargetSums scatter_sizes(const Node *scatter);
// What a reduction (sum, prod, max, min) of nothing gives; of argmax, a value that is not chosen.
double axes_identity(Op reduces, DType t);

// Whether a reduction over the axes sums columns: the contiguous axis is not summed.
bool axes_leave_columns(const Type *t, const int64_t *axes, int naxes);
// Whether a broadcast is constant along the axes.
bool broadcast_repeats(const Node *b, const int64_t *axes, int naxes);
// The broadcast without these axes, along which it must be constant: the size of a sum over them.
Node *broadcast_without(Graph *g, const Node *b, const int64_t *axes, int naxes);

// The number of operand elements that are combined into each element of a reduction's or
// contraction's result.
int64_t reduced_count(const Node *n);

#endif
