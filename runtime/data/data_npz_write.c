// Writes NumPy's .npz: a zip archive of .npy files, not compressed. The sizes of all arrays are
// known before the first element, so each has a known place in the file, and elements are written
// as they come.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "runtime/data/data_read.h"

enum { LINE = 46, WIDE_END = 56, MOST_ARRAYS = 4096 };

struct RtNpzPart {
    char name[256];
    char head[RT_NPY_HEAD];
    size_t nhead, n; // n: bytes of the name with its suffix
    ProgDType dtype;
    uint64_t bytes, done; // of its elements in .npy
    uint32_t crc;
    uint64_t at; // offset of its header
};

static void put(unsigned char **p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8) *(*p)++ = (unsigned char)v;
}

static uint32_t checksum(uint32_t crc, const void *at, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) { // in pieces, since zlib's counters are 32 bits
        k = n - i < (1u << 30) ? n - i : (1u << 30);
        crc = (uint32_t)crc32(crc, (const unsigned char *)at + i, (uInt)k);
    }
    return crc;
}

// Writes the local header of a file (with 20 bytes of sizes after its name) or its entry in the
// list (28 bytes).
static size_t header(unsigned char *to, const RtNpzPart *x, bool list)
{
    unsigned char *p = to;
    uint64_t size = x->nhead + x->bytes;
    put(&p, list ? 0x02014b50 : 0x04034b50, 4);
    if (list) put(&p, 45, 2);
    put(&p, 45, 2), put(&p, 0x800, 2), put(&p, 0, 2); // version 4.5, UTF-8 names, stored
    put(&p, 0, 2), put(&p, 33, 2); // 1980-01-01, so that the output is reproducible
    put(&p, x->crc, 4), put(&p, UINT32_MAX, 4), put(&p, UINT32_MAX, 4);
    put(&p, x->n, 2), put(&p, list ? 28 : 20, 2);
    if (list) put(&p, 0, 2), put(&p, 0, 2), put(&p, 0, 2), put(&p, 0, 4), put(&p, UINT32_MAX, 4);
    memcpy(p, x->name, x->n);
    p += x->n;
    put(&p, 1, 2), put(&p, list ? 24 : 16, 2), put(&p, size, 8), put(&p, size, 8);
    if (list) put(&p, x->at, 8);
    return (size_t)(p - to);
}

// Offset of the elements, after both headers.
static uint64_t elements_at(const RtNpzPart *x)
{
    unsigned char room[LINE + 256 + 28];
    return x->at + header(room, x, false) + x->nhead;
}

static RtCode place(const char *path, const RtTensor *t, const RtNpzPart *before, RtNpzPart *out,
                    RtError *e)
{
    ProgType type = t->type;
    int n = snprintf(out->name, sizeof out->name, "%s.npy", t->name);
    if (n < 0 || n >= (int)sizeof out->name || strchr(t->name, '/'))
        return rt_fail(e, RT_USER, "%s: no array can be called '%.100s'", path, t->name);
    out->n = (size_t)n;
    if (rt_npy_head(path, &type, out->head, &out->nhead, e)) return e->code;
    out->dtype = type.dtype;
    out->bytes = (uint64_t)prog_type_bytes(&type) << (type.dtype == PD_BF16); // bf16 is written as
                                                                              // f32
    out->crc = checksum(0, out->head, out->nhead);
    out->at = before ? elements_at(before) + before->bytes : 0;
    return RT_OK;
}

