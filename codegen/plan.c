// Liveness of temporaries over an entry's steps, and offsets for them in one arena.
//
// A temporary lives from its first to its last access; one that crosses a loop's border, is carried
// around the loop or moves with its iterations lives through the whole loop. Several placements are
// tried, from cheap sweeps to a search over orders, until one meets the lower bound; the number of
// trials is bounded by the number of pairs of blocks, so that large plans stay fast.
#include "codegen/plan.h"

#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t n)
{
    return (n + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

// -- packing
// -------------------------------------------------------------------------------------------

typedef struct Pack {
    Arena *arena;
    PlanItem *item; // bytes rounded up
    uint32_t n;
    uint32_t *order, *placed, *by_first; // placed: by offset
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
        while (e < m && ends[e].at < starts[i].at) live -= round_up(items[ends[e++].item].bytes);
        live += round_up(items[starts[i].item].bytes);
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

static bool good_enough(const Pack *p)
{
    return p->best_bytes >= 0 && p->best_bytes <= p->bound;
}

// Within 2 % is the promise; what is within 1 % is not worth a search.
static bool near_enough(const Pack *p)
{
    return p->best_bytes >= 0 && p->best_bytes <= p->bound + p->bound / 100;
}

// Does all of b's life fall where a keeps nothing?
static bool rests(const PlanItem *a, const PlanItem *b)
{
    return a->idle_last && b->first >= a->idle_first && b->last <= a->idle_last;
}

// Places items in p->order, each into the tightest (or lowest) gap among those alive with it.
static int64_t place_in_order(Pack *p, bool tightest)
{
    int64_t top = 0;
    uint32_t nplaced = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t id = p->order[i];
        const PlanItem *it = &p->item[id];
        int64_t end = 0, at = -1, gap = INT64_MAX;
        for (uint32_t k = 0; k < nplaced; k++) {
            const PlanItem *o = &p->item[p->placed[k]];
            if (o->last < it->first || o->first > it->last || rests(o, it) || rests(it, o))
                continue;
            int64_t from = p->offset[p->placed[k]], room = from - end;
            if (room >= it->bytes && room < gap) {
                at = end;
                gap = room;
                if (!tightest) break;
            }
            if (from + o->bytes > end) end = from + o->bytes;
        }
        if (at < 0) at = end;
        p->offset[id] = at;
        if (at + it->bytes > top) top = at + it->bytes;
        if (p->best_bytes >= 0 && top >= p->best_bytes) return top; // no better than before
        uint32_t k = nplaced++;
        for (; k > 0 && p->offset[p->placed[k - 1]] > at; k--) p->placed[k] = p->placed[k - 1];
        p->placed[k] = id;
    }
    return top;
}

typedef struct Hole {
    int64_t at, bytes;
} Hole;

// One pass over time with a list of holes; for plans too large for pairs. Blocks that outlive
// [far] steps go to the far end of a hole, so that short-lived ones leave fewer splinters.
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
        if (pick == UINT32_MAX && holes.n && // a hole at the top grows
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

// Orders worth trying: by size, by life, by their product, by start, by end.
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

// Items alive at the busiest steps first, largest first among them.
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

// Moves single items of the best order about and keeps what does not make it worse.
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
    p.placed = NEW_ARRAY(a, uint32_t, n);
    p.by_first = NEW_ARRAY(a, uint32_t, n);
    p.offset = NEW_ARRAY(a, int64_t, n);
    p.best = NEW_ARRAY(a, int64_t, n);
    Key *keys = NEW_ARRAY(a, Key, n);
    int32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        p.item[i] = items[i];
        p.item[i].bytes = round_up(items[i].bytes);
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

// -- liveness
// --------------------------------------------------------------------------------------------

typedef struct Life {
    bool seen, read_first; // read by the first step that touches it
    bool moves[PROG_MAX_LOOP_DEPTH];
    int32_t first, last;
    // From the last use of a value to the step that overwrites it (in a loop: with the value for
    // the next iteration) nothing is kept; the longest such stretch, 0, 0: none.
    int32_t idle_first, idle_last;
    int32_t loop, touched; // the innermost loop of the last touch, + 2, and its step
} Life;

static int32_t idle_length(const Life *l)
{
    return l->idle_last ? l->idle_last - l->idle_first + 1 : 0;
}

// Does the step write all of the argument's buffer without reading it?
static bool overwrites(const ProgStep *s, const ProgArg *arg)
{
    if (!arg->written) return false;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++)
        if (arg->stride[d]) return false;
    for (int32_t k = 0; k < s->nargs; k++)
        if (s->args[k].kind == PA_BUFFER && s->args[k].index == arg->index && !s->args[k].written)
            return false;
    return true;
}

static void extend(Life *l, const ProgStep *steps, const int32_t *loop_of)
{
    for (bool changed = true; changed;) {
        changed = false;
        int32_t ends[2] = {l->first, l->last};
        for (int k = 0; k < 2; k++)
            for (int32_t at = loop_of[ends[k]]; at >= 0; at = loop_of[at]) {
                const ProgStep *s = &steps[at];
                bool inside = l->first >= s->first_step && l->last < s->last_step;
                if (inside && !l->read_first && !l->moves[s->depth]) continue;
                if (l->first > at) l->first = at, changed = true;
                if (l->last < s->last_step - 1) l->last = s->last_step - 1, changed = true;
            }
    }
}

void plan_memory(Arena *a, ProgEntry *e, bool no_reuse)
{
    Life *life = NEW_ARRAY(a, Life, e->nbuffers + 1);
    int32_t *loop_of = NEW_ARRAY(a, int32_t, e->nsteps + 1); // innermost loop step around, -1: none
    for (int32_t i = 0, loop = -1; i < e->nsteps; i++) {
        while (loop >= 0 && i >= e->steps[loop].last_step) loop = loop_of[loop];
        loop_of[i] = loop;
        const ProgStep *s = &e->steps[i];
        for (int32_t k = 0; k < s->nargs; k++) {
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER) continue;
            Life *l = &life[arg->index];
            if (l->loop != loop + 2) { // the first touch in this iteration of this loop
                l->loop = loop + 2;
            } else if (i - 1 - l->touched > idle_length(l) && overwrites(s, arg)) {
                l->idle_first = l->touched + 1;
                l->idle_last = i - 1;
            }
            l->touched = i;
            if (!l->seen) {
                l->first = i;
                l->read_first = !arg->written;
            } else if (l->first == i && !arg->written) {
                l->read_first = true;
            }
            l->seen = true;
            l->last = i;
            for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++)
                l->moves[d] = l->moves[d] || arg->stride[d] != 0;
        }
        if (s->kind == PS_LOOP) loop = i;
    }
    // Steps of one phase run in any order and side by side.
    int32_t *begin = NEW_ARRAY(a, int32_t, e->nsteps + 1),
            *end_of = NEW_ARRAY(a, int32_t, e->nsteps + 1);
    for (int32_t i = 0; i < e->nsteps; i++) begin[i] = end_of[i] = i;
    for (int32_t j = 0; j < e->njoins; j++)
        for (int32_t k = 0, at = e->joins[j].first_step; k < e->joins[j].nphases; k++) {
            int32_t from = at, to = e->joins[j].phase_end[k];
            for (; at < to; at++) begin[at] = from, end_of[at] = to - 1;
        }
    PlanItem *items = NEW_ARRAY(a, PlanItem, e->nbuffers + 1);
    int32_t *buffer = NEW_ARRAY(a, int32_t, e->nbuffers + 1);
    uint32_t n = 0;
    int64_t end = 0;
    for (int32_t i = 0; i < e->nbuffers; i++) {
        ProgBuffer *b = &e->buffers[i];
        if (b->region != PR_ARENA) continue;
        b->offset = 0;
        b->first = b->last = 0;
        if (!life[i].seen) { // nothing touches it
            b->bytes = 0;
            continue;
        }
        extend(&life[i], e->steps, loop_of);
        b->first = no_reuse ? 0 : begin[life[i].first];
        b->last = no_reuse ? e->nsteps - 1 : end_of[life[i].last];
        if (!b->bytes) continue;
        b->offset = end; // each its own place
        end += round_up(b->bytes);
        buffer[n] = i;
        items[n] = (PlanItem){.bytes = b->bytes, .first = b->first, .last = b->last};
        items[n].idle_first = life[i].idle_first;
        items[n++].idle_last = life[i].idle_last;
    }
    e->arena_bytes = end;
    if (no_reuse) return;
    e->arena_bytes = plan_pack(a, items, n);
    for (uint32_t i = 0; i < n; i++) e->buffers[buffer[i]].offset = items[i].offset;
}
