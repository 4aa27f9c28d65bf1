// Free values: which of them share one elementwise kernel (a map), and which are costly enough to
// be stored instead of recomputed by each reader.
//
// A traversal in reverse program order collects, for every free value, the kernels that would
// compute it and how many elements each would compute. Stored free values of equal size that share
// some computation become one map.
#include <math.h>

#include "passes/fuse/fuse.h"

uint32_t fuse_map_of(const Fuse *f, uint32_t id)
{
    while (f->map[id] != id + 1) {
        f->map[id] = f->map[f->map[id] - 1];
        id = f->map[id] - 1;
    }
    return id;
}

static const Type *space(const Node *n)
{
    return node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type;
}

static bool is_map_node(const Fuse *f, const Node *n)
{
    return f->mat[n->id] && !f->cluster[n->id] && !f->absorbed[n->id] && !fuse_is_anchor(n) &&
           !node_has(n, OPF_RESULT);
}

static bool is_sink(const Node *n)
{
    return node_class(n) == CLS_ROOT && !node_has(n, OPF_EFFECT);
}

typedef struct Site { // a kernel that computes a free value
    uint32_t id;      // id of a map's representative + 1, index of a cluster, or id of an anchor
    bool map;
    bool stacks; // it stores the positions of a short axis one by one
    float evals; // how many elements of it are computed
    float each;  // the same, if a value read at several positions is computed for each of them
} Site;

// MOST_AGAIN: the most operations of a chain that several kernels compute, however few elements it
// has. If the backward part reads every value of a chain of n transcendental functions, recomputing
// takes n * n / 2 of them.
// LOAD_FLOPS: operations that take as long as a load from a cache. LARGE_SHARE: a value with fewer
// elements than this part of its reader's stays in registers or in the first cache.
// SMALL_BYTES: a value of less is loaded in the same time, whatever its size.
enum { MOST_SITES = 6, BROADCAST_FLOPS = 4, MOST_AGAIN = 160, LOAD_FLOPS = 2, LARGE_SHARE = 8 };
enum { SMALL_BYTES = 1 << 20 };

typedef struct Sites { // all kernels that compute a free value; only the first MOST_SITES are
                       // stored, others counted
    Site at[MOST_SITES];
    int n;
    float more, more_evals;
} Sites;

typedef struct Decide {
    Fuse *f;
    Sites *sites;
    float *flops;  // per element, computed from stored values
    float *bytes;  // of all stored values it reads
    bool *uniform; // computed only from scalars
} Decide;

static double count_of(const Node *n)
{
    return (double)type_count(&n->type);
}

static bool is_free(const Fuse *f, const Node *n)
{
    return f->live[n->id] && !f->mat[n->id] && !f->cluster[n->id] && !f->absorbed[n->id] &&
           node_class(n) != CLS_LEAF && node_class(n) != CLS_ROOT && !node_has(n, OPF_RESULT) &&
           !fuse_is_anchor(n);
}

static double op_flops(const Node *n)
{
    if (node_class(n) == CLS_VIEW) return 0;
    if (node_has(n, OPF_DRAWN)) return 100;
    if (node_class(n) == CLS_ELEMENTWISE) return node_has(n, OPF_COSTLY) ? 20 : 1;
    return 2;
}

// The share of a scalar's operations that counts for each element: a kernel computes it once per
// thread.
static double scalar_share(const Fuse *f)
{
    return f->target && f->target->kind == TARGET_CUDA ? 1.0 / 4 : 1.0 / 1024;
}

