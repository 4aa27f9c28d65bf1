// Simulates a tile program and reports races. The simulation implements the effect of each op on
// memory, and what barriers, mbarriers, fences and waits guarantee on the device; it is independent
// of how sync.c, sync_roles.c and sync_scores.c chose them.
//
// One block, or two of a cluster, have every warp that the program names (two warps, if it has no
// roles), with two threads each, which run in a random order. A bulk copy arrives at any time after
// it was issued; a thread's own copy is visible only after the thread has waited for it; products
// and bulk stores read until their thread has waited for them. Each thread has a vector clock; a
// barrier joins the clocks of all who arrived there. A read must find the intended value, by a
// write that happened before; a write must happen after all reads of the old value. What a thread
// wrote is visible to asynchronous reads only after a fence of that thread.
#include <string.h>

#include "codegen/tile/agents.h"

// -- meetings -------------------------------------------------------------------------------------

// The agent arrives at a barrier of [all] agents and, if [stays], waits for the others. at: the op
// that all of them must be at; NOTHING: different ops.
static void come(Run *r, int who, Meeting *m, int all, bool stays, int at)
{
    Agent *a = &r->agent[who];
    if (m->there == 0) *m = (Meeting){.at = at};
    if (m->at != at) agent_wrong(r, a, "come to another barrier than others", "threads");
    if (m->came[who]) agent_wrong(r, a, "come twice to a barrier", "threads");
    m->came[who] = true;
    agent_learn(r, m->known, a->clock);
    a->waits = m->stays[who] = stays;
    if (!stays) a->at++;
    if (++m->there < all) return;
    for (int i = 0; i < r->nagents; i++) {
        Agent *o = &r->agent[i];
        if (!m->stays[i]) continue;
        agent_learn(r, o->clock, m->known);
        o->waits = false;
        o->at++;
    }
    m->there = 0;
}

static void meet(Run *r, int who, TileScope scope)
{
    Agent *a = &r->agent[who];
    if (scope == OF_CLUSTER || scope == TO_LEAVE)
        come(r, who, &r->meet.cluster, r->nagents, true, a->at);
    else if (scope == OF_WARP && !agent_role(r, a)->thread)
        come(r, who, &r->meet.warp[who - a->lane], LANES, true, a->at);
    else if (scope == OF_GROUP && agent_role(r, a)->groups)
        come(r, who, &r->meet.group[a->block][a->group], GROUP_WARPS * LANES, true, a->at);
    else if (scope == OF_ROLE && agent_role(r, a)->groups)
        come(r, who, &r->meet.role[a->block], agent_role(r, a)->warps * LANES, true, a->at);
    else if (scope == OF_BLOCK)
        come(r, who, &r->meet.block[a->block], r->nagents / r->blocks, true, NOTHING);
    else
        agent_wrong(r, a, "is one that not all come to", "a barrier");
}

// The turn of tile [about]: its group waits for it, the group that passes it on does not.
static void turn(Run *r, int who, int64_t about, bool stays)
{
    Agent *a = &r->agent[who];
    int groups = agent_role(r, a)->groups;
    come(r, who, &r->meet.turn[a->block][about % groups], groups * GROUP_WARPS * LANES, stays,
         NOTHING);
}

// -- control --------------------------------------------------------------------------------------

static int begin_of(const TileProgram *p, int i)
{
    for (int depth = 0;; i--) {
        depth += (p->op[i].kind == T_END) - tile_begins(&p->op[i]);
        if (!depth) return i;
    }
}

static bool over_ring(const TileProgram *p, int loop)
{
    for (int i = loop; p->op[i].kind != T_END; i++)
        if (p->op[i].kind == T_AWAIT) return true;
    return false;
}

// A number of steps that suffices to simulate a tile's: each place is used, and the last step has
// the same place and parity as with all steps. (If a tile begins only when the one before it has
// ended, its own steps must go round the ring.)
static int64_t steps_of(const TileProgram *p, int64_t steps)
{
    int64_t round = p->tile[0].places, least = p->split ? 3 * round : round;
    return steps < least + 2 * round ? steps : (steps - least) % (2 * round) + least;
}

