// Simulates a tile program without roles and reports races. The simulation implements the effect of
// each op on memory, and what barriers, groups and waits guarantee on the device; it is independent
// of how sync.c chose them.
//
// One block, or two of a cluster, have two warps of two threads each, which run in a random order.
// An asynchronous copy is visible only after its thread has waited for it. Each thread has a vector
// clock of what it knows about the others; a barrier joins the clocks of all threads that meet
// there. A read must find the value of the intended iteration, by a write that happened before
// according to these clocks; a write must happen after all reads of the old value.
#include <string.h>

#include "codegen/tile/tile.h"

enum { THREADS = 4, BLOCKS = 2, AGENTS = THREADS * BLOCKS, MOST_DEPTH = 3, GROUPS = 64 };
enum { NOTHING = -1, RUNS = 0, WAITS, ENDED };

typedef struct Spot { // a thread's part of a place of a tile
    int64_t holds;    // the iteration that its contents are of
    int writer;       // agent
    int64_t wrote;    // when, by the writer's clock
    bool coming;      // a copy to it has not arrived yet
    int64_t read[AGENTS];
} Spot;

typedef struct Pending { // the destination of a pending copy
    int tile, place;
} Pending;

typedef struct Agent {
    int at, state;
    int loop[MOST_DEPTH], depth;
    int64_t iteration[MOST_DEPTH], trips[MOST_DEPTH];
    int64_t clock[AGENTS];
    uint32_t stored; // the tiles of sums that have been stored, as bits
    // products: per tile of sums; mapped: number of maps run; in: the iteration that registers hold
    int64_t products[TILE_MOST_TILES], mapped, in[TILE_MOST_TILES][TILE_MOST_PLACES];
    Pending pending[GROUPS * 4];
    int group_of[GROUPS * 4], npending, groups; // group_of: number; not committed yet: groups + 1
} Agent;

typedef struct Run {
    Arena *arena;
    const TileProgram *p;
    int blocks;
    int rounds; // how many times loops use the rings
    Agent agent[AGENTS];
    Spot cell[BLOCKS][TILE_MOST_TILES][TILE_MOST_PLACES][THREADS];
    const char *wrong;
} Run;

static void wrong(Run *r, int op, const char *what, const Tile *t, int place)
{
    if (!r->wrong)
        r->wrong = arena_printf(r->arena, "op %d: place %d of %s %s", op, place, t->name, what);
}

static int block_of(int agent)
{
    return agent / THREADS;
}

static bool knows(const Agent *a, int other, int64_t when)
{
    return a->clock[other] >= when;
}

static void write_part(Run *r, int who, int tile, int place, int64_t holds, bool coming)
{
    const TileProgram *p = r->p;
    Agent *a = &r->agent[who];
    const Tile *t = &p->tile[tile];
    Spot *own = &r->cell[block_of(who)][tile][place][who % THREADS];
    for (int o = 0; o < p->ntiles; o++)
        for (int at = 0; tile_shared(&p->tile[o]) && at < p->tile[o].places; at++)
            for (int part = 0; part < THREADS; part++) {
                Spot *c = &r->cell[block_of(who)][o][at][part];
                bool same = o == tile && at == place;
                if (!tile_overlaps(t, place, &p->tile[o], at) || (same && c != own)) continue;
                if (c->coming)
                    wrong(r, a->at, "is overwritten before its copy has arrived", t, place);
                if (c->writer != NOTHING && !knows(a, c->writer, c->wrote))
                    wrong(r, a->at, "is written by two threads at once", t, place);
                for (int other = 0; other < AGENTS; other++)
                    if (other != who && c->read[other] && !knows(a, other, c->read[other]))
                        wrong(r, a->at, "is overwritten while others may read it", t, place);
                if (c != own) *c = (Spot){.holds = NOTHING, .writer = NOTHING};
            }
    *own = (Spot){holds, who, ++a->clock[who], coming, {0}};
}

