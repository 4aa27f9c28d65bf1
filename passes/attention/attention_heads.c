// Head dimensions that no kernel takes are filled up with zeros.
//
// A core names the product whose head dimension does not fit, one at a time. If that dimension is
// contracted, both operands get zeros; if it comes from one operand, this does, and the result is
// cut. Casts and permutes of such a result are done before it is cut, since the kernel can do them.
#include "passes/attention/attention.h"

typedef struct Padding {
    Graph *dst;
    Remap r;
    Node **wide; // by old id: the image before it is cut; NULL: it is not cut
    int *axis;   // of [wide], which is cut
} Padding;

static int64_t whole(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void pad_contracted(Padding *p, const Node *n, int64_t unit)
{
    Node *args[2];
    for (int k = 0; k < 2; k++) {
        const int64_t axis = attr_ints(n, k ? ATTR_contract_b : ATTR_contract_a, NULL)[0];
        args[k] = p->r.map[n->args[k]->id];
        args[k] = graph_resized(p->dst, args[k], axis, whole(args[k]->type.dim[axis], unit));
    }
    graph_stamp(p->dst, n, n->name);
    p->r.map[n->id] = graph_node(p->dst, OP_dot, args, 2, n->attrs);
}

// [side]: the operand that has the head dimension, [from] in it.
static void pad_free(Padding *p, const Node *n, int side, int64_t from, int64_t unit)
{
    Node *args[] = {p->r.map[n->args[0]->id], p->r.map[n->args[1]->id]};
    const int64_t size = args[side]->type.dim[from];
    args[side] = graph_resized(p->dst, args[side], from, whole(size, unit));
    graph_stamp(p->dst, n, n->name);
    p->wide[n->id] = graph_node(p->dst, OP_dot, args, 2, n->attrs);
    for (int i = 0; i < n->type.rank; i++)
        if (p->wide[n->id]->type.dim[i] != n->type.dim[i]) p->axis[n->id] = i;
    p->r.map[n->id] = graph_resized(p->dst, p->wide[n->id], p->axis[n->id], size);
}

// A cast or permute of a result that is cut.
static void pad_tail(Padding *p, const Node *n)
{
    Node *x = p->wide[n->args[0]->id];
    int axis = p->axis[n->args[0]->id];
    const int64_t *perm = n->op == OP_permute ? attr_ints(n, ATTR_perm, NULL) : NULL;
    for (int i = 0; perm && i < n->type.rank; i++)
        if (perm[i] == p->axis[n->args[0]->id]) axis = i;
    graph_stamp(p->dst, n, n->name);
    p->wide[n->id] = graph_node(p->dst, n->op, &x, 1, n->attrs);
    p->axis[n->id] = axis;
    p->r.map[n->id] = graph_resized(p->dst, p->wide[n->id], axis, n->type.dim[axis]);
}

Graph *attention_heads(Graph *g, Core *const *cores, uint32_t ncores)
{
    const Core **of = NEW_ARRAY(g->arena, const Core *, g->nodes.n + 1);
    bool any = false;
    for (uint32_t i = 0; i < ncores; i++)
        if (cores[i]->refused && cores[i]->odd.dot)
            of[cores[i]->odd.dot->id] = cores[i], any = true;
    if (!any) return NULL;
    Padding p = {.dst = graph_beside(g),
                 .wide = NEW_ARRAY(g->arena, Node *, g->nodes.n + 1),
                 .axis = NEW_ARRAY(g->arena, int, g->nodes.n + 1)};
    p.r = remap_begin(g, p.dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        const OddHead *odd = of[i] ? &of[i]->odd : NULL;
        if (odd && odd->side < 0)
            pad_contracted(&p, n, odd->unit);
        else if (odd)
            pad_free(&p, n, odd->side, odd->axis, odd->unit);
        else if (n->nargs == 1 && p.wide[n->args[0]->id] && (is_rounding(n) || n->op == OP_permute))
            pad_tail(&p, n);
        else
            remap_node(&p.r, n);
    }
    return graph_drop_dead(remap_end(&p.r));
}
