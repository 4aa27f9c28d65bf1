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
// Of a thread with many sums along the columns: for these, and what it loads of a column.
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
    // op of a[0] over [axis], accumulated in [acc]; of what such reductions have kept, a[0] to
    // a[na - 1] (BodyStore.kept)
    KI_REDUCE,
    KI_SCAN, // running sum of a[0] along the columns; [exclusive]
    KI_BIN,  // the sum of a[0] over the columns that have one place (Body.bins)
    KI_SORT, // the a[0] along the columns in order, [down]; [places]: where they stood
} InstKind;

// A division: by a constant (of a whole number), or by what repeats one value; any other.
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
    const char *text; // EW: of the model's own, instead of the op's expression; or NULL
    bool repeats;     // EW: the graph has its last operand as one value, repeated (a broadcast)
    int unless;       // REDUCE: 1 + the bool of a row that has no use for it; 0: all have
    // By rewrites (rewrite.h):
    Quotient quotient; // EW
    bool skips;        // LOAD: its predicate is known from places and from what all share
    uint8_t once;      // EW: true for one column of a row at most, whose number is operand once - 1
    int under;         // REDUCE: 1 + the maximum, of the same stage, that its terms are exp under
    bool keep;         // its row is kept from stage to stage: loads on CUDA, costly ops on the CPU
    int first_use;     // the stage that computes a kept row
    int kept_at;       // CPU: 1 + the store whose place has it until then; 0: the stack
    DType acc, from;   // REDUCE, SCAN: accumulator; CAST: operand's type
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
    int joins; // 1 + the reduction that it goes through with what is there (serial columns only); 0
    int guard; // 1 + the bool instruction that says whether to store; 0: always
    // A reduction over all rows: each block (of a contraction over its left operand: each tile of
    // rows) joins the values of the rows it takes and stores its part at ix of its own share of the
    // (scratch) buffer: which of what it keeps (Accumulator.parts; behind them the number of rows).
    // NULL: the value itself is stored.
    const Node *fold;
    int kept;
} BodyStore;

typedef struct BodyBuf {
    KernelArgKind kind;
    const Node *node;
    DType type;
    int64_t elems;
    int64_t part;  // how many of them are written, where others write the rest; 0: all
    int scratch;   // KA_SCRATCH
    int64_t value; // KA_INT
    bool written, read;
    bool in_place; // may be the same memory as another argument
} BodyBuf;

typedef struct BodyAxis {
    int64_t extent;
} BodyAxis;

// A product within attention: the sum over [axis] (the head dimension) of [rows] * [cols], which
// gives scores, or over the columns of [weight] * [value], one result for each place along [axis].
typedef struct BodyScore {
    int sum, rows, cols, axis;
} BodyScore;
typedef struct BodyWeighted {
    int sum, weight, value, axis;
} BodyWeighted;
enum { MOST_PRODUCTS = 2 };

// Windows whose pixels along a line of the image lie in one copy (ir/body_strips.c): neighbouring
// places and, behind each other, the pixels of the last ones.
typedef struct BodyStrips {
    int pixels;             // of a window along a line; 0: these are none
    int apart;              // from one to the next
    bool last_first;        // the columns have the last one first
    int64_t deep;           // columns of a pixel
    int64_t results, pitch; // places along a line that are results, and all that are counted
    int64_t lines, images;  // of places; images: of each product of several
    const Ix *place[3];     // as in BodyWindows, by the number of a place, in the axis of the rows
} BodyStrips;

// An operand of a contraction that is windows in images, as bulk copies see them.
typedef struct BodyWindows {
    ProgMap map; // without boxes
    BodyStrips strips;
    bool along_k;
    // Of the first element of a box: its channel, the pixel where its window begins (along a line,
    // across the lines) and its image, how much further on its own pixel is.
    const Ix *channel, *place[3], *tap[2];
    // Of weights: by 64 results, which of the columns, [live_run] of them a bit, are pixels within
    // the image; the others add zeros. NULL: all, or too many to say.
    const uint32_t *live;
    int64_t live_run;
} BodyWindows;
enum { WINDOWS_STEP = 64 }; // channels of a copy

// Operands rounded to tf32; or three products of their halves, so that what is lost is what f32
// loses.
enum { TENSOR_TF32 = 1, TENSOR_F32 };

