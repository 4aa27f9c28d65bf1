// Executes a kernel: its blocks one after another in random order (all at once where they may wait
// for each other), the threads of a block as coroutines that run from one synchronisation to the
// next, whose turn it is being random. A barrier that some threads never reach is an error, and so
// is one that they reach in different places.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/shim/late.h"
#include "tests/shim/shim.h"
#include "tests/shim/switch.h"

enum {
    STACK = (64 << 10) +
            13 * 64, // (by a power of two apart, all would lie in the same few lines of the caches)
    MOST_THREADS = 1024,
    BARRIERS = 16,
    CONVERGENCES = 8, // different masks a warp may be waiting with
    PATIENCE = 20000  // turns that only wait before a kernel counts as stuck
};

typedef enum State { READY, RUNNING, WAITING, PAUSED, DONE } State;

typedef struct Thread {
    Stack stack;
    State state;
    uint32_t number; // in the block
    Index3 index;
    int line;          // of the barrier it waits at, or -1
    const char *waits; // for what, for the report
    bool arrived;      // at the cluster's barrier
    bool ahead;        // began early, and has not waited for the kernel before
    uint32_t *knows;   // by thread of the block: up to when; NULL: only barriers so far
    LateThread *late;
    uint32_t fenced; // until when its writes are known to bulk copies and tensor cores
} Thread;

typedef struct Barrier {
    int arrived, line;
} Barrier;

typedef struct Convergence { // of a warp's threads at a shuffle, a vote or __syncwarp
    unsigned mask, here;
    unsigned long long value[2][32];
    unsigned votes[2];
    unsigned turn; // counts; which of the two halves is filled
} Convergence;

typedef struct Block {
    Index3 index;
    uint32_t number, rank, baseline;
    Thread *thread;
    uint32_t *ready; // numbers of the threads that can run
    int nready, npaused, left;
    Barrier barrier[BARRIERS];
    Convergence *warp; // [warps][CONVERGENCES]
    unsigned *gone;    // by warp: the lanes that have left the kernel
    int at_cluster;
    char *slot;      // its shared variables while another block runs
    uint32_t *known; // by block: up to when; NULL: nothing
    LateBlock *late;
} Block;

typedef struct Published { // by atomics on one address
    void *at;
    uint32_t *known;   // by block
    uint32_t *threads; // of shared memory: by thread of the block whose it is; NULL: nothing
    struct Published *next;
} Published;

enum { PUBLISHED = 512 };

typedef struct Grid {
    const Launch *launch;
    int threads, blocks; // of a block, of the grid
    Block *resident;
    int nresident, left;
    Block *block;   // that runs
    Thread *thread; // that runs
    Stack scheduler;
    Published *published[PUBLISHED]; // by a hash of the address
    int cluster_waiting;
    bool failed;
    bool fenced; // a thread has executed a fence
    long waited; // turns in a row without progress
    char *stacks;
    size_t nstacks;
} Grid;

static Grid grid;
static char report[1024];
static uint64_t seed;
static uint32_t lives;
Actor shim_actor = {.now = 1};
bool shim_running;

uint32_t shim_random(uint32_t below)
{
    if (!seed) seed = (uint64_t)(unsigned)shim_option("SHIM_SEED", 1) * 0x9e3779b97f4a7c15u + 1;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * below >> 32);
}

const char *shim_report(void)
{
    return report;
}

static void to_scheduler(void)
{
    shim_switch(&grid.thread->stack, &grid.scheduler);
}

void shim_fault(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = grid.launch ? snprintf(report, sizeof report, "kernel %s: ", grid.launch->f->name) : 0;
    vsnprintf(report + n, sizeof report - (size_t)n, fmt, args);
    va_end(args);
    grid.failed = true;
    if (getenv("SHIM_SAY")) fprintf(stderr, "%s\n", report);
    if (shim_running) to_scheduler(); // never comes back
}

void shim_trap(const char *why)
{
    shim_fault("%s by thread %u of block %u", why, shim_actor.id & 1023, shim_actor.id >> 10);
}

// -- what the thread that runs is -----------------------------------------------------------------
Index3 shim_thread_index(void)
{
    return grid.thread->index;
}

