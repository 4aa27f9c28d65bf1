// Groups from placed nodes, their launches, and the reasons for what stays apart.
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/loop.h"
#include "passes/fuse/fuse.h"

static int by_level(const void *a, const void *b)
{
    const Slot *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static uint32_t new_slot(Fuse *f, Slots *s, GroupKind kind, int level, const Node *first)
{
    Slot x = {.level = level, .first = first->id, .group.kind = kind};
    vec_push(f->a, s, x);
    return s->n - 1;
}

GroupKind fuse_anchor_kind(const Node *n)
{
    switch (node_class(n)) {
    case CLS_DOT: return GROUP_DOT;
    case CLS_REGION: return runs_as_kernel(n) ? GROUP_CALL : GROUP_LOOP;
    case CLS_SCAN: return GROUP_SCAN;
    default: return GROUP_SCATTER;
    }
}

static Node *stored_operand(const Fuse *f, Node *n)
{
    while (!f->mat[n->id] && node_has(n, OPF_STRIDES)) n = n->args[0];
    return n;
}

static void fill_anchor(Fuse *f, Group *g, Node *anchor)
{
    g->anchor = anchor;
    if (anchor->op != OP_dot) return;
    g->epilogue = f->epilogue_bits[anchor->id];
    g->bias = f->bias[anchor->id];
    g->residual = f->residual[anchor->id];
    g->aux = f->aux[anchor->id];
    g->inner = f->inner[anchor->id];
    g->ninner = f->ninner[anchor->id];
    g->prologue_a = stored_operand(f, anchor->args[0]);
    g->prologue_b = stored_operand(f, anchor->args[1]);
}

// The latest level at which each group may run: one before the first group that reads its values.
// Computed from the levels as placed, so that moves to later levels cannot contradict each other.
typedef struct Latest {
    int32_t *cluster; // by index
    int32_t *map;     // by id of the map's representative
} Latest;

static Latest find_latest(const Fuse *f)
{
    const Graph *g = f->g;
    Latest l = {NEW_ARRAY(f->a, int32_t, f->clusters.n + 1),
                NEW_ARRAY(f->a, int32_t, g->nodes.n + 1)};
    int32_t *read_at = NEW_ARRAY(f->a, int32_t, g->nodes.n + 1); // the earliest level that reads it
    for (uint32_t i = 0; i < g->nodes.n; i++) read_at[i] = l.map[i] = INT32_MAX;
    for (uint32_t i = 0; i < f->clusters.n; i++) l.cluster[i] = INT32_MAX;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!f->live[i]) continue;
        uint32_t c = fuse_cluster(f, n);
        bool anchor = f->absorbed[i] || fuse_is_anchor(n) || node_has(n, OPF_RESULT);
        bool map = f->mat[i] && !c && !anchor;
        int32_t at = map                        ? f->level[fuse_map_of(f, i)]
                     : f->mat[i] || c || anchor ? f->level[i]
                                                : read_at[i];
        if (map && read_at[i] < INT32_MAX && read_at[i] - 1 < l.map[fuse_map_of(f, i)])
            l.map[fuse_map_of(f, i)] = read_at[i] - 1;
        for (uint32_t k = 0; k < n->nargs; k++) {
            Node *a = n->args[k];
            uint32_t from = fuse_cluster(f, a);
            if (at < read_at[a->id]) read_at[a->id] = at;
            if (from && from != c && at < INT32_MAX && at - 1 < l.cluster[from - 1])
                l.cluster[from - 1] = at - 1;
        }
        // The readers of a value that is also recomputed outside of its cluster count for the
        // cluster.
        if (c && read_at[i] < INT32_MAX && read_at[i] > f->level[i] &&
            read_at[i] - 1 < l.cluster[c - 1])
            l.cluster[c - 1] = read_at[i] - 1;
    }
    return l;
}

static bool runs_alone(GroupKind k)
{
    return k == GROUP_DOT || k == GROUP_LOOP || k == GROUP_CALL || k == GROUP_SCAN ||
           k == GROUP_SCATTER;
}

