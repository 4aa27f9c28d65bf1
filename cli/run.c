// netc run: one execution of an entry on arrays from files.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/folders.h"
#include "base/half.h"
#include "base/names.h"
#include "cli/cli.h"

typedef struct RunArgs {
    Common common;
    Weights weights;
    StringList inputs, outputs, set;
    StringList files; // the outputs as NAME=FILE, also those given as FILE; malloc'ed words
    const char *device, *entry;
    int64_t seed, times;
    bool json;
} RunArgs;

// The entry to run if none is given: the only model of the file. (If there are several, none.)
static const char *only_model(netc_program *p)
{
    for (int i = 0; i < netc_entry_count(p); i++) {
        const char *name = netc_entry_name(p, i);
        if (strcmp(name, "init") && strcmp(name, "train") && strcmp(name, "eval")) return name;
    }
    return fail("the file has no model"), NULL;
}

typedef struct Input {
    char *name;
    netc_tensor t;
    bool of_data; // it belongs to the data set, which reads it as the input requires
} Input;

// Whether the file must be read as for --data: folders, archives and tables have no type of their
// own, only data sets support parts, and the content of a pipe or a compressed file is not known
// beforehand.
static bool as_data(const char *path)
{
    static const char *const ends[] = {".csv", ".tsv", ".npz", ".tar"};
    struct stat st;
    bool there = !stat(path, &st);
    if (there && !S_ISREG(st.st_mode)) return true;
    if (!there && strchr(path, ':')) return true;
    size_t n = strlen(path);
    bool compressed = n > 3 && !strncasecmp(path + n - 3, ".gz", 3);
    if (compressed) n -= 3;
    if (compressed && !(n > 4 && !strncasecmp(path + n - 4, ".npy", 4))) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > 4 && !strncasecmp(path + n - 4, ends[i], 4)) return true;
    return false;
}

// Whether the tensor contains all bytes of the file, so that the file has no header with type and
// shape.
static bool bare(const char *path, const netc_tensor *t)
{
    struct stat st;
    return t->dtype == NETC_U8 && t->rank == 1 && !stat(path, &st) && S_ISREG(st.st_mode) &&
           st.st_size == t->dim[0];
}

// Reads NAME=FILE. The array's shape determines the dimensions of the input.
static netc_status read_input(netc_dataset *d, const char *word, Input *in, netc_error **err)
{
    const char *eq = strchr(word, '=');
    if (!eq || eq == word || !eq[1])
        return fail("--input needs NAME=FILE, not '%s'", word), NETC_INVALID;
    in->name = strndup(word, (size_t)(eq - word));
    if (!in->name) return NETC_OUT_OF_MEMORY;
    in->of_data = as_data(eq + 1);
    if (in->of_data) return add_data(d, &(const StringList){&word, 1}, err);
    netc_status status = netc_array_read(eq + 1, &in->t, err);
    if (status == NETC_OK && bare(eq + 1, &in->t)) {
        netc_free(in->t.data);
        in->t = (netc_tensor){0};
        in->of_data = true;
        return add_data(d, &(const StringList){&word, 1}, err);
    }
    if (status == NETC_OK && !tensor_elements(&in->t))
        return fail("%s has no elements", eq + 1), NETC_INVALID;
    if (status == NETC_OK && in->t.rank) status = netc_dataset_add_array(d, in->name, &in->t, err);
    return status;
}

// Converts f32 to the 16-bit float that the entry takes, as for --data. false: an error was
// reported.
static bool narrow(netc_tensor *t, netc_dtype to, const char *path)
{
    if (t->dtype != NETC_F32 || (to != NETC_F16 && to != NETC_BF16)) return true;
    int64_t bad =
        half_narrow(t->data, (int64_t)tensor_elements(t), to == NETC_F16 ? HALF_F16 : HALF_BF16);
    t->dtype = to;
    return bad < 0 ||
           !fail("%s: element %" PRId64 " is too large for %s", path, bad, netc_dtype_name(to));
}

