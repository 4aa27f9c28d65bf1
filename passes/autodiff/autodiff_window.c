// The gradient of window: the sum over the windows that contain an element.
//
// Along one axis, y[o, k] = x[o stride + k dilation], so that dx[i] is the sum of dy[o, k] over i =
// o stride + k dilation. The k are divided into runs of [width] = min(size, stride). Those of a run
// are consecutive in x and do not overlap those of the next place o, so that a run is a reshape of
// (places, width) to places * stride elements (padded with zeros), and dx is the sum of shifted
// runs.
//
// Before a dot (a convolution), y = window(x) . w, this would materialise a dy as large as all
// windows. There the sum moves into the dot: dx = window(dy) . w, with windows over the runs, last
// run first, and the elements of a run as axes of the result. With stride 1 these are windows of
// the padded dy and reversed weights; with a larger stride, each remainder of i modulo the stride
// has weights of its own, and the only zeros multiplied are those that fill the first and the last
// run.
//
// Before a product of which one factor depends on the places and the other on the windows'
// elements, as in a depthwise convolution, dx is, with stride 1, the same kind of sum: that of a
// window of the padded dy with reversed weights. (With a larger stride, there are few runs.)
//
// If x is an image padded with zeros, [low] before it, the gradient of the padding is not needed.
// Then i counts the image's own elements, so that runs begin where the image does and nothing is
// computed only to be cut off: i + low = o stride + k, and k is counted from [lead] zeros before
// the weights, as many as make low + lead a multiple of the stride.
#include <string.h>

#include "ir/axes.h"
#include "passes/autodiff/autodiff_rules.h"

typedef struct Runs { // along one axis
    int64_t places, size, stride, width, count;
    int64_t apart; // distance of two runs in x
    bool even;     // [apart] is a multiple of the stride, [step] times
    int64_t step;
    // For a contraction: number of elements of x, number of runs of them, zeros before the weights,
    // and index of the place to which the last element of the first run belongs.
    int64_t extent, wanted, lead, shift;
} Runs;

static Runs runs_of(const WindowAxes *w, int i, int64_t places)
{
    Runs r = {.places = places, .size = w->size[i], .stride = w->stride[i]};
    bool dense = w->dilation[i] == 1 || r.size == 1;
    r.width = !dense ? 1 : r.size < r.stride ? r.size : r.stride;
    r.count = (r.size + r.width - 1) / r.width;
    r.apart = dense ? r.width : w->dilation[i];
    r.even = r.count == 1 || r.apart % r.stride == 0;
    r.step = r.count == 1 ? 1 : r.apart / r.stride;
    r.wanted = places + (r.count - 1) * r.step;
    return r;
}

// Makes runs begin where the image does, [low] after the first element. false: there would be more
// runs.
static bool align(Runs *r, int64_t low, int64_t extent)
{
    r->lead = (r->stride - low % r->stride) % r->stride;
    r->shift = (low + r->lead) / r->stride;
    r->extent = extent;
    r->wanted = (extent + r->stride - 1) / r->stride;
    return !r->lead || (r->width == r->stride && r->lead + r->size <= r->count * r->width);
}

static Node *pad_axis(Rule *r, Node *x, int axis, int64_t low, int64_t high)
{
    int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0};
    before[axis] = low;
    after[axis] = high;
    return rule_pad(r, x, before, after);
}

static Node *cut_axis(Rule *r, Node *x, int axis, int64_t from, int64_t to)
{
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], one[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) limit[i] = x->type.dim[i], one[i] = 1;
    start[axis] = from;
    limit[axis] = to;
    return graph_slice(r->g, x, start, limit, one);
}

// Shifts x along the axis, and cuts or pads it to the extent.
static Node *fit_axis(Rule *r, Node *x, int axis, int64_t shift, int64_t extent)
{
    if (x->type.dim[axis] > extent - shift) x = cut_axis(r, x, axis, 0, extent - shift);
    return pad_axis(r, x, axis, shift, extent - shift - x->type.dim[axis]);
}

