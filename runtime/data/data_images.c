// Sets of images as arrays: decoded by threads into memory, or row by row from their files.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data_read.h"
#include "runtime/data/images.h"
#include "runtime/host/threads.h"

enum { LARGEST_FILE = 1 << 28, HEAD = 1 << 18, MOST_THREADS = 64 };

struct RtImages {
    RtSource source; // for images that stay in their files
    char *path;
    RtListing list;
    int *fd; // by archive
    bool resize, skip_bad;
    bool sound;      // every image was decoded once, and bad ones were removed
    int64_t w, h, c; // of every image, if known
    int64_t bad;
    char *first_bad;
};

bool rt_images_named(const char *path)
{
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return !rt_folder_of_arrays(path);
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".tar");
}

static RtCode open_tars(RtImages *s, RtError *e)
{
    bool list = strchr(s->path, ',') && access(s->path, F_OK) != 0;
    for (const char *p = s->path; *p;) {
        size_t n = list ? strcspn(p, ",") : strlen(p);
        char *one = strndup(p, n);
        if (!one) return rt_fail(e, RT_OOM, "out of memory");
        RtCode code = rt_list_tar(&s->list, one, e);
        int *more = code ? NULL : realloc(s->fd, (size_t)s->list.ntars * sizeof *more);
        if (more) s->fd = more, more[s->list.ntars - 1] = open(one, O_RDONLY | O_CLOEXEC);
        if (!code && (!more || more[s->list.ntars - 1] < 0))
            code = rt_fail(e, RT_ENV, "cannot open %s: %s", one, strerror(errno));
        free(one);
        if (code) return code;
        p += n + (p[n] == ',');
    }
    return RT_OK;
}

RtCode rt_images_open(const char *path, bool resize, bool skip_bad, RtImages **out, RtError *e)
{
    struct stat st;
    RtImages *s = *out = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        rt_images_free(s);
        *out = NULL;
        return rt_fail(e, RT_OOM, "out of memory");
    }
    s->resize = resize;
    s->skip_bad = skip_bad;
    bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    RtCode code = folder ? rt_list_folder(&s->list, path, e) : open_tars(s, e);
    if (!code && s->list.n > INT32_MAX)
        code = rt_fail(e, RT_USER, "%s holds more than %d images", path, INT32_MAX);
    if (!code) return RT_OK;
    rt_images_free(s);
    *out = NULL;
    return code;
}

void rt_images_free(RtImages *s)
{
    if (!s) return;
    for (int i = 0; s->fd && i < s->list.ntars; i++)
        if (s->fd[i] > 0) close(s->fd[i]);
    rt_list_free(&s->list);
    free(s->fd), free(s->path), free(s->first_bad), free(s);
}

// -- one image ------------------------------------------------------------------------------------

// Reads the image's file, or its first [most] bytes.
static RtCode read_file(const RtImages *s, const RtListed *x, size_t most, RtBytes *b, RtError *e)
{
    struct stat st;
    int fd = x->tar >= 0 ? s->fd[x->tar] : open(x->name, O_RDONLY | O_CLOEXEC);
    int64_t size = x->size;
    *b = (RtBytes){0};
    if (fd >= 0 && x->tar < 0) size = fstat(fd, &st) ? -1 : S_ISREG(st.st_mode) ? st.st_size : 0;
    if (fd < 0 || size < 0) {
        rt_fail(e, RT_USER, "cannot read %s: %s", x->name, strerror(errno));
    } else if (size > LARGEST_FILE) {
        rt_fail(e, RT_USER, "%s has %" PRId64 " bytes; at most %d can be read", x->name, size,
                LARGEST_FILE);
    } else if (!(b->at = malloc((size_t)size + 1))) {
        rt_fail(e, RT_OOM, "%s does not fit in memory", x->name);
    } else {
        size_t want = (size_t)size < most ? (size_t)size : most;
        ssize_t k = 1;
        while (b->n < want && k > 0) {
            k = pread(fd, b->at + b->n, want - b->n, (off_t)(x->at + (int64_t)b->n));
            if (k < 0 && errno == EINTR)
                k = 1;
            else if (k > 0)
                b->n += (size_t)k;
        }
        if (k < 0) rt_fail(e, RT_USER, "cannot read %s: %s", x->name, strerror(errno));
        if (k == 0) rt_fail(e, RT_USER, "%s ends before its end: it is truncated", x->name);
    }
    if (fd >= 0 && x->tar < 0) close(fd);
    if (e->code) free(b->at), b->at = NULL;
    return e->code;
}

