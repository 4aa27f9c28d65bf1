#include "base/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

char *folder_of(const char *path)
{
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!slash) return free(folder), strdup(".");
    slash[slash == folder] = 0; // (the folder of "/x" is "/")
    return folder;
}

static bool same_place(const char *a, const char *b)
{
    struct stat x, y;
    const char *p = strrchr(a, '/'), *q = strrchr(b, '/');
    if (strcmp(p ? p + 1 : a, q ? q + 1 : b)) return false;
    char *in = folder_of(a), *other = folder_of(b);
    bool same = in && other && !stat(in, &x) && !stat(other, &y) && x.st_dev == y.st_dev &&
                x.st_ino == y.st_ino;
    free(in);
    free(other);
    return same;
}

bool same_target(const char *a, const char *b)
{
    if (!strcmp(a, b)) return true;
    char *to = link_target(a), *also = link_target(b);
    bool same = to && also && same_place(to, also);
    free(to);
    free(also);
    return same;
}
