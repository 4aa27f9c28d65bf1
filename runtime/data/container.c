// model.bin: named sections after a table, everything covered by checksums. All numbers are
// little-endian.
//     head    magic[8], u32 version, u32 sections, u64 bytes of the file, u64 bytes of the table,
//             u64 checksum of the head before this word and of the table
//     table   for each section: u64 offset, u64 size, u64 checksum, u32 length of its name, name,
//             zeros to a multiple of 8 bytes
//     each section starts at a multiple of 16
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/host/file.h"
#include "runtime/host/parse.h"

enum { VERSION = 1, HEAD = 40, ROW = 28, ALIGN = 16, MAX_NAME = 4096 };

static uint64_t get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void put(Buf *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) buf_char(b, (char)(v >> 8 * i & 255));
}

static uint64_t checksum(const void *p, size_t n)
{
    return hash_bytes(p, n, n);
}

static uint64_t head_checksum(const unsigned char *head, const unsigned char *table, size_t n)
{
    return hash_bytes(table, n, checksum(head, HEAD - 8));
}

static size_t aligned(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

typedef struct Writer {
    const char *path;
    const RtSection *s;
    int n;
    RtError *e;
} Writer;

static RtCode write_file(Arena *a, const void *what)
{
    const Writer *w = what;
    static const char zeros[ALIGN] = {0};
    size_t table_bytes = 0;
    for (int i = 0; i < w->n; i++) table_bytes += aligned(ROW + strlen(w->s[i].name), 8);
    size_t at = aligned(HEAD + table_bytes, ALIGN);
    Buf table = buf_new(a), head = buf_new(a);
    RtPart *parts = NEW_ARRAY(a, RtPart, 2 * w->n + 3);
    int n = 3;
    for (int i = 0; i < w->n; i++) {
        const RtSection *s = &w->s[i];
        size_t name = strlen(s->name);
        put(&table, at, 8);
        put(&table, s->size, 8);
        put(&table, checksum(s->bytes, s->size), 8);
        put(&table, name, 4);
        buf_bytes(&table, s->name, name);
        buf_pad(&table, (int)(aligned(ROW + name, 8) - ROW - name), 0);
        size_t next = aligned(at + s->size, ALIGN);
        parts[n++] = (RtPart){s->bytes, s->size};
        parts[n++] = (RtPart){zeros, next - at - s->size};
        at = next;
    }
    buf_bytes(&head, RT_CONTAINER_MAGIC, 8);
    put(&head, VERSION, 4);
    put(&head, (uint64_t)w->n, 4);
    put(&head, at, 8);
    put(&head, table_bytes, 8);
    put(&head, head_checksum((unsigned char *)head.data, (unsigned char *)table.data, table.len),
        8);
    parts[0] = (RtPart){head.data, head.len};
    parts[1] = (RtPart){table.data, table.len};
    parts[2] = (RtPart){zeros, aligned(HEAD + table_bytes, ALIGN) - HEAD - table_bytes};
    return rt_file_write_parts(w->path, parts, n, w->e);
}

RtCode rt_container_write(const char *path, const RtSection *s, int n, RtError *e)
{
    Writer w = {path, s, n, e};
    return rt_file_compose(path, write_file, &w, e);
}

static RtCode damaged(const char *path, const char *what, RtError *e)
{
    return rt_fail(e, RT_USER, "%s is damaged: %s; compile it again or fetch another copy", path,
                   what);
}

RtCode rt_container_parse(Arena *a, const char *path, const unsigned char *b, size_t n, bool check,
                          RtSection **out, int *count, RtError *e)
{
    *out = NULL;
    *count = 0;
    if (n < HEAD || memcmp(b, RT_CONTAINER_MAGIC, 8)) {
        if (n >= 8 && !memcmp(b, RT_CONTAINER_MAGIC, 8))
            return damaged(path, "it ends within its header", e);
        return rt_fail(e, RT_USER, "%s is not a compiled model (model.bin)", path);
    }
    uint64_t version = get(b + 8, 4), sections = get(b + 12, 4), size = get(b + 16, 8),
             table = get(b + 24, 8);
    if (version != VERSION)
        return rt_fail(e, RT_USER,
                       "%s was written by another netc (format %" PRIu64
                       ", this one reads %d); compile "
                       "it again",
                       path, version, VERSION);
    if (size > n) return damaged(path, "it is truncated", e);
    if (size < n) return damaged(path, "bytes follow its end", e);
    if (table > n - HEAD || sections > table / ROW)
        return damaged(path, "its table does not fit", e);
    if (check && get(b + 32, 8) != head_checksum(b, b + HEAD, (size_t)table))
        return damaged(path, "the checksum of its header is wrong", e);
    RtSection *s = NEW_ARRAY(a, RtSection, sections + 1);
    const unsigned char *p = b + HEAD, *end = p + table;
    for (uint64_t i = 0; i < sections; i++) {
        if (end - p < ROW) return damaged(path, "its table is too short", e);
        uint64_t at = get(p, 8), bytes = get(p + 8, 8), name = get(p + 24, 4);
        if (name > MAX_NAME || aligned(ROW + name, 8) > (size_t)(end - p))
            return damaged(path, "its table is too short", e);
        if (at < HEAD + table || at > n || bytes > n - at)
            return damaged(path, "a section lies outside the file", e);
        s[i] = (RtSection){arena_strndup(a, (const char *)p + ROW, name), b + at, bytes};
        if (check && get(p + 16, 8) != checksum(b + at, bytes))
            return damaged(path, arena_printf(a, "the checksum of '%s' is wrong", s[i].name), e);
        p += aligned(ROW + name, 8);
    }
    *out = s;
    *count = (int)sections;
    return RT_OK;
}

RtCode rt_container_read(Arena *a, const char *path, RtSection **out, int *n, RtError *e)
{
    void *bytes;
    size_t size;
    *out = NULL;
    *n = 0;
    if (rt_file_read(a, path, &bytes, &size, e)) return e->code;
    return rt_container_parse(a, path, bytes, size, true, out, n, e);
}

bool rt_container_recognise(const void *bytes, size_t n)
{
    return n >= 8 && !memcmp(bytes, RT_CONTAINER_MAGIC, 8);
}
