// netc: compile, train and run neural networks from C. The only installed header.
//
// Objects are opaque. A function that can fail returns a netc_status and, through its last
// argument, an error object that holds the whole diagnostic. The library never prints, exits or
// aborts, and keeps no global state. Several threads may use a context or a program at the same
// time; a session may be used by one thread at a time.
//
//     netc_context *ctx;  netc_program *program;  netc_session *session;  netc_error *err = NULL;
//     netc_context_create(NULL, &ctx, &err);
//     netc_compile_text(ctx, "mlp.net", text, NULL, &program, &err);
//     netc_session_create(program, "auto", NULL, &session, &err);
//     netc_bind(session, "train", "image", &images, &err);
//     netc_run(session, "train", 1, &err);
//     netc_read(session, "train", "loss", &loss, &err);
//
// Declare options structs with NETC_INIT, which sets their size: then a program built against an
// older header keeps working with a newer library. Options may be NULL: all fields zero. Another
// argument may be NULL only where that is said. Strings given to the library are copied.
// "netc_free": the caller frees it with netc_free.
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

// NETC_INIT(netc_train_options, o) declares o with all fields zero except its size.
#ifdef __cplusplus
#define NETC_INIT(type, name)                                                                      \
    type name = type();                                                                            \
    name.size = sizeof(type)
#else
#define NETC_INIT(type, name) type name = {.size = sizeof(type)}
#endif

typedef enum netc_status {
    NETC_OK = 0,
    NETC_INVALID = 1,       // the caller's input is wrong: the model, a file, a shape, a name
    NETC_ENVIRONMENT = 2,   // a GPU, driver, compiler, library or disk space is missing
    NETC_OUT_OF_MEMORY = 3, // on the host or on the device
    // A check failed at run time: an index out of range, a loss that is not finite, an assert.
    NETC_CHECK_FAILED = 4,
    NETC_CANCELLED = 5, // a hook asked to stop; the state is that of the last finished step
    NETC_INTERNAL = 6,  // a bug in netc
} netc_status;

typedef struct netc_context netc_context; // caches and hooks; thread-safe
typedef struct netc_program netc_program; // a compiled model; immutable, reference-counted
typedef struct netc_session netc_session; // parameters and states on a device; one thread at a time
typedef struct netc_dataset netc_dataset; // named arrays; axis 0 counts the examples
typedef struct netc_tokenizer netc_tokenizer; // immutable; thread-safe
typedef struct netc_error netc_error;

NETC_API const char *netc_version(void); // "0.1.0"
NETC_API int netc_abi(void);             // NETC_ABI of the library

// -- errors ---------------------------------------------------------------------------------------
// A call that fails sets *err if err is not NULL and *err is NULL, so the first error is kept.
NETC_API netc_status netc_error_status(const netc_error *e);
NETC_API const char *netc_error_text(const netc_error *e); // rendered for a person, several lines
NETC_API const char *netc_error_colored(const netc_error *e); // the same with terminal colours
NETC_API const char *netc_error_json(const netc_error *e);    // an array of diagnostics
NETC_API void netc_error_free(netc_error *e);                 // may be NULL

// -- context --------------------------------------------------------------------------------------
typedef struct netc_context_options {
    size_t size;
    const char *cache_dir; // NULL: $XDG_CACHE_HOME/netc, else ~/.cache/netc; "": no cache on disk
    int threads;           // threads that compile; 0: one per core
    bool no_spawn; // never start the system's C compiler; a CPU program must come from a model.bin
    void (*log)(void *user, const char *line); // receives notes: what was compiled, fallbacks used
    // Resolves `use "layers.net"`: returns the text of the file [name] that the file [from] uses,
    // allocated with malloc, or NULL if there is no such file.
    char *(*resolve)(void *user, const char *from, const char *name, size_t *length);
    bool (*cancel)(void *user); // called between steps; true stops with NETC_CANCELLED
    void *user;                 // passed to every hook
} netc_context_options;

NETC_API netc_status netc_context_create(const netc_context_options *o, netc_context **out,
                                         netc_error **err);
