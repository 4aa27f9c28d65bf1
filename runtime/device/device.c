// Opens devices by name, and answers questions about any device.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

// The number of the device in "cuda" or "cuda:N"; negative: not such a name.
static int cuda_number(const char *name)
{
    char *end;
    if (strncmp(name, "cuda", 4)) return -1;
    if (!name[4]) return 0;
    long n = name[4] == ':' ? strtol(name + 5, &end, 10) : -1;
    return name[4] == ':' && end != name + 5 && !*end && n >= 0 && n < 1024 ? (int)n : -1;
}

static RtCode open_named(const char *name, RtDevice **out, RtError *e)
{
    if (!strcmp(name, "auto")) name = rt_cuda_count() > 0 ? "cuda:0" : "cpu";
    if (!strcmp(name, "cpu")) return rt_cpu_ops.open(0, out, e);
    int n = cuda_number(name);
    if (n >= 0) return rt_cuda_ops.open(n, out, e);
    return rt_fail(e, RT_USER,
                   "there is no device '%s'; use cpu, cuda, cuda:N, a list such as "
                   "cuda:0,1, or auto",
                   name);
}

// Opens the devices of a list, "cuda:0,cuda:1" or "cuda:0,1".
static RtCode open_list(const char *name, RtDevice **out, RtError *e)
{
    RtDevice *member[PROG_MAX_DEVICES] = {0};
    int n = 0;
    for (const char *p = name; p; p = strchr(p, ',')) {
        char one[32];
        p += n > 0; // the comma
        const int len = (int)strcspn(p, ",");
        snprintf(one, sizeof one, "%s%.*s", n && *p >= '0' && *p <= '9' ? "cuda:" : "", len, p);
        if (n == PROG_MAX_DEVICES)
            rt_fail(e, RT_USER, "'%s' names more than %d devices", name, PROG_MAX_DEVICES);
        if (e->code || open_named(one, &member[n], e)) break;
        n++;
        // (by what was opened: cuda:0 is also 'cuda' and 'auto')
        for (int i = 0; i < n - 1 && !e->code; i++)
            if (member[i]->ops->cuda && !strcmp(member[i]->name, member[n - 1]->name))
                rt_fail(e, RT_USER, "'%s' names %s twice; name each GPU once", name,
                        member[i]->name);
        if (e->code) break;
    }
    if (!e->code) rt_group_open(name, member, n, out, e);
    for (int i = 0; i < n && e->code; i++) rt_device_close(member[i]);
    return e->code;
}

bool rt_device_gpu(const char *name, RtGpu *out)
{
    char first[32]; // of a list
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, ","), name);
    int n = cuda_number(strcmp(first, "auto") ? first : "cuda:0");
    return n >= 0 && rt_cuda_gpu(n, out);
}

RtCode rt_device_open(const char *name, const RtAllocator *a, RtDevice **out, RtError *e)
{
    *out = NULL;
    const bool list = strchr(name, ',');
    if (list && a)
        return rt_fail(e, RT_USER, "the memory of several devices (%s) cannot be the caller's",
                       name);
    RtCode code = list ? open_list(name, out, e) : open_named(name, out, e);
    if (code == RT_OK && a) (*out)->allocator = *a;
    return code;
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

RtCode rt_device_owns(RtDevice *d, const void *p, size_t bytes, RtError *e)
{
    if (!d->ops->owns || d->ops->enter(d, e)) return e->code;
    d->ops->owns(d, p, bytes, e);
    d->ops->leave(d);
    return e->code;
}

int rt_device_units(const RtDevice *d)
{
    return d->units;
}

bool rt_device_is_cuda(const RtDevice *d)
{
    return d->ops->cuda;
}

bool rt_matmul_library(bool cuda)
{
    return cuda ? rt_cuda_matmul_library() : rt_cpu_matmul_library();
}
