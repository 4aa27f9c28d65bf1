// Threads for loops over independent tasks. A loop is split into one part per thread (fewer if it
// has fewer tasks), and each part into a few pieces. A thread takes the pieces of its own part and
// then those left in other parts. So cores keep the data they had, and a thread that the system
// does not schedule delays nobody: the caller does pieces, too, and waits only for pieces that were
// started. (A team that meets at barriers, as in OpenMP, becomes very slow on a machine that is
// also busy with something else.)
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/cpu.h"

enum { MAX_THREADS = 256, PIECES = 4, SPINS = 4000, DONE_SPINS = 2000 };

// next: in the high half, the generation of the loop; in the low half, 16 bits each, the number of
// pieces of the part and the next piece to take.
typedef struct Part {
    _Alignas(64) _Atomic uint64_t next;
} Part;

struct CpuPool {
    Part part[MAX_THREADS];
    _Alignas(64) _Atomic uint32_t generation; // futex: incremented for a new loop
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    _Alignas(64) _Atomic uint32_t done; // finished pieces of this loop; futex
    _Atomic bool waiting;               // the caller sleeps on [done]
    // The current loop. Written before its generation is published, and read only by a thread that
    // has taken a piece of it.
    void (*body)(void *arg, long begin, long end);
    void *arg;
    long n;
    uint32_t parts, pieces; // pieces: of all parts
    pthread_mutex_t busy;   // held during a loop; other callers run their loops alone
    int threads, started;   // threads: including the caller
    bool began;
    pid_t owner; // process in which the threads run; a forked process does not have them
    pthread_t thread[MAX_THREADS];
    struct CpuWorker {
        struct CpuPool *pool;
        int index;
    } worker[MAX_THREADS];
};

static void futex_wait(_Atomic uint32_t *at, uint32_t value)
{
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at, int n)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Takes a piece of [part] of the loop [generation]. false: none is left, or the loop has ended.
static bool take(Part *part, uint32_t generation, uint32_t *piece)
{
    uint64_t v = atomic_load_explicit(&part->next, memory_order_acquire);
    while ((uint32_t)(v >> 32) == generation && (v & 0xffff) < (v >> 16 & 0xffff))
        if (atomic_compare_exchange_weak_explicit(&part->next, &v, v + 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *piece = v & 0xffff;
            return true;
        }
    return false;
}

static void work(CpuPool *p, int self, uint32_t generation)
{
    for (int i = 0; i < p->threads; i++) {
        int at = self + i < p->threads ? self + i : self + i - p->threads;
        uint32_t piece;
        while (take(&p->part[at], generation, &piece)) {
            long pieces = p->pieces, k = at * (pieces / p->parts) + (long)piece;
            long begin = (long)((__int128)p->n * k / pieces),
                 end = (long)((__int128)p->n * (k + 1) / pieces);
            if (begin < end) p->body(p->arg, begin, end);
            uint32_t ended = atomic_fetch_add(&p->done, 1) + 1;
            if (ended == (uint32_t)pieces && atomic_load(&p->waiting)) futex_wake(&p->done, 1);
        }
    }
}

static void *worker(void *arg)
{
    struct CpuWorker *w = arg;
    CpuPool *p = w->pool;
    uint32_t seen = 0;
    while (!atomic_load(&p->stop)) {
        uint32_t now = atomic_load_explicit(&p->generation, memory_order_acquire);
        for (int i = 0; i < SPINS && now == seen; i++) {
            relax();
            now = atomic_load_explicit(&p->generation, memory_order_acquire);
        }
        if (now == seen) {
            atomic_fetch_add(&p->sleepers, 1);
            if (!atomic_load(&p->stop)) futex_wait(&p->generation, seen);
            atomic_fetch_sub(&p->sleepers, 1);
            continue;
        }
        seen = now;
        work(p, w->index, now);
    }
    return NULL;
}

CpuPool *rt_pool_new(int threads)
{
    CpuPool *p = NULL;
    if (posix_memalign((void **)&p, 64, sizeof *p)) return NULL;
    *p = (CpuPool){.threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads};
    if (pthread_mutex_init(&p->busy, NULL)) {
        free(p);
        return NULL;
    }
    return p;
}

void rt_pool_free(CpuPool *p)
{
    if (!p) return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->generation, 1);
    futex_wake(&p->generation, MAX_THREADS);
    bool ours = p->owner == getpid();
    for (int i = 0; i < p->started && ours; i++) pthread_join(p->thread[i], NULL);
    if (ours || !p->began) pthread_mutex_destroy(&p->busy);
    free(p);
}

// Blocks all signals in the pool's threads, since they are meant for the host's threads.
static void start(CpuPool *p)
{
    sigset_t all, old;
    sigfillset(&all);
    p->began = true;
    p->owner = getpid();
    if (pthread_sigmask(SIG_SETMASK, &all, &old)) return;
    for (int i = 1; i < p->threads; i++) {
        p->worker[i] = (struct CpuWorker){p, i};
        if (pthread_create(&p->thread[p->started], NULL, worker, &p->worker[i])) break;
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void rt_pool_run(void *ctx, long n, void (*body)(void *arg, long begin, long end), void *arg)
{
    CpuPool *p = ctx;
    if (n < 1) return;
    if (n == 1 || p->threads == 1 || pthread_mutex_trylock(&p->busy)) {
        body(arg, 0, n);
        return;
    }
    if (!p->began) start(p);
    uint32_t generation = atomic_load(&p->generation) + 1;
    uint32_t parts = n < p->threads ? (uint32_t)n : (uint32_t)p->threads;
    uint32_t each = n / parts < PIECES ? (uint32_t)(n / parts) : PIECES, pieces = parts * each;
    p->parts = parts;
    p->pieces = pieces;
    p->body = body;
    p->arg = arg;
    p->n = n;
    atomic_store(&p->done, 0);
    for (uint32_t i = 0; i < parts; i++)
        atomic_store_explicit(&p->part[i].next, (uint64_t)generation << 32 | each << 16,
                              memory_order_release);
    atomic_store(&p->generation, generation);
    if (atomic_load(&p->sleepers)) futex_wake(&p->generation, MAX_THREADS);
    work(p, 0, generation);
    uint32_t done = atomic_load(&p->done);
    for (int i = 0; i < DONE_SPINS && done < pieces; i++) {
        relax();
        done = atomic_load(&p->done);
    }
    if (done < pieces) {
        atomic_store(&p->waiting, true);
        while ((done = atomic_load(&p->done)) < pieces) futex_wait(&p->done, done);
        atomic_store(&p->waiting, false);
    }
    pthread_mutex_unlock(&p->busy);
}
