// GPU code for measurements: a copy kernel, with which every kernel that moves bytes is compared; a
// launch that only takes time; and what the driver knows about a kernel. Both kernels are PTX,
// which the driver assembles.
#include "runtime/cuda/cuda.h"

// copy_wide(to, from): each thread copies four times 16 bytes, one from each quarter of the memory,
// loaded at the same time; each block copies RT_COPY_UNIT bytes. On an H200 this is 3 % faster than
// four quarters of one block. wait(ns): one thread polls the timer.
#define LOAD(r)                                                                                    \
    "ld.global.cs.v4.u32 {" r "0," r "1," r "2," r "3}, [src];\nadd.u64 src, src, step;\n"
#define STORE(r)                                                                                   \
    "st.global.cs.v4.u32 [dst], {" r "0," r "1," r "2," r "3};\nadd.u64 dst, dst, step;\n"
static const char measure_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry copy_wide(.param .u64 p_to, .param .u64 p_from)\n{\n"
    ".reg .b32 block, thread, blocks, a<4>, b<4>, c<4>, d<4>;\n"
    ".reg .b64 src, dst, at, off, step;\n"
    "ld.param.u64 dst, [p_to];\nld.param.u64 src, [p_from];\n"
    "mov.u32 block, %ctaid.x;\nmov.u32 thread, %tid.x;\nmov.u32 blocks, %nctaid.x;\n"
    "mul.wide.u32 at, block, 4096;\nmul.wide.u32 off, thread, 16;\nadd.u64 at, at, off;\n"
    "mul.wide.u32 step, blocks, 4096;\nadd.u64 src, src, at;\nadd.u64 dst, dst, at;\n" //
    LOAD("a") LOAD("b") LOAD("c") LOAD("d")                                            //
    STORE("a") STORE("b") STORE("c") STORE("d")                                        //
    "ret;\n}\n"
    ".visible .entry wait(.param .u64 p_ns)\n{\n"
    ".reg .pred more;\n.reg .b64 begin, now, ns;\n"
    "ld.param.u64 ns, [p_ns];\nmov.u64 begin, %globaltimer;\n"
    "again:\nmov.u64 now, %globaltimer;\nsub.u64 now, now, begin;\n"
    "setp.lt.u64 more, now, ns;\n@more bra again;\nret;\n}\n";

static RtCode load(CudaDevice *d, RtError *e)
{
    CU(d, e, module_load(&d->measure, measure_ptx, 0, NULL, NULL));
    CU(d, e, module_function(&d->copy_wide, d->measure, "copy_wide"));
    CU(d, e, module_function(&d->wait, d->measure, "wait"));
    return RT_OK;
}

static RtCode ready(CudaDevice *d, RtError *e)
{
    pthread_mutex_lock(&d->lock);
    RtCode code = d->wait ? RT_OK : load(d, e);
    pthread_mutex_unlock(&d->lock);
    return code;
}

RtCode cuda_copy_kernel(RtStream *s, void *to, const void *from, size_t bytes, RtError *e)
{
    CudaDevice *d = s->d;
    if (ready(d, e)) return e->code;
    void *params[] = {&to, &from};
    CuLaunch launch = {
        .grid = {(unsigned)(bytes / RT_COPY_UNIT), 1, 1}, .block = {256, 1, 1}, .stream = s->s};
    CU_AT(d, e, "the copy that is measured", NULL, launch(&launch, d->copy_wide, params, NULL));
    return RT_OK;
}

RtCode cuda_wait(RtStream *s, double seconds, RtError *e)
{
    CudaDevice *d = s->d;
    if (ready(d, e)) return e->code;
    uint64_t ns = (uint64_t)(seconds * 1e9);
    void *params[] = {&ns};
    CuLaunch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = s->s};
    CU(d, e, launch(&launch, d->wait, params, NULL));
    return RT_OK;
}

RtCode cuda_kernel_info(RtModule *m, int kernel, RtKernelInfo *out, RtError *e)
{
    CudaDevice *d = m->d;
    const ProgKernel *k = &m->p->kernels[kernel];
    CuFunction f = m->function[kernel];
    int threads = (int)(k->block[0] * k->block[1] * k->block[2]), fixed = 0, blocks = 0, most = 0;
    CU_AT(d, e, k->name, m->loc[kernel], func_get(&out->registers, CU_FUNC_REGISTERS, f));
    CU_AT(d, e, k->name, m->loc[kernel], func_get(&out->local_bytes, CU_FUNC_LOCAL, f));
    CU_AT(d, e, k->name, m->loc[kernel], func_get(&fixed, CU_FUNC_STATIC_SHARED, f));
    CU_AT(d, e, k->name, m->loc[kernel], occupancy(&blocks, f, threads, k->shared_bytes));
    CU(d, e, device_attribute(&most, CU_ATTR_THREADS_PER_UNIT, d->id));
    out->shared_bytes = fixed + (int)k->shared_bytes;
    out->threads = threads;
    out->occupancy = most ? (double)blocks * threads / most : -1;
    return RT_OK;
}
