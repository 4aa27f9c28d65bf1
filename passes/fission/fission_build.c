// The loop without what leaves it, and the nodes before and after it.
#include "passes/fission/fission.h"

// Creates images of the nodes in [which], those of their operands first.
static void lift_all(Lift *l, const Graph *body, const bool *which)
{
    bool *needed = NEW_ARRAY(body->arena, bool, body->nodes.n + 1);
    for (uint32_t i = body->nodes.n; i-- > 0;) {
        const Node *x = body->nodes.at[i];
        if (l->image[i] || !(needed[i] |= which[i])) continue;
        for (uint32_t k = 0; k < x->nargs; k++) needed[x->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < body->nodes.n; i++)
        if (needed[i] && !l->image[i]) lift_node(l, body->nodes.at[i]);
}

// The images of what the old loop reads; carried values have none yet.
static Lift begin_lift(const FissionLoop *l, Graph *dst, Node *const *map)
{
    Lift lift = {.dst = dst,
                 .count = l->count,
                 .image = NEW_ARRAY(dst->arena, Node *, l->body->nodes.n + 1),
                 .first = NEW_ARRAY(dst->arena, Node *, l->body->nodes.n + 1),
                 .varies = l->varies};
    lift_counter(&lift, l->body);
    for (uint32_t i = l->ncarried; i < l->n->nargs; i++)
        lift.image[l->body->params.at[i + 1]->id] = map[l->n->args[i]->id];
    return lift;
}

// A parameter of the new body, with the type and name of a value of the old one.
static Node *new_param(Graph *body, const Node *x)
{
    graph_stamp(body, x, NULL);
    Node *p = graph_region_param(body, &x->type);
    node_pass_name(x, p);
    return p;
}

typedef struct NewLoop {
    Graph *body; // its results: next carried values, sums, all that is stacked
    Node **args;
    int nargs;
    uint32_t ncarried, nscanned;
} NewLoop;

// Parameters and operands for what is computed before the loop, or for the part that varies.
static void add_before(NewLoop *new, const FissionLoop *l, const Lift *lift, Remap *r, bool varies)
{
    for (uint32_t i = 0; i < l->body->nodes.n; i++) {
        if (!l->before[i] || l->varies.is[i] != varies) continue;
        r->map[i] = new_param(new->body, l->body->nodes.at[i]);
        new->args[new->nargs++] = lift->image[i];
        new->nscanned += varies;
    }
}

// Parameters for the sums, which begin with zeros. sum: by result.
static void add_sums(NewLoop *new, const FissionLoop *l, const Lift *lift, Node **sum)
{
    for (uint32_t i = 0; i < l->body->results.n; i++) {
        if (!l->summed[i]) continue;
        sum[i] = new_param(new->body, l->body->results.at[i]);
        new->args[new->nargs++] = graph_full_like(lift->dst, l->body->results.at[i], 0);
        new->ncarried++;
    }
}

// The loop without what is computed before and after it.
static NewLoop new_loop(const FissionLoop *l, Node *const *map, const Lift *lift)
{
    const Graph *old = l->body;
    const size_t most = l->n->nargs + old->nodes.n + old->results.n + 1;
    NewLoop new = {.body = graph_beside(old),
                   .args = NEW_ARRAY(old->arena, Node *, most),
                   .ncarried = l->ncarried,
                   .nscanned = l->nscanned};
    Remap r = remap_begin(old, new.body);
    Node **sum = NEW_ARRAY(old->arena, Node *, old->results.n + 1);
    new.body->role = l->n->role;
    for (uint32_t i = 0; i <= old->params.n; i++) {
        if (i == 1 + l->ncarried) add_sums(&new, l, lift, sum);
        if (i == 1 + l->ncarried + l->nscanned) add_before(&new, l, lift, &r, true);
        if (i == old->params.n) break;
        r.map[old->params.at[i]->id] = new_param(new.body, old->params.at[i]);
        if (i) new.args[new.nargs++] = map[l->n->args[i - 1]->id];
    }
    add_before(&new, l, lift, &r, false);
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (l->inside[i] && !r.map[i]) remap_node(&r, old->nodes.at[i]);
    for (uint32_t i = 0; i < l->ncarried; i++)
        vec_push(old->arena, &new.body->results, r.map[old->results.at[i]->id]);
    for (uint32_t i = 0; i < old->results.n; i++)
        if (l->summed[i])
            vec_push(old->arena, &new.body->results,
                     graph_binary(new.body, OP_add, sum[i], r.map[old->results.at[i]->id]));
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (l->stacked[i]) vec_push(old->arena, &new.body->results, r.map[i]);
    return new;
}

bool fission_build(Graph *dst, const FissionLoop *l, Node *const *map, Node **result)
{
    Lift lift = begin_lift(l, dst, map);
    lift_all(&lift, l->body, l->before);
    NewLoop new = new_loop(l, map, &lift);
    if (!l->products && !recurrence_body(new.body, new.ncarried, l->shape)) return false;
    Attrs at = attrs_copy(l->n->attrs);
    attr_set_int(&at, ATTR_carried, new.ncarried);
    attr_set_int(&at, ATTR_scanned, new.nscanned);
    graph_stamp(dst, l->n, l->n->name);
    Node *loop = graph_region_node(dst, OP_loop, new.args, new.nargs, &at, &new.body, 1);
    node_pass_name(l->n, loop);
    int next = 0;
    for (; next < (int)l->ncarried; next++) result[next] = graph_result(dst, loop, next);
    for (uint32_t i = 0; i < l->body->results.n; i++)
        if (l->summed[i]) result[i] = graph_result(dst, loop, next++);
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (l->stacked[i]) lift.image[i] = graph_result(dst, loop, next++);
    lift_all(&lift, l->body, l->after);
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        if (!l->summed[i]) result[i] = lift_result(&lift, l->body->results.at[i]);
    return true;
}
