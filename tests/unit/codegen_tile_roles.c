// Tile programs with roles: what the sync pass makes of them, and mistakes in them, each of which
// the verifier has to find.
#include "codegen/tile/wgmma.h"
#include "codegen/schedule/plans.h"
#include "tests/unit/tile.h"

typedef struct Case {
    const char *name;
    int wgmma, tile_n, cluster;
    int64_t k;
    int results; // of 16 bits
    bool sums;   // of the left operand's rows, too
    int windows; // 1: the left operand, along the columns; 2: the right one, across; 3: the left
                 // one, and a tile has all columns of the result; 4: the right one, of 64 channels;
                 // 0: none
    int64_t batch;
    int rest;    // tensors that results read beside their sums
    bool totals; // sums over the rows of the last result
} Case;

// (The ring has 4 to 9 places.)
static const Case cases[] = {
    {"own", WGMMA_OWN, 192, 1, 64 * 21, 1, false, 0, 1, 0, false},
    {"one step", WGMMA_OWN, 128, 1, 40, 1, false, 0, 1, 0, false},
    {"a round and a step", WGMMA_OWN, 192, 1, 64 * 5, 1, false, 0, 1, 0, false},
    {"a step less than two rounds", WGMMA_OWN, 192, 1, 64 * 7, 3, false, 0, 1, 0, false},
    {"two rounds and a step", WGMMA_SHARED, 192, 1, 64 * 9, 1, false, 0, 1, 0, false},
    {"together", WGMMA_SHARED, 256, 2, 64 * 14, 1, false, 0, 1, 0, false},
    {"cluster", WGMMA_OWN, 128, 2, 64 * 6, 2, false, 0, 1, 0, false},
    {"no boxes", WGMMA_OWN, 64, 1, 64 * 10, 0, false, 0, 1, 0, false},
    {"uneven", WGMMA_OWN, 192, 1, 64 * 8 + 1, 1, false, 0, 1, 0, false},
    {"uneven, cluster", WGMMA_SHARED, 256, 2, 64 * 5 + 3, 1, false, 0, 1, 0, false},
    {"sums", WGMMA_OWN, 128, 1, 64 * 12, 1, true, 0, 1, 0, false},
    {"sums, cluster", WGMMA_SHARED, 192, 2, 64 * 7, 1, true, 0, 1, 0, false},
    {"columns by two", WGMMA_SPLIT, 192, 2, 64 * 24, 1, false, 0, 1, 0, false},
    {"by five, the last range short", WGMMA_SPLIT, 128, 5, 64 * 33 + 8, 2, false, 0, 1, 0, false},
    {"by eight, a step each", WGMMA_SPLIT, 256, 8, 64 * 8, 0, false, 0, 1, 0, false},
    {"by one", WGMMA_SPLIT, 64, 1, 64 * 19, 1, false, 0, 1, 0, false},
    {"steps, by two", WGMMA_STEPS, 192, 2, 64 * 23, 1, false, 0, 1, 0, false},
    {"steps, by five", WGMMA_STEPS, 128, 5, 64 * 63 + 8, 2, false, 0, 1, 0, false},
    {"steps, six ranges of nothing", WGMMA_STEPS, 96, 7, 64 * 2, 1, false, 0, 1, 0, false},
    {"steps, by one", WGMMA_STEPS, 160, 1, 64 * 17, 1, false, 0, 1, 0, false},
    {"windows", WGMMA_OWN, 128, 1, 64 * 16, 1, false, 1, 1, 0, false},
    {"windows, together", WGMMA_SHARED, 64, 1, 64 * 32, 2, false, 1, 1, 0, false},
    {"windows, columns by three", WGMMA_SPLIT, 128, 3, 64 * 16, 1, false, 1, 1, 0, false},
    {"windows across", WGMMA_OWN, 256, 1, 64 * 24, 1, false, 2, 1, 0, false},
    {"windows across, three parts", WGMMA_OWN, 192, 1, 64 * 12, 0, false, 2, 3, 0, false},
    {"strips", WGMMA_STRIPS, 128, 1, 64 * 16, 1, false, 1, 1, 0, false},
    {"strips, half a part", WGMMA_STRIPS, 96, 1, 64 * 32, 2, false, 1, 1, 0, false},
    {"strips, without boxes", WGMMA_STRIPS, 32, 1, 64 * 16, 0, false, 1, 1, 0, false},
    {"strips, what stays", WGMMA_STRIPS, 64, 1, 64 * 16, 1, false, 3, 1, 0, false},
    {"strips, shared", WGMMA_SHARED_STRIPS, 96, 1, 64 * 32, 1, false, 1, 1, 0, false},
    {"strips across", WGMMA_STRIPS, 256, 1, 64 * 24, 0, false, 4, 1, 0, false},
    {"strips across, three parts", WGMMA_STRIPS, 256, 1, 64 * 12, 0, false, 4, 3, 0, false},
    {"by rows, all ahead", WGMMA_OWN, 64, 1, 64 * 10, 1, false, 0, 1, 2, false},
    {"by rows, one part ahead", WGMMA_OWN, 128, 1, 64 * 6, 2, false, 0, 1, 1, false},
    {"by rows, none ahead", WGMMA_OWN, 128, 2, 64 * 21, 1, false, 0, 1, 3, false},
    {"by rows, together", WGMMA_SHARED, 128, 2, 64 * 7, 1, false, 0, 1, 1, false},
    {"by rows, strips", WGMMA_STRIPS, 96, 1, 64 * 32, 1, false, 1, 1, 1, false},
    {"by rows, sums", WGMMA_OWN, 64, 1, 64 * 12, 1, true, 0, 1, 1, false},
    {"windows across, steps", WGMMA_STEPS, 160, 2, 64 * 20, 1, false, 2, 1, 0, false},
    {"totals", WGMMA_OWN, 128, 1, 64 * 16, 1, false, 1, 1, 0, true},
    {"totals, together", WGMMA_SHARED, 128, 1, 64 * 5, 2, false, 0, 1, 0, true},
    {"totals, three results", WGMMA_OWN, 64, 1, 64 * 7, 3, false, 0, 1, 0, true},
    {"totals, strips", WGMMA_STRIPS, 96, 1, 64 * 32, 2, false, 1, 1, 0, true},
    {"totals, strips, what stays", WGMMA_STRIPS, 64, 1, 64 * 16, 1, false, 3, 1, 0, true},
    {"totals, strips, shared", WGMMA_SHARED_STRIPS, 96, 1, 64 * 32, 1, false, 1, 1, 0, true},
    {"totals by rows", WGMMA_OWN, 128, 1, 64 * 16, 1, false, 1, 1, 2, true},
    {"totals by rows, together", WGMMA_SHARED, 64, 1, 64 * 5, 2, false, 0, 1, 1, true},
    {"totals by rows, strips", WGMMA_STRIPS, 96, 1, 64 * 32, 1, false, 1, 1, 3, true},
    {"totals by rows, what stays", WGMMA_STRIPS, 64, 1, 64 * 16, 1, false, 3, 1, 1, true},
};
enum { CASES = sizeof cases / sizeof *cases, EXTENT = 4096 };