static RtCode other_size(const RtImages *s, const RtListed *x, int64_t w, int64_t h, RtError *e)
{
    return rt_fail(e, RT_USER,
                   "%s is %" PRId64 " x %" PRId64 " pixels, and %" PRId64 " x %" PRId64
                   " are expected (width x height); --resize scales and crops images to that size",
                   x->name, w, h, s->w, s->h);
}

// What is done with each image.
typedef enum Pass { PASS_SIZES, PASS_SOUND, PASS_PIXELS } Pass;

// bad: the image is damaged, not only of another size.
static RtCode one_image(const RtImages *s, const RtListed *x, Pass pass, unsigned char *to,
                        bool *bad, RtError *e)
{
    RtBytes b;
    int64_t w, h, c;
    unsigned char *pixels = NULL;
    *bad = true;
    if (read_file(s, x, pass == PASS_SIZES ? HEAD : SIZE_MAX, &b, e)) return e->code;
    RtCode code = pass == PASS_SIZES ? rt_image_size(x->name, &b, &w, &h, &c, e)
                                     : rt_image_decode(x->name, &b, s->c, &pixels, &w, &h, e);
    free(b.at);
    *bad = code == RT_USER;
    if (!code && !s->resize && (w != s->w || h != s->h)) code = other_size(s, x, w, h, e);
    if (!code && pass == PASS_PIXELS) code = rt_image_fit(pixels, w, h, s->c, to, s->w, s->h, e);
    free(pixels);
    return code;
}

// -- many, by threads -----------------------------------------------------------------------------
typedef struct Work {
    const RtImages *s;
    const int32_t *rows; // NULL: all, in order
    int64_t n;
    Pass pass;
    unsigned char *to;
    bool *left_out; // by image: it is bad; NULL: bad images are errors
    atomic_llong next;
    pthread_mutex_t lock; // guards the following
    int64_t bad, first;   // number of bad images; index of the first one that failed
    RtError e;            // error of that image
    bool hard;            // another error, such as lack of memory, which ended the work
} Work;

static void *work(void *arg)
{
    Work *k = arg;
    size_t row = (size_t)(k->s->w * k->s->h * k->s->c);
    for (int64_t i; (i = atomic_fetch_add(&k->next, 1)) < k->n;) {
        RtError e = {0};
        bool bad;
        const RtListed *x = &k->s->list.image[k->rows ? k->rows[i] : i];
        if (!one_image(k->s, x, k->pass, k->to ? k->to + (size_t)i * row : NULL, &bad, &e))
            continue;
        pthread_mutex_lock(&k->lock);
        if (bad) k->bad++;
        if (bad && k->left_out) k->left_out[i] = true;
        bool hard = !bad || !k->left_out; // another error, or a bad image if these are errors
        if (i < k->first && (hard || !k->hard)) k->first = i, k->e = e;
        if (hard && !bad) atomic_store(&k->next, k->n), k->hard = true, k->first = i, k->e = e;
        pthread_mutex_unlock(&k->lock);
    }
    return NULL;
}

// Processes images in several threads. k->e: the error of the first image, by index, that failed.
static void share(Work *k)
{
    pthread_t thread[MOST_THREADS];
    int n = rt_cpu_threads(), begun = 0;
    k->first = INT64_MAX;
    pthread_mutex_init(&k->lock, NULL);
    if (n > MOST_THREADS) n = MOST_THREADS;
    if (n > k->n) n = (int)k->n;
    while (begun + 1 < n && !pthread_create(&thread[begun], NULL, work, k)) begun++;
    work(k);
    while (begun > 0) pthread_join(thread[--begun], NULL);
    pthread_mutex_destroy(&k->lock);
}

static RtCode rows_of(const RtSource *source, const int32_t *rows, int64_t n, void *to, RtError *e)
{
    Work k = {.s = (const RtImages *)source, .rows = rows, .n = n, .pass = PASS_PIXELS, .to = to};
    share(&k);
    if (k.first != INT64_MAX) *e = k.e;
    return k.first != INT64_MAX ? k.e.code : RT_OK;
}

