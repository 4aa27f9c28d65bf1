// netc prelude, C: functions without branches or calls, so that loops over them are vectorised; an
// element has the same bits in a vector as alone. Polynomials are from tools/minimax.py, those of sin
// and cos of f64 from fdlibm; tests/unit/codegen_math.c measures errors over all arguments.

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
NC_FN int64_t nc_stays_d(double best, double x)
{
    return -(int64_t)(x <= best) | -(int64_t)(best != best);
}
NC_FN double nc_either_d(int64_t mask, double a, double b)
{
    return nc_from_bits_d((nc_bits_d(a) & (uint64_t)mask) | (nc_bits_d(b) & ~(uint64_t)mask));
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
NC_FN float nc_size_f(float a) { return nc_from_bits(nc_bits(a) & 0x7fffffffu); }
NC_FN double nc_size_d(double a) { return nc_from_bits_d(nc_bits_d(a) & 0x7fffffffffffffffull); }
NC_FN double nc_signed_d(double size, double a) // with the sign of a
{
    return nc_from_bits_d(nc_bits_d(size) | (nc_bits_d(a) & 0x8000000000000000ull));
}
// The integer u < 2^52 as a double, without an instruction that converts vectors of 64 bits.
NC_FN double nc_whole_d(uint64_t u)
{
    return nc_from_bits_d(u | 0x4330000000000000ull) - 0x1p52;
}

// Word number j of six.
#define NC_WORD(j, w0, w1, w2, w3, w4, w5)                                                         \
    ((j) < 3 ? (j) < 1 ? w0 : (j) < 2 ? w1 : w2 : (j) < 4 ? w3 : (j) < 5 ? w4 : w5)

// sin(|a| + turn * pi / 2) up to its sign; adds to *turn the number of the quarter turn of |a|. |a| =
// m * 2^e with m of 24 bits: the bits of 2 / pi whose products with m are from 2 to 2^-62 quarter turns,
// and 32 more, are multiplied by m as integers, so that the remainder is right however large a is.
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
    uint64_t at = (uint64_t)m * w1 + ((uint64_t)m * w2 >> 32); // quarter turns * 2^62, without w0's
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
NC_CALLED float nc_sin_called_f(float a) { return nc_sin_f(a); }
NC_CALLED float nc_cos_called_f(float a) { return nc_cos_f(a); }

// The bits of 2 / pi after 64 zeros: from each 32nd of them on, 64 bits.
static const uint64_t nc_two_over_pi[] = {
        0x0000000000000000ull, 0x00000000a2f9836eull, 0xa2f9836e4e441529ull, 0x4e441529fc2757d1ull,
        0xfc2757d1f534ddc0ull, 0xf534ddc0db629599ull, 0xdb6295993c439041ull, 0x3c439041fe5163abull,
        0xfe5163abdebbc561ull, 0xdebbc561b7246e3aull, 0xb7246e3a424dd2e0ull, 0x424dd2e006492eeaull,
        0x06492eea09d1921cull, 0x09d1921cfe1deb1cull, 0xfe1deb1cb129a73eull, 0xb129a73ee88235f5ull,
        0xe88235f52ebb4484ull, 0x2ebb4484e99c7026ull, 0xe99c7026b45f7e41ull, 0xb45f7e413991d639ull,
        0x3991d639835339f4ull, 0x835339f49c845f8bull, 0x9c845f8bbdf9283bull, 0xbdf9283b1ff897ffull,
        0x1ff897ffde05980full, 0xde05980fef2f118bull, 0xef2f118b5a0a6d1full, 0x5a0a6d1f6d367ecfull,
        0x6d367ecf27cb09b7ull, 0x27cb09b74f463f66ull, 0x4f463f669e5fea2dull, 0x9e5fea2d7527bac7ull,
        0x7527bac7ebe5f17bull, 0xebe5f17b3d0739f7ull, 0x3d0739f78a5292eaull, 0x8a5292ea6bfb5fb1ull,
        0x6bfb5fb11f8d5d08ull, 0x1f8d5d0856033046ull, 0x56033046fc7b6babull
};
// sin(|a| + turn * pi / 2) up to its sign, as nc_turned_f. |a| = m * 2^e with m of 53 bits is
// multiplied by 192 bits of 2 / pi: quarter turns with 124 bits of fraction, so that 64 significant
// bits are left of the remainder closest to a whole number of them.
NC_FN double nc_turned_d(double a, uint32_t *turn)
{
    uint64_t u = nc_bits_d(a) & 0x7fffffffffffffffull, m = (u & 0xfffffffffffffull) | 1ull << 52;
    int64_t e = (int64_t)(u >> 52), at = e < 1013 ? 0 : e - 1013, j = at >> 5; // 64 bits, for gathers
    uint64_t by = (uint64_t)(at & 31), x0 = nc_two_over_pi[j], x1 = nc_two_over_pi[j + 2],
             x2 = nc_two_over_pi[j + 4], x3 = nc_two_over_pi[j + 6];
    x0 = x0 << by | x1 >> 1 >> (63 - by);
    x1 = x1 << by | x2 >> 1 >> (63 - by);
    x2 = x2 << by | x3 >> 1 >> (63 - by);
    const uint64_t low = 0xffffffffull;
    uint64_t m0 = m & low, m1 = m >> 32, w1 = x0 & low, w2 = x1 >> 32, w3 = x1 & low, w4 = x2 >> 32,
             w5 = x2 & low;
    uint64_t p4 = m0 * w4, p3 = m0 * w3, p2 = m0 * w2, p1 = m0 * w1, q5 = m1 * w5, q4 = m1 * w4,
             q3 = m1 * w3, q2 = m1 * w2;
    uint64_t s = (m0 * w5 >> 32) + (p4 & low) + (q5 & low);
    s = (s >> 32) + (p4 >> 32) + (p3 & low) + (q5 >> 32) + (q4 & low);
    uint64_t behind = s & low; // the last of the four words of the fraction
    s = (s >> 32) + (p3 >> 32) + (p2 & low) + (q4 >> 32) + (q3 & low);
    behind |= s << 32;
    s = (s >> 32) + (p2 >> 32) + (p1 & low) + (q3 >> 32) + (q2 & low);
    uint64_t high = (s & low) | ((s >> 32) + (p1 >> 32) + (q2 >> 32) + m0 * (x0 >> 32) + m1 * w1) << 32;
    uint64_t quarter = (high + (1ull << 61)) >> 62;
    high -= quarter << 62;
    uint64_t below = high >> 63 ? ~0ull : 0; // ~x is -x less one unit, which is negligible
    high ^= below, behind ^= below;
    double h = nc_whole_d(high >> 20) * 0x1p-42,
           l = nc_whole_d((high & 0xfffff) << 32 | behind >> 32) * 0x1p-94, t = h + l;
    l = h - t + l + nc_whole_d(behind & low) * 0x1p-126;
    h = t * 0x1.921fb54442d18p+0;
    l = NC_MADD(t, 0x1.921fb54442d18p+0, -h) + (t * 0x1.1a62633145c07p-54 + l * 0x1.921fb54442d18p+0);
    h = nc_from_bits_d(nc_bits_d(h) ^ (below & 1ull << 63));
    l = nc_from_bits_d(nc_bits_d(l) ^ (below & 1ull << 63));
    bool little = u < 0x3fe8000000000000ull;
    h = little ? nc_from_bits_d(u) : h;
    l = little ? 0 : l;
    double z = h * h, v = z * h;
    double p = 0x1.5d93a5acfd57cp-33;
    p = NC_MADD(p, z, -0x1.ae5e68a2b9cebp-26);
    p = NC_MADD(p, z, 0x1.71de357b1fe7dp-19);
    p = NC_MADD(p, z, -0x1.a01a019c161d5p-13);
    p = NC_MADD(p, z, 0x1.111111110f8a6p-7);
    double y = h - (NC_MADD(z, 0.5 * l - v * p, -l) - v * -0x1.5555555555549p-3);
    double q = -0x1.8fae9be8838d4p-37;
    q = NC_MADD(q, z, 0x1.1ee9ebdb4b1c4p-29);
    q = NC_MADD(q, z, -0x1.27e4f809c52adp-22);
    q = NC_MADD(q, z, 0x1.a01a019cb1590p-16);
    q = NC_MADD(q, z, -0x1.6c16c16c15177p-10);
    q = NC_MADD(q, z, 0x1.555555555554cp-5);
    double w = 1 - 0.5 * z, c = w + (1 - w - 0.5 * z + (z * z * q - h * l));
    *turn += little ? 0 : (uint32_t)quarter;
    y = *turn & 1 ? c : y;
    return u < 0x7ff0000000000000ull ? y : (double)NC_NAN;
}
NC_FN double nc_sin_d(double a)
{
    uint32_t turn = 0;
    double s = nc_turned_d(a, &turn);
    return nc_from_bits_d(nc_bits_d(s) ^ (uint64_t)(turn & 2) << 62 ^ (nc_bits_d(a) & 1ull << 63));
}
NC_FN double nc_cos_d(double a)
{
    uint32_t turn = 1;
    double s = nc_turned_d(a, &turn);
    return nc_from_bits_d(nc_bits_d(s) ^ (uint64_t)(turn & 2) << 62);
}
NC_CALLED double nc_sin_called_d(double a) { return nc_sin_d(a); }
NC_CALLED double nc_cos_called_d(double a) { return nc_cos_d(a); }

// a = k ln2 + r: *k is k as a number, the low bits of the result are k as an integer; *p is e^r - 1.
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
// p * 2^n, in two steps, so that subnormal results are right.
NC_FN double nc_scaled_d(double p, uint64_t n)
{
    uint64_t h = (n + 2048) >> 1;
    return p * nc_from_bits_d((h - 1) << 52) * nc_from_bits_d((n + 2047 - h) << 52);
}
__attribute__((weak)) const double nc_range_exp_d[2] = {-1418, 710}, nc_range_expm1_d[2] = {-60, 710};
NC_FN double nc_within_d(double a, const double *range)
{
    double x = a > range[1] ? range[1] : a;
    return x < range[0] ? range[0] : x;
}
NC_FN double nc_exp_d(double a)
{
    double k, p;
    uint64_t n = nc_exp_parts_d(nc_within_d(a, nc_range_exp_d), &k, &p);
    return nc_scaled_d(1 + p, n);
}
NC_FN double nc_expm1_d(double a)
{
    double k, p;
    uint64_t n = nc_exp_parts_d(nc_within_d(a, nc_range_expm1_d), &k, &p);
    double one = k > 60 ? 0 : nc_from_bits_d((1023 - n) << 52); // 2^-n
    double y = nc_scaled_d(p + (1 - one), n);
    return a == 0 ? a : y;
}
// e / (e + 2) with e = exp(2 |a|) - 1, which is 2^n p + (2^n - 1)
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
// With u = 1 + a, rounded, and c, the error of this rounding: log u + c / u.
NC_FN double nc_log1p_d(double a)
{
    double u = 1 + a, c = a > 1 ? 1 - (u - a) : a - (u - 1), y = nc_log_d(u) + c / u;
    y = u == 1 ? a : y;
    y = u == 0 ? -(double)NC_INF : y;
    return u == (double)NC_INF ? u : y;
}

// x p(x^2) for x < 1, 1 - e^(-x^2) q((x - 2) / (x + 2)) for larger x.
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

#if defined __FMA__ || defined __aarch64__
// log2 of x >= 0 as a sum of two numbers, with an error within 2^-30: x = m 2^k, f = m - 1,
// s = f / (2 + f), log2 m = 2 / ln2 (s + s z (1/3 + z/5 ...)), z = s s.
NC_FN float nc_log2_parts_f(float x, float *low)
{
    bool tiny = x < 0x1p-126f;
    uint32_t u = nc_bits(tiny ? x * 0x1p24f : x) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)((int32_t)(u >> 23) - (tiny ? 127 + 24 : 127));
    float f = nc_from_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1;
    float d = 2 + f, r = 1 / d, s = f * r, z = s * s;
    float s_low = (NC_MADF(-s, d, f) - s * (2 - d + f)) * r;
    float p = 0x1.715476p+1f / 11;
    p = NC_MADF(p, z, 0x1.715476p+1f / 9);
    p = NC_MADF(p, z, 0x1.715476p+1f / 7);
    p = NC_MADF(p, z, 0x1.715476p+1f / 5);
    p = NC_MADF(p, z, 0x1.715476p+1f / 3);
    float t = s * 0x1.715476p+1f, t_low = NC_MADF(s, 0x1.715476p+1f, -t);
    t_low = NC_MADF(s, 0x1.4ae0cp-25f, t_low);
    t_low = NC_MADF(s_low, 0x1.715476p+1f, t_low);
    t_low = NC_MADF(s * z, p, t_low);
    float h = k + t, rest = k - h + t + t_low, l = h + rest;
    *low = h - l + rest;
    l = x == 0 ? -NC_INF : l;
    return x < NC_INF ? l : x;
}
// 2^(b log2 x), within 1.2 ulp.
NC_FN float nc_pow_size_f(float x, float b)
{
    float l_low, l = nc_log2_parts_f(x, &l_low), e = b * l, e_low = NC_MADF(b, l, -e);
    e_low = NC_MADF(b, l_low, e_low);
    e_low = nc_size_f(e) < 200 ? e_low : 0;
    e = e > 129 ? 129 : e;
    e = e < -151 ? -151 : e;
    float n = e + 12582912.0f, r = e - (n - 12582912.0f) + e_low;
    float p = 1.535336188e-4f;
    p = NC_MADF(p, r, 1.339887440e-3f);
    p = NC_MADF(p, r, 9.618437357e-3f);
    p = NC_MADF(p, r, 5.550332471e-2f);
    p = NC_MADF(p, r, 2.402264791e-1f);
    p = NC_MADF(p, r, 6.931472028e-1f);
    p = NC_MADF(p, r, 1.0f);
    return p * nc_half_scale(n) * nc_other_scale(n);
}
#else
NC_FN float nc_pow_size_f(float x, float b) { return (float)nc_exp_d(b * nc_log_d(x)); }
#endif
// x^b for x = |a|, negative if a is negative and b is odd; small powers are products.
NC_FN float nc_pow_f(float a, float b)
{
    double x = nc_size_d(a);
    if (__builtin_constant_p(b) && b == 2) return a * a;
    if (__builtin_constant_p(b) && b == 3) return (float)((double)a * a * a);
    if (__builtin_constant_p(b) && b == 4) return (float)(x * x * (x * x));
    float y = nc_pow_size_f(nc_size_f(a), b), half = b * 0.5f;
    float negative = nc_from_bits(nc_bits(y) | (nc_bits(a) & 0x80000000u));
    y = floorf(half) != half && floorf(b) == b ? negative : y;
    y = a < 0 && a > -NC_INF && floorf(b) != b ? NC_NAN : y;
    y = a == 1 ? 1 : y; // for any b
    y = a == -1 && nc_size_f(b) == NC_INF ? 1 : y;
    return b == 0 ? 1 : y;
}

