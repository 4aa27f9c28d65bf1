// What a step moves and computes, and the minimum time that a device needs for it.
#include "lib/inspect/cost.h"

const char *step_name(const Program *p, const ProgStep *s)
{
    if (s->kind == PS_KERNEL) return p->kernels[s->index].name;
    if (s->kind == PS_GEMM) return p->gemms[s->index].name;
    return step_kind(s);
}

const char *step_kind(const ProgStep *s)
{
    static const char *const kinds[] = {
        [PS_KERNEL] = "kernel", [PS_GEMM] = "gemm", [PS_COPY] = "copy",
        [PS_ZERO] = "zero",     [PS_LOOP] = "loop", [PS_EXCHANGE] = "exchange",
        [PS_AGREE] = "agree",   [PS_SKIP] = "skip",
    };
    return kinds[s->kind];
}

Rates rates_of_target(const Target *t)
{
    Rates r = {.copy = t->bytes_per_second, .f32 = t->f32_flops};
    r.matmul[PD_F32] = target_product_flops(t, false, false);
    r.matmul[PD_BF16] = r.matmul[PD_F16] = target_product_flops(t, true, false);
    r.tf32 = target_product_flops(t, false, true);
    return r;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

// scalar: number of operations that are not part of a product.
static Cost cost(int64_t bytes, int64_t scalar, int64_t product, double product_rate,
                 const Rates *r)
{
    double t = r->copy > 0 ? (double)bytes / r->copy : 0;
    if (r->f32 > 0) t = larger(t, (double)scalar / r->f32);
    if (product_rate > 0) t = larger(t, (double)product / product_rate);
    return (Cost){bytes, scalar + product, t};
}

static double product_rate(ProgDType type, bool tf32, const Rates *r)
{
    return tf32 && type == PD_F32 ? r->tf32 : r->matmul[type];
}

Cost kernel_cost(const Program *p, int kernel, const Rates *r)
{
    const ProgKernel *k = &p->kernels[kernel];
    return cost(k->bytes_read + k->bytes_written, k->flops - k->product_flops, k->product_flops,
                product_rate(k->product_type, k->product_tf32, r), r);
}

static Cost product(const Program *p, int gemm, int64_t more_bytes, const Rates *r)
{
    const ProgGemm *g = &p->gemms[gemm];
    // (an operand without a stride is the same for the whole batch)
    int64_t bytes = (g->stride_a ? g->batch : 1) * g->m * g->k * prog_dtype_bytes(g->a_type) +
                    (g->stride_b ? g->batch : 1) * g->k * g->n * prog_dtype_bytes(g->b_type) +
                    g->batch * (1 + g->residual) * g->m * g->n * prog_dtype_bytes(g->c_type);
    for (int i = 0; i < 3 && g->conv.kind; i++) { // windows overlap
        int64_t n = 0;
        prog_gemm_elements(g, i, &n);
        bytes = (i ? bytes : 0) + n * prog_dtype_bytes(g->a_type);
    }
    return cost(bytes + more_bytes, 0, 2 * g->m * g->n * g->k * g->batch,
                product_rate(g->a_type, g->tf32, r), r);
}

Cost product_cost(const Program *p, int gemm, const Rates *r)
{
    return product(p, gemm, 0, r);
}

Cost step_cost(const Program *p, const ProgStep *s, const Rates *r)
{
    switch (s->kind) {
    case PS_KERNEL: return kernel_cost(p, s->index, r);
    case PS_GEMM: {
        int follower = p->gemms[s->index].follower - 1;
        return product(p, s->index, follower < 0 ? 0 : p->kernels[follower].bytes_written, r);
    }
    case PS_COPY: return cost(2 * s->bytes, 0, 0, 0, r);
    case PS_ZERO: return cost(s->bytes, 0, 0, 0, r);
    case PS_EXCHANGE: // (its time is that of the links, which are not known)
    case PS_AGREE:
    case PS_SKIP:
    case PS_LOOP: break;
    }
    return (Cost){0};
}
