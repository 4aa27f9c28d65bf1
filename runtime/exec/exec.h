// Internal to the executor (exec_*.c): sessions, the cells they hold, programs attached to them.
#ifndef RUNTIME_EXEC_H
#define RUNTIME_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/device.h"

// -- programs -------------------------------------------------------------------------------------
struct RtProgram {
    atomic_int refs; // the caller's reference, and one per session it is attached to
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
    atomic_llong changed; // number of its last change (exec_prepare.c)
    int64_t position;     // of a cursor: its value after all enqueued work, if [known]
    bool known;
    bool waits; // it has no value yet (exec_waits.c)
    // A caller's graph writes it, so it may change at any time without notice.
    atomic_bool replayed;
} RtCell;

// Cells of a session and of those created with RtSessionOptions.share.
typedef struct RtCells {
    atomic_int refs;
    pthread_mutex_t lock; // guards the table, not the contents
    RtDevice *device;
    RtCell **cell;
    int n, cap;
    RtCell **prepared; // cells written by entries that prepare others; they have no values of the
                       // model itself
    int nprepared, prepared_cap;
    void **block; // device memory: one block per program that added cells, one per prepared cell
    int nblocks;
    atomic_llong changes;      // number of changes of cells so far
    atomic_bool prepares;      // a prepared entry has run, so changes are counted
    atomic_bool replays;       // a caller's graph contains executions (exec_capture.c)
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
    void *at; // on the device; equal to host if memory is unified; NULL: streamed from the host
} RtData;

// A ring buffer on the device for batches of a data set that does not fit there (exec_stage.c).
typedef struct RtStage RtStage;

// Up to so many launches, enqueuing them one by one is as fast as a graph, so addresses may change
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
    RtStep *step;        // by step of the entry
    RtSlot *slot, *base; // arguments of all steps: current values, and values at iteration 0
    void **argv;         // in the form that launch takes
    void **output;       // where each is stored: its own memory, or the caller's (rt_output_place)
    void **stored;       // where it was stored in the last execution; NULL: never
    void **own_output;   // in output_block or late_output; NULL: not allocated yet
    void *output_block;  // the error record, and outputs for which the caller had provided no
                         // memory when it was allocated
    void **late_output;  // by output: memory of the others, if it is needed later
    ProgError *error;    // on the device, in output_block
    ProgError *seen;     // pinned: a copy of the record for the host; NULL if memory is unified
    bool error_dirty;    // an execution was enqueued since the record was last read
    bool failed;         // a check of the last executions failed: its outputs have no value
    const void **input;  // addresses used for the arguments
    void **own_input;    // device buffers for inputs passed to rt_run; allocated on first use
    bool *roams;         // by input: the caller's device pointer changes too often for a graph
    bool *strays;  // by output: the caller's address changes too often for a graph, so it is stored
                   // in its own memory
    void **then;   // where such an output is copied after an execution
    RtData **data; // bound data sets, by input
    int64_t *row_bytes;
    int64_t examples;         // of the bound data
    int32_t *rows, *identity; // on the device: the bound table, and 0, 1, 2 ...
    int32_t *rows_pinned;     // on the host: staging memory for rows
    int64_t rows_cap, nrows;
    const int32_t *rows_now; // the table used for the arguments
    RtStage *stage;
    RtCell *cursor;
    RtCell **written; // cells
    int nwritten;
    bool captured;     // its run is being captured by the caller
    void *temporaries; // the caller's memory for such runs; NULL: the arena
    bool resolved;
    bool ran;       // has run: its memory is allocated, and what it calls is loaded
    bool warm;      // has run since its arguments were computed
    RtGraph *graph; // of one execution
    int graph_nodes;
    RtMany *many;
    int way; // fastest way to record several executions (exec_graph.c); 0: not measured yet
    double way_seconds[3]; // per execution, by way; 0: not measured
    int64_t launches;      // steps per execution, with loops unrolled
    char why_not[256];     // why there is no graph
    RtLives *lives;        // for a session that spoils temporaries; NULL: not computed yet
} RtEntry;

struct RtBound { // a program attached to a session
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
    void **kept; // previous arenas that a caller's graph may use
    int nkept;
    bool pinned; // a caller's graph may use this arena
    bool theirs; // the stream belongs to the caller
    bool met;    // the next run waits for a stream of the caller
    int entered; // nesting depth; the thread's previous setting
    int was_allowed;
    RtData *data;
    bool spoils; // temporaries are filled with NaN when they become live (exec_spoil.c)
};

