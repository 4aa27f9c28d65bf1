// Shared by the files of the extension. It is built on the limited API of CPython 3.10 (abi3), so
// that one file serves every later Python; python/netc/ is written on top of it.
#ifndef NETC_PY_H
#define NETC_PY_H

#include <Python.h> // (no '#' in formats: they mean another thing when built by Python 3.13)
#include <stdbool.h>

#include "include/netc.h"

// -- the buffer protocol (buffer.c) ---------------------------------------------------------------
// Every Python since 3.3 has it with this layout; the limited API only since 3.11. So it is found
// at run time.
typedef struct PyBuf {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} PyBuf;
enum { BUF_WRITABLE = 1, BUF_FORMAT = 4, BUF_ND = 8, BUF_STRIDES = 0x18 };
enum { SLOT_GETBUFFER = 1, SLOT_RELEASEBUFFER = 2 }; // of a type

typedef struct Buffers {
    int (*check)(PyObject *o);
    int (*get)(PyObject *o, PyBuf *view, int flags);
    void (*release)(PyBuf *view);
} Buffers;
bool buffers_find(Buffers *b); // false: an exception is set

// -- the module's state (module.c) ----------------------------------------------------------------
typedef struct State {
    PyObject *model_type, *entry_type, *array_type; // of this file
    // Of the package, given by _netc.register: the exception, the class outputs are made of, a
    // function (object, dtype, rank) that makes an array of lists and numbers, and NumPy's empty
    // or None.
    PyObject *error, *array, *convert, *empty;
    PyObject *dlpack, *dlpack_device, *out; // names
    PyObject *dlpack_exchange;
    PyObject *exchange_type;           // the last type asked for DLPack's C functions,
    const struct DlExchange *exchange; // and they, or NULL
    bool masked;                       // it is one of numpy.ma's
    PyObject *harden_mask;             // a name that only those have
    PyObject *versions;                // {"max_version": (1, 1)}
    PyObject *called;                  // entries by the keys that XLA calls them by (ffi.c)
    int forks;                         // that led to this process
    Buffers buffers;
} State;

// Raises e as netc.Error, frees it, and returns NULL. An exception that is set already, and a
// signal that arrived meanwhile (Ctrl-C), come first.
PyObject *raise_error(State *s, netc_error *e);
// Raises netc.Error with this text: something that was given is wrong.
PyObject *raise_text(State *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// For "O&" of PyArg_Parse, to const char *: a path as bytes (_path.py), which may be no UTF-8, or
// None for NULL. Points into the argument.
int path_given(PyObject *o, void *out);
// A text of the library, which may name files: bytes that are no UTF-8 are replaced. NULL: None.
PyObject *text_given(const char *text);

// -- tensors (take.c) -----------------------------------------------------------------------------
typedef struct Taken { // an object's memory, described for netc; given back by taken_release
    netc_tensor t;
    PyObject *keep; // a capsule, or what was made of a list
    PyBuf view;
    bool viewed;
    bool wait; // it is ready behind what is enqueued on this stream,
    bool work; // where its library goes on with it, too
    void *stream;
} Taken;
typedef struct Wish {
    const netc_port *port;     // what it should be, or NULL. Only lists and numbers are made so: an
                               // array's own type and shape are for the library to compare
    const char *device;        // that the model runs on: "cuda:0"; NULL: it must be the host's
    unsigned long long stream; // of a GPU, on which the tensor must be ready; 0: the default one
    bool write;                // it will be written to
} Wish;
// what: "input 'x'", for errors. false: an exception is set.
bool take(State *s, PyObject *o, const char *what, const Wish *want, Taken *out);
void taken_release(State *s, Taken *t);
PyObject *shape_tuple(const netc_port *p);                                        // new reference
char *type_text(char *out, size_t n, netc_dtype t, int rank, const int64_t *dim); // "f32[4, 3]"

// DLPack's structs (https://dmlc.github.io/dlpack), of 1.x and before.
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
typedef struct DlTensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; // strides in elements, NULL: row-major
    uint64_t byte_offset;
} DlTensor;
typedef struct DlManaged {
    DlTensor tensor;
    void *manager;
    void (*deleter)(struct DlManaged *self);
} DlManaged;
typedef struct DlVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DlVersioned *self);
    uint64_t flags; // 1: read-only
    DlTensor tensor;
} DlVersioned;
bool dl_type(netc_dtype t, uint8_t *code, uint8_t *bits);

// -- arrays (array.c): memory of an output, exported by DLPack and as a buffer --------------------
bool array_type_make(PyObject *module, State *s);
// An object of [class], array_type or a subclass, and where its elements are to be written.
PyObject *array_new(State *s, PyObject *class, const netc_port *type, void **data);

