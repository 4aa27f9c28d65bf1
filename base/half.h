// The 16-bit floats as bits: f16 has 5 bits of exponent, bf16 has 8.
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>

enum { HALF_F16 = 5, HALF_BF16 = 8 }; // bits of exponent

double half_round(double v, int exponent_bits); // rounds to the nearest 16-bit float, ties to even
uint16_t half_bits(double v, int exponent_bits);
double half_value(uint16_t bits, int exponent_bits);
// The same for floats, computed with integer operations only: fast for whole tensors.
float half_float(uint16_t bits, int exponent_bits);
uint16_t half_bf16(float v);
uint16_t half_f16(float v);
// Converts n floats to 16-bit floats in place. Returns the index of the first finite float that is
// too large for them, or -1.
int64_t half_narrow(void *data, int64_t n, int exponent_bits);

#endif
