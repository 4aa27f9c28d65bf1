// Tile programs of attention: what a body is found to be made of, one program for each form and
// schedule, and mistakes in them, each of which the verifier has to find.
#include "tests/unit/attention_body.h"

static const Case cases[] = {
    {"forward",
     1,
     1,
     false,
     DT_BF16,
     256,
     640,
     64,
     {.tile = {.each = 2, .m = 128, .k = 64, .ring = 2}},
     false},
    {"three places",
     1,
     1,
     false,
     DT_F16,
     100,
     500,
     40,
     {.tile = {.each = 1, .m = 64, .k = 32, .ring = 3}},
     false},
    {"four places",
     1,
     1,
     true,
     DT_BF16,
     70,
     1000,
     24,
     {.tile = {.each = 1, .m = 64, .k = 16, .ring = 4}},
     false},
    {"queries",
     2,
     1,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.tile = {.each = 2, .m = 64, .k = 32, .ring = 2}},
     false},
    {"keys",
     2,
     2,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.tile = {.each = 1, .m = 128, .k = 32, .ring = 3}},
     false},
    {"f32",
     1,
     1,
     false,
     DT_F32,
     64,
     200,
     32,
     {.tile = {.each = 1, .m = 32, .k = 32, .ring = 2}},
     false},
    {"one step",
     1,
     1,
     false,
     DT_BF16,
     64,
     30,
     32,
     {.tile = {.each = 1, .m = 64, .k = 64, .ring = 2}},
     false},
};
enum { CASES = sizeof cases / sizeof *cases };
int main(void)
{
    Arena *a = arena_new();
    const Target target = target_cuda(90, true);
    int mistakes = 0;
    for (int i = 0; i < CASES; i++) {
        const Case *c = &cases[i];
        Node operand = {.type = type_scalar(c->type)}, *args[2] = {&operand, &operand};
        Node dot = {.op = OP_dot, .args = args, .nargs = 2};
        Body *b = body_of(a, c, &dot);
        CHECK_MSG(attention_find(b), "%s", c->name);
        CHECK(b->attention.nscores == c->scores && b->attention.nouts == c->results);
        CHECK(b->attention.high < 0 && b->attention.total < 0);
        b->sched = c->sched;
        b->sched.kind = SCHED_ATTENTION;
        attention_derive(b, &target);
        CHECK(b->sched.blocks == 2 * ceil_div(c->rows, c->sched.tile.m));
        TileProgram p = tile_program(b), plain;
        int factors = 0;
        for (int t = 0; t < p.ntiles; t++) factors += tile_shared(&p.tile[t]);
        CHECK_MSG(factors == 2 * c->scores + (c->shared ? 0 : c->results), "%s: %d", c->name,
                  factors); // a matrix that two products read is there once
        Buf text = buf_new(a);
        tile_text(&p, &text);
        const char *found = verify(a, &p, 3);
        CHECK_MSG(!found, "%s: %s\n%s", c->name, found, text.data);
        CHECK(p.nops <= TILE_MOST_OPS && p.ntiles <= TILE_MOST_TILES);
        tile_attention(b, &plain); // a builder knows nothing of these
        CHECK(!count(&plain, T_COMMIT, T_BARRIER));
        tile_pipeline(&plain);
        CHECK(verify(a, &plain, 3));
        mistakes += all_found(spoil, &p, 3, c->name, text.data);
        const Target before = target_cuda(80, true);
        plan_attention(&before, b); // what the cost model takes of it fits
        CHECK(b->sched.shared_bytes <= before.shared_per_block && b->sched.threads >= 32);
        p = tile_program(b);
        found = verify(a, &p, 3);
        CHECK_MSG(!found, "%s: %s", c->name, found);
    }
    CHECK_MSG(mistakes >= 60, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    arena_free(a);
    return unit_done();
}
