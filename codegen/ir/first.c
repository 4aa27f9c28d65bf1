// The first elements of long rows in order: each warp of a row's team holds those of its columns,
// and the first warp then finds the first of these. How much they hold, and which rows this is for.
#include "codegen/ir/body.h"

enum { WARP = 32, LEAST = 64, MOST = SORT_FIRST_MOST };

bool first_fits(int64_t cols, int64_t first)
{
    return cols >= LEAST && cols <= INT32_MAX / 2 && first > 0 && first <= MOST;
}

int64_t first_held(const Body *b)
{
    int64_t n = WARP;
    while (n < body_first(b)) n *= 2;
    return n;
}

int64_t first_room(const Body *b)
{
    const Schedule *s = &b->sched;
    const int64_t warps = s->threads / WARP, waiting = warps * WARP,
                  room = waiting + (s->team > WARP ? warps * body_first(b) : 0);
    return (room + 3) / 4 * 4; // the positions, of four bytes each, lie behind keys of one or more
}