Index3 shim_block_index(void)
{
    return grid.block->index;
}

Index3 shim_block_dim(void)
{
    return grid.launch->block;
}

Index3 shim_grid_dim(void)
{
    return grid.launch->grid;
}

// -- knowledge: which earlier accesses are ordered before the running thread's next (shim_ordered)
static uint32_t *knowledge(Thread *t)
{
    if (!t->knows) t->knows = calloc((size_t)grid.threads, sizeof *t->knows);
    if (!t->knows) abort();
    if (t == grid.thread) shim_actor.knows = t->knows;
    return t->knows;
}

// All threads of the warp in mask learn what any of them knows and did.
static void learn(Block *b, unsigned warp, unsigned mask)
{
    int n = grid.threads;
    uint32_t *sum = NULL;
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        uint32_t t = warp * 32 + (uint32_t)lane, *k = knowledge(&b->thread[t]);
        k[t] = shim_actor.now;
        if (sum)
            for (int i = 0; i < n; i++) sum[i] = k[i] > sum[i] ? k[i] : sum[i];
        else
            sum = k;
    }
    for (int lane = 0; lane < 32; lane++) {
        uint32_t *k = mask >> lane & 1 ? b->thread[warp * 32 + (unsigned)lane].knows : NULL;
        if (k && k != sum) memcpy(k, sum, (size_t)n * sizeof *k);
    }
    shim_actor.now++;
}

// -- turns ----------------------------------------------------------------------------------------
static void make_ready(Block *b, Thread *t)
{
    if (t->state == PAUSED) b->npaused--;
    if (t->state != READY) b->ready[b->nready++] = t->number;
    t->state = READY;
    t->line = -1;
}

// Makes one of the ready threads the one that runs: mostly one of a warp whose lanes have just met,
// while its stacks are in the caches, and any other one often enough.
static Thread *take_turn(Block *b)
{
    uint32_t n = (uint32_t)b->nready, newest = n < 32 || !shim_random(8) ? n : 32;
    uint32_t pick = n - 1 - shim_random(newest);
    Thread *t = &b->thread[b->ready[pick]];
    b->ready[pick] = b->ready[--b->nready];
    grid.thread = t;
    shim_actor.id = b->number << 10 | t->number;
    shim_actor.stack = grid.stacks + ((size_t)b->rank * (size_t)grid.threads + t->number) * STACK;
    shim_actor.ahead = t->ahead;
    shim_actor.knows = t->knows;
    t->state = RUNNING;
    return t;
}

// (the next thread goes on at once: most turns end here)
static void wait_here(const char *why, int line)
{
    Thread *t = grid.thread;
    Block *b = grid.block;
    t->state = WAITING;
    t->waits = why;
    t->line = line;
    shim_settle();
    if (b->nready)
        shim_switch(&t->stack, &take_turn(b)->stack);
    else
        to_scheduler();
}

// Others run first: of a thread that looks whether something has happened.
void shim_pause(void)
{
    Thread *t = grid.thread;
    t->state = PAUSED;
    t->waits = "another thread's write";
    grid.block->npaused++;
    to_scheduler();
}

// -- barriers -------------------------------------------------------------------------------------
static void open_barrier(Block *b, int number, const char *why)
{
    for (int i = 0; i < grid.threads; i++)
        if (b->thread[i].state == WAITING && b->thread[i].waits == why)
            make_ready(b, &b->thread[i]);
    b->barrier[number] = (Barrier){0, -1};
    shim_actor.block = b->baseline = shim_actor.now++;
}

static const char sync_block[] = "__syncthreads()";

void shim_sync_block(int line)
{
    Block *b = grid.block;
    Barrier *r = &b->barrier[0];
    if (r->arrived && r->line != line)
        shim_fault("threads of block %u wait at different barriers: lines %d and %d", b->number,
                   r->line, line);
    r->line = line;
    grid.waited = 0;
    if (++r->arrived == b->left) {
        open_barrier(b, 0, sync_block);
        return;
    }
    wait_here(sync_block, line);
}

