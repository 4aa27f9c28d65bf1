// What programs that time through the public API share: device memory from the driver (the library
// takes device pointers but makes none), a clock, an order.
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

typedef struct Driver {
    void *library, *context;
    int (*alloc)(unsigned long long *p, size_t bytes);
    int (*free)(unsigned long long p);
    int (*upload)(unsigned long long to, const void *from, size_t bytes);
} Driver;

static bool driver_open(Driver *d, int ordinal)
{
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*set)(void *), device;
    d->library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!d->library) return false;
#define SYMBOL(VARIABLE, NAME) (*(void **)&(VARIABLE) = dlsym(d->library, NAME))
    return SYMBOL(init, "cuInit") && SYMBOL(get, "cuDeviceGet") &&
           SYMBOL(retain, "cuDevicePrimaryCtxRetain") && SYMBOL(set, "cuCtxSetCurrent") &&
           SYMBOL(d->alloc, "cuMemAlloc_v2") && SYMBOL(d->free, "cuMemFree_v2") &&
           SYMBOL(d->upload, "cuMemcpyHtoD_v2") && !init(0) && !get(&device, ordinal) &&
           !retain(&d->context, device) && !set(d->context);
#undef SYMBOL
}

static double now(void) // seconds
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
