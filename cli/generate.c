// netc generate: text after a prompt, a byte a token.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct GenerateArgs {
    Common common;
    Weights weights;
    StringList set;
    const char *device, *entry, *prompt, *stop;
    int64_t seed, length, top_k;
    double temperature, top_p;
} GenerateArgs;

typedef struct Text {
    char *at;
    size_t n, shown; // bytes there are, and written to standard output
} Text;

typedef struct Writing {
    const char *prompt, *stop;
    Text *text;
    int64_t ntexts;
    bool begun;      // some token was drawn
    bool lost, wide; // out of memory; a token that is no byte
} Writing;

// How many bytes at the end may be the beginning of [stop].
static size_t held_back(const Text *t, const char *stop)
{
    size_t len = stop ? strlen(stop) : 0;
    for (size_t k = len ? len - 1 : 0; k; k--)
        if (k <= t->n && !memcmp(t->at + t->n - k, stop, k)) return k;
    return 0;
}

static void show(Text *t, size_t end)
{
    fwrite(t->at + t->shown, 1, end - t->shown, stdout);
    fflush(stdout);
    t->shown = end;
}

// One text is written while it comes, several when they are whole.
static bool take(void *user, int64_t row, int64_t token)
{
    Writing *w = user;
    Text *t = &w->text[row];
    size_t len = w->stop ? strlen(w->stop) : 0;
    w->wide = w->wide || token > 255;
    char *more = (t->n & (t->n + 1)) ? t->at : realloc(t->at, 2 * t->n + 2); // at 2^k - 1
    w->lost = w->lost || !more;
    if (w->lost || w->wide) return false;
    if (!w->begun && w->ntexts == 1) fputs(w->prompt, stdout);
    w->begun = true;
    t->at = more;
    t->at[t->n++] = (char)token;
    bool ends = len && t->n >= len && !memcmp(t->at + t->n - len, w->stop, len);
    if (ends) t->n -= len;
    if (w->ntexts == 1) show(t, t->n - (ends ? 0 : held_back(t, w->stop)));
    return !ends;
}

static void show_all(Writing *w)
{
    for (int64_t i = 0; i < w->ntexts; i++) {
        if (w->ntexts > 1)
            printf("%s--- %lld of %lld ---\n%s", i ? "\n" : "", (long long)i + 1,
                   (long long)w->ntexts, w->prompt);
        show(&w->text[i], w->text[i].n);
    }
    putchar('\n');
}

static netc_status write_texts(GenerateArgs *a, netc_session *s, int64_t ntexts, netc_error **err)
{
    Writing w = {.prompt = a->prompt, .stop = a->stop, .ntexts = ntexts};
    NETC_INIT(netc_generate_options, o);
    o.entry = a->entry;
    o.nprompt = (int64_t)strlen(a->prompt);
    int32_t *prompt = calloc((size_t)o.nprompt + 1, sizeof *prompt);
    w.text = calloc((size_t)ntexts, sizeof *w.text);
    netc_status status = prompt && w.text ? NETC_OK : NETC_OUT_OF_MEMORY;
    for (int64_t i = 0; i < o.nprompt && prompt; i++) prompt[i] = (unsigned char)a->prompt[i];
    o.prompt = prompt;
    o.length = a->length;
    o.temperature = a->temperature;
    o.top_k = a->top_k;
    o.top_p = a->top_p;
    o.seed = (uint64_t)a->seed;
    o.token = take;
    o.user = &w;
    if (status == NETC_OK) status = netc_generate(s, &o, err);
    if (w.lost) status = NETC_OUT_OF_MEMORY;
    if (w.wide) {
        fail("'%s' draws tokens above 255: netc generate writes a byte a token", a->entry);
        status = NETC_INVALID;
    }
    if (w.begun) show_all(&w); // what there is before an error, too
    for (int64_t i = 0; w.text && i < ntexts; i++) free(w.text[i].at);
    free(w.text);
    free(prompt);
    return status;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    GenerateArgs *a = args;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_port port = {.rank = 0};
    const StringList entries = {&a->entry, 1};
    netc_context_prepare(ctx, a->device);
    netc_status status =
        open_program(&a->common, ctx, device_target(a->device), &entries, NULL, NULL, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) note_untrained(s, &a->weights, &a->common);
    if (status == NETC_OK && netc_input_count(p, a->entry) > 0)
        status = netc_input_info(p, a->entry, 0, &port, err);
    if (status == NETC_OK) status = write_texts(a, s, port.rank ? port.dim[0] : 1, err);
    netc_session_free(s);
    netc_program_release(p);
    return status;
}

int verb_generate(int argc, char **argv)
{
    GenerateArgs a = {.entry = "next", .prompt = "\n", .length = 500, .temperature = 1};
    const Option options[] = {
        {"--prompt", NULL, OPT_STRING, &a.prompt, "TEXT",
         "what every text begins with (default: a new line)"},
        {"--length", NULL, OPT_COUNT, &a.length, "N", "bytes to write (default 500)"},
        {"--temperature", NULL, OPT_REAL, &a.temperature, "X",
         "of the draw: below 1 more of what is likely, 0 only that (default 1)"},
        {"--top-k", NULL, OPT_COUNT, &a.top_k, "N", "draw from the N most likely bytes"},
        {"--top-p", NULL, OPT_REAL, &a.top_p, "P",
         "draw from the fewest bytes whose probabilities add up to P"},
        {"--stop", NULL, OPT_STRING, &a.stop, "TEXT", "end before this text"},
        {"--entry", NULL, OPT_STRING, &a.entry, "NAME",
         "the model that makes logits of bytes (default next)"},
        weights_option(&a.weights),
        map_option(&a.weights),
        missing_option(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "of the draws (default 0)"),
        set_option(&a.set),
    };
    return run_verb("generate", OPTIONS(options), &a.common, argc, argv, run, &a);
}
