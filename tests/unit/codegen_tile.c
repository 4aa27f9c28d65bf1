// Tile programs: what the sync pass makes of them, and mistakes in them, each of which the verifier
// has to find.
#include <string.h>

#include "codegen/tile/tile.h"
#include "tests/unit/unit.h"

typedef struct Case {
    const char *name;
    Schedule sched;
    bool narrow; // operands of 16 bits
    bool computed[2];
    int64_t k;
} Case;

static const Case cases[] = {
    {"copied", {.staged = 3, .tile_m = 64, .tile_n = 64}, false, {false, false}, 32 * 17},
    {"all there", {.staged = 5, .tile_m = 64, .tile_n = 64}, false, {false, false}, 32 * 5},
    {"left computed", {.staged = 4, .tile_m = 64, .tile_n = 32}, false, {true, false}, 64 * 14},
    {"computed", {.staged = 2, .tile_m = 64, .tile_n = 64}, false, {true, true}, 32 * 11},
    {"cluster",
     {.staged = 3, .tile_m = 32, .tile_n = 32, .cluster = 2},
     false,
     {false, true},
     2048},
    {"narrow", {.mma = true, .each = 8, .tile_m = 128, .tile_n = 128}, true, {false, false}, 640},
    {"narrow computed",
     {.mma = true, .each = 4, .tile_m = 64, .tile_n = 64},
     true,
     {false, true},
     640},
    {"square", {.each = 4, .tile_m = 64, .tile_n = 64, .tile_k = 32}, false, {false, true}, 300},
    {"small", {.each = 0, .tile_m = 16, .tile_n = 16, .tile_k = 64}, false, {true, true}, 64},
    {"one step", {.mma = true, .each = 2, .tile_m = 32, .tile_n = 32}, true, {true, true}, 24},
};
enum { CASES = sizeof cases / sizeof *cases, EXTENT = 256 };

static int add(Arena *a, Body *b, Inst i)
{
    vec_push(a, &b->insts, i);
    return (int)b->insts.n - 1;
}

// An operand along the columns; a computed one is what its load is negated to.
static int add_operand(Arena *a, Body *b, const Case *c, int axis)
{
    const DType type = c->narrow ? DT_BF16 : DT_F32;
    const Ix *row = ix_scale(b->ix, ix_axis(b->ix, axis, EXTENT), c->k),
             *at = ix_add(b->ix, row, ix_axis(b->ix, 3, c->k));
    vec_push(a, &b->bufs, (BodyBuf){.kind = KA_NODE, .type = type, .elems = EXTENT * c->k});
    uint64_t axes = 1ull << axis | 1ull << 3;
    int v = add(a, b,
                (Inst){.kind = KI_LOAD,
                       .type = type,
                       .pred = -1,
                       .buf = (int)b->bufs.n - 1,
                       .ix = at,
                       .axes = axes});
    if (c->computed[axis - 1])
        v = add(a, b,
                (Inst){.kind = KI_EW, .op = OP_neg, .type = type, .na = 1, .a = {v}, .axes = axes});
    if (c->narrow)
        v = add(
            a, b,
            (Inst){.kind = KI_CAST, .type = DT_F32, .from = type, .na = 1, .a = {v}, .axes = axes});
    return v;
}

static Body *body_of(Arena *a, const Case *c)
{
    Body *b = NEW(a, Body);
    b->ix = ix_new(a);
    b->naxes = 4;
    b->npar = 3;
    b->col = 3;
    b->axis[0].extent = 1;
    b->axis[1].extent = b->axis[2].extent = EXTENT;
    b->axis[3].extent = c->k;
    b->dot.a = add_operand(a, b, c, 1);
    b->dot.b = add_operand(a, b, c, 2);
    b->dot.tensor = c->narrow ? 0 : TENSOR_TF32;
    b->dot.sum = add(a, b,
                     (Inst){.kind = KI_REDUCE,
                            .op = OP_sum,
                            .type = DT_F32,
                            .acc = DT_F32,
                            .na = 1,
                            .a = {b->dot.b},
                            .axis = 3});
    b->sched = c->sched;
    Schedule *s = &b->sched;
    s->kind = SCHED_TILE;
    s->threads = 256;
    if (!s->cluster) s->cluster = 1;
    if (!s->tile_k)
        s->tile_k = c->narrow ? 64 : 16 * staged_sharing(s) < 32 ? 32 : 16 * staged_sharing(s);
    return b;
}

static const char *verify(Arena *a, const TileProgram *p)
{
    const char *found = NULL;
    for (uint64_t seed = 1; seed <= 3 && !found; seed++) found = tile_verify(a, p, seed);
    return found;
}

