// Tile programs: what the threads of a block do with whole tiles, an IR between a body and its
// text.
//
// A builder (product.c) says what is loaded, multiplied and stored, and in which loop, without any
// barrier. tile_pipeline turns a loop that wants its loads some iterations ahead into a prologue
// and a loop that loads for later iterations. tile_synchronise finds the dependences and inserts
// barriers and waits. tile_verify runs the result with threads in a random order and reports races.
// The printers (codegen/cuda) make CUDA C of it, text.c text for people.
//
// A program may have roles (warp specialisation): warps of a block that run op lists of their own
// (groups.c). They share a ring of tiles in shared memory, which bulk copies fill and groups of
// four warps multiply from, both asynchronously: mbarriers guard each place of the ring
// (sync_roles.c).
#ifndef CODEGEN_TILE_TILE_H
#define CODEGEN_TILE_TILE_H

#include "codegen/ir/body.h"

// A row for each way to multiply two tiles: what a warp does in one instruction (or three).
typedef struct TileAtom {
    const char *name;
    DType operand;        // as it lies in shared memory
    int tensor;           // TENSOR_*: of f32
    int m, n, k;          // of one
    const char *word;     // of the prelude's functions: nc_left_WORD, nc_right_WORD
    const char *multiply; // ... and the one that multiplies
    const char *pack;     // floats to elements; NULL: they are
} TileAtom;

typedef enum TileLayout {
    L_SUMS,    // registers: results of atoms
    L_TOTALS,  // registers: sums of columns of results, of all tiles
    L_VECTORS, // registers: 16 bytes of an operand each, as they go to shared memory
    L_RESULTS, // registers: what results need besides the sums
    L_OPERAND, // registers: an operand of a warp, straight from memory
    L_SCORES,  // registers: results of atoms, made anew in each iteration
    L_WEIGHTS, // registers: what a map makes of them, the next product's left operand
    L_PAD,     // shared: lines with room for a vector between them
    L_ACROSS,  // shared: likewise, a line a column: neighbours are the operand's rows
    L_SWIZZLE, // shared: lines whose vectors change places
    L_ROWS,    // shared: rows of sums; all blocks of a cluster read them
    L_JOINT,   // shared: totals of all warps, which the block joins
    L_BULK,    // shared: lines of 128 bytes, their vectors swizzled by the line, for bulk copies
} TileLayout;

typedef struct Tile {
    const char *name;
    TileLayout layout;
    DType type;
    int lines, line, pitch; // line: elements that lie side by side; pitch: from line to line
    int places;             // so many of them: a ring
    int offset, bytes;      // shared: where in the block's memory; of one place
    int apart;              // bytes from place to place; 0: as many as it has
    bool of_warp;           // shared: each warp has its own part
    // An operand: the body's value (as it lies in memory), its axis (1: m, 2: n).
    int inst, axis;
    bool along_k;  // a line goes along the columns
    bool plain;    // aligned vectors of a buffer
    bool of_group; // ... of which each group of the role multiplies its own lines
    bool peers;    // ... of which each block of the cluster copies a share, to all of them
    bool windows;  // ... of windows in images, as copies see them
    int head;      // attention: the axis along which its lines lie; 0: not attention's
    bool stays;    // it is loaded once, for all iterations
} Tile;

