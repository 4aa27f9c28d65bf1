// Reads data files: chooses the reader, joins several files, and compares what the model expects
// with what they hold.
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/half.h"
#include "runtime/data/data_read.h"
#include "runtime/data/tokens.h"
#include "runtime/host/range.h"

bool rt_path_ends(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    if (n > 3 && !strcmp(path + n - 3, ".gz")) n -= 3;
    return n >= k && !strncmp(path + n - k, suffix, k);
}

void rt_array_free(RtArray *a)
{
    free(a->data);
    if (a->source) a->source->free(a->source);
    *a = (RtArray){0};
}

RtCode rt_size_check(const char *path, const RtBytes *b, size_t head, const ProgType *t, RtError *e)
{
    char text[200];
    prog_type_text(text, sizeof text, t);
    int64_t bytes = prog_type_bytes(t);
    size_t have = b->n - head;
    if (bytes < 0)
        return rt_fail(e, RT_USER,
                       "%s: its header says %s, more than any memory holds: it is damaged", path,
                       text);
    if (have < (size_t)bytes)
        return rt_fail(e, RT_USER,
                       "%s is truncated: its header says %s, which is %" PRId64
                       " bytes, but %zu follow",
                       path, text, bytes, have);
    if (have > (size_t)bytes)
        return rt_fail(e, RT_USER,
                       "%s has bytes after its end: its header says %s, which is %" PRId64
                       " bytes, but more follow",
                       path, text, bytes);
    return RT_OK;
}

static bool is_float(const ProgType *t)
{
    return t && t->dtype >= PD_BF16;
}

static bool is_table(const char *path, const char *part, const ProgType *wanted, const RtBytes *b)
{
    if (rt_csv_named(path)) return true;
    bool tokens = part && (!strcmp(part, "u16") || !strcmp(part, "u32"));
    return rt_path_unnamed(path) && !tokens && (part || is_float(wanted)) && rt_text_recognise(b);
}

static RtCode parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e)
{
    if (part && !strcmp(part, "raw")) return rt_raw_parse(path, NULL, wanted, b, out, e);
    if (is_table(path, part, wanted, b)) return rt_csv_parse(path, part, wanted, b, out, e);
    if (rt_npz_named(path) || (rt_path_unnamed(path) && rt_zip_recognise(b)))
        return rt_npz_parse(path, part, b, out, e);
    bool npy = rt_npy_recognise(b) || rt_path_ends(path, ".npy"),
         idx = !npy && rt_idx_recognise(path, b);
    if ((npy || idx) && part)
        return rt_fail(e, RT_USER, "%s holds one tensor, it has no part '%s'", path, part);
    if (npy) return rt_npy_parse(path, b, out, e);
    if (idx) return rt_idx_parse(path, b, out, e);
    if (rt_cifar_recognise(path, part, b)) return rt_cifar_parse(path, part, wanted, b, out, e);
    if (!part && rt_foreign_check(path, b, wanted != NULL, e)) return e->code;
    if (!part && is_float(wanted) && rt_text_recognise(b))
        return rt_fail(e, RT_USER,
                       "%s is text, which an input of %s cannot take; a table of numbers must be "
                       "named .csv or .tsv, and other text needs an input of u8 or i32",
                       path, prog_dtype_name(wanted->dtype));
    int width = 0;
    if (!part && wanted && rt_token_recognise(b->at, b->n)) {
        if (!(width = rt_token_width(path, b->at, b->n, e))) return e->code;
        memmove(b->at, b->at + sizeof(RtTokenHead), b->n -= sizeof(RtTokenHead));
        if (wanted->dtype == PD_U8 && rt_token_narrow(path, b, width, e)) return e->code;
        part = wanted->dtype == PD_U8 ? NULL : width == 2 ? "u16" : "u32";
    }
    return rt_raw_parse(path, part, wanted, b, out, e);
}

// Whether it is a sequence of tokens, windows of which are the examples.
static bool is_row(const ProgType *t, const ProgType *wanted)
{
    return wanted->rank == 1 && t->rank == 1 && t->dtype >= PD_U8 && t->dtype <= PD_I64 &&
           t->dtype == wanted->dtype;
}

