#include "base/plain.h"

#include <fnmatch.h>
#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Switches the calling thread to the "C" locale, which needs no allocation; returns the previous
// one.
static locale_t enter(locale_t *c)
{
    *c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *c ? uselocale(*c) : (locale_t)0;
}

static void leave(locale_t c, locale_t before)
{
    if (!c) return;
    uselocale(before);
    freelocale(c);
}

double plain_double(const char *text, char **end)
{
    locale_t c, before = enter(&c);
    double v = strtod(text, end);
    leave(c, before);
    return v;
}

float plain_float(const char *text, char **end)
{
    locale_t c, before = enter(&c);
    float v = strtof(text, end);
    leave(c, before);
    return v;
}

// -- formats of strings and integers --------------------------------------------------------------
// Nearly everything that a compilation prints is formatted here, without locale or stdio.

typedef enum Length { LEN_INT, LEN_LONG, LEN_LONG_LONG } Length;

typedef struct Spec {       // one conversion: %[-0][width][.precision][l ll z]c
    bool left, zeros, star; // star: the precision is an argument
    size_t width;
    Length length;
    char conversion;
    const char *end;
} Spec;

// Parses the conversion after a %. false: it is not supported here.
static bool read_spec(const char *p, Spec *s)
{
    *s = (Spec){0};
    for (; *p == '-' || *p == '0'; p++) {
        if (*p == '-') s->left = true;
        if (*p == '0') s->zeros = true;
    }
    for (; plain_digit(*p); p++) s->width = s->width * 10 + (size_t)(*p - '0');
    if (p[0] == '.' && p[1] == '*' && p[2] == 's') s->star = true, p += 2;
    if (*p == 'z') s->length = LEN_LONG, p++;
    for (; *p == 'l' && s->length < LEN_LONG_LONG; p++) s->length++;
    s->conversion = *p;
    s->end = p + 1;
    if (*p == 's' || *p == 'c') return s->length == LEN_INT && !s->zeros;
    return *p == 'd' || *p == 'u' || *p == 'x' || (*p == '%' && !s->width);
}

typedef struct Out {
    char *at;
    size_t room, length; // length: of the whole text, of which [room] bytes are kept
} Out;

static void put(Out *o, const char *text, size_t n)
{
    if (o->length < o->room) {
        size_t left = o->room - o->length;
        memcpy(o->at + o->length, text, n < left ? n : left);
    }
    o->length += n;
}

static void fill(Out *o, char c, size_t n)
{
    for (; n; n--) put(o, &c, 1);
}

static void put_padded(Out *o, const Spec *s, const char *sign, const char *text, size_t n)
{
    size_t signs = strlen(sign), pad = s->width > n + signs ? s->width - n - signs : 0;
    bool zeros = s->zeros && !s->left;
    if (!s->left && !zeros) fill(o, ' ', pad);
    put(o, sign, signs);
    if (zeros) fill(o, '0', pad);
    put(o, text, n);
    if (s->left) fill(o, ' ', pad);
}

static void put_number(Out *o, const Spec *s, uint64_t v, bool negative)
{
    char digits[24], *p = digits + sizeof digits;
    unsigned base = s->conversion == 'x' ? 16 : 10;
    do *--p = "0123456789abcdef"[v % base];
    while (v /= base);
    put_padded(o, s, negative ? "-" : "", p, (size_t)(digits + sizeof digits - p));
}

static bool all_simple(const char *fmt)
{
    Spec s;
    for (const char *p = fmt; (p = strchr(p, '%')); p = s.end)
        if (!read_spec(p + 1, &s)) return false;
    return true;
}

static int format_simple(char *out, size_t n, const char *fmt, va_list args)
{
    Out o = {out, n ? n - 1 : 0, 0};
    for (const char *p = fmt; *p;) {
        const char *percent = strchrnul(p, '%');
        put(&o, p, (size_t)(percent - p));
        if (!*percent) break;
        Spec s;
        read_spec(percent + 1, &s);
        p = s.end;
        if (s.conversion == '%') {
            put(&o, "%", 1);
        } else if (s.conversion == 'c') {
            char c = (char)va_arg(args, int);
            put_padded(&o, &s, "", &c, 1);
        } else if (s.conversion == 's') {
            int most = s.star ? va_arg(args, int) : -1;
            const char *text = va_arg(args, const char *);
            if (!text) text = "(null)";
            put_padded(&o, &s, "", text, most < 0 ? strlen(text) : strnlen(text, (size_t)most));
        } else if (s.conversion == 'd') {
            int64_t v = s.length == LEN_INT    ? va_arg(args, int)
                        : s.length == LEN_LONG ? va_arg(args, long)
                                               : va_arg(args, long long);
            put_number(&o, &s, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0);
        } else {
            uint64_t v = s.length == LEN_INT    ? va_arg(args, unsigned)
                         : s.length == LEN_LONG ? va_arg(args, unsigned long)
                                                : va_arg(args, unsigned long long);
            put_number(&o, &s, v, false);
        }
    }
    if (n) out[o.length < o.room ? o.length : o.room] = 0;
    return o.length > INT_MAX ? -1 : (int)o.length;
}

int plain_vformat(char *out, size_t n, const char *fmt, va_list args)
{
    if (all_simple(fmt)) return format_simple(out, n, fmt, args);
    locale_t c, before = enter(&c);
    int length = vsnprintf(out, n, fmt, args);
    leave(c, before);
    return length;
}

int plain_format(char *out, size_t n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = plain_vformat(out, n, fmt, args);
    va_end(args);
    return length;
}

bool plain_match(const char *pattern, const char *text)
{
    locale_t c, before = enter(&c);
    bool matches = !fnmatch(pattern, text, 0);
    leave(c, before);
    return matches;
}
