// A GPU through the driver API: opening, memory, streams, events.
#include "runtime/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

RtCode cuda_failed(const CudaDevice *d, CuResult r, const char *call, const char *file, int line,
                   const char *kernel, const char *loc, RtError *e)
{
    const char *name = NULL, *text = NULL;
    if (d->cu.error_name(r, &name) != CU_OK || !name) name = "unknown error";
    if (d->cu.error_string(r, &text) != CU_OK || !text) text = "";
    char at[512] = "";
    if (kernel)
        snprintf(at, sizeof at, "\n  kernel %s%s%s", kernel, loc && *loc ? ", " : "",
                 loc ? loc : "");
    bool fault = r == CU_ILLEGAL_ADDRESS || (r >= CU_FAULT_FIRST && r <= CU_FAULT_LAST);
    const char *advice =
        !fault    ? ""
        : d->sync ? "\na kernel did this to the device; this process cannot use it any more"
                  : "\na kernel launched before did this; run again with NETC_SYNC=1 in the "
                    "environment to see which";
    return rt_fail(e, r == CU_OUT_OF_MEMORY ? RT_OOM : RT_ENV,
                   "%s: %s failed: %s (%s)\n  at %s:%d%s%s", d->base.name, call, name, text, file,
                   line, at, advice);
}

// -- opening --------------------------------------------------------------------------------------
enum { OLDEST = 80 }; // architecture

int rt_cuda_count(void)
{
    CuDriver cu;
    RtError e = {0};
    int n = 0;
    if (cu_driver_open(&cu, &e) || cu.device_count(&n) != CU_OK) return 0;
    return n;
}

bool rt_cuda_gpu(int ordinal, RtGpu *out)
{
    CuDriver cu;
    RtError e = {0};
    CuDeviceId id;
    int n = 0, major = 0, minor = 0;
    *out = (RtGpu){0};
    if (cu_driver_open(&cu, &e) || cu.device_count(&n) != CU_OK || n <= ordinal ||
        cu.device_get(&id, ordinal) != CU_OK ||
        cu.device_name(out->model, sizeof out->model, id) != CU_OK ||
        cu.device_attribute(&major, CU_ATTR_CC_MAJOR, id) != CU_OK ||
        cu.device_attribute(&minor, CU_ATTR_CC_MINOR, id) != CU_OK ||
        cu.device_attribute(&out->units, CU_ATTR_UNITS, id) != CU_OK)
        return false;
    out->arch = major * 10 + minor;
    return out->arch >= OLDEST;
}

static RtCode start(CudaDevice *d, int ordinal, RtError *e)
{
    RtCode code = cu_driver_open(&d->cu, e);
    if (code) return code;
    int n = 0, major = 0, minor = 0;
    CU(d, e, device_count(&n));
    if (n == 0)
        return rt_fail(e, RT_ENV,
                       "no GPU: the NVIDIA driver sees none (is CUDA_VISIBLE_DEVICES set?); "
                       "use the CPU (--device cpu)");
    if (ordinal >= n)
        return rt_fail(e, RT_ENV, "there is no cuda:%d; this machine has cuda:0%s", ordinal,
                       n > 1 ? " and further ones" : " only");
    CU(d, e, driver_version(&d->driver_version));
    if (d->driver_version < 12000)
        return rt_fail(e, RT_ENV,
                       "the NVIDIA driver is for CUDA %d.%d; netc needs 12.0 or later: update "
                       "the driver",
                       d->driver_version / 1000, d->driver_version % 1000 / 10);
    CU(d, e, device_get(&d->id, ordinal));
    CU(d, e, device_name(d->base.model, sizeof d->base.model, d->id));
    CU(d, e, device_attribute(&major, CU_ATTR_CC_MAJOR, d->id));
    CU(d, e, device_attribute(&minor, CU_ATTR_CC_MINOR, d->id));
    CU(d, e, device_attribute(&d->base.units, CU_ATTR_UNITS, d->id));
    d->arch = major * 10 + minor;
    snprintf(d->base.target, sizeof d->base.target, "sm_%d", d->arch);
    if (d->arch < OLDEST)
        return rt_fail(e, RT_ENV,
                       "%s is sm_%d; netc needs sm_80 (A100) or later: use the CPU "
                       "(--device cpu)",
                       d->base.model, d->arch);
    CU(d, e, primary_retain(&d->context, d->id));
    const char *sync = getenv("NETC_SYNC");
    d->sync = sync && !strcmp(sync, "1");
    return RT_OK;
}

static RtCode cuda_open(int ordinal, RtDevice **out, RtError *e)
{
    *out = NULL;
    CudaDevice *d = calloc(1, sizeof *d);
    if (!d) return rt_fail(e, RT_OOM, "out of memory");
    d->base.ops = &rt_cuda_ops;
    snprintf(d->base.name, sizeof d->base.name, "cuda:%d", ordinal);
    pthread_mutex_init(&d->lock, NULL);
    RtCode code = start(d, ordinal, e);
    if (code) {
        rt_cuda_ops.close(&d->base);
        return code;
    }
    *out = &d->base;
    return RT_OK;
}

