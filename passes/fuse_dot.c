// Operands of a contraction: how they lie in memory, and giving an address to those that have none.
#include "passes/fuse.h"
#include "passes/regions.h"

typedef struct Layout { // elements between neighbours along each axis
    int rank;
    int64_t dim[MAX_RANK], stride[MAX_RANK];
} Layout;

static Layout row_major(const Type *t)
{
    Layout l = {.rank = t->rank};
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        l.dim[i] = t->dim[i];
        l.stride[i] = step;
        step *= t->dim[i];
    }
    return l;
}

static bool is_row_major(const Layout *l)
{
    int64_t step = 1;
    for (int i = l->rank - 1; i >= 0; i--) {
        if (l->dim[i] != 1 && l->stride[i] != step) return false;
        step *= l->dim[i];
    }
    return true;
}

// How n lies in memory when [stored] does row-major; false when a view between cannot be strides.
static bool layout_through(const Node *n, const Node *stored, Layout *l)
{
    enum { MOST = 32 };
    const Node *views[MOST];
    int nviews = 0, count;
    for (; n != stored; n = n->args[0]) {
        if (nviews == MOST) return false;
        views[nviews++] = n;
    }
    *l = row_major(&stored->type);
    while (nviews) {
        const Node *v = views[--nviews];
        Layout in = *l;
        if (v->op == OP_permute) {
            const int64_t *perm = attr_ints(v, ATTR_perm, &count);
            for (int i = 0; i < count; i++) {
                l->dim[i] = in.dim[perm[i]];
                l->stride[i] = in.stride[perm[i]];
            }
        } else if (v->op == OP_reshape) {
            if (!is_row_major(&in)) return false;
            *l = row_major(&v->type);
        } else {
            return false;
        }
    }
    return true;
}

// The axes as one: false when they are no single run. [stride] stays 0 for an extent of 1.
static bool one_run(const Layout *l, const int64_t *axes, int n, int64_t *stride)
{
    int64_t extent = 1;
    *stride = 0;
    for (int i = n - 1; i >= 0; i--) {
        int64_t d = l->dim[axes[i]], s = l->stride[axes[i]];
        if (d == 1) continue;
        if (extent == 1)
            *stride = s;
        else if (s != *stride * extent)
            return false;
        extent *= d;
    }
    return true;
}

static const Node *behind(const Node *n)
{
    while (node_has(n, OPF_STRIDES)) n = n->args[0];
    return n;
}

// The operand's axes are three runs, its contracted ones taken in the given order.
static bool reads_in_order(const Node *dot, int side, const Layout *l, const int *order)
{
    int nb, nc, nf = 0;
    const int64_t *b = attr_ints(dot, side ? ATTR_batch_b : ATTR_batch_a, &nb);
    const int64_t *c = attr_ints(dot, side ? ATTR_contract_b : ATTR_contract_a, &nc);
    int64_t free[MAX_RANK], run[MAX_RANK], sb, sc, sf;
    for (int i = 0; i < l->rank; i++) {
        bool used = false;
        for (int k = 0; k < nb; k++) used |= b[k] == i;
        for (int k = 0; k < nc; k++) used |= c[k] == i;
        if (!used) free[nf++] = i;
    }
    for (int i = 0; i < nc; i++) run[i] = c[order[i]];
    if (!one_run(l, b, nb, &sb) || !one_run(l, run, nc, &sc) || !one_run(l, free, nf, &sf))
        return false;
    return sc <= 1 || sf <= 1;
}

