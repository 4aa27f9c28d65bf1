// The tile program of attention: a block computes a tile of rows, whose operands stay in shared
// memory, and loops over tiles of columns, whose operands pass through rings. For each tile of
// columns it computes scores, then weights from the scores, and accumulates weights times values.
// Scores are never stored.
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

// RESERVED: bytes of a block's shared memory. ROWS: of an mma instruction.
enum { VECTOR_BYTES = 16, ROWS = 16, RESERVED = 1024 };

// -- its schedule ---------------------------------------------------------------------------------

static int width_of(const Body *b, int head) // the elements of a line in shared memory
{
    return (int)ceil_div(b->axis[head].extent, 16) * 16;
}

// The sums of results that a thread has for each 16 rows of its warp.
static int result_sums(const Body *b)
{
    int n = 0;
    for (int i = 0; i < b->attention.nouts; i++) n += width_of(b, b->attention.out[i].axis) / 2;
    return n;
}

// One warp with 32 rows reads shared memory half as often as two with 16, as long as registers hold
// its results and scores. The sizes are those that were fastest on an H200, for head dimensions of
// 64 and 128, in the forward pass and for the gradients of keys and values and of queries.
void plan_attention(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    if (attention_groups_plan(b, t)) return;
    int sums = result_sums(b), products = b->attention.nscores;
    s->tile.each = sums <= 64 ? 2 : 1;
    s->tile.k = products == 1 && sums <= 32 ? 64 : sums <= 64 ? 32 : sums <= 128 ? 64 : 16;
    if (products == 2 && sums > 64) s->tile.k = 32;
    s->tile.m = products == 2 && sums > 32 && b->attention.nouts == 2 ? 64 : 128;
    while (s->tile.m > ROWS && b->axis[1].extent <= s->tile.m / 2) s->tile.m /= 2;
    if (s->tile.m < 64) s->tile.each = 1;
    s->tile.ring = 2;
    attention_derive(b, t);
    // If a multiprocessor has shared memory for one block only, no other block's warps hide
    // latency, so the block has more warps.
    if (products == 2 && 2 * s->shared_bytes > t->shared_per_unit && b->axis[1].extent > 64) {
        s->tile.m = 128;
        s->tile.each = 1;
        attention_derive(b, t);
    }
    while (s->shared_bytes > t->shared_per_block - RESERVED && s->tile.k > 16) {
        s->tile.k /= 2;
        attention_derive(b, t);
    }
    while (s->shared_bytes > t->shared_per_block - RESERVED && s->tile.m > 16) {
        s->tile.each = 1;
        s->tile.m /= 2;
        attention_derive(b, t);
    }
}

void attention_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    TileProgram p;
    s->variant = s->tile.wgmma ? RUN_ATTENTION_GROUPS : RUN_ATTENTION;
    if (s->variant == RUN_ATTENTION_GROUPS) {
        attention_groups_derive(b, t);
        return;
    }
    s->threads = s->tile.m / (ROWS * s->tile.each) * 32;
    s->cluster = 1;
    s->blocks = b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile.m);
    attention_tiles(b, &p);
    s->shared_bytes = tile_memory(&p);
}

// -- its program ----------------------------------------------------------------------------------

// Whether two factors are the same matrix: loads from the same buffer with the same index, except
// that their head dimensions may be different axes.
static bool same_matrix(const Body *b, int x, int head_x, int y, int head_y)
{
    const Inst *u = inst_uncast(b, x), *v = inst_uncast(b, y);
    int64_t sx, sy;
    if (u->kind != KI_LOAD || v->kind != KI_LOAD || u->buf != v->buf || u->pred >= 0 ||
        v->pred >= 0 || b->axis[head_x].extent != b->axis[head_y].extent ||
        !ix_stride(u->ix, head_x, &sx) || !ix_stride(v->ix, head_y, &sy) || sx != sy)
        return false;
    IxCtx *c = b->ix;
    int64_t extent = b->axis[head_x].extent;
    return ix_add(c, u->ix, ix_scale(c, ix_axis(c, head_x, extent), -sx)) ==
           ix_add(c, v->ix, ix_scale(c, ix_axis(c, head_y, extent), -sy));
}

