// Iterations that may not take place (ATTR_runs, written 'while') become iterations without effect:
//
//     carried' = select(runs, new, carried)       stacked = select(runs, new, 0)
//
// Since this follows autodiff, it is no part of what is differentiated: what an iteration without
// effect computes, an infinite slope, say, does not reach any gradient. Its checks hold: indices
// are replaced by 0. In what the condition itself reads, they are from the second such iteration
// on; in the first one, the condition is still a part of the program.
//
// Requires: gradients expanded. Keeps: every value. Breaks: nothing; later passes see ordinary
// loops.
#include "ir/range.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Mask {
    const IdMap *done;
    Remap r;
    bool *decides; // by id: the condition depends on it
    Node *before;  // whether all iterations before took place
    Node *runs;    // whether this one does; NULL: not known yet
} Mask;

static bool has_checks(const Graph *g)
{
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n && !any; i++) {
        const Node *n = g->nodes.at[i];
        any |= range_index_may_fail(n);
        for (uint32_t k = 0; k < n->nregions; k++) any |= has_checks(n->regions[k]);
    }
    return any;
}

static Node *guarded(Graph *g, const Node *n, Node *const *map, Node *runs)
{
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs);
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
    graph_stamp(g, n, NULL);
    args[1] = graph_select(g, runs, args[1], graph_full_like(g, args[1], 0));
    return graph_node(g, n->op, args, (int)n->nargs, n->attrs);
}

static Graph *guarded_body(Graph *old);

// A loop inside, whose body gets the flag as one more captured value.
static Node *guarded_loop(Graph *g, const Node *n, Graph *body, Node *const *map, Node *runs)
{
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
    args[n->nargs] = runs;
    graph_stamp(g, n, NULL);
    body = guarded_body(body);
    return graph_region_node(g, OP_loop, args, (int)n->nargs + 1, n->attrs, &body, 1);
}

static bool is_guarded_loop(const Node *n, const Graph *body)
{
    return n->op == OP_loop && has_checks(body);
}

static Graph *guarded_body(Graph *old)
{
    Remap r = remap_begin(old, graph_beside(old));
    const Type flag = type_scalar(DT_BOOL);
    for (uint32_t i = 0; i < old->params.n; i++) remap_node(&r, old->params.at[i]);
    Node *runs = graph_region_param(r.dst, &flag);
    for (uint32_t i = 0; i < old->nodes.n; i++) {
        Node *n = old->nodes.at[i];
        if (range_index_may_fail(n))
            r.map[i] = guarded(r.dst, n, r.map, runs);
        else if (n->nregions && is_guarded_loop(n, n->regions[0]))
            r.map[i] = guarded_loop(r.dst, n, n->regions[0], r.map, runs);
        else
            remap_node(&r, n);
    }
    return remap_end(&r);
}

static void copy_node(Mask *m, Node *n)
{
    Node **to = &m->r.map[n->id], *runs = m->runs ? m->runs : m->before;
    Graph *body = n->nregions ? rebuilt(m->done, n->regions[0]) : NULL;
    bool any = false;
    if (*to) return;
    if (range_index_may_fail(n))
        *to = guarded(m->r.dst, n, m->r.map, runs);
    else if (body && is_guarded_loop(n, body))
        *to = guarded_loop(m->r.dst, n, body, m->r.map, runs);
    else
        remap_with_regions(&m->r, m->done, n, &any);
    node_pass_name(n, *to);
}

// The next value of a carried one. Of a large one of which an iteration changes a part, a cache for
// instance, only the part is selected.
static Node *next_value(const Mask *m, Node *new, Node *carried)
{
    Graph *g = m->r.dst;
    while (new->op == OP_stop_gradient) new = new->args[0];
    if (new == carried) return new;
    if (new->op != OP_dynamic_update) return graph_select(g, m->runs, new, carried);
    Node *part = new->args[1], *before = next_value(m, new->args[0], carried);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_sizes, part->type.dim, part->type.rank);
    Node **args = NEW_ARRAY(g->arena, Node *, new->nargs);
    args[0] = before;
    for (uint32_t k = 2; k < new->nargs; k++) args[k - 1] = new->args[k];
    Node *was = graph_node(g, OP_dynamic_slice, args, (int)new->nargs - 1, &at);
    for (uint32_t k = 2; k < new->nargs; k++) args[k] = new->args[k];
    args[1] = graph_select(g, m->runs, part, was);
    return graph_node(g, OP_dynamic_update, args, (int)new->nargs, new->attrs);
}

static void mark_condition(Mask *m, const Graph *body, const Node *condition)
{
    m->decides[condition->id] = true;
    for (uint32_t i = body->nodes.n; i-- > 0;)
        for (uint32_t k = 0; m->decides[i] && k < body->nodes.at[i]->nargs; k++)
            m->decides[body->nodes.at[i]->args[k]->id] = true;
}

static Graph *masked_body(const IdMap *done, const Node *loop)
{
    Graph *body = rebuilt(done, loop->regions[0]), *g = graph_beside(body);
    const uint32_t flag = (uint32_t)attr_int(loop, ATTR_runs, 0),
                   carried = (uint32_t)attr_int(loop, ATTR_carried, 0);
    Mask m = {done, remap_begin(body, g), NEW_ARRAY(g->arena, bool, body->nodes.n + 1), NULL, NULL};
    mark_condition(&m, body, body->results.at[flag]);
    for (uint32_t i = 0; i < body->params.n; i++) remap_node(&m.r, body->params.at[i]);
    m.before = g->params.at[1 + flag];
    for (uint32_t i = 0; i < body->nodes.n; i++)
        if (m.decides[i]) copy_node(&m, body->nodes.at[i]);
    m.runs = m.r.map[body->results.at[flag]->id];
    for (uint32_t i = 0; i < body->nodes.n; i++) copy_node(&m, body->nodes.at[i]);
    for (uint32_t k = 0; k < body->results.n; k++) {
        const Node *old = body->results.at[k];
        Node *new = m.r.map[old->id];
        graph_stamp(g, old, NULL);
        Node *y = k == flag     ? m.runs
                  : k < carried ? next_value(&m, new, g->params.at[1 + k])
                                : graph_select(g, m.runs, new, graph_full_like(g, new, 0));
        node_pass_name(old, y);
        vec_push(g->arena, &g->results, y);
    }
    g->loc = 0;
    g->scope = g->name = NULL;
    g->role = ROLE_FORWARD;
    return graph_drop_dead(g);
}

static bool is_conditional(void *ctx, const Node *n)
{
    (void)ctx;
    return n->op == OP_loop && attr_find(n, ATTR_runs);
}

static Node *masked(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_conditional(ctx, n)) return NULL;
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
    Attrs at = attrs_copy(n->attrs);
    attr_remove(&at, ATTR_runs);
    graph_stamp(g, n, NULL);
    Graph *body = masked_body(ctx, n);
    return graph_region_node(g, OP_loop, args, (int)n->nargs, &at, &body, 1);
}

static Graph *mask_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    return rewrite_nodes(g, done, is_conditional, masked, (void *)done);
}

Graph *pass_loop_masks(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return over_regions(g, mask_graph, NULL);
}
