// Rows sorted on CUDA: one per block, or by digits. How many threads, and how much shared memory.
#include "codegen/schedule/plans.h"

enum { WARP = 32, BLOCK = 512, EACH = 8 }; // elements of a thread, unless there are few or many

bool plan_sort(Body *b)
{
    int at = body_sort(b);
    int64_t n = sort_padded(b->axis[b->col].extent);
    Schedule *s = &b->sched;
    if (at < 0) return false;
    s->kind = SCHED_ROW;
    if (b->insts.at[at].bits) {
        s->threads = s->team = RADIX_THREADS;
        s->unroll = RADIX_EACH;
        return true;
    }
    s->threads = s->team = n < WARP * EACH ? WARP : n > BLOCK * EACH ? BLOCK : (int)n / EACH;
    return true;
}

int sort_shared_bytes(const Body *b)
{
    const Inst *v = &b->insts.at[body_sort(b)];
    const int64_t cols = b->axis[b->col].extent;
    if (!v->bits) return (int)sort_bytes(cols, v->acc, v->places);
    // Of each warp, the number of elements with each digit (at first, the sums of chunks by each
    // thread); where the next element with each digit goes; a tile of keys and positions.
    const int digits = 1 << v->bits, counts = RADIX_THREADS / 32 * digits,
              sums = counts > 2 * RADIX_THREADS ? counts : 2 * RADIX_THREADS;
    return 4 * (sums + digits) + (v->places ? RADIX_TILE * (math_bytes(v->acc) + 4) : 0);
}
