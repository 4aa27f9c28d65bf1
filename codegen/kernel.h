// The interface between planning and lowering: it takes one launch of a fused graph and returns
// kernels.
#ifndef CODEGEN_KERNEL_H
#define CODEGEN_KERNEL_H

#include "codegen/program.h"
#include "ir/fusion.h"
#include "ir/module.h"
#include "ir/target.h"

typedef enum KernelArgKind {
    // The buffer of [node]: a materialized node (group_of != 0), a leaf (input, param, state,
    // region_param, a const with `values`), a `get` of a region op, or a root stored by its group
    // (assign, output). Row-major, whole elements of the node's type. Never a scalar const: those
    // are literals in the text.
    KA_NODE,
    KA_ERROR,      // the entry's ProgError
    KA_ROWS,       // the row table (i32)
    KA_CURSOR,     // the cell entry->cursor (i64 scalar), read on the device
    KA_LOOP_INDEX, // i64 value: iteration of the loop that encloses this region [node: the
                   // region_param]
    KA_INT, // the i64 constant [value]: differences between otherwise equal kernels (a random op's
            // site, the number of a check) are arguments, so that such kernels are compiled once
    KA_SCRATCH, // scratch buffer number [scratch] of this launch: equal numbers in the kernels
                // of one lower_launch call are one buffer, live between them
} KernelArgKind;

typedef struct KernelArg {
    KernelArgKind kind;
    const Node *node;      // KA_NODE, KA_LOOP_INDEX
    int scratch;           // KA_SCRATCH
    DType scratch_type;    // KA_SCRATCH: of an element
    int64_t scratch_bytes; // KA_SCRATCH
    int64_t value;         // KA_INT
    bool written;          // otherwise it is only read
    // KA_NODE: of the arguments with the same same_as >= 0, each thread accesses only one common
    // element, all reads before all writes: one that is read and one that is written may share a
    // buffer. -1: none.
    int same_as;
    bool updates; // only the changed part of a state is written, so it must be stored in place
} KernelArg;

struct Body;
typedef struct LoweredKernel {
    ProgKernel prog;
    const char *contract; // its arguments as text, if launches are logged
    struct Body **body;   // what it computes, with the schedules (ir/body.h)
    int nbodies;
    KernelArg *args; // in call order
    int nargs;
    Loc loc;      // the line of the model that it computes
    bool commits; // writes a cell: checks the error record first
} LoweredKernel;

// Schedules chosen by measurement or by hand, by Body.key, as the text of knobs.h.
typedef struct ScheduleSource {
    const char *(*find)(void *ctx, uint64_t body); // NULL: the cost model's choice
    // Reports a text that could not be used, and why. stale: it was valid for another kind of
    // schedule.
    void (*wrong)(void *ctx, uint64_t body, const char *why, bool stale);
    void *ctx;
} ScheduleSource;

typedef struct Repeats Repeats;

// Whether a node's buffer may be a cell (the assigned value is written in place), so that the
// kernel must respect the error record; and whether the node changes a part of that cell and only
// the part is written.
typedef enum Commit { COMMIT_NONE, COMMIT_WHOLE, COMMIT_PART } Commit;

// What lowering needs to know about an entry; one for all launches of the entry, including its
// regions. Zero it, fill in the first block, and keep it.
typedef struct LowerCtx {
    Arena *arena;
    Diags *diags;
    const Target *target;
    const Module *module;
    const Entry *entry;
    const ScheduleSource *schedules; // NULL: the cost model's
    // A Commit for each node id of the graph being lowered. NULL: only nodes that are `assign`
    // roots commit. Set for each graph.
    const uint8_t *commits;
    bool tf32;      // f32 contractions may use tensor cores
    bool is_region; // the graph is a region: region_param 0 of a loop is KA_LOOP_INDEX
    // For the region of a loop: parameters 1 to [carried] change from iteration to iteration;
    // [initial]: a step that is not a kernel lies between the code before the loop and its
    // iterations.
    int64_t carried;
    bool initial;
    int64_t part; // columns of a part of column reductions; 0: chosen by the cost model
    // Printed kernels by kernel_text_key, in the same arena: equal kernels reuse their text. NULL:
    // each launch is lowered and each kernel printed.
    IdMap *printed;
    // Private to launch/repeat.c: lowered launches by graph; and those of the last launch, if it
    // may be one of several equal ones.
    Repeats *repeats, *repeat;

    // Collected while lowering; becomes ProgEntry.checks.
    VEC(ProgCheck) checks;
    unsigned prelude_parts; // PRELUDE_*: those that some kernel may need
} LowerCtx;

// Parts of the CUDA prelude that few programs have: for products by groups of warps
// (tile/groups.c); for sorts by digits (lower_radix.c).
enum { PRELUDE_GROUPS = 1, PRELUDE_RADIX = 2 };

// Lowers the groups of one launch (equal Group.launch), except GROUP_LOOP, and GROUP_DOT if it goes
// to the matmul library: for that the planner creates a ProgGemm. Returns the number of kernels to
// run in order (usually 1; reductions split over blocks need 2) and stores them in *out, or reports
// through ctx->diags and returns -1.
int lower_launch(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups, LoweredKernel **out);

// "nc_follow();" as a line if a kernel with so many blocks should begin before the preceding kernel
// has ended, else "". p: its minimum time.
const char *cuda_first_words(const Target *t, const ProgKernel *p, int64_t blocks, int threads);
// The text before every kernel of the target (Program.prelude), with these parts.
const char *lower_prelude(Arena *a, const Target *t, unsigned parts);

#endif
