// Reads tiktoken's rank files: one token per line, its bytes in base64, a space, and its number,
// which is also its rank in merging. The pattern that splits text is not in the file.
#include <inttypes.h>
#include <string.h>

#include "base/plain.h"
#include "lib/tokens/tokenizer.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
static const struct {
    const char *name, *pattern;
} patterns[] = {
    {"gpt2", gpt2_pattern},
    {"cl100k", "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+|"
               " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
    {"llama3", CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                            " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"o200k", "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
              "\\p{M}]+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
              "+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CONTRACTIONS
              "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

const char *named_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strcmp(patterns[i].name, name)) return patterns[i].pattern;
    return NULL;
}

// The pattern for published files with this name; otherwise NULL.
static const char *pattern_of_file(const char *path)
{
    static const char *const known[][2] = {
        {"r50k_base", "gpt2"}, {"p50k_base", "gpt2"}, {"gpt2", "gpt2"},
        {"cl100k", "cl100k"},  {"o200k", "o200k"},
    };
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(name, known[i][0], strlen(known[i][0]))) return known[i][1];
    return NULL;
}

static int letter_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

// Decodes base64. false: it is not valid.
static bool base64(const char *at, size_t n, unsigned char *out, size_t *count)
{
    *count = 0;
    if (!n || n % 4) return false;
    size_t pad = (at[n - 1] == '=') + (at[n - 1] == '=' && at[n - 2] == '=');
    uint32_t bits = 0;
    for (size_t i = 0; i < n - pad; i++) {
        int v = letter_value(at[i]);
        if (v < 0) return false;
        bits = bits << 6 | (uint32_t)v;
        size_t have = (i % 4) * 6 + 6; // bits in this group of four characters
        if (have >= 8 && have % 8 < 6) out[(*count)++] = (unsigned char)(bits >> have % 8);
    }
    return true;
}

// Searching for the parts of a token takes time quadratic in its length.
enum { LONGEST = 2048 };

static void read_line(Reading *r, const char *path, int line, const char *at, size_t n)
{
    const char *space = memchr(at, ' ', n);
    size_t first = space ? (size_t)(space - at) : 0, count;
    unsigned char *bytes = arena_alloc(r->t->arena, first + 1);
    int64_t rank = 0;
    bool ok = space && n - first > 1 && n - first < 12 && base64(at, first, bytes, &count);
    for (const char *p = space + 1; ok && p < at + n; p++) {
        ok = plain_digit(*p);
        rank = rank * 10 + *p - '0';
    }
    if (!ok)
        return reading_fail(r, "%s:%d: a token in base64, a space and its number are expected",
                            path, line);
    if (count > LONGEST)
        return reading_fail(r, "%s:%d: a token of %zu bytes; at most %d are supported", path, line,
                            count, LONGEST);
    reading_add(r, path, rank, bytes, count);
}

void read_ranks(Reading *r, const char *path)
{
    size_t n;
    const char *name = r->pattern ? r->pattern : pattern_of_file(path),
               *text = reading_file(r, path, &n);
    if (!text) return;
    if (name && !named_pattern(name))
        return reading_fail(r, "there is no pattern '%s'; there are gpt2, cl100k, llama3 and o200k",
                            name);
    int line = 1;
    for (const char *at = text, *end = text + n; at < end && !reading_failed(r); line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        const char *next = at + len + 1;
        if (len && at[len - 1] == '\r') len--;
        if (len) read_line(r, path, line, at, len);
        at = next;
    }
    if (reading_failed(r)) return;
    if (!name) // (said only of ranks: any text may have been given)
        return reading_fail(r,
                            "%s holds ranks, but not the pattern that splits text; give it with "
                            "--pattern: gpt2, cl100k, llama3 or o200k",
                            path);
    bpe_merge_by_number(r->t->bpe);
    r->t->bpe->whole = true;
    reading_cut(r, path, named_pattern(name), PATTERN_RUST);
}
