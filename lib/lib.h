// Shared by the files of lib/. A netc_program keeps its source and creates Builds on demand: the
// model elaborated, compiled and planned for one target under one set of definitions.
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/names.h"
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "include/netc.h"
#include "passes/passes.h"
#include "runtime/data.h"
#include "runtime/runtime.h"

struct netc_context {
    netc_context_options o; // hooks
    char *cache_dir;        // NULL: no cache
    RtCompileOptions compile;
    atomic_bool unwritable;      // of compile
    pthread_mutex_t lock;        // guards the following
    struct Preparing *preparing; // a device that is being opened, or NULL (api/prepare.c)
    netc_phases phases;
};
// Describes the GPU that is being opened; false: none is.
bool preparing_gpu(netc_context *c, RtGpu *out);
// The device that was prepared under this name, or NULL. The caller then owns it.
RtDevice *prepared_device(netc_context *c, const char *name);
void prepare_end(netc_context *c);
void context_add_text(netc_context *c, double seconds); // to its phases
void context_log_phases(netc_context *c);

struct netc_error {
    netc_status status;
    char *text, *colored, *json;
};

// -- errors (api/error.c) -------------------------------------------------------------------------
netc_status lib_fail(netc_error **err, netc_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
netc_status lib_fail_rt(netc_error **err, const RtError *e);
netc_status lib_fail_diags(netc_error **err, netc_status status, const Diags *d);
// Adds a line to the text of an error, with something that the failing function did not know.
void lib_error_note(netc_error **err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// An error: no kernel of the program has this name; lists similar ones, or says how to list them.
netc_status lib_no_kernel(netc_error **err, const Program *p, const char *name);
// Whether [asked] is the kernel's name, or that of one of its parts in a tuning file: NAME/0.
bool lib_names_kernel(const char *asked, const char *name);
// An error: [what] needs the graph, but a model.bin holds only the program and its source.
netc_status lib_no_graph(netc_error **err, const netc_program *p, const char *what);
#define OUT_OF_MEMORY(err) lib_fail(err, NETC_OUT_OF_MEMORY, "out of memory")
// -- options (api/options.c) ----------------------------------------------------------------------
// Copies the fields that the caller's version of the struct has; NULL: leaves *own. An error if its
// size was not set.
#define TAKE_OPTIONS(type, own, given, err) options_take(#type, own, sizeof(type), given, err)
netc_status options_take(const char *type, void *own, size_t room, const void *given,
                         netc_error **err);
// An error if n is negative or a name is missing.
netc_status options_names(const char *field, const char *const *names, int n, netc_error **err);
void lib_log(const netc_context *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Runs fn(arg) and returns here if the arena runs out of memory. false: it did.
bool lib_guarded(Arena *a, void (*fn)(void *arg), void *arg);

// -- options copied into a program ----------------------------------------------------------------
typedef struct Settings {
    const char **defines; // "name=value"
    int ndefines;
    const char **data_defines; // from the data set; overridden by [defines]
    int ndata;
    const char *program; // name of the train block; NULL: the first
    const char *target, *skip_passes, *dump_dir, *choices;
    Precision precision;
    const char *outputs_of; // only these outputs of that entry are compiled; NULL: of the only
                            // model
    const char **outputs;
    int noutputs;           // 0: all outputs of all entries
    bool functional;        // that entry is compiled as a function
    const char **arguments; // whose arguments include these parameters
    int narguments;
    const char **gradients; // or the gradients with respect to these are compiled
    int ngradients;
    const char **second; // or second derivatives: of these gradients, with respect to these
    int nsecond;
    const char **mapped; // the function is computed for slices of these inputs
    int nmapped;
    int64_t calls;          // how many; 0: once, for the inputs themselves
    int devices;            // that share the work of a step; 0: one
    bool keep;              // the function returns residuals, which its gradients take
    bool states;            // it takes and returns states instead of changing them
    bool training;          // models are compiled as for training
    const char **entries;   // only these and init
    int nentries;           // 0: all
    const int64_t *batches; // additional batch sizes for which a model.bin is compiled
    int nbatches;
    bool precision_given, rebuild;
    int64_t memory_limit;
    bool no_reuse, no_matmul_library;
    int arch;
    const char *tune_file, *kernels_dir; // NULL: none
    bool tune_file_named;                // by the caller, so it must exist
    bool locked;
} Settings;
const char *precision_text(Precision p); // "tf32"; api/program.c
// The name of the train block that is used, cut to n bytes; "": there is none, or it is not known.
void program_trains(const netc_program *p, char *out, size_t n);
bool settings_define(const Settings *s, const char *define); // its name; api/build.c
typedef struct TuneFile TuneFile;
typedef struct EditedKernels EditedKernels;

typedef struct Embedded { // the sections of a model.bin
    const RtSection *s;
    int n;
    const char *path;
    bool unfit;                // its code is not for the requested values. If they are a batch:
    const char *lacks, *holds; // that batch, "batch=3", and those that the file has, "batch=4,
                               // batch=1"
    const char **entries;      // the only ones that it was compiled for, besides init
    int nentries;              // 0: all, or the caller asked for its source to be compiled
} Embedded;

typedef struct Build {
    struct Build *next;
    Arena *arena;
    bool cuda;
    bool any_gpu; // compiled before the program knew a GPU: fits all, and is slower on each
    const char *define;  // an additional "name=value", or ""
    const char *entry;   // the only entry that is elaborated, or "" for all
    const char *choices; // a checkpoint's choice table, the only source of schedules; or NULL
    LaunchLog launches;
    StepLog steps;
    const char *unlocked; // error text for --locked, or NULL
    Module *module;       // NULL if it was read from a model.bin
    Program *program;
    RtImage *images;
    int nimages;
    RtComing *coming;    // images that a thread is compiling; may be NULL
    atomic_int ahead;    // the process in which a thread compiles ahead and ends [coming]; 0: none
    PassTiming *timings; // [pass_count]
    double seconds;      // duration of the compilation
    pthread_mutex_t compiling; // guards images
} Build;

// A build whose kernels a thread compiles before a session needs them (api/precompile.c).
typedef struct Ahead {
    netc_program *p;
    pthread_t thread;
    bool running;
    pid_t owner; // process in which the thread runs; a forked process does not have the thread
    char define[128];
    const char *entry;
} Ahead;

struct netc_program {
    atomic_int refs;
    netc_context *context;
    Arena *arena;
    pthread_mutex_t lock;   // guards builds
    pthread_mutex_t saving; // one model.bin is written at a time
    const char *name, *text;
    size_t len;
    Settings settings;
    TuneFile *tuning;      // the tuning file, or NULL
    EditedKernels *edited; // kernels edited by hand, or NULL
    // The first GPU that a session opened, or that was found in this machine. Builds for CUDA use
    // its architecture, its size and the schedules measured on it.
    char *cuda_model;          // "NVIDIA H200"; or NULL
    int cuda_arch, cuda_units; // 0: none; multiprocessors
    Build *builds;
    pthread_mutex_t waiting; // guards ahead
    Ahead ahead[2];
    FileDecls *decls;
    Diags *decl_diags;
    // From a model.bin: its weights and its sections (the files for `use`).
    const RtTensors *weights;
    Embedded *embedded;
    const char *(*resolve)(void *ctx, Arena *a, const char *from, const char *name, size_t *len,
                           const char **path);
    bool noted; // errors in entries that were left out have been reported
};

void program_learn_gpu(netc_program *p);      // the GPU of this machine, if any
bool program_learn_prepared(netc_program *p); // the GPU that is being opened (api/prepare.c)

// api/precompile.c. Starts a thread with the build for define and entry, for the GPU that the
// program knows, unless too many are running.
void precompile_begin(netc_program *p, const char *define, const char *entry);
// Waits until the images of that build are compiled, if a thread was started. b NULL: until all
// threads have ended.
void precompile_wait(netc_program *p, const Build *b);

// The build for a target, created if there is none yet. define and entry: see Build. (api/build.c)
netc_status build_get(netc_program *p, bool cuda, const char *define, const char *entry,
                      Build **out, netc_error **err);
// The same with a checkpoint's choice table as the only source of schedules.
netc_status build_get_chosen(netc_program *p, bool cuda, const char *define, const char *entry,
                             const char *choices, Build **out, netc_error **err);
// Adds images to b->images unless they exist: a CPU object, cubins for "sm_XX" or PTX for "ptx_XX".
netc_status build_compile(netc_program *p, Build *b, const char *target, netc_error **err);
// Reports the runtime's error about a build. If the build was compiled from the source of a
// model.bin that has code, says why the code was not used.
netc_status build_fail(netc_program *p, const Build *b, const RtError *e, netc_error **err);
void build_free(Build *b);
void program_drop_builds(netc_program *p);
// A build for any target, for questions about entries and ports: an existing one, the CPU's first.
netc_status build_any(netc_program *p, Build **out, netc_error **err);
FrontendOptions lib_frontend_options(const netc_program *p, Arena *a, const char *define,
                                     const char *entry);

// -- a memory limit (api/fit.c) -------------------------------------------------------------------
// Bytes of temporaries if forward values kept for the backward part may take [kept] bytes; -1:
// failed.
typedef int64_t Peak(void *ctx, int64_t kept);
// The largest [kept] with a peak of at most [limit] or, if there is none, the one with the lowest
// peak. peak: the peak for kept = limit.
int64_t fit_kept(int64_t limit, int64_t peak, Peak *peak_of, void *ctx);
// An error that names the largest temporaries if the entry needs more than the limit (0: none).
netc_status fit_met(int64_t limit, const ProgEntry *e, netc_error **err);

// -- requested outputs (api/outputs.c) ------------------------------------------------------------
// only: the entry that is compiled, "" for all. false: an error was reported. *out: the entry with
// the requested outputs; NULL: it is not compiled, or it is not clear which it is.
bool outputs_entry(const Settings *s, const char *only, Module *m, Entry **out);
bool output_wanted(const Settings *s, const char *output);
// Whether all requested outputs exist; if not, reports an error.
bool outputs_known(const Settings *s, Module *m, const Entry *e);
bool outputs_keep(const Settings *s, const char *only, Module *m);
// Replaces that entry by a function with only those outputs, or by its gradients
// (api/functional.c).
bool functional_make(const Settings *s, const char *only, Module *m);
// The graph of a function that writes no cells, for [calls] slices (api/mapped.c).
Graph *mapped_graph(const Settings *s, Graph *src);
netc_status outputs_keep_compiled(const netc_program *p, Program *compiled, netc_error **err);

// -- further batches of a model.bin (api/batches.c) -----------------------------------------------
enum { MOST_BATCHES = 64 };
typedef struct Batches {
    char define[MOST_BATCHES][128]; // "batch=1"
    int n;
} Batches;
// The requested batches and those with which the program was loaded. own: a main build.
netc_status batches_wanted(const netc_program *p, const Build *own, Batches *out, netc_error **err);
// Finds the builds under which each name in "name=value" has that value, and makes them the main
// ones. false: there are none.
bool batches_choose(netc_program *p, const char **asked, int n);
// How many of n examples the next call computes: all of them, unless the program is a model.bin
// that has code for smaller batches only; then as many as the largest of these.
int64_t batches_piece(const netc_program *p, const ProgEntry *e, int64_t n);
// Writes why the code in a model.bin could not be used for this build, so that its source was
// compiled. false: no reason is known.
bool batches_why(const netc_program *p, const Build *b, char *out, size_t n);

// -- model.bin (api/bin.c) ------------------------------------------------------------------------
bool names_source(const char *path); // ends in ".net" (api/program.c)
bool bin_recognise(const void *bytes, size_t n);
netc_status bin_load(netc_program *p, const char *path, netc_error **err);
// Reads the declarations of the text under the current settings.
netc_status bin_declarations(netc_program *p, netc_error **err);
// Reads the file's weights; only after the program.
netc_status bin_weights(netc_program *p, netc_error **err);

// -- data (api/dataset.c) -------------------------------------------------------------------------
typedef struct ImageSet { // a folder or archives of images, which several inputs may read
    struct ImageSet *next;
    char *path;
    RtImages *images;
    bool told; // the number of skipped images was noted
} ImageSet;
typedef struct DataItem {
    char *input, *path, *part;
    RtFiles *files; // files of [path] that are being read; NULL: read already, borrowed, or images
    bool of_images; // path is a set of images
    ImageSet *set;  // after it was opened
    RtArray array;
    bool loaded, borrowed; // borrowed: data is the caller's memory
} DataItem;
struct netc_dataset {
    netc_context *context;
    DataItem *item;
    int n, cap;
    bool used;             // something of it was read for a model
    bool random;           // windows of tokens may start at any token
    bool resize, skip_bad; // for images
    ImageSet *sets;
};
int64_t dataset_step(const netc_dataset *d); // RtSource.step of its inputs, after loading
// Takes over the data that were read, converted as the model's declarations require; checks names
// and ranges.
netc_status dataset_load(netc_dataset *d, netc_program *p, netc_error **err);
// The dimensions that the data imply, as definitions "name=value" in the arena. whole: including
// those of axis 0. *differ: some differ from the program's current values.
netc_status dataset_defines(netc_dataset *d, netc_program *p, bool whole, Arena *a,
                            const char ***out, int *n, bool *differ, netc_error **err);
// An error if both are images and their folders have different classes.
netc_status dataset_agrees(const netc_dataset *a, const netc_dataset *b, netc_error **err);
const RtArray *dataset_find(const netc_dataset *d, const char *input); // NULL when absent
// The number of examples for the entry if known before they are read; otherwise 0.
int64_t dataset_examples(const netc_dataset *d, const ProgEntry *e);

// -- sessions (api/session.c) ---------------------------------------------------------------------
typedef struct Loaded { // a build that is ready to run on the session's device
    struct Loaded *next;
    Build *build;
    RtProgram *rt;
    Program *own; // a copy of the build's program with the session's choice table, or NULL
} Loaded;

typedef struct Bound { // a tensor that is bound to an input
    struct Bound *next;
    char *entry, *input;
    const void *data;
    bool device;
    void *dlpack; // released when the input is unbound
} Bound;
enum { MOST_RETIRED = 16 };

typedef struct SharedDevice { // shared by sessions that share parameters; closed with the last of
                              // them
    atomic_int refs;
    RtDevice *device;
} SharedDevice;

struct netc_session {
    netc_program *program;
    netc_context *context;
    RtDevice *device;
    SharedDevice *shared_device;
    RtSession *rt;
    Loaded *loaded; // newest first; one that session_use_choices replaced is kept until the end
    char *choices;  // the choice table of a loaded checkpoint, or NULL
    Bound *bound;
    void *retired[MOST_RETIRED]; // DLPack tensors that are unbound, but queued work may read them
    int nretired;
    int64_t seed;
    char **given; // settings set by netc_set, which take precedence over a checkpoint's when
                  // training is resumed
    int ngiven;
    bool training;  // netc_train is running
    bool told_rest; // it was noted that examples that do not fill a batch are left out of
                    // evaluations
    char device_text[160];
};
netc_status session_loaded(netc_session *s, const char *define, const char *entry, Loaded **out,
                           netc_error **err);
// The loaded build that has [entry]; reports an error with a suggestion if there is none.
netc_status session_entry(netc_session *s, const char *entry, Loaded **l, const ProgEntry **e,
                          netc_error **err);
// Refuses the train entry in an event hook of netc_train, whose data and step it would use up.
netc_status session_may_run(const netc_session *s, const ProgEntry *e, netc_error **err);
// Builds that are loaded from now on, and the main program, which is loaded again, use these
// measured choices instead of measuring, so that resumed training gives the same bits.
netc_status session_use_choices(netc_session *s, const char *choices, netc_error **err);
// For cells that have no value before the first batch of training (api/first_batch.c):
// session_ready fails if the entry reads one; session_savable fails if one would be saved;
// session_first_batch sets them, if there are any, from the first examples of [rows],
// session_first_inputs from what is bound to "train", among it the inputs that only these values
// read (program_first_input: the i-th, with as many examples as a step takes; api/ports.c).
netc_status session_ready(netc_session *s, Loaded *l, const ProgEntry *e, netc_error **err);
netc_status session_savable(netc_session *s, netc_error **err);
netc_status session_first_batch(netc_session *s, netc_dataset *data, const int32_t *rows,
                                netc_error **err);
netc_status session_first_inputs(netc_session *s, netc_error **err);
bool program_first_input(const Program *p, int i, ProgInput *out);
netc_status session_set_control(netc_session *s, const char *cell, int64_t value, netc_error **err);
// Sets the lengths of a training that is only timed (program_told), which schedules read.
netc_status session_made_up_lengths(netc_session *s, netc_error **err);
bool session_cell(const netc_session *s, const char *name, const ProgCell **out);
netc_tensor tensor_of(const ProgType *t, void *data); // api/ports.c
// -- bindings (api/bind.c)
// Whether the program was read from a model.bin that was compiled without this entry of its source.
// (api/ports.c)
bool entry_left_out(const netc_program *p, const char *name);
// Errors that list what exists. (no_entry: api/ports.c)
// in: what there is instead; not read if the entry was left out.
netc_status no_entry(const netc_program *p, const Program *in, const char *name, netc_error **err);
netc_status session_output(netc_session *s, const char *entry, const char *output, Loaded **l,
                           const ProgType **type, netc_error **err);
netc_status no_output(const ProgEntry *e, const char *output, netc_error **err); // lists the
                                                                                 // outputs
Bound *bound_find(const netc_session *s, const char *entry, const char *input);  // NULL: none
void bound_free(netc_session *s);
// Unbinds the DLPack tensor of b, if it has one, and deletes it unless it is bound elsewhere in s.
// Unbinds a DLPack tensor (api/dlpack.c). It is deleted when nothing that is queued reads it: at
// the next dlpack_settle, which the caller calls when the session's work has ended.
void dlpack_release(netc_session *s, Bound *b);
void dlpack_settle(netc_session *s);
// Gets the type of a tensor given by the caller; an error if it is not valid.
netc_status tensor_type(const char *what, const netc_tensor *t, ProgType *out, netc_error **err);
// An error if elements in host memory are not aligned to their size.
netc_status aligned(const char *name, const netc_tensor *t, const ProgType *type, netc_error **err);
// NETC_OK if the tensor has the expected type; otherwise an error with both types.
netc_status same_type(const char *what, const char *name, const ProgType *want,
                      const netc_tensor *t, netc_error **err);

// -- training (train/train.c, api/evaluate.c) -----------------------------------------------------
typedef struct Rows { // part of a data set: every step-th row of [begin, end)
    netc_dataset *data;
    int64_t begin, end, step;
} Rows;
int64_t rows_count(const Rows *r);
// Executions are enqueued in pieces, so that cancellation is noticed within a quarter of a second.
// Returns the size of the next piece, if [last] was the limit and the last n executions took
// [seconds].
int64_t next_piece(int64_t last, int64_t n, double seconds);
bool session_cancelled(const netc_session *s);
// Means of the scalar outputs of eval over the rows. piece: size of the first piece. Names in
// *metrics point into the same malloc'ed block. NETC_CANCELLED comes without an error object.
netc_status evaluate_rows(netc_session *s, const Rows *rows, const char *prefix, int64_t piece,
                          netc_metric **metrics, int *n, netc_error **err);
// For an evaluation of [count] examples: the definition under which the remaining ones are a batch
// of their own, or "" if none remain or they are left out, which is noted once.
netc_status evaluate_plan(netc_session *s, const ProgEntry *e, int64_t count, char *define,
                          size_t n, netc_error **err);
// Finds a cell whose type under that definition differs from that in the session: *mine and *its,
// or NULL.
netc_status session_differs(netc_session *s, const char *define, const char *entry,
                            const ProgCell **mine, const ProgCell **its, netc_error **err);
// An error if an input takes its examples from data and there are none; option: the option that
// provides them.
netc_status need_data(const ProgEntry *e, const netc_dataset *d, const char *option,
                      netc_error **err);
// Binds data to an entry with a row table; checks shapes, types and counts.
netc_status bind_rows(netc_session *s, Loaded *l, const ProgEntry *e, netc_dataset *d,
                      int64_t *examples, netc_error **err);
// Clears the sums of an entry's scalar outputs and of its tallies: a count begins. Before the first
// execution that counts, because executions by the caller (netc_run, netc_time) add to them, too.
netc_status clear_sums(netc_session *s, const Program *p, const ProgEntry *e, netc_error **err);
netc_status clear_tallies(netc_session *s, const Program *p, const ProgEntry *e, netc_error **err);
// Reads the sums since clear_sums as means, one per output.
netc_status read_means(netc_session *s, const ProgEntry *e, const char *prefix,
                       netc_metric **metrics, int *n, netc_error **err);
// batch_dim: the name of the batch dimension, or NULL if it is a number. last_batch: the definition
// for a batch of the examples that do not fill one; false: there are none.
bool last_batch(const ProgEntry *e, int64_t examples, char *define, size_t n);
typedef char LastText[48];
const char *last_text(LastText *out, int64_t n); // "the last example", "the last 3 examples"
const char *batch_dim(const ProgEntry *e);

// -- checkpoints (api/checkpoint.c, checkpoint_save.c) --------------------------------------------
bool state_is_saved(const ProgCell *c);  // not scratch, not a control cell
bool state_is_weight(const ProgCell *c); // saved, and used by the models' computation
bool state_is_named(const ProgCell *c);  // named by the model, not by netc ("@step")
typedef struct Position { // the position of training, which is saved with the tensors
    int64_t step, seed, batch, examples; // batch, examples: 0 if unknown
    char precision[8];                   // or ""
    char order[16];                      // of the examples: "shuffled", "in order", ..., or ""
    char last[16];    // examples behind the last whole batch: "kept", "left out", or "": none
    char program[96]; // the train block's name, cut to this size, or ""
    bool needed;      // a file without it is an error
    char best[320];   // the best evaluation so far (train/train_best.c), or ""
} Position;
// Returns values of the cell's type, valid until the next call; NULL: it has none for this cell.
typedef struct StateSource {
    const void *(*find)(void *ctx, const ProgCell *c);
    void *ctx;
} StateSource;
// Writes the values to the session, then computes cells that the model derives from others, unless
// the source has them. (api/derive.c)
netc_status state_put(netc_session *s, const StateSource *from, netc_error **err);
// Whether the cell's initial value is computed from other cells.
bool state_derived(const Program *p, const char *cell);
netc_status state_save_at(netc_session *s, const char *path, const netc_save_options *o,
                          const Position *at, netc_error **err);
netc_status state_load_at(netc_session *s, const char *path, const netc_load_options *o,
                          Position *at, netc_error **err);
// (api/convert.c)
bool float_type(ProgDType t);
// Converts n floats to another type. false: a finite one is too large for it. [in] need not be
// aligned.
bool floats_convert(ProgDType from, const void *in, ProgDType to, void *out, int64_t n);
// Transposes a matrix (rows, columns) with elements of [bytes] bytes.
void matrix_turn(const void *in, int bytes, int64_t rows, int64_t columns, void *out);

#endif
