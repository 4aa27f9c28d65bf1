// Shared by the files behind graph_node, the only constructor of nodes ("the door"): graph.c,
// infer*.c, fold.c, verify.c, equal.c. Private to ir/.
#ifndef IR_DOOR_H
#define IR_DOOR_H

#include "ir/graph.h"

// One node to be: what a type rule sees. out is the type of result 0.
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
    bool kept; // the attributes are a node's, where the graph keeps its own
} Infer;

// The op's own type rule, after checking arity and attributes. Reports one error and returns false.
bool infer_type(Infer *in);

// An existing or newly made node of g that equals the node to be, exactly, or NULL.
Node *fold_node(Graph *g, const Infer *in);

// Finds an equal node, else appends one of the given type: no inference, no folding.
Node *graph_intern(Graph *g, const Infer *in);

// The same op on operands of the types that those of [old], of src, have: of its type. [folds]:
// they may be other nodes than those, of which folding makes less.
Node *graph_repeat(Graph *g, const Graph *src, const Node *old, Node *const *args, bool folds);
// Room for so many nodes, in a graph without any.
void graph_reserve(Graph *g, uint32_t nodes);

// Ids have changed: the index is made again when the next node is.
void graph_drop_index(Graph *g);

const AttrValue *attrs_find(const Attrs *a, AttrKey k);
int64_t attrs_int(const Attrs *a, AttrKey k, int64_t otherwise);
const int64_t *attrs_ints(const Attrs *a, AttrKey k, int *count);
bool attrs_equal(const Attrs *a, const Attrs *b);
uint64_t attrs_hash(const Attrs *a, uint64_t seed);

#endif
