// netc prelude, C: transposes short rows, so that vectors run across rows.

#if defined __clang__
#define NC_PICK(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define NC_PICK(V, a, b, ...) __builtin_shuffle(a, b, (V){__VA_ARGS__})
#endif
#define NC_LOW_2(V, a, b)  NC_PICK(V, a, b, 0, 2)
#define NC_HIGH_2(V, a, b) NC_PICK(V, a, b, 1, 3)
#define NC_LOW_4(V, a, b)  NC_PICK(V, a, b, 0, 4, 1, 5)
#define NC_HIGH_4(V, a, b) NC_PICK(V, a, b, 2, 6, 3, 7)
#define NC_LOW_8(V, a, b)  NC_PICK(V, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define NC_HIGH_8(V, a, b) NC_PICK(V, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define NC_LOW_16(V, a, b)                                                                         \
    NC_PICK(V, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define NC_HIGH_16(V, a, b)                                                                        \
    NC_PICK(V, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

// to[c * apart + r] = from[r * pitch + c], by blocks of N x N words; those at the edges overlap the
// ones before. Word by word if there are fewer than N rows or columns. A block is transposed in
// log2 N rounds, whose loops are unrolled.
#define NC_TURN(bits, N)                                                                           \
    typedef uint##bits##_t nc_word_##bits __attribute__((may_alias));                              \
    typedef uint##bits##_t nc_words_##bits                                                         \
        __attribute__((vector_size(N * bits / 8), aligned(bits / 8), may_alias));                  \
    NC_FN void nc_turn_block_##bits(const nc_word_##bits *from, long pitch, nc_word_##bits *to,    \
                                    long apart)                                                    \
    {                                                                                              \
        nc_words_##bits x[N], y[N];                                                                \
        NC_PRAGMA(GCC unroll 16)                                                                    \
        for (int i = 0; i < N; i++) x[i] = *(const nc_words_##bits *)(from + i * pitch);           \
        NC_PRAGMA(GCC unroll 16)                                                                    \
        for (int round = 1; round < N; round *= 2) {                                               \
            NC_PRAGMA(GCC unroll 16)                                                                \
            for (int i = 0; i < N / 2; i++) {                                                      \
                y[2 * i] = NC_LOW_##N(nc_words_##bits, x[i], x[i + N / 2]);                        \
                y[2 * i + 1] = NC_HIGH_##N(nc_words_##bits, x[i], x[i + N / 2]);                   \
            }                                                                                      \
            NC_PRAGMA(GCC unroll 16)                                                                \
            for (int i = 0; i < N; i++) x[i] = y[i];                                               \
        }                                                                                          \
        NC_PRAGMA(GCC unroll 16)                                                                    \
        for (int i = 0; i < N; i++) *(nc_words_##bits *)(to + i * apart) = x[i];                   \
    }                                                                                              \
    __attribute__((unused)) NC_BODY void nc_turn_##bits(const void *rows_at, long pitch,           \
                                                        long rows, long cols, void *to_at,         \
                                                        long apart)                                \
    {                                                                                              \
        const nc_word_##bits *const from = rows_at;                                                \
        nc_word_##bits *const to = to_at;                                                          \
        for (long i = 0; i < rows && rows >= N && cols >= N; i += N)                               \
            for (long k = 0; k < cols; k += N) {                                                   \
                const long r = i + N > rows ? rows - N : i, c = k + N > cols ? cols - N : k;       \
                nc_turn_block_##bits(from + r * pitch + c, pitch, to + c * apart + r, apart);      \
            }                                                                                      \
        for (long r = 0; r < rows && (rows < N || cols < N); r++)                                  \
            for (long c = 0; c < cols; c++) to[c * apart + r] = from[r * pitch + c];               \
    }
NC_TURN(64, 2)
NC_TURN(32, 4)
NC_TURN(16, 8)
NC_TURN(8, 16)
