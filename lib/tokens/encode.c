// Encodes text: finds special tokens first; the text between them is split into pieces, and each
// piece is encoded.
#include <stdlib.h>
#include <string.h>

#include "lib/tokens/encode.h"

enum { TAKE = 1 << 18 }; // tokens per call of [take]

void encoder_free(Encoder *e)
{
    bpe_work_free(&e->work);
    for (int i = 0; i < MOST_CUTS; i++) pattern_work_free(&e->match[i]);
}

static netc_status piece(Encoder *e, const unsigned char *at, size_t n, netc_error **err)
{
    size_t bad;
    switch (bpe_encode(e->t->bpe, &e->work, at, n, &e->out, &bad)) {
    case BPE_OK: break;
    case BPE_NO_MEMORY: return OUT_OF_MEMORY(err);
    case BPE_NO_BYTE:
        return lib_fail(err, NETC_INVALID,
                        "%s has no token for the byte 0x%02x, which stands at %zu of the text",
                        e->t->path, at[bad], (size_t)(at + bad - e->begin));
    }
    if (e->out.n < TAKE || !e->take) return NETC_OK;
    netc_status status = e->take(e->ctx, err);
    e->out.n = 0;
    return status;
}

// Cuts text into pieces. Text between matches is a piece, too.
static netc_status cut(Encoder *e, int depth, const unsigned char *from, const unsigned char *end,
                       netc_error **err)
{
    if (depth == e->t->ncuts) return piece(e, from, (size_t)(end - from), err);
    netc_status status = NETC_OK;
    while (from < end && status == NETC_OK) {
        Piece p;
        bool found = pattern_find(e->t->cut[depth], &e->match[depth], from, end, &p);
        if (e->match[depth].lost) return OUT_OF_MEMORY(err);
        if (e->match[depth].slow)
            return lib_fail(err, NETC_INVALID,
                            "%s: the pattern '%.300s' takes too long at byte %zu", e->t->path,
                            pattern_text(e->t->cut[depth]), (size_t)(from - e->begin));
        const unsigned char *to = found ? p.begin : end;
        if (to > from) status = cut(e, depth + 1, from, to, err);
        if (found && status == NETC_OK) status = cut(e, depth + 1, p.begin, to = p.end, err);
        from = to;
    }
    return status;
}

static netc_status plain_text(Encoder *e, const unsigned char *from, const unsigned char *end,
                              netc_error **err)
{
    const netc_tokenizer *t = e->t;
    if (t->bytes) {
        netc_status status = NETC_OK;
        for (size_t n; from < end && status == NETC_OK; from += n) {
            n = end - from < TAKE ? (size_t)(end - from) : TAKE;
            status = piece(e, from, n, err);
        }
        return status;
    }
    if (from == end) return NETC_OK;
    if (!t->space_first || *from == ' ') return cut(e, 0, from, end, err);
    size_t n = (size_t)(end - from) + 1;
    unsigned char *copy = malloc(n);
    if (!copy) return OUT_OF_MEMORY(err);
    copy[0] = ' ';
    memcpy(copy + 1, from, n - 1);
    e->begin = copy + 1 - (from - e->begin);
    netc_status status = cut(e, 0, copy, copy + n, err);
    e->begin = from - (copy + 1 - e->begin);
    free(copy);
    return status;
}

// The texts in [from, to) are longer than n bytes and equal in the first n: the first one whose
// next byte is greater than c.
static const Special *first_above(const Special *from, const Special *to, size_t n, int c)
{
    while (from < to) {
        const Special *middle = from + (to - from) / 2;
        if (middle->text[n] > c)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

// The longest special token at this position.
static const Special *special_at(const netc_tokenizer *t, bool late, const unsigned char *at,
                                 const unsigned char *end)
{
    if (!t->special_begins[late][*at]) return NULL;
    const Special *from = t->specials.at + (late ? t->early : 0), *found = NULL,
                  *to = t->specials.at + (late ? t->specials.n : t->early);
    for (size_t n = 0; from < to && n < (size_t)(end - at);) {
        from = first_above(from, to, n, at[n] - 1);
        to = first_above(from, to, n, at[n]);
        n++;
        if (from < to && from->n == n) found = from++;
    }
    return found;
}

// Encodes the text between special tokens that are not late; then between those that are.
static netc_status between(Encoder *e, bool late, const unsigned char *from,
                           const unsigned char *end, netc_error **err)
{
    netc_status status = NETC_OK;
    while (from < end && status == NETC_OK) {
        const unsigned char *to = from;
        const Special *s = NULL;
        while (to < end && !(s = special_at(e->t, late, to, end))) to++;
        status = late ? plain_text(e, from, to, err) : between(e, true, from, to, err);
        if (status == NETC_OK && s) {
            if (!tokens_reserve(&e->out, 1)) return OUT_OF_MEMORY(err);
            e->out.at[e->out.n++] = (uint32_t)s->token;
            to += s->n;
        }
        from = to;
    }
    return status;
}

netc_status encode_text(Encoder *e, const void *text, size_t n, netc_error **err)
{
    const unsigned char *from = text, *end = from + n;
    e->begin = from;
    if (!n) return NETC_OK;
    if (e->plain || !e->t->specials.n) return plain_text(e, from, end, err);
    return between(e, false, from, end, err);
}
