// Folders of a user, and links.
#ifndef BASE_FOLDERS_H
#define BASE_FOLDERS_H

#include <stdbool.h>

// The folder of netc's caches: $XDG_CACHE_HOME/netc, else ~/.cache/netc. A relative path in these
// variables is ignored, as the XDG specification says: it would be another folder for every current
// folder. NULL: there is none. The caller frees it.
char *cache_folder(void);

// The file that is created or replaced by writing to path: what a link leads to, also if there is
// nothing yet. NULL: no memory. The caller frees it.
char *link_target(const char *path);

// The folder of a path. NULL: no memory. The caller frees it.
char *folder_of(const char *path);

// Whether writing to both paths creates or replaces the same file: the same name, behind links, in
// the same folder, however this is written. The folders must exist, unless the paths are equal.
bool same_target(const char *a, const char *b);

#endif
