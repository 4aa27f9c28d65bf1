// Operands that are windows in images, as bulk copies access them (im2col).
//
// Such a copy covers neighbouring places of a window, along a line of the image, from line to line
// and from image to image, and reads the same pixel of each window: 64 channels of that pixel. So
// its rows follow the axis of the body that numbers the places, and its columns the axis that
// numbers the windows' pixels and, innermost, channels. Outside of the image it reads zeros.
//
//     x (B, H, W, C) in a convolution      rows: axis m, columns: k         x in the gradient of w
//     w (O, V, U, C) in the gradient of x  rows: k, columns: n              rows: k, columns: m or
//     n
//
// Images have one to three axes: those of one are lines of images of two.
//
// The last case treats the weights as images with one place each: a window covers the whole image,
// and the images, one for each output channel, follow each other. Then the pixel follows from both
// axes. If each image of a batch has its own weights (B, O, V, U, C), there are B O such images.
//
// With a stride, the results of a place (the remainders of a pixel) have different numbers of
// weights. The missing weights are pixels outside of such an image, and which they are is known at
// compile time (BodyWindows.live).
//
// Windows are recognised by the index of the load along each axis of its node. Index expressions
// are canonical, so the expression of an assumed window equals that of the load if and only if the
// assumption is true.
#include "ir/target.h"
#include "codegen/ir/body.h"

// UNIT: elements in 16 bytes.
enum { STEP = WINDOWS_STEP, UNIT = 8, AXES = PROG_MAX_IMAGE_AXES };

typedef struct Split {    // an index along an axis of the node
    const Ix *row, *rest; // the terms that depend only on the row of a copy; the others
} Split;

typedef struct Finder {
    const Body *b;
    const Inst *load;
    const Type *type;    // the loaded node, or as a reshape shows it
    const Ix *const *at; // and the index along its axes
    int row, col;        // axes of the body
    int axes;            // of the images
} Finder;

static bool steady(const Ix *e, int axis)
{
    int64_t step;
    bool aligned;
    return ix_run(e, axis, STEP, &step, &aligned) && !step;
}

static bool split(const Finder *f, const Ix *e, Split *out)
{
    IxCtx *c = f->b->ix;
    out->row = ix_const(c, 0);
    out->rest = ix_const(c, e->constant);
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        const Ix *part = ix_scale(c, ix_term(c, t), e->at[i].coeff);
        bool of_row = t->axes == 1ull << f->row;
        if (!of_row && t->axes & ~(1ull << f->col | 1)) return false;
        *(of_row ? &out->row : &out->rest) = ix_add(c, of_row ? out->row : out->rest, part);
    }
    return steady(out->rest, f->col);
}

// Whether the load's condition only excludes indices outside of the node.
static bool within_bounds(const Finder *f)
{
    enum { MOST = 32 };
    const Body *b = f->b;
    const Type *t = f->type;
    int left[MOST], n = 0;
    if (f->load->pred >= 0) left[n++] = f->load->pred;
    while (n) {
        const Inst *v = &b->insts.at[left[--n]];
        if (v->kind != KI_EW || v->na != 2 || n + 2 > MOST) return false;
        if (v->op == OP_and) {
            left[n++] = v->a[0];
            left[n++] = v->a[1];
            continue;
        }
        const Inst *e = &b->insts.at[v->a[0]], *bound = &b->insts.at[v->a[1]];
        bool found = false;
        for (int i = 0; i < t->rank; i++)
            found |= e->kind == KI_INDEX && bound->kind == KI_CONST && e->ix == f->at[i] &&
                     ((v->op == OP_ge && bound->ivalue == 0) ||
                      (v->op == OP_lt && bound->ivalue == t->dim[i]));
        if (!found) return false;
    }
    return true;
}

// Whether the rows number all windows: places[0] along a line, places[1] across the lines,
// places[2] across the planes, then the images, as many as there are rows for. Sets places and
// steps in m. s: by axis of the images, then of the image's number.
static bool are_places(const Finder *f, const Split *s, ProgMap *m)
{
    IxCtx *c = f->b->ix;
    const int64_t rows = f->b->axis[f->row].extent;
    int64_t images = rows, dim[AXES + 1];
    for (int i = 0; i < f->axes; i++) {
        const Ix *e = s[i].row;
        if (e->n > 1 || (e->n == 1 && e->at[0].coeff < 1)) return false;
        int64_t places = e->n ? e->at[0].term->high + 1 : 1, step = places > 1 ? e->at[0].coeff : 1;
        if (images % places || step > PROG_MAX_STEP || places > INT32_MAX) return false;
        images /= places;
        m->places[i] = (int32_t)places;
        m->step[i] = (int32_t)step;
        dim[f->axes - i] = places;
    }
    dim[0] = images;
    const Ix *at[AXES + 1];
    ix_delinear(c, ix_axis(c, f->row, rows), dim, f->axes + 1, at);
    for (int i = 0; i < f->axes; i++)
        if (s[i].row != ix_scale(c, at[f->axes - i], m->step[i])) return false;
    return s[f->axes].row == at[0];
}

