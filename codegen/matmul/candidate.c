// Whether a product that the matmul library computes also gets a generated kernel as a second
// candidate. That costs a compilation, so it is generated only where it may be chosen.
#include "codegen/matmul/gemm.h"
#include "codegen/schedule/plans.h"

// The library nearly reaches the rate of the tensor cores. A kernel that is expected to reach less
// than this share of it is rarely chosen.
#define WORTH_TIMING 0.65

// The share of the tensor cores' rate that the main loop of the body's schedule reaches on large
// tiles.
static double tensor_share(const Body *b, const Target *t)
{
    if (b->sched.variant == RUN_GROUPS) return wgmma_share(b, t);
    if (b->sched.variant == RUN_WARP_TILES || b->sched.variant == RUN_F32_RING)
        return 1; // limited by memory, not by tensor cores
    if (!mma_fits(b)) return 0;
    return target_mma_share(t);
}

bool candidate_may_be_needed(const Target *t, const ProgGemm *g)
{
    bool narrow = g->a_type == PD_BF16 || g->a_type == PD_F16;
    bool odd = (g->lda | g->ldb | g->ldc | g->stride_a | g->stride_b | g->stride_c) % 8 != 0;
    return t->kind == TARGET_CUDA && ((narrow && odd) || g->epilogue > PE_RELU_BIAS);
}

// True for long products, and for those with few rows, for which a library has too few blocks; in
// f32 for those with few results. The runtime does not search variants for others, either.
bool candidate_may_pay(const Target *t, const ProgGemm *g)
{
    bool narrow = g->a_type == PD_BF16 || g->a_type == PD_F16;
    if (t->kind != TARGET_CUDA) return false;
    if (g->a_type == PD_F32) return target_idle_product(t, g->batch, g->m, g->n, g->k);
    return narrow && (target_long_product(t, g->batch, g->m, g->n, g->k) ||
                      target_few_rows(t, g->batch, g->m, g->n, g->k));
}

bool candidate_may_win(const Target *t, const LoweredKernel *k)
{
    const Body *b = k->body[0];
    int sums = 0; // only the product's own sum: everything else is elementwise
    for (uint32_t i = 0; i < b->insts.n; i++) sums += b->insts.at[i].kind == KI_REDUCE;
    return k->nbodies == 1 && sums == 1 && b->dot.sum >= 0 && tensor_share(b, t) >= WORTH_TIMING;
}

bool candidate_convolution(const Target *t, const ProgGemm *g)
{
    const double LEAST = 8e6; // operations of a multiprocessor: some 10 us of a generated kernel
    return 2.0 * (double)g->m * (double)g->n * (double)g->k >= LEAST * t->units;
}
