// Calls of an entry: takes arrays by name and returns a dict of arrays.
#include <stdlib.h>
#include <string.h>

#include "python/ext/entry.h"

bool call_begin(const Entry *e, Call *c)
{
    int nin = e->nin + e->nfirst;
    c->in = nin > FEW ? malloc((size_t)nin * sizeof *c->in) : c->few_in;
    c->out = e->nout > FEW ? malloc((size_t)e->nout * sizeof *c->out) : c->few_out;
    c->nin = c->nout = 0;
    c->error = NULL;
    if (c->in && c->out) return true;
    PyErr_NoMemory();
    return false;
}

void call_end(State *s, Call *c)
{
    for (int i = 0; i < c->nin; i++) taken_release(s, &c->in[i]);
    for (int i = 0; i < c->nout; i++) {
        if (c->out[i].view.obj) s->buffers.release(&c->out[i].view);
        taken_release(s, &c->out[i].given);
        Py_XDECREF(c->out[i].o);
    }
    if (c->in != c->few_in) free(c->in);
    if (c->out != c->few_out) free(c->out);
}

void entry_types(const Entry *e, char *out, size_t n)
{
    char type[300];
    out[0] = 0;
    for (int i = 0; i < e->nin; i++) {
        const netc_port *p = &e->in[i].p;
        size_t at = strlen(out);
        type_text(type, sizeof type, p->dtype, p->rank, p->dim);
        PyOS_snprintf(out + at, n - at, "%s%s: %s", i ? ", " : "", p->name, type);
    }
}

static bool wrong_arguments(const Entry *e, const char *what, const char *which)
{
    char types[1200];
    entry_types(e, types, sizeof types);
    PyErr_Format(PyExc_TypeError, "%s(): %s%s%s%s; it takes %s", e->utf8, what, which ? " '" : "",
                 which ? which : "", which ? "'" : "", *types ? types : "nothing");
    return false;
}

// A keyword that is no input, or is one that was given by position: an error. One that the model
// declares and needs no more is none.
static bool keywords_fit(const Entry *e, PyObject *keywords, Py_ssize_t given)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        netc_tensor none = {0};
        int i = 0;
        if (!name) return false;
        while (i < e->nin + e->nfirst && strcmp(e->in[i].p.name, name)) i++;
        if (i < given) return wrong_arguments(e, "two values for", name);
        if (i == e->nin + e->nfirst &&
            netc_bind(e->model->session, e->utf8, name, &none, NULL) != NETC_OK)
            return wrong_arguments(e, "there is no input", name);
    }
    return true;
}

static bool take_inputs(Entry *e, PyObject *args, PyObject *keywords, const char *device, Call *c)
{
    Model *m = e->model;
    Py_ssize_t given = PyTuple_Size(args), named = keywords ? PyDict_Size(keywords) : 0;
    if (given > e->in_order) {
        const char *unneeded = netc_declared_input(m->program, e->utf8, e->in_order);
        if (unneeded)
            return wrong_arguments(
                e, "later arguments must be given by name, since nothing needs the input",
                unneeded);
        return wrong_arguments(e, "too many arguments", NULL);
    }
    for (int i = 0; i < e->nin + e->nfirst; i++) {
        Port *p = &e->in[i];
        Wish want = {.port = &p->p, .device = device, .stream = m->stream};
        PyObject *o = i < given  ? PyTuple_GetItem(args, i)
                      : keywords ? PyDict_GetItemWithError(keywords, p->name)
                                 : NULL;
        if (!o && PyErr_Occurred()) return false;
        c->in[i] = (Taken){0};
        if (!o && i < e->nin)
            return keywords_fit(e, keywords, given) &&
                   wrong_arguments(e, "no value for", p->p.name);
        named -= o && i >= given;
        if (o && !take(m->state, o, p->what, &want, &c->in[i])) return false;
        c->nin = i + 1;
    }
    return !named || keywords_fit(e, keywords, given);
}

// An output that the caller has given a place for.
static bool take_place(Entry *e, const Port *p, PyObject *o, const char *device, Result *r)
{
    char what[100];
    Wish want = {.port = &p->p, .device = device, .stream = e->model->stream, .write = true};
    PyOS_snprintf(what, sizeof what, "the place for output '%s'", p->p.name);
    if (!take(e->model->state, o, what, &want, &r->given)) return false;
    Py_INCREF(o);
    r->o = o;
    r->to = r->given.t;
    return true;
}

