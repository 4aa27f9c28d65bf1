// An entry of a model (entry.c), and its call (call.c).
#ifndef NETC_PY_ENTRY_H
#define NETC_PY_ENTRY_H

#include "python/ext/py.h"

typedef struct Port {
    netc_port p;
    PyObject *name;
    PyObject *make; // of an output: arguments of numpy.empty, or NULL
    char what[80];  // of an input: "input 'x'"
} Port;

typedef struct Entry {
    PyObject_HEAD Model *model;
    PyObject *name;
    const char *utf8; // name's
    int nin, nout;
    Port *in, *out;
} Entry;

PyObject *entry_call(PyObject *self, PyObject *args, PyObject *keywords);
void entry_types(const Entry *e, char *out, size_t n); // "x: f32[4], y: f32[4]"
#endif
