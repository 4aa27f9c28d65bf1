// Characters as the reference tokenizers see them: Unicode 16.0, which is that of tiktoken 0.14 and
// of Hugging Face's tokenizers 0.23 (unicode_table.c: tools/unicode.py).
#ifndef LIB_TOKENS_UNICODE_H
#define LIB_TOKENS_UNICODE_H

#include <stddef.h>
#include <stdint.h>

// The general category, in the order of tools/unicode.py.
typedef enum UnicodeCategory {
    UC_CN,
    UC_LU,
    UC_LL,
    UC_LT,
    UC_LM,
    UC_LO,
    UC_MN,
    UC_MC,
    UC_ME,
    UC_ND,
    UC_NL,
    UC_NO,
    UC_PC,
    UC_PD,
    UC_PS,
    UC_PE,
    UC_PI,
    UC_PF,
    UC_PO,
    UC_SM,
    UC_SC,
    UC_SK,
    UC_SO,
    UC_ZS,
    UC_ZL,
    UC_ZP,
    UC_CC,
    UC_CF,
    UC_CS,
    UC_CO,
    UC_COUNT
} UnicodeCategory;

enum { UNICODE_END = 0x110000 };

extern const int unicode_range_count;
extern const uint32_t unicode_range[];

// The category of every code point, UNICODE_END bytes.
void unicode_categories(uint8_t *out);
// The bits of the categories that \p{NAME} stands for; 0: no such name.
uint32_t unicode_named(const char *name, size_t n);

// The character at p < end and how many bytes it takes. A byte that begins no well-formed character
// stands for itself, as the surrogate U+DC00 + byte (which is no letter, number or space), as
// Python's "surrogateescape" has it.
static inline uint32_t utf8_next(const unsigned char *p, const unsigned char *end, int *bytes)
{
    uint32_t c = *p;
    *bytes = 1;
    if (c < 0x80) return c;
    int n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || end - p < n) return 0xdc00 + c;
    uint32_t v = c & (0xff >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0xdc00 + c;
        v = v << 6 | (p[i] & 0x3f);
    }
    if ((n == 3 && (v < 0x800 || (v >= 0xd800 && v < 0xe000))) ||
        (n == 4 && (v < 0x10000 || v >= UNICODE_END)))
        return 0xdc00 + c;
    *bytes = n;
    return v;
}

// Where the character begins that ends before p > begin.
static inline const unsigned char *utf8_before(const unsigned char *begin, const unsigned char *p)
{
    const unsigned char *q = p - 1;
    int bytes;
    while (q > begin && p - q < 4 && (*q & 0xc0) == 0x80) q--;
    utf8_next(q, p, &bytes);
    return q + bytes == p ? q : p - 1;
}

// The bytes of a character.
int utf8_put(uint32_t c, unsigned char out[4]);

#endif
