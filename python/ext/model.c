// A model: a context, a program and a session, and rules for who may use them when. Python's
// threads wait for each other in model_enter; the GIL is released while the library works.
#include "python/ext/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NOTES = 1000 };
struct Notes { // what the library logged, from any thread
    pthread_mutex_t lock;
    char *line[MOST_NOTES];
    int n;
};

void model_log(void *user, const char *line)
{
    Notes *notes = ((Model *)user)->notes;
    pthread_mutex_lock(&notes->lock);
    if (notes->n < MOST_NOTES && (notes->line[notes->n] = strdup(line))) notes->n++;
    pthread_mutex_unlock(&notes->lock);
}

// Asked between steps, by the thread that called the library. Ctrl-C is seen here.
bool model_cancelled(void *user)
{
    Model *m = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (!m->raised[0] && PyErr_CheckSignals())
        PyErr_Fetch(&m->raised[0], &m->raised[1], &m->raised[2]);
    bool stop = m->raised[0] != NULL;
    PyGILState_Release(gil);
    return stop;
}

void model_forget_raised(Model *m)
{
    for (int i = 0; i < 3; i++) Py_CLEAR(m->raised[i]);
}

void model_tell(Model *m, PyObject *args, bool last)
{
    if (args && m->raised[0] && !last) {
        Py_DECREF(args);
        return;
    }
    // What was raised before waits: the end is told all the same.
    PyObject *r = args ? PyObject_CallObject(m->on_event, args) : NULL;
    Py_XDECREF(args);
    if (r)
        Py_DECREF(r);
    else if (m->raised[0])
        PyErr_Clear();
    else
        PyErr_Fetch(&m->raised[0], &m->raised[1], &m->raised[2]);
}

PyObject *model_raise(Model *m, netc_error *e)
{
    if (!m->raised[0]) return raise_error(m->state, e);
    PyErr_Restore(m->raised[0], m->raised[1], m->raised[2]);
    memset(m->raised, 0, sizeof m->raised);
    netc_error_free(e);
    return NULL;
}

// -- one thread at a time -------------------------------------------------------------------------

Model *model_root(Model *m)
{
    while (m->parent) m = m->parent;
    return m;
}

const char *model_device(const Model *m, char *out, size_t n)
{
    const char *text = netc_session_device(m->session);
    size_t length = strcspn(text, " ");
    if (length >= n) length = n - 1;
    memcpy(out, text, length);
    out[length] = 0;
    return out;
}

// A process forked from ours has no GPU, nor the threads that may hold the lock.
static bool after_fork(Model *m, Model *r)
{
    char device[40];
    if (strcmp(model_device(m, device, sizeof device), "cpu"))
        return raise_text(
                   m->state,
                   "the model was opened on %s before this process was forked, and CUDA does "
                   "not work in a forked process: compile it here, or start processes by "
                   "'spawn'",
                   device),
               false;
    if (r->owner != PyThread_get_thread_ident()) {
        PyThread_type_lock fresh = PyThread_allocate_lock();
        if (!fresh) return PyErr_NoMemory(), false;
        r->lock = fresh;
        r->depth = 0;
        r->busy = false;
    }
    r->forks = m->state->forks;
    return true;
}

bool model_enter(Model *m, bool alone)
{
    if (!m->session) {
        PyErr_SetString(PyExc_ValueError,
                        "netc: this model is closed, or was made by no compile()");
        return false;
    }
    Model *r = model_root(m);
    unsigned long me = PyThread_get_thread_ident();
    if (r->forks != m->state->forks && !after_fork(m, r)) return false;
    if (r->depth && r->owner == me) {
        if (alone && r->busy)
            return raise_text(m->state, "this cannot be done from a callback of the same model: "
                                        "do it after the call that runs the callback"),
                   false;
        r->depth++;
        return true;
    }
    if (!PyThread_acquire_lock(r->lock, NOWAIT_LOCK)) {
        PyThreadState *gil = PyEval_SaveThread();
        PyThread_acquire_lock(r->lock, WAIT_LOCK);
        PyEval_RestoreThread(gil);
    }
    r->owner = me;
    r->depth = 1;
    if (m->session) return true;
    model_leave(m); // closed meanwhile
    return model_enter(m, alone);
}

void model_leave(Model *m)
{
    Model *r = model_root(m);
    if (--r->depth) return;
    r->owner = 0;
    PyThread_release_lock(r->lock);
}

void model_changes(Model *m)
{
    model_root(m)->changes++;
}

// -- its life -------------------------------------------------------------------------------------

Model *model_new(State *s, PyObject *class, Model *parent)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc);
    Model *m = (Model *)alloc((PyTypeObject *)class, 0);
    if (!m) return NULL;
    m->state = s;
    m->forks = m->made = s->forks;
    m->lock = PyThread_allocate_lock();
    m->notes = calloc(1, sizeof *m->notes);
    m->placed = PySet_New(NULL);
    Py_XINCREF(parent);
    m->parent = parent;
    if (m->lock && m->notes && m->placed && !pthread_mutex_init(&m->notes->lock, NULL)) return m;
    free(m->notes);
    m->notes = NULL;
    Py_DECREF(m);
    PyErr_NoMemory();
    return NULL;
}

