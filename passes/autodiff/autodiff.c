// Reverse-mode automatic differentiation.
//
// Two rebuilds of the graph. The first goes through the nodes in order and replaces the grad nodes
// of one y by one reverse sweep over the nodes between y and their variables; y is rebuilt by then,
// so gradients nest. Calls with a hand-written gradient are still nodes during sweeps. The second
// rebuild inlines them, replaces differentiated loops by ones that also stack their carried values
// (autodiff_region.c), and makes nothing of the nodes that kept values apart for `grad`.
//
// Requires: an elaborated graph.
// Keeps: every value; names, roots and locations of forward nodes.
// Breaks: nothing. Afterwards no grad, variable or call node is left, in regions either, and an
// extern has its reference region only.
#include "passes/autodiff/autodiff.h"

#include <string.h>

#include "passes/dot.h"
#include "passes/passes.h"
#include "passes/regions.h"

// -- one sweep ------------------------------------------------------------------------------------

Node *zeros_like(Graph *g, const Type *t)
{
    return graph_broadcast_to(g, graph_const(g, t->dtype, 0), t);
}

Sweep sweep_begin(Autodiff *ad, Graph *g, uint32_t n)
{
    Sweep s = {.ad = ad, .g = g, .n = n};
    s.need = NEW_ARRAY(g->arena, bool, n + 1);
    s.asked = NEW_ARRAY(g->arena, bool, n + 1);
    s.cot = NEW_ARRAY(g->arena, Node *, n + 1);
    s.results = NEW_ARRAY(g->arena, Node **, n + 1);
    return s;
}

static bool carries_gradient(const Node *n)
{
    return dtype_is_float(n->type.dtype) || n->nregions > 0;
}

void sweep_mark(Sweep *s, Node *const *variables, uint32_t nvariables)
{
    uint32_t first = s->n;
    for (uint32_t i = 0; i < nvariables; i++) {
        if (variables[i]->id >= s->n || !carries_gradient(variables[i])) continue;
        s->need[variables[i]->id] = s->asked[variables[i]->id] = true;
        if (variables[i]->id < first) first = variables[i]->id;
    }
    for (uint32_t i = first; i < s->n; i++) {
        const Node *n = s->g->nodes.at[i];
        if (s->need[i] || !carries_gradient(n) || !op_passes_gradient(n->op)) continue;
        for (uint32_t k = 0; k < n->nargs && !s->need[i]; k++) s->need[i] = s->need[n->args[k]->id];
    }
}

void sweep_seed(Sweep *s, Node *n, Node *cot)
{
    if (n->id >= s->n || !s->need[n->id]) return;
    Node **c = &s->cot[n->id];
    *c = *c ? autodiff_sum(s->g, *c, cot) : cot;
}

bool rule_wants(const Rule *r, uint32_t arg)
{
    return r->s->need[r->n->args[arg]->id];
}

void rule_give(Rule *r, uint32_t arg, Node *d)
{
    sweep_seed(r->s, r->n->args[arg], d);
}

void sweep_run(Sweep *s)
{
    Graph *g = s->g;
    Loc loc = g->loc;
    Role role = g->role;
    const char *scope = g->scope;
    g->role = ROLE_BACKWARD;
    for (uint32_t i = s->n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        Node *dy = s->cot[i];
        if (!s->need[i] || (!dy && !s->results[i])) continue;
        g->loc = n->loc;
        g->scope = n->scope;
        if (dy && n->name && !dy->name && dy->id >= s->n && dy->op != OP_const)
            dy->name = arena_printf(g->kept, "d_%s", n->name);
        Rule r = {.s = s, .g = g, .n = n, .dy = dy};
        if (n->nregions) r.dres = s->results[i] ? s->results[i] : &s->cot[i];
        rule_apply(&r);
    }
    g->loc = loc;
    g->role = role;
    g->scope = scope;
}

// -- errors ---------------------------------------------------------------------------------------

