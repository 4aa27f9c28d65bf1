// libcudnn of the shim: convolutions through the backend API, as loops in double precision. Its
// heuristic proposes, best first, an engine that adds in varying order, one that compiles code, one
// that rounds f32, and one that does none of this; netc must leave out the first two, and without
// TF32 the third.
//
// SHIM_DNN=fast or slow: how fast it says to be. none: it proposes nothing. broken: calls fail.
// wrong: results are of images a pixel further on.
#include <stdlib.h>

#include "tests/shim/element.h"
#include "tests/shim/shim.h"

enum { BAD_PARAM = 2000, NOT_SUPPORTED = 3000, FAILED = 5000 };
enum { VARYING, COMPILED, ROUNDED, PLAIN, ENGINES };
enum { MOST = 8 };

// A descriptor: its attributes as they were set, each up to MOST values of 8 bytes.
typedef struct Value {
    int attribute, type;
    int64_t n;
    union {
        int64_t i[MOST];
        void *p[MOST];
        int e[MOST];
        float f[MOST];
    };
    struct Value *next;
} Value;

typedef struct Desc {
    int kind, engine;
    bool ready, owns; // owns: the descriptors among its values are copies of its own
    Value *values;
} Desc;

static bool is_mode(const char *mode)
{
    const char *is = getenv("SHIM_DNN");
    return is && !strcmp(is, mode);
}

size_t cudnnGetVersion(void)
{
    return 99900;
}

const char *cudnnGetErrorString(DnnStatus s)
{
    return s == DNN_OK          ? "CUDNN_STATUS_SUCCESS"
           : s == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
           : s == BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
                                : "CUDNN_STATUS_EXECUTION_FAILED";
}

typedef struct Handle {
    CuStream stream;
} Handle;

DnnStatus cudnnCreate(DnnHandle *h)
{
    *h = calloc(1, sizeof(Handle));
    return *h ? DNN_OK : FAILED;
}

DnnStatus cudnnDestroy(DnnHandle h)
{
    free(h);
    return DNN_OK;
}

DnnStatus cudnnSetStream(DnnHandle h, CuStream s)
{
    ((Handle *)h)->stream = s;
    return DNN_OK;
}

// -- descriptors ----------------------------------------------------------------------------------

DnnStatus cudnnBackendCreateDescriptor(int kind, DnnDesc *out)
{
    Desc *d = calloc(1, sizeof *d);
    if (!d) return FAILED;
    d->kind = kind;
    *out = d;
    return DNN_OK;
}

static void free_values(Value *v, bool deep)
{
    for (Value *next; v; v = next) {
        next = v->next;
        for (int64_t i = 0; i < v->n && deep && v->type == DNN_TYPE_DESC; i++) {
            free_values(((Desc *)v->p[i])->values, true);
            free(v->p[i]);
        }
        free(v);
    }
}

DnnStatus cudnnBackendDestroyDescriptor(DnnDesc desc)
{
    Desc *d = desc;
    free_values(d->values, d->owns);
    free(d);
    return DNN_OK;
}

static const Value *find(const Desc *d, int attribute)
{
    for (const Value *v = d->values; v; v = v->next)
        if (v->attribute == attribute) return v;
    return NULL;
}

static size_t value_bytes(int type)
{
    return type == DNN_TYPE_I64 || type == DNN_TYPE_DESC || type == DNN_TYPE_POINTER ||
                   type == DNN_TYPE_HANDLE
               ? 8
               : 4;
}

DnnStatus cudnnBackendSetAttribute(DnnDesc desc, int attribute, int type, int64_t n,
                                   const void *values)
{
    Desc *d = desc;
    Value *v = calloc(1, sizeof *v);
    if (!v || d->ready || n < 1 || n > MOST) return free(v), BAD_PARAM;
    v->attribute = attribute;
    v->type = type;
    v->n = n;
    memcpy(v->i, values, (size_t)n * value_bytes(type));
    v->next = d->values;
    d->values = v;
    return DNN_OK;
}

