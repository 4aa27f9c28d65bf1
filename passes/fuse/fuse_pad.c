// Dots on tensor cores (16-bit floats, and f32 as tf32) with rows that are no multiple of 16 bytes:
// the library has slow algorithms for them or none. Where aligned sizes gain more than copying the
// operands costs, the dot reads PADDED operands, whose axes are multiples of 16 bytes, and its
// readers read a slice of the result.
//
// Padding is tracked: every element beyond the original extent has one value, the FILL, which
// follows from the operation, so that elementwise results stay padded, and with them the operand of
// the next dot. Epilogues fold as usual and nothing is copied. A contracted axis is padded on both
// operands, with zeros on one and a finite fill on the other, which adds nothing.
#include <math.h>

#include "ir/axes.h"
#include "ir/scalar.h"
#include "passes/fuse/fuse.h"

// Bytes. Along an axis of at least LONG, a few more cost nothing, so rows are padded to whole cache
// lines.
enum { PIECE = 16, LINE = 128, LONG = 32 * LINE };
enum { MOST_ARGS = 4 };

typedef struct Form { // what a node is padded to
    Node *node;       // NULL: the node is not padded
    double fill;      // value of the additional elements; NAN: unknown or not finite
} Form;

typedef struct Pad {
    Graph *dst;
    Remap map;  // to new values with the original shape
    Form *form; // by old id
    int *dots;  // by old id: number of products that read the stored operand
    const PassOptions *options;
    const Target *target;
} Pad;

static bool is_narrow(const Node *n)
{
    return n->type.dtype == DT_BF16 || n->type.dtype == DT_F16;
}

// Whether the library computes the dot on tensor cores, which read PIECEs.
static bool reads_pieces(const PassOptions *o, const Node *dot)
{
    return dot->op == OP_dot && pass_on_tensor_cores(o, dot->args[0]->type.dtype) &&
           !fuse_generated(o, dot);
}

// The elements in so many bytes of the dot's operands.
static int64_t elements(const Node *dot, int bytes)
{
    return bytes * 8 / dtype_info[dot->args[0]->type.dtype].bits;
}

static int64_t round_up(const Node *dot, int64_t n)
{
    int64_t unit = elements(dot, n < elements(dot, LONG) ? PIECE : LINE);
    return (n + unit - 1) / unit * unit;
}

// -- which sides of a product ---------------------------------------------------------------------

typedef struct Sides { // of a contraction with one contracted axis and at most one free axis, the
                       // last one, per operand
    int64_t want[2][MAX_RANK]; // padded sizes of the operands
    bool inner_odd, outer_odd; // see target_library_seconds
} Sides;

// Whether the axis has stride 1 in memory.
static bool is_inner(const Node *n, int64_t axis)
{
    int count;
    for (; n->op == OP_permute; n = n->args[0]) axis = attr_ints(n, ATTR_perm, &count)[axis];
    return axis == n->type.rank - 1;
}

static Sides sides_of(const Node *dot)
{
    const int64_t unit = elements(dot, PIECE);
    Sides s = {.inner_odd = false};
    DotAxes axes[2];
    int last[2] = {-1, -1}; // free axes
    for (int side = 0; side < 2; side++) {
        const Type *t = &dot->args[side]->type;
        axes[side] = dot_axes(dot, side);
        for (int i = 0; i < t->rank; i++) s.want[side][i] = t->dim[i];
        for (int k = 0; k < axes[side].nfree; k++) {
            int64_t i = axes[side].free[k];
            last[side] = (int)i;
            if (t->dim[i] % unit == 0 || !is_inner(dot->args[side], i)) continue;
            s.want[side][i] = round_up(dot, t->dim[i]);
            s.outer_odd = true;
        }
    }
    for (int k = 0; k < axes[0].ncontract; k++) {
        int64_t a = axes[0].contract[k], b = axes[1].contract[k];
        int64_t extent = dot->args[0]->type.dim[a];
        if (extent % unit == 0 || (!is_inner(dot->args[0], a) && !is_inner(dot->args[1], b)))
            continue;
        s.want[0][a] = s.want[1][b] = round_up(dot, extent);
        s.inner_odd = true;
    }
    int side = last[1] >= 0 ? 1 : 0; // which operand has the last axis of the result
    if (last[side] >= 0 && dot->args[side]->type.dim[last[side]] % unit) {
        s.want[side][last[side]] = round_up(dot, dot->args[side]->type.dim[last[side]]);
        s.inner_odd = true;
    }
    return s;
}

