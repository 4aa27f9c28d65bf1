// The order of an entry's launches: topological, with a low memory peak, checks before the commits
// that depend on them, and reads of a cell's old value before its update.
//
// Two orders are made, the program's and one that greedily frees the most memory; the one with the
// smaller peak is used. Wishes (reads and checks before commits) are followed unless they would
// cause a deadlock; the caller examines the positions and copies where a wish could not be met.
#include "codegen/program/gen.h"

#include <string.h>

typedef struct Heap {
    struct HeapSlot {
        int64_t key;
        uint32_t item, version;
    } * at;
    uint32_t n, cap;
} Heap;

typedef struct Sched {
    Arena *arena;
    Frame *f;
    uint32_t n, nvalues;
    int64_t *bytes;            // of the value with this node id; 0: not a temporary
    uint32_t *producer;        // by value: item + 1
    uint32_t *user_at, *users; // by value: items that read it: users[user_at[v]] .. users[user_at[v
                               // + 1] - 1]
    uint32_t *hard, *soft;     // by item: number of predecessors not placed yet
    uint32_t *left;            // by value: number of readers not placed yet
    uint32_t *soft_at, *soft_to;
    uint32_t *version;
    bool *scheduled;
    uint32_t checks_left;
    bool *waits_checks;
    bool greedy;
    Heap ready, hard_ready;
} Sched;

static bool heap_less(struct HeapSlot a, struct HeapSlot b)
{
    return a.key != b.key ? a.key < b.key : a.item < b.item;
}

