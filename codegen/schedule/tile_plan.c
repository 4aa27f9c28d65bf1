// The cost model of contractions on CUDA: which of the ways to compute one, and its tile.
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"

static int64_t tiles_of(const Body *b)
{
    const Schedule *s = &b->sched;
    return b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile_m) *
           ceil_div(b->axis[2].extent, s->tile_n);
}

// Small contractions go to tensor cores: the largest tile a warp that still gives every
// multiprocessor one, whose columns as many warps share as there are.
static void tensor_tile(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t batch = b->axis[0].extent, m = b->axis[1].extent, n = b->axis[2].extent, tiles,
            cols = b->axis[b->col].extent;
    if (!b->dot.tensor) return;
    if (!target_small_product(t, batch, m, n, cols)) {
        if (b->dot.tensor == TENSOR_TF32) staged_plan(t, b);
        return;
    }
    for (s->each = 2; s->each >= 0; s->each--) {
        int rows = s->each == 2 ? 32 : 16, columns = s->each == 2 ? 32 : s->each ? 16 : 8;
        tiles = batch * ceil_div(m, rows) * ceil_div(n, columns);
        if (!s->each || tiles >= t->units) break;
    }
    s->resident = s->each == 2 ? 2 : 0; // registers for two blocks a multiprocessor
    s->share = 1;
    while (s->share < 8 && tiles * s->share < (s->each == 2 ? 12 : 6) * t->units &&
           cols > 16 * s->share)
        s->share *= 2;
}

// The largest tiles that still give every multiprocessor one.
void plan_tile(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int bytes = math_bytes(b->insts.at[b->dot.sum].acc);
    for (s->each = bytes > 4 ? 4 : 8;; s->each /= 2) {
        s->tile_m = s->tile_n = 16 * s->each;
        s->blocks = tiles_of(b);
        if (s->each == 2 || s->blocks >= t->units) break;
    }
    s->tile_k = s->each == 8 ? 16 : 32;
    s->mma = mma_fits(b);
    if (s->mma) {
        s->tile_k *= 2;
        s->threads = 256;
        wgmma_schedule(t, b);
        return;
    }
    if (bytes > 4) s->tile_k = 16;
    s->threads = 256;
    if (bytes == 4 && s->blocks < t->units) {
        s->each = 0; // small: tiles of 16 x 16, eight warps share out the columns of each
        s->tile_k = pow2_at_least(b->axis[b->col].extent, 256);
        if (s->tile_k < 32) s->tile_k = 32;
    }
    tensor_tile(t, b);
}

// A block is eight warps, of which s->share work at one tile.
static void shared_tile_derive(Body *b)
{
    Schedule *s = &b->sched;
    s->threads = 256;
    s->tile_m = s->each == 2 ? 32 : 16;
    s->tile_n = s->each == 2 ? 32 : s->each ? 16 : 8;
    s->row_bytes = s->share > 1 ? 8 * s->tile_m * s->tile_n * 4 : 0;
    s->blocks = ceil_div(tiles_of(b), 8 / s->share);
}

static void plain_tile_derive(Body *b)
{
    Schedule *s = &b->sched;
    s->tile_m = s->tile_n = s->each ? 16 * s->each : 16;
    s->row_bytes = math_bytes(b->insts.at[b->dot.sum].acc) *
                   (s->each ? s->tile_k * 2 * (s->tile_m + 4) : s->tile_k * 2 * 17 + 8 * 256);
    if (s->mma) {
        s->row_bytes = mma_shared_bytes(b);
        s->threads = 256; // (it may have been wgmma)
        s->cluster = 1;
    }
    s->blocks = tiles_of(b);
}

void tile_derive(Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    if (s->share)
        shared_tile_derive(b);
    else if (s->wgmma)
        wgmma_derive(b, t);
    else if (s->staged)
        staged_derive(b, t);
    else
        plain_tile_derive(b);
}
