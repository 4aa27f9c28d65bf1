// Internal: compiled patterns, from pattern_compile.c to pattern.c.
#ifndef LIB_TOKENS_PATTERN_CODE_H
#define LIB_TOKENS_PATTERN_CODE_H

#include "lib/tokens/pattern.h"

typedef struct Range {
    uint32_t low, high; // inclusive
} Range;

typedef struct Set { // of characters
    bool ascii[128]; // for ASCII; the other members are for other characters
    uint32_t categories;
    bool space, not_space, negated;
    VEC(Range) ranges;
} Set;

typedef enum Opcode {
    OP_SET,   // one character in the set
    OP_RUN,   // low to high characters in the set, as many as possible, fewer if what follows fails
    OP_OWNED, // the same, but never fewer (possessive)
    OP_SPLIT, // continues with the next instruction or, if that fails, at [to]
    OP_JUMP,  // continues at [to]
    OP_AHEAD, // the following instructions, up to OP_MATCH before [to], must match here
    OP_NOT,   // the same, but must not match
    OP_FINISH, // end of the text
    OP_LINE,   // end of the text, or before a newline
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

static inline bool is_white_space(uint32_t c) // the Unicode property White_Space
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
