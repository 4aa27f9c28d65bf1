// Growing buffers: the size doubles, and the old memory stays in the arena.
#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"

Buf buf_new(Arena *a)
{
    Buf b = {.arena = a, .data = arena_alloc(a, 64), .cap = 64};
    return b;
}

static void reserve(Buf *b, size_t more)
{
    if (more < b->cap - b->len) return;
    size_t cap = b->cap;
    while (cap - b->len <= more) cap *= 2;
    char *bigger = arena_alloc(b->arena, cap);
    memcpy(bigger, b->data, b->len + 1);
    b->data = bigger;
    b->cap = cap;
}

void buf_bytes(Buf *b, const void *p, size_t n)
{
    if (!n) return;
    reserve(b, n);
    memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_str(Buf *b, const char *s)
{
    buf_bytes(b, s, strlen(s));
}

void buf_char(Buf *b, char c)
{
    buf_bytes(b, &c, 1);
}

void buf_int(Buf *b, int64_t v)
{
    char text[24], *p = text + sizeof text;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (v < 0) *--p = '-';
    buf_bytes(b, p, (size_t)(text + sizeof text - p));
}

void buf_pad(Buf *b, int n, char c)
{
    while (n-- > 0) buf_char(b, c);
}

int buf_columns(const char *s)
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80; // (no continuation byte)
    return n;
}

void buf_printf(Buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t room = b->cap - b->len;
    int n = plain_vformat(b->data + b->len, room, fmt, args);
    if (n > 0 && (size_t)n >= room) {
        reserve(b, (size_t)n);
        plain_vformat(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    if (n > 0) b->len += (size_t)n;
    va_end(again);
    va_end(args);
}

void buf_double(Buf *b, double v)
{
    if (isnan(v) || isinf(v)) {
        buf_str(b, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        plain_format(text, sizeof text, "%.*g", digits, v);
        if (plain_double(text, NULL) == v) break;
    }
    buf_str(b, text);
    if (!strpbrk(text, ".e")) buf_str(b, ".0");
}
