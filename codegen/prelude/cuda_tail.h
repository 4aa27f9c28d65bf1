NC_FN float nc_erf_16(float a) // as accurate as the functions *_16 in cuda_head.h
{
    float x = fminf(fmaxf(a, -4), 4), z = x * x;
    NC_ERF(p, q, z)
    return a != a ? a : x * p * nc_rcp_16(q);
}

// Names without a suffix select the function by the operand's type.
#define NC_FLOAT(f)                        \
    NC_FN auto f(float a) { return f##_f(a); } \
    NC_FN auto f(double a) { return f##_d(a); }
#define NC_ANY(f)                                        \
    NC_FLOAT(f)                                          \
    NC_FN int32_t f(int32_t a) { return f##_i(a); }      \
    NC_FN uint32_t f(uint32_t a) { return f##_u(a); }    \
    NC_FN int64_t f(int64_t a) { return f##_l(a); }
#define NC_INT2(f)                                                      \
    NC_FN int32_t f(int32_t a, int32_t b) { return f##_i(a, b); }       \
    NC_FN uint32_t f(uint32_t a, uint32_t b) { return f##_u(a, b); }    \
    NC_FN int64_t f(int64_t a, int64_t b) { return f##_l(a, b); }
#define NC_FLOAT2(f)                                            \
    NC_FN float f(float a, float b) { return f##_f(a, b); }     \
    NC_FN double f(double a, double b) { return f##_d(a, b); }

NC_FLOAT(nc_exp) NC_FLOAT(nc_expm1) NC_FLOAT(nc_log) NC_FLOAT(nc_log1p)

NC_FLOAT(nc_sin) NC_FLOAT(nc_cos) NC_FLOAT2(nc_pow)

NC_FLOAT(nc_tanh) NC_FLOAT(nc_erf) NC_FLOAT(nc_sigmoid)

NC_FLOAT(nc_sqrt) NC_FLOAT(nc_rsqrt)

NC_FLOAT(nc_floor) NC_FLOAT(nc_ceil) NC_FLOAT(nc_round) NC_FLOAT(nc_isfinite)

NC_FLOAT(nc_ufp)

NC_FLOAT(nc_to_i32) NC_FLOAT(nc_to_u32) NC_FLOAT(nc_to_i64) NC_FLOAT(nc_to_u8)

NC_ANY(nc_abs) NC_ANY(nc_sign)

NC_FLOAT2(nc_min) NC_FLOAT2(nc_max) NC_INT2(nc_min) NC_INT2(nc_max)

NC_FLOAT2(nc_floordiv) NC_FLOAT2(nc_mod) NC_INT2(nc_floordiv) NC_INT2(nc_mod)

NC_INT2(nc_shl) NC_INT2(nc_shr)

NC_FN float nc_div(float a, float b) { return nc_div_f(a, b); }
NC_FN double nc_div(double a, double b) { return a / b; }

// Quotient and remainder of index expressions, which are never negative.
NC_FN int nc_quo(int a, unsigned b) { return (int)((unsigned)a / b); }
NC_FN int nc_rem(int a, unsigned b) { return (int)((unsigned)a % b); }
NC_FN int64_t nc_quo(int64_t a, uint64_t b) { return (int64_t)((uint64_t)a / b); }
NC_FN int64_t nc_rem(int64_t a, uint64_t b) { return (int64_t)((uint64_t)a % b); }

// N neighbouring elements, loaded and stored by the widest access that their size allows.
template <class T, int N> struct alignas(sizeof(T) * N) NcVec {
    T at[N];
};
// 16-bit elements stay in pairs, so that extracting one and widening it is one instruction.
template <int N> struct NcPairs {
    uint32_t of[N / 2];
    __device__ __forceinline__ uint16_t operator[](int i) const { return (uint16_t)(of[i / 2] >> (i % 2 * 16)); }
};
template <int N> struct alignas(2 * N) NcVec<uint16_t, N> {
    NcPairs<N> at;
};
template <> struct alignas(2) NcVec<uint16_t, 1> {
    uint16_t at[1];
};
template <int B> struct NcRaw;
template <> struct NcRaw<1> {
    typedef unsigned char T;
};
template <> struct NcRaw<2> {
    typedef unsigned short T;
};
template <> struct NcRaw<4> {
    typedef unsigned int T;
};
template <> struct NcRaw<8> {
    typedef uint2 T;
};
template <> struct NcRaw<16> {
    typedef uint4 T;
};
struct NcPair {
    uint4 low, high;
};
template <> struct NcRaw<32> {
    typedef NcPair T;
};
template <class T, int N> union NcMove {
    typename NcRaw<(int)sizeof(T) * N>::T raw;
    NcVec<T, N> v;
};
template <int N, class T> NC_FN NcVec<T, N> nc_load(const T *p)
{
    NcMove<T, N> m;
    m.raw = *(const decltype(m.raw) *)p;
    return m.v;
}
// The same if p is aligned to P elements only.
template <int N, int P, class T> NC_FN NcVec<T, N> nc_load_parts(const T *p)
{
    union {
        typename NcRaw<(int)sizeof(T) * P>::T part[N / P];
        NcVec<T, N> v;
    } o;
#pragma unroll
    for (int i = 0; i < N / P; i++) o.part[i] = ((const typename NcRaw<(int)sizeof(T) * P>::T *)p)[i];
    return o.v;
}
// N elements from p on, one by one; 0 after the first [left], which exist.
template <int N, class T> NC_FN NcVec<T, N> nc_load_last(const T *p, int64_t left)
{
    union {
        T at[N];
        NcVec<T, N> v;
    } o;
#pragma unroll
    for (int i = 0; i < N; i++) o.at[i] = i < left ? p[i] : T(0);
    return o.v;
}
// A vector load of an array that may end within the vector: [left] elements from p on exist.
template <int N, class T> NC_FN NcVec<T, N> nc_load(const T *p, int64_t left)
{
    return left < N ? nc_load_last<N>(p, left) : nc_load<N>(p);
}

// The same if p is not aligned: loads the aligned 16-byte lines around the vector and shifts it into
// place. It reads only lines that contain a wanted element, and nothing after the [left] existing
// elements. [known]: the words from the line's start to p, if that is a compile-time constant; then
// shifting costs nothing.
template <int N, class T> NC_FN NcVec<T, N> nc_load_any(const T *p, int64_t left, int known = -1)
{
    constexpr int S = sizeof(T), W = N * S / 4; // words of the vector
    if (left < N + 16 / S) return nc_load_last<N>(p, left);
    const int at = known < 0 ? (int)((uint64_t)p % 16) / S
                             : known * 4 / S + (S == 2 ? (int)((uint64_t)p % 4) / S : 0),
              words = known < 0 ? at * S / 4 : known;
    const uint4 *line = (const uint4 *)((const char *)p - at * S);
    uint32_t w[W + 4] = {};
#pragma unroll
    for (int i = 0; i < (W + 3) / 4 + 1; i++)
        if (i * 16 < (at + N) * S) {
            const uint4 l = line[i];
            if (4 * i < W + 4) w[4 * i] = l.x;
            if (4 * i + 1 < W + 4) w[4 * i + 1] = l.y;
            if (4 * i + 2 < W + 4) w[4 * i + 2] = l.z;
            if (4 * i + 3 < W + 4) w[4 * i + 3] = l.w;
        }
#pragma unroll
    for (int i = 0; i < W + 2; i++) w[i] = words & 2 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < W + 1; i++) w[i] = words & 1 ? w[i + 1] : w[i];
    if constexpr (S == 2) {
#pragma unroll
        for (int i = 0; i < W; i++) w[i] = at & 1 ? __funnelshift_r(w[i], w[i + 1], 16) : w[i];
    }
    union {
        uint32_t w[W];
        NcVec<T, N> v;
    } o;
#pragma unroll
    for (int i = 0; i < W; i++) o.w[i] = w[i];
    return o.v;
}

NC_FN int nc_words(const void *p) { return (int)((uint64_t)p % 16 / 4); }

// N elements of p[0..n) from [at] on, continuing with p[0] at its end.
template <int N, class T> NC_FN NcVec<T, N> nc_load_round(const T *p, int at, int n)
{
    if (at + N + 16 / (int)sizeof(T) <= n) return nc_load_any<N>(p + at, n - at);
    union {
        T at[N];
        NcVec<T, N> v;
    } o;
#pragma unroll
    for (int i = 0; i < N; i++) o.at[i] = p[at + i < n ? at + i : at + i - n];
    return o.v;
}

// A load that the compiler cannot move: it would move it down to its first use, into another loop
// further on.
template <int N, class T> NC_FN NcVec<T, N> nc_fetch(const T *p)
{
    NcMove<T, N> m;
    if constexpr (sizeof(T) * N == 16)
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(m.raw.x), "=r"(m.raw.y), "=r"(m.raw.z), "=r"(m.raw.w)
                     : "l"(p));
    else if constexpr (sizeof(T) * N == 8)
        asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                     : "=r"(m.raw.x), "=r"(m.raw.y)
                     : "l"(p));
    else
        m.raw = *(const decltype(m.raw) *)p;
    return m.v;
}
template <int N, class T> NC_FN NcVec<T, N> nc_fetch(const T *p, int64_t left)
{
    return left < N ? nc_load_last<N>(p, left) : nc_fetch<N>(p);
}

// A load whose lines the L2 cache evicts last: lines that the kernel writes are evicted before them.
// The compiler cannot move it.
template <int N, class T> NC_FN NcVec<T, N> nc_keep(const T *p)
{
    NcMove<T, N> m;
    uint64_t last;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    if constexpr (sizeof(T) * N == 16)
        asm volatile("ld.global.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                     : "=r"(m.raw.x), "=r"(m.raw.y), "=r"(m.raw.z), "=r"(m.raw.w)
                     : "l"(p), "l"(last));
    else if constexpr (sizeof(T) * N == 8)
        asm volatile("ld.global.L2::cache_hint.v2.u32 {%0,%1}, [%2], %3;"
                     : "=r"(m.raw.x), "=r"(m.raw.y)
                     : "l"(p), "l"(last));
    else
        m.raw = *(const decltype(m.raw) *)p;
    return m.v;
}
template <int N, class T> NC_FN NcVec<T, N> nc_keep(const T *p, int64_t left)
{
    return left < N ? nc_load_last<N>(p, left) : nc_keep<N>(p);
}

// Floats rounded to 16-bit floats, two at a time.
#define NC_PACK(name, type)                                                   \
    template <int N> NC_FN NcVec<uint16_t, N> name(const NcVec<float, N> &v)  \
    {                                                                         \
        NcVec<uint16_t, N> o;                                                 \
        _Pragma("unroll") for (int i = 0; i < N; i += 2)                      \
            asm("cvt.rn." type "x2.f32 %0, %1, %2;"                           \
                : "=r"(o.at.of[i / 2]) : "f"(v.at[i + 1]), "f"(v.at[i]));     \
        return o;                                                             \
    }
NC_PACK(nc_pack_b, "bf16")
NC_PACK(nc_pack_h, "f16")

template <int N, class T> NC_FN void nc_store(T *p, const NcVec<T, N> &v)
{
    NcMove<T, N> m;
    m.v = v;
    *(decltype(m.raw) *)p = m.raw;
}

extern __shared__ uint4 nc_shared[]; // the launch's dynamic shared memory, 16-byte aligned

// Reductions over a team: N neighbouring threads of a warp, or (N > 32) the whole block. Every
// thread of the team gets the result; the order is fixed.
struct NcSum {
    template <class T> NC_FN T of(T a, T b)
    {
        return a + b;
    }
};
struct NcProd {
    template <class T> NC_FN T of(T a, T b)
    {
        return a * b;
    }
};

struct NcMax {
    template <class T> NC_FN T of(T a, T b)
    {
        return nc_max(a, b);
    }
};
struct NcMin {
    template <class T> NC_FN T of(T a, T b)
    {
        return nc_min(a, b);
    }
};

template <class T> NC_FN T nc_shuffle(T v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

// A number that the compiler does not know. Loads that are guarded by it stay where they are: others
// are moved down to their uses if that takes fewer registers, and then none is in flight.
NC_FN int nc_unknown(int n)
{
    asm volatile("mov.u32 %0, %1;" : "=r"(n) : "r"(n));
    return n;
}

// The sum of v over N neighbouring threads, N a power of two up to 32: each gets it. If not ALL, other
// threads of the warp may have ended.
template <int N, bool ALL, class T> NC_FN T nc_sum_lanes(T v)
{
    const unsigned first = threadIdx.x % 32 / N * N;
    const unsigned group = ALL ? 0xffffffffu : 0xffffffffu >> (32 - N) << first;
#pragma unroll
    for (int m = N / 2; m > 0; m /= 2) v += __shfl_xor_sync(group, v, m);
    return v;
}

template <class T> struct NcArg { // a value and its index; of equal largest values the first wins
    T v;
    int64_t i;
};
template <class T> NC_FN bool nc_before(T a, int64_t i, T b, int64_t j)
{
    bool more = a > b || (a != a && b == b), same = a == b || (a != a && b != b);
    return more || (same && i < j);
}
struct NcArgmax {
    template <class T> NC_FN NcArg<T> of(NcArg<T> a, NcArg<T> b)
    {
        return nc_before(b.v, b.i, a.v, a.i) ? b : a;
    }
};
template <class T> NC_FN NcArg<T> nc_shuffle(NcArg<T> v, int mask)
{
    return NcArg<T>{nc_shuffle(v.v, mask), nc_shuffle(v.i, mask)};
}

// A scan across a team (as nc_team): what Op makes of the threads before; [all]: of the whole team. none: of nothing.
template <class Op, int N, class T> NC_FN T nc_scan(T v, T none, T &all)
{
    constexpr int W = N < 32 ? N : 32;
    int lane = threadIdx.x % W;
    T run = v;
#pragma unroll
    for (int m = 1; m < W; m *= 2) {
        T left = __shfl_up_sync(0xffffffffu, run, m, W);
        if (lane >= m) run = Op::of(left, run);
    }
    T before = __shfl_up_sync(0xffffffffu, run, 1, W);
    if (lane == 0) before = none;
    all = __shfl_sync(0xffffffffu, run, W - 1, W);
    if constexpr (N > 32) {
        __shared__ T part[N / 32];
        int warp = threadIdx.x / 32;
        __syncthreads();
        if (lane == 0) part[warp] = all;
        __syncthreads();
        T left = none;
        all = none;
#pragma unroll
        for (int k = 0; k < N / 32; k++) {
            if (k < warp) left = Op::of(left, part[k]);
            all = Op::of(all, part[k]);
        }
        before = Op::of(left, before);
    }
    return before;
}

// Calls that alternate between slots 0 and 1 need no barrier before they write; slot -1: with barrier.
template <class Op, int N, int Slot = -1, class T> NC_FN T nc_team(T v)
{
#pragma unroll
    for (int m = (N < 32 ? N : 32) / 2; m > 0; m /= 2) v = Op::of(v, nc_shuffle(v, m));
    if constexpr (N > 32) {
        constexpr int W = N / 32;
        __shared__ T part[W];
        if (Slot < 0) __syncthreads();
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        __syncthreads();
        v = part[W > 4 ? threadIdx.x % W : 0];
        if constexpr (W > 4) {
#pragma unroll
            for (int m = W / 2; m > 0; m /= 2) v = Op::of(v, nc_shuffle(v, m));
        } else {
#pragma unroll
            for (int k = 1; k < W; k++) v = Op::of(v, part[k]);
        }
    }
    return v;
}

// Combines each of K values over 2 * M lanes and distributes the results: in each step a lane keeps half
// of its values. Afterwards v[i] is the result of value number nc_dealt(i).
template <class Op, int M, int K, class T> NC_FN void nc_deal(T *v)
{
    if constexpr (M > 0) {
        constexpr int H = (K + 1) / 2;
        const bool upper = threadIdx.x & M;
#pragma unroll
        for (int k = 0; k < H; k++) {
            const T other = k + H < K ? v[k + H] : v[k];
            const T given = nc_shuffle(upper ? v[k] : other, M);
            v[k] = Op::of(upper ? other : v[k], given);
        }
        nc_deal<Op, M / 2, H>(v);
    }
}
// At least K if another lane has the same value.
template <int M, int K> NC_FN int nc_dealt(int i)
{
    if constexpr (M == 0) {
        return i;
    } else {
        constexpr int H = (K + 1) / 2;
        const int at = nc_dealt<M / 2, H>(i);
        return !(threadIdx.x & M) ? at : at + H < K ? at + H : 1 << 16;
    }
}
// nc_team for K values at once, so that their shuffles overlap. Over a block (N > 32) one barrier is
// enough if no call uses the memory of the call before it: the calls in a loop differ in Site, or a
// single call alternates between Slots of them. Slots 0: a single call that has none.
template <class Op, int N, int Site, int Slots, int K, class T>
NC_FN void nc_teams(T (&v)[K], int slot = 0)
{
    if constexpr (N > 32) {
        constexpr int W = N / 32;
        __shared__ __align__(16) T parts[Slots ? Slots : 1][K][W];
        T(*part)[W] = parts[slot];
        nc_deal<Op, 16, K>(v);
        if (!Slots) __syncthreads();
#pragma unroll
        for (int i = 0; i < (K + 31) / 32; i++) {
            const int at = nc_dealt<16, K>(i);
            if (at < K) part[at][threadIdx.x / 32] = v[i];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < K; k++) {
            T all[W];
#pragma unroll
            for (int i = 0; i < W; i++) all[i] = part[k][i];
#pragma unroll
            for (int m = W / 2; m > 0; m /= 2)
#pragma unroll
                for (int i = 0; i < W / 2; i++) // with m as its bound it would not be unrolled
                    if (i < m) all[i] = Op::of(all[i], all[i + m]);
            v[k] = all[0];
        }
    } else {
#pragma unroll
        for (int m = N / 2; m > 0; m /= 2) {
            T other[K];
#pragma unroll
            for (int k = 0; k < K; k++) other[k] = nc_shuffle(v[k], m);
#pragma unroll
            for (int k = 0; k < K; k++) v[k] = Op::of(v[k], other[k]);
        }
    }
}

NC_FN int nc_within(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }
template <int N, int W, class T> NC_FN void nc_fill(NcVec<T, W> (&v)[N], T value)
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int k = 0; k < W; k++) v[i].at[k] = value;
}

// Combines the vectors of threads with equal thread % X, of X * Y threads, in a fixed order: the first
// X threads get the results, or (All) all of them.
template <class Op, int X, int Y, bool All, class Wait, int V, class T>
NC_FN void nc_join_above(T (&v)[V], void *memory, int thread)
{
    constexpr int W = 32 % X == 0 && X * Y % 32 == 0 ? 32 / X : 1, R = Y / W; // W: rows per warp; R: parts in memory
    if constexpr (W > 1) {
#pragma unroll
        for (int m = X; m < 32; m *= 2)
#pragma unroll
            for (int k = 0; k < V; k++) v[k] = Op::of(v[k], nc_shuffle(v[k], m));
    }
    if constexpr (R > 1) {
        T *part = (T *)memory;
        int x = thread % X, r = thread / (X * W);
        Wait::all();
        if (r < R && (W == 1 || thread % 32 < X)) {
#pragma unroll
            for (int k = 0; k < V; k++) part[(r * V + k) * X + x] = v[k];
        }
        Wait::all();
        if (All || thread < X) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                T t = part[k * X + x];
#pragma unroll
                for (int q = 1; q < R; q++) t = Op::of(t, part[(q * V + k) * X + x]);
                v[k] = t;
            }
        }
    }
}
struct NcBlockWait {
    NC_FN void all() { __syncthreads(); }
};
template <class Op, int X, int Y, bool All, int V, class T>
NC_FN void nc_above(T (&v)[V], void *memory)
{
    nc_join_above<Op, X, Y, All, NcBlockWait>(v, memory, (int)threadIdx.x);
}

// The same for vectors that start [shift] elements before their positions, with another shift in each
// thread, over a tile of X - 1 vectors: a thread gets the result with its own number.
template <class Op, int X, int Y, int V, class T>
NC_FN T nc_aside(const T (&v)[V], void *memory, int shift)
{
    T *part = (T *)memory;
    const int x = threadIdx.x % X, y = threadIdx.x / X, own = threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < V; k++)
        if (x * V + k >= shift) part[y * X * V + x * V + k - shift] = v[k];
    __syncthreads();
    if (own >= (X - 1) * V) return v[0];
    T t = part[own];
#pragma unroll
    for (int q = 1; q < Y; q++) t = Op::of(t, part[q * X * V + own]);
    return t;
}

// Squared deviations in one pass: of a thread's elements from a pivot, which is moved to the mean.
template <class T> struct NcRun {
    T pivot, sum, squares; // sums of x - pivot and of its square
};
template <class T> NC_FN void nc_add(NcRun<T> &r, T x)
{
    T d = x - r.pivot;
    r.sum += d;
    r.squares = nc_fma(d, d, r.squares);
}
// Changes the pivot, after n elements.
template <class T> NC_FN void nc_move(NcRun<T> &r, T n, T pivot)
{
    T d = pivot - r.pivot, left = nc_fma(-n, d, r.sum);
    r.squares = nc_fma(-d, r.sum + left, r.squares);
    r.sum = left;
    r.pivot = pivot;
}
// Moves the pivot to the mean, so that squares stay small; share = 1 / n.
template <class T> NC_FN void nc_settle(NcRun<T> &r, T n, T share) { nc_move(r, n, nc_fma(r.sum, share, r.pivot)); }
// The runs of threads with equal thread % X, of n elements each, get the pivot of the first of these
// threads: then they are combined by additions (NcRuns).
template <int X, int V, class T> NC_FN void nc_level(NcRun<T> (&r)[V], T n, void *memory)
{
    T *pivot = (T *)memory + threadIdx.x % X;
    __syncthreads();
    if (threadIdx.x < X)
#pragma unroll
        for (int k = 0; k < V; k++) pivot[k * X] = r[k].pivot;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < V; k++) nc_move(r[k], n, pivot[k * X]);
}
struct NcRuns { // combines runs with the same pivot
    template <class T> NC_FN NcRun<T> of(NcRun<T> a, NcRun<T> b)
    {
        return NcRun<T>{a.pivot, a.sum + b.sum, a.squares + b.squares};
    }
};
template <class T> NC_FN NcRun<T> nc_shuffle(NcRun<T> v, int mask)
{
    return NcRun<T>{v.pivot, nc_shuffle(v.sum, mask), nc_shuffle(v.squares, mask)};
}
template <class T> NC_FN T nc_total(const NcRun<T> &r, T n) { return nc_fma(n, r.pivot, r.sum); }

// a / b for counts b, slightly less exact than a division.
NC_FN float nc_share(float a, float b) { return __fdividef(a, b); }
NC_FN double nc_share(double a, double b) { return a / b; }
// The form that is combined: n elements, their mean and the sum of squared deviations from it.
template <class T> struct NcMoments {
    T n, mean, m2;
};
template <class T> NC_FN NcMoments<T> nc_moments(const NcRun<T> &r, T n)
{
    if (n == 0) return NcMoments<T>{0, 0, 0};
    T d = nc_share(r.sum, n), m2 = nc_fma(-r.sum, d, r.squares);
    return NcMoments<T>{n, r.pivot + d, m2 < 0 ? T(0) : m2};
}
struct NcSqdev {
    template <class T> NC_FN NcMoments<T> of(NcMoments<T> a, NcMoments<T> b)
    {
        T n = a.n + b.n;
        if (b.n == 0) return a;
        T w = nc_share(b.n, n), d = b.mean - a.mean;
        return NcMoments<T>{n, nc_fma(d, w, a.mean), nc_fma(d * d, a.n * w, a.m2 + b.m2)};
    }
};
template <class T> NC_FN NcMoments<T> nc_shuffle(NcMoments<T> v, int mask)
{
    return NcMoments<T>{nc_shuffle(v.n, mask), nc_shuffle(v.mean, mask), nc_shuffle(v.m2, mask)};
}
