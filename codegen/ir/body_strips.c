// Windows whose pixels along a line of the image are read from one copy.
//
// An ordinary copy of windows (body_windows.c) holds one pixel of each, so that windows of three by
// three read every pixel of the image nine times. But neighbouring windows overlap: with a step of
// one pixel, pixel i of a place is pixel 0 of the place i further on. So a copy for the places of a
// tile and a few more holds all pixels along a line of their windows: pixel i begins i rows further
// down. Then the products read this copy once for each pixel, and the image is read only once for
// each line of a window.
//
//     a line of the image, five pixels, zeros around it       . 0 1 2 3 4 . 5 6 7 8 9 .
//     places, of pixel 0 of the window                        a b c d e - f g h i j -
//     ... of pixel 2                                              a b c d e - f g h i j
//
// In the copy lines follow each other, separated by as many zero pixels as windows reach beyond
// their ends. So some places are counted that are not results: [pitch] along a line instead of
// [results].
//
// In the gradient of the weights, places are the columns of the product (k), and the pixels of 64
// channels are adjacent tiles of the result. There the places that are not results meet zeros of
// dy, which is counted in the same way.
#include "ir/target.h"
#include "codegen/ir/body.h"

enum { STEP = WINDOWS_STEP, MOST_PIXELS = 1024, MOST_REACH = 64, MOST_PARTS = 64, MOST_FILLED = 5 };

// The axis that numbers the windows; axis_of_columns: the axis that numbers their pixels and
// channels.
static int axis_of_rows(const Body *b, const BodyWindows *w)
{
    return w->along_k ? 1 : b->col;
}

static int axis_of_columns(const Body *b, const BodyWindows *w)
{
    return w->along_k ? b->col : 2;
}

// The pixel of a window, along the line or across, that begins at this column.
static int64_t pixel_of(const Body *b, const BodyWindows *w, int axis, int64_t *at, int64_t column)
{
    at[axis_of_columns(b, w)] = column;
    return ix_at(w->tap[axis], at);
}

// The number of columns per pixel, if these are all of its channels in order; otherwise 0.
static int64_t columns_of_pixel(const Body *b, const BodyWindows *w, int64_t *at)
{
    const int64_t cols = b->axis[axis_of_columns(b, w)].extent;
    int64_t deep = 0;
    for (int64_t k = 0; k < cols; k += STEP) {
        at[axis_of_columns(b, w)] = k;
        int64_t channel = ix_at(w->channel, at);
        if (k && !channel && !deep) deep = k;
        if (channel != (deep ? k % deep : k)) return 0;
    }
    if (!deep) deep = cols;
    return cols % deep || deep % STEP || cols / deep > MOST_PIXELS ? 0 : deep;
}

// Whether the pixels of two columns are in the same line of the window.
static bool same_line(const Body *b, const BodyWindows *w, int64_t *at, int64_t one, int64_t other)
{
    for (int i = 1; i < w->axes; i++)
        if (pixel_of(b, w, i, at, one) != pixel_of(b, w, i, at, other)) return false;
    return true;
}

// Finds the pixels of a line of the window, which must have equal distances, the same in all lines.
static bool find_pixels(const Body *b, const BodyWindows *w, int64_t *at, BodyStrips *s)
{
    const int64_t cols = b->axis[axis_of_columns(b, w)].extent, deep = s->deep, all = cols / deep;
    const int64_t parts = b->axis[0].extent; // each with lines of its own
    const int64_t first = pixel_of(b, w, 0, at, 0);
    int64_t n = 1;
    while (n < all && same_line(b, w, at, 0, n * deep)) n++;
    if (n < 2 || all % n) return false;
    const int64_t step = pixel_of(b, w, 0, at, deep) - first, far = (n - 1) * step;
    if (!step || far > MOST_REACH || far < -MOST_REACH) return false;
    for (int64_t i = 0; i < parts * (cols / STEP); i++) {
        const int64_t k = i / parts * STEP, pixel = k / deep, begin = pixel / n * n;
        at[0] = i % parts;
        if (pixel_of(b, w, 0, at, k) != first + pixel % n * step ||
            !same_line(b, w, at, k, begin * deep))
            return false;
    }
    if (first + (far < 0 ? far : 0) != 0)
        return false; // must be relative to the window's first
                      // pixel
    s->pixels = (int)n;
    s->apart = (int)(step < 0 ? -step : step);
    s->last_first = step < 0;
    return true;
}

