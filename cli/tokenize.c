// netc tokenize: text to tokens and back.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct TokenizeArgs {
    StringList words;
    const char *tokenizer, *pattern, *output, *end;
    bool raw, plain, decode;
} TokenizeArgs;

// Whether standard input, if it is read, can be. (main opens a closed one for writing.)
static bool input_open(const StringList *words)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    for (int i = 0; i < words->n; i++)
        if (!strcmp(words->at[i], "-") && (flags < 0 || (flags & O_ACCMODE) == O_WRONLY))
            return fail("standard input is closed"), false;
    return true;
}

// -- to tokens ------------------------------------------------------------------------------------

// Prints tokens as numbers on standard output, one line per file.
static netc_status print_tokens(const TokenizeArgs *a, const netc_tokenizer *t, netc_error **err)
{
    netc_status status = NETC_OK;
    for (int i = 0; i < a->words.n && status == NETC_OK; i++) {
        char *text = NULL;
        size_t size;
        int32_t *tokens = NULL;
        int64_t n = 0, end = a->end ? netc_tokenizer_find(t, a->end) : -1;
        if (a->end && end < 0)
            status =
                (fail("%s has no token '%s' (files of ranks and 'bytes' have no special tokens)",
                      a->tokenizer, a->end),
                 NETC_INVALID);
        else
            status = netc_text_read(a->words.at[i], &text, &size, err);
        if (status == NETC_OK)
            status = netc_tokenizer_encode(t, text, size, a->plain, &tokens, &n, err);
        for (int64_t k = 0; k < n && status == NETC_OK; k++)
            printf("%s%lld", k ? " " : "", (long long)tokens[k]);
        if (status == NETC_OK && end >= 0) printf("%s%lld", n ? " " : "", (long long)end);
        if (status == NETC_OK) putchar('\n');
        netc_free(tokens);
        netc_free(text);
    }
    return status;
}

static netc_status write_tokens(const TokenizeArgs *a, const netc_tokenizer *t, netc_error **err)
{
    int64_t tokens, bytes;
    NETC_INIT(netc_tokenize_options, o);
    o.files = a->words.at;
    o.nfiles = a->words.n;
    o.output = a->output;
    o.raw = a->raw;
    o.plain = a->plain;
    o.end = a->end;
    netc_status status = netc_tokenize(t, &o, &tokens, &bytes, err);
    if (status != NETC_OK) return status;
    int64_t count = netc_tokenizer_count(t);
    fprintf(stderr, "%s: %lld tokens below %lld of %lld bytes, %d bits each%s\n", a->output,
            (long long)tokens, (long long)count, (long long)bytes, count > 65536 ? 32 : 16,
            a->raw ? ", no header" : "");
    return NETC_OK;
}

// -- and back -------------------------------------------------------------------------------------

enum { HEAD = 1024, MAGIC_16 = 20240520, MAGIC_32 = 20240801 };

static bool put(const netc_tokenizer *t, const char *path, int64_t place, int64_t token)
{
    const char *bytes;
    size_t n;
    if (!netc_tokenizer_text(t, token, &bytes, &n))
        return fail("%s: token %lld is %lld, which the tokenizer does not have", path,
                    (long long)place, (long long)token),
               false;
    fwrite(bytes, 1, n, stdout); // errors are reported at the end
    return true;
}

static bool put_binary(const netc_tokenizer *t, const char *path, const unsigned char *at, size_t n,
                       int width)
{
    if (n % (size_t)width)
        return fail("%s: %zu bytes are not a whole number of tokens of %d bits", path, n,
                    8 * width),
               false;
    bool ok = true;
    for (size_t i = 0; ok && i < n / (size_t)width; i++) {
        uint32_t token = 0;
        memcpy(&token, at + i * (size_t)width, (size_t)width);
        ok = put(t, path, (int64_t)i, token);
    }
    return ok;
}

// Whether the text consists of numbers and white space.
static bool put_numbers(const netc_tokenizer *t, const char *path, const char *text, size_t n)
{
    int64_t place = 0, token = 0;
    bool digits = false;
    for (size_t i = 0; i <= n; i++) {
        char c = i < n ? text[i] : '\n';
        if (c >= '0' && c <= '9' && token < INT32_MAX) {
            token = 10 * token + c - '0';
            digits = true;
        } else if (strchr(" \t\r\n", c) && c) {
            if (digits && !put(t, path, place++, token)) return false;
            digits = false;
            token = 0;
        } else {
            return fail("%s holds neither tokens with a header nor numbers; --raw reads tokens "
                        "without a header",
                        path),
                   false;
        }
    }
    return true;
}

