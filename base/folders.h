// Folders of a user, and links.
#ifndef BASE_FOLDERS_H
#define BASE_FOLDERS_H

// The folder of netc's caches: $XDG_CACHE_HOME/netc, else ~/.cache/netc. A relative path in these
// variables is ignored, as the XDG specification says: it would be another folder for every current
// folder. NULL: there is none. The caller frees it.
char *cache_folder(void);

// The file that is created or replaced by writing to path: what a link leads to, also if there is
// nothing yet. NULL: no memory. The caller frees it.
char *link_target(const char *path);

#endif
