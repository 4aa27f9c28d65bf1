// Operands of a dot: their layout in memory, and copies of those that no library can read in place.
#include <math.h>

#include "ir/axes.h"
#include "ir/loop.h"
#include "ir/strides.h"
#include "passes/fuse/fuse.h"
#include "passes/regions.h"

static const Node *behind(const Node *n)
{
    while (node_has(n, OPF_STRIDES)) n = n->args[0];
    return n;
}

static bool repeated(const Strides *l, int64_t axis)
{
    return l->dim[axis] != 1 && !l->step[axis];
}

// Whether the operand's batch axes, free axes and contracted axes (in the given order) can each be
// merged into one axis with a stride.
static bool reads_in_order(const Node *dot, int side, const Strides *l, const int *order)
{
    DotAxes x = dot_axes(dot, side);
    int64_t run[MAX_RANK], extent, sb, sc, sf;
    bool repeats = false;
    for (int i = 0; i < x.nfree; i++) repeats |= repeated(l, x.free[i]);
    for (int i = 0; i < x.ncontract; i++) repeats |= repeated(l, x.contract[i]);
    if (repeats) return false; // not a matrix in memory
    for (int i = 0; i < x.ncontract; i++) run[i] = x.contract[order[i]];
    if (!strides_run(l, x.batch, x.nbatch, &extent, &sb) ||
        !strides_run(l, run, x.ncontract, &extent, &sc) ||
        !strides_run(l, x.free, x.nfree, &extent, &sf))
        return false;
    return sc <= 1 || sf <= 1;
}

