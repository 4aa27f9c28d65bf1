// Reading data files: which reader, several files as one, what the model wants against what is
// there.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data_read.h"
#include "runtime/range.h"

bool rt_path_ends(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    if (n > 3 && !strcmp(path + n - 3, ".gz")) n -= 3;
    return n >= k && !strncmp(path + n - k, suffix, k);
}

void rt_array_free(RtArray *a)
{
    free(a->data);
    *a = (RtArray){0};
}

static RtCode parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e)
{
    bool npy = rt_npy_recognise(b) || rt_path_ends(path, ".npy"),
         idx = !npy && rt_idx_recognise(path, b);
    if ((npy || idx) && part)
        return rt_fail(e, RT_USER, "%s holds one tensor, it has no part '%s'", path, part);
    if (npy) return rt_npy_parse(path, b, out, e);
    if (idx) return rt_idx_parse(path, b, out, e);
    if (rt_cifar_recognise(path, part, b)) return rt_cifar_parse(path, part, wanted, b, out, e);
    return rt_raw_parse(path, part, wanted, b, out, e);
}

// Whether the examples are what the model wants. wanted is of one example.
static RtCode check(const char *path, const RtArray *a, const ProgType *wanted, RtError *e)
{
    bool same = a->type.dtype == wanted->dtype && a->type.rank == wanted->rank + 1;
    for (int i = 0; same && i < wanted->rank; i++)
        same = wanted->dim[i] < 0 || wanted->dim[i] == a->type.dim[i + 1];
    if (same) return RT_OK;
    char have[200], want[200];
    ProgType w = *wanted;
    if (w.rank < PROG_MAX_RANK) {
        memmove(w.dim + 1, w.dim, (size_t)w.rank * sizeof w.dim[0]);
        w.dim[0] = -1;
        w.rank++;
    }
    prog_type_text(have, sizeof have, &a->type);
    prog_type_text(want, sizeof want, &w);
    return rt_fail(
        e, RT_USER, "%s holds %s, the model wants %s (axis 0 is the examples)%s%s", path, have,
        want, a->type.dtype != wanted->dtype ? "; convert the file, or declare the input as " : "",
        a->type.dtype != wanted->dtype ? prog_dtype_name(a->type.dtype) : "");
}

static RtCode read_one(const char *path, const char *part, const ProgType *wanted, RtArray *out,
                       RtError *e)
{
    RtBytes b;
    if (rt_bytes_read(path, &b, e)) return e->code;
    if (!b.n) {
        free(b.at);
        return rt_fail(e, RT_USER, "%s is empty", path);
    }
    if (parse(path, part, wanted, &b, out, e)) {
        free(b.at);
        *out = (RtArray){0};
        return e->code;
    }
    bool tokens = out->type.rank == 1 && out->type.dtype >= PD_U8 && out->type.dtype <= PD_I64;
    RtCode code = RT_OK;
    if (wanted && wanted->rank == 1 && tokens && out->type.dtype == wanted->dtype)
        code = rt_array_windows(path, out, wanted->dim[0], e);
    if (!code && wanted) code = check(path, out, wanted, e);
    if (code) rt_array_free(out);
    return code;
}

static RtCode append(const char *first, const char *path, RtArray *a, RtArray *more, RtError *e)
{
    bool same =
        a->type.dtype == more->type.dtype && a->type.rank == more->type.rank && a->type.rank > 0;
    for (int i = 1; same && i < a->type.rank; i++) same = a->type.dim[i] == more->type.dim[i];
    if (!same) {
        char x[200], y[200];
        prog_type_text(x, sizeof x, &a->type);
        prog_type_text(y, sizeof y, &more->type);
        return rt_fail(e, RT_USER,
                       "%s holds %s and %s holds %s: they cannot be joined along axis 0", first, x,
                       path, y);
    }
    char *p = realloc(a->data, a->bytes + more->bytes + 1);
    if (!p) return rt_fail(e, RT_OOM, "the data joined with %s do not fit in memory", path);
    if (more->bytes) memcpy(p + a->bytes, more->data, more->bytes);
    a->data = p;
    a->bytes += more->bytes;
    a->type.dim[0] += more->type.dim[0];
    return RT_OK;
}

RtCode rt_array_read(const char *path, const char *part, const ProgType *wanted, RtArray *out,
                     RtError *e)
{
    *out = (RtArray){0};
    if (part && !*part) part = NULL;
    // A comma may also be part of a name.
    if (!strchr(path, ',') || access(path, F_OK) == 0) return read_one(path, part, wanted, out, e);
    char *list = strdup(path), *first = NULL;
    if (!list) return rt_fail(e, RT_OOM, "out of memory");
    RtCode code = RT_OK;
    for (char *at = list, *next; at && !code; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = 0;
        RtArray one;
        if (!*at) {
            code = rt_fail(e, RT_USER, "%s: a file name between two commas is empty", path);
        } else if (!first) {
            first = at;
            code = read_one(at, part, wanted, out, e);
        } else if (!(code = read_one(at, part, wanted, &one, e))) {
            code = append(first, at, out, &one, e);
            rt_array_free(&one);
        }
    }
    free(list);
    if (code) rt_array_free(out);
    return code;
}

RtCode rt_array_check_range(const RtArray *a, const char *path, int64_t low, int64_t high,
                            RtError *e)
{
    int64_t width = prog_dtype_bytes(a->type.dtype), n = (int64_t)a->bytes / width;
    int64_t row = a->type.rank && a->type.dim[0] > 0 ? n / a->type.dim[0] : 1;
    return rt_range_check(a->type.dtype, a->data, n, row, low, high, path, e);
}
