// Reads whole files and replaces files as a whole.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/folders.h"
#include "runtime/host/file.h"

// MemAvailable includes the page cache.
bool rt_host_memory(size_t *free_bytes, size_t *total_bytes)
{
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return false;
    char line[160];
    unsigned long long kb;
    int found = 0;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %llu kB", &kb) == 1)
            *total_bytes = (size_t)kb << 10, found |= 1;
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
            *free_bytes = (size_t)kb << 10, found |= 2;
    }
    fclose(f);
    return found == 3;
}

static RtCode no_name(RtError *e)
{
    return rt_fail(e, RT_USER, "the name of a file is empty: name one");
}

static RtCode open_failed(const char *path, RtError *e)
{
    if (!*path) return no_name(e);
    return rt_fail(e, errno == ENOMEM || errno == EMFILE || errno == ENFILE ? RT_ENV : RT_USER,
                   "cannot open %s: %s%s", path, strerror(errno),
                   strcmp(path, "-") ? "" : "; to read from a pipe, name /dev/stdin");
}

static RtCode too_big(const char *path, size_t n, RtError *e)
{
    return rt_fail(e, RT_OOM, "%s does not fit in memory: it needs %.1f MB", path, (double)n / 1e6);
}

// Like malloc, but refuses more than the available memory, since the process would be killed when
// it uses it.
static void *reserve(size_t n)
{
    size_t free_bytes, total;
    if (n > (64u << 20) && rt_host_memory(&free_bytes, &total) && n > free_bytes) return NULL;
    return malloc(n);
}

static RtCode open_file(const char *path, int *fd, struct stat *st, RtError *e)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return open_failed(path, e);
    if (fstat(*fd, st) == 0 && !S_ISDIR(st->st_mode)) return RT_OK;
    close(*fd);
    return rt_fail(e, RT_USER, "%s is a folder, not a file", path);
}

// The same for more memory for p, which has cap bytes.
static void *grown(void *p, size_t cap, size_t more)
{
    size_t free_bytes, total;
    if (more > 256u << 20 && rt_host_memory(&free_bytes, &total) && more - cap >= free_bytes)
        return NULL;
    return realloc(p, more);
}

// Reads to the end of the file; grows the buffer if the size is not known (a pipe) or was wrong.
static RtCode read_all(int fd, const char *path, size_t expected, RtBytes *out, RtError *e)
{
    size_t cap = expected ? expected + 1 : 1 << 16, n = 0;
    unsigned char *p = reserve(cap);
    if (!p) return too_big(path, cap, e);
    for (;;) {
        if (n == cap) {
            size_t more = cap + cap / 2;
            unsigned char *q = grown(p, cap, more);
            if (!q) {
                free(p);
                if (expected) return too_big(path, more, e);
                return rt_fail(e, RT_OOM,
                               "%s has not ended after %.1f MB, and more does not fit in memory",
                               path, (double)n / 1e6);
            }
            p = q;
            cap = more;
        }
        ssize_t k = read(fd, p + n, cap - n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            free(p);
            return rt_fail(e, RT_USER, "cannot read %s: %s", path, strerror(errno));
        }
        if (!k) break;
        n += (size_t)k;
    }
    *out = (RtBytes){.at = p, .n = n};
    return RT_OK;
}

RtCode rt_bytes_read_raw(const char *path, RtBytes *out, RtError *e)
{
    int fd;
    struct stat st;
    *out = (RtBytes){0};
    if (open_file(path, &fd, &st, e)) return e->code;
    RtCode code = read_all(fd, path, S_ISREG(st.st_mode) ? (size_t)st.st_size : 0, out, e);
    close(fd);
    return code;
}