// Whether the array fits the entry. The error includes the file, which the library does not know.
static bool fits(netc_program *p, const char *entry, Input *in, const char *word)
{
    netc_port port;
    for (int i = 0; i < netc_input_count(p, entry); i++) {
        if (netc_input_info(p, entry, i, &port, NULL) != NETC_OK || strcmp(port.name, in->name))
            continue;
        netc_tensor want = {.dtype = port.dtype, .rank = port.rank};
        memcpy(want.dim, port.dim, sizeof want.dim);
        if (!narrow(&in->t, port.dtype, strchr(word, '=') + 1)) return false;
        bool same = want.dtype == in->t.dtype && want.rank == in->t.rank &&
                    !memcmp(want.dim, in->t.dim, (size_t)want.rank * sizeof *want.dim);
        if (same) return true;
        char a[200], b[200];
        fail("input '%s' of '%s' is %s, and %s holds %s", in->name, entry,
             tensor_type(&want, a, sizeof a), strchr(word, '=') + 1,
             tensor_type(&in->t, b, sizeof b));
        return false;
    }
    return true;
}

static void print_tensor(const char *name, const netc_tensor *t)
{
    size_t n = tensor_elements(t);
    char type[200];
    printf("%s %s", name, tensor_type(t, type, sizeof type));
    for (size_t i = 0; i < n && i < 8; i++) putchar(' '), print_element(t, i, false);
    puts(n > 8 ? " ..." : "");
}

// Prints {"name":{"type":"f32","shape":[2,3],"values":[...]}}, with values in row-major order.
static void print_json(const char *name, const netc_tensor *t, bool first)
{
    size_t n = tensor_elements(t);
    printf("%s\"%s\":{\"type\":\"%s\",\"shape\":[", first ? "{" : ",", name,
           netc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? "," : "", (long long)t->dim[i]);
    printf("],\"values\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) putchar(',');
        print_element(t, i, true);
    }
    printf("]}");
}

static netc_status no_output(netc_program *p, const char *entry, const char *word)
{
    const char *names[64];
    size_t n = 0;
    netc_port port;
    for (int i = 0; i < netc_output_count(p, entry) && n < 64; i++)
        if (netc_output_info(p, entry, i, &port, NULL) == NETC_OK) names[n++] = port.name;
    char *name = strndup(word, strcspn(word, "="));
    fail("'%s' has no output '%s'%s", entry, name ? name : word,
         advise(name ? name : word, names, n).text);
    free(name);
    return NETC_INVALID;
}

// Writes outputs to the same name.npz to one archive: those of [words] with that path, in order,
// beginning with the first of them.
static netc_status write_archive(const StringList *words, const char *path, const netc_tensor *of,
                                 netc_error **err)
{
    const char **names = calloc((size_t)words->n + 1, sizeof *names);
    netc_tensor *t = calloc((size_t)words->n + 1, sizeof *t);
    netc_status status = names && t ? NETC_OK : NETC_OUT_OF_MEMORY;
    int n = 0;
    for (int k = 0; k < words->n && status == NETC_OK; k++) {
        const char *eq = strchr(words->at[k], '=');
        if (!same_target(eq + 1, path)) continue;
        t[n] = of[k];
        names[n] = strndup(words->at[k], (size_t)(eq - words->at[k]));
        if (!names[n++]) status = NETC_OUT_OF_MEMORY;
    }
    if (status == NETC_OK) status = netc_arrays_write(path, names, t, n, err);
    for (int i = 0; i < n; i++) free((char *)names[i]);
    free(names), free(t);
    return status;
}

// of: the tensor for each word of --output.
static netc_status write_files(const StringList *words, const netc_tensor *of, netc_error **err)
{
    netc_status status = NETC_OK;
    for (int k = 0; k < words->n && status == NETC_OK; k++) {
        const char *path = strchr(words->at[k], '=') + 1;
        bool again = false; // already written with the first output to this file
        for (int i = 0; i < k; i++)
            again = again || same_target(strchr(words->at[i], '=') + 1, path);
        if (!is_npz(path))
            status = netc_array_write(path, &of[k], err);
        else if (!again)
            status = write_archive(words, path, of, err);
    }
    return status;
}

