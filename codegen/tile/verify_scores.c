// The effects of the ops of attention by groups of warps on a thread's registers, as far as the
// verification of a program needs them: scores, weights and results belong to a step, and products
// read and write them until they complete.
#include "codegen/tile/agents.h"

// The number of steps of a tile of rows: pseudo-random, from 1 to a number that suffices to use the
// rings repeatedly.
int64_t agent_steps(const Run *r, int64_t tile)
{
    uint64_t x = (r->seed + 1) * 6364136223846793005ull + (uint64_t)tile * 1442695040888963407ull;
    int64_t most = r->p->steps < 6 ? r->p->steps : 6;
    return 1 + (int64_t)((x ^ x >> 29) >> 20 & 1023) % most;
}

// The step that an op belongs to.
static int64_t step_of(const Run *r, const Agent *a)
{
    return a->loop != NOTHING ? a->iteration : a->passed ? agent_steps(r, a->tile) : 0;
}

int64_t agent_place(const Run *r, const Agent *a, int tile, int shift)
{
    if (r->p->tile[tile].stays) return a->tile;
    int64_t before = 0;
    for (int64_t t = 0; t < a->tile; t++) before += agent_steps(r, t);
    return before + step_of(r, a) + shift;
}

void agent_begin_tile(Agent *a)
{
    for (int t = 0; t < TILE_MOST_TILES; t++) a->held[t] = (Held){.step = NOTHING};
}

void agent_end_tile(Run *r, const Agent *a)
{
    for (int t = 0; t < r->p->ntiles; t++)
        if (r->p->tile[t].layout == L_SUMS && !a->held[t].used)
            agent_wrong(r, a, "is not stored", r->p->tile[t].name);
}

// Threads read a tile: products that write it must have completed.
static void check_settled(Run *r, const Agent *a, int tile)
{
    if (a->held[tile].writer > a->by_products.done)
        agent_wrong(r, a, "is read before its products are done", r->p->tile[tile].name);
}

static void check_step(Run *r, const Agent *a, int tile, int64_t step)
{
    if (a->held[tile].step != step)
        agent_wrong(r, a, "is of another step than the one meant", r->p->tile[tile].name);
}

static void multiply(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    const TileProgram *p = r->p;
    Held *to = &a->held[op->dst];
    int64_t step = step_of(r, a) + op->shift;
    const char *name = p->tile[op->dst].name;
    if (!a->begun) agent_wrong(r, a, "may still be in use by threads", name);
    agent_read(r, who, op->b, agent_place(r, a, op->b, op->shift), &a->by_products);
    if (p->tile[op->dst].layout == L_SCORES) {
        agent_read(r, who, op->a, agent_place(r, a, op->a, op->shift), &a->by_products);
        if (to->step != NOTHING && !to->used)
            agent_wrong(r, a, "is overwritten before it is used", name);
        for (int t = 0; t < p->ntiles && p->tight; t++)
            if (p->tile[t].layout == L_WEIGHTS && a->held[t].reader > a->by_products.done)
                agent_wrong(r, a, "takes registers that are still multiplied", name);
        to->step = step;
        to->used = false;
    } else {
        check_step(r, a, op->a, step);
        if (to->step != step - 1)
            agent_wrong(r, a, "has not had the products before this one", name);
        if (step && p->body->attention.high >= 0 && to->shrunk != step)
            agent_wrong(r, a, "is not to the same scale as what is added", name);
        a->held[op->a].reader = a->by_products.groups + 1;
        to->step = step;
    }
    to->writer = a->by_products.groups + 1;
}

static void map_scores(Run *r, Agent *a, int tile, int64_t step)
{
    check_step(r, a, tile, step);
    check_settled(r, a, tile);
    if (a->held[tile].used) agent_wrong(r, a, "is mapped twice", r->p->tile[tile].name);
    a->held[tile].used = true;
}

static void move_weights(Run *r, Agent *a, const TileOp *op, int64_t step)
{
    Held *to = &a->held[op->dst];
    const char *name = r->p->tile[op->dst].name;
    check_step(r, a, op->a, step);
    if (!a->held[op->a].used) agent_wrong(r, a, "is none of weights yet", name);
    if (to->reader > a->by_products.done)
        agent_wrong(r, a, "is overwritten while it is multiplied", name);
    if (to->step != NOTHING && !to->reader)
        agent_wrong(r, a, "is overwritten before it is multiplied", name);
    to->step = step;
    to->reader = 0;
}

void agent_score_op(Run *r, int who, const TileOp *op)
{
    Agent *a = &r->agent[who];
    int64_t step = step_of(r, a);
    if (op->kind == T_MMA) {
        multiply(r, who, op);
        return;
    }
    a->begun = false;
    switch (op->kind) {
    case T_FILL: a->held[op->dst] = (Held){.step = NOTHING}; break;
    case T_MOVE: move_weights(r, a, op, step); break;
    case T_SHRINK:
        check_settled(r, a, op->dst);
        check_step(r, a, op->dst, step - 1);
        for (int t = 0; t < r->p->ntiles; t++)
            if (r->p->tile[t].layout == L_SCORES && (a->held[t].step != step || !a->held[t].used))
                agent_wrong(r, a, "says nothing of this step yet", r->p->tile[t].name);
        a->held[op->dst].shrunk = step;
        break;
    case T_MAP:
        if (op->dst >= 0) {
            map_scores(r, a, op->a, step);
            if (op->b >= 0) map_scores(r, a, op->b, step);
            break;
        }
        check_settled(r, a, op->a);
        check_step(r, a, op->a, agent_steps(r, a->tile) - 1);
        a->held[op->a].used = true;
        break;
    default: break;
    }
}

// The threads that compute scores can judge them only after all steps.
void agent_judge(Run *r, int who)
{
    Agent *a = &r->agent[who];
    const int64_t last = agent_steps(r, a->tile) - 1;
    for (int t = 0; t < r->p->ntiles && agent_role(r, a)->groups; t++)
        if (r->p->tile[t].layout == L_SCORES && (a->held[t].step != last || !a->held[t].used))
            agent_wrong(r, a, "are not all known yet", r->p->tile[t].name);
    if (a->pass) return;
    a->judged++;
    a->judged_at = ++a->clock[who];
}

static bool judges(const TileProgram *p, int role)
{
    int i = tile_next_role(p, 0);
    while (p->op[i].role != role) i = tile_next_role(p, i + 1);
    return tile_has(p, i, tile_next_role(p, i + 1), T_JUDGE);
}

void agent_decide(Run *r, const Agent *a)
{
    bool any = false;
    for (int i = 0; i < r->nagents; i++) {
        const Agent *o = &r->agent[i];
        if (o->block != a->block || !judges(r->p, o->role)) continue;
        any = true;
        if (o->judged != r->tiles || a->clock[i] < o->judged_at)
            agent_wrong(r, a, "is decided before all tiles are known", "what is done again");
    }
    if (!any) agent_wrong(r, a, "is decided without looking", "what is done again");
}
