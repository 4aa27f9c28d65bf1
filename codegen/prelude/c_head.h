// netc prelude, C: types, functions of one element that compilers vectorise, and parallel loops.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NC_FN  static inline __attribute__((unused, always_inline))
// A long function that is called, not inlined, where a loop needs it many times; in a vectorised loop, a
// copy for vectors is called. (clang makes no such copies.)
#if defined __clang__
#define NC_CALLED NC_FN
#else
#define NC_CALLED _Pragma("omp declare simd notinbranch") static __attribute__((unused, noinline, const))
#endif
#define NC_LINES __attribute__((aligned(64))) // arrays for vector accesses are aligned to cache lines
// A function with a kernel's loops. The compiler must not analyse it for its callers: gcc 12.2 finds that
// some that read forwards and backwards write nothing, and drops the call.
#if defined __clang__
#define NC_BODY __attribute__((noinline)) static
__attribute__((weak)) const char nc_compiler[] = __VERSION__;
#else
#define NC_BODY __attribute__((noipa)) static
__attribute__((weak)) const char nc_compiler[] = "gcc " __VERSION__;
#endif

// An index that is computed from a condition (x[y > 0.5f ? 1 : 0]), hidden from the compiler: gcc 12.2
// vectorises loads at such an index with the mask in place of the index. Or the stride of neighbouring
// columns, of which gcc would make a group as wide as the stride.
NC_FN long nc_place(long i)
{
    __asm__("" : "+r"(i));
    return i;
}
#define NC_INF (__builtin_inff())
#define NC_NAN (__builtin_nanf(""))

typedef struct NcPar {
    void (*run)(void *ctx, long n, void (*body)(void *arg, long begin, long end), void *arg);
    void *ctx;
} NcPar;

#ifdef _OPENMP
int omp_get_thread_num(void);
int omp_get_num_threads(void);
#endif

// Groups of neighbouring tasks (units), each run as one task.
typedef struct NcUnits {
    void (*body)(void *arg, long begin, long end);
    void *arg;
    long n, units;
} NcUnits;
__attribute__((unused)) static void nc_units(void *arg, long begin, long end)
{
    const NcUnits *u = arg;
    u->body(u->arg, u->n * begin / u->units, u->n * end / u->units);
}