static void read_part(Run *r, int who, int block, int tile, int place, int part, int64_t want)
{
    Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[tile];
    Spot *c = &r->cell[block][tile][place][part];
    bool gone = block != block_of(who);
    for (int i = 0; i < THREADS; i++) gone &= r->agent[block * THREADS + i].state == ENDED;
    if (gone) wrong(r, a->at, "is read of a block that has ended", t, place);
    if (c->coming)
        wrong(r, a->at, "is read before its copy has arrived", t, place);
    else if (c->holds == NOTHING)
        wrong(r, a->at, "is read before anything is there", t, place);
    else if (!knows(a, c->writer, c->wrote))
        wrong(r, a->at, "is read without a barrier behind its writing", t, place);
    else if (c->holds != want)
        wrong(r, a->at, "is of another iteration than the one read", t, place);
    c->read[who] = ++a->clock[who];
}

static void read_place(Run *r, int who, int tile, int place, int64_t want, bool peers)
{
    bool of_warp = r->p->tile[tile].of_warp;
    for (int block = 0; block < r->blocks; block++)
        for (int part = 0; part < THREADS; part++) {
            if (!peers && block != block_of(who)) continue;
            if (of_warp && part / 2 != who % THREADS / 2) continue;
            read_part(r, who, block, tile, place, part, want);
        }
}

// All committed groups of copies but the last [left] arrive.
static void arrive(Run *r, int who, int left)
{
    Agent *a = &r->agent[who];
    int kept = 0;
    for (int i = 0; i < a->npending; i++) {
        if (a->group_of[i] > a->groups - left) {
            a->pending[kept] = a->pending[i];
            a->group_of[kept++] = a->group_of[i];
            continue;
        }
        Spot *c = &r->cell[block_of(who)][a->pending[i].tile][a->pending[i].place][who % THREADS];
        c->coming = false;
        c->wrote = ++a->clock[who];
    }
    a->npending = kept;
}

// Whether two agents meet at a barrier of that scope. The threads of a warp, warps of a block and
// blocks have consecutive numbers.
static bool meets(TileScope scope, int a, int b)
{
    int apart = scope == OF_WARP ? 2 : scope == OF_BLOCK ? THREADS : AGENTS;
    return a / apart == b / apart;
}

// If all agents that meet at the barrier of agent [who] have come, they go on, with joined clocks.
static void release(Run *r, int who)
{
    const TileOp *op = &r->p->op[r->agent[who].at];
    int n = r->blocks * THREADS;
    int64_t known[AGENTS] = {0};
    for (int i = 0; i < n; i++) {
        const Agent *a = &r->agent[i];
        if (!meets(op->scope, i, who)) continue;
        if (a->state != WAITS || a->at != r->agent[who].at) return;
        for (int k = 0; k < AGENTS; k++)
            if (a->clock[k] > known[k]) known[k] = a->clock[k];
    }
    for (int i = 0; i < n; i++) {
        Agent *a = &r->agent[i];
        if (!meets(op->scope, i, who)) continue;
        memcpy(a->clock, known, sizeof known);
        a->state = RUNS;
        a->at++;
    }
}

static void multiply(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    for (int side = 0; side < 2; side++) {
        int t = side ? op->b : op->a;
        const Tile *from = &r->p->tile[t];
        if (!tile_shared(from) && a->in[t][0] != about)
            wrong(r, a->at, "does not hold what is multiplied", from, 0);
        if (tile_shared(from))
            read_place(r, who, t, tile_place(from, about), from->stays ? 0 : about, false);
    }
    if (r->p->tile[op->dst].layout == L_SCORES) {
        a->in[op->dst][0] = about;
        return;
    }
    if (a->depth == 0 || r->p->op[a->loop[a->depth - 1]].trips != r->p->steps)
        wrong(r, a->at, "does not get all products", &r->p->tile[op->dst], 0);
    if (a->products[op->dst] != about)
        wrong(r, a->at, "has not had the products before this one", &r->p->tile[op->dst], 0);
    a->products[op->dst]++;
}

