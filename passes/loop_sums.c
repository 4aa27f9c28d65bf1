// Sums that a loop accumulates become one reduction after it.
//
// A carried value that is only added to, v <- v + x, ends as its initial value plus the sum of x
// over the iterations. Where x is a contraction or a sum, the loop stacks the operands of x
// instead, and they are contracted once over the iteration axis too: the weight gradient of a
// recurrence is one matmul, not one an iteration. The cost is memory for the stacks, which may be
// no larger than what the loop reads and stacks anyway.
//
// Requires: gradients expanded (backward loops are what accumulates). Keeps: every value up to the
// order of additions: the terms are the same, so only a partial sum can overflow where another
// order's does not. Breaks: nothing.
#include "passes/lift/lift.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum { MOST_VIEWS = 4 };

// What is added to carried value j: x, a contraction or a sum, behind views (innermost last).
typedef struct Carry {
    Node *x;
    Node *view[MOST_VIEWS];
    int nviews;
} Carry;

typedef struct Loop {
    Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    Carry *carry; // by carried value; x is NULL if the value stays in the loop
    uint32_t ntaken;
} Loop;

static uint32_t *count_uses(const Graph *g)
{
    uint32_t *uses = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nargs; k++) uses[g->nodes.at[i]->args[k]->id]++;
    for (uint32_t i = 0; i < g->results.n; i++) uses[g->results.at[i]->id]++;
    for (uint32_t i = 0; i < g->roots.n; i++) uses[g->roots.at[i]->id]++;
    return uses;
}

static bool is_param(const Node *x, uint32_t from, uint32_t to)
{
    if (x->op != OP_region_param) return false;
    int64_t index = attr_int(x, ATTR_index, 0);
    return index >= from && index < to;
}

// Whether the loop scans or stacks x, so that its values of all iterations are in memory.
static bool is_stacked(const Loop *l, const Node *x)
{
    if (is_param(x, 1 + l->ncarried, 1 + l->ncarried + l->nscanned)) return true;
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        if (l->body->results.at[i] == x) return true;
    return false;
}

static bool is_captured(const Loop *l, const Node *x)
{
    return is_param(x, 1 + l->ncarried + l->nscanned, UINT32_MAX);
}

static Carry find_sum(const Loop *l, uint32_t j, const uint32_t *uses)
{
    Carry c = {0}, no = {0};
    Node *param = l->body->params.at[1 + j], *next = l->body->results.at[j];
    if (!dtype_is_float(param->type.dtype) || next->op != OP_add || uses[param->id] != 1 ||
        uses[next->id] != 1)
        return no;
    Node *x = next->args[next->args[0] == param];
    if (next->args[0] != param && next->args[1] != param) return no;
    while (node_has(x, OPF_PERMUTES) && c.nviews < MOST_VIEWS) {
        c.view[c.nviews++] = x;
        x = x->args[0];
    }
    if (x->op != OP_dot && x->op != OP_sum) return no;
    for (uint32_t k = 0; k < x->nargs; k++) // one more axis must be possible
        if (x->args[k]->type.rank == MAX_RANK || is_captured(l, x->args[k])) return no;
    c.x = x;
    return c;
}

static Loop find_sums(Node *n, Graph *body)
{
    Loop l = {.n = n,
              .body = body,
              .ncarried = (uint32_t)attr_int(n, ATTR_carried, 0),
              .nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0)};
    Arena *a = body->arena;
    uint32_t *uses = count_uses(body);
    int64_t have = 0, more = 0;
    for (uint32_t k = 0; k < l.nscanned; k++)
        have += type_bytes(&body->params.at[1 + l.ncarried + k]->type);
    for (uint32_t i = l.ncarried; i < body->results.n; i++)
        have += type_bytes(&body->results.at[i]->type);
    l.carry = NEW_ARRAY(a, Carry, l.ncarried + 1);
    IdMap counted = idmap_new(a);
    for (uint32_t j = 0; j < l.ncarried; j++) {
        Carry c = find_sum(&l, j, uses);
        int64_t cost = 0;
        for (uint32_t k = 0; c.x && k < c.x->nargs; k++)
            if (!is_stacked(&l, c.x->args[k]) && !idmap_get(&counted, c.x->args[k]->id, NULL))
                cost += type_bytes(&c.x->args[k]->type);
        if (!c.x || more + cost > have) continue;
        for (uint32_t k = 0; k < c.x->nargs; k++) idmap_set(&counted, c.x->args[k]->id, 1);
        more += cost;
        l.carry[j] = c;
        l.ntaken++;
    }
    return l;
}

// The sum of x over all iterations. stack: by operand, its stacked values (iterations, ...).
static Node *sum_after(Graph *g, const Node *x, Node *const *stack)
{
    Attrs at = {0};
    if (x->op == OP_sum) {
        lift_axes(g, x, ATTR_axes, true, &at);
        return graph_node(g, OP_sum, stack, 1, &at);
    }
    attr_set_int(&at, ATTR_dtype, x->type.dtype);
    attr_set_int(&at, ATTR_accumulate, attr_int(x, ATTR_accumulate, x->type.dtype));
    lift_axes(g, x, ATTR_batch_a, false, &at);
    lift_axes(g, x, ATTR_batch_b, false, &at);
    lift_axes(g, x, ATTR_contract_a, true, &at);
    lift_axes(g, x, ATTR_contract_b, true, &at);
    return graph_node(g, OP_dot, stack, 2, &at);
}

