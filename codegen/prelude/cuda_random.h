// netc prelude, CUDA: random words of several elements, whose blocks of Philox are computed once.

// nc_random of [first], a multiple of W, and the elements after it.
template <int W>
NC_FN NcVec<uint32_t, W> nc_draws(int64_t seed, int64_t count, int64_t number, uint64_t first, int bits,
                                  int lane)
{
    const int each = 128 / bits, inside = W < 8 ? (int)first & (8 - W) : 0;
    NcVec<uint32_t, W> drawn;
    NcBlock made = {};
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (i % each == 0) made = nc_random_block(seed, count, number, first / each + i / each, bits);
        drawn.at[i] = nc_random_word(made, inside + i, bits, lane);
    }
    return drawn;
}

// -- scores (cuda_attention.h), 16 bits each ------------------------------------------------------

// The draw of column v of a pair.
NC_FN uint32_t nc_half(uint32_t pair, int v)
{
    return pair >> v * 16 & 0xffff;
}

// Words a of a thread and b of the one whose number differs in [bit]: this thread's word goes to the
// other one in return for its.
NC_FN void nc_trade(uint32_t &a, uint32_t &b, int bit)
{
    const bool high = threadIdx.x & bit;
    const uint32_t got = __shfl_xor_sync(0xffffffffu, high ? a : b, bit);
    (high ? a : b) = got;
}

// The draws of eight elements from [index] on, in pairs. ALIGNED: it is a multiple of eight, so they are
// one block; otherwise parts of two.
template <bool ALIGNED>
NC_FN void nc_draw_eight(uint32_t (&draws)[4], int64_t seed, int64_t count, int64_t number, uint64_t index)
{
    uint32_t word[8];
    const NcBlock first = nc_random_block(seed, count, number, index / 8, 16);
#pragma unroll
    for (int k = 0; k < 4; k++) word[k] = first.word[k];
    if (!ALIGNED) {
        const NcBlock next = nc_random_block(seed, count, number, index / 8 + 1, 16);
#pragma unroll
        for (int k = 0; k < 4; k++) word[4 + k] = next.word[k];
#pragma unroll
        for (int k = 0; k < 6; k++) word[k] = index & 4 ? word[k + 2] : word[k];
#pragma unroll
        for (int k = 0; k < 5; k++) word[k] = index & 2 ? word[k + 1] : word[k];
#pragma unroll
        for (int k = 0; k < 4; k++) word[k] = __byte_perm(word[k], word[k + 1], index & 1 ? 0x5432 : 0x3210);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) draws[k] = word[k];
}

// A row of four tiles in which neighbours in the row draw one after the other. index: of the first element
// in tile t of the four, for the thread with the columns 2 t and 2 t + 1. draws[k]: the thread's pair in
// tile k.
template <bool ALIGNED>
NC_FN void nc_draw_row(uint32_t (&draws)[4], int64_t seed, int64_t count, int64_t number, uint64_t index)
{
    nc_draw_eight<ALIGNED>(draws, seed, count, number, index);
    // word t of each of the four threads of the row: a transposition
    nc_trade(draws[0], draws[1], 1);
    nc_trade(draws[2], draws[3], 1);
    nc_trade(draws[0], draws[2], 2);
    nc_trade(draws[1], draws[3], 2);
}

// The same where neighbours in a column draw one after the other, those of the eight threads that have the
// same columns. index: of the first of them, in column g % 2 of the pair in tile g / 2 of the four, for the
// thread with row g.
template <bool ALIGNED>
NC_FN void nc_draw_column(uint32_t (&draws)[4], int64_t seed, int64_t count, int64_t number,
                          uint64_t index)
{
    nc_draw_eight<ALIGNED>(draws, seed, count, number, index);
    nc_trade(draws[0], draws[2], 16);
    nc_trade(draws[1], draws[3], 16);
    nc_trade(draws[0], draws[1], 8);
    nc_trade(draws[2], draws[3], 8);
    // Now draws[k] has the halves of rows g and g ^ 1 in the column g % 2 of tile k.
    const bool odd = threadIdx.x & 4;
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
        const uint32_t low = __byte_perm(draws[k], draws[k + 1], 0x5410),
                       high = __byte_perm(draws[k], draws[k + 1], 0x7632),
                       own = odd ? high : low,
                       got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 4);
        draws[k] = __byte_perm(odd ? got : own, odd ? own : got, 0x5410);
        draws[k + 1] = __byte_perm(odd ? got : own, odd ? own : got, 0x7632);
    }
}