// Processes all images. Bad ones are removed, or reported with their number. to: the pixels of the
// others, without gaps.
static RtCode pass_all(RtImages *s, Pass pass, unsigned char *to, RtError *e)
{
    RtListing *l = &s->list;
    bool *left_out = calloc((size_t)l->n + 1, 1);
    if (!left_out) return rt_fail(e, RT_OOM, "out of memory");
    Work k = {.s = s, .n = l->n, .pass = pass, .to = to, .left_out = s->skip_bad ? left_out : NULL};
    share(&k);
    RtCode code = RT_OK;
    if (k.hard) {
        code = (*e = k.e).code;
    } else if (k.bad && (!s->skip_bad || k.bad == l->n)) {
        code =
            rt_fail(e, RT_USER, "%" PRId64 " of %" PRId64 " images cannot be read; the first: %s%s",
                    k.bad, l->n, k.e.text, s->skip_bad ? "" : " (--skip-bad skips them)");
    } else if (k.bad) {
        size_t row = (size_t)(s->w * s->h * s->c);
        int64_t kept = 0;
        for (int64_t i = 0; i < l->n; i++) {
            if (left_out[i]) {
                free(l->image[i].name);
                continue;
            }
            if (to && kept != i) memmove(to + (size_t)kept * row, to + (size_t)i * row, row);
            l->image[kept++] = l->image[i];
        }
        l->n = kept;
        s->bad = k.bad;
        s->first_bad = strdup(k.e.text);
    }
    free(left_out);
    s->sound = s->sound || (!code && pass != PASS_SIZES);
    return code;
}

// -- arrays ---------------------------------------------------------------------------------------
// The labels, if they are asked for by name or the input holds one number per example (also of
// `stream`: images and labels may be named alike).
static bool is_labels(const char *part, const ProgType *wanted)
{
    bool number = wanted && wanted->rank == 0;
    return part && strcmp(part, "stream") != 0 ? !strcmp(part, "labels") : number;
}

static RtCode known_part(const RtImages *s, const char *part, const ProgType *wanted, RtError *e)
{
    if (!part || !strcmp(part, "images") || !strcmp(part, "stream") || !strcmp(part, "labels")) {
        if (!is_labels(part, wanted) || s->list.labels) return RT_OK;
        return rt_fail(e, RT_USER,
                       "%s has no labels: its images are not in a folder for each class%s", s->path,
                       s->list.ntars ? ", or a .cls beside each (directly before or behind it, as "
                                       "'tar --sort=name' writes them)"
                                     : "");
    }
    return rt_fail(e, RT_USER,
                   "%s is a set of images; its parts are images, stream and labels, not '%s'",
                   s->path, part);
}

// The size of all images: the wanted one, otherwise that of the first image.
static RtCode find_size(RtImages *s, const ProgType *wanted, RtError *e)
{
    int64_t w = -1, h = -1, c = -1;
    if (wanted && (wanted->rank != 3 || wanted->dtype != PD_U8)) {
        char text[200];
        prog_type_text(text, sizeof text, wanted);
        return rt_fail(
            e, RT_USER,
            "%s is a set of images, u8[height, width, 1 or 3] each; the model expects %s of "
            "an example",
            s->path, text);
    }
    if (wanted) h = wanted->dim[0], w = wanted->dim[1], c = wanted->dim[2];
    if (c != -1 && c != 1 && c != 3)
        return rt_fail(e, RT_USER, "%s: images have 1 or 3 channels, the model expects %" PRId64,
                       s->path, c);
    if (s->resize && (w < 1 || h < 1))
        return rt_fail(e, RT_USER,
                       "%s: --resize needs the size of the model's input to be known; give its "
                       "dimensions with -D",
                       s->path);
    RtError first = {0};
    for (int64_t i = 0; i < s->list.n && (w < 1 || h < 1 || c < 1); i++) {
        RtBytes b;
        int64_t iw, ih, ic;
        first = (RtError){0};
        if (read_file(s, &s->list.image[i], HEAD, &b, &first)) continue;
        RtCode code = rt_image_size(s->list.image[i].name, &b, &iw, &ih, &ic, &first);
        free(b.at);
        if (code && code != RT_USER) break;
        if (code) continue; // a bad image, which is counted later
        w = w < 1 ? iw : w, h = h < 1 ? ih : h, c = c < 1 ? ic : c;
    }
    if (w < 1 || h < 1 || c < 1) return (*e = first).code;
    s->w = w, s->h = h, s->c = c;
    return RT_OK;
}

