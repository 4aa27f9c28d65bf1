// A CUDA device made of the host, for tests where there is no GPU: libcuda, libnvrtc and
// libcublasLt under their own names, found through LD_LIBRARY_PATH, so that the runtime under test
// is the very code that runs on a GPU. Kernels are the generated CUDA text, compiled by the host's
// C++ compiler (compile.c, kernel.h, ptx.h) and executed thread by thread in random order (grid.c),
// each of their memory accesses checked (memory.c).
//
// Environment:
//   SHIM_SEED=N          of the random order; 1
//   SHIM_EARLY=1         asynchronous copies and products are done at once, not where something
//                        waits for them
//   SHIM_ARCH=90         what the device says it is
//   SHIM_UNITS=132       how many multiprocessors it says it has
//   SHIM_DRIVER=13000    CUDA version the driver says it is for
//   SHIM_DEVICES=1       how many devices there are
//   SHIM_MEMORY=BYTES    of the device; 1 GiB
//   SHIM_TOO_NEW=1       every image is refused as made by a newer compiler
//   SHIM_CUT=OLD=>NEW    replaces this text in prelude and kernels: how the tests break a kernel
//   SHIM_LT=MODE         cuBLASLt has no algorithm (none), takes 0.25 s a product (slow),
//                        or 3 ms without its fifth option (options)
//   SHIM_REFUSE=WORD     kernels in whose text it stands do not compile
//   SHIM_MEET=FILE       no kernel compiles before a product has run, which makes the file; after a
//                        minute none does at all
//   SHIM_HOME=DIR        where kernel.h and ptx.h lie (tests/shim)
//   SHIM_SAY=1           reports go to stderr too, for hosts that drop them
//   SHIM_CACHE=DIR       what was compiled is kept there, and the same text is not compiled again
//   SHIM_STATS=FILE      a line a process: kernels compiled, launches, threads, accesses
#ifndef TESTS_SHIM_H
#define TESTS_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/cuda_api.h"

typedef struct Index3 {
    unsigned x, y, z;
} Index3;

int shim_option(const char *name, int otherwise);
uint32_t shim_random(uint32_t below);

// -- compile.c: modules and functions
struct Launch;
typedef struct Code { // a shared object of compiled kernels, and its shared variables
    void *library;
    char *vars; // all memory the object has of its own: __shared__ variables, dynamic at the end
    size_t vars_bytes;
    char *dynamic; // in vars
    size_t dynamic_bytes;
    struct Code *next;
} Code;

enum { SHIM_DYNAMIC = 227 * 1024 };

struct CUfunc_st {
    struct CUmod_st *module;
    char *name;
    bool (*builtin)(const struct Launch *l); // of the driver's own kernels, else NULL
    const Code *code;
    void (*call)(void *const *params);
    const size_t *sizes; // of the parameters, ended by 0
    int dynamic_limit;
    CuFunction next;
};

struct CUmod_st {
    int device;
    char *text;
    CuFunction functions;
    const Code *code;
    int number, prelude; // in code
    CuModule next;
};

// Makes f ready to be called; NULL, or what is wrong (stays valid).
const char *shim_prepare(CuFunction f);
CuModule shim_modules(void); // all loaded ones
// Held by whoever touches what threads share: kernels run one at a time.
extern pthread_mutex_t shim_lock;

// -- stream.c: streams, events, graphs
// For the libraries: work on a stream; arg is malloc'ed and theirs no more.
CuResult shim_enqueue(CuStream s, CuResult (*call)(void *), void *arg);
// Not CU_OK: a capture that is going on forbids the thread what it was about to do, and is lost.
CuResult shim_unsafe(void);
extern unsigned long long shim_launches;

int shim_stream_device(CuStream s); // that it was created on

// -- devices.c
int shim_device(void); // the current one
// Whether an address is of no other device's memory than the stream's (NULL: than the current one's).
bool shim_here(const void *p, CuStream s);
// Whether a kernel of the module may run on the stream with these parameters (sizes: ended by 0).
bool shim_belongs(const struct CUmod_st *m, CuStream s, void *const *params, const size_t *sizes);

// -- builtin.c: finds the driver's own kernel of f's name, if there is one.
void shim_builtin(CuFunction f);
// The device's, seconds: moves on with the accesses and products of what runs there, and never with
// the host's clock. What is measured is the same on every host, however busy.
extern double shim_clock;

// -- rewrite.c: CUDA text to what the host's compiler takes; malloc. NULL with *why on text the
// shim has no meaning for.
char *shim_rewrite(const char *text, const char **why);
const char *shim_cut(Arena *arena, const char *text); // SHIM_CUT done; text itself without

