// netc: compile, train and run neural networks from C. The only installed header.
//
// Objects are opaque and made by functions that return a netc_status and, through their last
// argument, an error object that holds the whole diagnostic. The library never prints, never exits
// and never aborts, keeps no global state, and may be used from several threads: a context and a
// program by many at once, a session by one at a time.
//
//     netc_context *ctx;  netc_program *program;  netc_session *session;  netc_error *err = NULL;
//     netc_context_create(NULL, &ctx, &err);
//     netc_compile_text(ctx, "mlp.net", text, NULL, &program, &err);
//     netc_session_create(program, "auto", NULL, &session, &err);
//     netc_bind(session, "train", "image", &images, &err);
//     netc_run(session, "train", 1, &err);
//     netc_read(session, "train", "loss", &loss, &err);
//
// Options structs begin with their size: set it with NETC_INIT, so that a program built against
// an older header keeps working with a newer library. Strings given to the library are copied. A
// pointer is NULL only where that is said.
#ifndef NETC_H
#define NETC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NETC_VERSION_MAJOR 0
#define NETC_VERSION_MINOR 1
#define NETC_VERSION_PATCH 0
#define NETC_ABI           1

#if defined(__GNUC__)
#define NETC_API __attribute__((visibility("default")))
#else
#define NETC_API
#endif

// NETC_INIT(netc_train_options, o) declares o, zeroed, its size filled in.
#ifdef __cplusplus
#define NETC_INIT(type, name)                                                                      \
    type name = type();                                                                            \
    name.size = sizeof(type)
#else
#define NETC_INIT(type, name) type name = {.size = sizeof(type)}
#endif

typedef enum netc_status {
    NETC_OK = 0,
    NETC_INVALID = 1,       // the model, a file, a shape, a name: what the caller gave
    NETC_ENVIRONMENT = 2,   // no GPU, driver, compiler, library, space on disk
    NETC_OUT_OF_MEMORY = 3, // on the host or the device
    NETC_CHECK_FAILED =
        4,              // found while running: an index out of range, a loss not finite, an assert
    NETC_CANCELLED = 5, // a hook said stop; state is that of the last finished step
    NETC_INTERNAL = 6,  // a mistake of netc's own
} netc_status;

typedef struct netc_context netc_context; // caches, hooks; thread-safe
typedef struct netc_program netc_program; // a compiled model; immutable, reference-counted
typedef struct netc_session netc_session; // parameters and states on a device; one thread at a time
typedef struct netc_dataset netc_dataset; // named arrays whose axis 0 is the examples
typedef struct netc_tokenizer netc_tokenizer; // immutable; thread-safe
typedef struct netc_error netc_error;

NETC_API const char *netc_version(void); // "0.1.0"
NETC_API int netc_abi(void);             // NETC_ABI of the library

// -- errors
// ------------------------------------------------------------------------------------------- Every
// call that takes netc_error **err sets *err on failure when err is not NULL and *err is NULL (the
// first error wins). Free it with netc_error_free.
NETC_API netc_status netc_error_status(const netc_error *e);
NETC_API const char *netc_error_text(const netc_error *e); // rendered for a person, several lines
NETC_API const char *netc_error_colored(const netc_error *e); // the same for a terminal
NETC_API const char *netc_error_json(const netc_error *e);    // an array of diagnostics
NETC_API void netc_error_free(netc_error *e);                 // NULL is fine

// -- context --------------------------------------------------------------------------------------
typedef struct netc_context_options {
    size_t size;
    const char *cache_dir; // NULL: $XDG_CACHE_HOME/netc, else ~/.cache/netc; "": no cache on disk
    int threads;           // for compiling; 0: as many as there are cores
    bool no_spawn;         // do not start the system's C compiler (CPU programs then need an image)
    void (*log)(void *user, const char *line); // notes: what was compiled, fallbacks taken
    // `use "layers.net"`: the text of [name] used by the file [from], malloc'ed, or NULL when
    // absent.
    char *(*resolve)(void *user, const char *from, const char *name, size_t *length);
    bool (*cancel)(void *user); // asked between steps; true stops with NETC_CANCELLED
    void *user;                 // given to every hook
} netc_context_options;

NETC_API netc_status netc_context_create(const netc_context_options *o, netc_context **out,
                                         netc_error **err);
NETC_API void netc_context_free(netc_context *c); // after everything made from it
// Begins to open a device (as named for netc_session_create) on a thread of its own, so that
// reading data and compiling happen meanwhile: a program compiled then, for no other target, is for
// that device, and its kernels are compiled on threads of their own, which log. A hint: the next
// session on it takes it over, and whatever went wrong is that session's error. At most one at a
// time; more are ignored.
NETC_API void netc_context_prepare(netc_context *c, const char *device);
// Seconds that were spent in a context so far to make programs ready, its sessions' among them.
// What ran at the same time counts for each; a second time comes from the cache and takes next to
// none.
typedef struct netc_phases {
    size_t size;        // of the struct, by the caller
    double text;        // text to the kernels' text: front end, passes, code generation
    double compile;     // kernels compiled, by NVRTC or the C compiler
    double compile_cpu; // processor time of that (CUDA)
    double library;     // the library of products opened
    double load;        // code loaded onto the device
    double search;      // the library's algorithms timed, while kernels are compiled
    double choose;      // the fastest of them timed beside kernels
} netc_phases;
NETC_API void netc_context_phases(netc_context *c, netc_phases *out);

