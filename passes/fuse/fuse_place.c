// Placement: one traversal in program order gives every node its level and, where it depends on a
// reduction that is not stored yet, its cluster.
#include <string.h>

#include "ir/axes.h"
#include "passes/fuse/fuse.h"

enum {
    MAX_CLUSTER = 380, // nodes: compilers take very long for one long kernel
    MAX_DEPTH = 250,
    EXPORT_NODES = 48,
    BECOMES_BYTES = 1 << 20, // size of a state from which on copying it takes longer than a launch
    PART_BYTES = 1 << 16, // the same if a part of the state changes: then only the part is written
    COSTLY_WEIGHT = 4,
    SMALL_BYTES = 1 << 20,
    SPLIT_ROWS = 16, // rows per block of a column kernel
};

// How much text a node generates. A transcendental function is inlined for every element of a
// vector, and compile time grows more than linearly with the text of a kernel.
static int weight(const Node *n)
{
    return node_has(n, OPF_COSTLY) ? COSTLY_WEIGHT : 1;
}

// -- clusters -------------------------------------------------------------------------------------

static uint32_t find(const Fuse *f, uint32_t c) // returns the index of the root
{
    while (f->clusters.at[c].parent != c) {
        f->clusters.at[c].parent = f->clusters.at[f->clusters.at[c].parent].parent;
        c = f->clusters.at[c].parent;
    }
    return c;
}

bool fuse_push_new(Node **seen, int *n, int most, Node *x)
{
    for (int i = 0; i < *n; i++)
        if (seen[i] == x) return true;
    if (*n == most) return false;
    seen[(*n)++] = x;
    return true;
}

bool fuse_first_visit(uint32_t *seen, uint32_t mark, const Node *n)
{
    bool first = seen[n->id] != mark;
    seen[n->id] = mark;
    return first;
}

void fuse_push_args(Fuse *f, Nodes *work, const Node *n)
{
    for (uint32_t i = 0; i < n->nargs; i++) vec_push(f->a, work, n->args[i]);
}

uint32_t fuse_cluster(const Fuse *f, const Node *n)
{
    return f->cluster[n->id] ? find(f, f->cluster[n->id] - 1) + 1 : 0;
}

static Cluster *cluster_at(Fuse *f, uint32_t c) // c is index + 1
{
    return &f->clusters.at[c - 1];
}

static bool same_domain(const Cluster *a, const Cluster *b)
{
    if (a->kind != b->kind || a->rows != b->rows || a->cols != b->cols) return false;
    if (a->trailing && b->trailing) return true;
    return shape_equal(&a->full, &b->full) && a->naxes == b->naxes &&
           !memcmp(a->axes, b->axes, sizeof *a->axes * (size_t)a->naxes);
}

static Cluster domain_of(const Fuse *f, const Node *reduce)
{
    const Type *t = &reduce->args[0]->type;
    Cluster c = {.full = *t};
    int n;
    const int64_t *axes = attr_ints(reduce, ATTR_axes, &n);
    for (int i = 0; i < n; i++) c.axes[c.naxes++] = axes[i];
    c.rows = type_count(&reduce->type);
    c.cols = reduced_count(reduce);
    int first = t->rank, last_kept = -1;
    for (int i = 0; i < n; i++)
        if (t->dim[axes[i]] != 1 && axes[i] < first) first = (int)axes[i];
    for (int i = 0, k = 0; i < t->rank; i++)
        if (k < n && axes[k] == i)
            k++;
        else if (t->dim[i] != 1)
            last_kept = i;
    c.trailing = last_kept < first;
    c.kind = c.trailing ? GROUP_ROW : GROUP_COLUMN;
    int64_t last = 1;
    for (int i = t->rank - 1; i >= 0 && last == 1; i--) { // the innermost axis decides
        if (t->dim[i] == 1) continue;
        last = t->dim[i];
        for (int k = 0; k < n; k++)
            if (axes[k] == i) c.kind = GROUP_ROW;
    }
    // If there are few long rows, the schedule cuts them into pieces; then nothing over their
    // columns can follow.
    int64_t units = f->target && f->target->units > 0 ? f->target->units : 16;
    c.open = c.cols <= 65536 || c.rows >= units;
    // Columns that several stages read must be in one block each. On a GPU this pays only if they
    // are short, or if there are enough of them to fill the device.
    if (c.kind == GROUP_COLUMN) c.open = c.rows >= 32 && c.cols <= 16384;
    if (c.kind == GROUP_COLUMN && f->target && f->target->kind == TARGET_CUDA && c.cols > 1024)
        c.open = c.open && c.rows >= units * SPLIT_ROWS;
    return c;
}