RtCode rt_npz_begin(RtNpz *z, const char *path, const RtTensor *t, int n, RtError *e)
{
    *z = (RtNpz){.part = calloc((size_t)n + 1, sizeof *z->part), .n = n};
    RtCode code = !z->part          ? rt_fail(e, RT_OOM, "out of memory")
                  : n > MOST_ARRAYS ? rt_fail(e, RT_USER, "%s: too many arrays", path)
                                    : RT_OK;
    for (int i = 0; i < n && !code; i++) {
        for (int k = 0; k < i && !code; k++)
            if (!strcmp(t[k].name, t[i].name))
                code = rt_fail(e, RT_USER, "%s: two arrays are called '%.100s'", path, t[i].name);
        if (!code) code = place(path, &t[i], i ? &z->part[i - 1] : NULL, &z->part[i], e);
    }
    struct stat st;
    if (!code && !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        code = rt_fail(e, RT_USER, "%s: an archive cannot be written to a pipe", path);
    if (!code) code = rt_writer_begin(&z->file, path, e);
    if (code) free(z->part), z->part = NULL;
    return code;
}

static RtCode put_elements(RtNpz *z, RtNpzPart *x, const void *data, size_t bytes, RtError *e)
{
    x->crc = checksum(x->crc, data, bytes);
    uint64_t at = elements_at(x) + x->done;
    x->done += bytes;
    return rt_writer_put_at(&z->file, at, data, bytes, e);
}

RtCode rt_npz_put(RtNpz *z, int i, const void *data, size_t bytes, RtError *e)
{
    RtNpzPart *x = &z->part[i];
    if (x->dtype != PD_BF16) return put_elements(z, x, data, bytes, e);
    void *wide = rt_npy_wide(data, bytes / 2);
    if (!wide) return rt_fail(e, RT_OOM, "out of memory");
    RtCode code = put_elements(z, x, wide, 2 * bytes, e);
    free(wide);
    return code;
}

// Writes the headers of all arrays, and the list at the end.
static RtCode put_headers(RtNpz *z, RtError *e)
{
    unsigned char room[LINE + 256 + 28], *p = room;
    const RtNpzPart *last = z->n ? &z->part[z->n - 1] : NULL;
    uint64_t list = last ? elements_at(last) + last->bytes : 0, at = list;
    for (int i = 0; i < z->n; i++) {
        const RtNpzPart *x = &z->part[i];
        size_t head = header(room, x, false);
        if (rt_writer_put_at(&z->file, x->at, room, head, e) ||
            rt_writer_put_at(&z->file, x->at + head, x->head, x->nhead, e))
            return e->code;
        size_t line = header(room, x, true);
        if (rt_writer_put_at(&z->file, at, room, line, e)) return e->code;
        at += line;
    }
    put(&p, 0x06064b50, 4), put(&p, WIDE_END - 12, 8), put(&p, 45, 2), put(&p, 45, 2);
    put(&p, 0, 4), put(&p, 0, 4), put(&p, (uint64_t)z->n, 8), put(&p, (uint64_t)z->n, 8);
    put(&p, at - list, 8), put(&p, list, 8);
    put(&p, 0x07064b50, 4), put(&p, 0, 4), put(&p, at, 8), put(&p, 1, 4);
    put(&p, 0x06054b50, 4), put(&p, 0, 4), put(&p, (uint64_t)z->n, 2), put(&p, (uint64_t)z->n, 2);
    put(&p, UINT32_MAX, 4), put(&p, UINT32_MAX, 4), put(&p, 0, 2);
    return rt_writer_put_at(&z->file, at, room, (size_t)(p - room), e);
}

RtCode rt_npz_end(RtNpz *z, RtCode code, RtError *e)
{
    if (!z->part) return code;
    if (!code) code = put_headers(z, e);
    free(z->part);
    z->part = NULL;
    return rt_writer_end(&z->file, code, e);
}

RtCode rt_npz_write(const char *path, const RtTensor *t, int n, RtError *e)
{
    RtNpz z;
    if (rt_npz_begin(&z, path, t, n, e)) return e->code;
    RtCode code = RT_OK;
    for (int i = 0; i < n && !code; i++)
        code = rt_npz_put(&z, i, t[i].data, (size_t)prog_type_bytes(&t[i].type), e);
    return rt_npz_end(&z, code, e);
}
