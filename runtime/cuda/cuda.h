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
    pthread_mutex_t lock; // guards the following, which are created on first use
    CublasLt lt;
    LtHandle lt_handle;
    Cudnn dnn;
    DnnHandle dnn_handle;
    bool dnn_opened, dnn_found; // it was looked for; it is there
    CuModule builtin;
    CuFunction take_error, trade; // cuda_group.c
    CuFunction fill[2]; // gated copy or fill with zeros: by bytes, by 16 bytes
    CuModule measure;
    CuFunction copy_wide, wait; // cuda_measure.c
} CudaDevice;

struct RtStream {
    CudaDevice *d;
    CuStream s;
    bool own;
    CuEvent meeting; // orders this stream and the caller's; created on first use
};

typedef struct GemmFound GemmFound; // cuda_search.h

typedef struct CudaConv CudaConv; // cuda_conv.c

typedef struct CudaGemm { // a ProgGemm with its descriptors (cuda_gemm.c); "a" and "b" are
                          // cuBLASLt's names, our B and A
    LtDesc desc;
    LtLayout a, b, c;
    CudaConv *conv;              // plans of a convolution; NULL: none yet
    LtAlgo algo;                 // of a convolution: the number of a plan, and of its engine
    size_t workspace;            // that the algorithm needs
    int residual, bias, aux, ws; // slot numbers; -1: none
    bool generated;              // the program's own kernel is used instead
    char *key, *value; // the line of the choice table, malloc'ed; value NULL: not measured
    bool wanted;       // not known yet which candidate computes it
    GemmFound *found;  // measured algorithms of the library, malloc'ed; NULL: not searched
} CudaGemm;

struct RtModule {
    CudaDevice *d;
    const Program *p;
    CuModule *module; // one per image that is used
    int nmodules;
    CuFunction *function;   // by kernel
    const char **loc;       // by kernel: the line of the first step that calls it, or ""
    bool *follows;          // by kernel: its launch may begin before the previous one ends
    CudaGemm *gemm;         // by gemm
    const char *defect;     // a kernel whose results differ from the library's, or NULL
    double tuned, searched; // seconds spent measuring algorithms; searching variants of these
    CuPtr bench;            // memory in which products are timed, reused for all
    size_t bench_bytes;
    pthread_mutex_t gemm_lock; // needed since a matmul descriptor contains the pointers of its
                               // epilogue
};

static inline CudaDevice *cuda_of(RtDevice *d)
{
    return (CudaDevice *)d;
}

// The error of a failed call. kernel and loc may be NULL.
RtCode cuda_failed(const CudaDevice *d, CuResult r, const char *call, const char *file, int line,
                   const char *kernel, const char *loc, RtError *e);
RtCode lt_failed(const CudaDevice *d, LtStatus r, const char *call, const char *file, int line,
                 const char *name, const char *loc, RtError *e);
// CU(d, e, stream_sync(s)) calls the driver and returns from the function if that fails. The _AT
// form adds the kernel and its .net line to the error.
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
extern const char cuda_group_ptx[]; // functions that cuda_need_builtin loads, too (cuda_group.c)
RtCode cuda_need_builtin(CudaDevice *d, RtError *e);
RtCode cuda_take_error(RtStream *s, void *record, const void *from, int n, RtError *e);
RtCode cuda_trade(RtStream *s, void *room, void *to, const void *from, unsigned words, bool each,
                  int n, int self, RtError *e);
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

// Sets out[nkernels], by kernel: whether the program can run without it. These are kernels that may
// be used for products instead of the library.
void cuda_spare_kernels(const Program *p, bool *out);
// cuda_compile.c: the key of a kernel's image: a hash of its text, the prelude and the target, but
// not of the compiler.
uint64_t cuda_image_key(const Program *p, int kernel, const char *target);
// cuda_prelude.c: finds the parts of a prelude that a kernel needs, in their order. The text
// belongs to the caller of cuda_prelude_new.
typedef struct CudaPrelude CudaPrelude;
CudaPrelude *cuda_prelude_new(Arena *a, const char *text);
// Those parts followed by the kernel's text, the lines of which count from 1 in NAME.cu. malloc'ed;
// NULL: no memory.
char *cuda_prelude_with(const CudaPrelude *c, const char *name, const char *text);

// rt_compile_cuda for the kernels with wanted[i] (NULL: all).
RtCode cuda_compile(Arena *a, const Program *p, const char *target, const bool *wanted,
                    const RtCompileOptions *o, RtImage **images, int *n, RtError *e);

// cuda_gemm.c: creates m->gemm from p->gemms, without choices.
RtCode cuda_gemms_new(RtModule *m, const RtCompileOptions *o, RtError *e);
void cuda_gemms_free(RtModule *m);
RtCode cuda_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
int cuda_gemm_takes(const RtModule *m, int gemm, bool behind); // RtDeviceOps.gemm_kernel
size_t cuda_gemm_scratch(const RtModule *m, int gemm);
const char *cuda_choices(RtModule *m, Arena *a);
const char *cuda_defect(const RtModule *m);

// cuda_conv.c: whether there is a library for convolutions (opened on first use); its plans for a
// convolution as algorithms, best first (align: bytes, of the step's first three arguments);
// enqueues the call of the plan g->algo.
bool cuda_conv_open(CudaDevice *d);
int cuda_conv_propose(RtModule *m, int gemm, const uint32_t *align, LtResult *out, int most);
RtCode cuda_conv_call(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const RtSlot *slots,
                      CuStream s, RtError *e);
void cuda_conv_free(CudaDevice *d, CudaConv *v);

// cuda_tune.c: chooses what computes each product: from the choice table, from the cache, or by
// timing. wanted: finds the products whose algorithms must be timed, and returns whether there are
// any. search: times these, without calling kernels of the program, which may be compiled
// meanwhile. choose: to be called when the product's kernel and follower have been loaded or failed
// to; times them against what search found.
bool cuda_gemms_wanted(RtModule *m, const RtCompileOptions *o, Arena *scratch);
void cuda_gemms_search(RtModule *m);
RtCode cuda_gemm_choose(RtModule *m, int gemm, const RtCompileOptions *o, Arena *scratch,
                        RtError *e);
RtCode cuda_gemms_choose(RtModule *m, const RtCompileOptions *o, Arena *scratch, RtError *e);
// Enqueues only the library's call. If the epilogue has pointers, the caller holds gemm_lock.
RtCode cuda_gemm_call(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const RtSlot *slots,
                      CuStream s, RtError *e);
// Enqueue the kernel that replaces the library's call, and the kernel that follows the call. slots:
// all of the step.
RtCode cuda_gemm_kernel(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
RtCode cuda_gemm_follower(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
// Whether there is such a kernel and it was compiled and loaded.
bool cuda_gemm_has_kernel(const RtModule *m, int gemm);

#endif
