// Sums over windows in images of which a thread computes several adjacent results, so that it loads
// once what they share. Along one line of the image:
//
//   taps    sums over the places, with a result for each element of the windows (a tap): a
//           depthwise convolution's weight gradient, sums of window(x) * g. A row of the body has
//           the taps of its channels, a column some neighbouring places;
//   places  sums over the windows' elements, as in that convolution and its gradient with respect
//           to x. A row has some neighbouring places of its channels, a column the elements of one
//           line of their windows.
#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"
#include "ir/axes.h"

enum {
    MOST_TAPS = 52,
    MOST_PLACES = 7,
    LEAST_SUMMED = 1024, // positions
    LEAST_CHANNELS = 16, // contiguous; otherwise results cannot be vectors
    LEAST_THREADS = 256, // per multiprocessor
    MOST_NODES = 64,     // limit of nodes looked at
};

typedef struct Windows { // the windows in a sum's operand
    const Node *sum, *window;
    WindowAxes axes;
    int line, element; // axes of the operand: positions along the line, and elements of a window
                       // along it
    int bytes;         // per loaded element
    int64_t channels;  // contiguous results for one position and tap
} Windows;

const Node *lower_window_below(const Node *n)
{
    const Node *work[MOST_NODES] = {n};
    for (int i = 0, count = 1; i < count; i++) {
        if (work[i]->op == OP_window) return work[i];
        if (node_class(work[i]) != CLS_ELEMENTWISE) continue;
        for (uint32_t k = 0; k < work[i]->nargs && count < MOST_NODES; k++)
            work[count++] = work[i]->args[k];
    }
    return NULL;
}

