// Under a memory limit: which values kept for the backward part are recomputed instead.
//
// A dropped value is recomputed from kept ones, with everything between, when the backward part
// first needs it, and then stays live until its last use there. Its price is the seconds of that
// computation, of reading its inputs and of writing it. Live bytes are added up along the graph: of
// kept and recomputed values and of stored gradients. Only values count that are live at the node
// where the peak is and would not be if they were recomputed.
//
// The cheapest are dropped first, few at a time, because each one changes the prices of others
// (which may have to recompute it, too) and moves the peak. Prices are for each byte and node that
// a value need not wait; where the limit is not met so, for each byte. Then, the most expensive
// first, those are kept after all without which the limit is met, too: later choices may have made
// them superfluous.
#include <stdlib.h>
#include <string.h>

#include "passes/recompute/recompute.h"

enum { MOST_NODES = 4096, MOST_CHAIN = 64, SMALL_SHARE = 8, STEPS = 6, MOST_REVIEWED = 256 };

typedef struct Candidate {
    uint32_t id;
    float price; // seconds per byte, or per byte and node for which it is not live
} Candidate;

typedef struct Drop {
    uint32_t id;
    double seconds;
    bool kept; // in the end
} Drop;

typedef struct Choose {
    Recompute *r;
    Graph *g;
    const Target *t;
    bool *waits;  // a stored forward value that the backward part reads, directly or through views
    bool *pinned; // must be kept
    bool *recomputed;       // recomputed in the backward part
    uint32_t *first, *last; // of a waiting value: its first and last use after the forward part
    VEC(Drop) drops;        // in the order of choice
    uint32_t *soon;         // by node: the first node that stores something computed from it
    uint32_t *until;        // by node: the last such node, up to stored gradients
    uint32_t *readers;      // by node: number of readers
    bool lasting;           // prices also depend on how long a value need not be live
    uint32_t *seen, mark;
    // Of one value: the nodes to recompute, beginning with the value itself, and the waiting values
    // that they read.
    VEC(const Node *) work, cone;
    VEC(uint32_t) inputs;
} Choose;

static const Node *stored_under(const Node *n)
{
    while (recompute_is_view(n)) n = n->args[0];
    return n;
}

// Whether n ends a matmul's epilogue: a bias, an activation, the rounding to a narrower type.
static bool is_end(const Choose *c, const Node *n)
{
    if (c->r->stored[n->id]) return true;
    for (int i = 0; i < 4 && node_class(n) == CLS_ELEMENTWISE; i++) {
        const Node *next = NULL;
        for (uint32_t k = 0; k < n->nargs; k++)
            if (type_count(&n->args[k]->type) == type_count(&n->type) &&
                node_class(stored_under(n->args[k])) != CLS_LEAF) {
                if (next) return false;
                next = stored_under(n->args[k]);
            }
        if (!next) return false;
        if (node_class(next) == CLS_DOT) return true;
        n = next;
    }
    return false;
}

static bool first_time(Choose *c, const Node *n)
{
    if (c->seen[n->id] == c->mark) return false;
    c->seen[n->id] = c->mark;
    return true;
}

static void needed_at(Choose *c, const Node *n, uint32_t at)
{
    if (!c->waits[n->id] || at < c->first[n->id]) c->first[n->id] = at;
    if (!c->waits[n->id] || at > c->last[n->id]) c->last[n->id] = at;
    c->waits[n->id] = true;
}

// Whether x is a gradient that is stored (live from x to [until]); elementwise code is stored if
// products or several other nodes read it.
static bool is_gradient(const Choose *c, const Node *x)
{
    OpClass class = node_class(x);
    if (x->role == ROLE_FORWARD || class == CLS_LEAF || class == CLS_ROOT) return false;
    if (recompute_is_view(x)) return false;
    return class != CLS_ELEMENTWISE || c->r->stored[x->id] || c->readers[x->id] > 1;
}

