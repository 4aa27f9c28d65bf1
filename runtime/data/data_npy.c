// NumPy's .npy, versions 1 to 3: magic, a header that is a Python dict, elements.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "runtime/data/data_read.h"

static const char magic[] = "\x93NUMPY";

bool rt_npy_recognise(const RtBytes *b)
{
    return b->n >= 6 && !memcmp(b->at, magic, 6);
}

// Position while parsing the text of the header's dict, which is followed by a zero byte.
typedef struct Dict {
    const char *p, *end;
} Dict;

static void space(Dict *d)
{
    while (d->p < d->end && (*d->p == ' ' || *d->p == '\n' || *d->p == '\t')) d->p++;
}

static bool eat(Dict *d, char c)
{
    space(d);
    if (d->p >= d->end || *d->p != c) return false;
    d->p++;
    return true;
}

static bool word(Dict *d, const char *w)
{
    size_t n = strlen(w);
    space(d);
    if ((size_t)(d->end - d->p) < n || memcmp(d->p, w, n)) return false;
    d->p += n;
    return true;
}

static bool string(Dict *d, char *out, size_t n)
{
    space(d);
    if (d->p >= d->end || (*d->p != '\'' && *d->p != '"')) return false;
    char quote = *d->p++;
    size_t at = 0;
    while (d->p < d->end && *d->p != quote) {
        if (at + 1 >= n) return false;
        out[at++] = *d->p++;
    }
    out[at] = 0;
    return eat(d, quote);
}

static bool shape(Dict *d, ProgType *t)
{
    if (!eat(d, '(')) return false;
    t->rank = 0;
    while (!eat(d, ')')) {
        space(d);
        int64_t v = 0;
        const char *begin = d->p;
        while (d->p < d->end && *d->p >= '0' && *d->p <= '9') {
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *d->p - '0', &v))
                return false;
            d->p++;
        }
        if (d->p == begin || t->rank == PROG_MAX_RANK) return false;
        t->dim[t->rank++] = v;
        if (d->p < d->end && *d->p == 'L') d->p++; // suffix of integers in Python 2
        space(d);
        if (!eat(d, ',') && (d->p >= d->end || *d->p != ')')) return false;
    }
    return true;
}

typedef struct Header {
    char descr[32];
    bool fortran, has_descr, has_order, has_shape;
    ProgType type;
} Header;

static bool read_header(Dict *d, Header *h)
{
    if (!eat(d, '{')) return false;
    while (!eat(d, '}')) {
        char key[32];
        if (!string(d, key, sizeof key) || !eat(d, ':')) return false;
        if (!strcmp(key, "descr")) {
            space(d);
            if (d->p < d->end && *d->p == '[') { // a structured type
                snprintf(h->descr, sizeof h->descr, "a structured type");
                return h->has_descr = true;
            }
            if (!string(d, h->descr, sizeof h->descr)) return false;
            h->has_descr = true;
        } else if (!strcmp(key, "fortran_order")) {
            h->fortran = word(d, "True");
            if (!h->fortran && !word(d, "False")) return false;
            h->has_order = true;
        } else if (!strcmp(key, "shape")) {
            if (!shape(d, &h->type)) return false;
            h->has_shape = true;
        } else {
            return false;
        }
        space(d);
        if (!eat(d, ',') && (d->p >= d->end || *d->p != '}')) return false;
    }
    return h->has_descr && h->has_order && h->has_shape;
}

static const struct {
    const char *descr;
    ProgDType type;
} types[] = {
    {"|b1", PD_BOOL}, {"|u1", PD_U8},  {"<i4", PD_I32}, {"<u4", PD_U32},
    {"<i8", PD_I64},  {"<f2", PD_F16}, {"<f4", PD_F32}, {"<f8", PD_F64},
};

static RtCode element_type(const char *path, Header *h, RtError *e)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(h->descr, types[i].descr)) {
            h->type.dtype = types[i].type;
            return RT_OK;
        }
    if (h->descr[0] == '>')
        return rt_fail(e, RT_USER,
                       "%s: its elements are big-endian (%s); save it again with "
                       "a.astype(a.dtype.newbyteorder('<'))",
                       path, h->descr);
    return rt_fail(e, RT_USER,
                   "%s: elements of %s cannot be read; convert it to one of bool, uint8, int32, "
                   "uint32, int64, "
                   "float16, float32, float64, say with a.astype('int32')",
                   path, h->descr);
}

