// Declarations shared by the files about products by groups of four warps (warpgroups, wgmma).
#ifndef CODEGEN_WGMMA_H
#define CODEGEN_WGMMA_H

#include "codegen/ir/body.h"

// STEP: columns (k) of a place of the ring; LINE: bytes of its rows. BOX: rows of STEP results that
// a warp writes at a time. GROUPS: warpgroups that multiply. ATOM_ROWS: rows (m) of an instruction.
// MOST_ADDED: columns of a tile for whose sums a warp has registers. ROW_SUMS: how many sums over
// rows can be added up at most while results are stored by rows (wgmma_by_rows).
enum { STEP = 64, LINE = STEP * 2, BOX = 16, GROUPS = 2, ATOM_ROWS = 64 };
enum { MOST_ADDED = 128, ROW_SUMS = 4 };

// -- wgmma_maps.c: the operands as tensor maps for bulk copies, without the sizes of boxes that the
// schedule determines
typedef struct GroupOperand {
    bool fits;    // bulk copies can read it
    bool along_k; // its rows are contiguous along k
    ProgMap map;  // a matrix, or windows in images (im2col)
} GroupOperand;
GroupOperand group_operand(const Body *b, int axis); // 1: left, 2: right
// Gives the map of a result that is staged in shared memory in boxes and stored from there. false:
// this result is not.
bool group_result(const Body *b, uint32_t store, ProgMap *m);
bool group_boxed(const Body *b, uint32_t store); // whether it is
// The rows of a tile are every [group_apart]th row of the result: those of one map (ProgMap.apart).
int group_apart(const Body *b);
// The left operand's rows need not be aligned: copies begin up to seven elements before them.
bool group_uneven(const Body *b);

bool group_has_windows(const Body *b); // an operand consists of windows in images

// What follows from the schedule.
int wgmma_grain(const Body *b);  // tile widths are multiples of it
bool wgmma_has_atom(int n);      // groups.c: there is an instruction of that width
int wgmma_staged(const Body *b); // results that pass through shared memory: those with a map
int wgmma_stages(const Body *b); // how many times over a warp has room for them
// Other tensors are read along with the sums: the sums of a part of the results go through shared
// memory, so that a thread has eight neighbours of a row and loads 16 bytes of each tensor.
bool wgmma_by_rows(const Body *b);
int wgmma_ahead(const Body *b);      // parts for whose loads registers have room in advance
int wgmma_parts(const Body *b);      // number of parts of a group's results
int wgmma_part_bytes(const Body *b); // shared memory for a part of the results of every warp
int wgmma_registers(const Body *b);  // of a thread that multiplies
// Whether warps keep the body's sums over rows in registers from tile to tile: the sums of one
// result that passes through shared memory (wgmma_added: the number of its store), or, if results
// are stored by rows, up to ROW_SUMS sums of any values.
bool wgmma_adds_columns(const Body *b);
bool wgmma_may_add_columns(const Body *b);           // the schedule allows it, registers have room
int wgmma_added(const Body *b);                      // -1: none
int wgmma_joint_bytes(const Body *b);                // shared memory for the sums of all warps
static inline bool wgmma_together(const Schedule *s) // the groups divide a tile's rows
{
    return s->tile.wgmma == WGMMA_SHARED || s->tile.wgmma == WGMMA_SPLIT ||
           s->tile.wgmma == WGMMA_SHARED_STRIPS;
}
static inline bool wgmma_shares(const Schedule *s) // blocks or groups divide k
{
    return s->tile.wgmma == WGMMA_SPLIT || s->tile.wgmma == WGMMA_STEPS;
}
// Strips of the left operand (NULL: not with this schedule); its rows in a place of the ring;
// whether the whole right operand stays in shared memory, next to the ring.
const BodyStrips *wgmma_strips(const Body *b);
int wgmma_strip_rows(const Body *b);
bool wgmma_stays(const Body *b);
// Strips of the right operand, along k: the windows' pixels of one line, which are side by side in
// a tile. group_right_strips gives the map of the left operand, whose positions then follow the
// same order as the strips'; false: there are none.
bool group_right_strips(const Body *b, ProgMap *left);
const BodyStrips *wgmma_right_strips(const Body *b);
int wgmma_right_rows(const Body *b); // its rows in a place of the ring
int64_t wgmma_rows(const Body *b);   // rows of all tiles, with the positions that are no results
int wgmma_tile_bytes(const Body *b, int axis); // of an operand's tile, or of all of it
int wgmma_place_apart(const Body *b);          // bytes from one place to the next
int wgmma_right_offset(const Body *b);         // bytes from a place to its right operand
int wgmma_sharing(const Schedule *s);          // number of blocks of a cluster that divide k
// Columns (n) of the right operand's tile that are copied: whole boxes if it is not along k.
int wgmma_wide(const Body *b);
int wgmma_pitch(const Schedule *s); // of rows of sums in shared memory, when k is divided
// Steps of a block along k, each a place of the ring. Groups that divide them have the same number
// of steps each; beyond the end of the matrices operands are zero.
int64_t wgmma_steps(const Body *b);
// The steps of 64 channels that a tile takes of each pixel if weights are zeros between groups:
// those of the groups of its columns, which begin at a multiple of 64. 0: all steps.
int64_t wgmma_chunks(const Body *b);
// The windows whose zero steps are skipped (BodyWindows.live), or NULL. Different tiles skip
// different steps, so blocks take their tiles in bands (tile_roles.c). For tile number [across] of
// a row of tiles: the steps that it takes, as bits for [live_run] columns each, and their number.
const BodyWindows *wgmma_skips(const Body *b);
uint32_t wgmma_live(const Body *b, int64_t across);
int64_t wgmma_live_steps(const Body *b, int64_t across);
// The number of tiles, where those of a cluster's blocks, one below the other, count as one.
int64_t wgmma_tiles(const Body *b);

// -- tile/attention_groups.c: attention by groups of four warps
const struct TileAtom *attention_groups_atom(const Body *b);
void attention_groups_derive(Body *b, const Target *t);
bool attention_groups_plan(Body *b, const Target *t); // false: it is computed by mma.sync
// How many heads the L2 cache holds at once; all their tiles come before those of other heads.
int64_t attention_section(const Body *b);
// The matrices of a factor, one per plane, and the indices of the plane.
typedef struct GroupFactor {
    bool fits; // bulk copies can read it
    ProgMap map;
    const Ix *plane[2];
} GroupFactor;
GroupFactor group_factor(const Body *b, int inst, int axis, int head);

#endif
