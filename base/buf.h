// A growing text or byte buffer in an arena. [data] always ends with a NUL.
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/arena.h"

typedef struct Buf {
    Arena *arena;
    char *data;
    size_t len, cap;
} Buf;

Buf buf_new(Arena *a);
void buf_bytes(Buf *b, const void *p, size_t n);
void buf_str(Buf *b, const char *s);
void buf_char(Buf *b, char c);
void buf_int(Buf *b, int64_t v);
void buf_pad(Buf *b, int n, char c); // n copies of c; nothing when n <= 0
int buf_columns(const char *s);      // how wide UTF-8 text is printed: its characters
void buf_printf(Buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The shortest decimal text that reads back as exactly v (1e-08, 0.1, inf, -inf, nan).
void buf_double(Buf *b, double v);

#endif
