// The cost model of rows on CUDA: a team of threads processes a row in vectors and keeps it in
// registers or in shared memory if several stages read it.
#include "codegen/schedule/plans.h"

// Of one column, of what differs from row to row; at least 1.
static int streamed_bytes(const Body *b)
{
    int n = 0;
    const bool skips = body_skips(b); // (only there it was measured that what is shared is no load)
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        bool own = v->kind == KI_LOAD && v->axes >> b->col & 1 && v->axes & ((1ull << b->npar) - 1);
        if (skips ? inst_streams(b, v) : own) n += dtype_info[b->bufs.at[v->buf].type].bits / 8;
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

// Rows whose starts are not aligned: vectors of full width between single elements, as wide as
// the type of what moves most allows; what all rows share narrows them where it is more than a
// float a column, and not where it is [held]. Looks for the place with which most of that is
// aligned.
int schedule_uneven_vector(Body *b, int64_t extent, bool held)
{
    int most = 8, narrow = 8, shares = 0, best = 0;
    const Ix *places[64];
    int bytes[64], n = 0;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n && n < 64; i++) {
        Access x;
        if (!body_access(b, i, b->col, &x)) continue;
        bool shared = x.at->has_value || !(x.at->axes & ~(1ull << b->col)); // no measure
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

// The vectors of rows that start anywhere begin at whole lines of memory where that leaves no
// thread of the team more than one element of the edges. (On an H200 softmax of bf16[8000, 12289]
// went from 3713 to 3958 GB/s.)
int schedule_line(const Body *b)
{
    const Schedule *s = &b->sched;
    int line = 64; // 128 bytes of the narrowest type that vectors move
    while (line > s->vector && line + s->vector - 2 + s->row.margin > s->team) line /= 2;
    return line;
}

// By instruction over the columns: a bit for each stage that needs it.
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

// Whether rows of a matrix that is there before the kernel begins meet a vector that the kernel in
// front makes: what of the matrix is fetched before that has ended costs no time.
static bool meets_vector(const Body *b)
{
    bool vector = false, matrix = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1)) continue;
        vector |= !is_leaf(b, v) && !of_rows(b, v);
        matrix |= is_weight(b, v);
    }
    return vector && matrix && body_rows(b) > 1;
}

// Marks the loads over the columns that more than one stage reads, and those of weights that meet a
// vector; returns how many bytes of each column they take.
static int keep_loads(Arena *a, Body *b)
{
    uint64_t *stages = body_stage_uses(a, b);
    const bool vector = meets_vector(b);
    int bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        int64_t stride;
        bool plain = v->kind == KI_LOAD && v->axes >> b->col & 1 && v->pred < 0 &&
                     !v->ix->has_value && v->stage == 0 && ix_stride(v->ix, b->col, &stride);
        if (plain && b->sched.vector > 1) plain = body_aligned(b, v->ix, b->sched.vector);
        v->keep = plain && (stages[i] & (stages[i] - 1) || (vector && is_weight(b, v)));
        if (v->keep) bytes += dtype_info[b->bufs.at[v->buf].type].bits / 8;
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
    return cols * b->sched.row.keep_bytes + 512; // (every load's share is rounded up to 16 bytes)
}

// How many columns of a row fit shared memory: all, or as many as are worth it.
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
    // one row a block
    return s->team > 32 && shared_columns(b, t) > 0;
}

// Rows in shared memory: as many blocks as fit, and threads for all that a multiprocessor holds.
static void share_rows(const Target *t, Body *b, int64_t vectors)
{
    Schedule *s = &b->sched;
    int64_t bytes = kept_shared(b, shared_columns(b, t));
    int64_t fit = t->shared_per_unit / (bytes + 1024); // 1 KB a block is the system's
    s->row.keep_in = KEEP_SHARED;
    s->resident = (int)at_most(fit, t->threads_per_unit * 3 / 4 / 256);
    if (s->resident < 1) s->resident = 1;
    // 42 registers a thread, or 64: the first stage wants loads in flight
    for (s->team = 1024; s->team * s->resident > t->threads_per_unit * 3 / 4;) s->team /= 2;
    while (s->team > 64 && vectors < s->team) s->team /= 2;
}

// Registers a thread will need: what is kept, a vector of everything else, and the rest.
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

// Blocks that share a row: those of a multiprocessor should be two at least, or it stands still at
// their barriers. On an H200 blocks with 32 KB of a row were fastest where one would hold 128 KB or
// more (softmax of 65536 columns of bf16 3.5 TB/s instead of 3.1); two blocks with rows of their
// own are faster than any that share theirs.
static void share_long_rows(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    if (2 * (kept_shared(b, row_columns(b)) + 1024) <= t->shared_per_unit) return;
    while (s->cluster < t->max_cluster && row_columns(b) * s->row.keep_bytes > t->row_slice)
        s->cluster *= 2;
}

// Where a row that several stages read is kept: in registers, else in shared memory, else it is
// read again.
static void keep_rows(Arena *arena, const Target *t, Body *b)
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
    // 16 elements a thread, in blocks of more than 256 threads up to 48
    while (s->team < 512 && s->team < vectors &&
           (ceil_div(vectors, s->team) * s->vector > (s->team < 256 ? 16 : 48) ||
            kept_registers(vectors, s, bytes) > 24))
        s->team *= 2;
    // (not where more than one thread in nine would idle, if half as many have less to idle about)
    int64_t half = ceil_div(vectors, s->team / 2 ? s->team / 2 : 1);
    if (s->team > 32 && ceil_div(vectors, s->team) * s->team * 8 > vectors * 9 &&
        half * s->vector <= 48 && half * (s->team / 2) < ceil_div(vectors, s->team) * s->team)
        s->team /= 2;
    int kept = kept_registers(vectors, s, bytes);
    if (kept > 24) {
        if (s->team < 64) s->team = 64;
        if (schedule_can_keep(b, t, KEEP_SHARED)) share_rows(t, b, vectors);
        return;
    }
    s->row.keep_in = KEEP_REGISTERS;
    // Loads of weights would all be issued early, and leave room for too few threads.
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

