// Synchronisation of a tile program with roles whose scores stay in registers: attention.
//
// It works as in sync_roles.c, but each tile in shared memory has its own mbarriers "full" and
// "empty", because tiles are filled and released at different points; tiles released at the same
// points share them. Products are asynchronous and complete in order, each as a group. The waits
// are found by simulating the role's ops with 1 to MOST_STEPS steps:
//
//     product -> threads that use its sums       a wait until at most n groups are pending, where n
//                                                is the least number of products after it on any
//                                                path
//     product -> threads that write its left     likewise
//         operand in registers
//     threads -> product                         a fence of the tensor cores (wgmma.fence)
//     product -> bulk copy                       an arrival at "empty", as soon as the last product
//                                                that reads the place is known to have completed
//     threads that judge -> all threads          a barrier of the block that tells whether any
//                                                doubted
#include "codegen/tile/sync.h"

enum { MOST_EVENTS = 160, MOST_STEPS = 4, NONE = -1 };

typedef struct Event { // one execution of an op
    int op;
    int64_t step; // the iteration of its loop; before the loop: 0; after it: the number of steps
} Event;

// The ops before which the last product that reads a place of a tile is known to have completed,
// and which place that is (TileOp.shift).
typedef struct Release {
    bool known[TILE_MOST_OPS];
    int shift[TILE_MOST_OPS];
} Release;

typedef struct Scores {
    Sync *s;
    TileProgram *from, *p; // as in Sync
    Release release[TILE_MOST_TILES];
    int wait[TILE_MOST_OPS]; // how many groups may be pending before the op; NONE: any number
    int begin, end;          // the ops of the role that multiplies
    Event event[MOST_EVENTS];
    int n;
} Scores;

static bool is_product(const TileOp *op)
{
    return op->kind == T_MMA;
}

static int full_of(const TileProgram *p, int tile) // the bar's number; "empty" is the next one
{
    for (int i = 0; i < p->nbars; i += 2)
        if (p->bar[i].tiles >> tile & 1) return i;
    return NONE;
}

// -- simulation -----------------------------------------------------------------------------------

// The loop over steps around the op, or NONE.
static int loop_around(const TileProgram *p, int i)
{
    for (int k = i; k >= 0 && p->op[k].kind != T_TILES; k--)
        if (p->op[k].kind == T_LOOP && tile_end_of(p, k) > i) return k;
    return NONE;
}

static void run(Scores *s, int64_t steps)
{
    const TileProgram *p = s->from;
    int64_t at = 0;
    s->n = 0;
    for (int i = s->begin; i < s->end; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) {
            int end = tile_end_of(p, i);
            for (at = -op->early > 0 ? -op->early : 0; at < steps; at++)
                for (int k = i + 1; k < end; k++) s->event[s->n++] = (Event){k, at};
            at = steps;
            i = end;
        } else if (op->kind < T_LOOP || op->kind > T_TILES) {
            s->event[s->n++] = (Event){i, at};
        }
    }
}

// Whether threads read or write a tile in registers in the op.
static bool touches(const TileOp *op, int tile)
{
    return !is_product(op) && (op->dst == tile || op->a == tile || op->b == tile);
}

static bool writes(const TileOp *op, int tile)
{
    return !is_product(op) && op->dst == tile;
}

// Whether the op has to wait for the product.
static bool waits_for(const TileProgram *p, const TileOp *op, const TileOp *product)
{
    if (is_product(op))
        return p->tight && p->tile[op->dst].layout == L_SCORES &&
               p->tile[product->dst].layout == L_SUMS;
    bool stores = op->kind == T_MAP && op->dst < 0; // results wait for the products of all results
    return touches(op, product->dst) || (stores && p->tile[product->dst].layout == L_SUMS) ||
           (!tile_shared(&p->tile[product->a]) && writes(op, product->a));
}

// The number of groups of products between two events.
static int between(const Scores *s, int from, int to)
{
    int n = 0;
    for (int i = from + 1; i < to; i++) n += is_product(&s->from->op[s->event[i].op]);
    return n;
}