static int add(Arena *a, Body *b, Inst i)
{
    vec_push(a, &b->insts, i);
    return (int)b->insts.n - 1;
}

static int add_buf(Arena *a, Body *b, DType type, int64_t elems)
{
    vec_push(a, &b->bufs, (BodyBuf){.kind = KA_NODE, .type = type, .elems = elems});
    return (int)b->bufs.n - 1;
}

// The left operand lies along the columns, or across them beside one that does; the right one
// across.
static int add_operand(Arena *a, Body *b, int axis, const Case *c)
{
    int64_t k = c->k;
    const Ix *own = ix_axis(b->ix, axis, EXTENT), *col = ix_axis(b->ix, 3, k);
    const Ix *at = axis == 1 && (c->windows % 2 || !c->windows)
                       ? ix_add(b->ix, ix_scale(b->ix, own, k), col)
                       : ix_add(b->ix, ix_scale(b->ix, col, EXTENT), own);
    at = ix_add(b->ix, at, ix_scale(b->ix, ix_axis(b->ix, 0, c->batch), EXTENT * k));
    uint64_t axes = at->axes;
    int v = add(a, b,
                (Inst){.kind = KI_LOAD,
                       .type = DT_BF16,
                       .pred = -1,
                       .buf = add_buf(a, b, DT_BF16, c->batch * EXTENT * k),
                       .ix = at,
                       .axes = axes});
    return add(
        a, b,
        (Inst){.kind = KI_CAST, .type = DT_F32, .from = DT_BF16, .na = 1, .a = {v}, .axes = axes});
}

