// netc prelude, CUDA: a step of a radix sort.
// The digit that begins at bit Low. Down: of the order reversed.
template <int Low, bool Down, int Bits, class T> NC_FN unsigned nc_radix_digit(T x)
{
    auto key = nc_sort_key(x);
    if (Down) key = ~key;
    return (unsigned)(key >> Low) & ((1u << Bits) - 1);
}
// In shared memory, of a block of N threads: counts of each warp, (N / 32, digits); where the next element with each
// digit goes, (digits); a tile in the order of its digits.
template <int N, int Bits> struct NcRadix {
    unsigned *counts, *next;
    void *tile;
};
template <int N, int Bits> NC_FN NcRadix<N, Bits> nc_radix(void *shared)
{
    constexpr int counts = N / 32 << Bits, sums = 2 * N; // (of nc_radix_begin)
    unsigned *next = (unsigned *)shared + (counts > sums ? counts : sums);
    return {(unsigned *)shared, next, next + (1 << Bits)};
}
// Thread t has column t % 32 of each of U lines of 32 columns; its warp has U lines, one after another.
template <int U> NC_FN int nc_radix_column(int u)
{
    return threadIdx.x / 32 * (32 * U) + u * 32 + threadIdx.x % 32;
}
template <int N, int Bits> NC_FN void nc_radix_clear(const NcRadix<N, Bits> &s)
{
    unsigned *mine = s.counts + (threadIdx.x / 32 << Bits);
    __syncwarp();
    for (int d = threadIdx.x % 32; d < 1 << Bits; d += 32) mine[d] = 0;
    __syncwarp();
}
// Adds an element of each lane to the counts of its warp: how many with the same digit came before, of earlier lines
// and lower lanes. All lanes of the warp call it.
template <int N, int Bits> NC_FN int nc_radix_add(const NcRadix<N, Bits> &s, unsigned digit, bool inside)
{
    unsigned *mine = s.counts + (threadIdx.x / 32 << Bits);
    unsigned lane = threadIdx.x % 32, same = __ballot_sync(0xffffffffu, inside);
#pragma unroll
    for (int i = 0; i < Bits; i++) {
        unsigned ones = __ballot_sync(0xffffffffu, digit >> i & 1);
        same &= digit >> i & 1 ? ones : ~ones;
    }
    unsigned before = mine[digit];
    __syncwarp();
    if (inside && lane + 1 == (unsigned)__ffs(same)) mine[digit] = before + __popc(same);
    __syncwarp();
    return before + __popc(same & ((1u << lane) - 1));
}
// Adds a tile, of which [left] columns exist, to the counts.
template <int Low, bool Down, int N, int Bits, int U, class T>
NC_FN void nc_radix_count(const NcRadix<N, Bits> &s, const T (&x)[U], int left)
{
#pragma unroll
    for (int u = 0; u < U; u++) nc_radix_add(s, nc_radix_digit<Low, Down, Bits>(x[u]), nc_radix_column<U>(u) < left);
}
// How many elements of the block have the digit; after a barrier.
template <int N, int Bits> NC_FN int nc_radix_total(const NcRadix<N, Bits> &s, int digit)
{
    unsigned sum = 0;
#pragma unroll
    for (int w = 0; w < N / 32; w++) sum += s.counts[(w << Bits) + digit];
    return sum;
}
// Where the first element with each digit goes, of the chunk with this number: behind all with smaller digits and those
// of preceding chunks with the same. counts: (chunks, digits)
template <int N, int Bits> NC_FN void nc_radix_begin(const NcRadix<N, Bits> &s, const int *counts, int chunks, int number)
{
    constexpr int digits = 1 << Bits, parts = N / digits;
    int d = threadIdx.x % digits, part = threadIdx.x / digits;
    unsigned all = 0, before = 0;
#pragma unroll 16
    for (int c = part; c < chunks; c += parts) {
        unsigned n = counts[c * digits + d];
        all += n;
        before += c < number ? n : 0;
    }
    s.counts[threadIdx.x] = all, s.counts[N + threadIdx.x] = before;
    __syncthreads();
    bool mine = threadIdx.x < digits;
    for (int p = 1; mine && p < parts; p++) all += s.counts[p * digits + d], before += s.counts[N + p * digits + d];
    unsigned sum, smaller = nc_scan<NcSum, N>(mine ? all : 0u, 0u, sum);
    if (mine) s.next[d] = smaller + before;
    __syncthreads();
}
// Sorts a tile, of which [left] columns exist, by the digit: x, and from, become the elements number u * N + t of that
// order. to: where they go in the row.
template <int Low, bool Down, int N, int Bits, int U, class T>
NC_FN void nc_radix_move(const NcRadix<N, Bits> &s, T (&x)[U], int (&from)[U], int left, int (&to)[U])
{
    constexpr int digits = 1 << Bits;
    T *keys = (T *)s.tile;
    int *places = (int *)(keys + N * U), at[U], d = threadIdx.x;
    nc_radix_clear(s);
#pragma unroll
    for (int u = 0; u < U; u++)
        at[u] = nc_radix_add(s, nc_radix_digit<Low, Down, Bits>(x[u]), nc_radix_column<U>(u) < left);
    __syncthreads();
    unsigned count = d < digits ? nc_radix_total(s, d) : 0, sum, first = nc_scan<NcSum, N>(count, 0u, sum);
    if (d < digits) {
        unsigned position = first;
#pragma unroll
        for (int w = 0; w < N / 32; w++) {
            unsigned n = s.counts[(w << Bits) + d];
            s.counts[(w << Bits) + d] = position;
            position += n;
        }
        s.next[d] -= first;
    }
    __syncthreads();
    const unsigned *mine = s.counts + (threadIdx.x / 32 << Bits);
#pragma unroll
    for (int u = 0; u < U; u++) {
        if (nc_radix_column<U>(u) >= left) continue;
        int position = mine[nc_radix_digit<Low, Down, Bits>(x[u])] + at[u];
        keys[position] = x[u];
        places[position] = from[u];
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < U; u++) {
        int position = u * N + threadIdx.x;
        to[u] = 0;
        if (position >= left) continue;
        x[u] = keys[position];
        from[u] = places[position];
        to[u] = s.next[nc_radix_digit<Low, Down, Bits>(x[u])] + position;
    }
    __syncthreads();
    if (d < digits) s.next[d] += first + count;
}
