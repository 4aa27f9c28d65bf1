// Lifting of a loop within the body: its iterations stay, each computes what it computes for all
// iterations of the outer loop, (T, ...) becomes (T, B, ...).
#include "passes/lift/lift.h"

// Swaps axes 0 and 1.
static Node *turned(Graph *g, Node *x)
{
    return lift_to_front(g, x, 1);
}

// By id of the inner body: which values vary, given those of the outer one.
static bool *inner_varies(const Node *x, const bool *outer)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0);
    bool *varies = NEW_ARRAY(body->arena, bool, body->nodes.n + 1), again = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        varies[body->params.at[k + 1]->id] = outer[x->args[k]->id];
    while (again) {
        again = false;
        for (uint32_t i = 0; i < body->nodes.n; i++)
            for (uint32_t k = 0; k < body->nodes.at[i]->nargs; k++)
                varies[i] |= varies[body->nodes.at[i]->args[k]->id];
        for (uint32_t k = 0; k < carried; k++) {
            const bool next = varies[body->results.at[k]->id];
            bool *was = &varies[body->params.at[k + 1]->id];
            again |= next && !*was;
            *was |= next;
        }
    }
    return varies;
}

bool lift_can_loop(const Node *x, const bool *outer)
{
    const Graph *body = x->regions[0];
    const bool *varies = inner_varies(x, outer);
    if (body->roots.n) return false;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *n = body->nodes.at[i];
        const bool can = n->op == OP_loop           ? lift_can_loop(n, varies)
                         : node_has(n, OPF_RESULT)  ? true
                         : n->op == OP_region_param ? n->type.rank < MAX_RANK - 1
                                                    : lift_can(n, varies);
        if (!can) return false;
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        if (body->results.at[i]->type.rank >= MAX_RANK - 1) return false;
    return true;
}

// The body for all iterations of the outer loop.
static Graph *lift_body(const Lift *l, const Node *x, const bool *varies)
{
    Graph *body = x->regions[0], *new = graph_beside(body);
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0);
    Lift in = {.dst = new,
               .count = l->count,
               .image = NEW_ARRAY(body->arena, Node *, body->nodes.n + 1),
               .varies = NEW_ARRAY(body->arena, bool, body->nodes.n + 1),
               .results = NEW_ARRAY(body->arena, Node **, body->nodes.n + 1)};
    new->role = x->role;
    for (uint32_t i = 0; i < body->nodes.n; i++) in.varies[i] = varies[i];
    for (uint32_t i = 0; i < body->params.n; i++) {
        const Node *p = body->params.at[i];
        Type t = p->type;
        if (varies[p->id]) {
            t = (Type){.dtype = p->type.dtype, .rank = p->type.rank + 1, .dim = {l->count}};
            for (int k = 0; k < p->type.rank; k++) t.dim[k + 1] = p->type.dim[k];
        }
        graph_stamp(new, p, NULL);
        in.image[p->id] = graph_region_param(new, &t);
        node_pass_name(p, in.image[p->id]);
    }
    for (uint32_t i = 0; i < body->nodes.n; i++)
        if (!in.image[i]) lift_node(&in, body->nodes.at[i]);
    for (uint32_t i = 0; i < body->results.n; i++) {
        const Node *r = body->results.at[i];
        const bool whole = i < carried && varies[body->params.at[i + 1]->id];
        vec_push(new->arena, &new->results, whole ? lift_result(&in, r) : in.image[r->id]);
    }
    return new;
}

void lift_loop(Lift *l, const Node *x)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0),
                   scanned = (uint32_t)attr_int(x, ATTR_scanned, 0);
    const bool *varies = inner_varies(x, l->varies);
    Graph *new = lift_body(l, x, varies);
    Node **args = NEW_ARRAY(l->dst->arena, Node *, x->nargs + 1);
    for (uint32_t k = 0; k < x->nargs; k++) {
        args[k] = l->image[x->args[k]->id];
        if (!varies[body->params.at[k + 1]->id]) continue;
        args[k] = lift_result(l, x->args[k]);
        if (k >= carried && k < carried + scanned) args[k] = turned(l->dst, args[k]);
    }
    graph_stamp(l->dst, x, x->name);
    Node *loop = graph_region_node(l->dst, OP_loop, args, (int)x->nargs, x->attrs, &new, 1);
    Node **results = NEW_ARRAY(l->dst->arena, Node *, body->results.n + 1);
    for (uint32_t i = 0; i < body->results.n; i++) {
        const bool moves =
            varies[i < carried ? body->params.at[i + 1]->id : body->results.at[i]->id];
        results[i] = graph_result(l->dst, loop, (int)i);
        if (moves && i >= carried) results[i] = turned(l->dst, results[i]);
        if (!moves && l->varies[x->id]) results[i] = lift_repeated(l->dst, results[i], l->count);
    }
    l->results[x->id] = results;
    l->image[x->id] = results[0];
}

int64_t lift_loop_bytes(const Node *x)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->nodes.n; i++)
        bytes += body->nodes.at[i]->op == OP_loop ? lift_loop_bytes(body->nodes.at[i])
                                                  : lift_bytes(body->nodes.at[i]);
    for (uint32_t i = 0; i < body->results.n; i++)
        bytes +=
            type_bytes(&body->results.at[i]->type) * (i < carried ? 1 : attr_int(x, ATTR_count, 0));
    return bytes;
}
