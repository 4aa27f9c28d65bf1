// The cost model of contractions on CUDA: which of the ways to compute one, and its tile.
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

static int64_t tiles_of(const Body *b)
{
    const Schedule *s = &b->sched;
    return b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile.m) *
           ceil_div(b->axis[2].extent, s->tile.n);
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
    for (s->tile.each = 2; s->tile.each >= 0; s->tile.each--) {
        int rows = s->tile.each == 2 ? 32 : 16, columns = s->tile.each == 2 ? 32
                                                          : s->tile.each    ? 16
                                                                            : 8;
        tiles = batch * ceil_div(m, rows) * ceil_div(n, columns);
        if (!s->tile.each || tiles >= t->units) break;
    }
    s->resident = s->tile.each == 2 ? 2 : 0; // registers for two blocks a multiprocessor
    s->tile.share = 1;
    while (s->tile.share < 8 && tiles * s->tile.share < (s->tile.each == 2 ? 12 : 6) * t->units &&
           cols > 16 * s->tile.share)
        s->tile.share *= 2;
}

// Seconds of a product in tiles that eight warps share, by the bytes that a multiprocessor fetches
// for its blocks and the joins of a cluster's (target_warp_tiles_seconds).
static double warp_seconds(const Target *t, const Body *b)
{
    const Schedule *s = &b->sched;
    double tile = 2.0 * (s->tile.m + s->tile.n) * (double)b->axis[b->col].extent;
    return target_warp_tiles_seconds(t, s->blocks, tile / s->cluster, s->cluster);
}

// 16-bit products of few rows, or few columns: tiles that pass through shared memory would leave
// most of the device idle. Eight warps share the columns of a tile, so that all have something to
// fetch; long columns the blocks of a cluster.
static bool narrow_warp_tile(const Target *t, Body *b)
{
    const Schedule before = b->sched;
    Schedule best = before;
    double least = -1;
    const int64_t m = b->axis[1].extent, n = b->axis[2].extent, k = b->axis[b->col].extent;
    if (!target_few_rows(t, b->axis[0].extent, m, n, k) || body_folds(b) || group_has_windows(b))
        return false;
    for (int cluster = 1; cluster <= t->max_cluster; cluster *= 2)
        for (int each = 0; each <= WARP_TILE_MOST; each++) {
            b->sched = before;
            b->sched.cluster = cluster;
            b->sched.tile.each = each;
            b->sched.tile.share = 8;
            tile_derive(b, t);
            // Registers for two blocks a multiprocessor, where there are so many.
            b->sched.resident = each == 2 && b->sched.blocks > t->units ? 2 : 0;
            double seconds = warp_seconds(t, b);
            if (least >= 0 && seconds >= least) continue;
            least = seconds;
            best = b->sched;
        }
    b->sched = best;
    return true;
}

// The largest tiles that still give every multiprocessor one.
void plan_tile(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int bytes = math_bytes(b->insts.at[b->dot.sum].acc);
    for (s->tile.each = bytes > 4 ? 4 : 8;; s->tile.each /= 2) {
        s->tile.m = s->tile.n = 16 * s->tile.each;
        s->blocks = tiles_of(b);
        if (s->tile.each == 2 || s->blocks >= t->units) break;
    }
    s->tile.k = s->tile.each == 8 ? 16 : 32;
    if (mma_fits(b) && narrow_warp_tile(t, b)) return;
    if (mma_fits(b)) {
        s->tile.k *= 2;
        s->threads = 256;
        wgmma_schedule(t, b);
        return;
    }
    if (bytes > 4) s->tile.k = 16;
    s->threads = 256;
    if (bytes == 4 && s->blocks < t->units) {
        s->tile.each = 0; // small: tiles of 16 x 16, eight warps share out the columns of each
        s->tile.k = pow2_at_least(b->axis[b->col].extent, 256);
        if (s->tile.k < 32) s->tile.k = 32;
    }
    tensor_tile(t, b);
}

bool warp_cluster(const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    return mma_fits(b) && s->tile.share == 8 && !b->commits && s->cluster <= t->max_cluster;
}

// A block is eight warps, of which tile.share work at one tile.
static void shared_tile_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    static const int rows[] = {16, 16, 32, 32}, columns[] = {8, 16, 32, 16};
    s->variant = RUN_WARP_TILES;
    s->threads = 256;
    if (s->tile.each > WARP_TILE_MOST) s->tile.each = 1; // (it was of tiles in shared memory)
    s->tile.m = rows[s->tile.each];
    s->tile.n = columns[s->tile.each];
    s->shared_bytes = s->tile.share > 1 ? 8 * s->tile.m * s->tile.n * 4 : 0;
    if (!warp_cluster(b, t)) s->cluster = 1;
    s->blocks = ceil_div(tiles_of(b), 8 / s->tile.share) * s->cluster;
}

static void plain_tile_derive(Body *b)
{
    Schedule *s = &b->sched;
    if (mma_fits(b) && s->tile.each != 4 && s->tile.each != 8) s->tile.each = 2;
    s->tile.m = s->tile.n = s->tile.each ? 16 * s->tile.each : 16;
    s->shared_bytes =
        math_bytes(b->insts.at[b->dot.sum].acc) *
        (s->tile.each ? s->tile.k * 2 * (s->tile.m + 4) : s->tile.k * 2 * 17 + 8 * 256);
    s->variant = mma_fits(b) ? RUN_MMA : RUN_TILES;
    if (s->variant == RUN_MMA) {
        const int most = 64; // of the long sides' tiles of few rows, or of few columns
        if (s->tile.m > most && b->axis[1].extent <= most) s->tile.m = most;
        if (s->tile.n > most && b->axis[2].extent <= most) s->tile.n = most;
        s->shared_bytes = mma_shared_bytes(b);
        s->threads = 256; // (it may have been wgmma)
        s->cluster = 1;
    }
    s->blocks = tiles_of(b);
}

void tile_derive(Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    if (s->tile.wgmma) // (which leaves no choice of share)
        wgmma_derive(b, t);
    else if (s->tile.share)
        shared_tile_derive(b, t);
    else if (s->tile.staged)
        staged_derive(b, t);
    else
        plain_tile_derive(b);
}
