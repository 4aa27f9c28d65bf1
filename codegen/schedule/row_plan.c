// The cost model of rows on CUDA: a team of threads processes a row in vectors and keeps it in
// registers or in shared memory if several stages read it.
#include "codegen/schedule/plans.h"

enum {
    MOST_KEPT = 24, // registers for a thread's share of a row
    // ... of weights that a later stage multiplies with a vector: their loads are in flight
    // meanwhile, and fewer threads compute what all rows share. (On an H200 two products of 14336
    // rows of 4096 behind a norm take 54 us instead of 64.)
    MOST_KEPT_WEIGHTS = 32,
};

// Bytes of one column that differ from row to row; at least 1.
static int streamed_bytes(const Body *b)
{
    int n = 0;
    // Only for bodies that skip loads was it measured that shared values should not be counted.
    const bool skips = body_skips(b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        bool own = v->kind == KI_LOAD && v->axes >> b->col & 1 && v->axes & ((1ull << b->npar) - 1);
        if (skips ? inst_streams(b, v) : own) n += element_bytes(b, v->buf);
    }
    return n ? n : 1;
}

bool body_aligned(const Body *b, const Ix *place, int v)
{
    int64_t stride;
    if (!ix_stride(place, b->col, &stride) || stride != 1 || !body_begins(b)) return false;
    if (!b->uneven) return ix_aligned(place, b->col, v);
    return ix_aligned(ix_add(b->ix, place, ix_scale(b->ix, b->uneven, -1)), -1, v);
}

// Rows whose starts are not aligned have vectors of full width between single elements. Their width
// is 16 bytes of the widest type that varies over the rows. If the values that all rows share are
// more than 4 bytes per column, and not [held], they limit it, too. b->uneven becomes the index
// with whose alignment the most bytes are aligned.
int schedule_uneven_vector(Body *b, int64_t extent, bool held)
{
    int most = 8, narrow = 8, shares = 0, best = 0;
    const Ix *places[64];
    int bytes[64], n = 0;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n && n < 64; i++) {
        Access x;
        if (!body_access(b, i, b->col, &x)) continue;
        bool shared = x.at->has_value || !(x.at->axes & ~(1ull << b->col));
        if (16 / x.bytes < narrow) narrow = 16 / x.bytes;
        if (shared) {
            shares += x.bytes;
            continue;
        }
        if (16 / x.bytes < most) most = 16 / x.bytes;
        bytes[n] = x.bytes;
        places[n++] = x.at;
    }
    if (shares > 4 && !held) most = narrow;
    const Ix *found = NULL;
    for (int i = 0; i < n; i++) {
        int moved = 0;
        b->uneven = places[i];
        for (int k = 0; k < n; k++) moved += body_aligned(b, places[k], most) ? bytes[k] : 0;
        if (moved > best) {
            best = moved;
            found = places[i];
        }
    }
    b->uneven = most > 1 && extent >= 32 * most ? found : NULL;
    return b->uneven ? most : 1;
}

// The vectors of unaligned rows begin at whole lines of memory, as long as every thread of the team
// then has at most one of the single elements. (On an H200 softmax of bf16[8000, 12289] went from
// 3713 to 3958 GB/s.)
int schedule_line(const Body *b)
{
    const Schedule *s = &b->sched;
    int line = 64; // 128 bytes of the narrowest type with vectors
    while (line > s->vector && line + s->vector - 2 + s->row.margin > s->team) line /= 2;
    return line;
}

uint64_t *body_stage_uses(Arena *a, const Body *b)
{
    uint64_t *stages = NEW_ARRAY(a, uint64_t, b->insts.n + 1);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (b->insts.at[s->value].axes >> b->col & 1 || (s->ix && s->ix->axes >> b->col & 1)) {
            stages[s->value] |= 1ull << s->stage % 64;
            ix_mark(s->ix, 1ull << s->stage % 64, stages);
        }
    }
    for (uint32_t i = b->insts.n; i-- > 0;) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE && v->axis == b->col)
            stages[v->a[0]] |= 1ull << (v->stage - 1) % 64;
        if (v->axes >> b->col & 1) inst_mark(b, (int)i, stages[i], stages);
    }
    return stages;
}

