// Places of values in the space of the scores: which atoms each of their axes runs over.
#include <string.h>

#include "passes/attention/attention.h"

AtomSet place_axis(const Place *p, int axis)
{
    AtomSet set = 0;
    for (int i = p->start[axis]; i < p->start[axis + 1]; i++) set |= atom_bit(p->atom[i]);
    return set;
}

AtomSet place_atoms(const Place *p)
{
    AtomSet set = 0;
    for (int i = 0; i < p->start[p->rank]; i++) set |= atom_bit(p->atom[i]);
    return set;
}

bool place_equal(const Place *a, const Place *b)
{
    return a->rank == b->rank && !memcmp(a->start, b->start, (size_t)a->rank + 1) &&
           !memcmp(a->atom, b->atom, a->start[a->rank]);
}

// Appends axis [from] of p to out.
static void push_axis(Place *out, const Place *p, int from)
{
    int n = out->start[out->rank];
    for (int i = p->start[from]; i < p->start[from + 1]; i++) out->atom[n++] = p->atom[i];
    out->start[++out->rank] = (uint8_t)n;
}

static void push_none(Place *out)
{
    out->start[out->rank + 1] = out->start[out->rank];
    out->rank++;
}

// The place of a reshape to type t if its operand has place p.
static bool reshaped(const Space *s, const Place *p, const Type *t, Place *out, Split *split)
{
    int at = 0, end = p->start[p->rank];
    *out = (Place){0};
    for (int k = 0; k < t->rank; k++) {
        int64_t have = 1;
        int n = out->start[k];
        while (have < t->dim[k]) {
            if (at == end) return false;
            int64_t size = s->size[p->atom[at]], rest = t->dim[k] / have;
            if (size > rest) { // the remaining factor of the atom belongs to the next axis
                if (t->dim[k] % have || size % rest) return false;
                *split = (Split){p->atom[at], size / rest};
                return false;
            }
            have *= size;
            out->atom[n++] = p->atom[at++];
        }
        if (have != t->dim[k]) return false;
        out->start[k + 1] = (uint8_t)n;
        out->rank++;
    }
    return at == end;
}

bool place_below(const Space *s, const Node *n, const Place *p, uint32_t k, Place *out,
                 Split *split)
{
    int nd;
    split->atom = -1;
    const Type *t = &n->args[k]->type;
    *out = (Place){0};
    if (node_class(n) == CLS_ELEMENTWISE) {
        *out = *p;
        return true;
    }
    if (n->op == OP_permute) {
        const int64_t *perm = attr_ints(n, ATTR_perm, NULL);
        for (int i = 0; i < t->rank; i++)
            for (int j = 0; j < t->rank; j++)
                if (perm[j] == i) push_axis(out, p, j);
        return true;
    }
    if (n->op == OP_broadcast) {
        const int64_t *dims = attr_ints(n, ATTR_dims, &nd);
        for (int i = 0; i < nd; i++)
            if (t->dim[i] == n->type.dim[dims[i]])
                push_axis(out, p, (int)dims[i]);
            else
                push_none(out);
        return true;
    }
    return n->op == OP_reshape && reshaped(s, p, t, out, split);
}

bool place_above(const Space *s, const Node *n, const Place *p, Place *out, Split *split)
{
    split->atom = -1;
    *out = (Place){0};
    if (node_class(n) == CLS_ELEMENTWISE) {
        *out = *p;
        return true;
    }
    if (n->op == OP_permute) {
        const int64_t *perm = attr_ints(n, ATTR_perm, NULL);
        for (int i = 0; i < n->type.rank; i++) push_axis(out, p, (int)perm[i]);
        return true;
    }
    return n->op == OP_reshape && reshaped(s, p, &n->type, out, split);
}

bool place_summed(const Space *s, const Node *sum, const Place *p, Place *out)
{
    int naxes, from = 0;
    const int64_t *axes = attr_ints(sum, ATTR_axes, &naxes);
    const Type *t = &sum->args[0]->type;
    bool found = false;
    *out = (Place){0};
    for (int i = 0; i < t->rank; i++) {
        bool summed = false;
        for (int k = 0; k < naxes; k++) summed |= axes[k] == i;
        if (!summed) {
            push_axis(out, p, from++);
        } else if (t->dim[i] == 1) {
            push_none(out);
        } else {
            if (found || t->dim[i] != s->size[space_col(s)]) return false;
            int n = out->start[out->rank];
            out->atom[n] = (uint8_t)space_col(s);
            out->start[++out->rank] = (uint8_t)(n + 1);
            found = true;
        }
    }
    return found && !(place_atoms(p) & atom_bit(space_col(s)));
}
