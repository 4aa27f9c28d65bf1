// Elements of the types that matrix libraries compute with (LT_*), as doubles.
#ifndef SHIM_ELEMENT_H
#define SHIM_ELEMENT_H

#include <math.h>
#include <string.h>

#include "runtime/cuda/cuda_api.h"

static inline float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline size_t width(int type)
{
    return type == LT_F64 ? 8 : type == LT_F32 ? 4 : 2;
}

static inline double get(int type, const void *p, int64_t i)
{
    const uint16_t *h = p;
    if (type == LT_F64) return ((const double *)p)[i];
    if (type == LT_F32) return ((const float *)p)[i];
    if (type == LT_BF16) return from_bits((uint32_t)h[i] << 16);
    int e = h[i] >> 10 & 31;
    double m = h[i] & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h[i] >> 15 ? -v : v;
}

static inline uint16_t half(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    if (isnan(v)) return 0x7fff;
    if (a == 0) return sign;
    if (a >= 65520) return sign | 0x7c00;
    int e = 0;
    if (a > 0) frexp(a, &e);
    if (e < -13) e = -13;
    double unit = ldexp(1, e - 11), n = nearbyint(a / unit);
    uint32_t h = e == -13 ? (uint32_t)n : (uint32_t)((e + 13) << 10) + (uint32_t)n;
    return (uint16_t)(sign | h);
}

static inline void put(int type, void *p, int64_t i, double v)
{
    if (type == LT_F64) {
        ((double *)p)[i] = v;
    } else if (type == LT_F32) {
        ((float *)p)[i] = (float)v;
    } else if (type == LT_BF16) {
        uint32_t u = bits((float)v);
        ((uint16_t *)p)[i] = (uint16_t)(isnan(v) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
    } else {
        ((uint16_t *)p)[i] = half(v);
    }
}

#endif