static bool of_rows(const Body *b, const Inst *v)
{
    return v->axes & ((1ull << b->npar) - 1);
}

static bool is_leaf(const Body *b, const Inst *v)
{
    const BodyBuf *from = &b->bufs.at[v->buf];
    return from->kind == KA_NODE && !from->written && node_in_memory(from->node);
}

static bool is_weight(const Body *b, const Inst *v)
{
    return is_leaf(b, v) && of_rows(b, v);
}

bool row_meets_vector(const Body *b)
{
    bool vector = false, matrix = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1)) continue;
        vector |= (!is_leaf(b, v) || v->ix->has_value) && !of_rows(b, v);
        matrix |= is_weight(b, v);
    }
    return vector && matrix && body_rows(b) > 1;
}

// Marks the loads over the columns that more than one stage reads, and those of weights that are
// combined with a vector; returns how many bytes per column they take.
static int keep_loads(Arena *a, Body *b)
{
    uint64_t *stages = body_stage_uses(a, b);
    const bool vector = row_meets_vector(b);
    int bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        int64_t stride;
        bool plain = v->kind == KI_LOAD && v->axes >> b->col & 1 && v->pred < 0 &&
                     !v->ix->has_value && v->stage == 0 && !inst_nested(b, v) &&
                     ix_stride(v->ix, b->col, &stride);
        if (plain && b->sched.vector > 1) plain = body_aligned(b, v->ix, b->sched.vector);
        v->keep = plain && (stages[i] & (stages[i] - 1) || (vector && is_weight(b, v)));
        if (v->keep) bytes += element_bytes(b, v->buf);
    }
    return bytes;
}

bool row_streams(const Body *b)
{
    const Schedule *s = &b->sched;
    return s->variant == RUN_ROWS && !s->row.keep && s->split == 1 && s->vector > 1;
}

int64_t row_columns(const Body *b)
{
    int64_t cols = b->axis[b->col].extent;
    return b->sched.cluster > 1 ? ceil_div(ceil_div(cols, b->sched.cluster), 16) * 16 : cols;
}

int64_t row_vectors(const Body *b)
{
    int64_t cols = row_columns(b);
    return b->uneven && b->sched.vector > 1 ? cols / b->sched.vector
                                            : ceil_div(cols, b->sched.vector);
}

static int kept_registers(int64_t vectors, const Schedule *s, int bytes)
{
    return (int)(ceil_div(vectors, s->team) * s->vector * bytes / 4);
}

static int64_t kept_shared(const Body *b, int64_t cols)
{
    return cols * b->sched.row.keep_bytes + 512; // each load's part is rounded up to 16 bytes
}

// How many columns of a row fit in shared memory: all, or a multiple of 1024.
static int64_t shared_columns(const Body *b, const Target *t)
{
    int64_t most =
                b->sched.row.keep_bytes ? (t->shared_per_block - 512) / b->sched.row.keep_bytes : 0,
            cols = row_columns(b);
    return cols <= most ? cols : most / 1024 * 1024;
}

bool schedule_can_keep(const Body *b, const Target *t, int where)
{
    const Schedule *s = &b->sched;
    if (where == KEEP_AGAIN) return true;
    if (!s->row.keep_bytes) return false;
    if (where == KEEP_REGISTERS) return kept_registers(row_vectors(b), s, s->row.keep_bytes) <= 64;
    return s->team > 32 && shared_columns(b, t) > 0; // one row per block
}

// Rows in shared memory: as many blocks per multiprocessor as fit, with three quarters of its
// threads.
static void share_rows(const Target *t, Body *b, int64_t vectors)
{
    Schedule *s = &b->sched;
    int64_t bytes = kept_shared(b, shared_columns(b, t));
    int64_t fit = t->shared_per_unit / (bytes + 1024); // the system reserves 1 KB per block
    s->row.keep_in = KEEP_SHARED;
    s->resident = (int)at_most(fit, t->threads_per_unit * 3 / 4 / 256);
    if (s->resident < 1) s->resident = 1;
    // Then a thread has 42 registers, or 64: the first stage needs them for loads in flight.
    for (s->team = 1024; s->team * s->resident > t->threads_per_unit * 3 / 4;) s->team /= 2;
    while (s->team > 64 && vectors < s->team) s->team /= 2;
}

