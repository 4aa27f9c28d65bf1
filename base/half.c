// The 16-bit floats as bits (IEEE 754 binary16, and bfloat16: the upper half of binary32).
#include "base/half.h"

#include <math.h>
#include <string.h>

// 2^e as a normal double. (ldexp of the C library takes ten times as long as a multiplication.)
static double power(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// The e with |v| in [2^(e-1), 2^e), as from frexp; at most -1022 for zero and subnormal numbers.
static int exponent_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (int)(bits >> 52 & 2047) - 1022;
}

double half_round(double v, int exponent_bits)
{
    if (v == 0 || !isfinite(v)) return v;
    int bits = 16 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1, e = exponent_of(v);
    int least = 2 - bias, low = (e < least ? least : e) - bits; // exponent of the last bit that is
                                                                // kept
    double scaled = fabs(v) * power(-low);                      // below 2^bits
    double r = (scaled + 0x1p52 - 0x1p52) * power(low); // rounds to a whole number, ties to even
    double largest = (2 - power(1 - bits)) * power(bias);
    return copysign(r > largest ? INFINITY : r, v);
}

double half_value(uint16_t h, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, all = (1 << exponent_bits) - 1;
    int bias = all >> 1, e = h >> mantissa_bits & all;
    int m = h & ((1 << mantissa_bits) - 1);
    double v = e == all ? (m ? (double)NAN : (double)INFINITY)
               : e      ? (m + (1 << mantissa_bits)) * power(e - bias - mantissa_bits)
                        : m * power(1 - bias - mantissa_bits);
    return h & 0x8000 ? -v : v;
}

uint16_t half_bits(double v, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, all = (1 << exponent_bits) - 1, bias = all >> 1;
    uint32_t sign = signbit(v) ? 0x8000 : 0;
    if (v != v) return (uint16_t)(all << mantissa_bits | 1 << (mantissa_bits - 1));
    v = fabs(half_round(v, exponent_bits));
    if (isinf(v)) return (uint16_t)(sign | (uint32_t)all << mantissa_bits);
    int e = exponent_of(v) - 1;
    if (e < 1 - bias) e = 1 - bias;
    uint32_t m = (uint32_t)(v * power(mantissa_bits - e)); // exact; includes the implicit bit of
                                                           // normal numbers
    uint32_t biased = m >> mantissa_bits ? (uint32_t)(e + bias) : 0;
    return (uint16_t)(sign | biased << mantissa_bits | (m & ((1u << mantissa_bits) - 1)));
}

float half_float(uint16_t h, int exponent_bits)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;
    if (exponent_bits == HALF_F16) {
        uint32_t e = h >> 10 & 31, m = h & 1023, sign = bits & 0x80000000;
        if (!e) return (sign ? -0x1p-24f : 0x1p-24f) * (float)m;
        bits = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}

uint16_t half_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return (uint16_t)(bits >> 16 | 64); // quiet NaN
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t half_f16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    if (x > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (x >> 13 & 0x3ff)); // quiet NaN
    if (x >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // 65520 and above overflow
    if (x < 0x38800000) { // subnormal: adding 0.5 rounds to multiples of 2^-24
        float m = fabsf(v) + 0.5f;
        memcpy(&x, &m, sizeof x);
        return (uint16_t)(sign | (x - 0x3f000000));
    }
    return (uint16_t)(sign | (x + 0xfff + (x >> 13 & 1) - 0x38000000) >> 13);
}

int64_t half_narrow(void *data, int64_t n, int exponent_bits)
{
    int64_t bad = -1;
    char *p = data;
    uint32_t all = exponent_bits == HALF_F16 ? 0x7c00 : 0x7f80;
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, p + 4 * i, sizeof v);
        uint16_t bits = exponent_bits == HALF_F16 ? half_f16(v) : half_bf16(v);
        if (bad < 0 && (bits & all) == all && isfinite(v)) bad = i;
        memcpy(p + 2 * i, &bits, sizeof bits);
    }
    return bad;
}
