// libcuda of the shim: one device whose memory is the host's. What is enqueued runs at once, except
// into a stream that records: a graph's nodes run in a random order that its edges allow.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/shim.h"

enum { INVALID_VALUE = 1, NOT_FOUND = 500 };

typedef struct Nodes { // a set of nodes of the graph being recorded
    int *at, n;
} Nodes;

struct CUevent_st {
    double seconds;
    Nodes after;
    CuGraph graph; // that it was recorded into, or NULL
};

struct CUstream_st {
    CuGraph graph; // being recorded
    bool origin;
    Nodes tail;
    bool moved; // what came last is a copy or a fill
};

typedef enum Kind { KERNEL, COPY, FILL, CALL } Kind;

struct CUgraphNode_st {
    Kind kind;
    Nodes deps;
    Launch launch;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    bool to_device, from_device; // of a copy
    CuResult (*call)(void *);    // a library's work
    void *arg;
};

struct CUgraph_st {
    struct CUgraphNode_st *node;
    int n, cap, users;
};

struct CUgraphExec_st {
    CuGraph graph;
};

typedef struct Driver {
    pthread_mutex_t lock; // of everything: kernels run one at a time
    CuModule modules;
    char problem[4600]; // what a CU_INVALID_IMAGE was about
    unsigned long long launches;
} Driver;

static Driver driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

