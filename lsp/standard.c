// The standard library's files, written read-only into the cache folder, so that every editor can
// open them. The folder is named after their contents, so two versions of netc have two folders.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folders.h"
#include "base/map.h"
#include "lsp/lsp.h"

static const char *folder(Arena *a)
{
    char *cache = cache_folder();
    if (!cache) return NULL;
    uint64_t hash = 0;
    const char *name, *text;
    for (int i = 0; netc_standard_file(i, &name, &text); i++)
        hash = hash_mix(hash, hash_bytes(text, strlen(text), 0));
    const char *in = arena_printf(a, "%s/std-%08x", cache, (unsigned)hash);
    free(cache);
    return in;
}

// As the compiler makes the cache's folder, which it does not use if others can write to it.
static bool make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        bool made = !mkdir(path, 0700) || errno == EEXIST;
        *p = '/';
        if (!made) return false;
    }
    return !mkdir(path, 0700) || errno == EEXIST;
}

static bool is_there(Arena *a, const char *path, const char *text)
{
    size_t n = strlen(text);
    char *old = arena_alloc(a, n + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && read(fd, old, n + 1) == (ssize_t)n && !memcmp(old, text, n);
    if (fd >= 0) close(fd);
    return same;
}

const char *standard_uri(Arena *a, const char *path)
{
    const char *in = folder(a), *name, *text;
    if (!in || strncmp(path, "std/", 4)) return NULL;
    for (int i = 0; netc_standard_file(i, &name, &text); i++) {
        if (strcmp(path + 4, name)) continue;
        const char *file = arena_printf(a, "%s/%s", in, name);
        if (is_there(a, file, text)) return uri_of(a, file);
        if (!make_folders(arena_strdup(a, in))) return NULL;
        const char *made = arena_printf(a, "%s.%d", file, (int)getpid());
        int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
        if (fd >= 0) ok = !close(fd) && ok;
        if (ok && !rename(made, file)) return uri_of(a, file);
        unlink(made);
        return NULL;
    }
    return NULL;
}

bool standard_is(const char *path)
{
    Arena *a = arena_new();
    jmp_buf full;
    if (!a) return false;
    if (setjmp(full)) return arena_free(a), false;
    arena_on_oom(a, &full);
    const char *in = folder(a);
    bool is = in && !strncmp(path, in, strlen(in)) && path[strlen(in)] == '/';
    arena_free(a);
    return is;
}
