// The state of a simulated run of a tile program, for its verification: threads (agents) with
// vector clocks, and the contents of shared memory. verify_effects.c implements the effects of ops
// on it (verify_scores.c: of attention with roles; verify_threads.c: of programs without roles),
// verify.c control flow and the order in which threads run.
#ifndef CODEGEN_TILE_AGENTS_H
#define CODEGEN_TILE_AGENTS_H

#include "codegen/tile/tile.h"

enum { LANES = 2, BLOCKS = 2, BLOCK_AGENTS = 28, AGENTS = BLOCKS * BLOCK_AGENTS };
enum { MOST_PENDING = 64, MOST_GROUPS = 3, NOTHING = -1, STEP = 64 };
// Entries of a vector clock: a time for each agent, the number of ended phases for each mbarrier.
enum { CLOCKS = AGENTS + BLOCKS * TILE_MOST_BARS * TILE_MOST_PLACES };

typedef struct Spot {     // a part of a place of a tile
    int64_t holds;        // the position in the ring, or the tile or part of the result, it is of
    int writer;           // agent
    int wrote;            // when, by the writer's clock
    bool coming;          // a copy to it has not arrived yet
    bool raw;             // written by a thread that has not executed a fence since
    int fenced;           // when the fence was executed, by the writer's clock
    int read[AGENTS];     // when each agent last read it, by that agent's clock
    bool reading[AGENTS]; // an asynchronous read by that agent is pending
} Spot;

typedef struct Bar {
    int phase, arrived; // phase: number of ended phases
    int64_t bytes;      // announced but not arrived
    // open: the joined clocks of those who arrived so far; closed: the same at the end of the last
    // phase; touched: when each agent last arrived
    int open[CLOCKS], closed[CLOCKS], touched[AGENTS];
} Bar;

typedef struct Meeting { // a barrier of threads; there: number that arrived; at: op
    int there, at;
    bool came[AGENTS], stays[AGENTS];
    int known[CLOCKS];
} Meeting;

typedef struct Copy {
    int block, tile, place, bar, share; // share: the block whose share it is; NOTHING: all of it
    int64_t bytes;
    int known[CLOCKS];
} Copy;

typedef struct Pending { // an asynchronous access to a cell
    int cell, group;
} Pending;

typedef struct Accesses { // pending reads by products or by bulk stores; pending copies by threads
    Pending at[MOST_PENDING];
    int n, groups, done; // groups: number committed; done: number that have completed
} Accesses;

typedef struct Held {   // a tile in a thread's registers: attention with roles; others only [used]
    int64_t step;       // the step its values are of; NOTHING: none
    bool used;          // threads have read it
    int64_t shrunk;     // results: the step to whose scores they were rescaled last
    int writer, reader; // the last group of products that writes it, that reads it
} Held;

typedef struct Agent {
    int block, role, warp, lane, group; // warp: of the role
    int at;
    bool waits, ended, ready;
    int loop;                                // the op of the current loop, or NOTHING
    int64_t iteration;                       // of that loop
    int64_t tile;                            // the current tile of the result, or NOTHING
    int pass;                                // T_AGAIN: 0, or 1 while all tiles run again
    int64_t judged;                          // number of tiles judged
    int judged_at;                           // when the last one was, by its own clock
    bool passed;                             // it has left this tile's loop over the ring
    bool begun;                              // wgmma.fence executed: products may write its sums
    int64_t products, mapped, boxed, stored; // boxed: parts written to shared memory
    int64_t added;                           // parts added to the totals
    bool totals, told;                       // totals have been cleared; have been stored
    uint32_t rest;                           // bits: parts whose other operands are loaded
    int clock[CLOCKS];
    Accesses by_products, by_stores, by_copies;
    Held held[TILE_MOST_TILES];
    // Without roles: the iteration that each place in registers holds; of sums, how many products
    // have been added to them; NOTHING: neither.
    int64_t in[TILE_MOST_TILES][TILE_MOST_PLACES];
} Agent;