static bool has_extents(const Type *t, const int64_t *want)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != want[i]) return false;
    return true;
}

static const Form *form_of(const Pad *p, const Node *n)
{
    return p->form[n->id].node ? &p->form[n->id] : NULL;
}

static double moving(const Target *t, const Type *type)
{
    return target_move_seconds(t, (double)type_bytes(type));
}

// Whether aligned sizes gain more time than it takes to copy the operands that are not padded yet.
static bool pays(const Pad *p, const Node *dot, const Sides *s)
{
    const Target *t = p->target;
    double flops = 2 * (double)type_count(&dot->type) * (double)reduced_count(dot), moved = 0;
    for (int side = 0; side < 2; side++) {
        const Node *x = dot->args[side];
        const Form *f = form_of(p, x);
        if (!has_extents(f ? &f->node->type : &x->type, s->want[side]))
            moved += moving(t, &x->type);
    }
    if (dot->type.rank && dot->type.dim[dot->type.rank - 1] % elements(dot, PIECE))
        moved += moving(t, &dot->type);
    bool half = is_narrow(dot->args[0]);
    return target_library_seconds(t, half, flops, s->inner_odd, s->outer_odd) >
           target_library_seconds(t, half, flops, false, false) + moved;
}

// -- products that need no padding ----------------------------------------------------------------

// Products by groups of four warps can read, in place, a left operand whose rows are not aligned,
// if the right operand's axis k has a stride (codegen/tile/wgmma_maps.c); for that, the right
// operand is stored transposed. This is for operands that would have to be copied: computed values
// can be stored padded.
static const Node *stored_of(const Node *n)
{
    while (n->op == OP_permute) n = n->args[0];
    return n;
}

static bool stays_uneven(const Pad *p, const Node *dot)
{
    const Target *t = p->target;
    const Node *a = dot->args[0], *b = dot->args[1];
    DotAxes l = dot_axes(dot, 0), r = dot_axes(dot, 1);
    if (!t->group_products || !is_narrow(a) || l.nfree != 1 || l.ncontract != 1 || r.nfree != 1 ||
        a->type.rank != 2)
        return false;
    int64_t rows = a->type.dim[l.free[0]], k = a->type.dim[l.contract[0]],
            cols = b->type.dim[r.free[0]];
    double flops = 2 * (double)rows * (double)cols * (double)k;
    double turned = is_inner(b, r.free[0]) ? 0 : moving(t, &b->type);
    bool fills = (double)rows * (double)cols >= 128.0 * 128 * 2 * t->units;
    int64_t unit = elements(dot, PIECE);
    return k % unit && k >= elements(dot, LONG) && cols % unit == 0 && is_inner(a, l.contract[0]) &&
           fills && node_in_memory(stored_of(a)) && !form_of(p, b) &&
           p->dots[stored_of(a)->id] == 1 &&
           moving(t, &a->type) > turned + target_uneven_seconds(t, flops);
}

static Node *uneven_dot(Pad *p, const Node *n)
{
    static const int64_t turn[] = {1, 0};
    Node *args[2] = {p->map.map[n->args[0]->id], p->map.map[n->args[1]->id]};
    graph_stamp(p->dst, n, NULL);
    if (!is_inner(n->args[1], dot_axes(n, 1).free[0])) {
        Node *stored = graph_unary(p->dst, OP_stop_gradient, graph_permute(p->dst, args[1], turn));
        const Node *of = stored_of(n->args[1]);
        const char *name = of->name ? of->name : attr_str(of, ATTR_name);
        if (!stored->name && name) stored->name = arena_printf(p->dst->arena, "%s_turned", name);
        args[1] = graph_permute(p->dst, stored, turn);
    }
    p->dst->name = n->name;
    return graph_node(p->dst, OP_dot, args, 2, n->attrs);
}

