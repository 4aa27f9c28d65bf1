// An output's memory as a Python object, exported as a buffer and by DLPack. Each export keeps the
// memory alive without Python: a consumer may release it on any thread.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "python/ext/py.h"

typedef struct Block {
    atomic_int refs;
    netc_port type;
    Py_ssize_t shape[8], strides[8];
    int64_t dl_shape[8], dl_strides[8];
    _Alignas(64) unsigned char data[];
} Block;

typedef struct Array {
    PyObject_HEAD Block *block;
} Array;

static void drop(Block *b)
{
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) free(b);
}

static Py_ssize_t bytes_of(const netc_port *t)
{
    Py_ssize_t n = (Py_ssize_t)netc_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

PyObject *array_new(State *s, PyObject *class, const netc_port *type, void **data)
{
    (void)s;
    allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc);
    Array *a = (Array *)alloc((PyTypeObject *)class, 0);
    if (!a) return NULL;
    size_t whole = (sizeof(Block) + (size_t)bytes_of(type) + 63) / 64 * 64;
    Block *b = aligned_alloc(64, whole);
    if (!b) {
        Py_DECREF(a);
        return PyErr_NoMemory();
    }
    memset(b, 0, sizeof *b);
    atomic_init(&b->refs, 1);
    b->type = *type;
    b->type.name = NULL;
    int64_t step = 1;
    for (int i = type->rank - 1; i >= 0; i--) {
        b->dl_shape[i] = b->shape[i] = type->dim[i];
        b->dl_strides[i] = step;
        b->strides[i] = step * (Py_ssize_t)netc_dtype_size(type->dtype);
        step *= type->dim[i];
    }
    a->block = b;
    *data = b->data;
    return (PyObject *)a;
}

static void array_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    drop(((Array *)self)->block);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static Block *block_of(PyObject *self)
{
    Block *b = ((Array *)self)->block;
    if (!b)
        PyErr_SetString(PyExc_ValueError, "an array that was not made by a model has no memory");
    return b;
}

// -- the buffer protocol --------------------------------------------------------------------------

static int get_buffer(PyObject *self, PyBuf *view, int flags)
{
    // bf16 has no letter.
    static const char *const format[] = {
        [NETC_BOOL] = "?",  [NETC_U8] = "B",  [NETC_I32] = "i", [NETC_U32] = "I", [NETC_I64] = "q",
        [NETC_BF16] = NULL, [NETC_F16] = "e", [NETC_F32] = "f", [NETC_F64] = "d",
    };
    Block *b = block_of(self);
    view->obj = NULL;
    if (!b) return -1;
    const char *f = format[b->type.dtype];
    if (!f && (flags & BUF_FORMAT)) {
        PyErr_SetString(PyExc_BufferError, "the buffer protocol has no bfloat16; use DLPack");
        return -1;
    }
    Py_INCREF(self);
    *view = (PyBuf){.buf = b->data,
                    .obj = self,
                    .len = bytes_of(&b->type),
                    .itemsize = (Py_ssize_t)netc_dtype_size(b->type.dtype),
                    .ndim = b->type.rank,
                    .format = flags & BUF_FORMAT ? (char *)(uintptr_t)f : NULL,
                    .shape = flags & BUF_ND ? b->shape : NULL,
                    .strides = (flags & BUF_STRIDES) == BUF_STRIDES ? b->strides : NULL};
    return 0;
}

// -- DLPack ---------------------------------------------------------------------------------------

static void drop_managed(DlManaged *m)
{
    drop(m->manager);
    free(m);
}

static void drop_versioned(DlVersioned *m)
{
    drop(m->manager);
    free(m);
}

// Of a capsule that nobody consumed: a consumer renames it.
static void drop_capsule(PyObject *c)
{
    if (PyCapsule_IsValid(c, "dltensor"))
        drop_managed(PyCapsule_GetPointer(c, "dltensor"));
    else if (PyCapsule_IsValid(c, "dltensor_versioned"))
        drop_versioned(PyCapsule_GetPointer(c, "dltensor_versioned"));
}

static PyObject *export(Block *b, bool versioned)
{
    DlTensor t = {.data = b->data,
                  .device_type = DL_CPU,
                  .ndim = b->type.rank,
                  .lanes = 1,
                  .shape = b->dl_shape,
                  .strides = b->dl_strides};
    dl_type(b->type.dtype, &t.code, &t.bits);
    void *made = calloc(1, versioned ? sizeof(DlVersioned) : sizeof(DlManaged));
    if (!made) return PyErr_NoMemory();
    if (versioned)
        *(DlVersioned *)made = (DlVersioned){
            .major = 1, .minor = 1, .manager = b, .deleter = drop_versioned, .tensor = t};
    else
        *(DlManaged *)made = (DlManaged){.tensor = t, .manager = b, .deleter = drop_managed};
    PyObject *c = PyCapsule_New(made, versioned ? "dltensor_versioned" : "dltensor", drop_capsule);
    if (c)
        atomic_fetch_add(&b->refs, 1);
    else
        free(made);
    return c;
}

static PyObject *copied(Block *b, PyObject *self)
{
    void *data;
    PyObject *a = array_new(NULL, (PyObject *)Py_TYPE(self), &b->type, &data);
    if (a) memcpy(data, b->data, (size_t)bytes_of(&b->type));
    return a;
}

static PyObject *to_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *most = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0, type = DL_CPU, id = 0;
    Block *b = block_of(self);
    if (!b || !PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", CONST_NAMES(names), &stream,
                                           &most, &device, &copy))
        return NULL;
    if (most != Py_None && !PyArg_Parse(most, "(ii)", &major, &minor)) return NULL;
    if (device != Py_None && !PyArg_Parse(device, "(ii)", &type, &id)) return NULL;
    if (stream != Py_None || type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "this array lies in the host's memory: it has no stream "
                                           "and is exported to no other device");
        return NULL;
    }
    if (copy != Py_True) return export(b, major >= 1);
    PyObject *other = copied(b, self);
    PyObject *c = other ? export(((Array *)other)->block, major >= 1) : NULL;
    Py_XDECREF(other);
    return c;
}

static PyObject *dlpack_device(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

// -- what it is -----------------------------------------------------------------------------------

static PyObject *get_shape(PyObject *self, void *closure)
{
    (void)closure;
    Block *b = block_of(self);
    return b ? shape_tuple(&b->type) : NULL;
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    Block *b = block_of(self);
    return b ? PyUnicode_FromString(netc_dtype_name(b->type.dtype)) : NULL;
}

static PyObject *to_bytes(PyObject *self, PyObject *none)
{
    (void)none;
    Block *b = block_of(self);
    return b ? PyBytes_FromStringAndSize((const char *)b->data, bytes_of(&b->type)) : NULL;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The array as a DLPack capsule, which shares its memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(1, 0): the host's memory."},
    {"tobytes", to_bytes, METH_NOARGS, "A copy of the elements' bytes."},
    {0},
};
static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "The sizes of its axes.", NULL},
    {"dtype", get_dtype, NULL, "The name of its elements' type, \"f32\".", NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)array_free},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {SLOT_GETBUFFER, (void *)get_buffer},
    {0},
};
static PyType_Spec spec = {.name = "netc._netc.Array",
                           .basicsize = sizeof(Array),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           .slots = slots};

bool array_type_make(PyObject *module, State *s)
{
    s->array_type = PyType_FromModuleAndSpec(module, &spec, NULL);
    return s->array_type && !PyModule_AddObjectRef(module, "Array", s->array_type);
}
