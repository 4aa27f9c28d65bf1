// Images that a convolution pads or takes windows of are stored in the order in which it reads
// them. A pooling gradient is computed window by window and brought into image order by reshapes
// and permutes: stored before these, every element that the convolution reads would cost a dozen
// integer divisions. So the views move in front of the elementwise code:
//
//     pad(view(f(a, b)))   becomes   pad(f(view(a), view(b)))
//
// So do reshapes alone if they merge the groups of channels that the value is computed in: bulk
// copies read images of at most four axes.
//
// Where no elementwise code is there to be moved behind the views, or others read the image, too,
// or the code ends a convolution (which includes it, and stores what it rounds), a copy of the
// image is stored, if strides cannot express the views: shuffled pixels, and the gradient of these.
//
// Requires: gradients expanded, precision chosen (roundings decide what is stored). Keeps: every
// value to the bit. Breaks: nothing.
#include "ir/graph.h"
#include "ir/strides.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum { MOST_VIEWS = 16, MOST_ARGS = 4, MOST_DEPTH = 64, IMAGE_AXES = 4 };

typedef struct Layout {
    const Graph *g;
    uint32_t *uses; // by id: number of live readers
    bool *image;    // by id: read only by dots, through views one of which is a pad or a window
    bool *product;  // by id: read, through views, by a dot of which an operand is windows
    bool *last;     // by id: read by something else than a view that reorders
} Layout;

static bool reorders(const Node *n)
{
    return node_has(n, OPF_PERMUTES) && node_has(n, OPF_MOVES);
}

static bool convolves(const Node *dot)
{
    for (uint32_t k = 0; node_class(dot) == CLS_DOT && k < dot->nargs; k++)
        for (const Node *x = dot->args[k]; node_class(x) == CLS_VIEW; x = x->args[0])
            if (x->op == OP_window) return true;
    return false;
}

static Layout look(const Graph *g)
{
    const uint32_t n = g->nodes.n + 1;
    Layout l = {g, NEW_ARRAY(g->arena, uint32_t, n), NEW_ARRAY(g->arena, bool, n),
                NEW_ARRAY(g->arena, bool, n), NEW_ARRAY(g->arena, bool, n)};
    bool *live = NEW_ARRAY(g->arena, bool, n), *other = NEW_ARRAY(g->arena, bool, n);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->results.n; i++) other[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        bool window = x->op == OP_pad || x->op == OP_window;
        for (uint32_t k = 0; live[i] && k < x->nargs; k++) {
            const uint32_t a = x->args[k]->id;
            l.uses[a]++;
            l.last[a] |= !reorders(x);
            if (node_class(x) == CLS_VIEW && !k) {
                l.image[a] |= window || l.image[i];
                l.product[a] |= l.product[i];
                other[a] |= other[i];
            } else {
                l.product[a] |= convolves(x);
                other[a] |= node_class(x) != CLS_DOT;
            }
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) l.image[i] &= !other[i];
    return l;
}

static bool moves_through(const Layout *l, const Node *n)
{
    return node_class(n) == CLS_ELEMENTWISE && l->uses[n->id] == 1 && n->nargs <= MOST_ARGS;
}

// Applies the views v[n-1], ..., v[0] to x. If x is elementwise, they are applied to its operands
// instead, down to a limited depth.
static Node *viewed(const Layout *l, Graph *g, const Node *x, Node *const *v, int n,
                    Node *const *map, int depth)
{
    if (depth < MOST_DEPTH && moves_through(l, x)) {
        Node *args[MOST_ARGS];
        Attrs attrs = attrs_copy(x->attrs);
        for (uint32_t k = 0; k < x->nargs; k++)
            args[k] = viewed(l, g, x->args[k], v, n, map, depth + 1);
        graph_stamp(g, x, NULL);
        return graph_node(g, x->op, args, (int)x->nargs, &attrs);
    }
    Node *y = map[x->id];
    if (x->op == OP_broadcast && !x->args[0]->type.rank)
        return graph_broadcast_to(g, map[x->args[0]->id], &v[0]->type);
    for (int i = n; i-- > 0;) {
        graph_stamp(g, v[i], NULL);
        y = graph_node(g, v[i]->op, &y, 1, v[i]->attrs);
    }
    return y;
}

// Whether x is the result of a convolution and of elementwise code that its kernel includes: its
// other operands are the same for all pixels.
static bool ends_convolution(const Layout *l, const Node *x)
{
    while (moves_through(l, x)) {
        const Node *of = NULL;
        for (uint32_t k = 0; k < x->nargs; k++) {
            if (x->args[k]->op == OP_broadcast) continue;
            if (of) return false;
            of = x->args[k];
        }
        if (!of) return false;
        x = of;
    }
    return convolves(x) && l->uses[x->id] == 1;
}

static bool is_reordered_image(void *ctx, const Node *n)
{
    const Layout *l = ctx;
    return reorders(n) && (l->image[n->id] || l->product[n->id]);
}

static Node *stored_as_read(void *ctx, Graph *g, Node *n, Node *const *map)
{
    const Layout *l = ctx;
    Node *view[MOST_VIEWS];
    int count = 0;
    bool permutes = false;
    if (!is_reordered_image(ctx, n)) return NULL;
    Node *x = n;
    for (; reorders(x) && (x == n || l->uses[x->id] == 1); x = x->args[0]) {
        if (count == MOST_VIEWS) return NULL;
        view[count++] = x;
        permutes |= !node_keeps_all(x);
    }
    const bool merges = x->type.rank > IMAGE_AXES && n->type.rank <= IMAGE_AXES;
    if (l->image[n->id] && (permutes || merges) && moves_through(l, x) && !ends_convolution(l, x))
        return viewed(l, g, x, view, count, map, 0);
    Strides s;
    if (!permutes || !l->product[n->id] || !l->last[n->id] || strides_through(n, x, &s))
        return NULL;
    Node *y = graph_node(g, n->op, &map[n->args[0]->id], 1, n->attrs);
    graph_stamp(g, n, n->name);
    return graph_unary(g, OP_stop_gradient, y);
}

static Graph *layout_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    Layout l = look(g);
    return rewrite_nodes(g, done, is_reordered_image, stored_as_read, &l);
}

Graph *pass_layout(Graph *g, Module *m, const PassOptions *o)
{
    (void)m, (void)o;
    return over_regions(g, layout_graph, NULL);
}