// bar.sync and bar.arrive with a number and a count of threads.
void shim_sync_some(int number, int threads, int line, bool wait)
{
    static const char *const names[BARRIERS] = {
        "barrier 0",  "barrier 1",  "barrier 2",  "barrier 3", "barrier 4",  "barrier 5",
        "barrier 6",  "barrier 7",  "barrier 8",  "barrier 9", "barrier 10", "barrier 11",
        "barrier 12", "barrier 13", "barrier 14", "barrier 15"};
    Block *b = grid.block;
    if (number < 0 || number >= BARRIERS) shim_fault("there is no barrier %d", number);
    if (number == 0 && threads == grid.threads && wait) {
        shim_sync_block(line);
        return;
    }
    grid.waited = 0;
    if (++b->barrier[number].arrived == threads) {
        // What all of the block did counts as known: more than a barrier of some promises.
        open_barrier(b, number, names[number]);
        return;
    }
    if (wait) wait_here(names[number], line);
}

static void open_cluster(void)
{
    for (int k = 0; k < grid.nresident; k++) {
        Block *b = &grid.resident[k];
        for (int i = 0; i < grid.threads; i++) {
            b->thread[i].arrived = false;
            if (b->thread[i].state == WAITING && !strcmp(b->thread[i].waits, "the cluster"))
                make_ready(b, &b->thread[i]);
        }
    }
    grid.cluster_waiting = 0;
    shim_actor.group = shim_actor.now++;
}

void shim_follow(void)
{
    grid.thread->ahead = shim_actor.ahead = false;
}

void shim_cluster_arrive(void)
{
    if (grid.thread->arrived) shim_fault("a thread arrives twice at the cluster's barrier");
    grid.thread->arrived = true;
    grid.waited = 0;
    if (++grid.cluster_waiting == grid.left) open_cluster();
}

void shim_cluster_wait(void)
{
    if (grid.thread->arrived) wait_here("the cluster", -1);
}

unsigned shim_cluster_rank(void)
{
    unsigned n = grid.launch->cluster > 1 ? grid.launch->cluster : 1;
    return grid.block->number % n;
}

unsigned shim_cluster_size(void)
{
    return grid.launch->cluster > 1 ? grid.launch->cluster : 1;
}

void *shim_cluster_map(void *p, unsigned rank)
{
    const Code *c = grid.launch->f->code;
    size_t at = (size_t)((char *)p - c->vars);
    if (at >= c->vars_bytes) shim_fault("mapa of an address that is not shared memory");
    if (rank >= shim_cluster_size()) shim_fault("there is no block %u in the cluster", rank);
    Block *b = &grid.resident[grid.block->rank - shim_cluster_rank() + rank];
    return b == grid.block ? p : b->slot + at;
}

// Numbers are aligned as addresses are.
static size_t first_number(void)
{
    return (uintptr_t)grid.launch->f->code->vars % 1024;
}

const void *shim_dynamic_place(void)
{
    return grid.launch->f->code->dynamic;
}

unsigned shim_shared_number(const void *p)
{
    const Code *c = grid.launch->f->code;
    size_t at = (size_t)((const char *)p - c->vars);
    if (at < c->vars_bytes) return (grid.block->rank + 1) << 24 | (unsigned)(at + first_number());
    for (int i = 0; i < grid.nresident; i++) {
        at = (size_t)((const char *)p - grid.resident[i].slot);
        if (grid.resident[i].slot && at < c->vars_bytes)
            return (unsigned)(i + 1) << 24 | (unsigned)(at + first_number());
    }
    shim_fault("an address that is not shared memory (%p) is used as one", p);
    return 0;
}

void *shim_shared_at(unsigned number)
{
    unsigned rank = (number >> 24) - 1, at = (number & 0xffffff) - (unsigned)first_number();
    if (rank >= (unsigned)grid.nresident) shim_fault("0x%x is no shared address", number);
    return (rank == grid.block->rank ? grid.launch->f->code->vars : grid.resident[rank].slot) + at;
}

// -- what is asynchronous (late.c) ----------------------------------------------------------------
LateThread **shim_late_thread(void)
{
    return &grid.thread->late;
}

LateBlock **shim_late_block(unsigned rank)
{
    return &grid.resident[grid.block->rank - shim_cluster_rank() + rank].late;
}

void shim_proxy_fence(void)
{
    grid.thread->fenced = shim_actor.now++;
}

