// Reads GPT-2's files: vocab.json (token: number) and merges.txt (one pair per line, in the order
// of merging), and the alphabet they are written in.
#include <inttypes.h>
#include <string.h>

#include "lib/tokens/tokenizer.h"

const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Printable bytes represent themselves; the others are represented by U+0100 and following, in
// order.
static int byte_of(uint32_t c)
{
    if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff))
        return (int)c;
    if (c < 0x100 || c >= 0x144) return -1;
    int k = (int)c - 0x100;
    return k < 33 ? k : k < 67 ? k - 33 + 127 : 0xad;
}

bool byte_level(Arena *a, const char *text, Bytes *out)
{
    size_t n = strlen(text), k = 0;
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    unsigned char *to = arena_alloc(a, n + 1);
    for (int bytes; p < end; p += bytes) {
        int byte = byte_of(utf8_next(p, end, &bytes));
        if (byte < 0) return false;
        to[k++] = (unsigned char)byte;
    }
    *out = (Bytes){to, k};
    return true;
}

static void read_vocabulary(Reading *r, const char *path)
{
    size_t n;
    const char *text = reading_file(r, path, &n), *wrong;
    if (!text) return;
    Arena *a = r->t->arena;
    const JsonValue *v = json_parse(a, text, n, &wrong);
    if (!v) return reading_fail(r, "%s is not a vocabulary: it is not JSON: %s", path, wrong);
    const JsonValue *model = json_get(v, "model"); // "model" may also be a word of a vocabulary,
                                                   // with a number
    if (v->kind != JSON_OBJECT || (model && model->kind == JSON_OBJECT))
        return reading_fail(r, "%s is not a vocabulary: tokens and their numbers are expected",
                            path);
    for (const JsonValue *k = v->child; k && !reading_failed(r); k = k->next) {
        Bytes b;
        if (k->kind != JSON_NUMBER || !k->is_int)
            reading_fail(r, "%s is damaged: token '%s' has no number", path, k->key);
        else if (!byte_level(a, k->key, &b))
            reading_fail(
                r,
                "%s: token '%s' is not of a byte-level vocabulary, the only kind that can be read",
                path, k->key);
        else
            reading_add(r, path, k->integer, b.at, b.n);
        if (!strcmp(k->key, "<|endoftext|>")) reading_special(r, path, k->integer, k->key, false);
    }
}

static void read_line(Reading *r, const char *path, int line, const char *at, size_t n,
                      int32_t *rank)
{
    Arena *a = r->t->arena;
    const char *space = memchr(at, ' ', n);
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - at)))
        return reading_fail(r, "%s:%d: two tokens and a space between them are expected", path,
                            line);
    size_t first = (size_t)(space - at);
    Bytes left, right;
    if (memchr(at, 0, n) || !byte_level(a, arena_strndup(a, at, first), &left) ||
        !byte_level(a, arena_strndup(a, space + 1, n - first - 1), &right))
        return reading_fail(r, "%s:%d: a token that is not of a byte-level vocabulary", path, line);
    Buf made = buf_new(a);
    buf_bytes(&made, left.at, left.n);
    buf_bytes(&made, right.at, right.n);
    const Bpe *b = r->t->bpe;
    int32_t x = bpe_find(b, left.at, left.n), y = bpe_find(b, right.at, right.n),
            z = bpe_find(b, made.data, made.len);
    if (x < 0 || y < 0 || z < 0)
        return reading_fail(r, "%s:%d: '%.*s' is not in the vocabulary", path, line,
                            (int)(x < 0   ? first
                                  : y < 0 ? n - first - 1
                                          : n),
                            x < 0   ? at
                            : y < 0 ? space + 1
                                    : at);
    if (!bpe_merge(r->t->bpe, x, y, (*rank)++, z))
        reading_fail(r, "%s:%d: '%.*s' appears twice", path, line, (int)n, at);
}

void read_gpt2(Reading *r, const char *vocab, const char *merges)
{
    size_t n;
    int32_t rank = 0;
    int line = 1;
    read_vocabulary(r, vocab);
    const char *text = reading_failed(r) ? NULL : reading_file(r, merges, &n);
    if (!text) return;
    for (const char *at = text, *end = text + n; at < end && !reading_failed(r); line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        const char *next = at + len + 1;
        if (len && at[len - 1] == '\r') len--;
        if (len && strncmp(at, "#version", 8)) read_line(r, merges, line, at, len, &rank);
        at = next;
    }
    reading_cut(r, vocab, gpt2_pattern, PATTERN_RUST);
}
