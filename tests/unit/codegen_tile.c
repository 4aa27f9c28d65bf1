// Tile programs: what the sync pass makes of them, and mistakes in them, each of which the verifier
// has to find.
#include <string.h>

#include "tests/unit/tile.h"
#include "tests/unit/unit.h"

typedef struct Case {
    const char *name;
    Schedule sched;
    bool narrow; // operands of 16 bits
    bool computed[2];
    int64_t k;
} Case;

static const Case cases[] = {
    {"copied",
     {.variant = RUN_F32_RING, .tile = {.staged = 3, .m = 64, .n = 64}},
     false,
     {false, false},
     32 * 17},
    {"all there",
     {.variant = RUN_F32_RING, .tile = {.staged = 5, .m = 64, .n = 64}},
     false,
     {false, false},
     32 * 5},
    {"left computed",
     {.variant = RUN_F32_RING, .tile = {.staged = 4, .m = 64, .n = 32}},
     false,
     {true, false},
     64 * 14},
    {"computed",
     {.variant = RUN_F32_RING, .tile = {.staged = 2, .m = 64, .n = 64}},
     false,
     {true, true},
     32 * 11},
    {"cluster",
     {.variant = RUN_F32_RING, .tile = {.staged = 3, .m = 32, .n = 32}, .cluster = 2},
     false,
     {false, true},
     2048},
    {"narrow",
     {.variant = RUN_MMA, .tile = {.each = 8, .m = 128, .n = 128}},
     true,
     {false, false},
     640},
    {"narrow computed",
     {.variant = RUN_MMA, .tile = {.each = 4, .m = 64, .n = 64}},
     true,
     {false, true},
     640},
    {"square",
     {.variant = RUN_TILES, .tile = {.each = 4, .m = 64, .n = 64, .k = 32}},
     false,
     {false, true},
     300},
    {"small",
     {.variant = RUN_TILES, .tile = {.each = 0, .m = 16, .n = 16, .k = 64}},
     false,
     {true, true},
     64},
    {"warps",
     {.variant = RUN_WARP_TILES, .tile = {.share = 1, .each = 2, .m = 32, .n = 32, .k = 16}},
     false,
     {false, true},
     640},
    {"warps share",
     {.variant = RUN_WARP_TILES, .tile = {.share = 4, .each = 1, .m = 16, .n = 16, .k = 16}},
     false,
     {true, false},
     1000},
    {"narrow warps",
     {.variant = RUN_WARP_TILES, .tile = {.share = 8, .each = 3, .m = 32, .n = 16, .k = 16}},
     true,
     {false, true},
     768},
    {"a cluster's warps",
     {.variant = RUN_WARP_TILES,
      .tile = {.share = 8, .each = 2, .m = 32, .n = 32, .k = 16},
      .cluster = 4},
     true,
     {false, false},
     3072},
    {"one step",
     {.variant = RUN_MMA, .tile = {.each = 2, .m = 32, .n = 32}},
     true,
     {true, true},
     24},
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
    if (!s->tile.k)
        s->tile.k = c->narrow ? 64 : 16 * staged_sharing(s) < 32 ? 32 : 16 * staged_sharing(s);
    return b;
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
        const char *found = verify(a, &p, 3);
        CHECK_MSG(!found, "%s: %s\n%s", cases[i].name, found, text.data);
        CHECK(p.nops <= TILE_MOST_OPS && p.ntiles <= TILE_MOST_TILES);
        tile_product(b, &plain); // a builder knows nothing of these
        CHECK(!count(&plain, T_COMMIT, T_BARRIER));
        tile_pipeline(&plain);
        bool shared = false;
        for (int t = 0; t < plain.ntiles; t++) shared |= tile_shared(&plain.tile[t]);
        CHECK(!verify(a, &plain, 3) == !shared);
        mistakes += all_found(spoil, &p, 3, cases[i].name, text.data);
    }
    CHECK_MSG(mistakes >= 60, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    arena_free(a);
    return unit_done();
}
