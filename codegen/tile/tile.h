// Tile programs: lists of operations on whole tiles, an IR between a body and its text.
//
// A builder (such as product.c) states what is loaded, multiplied and stored, and in which loop,
// without barriers. tile_pipeline transforms a loop that is marked to load some iterations ahead
// into a prologue and a loop that loads for later iterations. tile_synchronise finds the
// dependences and inserts barriers and waits. tile_verify simulates the result with threads in a
// random order and reports races. The printers (codegen/cuda) print it as CUDA C, text.c as text
// for people.
//
// A program may have roles (warp specialisation): then different warps of a block run different
// lists of ops (groups.c). The roles share a ring of tiles in shared memory. Bulk copies fill it,
// and groups of four warps (warpgroups) multiply from it, both asynchronously; mbarriers guard each
// place of the ring (sync_roles.c).
#ifndef CODEGEN_TILE_TILE_H
#define CODEGEN_TILE_TILE_H

#include "codegen/ir/body.h"

// A way to multiply two tiles: what a warp or warpgroup does with one instruction (with three for
// f32 as three tf32).
typedef struct TileAtom {
    const char *name;
    DType operand;        // type of the operands in shared memory
    int tensor;           // TENSOR_*: how f32 operands are multiplied
    int m, n, k;          // shape of one multiplication
    const char *word;     // suffix of the prelude's functions nc_left_WORD, nc_right_WORD
    const char *multiply; // the prelude's function that multiplies, or its suffix
    const char *pack;     // the function that converts floats to operands; NULL: not needed
} TileAtom;

typedef enum TileLayout {
    L_SUMS,    // registers: results of atoms, accumulated
    L_TOTALS,  // registers: sums over the rows of all tiles, by columns of the result
    L_VECTORS, // registers: vectors of 16 bytes of an operand, on their way to shared memory
    L_RESULTS, // registers: the values that results need besides the sums
    L_OPERAND, // registers: an operand of a warp, loaded straight from device memory
    L_SCORES,  // registers: results of atoms, computed anew in each iteration
    L_WEIGHTS, // registers: computed from the scores by a map; left operand of the next product
    L_PAD,     // shared: lines with padding of one vector between them
    L_ACROSS,  // shared: likewise, with a line for each column (k)
    L_SWIZZLE, // shared: lines with swizzled vectors
    L_ROWS,    // shared: rows of sums; in a cluster all blocks read them
    L_JOINT,   // shared: the totals of all warps, which the block adds
    L_BULK,    // shared: lines of 128 bytes, their vectors swizzled by the line, for bulk copies
} TileLayout;

typedef struct Tile {
    const char *name;
    TileLayout layout;
    DType type;
    int lines, line, pitch; // line: contiguous elements; pitch: elements from line to line
    int places;             // number of copies of the tile (a ring)
    int offset, bytes;      // shared: offset in the block's memory; bytes of one place
    int apart;              // bytes from one place to the next; 0: the same as `bytes`
    bool of_warp;           // shared: each warp has its own part
    // Operands only: the instruction of its value as stored in memory, and the axis (1: m, 2: n).
    int inst, axis;
    bool along_k;  // lines are along k, the contracted axis
    bool plain;    // loaded by aligned vectors of a buffer
    bool of_group; // each group of the role multiplies its own lines
    bool peers;    // each block of the cluster copies a share of it to all blocks
    bool windows;  // windows in images, copied by im2col maps
    int head;      // attention: the axis of its lines (a head dimension); otherwise 0
    bool stays;    // it is loaded once, for all iterations
} Tile;

