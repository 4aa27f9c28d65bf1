// Prediction over a data set: each output for all examples as one array.
#include <stdlib.h>
#include <string.h>

#include "python/ext/py.h"

typedef struct Result {
    PyObject *array; // NULL: no rows have come yet
    PyBuf view;
    char *at; // where the next rows belong
} Result;

typedef struct Predicting {
    Model *m;
    Result *of;  // by output
    bool failed; // an exception is set in [raised]
    PyObject *raised[3];
} Predicting;

static bool begin(Predicting *p, Result *r, const netc_tensor *rows, int64_t total)
{
    netc_port all = {.dtype = rows->dtype, .rank = rows->rank};
    void *data;
    memcpy(all.dim, rows->dim, sizeof all.dim);
    all.dim[0] = total;
    PyGILState_STATE gil = PyGILState_Ensure();
    r->array = state_value(p->m->state, &all, &data, &r->view);
    r->at = r->array ? data : NULL;
    if (!r->array) PyErr_Fetch(&p->raised[0], &p->raised[1], &p->raised[2]);
    PyGILState_Release(gil);
    return r->array != NULL;
}

static void take_rows(void *user, int i, const netc_tensor *rows, int64_t total)
{
    Predicting *p = user;
    Result *r = &p->of[i];
    if (p->failed || (!r->array && !begin(p, r, rows, total))) {
        p->failed = true;
        return;
    }
    size_t bytes = netc_dtype_size(rows->dtype);
    for (int k = 0; k < rows->rank; k++) bytes *= (size_t)rows->dim[k];
    memcpy(r->at, rows->data, bytes);
    r->at += bytes;
}

static PyObject *results(Predicting *p, const Words *names)
{
    PyObject *out = PyDict_New();
    for (int i = 0; out && i < names->n; i++)
        if (PyDict_SetItemString(out, names->at[i], p->of[i].array)) Py_CLEAR(out);
    return out;
}

static PyObject *predict(Model *m, PyObject *data, const char *entry, const Words *names)
{
    netc_error *err = NULL;
    Predicting p = {.m = m, .of = calloc((size_t)names->n + 1, sizeof *p.of)};
    PyObject *set = p.of ? data_new(m, data) : PyErr_NoMemory(), *out = NULL;
    if (set) {
        NETC_INIT(netc_predict_options, o);
        o.entry = entry;
        o.data = data_set(set);
        o.outputs = names->at;
        o.noutputs = names->n;
        o.rows = take_rows;
        o.user = &p;
        PyThreadState *gil = PyEval_SaveThread();
        netc_status status = netc_predict(m->session, &o, NULL, &err);
        PyEval_RestoreThread(gil);
        model_hold(m, 1, set);
        if (p.failed)
            netc_error_free(err), PyErr_Restore(p.raised[0], p.raised[1], p.raised[2]);
        else
            out = status == NETC_OK ? results(&p, names) : model_raise(m, err);
        Py_DECREF(set);
    }
    for (int i = 0; p.of && i < names->n; i++) {
        if (p.of[i].view.obj) m->state->buffers.release(&p.of[i].view);
        Py_XDECREF(p.of[i].array);
    }
    free(p.of);
    return out;
}

// (data, entry, names of outputs)
PyObject *model_predict(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    PyObject *data, *list, *out = NULL;
    const char *entry;
    Words names = {0};
    if (!PyArg_ParseTuple(args, "OsO", &data, &entry, &list)) return NULL;
    if (read_words(list, &names) && model_enter(m, true)) {
        model_forget_raised(m);
        model_unplace(m);
        out = predict(m, data, entry, &names);
        model_leave(m);
    }
    free(names.at);
    return out;
}