// Estimated registers of a thread: kept values, a vector for each other access, and 20 more.
static int estimated_registers(const Body *b, int kept)
{
    int n = kept + 20;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_LOAD && !v->keep && v->axes >> b->col & 1)
            n += b->sched.vector * dtype_info[b->bufs.at[v->buf].type].bits / 32;
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].ix && b->stores.at[i].ix->axes >> b->col & 1) n += b->sched.vector;
    return n;
}

// The number of blocks that share a row. A multiprocessor should have at least two blocks, or it is
// idle at their barriers. If one block would hold 128 KB or more of a row, blocks with 32 KB each
// were fastest on an H200 (softmax of 65536 columns of bf16: 3.5 TB/s instead of 3.1). Two blocks
// per multiprocessor with a row each are faster than blocks that share rows.
static void share_long_rows(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    if (2 * (kept_shared(b, row_columns(b)) + 1024) <= t->shared_per_unit) return;
    while (s->cluster < t->max_cluster && row_columns(b) * s->row.keep_bytes > t->row_slice)
        s->cluster *= 2;
}

// Chooses where a row that several stages read is kept: in registers if it fits, otherwise in
// shared memory; otherwise it is read again.
static void keep_rows(Arena *arena, const Target *t, Body *b, int most)
{
    Schedule *s = &b->sched;
    int bytes = s->row.keep_bytes = keep_loads(arena, b);
    if (!bytes) return;
    share_long_rows(t, b);
    int64_t vectors = row_vectors(b);
    if (s->cluster > 1) {
        share_rows(t, b, vectors);
        return;
    }
    // At most 16 elements per thread, from 256 threads on at most 48.
    while (s->team < 512 && s->team < vectors &&
           (ceil_div(vectors, s->team) * s->vector > (s->team < 256 ? 16 : 48) ||
            kept_registers(vectors, s, bytes) > most))
        s->team *= 2;
    // Half as many threads if more than one in nine would be idle, and fewer are idle then.
    int64_t half = ceil_div(vectors, s->team / 2 ? s->team / 2 : 1);
    if (s->team > 32 && ceil_div(vectors, s->team) * s->team * 8 > vectors * 9 &&
        half * s->vector <= 48 && half * (s->team / 2) < ceil_div(vectors, s->team) * s->team)
        s->team /= 2;
    int kept = kept_registers(vectors, s, bytes);
    if (kept > most) {
        if (s->team < 64) s->team = 64;
        if (schedule_can_keep(b, t, KEEP_SHARED)) share_rows(t, b, vectors);
        return;
    }
    s->row.keep_in = KEEP_REGISTERS;
    // Without a limit, all loads of weights would be issued early and take so many registers that
    // too few threads fit.
    bool weights = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        weights |= v->kind == KI_LOAD && !v->keep && v->axes >> b->col & 1;
    }
    if (s->team < 32 || !weights) return;
    int need = estimated_registers(b, kept), threads = s->team > 32 ? s->team : s->threads;
    s->resident = need <= 42   ? t->threads_per_unit * 3 / 4 / threads
                  : need <= 64 ? t->threads_per_unit / 2 / threads
                               : 0;
}

// Rows of weights that are read once: kept in registers, and thus loaded early, if all rows are
// processed at the same time.
static void keep_weights(Arena *arena, const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    const int team = s->team;
    const int bytes = s->row.keep_bytes = keep_loads(arena, b);
    const int64_t vectors = row_vectors(b), device = (int64_t)t->units * t->threads_per_unit;
    while (s->team < 256 && s->team < vectors && kept_registers(vectors, s, bytes) > MOST_KEPT)
        s->team *= 2;
    if (bytes && !b->uneven && kept_registers(vectors, s, bytes) <= MOST_KEPT &&
        body_rows(b) * s->team <= device) {
        s->row.keep_in = KEEP_REGISTERS;
        return;
    }
    s->team = team;
    s->row.keep_bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) b->insts.at[i].keep = false;
}

