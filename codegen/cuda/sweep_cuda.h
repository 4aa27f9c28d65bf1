// Declarations shared by the files that print sweeps: rows, and sums over the rows, in one pass.
#ifndef CODEGEN_SWEEP_CUDA_H
#define CODEGEN_SWEEP_CUDA_H

#include "codegen/cuda/print_cuda.h"

enum { MOST_TOGETHER = 4 };

typedef struct Sweep {
    Emit *e; // the row being printed
    // The rows of a turn (Schedule.sweep.together), each with its own names.
    Emit *of_row[MOST_TOGETHER];
    int row; // the number in the turn of the row being printed
    const Body *b;
    Vectors v;
    const char *t;           // the type of index arithmetic
    const char *col, *first; // the names of a column, and of a vector's first column
    long long rows, cols;
    long long step;       // rows from one row of a team to its next one
    int teams;            // per block
    bool uneven;          // rows are not aligned
    bool even;            // threads need not test whether their team has a row
    int rare;             // Body.rare; 0: there is none, or it is not left out
    bool skewed;          // of_row[1] is the next row, whose first stage is printed a turn early
    bool in_row;          // the loop over rows is being printed
    bool edges;           // the edges are being printed
    const uint64_t *uses; // by instruction: the stages that need it, as bits
    int site, sites;      // combinations across a team: number printed, number per row
} Sweep;

typedef struct Sum {
    int row, r; // the number of the row in the turn; the reduction
} Sum;

// -- sweep_held.c: the data that a thread holds
bool sweep_over_rows(const Sweep *w, int load); // it varies over the rows; otherwise all share it
bool sweep_is_held(const Sweep *w, int load);   // copied ahead, or loaded once if all rows share it
bool sweep_in_registers(const Sweep *w, int load);
void sweep_take_row(Sweep *w, int r); // from here on row r of the turn is printed
// A copy of [e] for row r of a turn, in which all names have a suffix that makes them unique.
Emit *sweep_another_row(const Emit *e, int r);
// Scopes: for each vector of the thread's columns; for its single element at the edges.
void sweep_open_tiles(Sweep *w);
void sweep_close_tiles(Sweep *w);
const char *sweep_in_tile(const Sweep *w); // the subscript of a tile in an array of all: "[tile]"
void sweep_open_edges(Sweep *w);
void sweep_close_edges(Sweep *w);
// The address in shared memory of a held load, for the row in that slot.
const char *sweep_hold_place(Sweep *w, int load, const char *slot);
void sweep_declare_held(Sweep *w);
void sweep_fetch_shared(Sweep *w);
// Copies the rows of a turn, the first of which is [begin], into their slots; loads the elements at
// the edges for the turn whose first row is [next].
void sweep_print_turn(Sweep *w, const char *begin, const char *slot);
void sweep_fetch_edges(Sweep *w, const char *next);

// -- sweep_sums.c: sums over the rows; sums of a row, combined across a team
void sweep_declare_folds(Sweep *w);
void sweep_print_folds(Sweep *w, int stage);
void sweep_print_parts(Sweep *w); // stores the block's partial sums
// The sums that are combined together: the reductions of a stage, for all rows of a turn; if the
// sweep is skewed, those of this row's second stage and of the next row's first stage.
Sum *sweep_sums_at_once(const Sweep *w, int stage, int *n);
int sweep_count_sites(const Sweep *w); // combinations per row; reductions of one kind share one
void sweep_print_joins(Sweep *w, const Sum *sums, int n);
void sweep_bind_joined(Sweep *w, Sum s, const char *value); // binds the sum to [value]

#endif
