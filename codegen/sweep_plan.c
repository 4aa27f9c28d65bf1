// The schedule of a sweep: teams of threads walk over rows, each thread has the same columns in
// every row and holds their sums in registers.
//
// Registers decide. A thread holds, for each of its columns: every sum, the loads of this row and
// of the next one, what all rows share (a weight), and a temporary. Teams are the smallest whose
// threads need no more than MOST_REGISTERS; blocks are as many and as large as the registers of a
// multiprocessor allow. Few large blocks are better than many small ones: each leaves a part of
// every sum, which is read again. On an H200 a layer norm's backward kernel over 768 columns ran
// faster with 8 warps a multiprocessor than with 12 that had to spill.
#include "codegen/kernel_ir.h"

enum { MOST_REGISTERS = 168, MOST_IN_TEAM = 128, OWN_REGISTERS = 16, SPARE = 24, WARPS = 16 };

static int pow2_at_least(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

// A load that a whole vector of columns can be fetched by before the row is computed.
static bool is_early(const Body *b, const Inst *v)
{
    int64_t stride;
    if (v->kind != KI_LOAD || !(v->axes >> b->col & 1) || v->pred >= 0 || v->ix->has_value ||
        v->stage > 0 || !ix_stride(v->ix, b->col, &stride))
        return false;
    int bytes = dtype_info[b->bufs.at[v->buf].type].bits / 8;
    return b->sched.vector == 1 || (stride == 1 && ix_aligned(v->ix, b->col, b->sched.vector) &&
                                    b->sched.vector * bytes <= 32);
}

// Registers a thread needs for one column.
static int column_bytes(const Body *b)
{
    int bytes = 4;
    uint64_t rows = (1ull << b->npar) - 1;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold) bytes += math_bytes(b->insts.at[b->stores.at[i].value].type);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!is_early(b, v)) continue;
        int own = dtype_info[b->bufs.at[v->buf].type].bits / 8;
        bytes += v->axes & rows ? 2 * own : own;
    }
    return bytes;
}

static int64_t registers(const Body *b, int64_t team)
{
    int64_t vectors = ceil_div(b->axis[b->col].extent, b->sched.vector);
    return ceil_div(vectors, team) * b->sched.vector * column_bytes(b) / 4 + OWN_REGISTERS;
}

bool sweep_holds(const Body *b, int64_t team)
{
    return registers(b, team) <= 255 && team * ceil_div(registers(b, team), 8) * 8 <= 65536;
}

void sweep_schedule(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t cols = b->axis[b->col].extent;
    s->vector = schedule_vector(b, b->col, cols, false);
    s->team = pow2_at_least(ceil_div(cols, s->vector), 32);
    if (registers(b, s->team) > MOST_REGISTERS)
        while (s->team < t->threads_per_block && registers(b, s->team) > MOST_IN_TEAM) s->team *= 2;
    // One large block on each multiprocessor: blocks leave parts behind, and those are read again.
    int64_t each = ceil_div(registers(b, s->team) + SPARE, 8) * 8,
            warps = t->registers_per_unit / 32 / each, most = t->threads_per_unit / 32;
    if (warps > most) warps = most;
    if (warps > 4) warps -= warps % 4; // registers are given out to four warps at a time
    if (s->team > 32) {
        s->threads = s->team;
        s->walkers = (int)(t->registers_per_unit / (registers(b, s->team) * s->team));
    } else {
        s->walkers = (int)ceil_div(warps, WARPS);
        s->threads = warps / s->walkers > 1 ? (int)(warps / s->walkers) * 32 : 32;
    }
    if (s->walkers < 1) s->walkers = 1;
}

void sweep_derive(Body *b, const Target *t)
{
    Schedule *s = &b->sched;
    int64_t rows = b->axis[0].extent, cols = b->axis[b->col].extent;
    if (s->team > 32) s->threads = s->team;
    if (s->walkers > t->threads_per_unit / s->threads)
        s->walkers = t->threads_per_unit / s->threads;
    s->resident = s->walkers;
    s->keep = (int)ceil_div(ceil_div(cols, s->vector), s->team);
    // As few blocks as take the device no longer: each leaves a part of every sum.
    int64_t teams = s->threads / s->team, turns = ceil_div(rows, teams),
            device = (int64_t)t->units * s->walkers;
    s->blocks = ceil_div(turns, ceil_div(turns, device));
    int widest = 0;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        int bytes = b->stores.at[i].fold ? math_bytes(b->insts.at[b->stores.at[i].value].type) : 0;
        widest = bytes > widest ? bytes : widest;
    }
    s->row_bytes = teams > 1 ? (int)(teams * cols * widest) : 0; // to join the block's teams
    for (uint32_t i = 0; i < b->insts.n; i++) b->insts.at[i].keep = is_early(b, &b->insts.at[i]);
}
