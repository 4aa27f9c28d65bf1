// x[...]: slices and integers known at compile time, gather by an integer tensor, `none` for a new
// axis; and the same on the left of <-.
#include <stdio.h>
#include <string.h>

#include "frontend/elab.h"
#include "ir/range.h"

typedef struct Axis { // what an axis of the base becomes
    int64_t start, limit, stride;
    bool turned; // reversed after the slice, for a negative step
    bool drop;   // indexed by an integer known at compile time
    Node *index; // tensor to gather by, or NULL
    Span span;
} Axis;

typedef struct Plan {
    Axis axis[MAX_RANK];
    int naxes;
    int new_axis[MAX_RANK]; // axes of the base before which an axis of size 1 is inserted
    int nnew;
} Plan;

static bool is_scalar(const Axis *a) // an integer known only at run time
{
    return a->index && !a->index->type.rank;
}

// A bound of a slice, clamped to low..high, both included. text: the bound as written.
static bool bound(Elab *e, const Expr *x, int64_t size, int64_t low, int64_t high, int64_t *out,
                  char text[24])
{
    *text = 0;
    if (!x) return true;
    Val v = eval(e, x);
    if (!to_int(e, &v, x->span, "the bound of a slice", out)) return false;
    snprintf(text, 24, "%lld", (long long)*out);
    if (*out < 0) *out += size;
    *out = *out < low ? low : *out > high ? high : *out;
    return true;
}

// A slice as in NumPy: with a negative step it goes from lo down to hi, exclusive, which is an
// ascending slice reversed. empty: the slice may be empty (of a list).
static bool plan_slice(Elab *e, const Expr *x, int64_t size, bool empty, Axis *a)
{
    int64_t step = 1;
    if (x->step) {
        Val v = eval(e, x->step);
        if (!to_int(e, &v, x->step->span, "the step of a slice", &step)) return false;
        if (!step || step < -INT64_MAX) {
            fail(e, x->step->span, "the step of a slice cannot be %lld", (long long)step);
            return false;
        }
    }
    int64_t low = step < 0 ? -1 : 0, lo = step < 0 ? size - 1 : 0, hi = step < 0 ? -1 : size;
    char from[24], to[24];
    if (!bound(e, x->lo, size, low, size + low, &lo, from) ||
        !bound(e, x->hi, size, low, size + low, &hi, to))
        return false;
    a->turned = step < 0;
    a->stride = step < 0 ? -step : step;
    if (a->stride > size) a->stride = size ? size : 1; // the slice has one element in any case
    if (a->turned) {                                   // the same elements in ascending order
        a->start = lo > hi ? lo - (lo - hi - 1) / a->stride * a->stride : 0;
        a->limit = lo > hi ? lo + 1 : 0;
    } else {
        a->start = lo;
        a->limit = hi > lo ? hi : lo;
    }
    if (a->limit == a->start && !empty) {
        fail(e, x->span, "the slice %s:%s%s of an axis of size %lld is empty", from, to,
             step < 0 ? " downwards" : "", (long long)size);
        return false;
    }
    return true;
}

bool index_known(Elab *e, Val *v, int64_t size, int axis, Span span)
{
    uint32_t n;
    if (v->kind == V_INT) {
        int64_t i = v->i < 0 ? v->i + size : v->i;
        if (i < 0 || i >= size) {
            fail(e, span, "index %lld of axis %d, whose size is %lld", (long long)v->i, axis,
                 (long long)size);
            return false;
        }
        v->i = i;
    } else if (v->kind != V_TUPLE && seq_length(v, &n)) {
        if (!list_fits(e, n, span)) return false;
        Val list = val_seq(e, V_LIST, n);
        for (uint32_t i = 0; i < n; i++) {
            list.seq->at[i] = seq_item(e, v, i);
            if (!index_known(e, &list.seq->at[i], size, axis, span)) return false;
        }
        *v = list;
    } else if (v->kind == V_TENSOR) {
        // A kernel would report it, but nothing does if what it selects is folded.
        const Node *at = v->node;
        while (at->op == OP_broadcast || at->op == OP_reshape) at = at->args[0];
        if ((at->op != OP_const && at->op != OP_iota) || !dtype_is_int(at->type.dtype)) return true;
        const Range r = range_of_node(at);
        if (r.low < 0 || r.high >= size) {
            Diag *d = error_at(e, span, "index %lld of axis %d, whose size is %lld",
                               (long long)(r.low < 0 ? r.low : r.high), axis, (long long)size);
            if (r.low < 0 && r.low >= -size && r.high < size)
                diag_note(e->diags, d,
                          "only integers and lists of them count from the end, not tensors");
            return false;
        }
    }
    return true;
}

