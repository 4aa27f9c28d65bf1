// Runs a tile program with roles and reports what goes wrong. It knows what each op does to memory,
// and what mbarriers, fences and waits mean on the device; nothing of why the program has them
// (sync_roles.c).
//
// Two blocks of a cluster, or one, have every warp that the program names, with two threads each,
// which go on in a random order. A bulk copy arrives at any time after it has begun; products, and
// bulk stores, read until their thread has waited for them. Each thread keeps what it knows of the
// others, as a vector of clocks: a barrier tells what all who arrived there knew. Memory that is
// read must hold what the program means it to, by a write that is known; what is overwritten must
// not be read any more, and that must be known. What threads write, asynchronous reads see behind
// that thread's fence only.
#include <string.h>

#include "codegen/tile/tile.h"

enum { LANES = 2, BLOCKS = 2, BLOCK_AGENTS = 24, AGENTS = BLOCKS * BLOCK_AGENTS };
enum { MOST_PENDING = 64, MOST_GROUPS = 2, NOTHING = -1, STEP = 64 };
// What is known: of each agent a time, of each mbarrier how many of its phases have ended.
enum { CLOCKS = AGENTS + BLOCKS * TILE_MOST_BARS * TILE_MOST_PLACES };

typedef struct Spot { // a part of a place of a tile
    int64_t holds;    // which of the ring's places in order, or of the results
    int writer;       // agent
    int wrote;        // when, by the writer's clock
    bool coming;      // a copy that has not arrived
    bool raw;         // threads wrote it, and have not fenced that
    int read[AGENTS];
    bool reading[AGENTS]; // asynchronously
} Spot;

typedef struct Bar {
    int phase, arrived; // phase: those that have ended
    int64_t bytes;      // announced and not there yet
    int open[CLOCKS], closed[CLOCKS], touched[AGENTS];
} Bar;

typedef struct Meeting { // at a barrier of threads
    int there, at;
    bool came[AGENTS], stays[AGENTS];
    int known[CLOCKS];
} Meeting;

typedef struct Copy {
    int block, tile, place, bar, share; // share: of which block's; NOTHING: all of it
    int64_t bytes;
    int known[CLOCKS];
} Copy;

typedef struct Pending { // an asynchronous read of a cell
    int cell, group;
} Pending;

typedef struct Reads { // by products, or by bulk stores
    Pending at[MOST_PENDING];
    int n, groups;
} Reads;

typedef struct Agent {
    int block, role, warp, lane, group; // warp: of the role
    int at;
    bool waits, ended, ready;
    int loop;                                // the one it is in, or NOTHING
    int64_t iteration;                       // of it
    int64_t tile;                            // NOTHING: in none
    bool passed;                             // the loop over the ring is behind it
    bool begun;                              // products may write its sums
    int64_t products, mapped, boxed, stored; // boxed: mapped to shared memory
    int clock[CLOCKS];
    Reads by_products, by_stores;
} Agent;

typedef struct Run {
    Arena *arena;
    const TileProgram *p;
    int blocks, nagents, agents_a_block;
    int64_t tiles, steps;
    int begin[TILE_MOST_TILES], parts[TILE_MOST_TILES], ncells; // cells of a tile, in a block
    Spot *cell;
    Agent *agent;
    Bar bar[BLOCKS][TILE_MOST_BARS][TILE_MOST_PLACES];
    Meeting warp[AGENTS], group[BLOCKS][MOST_GROUPS], turn[BLOCKS][MOST_GROUPS], cluster;
    Copy copy[MOST_PENDING];
    int ncopies;
    const char *wrong;
} Run;

static void wrong(Run *r, int op, const char *what, const char *name)
{
    if (!r->wrong) r->wrong = arena_printf(r->arena, "op %d: %s %s", op, name, what);
}