// Whether the product at [from] is known to have completed before event [to], by the waits found so
// far.
static bool done_before(const Scores *s, int from, int to)
{
    for (int i = from + 1; i <= to; i++) {
        int count = s->wait[s->event[i].op];
        if (count != NONE && between(s, from, i) >= count) return true;
    }
    return false;
}

// -- waits ----------------------------------------------------------------------------------------

static void find_waits(Scores *s)
{
    const TileProgram *p = s->from;
    for (int i = 0; i < p->nops; i++) s->wait[i] = NONE;
    // In program order: what one op has waited for, later ops need not wait for again.
    for (int op = s->begin; op < s->end; op++) {
        int least = NONE;
        for (int64_t steps = 1; steps <= MOST_STEPS; steps++) {
            run(s, steps);
            for (int to = 0; to < s->n; to++)
                for (int from = 0; from < to && s->event[to].op == op; from++) {
                    const TileOp *product = &p->op[s->event[from].op];
                    if (!is_product(product) || !waits_for(p, &p->op[op], product) ||
                        done_before(s, from, to))
                        continue;
                    int count = between(s, from, to);
                    if (least == NONE || count < least) least = count;
                }
        }
        s->wait[op] = least;
    }
    for (int op = s->begin; op < s->end; op++)
        if (s->wait[op] != NONE)
            sync_before(s->s, op, (TileOp){T_WAIT, BY_TENSOR, .count = s->wait[op]});
}

// -- places ---------------------------------------------------------------------------------------

// The place of the tiles' ring that a product reads, counted from the first one of this tile of
// rows; NONE: it reads none of the tiles.
static int64_t reads(const TileProgram *p, const Event *e, uint32_t tiles)
{
    const TileOp *op = &p->op[e->op];
    uint32_t own = is_product(op) ? (1u << op->a | 1u << op->b) & tiles : 0;
    if (!own) return NONE;
    return p->tile[op->a].stays && 1u << op->a & tiles ? 0 : e->step + op->shift;
}

static void find_release(Scores *s, int tile)
{
    const TileProgram *p = s->from;
    const bool stays = p->tile[tile].stays;
    int behind = NONE; // the op after the last loop that reads a tile that stays
    for (int64_t steps = 1; steps <= MOST_STEPS; steps++) {
        run(s, steps);
        for (int i = 0; i < s->n; i++) {
            int64_t place = reads(p, &s->event[i], 1u << tile);
            bool last = place != NONE;
            for (int k = i + 1; k < s->n; k++) last &= reads(p, &s->event[k], 1u << tile) != place;
            if (place != NONE && loop_around(p, s->event[i].op) != NONE)
                behind = tile_end_of(p, loop_around(p, s->event[i].op)) + 1;
            for (int k = i + 1; k < s->n && last && !stays; k++) {
                if (!done_before(s, i, k)) continue;
                s->release[tile].known[s->event[k].op] = true;
                s->release[tile].shift[s->event[k].op] = (int)(place - s->event[k].step);
                break;
            }
        }
    }
    if (stays) s->release[tile].known[behind] = true;
}

static bool together(const Scores *s, int t, int u)
{
    const Release *x = &s->release[t], *y = &s->release[u];
    for (int i = 0; i < s->from->nops; i++)
        if (x->known[i] != y->known[i] || (x->known[i] && x->shift[i] != y->shift[i])) return false;
    return s->from->tile[t].stays == s->from->tile[u].stays;
}

// Adds two mbarriers for each ring of tiles that are released together.
static void add_bars(Scores *s)
{
    static const char *const names[][2] = {
        {"full_0", "empty_0"}, {"full_1", "empty_1"}, {"full_2", "empty_2"}, {"full_3", "empty_3"}};
    TileProgram *p = s->p;
    uint32_t seen = 0;
    for (int t = 0; t < p->ntiles; t++) {
        TileBar bar = {.places = p->tile[t].places, .arrivals = 1};
        for (int u = t; u < p->ntiles && tile_shared(&p->tile[t]) && !(seen >> t & 1); u++)
            if (tile_shared(&p->tile[u]) && together(s, t, u)) {
                bar.tiles |= 1u << u;
                bar.bytes += p->tile[u].bytes;
            }
        seen |= bar.tiles;
        for (int i = 0; i < 2 && bar.tiles; i++) {
            bar.name = names[p->nbars / 2][i];
            p->bar[p->nbars++] = bar;
            bar.arrivals = p->role[p->nroles - 1].warps;
        }
    }
}

