// Internal: text to tokens.
#ifndef LIB_TOKENS_ENCODE_H
#define LIB_TOKENS_ENCODE_H

#include "lib/tokens/tokenizer.h"

typedef struct Encoder { // zeroed, except for the options
    const netc_tokenizer *t;
    bool plain; // special tokens are treated like other text
    // Called with out.n tokens, which are dropped afterwards, from time to time; NULL: all tokens
    // stay in out.
    netc_status (*take)(void *ctx, netc_error **err);
    void *ctx;
    Tokens out;
    BpeWork work;
    PatternWork match[MOST_CUTS];
    const unsigned char *begin; // beginning of the text, for messages
} Encoder;

netc_status encode_text(Encoder *e, const void *text, size_t n, netc_error **err);
void encoder_free(Encoder *e); // everything but out

#endif
