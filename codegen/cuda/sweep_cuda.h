// What the files that print sweeps share.
#ifndef CODEGEN_SWEEP_CUDA_H
#define CODEGEN_SWEEP_CUDA_H

#include "codegen/cuda/print_cuda.h"

enum { MOST_TOGETHER = 4 };

typedef struct Sweep {
    Emit *e;                     // of the row that is printed
    Emit *of_row[MOST_TOGETHER]; // the rows of a turn: each has values of its own
    int row;                     // its number in the turn
    const Body *b;
    Vectors v;
    const char *t;           // of index arithmetic
    const char *col, *first; // a column, and the first one of a vector
    long long rows, cols;
    long long step;       // rows from one of a team's to its next one
    int teams;            // of a block
    bool uneven;          // rows that start anywhere
    bool even;            // every team has a row each time around
    int rare;             // Body.rare, where few rows go through it; 0: all do
    bool skewed;          // of_row[1] is the next row, whose first stage is printed a turn early
    bool in_row;          // printed now: the loop over rows
    bool edges;           // printed now: the edges
    const uint64_t *uses; // by instruction: the stages that need it
    int site, sites;      // joins across a team: those printed, how many there are in a row
} Sweep;

typedef struct Sum {
    int row, r; // of the turn; the reduction
} Sum;

// -- sweep_held.c: what a thread has of rows and columns
bool sweep_over_rows(const Sweep *w, int load); // else all rows share it
bool sweep_is_held(const Sweep *w, int load);   // copied ahead, or once where all rows share it
bool sweep_in_registers(const Sweep *w, int load);
DType sweep_loaded_type(const Sweep *w, int load);
void sweep_take_row(Sweep *w, int r); // of the turn: what is printed from here on is about it
// Row r of a turn, with names that end in what no other name ends in.
Emit *sweep_another_row(const Emit *e, int r);
// Scopes: a vector of a thread's columns each; its element of the edges.
void sweep_open_tiles(Sweep *w);
void sweep_close_tiles(Sweep *w);
const char *sweep_in_tile(const Sweep *w); // of an array of all tiles: the tile's, "[tile]"
void sweep_open_edges(Sweep *w);
void sweep_close_edges(Sweep *w);
// Where what all rows share is in registers, or its element of the edges; where in shared memory
// what is held lies, of the row in that slot.
const char *sweep_shared_slot(Sweep *w, int load, bool edge);
const char *sweep_hold_place(Sweep *w, int load, const char *slot);
void sweep_declare_held(Sweep *w);
void sweep_fetch_shared(Sweep *w);
// Copies of a turn's rows, the first of which is [begin], into their slots; elements of their
// edges, of the turn whose first row is [next].
void sweep_print_turn(Sweep *w, const char *begin, const char *slot);
void sweep_fetch_edges(Sweep *w, const char *next);

// -- sweep_sums.c: over the rows; of rows, joined across a team
void sweep_declare_folds(Sweep *w);
void sweep_print_folds(Sweep *w, int stage);
void sweep_print_parts(Sweep *w); // what a block stores of them
// What joins at once: the reductions of a stage, of all rows of a turn; or, skewed, those of the
// first two stages, each of a row of its own.
Sum *sweep_sums_at_once(const Sweep *w, int stage, int *n);
int sweep_count_sites(const Sweep *w); // joins that a row takes: reductions of one kind share one
void sweep_print_joins(Sweep *w, Scope *row, const Sum *sums, int n);
// [value] is the sum's from here on.
void sweep_bind_joined(Sweep *w, Scope *row, Sum s, const char *value);

#endif