int shim_option(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

CuModule shim_modules(void)
{
    return driver.modules;
}

__attribute__((destructor)) static void stats(void)
{
    const char *path = getenv("SHIM_STATS");
    FILE *f = path && driver.launches ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%llu launches, %llu accesses\n", driver.launches, shim_accesses);
    fclose(f);
}

// -- the device -----------------------------------------------------------------------------------
CuResult cuInit(unsigned flags)
{
    (void)flags;
    return shim_option("SHIM_DEVICES", 1) > 0 ? CU_OK : CU_NO_DEVICE;
}

CuResult cuDriverGetVersion(int *version)
{
    *version = shim_option("SHIM_DRIVER", 13000);
    return CU_OK;
}

CuResult cuGetErrorName(CuResult r, const char **name)
{
    *name = r == CU_OK                  ? "CUDA_SUCCESS"
            : r == CU_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : r == CU_NO_DEVICE         ? "CUDA_ERROR_NO_DEVICE"
            : r == CU_INVALID_IMAGE     ? "CUDA_ERROR_INVALID_IMAGE"
            : r == CU_FAULT_LAST        ? "CUDA_ERROR_LAUNCH_FAILED"
            : r == CU_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                        : "CUDA_ERROR";
    return CU_OK;
}

CuResult cuGetErrorString(CuResult r, const char **text)
{
    *text = r == CU_FAULT_LAST      ? shim_report()
            : r == CU_INVALID_IMAGE ? driver.problem
            : r == CU_OUT_OF_MEMORY ? "out of memory"
                                    : "";
    return CU_OK;
}

CuResult cuDeviceGetCount(int *n)
{
    *n = shim_option("SHIM_DEVICES", 1);
    return CU_OK;
}

CuResult cuDeviceGet(CuDeviceId *d, int ordinal)
{
    *d = ordinal;
    return CU_OK;
}

CuResult cuDeviceGetName(char *name, int n, CuDeviceId d)
{
    (void)d;
    snprintf(name, (size_t)n, "host shim");
    return CU_OK;
}

CuResult cuDeviceGetAttribute(int *value, int attribute, CuDeviceId d)
{
    (void)d;
    int arch = shim_option("SHIM_ARCH", 90);
    switch (attribute) {
    case CU_ATTR_CC_MAJOR: *value = arch / 10; return CU_OK;
    case CU_ATTR_CC_MINOR: *value = arch % 10; return CU_OK;
    case CU_ATTR_UNITS: *value = shim_option("SHIM_UNITS", 132); return CU_OK;
    case CU_ATTR_THREADS_PER_UNIT: *value = 2048; return CU_OK;
    case CU_ATTR_SHARED_OPTIN: *value = SHIM_DYNAMIC; return CU_OK;
    default: *value = 0; return CU_OK;
    }
}

CuResult cuDeviceTotalMem_v2(size_t *bytes, CuDeviceId d)
{
    (void)d;
    *bytes = shim_memory_total();
    return CU_OK;
}

CuResult cuDevicePrimaryCtxRetain(CuContext *c, CuDeviceId d)
{
    (void)d;
    *c = (CuContext)&driver;
    return CU_OK;
}

CuResult cuDevicePrimaryCtxRelease_v2(CuDeviceId d)
{
    (void)d;
    return CU_OK;
}

enum { MOST_CONTEXTS = 64 };
static _Thread_local CuContext contexts[MOST_CONTEXTS]; // a thread's stack of current ones
static _Thread_local int ncontexts;

CuResult cuCtxPushCurrent_v2(CuContext c)
{
    if (ncontexts == MOST_CONTEXTS) return INVALID_VALUE;
    contexts[ncontexts++] = c;
    return CU_OK;
}

CuResult cuCtxPopCurrent_v2(CuContext *c)
{
    if (!ncontexts) return 201; // no context
    *c = contexts[--ncontexts];
    return CU_OK;
}

CuResult cuCtxGetCurrent(CuContext *c)
{
    *c = ncontexts ? contexts[ncontexts - 1] : NULL;
    return CU_OK;
}

CuResult cuCtxSetCurrent(CuContext c)
{
    if (!ncontexts) return cuCtxPushCurrent_v2(c);
    contexts[ncontexts - 1] = c;
    return CU_OK;
}

CuResult cuCtxSynchronize(void)
{
    return CU_OK;
}

// -- memory ---------------------------------------------------------------------------------------
CuResult cuMemGetInfo_v2(size_t *avail, size_t *total)
{
    pthread_mutex_lock(&driver.lock);
    *total = shim_memory_total();
    *avail = *total - shim_memory_used();
    pthread_mutex_unlock(&driver.lock);
    return CU_OK;
}

CuResult cuMemAlloc_v2(CuPtr *p, size_t bytes)
{
    if (!bytes) return INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    CuResult r = shim_alloc(p, bytes);
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuMemFree_v2(CuPtr p)
{
    pthread_mutex_lock(&driver.lock);
    CuResult r = shim_release(p);
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuPointerGetAttribute(void *value, int attribute, CuPtr p)
{
    CuPtr start = 0;
    size_t bytes = 0;
    pthread_mutex_lock(&driver.lock);
    bool known = shim_allocation((void *)(uintptr_t)p, &start, &bytes);
    pthread_mutex_unlock(&driver.lock);
    if (!known) return INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ORDINAL: *(int *)value = 0; return CU_OK;
    case CU_POINTER_RANGE_START: *(CuPtr *)value = start; return CU_OK;
    case CU_POINTER_RANGE_SIZE: *(size_t *)value = bytes; return CU_OK;
    default: return INVALID_VALUE;
    }
}

CuResult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    *p = malloc(bytes);
    return *p ? CU_OK : CU_OUT_OF_MEMORY;
}

CuResult cuMemFreeHost(void *p)
{
    free(p);
    return CU_OK;
}

// -- what is enqueued -----------------------------------------------------------------------------
static void nodes_add(Nodes *s, int node)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == node) return;
    s->at = realloc(s->at, (size_t)(s->n + 1) * sizeof *s->at);
    if (!s->at) abort();
    s->at[s->n++] = node;
}

static Nodes nodes_copy(const Nodes *s)
{
    Nodes c = {.n = 0};
    for (int i = 0; i < s->n; i++) nodes_add(&c, s->at[i]);
    return c;
}

