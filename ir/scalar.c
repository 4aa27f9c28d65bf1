// Elements one at a time: conversions, and the element expressions of ops.def compiled as C.
#include "ir/scalar.h"

#include <string.h>

#include "base/half.h"

// -- conversions ----------------------------------------------------------------------------------

double scalar_round_half(DType t, double v)
{
    return half_round(v, t == DT_F16 ? HALF_F16 : HALF_BF16);
}

int64_t scalar_wrap(DType t, int64_t v)
{
    switch (t) {
    case DT_BOOL: return v != 0;
    case DT_U8: return (uint8_t)v;
    case DT_I32: return (int32_t)v;
    case DT_U32: return (uint32_t)v;
    default: return v;
    }
}

int64_t scalar_to_int(DType t, double v)
{
    if (t == DT_BOOL) return v != 0;
    if (v != v) return 0;
    int64_t low = t == DT_I32 ? INT32_MIN : t == DT_I64 ? INT64_MIN : 0;
    int64_t high = t == DT_I32   ? INT32_MAX
                   : t == DT_I64 ? INT64_MAX
                   : t == DT_U32 ? UINT32_MAX
                                 : UINT8_MAX;
    if (v <= (double)low) return low;
    if (v >= (double)high) return high;
    return (int64_t)v;
}

// -- storage --------------------------------------------------------------------------------------

Scalar scalar_load(DType t, const void *at)
{
    Scalar out = {.i = 0};
    switch (t) {
    case DT_BOOL: out.i = *(const uint8_t *)at != 0; break;
    case DT_U8: out.i = *(const uint8_t *)at; break;
#define LOAD(id, T, field)                                                                         \
    case id: {                                                                                     \
        T v;                                                                                       \
        memcpy(&v, at, sizeof v);                                                                  \
        out.field = v;                                                                             \
        break;                                                                                     \
    }
        LOAD(DT_I32, int32_t, i)
        LOAD(DT_U32, uint32_t, i)
        LOAD(DT_I64, int64_t, i)
        LOAD(DT_F32, float, f)
        LOAD(DT_F64, double, f)
#undef LOAD
    case DT_BF16:
    case DT_F16: {
        uint16_t h;
        memcpy(&h, at, sizeof h);
        out.f = half_value(h, t == DT_F16 ? HALF_F16 : HALF_BF16);
        break;
    }
    case DT_COUNT: break;
    }
    return out;
}

void scalar_store(DType t, void *at, Scalar v)
{
    switch (t) {
    case DT_BOOL: *(uint8_t *)at = v.i != 0; break;
    case DT_U8: *(uint8_t *)at = (uint8_t)v.i; break;
#define STORE(id, T, field)                                                                        \
    case id: {                                                                                     \
        T x = (T)v.field;                                                                          \
        memcpy(at, &x, sizeof x);                                                                  \
        break;                                                                                     \
    }
        STORE(DT_I32, int32_t, i)
        STORE(DT_U32, uint32_t, i)
        STORE(DT_I64, int64_t, i)
        STORE(DT_F32, float, f)
        STORE(DT_F64, double, f)
#undef STORE
    case DT_BF16:
    case DT_F16: {
        uint16_t h = half_bits(v.f, t == DT_F16 ? HALF_F16 : HALF_BF16);
        memcpy(at, &h, sizeof h);
        break;
    }
    case DT_COUNT: break;
    }
}

// -- element expressions --------------------------------------------------------------------------

// Which rules are defined for double and which for int64_t. The other version is never called.
#define ON_FLOAT_arith(e)   (e)
#define ON_FLOAT_float(e)   (e)
#define ON_FLOAT_compare(e) (e)
#define ON_FLOAT_test(e)    (e)
#define ON_FLOAT_select(e)  (e)
#define ON_FLOAT_same(e)    (e)
#define ON_FLOAT_cast(e)    (e)
#define ON_FLOAT_logic(e)   0
#define ON_FLOAT_bits(e)    0
#define ON_FLOAT_u32(e)     0

#define ON_INT_arith(e)   (e)
#define ON_INT_float(e)   0
#define ON_INT_compare(e) (e)
#define ON_INT_test(e)    0
#define ON_INT_select(e)  (e)
#define ON_INT_same(e)    (e)
#define ON_INT_cast(e)    (e)
#define ON_INT_logic(e)   (e)
#define ON_INT_bits(e)    (e)
#define ON_INT_u32(e)     (e)

#define UNUSED __attribute__((unused))
#define EW(id, arity, flags, rule, gradient, range, expression)                                    \
    static double float_##id(UNUSED double a, UNUSED double b, UNUSED double c)                    \
    {                                                                                              \
        return (double)ON_FLOAT_##rule(expression);                                                \
    }                                                                                              \
    static int64_t int_##id(UNUSED int64_t a, UNUSED int64_t b, UNUSED int64_t c)                  \
    {                                                                                              \
        return (int64_t)ON_INT_##rule(expression);                                                 \
    }
#define OP(id, ...)
#include "ir/ops.def"
#undef EW

double (*const scalar_on_float[OP_COUNT])(double, double, double) = {
#define EW(id, ...) [OP_##id] = float_##id,
#include "ir/ops.def"
#undef EW
};

// How a rule stores its first operand and its result, where the last operand is a float.
#define FIRST_arith    double
#define FIRST_float    double
#define FIRST_compare  double
#define FIRST_test     double
#define FIRST_select   int64_t
#define FIRST_same     double
#define FIRST_cast     double
#define FIRST_logic    double
#define FIRST_bits     double
#define FIRST_u32      double
#define RESULT_arith   double
#define RESULT_float   double
#define RESULT_compare int64_t
#define RESULT_test    int64_t
#define RESULT_select  double
#define RESULT_same    double
#define RESULT_cast    double
#define RESULT_logic   double
#define RESULT_bits    double
#define RESULT_u32     double

#define EW(id, arity, flags, rule, ...)                                                            \
    static void floats_##id(void *restrict out, const void *a, const double *b, const double *c,   \
                            int64_t n)                                                             \
    {                                                                                              \
        RESULT_##rule *restrict to = out;                                                          \
        const FIRST_##rule *first = a;                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = (RESULT_##rule)float_##id((double)first[i], b[i], c[i]);                       \
    }
#include "ir/ops.def"
#undef EW

void (*const scalar_on_floats[OP_COUNT])(void *restrict, const void *, const double *,
                                         const double *, int64_t) = {
#define EW(id, ...) [OP_##id] = floats_##id,
#include "ir/ops.def"
#undef EW
};

int64_t (*const scalar_on_int[OP_COUNT])(int64_t, int64_t, int64_t) = {
#define EW(id, ...) [OP_##id] = int_##id,
#include "ir/ops.def"
#undef EW
#undef OP
};
