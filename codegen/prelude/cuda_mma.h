
// A warp's product on tensor cores, c (16, 8) += a (16, 8) * b (8, 8), rounded to tf32. Thread
// 4 g + t has a (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); b (t, g), (t + 4, g); c (g, 2 t),
// (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
NC_FN float nc_round_tf32(float a)
{
    uint32_t r;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(a)); // one instruction, where .rna is three
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(a));
#endif
    return nc_from_bits(r);
}
// The operands have been rounded to tf32.
NC_FN void nc_mma_tf32(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(nc_bits(a0)), "r"(nc_bits(a1)), "r"(nc_bits(a2)), "r"(nc_bits(a3)), "r"(nc_bits(b0)),
          "r"(nc_bits(b1)));
}
NC_FN void nc_mma(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1)
{
    nc_mma_tf32(c, nc_round_tf32(a0), nc_round_tf32(a1), nc_round_tf32(a2), nc_round_tf32(a3),
                nc_round_tf32(b0), nc_round_tf32(b1));
}
// The first digits of an operand, made finite: the remainder of an infinity is infinite, and is not
// multiplied by a zero unless the other operand is zero. The remainder of NaN is NaN.
NC_FN float nc_first_digits(float a)
{
    const float most = 3.40116213e38f; // the largest finite tf32
    return fminf(fmaxf(nc_round_tf32(a), -most), most);
}
// The same with the precision of f32: each operand is split into the sum of two, of whose four products
// the smallest is left out. Tensor cores truncate sums instead of rounding them, so long sums would lose
// digits: they only add up the products of one instruction's columns, and a normal addition follows
// (Ootomo and Yokota 2022).
NC_FN void nc_mma_f32(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1)
{
    const float h0 = nc_first_digits(a0), h1 = nc_first_digits(a1);
    const float h2 = nc_first_digits(a2), h3 = nc_first_digits(a3);
    const float g0 = nc_first_digits(b0), g1 = nc_first_digits(b1);
    float sum[4] = {};
    nc_mma_tf32(sum, nc_round_tf32(a0 - h0), nc_round_tf32(a1 - h1), nc_round_tf32(a2 - h2),
                nc_round_tf32(a3 - h3), g0, g1);
    nc_mma_tf32(sum, h0, h1, h2, h3, nc_round_tf32(b0 - g0), nc_round_tf32(b1 - g1));
    nc_mma_tf32(sum, h0, h1, h2, h3, g0, g1);
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] = c[i] + sum[i];
}
// The same for two steps of columns, with one addition for both: of rows x and y, and column z.
NC_FN void nc_mma_f32(float (&c)[4], const float (&x)[4], const float (&y)[4], const float (&z)[4])
{
    float sum[4] = {}, a[8], b[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        a[i] = nc_first_digits(x[i]);
        a[4 + i] = nc_first_digits(y[i]);
        b[i] = nc_first_digits(z[i]);
    }
#pragma unroll
    for (int q = 0; q < 4; q += 2) { // small products come first
        nc_mma_tf32(sum, nc_round_tf32(x[q] - a[q]), nc_round_tf32(y[q] - a[4 + q]), nc_round_tf32(x[q + 1] - a[q + 1]),
                    nc_round_tf32(y[q + 1] - a[5 + q]), b[q], b[q + 1]);
        nc_mma_tf32(sum, a[q], a[4 + q], a[q + 1], a[5 + q], nc_round_tf32(z[q] - b[q]), nc_round_tf32(z[q + 1] - b[q + 1]));
    }
#pragma unroll
    for (int q = 0; q < 4; q += 2) nc_mma_tf32(sum, a[q], a[4 + q], a[q + 1], a[5 + q], b[q], b[q + 1]);
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] = c[i] + sum[i];
}
// The same for operands as bits, as they are loaded from shared memory.
template <int N> NC_FN void nc_round_tf32(uint32_t (&v)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = nc_bits(nc_round_tf32(nc_from_bits(v[i])));
}
NC_FN void nc_mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    nc_mma_tf32(c, nc_from_bits(a[0]), nc_from_bits(a[1]), nc_from_bits(a[2]), nc_from_bits(a[3]),
                nc_from_bits(b[0]), nc_from_bits(b[1]));
}
NC_FN void nc_mma_f32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    nc_mma_f32(c, nc_from_bits(a[0]), nc_from_bits(a[1]), nc_from_bits(a[2]), nc_from_bits(a[3]),
               nc_from_bits(b[0]), nc_from_bits(b[1]));
}

// -- tensor cores: loads of 8 x 8 matrices of 16-bit elements (8 x 4 of 32 bits) from shared memory into
// a warp's registers, and products of them
NC_FN uint32_t nc_shared_place(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Thread 8 i + r passes the address of row r of matrix i, 16-byte aligned.
NC_FN void nc_matrices4(uint32_t *r, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(nc_shared_place(p)) : "memory");
}
NC_FN void nc_matrices2(uint32_t *r, const uint16_t *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(nc_shared_place(p)) : "memory");
}
// The same, with each matrix transposed.
NC_FN void nc_turned4(uint32_t *r, const uint16_t *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(nc_shared_place(p)) : "memory");
}
NC_FN void nc_turned2(uint32_t *r, const uint16_t *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(nc_shared_place(p)) : "memory");
}
// c (16 x 8) += a (16 x 16) b (16 x 8), sums in f32. Thread t of the warp holds c at rows t / 4 and
// t / 4 + 8, columns t % 4 * 2 and the next one.
#define NC_MMA(name, type)                                                                            \
    NC_FN void name(float *c, const uint32_t *a, const uint32_t *b)                                   \
    {                                                                                                 \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                   \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));             \
    }
NC_MMA(nc_mma_b, "bf16")
NC_MMA(nc_mma_h, "f16")

// sums += 0, a zero computed from all of x and y: so all of their loads are issued before a product
// waits for the first one. (The assembler moves loads towards their first use; it does not know that
// this value is zero.)
template <int M, int N, int C, int X, int Y>
NC_FN void nc_begin(float (&sums)[M][N][4], const NcVec<uint16_t, 8> (&x)[C][X], const NcVec<uint16_t, 8> (&y)[C][Y])
{
    uint32_t blocks, all = 0;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
#pragma unroll
    for (int i = 0; i < C * X; i++) all |= x[i / X][i % X].at.of[3];
#pragma unroll
    for (int i = 0; i < C * Y; i++) all |= y[i / Y][i % Y].at.of[3];
    all = blocks ? 0 : all;
#pragma unroll
    for (int i = 0; i < M * N; i++) sums[i / N][i % N][0] = nc_from_bits(nc_bits(sums[i / N][i % N][0]) | all);
}

// Starts copying 16 aligned bytes to shared memory, or zeros if not [there].
NC_FN void nc_copy16(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(nc_shared_place(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
// The same for N neighbouring elements, of 4, 8, 16 or 32 bytes together, aligned to that size or
// to 16.
template <int N, class T> NC_FN void nc_copy(T *to, const T *from)
{
    constexpr int bytes = sizeof(T) * N, each = bytes < 16 ? bytes : 16;
#pragma unroll
    for (int i = 0; i < bytes; i += each) {
        const uint32_t at = nc_shared_place(to) + i;
        if constexpr (each == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                         : : "r"(at), "l"((const char *)from + i) : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                         : : "r"(at), "l"((const char *)from + i), "n"(each) : "memory");
    }
}
NC_FN void nc_copies_end() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until only the last N groups of copies may be pending.
template <int N> NC_FN void nc_copied() { asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory"); }