static void find_needs(Choose *c)
{
    uint32_t n = c->g->nodes.n;
    for (uint32_t i = 0; i < n; i++) c->soon[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < c->g->nodes.at[i]->nargs; k++)
            c->readers[c->g->nodes.at[i]->args[k]->id]++;
    for (uint32_t i = n; i-- > 0;) {
        const Node *x = c->g->nodes.at[i];
        bool stores = !recompute_is_fused(x) || is_gradient(c, x);
        if (!recompute_is_fused(x) || c->soon[i] == UINT32_MAX) c->soon[i] = i;
        for (uint32_t k = 0; k < x->nargs; k++) {
            uint32_t a = x->args[k]->id, last = stores ? i : c->until[i];
            if (c->soon[i] < c->soon[a]) c->soon[a] = c->soon[i];
            if (last > c->until[a]) c->until[a] = last;
        }
    }
}

// Whether y is elementwise code over one stored value that is no larger. Readers of y then read
// that value and compute y, as for an activation after a matmul.
static bool is_inline(const Choose *c, const Node *y)
{
    const Node *work[MOST_CHAIN], *base = NULL;
    int n = 0;
    if (node_class(y) != CLS_ELEMENTWISE || c->r->stored[y->id]) return false;
    work[n++] = y;
    for (int i = 0; i < n; i++)
        for (uint32_t k = 0; k < work[i]->nargs; k++) {
            const Node *a = stored_under(work[i]->args[k]);
            bool known = type_count(&a->type) * 2 < type_count(&y->type) || a == base;
            for (int j = 0; j < n && !known; j++) known = work[j] == a;
            if (known) continue;
            if (node_class(a) == CLS_ELEMENTWISE && !is_end(c, a)) {
                if (n == MOST_CHAIN) return false;
                work[n++] = a;
            } else if (base || node_class(a) == CLS_LEAF) {
                return false;
            } else {
                base = a;
            }
        }
    return base && type_bytes(&base->type) <= type_bytes(&y->type);
}

// Marks the values that must be kept for x, in the backward part: those it reads, also through
// chains that are recomputed anyway.
static void find_waiting(Choose *c, const Node *x)
{
    c->mark++;
    c->work.n = 0;
    for (uint32_t k = 0; k < x->nargs; k++) vec_push(c->g->arena, &c->work, x->args[k]);
    while (c->work.n) {
        const Node *y = c->work.at[--c->work.n];
        if (!first_time(c, y) || y->role != ROLE_FORWARD) continue;
        bool chain = y->type.rank > 0 && x->role == ROLE_BACKWARD &&
                     (c->r->cost[y->id] || c->r->gone[y->id] || is_inline(c, y));
        if (chain) {
            for (uint32_t k = 0; k < y->nargs; k++) vec_push(c->g->arena, &c->work, y->args[k]);
            continue;
        }
        y = stored_under(y);
        if (node_class(y) == CLS_LEAF || y->role != ROLE_FORWARD) continue;
        if (y->nregions && node_result_count(y) > 1) continue; // its results are stored instead
        needed_at(c, y, c->soon[x->id]);
        if (x->role != ROLE_BACKWARD || node_class(x) == CLS_ROOT || !y->type.rank)
            c->pinned[y->id] = true;
    }
}

// Reductions with few results from many elements are kept.
static bool is_summary(const Node *n)
{
    return node_class(n) == CLS_REDUCE &&
           type_count(&n->type) * SMALL_SHARE <= type_count(&n->args[0]->type);
}

// Collects the nodes to recompute for v (the cone) and the waiting values that they read. false:
// too many, or one that must not run twice.
static bool find_cone(Choose *c, const Node *v)
{
    c->mark++;
    c->work.n = c->cone.n = c->inputs.n = 0;
    vec_push(c->g->arena, &c->work, v);
    while (c->work.n) {
        const Node *y = c->work.at[--c->work.n];
        if (!first_time(c, y)) continue;
        bool kept = y != v && !c->recomputed[y->id] && (c->waits[y->id] || is_summary(y));
        if (c->waits[y->id] || kept) vec_push(c->g->arena, &c->inputs, y->id);
        if (kept) continue;
        bool leaf = node_class(y) == CLS_LEAF;
        if (!leaf && (node_class(y) == CLS_ROOT || y->role != ROLE_FORWARD)) return false;
        vec_push(c->g->arena, &c->cone, y);
        if (c->cone.n > MOST_NODES) return false;
        for (uint32_t k = 0; k < y->nargs; k++) vec_push(c->g->arena, &c->work, y->args[k]);
    }
    return true;
}

