// What CUDA C++ means on the host: put before the text of generated kernels, which is then compiled
// by the host's C++ compiler with its thread sanitizer's hooks, but linked with ours (memory.c), so
// that every access of a kernel is seen. No header of the system is included: the prelude of the
// kernels declares the integer types itself.
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __shared__      static
#define __constant__    static const
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __restrict__ // other threads write what a barrier separates
#define __align__(n) __attribute__((aligned(n)))
#define alignas(n) __attribute__((aligned(n)))

typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define SHIM_VECTOR(T, name, align1, align2, align4)                                               \
    struct name##1                                                                                 \
    {                                                                                              \
        T x;                                                                                       \
    };                                                                                             \
    struct alignas(align2) name##2                                                                 \
    {                                                                                              \
        T x, y;                                                                                    \
    };                                                                                             \
    struct name##3                                                                                 \
    {                                                                                              \
        T x, y, z;                                                                                 \
    };                                                                                             \
    struct alignas(align4) name##4                                                                 \
    {                                                                                              \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    static inline name##2 make_##name##2(T x, T y)                                                 \
    {                                                                                              \
        name##2 v = {x, y};                                                                        \
        return v;                                                                                  \
    }                                                                                              \
    static inline name##4 make_##name##4(T x, T y, T z, T w)                                       \
    {                                                                                              \
        name##4 v = {x, y, z, w};                                                                  \
        return v;                                                                                  \
    }
SHIM_VECTOR(unsigned char, uchar, 1, 2, 4)
SHIM_VECTOR(unsigned short, ushort, 2, 4, 8)
SHIM_VECTOR(int, int, 4, 8, 16)
SHIM_VECTOR(unsigned, uint, 4, 8, 16)
SHIM_VECTOR(float, float, 4, 8, 16)
SHIM_VECTOR(double, double, 8, 16, 16)
SHIM_VECTOR(long long, longlong, 8, 16, 16)
SHIM_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
#undef SHIM_VECTOR

// -- of the driver's side (grid.c, memory.c). What a thread is does not change while it runs: the
// compiler may ask once.
extern "C" {
uint3 shim_thread_index(void) __attribute__((const));
uint3 shim_block_index(void) __attribute__((const));
uint3 shim_block_dim(void) __attribute__((const));
uint3 shim_grid_dim(void) __attribute__((const));
int shim_lane(void) __attribute__((const));
void shim_sync_block(int line);
void shim_sync_some(int barrier, int threads, int line, bool wait);
void shim_sync_warp(unsigned mask);
// Which lanes of mask hold true.
unsigned shim_vote(unsigned mask, bool yes);
// The value that lane [from] of the same warp brings; every lane of mask must come.
unsigned long long shim_shuffle(unsigned mask, unsigned long long mine, int from);
// The same of all lanes at once; they stay until two meetings later.
const unsigned long long *shim_shuffle_all(unsigned mask, unsigned long long mine);
void shim_follow(void);
void shim_cluster_arrive(void);
void shim_cluster_wait(void);
unsigned shim_cluster_rank(void);
unsigned shim_cluster_size(void);
void *shim_cluster_map(void *shared, unsigned rank); // the same variable of another block
void shim_fence(void);
void shim_pause(void); // of a thread that waits for another: others run
void shim_trap(const char *why);
unsigned shim_shared_number(const void *p); // a shared variable's 32-bit address, and back
void *shim_shared_at(unsigned number);
// Reads and changes *p at once. op: '=' exchange, '+', '>' max, '<' min (signed), 'g' max, 'l' min
// (unsigned), '&', '|', '^', '?' compare with [want] and swap, 'r' read, 'w' write.
unsigned long long shim_atomic(void *p, int bytes, char op, unsigned long long v,
                               unsigned long long want);
// The same of an operation whose result may be unused: nothing is passed on without a fence; and
// what is passed on if the result is used.
unsigned long long shim_change(void *p, int bytes, char op, unsigned long long v);
void shim_changed(void *p, const void *old, int bytes);
// Copies of whole vectors that bypass the hooks' view of the caller's own variables.
void shim_copy(void *to, const void *from, size_t bytes);

float fabsf(float), sqrtf(float), cbrtf(float), expf(float), exp2f(float), exp10f(float),
    expm1f(float), logf(float), log2f(float), log10f(float), log1pf(float), sinf(float),
    cosf(float), tanf(float), asinf(float), acosf(float), atanf(float), sinhf(float), coshf(float),
    tanhf(float), erff(float), erfcf(float), floorf(float), ceilf(float), truncf(float),
    rintf(float), roundf(float), fmaf(float, float, float), powf(float, float), fmodf(float, float),
    fminf(float, float), fmaxf(float, float), copysignf(float, float), ldexpf(float, int),
    frexpf(float, int *);
double fabs(double), sqrt(double), cbrt(double), exp(double), exp2(double), expm1(double),
    log(double), log2(double), log10(double), log1p(double), sin(double), cos(double), tan(double),
    sinh(double), cosh(double), tanh(double), erf(double), erfc(double), floor(double),
    ceil(double), trunc(double), rint(double), round(double), fma(double, double, double),
    pow(double, double), fmod(double, double), fmin(double, double), fmax(double, double),
    ldexp(double, int), frexp(double, int *);
}

#define threadIdx shim_thread_index()
#define blockIdx  shim_block_index()
#define blockDim  shim_block_dim()
#define gridDim   shim_grid_dim()
#define warpSize  32

// -- barriers
#define __syncthreads() shim_sync_block(__LINE__)
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    shim_sync_warp(mask);
}
static inline void __threadfence(void)
{
    shim_fence();
}
static inline void __threadfence_block(void)
{
    shim_fence();
}
static inline void __nanosleep(unsigned)
{
    shim_pause();
}
static inline void __trap(void)
{
    shim_trap("__trap()");
}
#define __syncthreads_or(p) shim_any(p, __LINE__)
static inline int shim_any(int p, int line)
{
    // every warp's vote meets in a word of its own
    static unsigned any[33];
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned n = blockDim.x * blockDim.y * blockDim.z, r = 0;
    unsigned warp = shim_vote(0xffffffffu, p != 0);
    shim_sync_block(line);
    if (t % 32 == 0) any[t / 32] = warp;
    shim_sync_block(-1);
    for (unsigned i = 0; i < (n + 31) / 32; i++) r |= any[i];
    shim_sync_block(-1);
    return r != 0;
}

