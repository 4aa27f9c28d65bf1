// Internal: a tokenizer, and what its readers fill in.
#ifndef LIB_TOKENS_TOKENIZER_H
#define LIB_TOKENS_TOKENIZER_H

#include "lib/lib.h"
#include "lib/tokens/bpe.h"
#include "lib/tokens/pattern.h"

typedef struct Special { // a text that is always one token
    const unsigned char *text;
    size_t n;
    int32_t token;
    bool late; // searched only in text between the other special tokens
} Special;

enum { MOST_CUTS = 16 };

struct netc_tokenizer {
    Arena *arena;
    const char *path; // for messages
    Bpe *bpe;
    const Pattern *cut[MOST_CUTS]; // the first pattern cuts text into pieces, the second cuts
                                   // these, and so on
    int ncuts;
    bool bytes;            // one token per byte, without pieces
    bool space_first;      // texts that do not begin with a space are encoded with one before them
    VEC(Special) specials; // sorted by late, then by text
    uint32_t early;        // number of those that are not late
    bool special_begins[2][256]; // by late: some special token begins with this byte
    int64_t count;               // all token numbers are less
    uint8_t *category;           // from unicode_categories
};

// Readers run in a guarded arena: if memory runs out, they do not return.
typedef struct Reading {
    netc_tokenizer *t;
    const char *path, *pattern; // as given; pattern may be NULL
    netc_error **err;
    netc_status status;
    void *owned[4]; // files, freed at the end
    int nowned;
} Reading;

bool reading_failed(const Reading *r);
void reading_fail(Reading *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Reads a whole file; NULL: an error was reported.
const char *reading_file(Reading *r, const char *path, size_t *n);
void reading_add(Reading *r, const char *file, int64_t token, const void *bytes, size_t n);
void reading_special(Reading *r, const char *file, int64_t token, const char *text, bool late);
void reading_cut(Reading *r, const char *file, const char *pattern, PatternKind kind);

// Converts the text of a byte-level vocabulary to the bytes it represents. false: it contains other
// characters.
bool byte_level(Arena *a, const char *text, Bytes *out);
extern const char gpt2_pattern[];
// A pattern by its name ("gpt2", "cl100k", "o200k", "llama3"); NULL: unknown.
const char *named_pattern(const char *name);

// The readers.
void read_json(Reading *r, const char *path);
void read_gpt2(Reading *r, const char *vocab, const char *merges);
void read_ranks(Reading *r, const char *path);

#endif
