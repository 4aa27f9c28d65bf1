// Several devices: each has its context, and what was created or allocated while that was current.
// They share one memory, so a kernel that gets another device's address would compute what it
// should: it is an error here, as reading it by accident would be on GPUs that reach each other.
#include <stdio.h>
#include <string.h>

#include "tests/shim/shim.h"

enum { INVALID_VALUE = 1, NO_CONTEXT = 201, MOST_DEVICES = 16, MOST_CONTEXTS = 64 };

static char context_of[MOST_DEVICES];                   // an address is a context
static _Thread_local CuContext contexts[MOST_CONTEXTS]; // a thread's stack of current ones
static _Thread_local int ncontexts;

CuResult cuDevicePrimaryCtxRetain(CuContext *c, CuDeviceId d)
{
    if (d < 0 || d >= MOST_DEVICES) return INVALID_VALUE;
    *c = (CuContext)&context_of[d];
    return CU_OK;
}

CuResult cuDevicePrimaryCtxRelease_v2(CuDeviceId d)
{
    (void)d;
    return CU_OK;
}

CuResult cuCtxPushCurrent_v2(CuContext c)
{
    if (ncontexts == MOST_CONTEXTS) return INVALID_VALUE;
    contexts[ncontexts++] = c;
    return CU_OK;
}

CuResult cuCtxPopCurrent_v2(CuContext *c)
{
    if (!ncontexts) return NO_CONTEXT;
    *c = contexts[--ncontexts];
    return CU_OK;
}

CuResult cuCtxGetCurrent(CuContext *c)
{
    *c = ncontexts ? contexts[ncontexts - 1] : NULL;
    return CU_OK;
}

CuResult cuCtxSetCurrent(CuContext c)
{
    if (!ncontexts) return cuCtxPushCurrent_v2(c);
    contexts[ncontexts - 1] = c;
    return CU_OK;
}

CuResult cuCtxEnablePeerAccess(CuContext peer, unsigned flags)
{
    (void)flags;
    return !ncontexts ? NO_CONTEXT : peer == contexts[ncontexts - 1] ? INVALID_VALUE : CU_OK;
}

int shim_device(void)
{
    const char *c = ncontexts ? (const char *)contexts[ncontexts - 1] : NULL;
    return c ? (int)(c - context_of) : 0;
}

bool shim_here(const void *p, CuStream s)
{
    const int holder = shim_holder(p), device = s ? shim_stream_device(s) : shim_device();
    if (holder < 0 || holder == device) return true;
    fprintf(stderr, "host shim: work on device %d is given an address of device %d\n", device,
            holder);
    return false;
}

bool shim_belongs(const struct CUmod_st *m, CuStream s, void *const *params, const size_t *sizes)
{
    const int device = s ? shim_stream_device(s) : shim_device();
    if (m->device != device) {
        fprintf(stderr, "host shim: a kernel of device %d is launched on device %d\n", m->device,
                device);
        return false;
    }
    for (int i = 0; sizes && sizes[i]; i++) {
        void *p;
        if (sizes[i] < sizeof p)
            continue; // (an address, a number, or a map, which begins with one)
        memcpy(&p, params[i], sizeof p);
        if (!shim_here(p, s)) return false;
    }
    return true;
}
