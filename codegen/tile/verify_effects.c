// The effects of the ops of a tile program, as far as its verification needs them: which memory
// they read and write, when these accesses complete, and what threads learn from mbarriers.
#include <string.h>

#include "codegen/tile/agents.h"

void agent_wrong(Run *r, const Agent *a, const char *what, const char *name)
{
    if (!r->wrong) r->wrong = arena_printf(r->arena, "op %d: %s %s", a->at, name, what);
}

void agent_learn(const Run *r, int *to, const int *from)
{
    const int n = r->p->nbars ? CLOCKS : r->nagents;
    for (int i = 0; i < n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

static int tick(Run *r, int who)
{
    return ++r->agent[who].clock[who];
}

const TileRole *agent_role(const Run *r, const Agent *a)
{
    return &r->role[a->role];
}

int agent_sharing(const Run *r, const Agent *a)
{
    return agent_role(r, a)->steps ? agent_role(r, a)->groups : 1;
}

int64_t agent_tile_steps(const Run *r, int64_t tile)
{
    return r->p->skips ? 1 + (tile * 5 + (int64_t)(r->seed % 7)) % r->steps : r->steps;
}

// -- memory ---------------------------------------------------------------------------------------

static int cell_number(const Run *r, int block, int tile, int place, int part)
{
    return block * r->ncells + r->begin[tile] + place * r->parts[tile] + part;
}

// Whether the agent's group multiplies that part of the tile.
static bool own_half(const Run *r, const Agent *a, int tile, int part)
{
    int groups = r->role[r->nroles - 1].groups;
    return !r->p->tile[tile].of_group || part * groups / r->parts[tile] == a->group;
}

static void check_overwrite(Run *r, int who, const Spot *c, const char *name)
{
    const Agent *a = &r->agent[who];
    if (c->coming) agent_wrong(r, a, "is overwritten before its copy has arrived", name);
    if (c->writer != NOTHING && c->writer != who && a->clock[c->writer] < c->wrote)
        agent_wrong(r, a, "is written by two at once", name);
    for (int i = 0; i < r->nagents; i++) {
        if (c->reading[i]) agent_wrong(r, a, "is overwritten while it is read", name);
        if (i != who && c->read[i] > a->clock[i])
            agent_wrong(r, a, "is overwritten while others may read it", name);
    }
}

// Whether an asynchronous access issued by the agent sees what threads have written there.
static bool fenced_for(const Agent *a, int who, const Spot *c)
{
    return !c->raw &&
           (c->writer == NOTHING || c->writer == who || a->clock[c->writer] >= c->fenced);
}

// The place of a tile is about to be written: other tiles that overlap it lose their contents there
// and must not be in use.
static void overwrite_others(Run *r, int who, int block, int tile, int place, bool asynchronous)
{
    const TileProgram *p = r->p;
    for (int o = 0; o < p->ntiles; o++)
        for (int at = 0; o != tile && tile_shared(&p->tile[o]) && at < p->tile[o].places; at++) {
            if (!tile_overlaps(&p->tile[tile], place, &p->tile[o], at)) continue;
            for (int part = 0; part < r->parts[o]; part++) {
                Spot *c = &r->cell[cell_number(r, block, o, at, part)];
                check_overwrite(r, who, c, p->tile[o].name);
                if (asynchronous && !fenced_for(&r->agent[who], who, c))
                    agent_wrong(r, &r->agent[who],
                                "is overwritten asynchronously without a fence behind its writing",
                                p->tile[o].name);
                *c = (Spot){.holds = NOTHING, .writer = NOTHING};
            }
        }
}

static void check_read(Run *r, int who, const Spot *c, int64_t want, bool asynchronous,
                       const char *name)
{
    const Agent *a = &r->agent[who];
    if (c->coming)
        agent_wrong(r, a, "is read before its copy has arrived", name);
    else if (c->holds == NOTHING)
        agent_wrong(r, a, "is read before anything is there", name);
    else if (c->writer != who && a->clock[c->writer] < c->wrote)
        agent_wrong(r, a, "is read without waiting for its writing", name);
    else if (c->holds != want)
        agent_wrong(r, a, "is of another step than the one read", name);
    else if (asynchronous && !fenced_for(a, who, c))
        agent_wrong(r, a, "is read asynchronously without a fence behind its writing", name);
}

static void read_now(Run *r, int who, int number, int64_t want, const char *name)
{
    check_read(r, who, &r->cell[number], want, false, name);
    r->cell[number].read[who] = tick(r, who);
}

void agent_read_part(Run *r, int who, int block, int tile, int place, int part, int64_t want)
{
    read_now(r, who, cell_number(r, block, tile, place, part), want, r->p->tile[tile].name);
}

static void finish_later(Run *r, int who, Accesses *by, int number)
{
    if (by->n == MOST_PENDING)
        agent_wrong(r, &r->agent[who], "is accessed without end", "memory");
    else
        by->at[by->n++] = (Pending){number, by->groups + 1};
}

static void read_later(Run *r, int who, Accesses *by, int number)
{
    r->cell[number].reading[who] = true;
    finish_later(r, who, by, number);
}

void agent_write(Run *r, int who, int tile, int place, Spot now)
{
    Agent *a = &r->agent[who];
    const int number = cell_number(r, a->block, tile, place, a->warp * LANES + a->lane);
    overwrite_others(r, who, a->block, tile, place, false);
    check_overwrite(r, who, &r->cell[number], r->p->tile[tile].name);
    now.writer = who;
    now.wrote = tick(r, who);
    r->cell[number] = now;
    if (now.coming) finish_later(r, who, &a->by_copies, number);
}

Accesses *agent_accesses(Agent *a, TileHow how)
{
    return how == BY_TENSOR ? &a->by_products : how == BY_BULK ? &a->by_stores : &a->by_copies;
}

void agent_finish(Run *r, int who, Accesses *by, int left)
{
    const bool copies = by == &r->agent[who].by_copies;
    int kept = 0;
    for (int i = 0; i < by->n; i++) {
        if (by->at[i].group > by->groups - left) {
            by->at[kept++] = by->at[i];
            continue;
        }
        Spot *c = &r->cell[by->at[i].cell];
        *(copies ? &c->coming : &c->reading[who]) = false;
        *(copies ? &c->wrote : &c->read[who]) = tick(r, who);
    }
    by->n = kept;
    if (by->groups - left > by->done) by->done = by->groups - left;
}

// -- mbarriers ------------------------------------------------------------------------------------

// The position may be negative in a wrong program, whose op belongs to an earlier step.
static Bar *bar_at(Run *r, int block, int bar, int64_t position)
{
    int64_t places = r->p->bar[bar].places;
    return &r->bar[block][bar][(position % places + places) % places];
}

// The number of arrivals that end a phase, with the number of blocks that are simulated.
static int arrivals(const Run *r, int bar)
{
    const TileBar *b = &r->p->bar[bar];
    return b->of_cluster ? b->arrivals / r->p->cluster * r->blocks : b->arrivals;
}

static void end_phase(Run *r, Bar *b, int bar)
{
    if (b->arrived < arrivals(r, bar) || b->bytes) return;
    b->open[AGENTS + (b - &r->bar[0][0][0])] = ++b->phase;
    b->arrived = 0;
    memcpy(b->closed, b->open, sizeof b->open);
}

void agent_arrive(Run *r, int who, int block, int bar, int64_t position, int64_t bytes)
{
    Agent *a = &r->agent[who];
    Bar *b = bar_at(r, block, bar, position);
    if (!a->ready) agent_wrong(r, a, "is used before it is set up", r->p->bar[bar].name);
    b->bytes += bytes;
    b->touched[who] = tick(r, who);
    agent_learn(r, b->open, a->clock);
    if (++b->arrived > arrivals(r, bar))
        agent_wrong(r, a, "gets more arrivals than it waits for", r->p->bar[bar].name);
    end_phase(r, b, bar);
}

// As on the device, only the parity of the current phase is tested.
bool agent_awaited(Run *r, const Agent *a, const TileOp *op, int64_t position)
{
    const Bar *b = bar_at(r, a->block, op->bar, position);
    int64_t phase = position / r->p->bar[op->bar].places - op->count;
    return (b->phase - 1 - phase) % 2 == 0;
}

void agent_await(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const Bar *b = bar_at(r, a->block, op->bar, position);
    int64_t before = position / r->p->bar[op->bar].places - op->count; // number of earlier phases
    if (!a->ready) agent_wrong(r, a, "is used before it is set up", r->p->bar[op->bar].name);
    if (a->clock[AGENTS + (b - &r->bar[0][0][0])] < before)
        agent_wrong(r, a, "is of the phase before, for all that this thread knows",
                    r->p->bar[op->bar].name);
    agent_learn(r, a->clock, b->closed);
}

void agent_copied(Run *r, int i)
{
    Copy c = r->copy[i];
    r->copy[i] = r->copy[--r->ncopies];
    for (int part = 0; part < r->parts[c.tile]; part++)
        if (c.share < 0 || part % BLOCKS == c.share)
            r->cell[cell_number(r, c.block, c.tile, c.place, part)].coming = false;
    Bar *b = &r->bar[c.block][c.bar][c.place];
    agent_learn(r, b->open, c.known);
    b->bytes -= c.bytes;
    end_phase(r, b, c.bar);
}

// -- ops ------------------------------------------------------------------------------------------

void agent_load(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[op->dst];
    int place = tile_place(t, position);
    bool shared = t->peers && r->blocks > 1;
    if (!(r->p->bar[op->bar].tiles >> op->dst & 1))
        agent_wrong(r, a, "does not count its bytes", r->p->bar[op->bar].name);
    for (int block = 0; block < r->blocks; block++) {
        if (!shared && block != a->block) continue;
        overwrite_others(r, who, block, op->dst, place, true);
        int when = tick(r, who);
        for (int part = 0; part < r->parts[op->dst]; part++) {
            Spot *c = &r->cell[cell_number(r, block, op->dst, place, part)];
            if (shared && part % BLOCKS != a->block) continue;
            check_overwrite(r, who, c, t->name);
            *c = (Spot){.holds = position, .writer = who, .wrote = when, .coming = true};
        }
        if (r->ncopies == MOST_PENDING) {
            agent_wrong(r, a, "is copied without end", t->name);
            return;
        }
        Copy *c = &r->copy[r->ncopies++];
        *c = (Copy){block, op->dst, place, op->bar, shared ? a->block : NOTHING, 0, {0}};
        c->bytes = t->bytes / (shared ? r->blocks : 1);
        memcpy(c->known, a->clock, sizeof a->clock);
    }
}

// An operand that a group multiplies, which reads it until the product completes ([later]), or
// whose rows are added up.
void agent_read(Run *r, int who, int tile, int64_t position, Accesses *later)
{
    const Agent *a = &r->agent[who];
    const Tile *t = &r->p->tile[tile];
    for (int part = 0; part < r->parts[tile]; part++) {
        int number = cell_number(r, a->block, tile, tile_place(t, position), part);
        if (!own_half(r, a, tile, part)) continue;
        if (!later) {
            read_now(r, who, number, position, t->name);
            continue;
        }
        check_read(r, who, &r->cell[number], position, true, t->name);
        read_later(r, who, later, number);
    }
}

void agent_clear(Run *r, int who, const TileOp *op, int64_t position)
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
        c->fenced = 0;
    }
}