// -- models (model.c) -----------------------------------------------------------------------------
typedef struct Notes Notes;
typedef struct Model {
    PyObject_HEAD State *state;
    netc_context *context;
    netc_program *program;
    netc_session *session;
    struct Model *parent; // whose parameters and states, and lock, are used; or NULL
    PyThread_type_lock lock;
    unsigned long owner;   // the thread that holds the lock,
    int depth;             // so many times
    PyObject *placed;      // names of entries whose outputs are stored at places of the caller's
    unsigned long changes; // of parameters and states from outside, and by training
    bool busy;             // something runs that calls back, and that nothing may come between
    unsigned long long stream; // the caller's that it runs on; 0: one of its own
    int forks;                 // State.forks when the lock was made,
    int made;                  // and when it was
    PyObject *raised[3];       // by a callback, or a signal: it stopped what ran
    PyObject *on_event;        // what training tells
    PyObject *held[2]; // data of the last training and evaluation: the session points into them
    Notes *notes;
} Model;
bool model_type_make(PyObject *module, State *s);
// The one door to a session: one thread at a time, the others wait with the GIL released. false: an
// exception is set. alone: not from a callback of what runs.
bool model_enter(Model *m, bool alone);
void model_leave(Model *m);
void model_unplace(Model *m); // within: places of callers are not written to any more (call.c)
void model_changes(Model *m); // within: parameters or states are about to change
const char *model_device(const Model *m, char *out, size_t n); // "cuda:0"
// After a call that ran callbacks: raises what one of them raised, else e.
PyObject *model_raise(Model *m, netc_error *e);
void model_forget_raised(Model *m);
// In a callback, with the GIL: calls on_event with args (taken; NULL: an exception is set), unless
// it has raised before. last: then, too.
void model_tell(Model *m, PyObject *args, bool last);
Model *model_root(Model *m);                                                // whose lock it is
PyObject *model_open(PyObject *module, PyObject *args, PyObject *keywords); // _netc.open

// -- entries (entry.c): the call ------------------------------------------------------------------
bool entry_type_make(PyObject *module, State *s);
PyObject *model_entry(PyObject *self, PyObject *name);
PyObject *model_entries(PyObject *self, PyObject *none);

// -- the methods of a model, by file --------------------------------------------------------------
PyObject *state_names(PyObject *self, PyObject *none); // state.c
PyObject *state_info(PyObject *self, PyObject *name);
PyObject *state_get(PyObject *self, PyObject *args);
PyObject *state_set(PyObject *self, PyObject *args);
PyObject *state_check(PyObject *self, PyObject *none); // state.c
PyObject *state_save(PyObject *self, PyObject *path);
PyObject *state_load(PyObject *self, PyObject *args);
PyObject *state_adopt(PyObject *self, PyObject *other);
PyObject *setting_get(PyObject *self, PyObject *name);
PyObject *setting_set(PyObject *self, PyObject *args);
// Memory for a result: an array of NumPy where [make] has its arguments, else one of ours.
PyObject *output_new(State *s, const netc_port *type, PyObject *make, void **data,
                     PyBuf *view); // entry.c
PyObject *state_value(State *s, const netc_port *type, void **data, PyBuf *view);
PyObject *model_train(PyObject *self, PyObject *args, PyObject *keywords); // train.c
PyObject *model_evaluate(PyObject *self, PyObject *data);
PyObject *model_predict(PyObject *self, PyObject *args); // predict.c
// The texts of a sequence, which must live as long as they are used. false: an exception is set; at
// is to be freed in any case.
typedef struct Words {
    const char **at;
    int n;
} Words;
bool read_words(PyObject *list, Words *out);
void model_hold(Model *m, int which, PyObject *capsule); // within: data, as in held
// Arrays and files by input as a data set, in a capsule that holds them. NULL: an exception is set.
PyObject *data_new(Model *m, PyObject *dict);
netc_dataset *data_set(PyObject *capsule);                                   // NULL of None
PyObject *control_set(PyObject *self, PyObject *args);                       // state.c
PyObject *model_inspect(PyObject *self, PyObject *args, PyObject *keywords); // tools.c
PyObject *model_emit(PyObject *self, PyObject *stage);
PyObject *model_profile(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *model_tune(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *model_check(PyObject *self, PyObject *none);
PyObject *model_save_program(PyObject *self, PyObject *args);

PyObject *tokenizer_open(PyObject *module, PyObject *args); // generate.c
PyObject *tokenizer_count(PyObject *module, PyObject *capsule);
PyObject *tokenizer_encode(PyObject *module, PyObject *args);
PyObject *tokenizer_text(PyObject *module, PyObject *args);
PyObject *model_generate(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *ffi_handlers(PyObject *module, PyObject *none); // ffi.c: for XLA, capsules (cpu, cuda)

#define CONST_NAMES(list) (char **)(uintptr_t)(list) // of PyArg_ParseTupleAndKeywords
#endif
