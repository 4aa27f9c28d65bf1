// Draws handwritten-like digits and writes them as IDX files, for machines without MNIST.
//
// usage: digits OUT_DIR [TRAIN_COUNT [TEST_COUNT [SEED]]]
// Writes train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte: 28 x 28 bytes an image. Each digit is a set of strokes (polylines in the
// unit square, some sampled from arcs) under a random affine map, drawn with a soft round pen.
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE = 28, POINTS = 16 };

// x, y pairs in 0..100; a negative x ends a stroke, twice ends the digit.
static const signed char strokes[10][2 * POINTS] = {
    {50, 8, 28, 20, 22, 50, 28, 80, 50, 92, 72, 80, 78, 50, 72, 20, 50, 8, -1, 0, -1},
    {36, 26, 54, 8, 54, 92, -1, 0, -1},
    {24, 28, 34, 12, 56, 8, 74, 20, 74, 40, 50, 64, 24, 92, 78, 92, -1, 0, -1},
    {24, 14, 50, 8, 74, 18, 72, 38, 48, 48, 76, 60, 76, 82, 50, 92, 24, 84, -1, 0, -1},
    {60, 8, 22, 64, 80, 64, -1, 0, 62, 40, 62, 92, -1, 0, -1},
    {74, 8, 32, 8, 28, 46, 52, 40, 76, 54, 74, 82, 48, 92, 24, 82, -1, 0, -1},
    {68, 10, 40, 26, 26, 58, 32, 84, 54, 92, 74, 78, 70, 56, 48, 50, 28, 64, -1, 0, -1},
    {22, 10, 78, 10, 56, 46, 42, 92, -1, 0, -1},
    {50, 48, 28, 34, 32, 12, 50, 8,  68, 12, 72, 34, 50, 48,
     26, 66, 30, 88, 50, 92, 70, 88, 74, 66, 50, 48, -1},
    {72, 38, 50, 50, 28, 40, 30, 18, 50, 8, 70, 18, 72, 38, 68, 70, 52, 92, -1, 0, -1},
};

static uint64_t next(uint64_t *s) // splitmix64
{
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *s, double low, double high)
{
    return low + (high - low) * (double)(next(s) >> 11) * 0x1p-53;
}

static double segment_distance(double px, double py, double ax, double ay, double bx, double by)
{
    double dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy;
    double t = length > 0 ? ((px - ax) * dx + (py - ay) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(px - ax - t * dx, py - ay - t * dy);
}

static void draw(int digit, uint64_t *seed, unsigned char image[SIDE * SIDE])
{
    double angle = uniform(seed, -0.3, 0.3), shear = uniform(seed, -0.25, 0.25);
    double sx = uniform(seed, 0.13, 0.19), sy = uniform(seed, 0.17, 0.22); // pixels a hundredth
    double tx = uniform(seed, -1.8, 1.8), ty = uniform(seed, -1.8, 1.8),
           pen = uniform(seed, 0.8, 1.5);
    double x[POINTS], y[POINTS];
    const signed char *p = strokes[digit];
    double nearest[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) nearest[i] = SIDE;
    for (int used = 0; used < 2 * POINTS && p[used] >= 0;) {
        int n = 0;
        for (; used + 1 < 2 * POINTS && p[used] >= 0; used += 2, n++) {
            double u = (p[used] - 50 + uniform(seed, -3, 3)) * sx,
                   v = (p[used + 1] - 50 + uniform(seed, -3, 3)) * sy;
            u += shear * v;
            x[n] = SIDE / 2.0 + tx + u * cos(angle) - v * sin(angle);
            y[n] = SIDE / 2.0 + ty + u * sin(angle) + v * cos(angle);
        }
        used += 2;
        for (int i = 0; i < SIDE * SIDE; i++)
            for (int k = 0; k + 1 < n; k++) {
                double d = segment_distance(i % SIDE + 0.5, i / SIDE + 0.5, x[k], y[k], x[k + 1],
                                            y[k + 1]);
                nearest[i] = d < nearest[i] ? d : nearest[i];
            }
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        double ink = 255 * (pen + 0.7 - nearest[i]) / 1.4 + uniform(seed, -8, 8) * (nearest[i] < 4);
        image[i] = (unsigned char)(ink < 0 ? 0 : ink > 255 ? 255 : ink);
    }
}

static void put_u32(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(v >> shift & 255), f);
}

static int write_set(const char *dir, const char *prefix, long count, uint64_t *seed)
{
    char images[4096], labels[4096];
    snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte", dir, prefix);
    snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte", dir, prefix);
    FILE *fi = fopen(images, "wb"), *fl = fopen(labels, "wb");
    if (!fi || !fl)
        return fprintf(stderr, "cannot write %s: %s\n", fi ? labels : images, strerror(errno)), 1;
    put_u32(fi, 0x803), put_u32(fi, (uint32_t)count), put_u32(fi, SIDE), put_u32(fi, SIDE);
    put_u32(fl, 0x801), put_u32(fl, (uint32_t)count);
    for (long i = 0; i < count; i++) {
        unsigned char image[SIDE * SIDE];
        int digit = (int)(next(seed) % 10);
        draw(digit, seed, image);
        fwrite(image, 1, sizeof image, fi);
        fputc(digit, fl);
    }
    int bad = ferror(fi) | ferror(fl);
    bad |= fclose(fi) | fclose(fl);
    return bad ? fprintf(stderr, "cannot write %s: %s\n", images, strerror(errno)), 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: digits OUT_DIR [TRAIN_COUNT [TEST_COUNT [SEED]]]\n"), 1;
    long train = argc > 2 ? atol(argv[2]) : 20000, test = argc > 3 ? atol(argv[3]) : 4000;
    uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    if (train < 1 || test < 1) return fprintf(stderr, "counts must be positive\n"), 1;
    mkdir(argv[1], 0777);
    return write_set(argv[1], "train", train, &seed) || write_set(argv[1], "t10k", test, &seed);
}