RtCode rt_images_type(RtImages *s, const char *part, const ProgType *wanted, ProgType *out,
                      RtError *e)
{
    if (known_part(s, part, wanted, e)) return e->code;
    *out = (ProgType){.dtype = PD_U8, .rank = 1, .dim = {s->list.n}};
    if (is_labels(part, wanted)) {
        if (wanted) out->dtype = wanted->dtype;
        return RT_OK;
    }
    if (find_size(s, wanted, e)) return e->code;
    out->rank = 4;
    out->dim[1] = s->h, out->dim[2] = s->w, out->dim[3] = s->c;
    return RT_OK;
}

static RtCode make_labels(RtImages *s, const ProgType *t, RtArray *out, RtError *e)
{
    int64_t width = prog_dtype_bytes(t->dtype), most = t->dtype == PD_U8 ? 255 : INT32_MAX;
    if (t->dtype < PD_U8 || t->dtype > PD_I64)
        return rt_fail(e, RT_USER, "%s: labels are integers, the model expects %s", s->path,
                       prog_dtype_name(t->dtype));
    char *p = malloc((size_t)(s->list.n * width) + 1);
    if (!p) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t i = 0; i < s->list.n && !e->code; i++) {
        const RtListed *x = &s->list.image[i];
        if (x->label < 0)
            rt_fail(e, RT_USER, "%s has no label: there is no .cls beside it", x->name);
        else if (x->label > most)
            rt_fail(e, RT_USER, "%s is of class %" PRId64 ", which %s cannot hold", x->name,
                    x->label, prog_dtype_name(t->dtype));
        memcpy(p + i * width, &x->label, (size_t)width); // little-endian
    }
    if (e->code) return free(p), e->code;
    *out = (RtArray){.type = {.dtype = t->dtype, .rank = 1, .dim = {s->list.n}},
                     .data = p,
                     .bytes = (size_t)(s->list.n * width)};
    return RT_OK;
}

static void forget(RtSource *s)
{
    (void)s; // freed by its owner
}

RtCode rt_images_array(RtImages *s, const char *part, const ProgType *wanted, size_t most,
                       RtArray *out, RtError *e)
{
    ProgType t;
    int64_t bytes;
    *out = (RtArray){0};
    if (rt_images_type(s, part, wanted, &t, e)) return e->code;
    bool labels = is_labels(part, wanted);
    if (labels && s->skip_bad && !s->sound) { // labels must match the images that remain
        int64_t c = s->c;
        s->c = c ? c : 3;
        bool resize = s->resize;
        s->resize = true; // (sizes are checked with the images)
        RtCode code = pass_all(s, PASS_SOUND, NULL, e);
        s->resize = resize, s->c = c;
        if (code) return code;
    }
    if (labels) return make_labels(s, &t, out, e);
    bytes = prog_type_bytes(&t);
    if (bytes < 0) return rt_fail(e, RT_USER, "%s: it holds too many images", s->path);
    if ((part && !strcmp(part, "stream")) || (size_t)bytes > most) {
        Pass pass = s->skip_bad && !s->sound ? PASS_SOUND : PASS_SIZES;
        if (pass_all(s, pass, NULL, e)) return e->code;
        s->source = (RtSource){.rows = rows_of, .step = 1, .free = forget};
        out->source = &s->source;
    } else {
        unsigned char *p = malloc((size_t)bytes + 1);
        if (!p) return rt_fail(e, RT_OOM, "the images of %s do not fit in memory", s->path);
        if (pass_all(s, PASS_PIXELS, p, e)) return free(p), e->code;
        out->data = p;
    }
    t.dim[0] = s->list.n;
    out->type = t;
    out->bytes = (size_t)prog_type_bytes(&t);
    return RT_OK;
}

int64_t rt_images_bad(const RtImages *s, const char **first)
{
    *first = s->first_bad;
    return s->bad;
}

RtCode rt_images_agree(const RtImages *a, const char *a_path, const RtImages *b, const char *b_path,
                       RtError *e)
{
    const RtListing *x = &a->list, *y = &b->list;
    if (!x->nclasses || !y->nclasses) return RT_OK; // numbers, or no labels
    int i = 0, k = 0;
    while (i < x->nclasses && k < y->nclasses && !strcmp(x->classes[i], y->classes[k])) i++, k++;
    if (i == x->nclasses && k == y->nclasses) return RT_OK;
    bool first = k == y->nclasses || (i < x->nclasses && strcmp(x->classes[i], y->classes[k]) < 0);
    return rt_fail(e, RT_USER,
                   "the classes differ: %s has a folder '%s', %s has none (%d classes and %d)",
                   first ? a_path : b_path, first ? x->classes[i] : y->classes[k],
                   first ? b_path : a_path, x->nclasses, y->nclasses);
}
