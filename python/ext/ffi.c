// Entries called by XLA through its FFI, from compiled JAX code, on threads that XLA chooses.
//
// XLA passes a frame with buffers and with the key under which python/netc/_jax.py has registered
// the entry. The declarations of XLA's C interface (xla/ffi/api/c_api.h, version 0.x, which
// promises to stay compatible) are only those that are used.
#include <string.h>

#include "python/ext/entry.h"

typedef struct XlaExtension {
    size_t size;
    int type; // 1: metadata are asked for
    struct XlaExtension *next;
} XlaExtension;
typedef struct XlaVersion {
    size_t size;
    XlaExtension *extension;
    int major, minor;
} XlaVersion;
typedef struct XlaMetadata {
    size_t size;
    XlaVersion version;
    uint32_t traits; // 1: may be captured in a CUDA graph
} XlaMetadata;
typedef struct XlaMetadataExtension {
    XlaExtension base;
    XlaMetadata *metadata;
} XlaMetadataExtension;
typedef struct XlaErrorArgs {
    size_t size;
    XlaExtension *extension;
    const char *message;
    int code;
} XlaErrorArgs;
typedef struct XlaStreamArgs {
    size_t size;
    XlaExtension *extension;
    void *context, *stream;
} XlaStreamArgs;
typedef struct XlaBuffer {
    size_t size;
    XlaExtension *extension;
    int dtype;
    void *data;
    int64_t rank, *dims;
} XlaBuffer;
typedef struct XlaSpan {
    const char *at;
    size_t n;
} XlaSpan;
typedef struct XlaScalar {
    int dtype;
    void *value;
} XlaScalar;
typedef struct XlaList { // arguments and results
    size_t size;
    XlaExtension *extension;
    int64_t n;
    int *types; // 1: a buffer
    void **at;
} XlaList;
typedef struct XlaAttrs {
    size_t size;
    XlaExtension *extension;
    int64_t n;
    int *types; // 3: a scalar
    XlaSpan **names;
    void **at;
} XlaAttrs;
typedef struct XlaApi {
    size_t size;
    XlaExtension *extension;
    XlaVersion version;
    const void *internal;
    void *(*error_create)(XlaErrorArgs *args);
    void *unused[3];
    void *(*stream_get)(XlaStreamArgs *args);
} XlaApi;
typedef struct XlaFrame {
    size_t size;
    XlaExtension *extension;
    const XlaApi *api;
    void *context;
    int stage;
    XlaList args, results;
    XlaAttrs attrs;
} XlaFrame;
enum { XLA_EXECUTE = 3, XLA_INVALID = 3, XLA_S64 = 5, XLA_SCALAR = 3 };

static void *fail(const XlaFrame *f, int code, const char *text)
{
    XlaErrorArgs a = {.message = text, .code = code};
    a.size = offsetof(XlaErrorArgs, code) + sizeof a.code; // as XLA counts it
    return f->api->error_create(&a);
}

// The exception that is set, as XLA's error, which JAX raises again as one of its own.
static void *fail_raised(const XlaFrame *f)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    void *e = fail(f, XLA_INVALID, utf8 ? utf8 : "netc: the call failed");
    Py_XDECREF(text), Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    PyErr_Clear();
    return e;
}

static bool netc_type(int xla, netc_dtype *out)
{
    static const struct {
        int xla;
        netc_dtype type;
    } types[] = {{1, NETC_BOOL},  {6, NETC_U8},   {4, NETC_I32},  {8, NETC_U32}, {5, NETC_I64},
                 {16, NETC_BF16}, {10, NETC_F16}, {11, NETC_F32}, {12, NETC_F64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].xla == xla) return *out = types[i].type, true;
    return false;
}

static bool tensor(State *s, const XlaList *list, int64_t i, bool on_device, netc_tensor *out)
{
    const XlaBuffer *b = list->at[i];
    if (list->types[i] != 1 || b->rank > 8 || !netc_type(b->dtype, &out->dtype))
        return raise_text(s, "number %d is not a tensor that netc can take", (int)i), false;
    out->rank = (int)b->rank;
    for (int64_t k = 0; k < b->rank; k++) out->dim[k] = b->dims[k];
    out->data = b->data;
    out->on_device = on_device;
    return true;
}

// The key's entry, a new reference; NULL: an exception is set.
static Entry *registered(State *s, const XlaAttrs *attrs)
{
    for (int64_t i = 0; i < attrs->n; i++) {
        const XlaScalar *v = attrs->at[i];
        if (attrs->names[i]->n != 3 || memcmp(attrs->names[i]->at, "key", 3) ||
            attrs->types[i] != XLA_SCALAR || v->dtype != XLA_S64)
            continue;
        PyObject *key = PyLong_FromLongLong(*(const int64_t *)v->value);
        PyObject *e = key ? PyDict_GetItemWithError(s->called, key) : NULL;
        Py_XINCREF(e);
        Py_XDECREF(key);
        if (e || PyErr_Occurred()) return (Entry *)e;
    }
    raise_text(s, "the result of m.jax() for this call no longer exists: keep it as long as what "
                  "was compiled from it");
    return NULL;
}

