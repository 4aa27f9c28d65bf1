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
// A block of N threads sorts P keys (a power of two), of which n are a row's. from: their old indices.
template <int P, int N, bool Down, class T> NC_FN void nc_sort(T *key, int *from, int n)
{
    for (int i = threadIdx.x; i < P; i += N) {
        from[i] = i;
        if (i >= n) key[i] = 0;
    }
    for (int k = 2; k <= P; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < P / 2; t += N) {
                int a = 2 * t - (t & (j - 1)), b = a + j, from_a = from[a], from_b = from[b];
                T key_a = key[a], key_b = key[b];
                if (nc_first_of<Down>(key_b, from_b, key_a, from_a, n) != ((a & k) == 0)) continue;
                key[a] = key_b, key[b] = key_a;
                from[a] = from_b, from[b] = from_a;
            }
        }
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

