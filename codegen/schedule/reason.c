// Explains the cost model's schedule: repeats its comparisons and prints their numbers.
#include "codegen/schedule/knobs.h"
#include "codegen/schedule/plans.h"
#include "codegen/tile/wgmma.h"

static const char *vectors(Arena *a, const Body *b, int axis)
{
    const Schedule *s = &b->sched;
    long long extent = (long long)b->axis[axis].extent;
    if (s->vector > 1 && b->uneven)
        return arena_printf(
            a, "rows of %lld start anywhere: vectors of %d inside, single elements at the ends",
            extent, s->vector);
    if (s->vector > 1)
        return arena_printf(a, "vectors of %d: the widest that loads and stores allow", s->vector);
    if (extent % 2)
        return arena_printf(a, "single elements: rows of %lld are not a whole number of vectors",
                            extent);
    return "single elements: no access has wider ones, or there is too little work for the device";
}

static void map_reason(Arena *a, const Body *b, Buf *o)
{
    const Schedule *s = &b->sched;
    int inner = b->npar - 1;
    if (s->variant == RUN_TRANSPOSE) {
        buf_printf(o,
                   "some loads run along axis %d, the result along axis %d: tiles are transposed "
                   "while they are read",
                   s->map.transpose - 1, inner);
        return;
    }
    buf_str(o, vectors(a, b, inner));
    if (s->variant == RUN_INTERLEAVED)
        buf_str(o, "; a thread reads whole runs, whose elements belong to several outer positions");
    if (s->variant == RUN_REUSE) buf_str(o, "; what every outer position reads stays in registers");
    if (s->unroll > 1) buf_printf(o, "; accesses are narrow, so %d are in flight", s->unroll);
}

static void row_reason(Arena *a, const Body *b, const Target *t, Buf *o)
{
    const Schedule *s = &b->sched;
    long long rows = (long long)body_rows(b), cols = (long long)b->axis[b->col].extent;
    if (b->serial_cols) {
        buf_printf(
            o, "the columns have an order: %s",
            s->variant == RUN_SORT    ? "a block sorts a row in shared memory"
            : s->variant == RUN_RADIX ? "blocks move or count the elements of a chunk by a digit"
            : s->variant == RUN_FIRST ? arena_printf(a, "%d threads find the first %lld of a row",
                                                     s->team, (long long)body_first(b))
            : s->variant == RUN_SCAN  ? arena_printf(a, "%d threads combine %d of a row at a time",
                                                     s->team, s->team * s->unroll)
                                      : "a thread a row");
        return;
    }
    buf_printf(o, "%s; %lld rows of %lld: %d threads a row take %lld vectors each",
               vectors(a, b, b->col), rows, cols, s->team,
               (cols / s->vector + s->team - 1) / s->team);
    if (b->nstages > 1 && s->row.keep_in == KEEP_REGISTERS)
        buf_printf(o, "; %d stages read the row, which is held in %d registers per thread",
                   b->nstages, s->row.keep * s->vector * s->row.keep_bytes / 4);
    else if (s->row.keep_in == KEEP_REGISTERS)
        buf_printf(o,
                   "; a row of weights is loaded into %d registers per thread before the previous "
                   "kernel ends",
                   s->row.keep * s->vector * s->row.keep_bytes / 4);
    else if (b->nstages > 1 && s->row.keep_in == KEEP_SHARED)
        buf_printf(o,
                   "; %d stages read the row: too long for registers, %d KB of shared memory hold "
                   "%s of it",
                   b->nstages, s->shared_bytes >> 10, s->row.cols < cols ? "a part" : "all");
    else if (b->nstages > 1 && s->row.keep_bytes)
        buf_printf(o, "; %d stages read the row again: it is longer than a block can hold",
                   b->nstages);
    if (s->split > 1)
        buf_printf(o,
                   "; too few rows for %d multiprocessors: %lld parts of each and a second kernel",
                   t->units, (long long)s->split);
    if (s->unroll > 1) buf_printf(o, "; %d vectors in flight", s->unroll);
}

static void column_reason(Arena *a, const Body *b, const Target *t, Buf *o)
{
    const Schedule *s = &b->sched;
    if (b->bins.chunk && b->bins.same != b->bins.ordered) {
        buf_printf(o, "sums by index: %s %lld updates%s are added up first",
                   b->bins.ordered < 0 ? "frequent places of" : "chunks of",
                   (long long)b->bins.chunk, b->bins.ordered < 0 ? "" : " of one place");
        return;
    }
    if (b->bins.held) {
        buf_printf(
            o, "sums by index in shared memory: %lld places a block%s; %lld parts of the columns",
            (long long)b->bins.held, b->bins.ordered < 0 ? "" : ", whose updates are neighbours",
            (long long)(b->axis[0].extent / b->bins.shares));
        if (b->bins.part) buf_str(o, "; only results with updates are read and stored");
        return;
    }
    if (b->serial_cols) {
        buf_str(o, body_recurs(b)
                       ? "iterations of a loop: a thread keeps carried values in registers"
                       : "the columns have an order: a thread a row");
        return;
    }
    buf_printf(o, "neighbours in memory are rows; %s", vectors(a, b, b->npar - 1));
    if (s->split > 1)
        buf_printf(o, "; %lld columns in %lld parts fill %d multiprocessors once",
                   (long long)b->axis[b->col].extent, (long long)s->split, t->units);
}