NETC_API void netc_context_free(netc_context *c); // after everything that was created from it
// A hint: starts to open a device (named as for netc_session_create) on another thread, while the
// caller reads data and compiles. A program that is compiled meanwhile without a target is compiled
// for that device; its kernels are compiled on other threads, which call the log hook. The next
// session on the device takes it over and reports any error of opening it. A context prepares one
// device at a time; further calls are ignored.
NETC_API void netc_context_prepare(netc_context *c, const char *device);
// Seconds that a context and its sessions have spent on making programs ready so far. Phases that
// overlap in time are counted in full. A result from the cache takes almost no time.
typedef struct netc_phases {
    size_t size;        // set by the caller
    double text;        // front end, passes and code generation: from .net text to kernel text
    double compile;     // compiling kernels with NVRTC or the C compiler
    double compile_cpu; // processor time of that (CUDA)
    double library;     // opening the matmul library
    double load;        // loading code onto the device
    double search;      // timing the library's algorithms while kernels are compiled
    double choose;      // timing the fastest of them against generated kernels
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

typedef struct netc_tensor { // dense and row-major; inputs and data must be aligned to an element
    netc_dtype dtype;
    int rank;
    int64_t dim[8];
    void *data;
    bool on_device; // data points to memory of the session's CUDA device, aligned to 16 bytes
} netc_tensor;

// -- data -----------------------------------------------------------------------------------------
// Adds the examples of one input from [path]: one file, or several joined by commas, which are
// concatenated. [part] selects a tensor of a file that holds several, or is NULL.
// - IDX (also .gz), CIFAR-10 binary ("images", "labels"), .npy, .npz (part: an array's name).
// - .csv, .tsv: numbers, one example per line, with or without a header line. part is a column, by
//   name or number, or a range "first-last".
// - Token files (of netc_tokenize, of llm.c, raw). Large ones stay on disk and are read as needed.
// - Any file: part "raw" takes its bytes as elements, "u16" and "u32" as tokens of that width.
// - A folder of tables, .npy and .npz: all of them in the order of their names. A table holds one
//   example per line; an array holds several examples, or is one.
// Other known formats (.png, .zip, …) are refused. A thread starts to read the file at once (a pipe
// is read at its first use); errors are reported at the first use.
NETC_API netc_status netc_dataset_create(netc_context *c, netc_dataset **out, netc_error **err);
NETC_API netc_status netc_dataset_add_file(netc_dataset *d, const char *input, const char *path,
                                           const char *part, netc_error **err);
// Call this before d is used: windows of tokens then start at any token, not where the previous one
// ends. netc_train draws them from seed and epoch, as many as there are consecutive windows.
NETC_API netc_status netc_dataset_random_windows(netc_dataset *d, netc_error **err);
// Call this before d is used, to say how images (PNG, JPEG; u8[h, w, 1 or 3]) are read. They come
// from a folder whose subfolders are the classes, labelled in the order of their names, or from
// .tar archives joined by commas (WebDataset: KEY.jpg with KEY.cls, uncompressed). [part] is
// "images", "labels" (NULL: what fits the input) or "stream": decode images as they are needed, as
// is always done with sets too large for memory. resize: scale and crop them to the input's size;
// else all must have it. skip_bad: skip images that cannot be decoded, with a note; else they are
// an error. Needs libspng, TurboJPEG, libarchive.
NETC_API netc_status netc_dataset_images(netc_dataset *d, bool resize, bool skip_bad,
                                         netc_error **err);
// The array must outlive the data set. (f32 is rounded for an input of 16-bit floats: a copy.)
NETC_API netc_status netc_dataset_add_array(netc_dataset *d, const char *input,
                                            const netc_tensor *t, netc_error **err);
NETC_API void netc_dataset_free(netc_dataset *d);
// The whole array that was read for an input of p; t->data belongs to the data set.
NETC_API netc_status netc_dataset_array(netc_dataset *d, netc_program *p, const char *input,
                                        netc_tensor *t, netc_error **err);
// Reads a whole file of one of these formats, a table as f32. t->data: netc_free.
NETC_API netc_status netc_array_read(const char *path, netc_tensor *t, netc_error **err);
// Writes .npy or, by the file's name, .csv, .tsv or .npz ("arr_0"), first to a temporary file.
NETC_API netc_status netc_array_write(const char *path, const netc_tensor *t, netc_error **err);
// Writes n arrays as one .npz.
NETC_API netc_status netc_arrays_write(const char *path, const char *const *names,
                                       const netc_tensor *t, int n, netc_error **err);

// -- compiling ------------------------------------------------------------------------------------
typedef struct netc_compile_options {
    size_t size;
    const char *const *defines; // "name=value": overrides a const, a dimension or a setting
    int ndefines;
    const char *target;       // "cpu", "cuda" or "all" (default: both, compiled when needed)
    const char *precision;    // "f32" (default), "tf32", "bf16", "f16"
    const char *skip_passes;  // optional passes to skip, separated by commas
    int64_t memory_limit;     // bytes of temporaries to aim for; 0: no limit
    bool no_reuse;            // temporaries never share memory (to find bugs in the memory plan)
    bool no_matmul_library;   // use generated matmuls only
    const netc_dataset *data; // fixes the dimensions that its arrays imply; may be NULL
    const char *dump_dir;     // writes a numbered file here after every pass; may be NULL
    const char *choices;      // the text of a choice table, or NULL
    int arch;                 // CUDA architecture (80, 90, 100); 0: the device's, else 90
    // Only these outputs of the entry outputs_of (NULL: the only model), and what they need.
    const char *outputs_of;
    const char *const *outputs;
    int noutputs;
    bool whole_data; // arrays of data are whole inputs: axis 0, too, fixes a dimension
    bool rebuild;    // of a model.bin: ignore its code and compile its source again
    // Measured schedules (netc_tune). NULL: NAME.tune if a file is compiled and it exists; "": none
    const char *tune_file;
    const char *kernels_dir;       // edited kernels; NULL: NAME.kernels, as for tune_file; "": none
    bool locked;                   // fail if a kernel has no line in the tuning file
    const netc_dataset *eval_data; // a hint while a device is prepared: of netc_train; may be NULL
    // Only init and these entries are compiled, also into a model.bin (none given: all); NULL means
    // the file's only model. An error in another is a note in the log. If none trains, parameters
    // and states that only the others use are left out. "next" includes "prefill".
    const char *const *entries;
    int nentries;
    // A model.bin written from this program also runs with these batch sizes without a compiler.
    const int64_t *batches;
    int nbatches;
    // The train block that "train" and "eval" run, by its name or its model's. NULL: the first.
    const char *program;
    // For a host with its own automatic differentiation. If arguments is not NULL (narguments may
    // be 0), the model outputs_of is compiled as a function and is the only entry. Parameters whose
    // names match one of the patterns ('*' matches any text) become inputs after the model's own.
    const char *const *arguments;
    int narguments;
    // Compiles the gradients of that function instead. Inputs, as far as they are needed: those of
    // the function, "@was.S" for each state S that it depends on (the value of S when the function
    // began), and a cotangent "@d.Z" for each float output Z. Outputs: the gradients with respect
    // to the float inputs and arguments that match one of these patterns, under the same names. The
    // forward pass is computed again, and no state is written.
    const char *const *gradients;
    int ngradients;
    // The function also returns what its gradients need: "@was.S", and results of layers as
    // "@kept.N". Gradients that are compiled with keep take those instead of computing them again.
    bool keep;
    bool training; // compiles the models as in training: dropout is active
    // The function takes states S and settings as inputs "@was.S" and returns those that it writes
    // as "@now.S", changing none. The runtime's counters are i32. No gradient flows through them.
    bool states;
    // With gradients: the gradients of those gradients with respect to what matches these patterns
    // ("@d.Z" may match, too), given a cotangent "@dd.X" for each gradient X. Takes no "@kept.N".
    const char *const *second;
    int nsecond;
    // Computes the function for each of [calls] (0: one) slices along a new axis 0 of the outputs
    // and of the inputs that match one of these patterns; other inputs are the same for all.
    const char *const *mapped;
    int nmapped;
    int64_t calls;
    int devices; // that share the work of a step, as sessions then have; 0: one, or a model.bin's
} netc_compile_options;

// [name] appears in diagnostics and locates files of `use`. A model.bin is recognised by its
// contents. It holds machine code, which a session runs with the rights of this process: load one
// only from a source you would load a library from, or use rebuild. A model.bin whose name ends in
// ".net" is refused, so that a .net file never runs machine code.
NETC_API netc_status netc_compile_text(netc_context *c, const char *name, const char *text,
                                       const netc_compile_options *o, netc_program **out,
                                       netc_error **err);
NETC_API netc_status netc_compile_file(netc_context *c, const char *path,
                                       const netc_compile_options *o, netc_program **out,
                                       netc_error **err);
// Writes a model.bin: the source, programs for both targets, cubins for [archs] (NULL:
// "sm_80,sm_90,sm_100"), PTX, the CPU object, the choice table; unless NULL, the weights.
NETC_API netc_status netc_program_save(netc_program *p, const char *path, const char *archs,
                                       netc_session *weights, netc_error **err);
NETC_API netc_program *netc_program_retain(netc_program *p);
NETC_API void netc_program_release(netc_program *p);
// stage: "ast", "ir", "grad", "fused", "plan", "tile", "cuda", "c", "ptx", "dot". *text: netc_free.
NETC_API netc_status netc_program_emit(netc_program *p, const char *stage, char **text,
                                       netc_error **err);
// Describes the kernels (bytes, flops, minimum times) and the memory plan, or what one of the
// options below selects. Runs nothing. *text: netc_free.
typedef struct netc_inspect_options {
    size_t size;
    const char *target; // "cpu", "cuda"; NULL: what would run on this machine
    const char *kernel; // selects this kernel's annotated source
    bool why;           // selects which values are stored between kernels, and why
    bool in_order;      // steps in the order they run; else the most expensive first
    // Selects registers, local and shared memory and the compiler's remarks of GPU kernels, or of
    // [kernel], which are compiled if there are no cubins. With json or other: adds them.
    bool cards;
    bool json;
    netc_program *other; // selects a comparison with this program
    bool params;         // selects the parameters and states and their initial values
    // Selects the layers of the trained model, or of the model named by [kernel]: shapes,
    // parameters, operations, bytes passed on.
    bool model;
    const char *entry; // shows only this entry, and with [model] its layers; NULL: all
} netc_inspect_options;
NETC_API netc_status netc_inspect(netc_program *p, const netc_inspect_options *o, char **text,
                                  netc_error **err);
// One self-contained page of HTML: an entry's graph by scopes, its memory, roofline and timeline,
// and training curves. Runs nothing. *html: netc_free.
typedef struct netc_report_options {
    size_t size;
    const char *entry;   // NULL: the profile's, or train, or the first model
    const char *target;  // "cpu", "cuda"; NULL: the profile's, or what would run on this machine
    const char *profile; // a file of netc profile --json of this build; NULL: modelled times
    const char *const *logs; // files of netc train --log
    int nlogs;
} netc_report_options;
NETC_API netc_status netc_report(netc_program *p, const netc_report_options *o, char **html,
                                 netc_error **err);
// Lists kernels' schedules as lines of a tuning file (without "@ DEVICE" if it is not known) and of
// the choice table (with entries: not init's); for one, its legal values. *text: netc_free.
NETC_API netc_status netc_program_knobs(netc_program *p, const char *target, const char *kernel,
                                        char **text, netc_error **err);
// Writes a CUDA kernel of the model into its folder of edited kernels (kernels_dir), with its
// launch and arguments described at the top. From then on, compiling uses it. *path: netc_free.
NETC_API netc_status netc_program_eject(netc_program *p, const char *kernel, char **path,
                                        netc_error **err);
NETC_API void netc_free(void *p);

typedef struct netc_port { // an input or output of an entry
    const char *name;
    netc_dtype dtype;
    int rank;
    int64_t dim[8];
    bool data; // axis 0 counts examples
} netc_port;
// Entries: "init", "train", "eval" and each model by its name. Counts of unknown entries are -1.
NETC_API int netc_entry_count(netc_program *p);
NETC_API const char *netc_entry_name(netc_program *p, int i);
NETC_API int netc_input_count(netc_program *p, const char *entry);
NETC_API int netc_output_count(netc_program *p, const char *entry);
NETC_API netc_status netc_input_info(netc_program *p, const char *entry, int i, netc_port *out,
                                     netc_error **err);
// The i-th input that the source declares, needed or not; NULL after the last, and for functions.
NETC_API const char *netc_declared_input(netc_program *p, const char *entry, int i);
// The i-th input of "train" that only values from a first batch need; false after the last.
NETC_API bool netc_first_input(netc_program *p, int i, netc_port *out);
NETC_API netc_status netc_output_info(netc_program *p, const char *entry, int i, netc_port *out,
                                      netc_error **err);
// What running an entry does besides computing its outputs; -1 for an unknown entry.
enum {
    NETC_ENTRY_READS = 1,  // reads parameters or states
    NETC_ENTRY_WRITES = 2, // writes some (also its count of runs, if it draws random numbers)
    NETC_ENTRY_CHECKS = 4, // checks indices or asserts, so it can fail
};
NETC_API int netc_entry_effects(netc_program *p, const char *entry);

// -- running --------------------------------------------------------------------------------------
typedef struct netc_session_options {
    size_t size;
    int64_t seed; // of initial values, dropout and shuffling
    // Uses the parameters and states of this session instead of new ones. An entry that writes
    // states or draws random numbers (which counts its runs) must run in one of them at a time.
    netc_session *share;
    void *stream; // a CUstream to enqueue on; NULL: a stream of the session's own
    // CPU: must run body over [0, n) in pieces. NULL: the library's own threads, as many as the
    // environment variable OMP_NUM_THREADS says, else one per core that this process may use.
    void (*parallel_for)(void *user, long n, void (*body)(void *arg, long begin, long end),
                         void *arg);
    void *parallel_user;
    // Set both or neither: they provide all device memory of the session, for parameters,
    // temporaries and data sets. device_alloc returns bytes on device ("cuda:0", "cpu"), aligned to
    // 256 bytes, or NULL if there is not enough (NETC_OUT_OF_MEMORY). Memory is freed once no work
    // uses it, the last of it with the last session that shares it.
    void *(*device_alloc)(void *user, const char *device, size_t bytes);
    void (*device_free)(void *user, const char *device, void *p);
    void *alloc_user;
} netc_session_options;

// device: "cpu", "cuda", "cuda:1", "cuda:0,1" (several GPUs), "auto" (a GPU, if any). Runs init.
NETC_API netc_status netc_session_create(netc_program *p, const char *device,
                                         const netc_session_options *o, netc_session **out,
                                         netc_error **err);
NETC_API void netc_session_free(netc_session *s);
NETC_API const char *netc_session_device(const netc_session *s); // "cuda:0 NVIDIA H200"

// Sets the tensor that later runs of [entry] read; NULL: none any more. Its shape and type must be
// the port's. It is not copied and must not change until netc_sync. Device memory is read in place;
// an entry with more than eight launches copies it once its address has changed.
NETC_API netc_status netc_bind(netc_session *s, const char *entry, const char *input,
                               const netc_tensor *t, netc_error **err);
// The same for a DLManagedTensor (DLPack 0.8), whose deleter is called when it is no longer bound
// and the GPU has read it. Of one that is not dense, the error names the strides that are needed.
NETC_API netc_status netc_bind_dlpack(netc_session *s, const char *entry, const char *input,
                                      void *dl_managed_tensor, netc_error **err);
// Sets where later runs of [entry] store an output: on a GPU t->on_device must be set, elsewhere it
// is host memory; NULL: memory of the session again. The memory must stay valid until netc_sync or
// the next netc_bind_output and must not overlap an input or another output. An entry with more
// than eight launches copies the output there once its address has changed.
NETC_API netc_status netc_bind_output(netc_session *s, const char *entry, const char *output,
                                      const netc_tensor *t, netc_error **err);
// netc_after: what the session enqueues from now on waits for the work that is on [stream] now (a
// CUstream of the caller, or NULL for the default stream). Call it before binding a tensor that is
// being computed there. netc_before: what the caller enqueues on [stream] from now on waits for the
// work that the session has now, so outputs in device memory can be used without netc_sync; errors
// of the device are still reported by netc_sync only. On the CPU both do nothing.
NETC_API netc_status netc_after(netc_session *s, void *stream, netc_error **err);
NETC_API netc_status netc_before(netc_session *s, void *stream, netc_error **err);
// Runs can be captured into a CUDA graph of the caller: if the session's stream is being captured,
// or between netc_after and netc_before of a stream that is. netc_run then records the run with the
// present addresses of its inputs and outputs, which must be device memory. Each launch of the
// graph reads the parameters and states of that moment, and counters and random numbers advance
// from launch to launch. During the capture the session accepts only binding and netc_run. These
// are refused before anything is recorded: an entry that has not run yet or checks something
// (NETC_ENTRY_CHECKS; training checks its loss), host memory, data sets.
// The session and the captured memory must outlive the graph. A launch is work on the session's
// parameters, states and memory: order it with other runs by its stream (netc_after, netc_before).
// From then on, in all sessions that share these parameters, two things wait for the whole device:
// a run on netc's own stream without netc_after before it, and reading or writing states.
NETC_API bool netc_capturing(netc_session *s); // whether its stream is being captured
// Runs [entry], which must not write states or check anything, once on made-up inputs if it has not
// run yet: then it can be captured.
NETC_API netc_status netc_warm_up(netc_session *s, const char *entry, netc_error **err);
// For graphs whose launches run an entry concurrently: netc_temporaries returns the bytes of its
// temporaries (-1: no such entry), netc_bind_temporaries gives the next captured runs device memory
// for them, aligned to 256 bytes (NULL: the session's).
NETC_API int64_t netc_temporaries(netc_session *s, const char *entry);
NETC_API netc_status netc_bind_temporaries(netc_session *s, const char *entry, void *device,
                                           size_t bytes, netc_error **err);
// Enqueues [times] runs and returns. A step of "train" whose indices, asserts or loss fail a check
// changes nothing. That written values are finite is not checked (netc_train does it): call
// netc_state_check. Parameters and states whose initial values depend on inputs are computed before
// the first step from the inputs that are bound; until then other entries that read them fail.
// tally(x) of "eval" is the sum of x over these runs; an evaluation is not affected by them.
NETC_API netc_status netc_run(netc_session *s, const char *entry, int64_t times, netc_error **err);
// Waits for the session's work. Errors of the device are reported here.
NETC_API netc_status netc_sync(netc_session *s, netc_error **err);
// Waits, then copies an output of the last run of [entry] to t->data, on the host or, with
// on_device, on the session's GPU. The shape is checked. Fails if [entry] has not run, or failed.
NETC_API netc_status netc_read(netc_session *s, const char *entry, const char *output,
                               netc_tensor *t, netc_error **err);
// Returns an output as a new DLManagedTensor on the CPU, which the caller deletes.
NETC_API netc_status netc_read_dlpack(netc_session *s, const char *entry, const char *output,
                                      void **dl_managed_tensor, netc_error **err);
NETC_API netc_status netc_set(netc_session *s, const char *setting, double value, netc_error **err);
NETC_API netc_status netc_get(netc_session *s, const char *setting, double *value,
                              netc_error **err);

// Parameters and states by full name ("fc1.weight"). Training in f16 adds "@loss_scale" (f32),
// "@good_steps" and "@skipped" (i64). A caller with its own training loop must write "@total", the
// number of steps it will make, if the model's schedules use `total`, and "@epoch_steps", the steps
// of an epoch, if they use `epoch` (both i64). Neither is saved.
NETC_API int netc_state_count(netc_session *s);
NETC_API netc_status netc_state_info(netc_session *s, int i, netc_port *out, netc_error **err);
NETC_API netc_status netc_state_read(netc_session *s, const char *name, netc_tensor *t,
                                     netc_error **err);
NETC_API netc_status netc_state_write(netc_session *s, const char *name, const netc_tensor *t,
                                      netc_error **err);
// Waits, then checks all parameters and states: NETC_CHECK_FAILED, naming them, if one holds a NaN,
// or if a parameter or an optimizer's state holds an infinity; NETC_INVALID, as saving, if one has
// no value before the first batch. A caller with its own loop should call it before it saves.
NETC_API netc_status netc_state_check(netc_session *s, netc_error **err);
// Saves a checkpoint (safetensors), first to a temporary file: the old file is never damaged.
NETC_API netc_status netc_state_save(netc_session *s, const char *path, netc_error **err);
// The same with options. A path that ends in ".json" is the index of a checkpoint in parts
// ("model.safetensors.index.json"). The parts are written beside it, then the index, and then the
// parts of the previous index are removed.
typedef struct netc_save_options {
    size_t size;
    bool weights_only;  // only what netc_load_options.weights_only loads, as in published files
    const char *type;   // with weights_only: "bf16", "f16" or "f32" for all floats; NULL: unchanged
    int64_t part_bytes; // the most bytes of a part, unless one tensor is larger; 0: 5e9
} netc_save_options;
NETC_API netc_status netc_state_save_as(netc_session *s, const char *path,
                                        const netc_save_options *o, netc_error **err);
typedef struct netc_load_options {
    size_t size;
    const char *const *map; // "pattern=replacement" of names in the file; '*' matches any text
    int nmap;
    bool allow_missing; // tensors that the file lacks keep their values
    // Loads only what the models read (parameters, states, settings), not what only the updates of
    // a train block use (moments, a learning rate), and not the step. A state with another size in
    // the file, such as a hidden state for another batch, gets its initial value, with a note.
    // Floats of another width are converted, with a note.
    bool weights_only;
    // Tensors of the file to ignore, such as buffers; '*' matches any text. Any other tensor that
    // the model lacks is an error, unless netc wrote the file.
    const char *const *ignore;
    int nignore;
    // Patterns: matrices that are transposed in the file. Others that match are loaded unchanged.
    const char *const *transpose;
    int ntranspose;
} netc_load_options;
NETC_API netc_status netc_state_load(netc_session *s, const char *path, const netc_load_options *o,
                                     netc_error **err);
// Copies the parameters and states of [from] that [to] has with the same name and type.
//
// A state whose initial value is computed from others ("state slow = p") is computed again by
// netc_state_load and netc_adopt, unless they bring it. netc_state_write writes one tensor only.
NETC_API netc_status netc_adopt(netc_session *to, netc_session *from, int *carried,
                                netc_error **err);

// -- training -------------------------------------------------------------------------------------
typedef struct netc_metric {
    const char *name; // "loss", "eval_accuracy", "norm.fc1.weight.mean" (watched)
    double value;
} netc_metric;

typedef enum netc_event_kind {
    NETC_EVENT_START,    // before the first step; the plan and its memory are known
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
    // With precision "f16", PROGRESS and END also have loss_scale, and skipped: the number of steps
    // so far without an update because a gradient overflowed.
    const netc_metric *metrics;
    int nmetrics;
    // START: tables of the configuration and of memory. SAVED: the path. END: the best evaluation,
    // and whether training stopped early because of it, or NULL.
    const char *text;
    double epochs_done; // a fraction includes the current epoch
} netc_event;

typedef struct netc_train_options {
    size_t size;
    netc_dataset *data, *eval_data; // either may be NULL; data: only if the step reads none
    double split;  // e.g. 0.9: train on 90 % and evaluate on the rest, without eval_data; 0: all
    double epochs; // or steps; default 1 epoch
    int64_t steps;
    int64_t report_every; // steps; 0: about 20 reports per epoch
    int64_t eval_every;   // steps; 0: once per epoch. Must be 0 if there is nothing to evaluate
    int64_t save_every;   // steps; 0: at the end only
    const char *save;     // checkpoint to write (safetensors): tried at once; or NULL
    // Checkpoint to continue from, with its seed, or NULL. Values set by netc_set are kept.
    const char *resume;
    bool no_shuffle;
    bool keep_last_partial; // also train on the last, smaller batch of an epoch
    // Parameters, states, outputs and taps whose statistics are reported: names or patterns, of
    // them or of the scopes around them ("h.*.attn"). An optimizer's moments: only by full name.
    const char *const *watch;
    int nwatch;
    // May access the session's state, run and evaluate it; not train, run or time "train", or free.
    void (*event)(void *user, const netc_event *e);
    void *user;
    int64_t part_bytes; // as in netc_save_options
    // A scalar output of evaluations ("accuracy"): the checkpoint with its best value is kept
    // beside the last one ("mlp.best.safetensors" beside "mlp.safetensors"). Smaller is better if
    // the name contains "loss", "err", "perplexity", "nll", "mse", "mae" or "cost", otherwise
    // larger is; "accuracy:max" and "x:min" state it. NULL: no best checkpoint.
    const char *save_best;
    // Stops after this many evaluations in a row without a new best value of save_best's output or,
    // without it, of "loss"; 0: never. Checkpoints hold the best value and this count.
    int64_t patience;
} netc_train_options;

// What netc_train would watch for these patterns. *names: netc_free; the session has the strings.
NETC_API netc_status netc_watched(netc_session *s, const char *const *patterns, int n,
                                  const char ***names, int *count, netc_error **err);
// Runs the train entry over the data. The cancel hook (NETC_CANCELLED) takes effect after the
// current step. Whatever ends training, the state is that of the last valid step, and it is saved
// if save is given. If a step writes a parameter or state that is not finite, training returns to
// the step before it, from a copy of the states in host memory, and fails.
NETC_API netc_status netc_train(netc_session *s, const netc_train_options *o, netc_error **err);
// Runs the eval entry once over all of data and returns the metrics by output name. The last,
// smaller batch is included unless a state has the size of the batch (then there is a note). States
// that the entry writes are restored. The cancel hook applies. *metrics: netc_free.
NETC_API netc_status netc_evaluate(netc_session *s, netc_dataset *data, netc_metric **metrics,
                                   int *nmetrics, netc_error **err);

// An output of the last evaluation that is computed from tally(x), which sums x over all examples,
// such as a confusion matrix. Scalars are also among the metrics. t->data: netc_free.
NETC_API netc_status netc_evaluated(netc_session *s, const char *output, netc_tensor *t,
                                    netc_error **err);

typedef struct netc_predict_options {
    size_t size;
    const char *entry;          // a model; NULL: the only one
    netc_dataset *data;         // examples for each of its inputs
    const char *const *outputs; // outputs whose axis 0 is the batch
    const char *const *files; // .npy, .npz or .csv, one per output; an .npz may be given to several
    int noutputs;
    void (*progress)(void *user, int64_t done, int64_t total); // in examples; may be NULL
    void *user;
    // Instead of files: is given the next rows of output [i], of [total], for the time of the call.
    void (*rows)(void *user, int i, const netc_tensor *rows, int64_t total);
} netc_predict_options;
// Runs a model once over all of data, in order. The last batch may be smaller; no example is left
// out or padded. Files hold each output for all examples as one array, and are replaced when all
// are complete; if the cancel hook stops it, they are unchanged. examples may be NULL.
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
    int64_t length;     // tokens to draw per text
    double temperature; // of the softmax; 0: always take the largest logit
    int64_t top_k;      // draw from the k largest logits only; 0: from all
    double top_p;       // draw from the fewest tokens whose probabilities sum to top_p; 0: from all
    // A token depends on its logits, seed, position and the number of earlier texts of its prompt.
    uint64_t seed;
    // Called for each token that is drawn for text [row]; false ends that text. May be NULL.
    bool (*token)(void *user, int64_t row, int64_t token);
    void *user;
    // An entry that takes the prompt n tokens at a time while more than n are left. NULL:
    // "prefill", if entry is "next" and the model has it; "": none.
    const char *prefill;
    // For tokens of a text or its prompt: divides positive logits, multiplies others; 0, 1: none.
    double repetition_penalty;
    const netc_prompt *texts; // instead of prompt: one text for each of these prompts
    int64_t ntexts;
} netc_generate_options;

