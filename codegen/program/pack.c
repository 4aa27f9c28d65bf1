// Assigns offsets in one arena to blocks that are live during intervals of steps.
//
// Several placements are tried, from cheap sweeps to a search over orders, until one meets the
// lower bound. The number of trials is bounded by the number of pairs of blocks, so that large
// plans stay fast.
#include "codegen/program/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct Placed { // a placed item, compact since most of the time is spent on these
    int64_t at, end;
    int32_t first, last, idle_first, idle_last;
} Placed;

typedef struct Pack {
    Arena *arena;
    PlanItem *item; // with bytes rounded up
    uint32_t n;
    uint32_t *order, *by_first;
    Placed *placed; // sorted by offset
    int64_t *offset, *best;
    int64_t best_bytes, bound;
} Pack;

typedef struct Event {
    int32_t at;
    uint32_t item;
} Event;

static int by_at(const void *x, const void *y)
{
    const Event *a = x, *b = y;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

int64_t plan_lower_bound(Arena *a, const PlanItem *items, uint32_t n)
{
    Event *starts = NEW_ARRAY(a, Event, 2 * (size_t)n + 1),
          *ends = NEW_ARRAY(a, Event, 2 * (size_t)n + 1);
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        starts[m] = (Event){items[i].first, i};
        ends[m++] = (Event){items[i].last, i};
        if (!items[i].idle_last) continue;
        ends[m - 1].at = items[i].idle_first - 1;
        starts[m] = (Event){items[i].idle_last + 1, i};
        ends[m++] = (Event){items[i].last, i};
    }
    qsort(starts, m, sizeof *starts, by_at);
    qsort(ends, m, sizeof *ends, by_at);
    int64_t live = 0, peak = 0;
    for (uint32_t i = 0, e = 0; i < m; i++) {
        while (e < m && ends[e].at < starts[i].at) live -= plan_round(items[ends[e++].item].bytes);
        live += plan_round(items[starts[i].item].bytes);
        if (live > peak) peak = live;
    }
    return peak;
}

static void keep_if_better(Pack *p, int64_t bytes)
{
    if (p->best_bytes >= 0 && bytes >= p->best_bytes) return;
    p->best_bytes = bytes;
    memcpy(p->best, p->offset, p->n * sizeof *p->best);
}

// At the lower bound, up to a negligible difference (256 KB of 16 GB).
static bool good_enough(const Pack *p)
{
    return p->best_bytes >= 0 && p->best_bytes <= p->bound + p->bound / 65536;
}

// The goal is at most 2 % above the bound; a search is not worth it within 1 %.
static bool near_enough(const Pack *p)
{
    return p->best_bytes >= 0 && p->best_bytes <= p->bound + p->bound / 100;
}

// Whether b's whole lifetime is within the interval in which a holds no data.
static bool rests(const Placed *a, const Placed *b)
{
    return a->idle_last && b->first >= a->idle_first && b->last <= a->idle_last;
}

// Places items in p->order, each in the smallest (or lowest) gap among items that are live at the
// same time.
static int64_t place_in_order(Pack *p, bool tightest)
{
    int64_t top = 0;
    uint32_t nplaced = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t id = p->order[i];
        const PlanItem *it = &p->item[id];
        const Placed own = {0, 0, it->first, it->last, it->idle_first, it->idle_last};
        int64_t end = 0, at = -1, gap = INT64_MAX;
        for (const Placed *o = p->placed; o < p->placed + nplaced; o++) {
            // One unpredictable branch instead of two (steps do not overflow).
            if (((o->last - own.first) | (own.last - o->first)) < 0) continue;
            if ((o->idle_last | own.idle_last) && (rests(o, &own) || rests(&own, o))) continue;
            int64_t room = o->at - end;
            if (room >= it->bytes && room < gap) {
                at = end;
                gap = room;
                if (!tightest) break;
            }
            if (o->end > end) end = o->end;
        }
        if (at < 0) at = end;
        p->offset[id] = at;
        if (at + it->bytes > top) top = at + it->bytes;
        if (p->best_bytes >= 0 && top >= p->best_bytes)
            return top; // no better than the best so
                        // far
        uint32_t k = 0, above = nplaced;
        while (k < above) { // after those with the same offset
            uint32_t middle = (k + above) / 2;
            if (p->placed[middle].at > at)
                above = middle;
            else
                k = middle + 1;
        }
        memmove(&p->placed[k + 1], &p->placed[k], (nplaced++ - k) * sizeof *p->placed);
        p->placed[k] = own;
        p->placed[k].at = at;
        p->placed[k].end = at + it->bytes;
    }
    return top;
}

