// The CPU as a device: memory is host memory, a stream runs what is enqueued at once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/cpu.h"
#include "runtime/host/file.h"

typedef struct CpuDevice {
    RtDevice base;
    CpuPool *pool;
} CpuDevice;

struct RtEvent {
    struct timespec at;
};

static RtCode cpu_open(int ordinal, RtDevice **out, RtError *e)
{
    (void)ordinal;
    CpuDevice *c = calloc(1, sizeof *c);
    if (!c) return rt_fail(e, RT_OOM, "out of memory");
    RtDevice *d = &c->base;
    int threads = rt_cpu_threads();
    c->pool = rt_pool_new(threads);
    if (!c->pool) {
        free(c);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    d->ops = &rt_cpu_ops;
    snprintf(d->name, sizeof d->name, "cpu");
    snprintf(d->model, sizeof d->model, "%d thread%s", threads, threads == 1 ? "" : "s");
    snprintf(d->target, sizeof d->target, "cpu");
    *out = d;
    return RT_OK;
}

static void cpu_close(RtDevice *d)
{
    rt_pool_free(((CpuDevice *)d)->pool);
    free(d);
}

static bool cpu_memory(RtDevice *d, size_t *free_bytes, size_t *total_bytes)
{
    (void)d;
    return rt_host_memory(free_bytes, total_bytes);
}

static RtCode cpu_enter(RtDevice *d, RtError *e)
{
    (void)d, (void)e;
    return RT_OK;
}

static void cpu_leave(RtDevice *d)
{
    (void)d;
}

static RtCode cpu_alloc(RtDevice *d, size_t bytes, const char *what, void **out, RtError *e)
{
    size_t free_bytes, total;
    *out = NULL;
    // Linux allocates more than there is. Refuses what cannot fit, since the process would be
    // killed later.
    bool absurd = bytes > 64 << 20 && cpu_memory(d, &free_bytes, &total) && bytes > free_bytes;
    if (absurd || posix_memalign(out, 256, bytes)) {
        *out = NULL;
        return rt_fail(e, RT_OOM, "out of memory: %.1f MB for %s%s", (double)bytes / 1e6, what,
                       absurd ? ", more than this machine has free; try a smaller batch" : "");
    }
    return RT_OK;
}

static RtCode cpu_device_alloc(RtDevice *d, size_t bytes, const char *what, void **out, RtError *e)
{
    return (d->allocator.alloc ? rt_alloc_from_caller : cpu_alloc)(d, bytes, what, out, e);
}

static void cpu_free(RtDevice *d, void *p)
{
    (void)d;
    free(p);
}

static void cpu_device_free(RtDevice *d, void *p)
{
    if (!d->allocator.alloc)
        free(p);
    else if (p)
        d->allocator.free(d->allocator.user, d->name, p);
}

static RtCode cpu_host_alloc(RtDevice *d, size_t bytes, void **out, RtError *e)
{
    return cpu_alloc(d, bytes, "host buffers", out, e);
}

static RtCode cpu_stream_new(RtDevice *d, const RtSessionOptions *o, RtStream **out, RtError *e)
{
    RtStream *s = calloc(1, sizeof *s);
    if (!s) return rt_fail(e, RT_OOM, "out of memory");
    s->device = d;
    s->par = o && o->parallel_for ? (NcPar){o->parallel_for, o->parallel_user}
                                  : (NcPar){rt_pool_run, ((CpuDevice *)d)->pool};
    *out = s;
    return RT_OK;
}

static void cpu_stream_free(RtStream *s)
{
    free(s);
}

static RtCode cpu_stream_sync(RtStream *s, RtError *e)
{
    (void)s, (void)e;
    return RT_OK;
}

static bool closed(const void *gate)
{
    return gate && ((const ProgError *)gate)->code;
}

static RtCode cpu_copy(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                       const void *gate, RtError *e)
{
    (void)s, (void)kind, (void)e;
    if (!closed(gate) && to != from) memmove(to, from, bytes);
    return RT_OK;
}

typedef struct Copy {
    char *to;
    const char *from;
} Copy;

static void copy_part(void *arg, long begin, long end)
{
    const Copy *c = arg;
    size_t at = (size_t)begin * RT_COPY_UNIT, n = (size_t)(end - begin) * RT_COPY_UNIT;
    memcpy(c->to + at, c->from + at, n);
}

static RtCode cpu_copy_kernel(RtStream *s, void *to, const void *from, size_t bytes, RtError *e)
{
    Copy c = {to, from};
    (void)e;
    s->par.run(s->par.ctx, (long)(bytes / RT_COPY_UNIT), copy_part, &c);
    return RT_OK;
}

static RtCode cpu_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e)
{
    (void)s, (void)e;
    if (!closed(gate)) memset(to, 0, bytes);
    return RT_OK;
}

static RtCode cpu_spoil(RtStream *s, void *to, size_t bytes, RtError *e)
{
    (void)s, (void)e;
    memset(to, 0xff, bytes);
    return RT_OK;
}

static RtCode cpu_take_error(RtStream *s, void *record, const void *from, int n, RtError *e)
{
    const ProgError *of = from;
    (void)s, (void)e;
    for (int i = n; i-- > 0;)
        if (of[i].code) {
            *(ProgError *)record = of[i];
            ((ProgError *)record)->device = (uint32_t)i;
        }
    return RT_OK;
}

static RtCode cpu_event_new(RtDevice *d, RtEvent **out, RtError *e)
{
    (void)d;
    *out = calloc(1, sizeof **out);
    return *out ? RT_OK : rt_fail(e, RT_OOM, "out of memory");
}

static void cpu_event_free(RtEvent *v)
{
    free(v);
}

static RtCode cpu_event_record(RtEvent *v, RtStream *s, RtError *e)
{
    (void)s, (void)e;
    clock_gettime(CLOCK_MONOTONIC, &v->at);
    return RT_OK;
}

static RtCode cpu_event_wait(RtStream *s, RtEvent *v, RtError *e)
{
    (void)s, (void)v, (void)e;
    return RT_OK;
}

static RtCode cpu_event_sync(RtEvent *v, RtError *e)
{
    (void)v, (void)e;
    return RT_OK;
}

static RtCode cpu_event_seconds(RtEvent *begin, RtEvent *end, double *seconds, RtError *e)
{
    (void)e;
    *seconds = (double)(end->at.tv_sec - begin->at.tv_sec) +
               1e-9 * (double)(end->at.tv_nsec - begin->at.tv_nsec);
    return RT_OK;
}

static const char *cpu_choices(RtModule *m, Arena *a)
{
    (void)a;
    return m->choices ? m->choices : ""; // (nothing is measured on loading)
}

static RtCode cpu_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e)
{
    return rt_cpu_gemm(m, &m->gemms[gemm], &s->par, slots, e);
}

const RtDeviceOps rt_cpu_ops = {
    .unified = true,
    .open = cpu_open,
    .close = cpu_close,
    .memory = cpu_memory,
    .enter = cpu_enter,
    .leave = cpu_leave,
    .alloc = cpu_device_alloc,
    .free = cpu_device_free,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_free,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .stream_sync = cpu_stream_sync,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .spoil = cpu_spoil,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_sync = cpu_event_sync,
    .event_seconds = cpu_event_seconds,
    .module_new = rt_cpu_module_new,
    .module_free = rt_cpu_module_free,
    .module_choices = cpu_choices,
    .launch = rt_cpu_launch,
    .gemm = cpu_gemm,
    .copy_kernel = cpu_copy_kernel,
    .take_error = cpu_take_error,
};