// Small groups are delayed to share a launch: bias gradients with each other, and sums for the log
// and scalars of a learning-rate schedule with any kernel that runs before they are read.
enum { DELAY_BYTES = 8 << 20, SMALL_BYTES = 1 << 20, MOST_MERGED = 64 };
enum { LATENCY_BYTES = 8 << 20 }; // counts as small if there are generated contractions

static int ascending(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1
                                                     : *(const int32_t *)a > *(const int32_t *)b;
}

// The highest of the ascending levels that is at most [latest]; -1: none.
static int32_t last_host(const int32_t *hosts, uint32_t n, int32_t latest)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (hosts[mid] <= latest)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? hosts[lo - 1] : -1;
}

static void delay_small(Fuse *f, Slot *slot, uint32_t n)
{
    int32_t *hosts = NEW_ARRAY(f->a, int32_t, n + 1), *products = NEW_ARRAY(f->a, int32_t, n + 1);
    uint32_t nhosts = 0, nproducts = 0;
    for (uint32_t i = 0; i < n; i++) // generated contractions can share a launch with other groups
        if (slot[i].group.kind == GROUP_DOT && slot[i].cluster && !slot[i].commits &&
            slot[i].bytes <= SMALL_BYTES)
            hosts[nhosts++] = products[nproducts++] = slot[i].level;
    if (nproducts) qsort(products, nproducts, sizeof *products, ascending);
    for (uint32_t i = 0; i < n; i++) {
        Slot *s = &slot[i];
        // Keys and values are written to their caches together, even if one of them is known much
        // earlier.
        if (s->part && s->latest != INT32_MAX && s->latest > s->level) s->level = s->latest;
        if (s->group.kind == GROUP_COLUMN && s->latest != INT32_MAX && s->bytes <= DELAY_BYTES &&
            s->latest > s->level) {
            int32_t host = s->bytes <= SMALL_BYTES ? last_host(products, nproducts, s->latest) : -1;
            s->level = host > s->level ? host : s->latest;
        }
        s->movable = s->bytes <= SMALL_BYTES / 16 && !s->commits && !s->part &&
                     s->latest != INT32_MAX &&
                     (s->group.kind == GROUP_MAP || s->group.kind == GROUP_ROW);
        if (!s->movable && !runs_alone(s->group.kind) && !s->commits && !s->tiled &&
            s->bytes <= SMALL_BYTES)
            hosts[nhosts++] = s->level;
    }
    if (nhosts) qsort(hosts, nhosts, sizeof *hosts, ascending);
    for (uint32_t i = 0; i < n; i++) {
        Slot *s = &slot[i];
        int32_t host = s->movable ? last_host(hosts, nhosts, s->latest) : -1;
        if (host > s->level) s->level = host;
    }
}

// -- reductions that read the same values ---------------------------------------------------------

enum { MOST_INPUTS = 8 };

// The large stored values that a group of reductions reads, at most MOST_INPUTS. [seen]: by id, the
// mark of the last slot for which this was called.
static int large_inputs(const Fuse *f, const Slot *s, uint32_t *seen, uint32_t mark,
                        const Node **in)
{
    const Cluster *c = &f->clusters.at[s->cluster - 1];
    VEC(Node *) work = {0};
    int n = 0;
    for (uint32_t i = 0; i < s->group.outs.n; i++) vec_push(f->a, &work, s->group.outs.at[i]);
    while (work.n && n < MOST_INPUTS) {
        Node *x = work.at[--work.n];
        if (seen[x->id] == mark) continue;
        seen[x->id] = mark;
        bool outside = f->mat[x->id] && fuse_cluster(f, x) != s->cluster;
        if (outside || node_class(x) == CLS_LEAF) {
            if (!node_has(x, OPF_LITERAL) && type_count(&x->type) * 2 >= c->rows * c->cols)
                in[n++] = x;
            continue;
        }
        for (uint32_t k = 0; k < x->nargs; k++) vec_push(f->a, &work, x->args[k]);
    }
    return n;
}

static bool one_domain(const Cluster *a, const Cluster *b)
{
    return a->kind == b->kind && a->rows == b->rows && a->cols == b->cols &&
           (a->trailing && b->trailing
                ? true
                : shape_equal(&a->full, &b->full) && a->naxes == b->naxes &&
                      !memcmp(a->axes, b->axes, sizeof *a->axes * (size_t)a->naxes));
}

