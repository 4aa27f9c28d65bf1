// The sum of x - mean(x), which derivatives of a variance bring, is zero. And variance in one round
// over memory: the sum of (x - mean(x))^2 over some axes becomes sqdev(x), which needs no mean
// first; for columns on a GPU only, whatever wrote the formula: a row is kept on the chip while its
// mean is found, but columns would be read a second time.
//
// Behind `factor`, which leaves deviations alone under their sum.
// Requires: gradients expanded, no clones yet. Keeps: every finite value within rounding, f32 and
// f64 only. Breaks: nothing. Only the entry's own graph, loop bodies stay as they are.
#include <math.h>
#include <string.h>

#include "passes/passes.h"

static bool reduced(const int64_t *axes, int n, int axis)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

// Memory would be read again: the contiguous axis is not among those that are summed.
static bool are_columns(const Type *t, const int64_t *axes, int n)
{
    for (int i = t->rank - 1; i >= 0; i--)
        if (t->dim[i] != 1) return !reduced(axes, n, i);
    return false;
}

static bool same_axes(const Node *a, const Node *b)
{
    int n, m;
    const int64_t *x = attr_ints(a, ATTR_axes, &n), *y = attr_ints(b, ATTR_axes, &m);
    return n == m && !memcmp(x, y, sizeof *x * (size_t)n);
}

// Whether b repeats one value for each place off the axes over all of them.
static bool spreads(const Node *b, const Type *t, const int64_t *axes, int naxes)
{
    int nd, k = 0;
    if (b->op != OP_broadcast) return false;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    const Type *in = &b->args[0]->type;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 1 || reduced(axes, naxes, i)) continue;
        while (k < nd && in->dim[k] == 1) k++;
        if (k == nd || dims[k++] != i) return false;
    }
    while (k < nd && in->dim[k] == 1) k++;
    return k == nd;
}

// Whether b is the mean of x over the axes of the sum [like], repeated over them.
static bool is_mean(const Node *b, const Node *x, const Node *like)
{
    int naxes;
    const int64_t *axes = attr_ints(like, ATTR_axes, &naxes);
    double scale = 1, v;
    if (!spreads(b, &x->type, axes, naxes)) return false;
    for (b = b->args[0];;) {
        if (node_keeps_all(b)) {
            b = b->args[0];
        } else if (b->op == OP_mul && node_const_value(b->args[1], &v)) {
            scale *= v;
            b = b->args[0];
        } else if (b->op == OP_mul && node_const_value(b->args[0], &v)) {
            scale *= v;
            b = b->args[1];
        } else if (b->op == OP_div && node_const_value(b->args[1], &v)) {
            scale /= v;
            b = b->args[0];
        } else {
            break;
        }
    }
    if (b->op != OP_sum || b->args[0] != x || b->type.dtype != x->type.dtype || !same_axes(b, like))
        return false;
    double count = (double)type_count(&x->type) / (double)type_count(&b->type);
    // (1 / count was rounded to f32)
    return fabs(scale * count - 1) < 1.2e-7;
}

// x of x - mean(x) or mean(x) - x; NULL: d is no such thing.
static Node *centred(const Node *d, const Node *like)
{
    if (d->op != OP_sub) return NULL;
    for (int i = 0; i < 2; i++)
        if (is_mean(d->args[1 - i], d->args[i], like)) return d->args[i];
    return NULL;
}

// What the sum n is, with operand x in the new graph; NULL: no such sum. [columns]: of columns, in
// one round.
static Node *known_sum(Graph *g, const Node *n, Node *x, bool columns)
{
    DType t = n->type.dtype;
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    if ((t != DT_F32 && t != DT_F64) || x->type.dtype != t || !type_count(&x->type)) return NULL;
    graph_stamp(g, n, NULL);
    if (centred(x, n)) {
        Node *zero = graph_const(g, t, 0);
        return graph_broadcast_to(g, zero, &n->type);
    }
    if (!columns || x->op != OP_mul || x->args[0] != x->args[1]) return NULL;
    if (!are_columns(&x->type, axes, naxes)) return NULL;
    Node *from = centred(x->args[0], n);
    return from ? graph_reduce(g, OP_sqdev, from, axes, naxes, false) : NULL;
}

Graph *pass_moments(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    bool columns = o->target && o->target->kind == TARGET_CUDA;
    Graph *dst = graph_new(g->arena, g->diags, g->symbols);
    Remap map = remap_begin(g, dst);
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Node *v = n->op == OP_sum ? known_sum(dst, n, map.map[n->args[0]->id], columns) : NULL;
        any |= v != NULL;
        if (!v) {
            remap_node(&map, n);
            continue;
        }
        map.map[i] = v;
        node_pass_name(n, v);
    }
    if (!any) return g;
    return graph_copy_live(remap_end(&map));
}
