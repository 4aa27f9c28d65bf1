// Dots in terms of the space of the scores: those that compute scores, and those that sum over
// them.
#include <string.h>

#include "passes/attention/attention.h"

// -- operands -------------------------------------------------------------------------------------

// Whether axis [at] of the last view has stride 1 in the base.
static bool reads_innermost(const Operand *op)
{
    int64_t at = op->rest;
    for (int i = 0; i < op->nviews; i++) {
        const Node *v = op->view[i];
        const Type *in = &v->args[0]->type;
        int nd, last = v->type.rank - 1, below = in->rank - 1;
        switch (v->op) {
        case OP_permute: at = attr_ints(v, ATTR_perm, NULL)[at]; break;
        case OP_slice:
            if (attr_ints(v, ATTR_stride, NULL)[at] != 1) return false;
            break;
        case OP_broadcast: {
            const int64_t *dims = attr_ints(v, ATTR_dims, &nd);
            int found = -1;
            for (int k = 0; k < nd; k++)
                if (dims[k] == at) found = k;
            if (found < 0 || in->dim[found] != v->type.dim[at]) return false;
            at = found;
            break;
        }
        case OP_reshape:
            while (last > at && v->type.dim[last] == 1) last--;
            while (below > 0 && in->dim[below] == 1) below--;
            if (last != at || in->dim[below] % v->type.dim[at]) return false;
            at = below;
            break;
        default: break;
        }
    }
    return at == op->base->type.rank - 1;
}

static bool is_view(const Node *n)
{
    return node_has(n, OPF_STRIDES) || n->op == OP_slice;
}

// Sets op->base, the value that x is a view of: as far upstream as the element type is the same,
// looking through exact casts and a constant factor.
void operand_find_base(Operand *op)
{
    DType t = op->type;
    Node *n = op->x;
    double factor = 1, v;
    int nviews = 0;
    op->base = n;
    op->factor = 1;
    op->nviews = 0;
    for (int steps = 0; steps < 3 * MOST_VIEWS; steps++) {
        if (n->type.dtype == t) {
            op->base = n;
            op->factor = factor;
            op->nviews = nviews;
        }
        if (is_view(n) && nviews < MOST_VIEWS) {
            op->view[nviews++] = n;
            n = n->args[0];
        } else if (n->op == OP_cast && t != DT_F32 && // a cast from T to f32 and back to T is exact
                   (n->args[0]->type.dtype == t || n->args[0]->type.dtype == DT_F32)) {
            n = n->args[0];
        } else if (n->op == OP_mul && node_const_value(n->args[1], &v)) {
            factor *= v;
            n = n->args[0];
        } else if (n->op == OP_mul && node_const_value(n->args[0], &v)) {
            factor *= v;
            n = n->args[1];
        } else if (n->op == OP_div && node_const_value(n->args[1], &v) && v != 0) {
            factor /= v;
            n = n->args[0];
        } else {
            break;
        }
    }
    op->inner = reads_innermost(op);
}

static bool is_product(const Node *n)
{
    DType t = n->args[0]->type.dtype;
    return n->op == OP_dot && t == n->args[1]->type.dtype && t != DT_F64 && dtype_is_float(t) &&
           attr_int(n, ATTR_accumulate, DT_F32) == DT_F32;
}

// Gives axis k of the operand the atoms of axis [from] of p.
static void put_axis(Place *out, int k, const Place *p, int from)
{
    int n = out->start[k];
    for (int i = p->start[from]; i < p->start[from + 1]; i++) out->atom[n++] = p->atom[i];
    out->start[k + 1] = (uint8_t)n;
    out->rank = k + 1;
}

// The place of operand [side]. Its free axes are those of the result from [first] on.
static void operand_place(const Node *n, int side, const Place *p, int first, Place *out)
{
    DotAxes d = dot_axes(n, side);
    *out = (Place){0};
    for (int k = 0; k < n->args[side]->type.rank; k++) {
        int from = -1;
        for (int i = 0; i < d.nbatch; i++)
            if (d.batch[i] == k) from = i;
        for (int i = 0; i < d.nfree; i++)
            if (d.free[i] == k) from = first + i;
        out->start[k + 1] = out->start[k];
        out->rank = k + 1;
        if (from >= 0) put_axis(out, k, p, from);
    }
}

