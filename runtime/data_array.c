// Reading data files: which reader, several files as one, what the model wants against what is
// there.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static RtCode one_array(const char *path, RtBytes *b, const char *part, const ProgType *wanted,
                        RtArray *out, RtError *e)
{
    if (!b->n) return rt_fail(e, RT_USER, "%s is empty", path);
    if (parse(path, part, wanted, b, out, e)) {
        *out = (RtArray){0};
        return e->code;
    }
    *b = (RtBytes){0};
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

struct RtFiles {
    char *path; // as given
    int n;
    struct RtFile {
        char *path;
        bool read; // bytes or e say what came of it
        RtBytes bytes;
        RtError e;
    } * file;
    bool running;
    atomic_bool stop;
    pthread_t thread;
};

// A pipe is read when it is asked for: nobody may ever write into it.
static void *read_files(void *arg)
{
    RtFiles *f = arg;
    struct stat st;
    for (int i = 0; i < f->n && !atomic_load(&f->stop); i++) {
        struct RtFile *x = &f->file[i];
        if (!*x->path || (!stat(x->path, &st) && !S_ISREG(st.st_mode))) continue;
        rt_bytes_read(x->path, &x->bytes, &x->e);
        x->read = true;
    }
    return NULL;
}

void rt_files_begin(RtFiles *f)
{
    if (!f->running) f->running = pthread_create(&f->thread, NULL, read_files, f) == 0;
}

static void finish(RtFiles *f)
{
    if (f->running) pthread_join(f->thread, NULL);
    f->running = false;
}

void rt_files_free(RtFiles *f)
{
    if (!f) return;
    atomic_store(&f->stop, true);
    finish(f);
    for (int i = 0; f->file && i < f->n; i++) {
        free(f->file[i].path);
        free(f->file[i].bytes.at);
    }
    free(f->file);
    free(f->path);
    free(f);
}

RtFiles *rt_files_new(const char *path)
{
    RtFiles *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    // A comma may also be part of a name.
    bool list = strchr(path, ',') && access(path, F_OK) != 0, ok;
    f->n = 1;
    for (const char *p = path; list && *p; p++) f->n += *p == ',';
    f->path = strdup(path);
    f->file = calloc((size_t)f->n, sizeof *f->file);
    ok = f->path && f->file;
    for (int i = 0; i < f->n && ok; i++) {
        size_t len = list ? strcspn(path, ",") : strlen(path);
        f->file[i].path = strndup(path, len);
        ok = f->file[i].path;
        path += len + (path[len] == ',');
    }
    if (ok) return f;
    rt_files_free(f);
    return NULL;
}

bool rt_files_type(const RtFiles *f, ProgType *type)
{
    unsigned char head[4096];
    RtBytes b = {.at = head};
    double most;
    const char *path = f->file[0].path;
    if (f->n != 1 || !rt_bytes_head(path, head, sizeof head, &b.n, &most)) return false;
    bool known = rt_npy_recognise(&b) ? rt_npy_type(&b, type)
                                      : rt_idx_recognise(path, &b) && rt_idx_type(&b, type);
    if (!known) return false;
    double bytes = prog_dtype_bytes(type->dtype);
    for (int i = 0; i < type->rank; i++) bytes *= (double)type->dim[i];
    return bytes <= most; // else it is truncated: reading says so
}

RtCode rt_files_array(RtFiles *f, const char *part, const ProgType *wanted, RtArray *out,
                      RtError *e)
{
    *out = (RtArray){0};
    if (part && !*part) part = NULL;
    finish(f);
    RtCode code = RT_OK;
    for (int i = 0; i < f->n && !code; i++) {
        struct RtFile *x = &f->file[i];
        RtArray more;
        if (!*x->path)
            code = rt_fail(e, RT_USER, "%s: a file name between two commas is empty", f->path);
        else if (!x->read)
            code = rt_bytes_read(x->path, &x->bytes, e);
        else if ((code = x->e.code))
            *e = x->e;
        if (!code) code = one_array(x->path, &x->bytes, part, wanted, i ? &more : out, e);
        free(x->bytes.at);
        x->bytes = (RtBytes){0};
        x->read = false; // asked again, it is read again
        if (code || !i) continue;
        code = append(f->file[0].path, x->path, out, &more, e);
        rt_array_free(&more);
    }
    if (code) rt_array_free(out);
    return code;
}

RtCode rt_array_read(const char *path, const char *part, const ProgType *wanted, RtArray *out,
                     RtError *e)
{
    *out = (RtArray){0};
    RtFiles *f = rt_files_new(path);
    if (!f) return rt_fail(e, RT_OOM, "out of memory");
    RtCode code = rt_files_array(f, part, wanted, out, e);
    rt_files_free(f);
    return code;
}

RtCode rt_array_check_range(const RtArray *a, const char *path, int64_t low, int64_t high,
                            RtError *e)
{
    int64_t width = prog_dtype_bytes(a->type.dtype), n = (int64_t)a->bytes / width;
    int64_t row = a->type.rank && a->type.dim[0] > 0 ? n / a->type.dim[0] : 1;
    return rt_range_check(a->type.dtype, a->data, n, row, low, high, path, e);
}
