// Tensors from Python objects without a copy: by the buffer protocol (NumPy, array, memoryview) or
// by DLPack (torch, jax, cupy); lists and numbers are converted to an array first.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "python/ext/py.h"

static const struct {
    uint8_t code, bits;
} dl_types[] = {
    [NETC_BOOL] = {6, 8}, [NETC_U8] = {1, 8},   [NETC_I32] = {0, 32},
    [NETC_U32] = {1, 32}, [NETC_I64] = {0, 64}, [NETC_BF16] = {4, 16},
    [NETC_F16] = {2, 16}, [NETC_F32] = {2, 32}, [NETC_F64] = {2, 64},
};

bool dl_type(netc_dtype t, uint8_t *code, uint8_t *bits)
{
    if ((unsigned)t > NETC_F64) return false;
    *code = dl_types[t].code;
    *bits = dl_types[t].bits;
    return true;
}

static size_t dims_text(char *out, size_t n, int rank, const int64_t *dim)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < rank && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%" PRId64, i ? ", " : "", dim[i]);
    return at;
}

char *type_text(char *out, size_t n, netc_dtype t, int rank, const int64_t *dim)
{
    char dims[200];
    dims_text(dims, sizeof dims, rank, dim);
    snprintf(out, n, "%s[%s]", netc_dtype_name(t), dims);
    return out;
}

PyObject *shape_tuple(const netc_port *p)
{
    PyObject *t = PyTuple_New(p->rank);
    for (int i = 0; t && i < p->rank; i++) {
        PyObject *n = PyLong_FromLongLong(p->dim[i]);
        if (!n || PyTuple_SetItem(t, i, n)) {
            Py_DECREF(t);
            return NULL;
        }
    }
    return t;
}

// Whoever exported it may run Python when it is given back: not over an exception.
void taken_release(State *s, Taken *t)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (t->viewed) s->buffers.release(&t->view);
    t->viewed = false;
    Py_CLEAR(t->keep);
    PyErr_Restore(type, value, trace);
}

static const char *wanted(const Wish *want, char *text, size_t n)
{
    const netc_port *p = want->port;
    return p ? type_text(text, n, p->dtype, p->rank, p->dim) : "of a type that netc has";
}

// Row-major without gaps, and aligned to its elements. strides: in bytes, or NULL.
static bool is_dense(State *s, const char *what, const Taken *t, const int64_t *strides)
{
    int64_t size = (int64_t)netc_dtype_size(t->t.dtype), want[8], step = size;
    bool dense = true, empty = false;
    for (int i = t->t.rank - 1; i >= 0; i--) {
        want[i] = step;
        dense = dense && (!strides || strides[i] == step || t->t.dim[i] == 1);
        empty = empty || !t->t.dim[i];
        step *= t->t.dim[i];
    }
    if (!dense && !empty) {
        char have[200], text[200];
        dims_text(have, sizeof have, t->t.rank, strides);
        dims_text(text, sizeof text, t->t.rank, want);
        raise_text(s,
                   "%s has strides of (%s) bytes; it must be dense and row-major, (%s): copy it "
                   "first (numpy.ascontiguousarray, torch's contiguous())",
                   what, have, text);
        return false;
    }
    if (!t->t.on_device && (uintptr_t)t->t.data % (uintptr_t)size) {
        raise_text(s, "%s is not aligned to its elements' %d bytes: copy it first", what,
                   (int)size);
        return false;
    }
    return true;
}

// -- buffers --------------------------------------------------------------------------------------

static bool format_type(const char *f, Py_ssize_t size, netc_dtype *out)
{
    if (!f) f = "B";
    const uint16_t one = 1;
    bool little = *(const uint8_t *)&one;
    if (*f == '@' || *f == '=' || *f == (little ? '<' : '>')) f++;
    if (!*f || f[1]) return false;
    switch (*f) {
    case '?': *out = NETC_BOOL; return size == 1;
    case 'B': *out = NETC_U8; return size == 1;
    case 'e': *out = NETC_F16; return size == 2;
    case 'f': *out = NETC_F32; return size == 4;
    case 'd': *out = NETC_F64; return size == 8;
    case 'i':
    case 'l':
    case 'q': *out = size == 4 ? NETC_I32 : NETC_I64; return size == 4 || size == 8;
    case 'I':
    case 'L': *out = NETC_U32; return size == 4;
    default: return false;
    }
}