// -- warps
template <class T> static inline T shim_swap(unsigned mask, T v, int from)
{
    static_assert(sizeof(T) <= 8, "values of up to 8 bytes go between lanes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &v, sizeof(T));
    bits = shim_shuffle(mask, bits, from);
    __builtin_memcpy(&v, &bits, sizeof(T));
    return v;
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32)
{
    return shim_swap(mask, v, (shim_lane() & ~(width - 1)) | (lane & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32)
{
    int from = shim_lane() ^ by;
    return shim_swap(mask, v, from / width > shim_lane() / width ? shim_lane() : from);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, int by, int width = 32)
{
    int from = shim_lane() + by;
    return shim_swap(mask, v, from / width != shim_lane() / width ? shim_lane() : from);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, int by, int width = 32)
{
    int from = shim_lane() - by;
    return shim_swap(mask, v, from < 0 || from / width != shim_lane() / width ? shim_lane() : from);
}
static inline unsigned __ballot_sync(unsigned mask, int p)
{
    return shim_vote(mask, p != 0);
}
static inline int __any_sync(unsigned mask, int p)
{
    return shim_vote(mask, p != 0) != 0;
}
static inline int __all_sync(unsigned mask, int p)
{
    return (shim_vote(mask, p == 0)) == 0;
}
template <class T, class Op> static inline T shim_warp_reduce(unsigned mask, T v, Op op)
{
    bool first = true;
    T r = v;
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        T x = shim_swap(mask, v, i);
        r = first ? x : op(r, x);
        first = false;
    }
    return r;
}
template <class T> static inline T __reduce_add_sync(unsigned mask, T v)
{
    return shim_warp_reduce(mask, v, [](T a, T b) { return a + b; });
}
template <class T> static inline T __reduce_max_sync(unsigned mask, T v)
{
    return shim_warp_reduce(mask, v, [](T a, T b) { return a > b ? a : b; });
}
template <class T> static inline T __reduce_min_sync(unsigned mask, T v)
{
    return shim_warp_reduce(mask, v, [](T a, T b) { return a < b ? a : b; });
}

// -- bits and numbers
template <class To, class From> static inline To shim_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To r;
    __builtin_memcpy(&r, &v, sizeof r);
    return r;
}
static inline unsigned __float_as_uint(float a)
{
    return shim_bits<unsigned>(a);
}
static inline int __float_as_int(float a)
{
    return shim_bits<int>(a);
}
static inline float __uint_as_float(unsigned a)
{
    return shim_bits<float>(a);
}
static inline float __int_as_float(int a)
{
    return shim_bits<float>(a);
}
static inline long long __double_as_longlong(double a)
{
    return shim_bits<long long>(a);
}
static inline double __longlong_as_double(long long a)
{
    return shim_bits<double>(a);
}
static inline float rsqrtf(float a)
{
    return 1 / sqrtf(a);
}
static inline double rsqrt(double a)
{
    return 1 / sqrt(a);
}
static inline float __expf(float a)
{
    return expf(a);
}
static inline float __logf(float a)
{
    return logf(a);
}
static inline float __log2f(float a)
{
    return log2f(a);
}
static inline float __sinf(float a)
{
    return sinf(a);
}
static inline float __cosf(float a)
{
    return cosf(a);
}
static inline float __tanhf(float a)
{
    return tanhf(a);
}
static inline float __powf(float a, float b)
{
    return powf(a, b);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __frcp_rn(float a)
{
    return 1 / a;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline float __frsqrt_rn(float a)
{
    return 1 / sqrtf(a);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __saturatef(float a)
{
    return a > 0 ? a < 1 ? a : 1 : 0;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __clz(int a)
{
    return a ? __builtin_clz((unsigned)a) : 32;
}
static inline int __ffs(int a)
{
    return __builtin_ffs(a);
}
static inline int __popc(unsigned a)
{
    return __builtin_popcount(a);
}
static inline unsigned __brev(unsigned a)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i);
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned how)
{
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned pick = how >> 4 * i & 15, byte = (unsigned)(both >> 8 * (pick & 7)) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)((((unsigned long long)high << 32 | low) << (by & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
static inline float __uint2float_rn(unsigned a)
{
    return (float)a;
}
static inline float __int2float_rn(int a)
{
    return (float)a;
}
static inline int __float2int_rn(float a)
{
    return (int)rintf(a);
}
static inline int __float2int_rz(float a)
{
    return (int)a;
}
#define SHIM_MINMAX(T)                                                                             \
    static inline T min(T a, T b)                                                                  \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline T max(T a, T b)                                                                  \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }
SHIM_MINMAX(int)
SHIM_MINMAX(unsigned)
SHIM_MINMAX(long long)
SHIM_MINMAX(unsigned long long)
#undef SHIM_MINMAX

// -- memory
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldlu(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stcg(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stwt(T *p, T v)
{
    *p = v;
}
static inline unsigned long long __cvta_generic_to_shared(const void *p)
{
    return shim_shared_number(p);
}
static inline void *__cvta_shared_to_generic(unsigned long long n)
{
    return shim_shared_at((unsigned)n);
}
static inline unsigned long long __cvta_generic_to_global(const void *p)
{
    return (unsigned long long)p;
}

// The result of an atomic operation, which orders it only if it is used.
template <class T> struct ShimOld {
    T old, *at;
    operator T() const
    {
        shim_changed(at, &old, sizeof old);
        return old;
    }
};
#define SHIM_ATOMIC(T, name, op)                                                                   \
    static inline ShimOld<T> name(T *p, T v)                                                       \
    {                                                                                              \
        unsigned long long x = 0, r;                                                               \
        __builtin_memcpy(&x, &v, sizeof v);                                                        \
        r = shim_change(p, sizeof v, op, x);                                                       \
        __builtin_memcpy(&v, &r, sizeof v);                                                        \
        return {v, p};                                                                             \
    }
#define SHIM_ATOMICS(T, max, min)                                                                  \
    SHIM_ATOMIC(T, atomicAdd, '+')                                                                 \
    SHIM_ATOMIC(T, atomicExch, '=')                                                                \
    SHIM_ATOMIC(T, atomicMax, max)                                                                 \
    SHIM_ATOMIC(T, atomicMin, min)                                                                 \
    SHIM_ATOMIC(T, atomicAnd, '&')                                                                 \
    SHIM_ATOMIC(T, atomicOr, '|')                                                                  \
    SHIM_ATOMIC(T, atomicXor, '^')                                                                 \
    static inline T atomicCAS(T *p, T want, T v)                                                   \
    {                                                                                              \
        return (T)shim_atomic(p, sizeof v, '?', (unsigned long long)v, (unsigned long long)want);  \
    }                                                                                              \
    static inline ShimOld<T> atomicSub(T *p, T v)                                                  \
    {                                                                                              \
        return atomicAdd(p, (T)(0 - v));                                                           \
    }
SHIM_ATOMICS(int, '>', '<')
SHIM_ATOMICS(unsigned, 'g', 'l')
SHIM_ATOMICS(unsigned long long, 'g', 'l')
SHIM_ATOMIC(long long, atomicMax, '>')
SHIM_ATOMIC(long long, atomicMin, '<')
#undef SHIM_ATOMICS
#undef SHIM_ATOMIC

// -- calling a kernel with the addresses of its arguments
template <int... I> struct ShimNumbers {
};
template <int N, int... I> struct ShimCount : ShimCount<N - 1, N - 1, I...> {
};
template <int... I> struct ShimCount<0, I...> {
    typedef ShimNumbers<I...> Type;
};
template <class... A, int... I>
__attribute__((no_sanitize("thread"))) static void shim_call(void (*f)(A...), void *const *a,
                                                             ShimNumbers<I...>)
{
    f(*(A *)a[I]...);
}
template <class... A> static void shim_call(void (*f)(A...), void *const *a)
{
    shim_call(f, a, typename ShimCount<sizeof...(A)>::Type());
}
template <class... A> static const size_t *shim_sizes(void (*)(A...))
{
    static const size_t size[] = {sizeof(A)..., 0};
    return size;
}
#define SHIM_KERNEL(module, kernel)                                                                \
    extern "C" void shim_call_##module##_##kernel(void *const *a)                                  \
    {                                                                                              \
        shim_call(kernel, a);                                                                      \
    }                                                                                              \
    extern "C" const size_t *shim_sizes_##module##_##kernel(void)                                  \
    {                                                                                              \
        return shim_sizes(kernel);                                                                 \
    }
