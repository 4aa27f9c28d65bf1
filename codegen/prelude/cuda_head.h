// netc prelude, CUDA C: types without headers, functions of one element, teams of threads.
#pragma nv_diag_suppress 177, 186 // unused names, comparisons that are constant for some shapes
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

#define NC_FN  static __device__ __forceinline__
#define NC_INF (__int_as_float(0x7f800000))
#define NC_NAN (__int_as_float(0x7fc00000))

NC_FN uint32_t nc_bits(float a) { return __float_as_uint(a); }
NC_FN float nc_from_bits(uint32_t u) { return __uint_as_float(u); }

// a * b + c, rounded once; NC_MADF: for the prelude itself. (Contraction is off, so that the compiler
// does not decide this.)
#define NC_MADF(a, b, c) __fmaf_rn(a, b, c)
NC_FN float nc_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
NC_FN double nc_fma(double a, double b, double c) { return __fma_rn(a, b, c); }

// Half precision as bits. To float: exact; from float: to nearest, ties to even.
NC_FN float nc_h2f(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
NC_FN uint16_t nc_f2h(float a)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(a));
    return h;
}
NC_FN float nc_b2f(uint16_t h) { return nc_from_bits((uint32_t)h << 16); }
NC_FN uint16_t nc_f2b(float a)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(a));
    return h;
}
NC_FN float nc_round_bf16(float a) // as the upper half of a pair, which is one fast instruction
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(a), "f"(0.0f));
    return nc_from_bits(pair);
}

// Elements of arrays in user-written text, which reads and writes them as floats.
struct nc_f16 {
    uint16_t bits;
    nc_f16() = default;
    __device__ __forceinline__ nc_f16(float a) : bits(nc_f2h(a)) {}
    __device__ __forceinline__ operator float() const { return nc_h2f(bits); }
};
struct nc_bf16 {
    uint16_t bits;
    nc_bf16() = default;
    __device__ __forceinline__ nc_bf16(float a) : bits(nc_f2b(a)) {}
    __device__ __forceinline__ operator float() const { return nc_b2f(bits); }
};

NC_FN float nc_round_f16(float a) { return nc_h2f(nc_f2h(a)); }

