// Loop fission: a loop keeps only what its carried values need; the rest is computed for all
// iterations at once, before or after it. What remains can then be one kernel (recurrences.c).
//
//     loop t carry h over x {                  u = sigmoid(matmul(x, w))      (T, B, N), one
//     product
//         u = sigmoid(matmul(x, w))            loop t carry h over u {
//         h = u * h + (1 - u)         becomes      h = u * h + (1 - u)  emit before = h }
//         emit y = matmul(h, v) }              y = matmul(hs, v)              one product, too
//
// Before the loop: what does not depend on carried values and is no elementwise code. After it:
// stacked results that do not depend on carried values, or that mix elements of values that do
// (sums, products). For these the loop stacks carried values; elementwise code between is computed
// again. Sums that the loop accumulates are left to loop_sums.
//
// Requires: gradients expanded, precision chosen. Keeps: every value up to the order of additions.
// Breaks: nothing. The cost is memory for what is stacked: at most MOST_STACKED bytes a loop.
#include <string.h>

#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/recurrences.h"
#include "passes/regions.h"

#define MOST_STACKED (2LL << 30)
enum { MOST_NODES = 8000 };

typedef struct Loop {
    const Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    int64_t count, elements;
    bool *moving, *varies; // by id: depends on carried values; differs between iterations
    bool *inside;          // by id: the new loop computes it
    bool *before;          // by id: computed before the loop, and scanned
    bool *after;           // by id: computed after the loop
    bool *stacked;         // by id: the new loop stacks it
    bool *leaves;          // by result: computed after the loop
    bool any;
} Loop;

static uint32_t param_index(const Node *x)
{
    return x->op == OP_region_param ? (uint32_t)attr_int(x, ATTR_index, 0) : UINT32_MAX;
}

static bool is_scanned(const Loop *l, const Node *x)
{
    return param_index(x) - 1 - l->ncarried < l->nscanned;
}

// Marks what the new loop has to compute for x; false if it cannot. inside, before: by id.
static bool needs(const Loop *l, const Node *x, bool *inside, bool *before)
{
    if (inside[x->id] || before[x->id]) return true;
    if (!recurrence_takes(x, l->moving[x->id], l->elements)) {
        if (l->moving[x->id]) return false;
        before[x->id] = true;
        return true;
    }
    inside[x->id] = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (!needs(l, x->args[k], inside, before)) return false;
    return true;
}

// Whether stacked result i can stay in the loop; marks what it needs.
static bool stays(Loop *l, uint32_t i)
{
    const Node *x = l->body->results.at[i];
    if (!l->moving[x->id] || type_count(&x->type) != l->elements) return false;
    const size_t n = l->body->nodes.n + 1;
    bool *inside = NEW_ARRAY(l->body->arena, bool, n), *before = NEW_ARRAY(l->body->arena, bool, n);
    memcpy(inside, l->inside, n);
    memcpy(before, l->before, n);
    if (!needs(l, x, inside, before)) return false;
    l->inside = inside, l->before = before;
    return true;
}

// Whether the values of x in all iterations are in memory after the loop.
static bool in_memory(const Loop *l, const Node *x, bool ends)
{
    if (l->stacked[x->id] || param_index(x) - 1 < l->ncarried) return true;
    for (uint32_t i = 0; i < l->ncarried && ends; i++)
        if (l->body->results.at[i] == x) return true;
    return false;
}

// Marks what is computed after the loop for x, in after, and what is stacked for it, in stacked.
// ends: carried values at the end of an iteration are stacked, too.
static bool wanted(const Loop *l, const Node *x, bool ends, bool *after, bool *stacked)
{
    if (after[x->id] || stacked[x->id]) return true;
    if (l->moving[x->id] && in_memory(l, x, ends)) {
        stacked[x->id] = true;
        return x->type.rank < MAX_RANK;
    }
    if (!lift_can(x, l->varies)) return false;
    after[x->id] = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (!wanted(l, x->args[k], ends, after, stacked)) return false;
    return true;
}

