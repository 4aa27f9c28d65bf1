// The runtime: devices, compiled programs, sessions. It knows Program but no graphs.
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include <stdatomic.h>
#include <stddef.h>

#include "codegen/program.h"

typedef enum RtCode {
    RT_OK,
    RT_USER,   // wrong input of the caller: file, shape, value, name
    RT_ENV,    // no GPU, driver, compiler, library, disk space
    RT_OOM,    // out of host or device memory
    RT_CHECK,  // a device check failed: index out of range, assert, non-finite loss
    RT_CANCEL, // the caller's cancel hook asked to stop
} RtCode;

// The first error wins; text is complete (several lines are fine) and says what to do.
typedef struct RtError {
    RtCode code;
    char text[4096];
} RtError;
// Sets e unless it contains an error already; returns code. fmt as for printf.
RtCode rt_fail(RtError *e, RtCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// -- code: what a model.bin may contain in addition to the program
// ---------------------------------
typedef struct RtImage { // one compiled image
    const char *target;  // "sm_90" cubin, "ptx_80" PTX, "cpu-x86_64" shared object
    const void *bytes;
    size_t size;
    uint64_t key;      // hash of the text, options and prelude from which it was compiled
    uint64_t identity; // CUDA: the kernel's; CPU: 0 (one image a program)
    // CUDA, if it was compiled by this process: the compiler's remarks (may be "") and the
    // processor time. log NULL: it comes from a file.
    const char *log;
    double seconds;
} RtImage;

// Phases of preparing a program. They may overlap.
typedef enum RtPhase {
    RT_PHASE_COMPILE,     // compiling its text with NVRTC or the C compiler
    RT_PHASE_COMPILE_CPU, // processor time of that, if it is known
    RT_PHASE_LIBRARY,     // opening the matmul library
    RT_PHASE_LOAD,        // loading code onto the device
    RT_PHASE_SEARCH,      // timing the library's algorithms
    RT_PHASE_CHOOSE,      // timing the fastest of them against generated kernels
    RT_PHASES
} RtPhase;

// A queue of at most so many images from a thread that compiles to one that loads. Images taken
// from it stay valid until it is freed.
typedef struct RtComing RtComing;
RtComing *rt_coming_new(int most); // NULL: no memory
void rt_coming_free(RtComing *c);
// Copies the image; does nothing if c is NULL or memory is short.
void rt_coming_put(RtComing *c, const RtImage *image);
void rt_coming_end(RtComing *c); // no more images will follow
// Waits for the i-th image; false: there is none, or c is NULL.
bool rt_coming_get(RtComing *c, int i, RtImage *out);
bool rt_coming_find(RtComing *c, uint64_t key, uint64_t identity, RtImage *out);

// -- compiling, needs no device -------------------------------------------------------------------
typedef struct RtCompileOptions {
    const char *cache_dir; // NULL: no cache on disk
    int threads;           // parallel compilations; 0: as many as cores
    bool may_spawn;        // the CPU target starts cc; false: error RT_ENV
    bool fresh;            // ignore cached results and replace them
    bool locked; // anything missing in the choice table is an error instead of being measured
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    atomic_bool *unwritable; // set after a note that the cache cannot be used; NULL: noted every
                             // time
    RtComing *made;          // for compiling: receives each image at once; may be NULL
    RtComing *coming;        // for loading: images that are being compiled; may be NULL
    // For loading: waits for images that another thread compiles and appends them to the given
    // ones, or does nothing. May be called from another thread. NULL: there are none.
    void (*await)(void *ctx, const RtImage **images, int *n);
    void *await_ctx;
    // Receives the seconds spent in a phase, from any thread; may be NULL.
    void (*took)(void *ctx, RtPhase phase, double seconds);
    void *took_ctx;
} RtCompileOptions;
// Compiles all kernels of a CUDA program for "sm_XX" (cubin) or "ptx_XX". images: one per kernel,
// in the arena.
RtCode rt_compile_cuda(Arena *a, const Program *p, const char *target, const RtCompileOptions *o,
                       RtImage **images, int *n, RtError *e);
// Compiles a CPU program to one shared object.
RtCode rt_compile_cpu(Arena *a, const Program *p, const RtCompileOptions *o, RtImage *image,
                      RtError *e);
// Appends the part of the CUDA prelude that [text] needs.
void rt_cuda_prelude(Buf *out, const char *prelude, const char *text);

// -- devices --------------------------------------------------------------------------------------
typedef struct RtDevice RtDevice;
// Provides device memory instead of the driver or the C library: [bytes] on [device] ("cuda:0"),
// aligned to 256 bytes, or NULL if there is not enough. Memory is freed when it is no longer in
// use.
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
// RT_USER if [bytes] at p are known not to be the device's memory.
RtCode rt_device_owns(RtDevice *d, const void *p, size_t bytes, RtError *e);
int rt_cuda_count(void); // GPUs that can be used; 0 without a driver
typedef struct RtGpu {
    char model[128];
    int arch, units;
} RtGpu;
bool rt_cuda_gpu(int n, RtGpu *out); // describes cuda:n without opening it
// Describes the GPU that rt_device_open would open; false if that is not a GPU.
bool rt_device_gpu(const char *name, RtGpu *out);
bool rt_matmul_library(bool cuda);           // whether cuBLASLt or OpenBLAS can be opened here
const char *rt_cache_fault(const char *dir); // why the compile cache cannot be kept there, or NULL
// netc doctor: calls [line] once per finding. ok: usable, with the path or version; otherwise with
// advice.
void rt_doctor(void (*line)(void *ctx, const char *what, bool ok, const char *detail), void *ctx);

// -- loading and running --------------------------------------------------------------------------
typedef struct RtProgram RtProgram; // a Program made ready on a device; immutable, shared
// Uses images (may be 0) that fit the device, and compiles the others. p must outlive the result.
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
    bool first; // its kernels begin before those of other streams, where both could
} RtSessionOptions;
RtCode rt_session_new(RtDevice *d, const RtSessionOptions *o /* may be NULL */, RtSession **out,
                      RtError *e);
