// What reductions and contractions run over.
#ifndef IR_AXES_H
#define IR_AXES_H

#include "ir/graph.h"

typedef struct DotAxes { // of one operand of a contraction
    int nbatch, ncontract, nfree;
    int64_t batch[MAX_RANK], contract[MAX_RANK]; // in the order in which they pair with the other's
    int64_t free[MAX_RANK];                      // ascending
} DotAxes;

typedef struct DotSizes { // as a matmul: batch times (m, k) x (k, n)
    int64_t batch, m, n, k;
} DotSizes;

extern const AttrKey dot_keys[2][2]; // by operand: its batch axes, its contracted axes
DotAxes dot_axes(const Node *dot, int side);
DotSizes dot_sizes(const Node *dot);

typedef struct WindowAxes {
    int n, at; // at: the first axis within a window, of the result
    const int64_t *axis, *size, *stride, *dilation;
} WindowAxes;

WindowAxes window_axes(const Attrs *attrs);
// Places of a window along an axis of [extent]; below 1: it does not fit.
int64_t window_places(int64_t extent, int64_t size, int64_t stride, int64_t dilation);

// Whether sums over the axes are of columns: the contiguous axis is not summed.
bool axes_leave_columns(const Type *t, const int64_t *axes, int naxes);
// Whether a broadcast is constant along the axes.
bool broadcast_repeats(const Node *b, const int64_t *axes, int naxes);
// The broadcast without the axes, along which it is constant: as long as a sum over them.
Node *broadcast_without(Graph *g, const Node *b, const int64_t *axes, int naxes);

// Elements of its operand behind each element of a reduction's or contraction's result.
int64_t reduced_count(const Node *n);

#endif