static bool plan_item(Elab *e, const Expr *x, const Type *t, int at, Axis *a)
{
    int64_t size = t->dim[at];
    *a = (Axis){0, size, 1, .span = x->span};
    if (x->kind == EXPR_SLICE) return plan_slice(e, x, size, false, a);
    Val v = eval(e, x);
    if (v.kind == V_POISON) return false;
    if (!index_known(e, &v, size, at, x->span)) return false;
    if (v.kind == V_INT) {
        a->start = v.i;
        a->limit = v.i + 1;
        a->drop = true;
        return true;
    }
    a->index = to_tensor(e, &v, DT_COUNT, x->span);
    if (!a->index) return false;
    if (!dtype_is_int(a->index->type.dtype)) {
        Diag *d = error_at(e, x->span, "an index must be an integer, found %s",
                           type_text(e, &a->index->type));
        if (a->index->type.dtype == DT_BOOL)
            diag_note(e->diags, d,
                      "the size of x[mask] would depend on the data; "
                      "use where(mask, x, 0)");
        else
            diag_note(e->diags, d, "write cast(…, i32)");
        return false;
    }
    return true;
}

static bool plan(Elab *e, const Expr *x, const Type *t, Plan *p)
{
    int given = 0, ellipsis = -1;
    *p = (Plan){0};
    for (uint32_t i = 0; i < x->items.n; i++) {
        const Expr *v = x->items.at[i].value;
        if (v->kind == EXPR_ELLIPSIS) {
            if (ellipsis >= 0) {
                fail(e, v->span, "an index can have only one …");
                return false;
            }
            ellipsis = (int)i;
        } else if (!(v->kind == EXPR_NAME && !strcmp(v->text, "none"))) {
            given++;
        }
    }
    if (given > t->rank) {
        for (uint32_t i = 0; i < x->items.n; i++) // an unknown name, such as None, is not an index
            if (x->items.at[i].value->kind == EXPR_NAME &&
                eval(e, x->items.at[i].value).kind == V_POISON)
                return false;
        fail(e, x->span, "%d indices for %s", given, type_text(e, t));
        return false;
    }
    for (uint32_t i = 0; i < x->items.n; i++) {
        const Expr *v = x->items.at[i].value;
        if (v->kind == EXPR_ELLIPSIS) {
            for (int skip = t->rank - given; skip > 0; skip--, p->naxes++)
                p->axis[p->naxes] = (Axis){0, t->dim[p->naxes], 1, .span = v->span};
        } else if (v->kind == EXPR_NAME && !strcmp(v->text, "none")) {
            if (p->nnew < MAX_RANK) p->new_axis[p->nnew++] = p->naxes;
        } else {
            if (!plan_item(e, v, t, p->naxes, &p->axis[p->naxes])) return false;
            p->naxes++;
        }
    }
    for (; p->naxes < t->rank; p->naxes++)
        p->axis[p->naxes] = (Axis){0, t->dim[p->naxes], 1, .span = x->span};
    return true;
}