static int64_t trips_of(const Run *r, const Agent *a)
{
    int64_t trips = r->p->op[a->loop].trips;
    int by = agent_sharing(r, a);
    if (!r->p->nroles) return tile_iterations(r->p, trips, r->rounds);
    if (r->p->varies) return agent_steps(r, a->tile);
    if (r->p->skips && over_ring(r->p, a->loop)) return agent_tile_steps(r, a->tile);
    return over_ring(r->p, a->loop) ? steps_of(r->p, trips * by) / by : trips;
}

static void next_tile(Run *r, Agent *a, int tiles, bool first)
{
    const TileRole *role = agent_role(r, a);
    const TileProgram *p = r->p;
    if (p->varies && role->groups) {
        if (!first) agent_end_tile(r, a);
        agent_begin_tile(a);
    } else if (!first && role->groups && a->mapped != agent_parts(p))
        agent_wrong(r, a, "is not stored as often as there are parts of it", "acc");
    if (!first && a->lane == 0 && a->stored != a->boxed)
        agent_wrong(r, a, "is not stored as often as it is written", "a part of the results");
    if (!first && agent_adds(r, a) && a->added != a->boxed)
        agent_wrong(r, a, "is not added up as often as it is written", "a part of the results");
    a->tile = first ? a->pass * r->tiles + (role->turns ? a->group : 0)
                    : a->tile + (role->turns ? role->groups : 1);
    a->passed = false;
    a->mapped = a->boxed = a->stored = a->added = 0;
    a->rest = 0;
    a->at = tiles + 1;
    if (a->tile < (a->pass + 1) * r->tiles) return;
    a->tile = NOTHING;
    a->at = tile_end_of(p, tiles) + 1;
}

static void end_pass(Run *r, Agent *a, int again)
{
    if (a->pass) {
        a->at++;
        return;
    }
    agent_decide(r, a);
    a->pass = 1;
    a->at = again + 1;
}