// -- tensors --------------------------------------------------------------------------------------
typedef enum netc_dtype {
    NETC_BOOL,
    NETC_U8,
    NETC_I32,
    NETC_U32,
    NETC_I64,
    NETC_BF16,
    NETC_F16,
    NETC_F32,
    NETC_F64
} netc_dtype;
NETC_API const char *netc_dtype_name(netc_dtype t); // "f32"
NETC_API size_t netc_dtype_size(netc_dtype t);      // bytes of an element

typedef struct netc_tensor { // dense, row-major; what is bound or a data set: aligned to elements
    netc_dtype dtype;
    int rank;
    int64_t dim[8];
    void *data;
    bool on_device; // data is a pointer of the session's CUDA device, aligned to 16 bytes
} netc_tensor;

// -- data -----------------------------------------------------------------------------------------
// Files: IDX (.gz too), CIFAR-10 binary, .npy, tokens (netc_tokenize, llm.c; raw); several, joined
// by commas, are concatenated. Large files of tokens stay where they are, and are read as they are
// needed. part: which tensor of a file that holds several ("images", "labels"), or NULL.
// .npz: part is the array's name (NULL: the only one). .csv and .tsv: a line an example, in
// numbers, with or without a line of names; part: a column by name or number, or "first-last". A
// folder of such files and .npy: all of them, by their names' order, each with examples or (.npy,
// .npz) one. Other known formats (.png, zip, …) are refused; part "raw" takes any file's bytes for
// elements, "u16" and "u32" for tokens of 16 and 32 bits.
// A thread begins to read a file when it is added (a pipe is read when it is used); what is wrong
// with it is said when it is used.
NETC_API netc_status netc_dataset_create(netc_context *c, netc_dataset **out, netc_error **err);
NETC_API netc_status netc_dataset_add_file(netc_dataset *d, const char *input, const char *path,
                                           const char *part, netc_error **err);
// Windows of tokens begin anywhere in their files, not where the one before ends: netc_train draws
// them from seed and epoch, as many an epoch as would follow each other. Said before d is used.
NETC_API netc_status netc_dataset_random_windows(netc_dataset *d, netc_error **err);
// A folder, or .tar archives joined by commas, is a set of PNG and JPEG images, u8[h, w, 1 or 3]:
// of a folder each folder in it is a class, labelled by their sorted names; archives are
// WebDataset's (KEY.jpg beside KEY.cls, uncompressed). part: "images" and "labels" (NULL: by what
// the input wants), "stream": images that are decoded as they are needed, as all are that memory
// should not be taken for. resize: images are scaled and cut to the input's size, else all must
// have it. skip_bad: those that cannot be decoded are left out, with a note, else they are an
// error. Said before d is used. libspng, TurboJPEG and libarchive are opened when they are needed.
NETC_API netc_status netc_dataset_images(netc_dataset *d, bool resize, bool skip_bad,
                                         netc_error **err);
// The array stays the caller's and must outlive the data set.
NETC_API netc_status netc_dataset_add_array(netc_dataset *d, const char *input,
                                            const netc_tensor *t, netc_error **err);
NETC_API void netc_dataset_free(netc_dataset *d);
// What was read for an input of the program, whole; t->data is the data set's.
NETC_API netc_status netc_dataset_array(netc_dataset *d, netc_program *p, const char *input,
                                        netc_tensor *t, netc_error **err);
// A whole file of those formats as a tensor (t->data: netc_free; of a table f32), and a tensor as
// .npy, or where the file is named so as .csv, .tsv or .npz (with one array, "arr_0"), written
// beside the target and renamed.
NETC_API netc_status netc_array_read(const char *path, netc_tensor *t, netc_error **err);
NETC_API netc_status netc_array_write(const char *path, const netc_tensor *t, netc_error **err);
// Several as an .npz.
NETC_API netc_status netc_arrays_write(const char *path, const char *const *names,
                                       const netc_tensor *t, int n, netc_error **err);