typedef enum TileKind {
    T_FILL, // dst = 0
    T_LOAD, // dst = an operand, or the values that results need besides the sums
    T_MOVE, // dst = a: registers to shared memory (weights: to registers)
    T_MMA,  // dst += a b
    T_MAP,  // computes and stores the results from the sums in a; scores: weights from a (and b)
    T_LOOP, // a loop up to its T_END
    T_END,
    // Of programs with roles:
    T_ROLE,   // begins the op list of role number [role]; ALL_ROLES: of every thread
    T_AGAIN,  // runs the ops up to its T_END, and again with all columns if some thread doubted
    T_TILES,  // loop over the tiles of the result that a block computes, up to its T_END
    T_CLEAR,  // clears the elements before the rows of dst
    T_REDUCE, // dst = sums over the rows of a; totals: these are added to dst
    T_STORE,  // stores the results in a to device memory
    T_SHRINK, // scales dst, the results so far, by the factor that the map of scores computed
    T_JUDGE,  // tests whether masked scores might contribute to a row of the tile (doubt)
    // Inserted by tile_synchronise only:
    T_COMMIT,  // the thread's operations of kind [how] since its last commit become a group
    T_WAIT,    // waits until at most [count] of the thread's groups are pending
    T_BARRIER, // the threads of [scope] wait for each other
    // ... in programs with roles:
    T_READY,    // initialises the mbarriers
    T_AWAIT,    // waits for the end of mbarrier [bar]'s phase, or of the phase [count] before it
    T_ANNOUNCE, // arrives at [bar] and announces the bytes that will be copied to its tiles
    T_ARRIVE,   // one thread of each warp arrives at [bar]; OF_CLUSTER: of all blocks
    T_FENCE,    // makes the threads' writes to shared memory visible to asynchronous accesses
    T_BEGIN,    // wgmma.fence: products may write registers that threads have used
    T_TURN,     // a group waits for its turn, which the group of the tile before passes on
    T_PASS,     // passes the turn on
} TileKind;

// By the body's code; cp.async of threads; bulk copies; wgmma of warpgroups.
typedef enum TileHow { BY_BODY, BY_ASYNC, BY_BULK, BY_TENSOR } TileHow;
// TO_LEAVE: a barrier of the cluster before blocks end, because others may still read their shared
// memory. OF_GROUP: the four warps of a warpgroup. OF_ROLE: all warpgroups that multiply.
typedef enum TileScope { OF_WARP, OF_BLOCK, OF_CLUSTER, TO_LEAVE, OF_GROUP, OF_ROLE } TileScope;
// In which iterations of its loop an op is executed.
typedef enum TileWhen { EACH_TIME, THE_FIRST, THE_LAST } TileWhen;

typedef struct TileOp {
    TileKind kind;
    TileHow how;
    int dst, a, b; // tiles; NO_TILE: none
    // The op belongs to iteration i + shift, where i is the loop's iteration; it is left out if
    // the loop has no such iteration. (After a loop over a ring: to the ring's next place + shift.)
    int shift;
    TileWhen when;
    int64_t trips; // LOOP: number of iterations
    int ahead;     // LOOP: how many iterations ahead to load; tile_pipeline does that and clears it
    bool rolled;   // LOOP: to load ahead it starts [ahead] iterations early, without a prologue
    int early;     // LOOP: it starts at iteration -early; -1: it leaves out the first one
    int together;  // LOOP: this many iterations are loaded, then moved; 0: in the order of the ops
    int count;     // WAIT, AWAIT: see there; TILES: stride, the number of blocks or clusters
    TileScope scope;
    // BARRIER, AWAIT: tiles that have been filled after it, and tiles that may be overwritten
    uint32_t filled, freed;
    int role, bar;
} TileOp;

enum { TILE_MOST_TILES = 12, TILE_MOST_OPS = 96, TILE_MOST_PLACES = 16, TILE_MOST_BARS = 8 };
enum { ALL_ROLES = -1, GROUP_WARPS = 4 };

// Consecutive warps of a block. Registers (per thread) are reallocated between groups of four warps
// (setmaxnreg).
typedef struct TileRole {
    const char *name;
    int first, warps, registers;
    bool thread; // only one thread of them is active
    int groups;  // number of warpgroups that multiply
    bool turns;  // the groups compute different tiles in turn; otherwise they share each tile
    bool steps;  // groups that share a tile divide its steps (every [groups]th); otherwise its rows
} TileRole;

// An mbarrier for each place of a ring. A phase ends when [arrivals] arrivals have been made and
// all announced bytes have arrived.
typedef struct TileBar {
    const char *name;
    uint32_t tiles;
    int places, arrivals, bytes;
    bool of_cluster; // arrivals come equally from all blocks of the cluster
    bool by_tile;    // one phase per tile of the result, not per step
    bool once;       // there is only one phase
} TileBar;

