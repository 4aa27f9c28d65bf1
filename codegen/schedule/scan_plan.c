// Running sums along the columns, and recurrences, on CUDA: how many threads share a row.
#include "codegen/schedule/plans.h"

void plan_scan(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent,
            device = (int64_t)t->units * t->threads_per_unit;
    if (body_scan(b) < 0) return;
    // If neighbouring rows are neighbours in memory, threads with a row each read whole lines. From
    // about 2000 rows on this is faster than teams, which read a sector for every element (H200).
    if (s->kind == SCHED_COLUMN && rows >= device / 128) return;
    bool beside = s->kind == SCHED_ROW;
    s->unroll = cols >= 4 * t->warp ? 4 : 1;
    for (s->team = 1; s->team < t->threads_per_block && s->team * s->unroll < cols; s->team *= 2)
        if (rows * s->team >= device / 2 && (!beside || s->team >= t->warp)) break;
    if (s->team > 1) s->kind = SCHED_ROW;
}

// A thread a row: small blocks, which occupy all multiprocessors even if rows are few. Unrolled
// iterations are limited by the length of the code. Of many rows, one loads while others compute,
// and registers are short; few must load ahead themselves. On an H200, for 131,072 rows (Mamba) 4
// iterations took 15.6 ms a step and 8 ahead 16.1; for 6,144 (RWKV) 11.7 and 10.2.
void plan_recurrence(const Target *t, Body *b)
{
    enum {
        MANY_ROWS = 512,
        MANY = 4,
        FEW = 8,
        MOST_INSTRUCTIONS = 768
    }; // rows of a multiprocessor
    Schedule *s = &b->sched;
    while (s->threads > t->warp && body_rows(b) < (int64_t)s->threads * t->units) s->threads /= 2;
    if (b->meets) s->threads = (int)ceil_div(b->meets, t->warp) * t->warp;
    s->skew = body_rows(b) < (int64_t)MANY_ROWS * t->units;
    s->unroll = s->skew ? FEW : MANY;
    while (s->unroll > 1 && (s->unroll > b->axis[b->col].extent ||
                             s->unroll * (int64_t)b->insts.n > MOST_INSTRUCTIONS))
        s->unroll /= 2;
    if (s->unroll == 1) s->skew = 0;
}
