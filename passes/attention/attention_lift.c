// Values of the graph written into a region in canonical form.
#include <string.h>

#include "passes/attention/attention.h"

enum { MOST_DEPTH = 200 }; // depth of an expression on scores

Lift lift_begin(const Graph *src, Graph *region, const Space *s, bool turned)
{
    Lift l = {.a = src->arena, .g = region, .space = *s, .turned = turned};
    l.memo = idmap_new(l.a);
    return l;
}

// -- canonical order ------------------------------------------------------------------------------

// Writes the atoms of a set in canonical order; returns their number.
static int canonical(const Lift *l, AtomSet set, int *atom)
{
    int n = 0, row = space_row(&l->space), col = space_col(&l->space);
    for (int i = 0; i < row; i++)
        if (set & atom_bit(i)) atom[n++] = i;
    for (int i = 0; i < 2; i++) {
        int last = (i == 0) != l->turned ? row : col;
        if (set & atom_bit(last)) atom[n++] = last;
    }
    return n;
}

static int rows_atom(const Lift *l)
{
    return l->turned ? space_col(&l->space) : space_row(&l->space);
}

static int64_t region_size(const Lift *l, int atom)
{
    return l->start && atom == rows_atom(l) ? l->part : l->space.size[atom];
}

static Type canonical_type(const Lift *l, AtomSet set, DType t)
{
    int atom[MOST_ATOMS], n = canonical(l, set, atom);
    int64_t dim[MAX_RANK];
    for (int i = 0; i < n; i++) dim[i] = region_size(l, atom[i]);
    return type_make(t, n, dim);
}

Node *lift_rows(const Lift *l, Node *x, AtomSet atoms)
{
    int atom[MOST_ATOMS], n = canonical(l, atoms, atom);
    Node *args[MAX_RANK + 1] = {x};
    if (!l->start || !(atoms & atom_bit(rows_atom(l)))) return x;
    int64_t size[MAX_RANK];
    for (int k = 0; k < x->type.rank; k++) {
        bool rows = k < n && atom[k] == rows_atom(l);
        size[k] = rows ? l->part : x->type.dim[k];
        args[k + 1] = rows ? l->start : graph_const_int(l->g, DT_I64, 0);
    }
    Attrs at = {0};
    attr_set_ints(l->g, &at, ATTR_sizes, size, x->type.rank);
    return graph_node(l->g, OP_dynamic_slice, args, x->type.rank + 1, &at);
}

Node *lift_canonical(const Lift *l, Node *x, const Place *p, int rest)
{
    int64_t dim[2 * MAX_RANK], perm[2 * MAX_RANK];
    int of[2 * MAX_RANK], n = 0, atom[MOST_ATOMS], m = 0;
    for (int k = 0; k < p->rank; k++) {
        for (int i = p->start[k]; i < p->start[k + 1]; i++) {
            of[n] = p->atom[i];
            dim[n++] = l->space.size[p->atom[i]];
        }
        if (k != rest) continue;
        of[n] = -1;
        dim[n++] = x->type.dim[k];
    }
    if (n > MAX_RANK) return NULL;
    int count = canonical(l, place_atoms(p), atom);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < n; k++)
            if (of[k] == atom[i]) perm[m++] = k;
    for (int k = 0; k < n && rest >= 0; k++)
        if (of[k] < 0) perm[m++] = k;
    x = graph_reshape(l->g, x, n, dim);
    return lift_rows(l, graph_permute(l->g, x, perm), place_atoms(p));
}

Node *lift_spread(const Lift *l, Node *x, AtomSet have, AtomSet want)
{
    if (have == want) return x;
    int a[MOST_ATOMS], b[MOST_ATOMS], n = canonical(l, have, a), m = canonical(l, want, b);
    int64_t dims[MAX_RANK];
    Type t = canonical_type(l, want, x->type.dtype);
    if (m + x->type.rank - n > MAX_RANK) return NULL;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            if (a[i] == b[k]) dims[i] = k;
    for (int i = n; i < x->type.rank; i++) {
        dims[i] = t.rank;
        t.dim[t.rank++] = x->type.dim[i];
    }
    Attrs at = {0};
    attr_set_ints(l->g, &at, ATTR_shape, t.dim, t.rank);
    attr_set_ints(l->g, &at, ATTR_dims, dims, x->type.rank);
    return graph_node(l->g, OP_broadcast, &x, 1, &at);
}

