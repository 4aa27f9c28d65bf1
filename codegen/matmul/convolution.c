// Contractions with windows in images as convolutions by a library (cuDNN):
//
//     y(b, o, r) = sum over t, c of windows(b, o, t, c) w(r, t, c)         forward
//     x(b, o, c) = sum over t, r of windows(b, o, t, r) w(r, -t, c)        gradient of images
//     w(r, t, c) = sum over b, o of y(b, o, r) windows(b, o, t, c)         gradient of weights
//
// where windows(b, o, t, c) = image(b, o * step + t * dilation - zeros before, c). All operands
// must be stored, dense, in the order above.
//
// With a step, the pixels of the gradient of images are of several classes: those whose positions
// leave the same remainder modulo the step, for which the same pixels of a window count. It is one
// contraction (passes/autodiff/autodiff_window.c) with the weights of each class side by side, and
// the classes are axes of its result.
#include "codegen/matmul/gemm.h"

#include <string.h>

#include "ir/axes.h"

typedef struct Windows {
    const Node *node; // the window view
    WindowAxes axes;
    GemmOperand image; // (images, image..., channels)
    int spatial;       // axes of an image
    int64_t extent[PROG_MAX_IMAGE_AXES], low[PROG_MAX_IMAGE_AXES], high[PROG_MAX_IMAGE_AXES];
} Windows;

// Takes the zeros around an image off. NULL: it is padded otherwise.
static const Node *without_padding(const Node *n, Windows *w)
{
    double zero;
    if (n->op != OP_pad) return n;
    const int64_t *low = attr_ints(n, ATTR_low, NULL), *high = attr_ints(n, ATTR_high, NULL);
    const int last = n->type.rank - 1;
    if (!node_const_value(n->args[1], &zero) || zero != 0 || low[0] || high[0] || low[last] ||
        high[last])
        return NULL;
    for (int i = 0; i < w->spatial; i++) {
        if (low[i + 1] < 0 || high[i + 1] < 0) return NULL;
        w->low[i] = low[i + 1];
        w->high[i] = high[i + 1];
    }
    return n->args[0];
}

// Windows in stored images, all of whose axes but the first and the last have windows.
static bool windows_of(const GemmFrom *f, const Node *n, Windows *w)
{
    memset(w, 0, sizeof *w);
    if (n->op != OP_window) return false;
    w->node = n;
    w->axes = window_axes(n->attrs);
    w->spatial = n->args[0]->type.rank - 2;
    if (w->spatial < 1 || w->spatial > PROG_MAX_IMAGE_AXES || w->axes.n != w->spatial) return false;
    for (int i = 0; i < w->axes.n; i++)
        if (w->axes.axis[i] != i + 1) return false;
    const Node *image = without_padding(n->args[0], w);
    if (!image || !gemm_operand(f, image, &w->image) || !strides_row_major(&w->image.s))
        return false;
    for (int i = 0; i < w->spatial; i++) w->extent[i] = image->type.dim[i + 1];
    return true;
}

// Whether the axes are those from [first] up to [end], in this order.
static bool axes_are(const int64_t *axis, int n, int first, int end)
{
    for (int i = 0; i < n; i++)
        if (axis[i] != first + i) return false;
    return n == end - first;
}

// The sum over the parts, which are the first axes, must be all that anything reads of the result.
static bool only_added_up(const Graph *g, const Node *dot, int parts)
{
    int readers = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (int k = 0; k < (int)n->nargs; k++) {
            if (n->args[k] != dot) continue;
            int axes;
            const int64_t *axis = n->op == OP_sum ? attr_ints(n, ATTR_axes, &axes) : NULL;
            if (!axis || axes < parts || !axes_are(axis, parts, 0, parts)) return false;
            readers++;
        }
    }
    return readers > 0;
}

// -- forward, and the gradient of images ----------------------------------------------------------

// The axes of the weights, by what they pair with: pixels of a window, its channels, the results.
typedef struct Weights {
    GemmOperand stored;
    int64_t pixel[PROG_MAX_IMAGE_AXES], channel, result;
    bool reversed; // along the pixels
    int64_t parts; // pixels along those axes of a window whose sum another node takes
} Weights;

