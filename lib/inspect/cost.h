// What a step must move and compute, and how long a device needs for that.
#ifndef LIB_COST_H
#define LIB_COST_H

#include "codegen/codegen.h"

typedef struct Rates {             // of a device, measured or from its target
    double copy;                   // bytes per second
    double f32;                    // operations per second of kernels other than matmuls
    double matmul[PD_COUNT], tf32; // of products, by operand type; 0: unknown
} Rates;
Rates rates_of_target(const Target *t);

typedef struct Cost { // of one call
    int64_t bytes, flops;
    double floor; // minimum seconds
} Cost;
Cost step_cost(const Program *p, const ProgStep *s, const Rates *r);
// Of the step of a product. If a kernel follows the library's call, of the call alone; kernel_cost
// is that of the kernel.
Cost product_cost(const Program *p, int gemm, const Rates *r);
Cost kernel_cost(const Program *p, int kernel, const Rates *r);
const char *step_name(const Program *p, const ProgStep *s);
const char *step_kind(const ProgStep *s); // "kernel", "gemm", "copy", "zero", "loop"

#endif
