// Shared by the printers of C.
#ifndef CODEGEN_PRINT_C_H
#define CODEGEN_PRINT_C_H

#include "codegen/schedule/plans.h"
#include "codegen/text/accumulator.h"
#include "codegen/text/print.h"

#define C_SIMD "#pragma omp simd"

// Text of the whole kernel; [pretty]: with the model's names and the head comment.
const char *print_c(Kernel *k, bool pretty);
// Rows in order, in scratch memory that is added to the body's buffers.
void sort_c_scratch(Arena *a, Body *b, int *count);

// Whether nothing computed over [axis] calls for scalar code (checks, loops of their own, argmax).
bool c_plain_over(const Emit *e, int axis);
bool c_plain_in_turns(const Emit *e, int axis); // ... but argmax
// A loop over an axis, innermost: what is printed between the two is its body; pragma: of vectors,
// or
// "". What depends on the axis by quotients and remainders of one period runs in two nested loops,
// the inner of which is linear; whole: [from] is a multiple of the period, and [to] is where the
// extent is one.
void c_open_loop(Emit *e, int axis, int64_t period);
void c_close_loop(Emit *e, const char *from, const char *to, bool whole, const char *pragma);
// That period, where it is [least] or more: shorter inner loops cost what they save. 0: one loop.
enum { ROUND = 8 };
int64_t c_period(const Emit *e, int axis, int64_t least);
// The same, halves beforehand and behind it by vectors (halves_c.c): those of a stage (-1: of maps)
// along the axis of a loop of vectors that lie side by side.
void c_open_pieces(Emit *e, int axis, int64_t period, int stage, bool simd);
bool c_any_halves(Emit *e, int axis, int stage); // whether there are such
void c_close_pieces(Emit *e, const char *from, const char *to, bool whole, const char *pragma);
// Its parts, in the scope around the loops of a piece, which is at most C_PIECE elements long.
enum { C_PIECE = 512, C_FEW = 16 }; // (e->few)
// Whether nothing along the axis but these halves is narrower than a float: compilers make vectors
// of as many as there are of the narrowest in one, more than C_FEW.
bool c_fits_few(Emit *e, int axis, int stage);
void c_take_halves(Emit *e, int axis, int stage, const char *first, const char *last);
void c_take_half(Emit *e, uint32_t i, int axis, int stage, const char *first, const char *last);
void c_give_halves(Emit *e, int axis, const char *first, const char *last);
void c_close_piece(Emit *e, const char *first, const char *last, const char *from, const char *to);
// A map's innermost loop, all of it, as several (levels_c.c); false: one is as good.
bool c_levels(Emit *e, int axis, const char *from, const char *to);
const char *c_omp_reduction(Emit *e, const int *r, int n, const char *suffix); // clauses
// Whether one of them joins integers. Their loops are not told to be vectors: gcc 13 keeps the
// results of such a loop in an array and reads them only where a branch adds to them, so that a sum
// of `c ? x : 0` begins with what nobody wrote. It finds these vectors by itself.
bool c_integers(const Emit *e, const int *r, int n);
const char *c_acc_type(DType t); // of what they keep: compilers make no vectors of bool
bool c_float_sum(const Inst *v); // in f32: long ones go on in double
// One step of a reduction or scan on element x, in the innermost scope; acc names the accumulator,
// which begins with c_start, and best that of the value at a place, which begins with the identity.
void c_accumulate(Emit *e, int r, const char *acc, const char *best, const char *axis);
const char *c_start(Emit *e, const Inst *v, const char *first); // first: of the columns
// Largest and least floats; which (h, b: of f16, bf16) are those of stored 16-bit floats, or NULL:
// these are joined as integers of 16 bits (order_c.c), which begin with c_order_start.
bool c_ordered(const Inst *v);
const char *c_stored_order(const Emit *e, int r);
const char *c_order_start(Emit *e, int r);
void c_order_accumulate(Emit *e, int r, const char *acc);
const char *c_order_result(Emit *e, int r, const char *acc);
// Scratch buffers in the order reductions use them: one each, argmax a second for the value; where
// a part's result stands in it.
const char *c_scratch(Emit *e, int nth);
const char *c_part_place(Emit *e, const char *part);

// What a stage leaves to later ones (keep_c.c). Costly values, in arrays of so many elements:
// [at]: the text of an element's place. In the scope where they are used.
void c_declare_kept(Emit *e, int64_t elements);
void c_recall(Emit *e, int stage, const char *at);   // what earlier stages have computed
void c_remember(Emit *e, int stage, const char *at); // what this one has
// Values of the rows of a task that begin at [first], which the columns of a stage need: computed
// once, in a loop before the stage. false: there are none. recall: of stages before this one.
bool c_declare_rows(Emit *e, int stage);
void c_remember_rows(Emit *e, int stage);
void c_recall_rows(Emit *e, int stage);
// Short rows side by side (else nothing): those from first to last of a task become columns before
// anything is computed, and what they store becomes rows at its end. turn_elements: loads and
// stores of the open loops, whose column has its text, are those of the columns.
void turn_in(Emit *e);
void turn_elements(Emit *e);
void turn_out(Emit *e);
// Where a buffer's elements begin at a place, with other texts for two of its axes; which nc_turn_
// moves such elements.
const char *turn_begin(Emit *e, int buf, const Ix *at, const int axis[2], const char *const to[2]);
int turn_bits(const Body *b, int buf);

// Each returns how many tasks there are. partial: a part of the columns; combine: the parts joined.
int64_t row_c(Emit *e, bool partial);
int64_t combine_c(Emit *e);
int64_t column_c(Emit *e, bool partial); // and short rows, side by side
int64_t tile_c(Emit *e);
// A map with an axis so short that its elements are written out; which that is, or -1.
int few_axis_c(const Emit *e);
int64_t few_c(Emit *e, int few);
int64_t turned_map_c(Emit *e); // a map, some of whose operands lie along another axis
int64_t sort_c(Emit *e);

#endif