// The steps of a row of tiles that are not skipped.
static int64_t live_steps(const Body *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ceil_div(b->axis[2].extent, b->sched.tile.n); i++)
        n += wgmma_live_steps(b, i);
    return n;
}

static void tile_reason(const Body *b, const Target *t, Buf *o)
{
    const Schedule *s = &b->sched;
    if (s->variant == RUN_GROUPS) {
        const int64_t across = ceil_div(b->axis[2].extent, s->tile.n), chunks = wgmma_chunks(b),
                      met = wgmma_steps(b) * across,
                      all = chunks ? met * (b->dot.deep / WINDOWS_STEP) / chunks : met,
                      live = wgmma_skips(b) ? live_steps(b) : met;
        const BodyStrips *right = wgmma_right_strips(b), *strips = right ? right : wgmma_strips(b);
        buf_printf(
            o,
            "groups of four warps take tiles of %d x %d: %.0f %% of what %d multiprocessors can "
            "multiply",
            s->tile.m, s->tile.n, 100 * wgmma_share(b, t) * (double)live / (double)all, t->units);
        if (live < all)
            buf_printf(o, "; %lld of %lld steps meet no weights and are skipped",
                       (long long)(all - live), (long long)all);
        if (s->tile.wgmma >= WGMMA_SPLIT && s->cluster > 1)
            buf_printf(o,
                       "; there are few tiles, so %d blocks divide the columns of each and add up "
                       "their sums in shared memory",
                       s->cluster);
        else if (s->tile.wgmma == WGMMA_STEPS)
            buf_str(o, "; each has one, so both groups divide its columns");
        else if (strips)
            buf_printf(o, "; the %d pixels of a window along a line are read from one copy",
                       strips->pixels);
        return;
    }
    const int64_t tiles = b->axis[0].extent * ceil_div(b->axis[1].extent, s->tile.m) *
                          ceil_div(b->axis[2].extent, s->tile.n);
    buf_printf(o, "%lld tiles of %d x %d: ", (long long)tiles, s->tile.m, s->tile.n);
    if (s->variant == RUN_WARP_TILES && s->cluster > 1)
        buf_printf(o, "%d warps of %d blocks divide the columns of each, so that more warps work",
                   s->tile.share * s->cluster, s->cluster);
    else if (s->variant == RUN_WARP_TILES)
        buf_printf(o, "one tile per warp, and %d warps divide its columns, so that more warps work",
                   s->tile.share);
    else if (s->blocks >= t->units)
        buf_printf(o, "the largest that give %d multiprocessors one each", t->units);
    else
        buf_printf(o, "the smallest; they do not fill %d multiprocessors", t->units);
    if (s->variant == RUN_MMA) buf_str(o, "; 16-bit operands: tensor cores");
}

const char *schedule_reason(Arena *a, const Body *b, const Target *t)
{
    const Schedule *s = &b->sched;
    Buf o = buf_new(a);
    if (t->kind == TARGET_CPU) return "tasks that fit in the caches";
    switch (s->kind) {
    case SCHED_MAP: map_reason(a, b, &o); break;
    case SCHED_ROW: row_reason(a, b, t, &o); break;
    case SCHED_COLUMN: column_reason(a, b, t, &o); break;
    case SCHED_SWEEP:
        buf_printf(&o,
                   "%s; the smallest team whose registers hold a row's share%s, %d blocks per "
                   "multiprocessor iterate over %lld rows",
                   vectors(a, b, b->col),
                   body_folds(b) ? " and its sums" : " and what all rows share", s->sweep.walkers,
                   (long long)body_rows(b));
        break;
    case SCHED_TILE: tile_reason(b, t, &o); break;
    case SCHED_ATTENTION:
        if (s->variant == RUN_ATTENTION_GROUPS) {
            buf_printf(&o,
                       "groups of four warps multiply 64 rows each of tiles of %d, %d columns at "
                       "once: what registers hold of results, scores and weights%s",
                       s->tile.m, s->tile.k,
                       s->skew ? ", of two steps" : "; of two steps they would not");
            break;
        }
        buf_printf(&o,
                   "%d rows a block, %d of each warp, and %d columns at once: what registers hold "
                   "of results and scores",
                   s->tile.m, 16 * s->tile.each, s->tile.k);
        break;
    }
    return o.data;
}
