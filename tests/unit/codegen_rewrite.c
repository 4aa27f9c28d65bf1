// Rewrites of bodies: what they find, what they leave alone, and that nothing else changes.
#include <string.h>

#include "codegen/ir/rewrite.h"
#include "tests/unit/unit.h"

enum { ROWS = 3, COLS = 100, ROW = 1, COL = 2, BOTH = ROW | COL };

static int add(Arena *a, Body *b, Inst i)
{
    for (int k = 0; k < i.na; k++) {
        const Inst *x = &b->insts.at[i.a[k]];
        i.axes |= x->axes;
        i.stage = x->stage > i.stage ? x->stage : i.stage;
    }
    i.pred = -1;
    if (i.kind == KI_REDUCE) i.axes &= ~(uint64_t)COL, i.stage++;
    vec_push(a, &b->insts, i);
    return (int)b->insts.n - 1;
}

static int ew(Arena *a, Body *b, Op op, DType t, int x, int y)
{
    return add(a, b, (Inst){.kind = KI_EW, .op = op, .type = t, .na = y < 0 ? 1 : 2, .a = {x, y}});
}

static int widen(Arena *a, Body *b, int x)
{
    DType from = b->insts.at[x].type;
    if (from == DT_F32) return x;
    return add(a, b, (Inst){.kind = KI_CAST, .type = DT_F32, .from = from, .na = 1, .a = {x}});
}

static int reduce(Arena *a, Body *b, Op op, int x)
{
    DType t = b->insts.at[x].type;
    return add(
        a, b,
        (Inst){
            .kind = KI_REDUCE, .op = op, .type = t, .acc = t, .na = 1, .a = {x}, .axis = b->col});
}

static int load(Arena *a, Body *b, DType t, uint64_t axes)
{
    const Ix *at = axes & ROW ? ix_axis(b->ix, 0, ROWS) : ix_const(b->ix, 0);
    if (axes & COL) at = ix_add(b->ix, ix_scale(b->ix, at, COLS), ix_axis(b->ix, 1, COLS));
    vec_push(a, &b->bufs, (BodyBuf){.kind = KA_NODE, .type = t, .elems = ROWS * COLS});
    return add(
        a, b,
        (Inst){.kind = KI_LOAD, .type = t, .buf = (int)b->bufs.n - 1, .ix = at, .axes = axes});
}

static void store(Arena *a, Body *b, int value)
{
    BodyStore s = {.value = value, .stage = b->insts.at[value].stage};
    s.ix = ix_axis(b->ix, 0, ROWS);
    if (b->insts.at[value].axes & COL)
        s.ix = ix_add(b->ix, ix_scale(b->ix, s.ix, COLS), ix_axis(b->ix, 1, COLS));
    vec_push(a, &b->stores, s);
    if (s.stage >= b->nstages) b->nstages = s.stage + 1;
}

static Body *rows(Arena *a)
{
    Body *b = NEW(a, Body);
    b->ix = ix_new(a);
    b->naxes = 2;
    b->npar = 1;
    b->col = 1;
    b->axis[0].extent = ROWS;
    b->axis[1].extent = COLS;
    return b;
}

// What a softmax has, whose sum may be of another op, of exponentials under another value, or not
// alone.
typedef struct Softmax {
    const char *name;
    Op sum, exp;
    bool under_sum, other_maximum, beside, stores_between, dead;
    DType type; // of x; exponentials and their sum are f32
    bool found;
} Softmax;