// Applies the integers, slices, scalar tensors and new axes of p to n. Axes indexed by tensors are
// unchanged; at[0 .. *nat) are their positions in the result. NULL after reporting an error.
static Node *index_basic(Elab *e, const Expr *x, const Plan *p, Node *n, int *at, int *nat)
{
    const Type t = n->type;
    int64_t start[MAX_RANK], limit[MAX_RANK], stride[MAX_RANK], turned[MAX_RANK],
        shape[2 * MAX_RANK];
    int rank = 0, nturned = 0;
    bool slices = false, reshapes = p->nnew > 0;
    for (int i = 0; i < t.rank; i++) {
        const Axis *a = &p->axis[i];
        start[i] = a->start;
        limit[i] = a->limit;
        stride[i] = a->stride;
        slices |= a->start || a->limit != t.dim[i] || a->stride != 1;
        reshapes |= a->drop;
        if (a->turned) turned[nturned++] = i;
    }
    at_span(e, x->span);
    if (slices) n = graph_slice(e->g, n, start, limit, stride);
    if (nturned) {
        Attrs attrs = {0};
        attr_set_ints(e->g, &attrs, ATTR_axes, turned, nturned);
        n = graph_node(e->g, OP_reverse, &n, 1, &attrs);
    }
    for (int i = t.rank - 1; i >= 0; i--) { // from the right, so that the numbers of axes to the
                                            // left do not change
        if (!is_scalar(&p->axis[i])) continue;
        Attrs attrs = {0};
        attr_set_int(&attrs, ATTR_axis, i);
        n = graph_node(e->g, OP_gather, (Node *[]){n, p->axis[i].index}, 2, &attrs);
    }
    if (node_is_poison(n)) return NULL;
    *nat = 0;
    for (int i = 0, from = 0, next = 0; i <= t.rank; i++) {
        while (next < p->nnew && p->new_axis[next] == i) shape[rank++] = 1, next++;
        if (i == t.rank) break;
        if (is_scalar(&p->axis[i])) continue;
        if (p->axis[i].index) at[(*nat)++] = rank;
        if (!p->axis[i].drop) shape[rank++] = n->type.dim[from];
        from++;
    }
    if (rank > MAX_RANK) {
        fail(e, x->span, "a tensor has at most %d axes", MAX_RANK);
        return NULL;
    }
    return reshapes ? graph_reshape(e->g, n, rank, shape) : n;
}

// Merges the axes of n that tensors index (see index_basic) into j, and returns the index into it.
// NULL if there are none, or after reporting an error.
static Node *index_joined(Elab *e, const Expr *x, const Plan *p, const Node *n, const int *at,
                          int nat, Joined *j)
{
    Node *index[MAX_RANK];
    int64_t size[MAX_RANK];
    if (!nat) return NULL;
    for (int i = 0, k = 0; i < p->naxes; i++)
        if (p->axis[i].index && !is_scalar(&p->axis[i])) {
            size[k] = n->type.dim[at[k]];
            index[k++] = p->axis[i].index;
        }
    axes_joined(&n->type, at, nat, j);
    return joint_index(e, index, nat, size, x->span);
}

static Val index_tensor(Elab *e, const Expr *x, Node *n)
{
    Plan p;
    Joined j;
    int at[MAX_RANK], nat;
    if (!plan(e, x, &n->type, &p) || !(n = index_basic(e, x, &p, n, at, &nat))) return val_poison();
    if (!nat) return val_node(n);
    Node *index = index_joined(e, x, &p, n, at, nat, &j);
    if (!index) return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, j.axis);
    at_span(e, x->span);
    return val_node(graph_node(e->g, OP_gather, (Node *[]){join_axes(e, n, &j), index}, 2, &attrs));
}

static Val index_seq(Elab *e, const Expr *x, Val base)
{
    uint32_t n;
    seq_length(&base, &n);
    if (x->items.n != 1) return fail(e, x->span, "a list takes one index");
    const Expr *at = x->items.at[0].value;
    if (at->kind == EXPR_SLICE) {
        Axis a;
        if (!plan_slice(e, at, n, true, &a)) return val_poison();
        int64_t count = a.limit > a.start ? (a.limit - a.start - 1) / a.stride + 1 : 0;
        if (!list_fits(e, (uint64_t)count, x->span)) return val_poison();
        Val v = val_seq(e, V_LIST, (uint32_t)count);
        for (int64_t i = 0; i < count; i++)
            v.seq->at[a.turned ? count - 1 - i : i] =
                seq_item(e, &base, (uint32_t)(a.start + i * a.stride));
        return v;
    }
    Val v = eval(e, at);
    int64_t i;
    if (!to_int(e, &v, at->span, "the index of a list", &i)) return val_poison();
    if (i < -(int64_t)n || i >= (int64_t)n)
        return fail(e, at->span, "index %lld is out of range for %s", (long long)i,
                    val_text(e, &base));
    return seq_item(e, &base, (uint32_t)(i < 0 ? i + n : i));
}