typedef struct Run {
    Arena *arena;
    const TileProgram *p;
    const TileRole *role; // of a program without roles: one, of two warps
    int nroles;
    int blocks, nagents;
    int64_t tiles, steps;
    int rounds; // without roles: how many times loops use the rings
    uint64_t seed;
    // Cells of each tile: the number of the first one, how many a place has; of all, per block.
    int begin[TILE_MOST_TILES], parts[TILE_MOST_TILES], ncells;
    Spot *cell;
    Agent *agent;
    Bar (*bar)[TILE_MOST_BARS][TILE_MOST_PLACES]; // of each block
    struct {
        Meeting warp[AGENTS], group[BLOCKS][MOST_GROUPS], turn[BLOCKS][MOST_GROUPS], block[BLOCKS],
            role[BLOCKS], cluster;
    } meet;
    Copy copy[MOST_PENDING];
    int ncopies;
    const char *wrong;
} Run;

// -- verify_effects.c: [who]: number of an agent; [position]: number of uses of the ring before
void agent_wrong(Run *r, const Agent *a, const char *what, const char *name); // keeps the first
void agent_learn(const Run *r, int *to, const int *from);                     // joins clocks
const TileRole *agent_role(const Run *r, const Agent *a);
// The number of groups of its role that divide the steps of a tile.
int agent_sharing(const Run *r, const Agent *a);
// The steps of a product's tile; if the program skips steps, an arbitrary number.
int64_t agent_tile_steps(const Run *r, int64_t tile);
Accesses *agent_accesses(Agent *a, TileHow how); // by products, by bulk stores, by copies
// The accesses of all groups but the last [left] complete.
void agent_finish(Run *r, int who, Accesses *by, int left);
void agent_arrive(Run *r, int who, int block, int bar, int64_t position, int64_t bytes);
bool agent_awaited(Run *r, const Agent *a, const TileOp *op, int64_t position); // by its parity
void agent_await(Run *r, int who, const TileOp *op, int64_t position);
void agent_copied(Run *r, int i); // Run.copy[i] arrives
void agent_load(Run *r, int who, const TileOp *op, int64_t position);
// Reads an operand: a product of a group, which reads it [later], or threads that add up its rows,
// at once (NULL).
void agent_read(Run *r, int who, int tile, int64_t position, Accesses *later);
// A part of a place is read at once; the agent's own part is written. [now]: what it then holds; it
// is coming until the agent has waited for its copies.
void agent_read_part(Run *r, int who, int block, int tile, int place, int part, int64_t want);
void agent_write(Run *r, int who, int tile, int place, Spot now);
void agent_clear(Run *r, int who, const TileOp *op, int64_t position);
void agent_multiply(Run *r, int who, const TileOp *op, int64_t position);
void agent_map(Run *r, int who, const TileOp *op);
void agent_store(Run *r, int who, const TileOp *op);
void agent_add(Run *r, int who, const TileOp *op);  // adds rows of results to the totals
bool agent_adds(const Run *r, const Agent *a);      // whether its role has totals
void agent_move(Run *r, int who, const TileOp *op); // registers to shared memory
void agent_fence(Run *r, int who);
int64_t agent_parts(const TileProgram *p); // the parts in which a group's sums become results

// -- verify_threads.c: effects of the ops of programs without roles
void agent_thread_op(Run *r, int who, const TileOp *op, int64_t about); // of iteration [about]
void agent_end_thread(Run *r, const Agent *a); // checks that it has stored all results

// -- verify_scores.c: effects of the ops of attention, whose scores stay in registers
int64_t agent_steps(const Run *r, int64_t tile); // number of steps of a tile
// The position in the tile's ring that an op uses.
int64_t agent_place(const Run *r, const Agent *a, int tile, int shift);
void agent_begin_tile(Agent *a);
void agent_end_tile(Run *r, const Agent *a);
void agent_score_op(Run *r, int who, const TileOp *op); // ops on registers
void agent_judge(Run *r, int who);
// Checks that it knows the judgement of every tile before it decides whether to run all again.
void agent_decide(Run *r, const Agent *a);

#endif
