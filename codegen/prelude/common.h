// netc prelude, both languages: integers, comparisons, conversions, random numbers, error records.
// They agree with the reference evaluator. Blank lines divide it into paragraphs: see cuda_prelude.c.

// Functions of one element that the math libraries of both languages have.
NC_FN double nc_sqrt_d(double a) { return sqrt(a); }
NC_FN double nc_rsqrt_d(double a) { return 1 / sqrt(a); }

NC_FN float nc_fmod_f(float a, float b) { return fmodf(a, b); }
NC_FN double nc_fmod_d(double a, double b) { return fmod(a, b); }
NC_FN float nc_floor_f(float a) { return floorf(a); }
NC_FN float nc_ceil_f(float a) { return ceilf(a); }
NC_FN float nc_round_f(float a) { return rintf(a); }
NC_FN double nc_floor_d(double a) { return floor(a); }
NC_FN double nc_ceil_d(double a) { return ceil(a); }
NC_FN double nc_round_d(double a) { return rint(a); }

// erf(x) is x * p / q with z = x * x, for |x| up to 4, where it reaches 1; within a few ulp.
#define NC_ERF(p, q, z)                                                                            \
    float p = -2.72614225801306e-10f, q = -1.45660718464996e-05f;                                  \
    p = NC_MADF(p, z, 2.77068142495902e-08f);                                                      \
    p = NC_MADF(p, z, -2.10102402082508e-06f);                                                     \
    p = NC_MADF(p, z, -5.69250639462346e-05f);                                                     \
    p = NC_MADF(p, z, -7.34990630326855e-04f);                                                     \
    p = NC_MADF(p, z, -2.95459980854025e-03f);                                                     \
    p = NC_MADF(p, z, -1.60960333262415e-02f);                                                     \
    q = NC_MADF(q, z, -2.13374055278905e-04f);                                                     \
    q = NC_MADF(q, z, -1.68282697438203e-03f);                                                     \
    q = NC_MADF(q, z, -7.37332916720468e-03f);                                                     \
    q = NC_MADF(q, z, -1.42647390514189e-02f);

NC_FN double nc_sigmoid_d(double a)
{
    double e = nc_exp_d(a < 0 ? a : -a);
    return (a < 0 ? e : 1) / (1 + e);
}

// NaN wins. (The functions of f32 are in each language's own file.)
NC_FN double nc_min_d(double a, double b)
{
    double c = a < b ? a : b;
    return a != a ? a : c;
}
NC_FN double nc_max_d(double a, double b)
{
    double c = a > b ? a : b;
    return a != a ? a : c;
}

NC_FN float nc_abs_f(float a) { return nc_from_bits(nc_bits(a) & 0x7fffffffu); }
NC_FN double nc_abs_d(double a) { return a < 0 ? -a : a + 0.0; }
NC_FN float nc_sign_f(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : a; }
NC_FN double nc_sign_d(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; }