// Which of its places in registers an operand of that iteration has: 0, except in a loop that loads
// several iterations together.
static int registers_of(const Run *r, const Agent *a, int64_t about)
{
    int together = a->depth ? r->p->op[a->loop[a->depth - 1]].together : 0;
    return together ? (int)(about % together) : 0;
}

// Checks, when sums are stored, that they are complete.
static void all_there(Run *r, int who, const Tile *sums)
{
    const Agent *a = &r->agent[who];
    if (a->products[sums - r->p->tile] != tile_iterations(r->p, r->p->steps, r->rounds))
        wrong(r, a->at, "is stored without some products", sums, 0);
}

static void move(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    const Tile *from = &r->p->tile[op->a], *to = &r->p->tile[op->dst];
    if (from->layout == L_SUMS) {
        all_there(r, who, from);
        a->stored |= 1u << op->a;
    } else if (a->in[op->a][registers_of(r, a, about)] != about) {
        wrong(r, a->at, "does not hold what is moved", from, registers_of(r, a, about));
    }
    write_part(r, who, op->dst, tile_place(to, about), about, false);
}

static void load(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[op->dst];
    int place = tile_place(t, about);
    if (op->how == BY_BODY) {
        a->in[op->dst][registers_of(r, a, about)] = about;
        return;
    }
    write_part(r, who, op->dst, place, about, true);
    if (a->npending == GROUPS * 4) {
        wrong(r, a->at, "is copied without end", t, place);
        return;
    }
    a->pending[a->npending] = (Pending){op->dst, place};
    a->group_of[a->npending++] = a->groups + 1;
}

// The scores of an iteration become its weights.
static void weigh(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    for (int side = 0; side < 2; side++) {
        int t = side ? op->b : op->a;
        if (t >= 0 && a->in[t][0] != about)
            wrong(r, a->at, "is not of this iteration", &r->p->tile[t], 0);
    }
    for (int t = 0; t < r->p->ntiles; t++)
        if (r->p->tile[t].layout == L_WEIGHTS) a->in[t][0] = about;
}

static void begin_loop(Run *r, Agent *a, const TileOp *op)
{
    int64_t n = tile_iterations(r->p, op->trips, r->rounds);
    if (n == 0 || a->depth == MOST_DEPTH) {
        while (r->p->op[a->at].kind != T_END) a->at++;
    } else {
        a->loop[a->depth] = a->at;
        a->trips[a->depth] = n;
        a->iteration[a->depth++] = -op->early;
    }
    a->at++;
}

static void end_loop(Agent *a)
{
    int at = a->depth - 1;
    if (++a->iteration[at] < a->trips[at]) {
        a->at = a->loop[at] + 1;
        return;
    }
    a->depth--;
    a->at++;
}

static void step(Run *r, int who)
{
    Agent *a = &r->agent[who];
    const TileOp *op = &r->p->op[a->at];
    bool inside = a->depth > 0;
    int64_t about = (inside ? a->iteration[a->depth - 1] : 0) + op->shift;
    bool left_out = about < 0 || (op->shift && (!inside || about >= a->trips[a->depth - 1]));
    switch (op->kind) {
    case T_LOOP: begin_loop(r, a, op); return;
    case T_END: end_loop(a); return;
    case T_BARRIER:
        a->state = WAITS;
        release(r, who);
        return;
    case T_WAIT: arrive(r, who, op->count); break;
    case T_COMMIT: a->groups++; break;
    case T_FILL: a->products[op->dst] = 0; break;
    case T_LOAD:
        if (!left_out) load(r, who, op, about);
        break;
    case T_MOVE:
        if (!left_out) move(r, who, op, about);
        break;
    case T_MMA:
        if (!left_out) multiply(r, who, op, about);
        break;
    case T_MAP:
        if (op->dst >= 0) {
            weigh(r, who, op, about);
            break;
        }
        if (tile_shared(&r->p->tile[op->a]))
            read_place(r, who, op->a, 0, about, r->blocks > 1);
        else
            all_there(r, who, &r->p->tile[op->a]);
        a->stored |= 1u << op->a;
        a->mapped++;
        break;
    default: break; // ops of programs with roles
    }
    a->at++;
}