RtEntry *rt_entry_find(RtSession *s, RtProgram *p, const char *entry, RtError *e); // RT_USER
RtCode rt_entry_init(RtBound *b, RtEntry *en, const ProgEntry *e, RtError *err);
// Allocates memory for temporaries and outputs; an entry that never runs needs none.
RtCode rt_entry_memory(RtSession *s, RtEntry *en, RtError *e);
void rt_entry_free(RtSession *s, RtEntry *en);
// Runs the entry that prepares [en], if its results are missing or out of date.
RtCode rt_prepare(RtSession *s, RtEntry *en, RtError *e);
void rt_cell_changed(RtSession *s, RtCell *c);
// Marks all cells that the entry writes as changed.
void rt_entry_changes(RtSession *s, const RtEntry *en);
// Computes the arguments from en->input, en->rows_now and the session's arena.
void rt_entry_resolve(RtSession *s, RtEntry *en);
void rt_entry_unresolve(RtSession *s, RtEntry *en); // to be called if an address changed
void rt_entry_enqueued(RtEntry *en); // marks outputs as stored and the error record as not read
// Whether an argument is the workspace of a product, whose algorithm may need less than planned.
// *bytes: what it needs, possibly 0.
bool rt_step_scratch(const RtSession *s, const RtEntry *en, const ProgStep *step, int arg,
                     size_t *bytes);
// The kernel that step [step] runs currently: its own, the one that replaces the library's call or,
// if [behind], the one after that call; -1: none.
int rt_step_kernel(const RtSession *s, const RtEntry *en, int step, bool behind);

// Runs one execution step by step. each: called before and after every step, or NULL.
typedef struct RtObserver {
    RtCode (*before)(void *ctx, RtEntry *en, int step, RtError *e);
    RtCode (*after)(void *ctx, RtEntry *en, int step, RtError *e);
    void *ctx;
    RtStream *stream; // for the next step; [before] may change it; NULL: the session's
    // Calls before and after for parts of steps, too. The part after the library's call of a
    // product has the number nsteps + the product's step.
    bool parts;
} RtObserver;
int rt_entry_parts(const RtEntry *en); // number of steps and parts
// Before step [step], on its stream: fills the temporaries that become live there, in iteration
// [round] of each enclosing loop.
RtCode rt_lives_begin(RtSession *s, RtEntry *en, int step, const int64_t *round, RtStream *stream,
                      RtError *e);
void rt_lives_free(RtLives *l);
RtCode rt_entry_steps(RtSession *s, RtEntry *en, const RtObserver *o, RtError *e);
// Enqueues 1 to [left] executions, as a graph if there is one; *done: their number.
RtCode rt_entry_some(RtSession *s, RtEntry *en, int64_t left, int64_t *done, RtError *e);
void rt_graphs_free(RtSession *s, RtEntry *en);

// Steps that run concurrently in a recorded graph (exec_branch.c).
enum { RT_BRANCHES = 3 }; // streams in addition to the session's
typedef struct RtBranches {
    int nsteps, streams, cap;
    int *stream;            // by step; 0: the session's
    int *first_wait, *wait; // by step: the steps of other streams that it waits for
    bool *waited, *forks;   // by step: other steps wait for it; it starts a stream
    int join[RT_BRANCHES], njoins;
    bool apart; // the first one is that of exchanges between devices
} RtBranches;
bool rt_exchanges(const RtEntry *en); // steps exchange values between devices
// The branches of a resolved entry; NULL: all steps are sequential.
RtBranches *rt_branches_new(RtSession *s, RtEntry *en);
void rt_branches_free(RtBranches *b);
// NULL: it failed.
RtGraph *rt_branches_record(RtSession *s, RtEntry *en, const RtBranches *b, int times,
                            int *kernel_nodes);

RtCode rt_cursor_rewind(RtSession *s, RtEntry *en, RtError *e); // to row 0; enqueued
void rt_data_release(RtSession *s, RtEntry *en);
void rt_rows_free(RtSession *s, RtEntry *en); // the table on the device and on the host
// Enqueues [times] executions that read batches from the ring buffer.
RtCode rt_stage_run(RtSession *s, RtEntry *en, int64_t times, RtError *e);
RtCode rt_stage_rows(RtSession *s, RtEntry *en, const int32_t *rows, int64_t n, RtError *e);
RtCode rt_stage_new(RtSession *s, RtEntry *en, RtError *e);
void rt_stage_free(RtSession *s, RtEntry *en);

// Adds to e, an RT_OOM, what uses the memory and which batch would fit. It came from running the
// entry en of p, or from attaching p (en NULL: the largest entry).
void rt_oom_explain(RtSession *s, const Program *p, const ProgEntry *en, RtError *e);

// Between rt_enter and rt_leave the device is current for this thread. While the session is
// captured, only rt_enter_captured succeeds: other work cannot be part of a graph.
RtCode rt_enter(RtSession *s, RtError *e);
RtCode rt_enter_captured(RtSession *s, RtError *e);
void rt_leave(RtSession *s);
bool rt_is_captured(const RtSession *s); // of an entered session

// Captured runs (exec_capture.c). ready: checks that the run can be captured and that everything it
// needs exists. steps: records [times] executions; if [rewind], with the cursor set to row 0 before
// each.
RtCode rt_capture_ready(RtSession *s, RtEntry *en, const RtInput *in, int n, RtError *e);
RtCode rt_capture_steps(RtSession *s, RtEntry *en, bool rewind, int64_t times, RtError *e);
// Waits for launches of captured work that may use the cells of this session.
RtCode rt_replays_wait(RtSession *s, RtError *e);
// Keeps the arena until the session ends, since a caller's graph uses it; the session allocates a
// new one.
RtCode rt_arena_keep(RtSession *s, RtError *e);

#endif
