// A blocked matmul, included once an element type with T, V (a vector of T), NAME and FMA_NAME set.
// No include guard on purpose. A panel of B (KC by N_R columns) and of A (M_R rows by KC) are
// packed so that the inner loop reads both in order.
enum { NAME(M_R) = 6, NAME(LANES) = sizeof(V) / sizeof(T), NAME(N_R) = 2 * sizeof(V) / sizeof(T) };

static inline __attribute__((always_inline)) void
NAME(block)(const T *pa, const T *pb, int64_t k, T *c, int64_t ldc, int64_t m, int64_t n, bool add)
{
    V acc[NAME(M_R)][2] = {0};
    for (int64_t p = 0; p < k; p++) {
        V b0, b1;
        memcpy(&b0, pb, sizeof b0);
        memcpy(&b1, pb + NAME(LANES), sizeof b1);
#pragma GCC unroll 8
        for (int i = 0; i < NAME(M_R); i++) {
            acc[i][0] += pa[i] * b0;
            acc[i][1] += pa[i] * b1;
        }
        pa += NAME(M_R);
        pb += NAME(N_R);
    }
    T out[NAME(M_R)][NAME(N_R)];
#pragma GCC unroll 8
    for (int i = 0; i < NAME(M_R); i++) memcpy(out[i], acc[i], sizeof out[i]);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + out[i][j] : out[i][j];
}

static inline __attribute__((always_inline)) void NAME(all)(bool ta, bool tb, int64_t m, int64_t n,
                                                            int64_t k, const T *a, int64_t lda,
                                                            const T *b, int64_t ldb, T *c,
                                                            int64_t ldc, T *scratch)
{
    T *pa = scratch, *pb = scratch + OWN_MC * OWN_KC;
    int64_t a_row = ta ? 1 : lda, a_col = ta ? lda : 1, b_row = tb ? 1 : ldb, b_col = tb ? ldb : 1;
    for (int64_t i = 0; i < m && !k; i++) memset(c + i * ldc, 0, (size_t)n * sizeof(T));
    for (int64_t p0 = 0; p0 < k; p0 += OWN_KC) {
        int64_t kc = k - p0 < OWN_KC ? k - p0 : OWN_KC;
        for (int64_t i0 = 0; i0 < m; i0 += OWN_MC) {
            int64_t mc = m - i0 < OWN_MC ? m - i0 : OWN_MC;
            T *to = pa;
            for (int64_t i = 0; i < mc; i += NAME(M_R))
                for (int64_t p = 0; p < kc; p++)
                    for (int64_t r = 0; r < NAME(M_R); r++)
                        *to++ = i + r < mc ? a[(i0 + i + r) * a_row + (p0 + p) * a_col] : 0;
            for (int64_t j = 0; j < n; j += NAME(N_R)) {
                int64_t nr = n - j < NAME(N_R) ? n - j : NAME(N_R);
                for (int64_t p = 0; p < kc; p++)
                    for (int64_t r = 0; r < NAME(N_R); r++)
                        pb[p * NAME(N_R) + r] = r < nr ? b[(p0 + p) * b_row + (j + r) * b_col] : 0;
                for (int64_t i = 0; i < mc; i += NAME(M_R)) {
                    int64_t mr = mc - i < NAME(M_R) ? mc - i : NAME(M_R);
                    NAME(block)(pa + i * kc, pb, kc, c + (i0 + i) * ldc + j, ldc, mr, nr, p0 > 0);
                }
            }
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void NAME(avx2)(bool ta, bool tb, int64_t m, int64_t n,
                                                           int64_t k, const T *a, int64_t lda,
                                                           const T *b, int64_t ldb, T *c,
                                                           int64_t ldc, T *scratch)
{
    NAME(all)(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, scratch);
}
#endif

static void NAME(run)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda,
                      const T *b, int64_t ldb, T *c, int64_t ldc, T *scratch)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        NAME(avx2)(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, scratch);
        return;
    }
#endif
    NAME(all)(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, scratch);
}