typedef struct TileProgram {
    const Body *body;
    const TileAtom *atom;
    Tile tile[TILE_MOST_TILES];
    int ntiles;
    TileOp op[TILE_MOST_OPS];
    int nops;
    int warps_m, warps_n, warps_k; // how warps, or groups, divide a tile along m, n and k
    int side_m, side_n;            // results of a warp, or group
    int cluster;                   // blocks that divide k, or copy for each other
    bool split;                    // with roles: blocks or groups divide k
    int64_t steps;                 // iterations over k
    DType type;                    // of operands in shared memory
    int each;   // atom fma: a thread has each x each sums; 0: the warps of the block divide k
    int vector; // elements per vector: operands'; with roles, those that results are stored by
    TileRole role[3];
    int nroles;  // 0: all threads run the same ops
    bool varies; // attention: the number of steps (at least one) differs between tiles
    bool skips;  // products: likewise, because steps with zero operands are skipped
    bool tight;  // scores reuse the registers of weights after these have been multiplied
    TileBar bar[TILE_MOST_BARS];
    int nbars;
    int shared; // bytes of shared memory, of a program with roles
    // Attention: the tiles of its products.
    struct {
        int rows, cols, tile;
    } score[MOST_PRODUCTS];
    struct {
        int weights, values, tile;
    } out[MOST_PRODUCTS];
} TileProgram;

enum { NO_TILE = -1 };
// -- build.c: tiles and ops are appended to a program
int tile_add(TileProgram *p, Tile t); // returns its number
int tile_registers(TileProgram *p, const char *name, TileLayout layout, DType type, int lines,
                   int line);
// A tile of rows in shared memory, in one place at offset 0.
Tile tile_rows(const char *name, TileLayout layout, DType type, int lines, int line, int pitch);
int tile_memory(const TileProgram *p); // bytes of the tiles in shared memory, one after the other
void tile_op(TileProgram *p, TileOp op);
// The caller may set more fields of the returned op until it adds the next one.
TileOp *tile_do(TileProgram *p, TileKind kind, int dst, int a); // any op with at most two tiles
TileOp *tile_load(TileProgram *p, TileHow how, int dst);
TileOp *tile_mma(TileProgram *p, TileHow how, int dst, int a, int b);
TileOp *tile_begin(TileProgram *p, TileKind kind, int64_t trips); // T_LOOP, T_TILES, T_AGAIN
void tile_end(TileProgram *p);                                    // of the innermost open loop
void tile_role(TileProgram *p, int role);                         // begins that role's ops
int tile_end_of(const TileProgram *p, int i);                     // the T_END of the loop at op i
int tile_next_role(const TileProgram *p, int i);                  // from op i on; nops: none
bool tile_has(const TileProgram *p, int from, int to, TileKind kind); // an op in [from, to)

// -- product.c
const TileAtom *tile_atom(const Body *b); // NULL: none takes its operands
// Whether instruction [inst] loads from a buffer of [type] aligned vectors of [width] elements
// along axis [inner], each either loaded as a whole or, by a predicate, zero as a whole.
bool tile_copies(const Body *b, int inst, DType type, int inner, int width);
// The program of a contraction in tiles, without synchronisation.
void tile_product(const Body *b, TileProgram *p);
// -- warps.c: the program of a contraction with a tile per warp
void tile_warps(const Body *b, TileProgram *p);
// A chunk is what a warp multiplies at once: 16 columns (k) of f32, 32 of 16-bit floats. Each
// thread has 16 contiguous bytes of it.
bool warp_narrow(const Body *b);        // operands are 16-bit floats
int warp_columns(const Body *b);        // columns of a chunk in a thread
int warp_rows(const Body *b, int axis); // rows of an operand in a thread
int warp_sharing(const Body *b);        // number of warps that share a tile
int64_t warp_all_chunks(const Body *b); // number of chunks that a warp multiplies
int warp_chunks(const Body *b);         // number loaded at a time: as registers allow
// -- groups.c: the program of a contraction by groups of four warps
void tile_groups(const Body *b, TileProgram *p);

int mma_shared_bytes(const Body *b); // shared memory that the schedule's tiles need

// f32 products on tensor cores through a ring of tiles: warps of a block, and the results of a warp
// along m and along n.
enum { STAGED_WARPS = 8, STAGED_SIDE = 32 };
int staged_sharing(const Schedule *s); // warps that divide the columns (k) of a place
int staged_pitch(const Body *b);       // elements between rows of sums in shared memory

