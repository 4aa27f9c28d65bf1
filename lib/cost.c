// What a step moves and computes, and the least time a device needs for it.
#include "lib/cost.h"

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
        [PS_ZERO] = "zero",     [PS_LOOP] = "loop",
    };
    return kinds[s->kind];
}

Rates rates_of_target(const Target *t)
{
    Rates r = {.copy = t->bytes_per_second, .f32 = t->f32_flops};
    r.matmul[PD_F32] = t->f32_flops;
    r.matmul[PD_BF16] = r.matmul[PD_F16] = t->bf16_flops;
    r.tf32 = t->kind == TARGET_CUDA ? t->bf16_flops / 2 : t->f32_flops; // half the width
    return r;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

Cost step_cost(const Program *p, const ProgStep *s, const Rates *r)
{
    Cost c = {0};
    double compute = 0;
    if (s->kind == PS_KERNEL) {
        const ProgKernel *k = &p->kernels[s->index];
        c.bytes = k->bytes_read + k->bytes_written;
        c.flops = k->flops;
        compute = r->f32 > 0 ? (double)c.flops / r->f32 : 0;
    } else if (s->kind == PS_GEMM) {
        const ProgGemm *g = &p->gemms[s->index];
        bool tf32 = g->tf32 && g->a_type == PD_F32;
        double rate = tf32 ? r->tf32 : r->matmul[g->a_type];
        c.flops = 2 * g->m * g->n * g->k * g->batch;
        c.bytes = g->batch * (g->m * g->k * prog_dtype_bytes(g->a_type) +
                              g->k * g->n * prog_dtype_bytes(g->b_type) +
                              g->m * g->n * prog_dtype_bytes(g->c_type));
        compute = rate > 0 ? (double)c.flops / rate : 0;
        if (g->tail) c.bytes += p->kernels[g->tail - 1].bytes_written;
    } else if (s->kind == PS_COPY) {
        c.bytes = 2 * s->bytes;
    } else if (s->kind == PS_ZERO) {
        c.bytes = s->bytes;
    }
    c.floor = larger(r->copy > 0 ? (double)c.bytes / r->copy : 0, compute);
    return c;
}
