// Compiles kernels on a separate thread as soon as a program knows the GPU, while data are read and
// the device is opened.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/lib.h"

// Errors are ignored here: they are reported when a session requests the same build.
static void *precompile(void *arg)
{
    Ahead *h = arg;
    Build *b;
    char target[16];
    snprintf(target, sizeof target, "sm_%d", h->p->cuda_arch);
    if (build_get(h->p, true, h->define, h->entry, &b, NULL) != NETC_OK) return NULL;
    bool ours = !atomic_exchange(&b->ahead, getpid()); // only the first thread of a build ends
                                                       // [coming]
    build_compile(h->p, b, target, NULL);
    if (ours) rt_coming_end(b->coming);
    return NULL;
}

void precompile_begin(netc_program *p, const char *define, const char *entry)
{
    pthread_mutex_lock(&p->waiting);
    for (size_t i = 0; i < sizeof p->ahead / sizeof *p->ahead; i++) {
        Ahead *h = &p->ahead[i];
        if (h->running) continue;
        h->p = p;
        h->entry = entry;
        snprintf(h->define, sizeof h->define, "%s", define);
        h->owner = getpid();
        h->running = pthread_create(&h->thread, NULL, precompile, h) == 0;
        break;
    }
    pthread_mutex_unlock(&p->waiting);
}

void precompile_wait(netc_program *p, const Build *b)
{
    pthread_mutex_lock(&p->waiting);
    for (size_t i = 0; i < sizeof p->ahead / sizeof *p->ahead; i++) {
        Ahead *h = &p->ahead[i];
        if (!h->running || (b && (strcmp(h->define, b->define) || strcmp(h->entry, b->entry))))
            continue;
        if (h->owner == getpid()) pthread_join(h->thread, NULL);
        h->running = false;
    }
    pthread_mutex_unlock(&p->waiting);
}
