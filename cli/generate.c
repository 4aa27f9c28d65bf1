// netc generate: continues a prompt.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct GenerateArgs {
    Common common;
    Weights weights;
    StringList set, stop, prompt;
    const char *device, *entry, *prompts, *tokenizer, *pattern, *prefill;
    int64_t seed, length, top_k;
    double temperature, top_p, penalty;
} GenerateArgs;

typedef struct Text {
    char *at;
    size_t n, cap, shown; // bytes in use, allocated, and written to standard output
} Text;

typedef struct Writing {
    const StringList *prompt; // one for all texts, or one for each
    const StringList *stop;
    const netc_tokenizer *tokenizer;
    Text *text;
    int64_t ntexts;
    bool begun, lost; // begun: a token was drawn; lost: out of memory
    int64_t strange;  // a token without text; -1: none
} Writing;

static const char *prompt_of(const Writing *w, int64_t text)
{
    return w->prompt->at[w->prompt->n > 1 ? text : 0];
}

// The number of bytes at the end of the text that may be the beginning of a stop text or an
// incomplete character.
static size_t held_back(const Text *t, const StringList *stop)
{
    size_t most = 0;
    for (int i = 0; i < stop->n; i++) {
        size_t len = strlen(stop->at[i]);
        for (size_t k = len ? len - 1 : 0; k > most; k--)
            if (k <= t->n && !memcmp(t->at + t->n - k, stop->at[i], k)) most = k;
    }
    for (size_t k = 1; k <= 3 && k <= t->n; k++) {
        unsigned char c = (unsigned char)t->at[t->n - k];
        if ((c & 0xc0) == 0x80) continue; // not the first byte of a character
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (whole > k && k > most) most = k;
        break;
    }
    return most;
}

// Whether a stop text ends within the last [n] bytes; the text is cut at its beginning.
static bool stops(Text *t, size_t n, const StringList *stop)
{
    const char *first = NULL;
    for (int i = 0; i < stop->n; i++) {
        size_t len = strlen(stop->at[i]), back = n + len - 1 < t->n ? n + len - 1 : t->n;
        const char *at = len ? memmem(t->at + t->n - back, back, stop->at[i], len) : NULL;
        if (at && (!first || at < first)) first = at;
    }
    if (first) t->n = (size_t)(first - t->at);
    return first;
}

static void show(Text *t, size_t end)
{
    fwrite(t->at + t->shown, 1, end - t->shown, stdout);
    fflush(stdout);
    t->shown = end;
}

static bool append(Text *t, const char *bytes, size_t n)
{
    if (t->cap - t->n < n) {
        size_t cap = 2 * (t->n + n) + 64;
        char *more = realloc(t->at, cap);
        if (!more) return false;
        t->at = more;
        t->cap = cap;
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    return true;
}

// Appends a token. A single text is printed while it is drawn, several when they are complete.
static bool take(void *user, int64_t row, int64_t token)
{
    Writing *w = user;
    Text *t = &w->text[row];
    const char *bytes;
    size_t n;
    if (w->strange < 0 && !netc_tokenizer_text(w->tokenizer, token, &bytes, &n)) w->strange = token;
    if (w->lost || w->strange >= 0 || (w->lost = !append(t, bytes, n))) return false;
    if (!w->begun && w->ntexts == 1) fputs(prompt_of(w, 0), stdout);
    w->begun = true;
    bool ends = stops(t, n, w->stop);
    if (w->ntexts == 1) show(t, t->n - (ends ? 0 : held_back(t, w->stop)));
    return !ends;
}

static void show_all(Writing *w)
{
    for (int64_t i = 0; i < w->ntexts; i++) {
        if (w->ntexts > 1)
            printf("%s--- %lld of %lld ---\n%s", i ? "\n" : "", (long long)i + 1,
                   (long long)w->ntexts, prompt_of(w, i));
        show(&w->text[i], w->text[i].n);
    }
    putchar('\n');
}

// Encodes every prompt. *out must be freed with free_prompts even if this fails.
static netc_status encode(const StringList *prompt, const netc_tokenizer *tokenizer,
                          netc_prompt **out, netc_error **err)
{
    netc_status status = NETC_OK;
    *out = calloc((size_t)prompt->n, sizeof **out);
    if (!*out) return NETC_OUT_OF_MEMORY;
    for (int i = 0; i < prompt->n && status == NETC_OK; i++) {
        int32_t *tokens = NULL;
        status = netc_tokenizer_encode(tokenizer, prompt->at[i], strlen(prompt->at[i]), false,
                                       &tokens, &(*out)[i].n, err);
        (*out)[i].tokens = tokens;
    }
    return status;
}

static void free_prompts(netc_prompt *p, int n)
{
    for (int i = 0; p && i < n; i++) netc_free((void *)(uintptr_t)p[i].tokens);
    free(p);
}

// batch: number of texts that the model generates at the same time.
static netc_status write_texts(GenerateArgs *a, netc_session *s, const netc_tokenizer *tokenizer,
                               int64_t batch, netc_error **err)
{
    int64_t ntexts = a->prompt.n > 1 ? a->prompt.n : batch;
    Writing w = {&a->prompt, &a->stop, tokenizer, NULL, ntexts, false, false, -1};
    NETC_INIT(netc_generate_options, o);
    netc_prompt *texts = NULL;
    w.text = calloc((size_t)ntexts, sizeof *w.text);
    netc_status status = w.text ? NETC_OK : NETC_OUT_OF_MEMORY;
    if (status == NETC_OK) status = encode(&a->prompt, tokenizer, &texts, err);
    o.entry = a->entry;
    o.prefill = a->prefill;
    o.texts = texts;
    o.ntexts = a->prompt.n;
    o.length = a->length;
    o.temperature = a->temperature;
    o.top_k = a->top_k;
    o.top_p = a->top_p;
    o.repetition_penalty = a->penalty;
    o.seed = (uint64_t)a->seed;
    o.token = take;
    o.user = &w;
    if (ntexts > 1) { // nothing of them is printed yet
        catch_interrupt();
        signal(SIGPIPE, SIG_DFL); // ends quietly when the reader closes the pipe
    }
    if (status == NETC_OK) status = netc_generate(s, &o, err);
    if (w.lost) status = NETC_OUT_OF_MEMORY;
    if (w.begun) show_all(&w); // even if an error follows
    if (w.strange >= 0) {
        fail("'%s' drew the token %lld, which %s does not have%s", a->entry, (long long)w.strange,
             a->tokenizer,
             strcmp(a->tokenizer, "bytes") ? "" : "; name the model's tokenizer with --tokenizer");
        status = NETC_INVALID;
    }
    for (int64_t i = 0; w.text && i < ntexts; i++) free(w.text[i].at);
    free(w.text);
    free_prompts(texts, a->prompt.n);
    return status;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    GenerateArgs *a = args;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_tokenizer *tokenizer = NULL;
    netc_port port = {.rank = 0};
    const char *names[] = {a->entry, a->prefill};
    const StringList entries = {names, a->prefill && *a->prefill ? 2 : 1};
    NETC_INIT(netc_tokenizer_options, o);
    o.pattern = a->pattern;
    netc_context_prepare(ctx, a->device);
    netc_status status = netc_tokenizer_open(a->tokenizer, &o, &tokenizer, err);
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, device_target(a->device), device_count(a->device),
                              &entries, NULL, NULL, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) note_untrained(s, &a->weights, &a->common);
    if (status == NETC_OK && netc_input_count(p, a->entry) > 0)
        status = netc_input_info(p, a->entry, 0, &port, err);
    if (status == NETC_OK) status = write_texts(a, s, tokenizer, port.rank ? port.dim[0] : 1, err);
    netc_session_free(s);
    netc_program_release(p);
    netc_tokenizer_free(tokenizer);
    return status;
}

