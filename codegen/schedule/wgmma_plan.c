// The cost model of products of bf16 or f16 matrices by groups of four warps (tile/groups.c): their
// tiles, and the launch's tensor maps.
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

enum { ROWS = 64, SPARE = 1024 };

// Several products (a batch) only if they are parts of one over windows; others use the library.
bool wgmma_fits(const Body *b, const Target *t)
{
    return t->group_products && b->dot.sum >= 0 && mma_fits(b) &&
           b->axis[b->col].extent < INT32_MAX / 2 && group_operand(b, 1).fits &&
           group_operand(b, 2).fits && (b->axis[0].extent == 1 || group_has_windows(b));
}

bool wgmma_sums(const Body *b)
{
    const GroupOperand left = group_operand(b, 1);
    return left.fits && left.along_k && !left.map.image[0] && left.map.cols % 8 == 0 &&
           b->axis[0].extent == 1 && !group_uneven(b);
}

bool wgmma_fits_strips(const Body *b)
{
    const BodyWindows *left = b->dot.windows[0], *right = b->dot.windows[1];
    ProgMap m;
    if (body_folds_left(b)) return false;
    return group_right_strips(b, &m) ||
           (left && left->along_k && left->strips.pixels && !(right && right->live));
}

bool wgmma_splits(const Body *b)
{
    return !group_uneven(b) && !body_folds(b) && b->axis[0].extent == 1;
}

// What follows from wgmma, tile_n and cluster.
void wgmma_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    s->variant = RUN_GROUPS;
    if (s->tile.wgmma >= WGMMA_STRIPS && !wgmma_fits_strips(b)) s->tile.wgmma = WGMMA_OWN;
    if (s->tile.wgmma == WGMMA_SHARED_STRIPS && !wgmma_strips(b)) s->tile.wgmma = WGMMA_STRIPS;
    bool split = wgmma_shares(s), steps = s->tile.wgmma == WGMMA_STEPS;
    const BodyStrips *right = wgmma_right_strips(b);
    if (right) s->tile.n = right->pixels * STEP;
    int least = wgmma_strips(b) ? wgmma_grain(b) : ROWS;
    if (s->tile.n % wgmma_grain(b) || s->tile.n < least || s->tile.n > (steps ? 192 : 256) ||
        !wgmma_has_atom(s->tile.n))
        s->tile.n = 128;
    // Sums of columns are computed with any knobs, so the width must leave registers for them, and
    // there must be a block for each column of tiles.
    const bool adds = body_folds_results(b);
    if (adds && (s->tile.n > MOST_ADDED || ceil_div(b->axis[2].extent, s->tile.n) > t->units))
        s->tile.n = MOST_ADDED;
    int most = adds ? 1 : split ? t->max_cluster : group_has_windows(b) ? 1 : 2;
    if (s->cluster > most) s->cluster = most;
    if (s->cluster > t->units) s->cluster = 1;
    // Blocks of 64 rows per group, as registers hold their sums.
    const bool few = b->axis[1].extent <= ROWS && !adds && !wgmma_strips(b);
    int blocks = s->tile.n > 192 || s->tile.wgmma == WGMMA_SPLIT || right || few ? 1 : 2;
    s->threads = (1 + GROUPS) * 128;
    s->resident = 1;
    s->tile.k = STEP;
    s->tile.m = ROWS * blocks * (wgmma_together(s) ? GROUPS : 1);
    int other = SPARE + 256 + wgmma_part_bytes(b);
    if (wgmma_stays(b)) other += wgmma_tile_bytes(b, 2);
    s->tile.ring =
        (int)at_most((t->shared_per_block - other) / wgmma_place_apart(b), TILE_MOST_PLACES);
    if (s->tile.ring < 2 && wgmma_strips(b)) { // a window's line is long, or tiles are wide
        if (s->tile.n > ROWS)
            s->tile.n -= ROWS;
        else
            s->tile.wgmma = WGMMA_OWN;
        wgmma_derive(b, t);
        return;
    }
    if (steps) s->tile.ring -= s->tile.ring % GROUPS; // each group has every second place
    int tiles = s->tile.ring * wgmma_place_apart(b),
        sums = (steps ? GROUPS : 1) * s->tile.m * wgmma_pitch(s) * 4; // in place of the ring
    s->shared_bytes = (split && sums > tiles ? sums : tiles) + other;
    const int64_t across = ceil_div(b->axis[2].extent, s->tile.n);
    s->blocks = at_most(wgmma_tiles(b), target_clusters(t, b->sched.cluster)) * s->cluster;
    // Then all tiles of a block have the same columns.
    if (adds && s->blocks > across) s->blocks -= s->blocks % across;
}

