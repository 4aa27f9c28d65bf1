// PNG by libspng and JPEG by TurboJPEG, opened when the first image is read: netc is built and runs
// without them.
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/images.h"

enum { MOST_PIXELS = 1 << 27, MOST_SIDE = 1 << 20, MOST_CHUNK = 1 << 26 };

bool rt_image_named(const char *name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && !strcmp(name + n - k, ends[i])) return true;
    }
    return false;
}

// -- the libraries' interfaces --------------------------------------------------------------------
struct ihdr { // struct spng_ihdr
    uint32_t width, height;
    uint8_t depth, color, compression, filter, interlace;
};
enum { SPNG_RGB8 = 4 };
enum {
    TJ_RGB = 0,
    TJ_GRAY = 6,
    TJ_CMYK = 3,
    TJ_ACCURATE = 4096,
    TJ_STRICT = 8192,
    TJ_SCANS = 32768
};

typedef struct Png {
    void *(*ctx_new)(int flags);
    void (*ctx_free)(void *ctx);
    int (*set_png_buffer)(void *ctx, const void *buf, size_t size);
    int (*set_image_limits)(void *ctx, uint32_t width, uint32_t height);
    int (*set_chunk_limits)(void *ctx, size_t chunk, size_t cache);
    int (*get_ihdr)(void *ctx, struct ihdr *out);
    int (*decode_image)(void *ctx, void *out, size_t len, int fmt, int flags);
    int (*decode_chunks)(void *ctx);
    const char *(*strerror)(int err);
} Png;

typedef struct Jpeg {
    void *(*InitDecompress)(void);
    int (*Destroy)(void *handle);
    int (*DecompressHeader3)(void *handle, const unsigned char *buf, unsigned long size, int *width,
                             int *height, int *subsampling, int *colorspace);
    int (*Decompress2)(void *handle, const unsigned char *buf, unsigned long size,
                       unsigned char *out, int width, int pitch, int height, int format, int flags);
    char *(*GetErrorStr2)(void *handle);
} Jpeg;

typedef struct Symbol {
    const char *name;
    size_t at;
} Symbol;

static bool open_library(const char *file, const Symbol *symbols, size_t n, void *to)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (size_t i = 0; lib && i < n; i++) {
        void *f = dlsym(lib, symbols[i].name);
        if (!f) return false;
        memcpy((char *)to + symbols[i].at, &f, sizeof f);
    }
    return lib != NULL;
}

static bool png_open(Png *p)
{
#define ROW(f)                                                                                     \
    {                                                                                              \
        "spng_" #f, offsetof(Png, f)                                                               \
    }
    static const Symbol symbols[] = {
        ROW(ctx_new),          ROW(ctx_free),         ROW(set_png_buffer),
        ROW(set_image_limits), ROW(set_chunk_limits), ROW(get_ihdr),
        ROW(decode_image),     ROW(decode_chunks),    ROW(strerror)};
#undef ROW
    return open_library("libspng.so.0", symbols, sizeof symbols / sizeof *symbols, p);
}

static bool jpeg_open(Jpeg *p)
{
#define ROW(f)                                                                                     \
    {                                                                                              \
        "tj" #f, offsetof(Jpeg, f)                                                                 \
    }
    static const Symbol symbols[] = {ROW(InitDecompress), ROW(Destroy), ROW(DecompressHeader3),
                                     ROW(Decompress2), ROW(GetErrorStr2)};
#undef ROW
    return open_library("libturbojpeg.so.0", symbols, sizeof symbols / sizeof *symbols, p);
}

bool rt_images_readable(const char **png, const char **jpeg)
{
    Png p;
    Jpeg j;
    *png = png_open(&p) ? NULL : "libspng.so.0 was not found (Debian: libspng0)";
    *jpeg = jpeg_open(&j) ? NULL : "libturbojpeg.so.0 was not found (Debian: libturbojpeg0)";
    return !*png && !*jpeg;
}

static RtCode no_library(const char *name, const char *what, const char *why, RtError *e)
{
    return rt_fail(e, RT_ENV, "%s is a %s image, and %s; install it, nothing has to be rebuilt",
                   name, what, why);
}

static RtCode damaged(const char *name, const char *what, const char *why, RtError *e)
{
    return rt_fail(e, RT_USER, "%s: a damaged %s image: %s", name, what, why);
}