// Whether f32 is converted to the 16-bit float that the model wants, since .npy has no bf16.
static bool narrows(const ProgType *t, const ProgType *wanted)
{
    return t->dtype == PD_F32 && (wanted->dtype == PD_F16 || wanted->dtype == PD_BF16);
}

static RtCode narrow(const char *path, RtArray *a, ProgDType to, RtError *e)
{
    int64_t row = a->type.rank && a->type.dim[0] ? (int64_t)(a->bytes / 4) / a->type.dim[0] : 1;
    int64_t bad =
        half_narrow(a->data, (int64_t)(a->bytes / 4), to == PD_F16 ? HALF_F16 : HALF_BF16);
    a->type.dtype = to;
    a->bytes /= 2;
    if (bad < 0) return RT_OK;
    return rt_fail(e, RT_USER, "%s: example %" PRId64 " holds a number that is too large for %s",
                   path, bad / row, prog_dtype_name(to));
}

// Checks that the examples are what the model wants. wanted: type of one example.
static RtCode check(const char *path, const ProgType *t, const ProgType *wanted, RtError *e)
{
    bool element = t->dtype == wanted->dtype || narrows(t, wanted);
    bool same = element && t->rank == wanted->rank + 1;
    for (int i = 0; same && i < wanted->rank; i++)
        same = wanted->dim[i] < 0 || wanted->dim[i] == t->dim[i + 1];
    if (same) return RT_OK;
    char have[200], want[200];
    ProgType w = *wanted;
    if (w.rank < PROG_MAX_RANK) {
        memmove(w.dim + 1, w.dim, (size_t)w.rank * sizeof w.dim[0]);
        w.dim[0] = -1;
        w.rank++;
    }
    prog_type_text(have, sizeof have, t);
    prog_type_text(want, sizeof want, &w);
    return rt_fail(e, RT_USER, "%s holds %s, the model expects %s (axis 0 is the examples)%s%s",
                   path, have, want, element ? "" : "; convert the file, or declare the input as ",
                   element ? "" : prog_dtype_name(t->dtype));
}

// Whether a file in a folder is one example, which becomes the only row of its axis 0.
static bool is_example(const char *path, const ProgType *t, const ProgType *wanted)
{
    bool array = rt_path_named(path, ".npy .npz ");
    return array && wanted && t->rank == wanted->rank && t->rank < PROG_MAX_RANK;
}

static void as_example(ProgType *t)
{
    memmove(t->dim + 1, t->dim, (size_t)t->rank++ * sizeof *t->dim);
    t->dim[0] = 1;
}

static RtCode one_array(const char *path, RtBytes *b, const char *part, const ProgType *wanted,
                        bool folder, RtArray *out, RtError *e)
{
    if (!b->n) return rt_fail(e, RT_USER, "%s is empty", path);
    if (parse(path, part, wanted, b, out, e)) {
        *out = (RtArray){0};
        return e->code;
    }
    *b = (RtBytes){0};
    RtCode code = RT_OK;
    if (folder && is_example(path, &out->type, wanted))
        as_example(&out->type);
    else if (wanted && is_row(&out->type, wanted))
        code = rt_array_windows(path, out, wanted->dim[0], e);
    if (!code && wanted) code = check(path, &out->type, wanted, e);
    if (!code && wanted && narrows(&out->type, wanted)) code = narrow(path, out, wanted->dtype, e);
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
        bool read; // [bytes] or [e] is the result
        RtBytes bytes;
        RtError e;
    } * file;
    bool folder;   // all files are from one folder
    bool anywhere; // windows may begin at any token
    bool running;
    pid_t owner; // process in which the thread runs; a forked process does not have the thread
    atomic_bool stop;
    pthread_t thread;
};

enum { HEAD = 4096 };

// What the first bytes of a regular file say about the whole: whether its type is known and, if so,
// its size.
typedef struct Head {
    unsigned char at[HEAD];
    RtBytes b;   // the first bytes, in [at]
    double most; // upper bound of the file's contents in bytes
    bool typed;
    ProgType type;
    size_t bytes; // including the header
} Head;

