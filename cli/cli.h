// Shared by the verbs of netc: options, errors, exit codes. Exit codes: 0 success, 1 the user's
// input, 2 the environment.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "include/netc.h"

typedef enum OptionKind {
    OPT_FLAG,
    OPT_STRING,
    OPT_INPUT,   // a file that the verb reads, so that none that it writes may be the same
    OPT_OUTPUT,  // a file that the verb writes: checked before the work begins
    OPT_OUTPUTS, // a list of FILE or NAME=FILE that the verb writes; arrays_possible checks more
    OPT_INT,
    OPT_COUNT, // a whole number above 0
    OPT_BYTES, // a size, as read by read_bytes
    OPT_REAL,
    OPT_POSITIVE, // a finite number above 0
    OPT_LIST
} OptionKind;

typedef struct StringList {
    const char **at;
    int n;
} StringList;

typedef struct Option {
    const char *name;  // "--epochs"
    const char *alias; // "-q", or NULL
    OptionKind kind;
    void *to; // to a bool, const char *, int64_t, double or StringList, depending on the kind
    const char *value; // name of the value in the help text: "N"
    const char *help;
} Option;

typedef struct Verb {
    const char *name, *summary; // one line for the list of verbs
    const char *usage;          // after "netc": "train MODEL --data NAME=FILE ..."
    const char *example;        // one or several commands, one per line
    int (*run)(int argc, char **argv);
    int least, most;   // number of words that are not options
    const char *words; // what these words are: "one model"
} Verb;

extern const Verb verbs[]; // ended by a row without a name
extern const int verb_count;

typedef struct Common { // what every verb that compiles takes: common options, and words
    StringList words, defines;
    const char *program, *precision, *cache_dir, *skip_passes, *tune_file;
    int64_t memory_limit;
    bool quiet, verbose, no_reuse, no_matmul_library, rebuild, locked;
} Common;

// Reads a command line with the verb's own options and, unless c is NULL, the common ones. Words
// that are not options go to *words, as many as the verb takes. false: the command is finished
// (--help), or wrong, which was reported; exit with *code, nothing has to be freed.
bool read_command(const char *verb, const Option *own, int n, Common *c, StringList *words,
                  int argc, char **argv, int *code);
#define OPTIONS(rows) rows, (int)(sizeof(rows) / sizeof *(rows))
void free_command(const Option *own, int n, Common *c); // frees the lists that read_command filled
// Runs the verb's work in a context of its own, then frees the context and the command's lists.
// Returns the exit code; errors are reported.
typedef netc_status Body(void *args, netc_context *ctx, netc_error **err);
int run_command(const Option *own, int n, Common *c, Body *body, void *args);
// read_command, then run_command.
int run_verb(const char *verb, const Option *own, int n, Common *c, int argc, char **argv,
             Body *body, void *args);
const Verb *find_verb(const char *name);
bool read_bytes(const char *text, int64_t *out); // 800000, 5e9, 6GB, 512MiB; in bytes.c
bool list_add(StringList *l, const char *word);  // false: out of memory, which was reported
void list_free(StringList *l);

// Rows for options that several verbs have.
Option device_option(const char **to);
Option examples_option(StringList *to); // "--data", for verbs that need data
Option data_option(StringList *to);     // "--data", for verbs that make up data by default
Option entry_option(const char **to);
Option seed_option(int64_t *to, const char *help);
Option set_option(StringList *to);
typedef struct Weights { // initial values of parameters
    const char *file;
    StringList map, ignore, transpose;
    bool allow_missing;
} Weights;
typedef struct ImageOptions { // how images are read
    bool resize, skip_bad;
} ImageOptions;
Option resize_option(ImageOptions *i);
Option skip_option(ImageOptions *i);
Option weights_option(Weights *w);
Option map_option(Weights *w);
Option missing_option(Weights *w);
Option ignore_option(Weights *w);
Option transpose_option(Weights *w);
#define IMAGE_OPTIONS(i) resize_option(i), skip_option(i)
#define WEIGHTS_OPTIONS(w)                                                                         \
    weights_option(w), map_option(w), missing_option(w), ignore_option(w), transpose_option(w)
Option part_option(int64_t *to);
bool is_source(const char *path); // a .net file; otherwise a model.bin, which has code and may have
                                  // weights
// For verbs that show results: prints a note if a .net file has parameters and no values were
// given.
void note_untrained(netc_session *s, const Weights *w, const Common *c);
typedef struct Timing { // how a verb measures
    StringList data;
    int64_t steps, repeats, seed;
} Timing;
Timing timing_default(void);
Option steps_option(Timing *t);
Option repeats_option(Timing *t);
void time_options(const Timing *t, netc_time_options *o); // sets all options except the data

