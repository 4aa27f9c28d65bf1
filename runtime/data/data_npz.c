// Reading NumPy's .npz: a zip archive of .npy files, stored or deflated (numpy.savez,
// savez_compressed).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/names.h"
#include "runtime/data/data_read.h"

bool rt_npz_named(const char *path)
{
    return rt_path_named(path, ".npz ");
}

enum { END = 22, ENTRY = 46, LOCAL = 30, WIDE_END = 56, WIDE_AT = 20, MOST_ARRAYS = 4096 };

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n; i-- > 0;) v = v << 8 | p[i];
    return v;
}

typedef struct Member { // a file in the archive
    const char *name;   // points into the archive, [n] bytes, without ".npy"
    size_t n;
    int method; // 0: stored, 8: deflated
    bool secret;
    uint32_t crc;
    uint64_t packed, size, at; // at: offset of its local header
} Member;

typedef struct Archive {
    const char *path;
    const unsigned char *at;
    size_t n;
    Member *member;
    int count;
    RtError *e;
} Archive;

static RtCode damaged(const Archive *z, const char *what)
{
    return rt_fail(z->e, RT_USER, "%s is damaged: %s", z->path, what);
}

// Reads sizes of 4 GiB and more from the extra field, where those that are missing appear in this
// order.
static void widen(Member *m, const unsigned char *extra, size_t n)
{
    uint64_t *wide[] = {&m->size, &m->packed, &m->at};
    for (size_t i = 0; i + 4 <= n;) {
        size_t len = (size_t)little(extra + i + 2, 2), at = i + 4, end = at + len;
        if (end > n) return;
        for (int k = 0; k < 3 && little(extra + i, 2) == 1; k++)
            if (*wide[k] == UINT32_MAX && at + 8 <= end) *wide[k] = little(extra + at, 8), at += 8;
        i = end;
    }
}

// Finds the end record, which is last in the archive except for a comment.
static const unsigned char *find_end(const Archive *z)
{
    for (size_t back = END; back <= z->n && back <= END + 65535; back++)
        if (!memcmp(z->at + z->n - back, "PK\5\6", 4)) return z->at + z->n - back;
    return NULL;
}

static RtCode read_list(Archive *z)
{
    const unsigned char *end = find_end(z);
    if (!end) return damaged(z, "a zip archive's list of files is missing");
    uint64_t count = little(end + 10, 2), at = little(end + 16, 4);
    if ((count == UINT16_MAX || at == UINT32_MAX) && end - z->at >= WIDE_AT &&
        !memcmp(end - WIDE_AT, "PK\6\7", 4)) {
        uint64_t wide = little(end - WIDE_AT + 8, 8);
        if (wide > z->n || z->n - wide < WIDE_END || memcmp(z->at + wide, "PK\6\6", 4))
            return damaged(z, "its list of files is not where it says");
        count = little(z->at + wide + 32, 8), at = little(z->at + wide + 48, 8);
    }
    if (count > MOST_ARRAYS) return damaged(z, "its list of files is too long");
    z->member = calloc((size_t)count + 1, sizeof *z->member);
    if (!z->member) return rt_fail(z->e, RT_OOM, "out of memory");
    for (uint64_t i = 0; i < count; i++) {
        if (at > z->n || z->n - at < ENTRY || memcmp(z->at + at, "PK\1\2", 4))
            return damaged(z, "its list of files is cut off");
        const unsigned char *p = z->at + at;
        size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2),
               all = ENTRY + name + extra + (size_t)little(p + 32, 2);
        if (z->n - at < all) return damaged(z, "its list of files is cut off");
        Member m = {.name = (const char *)p + ENTRY,
                    .n = name,
                    .method = (int)little(p + 10, 2),
                    .secret = p[8] & 1,
                    .crc = (uint32_t)little(p + 16, 4),
                    .packed = little(p + 20, 4),
                    .size = little(p + 24, 4),
                    .at = little(p + 42, 4)};
        widen(&m, p + ENTRY + name, extra);
        if (m.n > 4 && !memcmp(m.name + m.n - 4, ".npy", 4)) m.n -= 4;
        z->member[z->count++] = m;
        at += all;
    }
    return RT_OK;
}

static bool named(const Member *m, const char *name)
{
    return m->n == strlen(name) && !memcmp(m->name, name, m->n);
}

// The requested array, or the only one.
static RtCode pick(const Archive *z, const char *part, const Member **out)
{
    *out = NULL;
    for (int i = 0; i < z->count && part; i++)
        if (named(&z->member[i], part)) *out = &z->member[i];
    if (!part && z->count == 1) *out = &z->member[0];
    if (*out) return RT_OK;
    enum { MOST = 32, WIDE = 80 };
    char text[MOST][WIDE];
    const char *names[MOST];
    int n = z->count < MOST ? z->count : MOST;
    for (int i = 0; i < n; i++) {
        const Member *m = &z->member[i];
        snprintf(text[i], WIDE, "%.*s", (int)(m->n < WIDE ? m->n : WIDE), m->name);
        for (char *c = text[i]; *c; c++)
            if ((unsigned char)*c < ' ') *c = '?';
        names[i] = text[i];
    }
    if (part)
        return rt_fail(z->e, RT_USER, "%s has no array '%s'%s", z->path, part,
                       advise(part, names, (size_t)n).text);
    return rt_fail(z->e, RT_USER, "%s holds %d arrays; say which, as in %s:%s%s", z->path, z->count,
                   z->path, n ? names[0] : "NAME", n ? advise("", names, (size_t)n).text : "");
}

