// Running sums along the columns on CUDA: how many threads share a row.
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
