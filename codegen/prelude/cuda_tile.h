
// -- tiles of products (codegen/tile): how a warp loads operands from shared memory, multiplies them, and
// stores sums. g, t: the thread's number in the warp is 4 g + t; c: number of the step of the atom's columns.

// The position of 16-byte vector [part] of a line of f32: lines are contiguous, and their vectors are
// swizzled (by exclusive or), so that those that a warp reads at once are in different banks.
template <int Line, bool AlongK> NC_FN int nc_swizzled(int line, int part)
{
    return line * Line + (part ^ (AlongK ? line % 8 : line % 4 * 2)) * 4;
}

// The left operand of N products: 16 rows each from m on, 8 columns of f32. Lines along k are loaded as
// 8 x 4 matrices, in the product's own layout; from lines along m, rows 2 g and 2 g + 1 are loaded as a
// pair, so that a thread's sums are of these rows, not of g and g + 8.
template <int Line, bool AlongK, int N> NC_FN void nc_left_32(uint32_t (&x)[N][4], const float *tile, int m, int c)
{
    const int lane = threadIdx.x % 32;
    if constexpr (AlongK) {
#pragma unroll
        for (int i = 0; i < N; i++)
            nc_matrices4(x[i], tile + (m + i * 16 + lane % 16) * Line + ((c * 2 + lane / 16) ^ lane % 8) * 4);
    } else {
#pragma unroll
        for (int i = 0; i < 2 * N; i++) {
            const NcVec<float, 2> pair = nc_load<2>(tile + (c * 8 + i % 2 * 4 + lane % 4) * Line +
                                                    ((m / 4 + i / 2 * 4 + lane / 8) ^ lane % 4 * 2) * 4 + lane / 4 % 2 * 2);
            x[i / 2][i % 2 * 2] = nc_bits(pair.at[0]);
            x[i / 2][i % 2 * 2 + 1] = nc_bits(pair.at[1]);
        }
    }
}

// The right operand of N products: 8 rows each from n on, 8 columns of f32 (N even). (With the address
// written in an equivalent form, NVRTC 13.0 generates up to a seventh more instructions per step.)
template <int Line, bool AlongK, int N> NC_FN void nc_right_32(uint32_t (&y)[N][2], const float *tile, int n, int c)
{
    const int lane = threadIdx.x % 32;
    if constexpr (AlongK) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
            nc_matrices4(y[i], tile + (n + i * 8 + lane / 16 * 8 + lane % 8) * Line + ((c * 2 + lane / 8 % 2) ^ lane % 8) * 4);
    } else {
#pragma unroll
        for (int i = 0; i < 2 * N; i++)
            y[i / 2][i % 2] = nc_bits(*(tile + (c * 8 + lane % 4) * Line + i % 2 * 4 * Line +
                                        ((n / 4 + i / 2 * 2 + lane / 16) ^ lane % 4 * 2) * 4 + lane / 4 % 4));
    }
}

// The same for 16-bit elements, 16 columns: matrices from lines along k, transposed ones from others.
template <int Pitch, bool AlongK, int N> NC_FN void nc_left_16(uint32_t (&x)[N][4], const uint16_t *tile, int m, int c)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++)
        if constexpr (AlongK)
            nc_matrices4(x[i], tile + (m + i * 16 + lane % 16) * Pitch + c * 16 + lane / 16 * 8);
        else
            nc_turned4(x[i], tile + (c * 16 + lane / 16 * 8 + lane % 8) * Pitch + m + i * 16 + lane / 8 % 2 * 8);
}

template <int Pitch, bool AlongK, int N> NC_FN void nc_right_16(uint32_t (&y)[N][2], const uint16_t *tile, int n, int c)
{
    const int lane = threadIdx.x % 32;
    n += N > 1 ? lane / 16 * 8 : 0; // four matrices are two products' operands, two matrices one's
#pragma unroll
    for (int j = 0; j < N; j += 2)
        if constexpr (AlongK) {
            const uint16_t *const p = tile + (n + j * 8 + lane % 8) * Pitch + c * 16 + lane / 8 % 2 * 8;
            if constexpr (N > 1) nc_matrices4(y[j], p); else nc_matrices2(y[j], p);
        } else {
            const uint16_t *const p = tile + (c * 16 + lane / 8 % 2 * 8 + lane % 8) * Pitch + n + j * 8;
            if constexpr (N > 1) nc_turned4(y[j], p); else nc_turned2(y[j], p);
        }
}

// acc += x y, for all pairs of a warp's left and right operands.
template <int M, int N> NC_FN void nc_multiply_b(float (&acc)[M][N][4], uint32_t (&x)[M][4], uint32_t (&y)[N][2])
{
#pragma unroll
    for (int i = 0; i < M * N; i++) nc_mma_b(acc[i / N][i % N], x[i / N], y[i % N]);
}

template <int M, int N> NC_FN void nc_multiply_h(float (&acc)[M][N][4], uint32_t (&x)[M][4], uint32_t (&y)[N][2])
{
#pragma unroll
    for (int i = 0; i < M * N; i++) nc_mma_h(acc[i / N][i % N], x[i / N], y[i % N]);
}