static RtCode within(const char *name, int64_t w, int64_t h, RtError *e)
{
    if (w > 0 && h > 0 && w <= MOST_SIDE && h <= MOST_SIDE && w * h <= MOST_PIXELS) return RT_OK;
    return rt_fail(e, RT_USER,
                   "%s says it is %" PRId64 " x %" PRId64 " pixels; at most %d can be read", name,
                   w, h, MOST_PIXELS);
}

// -- one image ------------------------------------------------------------------------------------
typedef struct Image {
    const char *name;
    const RtBytes *b;
    int64_t w, h, c;    // c: channels in the file, 1 or 3
    int64_t channels;   // wanted
    unsigned char *out; // NULL: only the size is needed
} Image;

static RtCode take_size(Image *x, int64_t w, int64_t h, int64_t c, bool whole, RtError *e)
{
    x->w = w, x->h = h, x->c = c;
    if (within(x->name, w, h, e) || !whole) return e->code;
    x->out = malloc((size_t)(w * h) * 3 + 1);
    return x->out ? RT_OK : rt_fail(e, RT_OOM, "%s does not fit in memory", x->name);
}

static RtCode read_png(Image *x, bool whole, RtError *e)
{
    Png p;
    const char *why[2];
    struct ihdr head;
    if (!png_open(&p))
        return rt_images_readable(&why[0], &why[1]), no_library(x->name, "PNG", why[0], e);
    void *ctx = p.ctx_new(0);
    if (!ctx) return rt_fail(e, RT_OOM, "out of memory");
    int bad = p.set_image_limits(ctx, MOST_SIDE, MOST_SIDE);
    if (!bad) bad = p.set_chunk_limits(ctx, MOST_CHUNK, MOST_CHUNK);
    if (!bad) bad = p.set_png_buffer(ctx, x->b->at, x->b->n);
    if (!bad) bad = p.get_ihdr(ctx, &head);
    RtCode code =
        bad ? RT_OK : take_size(x, head.width, head.height, head.color & 2 ? 3 : 1, whole, e);
    if (!bad && !code && whole)
        bad = p.decode_image(ctx, x->out, (size_t)(x->w * x->h) * 3, SPNG_RGB8, 0);
    if (!bad && !code && whole)
        bad = p.decode_chunks(ctx); // reads to the end, which verifies
                                    // checksums
    if (bad && !code) code = damaged(x->name, "PNG", p.strerror(bad), e);
    p.ctx_free(ctx);
    return code;
}

static RtCode read_jpeg(Image *x, bool whole, RtError *e)
{
    Jpeg p;
    const char *why[2];
    int w, h, sub, space;
    if (!jpeg_open(&p))
        return rt_images_readable(&why[0], &why[1]), no_library(x->name, "JPEG", why[1], e);
    void *t = p.InitDecompress();
    if (!t) return rt_fail(e, RT_OOM, "out of memory");
    RtCode code = RT_OK;
    if (p.DecompressHeader3(t, x->b->at, x->b->n, &w, &h, &sub, &space))
        code = damaged(x->name, "JPEG", p.GetErrorStr2(t), e);
    else if (space >= TJ_CMYK)
        code =
            rt_fail(e, RT_USER, "%s is a JPEG image for printing (CMYK); save it as RGB", x->name);
    else
        code = take_size(x, w, h, space == 2 ? 1 : 3, whole, e);
    if (!code && whole &&
        p.Decompress2(t, x->b->at, x->b->n, x->out, w, 0, h, x->channels == 1 ? TJ_GRAY : TJ_RGB,
                      TJ_ACCURATE | TJ_STRICT | TJ_SCANS))
        code = damaged(x->name, "JPEG", p.GetErrorStr2(t), e);
    p.Destroy(t);
    return code;
}

// Converts (n, 3) to (n): luma according to ITU-R 601.
static void to_gray(unsigned char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = (unsigned char)((p[3 * i] * 19595u + p[3 * i + 1] * 38470u + p[3 * i + 2] * 7471u +
                                32768) >>
                               16);
}

static RtCode read_image(Image *x, bool whole, RtError *e)
{
    const unsigned char *at = x->b->at;
    bool png = x->b->n >= 8 && !memcmp(at, "\x89PNG\r\n\x1a\n", 8),
         jpeg = x->b->n >= 3 && !memcmp(at, "\xff\xd8\xff", 3);
    if (!png && !jpeg)
        return rt_fail(e, RT_USER, "%s is %s", x->name,
                       x->b->n ? "neither a PNG nor a JPEG image, despite its name" : "empty");
    RtCode code = png ? read_png(x, whole, e) : read_jpeg(x, whole, e);
    if (!code && whole && png && x->channels == 1) to_gray(x->out, x->w * x->h);
    if (code) free(x->out), x->out = NULL;
    return code;
}

