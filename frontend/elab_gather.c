// Built-in functions that read and write by index, and that sort.
#include <string.h>

#include "frontend/elab.h"

static bool integers(Elab *e, const Call *c, int i, const Node *n)
{
    if (dtype_is_int(n->type.dtype)) return true;
    fail(e, c->arg_span[i], "an index must be an integer tensor, found %s", type_text(e, &n->type));
    return false;
}

static bool axis_arg(Elab *e, const Call *c, int i, const Node *x, int *axis)
{
    *axis = 0;
    return val_missing(&c->arg[i]) || to_axis(e, &c->arg[i], c->arg_span[i], x->type.rank, axis);
}

// The argument `index`: an integer tensor for axis [axis] of x, or a list of tensors for as many
// axes, beginning there. j: these axes merged into one. NULL after reporting an error.
static Node *index_arg(Elab *e, const Call *c, const Node *x, int axis, Joined *j)
{
    Node *index[MAX_RANK];
    int64_t size[MAX_RANK];
    int at[MAX_RANK], n = 0;
    uint32_t items = 1;
    const Val *v = &c->arg[1];
    bool many = false;
    if (seq_length(v, &items))
        for (uint32_t i = 0; i < items; i++) {
            Val item = seq_item(e, v, i);
            many |= val_is_tensor(&item);
        }
    if (!many) items = 1;
    if ((int64_t)items > x->type.rank - axis) {
        fail(e, c->arg_span[1], "%u indices from axis %d of %s on", items, axis,
             type_text(e, &x->type));
        return NULL;
    }
    for (; n < (int)items; n++) {
        Val item = many ? seq_item(e, v, (uint32_t)n) : *v;
        at[n] = axis + n;
        size[n] = x->type.dim[axis + n];
        if (!index_known(e, &item, size[n], axis + n, c->arg_span[1])) return NULL;
        index[n] = to_tensor(e, &item, DT_COUNT, c->arg_span[1]);
        if (!index[n] || !integers(e, c, 1, index[n])) return NULL;
    }
    axes_joined(&x->type, at, n, j);
    return joint_index(e, index, n, size, c->arg_span[1]);
}

static Val run_gather(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    Joined j;
    int axis;
    if (!x || !axis_arg(e, c, 2, x, &axis)) return val_poison();
    Node *index = index_arg(e, c, x, axis, &j);
    if (!index) return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_gather, (Node *[]){join_axes(e, x, &j), index}, 2, &attrs));
}

static Val scatter(Elab *e, const Call *c, Op op)
{
    Node *x = tensor_arg(e, c, 0);
    Joined j;
    int axis;
    if (!x || !axis_arg(e, c, 3, x, &axis)) return val_poison();
    Node *index = index_arg(e, c, x, axis, &j);
    Node *v = index ? to_tensor(e, &c->arg[2], x->type.dtype, c->arg_span[2]) : NULL;
    if (!v) return val_poison();
    Type want = joined_type(&x->type, &j, &index->type), both;
    if (v->type.dtype == want.dtype && shape_broadcast(&v->type, &want, &both) &&
        shape_equal(&both, &want))
        v = graph_broadcast_to(e->g, v, &want);
    if (!type_equal(&v->type, &want))
        return fail(e, c->arg_span[2], "%s of %s at %s takes values %s, found %s",
                    op_info(op)->name, type_text(e, &x->type), type_text(e, &index->type),
                    type_text(e, &want), type_text(e, &v->type));
    at_span(e, c->span);
    return val_node(joined_scatter(e, op, x, &j, index, v));
}

static Val run_scatter(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter);
}

static Val run_scatter_add(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter_add);
}

static Val run_scatter_max(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter_max);
}

static Val run_scatter_min(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter_min);
}

static bool flag_arg(Elab *e, const Call *c, int i, const char *what, int64_t *out)
{
    bool b = false;
    *out = 0;
    if (!val_missing(&c->arg[i]) && !to_bool(e, &c->arg[i], c->arg_span[i], what, &b)) return false;
    *out = b;
    return true;
}

static Val ordered(Elab *e, const Call *c, Op op)
{
    Node *x = tensor_arg(e, c, 0);
    Val last = val_int(-1);
    int axis;
    int64_t descending;
    if (!x ||
        !to_axis(e, val_missing(&c->arg[1]) ? &last : &c->arg[1], c->arg_span[1], x->type.rank,
                 &axis) ||
        !flag_arg(e, c, 2, "descending", &descending))
        return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    if (descending) attr_set_int(&attrs, ATTR_descending, 1);
    at_span(e, c->span);
    return val_node(graph_node(e->g, op, &x, 1, &attrs));
}

