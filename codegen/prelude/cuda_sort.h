// netc prelude, CUDA: rows in order, and their first elements.
// Whether the first of two elements of a row of n comes first: by value, with NaN last (Down: first), then
// by index. Indices beyond the row are last.
template <bool Down, class T> NC_FN bool nc_first_of(T a, int i, T b, int j, int n)
{
    if (i >= n || j >= n) return i < j;
    bool less = Down ? a > b || (a != a && b == b) : a < b || (a == a && b != b);
    bool more = Down ? b > a || (b != b && a == a) : b < a || (b == b && a != a);
    return less || (!more && i < j);
}

// A key in the order of the values, with NaN last and -0 before 0.
NC_FN unsigned nc_sort_bits(float x)
{
    unsigned bits = nc_bits(x);
    return x != x ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
NC_FN uint64_t nc_sort_bits(double x)
{
    uint64_t bits = (uint64_t)__double_as_longlong(x);
    return x != x ? ~(uint64_t)0 : bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
template <class T> NC_FN auto nc_sort_bits(T x)
{
    if constexpr (sizeof(T) == 8) return (uint64_t)x ^ (uint64_t)1 << 63; // no unsigned type has 64 bits
    else return T(-1) < T(0) ? (unsigned)x ^ 0x80000000u : (unsigned)x;
}
// The same, with -0 as 0. Of integers below 2^n that are not negative, the first n bits are enough.
NC_FN unsigned nc_sort_key(float x) { return nc_sort_bits(x == 0 ? 0.0f : x); }
NC_FN uint64_t nc_sort_key(double x) { return nc_sort_bits(x == 0 ? 0.0 : x); }
template <class T> NC_FN auto nc_sort_key(T x) { return nc_sort_bits(x); }

// The same of the value in column i of P, for a sort of values alone: zeros are in the order of their columns, with the
// sign as last bit. Positive numbers leave room for these; P is at most 2^15. Down: the order will be reversed.
constexpr unsigned NC_ZEROS = 0x10000u;
template <int P, bool Down> NC_FN unsigned nc_sort_apart(float x, int i)
{
    unsigned place = Down ? P - 1 - i : i;
    return x == 0 ? 0x80000000u + 2 * place + (nc_bits(x) >> 31) : nc_sort_bits(x) + (x > 0 ? NC_ZEROS : 0u);
}
template <int P, bool Down> NC_FN uint64_t nc_sort_apart(double x, int i)
{
    uint64_t place = Down ? P - 1 - i : i, sign = (uint64_t)__double_as_longlong(x) >> 63;
    return x == 0 ? ((uint64_t)1 << 63) + 2 * place + sign : nc_sort_bits(x) + (x > 0 ? NC_ZEROS : 0u);
}
template <int P, bool Down, class T> NC_FN auto nc_sort_apart(T x, int) { return nc_sort_bits(x); }
// The value of such a key. (All NaN are one.)
NC_FN void nc_sort_value(float &x, unsigned key)
{
    unsigned bits = key >= 0x80000000u + NC_ZEROS ? key - NC_ZEROS : key >> 31 ? 0x80000000u : key;
    x = nc_from_bits(bits >> 31 ? bits & 0x7fffffffu : ~bits);
    if (key >> 31 && key < 0x80000000u + NC_ZEROS && key & 1) x = -0.0f;
}
NC_FN void nc_sort_value(double &x, uint64_t key)
{
    const uint64_t zero = (uint64_t)1 << 63;
    uint64_t bits = key >= zero + NC_ZEROS ? key - NC_ZEROS : key >= zero ? zero : key;
    x = __longlong_as_double((long long)(bits >= zero ? bits - zero : ~bits));
    if (key >= zero && key < zero + NC_ZEROS && key & 1) x = -0.0;
}
template <class T, class K> NC_FN void nc_sort_value(T &x, K bits) { x = (T)nc_sort_bits((T)bits); }
// What a sort moves: keys; or these above the columns that they come from, as one integer if that has 64 bits.
struct NcPlaced {
    uint64_t key;
    int from;
};
NC_FN bool operator<(NcPlaced a, NcPlaced b) { return a.key < b.key || (a.key == b.key && a.from < b.from); }
NC_FN NcPlaced nc_shuffle(NcPlaced v, int mask) { return {nc_shuffle(v.key, mask), nc_shuffle(v.from, mask)}; }
NC_FN void nc_sort_item(unsigned &v, unsigned key, int) { v = key; }
NC_FN void nc_sort_item(uint64_t &v, unsigned key, int from) { v = (uint64_t)key << 32 | (unsigned)from; }
NC_FN void nc_sort_item(uint64_t &v, uint64_t key, int) { v = key; }
NC_FN void nc_sort_item(NcPlaced &v, uint64_t key, int from) { v = {key, from}; }
NC_FN int nc_sort_from(uint64_t v) { return (int)(unsigned)v; }
NC_FN int nc_sort_from(NcPlaced v) { return v.from; }
// Item i of P in shared memory; of a NcPlaced, keys and columns are apart.
template <int P, class I> NC_FN void nc_sort_put(void *room, int i, I v) { ((I *)room)[i] = v; }
template <int P, class I> NC_FN void nc_sort_get(const void *room, int i, I &v) { v = ((const I *)room)[i]; }
template <int P> NC_FN void nc_sort_put(void *room, int i, NcPlaced v)
{
    ((uint64_t *)room)[i] = v.key, ((int *)((uint64_t *)room + P))[i] = v.from;
}
template <int P> NC_FN void nc_sort_get(const void *room, int i, NcPlaced &v)
{
    v = {((const uint64_t *)room)[i], ((const int *)((const uint64_t *)room + P))[i]};
}
template <class I> NC_FN void nc_sort_pair(I &a, I &b, bool up)
{
    I c = a;
    if ((b < a) == up) a = b, b = c;
}
template <class I> NC_FN void nc_sort_keep(I &mine, I other, bool first)
{
    if ((other < mine) == first) mine = other;
}
// A block of N threads sorts P items (a power of two; Batcher's bitonic sort): thread t has numbers t E to t E + E - 1,
// where E = P / N. Items that are less than E apart are of one thread, less than 32 E of one warp; others meet in
// [room], shared memory.
template <int P, int N, class I> NC_FN void nc_sort_items(I (&x)[P / N], void *room)
{
    constexpr int E = P / N;
    const int own = threadIdx.x * E;
#pragma unroll
    for (int k = 2; k <= E; k *= 2)
#pragma unroll
        for (int j = k / 2; j > 0; j /= 2)
#pragma unroll
            for (int e = 0; e < E; e++)
                if (!(e & j)) nc_sort_pair(x[e], x[e | j], ((own + e) & k) == 0);
#pragma unroll 1
    for (int k = 2 * E; k <= P; k *= 2) {
        const bool up = (own & k) == 0;
#pragma unroll 1
        for (int j = k / 2; j >= E; j /= 2) {
            const bool first = ((own & j) == 0) == up;
            if (j >= 32 * E) {
                __syncthreads();
#pragma unroll
                for (int e = 0; e < E; e++) nc_sort_put<P>(room, e * N + threadIdx.x, x[e]);
                __syncthreads();
#pragma unroll
                for (int e = 0; e < E; e++) {
                    I other;
                    nc_sort_get<P>(room, e * N + (threadIdx.x ^ j / E), other);
                    nc_sort_keep(x[e], other, first);
                }
            } else {
#pragma unroll
                for (int e = 0; e < E; e++) nc_sort_keep(x[e], nc_shuffle(x[e], j / E), first);
            }
        }
#pragma unroll
        for (int j = E / 2; j > 0; j /= 2)
#pragma unroll
            for (int e = 0; e < E; e++)
                if (!(e & j)) nc_sort_pair(x[e], x[e | j], up);
    }
    __syncthreads();
}
// A block of N threads sorts n columns, of which each has stored t, t + N, and so on. Shared memory has room for P of
// them, and then for as many numbers of the columns that they come from.
template <int P, int N, bool Down, class T> NC_FN void nc_sort_values(T *row, int n)
{
    decltype(nc_sort_bits(T())) x[P / N];
#pragma unroll
    for (int e = 0; e < P / N; e++) {
        const int i = e * N + threadIdx.x;
        x[e] = 0;
        x[e] = i >= n ? ~x[e] : Down ? ~nc_sort_apart<P, Down>(row[i], i) : nc_sort_apart<P, Down>(row[i], i);
    }
    nc_sort_items<P, N>(x, row);
#pragma unroll
    for (int e = 0; e < P / N; e++) nc_sort_value(row[threadIdx.x * (P / N) + e], Down ? ~x[e] : x[e]);
    __syncthreads();
}
template <class K> struct NcPlacedOf {
    using type = uint64_t;
};
template <> struct NcPlacedOf<uint64_t> {
    using type = NcPlaced;
};
template <int P, int N, bool Down, class T> NC_FN void nc_sort_places(T *row, int *from, int n)
{
    using K = decltype(nc_sort_key(T()));
    typename NcPlacedOf<K>::type x[P / N];
#pragma unroll
    for (int e = 0; e < P / N; e++) {
        const int i = e * N + threadIdx.x;
        nc_sort_item(x[e], i >= n ? ~K(0) : Down ? K(~nc_sort_key(row[i])) : nc_sort_key(row[i]), i);
    }
    nc_sort_items<P, N>(x, row);
#pragma unroll
    for (int e = 0; e < P / N; e++) from[threadIdx.x * (P / N) + e] = nc_sort_from(x[e]);
    __syncthreads();
}

// The first K, in order, of the elements that a warp is offered. It holds 32 * P of them: lane l has numbers
// l, 32 + l, and so on. Elements that come before the last of K wait in shared memory; 32 at a time are sorted
// and merged with those held. Their positions differ; NC_NONE: no element.
constexpr int NC_NONE = 0x7fffffff;
template <int K, int P, bool Down, class T> struct NcFirst {
    T key[P], last, *wait_key;
    int from[P], last_from, *wait_from, waiting;
};
template <int K, int P, bool Down, class T> NC_FN void nc_first_begin(NcFirst<K, P, Down, T> &s, T *key, int *from)
{
#pragma unroll
    for (int p = 0; p < P; p++) s.key[p] = 0, s.from[p] = NC_NONE;
    s.last = 0, s.last_from = NC_NONE;
    s.wait_key = key, s.wait_from = from, s.waiting = 0;
}
// Keeps the first, or the last, of an element and that of the lane whose number differs in bit j.
template <bool Down, class T> NC_FN void nc_first_exchange(T &key, int &from, int j, bool first)
{
    T other = nc_shuffle(key, j);
    int other_from = nc_shuffle(from, j);
    if (nc_first_of<Down>(other, other_from, key, from, NC_NONE) == first) key = other, from = other_from;
}
// Merges those waiting, sorted last first, with those held: the last 32 held and they, taken in pairs, have the first
// ones, which rise and then fall.
template <int K, int P, bool Down, class T> NC_FN void nc_first_merge(NcFirst<K, P, Down, T> &s)
{
    int lane = threadIdx.x % 32;
    __syncwarp();
    T key = 0;
    int from = NC_NONE;
    if (lane < s.waiting) key = s.wait_key[lane], from = s.wait_from[lane];
    __syncwarp();
#pragma unroll
    for (int k = 2; k <= 32; k *= 2)
#pragma unroll
        for (int j = k / 2; j > 0; j /= 2) nc_first_exchange<Down>(key, from, j, ((lane & j) == 0) == ((lane & k) != 0));
    if (nc_first_of<Down>(key, from, s.key[P - 1], s.from[P - 1], NC_NONE)) s.key[P - 1] = key, s.from[P - 1] = from;
#pragma unroll
    for (int d = P / 2; d > 0; d /= 2)
#pragma unroll
        for (int p = 0; p < P; p++) {
            if (p & d || !nc_first_of<Down>(s.key[p + d], s.from[p + d], s.key[p], s.from[p], NC_NONE)) continue;
            key = s.key[p], s.key[p] = s.key[p + d], s.key[p + d] = key;
            from = s.from[p], s.from[p] = s.from[p + d], s.from[p + d] = from;
        }
#pragma unroll
    for (int j = 16; j > 0; j /= 2)
#pragma unroll
        for (int p = 0; p < P; p++) nc_first_exchange<Down>(s.key[p], s.from[p], j, (lane & j) == 0);
    s.last = __shfl_sync(0xffffffffu, s.key[(K - 1) / 32], (K - 1) % 32);
    s.last_from = __shfl_sync(0xffffffffu, s.from[(K - 1) / 32], (K - 1) % 32);
    s.waiting = 0;
}
// Offers an element of each lane.
template <int K, int P, bool Down, class T> NC_FN void nc_first_offer(NcFirst<K, P, Down, T> &s, T key, int from)
{
    bool better = nc_first_of<Down>(key, from, s.last, s.last_from, NC_NONE);
    unsigned votes = __ballot_sync(0xffffffffu, better);
    if (!votes) return;
    int count = __popc(votes), lane = threadIdx.x % 32;
    if (s.waiting + count > 32) nc_first_merge(s);
    int at = s.waiting + __popc(votes & ((1u << lane) - 1));
    if (better) s.wait_key[at] = key, s.wait_from[at] = from;
    s.waiting += count;
}
// Offers several of each lane. The code that merges is there once.
template <int U, int K, int P, bool Down, class T> NC_FN void nc_first_offer(NcFirst<K, P, Down, T> &s, T (&key)[U], int (&from)[U])
{
#pragma unroll 1
    for (int u = 0; u < U; u++) {
        nc_first_offer(s, key[0], from[0]);
#pragma unroll
        for (int i = 1; i < U; i++) key[i - 1] = key[i], from[i - 1] = from[i];
    }
}
// The end: N threads have offered the elements of a row. If they are several warps, the first of them gets what the
// others hold; key, from: room for K elements of each warp.
template <int N, int K, int P, bool Down, class T> NC_FN void nc_first_end(NcFirst<K, P, Down, T> &s, T *key, int *from)
{
    if (s.waiting) nc_first_merge(s);
    if constexpr (N > 32) {
        constexpr int all = N / 32 * K;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int p = 0; p < P; p++) {
            int i = 32 * p + lane;
            if (i < K) key[warp * K + i] = s.key[p], from[warp * K + i] = s.from[p];
        }
        __syncthreads();
        if (warp) return;
        for (int i = K + lane; i - lane < all; i += 32) {
            bool inside = i < all;
            nc_first_offer(s, inside ? key[i] : T(0), inside ? from[i] : NC_NONE);
        }
        if (s.waiting) nc_first_merge(s);
    }
}

