// What a device can do: the rates of a large copy and of a large product, against which all
// measured rates are compared.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

enum { ROUNDS = 9, WARM = 2 };

typedef struct Yard {
    RtDevice *d;
    RtStream *stream;
    RtEvent *begin, *end;
    void *mem[4];
    RtModule *module;
} Yard;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static RtCode open_yard(Yard *y, RtDevice *d, RtError *e)
{
    *y = (Yard){.d = d};
    if (d->ops->stream_new(d, NULL, &y->stream, e) || d->ops->event_new(d, &y->begin, e) ||
        d->ops->event_new(d, &y->end, e))
        return e->code;
    return RT_OK;
}

static void close_yard(Yard *y)
{
    const RtDeviceOps *ops = y->d->ops;
    RtError ignored = {0};
    if (y->stream) ops->stream_sync(y->stream, &ignored);
    if (y->module) ops->module_free(y->module);
    for (int i = 0; i < 4; i++) ops->free(y->d, y->mem[i]);
    if (y->begin) ops->event_free(y->begin);
    if (y->end) ops->event_free(y->end);
    if (y->stream) ops->stream_free(y->stream);
}

// The median time of what once() enqueues.
static RtCode measure(Yard *y, RtCode (*once)(Yard *y, void *arg, RtError *e), void *arg,
                      double *seconds, RtError *e)
{
    const RtDeviceOps *ops = y->d->ops;
    double t[ROUNDS];
    for (int i = -WARM; i < ROUNDS; i++) {
        double v;
        if (ops->event_record(y->begin, y->stream, e) || once(y, arg, e) ||
            ops->event_record(y->end, y->stream, e) || ops->event_sync(y->end, e) ||
            ops->event_seconds(y->begin, y->end, &v, e))
            return e->code;
        if (i >= 0) t[i] = v;
    }
    qsort(t, ROUNDS, sizeof *t, by_value);
    *seconds = t[ROUNDS / 2];
    return RT_OK;
}

// Several copies in a row, since a single one is slower at its beginning and end.
enum { COPIES = 4 };
static RtCode copy_once(Yard *y, void *arg, RtError *e)
{
    for (int i = 0; i < COPIES; i++)
        if (y->d->ops->copy_kernel(y->stream, y->mem[1], y->mem[0], *(size_t *)arg, e))
            return e->code;
    return RT_OK;
}

static RtCode copy_rate(Yard *y, double *rate, RtError *e)
{
    const RtDeviceOps *ops = y->d->ops;
    size_t bytes = ops->cuda ? (size_t)1 << 30 : (size_t)64 << 20, avail = 0, total;
    double seconds;
    // Uses at most a quarter of the free memory, but more than the cache.
    if (ops->memory(y->d, &avail, &total))
        while (bytes > avail / 8 && bytes > (size_t)32 << 20) bytes /= 2;
    for (int i = 0; i < 2; i++)
        if (ops->alloc(y->d, bytes, "measuring the copy rate", &y->mem[i], e) ||
            ops->zero(y->stream, y->mem[i], bytes, NULL, e))
            return e->code;
    if (measure(y, copy_once, &bytes, &seconds, e)) return e->code;
    *rate = seconds > 0 ? COPIES * 2 * (double)bytes / seconds : 0;
    return RT_OK;
}

RtCode rt_copy_rate(RtDevice *d, double *bytes_per_second, RtError *e)
{
    Yard y;
    *bytes_per_second = 0;
    if (d->ops->enter(d, e)) return e->code;
    if (!open_yard(&y, d, e)) copy_rate(&y, bytes_per_second, e);
    close_yard(&y);
    d->ops->leave(d);
    return e->code;
}

static RtCode gemm_once(Yard *y, void *arg, RtError *e)
{
    (void)arg;
    RtSlot slots[] = {{.p = y->mem[0]}, {.p = y->mem[1]}, {.p = y->mem[2]}, {.p = y->mem[3]}};
    return y->d->ops->gemm(y->stream, y->module, 0, slots, e);
}

