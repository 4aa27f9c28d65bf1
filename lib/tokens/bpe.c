#include "lib/tokens/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

// -- the vocabulary -------------------------------------------------------------------------------

Bpe *bpe_new(Arena *a)
{
    Bpe *b = NEW(a, Bpe);
    b->arena = a;
    for (int i = 0; i < 256; i++) b->byte[i] = -1;
    return b;
}

static uint32_t token_slot(const Bpe *b, const void *bytes, size_t n)
{
    uint32_t i = (uint32_t)hash_bytes(bytes, n, 0) & b->mask;
    for (; b->slot[i] >= 0; i = (i + 1) & b->mask) {
        const Bytes *t = &b->token.at[b->slot[i]];
        if (t->n == n && !memcmp(t->at, bytes, n)) break;
    }
    return i;
}

int32_t bpe_find(const Bpe *b, const void *bytes, size_t n)
{
    return b->slot ? b->slot[token_slot(b, bytes, n)] : -1;
}

static void grow_slots(Bpe *b)
{
    uint32_t size = b->slot ? 2 * (b->mask + 1) : 1024;
    b->slot = NEW_ARRAY(b->arena, int32_t, size);
    b->mask = size - 1;
    for (uint32_t i = 0; i < size; i++) b->slot[i] = -1;
    for (uint32_t i = 0; i < b->token.n; i++) {
        const Bytes *t = &b->token.at[i];
        if (t->at) b->slot[token_slot(b, t->at, t->n)] = (int32_t)i;
    }
}

bool bpe_add(Bpe *b, int32_t token, const void *bytes, size_t n)
{
    if ((b->ntokens + 1) * 2 > b->mask) grow_slots(b);
    while (b->token.n <= (uint32_t)token) vec_push(b->arena, &b->token, (Bytes){0});
    uint32_t i = token_slot(b, bytes, n);
    if (b->token.at[token].at || b->slot[i] >= 0) return false;
    b->token.at[token] = (Bytes){(unsigned char *)arena_strndup(b->arena, bytes, n), n};
    b->slot[i] = token;
    b->ntokens++;
    if (n == 1) b->byte[*(const unsigned char *)bytes] = token;
    return true;
}

bool bpe_name(Bpe *b, int32_t token, const void *bytes, size_t n)
{
    while (b->token.n <= (uint32_t)token) vec_push(b->arena, &b->token, (Bytes){0});
    Bytes *t = &b->token.at[token];
    if (t->at) return t->n == n && !memcmp(t->at, bytes, n);
    *t = (Bytes){(unsigned char *)arena_strndup(b->arena, bytes, n), n};
    return true;
}

// -- the merges -----------------------------------------------------------------------------------

static uint32_t merge_slot(const Bpe *b, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & b->merge_mask;
    const Merge *m = b->merge;
    while (m[i].left >= 0 && (m[i].left != left || m[i].right != right))
        i = (i + 1) & b->merge_mask;
    return i;
}

static void grow_merges(Bpe *b)
{
    uint32_t size = b->merge ? 2 * (b->merge_mask + 1) : 1024, old = b->merge ? size / 2 : 0;
    const Merge *from = b->merge;
    b->merge = NEW_ARRAY(b->arena, Merge, size);
    b->merge_mask = size - 1;
    for (uint32_t i = 0; i < size; i++) b->merge[i].left = -1;
    for (uint32_t i = 0; i < old; i++)
        if (from[i].left >= 0) b->merge[merge_slot(b, from[i].left, from[i].right)] = from[i];
}

bool bpe_merge(Bpe *b, int32_t left, int32_t right, int32_t rank, int32_t made)
{
    if (!b->merge || (b->nmerges + 1) * 2 > b->merge_mask) grow_merges(b);
    Merge *m = &b->merge[merge_slot(b, left, right)];
    if (m->left >= 0) return false;
    *m = (Merge){left, right, rank, made};
    b->nmerges++;
    return true;
}

void bpe_merge_by_number(Bpe *b)
{
    for (uint32_t i = 0; i < b->token.n; i++) {
        const Bytes *t = &b->token.at[i];
        for (size_t k = 1; k < t->n; k++) {
            int32_t left = bpe_find(b, t->at, k), right = bpe_find(b, t->at + k, t->n - k);
            if (left >= 0 && right >= 0) bpe_merge(b, left, right, (int32_t)i, (int32_t)i);
        }
    }
}

// -- a piece --------------------------------------------------------------------------------------

typedef struct BpePart {
    int32_t token; // -1: merged into the part before it
    int32_t before, next;
} BpePart;

typedef struct BpeNext { // two neighbouring parts that may merge
    int32_t rank, at;    // of equal ranks, the leftmost comes first
    int32_t left, right, made;
} BpeNext;

enum { KNOWN = 1 << 15, KNOWN_BYTES = 15, KNOWN_TOKENS = 4 };

typedef struct BpeKnown {
    unsigned char bytes[KNOWN_BYTES], n; // n = 0: an empty entry
    uint32_t ntokens, token[KNOWN_TOKENS];
} BpeKnown;

void bpe_work_free(BpeWork *w)
{
    free(w->part);
    free(w->heap);
    free(w->known);
    *w = (BpeWork){0};
}

