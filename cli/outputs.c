// Files that a verb writes: checked before the work begins.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folders.h"
#include "cli/cli.h"

int fail_to_write(const char *path)
{
    int why = errno;
    if (!*path) return fail("the name of a file is empty: name one");
    bool user = why == ENOENT || why == EACCES || why == ENOTDIR || why == EISDIR || why == EROFS;
    return fail("cannot write %s: %s", path, strerror(why)), user ? 1 : 2;
}

// Whether both are, or would become, the same file. Devices never are, since they store nothing.
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    bool there = !stat(a, &x), both = there && !stat(b, &y);
    if (both) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return !there && stat(b, &y) && same_target(a, b);
}

bool output_apart(const char *path, const char *other, const char *what, int *code)
{
    if (!path || !other || !same_file(path, other)) return true;
    *code = fail("%s is %s; name another file to write", path, what);
    return false;
}

// The same as output_apart for every file in words such as NAME=FILE:PART or NAME=FILE,FILE.
static bool output_no_data(const char *path, const StringList *words, int *code)
{
    static const char what[] = "also read as data";
    bool apart = true;
    for (int i = 0; i < words->n && apart; i++) {
        const char *eq = strchr(words->at[i], '='), *file = eq ? eq + 1 : words->at[i];
        // The word may be FILE, FILE:PART or FILE,FILE, or a name with ':' or ','; checks both
        // readings.
        apart =
            output_apart(path, words->at[i], what, code) && output_apart(path, file, what, code);
        for (const char *end; file && apart; file = end ? end + 1 : NULL) {
            end = strchr(file, ',');
            char *one = end ? strndup(file, (size_t)(end - file)) : strdup(file);
            apart = output_apart(path, one, what, code);
            char *part = one ? strrchr(one, ':') : NULL;
            if (part) *part = 0, apart = apart && output_apart(path, one, what, code);
            free(one);
        }
    }
    return apart;
}

bool output_of_objects(const char *path, const char *what, int *code)
{
    struct stat st;
    if (!path || stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size) return true;
    FILE *f = fopen(path, "r");
    bool fits = !f || fgetc(f) == '{'; // unknown if it cannot be read
    if (f) fclose(f);
    if (!fits) *code = fail("%s exists and is not a %s; name another file", path, what);
    return fits;
}

bool output_possible(const char *path, int *code)
{
    struct stat out;
    bool there = !stat(path, &out);
    if (!strcmp(path, "-")) {
        *code = fail("- is not a file name: to write into a pipe, name /dev/stdout");
        return false;
    }
    char *target = link_target(path), *folder = target ? folder_of(target) : NULL;
    char *inside = NULL; // (of a file, that is no folder: ENOTDIR)
    if (folder && asprintf(&inside, "%s/.", folder) < 0) inside = NULL;
    if (there && S_ISDIR(out.st_mode)) errno = EISDIR;
    bool possible = there ? !S_ISDIR(out.st_mode) && !access(path, W_OK)
                          : *path && inside && !access(inside, W_OK | X_OK);
    free(inside);
    free(folder);
    free(target);
    if (!possible) *code = fail_to_write(path);
    return possible;
}

bool output_named(const char *path, const char *suffix, const char *what, int *code)
{
    static const char *const formats[] = {
        ".net",     ".bin",   ".safetensors", ".npy",  ".npz", ".csv",   ".txt", ".png", ".pt",
        ".pth",     ".h5",    ".onnx",        ".json", ".c",   ".cu",    ".so",  ".o",   ".parquet",
        ".feather", ".arrow", ".mat",         ".hdf5", ".pkl", ".jsonl", ".xlsx"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(dot, formats[i]) && strcmp(dot, suffix)) {
            *code = fail("%s: %s as %s; name the file accordingly", path, what,
                         strcmp(suffix, ".npy") ? suffix : ".npy, .npz, .csv or .tsv");
            return false;
        }
    return true;
}

bool checkpoint_named(const char *path, const char *what, int *code)
{
    static const char index[] = ".safetensors.index.json";
    size_t n = strlen(path), end = sizeof index - 1;
    return (n > end && !strcmp(path + n - end, index)) ||
           output_named(path, ".safetensors", what, code);
}

static bool is_table(const char *path) // formats of arrays other than .npy
{
    static const char *const ends[] = {".csv", ".tsv", ".npz"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > 4 && !strcasecmp(path + n - 4, ends[i])) return true;
    return false;
}

bool is_npz(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcasecmp(path + n - 4, ".npz");
}

