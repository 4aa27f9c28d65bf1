// What the CUDA printers share: vectors along an axis, accumulators, names of types.
#ifndef CODEGEN_PRINT_CUDA_H
#define CODEGEN_PRINT_CUDA_H

#include "codegen/schedule/plans.h"
#include "codegen/text/accumulator.h"

// -- a body by its schedule -----------------------------------------------------------------------
// launch_cuda.c: text of the whole kernel; [pretty]: with the model's names and the head comment.
const char *print_cuda(Kernel *k, bool pretty, ProgKernel *launch);
void body_cuda(Emit *e, KernelPhase phase); // print_cuda.c, by these:
void map_cuda(Emit *e);
void row_cuda(Emit *e, KernelPhase phase);
void combine_cuda(Emit *e); // team_cuda.c: the parts of rows, joined
void in_order_cuda(Emit *e);
void column_cuda(Emit *e, KernelPhase phase);
void sweep_cuda(Emit *e);
void bins_cuda(Emit *e);
void scan_cuda(Emit *e);
void sort_cuda(Emit *e);
void transpose_cuda(Emit *e);
void reuse_cuda(Emit *e);
void tile_program_cuda(Emit *e); // tile_print.c
void attention_cuda(Emit *e);    // attention_print.c

const char *wgmma_parameters(Emit *e); // the launch's maps as further parameters of the kernel
const char *attention_groups_parameters(Emit *e);

// -- vectors_cuda.c -------------------------------------------------------------------------------
enum { MAX_VECTORS = 64 }; // more loads than that go element by element

// Loads and stores moved by whole vectors along an axis; everything else goes element by element.
typedef struct Vectors {
    int axis, width;
    const char *base; // the place along the axis where a vector begins; NULL: the axis has its name
    int loads[MAX_VECTORS], nloads;
    bool steady[MAX_VECTORS]; // the elements of a vector are one, which is loaded
    bool store[256];          // by store, the first 256
    bool open;                // a vector may reach beyond the end of its array
    const bool *any;          // by instruction: loaded from wherever it starts; NULL: none is
    int moved;                // of these: one that is moved as far as "words" says; -1: none
    bool streams; // what varies over the columns is read once: the first cache need not hold it
} Vectors;

Vectors find_vectors(const Emit *e, int axis, int width);
const char *vec_type(Emit *e, DType t, int width);
// A load that needs nothing but its axes can be issued ahead of all arithmetic.
bool is_plain(const Emit *e, int load);
int vector_width(const Vectors *v, int load); // elements that are loaded
const char *slot_name(Emit *e, int load);     // of the vector a load fills
// In the lane scope: where the elements of what was loaded are; [index]: "" or "[u]".
void print_lane(Emit *e, const Vectors *v, const char *index);
// Prints a vector load in the innermost scope, into [slot]; into one of its own, declared there.
void print_vector_load(Emit *e, const Vectors *v, int load, const char *slot);
void print_slot(Emit *e, const Vectors *v, int load);
// Stores of the stage (-1: those of whole rows): into vectors (declared by open_stores, written by
// flush_stores) or straight to memory.
void open_stores(Emit *e, const Vectors *v, int stage);
void lane_stores(Emit *e, const Vectors *v, int stage);
void close_lane_loop(Emit *e, int width); // what was opened for one element of a vector
void flush_stores(Emit *e, const Vectors *v, int stage);

