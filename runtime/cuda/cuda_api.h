// netc's own declarations of the CUDA driver, NVRTC and cuBLASLt: opaque handles, the published
// numeric values and function types. The libraries are opened at run time (cuda_api.c).
#ifndef RUNTIME_CUDA_API_H
#define RUNTIME_CUDA_API_H

#include "runtime/runtime.h"

// -- the driver -----------------------------------------------------------------------------------
typedef int CuResult;
typedef int CuDeviceId;
typedef unsigned long long CuPtr;
typedef struct CUctx_st *CuContext;
typedef struct CUmod_st *CuModule;
typedef struct CUfunc_st *CuFunction;
typedef struct CUstream_st *CuStream;
typedef struct CUevent_st *CuEvent;
typedef struct CUgraph_st *CuGraph;
typedef struct CUgraphExec_st *CuGraphExec;
typedef struct CUgraphNode_st *CuGraphNode;

enum { // CuResult
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_STUB_LIBRARY = 34,
    CU_NO_DEVICE = 100,
    CU_INVALID_IMAGE = 200,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_UNSUPPORTED_PTX_VERSION = 222,
    CU_PEER_ACCESS_UNSUPPORTED = 217,
    CU_NOT_READY = 600,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_TIMEOUT = 702,
    CU_INVALID_HANDLE = 400,
    CU_PEER_ACCESS_ALREADY = 704,
    CU_FAULT_FIRST = 714,
    CU_FAULT_LAST = 719,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_DRIVER_MISMATCH = 803,
    CU_COMPAT_NOT_SUPPORTED = 804,
};
enum { // device attributes
    CU_ATTR_UNITS = 16,
    CU_ATTR_THREADS_PER_UNIT = 39,
    CU_ATTR_CC_MAJOR = 75,
    CU_ATTR_CC_MINOR = 76,
    CU_ATTR_SHARED_OPTIN = 97,
};
enum { CU_PAIR_ATOMIC = 3 }; // of two devices: atomic operations on each other's memory
enum { // function attributes
    CU_FUNC_STATIC_SHARED = 1,
    CU_FUNC_LOCAL = 3,
    CU_FUNC_REGISTERS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED = 8,
    CU_FUNC_NON_PORTABLE_CLUSTER = 14,
};
enum { CU_STREAM_NO_LEGACY_SYNC = 1, CU_EVENT_NO_TIMING = 2 };
enum { CU_CAPTURE_GLOBAL = 0, CU_CAPTURE_THREAD_LOCAL = 1, CU_CAPTURE_RELAXED = 2 };
enum { CU_NODE_KERNEL = 0, CU_NODE_GRAPH = 4 };
enum { CU_JIT_ERROR_LOG = 5, CU_JIT_ERROR_LOG_BYTES = 6 };
enum { CU_LAUNCH_CLUSTER = 4, CU_LAUNCH_EARLY = 6 };
enum { CU_MAP_U16 = 1, CU_MAP_SWIZZLE_128 = 3, CU_MAP_L2_256 = 3 };

typedef struct CuTensorMap { // opaque
    _Alignas(64) char bytes[128];
} CuTensorMap;

typedef struct CuLaunchAttr {
    int id;
    char pad[4];
    union {
        char pad[64];
        int early; // the kernel waits for the previous one by itself
        struct {
            unsigned x, y, z;
        } cluster;
    } value;
} CuLaunchAttr;

typedef struct CuLaunch {
    unsigned grid[3], block[3], shared_bytes;
    CuStream stream;
    CuLaunchAttr *attrs;
    unsigned nattrs;
} CuLaunch;

enum { // of pointer_attribute
    CU_POINTER_ORDINAL = 9,
    CU_POINTER_RANGE_START = 11,
    CU_POINTER_RANGE_SIZE = 12,
};