static int by_id(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

void fuse_take_over(Fuse *f, Slot *to, Slot *from)
{
    for (uint32_t i = 0; i < from->group.outs.n; i++) {
        vec_push(f->a, &to->group.outs, from->group.outs.at[i]);
        f->level[from->group.outs.at[i]->id] = to->level;
    }
    qsort(to->group.outs.at, to->group.outs.n, sizeof *to->group.outs.at, by_id);
    to->first = to->group.outs.at[0]->id;
    to->latest = from->latest < to->latest ? from->latest : to->latest;
    to->commits |= from->commits;
    to->becomes |= from->becomes;
    to->part |= from->part;
    to->checks |= from->checks;
    if (to->cluster && from->cluster) {
        Cluster *a = &f->clusters.at[to->cluster - 1], *b = &f->clusters.at[from->cluster - 1];
        a->size += b->size;
        b->parent = to->cluster - 1;
    }
    from->group.outs.n = 0;
}

void fuse_drop_empty(Slots *slots)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->at[i].group.outs.n) slots->at[kept++] = slots->at[i];
    slots->n = kept;
}

// Reductions over the same index space that read the same large values become one group, so that
// these are read once. The earlier one is delayed, if nothing reads its values before the later one
// runs.
static void merge_reductions(Fuse *f, Slots *slots)
{
    if (slots->n) qsort(slots->at, slots->n, sizeof *slots->at, by_level);
    uint32_t *seen = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    IdMap last = idmap_new(f->a); // hash of input and domain -> the last slot that reads it
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *s = &slots->at[i];
        if (!s->cluster || s->commits || s->checks || s->bytes <= SMALL_BYTES ||
            (s->group.kind != GROUP_ROW && s->group.kind != GROUP_COLUMN))
            continue;
        const Node *in[MOST_INPUTS];
        int n = large_inputs(f, s, seen, i + 1, in);
        for (int k = 0; k < n; k++) {
            const Cluster *c = &f->clusters.at[s->cluster - 1];
            uint64_t key = hash_mix(hash_mix(in[k]->id, (uint64_t)c->kind),
                                    hash_mix((uint64_t)c->rows, (uint64_t)c->cols)),
                     at;
            if (idmap_get(&last, key, &at) && at != i) {
                Slot *t = &slots->at[at];
                const Cluster *d = &f->clusters.at[t->cluster - 1];
                if (t->group.outs.n && t->latest >= s->level && one_domain(c, d) &&
                    c->size + d->size < MOST_MERGED)
                    fuse_take_over(f, s, t);
            }
            idmap_set(&last, key, i);
        }
    }
    fuse_drop_empty(slots);
}

static bool multiplies_windows(const Fuse *f, const Node *dot)
{
    const DotSizes x = dot_sizes(dot);
    return fuse_reads_windows(f->options, dot) && !target_quick_product(x.batch, x.m, x.n, x.k);
}

// Whether the product needs clusters, which a launch of several groups has not.
static bool divides_sums(const Fuse *f, const Node *dot)
{
    if (dot->op != OP_dot || !f->target) return false;
    const DotSizes x = dot_sizes(dot);
    return target_divides_sums(f->target, x.batch, x.m, x.n, x.k);
}