static bool inflate_all(const unsigned char *from, size_t n, unsigned char *to, size_t size)
{
    z_stream s = {0};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return false;
    int code = Z_OK;
    size_t in = 0, out = 0;
    while (code == Z_OK) { // in pieces, since zlib's counters are 32 bits
        enum { PIECE = 1 << 30 };
        size_t more = n - in < PIECE ? n - in : PIECE,
               room = size - out < PIECE ? size - out : PIECE;
        s.next_in = (unsigned char *)from + in, s.avail_in = (uInt)more;
        s.next_out = to + out, s.avail_out = (uInt)room;
        code = inflate(&s, Z_NO_FLUSH);
        in += more - s.avail_in, out += room - s.avail_out;
    }
    inflateEnd(&s);
    return code == Z_STREAM_END && out == size && in == n;
}

static uint32_t checksum(const unsigned char *at, size_t n)
{
    uLong crc = crc32(0, NULL, 0);
    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < (1u << 30) ? n - i : (1u << 30);
        crc = crc32(crc, at + i, (uInt)k);
    }
    return (uint32_t)crc;
}

// Decompresses a file and checks it.
static RtCode unpack(const Archive *z, const Member *m, RtBytes *out)
{
    if (m->secret) return rt_fail(z->e, RT_USER, "%s is encrypted", z->path);
    if (m->method != 0 && m->method != 8)
        return rt_fail(z->e, RT_USER,
                       "%s is packed in a way (%d) that cannot be read; save it again with "
                       "numpy.savez",
                       z->path, m->method);
    if (m->at > z->n || z->n - m->at < LOCAL || memcmp(z->at + m->at, "PK\3\4", 4))
        return damaged(z, "an array is not where its list says");
    const unsigned char *p = z->at + m->at;
    uint64_t begin = m->at + LOCAL + little(p + 26, 2) + little(p + 28, 2);
    if (begin > z->n || m->packed > z->n - begin || (m->method == 0 && m->packed != m->size))
        return damaged(z, "an array is cut off");
    if (little(p + 26, 2) < m->n || memcmp(p + LOCAL, m->name, m->n))
        return damaged(z, "an array is not what its list says");
    if (m->size / 1100 > m->packed + 1) // deflate compresses at most 1032 to 1
        return damaged(z, "an array says that it is larger than it can be");
    *out = (RtBytes){.at = malloc((size_t)m->size + 1), .n = (size_t)m->size};
    if (!out->at) return rt_fail(z->e, RT_OOM, "%s does not fit in memory", z->path);
    bool good = true;
    if (m->method)
        good = inflate_all(z->at + begin, (size_t)m->packed, out->at, out->n);
    else
        memcpy(out->at, z->at + begin, out->n);
    out->at[out->n] = 0;
    if (good && checksum(out->at, out->n) == m->crc) return RT_OK;
    free(out->at);
    return damaged(z, "the bytes of an array are not those that were written");
}

RtCode rt_npz_parse(const char *path, const char *part, RtBytes *b, RtArray *out, RtError *e)
{
    Archive z = {.path = path, .at = b->at, .n = b->n, .e = e};
    const Member *m;
    RtBytes one = {0};
    RtCode code = read_list(&z);
    if (!code) code = pick(&z, part, &m);
    if (!code) code = unpack(&z, m, &one);
    if (!code && (code = rt_npy_parse(path, &one, out, e))) free(one.at);
    free(z.member);
    if (!code) free(b->at);
    return code;
}

static RtCode take_all(const Archive *z, RtTensors *out)
{
    out->at = arena_try(out->arena, (size_t)(z->count + 1) * sizeof *out->at);
    out->owned = calloc((size_t)z->count + 1, sizeof *out->owned);
    if (!out->at || !out->owned) return rt_fail(z->e, RT_OOM, "out of memory");
    for (int i = 0; i < z->count; i++) {
        const Member *m = &z->member[i];
        RtBytes one;
        RtArray a;
        if (unpack(z, m, &one)) return z->e->code;
        out->owned[out->nowned++] = one.at;
        if (rt_npy_parse(z->path, &one, &a, z->e)) return z->e->code;
        char *name = arena_try(out->arena, m->n + 1);
        if (!name) return rt_fail(z->e, RT_OOM, "out of memory");
        memcpy(name, m->name, m->n);
        out->at[out->n++] = (RtTensor){name, a.type, a.data};
    }
    return RT_OK;
}

RtCode rt_npz_read(Arena *arena, const char *path, RtTensors *out, RtError *e)
{
    RtBytes b;
    *out = (RtTensors){.arena = arena};
    if (rt_bytes_read(path, SIZE_MAX - 1, &b, e)) return e->code;
    Archive z = {.path = path, .at = b.at, .n = b.n, .e = e};
    RtCode code = read_list(&z);
    if (!code) code = take_all(&z, out);
    free(z.member);
    free(b.at);
    if (code) rt_tensors_free(out);
    return code;
}