static void online(void)
{
    static const Softmax cases[] = {
        {"softmax", OP_sum, OP_exp, .found = true},
        {"softmax of bf16 in f32", OP_sum, OP_exp, .type = DT_BF16, .found = true},
        {"softmax of f16 in f32", OP_sum, OP_exp, .type = DT_F16, .found = true},
        {"softmax of whole numbers", OP_sum, OP_exp, .type = DT_I32, .found = false},
        {"of bf16 under the maximum of another row", OP_sum, OP_exp, .type = DT_BF16,
         .other_maximum = true},
        {"a product of exponentials", OP_prod, OP_exp, .found = false},
        {"a sum of tanh", OP_sum, OP_tanh, .found = false},
        {"under a sum", OP_sum, OP_exp, .under_sum = true},
        {"under the maximum of another row", OP_sum, OP_exp, .other_maximum = true},
        {"beside a sum of the row", OP_sum, OP_exp, .beside = true},
        {"a result of the second stage", OP_sum, OP_exp, .stores_between = true},
        {"beside a sum that nobody reads", OP_sum, OP_exp, .dead = true, .found = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Softmax *c = &cases[i];
        Arena *a = arena_new();
        Body *b = rows(a);
        DType t = c->type ? c->type : DT_F32;
        int x = load(a, b, t, BOTH), y = c->other_maximum ? load(a, b, t, BOTH) : x;
        int max = reduce(a, b, c->under_sum ? OP_sum : OP_max, y);
        int top = widen(a, b, max), wide = widen(a, b, x);
        int d = ew(a, b, OP_sub, DT_F32, wide, top), p = ew(a, b, c->exp, DT_F32, d, -1);
        if (c->beside || c->dead) {
            int other = reduce(a, b, OP_sum, wide);
            if (c->beside) store(a, b, other);
        }
        int sum = reduce(a, b, c->sum, p), q = ew(a, b, OP_div, DT_F32, p, sum);
        if (c->stores_between) store(a, b, p);
        store(a, b, q);
        CHECK(b->nstages == 3 && b->insts.at[q].stage == 2);
        uint64_t key = body_key(b);
        Body *o = body_join_online(a, b);
        CHECK_MSG(!o == !c->found, "%s: %s", c->name, o ? "found" : "not found");
        CHECK(b->nstages == 3 && b->insts.at[sum].stage == 2); // a copy is changed
        if (o) {
            CHECK_MSG(o->nstages == 2, "%s: %d stages", c->name, o->nstages);
            CHECK(o->insts.at[max].stage == 1 && o->insts.at[sum].stage == 1);
            CHECK(o->insts.at[sum].under == 1 + max && !o->insts.at[max].under);
            CHECK(o->insts.at[q].stage == 1 && o->stores.at[o->stores.n - 1].stage == 1);
            CHECK(o->insts.at[p].stage == 1); // as before: known behind the maximum
            CHECK(body_key(o) == key && !body_join_online(a, o));
        }
        arena_free(a);
    }
}

static void picks(void)
{
    Arena *a = arena_new();
    Body *b = rows(a);
    int label = load(a, b, DT_I32, ROW), other = load(a, b, DT_I32, BOTH);
    Inst number = {.kind = KI_INDEX, .type = DT_I32, .ix = ix_axis(b->ix, 1, COLS), .axes = COL};
    int col = add(a, b, number);
    number.ix = ix_scale(b->ix, number.ix, 2);
    int twice = add(a, b, number);
    int yes = ew(a, b, OP_eq, DT_BOOL, label, col), too = ew(a, b, OP_eq, DT_BOOL, col, label);
    int less = ew(a, b, OP_lt, DT_BOOL, label, col), each = ew(a, b, OP_eq, DT_BOOL, other, col);
    int step = ew(a, b, OP_eq, DT_BOOL, label, twice);
    uint64_t key = body_key(b);
    body_mark_picks(b);
    for (int i = 0; i < (int)b->insts.n; i++)
        CHECK_MSG(b->insts.at[i].once == (i == yes ? 2 : i == too), "%d of %d %d %d", i, less, each,
                  step); // 1 + the operand that is the column's number
    CHECK(body_key(b) == key);
    arena_free(a);
}

static void quotients(void)
{
    static const struct {
        DType type;
        double by;
        bool whole, repeats;
        Quotient is;
    } cases[] = {
        {DT_F32, 3, false, false, QUOTIENT_BY_CONST},
        {DT_F32, -255, true, false, QUOTIENT_WHOLE_BY_CONST},
        {DT_BF16, 3, false, true, QUOTIENT_BY_CONST},
        {DT_F32, 0, false, true, QUOTIENT},
        {DT_F32, 0x1p20, false, false, QUOTIENT},
        {DT_F32, 0x1p-21, false, false, QUOTIENT},
        {DT_F64, 3, false, true, QUOTIENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        Body *b = rows(a);
        int x = load(a, b, cases[i].whole ? DT_U8 : cases[i].type, BOTH);
        if (cases[i].whole)
            x = add(a, b,
                    (Inst){.kind = KI_CAST, .type = DT_F32, .from = DT_U8, .na = 1, .a = {x}});
        int by = add(a, b, (Inst){.kind = KI_CONST, .type = cases[i].type, .fvalue = cases[i].by});
        int q = ew(a, b, OP_div, cases[i].type, x, by), m = ew(a, b, OP_mul, DT_F32, x, by);
        int row = load(a, b, cases[i].type, ROW), r = ew(a, b, OP_div, cases[i].type, x, row);
        int plain = ew(a, b, OP_div, cases[i].type, x, row);
        b->insts.at[q].repeats = cases[i].repeats;
        b->insts.at[r].repeats = b->insts.at[m].repeats = true;
        uint64_t key = body_key(b);
        body_mark_quotients(b);
        CHECK_MSG(b->insts.at[q].quotient == cases[i].is, "case %zu: %d", i,
                  (int)b->insts.at[q].quotient);
        CHECK(b->insts.at[r].quotient == (cases[i].type == DT_F64 ? QUOTIENT : QUOTIENT_REPEATED));
        CHECK(b->insts.at[m].quotient == QUOTIENT && b->insts.at[plain].quotient == QUOTIENT);
        CHECK(body_key(b) == key);
        arena_free(a);
    }
}

// Two operands of a concatenation along the rows, the first of one row: which loads are marked, and
// as alternatives.
static void choices(void)
{
    static const struct {
        const char *name;
        int64_t first, from, to; // rows of the first operand; where the loads' predicates hold
        DType type;              // of the second operand
        bool elsewhere;          // the first operand is summed, too
        bool x, y, together;
    } cases[] = {
        {"a concatenation", 1, 1, 1, DT_F32, .x = true, .y = true, .together = true},
        {"of two rows", 2, 2, 2, DT_F32, .x = true, .y = true, .together = true},
        {"of two types", 1, 1, 1, DT_I32, .x = true, .y = true},
        {"beside the operand", 1, 1, 1, DT_F32, .elsewhere = true, .y = true},
        {"predicates that hold in more rows", 1, 2, 1, DT_F32, .x = true, .y = true,
         .together = true},
        {"zeros in a row", 2, 1, 2, DT_F32, .y = true},
        {"zeros in a row of the second", 1, 1, 2, DT_F32, .x = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        Body *b = rows(a);
        b->dot.sum = -1;
        int at = add(
            a, b,
            (Inst){.kind = KI_INDEX, .type = DT_I32, .axes = ROW, .ix = ix_axis(b->ix, 0, ROWS)});
        int bound[3]; // of the select, of both loads
        const int64_t value[3] = {cases[i].first, cases[i].from, cases[i].to};
        for (int k = 0; k < 3; k++)
            bound[k] = add(a, b, (Inst){.kind = KI_CONST, .type = DT_I32, .ivalue = value[k]});
        int when = ew(a, b, OP_lt, DT_BOOL, at, bound[0]),
            below = ew(a, b, OP_lt, DT_BOOL, at, bound[1]),
            above = ew(a, b, OP_ge, DT_BOOL, at, bound[2]);
        int x = load(a, b, DT_F32, BOTH), y = load(a, b, cases[i].type, BOTH);
        b->insts.at[x].pred = below;
        b->insts.at[y].pred = above;
        int joined =
            add(a, b,
                (Inst){.kind = KI_EW, .op = OP_select, .type = DT_F32, .na = 3, .a = {when, x, y}});
        store(a, b, reduce(a, b, OP_sum, joined));
        if (cases[i].elsewhere) store(a, b, reduce(a, b, OP_max, x));
        uint64_t key = body_key(b);
        body_mark_choices(a, b);
        const Inst *f = &b->insts.at[x], *s = &b->insts.at[y];
        CHECK_MSG(!f->choice == !cases[i].x && !s->choice == !cases[i].y, "%s: %d %d",
                  cases[i].name, f->choice, s->choice);
        CHECK_MSG((f->choice && f->choice == s->choice) == cases[i].together, "%s: %d %d",
                  cases[i].name, f->choice, s->choice);
        if (cases[i].x) CHECK(f->needed_from == 0 && f->needed_to == cases[i].first);
        if (cases[i].y) CHECK(s->needed_from == cases[i].first && s->needed_to == ROWS);
        CHECK(inst_choice(b, y, 1) == (cases[i].together ? x : y));
        CHECK(inst_choice(b, y, 2) == y); // vectors of two would begin within an operand
        CHECK(body_key(b) == key);
        arena_free(a);
    }
}

int main(void)
{
    choices();
    online();
    picks();
    quotients();
    return unit_done();
}