static int count(const TileProgram *p, TileKind kind)
{
    int n = 0;
    for (int i = 0; i < p->nops; i++) n += p->op[i].kind == kind;
    return n;
}

// -- mistakes -------------------------------------------------------------------------------------

static void leave_out(TileProgram *p, int i)
{
    memmove(&p->op[i], &p->op[i + 1], sizeof(TileOp) * (size_t)(--p->nops - i));
}

static void swap(TileProgram *p, int i, int j)
{
    TileOp o = p->op[i];
    p->op[i] = p->op[j];
    p->op[j] = o;
}

// Mistake number [n] at op i. false: there is none there.
static bool spoil(TileProgram *p, int i, int n, const char **what)
{
    TileOp *op = &p->op[i], *next = &p->op[i + 1];
    bool ring = op->kind == T_LOAD && op->how == BY_ASYNC;
    ring |= op->kind == T_MOVE && p->tile[op->dst].axis;
    ring &= op->shift < p->steps + !p->atom->word; // else it is never done
    static const char *const names[] = {
        "a barrier less",
        "of a smaller scope",
        "a wait less",
        "a group more under way",
        "a group not ended",
        "a wait behind its barrier",
        "a barrier behind what needs it",
        "the next step's place",
        "the place before",
        "a load less",
        "a product less",
        "a place less",
        "tiles that overlap",
        "one iteration less",
        "twice multiplied",
    };
    if (n >= (int)(sizeof names / sizeof *names)) return false;
    *what = names[n];
    switch (n) {
    case 0: return op->kind == T_BARRIER && (leave_out(p, i), true);
    case 1:
        if (op->kind != T_BARRIER || op->scope == OF_WARP) break;
        op->scope = op->scope == OF_BLOCK ? OF_WARP : OF_BLOCK;
        return true;
    case 2: return op->kind == T_WAIT && (leave_out(p, i), true);
    case 3: return op->kind == T_WAIT && (op->count++, true);
    case 4: return op->kind == T_COMMIT && (leave_out(p, i), true);
    case 5: return op->kind == T_WAIT && next->kind == T_BARRIER && (swap(p, i, i + 1), true);
    case 6:
        if (op->kind != T_BARRIER || (next->kind != T_MMA && next->kind != T_MAP)) break;
        swap(p, i, i + 1);
        return true;
    case 7: return op->kind == T_MMA && (op->shift++, true);
    case 8: return ring && op->shift && (op->shift--, true);
    case 9: return ring && (leave_out(p, i), true);
    case 10: return op->kind == T_MMA && (leave_out(p, i), true);
    case 11:
        if (op->kind != T_MMA || p->tile[op->a].places < 2 || p->steps < p->tile[op->a].places)
            break;
        p->tile[op->a].places--;
        return true;
    case 12:
        if (op->kind != T_MMA) break;
        p->tile[op->b].offset = p->tile[op->a].offset;
        return true;
    case 13: return op->kind == T_LOOP && op->trips > 1 && (op->trips--, true);
    case 14:
        if (op->kind != T_MMA || p->nops == TILE_MOST_OPS) break;
        memmove(next, op, sizeof(TileOp) * (size_t)(p->nops++ - i));
        return true;
    }
    return false;
}

int main(void)
{
    Arena *a = arena_new();
    int mistakes = 0;
    for (int i = 0; i < CASES; i++) {
        const Body *b = body_of(a, &cases[i]);
        TileProgram p = tile_program(b), plain;
        Buf text = buf_new(a);
        tile_text(&p, &text);
        const char *found = verify(a, &p);
        CHECK_MSG(!found, "%s: %s\n%s", cases[i].name, found, text.data);
        CHECK(p.nops <= TILE_MOST_OPS && p.ntiles <= TILE_MOST_TILES);
        tile_product(b, &plain); // a builder knows nothing of these
        CHECK(!count(&plain, T_BARRIER) && !count(&plain, T_WAIT) && !count(&plain, T_COMMIT));
        tile_pipeline(&plain);
        CHECK(verify(a, &plain));
        for (int at = 0; at < p.nops; at++)
            for (int n = 0;; n++) {
                TileProgram broken = p;
                const char *what = NULL;
                bool is = spoil(&broken, at, n, &what);
                if (!what) break;
                if (!is) continue;
                mistakes++;
                CHECK_MSG(verify(a, &broken), "%s, op %d: %s is not found\n%s", cases[i].name, at,
                          what, text.data);
            }
    }
    CHECK_MSG(mistakes >= 60, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    arena_free(a);
    return unit_done();
}
