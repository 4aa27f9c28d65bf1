// Regions, the bodies of run-time loops and of functions with a gradient of their own. Values from
// outside are captured.
#include <string.h>

#include "frontend/elab.h"

Graph *elab_graph(Elab *e)
{
    Graph *g = graph_new(e->arena, e->diags, e->module->symbols.at);
    g->plain = true;
    return g;
}

bool graph_owns(const Graph *g, const Node *n)
{
    return n->id < g->nodes.n && g->nodes.at[n->id] == n;
}

Node *region_param(Elab *e, Region *r, const Type *t)
{
    r->g->loc = e->g->loc;
    Node *n = graph_region_param(r->g, t);
    memcpy(n->type.sym, t->sym, sizeof t->sym);
    return n;
}

// cell: whose value n is, or NULL.
static Node *capture(Elab *e, Region *r, ECell *cell, Node *n)
{
    const void *key = cell ? (const void *)cell : n;
    if (!r) return graph_owns(e->root, n) ? n : NULL;
    if (graph_owns(r->g, n)) return n;
    uint64_t known;
    if (idmap_get(&r->inner, (uintptr_t)key, &known)) return (Node *)(uintptr_t)known;
    Node *around = capture(e, r->up, cell, n);
    if (!around) return NULL;
    // Constants are created again inside instead of being captured. (Not in loops, since gradients
    // with respect to them may be taken; graph_settle does it for loops.)
    Node *in;
    double v;
    if (r->no_cells && around->op == OP_const && around->type.rank == 0 &&
        node_const_value(around, &v) && !dtype_is_int(around->type.dtype)) {
        in = graph_const(r->g, around->type.dtype, v);
    } else {
        in = region_param(e, r, &around->type);
        if (!in->name) in->name = around->name ? around->name : attr_str(around, ATTR_name);
        vec_push(e->arena, &r->outer, around);
        vec_push(e->arena, &r->cell, cell);
        vec_push(e->arena, &r->key, key);
    }
    idmap_set(&r->inner, (uintptr_t)key, (uintptr_t)in);
    return in;
}

static bool of_closed_loop(const Elab *e, const Node *n)
{
    for (uint32_t i = e->rounds.n; i-- > 0;)
        if (graph_owns(e->rounds.at[i], n)) return true;
    return false;
}

static Node *own_as(Elab *e, ECell *cell, Node *n, Span span)
{
    if (graph_owns(e->g, n)) return n;
    Node *in = capture(e, e->region, cell, n);
    if (in) return in;
    if (e->root == e->init && cell_of_inputs(e, n)) return own(e, cell_stand_in(e, n), span);
    // In a build of one entry for another batch no cell begins: only the type of its value counts.
    if (e->root == e->init && !entry_wanted(e, "init"))
        return own(e, graph_leaf_cell(e->init, OP_state, "", &n->type), span);
    if (e->root == e->init) {
        Diag *d =
            error_at(e, span, "an initial value cannot depend on values computed at run time");
        diag_note(e->diags, d,
                  "what it needs of parameters and states is computed within it, as in "
                  "'state s: f32[n] = f(p)'; only the model of a 'train' block has initial values "
                  "computed from its inputs");
    } else
        fail(e, span, "this value belongs to %s and cannot be read here",
             of_closed_loop(e, n)
                 ? "the iterations of a loop (carry it for its last value, emit it for all of them)"
                 : "another entry or loop");
    return NULL;
}

Node *own(Elab *e, Node *n, Span span)
{
    return own_as(e, NULL, n, span);
}

// A cell is captured separately, since an iteration may write the cell, while other names of the
// same value do not change.
Node *own_cell(Elab *e, ECell *c, Span span)
{
    return own_as(e, c, c->cur, span);
}

bool loops_carry(Elab *e, ECell *c)
{
    for (Region *r = e->region; r && !graph_owns(r->g, c->cur); r = r->up)
        if (!r->loop) return false;
    if (!e->region || graph_owns(e->g, c->cur)) return true;
    if (!capture(e, e->region, c, c->cur)) return false;
    vec_push(e->arena, &e->region->written, c);
    vec_push(e->arena, &e->region->before, c->cur);
    return true;
}

// The outer value that a parameter of the region captures, or NULL.
static Node *captured(const Region *r, const Node *param)
{
    int64_t k = attr_int(param, ATTR_index, 0) - (int64_t)(r->g->params.n - r->outer.n);
    return param->op == OP_region_param && k >= 0 ? r->outer.at[k] : NULL;
}

const Node *region_origin(const Region *r, const Node *n)
{
    for (const Node *outer; r && (outer = captured(r, n)); r = r->up) n = outer;
    return n;
}

bool region_cuts(Elab *e, Node *y, Node *x)
{
    NodeList from = {0}; // values in the graph of r on which y depends
    vec_push(e->arena, &from, y);
    for (Region *r = e->region;; r = r->up) {
        IdMap seen = idmap_new(e->arena);
        NodeList around = {0};
        for (uint32_t i = 0; i < from.n; i++) {
            Node *n = from.at[i], *outer = r ? captured(r, n) : NULL;
            if (n == x) return r != e->region;
            if (outer) vec_push(e->arena, &around, outer);
            for (uint32_t k = 0; k < n->nargs; k++) {
                if (idmap_get(&seen, (uintptr_t)n->args[k], NULL)) continue;
                idmap_set(&seen, (uintptr_t)n->args[k], 1);
                vec_push(e->arena, &from, n->args[k]);
            }
        }
        x = r ? captured(r, x) : NULL;
        if (!x) return false;
        from = around;
    }
}

Region *region_open(Elab *e)
{
    Region *r = NEW(e->arena, Region);
    r->up = e->region;
    r->g = elab_graph(e);
    r->g->loc = e->g->loc;
    r->g->role = e->g->role;
    r->inner = idmap_new(e->arena);
    e->region = r;
    e->g = r->g;
    return r;
}

void region_close(Elab *e, Region *r)
{
    e->region = r->up;
    e->g = r->up ? r->up->g : e->root;
}

bool region_is_micro(const Region *r)
{
    return r && r->round && !r->loop;
}

void region_assert(Elab *e, Node *cond, const char *text)
{
    if (!e->region) {
        graph_root(e->g, OP_assert, cond, text);
        return;
    }
    if (e->region->no_cells && !e->region->asserts)
        return; // inside a gradient or a reference, which asserts cannot leave
    int64_t axes[MAX_RANK];
    for (int i = 0; i < cond->type.rank; i++) axes[i] = i;
    if (cond->type.rank) // all(cond), as not any(not cond)
        cond = graph_unary(
            e->g, OP_not,
            graph_cast(e->g,
                       graph_reduce(e->g, OP_max,
                                    graph_cast(e->g, graph_unary(e->g, OP_not, cond), DT_I32), axes,
                                    cond->type.rank, false),
                       DT_BOOL));
    vec_push(e->arena, &e->region->assert_cond, cond);
    vec_push(e->arena, &e->region->assert_text, text);
}
