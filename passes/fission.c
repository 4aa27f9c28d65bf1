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
// again. A stacked result of which only the sum over the iterations is read is carried as that sum.
// Other sums that the loop accumulates are left to loop_sums, which runs before.
//
// If carried values need more than elementwise code (an LSTM's products), the loop remains a loop.
// Then only products with what all iterations have (weights) leave it: those of what is scanned
// before it, those of what it can stack, if carried values do not need them, after it. A loop that
// only adds up stays as it is; it may well be one for the sake of memory.
//
// Requires: gradients expanded, precision chosen. Keeps: every value up to the order of additions.
// Breaks: nothing. The cost is memory for all iterations of what is stacked, multiplied or summed:
// as many bytes as the loop reads and stacks anyway, or MOST_BYTES, or an eighth of a memory limit.
#include <string.h>

#include "ir/axes.h"
#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/recurrences.h"
#include "passes/regions.h"

#define MOST_BYTES (2LL << 30)
enum { MOST_NODES = 8000, MOST_ROWS = 2048 };

typedef struct Loop {
    const Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    int64_t count;
    RecurrenceShape shape;
    int64_t bytes;         // that an iteration may cost
    bool fits;             // it can be one kernel as it is
    bool products;         // it remains a loop, and only products leave it
    bool *moving, *varies; // by id: depends on carried values; differs between iterations
    bool *liftable;        // by id: independent of carried values, for all iterations at once
    bool *inside;          // by id: the new loop computes it
    bool *before;          // by id: computed before the loop, and scanned
    bool *after;           // by id: computed after the loop
    bool *stacked;         // by id: the new loop stacks it
    bool *leaves;          // by result: computed after the loop
    bool *summed;          // by result: carried as a sum
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

// Whether x is a product of few rows with what all iterations have: one product of all of them
// reads that once. More rows would gain nothing, and cost memory.
static bool is_narrow(const Loop *l, const Node *x)
{
    if (x->op != OP_dot || l->varies[x->args[0]->id] == l->varies[x->args[1]->id]) return false;
    const DotSizes s = dot_sizes(x);
    return s.batch * (l->varies[x->args[0]->id] ? s.m : s.n) < MOST_ROWS;
}

// Whether the new loop computes x, if it needs it.
static bool takes(const Loop *l, const Node *x)
{
    if (l->products) return !is_narrow(l, x) || !l->liftable[x->id];
    return recurrence_takes(x, l->moving[x->id], l->shape);
}

// Marks what the new loop has to compute for x; false if it cannot. inside, before: by id.
static bool needs(const Loop *l, const Node *x, bool *inside, bool *before)
{
    if (inside[x->id] || before[x->id]) return true;
    if (!takes(l, x)) {
        if (!l->liftable[x->id]) return false;
        before[x->id] = true;
        return true;
    }
    inside[x->id] = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (!needs(l, x->args[k], inside, before)) return false;
    return true;
}

// Whether the values of x in all iterations are in memory after the loop.
static bool in_memory(const Loop *l, const Node *x, bool ends)
{
    if (l->stacked[x->id] || param_index(x) - 1 < l->ncarried) return true;
    if (l->products && l->inside[x->id]) return true;
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

// Whether x needs a product of carried values that can be computed after the loop, and of which the
// loop's own results need nothing.
static bool ends_in_product(const Loop *l, const Node *x)
{
    const size_t n = l->body->nodes.n + 1;
    bool *after = NEW_ARRAY(l->body->arena, bool, n), *stacked = NEW_ARRAY(l->body->arena, bool, n);
    if (!wanted(l, x, true, after, stacked)) return false;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (after[i] && l->moving[i] && is_narrow(l, l->body->nodes.at[i])) return true;
    return false;
}

// Whether stacked result i can stay in the loop; marks what it needs.
static bool stays(Loop *l, uint32_t i)
{
    const Node *x = l->body->results.at[i];
    if (l->products)
        return !l->liftable[x->id] && !ends_in_product(l, x) && needs(l, x, l->inside, l->before);
    if (!(l->moving[x->id] || l->fits) || !recurrence_stores(&x->type, l->shape)) return false;
    const size_t n = l->body->nodes.n + 1;
    bool *inside = NEW_ARRAY(l->body->arena, bool, n), *before = NEW_ARRAY(l->body->arena, bool, n);
    memcpy(inside, l->inside, n);
    memcpy(before, l->before, n);
    if (!needs(l, x, inside, before)) return false;
    l->inside = inside, l->before = before;
    return true;
}

// Bytes of memory that x takes when it is lifted: elementwise code and views are fused into what
// reads them, unless that is a product.
static int64_t stored_bytes(const Node *x)
{
    const OpClass c = node_class(x);
    if (c == CLS_ELEMENTWISE || c == CLS_VIEW || c == CLS_LEAF) return 0;
    int64_t bytes = type_bytes(&x->type);
    for (uint32_t k = 0; k < x->nargs && c != CLS_REDUCE; k++)
        if (x->args[k]->op != OP_region_param) bytes += type_bytes(&x->args[k]->type);
    return bytes;
}

// Bytes that the loop stacks and did not stack before; -1: not all can be computed after it.
static int64_t stack_bytes(const Loop *l, bool ends, bool *after, bool *stacked)
{
    int64_t bytes = 0;
    memcpy(stacked, l->stacked, l->body->nodes.n);
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        if (l->leaves[i] && !wanted(l, l->body->results.at[i], ends, after, stacked)) return -1;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (stacked[i] && !l->stacked[i])
            bytes += type_bytes(&l->body->nodes.at[i]->type);
        else if (after[i])
            bytes += stored_bytes(l->body->nodes.at[i]);
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
    if (bytes[best] < 0 || bytes[best] > l->bytes) return false;
    l->after = after[best], l->stacked = stacked[best];
    return true;
}

// Whether there is memory for what is computed before the loop, which is lifted with all that it
// needs.
static bool lifts_before(const Loop *l)
{
    const uint32_t n = l->body->nodes.n;
    bool *needed = NEW_ARRAY(l->body->arena, bool, n + 1);
    int64_t bytes = 0;
    for (uint32_t i = n; i-- > 0;) {
        const Node *x = l->body->nodes.at[i];
        if (!(needed[i] |= l->before[i])) continue;
        bytes += stored_bytes(x);
        for (uint32_t k = 0; k < x->nargs; k++) needed[x->args[k]->id] = true;
    }
    return bytes <= l->bytes;
}

// By stacked result of a loop of g: whether only sums over the iterations read it.
static bool *summed_results(const Graph *g, const Node *loop, const bool *otherwise)
{
    const int n = node_result_count(loop);
    bool *summed = NEW_ARRAY(g->arena, bool, n + 1);
    for (uint32_t i = loop->id; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        if (node_has(x, OPF_RESULT) && x->args[0] == loop && !otherwise[i])
            summed[attr_int(x, ATTR_index, 0)] = true;
    }
    return summed;
}

// By id: whether anything but a sum over axis 0 reads the node.
static bool *read_otherwise(const Graph *g)
{
    bool *otherwise = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        int n;
        const int64_t *axes = x->op == OP_sum ? attr_ints(x, ATTR_axes, &n) : NULL;
        const DType t = x->type.dtype;
        const bool sums =
            axes && n && axes[0] == 0 && dtype_is_float(t) && attr_int(x, ATTR_accumulate, t) == t;
        for (uint32_t k = 0; k < x->nargs && !sums; k++) otherwise[x->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->results.n; i++) otherwise[g->results.at[i]->id] = true;
    return otherwise;
}

// Decides what leaves the loop; false: nothing can.
static bool divide(Loop *l, const bool *summed)
{
    Graph *body = l->body;
    const size_t size = body->nodes.n + 1;
    l->inside = NEW_ARRAY(body->arena, bool, size), l->before = NEW_ARRAY(body->arena, bool, size);
    l->stacked = NEW_ARRAY(body->arena, bool, size);
    l->leaves = NEW_ARRAY(body->arena, bool, body->results.n + 1);
    l->summed = NEW_ARRAY(body->arena, bool, body->results.n + 1);
    for (uint32_t i = 0; i < l->ncarried; i++)
        if (!needs(l, body->results.at[i], l->inside, l->before)) return false;
    bool changes = false;
    for (uint32_t i = l->ncarried; i < body->results.n; i++) {
        l->leaves[i] = !stays(l, i);
        l->summed[i] = !l->leaves[i] && summed[i] && !l->products;
        changes |= l->leaves[i] || l->summed[i];
        if (!l->leaves[i] && !l->summed[i]) l->stacked[body->results.at[i]->id] = true;
    }
    for (uint32_t i = 0; i < body->nodes.n; i++) changes |= l->before[i];
    return changes && lifts_before(l) && choose_stacks(l);
}

static int64_t bytes_of(const Graph *body, uint32_t ncarried, uint32_t nscanned)
{
    int64_t bytes = 0;
    for (uint32_t k = 0; k < nscanned; k++)
        bytes += type_bytes(&body->params.at[1 + ncarried + k]->type);
    for (uint32_t i = ncarried; i < body->results.n; i++)
        bytes += type_bytes(&body->results.at[i]->type);
    return bytes;
}

// Whether a carried value becomes more than a sum of what does not depend on carried values.
static bool recurs(const Loop *l)
{
    for (uint32_t i = 0; i < l->ncarried; i++) {
        const Node *next = l->body->results.at[i], *was = l->body->params.at[1 + i];
        const bool adds =
            next->op == OP_add && ((next->args[0] == was && !l->moving[next->args[1]->id]) ||
                                   (next->args[1] == was && !l->moving[next->args[0]->id]));
        if (l->moving[next->id] && next != was && !adds) return true;
    }
    return false;
}

static Loop find(const Node *n, Graph *body, const bool *summed, int64_t memory_limit)
{
    Loop l = {.n = n,
              .body = body,
              .ncarried = (uint32_t)attr_int(n, ATTR_carried, 0),
              .nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0),
              .count = attr_int(n, ATTR_count, 0)};
    const size_t size = body->nodes.n + 1;
    if (!l.ncarried || l.count < 2 || body->roots.n || body->nodes.n > MOST_NODES ||
        attr_int(n, ATTR_apart, 0))
        return l;
    l.shape = recurrence_shape(n);
    l.fits = recurrence_body(body, l.ncarried, l.shape);
    l.moving = recurrence_moving(body, l.ncarried);
    l.varies = NEW_ARRAY(body->arena, bool, size), l.liftable = NEW_ARRAY(body->arena, bool, size);
    bool regions = false;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        l.varies[i] = l.moving[i] || param_index(x) == 0 || is_scanned(&l, x);
        for (uint32_t k = 0; k < x->nargs; k++) l.varies[i] |= l.varies[x->args[k]->id];
        l.liftable[i] = !l.moving[i] && lift_can(x, l.varies);
        for (uint32_t k = 0; k < x->nargs; k++) l.liftable[i] &= l.liftable[x->args[k]->id];
        regions |= x->nregions > 0;
    }
    l.bytes = bytes_of(body, l.ncarried, l.nscanned);
    if (l.bytes < MOST_BYTES / l.count) l.bytes = MOST_BYTES / l.count;
    if (memory_limit && l.bytes > memory_limit / 8 / l.count) l.bytes = memory_limit / 8 / l.count;
    if (!recurs(&l)) return l;
    l.any = divide(&l, summed);
    if (l.any || l.fits || regions) return l;
    l.products = true;
    l.any = divide(&l, summed);
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

typedef struct NewLoop {
    Graph *body; // its results: next carried values, sums, all that is stacked
    Node **args;
    int nargs;
    uint32_t ncarried, nscanned;
} NewLoop;

// Parameters and operands for what is computed before the loop, or for the part that varies.
static void add_before(NewLoop *new, const Loop *l, const Lift *lift, Remap *r, bool varies)
{
    for (uint32_t i = 0; i < l->body->nodes.n; i++) {
        if (!l->before[i] || l->varies[i] != varies) continue;
        r->map[i] = new_param(new->body, l->body->nodes.at[i]);
        new->args[new->nargs++] = lift->image[i];
        new->nscanned += varies;
    }
}

// Parameters for the sums, which begin with zeros. sum: by result.
static void add_sums(NewLoop *new, const Loop *l, const Lift *lift, Node **sum)
{
    for (uint32_t i = 0; i < l->body->results.n; i++) {
        if (!l->summed[i]) continue;
        sum[i] = new_param(new->body, l->body->results.at[i]);
        new->args[new->nargs++] = graph_full_like(lift->dst, l->body->results.at[i], 0);
        new->ncarried++;
    }
}

// The loop without what is computed before and after it.
static NewLoop new_loop(const Loop *l, Node *const *map, const Lift *lift)
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

// Replaces the loop in dst. result: by result of the old loop, its replacement. False: it is kept.
static bool rewrite(Graph *dst, const Loop *l, Node *const *map, Node **result)
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

// The sum over all axes of the old sum but the iterations.
static Node *remaining_sum(Graph *dst, const Node *sum, Node *over_iterations)
{
    int n;
    int64_t axes[MAX_RANK];
    const int64_t *old = attr_ints(sum, ATTR_axes, &n);
    for (int i = 1; i < n; i++) axes[i - 1] = old[i] - 1;
    graph_stamp(dst, sum, sum->name);
    return n > 1 ? graph_reduce(dst, OP_sum, over_iterations, axes, n - 1, false) : over_iterations;
}

// Whether the operand is a result that the new loop carries as a sum.
static bool carried_sum(const Node *sum, const Loop *loop, Node **const *result)
{
    const Node *x = sum->args[0];
    return node_has(x, OPF_RESULT) && result[x->args[0]->id] &&
           loop[x->args[0]->id].summed[attr_int(x, ATTR_index, 0)];
}

static Graph *split(void *ctx, const IdMap *done, Graph *g)
{
    bool needed = any_rebuilt(done, g), *otherwise = read_otherwise(g);
    Loop *loop = NEW_ARRAY(g->arena, Loop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op == OP_loop)
            loop[i] = find(n, rebuilt(done, n->regions[0]), summed_results(g, n, otherwise),
                           *(const int64_t *)ctx);
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
        else if (n->op == OP_sum && carried_sum(n, loop, result))
            r.map[i] = remaining_sum(r.dst, n, r.map[n->args[0]->id]);
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
    int64_t memory_limit = o->memory_limit;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, split, &memory_limit);
}
