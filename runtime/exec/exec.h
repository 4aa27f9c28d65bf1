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
    int64_t position;     // a cursor: its value after all that is enqueued, when known
    bool known;
    bool waits; // it has no value yet (exec_waits.c)
    // Executions that the caller captured write it: it may change at any time, unseen.
    atomic_bool replayed;
} RtCell;

// Shared by the sessions that were made with RtSessionOptions.share.
typedef struct RtCells {
    atomic_int refs;
    pthread_mutex_t lock; // guards the table, not the contents
    RtDevice *device;
    RtCell **cell;
    int n, cap;
    RtCell **prepared; // those that entries prepare: no values of the model's own
    int nprepared, prepared_cap;
    void **block; // device memory, one a program that brought new cells, one a prepared one
    int nblocks;
    atomic_llong changes;      // of cells, so far
    atomic_bool prepares;      // some entry that is prepared has run: changes are counted
    atomic_bool replays;       // a caller's graph holds executions (exec_capture.c)
    pthread_mutex_t preparing; // held while cells are prepared
} RtCells;
RtCell *rt_cells_find(RtCells *c, const char *name); // NULL when absent

// -- data sets on the device ----------------------------------------------------------------------
typedef struct RtData {
    struct RtData *next;
    int users; // entries bound to it
    const void *host;
    const struct RtSource *source; // instead of host: rows are read out of files, always streamed
    size_t bytes;
    uint64_t print; // of the contents
    void *at; // on the device; host itself where memory is unified; NULL: streamed from the host
} RtData;

// Batches of a data set that does not fit the device pass through a ring there (exec_stage.c).
typedef struct RtStage RtStage;

// Launches that are enqueued one by one as fast as a graph: then addresses may change freely.
enum { RT_FEW_LAUNCHES = 8 };

// -- entries of an attached program ---------------------------------------------------------------
typedef struct RtStep { // a ProgStep with its arguments resolved
    const ProgStep *s;
    int first_arg;
    bool moves; // arguments change with the iterations of the loops around it
} RtStep;

typedef struct RtMany RtMany; // several executions as one graph (exec_graph.c)
typedef struct RtBound RtBound;
typedef struct RtLives RtLives;
typedef struct RtEntry {
    const ProgEntry *e;
    RtBound *bound;
    RtStep *step;        // of the program's steps
    RtSlot *slot, *base; // arguments of all steps: now, and at iteration 0
    void **argv;         // as launch wants them
    void **output;       // where each is stored: its own memory, or the caller's (rt_output_place)
    void **stored;       // where it was in the last execution; NULL: there was none
    void **own_output;   // in output_block or late_output; NULL: has none yet
    void *output_block;  // the error record, and outputs that were not placed when it was made
    void **late_output;  // by output: of one that was
    ProgError *error;    // on the device, in output_block
    ProgError *seen;     // pinned: the record on its way to the host; NULL where memory is unified
    bool error_dirty;    // an execution was enqueued since the record was last read
    const void **input;  // addresses the arguments are resolved with
    void **own_input;    // device buffers for inputs passed to rt_run; made when first needed
    bool *roams;         // by input: the caller's device pointer changes too often for graphs
    bool *strays;        // by output: the caller's place does; it is stored in memory of its own,
    void **then;         // and copied there behind an execution
    RtData **data;       // bound data sets, by input
    int64_t *row_bytes;
    int64_t examples;         // of the bound data
    int32_t *rows, *identity; // device: the bound table and 0, 1, 2 ...
    int32_t *rows_pinned;     // on the host: what is on its way to rows
    int64_t rows_cap, nrows;
    const int32_t *rows_now; // the table the arguments are resolved with
    RtStage *stage;
    RtCell *cursor;
    RtCell **written; // cells
    int nwritten;
    bool captured;     // its run is part of a capture of the caller's
    void *temporaries; // of such runs, the caller's; NULL: the arena
    bool resolved;
    bool ran;       // at all: it has its memory, and what it calls is loaded
    bool warm;      // ran since it was resolved
    RtGraph *graph; // of one execution
    int graph_nodes;
    RtMany *many;
    int way; // of recording several that was fastest (exec_graph.c); 0: not measured yet
    double way_seconds[3]; // of one execution, by way; 0: not measured
    int64_t launches;      // steps of one execution, loops unrolled
    char why_not[256];     // why there is no graph
    RtLives *lives;        // of a session that spoils; NULL: not found yet
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
    void **kept; // arenas before this one that a caller's graph may use
    int nkept;
    bool pinned; // a caller's graph may use this one
    bool theirs; // the stream is the caller's
    bool met;    // the next run waits for a stream of the caller's
    int entered; // how often, and what the thread was allowed before
    int was_allowed;
    RtData *data;
    bool spoils; // temporaries are filled where their lives begin (exec_spoil.c)
};

