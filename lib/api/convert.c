// Converts floats to another width, and transposes matrices.
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "lib/lib.h"

bool float_type(ProgDType t)
{
    return t >= PD_BF16;
}

// Values in files need not be aligned.
static void widen(const char *in, int exponent_bits, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, sizeof bits);
        out[i] = half_float(bits, exponent_bits);
    }
}

static bool narrow(const char *in, uint16_t *out, int64_t n)
{
    bool fit = true;
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, in + 4 * i, sizeof v);
        out[i] = half_bf16(v);
        fit &= !isfinite(v) || (out[i] & 0x7f80) != 0x7f80;
    }
    return fit;
}

bool floats_convert(ProgDType from, const void *in, ProgDType to, void *out, int64_t n)
{
    if (to == PD_F32 && from == PD_BF16) return widen(in, HALF_BF16, out, n), true;
    if (to == PD_F32 && from == PD_F16) return widen(in, HALF_F16, out, n), true;
    if (to == PD_BF16 && from == PD_F32) return narrow(in, out, n);
    int a = prog_dtype_bytes(from), b = prog_dtype_bytes(to);
    bool fit = true;
    for (int64_t i = 0; i < n; i++) {
        double one; // forces alignment
        memcpy(&one, (const char *)in + i * a, (size_t)a);
        double v = prog_load(from, &one);
        prog_store(to, (char *)out + i * b, v);
        fit &= !isfinite(v) || isfinite(prog_load(to, (char *)out + i * b));
    }
    return fit;
}

enum { SQUARE = 32 }; // size of a part of a matrix that fits in the cache

#define TURN(T)                                                                                    \
    for (int64_t r = 0; r < rows; r += SQUARE)                                                     \
        for (int64_t c = 0; c < columns; c += SQUARE)                                              \
            for (int64_t i = r; i < rows && i < r + SQUARE; i++)                                   \
                for (int64_t k = c; k < columns && k < c + SQUARE; k++)                            \
    memcpy((T *)out + k * rows + i, (const char *)in + (i * columns + k) * bytes, sizeof(T))

void matrix_turn(const void *in, int bytes, int64_t rows, int64_t columns, void *out)
{
    switch (bytes) {
    case 1: TURN(uint8_t); break;
    case 2: TURN(uint16_t); break;
    case 4: TURN(uint32_t); break;
    default: TURN(uint64_t); break;
    }
}
