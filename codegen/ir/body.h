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
// Registers of a thread for sums along the columns and for its loads of a column.
enum { COLUMN_REGISTERS = 96 };

static inline int64_t ceil_div(int64_t a, int64_t b) // for positive numbers
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
    KI_RANDOM, // word [lane] of [ivalue] bits, of (seed a[0], count a[1], site [buf], element ix)
    KI_CHECK,  // a[0] clamped to 0..bound; out of range is recorded, as element ix of the indices
    KI_ASSERT, // a[0]; false is recorded
    // op of a[0] over [axis], accumulated in [acc]; or combines accumulators of such reductions,
    // a[0] to a[na - 1] (BodyStore.kept)
    KI_REDUCE,
    KI_SCAN, // running reduction of a[0] along the columns by op; [exclusive]
    // In a recurrence: the value at the beginning of an iteration, at first a[0] (BodyStore.carries
    // has the next one); the value after the last iteration, of carried value a[0].
    KI_CARRIED,
    KI_LAST,
    KI_BIN, // the sum of a[0] over the columns with the same place (Body.bins)
    // The a[0] along the columns in order, [down]; [places]: their original positions. ivalue: only
    // so many of the first are known and stored; 0: all.
    KI_SORT,
    // In a recurrence: the sum of a[0] over the [lane] neighbouring rows of this one's group;
    // carried value a[0] of another row of this one's group (Body.meets), at [ix] in it, or near
    // it.
    KI_LANES,
    KI_NEIGHBOUR,
} InstKind;

// A division: by a constant (if marked), by a repeated value, or any other.
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
    int pred; // LOAD, CHECK: only executed if this bool is true; -1: always
    int buf;  // LOAD: the buffer; RANDOM: the site; CHECK, ASSERT: number of the check
    int axis, lane;
    bool exclusive, down, places;
    bool approx;      // EW: CUDA may use the cheaper form
    const char *text; // EW: user-written text instead of the op's expression; or NULL
    bool repeats;     // EW: its last operand is a broadcast of one value
    // REDUCE: 1 + the bool that says that a row (of a nested one: an element) does not need it;
    // 0: all need it.
    int unless;
    // Set by rewrites (rewrite.h):
    Quotient quotient; // EW
    bool skips;        // LOAD: its predicate depends only on positions and on values that all
                       // threads share
    // LOAD: 1 + the first of several loads of which at most one is needed in each row; 0: none.
    // This one is needed where the index [position] is at least needed_from and less than
    // needed_to.
    int choice, position;
    int64_t needed_from, needed_to;
    uint8_t once;    // EW: 1 + the operand that is the column's number; true for at most one
                     // column of a row
    int under;       // REDUCE: 1 + the maximum, of the same stage, relative to which its terms are
                     // exponentials
    bool keep;       // its row is kept from stage to stage: CUDA: loads; CPU: costly ops
    int first_use;   // the stage that computes a kept row
    int kept_at;     // CPU: 1 + the store whose buffer holds it until then; 0: the stack
    DType acc, from; // REDUCE, SCAN: accumulator; CAST: operand's type
    const Ix *ix;
    const Ix *const *at; // LOAD of 16-bit floats: its index along each axis of the node; or NULL
    // The same of the shape that reshapes give the node before it is read; NULL: none does.
    const Type *seen;
    const Ix *const *seen_at;
    // CONST of integers and bool, SORT, RANDOM; CHECK; SORT by a digit: the columns of a row
    int64_t ivalue, bound;
    int low, bits; // SORT: first bit and number of bits of the digit (lower_radix.c); 0: by value
    double fvalue; // CONST of floats
    uint64_t axes; // the axes it varies over
    int stage;     // the first stage in which it is known
    const Node *node; // for its name and source place; may be NULL
} Inst;

