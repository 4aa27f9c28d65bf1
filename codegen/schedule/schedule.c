// The cost model: a few numbers from shapes, strides and the target's limits.
//
// The axis along which neighbouring threads (or SIMD lanes) run follows from the strides of loads
// and stores. Vectors are as wide as 16 bytes allow. Teams are the smallest that still fill the
// device. Columns are split if there are too few rows.
#include "codegen/ir/rewrite.h"
#include "codegen/schedule/plans.h"
#include "codegen/tile/tile.h"

// How many of the accesses that vary over all axes of [over] have stride one along [axis].
static int unit_strides_of(const Body *b, int axis, uint64_t over)
{
    int n = 0;
    int64_t stride;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        n += v->kind == KI_LOAD && !(over & ~v->axes) && ix_stride(v->ix, axis, &stride) &&
             stride == 1;
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        n += s->ix && !(over & ~s->ix->axes) && ix_stride(s->ix, axis, &stride) && stride == 1;
    }
    return n;
}

static int unit_strides(const Body *b, int axis)
{
    return unit_strides_of(b, axis, 1ull << b->col);
}

// Counts only accesses that vary over both rows and columns.
static int matrix_strides(const Body *b, int axis)
{
    return unit_strides_of(b, axis, 1ull | 1ull << b->col);
}

// 16 bytes of the narrowest type accessed with stride one, at most 16 of what is stored and 32 of
// what is loaded. Accesses not aligned to it go element by element.
int schedule_vector(const Body *b, int axis, int64_t extent, bool tail, bool narrow_shared)
{
    uint32_t n = b->insts.n + b->stores.n;
    int most = 8, narrow = 16, best = 1;
    Access x;
    for (uint32_t i = 0; i < n; i++) {
        if (!body_access(b, i, axis, &x) || x.folds) continue;
        bool shared = narrow_shared && !x.stores && !(x.at->axes & ~(1ull << axis));
        int cap = (x.stores || shared ? 16 : 32) / x.bytes;
        most = cap < most ? cap : most;
        narrow = x.bytes < narrow ? x.bytes : narrow;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!body_access(b, i, axis, &x) || x.folds) continue;
        int v = 16 / narrow < most ? 16 / narrow : most;
        while (v > 1 &&
               (!ix_aligned(x.at, axis, v) || !buf_begins(b, x.buf, v) || (!tail && extent % v)))
            v /= 2;
        best = v > best ? v : best;
    }
    return best;
}

// Bytes loaded for one step along [axis].
static int loaded_bytes(const Body *b, int axis)
{
    int n = 0;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kind == KI_LOAD && b->insts.at[i].axes >> axis & 1)
            n += element_bytes(b, b->insts.at[i].buf);
    return n;
}

bool schedule_can_split(const Body *b)
{
    return b->nstages == 1 && !b->serial_cols && !b->joins;
}

// An axis along which some loads are contiguous that are not along the innermost: they can be
// transposed when they are loaded.
int schedule_transposed_axis(const Body *b, const Target *t)
{
    const int least = t->kind == TARGET_CUDA ? 16 : 4;
    const int tile = 32 * 33, most = 40 << 10; // a block may have 48 KB of static shared memory
    int inner = b->npar - 1, axis = -1, bytes = 0;
    int64_t along, across;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || v->pred >= 0 || v->ix->has_value || inst_nested(b, v) ||
            !ix_stride(v->ix, inner, &along) || along < 2)
            continue;
        for (int p = 0; p < inner && axis < 0; p++)
            if (ix_stride(v->ix, p, &across) && across == 1 && b->axis[p].extent >= least &&
                b->axis[inner].extent >= least)
                axis = p;
        if (axis >= 0) bytes += tile * element_bytes(b, v->buf);
    }
    return bytes <= most ? axis : -1;
}

// -- CUDA -----------------------------------------------------------------------------------------

// Whether a thread is to have one element, since most of what it loads and stores are neighbours
// that only this element needs.
static bool mostly_stacks(Arena *a, const Body *b)
{
    int bytes = body_stacks(a, b, body_live(a, b)).bytes;
    Access x;
    for (uint32_t i = 0; bytes && i < b->insts.n + b->stores.n; i++)
        if (body_access(b, i, b->npar - 1, &x)) bytes -= x.bytes;
    return bytes > 0;
}

// Whether elements are stored in short runs without vectors (pieces of a concatenation with few
// columns). Threads that each store several of a line then share every line with others, and each
// of their stores writes to more sectors: 12 instead of 3 us for 100,003 rows of 7.
static bool stores_short_runs(const Body *b, int axis, int vector)
{
    enum { SHORT = 128 };
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const Ix *x = b->stores.at[i].ix;
        int64_t stride;
        if (b->stores.at[i].buf < 0 || !x || ix_stride(x, axis, &stride) ||
            ix_vectors(x, axis, vector))
            continue;
        for (int k = 0; k < x->n; k++) {
            const IxTerm *t = x->at[k].term;
            if ((t->kind == IT_DIV || t->kind == IT_MOD) && t->by < SHORT) return true;
        }
    }
    return false;
}