// -- compiling ------------------------------------------------------------------------------------
typedef struct netc_compile_options {
    size_t size;
    const char *const *defines; // "name=value", each overriding a const, dim or setting
    int ndefines;
    const char *target;       // "cpu", "cuda", "all" (default: both are compiled on demand)
    const char *precision;    // "f32" (default), "tf32", "bf16", "f16"
    const char *skip_passes;  // optional passes left out, comma-separated
    int64_t memory_limit;     // bytes of temporaries to aim for; 0: none
    bool no_reuse;            // every temporary a place of its own (to find planning mistakes)
    bool no_matmul_library;   // generated matmuls only
    const netc_dataset *data; // dimensions it fixes; may be NULL
    const char *dump_dir;     // numbered files after every pass, or NULL
    const char *choices;      // text of a choice table, or NULL
    int arch; // CUDA architecture to plan for (80, 90, 100); 0: the device's, else 90
    // Only these outputs are wanted of the entry outputs_of (NULL: the only model): what they do
    // not need, inputs included, is left out.
    const char *outputs_of;
    const char *const *outputs;
    int noutputs;
    bool whole_data;       // the arrays of data are whole inputs: axis 0, too, fixes its dimension
    bool rebuild;          // of a model.bin: its code is ignored and made anew from its source
    const char *tune_file; // measured schedules (netc_tune); NULL: NAME.tune where a file is
                           // compiled and there is one; "": none
    const char *kernels_dir; // edited kernels; NULL: NAME.kernels, as above; "": none
    bool locked; // an error when a kernel has no line of the tuning file
    const netc_dataset *eval_data; // what netc_train will evaluate on: a hint, used while a device
                                   // is prepared; may be NULL
    // Only these entries will be run, and init; a NULL stands for the file's only model. The others
    // are left out: they cost nothing, and an error in them is a note in the log. Where nothing
    // trains, so are parameters and states that only the others use. None named: all entries. With
    // "next" goes "prefill" where there is one: netc_generate runs both.
    const char *const *entries;
    int nentries;
    // A model.bin written from the program runs with these batches, too, without a compiler.
    const int64_t *batches;
    int nbatches;
    // Of a file with several train blocks the one that the entries "train" and "eval" are of
    // (`train MODEL as NAME`, else called after the model); NULL: the first.
    const char *program;
    // With arguments (not NULL, though there may be 0 of them) the entry outputs_of, a model, is
    // compiled as a function, for a host with a differentiation of its own, and is the only entry:
    // parameters that one of the patterns names ('*': any text) are inputs behind the model's.
    const char *const *arguments;
    int narguments;
    // The gradients of that function instead: what it takes, each state S that it depends on, as
    // "@was.S", with the value that S had when the function began, and a cotangent "@d.Z" for each
    // of its float outputs Z are inputs, as far as they are needed; outputs are the gradients with
    // respect to the float inputs and arguments that one of the patterns names, called as those. It
    // computes the forward part again, and writes no state.
    const char *const *gradients;
    int ngradients;
    // The function also gives what its gradients want: "@was.S", and results of its layers as
    // "@kept.N"; gradients compiled with keep take those instead of computing them again.
    bool keep;
    bool training; // the models are compiled as while training: dropout acts
    // The function takes states S and settings as "@was.S" and gives those that it writes as
    // "@now.S", changing none; counts of the runtime's own are i32. No gradient passes through.
    bool states;
    // With gradients: those of the function of gradients with respect to what these patterns name,
    // which takes a cotangent "@dd.X" for each. "@d.Z" can be named, too. Nothing kept is taken.
    const char *const *second;
    int nsecond;
} netc_compile_options;

// name: shown in diagnostics and used to find `use` files. A model.bin is recognised by its
// contents. It holds machine code, which a session runs with the rights of this process: load it
// only from whom you would load a library, or with rebuild. One whose name ends in ".net" is
// refused, for a model's text runs nothing but itself.
NETC_API netc_status netc_compile_text(netc_context *c, const char *name, const char *text,
                                       const netc_compile_options *o, netc_program **out,
                                       netc_error **err);
NETC_API netc_status netc_compile_file(netc_context *c, const char *path,
                                       const netc_compile_options *o, netc_program **out,
                                       netc_error **err);
// Writes model.bin: source, programs for both targets, cubins for archs ("sm_80,sm_90,sm_100";
// NULL: those three), PTX, the CPU object, the choice table, and, when session is not NULL, its
// weights.
NETC_API netc_status netc_program_save(netc_program *p, const char *path, const char *archs,
                                       netc_session *weights, netc_error **err);
NETC_API netc_program *netc_program_retain(netc_program *p);
NETC_API void netc_program_release(netc_program *p);
// Stages: "ast", "ir", "grad", "fused", "plan", "tile", "cuda", "c", "ptx", "dot". *text: netc_free.
NETC_API netc_status netc_program_emit(netc_program *p, const char *stage, char **text,
                                       netc_error **err);
// Kernels with bytes, flops and floors, the memory plan; nothing is run.
typedef struct netc_inspect_options {
    size_t size;
    const char *target; // "cpu", "cuda"; NULL: what would run here
    const char *kernel; // this kernel's annotated source instead
    bool why;           // instead: which values are stored between kernels, and why
    bool in_order;      // steps as they run; else the dearest first
    bool cards; // instead, of a GPU's kernels, or of [kernel]: registers, local and shared memory,
                // what the compiler said, compiled for the architecture where the cubins are not
                // there; beside the rest in JSON and with other
    bool json;
    netc_program *other; // instead: what differs in this one
    bool params;         // instead: parameters and states, and what each begins as
    bool model;          // instead: the layers of the trained model, or of the one that [kernel]
                         // names: shapes, parameters, operations, bytes handed on
} netc_inspect_options;
NETC_API netc_status netc_inspect(netc_program *p, const netc_inspect_options *o, char **text,
                                  netc_error **err);
// One page of HTML that needs nothing else: an entry's graph by scopes, its memory, roofline and
// timeline, curves of training. Nothing is run. Free with netc_free.
typedef struct netc_report_options {
    size_t size;
    const char *entry;  // NULL: the profile's, or train, or the first model
    const char *target; // "cpu", "cuda"; NULL: the profile's, or what would run here
    const char
        *profile; // a file that netc profile --json wrote of this build; NULL: modelled times
    const char *const *logs; // files that netc train --log wrote
    int nlogs;
} netc_report_options;
NETC_API netc_status netc_report(netc_program *p, const netc_report_options *o, char **html,
                                 netc_error **err);
// The schedule of every kernel, with its identity in a tuning file, and what else the choice table
// holds; of one kernel its knobs and their legal values.
NETC_API netc_status netc_program_knobs(netc_program *p, const char *target, const char *kernel,
                                        char **text, netc_error **err);
// Writes a CUDA kernel of the model into its folder of edited kernels (kernels_dir), with what it
// is called with in the head; from then on compiling takes the file's text. *path: netc_free.
NETC_API netc_status netc_program_eject(netc_program *p, const char *kernel, char **path,
                                        netc_error **err);