static Val run_sort(Elab *e, const Call *c)
{
    return ordered(e, c, OP_sort);
}

static Val run_argsort(Elab *e, const Call *c)
{
    return ordered(e, c, OP_argsort);
}

// cumsum and its kin. [can_exclude]: the call has the argument exclusive.
static Val running(Elab *e, const Call *c, Op op, bool can_exclude)
{
    Node *x = tensor_arg(e, c, 0);
    Val last = val_int(-1);
    int axis;
    int64_t exclusive = 0, reverse;
    if (!x ||
        !to_axis(e, val_missing(&c->arg[1]) ? &last : &c->arg[1], c->arg_span[1], x->type.rank,
                 &axis) ||
        (can_exclude && !flag_arg(e, c, 2, "exclusive", &exclusive)) ||
        !flag_arg(e, c, 2 + can_exclude, "reverse", &reverse))
        return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    if (exclusive) attr_set_int(&attrs, ATTR_exclusive, 1);
    if (reverse) attr_set_int(&attrs, ATTR_reverse, 1);
    at_span(e, c->span);
    return val_node(graph_node(e->g, op, &x, 1, &attrs));
}

static Val run_cumsum(Elab *e, const Call *c)
{
    return running(e, c, OP_cumsum, true);
}

static Val run_cumprod(Elab *e, const Call *c)
{
    return running(e, c, OP_cumprod, true);
}

static Val run_cummax(Elab *e, const Call *c)
{
    return running(e, c, OP_cummax, false);
}

static Val run_cummin(Elab *e, const Call *c)
{
    return running(e, c, OP_cummin, false);
}

// The start on each axis: integers or scalar tensors.
static bool starts(Elab *e, const Call *c, int i, int rank, Node **out)
{
    uint32_t n;
    if (!seq_length(&c->arg[i], &n) || n != (uint32_t)rank) {
        fail(e, c->arg_span[i], "expected a list of %d starts, one per axis, found %s", rank,
             val_text(e, &c->arg[i]));
        return false;
    }
    for (int k = 0; k < rank; k++) {
        Val v = seq_item(e, &c->arg[i], (uint32_t)k);
        out[k] = to_tensor(e, &v, DT_I64, c->arg_span[i]);
        if (!out[k]) return false;
        if (!dtype_is_int(out[k]->type.dtype) || out[k]->type.rank) {
            fail(e, c->arg_span[i], "a start must be an integer scalar, found %s",
                 type_text(e, &out[k]->type));
            return false;
        }
        out[k] = graph_cast(e->g, out[k], DT_I64);
    }
    return true;
}

static Val run_dynamic_slice(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0), *args[1 + MAX_RANK];
    int64_t sizes[MAX_RANK];
    int n;
    if (!x || !starts(e, c, 1, x->type.rank, args + 1) ||
        !to_ints(e, &c->arg[2], c->arg_span[2], sizes, MAX_RANK, &n))
        return val_poison();
    if (n != x->type.rank)
        return fail(e, c->arg_span[2], "expected one size per axis of %s", type_text(e, &x->type));
    args[0] = x;
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_sizes, sizes, n);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_dynamic_slice, args, n + 1, &attrs));
}

static Val run_dynamic_update(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0), *args[2 + MAX_RANK];
    if (!x || !starts(e, c, 2, x->type.rank, args + 2)) return val_poison();
    Node *v = to_tensor(e, &c->arg[1], x->type.dtype, c->arg_span[1]);
    if (!v) return val_poison();
    args[0] = x;
    args[1] = v;
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_dynamic_update, args, 2 + x->type.rank, NULL));
}

const Builtin index_builtins[] = {
    {"gather", "x index axis?", run_gather},
    {"scatter", "x index values axis?", run_scatter},
    {"scatter_add", "x index values axis?", run_scatter_add},
    {"scatter_max", "x index values axis?", run_scatter_max},
    {"scatter_min", "x index values axis?", run_scatter_min},
    {"sort", "x axis? descending?", run_sort},
    {"argsort", "x axis? descending?", run_argsort},
    {"cumsum", "x axis? exclusive? reverse?", run_cumsum},
    {"cumprod", "x axis? exclusive? reverse?", run_cumprod},
    {"cummax", "x axis? reverse?", run_cummax},
    {"cummin", "x axis? reverse?", run_cummin},
    {"dynamic_slice", "x starts sizes", run_dynamic_slice},
    {"dynamic_update", "x part starts", run_dynamic_update},
    {0},
};
