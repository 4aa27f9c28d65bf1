// The tile program of attention by groups of four warps (wgmma, sm_90), for bf16 or f16 operands
// that bulk copies can read.
//
// Blocks are persistent: each computes one tile of rows after another. One thread keeps the rows'
// operands and the rings of the columns' operands filled by bulk copies. Each group multiplies 64
// of the tile's rows by all columns: scores stay in registers, and so do the weights computed from
// them, which are the left operand of the next product. One group computes weights while another
// multiplies. With Schedule.skew the scores of the next tile of columns are multiplied before the
// weights of this one, so that a group's own products overlap with its arithmetic. (On an H200,
// making groups take turns at multiplying is no faster.)
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

#include <math.h>
#include <stdlib.h>

enum { ATOM_COLS = 8, UNIT = 8, SPARE = 1024 + 256, MOST_WIDTH = 256 };
enum { MOST_GROUPS = 3, MOST_HELD = 192, CACHED = 32 << 20 };

// The atom has 8 columns, because widths differ: scores are as wide as a tile, results as a head.
static const TileAtom atoms[] = {
    {"wgmma of bf16", DT_BF16, 0, ATOM_ROWS, ATOM_COLS, 16, NULL, "b", "nc_weights_b"},
    {"wgmma of f16", DT_F16, 0, ATOM_ROWS, ATOM_COLS, 16, NULL, "h", "nc_weights_h"},
};

const TileAtom *attention_groups_atom(const Body *b)
{
    return &atoms[attention_type(b) == DT_F16];
}

// -- factors --------------------------------------------------------------------------------------

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Computes from the batch terms of the index the two coordinates of the plane with the matrix: one
// from the terms with strides below the row pitch, one from those with larger strides.
static bool add_planes(const Body *b, const Ix *ix, int axis, int head, GroupFactor *f)
{
    ProgMap *m = &f->map;
    const Ix *part[2] = {ix_const(b->ix, 0), ix_const(b->ix, 0)};
    int64_t pitch[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ix->n; i++) {
            const IxTerm *t = ix->at[i].term;
            int64_t by = ix->at[i].coeff;
            if (t->kind == IT_AXIS && (t->id == axis || t->id == head)) continue;
            if (t->axes != 1 || by <= 0 || by % UNIT || t->low) return false;
            int k = by >= m->pitch;
            if (pass == 0) {
                pitch[k] = divisor(pitch[k], by);
                continue;
            }
            part[k] = ix_add(b->ix, part[k], ix_scale(b->ix, ix_term(b->ix, t), by / pitch[k]));
        }
    for (int k = 0; k < 2; k++) {
        f->plane[k] = part[k];
        m->planes[k] = part[k]->high + 1;
        m->plane_pitch[k] = pitch[k] ? pitch[k] : m->pitch;
    }
    return true;
}

GroupFactor group_factor(const Body *b, int inst, int axis, int head)
{
    GroupFactor f = {
        .map = {.rows = b->axis[axis].extent, .cols = b->axis[head].extent, .apart = 1}};
    ProgMap *m = &f.map;
    const Inst *v = inst_uncast(b, inst);
    int64_t step;
    if (v->kind != KI_LOAD || v->pred >= 0 || v->ix->has_value || v->ix->constant < 0 ||
        v->ix->constant % UNIT || b->bufs.at[v->buf].type != attention_type(b) ||
        b->bufs.at[v->buf].kind == KA_LOOP_INDEX || !ix_stride(v->ix, head, &step) || step != 1 ||
        !ix_stride(v->ix, axis, &m->pitch) || m->pitch < m->cols || m->pitch % UNIT)
        return f;
    m->offset = v->ix->constant;
    m->box_cols = STEP;
    m->arg = v->buf;
    f.fits = add_planes(b, v->ix, axis, head, &f);
    return f;
}

// Whether the mask is a finite number. Then a row's scores may turn out not to be far above it, in
// which case the results are computed again with all columns.
static bool may_doubt(const Body *b)
{
    AttentionRange r = attention_range(b);
    return r.n && !isinf(r.mask);
}

static bool factor_fits(const Body *b, int inst, int axis, int head)
{
    return b->axis[head].extent <= MOST_WIDTH && group_factor(b, inst, axis, head).fits;
}