// The 16-bit float nearest to v, ties to even; of an exponent of 5 bits (f16) or 8 (bf16).
static uint16_t rounded(float v, bool f16)
{
    uint32_t u, sign, size;
    memcpy(&u, &v, sizeof u);
    sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | (f16 ? 0x7e00 : 0x7fc0)); // NaN
    if (!f16) return (uint16_t)(sign | (size + 0x7fff + (size >> 16 & 1)) >> 16);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) // no subnormal
        return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
    float half; // the sum's last bit is one of the subnormals
    memcpy(&half, &size, sizeof half);
    half += 0.5f;
    memcpy(&u, &half, sizeof u);
    return (uint16_t)(sign | (u - 0x3f000000));
}

// f32 given for an input of 16-bit floats: a rounded copy of it, as of files (NumPy has no bf16).
static bool round_floats(State *s, const char *what, const netc_port *p, Taken *out)
{
    const float *from = out->t.data;
    const bool f16 = p->dtype == NETC_F16;
    Py_ssize_t n = 1;
    for (int i = 0; i < out->t.rank; i++) n *= (Py_ssize_t)out->t.dim[i];
    PyObject *made = PyBytes_FromStringAndSize(NULL, 2 * n);
    uint16_t *to = made ? (uint16_t *)PyBytes_AsString(made) : NULL;
    if (!to) return Py_XDECREF(made), false;
    for (Py_ssize_t i = 0; i < n; i++) {
        to[i] = rounded(from[i], f16);
        const bool infinite = (to[i] & 0x7fff) == (f16 ? 0x7c00 : 0x7f80);
        if (!infinite || from[i] - from[i] != 0) continue;
        Py_DECREF(made);
        raise_text(s, "%s: %.9g is too large for %s", what, (double)from[i], f16 ? "f16" : "bf16");
        return false;
    }
    s->buffers.release(&out->view);
    out->viewed = false;
    out->keep = made;
    out->t.data = to;
    out->t.dtype = p->dtype;
    return true;
}

static bool take_buffer(State *s, PyObject *o, const char *what, const Wish *want, Taken *out)
{
    char text[300];
    int flags = BUF_FORMAT | BUF_ND | BUF_STRIDES | (want->write ? BUF_WRITABLE : 0);
    if (s->buffers.get(o, &out->view, flags)) {
        if (!want->write) return false;
        PyErr_Clear();
        raise_text(s, "%s cannot be written to", what);
        return false;
    }
    out->viewed = true;
    const PyBuf *v = &out->view;
    if (v->ndim > 8)
        return raise_text(s, "%s has %d axes; at most 8 are taken", what, v->ndim), false;
    if (!format_type(v->format, v->itemsize, &out->t.dtype)) {
        raise_text(s, "%s must be %s; the array given has elements of the kind '%s' (%d bytes)",
                   what, wanted(want, text, sizeof text), v->format ? v->format : "B",
                   (int)v->itemsize);
        return false;
    }
    int64_t strides[8];
    out->t.rank = v->ndim;
    out->t.data = v->buf;
    for (int i = 0; i < v->ndim; i++) {
        out->t.dim[i] = v->shape[i];
        strides[i] = v->strides ? v->strides[i] : 0;
    }
    if (!is_dense(s, what, out, v->strides ? strides : NULL)) return false;
    const netc_port *p = want->write ? NULL : want->port;
    if (out->t.dtype == NETC_F32 && p && (p->dtype == NETC_BF16 || p->dtype == NETC_F16))
        return round_floats(s, what, p, out);
    return true;
}

// -- DLPack ---------------------------------------------------------------------------------------

static bool same_device(State *s, const char *what, int type, int id, const char *device)
{
    char have[40];
    bool cuda = type == DL_CUDA;
    if (type == DL_CPU || type == DL_CUDA_HOST) return true;
    snprintf(have, sizeof have, "%s%d", cuda ? "cuda:" : "a device of DLPack's kind ",
             cuda ? id : type);
    if (!device) {
        raise_text(s, "%s is on %s and must be in the host's memory: copy it there first", what,
                   have);
        return false;
    }
    if (cuda && !strcmp(have, device)) return true;
    raise_text(s, "%s is on %s, the model runs on %s: move it there first", what, have, device);
    return false;
}

