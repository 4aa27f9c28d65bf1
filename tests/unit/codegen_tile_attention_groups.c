// Tile programs of attention by groups of warps: what the sync pass makes of them, and mistakes in
// them, each of which the verifier has to find.
#include "codegen/tile/wgmma.h"
#include "tests/unit/attention_body.h"

// (skew: scores of the next columns before the results of these)
static const Case cases[] = {
    {"forward",
     1,
     1,
     false,
     DT_BF16,
     700,
     1000,
     64,
     {.tile = {.m = 128, .k = 128, .ring = 2}, .skew = 1},
     false},
    {"no skew", 1, 1, false, DT_F16, 700, 500, 40, {.tile = {.m = 192, .k = 64, .ring = 3}}, false},
    {"one group",
     1,
     1,
     true,
     DT_BF16,
     70,
     400,
     128,
     {.tile = {.m = 64, .k = 80, .ring = 2}, .skew = 1},
     false},
    {"queries",
     2,
     1,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.tile = {.m = 192, .k = 64, .ring = 2}, .skew = 1},
     false},
    {"keys",
     2,
     2,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.tile = {.m = 128, .k = 64, .ring = 3}, .skew = 1},
     false},
    {"keys, no skew",
     2,
     2,
     true,
     DT_BF16,
     300,
     999,
     128,
     {.tile = {.m = 128, .k = 64, .ring = 2}},
     false},
    {"forward, a number for a mask",
     1,
     1,
     false,
     DT_BF16,
     300,
     700,
     64,
     {.tile = {.m = 128, .k = 128, .ring = 2}, .skew = 1},
     true},
    {"queries, likewise",
     2,
     1,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.tile = {.m = 192, .k = 64, .ring = 2}, .skew = 1},
     true},
    {"keys, likewise",
     2,
     2,
     true,
     DT_F16,
     300,
     400,
     64,
     {.tile = {.m = 128, .k = 64, .ring = 2}},
     true},
    {"one step",
     1,
     1,
     false,
     DT_BF16,
     256,
     64,
     64,
     {.tile = {.m = 128, .k = 64, .ring = 2}, .skew = 1},
     false},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool from_sync(const TileOp *op)
{
    return op->kind >= T_COMMIT;
}

// Whether the order of the two matters to what is right.
static bool ordered(TileKind a, TileKind b)
{
    static const struct {
        TileKind first, second;
    } pairs[] = {
        {T_BEGIN, T_MMA}, {T_MMA, T_COMMIT}, {T_WAIT, T_ARRIVE},
        {T_WAIT, T_MAP},  {T_MAP, T_SHRINK}, {T_WAIT, T_SHRINK},
        {T_MAP, T_MOVE},  {T_SHRINK, T_MMA}, {T_MOVE, T_MMA},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].first == a && pairs[i].second == b) return true;
    return false;
}

// Threads have used registers of sums since the last fence.
static bool needed_fence(const TileProgram *p, int i)
{
    while (p->op[--i].kind != T_LOOP && p->op[i].kind != T_MOVE)
        if (p->op[i].kind == T_BEGIN) return false;
    return true;
}

// The product before it is in a group with the next one, and both are waited for together.
static bool needed_commit(const TileProgram *p, int i)
{
    const int dst = p->op[i - 1].dst;
    while (p->op[++i].kind != T_WAIT)
        if (p->op[i].kind == T_MMA) return p->tile[p->op[i].dst].layout != p->tile[dst].layout;
    return true;
}

// A place of another ring is given back behind op i in the same loop: who fills both waits for
// that.
static bool later_arrival(const TileProgram *p, int i)
{
    for (i++; p->op[i].kind != T_END; i++)
        if (p->op[i].kind == T_ARRIVE) return true;
    return false;
}

// The ring is filled behind another one that is drained later.
static bool implied(const TileProgram *p, int bar)
{
    int arrives[TILE_MOST_BARS] = {0}, awaits[TILE_MOST_BARS] = {0};
    for (int i = p->nops - 1; i >= 0; i--) {
        if (p->op[i].kind == T_ARRIVE) arrives[p->op[i].bar] = i;
        if (p->op[i].kind == T_AWAIT) awaits[p->op[i].bar] = i;
    }
    for (int i = 3; i < p->nbars; i += 2)
        if (bar > 1 && awaits[i] < awaits[bar] && arrives[i] > arrives[bar]) return true;
    return false;
}

// What the mbarrier is about stays for a tile of rows: its place is of that, not of a step.
static bool stays(const TileProgram *p, int bar)
{
    for (int t = 0; t < p->ntiles; t++)
        if (p->bar[bar].tiles >> t & 1 && p->tile[t].stays) return true;
    return false;
}

