// What a step must move and compute, and how long a device needs for that.
#ifndef LIB_COST_H
#define LIB_COST_H

#include "codegen/codegen.h"

typedef struct Rates {             // of a device, measured or as its target says
    double copy;                   // bytes a second
    double f32;                    // operations a second of kernels that are no matmul
    double matmul[PD_COUNT], tf32; // of products, by operand type; 0: not known
} Rates;
Rates rates_of_target(const Target *t);

typedef struct Cost { // of one call
    int64_t bytes, flops;
    double floor; // seconds
} Cost;
Cost step_cost(const Program *p, const ProgStep *s, const Rates *r);
// Of a product's step, where a kernel stands behind the library's call: each alone.
Cost product_cost(const Program *p, int gemm, const Rates *r);
Cost kernel_cost(const Program *p, int kernel, const Rates *r);
const char *step_name(const Program *p, const ProgStep *s);
const char *step_kind(const ProgStep *s); // "kernel", "gemm", "copy", "zero", "loop"

#endif