// Rows of weights that are read once: in registers where all rows are at work at once, so that they
// are fetched early.
static void keep_weights(Arena *arena, const Target *t, Body *b)
{
    enum { MOST_KEPT = 24 };
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

static void plan_teams(Arena *arena, const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent,
            device = (int64_t)t->units * t->threads_per_unit;
    s->vector = s->team = s->unroll = 1;
    s->split = 1;
    s->threads = 64;
    if (b->serial_cols) {
        if (!plan_sort(b)) plan_scan(t, b);
        return;
    }
    // (weights, which all rows share, come from the first cache: there whole lines count)
    s->vector = schedule_vector(b, b->col, cols, false, true);
    if (s->vector == 1) s->vector = schedule_uneven_vector(b, cols, false);
    int64_t vectors = row_vectors(b);
    while (s->team < 32 && s->team * 2 <= vectors) s->team *= 2;
    if (b->uneven) s->team = 32; // one for each single element
    // few rows: more threads for each; past a warp only where each still has vectors to take
    while (s->team < 32 && s->team < vectors && rows * s->team < device / 2) s->team *= 2;
    while (s->team >= 32 && s->team < 1024 &&
           (vectors / s->team > 32 || (vectors / s->team >= 4 && rows * s->team < device / 2)))
        s->team *= 2;
    // Small blocks come and go evenly, but should read some 3 KB each.
    int64_t moved = cols * streamed_bytes(b);
    while (s->threads < 256 && s->team <= 32 && s->threads / s->team * moved < t->block_bytes)
        s->threads *= 2;
    if (b->nstages > 1)
        keep_rows(arena, t, b);
    else if (meets_vector(b))
        keep_weights(arena, t, b);
    vectors = row_vectors(b);
    int64_t parts = at_most(at_most(device / 1024 / (rows ? rows : 1), ceil_div(cols, 8192)), 512);
    if (schedule_can_split(b) && s->team == 1024 && parts > 1) s->split = parts;
    // Streams: 48 KB a block in flight, as far as registers go.
    int64_t each = s->vector * streamed_bytes(b), flight = t->row_flight / s->team / each,
            spare = s->resident ? t->registers_per_unit / s->resident / s->team - 20 : 44;
    flight = at_most(at_most(flight, spare * 4 / each), 8);
    while (s->unroll < flight && (int64_t)s->unroll * s->team < vectors) s->unroll++;
}

// Bytes of one column that all rows share: weights.
static int shared_by_rows(const Body *b)
{
    int bytes = 0;
    int64_t stride;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *x = &b->insts.at[i];
        if (x->kind == KI_LOAD && x->axes == 1ull << b->col && ix_stride(x->ix, b->col, &stride) &&
            stride == 1)
            bytes += dtype_info[b->bufs.at[x->buf].type].bits / 8;
    }
    return bytes;
}

// Rows that start anywhere and share more than twice what they read: moving the weights into place
// for every row takes longer than the row. Blocks that walk over rows which start alike do it once.
// (On an H200 layer norm of bf16[8000, 12289] takes 111 us instead of 120, of 4097 columns 107
// instead of 127; residual + layer norm, which reads twice as much, 217 instead of 216.)
static void walk_over_rows(const Target *t, Body *b, const Schedule *fresh)
{
    enum { TURNS = 8 }; // rows of a team, or moving once does not pay
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

// What is read at another distance from a 16-byte line than the row comes as the whole lines around
// it. Where vectors end so early that these hold nothing behind the row, loads need not look where
// it ends, and all that a thread reads is moved equally far, which is worth a copy of the stage for
// each distance if there are several vectors. (On an H200 residual + layer norm of bf16[8000,
// 12289] takes 198 us instead of 206, of f32[4000, 12289] 205 instead of 264; rms norm of 1000
// columns, two vectors a thread, would take 100 instead of 97.)
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
        margin = others > margin && x.bytes > 1 ? others : margin; // (bytes go one by one)
    }
    return s->team < 2 * s->vector + margin ? 0 : margin;
}

void row_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    s->variant = !b->serial_cols     ? RUN_ROWS
                 : body_sort(b) >= 0 ? RUN_SORT
                 : s->team > 1       ? RUN_SCAN
                                     : RUN_IN_ORDER;
    if (b->uneven && (s->team < 2 * s->vector || s->split > 1)) s->vector = 1;
    if (s->team > 32) s->threads = s->team;
    if (s->team <= 32 || s->split > 1) s->cluster = 1; // whole blocks join
    if (!schedule_can_keep(b, t, s->row.keep_in)) s->row.keep_in = KEEP_AGAIN;
    s->row.keep = s->row.keep_in == KEEP_REGISTERS ? (int)ceil_div(row_vectors(b), s->team) : 0;
    s->row.margin = uneven_margin(b);
    s->row.line = s->cluster > 1 ? s->vector : schedule_line(b); // (slices may be short)
    s->row.cols = s->row.keep_in == KEEP_SHARED ? shared_columns(b, t) : 0;
    s->shared_bytes = s->row.cols ? (int)kept_shared(b, s->row.cols) : 0;
    if (s->variant == RUN_SORT) s->shared_bytes = sort_shared_bytes(b);
    s->blocks = ceil_div(body_rows(b), s->threads / s->team) * s->split * s->cluster;
}