static int *count_dots(const Graph *g)
{
    int *dots = NEW_ARRAY(g->arena, int, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (int side = 0; side < 2 && g->nodes.at[i]->op == OP_dot; side++)
            dots[stored_of(g->nodes.at[i]->args[side])->id]++;
    return dots;
}

// -- padded values --------------------------------------------------------------------------------

// Cuts a padded node to the original shape.
static Node *cut(Graph *g, Node *n, const Type *shape)
{
    int64_t start[MAX_RANK] = {0}, stride[MAX_RANK];
    for (int i = 0; i < shape->rank; i++) stride[i] = 1;
    return graph_slice(g, n, start, shape->dim, stride);
}

static Node *with_zeros(Graph *g, Node *n, const int64_t *want)
{
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK];
    Attrs at = {0};
    for (int i = 0; i < n->type.rank; i++) high[i] = want[i] - n->type.dim[i];
    attr_set_ints(g, &at, ATTR_low, low, n->type.rank);
    attr_set_ints(g, &at, ATTR_high, high, n->type.rank);
    const char *name = n->name ? n->name : attr_str(n, ATTR_name);
    Node *args[2] = {n, graph_const(g, n->type.dtype, 0)}, *y = graph_node(g, OP_pad, args, 2, &at);
    if (!y->name && name && y != n) y->name = arena_printf(g->arena, "%s_padded", name);
    return y;
}

// n with the wanted sizes: unchanged, as padded before, or a padded copy. For a permute, the
// operand is padded, and the result is still a permute.
static Form padded(Pad *p, const Node *n, const int64_t *want, bool zeros)
{
    const Form *f = form_of(p, n);
    if (f && has_extents(&f->node->type, want) && (zeros ? f->fill == 0 : !isnan(f->fill)))
        return *f;
    if (has_extents(&n->type, want)) return (Form){p->map.map[n->id], 0};
    if (n->op != OP_permute) return (Form){with_zeros(p->dst, p->map.map[n->id], want), 0};
    int rank;
    const int64_t *perm = attr_ints(n, ATTR_perm, &rank);
    int64_t inside[MAX_RANK];
    for (int i = 0; i < rank; i++) inside[perm[i]] = want[i];
    Form x = padded(p, n->args[0], inside, zeros);
    return (Form){graph_permute(p->dst, x.node, perm), x.fill};
}

static void pad_dot(Pad *p, const Node *n, const Sides *s)
{
    graph_stamp(p->dst, n, NULL);
    Form a = padded(p, n->args[0], s->want[0], false),
         b = padded(p, n->args[1], s->want[1], a.fill != 0);
    Node *args[2] = {a.node, b.node};
    p->dst->name = n->name;
    Node *y = graph_node(p->dst, OP_dot, args, 2, n->attrs);
    bool zero = a.fill == 0 && b.fill == 0; // if both are zero, the additional results are zeros
    p->form[n->id] = (Form){y, zero ? 0 : NAN};
}

// An operand of an elementwise node, with the sizes of [like]. NULL: it would have to be copied.
static Node *beside(Pad *p, const Node *n, const Type *like, double *fill)
{
    const Form *f = form_of(p, n);
    double v;
    if (f && shape_equal(&f->node->type, like)) return *fill = f->fill, f->node;
    if (node_const_value(n, &v)) {
        *fill = v;
        return graph_broadcast_to(p->dst, graph_const(p->dst, n->type.dtype, v), like);
    }
    if (n->op != OP_broadcast) return NULL;
    // A vector along a padded axis is padded with zeros; along other axes it is broadcast as
    // before.
    const Node *b = n->args[0];
    int count, covered = 0, grown = 0;
    const int64_t *dims = attr_ints(n, ATTR_dims, &count);
    int64_t want[MAX_RANK];
    for (int i = 0; i < b->type.rank; i++) {
        bool spread = b->type.dim[i] != n->type.dim[dims[i]];
        want[i] = spread ? b->type.dim[i] : like->dim[dims[i]];
        covered += !spread && like->dim[dims[i]] != n->type.dim[dims[i]];
    }
    for (int i = 0; i < like->rank; i++) grown += like->dim[i] != n->type.dim[i];
    Node *x = p->map.map[b->id];
    if (covered) x = with_zeros(p->dst, x, want);
    Attrs at = attrs_copy(n->attrs);
    attr_set_ints(p->dst, &at, ATTR_shape, like->dim, like->rank);
    *fill = covered == grown && grown == 1 ? 0 : NAN;
    return graph_node(p->dst, OP_broadcast, &x, 1, &at);
}

