// The compile cache: one file an entry, <dir>/<32 hex digits>. Plain files are all it needs: an
// entry is written once and never changed, lookups are by exact key, and rename makes it appear
// whole. So any number of processes share it without locks, and deleting any of it is always safe.
// A database would add a lock to wait for and a file that can be damaged as a whole.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "runtime/device.h"

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
    // Two hashes of the bytes under different seeds, each chained with the length.
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

// mkdir -p. false: it is not there and cannot be made.
static bool make_dir(const char *dir)
{
    char path[4096];
    size_t n = strlen(dir);
    if (!n || n >= sizeof path) return false;
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i]) continue;
        char c = path[i];
        path[i] = 0;
        if (mkdir(path, 0777) && errno != EEXIST) return false;
        path[i] = c;
    }
    struct stat st;
    return stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
}

bool rt_cache_usable(const char *dir)
{
    return make_dir(dir) && access(dir, R_OK | W_OK | X_OK) == 0;
}

static uint64_t checksum(const void *p, size_t n)
{
    return hash_bytes(p, n, n);
}

static bool read_entry(FILE *f, RtKey k, Arena *a, void **bytes, size_t *n)
{
    Head h;
    struct stat st;
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic) || h.key_a != k.a ||
        h.key_b != k.b || fstat(fileno(f), &st) || (uint64_t)st.st_size != sizeof h + h.size)
        return false;
    void *p = arena_alloc(a, h.size + 1);
    if (fread(p, 1, h.size, f) != h.size || checksum(p, h.size) != h.checksum) return false;
    *bytes = p;
    *n = h.size;
    return true;
}

bool rt_cache_get(const RtCompileOptions *o, RtKey k, Arena *a, void **bytes, size_t *n)
{
    char path[4096];
    if (!o->cache_dir || !entry_path(o->cache_dir, k, path, sizeof path)) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = read_entry(f, k, a, bytes, n);
    fclose(f);
    if (!ok) {
        rt_log(o, "note: a damaged entry was removed from the compile cache: %s", path);
        unlink(path);
    }
    return ok;
}

static void say_unwritable(const RtCompileOptions *o, int why)
{
    if (o->unwritable && atomic_exchange(o->unwritable, true)) return;
    rt_log(o, "note: the compile cache cannot be written: %s: %s", o->cache_dir, strerror(why));
}

void rt_cache_put(const RtCompileOptions *o, RtKey k, const void *bytes, size_t n)
{
    char path[4096], temporary[4200];
    if (!o->cache_dir || !entry_path(o->cache_dir, k, path, sizeof path)) return;
    Head h = {.key_a = k.a, .key_b = k.b, .size = n, .checksum = checksum(bytes, n)};
    memcpy(h.magic, magic, sizeof magic);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = make_dir(o->cache_dir) ? mkstemp(temporary) : -1;
    if (fd < 0) {
        say_unwritable(o, errno);
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
    say_unwritable(o, why);
}
