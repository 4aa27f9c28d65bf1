// netc_tokenize: writes the tokens of text files to a token file.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/tokens/encode.h"
#include "runtime/data/tokens.h"
#include "runtime/host/file.h"

typedef struct Tokenizing {
    Encoder encoder;
    const netc_tokenize_options *o;
    RtWriter w;
    bool wide; // 32 bits per token
    int64_t count, bytes;
    RtError e;
} Tokenizing;

// Writes the tokens encoded so far.
static netc_status take(void *ctx, netc_error **err)
{
    Tokenizing *t = ctx;
    Tokens *out = &t->encoder.out;
    size_t n = out->n;
    t->count += (int64_t)n;
    out->n = 0;
    if (!t->wide)
        for (size_t i = 0; i < n; i++) memcpy((char *)out->at + 2 * i, &out->at[i], 2); // in place
    if (!n || !rt_writer_put(&t->w, out->at, n * (t->wide ? 4 : 2), &t->e)) return NETC_OK;
    return lib_fail_rt(err, &t->e);
}

netc_status netc_text_read(const char *path, char **bytes, size_t *n, netc_error **err)
{
    RtBytes b;
    RtError e = {0};
    RtCode code = strcmp(path, "-")
                      ? rt_bytes_read(path, SIZE_MAX - 1, &b, &e)
                      : rt_bytes_read_open(STDIN_FILENO, "standard input", SIZE_MAX - 1, &b, &e);
    if (code) return lib_fail_rt(err, &e);
    *bytes = (char *)b.at;
    *n = b.n;
    return NETC_OK;
}

static netc_status file(Tokenizing *t, const char *path, netc_error **err)
{
    char *text;
    size_t n;
    netc_status status = netc_text_read(path, &text, &n, err);
    if (status != NETC_OK) return status;
    status = encode_text(&t->encoder, text, n, err);
    t->bytes += (int64_t)n;
    free(text);
    return status;
}

static netc_status write_tokens(Tokenizing *t, int32_t end, netc_error **err)
{
    RtTokenHead head = rt_token_head(t->wide, 0);
    const netc_tokenize_options *o = t->o;
    bool raw = o->raw;
    if (!raw && rt_writer_put(&t->w, &head, sizeof head, &t->e)) return lib_fail_rt(err, &t->e);
    netc_status status = NETC_OK;
    for (int i = 0; i < o->nfiles && status == NETC_OK; i++) {
        status = file(t, o->files[i], err);
        if (end < 0 || status != NETC_OK) continue;
        if (!tokens_reserve(&t->encoder.out, 1)) return OUT_OF_MEMORY(err);
        t->encoder.out.at[t->encoder.out.n++] = (uint32_t)end;
    }
    if (status == NETC_OK) status = take(t, err);
    if (status != NETC_OK || raw) return status;
    if (t->count > INT32_MAX)
        return lib_fail(err, NETC_INVALID,
                        "%" PRId64 " tokens are more than the header of a token file can state; "
                        "write them without one (--raw), or into several files",
                        t->count);
    head = rt_token_head(t->wide, t->count);
    return rt_writer_again(&t->w, &head, sizeof head, &t->e) ? lib_fail_rt(err, &t->e) : NETC_OK;
}

netc_status netc_tokenize(const netc_tokenizer *tokenizer, const netc_tokenize_options *options,
                          int64_t *tokens, int64_t *bytes, netc_error **err)
{
    netc_tokenize_options o = {0};
    netc_status status = TAKE_OPTIONS(netc_tokenize_options, &o, options, err);
    if (status == NETC_OK) status = options_names("files", o.files, o.nfiles, err);
    if (status != NETC_OK) return status;
    Tokenizing t = {.encoder = {.t = tokenizer, .plain = o.plain, .take = take},
                    .o = &o,
                    .wide = tokenizer->count > UINT16_MAX + 1};
    t.encoder.ctx = &t;
    int64_t end = o.end ? netc_tokenizer_find(tokenizer, o.end) : -1;
    if (o.end && end < 0)
        return lib_fail(err, NETC_INVALID,
                        "%s has no token '%s' (files of ranks and 'bytes' have no special tokens)",
                        tokenizer->path, o.end);
    if (!o.output) return lib_fail(err, NETC_INVALID, "netc_tokenize needs an output");
    if (rt_writer_begin(&t.w, o.output, &t.e)) return lib_fail_rt(err, &t.e);
    if (!o.raw && !t.w.temporary)
        status = lib_fail(err, NETC_INVALID,
                          "%s is not a regular file, which a token file with a header must be; "
                          "write it without one (--raw)",
                          o.output);
    if (status == NETC_OK) status = write_tokens(&t, (int32_t)end, err);
    RtCode code = rt_writer_end(&t.w, status == NETC_OK ? RT_OK : RT_USER, &t.e);
    if (status == NETC_OK && code) status = lib_fail_rt(err, &t.e);
    encoder_free(&t.encoder);
    free(t.encoder.out.at);
    if (tokens) *tokens = t.count;
    if (bytes) *bytes = t.bytes;
    return status;
}
