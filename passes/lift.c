#include "passes/lift.h"

void lift_axes(Graph *g, const Node *x, AttrKey key, bool with_first, Attrs *out)
{
    int n;
    const int64_t *v = attr_ints(x, key, &n);
    int64_t to[MAX_RANK + 1] = {0};
    int m = with_first;
    for (int i = 0; i < n; i++) to[m++] = v[i] + 1;
    attr_set_ints(g, out, key, to, m);
}

// A list with one entry an axis, behind [first] for axis 0.
static void lift_list(Graph *g, const Node *x, AttrKey key, int64_t first, Attrs *out)
{
    int n;
    const int64_t *v = attr_ints(x, key, &n);
    int64_t to[MAX_RANK + 1] = {first};
    for (int i = 0; i < n; i++) to[i + 1] = v[i];
    attr_set_ints(g, out, key, to, n + 1);
}

bool lift_can(const Node *x, const bool *varies)
{
    if (x->nregions || node_has(x, OPF_CELL | OPF_EFFECT | OPF_DRAWN | OPF_CHECKS)) return false;
    if (!varies[x->id]) return node_class(x) != CLS_ROOT && node_class(x) != CLS_META;
    if (x->type.rank == MAX_RANK) return false;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (x->args[k]->type.rank == MAX_RANK) return false;
    switch (x->op) {
    case OP_region_param:
    case OP_reshape:
    case OP_permute:
    case OP_broadcast:
    case OP_slice:
    case OP_concat:
    case OP_reverse: return true;
    case OP_pad: return !varies[x->args[1]->id];
    case OP_dot: return !attr_find(x, ATTR_groups);
    case OP_gather: return !varies[x->args[0]->id] && !attr_int(x, ATTR_axis, 0);
    default:
        return node_class(x) == CLS_ELEMENTWISE || node_class(x) == CLS_REDUCE ||
               op_info(x->op)->running;
    }
}

Node *lift_result(Lift *l, const Node *x)
{
    Node *y = l->image[x->id];
    if (l->varies[x->id]) return y;
    Attrs at = {0};
    int64_t dim[MAX_RANK] = {l->count}, dims[MAX_RANK];
    for (int i = 0; i < y->type.rank; i++) dim[i + 1] = y->type.dim[i], dims[i] = i + 1;
    attr_set_ints(l->dst, &at, ATTR_shape, dim, y->type.rank + 1);
    attr_set_ints(l->dst, &at, ATTR_dims, dims, y->type.rank);
    return graph_node(l->dst, OP_broadcast, &y, 1, &at);
}

// If one operand varies, the iterations are its first free axis; if both do, a batch axis.
static Node *lift_dot(Lift *l, const Node *x)
{
    const AttrKey batch[] = {ATTR_batch_a, ATTR_batch_b},
                  contract[] = {ATTR_contract_a, ATTR_contract_b};
    const bool both = l->varies[x->args[0]->id] && l->varies[x->args[1]->id];
    Attrs at = attrs_copy(x->attrs);
    Node *args[2];
    int nbatch, ncontract;
    for (int k = 0; k < 2; k++) {
        args[k] = l->image[x->args[k]->id];
        if (!l->varies[x->args[k]->id]) continue;
        lift_axes(l->dst, x, batch[k], both, &at);
        lift_axes(l->dst, x, contract[k], false, &at);
    }
    attr_ints(x, ATTR_batch_a, &nbatch);
    attr_ints(x, ATTR_contract_a, &ncontract);
    Node *y = graph_node(l->dst, OP_dot, args, 2, &at);
    // Where the iterations are in the result: behind the batch, and behind a's free axes if b
    // varies.
    int from = both ? 0 : nbatch;
    if (!l->varies[x->args[0]->id]) from += x->args[0]->type.rank - nbatch - ncontract;
    if (!from) return y;
    int64_t perm[MAX_RANK] = {from};
    for (int i = 1; i < y->type.rank; i++) perm[i] = i <= from ? i - 1 : i;
    return graph_permute(l->dst, y, perm);
}

static Node *lift_varying(Lift *l, const Node *x)
{
    Graph *g = l->dst;
    Attrs at = attrs_copy(x->attrs);
    Node **args = NEW_ARRAY(g->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++)
        args[k] = x->op == OP_gather || (x->op == OP_pad && k) ? l->image[x->args[k]->id]
                                                               : lift_result(l, x->args[k]);
    switch (x->op) {
    case OP_dot: return lift_dot(l, x);
    case OP_reshape: lift_list(g, x, ATTR_shape, l->count, &at); break;
    case OP_broadcast:
        lift_list(g, x, ATTR_shape, l->count, &at);
        lift_axes(g, x, ATTR_dims, true, &at);
        break;
    case OP_permute: lift_axes(g, x, ATTR_perm, true, &at); break;
    case OP_slice:
        lift_list(g, x, ATTR_start, 0, &at);
        lift_list(g, x, ATTR_limit, l->count, &at);
        lift_list(g, x, ATTR_stride, 1, &at);
        break;
    case OP_pad:
        lift_list(g, x, ATTR_low, 0, &at);
        lift_list(g, x, ATTR_high, 0, &at);
        break;
    case OP_concat: attr_set_int(&at, ATTR_axis, attr_int(x, ATTR_axis, 0) + 1); break;
    case OP_gather: break; // (the iterations are an axis of the index)
    default:
        if (attr_find(x, ATTR_axes)) lift_axes(g, x, ATTR_axes, false, &at);
        if (op_info(x->op)->running) attr_set_int(&at, ATTR_axis, attr_int(x, ATTR_axis, 0) + 1);
    }
    return graph_node(g, x->op, args, (int)x->nargs, &at);
}

void lift_node(Lift *l, const Node *x)
{
    graph_stamp(l->dst, x, x->name);
    if (l->varies[x->id]) {
        l->image[x->id] = lift_varying(l, x);
        return;
    }
    Node **args = NEW_ARRAY(l->dst->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++) args[k] = l->image[x->args[k]->id];
    l->image[x->id] = graph_node(l->dst, x->op, args, (int)x->nargs, x->attrs);
}
