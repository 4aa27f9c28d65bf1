// The table of knobs: the tunable numbers of a schedule and their legal values.
#include "codegen/schedule/knobs.h"
#include "codegen/schedule/plans.h"
#include "codegen/tile/wgmma.h"
#include "codegen/tile/tile.h"

#include <stdlib.h>

static bool cuda_of(const Body *b, const Target *t, ScheduleKind kind)
{
    return t->kind == TARGET_CUDA && b->sched.kind == kind;
}

static bool runs(const Body *b, const Target *t, ScheduleVariant variant)
{
    return t->kind == TARGET_CUDA && b->sched.variant == variant;
}

// Powers of two from [least] to [most] that satisfy ok (NULL: all).
static int powers(const Body *b, int64_t least, int64_t most, bool (*ok)(const Body *b, int64_t v),
                  int64_t *out)
{
    int n = 0;
    for (int64_t v = least; v <= most && n < KNOB_VALUES; v *= 2)
        if (!ok || ok(b, v)) out[n++] = v;
    return n;
}

// [n] numbers from [first] on, [step] apart.
static int numbers(int64_t first, int64_t step, int n, int64_t *out)
{
    for (int i = 0; i < n; i++) out[i] = first + i * step;
    return n;
}

// Keeps those of n values of a field of the schedule with which a sweep, or attention, fits in
// shared memory and has at least one warp; returns how many.
static int fit_shared(const Body *b, const Target *t, size_t field, int64_t *out, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        Body other = *b;
        *(int *)((char *)&other.sched + field) = (int)out[i];
        if (other.sched.threads < other.sched.team) other.sched.threads = other.sched.team;
        schedule_derive(&other, t);
        if (other.sched.shared_bytes <= t->shared_per_block - 1024 && other.sched.threads >= 32)
            out[kept++] = out[i];
    }
    return kept;
}

static bool holds_teams(const Body *b, int64_t threads)
{
    return threads >= b->sched.team;
}

static int legal_threads(const Body *b, const Target *t, int64_t *out)
{
    int n = 0;
    if (cuda_of(b, t, SCHED_MAP) && b->sched.map.reuse) return out[0] = b->sched.threads, 1;
    if (cuda_of(b, t, SCHED_MAP) && !b->sched.map.transpose) return powers(b, 64, 1024, NULL, out);
    bool sweep = cuda_of(b, t, SCHED_SWEEP);
    if (!sweep && !cuda_of(b, t, SCHED_ROW)) return 0;
    if (b->sched.team > 32 || b->sched.variant == RUN_SORT)
        return out[0] = b->sched.team, 1; // one row per block
    if (!sweep) return powers(b, 64, 512, holds_teams, out);
    for (int warps = 1, last = 0; warps <= 16; last = warps, warps += warps < 4 ? 1 : 4) {
        int own = b->sched.threads; // may be any number of warps
        if (own > 32 * last && own < 32 * warps && own % 32 == 0) out[n++] = own;
        out[n++] = 32 * warps;
    }
    return fit_shared(b, t, offsetof(Schedule, threads), out, n);
}

static int legal_team(const Body *b, const Target *t, int64_t *out)
{
    if (b->serial_cols) return 0;
    if (cuda_of(b, t, SCHED_ROW)) return powers(b, 1, t->threads_per_block, NULL, out);
    if (cuda_of(b, t, SCHED_SWEEP))
        return fit_shared(b, t, offsetof(Schedule, team), out,
                          powers(b, b->uneven ? 32 : 1, t->threads_per_block, sweep_holds, out));
    return cuda_of(b, t, SCHED_COLUMN) ? powers(b, 1, 128, NULL, out) : 0;
}

static bool divides_inner(const Body *b, int64_t v)
{
    int axis = b->sched.kind == SCHED_MAP ? b->npar - 1 : b->col;
    if (b->uneven) return v == 1 || v == b->sched.vector;
    return (b->sched.kind == SCHED_MAP && b->npar == 1) || b->axis[axis].extent % v == 0;
}

// The vectors of a sweep are loaded and stored as a whole: at most 32 bytes of the widest type.
static bool moves_whole(const Body *b, int64_t v)
{
    for (uint32_t i = 0; i < b->bufs.n; i++)
        if (b->bufs.at[i].kind == KA_NODE && v * element_bytes(b, i) > 32) return false;
    return divides_inner(b, v);
}

