// Text: tokenizers, and text that a model generates after a prompt.
#include <stdlib.h>
#include <string.h>

#include "python/ext/py.h"

static const char tokenizer_name[] = "netc.tokenizer";

static void tokenizer_end(PyObject *capsule)
{
    netc_tokenizer_free(PyCapsule_GetPointer(capsule, tokenizer_name));
}

// tokenizer_open(path, pattern or None): a capsule.
PyObject *tokenizer_open(PyObject *module, PyObject *args)
{
    const char *path;
    netc_tokenizer *t = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_tokenizer_options, o);
    if (!PyArg_ParseTuple(args, "O&z", path_given, &path, &o.pattern)) return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    netc_tokenizer_open(path, &o, &t, &err);
    PyEval_RestoreThread(gil);
    if (err) return raise_error(PyModule_GetState(module), err);
    PyObject *capsule = PyCapsule_New(t, tokenizer_name, tokenizer_end);
    if (!capsule) netc_tokenizer_free(t);
    return capsule;
}

PyObject *tokenizer_count(PyObject *module, PyObject *capsule)
{
    (void)module;
    netc_tokenizer *t = PyCapsule_GetPointer(capsule, tokenizer_name);
    return t ? PyLong_FromLongLong(netc_tokenizer_count(t)) : NULL;
}

// tokenizer_encode(capsule, bytes, plain): tokens.
PyObject *tokenizer_encode(PyObject *module, PyObject *args)
{
    PyObject *capsule, *list;
    const char *text;
    Py_ssize_t length;
    int plain;
    int32_t *tokens = NULL;
    int64_t n = 0;
    netc_error *err = NULL;
    PyObject *bytes;
    if (!PyArg_ParseTuple(args, "OSp", &capsule, &bytes, &plain)) return NULL;
    netc_tokenizer *t = PyCapsule_GetPointer(capsule, tokenizer_name);
    if (!t) return NULL;
    text = PyBytes_AsString(bytes);
    length = PyBytes_Size(bytes);
    PyThreadState *gil = PyEval_SaveThread();
    netc_tokenizer_encode(t, text, (size_t)length, plain, &tokens, &n, &err);
    PyEval_RestoreThread(gil);
    if (err) return raise_error(PyModule_GetState(module), err);
    list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *token = PyLong_FromLong(tokens[i]);
        if (!token || PyList_SetItem(list, i, token)) Py_CLEAR(list);
    }
    netc_free(tokens);
    return list;
}

// tokenizer_text(capsule, token): bytes, or None: there is no such token.
PyObject *tokenizer_text(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    long long token;
    const char *bytes;
    size_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &token)) return NULL;
    netc_tokenizer *t = PyCapsule_GetPointer(capsule, tokenizer_name);
    if (!t) return NULL;
    if (!netc_tokenizer_text(t, token, &bytes, &n)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
}

// -- writing --------------------------------------------------------------------------------------

typedef struct Writing {
    Model *m;
    PyObject *told; // called with each token
} Writing;

static bool drawn(void *user, int64_t row, int64_t token)
{
    Writing *w = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *r = w->m->raised[0]
                      ? NULL
                      : PyObject_CallFunction(w->told, "LL", (long long)row, (long long)token);
    bool more = r && r != Py_False;
    Py_XDECREF(r);
    if (!r && !w->m->raised[0]) PyErr_Fetch(&w->m->raised[0], &w->m->raised[1], &w->m->raised[2]);
    PyGILState_Release(gil);
    return more;
}

// The prompts of a list of bytes, int32 each. NULL: an exception is set.
static netc_prompt *prompts_of(PyObject *list, int64_t *n)
{
    *n = PyList_Size(list);
    netc_prompt *p = *n < 0 ? NULL : calloc((size_t)*n + 1, sizeof *p);
    if (!p && *n >= 0) PyErr_NoMemory();
    for (int64_t i = 0; p && i < *n; i++) {
        PyObject *bytes = PyList_GetItem(list, i);
        const char *at = bytes ? PyBytes_AsString(bytes) : NULL;
        if (!at) return free(p), NULL;
        p[i] = (netc_prompt){(const int32_t *)(const void *)at,
                             PyBytes_Size(bytes) / (Py_ssize_t)sizeof(int32_t)};
    }
    return p;
}

PyObject *model_generate(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {
        "prompts", "told",  "entry", "length",  "temperature",
        "top_k",   "top_p", "seed",  "prefill", "repetition_penalty",
        NULL};
    Model *m = (Model *)self;
    Writing w = {.m = m};
    PyObject *list;
    long long length, top_k;
    unsigned long long seed;
    netc_error *err = NULL;
    NETC_INIT(netc_generate_options, o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|zLdLdKzd", CONST_NAMES(names), &list,
                                     &w.told, &o.entry, &length, &o.temperature, &top_k, &o.top_p,
                                     &seed, &o.prefill, &o.repetition_penalty))
        return NULL;
    netc_prompt *prompts = prompts_of(list, &o.ntexts);
    if (!prompts) return NULL;
    if (!model_enter(m, true)) {
        free(prompts);
        return NULL;
    }
    o.texts = prompts;
    if (o.ntexts == 1) { // all texts of the batch begin with it
        o.prompt = prompts->tokens;
        o.nprompt = prompts->n;
        o.texts = NULL;
        o.ntexts = 0;
    }
    o.length = length, o.top_k = top_k, o.seed = seed;
    o.token = drawn;
    o.user = &w;
    model_forget_raised(m);
    model_unplace(m);
    model_root(m)->busy = true;
    PyThreadState *gil = PyEval_SaveThread();
    netc_status status = netc_generate(m->session, &o, &err);
    PyEval_RestoreThread(gil);
    model_root(m)->busy = false;
    PyObject *out =
        status != NETC_OK || m->raised[0] ? model_raise(m, err) : (Py_INCREF(Py_None), Py_None);
    model_leave(m);
    free(prompts);
    return out;
}
