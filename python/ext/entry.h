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
    int nfirst;   // behind the inputs: those that only a first batch's initial values need
    int in_order; // as many inputs stand first as the text declares them
    Port *in, *out;
    int effects; // NETC_ENTRY_*
} Entry;

// -- a call (call.c) ------------------------------------------------------------------------------
enum { FEW = 8 };
typedef struct Result {
    PyObject *o;    // what the caller gets, or NULL
    PyBuf view;     // of an array of NumPy that was made for it,
    Taken given;    // or of one that the caller gave
    netc_tensor to; // where it is written,
    bool placed;    // by the run itself
} Result;

typedef struct Call {
    Taken *in, few_in[FEW];
    Result *out, few_out[FEW];
    int nin, nout; // that are taken and made
    netc_error *error;
} Call;
bool call_begin(const Entry *e, Call *c);
netc_status call_run(const Entry *e, Call *c); // c->error says what went wrong
void call_end(State *s, Call *c);

PyObject *entry_call(PyObject *self, PyObject *args, PyObject *keywords);
void entry_types(const Entry *e, char *out, size_t n); // "x: f32[4], y: f32[4]"
#endif