// e >= 0 and e < extent, and [more].
static int add_bounds(Arena *a, Body *b, const Ix *e, int64_t extent, int more)
{
    int v[2], place = add(a, b, (Inst){.kind = KI_INDEX, .type = DT_I32, .ix = e, .axes = e->axes});
    for (int i = 0; i < 2; i++) {
        Inst bound = {.kind = KI_CONST, .type = DT_I32, .ivalue = i ? extent : 0};
        v[i] = add(a, b, bound);
        Inst compare = {.kind = KI_EW, .type = DT_BOOL, .op = i ? OP_lt : OP_ge, .na = 2};
        compare.a[0] = place;
        compare.a[1] = v[i];
        compare.axes = e->axes;
        v[i] = add(a, b, compare);
    }
    int both = add(a, b,
                   (Inst){.kind = KI_EW,
                          .type = DT_BOOL,
                          .op = OP_and,
                          .na = 2,
                          .a = {v[0], v[1]},
                          .axes = e->axes});
    if (more < 0) return both;
    uint64_t axes = e->axes | b->insts.at[more].axes;
    return add(a, b,
               (Inst){.kind = KI_EW,
                      .type = DT_BOOL,
                      .op = OP_and,
                      .na = 2,
                      .a = {both, more},
                      .axes = axes});
}

// Windows of 4 x 4 pixels in images of [SIDE] x [SIDE], a line of zeros around them: a place for
// each of them before the last two.
enum { SIDE = 16, PIXELS = SIDE * SIDE, SIZE = 4 };
static int add_windows(Arena *a, Body *b, int axis, const Case *c)
{
    int row = axis == 1 ? 1 : 3, col = axis == 1 ? 3 : 2;
    int64_t rows = b->axis[row].extent, channels = b->axis[col].extent / (SIZE * SIZE);
    IxCtx *x = b->ix;
    const Ix *place = ix_axis(x, row, rows), *q = ix_axis(x, col, b->axis[col].extent);
    const Ix **at = NEW_ARRAY(a, const Ix *, 4), *part = ix_axis(x, 0, c->batch);
    Node *image = NEW(a, Node);
    int64_t dim[] = {rows * c->batch / PIXELS, SIDE, SIDE, channels};
    image->type = (Type){.dtype = DT_BF16, .rank = 4};
    memcpy(image->type.dim, dim, sizeof dim);
    at[0] = ix_add(x, ix_scale(x, part, rows / PIXELS), ix_div(x, place, PIXELS));
    at[1] = ix_add(x, ix_mod(x, ix_div(x, place, SIDE), SIDE), ix_div(x, q, SIZE * channels));
    at[2] = ix_add(x, ix_mod(x, place, SIDE), ix_mod(x, ix_div(x, q, channels), SIZE));
    at[3] = ix_mod(x, q, channels);
    int inside = -1;
    for (int i = 1; i <= 2; i++) {
        at[i] = ix_add(x, at[i], ix_const(x, -1));
        inside = add_bounds(a, b, at[i], SIDE, inside);
    }
    const Ix *ix = ix_linear(x, at, dim, 4);
    int v = add(a, b,
                (Inst){.kind = KI_LOAD,
                       .type = DT_BF16,
                       .pred = inside,
                       .buf = add_buf(a, b, DT_BF16, dim[0] * PIXELS * channels),
                       .ix = ix,
                       .at = at,
                       .node = image,
                       .axes = ix->axes});
    return add(
        a, b,
        (Inst){
            .kind = KI_CAST, .type = DT_F32, .from = DT_BF16, .na = 1, .a = {v}, .axes = ix->axes});
}

