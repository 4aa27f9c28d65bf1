// Streams of the shim. What is enqueued runs at once, except into a stream that records: a graph's
// nodes run in a random order that its edges allow.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/shim.h"

enum { INVALID_VALUE = 1 };
enum { // of captures
    UNSUPPORTED = CU_CAPTURE_UNSUPPORTED,
    INVALIDATED = 901,
    UNJOINED = 904,
    ISOLATION = 905,
    CAPTURED_EVENT = 907,
};

typedef struct Nodes { // a set of nodes of the graph being recorded
    int *at, n;
} Nodes;

struct CUevent_st {
    double seconds;
    Nodes after;
    CuGraph graph; // that it was recorded into, or NULL
};

struct CUstream_st {
    int device;
    CuGraph graph; // being recorded
    bool origin;
    Nodes tail;
    bool moved;    // what came last is a copy or a fill
    CuStream next; // of all
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
    // While it is recorded:
    CuGraph next;
    int mode;
    pthread_t thread;
    bool invalid; // something was done that a capture forbids
};

struct CUgraphExec_st {
    CuGraph graph;
};

static CuStream streams; // all
static CuGraph recorded; // those that are being
unsigned long long shim_launches;

// -- captures -------------------------------------------------------------------------------------

// What the thread may do while streams are captured, CU_CAPTURE_*.
static _Thread_local int capture_mode;

CuResult cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;
    if (*mode < CU_CAPTURE_GLOBAL || *mode > CU_CAPTURE_RELAXED) return INVALID_VALUE;
    capture_mode = *mode;
    *mode = before;
    return CU_OK;
}

// Allocating, waiting and the like, which a capture forbids its own thread, and a global one all
// threads, where they have not said otherwise. It is lost then.
CuResult shim_unsafe(void)
{
    CuResult r = CU_OK;
    pthread_mutex_lock(&shim_lock);
    for (CuGraph g = recorded; g; g = g->next) {
        bool mine = pthread_equal(g->thread, pthread_self());
        if (capture_mode == CU_CAPTURE_RELAXED || g->mode == CU_CAPTURE_RELAXED) continue;
        if (!mine && (capture_mode != CU_CAPTURE_GLOBAL || g->mode != CU_CAPTURE_GLOBAL)) continue;
        g->invalid = true;
        r = UNSUPPORTED;
    }
    pthread_mutex_unlock(&shim_lock);
    return r;
}

static CuResult lost(CuGraph g, CuResult r)
{
    g->invalid = true;
    return r;
}
CuResult cuCtxSynchronize(void)
{
    CuResult r = CU_OK;
    pthread_mutex_lock(&shim_lock);
    for (CuGraph g = recorded; g; g = g->next) r = lost(g, UNSUPPORTED);
    pthread_mutex_unlock(&shim_lock);
    return r;
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
        shim_launches++;
        if (!n->launch.f->builtin) return shim_run(&n->launch);
        return n->launch.f->builtin(&n->launch) ? CU_OK : bad_memory("a copy");
    case CALL: shim_actor.last = shim_actor.now++; return n->call(n->arg);
    case FILL:
        if (!shim_copied(n->to, n->bytes, NULL)) return bad_memory("a fill");
        memset(n->to, n->value, n->bytes);
        if (n->value == 0xff) shim_unwritten(n->to, n->bytes);
        return CU_OK;
    case COPY: break;
    }
    // Reading what was never written is no fault of a copy: padding goes along.
    if (n->to_device && !shim_copied(n->to, n->bytes, n->from)) return bad_memory("a copy");
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
    if (g->invalid) return INVALIDATED;
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

CuResult shim_launch(CuStream s, const Launch *l)
{
    return enqueue(s, (struct CUgraphNode_st){.kind = KERNEL, .launch = *l});
}

static CuResult copy(CuStream s, void *to, const void *from, size_t bytes, bool to_device,
                     bool from_device)
{
    pthread_mutex_lock(&shim_lock);
    CuResult r = enqueue(s, (struct CUgraphNode_st){.kind = COPY,
                                                    .to = to,
                                                    .from = from,
                                                    .bytes = bytes,
                                                    .to_device = to_device,
                                                    .from_device = from_device});
    pthread_mutex_unlock(&shim_lock);
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
    pthread_mutex_lock(&shim_lock);
    CuResult r =
        enqueue(s, (struct CUgraphNode_st){
                       .kind = FILL, .to = (void *)(uintptr_t)to, .bytes = n, .value = value});
    pthread_mutex_unlock(&shim_lock);
    return r;
}

CuResult cuMemsetD8_v2(CuPtr to, unsigned char value, size_t n)
{
    return cuMemsetD8Async(to, value, n, NULL);
}