// Writes as many texts as the entry's batch or, with texts, one per prompt, a batch at a time. Each
// text is the same as if it were written alone. The entry has one input, integers (texts, n), and
// an output "logits", floats (texts, n, vocabulary) or, if n is 1, (texts, vocabulary).
// - n = 1: tokens are fed one by one, and the entry keeps what it remembers in its states, which
//   are restored at the end. "prefill" with input (texts, m) must write the same states.
// - n > 1: the entry sees the last n tokens, and behind fewer others, which a causal model ignores.
NETC_API netc_status netc_generate(netc_session *s, const netc_generate_options *o,
                                   netc_error **err);

// -- tokens ---------------------------------------------------------------------------------------
// Byte-level byte-pair encoding, with the same results as the reference implementation of each kind
// of file: tokenizer.json (Hugging Face tokenizers; an unsupported feature is refused by name),
// vocab.json or merges.txt with the other beside it (GPT-2), a folder that holds those, ranks in
// base64 (tiktoken), or "bytes" instead of a path: one token per byte. Characters follow Unicode
// 16.0. A byte that is not part of valid UTF-8 counts as a character that is no letter, number or
// space. Decoding the tokens of any text gives back the same bytes.
typedef struct netc_tokenizer_options {
    size_t size;
    // How a file of ranks splits text: "gpt2", "cl100k", "llama3", "o200k"; NULL: by its name.
    const char *pattern;
} netc_tokenizer_options;
NETC_API netc_status netc_tokenizer_open(const char *path, const netc_tokenizer_options *o,
                                         netc_tokenizer **out, netc_error **err);
