// netc_tokenizer: opens one from its files, turns text into tokens and tokens into text.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/tokens/encode.h"

// -- opening --------------------------------------------------------------------------------------

static bool exists(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

static void read_folder(Reading *r, const char *path)
{
    Arena *a = r->t->arena;
    const char *json = arena_printf(a, "%s/tokenizer.json", path),
               *vocab = arena_printf(a, "%s/vocab.json", path),
               *merges = arena_printf(a, "%s/merges.txt", path);
    if (exists(json))
        read_json(r, r->path = json);
    else if (exists(vocab) && exists(merges))
        read_gpt2(r, vocab, merges);
    else
        reading_fail(
            r, "%s has neither a tokenizer.json nor vocab.json and merges.txt%s", path,
            exists(arena_printf(a, "%s/tokenizer.model", path))
                ? "; a tokenizer.model of SentencePiece is not supported, one of tiktoken's "
                  "ranks is given by its own name"
                : "");
}

static const char *beside(Arena *a, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, name) : name;
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && !strcmp(path + n - k, suffix);
}

static void read_any(Reading *r, const char *path)
{
    struct stat st;
    Arena *a = r->t->arena;
    if (stat(path, &st))
        return reading_fail(r,
                            "cannot open %s: %s; it is a file or a folder with a tokenizer.json, "
                            "or with vocab.json and merges.txt",
                            path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return read_folder(r, path);
    if (ends_with(path, "merges.txt")) return read_gpt2(r, beside(a, path, "vocab.json"), path);
    if (ends_with(path, "vocab.json")) return read_gpt2(r, path, beside(a, path, "merges.txt"));
    if (ends_with(path, ".json")) return read_json(r, path);
    read_ranks(r, path);
}

static void read_bytes(netc_tokenizer *t)
{
    t->bytes = true;
    for (int i = 0; i < 256; i++) bpe_add(t->bpe, i, &(unsigned char){(unsigned char)i}, 1);
}

// Lexicographic order, shorter texts first.
static int in_order(const void *a, const void *b)
{
    const Special *x = a, *y = b;
    int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return x->late != y->late ? x->late - y->late : c ? c : x->n < y->n ? -1 : x->n > y->n;
}

static void read_guarded(void *arg)
{
    Reading *r = arg;
    netc_tokenizer *t = r->t;
    t->path = arena_strdup(t->arena, r->path);
    t->bpe = bpe_new(t->arena);
    t->category = arena_alloc(t->arena, UNICODE_END);
    unicode_categories(t->category);
    if (!strcmp(r->path, "bytes"))
        read_bytes(t);
    else if (r->pattern && !named_pattern(r->pattern))
        reading_fail(r, "there is no pattern '%s'; there are gpt2, cl100k, llama3 and o200k",
                     r->pattern);
    else
        read_any(r, r->path);
    if (!reading_failed(r) && !t->bpe->ntokens) reading_fail(r, "%s holds no tokens", r->path);
    if (reading_failed(r)) return;
    t->count = t->bpe->token.n;
    if (!t->specials.n) return;
    qsort(t->specials.at, t->specials.n, sizeof *t->specials.at, in_order);
    for (uint32_t i = 0; i < t->specials.n; i++) t->early += !t->specials.at[i].late;
}

netc_status netc_tokenizer_open(const char *path, const netc_tokenizer_options *options,
                                netc_tokenizer **out, netc_error **err)
{
    netc_tokenizer_options o = {0};
    netc_status status = TAKE_OPTIONS(netc_tokenizer_options, &o, options, err);
    if (status != NETC_OK) return status;
    netc_tokenizer *t = calloc(1, sizeof *t);
    Reading r = {.t = t, .path = path, .pattern = o.pattern, .err = err};
    if (t) t->arena = arena_new();
    if (!t || !t->arena || !lib_guarded(t->arena, read_guarded, &r)) r.status = OUT_OF_MEMORY(err);
    for (int i = 0; i < r.nowned; i++) free(r.owned[i]);
    if (r.status != NETC_OK) {
        netc_tokenizer_free(t);
        return r.status;
    }
    *out = t;
    return NETC_OK;
}

void netc_tokenizer_free(netc_tokenizer *t)
{
    if (t) arena_free(t->arena);
    free(t);
}

int64_t netc_tokenizer_count(const netc_tokenizer *t)
{
    return t->count;
}

// -- there and back -------------------------------------------------------------------------------

int64_t netc_tokenizer_find(const netc_tokenizer *t, const char *text)
{
    size_t n = strlen(text);
    for (uint32_t i = 0; i < t->specials.n; i++)
        if (t->specials.at[i].n == n && !memcmp(t->specials.at[i].text, text, n))
            return t->specials.at[i].token;
    return bpe_find(t->bpe, text, n);
}

bool netc_tokenizer_text(const netc_tokenizer *t, int64_t token, const char **bytes, size_t *n)
{
    *bytes = NULL;
    *n = 0;
    if (token < 0 || token >= t->count || !t->bpe->token.at[token].at) return false;
    *bytes = (const char *)t->bpe->token.at[token].at;
    *n = t->bpe->token.at[token].n;
    return true;
}

netc_status netc_tokenizer_encode(const netc_tokenizer *t, const char *text, size_t n, bool plain,
                                  int32_t **tokens, int64_t *count, netc_error **err)
{
    Encoder e = {.t = t, .plain = plain};
    netc_status status = encode_text(&e, text, n, err);
    encoder_free(&e);
    if (status == NETC_OK && !tokens_reserve(&e.out, 1)) status = OUT_OF_MEMORY(err);
    if (status == NETC_OK) {
        *tokens = (int32_t *)e.out.at;
        *count = (int64_t)e.out.n;
    } else {
        free(e.out.at);
    }
    return status;
}
