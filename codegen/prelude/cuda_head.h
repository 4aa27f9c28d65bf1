// netc prelude, CUDA C: types without headers, one-element math, teams of threads.
#pragma nv_diag_suppress 177, 186 // unused names, comparisons that shapes decide
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

NC_FN uint32_t nc_bits(float a)
{
    return __float_as_uint(a);
}
NC_FN float nc_from_bits(uint32_t u)
{
    return __uint_as_float(u);
}

// Half precision as bits. To float exactly; from float to nearest, ties to even.
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
NC_FN float nc_b2f(uint16_t h)
{
    return nc_from_bits((uint32_t)h << 16);
}
NC_FN uint16_t nc_f2b(float a)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(a));
    return h;
}

NC_FN float nc_exp_f(float a)
{
    return expf(a);
}
NC_FN float nc_log_f(float a)
{
    return logf(a);
}
NC_FN float nc_expm1_f(float a)
{
    return expm1f(a);
}
NC_FN float nc_log1p_f(float a)
{
    return log1pf(a);
}
NC_FN float nc_tanh_f(float a)
{
    return tanhf(a);
}
NC_FN float nc_erf_f(float a)
{
    return erff(a);
}
NC_FN float nc_sigmoid_f(float a)
{
    return 1 / (1 + expf(-a));
}
NC_FN float nc_sqrt_f(float a)
{
    return sqrtf(a);
}
NC_FN double nc_sqrt_d(double a)
{
    return sqrt(a);
}
NC_FN float nc_rsqrt_f(float a)
{
    return 1 / sqrtf(a);
}
NC_FN double nc_rsqrt_d(double a)
{
    return 1 / sqrt(a);
}
NC_FN float nc_sin_f(float a)
{
    return sinf(a);
}
NC_FN float nc_cos_f(float a)
{
    return cosf(a);
}
NC_FN float nc_pow_f(float a, float b)
{
    return powf(a, b);
}
NC_FN float nc_fmod_f(float a, float b)
{
    return fmodf(a, b);
}
NC_FN float nc_floor_f(float a)
{
    return floorf(a);
}
NC_FN float nc_ceil_f(float a)
{
    return ceilf(a);
}
NC_FN float nc_round_f(float a)
{
    return rintf(a);
}
NC_FN double nc_exp_d(double a)
{
    return exp(a);
}
NC_FN double nc_expm1_d(double a)
{
    return expm1(a);
}
NC_FN double nc_log_d(double a)
{
    return log(a);
}
NC_FN double nc_log1p_d(double a)
{
    return log1p(a);
}
NC_FN double nc_sin_d(double a)
{
    return sin(a);
}
NC_FN double nc_cos_d(double a)
{
    return cos(a);
}
NC_FN double nc_tanh_d(double a)
{
    return tanh(a);
}
NC_FN double nc_erf_d(double a)
{
    return erf(a);
}
NC_FN double nc_pow_d(double a, double b)
{
    return pow(a, b);
}
NC_FN double nc_fmod_d(double a, double b)
{
    return fmod(a, b);
}
NC_FN double nc_floor_d(double a)
{
    return floor(a);
}
NC_FN double nc_ceil_d(double a)
{
    return ceil(a);
}
NC_FN double nc_round_d(double a)
{
    return rint(a);
}

NC_FN bool nc_first(uint32_t *code, uint32_t want)
{
    return atomicCAS(code, 0u, want) == 0;
}