// The number of parts in which a warp stores its results.
static int64_t parts(const TileProgram *p, const Tile *sums)
{
    return sums->of_warp ? p->side_m / (sums->lines / (p->warps_m * p->warps_n)) : 1;
}

static void check_end(Run *r, int who) // a block's memory is freed when its last thread ends
{
    int block = block_of(who);
    for (int t = 0; t < r->p->ntiles; t++) {
        const Tile *sums = &r->p->tile[t];
        if (sums->layout == L_SUMS && !(r->agent[who].stored >> t & 1))
            wrong(r, r->p->nops, "is not stored", sums, 0);
        if (sums->layout == L_ROWS &&
            r->agent[who].mapped != tile_iterations(r->p, parts(r->p, sums), r->rounds))
            wrong(r, r->p->nops, "is not stored as often as there are parts of it", sums, 0);
    }
    int64_t known[AGENTS] = {0};
    for (int i = 0; i < THREADS; i++) {
        const Agent *a = &r->agent[block * THREADS + i];
        if (a->state != ENDED) return;
        for (int k = 0; k < AGENTS; k++)
            if (a->clock[k] > known[k]) known[k] = a->clock[k];
    }
    for (int t = 0; t < r->p->ntiles; t++)
        for (int at = 0; at < r->p->tile[t].places; at++)
            for (int part = 0; part < THREADS; part++)
                for (int k = 0; k < r->blocks * THREADS; k++)
                    if (r->cell[block][t][at][part].read[k] > known[k])
                        wrong(r, r->p->nops, "is read by a block while its own ends",
                              &r->p->tile[t], at);
}

// Runs the program in one order, with loops that use the rings [rounds] times.
static const char *run(Run *r, int rounds, uint64_t seed)
{
    const TileProgram *p = r->p;
    int n = r->blocks * THREADS;
    r->rounds = rounds;
    memset(r->agent, 0, sizeof r->agent);
    for (int b = 0; b < BLOCKS; b++)
        for (int t = 0; t < TILE_MOST_TILES; t++)
            for (int at = 0; at < TILE_MOST_PLACES; at++)
                for (int i = 0; i < THREADS; i++)
                    r->cell[b][t][at][i] = (Spot){.holds = NOTHING, .writer = NOTHING};
    for (int i = 0; i < n; i++) {
        r->agent[i].clock[i] = 1;
        memset(r->agent[i].products, 0xff, sizeof r->agent[i].products);
        memset(r->agent[i].in, 0xff, sizeof r->agent[i].in);
    }
    for (int left = n; left && !r->wrong;) {
        int able[AGENTS], count = 0;
        for (int i = 0; i < n; i++)
            if (r->agent[i].state == RUNS) able[count++] = i;
        if (!count) return "not all threads come to a barrier that others wait at";
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        int who = able[(seed >> 33) % (uint64_t)count];
        // The same agent continues for a while, as warps do.
        for (uint64_t go = seed >> 60; go-- + 1 > 0 && !r->wrong;) {
            Agent *a = &r->agent[who];
            if (a->state != RUNS) break;
            if (a->at < p->nops) {
                step(r, who);
                continue;
            }
            a->state = ENDED;
            left--;
            check_end(r, who);
        }
    }
    return r->wrong;
}

const char *tile_verify(Arena *a, const TileProgram *p, uint64_t seed)
{
    if (p->nroles) return tile_verify_roles(a, p, seed);
    Run *r = NEW(a, Run);
    r->arena = a;
    r->p = p;
    r->blocks = p->cluster > 1 ? BLOCKS : 1;
    const char *found = NULL;
    for (int rounds = 2; rounds <= 3 && !found; rounds++) found = run(r, rounds, seed);
    return found;
}
