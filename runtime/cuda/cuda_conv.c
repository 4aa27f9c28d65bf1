// Convolutions by cuDNN's backend API: an operation graph of one node, the configurations of
// engines that the heuristic proposes for it, best first, and an execution plan for each. Images
// are channels last, so every tensor is dense.
//
// Left out are engines whose sums are added in varying order, since two runs give the same bits;
// that are less exact than sums of products in f32 (by FFT, Winograd's methods, with narrower
// sums); and that compile code of their own, which takes longer than it saves.
#include <stdlib.h>

#include "runtime/cuda/cuda.h"

enum { MOST_CONFIGS = 40, MOST_PLANS = 8, MOST_NOTES = 32, TENSOR_AXES = 2 + PROG_MAX_IMAGE_AXES };

struct CudaConv {
    int n;
    DnnDesc plan[MOST_PLANS];
    int64_t engine[MOST_PLANS]; // its number in the library
    size_t workspace[MOST_PLANS];
};

bool cuda_conv_open(CudaDevice *d)
{
    pthread_mutex_lock(&d->lock);
    if (!d->dnn_opened) d->dnn_found = dnn_open(&d->dnn);
    d->dnn_opened = true;
    pthread_mutex_unlock(&d->lock);
    return d->dnn_found;
}

// Sets an attribute; clears *ok if that fails.
static void set(const Cudnn *l, bool *ok, DnnDesc d, int attribute, int type, int64_t n,
                const void *values)
{
    *ok = *ok && l->desc_set(d, attribute, type, n, values) == DNN_OK;
}

// Creates a descriptor, NULL if that fails.
static DnnDesc create(const Cudnn *l, bool *ok, int kind)
{
    DnnDesc d = NULL;
    *ok = *ok && l->desc_create(kind, &d) == DNN_OK;
    return d;
}

static void finalize(const Cudnn *l, bool *ok, DnnDesc d)
{
    *ok = *ok && l->finalize(d) == DNN_OK;
}

static int data_type(ProgDType t)
{
    return t == PD_BF16 ? DNN_BF16 : t == PD_F16 ? DNN_F16 : DNN_F32;
}

// x, w or y: sizes (first, channels, spatial...), stored channels last. align: bytes.
static DnnDesc tensor(const Cudnn *l, bool *ok, const ProgGemm *g, char of, int64_t align)
{
    const ProgConv *c = &g->conv;
    const int64_t *spatial = of == 'x'   ? c->image
                             : of == 'w' ? c->size
                                         : c->places,
                  id = of, rank = 2 + c->axes;
    int64_t size[TENSOR_AXES] = {of == 'w' ? c->results : c->images,
                                 of == 'y' ? c->results : c->channels},
            step[TENSOR_AXES] = {0, 1}, all = size[1];
    const int type = data_type(g->a_type);
    for (int i = c->axes - 1; i >= 0; i--) {
        size[2 + i] = spatial[i];
        step[2 + i] = all;
        all *= spatial[i];
    }
    step[0] = all;
    DnnDesc d = create(l, ok, DNN_TENSOR);
    set(l, ok, d, DNN_TENSOR_TYPE, DNN_TYPE_DATA, 1, &type);
    set(l, ok, d, DNN_TENSOR_SIZES, DNN_TYPE_I64, rank, size);
    set(l, ok, d, DNN_TENSOR_STEPS, DNN_TYPE_I64, rank, step);
    set(l, ok, d, DNN_TENSOR_ID, DNN_TYPE_I64, 1, &id);
    set(l, ok, d, DNN_TENSOR_ALIGNMENT, DNN_TYPE_I64, 1, &align);
    finalize(l, ok, d);
    return d;
}

static DnnDesc convolution(const Cudnn *l, bool *ok, const ProgConv *c)
{
    const int type = DNN_F32, mode = DNN_CORRELATION;
    const int64_t axes = c->axes;
    DnnDesc d = create(l, ok, DNN_CONV);
    set(l, ok, d, DNN_CONV_TYPE, DNN_TYPE_DATA, 1, &type);
    set(l, ok, d, DNN_CONV_MODE, DNN_TYPE_CONV_MODE, 1, &mode);
    set(l, ok, d, DNN_CONV_AXES, DNN_TYPE_I64, 1, &axes);
    set(l, ok, d, DNN_CONV_DILATIONS, DNN_TYPE_I64, axes, c->dilation);
    set(l, ok, d, DNN_CONV_STEPS, DNN_TYPE_I64, axes, c->step);
    set(l, ok, d, DNN_CONV_BEFORE, DNN_TYPE_I64, axes, c->before);
    set(l, ok, d, DNN_CONV_AFTER, DNN_TYPE_I64, axes, c->after);
    finalize(l, ok, d);
    return d;
}