static void cuda_close(RtDevice *device)
{
    CudaDevice *d = cuda_of(device);
    if (d->context) {
        if (d->cu.ctx_push(d->context) == CU_OK) {
            CuContext popped;
            if (d->lt_handle) d->lt.destroy(d->lt_handle);
            if (d->dnn_handle) d->dnn.destroy(d->dnn_handle);
            if (d->builtin) d->cu.module_unload(d->builtin);
            if (d->measure) d->cu.module_unload(d->measure);
            d->cu.ctx_pop(&popped);
        }
        d->cu.primary_release(d->id);
    }
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static RtCode cuda_reach(RtDevice *device, RtDevice *other, bool *direct, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    const CuResult r = d->cu.ctx_reach(cuda_of(other)->context, 0);
    int atomic = 0;
    // Kernels that wait for each other must run at the same time.
    *direct = (r == CU_OK || r == CU_PEER_ACCESS_ALREADY) && !d->sync &&
              d->cu.pair_attribute(&atomic, CU_PAIR_ATOMIC, d->id, cuda_of(other)->id) == CU_OK &&
              atomic;
    if (cuda_need_builtin(d, e)) return e->code; // (loading a kernel may wait for the device)
    // (copies between devices that cannot are made by way of the host's memory)
    if (r == CU_OK || r == CU_PEER_ACCESS_ALREADY || r == CU_PEER_ACCESS_UNSUPPORTED) return RT_OK;
    return cuda_failed(d, r, "ctx_reach(...)", __FILE__, __LINE__, NULL, NULL, e);
}

static RtCode cuda_enter(RtDevice *device, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    CU(d, e, ctx_push(d->context));
    return RT_OK;
}

static void cuda_leave(RtDevice *device)
{
    CuContext popped;
    cuda_of(device)->cu.ctx_pop(&popped);
}

// -- memory ---------------------------------------------------------------------------------------
static bool cuda_memory(RtDevice *d, size_t *free_bytes, size_t *total_bytes)
{
    return cuda_of(d)->cu.mem_info(free_bytes, total_bytes) == CU_OK;
}

static RtCode cuda_alloc(RtDevice *device, size_t bytes, const char *what, void **out, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    CuPtr p = 0;
    *out = NULL;
    if (device->allocator.alloc) return rt_alloc_from_caller(device, bytes, what, out, e);
    CuResult r = d->cu.mem_alloc(&p, bytes);
    if (r == CU_OUT_OF_MEMORY) {
        size_t avail = 0, total = 0;
        cuda_memory(device, &avail, &total);
        return rt_fail(e, RT_OOM,
                       "%s (%s) is out of memory: %s needs %.1f MB; %.1f of %.1f MB are free",
                       device->name, device->model, what, (double)bytes / 1e6, (double)avail / 1e6,
                       (double)total / 1e6);
    }
    if (r != CU_OK)
        return cuda_failed(d, r, "mem_alloc(&p, bytes)", __FILE__, __LINE__, NULL, NULL, e);
    *out = (void *)(uintptr_t)p;
    return RT_OK;
}

static void cuda_free(RtDevice *d, void *p)
{
    if (!p) return;
    if (!d->allocator.alloc) {
        cuda_of(d)->cu.mem_free((uintptr_t)p);
        return;
    }
    cuda_of(d)->cu.ctx_synchronize();
    d->allocator.free(d->allocator.user, d->name, p);
}

static RtCode cuda_owns(RtDevice *device, const void *p, size_t bytes, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    CuPtr at = (uintptr_t)p, start = 0;
    size_t size = 0;
    int ordinal = -1;
    bool known = d->cu.pointer_attribute(&start, CU_POINTER_RANGE_START, at) == CU_OK &&
                 d->cu.pointer_attribute(&size, CU_POINTER_RANGE_SIZE, at) == CU_OK &&
                 d->cu.pointer_attribute(&ordinal, CU_POINTER_ORDINAL, at) == CU_OK;
    if (!known) return rt_fail(e, RT_USER, "%p is not a pointer of %s", p, device->name);
    if (ordinal != d->id)
        return rt_fail(e, RT_USER, "%p is memory of cuda:%d, the session runs on %s", p, ordinal,
                       device->name);
    if (at - start > size || bytes > size - (at - start))
        return rt_fail(e, RT_USER, "%zu bytes are needed at %p, its allocation ends after %zu",
                       bytes, p, (size_t)(start + size - at));
    return RT_OK;
}

static RtCode cuda_host_alloc(RtDevice *device, size_t bytes, void **out, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    *out = NULL;
    CU(d, e, host_alloc(out, bytes, 0));
    return RT_OK;
}

static void cuda_host_free(RtDevice *d, void *p)
{
    if (p) cuda_of(d)->cu.host_free(p);
}

// -- streams --------------------------------------------------------------------------------------
static RtCode cuda_stream_new(RtDevice *device, const RtSessionOptions *o, RtStream **out,
                              RtError *e)
{
    CudaDevice *d = cuda_of(device);
    *out = NULL;
    CuStream s = o ? o->stream : NULL;
    bool own = !s;
    // (priorities beyond the device's are clamped; the lowest number comes first)
    if (own && o && o->first)
        CU(d, e, stream_first(&s, CU_STREAM_NO_LEGACY_SYNC, -100));
    else if (own)
        CU(d, e, stream_create(&s, CU_STREAM_NO_LEGACY_SYNC));
    RtStream *r = calloc(1, sizeof *r);
    if (!r) {
        if (own) d->cu.stream_destroy(s);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    *r = (RtStream){.d = d, .s = s, .own = own};
    *out = r;
    return RT_OK;
}

static void cuda_stream_free(RtStream *s)
{
    if (!s) return;
    if (s->meeting) s->d->cu.event_destroy(s->meeting);
    if (s->own) s->d->cu.stream_destroy(s->s);
    free(s);
}

static RtCode cuda_stream_sync(RtStream *s, RtError *e)
{
    CU(s->d, e, stream_sync(s->s));
    return RT_OK;
}

// The event is reused: a wait refers to the record that was last when the wait was enqueued.
static RtCode cuda_stream_meet(RtStream *s, void *theirs, bool before, RtError *e)
{
    int captured = 0;
    if (!before) CU(s->d, e, stream_captured(theirs, &captured));
    // Work enqueued before must not become part of the capture that the session joins.
    if (captured && !cuda_captured(s)) CU(s->d, e, stream_sync(s->s));
    if (!s->meeting) CU(s->d, e, event_create(&s->meeting, CU_EVENT_NO_TIMING));
    CU(s->d, e, event_record(s->meeting, before ? s->s : theirs));
    CU(s->d, e, stream_wait(before ? theirs : s->s, s->meeting, 0));
    return RT_OK;
}

static RtCode cuda_sync_all(RtDevice *device, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    CuResult r = d->cu.ctx_synchronize();
    if (r == CU_CAPTURE_UNSUPPORTED)
        return rt_fail(e, RT_USER,
                       "replays of a CUDA graph that holds runs of this model must end before "
                       "anything else uses it, and a stream is being captured, during which the "
                       "device cannot be waited for: do this before or after the capture");
    if (r != CU_OK)
        return cuda_failed(d, r, "ctx_synchronize()", __FILE__, __LINE__, NULL, NULL, e);
    return RT_OK;
}

// -- events ---------------------------------------------------------------------------------------
struct RtEvent {
    CudaDevice *d;
    CuEvent e;
};

static RtCode cuda_event_new(RtDevice *device, RtEvent **out, RtError *e)
{
    CudaDevice *d = cuda_of(device);
    *out = NULL;
    CuEvent ev;
    CU(d, e, event_create(&ev, 0));
    RtEvent *r = calloc(1, sizeof *r);
    if (!r) {
        d->cu.event_destroy(ev);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    *r = (RtEvent){d, ev};
    *out = r;
    return RT_OK;
}

static void cuda_event_free(RtEvent *v)
{
    if (!v) return;
    v->d->cu.event_destroy(v->e);
    free(v);
}

static RtCode cuda_event_record(RtEvent *v, RtStream *s, RtError *e)
{
    CU(s->d, e, event_record(v->e, s->s));
    return RT_OK;
}

static RtCode cuda_event_wait(RtStream *s, RtEvent *v, RtError *e)
{
    CU(s->d, e, stream_wait(s->s, v->e, 0));
    return RT_OK;
}

static RtCode cuda_event_sync(RtEvent *v, RtError *e)
{
    CU(v->d, e, event_sync(v->e));
    return RT_OK;
}

static RtCode cuda_event_seconds(RtEvent *begin, RtEvent *end, double *seconds, RtError *e)
{
    float ms = 0;
    CU(begin->d, e, event_elapsed(&ms, begin->e, end->e));
    *seconds = (double)ms * 1e-3;
    return RT_OK;
}

const RtDeviceOps rt_cuda_ops = {
    .cuda = true,
    .args_by_address = true,
    .unified = false,
    .open = cuda_open,
    .close = cuda_close,
    .memory = cuda_memory,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .owns = cuda_owns,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_sync = cuda_stream_sync,
    .stream_meet = cuda_stream_meet,
    .sync_all = cuda_sync_all,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .spoil = cuda_spoil,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_seconds = cuda_event_seconds,
    .module_new = cuda_module_new,
    .module_free = cuda_module_free,
    .module_choices = cuda_choices,
    .module_defect = cuda_defect,
    .launch = cuda_launch,
    .gemm = cuda_gemm,
    .gemm_kernel = cuda_gemm_takes,
    .gemm_scratch = cuda_gemm_scratch,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
    .captured = cuda_captured,
    .capture_allow = cuda_capture_allow,
    .copy_kernel = cuda_copy_kernel,
    .wait = cuda_wait,
    .kernel_info = cuda_kernel_info,
    .reach = cuda_reach,
    .trade = cuda_trade,
    .take_error = cuda_take_error,
};
