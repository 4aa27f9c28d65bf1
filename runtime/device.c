// Opening devices by name, and what is asked of any device.
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

RtCode rt_device_open(const char *name, RtDevice **out, RtError *e)
{
    *out = NULL;
    if (!strcmp(name, "auto")) name = rt_cuda_count() > 0 ? "cuda:0" : "cpu";
    if (!strcmp(name, "cpu")) return rt_cpu_ops.open(0, out, e);
    if (!strcmp(name, "cuda")) return rt_cuda_ops.open(0, out, e);
    if (!strncmp(name, "cuda:", 5)) {
        char *end;
        long n = strtol(name + 5, &end, 10);
        if (end != name + 5 && !*end && n >= 0 && n < 1024) return rt_cuda_ops.open((int)n, out, e);
    }
    return rt_fail(e, RT_USER, "there is no device '%s'; use cpu, cuda, cuda:N or auto", name);
}

void rt_device_close(RtDevice *d)
{
    if (d) d->ops->close(d);
}

const char *rt_device_name(const RtDevice *d)
{
    return d->name;
}

const char *rt_device_model(const RtDevice *d)
{
    return d->model;
}

const char *rt_device_target(const RtDevice *d)
{
    return d->target;
}

bool rt_device_is_cuda(const RtDevice *d)
{
    return d->ops->cuda;
}

bool rt_matmul_library(bool cuda)
{
    return cuda ? rt_cuda_matmul_library() : rt_cpu_matmul_library();
}
