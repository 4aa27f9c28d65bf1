// Factors that a sum does not run over come out of it: sum(x * r) = r * sum(x) when r is one value
// a row. What is left under the sums of a backward part is then often the same, or needs no other
// reduction first, so that one round over memory takes them all.
//
// Requires: gradients expanded. Keeps: every value within rounding, f32 and f64 only. Breaks:
// nothing. Only the entry's own graph, loop bodies stay as they are.
#include <stdlib.h>

#include "passes/passes.h"

enum { MOST_FACTORS = 12, MOST_TERMS = 4 };

typedef struct Product {
    Node *varies[MOST_FACTORS];   // along the axes that are summed
    Node *constant[MOST_FACTORS]; // broadcasts along all of these axes
    int nvaries, nconstant;
    double scale;
} Product;

static bool is_axis(const int64_t *axes, int n, int64_t axis)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

static bool spread_over(const Node *b, const int64_t *axes, int naxes)
{
    int nd;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    for (int i = 0; i < nd; i++)
        if (b->args[0]->type.dim[i] != 1 && is_axis(axes, naxes, dims[i])) return false;
    return true;
}

// The factors of a product of products. false: too many, or nothing to take out.
static bool find_factors(Node *x, const int64_t *axes, int naxes, Product *p)
{
    Node *stack[MOST_FACTORS];
    int n = 0;
    double v;
    *p = (Product){.scale = 1};
    stack[n++] = x;
    while (n) {
        Node *y = stack[--n];
        if (n + 2 > MOST_FACTORS || p->nvaries == MOST_FACTORS || p->nconstant == MOST_FACTORS)
            return false;
        if (node_const_value(y, &v)) {
            p->scale *= v;
        } else if (y->op == OP_mul) {
            stack[n++] = y->args[0];
            stack[n++] = y->args[1];
        } else if (y->op == OP_neg) {
            p->scale = -p->scale;
            stack[n++] = y->args[0];
        } else if (y->op == OP_add && y->args[0] == y->args[1]) {
            p->scale *= 2;
            stack[n++] = y->args[0];
        } else if (y->op == OP_broadcast && spread_over(y, axes, naxes)) {
            p->constant[p->nconstant++] = y;
        } else {
            p->varies[p->nvaries++] = y;
        }
    }
    return p->nvaries > 0 && p->nconstant > 0;
}

// The broadcast without the axes that are summed: of the shape of the sum.
static Node *without_axes(Graph *g, const Node *b, const int64_t *axes, int naxes, const Type *out)
{
    int nd, kept = 0;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    int64_t dim[MAX_RANK], to[MAX_RANK];
    for (int i = 0; i < nd; i++) {
        if (is_axis(axes, naxes, dims[i])) continue;
        int before = 0;
        for (int k = 0; k < naxes; k++) before += axes[k] < dims[i];
        dim[kept] = b->args[0]->type.dim[i];
        to[kept++] = dims[i] - before;
    }
    Node *v = graph_reshape(g, b->args[0], kept, dim);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, out->dim, out->rank);
    attr_set_ints(g, &at, ATTR_dims, to, kept);
    return graph_node(g, OP_broadcast, &v, 1, &at);
}

static int by_id(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

// The sum n of a product.
static Node *sum_of(Graph *g, const Node *n, Product *p)
{
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    qsort(p->varies, (size_t)p->nvaries, sizeof *p->varies, by_id); // equal sums look equal
    Node *v = p->varies[0];
    for (int i = 1; i < p->nvaries; i++) v = graph_binary(g, OP_mul, v, p->varies[i]);
    v = graph_node(g, OP_sum, &v, 1, &n->attrs);
    for (int i = 0; i < p->nconstant; i++)
        v = graph_binary(g, OP_mul, v, without_axes(g, p->constant[i], axes, naxes, &n->type));
    if (p->scale == 1) return v;
    return graph_binary(g, OP_mul, v, graph_full_like(g, v, p->scale));
}

// The terms of a sum of sums. false: too many.
static bool find_terms(Node *x, Node **term, double *sign, int *nterms)
{
    Node *stack[MOST_TERMS];
    double signs[MOST_TERMS];
    int n = 0;
    *nterms = 0;
    signs[n] = 1;
    stack[n++] = x;
    while (n) {
        Node *y = stack[--n];
        double s = signs[n];
        if (y->op == OP_neg) {
            signs[n] = -s;
            stack[n++] = y->args[0];
        } else if (y->op == OP_add || y->op == OP_sub) {
            if (n + 2 > MOST_TERMS) return false;
            signs[n] = y->op == OP_sub ? -s : s;
            stack[n++] = y->args[1];
            signs[n] = s;
            stack[n++] = y->args[0];
        } else {
            int k = 0;
            while (k < *nterms && term[k] != y) k++;
            if (k == MOST_TERMS) return false;
            if (k == *nterms) {
                term[k] = y;
                sign[k] = 0;
                ++*nterms;
            }
            sign[k] += s;
        }
    }
    return true;
}

// x: the operand in the new graph. NULL: nothing comes out of the sum n. A sum of terms is taken
// apart only when something comes out of every one.
static Node *taken_out(Graph *g, const Node *n, Node *x)
{
    Product p[MOST_TERMS];
    Node *term[MOST_TERMS], *all = NULL;
    double sign[MOST_TERMS];
    int naxes, nterms;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    DType t = n->type.dtype;
    if ((t != DT_F32 && t != DT_F64) || x->type.dtype != t) return NULL;
    if (!find_terms(x, term, sign, &nterms)) return NULL;
    for (int i = 0; i < nterms; i++) {
        if (sign[i] == 0 || !find_factors(term[i], axes, naxes, &p[i])) return NULL;
        p[i].scale *= sign[i];
    }
    graph_stamp(g, n, NULL);
    for (int i = 0; i < nterms; i++) {
        Node *v = sum_of(g, n, &p[i]);
        all = all ? graph_binary(g, OP_add, all, v) : v;
    }
    return all;
}

Graph *pass_factor(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    Graph *dst = graph_new(g->arena, g->diags, g->symbols);
    Remap map = remap_begin(g, dst);
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Node *v = n->op == OP_sum ? taken_out(dst, n, map.map[n->args[0]->id]) : NULL;
        any |= v != NULL;
        if (v)
            map.map[i] = v;
        else
            remap_node(&map, n);
    }
    if (!any) return g;
    return graph_copy_live(remap_end(&map));
}
