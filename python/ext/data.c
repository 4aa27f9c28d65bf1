// Data sets of arrays and files by input name. The session points into what was taken, so a capsule
// holds both until the model gets other data.
#include <stdlib.h>

#include "python/ext/py.h"

typedef struct Data {
    State *state;
    netc_dataset *set;
    Taken *taken;
    int n;
    int resize, skip_bad; // of images
} Data;

static const char NAME[] = "netc data set";

static void data_free(Data *d)
{
    netc_dataset_free(d->set);
    for (int i = 0; i < d->n; i++) taken_release(d->state, &d->taken[i]);
    free(d->taken);
    free(d);
}

static void capsule_free(PyObject *c)
{
    data_free(PyCapsule_GetPointer(c, NAME));
}

netc_dataset *data_set(PyObject *capsule)
{
    Data *d = capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, NAME);
    return d ? d->set : NULL;
}

// (path,), or (path, part or None, resize, skip_bad): netc.Images.
static netc_status add_file(Data *d, const char *input, PyObject *of, netc_error **err)
{
    const char *path, *part = NULL;
    int resize = 0, skip_bad = 0;
    if (!PyArg_ParseTuple(of, "O&|zpp", path_given, &path, &part, &resize, &skip_bad))
        return NETC_INVALID;
    if (PyTuple_Size(of) == 1) return netc_dataset_add_file(d->set, input, path, NULL, err);
    d->resize |= resize, d->skip_bad |= skip_bad;
    netc_status status = netc_dataset_images(d->set, d->resize, d->skip_bad, err);
    return status == NETC_OK ? netc_dataset_add_file(d->set, input, path, part, err) : status;
}

static bool add(Model *m, Data *d, const char *input, PyObject *value, netc_error **err)
{
    char what[200];
    if (PyTuple_Check(value)) return add_file(d, input, value, err) == NETC_OK;
    PyOS_snprintf(what, sizeof what, "the data for '%s'", input);
    if (!take(m->state, value, what, &(Wish){0}, &d->taken[d->n])) return false;
    d->n++;
    return netc_dataset_add_array(d->set, input, &d->taken[d->n - 1].t, err) == NETC_OK;
}

PyObject *data_new(Model *m, PyObject *dict)
{
    netc_error *err = NULL;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "netc: data must be a dict of arrays by input");
        return NULL;
    }
    Data *d = calloc(1, sizeof *d);
    if (!d) return PyErr_NoMemory();
    d->state = m->state;
    d->taken = calloc((size_t)PyDict_Size(dict) + 1, sizeof *d->taken);
    bool ok = d->taken && netc_dataset_create(m->context, &d->set, &err) == NETC_OK;
    if (!d->taken) PyErr_NoMemory();
    while (ok && PyDict_Next(dict, &at, &key, &value)) {
        if (!PyUnicode_Check(key))
            PyErr_Format(PyExc_TypeError,
                         "netc: data must be a dict by names of inputs; %R is not one", key);
        const char *input = PyErr_Occurred() ? NULL : PyUnicode_AsUTF8AndSize(key, NULL);
        ok = input && add(m, d, input, value, &err);
    }
    PyObject *c = ok ? PyCapsule_New(d, NAME, capsule_free) : NULL;
    if (!c) data_free(d);
    if (!ok) return raise_error(m->state, err);
    return c;
}
