// netc eval: the scalar outputs of a model over a data set.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

typedef struct EvalArgs {
    Common common;
    Weights weights;
    StringList data, set;
    const char *device;
    int64_t seed;
    bool json;
} EvalArgs;

static void print_metrics(const netc_metric *m, int n, bool json)
{
    for (int i = 0; i < n; i++) {
        if (json)
            printf("%s\"%s\":%.9g%s", i ? "," : "{", m[i].name, m[i].value,
                   i + 1 == n ? "}\n" : "");
        else
            printf("%s %.6g\n", m[i].name, m[i].value);
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
    netc_status status = netc_dataset_create(ctx, &d, err);
    if (status == NETC_OK) status = add_data(d, &a->data, err);
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, device_target(a->device), &entries, d, d, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) note_untrained(s, &a->weights, &a->common);
    if (status == NETC_OK) status = netc_evaluate(s, d, &m, &n, err);
    if (status == NETC_OK) print_metrics(m, n, a->json);
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
        {"--data", NULL, OPT_LIST, &a.data, "NAME=FILE",
         "an input's examples; FILE:PART, FILE,FILE"},
        weights_option(&a.weights),
        map_option(&a.weights),
        missing_option(&a.weights),
        ignore_option(&a.weights),
        transpose_option(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "of the initial weights (default 0)"),
        set_option(&a.set),
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "the results as one JSON object"},
    };
    return run_verb("eval", OPTIONS(options), &a.common, argc, argv, run, &a);
}
