// The CUDA driver, as a host program of its own uses it: memory of the device that is not netc's.
#ifndef TESTS_UNIT_DRIVER_H
#define TESTS_UNIT_DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

// The driver's library, device 0's primary context made the thread's. NULL: there is none.
static inline void *driver_open(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *);
    if (!lib) return NULL;
    *(void **)&init = dlsym(lib, "cuInit");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(lib, "cuCtxSetCurrent");
    bool fine = init && retain && current && !init(0) && !retain(&context, 0) && !current(context);
    return fine ? lib : NULL;
}

// 0..n - 1 (Numerical Recipes' generator).
static inline int below(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (int)((*seed >> 8) % n);
}

#endif