// If all threads can have the same number of vectors in flight in every step, no load needs a test,
// and the compiler issues those of the vector together, too.
static void unroll_evenly(Schedule *s, int64_t vectors)
{
    for (int n = s->unroll; n > s->unroll / 2; n--)
        if (vectors % ((int64_t)n * s->team) == 0) {
            s->unroll = n;
            return;
        }
}

static void plan_teams(Arena *arena, const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent,
            device = (int64_t)t->units * t->threads_per_unit;
    const bool weights = row_meets_vector(b);
    s->vector = s->team = s->unroll = 1;
    s->split = 1;
    s->threads = 64;
    if (b->serial_cols) {
        if (!plan_first(t, b) && !plan_sort(b)) plan_scan(t, b);
        return;
    }
    // Loads that all rows share (weights) come from the L1 cache, where 16-byte accesses are best.
    s->vector = schedule_vector(b, b->col, cols, false, true);
    if (s->vector == 1) s->vector = schedule_uneven_vector(b, cols, false);
    int64_t vectors = row_vectors(b);
    while (s->team < 32 && s->team * 2 <= vectors) s->team *= 2;
    if (b->uneven) s->team = 32; // a thread for each single element
    // Few rows: larger teams; more than a warp only if each thread still has several vectors.
    while (s->team < 32 && s->team < vectors && rows * s->team < device / 2) s->team *= 2;
    while (s->team >= 32 && s->team < 1024 &&
           (vectors / s->team > 32 || (vectors / s->team >= 4 && rows * s->team < device / 2)))
        s->team *= 2;
    // Rows of weights in whole are in flight, with several vectors of a thread.
    while (weights && s->team >= 32 && s->team < 128 && vectors / s->team >= 8) s->team *= 2;
    // Small blocks balance the load, but should read at least t->block_bytes each.
    int64_t moved = cols * streamed_bytes(b);
    while (s->threads < 256 && s->team <= 32 && s->threads / s->team * moved < t->block_bytes)
        s->threads *= 2;
    if (b->nstages > 1)
        keep_rows(arena, t, b, weights ? MOST_KEPT_WEIGHTS : MOST_KEPT);
    else if (weights)
        keep_weights(arena, t, b);
    vectors = row_vectors(b);
    int64_t parts = at_most(at_most(device / 1024 / (rows ? rows : 1), ceil_div(cols, 8192)), 512);
    if (schedule_can_split(b) && s->team == 1024 && parts > 1) s->split = parts;
    // Rows that are streamed: t->row_flight bytes per block in flight, as registers allow.
    int64_t each = s->vector * streamed_bytes(b), flight = t->row_flight / s->team / each,
            spare = s->resident ? t->registers_per_unit / s->resident / s->team - 20 : 44;
    flight = at_most(at_most(flight, spare * 4 / each), 8);
    while (s->unroll < flight && (int64_t)s->unroll * s->team < vectors) s->unroll++;
    if (weights) unroll_evenly(s, vectors);
}

// In a launch of several bodies, a block has as many threads as the widest of them: here as many
// whole teams as fit.
void row_widen(Body *b, const Target *t, int threads)
{
    Schedule *s = &b->sched;
    const bool fills = s->blocks >= t->units; // otherwise idle threads cost nothing
    int most = t->warp;
    while (most * 2 <= threads) most *= 2;
    if (s->variant != RUN_ROWS || !fills || s->split > 1 || s->cluster > 1 || s->threads >= most ||
        s->row.keep_in == KEEP_SHARED)
        return;
    const int64_t vectors = row_vectors(b);
    if (s->team <= 32)
        s->threads = most;
    else
        while (s->team < most && s->team * 2 <= vectors) s->team *= 2;
    while (s->unroll > 1 && (int64_t)(s->unroll - 1) * s->team >= vectors) s->unroll--;
    schedule_derive(b, t);
}

// Bytes of one column that all rows share (weights).
static int shared_by_rows(const Body *b)
{
    int bytes = 0;
    int64_t stride;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *x = &b->insts.at[i];
        if (x->kind == KI_LOAD && x->axes == 1ull << b->col && ix_stride(x->ix, b->col, &stride) &&
            stride == 1)
            bytes += element_bytes(b, x->buf);
    }
    return bytes;
}