typedef struct Body {
    IxCtx *ix;
    int naxes, npar; // axes 0..npar are the parallel ones, outermost first
    BodyAxis axis[BODY_MAX_AXES];
    int col;          // the column axis, or -1
    bool serial_cols; // the columns have an order: one thread takes them, or a team scans
    bool in_loop;     // of a run-time loop: buffers may be slices of what it scans or stacks
    int nstages;      // loops over the columns
    int rare; // the stage whose reductions have an [unless], all of them: it stores nothing,
              // and few rows need it; 0: none
    VEC(Inst) insts;
    VEC(BodyStore) stores;
    VEC(BodyBuf) bufs;
    bool beside;   // CPU: a product of short sums, whose results are computed side by side
    bool joins;    // the parts of sums that a body before it has stored: it is not split again
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
    // products of what an expression makes of scores, products themselves. nouts 0: not that.
    struct {
        int nscores, nouts;
        BodyScore score[MOST_PRODUCTS];
        BodyWeighted out[MOST_PRODUCTS];
        // Forward: the greatest score of a row, exp of what a score is below it, the sum of these;
        // -1: not in there.
        int high, exp, total;
        int tensor; // TENSOR_*: of f32 operands; 0: these are 16-bit floats
    } attention;
    const Ix *uneven; // ROW: rows are not aligned; their vectors start where this place is. NULL:
                      // are; COLUMN: likewise, of memory's rows
    int64_t part;     // COLUMN, split: columns of a part; 0: equal shares
    int64_t crowd;    // elements of all bodies of its launch like it; 0: alone
    int *arg;         // by buffer: the kernel's argument (CUDA: shared by bodies)
    uint64_t key;     // of what it computes: what a tuning file knows its schedule by
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

// -- body.c: what can be told of a body without a schedule ----------------------------------------
DType math_type(DType t); // of a temporary that holds such an element
int math_bytes(DType t);
int64_t body_rows(const Body *b); // product of the parallel axes
// Whether the store is done for each element of the axis: what it stores or where differs, or it
// adds up columns, be they alike.
bool store_over(const Body *b, const BodyStore *s, int axis);
// Whether the buffer (-1: any) is stored to column by column: where parts of the columns are joined
// by a second kernel, by the first one.
bool body_stores_columns(const Body *b, int buf);
typedef struct Access { // a load or a store
    const Ix *at;
    int buf, bytes; // bytes: of an element
    bool stores, folds;
} Access;
// Number i of the body's instructions and, behind them, stores. false: it does not go through
// memory along [axis], element by element.
bool body_access(const Body *b, uint32_t i, int axis, Access *out);
// Whether the buffer begins at a multiple of [v] elements, at most 16 bytes: a slice begins at a
// multiple of its length. body_begins: all buffers, at multiples of 16 bytes.
static inline bool buf_begins(const Body *b, int buf, int64_t v)
{
    return !b->in_loop || b->bufs.at[buf].elems == 1 || b->bufs.at[buf].elems % v == 0;
}
bool body_begins(const Body *b);
// A load of which every row and every column has elements of its own; not one that a batch of rows
// shares, which is in a cache, nor one that few rows make.
bool inst_streams(const Body *b, const Inst *v);
bool body_skips(const Body *b); // some load is left out where a condition says so
// Marks what an instruction reads, itself, in its place or as its condition; the values in an
// index.
void inst_mark(const Body *b, int inst, uint64_t bits, uint64_t *marks);
void ix_mark(const Ix *x, uint64_t bits, uint64_t *marks);
void store_mark(const BodyStore *s, uint64_t bits, uint64_t *marks); // what the store needs
const Inst *inst_uncast(const Body *b, int inst);                    // it, or what it is a cast of
const bool *body_live(Arena *a, const Body *b); // by instruction: what is stored depends on it
// The same if the select [choice] never chose its second operand.
const bool *body_live_without(Arena *a, const Body *b, int choice);
enum { BODY_FEW = 8 }; // elements of an axis that the CPU's loops write out
// The number of elements of an axis within which places of live instructions and of stores are
// linear in it: the divisor of their quotients and remainders; 0: there are none; -1: there is no
// such.
int64_t body_period(const Body *b, const bool *live, int axis);
// By instruction: a load of numbers of 8 or 16 bits that are only stored again, as they are.
const bool *body_moved(Arena *a, const Body *b);
bool body_folds(const Body *b); // sums over its rows on the way
// ... of a contraction: over those of its left operand, by column; of its result.
bool body_folds_left(const Body *b);
bool body_folds_results(const Body *b);
int body_sort(const Body *b); // the instruction that sorts; -1: none
int body_scan(const Body *b); // ... that adds up running sums
// A 16-bit float that the body widens before multiplying; DT_BOOL: something else.
DType narrow_type(const Body *b, int inst);
bool mma_fits(const Body *b); // a contraction of 16-bit floats: tensor cores can take it
// Whether what an operand of a contraction is made of lies side by side along k rather than along
// its rows.
bool operand_along_k(const Body *b, int inst);
// Whether the instruction has one value along each aligned run of [width] of the axis.
bool inst_steady(const Body *b, int inst, int axis, int width);
// Whether the instruction follows from places along the axes alone.
bool inst_placed(const Body *b, int inst);
// -- body_windows.c
void body_windows(Arena *a, Body *b); // fills in Body.dot.windows
// -- body_strips.c
void body_strips(Arena *a, const Body *b, BodyWindows *w); // fills in w->strips, of axis 1
// -- body_attention.c
bool attention_find(Body *b); // fills in Body.attention
DType attention_type(const Body *b);

// -- sort.c: rows sorted in shared memory
int64_t sort_padded(int64_t cols);         // what is sorted: the next power of two
int64_t sort_bytes(int64_t cols, DType t); // keys, and where they were
bool sort_fits(const Target *t, int64_t cols, DType type);

// -- bins.c: sums by index in shared memory, a thread for each of neighbouring results
int64_t bins_blocks_across(int64_t cols); // blocks that share so many
int bins_threads(int64_t cols);           // of each of them
int bins_looks(const Body *b);            // columns a thread looks at before hits are added up
int64_t bins_bytes(const Body *b);        // of shared memory

// -- identity.c
uint64_t kernel_identity(const Kernel *k);
// Bodies of one kernel with equal ones have equal text but for names.
uint64_t body_text_key(const LowerCtx *c, const Body *b);
// Kernels of one target with equal ones have equal text, are launched alike and are sound alike. p:
// the kernel's costs.
uint64_t kernel_text_key(const Kernel *k, const ProgKernel *p);
// Whether it is a parameter of a loop's region that one iteration leaves for the next.
bool carried_between(const LowerCtx *c, const BodyBuf *u);
uint64_t body_key(const Body *b); // what a tuning file knows its schedule by

#endif
