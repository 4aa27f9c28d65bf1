// How a body runs. Only numbers: a schedule can make a kernel slow, never wrong. codegen/schedule/
// chooses them.
#ifndef CODEGEN_IR_SCHEDULE_H
#define CODEGEN_IR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

// The first word of a schedule's text; determines which knobs it has.
typedef enum ScheduleKind {
    SCHED_MAP,       // a thread processes vectors of the innermost axis
    SCHED_ROW,       // a team of threads processes a row; columns are distributed over the team
    SCHED_COLUMN,    // neighbouring threads process neighbouring rows (the contiguous direction)
    SCHED_SWEEP,     // rows, and also sums over the rows: teams iterate over rows
    SCHED_TILE,      // a contraction: blocks compute tiles of its result (Body.dot)
    SCHED_ATTENTION, // products of values computed from products (Body.attention)
} ScheduleKind;

// The printer used for the body. Determined by the kind, the body and the knobs (schedule_derive);
// there is no other distinction between the variants of a kind.
typedef enum ScheduleVariant {
    RUN_MAP,              // MAP: vectors along any axis
    RUN_TRANSPOSE,        // ... tiles that are transposed through shared memory
    RUN_INTERLEAVED,      // ... threads read runs with elements for several outer indices
    RUN_REUSE,            // ... threads keep values that all outer indices read
    RUN_ROWS,             // ROW: teams, in any order
    RUN_SCAN,             // ... running sums, combined across a team
    RUN_SORT,             // ... a block sorts a row in shared memory
    RUN_RADIX,            // ... a block counts or moves the elements of a chunk by a digit
    RUN_FIRST,            // ... warps find the first elements in order
    RUN_IN_ORDER,         // ROW, COLUMN: a thread processes its columns in order
    RUN_RECURRENCE,       // ... and carries values from column to column
    RUN_COLUMNS,          // COLUMN
    RUN_BINS,             // ... sums by index, in shared memory
    RUN_SWEEP,            // SWEEP
    RUN_TILES,            // TILE: any type, without tensor cores
    RUN_MMA,              // ... 16-bit floats through shared memory to mma
    RUN_F32_RING,         // ... f32 through a ring in shared memory to mma
    RUN_GROUPS,           // ... groups of four warps (wgmma)
    RUN_WARP_TILES,       // ... one tile per warp, operands in registers
    RUN_ATTENTION,        // ATTENTION: warps
    RUN_ATTENTION_GROUPS, // ... groups of four warps
    RUN_BESIDE,           // ROW on the CPU: several short rows at the same time
} ScheduleVariant;

enum { KEEP_AGAIN, KEEP_REGISTERS, KEEP_SHARED }; // for a row that several stages read

// The numbers that can be chosen by hand or by measurement are rows of the table in knobs.c. Those
// that follow from them (the variant, row.keep, shared_bytes, blocks) are computed by
// schedule_derive. Fields of other kinds are 0.
typedef struct Schedule {
    ScheduleKind kind;
    ScheduleVariant variant;
    int threads;      // per block
    int resident;     // blocks that a multiprocessor must be able to hold; 0: any number
    int64_t blocks;   // grid
    int shared_bytes; // shared memory of a block (CPU: stack of a task) for what is kept
    bool wide;        // 64-bit index arithmetic
    int vector;       // elements that a thread processes at once
    int unroll;       // vectors in flight
    int team;      // ROW, SWEEP: threads per row; COLUMN: threads that share a row; reuse: an index
    int64_t split; // ROW, COLUMN: parts of the columns, each computed by its own block; 1: not
                   // split
    int64_t task;  // CPU: elements of the inner axis per task; ROW: rows at the same time, or 0
    int cluster;   // blocks of a cluster, which share, through each other's shared memory: ROW:
                   // a row; ring, or WGMMA_SPLIT: the columns of a tile; other products by
                   // groups: copies of the right operand
    int skew;      // SWEEP: the first sums of the next row are combined together with the
                   // second sums of this row; ATTENTION: the next scores are computed before
                   // the results of the current columns; recurrence: what the next iterations
                   // read is loaded before the current ones
    struct {       // MAP
        int transpose; // 1 + the axis along which some loads are contiguous: tiles of this and the
                       // innermost axis are transposed when they are read; 0: none
        int interleaved; // 1: a thread computes results for all phases (ir/interleaved.c)
        int reuse;       // 1: a thread processes several outer indices for the same inner one
    } map;
    struct {            // ROW, SWEEP
        int keep_in;    // KEEP_*; SWEEP: where a thread keeps values that all rows share
        int keep_bytes; // ROW: bytes per column of the loads that several stages read
        int keep;       // vectors of a row per thread, which ROW keeps in registers; 0: none
        int64_t cols;   // ROW: columns kept in shared memory; the others are read again
        int line;       // vectors of unaligned rows begin at multiples of this
        int margin;     // ROW: and end so many elements before the row; 0: anywhere
    } row;
    struct {          // SWEEP
        int walkers;  // blocks per multiprocessor, each of which iterates over rows
        int together; // rows of a team whose sums are combined together: a turn
        int ahead;    // turns of a team in shared memory: the current one and those copied ahead
    } sweep;
    struct {         // TILE, ATTENTION
        int m, n, k; // tile of the result, and columns per step
        int each;    // results of a thread along each side; 0: warps divide the columns; warp
                     // tiles: their size; ATTENTION: rows per warp, in units of 16; of groups:
                     // tiles of rows in shared memory
        int share;   // warp tiles: number of warps that share the columns of a tile; 0: not warp
                     // tiles
        int staged;  // the f32 ring: its slots; 0: another variant
        int wgmma;   // WGMMA_*: groups; 0: another variant
        int ring;    // groups, ATTENTION: steps along the columns in shared memory
    } tile;
} Schedule;

static inline bool schedule_in_groups(const Schedule *s) // whether groups of four warps use wgmma,
                                                         // with tensor maps
{
    return s->variant == RUN_GROUPS || s->variant == RUN_ATTENTION_GROUPS;
}

// How the two groups of a block divide the work. SHARED: they compute a tile together, each half of
// its rows; OWN: each computes its own tile. SPLIT: together, and the blocks of a cluster divide
// the columns; STEPS: the groups divide them, too. STRIPS: each its own tile, and a slot of the
// ring has all pixels of a line of a window (ir/body_strips.c); SHARED_STRIPS: the same with one
// tile together.
enum { WGMMA_SHARED = 1, WGMMA_OWN, WGMMA_SPLIT, WGMMA_STEPS, WGMMA_STRIPS, WGMMA_SHARED_STRIPS };

#endif
