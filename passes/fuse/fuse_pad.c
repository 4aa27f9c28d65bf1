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
#include "passes/fuse/fuse_pad.h"

// Bytes. Along an axis of at least LONG, a few more cost nothing, so rows are padded to whole cache
// lines.
enum { PIECE = 16, LINE = 128, LONG = 32 * LINE };

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

typedef struct Sides { // of a contraction; of several axes that the library sees as one, the inner
                       // one is padded
    int64_t want[2][MAX_RANK]; // padded sizes of the operands
    bool inner_odd, outer_odd; // see target_library_seconds
} Sides;

// Whether the axis has stride 1 in memory.
static bool is_inner(const Node *n, int64_t axis)
{
    return axis_in_memory(n, axis) == n->type.rank - 1;
}

// Of these axes, the one with stride 1 in memory, if the elements that follow each other along them
// are no multiple of [unit] (several axes may be one for the library). Otherwise -1.
static int odd_axis(const Node *n, const int64_t *axes, int naxes, int64_t unit)
{
    int inner = -1;
    int64_t run = 1;
    bool mine[MAX_RANK] = {false};
    for (int k = 0; k < naxes; k++) {
        if (is_inner(n, axes[k])) inner = k;
        mine[axis_in_memory(n, axes[k])] = true;
    }
    while (n->op == OP_permute) n = n->args[0];
    for (int i = n->type.rank - 1; i >= 0 && mine[i]; i--) run *= n->type.dim[i];
    return run % unit ? inner : -1;
}

static Sides sides_of(const Node *dot)
{
    const int64_t unit = elements(dot, PIECE);
    Sides s = {.inner_odd = false};
    DotAxes axes[2];
    for (int side = 0; side < 2; side++) {
        const Type *t = &dot->args[side]->type;
        axes[side] = dot_axes(dot, side);
        for (int i = 0; i < t->rank; i++) s.want[side][i] = t->dim[i];
    }
    for (int side = 0; side < 2; side++) {
        const DotAxes *d = &axes[side];
        int free = odd_axis(dot->args[side], d->free, d->nfree, unit),
            inner = odd_axis(dot->args[side], d->contract, d->ncontract, unit);
        if (free >= 0) {
            int64_t *want = &s.want[side][d->free[free]];
            *want = round_up(dot, *want);
            s.outer_odd = true;
        }
        if (inner >= 0) {
            int64_t a = axes[0].contract[inner], b = axes[1].contract[inner];
            s.want[0][a] = s.want[1][b] = round_up(dot, s.want[0][a]);
            s.inner_odd = true;
        }
    }
    const int side = axes[1].nfree ? 1 : 0; // which operand has the last axis of the result
    const DotAxes *d = &axes[side];
    int64_t columns = 1;
    for (int k = 0; k < d->nfree; k++) columns *= dot->args[side]->type.dim[d->free[k]];
    if (d->nfree && columns % unit) {
        int64_t last = d->free[d->nfree - 1];
        s.want[side][last] = round_up(dot, dot->args[side]->type.dim[last]);
        s.inner_odd = true;
    }
    return s;
}

// Of a copy of n; of what is the same for a batch, once.
static double copying(const Target *t, const Node *n)
{
    while (n->op == OP_permute || n->op == OP_broadcast) n = n->args[0];
    return target_move_seconds(t, (double)type_bytes(&n->type));
}

static double moving(const Target *t, const Type *type)
{
    return target_move_seconds(t, (double)type_bytes(type));
}