// The number of positions to count per line: pixels after the end of a line are read as those
// before the next one, and both are outside of the image.
static int64_t line_pitch(const BodyStrips *s, const ProgMap *m)
{
    const int64_t first = m->first[0],
                  end = first + s->results + (int64_t)(s->pixels - 1) * s->apart; // of the pixels
                                                                                  // that are read
    const int64_t own = end - first, shared = m->image[0] - first > end ? m->image[0] - first : end;
    const int64_t pitch = own < shared ? own : shared;
    return pitch > s->results ? pitch : s->results;
}

// The index of an image: if there are several products, the images of each follow those of the one
// before.
static const Ix *image_of(const Body *b, const BodyStrips *s, const Ix *own)
{
    const Ix *part = ix_axis(b->ix, 0, b->axis[0].extent);
    return ix_add(b->ix, own, ix_scale(b->ix, part, s->images));
}

static bool are_images(const Body *b, const BodyWindows *w, const BodyStrips *s)
{
    const int64_t dim[] = {s->images, s->lines, s->results};
    const Ix *at[3], *rows = ix_axis(b->ix, b->col, b->axis[b->col].extent);
    if (w->along_k) return !(w->image->axes & ~2ull);
    ix_delinear(b->ix, rows, dim, 3, at);
    return w->image == image_of(b, s, at[0]);
}

// If there are several products, the positions of each must be whole steps, since those of the next
// product follow. Lines get some more positions for this.
static bool fill_steps(const Body *b, BodyStrips *s)
{
    if (b->axis[0].extent == 1) return true;
    const int64_t most = s->results + (s->results + MOST_FILLED - 1) / MOST_FILLED;
    while (s->images * s->lines * s->pitch % STEP && s->pitch <= most) s->pitch++;
    return s->pitch <= most;
}

// Whether a pixel's offset depends only on its column; across lines, also on the product.
static bool taps_by_column(const Body *b, const BodyWindows *w)
{
    const uint64_t col = 1ull << axis_of_columns(b, w);
    for (int i = 1; i < w->axes; i++)
        if (w->tap[i]->axes & ~(col | 1)) return false;
    return !((w->tap[0]->axes | w->channel->axes) & ~col);
}

// The window and the image of each counted position.
static void count_places(const Body *b, const BodyWindows *w, int64_t all, BodyStrips *s)
{
    const ProgMap *m = &w->map;
    const int n = w->axes;
    int64_t dim[PROG_MAX_IMAGE_AXES + 1] = {s->images};
    const Ix *place[PROG_MAX_IMAGE_AXES + 1];
    for (int i = 0; i < n; i++) dim[n - i] = i ? m->places[i] : s->pitch;
    ix_delinear(b->ix, ix_axis(b->ix, axis_of_rows(b, w), all), dim, n + 1, place);
    for (int i = 0; i < n; i++)
        s->place[i] =
            ix_add(b->ix, ix_scale(b->ix, place[n - i], m->step[i]), ix_const(b->ix, m->first[i]));
    s->image = w->along_k ? place[0] : image_of(b, s, place[0]);
}

void body_strips(Arena *a, const Body *b, BodyWindows *w)
{
    const ProgMap *m = &w->map;
    BodyStrips s = {.results = m->places[0], .lines = 1};
    int64_t *at = NEW_ARRAY(a, int64_t, b->naxes + 1);
    for (int i = 1; i < w->axes; i++) s.lines *= m->places[i];
    s.images = b->axis[axis_of_rows(b, w)].extent / m->places[0] / s.lines;
    if (!w->along_k && w->axes > 2) return; // (image_of_rows, tile/wgmma_maps.c)
    if (m->step[0] != 1 || m->places[0] < 2 || (w->along_k && b->axis[0].extent > MOST_PARTS) ||
        !taps_by_column(b, w) || !are_images(b, w, &s))
        return;
    s.deep = columns_of_pixel(b, w, at);
    if (!s.deep || (!w->along_k && s.deep != STEP) || !find_pixels(b, w, at, &s)) return;
    s.pitch = line_pitch(&s, m);
    if (!w->along_k && (s.last_first || !fill_steps(b, &s))) return;
    const int64_t corner = m->first[0] + s.pitch - m->image[0], all = s.images * s.lines * s.pitch;
    const int most = target_most_corner(w->axes);
    if (corner >= most || corner < -most || all >= INT32_MAX / 2 || s.pitch - s.results >= most)
        return;
    count_places(b, w, all, &s);
    w->strips = s;
}
