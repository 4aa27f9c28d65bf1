// The result of the fuse pass on a graph: which values are stored, which are computed together, and
// why not more.
//
// A node is MATERIALIZED if some kernel stores it to a buffer; all others are recomputed wherever
// they are read (lowering follows operands from a group's outputs to materialized nodes and
// leaves).
#ifndef IR_FUSION_H
#define IR_FUSION_H

#include "ir/graph.h"

typedef enum GroupKind {
    GROUP_MAP,    // elementwise over one index space; no reduction inside
    GROUP_ROW,    // reductions over the inner axes of one row space, several stages
    GROUP_COLUMN, // reductions over outer axes, inner axes kept
    GROUP_DOT, // one contraction with the epilogue that the library supports, or a generated kernel
    GROUP_LOOP, // a loop node: its region has a fusion of its own
    GROUP_CALL, // a call: one kernel, which stores its results and nothing else from its region
    GROUP_SCAN, // sort, argsort, cumsum
    GROUP_SCATTER,
} GroupKind;

typedef struct ConcatPart {
    const Node *whole; // the concatenation; NULL: none
    int64_t at;        // offset along its axis
} ConcatPart;

typedef struct Group {
    GroupKind kind;
    uint32_t id;     // index in Fusion.groups
    uint32_t launch; // groups with the same launch run in one kernel, in parallel
    // Materialized nodes that this group stores, in order of ids. A root (output, assign) is among
    // them if nothing else stores its operand; otherwise it is in no group, and the planner gives
    // operand and root the same memory or copies.
    VEC(Node *) outs;
    // ROW: the members of outs that are reductions over all rows of values that this group computes
    // or reads, and values computed from these column by column.
    VEC(Node *) folded;
    // DOT, LOOP, SCAN, SCATTER, CALL: the node itself. The outs of a CALL with several results are
    // its gets.
    Node *anchor;
    ConcatPart *parts; // CALL: where each of outs is stored; NULL: each in memory of its own
    unsigned epilogue; // DOT: TargetEpilogue bits that the library applies
    Node *bias;        // DOT: the bias added
    Node *residual;    // DOT: the stored value of the result's size added
    // DOT: the operand of a backward epilogue. If this group stores it: the value before its
    // activation.
    Node *aux;
    // DOT: nodes between the product and what the group stores. They are computed here even if
    // another group stores them, too.
    Node **inner;
    int ninner;
    // MAP: a concatenation whose parts are stored by the kernels that compute them, so that no
    // kernel is left.
    bool assembled;
    // DOT: operands as stored, before views that the library can read through.
    Node *prologue_a, *prologue_b;
} Group;

static inline bool group_computes(const Group *g, const Node *n)
{
    for (int i = 0; i < g->ninner; i++)
        if (g->inner[i] == n) return true;
    return false;
}

typedef enum UnfusedCause { // messages: passes/fuse/fuse_reasons.c; documented in docs/fusion.md
    WHY_CONTRACTION,        // crosses a matmul
    WHY_ROWS,               // different row spaces
    WHY_COST,               // several consumers, and recomputing is expensive
    WHY_SIZE,               // the kernel would exceed its size limit
    WHY_ARGS,               // too many buffers for one kernel
    WHY_CYCLE,              // would wait for itself
    WHY_LOOP,               // crosses a loop
    WHY_SCAN,               // sorted, scanned or scattered value
    WHY_ROOT,               // the value is an output or a state and is stored anyway
    WHY_UPDATE,             // updates of parameters run together at the end
    WHY_OPTION,             // a pass was switched off
    WHY_FEW_ROWS, // too few rows: partial sums would be as large as the values they save reading
    WHY_MANY_COLUMNS, // a block cannot hold a partial sum for every column
    WHY_SCORES,       // attention: something else reads scores
    WHY_FORM,         // attention: a product reads them in a form that no kernel takes
    WHY_HEAD,         // attention: a head dimension that no kernel takes
    WHY_SHORT,        // attention: too few rows or columns
    WHY_WHOLE,        // chunks: something reads a large product as a whole
    WHY_EXTERN,       // crosses user-written kernels
    WHY_TURNED,       // stored in another order for readers that access it across
    WHY_COUNT
} UnfusedCause;

typedef struct Unfused {
    const Node *producer, *consumer;
    UnfusedCause cause;
    int64_t a, b; // numbers for the cause's message
} Unfused;

typedef struct Fusion {
    VEC(Group) groups;
    uint32_t *group_of; // by node id: 1 + index of the group that stores it; 0: not stored
    uint32_t launches;
    VEC(Unfused) unfused;
} Fusion;

#endif
