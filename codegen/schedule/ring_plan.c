// Staged tiles: the tile size, and the split of the columns among blocks, by estimated time.
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"

enum { CHUNK = 16, LEAST_K = 32, MOST_CLUSTER = 8, MOST_STAGED = 8 };

static const struct {
    int m, n;
} tiles[] = {{128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 64}, {32, 32}};

static int64_t count_tiles(const Body *b)
{
    return b->axis[0].extent * ceil_div(b->axis[1].extent, b->sched.tile.m) *
           ceil_div(b->axis[2].extent, b->sched.tile.n);
}

void staged_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    s->variant = RUN_F32_RING;
    s->threads = 32 * STAGED_WARPS;
    if (s->tile.m % STAGED_SIDE || s->tile.n % STAGED_SIDE ||
        s->tile.m * s->tile.n > STAGED_WARPS * STAGED_SIDE * STAGED_SIDE) // set by knobs
        s->tile.m = s->tile.n = 2 * STAGED_SIDE;
    s->tile.k = CHUNK * staged_sharing(s);
    if (s->tile.k < LEAST_K) s->tile.k = LEAST_K;
    int stage = (s->tile.m + s->tile.n) * s->tile.k,
        sums = staged_sharing(s) * s->tile.m * staged_pitch(b);
    int64_t steps = ceil_div(b->axis[b->col].extent, (int64_t)s->tile.k * s->cluster);
    if (s->tile.staged > steps) s->tile.staged = steps > 2 ? (int)steps : 2;
    int64_t room = t->shared_per_block;
    if (s->resident > 1) room = t->shared_per_unit / s->resident - 1024;
    while (s->tile.staged > 2 && 4 * (int64_t)s->tile.staged * stage > room) s->tile.staged--;
    s->shared_bytes = 4 * (s->tile.staged * stage > sums ? s->tile.staged * stage : sums);
    s->blocks = count_tiles(b) * s->cluster;
}

void staged_beside(const Target *t, Body *b, int64_t tiles)
{
    if (!b->sched.tile.staged || !b->commits || tiles <= 2 * (int64_t)t->units) return;
    b->sched.resident = 3; // so that all blocks fit on the device at once
    staged_derive(b, t);
}

double staged_plan(const Target *t, Body *b)
{
    Schedule *s = &b->sched, best = *s;
    double least = 0;
    s->tile.share = s->tile.each = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (s->cluster = 1; s->cluster <= t->max_cluster && s->cluster <= MOST_CLUSTER;
             s->cluster *= 2) {
            s->tile.m = tiles[i].m;
            s->tile.n = tiles[i].n;
            s->tile.staged = MOST_STAGED;
            int64_t blocks = count_tiles(b) * s->cluster;
            // Two blocks per multiprocessor only if there are more blocks than multiprocessors, or
            // updates, whose launch may have other products.
            s->resident = blocks > t->units || b->commits ? 2 : 1;
            staged_derive(b, t);
            if (s->cluster > 1 && s->tile.k * s->cluster > b->axis[b->col].extent) break;
            double took =
                target_tiles_seconds(t, blocks, s->tile.m, s->tile.n,
                                     (double)b->axis[b->col].extent / s->cluster, s->cluster);
            if (least == 0 || took < least) {
                least = took;
                best = *s;
            }
        }
    *s = best;
    return least;
}
