// The cost model: which schedule a body gets, and what follows from it. One file per kind.
#ifndef CODEGEN_PLANS_H
#define CODEGEN_PLANS_H

#include "codegen/ir/reduction.h"

// -- schedule.c -----------------------------------------------------------------------------------
void schedule_body(LowerCtx *ctx, Body *b);     // by the cost model
void schedule_derive(Body *b, const Target *t); // what follows from the knobs (knobs.h)
bool schedule_can_keep(const Body *b, const Target *t, int where); // KEEP_*
bool schedule_can_split(const Body *b);
// The widest vector along [axis] that some access can be moved by. tail: the last one may be cut
// short; narrow_shared: loads of what all positions off the axis share take 16 bytes at most.
int schedule_vector(const Body *b, int axis, int64_t extent, bool tail, bool narrow_shared);
int schedule_uneven_vector(Body *b, int64_t extent, bool held); // of rows that start anywhere
int schedule_line(const Body *b); // elements from one place to the next where their vectors begin
// row_plan.c: rows on CUDA; fresh: a schedule without values
void plan_row(Arena *arena, const Target *t, Body *b, const Schedule *fresh);
void row_derive(Body *b, const Target *t);
bool row_streams(const Body *b);    // every stage reads the row again, by vectors
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
int64_t sweep_held_bytes(const Body *b, const Inst *load);    // of a block's shared memory
int schedule_transposed_axis(const Body *b, const Target *t); // of a MAP; -1: none
// reuse_plan.c: maps that keep what all outer positions read
bool reuse_possible(const Body *b);
void plan_reuse(const Target *t, Body *b);
void reuse_derive(Body *b);
int64_t reuse_tiles(const Body *b); // blocks side by side along the innermost axis
// scan_plan.c: running sums
void plan_scan(const Target *t, Body *b);
// sort_plan.c: rows in order
bool plan_sort(Body *b);              // false: it is none
int sort_shared_bytes(const Body *b); // of a body that sorts
// ring_plan.c: contractions of f32 whose operands pass through shared memory to tensor cores
double staged_plan(const Target *t, Body *b); // its estimated seconds
void staged_derive(Body *b, const Target *t);
void staged_beside(const Target *t, Body *b, int64_t tiles); // in one launch: of all its products
// tile_plan.c: contractions on CUDA
enum { WARP_TILE_MOST = 3 }; // tile.each of a tile a warp: 16 x 8, 16 x 16, 32 x 32, 32 x 16
bool warp_cluster(const Body *b, const Target *t); // blocks can share such a tile's columns
void plan_tile(const Target *t, Body *b);
void tile_derive(Body *b, const Target *t);
void plan_cpu(Arena *a, const Target *t, Body *b); // cpu_plan.c: all but sweeps
// keep_plan.c: what stages keep on the CPU, with the rows side by side or the rows of a task
void keep_row(Arena *a, Body *b);
void keep_columns(Arena *a, Body *b);
bool columns_fit(const Body *b, int64_t rows); // a task can keep what its columns keep
// CPU, a contraction: columns that are multiplied at once, two vectors of 64 bytes.
static inline int tile_columns(const Body *b)
{
    return 2 * 64 / math_bytes(b->insts.at[b->dot.sum].acc);
}
// CPU: of short rows that are taken side by side, how far in memory one row is from the next at a
// place that is turned on its way in or out, so that vectors run across rows; 0: it is not.
int64_t beside_pitch(const Body *b, const Ix *place);
int64_t rows_beside(Arena *a, const Body *b);  // of a task; 0: rows are taken one by one
bool beside_fits(const Body *b, int64_t rows); // a task's stack can have so many
// CPU: 1, 2: the contraction's left or right operand is read where it lies, row by row (f32, f64);
// 0: both are brought into order.
int tile_in_place(const Body *b);
// column_plan.c: column reductions on CUDA
void plan_column(const Target *t, Body *b);
void column_derive(Body *b);
bool column_short(const Body *b); // columns that a thread takes alone
int column_widest(const Body *b); // the widest vector all of it allows
// Whether it looks at the error record where its results are stored, not before it begins.
bool column_commits_late(const Body *b);
enum { COLUMN_SHIFTS = 8 }; // widest vector of rows that start anywhere
// Whether the place is a multiple of v elements wherever b->uneven is.
bool column_shifts(const Body *b, const Ix *place, int v);
int column_tile(const Body *b);              // results of a block where vectors are shifted
int64_t column_tiles(const Body *b);         // blocks side by side
Schedule plan_column_combine(const Body *b); // of the kernel that joins the parts
// wgmma_plan.c: products by groups of warps
bool wgmma_fits(const Body *b, const Target *t); // both operands are matrices bulk copies can read
bool wgmma_sums(const Body *b);        // sums over the rows of the left one can be taken on the way
bool wgmma_fits_strips(const Body *b); // the left operand's windows share copies along a line
bool wgmma_splits(const Body *b);      // groups, and the blocks of a cluster, can share the columns
void wgmma_schedule(const Target *t, Body *b); // takes the body where it is large enough
void wgmma_derive(Body *b, const Target *t);
double wgmma_share(const Body *b, const Target *t); // of what the device can multiply
void wgmma_maps(const Body *b, ProgKernel *k);      // the launch's maps
// Whether the place is a multiple of v elements wherever b->uneven is.
bool body_aligned(const Body *b, const Ix *place, int v);
uint64_t *body_stage_uses(Arena *a, const Body *b); // by instruction: a bit a stage that needs it

#endif
