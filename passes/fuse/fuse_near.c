// Which groups may absorb another: those with its key, the nearest in execution order first.
#include "passes/fuse/fuse.h"

Near fuse_near(Fuse *f, const Slots *slots, SlotKey *key)
{
    Near near = {NEW_ARRAY(f->a, uint32_t, slots->n + 1), NEW_ARRAY(f->a, uint32_t, slots->n + 1)};
    IdMap before = idmap_new(f->a), after = idmap_new(f->a);
    for (uint32_t k = 0; k < 2 * slots->n; k++) {
        bool forth = k < slots->n;
        uint32_t i = forth ? k : 2 * slots->n - 1 - k;
        uint64_t at, of;
        bool takes = false;
        if (!key(f, &slots->at[i], &of, &takes)) continue;
        if (idmap_get(forth ? &before : &after, of, &at))
            (forth ? near.before : near.after)[i] = (uint32_t)at;
        if (takes) idmap_set(forth ? &before : &after, of, i + 1);
    }
    return near;
}

NearWalk fuse_near_walk(const Near *near, uint32_t slot)
{
    return (NearWalk){near, near->before[slot], near->after[slot], NEAR_TRIES};
}

bool fuse_near_next(NearWalk *w, uint32_t *slot)
{
    if (!w->left || (!w->before && !w->after)) return false;
    bool back = w->before && (w->left % 2 || !w->after);
    uint32_t at = (back ? w->before : w->after) - 1;
    if (back)
        w->before = w->near->before[at];
    else
        w->after = w->near->after[at];
    w->left--;
    *slot = at;
    return true;
}