static Body *body_of(Arena *a, const Case *c)
{
    static const Node sum = {.op = OP_sum};
    Body *b = NEW(a, Body);
    b->ix = ix_new(a);
    b->naxes = 4;
    b->npar = 3;
    b->col = 3;
    b->axis[0].extent = c->batch;
    b->axis[1].extent = b->axis[2].extent = EXTENT;
    if (c->windows == 3) b->axis[2].extent = c->tile_n;
    if (c->windows == 4) b->axis[2].extent = SIZE * SIZE * STEP;
    b->axis[3].extent = c->k;
    b->dot.a = c->windows % 2 ? add_windows(a, b, 1, c) : add_operand(a, b, 1, c);
    b->dot.b =
        c->windows && c->windows % 2 == 0 ? add_windows(a, b, 2, c) : add_operand(a, b, 2, c);
    b->dot.sum = add(a, b,
                     (Inst){.kind = KI_REDUCE,
                            .op = OP_sum,
                            .type = DT_F32,
                            .acc = DT_F32,
                            .na = 1,
                            .a = {b->dot.b},
                            .axis = 3});
    const Ix *row = ix_scale(b->ix, ix_axis(b->ix, 1, EXTENT), EXTENT),
             *at = ix_add(b->ix, row, ix_axis(b->ix, 2, EXTENT));
    int value = b->dot.sum;
    for (int i = 0; i < c->rest; i++) {
        Inst beside = {.kind = KI_LOAD, .type = DT_BF16, .pred = -1, .ix = at, .axes = at->axes};
        beside.buf = add_buf(a, b, DT_BF16, EXTENT * EXTENT);
        Inst both = {.kind = KI_EW, .type = DT_F32, .op = OP_add, .na = 2, .axes = at->axes};
        both.a[0] = value;
        both.a[1] = add(a, b, beside);
        value = add(a, b, both);
    }
    for (int i = 0; i < c->results; i++)
        vec_push(
            a, &b->stores,
            (BodyStore){.buf = add_buf(a, b, DT_BF16, EXTENT * EXTENT), .ix = at, .value = value});
    if (c->sums)
        vec_push(a, &b->stores, (BodyStore){.buf = add_buf(a, b, DT_F32, c->k), .fold = &sum});
    if (c->totals)
        vec_push(a, &b->stores,
                 (BodyStore){.buf = add_buf(a, b, DT_F32, EXTENT),
                             .ix = ix_axis(b->ix, 2, EXTENT),
                             .value = value,
                             .fold = &sum});
    Target t = target_cuda(90, false);
    body_windows(a, b);
    b->sched = (Schedule){.kind = SCHED_TILE, .tile = {.wgmma = c->wgmma, .n = c->tile_n}};
    b->sched.cluster = c->cluster;
    CHECK(wgmma_fits(b, &t) && (!c->sums || wgmma_sums(b)));
    CHECK(group_has_windows(b) == (c->windows > 0));
    wgmma_derive(b, &t);
    CHECK(b->sched.tile.wgmma == c->wgmma && wgmma_stays(b) == (c->windows == 3));
    CHECK(wgmma_adds_columns(b) == c->totals);
    CHECK(wgmma_by_rows(b) == (c->rest > 0) && !wgmma_right_strips(b) == (c->windows != 4));
    return b;
}

// -- mistakes -------------------------------------------------------------------------------------

static void twice(TileProgram *p, int i)
{
    memmove(&p->op[i + 1], &p->op[i], sizeof(TileOp) * (size_t)(p->nops++ - i));
}

// Whether the order of the two matters to what is right.
static bool ordered(TileKind a, TileKind b)
{
    static const struct {
        TileKind first, second;
    } pairs[] = {
        {T_AWAIT, T_ANNOUNCE}, {T_AWAIT, T_REDUCE},  {T_AWAIT, T_CLEAR},    {T_BEGIN, T_MMA},
        {T_MMA, T_COMMIT},     {T_WAIT, T_ARRIVE},   {T_WAIT, T_BARRIER},   {T_BARRIER, T_MAP},
        {T_FENCE, T_BARRIER},  {T_BARRIER, T_STORE}, {T_STORE, T_COMMIT},   {T_REDUCE, T_BARRIER},
        {T_BARRIER, T_ARRIVE}, {T_MAP, T_FENCE},     {T_CLEAR, T_FENCE},    {T_BARRIER, T_MOVE},
        {T_MOVE, T_BARRIER},   {T_AWAIT, T_MAP},     {T_BARRIER, T_REDUCE},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].first == a && pairs[i].second == b) return true;
    return false;
}

