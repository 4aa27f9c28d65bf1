// Shared by the files behind graph_node, the only constructor of nodes ("the door"): graph.c,
// infer*.c, fold.c, verify.c, equal.c. Private to ir/.
#ifndef IR_DOOR_H
#define IR_DOOR_H

#include "ir/graph.h"

// A node that is about to be created, as type rules see it. out is the type of result 0.
typedef struct Infer {
    Arena *arena;
    Diags *diags;
    const char *const *symbols;
    Loc loc;
    Op op;
    Node *const *args;
    int nargs;
    const Attrs *attrs;
    Graph *const *regions;
    int nregions;
    Type out;
    bool kept; // the attributes are those of a node, already in the graph's memory
} Infer;

// Checks arity and attributes, then runs the op's type rule. Reports one error and returns false if
// something does not fit.
bool infer_type(Infer *in);

// Returns an existing or new node of g that equals the node to be created, bit by bit, or NULL.
Node *fold_node(Graph *g, const Infer *in);

// Finds an equal node, or appends one of the given type: no inference, no folding.
Node *graph_intern(Graph *g, const Infer *in);

// Creates the op of [old] (of src) on operands of the same types as those of [old], so that the
// result has the type of [old]. [folds]: the operands may differ from those of [old], so folding
// may apply.
Node *graph_repeat(Graph *g, const Graph *src, const Node *old, Node *const *args, bool folds);
// Reserves memory for so many nodes in a graph without any.
void graph_reserve(Graph *g, uint32_t nodes);

// To be called when ids have changed. The index of nodes is rebuilt when the next one is created.
void graph_drop_index(Graph *g);

const AttrValue *attrs_find(const Attrs *a, AttrKey k);
int64_t attrs_int(const Attrs *a, AttrKey k, int64_t otherwise);
const int64_t *attrs_ints(const Attrs *a, AttrKey k, int *count);
bool attrs_equal(const Attrs *a, const Attrs *b);
uint64_t attrs_hash(const Attrs *a, uint64_t seed);

#endif
