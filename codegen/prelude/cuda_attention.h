
// -- attention (codegen/tile/attention.c): scores, weights and results of a warp's rows, in the layout of
// mma's sums: for rows g and g + 8 of 16, thread 4 g + t has columns 2 t and 2 t + 1 of each 8. Arrays are
// [16 rows][8 columns][0, 1: row g; 2, 3: row g + 8].

template <int M, int N> NC_FN void nc_clear(float (&sums)[M][N][4])
{
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) sums[i / 4 / N][i / 4 % N][i % 4] = 0;
}

// The maximum, or sum, over the four threads of a row.
NC_FN float nc_row_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
NC_FN float nc_row_sum(float v)
{
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

// Weights as the left operand of a product: columns 16 c to 16 c + 15, rounded to 16 bits.
#define NC_WEIGHTS(name, pack)                                                                      \
    template <int M, int N> NC_FN void name(uint32_t (&x)[M][4], const float (&w)[M][N][4], int c)  \
    {                                                                                               \
        _Pragma("unroll") for (int i = 0; i < M * 4; i++)                                           \
        {                                                                                           \
            const float *from = w[i / 4][2 * c + i % 4 / 2] + i % 2 * 2;                            \
            const NcVec<float, 2> pair = {from[0], from[1]};                                        \
            x[i / 4][i % 4] = pack(pair).at.of[0];                                                  \
        }                                                                                           \
    }
NC_WEIGHTS(nc_weights_b, nc_pack_b)
NC_WEIGHTS(nc_weights_h, nc_pack_h)

// The same for f32, columns 8 c to 8 c + 7. The product's column t is column 2 t here, and its column t + 4
// is column 2 t + 1; the lines of values are permuted likewise (nc_values_32).
template <int M, int N> NC_FN void nc_weights_32(uint32_t (&x)[M][4], const float (&w)[M][N][4], int c)
{
#pragma unroll
    for (int i = 0; i < M; i++) {
        x[i][0] = nc_bits(w[i][c][0]);
        x[i][1] = nc_bits(w[i][c][2]);
        x[i][2] = nc_bits(w[i][c][1]);
        x[i][3] = nc_bits(w[i][c][3]);
    }
}
template <int Pitch, int N> NC_FN void nc_values_32(uint32_t (&y)[N][2], const float *tile, int c)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        y[i / 2][i % 2] = nc_bits(tile[(c * 8 + lane % 4 * 2 + i % 2) * Pitch + i / 2 * 8 + lane / 4]);
}
template <int Pitch, int N> NC_FN void nc_values_16(uint32_t (&y)[N][2], const uint16_t *tile, int c)
{
    nc_right_16<Pitch, false>(y, tile, 0, c);
}

// Factors of scores, with lines along the head dimension: the left operand from row m on, and the right one.
template <int Pitch, int N> NC_FN void nc_rows_32(uint32_t (&x)[N][4], const float *tile, int m, int c)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++)
        nc_matrices4(x[i], tile + (m + i * 16 + lane % 16) * Pitch + c * 8 + lane / 16 * 4);
}
template <int Pitch, int N> NC_FN void nc_cols_32(uint32_t (&y)[N][2], const float *tile, int c)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i += 2)
        nc_matrices4(y[i], tile + (i * 8 + lane / 16 * 8 + lane % 8) * Pitch + c * 8 + lane / 8 % 2 * 4);
}
template <int Pitch, int N> NC_FN void nc_rows_16(uint32_t (&x)[N][4], const uint16_t *tile, int m, int c)
{
    nc_left_16<Pitch, true>(x, tile, m, c);
}
template <int Pitch, int N> NC_FN void nc_cols_16(uint32_t (&y)[N][2], const uint16_t *tile, int c)
{
    nc_right_16<Pitch, true>(y, tile, 0, c);
}
