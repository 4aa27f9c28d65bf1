// Converts between positions of the protocol (a line, and units of UTF-16 or bytes in it) and byte
// offsets of a text.
#include <string.h>

#include "lsp/lsp.h"

Text text_of(Arena *a, const char *at, size_t len)
{
    Text t = {.at = at, .len = len, .nlines = 1};
    for (size_t i = 0; i < len; i++) t.nlines += at[i] == '\n';
    uint32_t *line = NEW_ARRAY(a, uint32_t, t.nlines), n = 0;
    for (size_t i = 0; i < len; i++)
        if (at[i] == '\n') line[++n] = (uint32_t)i + 1;
    t.line = line;
    return t;
}

static size_t line_end(const Text *t, uint32_t line)
{
    size_t end = line + 1 < t->nlines ? t->line[line + 1] - 1 : t->len;
    return end > t->line[line] && t->at[end - 1] == '\r' ? end - 1 : end;
}

// Bytes of the character at [at], at most up to [end].
static size_t character(const Text *t, size_t at, size_t end)
{
    size_t n = 1;
    while (at + n < end && ((unsigned char)t->at[at + n] & 0xc0) == 0x80) n++;
    return n;
}

static uint32_t units(const Text *t, size_t at, size_t bytes, bool utf8)
{
    return utf8 ? (uint32_t)bytes : (unsigned char)t->at[at] >= 0xf0 ? 2 : 1;
}

size_t text_offset(const Text *t, Position p, bool utf8)
{
    if (p.line >= t->nlines) return t->len;
    size_t at = t->line[p.line], end = line_end(t, p.line);
    for (uint32_t left = p.character; left && at < end;) {
        size_t n = character(t, at, end);
        uint32_t u = units(t, at, n, utf8);
        if (u > left) break; // within a character
        left -= u;
        at += n;
    }
    return at;
}

Position text_position(const Text *t, size_t offset, bool utf8)
{
    if (offset > t->len) offset = t->len;
    uint32_t low = 0, high = t->nlines;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (t->line[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    Position p = {.line = low};
    for (size_t at = t->line[low]; at < offset;) {
        size_t n = character(t, at, offset);
        p.character += units(t, at, n, utf8);
        at += n;
    }
    return p;
}
