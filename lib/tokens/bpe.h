// Byte-pair encoding: a vocabulary of byte strings, and the pairs that are merged: the one with the
// lowest rank first, the leftmost among equal ones.
#ifndef LIB_TOKENS_BPE_H
#define LIB_TOKENS_BPE_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct Bytes {
    const unsigned char *at; // NULL: there is no token with this number
    size_t n;
} Bytes;

typedef struct Merge {
    int32_t left, right; // left < 0: an empty slot
    int32_t rank, made;
} Merge;

typedef struct Bpe {
    Arena *arena;
    VEC(Bytes) token; // by number
    int32_t *slot;    // hash table of tokens by their bytes, open addressing; -1: empty
    uint32_t mask, ntokens;
    Merge *merge; // hash table by pair, open addressing
    uint32_t merge_mask, nmerges;
    int32_t byte[256]; // token of a single byte; -1: none
    bool whole;        // a piece that is a token becomes that token, even if its merges would give
                       // another result
} Bpe;

enum { MOST_TOKENS = 1 << 24 };

Bpe *bpe_new(Arena *a);
// Adds a token. false: its number or its bytes are in use.
bool bpe_add(Bpe *b, int32_t token, const void *bytes, size_t n);
// Adds a token that has bytes but is never produced from text; after all calls of bpe_add. false:
// the number is used for other bytes.
bool bpe_name(Bpe *b, int32_t token, const void *bytes, size_t n);
int32_t bpe_find(const Bpe *b, const void *bytes, size_t n); // -1: there is no such token
// Adds a merge. false: this pair merges already.
bool bpe_merge(Bpe *b, int32_t left, int32_t right, int32_t rank, int32_t made);
// Adds a merge for every pair of tokens whose concatenation is a token, ranked by its number.
void bpe_merge_by_number(Bpe *b);

// Memory for encoding, which is reused; must be zeroed at first.
typedef struct BpeWork {
    struct BpePart *part;
    struct BpeNext *heap;
    size_t cap, n, heap_cap;
    struct BpeKnown *known; // pieces that were encoded before
} BpeWork;
void bpe_work_free(BpeWork *w);

typedef struct Tokens { // a growing list
    uint32_t *at;       // malloc'ed
    size_t n, cap;
} Tokens;
bool tokens_reserve(Tokens *t, size_t more); // false: out of memory

typedef enum BpeResult { BPE_OK, BPE_NO_MEMORY, BPE_NO_BYTE } BpeResult;
// Appends the tokens of a piece. BPE_NO_BYTE: no token has the byte at index *bad.
BpeResult bpe_encode(const Bpe *b, BpeWork *w, const unsigned char *piece, size_t n, Tokens *out,
                     size_t *bad);

#endif