static void heap_push(Arena *a, Heap *h, int64_t key, uint32_t item, uint32_t version)
{
    if (h->n == h->cap) h->at = vec_grow_(a, h->at, h->n, &h->cap, sizeof *h->at);
    uint32_t i = h->n++;
    h->at[i] = (struct HeapSlot){key, item, version};
    while (i && heap_less(h->at[i], h->at[(i - 1) / 2])) {
        struct HeapSlot t = h->at[i];
        h->at[i] = h->at[(i - 1) / 2];
        h->at[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
}

static struct HeapSlot heap_pop(Heap *h)
{
    struct HeapSlot top = h->at[0];
    h->at[0] = h->at[--h->n];
    for (uint32_t i = 0;;) {
        uint32_t c = 2 * i + 1;
        if (c >= h->n) break;
        if (c + 1 < h->n && heap_less(h->at[c + 1], h->at[c])) c++;
        if (!heap_less(h->at[c], h->at[i])) break;
        struct HeapSlot t = h->at[i];
        h->at[i] = h->at[c];
        h->at[c] = t;
        i = c;
    }
    return top;
}

static int64_t item_key(const Sched *s, uint32_t i)
{
    if (!s->greedy) return i;
    const Item *it = &s->f->items.at[i];
    int64_t k = 0;
    for (uint32_t j = 0; j < it->defs.n; j++) k += s->bytes[it->defs.at[j]];
    for (uint32_t j = 0; j < it->uses.n; j++)
        if (s->left[it->uses.at[j]] == 1) k -= s->bytes[it->uses.at[j]];
    return k;
}

static bool soft_ready(const Sched *s, uint32_t i)
{
    return !s->soft[i] && !(s->waits_checks[i] && s->checks_left);
}

static void offer(Sched *s, uint32_t i)
{
    if (s->hard[i] || s->scheduled[i]) return;
    if (soft_ready(s, i))
        heap_push(s->arena, &s->ready, item_key(s, i), i, ++s->version[i]);
    else
        heap_push(s->arena, &s->hard_ready, i, i, 0);
}

static void schedule(Sched *s, uint32_t i, const Ids *waiting)
{
    const Item *it = &s->f->items.at[i];
    s->scheduled[i] = true;
    for (uint32_t j = 0; j < it->uses.n; j++) {
        uint32_t v = it->uses.at[j];
        if (--s->left[v] == 1 && s->greedy) // its last reader frees it now
            for (uint32_t k = s->user_at[v]; k < s->user_at[v + 1]; k++)
                if (!s->scheduled[s->users[k]]) offer(s, s->users[k]);
    }
    for (uint32_t j = 0; j < it->defs.n; j++)
        for (uint32_t v = it->defs.at[j], k = s->user_at[v]; k < s->user_at[v + 1]; k++)
            if (s->users[k] != i && !--s->hard[s->users[k]]) offer(s, s->users[k]);
    for (uint32_t k = s->soft_at[i]; k < s->soft_at[i + 1]; k++)
        if (!--s->soft[s->soft_to[k]]) offer(s, s->soft_to[k]);
    if (it->checks && !--s->checks_left)
        for (uint32_t k = 0; k < waiting->n; k++) offer(s, waiting->at[k]);
}

static uint32_t *run(Sched *s, bool greedy)
{
    Frame *f = s->f;
    s->greedy = greedy;
    s->ready.n = s->hard_ready.n = 0;
    s->checks_left = 0;
    memset(s->hard, 0, s->n * sizeof *s->hard);
    memset(s->soft, 0, s->n * sizeof *s->soft);
    memset(s->scheduled, 0, s->n * sizeof *s->scheduled);
    for (uint32_t v = 0; v < s->nvalues; v++) s->left[v] = s->user_at[v + 1] - s->user_at[v];
    Ids waiting = {0};
    for (uint32_t i = 0; i < s->n; i++) {
        const Item *it = &f->items.at[i];
        for (uint32_t j = 0; j < it->uses.n; j++) {
            uint32_t p = s->producer[it->uses.at[j]];
            s->hard[i] += p && p != i + 1;
        }
        for (uint32_t k = s->soft_at[i]; k < s->soft_at[i + 1]; k++) s->soft[s->soft_to[k]]++;
        s->checks_left += it->checks;
        if (s->waits_checks[i]) vec_push(s->arena, &waiting, i);
    }
    uint32_t *order = NEW_ARRAY(s->arena, uint32_t, s->n), done = 0;
    for (uint32_t i = 0; i < s->n; i++) offer(s, i);
    while (done < s->n) {
        uint32_t next = UINT32_MAX;
        while (s->ready.n && next == UINT32_MAX) {
            struct HeapSlot t = heap_pop(&s->ready);
            if (!s->scheduled[t.item] && t.version == s->version[t.item]) next = t.item;
        }
        while (s->hard_ready.n && next == UINT32_MAX) { // all soft edges form cycles: drop one
            struct HeapSlot t = heap_pop(&s->hard_ready);
            if (!s->scheduled[t.item]) next = t.item;
        }
        if (next == UINT32_MAX) return NULL; // a cycle between launches
        order[done++] = next;
        schedule(s, next, &waiting);
    }
    return order;
}

static int64_t peak_of(Sched *s, const uint32_t *order)
{
    int64_t live = 0, peak = 0;
    for (uint32_t v = 0; v < s->nvalues; v++) s->left[v] = s->user_at[v + 1] - s->user_at[v];
    for (uint32_t i = 0; i < s->n; i++) {
        const Item *it = &s->f->items.at[order[i]];
        int64_t freed = 0;
        for (uint32_t j = 0; j < it->defs.n; j++) {
            uint32_t v = it->defs.at[j];
            live += s->bytes[v];
            if (!s->left[v]) freed += s->bytes[v];
        }
        for (uint32_t j = 0; j < it->uses.n; j++)
            if (!--s->left[it->uses.at[j]]) freed += s->bytes[it->uses.at[j]];
        if (live > peak) peak = live;
        live -= freed;
    }
    return peak;
}

// Adds edges from every item that reads the old value of a commit sink to the item that stores the
// new one.
static void soft_edges(Sched *s)
{
    Frame *f = s->f;
    IdMap stores = idmap_new(s->arena); // buffer -> item + 1
    VEC(uint64_t) edges = {0};
    for (uint32_t k = 0; k < f->sinks.n; k++) {
        const Sink *sink = &f->sinks.at[k];
        if (sink->commit && sink->stored) {
            idmap_set(&stores, (uint64_t)sink->target.index, sink->item + 1);
            if (sink->cell) s->waits_checks[sink->item] = true;
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const Item *it = &f->items.at[i];
        uint64_t to;
        for (uint32_t j = 0; j < it->leaves.n; j++) {
            const ProgArg *p = &f->place[it->leaves.at[j]];
            if ((int)p->kind == PA_BUFFER && idmap_get(&stores, (uint64_t)p->index, &to) &&
                to != i + 1)
                vec_push(s->arena, &edges, (uint64_t)i << 32 | (to - 1));
        }
        if (it->reads_cursor && idmap_get(&stores, (uint64_t)f->cursor, &to) && to != i + 1)
            vec_push(s->arena, &edges, (uint64_t)i << 32 | (to - 1));
    }
    for (uint32_t i = 0; i < s->n; i++) // (an item with checks does not wait for itself)
        if (f->items.at[i].checks) s->waits_checks[i] = false;
    s->soft_at = NEW_ARRAY(s->arena, uint32_t, s->n + 1);
    s->soft_to = NEW_ARRAY(s->arena, uint32_t, edges.n + 1);
    uint32_t e = 0; // edges are sorted by source
    for (uint32_t i = 0; i < s->n; i++) {
        s->soft_at[i] = e;
        for (; e < edges.n && edges.at[e] >> 32 == i; e++) s->soft_to[e] = (uint32_t)edges.at[e];
    }
    s->soft_at[s->n] = e;
}

void order_items(Frame *f)
{
    Arena *a = f->e->gen->arena;
    Sched s = {.arena = a, .f = f, .n = f->items.n, .nvalues = f->g->nodes.n};
    s.bytes = NEW_ARRAY(a, int64_t, s.nvalues);
    s.producer = NEW_ARRAY(a, uint32_t, s.nvalues);
    s.user_at = NEW_ARRAY(a, uint32_t, s.nvalues + 2);
    s.left = NEW_ARRAY(a, uint32_t, s.nvalues);
    s.hard = NEW_ARRAY(a, uint32_t, s.n);
    s.soft = NEW_ARRAY(a, uint32_t, s.n);
    s.version = NEW_ARRAY(a, uint32_t, s.n);
    s.scheduled = NEW_ARRAY(a, bool, s.n);
    s.waits_checks = NEW_ARRAY(a, bool, s.n);
    for (uint32_t i = 0; i < s.n; i++) {
        const Item *it = &f->items.at[i];
        for (uint32_t j = 0; j < it->defs.n; j++) {
            const Node *n = f->g->nodes.at[it->defs.at[j]];
            s.producer[n->id] = i + 1;
            if (node_class(n) != CLS_ROOT) s.bytes[n->id] = node_bytes(n);
        }
        for (uint32_t j = 0; j < it->uses.n; j++) s.user_at[it->uses.at[j] + 2]++;
    }
    for (uint32_t k = 0; k < f->sinks.n; k++) // stored outside of the arena
        if (f->sinks.at[k].stored) s.bytes[f->sinks.at[k].stored->id] = 0;
    for (uint32_t v = 0; v < s.nvalues; v++) s.user_at[v + 2] += s.user_at[v + 1];
    s.users = NEW_ARRAY(a, uint32_t, s.user_at[s.nvalues + 1] + 1);
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t j = 0; j < f->items.at[i].uses.n; j++)
            s.users[s.user_at[f->items.at[i].uses.at[j] + 1]++] = i;
    soft_edges(&s);
    uint32_t *natural = run(&s, false);
    f->order = natural;
    if (!natural) return;
    uint32_t *greedy = run(&s, true);
    if (greedy && peak_of(&s, greedy) < peak_of(&s, natural)) f->order = greedy;
    for (uint32_t i = 0; i < s.n; i++) f->items.at[f->order[i]].position = i;
}