// -- values read outside of their cluster ---------------------------------------------------------

static int outside(const Fuse *f, const Node *n)
{
    return f->mat[n->id] || f->cluster[n->id] ? f->level[n->id] + 1 : f->level[n->id];
}

// Whether reading y costs about as much as reading n. (A broadcast vector costs less.)
static bool reads_as_much(const Node *y, const Node *n)
{
    double v;
    while (node_has(y, OPF_STRIDES)) y = y->args[0];
    return !node_const_value(y, &v) && type_count(&y->type) * 2 >= type_count(&n->type);
}

// Whether readers of y compute it. (Otherwise each gradient of a residual stream would be computed
// from those of all layers after it.)
static bool computed_again(const Fuse *f, const Node *y)
{
    OpClass c = node_class(y);
    return (c == CLS_ELEMENTWISE || c == CLS_VIEW) && !fuse_stored(f, y);
}

static bool widens(const Node *n)
{
    if (n->op != OP_cast) return false;
    DType from = n->args[0]->type.dtype, to = n->type.dtype;
    bool alike = dtype_is_float(from) == dtype_is_float(to);
    return alike && dtype_info[to].bits > dtype_info[from].bits && from != DT_BOOL;
}

// The value of the same cluster of which n is a widened or reshaped copy. Storing that takes less
// memory, and readers of several forms of it read the same value.
static Node *source(const Fuse *f, Node *n)
{
    const uint32_t own = fuse_cluster(f, n);
    while (!f->mat[n->id] && (node_keeps_all(n) || widens(n)) && fuse_cluster(f, n->args[0]) == own)
        n = n->args[0];
    return n;
}

// Depth of the expression n for a kernel that reads it. The depth of a value that another kernel
// stores, itself or before widening or reshaping, does not count.
static int depth_behind(const Fuse *f, const Node *n, uint32_t reader)
{
    const Node *x = n;
    int views = 0;
    for (; !fuse_stored(f, x) && (node_keeps_all(x) || widens(x)); x = x->args[0]) views++;
    if (fuse_stored(f, x) && (!reader || fuse_cluster(f, x) != reader)) return views;
    return f->depth[n->id];
}

// Tries to have n recomputed outside of its cluster: from values that a map stores or, if n is over
// all columns, from values with one element per row, which are then stored instead of n. false:
// this is not cheaper.
static bool export_cheaply(Fuse *f, Node *n)
{
    Node *seen[EXPORT_NODES], *stack[EXPORT_NODES];
    int nseen = 0, nstack = 0, reads = 0;
    double flops = 0;
    uint32_t own = fuse_cluster(f, n);
    bool map = f->clusters.at[own - 1].kind == GROUP_MAP || f->clusters.at[own - 1].anchor;
    stack[nstack++] = seen[nseen++] = n;
    while (nstack) {
        Node *x = stack[--nstack];
        flops += node_has(x, OPF_COSTLY) ? 20 : 1;
        if (fuse_is_anchor(x)) return false;
        for (uint32_t k = 0; k < x->nargs; k++) {
            Node *y = x->args[k];
            bool known = node_class(y) == CLS_LEAF && y->type.rank == 0;
            for (int i = 0; i < nseen && !known; i++) known = seen[i] == y;
            if (known) continue;
            if (nseen == EXPORT_NODES) return false;
            seen[nseen++] = y;
            bool inside = fuse_cluster(f, y) == own;
            if (inside ? !f->mat[y->id] && (map || f->pos[y->id] == POS_FULL)
                       : reads_as_much(y, n) && computed_again(f, y))
                stack[nstack++] = y;
            else
                reads += reads_as_much(y, n);
        }
    }
    if (flops > 64 || reads > 2) return false;
    for (int i = 0; i < nseen && !map; i++)
        if (fuse_cluster(f, seen[i]) == own && f->pos[seen[i]->id] == POS_ROW)
            f->mat[source(f, seen[i])->id] = true;
    return true;
}

// Makes n readable outside of its cluster.
static void publish(Fuse *f, Node *n, bool whole)
{
    if (!f->cluster[n->id] || f->mat[n->id]) return;
    const Cluster *c = cluster_at(f, fuse_cluster(f, n));
    bool wide = f->pos[n->id] == POS_FULL || c->kind == GROUP_MAP || c->anchor;
    if (!whole && wide && export_cheaply(f, n)) return;
    if (!whole) n = source(f, n);
    f->mat[n->id] = true;
}