// Removes views from x that only repeat it along an atom. *split: an atom that must be divided.
static void drop_repeats(const Space *s, Operand *op, Split *split)
{
    Space with = *s;
    Place p = {0}, below;
    int64_t rest = op->x->type.dim[op->rest];
    split->atom = -1;
    if (rest == 1 || s->n == MOST_ATOMS) return;
    with.size[with.n++] = rest; // a temporary atom for the axis [rest], which has none
    for (int k = 0; k < op->place.rank; k++) {
        put_axis(&p, k, &op->place, k);
        if (k == op->rest) p.atom[p.start[k + 1]++] = (uint8_t)s->n;
    }
    for (Node *n = op->x; node_has(n, OPF_STRIDES) || is_rounding(n); n = n->args[0]) {
        bool spreads = n->op == OP_broadcast;
        if (!place_below(&with, n, &p, 0, &below, split)) {
            if (split->atom == s->n)
                split->atom = -1; // (the temporary atom is not part of the
                                  // space)
            return;
        }
        p = below;
        for (int k = 0; spreads && k < p.rank; k++) {
            if (place_axis(&p, k) != atom_bit(s->n)) continue;
            op->x = n->args[0];
            op->rest = k;
            op->place = p;
            for (int i = k + 1; i <= p.rank; i++) op->place.start[i]--;
            memmove(&op->place.atom[p.start[k]], &op->place.atom[p.start[k + 1]],
                    (size_t)(p.start[p.rank] - p.start[k + 1]));
        }
    }
}

AtomSet operand_varies(const Space *s, const Node *n, int side, const Place *p, Split *split)
{
    DotAxes d = dot_axes(n, 0);
    Operand op = {.x = n->args[side], .rest = dot_axes(n, side).contract[0]};
    operand_place(n, side, p, side ? d.nbatch + d.nfree : d.nbatch, &op.place);
    drop_repeats(s, &op, split);
    return place_atoms(&op.place);
}

bool inner_dot(const Space *s, const Node *n, const Place *p, Operand out[2])
{
    if (!is_product(n)) return false;
    AtomSet row = atom_bit(space_row(s)), col = atom_bit(space_col(s)), atoms[2];
    DotAxes d = dot_axes(n, 0);
    Operand op[2] = {0};
    Split split;
    if (d.ncontract != 1) return false;
    for (int side = 0; side < 2; side++) {
        op[side].x = n->args[side];
        op[side].type = n->args[side]->type.dtype;
        op[side].rest = dot_axes(n, side).contract[0];
        operand_place(n, side, p, side ? d.nbatch + d.nfree : d.nbatch, &op[side].place);
        if ((place_atoms(&op[side].place) & (row | col)) == (row | col))
            drop_repeats(s, &op[side], &split);
        atoms[side] = place_atoms(&op[side].place) & (row | col);
    }
    int first = atoms[0] == col;
    if (atoms[first] != row || atoms[!first] != col) return false;
    for (int i = 0; i < 2; i++) {
        out[i] = op[i ^ first];
        operand_find_base(&out[i]);
    }
    return true;
}