// Copies of values with the descriptors among them, which the caller may destroy.
static Value *copy_of(const Value *v)
{
    Value *first = NULL;
    for (; v; v = v->next) {
        Value *w = malloc(sizeof *w);
        if (!w) abort();
        *w = *v;
        for (int64_t i = 0; i < v->n && v->type == DNN_TYPE_DESC; i++) {
            Desc *d = malloc(sizeof *d);
            if (!d) abort();
            *d = *(Desc *)v->p[i];
            d->values = copy_of(d->values);
            w->p[i] = d;
        }
        w->next = first;
        first = w;
    }
    return first;
}

DnnStatus cudnnBackendFinalize(DnnDesc desc)
{
    Desc *d = desc;
    if (d->ready) return BAD_PARAM;
    for (const Value *v = d->values; v; v = v->next)
        for (int64_t i = 0; i < v->n && v->type == DNN_TYPE_DESC; i++)
            if (!((Desc *)v->p[i])->ready) return BAD_PARAM;
    if (d->kind == DNN_HEURISTIC && is_mode("none")) return NOT_SUPPORTED;
    Value *set = d->values;
    d->values = copy_of(set);
    free_values(set, false);
    if (d->kind == DNN_PLAN) d->engine = ((Desc *)find(d, DNN_PLAN_CONFIG)->p[0])->engine;
    d->ready = d->owns = true;
    return DNN_OK;
}

DnnStatus cudnnBackendGetAttribute(DnnDesc desc, int attribute, int type, int64_t room, int64_t *n,
                                   void *values)
{
    const Desc *d = desc;
    (void)type;
    if (!d->ready && d->kind != DNN_ENGINE) return BAD_PARAM;
    if (d->kind == DNN_HEURISTIC && attribute == DNN_HEURISTIC_RESULTS) {
        Desc *const *to = values;
        for (*n = 0; *n < ENGINES && *n < room; ++*n) {
            to[*n]->engine = (int)*n;
            to[*n]->ready = to[*n]->owns = true;
            to[*n]->values = copy_of(d->values); // its graph
        }
        return DNN_OK;
    }
    if (d->kind == DNN_CONFIG && attribute == DNN_CONFIG_ENGINE) {
        (*(Desc *const *)values)->engine = d->engine;
        *n = 1;
        return DNN_OK;
    }
    if (d->kind == DNN_ENGINE && attribute == DNN_ENGINE_NUMBER) {
        *(int64_t *)values = d->engine;
        *n = 1;
        return DNN_OK;
    }
    if (d->kind == DNN_ENGINE) {
        const bool numerics = attribute == DNN_ENGINE_NUMERICS;
        *n = numerics ? d->engine == VARYING || d->engine == ROUNDED : d->engine == COMPILED;
        if (*n)
            *(int *)values = !numerics              ? DNN_COMPILES
                             : d->engine == VARYING ? DNN_ANY_ORDER
                                                    : DNN_TENSOR_CORES;
        return DNN_OK;
    }
    if (d->kind == DNN_PLAN && attribute == DNN_PLAN_WORKSPACE) {
        *(int64_t *)values = d->engine == PLAIN ? 4096 : 0;
        *n = 1;
        return DNN_OK;
    }
    return BAD_PARAM;
}

// -- a convolution --------------------------------------------------------------------------------

typedef struct Tensor {
    int type;
    int64_t n, c, size[3], step[5]; // step: of n, c, spatial axes
    char *p;
} Tensor;

typedef struct Conv {
    int kind, axes;
    Tensor w, x, y;
    int64_t before[3], after[3], step[3], dilation[3];
    char *workspace;
    int64_t workspace_bytes;
} Conv;

static Tensor tensor_of(const Desc *d, const Desc *pointers)
{
    const Value *size = find(d, DNN_TENSOR_SIZES), *step = find(d, DNN_TENSOR_STEPS),
                *ids = find(pointers, DNN_POINTERS_IDS), *data = find(pointers, DNN_POINTERS_DATA);
    const int type = find(d, DNN_TENSOR_TYPE)->e[0];
    Tensor t = {.type = type == DNN_BF16  ? LT_BF16
                        : type == DNN_F16 ? LT_F16
                                          : LT_F32,
                .n = size->i[0],
                .c = size->i[1],
                .size = {1, 1, 1}};
    memcpy(t.step, step->i, (size_t)step->n * 8);
    memcpy(t.size, size->i + 2, (size_t)(size->n - 2) * 8);
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->i[i] == find(d, DNN_TENSOR_ID)->i[0]) t.p = data->p[i];
    return t;
}

