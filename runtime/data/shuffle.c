// The order of examples in an epoch.
#include "runtime/data.h"

// splitmix64: a mixing function applied to a counter.
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Uniform in 0..n without bias: the high word of a product, redrawn in the cases that would cause a
// bias.
static uint64_t below(uint64_t *state, uint64_t n)
{
    for (;;) {
        __uint128_t product = (__uint128_t)next(state) * n;
        if ((uint64_t)product >= -n % n) return (uint64_t)(product >> 64);
    }
}

static uint64_t begin(int64_t seed, int64_t epoch)
{
    uint64_t state = (uint64_t)seed;
    return next(&state) ^ (uint64_t)epoch * 0xd1342543de82ef95u;
}

void rt_draw_rows(int32_t *rows, int64_t n, int64_t count, int64_t seed, int64_t epoch)
{
    uint64_t state = begin(seed, epoch);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)below(&state, (uint64_t)count);
}

void rt_shuffle(int32_t *rows, int64_t n, int64_t seed, int64_t epoch)
{
    uint64_t state = begin(seed, epoch);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)below(&state, (uint64_t)i + 1);
        int32_t t = rows[i];
        rows[i] = rows[k];
        rows[k] = t;
    }
}