template <int M, int N> NC_FN void nc_multiply_tf32(float (&acc)[M][N][4], uint32_t (&x)[M][4], uint32_t (&y)[N][2])
{
#pragma unroll
    for (int i = 0; i < M; i++) nc_round_tf32(x[i]);
#pragma unroll
    for (int i = 0; i < N; i++) nc_round_tf32(y[i]);
#pragma unroll
    for (int i = 0; i < M * N; i++) nc_mma_tf32(acc[i / N][i % N], x[i / N], y[i % N]);
}

template <int M, int N> NC_FN void nc_multiply_f32(float (&acc)[M][N][4], uint32_t (&x)[M][4], uint32_t (&y)[N][2])
{
#pragma unroll
    for (int i = 0; i < M * N; i++) nc_mma_f32(acc[i / N][i % N], x[i / N], y[i % N]);
}

// Stores 16 rows of a warp's sums, Pitch apart. Pairs: a thread has rows 2 g, 2 g + 1 (nc_left_32).
template <int Pitch, bool Pairs = false, int N> NC_FN void nc_put_strip(float *to, const float (&acc)[N][4])
{
    const int lane = threadIdx.x % 32;
    to += lane / 4 * (Pairs ? 2 : 1) * Pitch + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * N; i++) {
        const NcVec<float, 2> v = {acc[i / 2][i % 2 * 2], acc[i / 2][i % 2 * 2 + 1]};
        nc_store<2>(to + i % 2 * (Pairs ? 1 : 8) * Pitch + i / 2 * 8, v);
    }
}

template <int Pitch, bool Pairs, int M, int N> NC_FN void nc_put_sums(float *to, const float (&acc)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; m++) nc_put_strip<Pitch, Pairs>(to + m * 16 * Pitch, acc[m]);
}

// Adds, in a fixed order, the partial sums of all that divide the columns: Share warps, whose sums are
// Apart elements apart, of each of the Blocks of the cluster from number [first] on.
template <int Share, int Blocks, int Apart> NC_FN NcVec<float, 4> nc_joined(const float *p, int first)
{
    NcVec<float, 4> sum = {};
#pragma unroll
    for (int w = 0; w < Share * Blocks; w++) {
        const float *from = p + w % Share * Apart;
        if constexpr (Blocks > 1) from = nc_of_block(from, first + w / Share);
        const NcVec<float, 4> more = nc_load<4>(from);
#pragma unroll
        for (int v = 0; v < 4; v++) sum.at[v] = sum.at[v] + more.at[v];
    }
    return sum;
}

// -- products without tensor cores: tiles with a line for each of K columns, of elements of any type
template <class T> NC_FN T nc_plus_product(T acc, T x, T y)
{
    if constexpr (T(0.5f) != T(0)) return nc_fma(x, y, acc); // for floats
    else return x * y + acc;
}

// The row or column of element i of a thread's square, which consists of W x W squares, 16 W apart.
template <int W> NC_FN int nc_in_square(int i, int thread) { return i / W * (16 * W) + thread * W + i % W; }

template <int K, int Left, int Right, int Each, class T>
NC_FN void nc_multiply_square(T (&acc)[Each][Each], const T *left, const T *right)
{
    constexpr int W = Each < 4 ? Each : 4;
#pragma unroll
    for (int k = 0; k < K; k++) {
        T x[Each], y[Each];
#pragma unroll
        for (int i = 0; i < Each; i++) {
            x[i] = left[k * Left + nc_in_square<W>(i, threadIdx.x / 16)];
            y[i] = right[k * Right + nc_in_square<W>(i, threadIdx.x % 16)];
        }
#pragma unroll
        for (int i = 0; i < Each; i++)
#pragma unroll
            for (int j = 0; j < Each; j++) acc[i][j] = nc_plus_product(acc[i][j], x[i], y[j]);
    }
}

// Each of eight warps has every eighth column (k), and a thread 4 x 2 of the 16 x 16 sums. nc_put_shared
// stores all warps' sums, nc_joined_shared adds those of one result per thread, in the order of warps.
template <int K, int Left, int Right, class T>
NC_FN void nc_multiply_shared(T (&acc)[8], const T *left, const T *right)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 8
    for (int k = warp; k < K; k += 8) {
        T x[4], y[2];
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = left[k * Left + lane / 8 * 4 + i];
#pragma unroll
        for (int j = 0; j < 2; j++) y[j] = right[k * Right + lane % 8 * 2 + j];
#pragma unroll
        for (int i = 0; i < 8; i++) acc[i] = nc_plus_product(acc[i], x[i / 2], y[i % 2]);
    }
}

template <class T> NC_FN void nc_put_shared(T *sums, const T (&acc)[8])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) sums[warp * 256 + (lane / 8 * 4 + i / 2) * 16 + lane % 8 * 2 + i % 2] = acc[i];
}

template <class T> NC_FN T nc_joined_shared(const T *sums)
{
    T sum = 0;
#pragma unroll
    for (int w = 0; w < 8; w++) sum = sum + sums[w * 256 + threadIdx.x];
    return sum;
}