NETC_API void netc_tokenizer_free(netc_tokenizer *t);           // t may be NULL
NETC_API int64_t netc_tokenizer_count(const netc_tokenizer *t); // all tokens are below this number
// The token whose text this is, special ("<|endoftext|>") or not; -1 if there is none.
NETC_API int64_t netc_tokenizer_find(const netc_tokenizer *t, const char *text);
// The bytes of a token, which may hold parts of characters. false: there is no such token.
NETC_API bool netc_tokenizer_text(const netc_tokenizer *t, int64_t token, const char **bytes,
                                  size_t *n);
// plain: the texts of special tokens are encoded as ordinary text; else they become those tokens,
// as in the reference. Nothing is added before or after the text. *tokens: netc_free.
NETC_API netc_status netc_tokenizer_encode(const netc_tokenizer *t, const char *text, size_t n,
                                           bool plain, int32_t **tokens, int64_t *count,
                                           netc_error **err);
// Reads a whole file, decompressed if it is gzip; "-": all standard input. *bytes: netc_free.
NETC_API netc_status netc_text_read(const char *path, char **bytes, size_t *n, netc_error **err);
typedef struct netc_tokenize_options {
    size_t size;
    const char *const *files; // text files, read as by netc_text_read
    int nfiles;
    const char *output;
    bool raw;        // no header; otherwise the file has the header of llm.c
    bool plain;      // as in netc_tokenizer_encode
    const char *end; // text of a token to add after each file, or NULL
} netc_tokenize_options;
// Writes a token file: 16 bits per token if the tokenizer has at most 65536 tokens, else 32.
// *tokens and *bytes are set to the tokens written and bytes read; both may be NULL.
NETC_API netc_status netc_tokenize(const netc_tokenizer *t, const netc_tokenize_options *o,
                                   int64_t *tokens, int64_t *bytes, netc_error **err);

