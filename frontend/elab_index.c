// x[...]: slices and integers known at compile time, gather by an integer tensor, `none` for a new
// axis; and the same on the left of <-.
#include <string.h>

#include "frontend/elab.h"
#include "ir/range.h"

typedef struct Axis { // what one axis of the base becomes
    int64_t start, limit, stride;
    bool drop;   // indexed by an integer
    Node *index; // gathered by, or NULL
    Span span;
} Axis;

typedef struct Plan {
    Axis axis[MAX_RANK];
    int naxes;
    int new_axis[MAX_RANK]; // positions among the base's axes before which an axis of size 1 comes
    int nnew;
} Plan;

static bool bound(Elab *e, const Expr *x, int64_t size, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (!x) return true;
    Val v = eval(e, x);
    if (!to_int(e, &v, x->span, "the bound of a slice", out)) return false;
    if (*out < 0) *out += size;
    if (*out < 0) *out = 0;
    if (*out > size) *out = size;
    return true;
}

// empty: what is cut may be nothing, as of a list.
static bool plan_slice(Elab *e, const Expr *x, int64_t size, bool empty, Axis *a)
{
    a->stride = 1;
    if (x->step) {
        Val v = eval(e, x->step);
        if (!to_int(e, &v, x->step->span, "the step of a slice", &a->stride)) return false;
        if (a->stride < 1) {
            fail(e, x->step->span,
                 "the step of a slice must be positive; reverse(x, axis) turns "
                 "an axis around");
            return false;
        }
    }
    if (!bound(e, x->lo, size, 0, &a->start) || !bound(e, x->hi, size, size, &a->limit))
        return false;
    if (a->limit < a->start) a->limit = a->start;
    if (a->limit == a->start && !empty) {
        fail(e, x->span, "the slice %lld:%lld of an axis of size %lld is empty",
             (long long)a->start, (long long)a->limit, (long long)size);
        return false;
    }
    return true;
}

static bool plan_item(Elab *e, const Expr *x, const Type *t, int at, Axis *a)
{
    int64_t size = t->dim[at];
    *a = (Axis){0, size, 1, false, NULL, x->span};
    if (x->kind == EXPR_SLICE) return plan_slice(e, x, size, false, a);
    Val v = eval(e, x);
    if (v.kind == V_POISON) return false;
    if (v.kind == V_INT) {
        int64_t i = v.i < 0 ? v.i + size : v.i;
        if (i < 0 || i >= size) {
            fail(e, x->span, "index %lld of axis %d, whose size is %lld", (long long)v.i, at,
                 (long long)size);
            return false;
        }
        a->start = i;
        a->limit = i + 1;
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
                fail(e, v->span, "only one … in an index");
                return false;
            }
            ellipsis = (int)i;
        } else if (!(v->kind == EXPR_NAME && !strcmp(v->text, "none"))) {
            given++;
        }
    }
    if (given > t->rank) {
        fail(e, x->span, "%d indices of %s", given, type_text(e, t));
        return false;
    }
    for (uint32_t i = 0; i < x->items.n; i++) {
        const Expr *v = x->items.at[i].value;
        if (v->kind == EXPR_ELLIPSIS) {
            for (int skip = t->rank - given; skip > 0; skip--, p->naxes++)
                p->axis[p->naxes] = (Axis){0, t->dim[p->naxes], 1, false, NULL, v->span};
        } else if (v->kind == EXPR_NAME && !strcmp(v->text, "none")) {
            if (p->nnew < MAX_RANK) p->new_axis[p->nnew++] = p->naxes;
        } else {
            if (!plan_item(e, v, t, p->naxes, &p->axis[p->naxes])) return false;
            p->naxes++;
        }
    }
    for (; p->naxes < t->rank; p->naxes++)
        p->axis[p->naxes] = (Axis){0, t->dim[p->naxes], 1, false, NULL, x->span};
    return true;
}

