// The search for faster schedules.
#include "python/ext/py.h"

static PyObject *event_arguments(const netc_tune_event *e)
{
    static const char *const kinds[] = {"start", "kernel", "skipped", "end"};
    return Py_BuildValue("(szzNzdddiiiO)", kinds[e->kind], e->kernel, e->schedule,
                         text_given(e->text), e->device, e->share, e->before, e->after, e->tried,
                         e->done, e->total, e->finished ? Py_True : Py_False);
}

static void on_event(void *user, const netc_tune_event *e)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    model_tell(user, event_arguments(e), e->kind == NETC_TUNE_END);
    PyGILState_Release(gil);
}

PyObject *model_tune(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"on_event", "seconds", "kernel", "file",
                                        "again",    "prune",   NULL};
    Model *m = (Model *)self;
    PyObject *event;
    int again = 0, prune = 0;
    char device[40];
    netc_error *err = NULL;
    NETC_INIT(netc_tune_options, o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|dzO&pp", CONST_NAMES(names), &event,
                                     &o.seconds, &o.kernel, path_given, &o.file, &again, &prune) ||
        !model_enter(m, true))
        return NULL;
    o.again = again, o.prune = prune;
    o.event = on_event;
    o.user = m;
    Py_INCREF(event);
    Py_XDECREF(m->on_event);
    m->on_event = event;
    model_forget_raised(m);
    model_device(m, device, sizeof device);
    model_root(m)->busy = true;
    PyThreadState *gil = PyEval_SaveThread();
    netc_status status = netc_tune(m->program, device, &o, &err);
    PyEval_RestoreThread(gil);
    model_root(m)->busy = false;
    Py_CLEAR(m->on_event);
    PyObject *out =
        status != NETC_OK || m->raised[0] ? model_raise(m, err) : (Py_INCREF(Py_None), Py_None);
    model_leave(m);
    return out;
}
