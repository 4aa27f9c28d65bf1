// Internal: draws a token from logits.
#ifndef LIB_DRAW_H
#define LIB_DRAW_H

#include "lib/lib.h"

typedef struct Draw {
    double temperature; // of the softmax; 0: always the first of the largest logits
    int64_t top_k;      // only the k largest logits; 0: all
    double top_p;       // only the fewest tokens whose probabilities add up to this; 0: all
    uint64_t seed;
    double penalty;   // for tokens that occurred before; 0 or 1: none
    const bool *said; // by token: it occurred before; NULL: not needed
} Draw;

typedef struct Candidate {
    double logit; // later, its share of the probability, not normalised
    int64_t token;
} Candidate;

// Draws token number [place] of text [row] from n logits of the given type. The result depends only
// on the logits, the seed, row and place. work: n candidates. -1: a logit is NaN, or none is
// finite.
int64_t draw_token(const Draw *d, ProgDType type, const void *logits, int64_t n, int64_t row,
                   int64_t place, Candidate *work);

#endif