NETC_API void netc_free(void *p);

typedef struct netc_port { // an input or output of an entry
    const char *name;
    netc_dtype dtype;
    int rank;
    int64_t dim[8];
    bool data; // axis 0 is examples
} netc_port;
// Entries: "init", "train", "eval", and each model by its name. -1 for an unknown entry.
NETC_API int netc_entry_count(netc_program *p);
NETC_API const char *netc_entry_name(netc_program *p, int i);
NETC_API int netc_input_count(netc_program *p, const char *entry);
NETC_API int netc_output_count(netc_program *p, const char *entry);
NETC_API netc_status netc_input_info(netc_program *p, const char *entry, int i, netc_port *out,
                                     netc_error **err);
// The i-th that the text declares, needed or not; NULL behind the last (none of functions).
NETC_API const char *netc_declared_input(netc_program *p, const char *entry, int i);
NETC_API netc_status netc_output_info(netc_program *p, const char *entry, int i, netc_port *out,
                                      netc_error **err);
// What running the entry does besides computing its outputs, NETC_ENTRY_*; -1: there is no such.
enum {
    NETC_ENTRY_READS = 1,  // parameters or states
    NETC_ENTRY_WRITES = 2, // them (the count of executions of one that draws random numbers, too)
    NETC_ENTRY_CHECKS = 4, // indices, asserts: it can fail
};
NETC_API int netc_entry_effects(netc_program *p, const char *entry);

// -- running --------------------------------------------------------------------------------------
typedef struct netc_session_options {
    size_t size;
    int64_t seed; // of initial values, dropout, shuffling
    // Use this session's parameters and states instead of new ones. Entries that write states, or
    // count their executions because they draw random numbers, run in one of them at a time.
    netc_session *share;
    void *stream; // a CUstream of the caller to enqueue on, or NULL
    // CPU: runs body over [0, n) in pieces; NULL: the library's own threads, as many as the
    // environment's OMP_NUM_THREADS says, else as this process may use cores.
    void (*parallel_for)(void *user, long n, void (*body)(void *arg, long begin, long end),
                         void *arg);
    void *parallel_user;
    // Device memory from the caller, all of the session's: parameters, temporaries, data sets.
    // bytes aligned to 256 on device ("cuda:0", "cpu"), or NULL when there is none
    // (NETC_OUT_OF_MEMORY). Given back when no work uses it, the last with the last session that
    // shares it. Both or neither.
    void *(*device_alloc)(void *user, const char *device, size_t bytes);
    void (*device_free)(void *user, const char *device, void *p);
    void *alloc_user;
} netc_session_options;

// device: "cpu", "cuda", "cuda:1", "auto" (a GPU when there is one). Runs the init entry.
NETC_API netc_status netc_session_create(netc_program *p, const char *device,
                                         const netc_session_options *o, netc_session **out,
                                         netc_error **err);
NETC_API void netc_session_free(netc_session *s);
NETC_API const char *netc_session_device(const netc_session *s); // "cuda:0 NVIDIA H200"

// The tensor to read at the following runs of [entry]. The memory stays the caller's and must not
// change until netc_sync. Shape and type must be the port's. Binding again recompiles nothing. On a
// GPU what lies there is read where it lies; of an entry with more than eight launches it is copied
// once its address has changed between runs.
NETC_API netc_status netc_bind(netc_session *s, const char *entry, const char *input,
                               const netc_tensor *t, netc_error **err);
// The same from a DLManagedTensor (DLPack 0.8). Its deleter is called when it is unbound. A layout
// that is not dense row-major is refused, naming the strides wanted.
NETC_API netc_status netc_bind_dlpack(netc_session *s, const char *entry, const char *input,
                                      void *dl_managed_tensor, netc_error **err);
// Where the following runs of [entry] store an output: on a GPU t->on_device, elsewhere the host's
// memory; NULL: in memory of the session's, as before. It stays the caller's, and must be there
// until netc_sync or the next netc_bind_output. It must not lie over an input, nor another output.
// Of an entry with more than eight launches it is copied there once its address has changed.
NETC_API netc_status netc_bind_output(netc_session *s, const char *entry, const char *output,
                                      const netc_tensor *t, netc_error **err);
// What the session enqueues from now on waits for what was enqueued until now on [stream], a
// CUstream of the caller's or NULL, the default stream: called before what is being computed there
// is bound. netc_before: what the caller enqueues on [stream] from now on waits for what the
// session was given until now; so outputs stored in device memory are used without netc_sync, at
// which errors of the device come all the same. On the CPU they do nothing.
NETC_API netc_status netc_after(netc_session *s, void *stream, netc_error **err);
NETC_API netc_status netc_before(netc_session *s, void *stream, netc_error **err);
// A caller's CUDA graph may hold runs: of a session on a stream that he captures, or between
// netc_after and netc_before of such a stream. netc_run then records what the run would do, with
// the memory that its inputs and outputs have now, which must be the device's, and each launch of
// the graph does it: parameters and states are those of that moment, and what counts or draws
// random numbers goes on from launch to launch. Until the capture ends the session takes nothing
// but binding and netc_run. Refused, before anything is recorded: an entry that has not run before
// or that checks something (NETC_ENTRY_CHECKS; training checks its loss), host memory, data sets.
// The session and that memory must live as long as the graph. A launch is work on the session's
// parameters, states and memory: order it with other runs by its stream (netc_after, netc_before).
// Of sessions that share these cells, a run without netc_after before it, on a stream of netc's
// own, and whatever reads or writes states wait for the whole device from then on.
NETC_API bool netc_capturing(netc_session *s); // whether its stream is being captured
// Runs [entry] on made-up inputs if it has not run yet, so that it can be captured: one that writes
// no states and checks nothing.
NETC_API netc_status netc_warm_up(netc_session *s, const char *entry, netc_error **err);
// Captured runs share the session's temporaries with all that it runs. For a host whose graphs may
// launch runs of one entry side by side: the bytes of its temporaries (-1: there is no such entry),
// and device memory, aligned to 256, for those of the next captured runs; NULL: the session's.
NETC_API int64_t netc_temporaries(netc_session *s, const char *entry);
NETC_API netc_status netc_bind_temporaries(netc_session *s, const char *entry, void *device,
                                           size_t bytes, netc_error **err);