typedef struct BodyStore {
    int buf, value; // buf -1: only evaluated (asserts, carried values)
    int stage;      // the first stage in which value and index are known
    const Ix *ix;
    int joins; // 1 + the reduction op that combines it with the stored value (serial columns only);
               // 0: none
    int carries; // 1 + the KI_CARRIED whose next value this is (buf -1); 0: none
    bool atomic; // joins by an atomic operation: other threads may join the same element
    int guard;   // 1 + the bool instruction that says whether to store; 0: always
    // A reduction over all rows. Each block (in a contraction over the left operand: each tile of
    // rows) combines the values of its rows and stores its partial result in its part of the
    // scratch buffer at ix. kept: which part of the accumulator (Accumulator.parts, then the number
    // of rows). NULL: the value itself is stored.
    const Node *fold;
    int kept;
} BodyStore;

typedef struct BodyBuf {
    KernelArgKind kind;
    const Node *node;
    DType type;
    int64_t elems;
    int64_t part;  // number of elements written, if others are written elsewhere; 0: all
    int scratch;   // KA_SCRATCH
    int64_t value; // KA_INT
    bool written, read;
    bool in_place; // may share memory with another argument
} BodyBuf;

typedef struct BodyAxis {
    int64_t extent;
} BodyAxis;

// A product in attention: either the sum over [axis] (the head dimension) of [rows] * [cols], which
// gives scores, or the sum over the columns of [weight] * [value], with a result for each index
// along [axis].
typedef struct BodyScore {
    int sum, rows, cols, axis;
} BodyScore;
typedef struct BodyWeighted {
    int sum, weight, value, axis;
} BodyWeighted;
enum { MOST_PRODUCTS = 2 };

// Windows for which one copy holds the pixels of a line of the image (ir/body_strips.c): those of
// neighbouring windows and, after them, the remaining pixels of the last ones.
typedef struct BodyStrips {
    int pixels;             // pixels per line of a window; 0: no strips
    int apart;              // distance of neighbouring ones
    bool last_first;        // the columns start with the last pixel
    int64_t deep;           // columns per pixel
    int64_t results, pitch; // positions per line: those that are results, and all that are counted
    int64_t lines, images;  // lines: per image, of all planes; images: per product, if several
    // As in BodyWindows, but computed from the number of a counted position.
    const Ix *place[PROG_MAX_IMAGE_AXES], *image;
} BodyStrips;

// An operand of a contraction that consists of windows in images, as bulk copies read it.
typedef struct BodyWindows {
    ProgMap map; // without the size of boxes
    BodyStrips strips;
    bool along_k;
    int axes; // of the images, 2 or 3
    // For the first element of a box: its channel; the pixel at which its window begins (along a
    // line, across lines, across planes) and its image; the offset of its own pixel in the window.
    const Ix *channel, *place[PROG_MAX_IMAGE_AXES], *image, *tap[PROG_MAX_IMAGE_AXES];
    // For weights: for each 64 results, which columns (one bit per [live_run] columns) are pixels
    // inside the image; the others are zeros. NULL: all, or too many to list.
    const uint32_t *live;
    int64_t live_run;
} BodyWindows;
enum { WINDOWS_STEP = 64 }; // channels per copy

// TENSOR_TF32: operands are rounded to tf32. TENSOR_F32: operands are split into two halves, and
// three products of these give an error like that of f32.
enum { TENSOR_TF32 = 1, TENSOR_F32 };

