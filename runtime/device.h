// Internal: the functions of a device. The executor (exec*.c) is written once on top of this table;
// cpu_*.c and cuda_*.c implement it. Every function may be called from any thread, but a stream and
// the work on it belong to one thread at a time. All functions of a device except enter and leave
// are called between these two (CUDA: the context is current).
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include <stdint.h>

#include "runtime/runtime.h"

typedef struct RtDeviceOps RtDeviceOps;
typedef struct RtStream RtStream; // defined by each device
typedef struct RtModule RtModule; // a Program's code on a device: kernels and prepared matmuls
typedef struct RtEvent RtEvent;
typedef struct RtGraph RtGraph;

// A device's own struct begins with this one.
struct RtDevice {
    const RtDeviceOps *ops;
    int count;             // devices of a group (group.c); otherwise 0 or 1
    char name[128];        // "cuda:0"
    char model[128];       // "NVIDIA H200"
    char target[32];       // "sm_90"
    int units;             // multiprocessors; 0 on a CPU
    RtAllocator allocator; // alloc NULL: the device's own
};

typedef enum RtCopyKind { RT_H2D, RT_D2H, RT_D2D } RtCopyKind;

// A kernel argument: an address or an integer, 8 bytes.
typedef union RtSlot {
    void *p;
    int64_t v;
} RtSlot;

struct RtDeviceOps {
    bool cuda;
    // Kernel arguments are passed as addresses of the slots (CUDA's kernelParams). Otherwise a
    // buffer is passed as its address and an integer as the address of its slot (the CPU's ABI,
    // ProgKernel).
    bool args_by_address;
    // Host memory is device memory: host pointers are used directly, nothing is staged.
    bool unified;

    RtCode (*open)(int ordinal, RtDevice **out, RtError *e);
    void (*close)(RtDevice *d);
    bool (*memory)(RtDevice *d, size_t *free_bytes, size_t *total_bytes);
    // Makes the device current for this thread; may be nested.
    RtCode (*enter)(RtDevice *d, RtError *e);
    void (*leave)(RtDevice *d);

    // Memory, from d->allocator if there is one. what: for the message if there is not enough
    // ("temporaries of train"). bytes > 0; aligned to 256 bytes, contents undefined.
    RtCode (*alloc)(RtDevice *d, size_t bytes, const char *what, void **out, RtError *e);
    void (*free)(RtDevice *d, void *p); // p may be NULL; waits for work that uses it
    // Whether [bytes] at p are the device's memory, as far as the driver knows; NULL: not checked.
    RtCode (*owns)(RtDevice *d, const void *p, size_t bytes, RtError *e);
    RtCode (*host_alloc)(RtDevice *d, size_t bytes, void **out, RtError *e); // pinned
    void (*host_free)(RtDevice *d, void *p);

    // Streams. o: may be NULL; o->stream is the caller's to wrap, o->parallel_for the CPU's.
    RtCode (*stream_new)(RtDevice *d, const RtSessionOptions *o, RtStream **out, RtError *e);
    void (*stream_free)(RtStream *s);
    RtCode (*stream_sync)(RtStream *s, RtError *e);
    // Makes s wait for the current work of the caller's stream or, if [before], that stream wait
    // for the current work of s. theirs NULL: the default stream. NULL if steps run when they are
    // enqueued.
    RtCode (*stream_meet)(RtStream *s, void *theirs, bool before, RtError *e);
    // Waits for all work on the device. NULL if stream_meet is NULL.
    RtCode (*sync_all)(RtDevice *d, RtError *e);

    // These enqueue. Host memory of a copy must stay valid until stream_sync. gate: NULL, or the
    // device address of a ProgError: nothing is written if its code is not 0 at that point of the
    // stream.
    RtCode (*copy)(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                   const void *gate, RtError *e);
    RtCode (*zero)(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e);
    // Fills with 0xff, which marks memory as not written.
    RtCode (*spoil)(RtStream *s, void *to, size_t bytes, RtError *e);

    // Events, with timing.
    RtCode (*event_new)(RtDevice *d, RtEvent **out, RtError *e);
    void (*event_free)(RtEvent *v);
    RtCode (*event_record)(RtEvent *v, RtStream *s, RtError *e);
    RtCode (*event_wait)(RtStream *s, RtEvent *v, RtError *e); // s waits for v
    RtCode (*event_sync)(RtEvent *v, RtError *e);              // the host waits for v
    // After event_sync of both.
    RtCode (*event_seconds)(RtEvent *begin, RtEvent *end, double *seconds, RtError *e);