bool attention_groups_fit(const Body *b, const Target *t)
{
    if (t->kind != TARGET_CUDA || !t->group_products || !b->attention.nouts ||
        dtype_info[attention_type(b)].bits != 16 || b->axis[1].extent < ATOM_ROWS ||
        b->axis[b->col].extent < STEP)
        return false;
    for (int i = 0; i < b->attention.nscores; i++) {
        const BodyScore *x = &b->attention.score[i];
        if (!factor_fits(b, x->rows, 1, x->axis) || !factor_fits(b, x->cols, b->col, x->axis))
            return false;
    }
    for (int i = 0; i < b->attention.nouts; i++) {
        const BodyWeighted *x = &b->attention.out[i];
        if (!factor_fits(b, x->value, b->col, x->axis)) return false;
    }
    // A body that writes cells may overwrite what it reads, so it cannot be run again.
    return !b->commits || !may_doubt(b);
}

// -- its schedule ---------------------------------------------------------------------------------

static int groups_of(const Body *b)
{
    return b->sched.tile.m / ATOM_ROWS;
}

// Registers of a thread that multiplies, and of one that copies.
static int registers_of(const Body *b, bool copies)
{
    if (groups_of(b) == MOST_GROUPS) return copies ? 32 : 160;
    return copies ? 24 : 240;
}

int64_t attention_section(const Body *b)
{
    int64_t bytes = 0, heads = b->axis[0].extent;
    for (int i = 0; i < b->attention.nscores; i++)
        bytes += b->axis[b->attention.score[i].axis].extent;
    for (int i = 0; i < b->attention.nouts && b->attention.nscores == 1; i++)
        bytes += b->axis[b->attention.out[i].axis].extent;
    bytes *= 2 * b->axis[b->col].extent;
    return bytes * heads <= CACHED ? heads : CACHED / bytes > 0 ? CACHED / bytes : 1;
}

void attention_groups_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    if (s->tile.m % ATOM_ROWS || s->tile.m < ATOM_ROWS || s->tile.m > ATOM_ROWS * MOST_GROUPS)
        s->tile.m = 2 * ATOM_ROWS;
    if (s->tile.k % 16 || s->tile.k < 16 || s->tile.k > 256) s->tile.k = 2 * STEP;
    s->cluster = 1;
    s->threads = (1 + groups_of(b)) * 128;
    int64_t tiles = b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile.m);
    s->blocks = at_most(tiles, t->units);
    // If there is room for the rows of two tiles, the next tile's are copied during this one.
    TileProgram p;
    for (s->tile.each = 2;; s->tile.each = 1) {
        attention_tiles(b, &p);
        s->shared_bytes = SPARE + tile_memory(&p);
        if (s->tile.each == 1 || s->shared_bytes <= t->shared_per_block - SPARE) return;
    }
}

bool attention_groups_plan(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    if (!attention_groups_fit(b, t)) return false;
    int width = 0; // columns of all results
    for (int i = 0; i < b->attention.nouts; i++)
        width += (int)b->axis[b->attention.out[i].axis].extent;
    const int n = b->attention.nscores;
    s->tile.wgmma = WGMMA_SHARED;
    s->tile.m = 128;
    s->skew = b->attention.nouts == 1;
    // As many columns as registers have room for (with skew, for the scores of two steps) and as
    // shared memory holds in a ring of three places, or of two. (If a tile is used in two
    // consecutive steps, two places are too few: then an H200 needs a third more time for the
    // gradient of queries.)
    int most = s->skew ? 128 : 64;
    while (s->skew && most > 64 && width / 2 + most * n / 2 + most / 4 > MOST_HELD) most -= 16;
    for (s->tile.ring = 3; s->tile.ring >= 2; s->tile.ring--)
        for (s->tile.k = most; s->tile.k >= (s->tile.ring < 3 ? 32
                                             : n > 1          ? 64
                                                              : most);
             s->tile.k -= 16) {
            attention_derive(b, t);
            if (s->shared_bytes <= t->shared_per_block - SPARE) return true;
        }
    s->tile.wgmma = s->skew = 0;
    return false;
}

// -- its program ----------------------------------------------------------------------------------

