// The cost model of products of bf16 or f16 matrices by groups of warps (tile/groups.c), their
// tiles, and the launch's maps.
#include "codegen/schedule/plans.h"
#include "codegen/tile/wgmma.h"

enum { ROWS = 64, SPARE = 1024 };

// mma.sync reaches this share of the tensor cores' rate there.
#define LEAST_SHARE 0.35

bool wgmma_fits(const Body *b, const Target *t)
{
    ProgMap m;
    bool along_k;
    return t->group_products && b->dot.sum >= 0 && mma_fits(b) && b->axis[0].extent == 1 &&
           b->axis[b->col].extent < INT32_MAX / 2 && group_operand(b, 1, &m, &along_k) &&
           group_operand(b, 2, &m, &along_k);
}

bool wgmma_sums(const Body *b)
{
    ProgMap m;
    bool along_k;
    return group_operand(b, 1, &m, &along_k) && along_k && m.cols % 8 == 0 && !group_uneven(b);
}

// Of one place of the ring.
static int place_bytes(const Schedule *s)
{
    return (s->tile_m + s->tile_n) * LINE;
}

// What follows from wgmma, tile_n and cluster.
void wgmma_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    if (s->tile_n % ROWS || s->tile_n < ROWS || s->tile_n > 256) s->tile_n = 128;
    if (s->cluster > 2) s->cluster = 2;
    if (s->cluster > t->units) s->cluster = 1;
    int blocks = s->tile_n > 192 ? 1 : 2; // of 64 rows a group: registers hold so many sums
    s->threads = (1 + GROUPS) * 128;
    s->resident = 1;
    s->tile_k = STEP;
    s->tile_m = ROWS * blocks * (s->wgmma == WGMMA_SHARED ? GROUPS : 1);
    int other = SPARE + 256 + wgmma_stages(b) * wgmma_staged(b) * GROUPS * 4 * BOX * LINE;
    s->ring = (int)(t->shared_per_block - other) / place_bytes(s);
    s->row_bytes = s->ring * place_bytes(s) + other;
    int64_t tiles = wgmma_tiles(b), most = t->units / s->cluster;
    s->blocks = (tiles < most ? tiles : most) * s->cluster;
}

enum { EDGE = 32 };

// Rounds are whole, and a tile costs as much as if it were EDGE wider: on an H200 tiles 128 wide
// are a few percent behind those of 192, and those of 64 a sixth behind them.
double wgmma_share(const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    int64_t at_once = t->units / s->cluster, rounds = ceil_div(wgmma_tiles(b), at_once);
    return (double)b->axis[1].extent * (double)b->axis[2].extent /
           ((double)rounds * t->units * s->tile_m * (s->tile_n + EDGE));
}

// Rows that begin within a line of memory straddle two.
static bool straddles(const Body *b, int axis)
{
    ProgMap m;
    bool along_k;
    return group_operand(b, axis, &m, &along_k) && (m.pitch % STEP || m.offset % STEP);
}

// The copies' share of that: 1 where they are fast enough. A line takes as long as so many elements
// of a tile: 1.6 ns on an H200. (A library's products have to wait for lines as well.)
static double copied_share(const Body *b)
{
    enum { OF_A_LINE = 80 };
    const Schedule *s = &b->sched;
    int lines = s->tile_m * (1 + straddles(b, 1)) + s->tile_n / s->cluster * (1 + straddles(b, 2));
    int copied = lines * OF_A_LINE, multiplied = s->tile_m * (s->tile_n + EDGE);
    return copied > multiplied ? (double)multiplied / copied : 1;
}

// The tiles that leave the least of the device idle; products too small for any are left to mma.
// Blocks that copy for each other are for operands whose rows straddle lines.
void wgmma_schedule(const Target *t, Body *b)
{
    static const struct Choice {
        int wgmma, tile_n, cluster;
    } choices[] = {{WGMMA_OWN, 192, 1},    {WGMMA_OWN, 128, 1}, {WGMMA_OWN, 64, 1},
                   {WGMMA_SHARED, 256, 2}, {WGMMA_OWN, 192, 2}, {WGMMA_OWN, 128, 2}};
    double most = 0;
    Schedule *s = &b->sched, before = *s, best = *s;
    if (!wgmma_fits(b, t)) return;
    bool even = !straddles(b, 1) && !straddles(b, 2);
    for (int i = 0; i < (even ? 3 : 6); i++) {
        *s = before;
        s->wgmma = choices[i].wgmma;
        s->tile_n = choices[i].tile_n;
        s->cluster = choices[i].cluster;
        wgmma_derive(b, t);
        double share = wgmma_share(b, t), all = share * (even ? 1 : copied_share(b));
        if (share <= LEAST_SHARE || all <= most) continue;
        most = all;
        best = *s;
    }
    *s = best;
}

void wgmma_maps(const Body *b, ProgKernel *k)
{
    const Schedule *s = &b->sched;
    k->nmaps = 2;
    for (int axis = 1; axis <= 2; axis++) {
        ProgMap *m = &k->maps[axis - 1];
        bool along_k;
        group_operand(b, axis, m, &along_k);
        // a block copies all of its left tile, and its share of the right one
        int side = axis == 1 ? s->tile_m : s->tile_n, share = axis == 1 ? 1 : s->cluster;
        m->box_rows = (along_k ? side : STEP) / share;
        m->arg = b->arg[b->insts.at[b->insts.at[axis == 1 ? b->dot.a : b->dot.b].a[0]].buf];
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (group_result(b, i, &k->maps[k->nmaps]))
            k->maps[k->nmaps++].arg = b->arg[b->stores.at[i].buf];
}