static bool read_head(const char *path, Head *h)
{
    size_t head;
    h->b.at = h->at;
    h->typed = false;
    h->bytes = SIZE_MAX - 1;
    if (!rt_bytes_head(path, HEAD, &h->b, &h->most)) return false;
    h->typed = rt_npy_recognise(&h->b)
                   ? rt_npy_type(&h->b, &h->type, &head)
                   : rt_idx_recognise(path, &h->b) && rt_idx_type(&h->b, &h->type, &head);
    int64_t bytes = h->typed ? prog_type_bytes(&h->type) : -1;
    if (bytes >= 0) h->bytes = head + (size_t)bytes;
    return true;
}

// Reads files ahead, except pipes, which may have no writer yet, and files that could expand to
// very much.
static void *read_files(void *arg)
{
    enum { FREELY = 256 << 20 };
    RtFiles *f = arg;
    for (int i = 0; i < f->n && !atomic_load(&f->stop); i++) {
        struct RtFile *x = &f->file[i];
        Head h;
        if (x->read || !*x->path || !read_head(x->path, &h)) continue;
        if (h.b.packed && h.most > FREELY && (!h.typed || h.bytes > FREELY)) continue;
        if (!h.b.packed && h.most > FREELY && !h.typed)
            continue; // it may be tokens, which can
                      // stay in the file
        rt_bytes_read(x->path, h.bytes, &x->bytes, &x->e);
        x->read = true;
    }
    return NULL;
}

// Reads a file, unless its first bytes show that it is not what is wanted. A file that may be IDX,
// but is not named so, is IDX only if its length is right, so not more than that is decompressed.
static RtCode read_wanted(struct RtFile *x, const char *part, const ProgType *wanted, bool folder,
                          RtError *e)
{
    Head h;
    size_t most = SIZE_MAX - 1, head;
    if (!part && read_head(x->path, &h)) {
        if (h.typed && folder && is_example(x->path, &h.type, wanted)) as_example(&h.type);
        if (h.typed && wanted && !is_row(&h.type, wanted) && check(x->path, &h.type, wanted, e))
            return e->code;
        bool idx = !h.typed && rt_idx_type(&h.b, &h.type, &head);
        bool reader = h.typed || idx || rt_path_ends(x->path, ".npy") || rt_csv_named(x->path) ||
                      rt_npz_named(x->path) || (rt_path_unnamed(x->path) && rt_zip_recognise(&h.b));
        if (!reader && rt_foreign_check(x->path, &h.b, wanted != NULL, e)) return e->code;
        int64_t bytes = idx && rt_raw_refused(x->path, &h.b) ? prog_type_bytes(&h.type) : -1;
        most = bytes >= 0 ? head + (size_t)bytes : h.bytes;
    }
    return rt_bytes_read(x->path, most, &x->bytes, e);
}

void rt_files_anywhere(RtFiles *f)
{
    f->anywhere = true;
}

void rt_files_begin(RtFiles *f)
{
    f->owner = getpid();
    if (!f->running) f->running = pthread_create(&f->thread, NULL, read_files, f) == 0;
}

static void finish(RtFiles *f)
{
    if (f->running && f->owner == getpid()) pthread_join(f->thread, NULL);
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

static const char array_names[] = ".npy .npz .csv .tsv ";

static int visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

bool rt_folder_of_arrays(const char *path)
{
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *x; d && !found && (x = readdir(d));)
        found = visible(x) && rt_path_named(x->d_name, array_names);
    if (d) closedir(d);
    return found;
}

