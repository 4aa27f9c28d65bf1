// CIFAR-10's binary batches, and files without any header: tokens, text, plain elements.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data_read.h"

// -- CIFAR: records of labels and 3 planes of 32 by 32: CIFAR-10 has one label, CIFAR-100 a coarse
// and
// a fine one ------------------------------------------------------------------------------------
enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, RECORD_100 = 2 + PIXELS };

static bool is_part(const char *part)
{
    static const char *const parts[] = {"images", "labels", "fine", "coarse"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(part, parts[i])) return true;
    return false;
}

// A CIFAR-100 file, "train.bin", is recognised only if one of its parts is requested, since other
// files have this name, too.
bool rt_cifar_recognise(const char *path, const char *part, const RtBytes *b)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (part && is_part(part)) return true;
    return b->n && b->n % RECORD == 0 && rt_path_ends(path, ".bin") &&
           (!strncmp(name, "data_batch", 10) || !strncmp(name, "test_batch", 10));
}

RtCode rt_cifar_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                      RtArray *out, RtError *e)
{
    if (!part && wanted) part = wanted->rank == 0 ? "labels" : "images";
    if (!part)
        return rt_fail(
            e, RT_USER,
            "%s is a CIFAR-10 batch, which holds two tensors; say which: images or labels", path);
    bool images = !strcmp(part, "images"), coarse = !strcmp(part, "coarse");
    bool hundred = coarse || !strcmp(part, "fine") || (b->n % RECORD && b->n % RECORD_100 == 0);
    if (!is_part(part))
        return rt_fail(e, RT_USER, "%s is a CIFAR-10 batch; it has no '%s', only images and labels",
                       path, part);
    size_t record = hundred ? RECORD_100 : RECORD, head = record - PIXELS;
    if (!b->n || b->n % record)
        return rt_fail(e, RT_USER,
                       "%s is not a whole CIFAR-%s batch: its %zu bytes are not a multiple of %zu, "
                       "the size of an example",
                       path, hundred ? "100" : "10", b->n, record);
    size_t n = b->n / record;
    ProgType t = {.dtype = PD_U8, .rank = 1, .dim = {(int64_t)n}};
    if (images) {
        t.rank = 4;
        t.dim[1] = 3, t.dim[2] = 32, t.dim[3] = 32;
    }
    for (size_t i = 0; i < n; i++) {
        if (images)
            memmove(b->at + i * PIXELS, b->at + i * record + head, PIXELS);
        else
            b->at[i] = b->at[i * record + (coarse ? 0 : head - 1)];
    }
    *out = (RtArray){.type = t, .data = b->at, .bytes = images ? n * PIXELS : n};
    return RT_OK;
}

// -- no header ------------------------------------------------------------------------------------
static bool is_integer(ProgDType t)
{
    return t >= PD_U8 && t <= PD_I64;
}

// Converts unsigned elements of [from] bytes to the wider integer type [to].
static RtCode widen(const char *path, RtBytes *b, size_t from, ProgDType to, RtError *e)
{
    size_t n = b->n / from, size = (size_t)prog_dtype_bytes(to), bytes;
    unsigned char *p = __builtin_mul_overflow(n, size, &bytes) ? NULL : malloc(bytes + 1);
    if (!p) return rt_fail(e, RT_OOM, "%s does not fit in memory", path);
    for (size_t i = 0; i < n; i++) {
        int64_t v = 0;
        memcpy(&v, b->at + from * i, from); // little-endian: the low bytes come first
        memcpy(p + i * size, &v, size);
    }
    free(b->at);
    *b = (RtBytes){.at = p, .n = bytes};
    return RT_OK;
}