static void costs(Decide *d)
{
    Fuse *f = d->f;
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *n = f->g->nodes.at[i];
        if (!f->live[i] || (node_class(n) == CLS_LEAF && !node_has(n, OPF_DRAWN))) continue;
        double flops = op_flops(n), bytes = 0;
        d->uniform[i] = node_class(n) == CLS_VIEW || node_class(n) == CLS_ELEMENTWISE;
        for (uint32_t k = 0; k < n->nargs; k++) {
            const Node *a = n->args[k];
            double v;
            bool stored = fuse_stored(f, a);
            d->uniform[i] &=
                d->uniform[a->id] || type_count(&a->type) == 1 || node_const_value(a, &v);
            if (!stored) flops += d->flops[a->id] * (a->type.rank == 0 ? scalar_share(f) : 1);
            bytes += stored ? (double)type_bytes(&a->type) : d->bytes[a->id];
        }
        // The operations of a reduction's operand do not count for its readers, which begin with
        // its result.
        d->flops[i] = (float)(flops < 1e12 ? flops : 1e12);
        d->bytes[i] = (float)(bytes < 1e15 ? bytes : 1e15);
    }
}

// Whether two maps may be one kernel: they have the same number of elements, and neither depends on
// the other.
static bool joinable(const Fuse *f, uint32_t a, uint32_t b)
{
    const Node *x = f->g->nodes.at[a], *y = f->g->nodes.at[b];
    if (type_count(space(x)) != type_count(space(y))) return false;
    if ((node_has(x, OPF_EFFECT)) != (node_has(y, OPF_EFFECT))) return false;
    return f->level[a] == f->level[b] || (is_sink(x) && is_sink(y));
}

static void unite(Fuse *f, uint32_t a, uint32_t b)
{
    a = fuse_map_of(f, a);
    b = fuse_map_of(f, b);
    if (a == b) return;
    // The lower id is kept, since it comes first in program order.
    if (a > b) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    f->map[b] = a + 1;
    int32_t level = f->level[a] > f->level[b] ? f->level[a] : f->level[b];
    f->level[a] = f->level[b] = level;
}

// Values that are computed only from broadcast scalars are no reason to share a kernel: all updates
// read the learning rate.
static bool worth_sharing(const Decide *d, const Node *n)
{
    return type_count(&n->type) > 1 && !d->uniform[n->id];
}

// again: at a different position than other readers of a in the same kernel.
static void add_user(Decide *d, const Node *a, Site w, bool again)
{
    Fuse *f = d->f;
    Sites *all = &d->sites[a->id];
    if (w.map) w.id = fuse_map_of(f, w.id - 1) + 1;
    for (int i = 0; i < all->n; i++) {
        Site *mine = &all->at[i];
        if (mine->map) mine->id = fuse_map_of(f, mine->id - 1) + 1;
        bool same = mine->id == w.id && mine->map == w.map;
        if (!same && mine->map && w.map && worth_sharing(d, a) &&
            type_count(&a->type) == type_count(space(f->g->nodes.at[w.id - 1])) &&
            joinable(f, mine->id - 1, w.id - 1)) {
            unite(f, mine->id - 1, w.id - 1);
            w.id = mine->id = fuse_map_of(f, w.id - 1) + 1;
            same = true;
        }
        if (!same) continue;
        if (w.evals > mine->evals)
            mine->evals = w.evals; // computed once per kernel, however often
                                   // it is read
        if (again)
            mine->each += w.each;
        else if (w.each > mine->each)
            mine->each = w.each;
        return;
    }
    if (all->n < MOST_SITES) {
        all->at[all->n++] = w;
    } else {
        all->more++;
        all->more_evals += w.evals;
    }
}

static void add_users(Decide *d, const Node *a, const Sites *w, bool again)
{
    for (int i = 0; i < w->n; i++) add_user(d, a, w->at[i], again);
    d->sites[a->id].more += w->more;
    d->sites[a->id].more_evals += w->more_evals;
}

static double users_of(const Sites *w)
{
    return w->n + (double)w->more;
}

static double evals_of(const Sites *w, bool each)
{
    double evals = w->more_evals;
    for (int i = 0; i < w->n; i++) evals += each ? w->at[i].each : w->at[i].evals;
    return evals;
}

// Whether x reads operand k at another index than its own.
static bool reads_elsewhere(const Node *x, uint32_t k)
{
    if (node_class(x) == CLS_INDEX) return k == 0 || (x->op == OP_repair && k == 1);
    return node_class(x) == CLS_VIEW && !node_keeps_all(x) && x->op != OP_broadcast;
}

