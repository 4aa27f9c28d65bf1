// Internal to the executor (exec_*.c): sessions, the cells they hold, programs attached to them.
#ifndef RUNTIME_EXEC_H
#define RUNTIME_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/device.h"

// -- programs -------------------------------------------------------------------------------------
struct RtProgram {
    atomic_int refs; // the caller's and one a session attached
    RtDevice *device;
    const Program *p;
    RtModule *module;
    void *const_block; // device memory of all constants
    void **consts;
};
void rt_program_retain(RtProgram *p);

// -- cells ----------------------------------------------------------------------------------------
typedef struct RtCell {
    ProgCell info;
    char *name; // owned; info.name
    void *at;
    size_t bytes;
    atomic_llong changed; // the number of its last change (exec_prepare.c)
    int64_t position;     // a cursor: its value after all enqueued work, if known
    bool known;
    bool waits; // it has no value yet (exec_waits.c)
    // Captured executions of the caller write it: it may change at any time, unnoticed.
    atomic_bool replayed;
} RtCell;

// Shared by the sessions that were made with RtSessionOptions.share.
typedef struct RtCells {
    atomic_int refs;
    pthread_mutex_t lock; // guards the table, not the contents
    RtDevice *device;
    RtCell **cell;
    int n, cap;
    RtCell **prepared; // those written by entries that prepare others: they hold no values of the
                       // model's own
    int nprepared, prepared_cap;
    void **block; // device memory, one per program that added cells, one per prepared cell
    int nblocks;
    atomic_llong changes;      // of cells, so far
    atomic_bool prepares;      // some prepared entry has run: changes are counted
    atomic_bool replays;       // a caller's graph holds executions (exec_capture.c)
    pthread_mutex_t preparing; // held while cells are prepared
} RtCells;
RtCell *rt_cells_find(RtCells *c, const char *name); // NULL when absent

// -- data sets on the device ----------------------------------------------------------------------
typedef struct RtData {
    struct RtData *next;
    int users; // entries bound to it
    const void *host;
    const struct RtSource *source; // instead of host: rows are read from files, always streamed
    size_t bytes;
    uint64_t print; // hash of the contents
    void *at;       // on the device; host itself if memory is unified; NULL: streamed from the host
} RtData;

// Batches of a data set that does not fit the device pass through a ring there (exec_stage.c).
typedef struct RtStage RtStage;

// So few launches that enqueueing them one by one is as fast as a graph: then addresses may change
// freely.
enum { RT_FEW_LAUNCHES = 8 };

// -- entries of an attached program ---------------------------------------------------------------
typedef struct RtStep { // a ProgStep with its arguments resolved
    const ProgStep *s;
    int first_arg;
    bool moves; // arguments change with the iterations of the enclosing loops
} RtStep;

typedef struct RtMany RtMany; // several executions as one graph (exec_graph.c)
typedef struct RtBound RtBound;
typedef struct RtLives RtLives;
typedef struct RtEntry {
    const ProgEntry *e;
    RtBound *bound;
    RtStep *step;        // of the program's steps
    RtSlot *slot, *base; // arguments of all steps: current ones, and those at iteration 0
    void **argv;         // in the form that launch takes
    void **output;       // where each is stored: its own memory, or the caller's (rt_output_place)
    void **stored;       // where it was stored in the last execution; NULL: there was none
    void **own_output;   // in output_block or late_output; NULL: not allocated yet
    void *output_block;  // the error record, and outputs that had no caller's memory when it was
                         // allocated
    void **late_output;  // by output: memory of the others, if needed later
    ProgError *error;    // on the device, in output_block
    ProgError *seen;     // pinned: a copy of the record for the host; NULL if memory is unified
    bool error_dirty;    // an execution was enqueued since the record was last read
    const void **input;  // addresses with which the arguments are resolved
    void **own_input;    // device buffers for inputs passed to rt_run; allocated when first needed
    bool *roams;         // by input: the caller's device pointer changes too often for graphs
    bool *strays; // by output: the caller's memory changes too often; it is stored in memory of its
                  // own
    void **then;  // and copied there after an execution
    RtData **data; // bound data sets, by input
    int64_t *row_bytes;
    int64_t examples;         // of the bound data
    int32_t *rows, *identity; // device: the bound table and 0, 1, 2 ...
    int32_t *rows_pinned;     // on the host: staging memory for rows
    int64_t rows_cap, nrows;
    const int32_t *rows_now; // the table with which the arguments are resolved
    RtStage *stage;
    RtCell *cursor;
    RtCell **written; // cells
    int nwritten;
    bool captured;     // its run is part of a capture by the caller
    void *temporaries; // the caller's memory for such runs; NULL: the arena
    bool resolved;
    bool ran;       // it has run: it has its memory, and what it calls is loaded
    bool warm;      // it has run since it was resolved
    RtGraph *graph; // of one execution
    int graph_nodes;
    RtMany *many;
    int way; // the fastest way of recording several executions (exec_graph.c); 0: not measured yet
    double way_seconds[3]; // of one execution, by way; 0: not measured
    int64_t launches;      // steps of one execution, loops unrolled
    char why_not[256];     // why there is no graph
    RtLives *lives;        // of a session that spoils temporaries; NULL: not computed yet
} RtEntry;

struct RtBound { // a program in a session
    RtBound *next;
    RtProgram *program;
    RtCell **cell; // by the program's cell index
    RtEntry *entry;
};

struct RtSession {
    RtDevice *device;
    RtStream *stream;
    RtCells *cells;
    RtBound *bound;
    void *arena;
    size_t arena_bytes;
    void **kept; // earlier arenas that a caller's graph may use
    int nkept;
    bool pinned; // a caller's graph may use this arena
    bool theirs; // the stream belongs to the caller
    bool met;    // the next run waits for a stream of the caller
    int entered; // nesting depth, and what the thread was allowed before
    int was_allowed;
    RtData *data;
    bool spoils; // temporaries are filled when they become live (exec_spoil.c)
};