bool outer_dot(const Space *s, const Node *n, int side, const Place *p, Operand *other,
               Place *result, int *rest, int *over)
{
    AtomSet row = atom_bit(space_row(s)), col = atom_bit(space_col(s));
    DotAxes z = dot_axes(n, side), v = dot_axes(n, !side);
    if (!is_product(n) || z.ncontract != 1 || v.nfree != 1) return false;
    AtomSet sum = place_axis(p, (int)z.contract[0]);
    Split split;
    if ((sum != row && sum != col) || (place_atoms(p) & (row | col)) != (row | col)) return false;
    *over = sum == row ? space_row(s) : space_col(s);
    // Axes of the result: batch axes, then the free axes of the first operand, then those of the
    // second.
    *result = (Place){0};
    int at = 0;
    for (int i = 0; i < z.nbatch; i++) put_axis(result, at++, p, (int)z.batch[i]);
    for (int k = 0; k < 2; k++) {
        if (k == side) {
            for (int i = 0; i < z.nfree; i++) put_axis(result, at++, p, (int)z.free[i]);
        } else {
            *rest = at;
            result->start[at + 1] = result->start[at];
            result->rank = ++at;
        }
    }
    *other = (Operand){.x = n->args[!side], .type = n->args[!side]->type.dtype, .rest = v.free[0]};
    for (int k = 0; k < other->x->type.rank; k++) {
        other->place.start[k + 1] = other->place.start[k];
        other->place.rank = k + 1;
        for (int i = 0; i < v.nbatch; i++)
            if (v.batch[i] == k) put_axis(&other->place, k, p, (int)z.batch[i]);
        if (v.contract[0] == k) put_axis(&other->place, k, p, (int)z.contract[0]);
    }
    if ((place_atoms(&other->place) & (row | col)) == (row | col)) drop_repeats(s, other, &split);
    if (place_atoms(&other->place) & (row | col) & ~sum) return false;
    operand_find_base(other);
    return true;
}

// -- in a region ----------------------------------------------------------------------------------

// A parameter for a copy of x in which the axis [rest] has stride 1. p: its place.
static Node *copied(Lift *l, const Operand *op, Place *p)
{
    Arg arg = {.old = op->base, .nviews = op->nviews, .type = op->type};
    Type t = type_make(op->type, 0, NULL);
    for (int i = 0; i < op->nviews; i++) arg.view[i] = op->view[i];
    *p = (Place){0};
    for (int k = 0; k <= op->x->type.rank; k++) {
        int from = k < op->x->type.rank ? k : (int)op->rest;
        if (k == op->rest) continue;
        arg.perm[arg.nperm++] = from;
        t.dim[t.rank++] = op->x->type.dim[from];
        put_axis(p, p->rank, &op->place, from);
    }
    return lift_arg(l, &arg, &t);
}

Node *operand_views(Graph *g, const Operand *op, Node *x)
{
    for (int i = op->nviews; i-- > 0;)
        x = graph_node(g, op->view[i]->op, &x, 1, op->view[i]->attrs);
    return x;
}

Node *lift_operand(Lift *l, const Operand *op, AtomSet atoms)
{
    Place p = op->place;
    int rest = (int)op->rest;
    Node *x;
    if (op->inner && !l->start) {
        Type t = op->base->type;
        t.dtype = op->type;
        x = lift_arg(l, &(Arg){.old = op->base, .type = op->type}, &t);
        x = operand_views(l->g, op, x);
    } else { // (in a loop it would be copied in every iteration)
        x = copied(l, op, &p);
        rest = x->type.rank - 1;
    }
    x = lift_canonical(l, x, &p, rest);
    return x ? lift_spread(l, x, place_atoms(&p), atoms) : NULL;
}

Lifted lift_inner(Lift *l, const Node *n, const Operand op[2])
{
    AtomSet all = place_atoms(&op[0].place) | place_atoms(&op[1].place);
    AtomSet row = atom_bit(space_row(&l->space)), col = atom_bit(space_col(&l->space));
    AtomSet keep[2] = {all & ~col, all & ~row};
    Node *x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = lift_operand(l, &op[i], keep[i]);
        if (!x[i]) return (Lifted){0};
    }
    int64_t batch[MAX_RANK], last = x[0]->type.rank - 1;
    int nbatch = (int)last - 1;
    for (int i = 0; i < nbatch; i++) batch[i] = i;
    graph_stamp(l->g, n, n->name);
    Node *y =
        graph_dot(l->g, x[l->turned], x[!l->turned], batch, batch, nbatch, &last, &last, 1, DT_F32);
    Lifted v = {y, all};
    double factor = op[0].factor * op[1].factor;
    if (factor == 1) return v;
    return lift_ew(l, OP_mul, (Lifted[]){v, lift_number(l, factor)}, 2, NULL);
}
