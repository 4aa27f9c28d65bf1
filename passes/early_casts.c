// Values that are only copied, or of which only extremes are taken, before they are rounded to 16
// bits are rounded first:
//
//     cast(max(x))         becomes   max(cast(x))
//     cast(concat(x, y))   becomes   concat(cast(x), cast(y))
//
// The kernel that computes x then stores half the bytes: an image that one convolution reads pooled
// and another one, further up a U-Net, joined with others. It applies where every reader of x is
// such a value or rounds x itself, as in inference; the gradient of a maximum reads x unrounded.
//
// Requires: precision chosen. Keeps: every value, except that the sign of a zero may differ
// (rounding is monotonic, so the extreme of rounded values is the rounded extreme). Breaks:
// nothing.
#include "ir/scalar.h"
#include "passes/passes.h"
#include "passes/regions.h"

// How a value is read: not at all, in several ways, or otherwise only rounded to this type.
enum { NOBODY = -1, SEVERAL = -2, MOST_PARTS = 32 };

typedef struct Early {
    int *how;    // by id
    bool *early; // by id: copies or extremes that are computed of rounded values
    bool *live;  // by id
} Early;

static bool rounds(const Node *n)
{
    if (n->op != OP_cast) return false;
    DType to = n->type.dtype, from = n->args[0]->type.dtype;
    return dtype_is_float(to) && dtype_is_float(from) &&
           dtype_info[to].bits < dtype_info[from].bits;
}

// Its elements are elements of its operands.
static bool selects(const Node *n)
{
    bool extreme = n->op == OP_max || n->op == OP_min;
    return (extreme || node_class(n) == CLS_VIEW) && dtype_is_float(n->type.dtype) &&
           n->nargs <= MOST_PARTS;
}

// A cast in front of it and one behind it are different kernels: the cast of an operand is below
// other views already (precision).
static bool separates(const Node *n)
{
    return selects(n) && (node_class(n) != CLS_VIEW || n->op == OP_concat);
}

static void read_as(int *how, int as)
{
    if (as != NOBODY) *how = *how == NOBODY || *how == as ? as : SEVERAL;
}

// Whether x can be stored rounded at no cost: it is computed and all its readers round it, it is a
// uniform value, or it is a rounded value.
static bool can_be_rounded(const Early *e, const Node *x, int to)
{
    double v;
    if (node_const_value(x, &v)) return true;
    if (x->op == OP_cast && x->args[0]->type.dtype == (DType)to) return true;
    if (selects(x)) return e->early[x->id];
    return e->how[x->id] == to && node_class(x) != CLS_LEAF;
}

// A value is rounded early only if all of its operands can be, and if all copies and extremes that
// read it are. Takes away what is not so; returns whether there was any.
static bool drop_mixed(Early *e, const Graph *g)
{
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        bool was = e->early[i];
        for (uint32_t k = 0; k < x->nargs && e->early[i]; k++)
            e->early[i] = can_be_rounded(e, x->args[k], e->how[i]);
        any |= was != e->early[i];
    }
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs && e->live[i] && selects(x) && !e->early[i]; k++) {
            any |= e->early[x->args[k]->id];
            e->early[x->args[k]->id] = false;
        }
    }
    return any;
}

// Of the early values that read each other, at least one has to separate.
static void keep_separate(Early *e, const Graph *g)
{
    bool *apart = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), changed = true;
    for (uint32_t i = 0; i < g->nodes.n; i++) apart[i] = e->early[i] && separates(g->nodes.at[i]);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            const Node *x = g->nodes.at[i];
            for (uint32_t k = 0; k < x->nargs && e->early[i]; k++) {
                uint32_t a = x->args[k]->id;
                if (!e->early[a] || apart[a] == apart[i]) continue;
                apart[a] = apart[i] = changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) e->early[i] &= apart[i];
}

static Early look(const Graph *g)
{
    const uint32_t n = g->nodes.n + 1;
    Early e = {NEW_ARRAY(g->arena, int, n), NEW_ARRAY(g->arena, bool, n),
               NEW_ARRAY(g->arena, bool, n)};
    graph_mark_live(g, e.live);
    for (uint32_t i = 0; i < n; i++) e.how[i] = NOBODY;
    for (uint32_t i = 0; i < g->results.n; i++) e.how[g->results.at[i]->id] = SEVERAL;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        int as = rounds(x) ? (int)x->type.dtype : selects(x) ? e.how[i] : SEVERAL;
        for (uint32_t k = 0; e.live[i] && k < x->nargs; k++) read_as(&e.how[x->args[k]->id], as);
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        e.early[i] = e.live[i] && selects(x) && e.how[i] >= 0;
    }
    while (drop_mixed(&e, g)) continue;
    keep_separate(&e, g);
    return e;
}

// Of an operand: its image rounded to the type.
static Node *rounded(const Early *e, Graph *g, const Node *x, DType to, Node *const *map)
{
    double v;
    if (selects(x) && e->early[x->id]) return map[x->id];
    if (x->op == OP_cast && x->args[0]->type.dtype == to) return map[x->args[0]->id];
    graph_stamp(g, x, x->name);
    if (!node_const_value(x, &v)) return graph_cast(g, map[x->id], to);
    Node like = *x; // (not a cast of a uniform value)
    like.type.dtype = to;
    return graph_full_like(g, &like, v);
}

// What replaces n; NULL: nothing.
static Node *cast_first(const Early *e, Graph *g, const Node *n, Node *const *map)
{
    if (rounds(n) && e->early[n->args[0]->id]) return map[n->args[0]->id];
    if (!e->early[n->id]) return NULL;
    Node *args[MOST_PARTS];
    for (uint32_t k = 0; k < n->nargs; k++)
        args[k] = rounded(e, g, n->args[k], (DType)e->how[n->id], map);
    graph_stamp(g, n, NULL);
    return graph_node(g, n->op, args, (int)n->nargs, n->attrs);
}

static Graph *early_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    Early e = look(g);
    bool any = any_rebuilt(done, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) any |= e.early[i];
    if (!any) return g;
    Remap r = remap_begin(g, graph_beside(g));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i], *new = cast_first(&e, r.dst, n, r.map);
        if (new) {
            r.map[i] = new;
            node_pass_name(n, new);
        } else if (e.live[i] || !n->nargs) { // (a dead reader may need the old type)
            remap_with_regions(&r, done, n, &any);
        }
    }
    return graph_drop_dead(remap_end(&r));
}

// On the CPU products of 16-bit floats are those of f32 (widen), so what they read is not rounded
// first.
Graph *pass_early_casts(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    bool low = o->precision == PREC_BF16 || o->precision == PREC_F16;
    bool stored = low && o->target && o->target->kind == TARGET_CUDA;
    return stored ? over_regions(g, early_graph, NULL) : g;
}