// If there are several products, each with the windows of some planes of one image: the first
// plane, of the first window, is taken from s[2].rest and returned, and places[2] counts the planes
// of all. NULL: it is not so.
static const Ix *planes_of_parts(const Finder *f, Split *s, ProgMap *m)
{
    IxCtx *c = f->b->ix;
    const Ix *all = s[2].rest, *part = ix_const(c, 0);
    const int64_t parts = f->b->axis[0].extent, rows = f->b->axis[f->row].extent,
                  own = m->places[2];
    for (int i = 0; i < all->n; i++)
        if (all->at[i].term->axes == 1)
            part = ix_add(c, part, ix_scale(c, ix_term(c, all->at[i].term), all->at[i].coeff));
    if (part->n != 1 || part->at[0].coeff < 1 || own * m->places[1] * m->places[0] != rows)
        return NULL;
    const int64_t step = own > 1 ? m->step[2] : part->at[0].coeff,
                  count = part->high / (step * own) + 1;
    if (step > PROG_MAX_STEP || own * count > INT32_MAX ||
        part != ix_scale(c, ix_mod(c, ix_axis(c, 0, parts), count), step * own))
        return NULL;
    m->step[2] = (int32_t)step;
    m->places[2] = (int32_t)(own * count);
    s[2].rest = ix_add(c, all, ix_scale(c, part, -1));
    return part;
}

// Whether the rows are images, repeated: copies of whole images, for one pixel each.
static bool are_weights(const Finder *f, Split *s, ProgMap *m)
{
    IxCtx *c = f->b->ix;
    const Ix *all = ix_axis(c, f->row, f->b->axis[f->row].extent);
    const int64_t images = s[f->axes].row->high + 1;
    if (f->row != f->b->col || images % STEP || s[f->axes].row != ix_mod(c, all, images))
        return false;
    for (int i = 0; i < f->axes; i++) {
        if (!steady(s[i].row, f->row)) return false;
        s[i].rest = ix_add(c, s[i].rest, s[i].row);
        s[i].row = ix_const(c, 0);
        m->places[i] = m->step[i] = 1;
    }
    return true;
}

// Sets the first positions of windows (m->first) and the offsets of their pixels from there (tap).
// false: they are too large for a descriptor.
static bool in_reach(const Finder *f, const Split *s, ProgMap *m, const Ix **tap)
{
    const int corner = target_most_corner(f->axes);
    for (int i = 0; i < f->axes; i++) {
        const Ix *e = s[i].rest;
        int64_t last = e->low + (m->places[i] - 1ll) * m->step[i] - (m->image[i] - 1);
        if (e->high - e->low > target_most_offset(f->axes) || e->low < -corner ||
            e->low >= corner || last < -corner || last >= corner)
            return false;
        m->first[i] = (int32_t)e->low;
        tap[i] = ix_add(f->b->ix, e, ix_const(f->b->ix, -e->low));
    }
    return true;
}

static bool runs_along(const Ix *e, int axis)
{
    int64_t step;
    bool aligned;
    return e->axes == 1ull << axis && ix_run(e, axis, STEP, &step, &aligned) && step == 1 &&
           aligned;
}

static bool find(const Body *b, int axis, const Inst *load, const Type *t, const Ix *const *at,
                 BodyWindows *out)
{
    Finder f = {.b = b, .load = load, .type = t, .at = at};
    if (!at || t->rank > AXES + 2) return false;
    const Ix *channel = f.at[t->rank - 1];
    out->along_k = runs_along(channel, b->col);
    if (!out->along_k && !runs_along(channel, axis)) return false;
    f.col = out->along_k ? b->col : axis;
    f.row = out->along_k ? axis : b->col;
    f.axes = out->axes = t->rank > 4 ? 3 : 2;
    const int64_t deep = t->dim[t->rank - 1];
    ProgMap *m = &out->map;
    *m = (ProgMap){.rows = t->dim[0], .cols = deep, .pitch = deep, .apart = 1};
    m->box_cols = STEP;
    Split s[AXES + 1];
    for (int i = 0; i < f.axes; i++) {
        const int axis = t->rank - 2 - i; // (0: lines of which there is one)
        m->image[i] = axis > 0 ? t->dim[axis] : 1;
        m->image_pitch[i] = m->pitch;
        m->pitch *= m->image[i];
        if (!split(&f, axis > 0 ? f.at[axis] : ix_const(b->ix, 0), &s[i])) return false;
    }
    if (!split(&f, f.at[0], &s[f.axes])) return false;
    if (deep % UNIT || !within_bounds(&f)) return false;
    const Ix *part = NULL;
    if (are_places(&f, s, m))
        part = f.axes == 3 ? planes_of_parts(&f, s, m) : NULL;
    else if (!are_weights(&f, s, m))
        return false;
    if (!in_reach(&f, s, m, out->tap)) return false;
    out->channel = channel;
    for (int i = 0; i < f.axes; i++)
        out->place[i] = ix_add(b->ix, s[i].row, ix_const(b->ix, m->first[i]));
    if (part) out->place[2] = ix_add(b->ix, out->place[2], part);
    out->image = ix_add(b->ix, s[f.axes].row, s[f.axes].rest);
    return true;
}

