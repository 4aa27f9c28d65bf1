// Internal: a tokenizer, and what its readers fill in.
#ifndef LIB_TOKENS_TOKENIZER_H
#define LIB_TOKENS_TOKENIZER_H

#include "lib/lib.h"
#include "lib/tokens/bpe.h"
#include "lib/tokens/pattern.h"

typedef struct Special { // a text that is one token, wherever it stands
    const unsigned char *text;
    size_t n;
    int32_t token;
    bool late; // looked for where none of the others was found
} Special;

enum { MOST_CUTS = 16 };

struct netc_tokenizer {
    Arena *arena;
    const char *path; // for messages
    Bpe *bpe;
    const Pattern *cut[MOST_CUTS]; // text is cut into pieces by the first, those by the second, …
    int ncuts;
    bool bytes;                  // a byte a token, no pieces
    bool space_first;            // texts that begin with none are read with a space before them
    VEC(Special) specials;       // by late, then by text
    uint32_t early;              // of them are not late
    bool special_begins[2][256]; // by late: some such text begins so
    int64_t count;               // numbers are below it
    uint8_t *category;           // unicode_categories
};

// Reading goes on in a guarded arena: out of memory does not come back.
typedef struct Reading {
    netc_tokenizer *t;
    const char *path, *pattern; // as given; pattern: NULL or a name
    netc_error **err;
    netc_status status;
    void *owned[4]; // files, freed in the end
    int nowned;
} Reading;

bool reading_failed(const Reading *r);
void reading_fail(Reading *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// A whole file; NULL: reported.
const char *reading_file(Reading *r, const char *path, size_t *n);
void reading_add(Reading *r, const char *file, int64_t token, const void *bytes, size_t n);
void reading_special(Reading *r, const char *file, int64_t token, const char *text, bool late);
void reading_cut(Reading *r, const char *file, const char *pattern, PatternKind kind);

// The alphabet of byte-level vocabularies: the bytes that a token's text stands for; false: it has
// a character of another alphabet.
bool byte_level(Arena *a, const char *text, Bytes *out);
extern const char gpt2_pattern[];
// A pattern by its name ("gpt2", "cl100k", "o200k", "llama3"); NULL: no such.
const char *named_pattern(const char *name);

// The readers.
void read_json(Reading *r, const char *path);
void read_gpt2(Reading *r, const char *vocab, const char *merges);
void read_ranks(Reading *r, const char *path);

#endif
