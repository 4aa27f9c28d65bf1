// Kernel IR: what a kernel computes, before anything is decided about how.
//
// A Body computes the stores of one group. It has parallel axes (its rows), at most one reduction
// axis shared by all its stages (its columns), and serial axes of nested reductions. Instructions
// are values over the axes in their mask. An instruction that needs a reduction over the columns
// belongs to a later stage: every stage loops over the columns once. A Kernel is bodies side by
// side.
#ifndef CODEGEN_KERNEL_IR_H
#define CODEGEN_KERNEL_IR_H

#include "codegen/ir/index.h"
#include "codegen/kernel.h"

enum { BODY_MAX_AXES = 60, BODY_MAX_PAR = MAX_RANK };

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
    KI_CHECK,  // a[0] clamped to 0..bound; out of range is recorded
    KI_ASSERT, // a[0]; false is recorded
    KI_REDUCE, // op of a[0] over [axis], accumulated in [acc]
    KI_SCAN,   // running sum of a[0] along the columns; [exclusive]
    KI_SORT,   // the a[0] along the columns in order, [down]; [places]: where they stood
} InstKind;

typedef struct Inst {
    InstKind kind;
    DType type; // of the result; its arithmetic type is what the temporary has
    Op op;
    int na, a[4];
    int pred; // LOAD, CHECK: only where this bool holds; -1: everywhere
    int buf;  // LOAD: from; RANDOM: the site; CHECK, ASSERT: the number of the check
    int axis, lane;
    bool exclusive, down, places;
    bool approx;     // EW: CUDA may use the cheaper form
    bool repeats;    // EW: the graph has its last operand as one value, repeated (a broadcast)
    int unless;      // REDUCE: 1 + the bool of a row that has no use for it; 0: all have
    bool keep;       // its row is kept from stage to stage: loads on CUDA, costly ops on the CPU
    int first_use;   // the stage that computes a kept row
    DType acc, from; // REDUCE, SCAN: accumulator; CAST: operand's type
    const Ix *ix;
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
    bool add;  // accumulates into what is there (serial columns only)
    int guard; // 1 + the bool instruction that says whether to store; 0: always
    // A reduction over all rows: each block (of a contraction: each tile of rows) joins the values
    // of the rows it takes and stores its part at ix of its own share of the (scratch) buffer.
    // NULL: the value itself is stored.
    const Node *fold;
} BodyStore;

typedef struct BodyBuf {
    KernelArgKind kind;
    const Node *node;
    DType type;
    int64_t elems;
    int scratch;   // KA_SCRATCH
    int64_t value; // KA_INT
    bool written, read;
    bool in_place; // may be the same memory as another argument
} BodyBuf;

typedef struct BodyAxis {
    int64_t extent;
} BodyAxis;

// How a body runs. Numbers only: a schedule can make a kernel slow, never wrong.
typedef enum ScheduleKind {
    SCHED_MAP,       // a thread takes vectors of the innermost axis
    SCHED_ROW,       // a team of threads takes a row; columns are spread over the team
    SCHED_COLUMN,    // neighbouring threads take neighbouring rows (the contiguous direction)
    SCHED_SWEEP,     // rows, and sums over the rows on the way: teams walk over rows (sweep_cuda.c)
    SCHED_TILE,      // a contraction: blocks take tiles of its result (Body.dot)
    SCHED_ATTENTION, // products of what follows from products (Body.attention)
} ScheduleKind;

enum { KEEP_AGAIN, KEEP_REGISTERS, KEEP_SHARED }; // a row that several stages read