// Adds [low] zeros before x and [high] zeros after it; negative numbers remove elements.
static Node *frame_axis(Rule *r, Node *x, int axis, int64_t low, int64_t high)
{
    const int64_t from = low < 0 ? -low : 0, cut = high < 0 ? -high : 0;
    if (from || cut) x = cut_axis(r, x, axis, from, x->type.dim[axis] - cut);
    return pad_axis(r, x, axis, low < 0 ? 0 : low, high < 0 ? 0 : high);
}

// Whether a run is one element per place, so that no reshape is needed.
static bool is_single(const Runs *r)
{
    return r->width == 1 && r->stride == 1;
}

// Moves axis [within], the elements of a run, behind axis [place], and merges the two.
static Node *join_run(Rule *r, Node *x, int place, int within, int64_t stride)
{
    int64_t perm[MAX_RANK], dim[MAX_RANK];
    int n = 0, rank = 0;
    x = pad_axis(r, x, within, 0, stride - x->type.dim[within]);
    for (int i = 0; i < x->type.rank; i++) {
        if (i != within) perm[n++] = i;
        if (i == place) perm[n++] = within;
    }
    x = graph_permute(r->g, x, perm);
    for (int i = 0; i < n; i++) {
        if (perm[i] == within)
            dim[rank - 1] *= x->type.dim[i];
        else
            dim[rank++] = x->type.dim[i];
    }
    return graph_reshape(r->g, x, rank, dim);
}

static Node *sum_of_runs(Rule *r, const WindowAxes *w, Node *d)
{
    for (int i = w->n; i-- > 0;) {
        const int axis = (int)w->axis[i], within = w->at + i;
        const int64_t extent = A(0)->type.dim[axis];
        const Runs runs = runs_of(w, i, d->type.dim[axis]);
        Node *sum = NULL;
        for (int64_t k = 0; k < runs.count; k++) {
            int64_t from = k * runs.width, to = from + runs.width;
            Node *run = cut_axis(r, d, within, from, to < runs.size ? to : runs.size);
            run = join_run(r, run, axis, within, runs.stride);
            run = fit_axis(r, run, axis, k * runs.apart, extent);
            sum = sum ? B(add, sum, run) : run;
        }
        d = sum;
    }
    return d;
}

// -- before a contraction -------------------------------------------------------------------------

typedef struct Factor { // an operand of the contraction, and where its axes have gone
    Node *x;
    DotAxes axes;
    int64_t at[MAX_RANK];
} Factor;

typedef struct Behind {
    Node *dot;
    int64_t from[MAX_RANK];                    // by axis of dy: axis of the contraction
    int side;                                  // the operand that has the places
    int64_t place[MAX_RANK], within[MAX_RANK]; // by windowed axis: the axis of that operand, and of
                                               // the other one
    Runs runs[MAX_RANK];
    Node *x; // the windowed value, without zero padding
} Behind;

// The axis of an operand that is axis [axis] of the result; -1: it is a batch axis.
static int64_t free_axis(const Behind *b, int64_t axis, int *side)
{
    const DotAxes x = dot_axes(b->dot, 0), y = dot_axes(b->dot, 1);
    int64_t k = axis - x.nbatch;
    if (k < 0) return -1;
    *side = k >= x.nfree;
    return *side ? y.free[k - x.nfree] : x.free[k];
}

// Looks through zero padding of x if the gradient of the padding is not needed.
static void find_image(Rule *r, const WindowAxes *w, Behind *b)
{
    Node *pad = A(0);
    Runs runs[MAX_RANK];
    b->x = pad;
    for (int i = 0; i < w->n; i++) b->runs[i].extent = pad->type.dim[w->axis[i]];
    if (pad->op != OP_pad || r->s->asked[pad->id] || r->s->need[pad->args[1]->id]) return;
    const int64_t *low = attr_ints(pad, ATTR_low, NULL), *high = attr_ints(pad, ATTR_high, NULL);
    for (int axis = 0, i = 0; axis < pad->type.rank; axis++) {
        if (i == w->n || w->axis[i] != axis) {
            if (low[axis] || high[axis]) return;
            continue;
        }
        runs[i] = b->runs[i];
        if (!align(&runs[i], low[axis], pad->args[0]->type.dim[axis])) return;
        i++;
    }
    memcpy(b->runs, runs, sizeof *runs * (size_t)w->n);
    b->x = pad->args[0];
}