static bool weights_of(const GemmFrom *f, const Node *dot, const Windows *w, Weights *out)
{
    const DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    const Node *n = dot->args[1];
    const int places = 1 + w->spatial;
    if (y.nfree != 1 || x.nbatch + x.ncontract != w->spatial + 1 ||
        !axes_are(x.free, x.nfree, 0, places))
        return false;
    *out = (Weights){.result = y.free[0], .channel = -1, .parts = 1};
    for (int i = 0; i < x.nbatch; i++) {
        if (x.batch[i] == places + w->spatial) return false;
        out->pixel[x.batch[i] - places] = y.batch[i];
        out->parts *= w->node->type.dim[x.batch[i]];
    }
    for (int i = 0; i < x.ncontract; i++)
        if (x.contract[i] == places + w->spatial)
            out->channel = y.contract[i];
        else
            out->pixel[x.contract[i] - places] = y.contract[i];
    if (n->op == OP_reverse) {
        int count;
        const int64_t *axes = attr_ints(n, ATTR_axes, &count);
        for (int i = 0; i < w->spatial; i++) {
            bool listed = false;
            for (int k = 0; k < count; k++) listed |= axes[k] == out->pixel[i];
            if (!listed && w->axes.size[i] > 1) return false;
        }
        for (int k = 0; k < count; k++)
            if (axes[k] == out->channel || axes[k] == out->result) return false;
        out->reversed = true;
        n = n->args[0];
    }
    return out->channel >= 0 && gemm_operand(f, n, &out->stored);
}

// Whether the weights are dense in the order (first, pixels..., last).
static bool weights_dense_as(const Weights *w, int spatial, int64_t first, int64_t last)
{
    const Strides *s = &w->stored.s;
    int64_t step = 1;
    for (int i = spatial + 1; i >= 0; i--) {
        const int64_t axis = i == 0 ? first : i > spatial ? last : w->pixel[i - 1];
        if (s->dim[axis] != 1 && s->step[axis] != step) return false;
        step *= s->dim[axis];
    }
    return true;
}

static bool match_forward(const Windows *w, const Weights *v, ProgConv *c)
{
    if (v->reversed || !weights_dense_as(v, w->spatial, v->result, v->channel)) return false;
    c->kind = PV_FORWARD;
    c->channels = v->stored.s.dim[v->channel];
    c->results = v->stored.s.dim[v->result];
    for (int i = 0; i < w->spatial; i++) {
        c->image[i] = w->extent[i];
        c->places[i] = w->node->type.dim[i + 1];
        c->step[i] = w->axes.stride[i];
        c->before[i] = w->low[i];
        c->after[i] = w->high[i];
    }
    return true;
}

// The windows are in the gradient of the results: a step of the convolution would spread them.
static bool match_input(const Windows *w, const Weights *v, ProgConv *c)
{
    if (!weights_dense_as(v, w->spatial, v->channel, v->result)) return false;
    c->kind = PV_INPUT;
    c->channels = v->stored.s.dim[v->result];
    c->results = v->stored.s.dim[v->channel];
    for (int i = 0; i < w->spatial; i++) {
        const int64_t reach = w->axes.dilation[i] * (w->axes.size[i] - 1);
        if (w->axes.stride[i] != 1 || (w->axes.size[i] > 1 && !v->reversed)) return false;
        c->image[i] = w->node->type.dim[i + 1];
        c->places[i] = w->extent[i];
        c->step[i] = 1;
        c->before[i] = reach - w->low[i];
        c->after[i] = reach - w->high[i];
        if (c->before[i] < 0 || c->after[i] < 0) return false;
    }
    return true;
}

// -- the gradient of images with a step -----------------------------------------------------------

// The pixels of a window along one axis, padded by [low]: in [count] groups of [width], of which
// each class has one pixel.
typedef struct Runs {
    int64_t size, low, count, width;
    int axis; // of the runs, among those of the weights
} Runs;

// Takes reverse(reshape(pad(weights))) apart. Of a single class the run is not split.
static const Node *runs_of(const Node *n, const Windows *w, Runs *run)
{
    int axes;
    if (n->op != OP_reverse || n->args[0]->op != OP_reshape) return NULL;
    const int64_t *axis = attr_ints(n, ATTR_axes, &axes);
    const Type *split = &n->args[0]->type;
    const Node *padded = n->args[0]->args[0], *given = padded;
    const int64_t *low = NULL;
    double zero;
    if (padded->op == OP_pad) {
        given = padded->args[0];
        low = attr_ints(padded, ATTR_low, NULL);
        if (!node_const_value(padded->args[1], &zero) || zero != 0) return NULL;
    }
    const int last = w->spatial + 1;
    if (given->type.rank != last + 1 || given->type.dim[0] != split->dim[0] ||
        given->type.dim[last] != split->dim[split->rank - 1])
        return NULL;
    if (axes != w->spatial || axis[0] != 1) return NULL;
    for (int i = 0; i < w->spatial; i++) {
        const int64_t at = axis[i], next = i + 1 < axes ? axis[i + 1] : split->rank - 1;
        run[i] = (Runs){given->type.dim[i + 1], low ? low[i + 1] : 0, w->axes.size[i], 1, (int)at};
        if (next - at == 2) run[i].width = split->dim[at + 1];
        if (next - at < 1 || next - at > 2 || run[i].low < 0 || split->dim[at] != run[i].count ||
            run[i].count * run[i].width != padded->type.dim[i + 1])
            return NULL;
    }
    return given;
}

