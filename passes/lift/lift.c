#include "passes/lift/lift.h"

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

Varying lift_varying(const Graph *body)
{
    const size_t n = body->nodes.n + 1;
    return (Varying){NEW_ARRAY(body->arena, bool, n), NEW_ARRAY(body->arena, int64_t, n)};
}

void lift_param_varies(const Graph *body, uint32_t index, int64_t step, Varying *out)
{
    const uint32_t id = body->params.at[index]->id;
    out->is[id] = true;
    out->step[id] = step;
}

// What an iteration adds to x, which is computed from values that vary.
static int64_t step_of(const Node *x, const Varying *v)
{
    if (x->type.rank || x->type.dtype != DT_I64 || x->nargs != 2) return LIFT_UNKNOWN;
    const int64_t a = v->step[x->args[0]->id], b = v->step[x->args[1]->id];
    double by;
    if (a == LIFT_UNKNOWN || b == LIFT_UNKNOWN) return LIFT_UNKNOWN;
    if (x->op == OP_add) return a + b;
    if (x->op != OP_mul || !node_const_value(x->args[a != 0], &by)) return LIFT_UNKNOWN;
    return (a ? a : b) * (int64_t)by;
}

void lift_find_varying(const Graph *body, Varying *out)
{
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        bool any = false;
        for (uint32_t k = 0; k < x->nargs; k++) any |= out->is[x->args[k]->id];
        if (!any) continue;
        out->is[i] = true;
        out->step[i] = step_of(x, out);
    }
}

bool lift_can(const Node *x, const Varying *v)
{
    const bool *varies = v->is;
    if (x->nregions || node_has(x, OPF_CELL | OPF_EFFECT | OPF_RESULT)) return false;
    if (!varies[x->id]) return node_class(x) != CLS_ROOT && node_class(x) != CLS_META;
    if (x->type.rank == MAX_RANK) return false;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (x->args[k]->type.rank == MAX_RANK) return false;
    switch (x->op) {
    case OP_region_param:
    case OP_gather:
    case OP_dynamic_slice:
    case OP_dynamic_update: return true;
    case OP_pad: return !varies[x->args[1]->id];
    case OP_dot: return !attr_find(x, ATTR_groups);
    case OP_random: return !varies[x->args[0]->id] && v->step[x->args[1]->id] != LIFT_UNKNOWN;
    default: {
        const OpClass c = node_class(x);
        return c == CLS_ELEMENTWISE || c == CLS_VIEW || c == CLS_REDUCE || c == CLS_SCAN ||
               node_has(x, OPF_SCATTERS);
    }
    }
}

Node *lift_repeated(Graph *g, Node *y, int64_t count)
{
    Attrs at = {0};
    int64_t dim[MAX_RANK] = {count}, dims[MAX_RANK];
    for (int i = 0; i < y->type.rank; i++) dim[i + 1] = y->type.dim[i], dims[i] = i + 1;
    attr_set_ints(g, &at, ATTR_shape, dim, y->type.rank + 1);
    attr_set_ints(g, &at, ATTR_dims, dims, y->type.rank);
    return graph_node(g, OP_broadcast, &y, 1, &at);
}

Node *lift_result(Lift *l, const Node *x)
{
    Node *y = l->image[x->id];
    return l->varies.is[x->id] ? y : lift_repeated(l->dst, y, l->count);
}

Node *lift_to_front(Graph *g, Node *y, int axis)
{
    if (!axis) return y;
    int64_t perm[MAX_RANK] = {axis};
    for (int i = 1; i < y->type.rank; i++) perm[i] = i <= axis ? i - 1 : i;
    return graph_permute(g, y, perm);
}

