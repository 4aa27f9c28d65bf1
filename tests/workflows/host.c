// A host of one of the networks beside this file: what the command line does with it, by netc.h.
//
//     host MODEL.net MODEL.bin DEVICE ENTRY WEIGHTS PART SAVE INPUT=FILE ...
//
// MODEL.net is trained on from the checkpoint PART to its step 20 and saved. Then it is evaluated
// and ENTRY is run on the first batch: with WEIGHTS loaded, from MODEL.bin, with the trained state,
// and with that carried over to a session of other initial values. All must agree to the bit; the
// means are printed.
#include <netc.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 4, SESSIONS = 4 };
static const char *const way[SESSIONS] = {"loaded", "model.bin", "trained", "adopted"};

typedef struct Input {
    char name[32];
    netc_tensor t;
} Input;

static Input input[MOST_INPUTS];
static int ninputs;

static void check(netc_status status, netc_error *err)
{
    if (status == NETC_OK) return;
    fprintf(stderr, "%s\n", netc_error_text(err));
    exit(1);
}

static void read_input(netc_dataset *d, const char *word)
{
    netc_error *err = NULL;
    const char *eq = strchr(word, '=');
    Input *in = &input[ninputs++];
    snprintf(in->name, sizeof in->name, "%.*s", (int)(eq - word), word);
    check(netc_array_read(eq + 1, &in->t, &err), err);
    check(netc_dataset_add_array(d, in->name, &in->t, &err), err);
}

// "name":value,... as netc eval --json has it.
static void evaluate(netc_session *s, netc_dataset *d, char *out, size_t n)
{
    netc_error *err = NULL;
    netc_metric *m;
    int count;
    check(netc_evaluate(s, d, &m, &count, &err), err);
    for (int i = 0, at = 0; i < count; i++)
        at += snprintf(out + at, n - (size_t)at, "%s\"%s\":%.9g", i ? "," : "", m[i].name,
                       m[i].value);
    netc_free(m);
}

// One execution of [entry] on the first rows of the inputs; its output p. Free it.
static void *run(netc_program *p, netc_session *s, const char *entry, size_t *bytes)
{
    netc_error *err = NULL;
    netc_port port;
    for (int i = 0; i < netc_input_count(p, entry); i++) {
        check(netc_input_info(p, entry, i, &port, &err), err);
        for (int k = 0; k < ninputs; k++) {
            if (strcmp(input[k].name, port.name)) continue;
            netc_tensor t = input[k].t;
            t.dim[0] = port.dim[0];
            check(netc_bind(s, entry, port.name, &t, &err), err);
        }
    }
    check(netc_run(s, entry, 1, &err), err);
    for (int i = 0; i < netc_output_count(p, entry); i++) {
        check(netc_output_info(p, entry, i, &port, &err), err);
        if (strcmp(port.name, "p")) continue;
        netc_tensor t = {.dtype = port.dtype, .rank = port.rank};
        *bytes = netc_dtype_size(port.dtype);
        for (int k = 0; k < port.rank; k++) *bytes *= (size_t)(t.dim[k] = port.dim[k]);
        t.data = malloc(*bytes);
        check(netc_read(s, entry, "p", &t, &err), err);
        return t.data;
    }
    fprintf(stderr, "'%s' has no output p\n", entry);
    exit(1);
}

static netc_session *open_session(netc_program *p, const char *device, int64_t seed)
{
    netc_error *err = NULL;
    NETC_INIT(netc_session_options, o);
    netc_session *s;
    o.seed = seed;
    check(netc_session_create(p, device, &o, &s, &err), err);
    return s;
}

int main(int argc, char **argv)
{
    if (argc < 9) return fputs("see the head of host.c\n", stderr), 2;
    const char *device = argv[3], *entry = argv[4];
    netc_error *err = NULL;
    netc_context *ctx;
    netc_dataset *data;
    netc_program *source, *bin;
    check(netc_context_create(NULL, &ctx, &err), err);
    check(netc_dataset_create(ctx, &data, &err), err);
    for (int i = 8; i < argc && ninputs < MOST_INPUTS; i++) read_input(data, argv[i]);
    check(netc_compile_file(ctx, argv[1], NULL, &source, &err), err);
    check(netc_compile_file(ctx, argv[2], NULL, &bin, &err), err);

    netc_session *s[SESSIONS];
    for (int i = 0; i < SESSIONS; i++)
        s[i] = open_session(i == 1 ? bin : source, device, i == 3 ? 7 : 0);
    NETC_INIT(netc_load_options, load);
    load.weights_only = true;
    check(netc_state_load(s[0], argv[5], &load, &err), err);
    NETC_INIT(netc_train_options, train);
    train.data = data;
    train.steps = 20;
    train.resume = argv[6];
    train.save = argv[7];
    check(netc_train(s[2], &train, &err), err);
    int carried;
    check(netc_adopt(s[3], s[2], &carried, &err), err);

    char means[SESSIONS][512], again[512];
    void *p[SESSIONS];
    size_t bytes;
    int wrong = 0;
    for (int i = 0; i < SESSIONS; i++) {
        evaluate(s[i], data, means[i], sizeof means[i]);
        evaluate(s[i], data, again, sizeof again);
        p[i] = run(i == 1 ? bin : source, s[i], entry, &bytes);
        bool same = !strcmp(means[0], means[i]) && !strcmp(means[i], again);
        if (same && !memcmp(p[0], p[i], bytes)) continue;
        wrong++;
        fprintf(stderr, "%s: %s, again %s, %s\n", way[i], means[i], again,
                memcmp(p[0], p[i], bytes) ? "another p" : "the same p");
    }
    puts(means[0]);
    for (int i = 0; i < SESSIONS; i++) {
        free(p[i]);
        netc_session_free(s[i]);
    }
    netc_program_release(source);
    netc_program_release(bin);
    netc_dataset_free(data);
    for (int i = 0; i < ninputs; i++) netc_free(input[i].t.data);
    netc_context_free(ctx);
    return wrong > 0;
}
