// netc eval: the scalar outputs of a model over a data set.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

int verb_eval(int argc, char **argv)
{
    Common c = {0};
    StringList words = {0}, data = {0}, map = {0}, set = {0};
    const char *device = NULL, *weights = NULL;
    bool json = false, missing = false, done;
    int64_t seed = 0;
    enum { OWN = 8 };
    Option options[OWN + COMMON_OPTIONS] = {
        {"--data", NULL, OPT_LIST, &data, "NAME=FILE", "an input's examples; FILE:PART, FILE,FILE"},
        {"--weights", NULL, OPT_STRING, &weights, "FILE", "parameters (.safetensors)"},
        {"--map", NULL, OPT_LIST, &map, "A.*=B.*", "rename tensors of the file"},
        {"--allow-missing", NULL, OPT_FLAG, &missing, NULL,
         "keep the initial value of tensors the file lacks"},
        {"--device", NULL, OPT_STRING, &device, "D",
         "cuda:0, cpu; default: a GPU when there is one"},
        {"--seed", NULL, OPT_INT, &seed, "N", "of the initial weights (default 0)"},
        {"--set", NULL, OPT_LIST, &set, "NAME=VALUE", "change a setting"},
        {"--json", NULL, OPT_FLAG, &json, NULL, "the results as one JSON object"},
    };
    common_options(&c, options + OWN);
    const Verb *verb = find_verb("eval");
    if (!parse_options(verb, options, OWN + COMMON_OPTIONS, argc, argv, &words, &done)) return 1;
    if (done) return 0;

    netc_context *ctx = NULL;
    netc_dataset *d = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_metric *m = NULL;
    netc_error *err = NULL;
    int n = 0;
    netc_status status = open_context(&c, &ctx, &err);
    if (status == NETC_OK) status = netc_dataset_create(ctx, &d, &err);
    if (status == NETC_OK) status = add_data(d, &data, &err);
    if (status == NETC_OK) status = open_program(&c, ctx, words.at[0], NULL, d, &p, &err);
    NETC_INIT(netc_session_options, so);
    so.seed = seed;
    if (status == NETC_OK) status = netc_session_create(p, device, &so, &s, &err);
    if (status == NETC_OK && weights) {
        NETC_INIT(netc_load_options, lo);
        lo.map = map.at;
        lo.nmap = map.n;
        lo.allow_missing = missing;
        lo.weights_only = true;
        status = netc_state_load(s, weights, &lo, &err);
    }
    if (status == NETC_OK) status = apply_settings(s, &set, &err);
    if (status == NETC_OK) status = netc_evaluate(s, d, &m, &n, &err);
    for (int i = 0; status == NETC_OK && i < n; i++) {
        if (json)
            printf("%s\"%s\":%.9g%s", i ? "," : "{", m[i].name, m[i].value,
                   i + 1 == n ? "}\n" : "");
        else
            printf("%s %.6g\n", m[i].name, m[i].value);
    }
    netc_free(m);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(d);
    netc_context_free(ctx);
    list_free(&words), list_free(&data), list_free(&map), list_free(&set), list_free(&c.defines);
    if (status != NETC_OK) return err ? report_error(err) : 1;
    return 0;
}
