#include "base/plain.h"

#include <fnmatch.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

// The calling thread's locale becomes "C", which is there without allocating; the one it had.
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

int plain_vformat(char *out, size_t n, const char *fmt, va_list args)
{
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
