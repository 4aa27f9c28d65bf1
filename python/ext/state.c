// Parameters, states and settings of a model, one by one and in files.
#include <stdlib.h>
#include <string.h>

#include "python/ext/py.h"

// With the GIL held or not; the session's lock is held.
static bool find(Model *m, const char *name, netc_port *out, netc_error **err)
{
    int n = netc_state_count(m->session);
    for (int i = 0; i < n; i++)
        if (netc_state_info(m->session, i, out, NULL) == NETC_OK && !strcmp(out->name, name))
            return true;
    int64_t length;
    netc_tensor t = {.dtype = NETC_I64, .data = &length};
    bool told = !strcmp(name, "@total") || !strcmp(name, "@epoch_steps") || !strcmp(name, "@step");
    if (!strncmp(name, "@runs.", 6) || // counts of the runtime's, which are not listed
        (told && netc_state_read(m->session, name, &t, NULL) == NETC_OK))
        return *out = (netc_port){.name = name, .dtype = NETC_I64}, true;
    netc_tensor none = {0}; // the library's error says which names there could be
    netc_state_read(m->session, name, &none, err);
    return false;
}

static PyObject *finish(Model *m, netc_error *err, PyObject *out)
{
    model_leave(m);
    if (err) {
        Py_XDECREF(out);
        return raise_error(m->state, err);
    }
    return out;
}

PyObject *state_names(PyObject *self, PyObject *none)
{
    Model *m = (Model *)self;
    (void)none;
    if (!model_enter(m, false)) return NULL;
    int n = netc_state_count(m->session);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        netc_port p;
        if (netc_state_info(m->session, i, &p, NULL) != NETC_OK) continue;
        PyObject *name = PyUnicode_FromString(p.name);
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return finish(m, NULL, list);
}

PyObject *state_info(PyObject *self, PyObject *name)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    netc_port p;
    PyObject *out = NULL;
    const char *utf8 = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!utf8 || !model_enter(m, false)) return NULL;
    if (find(m, utf8, &p, &err)) {
        PyObject *shape = shape_tuple(&p);
        out = shape ? Py_BuildValue("(sN)", netc_dtype_name(p.dtype), shape) : NULL;
    }
    return finish(m, err, out);
}

// The type of a state that is not listed, a scratch state, as the caller knows it.
static bool as_told(const char *dtype, PyObject *shape, netc_port *out)
{
    for (int t = NETC_BOOL; t <= NETC_F64; t++)
        if (!strcmp(netc_dtype_name((netc_dtype)t), dtype)) out->dtype = (netc_dtype)t;
    out->rank = (int)PyTuple_Size(shape);
    for (int i = 0; i < out->rank; i++) out->dim[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    return !PyErr_Occurred();
}

PyObject *state_get(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    PyObject *out = NULL;
    PyBuf view = {0};
    void *data = NULL;
    const char *utf8, *dtype = NULL;
    PyObject *shape = NULL;
    if (!PyArg_ParseTuple(args, "s|sO!", &utf8, &dtype, &PyTuple_Type, &shape)) return NULL;
    netc_port p = {.name = utf8};
    if ((shape && !as_told(dtype, shape, &p)) || !model_enter(m, false)) return NULL;
    if ((shape || find(m, utf8, &p, &err)) && (out = state_value(m->state, &p, &data, &view))) {
        netc_tensor t = {.dtype = p.dtype, .rank = p.rank, .data = data};
        memcpy(t.dim, p.dim, sizeof t.dim);
        PyThreadState *gil = PyEval_SaveThread();
        netc_state_read(m->session, utf8, &t, &err);
        PyEval_RestoreThread(gil);
        if (view.obj) m->state->buffers.release(&view);
    }
    return finish(m, err, out);
}

PyObject *state_set(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    netc_port p;
    PyObject *value, *out = NULL;
    const char *name;
    char what[200];
    Taken t;
    if (!PyArg_ParseTuple(args, "sO", &name, &value) || !model_enter(m, false)) return NULL;
    PyOS_snprintf(what, sizeof what, "state '%s'", name);
    if (find(m, name, &p, &err) && take(m->state, value, what, &(Wish){.port = &p}, &t)) {
        model_changes(m);
        PyThreadState *gil = PyEval_SaveThread();
        netc_status status = netc_state_write(m->session, name, &t.t, &err);
        if (status == NETC_OK) netc_sync(m->session, &err); // before the array may go
        PyEval_RestoreThread(gil);
        taken_release(m->state, &t);
        Py_INCREF(Py_None);
        out = Py_None;
    }
    return finish(m, err, out);
}

// -- files ----------------------------------------------------------------------------------------

static PyObject *done(Model *m, netc_error *err)
{
    Py_INCREF(Py_None);
    return finish(m, err, Py_None);
}

// Raises an error that names the parameters and states with values that are not finite.
PyObject *state_check(PyObject *self, PyObject *none)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    (void)none;
    if (!model_enter(m, false)) return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_state_check(m->session, &err);
    PyEval_RestoreThread(gil);
    return done(m, err);
}

