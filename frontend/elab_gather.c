// Built-in functions that read and write by index, and that put in order.
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

static Val run_gather(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0), *index = tensor_arg(e, c, 1);
    int axis;
    if (!x || !index || !integers(e, c, 1, index) || !axis_arg(e, c, 2, x, &axis))
        return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_gather, (Node *[]){x, index}, 2, &attrs));
}

static Val scatter(Elab *e, const Call *c, Op op)
{
    Node *x = tensor_arg(e, c, 0), *index = tensor_arg(e, c, 1);
    int axis;
    if (!x || !index || !integers(e, c, 1, index) || !axis_arg(e, c, 3, x, &axis))
        return val_poison();
    Node *v = to_tensor(e, &c->arg[2], x->type.dtype, c->arg_span[2]);
    if (!v) return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    at_span(e, c->span);
    return val_node(graph_node(e->g, op, (Node *[]){x, index, v}, 3, &attrs));
}

static Val run_scatter(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter);
}

static Val run_scatter_add(Elab *e, const Call *c)
{
    return scatter(e, c, OP_scatter_add);
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

static Val run_cumsum(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    Val last = val_int(-1);
    int axis;
    int64_t exclusive, reverse;
    if (!x ||
        !to_axis(e, val_missing(&c->arg[1]) ? &last : &c->arg[1], c->arg_span[1], x->type.rank,
                 &axis) ||
        !flag_arg(e, c, 2, "exclusive", &exclusive) || !flag_arg(e, c, 3, "reverse", &reverse))
        return val_poison();
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, axis);
    if (exclusive) attr_set_int(&attrs, ATTR_exclusive, 1);
    if (reverse) attr_set_int(&attrs, ATTR_reverse, 1);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_cumsum, &x, 1, &attrs));
}

// The start of each axis, integers known or not.
static bool starts(Elab *e, const Call *c, int i, int rank, Node **out)
{
    uint32_t n;
    if (!seq_length(&c->arg[i], &n) || n != (uint32_t)rank) {
        fail(e, c->arg_span[i], "expected a list of %d starts, one an axis, found %s", rank,
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
        return fail(e, c->arg_span[2], "expected one size an axis of %s", type_text(e, &x->type));
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
    {"sort", "x axis? descending?", run_sort},
    {"argsort", "x axis? descending?", run_argsort},
    {"cumsum", "x axis? exclusive? reverse?", run_cumsum},
    {"dynamic_slice", "x starts sizes", run_dynamic_slice},
    {"dynamic_update", "x part starts", run_dynamic_update},
    {0},
};