void rt_session_free(RtSession *s);
void rt_session_spoil(RtSession *s); // from now on, temporaries are NaN until they are written
// rt_guards_set fills outputs and the bytes after outputs, cells and temporaries with NaN before an
// execution. rt_guards_check examines these bytes after it. what: names one that was written, or is
// "".
RtCode rt_guards_set(RtSession *s, RtProgram *p, const char *entry, RtError *e);
RtCode rt_guards_check(RtSession *s, RtProgram *p, const char *entry, char *what, size_t n,
                       RtError *e);
// Creates the program's cells in the session (existing ones keep their values) and makes its arena
// large enough. An existing cell of another type is an error that names both types.
RtCode rt_session_attach(RtSession *s, RtProgram *p, RtError *e);

typedef struct RtHostTensor {
    ProgType type;
    void *data;
} RtHostTensor;
RtCode rt_cell_write(RtSession *s, const char *cell, const void *bytes, size_t n, RtError *e);
RtCode rt_cell_read(RtSession *s, const char *cell, void *bytes, size_t n, RtError *e); // syncs
// Copies the current values of cells within device memory. false: there is not enough memory, or
// the device is the host, where cells are read directly. A snapshot may be read from any thread,
// one at a time, while the session continues.
typedef struct RtSnapshot RtSnapshot;
bool rt_snapshot_new(RtSession *s, const char *const *cells, int n, RtSnapshot **out);
RtCode rt_snapshot_read(RtSnapshot *p, int cell, void *to, RtError *e);
void rt_snapshot_free(RtSnapshot *p); // p may be NULL
// Cells of the session in the order they were first attached.
int rt_cell_count(const RtSession *s);
const ProgCell *rt_cell_info(const RtSession *s, int i);
// rt_cell_waits: whether cell [i] has no value yet: it is computed from the first batch, or a
// length of the training (program_told). rt_entry_waits, rt_entry_untold: the first cell of the one
// and of the other kind that has none and that the entry uses, or NULL. rt_entry_given: the entry
// has run and set its cells. rt_cell_take_back: the cell has no value again.
bool rt_cell_waits(const RtSession *s, int i);
const char *rt_entry_waits(RtSession *s, RtProgram *p, const char *entry);
const char *rt_entry_untold(RtSession *s, RtProgram *p, const char *entry);
void rt_entry_given(RtSession *s, RtProgram *p, const char *entry);
void rt_cell_take_back(RtSession *s, const char *cell);

// Data for entries with a row table: whole arrays with the examples along axis 0, copied to the
// device if they fit there, otherwise staged through pinned double buffers. Arrays belong to the
// caller and must stay until they are unbound. An array that is already on the device for another
// entry or program of the session (same address and size) is shared. Binding replaces the entry's
// earlier data and row table. rows: row numbers in the order they are read (an epoch's
// permutation).
typedef struct RtDataBinding {
    const char *input;
    const void *data;
    int64_t row_bytes;
    const struct RtSource *source; // instead of data: rows are read from files and streamed
} RtDataBinding;
RtCode rt_data_bind(RtSession *s, RtProgram *p, const char *entry, const RtDataBinding *b, int n,
                    int64_t examples, RtError *e);
RtCode rt_rows_set(RtSession *s, RtProgram *p, const char *entry, const int32_t *rows, int64_t n,
                   RtError *e);

// Enqueues [times] executions of an entry in a row, without the host in between. Outputs are read
// with rt_output_read after rt_sync. inputs: for entries without rows (or as arguments).
typedef struct RtInput {
    const char *name;
    const void *data;
    bool device; // data is a device pointer
} RtInput;
RtCode rt_run(RtSession *s, RtProgram *p, const char *entry, const RtInput *inputs, int n,
              int64_t times, RtError *e);