typedef enum TileKind {
    T_FILL, // dst = 0
    T_LOAD, // dst = an operand, or what results need
    T_MOVE, // dst = a: registers to shared memory
    T_MMA,  // dst += a b
    T_MAP,  // stores what the body makes of the sums in a; of scores: makes weights of a (and b)
    T_LOOP, // up to its T_END
    T_END,
    // Of programs with roles:
    T_ROLE,   // the ops from here on are those of role number [role]; ALL_ROLES: of every thread
    T_AGAIN,  // up to its T_END; and once more with all columns, where some thread was in doubt
    T_TILES,  // loop over the tiles of the result that a block takes, up to its T_END
    T_CLEAR,  // what stands before the rows of dst is 0
    T_REDUCE, // dst = sums of the rows of a; totals: added to what it has
    T_STORE,  // results in a to memory
    T_SHRINK, // dst, results so far, times what the map of scores found to be left of them
    T_JUDGE,  // doubt whether what the mask leaves out counts for no row of the tile
    // These only come from tile_synchronise:
    T_COMMIT,  // what a thread has begun since the last one, of that [how], is a group
    T_WAIT,    // all of a thread's groups but the last [count] are done
    T_BARRIER, // the threads of [scope] wait for each other
    // ... of programs with roles:
    T_READY,    // mbarriers are set up
    T_AWAIT,    // until the phase of mbarrier [bar] has ended that is [count] rounds back
    T_ANNOUNCE, // arrives there, and so do the bytes of its tiles, in time
    T_ARRIVE,   // a thread of each warp, at the blocks of the cluster that fill its tiles
    T_FENCE,    // what threads have written to shared memory is there for what is asynchronous
    T_BEGIN,    // products may write registers that threads have used
    T_TURN,     // a group waits until the one before it passes the turn on
    T_PASS,
} TileKind;

// Computed into registers; copied by threads, by the copy engine; multiplied by groups of warps.
typedef enum TileHow { BY_BODY, BY_ASYNC, BY_BULK, BY_TENSOR } TileHow;
// LEAVE: the blocks of a cluster, which have used what they read of each other. GROUP: the warps
// that multiply together.
// ROLE: all groups that multiply.
typedef enum TileScope { OF_WARP, OF_BLOCK, OF_CLUSTER, TO_LEAVE, OF_GROUP, OF_ROLE } TileScope;
typedef enum TileWhen { EACH_TIME, THE_FIRST, THE_LAST } TileWhen; // of a loop's iterations

typedef struct TileOp {
    TileKind kind;
    TileHow how;
    int dst, a, b; // tiles; NO_TILE: none
    // It is about the iteration so many behind the loop's; where the loop has none it is left out.
    // (Of a ring behind its loop: about the place so many behind the next one.)
    int shift;
    TileWhen when;
    int64_t trips; // LOOP
    int ahead;     // LOOP: iterations that its loads are ahead; 0 once that is done (tile_pipeline)
    bool rolled;   // LOOP: it begins so many early, and only loads then: no loads before it
    int early;     // LOOP, once that is done: iterations before the first; -1: but the first
    int together; // LOOP: loads of so many iterations come before the moves of these; 0: as written
    int count;    // WAIT, AWAIT; TILES: a block, or cluster, takes every so manieth
    TileScope scope;
    // BARRIER, AWAIT: tiles that are there behind it; that may be overwritten
    uint32_t filled, freed;
    int role, bar;
} TileOp;

enum { TILE_MOST_TILES = 12, TILE_MOST_OPS = 96, TILE_MOST_PLACES = 16, TILE_MOST_BARS = 8 };
enum { ALL_ROLES = -1, GROUP_WARPS = 4 };

// Warps of a block, side by side. Registers are given and taken by groups of four warps.
typedef struct TileRole {
    const char *name;
    int first, warps, registers;
    bool thread; // one thread of them
    int groups;  // that multiply
    bool turns;  // each takes the next tile; else they share a tile
    bool steps;  // ... of which each takes every [groups]th step, else its rows
} TileRole;

// An mbarrier for each place of a ring: a phase ends when so many have arrived, and the bytes that
// have been announced.
typedef struct TileBar {
    const char *name;
    uint32_t tiles;
    int places, arrivals, bytes;
    bool of_cluster; // as many arrive from each of its blocks
    bool by_tile;    // a phase for each tile of the result instead of each step
    bool once;       // one phase in all
} TileBar;

