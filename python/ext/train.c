// Training and evaluation. While they run, the GIL is released; it is taken for callbacks and to
// see whether Ctrl-C was pressed. An exception of a callback stops training after the current step
// and is raised when everything has been saved.
#include <stdlib.h>
#include <string.h>

#include "python/ext/py.h"

static PyObject *metrics_dict(const netc_metric *m, int n)
{
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < n; i++) {
        PyObject *v = PyFloat_FromDouble(m[i].value);
        if (!v || PyDict_SetItemString(d, m[i].name, v)) Py_CLEAR(d);
        Py_XDECREF(v);
    }
    return d;
}

static PyObject *event_arguments(const netc_event *e)
{
    static const char *const kinds[] = {"start", "progress", "eval", "saved", "end"};
    PyObject *metrics = metrics_dict(e->metrics, e->nmetrics);
    if (!metrics) return NULL;
    return Py_BuildValue("(sLLLLdLdddNN)", kinds[e->kind], (long long)e->step, (long long)e->total,
                         (long long)e->epoch, (long long)e->epochs, e->epochs_done,
                         (long long)e->examples, e->seconds, e->items_per_second, e->seconds_left,
                         metrics, text_given(e->text));
}

static void on_event(void *user, const netc_event *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    model_tell(user, event_arguments(e), e->kind == NETC_EVENT_END);
    PyGILState_Release(gil);
}

bool read_words(PyObject *list, Words *out)
{
    Py_ssize_t n = PySequence_Size(list);
    if (n < 0) return false;
    out->at = calloc((size_t)n + 1, sizeof *out->at);
    if (!out->at) return PyErr_NoMemory(), false;
    for (out->n = 0; out->n < n; out->n++) {
        PyObject *o = PySequence_GetItem(list, out->n);
        out->at[out->n] = o ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
        Py_XDECREF(o); // (the list has it)
        if (!out->at[out->n]) return false;
    }
    return true;
}

void model_hold(Model *m, int which, PyObject *capsule)
{
    PyObject *before = m->held[which];
    Py_XINCREF(capsule);
    m->held[which] = capsule;
    Py_XDECREF(before);
}

// The session's lock is held.
static PyObject *train(Model *m, netc_train_options *o, PyObject *data, PyObject *eval_data)
{
    netc_error *err = NULL;
    PyObject *set = data_new(m, data), *eval_set = NULL;
    if (set && eval_data != Py_None) eval_set = data_new(m, eval_data);
    if (!set || (eval_data != Py_None && !eval_set)) {
        Py_XDECREF(set);
        return NULL;
    }
    o->data = data_set(set);
    o->eval_data = eval_set ? data_set(eval_set) : NULL;
    // Both what was bound before and what is bound now are there until this is over.
    PyObject *before[2] = {m->held[0], m->held[1]};
    m->held[0] = m->held[1] = NULL;
    model_changes(m);
    model_unplace(m);
    model_root(m)->busy = true;
    PyThreadState *gil = PyEval_SaveThread();
    netc_status status = netc_train(m->session, o, &err);
    PyEval_RestoreThread(gil);
    model_root(m)->busy = false;
    model_hold(m, 0, set);
    model_hold(m, 1, eval_set ? eval_set : o->split > 0 ? set : before[1]);
    Py_XDECREF(before[0]), Py_XDECREF(before[1]);
    Py_DECREF(set);
    Py_XDECREF(eval_set);
    if (status != NETC_OK || m->raised[0]) return model_raise(m, err);
    Py_RETURN_NONE;
}

PyObject *model_train(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {
        "data",         "on_event",   "eval_data",  "split",    "epochs", "steps",
        "report_every", "eval_every", "save_every", "save",     "resume", "watch",
        "shuffle",      "keep_last",  "save_best",  "patience", NULL};
    Model *m = (Model *)self;
    PyObject *data, *event, *eval_data = Py_None, *watch = NULL, *out = NULL;
    long long steps = 0, report = 0, evals = 0, saves = 0, patience = 0;
    int shuffle = 1, keep_last = 0;
    Words w = {0};
    NETC_INIT(netc_train_options, o);
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "OO|OddLLLLO&O&OppzL", CONST_NAMES(names), &data, &event, &eval_data,
            &o.split, &o.epochs, &steps, &report, &evals, &saves, path_given, &o.save, path_given,
            &o.resume, &watch, &shuffle, &keep_last, &o.save_best, &patience))
        return NULL;
    if ((watch && !read_words(watch, &w)) || !model_enter(m, true)) {
        free(w.at);
        return NULL;
    }
    o.steps = steps, o.report_every = report, o.eval_every = evals, o.save_every = saves;
    o.no_shuffle = !shuffle;
    o.keep_last_partial = keep_last;
    o.patience = patience;
    o.watch = w.at;
    o.nwatch = w.n;
    o.event = on_event;
    o.user = m;
    Py_INCREF(event);
    Py_XDECREF(m->on_event);
    m->on_event = event;
    model_forget_raised(m);
    out = train(m, &o, data, eval_data);
    Py_CLEAR(m->on_event);
    free(w.at);
    model_leave(m);
    return out;
}

PyObject *model_evaluate(PyObject *self, PyObject *data)
{
    Model *m = (Model *)self;
    netc_error *err = NULL;
    netc_metric *metrics = NULL;
    int n = 0;
    PyObject *out = NULL;
    if (!model_enter(m, true)) return NULL;
    model_forget_raised(m);
    PyObject *set = data_new(m, data);
    model_unplace(m);
    if (set) {
        PyThreadState *gil = PyEval_SaveThread();
        netc_status status = netc_evaluate(m->session, data_set(set), &metrics, &n, &err);
        PyEval_RestoreThread(gil);
        model_hold(m, 1, set);
        out = status == NETC_OK ? metrics_dict(metrics, n) : model_raise(m, err);
        netc_free(metrics);
        Py_DECREF(set);
    }
    model_leave(m);
    return out;
}
