// Device memory from the host program's allocator.
#include "runtime/device.h"

RtCode rt_alloc_from_caller(RtDevice *d, size_t bytes, const char *what, void **out, RtError *e)
{
    *out = d->allocator.alloc(d->allocator.user, d->name, bytes);
    if (!*out)
        return rt_fail(e, RT_OOM, "%s: the program's own allocator did not return %.1f MB for %s",
                       d->name, (double)bytes / 1e6, what);
    if ((uintptr_t)*out % 256 == 0) return RT_OK;
    d->allocator.free(d->allocator.user, d->name, *out);
    *out = NULL;
    return rt_fail(
        e, RT_USER,
        "%s: the program's own allocator returned memory that is not aligned to 256 bytes",
        d->name);
}
