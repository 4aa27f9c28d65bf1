// Calls store their results directly into a concatenation of these.
//
// The gradients of queries, keys and values are parts of the gradient of one projection, and
// attention computes them in separate kernels. A concatenation that is stored and is the only
// reader of such results needs no kernel of its own: the calls store into it (Group.parts).
#include "passes/fuse/fuse.h"

// The result of a call that operand k of the concatenation is, possibly reshaped. NULL: it is
// something else, or has other readers.
static const Node *call_result(const Fuse *f, const Node *concat, uint32_t k)
{
    const Node *n = concat->args[k];
    for (; f->uses[n->id] == 1 && !f->mat[n->id] && node_keeps_all(n); n = n->args[0])
        if (n->type.dtype != n->args[0]->type.dtype) return NULL;
    const Node *call = node_has(n, OPF_RESULT) ? n->args[0] : n;
    bool stored = call->op == OP_call && (call != n || node_result_count(n) == 1);
    return stored && f->mat[n->id] && f->uses[n->id] == 1 ? n : NULL;
}

static bool kept_by_root(const Fuse *f, const Node *n)
{
    for (uint32_t i = 0; i < f->g->roots.n; i++)
        if (f->g->roots.at[i]->args[0] == n) return true;
    return false;
}

static bool can_assemble(const Fuse *f, const Slot *s)
{
    if (s->group.kind != GROUP_MAP || s->group.outs.n != 1 || s->commits || s->checks) return false;
    const Node *n = s->group.outs.at[0];
    if (n->op != OP_concat || kept_by_root(f, n)) return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (!call_result(f, n, k)) return false;
    return true;
}

// The slot of [owner] that stores n, as a part of its group.
static ConcatPart *part_of(Fuse *f, Slots *slots, const uint32_t *owner, const Node *n)
{
    Group *g = &slots->at[owner[n->id] - 1].group;
    if (!g->parts) g->parts = NEW_ARRAY(f->a, ConcatPart, g->outs.n);
    uint32_t k = 0;
    while (g->outs.at[k] != n) k++;
    return &g->parts[k];
}

void fuse_assemble(Fuse *f, Slots *slots)
{
    if (!f->top) return; // the buffers of a loop change between iterations
    uint32_t *owner = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1); // by id: its slot + 1
    for (uint32_t i = 0; i < slots->n; i++)
        for (uint32_t k = 0; k < slots->at[i].group.outs.n; k++)
            owner[slots->at[i].group.outs.at[k]->id] = i + 1;
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *s = &slots->at[i];
        if (!can_assemble(f, s)) continue;
        const Node *whole = s->group.outs.at[0];
        int64_t at = 0;
        for (uint32_t k = 0; k < whole->nargs; k++) {
            *part_of(f, slots, owner, call_result(f, whole, k)) = (ConcatPart){whole, at};
            at += whole->args[k]->type.dim[attr_int(whole, ATTR_axis, 0)];
        }
        s->group.assembled = true;
    }
}