// -- adding to a cluster --------------------------------------------------------------------------

static bool splits_at(const Type *t, int64_t rows)
{
    int64_t p = 1;
    for (int i = 0; i < t->rank && p < rows; i++) p *= t->dim[i];
    return p == rows;
}

// Whether n broadcasts one value per row to all columns of the same rows.
static bool broadcasts_rows(const Cluster *c, const Node *n)
{
    const Type *in = &n->args[0]->type, *out = &n->type;
    int nd;
    const int64_t *dims = attr_ints(n, ATTR_dims, &nd);
    int64_t kept[MAX_RANK];
    int nkept = 0;
    if (c->trailing) {
        if (type_count(out) != c->rows * c->cols || !splits_at(out, c->rows)) return false;
        int64_t p = 1;
        for (int i = 0; i < out->rank && p < c->rows; i++) {
            p *= out->dim[i];
            if (out->dim[i] != 1) kept[nkept++] = i;
        }
    } else {
        if (!shape_equal(out, &c->full)) return false;
        for (int i = 0, k = 0; i < out->rank; i++)
            if (k < c->naxes && c->axes[k] == i)
                k++;
            else if (out->dim[i] != 1)
                kept[nkept++] = i;
    }
    int k = 0;
    for (int i = 0; i < nd; i++) {
        if (in->dim[i] == 1) continue;
        if (k == nkept || dims[i] != kept[k++]) return false;
    }
    return k == nkept;
}

static Pos position_in(const Fuse *f, const Cluster *c, uint32_t index, const Node *n)
{
    Pos p = POS_NONE;
    switch (node_class(n)) {
    case CLS_ELEMENTWISE:
        for (uint32_t k = 0; k < n->nargs; k++)
            if (fuse_cluster(f, n->args[k]) == index && p != POS_FULL) p = f->pos[n->args[k]->id];
        return p;
    case CLS_VIEW:
        p = f->pos[n->args[0]->id];
        if (node_keeps_all(n))
            return p == POS_ROW || (c->trailing && splits_at(&n->type, c->rows)) ? p : POS_NONE;
        return n->op == OP_broadcast && p == POS_ROW && broadcasts_rows(c, n) ? POS_FULL : POS_NONE;
    case CLS_REDUCE: {
        Cluster d = domain_of(f, n);
        return f->pos[n->args[0]->id] == POS_FULL && same_domain(&d, c) ? POS_ROW : POS_NONE;
    }
    case CLS_INDEX: // a repair of what is computed here, by products of stored values
        for (uint32_t k = 0; k < 2; k++)
            if (fuse_cluster(f, n->args[k]) == index) return POS_NONE;
        return n->op == OP_repair ? f->pos[n->args[2]->id] : POS_NONE;
    default: return POS_NONE;
    }
}

// If launches dominate the time of a step, updates are computed by the kernel of their gradient,
// except for those that a later check may prevent.
static bool takes_updates(const Fuse *f, const Cluster *c)
{
    if (!f->small || (f->checks && c->level <= f->check_level)) return false;
    return c->anchor || (c->kind != GROUP_MAP && type_bytes(&c->full) <= SMALL_BYTES);
}

static int deepest(const Fuse *f, const Node *n, uint32_t reader)
{
    int depth = 0;
    for (uint32_t k = 0; k < n->nargs; k++) {
        int d = depth_behind(f, n->args[k], reader);
        depth = d > depth ? d : depth;
    }
    return depth;
}