// -- tools ----------------------------------------------------------------------------------------
// Compares gradients with finite differences in double precision, then every entry on the device,
// including init, with the reference evaluator: fused and unfused, with and without the matmul
// library. *report (netc_free) tells what was compared, also if something differs
// (NETC_CHECK_FAILED), and where the bound on rounding leaves little to compare.
NETC_API netc_status netc_check(netc_program *p, const char *device, int64_t seed, char **report,
                                netc_error **err);
// Compares one kernel, edited or with a measured schedule, with the generated kernel under the cost
// model's schedule: the results on made-up inputs must be equal, and both are timed.
NETC_API netc_status netc_check_kernel(netc_program *p, const char *device, const char *kernel,
                                       char **report, netc_error **err);
// Answers an editor's questions about a source text, also if it has errors, as JSON
// (docs/editors.md): diagnostics, definitions and uses of names, values, tokens. Used files come
// from the resolve hook, whose [name] then includes the folder of the using file, or from disk.
typedef struct netc_survey_options {
    size_t size;
    const char *const *defines; // as in netc_compile_options; unknown names are ignored
    int ndefines;
    const char *program;
} netc_survey_options;
NETC_API netc_status netc_survey(netc_context *c, const char *name, const char *text,
                                 const netc_survey_options *o, char **json, netc_error **err);