// Assigns every stored value to the slot of what computes it: a cluster, an anchor such as a
// matmul, or a map.
static void gather(Fuse *f, Slots *slots)
{
    Graph *g = f->g;
    Latest latest = find_latest(f);
    uint32_t *of_cluster = NEW_ARRAY(f->a, uint32_t, f->clusters.n + 1); // slot + 1
    uint32_t *of_map = NEW_ARRAY(f->a, uint32_t, g->nodes.n + 1);
    uint32_t *of_anchor = NEW_ARRAY(f->a, uint32_t, g->nodes.n + 1); // by id of the anchor
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!f->live[i] || !f->mat[i] || (node_has(n, OPF_RESULT) && !fuse_of_call(n))) continue;
        uint32_t slot, c = fuse_cluster(f, n);
        if (c) {
            if (!of_cluster[c]) {
                const Cluster *k = &f->clusters.at[c - 1];
                of_cluster[c] = 1 + new_slot(f, slots, k->kind, k->level, n);
                slots->at[slots->n - 1].bytes = type_bytes(&k->full);
                slots->at[slots->n - 1].cluster = c;
                slots->at[slots->n - 1].latest = latest.cluster[c - 1];
                if (k->anchor) fill_anchor(f, &slots->at[slots->n - 1].group, k->anchor);
                slots->at[slots->n - 1].tiled = k->anchor && fuse_tiled(f->options, k->anchor);
                slots->at[slots->n - 1].windows = k->anchor && multiplies_windows(f, k->anchor);
                slots->at[slots->n - 1].divided = k->anchor && divides_sums(f, k->anchor);
            }
            slot = of_cluster[c] - 1;
        } else if (f->absorbed[i] || fuse_is_anchor(n) || node_has(n, OPF_RESULT)) {
            Node *anchor = f->absorbed[i]            ? f->absorbed[i]
                           : node_has(n, OPF_RESULT) ? n->args[0]
                                                     : n;
            if (!of_anchor[anchor->id]) {
                of_anchor[anchor->id] =
                    1 + new_slot(f, slots, fuse_anchor_kind(anchor), f->level[i], n);
                fill_anchor(f, &slots->at[slots->n - 1].group, anchor);
            }
            slot = of_anchor[anchor->id] - 1;
        } else {
            uint32_t m = fuse_map_of(f, i);
            if (!of_map[m]) of_map[m] = 1 + new_slot(f, slots, GROUP_MAP, f->level[m], n);
            slot = of_map[m] - 1;
            if (f->level[i] > slots->at[slot].level) slots->at[slot].level = f->level[i];
            slots->at[slot].bytes += type_bytes(&n->type);
            slots->at[slot].latest = latest.map[m];
        }
        Slot *s = &slots->at[slot];
        if (runs_as_kernel(n) && node_result_count(n) > 1)
            continue; // its `get` nodes are
                      // stored
        vec_push(f->a, &s->group.outs, n);
        s->commits |= n->op == OP_assign;
        s->becomes |= f->becomes[i];
        if (f->becomes[i] && node_has(n, OPF_PART)) { // only the part of the state that changes is
                                                      // written
            s->part = true;
            s->bytes = type_bytes(&n->args[1]->type);
        }
        s->checks |= node_has(n, OPF_EFFECT) || f->checked[i];
    }
}

// Moves updates to one level if no reader is delayed by it; moves checks before the groups that
// depend on them.
static void order_commits(Slots *slots)
{
    int32_t last = 0;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->at[i].commits && slots->at[i].level > last) last = slots->at[i].level;
    int32_t first = last;
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *s = &slots->at[i];
        if (s->commits && s->cluster && s->latest >= last) s->level = last;
        if ((s->commits || s->becomes) && s->level < first) first = s->level;
    }
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->at[i].checks && slots->at[i].latest > first - 1) slots->at[i].latest = first - 1;
}

// A launch under construction. Groups of one level do not depend on each other; those of one class
// fill one launch after the other.
typedef struct Open {
    uint32_t launch;
    int level;
    int64_t args;
    VEC(uint32_t) slots; // groups in it; empty: not begun yet
} Open;

static int64_t slot_args(const Slot *s)
{
    return 3 * (int64_t)s->group.outs.n;
}

static bool slots_alike(const Slot *a, const Slot *b)
{
    if (a->group.kind != b->group.kind || a->group.outs.n != b->group.outs.n) return false;
    for (uint32_t i = 0; i < a->group.outs.n; i++)
        if (!type_equal(&a->group.outs.at[i]->type, &b->group.outs.at[i]->type)) return false;
    return true;
}

// Index of the first group that moves from a full launch to the next one. If possible, the next
// launch begins with a group (in the later half, or [next], which does not fit) that is like the
// first group of this one. So the launches of a network of equal blocks are mostly equal, too, and
// are one kernel.
static uint32_t launch_end(const Slots *slots, const Open *o, const Slot *next)
{
    int64_t args = o->args;
    const Slot *first = &slots->at[o->slots.at[0]];
    for (uint32_t i = o->slots.n; i-- > 1 && !slots_alike(next, first);) {
        const Slot *s = &slots->at[o->slots.at[i]];
        args -= slot_args(s);
        if (2 * args < o->args) break;
        if (slots_alike(s, first)) return i;
    }
    return o->slots.n;
}

