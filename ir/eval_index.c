// The evaluator's indexed accesses and ordered scans.
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/eval_ops.h"

// A shape divided at an axis into (outer, axis, inner).
typedef struct Around {
    int64_t outer, size, inner;
} Around;

static Around around(const Type *t, int64_t axis)
{
    Around s = {1, t->dim[axis], 1};
    for (int i = 0; i < axis; i++) s.outer *= t->dim[i];
    for (int i = (int)axis + 1; i < t->rank; i++) s.inner *= t->dim[i];
    return s;
}

// Records an index out of range once and clamps it, as devices do.
static int64_t checked(Eval *e, const Node *n, int64_t index, int64_t size)
{
    if (index >= 0 && index < size) return index;
    if (!e->out->bad_index) {
        e->out->bad_index = n;
        e->out->bad_value = index;
    }
    return index < 0 ? 0 : size - 1;
}

void eval_gather(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Around s = around(&args[0]->type, attr_int(n, ATTR_axis, 0));
    int64_t picks = type_count(&args[1]->type);
    for (int64_t p = 0; p < picks; p++) {
        int64_t at = checked(e, n, args[1]->i[p], s.size);
        for (int64_t o = 0; o < s.outer; o++)
            for (int64_t i = 0; i < s.inner; i++)
                value_put(out, (o * picks + p) * s.inner + i,
                          value_at(args[0], (o * s.size + at) * s.inner + i));
    }
}

// With OP_select a later update of an element replaces an earlier one; otherwise updates are
// combined with the element by the op, floats in double and rounded once at the end.
static void scatter(Eval *e, const Node *n, Value *const *args, Value *out, Op op)
{
    Around s = around(&args[0]->type, attr_int(n, ATTR_axis, 0));
    int64_t count = type_count(&n->type), picks = type_count(&args[1]->type);
    DType t = out->type.dtype;
    for (int64_t i = 0; i < count; i++) value_put(out, i, value_at(args[0], i));
    if (!s.size) return;
    for (int64_t p = 0; p < picks; p++) {
        int64_t at = checked(e, n, args[1]->i[p], s.size);
        for (int64_t o = 0; o < s.outer; o++) {
            for (int64_t i = 0; i < s.inner; i++) {
                int64_t to = (o * s.size + at) * s.inner + i;
                Scalar u = value_at(args[2], (o * picks + p) * s.inner + i);
                if (op != OP_select) u = scalar_apply(op, t, t, value_at(out, to), u, u, false);
                value_put(out, to, u);
            }
        }
    }
    for (int64_t i = 0; i < count && op == OP_add && e->env->round && value_is_float(out); i++)
        out->f[i] = scalar_round(t, out->f[i]);
}

void eval_scatter(Eval *e, const Node *n, Value *const *args, Value *out)
{
    scatter(e, n, args, out, OP_select);
}

void eval_scatter_add(Eval *e, const Node *n, Value *const *args, Value *out)
{
    scatter(e, n, args, out, OP_add);
}

void eval_scatter_max(Eval *e, const Node *n, Value *const *args, Value *out)
{
    scatter(e, n, args, out, OP_maximum);
}

void eval_scatter_min(Eval *e, const Node *n, Value *const *args, Value *out)
{
    scatter(e, n, args, out, OP_minimum);
}

// -- ordered along an axis ------------------------------------------------------------------------

typedef struct Ranked {
    Scalar v;
    int64_t at;
    bool is_float, descending;
} Ranked;

// A stable order in which NaN is larger than all numbers.
static int compare(const void *pa, const void *pb)
{
    const Ranked *a = pa, *b = pb;
    int order;
    if (a->is_float) {
        bool na = a->v.f != a->v.f, nb = b->v.f != b->v.f;
        order = na || nb ? na - nb : (a->v.f > b->v.f) - (a->v.f < b->v.f);
    } else {
        order = (a->v.i > b->v.i) - (a->v.i < b->v.i);
    }
    if (a->descending) order = -order;
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

// The rows of [out] hold as many of the first elements, or of their positions, as fit.
static void sort(Eval *e, const Node *n, const Value *v, Value *out, bool positions)
{
    const int64_t axis = attr_int(n, ATTR_axis, 0);
    const Around s = around(&v->type, axis), to = around(&out->type, axis);
    const bool down = attr_int(n, ATTR_descending, 0);
    Ranked *line = NEW_ARRAY(e->env->arena, Ranked, s.size + 1);
    for (int64_t k = 0; k < s.outer * s.inner; k++) {
        const int64_t base = k / s.inner * s.size * s.inner + k % s.inner,
                      first = k / s.inner * to.size * s.inner + k % s.inner;
        for (int64_t i = 0; i < s.size; i++)
            line[i] = (Ranked){value_at(v, base + i * s.inner), i, value_is_float(v), down};
        qsort(line, (size_t)s.size, sizeof *line, compare);
        for (int64_t i = 0; i < to.size; i++)
            value_put(out, first + i * s.inner, positions ? (Scalar){.i = line[i].at} : line[i].v);
    }
}

void eval_sort(Eval *e, const Node *n, Value *const *args, Value *out)
{
    sort(e, n, args[0], out, false);
}

void eval_argsort(Eval *e, const Node *n, Value *const *args, Value *out)
{
    sort(e, n, args[0], out, true);
}

// Running reductions, of which cumsum is one (eval_ops.h).
void eval_cumsum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Around s = around(&n->type, attr_int(n, ATTR_axis, 0));
    bool exclusive = attr_int(n, ATTR_exclusive, 0), reverse = attr_int(n, ATTR_reverse, 0);
    const OpInfo *op = op_info(n->op);
    DType t = out->type.dtype, wide = dtype_is_float(t) ? DT_F64 : DT_I64;
    for (int64_t k = 0; k < s.outer * s.inner; k++) {
        int64_t base = k / s.inner * s.size * s.inner + k % s.inner;
        const double none = axes_identity(op->reduces, t);
        Scalar acc = wide == DT_F64 ? (Scalar){.f = none} : (Scalar){.i = scalar_to_int(t, none)};
        for (int64_t i = 0; i < s.size; i++) {
            int64_t at = base + (reverse ? s.size - 1 - i : i) * s.inner;
            Scalar x = value_at(args[0], at);
            Scalar next = i ? scalar_apply(op->joins, wide, wide, acc, x, x, false) : x;
            value_put(out, at, scalar_cast(wide, t, exclusive ? acc : next, e->env->round));
            acc = next;
        }
    }
}
