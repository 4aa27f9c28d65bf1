// netc eval: the scalar outputs of a model over a data set.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct EvalArgs {
    Common common;
    Weights weights;
    StringList data, outputs, set;
    const char *device;
    int64_t seed;
    ImageOptions images;
    bool json;
} EvalArgs;

enum { MOST_ELEMENTS = 1024 }; // limit of the elements of an output that is printed

// Prints [[1,2],[3,4]].
static void print_json(const netc_tensor *t, int axis, size_t *i)
{
    putchar('[');
    for (int64_t k = 0; k < t->dim[axis]; k++) {
        if (k) putchar(',');
        if (axis + 1 < t->rank)
            print_json(t, axis + 1, i);
        else
            print_element(t, (*i)++, true);
    }
    putchar(']');
}

// Prints a line for each row of the last axis.
static void print_rows(const char *name, const netc_tensor *t)
{
    char type[200];
    size_t n = tensor_elements(t), row = (size_t)t->dim[t->rank - 1];
    printf("%s %s\n", name, tensor_type(t, type, sizeof type));
    for (size_t i = 0; i < n && n <= MOST_ELEMENTS; i++) {
        fputs(i % row ? " " : "  ", stdout);
        print_element(t, i, false);
        if (i % row == row - 1) putchar('\n');
    }
}

// Prints the outputs over all examples that are not scalars, or writes them to the requested file.
// n: number of outputs printed before.
static netc_status give_tensors(netc_session *s, netc_program *p, const EvalArgs *a, int n,
                                netc_error **err)
{
    netc_status status = NETC_OK;
    netc_port port;
    for (int i = 0; status == NETC_OK && i < netc_output_count(p, "eval"); i++) {
        netc_tensor t = {0};
        status = netc_output_info(p, "eval", i, &port, err);
        if (status != NETC_OK || !port.rank || netc_evaluated(s, port.name, &t, NULL) != NETC_OK)
            continue;
        size_t at = 0;
        if (a->json) printf("%s\"%s\":", n++ ? "," : "{", port.name);
        if (a->json)
            print_json(&t, 0, &at);
        else
            print_rows(port.name, &t);
        netc_free(t.data);
    }
    if (a->json) puts(n ? "}" : "{}");
    for (int i = 0; status == NETC_OK && i < a->outputs.n; i++) {
        const char *word = a->outputs.at[i], *eq = strchr(word, '=');
        char *name = strndup(word, (size_t)(eq - word));
        netc_tensor t = {0};
        status = name ? netc_evaluated(s, name, &t, err) : NETC_OUT_OF_MEMORY;
        if (status == NETC_OK) status = netc_array_write(eq + 1, &t, err);
        netc_free(t.data);
        free(name);
    }
    return status;
}

static void print_metrics(const netc_metric *m, int n, bool json)
{
    for (int i = 0; i < n; i++) {
        if (!json)
            printf("%s %.6g\n", m[i].name, m[i].value);
        else if (m[i].value - m[i].value == 0)
            printf("%s\"%s\":%.9g", i ? "," : "{", m[i].name, m[i].value);
        else
            printf("%s\"%s\":null", i ? "," : "{", m[i].name);
    }
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    EvalArgs *a = args;
    netc_dataset *d = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_metric *m = NULL;
    int n = 0;
    const StringList entries = {(const char *[]){"eval"}, 1};
    netc_context_prepare(ctx, a->device);
    netc_status status = open_data(ctx, &a->data, &a->images, &d, err);
    if (status == NETC_OK && !d) status = netc_dataset_create(ctx, &d, err);
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, device_target(a->device), device_count(a->device),
                              &entries, d, d, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) note_untrained(s, &a->weights, &a->common);
    if (status == NETC_OK) status = netc_evaluate(s, d, &m, &n, err);
    if (status == NETC_OK) print_metrics(m, n, a->json);
    if (status == NETC_OK) status = give_tensors(s, p, a, n, err);
    netc_free(m);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(d);
    return status;
}

int verb_eval(int argc, char **argv)
{
    EvalArgs a = {0};
    const Option options[] = {
        examples_option(&a.data),
        IMAGE_OPTIONS(&a.images),
        WEIGHTS_OPTIONS(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "random seed of the initial weights (default 0)"),
        set_option(&a.set),
        {"--output", "-o", OPT_OUTPUTS, &a.outputs, "NAME=FILE",
         "write an output over all examples (a confusion matrix) as .npy"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print the results as one JSON object"},
    };
    int code;
    if (!read_command("eval", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (!arrays_possible(&a.outputs, false, false, &code)) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    return run_command(OPTIONS(options), &a.common, run, &a);
}