static Val index_tensor(Elab *e, const Expr *x, Node *n)
{
    Type t = n->type;
    Plan p;
    if (!plan(e, x, &t, &p)) return val_poison();
    int64_t start[MAX_RANK], limit[MAX_RANK], stride[MAX_RANK], shape[2 * MAX_RANK];
    int gathers = 0, rank = 0;
    bool slices = false, reshapes = p.nnew > 0;
    for (int i = 0; i < t.rank; i++) {
        Axis *a = &p.axis[i];
        start[i] = a->start;
        limit[i] = a->limit;
        stride[i] = a->stride;
        slices |= a->start || a->limit != t.dim[i] || a->stride != 1;
        reshapes |= a->drop;
        gathers += a->index && a->index->type.rank > 0;
    }
    if (gathers > 1)
        return fail(e, x->span,
                    "one tensor index at a time; index in two steps, or flatten the "
                    "axes and index by i * n + j");
    at_span(e, x->span);
    if (slices) n = graph_slice(e->g, n, start, limit, stride);
    for (int i = t.rank - 1; i >= 0; i--) { // from the right, so that axis numbers stay
        if (!p.axis[i].index) continue;
        Attrs attrs = {0};
        attr_set_int(&attrs, ATTR_axis, i);
        n = graph_node(e->g, OP_gather, (Node *[]){n, p.axis[i].index}, 2, &attrs);
        if (node_is_poison(n)) return val_poison();
    }
    if (!reshapes) return val_node(n);
    // n's axes: per base axis one, or those of its index.
    int from = 0, next = 0;
    for (int i = 0; i <= t.rank; i++) {
        while (next < p.nnew && p.new_axis[next] == i) shape[rank++] = 1, next++;
        if (i == t.rank) break;
        int count = p.axis[i].index ? p.axis[i].index->type.rank : 1;
        for (int j = 0; j < count; j++, from++)
            if (!p.axis[i].drop) shape[rank++] = n->type.dim[from];
    }
    if (rank > MAX_RANK) return fail(e, x->span, "a tensor has at most %d axes", MAX_RANK);
    return val_node(graph_reshape(e->g, n, rank, shape));
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
        int64_t count = (a.limit - a.start + a.stride - 1) / a.stride;
        if (!list_fits(e, (uint64_t)count, x->span)) return val_poison();
        Val v = val_seq(e, V_LIST, (uint32_t)count);
        for (uint32_t i = 0; i < v.seq->n; i++)
            v.seq->at[i] = seq_item(e, &base, (uint32_t)(a.start + i * a.stride));
        return v;
    }
    Val v = eval(e, at);
    int64_t i;
    if (!to_int(e, &v, at->span, "the index of a list", &i)) return val_poison();
    if (i < -(int64_t)n || i >= (int64_t)n)
        return fail(e, at->span, "index %lld of %s", (long long)i, val_text(e, &base));
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

// The index of a as the start of an update, which would clamp one that is outside: that fails the
// step, as where x[i] is read. By an assert of its own, once for an index, so that what writes many
// states checks nothing itself.
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

// base with the indexed part replaced.
Val index_update(Elab *e, const Expr *x, Node *base, Val value)
{
    Type t = base->type, part = {.dtype = t.dtype}, full = t;
    Plan p;
    if (!plan(e, x, &t, &p)) return val_poison();
    if (p.nnew) return fail(e, x->span, "no new axis on the left of <-");
    Node *args[2 + MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        Axis *a = &p.axis[i];
        at_span(e, a->span);
        if (a->stride != 1) return fail(e, a->span, "no step on the left of <-");
        if (a->index && a->index->type.rank)
            return fail(e, a->span,
                        "the left of <- takes slices and single indices, found %s; "
                        "scatter(x, index, values) writes many rows",
                        type_text(e, &a->index->type));
        full.dim[i] = a->index ? 1 : a->limit - a->start;
        if (!a->drop && !a->index) part.dim[part.rank++] = full.dim[i];
        args[2 + i] =
            a->index ? checked_start(e, a, t.dim[i]) : graph_const_int(e->g, DT_I64, a->start);
    }
    Node *v = to_tensor(e, &value, t.dtype, x->span);
    if (!v) return val_poison();
    at_span(e, x->span);
    if (v->type.dtype != t.dtype)
        return fail(e, x->span, "the part is %s, the new value %s", type_text(e, &part),
                    type_text(e, &v->type));
    v = graph_broadcast_to(e->g, v, &part);
    if (part.rank != full.rank && !node_is_poison(v))
        v = graph_reshape(e->g, v, full.rank, full.dim);
    args[0] = base;
    args[1] = v;
    return val_node(graph_node(e->g, OP_dynamic_update, args, 2 + t.rank, NULL));
}