static netc_status decode_file(const TokenizeArgs *a, const netc_tokenizer *t, const char *path,
                               netc_error **err)
{
    char *text;
    size_t n;
    int32_t head[3] = {0};
    netc_status status = netc_text_read(path, &text, &n, err);
    if (status != NETC_OK) return status;
    const unsigned char *at = (unsigned char *)text;
    bool ok;
    if (n >= sizeof head) memcpy(head, at, sizeof head);
    int width = head[0] == MAGIC_32 ? 4 : 2;
    if (a->raw) {
        width = netc_tokenizer_count(t) > 65536 ? 4 : 2;
        ok = put_binary(t, path, at, n, width);
    } else if (head[0] != MAGIC_16 && head[0] != MAGIC_32) {
        ok = put_numbers(t, path, text, n);
    } else if (n < HEAD || head[2] < 0 || n - HEAD != (size_t)width * (size_t)head[2]) {
        ok = (fail("%s is damaged: its header says %d tokens of %d bits, it has %zu bytes", path,
                   head[2], 8 * width, n),
              false);
    } else {
        ok = put_binary(t, path, at + HEAD, n - HEAD, width);
    }
    netc_free(text);
    return ok ? NETC_OK : NETC_INVALID;
}

static netc_status decode(const TokenizeArgs *a, const netc_tokenizer *t, netc_error **err)
{
    netc_status status = NETC_OK;
    if (a->output) return fail("--decode writes to standard output, not to -o"), NETC_INVALID;
    for (int i = 0; i < a->words.n && status == NETC_OK; i++)
        status = decode_file(a, t, a->words.at[i], err);
    return status;
}

int verb_tokenize(int argc, char **argv)
{
    TokenizeArgs a = {0};
    const Option options[] = {
        {"--tokenizer", NULL, OPT_INPUT, &a.tokenizer, "FILE",
         "tokenizer.json, vocab.json or merges.txt, a folder of them, ranks (.tiktoken), or "
         "'bytes'"},
        {"--pattern", NULL, OPT_STRING, &a.pattern, "NAME",
         "how ranks split text: gpt2, cl100k, llama3 or o200k (default: by the file's name)"},
        {"--output", "-o", OPT_OUTPUT, &a.output, "FILE",
         "write tokens for --data, with a header; without -o they are printed as numbers"},
        {"--raw", NULL, OPT_FLAG, &a.raw, NULL,
         "write no header: tokens of 16 or 32 bits (FILE:u16, FILE:u32 for --data)"},
        {"--end", NULL, OPT_STRING, &a.end, "TOKEN",
         "add this token after every file, for example '<|endoftext|>'"},
        {"--plain", NULL, OPT_FLAG, &a.plain, NULL,
         "treat the texts of special tokens as ordinary text"},
        {"--decode", NULL, OPT_FLAG, &a.decode, NULL, "turn tokens into text"},
    };
    static const char *const standard = "-";
    int code;
    if (!read_command("tokenize", OPTIONS(options), NULL, &a.words, argc, argv, &code)) return code;
    StringList input = {(const char **)&standard, 1}, given = a.words;
    if (!a.words.n) a.words = input;
    netc_tokenizer *t = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_tokenizer_options, o);
    o.pattern = a.pattern;
    netc_status status = NETC_OK;
    if (!input_open(&a.words)) status = NETC_INVALID;
    if (status == NETC_OK && !a.tokenizer)
        status = (fail("name a tokenizer with --tokenizer FILE"), NETC_INVALID);
    if (status == NETC_OK && a.output &&
        !output_named(a.output, ".bin", "tokens are written", &code))
        status = NETC_INVALID;
    if (status == NETC_OK) status = netc_tokenizer_open(a.tokenizer, &o, &t, &err);
    if (status == NETC_OK)
        status = a.decode   ? decode(&a, t, &err)
                 : a.output ? write_tokens(&a, t, &err)
                            : print_tokens(&a, t, &err);
    netc_tokenizer_free(t);
    list_free(&given);
    return exit_code(status, err);
}
