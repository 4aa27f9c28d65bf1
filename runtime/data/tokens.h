// Internal: files of tokens, with the header of llm.c or without a header as in nanoGPT (16 bits).
#ifndef RUNTIME_DATA_TOKENS_H
#define RUNTIME_DATA_TOKENS_H

#include "runtime/data.h"
#include "runtime/host/file.h"

typedef struct RtTokenHead { // the header of a token file, little-endian
    int32_t word[256];       // magic, version, number of tokens, ...
} RtTokenHead;
RtTokenHead rt_token_head(bool wide, int64_t tokens); // wide: tokens of 32 bits, not 16

bool rt_token_recognise(const unsigned char *at, size_t n);
bool rt_token_wide(const unsigned char *at); // whether the header says that tokens have 32 bits
// Bytes per token after the header of a file of [bytes] that begins at [at]; 0: damaged, in e.
int rt_token_width(const char *path, const unsigned char *at, size_t bytes, RtError *e);
// Converts tokens of [width] bytes to bytes. RT_USER: some are above 255.
RtCode rt_token_narrow(const char *path, RtBytes *b, int width, RtError *e);

// Rows of tokens that stay in their files.
// Opens token files as windows of wanted->dim[0] tokens, one file after the other, without reading
// them into memory. Only if all are regular, uncompressed files, and the windows would take more
// than [least] bytes; otherwise out->source stays NULL. anywhere: windows begin at every token or,
// if there are too many to number, at every second one and so on.
RtCode rt_tokens_open(const char *const *paths, int n, const char *part, const ProgType *wanted,
                      bool anywhere, size_t least, RtArray *out, RtError *e);

#endif