RtCode rt_sync(RtSession *s, RtError *e); // waits, then reports a device check that failed
RtCode rt_wait(RtSession *s, RtError *e); // only waits: what a check found is left to rt_sync
// Makes further work of the session wait for the current work of the caller's CUstream or, if
// [before], makes further work there wait for the current work of the session. NULL: the default
// stream.
RtCode rt_meet(RtSession *s, void *stream, bool before, RtError *e);
// Whether the session's stream is being captured by the caller, because it has met a stream of the
// caller or was created on one. rt_run then records its executions, and nothing runs before the
// caller launches the graph. Meanwhile only rt_run, rt_meet and rt_output_place may be called
// (exec_capture.c).
bool rt_captured(RtSession *s);
// Runs the entry with made-up inputs unless it has run already, so that it can be captured. Only
// for an entry that writes no cells and has no checks.
RtCode rt_warm_up(RtSession *s, RtProgram *p, const char *entry, RtError *e);
// rt_temporaries: the size of the entry's temporaries. rt_temporaries_place: memory for them in
// further captured runs, so that such runs may be launched concurrently. NULL: the session's.
int64_t rt_temporaries(RtSession *s, RtProgram *p, const char *entry);
RtCode rt_temporaries_place(RtSession *s, RtProgram *p, const char *entry, void *at, RtError *e);
// Sets where the following executions store an output: the caller's memory on the device, aligned
// to 16 bytes, until it is changed; NULL: the entry's own memory.
RtCode rt_output_place(RtSession *s, RtProgram *p, const char *entry, const char *output, void *at,
                       RtError *e);
// Waits; reports a failed device check as rt_sync does.
RtCode rt_output_read(RtSession *s, RtProgram *p, const char *entry, const char *output,
                      void *bytes, size_t n, RtError *e);
// The same, to device memory.
RtCode rt_output_copy(RtSession *s, RtProgram *p, const char *entry, const char *output,
                      void *device, size_t n, RtError *e);
bool rt_uses_cuda_graph(RtSession *s, RtProgram *p, const char *entry, const char **why_not);
// The measured ways to enqueue several executions, and the one used; "" if there was no choice.
void rt_graph_way(RtSession *s, RtProgram *p, const char *entry, char *out, size_t n);
// Kernel nodes of the entry's graph; -1 if it was not captured.
int rt_graph_kernel_nodes(RtSession *s, RtProgram *p, const char *entry);

// Measured choices (library algorithms) as text lines, an input of the next load.
const char *rt_choices(RtProgram *p, Arena *a);
// The name of a kernel whose results differed from the library's when both were measured; NULL:
// none.
const char *rt_defect(const RtProgram *p);

// -- measuring (exec_time.c, exec_profile.c, rates.c) ---------------------------------------------
// Both need an entry that has run once with everything it reads bound and, if it reads a data set,
// rows for [times] executions. The executions count like any others: parameters change. A failed
// device check is an error, since later executions do nothing.
RtCode rt_time(RtSession *s, RtProgram *p, const char *entry, int64_t times, int repeats,
               double *seconds, RtError *e);

typedef struct RtKernelInfo { // -1: not known
    int registers;            // per thread
    int local_bytes;          // per thread: what did not fit in registers
    int shared_bytes;         // per block
    int threads;              // per block
    double occupancy;         // threads resident on a unit, divided by its maximum
} RtKernelInfo;

typedef struct RtStepTime { // a step of an entry, timed alone
    int step;               // index in ProgEntry.steps
    bool behind;            // the part after the library's call of this product
    int kernel;             // the kernel that ran; -1: a call of the library, a copy
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
    double seconds; // limit: no further executions after this time
    bool cold;      // the cache is evicted before every step
} RtProfileOptions;

typedef struct RtProfile {
    RtStepTime *steps;
    RtSlice *slices;
    int nsteps, nslices;
    double apart; // seconds of an execution step by step, from the first begin to the last end
    double pair;  // time between two events around nothing; subtracted from every time
    double empty; // time around an empty launch less pair; 0 if there is none
} RtProfile;
RtCode rt_profile(RtSession *s, RtProgram *p, const char *entry, const RtProfileOptions *o,
                  Arena *a, RtProfile *out, RtError *e);

// The device's limits, measured now: bytes per second, read plus written, of a copy larger than any
// cache; operations per second of a large product. 0 flops: the device has no such product.
RtCode rt_copy_rate(RtDevice *d, double *bytes_per_second, RtError *e);
RtCode rt_matmul_rate(RtDevice *d, ProgDType type, bool tf32, const RtCompileOptions *o,
                      double *flops_per_second, RtError *e);
// Executions per launch of the entry's graph, 0 if there is no graph.
int rt_graph_executions(RtSession *s, RtProgram *p, const char *entry);

#endif