// Whether aligned sizes gain more time than it takes to copy the operands that are not padded yet.
static bool pays(const Pad *p, const Node *dot, const Sides *s)
{
    const Target *t = p->target;
    const DotAxes axes[2] = {dot_axes(dot, 0), dot_axes(dot, 1)};
    double flops = 2 * (double)type_count(&dot->type) * (double)reduced_count(dot), more = flops,
           moved = 0;
    for (int side = 0; side < 2; side++) {
        const Node *x = dot->args[side];
        const DotAxes *d = &axes[side];
        Node *form = p->form[x->id].node;
        if (!pad_has_extents(form ? &form->type : &x->type, s->want[side])) moved += copying(t, x);
        for (int k = 0; k < d->nfree; k++)
            more *= (double)s->want[side][d->free[k]] / (double)x->type.dim[d->free[k]];
        for (int k = 0; k < d->ncontract && side == 0; k++)
            more *= (double)s->want[side][d->contract[k]] / (double)x->type.dim[d->contract[k]];
    }
    if (dot->type.rank && dot->type.dim[dot->type.rank - 1] % elements(dot, PIECE))
        moved += moving(t, &dot->type);
    bool half = is_narrow(dot->args[0]);
    return target_library_seconds(t, half, flops, s->inner_odd, s->outer_odd) >
           target_library_seconds(t, half, more, false, false) + moved;
}

// -- products that need no padding ----------------------------------------------------------------

static const Node *stored_of(const Node *n)
{
    while (n->op == OP_permute) n = n->args[0];
    return n;
}

// Products by groups of four warps can read, in place, a left operand whose rows are not aligned,
// if the right operand's axis k has a stride (codegen/tile/wgmma_maps.c); for that, the right
// operand is stored transposed. This is for operands that would have to be copied: computed values
// can be stored padded.
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
           fills && node_in_memory(stored_of(a)) && !p->form[b->id].node &&
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

static void find_operands(Pad *p, const Graph *g)
{
    p->dots = NEW_ARRAY(g->arena, int, g->nodes.n + 1);
    p->multiplied = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        bool dot = n->op == OP_dot, view = p->multiplied[i] && node_has(n, OPF_PERMUTES);
        for (uint32_t k = 0; k < n->nargs && (dot || view); k++)
            p->multiplied[n->args[k]->id] = true;
        for (int side = 0; side < 2 && dot; side++) p->dots[stored_of(n->args[side])->id]++;
    }
}

static void pad_dot(Pad *p, const Node *n, const Sides *s)
{
    graph_stamp(p->dst, n, NULL);
    Form a = pad_operand(p, n->args[0], s->want[0], false),
         b = pad_operand(p, n->args[1], s->want[1], a.fill != 0);
    Node *args[2] = {a.node, b.node};
    p->dst->name = n->name;
    Node *y = graph_node(p->dst, OP_dot, args, 2, n->attrs);
    bool zero = a.fill == 0 && b.fill == 0; // if both are zero, the additional results are zeros
    p->form[n->id] = (Form){y, zero ? 0 : NAN, true};
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

// NULL: nothing is padded.
static Graph *padded(Pad *p, Graph *g)
{
    bool any = false;
    p->form = NEW_ARRAY(g->arena, Form, g->nodes.n + 1);
    p->dst = graph_beside(g);
    p->map = remap_begin(g, p->dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (reads_pieces(p->options, n)) {
            if (stays_uneven(p, n)) {
                p->map.map[i] = uneven_dot(p, n);
                any = true;
                continue;
            }
            Sides s = sides_of(n);
            if ((s.inner_odd || s.outer_odd) && pays(p, n, &s)) pad_dot(p, n, &s);
        }
        pad_follow(p, n);
        any |= p->form[i].node != NULL;
    }
    return any ? remap_end(&p->map) : NULL;
}

Graph *fuse_pad(Graph *g, const PassOptions *o)
{
    const Target *t = o ? o->target : NULL;
    if (!t || t->kind != TARGET_CUDA || !t->matmul_library) return g;
    Pad p = {.options = o, .target = t};
    find_operands(&p, g);
    p.form = NEW_ARRAY(g->arena, Form, g->nodes.n + 1);
    if (!any_uneven(&p, g)) return g;
    p.follows = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    p.stays = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    Graph *y = padded(&p, g);
    if (y && pad_stays(&p, g)) y = padded(&p, g);
    return y ? graph_drop_dead(y) : g;
}