// What is nevertheless right where blocks share the columns: copies for the next tile begin when
// all of this one is over, so that the mbarriers "empty" have something to say only where a tile
// passes the ring; and what only reads needs no fence behind it.
static bool harmless(const TileProgram *p, int i, int n)
{
    const TileOp *op = &p->op[i], *next = &p->op[i + 1];
    bool once = p->steps <= p->tile[0].places, of_ring = !p->bar[op->bar].by_tile;
    if (!p->split) return false;
    switch (op->kind) {
    case T_AWAIT: return once && of_ring && op->count && (n == 0 || n == 8);
    case T_ARRIVE: return (once && of_ring && n == 2) || (p->cluster == 1 && n == 7);
    case T_WAIT:
        if (n == 8) return (once || !op->count) && next->kind == T_ARRIVE;
        return once && op->count && (n == 0 || n == 6);
    case T_MAP: return n == 8;
    default: return false;
    }
}

static bool from_sync(const TileOp *op)
{
    return op->kind >= T_COMMIT;
}

static bool of_totals(const TileProgram *p, int tile)
{
    return tile >= 0 && (p->tile[tile].layout == L_TOTALS || p->tile[tile].layout == L_JOINT);
}

// Mistake number [n] at op i. false: there is none there.
static bool spoil_roles(TileProgram *p, int i, int n, const char **what)
{
    TileOp *op = &p->op[i], *next = &p->op[i + 1];
    int places = p->tile[0].places;
    bool round = p->steps > places; // the ring is passed in a tile
    static const char *const names[] = {
        "an op of the sync pass less",
        "of the other parity",
        "an arrival less is waited for",
        "an arrival more is waited for",
        "bytes that are not waited for",
        "a place given back while it is read",
        "a group more under way",
        "of a smaller scope",
        "in the wrong order",
        "the turn passed on early",
        "a load less",
        "a product less",
        "twice multiplied",
        "a step less",
        "a place less",
        "places that overlap",
        "stores that are left out",
        "registers that there are not",
        "a fence of every step but the first",
        "sums that are not left there",
        "no results",
        "rows that are not added",
        "totals that do not begin",
        "totals that are not stored",
    };
    if (n >= (int)(sizeof names / sizeof *names)) return false;
    *what = names[n];
    if (harmless(p, i, n)) return false;
    switch (n) {
    case 0: return from_sync(op) && (leave_out(p, i), true);
    case 1: return op->kind == T_AWAIT && (op->count ^= 1, true);
    case 2: return op->kind == T_ARRIVE && (p->bar[op->bar].arrivals--, true);
    case 3:
        if (op->kind != T_ARRIVE && op->kind != T_ANNOUNCE) break;
        return p->bar[op->bar].arrivals++, true;
    case 4:
        if (op->kind != T_ANNOUNCE) break;
        p->bar[op->bar].bytes -= p->tile[0].bytes;
        return true;
    case 5: return op->kind == T_ARRIVE && op->shift && p->steps > 1 && (op->shift++, true);
    case 6: return op->kind == T_WAIT && (op->count++, true);
    case 7:
        if (op->kind == T_BARRIER && op->scope == OF_GROUP)
            op->scope = OF_WARP;
        else if (op->kind == T_BARRIER && op->scope == OF_ROLE)
            op->scope = OF_GROUP;
        else if (op->kind == T_ARRIVE && op->scope == OF_CLUSTER)
            op->scope = OF_BLOCK;
        else
            break;
        return true;
    case 8: return i + 1 < p->nops && ordered(op->kind, next->kind) && (swap(p, i, i + 1), true);
    case 9: return op->kind == T_PASS && round && (op->when = THE_FIRST, true);
    case 10:
        return op->kind == T_LOAD && (op->how == BY_BULK || !p->split) && (leave_out(p, i), true);
    case 11: return op->kind == T_MMA && (leave_out(p, i), true);
    case 12: return op->kind == T_MMA && p->nops < TILE_MOST_OPS && (twice(p, i), true);
    case 13: return op->kind == T_LOOP && op->trips > 1 && (op->trips--, true);
    case 14:
        if (op->kind != T_READY || !round) break;
        p->tile[0].places--;
        return true;
    case 15:
        if (op->kind != T_READY) break;
        p->tile[1].offset = p->tile[0].offset + p->tile[0].bytes - LINE;
        return true;
    case 16: return op->kind == T_STORE && (leave_out(p, i), true);
    case 17: return op->kind == T_READY && (p->role[0].registers += 8, true);
    case 19: return op->kind == T_MOVE && (leave_out(p, i), true);
    case 20:
        if (op->kind != T_MAP) break;
        if (!p->split && p->tile[op->a].layout != L_ROWS) break;
        return leave_out(p, i), true;
    case 21:
        if (of_totals(p, op->dst) && op->kind == T_REDUCE) return leave_out(p, i), true;
        return of_totals(p, op->dst) && op->kind == T_MAP && (op->dst = -1, true);
    case 22: return of_totals(p, op->dst) && op->kind == T_FILL && (leave_out(p, i), true);
    case 23: return of_totals(p, op->a) && op->kind == T_MAP && (leave_out(p, i), true);
    case 18: return op->kind == T_FENCE && op->when && (op->when = THE_LAST, p->steps > 1);
    }
    return false;
}

