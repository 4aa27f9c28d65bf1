// Numbers and characters as text, independent of the process's locale: a host whose locale has a
// decimal comma reads and writes the same models, files and kernels.
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

double plain_double(const char *text, char **end); // strtod
float plain_float(const char *text, char **end);   // strtof
// snprintf and vsnprintf.
int plain_format(char *out, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int plain_vformat(char *out, size_t n, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));
bool plain_match(const char *pattern, const char *text); // fnmatch

// The end of a noun behind n: "1 row", "2 rows".
static inline const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static inline bool plain_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool plain_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool plain_alnum(char c)
{
    return plain_alpha(c) || plain_digit(c);
}

static inline bool plain_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

#endif