typedef struct Hole {
    int64_t at, bytes;
} Hole;

// A single pass over time with a list of holes; for plans with too many items to compare pairs.
// Items that live longer than [far] steps are placed at the far end of a hole, to reduce
// fragmentation.
static int64_t sweep(Pack *p, bool tightest, int32_t far)
{
    VEC(Hole) holes = {0};
    Event *ends = NEW_ARRAY(p->arena, Event, p->n + 1);
    for (uint32_t i = 0; i < p->n; i++) ends[i] = (Event){p->item[i].last, i};
    qsort(ends, p->n, sizeof *ends, by_at);
    int64_t top = 0;
    uint32_t e = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t id = p->by_first[i];
        const PlanItem *it = &p->item[id];
        for (; e < p->n && ends[e].at < it->first; e++) {
            uint32_t dead = ends[e].item;
            Hole h = {p->offset[dead], p->item[dead].bytes};
            uint32_t lo = 0, hi = holes.n;
            while (lo < hi) {
                uint32_t mid = (lo + hi) / 2;
                if (holes.at[mid].at < h.at)
                    lo = mid + 1;
                else
                    hi = mid;
            }
            bool left = lo > 0 && holes.at[lo - 1].at + holes.at[lo - 1].bytes == h.at;
            bool right = lo < holes.n && h.at + h.bytes == holes.at[lo].at;
            if (left && right) {
                holes.at[lo - 1].bytes += h.bytes + holes.at[lo].bytes;
                memmove(&holes.at[lo], &holes.at[lo + 1], (--holes.n - lo) * sizeof(Hole));
            } else if (left) {
                holes.at[lo - 1].bytes += h.bytes;
            } else if (right) {
                holes.at[lo].at = h.at;
                holes.at[lo].bytes += h.bytes;
            } else {
                vec_push(p->arena, &holes, h);
                memmove(&holes.at[lo + 1], &holes.at[lo], (holes.n - 1 - lo) * sizeof(Hole));
                holes.at[lo] = h;
            }
        }
        uint32_t pick = UINT32_MAX;
        for (uint32_t k = 0; k < holes.n; k++)
            if (holes.at[k].bytes >= it->bytes &&
                (pick == UINT32_MAX || holes.at[k].bytes < holes.at[pick].bytes)) {
                pick = k;
                if (!tightest) break;
            }
        if (pick == UINT32_MAX && holes.n && // a hole at the top can grow
            holes.at[holes.n - 1].at + holes.at[holes.n - 1].bytes == top) {
            p->offset[id] = holes.at[--holes.n].at;
            top = p->offset[id] + it->bytes;
        } else if (pick == UINT32_MAX) {
            p->offset[id] = top;
            top += it->bytes;
        } else {
            Hole *h = &holes.at[pick];
            bool at_end = far && it->last - it->first > far;
            p->offset[id] = at_end ? h->at + h->bytes - it->bytes : h->at;
            if (!at_end) h->at += it->bytes;
            h->bytes -= it->bytes;
            if (!h->bytes) memmove(h, h + 1, (--holes.n - pick) * sizeof(Hole));
        }
    }
    return top;
}

typedef struct Key {
    double key;
    uint32_t item;
} Key;

static int by_key(const void *x, const void *y) // descending
{
    const Key *a = x, *b = y;
    if (a->key != b->key) return a->key > b->key ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

// Orders to try: by size, by lifetime, by their product, by start, by end.
static void order_by(Pack *p, Key *keys, int what)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const PlanItem *t = &p->item[i];
        double size = (double)t->bytes, life = (double)(t->last - t->first + 1);
        double k = what == 0   ? size
                   : what == 1 ? life
                   : what == 2 ? size * life
                   : what == 3 ? -(double)t->first
                               : (double)t->last;
        keys[i] = (Key){k, i};
    }
    qsort(keys, p->n, sizeof *keys, by_key);
    for (uint32_t i = 0; i < p->n; i++) p->order[i] = keys[i].item;
}