static void note_node(Diags *d, Diag *diag, const Node *n, const char *what)
{
    if (n->loc)
        diag_note_span(d, diag, loc_user_span(d, n->loc), "%s %s", op_info(n->op)->name, what);
    else
        diag_note(d, diag, "%s %s", op_info(n->op)->name, what);
}

void autodiff_no_gradient(const Sweep *s, const Node *n)
{
    Diags *d = s->g->diags;
    const char *of = n->op == OP_extern ? attr_str(n, ATTR_name) : op_info(n->op)->name;
    Diag *diag = diag_error(d, n->loc,
                            "%s has no gradient, and the loss reaches its variables only "
                            "through it; use stop_gradient or another op",
                            of);
    if (n->op == OP_extern)
        diag_note(d, diag, "an extern fn says its gradient itself: } grad(d) { … }");
    for (int steps = 0; n && steps < 8; steps++) { // follows one path towards the variable
        const Node *next = NULL;
        for (uint32_t k = 0; k < n->nargs && !next; k++)
            if (s->need[n->args[k]->id]) next = n->args[k];
        n = next;
        if (n && n->loc) note_node(d, diag, n, "is on the way to the variable");
    }
}

// The parameter that a variable is, looking through values captured by loops; NULL: it is not one.
static const Node *as_parameter(const Autodiff *ad, const Graph *g, const Node *x)
{
    uint64_t owner, parent;
    while (x->op == OP_region_param && idmap_get(&ad->owner, (uint64_t)(uintptr_t)g, &owner) &&
           idmap_get(&ad->parent, (uint64_t)(uintptr_t)g, &parent)) {
        const Node *op = (const Node *)(uintptr_t)owner;
        if (!op) return NULL;
        int64_t index = attr_int(x, ATTR_index, 0) - (op->op == OP_loop);
        if (index < 0 || index >= op->nargs) return NULL;
        x = op->args[index];
        g = (const Graph *)(uintptr_t)parent;
    }
    return x->op == OP_param ? x : NULL;
}

// Reports that y does not depend on x through differentiable ops, and which op cuts the path.
static void unreached(const Sweep *s, const Node *y, const Node *x, const Node *param)
{
    Graph *g = s->g;
    Diags *d = g->diags;
    Diag *diag = diag_error(d, y->loc,
                            "parameter '%s' receives no gradient from the loss; mark it "
                            "frozen or use it",
                            attr_str(param, ATTR_name));
    bool *depends = NEW_ARRAY(g->arena, bool, s->n + 1);
    if (x->id < s->n) depends[x->id] = true;
    for (uint32_t i = x->id + 1; i < s->n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nargs && !depends[i]; k++)
            depends[i] = depends[g->nodes.at[i]->args[k]->id];
    if (y->id >= s->n || !depends[y->id]) {
        if (param->loc) note_node(d, diag, param, "is not used by the loss");
        return;
    }
    for (const Node *n = y; n != x;) { // all paths are cut; notes where one of them is
        const Node *next = NULL;
        if (!op_passes_gradient(n->op) || !carries_gradient(n))
            note_node(d, diag, n, "passes no gradient on");
        for (uint32_t k = 0; k < n->nargs; k++)
            if (depends[n->args[k]->id]) next = n->args[k];
        n = next;
    }
}

// -- the first rebuild: grad nodes ----------------------------------------------------------------

typedef struct Rebuild {
    Autodiff *ad;
    const IdMap *done; // see over_regions (passes/regions.h)
    Graph *src, *dst;
    Remap map;
    Node ***inlined; // by old id of an inlined call: its results
    Node **head;     // by old id of y: its last grad node; those of one y are chained by [next]
    Node **next;
    bool last; // the second rebuild
} Rebuild;

static Node **mapped_args(Rebuild *b, const Node *n)
{
    Node **args = NEW_ARRAY(b->dst->arena, Node *, n->nargs + 1);
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = b->map.map[n->args[k]->id];
    return args;
}