// Gives names to outputs without: FILE.npz gets all outputs, another file the only one.
static netc_status name_files(RunArgs *a, netc_program *p, const char *entry, netc_error **err)
{
    int count = netc_output_count(p, entry);
    netc_status status = NETC_OK;
    for (int i = 0; i < a->outputs.n && status == NETC_OK; i++) {
        const char *word = a->outputs.at[i];
        bool named = strchr(word, '=') != NULL;
        if (named && !files_add(&a->files, NULL, word)) status = NETC_OUT_OF_MEMORY;
        if (!named && count != 1 && !is_npz(word)) {
            fail(count > 0
                     ? "'%s' has %d outputs: write -o NAME=%s for one of them, or name a file "
                       ".npz for all"
                     : "'%s' has %d outputs",
                 entry, count, word);
            status = NETC_INVALID;
        }
        netc_port port;
        for (int k = 0; !named && k < count && status == NETC_OK; k++) {
            status = netc_output_info(p, entry, k, &port, err);
            if (status == NETC_OK && !files_add(&a->files, port.name, word))
                status = NETC_OUT_OF_MEMORY;
        }
    }
    return status;
}

// Writes NAME=FILE outputs; if there are none, prints the beginning of every output.
static netc_status write_outputs(netc_session *s, netc_program *p, const RunArgs *a,
                                 const char *entry, netc_error **err)
{
    int count = netc_output_count(p, entry);
    const StringList *files = &a->files;
    netc_tensor *of = calloc((size_t)files->n + 1, sizeof *of);
    void **data = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *data);
    netc_status status = of && data ? NETC_OK : NETC_OUT_OF_MEMORY;
    for (int i = 0; status == NETC_OK && i < count; i++) {
        netc_port port;
        status = netc_output_info(p, entry, i, &port, err);
        if (status != NETC_OK) break;
        netc_tensor t = {.dtype = port.dtype, .rank = port.rank};
        size_t bytes = netc_dtype_size(port.dtype);
        for (int k = 0; k < port.rank; k++) bytes *= (size_t)(t.dim[k] = port.dim[k]);
        t.data = data[i] = malloc(bytes ? bytes : 1);
        status = t.data ? netc_read(s, entry, port.name, &t, err) : NETC_OUT_OF_MEMORY;
        for (int k = 0; status == NETC_OK && k < files->n; k++) {
            const char *word = files->at[k];
            size_t n = (size_t)(strchr(word, '=') - word);
            if (n != strlen(port.name) || strncmp(word, port.name, n)) continue;
            of[k] = t;
        }
        if (status == NETC_OK && a->json)
            print_json(port.name, &t, !i);
        else if (status == NETC_OK && !files->n)
            print_tensor(port.name, &t);
    }
    if (status == NETC_OK && a->json) puts(count > 0 ? "}" : "{}");
    for (int k = 0; status == NETC_OK && k < files->n; k++)
        if (!of[k].data) status = no_output(p, entry, files->at[k]);
    if (status == NETC_OK) status = write_files(files, of, err);
    for (int i = 0; data && i < count; i++) free(data[i]);
    free(of), free(data);
    return status;
}

// The names before '=' in --output words, freed by the caller; none if a word has no name, so that
// all outputs are computed. NULL: out of memory.
static char **output_names(const RunArgs *a, int *n)
{
    char **names = calloc((size_t)a->outputs.n + 1, sizeof *names);
    *n = 0;
    for (int i = 0; i < a->outputs.n; i++)
        if (!strchr(a->outputs.at[i], '=')) return names;
    for (int i = 0; names && i < a->outputs.n; i++) {
        names[*n] = strndup(a->outputs.at[i], strcspn(a->outputs.at[i], "="));
        *n += names[*n] != NULL;
    }
    return names;
}

