// IDX, the format of MNIST: two zero bytes, a type, a rank, big-endian sizes, big-endian elements.
#include <string.h>

#include "runtime/data/data_read.h"

static bool element_type(unsigned code, ProgDType *t)
{
    switch (code) {
    case 0x08: *t = PD_U8; return true;
    case 0x0c: *t = PD_I32; return true;
    case 0x0d: *t = PD_F32; return true;
    case 0x0e: *t = PD_F64; return true;
    default: return false;
    }
}

static uint32_t big32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool rt_idx_type(const RtBytes *b, ProgType *t, size_t *head)
{
    *t = (ProgType){0};
    if (b->n < 8 || b->at[0] || b->at[1] || !element_type(b->at[2], &t->dtype)) return false;
    t->rank = b->at[3];
    if (!t->rank || t->rank > PROG_MAX_RANK || b->n < 4 + 4 * (size_t)t->rank) return false;
    for (int i = 0; i < t->rank; i++) t->dim[i] = big32(b->at + 4 + 4 * i);
    *head = 4 + 4 * (size_t)t->rank;
    return true;
}

bool rt_idx_recognise(const char *path, const RtBytes *b)
{
    ProgType t;
    size_t head;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strstr(name, "idx") || strstr(name, "ubyte")) return true;
    // (A file of tokens may begin like this but is unlikely to have this length.)
    return rt_idx_type(b, &t, &head) && prog_type_bytes(&t) == (int64_t)(b->n - head);
}

static void to_host_order(unsigned char *p, size_t bytes, int size)
{
    for (size_t i = 0; i + (size_t)size <= bytes; i += (size_t)size)
        for (int k = 0; k < size / 2; k++) {
            unsigned char t = p[i + (size_t)k];
            p[i + (size_t)k] = p[i + (size_t)(size - 1 - k)];
            p[i + (size_t)(size - 1 - k)] = t;
        }
}

RtCode rt_idx_parse(const char *path, RtBytes *b, RtArray *out, RtError *e)
{
    ProgType t = {0};
    if (b->n < 4)
        return rt_fail(e, RT_USER, "%s is truncated: %zu bytes are too few for an IDX file", path,
                       b->n);
    if (b->at[0] || b->at[1])
        return rt_fail(
            e, RT_USER,
            "%s is not an IDX file: it begins with %02x %02x %02x %02x, an IDX file with 00 00, a "
            "type and a rank",
            path, b->at[0], b->at[1], b->at[2], b->at[3]);
    if (!element_type(b->at[2], &t.dtype))
        return rt_fail(
            e, RT_USER,
            "%s: IDX element type 0x%02x cannot be read; known are 08 (u8), 0c (i32), 0d (f32), "
            "0e (f64)",
            path, b->at[2]);
    t.rank = b->at[3];
    size_t head = 4 + 4 * (size_t)t.rank;
    if (t.rank < 1 || t.rank > PROG_MAX_RANK)
        return rt_fail(e, RT_USER, "%s: an IDX file of rank %d; 1 to %d can be read", path, t.rank,
                       PROG_MAX_RANK);
    if (b->n < head)
        return rt_fail(e, RT_USER,
                       "%s is truncated: it ends within its header of %zu bytes, after %zu", path,
                       head, b->n);
    for (int i = 0; i < t.rank; i++) t.dim[i] = big32(b->at + 4 + 4 * i);
    if (rt_size_check(path, b, head, &t, e)) return e->code;
    size_t have = b->n - head;
    memmove(b->at, b->at + head, have);
    to_host_order(b->at, have, prog_dtype_bytes(t.dtype));
    *out = (RtArray){.type = t, .data = b->at, .bytes = have};
    return RT_OK;
}