// Whether the contraction pairs the windows' pixels with the runs, their channels with the first
// axis of the weights, and leaves the classes and channels of the result in order.
static bool pairs_runs(const Node *dot, const Windows *w, const Runs *run)
{
    const DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    const int places = 1 + w->spatial;
    if (x.nbatch || x.ncontract != w->spatial + 1 || !axes_are(x.free, x.nfree, 0, places))
        return false;
    for (int i = 0; i < x.ncontract; i++) {
        const int64_t pixel = x.contract[i] - places;
        if (y.contract[i] != (pixel < w->spatial ? run[pixel].axis : 0)) return false;
    }
    return true;
}

static bool match_classes(const GemmFrom *f, const Node *dot, const Windows *w,
                          GemmOperand *weights, ProgConv *c, int64_t *of_class)
{
    Runs run[PROG_MAX_IMAGE_AXES];
    const Node *given = runs_of(dot->args[1], w, run);
    if (!given || !pairs_runs(dot, w, run) || !gemm_operand(f, given, weights) ||
        !strides_row_major(&weights->s))
        return false;
    c->kind = PV_INPUT;
    c->results = given->type.dim[0];
    c->channels = given->type.dim[w->spatial + 1];
    for (int i = 0; i < w->spatial; i++) {
        const int64_t step = run[i].width, size = run[i].size, places = w->extent[i],
                      before = (run[i].count - 1 - w->low[i]) * step - run[i].low,
                      read = (places - 1) * step + size - before; // pixels that windows reach
        of_class[i] = w->node->type.dim[i + 1];
        c->image[i] = of_class[i] * step;
        if (c->image[i] > read + step - 1) c->image[i] = read + step - 1;
        c->places[i] = places;
        c->size[i] = size;
        c->step[i] = step;
        c->before[i] = before;
        c->after[i] = read > c->image[i] ? read - c->image[i] : 0;
        if (w->axes.stride[i] != 1 || w->axes.dilation[i] != 1 || before < 0 || c->image[i] < 1)
            return false;
    }
    return true;
}

// -- the gradient of weights ----------------------------------------------------------------------

// Whether the operands pair the same axes of these, and all of their first [outer] axes.
static bool pairs_outer(const DotAxes *a, const DotAxes *b, int outer)
{
    for (int i = 0; i < a->nbatch; i++)
        if (a->batch[i] != b->batch[i] || a->batch[i] >= outer) return false;
    for (int i = 0; i < a->ncontract; i++)
        if (a->contract[i] != b->contract[i] || a->contract[i] >= outer) return false;
    return a->nbatch + a->ncontract == outer;
}

static bool match_weights(const GemmFrom *f, const Node *dot, Windows *w, GemmOperand *y,
                          ProgConv *c)
{
    const DotAxes a = dot_axes(dot, 0), b = dot_axes(dot, 1);
    const Node *windows = dot->args[1], *given = windows;
    while (windows->op == OP_reshape && node_keeps_all(windows)) windows = windows->args[0];
    if (!windows_of(f, windows, w) || a.nfree != 1) return false;
    const int inner = w->spatial + 1, outer = given->type.rank - inner, rank = windows->type.rank;
    for (int i = 0; i < inner; i++)
        if (given->type.dim[outer + i] != windows->type.dim[rank - inner + i]) return false;
    if (!axes_are(b.free, b.nfree, outer, outer + inner) || a.free[0] != outer ||
        !pairs_outer(&a, &b, outer) || !gemm_operand(f, dot->args[0], y) ||
        !strides_row_major(&y->s))
        return false;
    c->kind = PV_WEIGHT;
    c->parts = 1;
    for (int i = 0; i < a.nbatch; i++) c->parts *= given->type.dim[b.batch[i]];
    c->channels = windows->type.dim[rank - 1];
    c->results = dot->args[0]->type.dim[outer];
    for (int i = 0; i < w->spatial; i++) {
        c->image[i] = w->extent[i];
        c->places[i] = windows->type.dim[i + 1];
        c->step[i] = w->axes.stride[i];
        c->before[i] = w->low[i];
        c->after[i] = w->high[i];
    }
    return c->parts == 1 || only_added_up(f->graph, dot, a.nbatch);
}

