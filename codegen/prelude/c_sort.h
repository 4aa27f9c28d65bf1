// netc prelude, C: sorted rows. Keys are unsigned integers in the order of the values: NaN is last,
// -0 and 0 are equal.
NC_FN uint32_t nc_key_f(float a)
{
    uint32_t u = nc_bits(a);
    if (a != a) return UINT32_MAX;
    if (a == 0) u = 0;
    return u >> 31 ? ~u : u | 0x80000000u;
}
NC_FN uint64_t nc_key_d(double a)
{
    uint64_t u = nc_bits_d(a);
    if (a != a) return UINT64_MAX;
    if (a == 0) u = 0;
    return u >> 63 ? ~u : u | 0x8000000000000000ull;
}
NC_FN uint32_t nc_key_i(int32_t a) { return (uint32_t)a ^ 0x80000000u; }
NC_FN uint32_t nc_key_u(uint32_t a) { return a; }
NC_FN uint64_t nc_key_l(int64_t a) { return (uint64_t)a ^ 0x8000000000000000ull; }
#define nc_key(a) NC_ANY(a, nc_key)

// Sorts n keys, each with its original index; stable. A radix sort by bytes, from the last one, with a
// pass for each byte in which keys differ. Returns a or b, which has the same length.
#define NC_SORT(K, s)                                                                              \
    typedef struct NcPlace_##s {                                                                   \
        K key, from;                                                                               \
    } NcPlace_##s;                                                                                 \
    __attribute__((unused)) static NcPlace_##s *nc_sort_##s(NcPlace_##s *a, NcPlace_##s *b,        \
                                                            long n)                                \
    {                                                                                              \
        long count[sizeof(K)][256];                                                                \
        memset(count, 0, sizeof count);                                                            \
        for (long i = 0; i < n; i++)                                                               \
            for (unsigned k = 0; k < sizeof(K); k++) count[k][a[i].key >> 8 * k & 255]++;          \
        for (unsigned k = 0; k < sizeof(K); k++) {                                                 \
            if (count[k][a[0].key >> 8 * k & 255] == n) continue;                                  \
            for (long v = 0, at = 0; v < 256; v++) {                                               \
                long here = count[k][v];                                                           \
                count[k][v] = at;                                                                  \
                at += here;                                                                        \
            }                                                                                      \
            for (long i = 0; i < n; i++) b[count[k][a[i].key >> 8 * k & 255]++] = a[i];            \
            NcPlace_##s *other = a;                                                                \
            a = b;                                                                                 \
            b = other;                                                                             \
        }                                                                                          \
        return a;                                                                                  \
    }
NC_SORT(uint32_t, w)
NC_SORT(uint64_t, l)