static bool one_or_widest(const Body *b, int64_t v)
{
    return !b->uneven || v == 1 || (v == column_widest(b) && b->sched.team >= COLUMN_SHIFTS);
}

static int legal_vector(const Body *b, const Target *t, int64_t *out)
{
    if (runs(b, t, RUN_COLUMNS)) return powers(b, 1, column_widest(b), one_or_widest, out);
    bool map = cuda_of(b, t, SCHED_MAP) && !b->sched.map.transpose;
    bool row = runs(b, t, RUN_ROWS);
    if (cuda_of(b, t, SCHED_SWEEP)) return powers(b, 1, 16, moves_whole, out);
    return map || row ? powers(b, 1, 16, divides_inner, out) : 0;
}

static int legal_reuse(const Body *b, const Target *t, int64_t *out)
{
    if (runs(b, t, RUN_INTERLEAVED)) return 0;
    return cuda_of(b, t, SCHED_MAP) && reuse_possible(b) ? numbers(0, 1, 2, out) : 0;
}

static int legal_interleaved(const Body *b, const Target *t, int64_t *out)
{
    return cuda_of(b, t, SCHED_MAP) && !b->sched.map.transpose && body_interleaved(b)
               ? numbers(0, 1, 2, out)
               : 0;
}

static int legal_unroll(const Body *b, const Target *t, int64_t *out)
{
    if (runs(b, t, RUN_COLUMNS)) return powers(b, 1, 16, NULL, out);
    if (runs(b, t, RUN_INTERLEAVED)) return 0;
    if (runs(b, t, RUN_ROWS) && b->sched.row.keep_in != KEEP_REGISTERS)
        return numbers(1, 1, 8, out);
    return cuda_of(b, t, SCHED_MAP) && !b->sched.map.transpose ? powers(b, 1, 8, NULL, out) : 0;
}

static int legal_transpose(const Body *b, const Target *t, int64_t *out)
{
    int axis = b->sched.kind == SCHED_MAP ? schedule_transposed_axis(b, t) : -1;
    return axis < 0 ? 0 : numbers(0, axis + 1, 2, out);
}

static int legal_keep(const Body *b, const Target *t, int64_t *out)
{
    int n = 0;
    if (cuda_of(b, t, SCHED_SWEEP) && !b->sched.sweep.ahead) return 0; // it holds nothing
    if (cuda_of(b, t, SCHED_SWEEP)) // where values that all rows share are held
        return fit_shared(b, t, offsetof(Schedule, row.keep_in), out,
                          numbers(KEEP_REGISTERS, KEEP_SHARED - KEEP_REGISTERS, 2, out));
    if (!cuda_of(b, t, SCHED_ROW) || !b->sched.row.keep_bytes) return 0;
    for (int where = KEEP_AGAIN; where <= KEEP_SHARED; where++)
        if (schedule_can_keep(b, t, where)) out[n++] = where;
    return n;
}

static int legal_split(const Body *b, const Target *t, int64_t *out)
{
    (void)t;
    if ((b->sched.kind != SCHED_ROW && b->sched.kind != SCHED_COLUMN) || !schedule_can_split(b) ||
        b->sched.variant == RUN_BESIDE)
        return 0;
    // Parts of at least 32 columns. The current value need not be a power of two.
    int64_t most = b->axis[b->col].extent / 32, own = b->sched.split;
    int n = 0;
    for (int64_t v = 1; v <= 512 && (v == 1 || v <= most); v *= 2) {
        if (own > v / 2 && own < v) out[n++] = own;
        out[n++] = v;
    }
    if (own > out[n - 1]) out[n++] = own;
    return n;
}

static int legal_ring(const Body *b, const Target *t, int64_t *out)
{
    if (!cuda_of(b, t, SCHED_ATTENTION)) return 0;
    return fit_shared(b, t, offsetof(Schedule, tile.ring), out, numbers(2, 1, 3, out));
}