static bool is_reduced(const Node *sum, int64_t axis)
{
    int n;
    const int64_t *axes = attr_ints(sum, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

static DType loaded_type(const Node *n)
{
    while (n->op == OP_cast || node_class(n) == CLS_VIEW) n = n->args[0];
    return n->type.dtype;
}

static bool find_windows(const Node *sum, Windows *w)
{
    const Node *window = sum->op == OP_sum ? lower_window_below(sum->args[0]) : NULL;
    if (!window) return false;
    const WindowAxes axes = window_axes(window->attrs);
    const Type *t = &sum->args[0]->type;
    *w = (Windows){.sum = sum, .window = window, .axes = axes, .channels = 1};
    w->line = (int)axes.axis[axes.n - 1];
    w->element = axes.at + axes.n - 1;
    w->bytes = dtype_info[loaded_type(window)].bits / 8;
    for (int i = w->element + 1; i < t->rank; i++) {
        if (is_reduced(sum, i)) return false;
        w->channels *= t->dim[i];
    }
    return w->channels >= LEAST_CHANNELS;
}

// The number of elements along the line in the windows of so many neighbouring positions together.
static int64_t elements_of(const Windows *w, int64_t places)
{
    const int i = w->axes.n - 1;
    const int64_t size = w->axes.size[i], stride = w->axes.stride[i], apart = w->axes.dilation[i];
    int64_t n = 0;
    for (int64_t at = 0; at <= (places - 1) * stride + (size - 1) * apart; at++) {
        bool read = false;
        for (int64_t p = 0; p < places && !read; p++) {
            const int64_t off = at - p * stride;
            read = off >= 0 && off % apart == 0 && off / apart < size;
        }
        n += read;
    }
    return n;
}

// Whether a thread has enough registers for so many sums and loads of [lanes] channels each.
static bool has_registers(const Windows *w, int64_t sums, int64_t loads, int lanes)
{
    return (sums + loads * w->bytes / 4.0) * lanes <= COLUMN_REGISTERS;
}

// The number of taps in a row of the body; 0: the sum is not over positions.
static int64_t taps_of(const Windows *w)
{
    const Type *t = &w->sum->args[0]->type;
    int64_t taps = 1;
    for (int i = 0; i < w->axes.n; i++)
        if (!is_reduced(w->sum, w->axes.axis[i]) || is_reduced(w->sum, w->axes.at + i)) return 0;
    for (int i = w->element; i >= w->axes.at && taps * t->dim[i] <= MOST_TAPS; i--)
        taps *= t->dim[i];
    return taps > 1 && reduced_count(w->sum) >= LEAST_SUMMED ? taps : 0;
}

// The number of neighbouring positions in a column.
static int64_t places_of_column(const Windows *w, int64_t taps)
{
    const int64_t along = w->sum->args[0]->type.dim[w->line], size = w->axes.size[w->axes.n - 1],
                  lines = (taps + size - 1) / size;
    int64_t p = MOST_PLACES;
    while (p > 1 &&
           (along % p || !has_registers(w, taps, lines * elements_of(w, p) + p, taps > 12 ? 2 : 4)))
        p--;
    return p;
}

// The number of positions in a row of the body; 0: the sum is not over the windows' elements, or
// windows share none.
static int64_t places_of_row(const LowerCtx *ctx, const Windows *w)
{
    const int64_t along = w->sum->args[0]->type.dim[w->line], size = w->axes.size[w->axes.n - 1],
                  vectors = type_count(&w->sum->type) / 8,
                  least = LEAST_THREADS * (int64_t)ctx->target->units;
    int n;
    attr_ints(w->sum, ATTR_axes, &n);
    if (n != w->axes.n || n < 2 || size < 2) return 0;
    for (int i = 0; i < n; i++)
        if (!is_reduced(w->sum, w->axes.at + i)) return 0;
    for (int64_t p = MOST_PLACES; p > 1; p--)
        if (along % p == 0 && vectors / p >= least &&
            has_registers(w, p, elements_of(w, p) + size, 4))
            return p;
    return 0;
}

// The sum of [count] neighbouring elements of the operand along axis [along], beginning at [at].
static int sum_of_some(Lower *l, const Node *sum, const Ix **at, int along, int64_t count)
{
    const Node *x = sum->args[0];
    const DType t = acc_type_of(sum);
    const Ix *first = at[along];
    int v = -1;
    for (int64_t k = 0; k < count; k++) {
        at[along] = ix_add(l->body->ix, first, ix_const(l->body->ix, k));
        const int term = lower_cast(l, lower_value(l, x, at, -1), t, NULL);
        const Inst *p = &l->body->insts.at[term];
        if (v < 0)
            v = term;
        else if (p->kind == KI_EW && p->op == OP_mul && p->type == t && dtype_is_float(t))
            v = lower_ew(l, OP_fma, t, (int[]){p->a[0], p->a[1], v}, 3, NULL);
        else
            v = lower_two(l, OP_add, t, v, term);
    }
    at[along] = first;
    return v;
}

// A body whose rows have [results] results each, [apart] from one to the next, and whose columns
// sum [count] neighbouring elements along axis [along] of the operand.
static Lower several(LowerCtx *ctx, Graph *g, const Group *group, const Windows *w,
                     Node *const *outs, int n, int64_t results, int64_t apart, int along,
                     int64_t count)
{
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    const Node *sum = w->sum;
    const Type *t = &sum->args[0]->type;
    const int64_t rows = type_count(&sum->type) / results, cols = reduced_count(sum) / count;
    const Ix *row = ix_axis(c, lower_new_axis(&l, rows), rows), *col, *idx[MAX_RANK];
    l.body->npar = 1;
    l.body->col = lower_new_axis(&l, cols);
    col = ix_axis(c, l.body->col, cols);
    const Ix *first =
        ix_add(c, ix_scale(c, ix_div(c, row, apart), results * apart), ix_mod(c, row, apart));
    for (int64_t i = 0; i < results; i++) {
        const Ix *flat = ix_add(c, first, ix_const(c, i * apart)), *at[MAX_RANK], *rest = col;
        ix_delinear(c, flat, sum->type.dim, sum->type.rank, idx);
        for (int a = t->rank, k = sum->type.rank; a-- > 0;) {
            const int64_t extent = a == along ? t->dim[a] / count : t->dim[a];
            if (!is_reduced(sum, a)) {
                at[a] = idx[--k];
                continue;
            }
            at[a] = ix_mod(c, rest, extent);
            rest = ix_div(c, rest, extent);
        }
        at[along] = ix_scale(c, at[along], count);
        Inst r = {.kind = KI_REDUCE, .op = OP_sum, .na = 1, .axis = l.body->col, .node = sum};
        r.type = r.acc = acc_type_of(sum);
        r.a[0] = sum_of_some(&l, sum, at, along, count);
        lower_known(&l, sum, idx, lower_cast(&l, lower_inst(&l, r), sum->type.dtype, sum));
        for (int k = 0; k < n; k++) {
            const Type *to = lower_space(outs[k]);
            ix_delinear(c, flat, to->dim, to->rank, idx);
            lower_out(&l, outs[k], idx);
        }
    }
    if (!l.failed) lower_finish(&l);
    return l;
}

bool lower_several(LowerCtx *ctx, Graph *g, const Group *group, const Node *head, Node *const *outs,
                   int n, Lower *l)
{
    Windows w;
    if (ctx->target->kind != TARGET_CUDA || !find_windows(head, &w)) return false;
    for (int i = 0; i < n; i++)
        if (type_count(lower_space(outs[i])) != type_count(&head->type) ||
            node_has(outs[i], OPF_EFFECT))
            return false;
    const int64_t taps = taps_of(&w), places = taps ? 0 : places_of_row(ctx, &w);
    if (taps)
        *l = several(ctx, g, group, &w, outs, n, taps, w.channels, w.line,
                     places_of_column(&w, taps));
    else if (places)
        *l = several(ctx, g, group, &w, outs, n, places, w.channels, w.element,
                     head->args[0]->type.dim[w.element]);
    if ((!taps && !places) || l->failed || l->body->nstages != 1) return false;
    for (uint32_t i = 0; i < l->body->insts.n; i++) { // nothing else may be summed
        const Inst *v = &l->body->insts.at[i];
        if (v->kind == KI_REDUCE && v->axis != l->body->col) return false;
    }
    return true;
}
