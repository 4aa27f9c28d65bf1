// The cost model of column reductions on CUDA.
//
// A thread has 16 bytes of neighbouring results and several columns in flight. The columns are
// split into as many parts as fill the device once, or not at all if the second kernel would cost
// more than the split saves.
#include <math.h>

#include "codegen/schedule/plans.h"

enum {
    BLOCK = 256,       // threads
    REGISTERS = 32,    // of a thread, for loads in flight
    SECTOR = 32,       // bytes that memory transfers at once
    STORING_TURNS = 4, // iterations of a thread if columns are also stored: there are then many
                       // blocks, of which some load while others compute and store
    FEW_PARTS = 256,   // parts of squared deviations that a second kernel combines: joins_moments
    STORING_PARTS = 1024,   // the most parts if columns are also stored
    SHORT = 16,             // one thread processes up to this many columns, if threads suffice,
    SHORT_OVERLAP = 64,     // ... or this many, if each element is read at least
    OVERLAP = 4,            // ... this many times
    ALONE = 200,            // threads suffice if they are columns / ALONE of what the device runs
    KEPT = 32,              // most bytes of a vector of accumulators combined through shared memory
    KEPT_ALONE = 128,       // ... and of one that stays in a thread's registers
    MANY_SUMS = 4,          // sums of a result from which on registers limit the vector
    LOADED_REGISTERS = 112, // of a thread, for what it loads: with other values, a block of 256
                            // threads with more leaves no room for a second one
};

// Whether neighbouring results read the same elements, as with windows in images.
static bool overlaps(const Body *b)
{
    double all = (double)body_rows(b) * (double)b->axis[b->col].extent;
    bool any = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1)) continue;
        if ((double)b->bufs.at[v->buf].elems * OVERLAP > all) return false;
        any = true;
    }
    return any;
}

bool column_short(const Body *b)
{
    int64_t cols = b->axis[b->col].extent;
    return cols <= SHORT || (cols <= SHORT_OVERLAP && overlaps(b));
}

static int column_sums(const Body *b)
{
    int n = 0;
    for (uint32_t i = 0; i < b->insts.n; i++)
        n += b->insts.at[i].kind == KI_REDUCE && b->insts.at[i].axis == b->col;
    return n;
}

static bool has_many_sums(const Body *b)
{
    return column_sums(b) >= MANY_SUMS;
}

// Whether the rows are those of a batch of matrices, so that they have no single stride.
static bool is_batch(const Body *b)
{
    int64_t stride;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (inst_streams(b, v) && !ix_stride(v->ix, 0, &stride)) return true;
    }
    return false;
}

// Bytes that a thread with [width] results reads for each of them in one column, by all loads
// together.
static int read_bytes(const Body *b, int width)
{
    int bytes = 0;
    // Of a batch, values that all columns or rows of a matrix share are in a cache.
    const bool batch = !has_many_sums(b) && is_batch(b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        bool own = v->kind == KI_LOAD && v->axes >> b->col & 1 && v->axes & 1;
        if (inst_choice(b, (int)i, width) != (int)i) continue;
        if (batch ? inst_streams(b, v) : own) bytes += element_bytes(b, v->buf);
    }
    return bytes;
}

// Bytes that a thread reads once for each of its results, before its columns.
static int held_bytes(const Body *b)
{
    int bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_LOAD && v->axes & 1 && !(v->axes >> b->col & 1))
            bytes += element_bytes(b, v->buf);
    }
    return bytes;
}

bool column_shifts(const Body *b, const Ix *place, int v)
{
    int64_t stride;
    return ix_stride(place, 0, &stride) && stride == 1 &&
           ix_aligned(ix_add(b->ix, place, ix_scale(b->ix, b->uneven, -1)), -1, v);
}

// The vector if rows are not aligned: 16 bytes of the widest type loaded.
static int shifted_vector(const Body *b)
{
    int widest = 2;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> b->col & 1) || !(v->axes & 1)) continue;
        int bytes = element_bytes(b, v->buf);
        widest = bytes > widest ? bytes : widest;
    }
    return 16 / widest;
}

// Sets b->uneven, the index whose alignment vectors follow: that of the first load that can use
// vectors. Threads then also compute elements of neighbouring tiles, so only bodies for which this
// is possible qualify.
static void find_shifted(Body *b)
{
    int64_t stride, step;
    if (b->nstages > 1 || b->npar > 1 || b->can_fail || !body_begins(b) || shifted_vector(b) < 2)
        return;
    if (has_many_sums(b)) return; // each sum would need a vector of accumulators
    if (body_rows(b) < 8 * shifted_vector(b) || body_stores_columns(b, -1)) return;
    for (uint32_t i = 0; i < b->insts.n && !b->uneven; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_LOAD && v->pred < 0 && !v->ix->has_value &&
            ix_stride(v->ix, 0, &stride) && stride == 1 && ix_stride(v->ix, b->col, &step) && step)
            b->uneven = v->ix;
    }
}

