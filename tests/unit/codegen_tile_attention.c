// Tile programs of attention: what a body is found to be made of, one program for each form and
// schedule, and mistakes in them, each of which the verifier has to find.
#include "tests/unit/tile.h"

typedef struct Case {
    const char *name;
    int scores, results;
    bool shared; // the values are the columns that scores are made of
    DType type;
    int64_t rows, cols, head;
    Schedule sched;
} Case;

static const Case cases[] = {
    {"forward",
     1,
     1,
     false,
     DT_BF16,
     256,
     640,
     64,
     {.each = 2, .tile_m = 128, .tile_k = 64, .ring = 2}},
    {"three places",
     1,
     1,
     false,
     DT_F16,
     100,
     500,
     40,
     {.each = 1, .tile_m = 64, .tile_k = 32, .ring = 3}},
    {"four places",
     1,
     1,
     true,
     DT_BF16,
     70,
     1000,
     24,
     {.each = 1, .tile_m = 64, .tile_k = 16, .ring = 4}},
    {"queries",
     2,
     1,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.each = 2, .tile_m = 64, .tile_k = 32, .ring = 2}},
    {"keys",
     2,
     2,
     true,
     DT_BF16,
     300,
     333,
     64,
     {.each = 1, .tile_m = 128, .tile_k = 32, .ring = 3}},
    {"f32", 1, 1, false, DT_F32, 64, 200, 32, {.each = 1, .tile_m = 32, .tile_k = 32, .ring = 2}},
    {"one step",
     1,
     1,
     false,
     DT_BF16,
     64,
     30,
     32,
     {.each = 1, .tile_m = 64, .tile_k = 64, .ring = 2}},
};
enum { CASES = sizeof cases / sizeof *cases };
enum { BATCH, ROWS, RESULT, COLS = RESULT + MOST_PRODUCTS, HEAD };

static int add(Arena *a, Body *b, Inst i)
{
    for (int k = 0; k < i.na; k++) i.axes |= b->insts.at[i.a[k]].axes;
    if (i.kind == KI_REDUCE) i.axes &= ~(1ull << i.axis);
    vec_push(a, &b->insts, i);
    return (int)b->insts.n - 1;
}

// Element (batch, place along [axis], place along [head]) of matrix number [buf], as a product
// takes it.
static int factor(Arena *a, Body *b, const Case *c, int buf, int axis, int head)
{
    const int64_t lines = b->axis[axis].extent;
    const Ix *at[3] = {ix_axis(b->ix, BATCH, 2), ix_axis(b->ix, axis, lines),
                       ix_axis(b->ix, head, c->head)};
    const int64_t dim[3] = {2, lines, c->head};
    int v = add(a, b,
                (Inst){.kind = KI_LOAD,
                       .type = c->type,
                       .pred = -1,
                       .buf = buf,
                       .ix = ix_linear(b->ix, at, dim, 3),
                       .axes = 1ull << BATCH | 1ull << axis | 1ull << head});
    if (c->type == DT_F32) return v;
    return add(a, b, (Inst){.kind = KI_CAST, .type = DT_F32, .from = c->type, .na = 1, .a = {v}});
}

static int product(Arena *a, Body *b, int x, int y, int axis, const Node *dot)
{
    int p = add(a, b, (Inst){.kind = KI_EW, .op = OP_mul, .type = DT_F32, .na = 2, .a = {x, y}});
    Inst sum = {.kind = KI_REDUCE, .op = OP_sum, .type = DT_F32, .acc = DT_F32, .na = 1, .a = {p}};
    sum.axis = axis;
    sum.node = dot;
    return add(a, b, sum);
}

static Body *body_of(Arena *a, const Case *c, const Node *dot)
{
    Body *b = NEW(a, Body);
    const int64_t extent[] = {2, c->rows, c->head, c->head, c->cols, c->head, c->head};
    b->ix = ix_new(a);
    b->dot.sum = b->error_buf = -1;
    b->npar = RESULT + c->results;
    b->col = COLS;
    b->naxes = HEAD + MOST_PRODUCTS;
    for (int i = 0; i < b->naxes; i++) b->axis[i].extent = extent[i];
    for (int i = 0; i < 3 * MOST_PRODUCTS; i++)
        vec_push(a, &b->bufs, (BodyBuf){.kind = KA_NODE, .type = c->type, .elems = 1 << 20});
    int score[MOST_PRODUCTS];
    for (int i = 0; i < c->scores; i++)
        score[i] = product(a, b, factor(a, b, c, i, ROWS, HEAD + i),
                           factor(a, b, c, 2 + i, COLS, HEAD + i), HEAD + i, dot);
    for (int i = 0; i < c->results; i++)
        product(a, b, score[i], factor(a, b, c, c->shared ? 2 + i : 4 + i, COLS, RESULT + i), COLS,
                dot);
    return b;
}

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
        CHECK(b->sched.blocks == 2 * ceil_div(c->rows, c->sched.tile_m));
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
        mistakes += all_found(a, &p, c->name, text.data);
        plan_attention(&target, b); // what the cost model takes of it fits
        CHECK(b->sched.row_bytes <= target.shared_per_block && b->sched.threads >= 32);
        p = tile_program(b);
        found = verify(a, &p, 3);
        CHECK_MSG(!found, "%s: %s", c->name, found);
    }
    CHECK_MSG(mistakes >= 60, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    arena_free(a);
    return unit_done();
}
