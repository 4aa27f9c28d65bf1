// What the verbs of netc share: options, errors, exit codes. Exit: 0 fine, 1 the user's input,
// 2 the environment.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "include/netc.h"

typedef enum OptionKind { OPT_FLAG, OPT_STRING, OPT_INT, OPT_REAL, OPT_LIST } OptionKind;

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

// Fills the options' targets; other words go to *words, as many as the verb takes. Handles --help
// (prints, *done = true). false: an error was printed; exit with 1. After done and after an error
// all lists are empty.
bool parse_options(const Verb *verb, const Option *options, int noptions, int argc, char **argv,
                   StringList *words, bool *done);
const Verb *find_verb(const char *name);
void list_free(StringList *l);

typedef struct Common { // options every verb that compiles takes
    StringList defines;
    const char *precision, *cache_dir, *skip_passes, *tune_file;
    int64_t memory_limit;
    bool quiet, verbose, no_reuse, phases, no_matmul_library, rebuild, locked;
} Common;
enum { COMMON_OPTIONS = 13 };
void common_options(Common *c, Option out[COMMON_OPTIONS]);

bool color_wanted(int fd);
// Prints the error and returns the exit code for it.
int report_error(netc_error *err);
int fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); // prints "error: ..."; returns 1
netc_status open_context(const Common *c, netc_context **out, netc_error **err);
void compile_options(const Common *c, netc_compile_options *o);
netc_status open_program(const Common *c, netc_context *ctx, const char *path, const char *target,
                         const netc_dataset *data, netc_program **out, netc_error **err);
// "NAME=FILE" or "NAME=FILE:PART" words into a data set.
netc_status add_data(netc_dataset *d, const StringList *words, netc_error **err);
// The entry asked for, or else train, or else the first model; what a verb times when it is not
// told. NULL: the file has none.
const char *entry_of(netc_program *p, const char *asked);
// Of --steps and --repeats: positive, or steps NOT_GIVEN. false: said so.
enum { NOT_GIVEN = -1 };
bool counts_valid(int64_t steps, int64_t repeats);
// --set name=value words.
netc_status apply_settings(netc_session *s, const StringList *words, netc_error **err);
char *read_text(const char *path);                   // malloc'ed; NULL: it cannot be read
bool write_text(const char *path, const char *text); // beside the target, then renamed
// Ctrl-C: asks for a stop after the current step; a second one ends at once.
void catch_interrupt(void);
bool interrupted(void *unused);

int verb_compile(int argc, char **argv);
int verb_train(int argc, char **argv);
int verb_eval(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_inspect(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_profile(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_tune(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_fmt(int argc, char **argv);

#endif