typedef struct Body {
    IxCtx *ix;
    int naxes, npar; // axes 0..npar are the parallel ones, outermost first
    BodyAxis axis[BODY_MAX_AXES];
    int col;          // the column axis, or -1
    int64_t meets;    // recurrence: so many neighbouring rows read each other's values; 0: none
    bool serial_cols; // the columns have an order: one thread processes them, or a team computes a
                      // scan
    bool in_loop; // part of a loop at run time: buffers may be slices of scanned or stacked values
    int nstages;  // number of loops over the columns
    int rare; // the stage all of whose reductions have an [unless]: it stores nothing, and few rows
              // need it; 0: none
    VEC(Inst) insts;
    VEC(BodyStore) stores;
    VEC(BodyBuf) bufs;
    bool beside;   // CPU: a product with short sums, several results of which are computed at the
                   // same time
    bool joins;    // combines the partial sums of another body; it is not split itself
    bool commits;  // does nothing if the error record is set
    bool can_fail; // has checks
    int error_buf; // the error record's buffer, or -1
    // A contraction over axes (batch 0, m 1, n 2) and the columns: the sum [sum] of [a] * [b],
    // where a does not depend on n and b not on m. sum -1: not a contraction.
    struct {
        int sum, a, b;
        int tensor; // TENSOR_*: how tensor cores compute the products; 0: they do not
        const BodyWindows *windows[2]; // for a and b: if they are windows, how; otherwise NULL
        // b is 0 unless column k % deep and result n are of the same group, that is,
        // k % deep / channels == n / results. deep 0: it has no groups.
        int64_t deep, channels, results;
    } dot;
    // Sums by index, over slots (axis 0) and neighbouring results (axis 1): [sum] (KI_BIN) adds to
    // index [place] of the columns, out of [places]; the store is computed from it. A slot has the
    // indices that are equal to its number modulo [shares], at most [held]. If the indices ascend
    // along the columns (ordered >= 0, their instruction without the check of [place]), it has
    // [held] consecutive indices. part: only results whose sum is not 0 are stored, since the
    // others are there already. held 0: not such a body.
    // Of ordered indices, chunks of [chunk] columns with the same index are added up by a body of
    // their own (chunk 0: none are), in which index and [ordered] are the number of the chunk, and
    // [same] is what its columns must share. The body that follows loads their sums as operand 1
    // of [sum]; [same] is [ordered].
    // Of indices that are not ordered, a body with a [chunk] adds up the columns of a chunk whose
    // index, [same], is a frequent one in it, for [held] indices at most. Its first store has
    // their sums; the second one's buffer has, for each chunk, [chunk] + [held] indices, of the
    // columns that are left and of the sums, -1 where there is none.
    struct {
        int sum, place, ordered, same;
        int64_t places, shares, held, chunk;
        bool part;
    } bins;
    // Attention over axes (batch 0, rows 1, a head dimension for each result) and the columns:
    // products of values that are computed from scores, which are products themselves. nouts 0: not
    // attention.
    struct {
        int nscores, nouts;
        BodyScore score[MOST_PRODUCTS];
        BodyWeighted out[MOST_PRODUCTS];
        // Forward part: the maximum score of a row, the exponentials of the scores minus it, and
        // their sum; -1: absent.
        int high, exp, total;
        int tensor; // TENSOR_*, for f32 operands; 0: operands are 16-bit floats
    } attention;
    const Ix *uneven; // ROW: an index whose multiples the vectors of unaligned rows start at; NULL:
                      // rows are aligned. COLUMN: the same for rows in memory
    int64_t part;     // COLUMN, split: columns per part; 0: equal parts
    int64_t crowd;    // elements of all maps in its launch; 0: it is the only one
    int *arg;         // by buffer: the kernel's argument (CUDA: shared by bodies)
    uint64_t key;     // hash of what it computes: the key of its schedule in a tuning file
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
DType math_type(DType t); // type of a temporary with such an element
int math_bytes(DType t);
int64_t body_rows(const Body *b); // product of the parallel axes
// Whether the store is executed for each element of the axis: its value or index depends on it, or
// it adds up the columns.
bool store_over(const Body *b, const BodyStore *s, int axis);
// Whether the buffer (-1: any) is stored column by column. If a second kernel combines parts of the
// columns, these are stored by the first one.
bool body_stores_columns(const Body *b, int buf);
bool body_stores_rows(const Body *b); // whether some store is of a whole row
typedef struct Access {               // a load or a store
    const Ix *at;
    int buf, bytes; // bytes: of an element
    bool stores, folds;
} Access;
// Access number i, counting the instructions first, then the stores. false: it is not contiguous
// along [axis].
bool body_access(const Body *b, uint32_t i, int axis, Access *out);
static inline int element_bytes(const Body *b, int buf) // of an element in memory
{
    return dtype_info[b->bufs.at[buf].type].bits / 8;
}
static inline DType load_dtype(const Body *b, int load) // of the element in memory
{
    return b->bufs.at[b->insts.at[load].buf].type;
}
// Whether the buffer begins at a multiple of [v] elements (up to 16 bytes): a slice begins at a
// multiple of its length. body_begins: whether all buffers begin at multiples of 16 bytes.
static inline bool buf_begins(const Body *b, int buf, int64_t v)
{
    return !b->in_loop || b->bufs.at[buf].elems == 1 || b->bufs.at[buf].elems % v == 0;
}
bool body_begins(const Body *b);
// Whether a load reads different elements for every row and column. Not for loads shared by the
// rows of a batch, which are in a cache, nor for few rows.
bool inst_streams(const Body *b, const Inst *v);
// Whether it varies over the axis of a nested reduction, and is thus only known in its loop.
static inline bool inst_nested(const Body *b, const Inst *v)
{
    const uint64_t cols = b->col >= 0 ? 1ull << b->col : 0;
    return v->axes >> b->npar << b->npar & ~cols;
}
bool body_skips(const Body *b); // whether a load is skipped under some condition
// Add [bits] to the marks of everything an instruction depends on (operands, index, condition), or
// of the values in an index.
void inst_mark(const Body *b, int inst, uint64_t bits, uint64_t *marks);
void ix_mark(const Ix *x, uint64_t bits, uint64_t *marks);
void store_mark(const BodyStore *s, uint64_t bits, uint64_t *marks); // the same for a store
const Inst *inst_uncast(const Body *b, int inst); // the instruction, or the operand of its casts
const Inst *inst_first(const Body *b, int inst);  // the first of what it is computed from
const bool *body_live(Arena *a, const Body *b);   // by instruction: something stored depends on it
// The same if the select [choice] never selects its second operand.
const bool *body_live_without(Arena *a, const Body *b, int choice);
enum { BODY_FEW = 8 }; // elements of a short axis that the CPU's loops write out
// The length of parts of an axis within which the indices of live instructions and of stores are
// linear in it: the divisor in their quotients and remainders. 0: there are none; -1: there is no
// such length.
int64_t body_period(const Body *b, const bool *live, int axis);
// By instruction: a load of 8-bit or 16-bit numbers that are only stored again, unchanged.
const bool *body_moved(Arena *a, const Body *b);
bool body_folds(const Body *b); // whether it also computes sums over its rows
// The same for a contraction: sums over the rows of its left operand, by column; of its result.
bool body_folds_left(const Body *b);
bool body_folds_results(const Body *b);
int body_sort(const Body *b);      // the instruction that sorts; -1: none
int64_t body_first(const Body *b); // of how many it finds the first; 0: it sorts all, or nothing
bool body_recurs(const Body *b);   // whether it carries values from column to column
int body_scan(const Body *b);      // the instruction that computes running sums; -1: none
// The type of a 16-bit float that the body widens before multiplying; DT_BOOL: another value.
DType narrow_type(const Body *b, int inst);
bool mma_fits(const Body *b); // whether it is a contraction of 16-bit floats that tensor cores can
                              // compute
// Whether the operand of a contraction is contiguous along k, in aligned runs of [width], rather
// than along its rows.
bool operand_along_k(const Body *b, int inst, int width);
// Whether the instruction has the same value along each aligned run of [width] of the axis.
bool inst_steady(const Body *b, int inst, int axis, int width);
// The first of the loads of which at most one is needed in each run of [width] rows: the load
// itself if there is none before it.
int inst_choice(const Body *b, int load, int width);
// Whether the instruction depends only on the indices along the axes.
bool inst_placed(const Body *b, int inst);
// -- stacks.c: neighbours in memory that one thread loads or stores
typedef struct Stack {
    int first;       // the first load or store of the stack
    int lane, width; // which element of the vector it is; width 0: it is in no stack
} Stack;
typedef struct Stacks {
    Stack *load, *store; // by instruction, by store
    int bytes;           // of all members
} Stacks;
// Of a map's loads without a condition and of its stores, if a thread has one element.
Stacks body_stacks(Arena *a, const Body *b, const bool *live);
// -- body_windows.c
void body_windows(Arena *a, Body *b); // sets Body.dot.windows
// -- interleaved.c: maps that read runs of elements for several indices of outer axes
// The outer axes for all of whose indices a thread computes results, as a mask. 0: there are none.
uint64_t body_interleaved(const Body *b);
int64_t body_phases(const Body *b, uint64_t phases); // the number of these indices together
bool body_interleaves(const Body *b, const Inst *v); // whether it loads such runs
// The elements of a run that are loaded at a time: with the phases and the innermost axis at the
// beginning of a run, they are aligned. 0: fewer than eight bytes.
int body_interleaved_piece(const Body *b, const Inst *v, uint64_t phases);

// -- body_strips.c
void body_strips(Arena *a, const Body *b, BodyWindows *w); // sets w->strips; for axis 1
// -- body_attention.c
bool attention_find(Body *b); // sets Body.attention
DType attention_type(const Body *b);

// -- sort.c: sorting rows in shared memory
int64_t sort_padded(int64_t cols);         // the length after padding: the next power of two
int64_t sort_bytes(int64_t cols, DType t, bool places); // keys, and their original positions
bool sort_fits(const Target *t, int64_t cols, DType type);
// Whether blocks sort such rows in shared memory on CUDA, each a row. Rows that do not fit, and
// long ones of which there are few, are sorted by digits, in chunks of a multiple of RADIX_TILE
// columns.
bool sort_in_block(const Target *t, int64_t rows, int64_t cols, DType type);
enum { RADIX_THREADS = 512, RADIX_EACH = 8, RADIX_TILE = RADIX_THREADS * RADIX_EACH };

// -- first.c: the first elements of rows in order, held by warps
bool first_fits(int64_t cols, int64_t first);
int64_t first_held(const Body *b); // elements that each warp holds, 32 times a power of two
int64_t first_room(const Body *b); // elements of a block in shared memory, with their positions

// -- bins.c: sums by index in shared memory. The threads of a team have one of neighbouring results
// each; the teams of a block divide its indices. ordered: the indices ascend.
int64_t bins_blocks_across(int64_t cols);     // number of blocks for so many neighbouring results
int bins_threads(int64_t cols, bool ordered); // per team
int bins_teams(int64_t cols, bool ordered);
int bins_apart(int64_t cols, bool ordered); // sums from those of one index to those of the next
int bins_apart_of(const Body *b);
int64_t bins_sums(const Body *b); // elements of shared memory for a block's sums
// Whether some threads of a team have no result: then the block loads updates for all of its teams.
bool bins_narrow(const Body *b);
int64_t
bins_lists(const Body *b); // where lists of updates begin: behind the sums, and what was loaded
int bins_team_threads(const Body *b);
int bins_teams_of(const Body *b);
enum { BINS_CELLS = 1024 };        // of a table in which a block looks for frequent indices
int bins_looks(const Body *b);     // columns that a thread examines before it adds up those
                                   // with its index
int64_t bins_bytes(const Body *b); // shared memory

// -- identity.c
uint64_t kernel_identity(const Kernel *k);
// Bodies of one kernel with equal keys have equal texts except for names.
uint64_t body_text_key(const LowerCtx *c, const Body *b);
// Kernels for one target with equal keys have equal texts and launches, and are equally valid. p:
// for the kernel's costs.
uint64_t kernel_text_key(const Kernel *k, const ProgKernel *p);
// Whether it is a parameter of a loop's region that is passed from one iteration to the next.
bool carried_between(const LowerCtx *c, const BodyBuf *u);
uint64_t body_key(const Body *b); // the key of its schedule in a tuning file

#endif
