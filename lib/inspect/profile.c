// netc_profile: times an entry as a whole, then each of its steps between two events, and compares
// them with what the device can do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/inspect/cost.h"
#include "lib/inspect/timing.h"

typedef struct Profile {
    Timing t;
    const char *entry;
    netc_error **err;
    netc_status status;
    netc_profile_result *out;
} Profile;

// Measures the device's rates; for products, only the types that the entry has.
static netc_status measure_rates(Profile *p, const Program *prog, Rates *r)
{
    RtDevice *d = p->t.s->device;
    RtError e = {0};
    int arch = 0;
    sscanf(rt_device_target(d), "sm_%d", &arch);
    Target t = rt_device_is_cuda(d) ? target_cuda(arch, true) : target_cpu(1, true);
    *r = (Rates){.f32 = rt_device_is_cuda(d) ? t.f32_flops : 0};
    if (rt_copy_rate(d, &r->copy, &e)) return lib_fail_rt(p->err, &e);
    for (int i = 0; i < p->t.e->nsteps; i++) {
        const ProgStep *s = &p->t.e->steps[i];
        const ProgGemm *g = s->kind == PS_GEMM ? &prog->gemms[s->index] : NULL;
        const ProgKernel *k = s->kind == PS_KERNEL ? &prog->kernels[s->index] : NULL;
        bool generated = k && k->product_flops && rt_device_is_cuda(d); // (the CPU's library
                                                                        // computes f32)
        if (!g && !generated) continue;
        ProgDType type = g ? g->a_type : k->product_type;
        bool tf32 = type == PD_F32 && (g ? g->tf32 : k->product_tf32);
        double *rate = tf32 ? &r->tf32 : &r->matmul[type];
        if (*rate == 0 && rt_matmul_rate(d, type, tf32, &p->t.s->context->compile, rate, &e))
            return lib_fail_rt(p->err, &e);
    }
    return NETC_OK;
}

// The cost of a call. The step of a product has two calls if a kernel follows the library's; a
// kernel that replaces both does the work of both.
static Cost call_cost(const Program *prog, const ProgStep *s, const RtStepTime *t, const Rates *r)
{
    if (t->behind) return kernel_cost(prog, t->kernel, r);
    if (s->kind == PS_GEMM && t->kernel < 0) return product_cost(prog, s->index, r);
    return step_cost(prog, s, r);
}

static void fill_step(netc_step *out, const Program *prog, const ProgStep *s, const RtStepTime *t,
                      const Rates *r)
{
    Cost c = call_cost(prog, s, t, r);
    const ProgKernel *k = t->kernel >= 0 ? &prog->kernels[t->kernel] : NULL;
    *out = (netc_step){.calls = t->calls,
                       .seconds = t->seconds,
                       .low = t->low,
                       .high = t->high,
                       .bytes = (double)c.bytes,
                       .flops = (double)c.flops,
                       .floor = c.floor,
                       .registers = t->info.registers,
                       .local_bytes = t->info.local_bytes,
                       .shared_bytes = t->info.shared_bytes,
                       .threads = t->info.threads,
                       .occupancy = t->info.occupancy,
                       .place = t->step};
    snprintf(out->name, sizeof out->name, "%s", k ? k->name : step_name(prog, s));
    snprintf(out->kind, sizeof out->kind, "%s", k ? "kernel" : step_kind(s));
    snprintf(out->line, sizeof out->line, "%s", s->loc ? s->loc : "");
    if (k && k->schedule) snprintf(out->schedule, sizeof out->schedule, "%s", k->schedule);
}

// Allocates one block for the result and its two arrays.
static netc_profile_result *result_new(int nsteps, int nslices)
{
    size_t steps = sizeof(netc_profile_result), slices = steps + (size_t)nsteps * sizeof(netc_step);
    char *block = calloc(1, slices + (size_t)nslices * sizeof(netc_slice));
    netc_profile_result *r = (netc_profile_result *)block;
    if (!r) return NULL;
    r->nsteps = nsteps;
    r->nslices = nslices;
    r->steps = (netc_step *)(block + steps);
    r->slices = (netc_slice *)(block + slices);
    return r;
}

static void profile(void *arg)
{
    Profile *p = arg;
    Timing *t = &p->t;
    netc_times whole;
    Rates rates;
    p->status = timing_begin(t, p->entry, p->err);
    if (p->status == NETC_OK) p->status = timing_whole(t, &whole, p->err);
    const Program *prog = t->l ? t->l->build->program : NULL;
    if (p->status == NETC_OK) p->status = measure_rates(p, prog, &rates);
    if (p->status != NETC_OK) return;
    RtProfileOptions ro = {.repeats = (int)whole.repeats, .seconds = 1.0, .cold = t->o->cold};
    RtProfile rp;
    RtError re = {0};
    if (rt_profile(t->s->rt, t->l->rt, p->entry, &ro, t->arena, &rp, &re)) {
        p->status = timing_fail(t, &re, p->err);
        return;
    }
    netc_profile_result *out = p->out = result_new(rp.nsteps, rp.nslices);
    if (!out) {
        p->status = OUT_OF_MEMORY(p->err);
        return;
    }
    out->whole = whole;
    out->apart = rp.apart;
    out->pair = rp.pair;
    out->empty = rp.empty;
    out->copy_rate = rates.copy;
    out->f32 = rates.matmul[PD_F32];
    out->tf32 = rates.tf32;
    out->f16 = rates.matmul[PD_F16];
    out->bf16 = rates.matmul[PD_BF16];
    for (int i = 0; i < rp.nsteps; i++) {
        const RtStepTime *st = &rp.steps[i];
        fill_step(&out->steps[i], prog, &t->e->steps[st->step], st, &rates);
        out->sum += st->seconds * st->calls;
    }
    for (int i = 0; i < rp.nslices; i++)
        out->slices[i] = (netc_slice){rp.slices[i].at, rp.slices[i].begin, rp.slices[i].seconds};
}

netc_status netc_profile(netc_session *s, const char *entry, const netc_time_options *o,
                         netc_profile_result **out, netc_error **err)
{
    netc_time_options own = {0};
    netc_status status = TAKE_OPTIONS(netc_time_options, &own, o, err);
    if (status != NETC_OK) return status;
    Profile p = {.t = {.s = s, .o = &own, .arena = arena_new()}, .entry = entry, .err = err};
    *out = NULL;
    if (!p.t.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(p.t.arena, profile, &p)) p.status = OUT_OF_MEMORY(err);
    p.status = timing_end(&p.t, p.status, err);
    arena_free(p.t.arena);
    if (p.status == NETC_OK) {
        *out = p.out;
        return NETC_OK;
    }
    free(p.out);
    return p.status;
}
