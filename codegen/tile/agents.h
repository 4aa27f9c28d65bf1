// Who runs a tile program with roles while it is verified: threads, which know of each other what
// barriers told them, and what shared memory holds. verify_effects.c says what an op does to it,
// verify_roles.c who goes on and when.
#ifndef CODEGEN_TILE_AGENTS_H
#define CODEGEN_TILE_AGENTS_H

#include "codegen/tile/tile.h"

enum { LANES = 2, BLOCKS = 2, BLOCK_AGENTS = 28, AGENTS = BLOCKS * BLOCK_AGENTS };
enum { MOST_PENDING = 64, MOST_GROUPS = 3, NOTHING = -1, STEP = 64 };
// What is known: of each agent a time, of each mbarrier how many of its phases have ended.
enum { CLOCKS = AGENTS + BLOCKS * TILE_MOST_BARS * TILE_MOST_PLACES };

typedef struct Spot { // a part of a place of a tile
    int64_t holds;    // which of the ring's places in order, or of the results
    int writer;       // agent
    int wrote;        // when, by the writer's clock
    bool coming;      // a copy that has not arrived
    bool raw;         // threads wrote it, and have not fenced that
    int fenced;       // when they have, likewise
    int read[AGENTS];
    bool reading[AGENTS]; // asynchronously
} Spot;

typedef struct Bar {
    int phase, arrived; // phase: those that have ended
    int64_t bytes;      // announced and not there yet
    int open[CLOCKS], closed[CLOCKS], touched[AGENTS];
} Bar;

typedef struct Meeting { // at a barrier of threads
    int there, at;
    bool came[AGENTS], stays[AGENTS];
    int known[CLOCKS];
} Meeting;

typedef struct Copy {
    int block, tile, place, bar, share; // share: of which block's; NOTHING: all of it
    int64_t bytes;
    int known[CLOCKS];
} Copy;

typedef struct Pending { // an asynchronous read of a cell
    int cell, group;
} Pending;

typedef struct Reads { // by products, or by bulk stores
    Pending at[MOST_PENDING];
    int n, groups, done; // groups that are over
} Reads;

typedef struct Held {   // a tile of a thread's registers, of attention
    int64_t step;       // it is of; NOTHING: of none
    bool used;          // threads have read it
    int64_t shrunk;     // results: to the scores of that step
    int writer, reader; // groups of products that write it, or read it
} Held;

typedef struct Agent {
    int block, role, warp, lane, group; // warp: of the role
    int at;
    bool waits, ended, ready;
    int loop;                                // the one it is in, or NOTHING
    int64_t iteration;                       // of it
    int64_t tile;                            // NOTHING: in none
    int pass;                                // 1: all tiles again
    int64_t judged;                          // tiles, ...
    int judged_at;                           // ... the last one when, by its clock
    bool passed;                             // the loop over the ring is behind it
    bool begun;                              // products may write its sums
    int64_t products, mapped, boxed, stored; // boxed: mapped to shared memory
    int64_t added;                           // boxes whose rows are
    bool totals, told;                       // sums of these have begun; and are stored
    uint32_t rest;                           // parts of the results whose other operands are loaded
    int clock[CLOCKS];
    Reads by_products, by_stores;
    Held held[TILE_MOST_TILES];
} Agent;

typedef struct Run {
    Arena *arena;
    const TileProgram *p;
    int blocks, nagents;
    int64_t tiles, steps;
    uint64_t seed;
    int begin[TILE_MOST_TILES], parts[TILE_MOST_TILES], ncells; // cells of a tile, in a block
    Spot *cell;
    Agent *agent;
    Bar bar[BLOCKS][TILE_MOST_BARS][TILE_MOST_PLACES];
    Meeting warp[AGENTS], group[BLOCKS][MOST_GROUPS], turn[BLOCKS][MOST_GROUPS], block[BLOCKS],
        role[BLOCKS], cluster;
    Copy copy[MOST_PENDING];
    int ncopies;
    const char *wrong;
} Run;

// -- verify_effects.c: [who]: an agent; [position]: a place of the ring, counted from the block's first
void agent_wrong(Run *r, int op, const char *what, const char *name); // the first one is reported
void agent_learn(int *to, const int *from);                           // clocks
const TileRole *agent_role(const Run *r, const Agent *a);
int agent_sharing(const Run *r,
                  const Agent *a); // groups of its role that share the steps of a tile
// Of a product's tile; where it leaves some out, some number.
int64_t agent_tile_steps(const Run *r, int64_t tile);
// Asynchronous reads of all groups but the last [left] are over.
void agent_finish(Run *r, int who, Reads *by, int left);
void agent_arrive(Run *r, int who, int block, int bar, int64_t position, int64_t bytes);
bool agent_awaited(Run *r, const Agent *a, const TileOp *op, int64_t position); // as parity says
void agent_await(Run *r, int who, const TileOp *op, int64_t position);
void agent_copied(Run *r, int i); // that of Run.copy arrives
void agent_load(Run *r, int who, const TileOp *op, int64_t position);
// An operand that a group multiplies, or whose rows are added up. NULL: it is read at once.
void agent_read(Run *r, int who, int tile, int64_t position, Reads *later);
void agent_clear(Run *r, int who, const TileOp *op, int64_t position);
void agent_multiply(Run *r, int who, const TileOp *op, int64_t position);
void agent_map(Run *r, int who, const TileOp *op);
void agent_store(Run *r, int who, const TileOp *op);
void agent_add(Run *r, int who, const TileOp *op);  // rows of results to their totals
bool agent_adds(const Run *r, const Agent *a);      // it has to
void agent_move(Run *r, int who, const TileOp *op); // its sums, to where other blocks read them
void agent_fence(Run *r, int who);
int64_t agent_parts(const TileProgram *p); // of a group's sums, that results are made of one by one

// -- verify_scores.c: what ops do whose scores stay in registers
int64_t agent_steps(const Run *r, int64_t tile); // those of a tile
// The place of the tile's ring that an op is about, counted from the block's first.
int64_t agent_place(const Run *r, const Agent *a, int tile, int shift);
void agent_begin_tile(Agent *a);
void agent_end_tile(Run *r, const Agent *a);
void agent_score_op(Run *r, int who, const TileOp *op); // those that touch registers
void agent_judge(Run *r, int who);
// It knows of every tile whether it is to be done again.
void agent_decide(Run *r, const Agent *a);

#endif
