// Symbolic index expressions: canonical sums of coefficient * term + constant. A term is an axis, a
// quotient or remainder of another expression, or an integer computed by the kernel (a gather's
// index). Expressions are interned: equal pointers are equal expressions.
#ifndef CODEGEN_INDEX_H
#define CODEGEN_INDEX_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/map.h"

typedef struct Ix Ix;

typedef enum IxTermKind { IT_AXIS, IT_DIV, IT_MOD, IT_VALUE } IxTermKind;

typedef struct IxTerm {
    IxTermKind kind;
    uint32_t serial;   // order of creation; sums list their terms in this order
    int id;            // AXIS: the axis; VALUE: the instruction
    const Ix *e;       // DIV, MOD: the dividend
    int64_t by;        // DIV, MOD: the divisor
    int64_t low, high; // range, inclusive
    uint64_t axes;     // one bit for each axis that the term depends on
} IxTerm;

struct Ix {
    int64_t constant;
    int n;
    int64_t low, high; // range, inclusive
    uint64_t axes;
    bool has_value; // some term, at any depth, is IT_VALUE
    struct IxPart {
        int64_t coeff; // never 0
        const IxTerm *term;
    } at[];
};

typedef struct IxCtx {
    Arena *arena;
    IdMap sums, terms; // content hash -> pointer
    uint32_t serials;
} IxCtx;

IxCtx *ix_new(Arena *a);
const Ix *ix_const(IxCtx *c, int64_t v);
const Ix *ix_axis(IxCtx *c, int axis, int64_t extent);
const Ix *ix_value(IxCtx *c, int inst, int64_t low, int64_t high, uint64_t axes);
const Ix *ix_term(IxCtx *c, const IxTerm *t);
const Ix *ix_add(IxCtx *c, const Ix *a, const Ix *b);
const Ix *ix_scale(IxCtx *c, const Ix *a, int64_t by);
const Ix *ix_div(IxCtx *c, const Ix *a, int64_t by); // floor, by > 0
const Ix *ix_mod(IxCtx *c, const Ix *a, int64_t by); // in 0..by

// The row-major index of idx in a shape, and the inverse.
const Ix *ix_linear(IxCtx *c, const Ix *const *idx, const int64_t *dim, int rank);
void ix_delinear(IxCtx *c, const Ix *flat, const int64_t *dim, int rank, const Ix **idx);

bool ix_is_const(const Ix *e, int64_t *v);
// The value of e if axis i is at[i]; for expressions without computed values.
int64_t ix_at(const Ix *e, const int64_t *at);
// If e is linear in the axis (which must not occur in a quotient, remainder or computed value):
// sets *stride to its coefficient and returns true.
bool ix_stride(const Ix *e, int axis, int64_t *stride);
// Whether the constant and all coefficients except those of [axis] are divisible by v, so that the
// address is a multiple of v elements whenever [axis] is.
bool ix_aligned(const Ix *e, int axis, int64_t v);
// For aligned runs of [width] along the axis: sets *step to 0 or 1 and, if it is 1, whether runs
// begin at multiples of the width. false: the step is not the same everywhere, or another number.
// Quotients and remainders by multiples of the width do not end a run.
bool ix_run(const Ix *e, int axis, int64_t width, int64_t *step, bool *aligned);
// Whether such runs are contiguous in memory, and each starts at a multiple of the width.
bool ix_vectors(const Ix *e, int axis, int64_t width);
// Whether e depends on axes hi and lo only through hi * extent + lo, so that they can be one axis.
bool ix_mergeable(const Ix *e, int hi, int lo, int64_t extent);

#endif