static void begin(TileProgram *p, int role)
{
    const Schedule *s = &p->body->sched;
    int64_t tiles = p->body->axis[0].extent * ceil_div(p->body->axis[1].extent, s->tile.m);
    tile_role(p, role);
    if (may_doubt(p->body)) tile_begin(p, T_AGAIN, 0);
    tile_begin(p, T_TILES, tiles)->count = (int)s->blocks;
}

static void end(TileProgram *p)
{
    tile_end(p);
    if (may_doubt(p->body)) tile_end(p);
}

static void multiply_scores(TileProgram *p)
{
    for (int i = 0; i < p->body->attention.nscores; i++)
        tile_mma(p, BY_TENSOR, p->score[i].tile, p->score[i].rows, p->score[i].cols);
}

// Computes the weights from the scores, rescales the results, and converts the weights to operands.
static void weigh(TileProgram *p, bool first)
{
    const Body *b = p->body;
    const int scores = p->score[0].tile;
    const bool two = b->attention.nscores > 1;
    tile_do(p, T_MAP, scores, scores)->b = two ? p->score[1].tile : NO_TILE;
    if (b->attention.high >= 0 && !first) tile_do(p, T_SHRINK, p->out[0].tile, NO_TILE);
    for (int i = 0; i < b->attention.nouts; i++)
        tile_do(p, T_MOVE, p->out[i].weights, p->score[two ? i : 0].tile);
}

static void multiply_values(TileProgram *p, int shift)
{
    for (int i = 0; i < p->body->attention.nouts; i++)
        tile_mma(p, BY_TENSOR, p->out[i].tile, p->out[i].weights, p->out[i].values)->shift = shift;
}

// The steps of a tile. With skew, each iteration multiplies the scores of its step and the weights
// of the step before, one product right after the other.
static void steps(TileProgram *p)
{
    const bool skew = p->body->sched.skew;
    if (skew) {
        multiply_scores(p);
        weigh(p, true);
    }
    tile_begin(p, T_LOOP, p->steps)->early = skew ? -1 : 0;
    multiply_scores(p);
    if (skew) multiply_values(p, -1);
    weigh(p, false);
    if (!skew) multiply_values(p, 0);
    tile_end(p);
    if (skew) multiply_values(p, -1);
}

void tile_attention_groups(const Body *b, TileProgram *p)
{
    const int n = b->attention.nouts, groups = groups_of(b);
    const bool doubt = may_doubt(b), looks = doubt && b->attention.high < 0;
    attention_tiles(b, p);
    p->shared = tile_memory(p);
    p->varies = true;
    p->tight = !b->sched.skew;
    p->role[p->nroles++] = (TileRole){"copies", 0, 1, registers_of(b, true), .thread = true};
    if (looks)
        p->role[p->nroles++] = (TileRole){"doubts", 1, 1, registers_of(b, true), .thread = false};
    p->role[p->nroles++] = (TileRole){"products", GROUP_WARPS, groups * GROUP_WARPS,
                                      registers_of(b, false), .groups = groups};
    begin(p, 0);
    attention_load(p, BY_BULK, true);
    tile_begin(p, T_LOOP, p->steps);
    attention_load(p, BY_BULK, false);
    tile_end(p);
    end(p);
    if (looks) { // tests what is stored about the rows' scores, while the others compute
        begin(p, 1);
        tile_do(p, T_JUDGE, NO_TILE, NO_TILE);
        end(p);
    }
    begin(p, p->nroles - 1);
    for (int i = 0; i < n; i++) tile_do(p, T_FILL, p->out[i].tile, NO_TILE);
    steps(p);
    if (doubt && !looks) tile_do(p, T_JUDGE, NO_TILE, NO_TILE);
    for (int i = 0; i < n; i++) tile_do(p, T_MAP, NO_TILE, p->out[i].tile);
    end(p);
}

// -- the launch's maps ----------------------------------------------------------------------------

void attention_groups_maps(const Body *b, ProgKernel *k)
{
    TileProgram p;
    attention_tiles(b, &p);
    k->nmaps = 0;
    for (int i = 0; i < p.score[0].tile; i++) {
        const Tile *t = &p.tile[i];
        ProgMap *m = &k->maps[k->nmaps++];
        *m = group_factor(b, t->inst, t->axis, t->head).map;
        m->arg = b->arg[m->arg];
        m->box_rows = t->lines;
    }
}
