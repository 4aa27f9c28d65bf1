// Private to padding: products whose operands are padded (fuse_pad.c), and what follows them
// (fuse_padded.c).
#ifndef PASSES_FUSE_PAD_H
#define PASSES_FUSE_PAD_H

#include "passes/fuse/fuse.h"

typedef struct Form { // what a node is padded to
    Node *node;       // NULL: the node is not padded
    double fill;      // value of the additional elements; NAN: unknown
    bool of_finite;   // the fill follows from a product's zeros: it holds if operands are finite
} Form;

typedef struct Pad {
    Graph *dst;
    Remap map;             // to new values with the original shape
    Form *form;            // by old id
    int *dots;             // by old id: number of products that read the stored operand
    bool *multiplied;      // by old id: a product reads it, possibly reordered or reshaped
    bool *follows, *stays; // by old id of a reduction: it reads the padded operand; it must not
    const PassOptions *options;
    const Target *target;
} Pad;

bool pad_has_extents(const Type *t, const int64_t *want);
// n with the wanted sizes: unchanged, as padded before, or a padded copy. For a permute, the
// operand is padded, and the result is still a permute. zeros: the additional elements must be 0.
Form pad_operand(Pad *p, const Node *n, const int64_t *want, bool zeros);
// n in the new graph: padded, if its operands are and nothing has to be copied for it.
void pad_follow(Pad *p, Node *n);
// Finds reductions that follow beside one of the same values that cannot, as it reads others, too:
// they would no longer be one kernel. Returns whether there are any.
bool pad_stays(Pad *p, const Graph *g);

#endif