static bool join(Fuse *f, Node *n)
{
    uint32_t best = 0;
    for (uint32_t k = 0; k < n->nargs; k++) {
        uint32_t c = fuse_cluster(f, n->args[k]);
        if (c && (!best || cluster_at(f, c)->level > cluster_at(f, best)->level)) best = c;
    }
    if (!best) return false;
    Cluster *c = cluster_at(f, best);
    if (f->late[n->id] && !takes_updates(f, c)) return false;
    if (c->anchor && f->apart[c->anchor->id] && f->wide[n->id]) return false;
    int depth = deepest(f, n, best);
    if (depth >= 2 * MAX_DEPTH) return false;
    Pos p = position_in(f, c, best, n);
    if (p == POS_NONE || (p == POS_FULL && !c->open) || c->size >= MAX_CLUSTER) return false;
    if (f->late[n->id] && p == POS_FULL) return false;
    for (uint32_t k = 0; k < n->nargs; k++) {
        uint32_t other = fuse_cluster(f, n->args[k]);
        if (other == best) continue;
        bool merges = other && cluster_at(f, other)->level == c->level && !c->anchor &&
                      same_domain(cluster_at(f, other), c) &&
                      cluster_at(f, other)->size + c->size < MAX_CLUSTER;
        if (!merges && outside(f, n->args[k]) > c->level) return false;
    }
    for (uint32_t k = 0; k < n->nargs; k++) {
        uint32_t other = fuse_cluster(f, n->args[k]);
        if (!other || other == best) continue;
        if (cluster_at(f, other)->level == c->level) {
            cluster_at(f, other)->parent = best - 1;
            c->size += cluster_at(f, other)->size;
        } else {
            publish(f, n->args[k], false);
        }
    }
    c->size += (uint32_t)weight(n);
    f->cluster[n->id] = best;
    f->depth[n->id] = (uint16_t)(deepest(f, n, best) + weight(n));
    f->pos[n->id] = (uint8_t)p;
    f->level[n->id] = c->level;
    return true;
}

// Joins a cluster of the same domain and level with the same base, or starts one.
static void enter(Fuse *f, Node *n, const Node *base, Cluster d)
{
    uint64_t key = hash_mix(hash_mix(base ? base->id + 1 : 0, (uint64_t)d.level),
                            hash_mix((uint64_t)d.rows, hash_mix((uint64_t)d.cols, d.kind)));
    uint64_t at;
    d.size = 1;
    if (idmap_get(&f->cluster_of, key, &at)) {
        uint32_t c = find(f, (uint32_t)at) + 1;
        if (same_domain(cluster_at(f, c), &d) && cluster_at(f, c)->level == d.level &&
            cluster_at(f, c)->size < MAX_CLUSTER) {
            cluster_at(f, c)->size++;
            f->cluster[n->id] = c;
        }
    }
    if (!f->cluster[n->id]) {
        d.parent = f->clusters.n;
        idmap_set(&f->cluster_of, key, d.parent);
        vec_push(f->a, &f->clusters, d);
        f->cluster[n->id] = f->clusters.n;
    }
    f->pos[n->id] = POS_ROW;
    f->level[n->id] = d.level;
}

static void start_reduction(Fuse *f, Node *n)
{
    Node *a = n->args[0];
    Cluster d = domain_of(f, n);
    publish(f, a, false);
    d.level = outside(f, a);
    enter(f, n, f->base[a->id] ? f->base[a->id] : a, d);
    f->depth[n->id] = (uint16_t)(depth_behind(f, a, fuse_cluster(f, n)) + 1);
}

// Starts a map with a stored elementwise value; elementwise code that follows can be added to it.
static void start_map(Fuse *f, Node *n)
{
    Cluster d = {.kind = GROUP_MAP, .level = f->level[n->id], .full = n->type, .trailing = true};
    d.rows = type_count(&n->type);
    d.cols = 1;
    enter(f, n, f->base[n->id], d);
}

// The number of different stored values that n reads, counted up to [cap].
static int count_reads(const Fuse *f, Node *n, int cap)
{
    enum { MOST = 512 };
    Node *seen[MOST];
    int nseen = 0, reads = 0;
    seen[nseen++] = n;
    for (int i = 0; i < nseen; i++) {
        Node *x = seen[i];
        if (x != n && (f->mat[x->id] || node_class(x) == CLS_LEAF)) {
            reads += node_class(x) != CLS_LEAF || node_in_memory(x);
            continue;
        }
        for (uint32_t k = 0; k < x->nargs; k++)
            if (!fuse_push_new(seen, &nseen, MOST, x->args[k])) return cap;
    }
    return reads < cap ? reads : cap;
}

// -- nodes ----------------------------------------------------------------------------------------

// Whether n repeats each element of a many times and a takes costly functions. Then a is computed
// once, by the kernel of its cluster. Many is what the device computes while it moves two bytes: 8
// times on an H200, 3 on a CPU, which takes longer for such a function than for a store.
static bool repeats_dear(const Fuse *f, const Node *n, const Node *a)
{
    enum { MOST = 8 };
    const Target *t = f->target;
    const double many = t ? t->f32_flops / (2 * t->bytes_per_second) : MOST;
    if (n->op != OP_broadcast || (double)type_count(&n->type) < many * (double)type_count(&a->type))
        return false;
    const uint32_t own = fuse_cluster(f, a);
    for (int i = 0; i < MOST && own && fuse_cluster(f, a) == own && f->pos[a->id] == POS_FULL;
         i++) {
        if (node_has(a, OPF_COSTLY)) return true;
        if (!a->nargs) break;
        a = a->args[0];
    }
    return false;
}