RtEntry *rt_entry_find(RtSession *s, RtProgram *p, const char *entry, RtError *e); // RT_USER
RtCode rt_entry_init(RtBound *b, RtEntry *en, const ProgEntry *e, RtError *err);
// Memory for its temporaries and outputs: an entry that never runs takes none.
RtCode rt_entry_memory(RtSession *s, RtEntry *en, RtError *e);
void rt_entry_free(RtSession *s, RtEntry *en);
// What runs before an execution: the entry that prepares it, where that is to be done (again).
RtCode rt_prepare(RtSession *s, RtEntry *en, RtError *e);
void rt_cell_changed(RtSession *s, RtCell *c);
void rt_entry_changes(RtSession *s, const RtEntry *en); // all that it writes
// Addresses of the arguments from en->input, en->rows_now and the session's arena.
void rt_entry_resolve(RtSession *s, RtEntry *en);
void rt_entry_unresolve(RtSession *s, RtEntry *en); // an address changed
void rt_entry_enqueued(RtEntry *en); // its outputs are values, its record is to be read
// Whether an argument is a product's workspace, of which its algorithm may need less than was
// planned, or nothing: *bytes.
bool rt_step_scratch(const RtSession *s, const RtEntry *en, const ProgStep *step, int arg,
                     size_t *bytes);
// The kernel that step [step] takes now: its own, or the one in place of the matmul library's call,
// or behind that call; -1: none.
int rt_step_kernel(const RtSession *s, const RtEntry *en, int step, bool behind);

// One execution, step by step. each: called before and after every step, or NULL.
typedef struct RtObserver {
    RtCode (*before)(void *ctx, RtEntry *en, int step, RtError *e);
    RtCode (*after)(void *ctx, RtEntry *en, int step, RtError *e);
    void *ctx;
    RtStream *stream; // where the next step goes, may change in before; NULL: the session's
    // Tells parts of steps apart: what stands behind the library's call of a product is numbered
    // from nsteps on, by the product's step.
    bool parts;
} RtObserver;
int rt_entry_parts(const RtEntry *en); // numbers there are
// Before step [step], on its stream: the temporaries whose lives begin with it, in round [round] of
// each loop around it.
RtCode rt_lives_begin(RtSession *s, RtEntry *en, int step, const int64_t *round, RtStream *stream,
                      RtError *e);
void rt_lives_free(RtLives *l);
RtCode rt_entry_steps(RtSession *s, RtEntry *en, const RtObserver *o, RtError *e);
// Enqueues 1 to [left] executions, by graph where there is one; *done: how many.
RtCode rt_entry_some(RtSession *s, RtEntry *en, int64_t left, int64_t *done, RtError *e);
void rt_graphs_free(RtSession *s, RtEntry *en);

// Steps side by side in a recorded graph (exec_branch.c).
enum { RT_BRANCHES = 3 }; // streams beside the session's
typedef struct RtBranches {
    int nsteps, streams, cap;
    int *stream;            // by step; 0: the session's
    int *first_wait, *wait; // by step: the steps of other streams it waits for
    bool *waited, *forks;   // by step: others wait for it; it begins a stream
    int join[RT_BRANCHES], njoins;
} RtBranches;
RtBranches *rt_branches_new(RtSession *s, RtEntry *en); // of a resolved entry; NULL: all in one row
void rt_branches_free(RtBranches *b);
// NULL: failed.
RtGraph *rt_branches_record(RtSession *s, RtEntry *en, const RtBranches *b, int times);

RtCode rt_cursor_rewind(RtSession *s, RtEntry *en, RtError *e); // to row 0; enqueued
void rt_data_release(RtSession *s, RtEntry *en);
void rt_rows_free(RtSession *s, RtEntry *en); // the table on the device and on the host
// Enqueues [times] executions whose batches come through the ring.
RtCode rt_stage_run(RtSession *s, RtEntry *en, int64_t times, RtError *e);
RtCode rt_stage_rows(RtSession *s, RtEntry *en, const int32_t *rows, int64_t n, RtError *e);
RtCode rt_stage_new(RtSession *s, RtEntry *en, RtError *e);
void rt_stage_free(RtSession *s, RtEntry *en);

// Adds to e, an RT_OOM of running the entry en of p, or of attaching p (NULL: the biggest), where
// memory goes and what batch would fit.
void rt_oom_explain(RtSession *s, const Program *p, const ProgEntry *en, RtError *e);

// The device is the thread's until rt_leave. A session that is captured is entered by
// rt_enter_captured only: what else it would be given can be in no graph.
RtCode rt_enter(RtSession *s, RtError *e);
RtCode rt_enter_captured(RtSession *s, RtError *e);
void rt_leave(RtSession *s);
bool rt_is_captured(const RtSession *s); // of an entered session

// Runs that the caller captures (exec_capture.c). ready: that one can be, and all that it needs is
// there. steps: records [times] executions, the cursor at row 0 before each where [rewind].
RtCode rt_capture_ready(RtSession *s, RtEntry *en, const RtInput *in, int n, RtError *e);
RtCode rt_capture_steps(RtSession *s, RtEntry *en, bool rewind, int64_t times, RtError *e);
// Waits for replays of what was captured, which may use whatever sessions with these cells use.
RtCode rt_replays_wait(RtSession *s, RtError *e);
// The arena, which a caller's graph uses, stays until the session ends; the session has none then.
RtCode rt_arena_keep(RtSession *s, RtError *e);

#endif
