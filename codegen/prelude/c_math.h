// netc prelude, C: functions without branches, tables or calls, so that loops over them become
// vectors; an element has the same bits in a vector as alone. Polynomials: tools/minimax.py; errors
// over all arguments: tests/unit/codegen_math.c.

NC_FN uint64_t nc_bits_d(double a)
{
    uint64_t u;
    memcpy(&u, &a, 8);
    return u;
}
NC_FN double nc_from_bits_d(uint64_t u)
{
    double a;
    memcpy(&a, &u, 8);
    return a;
}
NC_FN int64_t nc_order_d(double a)
{
    int64_t u = (int64_t)nc_bits_d(a), k = u ^ (u >> 63 & INT64_MAX);
    return a != a ? INT64_MAX : k;
}
NC_FN double nc_in_order_d(int64_t k)
{
    return nc_from_bits_d((uint64_t)(k ^ (k >> 63 & INT64_MAX)));
}
NC_FN double nc_size_d(double a) { return nc_from_bits_d(nc_bits_d(a) & 0x7fffffffffffffffull); }
NC_FN double nc_signed_d(double size, double a) // with the sign of a
{
    return nc_from_bits_d(nc_bits_d(size) | (nc_bits_d(a) & 0x8000000000000000ull));
}
// The integer u < 2^52, without an instruction that converts vectors of 64 bits.
NC_FN double nc_whole_d(uint64_t u)
{
    return nc_from_bits_d(u | 0x4330000000000000ull) - 0x1p52;
}

// Of six words the one that stands j behind the first.
#define NC_WORD(j, w0, w1, w2, w3, w4, w5)                                                         \
    ((j) < 3 ? (j) < 1 ? w0 : (j) < 2 ? w1 : w2 : (j) < 4 ? w3 : (j) < 5 ? w4 : w5)

// sin(|a| + turn * pi / 2), less its sign; *turn: in which quarter turn that is. |a| = m * 2^e with m
// of 24 bits: the bits of 2 / pi that m meets between 2 and 2^-62 quarter turns, and 32 more, are
// multiplied with m as integers, so that the remainder is right however large a is.
NC_FN float nc_turned_f(float a, uint32_t *turn)
{
    const uint32_t b0 = 0xa2f9836e, b1 = 0x4e441529, b2 = 0xfc2757d1, b3 = 0xf534ddc0, // 2 / pi
        b4 = 0xdb629599, b5 = 0x3c439041, b6 = 0xfe5163ab;
    uint32_t u = nc_bits(a) & 0x7fffffffu, m = (u & 0x7fffffu) | 0x800000u;
    int32_t e = (int32_t)(u >> 23), up = e < 88 ? 0 : e - 88, j = up >> 5, by = up & 31;
    uint32_t v0 = NC_WORD(j, 0, 0, b0, b1, b2, b3), v1 = NC_WORD(j, 0, b0, b1, b2, b3, b4),
             v2 = NC_WORD(j, b0, b1, b2, b3, b4, b5), v3 = NC_WORD(j, b1, b2, b3, b4, b5, b6);
    uint32_t w0 = v0 << by | v1 >> 1 >> (31 - by), w1 = v1 << by | v2 >> 1 >> (31 - by),
             w2 = v2 << by | v3 >> 1 >> (31 - by);
    uint64_t at = (uint64_t)m * w1 + ((uint64_t)m * w2 >> 32); // quarter turns * 2^62, less whole
    uint32_t high = (uint32_t)(at >> 32) + m * w0, quarter = (high + 0x20000000u) >> 30;
    int32_t rest = (int32_t)(high - (quarter << 30)), below = (int32_t)((uint32_t)at >> 1);
    float r = (float)(((double)rest * 0x1p31 + (double)below) * 0x1.921fb54442d18p-61);
    r = u < 0x3f400000u ? nc_from_bits(u) : r;
    float z = r * r;
    float p = -0.0001951726648f;
    p = NC_MADF(p, z, 0.008332177913f);
    p = NC_MADF(p, z, -0.1666665494f);
    float s = NC_MADF(r * z, p, r);
    float q = 2.443842563e-5f;
    q = NC_MADF(q, z, -0.001388736731f);
    q = NC_MADF(q, z, 0.04166664686f);
    float c = NC_MADF(z * z, q, NC_MADF(z, -0.5f, 1.0f));
    *turn += quarter;
    s = *turn & 1 ? c : s;
    return u < 0x7f800000u ? s : NC_NAN;
}
NC_FN float nc_sin_f(float a)
{
    uint32_t turn = 0;
    float s = nc_turned_f(a, &turn);
    return nc_from_bits(nc_bits(s) ^ (turn & 2) << 30 ^ (nc_bits(a) & 0x80000000u));
}
NC_FN float nc_cos_f(float a)
{
    uint32_t turn = 1;
    float s = nc_turned_f(a, &turn);
    return nc_from_bits(nc_bits(s) ^ (turn & 2) << 30);
}