// NaN wins.
NC_FN float nc_min_f(float a, float b)
{
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
NC_FN float nc_max_f(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

NC_FN float nc_exp_f(float a) { return expf(a); }
NC_FN float nc_log_f(float a) { return logf(a); }
NC_FN float nc_expm1_f(float a) { return expm1f(a); }
NC_FN float nc_log1p_f(float a) { return log1pf(a); }
NC_FN float nc_tanh_f(float a) { return tanhf(a); }
NC_FN float nc_erf_f(float a) { return erff(a); }
NC_FN float nc_rsqrt_f(float a) { return rsqrtf(a); }
// Square root and quotient without the math library's branches for special cases, among which are zeros,
// frequent in gradients and moments. The root is correctly rounded, the quotient within 1 ulp, and
// correctly rounded unless a number is tiny or huge.
NC_FN float nc_sqrt_f(float a)
{
    const bool tiny = a < 0x1p-96f;
    const float x = tiny ? a * 0x1p96f : a;
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    const float root = x * r, better = fmaf(fmaf(-root, root, x), 0.5f * r, root);
    return a == 0 || a == NC_INF ? a : tiny ? better * 0x1p-48f : better;
}
NC_FN float nc_div_f(float a, float b)
{
    const float m = fabsf(b), scale = m < 0x1p-64f ? 0x1p64f : m > 0x1p64f ? 0x1p-64f : 1.0f;
    const float x = a * scale, y = b * scale;
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    const float rough = x * r;
    r = fmaf(fmaf(-y, r, 1.0f), r, r);
    const float q = x * r, better = fmaf(fmaf(-y, q, x), r, q);
    return better == better && rough != 0 ? better : rough; // infinity, NaN, zero and its sign
}
NC_FN float nc_sigmoid_f(float a) { return 1 / (1 + expf(-a)); }

// For results that end as 16-bit floats: within 2^-16 of the result, or of 1 where the function
// is bounded by 1 and the argument is not small; results below 2^-126 may be 0. Docs: kernels.md.
NC_FN float nc_exp2_16(float a)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
NC_FN float nc_rcp_16(float a)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
NC_FN float nc_exp_16(float a) { return nc_exp2_16(a * 1.44269504f); }
NC_FN float nc_sigmoid_16(float a) { return nc_rcp_16(1 + nc_exp2_16(a * -1.44269504f)); }
NC_FN float nc_tanh_16(float a) // near 0 a polynomial, so that small results keep their digits
{
    float z = a * a, far = nc_fma(-2.0f, nc_rcp_16(1 + nc_exp2_16(a * 2.88539008f)), 1.0f);
    float p = nc_fma(-0.0443927384f, z, 0.131899394f);
    float near = a * nc_fma(nc_fma(p, z, -0.333262842f), z, 0.999999451f);
    return z < 0.25f ? near : far;
}
NC_FN float nc_div_16(float a, float b)
{
    float r;
    asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

// Many divisions by one number: one reciprocal, and for each quotient two products and a correction.
// Quotients that are exact floats come out exactly (floor(x / y) relies on this), others within 1 ulp.
// The scale keeps the reciprocal finite and normal. Like all these functions it has no branch, which
// would keep later loads from being issued.
struct NcInverse {
    float scale, by, of; // by: the scaled number; of: its reciprocal
};
NC_FN NcInverse nc_inverse(float b)
{
    float m = fabsf(b), scale = m > 0x1p126f ? 0x1p-4f : m < 0x1p-100f ? 0x1p48f : 1.0f;
    float x = b * scale, r = nc_rcp_16(x), better = fmaf(fmaf(-x, r, 1.0f), r, r);
    return NcInverse{scale, x, better == better ? better : r}; // for 0 and infinity r is exact
}
NC_FN float nc_divide(float a, NcInverse b)
{
    float x = a * b.scale, q = x * b.of, better = fmaf(fmaf(-q, b.by, x), b.of, q);
    return better == better && q != 0 ? better : q; // infinities; the sign of zero
}

// The quotient of an integer by a constant that is neither tiny nor huge, correctly rounded.
NC_FN float nc_divide_whole_by(float a, float b, float inverse)
{
    float q = a * inverse;
    return fmaf(fmaf(-q, b, a), inverse, q);
}
// The same for any number, correctly rounded unless the quotient is tiny or huge.
NC_FN float nc_divide_by(float a, float b, float inverse)
{
    float q = a * inverse, size = fabsf(q);
    return size > 0x1p-100f && size < 0x1p100f ? nc_divide_whole_by(a, b, inverse) : q;
}

// The maximum and the minimum of a float and what lies at p. The bits of floats of one sign are in
// the order of their sizes. The first value at p must not be NaN; any other NaN remains. A load is
// several times as fast as an atomic operation, and of many updates few change what lies at p.
#define NC_ATOMIC_FLOAT(F, S, U, bits_of)                                                          \
    NC_FN void nc_atomicMax(F *p, F v)                                                             \
    {                                                                                              \
        const S bits = v == v ? (S)bits_of(v) : (S)((U)-1 >> 1), old = *(volatile S *)p;           \
        if (bits >= 0 && bits > old) atomicMax((S *)p, bits);                                      \
        else if (bits < 0 && (U)bits < (U)old) atomicMin((U *)p, (U)bits);                         \
    }                                                                                              \
    NC_FN void nc_atomicMin(F *p, F v)                                                             \
    {                                                                                              \
        const S bits = v == v ? (S)bits_of(v) : (S)-1, old = *(volatile S *)p;                     \
        if (bits >= 0 && bits < old) atomicMin((S *)p, bits);                                      \
        else if (bits < 0 && (U)bits > (U)old) atomicMax((U *)p, (U)bits);                         \
    }
NC_ATOMIC_FLOAT(float, int, unsigned, __float_as_int)
NC_ATOMIC_FLOAT(double, long long, unsigned long long, __double_as_longlong)

NC_FN bool nc_first(uint32_t *code, uint32_t want) { return atomicCAS(code, 0u, want) == 0; }

NC_FN double nc_sin_d(double a) { return sin(a); }
NC_FN double nc_cos_d(double a) { return cos(a); }
NC_FN double nc_pow_d(double a, double b) { return pow(a, b); }
// From here on CUDA's functions reduce their argument in a loop over memory of the thread. That is a
// call: inlined for each element, it would be most of a kernel, and of the time to compile it. (The
// compiler leaves the loop out of the second call, behind the comparison that it begins with.)
__device__ __noinline__ float nc_sin_far(float a) { return sinf(a); }
__device__ __noinline__ float nc_cos_far(float a) { return cosf(a); }
NC_FN float nc_sin_f(float a) { return fabsf(a) >= 105615.0f ? nc_sin_far(a) : sinf(a); }
NC_FN float nc_cos_f(float a) { return fabsf(a) >= 105615.0f ? nc_cos_far(a) : cosf(a); }
NC_FN double nc_exp_d(double a) { return exp(a); }
NC_FN double nc_expm1_d(double a) { return expm1(a); }
NC_FN double nc_log_d(double a) { return log(a); }
NC_FN double nc_log1p_d(double a) { return log1p(a); }
NC_FN double nc_tanh_d(double a) { return tanh(a); }
NC_FN double nc_erf_d(double a) { return erf(a); }
NC_FN float nc_pow_f(float a, float b) { return powf(a, b); }