static DnnDesc operation(const Cudnn *l, bool *ok, const ProgConv *c, DnnDesc conv,
                         const DnnDesc *tensors)
{
    static const struct Kind {
        int kind, first; // the attribute of alpha; the others follow
    } kinds[] = {[PV_FORWARD] = {DNN_FORWARD, DNN_FORWARD_ALPHA},
                 [PV_INPUT] = {DNN_BACKWARD_INPUT, DNN_BACKWARD_INPUT_ALPHA},
                 [PV_WEIGHT] = {DNN_BACKWARD_WEIGHT, DNN_BACKWARD_WEIGHT_ALPHA}};
    const float one = 1, zero = 0;
    const struct Kind *k = &kinds[c->kind];
    DnnDesc d = create(l, ok, k->kind);
    set(l, ok, d, k->first, DNN_TYPE_F32, 1, &one);
    set(l, ok, d, k->first + 1, DNN_TYPE_F32, 1, &zero);
    set(l, ok, d, k->first + 2, DNN_TYPE_DESC, 1, &conv);
    for (int i = 0; i < 3; i++) set(l, ok, d, k->first + 3 + i, DNN_TYPE_DESC, 1, &tensors[i]);
    finalize(l, ok, d);
    return d;
}

// Whether the configuration's engine computes what the generated kernel does, always to the same
// bits. *number: the engine's.
static bool is_exact(const Cudnn *l, DnnDesc config, const ProgGemm *g, int64_t *number)
{
    bool ok = true;
    int numerics[MOST_NOTES], behaviour[MOST_NOTES];
    int64_t n = 0, nnumerics = 0, nbehaviour = 0;
    DnnDesc engine = create(l, &ok, DNN_ENGINE);
    ok = ok && l->desc_get(config, DNN_CONFIG_ENGINE, DNN_TYPE_DESC, 1, &n, &engine) == DNN_OK &&
         l->desc_get(engine, DNN_ENGINE_NUMBER, DNN_TYPE_I64, 1, &n, number) == DNN_OK &&
         l->desc_get(engine, DNN_ENGINE_NUMERICS, DNN_TYPE_NUMERICS, MOST_NOTES, &nnumerics,
                     numerics) == DNN_OK &&
         l->desc_get(engine, DNN_ENGINE_BEHAVIOUR, DNN_TYPE_BEHAVIOUR, MOST_NOTES, &nbehaviour,
                     behaviour) == DNN_OK &&
         nnumerics <= MOST_NOTES && nbehaviour <= MOST_NOTES;
    const bool whole = g->a_type == PD_F32 && !g->tf32; // no operand may be rounded
    for (int64_t i = 0; ok && i < nnumerics; i++) {
        const int note = numerics[i];
        ok = note != DNN_ANY_ORDER && note != DNN_LESS_SUMS && note != DNN_LESS_INPUT &&
             note != DNN_FFT && !(note >= DNN_WINOGRAD && note <= DNN_LAST_WINOGRAD) &&
             !(whole && note == DNN_TENSOR_CORES);
    }
    for (int64_t i = 0; ok && i < nbehaviour; i++) ok = behaviour[i] != DNN_COMPILES;
    if (engine) l->desc_destroy(engine);
    return ok;
}

// Adds a plan for the configuration, if it is possible.
static void add_plan(const CudaDevice *d, CudaConv *v, DnnDesc config, const ProgGemm *g)
{
    const Cudnn *l = &d->dnn;
    int64_t n = 0, workspace = -1, number = -1;
    bool ok = is_exact(l, config, g, &number);
    DnnDesc plan = ok ? create(l, &ok, DNN_PLAN) : NULL;
    set(l, &ok, plan, DNN_PLAN_HANDLE, DNN_TYPE_HANDLE, 1, &d->dnn_handle);
    set(l, &ok, plan, DNN_PLAN_CONFIG, DNN_TYPE_DESC, 1, &config);
    finalize(l, &ok, plan);
    ok = ok && l->desc_get(plan, DNN_PLAN_WORKSPACE, DNN_TYPE_I64, 1, &n, &workspace) == DNN_OK &&
         workspace >= 0 && workspace <= g->workspace;
    if (!ok) {
        if (plan) l->desc_destroy(plan);
        return;
    }
    v->workspace[v->n] = (size_t)workspace;
    v->engine[v->n] = number;
    v->plan[v->n++] = plan;
}

static void make_plans(const CudaDevice *d, CudaConv *v, DnnDesc graph, const ProgGemm *g)
{
    const Cudnn *l = &d->dnn;
    bool ok = true;
    const int mode = DNN_BEST;
    DnnDesc heuristic = create(l, &ok, DNN_HEURISTIC), config[MOST_CONFIGS] = {0};
    int64_t n = 0;
    set(l, &ok, heuristic, DNN_HEURISTIC_MODE, DNN_TYPE_HEURISTIC, 1, &mode);
    set(l, &ok, heuristic, DNN_HEURISTIC_GRAPH, DNN_TYPE_DESC, 1, &graph);
    finalize(l, &ok, heuristic);
    for (int i = 0; i < MOST_CONFIGS && ok; i++) config[i] = create(l, &ok, DNN_CONFIG);
    ok = ok && l->desc_get(heuristic, DNN_HEURISTIC_RESULTS, DNN_TYPE_DESC, MOST_CONFIGS, &n,
                           config) == DNN_OK;
    for (int64_t i = 0; i < n && i < MOST_CONFIGS && v->n < MOST_PLANS && ok; i++)
        add_plan(d, v, config[i], g);
    for (int i = 0; i < MOST_CONFIGS; i++)
        if (config[i]) l->desc_destroy(config[i]);
    if (heuristic) l->desc_destroy(heuristic);
}

