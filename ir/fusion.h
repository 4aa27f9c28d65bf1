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
    GROUP_DOT,    // one contraction with the epilogue the library folds in, or a generated one
    GROUP_LOOP,   // a loop node: its region has a fusion of its own
    GROUP_CALL,   // a call: one kernel, which stores its results and nothing else of its region
    GROUP_SCAN,   // sort, argsort, cumsum
    GROUP_SCATTER,
} GroupKind;

typedef struct ConcatPart {
    const Node *whole; // a concatenation; NULL: none
    int64_t at;        // where in it, along its axis
} ConcatPart;

typedef struct Group {
    GroupKind kind;
    uint32_t id;     // index in Fusion.groups
    uint32_t launch; // groups with equal launch run side by side in one kernel
    // Materialized nodes this group stores, ids ascending. A root (output, assign) is among them
    // when nothing else stores its operand; otherwise it is in no group, and whoever plans lets
    // operand and root share a place or copies.
    VEC(Node *) outs;
    // ROW: those of outs that are reductions over all rows of what this group computes or reads,
    // and what follows from these column by column.
    VEC(Node *) folded;
    // DOT, LOOP, SCAN, SCATTER, CALL: the node itself. outs of a CALL with several results: its
    // gets.
    Node *anchor;
    ConcatPart *parts; // CALL: where each of outs is stored; NULL: each in a place of its own
    unsigned epilogue; // DOT: TargetEpilogue bits the library folds in
    Node *bias;        // DOT: the bias added
    // DOT: what a backward epilogue reads; stored by this group: the value before its activation.
    Node *aux;
    // DOT: nodes between the product and what the group stores, computed here even where another
    // group stores them too.
    Node **inner;
    int ninner;
    bool assembled; // MAP: a concatenation that those who compute its parts store: nothing is left
    Node *prologue_a, *prologue_b; // DOT: dot operand as stored, after views the library can take
} Group;

static inline bool group_computes(const Group *g, const Node *n)
{
    for (int i = 0; i < g->ninner; i++)
        if (g->inner[i] == n) return true;
    return false;
}

typedef enum UnfusedCause { // user-facing text in passes/fuse/fuse_reasons.c, documented in
                            // docs/fusion.md
    WHY_CONTRACTION,        // crosses a matmul
    WHY_ROWS,               // different row spaces
    WHY_COST,               // several consumers, recomputing is dear
    WHY_SIZE,               // the kernel would grow past its cap
    WHY_ARGS,               // too many buffers for one kernel
    WHY_CYCLE,              // would wait for itself
    WHY_LOOP,               // crosses a loop
    WHY_SCAN,               // sorted, scanned or scattered value
    WHY_ROOT,               // the value is an output or a state anyway
    WHY_UPDATE,             // updates of parameters run together at the end
    WHY_OPTION,             // a pass was switched off
    WHY_FEW_ROWS,           // too few rows: partial sums would be as large as what is read again
    WHY_MANY_COLUMNS,       // a block cannot hold a partial sum for every column
    WHY_SCORES,             // attention: something else reads scores
    WHY_FORM,               // attention: a product reads them in a form that no kernel takes
    WHY_HEAD,               // attention: a head dimension that no kernel takes
    WHY_SHORT,              // attention: too few rows or columns
    WHY_WHOLE,              // chunks: something reads a large product as a whole
    WHY_EXTERN,             // crosses kernels of the user's own text
    WHY_TURNED,             // stored in another order for those who read it across
    WHY_COUNT
} UnfusedCause;

typedef struct Unfused {
    const Node *producer, *consumer;
    UnfusedCause cause;
    int64_t a, b; // the numbers of the cause's text
} Unfused;

typedef struct Fusion {
    VEC(Group) groups;
    uint32_t *group_of; // by node id: group index + 1 of the group that stores it, 0: not stored
    uint32_t launches;
    VEC(Unfused) unfused;
} Fusion;

#endif