static int legal_wgmma(const Body *b, const Target *t, int64_t *out)
{
    if (cuda_of(b, t, SCHED_ATTENTION) && attention_groups_fit(b, t))
        return numbers(0, WGMMA_SHARED, 2, out);
    if (!cuda_of(b, t, SCHED_TILE) || !wgmma_fits(b, t)) return 0;
    int n = 0;
    int last = wgmma_splits(b) && t->max_cluster > 1 ? WGMMA_STEPS : WGMMA_OWN;
    for (int i = body_folds(b) ? WGMMA_SHARED : 0; i <= last; i++) out[n++] = i;
    const BodyWindows *w = b->dot.windows[0];
    if (wgmma_fits_strips(b)) out[n++] = WGMMA_STRIPS;
    if (wgmma_fits_strips(b) && w && w->strips.pixels) out[n++] = WGMMA_SHARED_STRIPS;
    return n;
}

static int legal_each(const Body *b, const Target *t, int64_t *out)
{
    if (cuda_of(b, t, SCHED_ATTENTION) && b->sched.tile.wgmma) return 0;
    if (cuda_of(b, t, SCHED_ATTENTION))
        return fit_shared(b, t, offsetof(Schedule, tile.each), out, powers(b, 1, 2, NULL, out));
    if (!cuda_of(b, t, SCHED_TILE) || b->sched.tile.wgmma || b->sched.tile.staged) return 0;
    if (b->sched.tile.share) return numbers(0, 1, WARP_TILE_MOST + 1, out);
    bool narrow = math_bytes(b->insts.at[b->dot.sum].acc) == 4;
    int n = 0;
    if (narrow && !mma_fits(b)) out[n++] = 0;
    out[n++] = 2;
    out[n++] = 4;
    if (narrow) out[n++] = 8;
    return n;
}

// Whether both operands' tiles fit in shared memory and every thread loads the same share of them.
static bool tile_fits(const Body *b, int64_t v)
{
    int64_t bytes = math_bytes(b->insts.at[b->dot.sum].acc), side = b->sched.tile.m;
    if (!b->sched.tile.each) return v >= 32 && v <= 256;
    if (mma_fits(b)) return v >= 16 && v <= 64;
    return 2 * v * (side + 4) * bytes <= 48 << 10 && v * side % 256 == 0 && v <= 64;
}

static int legal_tile_k(const Body *b, const Target *t, int64_t *out)
{
    if (cuda_of(b, t, SCHED_ATTENTION) && b->sched.tile.wgmma)
        return fit_shared(b, t, offsetof(Schedule, tile.k), out, numbers(32, 16, 10, out));
    if (cuda_of(b, t, SCHED_ATTENTION))
        return fit_shared(b, t, offsetof(Schedule, tile.k), out, powers(b, 16, 128, NULL, out));
    if (b->sched.tile.share || b->sched.tile.wgmma || b->sched.tile.staged) return 0;
    return cuda_of(b, t, SCHED_TILE) ? powers(b, 8, 256, tile_fits, out) : 0;
}

static int legal_share(const Body *b, const Target *t, int64_t *out)
{
    bool tensor = b->dot.tensor || (mma_fits(b) && !group_has_windows(b) && !body_folds(b));
    if (!cuda_of(b, t, SCHED_TILE) || !tensor || b->sched.tile.wgmma) return 0;
    if (b->sched.tile.share && b->sched.tile.each && b->dot.tensor)
        return powers(b, 1, 8, NULL, out);
    out[0] = 0;
    return b->sched.tile.staged ? 1 : 1 + powers(b, 1, 8, NULL, out + 1);
}

static int legal_staged(const Body *b, const Target *t, int64_t *out)
{
    if (!cuda_of(b, t, SCHED_TILE) || !b->dot.tensor || mma_fits(b) || b->sched.tile.wgmma ||
        b->sched.tile.share)
        return 0;
    int n = 0;
    out[n++] = 0;
    for (Body other = *b; n < 16; n++) {
        other.sched.tile.staged = n + 1;
        staged_derive(&other, t);
        if (other.sched.tile.staged != n + 1) break;
        out[n] = n + 1;
    }
    return n;
}

static bool staged_tall(const Body *b, int64_t v)
{
    return v * b->sched.tile.n <= STAGED_WARPS * STAGED_SIDE * STAGED_SIDE;
}