RtCode rt_raw_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e)
{
    ProgDType t = wanted ? wanted->dtype : PD_U8;
    size_t from = !part ? 0 : !strcmp(part, "u16") ? 2 : !strcmp(part, "u32") ? 4 : 0;
    if (part && !from)
        return rt_fail(
            e, RT_USER,
            "%s holds no '%s': it is read as plain elements (raw; tokens of 16 or 32 bits with the "
            "part u16 or u32)",
            path, part);
    if (from && (!wanted || t == PD_U8 || !is_integer(t)))
        return rt_fail(e, RT_USER, "%s: %zu-bit tokens need an input of i32, u32 or i64", path,
                       8 * from);
    if (from && b->n % from)
        return rt_fail(e, RT_USER, "%s has %zu bytes, not a whole number of %zu-bit tokens", path,
                       b->n, 8 * from);
    if (rt_path_ends(path, ".txt") && wanted && !is_integer(t))
        return rt_fail(e, RT_USER,
                       "%s is text, which an input of %s cannot take; make it u8 or i32", path,
                       prog_dtype_name(t));
    if (!from && rt_path_ends(path, ".txt") && t != PD_U8) from = 1;
    if (from && from != (size_t)prog_dtype_bytes(t) && widen(path, b, from, t, e)) return e->code;
    size_t size = (size_t)prog_dtype_bytes(t);
    if (b->n % size)
        return rt_fail(e, RT_USER, "%s has %zu bytes, not a whole number of %s elements", path,
                       b->n, prog_dtype_name(t));
    if (t == PD_BOOL)
        for (size_t i = 0; i < b->n; i++) b->at[i] = b->at[i] != 0;
    *out = (RtArray){.type = {.dtype = t, .rank = 1, .dim = {(int64_t)(b->n / size)}},
                     .data = b->at,
                     .bytes = b->n};
    if (!wanted || wanted->rank == 0 || (wanted->rank == 1 && is_integer(t)))
        return RT_OK; // (the caller makes windows)
    // Consecutive examples of the wanted shape.
    int64_t row = (int64_t)size;
    for (int i = 0; i < wanted->rank; i++)
        if (wanted->dim[i] < 1 || __builtin_mul_overflow(row, wanted->dim[i], &row)) {
            return rt_fail(
                e, RT_USER,
                "%s has no header, so the shape of an example must be known; axis %d of it is not "
                "(give it with -D)",
                path, i + 1);
        }
    if (b->n % (size_t)row)
        return rt_fail(e, RT_USER,
                       "%s has %zu bytes, not a whole number of examples of %" PRId64 " bytes",
                       path, b->n, row);
    out->type.rank = wanted->rank + 1;
    out->type.dim[0] = (int64_t)(b->n / (size_t)row);
    for (int i = 0; i < wanted->rank; i++) out->type.dim[i + 1] = wanted->dim[i];
    return RT_OK;
}

RtCode rt_array_windows(const char *path, RtArray *a, int64_t width, RtError *e)
{
    int64_t n = a->type.dim[0], size = prog_dtype_bytes(a->type.dtype), bytes;
    if (width < 2)
        return rt_fail(
            e, RT_USER,
            "%s is a row of tokens; the input's windows of them need a known length of at least 2 "
            "(give the dimension with -D)",
            path);
    if (n < width)
        return rt_fail(e, RT_USER, "%s has %" PRId64 " tokens, fewer than one window of %" PRId64,
                       path, n, width);
    int64_t windows = (n - 1) / (width - 1);
    char *p = __builtin_mul_overflow(windows, width * size, &bytes) ? NULL : malloc((size_t)bytes);
    if (!p) return rt_fail(e, RT_OOM, "the windows of %s do not fit in memory", path);
    for (int64_t i = 0; i < windows; i++)
        memcpy(p + i * width * size, (char *)a->data + i * (width - 1) * size,
               (size_t)(width * size));
    free(a->data);
    a->data = p;
    a->bytes = (size_t)bytes;
    a->type.rank = 2;
    a->type.dim[0] = windows;
    a->type.dim[1] = width;
    return RT_OK;
}
