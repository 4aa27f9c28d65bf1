// netc inspect: shows the result of compiling a model, without running it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct InspectArgs {
    Common common;
    const char *target, *other, *eject, *entry;
    bool why, json, in_order, cards, knobs, params, model;
} InspectArgs;

bool take_target(const char *asked, netc_compile_options *c, const char **target)
{
    char rest;
    *target = asked;
    // No other target is compiled. ("cuda" is compiled later, when the machine's GPU is known.)
    if (asked && !strcmp(asked, "cpu")) c->target = asked;
    if (!asked || sscanf(asked, "sm_%d%c", &c->arch, &rest) != 1) return true;
    if (c->arch < 80) return fail("--target %s: netc needs sm_80 or later", asked), false;
    *target = c->target = "cuda";
    c->rebuild = true;
    return true;
}

// The second word is a kernel if it has no dot in its name; otherwise it is a file. NULL: not a
// kernel.
static const char *kernel_asked(InspectArgs *a)
{
    const char *second = a->common.words.n == 2 ? a->common.words.at[1] : NULL;
    if (a->other || !second || (!strchr(second, '.') && access(second, F_OK))) return second;
    a->other = second;
    return NULL;
}

static const char *contradiction(const InspectArgs *a, const char *kernel)
{
    if (a->other && kernel) return "give a kernel or another build, not both";
    if (a->other && (a->why || a->knobs))
        return "--why and --knobs show one build and cannot compare two";
    if (a->model && a->other) return "--model shows one build and cannot compare two";
    if (a->params && (a->other || kernel)) return "--params shows a whole model, not a kernel";
    bool cards = a->cards && !a->json && !a->other; // otherwise they are part of the other output
    if (a->knobs + a->why + a->params + a->model + cards + !!a->eject > 1)
        return "give only one of --model, --params, --why, --knobs, --cards and --eject";
    if (a->knobs && a->json) return "--knobs prints the text of a tuning file and has no JSON form";
    return NULL;
}

static netc_status eject(netc_program *p, const InspectArgs *a, netc_error **err)
{
    char *path = NULL;
    netc_status status = netc_program_eject(p, a->eject, &path, err);
    if (status == NETC_OK)
        printf("wrote %s: compiling %s uses it from now on\n", path, a->common.words.at[0]);
    netc_free(path);
    return status;
}

static netc_status inspect(netc_program *p, const InspectArgs *a, const netc_inspect_options *o,
                           netc_error **err)
{
    char *text = NULL;
    netc_status status = a->knobs ? netc_program_knobs(p, o->target, o->kernel, &text, err)
                                  : netc_inspect(p, o, &text, err);
    if (status == NETC_OK) fputs(text, stdout);
    netc_free(text);
    return status;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    InspectArgs *a = args;
    netc_program *p = NULL, *other = NULL;
    NETC_INIT(netc_compile_options, c);
    NETC_INIT(netc_inspect_options, o);
    compile_options(&a->common, &c);
    if (!take_target(a->target, &c, &o.target)) return NETC_INVALID;
    o.kernel = kernel_asked(a);
    o.why = a->why, o.params = a->params, o.model = a->model, o.json = a->json,
    o.in_order = a->in_order, o.cards = a->cards, o.entry = a->entry;
    c.entries = &a->entry, c.nentries = a->entry != NULL;
    const char *wrong = contradiction(a, o.kernel);
    if (wrong) return fail("%s", wrong), NETC_INVALID;
    netc_status status = netc_compile_file(ctx, a->common.words.at[0], &c, &p, err);
    if (status == NETC_OK && a->other) status = netc_compile_file(ctx, a->other, &c, &other, err);
    o.other = other;
    if (status == NETC_OK) status = a->eject ? eject(p, a, err) : inspect(p, a, &o, err);
    netc_program_release(p);
    netc_program_release(other);
    return status;
}

int verb_inspect(int argc, char **argv)
{
    InspectArgs a = {0};
    const Option options[] = {
        {"--model", NULL, OPT_FLAG, &a.model, NULL,
         "layers of the trained or the named model: shapes, parameters, operations, activations"},
        {"--params", NULL, OPT_FLAG, &a.params, NULL,
         "parameters and states: types, initial values ('netc init' writes them), lines"},
        {"--why", NULL, OPT_FLAG, &a.why, NULL,
         "which values are stored between kernels, and why (causes: docs/fusion.md)"},
        {"--target", NULL, OPT_STRING, &a.target, "T",
         "cpu, cuda, sm_80, sm_90, sm_100; default: what would run on this machine"},
        {"--entry", "-e", OPT_STRING, &a.entry, "NAME",
         "show and compile only this entry (default: all); with --model, its layers"},
        {"--order", NULL, OPT_FLAG, &a.in_order, NULL,
         "list steps in the order in which they run, not by cost"},
        {"--cards", NULL, OPT_FLAG, &a.cards, NULL,
         "registers, local and shared memory, remarks of each kernel (needs NVRTC, no GPU)"},
        {"--knobs", NULL, OPT_FLAG, &a.knobs, NULL,
         "schedules as lines of a tuning file (@ DEVICE: cpu, or the GPU's model); for a named "
         "kernel, "
         "its legal values"},
        {"--eject", NULL, OPT_STRING, &a.eject, "KERNEL",
         "write a CUDA kernel to MODEL.kernels/KERNEL.cu, to be edited there"},
        {"--compare", NULL, OPT_STRING, &a.other, "OTHER",
         "compare with another build, which may also be the second argument"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print JSON"},
    };
    return run_verb("inspect", OPTIONS(options), &a.common, argc, argv, run, &a);
}