static TargetSharing sharing(const Schedule *s)
{
    if (!wgmma_shares(s)) return SHARE_NONE;
    return s->cluster == 1                ? SHARE_GROUPS
           : s->tile.wgmma == WGMMA_SPLIT ? SHARE_BLOCKS
                                          : SHARE_BOTH;
}

// The steps of the block that has the most. If tiles have different numbers of steps, these are
// distributed evenly.
static double most_steps(const Body *b, const Target *t)
{
    const int64_t tiles = wgmma_tiles(b), clusters = target_clusters(t, b->sched.cluster),
                  across = ceil_div(b->axis[2].extent, b->sched.tile.n);
    int64_t all = 0;
    if (!wgmma_skips(b)) return (double)(ceil_div(tiles, clusters) * wgmma_steps(b));
    for (int64_t i = 0; i < across; i++) all += wgmma_live_steps(b, i) * (tiles / across);
    return (double)ceil_div(all, at_most(tiles, clusters));
}

double wgmma_share(const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    int64_t steps = ceil_div(b->axis[b->col].extent + (group_uneven(b) ? 7 : 0), STEP);
    const BodyStrips *strips = wgmma_strips(b);
    double rounds = most_steps(b, t) / (double)wgmma_steps(b),
           tile = (double)s->tile.m * (s->tile.n + target_tile_edge(t, sharing(s))) *
                  (double)(wgmma_steps(b) * (strips ? strips->pixels : 1));
    return (double)b->axis[0].extent * (double)b->axis[1].extent * (double)b->axis[2].extent *
           (double)steps / (rounds * t->units * (tile + target_joining(t, sharing(s))));
}

// Whether rows may begin within a line of memory, so that a copy of a row's 128 bytes reads two.
static bool straddles(const Body *b, int axis)
{
    const GroupOperand x = group_operand(b, axis);
    return x.fits && (x.map.pitch % STEP || x.map.offset % STEP);
}

// The lines of memory that a step of 64 columns copies.
static int step_lines(const Body *b)
{
    const Schedule *s = &b->sched;
    const BodyStrips *strips = wgmma_strips(b);
    if (strips) return wgmma_strip_rows(b) / strips->pixels + (wgmma_stays(b) ? 0 : wgmma_wide(b));
    if (wgmma_right_strips(b)) return s->tile.m + wgmma_right_rows(b);
    return s->tile.m * (1 + straddles(b, 1)) + s->tile.n / s->cluster * (1 + straddles(b, 2));
}

// The factor by which copies reduce the rate: 1 if they are fast enough. (A library's products wait
// for lines of memory as well.)
static double copied_share(const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    int copied = step_lines(b) * target_line_elements(t),
        multiplied = s->tile.m * (s->tile.n + target_tile_edge(t, sharing(s)));
    return copied > multiplied ? (double)multiplied / copied : 1;
}

// Chooses the best way to divide the columns with all clusters on the device at once, if it is
// better than the tiles chosen before, which reach [most]. (These ways were measured on an H200.)
static void try_split(const Target *t, Body *b, Schedule *best, double most)
{
    static const struct Way {
        int wgmma, tile_n, least, most; // least, most: blocks of a cluster
    } ways[] = {{WGMMA_SPLIT, 192, 2, 8},
                {WGMMA_SPLIT, 256, 2, 8},
                {WGMMA_STEPS, 128, 2, 8},
                {WGMMA_STEPS, 160, 1, 1}};
    const double WORTH = 1.02;
    Schedule before = b->sched;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int n = ways[i].least; n <= ways[i].most && n <= t->max_cluster; n++) {
            b->sched = before;
            b->sched.tile.wgmma = ways[i].wgmma;
            b->sched.tile.n = ways[i].tile_n;
            b->sched.cluster = n;
            wgmma_derive(b, t);
            double share = wgmma_share(b, t);
            if (wgmma_tiles(b) > target_clusters(t, b->sched.cluster) ||
                share < target_mma_share(t) || share < WORTH * most)
                continue;
            most = share / WORTH;
            *best = b->sched;
        }
}

// The share of its rate that mma.sync keeps if a side of the result is smaller than its tiles.
static double used(int64_t extent)
{
    enum { LEAST_SIDE = 64 };
    return extent < LEAST_SIDE ? (double)extent / LEAST_SIDE : 1;
}

// The share of the tensor cores' rate that mma.sync reaches. If channels were extended for bulk
// copies (counted_channels, lower/lower_body.c), it multiplies the added zeros, too.
static double other_share(const Body *b, const Target *t)
{
    const BodyWindows *w = b->dot.windows[0];
    const int64_t counted = w && w->along_k ? w->channel->high + 1 : 0;
    const bool extended = w && w->map.cols < counted;
    return target_mma_share(t) * used(b->axis[1].extent) * used(b->axis[2].extent) *
           (extended ? (double)w->map.cols / (double)counted : 1);
}

