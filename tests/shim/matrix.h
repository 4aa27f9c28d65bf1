// Products of tensor cores (matrix.c). Included by kernels too (ptx.h): no header of the system.
#ifndef TESTS_SHIM_MATRIX_H
#define TESTS_SHIM_MATRIX_H

struct ShimLate;
enum { SHIM_HALF, SHIM_BRAIN, SHIM_TF32 }; // what the operands are

#ifdef __cplusplus
extern "C" {
#endif
// d, a lane's share of a warp's 16 x 8, += 16 x k times k x 8: k is 8 for tf32, else 16.
void shim_matrix(float *d, const unsigned *a, const unsigned *b, int kind);
// wgmma: e->n columns; e->p the thread's sums, e->b and e->k[1] the right operand, e->a and e->k[0]
// or e->map[1] and [2] (registers) the left one.
void shim_product_now(const struct ShimLate *e);
void shim_left_product_now(const struct ShimLate *e);
#ifdef __cplusplus
}
#endif

#endif