// Seconds of those nodes of the cone that are not recomputed yet, and of their memory traffic:
// inputs are read, the value is written. (Its readers read it in any case.)
static double cone_seconds(const Choose *c)
{
    const Node *v = c->cone.at[0];
    double seconds = recompute_move(c->t, (double)type_bytes(&v->type));
    for (uint32_t i = 0; i < c->cone.n; i++)
        if (!c->recomputed[c->cone.at[i]->id]) seconds += recompute_seconds(c->t, c->cone.at[i]);
    for (uint32_t i = 0; i < c->inputs.n; i++) {
        const Node *n = c->g->nodes.at[c->inputs.at[i]];
        if (n != v && !c->recomputed[n->id])
            seconds += recompute_move(c->t, (double)type_bytes(&n->type));
    }
    return seconds;
}

// The maximum of the live bytes, and the node where it occurs.
static int64_t peak_bytes(const Choose *c, int64_t *change, uint32_t *where)
{
    uint32_t n = c->g->nodes.n;
    memset(change, 0, (n + 2) * sizeof *change);
    for (uint32_t i = 0; i < n; i++) {
        const Node *x = c->g->nodes.at[i];
        bool fused = node_class(x) == CLS_ELEMENTWISE && !c->r->stored[i]; // not stored: computed
                                                                           // where it is read
        if (is_gradient(c, x)) {
            change[i] += type_bytes(&x->type);
            change[c->until[i] + 1] -= type_bytes(&x->type);
        }
        if (!c->waits[i] || (c->recomputed[i] && fused)) continue;
        int64_t bytes = type_bytes(&x->type);
        change[c->recomputed[i] ? c->first[i] : i] += bytes;
        change[c->last[i] + 1] -= bytes;
    }
    int64_t live = 0, peak = 0;
    for (uint32_t i = 0; i < n; i++) {
        live += change[i];
        if (live <= peak) continue;
        peak = live;
        *where = i;
    }
    return peak;
}

// Whether the value is live at that node and would not be if it were recomputed.
static bool helps(const Choose *c, uint32_t id, uint32_t where)
{
    return c->waits[id] && !c->pinned[id] && !c->recomputed[id] && id <= where &&
           c->first[id] > where;
}

// Drops the value whose cone was found last.
static void drop(Choose *c)
{
    uint32_t at = c->first[c->cone.at[0]->id];
    for (uint32_t i = 0; i < c->inputs.n; i++) {
        const Node *n = c->g->nodes.at[c->inputs.at[i]];
        bool known = c->waits[n->id];
        needed_at(c, n, at);
        if (!known) c->pinned[n->id] = true;
    }
    for (uint32_t i = 0; i < c->cone.n; i++) c->recomputed[c->cone.at[i]->id] = true;
}

static int cheapest_first(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->price != y->price) return x->price < y->price ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Drops values until a part of the excess is removed. false: no value helps.
static bool drop_some(Choose *c, uint32_t where, int64_t bytes)
{
    VEC(Candidate) can = {0};
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        const Node *n = c->g->nodes.at[i];
        if (!helps(c, i, where) || !find_cone(c, n)) continue;
        double gain = (double)type_bytes(&n->type) * (c->lasting ? c->first[i] - i : 1);
        Candidate x = {i, (float)(cone_seconds(c) / gain)};
        vec_push(c->g->arena, &can, x);
    }
    if (!can.n) return false;
    qsort(can.at, can.n, sizeof *can.at, cheapest_first);
    int64_t enough = bytes / STEPS;
    for (uint32_t i = 0; i < can.n && bytes > 0 && enough >= 0; i++) {
        const Node *n = c->g->nodes.at[can.at[i].id];
        if (!helps(c, n->id, where) || !find_cone(c, n)) continue;
        vec_push(c->g->arena, &c->drops, ((Drop){n->id, cone_seconds(c), false}));
        drop(c);
        bytes -= type_bytes(&n->type);
        enough -= type_bytes(&n->type);
    }
    return true;
}