// The stacked operands of the sums that leave the loop, two per carried value.
typedef struct Stacks {
    Node **stack; // the operand of the loop if it is scanned already; otherwise NULL
    int *result;  // otherwise: which result of the new loop stacks it
} Stacks;

static bool leaves(const Loop *l, uint32_t result)
{
    return result < l->ncarried && l->carry[result].x;
}

// The body without the carried sums. All other nodes are kept, so that the operands of the sums can
// be found. args: operands of the new loop, *nargs of them.
static Remap body_without(const Loop *l, Node *const *map, Node **args, int *nargs)
{
    Graph *old = l->body, *body = graph_beside(old);
    Remap r = remap_begin(old, body);
    *nargs = 0;
    body->role = l->n->role;
    for (uint32_t i = 0; i < old->params.n; i++) {
        const Node *p = old->params.at[i];
        body->loc = p->loc;
        if (i && leaves(l, i - 1)) {
            r.map[p->id] = graph_full_like(body, p, 0); // has no readers
            continue;
        }
        Node *in = r.map[p->id] = graph_region_param(body, &p->type);
        if (!in->name) in->name = p->name;
        if (i) args[(*nargs)++] = map[l->n->args[i - 1]->id];
    }
    for (uint32_t i = 0; i < old->nodes.n; i++) remap_node(&r, old->nodes.at[i]);
    for (uint32_t i = 0; i < old->results.n; i++)
        if (!leaves(l, i)) vec_push(old->arena, &body->results, r.map[old->results.at[i]->id]);
    return r;
}

// Adds stacked results for operands that the loop neither scans nor stacks yet.
static Stacks stack_operands(const Loop *l, Node *const *map, const Remap *r)
{
    Graph *body = r->dst;
    Stacks s = {NEW_ARRAY(body->arena, Node *, 2 * (l->ncarried + 1)),
                NEW_ARRAY(body->arena, int, 2 * (l->ncarried + 1))};
    for (uint32_t j = 0; j < l->ncarried; j++)
        for (uint32_t k = 0; l->carry[j].x && k < l->carry[j].x->nargs; k++) {
            const Node *x = l->carry[j].x->args[k];
            Node *y = r->map[x->id];
            int at = -1;
            if (is_param(x, 1 + l->ncarried, 1 + l->ncarried + l->nscanned)) {
                s.stack[2 * j + k] = map[l->n->args[attr_int(x, ATTR_index, 0) - 1]->id];
                continue;
            }
            for (uint32_t i = l->ncarried - l->ntaken; i < body->results.n && at < 0; i++)
                if (body->results.at[i] == y) at = (int)i;
            if (at < 0) {
                at = (int)body->results.n;
                vec_push(body->arena, &body->results, y);
            }
            s.result[2 * j + k] = at;
        }
    return s;
}

// The loop in dst without the sums. result: by result of the old loop, its replacement.
static void rewrite(Graph *dst, const Loop *l, Node *const *map, Node **result)
{
    Node *n = l->n, **args = NEW_ARRAY(dst->arena, Node *, n->nargs + 1);
    int nargs;
    Remap r = body_without(l, map, args, &nargs);
    Stacks s = stack_operands(l, map, &r);
    Graph *body = graph_drop_dead(r.dst);
    Attrs at = attrs_copy(n->attrs);
    attr_set_int(&at, ATTR_carried, l->ncarried - l->ntaken);
    graph_stamp(dst, n, n->name);
    // (nothing is left of a loop that only added up what it scans)
    Node *loop =
        body->results.n ? graph_region_node(dst, OP_loop, args, nargs, &at, &body, 1) : NULL;
    for (uint32_t i = 0, kept = 0; i < l->body->results.n; i++) {
        if (!leaves(l, i)) {
            result[i] = graph_result(dst, loop, (int)kept++);
            continue;
        }
        const Carry *c = &l->carry[i];
        for (uint32_t k = 2 * i; k < 2 * i + c->x->nargs; k++)
            if (!s.stack[k]) s.stack[k] = graph_result(dst, loop, s.result[k]);
        dst->loc = c->x->loc;
        Node *v = sum_after(dst, c->x, &s.stack[2 * i]);
        for (int k = c->nviews; k-- > 0;)
            v = graph_node(dst, c->view[k]->op, &v, 1, c->view[k]->attrs);
        result[i] = graph_binary(dst, OP_add, map[n->args[i]->id], v);
    }
}

static Graph *take_sums(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    bool needed = any_rebuilt(done, g);
    Loop *loop = NEW_ARRAY(g->arena, Loop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op == OP_loop) loop[i] = find_sums(n, rebuilt(done, n->regions[0]));
        needed |= loop[i].ntaken > 0;
    }
    if (!needed) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    Node ***result = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (loop[i].ntaken) {
            result[i] = NEW_ARRAY(g->arena, Node *, loop[i].body->results.n + 1);
            rewrite(dst, &loop[i], r.map, result[i]);
            r.map[i] = result[i][0];
        } else if (node_has(n, OPF_RESULT) && result[n->args[0]->id]) {
            r.map[i] = result[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        } else {
            remap_with_regions(&r, done, n, &needed);
        }
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_loop_sums(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return over_regions(g, take_sums, NULL);
}