static void expand_grads(Rebuild *b, const Node *y)
{
    Graph *dst = b->dst;
    Node *new_y = b->map.map[y->id];
    VEC(Node *) xs = {0};
    for (Node *gr = b->head[y->id]; gr; gr = b->next[gr->id]) {
        Node *x = b->map.map[gr->args[1]->id];
        if (x) vec_push(dst->arena, &xs, x);
    }
    Sweep s = sweep_begin(b->ad, dst, new_y->id + 1);
    sweep_mark(&s, xs.at, xs.n);
    dst->role = ROLE_BACKWARD;
    dst->loc = y->loc;
    sweep_seed(&s, new_y, graph_const(dst, new_y->type.dtype, 1));
    sweep_run(&s);
    for (Node *gr = b->head[y->id]; gr; gr = b->next[gr->id]) {
        Node *x = b->map.map[gr->args[1]->id];
        Node *d = x && x->id < s.n ? s.cot[x->id] : NULL;
        if (!d && x) {
            const Node *param = as_parameter(b->ad, b->src, gr->args[1]);
            if (param) unreached(&s, new_y, x, param);
        }
        graph_stamp(dst, gr, NULL);
        dst->role = ROLE_BACKWARD;
        if (!d) d = zeros_like(dst, &gr->type);
        if (d->id >= s.n) node_pass_name(gr, d);
        b->map.map[gr->id] = d;
    }
}

static Node *rebuild_region_op(Rebuild *b, const Node *n)
{
    Graph *dst = b->dst, *regions[2];
    Node **args = mapped_args(b, n);
    uint32_t nregions =
        b->last && n->op != OP_call && n->nregions ? 1 : n->nregions; // the gradient rule is not
                                                                      // needed any more
    for (uint32_t k = 0; k < nregions; k++) regions[k] = rebuilt(b->done, n->regions[k]);
    graph_stamp(dst, n, n->name);
    if (n->op == OP_call && n->nregions == 1) {
        Node **results = NEW_ARRAY(dst->arena, Node *, regions[0]->results.n);
        dst->name = NULL;
        graph_inline(dst, regions[0], args, results);
        b->inlined[n->id] = results;
        node_pass_name(n, results[0]);
        return results[0];
    }
    return graph_region_node(dst, n->op, args, (int)n->nargs, n->attrs, regions, (int)nregions);
}

static Rebuild rebuild_begin(Autodiff *ad, const IdMap *done, Graph *src)
{
    Rebuild b = {.ad = ad, .done = done, .src = src};
    b.dst = graph_beside(src);
    b.map = remap_begin(src, b.dst);
    b.inlined = NEW_ARRAY(src->arena, Node **, src->nodes.n + 1);
    for (uint32_t i = 0; i < src->params.n; i++) {
        Node *p = src->params.at[i];
        b.map.map[p->id] = remap_node(&b.map, p);
    }
    return b;
}

static bool has_work(const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_grad || n->op == OP_variable || n->nregions) return true;
    }
    return false;
}

static Graph *expand_graph(void *ctx, const IdMap *done, Graph *src)
{
    Autodiff *ad = ctx;
    if (!has_work(src)) return src;
    Rebuild b = rebuild_begin(ad, done, src);
    bool *live = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    graph_mark_live(src, live);
    b.head = NEW_ARRAY(src->arena, Node *, src->nodes.n + 1);
    b.next = NEW_ARRAY(src->arena, Node *, src->nodes.n + 1);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        Node *n = src->nodes.at[i];
        if (n->op != OP_grad || !live[i]) continue;
        b.next[i] = b.head[n->args[0]->id];
        b.head[n->args[0]->id] = n;
    }
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        Node *n = src->nodes.at[i];
        if (!live[i] || b.map.map[i]) continue;
        if (n->op == OP_grad)
            expand_grads(&b, n->args[0]);
        else if (n->nregions)
            b.map.map[i] = rebuild_region_op(&b, n);
        else if (n->op == OP_get && b.inlined[n->args[0]->id])
            b.map.map[i] = b.inlined[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        else if (n->op == OP_get) {
            graph_stamp(b.dst, n, n->name);
            b.map.map[i] =
                graph_result(b.dst, b.map.map[n->args[0]->id], (int)attr_int(n, ATTR_index, 0));
        } else if (n->op == OP_dot) {
            // Then the gradient of a transposed weight has the axis order of the weight.
            graph_stamp(b.dst, n, NULL);
            Node *d = dot_without_permutes(b.dst, n, mapped_args(&b, n));
            if (d) node_pass_name(n, d);
            b.map.map[i] = d ? d : remap_node(&b.map, n);
        } else {
            b.map.map[i] = remap_node(&b.map, n);
        }
    }
    return remap_end(&b.map);
}