// Enqueues. A step of "train" whose indices, asserts or loss fail a check changes nothing. Whether
// what it writes is finite is not looked at (netc_train does): ask netc_state_check. In front of
// its first step, what begins as something made of inputs is made of those that are bound; before
// that other entries that read it fail.
NETC_API netc_status netc_run(netc_session *s, const char *entry, int64_t times, netc_error **err);
// Waits; errors of the device come here.
NETC_API netc_status netc_sync(netc_session *s, netc_error **err);
// Waits, then copies an output of the last run of [entry], which there must have been, into
// t->data, whose shape is checked; with on_device into memory of the session's GPU, where it is
// when this returns.
NETC_API netc_status netc_read(netc_session *s, const char *entry, const char *output,
                               netc_tensor *t, netc_error **err);
// An output as a new DLManagedTensor on the CPU, the caller's to delete.
NETC_API netc_status netc_read_dlpack(netc_session *s, const char *entry, const char *output,
                                      void **dl_managed_tensor, netc_error **err);
NETC_API netc_status netc_set(netc_session *s, const char *setting, double value, netc_error **err);
NETC_API netc_status netc_get(netc_session *s, const char *setting, double *value,
                              netc_error **err);

// Parameters and states by full name ("fc1.weight"). Training in f16 adds "@loss_scale" (f32),
// "@good_steps" and "@skipped" (i64). A host with a training loop of its own writes "@total" (i64),
// the steps it will make, where the model's schedules ask for `total`.
NETC_API int netc_state_count(netc_session *s);
NETC_API netc_status netc_state_info(netc_session *s, int i, netc_port *out, netc_error **err);
NETC_API netc_status netc_state_read(netc_session *s, const char *name, netc_tensor *t,
                                     netc_error **err);
NETC_API netc_status netc_state_write(netc_session *s, const char *name, const netc_tensor *t,
                                      netc_error **err);
// Waits, then looks at all parameters and states: NETC_CHECK_FAILED, naming them, when one holds a
// NaN, or a parameter or optimizer's state an infinity. It reads them all, which takes as long as
// saving; a host with its own training loop asks before it saves, and now and then.
NETC_API netc_status netc_state_check(netc_session *s, netc_error **err);
// safetensors, written beside the target and renamed: the old file is never damaged.
NETC_API netc_status netc_state_save(netc_session *s, const char *path, netc_error **err);
// The same in parts where path ends in ".json", the index of a checkpoint in parts
// ("model.safetensors.index.json"): they are written beside it, then the index, then the parts of
// the index that was there are removed.
typedef struct netc_save_options {
    size_t size;
    bool weights_only; // what netc_load_options.weights_only takes, as published files are: no step
    const char *type;  // of those: "bf16", "f16", "f32", as which floats are written; NULL: as is
    int64_t part_bytes; // the most that a part holds, unless one tensor is larger; 0: 5e9
} netc_save_options;
NETC_API netc_status netc_state_save_as(netc_session *s, const char *path,
                                        const netc_save_options *o, netc_error **err);
typedef struct netc_load_options {
    size_t size;
    const char *const *map; // "pattern=replacement", '*' matches; file name -> model name
    int nmap;
    bool allow_missing; // tensors the file lacks keep their values
    // What the models compute with: parameters, states and settings they read; not what only the
    // updates of a train block use (moments, a learning rate), and no step. A state of another size
    // in the file, a hidden state of another batch, begins at its initial value, with a note.
    // Floats of another width are converted, with a note.
    bool weights_only;
    // Tensors of the file that the model does not want, such as buffers; '*' matches any text.
    // Others that it does not have are an error, unless netc wrote the file.
    const char *const *ignore;
    int nignore;
    // Parameters of the model whose matrices the file holds transposed; '*' matches any text, and
    // what has not two axes is left as it is.
    const char *const *transpose;
    int ntranspose;
} netc_load_options;
NETC_API netc_status netc_state_load(netc_session *s, const char *path, const netc_load_options *o,
                                     netc_error **err);
// Carries same-named, same-typed parameters and states of [from] over (hot reloading).
//
// Where a state begins as a function of others ("state slow = p"), netc_state_load and netc_adopt
// compute it again from what they brought, unless they brought the state itself;
// netc_state_write writes the one tensor.
NETC_API netc_status netc_adopt(netc_session *to, netc_session *from, int *carried,
                                netc_error **err);

// -- training -------------------------------------------------------------------------------------
typedef struct netc_metric {
    const char *name; // "loss", "eval_accuracy", "norm.fc1.weight.mean" (watched)
    double value;
} netc_metric;

