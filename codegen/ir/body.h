// Kernel IR: what a kernel computes, before anything is decided about how.
//
// A Body computes the stores of one group. It has parallel axes (its rows), at most one reduction
// axis shared by all its stages (its columns), and serial axes of nested reductions. Instructions
// are values over the axes in their mask. An instruction that needs a reduction over the columns
// belongs to a later stage: every stage loops over the columns once. A Kernel is bodies side by
// side.
#ifndef CODEGEN_BODY_H
#define CODEGEN_BODY_H

#include "codegen/ir/index.h"
#include "codegen/ir/schedule.h"
#include "codegen/kernel.h"

enum { BODY_MAX_AXES = 60, BODY_MAX_PAR = MAX_RANK };
// The registers of a thread with many sums along the columns: for these, and for its loads of a
// column.
enum { COLUMN_REGISTERS = 96 };

static inline int64_t ceil_div(int64_t a, int64_t b) // of positive numbers
{
    return (a + b - 1) / b;
}
static inline int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int pow2_at_least(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

typedef enum InstKind {
    KI_CONST,  // literal
    KI_INDEX,  // the integer ix
    KI_LOAD,   // bufs[buf][ix], 0 where pred is false
    KI_EW,     // op_info(op)->expr of a[]
    KI_CAST,   // a[0] converted
    KI_RANDOM, // Philox word [lane] of (seed a[0], count a[1], site [buf], element ix)
    KI_CHECK,  // a[0] clamped to 0..bound; out of range is recorded, as element ix of the indices
    KI_ASSERT, // a[0]; false is recorded
    // op of a[0] over [axis], accumulated in [acc]; or combines accumulators of such reductions,
    // a[0] to a[na - 1] (BodyStore.kept)
    KI_REDUCE,
    KI_SCAN, // running sum of a[0] along the columns; [exclusive]
    KI_BIN,  // the sum of a[0] over the columns with the same place (Body.bins)
    KI_SORT, // the a[0] along the columns in order, [down]; [places]: their original positions
} InstKind;

// A division: by a constant (of an integer value or not), by a repeated value, or any other.
typedef enum Quotient {
    QUOTIENT,
    QUOTIENT_BY_CONST,
    QUOTIENT_WHOLE_BY_CONST,
    QUOTIENT_REPEATED
} Quotient;

typedef struct Inst {
    InstKind kind;
    DType type; // of the result; its arithmetic type is what the temporary has
    Op op;
    int na, a[4];
    int pred; // LOAD, CHECK: only where this bool holds; -1: everywhere
    int buf;  // LOAD: from; RANDOM: the site; CHECK, ASSERT: the number of the check
    int axis, lane;
    bool exclusive, down, places;
    bool approx;      // EW: CUDA may use the cheaper form
    const char *text; // EW: user-written text instead of the op's expression; or NULL
    bool repeats;     // EW: in the graph its last operand is one value, repeated (a broadcast)
    int unless;       // REDUCE: 1 + the bool that says that a row does not need it; 0: all rows do
    // By rewrites (rewrite.h):
    Quotient quotient; // EW
    bool skips;        // LOAD: its predicate depends only on places and on values that all share
    uint8_t once;      // EW: true for at most one column of a row, whose number is operand once - 1
    int under;       // REDUCE: 1 + the maximum, of the same stage, relative to which its terms are
                     // exponentials
    bool keep;       // its row is kept from stage to stage: loads on CUDA, costly ops on the CPU
    int first_use;   // the stage that computes a kept row
    int kept_at;     // CPU: 1 + the store whose memory holds it until then; 0: the stack
    DType acc, from; // REDUCE, SCAN: accumulator; CAST: operand's type
    const Ix *ix;
    const Ix *const *at;   // LOAD of 16-bit floats: its place along each axis of the node; or NULL
    int64_t ivalue, bound; // CONST of integers and bool; CHECK
    double fvalue;         // CONST of floats
    uint64_t axes;         // the axes it varies over
    int stage;             // the first stage in which it is known
    const Node *node;      // for its name and place; may be NULL
} Inst;

typedef struct BodyStore {
    int buf, value; // buf -1: evaluated for its effect (asserts)
    int stage;      // the first stage in which value and place are known
    const Ix *ix;
    int joins; // 1 + the reduction that combines it with the stored value (serial columns only); 0:
               // none
    int guard; // 1 + the bool instruction that says whether to store; 0: always
    // A reduction over all rows: each block (for a contraction over its left operand: each tile of
    // rows) combines the values of its rows and stores its partial result at ix of its share of the
    // (scratch) buffer; [kept]: the part of the accumulator (Accumulator.parts, then the number of
    // rows). NULL: the value itself is stored.
    const Node *fold;
    int kept;
} BodyStore;

typedef struct BodyBuf {
    KernelArgKind kind;
    const Node *node;
    DType type;
    int64_t elems;
    int64_t part;  // number of elements written, if others write the rest; 0: all
    int scratch;   // KA_SCRATCH
    int64_t value; // KA_INT
    bool written, read;
    bool in_place; // may be the same memory as another argument
} BodyBuf;

typedef struct BodyAxis {
    int64_t extent;
} BodyAxis;

// A product within attention: the sum over [axis] (the head dimension) of [rows] * [cols], which
// gives scores, or over the columns of [weight] * [value], with one result for each place along
// [axis].
typedef struct BodyScore {
    int sum, rows, cols, axis;
} BodyScore;
typedef struct BodyWeighted {
    int sum, weight, value, axis;
} BodyWeighted;
enum { MOST_PRODUCTS = 2 };

// Windows whose pixels along a line of the image are in one copy (ir/body_strips.c): neighbouring
// places and, after each other, the pixels of the last ones.
typedef struct BodyStrips {
    int pixels;             // pixels of a window along a line; 0: no strips
    int apart;              // from one to the next
    bool last_first;        // the columns start with the last pixel
    int64_t deep;           // columns of a pixel
    int64_t results, pitch; // places along a line that are results, and all counted places
    int64_t lines, images;  // of places; images: of each product of several
    const Ix *place[3];     // as in BodyWindows, by the number of a place, in the axis of the rows
} BodyStrips;

// An operand of a contraction that is windows in images, as accessed by bulk copies.
typedef struct BodyWindows {
    ProgMap map; // without boxes
    BodyStrips strips;
    bool along_k;
    // Of the first element of a box: its channel; the pixel where its window begins (along a line,
    // across the lines) and its image; the offset of its own pixel.
    const Ix *channel, *place[3], *tap[2];
    // For weights: for each 64 results, which of the columns, one bit per [live_run] of them, are
    // pixels within the image; the others add zeros. NULL: all, or too many to list.
    const uint32_t *live;
    int64_t live_run;
} BodyWindows;
enum { WINDOWS_STEP = 64 }; // channels of a copy

// TENSOR_TF32: operands are rounded to tf32. TENSOR_F32: three products of their halves, so that
// the error is that of f32.
enum { TENSOR_TF32 = 1, TENSOR_F32 };

typedef struct Body {
    IxCtx *ix;
    int naxes, npar; // axes 0..npar are the parallel ones, outermost first
    BodyAxis axis[BODY_MAX_AXES];
    int col;          // the column axis, or -1
    bool serial_cols; // the columns have an order: one thread processes them, or a team scans
    bool in_loop;     // part of a run-time loop: buffers may be slices of scanned or stacked values
    int nstages;      // loops over the columns
    int rare; // the stage whose reductions all have an [unless]: it stores nothing, and few rows
              // need it; 0: none
    VEC(Inst) insts;
    VEC(BodyStore) stores;
    VEC(BodyBuf) bufs;
    bool beside;   // CPU: a product of short sums, whose results are computed side by side
    bool joins;    // combines the partial sums of an earlier body: it is not split again
    bool commits;  // does nothing once the error record is set
    bool can_fail; // has checks
    int error_buf; // the error record's buffer, or -1
    // A contraction over axes (batch 0, m 1, n 2) and the columns: the sum [sum] of [a] * [b],
    // where a does not vary over n nor b over m. sum -1: not one.
    struct {
        int sum, a, b;
        int tensor;                    // TENSOR_*: how tensor cores may take the products; 0: not
        const BodyWindows *windows[2]; // what a, and b, are as these; NULL: none
    } dot;
    // Sums by index, over slots (axis 0) and neighbouring results (axis 1): [sum] (KI_BIN) at the
    // columns' [place], of [places], from which the store follows. A slot has the places that are
    // its number modulo [shares], [held] of them at most. held 0: not that.
    struct {
        int sum, place;
        int64_t places, shares, held;
    } bins;
    // Attention over axes (batch 0, rows 1, a head's dimension for each result) and the columns:
    // products of values computed from scores, which are products themselves. nouts 0: not
    // attention.
    struct {
        int nscores, nouts;
        BodyScore score[MOST_PRODUCTS];
        BodyWeighted out[MOST_PRODUCTS];
        // Forward: the maximum score of a row, the exponential of a score relative to it, the sum
        // of these; -1: absent.
        int high, exp, total;
        int tensor; // TENSOR_*: of f32 operands; 0: these are 16-bit floats
    } attention;
    const Ix *uneven; // ROW: rows are not aligned; their vectors start where this place is. NULL:
                      // are; COLUMN: likewise, of memory's rows
    int64_t part;     // COLUMN, split: columns of a part; 0: equal shares
    int64_t crowd;    // elements of all similar bodies of its launch; 0: alone
    int *arg;         // by buffer: the kernel's argument (CUDA: shared by bodies)
    uint64_t key;     // identity of what it computes: the key of its schedule in a tuning file
    Schedule sched;
    const Group *group;
} Body;

typedef enum KernelPhase { PHASE_WHOLE, PHASE_PARTIAL, PHASE_COMBINE } KernelPhase;

struct LowerCtx;
typedef struct Kernel {
    Arena *arena;
    LowerCtx *ctx;
    Body **body;
    int nbodies;
    KernelPhase phase;
    uint64_t identity;
    const char *name, *symbol;
    Loc loc;
} Kernel;

// -- body.c: properties that do not depend on a schedule ------------------------------------------
DType math_type(DType t); // of a temporary that holds such an element
int math_bytes(DType t);
int64_t body_rows(const Body *b); // product of the parallel axes
// Whether the store is executed for each element of the axis: its value or its place varies, or it
// adds up columns, even equal ones.
bool store_over(const Body *b, const BodyStore *s, int axis);
// Whether the buffer (-1: any) is stored column by column: if a second kernel combines parts of the
// columns, by the first one.
bool body_stores_columns(const Body *b, int buf);
typedef struct Access { // a load or a store
    const Ix *at;
    int buf, bytes; // bytes: of an element
    bool stores, folds;
} Access;
// Access number i of the body's instructions and, after them, stores. false: it does not traverse
// memory along [axis], element by element.
bool body_access(const Body *b, uint32_t i, int axis, Access *out);
// Whether the buffer begins at a multiple of [v] elements, at most 16 bytes: a slice begins at a
// multiple of its length. body_begins: all buffers, at multiples of 16 bytes.
static inline bool buf_begins(const Body *b, int buf, int64_t v)
{
    return !b->in_loop || b->bufs.at[buf].elems == 1 || b->bufs.at[buf].elems % v == 0;
}
bool body_begins(const Body *b);
// Whether every row and every column of a load has elements of its own; not a load that a batch of
// rows shares, which is in a cache, nor one of few rows.
bool inst_streams(const Body *b, const Inst *v);
bool body_skips(const Body *b); // some load is skipped depending on a condition
// Marks what an instruction reads, itself, in its place or as its condition; the values in an
// index.
void inst_mark(const Body *b, int inst, uint64_t bits, uint64_t *marks);
void ix_mark(const Ix *x, uint64_t bits, uint64_t *marks);
void store_mark(const BodyStore *s, uint64_t bits, uint64_t *marks); // what the store needs
const Inst *inst_uncast(const Body *b, int inst);                    // it, or what it is a cast of
const bool *body_live(Arena *a, const Body *b); // by instruction: what is stored depends on it
// The same if the select [choice] never selected its second operand.
const bool *body_live_without(Arena *a, const Body *b, int choice);
enum { BODY_FEW = 8 }; // elements of an axis that the CPU's loops write out
// The number of elements of an axis within which places of live instructions and of stores are
// linear in it: the divisor of their quotients and remainders; 0: they have none; -1: there is no
// such number.
int64_t body_period(const Body *b, const bool *live, int axis);
// By instruction: a load of 8-bit or 16-bit numbers that are only stored again, unchanged.
const bool *body_moved(Arena *a, const Body *b);
bool body_folds(const Body *b); // it also sums over its rows
// ... of a contraction: over those of its left operand, by column; of its result.
bool body_folds_left(const Body *b);
bool body_folds_results(const Body *b);
int body_sort(const Body *b); // the instruction that sorts; -1: none
int body_scan(const Body *b); // ... that computes running sums
// A 16-bit float that the body widens before multiplying; DT_BOOL: something else.
DType narrow_type(const Body *b, int inst);
bool mma_fits(const Body *b); // a contraction of 16-bit floats: tensor cores can take it
// Whether the data of an operand of a contraction are contiguous along k, in aligned runs of
// [width], rather than along its rows.
bool operand_along_k(const Body *b, int inst, int width);
// Whether the instruction has one value along each aligned run of [width] of the axis.
bool inst_steady(const Body *b, int inst, int axis, int width);
// Whether the instruction depends only on places along the axes.
bool inst_placed(const Body *b, int inst);
// -- body_windows.c
void body_windows(Arena *a, Body *b); // fills in Body.dot.windows
// -- body_strips.c
void body_strips(Arena *a, const Body *b, BodyWindows *w); // fills in w->strips, of axis 1
// -- body_attention.c
bool attention_find(Body *b); // fills in Body.attention
DType attention_type(const Body *b);

// -- sort.c: rows sorted in shared memory
int64_t sort_padded(int64_t cols);         // the sorted length: the next power of two
int64_t sort_bytes(int64_t cols, DType t); // keys and their original positions
bool sort_fits(const Target *t, int64_t cols, DType type);

// -- bins.c: sums by index in shared memory, a thread for each of neighbouring results
int64_t bins_blocks_across(int64_t cols); // blocks that share so many
int bins_threads(int64_t cols);           // of each of them
int bins_looks(const Body *b);            // columns a thread examines before hits are added up
int64_t bins_bytes(const Body *b);        // of shared memory

// -- identity.c
uint64_t kernel_identity(const Kernel *k);
// Bodies of one kernel with equal keys have equal text except for names.
uint64_t body_text_key(const LowerCtx *c, const Body *b);
// Kernels of one target with equal keys have equal text and equal launches, and are equally valid.
// p: the kernel's costs.
uint64_t kernel_text_key(const Kernel *k, const ProgKernel *p);
// Whether it is a parameter of a loop's region that one iteration passes to the next.
bool carried_between(const LowerCtx *c, const BodyBuf *u);
uint64_t body_key(const Body *b); // the key of its schedule in a tuning file

#endif