// The backward part reads clones of dropped values, and of elementwise code and views computed from
// them.
static void mark(Choose *c)
{
    Recompute *r = c->r;
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        const Node *x = c->g->nodes.at[i];
        if (x->role != ROLE_FORWARD || node_class(x) == CLS_LEAF) continue;
        bool fused = recompute_is_fused(x);
        r->gone[i] |= c->waits[i] && c->recomputed[i];
        for (uint32_t k = 0; k < x->nargs && fused && !c->waits[i]; k++)
            r->gone[i] |= r->gone[x->args[k]->id];
        r->later[i] |= r->gone[i] || c->recomputed[i];
    }
}

// -- values that are kept in the end --------------------------------------------------------------

static void needs_begin(Choose *c)
{
    size_t n = c->g->nodes.n + 2;
    memset(c->waits, 0, n * sizeof *c->waits);
    memset(c->pinned, 0, n * sizeof *c->pinned);
    memset(c->recomputed, 0, n * sizeof *c->recomputed);
    for (uint32_t i = 0; i < c->g->nodes.n; i++)
        if (c->g->nodes.at[i]->role != ROLE_FORWARD) find_waiting(c, c->g->nodes.at[i]);
}

static void drop_chosen(Choose *c)
{
    needs_begin(c);
    for (uint32_t i = 0; i < c->drops.n; i++) {
        Drop *d = &c->drops.at[i];
        if (d->kept || !find_cone(c, c->g->nodes.at[d->id])) continue;
        d->seconds = cone_seconds(c);
        drop(c);
    }
}

static int dearest_first(const void *a, const void *b)
{
    const Drop *x = *(Drop *const *)a, *y = *(Drop *const *)b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return x->id > y->id ? -1 : x->id < y->id;
}

static void review(Choose *c, int64_t *change, int64_t most)
{
    uint32_t n = c->drops.n, where;
    Drop **order = NEW_ARRAY(c->g->arena, Drop *, n + 1);
    for (uint32_t i = 0; i < n; i++) order[i] = &c->drops.at[i];
    qsort(order, n, sizeof *order, dearest_first);
    for (uint32_t i = 0; i < n && i < MOST_REVIEWED; i++) {
        order[i]->kept = true;
        drop_chosen(c);
        order[i]->kept = peak_bytes(c, change, &where) <= most;
    }
    drop_chosen(c);
}

static void report(const Choose *c)
{
    for (uint32_t i = 0; i < c->drops.n && c->r->entry; i++) {
        const Drop *d = &c->drops.at[i];
        const Node *v = c->g->nodes.at[d->id];
        Again a = {v->name, v->loc, v->type, d->seconds};
        if (!d->kept) vec_push(c->g->kept, &c->r->entry->again, a);
    }
}

// Chooses what to drop. false: the limit is not met.
static bool choose(Choose *c, int64_t *change, int64_t most, bool lasting)
{
    uint32_t where = 0;
    int64_t peak;
    c->lasting = lasting;
    c->drops.n = 0;
    needs_begin(c);
    while ((peak = peak_bytes(c, change, &where)) > most)
        if (!drop_some(c, where, peak - most)) break;
    if (peak <= most) review(c, change, most);
    return peak <= most;
}

void recompute_choose(Recompute *r, int64_t most)
{
    Graph *g = r->src;
    uint32_t n = g->nodes.n + 2;
    Choose c = {.r = r, .g = g, .t = r->o->target};
    c.waits = NEW_ARRAY(g->arena, bool, n);
    c.pinned = NEW_ARRAY(g->arena, bool, n);
    c.recomputed = NEW_ARRAY(g->arena, bool, n);
    c.first = NEW_ARRAY(g->arena, uint32_t, n);
    c.last = NEW_ARRAY(g->arena, uint32_t, n);
    c.soon = NEW_ARRAY(g->arena, uint32_t, n);
    c.until = NEW_ARRAY(g->arena, uint32_t, n);
    c.readers = NEW_ARRAY(g->arena, uint32_t, n);
    c.seen = NEW_ARRAY(g->arena, uint32_t, n);
    int64_t *change = NEW_ARRAY(g->arena, int64_t, n);
    find_needs(&c);
    if (!choose(&c, change, most, true)) choose(&c, change, most, false);
    report(&c);
    mark(&c);
}