// align: the alignment of the step's first three arguments.
static CudaConv *new_plans(const CudaDevice *d, const ProgGemm *g, const uint32_t *align)
{
    const Cudnn *l = &d->dnn;
    CudaConv *v = calloc(1, sizeof *v);
    bool ok = v != NULL;
    DnnDesc tensors[3], conv = convolution(l, &ok, &g->conv);
    for (int i = 0; i < 3; i++)
        tensors[i] = tensor(l, &ok, g, "wxy"[i], align[prog_conv_operand(&g->conv, "wxy"[i])]);
    DnnDesc op = operation(l, &ok, &g->conv, conv, tensors), graph = create(l, &ok, DNN_GRAPH);
    set(l, &ok, graph, DNN_GRAPH_HANDLE, DNN_TYPE_HANDLE, 1, &d->dnn_handle);
    set(l, &ok, graph, DNN_GRAPH_OPERATIONS, DNN_TYPE_DESC, 1, &op);
    finalize(l, &ok, graph);
    if (ok) make_plans(d, v, graph, g);
    const DnnDesc all[] = {graph, op, conv, tensors[0], tensors[1], tensors[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) l->desc_destroy(all[i]);
    return v;
}

int cuda_conv_propose(RtModule *m, int gemm, const uint32_t *align, LtResult *out, int most)
{
    CudaDevice *d = m->d;
    CudaGemm *g = &m->gemm[gemm];
    if (!cuda_conv_open(d)) return 0;
    pthread_mutex_lock(&d->lock);
    if (d->dnn_handle || d->dnn.create(&d->dnn_handle) == DNN_OK)
        if (!g->conv) g->conv = new_plans(d, &m->p->gemms[gemm], align);
    pthread_mutex_unlock(&d->lock);
    int n = 0;
    for (; g->conv && n < g->conv->n && n < most; n++) {
        out[n] = (LtResult){.workspace = g->conv->workspace[n], .state = LT_OK};
        out[n].algo.data[0] = (uint64_t)n;
        out[n].algo.data[1] = (uint64_t)g->conv->engine[n];
    }
    return n;
}

void cuda_conv_free(CudaDevice *d, CudaConv *v)
{
    for (int i = 0; v && i < v->n; i++) d->dnn.desc_destroy(v->plan[i]);
    free(v);
}

// Zeros for all parts of the result but the first.
static RtCode zero_parts(CudaDevice *d, const ProgGemm *p, const RtSlot *slots, CuStream s,
                         RtError *e)
{
    int64_t all;
    if (p->conv.parts < 2 || !prog_gemm_elements(p, 2, &all)) return RT_OK;
    const size_t bytes = (size_t)all * (size_t)prog_dtype_bytes(p->c_type),
                 first = bytes / (size_t)p->conv.parts;
    CU_AT(d, e, p->name, p->loc, memset_u8((uintptr_t)slots[2].p + first, 0, bytes - first, s));
    return RT_OK;
}

RtCode cuda_conv_call(CudaDevice *d, const ProgGemm *p, CudaGemm *g, const RtSlot *slots,
                      CuStream s, RtError *e)
{
    const Cudnn *l = &d->dnn;
    const int64_t ids[] = {'w', 'x', 'y'};
    const int plan = (int)g->algo.data[0];
    void *data[3], *workspace = slots[3].p;
    if (!g->conv || plan >= g->conv->n) return rt_fail(e, RT_ENV, "no plan for a convolution");
    for (int i = 0; i < 3; i++) data[i] = slots[prog_conv_operand(&p->conv, (char)ids[i])].p;
    bool ok = true;
    DnnDesc pointers = create(l, &ok, DNN_POINTERS);
    set(l, &ok, pointers, DNN_POINTERS_IDS, DNN_TYPE_I64, 3, ids);
    set(l, &ok, pointers, DNN_POINTERS_DATA, DNN_TYPE_POINTER, 3, data);
    set(l, &ok, pointers, DNN_POINTERS_WORKSPACE, DNN_TYPE_POINTER, 1, &workspace);
    finalize(l, &ok, pointers);
    DnnStatus r = 1;
    pthread_mutex_lock(&d->lock);
    if (ok) r = l->set_stream(d->dnn_handle, s);
    if (ok && !r) r = l->execute(d->dnn_handle, g->conv->plan[plan], pointers);
    pthread_mutex_unlock(&d->lock);
    if (pointers) l->desc_destroy(pointers);
    if (r != DNN_OK)
        return rt_fail(e, RT_ENV, "%s: cuDNN %zu: %s\n  convolution %s%s%s", d->base.name,
                       l->number, l->status_name(r), p->name, *p->loc ? ", " : "", p->loc);
    return zero_parts(d, p, slots, s, e);
}
