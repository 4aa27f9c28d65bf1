// How a body runs. Numbers only: a schedule can make a kernel slow, never wrong. What chooses them
// is codegen/schedule/.
#ifndef CODEGEN_IR_SCHEDULE_H
#define CODEGEN_IR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

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
    int threads;   // per block
    int team;      // ROW: threads a row; COLUMN: threads that share a row
    int vector;    // elements a thread takes at once
    int unroll;    // vectors in flight
    int transpose; // MAP: blocks take 32 x 32 tiles of the innermost axis and axis transpose - 1,
                   // along which some loads are contiguous: they go through shared memory; 0: no
    int keep_in;      // ROW: KEEP_*; SWEEP: where a thread keeps what all rows share
    int keep_bytes;   // ROW: of each column, of the loads that several stages read
    int keep;         // ROW: vectors of a row each thread keeps in registers; 0: none
    int row_bytes;    // shared memory (CPU: stack): ROW: for rows that are kept; TILE: for operands
    int64_t row_cols; // ROW, CUDA: columns kept there; those beyond are read again
    int line;         // ROW, SWEEP: the vectors of rows that start anywhere begin at its multiples
    int margin;       // ROW: and end so many elements before the row; 0: wherever
    int cluster;      // blocks that share a row (ROW) or the columns of a tile (staged, or
                      // of WGMMA_SPLIT), through each other's shared memory; of other products of
                      // groups: that copy the right operand for each other
    int walkers;      // SWEEP: blocks of a multiprocessor that walk over rows
    int together;     // SWEEP: rows of a team that share their joins: a turn
    int ahead;        // SWEEP: turns of a team in shared memory: this one and those copied ahead
    int skew;         // SWEEP: the first sums of the next row join with the second ones of this row
    int resident;     // blocks a multiprocessor must be able to hold; 0: any
    int reuse;        // MAP: a thread takes several outer positions of one place inside
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

// Two groups multiply a tile together, half of its rows each, or each its own. SPLIT: together, and
// the blocks of a cluster share its columns; STEPS: so do the groups.
enum { WGMMA_SHARED = 1, WGMMA_OWN, WGMMA_SPLIT, WGMMA_STEPS };

#endif
