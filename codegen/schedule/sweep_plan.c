// The schedule of a sweep: teams of threads iterate over rows. Each thread has the same columns in
// every row and holds their sums in registers; the next rows are prefetched into shared memory.
//
// Register pressure determines the team size. For each of its columns a thread holds every sum, the
// loads of this row, a temporary, and values that all rows share (a weight), unless those are in
// shared memory. The team is the smallest whose threads need at most MOST_REGISTERS; blocks are as
// many and as large as the registers of a multiprocessor allow. Few large blocks are better than
// many small ones, since each leaves a partial result of every sum, which is read again.
#include "codegen/schedule/plans.h"

enum {
    MOST_REGISTERS = 168,
    MOST_IN_TEAM = 128,
    OWN_REGISTERS = 16,
    SPARE = 24,
    WARPS = 16,
    AHEAD = 2 // turns in shared memory. More make memory slower, because they are farther apart;
              // but rows without sums over the rows take less time each and need one more
};

static bool over_rows(const Inst *v)
{
    return v->axes & 1;
}

bool sweep_held(const Body *b, const Inst *v)
{
    int64_t stride;
    if (v->kind != KI_LOAD || !(v->axes >> b->col & 1) || v->pred >= 0 || v->ix->has_value ||
        v->stage > 0 || !ix_stride(v->ix, b->col, &stride))
        return false;
    int width = b->sched.vector, bytes = width * element_bytes(b, v->buf);
    if (over_rows(v) ? !b->sched.sweep.ahead || bytes < 4 : b->sched.row.keep_in == KEEP_AGAIN)
        return false; // asynchronous copies have at least 4 bytes
    if (width == 1) return true;
    int own = element_bytes(b, v->buf);
    // Values that all rows share are shifted to the rows' alignment when they are loaded.
    bool moved = b->uneven && !over_rows(v) && (own == 2 || own == 4);
    return stride == 1 && bytes <= 32 && (moved || body_aligned(b, v->ix, width));
}

// Bytes of registers that a thread needs for one column. Teams within a warp keep the row in
// registers from stage to stage; larger teams have barriers between stages and read it again.
static int column_bytes(const Body *b, int64_t team, int keep_in)
{
    int bytes = 4;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold) bytes += math_bytes(b->insts.at[b->stores.at[i].value].type);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (sweep_held(b, v) && (over_rows(v) ? team <= 32 : keep_in == KEEP_REGISTERS))
            bytes += element_bytes(b, v->buf);
    }
    return bytes;
}

static int64_t registers(const Body *b, int64_t team, int keep_in)
{
    return ceil_div(row_vectors(b), team) * b->sched.vector * column_bytes(b, team, keep_in) / 4 +
           OWN_REGISTERS;
}

bool sweep_holds(const Body *b, int64_t team)
{
    int64_t n = registers(b, team, b->sched.row.keep_in);
    return n <= 255 && team * ceil_div(n, 8) * 8 <= 65536;
}

int64_t sweep_held_bytes(const Body *b, const Inst *load)
{
    const Schedule *s = &b->sched;
    if (!over_rows(load) && s->row.keep_in == KEEP_REGISTERS) return 0;
    int64_t bytes = (int64_t)s->row.keep * s->threads * s->vector * element_bytes(b, (load)->buf);
    return (over_rows(load) ? bytes * s->sweep.ahead * s->sweep.together : bytes + 15) / 16 * 16;
}

// Shared memory of a block: what its threads hold, or, at the end, the partial sums of its teams.
static int64_t shared_bytes(const Body *b)
{
    const Schedule *s = &b->sched;
    int64_t teams = s->threads / s->team, held = 0, parts = 0;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (sweep_held(b, &b->insts.at[i])) held += sweep_held_bytes(b, &b->insts.at[i]);
    for (uint32_t i = 0; i < b->stores.n && teams > 1; i++) {
        int64_t bytes =
            b->stores.at[i].fold ? math_bytes(b->insts.at[b->stores.at[i].value].type) : 0;
        bytes *= teams * b->axis[b->col].extent;
        parts = bytes > parts ? bytes : parts;
    }
    return held > parts ? held : parts;
}

// If combining sums takes a barrier, and a row needs two of these, they become one: the next row
// has arrived early enough that its first sums can be combined together with this row's second
// ones.
bool sweep_skews(const Body *b)
{
    const Schedule *s = &b->sched;
    int sums[2] = {0, 0};
    if (b->uneven || s->team <= 32 || s->sweep.ahead < 3 || s->sweep.together > 1 || b->nstages < 3)
        return false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_REDUCE || v->axis != b->col) continue;
        if (inst_acc(v)->place) return false;
        if (v->stage <= 2) sums[v->stage - 1]++;
    }
    return sums[0] && sums[1];
}

// Not if there would be only two rounds, because Schedule.skew combines these (rare == 1), and not
// for short rows: several share a warp, where the rare stage is never left out.
bool sweep_saves(const Body *b)
{
    return b->sched.kind == SCHED_SWEEP && b->rare > 1 && b->axis[b->col].extent > 16 * 8;
}

// Whether shared memory holds two warps per scheduler, each with its own copy of the values that
// all rows share. (On an H200 layer norm of bf16[39360, 2501] takes 107 us with teams of 128
// threads, and 127 with only four warps.)
static bool warps_fit(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    if (s->row.keep_in == KEEP_REGISTERS) return true;
    s->threads = 8 * 32;
    s->sweep.walkers = 1;
    sweep_derive(b, t);
    return s->shared_bytes <= t->shared_per_unit;
}