// How XLA calls: a GPU's entry may be IN_GRAPHS, which XLA captures on a stream, as often as it
// likes, and launches side by side where it sees no buffer that two calls share. So it provides the
// temporaries of these, as the last result.
typedef enum Kind { ON_CPU, ON_GPU, IN_GRAPHS } Kind;

static netc_status bind_temporaries(const Entry *e, const XlaBuffer *b, netc_error **err)
{
    enum { ALIGN = 256 };
    size_t bytes = (size_t)b->dims[0], shift = -(uintptr_t)b->data % ALIGN;
    return netc_bind_temporaries(e->model->session, e->utf8, (char *)b->data + shift, bytes - shift,
                                 err);
}

static void *run_frame(State *s, const XlaFrame *f, Kind kind)
{
    bool cuda = kind != ON_CPU;
    Entry *e = registered(s, &f->attrs);
    if (!e) return fail_raised(f);
    Call c;
    void *error = NULL;
    char device[40];
    bool ok = model_enter(e->model, false);
    if (ok) {
        ok = call_begin(e, &c);
        if (ok && (strcmp(model_device(e->model, device, sizeof device), "cpu") != 0) != cuda)
            ok = false, raise_text(s, "'%s' runs on %s, JAX calls it from %s", e->utf8, device,
                                   cuda ? "a GPU" : "the CPU");
        if (ok && (f->args.n != e->nin || f->results.n != e->nout + (kind == IN_GRAPHS)))
            ok = false, raise_text(s, "'%s' has another number of inputs or outputs", e->utf8);
        XlaStreamArgs a = {.size = sizeof a, .context = f->context};
        if (ok && cuda) error = f->api->stream_get(&a);
        for (; ok && c.nin < e->nin; c.nin++) {
            c.in[c.nin] = (Taken){.wait = cuda, .work = cuda, .stream = a.stream};
            ok = tensor(s, &f->args, c.nin, cuda, &c.in[c.nin].t);
        }
        for (; ok && c.nout < e->nout; c.nout++) {
            c.out[c.nout] = (Result){.given = {.wait = cuda, .work = cuda, .stream = a.stream}};
            ok = tensor(s, &f->results, c.nout, cuda, &c.out[c.nout].to);
        }
        if (ok && !error && kind == IN_GRAPHS)
            ok = bind_temporaries(e, f->results.at[e->nout], &c.error) == NETC_OK;
        if (ok && !error && call_run(e, &c) != NETC_OK) ok = false;
        if (kind == IN_GRAPHS) netc_bind_temporaries(e->model->session, e->utf8, NULL, 0, NULL);
        call_end(s, &c);
        model_leave(e->model);
        if (c.error) raise_error(s, c.error);
    }
    Py_DECREF(e);
    return ok || error ? error : fail_raised(f);
}

static void *handle(XlaFrame *f, Kind kind)
{
    for (XlaExtension *x = f->extension; x; x = x->next) {
        if (x->type != 1) continue;
        XlaMetadata *m = ((XlaMetadataExtension *)x)->metadata;
        m->version.major = f->api->version.major;
        m->version.minor = f->api->version.minor;
        m->traits = kind == IN_GRAPHS;
        return NULL;
    }
    if (f->stage != XLA_EXECUTE) return NULL;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("netc._netc");
    void *error = module ? run_frame(PyModule_GetState(module), f, kind) : fail_raised(f);
    Py_XDECREF(module);
    PyGILState_Release(gil);
    return error;
}

static void *handle_cpu(XlaFrame *f)
{
    return handle(f, ON_CPU);
}

static void *handle_cuda(XlaFrame *f)
{
    return handle(f, ON_GPU);
}

static void *handle_graphs(XlaFrame *f)
{
    return handle(f, IN_GRAPHS);
}

PyObject *ffi_handlers(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    PyObject *cpu = PyCapsule_New((void *)(uintptr_t)handle_cpu, NULL, NULL);
    PyObject *cuda = PyCapsule_New((void *)(uintptr_t)handle_cuda, NULL, NULL);
    PyObject *graphs = PyCapsule_New((void *)(uintptr_t)handle_graphs, NULL, NULL);
    PyObject *all = cpu && cuda && graphs ? PyTuple_Pack(3, cpu, cuda, graphs) : NULL;
    Py_XDECREF(cpu), Py_XDECREF(cuda), Py_XDECREF(graphs);
    return all;
}