// Name in the table, symbol in the library, parameters.
#define CU_FUNCTIONS(F)                                                                            \
    F(init, "cuInit", (unsigned flags))                                                            \
    F(driver_version, "cuDriverGetVersion", (int *version))                                        \
    F(error_name, "cuGetErrorName", (CuResult r, const char **name))                               \
    F(error_string, "cuGetErrorString", (CuResult r, const char **text))                           \
    F(device_count, "cuDeviceGetCount", (int *n))                                                  \
    F(device_get, "cuDeviceGet", (CuDeviceId * d, int ordinal))                                    \
    F(device_name, "cuDeviceGetName", (char *name, int n, CuDeviceId d))                           \
    F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CuDeviceId d))         \
    F(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, CuDeviceId d))                        \
    F(primary_retain, "cuDevicePrimaryCtxRetain", (CuContext * c, CuDeviceId d))                   \
    F(primary_release, "cuDevicePrimaryCtxRelease_v2", (CuDeviceId d))                             \
    F(ctx_push, "cuCtxPushCurrent_v2", (CuContext c))                                              \
    F(ctx_pop, "cuCtxPopCurrent_v2", (CuContext * c))                                              \
    F(pair_attribute, "cuDeviceGetP2PAttribute",                                                   \
      (int *value, int attribute, CuDeviceId d, CuDeviceId other))                                 \
    F(ctx_reach, "cuCtxEnablePeerAccess", (CuContext peer, unsigned flags))                        \
    F(ctx_synchronize, "cuCtxSynchronize", (void))                                                 \
    F(mem_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                \
    F(mem_alloc, "cuMemAlloc_v2", (CuPtr * p, size_t bytes))                                       \
    F(mem_free, "cuMemFree_v2", (CuPtr p))                                                         \
    F(pointer_attribute, "cuPointerGetAttribute", (void *value, int attribute, CuPtr p))           \
    F(host_alloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                      \
    F(host_free, "cuMemFreeHost", (void *p))                                                       \
    F(copy_h2d, "cuMemcpyHtoDAsync_v2", (CuPtr to, const void *from, size_t bytes, CuStream s))    \
    F(copy_d2h, "cuMemcpyDtoHAsync_v2", (void *to, CuPtr from, size_t bytes, CuStream s))          \
    F(copy_d2d, "cuMemcpyDtoDAsync_v2", (CuPtr to, CuPtr from, size_t bytes, CuStream s))          \
    F(memset_u8, "cuMemsetD8Async", (CuPtr to, unsigned char value, size_t n, CuStream s))         \
    F(stream_create, "cuStreamCreate", (CuStream * s, unsigned flags))                             \
    F(stream_first, "cuStreamCreateWithPriority", (CuStream * s, unsigned flags, int priority))    \
    F(stream_destroy, "cuStreamDestroy_v2", (CuStream s))                                          \
    F(stream_sync, "cuStreamSynchronize", (CuStream s))                                            \
    F(stream_wait, "cuStreamWaitEvent", (CuStream s, CuEvent e, unsigned flags))                   \
    F(stream_begin_capture, "cuStreamBeginCapture_v2", (CuStream s, int mode))                     \
    F(stream_end_capture, "cuStreamEndCapture", (CuStream s, CuGraph * g))                         \
    F(stream_captured, "cuStreamIsCapturing", (CuStream s, int *status))                           \
    F(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                              \
    F(event_create, "cuEventCreate", (CuEvent * e, unsigned flags))                                \
    F(event_destroy, "cuEventDestroy_v2", (CuEvent e))                                             \
    F(event_record, "cuEventRecord", (CuEvent e, CuStream s))                                      \
    F(event_sync, "cuEventSynchronize", (CuEvent e))                                               \
    F(event_elapsed, "cuEventElapsedTime", (float *ms, CuEvent begin, CuEvent end))                \
    F(module_load, "cuModuleLoadDataEx",                                                           \
      (CuModule * m, const void *image, unsigned n, int *options, void **values))                  \
    F(module_unload, "cuModuleUnload", (CuModule m))                                               \
    F(module_function, "cuModuleGetFunction", (CuFunction * f, CuModule m, const char *name))      \
    F(func_set, "cuFuncSetAttribute", (CuFunction f, int attribute, int value))                    \
    F(func_get, "cuFuncGetAttribute", (int *value, int attribute, CuFunction f))                   \
    F(map_tiled, "cuTensorMapEncodeTiled",                                                         \
      (CuTensorMap * map, int type, unsigned rank, CuPtr at, const uint64_t *dims,                 \
       const uint64_t *pitches, const unsigned *box, const unsigned *steps, int interleave,        \
       int swizzle, int l2, int fill))                                                             \
    F(map_windows, "cuTensorMapEncodeIm2col",                                                      \
      (CuTensorMap * map, int type, unsigned rank, CuPtr at, const uint64_t *dims,                 \
       const uint64_t *pitches, const int *lower, const int *upper, unsigned channels,             \
       unsigned pixels, const unsigned *steps, int interleave, int swizzle, int l2, int fill))     \
    F(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                    \
      (int *blocks, CuFunction f, int threads, size_t dynamic_shared))                             \
    F(launch, "cuLaunchKernelEx",                                                                  \
      (const CuLaunch *config, CuFunction f, void **params, void **extra))                         \
    F(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
      (CuGraphExec * exec, CuGraph g, unsigned long long flags))                                   \
    F(graph_launch, "cuGraphLaunch", (CuGraphExec exec, CuStream s))                               \
    F(graph_upload, "cuGraphUpload", (CuGraphExec exec, CuStream s))                               \
    F(graph_nodes, "cuGraphGetNodes", (CuGraph g, CuGraphNode * nodes, size_t * n))                \
    F(graph_node_type, "cuGraphNodeGetType", (CuGraphNode node, int *type))                        \
    F(graph_node_child, "cuGraphChildGraphNodeGetGraph", (CuGraphNode node, CuGraph * g))          \
    F(graph_destroy, "cuGraphDestroy", (CuGraph g))                                                \
    F(graph_exec_destroy, "cuGraphExecDestroy", (CuGraphExec exec))

typedef struct CuDriver {
    void *lib;
#define F(name, symbol, params) CuResult(*name) params;
    CU_FUNCTIONS(F)
#undef F
} CuDriver;

// -- NVRTC ----------------------------------------------------------------------------------------
typedef int NvrtcResult;
typedef struct _nvrtcProgram *NvrtcProgram;
enum { NVRTC_OK = 0, NVRTC_INVALID_OPTION = 5, NVRTC_COMPILATION = 6 };

#define NVRTC_FUNCTIONS(F)                                                                         \
    F(NvrtcResult, version, "nvrtcVersion", (int *major, int *minor))                              \
    F(const char *, error_string, "nvrtcGetErrorString", (NvrtcResult r))                          \
    F(NvrtcResult, archs, "nvrtcGetSupportedArchs", (int *archs))                                  \
    F(NvrtcResult, narchs, "nvrtcGetNumSupportedArchs", (int *n))                                  \
    F(NvrtcResult, create, "nvrtcCreateProgram",                                                   \
      (NvrtcProgram * p, const char *text, const char *name, int nheaders,                         \
       const char *const *headers, const char *const *names))                                      \
    F(NvrtcResult, destroy, "nvrtcDestroyProgram", (NvrtcProgram * p))                             \
    F(NvrtcResult, compile, "nvrtcCompileProgram",                                                 \
      (NvrtcProgram p, int n, const char *const *options))                                         \
    F(NvrtcResult, log_size, "nvrtcGetProgramLogSize", (NvrtcProgram p, size_t * n))               \
    F(NvrtcResult, log, "nvrtcGetProgramLog", (NvrtcProgram p, char *log))                         \
    F(NvrtcResult, cubin_size, "nvrtcGetCUBINSize", (NvrtcProgram p, size_t * n))                  \
    F(NvrtcResult, cubin, "nvrtcGetCUBIN", (NvrtcProgram p, char *bytes))                          \
    F(NvrtcResult, ptx_size, "nvrtcGetPTXSize", (NvrtcProgram p, size_t * n))                      \
    F(NvrtcResult, ptx, "nvrtcGetPTX", (NvrtcProgram p, char *bytes))

typedef struct Nvrtc {
    void *lib;
    char path[512];
    int major, minor;
#define F(type, name, symbol, params) type(*name) params;
    NVRTC_FUNCTIONS(F)
#undef F
} Nvrtc;

// -- cuBLASLt -------------------------------------------------------------------------------------
typedef int LtStatus;
typedef struct cublasLtContext *LtHandle;
typedef void *LtDesc, *LtLayout, *LtPreference;
enum { LT_OK = 0, LT_NOT_SUPPORTED = 15 };
enum { LT_F32 = 0, LT_F64 = 1, LT_F16 = 2, LT_BF16 = 14 }; // element types
enum { LT_COMPUTE_F32 = 68, LT_COMPUTE_F64 = 70, LT_COMPUTE_TF32 = 77 };
enum { LT_OP_N = 0, LT_OP_T = 1 };
enum { LT_LAYOUT_BATCH = 5, LT_LAYOUT_STRIDE = 6 };
enum { // matmul descriptor
    LT_DESC_TRANS_A = 3,
    LT_DESC_TRANS_B = 4,
    LT_DESC_EPILOGUE = 7,
    LT_DESC_BIAS = 8,
    LT_DESC_BIAS_STRIDE = 10,
    LT_DESC_AUX = 11,
    LT_DESC_AUX_LD = 12,
    LT_DESC_AUX_STRIDE = 13,
    LT_DESC_AUX_TYPE = 22,
    LT_DESC_BIAS_TYPE = 26,
};
enum { // preference
    LT_PREF_WORKSPACE = 1,
    LT_PREF_REDUCTION = 3,
    LT_PREF_ALIGN_A = 5,
    LT_PREF_ALIGN_B = 6,
    LT_PREF_ALIGN_C = 7,
    LT_PREF_ALIGN_D = 8,
};
// Split-K sums: none; in place, in varying order; in the workspace (in compute or output type).
enum { LT_REDUCE_NONE = 0, LT_REDUCE_INPLACE = 1, LT_REDUCE_COMPUTE = 2, LT_REDUCE_OUTPUT = 4 };
enum { // attributes of an algorithm
    LT_ALGO_REDUCTION = 3,
    LT_ALGO_CUSTOM = 5,
    LT_ALGO_CLUSTER = 8,
};
enum { // epilogues
    LT_EPI_DEFAULT = 1,
    LT_EPI_RELU = 2,
    LT_EPI_BIAS = 4,
    LT_EPI_GELU = 32,
    LT_EPI_DGELU = 64 | 128,
    LT_EPI_AUX = 128,
};

typedef struct LtAlgo {
    uint64_t data[8];
} LtAlgo;

typedef struct LtResult { // of a heuristic search
    LtAlgo algo;
    size_t workspace;
    LtStatus state;
    float waves;
    int reserved[4];
} LtResult;

#define LT_FUNCTIONS(F)                                                                            \
    F(size_t, version, "cublasLtGetVersion", (void))                                               \
    F(const char *, status_name, "cublasLtGetStatusName", (LtStatus s))                            \
    F(LtStatus, create, "cublasLtCreate", (LtHandle * h))                                          \
    F(LtStatus, destroy, "cublasLtDestroy", (LtHandle h))                                          \
    F(LtStatus, desc_create, "cublasLtMatmulDescCreate", (LtDesc * d, int compute, int scale))     \
    F(LtStatus, desc_destroy, "cublasLtMatmulDescDestroy", (LtDesc d))                             \
    F(LtStatus, desc_set, "cublasLtMatmulDescSetAttribute",                                        \
      (LtDesc d, int attribute, const void *value, size_t n))                                      \
    F(LtStatus, layout_create, "cublasLtMatrixLayoutCreate",                                       \
      (LtLayout * l, int type, uint64_t rows, uint64_t cols, int64_t ld))                          \
    F(LtStatus, layout_destroy, "cublasLtMatrixLayoutDestroy", (LtLayout l))                       \
    F(LtStatus, layout_set, "cublasLtMatrixLayoutSetAttribute",                                    \
      (LtLayout l, int attribute, const void *value, size_t n))                                    \
    F(LtStatus, pref_create, "cublasLtMatmulPreferenceCreate", (LtPreference * p))                 \
    F(LtStatus, pref_destroy, "cublasLtMatmulPreferenceDestroy", (LtPreference p))                 \
    F(LtStatus, pref_set, "cublasLtMatmulPreferenceSetAttribute",                                  \
      (LtPreference p, int attribute, const void *value, size_t n))                                \
    F(LtStatus, heuristic, "cublasLtMatmulAlgoGetHeuristic",                                       \
      (LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c, LtLayout out, LtPreference p,     \
       int wanted, LtResult *results, int *found))                                                 \
    F(LtStatus, algo_check, "cublasLtMatmulAlgoCheck",                                             \
      (LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c, LtLayout out, const LtAlgo *algo, \
       LtResult *result))                                                                          \
    F(LtStatus, algo_get, "cublasLtMatmulAlgoConfigGetAttribute",                                  \
      (const LtAlgo *algo, int attribute, void *value, size_t n, size_t *written))                 \
    F(LtStatus, algo_set, "cublasLtMatmulAlgoConfigSetAttribute",                                  \
      (LtAlgo * algo, int attribute, const void *value, size_t n))                                 \
    F(LtStatus, matmul, "cublasLtMatmul",                                                          \
      (LtHandle h, LtDesc d, const void *alpha, const void *a, LtLayout la, const void *b,         \
       LtLayout lb, const void *beta, const void *c, LtLayout lc, void *out, LtLayout lout,        \
       const LtAlgo *algo, void *workspace, size_t workspace_bytes, CuStream s))

typedef struct CublasLt {
    void *lib;
    char path[512];
    size_t number; // version, 130100
#define F(type, name, symbol, params) type(*name) params;
    LT_FUNCTIONS(F)
#undef F
} CublasLt;

// -- cuDNN (its backend API) ----------------------------------------------------------------------

typedef int DnnStatus; // 0: success
typedef void *DnnHandle, *DnnDesc;
enum { DNN_OK = 0 };
enum { // types of values
    DNN_TYPE_HANDLE = 0,
    DNN_TYPE_DATA = 1,
    DNN_TYPE_I64 = 3,
    DNN_TYPE_F32 = 4,
    DNN_TYPE_POINTER = 6,
    DNN_TYPE_CONV_MODE = 7,
    DNN_TYPE_HEURISTIC = 8,
    DNN_TYPE_NUMERICS = 11,
    DNN_TYPE_DESC = 15,
    DNN_TYPE_BEHAVIOUR = 19,
};
enum { DNN_F32 = 0, DNN_F16 = 2, DNN_BF16 = 9 }; // element types
enum {                                           // descriptors
    DNN_CONV = 1,
    DNN_ENGINE = 2,
    DNN_CONFIG = 3,
    DNN_HEURISTIC = 4,
    DNN_PLAN = 5,
    DNN_FORWARD = 10,
    DNN_BACKWARD_WEIGHT = 11,
    DNN_BACKWARD_INPUT = 12,
    DNN_GRAPH = 15,
    DNN_POINTERS = 16,
    DNN_TENSOR = 17,
};
enum { // their attributes
    DNN_CONV_TYPE = 100,
    DNN_CONV_MODE = 101,
    DNN_CONV_DILATIONS = 102,
    DNN_CONV_STEPS = 103,
    DNN_CONV_AFTER = 104,
    DNN_CONV_BEFORE = 105,
    DNN_CONV_AXES = 106,
    DNN_HEURISTIC_MODE = 200,
    DNN_HEURISTIC_GRAPH = 201,
    DNN_HEURISTIC_RESULTS = 202,
    DNN_CONFIG_ENGINE = 300,
    DNN_PLAN_HANDLE = 400,
    DNN_PLAN_CONFIG = 401,
    DNN_PLAN_WORKSPACE = 402,
    // Of a convolution: alpha, then in this order beta, the convolution, w, x, y.
    DNN_FORWARD_ALPHA = 700,
    DNN_BACKWARD_INPUT_ALPHA = 706,
    DNN_BACKWARD_WEIGHT_ALPHA = 712,
    DNN_GRAPH_HANDLE = 800,
    DNN_GRAPH_OPERATIONS = 801,
    DNN_TENSOR_ALIGNMENT = 900,
    DNN_TENSOR_TYPE = 901,
    DNN_TENSOR_SIZES = 902,
    DNN_TENSOR_STEPS = 903,
    DNN_TENSOR_ID = 906,
    DNN_POINTERS_IDS = 1000,
    DNN_POINTERS_DATA = 1001,
    DNN_POINTERS_WORKSPACE = 1003,
    DNN_ENGINE_NUMBER = 1301,
    DNN_ENGINE_NUMERICS = 1303,
    DNN_ENGINE_BEHAVIOUR = 1305,
};
enum { DNN_CORRELATION = 1, DNN_BEST = 3 }; // a mode of convolutions; of the heuristic
enum {                                      // what an engine's numbers depend on
    DNN_TENSOR_CORES = 0,
    DNN_LESS_INPUT = 1,
    DNN_LESS_SUMS = 2,
    DNN_FFT = 3,
    DNN_ANY_ORDER = 4,
    DNN_WINOGRAD = 5,
    DNN_LAST_WINOGRAD = 8,
};
enum { DNN_COMPILES = 0 }; // an engine's behaviour

#define DNN_FUNCTIONS(F)                                                                           \
    F(size_t, version, "cudnnGetVersion", (void))                                                  \
    F(const char *, status_name, "cudnnGetErrorString", (DnnStatus s))                             \
    F(DnnStatus, create, "cudnnCreate", (DnnHandle * h))                                           \
    F(DnnStatus, destroy, "cudnnDestroy", (DnnHandle h))                                           \
    F(DnnStatus, set_stream, "cudnnSetStream", (DnnHandle h, CuStream s))                          \
    F(DnnStatus, desc_create, "cudnnBackendCreateDescriptor", (int kind, DnnDesc *d))              \
    F(DnnStatus, desc_destroy, "cudnnBackendDestroyDescriptor", (DnnDesc d))                       \
    F(DnnStatus, desc_set, "cudnnBackendSetAttribute",                                             \
      (DnnDesc d, int attribute, int type, int64_t n, const void *values))                         \
    F(DnnStatus, desc_get, "cudnnBackendGetAttribute",                                             \
      (DnnDesc d, int attribute, int type, int64_t room, int64_t *n, void *values))                \
    F(DnnStatus, finalize, "cudnnBackendFinalize", (DnnDesc d))                                    \
    F(DnnStatus, execute, "cudnnBackendExecute", (DnnHandle h, DnnDesc plan, DnnDesc pointers))

typedef struct Cudnn {
    void *lib;
    size_t number; // version, 91400
#define F(type, name, symbol, params) type(*name) params;
    DNN_FUNCTIONS(F)
#undef F
} Cudnn;

// -- opening (cuda_api.c) -------------------------------------------------------------------------

// Each fills its table, or returns RT_ENV with what was searched and what to install. Open
// libraries are never unloaded; opening one again is cheap.
RtCode cu_driver_open(CuDriver *d, RtError *e); // includes cuInit
RtCode nvrtc_open(Nvrtc *n, RtError *e);
RtCode lt_open(CublasLt *l, RtError *e);
bool dnn_open(Cudnn *d); // false: there is none that netc can use
// Opens the first library of [names] (ended by NULL) that can be opened: by the loader's search
// path, then in the folders where CUDA is usually installed. NULL: none; why: the last error. path:
// where it was found.
void *cu_library_open(const char *const *names, char *path, size_t npath, char *why, size_t nwhy);
// Whether a file with one of these names is in a folder where CUDA is usually installed. Opens
// nothing, since mapping cuBLASLt takes longer than a whole compilation from the cache.
bool cu_library_present(const char *const *names, char *path, size_t npath);
extern const char *const cu_lt_names[];  // of cuBLASLt
extern const char *const cu_dnn_names[]; // of cuDNN

#endif