// Appends the non-empty lines of the file, without the \r of Windows' line ends. They point into
// *text. false: an error was reported.
static bool read_prompts(const char *path, StringList *to, char **text)
{
    int before = to->n;
    if (!(*text = read_text(path))) {
        fail_to_read_text(path, "a file of prompts has one per line");
        return false;
    }
    for (char *line = *text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = 0;
        if (*line && !list_add(to, line)) return false;
    }
    if (to->n == before) fail("%s holds no prompts; it must have one per line", path);
    return to->n > before;
}

int verb_generate(int argc, char **argv)
{
    GenerateArgs a = {.entry = "next", .tokenizer = "bytes", .length = 500, .temperature = 1};
    const Option options[] = {
        {"--prompt", NULL, OPT_LIST, &a.prompt, "TEXT",
         "beginning of the text; if repeated, one text for each (default: a new line)"},
        {"--prompts", NULL, OPT_STRING, &a.prompts, "FILE",
         "read prompts from a file, one per line"},
        {"--length", NULL, OPT_COUNT, &a.length, "N", "tokens to write (default 500)"},
        {"--temperature", NULL, OPT_REAL, &a.temperature, "X",
         "below 1 favours likely tokens, 0 always takes the most likely (default 1)"},
        {"--top-k", NULL, OPT_COUNT, &a.top_k, "N", "draw from the N most likely tokens"},
        {"--top-p", NULL, OPT_POSITIVE, &a.top_p, "P",
         "draw from the fewest tokens whose probabilities sum to P"},
        {"--repetition-penalty", NULL, OPT_POSITIVE, &a.penalty, "X",
         "above 1 makes tokens that the text already has less likely (default: off)"},
        {"--stop", NULL, OPT_LIST, &a.stop, "TEXT",
         "end the text before TEXT; may be given several times"},
        {"--tokenizer", NULL, OPT_STRING, &a.tokenizer, "FILE",
         "the tokenizer, as for netc tokenize (default: bytes)"},
        {"--pattern", NULL, OPT_STRING, &a.pattern, "NAME",
         "how a tokenizer of ranks splits text, as for netc tokenize"},
        {"--entry", "-e", OPT_STRING, &a.entry, "NAME",
         "the model that computes logits from tokens (default next)"},
        {"--prefill", NULL, OPT_STRING, &a.prefill, "NAME",
         "the model that reads long prompts in pieces (default: prefill, if it exists; '': none)"},
        WEIGHTS_OPTIONS(&a.weights),
        device_option(&a.device),
        seed_option(&a.seed, "random seed of the draws (default 0)"),
        set_option(&a.set),
    };
    int code;
    char *lines = NULL;
    if (!read_command("generate", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    bool fine = !a.prompts || read_prompts(a.prompts, &a.prompt, &lines);
    if (fine && !a.prompt.n) fine = list_add(&a.prompt, "\n");
    if (fine)
        code = run_command(OPTIONS(options), &a.common, run, &a);
    else
        free_command(OPTIONS(options), &a.common), code = 1;
    free(lines);
    return code;
}
