// Shared by the readers of tokenizer files: errors, reading files, adding what they find to the
// tokenizer.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/tokens/tokenizer.h"
#include "runtime/host/file.h"

bool reading_failed(const Reading *r)
{
    return r->status != NETC_OK;
}

void reading_fail(Reading *r, const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    plain_vformat(text, sizeof text, fmt, args);
    va_end(args);
    if (r->status == NETC_OK) r->status = lib_fail(r->err, NETC_INVALID, "%s", text);
}

const char *reading_file(Reading *r, const char *path, size_t *n)
{
    RtBytes b;
    RtError e = {0};
    if (rt_bytes_read_raw(path, &b, &e)) {
        r->status = lib_fail_rt(r->err, &e);
        return NULL;
    }
    r->owned[r->nowned++] = b.at;
    *n = b.n;
    return (const char *)b.at;
}

static bool number_possible(Reading *r, const char *file, int64_t token, const void *bytes,
                            size_t n)
{
    if (token >= 0 && token < MOST_TOKENS) return true;
    reading_fail(r, "%s: token '%.*s' has the number %" PRId64 ", which is not a number below 2^24",
                 file, (int)(n < 40 ? n : 40), (const char *)bytes, token);
    return false;
}

void reading_add(Reading *r, const char *file, int64_t token, const void *bytes, size_t n)
{
    if (!number_possible(r, file, token, bytes, n)) return;
    if (!n || !bpe_add(r->t->bpe, (int32_t)token, bytes, n))
        reading_fail(r,
                     n ? "%s is damaged: token %" PRId64 " or its bytes appear twice"
                       : "%s is damaged: token %" PRId64 " is empty",
                     file, token);
}

void reading_special(Reading *r, const char *file, int64_t token, const char *text, bool late)
{
    size_t n = strlen(text);
    if (reading_failed(r) || !number_possible(r, file, token, text, n)) return;
    if (!bpe_name(r->t->bpe, (int32_t)token, text, n))
        return reading_fail(r, "%s is damaged: token %" PRId64 " has two texts", file, token);
    const unsigned char *at = (unsigned char *)arena_strdup(r->t->arena, text);
    vec_push(r->t->arena, &r->t->specials, (Special){at, n, (int32_t)token, late});
    r->t->special_begins[late][*at] = true;
}

void reading_cut(Reading *r, const char *file, const char *pattern, PatternKind kind)
{
    netc_tokenizer *t = r->t;
    const char *why = "too many patterns";
    if (reading_failed(r)) return;
    const Pattern *p = t->ncuts < MOST_CUTS ? pattern_compile(t->arena, pattern, strlen(pattern),
                                                              kind, t->category, &why)
                                            : NULL;
    if (!p)
        return reading_fail(r, "%s: the pattern '%.300s' cannot be used: %s", file, pattern, why);
    t->cut[t->ncuts++] = p;
}
