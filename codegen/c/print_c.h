// Shared by the printers of C.
#ifndef CODEGEN_PRINT_C_H
#define CODEGEN_PRINT_C_H

#include "codegen/schedule/plans.h"
#include "codegen/text/accumulator.h"
#include "codegen/text/print.h"

#define C_SIMD "#pragma omp simd"

// The text of the whole kernel; [pretty]: with the model's names and the head comment.
const char *print_c(Kernel *k, bool pretty);
// Adds the scratch memory that sorting needs to the body's buffers.
void sort_c_scratch(Arena *a, Body *b, int *count);

// Whether nothing computed over [axis] needs scalar code (checks, nested loops, argmax).
bool c_plain_over(const Emit *e, int axis);
bool c_plain_in_turns(const Emit *e, int axis); // the same, but argmax is allowed
// Whether the body has few instructions and one stage, with nothing but these reductions.
bool c_is_light(const Body *b, const int *r, int n);
// Open and close the innermost loop, over an axis; what is printed between the two calls is its
// body. pragma: to vectorize the loop, or "". If indices contain quotients and remainders of the
// axis by one period, two nested loops are printed, the inner of which is linear. whole: [from] is
// a multiple of the period, and so is [to], unless it is the extent.
void c_open_loop(Emit *e, int axis, int64_t period);
void c_close_loop(Emit *e, const char *from, const char *to, bool whole, const char *pragma);
// That period if it is at least [least], since shorter inner loops save nothing. 0: a single loop.
enum { ROUND = 8 };
int64_t c_period(const Emit *e, int axis, int64_t least);
// The same for loops of vectors in pieces: 16-bit floats that are contiguous along the axis, in the
// stage (-1: maps), are converted before a piece and after it (halves_c.c).
void c_open_pieces(Emit *e, int axis, int64_t period, int stage, bool simd);
bool c_any_halves(Emit *e, int axis, int stage); // whether there are such 16-bit floats
void c_close_pieces(Emit *e, const char *from, const char *to, bool whole, const char *pragma);
// The parts of that, in the scope around the loops of a piece of at most C_PIECE elements.
enum { C_PIECE = 512, C_FEW = 16 }; // C_FEW: elements of a piece if e->few
// Whether nothing else along the axis is narrower than a float: compilers choose the vector length
// for the narrowest type in a loop, which would be more than C_FEW elements.
bool c_fits_few(Emit *e, int axis, int stage);
void c_take_halves(Emit *e, int axis, int stage, const char *first, const char *last);
void c_take_half(Emit *e, uint32_t i, int axis, int stage, const char *first, const char *last);
void c_give_halves(Emit *e, int axis, const char *first, const char *last);
void c_close_piece(Emit *e, const char *first, const char *last, const char *from, const char *to);
// Prints a map's innermost loop as several loops (levels_c.c); false: one loop is as good.
bool c_levels(Emit *e, int axis, const char *from, const char *to);
// Draws the random words of a row that is not too long before its loops.
void c_draw_row(Emit *e);
const char *c_omp_reduction(Emit *e, const int *r, int n, const char *suffix); // clauses
// Whether one of the reductions combines integers. Their loops get no vector pragma: gcc 13 keeps
// the results of such a loop in an array and reads uninitialised elements of it in sums of `c ? x :
// 0`. It vectorizes these loops without the pragma.
bool c_integers(const Emit *e, const int *r, int n);
const char *c_acc_type(DType t); // of the accumulators: compilers do not vectorize bool
bool c_float_sum(const Inst *v); // of f32; long ones continue in double
// Prints one step of a reduction or scan on element x in the innermost scope. acc is the
// accumulator, whose initial value is c_start; for a position, best is the accumulator of its
// value, initially the identity.
void c_accumulate(Emit *e, int r, const char *acc, const char *best, const char *axis);
const char *c_start(Emit *e, const Inst *v, const char *first); // first: the first column
// Maximum and minimum of floats. c_stored_order: "h" or "b" if they are of stored f16 or bf16,
// which are compared as 16-bit integers (order_c.c) with initial value c_order_start; otherwise
// NULL.
bool c_ordered(const Inst *v);
const char *c_stored_order(const Emit *e, int r);
const char *c_order_start(Emit *e, int r);
void c_order_accumulate(Emit *e, int r, const char *acc);
const char *c_order_result(Emit *e, int r, const char *acc);
// The index of a part's result in scratch buffers, which are in the order of the reductions: one
// for each, two for argmax (the second for the value).
const char *c_part_place(Emit *e, const char *part);

// Values that a stage keeps for later ones (keep_c.c). Declares arrays of so many elements for
// costly values in the current scope. at: the index of the current element in them.
void c_declare_kept(Emit *e, int64_t elements);
void c_recall(Emit *e, int stage, const char *at);   // binds what earlier stages have kept
void c_remember(Emit *e, int stage, const char *at); // stores what this stage computes
// Values of the task's rows, which begin at [first], that the columns of a stage need: computed
// once in a loop before the stage. false: there are none. recall: binds those of earlier stages.
bool c_declare_rows(Emit *e, int stage);
void c_remember_rows(Emit *e, int stage);
void c_recall_rows(Emit *e, int stage);
// For short rows (otherwise these do nothing): turn_in transposes the rows first to last of a task
// before anything is computed, and turn_out transposes the results back at its end. turn_elements:
// loads and stores of the current loops use the transposed arrays; the column must have its text.
void turn_in(Emit *e);
void turn_elements(Emit *e);
void turn_out(Emit *e);
// The address of a buffer's element at an index in which two axes have the given texts; the bits of
// an element, which select nc_turn_.
const char *turn_begin(Emit *e, int buf, const Ix *at, const int axis[2], const char *const to[2]);
int turn_bits(const Body *b, int buf);

// Each returns the number of tasks. partial: computes a part of the columns; combine: combines the
// parts.
int64_t row_c(Emit *e, bool partial);
int64_t combine_c(Emit *e);
int64_t column_c(Emit *e, bool partial); // also short rows in RUN_BESIDE
int64_t tile_c(Emit *e);
// The axis of a map that is so short that its elements are written out; -1: there is none.
int few_axis_c(const Emit *e);
int64_t few_c(Emit *e, int few);
int64_t turned_map_c(Emit *e); // a map with operands that are contiguous along another axis
int64_t sort_c(Emit *e);
int64_t first_c(Emit *e);

#endif
