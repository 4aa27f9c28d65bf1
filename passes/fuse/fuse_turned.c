// Small values that large ones read across: a depthwise convolution's weights (C, size, size), of
// which neighbouring channels each take one at a time. A vector of them would be as many loads,
// again for each pixel, so a copy in the order in which they are read is stored first.
#include "ir/strides.h"
#include "passes/fuse/fuse.h"

enum {
    REPEATS = 64,         // each element is read this often at least,
    LARGE = 1 << 22,      // by a reader with this many elements at least: a launch is cheap
                          // compared with it
    LEAST_NEIGHBOURS = 8, // and the axis has this many elements at least
};

static bool is_widened(const Node *n)
{
    return n->op == OP_cast && dtype_is_float(n->type.dtype) &&
           dtype_is_float(n->args[0]->type.dtype) &&
           dtype_info[n->type.dtype].bits > dtype_info[n->args[0]->type.dtype].bits;
}

static bool from_leaf(const Fuse *f, const Node *n)
{
    while (n->op == OP_cast || node_has(n, OPF_STRIDES)) n = n->args[0];
    return fuse_in_memory(f, n);
}

// The axis of the operand that is the innermost one of the broadcast; -1: none.
static int innermost(const Node *broadcast)
{
    const Type *t = &broadcast->type, *from = &broadcast->args[0]->type;
    const int64_t *dims = attr_ints(broadcast, ATTR_dims, NULL);
    int last = t->rank - 1;
    while (last >= 0 && t->dim[last] == 1) last--;
    for (int i = 0; i < from->rank; i++)
        if (dims[i] == last && from->dim[i] == t->dim[last]) return i;
    return -1;
}

// The value to store for this reader; NULL: none, its operand is read as it is.
static Node *turned_for(const Fuse *f, const Node *n)
{
    if (n->op != OP_broadcast || type_count(&n->type) < LARGE) return NULL;
    Node *a = n->args[0];
    const int axis = innermost(n);
    Strides s;
    if (axis < 0 || a->type.dim[axis] < LEAST_NEIGHBOURS) return NULL;
    if (type_count(&n->type) / REPEATS < type_count(&a->type)) return NULL;
    while (is_widened(a)) a = a->args[0];
    const Node *stored = a;
    while (node_has(stored, OPF_STRIDES)) stored = stored->args[0];
    if (!from_leaf(f, stored) || !strides_through(a, stored, &s)) return NULL;
    return s.step[axis] > 1 ? a : NULL;
}

void fuse_turn(Fuse *f)
{
    if (!f->target || f->target->kind != TARGET_CUDA)
        return; // (loops on a CPU keep them in a cache)
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *n = f->live[i] ? turned_for(f, f->g->nodes.at[i]) : NULL;
        if (!n) continue;
        f->forced[n->id] = true;
        f->turned[n->id] = type_count(&f->g->nodes.at[i]->type) / type_count(&n->type);
    }
}
