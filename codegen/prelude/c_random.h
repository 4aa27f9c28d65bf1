// netc prelude, C: the random words of neighbouring elements, the same as nc_random's. A vector has
// four of them, in lanes of 64 bits: so products of 64 bits need no rearrangement of operands or
// results.

typedef uint64_t nc_wide __attribute__((vector_size(32), may_alias));
// The products of the low halves of the lanes of a and c. (A macro, because on processors without such
// vectors calling conventions differ.)
#if defined __AVX2__ && !defined __clang__ // gcc does not see that the masked high halves are 0
typedef int nc_halves __attribute__((vector_size(32)));
#define NC_LOW_TIMES(a, c) ((nc_wide)__builtin_ia32_pmuludq256((nc_halves)(a), (nc_halves)(c)))
#else
#define NC_LOW_TIMES(a, c) (((a) & 0xffffffffu) * (c))
#endif
// to[i] = nc_random(seed, count, number, first + i, lane) for i < n. (The high halves of the lanes
// are not cleared.)
__attribute__((unused)) NC_BODY void nc_randoms(uint32_t *to, long n, int64_t seed, int64_t count,
                                                int64_t number, uint64_t first, int lane)
{
    enum { VECTORS = 2, WORDS = 4 * VECTORS };
    const uint64_t site = (uint64_t)number, m0 = 0xD2511F53u, m1 = 0xCD9E8D57u;
    const nc_wide by0 = {m0, m0, m0, m0}, by1 = {m1, m1, m1, m1};
    long i = 0;
    for (; i + WORDS <= n; i += WORDS) {
        uint32_t k0 = (uint32_t)(uint64_t)seed ^ 0x9E3779B9u * (uint32_t)((uint64_t)count >> 32),
                 k1 = (uint32_t)((uint64_t)seed >> 32) ^ (uint32_t)(site >> 32);
        nc_wide c[4][VECTORS];
        NC_PRAGMA(GCC unroll 2)
        for (int v = 0; v < VECTORS; v++) {
            const uint64_t at = first + (uint64_t)i + 4 * (uint64_t)v, low = (uint64_t)count;
            c[0][v] = (nc_wide){at, at + 1, at + 2, at + 3};
            c[1][v] = c[0][v] >> 32;
            c[2][v] = (nc_wide){low, low, low, low};
            c[3][v] = (nc_wide){site, site, site, site};
        }
        NC_PRAGMA(GCC unroll 10)
        for (int round = 0; round < 10; round++) {
            NC_PRAGMA(GCC unroll 2)
            for (int v = 0; v < VECTORS; v++) {
                const nc_wide p0 = NC_LOW_TIMES(c[0][v], by0),
                              p1 = NC_LOW_TIMES(c[2][v], by1);
                c[0][v] = p1 >> 32 ^ c[1][v] ^ k0;
                c[1][v] = p1;
                c[2][v] = p0 >> 32 ^ c[3][v] ^ k1;
                c[3][v] = p0;
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        NC_PRAGMA(GCC unroll 2)
        for (int v = 0; v < VECTORS; v++) {
            const nc_wide word = lane == 0   ? c[0][v]
                                 : lane == 1 ? c[1][v]
                                 : lane == 2 ? c[2][v]
                                             : c[3][v];
            uint64_t words[4];
            memcpy(words, &word, sizeof words);
            NC_PRAGMA(GCC unroll 4)
            for (int k = 0; k < 4; k++) to[i + 4 * v + k] = (uint32_t)words[k];
        }
    }
    for (; i < n; i++) to[i] = nc_random(seed, count, number, first + (uint64_t)i, lane);
}