void agent_multiply(Run *r, int who, const TileOp *op, int64_t position)
{
    Agent *a = &r->agent[who];
    const char *sums = r->p->tile[op->dst].name;
    if (!a->begun) agent_wrong(r, a, "may still be in use by threads", sums);
    if (a->products != a->iteration)
        agent_wrong(r, a, "has not had the products before this one", sums);
    a->products++;
    agent_read(r, who, op->a, position, &a->by_products);
    agent_read(r, who, op->b, r->p->tile[op->b].stays ? 0 : position, &a->by_products);
}

// The cell of a lane's results of this iteration.
static int box_cell(const Run *r, const Agent *a, int tile, int lane)
{
    int place = tile_place(&r->p->tile[tile], a->iteration);
    return cell_number(r, a->block, tile, place, a->warp * LANES + lane);
}

int64_t agent_parts(const TileProgram *p)
{
    if (p->split) return 1;
    return (int64_t)(p->side_m / p->atom->m) * ceil_div(p->side_n, STEP);
}

static void check_products(Run *r, const Agent *a, int sums)
{
    if (a->by_products.n || a->products != agent_tile_steps(r, a->tile) / agent_sharing(r, a))
        agent_wrong(r, a, "is read before all products are done", r->p->tile[sums].name);
}

// Writes one part of the sums, or the results computed from it, to the warp's own memory.
static void write_part(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    check_products(r, a, op->a);
    if (a->mapped++ != a->iteration)
        agent_wrong(r, a, "is not read part by part", r->p->tile[op->a].name);
    a->begun = false;
    if (op->dst < 0) return;
    a->boxed++;
    agent_write(r, who, op->dst, tile_place(&r->p->tile[op->dst], a->iteration),
                (Spot){.holds = a->tile * agent_parts(r->p) + a->iteration, .raw = true});
}

