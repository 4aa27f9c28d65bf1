// Elementwise values are fused into the sums over their rows.
//
// The gradient of an activation is stored, because a matmul reads it, and its sum over the rows is
// the gradient of the bias. Separately, a map would store the value and a column kernel read it
// again. Here the map becomes part of the column group, which computes every element anyway, and
// stores them as well.
#include <stdlib.h>

#include "passes/fuse/fuse.h"

enum {
    SMALL_BYTES = 8 << 20, // smaller column sums are delayed until they can share a launch
    ALIGNED = 16,          // bytes: if the kept axes are no multiple of this, a column kernel
                           // accesses single elements, where a map would use vectors
    MOST_VALUES = 128      // values that a map computes and reads
};

typedef struct Columns {
    Fuse *f;
    const Slots *slots;
    uint32_t *owner; // by id of a stored value: its slot + 1
    uint32_t *has;   // by id: mark of the map that computes or reads it
    uint32_t *seen;  // by id: mark of the last traversal
    uint32_t mark, mark_has;
    uint32_t map;    // slot + 1
    Nodes between;   // computed only by the sums, from values that the map has
    int shared, own; // large values read by the sums: those that the map reads or computes, and
                     // others
    int level;       // the first level at which everything that both read is stored
} Columns;

static bool stored(const Columns *x, const Node *n)
{
    return x->f->mat[n->id] || fuse_in_memory(x->f, n) || node_class(n) == CLS_LEAF;
}

static void read_stored(Columns *x, const Node *n)
{
    while (node_has(n, OPF_RESULT)) n = n->args[0];
    if (!x->owner[n->id]) return;
    int level = x->slots->at[x->owner[n->id] - 1].level + 1;
    if (level > x->level) x->level = level;
}

static int64_t elements(const Node *n)
{
    return type_count(node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type);
}

// Whether n reads its operands at its own index. A map that reads along another axis gets a
// different schedule.
static bool walks_in_order(const Node *n)
{
    OpClass class = node_class(n);
    return class == CLS_ELEMENTWISE || class == CLS_ROOT || node_has(n, OPF_ORDER);
}

// Marks what the map computes and reads. false: not all of it is elementwise over [count] elements.
static bool mark_map(Columns *x, const Slot *map, int64_t count)
{
    Fuse *f = x->f;
    Nodes work = {0};
    x->mark_has = ++x->mark;
    for (uint32_t i = 0; i < map->group.outs.n; i++) {
        if (elements(map->group.outs.at[i]) != count) return false;
        vec_push(f->a, &work, map->group.outs.at[i]);
    }
    for (int values = 0; work.n;) {
        Node *n = work.at[--work.n];
        if (x->has[n->id] == x->mark) continue;
        if (++values > MOST_VALUES) return false;
        x->has[n->id] = x->mark;
        if (x->owner[n->id] != x->map && stored(x, n)) {
            read_stored(x, n);
            continue;
        }
        if (!walks_in_order(n)) return false;
        fuse_push_args(f, &work, n);
    }
    return true;
}

// Traverses from what a column group stores to its reductions, whose operands go to [below]. false:
// one reduction depends on another, or the map's values are read outside of the reductions.
static bool above_sums(Columns *x, const Slot *column, Nodes *below)
{
    Fuse *f = x->f;
    Nodes work = {0};
    x->mark++;
    for (uint32_t i = 0; i < column->group.outs.n; i++)
        vec_push(f->a, &work, column->group.outs.at[i]);
    while (work.n) {
        Node *n = work.at[--work.n];
        if (!fuse_first_visit(x->seen, x->mark, n)) continue;
        if (x->owner[n->id] == x->map) return false;
        if (fuse_cluster(f, n) == column->cluster && node_class(n) == CLS_REDUCE)
            fuse_push_args(f, below, n);
        else if (fuse_cluster(f, n) != column->cluster && stored(x, n))
            read_stored(x, n);
        else
            fuse_push_args(f, &work, n);
    }
    return true;
}