// The offset of a pixel. at: spatial.
static int64_t offset(const Tensor *t, int axes, int64_t n, const int64_t *at)
{
    int64_t o = n * t->step[0];
    for (int i = 0; i < axes; i++) o += at[i] * t->step[2 + i];
    return o;
}

static size_t tensor_bytes(const Tensor *t)
{
    return (size_t)(t->n * t->c * t->size[0] * t->size[1] * t->size[2]) * width(t->type);
}

// Advances a position. false: it was the last one.
static bool next(int64_t *at, const int64_t *size)
{
    for (int i = 2; i >= 0; at[i--] = 0)
        if (++at[i] < size[i]) return true;
    return false;
}

// A tensor's elements, so that each is converted once.
static double *elements(const Tensor *t)
{
    const size_t n = tensor_bytes(t) / width(t->type);
    double *v = malloc((n + 1) * sizeof *v);
    if (!v) abort();
    for (size_t i = 0; i < n; i++) v[i] = get(t->type, t->p, (int64_t)i);
    return v;
}

// Adds products of the result's two factors for each of the channels, which are neighbours.
static void pixel(const Conv *c, double *const *v, int64_t b, const int64_t *o, const int64_t *t,
                  const int64_t *in)
{
    const int64_t zero = offset(&c->w, c->axes, 0, t), apart = c->w.step[0];
    double *y = v[2] + offset(&c->y, c->axes, b, o), *x = v[1] + offset(&c->x, c->axes, b, in);
    for (int64_t r = 0; r < c->y.c; r++) {
        double *w = v[0] + zero + r * apart, sum = 0;
        for (int64_t k = 0; k < c->x.c; k++)
            if (c->kind == DNN_FORWARD)
                sum += w[k] * x[k];
            else if (c->kind == DNN_BACKWARD_INPUT)
                x[k] += w[k] * y[r];
            else
                w[k] += x[k] * y[r];
        if (c->kind == DNN_FORWARD) y[r] += sum;
    }
}

// The convolution, written to [out].
static void convolve(const Conv *c, const Tensor *out, int further)
{
    const size_t n = tensor_bytes(out) / width(out->type);
    double *v[3], **sum = out == &c->w ? &v[0] : out == &c->x ? &v[1] : &v[2];
    for (int i = 0; i < 3; i++) {
        const Tensor *t = i == 0 ? &c->w : i == 1 ? &c->x : &c->y;
        v[i] = t == out ? calloc(n + 1, sizeof *v[i]) : elements(t);
        if (!v[i]) abort();
    }
    int64_t o[3] = {0};
    do {
        int64_t t[3] = {0};
        do {
            int64_t at[3] = {0};
            bool inside = true;
            for (int i = 0; i < c->axes; i++) {
                at[i] = o[i] * c->step[i] + t[i] * c->dilation[i] - c->before[i] + further;
                inside = inside && at[i] >= 0 && at[i] < c->x.size[i];
            }
            for (int64_t b = 0; inside && b < c->x.n; b++) pixel(c, v, b, o, t, at);
        } while (next(t, c->w.size));
    } while (next(o, c->y.size));
    for (size_t i = 0; i < n; i++) put(out->type, out->p, (int64_t)i, (*sum)[i]);
    for (int i = 0; i < 3; i++) free(v[i]);
}

// All that a result depends on except for its operands.
static Conv key_of(const Conv *c)
{
    Conv key;
    memcpy(&key, c, sizeof key); // (its padding, too)
    key.w.p = key.x.p = key.y.p = NULL;
    key.workspace = NULL;
    key.workspace_bytes = is_mode("wrong");
    return key;
}