static RtCode gunzip(const char *path, RtBytes *b, size_t most, RtError *e)
{
    z_stream z = {.next_in = b->at};
    size_t cap = b->n < SIZE_MAX / 8 ? b->n * 4 + 64 : b->n, n = 0, fed = 0;
    if (cap > most) cap = most + 1;
    if (inflateInit2(&z, 15 + 16) != Z_OK) return rt_fail(e, RT_OOM, "out of memory");
    unsigned char *p = reserve(cap);
    RtCode code = p ? RT_OK : too_big(path, cap, e);
    int rc = Z_OK;
    while (!code) {
        if (!z.avail_in && fed < b->n) {
            size_t k = b->n - fed < 1u << 30 ? b->n - fed : 1u << 30;
            z.next_in = b->at + fed;
            z.avail_in = (unsigned)k;
            fed += k;
        }
        if (n > most) break; // more than requested
        if (n == cap) {
            size_t more = cap > most / 2 ? most + 1 : cap * 2;
            unsigned char *q = grown(p, cap, more);
            if (!q) {
                code = too_big(path, more, e);
                break;
            }
            p = q;
            cap = more;
        }
        size_t room = cap - n < 1u << 30 ? cap - n : 1u << 30;
        z.next_out = p + n;
        z.avail_out = (unsigned)room;
        rc = inflate(&z, Z_NO_FLUSH);
        n += room - z.avail_out;
        if (rc == Z_STREAM_END) {
            // Several gzip members may follow each other.
            if (!z.avail_in && fed == b->n) break;
            if (inflateReset(&z) != Z_OK) code = rt_fail(e, RT_USER, "%s: damaged gzip data", path);
            continue;
        }
        if (rc == Z_BUF_ERROR && z.avail_out == room && fed == b->n && !z.avail_in)
            code = rt_fail(e, RT_USER,
                           "%s is truncated: its gzip data end early, after %zu bytes of contents",
                           path, n);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            code = rt_fail(e, RT_USER, "%s: damaged gzip data: %s", path,
                           z.msg ? z.msg : "cannot be decompressed");
    }
    inflateEnd(&z);
    if (code) {
        free(p);
        return code;
    }
    free(b->at);
    *b = (RtBytes){p, n, true};
    return RT_OK;
}

static RtCode unpack(const char *path, size_t most, RtBytes *out, RtError *e)
{
    if (out->n > 2 && out->at[0] == 0x1f && out->at[1] == 0x8b && gunzip(path, out, most, e)) {
        free(out->at);
        *out = (RtBytes){0};
        return e->code;
    }
    return RT_OK;
}

RtCode rt_bytes_read(const char *path, size_t most, RtBytes *out, RtError *e)
{
    return rt_bytes_read_raw(path, out, e) ? e->code : unpack(path, most, out, e);
}

RtCode rt_bytes_read_open(int fd, const char *name, size_t most, RtBytes *out, RtError *e)
{
    *out = (RtBytes){0};
    return read_all(fd, name, 0, out, e) ? e->code : unpack(name, most, out, e);
}

bool rt_bytes_head(const char *path, size_t n, RtBytes *b, double *most)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return false; // a pipe can be read only once
    gzFile f = gzopen(path, "rb"); // gzopen reads uncompressed files, too
    int k = f ? gzread(f, b->at, (unsigned)n) : -1;
    b->packed = f && !gzdirect(f);
    *most = (double)st.st_size * (b->packed ? 1032 : 1); // the best compression of deflate
    if (f) gzclose(f);
    b->n = k > 0 ? (size_t)k : 0;
    return k > 0;
}

RtCode rt_file_read(Arena *a, const char *path, void **bytes, size_t *n, RtError *e)
{
    RtBytes b;
    *bytes = NULL;
    *n = 0;
    if (rt_bytes_read_raw(path, &b, e)) return e->code;
    char *p = arena_try(a, b.n + 1); // the contents are followed by a zero byte
    if (p) {
        memcpy(p, b.at, b.n);
        *bytes = p;
        *n = b.n;
    }
    free(b.at);
    return p ? RT_OK : too_big(path, b.n, e);
}

// -- writing --------------------------------------------------------------------------------------
static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n < 1u << 30 ? n : 1u << 30);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static RtCode write_failed(const char *path, int why, RtError *e)
{
    bool user = why == ENOENT || why == EACCES || why == ENOTDIR || why == EISDIR || why == EROFS ||
                why == ENAMETOOLONG;
    return rt_fail(e, user ? RT_USER : RT_ENV, "cannot write %s: %s%s", path, strerror(why),
                   why == ENOSPC || why == EFBIG || why == EDQUOT
                       ? "; the file that was there before, if any, is unchanged"
                       : "");
}

