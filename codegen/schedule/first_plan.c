// The first elements of rows in order on CUDA: how many warps share a row.
#include "codegen/schedule/plans.h"

enum { BLOCK = 128, LOADS = 4, LEAST_EACH = 8, MOST_JOINED = 2048 };

bool plan_first(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    const int64_t first = body_first(b), rows = body_rows(b),
                  device = (int64_t)t->units * t->threads_per_unit;
    if (!first) return false;
    const int64_t cols = b->axis[b->col].extent;
    s->kind = SCHED_ROW;
    s->unroll = cols >= LOADS * t->warp ? LOADS : 1;
    // More warps read a row sooner, but each sorts what it reads first, and one goes through what
    // all of them found.
    for (s->team = t->warp; s->team < t->threads_per_block; s->team *= 2)
        if (rows * s->team >= device / 2 || cols < 2 * LEAST_EACH * s->team ||
            s->team / t->warp * first >= MOST_JOINED)
            break;
    const bool several = s->team == t->warp && rows >= t->units; // rows a block
    s->threads = several ? BLOCK : s->team;
    return true;
}

int first_shared_bytes(const Body *b)
{
    return (int)(first_room(b) * (math_bytes(b->insts.at[body_sort(b)].acc) + 4));
}