// Bytes that the loop stacks and did not stack before; -1: not all can be computed after it.
static int64_t stack_bytes(const Loop *l, bool ends, bool *after, bool *stacked)
{
    int64_t bytes = 0;
    memcpy(stacked, l->stacked, l->body->nodes.n);
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        if (l->leaves[i] && !wanted(l, l->body->results.at[i], ends, after, stacked)) return -1;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (stacked[i] && !l->stacked[i]) bytes += type_bytes(&l->body->nodes.at[i]->type);
    return bytes;
}

// Chooses what is stacked: carried values at the beginning of an iteration only, or at its end,
// too.
static bool choose_stacks(Loop *l)
{
    const size_t n = l->body->nodes.n + 1;
    bool *after[2], *stacked[2];
    int64_t bytes[2];
    for (int ends = 0; ends < 2; ends++) {
        after[ends] = NEW_ARRAY(l->body->arena, bool, n);
        stacked[ends] = NEW_ARRAY(l->body->arena, bool, n);
        bytes[ends] = stack_bytes(l, ends, after[ends], stacked[ends]);
    }
    const int best = bytes[1] >= 0 && (bytes[0] < 0 || bytes[1] <= bytes[0]);
    if (bytes[best] < 0 || bytes[best] > MOST_STACKED / l->count) return false;
    l->after = after[best], l->stacked = stacked[best];
    return true;
}

// What is computed before the loop is lifted with all that it needs.
static bool lifts_before(Loop *l)
{
    const uint32_t n = l->body->nodes.n;
    bool *needed = NEW_ARRAY(l->body->arena, bool, n + 1);
    int64_t bytes = 0;
    for (uint32_t i = n; i-- > 0;) {
        const Node *x = l->body->nodes.at[i];
        if (l->before[i]) bytes += type_bytes(&x->type);
        if (!(needed[i] |= l->before[i])) continue;
        if (!lift_can(x, l->varies)) return false;
        for (uint32_t k = 0; k < x->nargs; k++) needed[x->args[k]->id] = true;
    }
    return bytes <= MOST_STACKED / l->count;
}