// *head: offset of the elements.
static RtCode parse_header(const char *path, const RtBytes *b, Header *h, size_t *head, RtError *e)
{
    if (!rt_npy_recognise(b))
        return rt_fail(e, RT_USER, "%s is not an .npy file: it does not begin with \\x93NUMPY",
                       path);
    if (b->n < 10) return rt_fail(e, RT_USER, "%s is truncated: it ends within its header", path);
    int version = b->at[6];
    size_t begin = version == 1 ? 10 : 12, len;
    if (version < 1 || version > 3)
        return rt_fail(e, RT_USER, "%s is of .npy version %d; versions 1 to 3 can be read", path,
                       version);
    if (b->n < begin)
        return rt_fail(e, RT_USER, "%s is truncated: it ends within its header", path);
    len = version == 1 ? (size_t)b->at[8] | (size_t)b->at[9] << 8
                       : (size_t)b->at[8] | (size_t)b->at[9] << 8 | (size_t)b->at[10] << 16 |
                             (size_t)b->at[11] << 24;
    if (len > b->n - begin)
        return rt_fail(e, RT_USER, "%s is truncated: its header is %zu bytes long, %zu follow",
                       path, len, b->n - begin);
    Dict d = {(const char *)b->at + begin, (const char *)b->at + begin + len};
    if (!read_header(&d, h))
        return rt_fail(e, RT_USER, "%s: its .npy header cannot be understood", path);
    if (element_type(path, h, e)) return e->code;
    if (h->fortran && h->type.rank > 1)
        return rt_fail(e, RT_USER,
                       "%s is stored in Fortran order; save it again with numpy.save(f, "
                       "numpy.ascontiguousarray(a))",
                       path);
    *head = begin + len;
    return RT_OK;
}

bool rt_npy_type(const RtBytes *b, ProgType *t, size_t *head)
{
    Header h = {0};
    RtError ignored = {0};
    if (parse_header("", b, &h, head, &ignored)) return false;
    *t = h.type;
    return true;
}

RtCode rt_npy_parse(const char *path, RtBytes *b, RtArray *out, RtError *e)
{
    Header h = {0};
    size_t head;
    if (parse_header(path, b, &h, &head, e)) return e->code;
    if (rt_size_check(path, b, head, &h.type, e)) return e->code;
    size_t have = b->n - head;
    memmove(b->at, b->at + head, have);
    if (h.type.dtype == PD_BOOL)
        for (size_t i = 0; i < have; i++) b->at[i] = b->at[i] != 0;
    *out = (RtArray){.type = h.type, .data = b->at, .bytes = have};
    return RT_OK;
}

void *rt_npy_wide(const void *data, size_t n)
{
    float *f = malloc(n * sizeof *f + 1);
    for (size_t i = 0; f && i < n; i++) {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        memcpy(&f[i], &bits, sizeof bits);
    }
    return f;
}

// bf16, which .npy does not have, is written as f32.
RtCode rt_npy_head(const char *path, const ProgType *type, char head[RT_NPY_HEAD], size_t *size,
                   RtError *e)
{
    ProgType t = *type;
    if (t.dtype == PD_BF16) t.dtype = PD_F32;
    if (prog_type_bytes(&t) < 0) return rt_fail(e, RT_USER, "%s: the array is too big", path);
    const char *descr = "";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t.dtype) descr = types[i].descr;
    char dims[300];
    size_t at = 0;
    dims[0] = 0;
    for (int i = 0; i < t.rank; i++)
        at +=
            (size_t)snprintf(dims + at, sizeof dims - at, i ? ", %" PRId64 : "%" PRId64, t.dim[i]);
    int n = snprintf(head + 10, RT_NPY_HEAD - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", descr, dims,
                     t.rank == 1 ? "," : "");
    size_t len = ((size_t)n + 10 + 1 + 63) / 64 * 64 - 10; // elements are aligned to 64 bytes
    memset(head + 10 + n, ' ', len - (size_t)n);
    head[10 + len - 1] = '\n';
    memcpy(head, magic, 6);
    head[6] = 1;
    head[7] = 0;
    head[8] = (char)(len & 255);
    head[9] = (char)(len >> 8);
    *size = 10 + len;
    return RT_OK;
}

RtCode rt_npy_put(RtWriter *w, ProgDType type, const void *data, size_t bytes, RtError *e)
{
    if (type != PD_BF16) return rt_writer_put(w, data, bytes, e);
    void *wide = rt_npy_wide(data, bytes / 2);
    if (!wide) return rt_fail(e, RT_OOM, "out of memory");
    RtCode code = rt_writer_put(w, wide, 2 * bytes, e);
    free(wide);
    return code;
}

RtCode rt_npy_write(const char *path, const ProgType *type, const void *data, RtError *e)
{
    char head[RT_NPY_HEAD];
    size_t n;
    RtWriter w;
    if (rt_npy_head(path, type, head, &n, e) || rt_writer_begin(&w, path, e)) return e->code;
    RtCode code = rt_writer_put(&w, head, n, e);
    if (!code) code = rt_npy_put(&w, type->dtype, data, (size_t)prog_type_bytes(type), e);
    return rt_writer_end(&w, code, e);
}