// The widest vector along the rows whose loads and stores over the columns are aligned.
int column_widest(const Body *b)
{
    if (b->uneven) return shifted_vector(b);
    int64_t rows = body_rows(b);
    int narrow = 16, most = 8, best = 1;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE && v->axis == b->col) { // accumulators are vectors, too
            int bytes = inst_acc(v)->place ? acc_bytes(v) : math_bytes(v->acc);
            most = (int)at_most(most, (column_short(b) ? KEPT_ALONE : KEPT) / bytes);
        }
    }
    while (most > 4 && most * (read_bytes(b, most) + held_bytes(b)) > 4 * LOADED_REGISTERS)
        most /= 2;
    while (has_many_sums(b) && most > 2 &&
           most * (4 * column_sums(b) + read_bytes(b, most)) > 4 * COLUMN_REGISTERS)
        most /= 2;
    for (int limit = 0; limit < 2; limit++) // 0: limits by types; 1: by alignment
        for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++) {
            bool store = i >= b->insts.n;
            const BodyStore *s = store ? &b->stores.at[i - b->insts.n] : NULL;
            const Inst *v = store ? NULL : &b->insts.at[i];
            if (store ? s->buf < 0 : v->kind != KI_LOAD) continue;
            const Ix *x = store ? s->ix : v->ix;
            int64_t step;
            bool aligned;
            // A run of two suffices: the rows may be those of a batch.
            if (!(x->axes >> b->col & 1) || !ix_run(x, 0, 2, &step, &aligned) || step != 1)
                continue;
            int bytes = element_bytes(b, store ? s->buf : v->buf);
            if (limit == 0) {
                most = (int)at_most(most, (store ? 16 : 32) / bytes);
                narrow = (int)at_most(narrow, bytes);
                continue;
            }
            int w = (int)at_most(16 / narrow, most);
            while (w > 1 &&
                   (!ix_vectors(x, 0, w) || rows % w || !buf_begins(b, store ? s->buf : v->buf, w)))
                w /= 2;
            best = w > best ? w : best;
        }
    return best;
}

static bool shifted(const Body *b, const Schedule *s)
{
    return b->uneven && s->vector > 1;
}

// Number of teams of a block: a power of two, or, if the columns are split, such that blocks have
// equal shares of the results.
static int threads_across(const Body *b)
{
    int64_t vectors = ceil_div(body_rows(b), b->sched.vector), most = BLOCK / b->sched.team;
    if (most < 1) most = 1;
    if (b->sched.split == 1 || shifted(b, &b->sched)) return (int)most;
    most = at_most(vectors, most);
    return (int)ceil_div(vectors, ceil_div(vectors, most));
}

int column_tile(const Body *b)
{
    return (threads_across(b) - 1) * b->sched.vector;
}

int64_t column_tiles(const Body *b)
{
    if (shifted(b, &b->sched)) return ceil_div(body_rows(b), column_tile(b));
    return ceil_div(ceil_div(body_rows(b), b->sched.vector), threads_across(b));
}

// Shared memory in which the threads of a team are combined (nc_above) and get a common pivot
// (nc_level).
static int joint_bytes(const Body *b, const Schedule *s)
{
    int across = s->threads / s->team, each = 0;
    int above = shifted(b, s)                              ? s->team
                : 32 % across == 0 && s->threads % 32 == 0 ? s->threads / 32
                                                           : s->team;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_REDUCE || v->axis != b->col) continue;
        int bytes = acc_bytes(v);
        if (bytes == 1) bytes = 4; // bool is accumulated as an integer
        each = bytes > each ? bytes : each;
    }
    if (above == 1 && (s->team == 1 || !reduces_with(b, ACC_MOMENTS))) return 0;
    return above * across * s->vector * each;
}

void column_derive(Body *b)
{
    Schedule *s = &b->sched;
    s->variant = body_recurs(b) ? RUN_RECURRENCE : b->serial_cols ? RUN_IN_ORDER : RUN_COLUMNS;
    if (b->bins.held) {
        const int64_t cols = b->axis[1].extent;
        s->variant = RUN_BINS;
        const bool ordered = b->bins.ordered >= 0;
        s->threads = bins_threads(cols, ordered) * bins_teams(cols, ordered);
        s->blocks = b->axis[0].extent * bins_blocks_across(cols);
        s->shared_bytes = (int)bins_bytes(b);
        return;
    }
    if (b->serial_cols) {
        s->blocks = b->meets ? body_rows(b) / b->meets : ceil_div(body_rows(b), s->threads);
        return;
    }
    if (b->uneven && s->team < COLUMN_SHIFTS) s->vector = 1;
    s->threads = threads_across(b) * s->team;
    s->blocks = column_tiles(b) * s->split;
    s->shared_bytes = joint_bytes(b, s);
}