// Whether n is made of values for each position of its last axis (passes/short_axes.c).
static bool is_stack(const Node *n)
{
    const int last = n->type.rank - 1;
    return n->op == OP_concat && attr_int(n, ATTR_axis, 0) == last && n->type.dim[last] == n->nargs;
}

// If x computes its operand k only where it stores it, reduces the counts accordingly: maps store
// concat and pad piece by piece; an update in place computes only the part of the state that
// changes.
static void only_stored(const Fuse *f, Sites *w, const Node *x, uint32_t k)
{
    const float share = (float)(count_of(x->args[k]) / (count_of(x) + 1));
    const bool pieces = node_has(x, OPF_PIECES),
               part = node_has(x, OPF_PART) && k == 1 && f->becomes[x->id];
    for (int i = 0; i < w->n && (pieces || part); i++)
        if (part || w->at[i].map || w->at[i].stacks) {
            w->at[i].evals *= share;
            w->at[i].each *= share;
        }
}

// The cost of n if a value that is read along several paths counts once: operations per element,
// bytes of all that it reads, and how many large values these are. false: too many values to look
// at.
static bool distinct_costs(const Fuse *f, Node *n, double *flops, double *bytes, int *loads)
{
    enum { MOST = 96 };
    Node *seen[MOST];
    int nseen = 0;
    seen[nseen++] = n;
    *flops = *bytes = *loads = 0;
    // (a reader computes the operand of a pad for each of its elements, also for the added ones)
    const double elements = count_of(n->op == OP_pad ? n->args[0] : n);
    for (int i = 0; i < nseen; i++) {
        Node *x = seen[i];
        bool stored = fuse_stored(f, x);
        if (stored && x != n) {
            *bytes += (double)type_bytes(&x->type);
            *loads += count_of(x) * LARGE_SHARE >= elements;
            continue;
        }
        if (node_class(x) == CLS_LEAF && !node_has(x, OPF_DRAWN)) continue;
        double share = count_of(x) / (elements + 1);
        *flops += op_flops(x) * (share < 1 ? share : 1);
        for (uint32_t k = 0; k < x->nargs; k++)
            if (!fuse_push_new(seen, &nseen, MOST, x->args[k])) return false;
    }
    return true;
}

// Whether reductions compute n, and nothing else, as far as known.
static bool all_reduce(const Decide *d, const Node *n)
{
    const Sites *w = &d->sites[n->id];
    bool all = w->n > 0;
    for (int i = 0; i < w->n; i++) all &= !w->at[i].map && w->at[i].id <= d->f->clusters.n;
    return all;
}

// Whether storing n is cheaper than computing it in every reader.
static bool store_pays(const Decide *d, const Node *n)
{
    const Fuse *f = d->f;
    const Target *t = f->target;
    uint32_t id = n->id;
    double users = users_of(&d->sites[id]), count = count_of(n), flops = d->flops[id];
    if (flops == 0 && node_class(n) == CLS_VIEW && users <= 1) return false;
    // Windows repeat each element where they overlap, so their operand is stored instead.
    if (n->op == OP_window && count_of(n->args[0]) < count) return false;
    double evals =
        evals_of(&d->sites[id], f->spread[id]) * (n->type.rank == 0 ? scalar_share(f) : 1);
    if (users < 1) users = 1;
    double once, all;
    int loads = 1;
    if (users > 1 && flops > MOST_AGAIN && n->type.rank > 0 &&
        (!distinct_costs(f, (Node *)n, &once, &all, &loads) || once > MOST_AGAIN))
        return true;
    // A vector broadcast over rows is read from a cache for each element in any case; a few more
    // operations are hidden by the loads.
    if (flops <= BROADCAST_FLOPS && evals > 2 * users * count) return false;
    double rate = t && t->f32_flops > 0 ? t->f32_flops : 1e11;
    double speed = t && t->bytes_per_second > 0 ? t->bytes_per_second : 1e10;
    const bool cuda = t && t->kind == TARGET_CUDA;
    double launch = cuda ? 2.5e-6 : 3e-6, bytes = d->bytes[id];
    // Loading small values takes time, too: on an H200 a norm of (196, 512) takes 3.4 us if it
    // reads one, 8.2 if it reads 16. The kernel of a reduction stores a value on the way
    // (fuse_adopt.c).
    const bool small = cuda && type_bytes(&n->type) < SMALL_BYTES && all_reduce(d, n);
    const double load = small ? 0.3e-6 : 0, few = 4; // seconds; the first few cost nothing
    double stored = (1 + users) * (double)type_bytes(&n->type) / speed + launch;
    for (int exact = 0; exact < 2; exact++) { // exact costs are computed only if the estimates say
                                              // that storing pays
        const double reads = fmax(0, (exact ? loads : f->reads[id]) - few);
        double again =
            (evals - count) * flops / (rate / 8) + (users - 1) * (bytes / speed + load * reads);
        if (again <= 2 * stored || evals <= count) return false;
        if (!exact && !distinct_costs(f, f->g->nodes.at[id], &flops, &bytes, &loads)) return true;
        // Windows read an element many times: from a cache, but with each of the loads.
        if (loads > 1 && evals > 4 * users * count) flops += (loads - 1) * LOAD_FLOPS;
        if (f->spread[id] && flops < f->size[id]) flops = f->size[id];
    }
    return true;
}

