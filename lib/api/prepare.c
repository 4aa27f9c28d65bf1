// Opens a device on a separate thread, since starting a driver takes as long as reading a data set
// or compiling a model.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/lib.h"

typedef struct Preparing {
    pthread_t thread;
    pid_t owner; // process in which the thread runs; a forked process does not have the thread
    char *name;
    RtDevice *device; // NULL if it could not be opened
    RtError e;
} Preparing;

static void *open_device(void *arg)
{
    Preparing *p = arg;
    rt_device_open(p->name, NULL, &p->device, &p->e);
    return NULL;
}

void netc_context_prepare(netc_context *c, const char *device)
{
    Preparing *p = calloc(1, sizeof *p);
    if (!p) return;
    p->owner = getpid();
    p->name = strdup(device && *device ? device : "auto");
    pthread_mutex_lock(&c->lock);
    bool begun = p->name && !c->preparing && !pthread_create(&p->thread, NULL, open_device, p);
    if (begun) c->preparing = p;
    pthread_mutex_unlock(&c->lock);
    if (begun) return;
    free(p->name);
    free(p);
}

static Preparing *take(netc_context *c, const char *name)
{
    pthread_mutex_lock(&c->lock);
    Preparing *p = c->preparing;
    if (p && name && strcmp(p->name, name)) p = NULL;
    if (p) c->preparing = NULL;
    pthread_mutex_unlock(&c->lock);
    if (p && p->owner == getpid()) pthread_join(p->thread, NULL);
    return p;
}

static RtDevice *finish(Preparing *p)
{
    RtDevice *d = p ? p->device : NULL;
    if (p) free(p->name);
    free(p);
    return d;
}

bool preparing_gpu(netc_context *c, RtGpu *out)
{
    pthread_mutex_lock(&c->lock);
    bool gpu = c->preparing && rt_device_gpu(c->preparing->name, out);
    pthread_mutex_unlock(&c->lock);
    return gpu;
}

RtDevice *prepared_device(netc_context *c, const char *name)
{
    return finish(take(c, name));
}

void prepare_end(netc_context *c)
{
    rt_device_close(finish(take(c, NULL)));
}