bool files_add(StringList *files, const char *name, const char *path)
{
    char *word = NULL;
    if (asprintf(&word, "%s%s%s", name ? name : "", name ? "=" : "", path) < 0) return false;
    if (list_add(files, word)) return true;
    free(word);
    return false;
}

void files_free(StringList *files)
{
    for (int i = 0; i < files->n; i++) free((char *)(uintptr_t)files->at[i]);
    list_free(files);
}

// The part after "NAME=".
static const char *path_of(const char *word)
{
    const char *eq = strchr(word, '=');
    return eq ? eq + 1 : word;
}

// Whether the file is none of a checkpoint that is read: the file itself, a part that an index
// names, or a file of tensors in a folder. false: an error was reported.
static bool output_no_part(const char *path, const char *read, const char *what, int *code)
{
    static const char index[] = ".index.json", tensors[] = ".safetensors";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(read), len = strlen(name);
    struct stat st, in, other;
    bool folder = !stat(read, &st) && S_ISDIR(st.st_mode);
    bool parts = n >= sizeof index && !strcmp(read + n - (sizeof index - 1), index);
    if (!output_apart(path, read, what, code)) return false;
    if ((!folder && !parts) || access(path, F_OK)) return true;
    char *at = folder_of(path), *of = folder ? strdup(read) : folder_of(read);
    bool beside = at && of && !stat(at, &in) && !stat(of, &other) && in.st_dev == other.st_dev &&
                  in.st_ino == other.st_ino;
    free(at), free(of);
    char *text = beside && parts ? read_text(read) : NULL, *quoted = NULL;
    if (text && asprintf(&quoted, "\"%s\"", name) < 0) quoted = NULL;
    bool part =
        parts
            ? quoted && strstr(text, quoted)
            : beside &&
                  ((len >= sizeof tensors && !strcmp(name + len - (sizeof tensors - 1), tensors)) ||
                   (len >= sizeof index && !strcmp(name + len - (sizeof index - 1), index)));
    free(text), free(quoted);
    if (part)
        *code = fail("%s is in %s, which is %s; name another file to write", path, read, what);
    return !part;
}

// Whether the file is none that the other options read.
static bool output_no_input(const char *path, const Option *options, int n, int *code)
{
    bool apart = true;
    for (int i = 0; i < n && apart; i++) {
        const Option *o = &options[i];
        const char *read = o->kind == OPT_INPUT ? *(const char **)o->to : NULL;
        char what[80];
        snprintf(what, sizeof what, "read by %s", o->name);
        if (read && *read) apart = output_no_part(path, read, what, code);
        bool data =
            o->kind == OPT_LIST && (!strcmp(o->value, "NAME=FILE") || !strcmp(o->value, "FILE"));
        if (apart && data) apart = output_no_data(path, o->to, code);
    }
    return apart;
}

bool outputs_apart(const Option *options, int n, const StringList *words, bool models, int *code)
{
    bool apart = true;
    for (int i = 0; i < n; i++) {
        const Option *o = &options[i];
        const StringList *list = o->kind == OPT_OUTPUTS ? o->to : NULL;
        int count = list ? list->n : o->kind == OPT_OUTPUT && *(const char **)o->to;
        for (int k = 0; k < count && apart; k++) {
            const char *path = list ? path_of(list->at[k]) : *(const char **)o->to;
            for (int w = 0; w < words->n && apart; w++)
                apart = output_apart(path, words->at[w],
                                     models ? "the model" : "a file that is read", code);
            char *tune = NULL; // (it is read without an option)
            if (models && words->n && asprintf(&tune, "%s.tune", words->at[0]) < 0) tune = NULL;
            if (apart) apart = output_apart(path, tune, "the model's tuning file", code);
            free(tune);
            if (apart && !list) apart = output_possible(path, code);
            if (apart) apart = output_no_input(path, options, n, code);
        }
    }
    return apart;
}

bool arrays_possible(const StringList *words, bool bare, bool archives, int *code)
{
    *code = 0;
    for (int i = 0; i < words->n && !*code; i++) {
        const char *word = words->at[i], *eq = strchr(word, '='), *path = path_of(word);
        if (eq ? eq == word || !eq[1] : !bare || !*word)
            *code = fail("--output needs NAME=FILE, not '%s'", word);
        else if (output_possible(path, code) && !is_table(path))
            output_named(path, ".npy", "an output is written", code);
        bool archive = archives && is_npz(path);
        for (int k = 0; k < i && !*code; k++) {
            const char *other = path_of(words->at[k]);
            if (archive && same_target(path, other)) continue; // both are written to this archive
            output_apart(path, other, "another output's file", code);
        }
    }
    return !*code;
}