// -- the second rebuild: calls and replaced loops -------------------------------------------------

static Graph *flatten_graph(void *ctx, const IdMap *done, Graph *src)
{
    Autodiff *ad = ctx;
    if (!has_work(src)) return src;
    Rebuild b = rebuild_begin(ad, done, src);
    b.last = true;
    bool *live = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    Node **ops = NEW_ARRAY(src->arena, Node *, src->nodes.n + 1); // by old id: the region op itself
    uint64_t v;
    const IdMap *augmented = idmap_get(&ad->augmented, (uint64_t)(uintptr_t)src, &v)
                                 ? (const IdMap *)(uintptr_t)v
                                 : NULL;
    graph_mark_live(src, live);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        Node *n = src->nodes.at[i];
        if (!live[i] || b.map.map[i]) continue;
        if (n->op == OP_get && b.inlined[n->args[0]->id]) {
            b.map.map[i] = b.inlined[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        } else if (n->op == OP_get) {
            graph_stamp(b.dst, n, n->name);
            b.map.map[i] =
                graph_result(b.dst, ops[n->args[0]->id], (int)attr_int(n, ATTR_index, 0));
        } else if (n->op == OP_variable) { // its gradients have been computed
            b.map.map[i] = b.map.map[n->args[0]->id];
            node_pass_name(n, b.map.map[i]);
        } else if (n->op == OP_call) {
            Node **results = NEW_ARRAY(b.dst->arena, Node *, n->regions[0]->results.n);
            graph_stamp(b.dst, n, NULL);
            graph_inline(b.dst, rebuilt(done, n->regions[0]), mapped_args(&b, n), results);
            b.inlined[i] = results;
            b.map.map[i] = results[0];
            node_pass_name(n, results[0]);
        } else if (n->nregions) {
            const Node *as = n;
            if (augmented && idmap_get(augmented, i, &v) && live[v]) as = src->nodes.at[v];
            ops[i] = rebuild_region_op(&b, as);
            b.map.map[i] = node_result_count(as) > 1 ? graph_result(b.dst, ops[i], 0) : ops[i];
            if (as != n) {
                ops[as->id] = ops[i];
                b.map.map[as->id] = b.map.map[i];
            }
        } else {
            b.map.map[i] = remap_node(&b.map, n);
        }
    }
    return remap_end(&b.map);
}

// -- the pass -------------------------------------------------------------------------------------

Graph *pass_autodiff(Graph *g, Module *m, const PassOptions *o)
{
    (void)o;
    (void)m;
    Autodiff ad = {.arena = g->arena};
    ad.augmented = idmap_new(g->arena);
    ad.owner = idmap_new(g->arena);
    ad.parent = idmap_new(g->arena);
    if (!has_work(g)) return g;
    RegionList all = regions_innermost_first(g);
    for (uint32_t i = 0; i < all.at.n; i++) {
        RegionVisit *v = &all.at.at[i];
        idmap_set(&ad.owner, (uint64_t)(uintptr_t)v->g, (uint64_t)(uintptr_t)v->owner);
        idmap_set(&ad.parent, (uint64_t)(uintptr_t)v->g, (uint64_t)(uintptr_t)v->parent);
    }
    uint32_t errors = g->diags->errors;
    g = over_regions(g, expand_graph, &ad);
    if (g->diags->errors != errors) return g;
    return over_regions(g, flatten_graph, &ad);
}
