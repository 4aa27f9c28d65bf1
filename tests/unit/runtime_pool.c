// The pool: every task once, whatever the number of tasks, threads and callers.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "tests/unit/unit.h"

typedef struct Count {
    _Atomic int *hits;
    _Atomic long total;
} Count;

static void body(void *arg, long begin, long end)
{
    Count *c = arg;
    for (long i = begin; i < end; i++) atomic_fetch_add(&c->hits[i], 1);
    atomic_fetch_add(&c->total, end - begin);
}

static bool once(CpuPool *p, long n)
{
    Count c = {.hits = calloc((size_t)n + 1, sizeof *c.hits)};
    rt_pool_run(p, n, body, &c);
    bool ok = c.total == n;
    for (long i = 0; i < n; i++) ok &= c.hits[i] == 1;
    free((void *)c.hits);
    return ok;
}

static CpuPool *pool;
static void *caller(void *arg)
{
    bool ok = true;
    for (int i = 0; i < 300; i++) ok &= once(pool, i % 50);
    *(bool *)arg = ok;
    return NULL;
}

int main(void)
{
    for (int threads = 1; threads <= 5; threads++) {
        CpuPool *p = rt_pool_new(threads);
        CHECK(p != NULL);
        if (!p) return unit_done();
        for (int i = 0; i < 2000; i++)
            if (!once(p, i % 37)) CHECK(!"a task was lost or done twice");
        CHECK(once(p, 100003) && once(p, 0));
        rt_pool_free(p);
    }
    rt_pool_free(rt_pool_new(8)); // never used
    pool = rt_pool_new(3);
    pthread_t t[3];
    bool ok[3] = {0};
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, caller, &ok[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        CHECK(ok[i]);
    }
    rt_pool_free(pool);
    return unit_done();
}