// Those that may be chosen by hand or by measurement are rows of the table in knobs.c; what follows
// from them (Schedule.keep, row_bytes, blocks) is computed by schedule_derive.
typedef struct Schedule {
    ScheduleKind kind;
    int threads; // per block
    int team;    // ROW: threads a row; COLUMN: threads that share a row
    int vector;  // elements a thread takes at once
    int unroll;  // vectors in flight
    int turn; // MAP: blocks take 32 x 32 tiles of the innermost axis and axis turn - 1, along which
              // some loads are contiguous: they go through shared memory; 0: no
    int keep_in;      // ROW: KEEP_*; SWEEP: where a thread keeps what all rows share
    int keep_bytes;   // ROW: of each column, of the loads that several stages read
    int keep;         // ROW: vectors of a row each thread keeps in registers; 0: none
    int row_bytes;    // shared memory (CPU: stack): ROW: for rows that are kept; TILE: for operands
    int64_t row_cols; // ROW, CUDA: columns kept there; those beyond are read again
    int line;         // ROW, SWEEP: the vectors of rows that start anywhere begin at its multiples
    int margin;       // ROW: and end so many elements before the row; 0: wherever
    int cluster;      // blocks that share a row (ROW) or the columns of a staged tile, through each
                      // other's shared memory; wgmma: that copy the right operand for each other
    int walkers;      // SWEEP: blocks of a multiprocessor that walk over rows
    int together;     // SWEEP: rows of a team that share their joins: a turn
    int ahead;        // SWEEP: turns of a team in shared memory: this one and those copied ahead
    int skew;         // SWEEP: the first sums of the next row join with the second ones of this row
    int resident;     // blocks a multiprocessor must be able to hold; 0: any
    int walk;         // MAP: a thread takes several outer positions of one place inside
    int64_t split;    // parts the columns are cut into, each its own block; 1: none
    int64_t blocks;   // grid
    int64_t tile;     // CPU: elements of the inner axis a task takes
    int tile_m, tile_n, tile_k; // TILE: of the result, and of the columns at once
    int each;   // TILE: results a thread holds along each side; 0: warps share out the columns
    int share;  // TILE: tensor cores, a tile a warp, whose columns so many warps share; 0: none
    bool mma;   // TILE: on tensor cores
    int wgmma;  // TILE: WGMMA_*: by groups of four warps (tile/groups.c); 0: not
    int ring;   // TILE, wgmma: steps along the columns that shared memory holds
    int staged; // TILE: tensor cores, tiles of f32 operands in a ring of so many; 0: no
    bool wide;  // 64-bit index arithmetic
} Schedule;

// A product within attention: the sum over [axis] (the head dimension) of [rows] * [cols], which
// gives scores, or over the columns of [weight] * [value], one result for each place along [axis].
typedef struct BodyScore {
    int sum, rows, cols, axis;
} BodyScore;
typedef struct BodyWeighted {
    int sum, weight, value, axis;
} BodyWeighted;
enum { MOST_PRODUCTS = 2 };

enum { WGMMA_SHARED = 1, WGMMA_OWN }; // two groups multiply a tile together, or each its own

// Operands rounded to tf32; or three products of their halves, so that what is lost is what f32
// loses.
enum { TENSOR_TF32 = 1, TENSOR_F32 };

