#include "base/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *cache_folder(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    if (xdg && *xdg == '/') return asprintf(&dir, "%s/netc", xdg) < 0 ? NULL : dir;
    if (home && *home == '/') return asprintf(&dir, "%s/.cache/netc", home) < 0 ? NULL : dir;
    return NULL;
}

char *link_target(const char *path)
{
    enum { LINKS = 40 }; // as many as Linux follows
    char *at = strdup(path), to[4096], *next = NULL;
    for (int i = 0; at && i < LINKS; i++) {
        ssize_t n = readlink(at, to, sizeof to);
        if (n < 0 || (size_t)n == sizeof to) break; // no link
        const char *slash = strrchr(at, '/');
        int folder = *to == '/' || !slash ? 0 : (int)(slash + 1 - at);
        if (asprintf(&next, "%.*s%.*s", folder, at, (int)n, to) < 0) next = NULL;
        free(at);
        at = next;
    }
    return at;
}
