// Byte-pair encoding: a vocabulary of byte strings, and the pairs that are merged: the one with the
// lowest rank first, the leftmost among equal ones.
#ifndef LIB_TOKENS_BPE_H
#define LIB_TOKENS_BPE_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct Bytes {
    const unsigned char *at; // NULL: no token has this number
    size_t n;
} Bytes;

typedef struct Merge {
    int32_t left, right; // left < 0: an empty slot
    int32_t rank, made;
} Merge;

typedef struct Bpe {
    Arena *arena;
    VEC(Bytes) token; // by number
    int32_t *slot;    // tokens by their bytes, open addressing; -1: empty
    uint32_t mask, ntokens;
    Merge *merge; // by their pair, open addressing
    uint32_t merge_mask, nmerges;
    int32_t byte[256]; // the token of a single byte; -1: there is none
    bool whole;        // a piece that is a token is that token, whatever its merges make of it
} Bpe;

enum { MOST_TOKENS = 1 << 24 };

Bpe *bpe_new(Arena *a);
// false: the number or the bytes are taken.
bool bpe_add(Bpe *b, int32_t token, const void *bytes, size_t n);
// A number whose bytes are known, but never made out of text; behind the last bpe_add. false: it
// stands for others.
bool bpe_name(Bpe *b, int32_t token, const void *bytes, size_t n);
int32_t bpe_find(const Bpe *b, const void *bytes, size_t n); // -1: no such token
// false: the pair merges already.
bool bpe_merge(Bpe *b, int32_t left, int32_t right, int32_t rank, int32_t made);
// Every pair of tokens whose bytes together are a token merges, in the order of their numbers.
void bpe_merge_by_number(Bpe *b);

// What encoding needs, reused: zeroed in the beginning.
typedef struct BpeWork {
    struct BpePart *part;
    struct BpeNext *heap;
    size_t cap, n, heap_cap;
    struct BpeKnown *known; // pieces seen before
} BpeWork;
void bpe_work_free(BpeWork *w);

typedef struct Tokens { // growing
    uint32_t *at;       // malloc'ed
    size_t n, cap;
} Tokens;
bool tokens_reserve(Tokens *t, size_t more); // false: out of memory

typedef enum BpeResult { BPE_OK, BPE_NO_MEMORY, BPE_NO_BYTE } BpeResult;
// Appends the tokens of a piece. BPE_NO_BYTE: *bad is the index of one that no token has.
BpeResult bpe_encode(const Bpe *b, BpeWork *w, const unsigned char *piece, size_t n, Tokens *out,
                     size_t *bad);

#endif