typedef struct TileProgram {
    const Body *body;
    const TileAtom *atom;
    Tile tile[TILE_MOST_TILES];
    int ntiles;
    TileOp op[TILE_MOST_OPS];
    int nops;
    int warps_m, warps_n, warps_k; // that share out the results, and the columns of a place
    int side_m, side_n;            // results of a warp
    int cluster;                   // blocks that share the columns, or copy for each other
    bool split;                    // with roles: they share the columns
    int64_t steps;                 // iterations over the columns
    DType type;                    // of operands in shared memory
    int each;   // atom fma: sums of a thread along either side; 0: eight warps share the columns
    int vector; // elements of 16 bytes
    TileRole role[3];
    int nroles;  // 0: all threads do the same
    bool varies; // the steps of a tile, one or more, differ from tile to tile
    bool skips;  // likewise, of products: those that add nothing are left out
    bool tight;  // scores take the registers of weights, once these are multiplied
    TileBar bar[TILE_MOST_BARS];
    int nbars;
    int shared; // bytes, of a program with roles
    // Attention: the tiles of its products.
    struct {
        int rows, cols, tile;
    } score[MOST_PRODUCTS];
    struct {
        int weights, values, tile;
    } out[MOST_PRODUCTS];
} TileProgram;

enum { NO_TILE = -1 };
// -- build.c: what a program has is added one by one, ops behind those there are
int tile_add(TileProgram *p, Tile t); // its number
void tile_op(TileProgram *p, TileOp op);
// What they return may be given more, until the next one is added.
TileOp *tile_do(TileProgram *p, TileKind kind, int dst, int a); // any op of two tiles, or none
TileOp *tile_load(TileProgram *p, TileHow how, int dst);
TileOp *tile_mma(TileProgram *p, TileHow how, int dst, int a, int b);
TileOp *tile_begin(TileProgram *p, TileKind kind, int64_t trips); // T_LOOP, T_TILES
void tile_end(TileProgram *p);                                    // of what was begun last
void tile_role(TileProgram *p, int role);                         // whose ops follow
int tile_end_of(const TileProgram *p, int i);                     // the T_END of what begins there
bool tile_has(const TileProgram *p, int from, int to, TileKind kind); // some op before [to] is one

// -- product.c
const TileAtom *tile_atom(const Body *b); // NULL: none takes its operands
// Instruction [inst] loads aligned vectors of a buffer of [type], [width] elements along axis
// [inner], each of which is there or, as zeros, not.
bool tile_copies(const Body *b, int inst, DType type, int inner, int width);
// The program of a contraction in tiles, without synchronisation.
void tile_product(const Body *b, TileProgram *p);
// -- warps.c: that of warp tiles
void tile_warps(const Body *b, TileProgram *p);
// A chunk is what a warp multiplies at once: 16 columns of f32, 32 of 16-bit floats, of which each
// thread has 16 neighbouring bytes.
bool warp_narrow(const Body *b);        // operands are 16-bit floats
int warp_columns(const Body *b);        // of a chunk, that a thread has
int warp_rows(const Body *b, int axis); // of an operand, that a thread has
int warp_sharing(const Body *b);        // warps that share a tile
int64_t warp_all_chunks(const Body *b); // that a warp multiplies in all
int warp_chunks(const Body *b);         // in flight: as many as registers have room for
// -- groups.c: that of groups of four warps
void tile_groups(const Body *b, TileProgram *p);

int mma_shared_bytes(const Body *b); // that the schedule's tiles need

// Products of f32 through a ring of tiles to tensor cores: of a block; results of a warp, along
// either axis.
enum { STAGED_WARPS = 8, STAGED_SIDE = 32 };
int staged_sharing(const Schedule *s); // warps that share the columns of one place in the tile
int staged_pitch(const Body *b);       // elements between rows of sums in shared memory