// Items that are live at the steps with the most memory come first, the largest first.
static void order_by_pressure(Pack *p, Key *keys)
{
    int32_t steps = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->item[i].last >= steps) steps = p->item[i].last + 1;
    int64_t *load = NEW_ARRAY(p->arena, int64_t, steps + 2);
    for (uint32_t i = 0; i < p->n; i++) {
        load[p->item[i].first] += p->item[i].bytes;
        load[p->item[i].last + 1] -= p->item[i].bytes;
    }
    for (int32_t s = 1; s <= steps; s++) load[s] += load[s - 1];
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t most = 0;
        for (int32_t s = p->item[i].first; s <= p->item[i].last; s++)
            if (load[s] > most) most = load[s];
        keys[i] = (Key){(double)most * 16 + (double)p->item[i].bytes / (double)(p->bound + 1), i};
    }
    qsort(keys, p->n, sizeof *keys, by_key);
    for (uint32_t i = 0; i < p->n; i++) p->order[i] = keys[i].item;
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

// Moves single items in the best order, and keeps changes that do not make it worse.
static void search(Pack *p, uint32_t *start, int64_t trials)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    uint32_t *keep = NEW_ARRAY(p->arena, uint32_t, p->n);
    memcpy(keep, start, p->n * sizeof *keep);
    for (int64_t t = 0; t < trials && !near_enough(p); t++) {
        memcpy(p->order, keep, p->n * sizeof *keep);
        for (uint64_t moves = 1 + next_random(&seed) % 3; moves; moves--) {
            uint32_t i = (uint32_t)(next_random(&seed) % p->n);
            uint32_t j = (uint32_t)(next_random(&seed) % p->n), id = p->order[i];
            if (i < j)
                memmove(&p->order[i], &p->order[i + 1], (j - i) * sizeof id);
            else
                memmove(&p->order[j + 1], &p->order[j], (i - j) * sizeof id);
            p->order[j] = id;
        }
        int64_t before = p->best_bytes;
        keep_if_better(p, place_in_order(p, t & 1));
        if (p->best_bytes < before) memcpy(keep, p->order, p->n * sizeof *keep);
    }
}

int64_t plan_pack(Arena *a, PlanItem *items, uint32_t n)
{
    if (!n) return 0;
    Pack p = {.arena = a, .item = NEW_ARRAY(a, PlanItem, n), .n = n, .best_bytes = -1};
    p.order = NEW_ARRAY(a, uint32_t, n);
    p.placed = NEW_ARRAY(a, Placed, n);
    p.by_first = NEW_ARRAY(a, uint32_t, n);
    p.offset = NEW_ARRAY(a, int64_t, n);
    p.best = NEW_ARRAY(a, int64_t, n);
    Key *keys = NEW_ARRAY(a, Key, n);
    int32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        p.item[i] = items[i];
        p.item[i].bytes = plan_round(items[i].bytes);
        if (items[i].last - items[i].first > longest) longest = items[i].last - items[i].first;
    }
    p.bound = plan_lower_bound(a, items, n);
    order_by(&p, keys, 3);
    memcpy(p.by_first, p.order, n * sizeof *p.order);
    int32_t fars[] = {0, longest / 16 + 1, longest / 4 + 1};
    for (int i = 0; i < 6 && !good_enough(&p); i++)
        keep_if_better(&p, sweep(&p, i & 1, fars[i / 2]));
    int64_t pairs = (int64_t)n * n, budget = 100000000;
    uint32_t *best_order = NEW_ARRAY(a, uint32_t, n);
    int64_t best_of_orders = -1;
    for (int i = 0; i < 12 && !good_enough(&p) && pairs * (i + 1) < budget; i++) {
        if (i / 2 == 5)
            order_by_pressure(&p, keys);
        else
            order_by(&p, keys, i / 2);
        int64_t bytes = place_in_order(&p, i & 1);
        keep_if_better(&p, bytes);
        if (best_of_orders < 0 || bytes < best_of_orders) {
            best_of_orders = bytes;
            memcpy(best_order, p.order, n * sizeof *best_order);
        }
    }
    if (best_of_orders >= 0 && !near_enough(&p))
        search(&p, best_order, budget / (pairs + 1000) < 3000 ? budget / (pairs + 1000) : 3000);
    for (uint32_t i = 0; i < n; i++) items[i].offset = p.best[i];
    return p.best_bytes;
}