uint32_t shim_fenced(uint32_t id)
{
    return id >> 10 == grid.block->number ? grid.block->thread[id & 1023].fenced : 0;
}

// -- warps ----------------------------------------------------------------------------------------
typedef struct Meeting {
    const Convergence *at;
    unsigned half; // of its values
    bool last;     // the caller was the last to come: the others have not gone on yet
} Meeting;

// All lanes of mask meet, each with a value.
static Meeting meet(unsigned mask, unsigned long long value, bool vote)
{
    Thread *t = grid.thread;
    Block *b = grid.block;
    unsigned warp = t->number / 32, lane = t->number % 32;
    unsigned in_warp = (unsigned)grid.threads - warp * 32;
    if (in_warp < 32) mask &= (1u << in_warp) - 1;
    if (!(mask >> lane & 1))
        shim_fault("thread %u takes part in a shuffle whose mask 0x%x leaves it out", t->number,
                   mask);
    if (mask & b->gone[warp])
        shim_fault("a shuffle of thread %u wants thread %u, which has left the kernel", t->number,
                   warp * 32 + (unsigned)__builtin_ctz(mask & b->gone[warp]));
    Convergence *c = &b->warp[warp * CONVERGENCES], *end = c + CONVERGENCES;
    Convergence *unused = NULL;
    for (; c < end && c->mask != mask; c++)
        if (!unused && !c->here) unused = c;
    if (c == end) {
        if (!unused) shim_fault("a warp waits with too many different masks");
        c = unused;
        c->mask = mask;
    }
    unsigned half = c->turn & 1;
    if (!c->here) c->votes[half] = 0;
    c->value[half][lane] = value;
    c->votes[half] |= (unsigned)vote << lane;
    c->here |= 1u << lane;
    bool last = c->here == mask;
    if (last) {
        c->here = 0;
        c->turn++;
        for (unsigned left = mask & ~(1u << lane); left; left &= left - 1)
            make_ready(b, &b->thread[warp * 32 + (unsigned)__builtin_ctz(left)]);
    } else {
        wait_here("the lanes of its warp", -1);
    }
    return (Meeting){c, half, last};
}

unsigned long long shim_shuffle(unsigned mask, unsigned long long mine, int from)
{
    Meeting m = meet(mask, mine, false);
    if (from < 0 || from > 31 || !(m.at->mask >> from & 1))
        shim_fault("thread %u reads lane %d, which is not in the shuffle's mask 0x%x",
                   grid.thread->number, from, m.at->mask);
    return m.at->value[m.half][from];
}

const unsigned long long *shim_shuffle_all(unsigned mask, unsigned long long mine)
{
    Meeting m = meet(mask, mine, false);
    return m.at->value[m.half];
}

const unsigned long long *shim_last_to_come(unsigned mask, unsigned long long mine)
{
    Meeting m = meet(mask, mine, false);
    return m.last ? m.at->value[m.half] : NULL;
}

unsigned shim_vote(unsigned mask, bool yes)
{
    Meeting m = meet(mask, 0, yes);
    return m.at->votes[m.half];
}

void shim_sync_warp(unsigned mask)
{
    Meeting m = meet(mask, 0, false);
    if (m.last) learn(grid.block, grid.thread->number / 32, m.at->mask); // what all know
}

