// Checkpoints: 8 bytes of header length, a JSON header, the tensors' bytes without gaps.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/map.h"
#include "runtime/data/data_read.h"
#include "runtime/host/parse.h"

enum { MAX_HEADER = 100 << 20 };

static const struct {
    const char *name;
    ProgDType type;
} types[] = {
    {"BOOL", PD_BOOL}, {"U8", PD_U8},   {"I32", PD_I32}, {"U32", PD_U32}, {"I64", PD_I64},
    {"BF16", PD_BF16}, {"F16", PD_F16}, {"F32", PD_F32}, {"F64", PD_F64},
};

static const char *type_name(ProgDType t)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t) return types[i].name;
    return "";
}

// -- writing --------------------------------------------------------------------------------------
typedef struct Writer {
    const char *path;
    const RtTensor *t;
    int n;
    const char *const *keys, *const *values;
    int nmeta;
    RtError *e;
} Writer;

// Wider elements come first, so that every tensor is aligned; otherwise the order is kept.
static int *order(Arena *a, const RtTensor *t, int n)
{
    int *at = NEW_ARRAY(a, int, n + 1), k = 0;
    for (int size = 8; size; size /= 2)
        for (int i = 0; i < n; i++)
            if (prog_dtype_bytes(t[i].type.dtype) == size) at[k++] = i;
    return at;
}

static RtCode write_file(Arena *a, const void *what)
{
    const Writer *w = what;
    Buf head = buf_new(a);
    Json j = json_writer(&head);
    int *at = order(a, w->t, w->n);
    RtPart *parts = NEW_ARRAY(a, RtPart, w->n + 1);
    uint64_t offset = 0;
    json_object(&j);
    if (w->nmeta) {
        json_key(&j, "__metadata__");
        json_object(&j);
        for (int i = 0; i < w->nmeta; i++) {
            json_key(&j, w->keys[i]);
            json_string(&j, w->values[i]);
        }
        json_end(&j);
    }
    for (int k = 0; k < w->n; k++) {
        const RtTensor *t = &w->t[at[k]];
        int64_t bytes = prog_type_bytes(&t->type);
        if (bytes < 0)
            return rt_fail(w->e, RT_USER, "%s: tensor '%s' is too big", w->path, t->name);
        json_key(&j, t->name);
        json_object(&j);
        json_key(&j, "dtype");
        json_string(&j, type_name(t->type.dtype));
        json_key(&j, "shape");
        json_array(&j);
        for (int i = 0; i < t->type.rank; i++) json_int(&j, t->type.dim[i]);
        json_end(&j);
        json_key(&j, "data_offsets");
        json_array(&j);
        json_int(&j, (int64_t)offset);
        json_int(&j, (int64_t)offset + bytes);
        json_end(&j);
        json_end(&j);
        parts[k + 1] = (RtPart){t->data, (size_t)bytes};
        offset += (uint64_t)bytes;
    }
    json_end(&j);
    buf_pad(&head, (int)((8 - head.len % 8) % 8), ' ');
    char *first = arena_alloc(a, head.len + 8);
    for (int i = 0; i < 8; i++) first[i] = (char)((uint64_t)head.len >> 8 * i & 255);
    memcpy(first + 8, head.data, head.len);
    parts[0] = (RtPart){first, head.len + 8};
    return rt_file_write_parts(w->path, parts, w->n + 1, w->e);
}

RtCode rt_safetensors_write(const char *path, const RtTensor *t, int n,
                            const char *const *meta_keys, const char *const *meta_values, int nmeta,
                            RtError *e)
{
    Writer w = {path, t, n, meta_keys, meta_values, nmeta, e};
    return rt_file_compose(path, write_file, &w, e);
}

// -- reading --------------------------------------------------------------------------------------
static RtCode damaged(const char *path, const char *name, const char *what, RtError *e)
{
    return rt_fail(e, RT_USER, "%s is damaged: tensor '%s' %s", path, name, what);
}

static bool offsets(const JsonValue *v, uint64_t *begin, uint64_t *end)
{
    if (!v || v->kind != JSON_ARRAY || v->n != 2) return false;
    const JsonValue *a = v->child, *b = a->next;
    if (a->kind != JSON_NUMBER || !a->is_int || b->kind != JSON_NUMBER || !b->is_int ||
        a->integer < 0 || b->integer < a->integer)
        return false;
    *begin = (uint64_t)a->integer;
    *end = (uint64_t)b->integer;
    return true;
}

