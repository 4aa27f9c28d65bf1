// Internal: text to tokens.
#ifndef LIB_TOKENS_ENCODE_H
#define LIB_TOKENS_ENCODE_H

#include "lib/tokens/tokenizer.h"

typedef struct Encoder { // zeroed but for what is asked
    const netc_tokenizer *t;
    bool plain; // the texts of special tokens are text like any other
    // Takes out.n tokens, which may then be dropped: called now and then; NULL: all stay in out.
    netc_status (*take)(void *ctx, netc_error **err);
    void *ctx;
    Tokens out;
    BpeWork work;
    PatternWork match[MOST_CUTS];
    const unsigned char *begin; // of the text, for messages
} Encoder;

netc_status encode_text(Encoder *e, const void *text, size_t n, netc_error **err);
void encoder_free(Encoder *e); // all but out

#endif