Node *lift_to(Lift *l, Lifted v, AtomSet atoms)
{
    return v.n ? lift_spread(l, v.n, v.atoms, atoms) : NULL;
}

Lifted lift_ew(Lift *l, Op op, const Lifted *args, int nargs, const Attrs *attrs)
{
    Lifted out = {0};
    Node *wide[3];
    for (int i = 0; i < nargs; i++) out.atoms |= args[i].atoms;
    const char *name = l->g->name;
    l->g->name = NULL;
    for (int i = 0; i < nargs; i++) {
        wide[i] = lift_to(l, args[i], out.atoms);
        if (!wide[i]) return (Lifted){0};
    }
    l->g->name = name;
    out.n = graph_node(l->g, op, wide, nargs, attrs);
    return out;
}

Lifted lift_number(Lift *l, double v)
{
    return (Lifted){graph_const(l->g, DT_F32, v), 0};
}

// -- parameters -----------------------------------------------------------------------------------

static bool same_arg(const Arg *a, const Arg *b)
{
    return a->old == b->old && a->row == b->row && a->type == b->type && a->nviews == b->nviews &&
           a->nperm == b->nperm && !memcmp(a->view, b->view, sizeof *a->view * (size_t)a->nviews) &&
           !memcmp(a->perm, b->perm, sizeof *a->perm * (size_t)a->nperm);
}

Node *lift_arg(Lift *l, const Arg *arg, const Type *t)
{
    for (uint32_t i = 0; i < l->args.n; i++)
        if (same_arg(&l->args.at[i], arg)) return l->g->params.at[l->first + i];
    vec_push(l->a, &l->args, *arg);
    Node *p = graph_region_param(l->g, t);
    if (arg->old && !p->name) p->name = arg->old->name;
    return p;
}

static Node *parameter(Lift *l, Node *old)
{
    return lift_arg(l, &(Arg){.old = old, .type = old->type.dtype}, &old->type);
}

// Arithmetic on 16-bit floats is done in f32.
static Node *widened(const Lift *l, Node *x)
{
    bool narrow = x->type.dtype == DT_BF16 || x->type.dtype == DT_F16;
    return narrow ? graph_cast(l->g, x, DT_F32) : x;
}

static bool is_leaf_of_region(const Node *n)
{
    double v;
    return node_has(n, OPF_MADE) || (node_has(n, OPF_LITERAL) && node_const_value(n, &v));
}

// The value itself as a parameter in its own shape, read through views.
static Node *taken_over(Lift *l, Node *n)
{
    enum { MOST = 24 };
    Node *view[MOST];
    int nviews = 0;
    while ((node_has(n, OPF_STRIDES) || n->op == OP_slice) && nviews < MOST) {
        view[nviews++] = n;
        n = n->args[0];
    }
    Node *x;
    if (is_leaf_of_region(n)) {
        Node *args[2] = {0};
        for (uint32_t k = 0; k < n->nargs && k < 2; k++) args[k] = parameter(l, n->args[k]);
        graph_stamp(l->g, n, n->name);
        x = graph_node(l->g, n->op, args, (int)n->nargs, n->attrs);
    } else {
        x = parameter(l, n);
    }
    while (nviews-- > 0) x = graph_node(l->g, view[nviews]->op, &x, 1, view[nviews]->attrs);
    return x;
}

