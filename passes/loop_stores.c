// Stacked results of a loop are stored by kernels that compute or read them, not copied.
//
// No kernel stores a result that is a parameter of the body or equal to an earlier result, so it
// would cost a copy in every iteration. Wrapped in an identity node, it can be fused into a kernel
// that has the value in registers, as one more store. Results that share the stack of a carried
// value (ir/loop.h) need no store.
//
// Requires: all pattern-matching passes have run (fusion is next). Keeps: every value. Breaks:
// nothing.
#include "ir/loop.h"
#include "passes/passes.h"
#include "passes/regions.h"

// Whether stacked result i is a parameter or equal to an earlier result. It would then be copied,
// since no kernel stores it.
static bool is_copied(const Node *loop, uint32_t i)
{
    const Graph *body = loop->regions[0];
    const Node *x = body->results.at[i];
    bool next;
    if (loop_stack_of(loop, i, &next) >= 0) return false;
    if (x->op == OP_region_param) return true;
    for (uint32_t k = 0; k < i; k++)
        if (body->results.at[k] == x) return true;
    return false;
}

static Graph *with_stores(const Node *loop)
{
    Graph *body = loop->regions[0];
    const uint32_t carried = (uint32_t)attr_int(loop, ATTR_carried, 0);
    bool any = false;
    for (uint32_t i = carried; i < body->results.n; i++) any |= is_copied(loop, i);
    if (!any) return body;
    Graph *dst = graph_beside(body);
    Remap r = remap_begin(body, dst);
    for (uint32_t i = 0; i < body->nodes.n; i++) remap_node(&r, body->nodes.at[i]);
    dst = remap_end(&r);
    for (uint32_t i = carried; i < body->results.n; i++) {
        if (!is_copied(loop, i)) continue;
        Node *x = dst->results.at[i];
        graph_stamp(dst, x, x->name);
        dst->results.at[i] = graph_ew(dst, OP_stop_gradient, &x, 1);
    }
    return dst;
}

static Graph *store(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    bool any = false, loops = any_rebuilt(done, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) loops |= g->nodes.at[i]->op == OP_loop;
    if (!loops) return g;
    Remap r = remap_begin(g, graph_beside(g));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op != OP_loop || runs_as_kernel(n)) {
            remap_with_regions(&r, done, n, &any);
            continue;
        }
        Node copy = *n;
        Graph *inner = rebuilt(done, n->regions[0]);
        copy.regions = &inner;
        Graph *body = with_stores(&copy);
        copy.regions = &body;
        any |= body != n->regions[0];
        remap_node(&r, &copy);
    }
    return any ? remap_end(&r) : g;
}

Graph *pass_loop_stores(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return over_regions(g, store, NULL);
}