PyObject *state_save(PyObject *self, PyObject *path)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    const char *to;
    if (!path_given(path, &to) || !model_enter(m, false)) return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_state_save(m->session, to, &err);
    PyEval_RestoreThread(gil);
    return done(m, err);
}

enum { MOST_WORDS = 64 };

static bool words(PyObject *list, const char **out, int *n)
{
    Py_ssize_t count = PySequence_Size(list);
    if (count < 0) return false;
    if (count > MOST_WORDS)
        return PyErr_Format(PyExc_ValueError, "netc: more than %d patterns", MOST_WORDS), false;
    for (*n = 0; *n < count; ++*n) {
        PyObject *o = PySequence_GetItem(list, *n);
        out[*n] = o ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
        Py_XDECREF(o); // (the list has it)
        if (!out[*n]) return false;
    }
    return true;
}

// (path, map, ignore, transpose, allow_missing, weights_only)
PyObject *state_load(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    PyObject *map, *ignore, *transpose;
    const char *path, *maps[MOST_WORDS], *ignores[MOST_WORDS], *turned[MOST_WORDS];
    int missing, weights;
    NETC_INIT(netc_load_options, o);
    if (!PyArg_ParseTuple(args, "O&OOOpp", path_given, &path, &map, &ignore, &transpose, &missing,
                          &weights) ||
        !words(map, maps, &o.nmap) || !words(ignore, ignores, &o.nignore) ||
        !words(transpose, turned, &o.ntranspose) || !model_enter(m, true))
        return NULL;
    o.map = maps;
    o.ignore = ignores;
    o.transpose = turned;
    o.allow_missing = missing;
    o.weights_only = weights;
    model_changes(m);
    PyThreadState *gil = PyEval_SaveThread();
    netc_state_load(m->session, path, &o, &err);
    PyEval_RestoreThread(gil);
    return done(m, err);
}

PyObject *state_adopt(PyObject *self, PyObject *other)
{
    Model *m = (Model *)self, *from = (Model *)other;
    netc_error *err = NULL;
    int carried = 0;
    if (!PyObject_TypeCheck(other, (PyTypeObject *)m->state->model_type))
        return PyErr_Format(PyExc_TypeError, "netc: adopt() needs a model");
    // In one order, whoever adopts whom: two threads never wait for each other.
    Model *first = m < from ? m : from, *second = m < from ? from : m;
    if (!model_enter(first, true)) return NULL;
    if (!model_enter(second, true)) {
        model_leave(first);
        return NULL;
    }
    model_changes(m);
    PyThreadState *gil = PyEval_SaveThread();
    netc_adopt(m->session, from->session, &carried, &err);
    PyEval_RestoreThread(gil);
    model_leave(from);
    return finish(m, err, err ? NULL : PyLong_FromLong(carried));
}

// -- settings -------------------------------------------------------------------------------------

PyObject *setting_get(PyObject *self, PyObject *name)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    double value = 0;
    const char *utf8 = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!utf8 || !model_enter(m, false)) return NULL;
    netc_get(m->session, utf8, &value, &err);
    return finish(m, err, err ? NULL : PyFloat_FromDouble(value));
}

PyObject *setting_set(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    const char *name;
    double value;
    if (!PyArg_ParseTuple(args, "sd", &name, &value) || !model_enter(m, false)) return NULL;
    netc_set(m->session, name, value, &err);
    return done(m, err);
}

// (name, number): a counter of the model's, "@total". False where it does not read that.
PyObject *control_set(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    const char *name;
    long long value;
    if (!PyArg_ParseTuple(args, "sL", &name, &value) || !model_enter(m, true)) return NULL;
    int64_t v = value;
    netc_tensor t = {.dtype = NETC_I64, .data = &v};
    bool known = netc_state_write(m->session, name, &t, NULL) == NETC_OK;
    return finish(m, NULL, PyBool_FromLong(known));
}