// Syncs the folder, so that the rename survives a power failure.
static void sync_folder(const char *path)
{
    char dir[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof dir) return;
    memcpy(dir, path, n);
    dir[n] = 0;
    int fd = open(slash ? (n ? dir : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int rt_file_new(char *path, unsigned mode)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    enum { TRIES = 100, LETTERS = 6 };
    char *end = path + strlen(path) - LETTERS;
    for (int i = 0; i < TRIES; i++) {
        unsigned char random[LETTERS];
        if (getrandom(random, sizeof random, 0) != sizeof random) return -1;
        for (int k = 0; k < LETTERS; k++) end[k] = letters[random[k] % (sizeof letters - 1)];
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

RtCode rt_writer_begin(RtWriter *w, const char *path, RtError *e)
{
    struct stat st;
    *w = (RtWriter){.fd = -1, .path = path};
    if (!*path) return no_name(e);
    bool there = stat(path, &st) == 0;
    if (!there && errno == ENAMETOOLONG) return write_failed(path, errno, e);
    if (there && S_ISDIR(st.st_mode)) return write_failed(path, EISDIR, e);
    if (there && !S_ISREG(st.st_mode)) { // a pipe or a terminal
        w->fd = open(path, O_WRONLY | O_CLOEXEC);
        return w->fd < 0 ? write_failed(path, errno, e) : RT_OK;
    }
    w->to = link_target(path); // replaces the target of a link, not the link
    if (!w->to) return rt_fail(e, RT_OOM, "out of memory");
    rt_file_sweep(w->to);
    w->temporary = rt_file_beside(w->to, there ? 0600 : 0666, &w->fd);
    int why = errno;
    if (!w->temporary || w->fd < 0) {
        free(w->to);
        if (!w->temporary) return rt_fail(e, RT_OOM, "out of memory");
        free(w->temporary);
        return write_failed(path, why, e);
    }
    w->mode = there ? (int)(st.st_mode & 0777) : -1;
    return RT_OK;
}

RtCode rt_writer_put(RtWriter *w, const void *bytes, size_t n, RtError *e)
{
    return write_all(w->fd, bytes, n) ? RT_OK : write_failed(w->path, errno, e);
}

RtCode rt_writer_put_at(RtWriter *w, uint64_t at, const void *bytes, size_t n, RtError *e)
{
    if (lseek(w->fd, (off_t)at, SEEK_SET) >= 0) return rt_writer_put(w, bytes, n, e);
    return write_failed(w->path, errno, e);
}

RtCode rt_writer_again(RtWriter *w, const void *bytes, size_t n, RtError *e)
{
    return rt_writer_put_at(w, 0, bytes, n, e);
}

RtCode rt_writer_end(RtWriter *w, RtCode code, RtError *e)
{
    bool ok = !code, file = w->temporary != NULL;
    if (file) ok = ok && (w->mode < 0 || fchmod(w->fd, (mode_t)w->mode) == 0) && fsync(w->fd) == 0;
    int why = errno;
    // Renames before closing: closing releases the lock, after which another process's sweep may
    // remove the file.
    if (file && ok && rename(w->temporary, w->to)) why = errno, ok = false;
    bool renamed = file && ok;
    if (close(w->fd) && ok) why = errno, ok = false;
    if (renamed) sync_folder(w->to);
    if (file && !renamed) unlink(w->temporary);
    free(w->temporary);
    free(w->to);
    return code ? code : ok ? RT_OK : write_failed(w->path, why, e);
}

RtCode rt_file_try(const char *path, RtError *e)
{
    struct stat st;
    RtWriter w;
    bool there = !stat(path, &st);
    if (there && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) // opening it could wait for ever
        return rt_fail(e, RT_USER, "%s is a pipe: name a file", path);
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return access(path, W_OK) ? write_failed(path, errno, e) : RT_OK;
    if (rt_writer_begin(&w, path, e)) return e->code;
    RtError given_up = {0};
    rt_writer_end(&w, RT_USER, &given_up);
    return RT_OK;
}

RtCode rt_file_write_parts(const char *path, const RtPart *parts, int nparts, RtError *e)
{
    RtWriter w;
    if (rt_writer_begin(&w, path, e)) return e->code;
    RtCode code = RT_OK;
    for (int i = 0; i < nparts && !code; i++)
        code = rt_writer_put(&w, parts[i].bytes, parts[i].n, e);
    return rt_writer_end(&w, code, e);
}

RtCode rt_file_compose(const char *path, RtCode (*make)(Arena *a, const void *what),
                       const void *what, RtError *e)
{
    Arena *a = arena_new();
    if (!a) return rt_fail(e, RT_OOM, "out of memory");
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_free(a);
        return rt_fail(e, RT_OOM, "out of memory while writing %s", path);
    }
    arena_on_oom(a, &oom);
    RtCode code = make(a, what);
    arena_free(a);
    return code;
}

RtCode rt_file_write(const char *path, const void *bytes, size_t n, RtError *e)
{
    RtPart part = {bytes, n};
    return rt_file_write_parts(path, &part, 1, e);
}
