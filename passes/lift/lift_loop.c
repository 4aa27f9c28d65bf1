// Lifting of a loop within the body: its iterations stay, each computes what it computes for all
// iterations of the outer loop, (T, ...) becomes (T, B, ...).
#include "passes/lift/lift.h"

// Swaps axes 0 and 1.
static Node *turned(Graph *g, Node *x)
{
    return lift_to_front(g, x, 1);
}

// What varies in the inner body, given what does in the outer one.
static Varying inner_varying(const Node *x, const Varying *outer)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0),
                   captured = carried + (uint32_t)attr_int(x, ATTR_scanned, 0);
    Varying v = lift_varying(body);
    for (uint32_t k = 0; k < x->nargs; k++)
        if (outer->is[x->args[k]->id])
            lift_param_varies(body, k + 1,
                              k < captured ? LIFT_UNKNOWN : outer->step[x->args[k]->id], &v);
    for (bool again = true; again;) {
        again = false;
        lift_find_varying(body, &v);
        for (uint32_t k = 0; k < carried; k++) {
            if (!v.is[body->results.at[k]->id] || v.is[body->params.at[k + 1]->id]) continue;
            lift_param_varies(body, k + 1, LIFT_UNKNOWN, &v);
            again = true;
        }
    }
    return v;
}

bool lift_can_loop(const Node *x, const Varying *outer)
{
    const Graph *body = x->regions[0];
    const Varying varies = inner_varying(x, outer);
    if (body->roots.n) return false;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *n = body->nodes.at[i];
        const bool can = n->op == OP_loop           ? lift_can_loop(n, &varies)
                         : node_has(n, OPF_RESULT)  ? true
                         : n->op == OP_region_param ? n->type.rank < MAX_RANK - 1
                                                    : lift_can(n, &varies);
        if (!can) return false;
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        if (body->results.at[i]->type.rank >= MAX_RANK - 1) return false;
    return true;
}

// The body for all iterations of the outer loop. Parameters with a step have another one behind
// all, which is their value in iteration 0 of the outer loop; args receives its operands from
// *nargs on.
static Graph *lift_body(Lift *l, const Node *x, Varying varies, Node **args, int *nargs)
{
    Graph *body = x->regions[0], *new = graph_beside(body);
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0);
    Lift in = {.dst = new,
               .count = l->count,
               .image = NEW_ARRAY(body->arena, Node *, body->nodes.n + 1),
               .first = NEW_ARRAY(body->arena, Node *, body->nodes.n + 1),
               .varies = varies,
               .results = NEW_ARRAY(body->arena, Node **, body->nodes.n + 1)};
    new->role = x->role;
    for (uint32_t i = 0; i < body->params.n; i++) {
        const Node *p = body->params.at[i];
        Type t = p->type;
        if (varies.is[p->id]) {
            t = (Type){.dtype = p->type.dtype, .rank = p->type.rank + 1, .dim = {l->count}};
            for (int k = 0; k < p->type.rank; k++) t.dim[k + 1] = p->type.dim[k];
        }
        graph_stamp(new, p, NULL);
        in.image[p->id] = graph_region_param(new, &t);
        node_pass_name(p, in.image[p->id]);
    }
    for (uint32_t i = 1; i < body->params.n; i++) {
        const Node *p = body->params.at[i];
        if (!varies.is[p->id] || varies.step[p->id] == LIFT_UNKNOWN) continue;
        in.first[p->id] = graph_region_param(new, &p->type);
        args[(*nargs)++] = lift_first(l, x->args[i - 1]);
    }
    for (uint32_t i = 0; i < body->nodes.n; i++)
        if (!in.image[i]) lift_node(&in, body->nodes.at[i]);
    for (uint32_t i = 0; i < body->results.n; i++) {
        const Node *r = body->results.at[i];
        const bool whole = i < carried && varies.is[body->params.at[i + 1]->id];
        vec_push(new->arena, &new->results, whole ? lift_result(&in, r) : in.image[r->id]);
    }
    return new;
}

void lift_loop(Lift *l, const Node *x)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0),
                   scanned = (uint32_t)attr_int(x, ATTR_scanned, 0);
    const Varying varies = inner_varying(x, &l->varies);
    Node **args = NEW_ARRAY(l->dst->arena, Node *, 2 * x->nargs + 1);
    int nargs = (int)x->nargs;
    Graph *new = lift_body(l, x, varies, args, &nargs);
    for (uint32_t k = 0; k < x->nargs; k++) {
        args[k] = l->image[x->args[k]->id];
        if (!varies.is[body->params.at[k + 1]->id]) continue;
        args[k] = lift_result(l, x->args[k]);
        if (k >= carried && k < carried + scanned) args[k] = turned(l->dst, args[k]);
    }
    graph_stamp(l->dst, x, x->name);
    Node *loop = graph_region_node(l->dst, OP_loop, args, nargs, x->attrs, &new, 1);
    Node **results = NEW_ARRAY(l->dst->arena, Node *, body->results.n + 1);
    for (uint32_t i = 0; i < body->results.n; i++) {
        const bool moves =
            varies.is[i < carried ? body->params.at[i + 1]->id : body->results.at[i]->id];
        results[i] = graph_result(l->dst, loop, (int)i);
        if (moves && i >= carried) results[i] = turned(l->dst, results[i]);
        if (!moves && l->varies.is[x->id]) results[i] = lift_repeated(l->dst, results[i], l->count);
    }
    l->results[x->id] = results;
    l->image[x->id] = results[0];
}