// The i-th file of the standard library: its name ("nn.net") and text. false: there are fewer.
NETC_API bool netc_standard_file(int i, const char **name, const char **text);
NETC_API netc_status netc_format(netc_context *c, const char *name, const char *text,
                                 char **formatted, netc_error **err);
// Describes a file for a person: the tensors of a safetensors file (or of a folder or an index of
// several) with statistics of their values, an array that netc_dataset_add_file can read, or the
// contents of a model.bin, none of which is run. *text: netc_free.
NETC_API netc_status netc_show(const char *path, char **text, netc_error **err);
// Calls line once per finding: what, whether it is usable, its version and path or what to install.
NETC_API void netc_doctor(netc_context *c,
                          void (*line)(void *user, const char *what, bool ok, const char *detail),
                          void *user);
// Times executions of an entry with the device's own events, on the given data or on made-up values
// within the inputs' ranges. Parameters and states may change, unless [restore] is set.
typedef struct netc_time_options {
    size_t size;
    netc_dataset *data; // must have every input of the entry; NULL: made-up values
    int64_t seed;       // of the made-up values
    int64_t steps;      // executions enqueued in a row; 0: as many as take 10 ms, at most 256
    int64_t repeats;    // how often these are timed; 0: 25
    bool cold;          // netc_profile: every step starts with its data evicted from the cache
    bool restore;       // puts back what the executions changed, from a copy in host memory
} netc_time_options;