// If one operand varies, the iterations are its first free axis; if both do, a batch axis.
static Node *lift_dot(Lift *l, const Node *x)
{
    const AttrKey batch[] = {ATTR_batch_a, ATTR_batch_b},
                  contract[] = {ATTR_contract_a, ATTR_contract_b};
    const bool both = l->varies.is[x->args[0]->id] && l->varies.is[x->args[1]->id];
    Attrs at = attrs_copy(x->attrs);
    Node *args[2];
    int nbatch, ncontract;
    for (int k = 0; k < 2; k++) {
        args[k] = l->image[x->args[k]->id];
        if (!l->varies.is[x->args[k]->id]) continue;
        lift_axes(l->dst, x, batch[k], both, &at);
        lift_axes(l->dst, x, contract[k], false, &at);
    }
    attr_ints(x, ATTR_batch_a, &nbatch);
    attr_ints(x, ATTR_contract_a, &ncontract);
    Node *y = graph_node(l->dst, OP_dot, args, 2, &at);
    // Where the iterations are in the result: behind the batch, and behind a's free axes if b
    // varies.
    int from = both ? 0 : nbatch;
    if (!l->varies.is[x->args[0]->id]) from += x->args[0]->type.rank - nbatch - ncontract;
    return lift_to_front(l->dst, y, from);
}

void lift_counter(Lift *l, const Graph *body)
{
    const Node *p = body->params.at[0];
    l->image[p->id] = graph_iota(l->dst, p->type.dtype, &l->count, 1, 0);
    l->first[p->id] = graph_const_int(l->dst, p->type.dtype, 0);
}

Node *lift_first(Lift *l, const Node *x)
{
    if (!l->varies.is[x->id]) return l->image[x->id];
    if (l->first[x->id]) return l->first[x->id];
    return graph_binary(l->dst, x->op, lift_first(l, x->args[0]), lift_first(l, x->args[1]));
}

// The draws of all iterations, each with its own count.
static Node *lift_random(Lift *l, const Node *x)
{
    Attrs at = attrs_copy(x->attrs);
    int counts;
    const int64_t *old = attr_ints(x, ATTR_stride, &counts);
    int64_t stride[MAX_RANK + 1] = {l->varies.step[x->args[1]->id]};
    for (int k = 0; k < counts; k++) stride[k + 1] = old[k];
    attr_set_ints(l->dst, &at, ATTR_stride, stride, counts + 1);
    lift_list(l->dst, x, ATTR_shape, l->count, &at);
    Node *args[] = {l->image[x->args[0]->id], lift_first(l, x->args[1])};
    return graph_node(l->dst, OP_random, args, 2, &at);
}

static Node *lift_varied(Lift *l, const Node *x)
{
    Graph *g = l->dst;
    if (x->op == OP_random) return lift_random(l, x);
    if (x->op == OP_dot) return lift_dot(l, x);
    if (node_class(x) == CLS_INDEX) return lift_index(l, x);
    Attrs at = attrs_copy(x->attrs);
    Node **args = NEW_ARRAY(g->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++)
        args[k] = x->op == OP_pad && k ? l->image[x->args[k]->id] : lift_result(l, x->args[k]);
    switch (x->op) {
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
    default:
        if (attr_find(x, ATTR_axes)) lift_axes(g, x, ATTR_axes, false, &at);
        if (node_class(x) == CLS_SCAN) attr_set_int(&at, ATTR_axis, attr_int(x, ATTR_axis, 0) + 1);
    }
    return graph_node(g, x->op, args, (int)x->nargs, &at);
}

void lift_node(Lift *l, const Node *x)
{
    graph_stamp(l->dst, x, x->name);
    if (x->op == OP_loop) {
        lift_loop(l, x);
        return;
    }
    if (node_has(x, OPF_RESULT)) {
        l->image[x->id] = l->results[x->args[0]->id][attr_int(x, ATTR_index, 0)];
        return;
    }
    if (l->varies.is[x->id]) {
        l->image[x->id] = lift_varied(l, x);
        return;
    }
    Node **args = NEW_ARRAY(l->dst->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++) args[k] = l->image[x->args[k]->id];
    l->image[x->id] = graph_node(l->dst, x->op, args, (int)x->nargs, x->attrs);
}
