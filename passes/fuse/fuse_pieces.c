// A map that stores a concatenation of equal pieces is merged with maps of values that have the
// size of a piece.
//
// Example: the gradients of an LSTM's gates are the pieces of one value, and the gradient of its
// cell is computed from the same gates. As two maps of a launch, both would compute the gates. As
// one group they are one loop over the elements of a piece (codegen/lower/lower_map.c). A carried
// value may be updated in place there, since each of its elements is read and written by one
// thread.
#include "passes/fuse/fuse.h"

static const Node *value_of(const Node *n) // the value that is stored for n
{
    return node_class(n) == CLS_ROOT ? n->args[0] : n;
}

// If n, looking through elementwise code with one operand, is a concatenation of parts of one
// shape: the concatenation. Otherwise NULL.
static const Node *pieces_of(const Fuse *f, const Node *n)
{
    n = value_of(n);
    for (const Node *stored = n; n->op != OP_concat; n = n->args[0])
        if (node_class(n) != CLS_ELEMENTWISE || n->nargs != 1 || (n != stored && f->mat[n->id]))
            return NULL;
    for (uint32_t k = 1; k < n->nargs; k++)
        if (!shape_equal(&n->args[k]->type, &n->args[0]->type)) return NULL;
    return n->nargs > 1 ? n : NULL;
}

// The shape that a group must have in common with others to share a loop: that of the parts if it
// is such a concatenation. NULL: its values differ in shape.
static const Type *shape_of(const Fuse *f, const Slot *s, bool *pieces)
{
    const Node *first = value_of(s->group.outs.at[0]), *concat = pieces_of(f, first);
    *pieces = concat != NULL;
    for (uint32_t i = 1; i < s->group.outs.n; i++)
        if (!shape_equal(&value_of(s->group.outs.at[i])->type, &first->type)) return NULL;
    return concat ? &concat->args[0]->type : &first->type;
}

static bool key(const Fuse *f, const Slot *s, uint64_t *of, bool *takes)
{
    if (s->group.kind != GROUP_MAP || s->group.assembled || s->commits || s->checks) return false;
    const Type *t = shape_of(f, s, takes);
    if (t) *of = hash_mix((uint64_t)s->level, (uint64_t)type_count(t));
    return t != NULL;
}

typedef struct Seen {
    uint32_t *own, *at; // by id, marks: stored by the last group looked at; computed by the last
                        // group
} Seen;

// Marks the values that the group computes with [mine]. Returns whether one of them, elementwise
// and of the size of a piece, had the mark [theirs].
static bool mark(Fuse *f, const Slot *s, const Type *piece, Seen seen, uint32_t mine,
                 uint32_t theirs)
{
    Nodes work = {0};
    bool found = false;
    double v;
    for (uint32_t i = 0; i < s->group.outs.n; i++) {
        seen.own[s->group.outs.at[i]->id] = mine;
        vec_push(f->a, &work, s->group.outs.at[i]);
    }
    while (work.n) {
        Node *x = work.at[--work.n];
        bool read = f->mat[x->id] && seen.own[x->id] != mine; // another group stores it
        if (seen.at[x->id] == mine || node_class(x) == CLS_LEAF || read) continue;
        bool counts = node_class(x) == CLS_ELEMENTWISE && !node_const_value(x, &v) &&
                      type_count(&x->type) == type_count(piece);
        found |= counts && seen.at[x->id] == theirs && theirs;
        seen.at[x->id] = mine;
        fuse_push_args(f, &work, x);
    }
    return found;
}

void fuse_pieces(Fuse *f, Slots *slots)
{
    Near near = fuse_near(f, slots, key);
    Seen seen = {NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1),
                 NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1)};
    uint32_t stamp = 0;
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *from = &slots->at[i];
        uint64_t of;
        uint32_t at;
        bool pieces;
        if (!key(f, from, &of, &pieces) || pieces) continue;
        for (NearWalk w = fuse_near_walk(&near, i); fuse_near_next(&w, &at);) {
            Slot *to = &slots->at[at];
            const Type *t = shape_of(f, to, &pieces);
            if (!t || !pieces || to->level != from->level ||
                !shape_equal(t, &value_of(from->group.outs.at[0])->type))
                continue;
            stamp += 2;
            mark(f, to, t, seen, stamp - 1, 0);
            if (!mark(f, from, t, seen, stamp, stamp - 1)) continue;
            to->bytes += from->bytes;
            fuse_take_over(f, to, from);
            break;
        }
    }
    fuse_drop_empty(slots);
}
