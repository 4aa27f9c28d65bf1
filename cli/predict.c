// netc predict: writes outputs for every example of a data set as .npy, .npz or .csv.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/folders.h"
#include "base/plain.h"
#include "cli/cli.h"

typedef struct PredictArgs {
    Common common;
    Weights weights;
    StringList data, outputs, set;
    StringList named; // the outputs as NAME=FILE, also those given as FILE
    const char *device, *entry;
    int64_t seed;
    ImageOptions images;
} PredictArgs;

static void show_progress(void *terminal, int64_t done, int64_t total)
{
    if (terminal) printf("\r\033[K%" PRId64 "/%" PRId64 " examples", done, total), fflush(stdout);
}

// For a file without a name: names the outputs with a value per example, all of them for FILE.npz,
// otherwise the only one.
static netc_status name_file(PredictArgs *a, netc_context *ctx, const netc_dataset *d,
                             const char *file, netc_error **err)
{
    netc_program *p = NULL;
    const StringList entries = {&(const char *){a->entry}, 1};
    netc_status status = open_program(&a->common, ctx, device_target(a->device),
                                      device_count(a->device), &entries, d, NULL, &p, err);
    const char *entry = status == NETC_OK ? a->entry ? a->entry : model_of(p) : NULL;
    char list[400] = "";
    int n = 0, count = entry ? netc_output_count(p, entry) : 0;
    int64_t batch = -1;
    netc_port port;
    for (int i = 0; entry && i < netc_input_count(p, entry); i++)
        if (netc_input_info(p, entry, i, &port, NULL) == NETC_OK && port.data) batch = port.dim[0];
    for (int i = 0; status == NETC_OK && i < count; i++) {
        status = netc_output_info(p, entry, i, &port, err);
        if (status != NETC_OK || !port.rank || port.dim[0] != batch) continue;
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s-o %s=FILE.npy", n++ ? ", " : "", port.name);
        if (!files_add(&a->named, port.name, file)) status = NETC_OUT_OF_MEMORY;
    }
    netc_program_release(p);
    if (status != NETC_OK || n == 1 || (n && is_npz(file))) return status;
    return fail(n ? "the model has more than one output for each example; choose one: %s; FILE.npz "
                    "takes all"
                  : "the model has no output for each example%s",
                list),
           NETC_INVALID;
}

// Whether one of the files is standard output, to which nothing else must be written then.
static bool writes_stdout(const char *const *files, int n)
{
    struct stat out, file;
    bool found = false;
    for (int i = 0; i < n && !fstat(STDOUT_FILENO, &out); i++)
        found = found ||
                (!stat(files[i], &file) && file.st_dev == out.st_dev && file.st_ino == out.st_ino);
    return found;
}

static netc_status predict(const PredictArgs *a, netc_context *ctx, netc_dataset *d, char **names,
                           const char **files, netc_error **err)
{
    NETC_INIT(netc_compile_options, c);
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_status status = NETC_OK;
    int n = a->named.n;
    for (int i = 0; i < n && status == NETC_OK; i++) {
        const char *word = a->named.at[i];
        files[i] = strchr(word, '=') + 1;
        names[i] = strndup(word, strcspn(word, "="));
        if (!names[i]) status = NETC_OUT_OF_MEMORY;
    }
    if (status != NETC_OK) return status;
    compile_options(&a->common, &c);
    c.target = device_target(a->device);
    c.devices = device_count(a->device);
    c.data = d;
    c.entries = &a->entry;
    c.nentries = 1;
    c.outputs_of = a->entry;
    c.outputs = (const char *const *)names;
    c.noutputs = n;
    status = netc_compile_file(ctx, a->common.words.at[0], &c, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) {
        bool line = !a->common.quiet && isatty(STDOUT_FILENO) && !writes_stdout(files, n);
        int64_t examples;
        NETC_INIT(netc_predict_options, o);
        o.entry = a->entry;
        o.data = d;
        o.outputs = (const char *const *)names;
        o.files = files;
        o.noutputs = n;
        o.progress = show_progress;
        o.user = line ? &line : NULL;
        note_untrained(s, &a->weights, &a->common);
        catch_interrupt();
        struct timespec t, u;
        clock_gettime(CLOCK_MONOTONIC, &t);
        status = netc_predict(s, &o, &examples, err);
        clock_gettime(CLOCK_MONOTONIC, &u);
        double seconds = (double)(u.tv_sec - t.tv_sec) + 1e-9 * (double)(u.tv_nsec - t.tv_nsec);
        if (line) fputs("\r\033[K", stdout);
        int same = 1; // outputs that share the first file, an archive
        while (same < n && same_target(files[same], files[0])) same++;
        if (status == NETC_OK && !a->common.quiet && !writes_stdout(files, n))
            printf("%" PRId64 " example%s in %.2f s, written to %s%s\n", examples, plural(examples),
                   seconds, files[0], same < n ? ", …" : "");
    }
    netc_session_free(s);
    netc_program_release(p);
    return status;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    PredictArgs *a = args;
    netc_dataset *d = NULL;
    netc_context_prepare(ctx, a->device);
    netc_status status = open_data(ctx, &a->data, &a->images, &d, err);
    if (status == NETC_OK && !d) status = netc_dataset_create(ctx, &d, err);
    for (int i = 0; i < a->outputs.n && status == NETC_OK; i++) {
        const char *word = a->outputs.at[i];
        if (!strchr(word, '='))
            status = name_file(a, ctx, d, word, err);
        else if (!files_add(&a->named, NULL, word))
            status = NETC_OUT_OF_MEMORY;
    }
    char **names = calloc((size_t)a->named.n + 1, sizeof *names);
    const char **files = calloc((size_t)a->named.n + 1, sizeof *files);
    if (status == NETC_OK && (!names || !files)) status = NETC_OUT_OF_MEMORY;
    if (status == NETC_OK) status = predict(a, ctx, d, names, files, err);
    netc_dataset_free(d);
    for (int i = 0; names && i < a->named.n; i++) free(names[i]);
    free(names), free(files);
    files_free(&a->named);
    return status;
}

int verb_predict(int argc, char **argv)
{
    PredictArgs a = {0};
    const Option options[] = {
        examples_option(&a.data),
        {"--output", "-o", OPT_OUTPUTS, &a.outputs, "FILE",
         "write all outputs to FILE.npz or the only one to FILE.npy, or NAME=FILE (.npy, .npz, "
         ".csv)"},
        entry_option(&a.entry),
        IMAGE_OPTIONS(&a.images),
        WEIGHTS_OPTIONS(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "random seed of initial weights and random numbers (default 0)"),
        set_option(&a.set),
    };
    int code;
    if (!read_command("predict", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (!a.outputs.n) code = fail("name the file for the predictions: -o FILE.npy");
    if (!code) arrays_possible(&a.outputs, true, true, &code);
    if (!code) return run_command(OPTIONS(options), &a.common, run, &a);
    free_command(OPTIONS(options), &a.common);
    return code;
}