typedef struct Body {
    IxCtx *ix;
    int naxes, npar; // axes 0..npar are the parallel ones, outermost first
    BodyAxis axis[BODY_MAX_AXES];
    int col;          // the column axis, or -1
    bool serial_cols; // the columns have an order: one thread takes them, or a team scans
    int nstages;      // loops over the columns
    int rare; // the stage whose reductions have an [unless], all of them: it stores nothing,
              // and few rows need it; 0: none
    VEC(Inst) insts;
    VEC(BodyStore) stores;
    VEC(BodyBuf) bufs;
    bool joins;    // the parts of sums that a body before it has stored: it is not split again
    bool commits;  // does nothing once the error record is set
    bool can_fail; // has checks
    int error_buf; // the error record's buffer, or -1
    // A contraction over axes (batch 0, m 1, n 2) and the columns: the sum [sum] of [a] * [b],
    // where a does not vary over n nor b over m. sum -1: not one.
    struct {
        int sum, a, b;
        int tensor; // TENSOR_*: how tensor cores may take the products; 0: not
    } dot;
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

typedef struct Lower {
    LowerCtx *ctx;
    Graph *graph;
    Body *body;
    IdMap memo, buf_of; // buf_of: node and kind -> index in body->bufs
    const Group *group;
    int depth;
    bool one_round;         // squared deviations without the mean first, along the columns
    const Node *call;       // the graph is its region
    bool early;             // sums along the columns do not wait for a factor of their row
    struct LowerCuts *cuts; // where the values of a map change from one operand to the next
    bool failed;
} Lower;

// -- lower_body.c: groups to bodies ---------------------------------------------------------------
typedef VEC(Body *) BodyList;
// Bodies for one group, in the order they must run when [*ordered] comes back true (else side by
// side). false: reported.
bool lower_group(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered);

Lower lower_begin(LowerCtx *ctx, Graph *g, const Group *group);
// Stores the element of [n] at idx.
void lower_out(Lower *l, const Node *n, const Ix *const *idx);
void lower_finish(Lower *l); // stages and schedule, when all stores are there

// -- lower_attention.c: a call's region (passes/attention/attention.c). *ordered: as of lower_group.
bool lower_attention(LowerCtx *ctx, const Group *group, BodyList *out, bool *ordered);

// -- lower_sweep.c: sums over the rows of a row body ----------------------------------------------
// Adds the folded outs of the group to a body whose rows and columns are these axes. false: they
// are of other rows and columns.
bool lower_folds(Lower *l, const Ix *row, const Ix *col);
// Of a scheduled body with folds: numbers its scratch buffers from [*scratch] on, and lowers what
// follows from the parts to a body that runs behind it. false: reported.
bool lower_joined(LowerCtx *ctx, Graph *g, Body *sweep, int *scratch, Body **out);
bool body_folds(const Body *b);

// -- lower_value.c: a node's element at an index --------------------------------------------------
int lower_value(Lower *l, const Node *n, const Ix *const *idx, int pred);
// From now on the node's element there is that value.
void lower_known(Lower *l, const Node *n, const Ix *const *idx, int value);

// -- lower_inst.c: what a body consists of --------------------------------------------------------
int lower_buf(Lower *l, KernelArgKind kind, const Node *n, DType type, int64_t elems);
int lower_error_buf(Lower *l);
int lower_ix_stage(const Lower *l, const Ix *e); // NULL: 0
int lower_inst(Lower *l, Inst i);                // appends, or finds an equal one
int lower_ew(Lower *l, Op op, DType type, const int *a, int na, const Node *node);
int lower_const_int(Lower *l, DType t, int64_t v);
int lower_cast(Lower *l, int a, DType to, const Node *node);
int lower_new_axis(Lower *l, int64_t extent);
// The KA_INT buffer of a random op's site, or of a new check's number.
int lower_site(Lower *l, int64_t site);
int lower_check(Lower *l, ProgCheckKind kind, const char *message, Loc loc, int64_t bound);
void lower_store(Lower *l, int buf, const Ix *ix, int value);

// -- schedule.c -----------------------------------------------------------------------------------
void schedule_body(LowerCtx *ctx, Body *b);
void schedule_derive(Body *b, const Target *t); // what follows from the knobs (knobs.h)
bool schedule_can_keep(const Body *b, const Target *t, int where); // KEEP_*
bool schedule_can_split(const Body *b);
// Whether the store is done for each element of the axis: what it stores or where differs, or it
// adds up columns, be they alike.
bool store_over(const Body *b, const BodyStore *s, int axis);
// Whether the buffer (-1: any) is stored to column by column: where parts of the columns are joined
// by a second kernel, by the first one.
bool body_stores_columns(const Body *b, int buf);
typedef struct Access { // a load or a store
    const Ix *at;
    int bytes; // of an element
    bool stores, folds;
} Access;
// Number i of the body's instructions and, behind them, stores. false: it does not go through
// memory along [axis], element by element.
bool body_access(const Body *b, uint32_t i, int axis, Access *out);
// The widest vector along [axis] that some access can be moved by. tail: the last one may be cut
// short; narrow_shared: loads of what all positions off the axis share take 16 bytes at most.
int schedule_vector(const Body *b, int axis, int64_t extent, bool tail, bool narrow_shared);
int schedule_uneven_vector(Body *b, int64_t extent, bool held); // of rows that start anywhere
int schedule_line(const Body *b); // elements from one place to the next where their vectors begin
// row_plan.c: rows on CUDA; fresh: a schedule without values
void plan_row(Arena *arena, const Target *t, Body *b, const Schedule *fresh);
void row_derive(Body *b, const Target *t);
int64_t row_columns(const Body *b); // ROW: of a row, those of one block
int64_t row_vectors(const Body *b); // of these; edges are beside them
void sweep_schedule(const Target *t, Body *b);
void sweep_derive(Body *b, const Target *t);
bool sweep_skews(const Body *b);               // Schedule.skew is possible
bool sweep_saves(const Body *b);               // a round of joins, by sums that do not wait
bool sweep_holds(const Body *b, int64_t team); // registers hold a row's share of each thread
// A load whose vectors a thread holds: copied before the row's turn where it differs from row to
// row, fetched once where it does not.
bool sweep_held(const Body *b, const Inst *load);
int64_t sweep_held_bytes(const Body *b, const Inst *load); // of a block's shared memory
int schedule_turned_axis(const Body *b); // MAP: the axis that can be turned, or -1
// reuse_plan.c: maps that keep what all outer positions read
bool walk_possible(const Body *b);
void plan_walk(const Target *t, Body *b);
void walk_derive(Body *b);
int64_t walk_tiles(const Body *b); // blocks side by side along the innermost axis
// scan_cuda.c: running sums
void plan_scan(const Target *t, Body *b);
// sort_cuda.c: rows in order
int body_sort(const Body *b); // the instruction that sorts; -1: none
bool sort_fits(const Target *t, int64_t cols, DType type);
bool plan_sort(Body *b); // false: it is none
void sort_derive(Body *b);
// sort_c.c: rows in order on the CPU, in scratch memory that is added to the body's buffers
void sort_c_scratch(Arena *a, Body *b, int *count);
// operand_cuda.c: whether what an operand of a contraction is made of lies side by side along k
// rather than along its rows
bool operand_along_k(const Body *b, int inst);
// ring_plan.c: contractions of f32 whose operands pass through shared memory to tensor cores
enum { STAGED_WARPS = 8, STAGED_SIDE = 32 }; // of a block; results of a warp, along either axis
void staged_plan(const Target *t, Body *b);
void staged_derive(Body *b, const Target *t);
void staged_beside(const Target *t, Body *b, int64_t tiles); // in one launch: of all its products
int staged_sharing(const Schedule *s); // warps that share the columns of one place in the tile
int staged_pitch(const Body *b);       // elements between rows of sums in shared memory
// tile_plan.c: contractions on CUDA
void plan_tile(const Target *t, Body *b);
void tile_derive(Body *b, const Target *t);
// tile/attention.c: attention on CUDA
bool attention_find(Body *b); // fills in Body.attention
void plan_attention(const Target *t, Body *b);
void attention_derive(Body *b, const Target *t);
void plan_cpu(Arena *a, Body *b); // cpu_plan.c: all but sweeps
// column_plan.c: column reductions on CUDA
void plan_column(const Target *t, Body *b);
void column_derive(Body *b);
int column_widest(const Body *b); // the widest vector all of it allows
// Whether it looks at the error record where its results are stored, not before it begins.
bool column_commits_late(const Body *b);
enum { COLUMN_SHIFTS = 8 }; // widest vector of rows that start anywhere
// Whether the place is a multiple of v elements wherever b->uneven is.
bool column_shifts(const Body *b, const Ix *place, int v);
int column_tile(const Body *b);              // results of a block where vectors are shifted
int64_t column_tiles(const Body *b);         // blocks side by side
Schedule plan_column_combine(const Body *b); // of the kernel that joins the parts

// -- printers -------------------------------------------------------------------------------------

// Text of the whole kernel; [pretty]: with the model's names and the head comment.
struct Emit;
void body_cuda(struct Emit *e, KernelPhase phase); // by its schedule
void row_cuda(struct Emit *e, KernelPhase phase);
void small_cuda(struct Emit *e);
void tile_program_cuda(struct Emit *e); // tile/print.c: those of tile programs
void attention_cuda(struct Emit *e);    // tile/attention_print.c
bool mma_fits(const Body *b);           // a contraction of 16-bit floats: tensor cores can take it
int mma_shared_bytes(const Body *b);    // that the schedule's tiles need
bool wgmma_fits(const Body *b, const Target *t); // both operands are matrices bulk copies can read
bool wgmma_sums(const Body *b); // sums over the rows of the left one can be taken on the way
void wgmma_schedule(const Target *t, Body *b); // takes the body where it is large enough
void wgmma_derive(Body *b, const Target *t);
double wgmma_share(const Body *b, const Target *t); // of what the device can multiply
void wgmma_maps(const Body *b, ProgKernel *k);      // the launch's maps
const char *wgmma_parameters(struct Emit *e);       // ... as further parameters of the kernel
void turn_cuda(struct Emit *e);
void sweep_cuda(struct Emit *e);
void column_cuda(struct Emit *e, KernelPhase phase);
void scan_cuda(struct Emit *e);
void sort_cuda(struct Emit *e);
void walk_cuda(struct Emit *e);
int64_t tile_c(struct Emit *e); // tasks
// Whether the place is a multiple of v elements wherever b->uneven is.
bool body_aligned(const Body *b, const Ix *place, int v);
uint64_t *body_stage_uses(Arena *a, const Body *b); // by instruction: a bit a stage that needs it
const char *print_cuda(Kernel *k, bool pretty, ProgKernel *launch);
const char *print_c(Kernel *k, bool pretty);
int64_t body_rows(const Body *b); // product of the parallel axes
DType math_type(DType t);         // of a temporary that holds such an element
int math_bytes(DType t);

#endif
