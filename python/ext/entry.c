// Entries. What does not change from call to call (names, types, how outputs are made) is looked up
// once.
#include "python/ext/entry.h"

#include <stdlib.h>
#include <string.h>

static const char *numpy_name(netc_dtype t)
{
    static const char *const names[] = {
        [NETC_BOOL] = "bool",   [NETC_U8] = "uint8",    [NETC_I32] = "int32",
        [NETC_U32] = "uint32",  [NETC_I64] = "int64",   [NETC_BF16] = NULL,
        [NETC_F16] = "float16", [NETC_F32] = "float32", [NETC_F64] = "float64",
    };
    return names[t];
}

// Arguments for numpy.empty. *out NULL: there is no NumPy, or it has no such type. false: failed.
static bool numpy_arguments(State *s, const netc_port *p, PyObject **out)
{
    const char *name = numpy_name(p->dtype);
    *out = NULL;
    if (!s->empty || s->empty == Py_None || !name) return true;
    PyObject *numpy = PyImport_ImportModule("numpy"), *shape = shape_tuple(p);
    PyObject *type = numpy ? PyObject_CallMethod(numpy, "dtype", "s", name) : NULL;
    if (shape && type) *out = PyTuple_Pack(2, shape, type);
    Py_XDECREF(numpy), Py_XDECREF(shape), Py_XDECREF(type);
    return *out != NULL;
}

PyObject *output_new(State *s, const netc_port *type, PyObject *make, void **data, PyBuf *view)
{
    *view = (PyBuf){0};
    if (!make) return array_new(s, s->array, type, data);
    PyObject *a = PyObject_CallObject(s->empty, make);
    if (a && s->buffers.get(a, view, BUF_WRITABLE | BUF_ND)) Py_CLEAR(a);
    *data = view->buf;
    return a;
}

PyObject *state_value(State *s, const netc_port *type, void **data, PyBuf *view)
{
    PyObject *make;
    if (!numpy_arguments(s, type, &make)) return NULL;
    PyObject *a = output_new(s, type, make, data, view);
    Py_XDECREF(make);
    return a;
}

// -- making one -----------------------------------------------------------------------------------

static bool fill_port(State *s, Port *p, bool output)
{
    p->name = PyUnicode_InternFromString(p->p.name);
    PyOS_snprintf(p->what, sizeof p->what, "input '%s'", p->p.name);
    return p->name && (!output || numpy_arguments(s, &p->p, &p->make));
}

static bool fill(Entry *e, State *s, netc_error **err)
{
    netc_program *p = e->model->program;
    int nin = netc_input_count(p, e->utf8), nout = netc_output_count(p, e->utf8);
    netc_port none;
    if (nin < 0) return netc_input_info(p, e->utf8, 0, &none, err), false; // says what there is
    int nfirst = 0;
    while (!strcmp(e->utf8, "train") && netc_first_input(p, nfirst, &none)) nfirst++;
    e->in = calloc((size_t)(nin + nfirst) + 1, sizeof *e->in);
    e->out = calloc((size_t)nout + 1, sizeof *e->out);
    if (!e->in || !e->out) return PyErr_NoMemory(), false;
    e->effects = netc_entry_effects(p, e->utf8);
    for (int i = 0; i < nin; i++) {
        if (netc_input_info(p, e->utf8, i, &e->in[i].p, err)) return false;
        e->nin = i + 1;
        if (!fill_port(s, &e->in[i], false)) return false;
    }
    for (int i = 0; i < nfirst; i++) {
        if (!netc_first_input(p, i, &e->in[nin + i].p)) return false;
        e->nfirst = i + 1;
        if (!fill_port(s, &e->in[nin + i], false)) return false;
    }
    while (e->in_order < nin) {
        const char *declared = netc_declared_input(p, e->utf8, e->in_order);
        if (declared && strcmp(declared, e->in[e->in_order].p.name)) break;
        e->in_order++;
    }
    for (int i = 0; i < nout; i++) {
        if (netc_output_info(p, e->utf8, i, &e->out[i].p, err)) return false;
        e->nout = i + 1;
        if (!fill_port(s, &e->out[i], true)) return false;
    }
    return true;
}

PyObject *model_entry(PyObject *self, PyObject *name)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    if (!model_enter(m, false)) return NULL;
    PyTypeObject *type = (PyTypeObject *)m->state->entry_type;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Entry *e = (Entry *)alloc(type, 0);
    if (e) {
        Py_INCREF(m), Py_INCREF(name);
        e->model = m;
        e->name = name;
        e->utf8 = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!e->utf8 || !fill(e, m->state, &err)) Py_CLEAR(e);
    }
    model_leave(m);
    if (!e && err) raise_error(m->state, err);
    return (PyObject *)e;
}

PyObject *model_entries(PyObject *self, PyObject *none)
{
    Model *m = (Model *)self;
    (void)none;
    if (!model_enter(m, false)) return NULL;
    int n = netc_entry_count(m->program);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(netc_entry_name(m->program, i));
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    model_leave(m);
    return list;
}

