// The result of the frontend: cells (parameters and states), entries with a graph each, and names.
#ifndef IR_MODULE_H
#define IR_MODULE_H

#include "ir/fusion.h"

typedef enum CellKind {
    CELL_PARAM,    // trained; saved
    CELL_STATE,    // optimizer moments, running statistics; saved
    CELL_SCRATCH,  // not saved (a KV cache, sums for the log)
    CELL_SETTING,  // a scalar on the device that --set changes; saved
    CELL_CONTROL,  // owned by the runtime; names below
    CELL_PREPARED, // computed from other cells before an entry runs (passes/prepare.c); not saved
} CellKind;

// Control cells, scalars the runtime sets and graphs read (states named like this):
#define CELL_STEP        "@step"        // i64, steps done so far; assigned by the train entry
#define CELL_SEED        "@seed"        // i64
#define CELL_TOTAL       "@total"       // i64, updates of the whole run
#define CELL_EPOCH_STEPS "@epoch_steps" // i64, updates per epoch; epoch = step // epoch_steps
#define CELL_CURSOR      "@cursor"      // i64, row of the row table where the next batch begins
#define CELL_EVAL_CURSOR "@eval_cursor" // i64, the same for evaluation
// i64, "@runs.<entry>": executions of an entry that draws random numbers and does not train; the
// entry itself assigns it. Each evaluation counts from 0, so that it is repeatable and does not
// depend on resuming.
#define CELL_RUNS "@runs."
// Loss scaling, saved states that the train entry of an f16 program writes (frontend/elab_scale.c):
#define CELL_LOSS_SCALE "@loss_scale" // f32, the factor of the loss
#define CELL_GOOD_STEPS "@good_steps" // i64, updates since the scale last changed
#define CELL_SKIPPED    "@skipped"    // i64, steps without an update
// Sums of reported scalars: "@sum.<entry>.<output>" f64 and "@items.<entry>" f64, CELL_SCRATCH.
// train and eval entries assign them: sum + value * batch, items + batch. They are cleared when an
// evaluation or a reporting interval begins, and read when it ends.

// Sums of tally(x) over an evaluation, "@tally.eval.<n>", cleared when one begins and at each
// netc_run; and outputs that are computed from such sums, "@last.eval.<output>", which the runtime
// reads after the last batch. CELL_SCRATCH.
#define CELL_TALLY "@tally."
#define CELL_LAST  "@last."
// Cells that the entry "prepare.NAME" assigns before "NAME" runs.
#define CELL_PREPARED_PREFIX "@prepared."
#define ENTRY_PREPARE_PREFIX "prepare."
// The entry that computes the cells with `first_batch`, before the first step.
#define ENTRY_FIRST_BATCH "init.batch"

typedef struct Cell {
    const char *name; // full name, "fc1.weight"
    CellKind kind;
    Type type;
    bool frozen;
    bool optimizer;     // a state or setting that only the updates of a train block read
    bool first_batch;   // its initial value is computed from the first batch of training by
                        // ENTRY_FIRST_BATCH
    double initial;     // value of every element when no init entry assigns the cell
    const char *begins; // its initial value in the source: "0", "uniform(-0.1, 0.1)"; NULL: none
    Loc loc;
} Cell;

typedef struct DimBinding {
    const char *name;
    int64_t value;
    enum { DIM_DEFAULT, DIM_DATA, DIM_FLAG } from;
    bool is_batch; // axis 0 of some input of kind "data"
} DimBinding;

typedef enum EntryKind { ENTRY_INIT, ENTRY_TRAIN, ENTRY_EVAL, ENTRY_MODEL } EntryKind;

typedef struct Again { // a forward value that is recomputed in the backward part for a memory limit
    const char *name;  // or NULL
    Loc loc;
    Type type;
    double seconds; // time of that by the device's rates, if the entries before it are recomputed
} Again;

// "init" sets the initial values of cells. Values that are computed from other cells ("state slow =
// p") are assigned by "init.1", those computed from these by "init.2" and so on, last in the list:
// they run again when the cells that they read were loaded from a file. "prepare.next" computes
// values that "next" would compute from parameters alone; it runs before "next" if a cell that it
// reads has changed. "init.batch" is the only init entry that reads inputs: those of the trained
// model, the first batch.
typedef struct Entry {
    const char *name; // "init", "train", "eval", the model's own name, or "init.1"
    EntryKind kind;
    Graph *graph; // roots: output, assign, assert
    VEC(DimBinding) dims;
    // ENTRY_TRAIN and ENTRY_EVAL read inputs of kind "data" through the row table: element (i, ...)
    // of the batch is row rows[cursor + i] of the data set. Codegen implements this; in the graph
    // and the evaluator it is an ordinary input.
    bool rows;
    const char *cursor;   // the cell that holds the first row, or NULL
    VEC(Unfused) refused; // softmaxes of products that are not one kernel (passes/attention/)
    VEC(Again) again;     // (passes/recompute/)
    int64_t batch;        // examples per execution (all micro-batches), 1 if there is no batch
    Loc loc;
} Entry;

typedef struct Module {
    Arena *arena;
    Diags *diags;
    const char *name;          // of the file, without path and suffix
    const char *stage;         // read from a dump: the pass after which it was printed; else NULL
    VEC(const char *) symbols; // symbols.at[0] = NULL
    VEC(Cell) cells;           // parameters first, in order of definition; names are unique
    VEC(Entry) entries;
    VEC(const char *) again; // patterns of layers that the backward part recomputes (`recompute`)
    VEC(const char *) notes; // errors in entries that were left out
    StrMap cell_index;       // name -> (void *)(index + 1)
} Module;

Module *module_new(Arena *a, Diags *d, const char *name);
// c->name must be new; the result is valid until the next call.
Cell *module_add_cell(Module *m, const Cell *c);
Cell *module_cell(const Module *m, const char *name); // NULL when absent
Entry *module_entry(Module *m, const char *name);     // NULL when absent
// Keeps only these entries and the cells they use; if one of them trains, all parameters and
// states, since a checkpoint holds all of the file.
void module_keep(Module *m, const char *const *names, uint32_t n);

// -- text form (ir/print.c, frontend/read_graph.c) ------------------------------------------------

// A whole module as legal .net text of primitives: cells, entries, every attribute, exact floats,
// and the pass after which it was printed. The frontend reads it back to an equal module.
void module_print(const Module *m, const char *stage, Buf *out);

#endif