// Begins a launch with the groups that move from the full one.
static void open_next(Fuse *f, const Slots *slots, Open *o, const Slot *next)
{
    uint32_t n = o->slots.n, kept = launch_end(slots, o, next);
    o->launch = f->fusion->launches++;
    o->args = 0;
    for (uint32_t i = kept; i < n; i++) {
        o->slots.at[i - kept] = o->slots.at[i];
        o->args += slot_args(&slots->at[o->slots.at[i]]);
        f->fusion->groups.at[o->slots.at[i]].launch = o->launch;
    }
    o->slots.n = n - kept;
}

// Whether the group sums over the rows of a product's result. The product's kernel may compute
// these sums (codegen/program/follower.c).
static bool sums_product(const Fuse *f, const Slot *s, uint32_t *seen, uint32_t mark)
{
    const Node *in[MOST_INPUTS];
    if (s->group.kind != GROUP_COLUMN || !s->cluster || s->commits || !f->target) return false;
    const int n = large_inputs(f, s, seen, mark, in);
    for (int i = 0; i < n; i++) {
        const Type *t = &in[i]->type;
        const uint32_t from = f->fusion->group_of[in[i]->id];
        if (from && f->fusion->groups.at[from - 1].kind == GROUP_DOT && t->rank &&
            t->dim[t->rank - 1] == f->clusters.at[s->cluster - 1].rows &&
            target_sums_on_the_way(f->target, (double)type_bytes(t)))
            return true;
    }
    return false;
}

static void share_launches(Fuse *f, const Slots *slots)
{
    int64_t most = f->target && f->target->max_kernel_args > 16 ? f->target->max_kernel_args : 256;
    Open open[16] = {0};
    uint32_t *seen = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < slots->n; i++) {
        const Slot *s = &slots->at[i];
        Group *gr = &f->fusion->groups.at[i];
        // (Small contractions may share a launch. Those over windows that take longer use so many
        // registers that updates in the same launch would be slow.)
        bool alone = (s->tiled ? !s->commits : runs_alone(gr->kind) && !s->cluster) ||
                     (s->windows && s->commits) || s->divided || sums_product(f, s, seen, i + 1);
        // Small kernels of any kind share a launch; large ones share it only with their own kind. A
        // commit waits for every check, so it shares a launch only with other commits.
        bool small = s->bytes <= (f->small ? LATENCY_BYTES : SMALL_BYTES);
        Open *o = &open[s->commits ? 0 : small ? 1 : 2 + (int)gr->kind];
        if (alone || gr->assembled) {
            gr->launch = f->fusion->launches++;
            continue;
        }
        if (!o->slots.n || o->level != s->level)
            *o = (Open){.launch = f->fusion->launches++, .level = s->level};
        while (o->slots.n && o->args + slot_args(s) > most) open_next(f, slots, o, s);
        o->args += slot_args(s);
        vec_push(f->a, &o->slots, i);
        gr->launch = o->launch;
    }
}

void fuse_groups(Fuse *f)
{
    Slots slots = {0};
    gather(f, &slots);
    merge_reductions(f, &slots);
    fuse_assemble(f, &slots);
    fuse_pieces(f, &slots);
    fuse_sweeps(f, &slots);
    fuse_columns(f, &slots);
    order_commits(&slots);
    delay_small(f, slots.at, slots.n);
    if (slots.n) qsort(slots.at, slots.n, sizeof *slots.at, by_level);
    f->fusion->group_of = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < slots.n; i++) {
        Group *gr = &slots.at[i].group;
        gr->id = i;
        for (uint32_t k = 0; k < gr->outs.n; k++) f->fusion->group_of[gr->outs.at[k]->id] = i + 1;
        vec_push(f->a, &f->fusion->groups, *gr);
    }
    share_launches(f, &slots);
}