// Whether it combines few parts of squared deviations: if a thread merged several of them one after
// the other, this would take longer than reading all of them.
static bool joins_moments(const Body *b)
{
    return b->joins && reduces_with(b, ACC_MOMENTS) && b->axis[b->col].extent <= FEW_PARTS;
}

void plan_column(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent;
    s->split = 1;
    s->vector = column_widest(b);
    if (s->vector == 1) find_shifted(b);
    if (b->uneven) s->vector = column_widest(b);
    const int bytes = read_bytes(b, s->vector);
    const double total = (double)rows * (double)cols * (bytes ? bytes : 4);
    const double blocks = ceil((double)rows * (bytes ? bytes : 4) / (2 * SECTOR)); // the narrowest
    const bool splits = schedule_can_split(b) && (total > (double)t->few_bytes ||
                                                  total / blocks > (double)t->few_block_bytes);
    if (joins_moments(b)) { // many threads per result, as in plan_column_combine
        s->vector = s->unroll = 1;
        for (s->team = 1; s->team < BLOCK / 8 && s->team * 2 <= cols;) s->team *= 2;
        return;
    }
    // Short columns: one thread each if these fill the device, with narrower vectors if necessary.
    const int64_t threads = (int64_t)t->units * t->threads_per_unit;
    const int64_t results = rows * column_sums(b);
    while (column_short(b) && s->vector > 2 && results / s->vector < threads) s->vector /= 2;
    // 32 teams per block, or fewer if there are not as many vectors; the other threads join teams.
    int64_t vectors = ceil_div(rows, s->vector);
    const bool alone = column_short(b) && results / s->vector * ALONE >= threads * cols;
    for (s->team = 1; !alone && (s->team < 8 || vectors * s->team * 2 <= BLOCK); s->team *= 2)
        if (s->team * 2 > cols) break;
    // Few blocks: narrower ones, down to the size of memory transfers, with larger teams.
    while (!splits && column_tiles(b) < t->units && s->team * 2 <= cols && s->team < 128 &&
           BLOCK / (s->team * 2) * s->vector * (bytes ? bytes : 4) >= 2 * SECTOR)
        s->team *= 2;
    for (s->unroll = 8; s->unroll > 1; s->unroll /= 2)
        if (s->unroll * s->vector * bytes <= REGISTERS * 4 && s->unroll * s->team <= cols) break;
    if (!splits) return;
    s->split = 2; // for column_tiles: blocks have equal shares with any split
    int64_t tiles = column_tiles(b);
    s->split = 1;
    int squares = reduces_with(b, ACC_MOMENTS); // more arithmetic between loads
    int64_t each = t->column_flight / (BLOCK * s->unroll * s->vector * (bytes ? bytes : 4));
    each = each < 2 + squares ? 2 + squares : at_most(each, t->threads_per_unit / BLOCK);
    int64_t parts = at_most(each * t->units, (int64_t)(total / (double)t->part_bytes)) / tiles;
    int64_t turns = cols / (s->team * s->unroll);
    parts = at_most(parts, turns);
    if (body_stores_columns(b, -1) && 2 * turns / STORING_TURNS > parts)
        parts = at_most(turns / STORING_TURNS, STORING_PARTS);
    // For a batch, narrower blocks do as well as a few parts, and need no second kernel.
    while (parts > 1 && parts <= 4 && is_batch(b) && s->team * 2 <= cols &&
           BLOCK / (s->team * 2) * s->vector * bytes >= 4 * SECTOR) {
        s->team *= 2;
        parts = ceil_div(parts, 2);
    }
    if (parts > 1) s->split = parts;
}

Schedule plan_column_combine(const Body *b)
{
    Schedule s = b->sched;
    int64_t rows = body_rows(b);
    // Its cost is latency, so few results are spread over many blocks. Partial results are aligned
    // even if the rows are not, so nothing is shifted here.
    int widest = b->uneven ? 1 : (int)at_most(b->sched.vector, 4);
    for (s.vector = 1; s.vector < widest && rows >= 2048 * s.vector;) s.vector *= 2;
    while (rows % s.vector) s.vector /= 2;
    s.threads = BLOCK;
    s.team = BLOCK / 8;
    s.unroll = 1;
    s.blocks = ceil_div(rows / s.vector, 8);
    s.shared_bytes = joint_bytes(b, &s);
    return s;
}
