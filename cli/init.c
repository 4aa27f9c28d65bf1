// netc init: writes the initial values of parameters and states as a checkpoint.
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

typedef struct InitArgs {
    Common common;
    Weights weights;
    StringList set;
    const char *device, *out, *type;
    int64_t seed, part_bytes;
    bool weights_only;
} InitArgs;

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    InitArgs *a = args;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_status status = open_program(&a->common, ctx, device_target(a->device),
                                      device_count(a->device), NULL, NULL, NULL, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    NETC_INIT(netc_save_options, o);
    o.weights_only = a->weights_only;
    o.type = a->type;
    o.part_bytes = a->part_bytes;
    if (status == NETC_OK) status = netc_state_save_as(s, a->out, &o, err);
    if (status == NETC_OK && !a->common.quiet) printf("wrote %s\n", a->out);
    netc_session_free(s);
    netc_program_release(p);
    return status;
}

int verb_init(int argc, char **argv)
{
    InitArgs a = {0};
    const Option options[] = {
        {"--output", "-o", OPT_OUTPUT, &a.out, "FILE",
         "the file to write (.safetensors; several files: .safetensors.index.json)"},
        {"--weights-only", NULL, OPT_FLAG, &a.weights_only, NULL,
         "write no optimizer moments and no step, as in published files"},
        {"--type", NULL, OPT_STRING, &a.type, "TYPE",
         "with --weights-only: floats as bf16, f16 or f32"},
        part_option(&a.part_bytes),
        seed_option(&a.seed, "random seed of the initial values (default 0)"),
        WEIGHTS_OPTIONS(&a.weights),
        set_option(&a.set),
        device_option(&a.device),
    };
    int code;
    if (!read_command("init", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (!a.out) code = fail("name the file to write: netc init MODEL -o FILE.safetensors");
    if (!a.out || !checkpoint_named(a.out, "tensors are written", &code)) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    return run_command(OPTIONS(options), &a.common, run, &a);
}