// a = k ln2 + r: *k as a number and, in the low bits of what is returned, as an integer; e^r - 1.
NC_FN uint64_t nc_exp_parts_d(double a, double *k, double *p)
{
    double z = NC_MADD(a, 0x1.71547652b82fep0, 0x1.8p52);
    *k = z - 0x1.8p52;
    double r = NC_MADD(*k, -0x1.62e42feep-1, a);
    r = NC_MADD(*k, -0x1.a39ef35793c76p-33, r);
    double q = 0x1.1f9db82bcca71p-29;
    q = NC_MADD(q, r, 0x1.af6cccafc7e61p-26);
    q = NC_MADD(q, r, 0x1.27e4bf57e136bp-22);
    q = NC_MADD(q, r, 0x1.71ddef93ef14dp-19);
    q = NC_MADD(q, r, 0x1.a01a01b440d1fp-16);
    q = NC_MADD(q, r, 0x1.a01a01b3bb0e1p-13);
    q = NC_MADD(q, r, 0x1.6c16c16c135d8p-10);
    q = NC_MADD(q, r, 0x1.111111110ebb3p-7);
    q = NC_MADD(q, r, 0x1.555555555555ep-5);
    q = NC_MADD(q, r, 0x1.555555555555cp-3);
    q = NC_MADD(q, r, 0x1.0000000000000p-1);
    *p = NC_MADD(r * r, q, r);
    return nc_bits_d(z) - 0x4338000000000000ull;
}
// p * 2^n, in two steps: results below the normal range come out right.
NC_FN double nc_scaled_d(double p, uint64_t n)
{
    uint64_t h = (n + 2048) >> 1;
    return p * nc_from_bits_d((h - 1) << 52) * nc_from_bits_d((n + 2047 - h) << 52);
}
NC_FN double nc_exp_d(double a)
{
    double x = a > 710 ? 710 : a, k, p;
    x = x < -746 ? -746 : x;
    uint64_t n = nc_exp_parts_d(x, &k, &p);
    return nc_scaled_d(1 + p, n);
}
NC_FN double nc_expm1_d(double a)
{
    double x = a > 710 ? 710 : a, k, p;
    x = x < -60 ? -60 : x;
    uint64_t n = nc_exp_parts_d(x, &k, &p);
    double one = k > 60 ? 0 : nc_from_bits_d((1023 - n) << 52); // 2^-n
    double y = nc_scaled_d(p + (1 - one), n);
    return a == 0 ? a : y;
}
// e / (e + 2) with e = e^2|a| - 1, which is 2^n p + (2^n - 1)
NC_FN double nc_tanh_d(double a)
{
    double x = nc_size_d(a), k, p;
    uint64_t n = nc_exp_parts_d(2 * (x > 22 ? 22 : x), &k, &p);
    double scale = nc_from_bits_d((n + 1023) << 52), e = NC_MADD(p, scale, scale - 1);
    return nc_signed_d(e / (e + 2), a);
}