// -- the call -------------------------------------------------------------------------------------

// A convolution over lines is one over images of one line.
static void in_two_axes(ProgConv *c, int spatial)
{
    c->axes = spatial < 2 ? 2 : spatial;
    if (spatial > 1) return;
    int64_t *const of[] = {c->image, c->size, c->places, c->step, c->dilation, c->before, c->after};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        of[i][1] = of[i][0];
        of[i][0] = i < 5;
    }
}

static int64_t product_of(const int64_t *v, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++) all *= v[i];
    return all;
}

static bool sizes(ProgGemm *g)
{
    const ProgConv *c = &g->conv;
    const int64_t image = product_of(c->image, c->axes), size = product_of(c->size, c->axes),
                  places = product_of(c->places, c->axes);
    g->m = c->kind == PV_WEIGHT ? c->results : c->images * (c->kind == PV_INPUT ? image : places);
    g->n = c->kind == PV_FORWARD ? c->results : c->channels * (c->kind == PV_INPUT ? 1 : size);
    g->k = c->kind == PV_WEIGHT ? c->images * places
                                : size * (c->kind == PV_INPUT ? c->results : c->channels);
    if (c->kind == PV_INPUT) // a pixel is in so many windows
        g->k = (g->k - 1) / product_of(c->step, c->axes) + 1;
    g->batch = 1;
    g->lda = g->k;
    g->ldb = g->ldc = g->n;
    return g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX;
}

// What the group stores is the dot's value, possibly rounded.
static bool stores_dot(const Group *gr, DType *type)
{
    if (gr->outs.n != 1) return false;
    const Node *n = gr->outs.at[0];
    *type = n->type.dtype;
    while (n != gr->anchor && (node_class(n) == CLS_ROOT || node_keeps_all(n))) n = n->args[0];
    if (n->op == OP_cast && n->type.dtype == *type) n = n->args[0];
    return n == gr->anchor;
}

// A library multiplies f32, with results in f32, or 16-bit floats, with results rounded to these.
static bool types_fit(const Node *dot, DType result)
{
    const DType t = dot->args[0]->type.dtype;
    return t == dot->args[1]->type.dtype && t == result &&
           (dot->type.dtype == DT_F32 || dot->type.dtype == result) &&
           (t == DT_F32 || t == DT_BF16 || t == DT_F16) &&
           attr_int(dot, ATTR_accumulate, DT_F32) == DT_F32 && !attr_find(dot, ATTR_groups);
}

bool conv_match(const GemmFrom *f, const Group *gr, ConvMatch *m, bool *stored)
{
    const Node *dot = gr->anchor;
    Windows w;
    Weights v;
    GemmOperand y;
    memset(m, 0, sizeof *m);
    if (!f->target->matmul_library || f->target->kind != TARGET_CUDA || gr->kind != GROUP_DOT ||
        !dot || dot->op != OP_dot)
        return false;
    DType type;
    *stored = stores_dot(gr, &type);
    if (!types_fit(dot, *stored ? type : dot->type.dtype)) return false;
    ProgGemm *g = &m->gemm;
    ProgConv *c = &g->conv;
    c->parts = 1;
    if (windows_of(f, dot->args[0], &w) && weights_of(f, dot, &w, &v) &&
        (v.parts == 1 || (*stored && only_added_up(f->graph, dot, dot_axes(dot, 0).nbatch))) &&
        (match_forward(&w, &v, c) || match_input(&w, &v, c))) {
        c->parts = v.parts;
        m->a = w.image.stored;
        m->b = v.stored.stored;
    } else if (*stored && windows_of(f, dot->args[0], &w) &&
               match_classes(f, dot, &w, &y, c, m->of_class)) {
        m->a = w.image.stored;
        m->b = y.stored;
        m->classes = true;
    } else if (*stored && match_weights(f, dot, &w, &y, c)) {
        m->a = y.stored;
        m->b = w.image.stored;
    } else {
        return false;
    }
    c->images = w.image.s.dim[0];
    for (int i = 0; i < w.spatial; i++) {
        if (!m->classes) c->size[i] = w.axes.size[i];
        c->dilation[i] = w.axes.dilation[i];
    }
    in_two_axes(c, w.spatial);
    if (w.spatial == 1) {
        m->of_class[1] = m->of_class[0];
        m->of_class[0] = 1;
    }
    g->a_type = g->b_type = g->c_type = (ProgDType)dot->args[0]->type.dtype;
    g->compute = PD_F32;
    g->tf32 = f->tf32 && g->a_type == PD_F32;
    return sizes(g) && (c->parts == 1 || g->a_type == PD_F32);
}
