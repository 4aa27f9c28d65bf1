// Sums by index (scatter_add): the threads and the shared memory of a block.
#include "codegen/ir/body.h"

enum { MOST_THREADS = 256, WARP = 32 };

int64_t bins_blocks_across(int64_t cols)
{
    return ceil_div(cols, MOST_THREADS);
}

int bins_threads(int64_t cols, bool ordered)
{
    int part = 2; // of a warp, two of whose threads find where a team's columns begin and end
    while (part < cols) part *= 2;
    if (ordered && part < WARP) return part;
    return (int)(ceil_div(ceil_div(cols, bins_blocks_across(cols)), WARP) * WARP);
}

int bins_teams(int64_t cols, bool ordered)
{
    const int threads = bins_threads(cols, ordered);
    return ordered && threads >= WARP ? 1 : MOST_THREADS / threads;
}

int bins_apart(int64_t cols, bool ordered)
{
    return !ordered && cols < WARP ? (int)cols : bins_threads(cols, ordered);
}

int bins_apart_of(const Body *b)
{
    return bins_apart(b->axis[1].extent, b->bins.ordered >= 0);
}

int bins_team_threads(const Body *b)
{
    return bins_threads(b->axis[1].extent, b->bins.ordered >= 0);
}

int bins_teams_of(const Body *b)
{
    return bins_teams(b->axis[1].extent, b->bins.ordered >= 0);
}

int bins_looks(const Body *b)
{
    enum { MOST = 8 };
    return (int)at_most(ceil_div(b->axis[b->col].extent, b->sched.threads), MOST);
}

int64_t bins_sums(const Body *b)
{
    return ceil_div(b->bins.held * bins_apart_of(b), WARP) * WARP;
}

bool bins_narrow(const Body *b)
{
    return bins_apart_of(b) < bins_team_threads(b);
}

int64_t bins_lists(const Body *b)
{
    return bins_sums(b) + (bins_narrow(b) ? b->sched.threads : 0);
}

int64_t bins_bytes(const Body *b)
{
    const int64_t threads = b->sched.threads, index = b->sched.wide ? 8 : 4,
                  sums = bins_lists(b) * math_bytes(b->insts.at[b->bins.sum].type);
    if (b->bins.ordered >= 0) return sums;
    if (b->bins.chunk)
        return sums + 2 * threads * index + 4 * (BINS_CELLS + 3 * threads + threads / WARP);
    return sums + 2 * threads * bins_looks(b) * index + threads / 32 * 4;
}