typedef struct netc_times {   // of one execution, in seconds
    double median, low, high; // low, high: quartiles
    double deviation;         // median absolute deviation from the median
    int64_t steps, repeats;   // as used
    int64_t items;            // examples per execution; 0 if no input has a batch axis
    bool graph;               // enqueued as a CUDA graph
    int graph_kernels;        // kernel nodes of that graph per execution
    int graph_steps;          // executions per graph
    char why_not[160];        // why there is no graph
    char way[160]; // ways to record several executions, in microseconds, and the one chosen, or ""
} netc_times;
NETC_API netc_status netc_time(netc_session *s, const char *entry, const netc_time_options *o,
                               netc_times *out, netc_error **err);

typedef struct netc_step {  // a step of an entry, timed alone
    char name[96], kind[8]; // kind: "kernel", "gemm" (a call of the matmul library), "copy", "zero"
    char line[256];         // "mlp.net:14"
    char schedule[256];     // of a kernel
    int calls;              // per execution; the following fields are for one call
    double seconds, low, high; // median and quartiles
    double bytes, flops;       // what it must move and compute, as its head comment counts them
    double floor;              // seconds the device needs for these, by the rates below
    // Of a kernel, -1 if unknown: per thread, registers and local memory (what did not fit in
    // registers); per block, shared memory and threads.
    int registers, local_bytes;
    int shared_bytes, threads;
    double occupancy; // share of a multiprocessor's threads, 0 to 1; -1 if unknown
    int place;        // index in the entry's plan; the two calls of one product share it
} netc_step;

