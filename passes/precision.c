// The precision policy over the graph: which matmuls read low-precision operands.
//
//   f32, tf32  the graph stays as it is; tf32 is a property of the library calls, set by codegen
//   bf16       every f32 matmul reads bf16 operands
//   f16        forward matmuls read f16 operands; the backward ones stay f32, because small
//              gradients vanish in f16 without loss scaling
//
// Products are accumulated in f32 and come out as f32; parameters, optimizer state, statistics and
// losses stay f32. A cast stands below transposes and reshapes of an operand, so that it is made
// once.
//
// Requires: gradients expanded (roles are known). Keeps: shapes, the types of everything but
// operands. Breaks: nothing.
#include "passes/passes.h"
#include "passes/regions.h"

static bool wants_low(const Node *n, Precision p)
{
    if (n->op != OP_dot || n->type.dtype != DT_F32) return false;
    if (p == PREC_F16 && n->role != ROLE_FORWARD) return false;
    return n->args[0]->type.dtype == DT_F32 && n->args[1]->type.dtype == DT_F32;
}

static Node *lowered(Graph *g, Node *x, DType low)
{
    enum { MOST = 16 };
    const Node *views[MOST];
    int n = 0;
    while ((x->op == OP_reshape || x->op == OP_permute) && n < MOST) {
        views[n++] = x;
        x = x->args[0];
    }
    Node *y = graph_cast(g, x, low);
    while (n) {
        const Node *v = views[--n];
        y = graph_node(g, v->op, &y, 1, &v->attrs);
    }
    return y;
}

static Graph *lower_precision(void *ctx, const IdMap *done, Graph *g)
{
    const PassOptions *o = ctx;
    DType low = o->precision == PREC_BF16 ? DT_BF16 : DT_F16;
    bool needed = false;
    for (uint32_t i = 0; i < g->nodes.n && !needed; i++) {
        const Node *n = g->nodes.at[i];
        needed = wants_low(n, o->precision);
        for (uint32_t k = 0; k < n->nregions; k++)
            needed |= rebuilt(done, n->regions[k]) != n->regions[k];
    }
    if (!needed) return g;
    Graph *dst = graph_new(g->arena, g->diags, g->symbols);
    Remap r = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i], *y;
        if (!n->nregions && !wants_low(n, o->precision)) {
            remap_node(&r, n);
            continue;
        }
        Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
        Graph **regions = NEW_ARRAY(g->arena, Graph *, n->nregions + 1);
        dst->loc = n->loc;
        dst->role = n->role;
        dst->name = NULL;
        for (uint32_t k = 0; k < n->nregions; k++) regions[k] = rebuilt(done, n->regions[k]);
        for (uint32_t k = 0; k < n->nargs; k++) {
            Node *x = r.map[n->args[k]->id];
            args[k] = n->op == OP_dot ? lowered(dst, x, low) : x;
        }
        dst->name = n->name;
        y = graph_region_node(dst, n->op, args, (int)n->nargs, &n->attrs, regions,
                              (int)n->nregions);
        r.map[n->id] = y;
    }
    for (uint32_t i = 0; i < g->results.n; i++)
        vec_push(g->arena, &dst->results, r.map[g->results.at[i]->id]);
    dst->loc = 0;
    dst->role = ROLE_FORWARD;
    dst->name = NULL;
    return dst;
}

Graph *pass_precision(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (o->precision == PREC_F32 || o->precision == PREC_TF32) return g;
    PassOptions options = *o;
    return over_regions(g, lower_precision, &options);
}