void agent_move(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    if (r->p->tile[op->dst].of_warp) {
        write_part(r, who, op);
        return;
    }
    const bool totals = r->p->tile[op->a].layout == L_TOTALS;
    if (totals && (!a->totals || a->tile != NOTHING))
        agent_wrong(r, a, "are not those of all tiles", r->p->tile[op->a].name);
    if (!totals) check_products(r, a, op->a);
    a->begun = false;
    agent_write(r, who, op->dst, 0, (Spot){.holds = totals ? r->tiles : a->tile, .raw = true});
}

// Reads all parts that a block has of a tile: sums of one tile of the result, or totals of all.
static void read_all(Run *r, int who, int block, int tile, int64_t want)
{
    for (int part = 0; part < r->parts[tile]; part++)
        agent_read_part(r, who, block, tile, 0, part, want);
}

static void add_part(Run *r, Agent *a, const TileOp *op)
{
    if (!a->totals) agent_wrong(r, a, "are added to before they begin", r->p->tile[op->dst].name);
    a->added++;
}

void agent_map(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    if (r->p->tile[op->a].of_warp) {
        if (!(a->rest >> a->iteration & 1))
            agent_wrong(r, a, "is not loaded", "what a part of the results needs");
        agent_store(r, who, op);
        if (op->dst >= 0) add_part(r, a, op);
        return;
    }
    if (r->p->tile[op->a].layout == L_ROWS) {
        for (int block = 0; block < r->blocks; block++) read_all(r, who, block, op->a, a->tile);
        a->mapped++;
        return;
    }
    if (r->p->tile[op->a].layout == L_JOINT) {
        read_all(r, who, a->block, op->a, r->tiles);
        a->told = true;
        return;
    }
    if (!agent_role(r, a)->groups) { // the role that sums rows
        if (a->products != 1) agent_wrong(r, a, "is not there", r->p->tile[op->a].name);
        a->products = 0;
        return;
    }
    write_part(r, who, op);
}