// -- split_cuda.c ---------------------------------------------------------------------------------
// Steps of a thread, unrolled. One step is no loop.
typedef struct Steps {
    const char *index;  // a step's number: "u", "tile"
    int count;          // how many there are
    const char *place;  // a line: where the step is; NULL: known
    const char *guard;  // the condition on which it is within the range (steps_guard); NULL: it is
    uint64_t axes;      // that are known in a step
    const char *inside; // a line behind the guard; NULL: none
    const char *number; // of a position, split into [naxes] axes by [stride]; NULL: none
    int64_t stride;
    int naxes;
} Steps;
// at < end, where that is not certain; [whole]: steps that are within whatever the thread.
const char *steps_guard(Emit *e, const Steps *s, const char *at, const char *end, int64_t whole);
const char *steps_slot(Emit *e, const Steps *s); // of an array of all steps: the step's
void open_steps(Emit *e, const Steps *s);
void close_steps(Emit *e, const Steps *s);
// The loads of [ahead] (by instruction) of all steps, before anything is done with one of them.
void load_steps(Emit *e, const Vectors *v, const bool *ahead, const Steps *s);
// This block's columns, of parts of so many, all but the last of which are whole: "lo" to "hi".
void declare_part(Emit *e, int64_t columns);
// Rows that start anywhere: whole vectors from "head" to "end", and "edges" single elements before
// and behind them, of which a thread has "edge". Declares these for the columns from lo to hi.
void declare_edges(Emit *e, const char *lo, const char *hi);
// Columns between head and end, of so many, wherever the row starts: no fewer than that.
int64_t least_between(const Body *b, int64_t cols);
void open_edge(Emit *e);                       // the scope of the thread's element
void close_edge(Emit *e, const char *only);    // a further condition, or NULL
void store_between(const Emit *e, Vectors *v); // which stores are of whole vectors there

// tile_results.c: in a scope that knows axis 1 and, as [base], the first of [width] neighbours
// along axis 2, what the body makes of the sums, of which [sum] is the one of this "lane". [high]:
// rows from tile to tile. store: prints what is done with whole vectors of results.
void finish_vector(Emit *e, const char *base, int width, int64_t high, const char *sum,
                   void (*store)(Emit *e, Vectors *v));

// -- team_cuda.c ----------------------------------------------------------------------------------
bool all_have_rows(const Body *b); // the blocks' teams are as many as the rows
// Teams of threads, a row each. Which row and who of the team, from the block's number; returns the
// condition on which a thread stores what is of whole rows.
const char *print_row_number(Emit *e, const char *block);
void open_row(Emit *e);           // a scope with the row, for threads without one the last
const char *part_of_row(Emit *e); // where the row's part lies in scratch buffers

// Accumulators of reductions over the columns: declared in the row's scope, joined with an element.
void declare_accumulator(Emit *e, Scope *row, int r);
void accumulate(Emit *e, int r, const char *axis);
void print_joined(Emit *e, int r); // the result, known to the whole team
// ... and kept at [at] of the scratch buffers from *scratch on, for the kernel that joins parts.
void store_parts(Emit *e, int r, int *scratch, const char *at);
void print_row_stores(Emit *e, const char *leader); // stores of whole rows, by one thread
const char *scratch_of(Emit *e, int nth);           // the body's nth scratch buffer

// -- prefetch_cuda.c: what is fetched before the kernel in front has ended
// Whether the body's printer fetches something ahead; it prints the wait itself (emit_follow).
bool prefetches(const Kernel *k, const Body *b);
// By instruction: it follows from what was there before the kernel in front began.
const bool *known_early(const Kernel *k, const Body *b);
// Prints loads of leaves that vary over no other axes, before the wait.
void emit_prefetch(Emit *e, uint64_t axes);
// In the innermost scope, where it is not printed yet: the wait, and the look at the error record.
void emit_follow(Emit *e);

// -- operands of contractions (operand_cuda.c)
bool *operand_expression(Emit *e, int a, int b); // the instructions below either of two
// Prints, in the innermost scope, the fetch of operand [inst] at [width] neighbours along axis
// [inner] from [first] on, each into [to], an expression of v; nothing outside the axis' extent.
// [inside]: all are within it.
void operand_vector(Emit *e, int inst, int inner, int width, bool inside, const char *first,
                    const char *to);
// Ends a scope that is entered only where [at] is below its extent.
void operand_close(Emit *e, bool inside, const char *at, int64_t extent);

#endif