Val index_value(Elab *e, const Expr *x, Val base)
{
    uint32_t n;
    if (val_is_tensor(&base)) {
        Node *t = to_tensor(e, &base, DT_COUNT, x->a->span);
        uint32_t first = e->g->nodes.n;
        return t ? val_apart(e, index_tensor(e, x, t), first) : val_poison();
    }
    if (seq_length(&base, &n)) return index_seq(e, x, base);
    return fail(e, x->span, "%s cannot be indexed", val_text(e, &base));
}

// The index of a as the start of an update. An update clamps an index that is out of range, but it
// should fail the step, as reading x[i] does. Therefore adds an assert, once per index, so that
// kernels that write many states check nothing themselves.
static Node *checked_start(Elab *e, const Axis *a, int64_t size)
{
    Node *at = graph_cast(e->g, a->index, DT_I64);
    uint64_t known = 0;
    idmap_get(&e->checked, (uintptr_t)a->index, &known);
    if (range_within(range_of_node(a->index), (Range){0, size - 1}) ||
        (known && known <= (uint64_t)size) || e->root == e->init || e->replay)
        return at;
    idmap_set(&e->checked, (uintptr_t)a->index, (uint64_t)size);
    Node *inside =
        graph_binary(e->g, OP_and, graph_binary(e->g, OP_ge, at, graph_const_int(e->g, DT_I64, 0)),
                     graph_binary(e->g, OP_lt, at, graph_const_int(e->g, DT_I64, size)));
    region_assert(e, inside,
                  arena_printf(e->arena, "the index of <- is outside 0..%lld", (long long)size));
    return at;
}

// part, whose axes [at] are indexed by tensors, with v written to these indices. Of equal indices,
// the last one wins.
static Node *scattered(Elab *e, const Expr *x, const Plan *p, Node *part, const int *at, int nat,
                       Node *v)
{
    Joined j;
    Node *index = index_joined(e, x, p, part, at, nat, &j);
    if (!index) return NULL;
    Type t = joined_type(&part->type, &j, &index->type);
    at_span(e, x->span);
    v = graph_broadcast_to(e->g, v, &t);
    return node_is_poison(v) ? NULL : joined_scatter(e, OP_scatter, part, &j, index, v);
}

static Node *reversed(Elab *e, Node *n, int axis)
{
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_axes, (int64_t[]){axis}, 1);
    return graph_node(e->g, OP_reverse, &n, 1, &attrs);
}

// base with [part] written along one axis at the elements of the slice a. It is a select for each
// element, so it can be fused with what computes part.
static Node *interleaved(Elab *e, Node *base, Node *part, int axis, const Axis *a)
{
    const int64_t count = part->type.dim[axis];
    Attrs attrs = {0}, along = {0};
    attr_set_ints(e->g, &attrs, ATTR_shape, &base->type.dim[axis], 1);
    attr_set_int(&attrs, ATTR_dtype, DT_I64);
    attr_set_int(&attrs, ATTR_axis, 0);
    Node *i = graph_node(e->g, OP_iota, NULL, 0, &attrs);
    Node *step = graph_const_int(e->g, DT_I64, a->stride);
    Node *zero = graph_const_int(e->g, DT_I64, 0);
    Node *to = graph_const_int(e->g, DT_I64, count - 1);
    Node *off = graph_binary(e->g, OP_sub, i, graph_const_int(e->g, DT_I64, a->start));
    Node *from = graph_binary(e->g, OP_floordiv, off, step);
    Node *here = graph_binary(e->g, OP_eq, graph_binary(e->g, OP_mod, off, step), zero);
    here = graph_binary(e->g, OP_and, here, graph_binary(e->g, OP_ge, from, zero));
    here = graph_binary(e->g, OP_and, here, graph_binary(e->g, OP_le, from, to));
    from = graph_binary(e->g, OP_minimum, graph_binary(e->g, OP_maximum, from, zero), to);
    attr_set_int(&along, ATTR_axis, axis);
    Node *spread = graph_node(e->g, OP_gather, (Node *[]){part, from}, 2, &along);
    int64_t column[MAX_RANK] = {base->type.dim[axis]}; // shape in which [here] broadcasts along the
                                                       // axis
    int rank = 1;
    while (rank < base->type.rank - axis) column[rank++] = 1;
    return graph_select(e->g, graph_reshape(e->g, here, rank, column), spread, base);
}

