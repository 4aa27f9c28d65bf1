// The space of a softmax: its columns are the summed axis, its rows those of the dot that computes
// the scores; and the scores themselves, up to values that are constant along a row.
#include <string.h>

#include "passes/attention/attention.h"

bool core_space(Core *c)
{
    int naxes;
    const Type *t = &c->e->type;
    const int64_t *axes = attr_ints(c->sum, ATTR_axes, &naxes);
    int col = -1, summed = -1;
    for (int k = 0; k < naxes; k++) {
        if (t->dim[axes[k]] == 1) continue;
        if (summed >= 0) return false;
        summed = (int)axes[k];
    }
    if (summed < 0 || t->rank < 2) return false;
    c->place = (Place){.rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        int n = c->place.start[i];
        if (t->dim[i] != 1 && i != summed) {
            c->space.size[c->space.n] = t->dim[i];
            c->place.atom[n++] = (uint8_t)c->space.n++;
        } else if (i == summed) {
            col = n++;
        }
        c->place.start[i + 1] = (uint8_t)n;
    }
    c->place.atom[col] = (uint8_t)c->space.n;
    c->space.size[c->space.n++] = t->dim[summed];
    return c->space.n >= 2;
}

// Renumbers atoms after [atom] was moved to be the last one before the columns, that is, the rows.
static void renumber(Place *p, int atom, int to)
{
    for (int i = 0; i < p->start[p->rank]; i++) {
        int a = p->atom[i];
        p->atom[i] = (uint8_t)(a == atom ? to : a > atom && a <= to ? a - 1 : a);
    }
}

static void make_rows(Core *c, int atom)
{
    Space *s = &c->space;
    int to = s->n - 2;
    int64_t size = s->size[atom];
    for (int i = atom; i < to; i++) s->size[i] = s->size[i + 1];
    s->size[to] = size;
    renumber(&c->place, atom, to);
}

bool core_split(Core *c)
{
    Space *s = &c->space;
    int at = c->split.atom;
    if (at < 0 || at == space_col(s) || (c->rows && at == space_row(s)) || s->n == MOST_ATOMS)
        return false;
    memmove(&s->size[at + 1], &s->size[at], (size_t)(s->n - at) * sizeof *s->size);
    s->n++;
    s->size[at] /= c->split.inner;
    s->size[at + 1] = c->split.inner;
    Place p = {.rank = c->place.rank};
    int n = 0;
    for (int k = 0; k < p.rank; k++) {
        for (int i = c->place.start[k]; i < c->place.start[k + 1]; i++) {
            int a = c->place.atom[i];
            p.atom[n++] = (uint8_t)(a > at ? a + 1 : a);
            if (a == at) p.atom[n++] = (uint8_t)(at + 1);
        }
        p.start[k + 1] = (uint8_t)n;
    }
    c->place = p;
    return true;
}

// A batch atom along which the columns' operand [side] is repeated; -1: none.
static int rows_of_batch(Core *c, const Node *n, int side, const Place *p)
{
    AtomSet all = place_atoms(p), varies = operand_varies(&c->space, n, side, p, &c->split);
    int last = -1;
    for (int i = 0; i < space_col(&c->space); i++)
        if (c->split.atom < 0 && all & ~varies & atom_bit(i)) last = i;
    return last;
}

// The atom with the rows of a dot that computes scores: the last free axis of the operand without
// the columns, or a batch axis. -1: it computes no scores, or an atom must be divided first.
static int rows_of_product(Core *c, const Node *n, const Place *p)
{
    AtomSet col = atom_bit(space_col(&c->space));
    DotAxes a = dot_axes(n, 0), b = dot_axes(n, 1);
    int first[3] = {a.nbatch, a.nbatch + a.nfree, a.nbatch + a.nfree + b.nfree};
    AtomSet own[2] = {0};
    for (int side = 0; side < 2; side++)
        for (int i = first[side]; i < first[side + 1]; i++) own[side] |= place_axis(p, i);
    int side = own[1] == col ? 0 : 1; // the operand with the rows
    if (own[!side] != col) return -1;
    int last = -1;
    for (int i = first[side]; i < first[side + 1]; i++)
        if (p->start[i + 1] > p->start[i]) last = p->atom[p->start[i + 1] - 1];
    if (last < 0 && c->few && a.ncontract == 1) return rows_of_batch(c, n, !side, p);
    return last;
}

bool push_seen(Seen *seen, int *count, Node *n, const Place *p)
{
    for (int i = 0; i < *count; i++)
        if (seen[i].n == n) return true;
    if (*count == MOST_SEEN) return false;
    seen[(*count)++] = (Seen){n, *p};
    return true;
}

bool core_products(Core *c, const Users *u)
{
    Seen *seen = NEW_ARRAY(u->g->arena, Seen, MOST_SEEN);
    int count = 0;
    bool rows = false;
    AtomSet col = atom_bit(space_col(&c->space));
    push_seen(seen, &count, c->e->args[0], &c->place);
    for (int i = 0; i < count; i++) {
        Node *n = seen[i].n;
        Place p = seen[i].place, below;
        if (n->op == OP_dot) {
            int row = rows_of_product(c, n, &p);
            if (c->split.atom >= 0) return false;
            if (row < 0) continue;
            if (!rows) {
                for (int k = 0; k < count; k++) renumber(&seen[k].place, row, space_row(&c->space));
                make_rows(c, row);
                rows = c->rows = true;
            }
            if (c->ninner < MOST_INNER) c->inner[c->ninner++] = n;
            continue;
        }
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (node_class(n) != CLS_ELEMENTWISE && !node_has(n, OPF_STRIDES)) continue;
            if (place_below(&c->space, n, &p, k, &below, &c->split)) {
                if ((place_atoms(&below) & col) && !push_seen(seen, &count, n->args[k], &below))
                    return false;
            } else if (c->split.atom >= 0) {
                return false;
            }
        }
    }
    return rows;
}

// -- the scores -----------------------------------------------------------------------------------

// Whether n is constant along the columns.
static bool is_of_rows(Core *c, Node *n)
{
    Lifted v = lift(&c->scratch, n, &c->place);
    return v.n && !(v.atoms & atom_bit(space_col(&c->space)));
}

// Removes terms that are constant along a row, such as minus its maximum: they do not change a
// softmax.
void core_scores(Core *c)
{
    c->x = uncast_float(c->e->args[0]);
    for (;;) {
        if ((c->x->op == OP_sub || c->x->op == OP_add) && is_of_rows(c, c->x->args[1])) {
            c->x = uncast_float(c->x->args[0]);
        } else if (c->x->op == OP_add && is_of_rows(c, c->x->args[0])) {
            c->x = uncast_float(c->x->args[1]);
        } else if (c->x->op == OP_fma && is_of_rows(c, c->x->args[2])) {
            c->times = c->x->args[1];
            c->x = c->x->args[0];
            return;
        } else {
            return;
        }
    }
}