// Opens the program and finds the entry to run. Only what the named outputs need is compiled and
// required.
static netc_status open_entry(RunArgs *a, netc_context *ctx, const netc_dataset *d,
                              netc_program **p, const char **entry, netc_error **err)
{
    NETC_INIT(netc_compile_options, o);
    compile_options(&a->common, &o);
    o.target = device_target(a->device);
    o.devices = device_count(a->device);
    o.data = d;
    o.whole_data = true;
    o.entries = &a->entry;
    o.nentries = 1;
    int n;
    char **names = output_names(a, &n);
    o.outputs_of = a->entry;
    o.outputs = (const char *const *)names;
    o.noutputs = n;
    netc_status status =
        names ? netc_compile_file(ctx, a->common.words.at[0], &o, p, err) : NETC_OUT_OF_MEMORY;
    for (int i = 0; names && i < n; i++) free(names[i]);
    free(names);
    if (status == NETC_OK) *entry = a->entry ? a->entry : only_model(*p);
    return status == NETC_OK && !*entry ? NETC_INVALID : status;
}

// Prints the file of the input that an error is about, which the library does not know.
static void tell_file(const RunArgs *a, const Input *in, const netc_error *e)
{
    char about[300];
    for (int i = 0; e && i < a->inputs.n; i++) {
        snprintf(about, sizeof about, "input '%s' of '", in[i].name ? in[i].name : "");
        if (!in[i].name || !strstr(netc_error_text(e), about)) continue;
        fprintf(stderr, "note: input '%s' is read from %s\n", in[i].name,
                strchr(a->inputs.at[i], '=') + 1);
    }
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    RunArgs *a = args;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_dataset *d = NULL;
    Input *in = calloc((size_t)a->inputs.n + 1, sizeof *in);
    netc_context_prepare(ctx, a->device);
    netc_status status = in ? netc_dataset_create(ctx, &d, err) : NETC_OUT_OF_MEMORY;
    for (int i = 0; status == NETC_OK && i < a->inputs.n; i++)
        status = read_input(d, a->inputs.at[i], &in[i], err);
    const char *entry = NULL;
    if (status == NETC_OK) {
        status = open_entry(a, ctx, d, &p, &entry, err);
        if (status != NETC_OK) tell_file(a, in, *err);
    }
    if (status == NETC_OK) status = name_files(a, p, entry, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) note_untrained(s, &a->weights, &a->common);
    for (int i = 0; status == NETC_OK && i < a->inputs.n; i++)
        if (in[i].of_data) status = netc_dataset_array(d, p, in[i].name, &in[i].t, err);
    for (int i = 0; status == NETC_OK && i < a->inputs.n; i++)
        if (!fits(p, entry, &in[i], a->inputs.at[i])) status = NETC_INVALID;
    for (int i = 0; status == NETC_OK && i < a->inputs.n; i++)
        status = netc_bind(s, entry, in[i].name, &in[i].t, err);
    if (status == NETC_OK) status = netc_run(s, entry, a->times > 0 ? a->times : 1, err);
    if (status == NETC_OK) status = netc_sync(s, err);
    if (status == NETC_OK) status = write_outputs(s, p, a, entry, err);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(d);
    for (int i = 0; in && i < a->inputs.n; i++) {
        if (!in[i].of_data) netc_free(in[i].t.data);
        free(in[i].name);
    }
    free(in);
    files_free(&a->files);
    return status;
}

int verb_run(int argc, char **argv)
{
    RunArgs a = {0};
    const Option options[] = {
        {"--input", "-i", OPT_LIST, &a.inputs, "NAME=FILE",
         "an input's values (.npy, .npz, .csv, IDX, a folder)"},
        {"--output", "-o", OPT_OUTPUTS, &a.outputs, "FILE",
         "write all outputs to FILE.npz or the only one to FILE.npy, or NAME=FILE (.npy, .npz, "
         ".csv)"},
        entry_option(&a.entry),
        WEIGHTS_OPTIONS(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "random seed of initial weights and random numbers (default 0)"),
        {"--times", NULL, OPT_COUNT, &a.times, "N", "run the model N times in a row"},
        set_option(&a.set),
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print the outputs as one JSON object"},
    };
    int code;
    if (!read_command("run", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    code = 0;
    for (int i = 0; i < a.outputs.n && !code; i++)
        if (!strchr(a.outputs.at[i], '=') && !strchr(a.outputs.at[i], '.'))
            code = fail("--output needs FILE.npz or NAME=FILE, not '%s'", a.outputs.at[i]);
    if (code || !arrays_possible(&a.outputs, true, true, &code)) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    return run_command(OPTIONS(options), &a.common, run, &a);
}