void agent_store(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    const bool bulk = op->how == BY_BULK;
    if (bulk && a->lane) return; // one thread of a warp issues the store
    a->stored++;
    const int64_t want = a->tile * agent_parts(r->p) + a->iteration;
    const char *name = r->p->tile[op->a].name;
    for (int lane = 0; lane < LANES; lane++) {
        int number = box_cell(r, a, op->a, lane);
        if (!bulk) {
            read_now(r, who, number, want, name);
            continue;
        }
        check_read(r, who, &r->cell[number], want, true, name);
        read_later(r, who, &a->by_stores, number);
    }
}

bool agent_adds(const Run *r, const Agent *a)
{
    for (int t = 0; t < r->p->ntiles; t++)
        if (r->p->tile[t].layout == L_TOTALS) return agent_role(r, a)->groups;
    return false;
}

// A lane reads the results that all lanes of its warp have written.
void agent_add(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    add_part(r, a, op);
    for (int lane = 0; lane < LANES; lane++)
        read_now(r, who, box_cell(r, a, op->a, lane), a->tile * agent_parts(r->p) + a->iteration,
                 r->p->tile[op->a].name);
}

void agent_fence(Run *r, int who)
{
    int when = tick(r, who);
    for (int i = 0; i < r->blocks * r->ncells; i++) {
        Spot *c = &r->cell[i];
        if (c->writer != who || !c->raw) continue;
        c->raw = false;
        c->fenced = when;
    }
}