static double fill_after(const Node *n, const double *fill)
{
    Scalar a[MOST_ARGS] = {{0}};
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (isnan(fill[k])) return NAN;
        if (dtype_is_float(n->args[k]->type.dtype))
            a[k].f = fill[k];
        else
            a[k].i = (int64_t)fill[k];
    }
    DType operand = n->args[n->nargs - 1]->type.dtype, t = n->type.dtype;
    Scalar y = op_info(n->op)->flags & OPF_CONVERTS
                   ? scalar_cast(operand, t, a[0], true)
                   : scalar_apply(n->op, operand, t, a[0], a[1], a[2], true);
    double v = dtype_is_float(t) ? y.f : (double)y.i;
    return isfinite(v) ? v : NAN;
}

// Pads elementwise results and views of padded values, if nothing has to be copied for it.
static void follow(Pad *p, const Node *n)
{
    Node *args[MOST_ARGS];
    double fill[MOST_ARGS];
    const Form *f = NULL;
    for (uint32_t k = 0; k < n->nargs && !f; k++) f = form_of(p, n->args[k]);
    if (!f || n->nargs > MOST_ARGS || n->nargs == 0) return;
    graph_stamp(p->dst, n, NULL);
    if (node_class(n) == CLS_ELEMENTWISE) {
        const Type like = f->node->type;
        for (uint32_t k = 0; k < n->nargs; k++)
            if (!(args[k] = beside(p, n->args[k], &like, &fill[k]))) return;
        p->dst->name = n->name;
        Node *y = graph_node(p->dst, n->op, args, (int)n->nargs, n->attrs);
        p->form[n->id] = (Form){y, fill_after(n, fill)};
    } else if (n->op == OP_permute) {
        int rank;
        const int64_t *perm = attr_ints(n, ATTR_perm, &rank);
        p->form[n->id] = (Form){graph_permute(p->dst, f->node, perm), f->fill};
    } else if (n->op == OP_reshape && n->type.rank && n->args[0]->type.rank) {
        const Type *from = &n->args[0]->type, *grown = &f->node->type;
        int last = from->rank - 1;
        int64_t dim[MAX_RANK];
        for (int i = 0; i < last; i++)
            if (grown->dim[i] != from->dim[i]) return;
        if (from->dim[last] != n->type.dim[n->type.rank - 1]) return;
        for (int i = 0; i < n->type.rank; i++) dim[i] = n->type.dim[i];
        dim[n->type.rank - 1] = grown->dim[last];
        p->form[n->id] = (Form){graph_reshape(p->dst, f->node, n->type.rank, dim), f->fill};
    }
}

// Whether there is a product with unaligned sizes: nothing else needs padding.
static bool any_uneven(const Pad *p, const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!reads_pieces(p->options, n)) continue;
        if (stays_uneven(p, n)) return true;
        Sides s = sides_of(n);
        if ((s.inner_odd || s.outer_odd) && pays(p, n, &s)) return true;
    }
    return false;
}

Graph *fuse_pad(Graph *g, const PassOptions *o)
{
    const Target *t = o ? o->target : NULL;
    if (!t || t->kind != TARGET_CUDA || !t->matmul_library) return g;
    Pad p = {.options = o, .target = t, .dots = count_dots(g)};
    p.form = NEW_ARRAY(g->arena, Form, g->nodes.n + 1);
    if (!any_uneven(&p, g)) return g;
    p.dst = graph_beside(g);
    p.map = remap_begin(g, p.dst);
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (reads_pieces(o, n)) {
            if (stays_uneven(&p, n)) {
                p.map.map[i] = uneven_dot(&p, n);
                any = true;
                continue;
            }
            Sides s = sides_of(n);
            if ((s.inner_odd || s.outer_odd) && pays(&p, n, &s)) pad_dot(&p, n, &s);
        } else {
            follow(&p, n);
        }
        any |= p.form[i].node != NULL;
        if (p.form[i].node)
            p.map.map[i] = cut(p.dst, p.form[i].node, &n->type);
        else
            remap_node(&p.map, n);
    }
    if (!any) return g;
    return graph_drop_dead(remap_end(&p.map));
}