static RtCode tensor(const char *path, const JsonValue *v, const unsigned char *data, size_t size,
                     RtTensor *t, RtError *e)
{
    const JsonValue *dtype = json_get(v, "dtype"), *shape = json_get(v, "shape");
    uint64_t begin, end;
    t->name = v->key;
    if (!dtype || dtype->kind != JSON_STRING || !shape || shape->kind != JSON_ARRAY)
        return damaged(path, t->name, "has no type or shape", e);
    bool known = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, dtype->string)) {
            t->type.dtype = types[i].type;
            known = true;
        }
    if (!known)
        return rt_fail(e, RT_USER, "%s: tensor '%s' has elements of %s, which cannot be read", path,
                       t->name, dtype->string);
    if (shape->n > PROG_MAX_RANK)
        return rt_fail(e, RT_USER, "%s: tensor '%s' has %u axes; at most %d can be read", path,
                       t->name, shape->n, PROG_MAX_RANK);
    for (const JsonValue *d = shape->child; d; d = d->next) {
        if (d->kind != JSON_NUMBER || !d->is_int || d->integer < 0)
            return damaged(path, t->name, "has an invalid shape", e);
        t->type.dim[t->type.rank++] = d->integer;
    }
    if (!offsets(json_get(v, "data_offsets"), &begin, &end))
        return damaged(path, t->name, "has an invalid place in the file", e);
    if (end > size)
        return damaged(path, t->name, "lies beyond the end of the file: it is truncated", e);
    int64_t bytes = prog_type_bytes(&t->type);
    if (bytes < 0 || (uint64_t)bytes != end - begin)
        return damaged(path, t->name, "has a size that disagrees with its shape", e);
    t->data = data + begin;
    return RT_OK;
}

static int by_place(const void *a, const void *b)
{
    const RtTensor *x = *(const RtTensor *const *)a, *y = *(const RtTensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return prog_type_bytes(&x->type) < prog_type_bytes(&y->type) ? -1 : 1;
}

// Checks that every byte belongs to exactly one tensor.
static RtCode check_places(Arena *a, const char *path, const RtTensors *r,
                           const unsigned char *data, size_t size, RtError *e)
{
    const RtTensor **at = NEW_ARRAY(a, const RtTensor *, r->n + 1);
    for (int i = 0; i < r->n; i++) at[i] = &r->at[i];
    qsort(at, (size_t)r->n, sizeof *at, by_place);
    const unsigned char *p = data;
    for (int i = 0; i < r->n; i++) {
        if ((const unsigned char *)at[i]->data < p)
            return damaged(path, at[i]->name, "overlaps another", e);
        if ((const unsigned char *)at[i]->data > p)
            return damaged(path, at[i]->name, "follows a gap", e);
        p += prog_type_bytes(&at[i]->type);
    }
    if (p != data + size)
        return rt_fail(e, RT_USER, "%s is damaged: %zu bytes follow its last tensor", path,
                       (size_t)(data + size - p));
    return RT_OK;
}

static RtCode metadata(Arena *a, const char *path, const JsonValue *v, RtTensors *out, RtError *e)
{
    if (v->kind != JSON_OBJECT)
        return rt_fail(e, RT_USER, "%s is damaged: its metadata are not an object", path);
    out->meta_keys = NEW_ARRAY(a, const char *, v->n + 1);
    out->meta_values = NEW_ARRAY(a, const char *, v->n + 1);
    for (const JsonValue *m = v->child; m; m = m->next) {
        if (m->kind != JSON_STRING)
            return rt_fail(e, RT_USER, "%s is damaged: its metadata '%s' is not text", path,
                           m->key);
        out->meta_keys[out->nmeta] = m->key;
        out->meta_values[out->nmeta++] = m->string;
    }
    return RT_OK;
}

RtCode rt_safetensors_parse(Arena *a, const char *path, const unsigned char *bytes, size_t n,
                            RtTensors *out, RtError *e)
{
    uint64_t len = 0;
    if (n < 8)
        return rt_fail(e, RT_USER, "%s is not a safetensors file: it has only %zu bytes", path, n);
    for (int i = 0; i < 8; i++) len |= (uint64_t)bytes[i] << 8 * i;
    if (len > MAX_HEADER || bytes[8 < n ? 8 : 0] != '{')
        return rt_fail(e, RT_USER, "%s is not a safetensors file: it does not begin with a header",
                       path);
    if (len > n - 8)
        return rt_fail(e, RT_USER,
                       "%s is truncated: its header is %" PRIu64 " bytes long, %zu follow", path,
                       len, n - 8);
    const char *wrong;
    const JsonValue *head = json_parse(a, (const char *)bytes + 8, (size_t)len, &wrong);
    if (!head) return rt_fail(e, RT_USER, "%s is damaged: its header is not JSON: %s", path, wrong);
    if (head->kind != JSON_OBJECT)
        return rt_fail(e, RT_USER, "%s is damaged: its header is not an object", path);
    const unsigned char *data = bytes + 8 + len;
    size_t size = n - 8 - (size_t)len;
    StrMap seen = strmap_new(a);
    out->at = NEW_ARRAY(a, RtTensor, head->n + 1);
    for (const JsonValue *v = head->child; v; v = v->next) {
        if (strmap_has(&seen, v->key))
            return rt_fail(e, RT_USER, "%s is damaged: '%s' appears twice", path, v->key);
        strmap_set(&seen, v->key, (void *)v);
        if (!strcmp(v->key, "__metadata__")) {
            if (metadata(a, path, v, out, e)) return e->code;
        } else if (v->kind != JSON_OBJECT) {
            return damaged(path, v->key, "is not described", e);
        } else if (tensor(path, v, data, size, &out->at[out->n++], e)) {
            return e->code;
        }
    }
    return check_places(a, path, out, data, size, e);
}