// The largest integer not above the exact quotient. The rounded quotient may be above it, which the
// exact sign of the remainder shows; so a // b and a % b are consistent. If the quotient is 0, the
// remainder is a, also if b is infinite.
NC_FN float nc_floordiv_f(float a, float b)
{
    float q = nc_floor_f(a / b), rest = q == 0 ? a : fmaf(-q, b, a);
    return (b > 0 ? rest < 0 : rest > 0) ? q - 1 : q;
}
NC_FN double nc_floordiv_d(double a, double b)
{
    double q = nc_floor_d(a / b), rest = q == 0 ? a : fma(-q, b, a);
    return (b > 0 ? rest < 0 : rest > 0) ? q - 1 : q;
}
NC_FN float nc_mod_f(float a, float b)
{
    float r = nc_fmod_f(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
NC_FN double nc_mod_d(double a, double b)
{
    double r = nc_fmod_d(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

NC_FN bool nc_isfinite_f(float a) { return (nc_bits(a) & 0x7f800000u) != 0x7f800000u; }
NC_FN bool nc_isfinite_d(double a) { return a - a == 0; }

// The unit in the first place: the highest bit alone of a normal number, of the fraction otherwise.
NC_FN float nc_ufp_f(float a)
{
    uint32_t size = nc_bits(a) & 0x7fffffffu, top = size;
    if (size - 1 >= 0x7f800000u - 1) return nc_from_bits(size);
    if (size >= 0x00800000u) return nc_from_bits(size & 0x7f800000u);
    top |= top >> 1;
    top |= top >> 2;
    top |= top >> 4;
    top |= top >> 8;
    top |= top >> 16;
    return nc_from_bits(top ^ top >> 1);
}
NC_FN double nc_ufp_d(double a)
{
    double size = nc_abs_d(a);
    int exponent;
    if (!(size > 0) || size - size != 0) return size;
    frexp(size, &exponent);
    return ldexp(0.5, exponent);
}

// x // 0 and x % 0 are 0; the remainder has the divisor's sign.
#define NC_SIGNED_DIVIDE(T, U, s)                                                                  \
    NC_FN T nc_floordiv_##s(T a, T b)                                                              \
    {                                                                                              \
        if (b == 0) return 0;                                                                      \
        if (b == -1) return (T)(0 - (U)a);                                                         \
        T q = a / b;                                                                               \
        return q - (a % b != 0 && (a < 0) != (b < 0));                                             \
    }                                                                                              \
    NC_FN T nc_mod_##s(T a, T b)                                                                   \
    {                                                                                              \
        if (b == 0 || b == -1) return 0;                                                           \
        T r = a % b;                                                                               \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                           \
    }
NC_SIGNED_DIVIDE(int32_t, uint32_t, i)
NC_SIGNED_DIVIDE(int64_t, uint64_t, l)
NC_FN uint32_t nc_floordiv_u(uint32_t a, uint32_t b) { return b ? a / b : 0; }
NC_FN uint32_t nc_mod_u(uint32_t a, uint32_t b) { return b ? a % b : 0; }

NC_FN int32_t nc_abs_i(int32_t a) { return a < 0 ? (int32_t)(0 - (uint32_t)a) : a; }
NC_FN int64_t nc_abs_l(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
NC_FN uint32_t nc_abs_u(uint32_t a) { return a; }
NC_FN int32_t nc_sign_i(int32_t a) { return (a > 0) - (a < 0); }
NC_FN int64_t nc_sign_l(int64_t a) { return (a > 0) - (a < 0); }
NC_FN uint32_t nc_sign_u(uint32_t a) { return a != 0; }

NC_FN int32_t nc_min_i(int32_t a, int32_t b) { return a < b ? a : b; }
NC_FN int64_t nc_min_l(int64_t a, int64_t b) { return a < b ? a : b; }
NC_FN uint32_t nc_min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
NC_FN int32_t nc_max_i(int32_t a, int32_t b) { return a > b ? a : b; }
NC_FN int64_t nc_max_l(int64_t a, int64_t b) { return a > b ? a : b; }
NC_FN uint32_t nc_max_u(uint32_t a, uint32_t b) { return a > b ? a : b; }

NC_FN int32_t nc_shl_i(int32_t a, int32_t b)
{
    return b < 0 || b > 31 ? 0 : (int32_t)((uint32_t)a << b);
}
NC_FN int64_t nc_shl_l(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}
NC_FN uint32_t nc_shl_u(uint32_t a, uint32_t b) { return b > 31 ? 0 : a << b; }
NC_FN int32_t nc_shr_i(int32_t a, int32_t b) { return a >> (b < 0 || b > 31 ? 31 : b); }
NC_FN int64_t nc_shr_l(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
NC_FN uint32_t nc_shr_u(uint32_t a, uint32_t b) { return b > 31 ? 0 : a >> b; }

NC_FN uint32_t nc_mulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

// Float to integer: towards zero, saturating, NaN is 0.
#define NC_TO_INT(F, f, one)                                                                       \
    NC_FN int32_t nc_to_i32_##f(F a)                                                               \
    {                                                                                              \
        if (a != a) return 0;                                                                      \
        return a >= (F)2147483648.0    ? 2147483647                                                \
               : a <= (F)-2147483648.0 ? -2147483647 - 1                                           \
                                       : (int32_t)a;                                               \
    }                                                                                              \
    NC_FN uint32_t nc_to_u32_##f(F a)                                                              \
    {                                                                                              \
        if (!(a > 0)) return 0;                                                                    \
        return a >= (F)4294967296.0 ? 4294967295u : (uint32_t)a;                                   \
    }                                                                                              \
    NC_FN int64_t nc_to_i64_##f(F a)                                                               \
    {                                                                                              \
        if (a != a) return 0;                                                                      \
        if (a >= (F)9223372036854775808.0) return 9223372036854775807LL;                           \
        return a <= (F)-9223372036854775808.0 ? -9223372036854775807LL - 1 : (int64_t)a;           \
    }                                                                                              \
    NC_FN int32_t nc_to_u8_##f(F a)                                                                \
    {                                                                                              \
        F x = a > 0 ? a : 0; /* NaN is 0 */                                                        \
        x = x < (F)255 ? x : (F)255;                                                               \
        return (int32_t)x;                                                                         \
    }
NC_TO_INT(float, f, 1.0f)
NC_TO_INT(double, d, 1.0)

// Four words of Philox4x32, for draws of so many bits (10 rounds; 7 for 16 bits). counter = (block,
// count lo, site lo), key = seed with the high words of count and site.
typedef struct NcBlock {
    uint32_t word[4];
} NcBlock;
NC_FN NcBlock nc_random_block(int64_t seed, int64_t count, int64_t number, uint64_t block,
                              int bits)
{
    uint64_t site = (uint64_t)number;
    uint32_t k0 = (uint32_t)(uint64_t)seed ^ 0x9E3779B9u * (uint32_t)((uint64_t)count >> 32),
             k1 = (uint32_t)((uint64_t)seed >> 32) ^ (uint32_t)(site >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)(uint64_t)count,
             c3 = (uint32_t)site;
    // Unrolled by hand, because a loop in here would keep the loop around it from being vectorised.
#define NC_ROUND                                                                                   \
    {                                                                                              \
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;                 \
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;                                                       \
        c1 = (uint32_t)p1;                                                                         \
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;                                                       \
        c3 = (uint32_t)p0;                                                                         \
        k0 += 0x9E3779B9u;                                                                         \
        k1 += 0xBB67AE85u;                                                                         \
    }
    NC_ROUND NC_ROUND NC_ROUND NC_ROUND NC_ROUND NC_ROUND NC_ROUND
    if (bits > 16) {
        NC_ROUND NC_ROUND NC_ROUND
    }
#undef NC_ROUND
    NcBlock made = {{c0, c1, c2, c3}};
    return made;
}
// What an element draws of its block, which it shares with its neighbours: 16 or 32 bits, or word
// [lane] of 64 or 128 bits.
NC_FN uint32_t nc_random_word(NcBlock made, uint64_t index, int bits, int lane)
{
    const int half = (int)(index % (128 / 16)), place = half * bits / 32 % 4 + lane;
    const uint32_t word = place == 0   ? made.word[0]
                          : place == 1 ? made.word[1]
                          : place == 2 ? made.word[2]
                                       : made.word[3];
    return bits > 16 ? word : word >> half % 2 * 16 & 0xffffu;
}
NC_FN uint32_t nc_random(int64_t seed, int64_t count, int64_t number, uint64_t index, int bits,
                         int lane)
{
    return nc_random_word(nc_random_block(seed, count, number, index / (128u / (unsigned)bits), bits),
                          index, bits, lane);
}

// The entry's error record, written by the first check that fails.
typedef struct NcError {
    uint32_t code, reserved;
    int64_t value, index, step;
} NcError;
NC_FN void nc_fail(NcError *e, int64_t code, int64_t value, int64_t index)
{
    if (nc_first(&e->code, (uint32_t)code)) {
        e->value = value;
        e->index = index;
    }
}
// An index out of range is recorded, with its position among the indices, and clamped, so that nothing
// is read out of bounds.
NC_FN int64_t nc_check(NcError *e, int64_t code, int64_t v, int64_t bound, int64_t index)
{
    if (v < 0 || v >= bound) {
        nc_fail(e, code, v, index);
        return v < 0 || bound == 0 ? 0 : bound - 1;
    }
    return v;
}
NC_FN bool nc_assert(NcError *e, int64_t code, bool held, int64_t index)
{
    if (!held) nc_fail(e, code, 0, index);
    return held;
}
