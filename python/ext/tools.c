// What a model consists of and what it costs: texts, profiles, checks, files of compiled models.
#include <string.h>

#include "python/ext/py.h"

static PyObject *text_of(Model *m, char *text, netc_error *err)
{
    model_leave(m);
    PyObject *out = err ? raise_error(m->state, err) : text_given(text);
    netc_free(text);
    return out;
}

PyObject *model_inspect(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"kernel", "target", "why",   "in_order", "cards",
                                        "params", "json",   "other", NULL};
    Model *m = (Model *)self;
    PyObject *other = Py_None;
    int why = 0, in_order = 0, cards = 0, params = 0, json = 0;
    char *text = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_inspect_options, o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zzpppppO", CONST_NAMES(names), &o.kernel,
                                     &o.target, &why, &in_order, &cards, &params, &json, &other))
        return NULL;
    if (other != Py_None && !PyObject_TypeCheck(other, (PyTypeObject *)m->state->model_type))
        return PyErr_Format(PyExc_TypeError, "netc: 'other' must be a model");
    if (!model_enter(m, false)) return NULL;
    o.why = why, o.in_order = in_order, o.cards = cards, o.params = params, o.json = json;
    netc_program *held = other == Py_None ? NULL : ((Model *)other)->program;
    o.other = held ? netc_program_retain(held) : NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_inspect(m->program, &o, &text, &err);
    PyEval_RestoreThread(gil);
    if (held) netc_program_release(held);
    return text_of(m, text, err);
}

PyObject *model_emit(PyObject *self, PyObject *stage)
{
    Model *m = (Model *)self;
    char *text = NULL;
    netc_error *err = NULL;
    const char *utf8 = PyUnicode_AsUTF8AndSize(stage, NULL);
    if (!utf8 || !model_enter(m, false)) return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_program_emit(m->program, utf8, &text, &err);
    PyEval_RestoreThread(gil);
    return text_of(m, text, err);
}

PyObject *model_check(PyObject *self, PyObject *none)
{
    Model *m = (Model *)self;
    char device[40], *text = NULL;
    netc_error *err = NULL;
    (void)none;
    if (!model_enter(m, true)) return NULL;
    model_device(m, device, sizeof device);
    PyThreadState *gil = PyEval_SaveThread();
    netc_check(m->program, device, 0, &text, &err);
    PyEval_RestoreThread(gil);
    return text_of(m, text, err);
}

// (path, archs or None, whether with weights)
PyObject *model_save_program(PyObject *self, PyObject *args)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    const char *path, *archs;
    int weights;
    if (!PyArg_ParseTuple(args, "O&zp", path_given, &path, &archs, &weights) ||
        !model_enter(m, true))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_program_save(m->program, path, archs, weights ? m->session : NULL, &err);
    PyEval_RestoreThread(gil);
    model_leave(m);
    if (err) return raise_error(m->state, err);
    Py_RETURN_NONE;
}

// -- profiles -------------------------------------------------------------------------------------

static PyObject *step_row(const netc_step *s)
{
    return Py_BuildValue("{ss,ss,sN,ss,si,sd,sd,sd,sd,sd,sd,si,si,si,si,sd}", "name", s->name,
                         "kind", s->kind, "line", text_given(s->line), "schedule", s->schedule,
                         "calls", s->calls, "seconds", s->seconds, "low", s->low, "high", s->high,
                         "bytes", s->bytes, "flops", s->flops, "floor", s->floor, "registers",
                         s->registers, "local_bytes", s->local_bytes, "shared_bytes",
                         s->shared_bytes, "threads", s->threads, "occupancy", s->occupancy);
}

static PyObject *profile_rows(const netc_profile_result *r)
{
    PyObject *rows = PyList_New(0);
    for (int i = 0; rows && i < r->nsteps; i++) {
        PyObject *row = step_row(&r->steps[i]);
        if (!row || PyList_Append(rows, row)) Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyObject *profile_whole(const netc_profile_result *r)
{
    const netc_times *t = &r->whole;
    return Py_BuildValue("{sd,sd,sd,sd,sL,sL,sL,sO,sd,sd,sd,sd,sd,sd,sd}", "seconds", t->median,
                         "low", t->low, "high", t->high, "deviation", t->deviation, "steps",
                         (long long)t->steps, "repeats", (long long)t->repeats, "items",
                         (long long)t->items, "graph", t->graph ? Py_True : Py_False, "apart",
                         r->apart, "sum", r->sum, "copy_rate", r->copy_rate, "f32", r->f32, "tf32",
                         r->tf32, "f16", r->f16, "bf16", r->bf16);
}

// profile(entry, data, ...): (what the whole took, a dict a step).
PyObject *model_profile(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"entry", "data", "seed", "steps", "repeats", "cold", NULL};
    Model *m = (Model *)self;
    const char *entry;
    PyObject *data = Py_None, *set = NULL, *out = NULL;
    long long seed = 0, steps = 0, repeats = 0;
    int cold = 0;
    netc_profile_result *r = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_time_options, o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|OLLLp", CONST_NAMES(names), &entry, &data,
                                     &seed, &steps, &repeats, &cold) ||
        !model_enter(m, true))
        return NULL;
    model_unplace(m);
    if (data == Py_None || (set = data_new(m, data))) {
        o.seed = seed, o.steps = steps, o.repeats = repeats, o.cold = cold;
        o.restore = true;
        o.data = set ? data_set(set) : NULL;
        PyThreadState *gil = PyEval_SaveThread();
        netc_profile(m->session, entry, &o, &r, &err);
        PyEval_RestoreThread(gil);
        if (set) {
            Py_XDECREF(m->held[0]); // the session may point into it from now on
            m->held[0] = set;
        }
    }
    if (r) out = Py_BuildValue("(NN)", profile_whole(r), profile_rows(r));
    netc_free(r);
    model_leave(m);
    return r || !err ? out : raise_error(m->state, err);
}