bool color_wanted(int fd);
// Prints the error and returns its exit code.
int report_error(netc_error *err);
// The exit code for this status; prints and frees the error, if there is one.
int exit_code(netc_status status, netc_error *err);
// Prints "cannot write PATH" and errno's reason. Returns 1 if the path is wrong, otherwise 2.
int fail_to_write(const char *path);
// Whether the file can be written, as far as known before the work. false: an error was reported;
// exit with *code.
bool output_possible(const char *path, int *code);
// Whether the file is different from [other], which messages call [what]; both may be NULL. false:
// an error was reported; exit with *code.
bool output_apart(const char *path, const char *other, const char *what, int *code);
// Whether no file that the options write is one that they read, or one of the words, which are
// models or (models false) other files; that OPT_OUTPUT can be written. --resume is an exception
// that train makes. false: an error was reported; exit with *code.
bool outputs_apart(const Option *options, int n, const StringList *words, bool models, int *code);
// Whether an existing file, which will be replaced or appended to, begins like the JSON lines of
// [what]. false: an error was reported; exit with *code.
bool output_of_objects(const char *path, const char *what, int *code);
// Like output_possible for each NAME=FILE.npy (bare: also FILE.npy). Also checks that no two are
// the same file. archives: several may be written to one .npz.
bool arrays_possible(const StringList *words, bool bare, bool archives, int *code);
bool is_npz(const char *path); // an archive of arrays
// A list of malloc'ed words NAME=FILE; name NULL: [path] is such a word. false: out of memory.
bool files_add(StringList *files, const char *name, const char *path);
void files_free(StringList *files);
// Whether the file name has no suffix of another format than [suffix], as which [what] is written.
// false: an error was reported; exit with *code.
bool output_named(const char *path, const char *suffix, const char *what, int *code);
// The same for a checkpoint, which may be an index of parts.
bool checkpoint_named(const char *path, const char *what, int *code);
int fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); // prints "error: ..."; returns 1
netc_status open_context(const Common *c, netc_context **out, netc_error **err);
void compile_options(const Common *c, netc_compile_options *o);
const char *device_target(const char *device); // the target for a --device; NULL: none
int device_count(const char *device);          // how many it names
// Sets *target for --target of verbs that run nothing. sm_XX is CUDA for that architecture; the
// source in a model.bin is compiled again for it. false: an error was reported.
bool take_target(const char *asked, netc_compile_options *c, const char **target);
// Compiles the model, which is the first word. devices: that share the work. entries: those that
// will be run; NULL or none: all.
netc_status open_program(const Common *c, netc_context *ctx, const char *target, int devices,
                         const StringList *entries, const netc_dataset *data,
                         const netc_dataset *eval_data, netc_program **out, netc_error **err);
// Adds files to a data set; words are "NAME=FILE" or "NAME=FILE:PART".
netc_status add_data(netc_dataset *d, const StringList *words, netc_error **err);
// The same for a new data set; *out stays NULL if there are no words. images NULL: default options.
netc_status open_data(netc_context *ctx, const StringList *words, const ImageOptions *images,
                      netc_dataset **out, netc_error **err);
// The first model; NULL: none. (A model.bin holds its training, too.)
const char *model_of(netc_program *p);
// For verbs that time an entry: the requested entry, otherwise train, otherwise the first model.
// NULL: the file has none.
const char *entry_of(netc_program *p, const char *asked);
// Opens a session with the given seed, --weights, and --set name=value words. *out must be freed
// even if this fails.
netc_status open_session(netc_program *p, const char *device, int64_t seed, const Weights *w,
                         const StringList *settings, netc_session **out, netc_error **err);
// malloc'ed; NULL: it cannot be read or is not text (see errno).
char *read_text(const char *path);
// Reports that, with what the file should be; returns 1.
int fail_to_read_text(const char *path, const char *wanted);
// Writes to a temporary file and renames it, or writes directly if the target is not a regular
// file. false: an error was reported.
bool write_text(const char *path, const char *text);
// Functions that print tensors (tensors.c).
size_t tensor_elements(const netc_tensor *t);
const char *tensor_type(const netc_tensor *t, char *out, size_t n); // "f32[2, 3]"
// all: prints all digits that distinguish a number from its neighbours, as in JSON.
void print_element(const netc_tensor *t, size_t i, bool all);
// Compares two files of netc bench; returns the exit code, 3 if the second is worse.
int compare_results(const char *first, const char *second, double least, bool json);
// Handles Ctrl-C: the first one requests a stop after the current step, the second one ends the
// process.
void catch_interrupt(void);
bool interrupted(void *unused);

int verb_compile(int argc, char **argv);
int verb_init(int argc, char **argv);
int verb_train(int argc, char **argv);
int verb_eval(int argc, char **argv);
int verb_predict(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_generate(int argc, char **argv);
int verb_tokenize(int argc, char **argv);
int verb_inspect(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_profile(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_tune(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_fmt(int argc, char **argv);
int verb_lsp(int argc, char **argv);

#endif
