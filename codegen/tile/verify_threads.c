// The effects of the ops of programs without roles, as far as the verification of a program needs
// them. Each thread writes its own part of a tile in shared memory and reads the parts of all
// threads, of its warp, of its block or of its cluster. It knows of its tiles in registers which
// iteration they hold, or how many products have been added to them.
#include "codegen/tile/agents.h"

static void write_own(Run *r, int who, int tile, int64_t about, bool coming)
{
    agent_write(r, who, tile, tile_place(&r->p->tile[tile], about),
                (Spot){.holds = about, .coming = coming});
}

static void read_place(Run *r, int who, int tile, int place, int64_t want, bool peers)
{
    const Agent *a = &r->agent[who];
    for (int block = 0; block < r->blocks; block++) {
        bool ended = block != a->block;
        if (ended && !peers) continue;
        for (int i = 0; i < r->nagents; i++)
            ended &= r->agent[i].block != block || r->agent[i].ended;
        if (ended) agent_wrong(r, a, "is read of a block that has ended", r->p->tile[tile].name);
        for (int part = 0; part < r->parts[tile]; part++)
            if (!r->p->tile[tile].of_warp || part / LANES == a->warp)
                agent_read_part(r, who, block, tile, place, part, want);
    }
}

// Which of its places in registers an operand of that iteration has: 0, except in a loop that loads
// several iterations together.
static int64_t *registers_of(const Run *r, Agent *a, int tile, int64_t about)
{
    int together = a->loop != NOTHING ? r->p->op[a->loop].together : 0;
    return &a->in[tile][together ? about % together : 0];
}

static void load(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    if (op->how == BY_BODY)
        *registers_of(r, a, op->dst, about) = about;
    else
        write_own(r, who, op->dst, about, true);
}

static void multiply(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    const char *name = r->p->tile[op->dst].name;
    for (int side = 0; side < 2; side++) {
        int t = side ? op->b : op->a;
        const Tile *from = &r->p->tile[t];
        if (tile_shared(from))
            read_place(r, who, t, tile_place(from, about), from->stays ? 0 : about, false);
        else if (a->in[t][0] != about)
            agent_wrong(r, a, "does not hold what is multiplied", from->name);
    }
    if (r->p->tile[op->dst].layout == L_SCORES) {
        a->in[op->dst][0] = about;
        return;
    }
    if (a->loop == NOTHING || r->p->op[a->loop].trips != r->p->steps)
        agent_wrong(r, a, "does not get all products", name);
    if (a->in[op->dst][0]++ != about)
        agent_wrong(r, a, "has not had the products before this one", name);
}

// Sums are stored: they must be complete.
static void take_sums(Run *r, Agent *a, int sums)
{
    if (a->in[sums][0] != tile_iterations(r->p, r->p->steps, r->rounds))
        agent_wrong(r, a, "is stored without some products", r->p->tile[sums].name);
    a->held[sums].used = true;
}

static void move(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    if (r->p->tile[op->a].layout == L_SUMS)
        take_sums(r, a, op->a);
    else if (*registers_of(r, a, op->a, about) != about)
        agent_wrong(r, a, "does not hold what is moved", r->p->tile[op->a].name);
    write_own(r, who, op->dst, about, false);
}

// The scores of an iteration become its weights.
static void weigh(Run *r, Agent *a, const TileOp *op, int64_t about)
{
    for (int side = 0; side < 2; side++) {
        int t = side ? op->b : op->a;
        if (t >= 0 && a->in[t][0] != about)
            agent_wrong(r, a, "is not of this iteration", r->p->tile[t].name);
    }
    for (int t = 0; t < r->p->ntiles; t++)
        if (r->p->tile[t].layout == L_WEIGHTS) a->in[t][0] = about;
}

static void map(Run *r, int who, const TileOp *op, int64_t about)
{
    Agent *a = &r->agent[who];
    if (op->dst >= 0) {
        weigh(r, a, op, about);
        return;
    }
    if (tile_shared(&r->p->tile[op->a]))
        read_place(r, who, op->a, 0, about, r->blocks > 1);
    else
        take_sums(r, a, op->a);
    a->mapped++;
}

void agent_thread_op(Run *r, int who, const TileOp *op, int64_t about)
{
    switch (op->kind) {
    case T_FILL: r->agent[who].in[op->dst][0] = 0; break;
    case T_LOAD: load(r, who, op, about); break;
    case T_MOVE: move(r, who, op, about); break;
    case T_MMA: multiply(r, who, op, about); break;
    case T_MAP: map(r, who, op, about); break;
    default: break;
    }
}

// The number of parts in which a warp stores its results.
static int64_t parts(const TileProgram *p, const Tile *sums)
{
    return sums->of_warp ? p->side_m / (sums->lines / (p->warps_m * p->warps_n)) : 1;
}

void agent_end_thread(Run *r, const Agent *a)
{
    for (int t = 0; t < r->p->ntiles; t++) {
        const Tile *sums = &r->p->tile[t];
        if (sums->layout == L_SUMS && !a->held[t].used)
            agent_wrong(r, a, "is not stored", sums->name);
        if (sums->layout == L_ROWS &&
            a->mapped != tile_iterations(r->p, parts(r->p, sums), r->rounds))
            agent_wrong(r, a, "is not stored as often as there are parts of it", sums->name);
    }
}