static void end_loop(Run *r, Agent *a)
{
    if (a->loop == NOTHING) {
        int from = begin_of(r->p, a->at);
        if (r->p->op[from].kind == T_TILES)
            next_tile(r, a, from, false);
        else
            end_pass(r, a, from);
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

// The position in the ring that an op belongs to, counted from the block's first step; or the tile,
// for mbarriers with a phase per tile.
static int64_t position_of(const Run *r, const Agent *a, const TileOp *op)
{
    bool barred = op->kind == T_AWAIT || op->kind == T_ARRIVE;
    if (barred && r->p->bar[op->bar].by_tile) return a->tile;
    if (r->p->varies && a->tile != NOTHING) {
        const int own = op->kind == T_LOAD ? op->dst : __builtin_ctz(r->p->bar[op->bar].tiles);
        return agent_place(r, a, own, op->shift);
    }
    int by = agent_sharing(r, a);
    int64_t of_tile = agent_tile_steps(r, a->tile), before = 0;
    int64_t in = a->loop != NOTHING ? a->iteration : a->passed ? of_tile / by : 0;
    for (int64_t t = 0; t < a->tile; t++) before += agent_tile_steps(r, t);
    return before + (in + op->shift) * by + (by > 1 ? a->group : 0);
}

static bool on_tiles(const TileOp *op) // of those that programs without roles have
{
    return op->kind <= T_MAP;
}

static bool left_out(const Run *r, const Agent *a, const TileOp *op)
{
    if (op->kind == T_TURN || op->kind == T_PASS) {
        int64_t about = a->tile + op->shift;
        if (about < 0 || about >= r->tiles) return true;
    } else if (a->loop != NOTHING && (op->shift || on_tiles(op))) {
        int64_t about = a->iteration + op->shift;
        if (about < 0 || about >= trips_of(r, a)) return true;
    }
    if (a->loop == NOTHING)
        return (op->when == THE_FIRST && a->pass) || (op->shift && !r->p->nroles);
    return (op->when == THE_FIRST && a->iteration > 0) ||
           (op->when == THE_LAST && a->iteration + 1 < trips_of(r, a));
}

static void arrive_at(Run *r, int who, const TileOp *op, int64_t position)
{
    const Agent *a = &r->agent[who];
    for (int block = 0; block < r->blocks; block++) {
        bool own = block == a->block;
        if (op->scope == OF_CLUSTER ? block % LANES != a->lane : !own || a->lane) continue;
        agent_arrive(r, who, block, op->bar, position, 0);
    }
}

static void wait(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    agent_finish(r, who, agent_accesses(a, op->how), op->count);
    if (op->how == BY_TENSOR && !agent_role(r, a)->thread)
        meet(r, who, OF_WARP); // a wait for wgmma is executed by the whole warp
    else
        a->at++;
}

static void begin_loop(Run *r, Agent *a, const TileOp *op)
{
    a->loop = a->at++;
    a->iteration = -op->early;
    if (trips_of(r, a) > a->iteration) return;
    a->passed |= r->p->varies;
    a->at = tile_end_of(r->p, a->loop) + 1;
    a->loop = NOTHING;
}

// Ops that change where the thread continues, or make it wait for other threads; false: it is not
// one of these.
static bool go_on(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    switch (op->kind) {
    case T_ROLE:
        a->at++;
        if (op->role != ALL_ROLES && op->role != a->role) a->at = tile_next_role(r->p, a->at);
        return true;
    case T_TILES: next_tile(r, a, a->at, true); return true;
    case T_LOOP: begin_loop(r, a, op); return true;
    case T_END: end_loop(r, a); return true;
    case T_READY:
        a->ready = true;
        meet(r, who, OF_CLUSTER);
        return true;
    case T_BARRIER: meet(r, who, op->scope); return true;
    case T_TURN: turn(r, who, a->tile, true); return true;
    case T_PASS: turn(r, who, a->tile + op->shift, false); return true;
    case T_WAIT: wait(r, who, op); return true;
    default: return false;
    }
}

// Ops that signal other threads, and ops on tiles.
static void act(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    if (!r->p->nroles && on_tiles(op)) {
        agent_thread_op(r, who, op, position);
        return;
    }
    if (r->p->varies && (op->kind == T_SHRINK || (on_tiles(op) && op->kind != T_LOAD))) {
        agent_score_op(r, who, op);
        return;
    }
    switch (op->kind) {
    case T_AGAIN: break;
    case T_AWAIT: agent_await(r, who, op, position); break;
    case T_ANNOUNCE:
        agent_arrive(r, who, a->block, op->bar, position, r->p->bar[op->bar].bytes);
        break;
    case T_ARRIVE: arrive_at(r, who, op, position); break;
    case T_FENCE: agent_fence(r, who); break;
    case T_BEGIN: a->begun = true; break;
    case T_COMMIT: agent_accesses(a, op->how)->groups++; break;
    case T_JUDGE: agent_judge(r, who); break;
    case T_FILL:
        if (r->p->tile[op->dst].layout == L_TOTALS)
            a->totals = true;
        else
            a->products = 0;
        break;
    case T_LOAD:
        if (tile_shared(&r->p->tile[op->dst]))
            agent_load(r, who, op, position);
        else if (a->loop != NOTHING) // the values that a part of the results needs
            a->rest |= 1u << (a->iteration + op->shift);
        break;
    case T_CLEAR: agent_clear(r, who, op, position); break;
    case T_MOVE: agent_move(r, who, op); break;
    case T_MAP: agent_map(r, who, op); break;
    case T_MMA: agent_multiply(r, who, op, position); break;
    case T_REDUCE:
        if (r->p->tile[op->dst].layout == L_TOTALS) {
            agent_add(r, who, op);
            break;
        }
        agent_read(r, who, op->a, position, NULL);
        a->products++;
        break;
    case T_STORE: agent_store(r, who, op); break;
    default: agent_wrong(r, a, "is none of a program with roles", "an op"); break;
    }
}

// Runs one op of a thread that is able to continue.
static void step(Run *r, int who)
{
    Agent *a = &r->agent[who];
    const TileOp *op = &r->p->op[a->at];
    const bool out = left_out(r, a, op);
    if (!out && go_on(r, who, op)) return;
    if (!out) act(r, who, op, position_of(r, a, op));
    a->at++;
}

static bool able(Run *r, int who)
{
    const Agent *a = &r->agent[who];
    const TileOp *op = &r->p->op[a->at];
    if (a->waits || a->ended) return false;
    return a->at == r->p->nops || op->kind != T_AWAIT || left_out(r, a, op) ||
           agent_awaited(r, a, op, position_of(r, a, op));
}

// A thread ends; a block's memory is freed when its last thread ends.
static void end_agent(Run *r, int who)
{
    Agent *a = &r->agent[who];
    int known[CLOCKS] = {0};
    a->ended = true;
    if (!r->p->nroles) agent_end_thread(r, a);
    if (agent_adds(r, a) && !a->told) agent_wrong(r, a, "are not stored", "sums of columns");
    if (a->by_stores.n || a->by_products.n)
        agent_wrong(r, a, "is read asynchronously while its thread ends", "memory");
    for (int i = 0; i < r->nagents; i++) {
        if (r->agent[i].block != a->block) continue;
        if (!r->agent[i].ended) return;
        agent_learn(r, known, r->agent[i].clock);
    }
    for (int i = 0; i < r->p->nbars; i++)
        for (int at = 0; at < r->p->bar[i].places; at++)
            for (int k = 0; k < r->nagents; k++)
                if (r->bar[a->block][i][at].touched[k] > known[k])
                    agent_wrong(r, a, "is of a block that ends while others arrive there",
                                r->p->bar[i].name);
    for (int g = 0; g < MOST_GROUPS; g++)
        if (r->meet.turn[a->block][g].there)
            agent_wrong(r, a, "is passed on, and nobody takes it", "the turn");
    for (int i = a->block * r->ncells; i < (a->block + 1) * r->ncells; i++)
        for (int k = 0; k < r->nagents; k++)
            if (r->cell[i].read[k] > known[k])
                agent_wrong(r, a, "is of a block that ends while others may read it", "memory");
    for (int i = 0; i < r->ncopies; i++)
        if (r->copy[i].block == a->block)
            agent_wrong(r, a, "is copied to a block that has ended",
                        r->p->tile[r->copy[i].tile].name);
}

static void begin(Run *r)
{
    if (r->bar) memset(r->bar, 0, sizeof *r->bar * BLOCKS);
    memset(&r->meet, 0, sizeof r->meet);
    r->ncopies = r->nagents = 0;
    r->wrong = NULL;
    for (int i = 0; i < r->blocks * r->ncells; i++)
        r->cell[i] = (Spot){.holds = NOTHING, .writer = NOTHING};
    for (int block = 0; block < r->blocks; block++)
        for (int role = 0; role < r->nroles; role++)
            for (int i = 0; i < r->role[role].warps * LANES; i++) {
                if (r->role[role].thread && i) continue;
                Agent *a = &r->agent[r->nagents];
                *a = (Agent){block, role, i / LANES, i % LANES, .loop = NOTHING, .tile = NOTHING};
                a->group = r->role[role].groups ? a->warp / GROUP_WARPS : 0;
                memset(a->in, 0xff, sizeof a->in); // NOTHING
                a->clock[r->nagents++] = 1;
            }
}

static const char *run(Run *r, int64_t tiles)
{
    uint64_t seed = r->seed;
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
            agent_copied(r, who - AGENTS);
            continue;
        }
        // The same agent continues for a while, as warps do.
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

// Checks that do not depend on the order of threads: enough registers and shared memory.
static const char *check_limits(const TileProgram *p, int64_t most)
{
    int registers = 0, warps = 0;
    for (int i = 0; i < p->nroles; i++) {
        const TileRole *role = &p->role[i];
        if (role->first % GROUP_WARPS == 0)
            registers += role->registers * ceil_div(role->warps, GROUP_WARPS);
        if (role->first + role->warps > warps) warps = role->first + role->warps;
    }
    // The launch gives each thread an equal share of all registers, a multiple of 8.
    if (registers > (65536 / (warps * 32) & ~7) * (warps / GROUP_WARPS))
        return "groups wait for registers that there are not";
    for (int i = 0; i < p->nbars; i++)
        if (p->bar[i].of_cluster && p->bar[i].arrivals % p->cluster)
            return "an mbarrier waits for a part of a block";
    for (int t = 0; t < p->ntiles; t++) {
        const Tile *a = &p->tile[t];
        if (!tile_shared(a)) continue;
        int apart = a->apart ? a->apart : a->bytes;
        if (a->offset + (a->places - 1) * apart + a->bytes > most)
            return "tiles take more memory than there is";
        if (a->layout == L_JOINT || (a->layout == L_ROWS && !a->of_warp))
            continue; // it is used only while other tiles are not
        for (int o = 0; o <= t; o++)
            for (int i = 0; tile_shared(&p->tile[o]) && i < a->places; i++)
                for (int j = 0; j < p->tile[o].places; j++)
                    if ((o != t || i != j) && p->tile[o].layout != L_ROWS &&
                        p->tile[o].layout != L_JOINT && tile_overlaps(a, i, &p->tile[o], j))
                        return "tiles overlap";
    }
    return NULL;
}

static void lay_out(Run *r)
{
    const TileProgram *p = r->p;
    for (int t = 0; t < p->ntiles; t++) {
        bool fine =
            p->tile[t].of_warp || p->tile[t].layout == L_ROWS || p->tile[t].layout == L_JOINT;
        for (int i = 0; i < p->nops; i++) fine |= p->op[i].kind == T_CLEAR && p->op[i].dst == t;
        r->begin[t] = r->ncells;
        r->parts[t] = !p->nroles  ? r->role->warps * LANES
                      : fine      ? 2 * GROUP_WARPS * LANES
                      : p->varies ? p->role[p->nroles - 1].groups
                                  : 2;
        if (tile_shared(&p->tile[t])) r->ncells += p->tile[t].places * r->parts[t];
    }
}

static const char *verify_roles(Run *r)
{
    const TileProgram *p = r->p;
    const char *found = check_limits(p, p->shared);
    // With some seeds enough tiles to use the whole ring twice, with others fewer.
    int64_t tiles = ceil_div(2 * p->tile[0].places + 1, r->steps ? r->steps : 1);
    if (p->varies) tiles = 2 * p->tile[0].places + 1; // tile 0 stays: one place per tile of rows
    if (tiles < 3) tiles = 3;
    if (r->seed % 4 != 1) tiles = 1 + (int64_t)(r->seed % 4);
    return found ? found : run(r, tiles);
}

const char *tile_verify(Arena *a, const TileProgram *p, uint64_t seed)
{
    static const TileRole alike = {.name = "threads", .warps = 2};
    const char *found = NULL;
    Arena *own = arena_inside(a); // released at the end
    Run *r = NEW(own, Run);
    r->arena = a;
    r->p = p;
    r->role = p->nroles ? p->role : &alike;
    r->nroles = p->nroles ? p->nroles : 1;
    r->seed = seed;
    r->blocks = p->cluster > 1 ? BLOCKS : 1;
    r->steps = steps_of(p, p->steps);
    lay_out(r);
    r->cell = NEW_ARRAY(own, Spot, r->blocks * r->ncells);
    r->agent = NEW_ARRAY(own, Agent, AGENTS);
    if (p->nbars) r->bar = arena_alloc(own, sizeof *r->bar * BLOCKS);
    if (p->nroles) found = verify_roles(r);
    for (r->rounds = 2; !p->nroles && r->rounds <= 3 && !found; r->rounds++) found = run(r, 1);
    arena_empty(own);
    return found;
}