// -- attention.c: the program of Body.attention, without synchronisation
void tile_attention(const Body *b, TileProgram *p);
void plan_attention(const Target *t, Body *b);
void attention_derive(Body *b, const Target *t);
void attention_tiles(const Body *b, TileProgram *p); // its tiles, without ops
// -- attention_groups.c: that of groups of four warps
void tile_attention_groups(const Body *b, TileProgram *p);
bool attention_groups_fit(const Body *b, const Target *t);
void attention_groups_maps(const Body *b, ProgKernel *k); // the launch's maps

// -- attention_range.c: of a row only the columns count for which row * [row] + col * [col] +
// [constant] + [sign] * [shift] >= 0, for all of these bounds
enum { ATTENTION_BOUNDS = 8 };
typedef struct AttentionBound {
    int64_t row, col; // col: 1 or -1
    int64_t constant;
    int shift, sign; // a whole number of the batch that only the run knows (a length); -1: none
    const Ix *batch; // and [side] times an index along the batch; NULL: none
    int side;
    int inst; // the comparison that says so
    bool holds;
} AttentionBound;
typedef struct AttentionRange {
    AttentionBound at[ATTENTION_BOUNDS];
    int n;
    // What others have for a score: minus infinity, or a number so low that exp of it is 0 below
    // any usual score; statistic: the value of the row that scores are taken from in there.
    double mask;
    int statistic;
    // Of a number for a mask: queries that see nothing, and so all of it, are among these.
    int64_t blind, blind_end;
} AttentionRange;
AttentionRange attention_range(const Body *b);
// How many columns it leaves to the tile of rows from [origin] on, shifts taken as 0.
int64_t attention_columns_at(const Body *b, const AttentionRange *r, int64_t origin);

// -- pipeline.c, sync.c, sync_roles.c
void tile_pipeline(TileProgram *p);
void tile_synchronise(TileProgram *p);
void tile_synchronise_roles(TileProgram *p);  // ... of programs with roles
void tile_synchronise_scores(TileProgram *p); // sync_scores.c: ... whose steps vary: attention
// Ready to be printed: tile_product, tile_groups or tile_attention, and these.
TileProgram tile_program(const Body *b);
static inline bool tile_made(const Schedule *s) // the body's text is made of one
{
    return s->kind == SCHED_ATTENTION || s->kind == SCHED_TILE;
}
static inline bool tile_begins(const TileOp *op) // what a T_END ends
{
    return op->kind == T_LOOP || op->kind == T_TILES || op->kind == T_AGAIN;
}
static inline bool tile_shared(const Tile *t)
{
    return t->layout >= L_PAD;
}
// The place of its ring that an iteration has.
static inline int tile_place(const Tile *t, int64_t iteration)
{
    return (int)(iteration % t->places);
}
// As many iterations as show what those of a loop do: the rings are passed so often, and the last
// iteration has the places that it has of all of them.
static inline int64_t tile_iterations(const TileProgram *p, int64_t trips, int rounds)
{
    int64_t places = 1;
    for (int t = 0; t < p->ntiles; t++)
        if (tile_shared(&p->tile[t]) && places % p->tile[t].places) places *= p->tile[t].places;
    int64_t left = trips % places + rounds * places;
    return at_most(trips, left);
}
// Whether places of two tiles share memory.
static inline bool tile_overlaps(const Tile *a, int at, const Tile *b, int other)
{
    int first = a->offset + at * (a->apart ? a->apart : a->bytes);
    int second = b->offset + other * (b->apart ? b->apart : b->bytes);
    return first < second + b->bytes && second < first + a->bytes;
}

// -- verify.c: what is wrong with the program, as text; NULL: nothing. [seed]: of the threads' order.
const char *tile_verify(Arena *a, const TileProgram *p, uint64_t seed);
// verify_roles.c: ... of one with roles
const char *tile_verify_roles(Arena *a, const TileProgram *p, uint64_t seed);

// -- text.c
void tile_text(const TileProgram *p, Buf *out);

#endif