// o.__dlpack__(...), of an older producer without the versions that we take. cuda: to be ready on
// the stream that we use, or on the default one, which is 1 here.
static PyObject *capsule(State *s, PyObject *o, bool cuda, const Wish *want)
{
    PyObject *method = PyObject_GetAttr(o, s->dlpack), *none = PyTuple_New(0), *c = NULL;
    PyObject *keywords = PyDict_Copy(s->versions),
             *stream = cuda ? PyLong_FromUnsignedLongLong(want->stream ? want->stream : 1) : NULL;
    bool ready = method && none && keywords && (!cuda || stream);
    if (ready && (!cuda || !PyDict_SetItemString(keywords, "stream", stream))) {
        c = PyObject_Call(method, none, keywords);
        if (!c && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (!PyDict_DelItemString(keywords, "max_version"))
                c = PyObject_Call(method, none, keywords);
        }
    }
    Py_XDECREF(method), Py_XDECREF(none), Py_XDECREF(keywords), Py_XDECREF(stream);
    return c;
}

// read_only: as its producer says, where it can.
static const DlTensor *inside(PyObject *c, bool *read_only)
{
    *read_only = false;
    if (PyCapsule_IsValid(c, "dltensor")) {
        DlManaged *m = PyCapsule_GetPointer(c, "dltensor");
        return &m->tensor;
    }
    if (!PyCapsule_IsValid(c, "dltensor_versioned")) return NULL;
    DlVersioned *m = PyCapsule_GetPointer(c, "dltensor_versioned");
    *read_only = m->flags & 1;
    return m->major == 1 ? &m->tensor : NULL;
}

static bool take_dltensor(State *s, const DlTensor *d, const char *what, const Wish *want,
                          Taken *out)
{
    char text[300];
    int64_t strides[8];
    int type = 0;
    if (d->ndim < 0 || d->ndim > 8)
        return raise_text(s, "%s has %d axes; at most 8 are taken", what, (int)d->ndim), false;
    while (type <= NETC_F64 && (dl_types[type].code != d->code || dl_types[type].bits != d->bits))
        type++;
    if (type > NETC_F64 || d->lanes != 1) {
        raise_text(s,
                   "%s must be %s; the tensor given has elements of the DLPack type (%d, %d bits, "
                   "%d lanes)",
                   what, wanted(want, text, sizeof text), d->code, d->bits, d->lanes);
        return false;
    }
    if (!same_device(s, what, d->device_type, d->device_id, want->device)) return false;
    out->t.dtype = (netc_dtype)type;
    out->t.rank = d->ndim;
    out->t.data = d->data ? (char *)d->data + d->byte_offset : NULL;
    out->t.on_device = d->device_type == DL_CUDA;
    for (int i = 0; i < d->ndim; i++) {
        out->t.dim[i] = d->shape[i];
        strides[i] = d->strides ? d->strides[i] * (d->bits / 8) : 0;
    }
    return is_dense(s, what, out, d->strides ? strides : NULL);
}

static bool take_dlpack(State *s, PyObject *o, const char *what, const Wish *want, Taken *out)
{
    PyObject *where = PyObject_CallMethodObjArgs(o, s->dlpack_device, NULL);
    int type, id;
    bool known = where && PyTuple_Check(where) && PyArg_ParseTuple(where, "ii", &type, &id);
    if (where && !PyTuple_Check(where))
        raise_text(s, "%s: __dlpack_device__ gave no pair of numbers", what);
    Py_XDECREF(where);
    if (!known || !same_device(s, what, type, id, want->device)) return false;
    out->keep = capsule(s, o, type == DL_CUDA, want); // which owns the tensor until it is freed
    if (!out->keep) return false;
    bool read_only;
    const DlTensor *d = inside(out->keep, &read_only);
    if (d && read_only && want->write) {
        raise_text(s, "%s cannot be written to", what);
        return false;
    }
    if (d) {
        out->wait = type == DL_CUDA && !want->stream;
        return take_dltensor(s, d, what, want, out);
    }
    raise_text(s, "%s: __dlpack__ gave no DLPack tensor of a version that is known here", what);
    return false;
}

// -- DLPack's C functions (1.3), which a library's type of tensors has -------------------------------

typedef struct DlExchange {
    uint32_t major, minor;
    void *before, *allocate, *export, *import;
    int (*view)(void *o, DlTensor *out); // may be NULL; as long as o and its tensor are there
    int (*work_stream)(int device_type, int32_t device, void **stream);
} DlExchange;