#if defined __FMA__ || defined __aarch64__
// e^(b log |a|), the logarithm as a sum of two numbers, with an error within 2^-66: |a| = m 2^k,
// f = m - 1, s = f / (2 + f), log m = s (2 + z (2/3 + z p(z))), z = s s.
NC_FN double nc_pow_d(double a, double b)
{
    double x = nc_size_d(a);
    if (__builtin_constant_p(b) && b == 2) return x * x;
    bool tiny = x < 0x1p-1022;
    uint64_t u = nc_bits_d(tiny ? x * 0x1p54 : x) + (0x3ff0000000000000ull - 0x3fe6a09e00000000ull);
    double k = nc_whole_d(u >> 52) - (tiny ? 1023 + 54 : 1023);
    double f = nc_from_bits_d((u & 0xfffffffffffffull) + 0x3fe6a09e00000000ull) - 1;
    double d = 2 + f, r = 1 / d, s = f * r;
    double s_low = (NC_MADD(-s, d, f) - s * (2 - d + f)) * r;
    double z = s * s, z_low = NC_MADD(s, s, -z) + 2 * s * s_low;
    double p = 2.0 / 27;
    p = NC_MADD(p, z, 2.0 / 25);
    p = NC_MADD(p, z, 2.0 / 23);
    p = NC_MADD(p, z, 2.0 / 21);
    p = NC_MADD(p, z, 2.0 / 19);
    p = NC_MADD(p, z, 2.0 / 17);
    p = NC_MADD(p, z, 2.0 / 15);
    p = NC_MADD(p, z, 2.0 / 13);
    p = NC_MADD(p, z, 2.0 / 11);
    p = NC_MADD(p, z, 2.0 / 9);
    p = NC_MADD(p, z, 2.0 / 7);
    p = NC_MADD(p, z, 2.0 / 5);
    p = NC_MADD(p, z, z_low * 0.4);
    double c = 0x1.5555555555555p-1 + p;
    double c_low = 0x1.5555555555555p-1 - c + p + 0x1.5555555555555p-55;
    double t = z * c, t_low = NC_MADD(z, c, -t) + (z * c_low + z_low * c);
    double v = 2 + t, v_low = 2 - v + t + t_low;
    double l = s * v, l_low = NC_MADD(s, v, -l) + (s * v_low + s_low * v);
    double whole_part = k * 0x1.62e42fefa38p-1, h = whole_part + l;
    double h_low = whole_part - h + l + (l_low + k * 0x1.ef35793c7673p-45);
    double e = b * h, e_low = NC_MADD(b, h, -e) + b * h_low, parts, q;
    e_low = nc_size_d(e) < 750 ? e_low : 0;
    e = e > 710 ? 710 : e;
    e = e < -746 ? -746 : e;
    uint64_t n = nc_exp_parts_d(e, &parts, &q);
    double y = nc_scaled_d(1 + (q + (e_low + e_low * q)), n);
    double up = b > 0 ? (double)NC_INF : 0, down = b > 0 ? 0 : (double)NC_INF;
    double far = x > 1 ? up : down; // for an infinite exponent or base
    y = x == 0 ? down : y;
    y = x == (double)NC_INF ? up : y;
    y = nc_size_d(b) == (double)NC_INF ? far : y;
    double half = b * 0.5, negative = nc_signed_d(y, a);
    y = floor(half) != half && floor(b) == b ? negative : y;
    y = a < 0 && floor(b) != b ? (double)NC_NAN : y;
    y = x == (double)NC_INF && floor(b) != b ? far : y; // a of either sign
    y = a != a || b != b ? (double)NC_NAN : y;
    y = a == 1 ? 1 : y; // for any b
    y = a == -1 && nc_size_d(b) == (double)NC_INF ? 1 : y;
    return b == 0 ? 1 : y;
}
#else
NC_FN double nc_pow_d(double a, double b) { return pow(a, b); }
#endif