static void cuda_map(Arena *a, const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int inner = b->npar - 1;
    s->map.transpose = body_rows(b) >= 1 << 16 ? schedule_transposed_axis(b, t) + 1 : 0;
    s->threads = 256;
    if (s->map.transpose) return;
    int64_t n = body_rows(b), crowd = b->crowd ? b->crowd : n,
            device = (int64_t)t->units * t->threads_per_unit;
    if (crowd < device / 4) s->threads = 128;
    if (mostly_stacks(a, b)) return;
    s->vector = schedule_vector(b, inner, b->axis[inner].extent, b->npar == 1, true);
    while (s->vector > 1 && crowd / s->vector < device / 32) s->vector /= 2;
    const uint64_t phases = body_interleaved(b);
    s->map.interleaved = phases && crowd / s->vector / body_phases(b, phases) >= device / 4;
    if (s->map.interleaved) return;
    if (stores_short_runs(b, inner, s->vector)) s->vector = 1;
    // One access of 16 bytes per thread keeps enough in flight, and blocks that each process a
    // small contiguous range are fastest; narrow accesses need several in flight.
    s->unroll = 1;
    int bytes = loaded_bytes(b, inner) * s->vector;
    while (s->unroll < 4 && bytes && bytes * s->unroll < 16 &&
           crowd / s->vector / s->unroll > device * 4)
        s->unroll *= 2;
    plan_reuse(t, b);
}

static void cuda_column(const Target *t, Body *b)
{
    if (b->bins.held) return;
    b->sched.threads = 64;
    if (b->serial_cols && (plan_first(t, b) || plan_sort(b))) return;
    if (body_recurs(b))
        plan_recurrence(t, b);
    else if (b->serial_cols)
        plan_scan(t, b);
    else
        plan_column(t, b);
}

static void map_derive(Body *b)
{
    Schedule *s = &b->sched;
    int inner = b->npar - 1;
    s->variant = s->map.transpose                            ? RUN_TRANSPOSE
                 : s->map.interleaved && body_interleaved(b) ? RUN_INTERLEAVED
                 : s->map.reuse && reuse_possible(b)         ? RUN_REUSE
                                                             : RUN_MAP;
    if (s->variant == RUN_TRANSPOSE) {
        s->threads = 256;
        s->blocks = ceil_div(b->axis[inner].extent, 32);
        for (int i = 0; i < inner; i++)
            s->blocks *=
                i == s->map.transpose - 1 ? ceil_div(b->axis[i].extent, 32) : b->axis[i].extent;
    } else if (s->variant == RUN_INTERLEAVED) {
        const int64_t each = s->vector * body_phases(b, body_interleaved(b));
        s->blocks = ceil_div(body_rows(b) / each, s->threads);
    } else if (s->variant == RUN_REUSE) {
        reuse_derive(b);
    } else {
        int64_t rows = body_rows(b);
        int64_t vectors = b->npar == 1 ? ceil_div(rows, s->vector) : rows / s->vector;
        s->blocks = ceil_div(ceil_div(vectors, s->unroll), s->threads);
    }
}

static void cuda_derive(Body *b, const Target *t)
{
    switch (b->sched.kind) {
    case SCHED_MAP: map_derive(b); break;
    case SCHED_ROW: row_derive(b, t); break;
    case SCHED_COLUMN: column_derive(b); break;
    case SCHED_SWEEP: sweep_derive(b, t); break;
    case SCHED_TILE: tile_derive(b, t); break;
    case SCHED_ATTENTION: attention_derive(b, t); break;
    }
}

static void cpu_derive(Body *b)
{
    const ScheduleKind kind = b->sched.kind;
    b->sched.variant = body_first(b)        ? RUN_FIRST
                       : body_sort(b) >= 0  ? RUN_SORT
                       : kind == SCHED_MAP  ? b->sched.map.transpose ? RUN_TRANSPOSE : RUN_MAP
                       : kind == SCHED_ROW  ? b->sched.task ? RUN_BESIDE : RUN_ROWS
                       : kind == SCHED_TILE ? RUN_TILES
                                            : RUN_COLUMNS;
}

void schedule_derive(Body *b, const Target *t)
{
    if (t->kind == TARGET_CUDA)
        cuda_derive(b, t);
    else
        cpu_derive(b);
    if (b->sched.blocks < 1) b->sched.blocks = 1;
}