static CuResult bad_memory(const char *what)
{
    // As a kernel's fault: found by whoever waits for the stream.
    shim_fault("%s touches memory that is not the device's", what);
    return CU_FAULT_LAST;
}

static CuResult perform_now(const struct CUgraphNode_st *n)
{
    switch (n->kind) {
    case KERNEL:
        driver.launches++;
        if (!n->launch.f->builtin) return shim_run(&n->launch);
        return n->launch.f->builtin(&n->launch) ? CU_OK : bad_memory("a copy");
    case CALL: shim_actor.last = shim_actor.now++; return n->call(n->arg);
    case FILL:
        if (!shim_touch(n->to, n->bytes, true)) return bad_memory("a fill");
        shim_overwritten(n->to, n->bytes);
        memset(n->to, n->value, n->bytes);
        if (n->value == 0xff) shim_unwritten(n->to, n->bytes);
        return CU_OK;
    case COPY: break;
    }
    // Reading what was never written is no fault of a copy: padding goes along.
    if (n->to_device && !shim_touch(n->to, n->bytes, true)) return bad_memory("a copy");
    if (n->to_device) shim_overwritten(n->to, n->bytes);
    if (n->to_device && n->from_device) shim_filled(n->to, n->bytes, n->from);
    memmove(n->to, n->from, n->bytes);
    return CU_OK;
}

double shim_clock;

// What a GPU could take for a launch; about what the host takes for an access, so that little is
// repeated that takes the host long.
static const double launch_seconds = 2e-6, access_seconds = 2e-8;

static CuResult perform(const struct CUgraphNode_st *n)
{
    unsigned long long before = shim_accesses;
    CuResult r = perform_now(n);
    shim_clock += launch_seconds + access_seconds * (double)(shim_accesses - before);
    return r;
}

static CuResult enqueue(CuStream s, struct CUgraphNode_st n)
{
    // Only a kernel lets another begin before it has ended: a copy or a fill does not.
    n.launch.early = n.launch.early && !(s && s->moved);
    if (s) s->moved = n.kind == COPY || n.kind == FILL;
    if (!s || !s->graph) {
        CuResult r = perform(&n);
        for (void **p = n.launch.params; p && *p; p++) free(*p);
        free(n.launch.params);
        if (n.kind == CALL) free(n.arg);
        return r;
    }
    CuGraph g = s->graph;
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 16;
        g->node = realloc(g->node, (size_t)g->cap * sizeof *g->node);
        if (!g->node) abort();
    }
    n.deps = s->tail;
    s->tail = (Nodes){.n = 0};
    nodes_add(&s->tail, g->n);
    g->node[g->n++] = n;
    return CU_OK;
}