// -- attention.c: the program of Body.attention, without synchronisation
void tile_attention(const Body *b, TileProgram *p);
void plan_attention(const Target *t, Body *b);
void attention_derive(Body *b, const Target *t);
void attention_tiles(const Body *b, TileProgram *p); // its tiles, without ops
// Loads the tiles that stay, or those that pass through rings.
void attention_load(TileProgram *p, TileHow how, bool stays);
// -- attention_groups.c: the same by groups of four warps
void tile_attention_groups(const Body *b, TileProgram *p);
bool attention_groups_fit(const Body *b, const Target *t);
void attention_groups_maps(const Body *b, ProgKernel *k); // the tensor maps of the launch

// -- attention_range.c: a row needs only the columns that satisfy all bounds:
// row * [row] + col * [col] + [constant] + [sign] * [shift] + [side] * [batch] >= 0
enum { ATTENTION_BOUNDS = 8 };
typedef struct AttentionBound {
    int64_t row, col; // col: 1 or -1
    int64_t constant;
    int shift, sign; // instruction of an integer known only at run time (a length); -1: none
    const Ix *batch; // an index over the batch axis; NULL: none
    int side;
    int inst;                     // the comparison that this bound follows from
    bool holds;                   // ... if it is true; otherwise, if it is false
    int first_shift, first_batch; // the first bound with the same integer, with the same index
} AttentionBound;
typedef struct AttentionRange {
    AttentionBound at[ATTENTION_BOUNDS];
    int n;
    // The score of masked columns: minus infinity, or a number so low that its exp is 0 relative
    // to any usual score. statistic: the instruction that is subtracted from scores before exp.
    double mask;
    int statistic;
    // If the mask is a number: [blind, blind_end) contains all queries whose keys are all masked,
    // which therefore attend to all keys.
    int64_t blind, blind_end;
} AttentionRange;
AttentionRange attention_range(const Body *b);
// How many columns the bounds leave to the tile of rows that starts at [origin], without the terms
// known only at run time (shift, batch).
int64_t attention_columns_at(const Body *b, const AttentionRange *r, int64_t origin);

// -- pipeline.c, sync.c, sync_roles.c
void tile_pipeline(TileProgram *p);
int tile_vectors(const TileProgram *p, const Tile *t); // of an operand's tile that a thread loads
void tile_synchronise(TileProgram *p);
void tile_synchronise_roles(TileProgram *p);  // programs with roles
void tile_synchronise_scores(TileProgram *p); // sync_scores.c: attention with roles
// Builds, pipelines and synchronises the program of a body: ready to be printed.
TileProgram tile_program(const Body *b);
static inline bool tile_made(const Schedule *s) // whether the body is printed from a tile program
{
    return s->kind == SCHED_ATTENTION || s->kind == SCHED_TILE;
}
static inline bool tile_begins(const TileOp *op) // whether a T_END belongs to it
{
    return op->kind == T_LOOP || op->kind == T_TILES || op->kind == T_AGAIN;
}
static inline bool tile_shared(const Tile *t)
{
    return t->layout >= L_PAD;
}
// The place of the tile's ring that an iteration uses.
static inline int tile_place(const Tile *t, int64_t iteration)
{
    return (int)(iteration % t->places);
}
// A number of iterations that suffices to simulate a loop: the rings are used [rounds] times or
// more, and the last iteration uses the same places as in the whole loop.
static inline int64_t tile_iterations(const TileProgram *p, int64_t trips, int rounds)
{
    int64_t places = 1;
    for (int t = 0; t < p->ntiles; t++)
        if (tile_shared(&p->tile[t]) && places % p->tile[t].places) places *= p->tile[t].places;
    int64_t left = trips % places + rounds * places;
    return at_most(trips, left);
}
// Whether place [at] of a and place [other] of b overlap in shared memory.
static inline bool tile_overlaps(const Tile *a, int at, const Tile *b, int other)
{
    int first = a->offset + at * (a->apart ? a->apart : a->bytes);
    int second = b->offset + other * (b->apart ? b->apart : b->bytes);
    return first < second + b->bytes && second < first + a->bytes;
}

// -- verify.c: what is wrong with the program, as text, or NULL. [seed]: of the order of threads.
const char *tile_verify(Arena *a, const TileProgram *p, uint64_t seed);

// -- text.c
void tile_text(const TileProgram *p, Buf *out);

#endif