RtCode rt_image_size(const char *name, const RtBytes *b, int64_t *w, int64_t *h, int64_t *c,
                     RtError *e)
{
    Image x = {.name = name, .b = b};
    RtCode code = read_image(&x, false, e);
    *w = x.w, *h = x.h, *c = x.c;
    return code;
}

RtCode rt_image_decode(const char *name, const RtBytes *b, int64_t c, unsigned char **out,
                       int64_t *w, int64_t *h, RtError *e)
{
    Image x = {.name = name, .b = b, .channels = c};
    RtCode code = read_image(&x, true, e);
    *w = x.w, *h = x.h, *out = x.out;
    return code;
}

// -- another size ---------------------------------------------------------------------------------

// For each of [to] pixels, centred on n source pixels: which source pixels contribute, and their
// weights.
typedef struct Taps {
    int64_t most;
    int64_t *first, *count;
    double *weight; // (to, most)
} Taps;

static bool taps_new(Taps *t, int64_t n, int64_t to, double scale)
{
    double wide = scale > 1 ? scale : 1, begin = ((double)n - (double)to * scale) / 2;
    t->most = (int64_t)(2 * wide) + 3;
    t->first = malloc((size_t)to * sizeof *t->first);
    t->count = malloc((size_t)to * sizeof *t->count);
    t->weight = calloc((size_t)(to * t->most), sizeof *t->weight);
    if (!t->first || !t->count || !t->weight) return false;
    for (int64_t i = 0; i < to; i++) {
        double middle = begin + ((double)i + 0.5) * scale, sum = 0, *w = t->weight + i * t->most;
        int64_t from = (int64_t)(middle - wide), end = (int64_t)(middle + wide) + 1;
        from = from < 0 ? 0 : from, end = end > n ? n : end;
        t->first[i] = from;
        t->count[i] = end - from < t->most ? end - from : t->most;
        for (int64_t k = 0; k < t->count[i]; k++) {
            double off = ((double)(from + k) + 0.5 - middle) / wide;
            off = off < 0 ? -off : off;
            w[k] = off < 1 ? 1 - off : 0;
            sum += w[k];
        }
        for (int64_t k = 0; k < t->count[i]; k++) w[k] /= sum;
    }
    return true;
}

static void taps_free(Taps *t)
{
    free(t->first), free(t->count), free(t->weight);
}

RtCode rt_image_fit(const unsigned char *in, int64_t w, int64_t h, int64_t c, unsigned char *out,
                    int64_t to_w, int64_t to_h, RtError *e)
{
    if (w == to_w && h == to_h) return memcpy(out, in, (size_t)(w * h * c)), RT_OK;
    double sx = (double)w / (double)to_w, sy = (double)h / (double)to_h, s = sx < sy ? sx : sy;
    Taps x = {0}, y = {0};
    float *rows = malloc((size_t)(h * to_w * c) * sizeof *rows + 1); // (h, to_w, c)
    bool ok = rows && taps_new(&x, w, to_w, s) && taps_new(&y, h, to_h, s);
    for (int64_t r = 0; ok && r < h; r++)
        for (int64_t i = 0; i < to_w * c; i++) {
            double sum = 0;
            int64_t at = i / c;
            for (int64_t k = 0; k < x.count[at]; k++)
                sum += x.weight[at * x.most + k] * in[(r * w + x.first[at] + k) * c + i % c];
            rows[r * to_w * c + i] = (float)sum;
        }
    for (int64_t r = 0; ok && r < to_h; r++)
        for (int64_t i = 0; i < to_w * c; i++) {
            double sum = 0.5;
            for (int64_t k = 0; k < y.count[r]; k++)
                sum += y.weight[r * y.most + k] * (double)rows[(y.first[r] + k) * to_w * c + i];
            out[r * to_w * c + i] = (unsigned char)(sum > 255 ? 255 : sum);
        }
    taps_free(&x), taps_free(&y), free(rows);
    return ok ? RT_OK : rt_fail(e, RT_OOM, "out of memory");
}