// For the libraries: work on a stream; arg is malloc'ed and theirs no more.
CuResult shim_enqueue(CuStream s, CuResult (*call)(void *), void *arg)
{
    pthread_mutex_lock(&shim_lock);
    CuResult r = enqueue(s, (struct CUgraphNode_st){.kind = CALL, .call = call, .arg = arg});
    pthread_mutex_unlock(&shim_lock);
    return r;
}

int shim_stream_device(CuStream s)
{
    return s->device;
}

CuResult cuStreamCreate(CuStream *s, unsigned flags)
{
    (void)flags;
    *s = calloc(1, sizeof **s);
    if (!*s) return CU_OUT_OF_MEMORY;
    (*s)->device = shim_device();
    pthread_mutex_lock(&shim_lock);
    (*s)->next = streams;
    streams = *s;
    pthread_mutex_unlock(&shim_lock);
    return CU_OK;
}

CuResult cuStreamCreateWithPriority(CuStream *s, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(s, flags);
}

CuResult cuStreamDestroy_v2(CuStream s)
{
    pthread_mutex_lock(&shim_lock);
    CuStream *at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&shim_lock);
    free(s->tail.at);
    free(s);
    return CU_OK;
}

CuResult cuStreamSynchronize(CuStream s)
{
    return s && s->graph ? lost(s->graph, UNSUPPORTED) : shim_unsafe();
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

static bool is_recorded(CuGraph g)
{
    pthread_mutex_lock(&shim_lock);
    CuGraph at = recorded;
    while (at && at != g) at = at->next;
    pthread_mutex_unlock(&shim_lock);
    return at != NULL;
}

CuResult cuStreamWaitEvent(CuStream s, CuEvent e, unsigned flags)
{
    (void)flags;
    if (!e->graph) return s && s->graph ? lost(s->graph, ISOLATION) : CU_OK;
    if (!is_recorded(e->graph)) return CAPTURED_EVENT;
    if (!s || (s->graph && s->graph != e->graph)) return INVALID_VALUE;
    s->graph = e->graph; // joins the recording
    for (int i = 0; i < e->after.n; i++) nodes_add(&s->tail, e->after.at[i]);
    return CU_OK;
}

CuResult cuEventSynchronize(CuEvent e)
{
    return e->graph ? CAPTURED_EVENT : shim_unsafe();
}

CuResult cuEventElapsedTime(float *ms, CuEvent begin, CuEvent end)
{
    *ms = (float)((end->seconds - begin->seconds) * 1e3);
    return CU_OK;
}

// -- graphs ---------------------------------------------------------------------------------------
CuResult cuStreamBeginCapture_v2(CuStream s, int mode)
{
    if (!s || s->graph) return UNSUPPORTED;
    s->graph = calloc(1, sizeof *s->graph);
    if (!s->graph) return CU_OUT_OF_MEMORY;
    s->graph->users = 1;
    s->graph->mode = mode;
    s->graph->thread = pthread_self();
    pthread_mutex_lock(&shim_lock);
    s->graph->next = recorded;
    recorded = s->graph;
    pthread_mutex_unlock(&shim_lock);
    s->origin = true;
    free(s->tail.at);
    s->tail = (Nodes){.n = 0};
    return CU_OK;
}

CuResult cuStreamIsCapturing(CuStream s, int *status)
{
    *status = !s || !s->graph ? 0 : s->graph->invalid ? 2 : 1;
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
    if (!s->graph || !s->origin) return INVALIDATED;
    CuGraph made = s->graph, *at = &recorded;
    bool joined = all_joined(made, &s->tail);
    pthread_mutex_lock(&shim_lock);
    while (*at != made) at = &(*at)->next;
    *at = made->next;
    for (CuStream t = streams; t; t = t->next) {
        if (t->graph != made) continue;
        t->graph = NULL;
        t->origin = false;
        free(t->tail.at);
        t->tail = (Nodes){.n = 0};
    }
    pthread_mutex_unlock(&shim_lock);
    if (made->invalid || !joined) { // or work of another stream is left that nobody waits for
        CuResult r = made->invalid ? INVALIDATED : UNJOINED;
        graph_release(made);
        return r;
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
    CuGraph g = exec->graph;
    if (s && s->graph) return lost(s->graph, UNSUPPORTED); // netc has no graphs inside graphs
    pthread_mutex_lock(&shim_lock);
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
    pthread_mutex_unlock(&shim_lock);
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
    if (shim_unsafe()) return UNSUPPORTED;
    graph_release(exec->graph);
    free(exec);
    return CU_OK;
}