// base with the part selected by p replaced by v; NULL after reporting an error.
static Node *updated(Elab *e, const Expr *x, Plan *p, Node *base, Node *v)
{
    const Type t = base->type;
    Type part = {.dtype = t.dtype}, full = t;
    bool whole = true, tensors = false; // whole: all axes are indexed completely or by tensors
    for (int i = 0; i < t.rank; i++) {
        const Axis a = p->axis[i];
        if (a.stride != 1 || a.turned) { // one axis with a step: updates the slice of base, then
                                         // writes that back
            int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
            for (int k = 0; k < t.rank; k++) limit[k] = t.dim[k], stride[k] = 1;
            start[i] = a.start, limit[i] = a.limit, stride[i] = a.stride;
            at_span(e, a.span);
            Node *apart = graph_slice(e->g, base, start, limit, stride);
            if (a.turned) apart = reversed(e, apart, i);
            p->axis[i] = (Axis){0, apart->type.dim[i], 1, .span = a.span};
            apart = updated(e, x, p, apart, v);
            if (!apart || node_is_poison(apart)) return NULL;
            at_span(e, a.span);
            return interleaved(e, base, a.turned ? reversed(e, apart, i) : apart, i, &a);
        }
        full.dim[i] = is_scalar(&a) ? 1 : a.limit - a.start;
        if (!a.drop && !is_scalar(&a)) part.dim[part.rank++] = full.dim[i];
        whole &= !a.drop && full.dim[i] == t.dim[i] && !is_scalar(&a);
        tensors |= a.index && !is_scalar(&a);
    }
    if (tensors) {
        int at[MAX_RANK], nat;
        Node *read = index_basic(e, x, p, base, at, &nat);
        if (!read || !(v = scattered(e, x, p, read, at, nat, v)) || whole) return v;
    }
    at_span(e, x->span);
    v = graph_broadcast_to(e->g, v, &part);
    if (part.rank != full.rank && !node_is_poison(v))
        v = graph_reshape(e->g, v, full.rank, full.dim);
    Node *args[2 + MAX_RANK] = {base, v};
    for (int i = 0; i < t.rank; i++) {
        at_span(e, p->axis[i].span);
        args[2 + i] = is_scalar(&p->axis[i]) ? checked_start(e, &p->axis[i], t.dim[i])
                                             : graph_const_int(e->g, DT_I64, p->axis[i].start);
    }
    at_span(e, x->span);
    return graph_node(e->g, OP_dynamic_update, args, 2 + t.rank, NULL);
}

// base with the indexed part replaced.
Val index_update(Elab *e, const Expr *x, Node *base, Val value)
{
    Plan p;
    if (!plan(e, x, &base->type, &p)) return val_poison();
    if (p.nnew) return fail(e, x->span, "a new axis is not allowed on the left of <-");
    Node *v = to_tensor(e, &value, base->type.dtype, x->span);
    if (!v) return val_poison();
    at_span(e, x->span);
    if (!(v = stored_as(e, v, &base->type, NULL, x->span))) return val_poison();
    v = updated(e, x, &p, base, v);
    return v ? val_node(v) : val_poison();
}
