// URIs of files and their paths.
#include <stdlib.h>
#include <string.h>

#include "lsp/lsp.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *uri_path(const char *uri)
{
    const char *p = uri;
    if (!strncmp(p, "file://", 7)) {
        p += 7;
        if (*p != '/') p += strcspn(p, "/"); // skips the host
    } else {
        const char *colon = strchr(p, ':');
        p = colon ? colon + 1 : p; // "untitled:Untitled-1" becomes a path that no file has
    }
    if (!*p) return NULL;
    char *out = malloc(strlen(p) + 1), *q = out;
    if (!out) return NULL;
    for (; *p; p++) {
        int high = *p == '%' ? hex(p[1]) : -1, low = high >= 0 ? hex(p[2]) : -1;
        int c = low >= 0 ? high * 16 + low : (unsigned char)*p;
        if (!c) return free(out), NULL; // %00 is not allowed
        if (low >= 0) p += 2;
        *q++ = (char)c;
    }
    *q = 0;
    return out;
}

const char *uri_of(Arena *a, const char *path)
{
    Buf b = buf_new(a);
    buf_str(&b, "file://");
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool plain =
            (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("/-._~", c);
        if (plain)
            buf_char(&b, (char)c);
        else
            buf_printf(&b, "%%%02X", c);
    }
    return b.data;
}