// The first two axes as one that numbers the images: weights (B, O, V, U, C), which differ for each
// image of a batch.
static bool find_merged(const Body *b, int axis, const Inst *load, BodyWindows *out)
{
    if (!load->at || load->node->type.rank < 4) return false;
    Type t = load->node->type;
    const Ix *at[MAX_RANK];
    at[0] = ix_add(b->ix, ix_scale(b->ix, load->at[0], t.dim[1]), load->at[1]);
    t.dim[0] *= t.dim[1];
    t.rank--;
    for (int i = 1; i < t.rank; i++) {
        t.dim[i] = t.dim[i + 1];
        at[i] = load->at[i + 1];
    }
    t.dim[t.rank] = 0;
    return find(b, axis, load, &t, at, out);
}

static bool find_any(const Body *b, int axis, BodyWindows *out)
{
    const Inst *v = &b->insts.at[b->insts.at[axis == 1 ? b->dot.a : b->dot.b].a[0]];
    if (v->kind != KI_LOAD || v->ix->has_value) return false;
    return find(b, axis, v, v->node ? &v->node->type : NULL, v->at, out) ||
           find(b, axis, v, v->seen, v->seen_at, out) || find_merged(b, axis, v, out);
}

static bool within_image(const BodyWindows *w, const int64_t *at)
{
    bool in = true;
    for (int i = 0; i < w->axes; i++) {
        int64_t pixel = ix_at(w->place[i], at) + ix_at(w->tap[i], at);
        in &= pixel >= 0 && pixel < w->map.image[i];
    }
    return in;
}

// One bit for each of [count] groups of [run] columns: whether their pixels are inside the image,
// for the results from [at] on.
static uint32_t live_columns(const Body *b, const BodyWindows *w, int64_t *at, int count,
                             int64_t run)
{
    uint32_t live = 0;
    for (int i = 0; i < count; i++) {
        at[b->col] = i * run;
        live |= (uint32_t)within_image(w, at) << i;
    }
    return live;
}

// (A pixel has [run] columns: one per image of the weights.)
static void find_live(Arena *a, const Body *b, BodyWindows *w)
{
    const int64_t run = w->map.rows, cols = b->axis[b->col].extent, n = b->axis[2].extent;
    if (w->along_k || w->image->high >= run || run % STEP || cols % run || cols / run > 32 ||
        n % STEP || b->axis[0].extent > 1)
        return;
    const int count = (int)(cols / run);
    const uint32_t all = (uint32_t)((1ull << count) - 1);
    int64_t *at = NEW_ARRAY(a, int64_t, b->naxes + 1);
    uint32_t *live = NEW_ARRAY(a, uint32_t, n / STEP);
    bool some = false;
    for (int64_t i = 0; i < n / STEP; i++) {
        at[2] = i * STEP;
        live[i] = live_columns(b, w, at, count, run);
        if (!live[i]) return;
        some |= live[i] != all;
    }
    if (!some) return;
    w->live = live;
    w->live_run = run;
}

static bool one_place(const BodyWindows *w)
{
    bool one = true;
    for (int i = 0; i < w->axes; i++) one &= w->map.places[i] == 1;
    return one;
}

void body_windows(Arena *a, Body *b)
{
    for (int axis = 1; axis <= 2; axis++) {
        BodyWindows w = {.live = NULL};
        if (narrow_type(b, axis == 1 ? b->dot.a : b->dot.b) == DT_BOOL || !find_any(b, axis, &w))
            continue;
        BodyWindows *found = NEW(a, BodyWindows);
        *found = w;
        if (w.along_k == (axis == 1)) body_strips(a, b, found);
        if (axis == 2 && one_place(&w)) find_live(a, b, found);
        b->dot.windows[axis - 1] = found;
    }
}
