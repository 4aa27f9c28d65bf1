// netc eval: the scalar outputs of a model over a data set.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

int verb_eval(int argc, char **argv)
{
    Common c = {0};
    Weights weights = {0};
    StringList data = {0}, set = {0};
    const char *device = NULL;
    bool json = false;
    int64_t seed = 0;
    const Option options[] = {
        {"--data", NULL, OPT_LIST, &data, "NAME=FILE", "an input's examples; FILE:PART, FILE,FILE"},
        weights_option(&weights),
        map_option(&weights),
        missing_option(&weights),
        device_option(&device),
        seed_option(&seed, "of the initial weights (default 0)"),
        set_option(&set),
        {"--json", NULL, OPT_FLAG, &json, NULL, "the results as one JSON object"},
    };
    int code;
    if (!read_command("eval", OPTIONS(options), &c, &c.words, argc, argv, &code)) return code;

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
    if (status == NETC_OK) status = open_program(&c, ctx, c.words.at[0], NULL, d, &p, &err);
    NETC_INIT(netc_session_options, so);
    so.seed = seed;
    if (status == NETC_OK) status = netc_session_create(p, device, &so, &s, &err);
    if (status == NETC_OK) status = load_weights(s, &weights, &err);
    if (status == NETC_OK) note_untrained(s, &weights, &c);
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
    free_command(OPTIONS(options), &c);
    return exit_code(status, err);
}