// Runs body over 0..n, on several threads if [work] (roughly the number of element operations) is worth
// a fork; as many as have enough work.
__attribute__((unused)) static void nc_parallel(const NcPar *par, long n, double work,
                                                void (*body)(void *, long, long), void *arg)
{
    if (n < 2 || work < 400000) {
        body(arg, 0, n);
        return;
    }
    NcUnits u = {body, arg, n, work < 4e8 ? (long)(work / 1e5) : 4000};
    if (par && u.units < n) {
        par->run(par->ctx, u.units, nc_units, &u);
        return;
    }
    if (par) {
        par->run(par->ctx, n, body, arg);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel
    {
        long t = omp_get_thread_num(), all = omp_get_num_threads();
        body(arg, n * t / all, n * (t + 1) / all);
    }
#else
    body(arg, 0, n);
#endif
}

// For a parallel loop over the units of several bodies, one of which has [units] units from [first]
// on: runs those of its n tasks that fall into begin..end.
__attribute__((unused)) static void nc_share(long begin, long end, long first, long units, long n,
                                             void (*body)(void *, long, long), void *arg)
{
    long from = begin > first ? begin - first : 0,
         to = end - first < units ? end - first : units;
    if (from < to && n * from / units < n * to / units)
        body(arg, n * from / units, n * to / units);
}

NC_FN uint32_t nc_bits(float a)
{
    uint32_t u;
    memcpy(&u, &a, 4);
    return u;
}
NC_FN float nc_from_bits(uint32_t u)
{
    float a;
    memcpy(&a, &u, 4);
    return a;
}

// a * b + c, rounded once. NC_MADD, NC_MADF, for the prelude itself: rounded once if there is an instruction
// for it, otherwise twice. (Contraction is off, so that compilers do not decide this.)
NC_FN float nc_fma_f(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
NC_FN double nc_fma_d(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if defined __FMA__ || defined __aarch64__
#define NC_MADD(a, b, c) __builtin_fma(a, b, c)
#define NC_MADF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define NC_MADD(a, b, c) ((a) * (b) + (c))
#define NC_MADF(a, b, c) ((a) * (b) + (c))
#endif

// Quotients by a constant that is neither tiny nor huge, with its rounded inverse: of an integer, and of
// any number. They are correctly rounded, except for tiny and huge quotients.
#if defined __FMA__ || defined __aarch64__
NC_FN float nc_divide_whole_by(float a, float b, float inverse)
{
    float q = a * inverse;
    return nc_fma_f(nc_fma_f(-q, b, a), inverse, q);
}
NC_FN float nc_divide_by(float a, float b, float inverse)
{
    float q = a * inverse, better = nc_fma_f(nc_fma_f(-q, b, a), inverse, q);
    float size = nc_from_bits(nc_bits(q) & 0x7fffffffu);
    return (size > 0x1p-100f) & (size < 0x1p100f) ? better : q;
}
#else
NC_FN float nc_divide_whole_by(float a, float b, float inverse) { return a / b; }
NC_FN float nc_divide_by(float a, float b, float inverse) { return a / b; }
#endif

// Half precision as bits. To float: exact; from float: to nearest, ties to even. A NaN becomes quiet and
// keeps its first digits, as in processors' conversions (c_half.h).
NC_FN float nc_h2f(uint16_t h)
{
    uint32_t w = (uint32_t)(h & 0x7fff) << 13 | ((h & 0x7fff) >= 0x7c00 ? 0x7f800000u : 0);
    float f = nc_from_bits(w) * 0x1p112f; // also makes NaN quiet
    return nc_from_bits(nc_bits(f) | (uint32_t)(h & 0x8000) << 16);
}
NC_FN uint16_t nc_f2h(float a)
{
    uint32_t u = nc_bits(a), x = u & 0x7fffffffu;
    uint32_t tiny = nc_bits(nc_from_bits(x) + 0.5f) - 0x3f000000u;
    uint32_t normal = (x + 0xc8000fffu + (x >> 13 & 1)) >> 13;
    uint32_t big = x > 0x7f800000u ? (x >> 13 & 0x1ffu) | 0x7e00u : 0x7c00u;
    uint32_t h = x >= 0x47800000u ? big : x < 0x38800000u ? tiny : normal;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}
// nc_h2f(nc_f2h(a)) by arithmetic: adding and subtracting 1.5 * 2^13 times a's power of two (at least that
// of the smallest normal half) drops the digits that a half does not have.
NC_FN float nc_round_f16(float a)
{
    uint32_t u = nc_bits(a), e = u & 0x7f800000u, x = u & 0x7fffffffu;
    float c = nc_from_bits((e > 0x38800000u ? e : 0x38800000u) + 0x06c00000u), r = a + c - c;
    r = x < 0x477ff000u ? r : a * 0x1p127f;
    return nc_from_bits(nc_bits(r) | (u & 0x80000000u)); // also of -0
}
NC_FN float nc_b2f(uint16_t h) { return nc_from_bits((uint32_t)h << 16); }
// The float whose upper 16 bits are the rounded number. (NaN keeps its digits: with one constant for all
// NaNs, gcc 12 would branch on it and not vectorise.)
NC_FN uint32_t nc_rounded_b(float a)
{
    uint32_t u = nc_bits(a), r = u + 0x7fffu + (u >> 16 & 1);
    return a != a ? u | 0x400000u : r;
}
NC_FN uint16_t nc_f2b(float a) { return (uint16_t)(nc_rounded_b(a) >> 16); }
NC_FN float nc_round_bf16(float a) { return nc_from_bits(nc_rounded_b(a) & 0xffff0000u); }

// NaN wins.
NC_FN float nc_min_f(float a, float b)
{
    float c = a < b ? a : b;
    return a != a ? a : c;
}
NC_FN float nc_max_f(float a, float b)
{
    float c = a > b ? a : b;
    return a != a ? a : c;
}
// A step of argmax, with masks, because compilers do not vectorise a choice by several comparisons. All
// bits if best stays the largest after x (NaN counts as largest, and the first one stays), or none.
NC_FN int32_t nc_stays_f(float best, float x) { return -(x <= best) | -(best != best); }
NC_FN int32_t nc_either_i(int32_t mask, int32_t a, int32_t b) { return (a & mask) | (b & ~mask); }
NC_FN float nc_either_f(int32_t mask, float a, float b)
{
    return nc_from_bits((uint32_t)nc_either_i(mask, (int32_t)nc_bits(a), (int32_t)nc_bits(b)));
}
// An integer whose order is that of the values, with NaN last; and back.
NC_FN int32_t nc_order_f(float a)
{
    int32_t u = (int32_t)nc_bits(a), k = u ^ (u >> 31 & INT32_MAX);
    return a != a ? INT32_MAX : k;
}
NC_FN float nc_in_order_f(int32_t k) { return nc_from_bits((uint32_t)(k ^ (k >> 31 & INT32_MAX))); }
// The same for the bits of 16-bit floats, with NaN anywhere after infinity: subtracting [digits] makes
// negative NaNs, which would come before minus infinity, wrap around to the end.
#define NC_ORDER_16(s, digits, wide)                                                               \
    NC_FN int16_t nc_order_##s(uint16_t u)                                                         \
    {                                                                                              \
        return (int16_t)((u ^ ((int16_t)u >> 15 & INT16_MAX)) - digits);                           \
    }                                                                                              \
    NC_FN float nc_in_order_##s(int16_t k)                                                         \
    {                                                                                              \
        int16_t u = (int16_t)(k + digits);                                                         \
        return wide((uint16_t)(u ^ (u >> 15 & INT16_MAX)));                                        \
    }
NC_ORDER_16(h, 0x3ff, nc_h2f)
NC_ORDER_16(b, 0x7f, nc_b2f)
NC_FN int16_t nc_max_s(int16_t a, int16_t b) { return a > b ? a : b; }

// For z = n + 1.5 * 2^23, whose low digits are n: 2^floor(n / 2), and 2^n divided by that.
NC_FN float nc_half_scale(float z) { return nc_from_bits((nc_bits(z) >> 1 << 23) + 0x3f800000u); }
NC_FN float nc_other_scale(float z)
{
    uint32_t n = nc_bits(z);
    return nc_from_bits(((n - (n >> 1)) << 23) + 0x3f800000u);
}
// The ranges to which functions clamp their arguments. Weak, so that the compiler does not know the
// numbers: gcc 12.2 would compute the function for each limit and select among the results, with nine
// instructions instead of two.
__attribute__((weak)) const float nc_range_exp_f[2] = {-176, 89}, nc_range_tanh_f[2] = {-10, 10};
NC_FN float nc_within_f(float a, const float *range)
{
    float x = a > range[1] ? range[1] : a;
    return x < range[0] ? range[0] : x;
}
// For x = n ln2 + r with |r| <= ln2 / 2: e^r - 1, by a polynomial in r; *z contains n (nc_half_scale).
// Pairs of coefficients are evaluated independently of each other.
NC_FN float nc_exp_parts_f(float x, float *z)
{
    *z = NC_MADF(x, 1.44269504f, 12582912.0f);
    float k = *z - 12582912.0f;
    float r = NC_MADF(k, -0.693359375f, x);
    r = NC_MADF(k, 2.12194440e-4f, r);
    float v = r * r;
    float p = NC_MADF(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = NC_MADF(p, v, NC_MADF(8.3334519073e-3f, r, 4.1665795894e-2f));
    p = NC_MADF(p, v, NC_MADF(1.6666665459e-1f, r, 5.0000001201e-1f));
    return NC_MADF(p, v, r);
}
// e^a within about 1 ulp: 1 + (e^r - 1), scaled by 2^n in two steps so that subnormal results are
// right. For much smaller results, as of masked values, both factors are 0, because processors are
// slow at products that underflow.
NC_FN float nc_exp_f(float a)
{
    float z, p = nc_exp_parts_f(nc_within_f(a, nc_range_exp_f), &z) + 1.0f;
    return p * nc_half_scale(z) * nc_other_scale(z);
}
NC_FN float nc_log_f(float a)
{
    float x = a < 1.17549435e-38f ? a * 8388608.0f : a;
    uint32_t u = nc_bits(x) + (0x3f800000u - 0x3f3504f3u); // a = 2^k (1 + m), 1 + m >= sqrt(1/2)
    float k = (float)((int32_t)(u >> 23) - (a < 1.17549435e-38f ? 127 + 23 : 127));
    float m = nc_from_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float z = m * m, p = 7.0376836292e-2f;
    p = NC_MADF(p, m, -1.1514610310e-1f);
    p = NC_MADF(p, m, 1.1676998740e-1f);
    p = NC_MADF(p, m, -1.2420140846e-1f);
    p = NC_MADF(p, m, 1.4249322787e-1f);
    p = NC_MADF(p, m, -1.6668057665e-1f);
    p = NC_MADF(p, m, 2.0000714765e-1f);
    p = NC_MADF(p, m, -2.4999993993e-1f);
    p = NC_MADF(p, m, 3.3333331174e-1f);
    float y = NC_MADF(m * z, p, k * -2.12194440e-4f);
    y = NC_MADF(z, -0.5f, y);
    y = m + y;
    y = NC_MADF(k, 0.693359375f, y);
    y = a == 0 ? -NC_INF : y;
    y = a == NC_INF ? a : y;
    return a < 0 || a != a ? NC_NAN : y;
}
NC_FN float nc_expm1_f(float a)
{
    float p = NC_MADF(a, 1.0f / 10, 1);
    p = NC_MADF(a * (1.0f / 9), p, 1);
    p = NC_MADF(a * (1.0f / 8), p, 1);
    p = NC_MADF(a * (1.0f / 7), p, 1);
    p = NC_MADF(a * (1.0f / 6), p, 1);
    p = NC_MADF(a * (1.0f / 5), p, 1);
    p = NC_MADF(a * (1.0f / 4), p, 1);
    p = NC_MADF(a * (1.0f / 3), p, 1);
    p = NC_MADF(a * (1.0f / 2), p, 1);
    float far = nc_exp_f(a) - 1;
    return a > -0.5f && a < 0.5f ? a * p : far;
}
NC_FN float nc_log1p_f(float a)
{
    float u = 1 + a, y = nc_log_f(u) * (a / (u - 1));
    y = u == 1 ? a : y;
    return u == NC_INF ? u : y;
}
// e / (e + 2) with e = exp(2 |a|) - 1, which is 2^n (e^r - 1) + (2^n - 1).
NC_FN float nc_tanh_f(float a)
{
    float x = nc_from_bits(nc_bits(a) & 0x7fffffffu), z;
    x = x > nc_range_tanh_f[1] ? nc_range_tanh_f[1] : x;
    float p = nc_exp_parts_f(x + x, &z), scale = nc_from_bits((nc_bits(z) << 23) + 0x3f800000u);
    float e = NC_MADF(p, scale, scale - 1);
    return nc_from_bits(nc_bits(e / (e + 2)) | (nc_bits(a) & 0x80000000u));
}
NC_FN float nc_sigmoid_f(float a)
{
    float e = nc_exp_f(nc_from_bits(nc_bits(a) | 0x80000000u));
    return (a < 0 ? e : 1) / (1 + e);
}
NC_FN float nc_sqrt_f(float a) { return sqrtf(a); }
#if defined __FMA__ || defined __aarch64__
// An estimate from half the exponent and two iterations, of second and of third order; within 1 ulp. A
// square root and a division take three times as long, and are within 1.5 ulp.
NC_FN float nc_rsqrt_f(float a)
{
    bool tiny = a < 0x1p-126f;
    float x = tiny ? a * 0x1p24f : a, y = nc_from_bits(0x5f1ffff9u - (nc_bits(x) >> 1));
    y = y * 0.703952253f * nc_fma_f(-x * y, y, 2.38924456f);
    float e = nc_fma_f(-x * y, y, 1);
    y = nc_fma_f(y * e, nc_fma_f(e, 0.375f, 0.5f), y);
    y = tiny ? y * 0x1p12f : y;
    y = a == 0 ? nc_from_bits(0x7f800000u | nc_bits(a)) : y; // -0 gives minus infinity
    y = a == NC_INF ? 0 : y;
    return a >= 0 ? y : NC_NAN;
}
#else
NC_FN float nc_rsqrt_f(float a) { return 1 / sqrtf(a); }
#endif

NC_FN bool nc_first(uint32_t *code, uint32_t want)
{
    uint32_t none = 0;
    return __atomic_compare_exchange_n(code, &none, want, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
