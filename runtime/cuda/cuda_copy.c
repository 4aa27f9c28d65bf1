// Copies and fills, unconditional ones and ones that depend on the error record. The latter are two
// small kernels in PTX, which the driver assembles, so that they need no compiler at run time.
#include <stdio.h>

#include "runtime/cuda/cuda.h"

// void fill_N(char *to, const char *from, size_t n, const unsigned *gate): copies n elements of N
// bytes, or writes zeros if from is NULL. Does nothing if *gate is not 0.
static const char gated_ptx[] = ".version 7.0\n"
                                ".target sm_80\n"
                                ".address_size 64\n"
#define GATED(name, shift, regs, zero, load, store)                                                \
    ".visible .entry " name "(.param .u64 p_to, .param .u64 p_from, .param .u64 p_n, "             \
    ".param .u64 p_gate)\n{\n"                                                                     \
    ".reg .pred p, some;\n.reg .b32 a, b, c, d, code;\n"                                           \
    ".reg .b64 to, from, n, gate, i, step, at, src, dst;\n"                                        \
    "ld.param.u64 to, [p_to];\nld.param.u64 from, [p_from];\n"                                     \
    "ld.param.u64 n, [p_n];\nld.param.u64 gate, [p_gate];\n"                                       \
    "ld.global.u32 code, [gate];\nsetp.ne.u32 p, code, 0;\n@p bra done;\n"                         \
    "setp.ne.u64 some, from, 0;\n"                                                                 \
    "mov.u32 a, %ctaid.x;\nmov.u32 b, %ntid.x;\nmov.u32 c, %tid.x;\nmov.u32 d, %nctaid.x;\n"       \
    "mul.wide.u32 i, a, b;\ncvt.u64.u32 at, c;\nadd.u64 i, i, at;\nmul.wide.u32 step, d, "         \
    "b;\n" zero "next:\nsetp.ge.u64 p, i, n;\n@p bra done;\n"                                      \
    "shl.b64 at, i, " shift ";\n"                                                                  \
    "add.u64 src, from, at;\nadd.u64 dst, to, at;\n"                                               \
    "@some ld.global." load " " regs ", [src];\n"                                                  \
    "st.global." store " [dst], " regs ";\n"                                                       \
    "add.u64 i, i, step;\nbra next;\n"                                                             \
    "done:\nret;\n}\n"
    GATED("fill_1", "0", "a", "mov.b32 a, 0;\n", "u8", "u8")
        GATED("fill_16", "4", "{a, b, c, d}",
              "mov.b32 a, 0;\nmov.b32 b, 0;\nmov.b32 c, 0;\nmov.b32 d, 0;\n", "v4.u32", "v4.u32");

static RtCode load_builtin(CudaDevice *d, RtError *e)
{
    enum { MOST = 8192 };
    char text[MOST];
    snprintf(text, sizeof text, "%s%s", gated_ptx, cuda_group_ptx);
    CU(d, e, module_load(&d->builtin, text, 0, NULL, NULL));
    CU(d, e, module_function(&d->take_error, d->builtin, "take_error"));
    CU(d, e, module_function(&d->trade, d->builtin, "trade"));
    CU(d, e, module_function(&d->fill[0], d->builtin, "fill_1"));
    CU(d, e, module_function(&d->fill[1], d->builtin, "fill_16"));
    return RT_OK;
}

RtCode cuda_need_builtin(CudaDevice *d, RtError *e)
{
    RtCode code = RT_OK;
    pthread_mutex_lock(&d->lock);
    if (!d->fill[1]) code = load_builtin(d, e);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static RtCode gated(RtStream *s, void *to, const void *from, size_t bytes, const void *gate,
                    RtError *e)
{
    CudaDevice *d = s->d;
    if (cuda_need_builtin(d, e)) return e->code;
    bool wide = (((uintptr_t)to | (uintptr_t)from | bytes) & 15) == 0;
    size_t n = wide ? bytes / 16 : bytes;
    void *params[] = {&to, &from, &n, &gate};
    size_t blocks = (n + 255) / 256, most = (size_t)d->base.units * 8;
    CuLaunch launch = {.grid = {(unsigned)(blocks < most ? blocks : most), 1, 1},
                       .block = {256, 1, 1},
                       .stream = s->s};
    CU_AT(d, e, from ? "copy behind a check" : "zero behind a check", NULL,
          launch(&launch, d->fill[wide], params, NULL));
    return RT_OK;
}

RtCode cuda_copy(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                 const void *gate, RtError *e)
{
    if (!bytes) return RT_OK;
    if (gate && kind == RT_D2D) return gated(s, to, from, bytes, gate, e);
    if (gate) return rt_fail(e, RT_ENV, "only copies on the device can be behind a check");
    switch (kind) {
    case RT_H2D: CU(s->d, e, copy_h2d((uintptr_t)to, from, bytes, s->s)); break;
    case RT_D2H: CU(s->d, e, copy_d2h(to, (uintptr_t)from, bytes, s->s)); break;
    case RT_D2D: CU(s->d, e, copy_d2d((uintptr_t)to, (uintptr_t)from, bytes, s->s)); break;
    }
    return RT_OK;
}

RtCode cuda_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e)
{
    if (!bytes) return RT_OK;
    if (gate) return gated(s, to, NULL, bytes, gate, e);
    CU(s->d, e, memset_u8((uintptr_t)to, 0, bytes, s->s));
    return RT_OK;
}

RtCode cuda_spoil(RtStream *s, void *to, size_t bytes, RtError *e)
{
    CU(s->d, e, memset_u8((uintptr_t)to, 0xff, bytes, s->s));
    return RT_OK;
}