typedef enum netc_event_kind {
    NETC_EVENT_START,    // plan made, memory known; before the first step
    NETC_EVENT_PROGRESS, // a reporting interval ended
    NETC_EVENT_EVAL,     // an evaluation ended
    NETC_EVENT_SAVED,    // a checkpoint was written
    NETC_EVENT_END,      // finished, or stopped by cancel
} netc_event_kind;

typedef struct netc_event {
    netc_event_kind kind;
    int64_t step, total, epoch, epochs, examples;
    double seconds, items_per_second, seconds_left;
    // PROGRESS, EVAL: means over the interval, weighted by examples (NaN: every step was skipped).
    // PROGRESS and END under precision "f16" also loss_scale, and skipped: the steps so far that
    // made no update because a gradient overflowed.
    const netc_metric *metrics;
    int nmetrics;
    const char *text;   // START: tables of configuration and memory; SAVED: the path; END: the best
                        // evaluation and whether training stopped early for it, or NULL
    double epochs_done; // with the part of the epoch under way
} netc_event;

typedef struct netc_train_options {
    size_t size;
    netc_dataset *data, *eval_data; // eval_data may be NULL
    double split;  // e.g. 0.9: the first nine tenths train, the rest evaluates, and there is no
                   // eval_data; 0: all trains
    double epochs; // or steps; default 1 epoch
    int64_t steps;
    int64_t report_every; // steps; 0: about twenty an epoch
    int64_t eval_every;   // steps; 0: each epoch. Where nothing is evaluated: 0
    int64_t save_every;   // steps; 0: at the end only
    const char *save;     // safetensors file, or NULL
    const char *resume; // checkpoint to go on from, with its seed, or NULL; settings that netc_set
                        // has set stay
    bool no_shuffle;
    bool keep_last_partial; // train on the last, smaller batch of an epoch too
    // Parameters, states, outputs and taps whose statistics are reported: names, or patterns of
    // them or of scopes around them ("h.*.attn"; moments of optimizers only by their names).
    const char *const *watch;
    int nwatch;
    // May read and write the session's state, run and evaluate it; not train nor free it.
    void (*event)(void *user, const netc_event *e);
    void *user;
    int64_t part_bytes; // as in netc_save_options
    // A scalar output of evaluations, "accuracy": the checkpoint of the best of them is kept beside
    // the last, "mlp.best.safetensors" beside "mlp.safetensors". Smaller is better where the name
    // has "loss", "err", "perplexity", "nll", "mse", "mae" or "cost" in it, else larger;
    // "accuracy:max" and "x:min" say so. NULL: none is kept.
    const char *save_best;
    // Training ends behind so many evaluations that were no better than the best, by that output or
    // else by "loss"; 0: it does not. Checkpoints hold how both stand.
    int64_t patience;
} netc_train_options;

// Runs the train entry over the data. On NETC_CANCELLED (hook) the step is finished. Whatever ends
// training, the state is that of the last step without mistake, and is saved when save is given:
// where a step has written a parameter or state that is not finite, training goes back to the step
// before it (for which it keeps a copy of the states in host memory) and fails.
// What netc_train would watch under these patterns: *names is freed with netc_free, the names are
// the session's.
NETC_API netc_status netc_watched(netc_session *s, const char *const *patterns, int n,
                                  const char ***names, int *count, netc_error **err);
NETC_API netc_status netc_train(netc_session *s, const netc_train_options *o, netc_error **err);
// Runs the eval entry once over all of data (a smaller last batch included, unless a state is as
// large as the batch: a note); metrics by output name. States that it writes are put back.
// *metrics: freed with netc_free. The hook stops it, too.
NETC_API netc_status netc_evaluate(netc_session *s, netc_dataset *data, netc_metric **metrics,
                                   int *nmetrics, netc_error **err);

// Of the last evaluation: an output that is made of what tally(x) sums over all examples, such as a
// confusion matrix; scalars are among the metrics, too. t->data: netc_free.
NETC_API netc_status netc_evaluated(netc_session *s, const char *output, netc_tensor *t,
                                    netc_error **err);

typedef struct netc_predict_options {
    size_t size;
    const char *entry;          // a model; NULL: the only one
    netc_dataset *data;         // examples for each of its inputs
    const char *const *outputs; // whose axis 0 is the batch
    const char *const *files;   // .npy, .npz or .csv, one an output; one .npz takes several
    int noutputs;
    void (*progress)(void *user, int64_t done, int64_t total); // examples; may be NULL
    void *user;
} netc_predict_options;
// Runs a model once over all of data, in order, and writes an output's values for every example as
// one array. The last, smaller batch is one of its own: none is left out, none is padded. A file is
// replaced when all is there; the cancel hook leaves it as it was. *examples may be NULL.
NETC_API netc_status netc_predict(netc_session *s, const netc_predict_options *o, int64_t *examples,
                                  netc_error **err);

// -- generation -----------------------------------------------------------------------------------
typedef struct netc_prompt {
    const int32_t *tokens; // at least one
    int64_t n;
} netc_prompt;