static void place_free(Fuse *f, Node *n)
{
    int level = 0;
    bool checked = fuse_may_fail(n);
    int reads = 0, cap = 96, size = 1;
    Node *base = NULL;
    for (uint32_t k = 0; k < n->nargs; k++) {
        Node *a = n->args[k];
        publish(f, a, repeats_dear(f, n, a));
        int l = outside(f, a);
        level = l > level ? l : level;
        bool stored = fuse_stored(f, a);
        checked |= f->checked[a->id] && !stored;
        reads += stored ? 1 : f->reads[a->id];
        size += stored || !f->size[a->id] ? 1 : f->size[a->id];
        Node *b = stored ? a : f->base[a->id];
        if (b && (!base || type_count(&b->type) > type_count(&base->type))) base = b;
    }
    f->level[n->id] = level;
    f->checked[n->id] = checked;
    const int depth = deepest(f, n, 0);
    f->base[n->id] = base;
    f->depth[n->id] = (uint16_t)(depth + weight(n));
    if (reads >= cap) reads = count_reads(f, n, cap);
    f->reads[n->id] = (uint16_t)reads;
    bool too_big = false;
    f->spread[n->id] = false;
    if (size >= SURE_SIZE) size = fuse_size(f, n, &f->spread[n->id], &too_big);
    f->size[n->id] = (uint16_t)size;
    f->too_big[n->id] = depth >= MAX_DEPTH || reads >= cap || too_big;
}

static void place_anchor(Fuse *f, Node *n)
{
    int level = 0;
    for (uint32_t k = 0; k < n->nargs; k++) {
        Node *a = n->args[k], *s = a;
        while (!f->mat[s->id] && node_has(s, OPF_STRIDES)) {
            level = f->level[s->id] > level ? f->level[s->id] : level; // (the level of a view may
                                                                       // be higher)
            s = s->args[0];
        }
        if (f->mat[s->id])
            a = s; // read through its views
        else
            publish(f, a, node_class(n) != CLS_INDEX);
        int l = outside(f, a);
        level = l > level ? l : level;
    }
    Node *const added[] = {f->bias[n->id], f->residual[n->id]};
    for (int k = 0; k < 2 && n->op == OP_dot; k++) {
        if (!added[k]) continue;
        publish(f, added[k], true);
        int l = outside(f, added[k]);
        level = l > level ? l : level;
    }
    if (n->op == OP_dot && f->aux[n->id] && !f->kept[n->id]) {
        int l = outside(f, f->aux[n->id]);
        level = l > level ? l : level;
    }
    f->level[n->id] = level;
    if (fuse_generated(f->options, n)) {
        Cluster d = {.kind = GROUP_DOT, .level = level, .full = n->type, .trailing = true};
        d.rows = type_count(&n->type);
        d.cols = d.size = 1;
        d.anchor = n;
        d.parent = f->clusters.n;
        vec_push(f->a, &f->clusters, d);
        f->cluster[n->id] = f->clusters.n;
        f->pos[n->id] = POS_ROW;
        f->mat[n->id] = f->forced[n->id];
        return;
    }
    Node *end = n->op == OP_dot ? f->epilogue[n->id] : n;
    Node *kept = n->op == OP_dot ? f->kept[n->id] : NULL;
    f->level[end->id] = level;
    f->mat[end->id] = true;
    if (!kept) return;
    f->level[kept->id] = level;
    f->mat[kept->id] = true;
}

// Whether the dot and its folded chain are placed when n is: everything that they read is placed by
// then, and none of their readers.
static bool places_chain(const Fuse *f, const Node *dot, const Node *n)
{
    return (f->kept[dot->id] ? f->kept[dot->id] : f->epilogue[dot->id]) == n;
}

