// Single elements: the helpers that the element expressions of ops.def call, on double and on
// int64_t, and conversions between element types. Used by the evaluator and by constant folding;
// generated code has its own versions in codegen/prelude, which must agree.
#ifndef IR_SCALAR_H
#define IR_SCALAR_H

#include <math.h>

#include "ir/op.h"
#include "ir/type.h"

typedef union Scalar {
    double f;  // floats
    int64_t i; // bool (0 or 1) and integers
} Scalar;

// The float type nearest to v, ties to even; overflow goes to infinity. t is a float type.
double scalar_round_half(DType t, double v); // of f16 and bf16
static inline double scalar_round(DType t, double v)
{
    return t == DT_F32 ? (double)(float)v : t == DT_F64 ? v : scalar_round_half(t, v);
}
// The low bits of v as stored in t; bool: v != 0. t is an integer type or bool.
int64_t scalar_wrap(DType t, int64_t v);
// Truncates towards zero and saturates at the limits of t; NaN gives 0; bool: v != 0.
int64_t scalar_to_int(DType t, double v);
// Converts a value of type [from]; floats are rounded to [to] if [round].
static inline Scalar scalar_cast(DType from, DType to, Scalar v, bool round)
{
    bool to_float = dtype_is_float(to);
    if (dtype_is_float(from)) {
        if (to_float) return (Scalar){.f = round ? scalar_round(to, v.f) : v.f};
        return (Scalar){.i = scalar_to_int(to, v.f)};
    }
    if (!to_float) return (Scalar){.i = scalar_wrap(to, v.i)};
    if (round && to == DT_F32) return (Scalar){.f = (double)(float)v.i}; // rounded once, not twice
    return (Scalar){.f = round ? scalar_round(to, (double)v.i) : (double)v.i};
}
// The element expressions of ops.def that are defined for the type.
extern double (*const scalar_on_float[OP_COUNT])(double, double, double);
extern int64_t (*const scalar_on_int[OP_COUNT])(int64_t, int64_t, int64_t);
// The same of n elements, unrounded: out[i] from a[i], b[i], c[i], each a double or an int64_t, as
// values store them (ir/eval.h).
extern void (*const scalar_on_floats[OP_COUNT])(void *restrict out, const void *a, const double *b,
                                                const double *c, int64_t n);
// One element of an elementwise op other than cast. [operand] is the type of the last operand,
// [result] that of the node; floats are rounded to it if [round]. Conditions of select are
// integers.
static inline Scalar scalar_apply(Op op, DType operand, DType result, Scalar a, Scalar b, Scalar c,
                                  bool round)
{
    Scalar out;
    if (!dtype_is_float(operand)) {
        out.i = scalar_wrap(result, scalar_on_int[op](a.i, b.i, c.i));
        return out;
    }
    double x = op == OP_select ? (double)a.i : a.f, v = scalar_on_float[op](x, b.f, c.f);
    if (dtype_is_float(result))
        out.f = round ? scalar_round(result, v) : v;
    else
        out.i = (int64_t)v;
    return out;
}
// Stored form: f16 and bf16 as bits, everything else as its C type.
Scalar scalar_load(DType t, const void *at);
void scalar_store(DType t, void *at, Scalar v);

#define NC_PICK(v, name)  _Generic((v), int64_t : name##_i, default : name##_f)
#define nc_floordiv(a, b) NC_PICK(a, floordiv)(a, b)
#define nc_mod(a, b)      NC_PICK(a, mod)(a, b)
#define nc_abs(a)         NC_PICK(a, abs)(a)
#define nc_sign(a)        NC_PICK(a, sign)(a)
#define nc_min(a, b)      NC_PICK(a, min)(a, b)
#define nc_max(a, b)      NC_PICK(a, max)(a, b)

// Integers: x // 0 and x % 0 are 0; the remainder has the divisor's sign, as on the device.
static inline int64_t floordiv_i(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return -a; // wraps for the smallest integer, where the division would trap
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t mod_i(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t abs_i(int64_t a)
{
    return a < 0 ? -a : a;
}
static inline int64_t sign_i(int64_t a)
{
    return (a > 0) - (a < 0);
}
static inline int64_t min_i(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t nc_shl(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : a << b;
}
static inline int64_t nc_shr(int64_t a, int64_t b)
{
    return a >> (b < 0 || b > 63 ? 63 : b);
}
static inline int64_t nc_mulhi(int64_t a, int64_t b) // u32
{
    return (int64_t)(((uint64_t)(uint32_t)a * (uint32_t)b) >> 32);
}

static inline double floordiv_f(double a, double b)
{
    double q = floor(a / b);                  // the quotient may have been rounded up,
    double rest = q == 0 ? a : fma(-q, b, a); // and 0 times infinity is NaN
    return (b > 0 ? rest < 0 : rest > 0) ? q - 1 : q;
}
static inline double mod_f(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline double abs_f(double a)
{
    return fabs(a);
}
static inline double sign_f(double a)
{
    return a > 0 ? 1 : a < 0 ? -1 : a;
} // keeps 0, -0 and NaN
static inline double min_f(double a, double b)
{
    return a != a || a < b ? a : b;
} // NaN if either is NaN
static inline double max_f(double a, double b)
{
    return a != a || a > b ? a : b;
}
static inline double nc_fma(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline double nc_pow(double a, double b)
{
    return pow(a, b);
}
static inline double nc_div(double a, double b)
{
    return a / b;
}
static inline double nc_sqrt(double a)
{
    return sqrt(a);
}
static inline double nc_rsqrt(double a)
{
    return 1 / sqrt(a);
}
static inline double nc_exp(double a)
{
    return exp(a);
}
static inline double nc_expm1(double a)
{
    return expm1(a);
}
static inline double nc_log(double a)
{
    return log(a);
}
static inline double nc_log1p(double a)
{
    return log1p(a);
}
static inline double nc_sin(double a)
{
    return sin(a);
}
static inline double nc_cos(double a)
{
    return cos(a);
}
static inline double nc_tanh(double a)
{
    return tanh(a);
}
static inline double nc_erf(double a)
{
    return erf(a);
}
static inline double nc_sigmoid(double a)
{
    if (a >= 0) return 1 / (1 + exp(-a));
    double e = exp(a); // neither branch overflows
    return e / (1 + e);
}
static inline double nc_floor(double a)
{
    return floor(a);
}
static inline double nc_ceil(double a)
{
    return ceil(a);
}
static inline double nc_round(double a)
{
    return rint(a);
} // ties to even
// The unit in the first place (Rump, Ogita, Oishi 2008): the largest power of two that is not above
// |a|; of 0, infinities and NaN |a|.
static inline double nc_ufp(double a)
{
    int exponent;
    if (a == 0 || !isfinite(a)) return fabs(a);
    frexp(a, &exponent);
    return ldexp(0.5, exponent);
}
static inline int64_t nc_isfinite(double a)
{
    return isfinite(a);
}

#endif
