#include "base/folders.h"

#include <stdio.h>
#include <stdlib.h>

char *cache_folder(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    if (xdg && *xdg == '/') return asprintf(&dir, "%s/netc", xdg) < 0 ? NULL : dir;
    if (home && *home == '/') return asprintf(&dir, "%s/.cache/netc", home) < 0 ? NULL : dir;
    return NULL;
}