static void shut(Model *m)
{
    netc_session *session = m->session;
    netc_program *program = m->program;
    netc_context *context = m->context;
    m->session = NULL;
    m->program = NULL;
    m->context = NULL;
    if (m->state && m->made != m->state->forks)
        return; // what a GPU or a thread holds is the parent process's
    PyThreadState *gil = PyEval_SaveThread();
    netc_session_free(session);
    netc_program_release(program);
    netc_context_free(context);
    PyEval_RestoreThread(gil);
}

static int visit(PyObject *self, visitproc visit, void *arg)
{
    Model *m = (Model *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(m->parent);
    Py_VISIT(m->on_event);
    for (int i = 0; i < 2; i++) Py_VISIT(m->held[i]);
    for (int i = 0; i < 3; i++) Py_VISIT(m->raised[i]);
    return 0;
}

static int clear(PyObject *self)
{
    Model *m = (Model *)self;
    Py_CLEAR(m->on_event);
    model_forget_raised(m);
    return 0; // (what is held stays as long as the session that points into it)
}

static void model_free(PyObject *self)
{
    Model *m = (Model *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    shut(m);
    clear(self);
    for (int i = 0; i < 2; i++) Py_CLEAR(m->held[i]);
    Py_CLEAR(m->parent);
    Py_CLEAR(m->placed);
    if (m->lock) PyThread_free_lock(m->lock);
    if (m->notes) {
        for (int i = 0; i < m->notes->n; i++) free(m->notes->line[i]);
        pthread_mutex_destroy(&m->notes->lock);
        free(m->notes);
    }
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyObject *close_model(PyObject *self, PyObject *none)
{
    Model *m = (Model *)self;
    (void)none;
    if (!m->session) Py_RETURN_NONE;
    if (!model_enter(m, true)) return NULL;
    shut(m);
    model_leave(m);
    for (int i = 0; i < 2; i++) Py_CLEAR(m->held[i]);
    Py_RETURN_NONE;
}

static PyObject *take_notes(PyObject *self, PyObject *none)
{
    Notes *notes = ((Model *)self)->notes;
    PyObject *list = PyList_New(0);
    (void)none;
    if (!notes || !list) return list;
    pthread_mutex_lock(&notes->lock);
    for (int i = 0; i < notes->n; i++) {
        PyObject *line = text_given(notes->line[i]);
        if (line) PyList_Append(list, line);
        Py_XDECREF(line);
        free(notes->line[i]);
    }
    notes->n = 0;
    pthread_mutex_unlock(&notes->lock);
    if (PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

static PyObject *get_device(PyObject *self, void *closure)
{
    Model *m = (Model *)self;
    (void)closure;
    if (!m->session) return PyUnicode_FromString("closed");
    return PyUnicode_FromString(netc_session_device(m->session));
}

static PyObject *get_changes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(model_root((Model *)self)->changes);
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"close", close_model, METH_NOARGS, "Gives back the memory that the model has on its device."},
    {"_notes", take_notes, METH_NOARGS, NULL},
    {"_entries", model_entries, METH_NOARGS, NULL},
    {"_entry", model_entry, METH_O, NULL},
    {"_state_names", state_names, METH_NOARGS, NULL},
    {"_state_info", state_info, METH_O, NULL},
    {"_state_get", state_get, METH_VARARGS, NULL},
    {"_state_set", state_set, METH_VARARGS, NULL},
    {"_state_check", state_check, METH_NOARGS, NULL},
    {"_state_save", state_save, METH_O, NULL},
    {"_state_load", state_load, METH_VARARGS, NULL},
    {"_state_adopt", state_adopt, METH_O, NULL},
    {"_setting_get", setting_get, METH_O, NULL},
    {"_setting_set", setting_set, METH_VARARGS, NULL},
    {"_control_set", control_set, METH_VARARGS, NULL},
    {"_train", KEYWORDS(model_train), NULL},
    {"_generate", KEYWORDS(model_generate), NULL},
    {"_evaluate", model_evaluate, METH_O, NULL},
    {"_predict", model_predict, METH_VARARGS, NULL},
    {"_inspect", KEYWORDS(model_inspect), NULL},
    {"_emit", model_emit, METH_O, NULL},
    {"_profile", KEYWORDS(model_profile), NULL},
    {"_tune", KEYWORDS(model_tune), NULL},
    {"_check", model_check, METH_NOARGS, NULL},
    {"_save_program", model_save_program, METH_VARARGS, NULL},
    {0},
};
static PyGetSetDef properties[] = {
    {"device", get_device, NULL, "Where it runs, \"cuda:0 NVIDIA H200\".", NULL},
    {"_changes", get_changes, NULL, NULL, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)model_free}, {Py_tp_traverse, (void *)visit},
    {Py_tp_clear, (void *)clear},        {Py_tp_methods, methods},
    {Py_tp_getset, properties},          {0},
};
static PyType_Spec spec = {.name = "netc._netc.Model",
                           .basicsize = sizeof(Model),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           .slots = slots};

bool model_type_make(PyObject *module, State *s)
{
    s->model_type = PyType_FromModuleAndSpec(module, &spec, NULL);
    return s->model_type && !PyModule_AddObjectRef(module, "Model", s->model_type);
}