    // Code. Loads the images that fit, compiles the rest as o allows (o is never NULL), and
    // prepares every gemm (algorithm by p->choices, else timed). m outlives every launch from it.
    RtCode (*module_new)(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                         const RtCompileOptions *o, RtModule **out, RtError *e);
    void (*module_free)(RtModule *m);
    const char *(*module_choices)(RtModule *m, Arena *a); // text lines "key value"; ""
    // The name of a kernel whose results differed, when it was timed, from those of the library;
    // NULL: none. May be NULL: nothing is timed.
    const char *(*module_defect)(const RtModule *m);
    // argv: one entry per argument, see args_by_address.
    RtCode (*launch)(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e);
    // Runs the library's call, or the kernel that replaces it, but not the kernel after the
    // library's call. slots: A, B, C, residual, bias, aux, workspace, as in ProgGemm.
    RtCode (*gemm)(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
    // The kernel that currently replaces the library's call of a product or, if [behind], that runs
    // after it; -1: none. NULL: the library computes everything.
    int (*gemm_kernel)(const RtModule *m, int gemm, bool behind);
    size_t (*gemm_scratch)(const RtModule *m, int gemm); // bytes of its workspace in use; NULL: all
                                                         // of it

    // Records what is enqueued between begin and end; launch enqueues it again. NULL if a device
    // cannot. If end fails, the stream stays usable and *out is NULL (not fatal: the executor then
    // runs step by step and reports e->text as the reason). Must also work on the caller's stream.
    RtCode (*capture_begin)(RtStream *s, RtError *e);
    RtCode (*capture_end)(RtStream *s, RtGraph **out, int *kernel_nodes, RtError *e);
    RtCode (*graph_launch)(RtStream *s, RtGraph *g, RtError *e);
    void (*graph_free)(RtGraph *g);

    // Whether the caller is recording the stream, so that its work runs when the caller launches
    // the result; NULL: never.
    bool (*captured)(RtStream *s);
    // Sets whether this thread may do what could disturb a recording (allocate memory, wait for a
    // stream that is not recorded). Returns the previous setting. NULL if [captured] is NULL.
    int (*capture_allow)(RtDevice *d, int mode);

    // For measurements. copy_kernel: on the device, with all its units and 16 bytes per load;
    // [bytes] is a multiple of RT_COPY_UNIT.
    RtCode (*copy_kernel)(RtStream *s, void *to, const void *from, size_t bytes, RtError *e);
    // Keeps the stream busy, so that work enqueued meanwhile runs without gaps. NULL if steps run
    // when they are enqueued.
    RtCode (*wait)(RtStream *s, double seconds, RtError *e);
    RtCode (*kernel_info)(RtModule *m, int kernel, RtKernelInfo *out, RtError *e); // NULL: unknown

    // Of a group only: PS_EXCHANGE, PS_AGREE, and the address of the number of each member (i64).
    RtCode (*exchange)(RtStream *s, void *to, const void *from, size_t bytes, bool each,
                       RtError *e);
    RtCode (*agree)(RtStream *s, void *record, RtError *e);
    void *(*number)(RtDevice *d);
    // Of its members: lets d access memory of [other]; *direct: kernels on both can wait for each
    // other by flags there. NULL: it can be read, and there are no kernels that do.
    RtCode (*reach)(RtDevice *d, RtDevice *other, bool *direct, RtError *e);
    // The part of member [self] of n in an exchange of [words] of 4 bytes, at most RT_ROOM_WORDS, by
    // way of the room (RtRoom). 0 words: they wait for each other.
    RtCode (*trade)(RtStream *s, void *room, void *to, const void *from, unsigned words, bool each,
                    int n, int self, RtError *e);
    // Stores the first of n error records whose code is not 0, if there is one, with its number.
    RtCode (*take_error)(RtStream *s, void *record, const void *from, int n, RtError *e);
};
enum { RT_COPY_UNIT = 16384, RT_ALLOW_ALL = -1, RT_ROOM_WORDS = 16384 };

// Memory of a member of a group for exchanges, which all members do in the same order. An exchange
// with number k stores its words in words[k % 2] of the others; they are taken from there before the
// member begins exchange k + 1, whose flag is awaited before any begins k + 2.
typedef struct RtRoom {
    uint32_t done; // exchanges, zeros at first
    char pad[60];
    uint32_t flag[PROG_MAX_DEVICES];  // by member: how many it has stored the words of
    uint64_t room[PROG_MAX_DEVICES];  // by member: its address
    uint32_t words[][RT_ROOM_WORDS];  // [2][members]
} RtRoom;

// An implementation of alloc for devices with d->allocator.
RtCode rt_alloc_from_caller(RtDevice *d, size_t bytes, const char *what, void **out, RtError *e);

extern const RtDeviceOps rt_cpu_ops, rt_cuda_ops;
// Devices of one kind as one that shares its work among them (group.c). It owns the members, unless
// it fails.
RtCode rt_group_open(const char *name, RtDevice *const *members, int n, RtDevice **out, RtError *e);
// CUDA's part of rt_doctor: driver, GPUs, NVRTC, cuBLASLt, cuDNN, NCCL (cuda_doctor.c).
void rt_cuda_doctor(void (*line)(void *ctx, const char *what, bool ok, const char *detail),
                    void *ctx);
bool rt_cuda_matmul_library(void); // cuBLASLt can be opened (cuda_doctor.c)
bool rt_cpu_matmul_library(void);  // OpenBLAS can be opened (cpu_blas.c)

// -- the compile cache, shared by both devices (cache.c) ------------------------------------------

// Entries are files <dir>/<32 hex digits of the key>, written to a temporary name and renamed, and
// contain their key and a checksum. Errors never fail a compilation: an unusable directory means no
// cache; a damaged entry is removed and counts as absent. A folder or an entry that is owned or
// writable by other users than this process's or root is not used. If a valid entry turns out to be
// useless, look it up again with o->fresh, which replaces it.
typedef struct RtKey {
    uint64_t a, b;
} RtKey;
RtKey rt_key_start(const char *what); // "cubin 1": kind and version of what is cached
// Includes n, so that concatenated parts cannot be confused.
void rt_key_bytes(RtKey *k, const void *p, size_t n);
void rt_key_str(RtKey *k, const char *s);
// true: *bytes is in the arena.
bool rt_cache_get(const RtCompileOptions *o, RtKey k, Arena *a, void **bytes, size_t *n);
void rt_cache_put(const RtCompileOptions *o, RtKey k, const void *bytes, size_t n);

// Adds seconds to a phase (o->took).
void rt_took(const RtCompileOptions *o, RtPhase phase, double seconds);
void rt_log(const RtCompileOptions *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
