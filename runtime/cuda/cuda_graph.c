// CUDA graphs: what a stream receives between begin and end is recorded and later enqueued as one
// launch.
#include "runtime/cuda/cuda.h"

#include <stdlib.h>

struct RtGraph {
    CudaDevice *d;
    CuGraphExec exec;
};

bool cuda_captured(RtStream *s)
{
    int status = 0;
    return s->d->cu.stream_captured(s->s, &status) == CU_OK && status;
}

int cuda_capture_allow(RtDevice *d, int mode)
{
    int now = mode == RT_ALLOW_ALL ? CU_CAPTURE_RELAXED : mode;
    return cuda_of(d)->cu.capture_mode(&now) == CU_OK ? now : CU_CAPTURE_GLOBAL;
}

RtCode cuda_capture_begin(RtStream *s, RtError *e)
{
    if (s->d->sync) return rt_fail(e, RT_ENV, "NETC_SYNC=1 waits after every step");
    CU(s->d, e, stream_begin_capture(s->s, CU_CAPTURE_THREAD_LOCAL));
    return RT_OK;
}

// Counts kernel nodes, including those in child graphs (library calls may create them).
static RtCode count_kernels(CudaDevice *d, CuGraph g, int *total, RtError *e)
{
    enum { MAX_CHILDREN = 256 };
    CuGraph todo[MAX_CHILDREN];
    int n = 0;
    todo[n++] = g;
    *total = 0;
    while (n > 0) {
        CuGraph at = todo[--n];
        size_t nodes = 0;
        CU(d, e, graph_nodes(at, NULL, &nodes));
        if (!nodes) continue; // an empty graph: the driver refuses a query for 0 nodes
        CuGraphNode *node = malloc((nodes + 1) * sizeof *node);
        if (!node) return rt_fail(e, RT_OOM, "out of memory");
        CuResult r = d->cu.graph_nodes(at, node, &nodes);
        for (size_t i = 0; i < nodes && r == CU_OK; i++) {
            int type = -1;
            r = d->cu.graph_node_type(node[i], &type);
            if (r == CU_OK && type == CU_NODE_KERNEL) ++*total;
            if (r == CU_OK && type == CU_NODE_GRAPH && n < MAX_CHILDREN) {
                r = d->cu.graph_node_child(node[i], &todo[n]);
                n++;
            }
        }
        free(node);
        if (r != CU_OK)
            return cuda_failed(d, r, "graph_nodes(...)", __FILE__, __LINE__, NULL, NULL, e);
    }
    return RT_OK;
}

static RtCode instantiate(CudaDevice *d, RtStream *s, CuGraph g, RtGraph **out, int *kernel_nodes,
                          RtError *e)
{
    RtCode code = count_kernels(d, g, kernel_nodes, e);
    if (code) return code;
    CuGraphExec exec;
    CU(d, e, graph_instantiate(&exec, g, 0));
    RtGraph *r = calloc(1, sizeof *r);
    if (!r) {
        d->cu.graph_exec_destroy(exec);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    d->cu.graph_upload(exec, s->s); // an optimisation only: if it fails, the launch reports the
                                    // error
    *r = (RtGraph){d, exec};
    *out = r;
    return RT_OK;
}

RtCode cuda_capture_end(RtStream *s, RtGraph **out, int *kernel_nodes, RtError *e)
{
    CuGraph g = NULL;
    *out = NULL;
    *kernel_nodes = 0;
    CU(s->d, e, stream_end_capture(s->s, &g));
    RtCode code = instantiate(s->d, s, g, out, kernel_nodes, e);
    s->d->cu.graph_destroy(g);
    return code;
}

RtCode cuda_graph_launch(RtStream *s, RtGraph *g, RtError *e)
{
    CU(s->d, e, graph_launch(g->exec, s->s));
    return RT_OK;
}

void cuda_graph_free(RtGraph *g)
{
    if (!g) return;
    g->d->cu.graph_exec_destroy(g->exec);
    free(g);
}