bool fuse_decide(Fuse *f)
{
    uint32_t n = f->g->nodes.n + 1;
    Arena *own = arena_inside(f->a);
    Decide d = {.f = f};
    d.sites = NEW_ARRAY(own, Sites, n);
    d.flops = NEW_ARRAY(own, float, n);
    d.bytes = NEW_ARRAY(own, float, n);
    d.uniform = NEW_ARRAY(own, bool, n);
    f->map = NEW_ARRAY(f->a, uint32_t, n);
    for (uint32_t i = 0; i + 1 < n; i++) f->map[i] = i + 1;
    costs(&d);
    bool more = f->again;
    // Sinks may be computed late: all at the last level, so that the updates share one launch.
    int32_t last = 0;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (f->live[i] && f->level[i] > last) last = f->level[i];
    for (uint32_t i = 0; i + 1 < n; i++)
        if (f->live[i] && is_map_node(f, f->g->nodes.at[i]) && is_sink(f->g->nodes.at[i]))
            f->level[i] = last;
    for (uint32_t i = n - 1; i-- > 0;) {
        Node *x = f->g->nodes.at[i];
        if (!f->live[i] || f->absorbed[i] || node_class(x) == CLS_LEAF || node_has(x, OPF_RESULT))
            continue;
        Sites one = {.n = 1}, *w = &one;
        one.at[0].evals = (float)count_of(x);
        if (is_free(f, x)) {
            w = &d.sites[i];
            if (!f->forced[i] && store_pays(&d, x)) {
                f->forced[i] = more = true;
                f->cost_users[i] = (uint32_t)users_of(w);
                f->cost_flops[i] = d.flops[i];
            }
            if (f->forced[i]) { // stored from the next round on, and then computed once
                w = &one;
                one.at[0].id = i + 1;
                one.at[0].map = true;
            }
        } else if (f->cluster[i]) {
            one.at[0].id = fuse_cluster(f, x);
            one.at[0].stacks = is_stack(x) && f->clusters.at[one.at[0].id - 1].kind == GROUP_MAP;
            if (node_class(x) == CLS_REDUCE) one.at[0].evals = (float)count_of(x->args[0]);
        } else if (is_map_node(f, x)) {
            one.at[0].id = i + 1;
            one.at[0].map = true;
            if (node_class(x) == CLS_ROOT) one.at[0].evals = (float)type_count(space(x));
        } else {
            one.at[0].id = n + i; // an anchor
        }
        if (w == &one) one.at[0].each = one.at[0].evals;
        for (uint32_t k = 0; k < x->nargs; k++) {
            Sites part = *w;
            only_stored(f, &part, x, k);
            if (is_free(f, x->args[k])) add_users(&d, x->args[k], &part, reads_elsewhere(x, k));
        }
    }
    arena_empty(own);
    return more;
}