// Mistake number [n] at op i. false: there is none there.
static bool spoil_groups(TileProgram *p, int i, int n, const char **what)
{
    TileOp *op = &p->op[i], *next = &p->op[i + 1];
    static const char *const names[] = {
        "an op of the sync pass less",
        "of the other parity",
        "an arrival less is waited for",
        "an arrival more is waited for",
        "bytes that are not waited for",
        "the place before",
        "a group more under way",
        "in the wrong order",
        "a load less",
        "a product less",
        "twice multiplied",
        "a step less",
        "places that overlap",
        "registers that there are not",
        "a map less",
        "another step's values",
        "a look less",
        "looked, or told, before anything is known",
    };
    if (n >= (int)(sizeof names / sizeof *names)) return false;
    *what = names[n];
    switch (n) {
    case 0:
        if (!from_sync(op) || (op->kind == T_BEGIN && !needed_fence(p, i))) break;
        if (op->kind == T_COMMIT && !needed_commit(p, i)) break;
        if (op->kind == T_AWAIT && implied(p, op->bar)) break;
        leave_out(p, i);
        return true;
    case 1: return op->kind == T_AWAIT && (op->count ^= 1, true);
    case 2:
        if (op->kind != T_ARRIVE || implied(p, op->bar)) break;
        p->bar[op->bar].arrivals--;
        return true;
    case 3:
        if (op->kind != T_ARRIVE && op->kind != T_ANNOUNCE) break;
        return p->bar[op->bar].arrivals++, true;
    case 4:
        if (op->kind != T_ANNOUNCE) break;
        p->bar[op->bar].bytes -= LINE;
        return true;
    case 5:
        if (op->kind != T_ARRIVE || stays(p, op->bar) || p->steps < 2) break;
        op->shift--;
        return true;
    case 6: return op->kind == T_WAIT && (op->count++, true);
    case 7:
        if (i + 1 == p->nops || !ordered(op->kind, next->kind)) break;
        if (op->kind == T_BEGIN && !needed_fence(p, i)) break;
        if (op->kind == T_MMA && !needed_commit(p, i + 1)) break;
        if (next->kind == T_ARRIVE && later_arrival(p, i + 1)) break;
        swap(p, i, i + 1);
        return true;
    case 8: return op->kind == T_LOAD && (leave_out(p, i), true);
    case 9: return op->kind == T_MMA && (leave_out(p, i), true);
    case 10:
        if (op->kind != T_MMA || p->nops == TILE_MOST_OPS) break;
        memmove(next, op, sizeof(TileOp) * (size_t)(p->nops++ - i));
        return true;
    case 11: return op->kind == T_LOOP && op->early-- < -99;
    case 12:
        if (op->kind != T_READY) break;
        p->tile[1].offset -= LINE;
        return true;
    case 13: return op->kind == T_READY && (p->role[0].registers += 512, true);
    case 14:
        if (op->kind != T_MAP && op->kind != T_MOVE && op->kind != T_SHRINK) break;
        leave_out(p, i);
        return true;
    case 15: return op->kind == T_MMA && p->steps > 1 && (op->shift--, true);
    case 16: return op->kind == T_JUDGE && (leave_out(p, i), true);
    case 17: {
        bool told = op->kind == T_BARRIER && op->scope == OF_BLOCK;
        if (!told && (op->kind != T_JUDGE || p->body->attention.high < 0)) break;
        const TileOp early = *op;
        int at = i;
        while (p->op[at].kind != (told ? T_AGAIN : T_TILES)) at--;
        memmove(&p->op[at + 2], &p->op[at + 1], sizeof(TileOp) * (size_t)(i - at - 1));
        p->op[at + 1] = early;
        return true;
    }
    }
    return false;
}

static Body *planned(Arena *a, const Case *c, const Node *dot, const Target *target)
{
    Body *b = body_of(a, c, dot);
    CHECK(attention_find(b) && attention_groups_fit(b, target));
    if (c->scores == 1) b->attention.high = 0; // results have a scale
    b->sched = c->sched;
    b->sched.kind = SCHED_ATTENTION;
    b->sched.tile.wgmma = WGMMA_SHARED;
    attention_derive(b, target);
    return b;
}

int main(void)
{
    const Target target = target_cuda(90, true);
    int mistakes = 0;
    for (int i = 0; i < CASES; i++) {
        Arena *a = arena_new();
        const Case *c = &cases[i];
        Node operand = {.type = type_scalar(c->type)}, *args[2] = {&operand, &operand};
        Node dot = {.op = OP_dot, .args = args, .nargs = 2};
        Body *b = planned(a, c, &dot, &target);
        CHECK(b->sched.tile.m == c->sched.tile.m && b->sched.tile.k == c->sched.tile.k);
        CHECK(b->sched.blocks == at_most(2 * ceil_div(c->rows, c->sched.tile.m), target.units));
        TileProgram p = tile_program(b), plain;
        Buf text = buf_new(a);
        tile_text(&p, &text);
        const char *found = verify(a, &p, 20);
        CHECK_MSG(!found, "%s: %s\n%s", c->name, found, text.data);
        CHECK(p.nops <= TILE_MOST_OPS && p.ntiles <= TILE_MOST_TILES);
        tile_attention_groups(b, &plain); // a builder knows nothing of these
        CHECK(!count(&plain, T_COMMIT, T_PASS) && !plain.nbars);
        if (p.steps > 1) mistakes += all_found(spoil_groups, &p, 60, c->name, text.data);
        CHECK(attention_groups_plan(b, &target)); // what the cost model takes of it fits
        CHECK(b->sched.shared_bytes <= target.shared_per_block);
        p = tile_program(b);
        found = verify(a, &p, 8);
        CHECK_MSG(!found, "%s: %s", c->name, found);
        arena_free(a);
    }
    CHECK_MSG(mistakes >= 300, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    return unit_done();
}