typedef struct netc_generate_options {
    size_t size;
    const char *entry;     // default "next"
    const int32_t *prompt; // tokens that every text begins with, at least one
    int64_t nprompt;
    int64_t length;     // tokens to draw
    double temperature; // of the softmax they are drawn from; 0: the largest logit
    int64_t top_k;      // only from so many of the largest; 0: all
    double top_p;       // only from the fewest whose probabilities add up to that; 0: all
    // A token is a function of it, its place and how many texts before began with the same prompt,
    // beside the logits.
    uint64_t seed;
    // Token [token] of text [row] was drawn. false: that text ends. May be NULL.
    bool (*token)(void *user, int64_t row, int64_t token);
    void *user;
    // Takes the prompt n tokens at a time, as long as so many are left and one more. NULL:
    // "prefill", where the entry is "next" and there is one; "": none.
    const char *prefill;
    double repetition_penalty; // logits of tokens that a text has, the prompt's too: divided by it
                               // where they are positive, multiplied where not; 0 or 1: none
    const netc_prompt *texts;  // instead of prompt: a text begins with each of these
    int64_t ntexts;
} netc_generate_options;

// Writes as many texts as the entry's batch, or one for each prompt, so many at a time: each is
// what it would be alone. The entry's one input is integers [texts, n], its output "logits" floats
// [texts, n, tokens there are] ([texts, tokens there are] where n is 1). With n = 1 the tokens are
// given one by one, and what the entry remembers is in its states, which are put back in the end;
// an entry [texts, m] that writes the same states ("prefill") takes the beginning of a long prompt
// m at a time. With a larger n it sees the last n, and where there are fewer, others behind them,
// which a causal model does not look at. NETC_CANCELLED when the hook stops it.
NETC_API netc_status netc_generate(netc_session *s, const netc_generate_options *o,
                                   netc_error **err);

// -- tokens ---------------------------------------------------------------------------------------
// Byte-level byte-pair encoding, equal to the reference of each kind of file: a tokenizer.json
// (Hugging Face tokenizers; what it asks for that is not supported is refused by name), a
// vocab.json or a merges.txt with the other beside it (GPT-2), a folder of those, ranks in base64
// (tiktoken); or "bytes": a byte a token. Characters are Unicode 16.0's. A byte of a text that is
// not UTF-8 is a character which is no letter, number or space; every text comes back from its
// tokens.
typedef struct netc_tokenizer_options {
    size_t size;
    const char *pattern; // by which text is cut, where the file is of ranks: "gpt2", "cl100k",
                         // "llama3", "o200k"; NULL: told by the name of a published file
} netc_tokenizer_options;
NETC_API netc_status netc_tokenizer_open(const char *path, const netc_tokenizer_options *o,
                                         netc_tokenizer **out, netc_error **err);
NETC_API void netc_tokenizer_free(netc_tokenizer *t);           // NULL is fine
NETC_API int64_t netc_tokenizer_count(const netc_tokenizer *t); // every token is below it
// The token of this very text, a special one ("<|endoftext|>") or any other; -1: there is none.
NETC_API int64_t netc_tokenizer_find(const netc_tokenizer *t, const char *text);
// The bytes of a token, which need not be whole characters. false: there is no such token.
NETC_API bool netc_tokenizer_text(const netc_tokenizer *t, int64_t token, const char **bytes,
                                  size_t *n);
// *tokens: netc_free. plain: the texts of special tokens are text like any other; else they are
// those tokens, as in the reference. Nothing is put before or behind the text.
NETC_API netc_status netc_tokenizer_encode(const netc_tokenizer *t, const char *text, size_t n,
                                           bool plain, int32_t **tokens, int64_t *count,
                                           netc_error **err);
// A file as it is, unpacked where it is compressed with gzip; "-": what is left of standard input.
// *bytes: netc_free.
NETC_API netc_status netc_text_read(const char *path, char **bytes, size_t *n, netc_error **err);
typedef struct netc_tokenize_options {
    size_t size;
    const char *const *files; // of text, as netc_text_read reads them
    int nfiles;
    const char *output;
    bool raw;        // without a header, which is llm.c's else
    bool plain;      // as above
    const char *end; // the text of a token that is put behind each file, or NULL
} netc_tokenize_options;
// A file of tokens: of 16 bits where the tokenizer has no more than 65536, else of 32. *tokens,
// *bytes: how many were written and read; may be NULL.
NETC_API netc_status netc_tokenize(const netc_tokenizer *t, const netc_tokenize_options *o,
                                   int64_t *tokens, int64_t *bytes, netc_error **err);

// -- tools ----------------------------------------------------------------------------------------
// Gradients against finite differences in double precision; then every entry on the device, init
// too, fused and unfused, with and without the matmul library, against the reference evaluator.
// *report (netc_free) says what was compared also when something differs, which is
// NETC_CHECK_FAILED, and warns of entries of which rounding leaves little to compare.
NETC_API netc_status netc_check(netc_program *p, const char *device, int64_t seed, char **report,
                                netc_error **err);
// One kernel as it is compiled, edited or by a measured schedule, against the generated one under
// the cost model's schedule: equal results on made-up inputs, and the time of both.
NETC_API netc_status netc_check_kernel(netc_program *p, const char *device, const char *kernel,
                                       char **report, netc_error **err);
// What an editor asks about a text, as JSON, also where it has mistakes (docs/editors.md says what
// is in it): diagnostics, where names are defined and used, what values became, tokens. Files that
// it uses are asked of the context's resolve hook, whose name is then their path beside the using
// file, else read. Nothing is compiled beyond the front end.
typedef struct netc_survey_options {
    size_t size;
    const char *const *defines; // as of netc_compile_options; what the text lacks is left out
    int ndefines;
    const char *program;
} netc_survey_options;
NETC_API netc_status netc_survey(netc_context *c, const char *name, const char *text,
                                 const netc_survey_options *o, char **json, netc_error **err);
