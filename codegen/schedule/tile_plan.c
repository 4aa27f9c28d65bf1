// The cost model of contractions on CUDA: the method and its tile.
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

static int64_t tiles_of(const Body *b)
{
    const Schedule *s = &b->sched;
    return b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile.m) *
           ceil_div(b->axis[2].extent, s->tile.n);
}

// Bytes of memory that are read and written per result besides its operands.
static int result_bytes(const Body *b)
{
    int bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const bool over = v->axes >> 1 & v->axes >> 2 & 1; // rows and columns of results
        if (v->kind == KI_LOAD && over && !(v->axes >> b->col & 1) && !inst_nested(b, v))
            bytes += element_bytes(b, v->buf);
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        bytes += dtype_info[b->bufs.at[b->stores.at[i].buf].type].bits / 8;
    return bytes;
}

// Whether both operands are matrices, which a library could multiply, too, and not windows.
static bool reads_matrices(const Body *b)
{
    bool all = true;
    for (int axis = 1; axis <= 2; axis++) {
        const Inst *v = &b->insts.at[axis == 1 ? b->dot.a : b->dot.b];
        int64_t stride;
        while (v->kind == KI_CAST) v = &b->insts.at[v->a[0]];
        all &= v->kind == KI_LOAD && v->pred < 0 && ix_stride(v->ix, axis, &stride) &&
               ix_stride(v->ix, b->col, &stride);
    }
    return all;
}

// Estimated seconds of a product with a tile per warp, from the bytes that a multiprocessor loads
// and stores for its blocks and the cost of combining a cluster's sums (target_warp_tiles_seconds).
static double warp_seconds(const Target *t, const Body *b)
{
    const Schedule *s = &b->sched;
    const int element = warp_narrow(b) ? 2 : 4, tiles = 8 / s->tile.share; // tiles per block
    double operands = (double)element * (s->tile.m + s->tile.n) * (double)b->axis[b->col].extent,
           results = (double)result_bytes(b) * s->tile.m * s->tile.n;
    if (warp_narrow(b) && !reads_matrices(b))
        return target_windows_seconds(t, s->blocks, tiles * operands / s->cluster, s->cluster);
    const double seconds = target_warp_tiles_seconds(
        t, s->blocks, tiles * (operands + results) / s->cluster, s->cluster, warp_narrow(b));
    // If operands are computed, instructions limit it, and idle multiprocessors execute none.
    const bool computed = !warp_narrow(b) && (b->insts.at[b->dot.a].kind != KI_LOAD ||
                                              b->insts.at[b->dot.b].kind != KI_LOAD);
    const int64_t own = s->blocks / s->cluster;
    return computed && own < t->units ? seconds * t->units / (double)own : seconds;
}

// Products of few results, for which tiles in shared memory would leave most of the device idle.
// The warps of a block divide the columns of a tile, so that all of them load something; if there
// are many columns, the blocks of a cluster divide them, too.
static void warp_tile(const Target *t, Body *b)
{
    const Schedule before = b->sched;
    const int64_t cols = b->axis[b->col].extent;
    Schedule best = before;
    double least = -1;
    int share = 8;
    while (share > 1 && cols <= 2ll * warp_columns(b) * share) share /= 2;
    for (int cluster = 1; cluster <= t->max_cluster; cluster *= 2)
        for (int each = 0; each <= WARP_TILE_MOST; each++) {
            b->sched = before;
            b->sched.cluster = cluster;
            b->sched.tile.each = each;
            b->sched.tile.share = share;
            tile_derive(b, t);
            // Registers for two blocks per multiprocessor. For 16-bit operands only if there are
            // more blocks than multiprocessors, or more clusters than fit with one block each.
            const int64_t own = b->sched.blocks / b->sched.cluster;
            const bool two = !warp_narrow(b) || (each == 2 && b->sched.blocks > t->units) ||
                             (b->sched.cluster > 1 && own > target_clusters(t, b->sched.cluster));
            b->sched.resident = two ? 2 : 0;
            double seconds = warp_seconds(t, b);
            if (least >= 0 && seconds >= least) continue;
            least = seconds;
            best = b->sched;
        }
    b->sched = best;
}

// f32 on tensor cores: a tile per warp if there are few results; if TF32 is allowed, tiles in
// shared memory where these are faster.
static bool plan_f32(const Target *t, Body *b, bool small, bool idle)
{
    const Schedule before = b->sched;
    const bool tf32 = b->dot.tensor == TENSOR_TF32;
    if (!b->dot.tensor || (!tf32 && !small && !idle)) return false;
    if (!small && !idle) {
        staged_plan(t, b);
        return true;
    }
    warp_tile(t, b);
    if (small || !tf32) return true;
    const Schedule warps = b->sched;
    const double seconds = warp_seconds(t, b);
    b->sched = before;
    if (staged_plan(t, b) > seconds) b->sched = warps;
    return true;
}

// 16-bit operands: a tile per warp if there are few rows, otherwise groups of four warps.
static void plan_narrow(const Target *t, Body *b, bool few)
{
    b->sched.threads = 256;
    b->sched.tile.k *= 2;
    if (few && !body_folds(b))
        warp_tile(t, b);
    else
        wgmma_schedule(t, b);
}

// Without a better method: the largest tiles of which there is still one per multiprocessor.
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
    const int64_t batch = b->axis[0].extent, m = b->axis[1].extent, n = b->axis[2].extent,
                  k = b->axis[b->col].extent;
    if (mma_fits(b)) {
        plan_narrow(t, b,
                    reads_matrices(b) ? target_few_rows(t, batch, m, n, k)
                                      : target_few_results(t, batch, m, n, k));
        return;
    }
    if (bytes > 4) s->tile.k = 16;
    s->threads = 256;
    if (plan_f32(t, b, target_small_product(t, batch, m, n, k),
                 target_idle_product(t, batch, m, n, k) && !group_has_windows(b)))
        return;
    if (bytes == 4 && s->blocks < t->units) {
        s->tile.each = 0; // small: tiles of 16 x 16, whose columns eight warps divide
        s->tile.k = pow2_at_least(b->axis[b->col].extent, 256);
        if (s->tile.k < 32) s->tile.k = 32;
    }
}

bool warp_cluster(const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    return s->tile.share == 8 && !b->commits && s->cluster <= t->max_cluster;
}

// A block has eight warps; tile.share of them divide the columns of one tile.
static void shared_tile_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    static const int rows[] = {16, 16, 32, 32}, columns[] = {8, 16, 32, 16};
    s->variant = RUN_WARP_TILES;
    s->threads = 256;
    if (s->tile.each > WARP_TILE_MOST) s->tile.each = 1; // it was chosen for another variant
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
        const int most = 64; // the tile's side if there are few rows, or few columns, of results
        if (s->tile.m > most && b->axis[1].extent <= most) s->tile.m = most;
        if (s->tile.n > most && b->axis[2].extent <= most) s->tile.n = most;
        s->shared_bytes = mma_shared_bytes(b);
        s->threads = 256; // wgmma may have set another number
        s->cluster = 1;
    }
    s->blocks = tiles_of(b);
}

void tile_derive(Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    if (s->tile.wgmma)
        wgmma_derive(b, t);
    else if (s->tile.share)
        shared_tile_derive(b, t);
    else if (s->tile.staged)
        staged_derive(b, t);
    else
        plain_tile_derive(b);
}
