// How a body runs. Only numbers: a schedule can make a kernel slow, never wrong. codegen/schedule/
// chooses them.
#ifndef CODEGEN_IR_SCHEDULE_H
#define CODEGEN_IR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

// The first word of a schedule as text, and which knobs it has.
typedef enum ScheduleKind {
    SCHED_MAP,       // a thread takes vectors of the innermost axis
    SCHED_ROW,       // a team of threads takes a row; columns are spread over the team
    SCHED_COLUMN,    // neighbouring threads take neighbouring rows (the contiguous direction)
    SCHED_SWEEP,     // rows, and sums over the rows in addition: teams iterate over rows
    SCHED_TILE,      // a contraction: blocks take tiles of its result (Body.dot)
    SCHED_ATTENTION, // products of values computed from products (Body.attention)
} ScheduleKind;

// Which printer prints the body. It follows from the kind, the body and the knobs
// (schedule_derive); nothing else distinguishes the variants of a kind.
typedef enum ScheduleVariant {
    RUN_MAP,              // MAP: vectors anywhere
    RUN_TRANSPOSE,        // ... tiles that are transposed through shared memory
    RUN_REUSE,            // ... threads keep values that all outer positions read
    RUN_ROWS,             // ROW: teams, in any order
    RUN_SCAN,             // ... running sums, combined across a team
    RUN_SORT,             // ... a block sorts a row in shared memory
    RUN_IN_ORDER,         // ROW, COLUMN: a thread processes its columns in order
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
    RUN_BESIDE,           // ROW on the CPU: short rows, side by side
} ScheduleVariant;

enum { KEEP_AGAIN, KEEP_REGISTERS, KEEP_SHARED }; // a row that several stages read

// The numbers that can be chosen by hand or by measurement are rows of the table in knobs.c; those
// that follow from them (the variant, row.keep, shared_bytes, blocks) are computed by
// schedule_derive. Fields of another kind are 0.
typedef struct Schedule {
    ScheduleKind kind;
    ScheduleVariant variant;
    int threads;       // per block
    int resident;      // blocks a multiprocessor must be able to hold; 0: any
    int64_t blocks;    // grid
    int shared_bytes;  // of a block's shared memory (CPU: of a task's stack): for what is kept
    bool wide;         // 64-bit index arithmetic
    int vector;        // elements a thread takes at once
    int unroll;        // vectors in flight
    int team;          // ROW, SWEEP: threads a row; COLUMN: that share a row; reuse: a position
    int64_t split;     // ROW, COLUMN: parts the columns are cut into, each a block's; 1: none
    int64_t task;      // CPU: elements of the inner axis a task takes; ROW: rows side by side, or 0
    int cluster;       // blocks that share a row (ROW) or the columns of a tile (ring, or of
                       // WGMMA_SPLIT), through each other's shared memory; of other products of
                       // groups: that copy the right operand for each other
    int skew;          // SWEEP: the first sums of the next row join with the second ones of this
                       // row; ATTENTION: scores of the next columns before results of these
    struct {           // MAP
        int transpose; // 1 + the axis along which some loads are contiguous: tiles of it and of the
                       // innermost one are turned while they are read; 0: none
        int reuse;     // 1: a thread takes several outer positions of one place inside
    } map;
    struct {            // ROW, SWEEP
        int keep_in;    // KEEP_*; SWEEP: where a thread keeps what all rows share
        int keep_bytes; // ROW: of each column, of the loads that several stages read
        int keep;       // vectors of a row each thread has, ROW: keeps in registers; 0: none
        int64_t cols;   // ROW: columns kept in shared memory; those beyond are read again
        int line;       // the vectors of rows that start anywhere begin at its multiples
        int margin;     // ROW: and end so many elements before the row; 0: wherever
    } row;
    struct {          // SWEEP
        int walkers;  // blocks of a multiprocessor that walk over rows
        int together; // rows of a team that share their joins: a turn
        int ahead;    // turns of a team in shared memory: this one and those copied ahead
    } sweep;
    struct {         // TILE, ATTENTION
        int m, n, k; // of the result, and of the columns at once
        int each;    // results a thread holds along each side; 0: warps share out the columns;
                     // warp tiles: their size; ATTENTION: rows of a warp, of 16, of groups:
                     // tiles of rows that shared memory holds
        int share;   // warp tiles: warps that share the columns of one; 0: these are others
        int staged;  // the f32 ring: its places; 0: another variant
        int wgmma;   // WGMMA_*: groups; 0: another variant
        int ring;    // groups, ATTENTION: steps along the columns that shared memory holds
    } tile;
} Schedule;

static inline bool schedule_in_groups(const Schedule *s) // of four warps: wgmma, and maps for it
{
    return s->variant == RUN_GROUPS || s->variant == RUN_ATTENTION_GROUPS;
}

// Two groups multiply a tile together, each half of its rows, or each its own tile. SPLIT:
// together, and the blocks of a cluster divide its columns; STEPS: the groups divide them, too.
// STRIPS: each its own, and a slot of the ring holds all pixels of a line of a window
// (ir/body_strips.c); SHARED_STRIPS: the same with one tile together.
enum { WGMMA_SHARED = 1, WGMMA_OWN, WGMMA_SPLIT, WGMMA_STEPS, WGMMA_STRIPS, WGMMA_SHARED_STRIPS };

#endif