// The contracted axes in the order of their strides, largest first.
static void contraction_order(const Node *dot, const Strides *a, int *order)
{
    int nc;
    const int64_t *c = attr_ints(dot, ATTR_contract_a, &nc);
    for (int i = 0; i < nc; i++) {
        int k = i;
        for (; k > 0 && a->step[c[order[k - 1]]] < a->step[c[i]]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

static bool reads_first(const Node *dot, const Node *stored, int *order)
{
    Strides l;
    if (!strides_through(dot->args[0], stored, &l)) return false;
    contraction_order(dot, &l, order);
    return reads_in_order(dot, 0, &l, order);
}

// The order in which the first operand stores its contracted axes; the second one must have the
// same order.
void fuse_dot_contracts(const Node *dot, int *order)
{
    if (!reads_first(dot, behind(dot->args[0]), order)) reads_first(dot, dot->args[0], order);
}

bool fuse_dot_reads(const Node *dot, int side, const Node *stored)
{
    Strides l;
    int order[MAX_RANK];
    if (!side) return reads_first(dot, stored, order);
    if (!strides_through(dot->args[side], stored, &l)) return false;
    fuse_dot_contracts(dot, order);
    return reads_in_order(dot, side, &l, order);
}

// Permutes an operand: batch axes first, then the others in their present order if free and
// contracted axes are not interleaved, so that several contractions can share the copy; otherwise
// free before contracted axes.
static Node *canonical_operand(Graph *g, const Node *dot, int side, Node *x, int64_t *place)
{
    DotAxes d = dot_axes(dot, side);
    const int64_t *c = d.contract;
    int nb = d.nbatch, nc = d.ncontract, at = 0, changes = 0;
    int64_t perm[MAX_RANK];
    bool batch[MAX_RANK] = {0}, contracted[MAX_RANK] = {0}, ascending = true;
    for (int i = 0; i < nb; i++) batch[perm[at++] = d.batch[i]] = true;
    for (int i = 0; i < nc; i++) {
        contracted[c[i]] = true;
        ascending &= i == 0 || c[i] > c[i - 1];
    }
    for (int i = 0; i < x->type.rank; i++) {
        if (batch[i]) continue;
        changes += at > nb && contracted[i] != contracted[perm[at - 1]];
        perm[at++] = i;
    }
    if (changes > 1 || !ascending) {
        at = nb;
        for (int i = 0; i < d.nfree; i++) perm[at++] = d.free[i];
        for (int i = 0; i < nc; i++) perm[at++] = c[i];
    }
    for (int i = 0; i < at; i++) place[perm[i]] = i;
    return graph_permute(g, x, perm);
}

bool fuse_dot_needs_order(const Node *dot, int side)
{
    return !fuse_dot_reads(dot, side, behind(dot->args[side])) &&
           !fuse_dot_reads(dot, side, dot->args[side]);
}

static Node *legal_dot(Graph *g, const Node *dot, Node *const *operands)
{
    Node *args[2] = {operands[0], operands[1]};
    Attrs at = attrs_copy(dot->attrs);
    for (int side = 0; side < 2; side++) {
        int64_t place[MAX_RANK], moved[MAX_RANK];
        if (!fuse_dot_needs_order(dot, side)) continue;
        args[side] = canonical_operand(g, dot, side, args[side], place);
        for (int k = 0; k < 2; k++) {
            int n;
            const int64_t *axes = attr_ints(dot, dot_keys[side][k], &n);
            for (int i = 0; i < n; i++) moved[i] = place[axes[i]];
            attr_set_ints(g, &at, dot_keys[side][k], moved, n);
        }
    }
    return graph_node(g, OP_dot, args, 2, &at);
}

// -- sums of many terms over windows --------------------------------------------------------------

enum { MOST_PARTS = 256 };
#define TILE 128.0
// Share of the tensor cores' rate that generated products over windows reach; estimated, not
// measured.
#define TILE_SHARE 0.35

// On the CPU: enough parts to give many cores a task each, but with more terms per part than it
// costs to reorder operands.
static bool cpu_parts(const DotSizes *x, int64_t parts)
{
    enum { RESULTS = 16 * 192, TASKS = 32, TERMS = 256 };
    const int64_t tasks = (x->m * x->n * x->batch + RESULTS - 1) / RESULTS;
    return tasks * parts <= TASKS && x->k / parts >= TERMS;
}

// Seconds of a dot whose terms are split into [parts] partial results, and of their sum (split-k).
static double parts_seconds(const Target *t, const DotSizes *x, int64_t parts)
{
    double tiles =
               (double)(parts * x->batch) * ceil((double)x->m / TILE) * ceil((double)x->n / TILE),
           rate = TILE_SHARE * t->bf16_flops / t->units, terms = (double)(x->k / parts);
    double seconds = ceil(tiles / t->units) * terms * 2 * TILE * TILE / rate;
    double bytes = 8.0 * (double)(parts * x->batch) * (double)x->m * (double)x->n;
    const double launch = 2e-6;
    return parts > 1 ? seconds + launch + bytes / t->bytes_per_second : seconds;
}

// The extent of the axis after the images in a dot that contracts windows in images of [axes] axes
// with the images: the lines of each, or its planes. They follow the images in both operands. 1: it
// is no such dot.
static int64_t contracted_after_images(const Node *dot, int axes)
{
    const Node *x = dot->args[1];
    if (x->op != OP_window || window_axes(x->attrs).n != axes) return 1;
    for (int side = 0; side < 2; side++) {
        const DotAxes a = dot_axes(dot, side);
        if (a.ncontract < 3 || a.contract[1] != a.contract[0] + 1) return 1;
    }
    const DotAxes a = dot_axes(dot, 1);
    return a.contract[0] == 0 ? x->type.dim[1] : 1;
}

// How a product's terms are cut: the first contracted axis into [first] parts, and each of these
// along the second one into [second]. If second > 1, first is the extent of its axis: parts are
// lines of an image, or, of three axes, planes.
typedef struct Parts {
    int64_t first, second;
} Parts;

// If there are far fewer images than the device needs parts, their lines are cut, too: into the
// returned number of parts for each image; 1: not at all, since that takes more than [least]
// seconds.
static int64_t parts_of_lines(const PassOptions *o, const Node *dot, int64_t images, double least)
{
    // FEW: an image for so many multiprocessors. STEPS: the most lines that bulk copies skip.
    // WHOLE: terms that are multiplied at a time.
    enum { FEW = 4, STEPS = 8, WHOLE = 64 };
    const int64_t lines = contracted_after_images(dot, 2);
    const DotSizes x = dot_sizes(dot);
    const int rank = MAX_RANK - 1;
    if (o->target->kind != TARGET_CUDA || images * FEW > o->target->units ||
        dot->type.rank + 2 > MAX_RANK || dot->args[0]->type.rank > rank ||
        dot->args[1]->type.rank > rank)
        return 1;
    int64_t best = 1;
    for (int64_t n = 2; n <= STEPS && n <= lines && images * n <= MOST_PARTS; n++) {
        if (lines % n || x.k / (images * n) % WHOLE) continue;
        double seconds = parts_seconds(o->target, &x, images * n);
        if (seconds < least) least = seconds, best = n;
    }
    return best;
}

// Gradients of a convolution's weights have few results, with as many terms as there are pixels.
// The terms are cut into as many parts as are needed to fill the device.
static Parts parts_of(const PassOptions *o, const Node *dot)
{
    const Parts none = {1, 1};
    if (!o || !o->target || dot->op != OP_dot || !fuse_reads_windows(o, dot)) return none;
    const DotAxes a = dot_axes(dot, 0);
    const DotSizes x = dot_sizes(dot);
    if (fuse_few_results(o, dot)) return none;
    int64_t best = 1, extent = a.ncontract ? dot->args[0]->type.dim[a.contract[0]] : 1;
    double least = parts_seconds(o->target, &x, 1);
    // The parts need one more axis, unless each part is one index of the axis that is cut.
    const bool room = dot->args[0]->type.rank < MAX_RANK && dot->args[1]->type.rank < MAX_RANK &&
                      dot->type.rank < MAX_RANK;
    if (!room && (dot->type.rank == MAX_RANK || a.ncontract < 2)) return none;
    for (int64_t parts = room ? 2 : extent; parts <= extent && parts <= MOST_PARTS; parts++) {
        if (extent % parts || x.k / parts < 64) continue;
        if (o->target->kind == TARGET_CPU) {
            if (cpu_parts(&x, parts)) best = parts;
            continue;
        }
        double seconds = parts_seconds(o->target, &x, parts);
        if (seconds < least) least = seconds, best = parts;
    }
    const int64_t planes = o->target->kind == TARGET_CUDA ? contracted_after_images(dot, 3) : 1;
    int64_t each = 1;
    for (int64_t n = 2; n <= planes && extent * n <= MOST_PARTS; n++) {
        if (planes % n || x.k / (extent * n) < 64) continue;
        double seconds = parts_seconds(o->target, &x, extent * n);
        if (seconds < least) least = seconds, each = n;
    }
    if (each > 1) return (Parts){extent, each};
    const int64_t lines = parts_of_lines(o, dot, extent, least);
    return lines > 1 ? (Parts){extent, lines} : (Parts){best, 1};
}

// Bulk copies of windows copy 64 channels of a pixel at a time. If the result has a number of
// channels that is no multiple of 64, as gradients of weights may, it is computed for the next
// multiple; the additional channels are zeros, which are copied from outside of the tensor.
// (Contracted channels are extended in codegen/lower/lower_body.c.)
static int64_t computed_channels(const PassOptions *o, const Node *dot, int64_t parts)
{
    const Type *t = &dot->args[1]->type;
    const DotAxes a = dot_axes(dot, 1);
    const DotSizes x = dot_sizes(dot);
    const int64_t channels = t->dim[t->rank - 1];
    if ((t->dtype != DT_BF16 && t->dtype != DT_F16) || dot->args[1]->op != OP_window || !a.nfree ||
        a.free[a.nfree - 1] != t->rank - 1 || x.m % TARGET_UNIT)
        return channels;
    return target_copied_channels(o->target, channels, parts * x.batch * x.m * x.n, false);
}

static Node *dot_by_parts(Graph *g, const Node *dot, Node *const *operands, Parts p,
                          int64_t channels)
{
    const int64_t parts = p.first;
    const bool planes = p.second > 1 && contracted_after_images(dot, 3) > 1,
               lines = p.second > 1 && !planes;
    Node *args[2];
    const Type *right = &operands[1]->type;
    int64_t batch[2][MAX_RANK], contract[2][MAX_RANK];
    int nb = 0, nc = 0;
    for (int side = 0; side < 2; side++) {
        const DotAxes d = dot_axes(dot, side);
        const Type *t = &operands[side]->type;
        const int64_t cut = d.contract[0];
        const bool whole = t->dim[cut] == parts && d.ncontract > 1; // then the axis itself is the
                                                                    // axis of the parts
        int64_t dim[MAX_RANK];
        int rank = 0;
        // The first axis is cut, or is that of the parts. In the latter case the second one may be
        // cut so that a part has every n-th line (bulk copies skip lines, but do not begin at any),
        // or some neighbouring planes, for which no further axis is needed.
        const int64_t split = lines ? d.contract[1] : whole ? MAX_RANK : cut;
        for (int i = 0; i < t->rank; i++) {
            const int64_t pieces = lines ? t->dim[i] / p.second : parts;
            if (i == split) dim[rank++] = pieces;
            dim[rank++] = i == split ? t->dim[i] / pieces : t->dim[i];
        }
        if (planes) {
            dim[cut] *= p.second;
            dim[cut + 1] /= p.second;
        }
        args[side] = graph_reshape(g, operands[side], rank, dim);
        nb = nc = 0;
        batch[side][nb++] = cut + (cut > split);
        if (lines) batch[side][nb++] = split + 1;
        for (int i = 0; i < d.nbatch; i++) batch[side][nb++] = d.batch[i] + (d.batch[i] > split);
        for (int i = whole; i < d.ncontract; i++)
            contract[side][nc++] =
                d.contract[i] + (d.contract[i] > split || (!lines && d.contract[i] == split));
    }
    args[1] = graph_resized(g, args[1], args[1]->type.rank - 1, channels);
    Node *y = graph_dot(g, args[0], args[1], batch[0], batch[1], nb, contract[0], contract[1], nc,
                        DT_F32);
    const int64_t summed[] = {0, 1};
    if (args[1]->type.dim[args[1]->type.rank - 1] > right->dim[right->rank - 1])
        y = graph_resized(g, y, y->type.rank - 1, right->dim[right->rank - 1]);
    return graph_cast(g, graph_reduce(g, OP_sum, y, summed, lines ? 2 : 1, false), dot->type.dtype);
}

static bool is_row_data(const Node *n, bool rows)
{
    return rows && node_is_data(n);
}

typedef struct Legalize {
    bool rows;
    const Graph *outermost;
    const PassOptions *options;
    IdMap calls; // regions of calls: no library computes their products
} Legalize;

static bool is_illegal(const Legalize *l, const Node *n, bool rows)
{
    if (fuse_generated(l->options, n)) { // a generated kernel can read any expression
        const Parts parts = parts_of(l->options, n);
        return parts.first * parts.second > 1;
    }
    for (uint32_t k = 0; k < n->nargs && node_has(n, OPF_ADDRESSES); k++)
        if (is_row_data(n->args[k], rows)) return true;
    return n->op == OP_dot && (fuse_dot_needs_order(n, 0) || fuse_dot_needs_order(n, 1));
}

// Inputs read through the row table have no address: they are copied before a matmul or a loop. An
// operand of a matmul with axes that no library can read is copied in another order.
static Graph *legalize_graph(void *ctx, const IdMap *done, Graph *g)
{
    const Legalize *l = ctx;
    bool rows = l->rows && g == l->outermost, needed = false;
    if (idmap_get(&l->calls, (uint64_t)(uintptr_t)g, NULL)) return g;
    for (uint32_t i = 0; i < g->nodes.n && !needed; i++) {
        needed = is_illegal(l, g->nodes.at[i], rows);
        for (uint32_t k = 0; k < g->nodes.at[i]->nregions; k++)
            needed |= rebuilt(done, g->nodes.at[i]->regions[k]) != g->nodes.at[i]->regions[k];
    }
    if (!needed) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i], *y;
        if (!n->nregions && !is_illegal(l, n, rows)) {
            remap_node(&r, n);
            continue;
        }
        Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
        Graph **regions = NEW_ARRAY(g->arena, Graph *, n->nregions + 1);
        for (uint32_t k = 0; k < n->nregions; k++) regions[k] = rebuilt(done, n->regions[k]);
        for (uint32_t k = 0; k < n->nargs; k++) {
            args[k] = r.map[n->args[k]->id];
            if (!node_has(n, OPF_ADDRESSES) || !is_row_data(n->args[k], rows)) continue;
            dst->loc = n->args[k]->loc;
            dst->role = n->role;
            dst->name = NULL;
            args[k] = graph_unary(dst, OP_stop_gradient, args[k]);
            if (!args[k]->name) args[k]->name = attr_str(n->args[k], ATTR_name);
        }
        graph_stamp(dst, n, NULL);
        const Parts parts = parts_of(l->options, n);
        const int64_t count = parts.first * parts.second;
        if (n->op == OP_dot)
            y = count > 1
                    ? dot_by_parts(dst, n, args, parts, computed_channels(l->options, n, count))
                    : legal_dot(dst, n, args);
        else
            y = graph_region_node(dst, n->op, args, (int)n->nargs, n->attrs, regions,
                                  (int)n->nregions);
        node_pass_name(n, y);
        r.map[n->id] = y;
    }
    return remap_end(&r);
}

Graph *fuse_legalize(Graph *g, bool rows, const PassOptions *o)
{
    Legalize l = {.rows = rows, .outermost = g, .options = o, .calls = idmap_new(g->arena)};
    RegionList all = regions_innermost_first(g);
    for (uint32_t i = 0; i < all.at.n; i++)
        if (all.at.at[i].owner && runs_as_kernel(all.at.at[i].owner))
            idmap_set(&l.calls, (uint64_t)(uintptr_t)all.at.at[i].g, 1);
    return over_regions(g, legalize_graph, &l);
}
