// Any bytes as a pattern, and what follows its first zero byte as text: pieces lie in it, one
// behind the other.
#include <stdlib.h>
#include <string.h>

#include "lib/tokens/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t category[UNICODE_END];
    if (!category['a']) unicode_categories(category);
    const uint8_t *zero = n ? memchr(data, 0, n) : NULL, *end = data + n;
    size_t len = zero ? (size_t)(zero - data) : n;
    const uint8_t *text = zero ? zero + 1 : end;
    if (end - text > 200) end = text + 200; // a find may take some millions of steps
    if (len > 40) return 0;
    Arena *a = arena_new();
    const char *why = NULL;
    const Pattern *p =
        pattern_compile(a, (const char *)data, len, (PatternKind)(n & 1), category, &why);
    if (!p != (why != NULL)) abort();
    PatternWork w = {0};
    Piece piece;
    while (p && pattern_find(p, &w, text, end, &piece)) {
        if (piece.begin < text || piece.end <= piece.begin || piece.end > end || w.n) abort();
        text = piece.end;
    }
    pattern_work_free(&w);
    arena_free(a);
    return 0;
}