// The i-th file of the standard library, its name ("nn.net") and text; false: there are fewer.
NETC_API bool netc_standard_file(int i, const char **name, const char **text);
NETC_API netc_status netc_format(netc_context *c, const char *name, const char *text,
                                 char **formatted, netc_error **err);
// What is in a file, as lines for a person: tensors of a safetensors file (or a folder or an index
// of several) with what their values are like, an array that netc_dataset_add_file reads, what a
// model.bin holds, of which nothing is run. *text: netc_free.
NETC_API netc_status netc_show(const char *path, char **text, netc_error **err);
// One call a finding: what, usable or not, version and path or what to install.
NETC_API void netc_doctor(netc_context *c,
                          void (*line)(void *user, const char *what, bool ok, const char *detail),
                          void *user);
// Executions of an entry timed by the device's own events, on the data given or else on made-up
// ones within the inputs' ranges. Parameters and states move on as in any run.
typedef struct netc_time_options {
    size_t size;
    netc_dataset *data; // NULL: made up; else with every input of the entry
    int64_t seed;       // of what is made up
    int64_t steps;      // executions enqueued in a row; 0: as many as fill 10 ms, 256 at most
    int64_t repeats;    // how often; 0: 25
    bool cold;          // netc_profile: every step finds the cache full of other things
} netc_time_options;

typedef struct netc_times {   // of one execution, in seconds
    double median, low, high; // low, high: quartiles
    double deviation;         // median absolute deviation from the median
    int64_t steps, repeats;   // as they were
    int64_t items;            // examples in one execution; 0 where no axis of the inputs is a batch
    bool graph;               // enqueued as a CUDA graph,
    int graph_kernels;        // of so many kernel nodes an execution
    int graph_steps;          // and so many executions
    char why_not[160];        // no graph
    char way[160]; // several executions: ways measured, microseconds, which is taken; "": no choice
} netc_times;
NETC_API netc_status netc_time(netc_session *s, const char *entry, const netc_time_options *o,
                               netc_times *out, netc_error **err);

typedef struct netc_step {  // of an entry, timed on its own
    char name[96], kind[8]; // kind: "kernel", "gemm" (a call of the matmul library), "copy", "zero"
    char line[256];         // "mlp.net:14"
    char schedule[256];     // of a kernel
    int calls;              // in one execution; what follows is of one call
    double seconds, low, high;  // median and quartiles
    double bytes, flops;        // that it must move and do, as its head comment counts
    double floor;               // seconds the device needs for them, by the rates below
    int registers, local_bytes; // of a thread of a kernel; local: what registers did not hold;
    int shared_bytes, threads;  // of a block; -1 where it is not known
    double occupancy;           // of a multiprocessor's threads, 0 to 1; -1
    int place;                  // in the entry's plan: a product may be two calls at one place
} netc_step;

typedef struct netc_slice { // a call in the last execution that was timed step by step
    int step;               // index in steps
    double begin, seconds;
} netc_slice;

typedef struct netc_profile_result {
    netc_times whole;            // enqueued as a run does
    double apart;                // an execution step by step, events around each, begin to end
    double sum;                  // of its steps
    double pair;                 // what events around nothing read: taken off every time
    double empty;                // an empty launch on this device
    double copy_rate;            // measured: bytes read and written a second by a large copy
    double f32, tf32, f16, bf16; // measured: operations a second of a large matmul; 0: not
                                 // needed here, or there is no library
    int nsteps, nslices;
    netc_step *steps;
    netc_slice *slices;
} netc_profile_result;
// *out: one block, freed with netc_free.
NETC_API netc_status netc_profile(netc_session *s, const char *entry, const netc_time_options *o,
                                  netc_profile_result **out, netc_error **err);

typedef struct netc_memory { // bytes on the session's device
    int64_t parameters, states, temporaries, outputs, constants;
} netc_memory;
NETC_API netc_status netc_session_memory(netc_session *s, const char *entry, netc_memory *out,
                                         netc_error **err);
// The search for faster schedules of a model's kernels on a device, the largest share of the step
// first. What is found is written into the tuning file after every kernel, and kept in the cache of
// the device; what was measured is not measured again. The cancel hook ends it like the clock does.
typedef enum netc_tune_kind {
    NETC_TUNE_START,   // total: kernels to search
    NETC_TUNE_KERNEL,  // one is done
    NETC_TUNE_SKIPPED, // a schedule or a whole kernel that could not be used: text says why
    NETC_TUNE_END,     // text: the file written
} netc_tune_kind;
typedef struct netc_tune_event {
    netc_tune_kind kind;
    const char *kernel, *schedule, *text, *device;
    double share;         // of the step's kernels, 0..1
    double before, after; // seconds: by the cost model, by the schedule kept
    int tried;            // schedules measured
    int done, total;
    bool finished; // false: time was over before all was tried
} netc_tune_event;
typedef struct netc_tune_options {
    size_t size;
    double seconds;     // default 60
    const char *kernel; // only this one
    const char *file;   // NULL: the program's tuning file
    bool again;         // measure anew what was measured before
    bool prune;         // drop the device's lines that no kernel has any more
    void (*event)(void *user, const netc_tune_event *e);
    void *user;
} netc_tune_options;
NETC_API netc_status netc_tune(netc_program *p, const char *device, const netc_tune_options *o,
                               netc_error **err);
// Kernel nodes of the entry's captured CUDA graph; -1 where it was not captured.
NETC_API int netc_graph_kernels(netc_session *s, const char *entry);

#ifdef __cplusplus
}
#endif
#endif
