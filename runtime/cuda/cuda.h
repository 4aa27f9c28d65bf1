// Internal to the CUDA device (cuda_*.c): the device's own structs and the checked-call macros.
#ifndef RUNTIME_CUDA_H
#define RUNTIME_CUDA_H

#include <pthread.h>

#include "runtime/cuda/cuda_api.h"
#include "runtime/device.h"

typedef struct CudaDevice {
    RtDevice base;
    CuDriver cu;
    CuDeviceId id;
    CuContext context;    // the primary one
    int arch;             // 90
    int driver_version;   // 13000
    bool sync;            // NETC_SYNC=1: wait after every launch, so that a fault names its kernel
    pthread_mutex_t lock; // guards what follows, made when first needed
    CublasLt lt;
    LtHandle lt_handle;
    CuModule builtin;
    CuFunction fill[2]; // gated copy or zero: by bytes, by 16 bytes
    CuModule measure;
    CuFunction copy_wide, wait; // cuda_measure.c
} CudaDevice;

struct RtStream {
    CudaDevice *d;
    CuStream s;
    bool own;
    CuEvent meeting; // of this stream and one of the caller's; made when they first meet
};

typedef struct GemmFound GemmFound; // cuda_search.h

typedef struct CudaGemm { // a ProgGemm prepared (cuda_gemm.c); "a" and "b" are cuBLASLt's, our B
                          // and A
    LtDesc desc;
    LtLayout a, b, c;
    LtAlgo algo;
    size_t workspace;  // that the algorithm needs
    int bias, aux, ws; // which slots, -1: none
    bool generated;    // the program's own kernel runs instead
    char *key, *value; // the line of the choice table, malloc; value NULL: not measured
    bool wanted;       // nobody knows what computes it
    GemmFound *found;  // of the library's algorithms, malloc; NULL: they were not searched
} CudaGemm;

struct RtModule {
    CudaDevice *d;
    const Program *p;
    CuModule *module; // one an image used
    int nmodules;
    CuFunction *function;   // by kernel
    const char **loc;       // by kernel: the line of the first step that calls it, or ""
    bool *follows;          // by kernel: its launch may begin before the one before it ends
    CudaGemm *gemm;         // by gemm
    const char *defect;     // a kernel that computes something else than the library, or NULL
    double tuned, searched; // seconds spent measuring their algorithms, and variants of these
    CuPtr bench;            // memory in which products are timed, kept from one to the next
    size_t bench_bytes;
    pthread_mutex_t gemm_lock; // a matmul descriptor holds the pointers of its epilogue
};

static inline CudaDevice *cuda_of(RtDevice *d)
{
    return (CudaDevice *)d;
}

// What a failed call was about. kernel and loc may be NULL.
RtCode cuda_failed(const CudaDevice *d, CuResult r, const char *call, const char *file, int line,
                   const char *kernel, const char *loc, RtError *e);
RtCode lt_failed(const CudaDevice *d, LtStatus r, const char *call, const char *file, int line,
                 const char *name, const char *loc, RtError *e);