static Loop find(const Node *n, Graph *body)
{
    Loop l = {.n = n,
              .body = body,
              .ncarried = (uint32_t)attr_int(n, ATTR_carried, 0),
              .nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0),
              .count = attr_int(n, ATTR_count, 0)};
    Arena *a = body->arena;
    const size_t size = body->nodes.n + 1;
    if (!l.ncarried || l.count < 2 || body->roots.n || body->nodes.n > MOST_NODES) return l;
    l.elements = type_count(&n->args[0]->type);
    if (recurrence_body(body, l.ncarried, l.elements)) return l;
    l.moving = recurrence_moving(body, l.ncarried);
    l.varies = NEW_ARRAY(a, bool, size);
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        l.varies[i] = l.moving[i] || param_index(x) == 0 || is_scanned(&l, x);
        for (uint32_t k = 0; k < x->nargs; k++) l.varies[i] |= l.varies[x->args[k]->id];
    }
    l.inside = NEW_ARRAY(a, bool, size), l.before = NEW_ARRAY(a, bool, size);
    l.stacked = NEW_ARRAY(a, bool, size), l.leaves = NEW_ARRAY(a, bool, body->results.n + 1);
    for (uint32_t i = 0; i < l.ncarried; i++)
        if (!needs(&l, body->results.at[i], l.inside, l.before)) return l;
    bool leaves = false;
    for (uint32_t i = l.ncarried; i < body->results.n; i++) {
        l.leaves[i] = !stays(&l, i);
        leaves |= l.leaves[i];
        if (!l.leaves[i]) l.stacked[body->results.at[i]->id] = true;
    }
    for (uint32_t i = 0; i < body->nodes.n; i++) leaves |= l.before[i];
    if (!leaves) return l;
    l.any = lifts_before(&l) && choose_stacks(&l);
    return l;
}

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
static Lift begin_lift(const Loop *l, Graph *dst, Node *const *map)
{
    Lift lift = {dst, l->count, NEW_ARRAY(dst->arena, Node *, l->body->nodes.n + 1), l->varies};
    for (uint32_t i = 0; i < l->body->params.n; i++) {
        const Node *p = l->body->params.at[i];
        if (i > l->ncarried) lift.image[p->id] = map[l->n->args[i - 1]->id];
        if (!i) lift.image[p->id] = graph_iota(dst, p->type.dtype, &l->count, 1, 0);
    }
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

// The loop without what is computed before and after it. args: its operands. Its results: next
// carried values, then all that is stacked.
static Graph *new_body(const Loop *l, Node *const *map, const Lift *lift, Node **args, int *nargs,
                       uint32_t *nscanned)
{
    const Graph *old = l->body;
    Graph *body = graph_beside(old);
    Remap r = remap_begin(old, body);
    const uint32_t scanned = 1 + l->ncarried + l->nscanned;
    body->role = l->n->role;
    *nargs = 0;
    *nscanned = l->nscanned;
    for (int invariant = 0; invariant < 2; invariant++) {
        for (uint32_t i = invariant ? scanned : 0; i < (invariant ? old->params.n : scanned); i++) {
            r.map[old->params.at[i]->id] = new_param(body, old->params.at[i]);
            if (i) args[(*nargs)++] = map[l->n->args[i - 1]->id];
        }
        for (uint32_t i = 0; i < old->nodes.n; i++) {
            if (!l->before[i] || l->varies[i] == invariant) continue;
            r.map[i] = new_param(body, old->nodes.at[i]);
            args[(*nargs)++] = lift->image[i];
            *nscanned += !invariant;
        }
    }
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (l->inside[i] && !r.map[i]) remap_node(&r, old->nodes.at[i]);
    for (uint32_t i = 0; i < l->ncarried; i++)
        vec_push(body->arena, &body->results, r.map[old->results.at[i]->id]);
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (l->stacked[i]) vec_push(body->arena, &body->results, r.map[i]);
    return body;
}

// Replaces the loop in dst. result: by result of the old loop, its replacement. False: it is kept.
static bool rewrite(Graph *dst, const Loop *l, Node *const *map, Node **result)
{
    Node **args = NEW_ARRAY(dst->arena, Node *, l->n->nargs + l->body->nodes.n + 1);
    int nargs;
    uint32_t nscanned;
    Lift lift = begin_lift(l, dst, map);
    lift_all(&lift, l->body, l->before);
    Graph *body = new_body(l, map, &lift, args, &nargs, &nscanned);
    if (!recurrence_body(body, l->ncarried, l->elements)) return false;
    Attrs at = attrs_copy(l->n->attrs);
    attr_set_int(&at, ATTR_scanned, nscanned);
    graph_stamp(dst, l->n, l->n->name);
    Node *loop = graph_region_node(dst, OP_loop, args, nargs, &at, &body, 1);
    node_pass_name(l->n, loop);
    int next = 0;
    for (; next < (int)l->ncarried; next++) result[next] = graph_result(dst, loop, next);
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (l->stacked[i]) lift.image[i] = graph_result(dst, loop, next++);
    lift_all(&lift, l->body, l->after);
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        result[i] = lift_result(&lift, l->body->results.at[i]);
    return true;
}

static Graph *split(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    bool needed = any_rebuilt(done, g);
    Loop *loop = NEW_ARRAY(g->arena, Loop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op == OP_loop) loop[i] = find(n, rebuilt(done, n->regions[0]));
        needed |= loop[i].any;
    }
    if (!needed) return g;
    Remap r = remap_begin(g, graph_beside(g));
    Node ***result = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Node **new = loop[i].any ? NEW_ARRAY(g->arena, Node *, loop[i].body->results.n + 1) : NULL;
        if (new &&rewrite(r.dst, &loop[i], r.map, new))
            result[i] = new, r.map[i] = new[0];
        else if (node_has(n, OPF_RESULT) && result[n->args[0]->id])
            r.map[i] = result[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        else
            remap_with_regions(&r, done, n, &needed);
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_fission(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, split, NULL);
}