// For unaligned rows that share more than twice the bytes that they read: shifting the weights to
// the alignment of every row takes longer than the row. In a sweep, blocks iterate over rows of the
// same alignment and do it once. (On an H200 layer norm of bf16[8000, 12289] takes 111 us instead
// of 120, of 4097 columns 107 instead of 127; residual + layer norm, which reads twice as much, 217
// instead of 216.)
static void walk_over_rows(const Target *t, Body *b, const Schedule *fresh)
{
    enum { TURNS = 8 }; // rows of a team from which on shifting once pays off
    Schedule *s = &b->sched, row = *s;
    const Ix *uneven = b->uneven;
    if (!uneven || b->nstages < 2 || s->split > 1 || shared_by_rows(b) <= 2 * streamed_bytes(b))
        return;
    *s = *fresh;
    s->kind = SCHED_SWEEP;
    sweep_schedule(t, b);
    if (s->sweep.ahead && body_rows(b) >= TURNS * s->blocks * (s->threads / s->team)) return;
    *s = row;
    b->uneven = uneven;
}

void plan_row(Arena *arena, const Target *t, Body *b, const Schedule *fresh)
{
    plan_teams(arena, t, b);
    walk_over_rows(t, b, fresh);
}

// The margin (Schedule.row.margin). Vectors whose alignment differs from the row's are loaded as
// the 16-byte lines around them and shifted. If vectors end early enough for these lines to be
// within the row, loads need not test for its end. Then all vectors of a load are shifted by the
// same amount, and if there are several vectors per thread, it pays off to compile the stage for
// each amount. (On an H200 residual + layer norm of bf16[8000, 12289] takes 198 us instead of 206,
// of f32[4000, 12289] 205 instead of 264; rms norm of 1000 columns, with two vectors per thread,
// would take 100 instead of 97.)
static int uneven_margin(const Body *b)
{
    enum { VECTORS = 4 };
    const Schedule *s = &b->sched;
    int margin = 0;
    Access x;
    if (!b->uneven || s->vector == 1 || (s->row.keep && s->row.keep < VECTORS)) return 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        if (!body_access(b, i, b->col, &x) || body_aligned(b, x.at, s->vector)) continue;
        int others = 16 / x.bytes - 1;
        margin = others > margin && x.bytes > 1 ? others : margin; // bytes are not loaded so
    }
    return s->team < 2 * s->vector + margin ? 0 : margin;
}

void row_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    s->variant = !b->serial_cols     ? RUN_ROWS
                 : body_first(b)     ? RUN_FIRST
                 : body_sort(b) >= 0 ? b->insts.at[body_sort(b)].bits ? RUN_RADIX : RUN_SORT
                 : s->team > 1       ? RUN_SCAN
                                     : RUN_IN_ORDER;
    if (b->uneven && (s->team < 2 * s->vector || s->split > 1)) s->vector = 1;
    if (s->team > 32) s->threads = s->team;
    if (s->team <= 32 || s->split > 1) s->cluster = 1; // clusters need one row per block
    if (!schedule_can_keep(b, t, s->row.keep_in)) s->row.keep_in = KEEP_AGAIN;
    s->row.keep = s->row.keep_in == KEEP_REGISTERS ? (int)ceil_div(row_vectors(b), s->team) : 0;
    s->row.margin = uneven_margin(b);
    s->row.line = s->cluster > 1 ? s->vector : schedule_line(b); // a block's part may be short
    s->row.cols = s->row.keep_in == KEEP_SHARED ? shared_columns(b, t) : 0;
    s->shared_bytes = s->row.cols ? (int)kept_shared(b, s->row.cols) : 0;
    if (s->variant == RUN_SORT || s->variant == RUN_RADIX) s->shared_bytes = sort_shared_bytes(b);
    if (s->variant == RUN_FIRST) s->shared_bytes = first_shared_bytes(b);
    s->blocks = ceil_div(body_rows(b), s->threads / s->team) * s->split * s->cluster;
}