static bool places_fit(const Entry *e, PyObject *into)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(into)) {
        PyErr_SetString(PyExc_TypeError, "out= must be a dict of arrays by output");
        return false;
    }
    while (PyDict_Next(into, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        int i = 0;
        if (!name) return false;
        while (i < e->nout && strcmp(e->out[i].p.name, name)) i++;
        if (i == e->nout) {
            PyErr_Format(PyExc_TypeError,
                         "%s(): there is no output '%s' to be written to out=", e->utf8, name);
            return false;
        }
    }
    return true;
}

// into: a dict of the caller's places, or NULL.
static bool make_outputs(Entry *e, PyObject *into, const char *device, Call *c)
{
    if (into && !places_fit(e, into)) return false;
    for (int i = 0; i < e->nout; i++) {
        const netc_port *p = &e->out[i].p;
        Result *r = &c->out[i];
        PyObject *place = into ? PyDict_GetItemWithError(into, e->out[i].name) : NULL;
        *r = (Result){0};
        if (place) {
            if (!take_place(e, &e->out[i], place, device, r)) return false;
        } else {
            r->to = (netc_tensor){.dtype = p->dtype, .rank = p->rank};
            memcpy(r->to.dim, p->dim, sizeof p->dim);
            r->o = output_new(e->model->state, p, e->out[i].make, &r->to.data, &r->view);
            if (!r->o) return false;
        }
        c->nout = i + 1;
    }
    return true;
}

// What runs comes behind what the tensors given are made by, or (before) what is made on their
// streams from now on behind what runs.
static netc_status meet(const Call *c, netc_session *s, bool before, netc_error **err)
{
    netc_status status = NETC_OK;
    const Taken *last = NULL;
    for (int i = 0; i < c->nin + c->nout && status == NETC_OK; i++) {
        const Taken *t = i < c->nin ? &c->in[i] : &c->out[i - c->nin].given;
        if (!t->wait || (last && last->stream == t->stream)) continue;
        status = (before ? netc_before : netc_after)(s, t->stream, err);
        last = t;
    }
    return status;
}

// No Python runs from here to the end: nothing comes between what is bound and the run.
static bool overlap(const netc_tensor *a, const netc_tensor *b)
{
    size_t n = netc_dtype_size(a->dtype), m = netc_dtype_size(b->dtype);
    for (int i = 0; i < a->rank; i++) n *= (size_t)a->dim[i];
    for (int i = 0; i < b->rank; i++) m *= (size_t)b->dim[i];
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + m && y < x + n;
}

// Whether an output can be stored right where the caller wants it, in the GPU's memory.
static bool is_placed(const Call *c, int i)
{
    const netc_tensor *to = &c->out[i].to;
    if (!to->on_device) return false;
    for (int k = 0; k < c->nin; k++)
        if (c->in[k].t.on_device && overlap(to, &c->in[k].t)) return false;
    for (int k = 0; k < c->nout; k++)
        if (k != i && c->out[k].to.on_device && overlap(to, &c->out[k].to)) return false;
    return true;
}

// Tells where outputs are stored, and no more where they were before.
static netc_status place_outputs(const Entry *e, Call *c)
{
    netc_status status = NETC_OK;
    bool any = false, before = PySet_Contains(e->model->placed, e->name) == 1;
    for (int i = 0; i < e->nout; i++) any |= c->out[i].placed = is_placed(c, i);
    if (any && !before && PySet_Add(e->model->placed, e->name)) return NETC_OUT_OF_MEMORY;
    for (int i = 0; i < e->nout && (any || before) && status == NETC_OK; i++)
        status = netc_bind_output(e->model->session, e->utf8, e->out[i].p.name,
                                  c->out[i].placed ? &c->out[i].to : NULL, &c->error);
    return status;
}

void model_unplace(Model *m)
{
    PyObject *name;
    netc_port p;
    while (PySet_Size(m->placed) > 0 && (name = PySet_Pop(m->placed))) {
        const char *utf8 = PyUnicode_AsUTF8AndSize(name, NULL);
        for (int i = 0; utf8 && i < netc_output_count(m->program, utf8); i++)
            if (netc_output_info(m->program, utf8, i, &p, NULL) == NETC_OK)
                netc_bind_output(m->session, utf8, p.name, NULL, NULL);
        Py_DECREF(name);
    }
}