// Adds the tile of a factor, unless the same matrix has one already; returns its number.
static int add_factor(const Body *b, TileProgram *p, int inst, int axis, int head, const char *name)
{
    for (int i = 0; i < p->ntiles; i++)
        if (p->tile[i].axis == axis && same_matrix(b, p->tile[i].inst, p->tile[i].head, inst, head))
            return i;
    const Schedule *s = &b->sched;
    Tile t = {.name = name, .layout = L_PAD, .type = p->type, .axis = axis, .head = head};
    const Inst *v = inst_uncast(b, inst);
    int64_t step = 0;
    t.inst = inst;
    t.stays = axis == 1;
    t.places = !t.stays ? s->tile.ring : s->tile.wgmma ? s->tile.each : 1;
    t.lines = t.stays ? s->tile.m : s->tile.k;
    t.line = width_of(b, head);
    t.pitch = t.line + p->vector;
    t.bytes = t.lines * t.pitch * (dtype_info[p->type].bits / 8);
    if (s->variant == RUN_ATTENTION_GROUPS) { // boxes of STEP columns, one after the other
        t.layout = L_BULK;
        t.pitch = STEP;
        t.bytes = t.lines * (int)ceil_div(t.line, STEP) * LINE;
        t.of_group = t.stays;
    }
    t.plain = v->kind == KI_LOAD && b->bufs.at[v->buf].type == t.type && v->pred < 0 &&
              b->bufs.at[v->buf].kind != KA_LOOP_INDEX && !v->ix->has_value &&
              ix_stride(v->ix, head, &step) && step == 1 && ix_aligned(v->ix, head, p->vector) &&
              b->axis[head].extent % p->vector == 0;
    t.offset = tile_memory(p);
    return tile_add(p, t);
}

void attention_tiles(const Body *b, TileProgram *p)
{
    static const char *const rows[] = {"rows_0", "rows_1"}, *const cols[] = {"cols_0", "cols_1"};
    static const char *const values[] = {"values_0", "values_1"};
    static const char *const scores[] = {"scores_0", "scores_1"};
    static const char *const weights[] = {"weights_0", "weights_1"};
    static const char *const results[] = {"result_0", "result_1"};
    const Schedule *s = &b->sched;
    *p = (TileProgram){.body = b, .cluster = 1, .warps_n = 1, .warps_k = 1};
    bool groups = s->variant == RUN_ATTENTION_GROUPS;
    p->atom = groups ? attention_groups_atom(b) : tile_atom(b);
    p->type = p->atom->operand;
    p->vector = VECTOR_BYTES * 8 / (int)dtype_info[p->type].bits;
    p->side_m = groups ? ROWS : ROWS * s->tile.each;
    p->warps_m = s->tile.m / p->side_m;
    p->side_n = s->tile.k;
    p->steps = ceil_div(b->axis[b->col].extent, s->tile.k);
    for (int i = 0; i < b->attention.nscores; i++) {
        const BodyScore *x = &b->attention.score[i];
        p->score[i].rows = add_factor(b, p, x->rows, 1, x->axis, rows[i]);
        p->score[i].cols = add_factor(b, p, x->cols, b->col, x->axis, cols[i]);
    }
    for (int i = 0; i < b->attention.nouts; i++) {
        const BodyWeighted *x = &b->attention.out[i];
        p->out[i].values = add_factor(b, p, x->value, b->col, x->axis, values[i]);
    }
    for (int i = 0; i < b->attention.nscores; i++)
        p->score[i].tile = tile_registers(p, scores[i], L_SCORES, DT_F32, p->side_m, p->side_n);
    for (int i = 0; i < b->attention.nouts; i++) {
        p->out[i].weights = tile_registers(p, weights[i], L_WEIGHTS, p->type, p->side_m, p->side_n);
        p->out[i].tile = tile_registers(p, results[i], L_SUMS, DT_F32, p->side_m, p->side_n);
    }
}

void attention_load(TileProgram *p, TileHow how, bool stays)
{
    for (int i = 0; i < p->score[0].tile; i++)
        if (p->tile[i].stays == stays) tile_load(p, how, i);
}

void tile_attention(const Body *b, TileProgram *p)
{
    const int n = b->attention.nouts, nscores = b->attention.nscores;
    attention_tiles(b, p);
    attention_load(p, BY_ASYNC, true);
    for (int i = 0; i < n; i++) tile_do(p, T_FILL, p->out[i].tile, NO_TILE);
    tile_begin(p, T_LOOP, p->steps)->ahead = (int)at_most(b->sched.tile.ring - 1, p->steps);
    attention_load(p, BY_ASYNC, false);
    for (int i = 0; i < nscores; i++)
        tile_mma(p, BY_BODY, p->score[i].tile, p->score[i].rows, p->score[i].cols);
    tile_do(p, T_MAP, p->out[0].weights, p->score[0].tile)->b =
        nscores > 1 ? p->score[1].tile : NO_TILE;
    for (int i = 0; i < n; i++)
        tile_mma(p, BY_BODY, p->out[i].tile, p->out[i].weights, p->out[i].values);
    tile_end(p);
    for (int i = 0; i < n; i++) tile_do(p, T_MAP, NO_TILE, p->out[i].tile);
}