// a = m 2^k with m from sqrt(1/2) to sqrt(2), f = m - 1, s = f / (2 + f):
// log m = 2 s + s z p(z) = f - (f f / 2 - s (f f / 2 + z p(z))), z = s s.
NC_FN double nc_log_d(double a)
{
    bool tiny = a < 0x1p-1022;
    uint64_t u = nc_bits_d(tiny ? a * 0x1p54 : a) + (0x3ff0000000000000ull - 0x3fe6a09e00000000ull);
    double k = nc_whole_d(u >> 52) - (tiny ? 1023 + 54 : 1023);
    double f = nc_from_bits_d((u & 0xfffffffffffffull) + 0x3fe6a09e00000000ull) - 1;
    double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double p = 0x1.2b662bd0f44a1p-3;
    p = NC_MADD(p, z, 0x1.39fd33f4f06b4p-3);
    p = NC_MADD(p, z, 0x1.7462be2cad858p-3);
    p = NC_MADD(p, z, 0x1.c71c62c21a3a2p-3);
    p = NC_MADD(p, z, 0x1.2492492e0efb2p-2);
    p = NC_MADD(p, z, 0x1.99999999951c0p-2);
    p = NC_MADD(p, z, 0x1.5555555555558p-1);
    double low = NC_MADD(s, NC_MADD(z, p, half), k * 0x1.a39ef35793c76p-33);
    double y = NC_MADD(k, 0x1.62e42feep-1, f - (half - low));
    y = a == 0 ? -(double)NC_INF : y;
    y = a == (double)NC_INF ? a : y;
    return a < 0 || a != a ? (double)NC_NAN : y;
}
// With u = 1 + a rounded by c: log u + c / u.
NC_FN double nc_log1p_d(double a)
{
    double u = 1 + a, c = a > 1 ? 1 - (u - a) : a - (u - 1), y = nc_log_d(u) + c / u;
    y = u == 1 ? a : y;
    y = u == 0 ? -(double)NC_INF : y;
    return u == (double)NC_INF ? u : y;
}

// x p(x^2) below 1, 1 - e^(-x^2) q((x - 2) / (x + 2)) from there on.
NC_FN double nc_erf_d(double a)
{
    double x = nc_size_d(a), z = x * x;
    double p = -0x1.acdb159892a2cp-31;
    p = NC_MADD(p, z, 0x1.d782f6abc5a80p-27);
    p = NC_MADD(p, z, -0x1.5c16a85a2c4e1p-23);
    p = NC_MADD(p, z, 0x1.b98271ab123ccp-20);
    p = NC_MADD(p, z, -0x1.f4ca93a8ada5fp-17);
    p = NC_MADD(p, z, 0x1.f9a2bf64942d1p-14);
    p = NC_MADD(p, z, -0x1.c02db07252c60p-11);
    p = NC_MADD(p, z, 0x1.565bccfa96652p-8);
    p = NC_MADD(p, z, -0x1.b82ce312060c8p-6);
    p = NC_MADD(p, z, 0x1.ce2f21a041010p-4);
    p = NC_MADD(p, z, -0x1.812746b0379c2p-2);
    p = NC_MADD(p, z, 0x1.20dd750429b6dp+0);
    double far = x > 6 ? 6 : x, t = (far - 2) / (far + 2);
    double q = -0x1.227d6acb98f27p-20;
    q = NC_MADD(q, t, -0x1.d35f63a0403c9p-17);
    q = NC_MADD(q, t, -0x1.c5e2266f0649ep-16);
    q = NC_MADD(q, t, 0x1.d01bae0a688cfp-16);
    q = NC_MADD(q, t, 0x1.6d9fde41a6ca2p-13);
    q = NC_MADD(q, t, 0x1.6d46a58b51c72p-15);
    q = NC_MADD(q, t, -0x1.016b69775a2dep-10);
    q = NC_MADD(q, t, -0x1.bc259bc129a1bp-11);
    q = NC_MADD(q, t, 0x1.ca95ed7a606c6p-8);
    q = NC_MADD(q, t, 0x1.e9471595725c2p-9);
    q = NC_MADD(q, t, -0x1.437f0b68c69fep-4);
    q = NC_MADD(q, t, 0x1.eeea7dc8a77b2p-3);
    q = NC_MADD(q, t, -0x1.b57034efd3f68p-2);
    q = NC_MADD(q, t, 0x1.058671b52c776p-2);
    double y = x < 1 ? x * p : 1 - nc_exp_d(-far * far) * q;
    return nc_signed_d(y, a);
}

// e^(b log |a|) in f64, negative where a is and b is odd; small powers as products in f64.
NC_FN float nc_pow_f(float a, float b)
{
    double x = nc_size_d(a);
    if (__builtin_constant_p(b) && b == 2) return (float)(x * x);
    if (__builtin_constant_p(b) && b == 3) return (float)((double)a * a * a);
    if (__builtin_constant_p(b) && b == 4) return (float)(x * x * (x * x));
    float y = (float)nc_exp_d(b * nc_log_d(x)), half = b * 0.5f;
    bool whole = floorf(b) == b, odd = whole && floorf(half) != half, below = nc_bits(a) >> 31;
    y = x == 1 && (b == b || !below) ? 1 : y; // whatever b is
    y = below && odd ? -y : y;
    y = a < 0 && a > -NC_INF && !whole ? NC_NAN : y;
    return b == 0 ? 1 : y;
}
