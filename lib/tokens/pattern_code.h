// Internal: compiled patterns, from pattern_compile.c to pattern.c.
#ifndef LIB_TOKENS_PATTERN_CODE_H
#define LIB_TOKENS_PATTERN_CODE_H

#include "lib/tokens/pattern.h"

typedef struct Range {
    uint32_t low, high; // both included
} Range;

typedef struct Set { // of characters
    bool ascii[128]; // the answer for those; the rest is of all others
    uint32_t categories;
    bool space, not_space, negated;
    VEC(Range) ranges;
} Set;

typedef enum Opcode {
    OP_SET,    // a character of the set
    OP_RUN,    // low to high of them, as many as there are, fewer where what follows fails
    OP_OWNED,  // the same, but never fewer: possessive
    OP_SPLIT,  // goes on behind it; where that fails, at [to]
    OP_JUMP,   // to [to]
    OP_AHEAD,  // what stands behind it, up to OP_MATCH before [to], must match here
    OP_NOT,    // must not
    OP_FINISH, // the end of the text
    OP_LINE,   // that, or before a new line
    OP_MATCH,
} Opcode;

typedef struct Code {
    Opcode op;
    int to;
    int64_t low, high;
    const Set *set;
} Code;

struct Pattern {
    const Code *code;
    const uint8_t *category;
    const char *text;
};

static inline bool is_white_space(uint32_t c) // the property White_Space
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static inline bool set_has(const Set *s, const uint8_t *category, uint32_t c)
{
    bool in = s->categories >> category[c] & 1;
    if (!in && (s->space || s->not_space)) in = is_white_space(c) ? s->space : s->not_space;
    for (uint32_t i = 0; !in && i < s->ranges.n; i++)
        in = c >= s->ranges.at[i].low && c <= s->ranges.at[i].high;
    return in != s->negated;
}

#endif
