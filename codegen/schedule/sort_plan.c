// Rows sorted in shared memory on CUDA, one per block: how many threads.
#include "codegen/schedule/plans.h"

enum { BLOCK = 512 };

bool plan_sort(Body *b)
{
    int at = body_sort(b);
    int64_t n = sort_padded(b->axis[b->col].extent);
    Schedule *s = &b->sched;
    if (at < 0) return false;
    s->kind = SCHED_ROW;
    s->threads = s->team = n / 2 < BLOCK ? (int)n / 2 : BLOCK;
    return true;
}

int sort_shared_bytes(const Body *b)
{
    return (int)sort_bytes(b->axis[b->col].extent, b->insts.at[body_sort(b)].acc);
}