// CU(d, e, stream_sync(s)) calls the driver and returns from the function when that fails. The _AT
// form names the kernel and its .net line.
#define CU_AT(d, e, kernel, loc, call)                                                             \
    do {                                                                                           \
        CuResult r_ = (d)->cu.call;                                                                \
        if (r_ != CU_OK)                                                                           \
            return cuda_failed((d), r_, #call, __FILE__, __LINE__, (kernel), (loc), (e));          \
    } while (0)
#define CU(d, e, call) CU_AT(d, e, NULL, NULL, call)
#define LT_AT(d, e, name, loc, call)                                                               \
    do {                                                                                           \
        LtStatus r_ = (d)->lt.call;                                                                \
        if (r_ != LT_OK) return lt_failed((d), r_, #call, __FILE__, __LINE__, (name), (loc), (e)); \
    } while (0)

// cuda_copy.c
RtCode cuda_copy(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                 const void *gate, RtError *e);
RtCode cuda_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e);
RtCode cuda_spoil(RtStream *s, void *to, size_t bytes, RtError *e);

// cuda_graph.c
RtCode cuda_capture_begin(RtStream *s, RtError *e);
RtCode cuda_capture_end(RtStream *s, RtGraph **out, int *kernel_nodes, RtError *e);
RtCode cuda_graph_launch(RtStream *s, RtGraph *g, RtError *e);
void cuda_graph_free(RtGraph *g);
bool cuda_captured(RtStream *s);
int cuda_capture_allow(RtDevice *d, int mode);

// cuda_measure.c
RtCode cuda_copy_kernel(RtStream *s, void *to, const void *from, size_t bytes, RtError *e);
RtCode cuda_wait(RtStream *s, double seconds, RtError *e);
RtCode cuda_kernel_info(RtModule *m, int kernel, RtKernelInfo *out, RtError *e);

// cuda_module.c
RtCode cuda_module_new(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                       const RtCompileOptions *o, RtModule **out, RtError *e);
void cuda_module_free(RtModule *m);
RtCode cuda_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e);

// By kernel: whether no step needs it, so that the program runs without it: kernels that products
// may be computed by. Written to out[nkernels].
void cuda_spare_kernels(const Program *p, bool *out);
// cuda_compile.c: the key an image of this kernel carries; text, prelude and target, not the
// compiler.
uint64_t cuda_image_key(const Program *p, int kernel, const char *target);
// cuda_prelude.c: what of a prelude a kernel needs, in the order it stands there. The text belongs
// to the caller of new.
typedef struct CudaPrelude CudaPrelude;
CudaPrelude *cuda_prelude_new(Arena *a, const char *text);
// That and the kernel's text, whose lines count from 1 in NAME.cu; malloc'ed, NULL: no memory.
char *cuda_prelude_with(const CudaPrelude *c, const char *name, const char *text);

// rt_compile_cuda for the kernels with wanted[i] (NULL: all).
RtCode cuda_compile(Arena *a, const Program *p, const char *target, const bool *wanted,
                    const RtCompileOptions *o, RtImage **images, int *n, RtError *e);

// cuda_gemm.c: m->gemm from p->gemms, nothing chosen yet.
RtCode cuda_gemms_new(RtModule *m, const RtCompileOptions *o, RtError *e);
void cuda_gemms_free(RtModule *m);
RtCode cuda_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
int cuda_gemm_takes(const RtModule *m, int gemm, bool behind); // RtDeviceOps.gemm_kernel
size_t cuda_gemm_scratch(const RtModule *m, int gemm);
const char *cuda_choices(RtModule *m, Arena *a);
const char *cuda_defect(const RtModule *m);

// cuda_tune.c: what computes each product, by the choice table, the cache, else timed. Wanted says
// whether algorithms of the library must be timed (and of which products); search does that and
// calls no kernel of the program, so that these may be compiled meanwhile; choose, when its kernel
// and its follower are loaded, or are known to be none, times what search found beside them.
bool cuda_gemms_wanted(RtModule *m, const RtCompileOptions *o, Arena *scratch);
void cuda_gemms_search(RtModule *m);
RtCode cuda_gemm_choose(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch,
                        RtError *e);
RtCode cuda_gemms_choose(RtModule *m, const RtCompileOptions *o, Arena *scratch, RtError *e);
// Enqueues the library's call alone. The caller holds gemm_lock where there is an epilogue with
// pointers.
LtStatus cuda_gemm_call(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const RtSlot *slots,
                        CuStream s);
// Enqueue the kernel that computes the same, and what follows the library's call; slots: all of the
// step's.
RtCode cuda_gemm_kernel(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
RtCode cuda_gemm_follower(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
// Whether there is such a kernel, and it could be compiled and loaded here.
bool cuda_gemm_has_kernel(const RtModule *m, int gemm);

#endif