// Strips with tiles 96 wide copy more of the weights than of the image, unless the weights stay in
// shared memory. Then the groups share a tile of twice the height, if that does not leave much more
// of the device idle. (On an H100 products of 72 to 96 channels then take 0.7 to 0.94 of the time;
// with tiles 128 wide it would be 1.05 to 1.6.)
static void share_strips(const Target *t, Body *b)
{
    const double WORTH = 0.85;
    const Schedule before = b->sched;
    if (!wgmma_strips(b) || before.tile.n != 96 || wgmma_stays(b)) return;
    const double share = wgmma_share(b, t);
    b->sched.tile.wgmma = WGMMA_SHARED_STRIPS;
    wgmma_derive(b, t);
    if (!wgmma_strips(b) || wgmma_share(b, t) < WORTH * share) b->sched = before;
}

// Chooses the tiles that leave the least of the device idle; products too small for any are left to
// mma.sync. Clusters whose blocks copy for each other are considered only if rows straddle lines.
void wgmma_schedule(const Target *t, Body *b)
{
    static const struct Choice {
        int wgmma, tile_n, cluster;
    } choices[] = {{WGMMA_OWN, 192, 1},    {WGMMA_OWN, 128, 1}, {WGMMA_OWN, 64, 1},
                   {WGMMA_SHARED, 256, 2}, {WGMMA_OWN, 192, 2}, {WGMMA_OWN, 128, 2}},
      narrow = {WGMMA_OWN, 256, 1}, // at most 64 rows: gradients of weights of few channels
        of_strips[] = {{WGMMA_STRIPS, 32, 1},
                       {WGMMA_STRIPS, 64, 1},
                       {WGMMA_STRIPS, 96, 1},
                       {WGMMA_STRIPS, 128, 1}}; // strips of the right operand determine the width
    double most = 0;
    Schedule *s = &b->sched, before = *s, best = *s;
    if (!wgmma_fits(b, t)) return;
    bool even = !straddles(b, 1) && !straddles(b, 2), strips = wgmma_fits_strips(b);
    int n = even ? 3 : 6, all_n = n + (b->axis[1].extent <= ROWS && group_has_windows(b));
    int last = all_n + (strips ? (int)(sizeof of_strips / sizeof *of_strips) : 0);
    for (int i = 0; i < last; i++) {
        const struct Choice *c = i < n ? &choices[i] : i < all_n ? &narrow : &of_strips[i - all_n];
        *s = before;
        s->tile.wgmma = c->wgmma;
        s->tile.n = c->tile_n;
        s->cluster = c->cluster;
        wgmma_derive(b, t);
        double share = wgmma_share(b, t), all = share * (even && !strips ? 1 : copied_share(b, t));
        if (share <= other_share(b, t) || all <= most) continue;
        most = all;
        best = *s;
    }
    *s = before;
    if (even && wgmma_splits(b)) try_split(t, b, &best, most);
    *s = best;
    share_strips(t, b);
}

void wgmma_maps(const Body *b, ProgKernel *k)
{
    const Schedule *s = &b->sched;
    k->nmaps = 2;
    for (int axis = 1; axis <= 2; axis++) {
        ProgMap *m = &k->maps[axis - 1];
        const GroupOperand x = group_operand(b, axis);
        *m = x.map;
        // A block copies its whole left tile and its share of the right one.
        const BodyStrips *right = wgmma_right_strips(b);
        if (axis == 1 && right) group_right_strips(b, m);
        int side = axis == 1 ? s->tile.m : s->tile.n,
            share = axis == 1 ? 1 : s->cluster / wgmma_sharing(s);
        m->box_rows = (x.along_k ? side : STEP) / share;
        if (axis == 1 && wgmma_strips(b)) {
            m->box_rows = wgmma_strip_rows(b);
            m->places[0] = (int32_t)wgmma_strips(b)->pitch;
        }
        if (axis == 2 && right) {
            m->box_rows = wgmma_right_rows(b);
            m->places[0] = (int32_t)right->pitch;
        }
        m->arg = b->arg[b->insts.at[b->insts.at[axis == 1 ? b->dot.a : b->dot.b].a[0]].buf];
    }
    for (uint32_t i = 0; i < b->stores.n && !wgmma_strips(b); i++)
        if (group_result(b, i, &k->maps[k->nmaps]))
            k->maps[k->nmaps++].arg = b->arg[b->stores.at[i].buf];
}