static CuResult copy(CuStream s, void *to, const void *from, size_t bytes, bool to_device,
                     bool from_device)
{
    pthread_mutex_lock(&driver.lock);
    CuResult r = enqueue(s, (struct CUgraphNode_st){.kind = COPY,
                                                    .to = to,
                                                    .from = from,
                                                    .bytes = bytes,
                                                    .to_device = to_device,
                                                    .from_device = from_device});
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuMemcpyHtoDAsync_v2(CuPtr to, const void *from, size_t bytes, CuStream s)
{
    return copy(s, (void *)(uintptr_t)to, from, bytes, true, false);
}

CuResult cuMemcpyDtoHAsync_v2(void *to, CuPtr from, size_t bytes, CuStream s)
{
    return copy(s, to, (const void *)(uintptr_t)from, bytes, false, true);
}

CuResult cuMemcpyDtoDAsync_v2(CuPtr to, CuPtr from, size_t bytes, CuStream s)
{
    return copy(s, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, true, true);
}

CuResult cuMemcpyHtoD_v2(CuPtr to, const void *from, size_t bytes)
{
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
}

CuResult cuMemcpyDtoH_v2(void *to, CuPtr from, size_t bytes)
{
    return cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
}

CuResult cuMemsetD8Async(CuPtr to, unsigned char value, size_t n, CuStream s)
{
    pthread_mutex_lock(&driver.lock);
    CuResult r =
        enqueue(s, (struct CUgraphNode_st){
                       .kind = FILL, .to = (void *)(uintptr_t)to, .bytes = n, .value = value});
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuMemsetD8_v2(CuPtr to, unsigned char value, size_t n)
{
    return cuMemsetD8Async(to, value, n, NULL);
}

// For the libraries: work on a stream; arg is malloc'ed and theirs no more.
CuResult shim_enqueue(CuStream s, CuResult (*call)(void *), void *arg)
{
    pthread_mutex_lock(&driver.lock);
    CuResult r = enqueue(s, (struct CUgraphNode_st){.kind = CALL, .call = call, .arg = arg});
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuStreamCreate(CuStream *s, unsigned flags)
{
    (void)flags;
    *s = calloc(1, sizeof **s);
    return *s ? CU_OK : CU_OUT_OF_MEMORY;
}

CuResult cuStreamDestroy_v2(CuStream s)
{
    free(s->tail.at);
    free(s);
    return CU_OK;
}

CuResult cuStreamSynchronize(CuStream s)
{
    return s && s->graph ? 900 : CU_OK; // not while recording
}

// -- events ---------------------------------------------------------------------------------------
CuResult cuEventCreate(CuEvent *e, unsigned flags)
{
    (void)flags;
    *e = calloc(1, sizeof **e);
    return *e ? CU_OK : CU_OUT_OF_MEMORY;
}

CuResult cuEventDestroy_v2(CuEvent e)
{
    free(e->after.at);
    free(e);
    return CU_OK;
}

CuResult cuEventRecord(CuEvent e, CuStream s)
{
    e->seconds = shim_clock += 1e-6;
    free(e->after.at);
    e->graph = s ? s->graph : NULL;
    e->after = e->graph ? nodes_copy(&s->tail) : (Nodes){.n = 0};
    return CU_OK;
}

CuResult cuStreamWaitEvent(CuStream s, CuEvent e, unsigned flags)
{
    (void)flags;
    if (!e->graph) return CU_OK;
    if (s->graph && s->graph != e->graph) return INVALID_VALUE;
    s->graph = e->graph; // joins the recording
    for (int i = 0; i < e->after.n; i++) nodes_add(&s->tail, e->after.at[i]);
    return CU_OK;
}

CuResult cuEventSynchronize(CuEvent e)
{
    (void)e;
    return CU_OK;
}

CuResult cuEventElapsedTime(float *ms, CuEvent begin, CuEvent end)
{
    *ms = (float)((end->seconds - begin->seconds) * 1e3);
    return CU_OK;
}

// -- graphs ---------------------------------------------------------------------------------------
CuResult cuStreamBeginCapture_v2(CuStream s, int mode)
{
    (void)mode;
    if (!s || s->graph) return 900;
    s->graph = calloc(1, sizeof *s->graph);
    if (!s->graph) return CU_OUT_OF_MEMORY;
    s->graph->users = 1;
    s->origin = true;
    free(s->tail.at);
    s->tail = (Nodes){.n = 0};
    return CU_OK;
}

static void graph_release(CuGraph g)
{
    if (--g->users) return;
    for (int i = 0; i < g->n; i++) {
        struct CUgraphNode_st *n = &g->node[i];
        free(n->deps.at);
        for (void **p = n->launch.params; p && *p; p++) free(*p);
        free(n->launch.params);
        if (n->kind == CALL) free(n->arg);
    }
    free(g->node);
    free(g);
}

// Whether every node is before the end of the stream that began: none is left unjoined.
static bool all_joined(CuGraph g, const Nodes *tail)
{
    bool *seen = calloc((size_t)g->n + 1, sizeof *seen);
    bool ok = seen != NULL;
    for (int i = 0; ok && i < tail->n; i++) seen[tail->at[i]] = true;
    for (int i = g->n; ok && i-- > 0;) {
        ok = seen[i];
        for (int k = 0; ok && k < g->node[i].deps.n; k++) seen[g->node[i].deps.at[k]] = true;
    }
    free(seen);
    return ok;
}

CuResult cuStreamEndCapture(CuStream s, CuGraph *g)
{
    *g = NULL;
    if (!s->graph || !s->origin) return 901;
    CuGraph made = s->graph;
    bool joined = all_joined(made, &s->tail);
    s->graph = NULL;
    s->origin = false;
    free(s->tail.at);
    s->tail = (Nodes){.n = 0};
    if (!joined) {
        graph_release(made);
        return 904; // work of another stream that nobody waits for
    }
    *g = made;
    return CU_OK;
}

CuResult cuGraphInstantiateWithFlags(CuGraphExec *exec, CuGraph g, unsigned long long flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    if (!*exec) return CU_OUT_OF_MEMORY;
    g->users++;
    (*exec)->graph = g;
    return CU_OK;
}

CuResult cuGraphLaunch(CuGraphExec exec, CuStream s)
{
    (void)s;
    CuGraph g = exec->graph;
    pthread_mutex_lock(&driver.lock);
    CuResult r = CU_OK;
    int *waits = calloc((size_t)g->n + 1, sizeof *waits),
        *ready = calloc((size_t)g->n + 1, sizeof *ready);
    int nready = 0;
    if (!waits || !ready) abort();
    for (int i = 0; i < g->n; i++)
        if (!(waits[i] = g->node[i].deps.n)) ready[nready++] = i;
    while (nready && r == CU_OK) {
        int k = (int)shim_random((uint32_t)nready), node = ready[k];
        ready[k] = ready[--nready];
        r = perform(&g->node[node]);
        for (int i = node + 1; i < g->n; i++)
            for (int d = 0; d < g->node[i].deps.n; d++)
                if (g->node[i].deps.at[d] == node && --waits[i] == 0) ready[nready++] = i;
    }
    free(waits);
    free(ready);
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuGraphUpload(CuGraphExec exec, CuStream s)
{
    (void)exec, (void)s;
    return CU_OK;
}

CuResult cuGraphGetNodes(CuGraph g, CuGraphNode *nodes, size_t *n)
{
    if (nodes && !*n) abort(); // an invalid argument
    for (size_t i = 0; nodes && i < *n && i < (size_t)g->n; i++) nodes[i] = &g->node[i];
    *n = (size_t)g->n;
    return CU_OK;
}

CuResult cuGraphNodeGetType(CuGraphNode node, int *type)
{
    *type = node->kind == COPY ? 1 : node->kind == FILL ? 2 : CU_NODE_KERNEL;
    return CU_OK;
}

CuResult cuGraphChildGraphNodeGetGraph(CuGraphNode node, CuGraph *g)
{
    (void)node, (void)g;
    return INVALID_VALUE;
}

CuResult cuGraphDestroy(CuGraph g)
{
    graph_release(g);
    return CU_OK;
}

CuResult cuGraphExecDestroy(CuGraphExec exec)
{
    graph_release(exec->graph);
    free(exec);
    return CU_OK;
}

// -- modules and launches -------------------------------------------------------------------------
CuResult cuModuleLoadDataEx(CuModule *m, const void *image, unsigned n, int *options, void **values)
{
    static const char magic[] = "host shim\n";
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_ERROR_LOG && shim_option("SHIM_TOO_NEW", 0))
            strcpy(values[i], "made by a newer compiler");
    const char *text = image;
    bool ours = !strncmp(text, magic, sizeof magic - 1);
    if (shim_option("SHIM_TOO_NEW", 0)) return CU_UNSUPPORTED_PTX_VERSION;
    if (!ours && strncmp(text, ".version", 8) != 0) return CU_INVALID_IMAGE;
    CuModule r = calloc(1, sizeof *r);
    if (!r) return CU_OUT_OF_MEMORY;
    if (ours && !(r->text = strdup(text + sizeof magic - 1))) return CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&driver.lock);
    r->next = driver.modules;
    driver.modules = r;
    pthread_mutex_unlock(&driver.lock);
    *m = r;
    return CU_OK;
}

CuResult cuModuleLoadData(CuModule *m, const void *image)
{
    return cuModuleLoadDataEx(m, image, 0, NULL, NULL);
}

CuResult cuModuleUnload(CuModule m)
{
    pthread_mutex_lock(&driver.lock);
    CuModule *link = &driver.modules;
    while (*link && *link != m) link = &(*link)->next;
    if (*link) *link = m->next;
    pthread_mutex_unlock(&driver.lock);
    for (CuFunction f = m->functions, next; f; f = next) {
        next = f->next;
        free(f->name);
        free(f);
    }
    free(m->text);
    free(m);
    return CU_OK;
}

CuResult cuModuleGetFunction(CuFunction *f, CuModule m, const char *name)
{
    CuFunction r = calloc(1, sizeof *r);
    if (!r || !(r->name = strdup(name))) return CU_OUT_OF_MEMORY;
    r->module = m;
    if (!m->text) shim_builtin(r);
    if (!m->text && !r->builtin) return NOT_FOUND;
    if (m->text && !strstr(m->text, name)) return NOT_FOUND;
    pthread_mutex_lock(&driver.lock);
    r->next = m->functions;
    m->functions = r;
    pthread_mutex_unlock(&driver.lock);
    *f = r;
    return CU_OK;
}

CuResult cuFuncSetAttribute(CuFunction f, int attribute, int value)
{
    if (attribute == CU_FUNC_MAX_DYNAMIC_SHARED) {
        if (value > SHIM_DYNAMIC) return INVALID_VALUE;
        f->dynamic_limit = value;
    }
    return CU_OK;
}

CuResult cuFuncGetAttribute(int *value, int attribute, CuFunction f)
{
    *value = attribute == CU_FUNC_MAX_DYNAMIC_SHARED ? f->dynamic_limit
             : attribute == CU_FUNC_REGISTERS        ? 32
                                                     : 0;
    return CU_OK;
}

CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CuFunction f, int threads,
                                                     size_t dynamic_shared)
{
    (void)f;
    size_t by_shared = dynamic_shared ? (228 << 10) / (dynamic_shared + 1024) : 32;
    *blocks = threads > 0 ? 2048 / threads : 0;
    if (*blocks > (int)by_shared) *blocks = (int)by_shared;
    return CU_OK;
}

// What tests/shim/ptx.h reads: two dimensions of 16-bit elements, boxes of 128-byte rows, turned;
// of four dimensions the last two number matrices.
CuResult cuTensorMapEncodeTiled(CuTensorMap *map, int type, unsigned rank, CuPtr at,
                                const uint64_t *dims, const uint64_t *pitches, const unsigned *box,
                                const unsigned *steps, int interleave, int swizzle, int l2,
                                int fill)
{
    uint64_t words[16] = {at, dims[0], dims[1], pitches[0], box[0], box[1], 1, 1, 0, 0};
    (void)l2;
    for (unsigned i = 2; i < rank && rank == 4; i++) {
        if (pitches[i - 1] % 16 || pitches[i - 1] >> 40 || dims[i] >> 32 || !dims[i] ||
            box[i] != 1 || steps[i] != 1)
            return CU_INVALID_VALUE;
        words[4 + i] = dims[i];
        words[6 + i] = pitches[i - 1];
    }
    if (type != CU_MAP_U16 || (rank != 2 && rank != 4) || at % 16 || pitches[0] % 16 ||
        pitches[0] >> 40 || dims[0] >> 32 || dims[1] >> 32 || !dims[0] || !dims[1] ||
        box[0] * 2 != 128 || !box[1] || box[1] > 256 || steps[0] != 1 || steps[1] != 1 ||
        interleave || swizzle != CU_MAP_SWIZZLE_128 || fill)
        return CU_INVALID_VALUE;
    memcpy(map, words, sizeof words);
    return CU_OK;
}

// ... of four dimensions: 64 channels of images. Words 10 to 15 say where windows begin.
CuResult cuTensorMapEncodeIm2col(CuTensorMap *map, int type, unsigned rank, CuPtr at,
                                 const uint64_t *dims, const uint64_t *pitches, const int *lower,
                                 const int *upper, unsigned channels, unsigned pixels,
                                 const unsigned *steps, int interleave, int swizzle, int l2,
                                 int fill)
{
    (void)l2;
    if (type != CU_MAP_U16 || rank != 4 || at % 16 || channels * 2 != 128 || !pixels ||
        pixels > 256 || interleave || swizzle != CU_MAP_SWIZZLE_128 || fill || steps[3] != 1)
        return CU_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if (!dims[i] || dims[i] >> 32 || (i < 3 && (pitches[i] % 16 || pitches[i] >> 40)))
            return CU_INVALID_VALUE;
    uint64_t words[16] = {at,     dims[0], dims[1], pitches[0], channels,
                          pixels, dims[2], dims[3], pitches[1], pitches[2]};
    for (int i = 0; i < 2; i++) {
        int64_t last = (int64_t)dims[1 + i] - 1 + upper[i];
        if (lower[i] < -128 || lower[i] > 127 || upper[i] < -128 || upper[i] > 127 ||
            last < lower[i] || !steps[1 + i] || steps[1 + i] > 8)
            return CU_INVALID_VALUE;
        words[10 + i] = (uint64_t)(int64_t)lower[i];
        words[12 + i] = (uint64_t)last;
        words[14 + i] = steps[1 + i];
    }
    memcpy(map, words, sizeof words);
    return CU_OK;
}

CuResult cuLaunchKernelEx(const CuLaunch *c, CuFunction f, void **params, void **extra)
{
    (void)extra;
    struct CUgraphNode_st n = {.kind = KERNEL};
    Launch *l = &n.launch;
    l->f = f;
    l->grid = (Index3){c->grid[0], c->grid[1], c->grid[2]};
    l->block = (Index3){c->block[0], c->block[1], c->block[2]};
    l->shared_bytes = c->shared_bytes;
    for (unsigned i = 0; i < c->nattrs; i++) {
        if (c->attrs[i].id == CU_LAUNCH_CLUSTER) l->cluster = c->attrs[i].value.cluster.x;
        if (c->attrs[i].id == CU_LAUNCH_EARLY) l->early = c->attrs[i].value.early != 0;
    }
    pthread_mutex_lock(&driver.lock);
    const char *why = shim_prepare(f);
    CuResult r = CU_OK;
    if (why) {
        snprintf(driver.problem, sizeof driver.problem, "%s", why);
        r = CU_INVALID_IMAGE;
    } else {
        int count = 0;
        while (f->sizes && f->sizes[count]) count++;
        l->params = calloc((size_t)count + 1, sizeof *l->params);
        for (int i = 0; i < count; i++) {
            l->params[i] = malloc(f->sizes[i]);
            memcpy(l->params[i], params[i], f->sizes[i]);
        }
        r = enqueue(c->stream, n);
    }
    pthread_mutex_unlock(&driver.lock);
    return r;
}

CuResult cuLaunchKernel(CuFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, CuStream stream,
                        void **params, void **extra)
{
    CuLaunch l = {.grid = {gx, gy, gz},
                  .block = {bx, by, bz},
                  .shared_bytes = shared_bytes,
                  .stream = stream};
    return cuLaunchKernelEx(&l, f, params, extra);
}
