// What a call costs through the C API: four inputs bound, a run, one output read; on a GPU from and
// to its own memory. The other side of bench/python.py; both by bench/python.sh.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/netc.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Five times [bytes] of the GPU's memory, through the driver; NULL: failed.
static char *device_memory(size_t bytes)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int (*retain)(void **, int), (*current)(void *), (*alloc)(unsigned long long *, size_t),
        (*set)(unsigned long long, unsigned char, size_t);
    unsigned long long at = 0;
    if (!lib) return NULL;
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(lib, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
    *(void **)&set = dlsym(lib, "cuMemsetD8_v2");
    if (!retain || !current || !alloc || !set || retain(&context, 0) || current(context))
        return NULL;
    return alloc(&at, bytes) || set(at, 0, bytes) ? NULL : (char *)(uintptr_t)at;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    enum { ROUNDS = 20, CALLS = 5000 }; // the least of the rounds counts
    netc_context *c = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *e = NULL;
    static float host[5][64];
    const char *device = argc > 2 ? argv[2] : "cpu";
    bool cuda = !strncmp(device, "cuda", 4);
    if (argc < 2 || netc_context_create(NULL, &c, &e) ||
        netc_compile_file(c, argv[1], NULL, &p, &e) || netc_session_create(p, device, NULL, &s, &e))
        return fprintf(stderr, "%s\n", netc_error_text(e)), 1;
    char *at = cuda ? device_memory(sizeof host) : (char *)host;
    netc_tensor t[5];
    for (int i = 0; i < 5; i++)
        t[i] = (netc_tensor){.dtype = NETC_F32,
                             .rank = 1,
                             .dim = {4},
                             .data = at + i * sizeof *host,
                             .on_device = cuda};
    double begin = now(), least = 1;
    for (int i = 1; i <= ROUNDS * CALLS; i++) {
        for (int k = 0; k < 4; k++)
            if (netc_bind(s, "four", names[k], &t[k], &e)) goto failed;
        if (cuda && netc_after(s, NULL, &e)) goto failed;
        if (netc_run(s, "four", 1, &e) || netc_read(s, "four", "y", &t[4], &e)) goto failed;
        if (i % CALLS) continue;
        double end = now();
        if (end - begin < least) least = end - begin;
        begin = end;
    }
    printf("%.1f\n", least / CALLS * 1e9);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(c);
    return 0;
failed:
    return fprintf(stderr, "%s\n", netc_error_text(e)), 1;
}
