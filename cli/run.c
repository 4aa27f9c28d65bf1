// netc run: one execution of an entry on arrays from files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct RunArgs {
    Common common;
    StringList words, inputs, outputs, map, set;
    const char *device, *weights, *entry;
    int64_t seed, times;
    bool allow_missing;
} RunArgs;

// The entry to run when none is named: the only model of the file.
static const char *only_model(netc_program *p)
{
    const char *found = NULL;
    for (int i = 0; i < netc_entry_count(p); i++) {
        const char *name = netc_entry_name(p, i);
        if (!strcmp(name, "init") || !strcmp(name, "train") || !strcmp(name, "eval")) continue;
        if (found) return fail("the file has several models; pick one with --entry"), NULL;
        found = name;
    }
    if (!found) fail("the file has no model");
    return found;
}

static netc_status bind_file(netc_session *s, const char *entry, const char *word, netc_tensor *t, netc_error **err)
{
    const char *eq = strchr(word, '=');
    if (!eq || eq == word) return fail("--input wants NAME=FILE, not '%s'", word), NETC_INVALID;
    char *name = strndup(word, (size_t)(eq - word));
    if (!name) return NETC_OUT_OF_MEMORY;
    netc_status status = netc_array_read(eq + 1, t, err);
    if (status == NETC_OK) status = netc_bind(s, entry, name, t, err);
    free(name);
    return status;
}

static void print_tensor(const char *name, const netc_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    printf("%s %s[", name, netc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? ", " : "", (long long)t->dim[i]);
    printf("]");
    for (size_t i = 0; i < n && i < 8; i++) {
        switch (t->dtype) {
        case NETC_F32: printf(" %.6g", ((float *)t->data)[i]); break;
        case NETC_F64: printf(" %.9g", ((double *)t->data)[i]); break;
        case NETC_I32: printf(" %d", ((int32_t *)t->data)[i]); break;
        case NETC_I64: printf(" %lld", (long long)((int64_t *)t->data)[i]); break;
        case NETC_U32: printf(" %u", ((uint32_t *)t->data)[i]); break;
        case NETC_U8:
        case NETC_BOOL: printf(" %u", ((uint8_t *)t->data)[i]); break;
        default: printf(" 0x%04x", ((uint16_t *)t->data)[i]);
        }
    }
    puts(n > 8 ? " ..." : "");
}

// Writes NAME=FILE outputs; with none named, prints the head of every one.
static netc_status write_outputs(netc_session *s, netc_program *p, const RunArgs *a, const char *entry,
                                 netc_error **err)
{
    for (int i = 0; i < a->outputs.n; i++) {
        const char *eq = strchr(a->outputs.at[i], '=');
        if (!eq) return fail("--output wants NAME=FILE, not '%s'", a->outputs.at[i]), NETC_INVALID;
    }
    bool *written = calloc((size_t)a->outputs.n + 1, 1);
    netc_status status = written ? NETC_OK : NETC_OUT_OF_MEMORY;
    for (int i = 0; status == NETC_OK && i < netc_output_count(p, entry); i++) {
        netc_port port;
        status = netc_output_info(p, entry, i, &port, err);
        if (status != NETC_OK) break;
        netc_tensor t = {.dtype = port.dtype, .rank = port.rank};
        size_t bytes = netc_dtype_size(port.dtype);
        for (int k = 0; k < port.rank; k++) bytes *= (size_t)(t.dim[k] = port.dim[k]);
        t.data = malloc(bytes ? bytes : 1);
        status = t.data ? netc_read(s, entry, port.name, &t, err) : NETC_OUT_OF_MEMORY;
        for (int k = 0; status == NETC_OK && k < a->outputs.n; k++) {
            const char *word = a->outputs.at[k];
            size_t n = (size_t)(strchr(word, '=') - word);
            if (n != strlen(port.name) || strncmp(word, port.name, n)) continue;
            status = netc_array_write(word + n + 1, &t, err);
            written[k] = true;
        }
        if (status == NETC_OK && !a->outputs.n) print_tensor(port.name, &t);
        free(t.data);
    }
    for (int k = 0; status == NETC_OK && k < a->outputs.n; k++)
        if (!written[k]) {
            fail("'%s' has no output for --output %s", entry, a->outputs.at[k]);
            status = NETC_INVALID;
        }
    free(written);
    return status;
}