static void learn(int *to, const int *from)
{
    for (int i = 0; i < CLOCKS; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

static int tick(Run *r, int who)
{
    return ++r->agent[who].clock[who];
}

static const TileRole *role_of(const Run *r, const Agent *a)
{
    return &r->p->role[a->role];
}

// -- memory ---------------------------------------------------------------------------------------

static int cell_number(const Run *r, int block, int tile, int place, int part)
{
    return block * r->ncells + r->begin[tile] + place * r->parts[tile] + part;
}

// Whether the agent's group multiplies that part.
static bool own_half(const Run *r, const Agent *a, int tile, int part)
{
    return !r->p->tile[tile].of_group || part * 2 / r->parts[tile] == a->group;
}

static void check_overwrite(Run *r, int who, const Spot *c, const char *name)
{
    const Agent *a = &r->agent[who];
    if (c->coming) wrong(r, a->at, "is overwritten before its copy has arrived", name);
    if (c->writer != NOTHING && c->writer != who && a->clock[c->writer] < c->wrote)
        wrong(r, a->at, "is written by two at once", name);
    for (int i = 0; i < r->nagents; i++) {
        if (c->reading[i]) wrong(r, a->at, "is overwritten while it is read", name);
        if (i != who && c->read[i] > a->clock[i])
            wrong(r, a->at, "is overwritten while others may read it", name);
    }
}

static void check_read(Run *r, int who, const Spot *c, int64_t want, bool asynchronous,
                       const char *name)
{
    const Agent *a = &r->agent[who];
    if (c->coming)
        wrong(r, a->at, "is read before its copy has arrived", name);
    else if (c->holds == NOTHING)
        wrong(r, a->at, "is read before anything is there", name);
    else if (c->writer != who && a->clock[c->writer] < c->wrote)
        wrong(r, a->at, "is read without waiting for its writing", name);
    else if (c->holds != want)
        wrong(r, a->at, "is of another step than the one read", name);
    else if (asynchronous && c->raw)
        wrong(r, a->at, "is read asynchronously without a fence behind its writing", name);
}

static void read_later(Run *r, int who, Reads *by, int number)
{
    if (by->n == MOST_PENDING) {
        wrong(r, r->agent[who].at, "is read without end", "memory");
        return;
    }
    r->cell[number].reading[who] = true;
    by->at[by->n++] = (Pending){number, by->groups + 1};
}

// Reads of all groups but the last [left] are over.
static void finish(Run *r, int who, Reads *by, int left)
{
    int kept = 0;
    for (int i = 0; i < by->n; i++) {
        if (by->at[i].group > by->groups - left) {
            by->at[kept++] = by->at[i];
            continue;
        }
        Spot *c = &r->cell[by->at[i].cell];
        c->reading[who] = false;
        c->read[who] = tick(r, who);
    }
    by->n = kept;
}

// -- mbarriers ------------------------------------------------------------------------------------

static Bar *bar_at(Run *r, int block, int bar, int64_t position)
{
    return &r->bar[block][bar][position % r->p->bar[bar].places];
}

static void end_phase(Run *r, Bar *b, int bar)
{
    if (b->arrived < r->p->bar[bar].arrivals || b->bytes) return;
    b->open[AGENTS + (b - &r->bar[0][0][0])] = ++b->phase;
    b->arrived = 0;
    memcpy(b->closed, b->open, sizeof b->open);
}

static void arrive(Run *r, int who, int block, int bar, int64_t position, int64_t bytes)
{
    Agent *a = &r->agent[who];
    Bar *b = bar_at(r, block, bar, position);
    if (!a->ready) wrong(r, a->at, "is used before it is set up", r->p->bar[bar].name);
    b->bytes += bytes;
    b->touched[who] = tick(r, who);
    learn(b->open, a->clock);
    if (++b->arrived > r->p->bar[bar].arrivals)
        wrong(r, a->at, "gets more arrivals than it waits for", r->p->bar[bar].name);
    end_phase(r, b, bar);
}

// What the parity says: the phase is not the one before.
static bool phase_ended(Run *r, const Agent *a, const TileOp *op, int64_t position)
{
    const Bar *b = bar_at(r, a->block, op->bar, position);
    int64_t phase = position / r->p->bar[op->bar].places - op->count;
    return (b->phase - 1 - phase) % 2 == 0;
}

static void await(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const Bar *b = bar_at(r, a->block, op->bar, position);
    int64_t before = position / r->p->bar[op->bar].places - op->count; // phases
    if (!a->ready) wrong(r, a->at, "is used before it is set up", r->p->bar[op->bar].name);
    if (a->clock[AGENTS + (b - &r->bar[0][0][0])] < before)
        wrong(r, a->at, "is of the phase before, for all that this thread knows",
              r->p->bar[op->bar].name);
    learn(a->clock, b->closed);
}

static void copy_arrives(Run *r, int i)
{
    Copy c = r->copy[i];
    r->copy[i] = r->copy[--r->ncopies];
    for (int part = 0; part < r->parts[c.tile]; part++)
        if (c.share < 0 || part % BLOCKS == c.share)
            r->cell[cell_number(r, c.block, c.tile, c.place, part)].coming = false;
    Bar *b = &r->bar[c.block][c.bar][c.place];
    learn(b->open, c.known);
    b->bytes -= c.bytes;
    end_phase(r, b, c.bar);
}

// -- ops ------------------------------------------------------------------------------------------

static void load(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[op->dst];
    int place = tile_place(t, position);
    bool shared = t->peers && r->blocks > 1;
    if (!(r->p->bar[op->bar].tiles >> op->dst & 1))
        wrong(r, a->at, "does not count its bytes", r->p->bar[op->bar].name);
    for (int block = 0; block < r->blocks; block++) {
        if (!shared && block != a->block) continue;
        int when = tick(r, who);
        for (int part = 0; part < r->parts[op->dst]; part++) {
            Spot *c = &r->cell[cell_number(r, block, op->dst, place, part)];
            if (shared && part % BLOCKS != a->block) continue;
            check_overwrite(r, who, c, t->name);
            *c = (Spot){.holds = position, .writer = who, .wrote = when, .coming = true};
        }
        if (r->ncopies == MOST_PENDING) {
            wrong(r, a->at, "is copied without end", t->name);
            return;
        }
        Copy *c = &r->copy[r->ncopies++];
        *c = (Copy){block, op->dst, place, op->bar, shared ? a->block : NOTHING, 0, {0}};
        c->bytes = t->bytes / (shared ? r->blocks : 1);
        memcpy(c->known, a->clock, sizeof a->clock);
    }
}

// An operand that a group multiplies, or whose rows are added up: who also reads it later.
static void read_place(Run *r, int who, int tile, int64_t position, Reads *later)
{
    const Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[tile];
    for (int part = 0; part < r->parts[tile]; part++) {
        int number = cell_number(r, a->block, tile, tile_place(t, position), part);
        if (!own_half(r, a, tile, part)) continue;
        check_read(r, who, &r->cell[number], position, later, t->name);
        if (later)
            read_later(r, who, later, number);
        else
            r->cell[number].read[who] = tick(r, who);
    }
}

static void clear(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[op->dst];
    for (int part = 0; part < r->parts[op->dst]; part++) {
        Spot *c = &r->cell[cell_number(r, a->block, op->dst, tile_place(t, position), part)];
        if (!own_half(r, a, op->dst, part)) continue;
        if (part % (GROUP_WARPS * LANES) != a->warp % GROUP_WARPS * LANES + a->lane) continue;
        check_read(r, who, c, position, false, t->name);
        check_overwrite(r, who, c, t->name);
        c->writer = who;
        c->wrote = tick(r, who);
        c->raw = true;
    }
}

static void multiply(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const char *sums = r->p->tile[op->dst].name;
    if (!a->begun) wrong(r, a->at, "may still be in use by threads", sums);
    if (a->products != a->iteration)
        wrong(r, a->at, "has not had the products before this one", sums);
    a->products++;
    read_place(r, who, op->a, position, &a->by_products);
    read_place(r, who, op->b, position, &a->by_products);
}

// Where results of this iteration lie, and their number.
static int box_cell(const Run *r, const Agent *a, int tile, int lane)
{
    int place = tile_place(&r->p->tile[tile], a->iteration);
    return cell_number(r, a->block, tile, place, a->warp * LANES + lane);
}

static int64_t parts_of(const TileProgram *p) // of a group's sums
{
    return (int64_t)(p->side_m / p->atom->m) * (p->side_n / STEP);
}

static void map(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    if (!role_of(r, a)->groups) { // sums of rows
        if (a->products != 1) wrong(r, a->at, "is not there", r->p->tile[op->a].name);
        a->products = 0;
        return;
    }
    if (a->by_products.n || a->products != r->steps)
        wrong(r, a->at, "is read before all products are done", r->p->tile[op->a].name);
    if (a->mapped++ != a->iteration)
        wrong(r, a->at, "is not read part by part", r->p->tile[op->a].name);
    a->begun = false;
    if (op->dst < 0) return;
    a->boxed++;
    Spot *c = &r->cell[box_cell(r, a, op->dst, a->lane)];
    check_overwrite(r, who, c, r->p->tile[op->dst].name);
    *c = (Spot){.holds = a->tile * parts_of(r->p) + a->iteration,
                .writer = who,
                .wrote = tick(r, who),
                .raw = true};
}

static void store(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    if (a->lane) return; // one thread of a warp
    a->stored++;
    for (int lane = 0; lane < LANES; lane++) {
        int number = box_cell(r, a, op->a, lane);
        check_read(r, who, &r->cell[number], a->tile * parts_of(r->p) + a->iteration, true,
                   r->p->tile[op->a].name);
        read_later(r, who, &a->by_stores, number);
    }
}

static void fence(Run *r, int who)
{
    int when = tick(r, who);
    for (int i = 0; i < r->blocks * r->ncells; i++) {
        Spot *c = &r->cell[i];
        if (c->writer != who || !c->raw) continue;
        c->raw = false;
        c->wrote = when;
    }
}

// -- meetings -------------------------------------------------------------------------------------

// The agent comes, and does or does not stay until [all] are there. at: of that op; NOTHING:
// several.
static void come(Run *r, int who, Meeting *m, int all, bool stays, int at)
{
    Agent *a = &r->agent[who];
    if (m->there == 0) *m = (Meeting){.at = at};
    if (m->at != at) wrong(r, a->at, "come to another barrier than others", "threads");
    if (m->came[who]) wrong(r, a->at, "come twice to a barrier", "threads");
    m->came[who] = true;
    learn(m->known, a->clock);
    a->waits = m->stays[who] = stays;
    if (!stays) a->at++;
    if (++m->there < all) return;
    for (int i = 0; i < r->nagents; i++) {
        Agent *o = &r->agent[i];
        if (!m->stays[i]) continue;
        learn(o->clock, m->known);
        o->waits = false;
        o->at++;
    }
    m->there = 0;
}

static void meet(Run *r, int who, TileScope scope)
{
    Agent *a = &r->agent[who];
    if (scope == OF_CLUSTER)
        come(r, who, &r->cluster, r->nagents, true, a->at);
    else if (scope == OF_WARP && !role_of(r, a)->thread)
        come(r, who, &r->warp[who - a->lane], LANES, true, a->at);
    else if (scope == OF_GROUP && role_of(r, a)->groups)
        come(r, who, &r->group[a->block][a->group], GROUP_WARPS * LANES, true, a->at);
    else
        wrong(r, a->at, "is one that not all come to", "a barrier");
}

// The turn of tile [about]: its group waits, the one before does not.
static void turn(Run *r, int who, int64_t about, bool stays)
{
    Agent *a = &r->agent[who];
    int groups = role_of(r, a)->groups;
    come(r, who, &r->turn[a->block][about % groups], groups * GROUP_WARPS * LANES, stays, NOTHING);
}

// -- control --------------------------------------------------------------------------------------

static int end_of(const TileProgram *p, int i)
{
    for (int depth = 0;; i++) {
        depth += p->op[i].kind == T_LOOP || p->op[i].kind == T_TILES;
        depth -= p->op[i].kind == T_END;
        if (!depth) return i;
    }
}

static bool over_ring(const TileProgram *p, int loop)
{
    for (int i = loop; p->op[i].kind != T_END; i++)
        if (p->op[i].kind == T_AWAIT) return true;
    return false;
}

// So many steps show what all of them do: each place is passed, and the last step has the place and
// the parity that it has of all of them.
static int64_t steps_of(const TileProgram *p, int64_t steps)
{
    int64_t round = p->tile[0].places;
    return steps < 3 * round ? steps : (steps - round) % (2 * round) + round;
}

static int64_t trips_of(const Run *r, const Agent *a)
{
    int64_t trips = r->p->op[a->loop].trips;
    return over_ring(r->p, a->loop) ? steps_of(r->p, trips) : trips;
}

static void next_tile(Run *r, Agent *a, int tiles, bool first)
{
    const TileRole *role = role_of(r, a);
    const TileProgram *p = r->p;
    if (!first && role->groups && a->mapped != parts_of(p))
        wrong(r, a->at, "is not stored as often as there are parts of it", "acc");
    if (!first && a->lane == 0 && a->stored != a->boxed)
        wrong(r, a->at, "is not stored as often as it is written", "a part of the results");
    a->tile = first ? (role->turns ? a->group : 0) : a->tile + (role->turns ? role->groups : 1);
    a->passed = false;
    a->mapped = a->boxed = a->stored = 0;
    a->at = tiles + 1;
    if (a->tile < r->tiles) return;
    a->tile = NOTHING;
    a->at = end_of(p, tiles) + 1;
}

static void end_loop(Run *r, Agent *a)
{
    if (a->loop == NOTHING) {
        int tiles = a->at;
        while (r->p->op[tiles].kind != T_TILES) tiles--;
        next_tile(r, a, tiles, false);
        return;
    }
    if (++a->iteration < trips_of(r, a)) {
        a->at = a->loop + 1;
        return;
    }
    a->passed |= over_ring(r->p, a->loop);
    a->loop = NOTHING;
    a->at++;
}

// The place of the ring that an op is about, counted from the block's first one.
static int64_t position_of(const Run *r, const Agent *a, const TileOp *op)
{
    int64_t in = a->loop != NOTHING ? a->iteration : a->passed ? r->steps : 0;
    return a->tile * r->steps + in + op->shift;
}

static bool left_out(const Run *r, const Agent *a, const TileOp *op)
{
    if (op->kind == T_TURN || op->kind == T_PASS) {
        int64_t about = a->tile + op->shift;
        if (about < 0 || about >= r->tiles) return true;
    } else if (a->loop != NOTHING && op->shift) {
        int64_t about = a->iteration + op->shift;
        if (about < 0 || about >= trips_of(r, a)) return true;
    }
    if (a->loop == NOTHING) return false;
    return (op->when == THE_FIRST && a->iteration > 0) ||
           (op->when == THE_LAST && a->iteration + 1 < trips_of(r, a));
}

static void begin_role(Run *r, Agent *a, const TileOp *op)
{
    a->at++;
    if (op->role == ALL_ROLES || op->role == a->role) return;
    while (a->at < r->p->nops && r->p->op[a->at].kind != T_ROLE) a->at++;
}

static void arrive_at(Run *r, int who, const TileOp *op, int64_t position)
{
    const Agent *a = &r->agent[who];
    for (int block = 0; block < r->blocks; block++) {
        bool own = block == a->block;
        if (op->scope == OF_CLUSTER ? block % LANES != a->lane : !own || a->lane) continue;
        arrive(r, who, block, op->bar, position, 0);
    }
}

static void wait(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    bool products = op->how == BY_TENSOR;
    finish(r, who, products ? &a->by_products : &a->by_stores, op->count);
    if (products && !role_of(r, a)->thread)
        meet(r, who, OF_WARP); // all of a warp wait as one
    else
        a->at++;
}

// One op of a thread that can go on.
static void step(Run *r, int who)
{
    Agent *a = &r->agent[who];
    const TileOp *op = &r->p->op[a->at];
    int64_t position = position_of(r, a, op);
    if (left_out(r, a, op)) {
        a->at++;
        return;
    }
    switch (op->kind) {
    case T_ROLE: begin_role(r, a, op); return;
    case T_TILES: next_tile(r, a, a->at, true); return;
    case T_LOOP:
        a->loop = a->at++;
        a->iteration = 0;
        if (trips_of(r, a) == 0) {
            a->at = end_of(r->p, a->loop) + 1;
            a->loop = NOTHING;
        }
        return;
    case T_END: end_loop(r, a); return;
    case T_READY:
        a->ready = true;
        meet(r, who, OF_CLUSTER);
        return;
    case T_BARRIER: meet(r, who, op->scope); return;
    case T_TURN: turn(r, who, a->tile, true); return;
    case T_PASS: turn(r, who, a->tile + op->shift, false); return;
    case T_WAIT: wait(r, who, op); return;
    case T_AWAIT: await(r, who, op, position); break;
    case T_ANNOUNCE: arrive(r, who, a->block, op->bar, position, r->p->bar[op->bar].bytes); break;
    case T_ARRIVE: arrive_at(r, who, op, position); break;
    case T_FENCE: fence(r, who); break;
    case T_BEGIN: a->begun = true; break;
    case T_COMMIT: (op->how == BY_TENSOR ? &a->by_products : &a->by_stores)->groups++; break;
    case T_FILL: a->products = 0; break;
    case T_LOAD: load(r, who, op, position); break;
    case T_CLEAR: clear(r, who, op, position); break;
    case T_MMA: multiply(r, who, op, position); break;
    case T_REDUCE:
        read_place(r, who, op->a, position, NULL);
        a->products++;
        break;
    case T_MAP: map(r, who, op); break;
    case T_STORE: store(r, who, op); break;
    default: wrong(r, a->at, "is none of a program with roles", "an op"); break;
    }
    a->at++;
}

static bool able(Run *r, int who)
{
    const Agent *a = &r->agent[who];
    const TileOp *op = &r->p->op[a->at];
    if (a->waits || a->ended) return false;
    return a->at == r->p->nops || op->kind != T_AWAIT || left_out(r, a, op) ||
           phase_ended(r, a, op, position_of(r, a, op));
}

// A block's memory goes with its last thread.
static void end_agent(Run *r, int who)
{
    Agent *a = &r->agent[who];
    int known[CLOCKS] = {0};
    a->ended = true;
    if (a->by_stores.n || a->by_products.n)
        wrong(r, r->p->nops, "is read asynchronously while its thread ends", "memory");
    for (int i = 0; i < r->nagents; i++) {
        if (r->agent[i].block != a->block) continue;
        if (!r->agent[i].ended) return;
        learn(known, r->agent[i].clock);
    }
    for (int i = 0; i < r->p->nbars; i++)
        for (int at = 0; at < r->p->bar[i].places; at++)
            for (int k = 0; k < r->nagents; k++)
                if (r->bar[a->block][i][at].touched[k] > known[k])
                    wrong(r, r->p->nops, "is of a block that ends while others arrive there",
                          r->p->bar[i].name);
    for (int g = 0; g < MOST_GROUPS; g++)
        if (r->turn[a->block][g].there)
            wrong(r, r->p->nops, "is passed on, and nobody takes it", "the turn");
    for (int i = 0; i < r->ncopies; i++)
        if (r->copy[i].block == a->block)
            wrong(r, r->p->nops, "is copied to a block that has ended",
                  r->p->tile[r->copy[i].tile].name);
}

static void begin(Run *r)
{
    const TileProgram *p = r->p;
    memset(r->bar, 0, sizeof r->bar);
    memset(r->warp, 0, sizeof r->warp);
    memset(r->group, 0, sizeof r->group);
    memset(r->turn, 0, sizeof r->turn);
    r->cluster = (Meeting){0};
    r->ncopies = r->nagents = 0;
    r->wrong = NULL;
    for (int i = 0; i < r->blocks * r->ncells; i++)
        r->cell[i] = (Spot){.holds = NOTHING, .writer = NOTHING};
    for (int block = 0; block < r->blocks; block++)
        for (int role = 0; role < p->nroles; role++)
            for (int i = 0; i < p->role[role].warps * LANES; i++) {
                if (p->role[role].thread && i) continue;
                Agent *a = &r->agent[r->nagents];
                *a = (Agent){block, role, i / LANES, i % LANES, .loop = NOTHING, .tile = NOTHING};
                a->group = p->role[role].groups ? a->warp / GROUP_WARPS : 0;
                a->clock[r->nagents++] = 1;
            }
}

static const char *run(Run *r, int64_t tiles, uint64_t seed)
{
    r->tiles = tiles;
    begin(r);
    for (int left = r->nagents; left && !r->wrong;) {
        int ready[AGENTS + MOST_PENDING], n = 0;
        for (int i = 0; i < r->nagents; i++)
            if (able(r, i)) ready[n++] = i;
        for (int i = 0; i < r->ncopies; i++) ready[n++] = AGENTS + i;
        if (!n) return "threads wait for what never comes";
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        int who = ready[(seed >> 33) % (uint64_t)n];
        if (who >= AGENTS) {
            copy_arrives(r, who - AGENTS);
            continue;
        }
        // One goes on for a while, as warps do.
        for (uint64_t go = 1 + (seed >> 59); go-- > 0 && !r->wrong && able(r, who);) {
            if (r->agent[who].at < r->p->nops) {
                step(r, who);
                continue;
            }
            end_agent(r, who);
            left--;
        }
    }
    return r->wrong;
}

// What no order of threads shows: registers and memory, which there must be.
static const char *check_limits(const TileProgram *p, int64_t most)
{
    int registers = 0, warps = 0;
    for (int i = 0; i < p->nroles; i++) {
        const TileRole *role = &p->role[i];
        if (role->first % GROUP_WARPS == 0)
            registers += role->registers * ceil_div(role->warps, GROUP_WARPS);
        if (role->first + role->warps > warps) warps = role->first + role->warps;
    }
    // (those that a thread of the launch has: what there are, in eights)
    if (registers > (65536 / (warps * 32) & ~7) * (warps / GROUP_WARPS))
        return "groups wait for registers that there are not";
    for (int t = 0; t < p->ntiles; t++) {
        const Tile *a = &p->tile[t];
        if (!tile_shared(a)) continue;
        int apart = a->apart ? a->apart : a->bytes;
        if (a->offset + (a->places - 1) * apart + a->bytes > most)
            return "tiles take more memory than there is";
        for (int o = 0; o <= t; o++)
            for (int i = 0; tile_shared(&p->tile[o]) && i < a->places; i++)
                for (int j = 0; j < p->tile[o].places; j++)
                    if ((o != t || i != j) && tile_overlaps(a, i, &p->tile[o], j))
                        return "tiles overlap";
    }
    return NULL;
}

static void lay_out(Run *r)
{
    const TileProgram *p = r->p;
    for (int t = 0; t < p->ntiles; t++) {
        bool fine = p->tile[t].of_warp;
        for (int i = 0; i < p->nops; i++) fine |= p->op[i].kind == T_CLEAR && p->op[i].dst == t;
        r->begin[t] = r->ncells;
        r->parts[t] = fine ? MOST_GROUPS * GROUP_WARPS * LANES : 2;
        if (tile_shared(&p->tile[t])) r->ncells += p->tile[t].places * r->parts[t];
    }
}

const char *tile_verify_roles(Arena *a, const TileProgram *p, uint64_t seed)
{
    const char *found = check_limits(p, p->shared);
    Arena *own = arena_new(); // what this takes does not stay
    Run *r = NEW(own, Run);
    r->arena = a;
    r->p = p;
    r->blocks = p->cluster > 1 ? BLOCKS : 1;
    r->steps = steps_of(p, p->steps);
    lay_out(r);
    r->cell = NEW_ARRAY(own, Spot, r->blocks * r->ncells);
    r->agent = NEW_ARRAY(own, Agent, AGENTS);
    // So many tiles that the ring is passed twice; of other seeds fewer.
    int64_t tiles = ceil_div(2 * p->tile[0].places + 1, r->steps ? r->steps : 1);
    if (tiles < 3) tiles = 3;
    if (seed % 4 != 1) tiles = 1 + (int64_t)(seed % 4);
    if (!found) found = run(r, tiles, seed);
    arena_free(own);
    return found;
}
