// The module netc._netc: its state, and errors as exceptions.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "python/ext/py.h"

PyObject *raise_text(State *s, const char *fmt, ...)
{
    char text[2000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    PyObject *e = PyObject_CallFunction(s->error, "Nis", text_given(text), (int)NETC_INVALID, "");
    if (e) PyErr_SetObject((PyObject *)Py_TYPE(e), e);
    Py_XDECREF(e);
    return NULL;
}

int path_given(PyObject *o, void *out)
{
    char *path = NULL;
    bool ok = o == Py_None || !PyBytes_AsStringAndSize(o, &path, NULL);
    *(const char **)out = path;
    return ok;
}

PyObject *text_given(const char *text)
{
    if (!text) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *raise_error(State *s, netc_error *e)
{
    if (!PyErr_Occurred() && !PyErr_CheckSignals()) {
        PyObject *x =
            PyObject_CallFunction(s->error, "NiN", text_given(netc_error_text(e)),
                                  (int)netc_error_status(e), text_given(netc_error_json(e)));
        if (x) PyErr_SetObject((PyObject *)Py_TYPE(x), x);
        Py_XDECREF(x);
    }
    netc_error_free(e);
    return NULL;
}

static void keep(PyObject **at, PyObject *o)
{
    PyObject *before = *at;
    Py_INCREF(o);
    *at = o;
    Py_XDECREF(before);
}

// register(error, array, convert, empty): what the package defines and this file makes.
static PyObject *register_package(PyObject *module, PyObject *args)
{
    State *s = PyModule_GetState(module);
    PyObject *error, *array, *convert, *empty;
    if (!PyArg_ParseTuple(args, "OOOO", &error, &array, &convert, &empty)) return NULL;
    keep(&s->error, error);
    keep(&s->array, array);
    keep(&s->convert, convert);
    keep(&s->empty, empty);
    Py_RETURN_NONE;
}

// make(cls, type, shape, bytes): an array of these elements.
static PyObject *make(PyObject *module, PyObject *args)
{
    State *s = PyModule_GetState(module);
    PyObject *class, *shape, *elements;
    const char *type;
    netc_port p = {0};
    void *data;
    if (!PyArg_ParseTuple(args, "OsO!S", &class, &type, &PyTuple_Type, &shape, &elements))
        return NULL;
    while (p.dtype < NETC_F64 && strcmp(netc_dtype_name(p.dtype), type)) p.dtype++;
    Py_ssize_t n = PyBytes_Size(elements);
    Py_ssize_t rank = PyTuple_Size(shape), size = (Py_ssize_t)netc_dtype_size(p.dtype);
    if (rank > 8) return raise_text(s, "%d axes; at most 8 are taken", (int)rank);
    for (p.rank = 0; p.rank < rank; p.rank++) {
        p.dim[p.rank] = PyLong_AsLongLong(PyTuple_GetItem(shape, p.rank));
        if (p.dim[p.rank] < 0 || __builtin_mul_overflow(size, p.dim[p.rank], &size))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "netc: a wrong shape");
    }
    int is = PyObject_IsSubclass(class, s->array_type);
    if (is < 0) return NULL;
    if (!is || size != n)
        return PyErr_Format(PyExc_ValueError, "netc: %zd bytes for an array of %zd", n, size);
    PyObject *a = array_new(s, class, &p, &data);
    if (a) memcpy(data, PyBytes_AsString(elements), (size_t)n);
    return a;
}

// Told by os.register_at_fork, in the child.
static PyObject *forked(PyObject *module, PyObject *none)
{
    (void)none;
    ((State *)PyModule_GetState(module))->forks++;
    Py_RETURN_NONE;
}

// The dict in which XLA's calls find their entries.
static PyObject *called(PyObject *module, PyObject *none)
{
    State *s = PyModule_GetState(module);
    (void)none;
    Py_INCREF(s->called);
    return s->called;
}

static PyObject *version(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyUnicode_FromString(netc_version());
}

static void told(void *user, const char *what, bool ok, const char *detail)
{
    PyObject *row =
        Py_BuildValue("(sON)", what, ok ? Py_True : Py_False, text_given(detail ? detail : ""));
    if (row) PyList_Append(user, row);
    Py_XDECREF(row);
}

static PyObject *doctor(PyObject *module, PyObject *none)
{
    (void)none;
    netc_context *c = NULL;
    netc_error *e = NULL;
    if (netc_context_create(NULL, &c, &e)) return raise_error(PyModule_GetState(module), e);
    PyObject *rows = PyList_New(0);
    if (rows) netc_doctor(c, told, rows);
    netc_context_free(c);
    if (rows && PyErr_Occurred()) Py_CLEAR(rows);
    return rows;
}

static PyMethodDef methods[] = {
    {"register", register_package, METH_VARARGS, NULL},
    {"open", (PyCFunction)(void (*)(void))model_open, METH_VARARGS | METH_KEYWORDS, NULL},
    {"make", make, METH_VARARGS, NULL},
    {"forked", forked, METH_NOARGS, NULL},
    {"tokenizer_open", tokenizer_open, METH_VARARGS, NULL},
    {"tokenizer_count", tokenizer_count, METH_O, NULL},
    {"tokenizer_encode", tokenizer_encode, METH_VARARGS, NULL},
    {"tokenizer_text", tokenizer_text, METH_VARARGS, NULL},
    {"ffi_handlers", ffi_handlers, METH_NOARGS, NULL},
    {"called", called, METH_NOARGS, NULL},
    {"version", version, METH_NOARGS, NULL},
    {"doctor", doctor, METH_NOARGS, NULL},
    {0},
};

static int start(PyObject *module)
{
    State *s = PyModule_GetState(module);
    if (netc_abi() != NETC_ABI) {
        PyErr_Format(PyExc_ImportError, "netc: built for the library's ABI %d, and it has %d",
                     NETC_ABI, netc_abi());
        return -1;
    }
    s->dlpack = PyUnicode_InternFromString("__dlpack__");
    s->dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    s->dlpack_exchange = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    s->harden_mask = PyUnicode_InternFromString("harden_mask");
    s->out = PyUnicode_InternFromString("out");
    s->versions = Py_BuildValue("{s(ii)}", "max_version", 1, 1);
    s->called = PyDict_New();
    bool made = s->called && s->dlpack && s->dlpack_exchange && s->dlpack_device && s->out &&
                s->harden_mask && s->versions && buffers_find(&s->buffers) &&
                array_type_make(module, s) && entry_type_make(module, s) &&
                model_type_make(module, s);
    return made ? 0 : -1;
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    State *s = PyModule_GetState(module);
    if (!s) return 0;
    Py_VISIT(s->model_type);
    Py_VISIT(s->entry_type);
    Py_VISIT(s->array_type);
    Py_VISIT(s->error);
    Py_VISIT(s->array);
    Py_VISIT(s->convert);
    Py_VISIT(s->empty);
    Py_VISIT(s->called);
    Py_VISIT(s->exchange_type);
    return 0;
}

static int clear_state(PyObject *module)
{
    State *s = PyModule_GetState(module);
    if (!s) return 0;
    Py_CLEAR(s->model_type);
    Py_CLEAR(s->entry_type);
    Py_CLEAR(s->array_type);
    Py_CLEAR(s->error);
    Py_CLEAR(s->array);
    Py_CLEAR(s->convert);
    Py_CLEAR(s->empty);
    Py_CLEAR(s->called);
    Py_CLEAR(s->exchange_type);
    Py_CLEAR(s->dlpack_exchange);
    Py_CLEAR(s->harden_mask);
    Py_CLEAR(s->dlpack);
    Py_CLEAR(s->dlpack_device);
    Py_CLEAR(s->out);
    Py_CLEAR(s->versions);
    return 0;
}

static void free_state(void *module)
{
    clear_state(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "netc._netc",
    .m_doc = "The library behind the package netc.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit__netc(void)
{
    return PyModuleDef_Init(&definition);
}
