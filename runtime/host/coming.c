// Passes compiled images from the threads that make them to those that load them, one by one as
// they are finished.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

struct RtComing {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int n, most;
    RtImage *image; // images that were put are never changed
    bool ended;
};

RtComing *rt_coming_new(int most)
{
    RtComing *c = calloc(1, sizeof *c);
    if (c) c->image = calloc((size_t)most + 1, sizeof *c->image);
    if (!c || !c->image) {
        free(c);
        return NULL;
    }
    c->most = most;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    return c;
}

void rt_coming_free(RtComing *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) {
        free((void *)(uintptr_t)c->image[i].bytes);
        free((void *)(uintptr_t)c->image[i].target);
    }
    free(c->image);
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void rt_coming_put(RtComing *c, const RtImage *image)
{
    if (!c) return;
    RtImage copy = *image;
    char *bytes = malloc(image->size + 1), *target = strdup(image->target);
    copy.bytes = bytes;
    copy.target = target;
    copy.log = NULL;
    pthread_mutex_lock(&c->lock);
    bool room = bytes && target && c->n < c->most; // otherwise it is not passed on and is compiled
                                                   // again
    if (room) {
        memcpy(bytes, image->bytes, image->size);
        c->image[c->n++] = copy;
        pthread_cond_broadcast(&c->more);
    }
    pthread_mutex_unlock(&c->lock);
    if (room) return;
    free(bytes);
    free(target);
}

void rt_coming_end(RtComing *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

bool rt_coming_get(RtComing *c, int i, RtImage *out)
{
    if (!c) return false;
    pthread_mutex_lock(&c->lock);
    while (i >= c->n && !c->ended) pthread_cond_wait(&c->more, &c->lock);
    bool there = i < c->n;
    if (there) *out = c->image[i];
    pthread_mutex_unlock(&c->lock);
    return there;
}

bool rt_coming_find(RtComing *c, uint64_t key, uint64_t identity, RtImage *out)
{
    for (int i = 0; rt_coming_get(c, i, out); i++)
        if (out->key == key && out->identity == identity) return true;
    return false;
}