// Whether all of the call can be left to the GPU: nothing can fail, no parameter or state is at
// stake, and all tensors are made and used on one stream of their library's. *stream: that.
static bool left_to_gpu(const Entry *e, const Call *c, void **stream)
{
    *stream = c->nout ? c->out[0].given.stream : NULL;
    if (e->effects || !c->nout) return false;
    for (int i = 0; i < c->nin + c->nout; i++) {
        const Taken *t = i < c->nin ? &c->in[i] : &c->out[i - c->nin].given;
        if (!t->work || t->stream != *stream) return false;
        if (i >= c->nin && !c->out[i - c->nin].placed) return false;
    }
    return true;
}

static netc_status outputs(const Entry *e, Call *c)
{
    netc_session *s = e->model->session;
    netc_status status = NETC_OK;
    void *stream;
    bool read = false;
    if (left_to_gpu(e, c, &stream)) return netc_before(s, stream, &c->error);
    for (int i = 0; i < e->nout && status == NETC_OK; i++) {
        if (c->out[i].placed) continue;
        status = netc_read(s, e->utf8, e->out[i].p.name, &c->out[i].to, &c->error);
        read = true;
    }
    return read ? status : netc_sync(s, &c->error);
}

netc_status call_run(const Entry *e, Call *c)
{
    Model *m = e->model;
    netc_session *s = m->session;
    netc_status status = NETC_OK;
    for (int i = 0; i < c->nin && status == NETC_OK; i++) {
        const netc_tensor *t = &c->in[i].t; // without data: an input of the first batch alone
        status = netc_bind(s, e->utf8, e->in[i].p.name, t->data ? t : NULL, &c->error);
    }
    if (status == NETC_OK) status = place_outputs(e, c);
    if (status != NETC_OK) return status;
    if (!strcmp(e->utf8, "train")) model_changes(m);
    PyThreadState *gil = PyEval_SaveThread();
    status = meet(c, s, false, &c->error);
    bool captured = status == NETC_OK && netc_capturing(s);
    if (status == NETC_OK) status = netc_run(s, e->utf8, 1, &c->error);
    if (status == NETC_OK) status = captured ? meet(c, s, true, &c->error) : outputs(e, c);
    // Also after an error: a capture can end, and what was bound may go when this returns.
    if (status != NETC_OK && captured) meet(c, s, true, NULL);
    if (status != NETC_OK && !captured) netc_sync(s, NULL);
    PyEval_RestoreThread(gil);
    return status;
}

static PyObject *results(const Entry *e, const Call *c)
{
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < e->nout; i++)
        if (PyDict_SetItem(d, e->out[i].name, c->out[i].o)) Py_CLEAR(d);
    return d;
}

// out=, where no input is called so, taken out of a copy of the keywords. *keywords is the caller's
// to release when *into is not NULL. false: failed.
static bool take_out(const Entry *e, PyObject **keywords, PyObject **into)
{
    PyObject *name = e->model->state->out;
    *into = *keywords ? PyDict_GetItemWithError(*keywords, name) : NULL;
    for (int i = 0; *into && i < e->nin; i++)
        if (!strcmp(e->in[i].p.name, "out")) *into = NULL;
    if (!*into) return !PyErr_Occurred();
    Py_INCREF(*into);
    *keywords = PyDict_Copy(*keywords);
    if (*keywords && !PyDict_DelItem(*keywords, name)) return true;
    Py_CLEAR(*keywords);
    Py_CLEAR(*into);
    return false;
}

PyObject *entry_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    Entry *e = (Entry *)self;
    if (!e->model) return PyErr_Format(PyExc_ValueError, "netc: an entry of no model");
    Model *m = e->model;
    State *s = m->state;
    Call c;
    char device[40];
    PyObject *into, *out = NULL;
    if (!take_out(e, &keywords, &into)) return NULL;
    if (model_enter(m, false)) {
        model_device(m, device, sizeof device);
        if (call_begin(e, &c)) {
            if (take_inputs(e, args, keywords, device, &c) && make_outputs(e, into, device, &c) &&
                call_run(e, &c) == NETC_OK)
                out = results(e, &c);
        }
        call_end(s, &c);
        model_leave(m);
        if (!out && c.error) raise_error(s, c.error);
    }
    if (into) {
        Py_DECREF(keywords);
        Py_DECREF(into);
    }
    return out;
}
