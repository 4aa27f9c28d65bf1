// Internal: files of tokens, with the header of llm.c or without a header as in nanoGPT (16 bits).
#ifndef RUNTIME_DATA_TOKENS_H
#define RUNTIME_DATA_TOKENS_H

#include "runtime/data.h"
#include "runtime/host/file.h"

typedef struct RtTokenHead { // the header of such a file, little-endian
    int32_t word[256];       // magic, version, tokens that follow
} RtTokenHead;
RtTokenHead rt_token_head(bool wide, int64_t tokens); // wide: tokens of 32 bits, not 16

bool rt_token_recognise(const unsigned char *at, size_t n);
bool rt_token_wide(const unsigned char *at); // of a header: tokens of 32 bits
// Bytes per token after the header of a file of [bytes] that begins at [at]; 0: damaged, in e.
int rt_token_width(const char *path, const unsigned char *at, size_t bytes, RtError *e);
// Converts tokens of [width] bytes to bytes. RT_USER: not all are below 256.
RtCode rt_token_narrow(const char *path, RtBytes *b, int width, RtError *e);

// Rows of tokens that stay in their files.
// Windows of wanted->dim[0] tokens over files of tokens, one file after the other, that take no
// memory: if all are regular files, not compressed, and their windows would take more than [least]
// bytes; otherwise out->source stays NULL. anywhere: a window, a row, begins at every token, or at
// every second one and so on if there are too many tokens to number as rows.
RtCode rt_tokens_open(const char *const *paths, int n, const char *part, const ProgType *wanted,
                      bool anywhere, size_t least, RtArray *out, RtError *e);

#endif