// Indices along one axis: the rows, the columns or a batch axis.
static Lifted lift_iota(Lift *l, const Node *n, const Place *p)
{
    int axis = (int)attr_int(n, ATTR_axis, 0);
    Place one = {.rank = 1};
    for (int i = p->start[axis]; i < p->start[axis + 1]; i++) one.atom[one.start[1]++] = p->atom[i];
    Attrs at = attrs_copy(n->attrs);
    attr_set_int(&at, ATTR_axis, 0);
    attr_set_ints(l->g, &at, ATTR_shape, &n->type.dim[axis], 1);
    graph_stamp(l->g, n, n->name);
    Node *x = lift_canonical(l, graph_node(l->g, OP_iota, NULL, 0, &at), &one, -1);
    return x ? (Lifted){widened(l, x), place_atoms(&one)} : (Lifted){0};
}

static Lifted lift_leaf(Lift *l, Node *n, const Place *p)
{
    double v;
    if (n->op == OP_iota && n->type.dtype != DT_F64) return lift_iota(l, n, p);
    if (node_has(n, OPF_LITERAL) && !n->type.rank && node_const_value(n, &v) &&
        dtype_is_float(n->type.dtype))
        return lift_number(l, v);
    Node *x = taken_over(l, n);
    if (x->type.dtype == DT_F64) return (Lifted){0};
    x = lift_canonical(l, x, p, -1);
    return x ? (Lifted){widened(l, x), place_atoms(p)} : (Lifted){0};
}

// -- expressions ----------------------------------------------------------------------------------

static Lifted lift_elementwise(Lift *l, Node *n, const Place *p)
{
    Lifted args[3], v;
    Attrs at = attrs_copy(n->attrs);
    DType t = n->type.dtype, from = n->args[0]->type.dtype;
    if (t == DT_F64) return (Lifted){0};
    for (uint32_t k = 0; k < n->nargs; k++) {
        args[k] = lift(l, n->args[k], p);
        if (!args[k].n) return (Lifted){0};
    }
    if (n->op == OP_stop_gradient) return args[0];
    if (n->op == OP_cast) { // scores stay f32
        if (dtype_is_float(t) && dtype_is_float(from)) return args[0];
        attr_set_int(&at, ATTR_dtype, dtype_is_float(t) ? DT_F32 : t);
    }
    graph_stamp(l->g, n, n->name);
    v = lift_masked(l, n->op, args);
    return v.n ? v : lift_ew(l, n->op, args, (int)n->nargs, &at);
}

static Lifted lift_new(Lift *l, Node *n, const Place *p)
{
    Place below;
    Split split;
    Operand op[2];
    if (l->outside && l->outside[n->id]) return lift_leaf(l, n, p);
    if (node_class(n) == CLS_ELEMENTWISE) return lift_elementwise(l, n, p);
    if (n->op == OP_dot && inner_dot(&l->space, n, p, op)) return lift_inner(l, n, op);
    if (node_has(n, OPF_STRIDES) && place_below(&l->space, n, p, 0, &below, &split))
        return lift(l, n->args[0], &below);
    return lift_leaf(l, n, p);
}

static uint64_t hash_place(const Node *n, const Place *p)
{
    return hash_mix(n->id, hash_bytes(p->start, (size_t)p->rank + 1,
                                      hash_bytes(p->atom, p->start[p->rank], (uint64_t)p->rank)));
}

Lifted lift(Lift *l, Node *n, const Place *p)
{
    uint64_t key = hash_place(n, p), at = 0;
    idmap_get(&l->memo, key, &at);
    for (uint64_t i = at; i; i = l->known.at[i - 1].next)
        if (l->known.at[i - 1].old == n && place_equal(&l->known.at[i - 1].place, p))
            return l->known.at[i - 1].v;
    if (l->depth >= MOST_DEPTH) return (Lifted){0};
    l->depth++;
    Lifted v = lift_new(l, n, p);
    l->depth--;
    idmap_get(&l->memo, key, &at);
    vec_push(l->a, &l->known, (Known){n, *p, v, (uint32_t)at});
    idmap_set(&l->memo, key, l->known.n);
    return v;
}
