// The regular expressions with which tokenizers split text into pieces, matched on bytes.
#ifndef LIB_TOKENS_PATTERN_H
#define LIB_TOKENS_PATTERN_H

#include <stdbool.h>

#include "base/arena.h"
#include "lib/tokens/unicode.h"

// Supported: alternatives, groups (?:…) and (?i:…), lookahead (?=…) and (?!…), sets […], \s \S \d
// \D \p{…} \P{…} of general categories, greedy and possessive repeats, $. Everything else is
// refused with a reason in *why, so no pattern is misinterpreted. A pattern that can match the
// empty text is refused, too.
typedef struct Pattern Pattern;
typedef enum PatternKind {
    PATTERN_RUST, // as in tiktoken: $ is the end of the text, {1,3}+ is possessive
    PATTERN_RUBY, // as in Hugging Face tokenizers (Oniguruma): $ also matches before a newline, and
                  // {1,3}+ is a repeat of a repeat
} PatternKind;
// category: from unicode_categories; must outlive the result.
const Pattern *pattern_compile(Arena *a, const char *text, size_t n, PatternKind kind,
                               const uint8_t *category, const char **why);
const char *pattern_text(const Pattern *p); // as given

typedef struct PatternWork { // memory for matching, which is reused; must be zeroed at first
    struct PatternBack *at;
    size_t n, cap;
    size_t steps, most;                // of one call of pattern_find
    const unsigned char *from, *reach; // range of the text that was looked at
    bool lost, slow; // out of memory; too many steps. The result is then not valid.
} PatternWork;
void pattern_work_free(PatternWork *w);

typedef struct Piece {
    const unsigned char *begin, *end;
} Piece;
// The first match in from..end. false: there is none. Some patterns take exponential time; the
// search ends (slow) after a number of steps proportional to the characters looked at.
bool pattern_find(const Pattern *p, PatternWork *w, const unsigned char *from,
                  const unsigned char *end, Piece *out);

#endif