typedef struct Along {
    int loads;
    double bytes; // of the tensors
} Along;

// Loads that vary over the columns and are contiguous along [axis], along the rows at least in
// runs: as in sums over the columns of a batch of matrices.
static Along loads_along(const Body *b, int axis)
{
    enum { RUN = 4 };
    Along n = {0};
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        int64_t step;
        bool aligned;
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1)) continue;
        if (!(axis == b->col ? ix_stride(v->ix, axis, &step)
                             : ix_run(v->ix, axis, RUN, &step, &aligned)) ||
            step != 1)
            continue;
        n.loads++;
        n.bytes += (double)b->bufs.at[v->buf].elems * element_bytes(b, v->buf);
    }
    return n;
}

// Whether rows that follow each other mostly read neighbours: as ix_run, also where the runs have
// odd lengths.
static bool neighbours_by_rows(const Body *b)
{
    enum { SAMPLES = 64, MOST_BREAKS = 4 };
    const int64_t rows = b->axis[0].extent, apart = rows / SAMPLES;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1)) continue;
        int breaks = 0;
        for (int64_t k = 0; k < SAMPLES && apart; k++) {
            int64_t at[BODY_MAX_AXES] = {k * apart}, next[BODY_MAX_AXES] = {k * apart + 1};
            breaks += ix_at(v->ix, next) - ix_at(v->ix, at) != 1;
        }
        if (!apart || breaks > MOST_BREAKS) return false;
    }
    return true;
}

// The kind of schedule; rows or columns by the axis along which most accesses are contiguous, of
// those that vary over both if these differ: the others are read again from a cache.
static ScheduleKind kind_of(const Target *t, const Body *b)
{
    enum { MUCH_MORE = 4 };
    if (b->attention.nouts) return SCHED_ATTENTION;
    if (b->dot.sum >= 0) return SCHED_TILE;
    if (body_folds(b)) return SCHED_SWEEP;
    if (b->col < 0) return SCHED_MAP;
    if (b->bins.held) return SCHED_COLUMN;
    if (b->beside || body_recurs(b)) return SCHED_COLUMN;
    if (b->axis[0].extent <= 1) return SCHED_ROW;
    int rows = matrix_strides(b, 0), cols = matrix_strides(b, b->col);
    if (!rows) {
        const Along beside = loads_along(b, 0);
        rows = beside.loads;
        // A sum over most of what is read in one pass: a state of several rows, say, that is
        // multiplied by what all of them share.
        if (b->nstages == 1 && beside.bytes > MUCH_MORE * loads_along(b, b->col).bytes) cols = 0;
    }
    if (rows == cols) rows = unit_strides(b, 0), cols = unit_strides(b, b->col);
    const bool columns = rows == cols ? b->group->kind == GROUP_COLUMN : rows > cols;
    if (!columns && t->kind == TARGET_CUDA && body_scan(b) >= 0 && neighbours_by_rows(b))
        return SCHED_COLUMN;
    return columns ? SCHED_COLUMN : SCHED_ROW;
}

void schedule_body(LowerCtx *ctx, Body *b)
{
    const Target *t = ctx->target;
    Schedule *s = &b->sched;
    if (t->kind == TARGET_CUDA) {
        body_mark_skips(ctx->arena, b);
        body_mark_choices(ctx->arena, b);
    }
    *s = (Schedule){.kind = SCHED_MAP,
                    .threads = 1,
                    .team = 1,
                    .vector = 1,
                    .unroll = 1,
                    .split = 1,
                    .cluster = 1,
                    .blocks = 1};
    const Schedule fresh = *s;
    s->kind = kind_of(t, b);
    if (t->kind != TARGET_CUDA)
        plan_cpu(ctx->arena, t, b);
    else if (s->kind == SCHED_TILE)
        plan_tile(t, b);
    else if (s->kind == SCHED_ATTENTION)
        plan_attention(t, b);
    else if (s->kind == SCHED_SWEEP)
        sweep_schedule(t, b);
    else if (s->kind == SCHED_ROW)
        plan_row(ctx->arena, t, b, &fresh);
    else if (s->kind == SCHED_MAP)
        cuda_map(ctx->arena, t, b);
    else
        cuda_column(t, b);
    s->wide = false;
    for (int i = 0; i < b->naxes; i++)
        if (b->axis[i].extent > INT32_MAX / 2) s->wide = true;
    if (!b->attention.nouts && body_rows(b) > INT32_MAX / 2) s->wide = true;
    for (uint32_t i = 0; i < b->bufs.n && b->attention.nouts; i++)
        if (b->bufs.at[i].elems > INT32_MAX / 2) s->wide = true;
    schedule_derive(b, t);
}
