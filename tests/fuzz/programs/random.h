// Random numbers that are a function of a seed alone (splitmix64).
#ifndef PROGRAMS_RANDOM_H
#define PROGRAMS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Random {
    uint64_t state;
} Random;

static inline uint64_t random_next(Random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int random_below(Random *r, int n) // 0 <= result < n; n > 0
{
    return (int)((random_next(r) >> 33) % (uint64_t)n);
}
static inline bool random_chance(Random *r, int percent)
{
    return random_below(r, 100) < percent;
}
static inline double random_unit(Random *r) // in (0, 1)
{
    return ((double)(random_next(r) >> 11) + 0.5) * 0x1p-53;
}

#endif