static PyObject *ports(const Port *p, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        PyObject *shape = shape_tuple(&p[i].p);
        PyObject *row = shape ? Py_BuildValue("(OsNO)", p[i].name, netc_dtype_name(p[i].p.dtype),
                                              shape, p[i].p.data ? Py_True : Py_False)
                              : NULL;
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *get_inputs(PyObject *self, void *closure)
{
    (void)closure;
    return ports(((Entry *)self)->in, ((Entry *)self)->nin);
}

static PyObject *get_declared(PyObject *self, void *closure)
{
    const Entry *e = (Entry *)self;
    const char *name;
    (void)closure;
    if (!e->model || !model_enter(e->model, false)) return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && (name = netc_declared_input(e->model->program, e->utf8, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    model_leave(e->model);
    return list;
}

static PyObject *get_outputs(PyObject *self, void *closure)
{
    (void)closure;
    return ports(((Entry *)self)->out, ((Entry *)self)->nout);
}

static PyObject *get_name(PyObject *self, void *closure)
{
    Entry *e = (Entry *)self;
    (void)closure;
    return e->name ? (Py_INCREF(e->name), e->name) : PyUnicode_FromString("");
}

static PyObject *get_writes(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong((((Entry *)self)->effects & NETC_ENTRY_WRITES) != 0);
}

static PyObject *get_checks(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong((((Entry *)self)->effects & NETC_ENTRY_CHECKS) != 0);
}

static PyObject *get_temporaries(PyObject *self, void *closure)
{
    Entry *e = (Entry *)self;
    (void)closure;
    if (!e->model || !model_enter(e->model, false)) return NULL;
    int64_t bytes = netc_temporaries(e->model->session, e->utf8);
    model_leave(e->model);
    return PyLong_FromLongLong(bytes);
}

static PyObject *warm_up(PyObject *self, PyObject *none)
{
    Entry *e = (Entry *)self;
    netc_error *err = NULL;
    (void)none;
    if (!e->model || !model_enter(e->model, false)) return NULL;
    netc_status status = netc_warm_up(e->model->session, e->utf8, &err);
    model_leave(e->model);
    if (status != NETC_OK) return raise_error(e->model->state, err), NULL;
    Py_RETURN_NONE;
}

static PyObject *repr(PyObject *self)
{
    Entry *e = (Entry *)self;
    char types[1200], type[300];
    PyObject *out;
    entry_types(e, types, sizeof types);
    out = PyUnicode_FromFormat("<netc entry %s(%s) ->", e->utf8 ? e->utf8 : "", types);
    for (int i = 0; out && i < e->nout; i++) {
        const netc_port *p = &e->out[i].p;
        type_text(type, sizeof type, p->dtype, p->rank, p->dim);
        PyObject *more = PyUnicode_FromFormat("%U%s %s: %s", out, i ? "," : "", p->name, type);
        Py_DECREF(out);
        out = more;
    }
    if (!out) return NULL;
    PyObject *whole = PyUnicode_FromFormat("%U>", out);
    Py_DECREF(out);
    return whole;
}

static int visit(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Entry *)self)->model);
    return 0;
}

static int clear(PyObject *self)
{
    Py_CLEAR(((Entry *)self)->model);
    return 0;
}

static void entry_free(PyObject *self)
{
    Entry *e = (Entry *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    for (int i = 0; i < e->nin + e->nfirst; i++) Py_CLEAR(e->in[i].name);
    for (int i = 0; i < e->nout; i++) {
        Py_CLEAR(e->out[i].name);
        Py_CLEAR(e->out[i].make);
    }
    free(e->in), free(e->out);
    Py_CLEAR(e->name);
    Py_CLEAR(e->model);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyGetSetDef properties[] = {
    {"name", get_name, NULL, "Its name in the model's text.", NULL},
    {"declared", get_declared, NULL, "The inputs that the text declares, needed or not.", NULL},
    {"inputs", get_inputs, NULL, "(name, type, shape, whether axis 0 is examples) each.", NULL},
    {"outputs", get_outputs, NULL, "The same of its outputs.", NULL},
    {"writes", get_writes, NULL, "Whether a call changes the model's parameters or states.", NULL},
    {"checks", get_checks, NULL, "Whether a call can fail: indices or asserts are checked.", NULL},
    {"temporaries", get_temporaries, NULL, "Bytes of its temporaries on its device.", NULL},
    {0},
};
static PyMethodDef methods[] = {
    {"warm_up", warm_up, METH_NOARGS, "Runs it on made-up inputs if it has not run yet."},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)entry_free},
    {Py_tp_traverse, (void *)visit},
    {Py_tp_clear, (void *)clear},
    {Py_tp_call, (void *)entry_call},
    {Py_tp_repr, (void *)repr},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {Py_tp_doc, "An entry of a model: call it with its inputs by name; a dict of its outputs."},
    {0},
};
static PyType_Spec spec = {.name = "netc._netc.Entry",
                           .basicsize = sizeof(Entry),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           .slots = slots};

bool entry_type_make(PyObject *module, State *s)
{
    s->entry_type = PyType_FromModuleAndSpec(module, &spec, NULL);
    return s->entry_type && !PyModule_AddObjectRef(module, "Entry", s->entry_type);
}