// The order in which the first operand stores its contracted axes; the second has to follow it.
static void contraction_order(const Node *dot, const Layout *a, int *order)
{
    int nc;
    const int64_t *c = attr_ints(dot, ATTR_contract_a, &nc);
    for (int i = 0; i < nc; i++) {
        int k = i;
        for (; k > 0 && a->stride[c[order[k - 1]]] < a->stride[c[i]]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

bool fuse_dot_reads(const Node *dot, int side, const Node *stored)
{
    Layout l, a;
    int order[MAX_RANK];
    if (!layout_through(dot->args[side], stored, &l)) return false;
    if (side) {
        const Node *first = behind(dot->args[0]);
        if (!fuse_dot_reads(dot, 0, first)) first = dot->args[0];
        layout_through(dot->args[0], first, &a);
    }
    contraction_order(dot, side ? &a : &l, order);
    return reads_in_order(dot, side, &l, order);
}

// Batch axes first, then the others as they stand where free and contracted ones do not mix, so
// that several contractions can share the copy; else free before contracted.
static Node *canonical_operand(Graph *g, const Node *dot, int side, Node *x, int64_t *place)
{
    int nb, nc, at = 0, changes = 0;
    const int64_t *b = attr_ints(dot, side ? ATTR_batch_b : ATTR_batch_a, &nb);
    const int64_t *c = attr_ints(dot, side ? ATTR_contract_b : ATTR_contract_a, &nc);
    int64_t perm[MAX_RANK];
    bool batch[MAX_RANK] = {0}, contracted[MAX_RANK] = {0}, ascending = true;
    for (int i = 0; i < nb; i++) batch[perm[at++] = b[i]] = true;
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
        for (int i = 0; i < x->type.rank; i++)
            if (!batch[i] && !contracted[i]) perm[at++] = i;
        for (int i = 0; i < nc; i++) perm[at++] = c[i];
    }
    for (int i = 0; i < at; i++) place[perm[i]] = i;
    return graph_permute(g, x, perm);
}

static bool dot_needs_order(const Node *dot, int side)
{
    return !fuse_dot_reads(dot, side, behind(dot->args[side])) &&
           !fuse_dot_reads(dot, side, dot->args[side]);
}

static Node *legal_dot(Graph *g, const Node *dot, Node *const *operands)
{
    static const AttrKey keys[2][2] = {{ATTR_batch_a, ATTR_contract_a},
                                       {ATTR_batch_b, ATTR_contract_b}};
    Node *args[2] = {operands[0], operands[1]};
    Attrs at = dot->attrs;
    for (int side = 0; side < 2; side++) {
        int64_t place[MAX_RANK], moved[MAX_RANK];
        if (!dot_needs_order(dot, side)) continue;
        args[side] = canonical_operand(g, dot, side, args[side], place);
        for (int k = 0; k < 2; k++) {
            int n;
            const int64_t *axes = attr_ints(dot, keys[side][k], &n);
            for (int i = 0; i < n; i++) moved[i] = place[axes[i]];
            attr_set_ints(g, &at, keys[side][k], moved, n);
        }
    }
    return graph_node(g, OP_dot, args, 2, &at);
}

static bool is_row_data(const Node *n, bool rows)
{
    return rows && node_is_data(n);
}

static bool wants_address(const Node *n)
{
    return n->op == OP_dot || n->op == OP_loop || n->op == OP_sort || n->op == OP_argsort;
}

typedef struct Legalize {
    bool rows;
    const Graph *outermost;
    const PassOptions *options;
} Legalize;

static bool is_illegal(const Legalize *l, const Node *n, bool rows)
{
    if (fuse_generated(l->options, n)) return false; // reads any expression
    for (uint32_t k = 0; k < n->nargs && wants_address(n); k++)
        if (is_row_data(n->args[k], rows)) return true;
    return n->op == OP_dot && (dot_needs_order(n, 0) || dot_needs_order(n, 1));
}

// Inputs read through the row table have no address: before a matmul or a loop they are copied. A
// matmul's operand whose axes no library can take is brought into order.
static Graph *legalize_graph(void *ctx, const IdMap *done, Graph *g)
{
    const Legalize *l = ctx;
    bool rows = l->rows && g == l->outermost, needed = false;
    for (uint32_t i = 0; i < g->nodes.n && !needed; i++) {
        needed = is_illegal(l, g->nodes.at[i], rows);
        for (uint32_t k = 0; k < g->nodes.at[i]->nregions; k++)
            needed |= rebuilt(done, g->nodes.at[i]->regions[k]) != g->nodes.at[i]->regions[k];
    }
    if (!needed) return g;
    Graph *dst = graph_new(g->arena, g->diags, g->symbols);
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
            if (!wants_address(n) || !is_row_data(n->args[k], rows)) continue;
            dst->loc = n->args[k]->loc;
            dst->role = n->role;
            dst->name = NULL;
            args[k] = graph_unary(dst, OP_stop_gradient, args[k]);
            if (!args[k]->name) args[k]->name = attr_str(n->args[k], ATTR_name);
        }
        dst->loc = n->loc;
        dst->role = n->role;
        dst->name = NULL;
        if (n->op == OP_dot)
            y = legal_dot(dst, n, args);
        else
            y = graph_region_node(dst, n->op, args, (int)n->nargs, &n->attrs, regions,
                                  (int)n->nregions);
        if (n->name && !y->name) y->name = n->name;
        r.map[n->id] = y;
    }
    for (uint32_t i = 0; i < g->results.n; i++)
        vec_push(g->arena, &dst->results, r.map[g->results.at[i]->id]);
    dst->loc = 0;
    dst->role = ROLE_FORWARD;
    dst->name = NULL;
    return dst;
}

Graph *fuse_legalize(Graph *g, bool rows, const PassOptions *o)
{
    Legalize l = {.rows = rows, .outermost = g, .options = o};
    return over_regions(g, legalize_graph, &l);
}