RtEntry *rt_entry_find(RtSession *s, RtProgram *p, const char *entry, RtError *e); // RT_USER
RtCode rt_entry_init(RtBound *b, RtEntry *en, const ProgEntry *e, RtError *err);
// Allocates memory for its temporaries and outputs: an entry that never runs takes none.
RtCode rt_entry_memory(RtSession *s, RtEntry *en, RtError *e);
void rt_entry_free(RtSession *s, RtEntry *en);
// Runs the entry that prepares it, if that has to be done (again).
RtCode rt_prepare(RtSession *s, RtEntry *en, RtError *e);
void rt_cell_changed(RtSession *s, RtCell *c);
// Marks everything that it writes as changed.
void rt_entry_changes(RtSession *s, const RtEntry *en);
// Computes the addresses of the arguments from en->input, en->rows_now and the session's arena.
void rt_entry_resolve(RtSession *s, RtEntry *en);
void rt_entry_unresolve(RtSession *s, RtEntry *en); // an address changed
void rt_entry_enqueued(RtEntry *en); // its outputs will have values, its error record must be read
// Whether an argument is a product's workspace, of which its algorithm may need less than planned,
// or nothing: *bytes.
bool rt_step_scratch(const RtSession *s, const RtEntry *en, const ProgStep *step, int arg,
                     size_t *bytes);
// The kernel that step [step] runs now: its own, or the one used instead of the matmul library's
// call, or the one after that call; -1: none.
int rt_step_kernel(const RtSession *s, const RtEntry *en, int step, bool behind);

// Runs one execution step by step. each: called before and after every step, or NULL.
typedef struct RtObserver {
    RtCode (*before)(void *ctx, RtEntry *en, int step, RtError *e);
    RtCode (*after)(void *ctx, RtEntry *en, int step, RtError *e);
    void *ctx;
    RtStream *stream; // stream of the next step, may be changed in before; NULL: the session's
    // Distinguishes parts of steps: the part after the library's call of a product is numbered from
    // nsteps on, by the product's step.
    bool parts;
} RtObserver;
int rt_entry_parts(const RtEntry *en); // numbers there are
// Before step [step], on its stream: fills the temporaries that become live with it, in iteration
// [round] of each enclosing loop.
RtCode rt_lives_begin(RtSession *s, RtEntry *en, int step, const int64_t *round, RtStream *stream,
                      RtError *e);
void rt_lives_free(RtLives *l);
RtCode rt_entry_steps(RtSession *s, RtEntry *en, const RtObserver *o, RtError *e);
// Enqueues 1 to [left] executions, as a graph if there is one; *done: how many.
RtCode rt_entry_some(RtSession *s, RtEntry *en, int64_t left, int64_t *done, RtError *e);
void rt_graphs_free(RtSession *s, RtEntry *en);

// Steps side by side in a recorded graph (exec_branch.c).
enum { RT_BRANCHES = 3 }; // streams besides the session's
typedef struct RtBranches {
    int nsteps, streams, cap;
    int *stream;            // by step; 0: the session's
    int *first_wait, *wait; // by step: the steps of other streams it waits for
    bool *waited, *forks;   // by step: other steps wait for it; it starts a stream
    int join[RT_BRANCHES], njoins;
} RtBranches;
// The branches of a resolved entry; NULL: all steps are sequential.
RtBranches *rt_branches_new(RtSession *s, RtEntry *en);
void rt_branches_free(RtBranches *b);
// NULL: failed.
RtGraph *rt_branches_record(RtSession *s, RtEntry *en, const RtBranches *b, int times);

RtCode rt_cursor_rewind(RtSession *s, RtEntry *en, RtError *e); // to row 0; enqueued
void rt_data_release(RtSession *s, RtEntry *en);
void rt_rows_free(RtSession *s, RtEntry *en); // the table on the device and on the host
// Enqueues [times] executions whose batches come from the ring.
RtCode rt_stage_run(RtSession *s, RtEntry *en, int64_t times, RtError *e);
RtCode rt_stage_rows(RtSession *s, RtEntry *en, const int32_t *rows, int64_t n, RtError *e);
RtCode rt_stage_new(RtSession *s, RtEntry *en, RtError *e);
void rt_stage_free(RtSession *s, RtEntry *en);

// Adds to e, an RT_OOM from running the entry en of p or from attaching p (NULL: the largest),
// where memory goes and which batch would fit.
void rt_oom_explain(RtSession *s, const Program *p, const ProgEntry *en, RtError *e);

// The device belongs to the thread until rt_leave. A captured session is entered by
// rt_enter_captured only: other work cannot be part of a graph.
RtCode rt_enter(RtSession *s, RtError *e);
RtCode rt_enter_captured(RtSession *s, RtError *e);
void rt_leave(RtSession *s);
bool rt_is_captured(const RtSession *s); // of an entered session

// Captured runs (exec_capture.c). ready: checks that the run can be captured and that everything it
// needs exists. steps: records [times] executions, with the cursor set to row 0 before each if
// [rewind].
RtCode rt_capture_ready(RtSession *s, RtEntry *en, const RtInput *in, int n, RtError *e);
RtCode rt_capture_steps(RtSession *s, RtEntry *en, bool rewind, int64_t times, RtError *e);
// Waits for launches of captured work, which may use whatever sessions with these cells use.
RtCode rt_replays_wait(RtSession *s, RtError *e);
// Keeps the arena, which a caller's graph uses, until the session ends; the session then has none.
RtCode rt_arena_keep(RtSession *s, RtError *e);

#endif
