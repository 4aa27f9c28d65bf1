// _netc.open: compiles a program and creates a session of it.
#include <stdlib.h>
#include <string.h>

#include "python/ext/model.h"

typedef struct Strings {
    const char **at;
    int n;
} Strings;

// Pointers into the strings of a list or tuple, which keeps them. false: an exception is set.
static bool strings(PyObject *list, Strings *out)
{
    Py_ssize_t n = PySequence_Size(list);
    if (n < 0) return false;
    out->at = calloc((size_t)n + 1, sizeof *out->at);
    if (!out->at) return PyErr_NoMemory(), false;
    out->n = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PySequence_GetItem(list, i);
        out->at[i] = o ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
        Py_XDECREF(o); // (the list has it)
        if (!out->at[i]) return false;
    }
    return true;
}

typedef struct Opening {
    const char *path, *name, *text, *device;
    netc_compile_options o;
    netc_context_options context;
    netc_session_options session;
    Strings defines, outputs, entries, arguments, gradients, second, mapped;
    PyObject *like; // arrays that fix dimensions, or None
    netc_dataset *data;
    Taken *taken;
    Py_ssize_t ntaken;
    netc_error *error;
} Opening;

static bool add_like(Model *m, Opening *p)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    char what[200];
    if (p->like == Py_None) return true;
    if (!PyDict_Check(p->like)) {
        PyErr_SetString(PyExc_TypeError,
                        "netc: 'data' and 'like' must be dicts of arrays by input");
        return false;
    }
    p->taken = calloc((size_t)PyDict_Size(p->like) + 1, sizeof *p->taken);
    if (!p->taken) return PyErr_NoMemory(), false;
    if (netc_dataset_create(m->context, &p->data, &p->error)) return false;
    while (PyDict_Next(p->like, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        Taken *t = &p->taken[p->ntaken];
        if (!name) return false;
        PyOS_snprintf(what, sizeof what, "input '%s'", name);
        if (!take(m->state, value, what, &(Wish){0}, t)) return false;
        p->ntaken++;
        if (netc_dataset_add_array(p->data, name, &t->t, &p->error)) return false;
    }
    p->o.data = p->data;
    return true;
}

// With the GIL released: this is where the time goes. The library knows the device before it
// compiles, so that there is one program, for that device; a variant is on its parent's, open
// already.
static netc_status build(Model *m, Opening *p)
{
    if (!m->parent) netc_context_prepare(m->context, p->device);
    netc_status status =
        p->text ? netc_compile_text(m->context, p->name, p->text, &p->o, &m->program, &p->error)
                : netc_compile_file(m->context, p->path, &p->o, &m->program, &p->error);
    if (status == NETC_OK)
        status = netc_session_create(m->program, p->device, &p->session, &m->session, &p->error);
    return status;
}

static bool open_model(Model *m, Opening *p)
{
    p->context.size = sizeof p->context;
    p->context.log = model_log;
    p->context.cancel = model_cancelled;
    p->context.user = m;
    if (netc_context_create(&p->context, &m->context, &p->error) || !add_like(m, p)) return false;
    p->o.size = sizeof p->o;
    p->o.defines = p->defines.at;
    p->o.ndefines = p->defines.n;
    p->o.outputs = p->outputs.at;
    p->o.noutputs = p->outputs.n;
    p->o.entries = p->entries.at;
    p->o.nentries = p->entries.n;
    p->o.arguments = p->arguments.at;
    p->o.narguments = p->arguments.n;
    p->o.gradients = p->gradients.at;
    p->o.ngradients = p->gradients.n;
    p->o.second = p->second.at;
    p->o.nsecond = p->second.n;
    p->o.mapped = p->mapped.at;
    p->o.nmapped = p->mapped.n;
    p->session.size = sizeof p->session;
    if (m->parent) {
        if (!model_enter(m->parent, true)) return false;
        p->session.share = m->parent->session;
    }
    PyThreadState *gil = PyEval_SaveThread();
    netc_status status = build(m, p);
    PyEval_RestoreThread(gil);
    if (m->parent) model_leave(m->parent);
    return status == NETC_OK;
}

// open(cls, path, name, text, ...): an instance of cls. Either path or text is None.
PyObject *model_open(PyObject *module, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {
        "cls",        "path",    "name",      "text",         "defines",   "precision",
        "device",     "seed",    "target",    "cache_dir",    "tune_file", "kernels_dir",
        "outputs_of", "outputs", "entries",   "memory_limit", "like",      "whole",
        "share",      "stream",  "arguments", "gradients",    "training",  "keep",
        "states",     "second",  "program",   "mapped",       "calls",     NULL};
    State *s = PyModule_GetState(module);
    PyObject *class, *defines, *outputs = NULL, *entries = NULL, *share = Py_None;
    PyObject *arguments = NULL, *gradients = NULL, *second = NULL, *mapped = NULL;
    unsigned long long stream = 0;
    int whole = 0, training = 0, keep = 0, states = 0;
    long long seed = 0, limit = 0, calls = 0;
    Opening p = {.like = Py_None};
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "OO&O&zO|zsLzO&O&O&zOOLOpOKOOpppOzOL", CONST_NAMES(names), &class,
            path_given, &p.path, path_given, &p.name, &p.text, &defines, &p.o.precision, &p.device,
            &seed, &p.o.target, path_given, &p.context.cache_dir, path_given, &p.o.tune_file,
            path_given, &p.o.kernels_dir, &p.o.outputs_of, &outputs, &entries, &limit, &p.like,
            &whole, &share, &stream, &arguments, &gradients, &training, &keep, &states, &second,
            &p.o.program, &mapped, &calls))
        return NULL;
    int is = PyObject_IsSubclass(class, s->model_type);
    if (is < 0) return NULL;
    if (!is || (share != Py_None && !PyObject_TypeCheck(share, (PyTypeObject *)s->model_type)))
        return PyErr_Format(PyExc_TypeError, "netc: no model");
    p.session.seed = seed;
    p.session.stream = (void *)(uintptr_t)stream;
    p.o.devices = 1;
    for (const char *at = p.device; at && (at = strchr(at, ',')); at++) p.o.devices++;
    p.o.memory_limit = limit;
    p.o.whole_data = whole;
    p.o.training = training;
    p.o.keep = keep;
    p.o.states = states;
    p.o.calls = calls;
    Model *m = model_new(s, class, share == Py_None ? NULL : (Model *)share);
    if (!m) return NULL;
    m->stream = stream;
    bool ok = strings(defines, &p.defines) && (!outputs || strings(outputs, &p.outputs)) &&
              (!entries || strings(entries, &p.entries)) &&
              (!arguments || strings(arguments, &p.arguments)) &&
              (!gradients || strings(gradients, &p.gradients)) &&
              (!second || strings(second, &p.second)) && (!mapped || strings(mapped, &p.mapped)) &&
              open_model(m, &p);
    if (!ok && (p.error || PyErr_Occurred())) raise_error(s, p.error);
    netc_dataset_free(p.data);
    for (Py_ssize_t i = 0; i < p.ntaken; i++) taken_release(s, &p.taken[i]);
    free(p.taken), free(p.defines.at), free(p.outputs.at), free(p.entries.at);
    free(p.arguments.at), free(p.gradients.at), free(p.second.at), free(p.mapped.at);
    if (!ok) Py_CLEAR(m);
    return (PyObject *)m;
}