// The smallest team whose registers hold its share of a row.
static void choose_team(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    s->team = b->uneven ? 32 : pow2_at_least(row_vectors(b), 32);
    // A warp needs no barrier. For other teams, weights in registers are preferred to rereading
    // them from shared memory in every stage.
    for (s->row.keep_in = KEEP_REGISTERS; s->row.keep_in <= KEEP_SHARED; s->row.keep_in++)
        if (registers(b, s->team, s->row.keep_in) <= MOST_REGISTERS && warps_fit(t, b)) return;
    for (s->row.keep_in = KEEP_REGISTERS; s->row.keep_in <= KEEP_SHARED; s->row.keep_in++)
        for (s->team = 64; s->team < t->threads_per_block; s->team *= 2)
            if (registers(b, s->team, s->row.keep_in) <= MOST_IN_TEAM) return;
    s->row.keep_in = KEEP_SHARED;
}

// Rows in flight are apart in memory, which is faster with few of them: at most turn_flight bytes
// per multiprocessor, but at least two blocks. If blocks are then small, teams become larger.
static void limit_flight(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    sweep_derive(b, t);
    int64_t most = t->turn_flight / (s->shared_bytes > 0 ? s->shared_bytes : 1),
            vectors = row_vectors(b);
    if (most < 2) most = 2;
    if (s->sweep.walkers <= most) return;
    s->sweep.walkers = (int)most;
    while (s->team * s->sweep.walkers < 512 && vectors % (2 * s->team) == 0) s->team *= 2;
    s->threads = s->team;
}

void sweep_schedule(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t cols = b->axis[b->col].extent;
    s->vector = schedule_vector(b, b->col, cols, false, false);
    if (s->vector == 1) s->vector = schedule_uneven_vector(b, cols, true);
    s->sweep.together = 1;
    s->sweep.ahead = AHEAD;
    choose_team(t, b);
    // Few large blocks per multiprocessor: each block stores partial sums, which are read again.
    int64_t need = registers(b, s->team, s->row.keep_in), each = ceil_div(need + SPARE, 8) * 8,
            warps = t->registers_per_unit / 32 / each, most = t->threads_per_unit / 32;
    if (warps > most) warps = most;
    if (warps > 4) warps -= warps % 4; // registers are allocated for four warps at a time
    if (s->team > 32) {
        s->threads = s->team;
        s->sweep.walkers = (int)(t->registers_per_unit / (need * s->team));
    } else {
        s->sweep.walkers = (int)ceil_div(warps, WARPS);
        s->threads = warps / s->sweep.walkers > 1 ? (int)(warps / s->sweep.walkers) * 32 : 32;
    }
    if (s->sweep.walkers < 1) s->sweep.walkers = 1;
    if (s->team > 32) limit_flight(t, b);
    s->sweep.ahead = AHEAD + 1;
    s->skew = sweep_skews(b);
    for (;;) { // until it fits in shared memory, of which the system reserves 1 KB per block
        if (!s->skew && body_folds(b)) s->sweep.ahead = AHEAD;
        sweep_derive(b, t);
        if (s->shared_bytes <= t->shared_per_unit / s->sweep.walkers - 2048) return;
        if (s->skew) {
            s->skew = 0;
            continue;
        }
        if (s->team <= 32 && s->threads > 128)
            s->threads -= 128;
        else if (s->sweep.walkers > 1)
            s->sweep.walkers--;
        else
            break;
    }
    s->sweep.walkers = 1; // rows are too long to be held: every stage loads them
    s->sweep.ahead = 0;
    s->row.keep_in = KEEP_AGAIN;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

// The number of blocks must be a multiple of this, so that all rows of a team have the same
// alignment.
static int64_t block_period(const Body *b, int64_t teams)
{
    int64_t stride = 0, line = b->sched.row.line;
    if (!b->uneven || b->sched.vector == 1) return 1;
    ix_stride(b->uneven, 0, &stride);
    int64_t rows = line / common_divisor(line, stride);
    return rows / common_divisor(rows, teams);
}

void sweep_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    int64_t rows = b->axis[0].extent;
    s->variant = RUN_SWEEP;
    if (s->team > 32) s->threads = s->team;
    s->skew = s->skew && sweep_skews(b);
    if (s->sweep.walkers > t->threads_per_unit / s->threads)
        s->sweep.walkers = t->threads_per_unit / s->threads;
    s->resident = s->sweep.walkers;
    s->row.keep = (int)ceil_div(row_vectors(b), s->team);
    // As few blocks as possible without more turns, because each stores a partial result of every
    // sum.
    int64_t teams = s->threads / s->team, turns = ceil_div(rows, teams),
            device = (int64_t)t->units * s->sweep.walkers, period;
    s->blocks = ceil_div(turns, ceil_div(turns, device));
    s->row.line = schedule_line(b);
    while (period = block_period(b, teams),
           s->blocks % period > s->blocks / 16 && s->row.line > s->vector)
        s->row.line /= 2;
    s->blocks = (s->blocks < period ? 1 : s->blocks / period) * period;
    s->shared_bytes = (int)shared_bytes(b);
}