static netc_status run(RunArgs *a, netc_context *ctx, netc_error **err)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_tensor *t = calloc((size_t)a->inputs.n + 1, sizeof *t);
    netc_status status = t ? open_program(&a->common, ctx, a->words.at[0], NULL, NULL, &p, err) : NETC_OUT_OF_MEMORY;
    const char *entry = status == NETC_OK ? (a->entry ? a->entry : only_model(p)) : NULL;
    if (status == NETC_OK && !entry) status = NETC_INVALID;
    NETC_INIT(netc_session_options, so);
    so.seed = a->seed;
    if (status == NETC_OK) status = netc_session_create(p, a->device, &so, &s, err);
    if (status == NETC_OK && a->weights) {
        NETC_INIT(netc_load_options, lo);
        lo.map = a->map.at;
        lo.nmap = a->map.n;
        lo.allow_missing = a->allow_missing;
        lo.weights_only = true;
        status = netc_state_load(s, a->weights, &lo, err);
    }
    if (status == NETC_OK) status = apply_settings(s, &a->set, err);
    for (int i = 0; status == NETC_OK && i < a->inputs.n; i++)
        status = bind_file(s, entry, a->inputs.at[i], &t[i], err);
    if (status == NETC_OK) status = netc_run(s, entry, a->times > 0 ? a->times : 1, err);
    if (status == NETC_OK) status = netc_sync(s, err);
    if (status == NETC_OK) status = write_outputs(s, p, a, entry, err);
    netc_session_free(s);
    netc_program_release(p);
    for (int i = 0; t && i < a->inputs.n; i++) netc_free(t[i].data);
    free(t);
    return status;
}

int verb_run(int argc, char **argv)
{
    RunArgs a = {0};
    bool done;
    enum { OWN = 10 };
    Option options[OWN + COMMON_OPTIONS] = {
        {"--input", "-i", OPT_LIST, &a.inputs, "NAME=FILE", "an input's values (.npy, IDX)"},
        {"--output", "-o", OPT_LIST, &a.outputs, "NAME=FILE", "write an output as .npy; none: print their heads"},
        {"--entry", NULL, OPT_STRING, &a.entry, "NAME", "which model of the file"},
        {"--weights", NULL, OPT_STRING, &a.weights, "FILE", "parameters (.safetensors)"},
        {"--map", NULL, OPT_LIST, &a.map, "A.*=B.*", "rename tensors of the file"},
        {"--allow-missing", NULL, OPT_FLAG, &a.allow_missing, NULL, "keep initial values of missing tensors"},
        {"--device", NULL, OPT_STRING, &a.device, "D", "cuda:0, cpu; default: a GPU when there is one"},
        {"--seed", NULL, OPT_INT, &a.seed, "N", "of initial weights and random numbers (default 0)"},
        {"--times", NULL, OPT_INT, &a.times, "N", "run it N times in a row"},
        {"--set", NULL, OPT_LIST, &a.set, "NAME=VALUE", "change a setting"},
    };
    common_options(&a.common, options + OWN);
    const Verb *verb = find_verb("run");
    if (!parse_options(verb, options, OWN + COMMON_OPTIONS, argc, argv, &a.words, &done)) return 1;
    if (done) return 0;
    netc_context *ctx = NULL;
    netc_error *err = NULL;
    netc_status status = open_context(&a.common, &ctx, &err);
    if (status == NETC_OK) status = run(&a, ctx, &err);
    netc_context_free(ctx);
    list_free(&a.words), list_free(&a.inputs), list_free(&a.outputs), list_free(&a.map), list_free(&a.set);
    list_free(&a.common.defines);
    if (status != NETC_OK) return err ? report_error(err) : 1;
    return 0;
}