static int legal_tile_m(const Body *b, const Target *t, int64_t *out)
{
    if (cuda_of(b, t, SCHED_ATTENTION) && b->sched.tile.wgmma)
        return fit_shared(b, t, offsetof(Schedule, tile.m), out, numbers(64, 64, 3, out));
    if (cuda_of(b, t, SCHED_ATTENTION))
        return fit_shared(b, t, offsetof(Schedule, tile.m), out, powers(b, 16, 256, NULL, out));
    return t->kind == TARGET_CUDA && b->sched.tile.staged ? powers(b, 32, 128, staged_tall, out)
                                                          : 0;
}

static bool staged_wide(const Body *b, int64_t v)
{
    return v * b->sched.tile.m <= STAGED_WARPS * STAGED_SIDE * STAGED_SIDE;
}

// Whether tiles this wide, with the other knobs as they are, fit in shared memory. (Otherwise
// wgmma_derive makes them narrower.)
static bool keeps_width(const Body *b, const Target *t, int v)
{
    Body other = *b;
    other.sched.tile.n = v;
    wgmma_derive(&other, t);
    return other.sched.tile.n == v && other.sched.tile.wgmma == b->sched.tile.wgmma;
}

static int legal_tile_n(const Body *b, const Target *t, int64_t *out)
{
    if (!cuda_of(b, t, SCHED_TILE)) return 0;
    if (b->sched.tile.staged) return powers(b, 32, 128, staged_wide, out);
    int n = 0, most = b->sched.tile.wgmma == WGMMA_STEPS ? 192 : 256;
    if (body_folds_results(b)) most = MOST_ADDED;
    if (wgmma_right_strips(b)) return 0; // the width follows from the pixels of a window's line
    const int grain = wgmma_grain(b), least = wgmma_strips(b) ? grain : 64;
    for (int v = least; v <= most && b->sched.tile.wgmma; v += grain)
        if (wgmma_has_atom(v) && keeps_width(b, t, v)) out[n++] = v;
    return n;
}

static int64_t inner_extent(const Body *b)
{
    int64_t extent = b->axis[b->sched.kind == SCHED_MAP ? b->npar - 1 : 0].extent;
    return extent > 0 ? extent : 1;
}

static bool within_inner(const Body *b, int64_t v)
{
    return v < inner_extent(b) && (b->sched.kind != SCHED_COLUMN || columns_fit(b, v));
}

// Parts of the inner axis, or all of it; for short rows, how many are processed together.
static int legal_tile(const Body *b, const Target *t, int64_t *out)
{
    if (t->kind == TARGET_CPU && b->sched.kind == SCHED_ROW)
        return b->sched.task ? powers(b, 16, 256, beside_fits, out) : 0;
    bool map = b->sched.kind == SCHED_MAP && b->npar > 1 && !b->sched.map.transpose;
    if (t->kind != TARGET_CPU || (!map && b->sched.kind != SCHED_COLUMN)) return 0;
    int64_t most = map ? 16384 : 2048, all = inner_extent(b);
    int n = powers(b, b->sched.shared_bytes ? 16 : 64, most, within_inner, out);
    if (all <= most && (map || columns_fit(b, all))) out[n++] = all;
    return n;
}

static int legal_walkers(const Body *b, const Target *t, int64_t *out)
{
    static const int values[] = {1, 2, 3, 4, 6, 8, 12, 16};
    int n = 0;
    if (!cuda_of(b, t, SCHED_SWEEP)) return 0;
    for (int i = 0; i < 8 && values[i] * b->sched.threads <= t->threads_per_unit; i++) {
        if (b->sched.sweep.walkers < values[i] && (!i || b->sched.sweep.walkers > values[i - 1]))
            out[n++] = b->sched.sweep.walkers;
        out[n++] = values[i];
    }
    return n;
}

static bool fills_blocks(const Body *b, int64_t v)
{
    return v == 1 || (b->sched.team > 32 && b->sched.split == 1 &&
                      b->axis[b->col].extent >= v * b->sched.team * b->sched.vector);
}

