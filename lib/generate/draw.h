// Internal: draws a token from logits.
#ifndef LIB_DRAW_H
#define LIB_DRAW_H

#include "lib/lib.h"

typedef struct Draw {
    double temperature; // of the softmax; 0: the largest logit, the first of equals
    int64_t top_k;      // only so many of the largest logits; 0: all
    double top_p;       // only the fewest tokens whose probabilities add up to that; 0: all
    uint64_t seed;
    double penalty;   // of tokens that were there before; 0 or 1: none
    const bool *said; // by token: it was; NULL: none was
} Draw;

typedef struct Candidate {
    double logit; // then its share of the probability, not normalised
    int64_t token;
} Candidate;

// The token that follows in text [row] as its number [place], drawn from n logits of that type: a
// function of the seed, row and place alone. work: n candidates. -1: a logit is NaN, or none is
// finite.
int64_t draw_token(const Draw *d, ProgDType type, const void *logits, int64_t n, int64_t row,
                   int64_t place, Candidate *work);

#endif
