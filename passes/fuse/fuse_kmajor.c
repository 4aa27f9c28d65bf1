// TF32 products of two operands that both have a stride along the contracted axis: gradients of
// weights, transpose(dy) x. Groups of four warps (wgmma) read 32-bit operands from shared memory
// only if that axis is contiguous ("K-major"), so the library's kernels for such products reach
// little more than half of their rate. Where it gains more than a copy costs, one operand is stored
// again, with its contracted axes last; one that is enough, as the library has fast kernels for the
// other.
#include "ir/axes.h"
#include "passes/fuse/fuse.h"

typedef struct Major {
    const PassOptions *options;
    Graph *dst;
    Remap map;
    int *readers;  // by id: number of products for which it may be stored again
    Node **turned; // by id: in the new graph, stored again
} Major;

// Whether the axis of the operand with stride 1 is contracted.
static bool is_k_major(const Node *dot, int side)
{
    const DotAxes d = dot_axes(dot, side);
    for (int i = 0; i < d.ncontract; i++)
        if (axis_in_memory(dot->args[side], d.contract[i]) == dot->args[side]->type.rank - 1)
            return true;
    return false;
}

static bool may_gain(const PassOptions *o, const Node *n)
{
    if (n->op != OP_dot || n->args[0]->type.dtype != DT_F32 || fuse_generated(o, n)) return false;
    const DotSizes s = dot_sizes(n);
    const int64_t unit = 16 / (int64_t)sizeof(float); // rows of the copy are aligned
    return s.m > 1 && s.n > 1 && s.k % unit == 0 && !is_k_major(n, 0) && !is_k_major(n, 1);
}

// What storing the operand again costs each of the products that read it.
static double share_of_copy(const Major *p, const Node *operand)
{
    double seconds = target_move_seconds(p->options->target, (double)type_bytes(&operand->type));
    return seconds / p->readers[operand->id];
}

// Which operand to store again; -1: none.
static int side_to_turn(const Major *p, const Node *dot)
{
    double cost[2];
    for (int side = 0; side < 2; side++) cost[side] = share_of_copy(p, dot->args[side]);
    const int side = cost[1] < cost[0];
    const double flops = 2 * (double)type_count(&dot->type) * (double)reduced_count(dot);
    return cost[side] < target_strided_seconds(p->options->target, flops) ? side : -1;
}

// The axes of an operand in the order in which it is stored again: those of the batch, the free
// ones, the contracted ones in the order in which the other operand has them in memory, so that the
// library may see several of them as one.
static void order_axes(const Node *dot, int side, int64_t *order)
{
    const DotAxes d = dot_axes(dot, side), other = dot_axes(dot, !side);
    int n = 0;
    for (int i = 0; i < d.nbatch; i++) order[n++] = d.batch[i];
    for (int i = 0; i < d.nfree; i++) order[n++] = d.free[i];
    for (int axis = 0; axis < dot->args[!side]->type.rank; axis++)
        for (int i = 0; i < d.ncontract; i++)
            if (axis_in_memory(dot->args[!side], other.contract[i]) == axis)
                order[n++] = d.contract[i];
}

// A copy is made as late as possible: what the forward part computes is stored once more only where
// the backward part multiplies it.
static Node *stored_again(Major *p, const Node *operand, const int64_t *order)
{
    Graph *g = p->dst;
    Node *n = p->map.map[operand->id];
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_perm, order, n->type.rank);
    attr_set_int(&at, ATTR_clone, CLONE_LATER);
    Node *y = graph_unary(g, OP_stop_gradient, graph_node(g, OP_permute, &n, 1, &at));
    while (operand->op == OP_permute) operand = operand->args[0];
    const char *name = operand->name ? operand->name : attr_str(operand, ATTR_name);
    if (!y->name && name) y->name = arena_printf(g->arena, "%s_turned", name);
    return y;
}

static Node *turned_operand(Major *p, const Node *dot, int side)
{
    const Node *operand = dot->args[side];
    const int rank = operand->type.rank;
    Node *y = p->turned[operand->id];
    int64_t order[MAX_RANK], back[MAX_RANK];
    order_axes(dot, side, order);
    if (y && axis_in_memory(y, order[rank - 1]) == rank - 1) return y;
    for (int i = 0; i < rank; i++) back[order[i]] = i;
    y = graph_permute(p->dst, stored_again(p, operand, order), back);
    return p->turned[operand->id] = y;
}

static void turn(Major *p, const Node *dot)
{
    const int side = side_to_turn(p, dot);
    if (side < 0) {
        remap_node(&p->map, dot);
        return;
    }
    Node *args[2] = {p->map.map[dot->args[0]->id], p->map.map[dot->args[1]->id]};
    graph_stamp(p->dst, dot, NULL);
    args[side] = turned_operand(p, dot, side);
    p->dst->name = dot->name;
    p->map.map[dot->id] = graph_node(p->dst, OP_dot, args, 2, dot->attrs);
}

Graph *fuse_kmajor(Graph *g, const PassOptions *o)
{
    const Target *t = o ? o->target : NULL;
    if (!t || !t->group_products || !t->matmul_library || o->precision != PREC_TF32) return g;
    Major p = {.options = o, .readers = NEW_ARRAY(g->arena, int, g->nodes.n + 1)};
    bool *gains = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        gains[i] = may_gain(o, n);
        for (int side = 0; side < 2 && gains[i]; side++) p.readers[n->args[side]->id]++;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        any |= gains[i] && side_to_turn(&p, g->nodes.at[i]) >= 0;
    if (!any) return g;
    p.dst = graph_beside(g);
    p.map = remap_begin(g, p.dst);
    p.turned = NEW_ARRAY(g->arena, Node *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (gains[i])
            turn(&p, g->nodes.at[i]);
        else
            remap_node(&p.map, g->nodes.at[i]);
    return graph_drop_dead(remap_end(&p.map));
}
