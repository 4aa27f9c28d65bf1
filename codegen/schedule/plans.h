// The cost model: which schedule a body gets, and what follows from it. One file per kind.
#ifndef CODEGEN_PLANS_H
#define CODEGEN_PLANS_H

#include "codegen/ir/reduction.h"

// -- schedule.c -----------------------------------------------------------------------------------
void schedule_body(LowerCtx *ctx, Body *b);     // by the cost model
void schedule_derive(Body *b, const Target *t); // what follows from the knobs (knobs.h)
bool schedule_can_keep(const Body *b, const Target *t, int where); // KEEP_*
bool schedule_can_split(const Body *b);
// The widest vector along [axis] that some access allows. tail: the last vector may be shorter;
// narrow_shared: loads that vary over no other axis take at most 16 bytes.
int schedule_vector(const Body *b, int axis, int64_t extent, bool tail, bool narrow_shared);
// The same for rows that are not aligned; sets b->uneven, the index whose alignment vectors follow.
int schedule_uneven_vector(Body *b, int64_t extent, bool held);
int schedule_line(const Body *b); // the first vector of an unaligned row begins at a multiple of it
// row_plan.c: rows on CUDA; fresh: a schedule without values
void plan_row(Arena *arena, const Target *t, Body *b, const Schedule *fresh);
void row_derive(Body *b, const Target *t);
bool row_streams(const Body *b); // every stage reads the row again, in vectors
// Whether the rows of a matrix that is a leaf (weights) are combined with a vector that another
// kernel computes or an index chooses.
bool row_meets_vector(const Body *b);
// Fills blocks of [threads] threads in a launch with wider bodies, where otherwise most would idle.
void row_widen(Body *b, const Target *t, int threads);
int64_t row_columns(const Body *b); // ROW: columns of a row, of one block's part
int64_t row_vectors(const Body *b); // vectors in these, without the edges
void sweep_schedule(const Target *t, Body *b);
void sweep_derive(Body *b, const Target *t);
bool sweep_skews(const Body *b); // Schedule.skew is possible
bool sweep_saves(const Body *b); // one round of combining sums is saved, because some do not wait
bool sweep_holds(const Body *b, int64_t team); // registers suffice for each thread's share of a row
// A load whose vectors a thread holds: prefetched before the row if it differs from row to row,
// otherwise loaded once.
bool sweep_held(const Body *b, const Inst *load);
int64_t sweep_held_bytes(const Body *b, const Inst *load);    // of a block's shared memory
int schedule_transposed_axis(const Body *b, const Target *t); // of a MAP; -1: none
// reuse_plan.c: maps that keep what all outer positions read
bool reuse_possible(const Body *b);
void plan_reuse(const Target *t, Body *b);
void reuse_derive(Body *b);
int64_t reuse_tiles(const Body *b); // number of blocks along the innermost axis
// scan_plan.c: running sums, recurrences
void plan_scan(const Target *t, Body *b);
void plan_recurrence(const Target *t, Body *b);
// sort_plan.c: sorts in shared memory
bool plan_sort(Body *b);              // false: it does not sort
int sort_shared_bytes(const Body *b); // of a body that sorts
// first_plan.c: the first elements of rows in order
bool plan_first(const Target *t, Body *b); // false: it does not look for them
int first_shared_bytes(const Body *b);
// ring_plan.c: contractions of f32 whose operands pass through shared memory to tensor cores
double staged_plan(const Target *t, Body *b); // returns the estimated seconds
void staged_derive(Body *b, const Target *t);
// Adapts the schedule to a launch of several products with [tiles] tiles in all.
void staged_beside(const Target *t, Body *b, int64_t tiles);
// tile_plan.c: contractions on CUDA
enum { WARP_TILE_MOST = 3 }; // tile.each if a tile is a warp's: 16 x 8, 16 x 16, 32 x 32, 32 x 16
bool warp_cluster(const Body *b, const Target *t); // blocks can divide such a tile's columns
void plan_tile(const Target *t, Body *b);
void tile_derive(Body *b, const Target *t);
void plan_cpu(Arena *a, const Target *t, Body *b); // cpu_plan.c: all but sweeps
// keep_plan.c: what stages keep on the CPU: of a row, or of the rows that a task processes together
void keep_row(Arena *a, Body *b);
void keep_columns(Arena *a, Body *b);
bool columns_fit(const Body *b, int64_t rows); // a task can keep the values of this many rows
// CPU, a contraction: the columns that are multiplied at once, two vectors of 64 bytes.
static inline int tile_columns(const Body *b)
{
    return 2 * 64 / math_bytes(b->insts.at[b->dot.sum].acc);
}
// CPU, short rows processed together (RUN_BESIDE): the distance in memory from one row to the next
// for an access that is transposed, so that vectors run across rows; 0: it is not transposed.
int64_t beside_pitch(const Body *b, const Ix *place);
int64_t rows_beside(Arena *a, const Body *b);  // rows per task; 0: rows are processed one by one
bool beside_fits(const Body *b, int64_t rows); // a task's stack has room for this many
// CPU: 1, 2: the contraction's left or right operand is read in place, row by row (f32, f64); 0:
// both are packed.
int tile_in_place(const Body *b);
// column_plan.c: column reductions on CUDA
void plan_column(const Target *t, Body *b);
void column_derive(Body *b);
bool column_short(const Body *b); // so few columns that one thread processes them
int column_widest(const Body *b); // the widest vector that all its accesses allow
// Whether it reads the error record when it stores its results, not at its beginning.
bool column_commits_late(const Body *b);
enum { COLUMN_SHIFTS = 8 }; // the widest vector for rows that are not aligned
// Whether the index is a multiple of v wherever b->uneven is.
bool column_shifts(const Body *b, const Ix *place, int v);
int column_tile(const Body *b);              // results per block if vectors are shifted
int64_t column_tiles(const Body *b);         // number of blocks along the rows
Schedule plan_column_combine(const Body *b); // for the kernel that combines the parts
// wgmma_plan.c: products by groups of four warps.
// Whether both operands are matrices that bulk copies can read.
bool wgmma_fits(const Body *b, const Target *t);
// Whether sums over the rows of the left operand can be computed in addition.
bool wgmma_sums(const Body *b);
bool wgmma_fits_strips(const Body *b); // the left operand's windows share copies along a line
bool wgmma_splits(const Body *b); // groups, and the blocks of a cluster, can divide the columns
void wgmma_schedule(const Target *t, Body *b); // schedules the body if it is large enough
void wgmma_derive(Body *b, const Target *t);
// Share of the device's matmul rate that it can reach.
double wgmma_share(const Body *b, const Target *t);
void wgmma_maps(const Body *b, ProgKernel *k); // the launch's tensor maps
// Whether vectors of v elements at the index are aligned, in rows of the alignment of b->uneven.
bool body_aligned(const Body *b, const Ix *place, int v);
// By instruction: one bit per stage that needs it.
uint64_t *body_stage_uses(Arena *a, const Body *b);

#endif
