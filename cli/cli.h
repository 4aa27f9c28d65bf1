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
    OPT_OUTPUT, // a file that the verb writes: checked before the work
    OPT_INT,
    OPT_COUNT, // a whole number above 0
    OPT_BYTES, // a size as read by read_bytes
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
    const char *value; // its name in the help text: "N"
    const char *help;
} Option;

typedef struct Verb {
    const char *name, *summary; // one line for the list of verbs
    const char *usage;          // after "netc": "train MODEL --data NAME=FILE ..."
    const char *example;        // one or several commands, one per line
    int (*run)(int argc, char **argv);
    int least, most;   // number of words that are not options
    const char *words; // what they are: "one model"
} Verb;

extern const Verb verbs[]; // ended by a row without a name
extern const int verb_count;

typedef struct Common { // what every verb that compiles takes: options, and words that are not
    StringList words, defines;
    const char *program, *precision, *cache_dir, *skip_passes, *tune_file;
    int64_t memory_limit;
    bool quiet, verbose, no_reuse, no_matmul_library, rebuild, locked;
} Common;

// Reads a command line by the verb's own options and, unless c is NULL, the common ones. Words that
// are not options go to *words, as many as the verb takes. false: done (--help) or wrong, which was
// reported; exit with *code, nothing has to be freed.
bool read_command(const char *verb, const Option *own, int n, Common *c, StringList *words,
                  int argc, char **argv, int *code);
#define OPTIONS(rows) rows, (int)(sizeof(rows) / sizeof *(rows))
void free_command(const Option *own, int n, Common *c); // frees the lists that it filled
// Runs the verb's work in a context of its own, then frees that and the command's lists. Returns
// the exit code; an error is reported.
typedef netc_status Body(void *args, netc_context *ctx, netc_error **err);
int run_command(const Option *own, int n, Common *c, Body *body, void *args);
// read_command, then run_command.
int run_verb(const char *verb, const Option *own, int n, Common *c, int argc, char **argv,
             Body *body, void *args);
const Verb *find_verb(const char *name);
bool read_bytes(const char *text, int64_t *out); // 800000, 5e9, 6GB, 512MiB; bytes.c
bool list_add(StringList *l, const char *word);  // false: out of memory, which is reported
void list_free(StringList *l);

// Option rows that several verbs share.
Option device_option(const char **to);
Option examples_option(StringList *to); // "--data", for verbs that need data
Option data_option(StringList *to);     // "--data", for verbs that otherwise make up data
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
bool is_source(const char *path); // a .net file; a model.bin holds code, and may hold weights
// For verbs that show results: prints a note if a .net has parameters and no values were given.
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
// The exit code for this status; prints and frees the error, if there is one.
int exit_code(netc_status status, netc_error *err);
// Prints "cannot write PATH" and errno's reason; returns 1 if the path is wrong, else 2.
int fail_to_write(const char *path);
// Whether the file can be written, as far as can be known before there is anything to write: its
// folder is writable, and it is not the model itself. false: reported; exit with *code.
bool output_possible(const char *path, const char *model, int *code);
// Whether the file is not [other], which messages call [what]; either may be NULL. false: reported;
// exit with *code.
bool output_apart(const char *path, const char *other, const char *what, int *code);
// The same for every file in words such as NAME=FILE:PART or NAME=FILE,FILE.
bool output_no_data(const char *path, const StringList *words, int *code);
// Whether an existing file begins like JSON lines, as [what] does: it will be replaced or appended
// to. false: reported; exit with *code.
bool output_of_objects(const char *path, const char *what, int *code);
// The same as output_possible for each NAME=FILE.npy (bare: or FILE.npy), and that no two are the
// same file and none is one of [data], the files NAME=FILE that are read. archives: several may go
// into one .npz.
bool arrays_possible(const StringList *words, bool bare, bool archives, const char *model,
                     const StringList *data, int *code);
// Whether the name does not promise a format other than [suffix], in which "[what] as [suffix]" is
// written. false: reported; exit with *code.
bool output_named(const char *path, const char *suffix, const char *what, int *code);
// The same for a checkpoint, which may be an index of parts.
bool checkpoint_named(const char *path, const char *what, int *code);
int fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); // prints "error: ..."; returns 1
netc_status open_context(const Common *c, netc_context **out, netc_error **err);
void compile_options(const Common *c, netc_compile_options *o);
const char *device_target(const char *device); // the target that --device implies; NULL: none
// --target of the verbs that run nothing: sm_XX is CUDA for that architecture; a model.bin's source
// is compiled for it. false: an error was reported.
bool take_target(const char *asked, netc_compile_options *c, const char **target);
// Compiles the model named first. entries: those that will be run; NULL or none: all of the file.
netc_status open_program(const Common *c, netc_context *ctx, const char *target,
                         const StringList *entries, const netc_dataset *data,
                         const netc_dataset *eval_data, netc_program **out, netc_error **err);
// "NAME=FILE" or "NAME=FILE:PART" words into a data set.
netc_status add_data(netc_dataset *d, const StringList *words, netc_error **err);
// The same into a new data set; *out stays NULL if there are no words. images: NULL: defaults.
netc_status open_data(netc_context *ctx, const StringList *words, const ImageOptions *images,
                      netc_dataset **out, netc_error **err);
// The requested entry, or else train, or else the first model, for verbs that time an entry. NULL:
// the file has none.
const char *entry_of(netc_program *p, const char *asked);
// A session with the given options: seed, --weights, --set name=value words. *out must be freed
// even if this fails.
netc_status open_session(netc_program *p, const char *device, int64_t seed, const Weights *w,
                         const StringList *settings, netc_session **out, netc_error **err);
// malloc'ed; NULL: it cannot be read or is not text, errno says why.
char *read_text(const char *path);
// Writes to a temporary file that is then renamed; directly if the target is not a plain file.
// false: reported.
bool write_text(const char *path, const char *text);
// Tensors as text (tensors.c).
size_t tensor_elements(const netc_tensor *t);
const char *tensor_type(const netc_tensor *t, char *out, size_t n); // "f32[2, 3]"
// all: with all digits that distinguish a number from its neighbours, as JSON.
void print_element(const netc_tensor *t, size_t i, bool all);
// Compares two files of netc bench; returns the exit code, 3 if the second is worse.
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
