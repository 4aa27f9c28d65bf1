// The runtime: devices, compiled programs, sessions. It knows Program but no graphs.
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include <stdatomic.h>
#include <stddef.h>

#include "codegen/program.h"

typedef enum RtCode {
    RT_OK,
    RT_USER,   // wrong file, shape, value, name: the caller's input
    RT_ENV,    // no GPU, driver, compiler, library, disk space
    RT_OOM,    // out of host or device memory
    RT_CHECK,  // a device check failed: index out of range, assert, non-finite loss
    RT_CANCEL, // the caller's cancel hook said stop
} RtCode;

// The first error wins; text is complete (several lines are fine) and says what to do.
typedef struct RtError {
    RtCode code;
    char text[4096];
} RtError;
// Sets e when it holds none yet; returns code. fmt as printf.
RtCode rt_fail(RtError *e, RtCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// -- code: what model.bin may carry beside the program --------------------------------------------
typedef struct RtImage { // one compiled image
    const char *target;  // "sm_90" cubin, "ptx_80" PTX, "cpu-x86_64" shared object
    const void *bytes;
    size_t size;
    uint64_t key;      // hash of the text, options and prelude it was made from
    uint64_t identity; // CUDA: the kernel's; CPU: 0 (one image a program)
    // CUDA, where it was compiled here: what the compiler said ("": nothing), and the processor
    // time it took. NULL: it comes from a file.
    const char *log;
    double seconds;
} RtImage;

// What making a program ready takes time for. Parts may run at the same time.
typedef enum RtPhase {
    RT_PHASE_COMPILE,     // its text to code, by NVRTC or the C compiler
    RT_PHASE_COMPILE_CPU, // processor time of that, where it is known
    RT_PHASE_LIBRARY,     // the library of products opened
    RT_PHASE_LOAD,        // code loaded onto the device
    RT_PHASE_SEARCH,      // the library's algorithms timed
    RT_PHASE_CHOOSE,      // the fastest of them beside kernels
    RT_PHASES
} RtPhase;

// Images as they are made, from a thread that compiles to one that loads; at most so many. Those
// got stay until free.
typedef struct RtComing RtComing;
RtComing *rt_coming_new(int most); // NULL: no memory
void rt_coming_free(RtComing *c);
void rt_coming_put(RtComing *c, const RtImage *image); // a copy; NULL c, or no memory: nothing
void rt_coming_end(RtComing *c);                       // there will be no more
// The i-th one, waited for; false: there is none, or c is NULL.
bool rt_coming_get(RtComing *c, int i, RtImage *out);
bool rt_coming_find(RtComing *c, uint64_t key, uint64_t identity, RtImage *out);

// -- compiling, needs no device -------------------------------------------------------------------
typedef struct RtCompileOptions {
    const char *cache_dir; // NULL: no cache on disk
    int threads;           // parallel compilations; 0: as many as cores
    bool may_spawn;        // the CPU target starts cc; false: error RT_ENV
    bool fresh;            // what the cache has is made anew
    bool locked;           // what the choice table does not say is an error, not measured
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    atomic_bool *unwritable; // set when it was said that the cache cannot be used; NULL: each time
    RtComing *made;          // to compile: is given what was made, at once; may be NULL
    RtComing *coming;        // to load: images on their way; may be NULL
    // To load: waits for images that are being made elsewhere and adds them to those it was given,
    // or leaves them. May be called on another thread. NULL: there are none.
    void (*await)(void *ctx, const RtImage **images, int *n);
    void *await_ctx;
    // Told of seconds spent, from any thread. NULL: nobody asks.
    void (*took)(void *ctx, RtPhase phase, double seconds);
    void *took_ctx;
} RtCompileOptions;
// All kernels of a CUDA program for "sm_XX" (cubin) or "ptx_XX". images: one a kernel, in the
// arena.
RtCode rt_compile_cuda(Arena *a, const Program *p, const char *target, const RtCompileOptions *o,
                       RtImage **images, int *n, RtError *e);
// The CPU program as one shared object.
RtCode rt_compile_cpu(Arena *a, const Program *p, const RtCompileOptions *o, RtImage *image,
                      RtError *e);

// -- devices --------------------------------------------------------------------------------------
typedef struct RtDevice RtDevice;
// Where device memory comes from, instead of the driver or the C library: [bytes] aligned to 256 on
// [device] ("cuda:0"), or NULL when there is none. Freed memory is no longer in use.
typedef struct RtAllocator {
    void *(*alloc)(void *user, const char *device, size_t bytes);
    void (*free)(void *user, const char *device, void *p);
    void *user;
} RtAllocator;
// name: "cpu", "cuda", "cuda:0". "auto": the first GPU, else the CPU. a: may be NULL.
RtCode rt_device_open(const char *name, const RtAllocator *a, RtDevice **out, RtError *e);
void rt_device_close(RtDevice *d);
const char *rt_device_name(const RtDevice *d);   // "cuda:0"
const char *rt_device_model(const RtDevice *d);  // "NVIDIA H200", "cpu, 2 threads"
const char *rt_device_target(const RtDevice *d); // "sm_90", "cpu"
bool rt_device_is_cuda(const RtDevice *d);
int rt_device_units(const RtDevice *d); // multiprocessors; 0 on a CPU
// RT_USER where [bytes] at p are known not to be the device's.
RtCode rt_device_owns(RtDevice *d, const void *p, size_t bytes, RtError *e);
int rt_cuda_count(void); // GPUs that can be used; 0 without a driver
typedef struct RtGpu {
    char model[128];
    int arch, units;
} RtGpu;
bool rt_cuda_gpu(int n, RtGpu *out); // what cuda:n is; it is not opened
// What rt_device_open would take, where that is a GPU.
bool rt_device_gpu(const char *name, RtGpu *out);
bool rt_matmul_library(bool cuda);           // can cuBLASLt / OpenBLAS be opened here?
const char *rt_cache_fault(const char *dir); // why no compile cache can be kept there, or NULL
// netc doctor: one line a finding, through [line]; ok: usable, with the path or version, else
// advice.
void rt_doctor(void (*line)(void *ctx, const char *what, bool ok, const char *detail), void *ctx);

// -- loading and running --------------------------------------------------------------------------
typedef struct RtProgram RtProgram; // a Program made ready on a device; immutable, shared
// images (may be 0) are used where they fit the device; the rest is compiled. p must outlive it.
RtCode rt_program_load(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                       const RtCompileOptions *o, RtProgram **out, RtError *e);
void rt_program_free(RtProgram *p);

typedef struct RtSession RtSession; // cells by name, an arena, a stream; one thread at a time
typedef struct RtSessionOptions {
    RtSession *share; // use this session's cells instead of allocating new ones
    void *stream;     // the caller's CUstream to enqueue on; NULL: one of the session's own
    void (*parallel_for)(void *user, long n, void (*body)(void *arg, long begin, long end),
                         void *arg);
    void *parallel_user; // CPU; parallel_for NULL: threads of the device's own
} RtSessionOptions;
RtCode rt_session_new(RtDevice *d, const RtSessionOptions *o /* may be NULL */, RtSession **out,
                      RtError *e);
void rt_session_free(RtSession *s);
void rt_session_spoil(
    RtSession *s); // from now on, temporaries are no numbers until they are written
// Outputs no numbers, and what is behind them, cells and temporaries filled, before an execution;
// and after it, in [what], what of that was written, or "".
RtCode rt_guards_set(RtSession *s, RtProgram *p, const char *entry, RtError *e);
RtCode rt_guards_check(RtSession *s, RtProgram *p, const char *entry, char *what, size_t n,
                       RtError *e);
// Makes the program's cells exist in the session (initial value; not overwritten when there
// already) and its arena large enough. An existing cell of another type is an error naming both
// types.
RtCode rt_session_attach(RtSession *s, RtProgram *p, RtError *e);

typedef struct RtHostTensor {
    ProgType type;
    void *data;
} RtHostTensor;
RtCode rt_cell_write(RtSession *s, const char *cell, const void *bytes, size_t n, RtError *e);
RtCode rt_cell_read(RtSession *s, const char *cell, void *bytes, size_t n, RtError *e); // syncs
// The values of cells now, in device memory. false: that has no room for it, or is the host's;
// cells are then read where they are. Read from any thread, one at a time, while the session goes
// on.
typedef struct RtSnapshot RtSnapshot;
bool rt_snapshot_new(RtSession *s, const char *const *cells, int n, RtSnapshot **out);
RtCode rt_snapshot_read(RtSnapshot *p, int cell, void *to, RtError *e);
void rt_snapshot_free(RtSnapshot *p); // NULL is fine
// Cells of the session in the order they were first attached.
int rt_cell_count(const RtSession *s);
const ProgCell *rt_cell_info(const RtSession *s, int i);
// Whether cell [i] is one of the first batch, and nothing gave it a value yet; the first such cell
// that the entry touches, or NULL; the entry has run, and given them theirs.
bool rt_cell_waits(const RtSession *s, int i);
const char *rt_entry_waits(RtSession *s, RtProgram *p, const char *entry);
void rt_entry_given(RtSession *s, RtProgram *p, const char *entry);

// Data for entries with a row table: whole arrays, axis 0 the examples; copied to the device when
// they fit there, staged through pinned double buffers when they do not. Arrays stay the caller's
// until unbound. An array already on the device for another entry or program of the session (same
// address and size) is shared, not copied again. Binding ends what was bound to the entry before
// and its table of rows. rows: row numbers in the order they are to be read (an epoch's
// permutation).
typedef struct RtDataBinding {
    const char *input;
    const void *data;
    int64_t row_bytes;
    const struct RtSource *source; // instead of data: rows are read out of files; streamed
} RtDataBinding;
RtCode rt_data_bind(RtSession *s, RtProgram *p, const char *entry, const RtDataBinding *b, int n,
                    int64_t examples, RtError *e);
RtCode rt_rows_set(RtSession *s, RtProgram *p, const char *entry, const int32_t *rows, int64_t n,
                   RtError *e);

// One execution of an entry, [times] in a row without the host between (train). Enqueued; outputs
// are read with rt_output_read after rt_sync. inputs: for entries without rows (or arguments).
typedef struct RtInput {
    const char *name;
    const void *data;
    bool device; // data is a device pointer
} RtInput;
RtCode rt_run(RtSession *s, RtProgram *p, const char *entry, const RtInput *inputs, int n,
              int64_t times, RtError *e);
RtCode rt_sync(RtSession *s, RtError *e); // waits, then reports a device check that failed
// What is enqueued from now on waits for what was until now on the caller's CUstream, or (before)
// what the caller enqueues there for what the session was given; NULL: the default stream.
RtCode rt_meet(RtSession *s, void *stream, bool before, RtError *e);
// Whether the session's stream is being captured by the caller: one of his that it has met since,
// or was made on. Then rt_run records its executions, and nothing runs before he launches his
// graph; only rt_run, rt_meet and rt_output_place may be called (exec_capture.c).
bool rt_captured(RtSession *s);
// Runs the entry on made-up inputs where it has not run yet, for no results: it can be captured
// then. Of one that writes no cells and checks nothing.
RtCode rt_warm_up(RtSession *s, RtProgram *p, const char *entry, RtError *e);
// Bytes of the entry's temporaries, and where following captured runs have them instead of in the
// session's memory: such runs of an entry may be launched side by side. NULL: in the session's.
int64_t rt_temporaries(RtSession *s, RtProgram *p, const char *entry);
RtCode rt_temporaries_place(RtSession *s, RtProgram *p, const char *entry, void *at, RtError *e);
// Where the following executions store an output: memory of the caller's on the device, 16 bytes
// aligned, until it is placed elsewhere; NULL: in memory of the entry's own.
RtCode rt_output_place(RtSession *s, RtProgram *p, const char *entry, const char *output, void *at,
                       RtError *e);
// Waits; reports a device check that failed as rt_sync does.
RtCode rt_output_read(RtSession *s, RtProgram *p, const char *entry, const char *output,
                      void *bytes, size_t n, RtError *e);
// The same to a place in device memory.
RtCode rt_output_copy(RtSession *s, RtProgram *p, const char *entry, const char *output,
                      void *device, size_t n, RtError *e);
bool rt_uses_cuda_graph(RtSession *s, RtProgram *p, const char *entry, const char **why_not);
// Ways of enqueueing several executions, as measured, and which is taken; "" where there is no
// choice.
void rt_graph_way(RtSession *s, RtProgram *p, const char *entry, char *out, size_t n);
int rt_graph_kernel_nodes(RtSession *s, RtProgram *p, const char *entry); // -1 where not captured

// Measured choices (library algorithms) as text lines, an input of the next load.
const char *rt_choices(RtProgram *p, Arena *a);
// The name of a kernel that computed something else than the library, whose place it would take,
// when the two were measured; NULL: none did.
const char *rt_defect(const RtProgram *p);

// -- measuring (exec_time.c, exec_profile.c, rates.c) ---------------------------------------------
// Both want an entry that has run once with what it reads bound; rows for [times] executions where
// it reads a data set. The executions count as any other: parameters change. A device check that
// fails is an error, since the executions after it do nothing.
//
// seconds[repeats]: of one execution, when [times] are enqueued in a row as rt_run does.
RtCode rt_time(RtSession *s, RtProgram *p, const char *entry, int64_t times, int repeats,
               double *seconds, RtError *e);

typedef struct RtKernelInfo { // -1: not known
    int registers;            // a thread
    int local_bytes;          // a thread: what did not fit into registers
    int shared_bytes;         // a block
    int threads;              // a block
    double occupancy;         // threads resident on a unit over the most it holds
} RtKernelInfo;

typedef struct RtStepTime { // a step of an entry, timed on its own
    int step;               // index in ProgEntry.steps
    bool behind;            // what stands behind the library's call of this product
    int kernel;             // that ran; -1: a call of the library, a copy
    int calls;              // in one execution
    double seconds;         // of one call, the median of all executions
    double low, high;       // its quartiles
    RtKernelInfo info;
} RtStepTime;

typedef struct RtSlice {   // a call in the last execution that was timed step by step
    int at;                // in RtProfile.steps
    double begin, seconds; // from the first call's begin
} RtSlice;

typedef struct RtProfileOptions {
    int repeats;    // executions timed step by step, at most
    double seconds; // no further ones after this time
    bool cold;      // the cache is emptied before every step
} RtProfileOptions;

typedef struct RtProfile {
    RtStepTime *steps;
    RtSlice *slices;
    int nsteps, nslices;
    double apart; // seconds of an execution step by step, from the first begin to the last end
    double pair;  // what a pair of events around nothing reads; it is taken off every time
    double empty; // what an empty launch reads less pair; 0 where there is none
} RtProfile;
RtCode rt_profile(RtSession *s, RtProgram *p, const char *entry, const RtProfileOptions *o,
                  Arena *a, RtProfile *out, RtError *e);

// What the device can do, measured now: bytes read and written a second by a copy larger than any
// cache; operations a second of a large product. 0 flops: the device has no such product.
RtCode rt_copy_rate(RtDevice *d, double *bytes_per_second, RtError *e);
RtCode rt_matmul_rate(RtDevice *d, ProgDType type, bool tf32, const RtCompileOptions *o,
                      double *flops_per_second, RtError *e);
// Executions that one launch of the entry's graph makes, 0 where there is no graph.
int rt_graph_executions(RtSession *s, RtProgram *p, const char *entry);

#endif
