// The regular expressions with which tokenizers split text into pieces, matched on bytes.
#ifndef LIB_TOKENS_PATTERN_H
#define LIB_TOKENS_PATTERN_H

#include <stdbool.h>

#include "base/arena.h"
#include "lib/tokens/unicode.h"

// Alternatives, groups (?:…) and (?i:…), lookahead (?=…) and (?!…), sets […], \s \S \d \D \p{…}
// \P{…} of general categories, greedy and possessive repeats, $. Everything else is refused, the
// reason in *why: a pattern is never read as another one. So is one that may match nothing.
typedef struct Pattern Pattern;
typedef enum PatternKind {
    PATTERN_RUST, // as tiktoken reads it: $ is the end of the text, {1,3}+ is possessive
    PATTERN_RUBY, // as Hugging Face's tokenizers do (Oniguruma): $ is also before a new line, and
                  // {1,3}+ repeats
} PatternKind;
// category: unicode_categories, which must outlive it.
const Pattern *pattern_compile(Arena *a, const char *text, size_t n, PatternKind kind,
                               const uint8_t *category, const char **why);
const char *pattern_text(const Pattern *p); // as it was given

typedef struct PatternWork { // of matching, reused: zeroed in the beginning
    struct PatternBack *at;
    size_t n, cap;
    size_t steps, most;                // of one find
    const unsigned char *from, *reach; // what it has seen
    bool lost, slow; // out of memory; too many steps: nothing that was found counts
} PatternWork;
void pattern_work_free(PatternWork *w);

typedef struct Piece {
    const unsigned char *begin, *end;
} Piece;
// The first match in from..end. false: there is none. Patterns can be such that looking takes time
// without end: it stops (slow) after steps in proportion to the characters looked at.
bool pattern_find(const Pattern *p, PatternWork *w, const unsigned char *from,
                  const unsigned char *end, Piece *out);

#endif
