// Which parts of a loop stay in it, which are computed before it or after it, and what is stacked
// for the latter.
#include "passes/fission/fission.h"

#include <string.h>

#include "ir/axes.h"

#define MOST_BYTES (2LL << 30)
enum { MOST_NODES = 8000, MOST_ROWS = 2048 };

uint32_t fission_param(const Node *x)
{
    return x->op == OP_region_param ? (uint32_t)attr_int(x, ATTR_index, 0) : UINT32_MAX;
}

// Whether x is a product of few rows with what all iterations have: one product of all of them
// reads that once. More rows would gain nothing, and cost memory.
static bool is_narrow(const FissionLoop *l, const Node *x)
{
    if (x->op != OP_dot || l->varies.is[x->args[0]->id] == l->varies.is[x->args[1]->id])
        return false;
    const DotSizes s = dot_sizes(x);
    return s.batch * (l->varies.is[x->args[0]->id] ? s.m : s.n) < MOST_ROWS;
}

// Whether the new loop computes x, if it needs it.
static bool takes(const FissionLoop *l, const Node *x)
{
    if (l->products) return !is_narrow(l, x) || !l->liftable[x->id];
    if (l->drawn[x->id]) return false;
    return recurrence_takes(x, l->moving[x->id], l->shape);
}

// Marks what the new loop has to compute for x; false if it cannot. inside, before: by id.
static bool needs(const FissionLoop *l, const Node *x, bool *inside, bool *before)
{
    if (inside[x->id] || before[x->id]) return true;
    if (!takes(l, x)) {
        if (!l->liftable[x->id] || node_has(x, OPF_DRAWN))
            return false; // (no kernel stores a leaf)
        before[x->id] = true;
        return true;
    }
    inside[x->id] = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (!needs(l, x->args[k], inside, before)) return false;
    return true;
}

// Whether the values of x in all iterations are in memory after the loop.
static bool in_memory(const FissionLoop *l, const Node *x, bool ends)
{
    if (l->stacked[x->id] || fission_param(x) - 1 < l->ncarried) return true;
    if (l->products && l->inside[x->id]) return true;
    for (uint32_t i = 0; i < l->ncarried && ends; i++)
        if (l->body->results.at[i] == x) return true;
    return false;
}

// Marks what is computed after the loop for x, in after, and what is stacked for it, in stacked.
// ends: carried values at the end of an iteration are stacked, too.
static bool wanted(const FissionLoop *l, const Node *x, bool ends, bool *after, bool *stacked)
{
    if (after[x->id] || stacked[x->id]) return true;
    if (l->moving[x->id] && in_memory(l, x, ends)) {
        stacked[x->id] = true;
        return x->type.rank < MAX_RANK;
    }
    if (!lift_can(x, &l->varies)) return false;
    after[x->id] = true;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (!wanted(l, x->args[k], ends, after, stacked)) return false;
    return true;
}

// Whether x needs a narrow product that can be computed after the loop, and of which the loop's own
// results need nothing.
static bool ends_in_product(const FissionLoop *l, const Node *x)
{
    const size_t n = l->body->nodes.n + 1;
    bool *after = NEW_ARRAY(l->body->arena, bool, n), *stacked = NEW_ARRAY(l->body->arena, bool, n);
    if (!wanted(l, x, true, after, stacked)) return false;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (after[i] && is_narrow(l, l->body->nodes.at[i])) return true;
    return false;
}

// Whether stacked result i can stay in the loop; marks what it needs.
static bool stays(FissionLoop *l, uint32_t i)
{
    const Node *x = l->body->results.at[i];
    // (what is the same in all iterations has an image without their axis: it is not stacked)
    if (!l->varies.is[x->id] && l->liftable[x->id]) return false;
    if (l->products) return !ends_in_product(l, x) && needs(l, x, l->inside, l->before);
    if (!(l->moving[x->id] || l->fits) || !recurrence_stores(&x->type, l->shape)) return false;
    const size_t n = l->body->nodes.n + 1;
    bool *inside = NEW_ARRAY(l->body->arena, bool, n), *before = NEW_ARRAY(l->body->arena, bool, n);
    memcpy(inside, l->inside, n);
    memcpy(before, l->before, n);
    if (!needs(l, x, inside, before)) return false;
    l->inside = inside, l->before = before;
    return true;
}