// The files of a folder, sorted by the bytes of their names. false: no memory.
static bool list_folder(RtFiles *f)
{
    struct dirent **in = NULL;
    int n = scandir(f->path, &in, visible, by_bytes);
    bool ok = n >= 0;
    f->folder = true;
    f->file = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *f->file);
    for (int i = 0; i < n; i++) {
        struct RtFile *x = f->file ? &f->file[f->n++] : NULL;
        ok = ok && x && asprintf(&x->path, "%s/%s", f->path, in[i]->d_name) >= 0;
        if (!ok && x) x->path = NULL;
        if (ok && !rt_path_named(in[i]->d_name, array_names))
            rt_fail(&x->e, RT_USER,
                    "%s is not an array, and all files of %s are read as arrays (.npy, .npz, .csv)",
                    x->path, f->path);
        if (x) x->read = ok && x->e.code;
        free(in[i]);
    }
    free(in);
    return ok && f->file;
}

RtFiles *rt_files_new(const char *path)
{
    RtFiles *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    if (rt_folder_of_arrays(path)) {
        f->path = strdup(path);
        if (f->path && list_folder(f)) return f;
        rt_files_free(f);
        return NULL;
    }
    // A name may contain a comma, too.
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

bool rt_files_type(const RtFiles *f, const char *part, ProgType *type)
{
    Head h;
    if (f->n != 1 || f->folder || (part && *part) || !read_head(f->file[0].path, &h) || !h.typed)
        return false;
    *type = h.type;
    return (double)h.bytes <= h.most; // otherwise it is truncated, which is reported when it is
                                      // read
}

// Leaves tokens in their files if their windows would take much memory, or if windows begin
// anywhere.
static RtCode stay(RtFiles *f, const char *part, const ProgType *wanted, RtArray *out, RtError *e)
{
    enum { LEAST = 256 << 20 };
    const char **paths = calloc((size_t)f->n, sizeof *paths);
    if (!paths) return rt_fail(e, RT_OOM, "out of memory");
    for (int i = 0; i < f->n; i++) paths[i] = f->file[i].path;
    RtCode code =
        rt_tokens_open(paths, f->n, part, wanted, f->anywhere, f->anywhere ? 0 : LEAST, out, e);
    free(paths);
    if (code || out->source || !f->anywhere) return code;
    return rt_fail(
        e, RT_USER,
        "%s: random windows are read from plain files of tokens or text, each at least a "
        "window long; not from compressed ones, .npy, IDX",
        f->path);
}

RtCode rt_files_array(RtFiles *f, const char *part, const ProgType *wanted, RtArray *out,
                      RtError *e)
{
    *out = (RtArray){0};
    if (part && !*part) part = NULL;
    finish(f);
    RtCode code = stay(f, part, wanted, out, e);
    if (code || out->source) return code;
    for (int i = 0; i < f->n && !code; i++) {
        struct RtFile *x = &f->file[i];
        RtArray more;
        if (!*x->path)
            code = *f->path
                       ? rt_fail(e, RT_USER, "%s: a file name between two commas is empty", f->path)
                       : rt_fail(e, RT_USER, "the name of a file is empty: name one");
        else if (!x->read)
            code = read_wanted(x, part, wanted, f->folder, e);
        else if ((code = x->e.code))
            *e = x->e;
        if (!code)
            code = one_array(x->path, &x->bytes, part, wanted, f->folder, i ? &more : out, e);
        free(x->bytes.at);
        x->bytes = (RtBytes){0};
        x->read = false; // read again if requested again
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

RtCode rt_array_row(const RtArray *a, int64_t row, void *to, RtError *e)
{
    int32_t at = (int32_t)row;
    if (a->source) return a->source->rows(a->source, &at, 1, to, e);
    size_t bytes = a->type.dim[0] ? a->bytes / (size_t)a->type.dim[0] : 0;
    memcpy(to, (const char *)a->data + (size_t)row * bytes, bytes);
    return RT_OK;
}

RtCode rt_array_check_range(const RtArray *a, const char *path, int64_t low, int64_t high,
                            RtError *e)
{
    if (a->source) {
        if (a->source->range) a->source->range(a->source, low, high);
        return RT_OK;
    }
    int64_t width = prog_dtype_bytes(a->type.dtype), n = (int64_t)a->bytes / width;
    int64_t row = a->type.rank && a->type.dim[0] > 0 ? n / a->type.dim[0] : 1;
    return rt_range_check(a->type.dtype, a->data, n, row, low, high, path, e);
}