// Those of o's type, or NULL. What the last type has, and is, is remembered.
static const DlExchange *exchange_of(State *s, PyObject *o)
{
    PyObject *type = (PyObject *)Py_TYPE(o);
    if (type == s->exchange_type) return s->exchange;
    PyObject *c = PyObject_GetAttr(type, s->dlpack_exchange);
    const DlExchange *x = c && PyCapsule_IsValid(c, "dlpack_exchange_api")
                              ? PyCapsule_GetPointer(c, "dlpack_exchange_api")
                              : NULL;
    PyErr_Clear();
    Py_XDECREF(c);
    if (x && (x->major != 1 || !x->view)) x = NULL;
    PyObject *before = s->exchange_type;
    Py_INCREF(type);
    s->exchange_type = type;
    s->exchange = x;
    s->masked = PyObject_HasAttr(type, s->harden_mask);
    Py_XDECREF(before);
    return x;
}

static bool take_exchanged(State *s, const DlExchange *x, PyObject *o, const char *what,
                           const Wish *want, Taken *out)
{
    DlTensor d;
    if (x->view(o, &d)) return false;
    Py_INCREF(o);
    out->keep = o;
    if (!take_dltensor(s, &d, what, want, out)) return false;
    if (!out->t.on_device) return true;
    if (x->work_stream(d.device_type, d.device_id, &out->stream)) return false;
    out->wait = out->work = true;
    return true;
}

// -- whatever is given ----------------------------------------------------------------------------

// A list, a number, or an array of a kind that neither protocol has.
static bool convert(State *s, PyObject *o, const char *what, const Wish *want, Taken *out)
{
    char text[300];
    const netc_port *p = want->port; // (NULL: only an array is taken)
    PyObject *made =
        want->write ? Py_NewRef(o)
                    : PyObject_CallFunction(s->convert, "Ossi", o, what,
                                            p ? netc_dtype_name(p->dtype) : "", p ? p->rank : 0);
    if (!made) return false;
    if (made == o && (!p || want->write)) {
        Py_DECREF(made);
        raise_text(s, "%s is not an array; numpy.asarray(…) makes one from lists", what);
        return false;
    }
    if (made == o || (!s->buffers.check(made) && !PyObject_HasAttr(made, s->dlpack))) {
        Py_DECREF(made);
        raise_text(s, "%s must be %s; what was given is not an array", what,
                   wanted(want, text, sizeof text));
        return false;
    }
    bool ok = take(s, made, what, want, out);
    if (!ok || out->viewed) {
        Py_DECREF(made); // a view keeps it
    } else {
        PyObject *both = PyTuple_Pack(2, made, out->keep);
        Py_DECREF(made);
        if (!both) return taken_release(s, out), false;
        Py_DECREF(out->keep);
        out->keep = both;
    }
    return ok;
}

bool take(State *s, PyObject *o, const char *what, const Wish *want, Taken *out)
{
    *out = (Taken){0};
    bool ok = false;
    const DlExchange *x = exchange_of(s, o);
    if (s->masked) { // its memory holds the masked elements, too
        raise_text(s,
                   "%s is a masked array, whose mask would be ignored: give the elements that are "
                   "meant, such as a.filled(0), or a.data for all",
                   what);
    } else if (x) {
        ok = take_exchanged(s, x, o, what, want, out);
    } else if (s->buffers.check(o)) {
        ok = take_buffer(s, o, what, want, out);
        // An array of a type that the protocol cannot say, such as bfloat16, has no buffer.
        bool other =
            !ok && !out->viewed &&
            (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_BufferError));
        // NumPy's numbers have buffers, too, and are converted as Python's are.
        bool number = ok && want->port && !want->write && !out->t.rank && out->view.readonly &&
                      out->t.dtype != want->port->dtype;
        if (!other && !number) goto done;
        if (number) taken_release(s, out), *out = (Taken){0};
        PyErr_Clear();
        ok = PyObject_IsInstance(o, s->array_type) == 1 ? take_dlpack(s, o, what, want, out)
                                                        : convert(s, o, what, want, out);
    } else if (PyObject_HasAttr(o, s->dlpack)) {
        ok = take_dlpack(s, o, what, want, out);
    } else {
        ok = convert(s, o, what, want, out);
    }
done:
    if (!ok) taken_release(s, out);
    return ok;
}
