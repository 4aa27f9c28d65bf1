// Images: PNG written here and JPEG written by TurboJPEG come back as pixels; folders and archives
// of them as arrays, the same in memory and out of their files, by any number of threads; what is
// damaged is named, counted, left out where that was asked for.
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data/images.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/netc-unit-XXXXXX";
static RtError e;

static const char *put(const char *name, const RtBytes *b)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/')
        *p = 0, mkdir(path, 0777);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->at, 1, b->n, f) != b->n) exit(1);
    fclose(f);
    return path;
}

static const char *in(const char *name)
{
    static char path[2][600];
    static int turn;
    snprintf(path[turn ^= 1], sizeof *path, "%s/%s", dir, name);
    return path[turn];
}

// -- writers --------------------------------------------------------------------------------------
static void grow(RtBytes *b, const void *bytes, size_t n)
{
    b->at = realloc(b->at, b->n + n + 1);
    memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

static void big_endian(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void chunk(RtBytes *b, const char *name, const void *bytes, size_t n)
{
    unsigned char word[4];
    big_endian(word, (uint32_t)n), grow(b, word, 4);
    size_t from = b->n;
    grow(b, name, 4), grow(b, bytes, n);
    big_endian(word, (uint32_t)crc32(0, b->at + from, (unsigned)n + 4)), grow(b, word, 4);
}

// color: 0 gray, 2 RGB, 6 RGBA; rows of raw samples.
static RtBytes png(uint32_t w, uint32_t h, int depth, int color, const unsigned char *samples,
                   size_t row)
{
    RtBytes b = {0};
    unsigned char head[13] = {0}, *raw = malloc((row + 1) * h), *packed;
    grow(&b, "\x89PNG\r\n\x1a\n", 8);
    big_endian(head, w), big_endian(head + 4, h);
    head[8] = (unsigned char)depth, head[9] = (unsigned char)color;
    for (uint32_t y = 0; y < h; y++)
        raw[y * (row + 1)] = 0, memcpy(raw + y * (row + 1) + 1, samples + y * row, row);
    uLongf n = compressBound((row + 1) * h);
    packed = malloc(n);
    compress(packed, &n, raw, (row + 1) * h);
    chunk(&b, "IHDR", head, 13), chunk(&b, "IDAT", packed, n), chunk(&b, "IEND", "", 0);
    free(raw), free(packed);
    return b;
}

static RtBytes jpeg(int w, int h, const unsigned char *rgb)
{
    void *lib = dlopen("libturbojpeg.so.0", RTLD_NOW), *(*init)(void), (*release)(unsigned char *);
    int (*make)(void *, const unsigned char *, int, int, int, int, unsigned char **,
                unsigned long *, int, int, int);
    int (*destroy)(void *);
    *(void **)&init = dlsym(lib, "tjInitCompress"), *(void **)&make = dlsym(lib, "tjCompress2");
    *(void **)&destroy = dlsym(lib, "tjDestroy"), *(void **)&release = dlsym(lib, "tjFree");
    unsigned char *out = NULL;
    unsigned long n = 0;
    void *t = init();
    if (make(t, rgb, w, 0, h, 0, &out, &n, 0, 95, 0)) exit(1);
    RtBytes b = {0};
    grow(&b, out, n);
    release(out), destroy(t);
    return b;
}

static void member(RtBytes *tar, const char *name, const void *bytes, size_t n)
{
    char head[512] = {0};
    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644", 7), memcpy(head + 108, "0000000", 7),
        memcpy(head + 116, "0000000", 7);
    snprintf(head + 124, 12, "%011o", (unsigned)n);
    memcpy(head + 136, "00000000000", 11);
    memset(head + 148, ' ', 8), head[156] = '0', memcpy(head + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    grow(tar, head, 512), grow(tar, bytes, n);
    static const char zero[1024];
    if (n % 512) grow(tar, zero, 512 - n % 512);
}

// -- one image ------------------------------------------------------------------------------------
static bool refused(const RtBytes *b, const char *what)
{
    int64_t w, h;
    unsigned char *p = NULL;
    e = (RtError){0};
    bool right = rt_image_decode("it.png", b, 3, &p, &w, &h, &e) == RT_USER && !p &&
                 strstr(e.text, what) && strstr(e.text, "it.png");
    if (!right) printf("not '%s': %s\n", what, e.text);
    return right;
}

static void test_png(void)
{
    unsigned char rgb[6 * 5 * 3], rgba[6 * 5 * 4], deep[6 * 5 * 2], *p;
    int64_t w, h;
    for (int i = 0; i < 90; i++) rgb[i] = (unsigned char)(i * 37);
    for (int i = 0; i < 30; i++) {
        memcpy(rgba + 4 * i, rgb + 3 * i, 3), rgba[4 * i + 3] = (unsigned char)i;
        deep[2 * i] = (unsigned char)(i * 8), deep[2 * i + 1] = 77;
    }
    RtBytes b = png(6, 5, 8, 2, rgb, 18);
    e = (RtError){0};
    CHECK_MSG(rt_image_decode("a", &b, 3, &p, &w, &h, &e) == RT_OK && w == 6 && h == 5 &&
                  !memcmp(p, rgb, 90),
              "%s", e.text);
    free(p);
    CHECK(rt_image_decode("a", &b, 1, &p, &w, &h, &e) == RT_OK);
    bool luma = true;
    for (int i = 0; i < 30; i++) {
        double y = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
        luma = luma && p[i] - y < 0.51 && y - p[i] < 0.51;
    }
    CHECK(luma);
    free(p);
    // Damaged: cut anywhere, a bit turned anywhere; nothing is read behind the end.
    for (size_t n = 0; n < b.n; n++) {
        RtBytes cut = {malloc(n + !n), n, false};
        memcpy(cut.at, b.at, n);
        e = (RtError){0};
        RtCode code = rt_image_decode("a", &cut, 3, &p, &w, &h, &e);
        CHECK_MSG(code == RT_USER || (!code && n >= b.n - 12), "cut at %zu of %zu: %d", n, b.n,
                  code);
        if (!code) free(p);
        free(cut.at);
    }
    for (size_t i = 8; i < b.n - 12; i++) {
        b.at[i] ^= 4;
        e = (RtError){0};
        CHECK_MSG(rt_image_decode("a", &b, 3, &p, &w, &h, &e) == RT_USER, "a bit of byte %zu", i);
        if (!e.code) free(p);
        b.at[i] ^= 4;
    }
    free(b.at);
    b = png(6, 5, 8, 6, rgba, 24);
    e = (RtError){0};
    CHECK(rt_image_decode("a", &b, 3, &p, &w, &h, &e) == RT_OK && !memcmp(p, rgb, 90)), free(p),
        free(b.at);
    b = png(6, 5, 16, 0, deep, 12);
    CHECK(rt_image_decode("a", &b, 1, &p, &w, &h, &e) == RT_OK && p[3] == 24 && p[29] == 232),
        free(p), free(b.at);
    // A bomb: nothing is unpacked.
    b = png(6, 5, 8, 2, rgb, 18);
    big_endian(b.at + 16, 1 << 19), big_endian(b.at + 20, 1 << 19);
    big_endian(b.at + 29, (uint32_t)crc32(0, b.at + 12, 17));
    CHECK(refused(&b, "at most 134217728 can be read"));
    free(b.at);
    b = (RtBytes){(unsigned char *)"GIF89a", 6, false};
    CHECK(refused(&b, "neither a PNG nor a JPEG"));
    b.n = 0;
    CHECK(refused(&b, "empty"));
}

static void test_jpeg(void)
{
    unsigned char rgb[40 * 24 * 3], *p;
    int64_t w, h;
    for (int i = 0; i < 40 * 24; i++)
        rgb[3 * i] = (unsigned char)(i % 40 * 6), rgb[3 * i + 1] = (unsigned char)(i / 40 * 10),
                rgb[3 * i + 2] = 90;
    RtBytes b = jpeg(40, 24, rgb);
    e = (RtError){0};
    CHECK_MSG(rt_image_decode("a", &b, 3, &p, &w, &h, &e) == RT_OK && w == 40 && h == 24, "%s",
              e.text);
    int far = 0;
    for (int i = 0; i < 40 * 24 * 3; i++) far += abs(p[i] - rgb[i]) > 12;
    CHECK(far == 0);
    free(p);
    for (size_t n = 0; n < b.n - 2; n += 7) {
        RtBytes cut = {malloc(n + !n), n, false};
        memcpy(cut.at, b.at, n);
        e = (RtError){0};
        CHECK_MSG(rt_image_decode("a", &cut, 3, &p, &w, &h, &e) == RT_USER, "cut at %zu of %zu", n,
                  b.n);
        free(cut.at);
    }
    free(b.at);
}

static void test_fit(void)
{
    unsigned char a[8 * 4], out[16], same[64];
    for (int i = 0; i < 32; i++) a[i] = (unsigned char)(i % 8 * 20);
    CHECK(rt_image_fit(a, 8, 4, 1, same, 8, 4, &e) == RT_OK && !memcmp(a, same, 32));
    // The middle, as it is: 4 x 4 of 8 x 4.
    CHECK(rt_image_fit(a, 8, 4, 1, out, 4, 4, &e) == RT_OK && out[0] == 40 && out[3] == 100 &&
          out[15] == 100);
    // Half the size: columns 2..5 weighted 1 3 3 1, at the edge of the image what there is.
    CHECK(rt_image_fit(a, 8, 4, 1, out, 2, 2, &e) == RT_OK);
    CHECK_MSG(out[0] == 50 && out[1] == 90 && out[2] == 50, "%d %d", out[0], out[1]);
    memset(a, 200, sizeof a);
    CHECK(rt_image_fit(a, 8, 4, 1, same, 5, 7, &e) == RT_OK);
    bool all = true;
    for (int i = 0; i < 35; i++) all = all && same[i] == 200;
    CHECK(all);
}

// -- sets -----------------------------------------------------------------------------------------
enum { SIDE = 6, ROW = SIDE * SIDE * 3, EACH = 9 };

static void pixels(int label, int i, unsigned char *to)
{
    for (int k = 0; k < ROW; k++) to[k] = (unsigned char)(label * 80 + i * 7 + k);
}

static void make_folder(const char *name)
{
    static const char *const classes[] = {"zebra", "ant", "Bee"};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < EACH; i++) {
            unsigned char p[ROW];
            char file[200];
            pixels(c, i, p);
            RtBytes b = png(SIDE, SIDE, 8, 2, p, SIDE * 3);
            snprintf(file, sizeof file, "%s/%s/%s%02d.png", name, classes[c], i > 4 ? "more/" : "",
                     i);
            put(file, &b);
            free(b.at);
        }
    RtBytes text = {(unsigned char *)"not an image", 12, false};
    char file[200];
    snprintf(file, sizeof file, "%s/ant/notes.txt", name);
    put(file, &text);
}

static const ProgType image = {.dtype = PD_U8, .rank = 3, .dim = {SIDE, SIDE, 3}},
                      label = {.dtype = PD_I32};

static RtImages *opened(const char *path, bool resize, bool skip)
{
    RtImages *s;
    e = (RtError){0};
    if (rt_images_open(path, resize, skip, &s, &e)) printf("%s\n", e.text), exit(1);
    return s;
}

static void test_folder(void)
{
    static const int order[] = {2, 1, 0}; // Bee, ant, zebra: by bytes
    make_folder("set");
    RtImages *s = opened(in("set"), false, false);
    RtArray x = {0}, y = {0}, stays = {0};
    CHECK_MSG(rt_images_array(s, NULL, &image, SIZE_MAX, &x, &e) == RT_OK, "%s", e.text);
    CHECK(rt_images_array(s, NULL, &label, SIZE_MAX, &y, &e) == RT_OK);
    CHECK(x.type.dim[0] == 3 * EACH && x.bytes == 3 * EACH * ROW && y.type.dim[0] == 3 * EACH);
    for (int k = 0; k < 3 * EACH; k++) {
        unsigned char p[ROW];
        pixels(order[k / EACH], k % EACH, p);
        CHECK(!memcmp((char *)x.data + k * ROW, p, ROW) && ((int32_t *)y.data)[k] == k / EACH);
    }
    // Out of their files, in any order, by 1, 3 and 8 threads.
    CHECK(rt_images_array(s, "stream", &image, SIZE_MAX, &stays, &e) == RT_OK && stays.source &&
          !stays.data);
    CHECK(stays.bytes == x.bytes);
    for (int threads = 1; threads < 9; threads += 3) {
        char text[8];
        snprintf(text, sizeof text, "%d", threads);
        setenv("OMP_NUM_THREADS", text, 1);
        int32_t rows[40];
        static unsigned char to[40 * ROW];
        for (int i = 0; i < 40; i++) rows[i] = (i * 17 + threads) % (3 * EACH);
        CHECK(stays.source->rows(stays.source, rows, 40, to, &e) == RT_OK);
        for (int i = 0; i < 40; i++)
            CHECK(!memcmp(to + i * ROW, (char *)x.data + rows[i] * ROW, ROW));
    }
    unsetenv("OMP_NUM_THREADS");
    rt_array_free(&stays);
    // As many bytes as may be, and one less.
    CHECK(rt_images_array(s, NULL, &image, x.bytes, &stays, &e) == RT_OK && stays.data),
        rt_array_free(&stays);
    CHECK(rt_images_array(s, NULL, &image, x.bytes - 1, &stays, &e) == RT_OK && stays.source);
    // A file that is gone since.
    remove(in("set/Bee/00.png"));
    CHECK(rt_array_row(&stays, 0, x.data, &e) == RT_USER && strstr(e.text, "set/Bee/00.png"));
    rt_array_free(&x), rt_array_free(&y), rt_array_free(&stays), rt_images_free(s);
    // Another folder with the same classes, and one without.
    make_folder("same");
    s = opened(in("set"), false, false);
    RtImages *t = opened(in("same"), false, false);
    e = (RtError){0};
    CHECK(rt_images_agree(s, "set", t, "same", &e) == RT_OK);
    rt_images_free(t);
    rename(in("same/ant"), in("same/bat"));
    t = opened(in("same"), false, false);
    CHECK(rt_images_agree(s, "set", t, "same", &e) == RT_USER &&
          strstr(e.text, "set has a folder 'ant', same has none"));
    rt_images_free(s), rt_images_free(t);
}

static void test_bad(void)
{
    make_folder("bad");
    RtBytes junk = {(unsigned char *)"\x89PNG\r\n\x1a\n and so on", 18, false},
            none = {(unsigned char *)"", 0, false};
    put("bad/ant/01.png", &junk), put("bad/zebra/03.png", &none);
    for (int skip = 0; skip < 2; skip++)
        for (int how = 0; how < 2; how++)
            for (int first = 0; first < 2; first++) {
                RtImages *s = opened(in("bad"), false, skip);
                RtArray x = {0}, y = {0};
                e = (RtError){0};
                RtCode code = RT_OK;
                if (first) code = rt_images_array(s, NULL, &label, SIZE_MAX, &y, &e);
                if (!code)
                    code = rt_images_array(s, how ? "stream" : NULL, &image, SIZE_MAX, &x, &e);
                if (!code && !first) code = rt_images_array(s, NULL, &label, SIZE_MAX, &y, &e);
                const char *what = NULL;
                if (!skip) {
                    CHECK_MSG(code == RT_USER &&
                                  strstr(e.text, "2 of 27 images cannot be read; the first: ") &&
                                  strstr(e.text, "ant/01.png") && strstr(e.text, "--skip-bad"),
                              "%s", e.text);
                } else {
                    CHECK_MSG(code == RT_OK && x.type.dim[0] == 25 && y.type.dim[0] == 25, "%s",
                              e.text);
                    CHECK(rt_images_bad(s, &what) == 2 && what && strstr(what, "ant/01.png"));
                    for (int k = 0; k < 25 && !code; k++) {
                        unsigned char p[ROW], q[ROW];
                        int at = k + (k >= 10) + (k >= 20);
                        pixels(2 - at / EACH, at % EACH, p);
                        CHECK(rt_array_row(&x, k, q, &e) == RT_OK && !memcmp(p, q, ROW));
                        CHECK(((int32_t *)y.data)[k] == at / EACH);
                    }
                }
                rt_array_free(&x), rt_array_free(&y), rt_images_free(s);
            }
    // Sizes that differ, and what --resize makes of them.
    unsigned char p[12 * 12 * 3] = {0};
    make_folder("sizes");
    RtBytes large = png(12, 12, 8, 2, p, 36);
    put("sizes/ant/02.png", &large);
    for (int how = 0; how < 2; how++) {
        RtImages *s = opened(in("sizes"), false, false);
        RtArray x = {0};
        e = (RtError){0};
        CHECK(rt_images_array(s, how ? "stream" : NULL, &image, SIZE_MAX, &x, &e) == RT_USER);
        CHECK_MSG(strstr(e.text, "02.png is 12 x 12 pixels, and 6 x 6 are expected") &&
                      strstr(e.text, "--resize"),
                  "%s", e.text);
        rt_images_free(s);
        s = opened(in("sizes"), true, false);
        e = (RtError){0};
        CHECK(rt_images_array(s, how ? "stream" : NULL, &image, SIZE_MAX, &x, &e) == RT_OK);
        unsigned char q[ROW];
        CHECK(rt_array_row(&x, EACH + 2, q, &e) == RT_OK && q[0] == 0 && q[ROW - 1] == 0);
        rt_array_free(&x), rt_images_free(s);
    }
    // What a model may want.
    static const struct {
        ProgType t;
        const char *part, *text;
    } wrong[] = {
        {{.dtype = PD_F32, .rank = 3, .dim = {6, 6, 3}}, NULL, "the model expects f32[6, 6, 3]"},
        {{.dtype = PD_U8, .rank = 3, .dim = {6, 6, 4}},
         NULL,
         "1 or 3 channels, the model expects 4"},
        {{.dtype = PD_U8, .rank = 1, .dim = {108}}, NULL, "the model expects u8[108]"},
        {{.dtype = PD_F32}, NULL, "labels are integers"},
        {{.dtype = PD_U8, .rank = 3, .dim = {6, 6, 3}},
         "masks",
         "its parts are images, stream and labels"}};
    RtImages *s = opened(in("set"), false, false);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        RtArray x = {0};
        e = (RtError){0};
        CHECK_MSG(rt_images_array(s, wrong[i].part, &wrong[i].t, SIZE_MAX, &x, &e) == RT_USER &&
                      strstr(e.text, wrong[i].text),
                  "%s", e.text);
    }
    rt_images_free(s);
    // Folders that are no sets.
    mkdir(in("empty"), 0777);
    mkdir(in("same/empty"), 0777);
    static const char *const no[][2] = {{"empty", "no PNG or JPEG"},
                                        {"same", "the folder 'empty' would be a class"}};
    for (size_t i = 0; i < 2; i++) {
        e = (RtError){0};
        CHECK_MSG(rt_images_open(in(no[i][0]), false, false, &s, &e) && !s &&
                      strstr(e.text, no[i][1]),
                  "%s", e.text);
    }
    put("set/loose.png", &large);
    e = (RtError){0};
    CHECK(rt_images_open(in("set"), false, false, &s, &e) == RT_USER &&
          strstr(e.text, "next to folders"));
    s = opened(in("sizes/ant/more"), false,
               false); // no classes: images alone, and those of folders in it
    rt_images_free(s);
    free(large.at);
}

static void test_tar(void)
{
    RtBytes tar[2] = {{0}};
    char name[64], text[8];
    static const char end[1024];
    for (int i = 0; i < 10; i++) {
        unsigned char p[ROW];
        pixels(i % 3, i, p);
        RtBytes b = png(SIDE, SIDE, 8, 2, p, SIDE * 3);
        snprintf(name, sizeof name, "d/%04d.%s", i, i & 1 ? "cls" : "png"),
            snprintf(text, sizeof text, "%d\n", i % 3);
        if (i & 1)
            member(&tar[i / 6], name, text, strlen(text));
        else
            member(&tar[i / 6], name, b.at, b.n);
        snprintf(name, sizeof name, "d/%04d.seg.png", i), member(&tar[i / 6], name, "no", 2);
        snprintf(name, sizeof name, "d/%04d.%s", i, i & 1 ? "png" : "cls");
        if (i & 1)
            member(&tar[i / 6], name, b.at, b.n);
        else
            member(&tar[i / 6], name, text, strlen(text));
        free(b.at);
    }
    grow(&tar[0], end, 1024), grow(&tar[1], end, 1024);
    put("a.tar", &tar[0]), put("b.tar", &tar[1]);
    char both[1300];
    snprintf(both, sizeof both, "%s,%s", in("a.tar"), in("b.tar"));
    CHECK(rt_images_named(both) && rt_images_named(in("set")) &&
          !rt_images_named(in("set/loose.png")));
    RtImages *s = opened(both, false, false);
    for (int how = 0; how < 2; how++) {
        RtArray x = {0}, y = {0};
        e = (RtError){0};
        CHECK_MSG(rt_images_array(s, how ? "stream" : NULL, &image, SIZE_MAX, &x, &e) == RT_OK &&
                      x.type.dim[0] == 10,
                  "%s", e.text);
        CHECK_MSG(rt_images_array(s, NULL, &label, SIZE_MAX, &y, &e) == RT_OK &&
                      y.type.dim[0] == 10,
                  "%s", e.text);
        for (int i = 0; i < 10; i++) {
            unsigned char p[ROW], q[ROW];
            pixels(i % 3, i, p);
            CHECK(rt_array_row(&x, i, q, &e) == RT_OK && !memcmp(p, q, ROW) &&
                  ((int32_t *)y.data)[i] == i % 3);
        }
        rt_array_free(&x), rt_array_free(&y);
    }
    rt_images_free(s);
    for (size_t n = 0; n < tar[0].n - 1024;
         n += 700) { // cut: an error, or fewer images and then an error
        RtBytes cut = {tar[0].at, n, false};
        e = (RtError){0};
        CHECK(rt_images_open(put("c.tar", &cut), false, false, &s, &e) && !s && e.text[0]);
    }
    static const char *const wrong[][3] = {{"d/1.cls", "x", "holds no class number"},
                                           {"d/1.png", "x", "two images"},
                                           {"", "", "has no label"}};
    static const char *const apart[] = {"d/0.png", "d/1.png", "d/0.cls", "d/1.cls"};
    RtBytes t = {0};
    for (int i = 0; i < 4; i++) member(&t, apart[i], "1", 1);
    grow(&t, end, 1024);
    RtArray none = {0};
    e = (RtError){0};
    CHECK(rt_images_open(put("apart.tar", &t), false, false, &s, &e) == RT_OK &&
          rt_images_array(s, NULL, &label, SIZE_MAX, &none, &e) == RT_USER &&
          strstr(e.text, "a .cls beside each (directly before or behind it"));
    rt_images_free(s);
    free(t.at);
    for (int i = 0; i < 3; i++) {
        t = (RtBytes){0};
        member(&t, "d/0.png", "x", 1), member(&t, "d/0.cls", "1", 1), member(&t, "d/1.jpg", "x", 1);
        if (*wrong[i][0]) member(&t, wrong[i][0], wrong[i][1], 1);
        grow(&t, end, 1024);
        RtArray y = {0};
        e = (RtError){0};
        RtCode code = rt_images_open(put("w.tar", &t), false, false, &s, &e);
        if (!code) code = rt_images_array(s, NULL, &label, SIZE_MAX, &y, &e), rt_images_free(s);
        CHECK_MSG(code == RT_USER && strstr(e.text, wrong[i][2]), "%s", e.text);
        free(t.at);
    }
    free(tar[0].at), free(tar[1].at);
}

static void test_cifar_100(void)
{
    enum { PIXELS = 3072 };
    static unsigned char b[5 * (2 + PIXELS)];
    for (int i = 0; i < 5; i++)
        b[i * 3074] = (unsigned char)i, b[i * 3074 + 1] = (unsigned char)(90 + i),
              b[i * 3074 + 2] = (unsigned char)(i * 3), b[i * 3074 + 3073] = 7;
    RtBytes all = {b, sizeof b, false};
    const char *path = put("train.bin", &all);
    RtArray a;
    static const char *const parts[] = {"coarse", "fine", "labels", "images"};
    for (int k = 0; k < 4; k++) {
        e = (RtError){0};
        CHECK_MSG(rt_array_read(path, parts[k], NULL, &a, &e) == RT_OK && a.type.dim[0] == 5, "%s",
                  e.text);
        const unsigned char *p = a.data;
        if (k < 3)
            CHECK(p[4] == (k ? 94 : 4));
        else
            CHECK(p[4 * PIXELS] == 12 && p[5 * PIXELS - 1] == 7 && a.type.rank == 4);
        rt_array_free(&a);
    }
    all.n -= 1;
    e = (RtError){0};
    CHECK(rt_array_read(put("test.bin", &all), "fine", NULL, &a, &e) == RT_USER &&
          strstr(e.text, "not a multiple of 3074"));
}

int main(void)
{
    const char *no_png, *no_jpeg, *no_tar;
    int skipped = 0;
    if (!mkdtemp(dir)) return 1;
    test_fit();
    test_cifar_100();
    rt_images_readable(&no_png, &no_jpeg);
    rt_tar_readable(&no_tar);
    if (no_png)
        skipped++, printf("skip: %s\n", no_png);
    else
        test_png(), test_folder(), test_bad();
    if (no_jpeg)
        skipped++, printf("skip: %s\n", no_jpeg);
    else
        test_jpeg();
    if (no_tar || no_png)
        skipped++, printf("skip: %s\n", no_tar ? no_tar : no_png);
    else
        test_tar();
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) return 1;
    printf("%d passed, %d failed, %d skipped\n", unit_passed, unit_failed, skipped);
    return unit_failed != 0;
}
