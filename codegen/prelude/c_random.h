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
// to[i] = nc_random(seed, count, number, first + i, bits, lane) for i < n, 0 where first + i is negative
// (what pad adds, which nothing takes); below, one function for each number of bits. (The high halves of
// the vectors' lanes are not cleared.)
__attribute__((always_inline)) static inline void nc_randoms(uint32_t *to, long n, int64_t seed,
                                                             int64_t count, int64_t number,
                                                             uint64_t first, int bits, int lane)
{
    enum { VECTORS = 2 };              // at a time
    const int share = 128 / bits,      // elements of a block,
        each = 4 * share;              // and of the four blocks of a vector
    const uint64_t site = (uint64_t)number, m0 = 0xD2511F53u, m1 = 0xCD9E8D57u;
    const nc_wide by0 = {m0, m0, m0, m0}, by1 = {m1, m1, m1, m1};
    uint32_t edge[VECTORS * 32];
    for (; (int64_t)first < 0 && n > 0; first++, n--) *to++ = 0;
    for (uint64_t at = first - first % (uint64_t)each; at < first + (uint64_t)n;
         at += (uint64_t)(VECTORS * each)) {
        uint32_t k0 = (uint32_t)(uint64_t)seed ^ 0x9E3779B9u * (uint32_t)((uint64_t)count >> 32),
                 k1 = (uint32_t)((uint64_t)seed >> 32) ^ (uint32_t)(site >> 32);
        nc_wide c[4][VECTORS];
        NC_PRAGMA(GCC unroll 2)
        for (int v = 0; v < VECTORS; v++) {
            const uint64_t block = at / (uint64_t)share + 4 * (uint64_t)v, low = (uint64_t)count;
            c[0][v] = (nc_wide){block, block + 1, block + 2, block + 3};
            c[1][v] = c[0][v] >> 32;
            c[2][v] = (nc_wide){low, low, low, low};
            c[3][v] = (nc_wide){site, site, site, site};
        }
        NC_PRAGMA(GCC unroll 10)
        for (int round = 0; round < (bits > 16 ? 10 : 7); round++) {
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
        const uint64_t end = at + (uint64_t)(VECTORS * each);
        const int whole = at >= first && end <= first + (uint64_t)n;
        uint32_t *out = whole ? to + (at - first) : edge;
        NC_PRAGMA(GCC unroll 2)
        for (int v = 0; v < VECTORS; v++) {
            uint64_t pairs[4][4]; // two draws of each of the four blocks, a share of 2 or more
            NC_PRAGMA(GCC unroll 4)
            for (int k = 0; k < 4; k++) {
                nc_wide both = c[k][v];
                if (bits == 16)
                    both = (both & 0xffffu) | (both << 16 & 0xffff00000000u);
                else if (bits == 32)
                    both = (c[k % 2 * 2][v] & 0xffffffffu) | c[k % 2 * 2 + 1][v] << 32;
                else if (bits == 64 && lane)
                    both = (c[1][v] & 0xffffffffu) | c[3][v] << 32;
                else if (bits == 64)
                    both = (c[0][v] & 0xffffffffu) | c[2][v] << 32;
                memcpy(pairs[k], &both, sizeof both);
            }
            for (int block = 0; block < 4; block++) {
                NC_PRAGMA(GCC unroll 4)
                for (int k = 0; k < share / 2; k++)
                    memcpy(out + v * each + block * share + 2 * k, &pairs[k][block], 8);
                if (share == 1) out[4 * v + block] = (uint32_t)pairs[lane][block];
            }
        }
        for (uint64_t i = at > first ? at : first; !whole && i < end && i < first + (uint64_t)n; i++)
            to[i - first] = edge[i - at];
    }
}
#define NC_RANDOMS(bits)                                                                           \
    __attribute__((unused)) NC_BODY void nc_randoms_##bits(uint32_t *to, long n, int64_t seed,      \
                                                           int64_t count, int64_t number,          \
                                                           uint64_t first, int lane)               \
    {                                                                                              \
        nc_randoms(to, n, seed, count, number, first, bits, lane);                                 \
    }
NC_RANDOMS(16)
NC_RANDOMS(32)
NC_RANDOMS(64)
NC_RANDOMS(128)