static CuResult compute(void *arg)
{
    Conv *c = arg;
    Tensor *out = c->kind == DNN_FORWARD ? &c->y : c->kind == DNN_BACKWARD_INPUT ? &c->x : &c->w;
    Tensor *in[2] = {out == &c->w ? &c->x : &c->w, out == &c->y ? &c->x : &c->y};
    bool ok = shim_touch(in[0]->p, tensor_bytes(in[0]), false) &&
              shim_touch(in[1]->p, tensor_bytes(in[1]), false) &&
              shim_touch(out->p, tensor_bytes(out), true) &&
              (!c->workspace_bytes || shim_touch(c->workspace, (size_t)c->workspace_bytes, true));
    if (!ok) {
        shim_fault("cudnnBackendExecute reads or writes what is not its own, or was never written");
        return CU_FAULT_LAST;
    }
    double products = (double)(c->w.n * c->w.c * c->x.n);
    for (int i = 0; i < 3; i++) products *= (double)(c->y.size[i] * c->w.size[i]);
    shim_clock += is_mode("slow") ? 0.25 : is_mode("fast") ? 1e-5 : 2e-9 * products;
    Conv key = key_of(c);
    const Span result = {out->p, tensor_bytes(out)};
    const Span operands[] = {{in[0]->p, tensor_bytes(in[0])}, {in[1]->p, tensor_bytes(in[1])}};
    Recalled *call;
    if (shim_recall((Span){&key, sizeof key}, operands, 2, &result, 1, &call)) return CU_OK;
    convolve(c, out, is_mode("wrong"));
    shim_remember(call, &result, 1);
    return CU_OK;
}

DnnStatus cudnnBackendExecute(DnnHandle h, DnnDesc plan, DnnDesc pointers)
{
    const Desc *p = plan, *to = pointers;
    if (is_mode("broken") || !p->ready || !to->ready || p->engine == VARYING ||
        p->engine == COMPILED)
        return FAILED;
    const Desc *config = find(p, DNN_PLAN_CONFIG)->p[0],
               *graph = find(config, DNN_HEURISTIC_GRAPH)->p[0],
               *op = find(graph, DNN_GRAPH_OPERATIONS)->p[0];
    const int alpha = op->kind == DNN_FORWARD          ? DNN_FORWARD_ALPHA
                      : op->kind == DNN_BACKWARD_INPUT ? DNN_BACKWARD_INPUT_ALPHA
                                                       : DNN_BACKWARD_WEIGHT_ALPHA;
    if (find(op, alpha)->f[0] != 1 || find(op, alpha + 1)->f[0] != 0) return NOT_SUPPORTED;
    const Desc *conv = find(op, alpha + 2)->p[0];
    Conv *c = calloc(1, sizeof *c);
    if (!c) return FAILED;
    *c = (Conv){.kind = op->kind,
                .axes = (int)find(conv, DNN_CONV_AXES)->i[0],
                .w = tensor_of(find(op, alpha + 3)->p[0], to),
                .x = tensor_of(find(op, alpha + 4)->p[0], to),
                .y = tensor_of(find(op, alpha + 5)->p[0], to),
                .workspace = find(to, DNN_POINTERS_WORKSPACE)->p[0],
                .workspace_bytes = p->engine == PLAIN ? 4096 : 0};
    const struct {
        int attribute;
        int64_t *to;
    } sizes[] = {{DNN_CONV_BEFORE, c->before},
                 {DNN_CONV_AFTER, c->after},
                 {DNN_CONV_STEPS, c->step},
                 {DNN_CONV_DILATIONS, c->dilation}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        memcpy(sizes[i].to, find(conv, sizes[i].attribute)->i, (size_t)c->axes * 8);
    for (int i = 0; i < c->axes; i++)
        if ((c->x.size[i] + c->before[i] + c->after[i] - c->dilation[i] * (c->w.size[i] - 1) - 1) /
                        c->step[i] +
                    1 !=
                c->y.size[i] ||
            c->before[i] < 0 || c->after[i] < 0)
            return free(c), BAD_PARAM;
    if (c->w.step[1] != 1 || c->x.step[1] != 1 || c->y.step[1] != 1)
        return free(c), NOT_SUPPORTED; // channels are neighbours
    if (c->x.n != c->y.n || c->w.n != c->y.c || c->w.c != c->x.c) return free(c), BAD_PARAM;
    return shim_enqueue(((Handle *)h)->stream, compute, c) == CU_OK ? DNN_OK : FAILED;
}