static void place_root(Fuse *f, Node *n)
{
    Node *a = n->args[0];
    uint32_t id = n->id;
    f->level[id] = outside(f, a);
    bool stored =
        f->mat[a->id] || fuse_in_memory(f, a) || (node_has(a, OPF_LITERAL) && a->type.rank == 0);
    bool update =
        f->cluster[a->id] && f->late[a->id] && takes_updates(f, cluster_at(f, fuse_cluster(f, a)));
    bool gated = n->op == OP_assign && f->checks && !update;
    bool part =
             node_has(a, OPF_PART) || (node_has(a, OPF_SCATTERS) && node_has(a->args[0], OPF_CELL)),
         large = type_bytes(&a->type) >= (part ? PART_BYTES : BECOMES_BYTES);
    if (gated && f->cluster[a->id] && !stored) f->mat[a->id] = stored = true;
    if (stored && !node_has(n, OPF_EFFECT)) {
        // A value that is computed before the last check is copied into its cell by the update
        // kernel. A large one is stored in the cell directly if the check comes first; otherwise it
        // is copied at the end.
        f->mat[id] = gated && f->mat[a->id] && !large;
        f->becomes[a->id] |= n->op == OP_assign && large;
        return;
    }
    if (f->cluster[a->id]) {
        f->cluster[id] = f->cluster[a->id];
        f->pos[id] = f->pos[a->id];
        f->level[id] = f->level[a->id];
    } else if (n->op == OP_assign && f->checked[a->id] && !f->forced[a->id]) {
        f->forced[a->id] = f->again = true; // the check is in a kernel of its own, which runs first
    }
    f->mat[id] = true;
}

static void place(Fuse *f, Node *n)
{
    uint32_t id = n->id;
    if (f->absorbed[id]) {
        if (places_chain(f, f->absorbed[id], n)) place_anchor(f, f->absorbed[id]);
        return;
    }
    if (node_has(n, OPF_RESULT)) {
        f->level[id] = f->level[n->args[0]->id];
        f->mat[id] = true;
    } else if (node_class(n) == CLS_ROOT) {
        place_root(f, n);
    } else if (fuse_is_anchor(n)) {
        place_anchor(f, n);
    } else if (join(f, n)) {
        f->mat[id] |= f->forced[id];
    } else if (node_class(n) == CLS_REDUCE) {
        start_reduction(f, n);
        f->mat[id] |= f->forced[id];
    } else {
        place_free(f, n);
        // (a repair is part of a product's kernel or of a map)
        f->mat[id] = f->forced[id] || f->too_big[id] || n->op == OP_repair;
        if (f->mat[id] && node_class(n) != CLS_LEAF) start_map(f, n);
    }
}

void fuse_unplace(Fuse *f)
{
    uint32_t n = f->g->nodes.n + 1;
    f->level = NEW_ARRAY(f->a, int32_t, n);
    f->cluster = NEW_ARRAY(f->a, uint32_t, n);
    f->pos = NEW_ARRAY(f->a, uint8_t, n);
    f->mat = NEW_ARRAY(f->a, bool, n);
    f->checked = NEW_ARRAY(f->a, bool, n);
    f->depth = NEW_ARRAY(f->a, uint16_t, n);
    f->reads = NEW_ARRAY(f->a, uint16_t, n);
    f->size = NEW_ARRAY(f->a, uint16_t, n);
    f->spread = NEW_ARRAY(f->a, bool, n);
    f->too_big = NEW_ARRAY(f->a, bool, n);
    f->base = NEW_ARRAY(f->a, Node *, n);
    f->becomes = NEW_ARRAY(f->a, bool, n);
    f->clusters.n = 0;
    f->cluster_of = idmap_new(f->a);
}

void fuse_place(Fuse *f)
{
    fuse_unplace(f);
    f->again = false;
    f->backward_level = 0;
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *x = f->g->nodes.at[i];
        if (!f->live[i]) continue;
        place(f, f->g->nodes.at[i]);
        // (a check may be placed later than in the previous round, of which check_level is)
        if (node_has(x, OPF_EFFECT) && fuse_may_fail(x) && f->level[i] > f->check_level)
            f->check_level = f->level[i];
        if (f->level[i] < f->backward_level && attr_int(x, ATTR_clone, 0) == CLONE_LATER)
            f->level[i] = f->backward_level;
        if (f->level[i] > f->backward_level && x->role == ROLE_BACKWARD)
            f->backward_level = f->level[i];
    }
    int32_t check = -1;
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *x = f->g->nodes.at[i];
        if (!f->live[i] || (!fuse_may_fail(x) && !x->nregions)) continue;
        int32_t at = node_has(x, OPF_EFFECT) ? f->level[i] : INT32_MAX;
        check = at > check ? at : check;
    }
    f->again |= f->small && f->check_level == INT32_MAX && check != INT32_MAX;
    f->check_level = check;
}