// Traverses the operands of the reductions; [elementwise]: those computed element by element.
// false: they depend on a reduction of the group itself, or read the map's values along another
// axis.
static bool below_sums(Columns *x, const Slot *column, int64_t count, Nodes *work, bool elementwise)
{
    Fuse *f = x->f;
    Nodes other = {0};
    x->mark++;
    while (work->n) {
        Node *n = work->at[--work->n];
        if (!fuse_first_visit(x->seen, x->mark, n)) continue;
        bool has = x->has[n->id] == x->mark_has, mapped = x->owner[n->id] == x->map;
        if (fuse_cluster(f, n) == column->cluster || f->checked[n->id]) return false;
        if (mapped && !elementwise) return false;
        if (stored(x, n)) {
            if (type_count(&n->type) * 2 >= count)
                *(has && elementwise ? &x->shared : &x->own) += 1;
            if (!mapped) read_stored(x, n);
            continue;
        }
        bool goes_on = elementwise && (node_class(n) == CLS_ELEMENTWISE || node_keeps_all(n));
        if (goes_on && f->uses[n->id] == 1) vec_push(f->a, &x->between, n);
        fuse_push_args(f, goes_on || !elementwise ? work : &other, n);
    }
    return !elementwise || below_sums(x, column, count, &other, false);
}

static bool can_join(Columns *x, const Slot *map, const Slot *column)
{
    const Cluster *c = &x->f->clusters.at[column->cluster - 1];
    int64_t count = c->rows * c->cols, kept = type_bytes(&c->full) / c->cols;
    if (map->commits || map->checks || kept % ALIGNED) return false;
    x->between.n = 0;
    x->shared = x->own = 0;
    x->level = 0;
    Nodes below = {0};
    return mark_map(x, map, count) && above_sums(x, column, &below) &&
           below_sums(x, column, count, &below, true) && x->shared && x->own <= x->shared &&
           x->level <= map->latest && x->level <= column->latest;
}

static int by_id(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void join(Columns *x, Slot *map, Slot *column, uint32_t at)
{
    Fuse *f = x->f;
    Group *g = &column->group;
    for (uint32_t i = 0; i < map->group.outs.n; i++) {
        vec_push(f->a, &g->outs, map->group.outs.at[i]);
        f->cluster[map->group.outs.at[i]->id] = column->cluster;
    }
    for (uint32_t i = 0; i < x->between.n; i++) f->cluster[x->between.at[i]->id] = column->cluster;
    qsort(g->outs.at, g->outs.n, sizeof *g->outs.at, by_id);
    column->first = g->outs.at[0]->id;
    column->level = x->level;
    if (map->latest < column->latest) column->latest = map->latest;
    for (uint32_t i = 0; i < g->outs.n; i++) {
        x->owner[g->outs.at[i]->id] = at + 1;
        f->level[g->outs.at[i]->id] = column->level;
    }
    map->group.outs.n = 0;
}

static bool by_elements(const Fuse *f, const Slot *s, uint64_t *key, bool *takes)
{
    *takes = s->group.kind == GROUP_MAP && s->group.outs.n && !s->group.assembled;
    if (!*takes && !s->cluster) return false;
    const Cluster *c = s->cluster ? &f->clusters.at[s->cluster - 1] : NULL;
    *key = (uint64_t)(*takes ? elements(s->group.outs.at[0]) : c->rows * c->cols);
    return true;
}

void fuse_columns(Fuse *f, Slots *slots)
{
    if (!f->target || f->target->kind != TARGET_CUDA)
        return; // other devices have the operands in
                // their caches
    Columns x = {.f = f, .slots = slots};
    x.owner = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    x.has = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    x.seen = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < slots->n; i++) {
        const Slot *s = &slots->at[i];
        for (uint32_t k = 0; k < s->group.outs.n; k++) x.owner[s->group.outs.at[k]->id] = i + 1;
    }
    Near near = fuse_near(f, slots, by_elements);
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *s = &slots->at[i];
        if (!s->cluster || s->group.kind != GROUP_COLUMN || s->commits || s->checks ||
            s->bytes <= SMALL_BYTES)
            continue;
        NearWalk w = fuse_near_walk(&near, i);
        for (uint32_t at; fuse_near_next(&w, &at);) {
            x.map = at + 1;
            if (!slots->at[at].group.outs.n || !can_join(&x, &slots->at[at], s)) continue;
            join(&x, &slots->at[at], s, i);
            break;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->at[i].group.outs.n) slots->at[kept++] = slots->at[i];
    slots->n = kept;
}
