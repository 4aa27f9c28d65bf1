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
    OPT_OUTPUT, // a file that the verb writes: looked at before the work that makes it
    OPT_INT,
    OPT_COUNT, // a whole number above 0
    OPT_BYTES, // as read_bytes takes them
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
    void *to;          // bool, const char *, int64_t, double, StringList
    const char *value; // how help calls it: "N"
    const char *help;
} Option;

typedef struct Verb {
    const char *name, *summary; // one line for the list of verbs
    const char *usage;          // after "netc": "train MODEL --data NAME=FILE ..."
    const char *example;        // a command or several, one a line
    int (*run)(int argc, char **argv);
    int least, most;   // words that are no options
    const char *words; // what they are: "one model"
} Verb;

extern const Verb verbs[]; // ended by a row without a name
extern const int verb_count;

typedef struct Common { // what every verb that compiles takes: options, and words that are none
    StringList words, defines;
    const char *program, *precision, *cache_dir, *skip_passes, *tune_file;
    int64_t memory_limit;
    bool quiet, verbose, no_reuse, no_matmul_library, rebuild, locked;
} Common;

// A command line by the verb's own options and, unless c is NULL, the common ones; words that are
// no options go to *words, as many as the verb takes. false: done (--help) or wrong, which is said;
// exit with *code, nothing is to be freed.
bool read_command(const char *verb, const Option *own, int n, Common *c, StringList *words,
                  int argc, char **argv, int *code);
#define OPTIONS(rows) rows, (int)(sizeof(rows) / sizeof *(rows))
void free_command(const Option *own, int n, Common *c); // the lists that it filled
// Runs what the verb does in a context of its own, then frees that and the command's lists. Returns
// the exit code; an error is reported.
typedef netc_status Body(void *args, netc_context *ctx, netc_error **err);
int run_command(const Option *own, int n, Common *c, Body *body, void *args);
// read_command, then run_command.
int run_verb(const char *verb, const Option *own, int n, Common *c, int argc, char **argv,
             Body *body, void *args);
const Verb *find_verb(const char *name);
bool read_bytes(const char *text, int64_t *out); // 800000, 5e9, 6GB, 512MiB; bytes.c
bool list_add(StringList *l, const char *word);  // false: no memory, which is said
void list_free(StringList *l);

// Rows that several verbs have.
Option device_option(const char **to);
Option examples_option(StringList *to); // "--data", for verbs that need data
Option data_option(StringList *to);     // "--data", for verbs that make data up otherwise
Option entry_option(const char **to);
Option seed_option(int64_t *to, const char *help);
Option set_option(StringList *to);
typedef struct Weights { // parameters to start from
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
bool is_source(const char *path); // a .net; a model.bin holds code, and may hold weights
// For verbs that look at results: says so when a .net has parameters and nobody gave their values.
void note_untrained(netc_session *s, const Weights *w, const Common *c);
typedef struct Timing { // how a verb measures
    StringList data;
    int64_t steps, repeats, seed;
} Timing;
Timing timing_default(void);
Option steps_option(Timing *t);
Option repeats_option(Timing *t);
void time_options(const Timing *t, netc_time_options *o); // all but the data

bool color_wanted(int fd);
// Prints the error and returns the exit code for it.
int report_error(netc_error *err);
// The exit code of what ended so; prints and frees the error. Without one it was printed already.
int exit_code(netc_status status, netc_error *err);
// "cannot write PATH" and errno's reason; returns 1 where the path is to blame, else 2.
int fail_to_write(const char *path);
// Whether the file can be written as far as can be told before there is anything to write: its
// folder takes files, and it is not the model itself. false: said so; exit with *code.
bool output_possible(const char *path, const char *model, int *code);
// Whether the file is not [other], of which messages say [what] it is; either may be NULL. false:
// said so; exit with *code.
bool output_apart(const char *path, const char *other, const char *what, int *code);
// The same of every file of words such as NAME=FILE:PART or NAME=FILE,FILE.
bool output_no_data(const char *path, const StringList *words, int *code);
// Whether what is there, if anything, begins as JSON lines do, as [what] is: it is replaced or
// added to. false: said so; exit with *code.
bool output_of_objects(const char *path, const char *what, int *code);
// The same as output_possible of each NAME=FILE.npy, and that no two are one file and none is of
// [data], NAME=FILE that are read; bare: or FILE.npy. archives: but several may go into one .npz.
bool arrays_possible(const StringList *words, bool bare, bool archives, const char *model,
                     const StringList *data, int *code);
// Whether the name promises no other format than that of [suffix], which what is written has: "a
// compiled model is written". false: said so; exit with *code.
bool output_named(const char *path, const char *suffix, const char *what, int *code);
// The same of a checkpoint, which may be an index of parts.
bool checkpoint_named(const char *path, const char *what, int *code);
int fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); // prints "error: ..."; returns 1
netc_status open_context(const Common *c, netc_context **out, netc_error **err);
void compile_options(const Common *c, netc_compile_options *o);
const char *device_target(const char *device); // what --device says of the target; NULL: nothing
// --target of the verbs that only look: sm_XX is CUDA for that architecture, and of a model.bin its
// source is compiled for it. false: said why not.
bool take_target(const char *asked, netc_compile_options *c, const char **target);
// The model named first. entries: the ones that will be run; NULL or none: all of the file.
netc_status open_program(const Common *c, netc_context *ctx, const char *target,
                         const StringList *entries, const netc_dataset *data,
                         const netc_dataset *eval_data, netc_program **out, netc_error **err);
// "NAME=FILE" or "NAME=FILE:PART" words into a data set.
netc_status add_data(netc_dataset *d, const StringList *words, netc_error **err);
// The same into a new one; *out stays NULL where there are none. images: NULL: as they are.
netc_status open_data(netc_context *ctx, const StringList *words, const ImageOptions *images,
                      netc_dataset **out, netc_error **err);
// The entry asked for, or else train, or else the first model; what a verb times when it is not
// told. NULL: the file has none.
const char *entry_of(netc_program *p, const char *asked);
// A session that begins as the options say: seed, --weights, --set name=value words. *out is to be
// freed even where that fails.
netc_status open_session(netc_program *p, const char *device, int64_t seed, const Weights *w,
                         const StringList *settings, netc_session **out, netc_error **err);
char *read_text(const char *path); // malloc'ed; NULL: it cannot be read or is no text, errno is why
// Beside the target, then renamed; through what is no plain file. false: said so.
bool write_text(const char *path, const char *text);
// Tensors as text (tensors.c).
size_t tensor_elements(const netc_tensor *t);
const char *tensor_type(const netc_tensor *t, char *out, size_t n); // "f32[2, 3]"
// all: with every digit that tells it from its neighbours, as JSON.
void print_element(const netc_tensor *t, size_t i, bool all);
// Two files that netc bench wrote, side by side; returns the exit code, 3 where the second is
// worse.
int compare_results(const char *first, const char *second, double least, bool json);
// Ctrl-C: asks for a stop after the current step; a second one ends at once.
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