// -- grid.c: executing a kernel
typedef struct Launch {
    CuFunction f;
    Index3 grid, block;
    unsigned shared_bytes, cluster;
    bool early;
    void **params; // copies
} Launch;
CuResult shim_run(const Launch *l);
CuResult shim_launch(CuStream s, const Launch *l); // enqueues it (stream.c); the lock is held
const char *shim_report(void);                     // of the last launch that failed, or ""
// Ends the kernel that runs with a report.
void shim_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// The thread that runs, for memory.c.
typedef struct Actor {
    uint32_t id;       // block << 10 | number in the block
    uint32_t now;      // moves on with every synchronisation
    uint32_t rank;     // of the block among those resident
    uint32_t life;     // of the block: its shared variables begin with it
    const char *stack; // [stack, stack + stack_bytes)
    size_t stack_bytes;
    bool ahead;      // its kernel began early, and it has not waited for the one before
    uint32_t before; // when that one began
    uint32_t last;   // when the last one began, the library's included
    // Until when what others did is known: anybody (base), the blocks [first, first + resident)
    // (group), the threads of the own block (block), a thread of it (knows, by its number in the
    // block), another block (known, by its number); NULL: nothing.
    uint32_t base, group, block;
    uint32_t first, resident;
    const uint32_t *knows, *known;
} Actor;
extern Actor shim_actor;
extern bool shim_running;

// Whether what thread [id] did at [when] comes before what the thread that runs does now. (Most of
// what a kernel costs here is this and its callers in memory.c.)
static inline bool shim_ordered(uint32_t id, uint32_t when)
{
    const Actor *a = &shim_actor;
    if (when <= a->base) return true;
    if ((id >> 10) - a->first < a->resident && when <= a->group) return true;
    if (id >> 10 != a->id >> 10) return a->known && when <= a->known[id >> 10];
    return when <= a->block || (a->knows && when <= a->knows[id & 1023]);
}

const void *shim_dynamic_place(void); // of the kernel that runs: its dynamic shared memory

// -- late.c: of the thread that runs, and of the running block's cluster; NULL: nothing yet
typedef struct LateThread LateThread;
typedef struct LateBlock LateBlock;
LateThread **shim_late_thread(void);
LateBlock **shim_late_block(unsigned rank);
unsigned shim_cluster_rank(void);
// When it leaves the kernel: with what it must not; NULL, false: nothing. They are empty then.
const char *shim_late_end_thread(LateThread *t);
bool shim_late_end_block(LateBlock *b);
void shim_late_free(LateThread *t, LateBlock *b);
// When the thread of the block that runs last made its writes known to bulk copies.
uint32_t shim_fenced(uint32_t id);

// -- recall.c: calls of libraries that are made again, as where candidates are timed
typedef struct Span {
    void *p;
    size_t bytes;
} Span;
// Whether a call with this key (all that matters but places) and equal operands is remembered: then
// [out] has its results. If not, *call is where they are to be put (shim_remember); NULL: nowhere.
typedef struct Recalled Recalled;
bool shim_recall(Span key, const Span *in, int nin, const Span *out, int nout, Recalled **call);
void shim_remember(Recalled *call, const Span *out, int nout);

// -- memory.c: device memory, and every access to it
CuResult shim_alloc(CuPtr *p, size_t bytes);
CuResult shim_release(CuPtr p);
bool shim_allocation(const void *p, CuPtr *start, size_t *bytes); // that p lies in
int shim_holder(const void *p); // the device whose memory p is; -1: none
size_t shim_memory_used(void);
size_t shim_memory_total(void);
// Access from outside of kernels: false when some byte is not of an allocation, or (reading) was
// never written.
bool shim_touch(const void *p, size_t bytes, bool write);
void shim_unwritten(void *p, size_t bytes); // a fill with 0xff: a temporary's life begins
void shim_filled(void *p, size_t bytes, const void *from); // a copy: what is initialised goes along
// A copy or a fill (from: NULL), which waits for the kernels before it: what they wrote is not
// there any more. As shim_touch for writing, and as shim_filled if [from] is on the device.
bool shim_copied(void *p, size_t bytes, const void *from);
// Ends a turn: what the thread wrote last is looked at.
void shim_settle(void);
void shim_atomic_place(void *p, size_t bytes, bool write);
// An atomic operation of kernel.h (shim_atomic) on p. *before: what was there. Whether it changed.
bool shim_operate(void *p, int bytes, char op, unsigned long long v, unsigned long long want,
                  unsigned long long *before);
// The shared variables that kernels about to run see; ranks: copies of blocks that are not running.
void shim_shared_map(const Code *c, size_t dynamic_bytes, char *const *slot, int ranks);
extern unsigned long long shim_accesses;

#endif
