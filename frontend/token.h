// Tokens: what the scanner finds (everything, comments and newlines too), and what the layout stage
// turns it into for the grammar: ends of statements, contextual keywords, balanced brackets.
#ifndef FRONTEND_TOKEN_H
#define FRONTEND_TOKEN_H

#include "base/diag.h"

typedef struct Token {
    int kind; // a token of frontend/parse.y
    Span span;
    const char *text; // a word, the digits of a number, or the contents of a string
    union {
        int64_t i; // T_INT; 2^63 is INT64_MIN, legal only after a minus sign
        double f;  // T_FLOAT
    };
} Token;

typedef struct Tokens {
    VEC(Token) list;
    uint32_t *match; // layout only: index of the matching bracket, otherwise 0
    bool fatal;      // nested too deeply, too large, or not text: must not be parsed
} Tokens;

// Every token of the source in order; lexical errors are reported.
void scan_source(Arena *a, Diags *d, uint32_t source, Tokens *out);
// Prepares tokens for the grammar. The result ends with T_END, its brackets are balanced (errors
// are reported at the opening bracket), statements end in T_SEP, and a word is a keyword only where
// it is used as one.
void layout_tokens(Arena *a, Diags *d, const Tokens *raw, Tokens *out);
// The words that are keywords everywhere; at the beginning of a statement; at the beginning of a
// clause of a statement. NULL after the last.
const char *reserved_word(uint32_t i);
const char *head_word(uint32_t i);
const char *clause_word(uint32_t i);
// A keyword that begins a statement and is spelt similarly, or NULL.
const char *nearest_head(const char *word);

enum { MAX_NESTING = 200, MAX_EXPR_DEPTH = 400 };

#endif