typedef struct netc_slice { // a call in the last execution that was timed step by step
    int step;               // index in steps
    double begin, seconds;
} netc_slice;

typedef struct netc_profile_result {
    netc_times whole; // executions enqueued as in a run
    double apart;     // one execution step by step with events around each, from begin to end
    double sum;       // of the times of its steps
    double pair;      // seconds between two events around nothing; subtracted from every time
    double empty;     // seconds of an empty launch on this device
    double copy_rate; // measured: bytes per second of a large copy, reads plus writes
    double f32, tf32, f16, bf16; // measured: operations per second of a large matmul; 0: unknown
    int nsteps, nslices;
    netc_step *steps;
    netc_slice *slices;
} netc_profile_result;
// *out is one block; free it with netc_free.
NETC_API netc_status netc_profile(netc_session *s, const char *entry, const netc_time_options *o,
                                  netc_profile_result **out, netc_error **err);

typedef struct netc_memory { // bytes on the session's device
    int64_t parameters, states, temporaries, outputs, constants;
} netc_memory;
NETC_API netc_status netc_session_memory(netc_session *s, const char *entry, netc_memory *out,
                                         netc_error **err);
// Searches for faster schedules of a model's kernels on a device, those with the largest share of
// the step first. The tuning file is written after every kernel. Measurements are kept in the
// device's cache and not repeated. The cancel hook ends the search as the time limit does.
typedef enum netc_tune_kind {
    NETC_TUNE_START,   // total: kernels to search
    NETC_TUNE_KERNEL,  // a kernel is done
    NETC_TUNE_SKIPPED, // a schedule or a whole kernel could not be used: text says why
    NETC_TUNE_END,     // text: the file that was written
} netc_tune_kind;
typedef struct netc_tune_event {
    netc_tune_kind kind;
    const char *kernel, *schedule, *text, *device;
    double share;         // of the time of the step's kernels, 0 to 1
    double before, after; // seconds with the cost model's schedule and with the chosen one
    int tried;            // schedules measured
    int done, total;
    bool finished; // false: the time limit came before all schedules were measured
} netc_tune_event;
typedef struct netc_tune_options {
    size_t size;
    double seconds;     // default 60
    const char *kernel; // search only this one; NULL: all
    const char *file;   // NULL: the program's tuning file
    bool again;         // repeat earlier measurements
    bool prune;         // remove lines of this device that belong to no kernel any more
    void (*event)(void *user, const netc_tune_event *e);
    void *user;
} netc_tune_options;
NETC_API netc_status netc_tune(netc_program *p, const char *device, const netc_tune_options *o,
                               netc_error **err);
// Kernel nodes of the entry's captured CUDA graph; -1 if it was not captured.
NETC_API int netc_graph_kernels(netc_session *s, const char *entry);

#ifdef __cplusplus
}
#endif
#endif