// Whatever the schedule and however many steps: rings of 3 to 9 places, not passed in a tile and
// passed several times.
static void check_schedules(void)
{
    for (int steps = 1; steps <= 20; steps++)
        for (int n = 0; n < 48; n++) {
            Arena *a = arena_new();
            Case c = {"",
                      n & 1 ? WGMMA_OWN : WGMMA_SHARED,
                      64 * (1 + n / 8),
                      1 + (n >> 1 & 1),
                      64 * steps,
                      steps % 4,
                      n & 4 && steps % 2,
                      0,
                      1,
                      0,
                      false};
            if (n & 4 && !c.sums) c.k -= 3; // uneven
            if (n >= 32)
                c = (Case){"",
                           n < 40 ? WGMMA_SPLIT : WGMMA_STEPS,
                           n < 40 ? 64 * (1 + n % 4) : 64 + 32 * ((n + steps) % 5),
                           1 + n % 8,
                           64 * steps,
                           steps % 4,
                           0,
                           0,
                           1,
                           0,
                           false};
            TileProgram p = tile_program(body_of(a, &c));
            const char *found = tile_verify(a, &p, 1 + (uint64_t)steps);
            CHECK_MSG(!found, "wgmma %d tile_n %d cluster %d k %lld: %s", c.wgmma, c.tile_n,
                      c.cluster, (long long)c.k, found);
            arena_free(a);
        }
}

int main(void)
{
    int mistakes = 0;
    check_schedules();
    for (int i = 0; i < CASES; i++) {
        Arena *a = arena_new();
        const Body *b = body_of(a, &cases[i]);
        TileProgram p = tile_program(b), plain;
        Buf text = buf_new(a);
        tile_text(&p, &text);
        const char *found = verify(a, &p, 8);
        CHECK_MSG(!found, "%s: %s\n%s", cases[i].name, found, text.data);
        CHECK(p.nops <= TILE_MOST_OPS && p.ntiles <= TILE_MOST_TILES);
        tile_product(b, &plain); // a builder knows nothing of these
        CHECK(!count(&plain, T_COMMIT, T_PASS) && !plain.nbars);
        mistakes += all_found(spoil_roles, &p, 8, cases[i].name, text.data);
        arena_free(a);
    }
    CHECK_MSG(mistakes >= 200, "%d mistakes", mistakes);
    printf("%d mistakes\n", mistakes);
    return unit_done();
}