static bool find_contraction(Rule *r, const WindowAxes *w, Behind *b)
{
    Node *d = r->dy;
    bool even = true;
    for (int i = 0; i < d->type.rank; i++) b->from[i] = i;
    while (d->op == OP_permute) {
        const int64_t *perm = attr_ints(d, ATTR_perm, NULL);
        for (int i = 0; i < r->dy->type.rank; i++) b->from[i] = perm[b->from[i]];
        d = d->args[0];
    }
    b->dot = d;
    if (d->op != OP_dot) return false;
    for (int i = 0; i < w->n; i++) {
        int one = 0, two = 0;
        b->place[i] = free_axis(b, b->from[w->axis[i]], &one);
        b->within[i] = free_axis(b, b->from[w->at + i], &two);
        if (b->place[i] < 0 || b->within[i] < 0 || one == two || (i && one != b->side))
            return false;
        b->side = one;
        b->runs[i] = runs_of(w, i, r->dy->type.dim[w->axis[i]]);
        even &= b->runs[i].even;
    }
    find_image(r, w, b);
    return even && d->args[0]->type.rank + w->n <= MAX_RANK &&
           d->args[1]->type.rank + w->n <= MAX_RANK && r->dy->type.rank <= MAX_RANK;
}

// Takes windows of f.x over the runs of each axis. [runs]: the resulting axes within windows.
static Factor windowed(Rule *r, Factor f, const Behind *b, const WindowAxes *w, int64_t *runs)
{
    int64_t axes[MAX_RANK], sizes[MAX_RANK], one[MAX_RANK], step[MAX_RANK];
    int order[MAX_RANK];
    for (int i = 0; i < w->n; i++) { // in ascending order of axes
        int k = i;
        for (; k > 0 && b->place[order[k - 1]] > b->place[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (int k = 0; k < w->n; k++) {
        const Runs *run = &b->runs[order[k]];
        axes[k] = b->place[order[k]];
        f.x = frame_axis(r, f.x, (int)axes[k], (run->count - 1) * run->step - run->shift,
                         run->wanted + run->shift - run->places);
        sizes[k] = run->count;
        one[k] = 1;
        step[k] = run->step;
    }
    const int64_t at = axes[w->n - 1] + 1;
    for (int i = 0; i < MAX_RANK; i++) f.at[i] = i < at ? i : i + w->n;
    for (int k = 0; k < w->n; k++) runs[order[k]] = at + k;
    Attrs attrs = {0};
    attr_set_ints(r->g, &attrs, ATTR_axes, axes, w->n);
    attr_set_ints(r->g, &attrs, ATTR_sizes, sizes, w->n);
    attr_set_ints(r->g, &attrs, ATTR_stride, one, w->n);
    attr_set_ints(r->g, &attrs, ATTR_dilation, step, w->n);
    f.x = graph_node(r->g, OP_window, &f.x, 1, &attrs);
    return f;
}

// Splits each axis within a window into two: its runs, in reverse order, and the elements of a run.
static Factor by_runs(Rule *r, const Behind *b, const WindowAxes *w, int64_t *runs)
{
    Factor f = {.x = b->dot->args[1 - b->side], .axes = dot_axes(b->dot, 1 - b->side)};
    int64_t dim[MAX_RANK], reversed[MAX_RANK];
    int rank = 0, nreversed = 0;
    for (int i = 0; i < w->n; i++) {
        const Runs *run = &b->runs[i];
        f.x = pad_axis(r, f.x, (int)b->within[i], run->lead,
                       run->count * run->width - run->size - run->lead);
    }
    for (int i = 0; i < f.x->type.rank; i++) {
        int k = 0;
        while (k < w->n && b->within[k] != i) k++;
        if (k < w->n) {
            reversed[nreversed++] = runs[k] = rank;
            dim[rank++] = b->runs[k].count;
        }
        f.at[i] = rank;
        if (k < w->n && is_single(&b->runs[k])) continue;
        dim[rank++] = k < w->n ? b->runs[k].width : f.x->type.dim[i];
    }
    f.x = graph_reshape(r->g, f.x, rank, dim);
    Attrs attrs = {0};
    attr_set_ints(r->g, &attrs, ATTR_axes, reversed, nreversed);
    f.x = graph_node(r->g, OP_reverse, &f.x, 1, &attrs);
    return f;
}

static Node *contracted(Rule *r, const Behind *b, const WindowAxes *w)
{
    Factor f[2];
    const Factor places = {.x = b->dot->args[b->side], .axes = dot_axes(b->dot, b->side)};
    int64_t runs[2][MAX_RANK], batch[2][MAX_RANK], contract[2][MAX_RANK], at[2][MAX_RANK];
    f[b->side] = windowed(r, places, b, w, runs[b->side]);
    f[1 - b->side] = by_runs(r, b, w, runs[1 - b->side]);
    int next = f[0].axes.nbatch, nc = f[0].axes.ncontract;
    for (int s = 0; s < 2; s++) {
        const DotAxes *x = &f[s].axes;
        bool taken[MAX_RANK] = {0};
        for (int i = 0; i < x->nbatch; i++) {
            batch[s][i] = f[s].at[x->batch[i]];
            taken[batch[s][i]] = true;
            at[s][batch[s][i]] = i;
        }
        for (int i = 0; i < nc + w->n; i++) { // the axis with stride 1 last
            contract[s][i] = i < w->n ? runs[s][i] : f[s].at[x->contract[i - w->n]];
            taken[contract[s][i]] = true;
        }
        for (int i = 0; i < f[s].x->type.rank; i++) // position of the axis in the result
            if (!taken[i]) at[s][i] = next++;
    }
    Node *y = graph_dot(r->g, f[0].x, f[1].x, batch[0], batch[1], f[0].axes.nbatch, contract[0],
                        contract[1], nc + w->n, b->dot->type.dtype);
    // The axes of dy, those within windows last.
    int64_t perm[MAX_RANK];
    int n = 0;
    for (int i = 0; i < r->dy->type.rank; i++) {
        int side = 0;
        if (i >= w->at && i < w->at + w->n) continue;
        int64_t axis = free_axis(b, b->from[i], &side);
        perm[n++] = axis < 0 ? b->from[i] : at[side][f[side].at[axis]];
    }
    for (int i = 0; i < w->n; i++)
        if (!is_single(&b->runs[i])) perm[n++] = at[1 - b->side][f[1 - b->side].at[b->within[i]]];
    y = graph_permute(r->g, y, perm);
    for (int i = w->n; i-- > 0;) {
        const int axis = (int)w->axis[i];
        if (!is_single(&b->runs[i])) y = join_run(r, y, axis, y->type.rank - 1, b->runs[i].stride);
        y = fit_axis(r, y, axis, 0, b->runs[i].extent);
    }
    return y;
}

// Cuts x to the given range. For a dot, only that part is computed.
Node *rule_slice(Rule *r, Node *x, const int64_t *start, const int64_t *limit)
{
    int64_t one[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) one[i] = 1;
    if (x->op != OP_dot) return graph_slice(r->g, x, start, limit, one);
    Node *args[2];
    for (int side = 0, at = 0; side < 2; side++) {
        const DotAxes d = dot_axes(x, side);
        const Type *t = &x->args[side]->type;
        int64_t from[MAX_RANK] = {0}, to[MAX_RANK];
        memcpy(to, t->dim, sizeof to);
        if (!side) at = d.nbatch;
        for (int i = 0; i < d.nbatch; i++) {
            from[d.batch[i]] = start[i];
            to[d.batch[i]] = limit[i];
        }
        for (int i = 0; i < d.nfree; i++, at++) {
            from[d.free[i]] = start[at];
            to[d.free[i]] = limit[at];
        }
        args[side] = graph_slice(r->g, x->args[side], from, to, one);
    }
    return graph_node(r->g, OP_dot, args, 2, x->attrs);
}

// -- before a sum of products ---------------------------------------------------------------------

// Whether n repeats its operand along these axes.
static bool repeats(const Node *n, const int64_t *axes, int count)
{
    if (n->op != OP_broadcast) return false;
    const int64_t *dims = attr_ints(n, ATTR_dims, NULL);
    for (int i = 0; i < n->args[0]->type.rank; i++)
        for (int k = 0; k < count; k++)
            if (dims[i] == axes[k] && n->args[0]->type.dim[i] != 1) return false;
    return true;
}

// Whether dy = places * taps, where places has one value per place, and taps one per element of the
// windows.
static bool find_product(Rule *r, const WindowAxes *w, Behind *b, Node **places, Node **taps)
{
    int64_t within[MAX_RANK];
    if (r->dy->op != OP_mul) return false;
    for (int i = 0; i < w->n; i++) {
        within[i] = w->at + i;
        b->place[i] = w->axis[i];
        b->runs[i] = runs_of(w, i, r->dy->type.dim[w->axis[i]]);
        if (w->stride[i] != 1) return false;
    }
    for (int k = 0; k < 2; k++) {
        *places = r->dy->args[k];
        *taps = r->dy->args[1 - k];
        if (repeats(*places, within, w->n) && repeats(*taps, w->axis, w->n)) break;
        if (k) return false;
    }
    // The operand of [places] must have all other axes, in order.
    const Node *x = (*places)->args[0];
    const int64_t *dims = attr_ints(*places, ATTR_dims, NULL);
    if (x->type.rank + w->n != r->dy->type.rank) return false;
    for (int i = 0; i < x->type.rank; i++) {
        const int64_t axis = i < w->at ? i : i + w->n;
        if (dims[i] != axis || x->type.dim[i] != r->dy->type.dim[axis]) return false;
    }
    find_image(r, w, b);
    return true;
}

// With stride 1, dx is a sum over windows, too: of the values of the places times the taps in
// reverse order.
static Node *summed(Rule *r, const Behind *b, const WindowAxes *w, const Node *places,
                    const Node *taps)
{
    int64_t runs[MAX_RANK], reversed[MAX_RANK], dims[MAX_RANK];
    Factor f = windowed(r, (Factor){.x = places->args[0]}, b, w, runs);
    Node *t = taps->args[0];
    int n = 0;
    memcpy(dims, attr_ints(taps, ATTR_dims, NULL), sizeof *dims * (size_t)t->type.rank);
    for (int i = 0; i < t->type.rank; i++)
        if (dims[i] >= w->at && dims[i] < w->at + w->n && t->type.dim[i] != 1) reversed[n++] = i;
    Attrs back = {0}, attrs = {0};
    attr_set_ints(r->g, &back, ATTR_axes, reversed, n);
    if (n) t = graph_node(r->g, OP_reverse, &t, 1, &back);
    attr_set_ints(r->g, &attrs, ATTR_shape, f.x->type.dim, f.x->type.rank);
    attr_set_ints(r->g, &attrs, ATTR_dims, dims, t->type.rank);
    t = graph_node(r->g, OP_broadcast, &t, 1, &attrs);
    return graph_reduce(r->g, OP_sum, B(mul, f.x, t), runs, w->n, false);
}

void grad_window(Rule *r)
{
    const WindowAxes w = window_axes(r->n->attrs);
    Behind b = {0};
    Node *places, *taps;
    if (find_contraction(r, &w, &b))
        sweep_seed(r->s, b.x, contracted(r, &b, &w));
    else if (find_product(r, &w, &b, &places, &taps))
        sweep_seed(r->s, b.x, summed(r, &b, &w, places, taps));
    else
        rule_give(r, 0, sum_of_runs(r, &w, r->dy));
}