// Bytes that the loop stacks and did not stack before; -1: not all can be computed after it.
static int64_t stack_bytes(const FissionLoop *l, bool ends, bool *after, bool *stacked)
{
    int64_t bytes = 0;
    memcpy(stacked, l->stacked, l->body->nodes.n);
    for (uint32_t i = l->ncarried; i < l->body->results.n; i++)
        if (l->leaves[i] && !wanted(l, l->body->results.at[i], ends, after, stacked)) return -1;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (stacked[i] && !l->stacked[i])
            bytes += type_bytes(&l->body->nodes.at[i]->type);
        else if (after[i])
            bytes += lift_bytes(l->body->nodes.at[i]);
    return bytes;
}

// Chooses what is stacked: carried values at the beginning of an iteration only, or at its end,
// too.
static bool choose_stacks(FissionLoop *l)
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
static bool lifts_before(const FissionLoop *l)
{
    const uint32_t n = l->body->nodes.n;
    bool *needed = NEW_ARRAY(l->body->arena, bool, n + 1);
    int64_t bytes = 0;
    for (uint32_t i = n; i-- > 0;) {
        const Node *x = l->body->nodes.at[i];
        if (!(needed[i] |= l->before[i])) continue;
        const int64_t own = lift_bytes(x);
        bytes += own || !l->before[i] ? own : type_bytes(&x->type);
        for (uint32_t k = 0; k < x->nargs; k++) needed[x->args[k]->id] = true;
    }
    return bytes <= l->bytes;
}

// Decides what leaves the loop; false: nothing can.
static bool divide(FissionLoop *l, const bool *summed)
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

// Whether a carried value becomes more than a sum of what does not depend on carried values.
static bool recurs(const FissionLoop *l)
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

// By id: computed from draws, and not from carried values.
static bool *find_drawn(const FissionLoop *l)
{
    bool *drawn = NEW_ARRAY(l->body->arena, bool, l->body->nodes.n + 1);
    for (uint32_t i = 0; i < l->body->nodes.n; i++) {
        const Node *x = l->body->nodes.at[i];
        drawn[i] = node_has(x, OPF_DRAWN);
        for (uint32_t k = 0; k < x->nargs; k++) drawn[i] |= drawn[x->args[k]->id];
        drawn[i] &= !l->moving[i];
    }
    return drawn;
}

static Varying find_varying(const FissionLoop *l)
{
    Varying v = lift_varying(l->body);
    lift_param_varies(l->body, 0, 1, &v);
    for (uint32_t k = 1; k <= l->ncarried + l->nscanned; k++)
        if (k > l->ncarried || l->moving[l->body->params.at[k]->id])
            lift_param_varies(l->body, k, LIFT_UNKNOWN, &v);
    lift_find_varying(l->body, &v);
    return v;
}

FissionLoop fission_divide(const Node *n, Graph *body, const bool *summed, int64_t memory_limit)
{
    FissionLoop l = {.n = n,
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
    l.drawn = find_drawn(&l);
    l.varies = find_varying(&l), l.liftable = NEW_ARRAY(body->arena, bool, size);
    bool regions = false;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        l.liftable[i] = !l.moving[i] && lift_can(x, &l.varies);
        for (uint32_t k = 0; k < x->nargs; k++) l.liftable[i] &= l.liftable[x->args[k]->id];
        regions |= x->nregions > 0;
    }
    l.bytes = lift_room(n, body, MOST_BYTES, memory_limit / 8);
    if (!recurs(&l)) return l;
    const Type *row = l.shape.row;
    l.shape.row = NULL; // elements meet only where carried values need it
    l.any = divide(&l, summed);
    if (l.any || l.fits || regions) return l;
    l.shape.row = row;
    l.any = row && divide(&l, summed);
    if (l.any) return l;
    l.products = true;
    l.any = divide(&l, summed);
    return l;
}
