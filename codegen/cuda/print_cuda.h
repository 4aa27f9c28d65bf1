// Declarations shared by the CUDA printers.
#ifndef CODEGEN_PRINT_CUDA_H
#define CODEGEN_PRINT_CUDA_H

#include "codegen/schedule/plans.h"
#include "codegen/text/accumulator.h"

// -- bodies by the variants of their schedules ----------------------------------------------------
// launch_cuda.c: the text of the whole kernel, and its launch; [pretty]: with the model's names.
const char *print_cuda(Kernel *k, bool pretty, ProgKernel *launch);
void body_cuda(Emit *e, KernelPhase phase); // print_cuda.c, which calls these:
void map_cuda(Emit *e);
void row_cuda(Emit *e, KernelPhase phase);
void combine_cuda(Emit *e); // team_cuda.c: combines the partial results of rows
void in_order_cuda(Emit *e);
void recurrence_cuda(Emit *e);
void column_cuda(Emit *e, KernelPhase phase);
void sweep_cuda(Emit *e);
void bins_cuda(Emit *e);
void bins_ordered_cuda(Emit *e); // bins_ordered.c: the sums of sorted updates
void scan_cuda(Emit *e);
void sort_cuda(Emit *e);
void radix_cuda(Emit *e);
void first_cuda(Emit *e);
void transpose_cuda(Emit *e);
void reuse_cuda(Emit *e);
void interleaved_cuda(Emit *e);
void tile_program_cuda(Emit *e); // tile_print.c
void attention_cuda(Emit *e);    // attention_print.c

const char *wgmma_parameters(Emit *e); // the launch's tensor maps as parameters of the kernel
const char *attention_groups_parameters(Emit *e);

const char *in_shared(Emit *e, const char *type, int64_t offset); // at a byte of shared memory

// -- vectors_cuda.c -------------------------------------------------------------------------------
// Loads and stores beyond these numbers go element by element.
enum { MAX_VECTORS = 64, MAX_STORES = 256 };

// The loads and stores that access whole vectors along an axis; all others go element by element.
typedef struct Vectors {
    int axis, width;
    const char *base; // the name of a vector's first index along the axis; NULL: the axis's name
    int loads[MAX_VECTORS], nloads;
    bool steady[MAX_VECTORS]; // all elements of a vector are the same one, which is loaded
    bool store[MAX_STORES];   // by store
    bool open;                // a vector may extend beyond the end of its array
    const bool *any;          // by instruction: its vectors are not aligned; NULL: all are aligned
    int moved;            // an unaligned load whose misalignment is the variable "words"; -1: none
    const Stacks *stacks; // stores that are a vector of one element's neighbours; NULL: none
    bool streams; // loads that vary over the columns are used once: they need not stay in the L1
} Vectors;

Vectors find_vectors(const Emit *e, int axis, int width);
void add_loads(const Emit *e, Vectors *v, bool (*wanted)(const Emit *e, int load)); // live ones
const char *vec_type(Emit *e, DType t, int width);
// "nc_" and this: the function that loads it.
const char *load_word(const Emit *e, const Inst *load);
// Whether the load depends on its axes only, so that it can be issued before all arithmetic.
bool is_plain(const Emit *e, int load);
int vector_width(const Vectors *v, int load);               // how many elements are loaded
const char *slot_type(Emit *e, const Vectors *v, int load); // of the variable for what is loaded
const char *slot_name(Emit *e, int load);                   // its name
// choice_cuda.c: the load whose vector this load shares; usually its own. Whether others share a
// load's vector; then print_choice declares the place from which choice_text loads it.
int chosen_load(const Emit *e, int load);
bool shares_vector(const Emit *e, int load);
void print_choice(Emit *e, const Vectors *v, int first);
const char *choice_text(Emit *e, const Vectors *v, int first);
// The scope of one lane of a vector, in which the axis has an index. bind_element: from here on a
// load's value is the lane's element of its vector; [index]: "" or "[u]". release_elements ends
// this for all loads.
void open_lanes(Emit *e, const Vectors *v, const char *axis);
void close_lanes(Emit *e, const Vectors *v);
void bind_element(Emit *e, const Vectors *v, int load, const char *index);
void release_elements(Emit *e, const Vectors *v);
// Print a vector load in the innermost scope: into [slot]; into a variable declared there. Nothing
// if the load shares the vector of another.
void print_vector_load(Emit *e, const Vectors *v, int load, const char *slot);
void print_slot(Emit *e, const Vectors *v, int load);
// Stores of a stage (-1: stores that do not vary over the columns): into vectors (declared by
// open_stores, stored by flush_stores) or straight to memory.
void open_stores(Emit *e, const Vectors *v, int stage);
void lane_stores(Emit *e, const Vectors *v, int stage);
void flush_stores(Emit *e, const Vectors *v, int stage);
// The function that converts a vector to 16-bit floats, two at a time; NULL: other types.
const char *packs(DType t);