// Fills memory with values of both signs, since products of zeros run faster than all others. Only
// PERIOD values are generated, and repeated.
static RtCode fill(Yard *y, int i, ProgDType t, int64_t n, RtError *e)
{
    enum { PERIOD = 1048573 };
    size_t bytes = (size_t)(n * prog_dtype_bytes(t));
    int64_t fresh = n < PERIOD ? n : PERIOD;
    char *host = malloc(bytes);
    uint32_t v = 7 + (uint32_t)i;
    if (!host) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t k = 0; k < fresh; k++) {
        v = v * 1664525u + 1013904223u;
        prog_store(t, host + k * prog_dtype_bytes(t), (double)(v >> 8) * 0x1p-23 - 1);
    }
    size_t have = (size_t)(fresh * prog_dtype_bytes(t));
    for (; have < bytes; have += have)
        memcpy(host + have, host, have < bytes - have ? have : bytes - have);
    RtCode code = y->d->ops->copy(y->stream, y->mem[i], host, bytes, RT_H2D, NULL, e);
    if (!code) code = y->d->ops->stream_sync(y->stream, e);
    free(host);
    return code;
}

static RtCode matmul_rate(Yard *y, ProgDType type, bool tf32, const RtCompileOptions *o,
                          double *rate, RtError *e)
{
    const RtDeviceOps *ops = y->d->ops;
    bool tensor = type == PD_BF16 || type == PD_F16;
    int64_t n = !ops->cuda ? 1024 : tensor ? 8192 : 4096, elements = n * n;
    ProgGemm g = {.name = "the product that is measured",
                  .loc = "",
                  .a_type = type,
                  .b_type = type,
                  .c_type = type,
                  .compute = type == PD_F64 ? PD_F64 : PD_F32,
                  .tf32 = tf32,
                  .trans_b = true,
                  .m = n,
                  .n = n,
                  .k = n,
                  .lda = n,
                  .ldb = n,
                  .ldc = n,
                  .batch = 1,
                  .workspace = ops->cuda ? 32 << 20 : 0,
                  .choice_key = "measure"};
    char key[64];
    snprintf(key, sizeof key, "measure %s%s", prog_dtype_name(type), tf32 ? " tf32" : "");
    g.choice_key = key;
    Program p = {.model = "measure",
                 .target = y->d->target,
                 .cuda = ops->cuda,
                 .ngemms = 1,
                 .gemms = &g,
                 .prelude = "",
                 .choices = ""};
    double seconds;
    for (int i = 0; i < 3; i++)
        if (ops->alloc(y->d, (size_t)(elements * prog_dtype_bytes(type)), "measuring the matmul",
                       &y->mem[i], e) ||
            (i < 2 && fill(y, i, type, elements, e)))
            return e->code;
    if (g.workspace && ops->alloc(y->d, (size_t)g.workspace, "measuring the matmul", &y->mem[3], e))
        return e->code;
    if (ops->module_new(y->d, &p, NULL, 0, o, &y->module, e) ||
        measure(y, gemm_once, NULL, &seconds, e))
        return e->code;
    *rate = seconds > 0 ? 2 * (double)n * (double)elements / seconds : 0;
    return RT_OK;
}

RtCode rt_matmul_rate(RtDevice *d, ProgDType type, bool tf32, const RtCompileOptions *o,
                      double *flops_per_second, RtError *e)
{
    Yard y;
    *flops_per_second = 0;
    if (!rt_matmul_library(d->ops->cuda)) return RT_OK;
    if (d->ops->enter(d, e)) return e->code;
    if (!open_yard(&y, d, e)) matmul_rate(&y, type, tf32, o, flops_per_second, e);
    close_yard(&y);
    d->ops->leave(d);
    return e->code;
}
