// What the files of products by groups of warps share.
#ifndef CODEGEN_WGMMA_H
#define CODEGEN_WGMMA_H

#include "codegen/ir/body.h"

// STEP: columns (k) of a place in the ring; LINE: bytes of its rows. BOX: rows of STEP results that
// a warp writes at once. GROUPS: of four warps, that multiply.
// ATOM_ROWS: of an instruction.
// MOST_ADDED: columns of a tile whose sums a warp has registers for. ROW_SUMS: sums of a column
// that results by rows are added to.
enum { STEP = 64, LINE = STEP * 2, BOX = 16, GROUPS = 2, ATOM_ROWS = 64 };
enum { MOST_ADDED = 128, ROW_SUMS = 4 };

// -- wgmma_maps.c: the matrices as bulk copies see them; without boxes, which follow from the
// schedule
typedef struct GroupOperand {
    bool fits; // bulk copies can read it
    bool along_k;
    ProgMap map; // of windows in images, or of a matrix
} GroupOperand;
GroupOperand group_operand(const Body *b, int axis); // 1: left, 2: right
// false: this result is not stored by bulk copies, or from boxes.
bool group_result(const Body *b, uint32_t store, ProgMap *m);
bool group_boxed(const Body *b, uint32_t store); // ... it is
// Rows of a tile are so many apart: those of a map each (ProgMap.apart).
int group_apart(const Body *b);
// The left operand's rows begin anywhere: its tiles begin up to seven columns before them.
bool group_uneven(const Body *b);

bool group_has_windows(const Body *b); // an operand that is no matrix

// ... and what a schedule makes of them
int wgmma_grain(const Body *b);  // tiles are wide as its multiples
bool wgmma_has_atom(int n);      // ... and of these as there are instructions for (groups.c)
int wgmma_staged(const Body *b); // results that pass through shared memory: those with a map
int wgmma_stages(const Body *b); // times a warp has room for them
// What follows from the sums reads tensors along with them: the sums of a part of the results go
// through shared memory, so that a thread has eight neighbours of a row and loads 16 bytes.
bool wgmma_by_rows(const Body *b);
int wgmma_ahead(const Body *b);      // parts whose loads begin before the products: there is room
int wgmma_parts(const Body *b);      // of a group's results
int wgmma_part_bytes(const Body *b); // of shared memory, for a part of the results of each warp
int wgmma_registers(const Body *b);  // of a thread that multiplies
// A warp keeps the body's sums over rows from tile to tile: those of one result that passes through
// shared memory (wgmma_added: which store's); by rows up to ROW_SUMS sums of anything.
bool wgmma_adds_columns(const Body *b);
bool wgmma_may_add_columns(const Body *b);           // a kernel like this one: registers have room
int wgmma_added(const Body *b);                      // -1: none's
int wgmma_joint_bytes(const Body *b);                // what all warps have kept of them
static inline bool wgmma_together(const Schedule *s) // the groups share a tile's rows
{
    return s->tile.wgmma == WGMMA_SHARED || s->tile.wgmma == WGMMA_SPLIT ||
           s->tile.wgmma == WGMMA_SHARED_STRIPS;
}
static inline bool wgmma_shares(const Schedule *s) // the columns of a tile, by blocks or groups
{
    return s->tile.wgmma == WGMMA_SPLIT || s->tile.wgmma == WGMMA_STEPS;
}
// Strips: the left operand's (NULL: this schedule makes none); rows of it in a place of the ring;
// whether all of the right operand stays in shared memory, beside the ring.
const BodyStrips *wgmma_strips(const Body *b);
int wgmma_strip_rows(const Body *b);
bool wgmma_stays(const Body *b);
// Strips of the right operand, along k: of a line of the windows' pixels, side by side in a tile.
// group_: the left one's map, which counts places alike; false: there are none.
bool group_right_strips(const Body *b, ProgMap *left);
const BodyStrips *wgmma_right_strips(const Body *b);
int wgmma_right_rows(const Body *b); // of it in a place of the ring
int64_t wgmma_rows(const Body *b);   // of all tiles: places that are no result are among them
int wgmma_tile_bytes(const Body *b, int axis); // of an operand, in a place of the ring or staying
int wgmma_place_apart(const Body *b);          // from place to place
int wgmma_right_offset(const Body *b);         // ... to the right operand's tile
int wgmma_sharing(const Schedule *s); // blocks of a cluster that share the columns of a tile
int wgmma_wide(
    const Body *b); // rows and columns of the right operand's tile that are copied: boxes
int wgmma_pitch(const Schedule *s); // of rows of sums in shared memory, of columns that are shared
// Along k, of a block: those of one place in the ring. As many for each group that shares them;
// beyond the end of the matrices there are zeros.
int64_t wgmma_steps(const Body *b);
// Of tiles number [across] of a row of tiles: which of the columns add something, as bits of
// [live_run] columns each (BodyWindows.live). What is left out differs from tile to tile, so that a
// block takes its tiles in bands (tile_roles.c). NULL: nothing is left out.
const BodyWindows *wgmma_skips(const Body *b);
uint32_t wgmma_live(const Body *b, int64_t across);
int64_t wgmma_live_steps(const Body *b, int64_t across);
// Tiles that a cluster takes one by one: its blocks' below each other count as one.
int64_t wgmma_tiles(const Body *b);

// -- tile/attention_groups.c: attention by groups of warps
const struct TileAtom *attention_groups_atom(const Body *b);
void attention_groups_derive(Body *b, const Target *t);
bool attention_groups_plan(Body *b, const Target *t); // false: mma.sync takes it
// Tiles whose columns the second cache holds at once are taken before others: so many heads.
int64_t attention_section(const Body *b);
// The matrices of a factor, one a plane, and the planes' numbers.
typedef struct GroupFactor {
    bool fits; // bulk copies can read it
    ProgMap map;
    const Ix *plane[2];
} GroupFactor;
GroupFactor group_factor(const Body *b, int inst, int axis, int head);

#endif