static int legal_cluster(const Body *b, const Target *t, int64_t *out)
{
    if (cuda_of(b, t, SCHED_TILE) && wgmma_shares(&b->sched))
        return numbers(1, 1, (int)at_most(t->max_cluster, t->units), out);
    if (cuda_of(b, t, SCHED_TILE) && b->sched.tile.wgmma)
        return powers(b, 1, group_has_windows(b) ? 1 : 2, NULL, out);
    if (cuda_of(b, t, SCHED_TILE) && b->sched.tile.staged)
        return powers(b, 1, t->max_cluster, NULL, out);
    if (cuda_of(b, t, SCHED_TILE) && b->sched.tile.share)
        return powers(b, 1, warp_cluster(b, t) ? t->max_cluster : 1, NULL, out);
    if (!cuda_of(b, t, SCHED_ROW) || !b->sched.row.keep_bytes) return 0;
    return powers(b, 1, t->widest_cluster > 1 ? t->widest_cluster : 1, fills_blocks, out);
}

static int legal_together(const Body *b, const Target *t, int64_t *out)
{
    if (!cuda_of(b, t, SCHED_SWEEP)) return 0;
    return fit_shared(b, t, offsetof(Schedule, sweep.together), out,
                      powers(b, 1, b->sched.team < 32 ? 1 : 4, NULL, out));
}

static int legal_ahead(const Body *b, const Target *t, int64_t *out)
{
    if (!cuda_of(b, t, SCHED_SWEEP) || !b->sched.sweep.ahead) return 0;
    return fit_shared(b, t, offsetof(Schedule, sweep.ahead), out, numbers(2, 1, 7, out));
}

static int legal_skew(const Body *b, const Target *t, int64_t *out)
{
    bool groups = cuda_of(b, t, SCHED_ATTENTION) && b->sched.tile.wgmma;
    bool sweep = cuda_of(b, t, SCHED_SWEEP) && sweep_skews(b);
    return groups || sweep ? numbers(0, 1, 2, out) : 0;
}

// The numbers of blocks with this many threads that a multiprocessor can hold.
static int legal_resident(const Body *b, const Target *t, int64_t *out)
{
    static const int blocks[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    int n = 0;
    int64_t own = b->sched.resident; // may be any number
    if (t->kind != TARGET_CUDA || b->sched.kind == SCHED_SWEEP || b->sched.tile.wgmma) return 0;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (i && own > blocks[i - 1] && own < blocks[i]) out[n++] = own;
        if (blocks[i] * b->sched.threads <= t->threads_per_unit) out[n++] = blocks[i];
    }
    return n;
}

static const char *const wgmma_words[] = {"no",    "together", "own",           "split",
                                          "steps", "strips",   "shared_strips", NULL};
static const char *const keep_words[] = {"again", "registers", "shared", NULL};