bool tokens_reserve(Tokens *t, size_t more)
{
    if (more <= t->cap - t->n) return true;
    size_t cap = t->cap ? t->cap : 1024;
    while (cap - t->n < more)
        if (__builtin_mul_overflow(cap, 2, &cap)) return false;
    uint32_t *p = cap > SIZE_MAX / sizeof *p ? NULL : realloc(t->at, cap * sizeof *p);
    if (!p) return false;
    t->at = p;
    t->cap = cap;
    return true;
}

static bool sooner(const BpeNext *x, const BpeNext *y)
{
    return x->rank != y->rank ? x->rank < y->rank : x->at < y->at;
}

// Pushes the pair that begins at part [at] to the heap if it can merge.
static bool put_pair(const Bpe *b, BpeWork *w, int32_t at)
{
    int32_t next = w->part[at].next;
    if (next < 0) return true;
    int32_t left = w->part[at].token, right = w->part[next].token;
    const Merge *m = &b->merge[merge_slot(b, left, right)];
    if (m->left < 0) return true;
    if (w->n == w->heap_cap) {
        size_t cap = w->heap_cap ? 2 * w->heap_cap : 64;
        BpeNext *more = realloc(w->heap, cap * sizeof *more);
        if (!more) return false;
        w->heap = more;
        w->heap_cap = cap;
    }
    BpeNext x = {m->rank, at, left, right, m->made};
    size_t i = w->n++;
    for (size_t up; i && sooner(&x, &w->heap[up = (i - 1) / 2]); i = up) w->heap[i] = w->heap[up];
    w->heap[i] = x;
    return true;
}

static BpeNext take_pair(BpeWork *w)
{
    BpeNext top = w->heap[0], x = w->heap[--w->n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < w->n; i = k) {
        if (k + 1 < w->n && sooner(&w->heap[k + 1], &w->heap[k])) k++;
        if (!sooner(&w->heap[k], &x)) break;
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = x;
    return top;
}

static bool make_parts(BpeWork *w, size_t n)
{
    if (n <= w->cap) return true;
    size_t cap = w->cap ? w->cap : 64;
    while (cap < n) cap *= 2;
    BpePart *p = realloc(w->part, cap * sizeof *p);
    if (!p) return false;
    w->part = p;
    w->cap = cap;
    return true;
}

static bool merge_all(const Bpe *b, BpeWork *w, size_t n)
{
    w->n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (!put_pair(b, w, (int32_t)i)) return false;
    while (w->n) {
        BpeNext x = take_pair(w);
        BpePart *p = &w->part[x.at];
        // Skips the pair if one of its parts has changed since.
        if (p->token != x.left || p->next < 0 || w->part[p->next].token != x.right) continue;
        w->part[p->next].token = -1;
        p->token = x.made;
        p->next = w->part[p->next].next;
        if (p->next >= 0) w->part[p->next].before = x.at;
        if ((p->before >= 0 && !put_pair(b, w, p->before)) || !put_pair(b, w, x.at)) return false;
    }
    return true;
}

static BpeResult encode(const Bpe *b, BpeWork *w, const unsigned char *piece, size_t n, Tokens *out,
                        size_t *bad)
{
    for (size_t i = 0; i < n; i++)
        if (b->byte[piece[i]] < 0) return *bad = i, BPE_NO_BYTE;
    if (n > INT32_MAX || !tokens_reserve(out, n)) return BPE_NO_MEMORY;
    if (!b->nmerges) {
        for (size_t i = 0; i < n; i++) out->at[out->n++] = (uint32_t)b->byte[piece[i]];
        return BPE_OK;
    }
    if (!make_parts(w, n)) return BPE_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        w->part[i] = (BpePart){b->byte[piece[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    if (!merge_all(b, w, n)) return BPE_NO_MEMORY;
    for (int32_t i = 0; i >= 0; i = w->part[i].next) out->at[out->n++] = (uint32_t)w->part[i].token;
    return BPE_OK;
}

// Uses the results of earlier calls, since most pieces of a text are words that occurred before.
BpeResult bpe_encode(const Bpe *b, BpeWork *w, const unsigned char *piece, size_t n, Tokens *out,
                     size_t *bad)
{
    if (!n) return BPE_OK;
    if (!w->known && !(w->known = calloc(KNOWN, sizeof *w->known))) return BPE_NO_MEMORY;
    bool small = n <= KNOWN_BYTES;
    BpeKnown *k = small ? &w->known[hash_bytes(piece, n, n) & (KNOWN - 1)] : NULL;
    if (small && k->n == n && !memcmp(k->bytes, piece, n)) {
        if (!tokens_reserve(out, k->ntokens)) return BPE_NO_MEMORY;
        memcpy(out->at + out->n, k->token, k->ntokens * sizeof *k->token);
        out->n += k->ntokens;
        return BPE_OK;
    }
    size_t from = out->n;
    int32_t token = b->whole ? bpe_find(b, piece, n) : -1;
    BpeResult result = BPE_OK;
    if (token >= 0 && !tokens_reserve(out, 1)) return BPE_NO_MEMORY;
    if (token >= 0)
        out->at[out->n++] = (uint32_t)token;
    else
        result = encode(b, w, piece, n, out, bad);
    if (result == BPE_OK && small && out->n - from <= KNOWN_TOKENS) {
        memcpy(k->bytes, piece, n);
        k->n = (unsigned char)n;
        k->ntokens = (uint32_t)(out->n - from);
        memcpy(k->token, out->at + from, k->ntokens * sizeof *k->token);
    }
    return result;
}