// -- atomics and fences ---------------------------------------------------------------------------
// Whoever changes an address by atomics passes on what its block did and knows to whoever reads it
// so.
static void greater(uint32_t *to, const uint32_t *from, int n)
{
    for (int i = 0; i < n; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

// Among the threads of a block.
static void pass_on_inside(Published *x, bool reads, bool writes)
{
    uint32_t *k = knowledge(grid.thread);
    if (!x->threads && !(x->threads = calloc((size_t)grid.threads, sizeof *k))) abort();
    k[grid.thread->number] = shim_actor.now;
    if (reads) greater(k, x->threads, grid.threads);
    if (writes) greater(x->threads, k, grid.threads);
}

static void pass_on(void *p, bool reads, bool writes)
{
    const Code *c = grid.launch->f->code;
    size_t inside = (size_t)((char *)p - c->vars);
    bool own = inside < c->vars_bytes;
    if (own && grid.block->slot) p = grid.block->slot + inside; // as other blocks know it
    Published **first = &grid.published[((uintptr_t)p >> 2) % PUBLISHED], *x = *first;
    while (x && x->at != p) x = x->next;
    if (!x) {
        x = calloc(1, sizeof *x);
        if (!x || !(x->known = calloc((size_t)grid.blocks, sizeof *x->known))) abort();
        x->at = p;
        x->next = *first;
        *first = x;
    }
    Block *b = grid.block;
    if (!b->known && !(b->known = calloc((size_t)grid.blocks, sizeof *b->known))) abort();
    shim_actor.known = b->known;
    if (reads) greater(b->known, x->known, grid.blocks);
    if (writes) greater(x->known, b->known, grid.blocks);
    if (own) pass_on_inside(x, reads, writes);
    if (writes) x->known[b->number] = shim_actor.now++;
}

unsigned long long shim_atomic(void *p, int bytes, char op, unsigned long long v,
                               unsigned long long want)
{
    unsigned long long old;
    const bool changes = shim_operate(p, bytes, op, v, want, &old);
    if (changes) grid.waited = 0;
    pass_on(p, op != 'w', op != 'r');
    if (!changes || op == 'r') shim_pause();
    return old;
}

unsigned long long shim_change(void *p, int bytes, char op, unsigned long long v)
{
    unsigned long long old;
    if (shim_operate(p, bytes, op, v, 0, &old)) grid.waited = 0;
    if (grid.fenced) pass_on(p, false, true);
    return old;
}

void shim_changed(void *p, const void *old, int bytes)
{
    pass_on(p, true, true);
    if (!memcmp(p, old, (size_t)bytes)) shim_pause();
}

void shim_fence(void)
{
    grid.fenced = true;
}

// -- running --------------------------------------------------------------------------------------
static void body(void)
{
    grid.launch->f->call(grid.launch->params);
    const char *left = shim_late_end_thread(grid.thread->late);
    if (left)
        shim_fault("thread %u of block %u leaves the kernel with %s", shim_actor.id & 1023,
                   shim_actor.id >> 10, left);
    grid.thread->state = DONE;
    to_scheduler();
}

static void open_what_was_waiting(Block *b)
{
    if (b->left && b->barrier[0].arrived == b->left) open_barrier(b, 0, sync_block);
    if (grid.left && grid.cluster_waiting == grid.left) open_cluster();
}

static void step(Block *b)
{
    Thread *t = take_turn(b);
    shim_running = true;
    shim_switch(&grid.scheduler, &t->stack);
    shim_running = false;
    t = grid.thread; // the last of those that ran
    shim_settle();
    if (t->state == DONE) {
        b->gone[t->number / 32] |= 1u << t->number % 32;
        b->left--;
        grid.left--;
        grid.waited = 0;
        if (!b->left && shim_late_end_block(b->late) && !grid.failed)
            shim_fault("block %u leaves the kernel while bulk copies are still to come", b->number);
        open_what_was_waiting(b);
    }
}

// Runs the threads of a block until all of them wait.
static void run_block(Block *b)
{
    const Code *c = grid.launch->f->code;
    grid.block = b;
    shim_actor.rank = b->rank;
    shim_actor.first = b->number - b->rank;
    shim_actor.block = b->baseline;
    shim_actor.known = b->known;
    if (grid.nresident > 1) memcpy(c->vars, b->slot, c->vars_bytes);
    for (int i = 0; i < grid.threads && b->npaused; i++)
        if (b->thread[i].state == PAUSED) make_ready(b, &b->thread[i]);
    while (b->nready && !grid.failed) {
        step(b);
        if (!b->nready && b->npaused && grid.nresident == 1 && grid.waited++ < PATIENCE)
            for (int i = 0; i < grid.threads; i++)
                if (b->thread[i].state == PAUSED) make_ready(b, &b->thread[i]);
    }
    if (grid.nresident > 1) memcpy(b->slot, c->vars, c->vars_bytes);
}

static void stuck(void)
{
    char text[600] = "";
    const Thread *last = NULL;
    int n = 0;
    for (int k = 0; k < grid.nresident; k++)
        for (int i = 0; i < grid.threads && n < 400; i++) {
            const Thread *t = &grid.resident[k].thread[i];
            if (t->state == DONE || (last && last->waits == t->waits && last->line == t->line))
                continue;
            n += snprintf(text + n, sizeof text - (size_t)n, "; thread %d of block %u waits for %s",
                          i, grid.resident[k].number, t->waits ? t->waits : "its turn");
            last = t;
        }
    shim_fault("it never ends: %d of %d threads are left%s", grid.left,
               grid.threads * grid.nresident, text);
}

static void start_block(Block *b, uint32_t number, uint32_t rank)
{
    const Launch *l = grid.launch;
    Block old = *b;
    size_t warps = ((size_t)grid.threads + 31) / 32;
    memset(old.warp, 0, warps * CONVERGENCES * sizeof *old.warp);
    memset(old.gone, 0, warps * sizeof *old.gone);
    *b = (Block){.number = number,
                 .rank = rank,
                 .thread = old.thread,
                 .ready = old.ready,
                 .warp = old.warp,
                 .gone = old.gone,
                 .slot = old.slot,
                 .late = old.late,
                 .left = grid.threads};
    free(old.known);
    b->index = (Index3){number % l->grid.x, number / l->grid.x % l->grid.y,
                        number / l->grid.x / l->grid.y};
    for (int i = 0; i < BARRIERS; i++) b->barrier[i].line = -1;
    for (uint32_t i = 0; i < (uint32_t)grid.threads; i++) {
        Thread *t = &b->thread[i];
        uint32_t *knows = t->knows; // of another block: older than anything of this one
        LateThread *late = t->late;
        *t = (Thread){.number = i, .line = -1, .knows = knows, .ahead = l->early, .late = late};
        t->index =
            (Index3){i % l->block.x, i / l->block.x % l->block.y, i / l->block.x / l->block.y};
        stack_make(&t->stack, grid.stacks + ((size_t)rank * (size_t)grid.threads + i) * STACK,
                   STACK, body);
        b->ready[b->nready++] = i;
    }
    if (b->slot) memset(b->slot, 0xff, l->f->code->vars_bytes);
}

static void run_group(uint32_t first)
{
    grid.left = grid.threads * grid.nresident;
    grid.cluster_waiting = 0;
    grid.waited = 0;
    shim_actor.life = ++lives;
    shim_actor.now++;
    for (int i = 0; i < grid.nresident; i++)
        start_block(&grid.resident[i], first + (uint32_t)i, (uint32_t)i);
    const Code *c = grid.launch->f->code;
    if (grid.nresident == 1) {
        char *after = c->dynamic + c->dynamic_bytes, *end = c->vars + c->vars_bytes;
        memset(c->vars, 0xff, (size_t)(c->dynamic - c->vars));
        memset(c->dynamic, 0xff, grid.launch->shared_bytes);
        memset(after, 0xff, (size_t)(end - after));
    }
    while (grid.left && !grid.failed) {
        int able = 0, pick = -1;
        for (int i = 0; i < grid.nresident; i++) {
            const Block *b = &grid.resident[i];
            if (b->nready || b->npaused)
                if (shim_random((uint32_t)++able) == 0) pick = i;
        }
        if (pick < 0 || grid.waited > PATIENCE) {
            stuck();
            return;
        }
        grid.waited++;
        run_block(&grid.resident[pick]);
    }
}

// Memory for the shared variables of a block that does not run, aligned as they are.
enum { ALIGNED = 64 };

static char *slot_new(const Code *c)
{
    void *at;
    size_t beyond = (uintptr_t)c->vars % ALIGNED;
    return posix_memalign(&at, ALIGNED, beyond + c->vars_bytes + 1) ? NULL : (char *)at + beyond;
}

static void slot_free(const Code *c, char *slot)
{
    if (slot) free(slot - (uintptr_t)c->vars % ALIGNED);
}

static bool grid_make(int n)
{
    const Launch *l = grid.launch;
    size_t threads = (size_t)grid.threads * (size_t)n, bytes = threads * STACK;
    if (bytes > grid.nstacks) {
        if (grid.stacks) munmap(grid.stacks, grid.nstacks);
        grid.stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        grid.nstacks = bytes;
        if (grid.stacks == MAP_FAILED) return false;
    }
    size_t warps = ((size_t)grid.threads + 31) / 32;
    grid.nresident = n;
    grid.resident = calloc((size_t)n, sizeof *grid.resident);
    if (!grid.resident) return false;
    for (int i = 0; i < n; i++) {
        Block *b = &grid.resident[i];
        b->thread = calloc((size_t)grid.threads, sizeof *b->thread);
        b->ready = calloc((size_t)grid.threads, sizeof *b->ready);
        b->warp = calloc(warps * CONVERGENCES, sizeof *b->warp);
        b->gone = calloc(warps, sizeof *b->gone);
        if (n > 1) b->slot = slot_new(l->f->code);
        if (!b->thread || !b->ready || !b->warp || !b->gone || (n > 1 && !b->slot)) return false;
    }
    return true;
}

static void grid_free(void)
{
    for (int i = 0; i < grid.nresident && grid.resident; i++) {
        Block *b = &grid.resident[i];
        for (int k = 0; k < grid.threads && b->thread; k++) {
            free(b->thread[k].knows);
            shim_late_free(b->thread[k].late, NULL);
        }
        shim_late_free(NULL, b->late);
        free(b->thread);
        free(b->ready);
        free(b->warp);
        free(b->gone);
        slot_free(grid.launch->f->code, b->slot);
        free(b->known);
    }
    free(grid.resident);
    for (int i = 0; i < PUBLISHED; i++)
        for (Published *x = grid.published[i], *next; x; x = next) {
            next = x->next;
            free(x->known);
            free(x->threads);
            free(x);
        }
}

CuResult shim_run(const Launch *l)
{
    char *stacks = grid.stacks;
    size_t nstacks = grid.nstacks;
    report[0] = 0;
    shim_late = !shim_option("SHIM_EARLY", 0);
    grid = (Grid){.launch = l, .stacks = stacks, .nstacks = nstacks};
    grid.threads = (int)(l->block.x * l->block.y * l->block.z);
    grid.blocks = (int)(l->grid.x * l->grid.y * l->grid.z);
    int group = l->cluster > 1 ? (int)l->cluster : 1;
    if (grid.threads < 1 || grid.threads > MOST_THREADS || grid.blocks < 1) {
        shim_fault("a launch of %d blocks of %d threads", grid.blocks, grid.threads);
    } else if (grid.blocks % group) {
        shim_fault("%d blocks are not a multiple of the cluster's %d", grid.blocks, group);
    } else if (l->shared_bytes > SHIM_DYNAMIC ||
               (l->shared_bytes > 48 << 10 && (int)l->shared_bytes > l->f->dynamic_limit)) {
        shim_fault("a launch with %u bytes of dynamic shared memory, %d allowed", l->shared_bytes,
                   l->f->dynamic_limit);
    } else if (!grid_make(group)) {
        shim_fault("no memory for %d blocks at once", group);
    } else {
        int groups = grid.blocks / group;
        uint32_t *order = calloc((size_t)groups + 1, sizeof *order);
        if (!order) abort();
        shim_actor.stack_bytes = STACK;
        shim_actor.before = shim_actor.last;
        shim_actor.last = shim_actor.base = shim_actor.now++;
        shim_actor.group = 0;
        shim_actor.resident = (uint32_t)group;
        char **slot = calloc((size_t)group, sizeof *slot);
        for (int i = 0; i < group && slot && group > 1; i++) slot[i] = grid.resident[i].slot;
        shim_shared_map(l->f->code, l->shared_bytes, group > 1 ? slot : NULL, group);
        for (int i = 0; i < groups; i++) {
            uint32_t k = shim_random((uint32_t)i + 1);
            order[i] = order[k];
            order[k] = (uint32_t)i;
        }
        for (int i = 0; i < groups && !grid.failed; i++) run_group(order[i] * (uint32_t)group);
        free(order);
        free(slot);
    }
    bool failed = grid.failed;
    grid_free();
    grid = (Grid){.stacks = grid.stacks, .nstacks = grid.nstacks};
    return failed ? CU_FAULT_LAST : CU_OK;
}