// Neighbours that one element of a map loads and stores (body_stacks), in the element's scope:
// loads them as vectors, and binds each load to its element; release_stacks ends that.
void load_stacks(Emit *e, const Stacks *s);
void release_stacks(Emit *e, const Stacks *s);
void stop_if_failed(Emit *e); // before the stores of a body that tests the error record late

// -- split_cuda.c ---------------------------------------------------------------------------------
// The steps of a thread, as an unrolled loop. A single step is printed without a loop.
typedef struct Steps {
    const char *index;  // the name of a step's number: "u", "tile"
    int count;          // number of steps
    const char *place;  // a line that declares the step's position; NULL: it is known
    const char *placed; // the variable, if nothing may use it
    const char *guard;  // the condition that it is within the range (steps_guard); NULL: always
    uint64_t axes;      // the axes known in a step
    const char *inside; // a line after the guard; NULL: none
    const char *number; // a position, split into the first [naxes] axes by [stride]; NULL: none
    int64_t stride;
    int naxes;
} Steps;
// The condition at < end, or NULL if it always holds. [whole]: how many of the first steps are
// within the range for every thread.
const char *steps_guard(Emit *e, const Steps *s, const char *at, const char *end, int64_t whole);
// Steps whose positions are variables [name] with the value [at], below [end].
Steps steps_at(Emit *e, const char *index, int count, const char *name, const char *at,
               const char *end, int64_t whole);
const char *steps_slot(Emit *e, const Steps *s); // the subscript of a step in an array of all steps
void open_steps(Emit *e, const Steps *s);
void close_steps(Emit *e, const Steps *s);
// Issues the loads [ahead] (by instruction), if any, of all steps before one of them is used.
void load_steps(Emit *e, const Vectors *v, const bool *ahead, const Steps *s);
// Declares this block's range of columns, "lo" to "hi". All parts but the last have [columns].
void declare_part(Emit *e, int64_t columns);
// For rows that are not aligned: declares, for the columns from lo to hi, the range "head" to "end"
// of whole vectors, and "edges", the number of single elements before and after it, of which a
// thread has the one at column "edge".
void declare_edges(Emit *e, const char *lo, const char *hi);
// The least number of columns between head and end, for any alignment of the row.
int64_t least_between(const Body *b, int64_t cols);
void open_edge(Emit *e);                       // the scope of the thread's single element
void close_edge(Emit *e, const char *only);    // only: a further condition, or NULL
void store_between(const Emit *e, Vectors *v); // sets which stores use whole vectors there

// -- team_cuda.c ----------------------------------------------------------------------------------
bool all_have_rows(const Body *b); // the number of rows is a multiple of a block's teams
// Teams of threads process a row each. Prints the number of the row and of the thread in the team;
// returns the condition for a thread to store results that belong to a whole row.
const char *print_row_number(Emit *e, const char *block);
void open_row(Emit *e); // the scope of the row; teams without a row process the last one again
const char *member_column(Emit *e); // a row in registers: the first column of a thread's "tile"
const char *part_of_row(Emit *e);   // the index of the row's part in scratch buffers

// Accumulators of a stage's reductions over the columns: the name of one; declares them; adds an
// element to each.
const char *acc_name(Emit *e, int r);
void declare_accumulators(Emit *e, int stage);
void accumulate(Emit *e, int stage, const char *axis);
void print_joined(Emit *e, int r); // the result, combined across the team, in all its threads
// ... stored at index [at] of the scratch buffers from number *scratch on, for the second kernel.
void store_parts(Emit *e, int r, int *scratch, const char *at);
void print_row_stores(Emit *e, const char *leader); // stores of whole rows, by one thread

// -- prefetch_cuda.c: what is loaded before the preceding kernel has ended
// Whether the body's printer loads something early; then it prints the wait itself (emit_follow).
bool prefetches(const Kernel *k, const Body *b);
// By instruction: whether it depends only on memory that the preceding kernel does not write.
const bool *known_early(const Kernel *k, const Body *b);
// Prints, before the wait, the loads of leaves that vary over at most these axes.
void emit_prefetch(Emit *e, uint64_t axes);
// Prints, in the innermost scope and only once, the wait and the test of the error record.
void emit_follow(Emit *e);

// -- operands of contractions (operand_cuda.c)
bool *operand_expression(Emit *e, int a, int b); // by instruction: a or b depends on it
// Prints, in the innermost scope, the computation of operand [inst] at [width] neighbours along
// axis [inner] from [first] on, each assigned to [to], an expression of v. Elements beyond the
// axis's extent are left out. [inside]: there are none.
void operand_vector(Emit *e, int inst, int inner, int width, bool inside, const char *first,
                    const char *to);
// Ends a scope that is entered only if [at] is below the extent.
void operand_close(Emit *e, bool inside, const char *at, int64_t extent);

#endif