#define INT(field)  offsetof(Schedule, field), false
#define LONG(field) offsetof(Schedule, field), true
const Knob knobs[] = {
    {"team", "threads that share a row", INT(team), legal_team, -1, true, NULL},
    {"vector", "elements a thread moves at once", INT(vector), legal_vector, -1, true, NULL},
    {"unroll", "vectors a thread has in flight", INT(unroll), legal_unroll, -1, false, NULL},
    {"keep", "where a row that is read again is kept", INT(row.keep_in), legal_keep, -1, false,
     keep_words},
    {"split", "parts into which the columns are split, one per block", LONG(split), legal_split, 1,
     true, NULL},
    {"threads", "threads of a block", INT(threads), legal_threads, -1, false, NULL},
    {"transpose", "1 + the axis whose tiles are transposed while they are read; 0: none",
     INT(map.transpose), legal_transpose, 0, false, NULL},
    {"interleaved",
     "1: a thread reads whole runs, whose elements belong to several outer positions",
     INT(map.interleaved), legal_interleaved, 0, false, NULL},
    {"reuse", "1: a thread processes several outer positions of one inner position", INT(map.reuse),
     legal_reuse, 0, false, NULL},
    {"each",
     "sums per thread along a side; 0: warps divide the columns; with share: 0 to 3 for a warp's "
     "tile of 16 x 8, 16 x 16, 32 x 32, 32 x 16; attention: rows of a warp, in units of 16",
     INT(tile.each), legal_each, -1, true, NULL},
    {"wgmma",
     "groups of four warps multiply. together: one tile together; own: each its own; split: "
     "together, and the blocks of a cluster divide its columns; steps: the groups divide them, "
     "too; strips: own, and one copy holds all pixels of a line of windows; shared_strips: strips, "
     "with one tile together; no: they do not",
     INT(tile.wgmma), legal_wgmma, 0, true, wgmma_words},
    {"tile_n", "neighbours of the result in a row of a group's or a staged tile", INT(tile.n),
     legal_tile_n, -1, false, NULL},
    {"tile_k", "columns of a tile", INT(tile.k), legal_tile_k, -1, true, NULL},
    {"staged", "tiles of f32 operands in the ring before tensor cores; 0: none", INT(tile.staged),
     legal_staged, 0, true, NULL},
    {"tile_m", "rows of a staged tile, or of attention's", INT(tile.m), legal_tile_m, -1, true,
     NULL},
    {"ring", "tiles of columns in shared memory: the current one and those prefetched",
     INT(tile.ring), legal_ring, -1, false, NULL},
    {"share", "warps that share a tile's columns on tensor cores; 0: no tensor cores",
     INT(tile.share), legal_share, 0, true, NULL},
    {"tile", "elements of the inner axis, or short rows, per task", LONG(task), legal_tile, 0,
     false, NULL},
    {"cluster",
     "blocks that divide a row or the columns of a tile (staged, wgmma=split, steps), or share the "
     "copies of a product's right operand",
     INT(cluster), legal_cluster, 1, true, NULL},
    {"walkers", "blocks per multiprocessor that iterate over rows", INT(sweep.walkers),
     legal_walkers, -1, true, NULL},
    {"together", "rows of a team that share their joins", INT(sweep.together), legal_together, 1,
     false, NULL},
    {"ahead", "groups of rows in shared memory: the current one and those prefetched",
     INT(sweep.ahead), legal_ahead, -1, false, NULL},
    {"skew",
     "1: the first sums of the next row join with the second ones of this row; attention: scores "
     "of the next columns are multiplied before the results of these",
     INT(skew), legal_skew, 0, false, NULL},
    {"resident", "blocks a multiprocessor must be able to hold; 0: any", INT(resident),
     legal_resident, 0, false, NULL},
    {0},
};

int64_t knob_get(const Knob *k, const Body *b)
{
    const char *at = (const char *)&b->sched + k->at;
    return k->wide ? *(const int64_t *)at : *(const int *)at;
}

static void put(const Knob *k, Body *b, int64_t v)
{
    char *at = (char *)&b->sched + k->at;
    if (k->wide)
        *(int64_t *)at = v;
    else
        *(int *)at = (int)v;
}

static bool lists(const Knob *k, const Body *b, const Target *t, int64_t v)
{
    int64_t legal[KNOB_VALUES];
    for (int i = k->legal(b, t, legal); i-- > 0;)
        if (legal[i] == v) return true;
    return false;
}

bool knob_allows(const Knob *k, const Body *b, const Target *t, int64_t v)
{
    int64_t legal[KNOB_VALUES];
    int n = k->legal(b, t, legal);
    if (!n || v < legal[0] || v > legal[n - 1]) return false;
    // A list may contain the current value even if it is not one of its usual values: so a value
    // that was planned for another device can be legal.
    Body other = *b;
    put(k, &other, v);
    return lists(k, &other, t, v);
}

// Replaces a value that is no longer legal by the nearest legal one.
static void settle(const Knob *k, Body *b, const Target *t)
{
    int64_t legal[KNOB_VALUES], v = knob_get(k, b);
    int n = k->legal(b, t, legal), best = 0;
    for (int i = 0; i < n; i++) {
        if (legal[i] == v) return;
        if (llabs(legal[i] - v) < llabs(legal[best] - v)) best = i;
    }
    if (n) put(k, b, legal[best]);
}

void knobs_set(const Knob *const *k, const int64_t *v, int n, Body *b, const Target *t)
{
    for (int i = 0; i < n; i++) put(k[i], b, v[i]);
    schedule_derive(b, t);
    for (const Knob *other = knobs; other->name; other++) {
        bool named = false;
        for (int i = 0; i < n; i++) named |= k[i] == other;
        if (!named) settle(other, b, t);
        schedule_derive(b, t);
    }
}
