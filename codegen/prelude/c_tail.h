NC_FN float nc_erf_f(float a)
{
    float x = a > 4 ? 4 : a;
    x = x < -4 ? -4 : x;
    float z = x * x;
    NC_ERF(p, q, z)
    return x * (p / q);
}

// Names without a suffix select the function by the operand's type.
#define NC_FLOAT(a, f)     _Generic((a), float : f##_f, double : f##_d)(a)
#define NC_FLOAT2(a, b, f) _Generic((a), float : f##_f, double : f##_d)(a, b)
#define NC_ANY(a, f)                                                                               \
    _Generic((a), float                                                                            \
             : f##_f, double                                                                       \
             : f##_d, int32_t                                                                      \
             : f##_i, uint32_t                                                                     \
             : f##_u, int64_t                                                                      \
             : f##_l)(a)
#define NC_ANY2(a, b, f)                                                                           \
    _Generic((a), float                                                                            \
             : f##_f, double                                                                       \
             : f##_d, int32_t                                                                      \
             : f##_i, uint32_t                                                                     \
             : f##_u, int64_t                                                                      \
             : f##_l)(a, b)
#define NC_INT2(a, b, f)  _Generic((a), int32_t : f##_i, uint32_t : f##_u, int64_t : f##_l)(a, b)
#define nc_exp(a)         NC_FLOAT(a, nc_exp)
#define nc_expm1(a)       NC_FLOAT(a, nc_expm1)
#define nc_log(a)         NC_FLOAT(a, nc_log)
#define nc_log1p(a)       NC_FLOAT(a, nc_log1p)
#define nc_sin(a)         NC_FLOAT(a, nc_sin)
#define nc_cos(a)         NC_FLOAT(a, nc_cos)
#define nc_sin_called(a)  NC_FLOAT(a, nc_sin_called)
#define nc_cos_called(a)  NC_FLOAT(a, nc_cos_called)
#define nc_tanh(a)        NC_FLOAT(a, nc_tanh)
#define nc_erf(a)         NC_FLOAT(a, nc_erf)
#define nc_sigmoid(a)     NC_FLOAT(a, nc_sigmoid)
#define nc_sqrt(a)        NC_FLOAT(a, nc_sqrt)
#define nc_rsqrt(a)       NC_FLOAT(a, nc_rsqrt)
#define nc_floor(a)       NC_FLOAT(a, nc_floor)
#define nc_ceil(a)        NC_FLOAT(a, nc_ceil)
#define nc_round(a)       NC_FLOAT(a, nc_round)
#define nc_ufp(a)         NC_FLOAT(a, nc_ufp)
#define nc_isfinite(a)    NC_FLOAT(a, nc_isfinite)
#define nc_div(a, b)      ((a) / (b))
#define nc_fma(a, b, c)   _Generic((a), float : nc_fma_f, double : nc_fma_d)(a, b, c)
#define nc_pow(a, b)      NC_FLOAT2(a, b, nc_pow)
#define nc_abs(a)         NC_ANY(a, nc_abs)
#define nc_sign(a)        NC_ANY(a, nc_sign)
#define nc_min(a, b)      NC_ANY2(a, b, nc_min)
#define nc_max(a, b)      NC_ANY2(a, b, nc_max)
// For a positive constant divisor it suffices to test whether the remainder is negative.
#define NC_BY(T, s)                                                                                \
    NC_FN T nc_mod_by_##s(T a, T b)                                                                \
    {                                                                                              \
        T r = a % b;                                                                               \
        return r + (b & -(T)(r < 0));                                                              \
    }                                                                                              \
    NC_FN T nc_floordiv_by_##s(T a, T b) { return a / b - (a % b < 0); }
NC_BY(int32_t, i)
NC_BY(int64_t, l)
#define nc_mod_by_f        nc_mod_f
#define nc_mod_by_d        nc_mod_d
#define nc_mod_by_u        nc_mod_u
#define nc_floordiv_by_f   nc_floordiv_f
#define nc_floordiv_by_d   nc_floordiv_d
#define nc_floordiv_by_u   nc_floordiv_u
#define NC_WHOLE(a, b, f)                                                                          \
    (__builtin_constant_p(b) && (b) > 0 ? NC_ANY2(a, b, f##_by) : NC_ANY2(a, b, f))
#define nc_floordiv(a, b) NC_WHOLE(a, b, nc_floordiv)
#define nc_mod(a, b)      NC_WHOLE(a, b, nc_mod)
#define nc_stays(a, b)    NC_FLOAT2(a, b, nc_stays)
#define nc_order(a)       NC_FLOAT(a, nc_order)
#define nc_either(m, a, b) _Generic((a), float : nc_either_f, double : nc_either_d)(m, a, b)
#define nc_in_order(k)    _Generic((k), int32_t : nc_in_order_f, int64_t : nc_in_order_d)(k)
#define nc_shl(a, b)      NC_INT2(a, b, nc_shl)
#define nc_shr(a, b)      NC_INT2(a, b, nc_shr)
#define nc_to_i32(a)      NC_FLOAT(a, nc_to_i32)
#define nc_to_u32(a)      NC_FLOAT(a, nc_to_u32)
#define nc_to_i64(a)      NC_FLOAT(a, nc_to_i64)
#define nc_to_u8(a)       NC_FLOAT(a, nc_to_u8)

// Quotient and remainder of index expressions, which are never negative.
#define nc_quo(a, b) ((long)((unsigned long)(a) / (b##ul)))
#define nc_rem(a, b) ((long)((unsigned long)(a) % (b##ul)))

// max and min as reductions of vectorised loops (OpenMP); NaN wins.
#define NC_PRAGMA(x) _Pragma(#x)
#define NC_REDUCTION(T, s, low, high)                                                              \
    NC_PRAGMA(omp declare reduction(nc_rmax:T                                                      \
                                    : omp_out = nc_max_##s(omp_out, omp_in))                       \
                  initializer(omp_priv = low))                                                     \
    NC_PRAGMA(omp declare reduction(nc_rmin:T                                                      \
                                    : omp_out = nc_min_##s(omp_out, omp_in))                       \
                  initializer(omp_priv = high))
NC_REDUCTION(float, f, -__builtin_inff(), __builtin_inff())
NC_REDUCTION(double, d, -__builtin_inf(), __builtin_inf())
NC_REDUCTION(int32_t, i, INT32_MIN, INT32_MAX)
NC_REDUCTION(uint32_t, u, 0, UINT32_MAX)
NC_REDUCTION(int64_t, l, INT64_MIN, INT64_MAX)

// Argmax over n lanes, into the first lane: of equal values, and of NaNs, the first place.
#define NC_JOIN_PLACES(T, M, s)                                                                    \
    __attribute__((unused)) static void nc_join_places_##s(T *best, int32_t *place, long n)        \
    {                                                                                              \
        for (; n > 1; n = (n + 1) / 2)                                                             \
            for (long k = 0; k < n / 2; k++) {                                                     \
                const long other = (n + 1) / 2 + k;                                                \
                const T a = best[k], b = best[other];                                              \
                const M less = -(M)(place[other] < place[k]),                                      \
                        same = -(M)(a == b) | (-(M)(a != a) & -(M)(b != b)),                       \
                        take = (same & less) | (~same & ~nc_stays_##s(a, b));                      \
                best[k] = nc_either_##s(take, b, a);                                               \
                place[k] = nc_either_i((int32_t)take, place[other], place[k]);                     \
            }                                                                                      \
    }
NC_JOIN_PLACES(float, int32_t, f)
NC_JOIN_PLACES(double, int64_t, d)
#define nc_join_places(best, place, n)                                                             \
    _Generic((best), float * : nc_join_places_f, double * : nc_join_places_d)(best, place, n)

// Adds n products to each sum of a tile of four rows by two vectors: left[k][row] * right[k][column].
// Only here may compilers contract products and sums, if the processor has an instruction for it, because
// C has no fma of vectors.
#if defined __clang__
#define NC_ONE_OPERATION
#define NC_CONTRACTS _Pragma("clang fp contract(fast)")
#else
#define NC_ONE_OPERATION __attribute__((optimize("fp-contract=fast")))
#define NC_CONTRACTS
#endif
// The width of the processor's vectors: gcc keeps wider ones in memory, at a twentieth of the speed.
#if defined __AVX512F__
#define NC_WIDTH 64
#elif defined __AVX__
#define NC_WIDTH 32
#else
#define NC_WIDTH 16
#endif
#define NC_TILE(T, s)                                                                              \
    typedef T nc_vector_##s __attribute__((vector_size(64), may_alias));                           \
    typedef T nc_part_##s __attribute__((vector_size(NC_WIDTH), may_alias));                       \
    __attribute__((unused)) NC_ONE_OPERATION NC_BODY void nc_tile_##s(                             \
        nc_vector_##s *sums, const T *left, long rows, const T *right, long n)                     \
    {                                                                                              \
        NC_CONTRACTS                                                                               \
        enum { parts = 128 / NC_WIDTH }; /* of a row */                                            \
        for (int first = 0; first < parts; first += 2) {                                           \
            nc_part_##s acc[4][2], *const at = (nc_part_##s *)sums + first;                        \
            const nc_part_##s *y = (const nc_part_##s *)right + first;                             \
            const T *x = left;                                                                     \
            for (int i = 0; i < 4; i++) memcpy(acc[i], at + i * parts, sizeof acc[i]);             \
            for (long k = 0; k < n; k++, x += rows, y += parts) {                                  \
                acc[0][0] += x[0] * y[0];                                                          \
                acc[0][1] += x[0] * y[1];                                                          \
                acc[1][0] += x[1] * y[0];                                                          \
                acc[1][1] += x[1] * y[1];                                                          \
                acc[2][0] += x[2] * y[0];                                                          \
                acc[2][1] += x[2] * y[1];                                                          \
                acc[3][0] += x[3] * y[0];                                                          \
                acc[3][1] += x[3] * y[1];                                                          \
            }                                                                                      \
            for (int i = 0; i < 4; i++) memcpy(at + i * parts, acc[i], sizeof acc[i]);             \
        }                                                                                          \
    }

// Sums of n products each, of some rows (at sums, [pitch] apart) by W columns: row[r][at[k]] * right[k * step +
// column], added to the old sums if [more]. The left operand is read in place; the number of rows depends on
// the registers (NC_ROWS_OF_16_f etc.). R: rows, V: vectors of a row that are summed at a time, [bytes]: of a
// vector.
#define NC_ROW(r)                                                                                  \
    for (int v = 0; v < (int)(sizeof acc[r] / sizeof *y); v++) acc[r][v] += x##r[o] * y[v];
#define NC_SIX_ROWS   NC_ROW(0) NC_ROW(1) NC_ROW(2) NC_ROW(3) NC_ROW(4) NC_ROW(5)
#define NC_EIGHT_ROWS NC_SIX_ROWS NC_ROW(6) NC_ROW(7)
#define NC_ROWS(name, T, W, bytes, R, V, STEP)                                                     \
    __attribute__((unused)) NC_ONE_OPERATION NC_BODY void name(                                    \
        T *sums, long pitch, bool more, const T *const *row, const long *at, const T *right,       \
        long step, long n)                                                                         \
    {                                                                                              \
        NC_CONTRACTS                                                                               \
        typedef T nc_some __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));      \
        const T *const x0 = row[0], *const x1 = row[1], *const x2 = row[2], *const x3 = row[3],    \
                *const x4 = row[4], *const x5 = row[5], *const x6 = row[R > 6 ? 6 : 0],            \
                *const x7 = row[R > 6 ? 7 : 0];                                                    \
        for (int c = 0; c < W; c += V * bytes / (int)sizeof(T)) {                                  \
            nc_some acc[R][V];                                                                     \
            memset(acc, 0, sizeof acc);                                                            \
            for (int r = 0; r < R && more; r++) memcpy(acc[r], sums + r * pitch + c, sizeof acc[r]);  \
            for (long k = 0; k < n; k++) {                                                         \
                const nc_some *y = (const nc_some *)(right + step * k + c);                        \
                const long o = at[k];                                                              \
                STEP                                                                               \
            }                                                                                      \
            for (int r = 0; r < R; r++) memcpy(sums + r * pitch + c, acc[r], sizeof acc[r]);       \
        }                                                                                          \
    }
#define NC_ROWS_OF_8_f 8
#define NC_ROWS_OF_4_d 8
NC_ROWS(nc_rows_8_f, float, 8, 32, 8, 1, NC_EIGHT_ROWS)
NC_ROWS(nc_rows_4_d, double, 4, 32, 8, 1, NC_EIGHT_ROWS)
#if defined __AVX512F__
#define NC_ROWS_OF_16_f 8
#define NC_ROWS_OF_8_d 8
#define NC_ROWS_OF_32_f 8
#define NC_ROWS_OF_16_d 8
NC_ROWS(nc_rows_16_f, float, 16, 64, 8, 1, NC_EIGHT_ROWS)
NC_ROWS(nc_rows_8_d, double, 8, 64, 8, 1, NC_EIGHT_ROWS)
NC_ROWS(nc_rows_32_f, float, 32, 64, 8, 2, NC_EIGHT_ROWS)
NC_ROWS(nc_rows_16_d, double, 16, 64, 8, 2, NC_EIGHT_ROWS)
#else
#define NC_ROWS_OF_16_f 6
#define NC_ROWS_OF_8_d 6
#define NC_ROWS_OF_32_f 6
#define NC_ROWS_OF_16_d 6
NC_ROWS(nc_rows_16_f, float, 16, 32, 6, 2, NC_SIX_ROWS)
NC_ROWS(nc_rows_8_d, double, 8, 32, 6, 2, NC_SIX_ROWS)
NC_ROWS(nc_rows_32_f, float, 32, 32, 6, 2, NC_SIX_ROWS)
NC_ROWS(nc_rows_16_d, double, 16, 32, 6, 2, NC_SIX_ROWS)
#endif

// Four columns of eight rows, where rows of the left operand are contiguous: a vector has the four columns of
// several rows.
#define NC_ROWS_OF_4_f 8
#if defined __AVX__
typedef float nc_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float nc_fours __attribute__((vector_size(NC_WIDTH), aligned(4), may_alias));
typedef int nc_fours_at __attribute__((vector_size(NC_WIDTH)));
// In assembly, because compilers do not make one instruction of either.
#if defined __AVX512F__
#define NC_TO_ALL     "vbroadcastf32x4 %1, %0"
#define NC_TO_LANE(l) "vinsertf32x4 $" #l ", %1, %0, %0"
#define NC_LANES(i)   i, i, i, i, i + 4, i + 4, i + 4, i + 4, i + 8, i + 8, i + 8, i + 8, i + 12, i + 12, i + 12, i + 12
#else
#define NC_TO_ALL     "vbroadcastf128 %1, %0"
#define NC_TO_LANE(l) "vinsertf128 $" #l ", %1, %0, %0"
#define NC_LANES(i)   i, i, i, i, i + 4, i + 4, i + 4, i + 4
#endif
#if defined __clang__
#define NC_OF_LANES(x, i) __builtin_shufflevector(x, x, NC_LANES(i))
#else
#define NC_OF_LANES(x, i) __builtin_shuffle(x, (nc_fours_at){NC_LANES(i)})
#endif
NC_FN nc_fours nc_to_all(const float *a)
{
    nc_fours x;
    __asm__(NC_TO_ALL : "=v"(x) : "m"(*(const nc_four *)a));
    return x;
}
NC_FN nc_fours nc_lanes_of(const float *const *row, long at)
{
    nc_fours x = nc_to_all(row[0] + at);
    __asm__(NC_TO_LANE(1) : "+v"(x) : "m"(*(const nc_four *)(row[1] + at)));
#if NC_WIDTH == 64
    __asm__(NC_TO_LANE(2) : "+v"(x) : "m"(*(const nc_four *)(row[2] + at)));
    __asm__(NC_TO_LANE(3) : "+v"(x) : "m"(*(const nc_four *)(row[3] + at)));
#endif
    return x;
}
__attribute__((unused)) NC_ONE_OPERATION NC_BODY void nc_rows_4_f(
    float *sums, long pitch, bool more, const float *const *row, const long *at, const float *right,
    long step, long n)
{
    NC_CONTRACTS
    enum { ROWS = NC_WIDTH / 16, VECTORS = 8 / ROWS };
    const float *const x[8] = {row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]};
    nc_fours acc[VECTORS][2];
    float all[8][4];
    memset(acc, 0, sizeof acc);
    long k = 0;
    for (; k + 4 <= n; k += 4) {
        const nc_fours y0 = nc_to_all(right + step * k), y1 = nc_to_all(right + step * (k + 1)),
                       y2 = nc_to_all(right + step * (k + 2)), y3 = nc_to_all(right + step * (k + 3));
        NC_PRAGMA(GCC unroll 4)
        for (int v = 0; v < VECTORS; v++) {
            const nc_fours a = nc_lanes_of(x + v * ROWS, at[0] + k);
            acc[v][0] += NC_OF_LANES(a, 0) * y0;
            acc[v][1] += NC_OF_LANES(a, 1) * y1;
            acc[v][0] += NC_OF_LANES(a, 2) * y2;
            acc[v][1] += NC_OF_LANES(a, 3) * y3;
        }
    }
    NC_PRAGMA(GCC unroll 4)
    for (int v = 0; v < VECTORS; v++) {
        acc[v][0] += acc[v][1];
        memcpy(all[v * ROWS], &acc[v][0], sizeof acc[v][0]);
    }
    for (int r = 0; r < 8; r++) {
        nc_four sum, was = {0};
        memcpy(&sum, all[r], sizeof sum);
        for (long i = k; i < n; i++) sum += x[r][at[i]] * *(const nc_four *)(right + step * i);
        if (more) memcpy(&was, sums + r * pitch, sizeof was);
        sum += was;
        memcpy(sums + r * pitch, &sum, sizeof sum);
    }
}
#else
NC_ROWS(nc_rows_4_f, float, 4, 16, 8, 1, NC_EIGHT_ROWS)
#endif

NC_TILE(float, f)
NC_TILE(double, d)
NC_TILE(int32_t, i)
NC_TILE(uint32_t, u)
NC_TILE(int64_t, l)