// The first load into a place waits until the place is free.
static void guard_loads(Scores *s)
{
    TileProgram *p = s->from;
    uint32_t seen = 0;
    for (int i = 0; i < p->nops; i++) {
        if (p->op[i].kind != T_LOAD) continue;
        int full = full_of(s->p, p->op[i].dst);
        uint32_t tiles = s->p->bar[full].tiles;
        p->op[i].bar = full;
        if (seen & tiles) continue;
        seen |= tiles;
        sync_before(s->s, i, (TileOp){T_AWAIT, .bar = full + 1, .count = 1, .freed = tiles});
        sync_before(s->s, i, (TileOp){T_ANNOUNCE, .bar = full, .filled = tiles});
    }
}

// Inserts the wait for a filled place: before the first product that reads it, or, if the tile
// stays, before the loop around that product.
static void await(Scores *s, int full)
{
    const TileProgram *p = s->from;
    const uint32_t tiles = s->p->bar[full].tiles;
    bool first[TILE_MOST_OPS] = {false};
    for (int64_t steps = 1; steps <= MOST_STEPS; steps++) {
        run(s, steps);
        for (int i = 0; i < s->n; i++) {
            int64_t place = reads(p, &s->event[i], tiles);
            bool before = place == NONE;
            for (int k = 0; k < i; k++)
                before |= place != NONE && reads(p, &s->event[k], tiles) == place;
            if (!before) first[s->event[i].op] = true;
        }
    }
    for (int i = 0; i < p->nops; i++) {
        if (!first[i]) continue;
        int loop = loop_around(p, i), shift = p->op[i].shift;
        bool stays = false;
        for (int t = 0; t < p->ntiles; t++) stays |= tiles >> t & 1 && p->tile[t].stays;
        sync_before(s->s, stays && loop != NONE ? loop : i,
                    (TileOp){T_AWAIT, .bar = full, .filled = tiles, .shift = shift});
    }
}

static void give_back(Scores *s, int full)
{
    const Release *r = &s->release[__builtin_ctz(s->p->bar[full].tiles)];
    for (int i = 0; i < s->from->nops; i++)
        if (r->known[i])
            sync_before(s->s, i, (TileOp){T_ARRIVE, .bar = full + 1, .shift = r->shift[i]});
}

// -------------------------------------------------------------------------------------------------

// The barrier after which all threads know whether to run everything again.
static void tell_doubts(Scores *s)
{
    const TileProgram *p = s->from;
    for (int i = 0; i < p->nops; i++)
        if (p->op[i].kind == T_AGAIN)
            sync_before(s->s, tile_end_of(p, i),
                        (TileOp){T_BARRIER, .scope = OF_BLOCK, .when = THE_FIRST});
}

void tile_synchronise_scores(TileProgram *p)
{
    Sync inserted;
    sync_begin(&inserted, p);
    sync_before(&inserted, 0, (TileOp){.kind = T_READY});
    Scores s = {.s = &inserted, .from = &inserted.from, .p = p, .end = inserted.from.nops};
    for (int i = 0; i < s.end; i++)
        if (s.from->op[i].kind == T_ROLE) s.begin = i;
    find_waits(&s);
    for (int t = 0; t < p->ntiles; t++)
        if (tile_shared(&p->tile[t])) find_release(&s, t);
    add_bars(&s);
    guard_loads(&s);
    for (int i = 0; i < p->nbars; i += 2) {
        await(&s, i);
        give_back(&s, i);
    }
    tell_doubts(&s);
    for (int i = s.begin; i < s.end; i++)
        if (is_product(&s.from->op[i])) sync_product(&inserted, i);
    sync_end(&inserted);
}
