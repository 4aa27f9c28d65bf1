// The compile cache: one file per entry, <dir>/<32 hex digits>. Plain files suffice: an entry is
// written once and never changed, is found by its exact key, and appears as a whole by a rename. So
// any number of processes share the cache without locks, and deleting any of it is always safe. A
// database would add a lock to wait for and a file that can be damaged as a whole.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "runtime/device.h"
#include "runtime/host/file.h"

static const char magic[8] = "netccac";

typedef struct Head {
    char magic[8];
    uint64_t key_a, key_b, size, checksum;
} Head;

RtKey rt_key_start(const char *what)
{
    RtKey k = {0x6e657463u, 0x9e3779b97f4a7c15u};
    rt_key_str(&k, what);
    return k;
}

void rt_key_bytes(RtKey *k, const void *p, size_t n)
{
    // Two hashes of the bytes with different seeds, each combined with the length.
    k->a = hash_mix(hash_mix(k->a, n), hash_bytes(p, n, 0x243f6a8885a308d3u));
    k->b = hash_mix(hash_mix(k->b, hash_bytes(p, n, 0x13198a2e03707344u)), n);
}

void rt_key_str(RtKey *k, const char *s)
{
    rt_key_bytes(k, s, strlen(s));
}

static bool entry_path(const char *dir, RtKey k, char *out, size_t n)
{
    int len = snprintf(out, n, "%s/%016llx%016llx", dir, (unsigned long long)k.a,
                       (unsigned long long)k.b);
    return len > 0 && (size_t)len < n;
}

// Entries are code that will be executed, so they are used only if no other user (except root) can
// write them.
static bool ours(const struct stat *st)
{
    return (st->st_uid == geteuid() || !st->st_uid) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

// Like mkdir -p; folders are accessible only to this user. false: it does not exist and cannot be
// created.
static bool make_dir(const char *dir)
{
    char path[4096];
    size_t n = strlen(dir);
    if (!n || n >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i]) continue;
        char c = path[i];
        path[i] = 0;
        if (mkdir(path, 0700) && errno != EEXIST) return false;
        path[i] = c;
    }
    return true;
}

// Why the folder cannot be used, considering its owner and mode; NULL: it can.
static const char *folder_fault(const char *dir)
{
    struct stat st;
    if (stat(dir, &st)) return strerror(errno);
    if (!S_ISDIR(st.st_mode)) return strerror(ENOTDIR);
    if (!ours(&st))
        return st.st_uid == geteuid()
                   ? "others can write to it, and code in it is run: chmod go-w it"
                   : "it belongs to another user, and code in it is run: name another";
    return NULL;
}

const char *rt_cache_fault(const char *dir)
{
    if (!make_dir(dir)) return strerror(errno);
    const char *fault = folder_fault(dir);
    return fault ? fault : access(dir, R_OK | W_OK | X_OK) ? strerror(errno) : NULL;
}

static uint64_t checksum(const void *p, size_t n)
{
    return hash_bytes(p, n, n);
}

typedef enum Found { ABSENT, DAMAGED, FOREIGN, FOUND } Found;

static Found read_entry(FILE *f, RtKey k, Arena *a, void **bytes, size_t *n)
{
    Head h;
    struct stat st;
    if (fstat(fileno(f), &st)) return ABSENT;
    if (!S_ISREG(st.st_mode) || !ours(&st)) return FOREIGN;
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic) || h.key_a != k.a ||
        h.key_b != k.b || h.size != (uint64_t)st.st_size - sizeof h)
        return DAMAGED;
    void *p = arena_try(a, h.size + 1);
    if (!p) return ABSENT;
    if (fread(p, 1, h.size, f) != h.size || checksum(p, h.size) != h.checksum) return DAMAGED;
    *bytes = p;
    *n = h.size;
    return FOUND;
}

// Reported only once if the context can remember it.
static void say_unusable(const RtCompileOptions *o, const char *what, const char *why)
{
    if (o->unwritable && atomic_exchange(o->unwritable, true)) return;
    rt_log(o, "note: the compile cache %s: %s: %s", what, o->cache_dir, why);
}

bool rt_cache_get(const RtCompileOptions *o, RtKey k, Arena *a, void **bytes, size_t *n)
{
    char path[4096];
    if (!o->cache_dir || o->fresh || !entry_path(o->cache_dir, k, path, sizeof path)) return false;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const char *fault = folder_fault(o->cache_dir);
    FILE *f = fault ? NULL : fdopen(fd, "r");
    Found found = f ? read_entry(f, k, a, bytes, n) : ABSENT;
    if (f)
        fclose(f);
    else
        close(fd);
    if (fault) say_unusable(o, "is not used", fault);
    if (found == DAMAGED) {
        rt_log(o, "note: a damaged entry was removed from the compile cache: %s", path);
        unlink(path);
    }
    if (found == FOREIGN)
        rt_log(o, "note: an entry of the compile cache that others can write to is ignored: %s",
               path);
    return found == FOUND;
}

void rt_cache_put(const RtCompileOptions *o, RtKey k, const void *bytes, size_t n)
{
    char path[4096], temporary[4200];
    if (!o->cache_dir || !entry_path(o->cache_dir, k, path, sizeof path)) return;
    Head h = {.key_a = k.a, .key_b = k.b, .size = n, .checksum = checksum(bytes, n)};
    memcpy(h.magic, magic, sizeof magic);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const char *fault = make_dir(o->cache_dir) ? folder_fault(o->cache_dir) : strerror(errno);
    int fd = fault ? -1 : rt_file_new(temporary, 0600);
    if (fd < 0) {
        say_unusable(o, "cannot be written", fault ? fault : strerror(errno));
        return;
    }
    FILE *f = fdopen(fd, "w");
    bool ok = f && fwrite(&h, sizeof h, 1, f) == 1 && fwrite(bytes, 1, n, f) == n;
    int why = errno;
    if (f) {
        if (fclose(f)) {
            why = ok ? errno : why;
            ok = false;
        }
    } else {
        close(fd);
    }
    if (ok && rename(temporary, path) == 0) return;
    if (ok) why = errno;
    unlink(temporary);
    say_unusable(o, "cannot be written", strerror(why));
}
